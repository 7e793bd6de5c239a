//! Checks that the calls of operating systems stand in one module, and that `docs/porting.md` lists each, for those who
//! port Arrowwood.

use std::collections::BTreeSet;

use crate::imports::word_len;
use crate::{all_sources, code_of, read};

/// The module that has them.
const FENCE: &str = "crates/mapping/src/os/";

/// What only code inside of the fence may name.
const SYSTEM_WORDS: [&str; 9] =
    ["std::os::", "libc::", "windows_sys::", "SYS_", "MetadataExt", "OsStrExt", "\"/proc", "\"/sys", "target_os"];

/// Files outside that name some nevertheless, and the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[];

/// Functions that the standard library provides on all systems.
const PORTABLE: [&str; 4] = ["close", "__errno_location", "__error", "syscall"];

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

/// Returns the lines of the files outside of the fence that name what only it may, but for the exceptions.
fn lines_outside(files: &[(String, String)], exceptions: &[(&str, &str, &str)]) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| !path.starts_with(FENCE)) {
        for line in code_of(text).lines() {
            let found = SYSTEM_WORDS.iter().find(|word| line.contains(**word));
            let is_exception = exceptions.iter().any(|(file, part, _)| file == path && line.contains(part));
            if found.is_some() && !is_exception {
                lines.push(format!("{path}: {}", line.trim()));
            }
        }
    }
    lines
}

#[test]
fn what_differs_between_systems_is_inside_of_the_fence() {
    let files: Vec<_> =
        all_sources().into_iter().map(|(path, text)| (path.to_str().unwrap().to_owned(), text)).collect();
    assert!(files.iter().any(|(path, _)| path.starts_with(FENCE)), "the fence has moved");
    let lines = lines_outside(&files, EXCEPTIONS);
    assert!(lines.is_empty(), "use a function of {FENCE}:\n{}", lines.join("\n"));
    for (file, part, _) in EXCEPTIONS {
        let is_used = files.iter().any(|(path, text)| path == file && code_of(text).contains(part));
        assert!(is_used, "{file} has no '{part}' any more");
    }
}

#[test]
fn words_of_a_system_are_found_outside_of_the_fence() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let files = [
        file("crates/mapping/src/os/linux/wait.rs", "libc::syscall(libc::SYS_futex)\n"),
        file(
            "crates/serve/src/a.rs",
            "// libc::open\nuse std::os::unix::fs::MetadataExt;\nfs::read(\"/proc/self\");\n",
        ),
        file("crates/serve/src/b.rs", "fn f() {}\n#[cfg(test)]\nmod tests {\n    use std::os::unix::fs::symlink;\n}\n"),
    ];
    assert_eq!(lines_outside(&files, &[]).len(), 2, "{:?}", lines_outside(&files, &[]));
    assert_eq!(lines_outside(&files, &[("crates/serve/src/a.rs", "MetadataExt", "a reason")]).len(), 1);
}
