//! Tests of names and locks while other processes interfere: directories are renamed, names are taken, processes fork.

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use arrowwood_mapping::{
    DirectoryLock, FileSystem, FsObserver, FsOp, SharedFile, StagingDirectory, is_moved_directory,
};

/// A timeout for failures: longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(120);

fn create_file(medium: &FileSystem, folder: &Path, byte: u8) -> SharedFile {
    let store = SharedFile::create(medium, folder, 4096).unwrap();
    store.write(0, &[byte]).unwrap();
    store
}

fn first_byte(path: &Path) -> u8 {
    fs::read(path).unwrap()[0]
}

#[test]
fn link_at_does_not_replace_a_file() {
    let home = tempfile::tempdir().unwrap();
    let table = home.path().join("ticks");
    fs::create_dir(&table).unwrap();
    let (name, next) = (table.join("0.arrow"), home.path().join(".ticks.0.next"));
    fs::write(&name, "other").unwrap();
    let medium = FileSystem::default();
    let store = create_file(&medium, &table, b'1');
    assert_eq!(store.link_at(&name).unwrap_err().kind(), ErrorKind::AlreadyExists);
    let store = create_file(&medium, &table, b'2');
    store.link_temporarily(&next).unwrap();
    assert_eq!(store.link_at(&name).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(&name).unwrap(), "other");
    drop(store);
    assert!(!next.exists());
    // A file system without such renames uses links: after a kill, both names are of the same file.
    fs::hard_link(&name, &next).unwrap();
    medium.rename_noreplace(&next, &name).unwrap();
    assert!(name.exists() && !next.exists());
}

/// If two directories had the same name, the temporary name beside them may belong to another writer's file.
#[test]
fn link_at_does_not_rename_another_file() {
    let home = tempfile::tempdir().unwrap();
    let table = home.path().join("ticks");
    fs::create_dir(&table).unwrap();
    let (name, next) = (table.join("0.arrow"), home.path().join(".ticks.0.next"));
    let store = create_file(&FileSystem::default(), &table, b'1');
    store.link_temporarily(&next).unwrap();
    fs::remove_file(&next).unwrap();
    fs::write(&next, "another writer's").unwrap();
    assert!(store.link_at(&name).is_err());
    assert!(!name.exists());
    assert_eq!(fs::read_to_string(&next).unwrap(), "another writer's");
}

#[test]
fn files_are_not_named_in_a_directory_that_took_the_name_of_the_locked_one() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().canonicalize().unwrap();
    let (table, old) = (home.join("ticks"), home.join("ticks.old"));
    fs::create_dir(&table).unwrap();
    let lock = DirectoryLock::try_acquire(&FileSystem::default(), &table).unwrap().unwrap();
    let medium = lock.medium();
    create_file(medium, &table, b'1').link_at(&table.join("0.arrow")).unwrap();
    fs::rename(&table, &old).unwrap();
    fs::create_dir(&table).unwrap();
    fs::write(table.join("0.arrow"), "other").unwrap();
    // Files are still created and opened in the locked directory.
    let created = create_file(medium, &table, b'2');
    assert!(is_moved_directory(&created.link_at(&table.join("1.arrow")).unwrap_err()));
    let opened = SharedFile::open(medium, &table.join("0.arrow")).unwrap();
    let mut byte = [0];
    opened.read(0, &mut byte).unwrap();
    assert_eq!(byte, [b'1']);
    let error = medium.remove(&table.join("0.arrow")).unwrap_err();
    assert!(is_moved_directory(&error), "{error}");
    // Not every system knows where the directory is now.
    let expected = if cfg!(arrowwood_portable) { "was removed or renamed" } else { old.to_str().unwrap() };
    assert!(error.to_string().contains(expected), "{error}");
    assert!(is_moved_directory(&medium.rename(&table.join("0.arrow"), &table.join("1.arrow")).unwrap_err()));
    assert!(is_moved_directory(&medium.rename_noreplace(&table.join("0.arrow"), &table.join("1.arrow")).unwrap_err()));
    assert_eq!(fs::read_to_string(table.join("0.arrow")).unwrap(), "other");
    assert_eq!(first_byte(&old.join("0.arrow")), b'1');
    // After the directory was renamed back, files can be named again.
    fs::remove_dir_all(&table).unwrap();
    fs::rename(&old, &table).unwrap();
    create_file(medium, &table, b'3').link_at(&table.join("1.arrow")).unwrap();
    assert_eq!(first_byte(&table.join("1.arrow")), b'3');
}

