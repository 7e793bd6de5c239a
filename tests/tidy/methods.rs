//! Finds methods that stand in another file than their type, and the files that call them.
//!
//! A call has no path to its file, so it is found by names. These are calls: `Type::method`; `word.method(` if the file
//! declares the word with the type (`word: &Type`), or it is `self` in a block of the type; and `.method(` behind
//! anything if no other type has a method of this name.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::{Crate, ModulePath, has_word, is_word_char, word_len};
use crate::without_visibility;

/// Methods that other crates' types have, too: their name alone tells nothing.
const STANDARD_METHODS: &[&str] = &["any", "fold", "join", "min"];

/// A block `impl Type { … }`, which implements no trait.
pub struct InherentImpl {
    /// The module of the block.
    pub module: ModulePath,
    pub type_name: String,
    /// The module that defines the type.
    pub type_module: ModulePath,
    methods: BTreeSet<String>,
}

/// The use of a method that stands in another module than its type.
pub struct MethodUse {
    pub user: ModulePath,
    /// The module of the method.
    pub used: ModulePath,
    pub type_module: ModulePath,
    /// `Type::method`
    pub method: String,
}

/// Returns the inherent `impl` blocks of a crate, except those that macros make.
pub fn inherent_impls(files: &Crate) -> Vec<InherentImpl> {
    let mut impls = Vec::new();
    for (module, code) in files.modules() {
        for block in impl_blocks(code).into_iter().filter(|block| !block.is_of_trait) {
            if let Some(type_module) = files.module_of_type(&block.type_path, module) {
                let type_name = block.type_path.last().unwrap().to_string();
                let methods = block.methods().map(str::to_owned).collect();
                impls.push(InherentImpl { module: module.clone(), type_name, type_module, methods });
            }
        }
    }
    impls
}

/// Returns the uses of methods that stand in another module than their type.
pub fn method_uses(files: &Crate) -> Vec<MethodUse> {
    let impls = inherent_impls(files);
    let distinct = distinct_methods(files);
    let mut uses = Vec::new();
    for (user, code) in files.modules() {
        let calls = Calls::find(code);
        for block in impls.iter().filter(|block| block.module != block.type_module && block.module != *user) {
            for name in &block.methods {
                // The file may have a method of this name for other features.
                let is_own = impls.iter().any(|other| {
                    other.module == *user && other.type_name == block.type_name && other.methods.contains(name)
                });
                let is_used = calls.has_method(&block.type_name, name, distinct.contains(name.as_str()));
                if is_used && !is_own {
                    let method = format!("{}::{name}", block.type_name);
                    let (used, type_module) = (block.module.clone(), block.type_module.clone());
                    uses.push(MethodUse { user: user.clone(), used, type_module, method });
                }
            }
        }
    }
    uses
}

/// Returns the names of methods that only one type of the crate has.
fn distinct_methods(files: &Crate) -> BTreeSet<&str> {
    let mut types: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (_, code) in files.modules() {
        for block in impl_blocks(code) {
            for method in block.methods() {
                types.entry(method).or_default().insert(block.type_path.last().unwrap());
            }
        }
    }
    types.retain(|method, types| types.len() == 1 && !STANDARD_METHODS.contains(method));
    types.into_keys().collect()
}

/// The calls in a file.
struct Calls<'a> {
    code: &'a str,
    /// The word before the dot, which may be empty, and the method.
    dotted: BTreeSet<(&'a str, &'a str)>,
    /// The type of the block around a call `self.method(`, and the method.
    on_self: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> Calls<'a> {
    fn find(code: &'a str) -> Calls<'a> {
        let mut on_self = BTreeSet::new();
        for block in impl_blocks(code) {
            let calls = dotted_calls(block.body).filter(|(receiver, _)| *receiver == "self");
            on_self.extend(calls.map(|(_, method)| (*block.type_path.last().unwrap(), method)));
        }
        Calls { code, dotted: dotted_calls(code).collect(), on_self }
    }

    /// Returns true if the file calls a method. If it is distinct, no other type has a method of this name.
    fn has_method(&self, type_name: &str, method: &str, is_distinct: bool) -> bool {
        self.on_self.contains(&(type_name, method))
            || has_word(self.code, &format!("{type_name}::{method}"))
            || self.dotted.iter().any(|&(receiver, called)| {
                called == method && (is_distinct || is_declared_with(self.code, receiver, type_name))
            })
    }
}

