//! Tests of the directories of tables: they are renamed under their writers, mounted, linked, or in directories that
//! can't be written to.
#![cfg(target_os = "linux")]

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrowwood::mapping::os::CAN_EXCHANGE;
use arrowwood::simulate::{FileSystem, FsObserver, FsOp, compact_on};
use arrowwood::{CompactOptions, ErrorKind, LatePolicy, Value, Writer, WriterOptions, open, partition_writer};

use crate::tables::{folder_in_memory, number_batch, number_schema, read_numbers, unsynced};
use crate::wait::wait_for;

fn read_table(table: &Path) -> Vec<i64> {
    read_numbers(&open(table).unwrap())
}

fn wider_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false), Field::new("x", DataType::Int64, true)]))
}

/// Returns options for segments of ten rows, in a table that accepts late rows.
fn options(medium: &FileSystem) -> WriterOptions {
    WriterOptions {
        sorted_by: Some("n".into()),
        late: Some(LatePolicy::Accept),
        medium: medium.clone(),
        ..unsynced(10)
    }
}

/// The number of rows of the table that takes the path of the renamed one.
const OTHER_ROWS: i64 = 47;

/// Returns the rows of the table that takes the path of the renamed one.
fn other_numbers() -> Vec<i64> {
    (0..OTHER_ROWS).map(|n| -n).collect()
}

/// Renames a table's directory, and creates another table at its path, whose segments have the same names.
fn replace_table(table: &Path, renamed: &Path) -> Writer {
    std::fs::rename(table, renamed).unwrap();
    let mut writer = Writer::open(table, Some(number_schema()), &options(&FileSystem::default())).unwrap();
    writer.append(&number_batch(other_numbers())).unwrap();
    writer.commit().unwrap();
    writer.sync().unwrap();
    writer
}

/// Replaces a table by another one before one of the operations of its writer that use names.
#[derive(Debug)]
struct TableReplacer {
    table: PathBuf,
    /// The number of the operation, counted from 1.
    at_operation: u64,
    state: Mutex<ReplacerState>,
}

#[derive(Debug, Default)]
struct ReplacerState {
    operations: u64,
    /// The writer of the other table, once it exists.
    other: Option<Writer>,
}

impl TableReplacer {
    fn renamed_path(&self) -> PathBuf {
        self.table.with_extension("old")
    }

    /// Returns true if an operation depends on the table's path, and the table already exists.
    fn uses_name(&self, op: FsOp<'_>) -> bool {
        match op {
            FsOp::MakeFolder { path } => path != self.table,
            FsOp::LockDir { .. }
            | FsOp::Open { .. }
            | FsOp::Create { .. }
            | FsOp::Name { .. }
            | FsOp::Rename { .. }
            | FsOp::Link { .. }
            | FsOp::Exchange { .. }
            | FsOp::Remove { .. }
            | FsOp::RemoveFolder { .. } => true,
            FsOp::SyncFolder { path } => path != self.table.parent().unwrap() || self.table.exists(),
            _ => false,
        }
    }
}

impl FsObserver for TableReplacer {
    fn before_op(&self, op: FsOp<'_>) -> io::Result<()> {
        if !self.uses_name(op) {
            return Ok(());
        }
        let mut state = self.state.lock().unwrap();
        state.operations += 1;
        if state.operations == self.at_operation {
            state.other = Some(replace_table(&self.table, &self.renamed_path()));
        }
        Ok(())
    }
}

const SORT: CompactOptions = CompactOptions { rewrite: false, sort: true };
/// As far as the system can sort.
const SORT_IF_POSSIBLE: CompactOptions = CompactOptions { sort: CAN_EXCHANGE, ..SORT };