/// Renames the directory right before an exchange, and creates another one in its place.
#[derive(Debug)]
struct DirectoryMover(PathBuf);

impl FsObserver for DirectoryMover {
    fn before_op(&self, op: FsOp<'_>) -> io::Result<()> {
        if matches!(op, FsOp::Exchange { .. }) {
            fs::rename(&self.0, self.0.with_extension("old"))?;
            fs::create_dir(&self.0)?;
            fs::write(self.0.join("0.arrow"), "other")?;
        }
        Ok(())
    }
}

#[test]
fn replace_with_fails_if_the_locked_directory_was_moved() {
    let home = tempfile::tempdir().unwrap();
    let table = home.path().canonicalize().unwrap().join("ticks");
    fs::create_dir(&table).unwrap();
    fs::write(table.join("0.arrow"), "old").unwrap();
    let lock = DirectoryLock::try_acquire(&FileSystem::with_observer(Arc::new(DirectoryMover(table.clone()))), &table)
        .unwrap()
        .unwrap();
    let replacement = StagingDirectory::create_beside(lock.medium(), &table).unwrap();
    fs::write(replacement.path().join("0.arrow"), "sorted").unwrap();
    let error = lock.replace_with(replacement).unwrap_err();
    let can_exchange = !cfg!(arrowwood_portable);
    assert!(
        if can_exchange { is_moved_directory(&error) } else { error.kind() == io::ErrorKind::Unsupported },
        "{error}"
    );
    assert_eq!(fs::read_to_string(table.join("0.arrow")).unwrap(), "other");
    assert_eq!(fs::read_to_string(table.with_extension("old").join("0.arrow")).unwrap(), "old");
    assert!(DirectoryLock::try_acquire(&FileSystem::default(), &table).unwrap().is_some());
}

const ROLE: &str = "ARROWWOOD_NAMES_ROLE";

mod process {
    #![allow(unsafe_code)]

    /// Forks the process; returns true in the child.
    pub fn fork() -> bool {
        // SAFETY: the child only writes to its output, reads its input and ends.
        match unsafe { libc::fork() } {
            -1 => panic!("no fork"),
            child => child == 0,
        }
    }
}

/// Holds two locks and forks, for the test below: the parent is killed, and the child runs until its input ends. Passes if it is
/// not started by that test.
#[test]
fn child() {
    let Ok(folder) = std::env::var(ROLE) else { return };
    let locks: Vec<_> = ["a", "b"]
        .map(|name| DirectoryLock::try_acquire(&FileSystem::default(), &Path::new(&folder).join(name)))
        .into();
    let mut locks: Vec<_> = locks.into_iter().map(|lock| lock.unwrap().unwrap()).collect();
    if process::fork() {
        let is_ours = locks.iter().any(DirectoryLock::is_ours);
        // The child drops one lock and leaks the other.
        drop(locks.pop());
        std::mem::forget(locks);
        println!("forked: {is_ours}");
    }
    let _ = std::io::stdin().lines().count();
}

#[test]
fn lock_ends_with_its_process_although_a_child_runs_on() {
    let home = tempfile::tempdir().unwrap();
    let (a, b) = (home.path().join("a"), home.path().join("b"));
    fs::create_dir(&a).unwrap();
    fs::create_dir(&b).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "names::child", "--nocapture"])
        .env(ROLE, home.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut holder = command.spawn().unwrap();
    let (sender, lines) = std::sync::mpsc::channel();
    let output = BufReader::new(holder.stdout.take().unwrap());
    std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let child_has_lock = loop {
        // The test harness prints lines of its own.
        if let Some((_, value)) = lines.recv_timeout(PATIENCE).expect("a line of the child").split_once("forked: ") {
            break value.to_owned();
        }
    };
    assert_eq!(child_has_lock, "false");
    let is_free = |folder: &Path| DirectoryLock::try_acquire(&FileSystem::default(), folder).unwrap().is_some();
    assert!(!is_free(&a) && !is_free(&b), "the holder lives, whatever its child does");
    let input = holder.stdin.take();
    holder.kill().unwrap();
    holder.wait().unwrap();
    // The child reads from the input as long as it is open.
    assert!(is_free(&a) && is_free(&b), "the child of a killed holder has its lock");
    drop(input);
    assert_eq!(lines.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected), "nothing more, and an end");
}
