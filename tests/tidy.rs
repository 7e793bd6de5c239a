//! The house rules that a program can check: data flows one way through the modules, `unsafe` stays behind its fences
//! with a proof each, files can be read at one sitting.

use std::fs;
use std::path::{Path, PathBuf};

/// The rooms of the library, floor by floor: each uses those on lower floors, never one beside or above it.
const TOWER: &[&[&str]] = &[
    &["error"],
    &["map", "types"],
    &["array", "parallel"],
    &["dataset"],
    &["ipc", "compute", "text", "cdata"],
    &["rows"],
    &["table"],
    &["open"],
    &["check"],
];

/// The same inside of the rooms that have rooms of their own.
const INSIDE: &[(&str, &[&[&str]])] = &[
    ("ipc", &[&["framing"], &["read", "write"]]),
    ("compute", &[&["access", "kernels", "frame"], &["blocks"], &["select"], &["reduce"], &["group"], &["statistics"]]),
    ("table", &[&["format"], &["protocol"], &["reader"], &["writer"], &["check"]]),
];

/// Where `unsafe` may stand, and nowhere else.
const FENCES: &[&str] = &[
    "src/map/guard.rs",
    "src/map/sys.rs",
    "src/map/os.rs",
    "src/array/buffer.rs",
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

/// The code without comments, and without the file's own tests.
fn code_of(text: &str) -> String {
    without_tests(text).lines().map(|line| line.split("//").next().unwrap().to_owned() + "\n").collect()
}

/// The module that a file of `src` is, segment by segment.
fn module_of(path: &Path) -> Vec<String> {
    let parts = path.with_extension("");
    let mut parts: Vec<String> = parts.iter().skip(1).map(|part| part.to_str().unwrap().to_owned()).collect();
    if parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

/// The paths in `code` that begin with `crate` or `super`, braces multiplied out, as seen from the crate's root.
fn paths_in(code: &str, module: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for begin in ["crate::", "super::"] {
        for (at, _) in code.match_indices(begin) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '$') {
                continue;
            }
            let mut leaves = Vec::new();
            expand(&code[at..], &mut Vec::new(), &mut leaves);
            found.extend(leaves.into_iter().map(|leaf| absolute(&leaf, module)));
        }
    }
    found
}

/// The leaves of the path that `code` begins with; returns what comes behind it.
fn expand<'a>(code: &'a str, prefix: &mut Vec<String>, leaves: &mut Vec<Vec<String>>) -> &'a str {
    let mut code = code.trim_start();
    if let Some(mut rest) = code.strip_prefix('{') {
        loop {
            rest = expand(rest, prefix, leaves).trim_start_matches(|c: char| c != ',' && c != '}');
            match rest.strip_prefix(',') {
                Some(next) => rest = next,
                None => return rest.get(1..).unwrap_or_default(),
            }
        }
    }
    let len = code.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(code.len());
    if len == 0 {
        leaves.push(prefix.clone());
        return code;
    }
    prefix.push(code[..len].to_owned());
    code = &code[len..];
    let rest = match code.strip_prefix("::") {
        Some(inner) => expand(inner, prefix, leaves),
        None => {
            leaves.push(prefix.clone());
            code
        }
    };
    prefix.pop();
    rest
}

fn absolute(path: &[String], module: &[String]) -> Vec<String> {
    if path[0] == "crate" {
        return path[1..].to_vec();
    }
    let ups = path.iter().take_while(|segment| *segment == "super").count();
    let own = &module[..module.len().saturating_sub(ups)];
    own.iter().chain(&path[ups..]).cloned().collect()
}

fn floor(tower: &[&[&str]], room: &str) -> Option<usize> {
    tower.iter().position(|rooms| rooms.contains(&room))
}

/// Panics where `own` may not use `theirs`, which are rooms of `tower`.
fn check_arrow(tower: &[&[&str]], own: &str, theirs: &str, place: &dyn std::fmt::Display) {
    if own == theirs {
        return;
    }
    let here = floor(tower, own).unwrap_or_else(|| panic!("{place}: {own} is not in the tower of tests/tidy.rs"));
    let there = floor(tower, theirs).unwrap_or_else(|| panic!("{place}: {theirs}, used by {own}, is not in the tower"));
    assert!(there < here, "{place}: {own} uses {theirs}, which is not below it");
}

#[test]
fn rooms_use_only_what_is_below_them() {
    let mut arrows = 0;
    for (path, text) in sources("src") {
        let module = module_of(&path);
        if module[0] == "lib" {
            continue;
        }
        for used in paths_in(&code_of(&text), &module).into_iter().filter(|used| !used.is_empty()) {
            arrows += 1;
            check_arrow(TOWER, &module[0], &used[0], &path.display());
            let inside = INSIDE.iter().find(|(room, _)| *room == module[0] && used[0] == module[0]);
            let (Some((_, tower)), Some(own), Some(theirs)) = (inside, module.get(1), used.get(1)) else { continue };
            check_arrow(tower, own, theirs, &path.display());
        }
    }
    assert!(arrows > 500, "only {arrows} paths found: the search is broken");
}

#[test]
fn paths_are_found_in_braces_and_upwards() {
    let module = ["table", "reader", "chain"].map(str::to_owned);
    let code = "use crate::ipc::{Ipc, read::{self, Options as O}};\nuse super::segment::Segment;\nlet x = super::super::format::f(1);";
    let mut found: Vec<String> = paths_in(code, &module).into_iter().map(|path| path.join("::")).collect();
    found.sort_unstable();
    let wanted =
        ["ipc::Ipc", "ipc::read::Options", "ipc::read::self", "table::format::f", "table::reader::segment::Segment"];
    assert_eq!(found, wanted);
    let refused = |own: &'static str, theirs: &'static str| {
        std::panic::catch_unwind(|| check_arrow(TOWER, own, theirs, &"there")).is_err()
    };
    assert!(refused("array", "dataset") && refused("text", "ipc") && refused("rows", "Value"));
    assert!(!refused("table", "ipc") && !refused("ipc", "ipc"));
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

fn begins_function(line: &str) -> bool {
    let visible = line.strip_prefix("pub").unwrap_or(line);
    let hidden = visible.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(visible, |(_, rest)| rest);
    ["fn ", "unsafe fn ", "unsafe extern \"C\" fn "].iter().any(|begin| hidden.trim_start().starts_with(begin))
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
            if start.is_none() && begins_function(line.trim_start()) && !line.ends_with(';') {
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
