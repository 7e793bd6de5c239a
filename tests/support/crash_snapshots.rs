//! Copies of a table as a killed writer would leave it.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use arrowwood::simulate::{FsObserver, FsOp};

/// Copies the table `ticks` and the files next to it before each file system operation of its writer.
#[derive(Debug, Default)]
pub struct CrashSnapshots {
    recording: Mutex<Option<Recording>>,
}

#[derive(Debug)]
struct Recording {
    /// The parent directory of the table.
    source: PathBuf,
    /// The directory that the copies are made in, each in a subdirectory of its own.
    target: PathBuf,
    snapshots: Vec<PathBuf>,
}

impl CrashSnapshots {
    /// Begins to copy the files in `source` and `source/ticks` to new subdirectories of `target`.
    pub fn start(&self, source: &Path, target: &Path) {
        let recording = Recording { source: source.into(), target: target.into(), snapshots: Vec::new() };
        *self.recording.lock().unwrap() = Some(recording);
    }

    /// Stops copying; returns the directories of the copies, in the order of the operations.
    pub fn stop(&self) -> Vec<PathBuf> {
        let recording = self.recording.lock().unwrap().take();
        recording.expect("snapshots were started").snapshots
    }
}

impl FsObserver for CrashSnapshots {
    fn before_op(&self, _op: FsOp<'_>) -> std::io::Result<()> {
        match &mut *self.recording.lock().unwrap() {
            Some(recording) => recording.copy_files(),
            None => Ok(()),
        }
    }
}

impl Recording {
    fn copy_files(&mut self) -> std::io::Result<()> {
        let snapshot = self.target.join(self.snapshots.len().to_string());
        std::fs::create_dir_all(snapshot.join("ticks"))?;
        for directory in ["", "ticks"] {
            for entry in std::fs::read_dir(self.source.join(directory))? {
                let entry = entry?;
                if entry.file_type()?.is_file() {
                    std::fs::copy(entry.path(), snapshot.join(directory).join(entry.file_name()))?;
                }
            }
        }
        self.snapshots.push(snapshot);
        Ok(())
    }
}
