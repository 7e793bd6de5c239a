//! Files as memory: read and written in place, truncated and overwritten under a reader, written while they are mapped.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrowwood_mapping::{
    AllowedChanges, ChangeCheck, DirectoryLock, Error, ErrorKind, FileSystem, FsObserver, FsOp, Mapping, Mode,
    SharedFile, SharedWords, guard, remove_leftovers, with_change_check,
};

fn set_len(path: &Path, len: u64) {
    File::options().write(true).open(path).unwrap().set_len(len).unwrap();
}

#[test]
fn stores_reach_what_their_mode_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers");
    let numbers: Vec<u8> = (0..1000u32).flat_map(u32::to_le_bytes).collect();
    fs::write(&path, &numbers).unwrap();
    let of = |mode| Mapping::open(&path, mode).unwrap().view::<u32>(0, None).unwrap();
    let reader = of(Mode::Read);
    let (writer, private) = (of(Mode::ReadWrite), of(Mode::CopyOnWrite));
    writer.set(7, 70).unwrap();
    private.set(8, 80).unwrap();
    assert_eq!((reader.get(7).unwrap(), reader.get(8).unwrap()), (70, 8));
    assert_eq!((private.get(7).unwrap(), private.get(8).unwrap()), (70, 80));
    assert_eq!(fs::read(&path).unwrap()[28..36], [70, 0, 0, 0, 8, 0, 0, 0]);
    assert_eq!(reader.set(0, 1).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn views_are_bounded_at_any_offset() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bytes");
    let bytes: Vec<u8> = (0..=255).collect();
    fs::write(&path, &bytes).unwrap();
    let mapping = Mapping::open(&path, Mode::Read).unwrap();
    for offset in 0..=256 {
        let view = mapping.view::<u64>(offset, None).unwrap();
        let twin: Vec<u64> = bytes[offset..].as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        assert_eq!(view.to_vec().unwrap(), twin);
        assert_eq!(view.iter().collect::<Vec<_>>(), twin);
        assert_eq!(view.get(twin.len()).unwrap_err().kind(), ErrorKind::NoSuchElement);
        assert_eq!(mapping.view::<u64>(offset, Some(twin.len() + 1)).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(view.slice(0, twin.len() + 1).unwrap_err().kind(), ErrorKind::NoSuchElement);
    }
    assert_eq!(mapping.view::<u8>(257, None).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let error = mapping.read_at(250, &mut [0; 7]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfBounds);
}

#[test]
fn what_is_no_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |path: &Path| Mapping::open(path, Mode::Read).unwrap_err();
    assert_eq!(refused(&folder.path().join("missing")).kind(), ErrorKind::NotFound);
    assert_eq!(refused(folder.path()).kind(), ErrorKind::InvalidArgument);
    assert_eq!(refused(Path::new("/dev/null")).kind(), ErrorKind::InvalidArgument);
    let error = refused(&folder.path().join("missing"));
    assert_eq!((error.path().unwrap(), error.errno()), (&*folder.path().join("missing"), Some(libc::ENOENT)));
    assert!(error.to_string().contains("missing: opening the file to map it"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn views_of_a_truncated_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.bin");
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    for mode in [Mode::Read, Mode::ReadWrite, Mode::CopyOnWrite] {
        set_len(&path, 1 << 20);
        let view = Mapping::open(&path, mode).unwrap().view::<u8>(0, None).unwrap();
        assert!(view.get(1 << 19).is_ok());
        set_len(&path, 4096);
        assert_eq!(view.get(1 << 19).unwrap_err().kind(), ErrorKind::FileChanged);
        assert_eq!(view.to_vec().unwrap_err().kind(), ErrorKind::FileChanged);
        if mode != Mode::Read {
            assert_eq!(view.set(1 << 19, 1).unwrap_err().kind(), ErrorKind::FileChanged);
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn guards_nest_and_name_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.bin");
    fs::write(&path, vec![7; 1 << 16]).unwrap();
    let mapping = Mapping::open(&path, Mode::Read).unwrap();
    set_len(&path, 4096);
    let touch = |at: usize| {
        guard(|| {
            let mut byte = [0];
            mapping.copy_out(at, &mut byte);
            Ok::<_, Error>(byte[0])
        })
    };
    for _ in 0..2 {
        assert_eq!(touch(0).unwrap(), 7);
        let inner = guard(|| Ok::<_, Error>(touch(8192).unwrap_err())).unwrap_err();
        assert_eq!((inner.kind(), inner.path()), (ErrorKind::FileChanged, Some(&*path)));
        assert!(inner.message().starts_with("byte 8192 "), "{inner}");
    }
}

#[test]
fn a_watched_file_that_is_overwritten_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.bin");
    fs::write(&path, [7; 4096]).unwrap();
    let mapping = Mapping::open(&path, Mode::Read).unwrap();
    mapping.set_allowed_changes(AllowedChanges::InPlace(vec![(0, vec![7; 8])]));
    let read = || {
        with_change_check(
            ChangeCheck::Now,
            |when| mapping.check_unchanged(when),
            || mapping.view::<u8>(0, None)?.get(100),
        )
    };
    assert_eq!(read().unwrap(), 7);
    let write = |at: usize| {
        let mut bytes = vec![7; 4096];
        bytes[at] = 8;
        fs::write(&path, bytes).unwrap();
    };
    write(100);
    assert_eq!(read().unwrap(), 8);
    write(3);
    assert_eq!(read().unwrap_err().kind(), ErrorKind::FileChanged);
    fs::write(&path, [7; 4096]).unwrap();
    assert_eq!(read().unwrap_err().kind(), ErrorKind::FileChanged);
}

#[test]
fn words_that_a_store_publishes_are_seen_through_a_mapping() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("words");
    let store = SharedFile::create(&FileSystem::default(), folder.path(), 8192).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    store.prepare(0, 8192, 0).unwrap();
    store.link_at(&path).unwrap();
    let mapping = Mapping::open(&path, Mode::Read).unwrap();
    let reader = std::thread::spawn(move || {
        while SharedWords::load64(&mapping, 4096) == 0 {
            mapping.wait(4096, 0, Duration::from_secs(5));
        }
        let mut found = [0; 24];
        mapping.load_words(8, &mut found);
        found
    });
    store.put(8, &[5; 24]);
    store.publish64(4096, 1);
    store.wake(4096);
    assert_eq!(reader.join().unwrap(), [5; 24]);
}

#[test]
fn a_directory_has_one_lock() {
    let folder = tempfile::tempdir().unwrap();
    let medium = FileSystem::default();
    let lock = DirectoryLock::try_acquire(&medium, folder.path()).unwrap().unwrap();
    assert!(lock.is_ours() && DirectoryLock::try_acquire(&medium, folder.path()).unwrap().is_none());
    drop(lock);
    assert!(DirectoryLock::try_acquire(&medium, folder.path()).unwrap().is_some());
}

/// Refuses the operation of a number, and keeps what all are called.
#[derive(Debug)]
struct Refusal {
    at: usize,
    seen: Mutex<Vec<String>>,
}

impl FsObserver for Refusal {
    fn before_op(&self, act: FsOp<'_>) -> io::Result<()> {
        let mut seen = self.seen.lock().unwrap();
        seen.push(format!("{act:?}"));
        if seen.len() > self.at { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

/// Each name reaches the disk once: of a directory that is made, and of one that somebody made who was killed.
#[test]
fn directories_of_levels_are_synced_once() {
    let root = tempfile::tempdir().unwrap();
    let there = root.path().join("table");
    fs::create_dir(&there).unwrap();
    for (new, expected) in [("a/b", ["table", "a"]), ("a/c", ["table", "a"])] {
        let refusal = Arc::new(Refusal { at: usize::MAX, seen: Mutex::default() });
        FileSystem::with_observer(refusal.clone()).create_dir_levels(&there, &there.join(new)).unwrap();
        assert!(there.join(new).is_dir());
        let seen = refusal.seen.lock().unwrap();
        let synced: Vec<&String> = seen.iter().filter(|act| act.starts_with("SyncFolder")).collect();
        for name in expected {
            assert_eq!(synced.iter().filter(|act| act.contains(&format!("/{name}\""))).count(), 1, "{seen:?}");
        }
        assert_eq!(synced.len(), 3, "{seen:?}");
    }
}

/// Refuses to rename.
#[derive(Debug)]
struct NoRename;

impl FsObserver for NoRename {
    fn before_op(&self, act: FsOp<'_>) -> io::Result<()> {
        if matches!(act, FsOp::Rename { .. }) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

/// It kept a name beside the folder, and its blocks, until the next writer opened the table.
#[test]
fn a_new_file_that_could_not_replace_another_one_is_not_left() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("folder");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("file"), "old").unwrap();
    let store = SharedFile::create(&FileSystem::with_observer(Arc::new(NoRename)), &folder, 4096).unwrap();
    assert!(store.replace(&folder.join("file")).is_err());
    drop(store);
    assert_eq!(fs::read(folder.join("file")).unwrap(), b"old");
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
}

/// Writes a file by a rename, and returns whether that succeeded, and what its witness was told.
fn replaced(folder: &Path, refused: usize) -> (io::Result<()>, Vec<String>) {
    let witness = Arc::new(Refusal { at: refused, seen: Mutex::default() });
    let medium = FileSystem::with_observer(witness.clone());
    let replace = || {
        let mut part = medium.create_staging_file(folder, &folder.join("file"))?;
        io::Write::write_all(&mut part, b"whole")?;
        part.replace(&folder.join("file"))
    };
    let done = replace();
    let seen = witness.seen.lock().unwrap().clone();
    (done, seen)
}

#[test]
fn a_file_is_replaced_whole_or_not_at_all_whatever_fails() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("folder");
    fs::create_dir(&folder).unwrap();
    let (done, acts) = replaced(&folder, usize::MAX);
    done.unwrap();
    assert_eq!(acts.len(), 6, "{acts:#?}");
    for (refused, act) in acts.iter().enumerate() {
        fs::write(folder.join("file"), "old").unwrap();
        assert!(replaced(&folder, refused).0.is_err());
        assert_eq!(fs::read(folder.join("file")).unwrap(), b"old", "{act}");
        // A refused witness refuses to remove what was left as well, as a crash would have.
        remove_leftovers(&FileSystem::default(), &folder).unwrap();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "{act}");
    }
}
