//! The places of tables: directories that are renamed under their writers, and directories beside which nothing can be
//! written.
#![cfg(target_os = "linux")]

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrowwood::simulate::{FileSystem, FsObserver, FsOp, compact_on};
use arrowwood::{CompactOptions, ErrorKind, LatePolicy, Value, Writer, WriterOptions, open, partition_writer};

use crate::tables::{folder_in_memory, number_batch, number_schema, read_numbers, unsynced};
use crate::wait::wait_for;

fn numbers_in(table: &Path) -> Vec<i64> {
    read_numbers(&open(table).unwrap())
}

fn wider_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false), Field::new("x", DataType::Int64, true)]))
}

/// Segments of ten rows, of a table that accepts late rows.
fn options(medium: &FileSystem) -> WriterOptions {
    WriterOptions {
        sorted_by: Some("n".into()),
        late: Some(LatePolicy::Accept),
        medium: medium.clone(),
        ..unsynced(10)
    }
}

/// The rows of the table that gets the name of the renamed one: its segments have the same names.
const OTHERS: i64 = 47;

/// Renames a table's directory, and makes another table where it was.
fn take_name(table: &Path, old: &Path) -> Writer {
    std::fs::rename(table, old).unwrap();
    let mut writer = Writer::open(table, Some(number_schema()), &options(&FileSystem::default())).unwrap();
    writer.append(&number_batch((0..OTHERS).map(|n| -n))).unwrap();
    writer.commit().unwrap();
    writer.sync().unwrap();
    writer
}

/// At act number `at` of a writer on names its directory is renamed, and another table is made where it was.
#[derive(Debug)]
struct Mover {
    table: PathBuf,
    at: u64,
    state: Mutex<(u64, Option<Writer>)>,
}

impl Mover {
    fn old(&self) -> PathBuf {
        self.table.with_extension("old")
    }
}

impl FsObserver for Mover {
    fn before_op(&self, act: FsOp<'_>) -> io::Result<()> {
        let is_of_names = match act {
            FsOp::MakeFolder { path } => path != self.table,
            FsOp::LockDir { .. }
            | FsOp::Open { .. }
            | FsOp::Create { .. }
            | FsOp::Name { .. }
            | FsOp::Rename { .. } => true,
            FsOp::Link { .. } | FsOp::Exchange { .. } | FsOp::Remove { .. } | FsOp::RemoveFolder { .. } => true,
            FsOp::SyncFolder { path } => path != self.table.parent().unwrap() || self.table.exists(),
            _ => false,
        };
        if !is_of_names {
            return Ok(());
        }
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        if state.0 == self.at {
            state.1 = Some(take_name(&self.table, &self.old()));
        }
        Ok(())
    }
}

/// Everything that gives, changes or takes names; returns the committed rows, without those that were dropped, and the
/// first error.
fn play(table: &Path, medium: &FileSystem) -> (Vec<i64>, Option<arrowwood::Error>) {
    let mut kept = Vec::new();
    let mut steps = || {
        let mut writer = Writer::open(table, Some(number_schema()), &options(medium))?;
        // Each segment has late rows.
        for turn in 0..3 {
            let late = || (0..14).map(|n| 100 * (n % 5) + 14 * turn + n);
            writer.append(&number_batch(late()))?;
            writer.commit()?;
            kept.extend(late());
        }
        kept.drain(..20);
        writer.drop_before(20)?;
        writer.compact(|_, _| ())?;
        writer.compact_with(CompactOptions { sort: true, ..CompactOptions::default() }, |_, _| ())?;
        writer.alter(&wider_schema())?;
        writer.close()?;
        compact_on(medium, table, CompactOptions { sort: true, rewrite: true }, |_, _| ())?;
        let mut writer = Writer::open(table, None, &options(medium))?;
        (0..25).try_for_each(|n| writer.append_row(&[Value::Int(n), Value::Null]))?;
        writer.commit()?;
        kept.extend(0..25);
        writer.close()
    };
    let told = steps().err();
    (kept, told)
}