/// Runs all operations that create, change or remove names, and adds the committed rows to `committed`.
fn write_and_maintain(table: &Path, medium: &FileSystem, committed: &mut Vec<i64>) -> arrowwood::Result<()> {
    let mut writer = Writer::open(table, Some(number_schema()), &options(medium))?;
    // Each segment has late rows.
    for turn in 0..3 {
        let late: Vec<i64> = (0..14).map(|n| 100 * (n % 5) + 14 * turn + n).collect();
        writer.append(&number_batch(late.clone()))?;
        writer.commit()?;
        committed.extend(late);
    }
    committed.drain(..20);
    writer.drop_before(20)?;
    writer.compact(|_, _| ())?;
    writer.compact_with(SORT_IF_POSSIBLE, |_, _| ())?;
    writer.alter(&wider_schema())?;
    writer.close()?;
    compact_on(medium, table, CompactOptions { rewrite: true, ..SORT_IF_POSSIBLE }, |_, _| ())?;
    let mut writer = Writer::open(table, None, &options(medium))?;
    for n in 0..25 {
        writer.append_row(&[Value::Int(n), Value::Null])?;
    }
    writer.commit()?;
    committed.extend(0..25);
    writer.close()
}

/// The writer fails at one of its next operations, and changes neither the other table nor committed rows of its own.
#[test]
fn a_writer_never_writes_to_a_table_that_took_its_path() {
    let mut failed = 0;
    for at_operation in 1.. {
        let home = folder_in_memory();
        let table = home.path().canonicalize().unwrap().join("ticks");
        let replacer = Arc::new(TableReplacer { table: table.clone(), at_operation, state: Mutex::default() });
        let mut committed = Vec::new();
        let result = write_and_maintain(&table, &FileSystem::with_observer(replacer.clone()), &mut committed);
        let ReplacerState { operations, other } = std::mem::take(&mut *replacer.state.lock().unwrap());
        let Some(mut other) = other else {
            assert!(result.is_ok() && at_operation > 50, "after {operations} operations: {result:?}");
            break;
        };
        let case = format!("operation {at_operation}: {result:?}");

        // The rows and the writer of the other table are unharmed.
        assert_eq!(read_table(&table), other_numbers(), "{case}");
        for n in 0..30 {
            other.append(&number_batch([n])).unwrap();
            other.commit().unwrap_or_else(|e| panic!("{case}: {e}"));
        }
        other.close().unwrap();
        assert_eq!(read_table(&table).len() as i64, OTHER_ROWS + 30);

        // The renamed table has everything that was committed to it.
        if let Err(e) = result {
            failed += 1;
            let kinds = [ErrorKind::FileChanged, ErrorKind::Closed, ErrorKind::NotFound, ErrorKind::Busy];
            assert!(kinds.contains(&e.kind()), "{case}");
        }
        let renamed = replacer.renamed_path();
        let actual = if open(&renamed).is_ok() { read_table(&renamed) } else { Vec::new() };
        for n in &committed {
            assert!(actual.contains(n), "{case}: of {committed:?} there are {actual:?}");
        }
    }
    assert!(failed > 30, "{failed}");
}

/// Segments are opened by their paths, so a compaction may read a mixture of two tables; the error names the cause.
#[test]
fn compacting_a_renamed_table_fails_without_changing_either() {
    for compaction in [CompactOptions::default(), CompactOptions { rewrite: true, ..SORT_IF_POSSIBLE }] {
        for at_call in 1.. {
            let home = folder_in_memory();
            let table = home.path().join("ticks");
            let renamed = home.path().join("ticks.old");
            let mut writer = Writer::open(&table, Some(number_schema()), &options(&FileSystem::default())).unwrap();
            for turn in 0..4 {
                writer.append(&number_batch((0..13).map(|n| 100 * (n % 5) + 13 * turn + n))).unwrap();
                writer.commit().unwrap();
            }

            let mut calls = 0;
            let mut other = None;
            let result = writer.compact_with(compaction, |_, _| {
                calls += 1;
                if calls == at_call {
                    other = Some(replace_table(&table, &renamed));
                }
            });

            if other.is_none() {
                assert!(result.is_ok() && at_call > 5, "after {calls} calls: {result:?}");
                break;
            }
            if let Err(e) = result {
                assert_eq!(e.kind(), ErrorKind::FileChanged, "{compaction:?}, call {at_call}: {e}");
            }
            assert_eq!(read_table(&table), other_numbers(), "{compaction:?}, call {at_call}");
            assert_eq!(read_table(&renamed).len(), 52, "{compaction:?}, call {at_call}");
        }
    }
}

