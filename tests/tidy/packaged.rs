//! Tests that packages contain only files of their crate, whatever else is in the checkout.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::root;

/// The folder of the library's crate.
const CRATE: &str = "crates/arrowwood";

/// Returns the patterns of `include = […]` in a manifest.
fn include_patterns(manifest: &str) -> Vec<String> {
    let list = manifest.split("include = [").nth(1).and_then(|rest| rest.split(']').next()).unwrap_or_default();
    let patterns = list.split(',').map(|pattern| pattern.trim().trim_matches('"').to_owned());
    patterns.filter(|pattern| !pattern.is_empty()).collect()
}

/// A pattern without a leading slash matches at all depths: `LICENSE` would include the licences of all packages in a
/// virtual environment.
#[test]
fn include_patterns_are_anchored() {
    let mut pattern_count = 0;
    for manifest in [
        "crates/arrowwood/Cargo.toml",
        "crates/cli/Cargo.toml",
        "crates/flight/Cargo.toml",
        "crates/serve/Cargo.toml",
        "bindings/c/Cargo.toml",
        "bindings/python/Cargo.toml",
        "crates/mapping/Cargo.toml",
    ] {
        for pattern in include_patterns(&fs::read_to_string(root().join(manifest)).unwrap()) {
            assert!(pattern.starts_with('/'), "{manifest}: '{pattern}' matches anywhere; begin it with a slash");
            pattern_count += 1;
        }
    }
    assert!(pattern_count > 4, "the search is broken");
}

/// A folder of files that must not be packaged. It is removed when it is dropped.
struct Decoy(PathBuf);

impl Drop for Decoy {
    fn drop(&mut self) {
        // A panic in `drop` would hide the failure of the test.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn package_has_only_files_of_the_crate() {
    if !root().join(".git").exists() {
        // Cargo packages nothing in an unpacked package.
        return;
    }
    let decoy = Decoy(root().join(CRATE).join(format!(".decoy-{}", std::process::id())));
    for name in ["LICENSE", "README.md", "src/lib.rs"] {
        let path = decoy.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "not of the crate").unwrap();
    }
    let cargo = Command::new(env!("CARGO"))
        .args(["package", "--list", "--allow-dirty", "--offline", "--package", "arrowwood"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    let list = String::from_utf8(cargo.stdout).unwrap();
    let root_files = ["Cargo.lock", "Cargo.toml", "Cargo.toml.orig", "LICENSE", "README.md"];
    for path in list.lines() {
        let is_root_file = root_files.contains(&path) || path == ".cargo_vcs_info.json";
        let is_in_folder = ["src/", "examples/"].iter().any(|folder| path.starts_with(folder));
        assert!(is_root_file || is_in_folder, "{path} is no part of the crate");
    }
    for file in root_files.into_iter().chain(["src/lib.rs"]) {
        assert_eq!(list.lines().filter(|path| *path == file).count(), 1, "{file}");
    }
}
