//! Checks that `docs/porting.md` lists every system call, for those who port Arrowwood.

use std::collections::BTreeSet;

use crate::imports::word_len;
use crate::{all_sources, code_of, read};

/// Functions that the standard library provides on all systems.
const PORTABLE: [&str; 3] = ["close", "__errno_location", "syscall"];

/// Returns the names of libc functions that `code` calls.
fn libc_calls(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for rest in code.split("libc::").skip(1) {
        let (name, rest) = rest.split_at(word_len(rest));
        if rest.starts_with('(') && name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_') {
            names.insert(name.to_owned());
        }
    }
    names
}

/// Returns the names of system calls that `code` makes by number.
fn numbered_calls(code: &str) -> BTreeSet<String> {
    code.split("libc::SYS_").skip(1).map(|rest| rest[..word_len(rest)].to_owned()).collect()
}

#[test]
fn porting_page_lists_each_system_call() {
    let page = read("docs/porting.md");
    let mut calls = BTreeSet::new();
    for (_, text) in all_sources() {
        let code = code_of(&text);
        calls.extend(libc_calls(&code).into_iter().chain(numbered_calls(&code)));
    }
    for call in ["mmap", "futex", "statx"] {
        assert!(calls.contains(call), "the search is broken: {calls:?}");
    }
    calls.retain(|name| !PORTABLE.contains(&name.as_str()) && !page.contains(&format!("`{name}`")));
    assert!(calls.is_empty(), "not on docs/porting.md: {calls:?}");
}
