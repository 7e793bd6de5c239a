//! Checks that the library knows nothing of the crates around it, its companions, and that these use its public names.

use std::collections::BTreeSet;
use std::fs;

use crate::imports::{has_word, paths_from};
use crate::methods::dotted_calls;
use crate::{code_of, crate_folders, read, root, sources, without_visibility};

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

/// Hidden items of the library that companions use; each is to become public, or to go.
const HIDDEN_USES: &[(&str, &str)] = &[("crates/serve", "medium simulate")];

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

/// An item that is public, but not documented.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct HiddenItem<'a> {
    name: &'a str,
    /// A method or a field.
    is_member: bool,
}

/// Returns the hidden items in a file.
fn hidden_items(text: &str) -> Vec<HiddenItem<'_>> {
    let mut items = Vec::new();
    for (start, attribute) in text.match_indices("#[doc(hidden)]\n") {
        let line_start = text[..start].rfind('\n').map_or(0, |end| end + 1);
        let is_member = start > line_start;
        let mut rest = &text[start + attribute.len()..];
        while rest.trim_start().starts_with(['#', '/']) {
            rest = rest.split_once('\n').unwrap().1;
        }
        let item = without_visibility(rest.trim_start());
        if let Some(names) = item.strip_prefix("use ") {
            let names = names.split(';').next().unwrap();
            let names = names.rsplit_once('{').map_or_else(|| names.rsplit("::").next().unwrap(), |(_, list)| list);
            let names = names.split(',').map(|name| name.trim().trim_end_matches('}').rsplit(' ').next().unwrap());
            items.extend(names.filter(|name| !name.is_empty()).map(|name| HiddenItem { name, is_member }));
        } else {
            let words = item.split(|c: char| !c.is_alphanumeric() && c != '_');
            let name =
                words.into_iter().find(|word| !["unsafe", "const", "fn", "mod", "struct"].contains(word)).unwrap();
            items.push(HiddenItem { name, is_member });
        }
    }
    items
}

/// Returns true if the code uses a hidden item of the library.
fn uses_item(code: &str, item: &HiddenItem) -> bool {
    let HiddenItem { name, is_member } = item;
    if *is_member {
        let is_called = dotted_calls(code).any(|(_, method)| method == *name);
        return is_called || [format!("Error::{name}"), format!("{name}:")].iter().any(|use_| has_word(code, use_));
    }
    let mut paths = paths_from(code, "arrowwood").into_iter().chain(paths_from(code, "arrowwood_mapping"));
    paths.any(|path| path.iter().any(|segment| segment == name))
}

#[test]
fn uses_of_hidden_items_are_listed() {
    let core = [sources("crates/arrowwood/src"), sources("crates/mapping/src")].concat();
    let items: BTreeSet<HiddenItem> = core.iter().flat_map(|(_, text)| hidden_items(text)).collect();
    assert!(items.len() > 5, "only {} hidden items: the search is broken", items.len());
    let mut found = BTreeSet::new();
    for folder in companions() {
        for (_, text) in sources(&format!("{folder}/src")) {
            let code = code_of(&text);
            let used = items.iter().filter(|item| uses_item(&code, item));
            found.extend(used.map(|item| (folder.clone(), item.name)));
        }
    }
    let listed: BTreeSet<_> = HIDDEN_USES
        .iter()
        .flat_map(|(folder, names)| names.split_whitespace().map(|name| (folder.to_string(), name)))
        .collect();
    let unlisted: Vec<_> = found.difference(&listed).collect();
    assert!(unlisted.is_empty(), "these use hidden items of the library: {unlisted:?}");
    let removed: Vec<_> = listed.difference(&found).collect();
    assert!(removed.is_empty(), "remove from HIDDEN_USES: {removed:?}");
}

#[test]
fn hidden_items_and_their_uses_are_found() {
    let text = [
        "#[doc(hidden)]\n#[cfg(feature = \"x\")]\npub use a::{b, c as d};\n",
        "#[doc(hidden)]\npub use e::f;\n",
        "impl G {\n    #[doc(hidden)]\n    /// It.\n    pub unsafe fn h() {}\n}\n",
        "#[doc(hidden)]\npub mod i {}\n",
        "pub fn j() {}\n",
    ]
    .concat();
    let items = hidden_items(&text);
    let names: Vec<_> = items.iter().map(|item| (item.name, item.is_member)).collect();
    assert_eq!(names, [("b", false), ("d", false), ("f", false), ("h", true), ("i", false)]);
    let used = |code| items.iter().filter(|item| uses_item(code, item)).map(|item| item.name).collect::<Vec<_>>();
    assert_eq!(used("use arrowwood::{j, b};\nfn h() { arrowwood::i::k(); }\n"), ["b", "i"]);
    assert_eq!(used("use other::b;\nfn f(g: G) { g\n    .h(); }\n"), ["h"]);
}
