//! Checks the rules of STYLE.md that a program can check.
//!
//! | file | rules about |
//! |---|---|
//! | `rooms`, `imports`, `methods` | which room of a crate uses which |
//! | `companions` | what the library and the crates around it know of each other |
//! | `page` | which room of the page uses which |
//! | `folders`, `packaged` | files in folders and packages |
//! | `documents`, `porting` | names in documents |
//! | `errors`, `main` | circles of files, `unsafe`, ignored errors and missing values, names of types |

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

mod companions;
mod documents;
mod errors;
mod folders;
mod imports;
mod methods;
mod packaged;
mod page;
mod porting;
mod rooms;

use imports::{Crate, find_cycles};

/// Files that may use each other, with the reason.
const ALLOWED_CYCLES: &[(&[&str], &str)] = &[
    (
        &["crates/arrowwood/src/array/gather.rs", "crates/arrowwood/src/array/merge_dictionaries.rs"],
        "the values of dictionaries that are merged are gathered as columns are, and may have dictionaries themselves",
    ),
    (
        &["crates/arrowwood/src/dataset/column.rs", "crates/arrowwood/src/dataset/dataset.rs"],
        "a dataset has columns, and a column is a dataset of one",
    ),
];

/// The only files that may have `unsafe` code.
const UNSAFE_FILES: &[&str] = &[
    "crates/mapping/src/guard.rs",
    "crates/mapping/src/sys.rs",
    "crates/mapping/src/checksum.rs",
    "crates/mapping/src/os/apple/files.rs",
    "crates/mapping/src/os/apple/machine.rs",
    "crates/mapping/src/os/apple/mounts.rs",
    "crates/mapping/src/os/apple/names.rs",
    "crates/mapping/src/os/apple/process.rs",
    "crates/mapping/src/os/apple/signals.rs",
    "crates/mapping/src/os/apple/wait.rs",
    "crates/mapping/src/os/apple/watch.rs",
    "crates/mapping/src/os/linux/blocks.rs",
    "crates/mapping/src/os/linux/memory.rs",
    "crates/mapping/src/os/linux/mounts.rs",
    "crates/mapping/src/os/linux/names.rs",
    "crates/mapping/src/os/linux/process.rs",
    "crates/mapping/src/os/linux/signals.rs",
    "crates/mapping/src/os/linux/statx.rs",
    "crates/mapping/src/os/linux/wait.rs",
    "crates/mapping/src/os/linux/watch.rs",
    "crates/mapping/src/os/portable/facts.rs",
    "crates/mapping/src/os/portable/memory.rs",
    "crates/mapping/src/os/unix/descriptor.rs",
    "crates/mapping/src/os/unix/faults.rs",
    "crates/mapping/src/os/unix/fork.rs",
    "crates/mapping/src/os/unix/memory.rs",
    "crates/mapping/src/os/unix/names.rs",
    "crates/mapping/src/os/unix/process.rs",
    "crates/mapping/src/os/windows/descriptor.rs",
    "crates/mapping/src/os/windows/faults.rs",
    "crates/mapping/src/os/windows/files.rs",
    "crates/mapping/src/os/windows/machine.rs",
    "crates/mapping/src/os/windows/memory.rs",
    "crates/mapping/src/os/windows/names.rs",
    "crates/mapping/src/os/windows/process.rs",
    "crates/mapping/src/reserve.rs",
    "crates/arrowwood/src/array/buffer.rs",
    "crates/arrowwood/src/array/unchecked.rs",
    "crates/arrowwood/src/array/checked.rs",
    "crates/arrowwood/src/rows/builder.rs",
    "crates/arrowwood/src/cdata.rs",
    "crates/arrowwood/src/cdata/import.rs",
    "bindings/python/src/exchange/buffer_protocol.rs",
    "bindings/python/src/exchange/memory.rs",
    "bindings/python/src/exchange/capsule.rs",
    "bindings/python/src/interpreter/lock.rs",
    "crates/datafusion/python/src/codec.rs",
    "bindings/c/src/ffi/mod.rs",
    "bindings/c/src/ffi/data.rs",
];

