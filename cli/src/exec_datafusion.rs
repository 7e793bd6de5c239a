//! Verbs that need an engine for SQL are handed over to the command that has one inside, where that is installed.

use std::env;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The command with DataFusion inside.
const PROGRAM: &str = "arrowwood-datafusion";

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// Where it is: beside this program, or on `PATH`.
fn found() -> Option<PathBuf> {
    let own = env::current_exe().ok()?;
    let paths = env::var_os("PATH").unwrap_or_default();
    let beside = own.parent().map(Path::to_path_buf);
    let mut folders = beside.into_iter().chain(env::split_paths(&paths).filter(|path| path.is_absolute()));
    folders.find_map(|folder| Some(folder.join(PROGRAM)).filter(|path| is_program(path) && *path != own))
}

/// Becomes that command with `args`, which begin with a program's name; returns where there is none.
pub(crate) fn exec_datafusion(args: &[OsString]) {
    if let Some(program) = found() {
        // It only returns if it fails, and then the verb says what is missing.
        let _ = Command::new(program).args(args.iter().skip(1)).exec();
    }
}