#[test]
fn a_writer_whose_directory_is_renamed_leaves_the_table_alone_that_gets_its_name() {
    let mut was_told = 0;
    for at in 1.. {
        let home = folder_in_memory();
        let table = home.path().canonicalize().unwrap().join("ticks");
        let mover = Arc::new(Mover { table: table.clone(), at, state: Mutex::default() });
        let (mut kept, told) = play(&table, &FileSystem::with_observer(mover.clone()));
        let (acts, other) = std::mem::take(&mut *mover.state.lock().unwrap());
        let Some(mut other) = other else {
            assert!(told.is_none() && at > 50, "after {acts} acts: {told:?}");
            break;
        };
        // Its rows, its writer's too, are as they were.
        assert_eq!(numbers_in(&table), (0..OTHERS).map(|n| -n).collect::<Vec<_>>(), "act {at}: {told:?}");
        for n in 0..30 {
            other.append(&number_batch([n])).unwrap();
            other.commit().unwrap_or_else(|e| panic!("act {at}: {e}"));
        }
        other.close().unwrap();
        assert_eq!(numbers_in(&table).len() as i64, OTHERS + 30);
        // The renamed one has what was committed to it.
        let mut found = if open(mover.old()).is_ok() { numbers_in(&mover.old()) } else { Vec::new() };
        let what = format!("act {at}: {told:?}");
        if let Some(told) = told {
            was_told += 1;
            let is_right = matches!(told.kind(), ErrorKind::FileChanged | ErrorKind::Closed | ErrorKind::NotFound);
            assert!(is_right || told.kind() == ErrorKind::Busy, "{what}");
        }
        found.sort_unstable();
        kept.sort_unstable();
        assert!(kept.iter().all(|n| found.binary_search(n).is_ok()), "{what}: of {kept:?} there are {found:?}");
    }
    assert!(was_told > 30, "{was_told}");
}

/// Segments are found by their paths, so what is read may be a mixture of two tables; the error names the reason.
#[test]
fn a_compaction_of_a_renamed_directory_is_told_so_whatever_it_has_read() {
    for what in [CompactOptions::default(), CompactOptions { sort: true, rewrite: true }] {
        for at in 1.. {
            let home = folder_in_memory();
            let (table, old) = (home.path().join("ticks"), home.path().join("ticks.old"));
            let mut writer = Writer::open(&table, Some(number_schema()), &options(&FileSystem::default())).unwrap();
            for turn in 0..4 {
                writer.append(&number_batch((0..13).map(|n| 100 * (n % 5) + 13 * turn + n))).unwrap();
                writer.commit().unwrap();
            }
            let (mut calls, mut other) = (0, None);
            let done = writer.compact_with(what, |_, _| {
                calls += 1;
                if calls == at {
                    other = Some(take_name(&table, &old));
                }
            });
            if other.is_none() {
                assert!(done.is_ok() && at > 5, "after {calls} calls: {done:?}");
                break;
            }
            if let Err(e) = done {
                assert_eq!(e.kind(), ErrorKind::FileChanged, "{what:?}, call {at}: {e}");
            }
            assert_eq!(numbers_in(&table), (0..OTHERS).map(|n| -n).collect::<Vec<_>>(), "{what:?}, call {at}");
            assert_eq!(numbers_in(&old).len(), 52, "{what:?}, call {at}");
        }
    }
}

/// Readers and writers find the table at its path, so a writer is told soon that it is elsewhere, also where no segment
/// is full.
#[test]
fn a_writer_is_told_that_its_directory_was_renamed_and_loses_no_committed_row() {
    let home = folder_in_memory();
    let table = home.path().join("ticks");
    let mut writer = Writer::open(&table, Some(number_schema()), &WriterOptions::default()).unwrap();
    writer.append(&number_batch([0])).unwrap();
    writer.commit().unwrap();
    let old = home.path().join("ticks.old");
    std::fs::rename(&table, &old).unwrap();
    let told = wait_for("the error of a writer whose directory was renamed", || {
        writer.append(&number_batch([1])).unwrap();
        writer.commit().err()
    });
    assert_eq!(told.kind(), ErrorKind::FileChanged);
    let place = old.canonicalize().unwrap().display().to_string();
    assert!(told.message().contains("renamed") && told.message().contains(&place), "{told}");
    let committed = writer.committed_rows();
    assert_eq!(writer.commit().unwrap_err().kind(), ErrorKind::Closed);
    drop(writer);
    assert_eq!(numbers_in(&old).len() as u64, committed);
    let writer = Writer::open(&old, None, &WriterOptions::default()).unwrap();
    assert_eq!(writer.committed_rows(), committed);
}

mod user {
    #![allow(unsafe_code)]

    /// Makes the process that of another user, if it is root's, which may write everywhere.
    pub fn give_up_rights() {
        // SAFETY: takes no memory.
        if unsafe { libc::geteuid() } == 0 {
            // SAFETY: takes numbers only.
            assert_eq!(unsafe { libc::setresgid(NOBODY, NOBODY, NOBODY) }, 0);
            // SAFETY: takes numbers only.
            assert_eq!(unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) }, 0);
        }
    }

    pub const NOBODY: u32 = 65534;
}