/// Files and functions with more lines get a warning, tests apart.
const MAX_FILE_LINES: usize = 750;
const MAX_FUNCTION_LINES: usize = 60;

/// Returns the folder of the repository.
fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().and_then(Path::parent).unwrap()
}

/// Reads a file of the repository.
fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// Returns the Rust files in a folder of the repository: their paths in the repository, and their texts.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                files.push((path.strip_prefix(root()).unwrap().to_path_buf(), text));
            }
        }
    }
    assert!(!files.is_empty(), "no sources in {folder}");
    files
}

/// Returns the folders of the library, of the crate below it, and of all crates on top of it.
fn crate_folders() -> Vec<String> {
    let mut crates = Vec::new();
    let mut folders = vec![root().join("crates"), root().join("bindings")];
    while let Some(folder) = folders.pop() {
        if folder.join("src").is_dir() && folder.join("Cargo.toml").is_file() {
            crates.push(folder.strip_prefix(root()).unwrap().display().to_string());
        }
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
        folders.extend(entries.filter(|path| path.is_dir() && !path.ends_with("src") && !path.ends_with("target")));
    }
    crates.sort_unstable();
    crates
}

fn all_sources() -> Vec<(PathBuf, String)> {
    crate_folders().iter().flat_map(|folder| sources(&format!("{folder}/src"))).collect()
}

/// Returns the text before the file's module of tests.
fn without_tests(text: &str) -> &str {
    // Some are compiled with other functions only.
    let marks = ["#[cfg(test)]\nmod tests", "#[cfg(all(test, arrowwood_portable))]\nmod tests"];
    marks.iter().fold(text, |text, mark| text.split(mark).next().unwrap())
}

/// Returns a line without its comment.
fn without_comment(line: &str) -> &str {
    line.split("//").next().unwrap()
}

/// Returns the text without comments and without the file's module of tests.
fn code_of(text: &str) -> String {
    without_tests(text).lines().map(|line| without_comment(line).to_owned() + "\n").collect()
}

#[test]
fn file_cycles_are_listed() {
    let mut cycles_found = Vec::new();
    let mut use_count = 0;
    for folder in crate_folders() {
        let files = Crate::read(&format!("{folder}/src"));
        let uses = files.uses();
        use_count += uses.values().map(|used| used.len()).sum::<usize>();
        for cycle in find_cycles(&uses) {
            let names: Vec<_> = cycle.iter().map(|path| path.display().to_string()).collect();
            if !ALLOWED_CYCLES.iter().any(|(allowed, _)| *allowed == names) {
                print_cycle(&cycle, &uses);
            }
            cycles_found.push(names);
        }
    }
    assert!(use_count > 2000, "only {use_count} uses found: the search is broken");
    let allowed: Vec<_> = ALLOWED_CYCLES.iter().map(|(files, _)| files.to_vec()).collect();
    assert_eq!(cycles_found, allowed);
}

fn print_cycle(cycle: &[&Path], uses: &BTreeMap<&Path, BTreeSet<&Path>>) {
    for file in cycle {
        let used: Vec<_> =
            uses[file].iter().filter(|used| cycle.contains(used)).map(|used| used.to_str().unwrap()).collect();
        println!("{} uses {}", file.display(), used.join(", "));
    }
    println!();
}

fn source(path: &str, code: &str) -> (PathBuf, String) {
    (PathBuf::from(path), code.to_owned())
}

fn cycles_of(files: &[&(PathBuf, String)]) -> Vec<Vec<String>> {
    let files = Crate::new(files.iter().map(|&file| file.clone()));
    let mut cycles = Vec::new();
    for cycle in find_cycles(&files.uses()) {
        cycles.push(cycle.into_iter().map(|path| path.display().to_string()).collect());
    }
    cycles
}