/// Readers and other writers no longer find the table, so its writer must fail soon, even before a segment is full.
#[test]
fn a_writer_detects_that_its_directory_was_renamed_and_loses_no_committed_row() {
    let home = folder_in_memory();
    let table = home.path().join("ticks");
    let mut writer = Writer::open(&table, Some(number_schema()), &WriterOptions::default()).unwrap();
    writer.append(&number_batch([0])).unwrap();
    writer.commit().unwrap();
    let renamed = home.path().join("ticks.old");
    std::fs::rename(&table, &renamed).unwrap();

    let error = wait_for("the error of a writer whose directory was renamed", || {
        writer.append(&number_batch([1])).unwrap();
        writer.commit().err()
    });

    assert_eq!(error.kind(), ErrorKind::FileChanged);
    let new_path = renamed.canonicalize().unwrap().display().to_string();
    assert!(error.message().contains("renamed"), "{error}");
    // Not every system knows where the directory is now.
    assert!(cfg!(arrowwood_portable) || error.message().contains(&new_path), "{error}");
    let committed = writer.committed_rows();
    assert_eq!(writer.commit().unwrap_err().kind(), ErrorKind::Closed);
    drop(writer);
    assert_eq!(read_table(&renamed).len() as u64, committed);
    let writer = Writer::open(&renamed, None, &WriterOptions::default()).unwrap();
    assert_eq!(writer.committed_rows(), committed);
}

mod user {
    #![allow(unsafe_code)]

    pub const NOBODY: u32 = 65534;

    /// Changes the user of the process from root, who may write everywhere, to nobody.
    pub fn drop_root() {
        // SAFETY: geteuid takes no arguments.
        if unsafe { libc::geteuid() } == 0 {
            // SAFETY: setresgid takes numbers only.
            assert_eq!(unsafe { libc::setresgid(NOBODY, NOBODY, NOBODY) }, 0);
            // SAFETY: setresuid takes numbers only.
            assert_eq!(unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) }, 0);
        }
    }
}

/// The environment variable that is set in the child process, to the kind of its directory.
const DIRECTORY_VARIABLE: &str = "ARROWWOOD_PLACES_ROLE";
/// The test that the child process runs.
const CHILD_TEST: &str = "places::child";

/// Copies the table's directory before each operation of its writer, as a kill would leave it.
#[derive(Debug)]
struct TableCopier {
    table: PathBuf,
    copies: PathBuf,
    count: Mutex<usize>,
}

impl FsObserver for TableCopier {
    fn before_op(&self, op: FsOp<'_>) -> io::Result<()> {
        let changes_only_contents = matches!(op, FsOp::StoreMapped { .. } | FsOp::Write { .. } | FsOp::Reserve { .. });
        if changes_only_contents || !self.table.exists() {
            return Ok(());
        }
        let mut count = self.count.lock().unwrap();
        let copy = self.copies.join(count.to_string()).join("ticks");
        *count += 1;
        std::fs::create_dir_all(&copy)?;
        for entry in std::fs::read_dir(&self.table)? {
            let name = entry?.file_name();
            std::fs::copy(self.table.join(&name), copy.join(&name))?;
        }
        Ok(())
    }
}

/// Returns the number of hidden files in a directory whose names end in `suffix`.
fn count_hidden_files(directory: &Path, suffix: &str) -> usize {
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('.') && name.ends_with(suffix)).count()
}

/// Runs in a child process, where no file can be moved into the directory `ticks` from outside of it. Without the
/// environment variable it does nothing.
#[test]
fn child() {
    let Ok(kind) = std::env::var(DIRECTORY_VARIABLE) else { return };
    let home = std::env::current_dir().unwrap();
    let table = home.join("ticks");
    let copies = home.join("copies");
    if kind == "nobody" {
        user::drop_root();
        assert!(std::fs::write(home.join(".ticks.there"), "").is_err());
    }
    let rows: Vec<i64> = (0..48).chain(0..48).collect();
    write_copied_table(&table, &copies);
    assert_eq!(read_table(&table), rows);

    let mut prepared = 0;
    let mut parts = 0;
    for entry in std::fs::read_dir(copies).unwrap() {
        let copy = entry.unwrap().path().join("ticks");
        prepared += count_hidden_files(&copy, ".next");
        parts += count_hidden_files(&copy, ".part");
        check_killed_copy(&copy, &rows);
    }
    assert!(prepared > 0 && parts > 0, "{prepared} prepared, {parts} parts");

    // A repair moves damaged files to a hidden directory inside the table.
    let files = std::fs::read_dir(&table).unwrap().map(|entry| entry.unwrap().path());
    let last_segment = files.filter(|path| path.extension().is_some_and(|end| end == "arrow")).max().unwrap();
    let mut bytes = std::fs::read(&last_segment).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&last_segment, bytes).unwrap();
    let repaired = arrowwood::repair(&table, |_, _| ()).unwrap().repaired.unwrap();
    assert_eq!(repaired.moved, [table.join(".damaged").join(last_segment.file_name().unwrap())]);
    assert_eq!(read_table(&table), rows);
    println!("played");
}

