//! Hands verbs that need an engine for SQL over to `arrowwood-datafusion`, the command with an engine, if it is
//! installed.

use std::env;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The command with DataFusion inside.
const PROGRAM: &str = "arrowwood-datafusion";

/// Returns true if the path is a file that somebody may execute.
fn is_program(path: &Path) -> bool {
    const EXECUTABLE: u32 = 0o111;
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & EXECUTABLE != 0)
}

/// Finds the command in the folder of this program, or on `PATH`.
fn find_program() -> Option<PathBuf> {
    let this_program = env::current_exe().ok()?;
    let mut folders: Vec<PathBuf> = this_program.parent().map(Path::to_path_buf).into_iter().collect();
    if let Some(path) = env::var_os("PATH") {
        folders.extend(env::split_paths(&path).filter(|folder| folder.is_absolute()));
    }
    folders.into_iter().map(|folder| folder.join(PROGRAM)).find(|path| is_program(path) && *path != this_program)
}

/// Replaces this process by the command with `args`, which begin with a program's name. Returns if there is none.
pub(crate) fn exec_datafusion(args: &[OsString]) {
    if let Some(program) = find_program() {
        // `exec` returns only if it fails, and then the verb reports what is missing.
        let _ = Command::new(program).args(args.iter().skip(1)).exec();
    }
}
