//! Tests of mapped files: reads and writes in place, files that are truncated or overwritten under a reader, and files that are
//! written while they are mapped.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[cfg(unix)]
use arrowwood_mapping::guard;
use arrowwood_mapping::{
    AllowedChanges, ChangeCheck, Element, Error, ErrorKind, FileSystem, FsObserver, FsOp, Mapping, Mode, SharedFile,
    SharedWords, View, remove_leftovers, with_change_check,
};

/// Gives a file another length. Returns false on a system that refuses this for a mapped file.
fn set_len(path: &Path, len: u64) -> bool {
    let resized = File::options().write(true).open(path).unwrap().set_len(len);
    if cfg!(windows) && resized.is_err() {
        return set_len_by_linux(path, len);
    }
    resized.unwrap();
    true
}

/// Under wine, lets a program of Linux truncate the file, as only a disk or another machine can lose mapped bytes of
/// Windows.
fn set_len_by_linux(path: &Path, len: u64) -> bool {
    const PATIENCE: Duration = Duration::from_secs(60);
    let program = Path::new(r"\\?\unix\usr\bin\truncate");
    if !program.exists() {
        return false;
    }
    let folder = path.parent().unwrap();
    let mut command = std::process::Command::new(program);
    // wine has no handle of such a process, and returns an error for one that runs.
    let _ = command.current_dir(folder).arg("-s").arg(len.to_string()).arg(path.file_name().unwrap()).spawn();
    let start = std::time::Instant::now();
    while start.elapsed() < PATIENCE {
        if fs::metadata(path).unwrap().len() == len {
            return true;
        }
        std::thread::yield_now();
    }
    panic!("{} was not truncated", path.display());
}

fn open_view<T: Element>(path: &Path, mode: Mode) -> View<T> {
    Mapping::open(path, mode).unwrap().view(0, None).unwrap()
}

#[test]
fn stores_are_shared_or_private_by_mode() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers");
    let numbers: Vec<u8> = (0..1000u32).flat_map(u32::to_le_bytes).collect();
    fs::write(&path, &numbers).unwrap();
    let reader = open_view::<u32>(&path, Mode::Read);
    let writer = open_view::<u32>(&path, Mode::ReadWrite);
    let private = open_view::<u32>(&path, Mode::CopyOnWrite);
    writer.set(7, 70).unwrap();
    private.set(8, 80).unwrap();
    assert_eq!((reader.get(7).unwrap(), reader.get(8).unwrap()), (70, 8));
    assert_eq!((private.get(7).unwrap(), private.get(8).unwrap()), (70, 80));
    assert_eq!(fs::read(&path).unwrap()[28..36], [70, 0, 0, 0, 8, 0, 0, 0]);
    assert_eq!(reader.set(0, 1).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn views_check_bounds_at_any_offset() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bytes");
    let bytes: Vec<u8> = (0..=255).collect();
    fs::write(&path, &bytes).unwrap();
    let mapping = Mapping::open(&path, Mode::Read).unwrap();
    for offset in 0..=256 {
        let view = mapping.view::<u64>(offset, None).unwrap();
        let expected: Vec<u64> = bytes[offset..].as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        assert_eq!(view.to_vec().unwrap(), expected);
        assert_eq!(view.iter().collect::<Vec<_>>(), expected);
        assert_eq!(view.get(expected.len()).unwrap_err().kind(), ErrorKind::NoSuchElement);
        assert_eq!(
            mapping.view::<u64>(offset, Some(expected.len() + 1)).unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
        assert_eq!(view.slice(0, expected.len() + 1).unwrap_err().kind(), ErrorKind::NoSuchElement);
    }
    assert_eq!(mapping.view::<u8>(257, None).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let error = mapping.read_at(250, &mut [0; 7]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfBounds);
}

fn open_error(path: &Path) -> Error {
    Mapping::open(path, Mode::Read).unwrap_err()
}

#[test]
fn open_rejects_what_is_no_file() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(open_error(folder.path()).kind(), ErrorKind::InvalidArgument);
    if cfg!(unix) {
        assert_eq!(open_error(Path::new("/dev/null")).kind(), ErrorKind::InvalidArgument);
    }
    let missing = folder.path().join("missing");
    let error = open_error(&missing);
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!((error.path(), error.errno()), (Some(&*missing), Some(libc::ENOENT)));
    assert!(error.to_string().contains("missing: opening the file to map it"), "{error}");
}

#[test]
fn views_of_a_truncated_file_return_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.bin");
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    for mode in [Mode::Read, Mode::ReadWrite, Mode::CopyOnWrite] {
        set_len(&path, 1 << 20);
        let view = open_view::<u8>(&path, mode);
        assert!(view.get(1 << 19).is_ok());
        if !set_len(&path, 4096) {
            return;
        }
        assert_eq!(view.get(1 << 19).unwrap_err().kind(), ErrorKind::FileChanged);
        assert_eq!(view.to_vec().unwrap_err().kind(), ErrorKind::FileChanged);
        if mode != Mode::Read {
            assert_eq!(view.set(1 << 19, 1).unwrap_err().kind(), ErrorKind::FileChanged);
        }
    }
}

