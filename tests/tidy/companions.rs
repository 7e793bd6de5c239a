//! Checks that the library knows nothing of the crates around it, its companions, and that no crate has public items
//! without documentation: what only the project's own tests need stands behind the feature `internal`.

use std::collections::BTreeSet;
use std::fs;

use crate::imports::has_word;
use crate::{code_of, crate_folders, read, root, sources};

/// The library, and what it is built on.
const CORE: [&str; 2] = ["crates/arrowwood", "crates/mapping"];

/// Files of the library whose errors name the command or the Python package in a remedy.
const REMEDY_FILES: &[&str] = &[
    "crates/arrowwood/src/array/value.rs",
    "crates/arrowwood/src/compute/expr/bound_expression.rs",
    "crates/arrowwood/src/compute/expr/literal.rs",
    "crates/arrowwood/src/files.rs",
    "crates/arrowwood/src/ipc/framing/sniff.rs",
    "crates/arrowwood/src/ipc/write/writer.rs",
    "crates/arrowwood/src/rows/read_rows.rs",
    "crates/arrowwood/src/table/check/segments.rs",
    "crates/arrowwood/src/table/reader/chain.rs",
    "crates/arrowwood/src/table/reader/recovery.rs",
    "crates/arrowwood/src/table/reader/segment.rs",
    "crates/arrowwood/src/table/writer/open.rs",
    "crates/arrowwood/src/table/writer/positions.rs",
];

/// What stands behind the feature `internal`, by crate, and why tests can do with nothing else.
const INTERNAL: &[(&str, &str, &str)] = &[
    ("crates/arrowwood", "compact_on medium", "tests record what is done to the disk, and refuse some of it"),
    (
        "crates/arrowwood",
        "CommitState MOST_POSITIONS Record publish record_len",
        "the model checker calls the functions that make a commit visible",
    ),
    ("crates/arrowwood", "simulate", "one place for what tests simulate"),
    ("crates/arrowwood", "simulate_elapsed simulate_rest", "footers rest for a minute"),
    ("crates/arrowwood", "zone_rows", "two zones of the usual size have 131,072 rows"),
    ("crates/mapping", "limit_mappings", "a process reaches the real limit with 65,530 mappings"),
    ("crates/mapping", "simulate_boot simulate_mount", "a test can't boot the machine, nor mount its disk elsewhere"),
    ("crates/objects", "poison", "bytes that were not fetched would pass for zeros of the object"),
    ("crates/serve", "FieldValue Line LineError each_line", "the parser is compared with another one, and fuzzed"),
    ("crates/serve", "medium", "as for `WriterOptions`"),
    ("crates/serve", "parse_call_target", "the parser of calls is fuzzed, without a server"),
];

/// Returns the folders of the companions.
fn companions() -> impl Iterator<Item = String> {
    crate_folders().into_iter().filter(|folder| !CORE.contains(&folder.as_str()))
}

/// Returns the value of the first `key = "…"` in a manifest.
fn manifest_value<'a>(manifest: &'a str, key: &str) -> Option<&'a str> {
    let line = manifest.lines().find_map(|line| line.strip_prefix(&format!("{key} = \"")))?;
    line.split('"').next()
}

/// Returns the names that the library must not know: the companions' folders, crates and features.
fn companion_names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for folder in companions() {
        let manifest = read(&format!("{folder}/Cargo.toml"));
        let crate_name = manifest_value(&manifest, "name").unwrap().to_owned();
        names.extend([crate_name.replace('-', "_"), format!("feature = \"{}\"", folder.rsplit('/').next().unwrap())]);
        names.extend([crate_name, folder]);
    }
    names
}

/// Returns the names that occur in a text as whole words.
fn names_in<'a>(text: &str, names: &'a BTreeSet<String>) -> Vec<&'a str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let occurs = |name: &str| {
        text.match_indices(name)
            .any(|(start, _)| !text[..start].ends_with(is_part) && !text[start + name.len()..].starts_with(is_part))
    };
    names.iter().map(String::as_str).filter(|name| occurs(name)).collect()
}

