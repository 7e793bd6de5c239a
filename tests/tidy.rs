//! The house rules that a program can check: data flows one way through the modules, `unsafe` stays behind its fences
//! with a proof each, files can be read at one sitting.

use std::fs;
use std::path::{Path, PathBuf};

/// The modules in reading order; each may use those before it and nothing behind it.
const ORDER: &[&[&str]] = &[
    &["error"],
    &["map"],
    &["parallel"],
    &["layout"],
    &["parse"],
    &["buffer"],
    &["value"],
    &["validate"],
    &["column", "dataset", "index", "row"],
    &["memory"],
    &["meaning"],
    &["display"],
    &["text"],
    &["sink"],
    &["feed"],
    &["csv"],
    &["json"],
    &["ipc"],
    &["table"],
    &["open"],
    &["check"],
    &["compute"],
    &["cdata"],
];

/// Where `unsafe` may stand, and nowhere else.
const FENCES: &[&str] = &[
    "src/map/guard.rs",
    "src/map/sys.rs",
    "src/map/os.rs",
    "src/buffer.rs",
    "src/cdata.rs",
    "python/src/export.rs",
    "python/src/exchange.rs",
];

/// Lines beyond which a file of code (tests apart) is no longer read at one sitting.
const LONGEST_FILE: usize = 750;
/// Lines beyond which a function wants to be two.
const LONGEST_FUNCTION: usize = 60;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(root()).unwrap().to_path_buf(), text));
            }
        }
    }
    assert!(!found.is_empty(), "no sources in {folder}");
    found
}

fn all_sources() -> Vec<(PathBuf, String)> {
    ["src", "cli/src", "python/src"].into_iter().flat_map(sources).collect()
}

/// The code before the file's own tests.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests").next().unwrap()
}

fn rank(module: &str) -> Option<usize> {
    ORDER.iter().position(|group| group.contains(&module))
}

#[test]
fn modules_use_only_what_comes_before() {
    for (path, text) in sources("src") {
        let parts: Vec<_> = path.iter().map(|part| part.to_str().unwrap()).collect();
        let module = parts[1].trim_end_matches(".rs");
        if module == "lib" {
            continue;
        }
        let own = rank(module).unwrap_or_else(|| panic!("{}: not in the order of tests/tidy.rs", path.display()));
        for (number, line) in without_tests(&text).lines().enumerate() {
            for used in line.split("crate::").skip(1) {
                let used: String = used.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
                let Some(theirs) = rank(&used) else { continue };
                assert!(theirs <= own, "{}:{}: {module} uses {used}, which comes after it", path.display(), number + 1);
            }
        }
    }
}

#[test]
fn unsafe_stays_behind_its_fences() {
    for (path, text) in all_sources() {
        let fenced = FENCES.iter().any(|fence| Path::new(fence) == path);
        let lines: Vec<_> = text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap();
            let words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
            if !words.into_iter().any(|word| word == "unsafe") {
                continue;
            }
            let place = format!("{}:{}", path.display(), number + 1);
            assert!(fenced, "{place}: unsafe outside of the fences");
            if code.contains("unsafe extern") || code.contains("unsafe fn") {
                continue;
            }
            let above = lines[number.saturating_sub(8)..=number].iter().any(|line| line.contains("SAFETY:"));
            assert!(above, "{place}: unsafe without a SAFETY proof");
        }
    }
}

#[test]
fn files_and_functions_can_be_read_at_one_sitting() {
    let mut lengths = Vec::new();
    for (path, text) in all_sources() {
        let code = without_tests(&text);
        let lines = code.lines().count();
        assert!(lines <= LONGEST_FILE, "{}: {lines} lines", path.display());
        let mut start = None;
        for (number, line) in code.lines().enumerate() {
            let indent = line.len() - line.trim_start().len();
            let begins =
                ["fn ", "pub fn ", "pub(super) fn ", "pub(crate) fn ", "unsafe fn ", "unsafe extern \"C\" fn "];
            if start.is_none()
                && begins.iter().any(|begin| line.trim_start().starts_with(begin))
                && !line.ends_with(';')
            {
                start = Some((number, indent));
            }
            if let Some((first, depth)) = start {
                let closed = line.trim_end() == format!("{}}}", " ".repeat(depth))
                    || (number == first && line.trim_end().ends_with('}'));
                if closed {
                    let length = number - first + 1;
                    assert!(length <= LONGEST_FUNCTION, "{}:{}: {length} lines", path.display(), first + 1);
                    lengths.push(length);
                    start = None;
                }
            }
        }
    }
    lengths.sort_unstable();
    let median = lengths[lengths.len() / 2];
    assert!(median <= 10, "the median function has {median} lines");
}

#[test]
fn no_panicking_shortcuts_in_the_library() {
    for (path, text) in all_sources() {
        for (number, line) in without_tests(&text).lines().enumerate() {
            let code = line.split("//").next().unwrap();
            for shortcut in [".unwrap()", ".expect(", "panic!(", "todo!(", "unimplemented!("] {
                assert!(!code.contains(shortcut), "{}:{}: {shortcut}", path.display(), number + 1);
            }
        }
    }
}
