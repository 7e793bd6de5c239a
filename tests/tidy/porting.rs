//! Whoever ports Arrowwood finds each call of the operating system in docs/porting.md.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        // What examples measure with is not ported.
        if path.is_dir() && !path.ends_with("examples") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The names of functions of libc that a text calls.
fn calls(code: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let call = |rest: &str| {
        let name: String = rest.chars().take_while(|&c| is_name(c)).collect();
        rest[name.len()..].starts_with('(').then_some(name)
    };
    code.split("libc::").skip(1).filter_map(call).collect()
}

#[test]
fn each_system_call_is_on_the_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/porting.md")).unwrap();
    let mut files = Vec::new();
    ["src", "crates"].iter().for_each(|folder| sources(&root.join(folder), &mut files));
    let texts = files.iter().map(|path| fs::read_to_string(path).unwrap());
    let all: BTreeSet<String> = texts.flat_map(|text| calls(&text)).collect();
    assert!(all.contains("mmap") && all.len() > 15, "the search is broken: {all:?}");
    // These two the standard library has everywhere.
    let is_plain = |name: &str| ["close", "__errno_location"].contains(&name);
    let missing: Vec<_> = all.iter().filter(|name| !is_plain(name) && !page.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "not on docs/porting.md: {missing:?}");
}
