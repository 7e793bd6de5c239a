//! Tests that run in a process of their own, because they change or measure state of the whole process, such as its
//! simulated boot, its memory or its threads.

use std::process::{Command, Stdio};

/// The environment variable that is set in the process of a single test, to its name.
const TEST_NAME_VARIABLE: &str = "ARROWWOOD_TEST_ALONE";

/// Re-runs the calling test in a child process, where the rest of the test is executed.
///
/// Must be the first statement of the test. The parent process waits for the child, fails if it fails, and returns.
#[allow(unused_macros, reason = "not every test program has such tests")]
macro_rules! alone {
    () => {
        fn here() {}
        if !$crate::alone::is_alone(std::any::type_name_of_val(&here)) {
            return;
        }
    };
}

/// Returns the name of a test on the command line, given its path with the name of the crate.
pub fn test_name(path: &str) -> &str {
    path.split_once("::").expect("a path that begins with the crate").1
}

/// Returns true in the child process of the test. Otherwise runs the child, and panics unless it succeeds.
///
/// `marker` is the path of the function `here` inside the test, which is how the macro learns the test's name.
#[allow(dead_code, reason = "used by alone!")]
pub fn is_alone(marker: &str) -> bool {
    let name = test_name(marker).strip_suffix("::here").expect("a function in the test");
    if std::env::var_os(TEST_NAME_VARIABLE).is_some_and(|value| value == name) {
        return true;
    }
    let is_nocapture = std::env::args().any(|argument| argument == "--nocapture");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]).env(TEST_NAME_VARIABLE, name).stdin(Stdio::null());
    let output = if is_nocapture { command.spawn().unwrap().wait_with_output() } else { command.output() };
    let output = output.unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}, alone: {}\n{printed}", output.status);
    assert!(is_nocapture || printed.contains("1 passed"), "{name} is no test of this program\n{printed}");
    false
}