const ROLE: &str = "ARROWWOOD_PLACES_ROLE";
/// The test that plays a role.
const CHILD: &str = "places::child";

/// Copies the table's directory, as a killed writer leaves it, before each act.
#[derive(Debug)]
struct Copier {
    table: PathBuf,
    copies: PathBuf,
    count: Mutex<usize>,
}

impl FsObserver for Copier {
    fn before_op(&self, act: FsOp<'_>) -> io::Result<()> {
        if matches!(act, FsOp::StoreMapped { .. } | FsOp::Write { .. } | FsOp::Reserve { .. }) || !self.table.exists() {
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

/// Is run in processes of its own, where nothing can be moved into the directory `ticks` from beside it.
#[test]
fn child() {
    let Ok(_) = std::env::var(ROLE) else { return };
    let home = std::env::current_dir().unwrap();
    let (table, copies) = (home.join("ticks"), home.join("copies"));
    if std::env::var(ROLE).unwrap() == "nobody" {
        user::give_up_rights();
        assert!(std::fs::write(home.join(".ticks.there"), "").is_err());
    }
    let medium = FileSystem::with_observer(Arc::new(Copier {
        table: table.clone(),
        copies: copies.clone(),
        count: Mutex::new(0),
    }));
    let mut writer = Writer::open(&table, Some(number_schema()), &options(&medium)).unwrap();
    for turn in 0..4 {
        writer.append(&number_batch(12 * turn..12 * (turn + 1))).unwrap();
        writer.commit().unwrap();
    }
    assert!(writer.compact(|_, _| ()).unwrap() > 1);
    let told = writer.compact_with(CompactOptions { sort: true, ..CompactOptions::default() }, |_, _| ());
    assert_eq!(told.unwrap(), 0, "nothing is out of order");
    writer.append(&number_batch(0..48)).unwrap();
    writer.commit().unwrap();
    let told = writer.compact_with(CompactOptions { sort: true, ..CompactOptions::default() }, |_, _| ()).unwrap_err();
    assert!(told.message().contains("table's place"), "{told}");
    writer.close().unwrap();
    let all: Vec<i64> = (0..48).chain(0..48).collect();
    assert_eq!(numbers_in(&table), all);
    let (mut prepared, mut parts) = (0, 0);
    for copy in std::fs::read_dir(copies).unwrap() {
        let copy = copy.unwrap().path().join("ticks");
        let names = |end: &str| {
            let names =
                std::fs::read_dir(&copy).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.filter(|name| name.starts_with('.') && name.ends_with(end)).count()
        };
        prepared += names(".next");
        parts += names(".part");
        // Readers take no notice, and the next writer finishes or removes what there is, wherever its own would be.
        let seen = open(&copy).map_or(0, |seen| seen.len().unwrap()) as usize;
        let mut writer = Writer::open(&copy, Some(number_schema()), &options(&FileSystem::default())).unwrap();
        let there = writer.committed_rows() as usize;
        assert!(there >= seen && there.is_multiple_of(12), "{seen}, then {there}");
        assert_eq!(numbers_in(&copy), all[..there]);
        assert_eq!(names(""), 0, "nothing is left");
        writer.append(&number_batch(100..125)).unwrap();
        writer.commit().unwrap();
        writer.close().unwrap();
        assert!(arrowwood::check(&copy, |_, _| ()).unwrap().is_good());
    }
    assert!(prepared > 0 && parts > 0, "{prepared} prepared, {parts} parts");
    // Damaged files stay inside, where readers don't see them.
    let names = std::fs::read_dir(&table).unwrap().map(|entry| entry.unwrap().path());
    let damaged = names.filter(|path| path.extension().is_some_and(|end| end == "arrow")).max().unwrap();
    let mut bytes = std::fs::read(&damaged).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&damaged, bytes).unwrap();
    let repaired = arrowwood::repair(&table, |_, _| ()).unwrap().repaired.unwrap();
    assert_eq!(repaired.moved, [table.join(".damaged").join(damaged.file_name().unwrap())]);
    assert_eq!(numbers_in(&table), all);
    println!("played");
}

/// Runs `child` in `home`, in mounts of its own after the shell's command `mount` if there is one; returns what it prints.
fn run(home: &Path, mount: Option<&str>, role: &str) -> String {
    let program = std::env::current_exe().unwrap();
    let child = format!("exec \"{}\" --exact {CHILD} --nocapture", program.display());
    let line =
        mount.map_or(child.clone(), |mount| format!("exec unshare -m sh -c '{mount} && echo mounted && {child}'"));
    let mut command = std::process::Command::new("sh");
    let output = command.args(["-c", &line]).env(ROLE, role).current_dir(home).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The name that `drop_partition` gives to a directory before it removes it.
fn dropped_name(directory: &Path) -> PathBuf {
    let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(directory).unwrap());
    directory.with_file_name(format!(".{inode}.dropped"))
}

/// What a process leaves that is killed while it drops a partition stayed forever.
#[test]
fn a_partition_that_was_being_dropped_is_removed_by_the_next_writer() {
    let home = folder_in_memory();
    let root = home.path().join("t");
    let filled = |name: &str| {
        let table = root.join(name);
        std::fs::create_dir_all(&table).unwrap();
        let mut writer = Writer::open(&table, Some(number_schema()), &options(&FileSystem::default())).unwrap();
        writer.append(&number_batch(0..25)).unwrap();
        writer.commit().unwrap();
        (table, writer)
    };
    let hide = |table: &Path, hidden: &Path| std::fs::rename(table, hidden).unwrap();
    let (left, writer) = filled("host=left");
    writer.close().unwrap();
    let left_name = dropped_name(&left);
    hide(&left, &left_name);
    // Another process is at it: the directory is locked.
    let (busy, writer) = filled("host=busy");
    let busy_name = dropped_name(&busy);
    hide(&busy, &busy_name);
    // Names that others gave: with another number, or without one, or of something else.
    let mut kept = vec![busy_name.clone()];
    for name in [".12.dropped", ".dropped", ".x.dropped"] {
        let (table, writer) = filled("host=other");
        writer.close().unwrap();
        kept.push(root.join(name));
        hide(&table, &root.join(name));
    }
    let (table, other) = filled("host=linked");
    other.close().unwrap();
    let link = dropped_name(&table);
    std::os::unix::fs::symlink(&table, &link).unwrap();
    let file = root.join("file");
    std::fs::write(&file, "kept").unwrap();
    let file_name = dropped_name(&file);
    hide(&file, &file_name);
    kept.extend([table, link, file_name]);

    filled("host=next").1.close().unwrap();
    assert!(!left_name.exists());
    for path in &kept {
        assert!(path.symlink_metadata().is_ok(), "{path:?}");
        let inside = if path.is_dir() { std::fs::read_dir(path).unwrap().count() } else { 3 };
        assert!(inside >= 3, "{path:?}");
    }
    drop(writer);
    filled("host=last").1.close().unwrap();
    assert!(!busy_name.exists());
    assert_eq!(numbers_in(&root.join("host=last")), (0..25).collect::<Vec<_>>());
}

/// Links to partitions are partitions where there are no segments; beside segments they were passed over.
#[test]
fn a_linked_partition_beside_segments_is_refused() {
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
    assert_eq!(numbers_in(&table), [0, 1, 2, 3, 4]);
    std::os::unix::fs::symlink(&elsewhere, table.join("host=b")).unwrap();
    let e = open(&table).unwrap_err();
    assert!(e.message().contains("host=b"), "{e}");
    assert_eq!(e.kind(), ErrorKind::InvalidData);
}

#[test]
fn a_table_grows_where_nothing_can_be_written_beside_it() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let home = folder_in_memory();
    for name in ["ticks", "copies"] {
        std::fs::create_dir(home.path().join(name)).unwrap();
        // Only root can.
        let _ = chown(home.path().join(name), Some(user::NOBODY), Some(user::NOBODY));
    }
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
    let output = run(home.path(), None, "nobody");
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(output.contains("played"), "{output}");
}

/// Mounting takes rights that not every machine gives to tests.
#[test]
fn a_table_grows_in_a_directory_that_is_mounted() {
    for mount in ["mount -t tmpfs none ticks", "mount --bind ticks ticks"] {
        let home = folder_in_memory();
        for name in ["ticks", "copies"] {
            std::fs::create_dir(home.path().join(name)).unwrap();
        }
        let output = run(home.path(), Some(mount), "mounted");
        eprintln!("{mount}: {}", if output.contains("mounted\n") { "done" } else { "not permitted" });
        assert!(!output.contains("mounted\n") || output.contains("played"), "{output}");
    }
}

/// The directories whose names were synced; one of them can't be.
#[derive(Debug, Default)]
struct SyncedFolders {
    synced: Mutex<Vec<PathBuf>>,
    broken: Mutex<Option<PathBuf>>,
}

impl SyncedFolders {
    fn options(self: &Arc<Self>) -> WriterOptions {
        WriterOptions { medium: FileSystem::with_observer(self.clone()), ..WriterOptions::default() }
    }