#[test]
fn cycles_are_found_through_reexports() {
    let root = source("crates/arrowwood/src/lib.rs", "mod room;\nmod above;\npub use room::Chair;\n");
    let room = source(
        "crates/arrowwood/src/room/mod.rs",
        "mod chair;\nmod table;\npub use chair::Chair;\npub use table::{Table as Desk};\n",
    );
    let chair = source("crates/arrowwood/src/room/chair.rs", "use super::{Desk, Other};\npub struct Chair;\n");
    let above = source("crates/arrowwood/src/above.rs", "use crate::room::{self, Desk};\nfn f() -> room::Chair {}\n");

    let table_with_chair = source(
        "crates/arrowwood/src/room/table.rs",
        "pub struct Table;\nimpl Table { fn f(self) -> crate::Chair {} }\n",
    );
    let cycles = cycles_of(&[&root, &room, &chair, &table_with_chair, &above]);
    assert_eq!(cycles, [["crates/arrowwood/src/room/chair.rs", "crates/arrowwood/src/room/table.rs"]]);

    let table = source("crates/arrowwood/src/room/table.rs", "pub struct Table;\npub(in crate::room) fn f() {}\n");
    assert!(cycles_of(&[&root, &room, &chair, &table, &above]).is_empty());

    // A name that `mod.rs` re-exports is also used by it if it occurs elsewhere in the file.
    let room_with_chair = source(
        "crates/arrowwood/src/room/mod.rs",
        "mod chair;\nmod table;\npub use chair::Chair;\npub use table::{Table as Desk};\npub struct Other(Chair);\n",
    );
    let cycles = cycles_of(&[&root, &room_with_chair, &chair, &table, &above]);
    assert_eq!(cycles, [["crates/arrowwood/src/room/chair.rs", "crates/arrowwood/src/room/mod.rs"]]);
}

#[test]
fn features_are_documented_and_checked() {
    let manifest = read("crates/arrowwood/Cargo.toml");
    let section = manifest.split("[features]\n").nth(1).unwrap().split("\n[").next().unwrap();
    let names = section.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name);
    let features: Vec<_> = names.filter(|name| !["default", "internal"].contains(name)).collect();
    let default_features = section.lines().find_map(|line| line.strip_prefix("default = ")).unwrap();
    assert_eq!(default_features, format!("{features:?}"));
    assert!(read("Makefile").contains(&format!("FEATURES := {}\n", features.join(" "))));
    let crate_docs = read("crates/arrowwood/src/lib.rs");
    for feature in features.into_iter().chain(["internal"]) {
        assert!(crate_docs.contains(&format!("\n//! | `{feature}` | ")), "{feature} in the crate's documentation");
    }
}

#[test]
fn unsafe_code_is_in_listed_files_with_proofs() {
    for (path, text) in all_sources() {
        let may_be_unsafe = UNSAFE_FILES.iter().any(|file| Path::new(file) == path);
        let lines: Vec<_> = text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let code = without_comment(line);
            let words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
            if !words.into_iter().any(|word| word == "unsafe") {
                continue;
            }
            let place = format!("{}:{}", path.display(), number + 1);
            assert!(may_be_unsafe, "{place}: unsafe code in a file that is not in UNSAFE_FILES");
            if code.contains("unsafe extern") || code.contains("unsafe fn") {
                continue;
            }
            let has_proof = lines[number.saturating_sub(8)..=number].iter().any(|line| line.contains("SAFETY:"));
            assert!(has_proof, "{place}: unsafe without a SAFETY proof");
        }
    }
}

/// Types that two files define. `arrowwood-mapping` is useful alone, so it has its own errors.
const SHARED_NAMES: [&str; 4] = ["Details", "Error", "ErrorKind", "Result"];

#[test]
fn no_two_types_share_a_name() {
    let mut places: BTreeMap<String, BTreeSet<PathBuf>> = BTreeMap::new();
    for (path, text) in sources("crates/arrowwood/src").into_iter().chain(sources("crates/mapping/src")) {
        // It has the types of `os/unix`, in the same places.
        if path.starts_with("crates/mapping/src/os/windows") {
            continue;
        }
        for line in code_of(&text).lines() {
            if let Some(name) = defined_type(line) {
                places.entry(name.to_owned()).or_default().insert(path.clone());
            }
        }
    }
    assert!(places.len() > 300, "types are found: {}", places.len());
    places.retain(|name, files| files.len() > 1 && !SHARED_NAMES.contains(&name.as_str()));
    assert!(places.is_empty(), "one concept, one name, one place: {places:#?}");
}

