//! What is packaged is what belongs to the crate, whatever else lies in the checkout.

use std::fs;
use std::path::Path;
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The lines of `include = […]` in a manifest.
fn included(manifest: &str) -> Vec<String> {
    let list = manifest.split("include = [").nth(1).and_then(|rest| rest.split(']').next()).unwrap_or_default();
    list.split(',').map(|pattern| pattern.trim().trim_matches('"').to_owned()).filter(|p| !p.is_empty()).collect()
}

#[test]
fn patterns_begin_at_the_manifest() {
    // `LICENSE` is any file of that name, such as those of 248 packages in a virtual environment.
    let mut patterns = 0;
    for manifest in [
        "Cargo.toml",
        "cli/Cargo.toml",
        "serve/Cargo.toml",
        "capi/Cargo.toml",
        "python/Cargo.toml",
        "crates/mapping/Cargo.toml",
    ] {
        for pattern in included(&fs::read_to_string(Path::new(ROOT).join(manifest)).unwrap()) {
            assert!(pattern.starts_with('/'), "{manifest}: '{pattern}' matches anywhere; begin it with a slash");
            patterns += 1;
        }
    }
    assert!(patterns > 4, "the search is broken");
}

/// Files that nobody wants, removed at the end.
struct Decoy(std::path::PathBuf);

impl Drop for Decoy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_package_has_its_own_files_only() {
    if !Path::new(ROOT).join(".git").exists() {
        return; // a package, in which cargo packages nothing
    }
    let decoy = Decoy(Path::new(ROOT).join(format!(".decoy-{}", std::process::id())));
    for name in ["LICENSE", "CHANGELOG.md", "src/lib.rs", "docs/why.md"] {
        let path = decoy.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "not of the crate").unwrap();
    }
    let cargo = Command::new(env!("CARGO"))
        .args(["package", "--list", "--allow-dirty", "--offline", "--package", "arrowwood"])
        .current_dir(ROOT)
        .output()
        .unwrap();
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    let list = String::from_utf8(cargo.stdout).unwrap();
    let files = ["CHANGELOG.md", "Cargo.lock", "Cargo.toml", "Cargo.toml.orig", "LICENSE", "README.md"];
    for path in list.lines() {
        let is_known = files.contains(&path) || path == ".cargo_vcs_info.json";
        let is_inside = ["src/", "examples/", "docs/"].iter().any(|folder| path.starts_with(folder));
        assert!(is_known || is_inside, "{path} is no part of the crate");
    }
    for file in files.into_iter().chain(["src/lib.rs", "docs/format.md"]) {
        assert_eq!(list.lines().filter(|path| *path == file).count(), 1, "{file}");
    }
}