#[test]
fn the_library_names_no_companion() {
    let names = companion_names();
    assert!(names.len() > 15, "the search is broken: {names:?}");
    let features = read("crates/arrowwood/Cargo.toml");
    let features: Vec<&str> = features.lines().filter_map(|line| line.split_once(" = ")).map(|(key, _)| key).collect();
    for folder in companions() {
        let feature = folder.rsplit('/').next().unwrap();
        assert!(!features.contains(&feature), "the library has a feature or dependency '{feature}'");
    }
    for folder in CORE {
        for (path, text) in texts_in(folder) {
            let found = names_in(&text, &names);
            assert!(found.is_empty(), "{path} names {found:?}, which is built on it");
        }
    }
}

/// Returns the files of a crate, in any language: their paths in the repository, and their texts. Hidden folders belong to
/// other tests.
fn texts_in(folder: &str) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                let is_hidden = path.file_name().unwrap().to_str().unwrap().starts_with('.');
                folders.extend((!is_hidden).then_some(path));
            } else if let Ok(text) = fs::read_to_string(&path) {
                texts.push((path.strip_prefix(root()).unwrap().display().to_string(), text));
            }
        }
    }
    texts
}

#[test]
fn names_of_companions_are_found() {
    let names = companion_names();
    for text in [
        "arrowwood-serve = { path = \"../serve\" }",
        "use arrowwood_cli::run;",
        "#[cfg(feature = \"objects\")]",
        "include_str!(\"../../../bindings/c/include/arrowwood.h\")",
        "/// Set by `arrowwood-objects`.",
    ] {
        assert_eq!(names_in(text, &names).len(), 1, "{text}");
    }
    for text in ["arrowwood-mapping = \"1\"", "use arrowwood_clients::run;", "#[cfg(feature = \"table\")]"] {
        assert_eq!(names_in(text, &names), [""; 0], "{text}");
    }
}

#[test]
fn remedies_that_name_companions_are_listed() {
    let mut files = BTreeSet::new();
    for (path, text) in sources("crates/arrowwood/src").into_iter().chain(sources("crates/mapping/src")) {
        let code = code_of(&text);
        if code.contains("`arrowwood ") || has_word(&code, "Python") || has_word(&code, "aw") {
            files.insert(path.display().to_string());
        }
    }
    let listed = REMEDY_FILES.iter().map(|file| (*file).to_owned()).collect();
    let unlisted: Vec<_> = files.difference(&listed).collect();
    assert!(unlisted.is_empty(), "these name the command or Python: {unlisted:?}");
    let removed: Vec<_> = listed.difference(&files).collect();
    assert!(removed.is_empty(), "remove from REMEDY_FILES: {removed:?}");
}

/// Returns true if the code hides a public item from the documentation.
fn hides_items(code: &str) -> bool {
    code.contains("doc(hidden)")
}

#[test]
fn no_public_item_is_hidden() {
    for folder in crate_folders() {
        for (path, text) in sources(&format!("{folder}/src")) {
            let message = "document the item, or put it behind the feature `internal`";
            assert!(!hides_items(&code_of(&text)), "{}: {message}", path.display());
        }
    }
    assert!(hides_items(&code_of("#[doc(hidden)]\npub fn f() {}\n")));
    assert!(hides_items(&code_of("#[cfg_attr(x, doc(hidden))]\npub mod m {}\n")));
    assert!(!hides_items(&code_of("// #[doc(hidden)] is refused.\nfn f() {}\n")));
}