/// Writes and compacts a table, which is copied before each operation. Only sorting fails in such a directory.
fn write_copied_table(table: &Path, copies: &Path) {
    let copier = TableCopier { table: table.into(), copies: copies.into(), count: Mutex::new(0) };
    let medium = FileSystem::with_observer(Arc::new(copier));
    let mut writer = Writer::open(table, Some(number_schema()), &options(&medium)).unwrap();
    for turn in 0..4 {
        writer.append(&number_batch(12 * turn..12 * (turn + 1))).unwrap();
        writer.commit().unwrap();
    }
    assert!(writer.compact(|_, _| ()).unwrap() > 1);
    assert_eq!(writer.compact_with(SORT, |_, _| ()).unwrap(), 0, "nothing is out of order");
    writer.append(&number_batch(0..48)).unwrap();
    writer.commit().unwrap();
    let error = writer.compact_with(SORT, |_, _| ()).unwrap_err();
    assert!(error.message().contains("table's place"), "{error}");
    writer.close().unwrap();
}

/// Checks that readers ignore the unfinished files of a killed writer, and that the next writer finishes or removes
/// them.
fn check_killed_copy(copy: &Path, rows: &[i64]) {
    // The copy is empty if the writer was killed early.
    let readable = open(copy).map_or(0, |dataset| dataset.len().unwrap()) as usize;
    let mut writer = Writer::open(copy, Some(number_schema()), &options(&FileSystem::default())).unwrap();
    let committed = writer.committed_rows() as usize;
    assert!(committed >= readable && committed.is_multiple_of(12), "{readable}, then {committed}");
    assert_eq!(read_table(copy), rows[..committed]);
    assert_eq!(count_hidden_files(copy, ""), 0, "nothing is left");
    writer.append(&number_batch(100..125)).unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    assert!(arrowwood::check(copy, |_, _| ()).unwrap().is_good());
}

/// Runs [`child`] in `home`, in a mount namespace of its own after the shell command `mount` if there is one.
///
/// Returns its output, which includes `mounted` if that command succeeded.
fn run_child(home: &Path, mount: Option<&str>, kind: &str) -> String {
    let program = std::env::current_exe().unwrap();
    let child = format!("exec \"{}\" --exact {CHILD_TEST} --nocapture", program.display());
    let script = match mount {
        Some(mount) => format!("exec unshare -m sh -c '{mount} && echo mounted && {child}'"),
        None => child,
    };
    let mut command = std::process::Command::new("sh");
    let output = command.args(["-c", &script]).env(DIRECTORY_VARIABLE, kind).current_dir(home).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Returns the name that `drop_partition` gives to a directory before it removes it.
fn dropped_name(directory: &Path) -> PathBuf {
    let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(directory).unwrap());
    directory.with_file_name(format!(".{inode}.dropped"))
}

/// Creates a table with 25 rows.
fn write_partition(path: &Path) -> Writer {
    std::fs::create_dir_all(path).unwrap();
    let mut writer = Writer::open(path, Some(number_schema()), &options(&FileSystem::default())).unwrap();
    writer.append(&number_batch(0..25)).unwrap();
    writer.commit().unwrap();
    writer
}

