//! Finds which file of a crate uses which.
//!
//! Paths are resolved as the compiler does, and followed through re-exports to the file that defines the item.
//! `methods.rs` finds uses without a path: calls of methods that a file adds to a type of another file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::{code_of, defined_type, sources, without_visibility};

/// The segments of a path in a crate, from its root on.
pub type ModulePath = Vec<String>;

/// Names in a file, and the items that they refer to.
type Names = BTreeMap<String, ModulePath>;

/// Returns the module that a file defines.
pub fn module_of(path: &Path) -> ModulePath {
    let parts = path.with_extension("");
    let parts: Vec<String> = parts.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
    let root = parts.iter().position(|part| part == "src").unwrap();
    let mut module = parts[root + 1..].to_vec();
    if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        module.pop();
    }
    module
}

/// Returns the paths in `code` that begin with `crate`, `super`, `self` or a name in `names`, with braces expanded.
fn resolve_paths(code: &str, names: &Names, module: &[String]) -> Vec<ModulePath> {
    let mut paths = Vec::new();
    for (colons, _) in code.match_indices("::") {
        let start = code[..colons].trim_end_matches(is_word_char).len();
        let first = &code[start..colons];
        let char_before = code[..start].chars().next_back();
        let is_known = ["crate", "super", "self"].contains(&first) || names.contains_key(first);
        // `pub(in crate::ipc)` uses nothing.
        if !is_known || char_before.is_some_and(|c| c == ':' || c == '$') || code[..start].ends_with("(in ") {
            continue;
        }
        let mut leaves = Vec::new();
        expand_braces(&code[start..], &mut Vec::new(), &mut leaves);
        paths.extend(leaves.into_iter().map(|leaf| absolute_path(&leaf.path, names, module)));
    }
    paths
}

/// Returns the names that the `use` declarations of `code` introduce.
fn imported_names(code: &str, names: &Names, module: &[String]) -> Names {
    let mut imported = Names::new();
    for (start, keyword) in code.match_indices("use ") {
        let tree = &code[start + keyword.len()..];
        let first = tree.split("::").next().unwrap();
        let is_known = ["crate", "super", "self"].contains(&first) || names.contains_key(first);
        let is_word = code[..start].chars().next_back().is_none_or(|c| c.is_whitespace());
        if !is_word || !is_known {
            continue;
        }
        let mut leaves = Vec::new();
        expand_braces(tree, &mut Vec::new(), &mut leaves);
        for leaf in leaves {
            let path = absolute_path(&leaf.path, names, module);
            // `use super::*` in a child of the root imports no name.
            if let Some(name) = leaf.alias.or_else(|| path.last().cloned()) {
                imported.insert(name, path);
            }
        }
    }
    imported
}

/// A path of a `use` tree without braces.
struct Leaf {
    path: ModulePath,
    /// The name after `as`.
    alias: Option<String>,
}

/// Adds the leaves of the path or `use` tree at the start of `code`; returns the code after it.
fn expand_braces<'a>(code: &'a str, prefix: &mut ModulePath, leaves: &mut Vec<Leaf>) -> &'a str {
    let code = code.trim_start();
    if let Some(mut rest) = code.strip_prefix('{') {
        loop {
            rest = expand_braces(rest, prefix, leaves).trim_start_matches(|c: char| c != ',' && c != '}');
            match rest.strip_prefix(',') {
                Some(next) => rest = next,
                None => return rest.get(1..).unwrap_or_default(),
            }
        }
    }
    let (segment, after) = code.split_at(word_len(code));
    if segment.is_empty() {
        leaves.push(Leaf { path: prefix.clone(), alias: None });
        return after;
    }
    // `self` in braces is the path before the braces.
    let is_self = segment == "self" && !prefix.is_empty();
    if !is_self {
        prefix.push(segment.to_owned());
    }
    let rest = match after.strip_prefix("::") {
        Some(inner) => expand_braces(inner, prefix, leaves),
        None => {
            let alias = after.trim_start().strip_prefix("as ").map(|name| name[..word_len(name)].to_owned());
            leaves.push(Leaf { path: prefix.clone(), alias });
            after
        }
    };
    if !is_self {
        prefix.pop();
    }
    rest
}

pub fn word_len(code: &str) -> usize {
    code.find(|c| !is_word_char(c)).unwrap_or(code.len())
}