/// Returns the public items and fields in a file that only the feature `internal` adds.
fn internal_items(code: &str) -> BTreeSet<&str> {
    let mut items = BTreeSet::new();
    for (start, attribute) in code.match_indices("#[cfg(") {
        let (condition, rest) = code[start + attribute.len()..].split_once(")]\n").unwrap();
        if !condition.replace("not(feature = \"internal\")", "").contains("feature = \"internal\"") {
            continue;
        }
        let mut rest = rest.trim_start();
        while rest.starts_with("#[") {
            rest = rest.split_once('\n').unwrap().1.trim_start();
        }
        let Some(item) = rest.strip_prefix("pub ") else { continue };
        if let Some(names) = item.strip_prefix("use ") {
            let names = names.split(';').next().unwrap();
            let names = names.rsplit_once('{').map_or_else(|| names.rsplit("::").next().unwrap(), |(_, list)| list);
            let names = names.split(',').map(|name| name.trim().trim_end_matches('}').rsplit(' ').next().unwrap());
            items.extend(names.filter(|name| !name.is_empty()));
        } else {
            let mut words = item.split(|c: char| !c.is_alphanumeric() && c != '_');
            items.extend(words.find(|word| !["unsafe", "const", "fn", "mod", "struct", "enum"].contains(word)));
        }
    }
    items
}

#[test]
fn internal_items_are_listed() {
    let mut found = BTreeSet::new();
    for folder in crate_folders() {
        for (_, text) in sources(&format!("{folder}/src")) {
            let code = code_of(&text);
            found.extend(internal_items(&code).into_iter().map(|item| (folder.clone(), item.to_owned())));
        }
    }
    let listed: BTreeSet<_> = INTERNAL
        .iter()
        .flat_map(|(folder, names, _)| names.split_whitespace().map(|name| (folder.to_string(), name.to_owned())))
        .collect();
    let unlisted: Vec<_> = found.difference(&listed).collect();
    assert!(unlisted.is_empty(), "these are not in INTERNAL, with a reason: {unlisted:?}");
    let removed: Vec<_> = listed.difference(&found).collect();
    assert!(removed.is_empty(), "remove from INTERNAL: {removed:?}");
}

#[test]
fn internal_items_are_found() {
    let code = [
        "#[cfg(feature = \"internal\")]\n#[inline]\npub use a::{b, c as d};\n",
        "#[cfg(all(feature = \"x\", feature = \"internal\"))]\npub use e::f;\n",
        "impl G {\n    #[cfg(feature = \"internal\")]\n    pub unsafe fn h() {}\n}\n",
        "struct I {\n    #[cfg(feature = \"internal\")]\n    pub j: u8,\n}\n",
        "#[cfg(not(feature = \"internal\"))]\npub mod k {}\n",
        "#[cfg(feature = \"internal\")]\npub(super) fn l() {}\n",
    ]
    .concat();
    assert_eq!(Vec::from_iter(internal_items(&code)), ["b", "d", "f", "h", "j"]);
}

/// Returns the lines of a manifest that turn on a feature `internal` for others than the crate's own tests.
fn internal_lines(manifest: &str) -> Vec<&str> {
    let sections = manifest.split("\n[").filter(|section| !section.starts_with("dev-dependencies]"));
    let lines = sections.flat_map(str::lines).filter(|line| !line.starts_with(['#']));
    let lines = lines.filter(|line| !line.starts_with("internal = "));
    lines.filter(|line| line.contains("\"internal\"") || line.contains("/internal\"")).collect()
}

/// The model and the benchmarks turn the feature on.
#[test]
fn crates_are_shipped_without_internal_items() {
    for folder in crate_folders() {
        let manifest = read(&format!("{folder}/Cargo.toml"));
        assert_eq!(internal_lines(&manifest), [""; 0], "{folder}/Cargo.toml");
    }
    let manifest = "[features]\ninternal = [\"a/internal\"]\n\n[dev-dependencies]\nb = { features = [\"internal\"] }\n";
    assert_eq!(internal_lines(manifest), [""; 0]);
    for line in ["default = [\"internal\"]", "a = { features = [\"internal\"] }", "x = [\"a/internal\"]"] {
        assert_eq!(internal_lines(&format!("[features]\n{line}\n")), [line]);
    }
}