#[cfg(unix)]
#[test]
fn guards_nest_and_name_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.bin");
    fs::write(&path, vec![7; 2 * MAX_PAGE]).unwrap();
    let mapping = Mapping::open(&path, Mode::Read).unwrap();
    set_len(&path, MAX_PAGE as u64);
    for _ in 0..2 {
        assert_eq!(read_byte(&mapping, 0).unwrap(), 7);
        let inner = guard(|| Ok::<_, Error>(read_byte(&mapping, 100_000).unwrap_err())).unwrap_err();
        assert_eq!((inner.kind(), inner.path()), (ErrorKind::FileChanged, Some(&*path)));
        assert!(inner.message().starts_with("byte 100000 "), "{inner}");
    }
}

/// Systems have pages of up to this many bytes, or map files at multiples of it (Windows).
#[cfg(unix)]
const MAX_PAGE: usize = 64 << 10;

/// Reads a mapped byte, in a guarded call.
#[cfg(unix)]
fn read_byte(mapping: &Mapping, offset: usize) -> Result<u8, Error> {
    guard(|| {
        let mut byte = [0];
        mapping.copy_out(offset, &mut byte);
        Ok(byte[0])
    })
}

/// As on Windows, for which this cfg stands in. An assertion where files are mapped checks it in all other tests.
#[cfg(arrowwood_portable)]
#[test]
fn mappings_begin_at_multiples_of_64_kib() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.bin");
    let mut mappings = Vec::new();
    for len in [1, 4096, MAX_PAGE - 1, MAX_PAGE + 1, 5 * MAX_PAGE] {
        fs::write(&path, vec![7; len]).unwrap();
        let modes = [Mode::Read, Mode::ReadWrite, Mode::CopyOnWrite];
        mappings.extend(modes.map(|mode| Mapping::open(&path, mode).unwrap()));
        mappings.push(Mapping::anonymous(len).unwrap());
    }
    for mapping in &mappings {
        assert!(mapping.address().is_multiple_of(MAX_PAGE), "{mapping:?}");
    }
    // Pages that are put in the place of lost ones begin at such a multiple of the file, too.
    let mapping = Mapping::open(&path, Mode::Read).unwrap();
    set_len(&path, 2 * MAX_PAGE as u64 + 3 * 4096);
    for _ in 0..2 {
        read_byte(&mapping, 2 * MAX_PAGE + 5 * 4096).unwrap_err();
        assert_eq!(read_byte(&mapping, 2 * MAX_PAGE).unwrap_err().kind(), ErrorKind::FileChanged);
        assert_eq!(read_byte(&mapping, 2 * MAX_PAGE - 1).unwrap(), 7);
    }
    for (offset, len) in [(4096, MAX_PAGE), (0, 4096)] {
        let mapping = &mappings[mappings.len() - 4];
        let error = Mapping::join(&[(mapping, offset, len), (mapping, 0, MAX_PAGE)]).unwrap_err();
        assert!(error.to_string().contains("begin where a mapping may"), "{error}");
    }
    let mapping = &mappings[mappings.len() - 4];
    assert!(Mapping::join(&[(mapping, 0, MAX_PAGE), (mapping, MAX_PAGE, 1)]).is_err(), "memory is not mapped twice");
}

#[test]
fn overwritten_bytes_that_may_not_change_are_noticed() {
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
    // Not truncated meanwhile, as Windows refuses that.
    let write = |bytes: &[u8]| File::options().write(true).open(&path).unwrap().write_all(bytes).unwrap();
    let write_with_changed_byte = |offset: usize| {
        let mut bytes = vec![7; 4096];
        bytes[offset] = 8;
        write(&bytes);
    };
    write_with_changed_byte(100);
    assert_eq!(read().unwrap(), 8);
    write_with_changed_byte(3);
    assert_eq!(read().unwrap_err().kind(), ErrorKind::FileChanged);
    // Once a change was noticed, the file stays changed.
    write(&[7; 4096]);
    assert_eq!(read().unwrap_err().kind(), ErrorKind::FileChanged);
}

#[test]
fn mapping_sees_published_words_and_the_words_before() {
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
        let mut bytes = [0; 24];
        mapping.load_words(8, &mut bytes);
        bytes
    });
    store.put(8, &[5; 24]);
    store.publish64(4096, 1);
    store.wake(4096);
    assert_eq!(reader.join().unwrap(), [5; 24]);
}

