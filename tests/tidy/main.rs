//! The house rules that a program can check: data flows one way through the modules, `unsafe` stays behind its fences
//! with a proof each, files can be read at one sitting.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

mod errors;
mod imports;
mod packaged;
mod porting;

use imports::{Crate, circles, module_of, paths_in};

/// The rooms of the library, floor by floor: each uses those on lower floors, never one beside or above it.
const TOWER: &[&[&str]] = &[
    &["append_vec", "redact", "escape"],
    &["error"],
    &["map", "types", "blocking"],
    &["directory"],
    &["array", "parallel"],
    &["dataset"],
    &["ipc", "compute", "text", "cdata"],
    &["rows"],
    &["table"],
    &["files"],
    &["partitions"],
    &["open"],
    &["check"],
];

/// The same inside of the rooms that have rooms of their own.
const INSIDE: &[(&str, &[&[&str]])] = &[
    ("ipc", &[&["framing"], &["read", "write"]]),
    ("compute", &[&["kernels", "frame"], &["blocks"], &["select"], &["reduce"], &["group"], &["sort", "statistics"]]),
    ("table", &[&["format"], &["placement", "zones"], &["protocol"], &["reader"], &["writer"], &["check"]]),
];

/// The circles of files there are, each with the reason why it is honest: the things themselves are that way.
const CIRCLES: &[(&[&str], &str)] = &[
    (
        &["src/array/gather.rs", "src/array/merge_dictionaries.rs"],
        "the values of dictionaries that are merged are gathered as columns are, and may have dictionaries themselves",
    ),
    (&["src/dataset/column.rs", "src/dataset/dataset.rs"], "a dataset has columns, and a column is a dataset of one"),
];

/// Where `unsafe` may stand, and nowhere else.
const FENCES: &[&str] = &[
    "crates/mapping/src/guard.rs",
    "crates/mapping/src/sys.rs",
    "crates/mapping/src/checksum.rs",
    "crates/mapping/src/os.rs",
    "crates/mapping/src/reserve.rs",
    "src/array/buffer.rs",
    "src/array/unchecked.rs",
    "src/array/checked.rs",
    "src/rows/builder.rs",
    "src/cdata.rs",
    "src/cdata/import.rs",
    "python/src/buffer_protocol.rs",
    "python/src/memory.rs",
    "python/src/capsule.rs",
    "crates/datafusion/python/src/codec.rs",
    "capi/src/ffi/mod.rs",
    "capi/src/ffi/data.rs",
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
    [
        "crates/mapping/src",
        "crates/datafusion/src",
        "crates/datafusion/python/src",
        "crates/objects/src",
        "src",
        "cli/src",
        "python/src",
        "capi/src",
        "serve/src",
    ]
    .into_iter()
    .flat_map(sources)
    .collect()
}

/// The code before the file's own tests.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests").next().unwrap()
}

/// The code without comments, and without the file's own tests.
fn code_of(text: &str) -> String {
    without_tests(text).lines().map(|line| line.split("//").next().unwrap().to_owned() + "\n").collect()
}

fn floor(tower: &[&[&str]], room: &str) -> Option<usize> {
    tower.iter().position(|rooms| rooms.contains(&room))
}

/// Panics where `own` may not use `theirs`, which are rooms of `tower`.
fn check_arrow(tower: &[&[&str]], own: &str, theirs: &str, place: &dyn std::fmt::Display) {
    if own == theirs {
        return;
    }
    let here = floor(tower, own).unwrap_or_else(|| panic!("{place}: {own} is not in the tower of tests/tidy/main.rs"));
    let there = floor(tower, theirs).unwrap_or_else(|| panic!("{place}: {theirs}, used by {own}, is not in the tower"));
    assert!(there < here, "{place}: {own} uses {theirs}, which is not below it");
}