/// Regression test: the directory of a partition stayed forever if a process was killed while it dropped it.
#[test]
fn writers_remove_partitions_whose_drop_was_interrupted() {
    let home = folder_in_memory();
    let root = home.path().join("t");

    let interrupted = root.join("host=left");
    write_partition(&interrupted).close().unwrap();
    let interrupted_name = dropped_name(&interrupted);
    std::fs::rename(&interrupted, &interrupted_name).unwrap();
    // Another process is dropping this one: the directory is locked.
    let locked = root.join("host=busy");
    let locking_writer = write_partition(&locked);
    let locked_name = dropped_name(&locked);
    std::fs::rename(&locked, &locked_name).unwrap();
    // Other names are not from drop_partition: with a wrong inode number, or without one, or of links and files.
    let mut kept = vec![locked_name.clone()];
    for name in [".12.dropped", ".dropped", ".x.dropped"] {
        let other = root.join("host=other");
        write_partition(&other).close().unwrap();
        kept.push(root.join(name));
        std::fs::rename(&other, root.join(name)).unwrap();
    }
    let linked = root.join("host=linked");
    write_partition(&linked).close().unwrap();
    let link = dropped_name(&linked);
    std::os::unix::fs::symlink(&linked, &link).unwrap();
    let file = root.join("file");
    std::fs::write(&file, "kept").unwrap();
    let file_name = dropped_name(&file);
    std::fs::rename(&file, &file_name).unwrap();
    kept.extend([linked, link, file_name]);

    write_partition(&root.join("host=next")).close().unwrap();
    assert!(!interrupted_name.exists());
    for path in &kept {
        assert!(path.symlink_metadata().is_ok(), "{path:?}");
        if path.is_dir() {
            assert!(std::fs::read_dir(path).unwrap().count() >= 3, "{path:?}");
        }
    }

    drop(locking_writer);
    write_partition(&root.join("host=last")).close().unwrap();
    assert!(!locked_name.exists());
    assert_eq!(read_table(&root.join("host=last")), (0..25).collect::<Vec<_>>());
}

/// Regression test: links to partitions were ignored in a directory that also has segments.
#[test]
fn a_directory_with_segments_and_a_linked_partition_is_refused() {
    let home = folder_in_memory();
    let table = home.path().join("t");
    let elsewhere = home.path().join("elsewhere");
    for path in [&table, &elsewhere] {
        let mut writer = Writer::open(path, Some(number_schema()), &options(&FileSystem::default())).unwrap();
        writer.append(&number_batch(0..5)).unwrap();
        writer.close().unwrap();
    }
    for ignored in [".host=a", "_host=a", "=a"] {
        std::os::unix::fs::symlink(&elsewhere, table.join(ignored)).unwrap();
    }
    std::os::unix::fs::symlink("nothing", table.join("host=c")).unwrap();
    assert_eq!(read_table(&table), [0, 1, 2, 3, 4]);
    std::os::unix::fs::symlink(&elsewhere, table.join("host=b")).unwrap();
    let e = open(&table).unwrap_err();
    assert!(e.message().contains("host=b"), "{e}");
    assert_eq!(e.kind(), ErrorKind::InvalidData);
}

#[test]
fn a_table_grows_in_a_read_only_directory() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let home = folder_in_memory();
    for name in ["ticks", "copies"] {
        std::fs::create_dir(home.path().join(name)).unwrap();
        // Fails unless the test runs as root, in which case `child` changes the user.
        let _ = chown(home.path().join(name), Some(user::NOBODY), Some(user::NOBODY));
    }
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
    let output = run_child(home.path(), None, "nobody");
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(output.contains("played"), "{output}");
}

/// Passes without testing anything if the test has no privilege to mount.
#[test]
fn a_table_grows_in_a_mounted_directory() {
    for mount in ["mount -t tmpfs none ticks", "mount --bind ticks ticks"] {
        let home = folder_in_memory();
        for name in ["ticks", "copies"] {
            std::fs::create_dir(home.path().join(name)).unwrap();
        }
        let output = run_child(home.path(), Some(mount), "mounted");
        let is_mounted = output.contains("mounted\n");
        eprintln!("{mount}: {}", if is_mounted { "done" } else { "not permitted" });
        assert!(!is_mounted || output.contains("played"), "{output}");
    }
}

/// Records the directories that were synced.
#[derive(Debug, Default)]
struct SyncedFolders {
    synced: Mutex<Vec<PathBuf>>,
    /// A directory whose sync fails.
    broken: Mutex<Option<PathBuf>>,
}

impl SyncedFolders {
    fn options(self: &Arc<Self>) -> WriterOptions {
        WriterOptions { medium: FileSystem::with_observer(self.clone()), ..WriterOptions::default() }
    }

