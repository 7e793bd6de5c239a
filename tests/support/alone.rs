//! Tests in a process of their own: those that change or measure something of the whole process, such as its boot, its
//! memory or its threads, while other tests run beside them.

use std::process::{Command, Stdio};

/// Set in the process of a single test, to its name.
const ALONE: &str = "ARROWWOOD_TEST_ALONE";

/// Runs the test that it begins in a process of its own; this one waits for it and fails if it fails.
#[allow(unused_macros, reason = "some programs of tests have no such tests")]
macro_rules! alone {
    () => {
        fn here() {}
        if !$crate::alone::is_alone(std::any::type_name_of_val(&here)) {
            return;
        }
    };
}

/// The name of a test for the command line, of its path in the program.
pub fn test_name(path: &str) -> &str {
    path.split_once("::").expect("a path that begins with the crate").1
}

/// Whether this process is that of the one test. Otherwise such a process has run, and has succeeded.
#[allow(dead_code, reason = "for alone!")]
pub fn is_alone(here: &str) -> bool {
    let name = test_name(here).strip_suffix("::here").expect("a function in the test");
    if std::env::var_os(ALONE).is_some_and(|alone| alone == name) {
        return true;
    }
    let is_shown = std::env::args().any(|argument| argument == "--nocapture");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]).env(ALONE, name).stdin(Stdio::null());
    let output = if is_shown { command.spawn().unwrap().wait_with_output() } else { command.output() };
    let output = output.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{name}, alone: {}\n{said}", output.status);
    assert!(is_shown || said.contains("1 passed"), "{name} is no test of this program\n{said}");
    false
}