#[cfg(unix)]
#[test]
fn directory_can_be_locked_once() {
    use arrowwood_mapping::DirectoryLock;

    let folder = tempfile::tempdir().unwrap();
    let medium = FileSystem::default();
    let lock = DirectoryLock::try_acquire(&medium, folder.path()).unwrap().unwrap();
    assert!(lock.is_ours() && DirectoryLock::try_acquire(&medium, folder.path()).unwrap().is_none());
    drop(lock);
    assert!(DirectoryLock::try_acquire(&medium, folder.path()).unwrap().is_some());
}

/// Records all operations, and refuses them from operation `first_refused` on.
#[derive(Debug)]
struct RefusingObserver {
    first_refused: usize,
    ops: Mutex<Vec<String>>,
}

impl RefusingObserver {
    fn new(first_refused: usize) -> Arc<RefusingObserver> {
        Arc::new(RefusingObserver { first_refused, ops: Mutex::default() })
    }
}

impl FsObserver for RefusingObserver {
    fn before_op(&self, op: FsOp<'_>) -> io::Result<()> {
        let mut ops = self.ops.lock().unwrap();
        ops.push(format!("{op:?}"));
        if ops.len() > self.first_refused { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

/// Each new name is synced once: also the name of a directory whose creator may have been killed before its sync.
#[test]
fn create_dir_levels_syncs_each_level_once() {
    let root = tempfile::tempdir().unwrap();
    let base = root.path().join("table");
    fs::create_dir(&base).unwrap();
    for (new_levels, synced_folders) in [("a/b", ["table", "a"]), ("a/c", ["table", "a"])] {
        let observer = RefusingObserver::new(usize::MAX);
        FileSystem::with_observer(observer.clone()).create_dir_levels(&base, &base.join(new_levels)).unwrap();
        assert!(base.join(new_levels).is_dir());
        let ops = observer.ops.lock().unwrap();
        let syncs: Vec<&String> = ops.iter().filter(|op| op.starts_with("SyncFolder")).collect();
        // As paths are shown.
        let separator = if cfg!(windows) { r"\\" } else { "/" };
        for name in synced_folders {
            assert_eq!(syncs.iter().filter(|op| op.contains(&format!("{separator}{name}\""))).count(), 1, "{ops:?}");
        }
        assert_eq!(syncs.len(), 3, "{ops:?}");
    }
}

/// Refuses all renames.
#[derive(Debug)]
struct RenameRefuser;

impl FsObserver for RenameRefuser {
    fn before_op(&self, op: FsOp<'_>) -> io::Result<()> {
        if matches!(op, FsOp::Rename { .. }) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

/// After a failed replacement, the new file kept a name beside the folder, and its blocks, until the next writer opened the
/// table.
#[test]
fn failed_replacement_leaves_no_file() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("folder");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("file"), "old").unwrap();
    let store = SharedFile::create(&FileSystem::with_observer(Arc::new(RenameRefuser)), &folder, 4096).unwrap();
    assert!(store.replace(&folder.join("file")).is_err());
    drop(store);
    assert_eq!(fs::read(folder.join("file")).unwrap(), b"old");
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
}

/// Replaces a file, with operations refused from `first_refused` on. Returns the operations too.
fn replace_file(folder: &Path, first_refused: usize) -> (io::Result<()>, Vec<String>) {
    let observer = RefusingObserver::new(first_refused);
    let result = write_and_replace(&FileSystem::with_observer(observer.clone()), folder);
    let ops = observer.ops.lock().unwrap().clone();
    (result, ops)
}

fn write_and_replace(medium: &FileSystem, folder: &Path) -> io::Result<()> {
    let mut staged = medium.create_staging_file(folder, &folder.join("file"))?;
    io::Write::write_all(&mut staged, b"whole")?;
    staged.replace(&folder.join("file"))
}

#[test]
fn file_is_replaced_completely_or_not_at_all() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("folder");
    fs::create_dir(&folder).unwrap();
    let (result, ops) = replace_file(&folder, usize::MAX);
    result.unwrap();
    assert_eq!(ops.len(), 6, "{ops:#?}");
    for (refused, op) in ops.iter().enumerate() {
        fs::write(folder.join("file"), "old").unwrap();
        let (result, _) = replace_file(&folder, refused);
        assert!(result.is_err());
        assert_eq!(fs::read(folder.join("file")).unwrap(), b"old", "{op}");
        // The observer also refused the removal of the staged file, as a crash would have prevented it.
        remove_leftovers(&FileSystem::default(), &folder).unwrap();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "{op}");
    }
}