    fn contains_all(&self, folders: &[&Path]) -> bool {
        let synced = self.synced.lock().unwrap();
        folders.iter().all(|folder| synced.contains(&folder.canonicalize().unwrap()))
    }
}

impl FsObserver for SyncedFolders {
    fn before_op(&self, op: FsOp<'_>) -> io::Result<()> {
        let FsOp::SyncFolder { path } = op else { return Ok(()) };
        if self.broken.lock().unwrap().as_deref() == Some(path) {
            return Err(io::Error::other("the power is gone"));
        }
        self.synced.lock().unwrap().push(path.canonicalize()?);
        Ok(())
    }
}

/// Rows are only durable if the names of all new directories above them are.
#[test]
fn names_of_all_new_directories_are_synced() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("new").join("t");
    for host in ["a", "b"] {
        // Existing directories are synced again, as a killed writer may have created them.
        let disk = Arc::new(SyncedFolders::default());
        let keys = [("day", Value::Int(1)), ("host", Value::Str(host))];
        partition_writer(&table, &keys, Some(number_schema()), &disk.options()).unwrap().close().unwrap();
        let day = table.join("day=1");
        assert!(disk.contains_all(&[&folder.path().join("new"), &table, &day, &day.join(format!("host={host}"))]));
        assert_eq!(disk.contains_all(&[folder.path()]), host == "a");
    }
}

#[test]
fn the_name_of_a_directory_whose_first_writer_was_killed_is_synced() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let failing_disk = Arc::new(SyncedFolders::default());
    *failing_disk.broken.lock().unwrap() = Some(folder.path().to_path_buf());
    Writer::open(&table, Some(number_schema()), &failing_disk.options()).unwrap_err();
    assert!(table.is_dir());
    let disk = Arc::new(SyncedFolders::default());
    Writer::open(&table, Some(number_schema()), &disk.options()).unwrap().close().unwrap();
    assert!(disk.contains_all(&[folder.path(), &table]));
}

/// Returns the number of rows that arrow-rs reads from a file.
fn arrow_rs_rows(path: &Path) -> usize {
    let file = std::fs::File::open(path).unwrap();
    let batches = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
    batches.map(|batch| batch.unwrap().num_rows()).sum()
}

/// The commit needs two new segments. When the second one can't be named, the first must lose its name again.
#[test]
fn a_commit_that_fails_to_name_a_segment_is_undone() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let [first, second, third] = [0, 10, 20].map(|row: u64| table.join(format!("{row:020}.arrow")));
    let mut writer = Writer::open(&table, Some(number_schema()), &options(&FileSystem::default())).unwrap();
    writer.append(&number_batch(0..5)).unwrap();
    writer.commit().unwrap();
    writer.append(&number_batch(5..25)).unwrap();
    std::fs::write(&third, "in the way").unwrap();
    writer.commit().unwrap_err();
    assert_eq!(arrow_rs_rows(&first), 5);
    assert!(!second.exists());

    drop(writer);
    std::fs::remove_file(&third).unwrap();
    assert_eq!(open(&table).unwrap().len().unwrap(), 5);
    let mut writer = Writer::open(&table, None, &options(&FileSystem::default())).unwrap();
    writer.append(&number_batch(5..25)).unwrap();
    writer.close().unwrap();
    assert_eq!(open(&table).unwrap().len().unwrap(), 25);
}

/// A hard link keeps the link count of a removed segment above zero, which must not hide the removal.
#[test]
fn a_writer_detects_that_its_segment_was_removed_although_a_hard_link_exists() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    // The writer checks only its growing segment, a hundred times a second, so the segment must not get full before.
    let options = WriterOptions { segment_rows: Some(1 << 20), ..options(&FileSystem::default()) };
    let mut writer = Writer::open(&table, Some(number_schema()), &options).unwrap();
    writer.append(&number_batch(0..5)).unwrap();
    writer.commit().unwrap();
    let live_segment = table.join("00000000000000000000.arrow");
    std::fs::hard_link(&live_segment, folder.path().join("backup")).unwrap();
    std::fs::remove_file(&live_segment).unwrap();
    let error = wait_for("the error of a writer whose segment was removed", || {
        writer.append(&number_batch(0..1)).unwrap();
        writer.commit().err()
    });
    assert_eq!(error.kind(), ErrorKind::FileChanged);
}