#[test]
fn rooms_use_only_what_is_below_them() {
    let mut arrows = 0;
    for (path, text) in sources("src") {
        let module = module_of(&path);
        if module.is_empty() {
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
    let wanted = ["ipc::Ipc", "ipc::read", "ipc::read::Options", "table::format::f", "table::reader::segment::Segment"];
    assert_eq!(found, wanted);
    let refused = |own: &'static str, theirs: &'static str| {
        std::panic::catch_unwind(|| check_arrow(TOWER, own, theirs, &"there")).is_err()
    };
    assert!(refused("array", "dataset") && refused("text", "ipc") && refused("rows", "Value"));
    assert!(!refused("table", "ipc") && !refused("ipc", "ipc"));
}

#[test]
fn no_circles_of_files_but_the_honest_ones() {
    let mut found = Vec::new();
    let folders = [
        "crates/mapping/src",
        "src",
        "crates/objects/src",
        "serve/src",
        "cli/src",
        "crates/datafusion/src",
        "capi/src",
        "python/src",
    ];
    for folder in folders {
        let files = sources(folder).into_iter().filter(|(path, _)| !path.ends_with("main.rs"));
        let files = Crate::new(files.map(|(path, text)| (path, code_of(&text))));
        let uses = files.uses();
        assert!(uses.values().map(|used| used.len()).sum::<usize>() > 10, "{folder}: the search is broken");
        for circle in circles(&uses) {
            let names: Vec<_> = circle.iter().map(|path| path.display().to_string()).collect();
            if CIRCLES.iter().any(|(honest, _)| *honest == names) {
                found.push(names);
                continue;
            }
            for file in &circle {
                let inside = uses[file].iter().filter(|used| circle.contains(used));
                println!(
                    "{} uses {}",
                    file.display(),
                    inside.map(|used| used.to_str().unwrap()).collect::<Vec<_>>().join(", ")
                );
            }
            println!();
            found.push(names);
        }
    }
    let honest: Vec<_> = CIRCLES.iter().map(|(files, _)| files.to_vec()).collect();
    assert_eq!(found, honest);
}

#[test]
fn circles_are_found_through_reexports() {
    let file = |path: &str, code: &str| (PathBuf::from(path), code.to_owned());
    let circles_of = |files: &[(PathBuf, String)]| -> Vec<Vec<String>> {
        let files = Crate::new(files.iter().cloned());
        let names = |circle: Vec<&Path>| circle.into_iter().map(|path| path.display().to_string()).collect();
        circles(&files.uses()).into_iter().map(names).collect()
    };
    let root = file("src/lib.rs", "mod room;\nmod above;\npub use room::Chair;\n");
    let room =
        file("src/room/mod.rs", "mod chair;\nmod table;\npub use chair::Chair;\npub use table::{Table as Desk};\n");
    let chair = file("src/room/chair.rs", "use super::{Desk, Other};\npub struct Chair;\n");
    let table = file("src/room/table.rs", "pub struct Table;\nimpl Table { fn f(self) -> crate::Chair {} }\n");
    let above = file("src/above.rs", "use crate::room::{self, Desk};\nfn f() -> room::Chair {}\n");
    let circle = ["src/room/chair.rs", "src/room/table.rs"].map(str::to_owned).to_vec();
    assert_eq!(circles_of(&[root.clone(), room.clone(), chair.clone(), table, above.clone()]), [circle]);
    let table = file("src/room/table.rs", "pub struct Table;\npub(in crate::room) fn f() {}\n");
    assert!(circles_of(&[root.clone(), room, chair.clone(), table.clone(), above.clone()]).is_empty());
    // What a folder's own file re-exports is a use where it has the name elsewhere too.
    let room =
        "mod chair;\nmod table;\npub use chair::Chair;\npub use table::{Table as Desk};\npub struct Other(Chair);\n";
    let room = file("src/room/mod.rs", room);
    let circle = ["src/room/chair.rs", "src/room/mod.rs"].map(str::to_owned).to_vec();
    assert_eq!(circles_of(&[root, room, chair, table, above]), [circle]);
}

#[test]
fn features_are_documented_and_checked() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let manifest = read("Cargo.toml");
    let section = manifest.split("[features]\n").nth(1).unwrap().split("\n[").next().unwrap();
    let named = section.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name);
    let features: Vec<_> = named.filter(|name| *name != "default").collect();
    let default = section.lines().find_map(|line| line.strip_prefix("default = ")).unwrap();
    assert_eq!(default, format!("{features:?}"));
    assert!(read("Makefile").contains(&format!("FEATURES := {}\n", features.join(" "))));
    let front_page = read("src/lib.rs");
    for feature in features {
        assert!(front_page.contains(&format!("\n//! | `{feature}` | ")), "{feature} in the crate's documentation");
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

/// Types of the library whose names stand in two files, and why. `arrowwood-mapping` is useful alone, so it has errors of its own.
const SHARED_NAMES: [&str; 4] = ["Details", "Error", "ErrorKind", "Result"];

#[test]
fn one_name_is_one_type() {
    let mut places: BTreeMap<String, BTreeSet<PathBuf>> = BTreeMap::new();
    for (path, text) in sources("src").into_iter().chain(sources("crates/mapping/src")) {
        for line in code_of(&text).lines() {
            if let Some(name) = type_of(line) {
                places.entry(name.to_owned()).or_default().insert(path.clone());
            }
        }
    }
    assert!(places.len() > 300, "types are found: {}", places.len());
    let is_shared = |name: &str| SHARED_NAMES.contains(&name);
    let twice: Vec<_> = places.iter().filter(|(name, files)| files.len() > 1 && !is_shared(name)).collect();
    assert!(twice.is_empty(), "one concept, one name, one place: {twice:#?}");
}

/// The name of the type that a line defines, but for those of traits.
fn type_of(line: &str) -> Option<&str> {
    let visible = line.strip_prefix("pub").unwrap_or(line);
    let hidden = visible.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(visible, |(_, rest)| rest);
    let hidden = if visible == line { line } else { hidden.strip_prefix(' ')? };
    let hidden = hidden.strip_prefix("unsafe ").unwrap_or(hidden);
    let name = ["struct ", "enum ", "trait ", "union ", "type "].iter().find_map(|kind| hidden.strip_prefix(kind))?;
    name.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

#[test]
fn types_are_found_by_their_lines() {
    assert_eq!(type_of("pub(in crate::table) struct Chain<'a> {"), Some("Chain"));
    assert_eq!(type_of("pub unsafe trait Element: Copy {"), Some("Element"));
    assert_eq!(type_of("type Places<T> = Box<[T]>;"), Some("Places"));
    assert_eq!(type_of("    type Item = u8;"), None);
}

fn begins_function(line: &str) -> bool {
    let visible = line.strip_prefix("pub").unwrap_or(line);
    let hidden = visible.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(visible, |(_, rest)| rest);
    ["fn ", "unsafe fn ", "unsafe extern \"C\" fn "].iter().any(|begin| hidden.trim_start().starts_with(begin))
}

#[test]
fn long_files_and_functions_are_warned_of() {
    let mut functions = 0;
    for (path, text) in all_sources() {
        let code = without_tests(&text);
        let lines = code.lines().count();
        if lines > LONGEST_FILE {
            eprintln!("warning: {}: {lines} lines", path.display());
        }
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
                    if length > LONGEST_FUNCTION {
                        eprintln!("warning: {}:{}: {length} lines", path.display(), first + 1);
                    }
                    functions += 1;
                    start = None;
                }
            }
        }
    }
    assert!(functions > 3000, "only {functions} functions found: the search is broken");
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

/// Where a missing value counts as zero or as nothing, with the reason. Elsewhere a default hides a bug of ours.
const DEFAULTS: &[(&str, &str, &str)] = &[
    ("serve/src/downsample_time.rs", "Ok(values.unwrap_or_default())", "a column without rows has no arrays"),
    ("src/rows/collect.rs", "values: values.unwrap_or_default()", "an array without rows may have no buffer"),
    ("src/table/writer/resume_segment.rs", "newest: other.unwrap_or_default()", "no record: no row is durable"),
    ("src/types/parse.rs", "self.rest().get(1..)", "behind the end of a schema's text there is no more of it"),
];

#[test]
fn defaults_of_missing_values_are_listed() {
    let mut used = [false; DEFAULTS.len()];
    for (path, text) in all_sources() {
        let name = path.display().to_string();
        for (number, line) in without_tests(&text).lines().enumerate() {
            let code = line.split("//").next().unwrap();
            if !code.contains(".unwrap_or(0)") && !code.contains(".unwrap_or_default()") {
                continue;
            }
            let listed = DEFAULTS.iter().position(|(file, snippet, _)| name == *file && code.contains(snippet));
            let Some(entry) = listed else {
                panic!("{name}:{}: assert, or list the default: {}", number + 1, code.trim())
            };
            used[entry] = true;
        }
    }
    for (entry, used) in DEFAULTS.iter().zip(used) {
        assert!(used, "{entry:?} is no more");
    }
}

/// Calls that take an error of the system for absence, and who may make them.
#[test]
fn no_failed_call_is_taken_for_absence() {
    const LOSE_ERRORS: &[&str] = &[
        ".exists()",
        "path.is_dir()",
        "path().is_dir()",
        "path.is_file()",
        "folder.is_dir()",
        "directory.is_dir()",
        "table.is_dir()",
        "metadata(path).is_ok_and(",
        "metadata(&path).is_ok_and(",
        "metadata().is_ok_and(|data",
    ];
    const MAY: &[(&str, &str, &str)] = &[
        ("src/files.rs", "path.is_dir()", "names of directories in the advice of an error"),
        (
            "crates/mapping/src/unfinished_file.rs",
            ".exists()",
            "/proc, which is there from the start of a process to its end, or never",
        ),
        (
            "crates/mapping/src/unfinished_file.rs",
            "metadata(path).is_ok_and(",
            "what can't be removed only costs space",
        ),
        (
            "crates/mapping/src/directory_lock.rs",
            "metadata(&path).is_ok_and(",
            "what can't be removed only costs space",
        ),
        ("crates/mapping/src/unmapped_file.rs", "path.is_file()", "after another error, which is returned then"),
        ("serve/src/catalog.rs", "metadata(path).is_ok_and(", "the words of an error"),
        ("cli/src/exec_datafusion.rs", "metadata().is_ok_and(|data", "programs are looked for as shells do it"),
    ];
    let mut used = [false; MAY.len()];
    for (path, text) in all_sources() {
        let name = path.display().to_string();
        if !["src/", "crates/mapping/", "serve/src/", "cli/src/"].iter().any(|place| name.starts_with(place)) {
            continue;
        }
        for (number, line) in without_tests(&text).lines().enumerate() {
            let code = line.split("//").next().unwrap();
            for call in LOSE_ERRORS.iter().filter(|call| code.contains(*call)) {
                let listed = MAY.iter().position(|(file, may, _)| *file == name && may == call);
                let listed = listed
                    .unwrap_or_else(|| panic!("{name}:{}: {call} loses errors; see `arrowwood::exists`", number + 1));
                used[listed] = true;
            }
        }
    }
    for (entry, used) in MAY.iter().zip(used) {
        assert!(used, "{entry:?} is no more");
    }
}

/// The images are built from what `.dockerignore` lets through.
#[test]
fn images_get_each_member_of_the_workspace() {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let let_through = read(".dockerignore");
    let manifest = read("Cargo.toml");
    let members = manifest.lines().find_map(|line| line.strip_prefix("members = [")).unwrap();
    let members: Vec<_> = members.split('"').skip(1).step_by(2).filter(|member| *member != ".").collect();
    assert!(members.len() > 5, "the search is broken");
    for member in members {
        let folder = member.split('/').next().unwrap();
        assert!(let_through.lines().any(|line| line == format!("!{folder}")), ".dockerignore leaves {member} out");
    }
}