pub fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Resolves a path in the file of `module`.
fn absolute_path(path: &[String], names: &Names, module: &[String]) -> ModulePath {
    if path[0] == "crate" {
        return path[1..].to_vec();
    }
    if let Some(target) = names.get(&path[0]) {
        return target.iter().chain(&path[1..]).cloned().collect();
    }
    let super_count = path.iter().take_while(|segment| *segment == "super").count();
    let ancestor = &module[..module.len().saturating_sub(super_count)];
    let keyword_count = super_count.max(usize::from(path[0] == "self"));
    ancestor.iter().chain(&path[keyword_count..]).cloned().collect()
}

/// A file of a crate.
struct File {
    path: PathBuf,
    code: String,
    /// The imported names, and the child modules.
    names: Names,
}

/// The files of a crate by the modules that they define.
pub struct Crate(BTreeMap<ModulePath, File>);

/// Re-exports of re-exports: more of them must be a cycle.
const MAX_REEXPORTS: usize = 20;

impl Crate {
    /// Creates a crate from paths, and code without comments and tests.
    pub fn new(files: impl IntoIterator<Item = (PathBuf, String)>) -> Crate {
        let files: Vec<_> = files.into_iter().map(|(path, code)| (module_of(&path), path, code)).collect();
        let modules: BTreeSet<ModulePath> = files.iter().map(|(module, ..)| module.clone()).collect();
        let mut by_module = BTreeMap::new();
        for (module, path, code) in files {
            let mut names = Names::new();
            for child in &modules {
                if let Some((name, parent)) = child.split_last()
                    && parent == module
                {
                    names.insert(name.clone(), child.clone());
                }
            }
            names.extend(imported_names(&code, &names, &module));
            let other_file = by_module.insert(module, File { path, code, names });
            assert!(
                other_file.is_none(),
                "two files are one module: the library's root and the program's, to be kept apart"
            );
        }
        Crate(by_module)
    }

    /// Reads the crate with the sources in a folder. Programs are left out, as their file is a second root.
    pub fn read(folder: &str) -> Crate {
        let files = sources(folder).into_iter().filter(|(path, _)| !path.ends_with("main.rs"));
        Crate::new(files.map(|(path, text)| (path, code_of(&text))))
    }

    /// Returns the modules that are files, with their code.
    pub fn modules(&self) -> impl Iterator<Item = (&ModulePath, &str)> {
        self.0.iter().map(|(module, file)| (module, file.code.as_str()))
    }

    /// Returns the file of the module.
    pub fn path_of(&self, module: &[String]) -> &Path {
        &self.0[module].path
    }

    /// Returns the module that defines the type called `path` in `module`; `None` if the crate does not define it.
    pub fn module_of_type(&self, path: &[&str], module: &ModulePath) -> Option<ModulePath> {
        let (&first, &name) = (path.first()?, path.last()?);
        let names = &self.0[module].names;
        let is_known = ["crate", "super", "self"].contains(&first) || names.contains_key(first);
        let path: Vec<_> = path.iter().map(|&segment| segment.to_owned()).collect();
        let target = if is_known { self.defining_module(&absolute_path(&path, names, module)) } else { module.clone() };
        if defines_type(&self.0[&target].code, name) {
            return Some(target);
        }
        // Imported by a glob.
        let mut defining = self.modules().filter(|(_, code)| defines_type(code, name)).map(|(module, _)| module);
        defining.next().filter(|_| defining.next().is_none()).cloned()
    }

    /// Returns the module whose file defines the item at `path`, followed through re-exports.
    fn defining_module(&self, path: &[String]) -> ModulePath {
        let mut path = path.to_vec();
        for _ in 0..MAX_REEXPORTS {
            let depth = (0..=path.len()).rev().find(|&depth| self.0.contains_key(&path[..depth])).unwrap_or(0);
            let (module, rest) = path.split_at(depth);
            let target = rest.first().and_then(|name| self.0[module].names.get(name));
            match target.filter(|target| target[..] != path[..=depth]) {
                Some(target) => path = target.iter().chain(&rest[1..]).cloned().collect(),
                None => return module.to_vec(),
            }
        }
        panic!("{} is re-exported in a circle", path.join("::"));
    }

    /// Returns the other files that each file uses.
    pub fn uses(&self) -> BTreeMap<&Path, BTreeSet<&Path>> {
        self.0.iter().map(|(module, file)| (file.path.as_path(), self.files_used_by(module, file))).collect()
    }

    fn files_used_by(&self, module: &ModulePath, file: &File) -> BTreeSet<&Path> {
        let paths = paths_used_by(module, file);
        let modules = paths.iter().map(|path| self.defining_module(path)).filter(|used| used != module);
        modules.map(|used| self.0[&used].path.as_path()).collect()
    }