    fn has_all(&self, folders: &[&Path]) -> bool {
        let synced = self.synced.lock().unwrap();
        folders.iter().all(|folder| synced.contains(&folder.canonicalize().unwrap()))
    }
}

impl FsObserver for SyncedFolders {
    fn before_op(&self, act: FsOp<'_>) -> io::Result<()> {
        let FsOp::SyncFolder { path } = act else { return Ok(()) };
        if self.broken.lock().unwrap().as_deref() == Some(path) {
            return Err(io::Error::other("the power is gone"));
        }
        self.synced.lock().unwrap().push(path.canonicalize()?);
        Ok(())
    }
}

/// Without the names of the directories above them, durable rows are lost in a power cut.
#[test]
fn names_of_all_new_directories_are_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("new").join("t");
    let keys = |host| [("day", Value::Int(1)), ("host", Value::Str(host))];
    for host in ["a", "b"] {
        // Those that are there may be of a writer that was killed.
        let disk = Arc::new(SyncedFolders::default());
        partition_writer(&table, &keys(host), Some(number_schema()), &disk.options()).unwrap().close().unwrap();
        let day = table.join("day=1");
        assert!(disk.has_all(&[&folder.path().join("new"), &table, &day, &day.join(format!("host={host}"))]));
        assert_eq!(disk.has_all(&[folder.path()]), host == "a");
    }
}

