//! Which file uses which: paths as the compiler sees them, followed through re-exports to the file that has the item.
//! Methods that a file adds to a type of another are not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The module that a file is, segment by segment, as seen from its crate's root.
pub fn module_of(path: &Path) -> Vec<String> {
    let parts = path.with_extension("");
    let parts: Vec<String> = parts.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
    let root = parts.iter().position(|part| part == "src").unwrap();
    let mut module = parts[root + 1..].to_vec();
    if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        module.pop();
    }
    module
}

/// The paths in `code` that begin with `crate` or `super`, braces multiplied out, as seen from the crate's root.
pub fn paths_in(code: &str, module: &[String]) -> Vec<Vec<String>> {
    paths_from(code, &BTreeMap::new(), module)
}

/// The paths in `code` that begin with `crate`, `super`, `self` or a name of `known`.
fn paths_from(code: &str, known: &BTreeMap<String, Vec<String>>, module: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("::") {
        let start = code[..at].trim_end_matches(is_part_of_word).len();
        let (first, before) = (&code[start..at], code[..start].chars().next_back());
        let is_known = ["crate", "super", "self"].contains(&first) || known.contains_key(first);
        // `pub(in crate::ipc)` uses nothing.
        if !is_known || before.is_some_and(|c| c == ':' || c == '$') || code[..start].ends_with("(in ") {
            continue;
        }
        let mut leaves = Vec::new();
        expand(&code[start..], &mut Vec::new(), &mut leaves);
        found.extend(leaves.into_iter().map(|(leaf, _)| absolute(&leaf, known, module)));
    }
    found
}

/// What the `use` declarations of `code` bring in: each name, and the path of what it names.
fn imports_of(code: &str, known: &BTreeMap<String, Vec<String>>, module: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    for (at, _) in code.match_indices("use ") {
        let own = ["crate::", "super::", "self::"].iter().any(|begin| code[at + 4..].starts_with(begin));
        let first = code[at + 4..].split("::").next().unwrap();
        let is_word = code[..at].chars().next_back().is_none_or(|c| c.is_whitespace());
        if !is_word || !(own || known.contains_key(first)) {
            continue;
        }
        let mut leaves = Vec::new();
        expand(&code[at + 4..], &mut Vec::new(), &mut leaves);
        for (leaf, name) in leaves {
            let path = absolute(&leaf, known, module);
            found.insert(name.or_else(|| path.last().cloned()).unwrap_or_default(), path);
        }
    }
    found
}

/// A path, and the name that `as` gives it.
type Leaf = (Vec<String>, Option<String>);

/// The leaves of the path that `code` begins with; returns what comes behind it.
fn expand<'a>(code: &'a str, prefix: &mut Vec<String>, leaves: &mut Vec<Leaf>) -> &'a str {
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
    let len = word_len(code);
    if len == 0 {
        leaves.push((prefix.clone(), None));
        return code;
    }
    let is_self = &code[..len] == "self" && !prefix.is_empty();
    if !is_self {
        prefix.push(code[..len].to_owned());
    }
    code = &code[len..];
    let rest = match code.strip_prefix("::") {
        Some(inner) => expand(inner, prefix, leaves),
        None => {
            let name = code.trim_start().strip_prefix("as ").map(|name| name[..word_len(name)].to_owned());
            leaves.push((prefix.clone(), name));
            code
        }
    };
    if !is_self {
        prefix.pop();
    }
    rest
}

fn word_len(code: &str) -> usize {
    code.find(|c| !is_part_of_word(c)).unwrap_or(code.len())
}

fn is_part_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn absolute(path: &[String], known: &BTreeMap<String, Vec<String>>, module: &[String]) -> Vec<String> {
    if path[0] == "crate" {
        return path[1..].to_vec();
    }
    if let Some(begin) = known.get(&path[0]) {
        return begin.iter().chain(&path[1..]).cloned().collect();
    }
    let ups = path.iter().take_while(|segment| *segment == "super").count();
    let own = &module[..module.len().saturating_sub(ups)];
    let skipped = ups.max(usize::from(path[0] == "self"));
    own.iter().chain(&path[skipped..]).cloned().collect()
}

/// A file of a crate.
struct File {
    path: PathBuf,
    code: String,
    /// What each imported name, and each child module, names.
    names: BTreeMap<String, Vec<String>>,
}

/// The files of a crate by their modules.
pub struct Crate(BTreeMap<Vec<String>, File>);

