//! The documents for developers name files, modules and items that exist.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::imports::module_of;
use crate::root;

const DOCUMENTS: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md", "STYLE.md"];
/// Paths that don't exist in a fresh checkout.
const GENERATED: &[&str] = &["build/site"];
/// Endings of files that the documents name without a folder.
const ENDINGS: &[&str] = &["c", "clj", "java", "json", "md", "mjs", "py", "pyi", "rs", "toml"];
/// Keywords before the name of an item.
const KEYWORDS: &[&str] = &["const", "enum", "fn", "macro_rules", "mod", "static", "struct", "trait", "type", "union"];

/// A source file of one of the crates.
struct Module {
    path: Vec<String>,
    code: String,
}

fn is_part_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn words(code: &str) -> Vec<&str> {
    code.split(|c| !is_part_of_word(c)).filter(|word| !word.is_empty()).collect()
}

impl Module {
    /// Returns true if the module defines `name` itself, or re-exports it.
    fn has_item(&self, name: &str) -> bool {
        let is_reexported = |declaration: &str| {
            let names = declaration.split(';').next().unwrap();
            let is_use = words(names).iter().take(4).any(|word| *word == "use");
            is_use && words(names).contains(&name)
        };
        let is_defined = |line: &str| !line.starts_with(' ') && defines(line, name);
        self.code.lines().any(is_defined) || self.code.split("\npub").skip(1).any(is_reexported)
    }

    /// Returns true if the module defines or implements the type `owner`, and has a member of the name `name`.
    fn has_member(&self, owner: &str, name: &str) -> bool {
        let is_of_owner = |line: &str| line.starts_with("impl") && words(line).contains(&owner);
        let is_member = |line: &str| line.starts_with(' ') && (defines(line, name) || is_variant(line, name));
        let is_home = || self.has_item(owner) || self.code.lines().any(is_of_owner);
        owner.starts_with(char::is_uppercase) && is_home() && self.code.lines().any(is_member)
    }
}

/// Returns true if `line` defines the item `name`.
fn defines(line: &str, name: &str) -> bool {
    line.contains(name) && words(line).windows(2).any(|pair| KEYWORDS.contains(&pair[0]) && pair[1] == name)
}

/// Returns true if `line` may be the variant `name` of an enum.
fn is_variant(line: &str, name: &str) -> bool {
    let rest = line.trim_start().strip_prefix(name).map(str::trim_start);
    name.starts_with(char::is_uppercase)
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([',', '(', '{', '=']))
}

/// Returns true if `path` is the end of a module's path, an item of such a module, or a member of a type.
fn exists(path: &[&str], modules: &[Module]) -> bool {
    let is_end = |module: &Module, end: &[&str]| {
        module.path.len() >= end.len() && module.path[module.path.len() - end.len()..].iter().eq(end.iter())
    };
    let (name, scope) = path.split_last().unwrap();
    modules.iter().any(|module| {
        is_end(module, path)
            || is_end(module, scope) && module.has_item(name)
            || scope.last().is_some_and(|owner| module.has_member(owner, name))
    })
}

/// The words of a document between backticks, outside of blocks of code.
fn quoted(document: &str) -> impl Iterator<Item = &str> {
    let text = document.split("\n```").step_by(2);
    text.flat_map(|text| text.split('`').skip(1).step_by(2))
}

/// Returns true if `name` is a path below the root, or the name of a file.
fn is_file_name(name: &str) -> bool {
    let is_path = name.chars().all(|c| is_part_of_word(c) || "-./".contains(c)) && !name.starts_with('/');
    let has_ending = name.rsplit_once('.').is_some_and(|(_, ending)| ENDINGS.contains(&ending));
    is_path && (has_ending || name.contains('/'))
}

/// The names in `document` that are neither a file or folder of `files` nor an item of `modules`.
fn unknown_names<'a>(document: &'a str, files: &[String], modules: &[Module]) -> Vec<&'a str> {
    let is_file = |name: &str| {
        let name = format!("/{}", name.trim_end_matches('/'));
        files.iter().any(|file| file.ends_with(&name) || file.contains(&format!("{name}/")))
            || GENERATED.contains(&&name[1..])
    };
    let is_unknown = |name: &&str| {
        let path: Vec<_> = name.trim_end_matches("()").split("::").collect();
        let is_path = path.len() > 1 && path.iter().all(|part| !part.is_empty() && part.chars().all(is_part_of_word));
        is_path && !exists(&path, modules) || is_file_name(name) && !is_file(name)
    };
    quoted(document).filter(is_unknown).collect()
}

#[test]
fn documents_name_what_exists() {
    if !root().join(".git").exists() {
        return;
    }
    let git = Command::new("git").arg("ls-files").current_dir(root()).output().unwrap();
    let files: Vec<_> = String::from_utf8(git.stdout).unwrap().lines().map(|file| format!("/{file}")).collect();
    let sources = files.iter().filter(|file| file.contains("/src/") && file.ends_with(".rs"));
    // A file that was just removed is still listed.
    let modules: Vec<_> = sources
        .filter_map(|file| {
            let code = fs::read_to_string(root().join(&file[1..])).ok()?;
            Some(Module { path: module_of(Path::new(file)), code })
        })
        .collect();
    let mut unknown = Vec::new();
    for name in DOCUMENTS {
        let document = fs::read_to_string(root().join(name)).unwrap();
        assert!(quoted(&document).count() > 20, "the search in {name} is broken");
        unknown.extend(unknown_names(&document, &files, &modules).into_iter().map(|found| format!("{name}: {found}")));
    }
    assert!(unknown.is_empty(), "names of nothing:\n{}", unknown.join("\n"));
}

#[test]
fn unknown_names_are_found() {
    let module = |path: &[&str], code: &str| Module {
        path: path.iter().map(|part| (*part).to_owned()).collect(),
        code: code.to_owned(),
    };
    let modules = [
        module(&["room"], "mod chair;\npub use chair::{Chair, Leg};\npub(crate) fn sit() {}\n"),
        module(&["room", "chair"], "pub enum Leg {\n    Short,\n    Long(u8),\n}\nimpl Chair {\n    fn fold() {}\n}\n"),
    ];
    let files = ["/src/room/mod.rs".to_owned(), "/src/room/chair.rs".to_owned()];
    let known = "`room::chair` `room::Chair` `room::sit()` `Chair::fold` `room::Leg::Short` `Leg::Long` `src/room/` `chair.rs` `cargo a::b`";
    assert_eq!(unknown_names(known, &files, &modules), [""; 0]);
    let unknown =
        "`room::table` `chair::sit` `room::fold` `Leg::None` `src/chair.rs` `table.rs`\n```\n`a::b`\n```\n`b::c`";
    let found = unknown_names(unknown, &files, &modules);
    assert_eq!(found, ["room::table", "chair::sit", "room::fold", "Leg::None", "src/chair.rs", "table.rs", "b::c"]);
}