    /// Returns the other modules that each module uses: those that define the items, and those that its paths name.
    pub fn module_uses(&self) -> BTreeSet<ModuleUse> {
        let mut uses = BTreeSet::new();
        for (module, file) in &self.0 {
            for path in paths_used_by(module, file) {
                let depth = (0..=path.len()).rev().find(|&depth| self.0.contains_key(&path[..depth])).unwrap_or(0);
                let defining = self.defining_module(&path);
                let named = path[..depth].to_vec();
                if named != *module || defining != *module {
                    uses.insert(ModuleUse { user: module.clone(), path, named, defining });
                }
            }
        }
        uses
    }
}

/// The use of an item of another module.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModuleUse {
    pub user: ModulePath,
    pub path: ModulePath,
    /// The module that the path names.
    pub named: ModulePath,
    /// The module that defines the item. It differs from `named` if that one re-exports the item.
    pub defining: ModulePath,
}

/// Returns the paths of all items that a file uses.
fn paths_used_by(module: &ModulePath, file: &File) -> Vec<ModulePath> {
    let (declarations, body) = split_declarations(&file.code);
    let mut paths = resolve_paths(&body, &file.names, module);
    for declaration in declarations {
        // A re-export alone is no use, unless the file has the name elsewhere, too.
        let is_reexport = declaration.starts_with("pub");
        for (name, path) in imported_names(declaration, &file.names, module) {
            if !is_reexport || has_word(&body, &name) {
                paths.push(path);
            }
        }
    }
    paths
}

/// Returns true if the code defines a type or trait called `name`.
fn defines_type(code: &str, name: &str) -> bool {
    code.lines().any(|line| defined_type(line.trim_start()) == Some(name))
}

/// Splits a file into its `use` declarations and the rest, without declarations of child modules.
fn split_declarations(code: &str) -> (Vec<&str>, String) {
    let mut declarations = Vec::new();
    let mut body = String::new();
    let mut rest = code;
    while let Some((line, after)) = rest.split_once('\n') {
        let item = without_visibility(line.trim_start());
        if item.starts_with("use ") && rest.contains(';') {
            let end = rest.find(';').unwrap() + 1;
            declarations.push(rest[..end].trim_start());
            rest = &rest[end..];
        } else if item.starts_with("mod ") && item.ends_with(';') {
            rest = after;
        } else {
            body.push_str(line);
            body.push('\n');
            rest = after;
        }
    }
    body.push_str(rest);
    (declarations, body)
}

/// Returns true if `code` contains `word` as a whole word.
pub fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(start, _)| {
        !code[..start].ends_with(is_word_char) && !code[start + word.len()..].starts_with(is_word_char)
    })
}

/// Returns the groups of files that all use each other, directly or indirectly; the files of each are sorted.
pub fn find_cycles<'a>(uses: &BTreeMap<&'a Path, BTreeSet<&'a Path>>) -> Vec<Vec<&'a Path>> {
    let reachable: BTreeMap<&Path, _> = uses.keys().map(|&file| (file, reachable_files(file, uses))).collect();
    let mut cycles = BTreeSet::new();
    for (&file, used) in &reachable {
        if used.contains(file) {
            let cycle: Vec<_> = used.iter().copied().filter(|other| reachable[other].contains(file)).collect();
            cycles.insert(cycle);
        }
    }
    cycles.into_iter().collect()
}

/// Returns the files that `start` uses, directly or indirectly.
fn reachable_files<'a>(start: &'a Path, uses: &BTreeMap<&'a Path, BTreeSet<&'a Path>>) -> BTreeSet<&'a Path> {
    let mut reached = BTreeSet::new();
    let mut pending = vec![start];
    while let Some(file) = pending.pop() {
        pending.extend(uses[file].iter().copied().filter(|used| reached.insert(*used)));
    }
    reached
}

#[test]
fn resolve_paths_expands_braces_and_super() {
    let module = ["table", "reader", "chain"].map(str::to_owned);
    let code = "use crate::ipc::{Ipc, read::{self, Options as O}};\n\
                use super::segment::Segment;\n\
                let x = super::super::format::f(1);";
    let paths = resolve_paths(code, &Names::new(), &module);
    let mut paths: Vec<String> = paths.into_iter().map(|path| path.join("::")).collect();
    paths.sort_unstable();
    let expected =
        ["ipc::Ipc", "ipc::read", "ipc::read::Options", "table::format::f", "table::reader::segment::Segment"];
    assert_eq!(paths, expected);
}