impl Crate {
    /// Of paths and code without comments and tests.
    pub fn new(files: impl IntoIterator<Item = (PathBuf, String)>) -> Crate {
        let files: Vec<_> = files.into_iter().map(|(path, code)| (module_of(&path), path, code)).collect();
        let modules: BTreeSet<_> = files.iter().map(|(module, ..)| module.clone()).collect();
        let mut found = BTreeMap::new();
        for (module, path, code) in files {
            let children = modules.iter().filter(|child| child.split_last().is_some_and(|(_, above)| above == module));
            let mut names: BTreeMap<_, _> =
                children.map(|child| (child[child.len() - 1].clone(), child.clone())).collect();
            names.extend(imports_of(&code, &names, &module));
            let known = found.insert(module, File { path, code, names });
            assert!(
                known.is_none(),
                "two files are one module: the library's root and the program's, to be kept apart"
            );
        }
        Crate(found)
    }

    /// The module whose file has what `path` names, followed through re-exports.
    fn home(&self, path: &[String]) -> Vec<String> {
        let mut path = path.to_vec();
        for _ in 0..20 {
            let depth = (0..=path.len()).rev().find(|&depth| self.0.contains_key(&path[..depth])).unwrap_or(0);
            let (module, rest) = path.split_at(depth);
            let again = rest.first().and_then(|name| self.0[module].names.get(name));
            let again = again.filter(|again| again[..] != path[..=depth]);
            match again {
                Some(again) => path = again.iter().chain(&rest[1..]).cloned().collect(),
                None => return module.to_vec(),
            }
        }
        panic!("{} is re-exported in a circle", path.join("::"));
    }

    /// The other files that each file uses. A re-export is no use, unless the file has the name elsewhere too.
    pub fn uses(&self) -> BTreeMap<&Path, BTreeSet<&Path>> {
        let used = |(module, file): (&Vec<String>, &File)| {
            let (declarations, body) = declarations_of(&file.code);
            let mut paths = paths_from(&body, &file.names, module);
            for declaration in declarations {
                let imports = imports_of(declaration, &file.names, module);
                let is_reexport = declaration.starts_with("pub");
                let is_used = |name: &str| !is_reexport || has_word(&body, name);
                paths.extend(imports.into_iter().filter(|(name, _)| is_used(name)).map(|(_, path)| path));
            }
            let homes = paths.iter().map(|path| self.home(path)).filter(|home| home != module);
            homes.map(|home| self.0[&home].path.as_path()).collect()
        };
        self.0.iter().map(|entry| (entry.1.path.as_path(), used(entry))).collect()
    }
}

/// The `use` declarations of a file, and all else in it but its child modules.
fn declarations_of(code: &str) -> (Vec<&str>, String) {
    let mut declarations = Vec::new();
    let mut body = String::new();
    let mut rest = code;
    while let Some((line, after)) = rest.split_once('\n') {
        let visible = line.trim_start().strip_prefix("pub").map_or(line.trim_start(), |rest| {
            rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |(_, rest)| rest).trim_start()
        });
        if visible.starts_with("use ") && rest.contains(';') {
            let end = rest.find(';').unwrap() + 1;
            declarations.push(rest[..end].trim_start());
            rest = &rest[end..];
        } else if visible.starts_with("mod ") && visible.ends_with(';') {
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

fn has_word(code: &str, word: &str) -> bool {
    let is_whole = |at| !code[..at].ends_with(is_part_of_word) && !code[at + word.len()..].starts_with(is_part_of_word);
    code.match_indices(word).any(|(at, _)| is_whole(at))
}

/// The groups of files that all use each other, in however many steps; of each its files in order.
pub fn circles<'a>(uses: &BTreeMap<&'a Path, BTreeSet<&'a Path>>) -> Vec<Vec<&'a Path>> {
    let reach = |start: &'a Path| {
        let mut seen = BTreeSet::new();
        let mut open = vec![start];
        while let Some(file) = open.pop() {
            open.extend(uses[file].iter().copied().filter(|used| seen.insert(*used)));
        }
        seen
    };
    let reached: BTreeMap<&Path, _> = uses.keys().map(|&file| (file, reach(file))).collect();
    let mut found = BTreeSet::new();
    for (&file, seen) in &reached {
        if seen.contains(file) {
            found.insert(seen.iter().copied().filter(|other| reached[other].contains(file)).collect::<Vec<_>>());
        }
    }
    found.into_iter().collect()
}