/// Returns the name of the type that a line defines, unless it is inside of a trait or a function.
fn defined_type(line: &str) -> Option<&str> {
    let item = without_visibility(line);
    let item = item.strip_prefix("unsafe ").unwrap_or(item);
    let name = ["struct ", "enum ", "trait ", "union ", "type "].iter().find_map(|kind| item.strip_prefix(kind))?;
    name.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// Returns a line without `pub` or `pub(…)`.
fn without_visibility(line: &str) -> &str {
    let Some(rest) = line.strip_prefix("pub") else { return line };
    let rest = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |(_, rest)| rest);
    rest.strip_prefix(' ').unwrap_or(line)
}

#[test]
fn defined_type_recognizes_definitions() {
    assert_eq!(defined_type("pub(in crate::table) struct Chain<'a> {"), Some("Chain"));
    assert_eq!(defined_type("pub unsafe trait Element: Copy {"), Some("Element"));
    assert_eq!(defined_type("type Places<T> = Box<[T]>;"), Some("Places"));
    assert_eq!(defined_type("    type Item = u8;"), None);
}

fn begins_function(line: &str) -> bool {
    let item = without_visibility(line);
    ["fn ", "unsafe fn ", "unsafe extern \"C\" fn "].iter().any(|start| item.starts_with(start))
}

/// Prints warnings: long files and functions are no errors.
#[test]
fn long_files_and_functions_get_a_warning() {
    let mut function_count = 0;
    for (path, text) in all_sources() {
        let code = without_tests(&text);
        let line_count = code.lines().count();
        if line_count > MAX_FILE_LINES {
            eprintln!("warning: {}: {line_count} lines", path.display());
        }
        for (start, len) in function_lengths(code) {
            function_count += 1;
            if len > MAX_FUNCTION_LINES {
                eprintln!("warning: {}:{}: {len} lines", path.display(), start + 1);
            }
        }
    }
    assert!(function_count > 3000, "only {function_count} functions found: the search is broken");
}

/// Returns the first line and the number of lines of each outermost function. Functions end with a brace at the indentation
/// at which they begin.
fn function_lengths(code: &str) -> Vec<(usize, usize)> {
    let mut lengths = Vec::new();
    let mut open_function = None;
    for (number, line) in code.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        if open_function.is_none() && begins_function(line.trim_start()) && !line.ends_with(';') {
            open_function = Some((number, indent));
        }
        let Some((start, indent)) = open_function else { continue };
        let is_one_line = number == start && line.trim_end().ends_with('}');
        if is_one_line || line.trim_end() == format!("{}}}", " ".repeat(indent)) {
            lengths.push((start, number - start + 1));
            open_function = None;
        }
    }
    lengths
}

#[test]
fn no_panicking_shortcuts_in_the_library() {
    for (path, text) in all_sources() {
        for (number, line) in without_tests(&text).lines().enumerate() {
            let code = without_comment(line);
            for shortcut in [".unwrap()", ".expect(", "panic!(", "todo!(", "unimplemented!("] {
                assert!(!code.contains(shortcut), "{}:{}: {shortcut}", path.display(), number + 1);
            }
        }
    }
}