#[test]
fn the_name_of_a_directory_whose_maker_was_killed_is_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let killed = Arc::new(SyncedFolders::default());
    *killed.broken.lock().unwrap() = Some(folder.path().to_path_buf());
    Writer::open(&table, Some(number_schema()), &killed.options()).unwrap_err();
    assert!(table.is_dir());
    let disk = Arc::new(SyncedFolders::default());
    Writer::open(&table, Some(number_schema()), &disk.options()).unwrap().close().unwrap();
    assert!(disk.has_all(&[folder.path(), &table]));
}

/// The second of its two segments finds a file in its place: the first must not keep its name.
#[test]
fn a_commit_that_got_one_of_two_names_is_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let segment = |row: u64| table.join(format!("{row:020}.arrow"));
    let mut writer = Writer::open(&table, Some(number_schema()), &options(&FileSystem::default())).unwrap();
    writer.append(&number_batch(0..5)).unwrap();
    writer.commit().unwrap();
    writer.append(&number_batch(5..25)).unwrap();
    std::fs::write(segment(20), "in the way").unwrap();
    writer.commit().unwrap_err();
    let seen_by_others = || {
        let file = std::fs::File::open(segment(0)).unwrap();
        let batches = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
        batches.map(|batch| batch.unwrap().num_rows()).sum::<usize>()
    };
    assert_eq!((seen_by_others(), segment(10).exists()), (5, false));
    drop(writer);
    std::fs::remove_file(segment(20)).unwrap();
    assert_eq!(open(&table).unwrap().len().unwrap(), 5);
    let mut writer = Writer::open(&table, None, &options(&FileSystem::default())).unwrap();
    writer.append(&number_batch(5..25)).unwrap();
    writer.close().unwrap();
    assert_eq!(open(&table).unwrap().len().unwrap(), 25);
}

/// Whoever removes the table and keeps a backup of links is told, too.
#[test]
fn a_writer_whose_segment_has_only_other_names_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    // It looks a hundred times a second, and only for the segment that grows, so that one must not get full before.
    let options = WriterOptions { segment_rows: Some(1 << 20), ..options(&FileSystem::default()) };
    let mut writer = Writer::open(&table, Some(number_schema()), &options).unwrap();
    writer.append(&number_batch(0..5)).unwrap();
    writer.commit().unwrap();
    let live = table.join("00000000000000000000.arrow");
    std::fs::hard_link(&live, folder.path().join("backup")).unwrap();
    std::fs::remove_file(&live).unwrap();
    let told = wait_for("the error of a writer whose segment was removed", || {
        writer.append(&number_batch(0..1)).unwrap();
        writer.commit().err()
    });
    assert_eq!(told.kind(), ErrorKind::FileChanged);
}
