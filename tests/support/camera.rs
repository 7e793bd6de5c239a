//! What a kill of a writer would leave at each of its steps.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use arrowwood::simulate::{FsObserver, FsOp};

/// Copies what lies beside it at each step of a writer, as a kill there would leave it.
#[derive(Debug, Default)]
pub struct Camera {
    /// The folder of the table `ticks`, and the one that copies of both are put into.
    pub folders: Mutex<Option<(PathBuf, PathBuf)>>,
    pub shots: AtomicU64,
}

impl FsObserver for Camera {
    fn before_op(&self, _act: FsOp<'_>) -> std::io::Result<()> {
        let folders = self.folders.lock().unwrap();
        let Some((from, to)) = &*folders else { return Ok(()) };
        let shot = to.join(self.shots.fetch_add(1, Ordering::SeqCst).to_string());
        std::fs::create_dir_all(shot.join("ticks"))?;
        for folder in ["", "ticks"] {
            for file in std::fs::read_dir(from.join(folder))? {
                let file = file?;
                if file.file_type()?.is_file() {
                    std::fs::copy(file.path(), shot.join(folder).join(file.file_name()))?;
                }
            }
        }
        Ok(())
    }
}