/// An exception from a rule: a file, a part of a line in it, and the reason.
type Exception = (&'static str, &'static str, &'static str);

/// Lists where a missing value may count as zero or as nothing. Elsewhere, a default would hide a bug.
const ALLOWED_DEFAULTS: &[Exception] = &[
    (
        "crates/serve/src/view/charts/downsample_time.rs",
        "Ok(values.unwrap_or_default())",
        "a column without rows has no arrays",
    ),
    (
        "crates/arrowwood/src/rows/collect.rs",
        "values: values.unwrap_or_default()",
        "an array without rows may have no buffer",
    ),
    (
        "crates/arrowwood/src/table/writer/live/resume.rs",
        "newest: other.unwrap_or_default()",
        "no record: no row is durable",
    ),
    (
        "crates/arrowwood/src/types/parse.rs",
        "self.rest().get(1..)",
        "behind the end of a schema's text there is no more of it",
    ),
];

#[test]
fn defaults_of_missing_values_are_listed() {
    let mut is_used = [false; ALLOWED_DEFAULTS.len()];
    for (path, text) in all_sources() {
        let name = path.display().to_string();
        for (number, line) in without_tests(&text).lines().enumerate() {
            let code = without_comment(line);
            if !code.contains(".unwrap_or(0)") && !code.contains(".unwrap_or_default()") {
                continue;
            }
            let exception =
                ALLOWED_DEFAULTS.iter().position(|(file, snippet, _)| name == *file && code.contains(snippet));
            let Some(exception) = exception else {
                panic!("{name}:{}: assert, or list the default: {}", number + 1, code.trim())
            };
            is_used[exception] = true;
        }
    }
    assert_all_used(ALLOWED_DEFAULTS, &is_used);
}

/// Panics if an exception has become needless.
fn assert_all_used(exceptions: &[Exception], is_used: &[bool]) {
    for (exception, is_used) in exceptions.iter().zip(is_used) {
        assert!(is_used, "{exception:?} is no more");
    }
}

/// Finds calls that return false for a file if the system can't tell whether it exists.
#[test]
fn failed_calls_are_not_taken_for_absence() {
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
        "metadata().is_ok_and(|",
        "FileInfo::from_link(path).is_ok_and(",
    ];
    const ALLOWED: &[Exception] = &[
        ("crates/arrowwood/src/files.rs", "path.is_dir()", "names of directories in the advice of an error"),
        (
            "crates/mapping/src/os/linux/names.rs",
            ".exists()",
            "/proc, which is there from the start of a process to its end, or never",
        ),
        (
            "crates/mapping/src/disk/unfinished_file.rs",
            "FileInfo::from_link(path).is_ok_and(",
            "what can't be removed only costs space",
        ),
        (
            "crates/mapping/src/disk/directory_lock.rs",
            "metadata(&path).is_ok_and(",
            "what can't be removed only costs space",
        ),
        ("crates/mapping/src/unmapped_file.rs", "path.is_file()", "after another error, which is returned then"),
        ("crates/serve/src/catalog/directory.rs", "metadata(path).is_ok_and(", "the words of an error"),
    ];
    let mut is_used = [false; ALLOWED.len()];
    for (path, text) in all_sources() {
        let name = path.display().to_string();
        if !["crates/arrowwood/src/", "crates/mapping/", "crates/serve/src/", "crates/cli/src/"]
            .iter()
            .any(|place| name.starts_with(place))
        {
            continue;
        }
        for (number, line) in without_tests(&text).lines().enumerate() {
            let code = without_comment(line);
            for call in LOSE_ERRORS.iter().filter(|call| code.contains(*call)) {
                let exception = ALLOWED.iter().position(|(file, allowed, _)| *file == name && allowed == call);
                let Some(exception) = exception else {
                    panic!("{name}:{}: {call} loses errors; see `arrowwood::mapping::exists`", number + 1)
                };
                is_used[exception] = true;
            }
        }
    }
    assert_all_used(ALLOWED, &is_used);
}

/// Container images are built from what `.dockerignore` does not exclude.
#[test]
fn dockerignore_includes_each_workspace_member() {
    let dockerignore = read(".dockerignore");
    let manifest = read("Cargo.toml");
    let members = manifest.split("members = [").nth(1).and_then(|rest| rest.split(']').next()).unwrap();
    let members: Vec<_> = members.split('"').skip(1).step_by(2).collect();
    assert!(members.len() > 5, "the search is broken");
    for member in members {
        let folder = member.split('/').next().unwrap();
        assert!(dockerignore.lines().any(|line| line == format!("!{folder}")), ".dockerignore leaves {member} out");
    }
}