/// Returns the word before the dot and the method of each call `.method(` or `.method::<`.
pub fn dotted_calls(code: &str) -> impl Iterator<Item = (&str, &str)> {
    code.match_indices('.').filter_map(|(dot, _)| {
        let rest = &code[dot + 1..];
        let (method, after) = rest.split_at(word_len(rest));
        let before = code[..dot].trim_end();
        let receiver = &before[before.trim_end_matches(is_word_char).len()..];
        (!method.is_empty() && (after.starts_with('(') || after.starts_with("::<"))).then_some((receiver, method))
    })
}

/// Returns true if the code has `word: Type`, with or without `&`, `mut`, a lifetime and a path.
fn is_declared_with(code: &str, word: &str, type_name: &str) -> bool {
    let declaration = format!("{word}: ");
    !word.is_empty()
        && code.match_indices(&declaration).any(|(start, _)| {
            let rest = code[start + declaration.len()..].trim_start_matches('&');
            let rest = match rest.strip_prefix('\'') {
                Some(lifetime) => lifetime[word_len(lifetime)..].trim_start(),
                None => rest,
            };
            let rest = rest.strip_prefix("mut ").unwrap_or(rest);
            let path = &rest[..rest.find(|c| !is_word_char(c) && c != ':').unwrap_or(rest.len())];
            !code[..start].ends_with(is_word_char) && path.rsplit("::").next() == Some(type_name)
        })
}

/// An `impl` block in a file.
struct Block<'a> {
    /// The type, as the file calls it.
    type_path: Vec<&'a str>,
    is_of_trait: bool,
    body: &'a str,
    indent: usize,
}

impl<'a> Block<'a> {
    /// Returns the names of the block's functions.
    fn methods(&self) -> impl Iterator<Item = &'a str> {
        let indent = self.indent + 4;
        self.body.lines().filter_map(move |line| {
            let item = line.get(indent..).filter(|_| line[..indent].trim().is_empty())?;
            let mut item = without_visibility(item);
            for keyword in ["const ", "async ", "unsafe ", "extern \"C\" "] {
                item = item.strip_prefix(keyword).unwrap_or(item);
            }
            let name = item.strip_prefix("fn ")?;
            Some(&name[..word_len(name)])
        })
    }
}

/// Returns the `impl` blocks of formatted code: a block ends with a brace at the indentation at which it begins.
fn impl_blocks(code: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut line_start = 0;
    for line in code.split_inclusive('\n') {
        let item = line.trim_start();
        let header = item.strip_prefix("impl").filter(|rest| rest.starts_with([' ', '<']));
        let indent = line.len() - item.len();
        let header_start = line_start + indent + "impl".len();
        line_start += line.len();
        let Some(header_len) = header.and_then(|_| code[header_start..].find('{')) else { continue };
        let (header, body) = code[header_start..].split_at(header_len);
        let body = &body[..body.find(&format!("\n{}}}", &line[..indent])).unwrap_or(body.len())];
        let (is_of_trait, implementor) = implementor(header);
        let implementor = implementor.strip_prefix("dyn ").unwrap_or(implementor);
        let path_len = implementor.find(|c| !is_word_char(c) && c != ':').unwrap_or(implementor.len());
        let type_path: Vec<&str> = implementor[..path_len].split("::").collect();
        if !header.contains('$') && type_path.iter().all(|segment| !segment.is_empty()) {
            blocks.push(Block { type_path, is_of_trait, body, indent });
        }
    }
    blocks
}

/// Returns whether a block implements a trait, and the text from its type on. `header` is the text behind `impl`.
fn implementor(header: &str) -> (bool, &str) {
    let mut depth = 0;
    let mut start = 0;
    for (place, c) in header.char_indices() {
        match c {
            '<' => depth += 1,
            // The arrow of a function's type closes nothing.
            '>' if !header[..place].ends_with('-') => {
                depth -= 1;
                if depth == 0 && start == 0 && header.starts_with('<') {
                    start = place + 1;
                }
            }
            _ if depth == 0 && header[place..].starts_with(" for ") => {
                return (true, header[place + " for ".len()..].trim_start());
            }
            _ => {}
        }
    }
    (false, header[start..].trim_start())
}
