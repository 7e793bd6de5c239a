//! Limits of the system and full disks: each is met by a clean error that says what to do, and nothing that was committed
//! is lost. Each process is this program again, under a limit, as `child` with its role in the environment.
//! `ARROWWOOD_LIMITS=long` makes the tables larger: see `make torture`.
#![cfg(target_os = "linux")]

use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrowwood::mapping::{self, ChangeCheck, FileSystem, Mapping, Mode, SharedFile, guard};
use arrowwood::simulate::limit_mappings;
use arrowwood::{Error, ErrorKind, GrowableBuffer, SyncPolicy, Writer, WriterOptions, follow, open};

use crate::tables::{number_batch, number_schema};
use crate::wait::PATIENCE;

const ROLE: &str = "ARROWWOOD_LIMITS_ROLE";
/// The test that plays a role.
const CHILD: &str = "limits::child";

fn is_long() -> bool {
    std::env::var("ARROWWOOD_LIMITS").is_ok_and(|form| form == "long")
}

fn writer(table: &str, segment_rows: u64, sync: SyncPolicy) -> Result<Writer, Error> {
    let options = WriterOptions { segment_rows: Some(segment_rows), sync, ..WriterOptions::default() };
    Writer::open(table, Some(number_schema()), &options)
}

/// Rows `start .. start + count`, each of which is its own number.
fn rows(start: u64, count: u64) -> RecordBatch {
    number_batch(start as i64..(start + count) as i64)
}

/// Panics unless the table is rows `0 .. count`.
fn check(table: &str, count: u64) {
    let (dataset, mut next) = (open(table).unwrap(), 0);
    for batch in dataset.to_record_batches() {
        for &value in batch.unwrap().column(0).as_primitive::<Int64Type>().values() {
            assert_eq!(value, next);
            next += 1;
        }
    }
    assert_eq!(next as u64, count);
}

/// Runs `role` in `folder` behind the shell's command `before`.
fn run(folder: &Path, before: &str, role: &str) -> Output {
    let program = std::env::current_exe().unwrap();
    let line = format!("{before} exec '{}' --exact {CHILD} --nocapture", program.display());
    let mut command = Command::new("sh");
    command.args(["-c", &line]).env(ROLE, role).current_dir(folder);
    command.output().unwrap()
}

fn play(folder: &Path, before: &str, role: &str) {
    let output = run(folder, before, role);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{role}: {}\n{text}", output.status);
    eprintln!("{}", text.lines().filter(|line| line.starts_with("  ")).collect::<Vec<_>>().join("\n"));
}

/// Not a test of its own: what the processes of the others run.
#[test]
fn child() {
    match std::env::var(ROLE).as_deref() {
        Ok("large file") => large_file(),
        Ok("many segments") => many_segments(),
        Ok("few mappings") => few_mappings(),
        Ok("little memory") => little_memory(),
        Ok("many files") => many_files(),
        Ok("never synced") => never_synced(),
        Ok("address space") => address_space(),
        Ok("growing memory") => growing_memory(),
        Ok("full disk") => full_disk(),
        Ok("holes") => holes(),
        Ok("pages beside holes") => pages_beside_holes(),
        Ok("lost store") => lost_store(),
        Ok("no space") => no_space(),
        Ok("unknown boot") => unknown_boot(),
        _ => (),
    }
}

/// The signal of `ulimit -f` ended the process when the second segment was made.
#[test]
fn a_segment_larger_than_files_may_be_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    play(folder.path(), "ulimit -f 8000;", "large file");
}

fn large_file() {
    let mut writer = writer("ticks", 1 << 20, SyncPolicy::Never).unwrap();
    let mut at = 0;
    let error = loop {
        match writer.append(&rows(at, 10_000)).and_then(|()| writer.commit()) {
            Ok(()) => at += 10_000,
            Err(e) => break e,
        }
        assert!(at < 10 << 20, "no limit");
    };
    eprintln!("  after {at} rows: {error}");
    assert!(error.errno() == Some(27) && error.message().contains("ulimit -f"), "{error}");
    check("ticks", at);
    // Nothing is broken: what fits is still written.
    let room = (1 << 16) - at % (1 << 16);
    if at < 1 << 16 {
        writer.append(&rows(at, room)).unwrap();
        at += room;
    }
    writer.close().unwrap();
    check("ticks", at);
    let refused = self::writer("other", 1 << 30, SyncPolicy::Never).map(|mut writer| writer.append(&rows(0, 1 << 24)));
    assert!(!matches!(refused, Ok(Ok(()))));
}

/// Each segment that was looked at kept its descriptor, so that a table of more than `ulimit -n` could not be scanned.
#[test]
fn a_table_of_more_segments_than_files_may_be_open() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = writer(folder.path().join("ticks").to_str().unwrap(), 8, SyncPolicy::Never).unwrap();
    let segments = if is_long() { 3000 } else { 600 };
    writer.append(&rows(0, 8 * segments)).unwrap_or_else(|e| panic!("{e}"));
    writer.close().unwrap();
    play(folder.path(), "ulimit -n 256;", "many segments");
}

fn many_segments() {
    let segments = if is_long() { 3000 } else { 600 };
    check("ticks", 8 * segments);
    let dataset = open("ticks").unwrap();
    dataset.validate(|_, _| ()).unwrap();
    let mut follow = follow(&dataset, Some(0), None).unwrap();
    let mut writer = writer("ticks", 8, SyncPolicy::Never).unwrap();
    writer.append(&rows(8 * segments, 20)).unwrap();
    writer.commit().unwrap();
    let mut found = 0;
    while found < 8 * segments + 20 {
        found += follow.poll(PATIENCE).unwrap().expect("the rows that were committed").len().unwrap();
    }
    writer.compact(|_, _| ()).unwrap();
    check("ticks", 8 * segments + 20);
}

/// Each segment was a mapping, of which a process has 65,530 by default: allocations and other mappings failed beyond them.
/// Now those beyond three quarters of them are copies of what they hold.
#[test]
fn a_table_of_more_segments_than_files_may_be_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let segments = if is_long() { 100_000 } else { 300 };
    let mut writer = writer(folder.path().join("ticks").to_str().unwrap(), 8, SyncPolicy::Never).unwrap();
    writer.append(&rows(0, 8 * 200)).unwrap();
    writer.commit().unwrap();
    writer.compact(|_, _| ()).unwrap();
    writer.append(&rows(8 * 200, 8 * 100)).unwrap();
    writer.close().unwrap();
    if is_long() {
        // Dense segments of the same schema, which arrow-rs writes more quickly.
        for first in (8 * 300..8 * segments).step_by(8) {
            let file = std::fs::File::create(folder.path().join(format!("ticks/{first:020}.arrow"))).unwrap();
            let mut file = arrow_ipc::writer::FileWriter::try_new(file, &number_schema()).unwrap();
            file.write(&rows(first, 8)).unwrap();
            file.finish().unwrap();
        }
    }
    play(folder.path(), "", "few mappings");
}

fn few_mappings() {
    let segments = if is_long() { 100_000 } else { 300 };
    if !is_long() {
        limit_mappings(20);
    }
    let held = open("ticks").unwrap();
    let mut seen = 0;
    for batch in held.to_record_batches() {
        for &value in batch.unwrap().column(0).as_primitive::<Int64Type>().values() {
            assert_eq!(value, seen);
            seen += 1;
        }
    }
    assert_eq!(seen as u64, 8 * segments);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = maps.lines().filter(|line| line.contains("/ticks/")).count();
    let most = if is_long() { 50_000 } else { 20 };
    assert!(mapped > 0 && mapped <= most, "{mapped} segments are mapped");
    assert!(maps.lines().count() <= most + 300, "{} mappings", maps.lines().count());
    // Rows that come are seen, and those of copies are the same.
    let mut writer = writer("ticks", 8, SyncPolicy::Never).unwrap();
    writer.append(&rows(8 * segments, 50)).unwrap();
    writer.commit().unwrap();
    let newer = held.refresh().unwrap();
    assert_eq!(newer.len().unwrap(), 8 * segments + 50);
    let all = newer.to_record_batches().map(|batch| batch.unwrap().num_rows() as u64).sum::<u64>();
    assert_eq!(all, 8 * segments + 50);
    assert_eq!(newer.row(8 * 250 + 3).unwrap().get(0).unwrap().to_string(), "2003");
}

/// Rows that are gathered may be larger than their file, by any factor.
#[test]
fn rows_that_have_no_room_below_the_limit_of_addresses_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    play(folder.path(), "ulimit -v 2000000;", "little memory");
}

fn little_memory() {
    let text: arrow_array::ArrayRef = Arc::new(arrow_array::StringArray::from(vec!["x".repeat(256)]));
    let batch = RecordBatch::try_from_iter([("text", text)]).unwrap();
    let dataset = arrowwood::Dataset::try_from(vec![batch]).unwrap();
    arrowwood::write(&dataset, "a.arrow", &arrowwood::WriteOptions::default()).unwrap();
    let dataset = open("a.arrow").unwrap();
    // Ten batches.
    let error = dataset.take(&vec![0; 10 << 20]).unwrap_err();
    eprintln!("  {error}");
    // Two threads may both find room for one more batch.
    let is_told = ["take fewer", "os error 12"].iter().any(|cause| error.message().contains(cause));
    assert!(error.kind() == ErrorKind::Io && is_told, "{error}");
    assert_eq!(dataset.take(&[0; 5]).unwrap().nbytes().unwrap(), 5 * 256 + 24);
}

/// Each file kept its descriptor and was a mapping.
#[test]
fn a_dataset_of_more_files_than_may_be_open_and_mapped() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..if is_long() { 100_000 } else { 600 } {
        let file = std::fs::File::create(folder.path().join(format!("{number:06}.arrow"))).unwrap();
        let mut file = arrow_ipc::writer::FileWriter::try_new(file, &number_schema()).unwrap();
        file.write(&rows(8 * number, 8)).unwrap();
        file.finish().unwrap();
    }
    play(folder.path(), "ulimit -n 256;", "many files");
}

fn many_files() {
    let files = if is_long() { 100_000 } else { 600 };
    if !is_long() {
        limit_mappings(20);
    }
    check(".", 8 * files);
    let dataset = open(".").unwrap();
    dataset.validate(|_, _| ()).unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = maps.lines().filter(|line| line.ends_with(".arrow")).count();
    let most = if is_long() { 50_000 } else { 20 };
    assert!(mapped > 0 && mapped <= most, "{mapped} files are mapped");
    assert!(maps.lines().count() <= most + 300, "{} mappings", maps.lines().count());
    assert_eq!(dataset.row(8 * 250 + 3).unwrap().get(0).unwrap().to_string(), "2003");
}

/// A writer that never syncs kept a descriptor for each segment that was full.
#[test]
fn a_writer_that_never_syncs_fills_more_segments_than_files_may_be_open() {
    let folder = tempfile::tempdir().unwrap();
    play(folder.path(), "ulimit -n 256;", "never synced");
}

fn never_synced() {
    let mut writer = writer("ticks", 8, SyncPolicy::Never).unwrap();
    let commits = if is_long() { 3000 } else { 600 };
    for commit in 0..commits {
        writer.append(&rows(8 * commit, 8)).unwrap();
        writer.commit().unwrap();
    }
    writer.close().unwrap();
    check("ticks", 8 * commits);
}

/// Want of address space is nothing that is wrong with the data.
#[test]
fn want_of_address_space_is_an_error_of_the_system() {
    let folder = tempfile::tempdir().unwrap();
    play(folder.path(), "ulimit -v 600000;", "address space");
}

fn address_space() {
    let mut writer = writer("ticks", 1 << 34, SyncPolicy::Never).unwrap();
    let (mut at, count) = (0, 1 << 16);
    let error = loop {
        match writer.append(&rows(at, count)).and_then(|()| writer.commit()) {
            Ok(()) => at += count,
            Err(e) => break e,
        }
        assert!(at < 1 << 30, "no limit");
    };
    eprintln!("  after {at} rows: {error}");
    assert!(error.errno() == Some(12) && error.message().contains("max_map_count"), "{error:?}");
    assert_eq!(writer.committed_rows(), at);
    drop(writer);
    let mut small = self::writer("small", 1000, SyncPolicy::Never).unwrap();
    small.append(&rows(0, 10_000)).unwrap();
    small.close().unwrap();
    check("small", 10_000);
}

/// Where addresses are few, a buffer that began small had huge pages in a part of its range, which mremap(2) does not move:
/// it could not grow beyond 4 MiB ("Bad address").
#[test]
fn memory_grows_where_addresses_are_few() {
    let folder = tempfile::tempdir().unwrap();
    play(folder.path(), "ulimit -v 600000;", "growing memory");
}

fn growing_memory() {
    for first in [1, 3 << 20, 6 << 20] {
        let (mut buffer, mut twin) = (GrowableBuffer::new(), Vec::new());
        for (number, len) in std::iter::once(first).chain([1 << 20; 24]).enumerate() {
            let bytes = vec![number as u8; len];
            buffer.extend_from_slice(&bytes).unwrap();
            twin.extend_from_slice(&bytes);
        }
        assert!(buffer[..] == twin[..] && buffer.capacity() < 1 << 28);
    }
}

/// Without `/proc`, a reader would take each commit for one of another boot, and show only what is durable; a writer's commits
/// would count after a power cut whether or not they reached the disk. Nothing is fewer rows without a word.
#[test]
fn tables_are_refused_where_the_boot_has_no_id() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = writer(&folder.path().join("ticks").to_string_lossy(), 1 << 16, SyncPolicy::Never).unwrap();
    writer.append(&rows(0, 10)).unwrap();
    writer.commit().unwrap();
    drop(writer);
    let prepare = "mount -t tmpfs none /proc";
    let is_possible = Command::new("unshare").args(["-m", "sh", "-c", prepare]).output();
    if !is_possible.is_ok_and(|output| output.status.success()) {
        return eprintln!("  skipped: /proc can't be hidden here");
    }
    let program = std::env::current_exe().unwrap();
    let line = format!("{prepare} && exec '{}' --exact {CHILD} --nocapture", program.display());
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &line]).env(ROLE, "unknown boot").current_dir(folder.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

fn unknown_boot() {
    let refused = |what: &str, error: Option<Error>| {
        let error = error.unwrap_or_else(|| panic!("{what} is not refused"));
        assert!(error.kind() == ErrorKind::Unsupported && error.message().contains("mount /proc"), "{what}: {error}");
    };
    refused("a reader", open("ticks").err());
    refused("a writer", writer("ticks", 1 << 16, SyncPolicy::Never).err());
    refused("a new table", writer("new", 1 << 16, SyncPolicy::Never).err());
}

/// Mounts `what` at `disk` in a namespace of its own, so that nothing stays mounted, and plays `role` there.
fn on_disk(what: &str, role: &str) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("disk")).unwrap();
    let image = folder.path().join("image");
    let prepare = match what {
        "tmpfs" => "mount -t tmpfs -o size=24m none disk".to_string(),
        _ => format!("mkfs.{what} -q {0} 24M && mount -o loop {0} disk", image.display()),
    };
    let mut trial = Command::new("unshare");
    trial.args(["-m", "sh", "-c", &format!("{prepare} >/dev/null 2>&1")]);
    if !trial.current_dir(folder.path()).status().is_ok_and(|status| status.success()) {
        return eprintln!("  skipped: {what} can't be mounted here");
    }
    let program = std::env::current_exe().unwrap();
    let line = format!("{prepare} && cd disk && exec '{}' --exact {CHILD} --nocapture", program.display());
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &line]).env(ROLE, role).current_dir(folder.path());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {}\n{text}", output.status);
    eprintln!("{}", text.lines().filter(|line| line.starts_with("  ")).collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_full_tmpfs_loses_nothing() {
    on_disk("tmpfs", "full disk");
}

#[test]
fn a_full_ext4_loses_nothing() {
    on_disk("ext4", "full disk");
}

/// ext2 can't reserve blocks. A writer of a copy with holes stored its first record into one: where the disk was full,
/// another program seemed to have changed the file.
#[test]
fn a_copy_with_holes_on_a_full_disk_is_an_error_of_the_disk() {
    on_disk("ext2", "holes");
}

fn holes() {
    drop(writer("ticks", 40_000, SyncPolicy::Never).unwrap());
    let name = format!("{:020}.arrow", 0);
    let bytes = std::fs::read(format!("ticks/{name}")).unwrap();
    std::fs::create_dir("copy").unwrap();
    let copy = std::fs::File::create(format!("copy/{name}")).unwrap();
    copy.set_len(bytes.len() as u64).unwrap();
    for (page, bytes) in bytes.chunks(4096).enumerate().filter(|(_, bytes)| bytes.iter().any(|&byte| byte != 0)) {
        copy.write_all_at(bytes, 4096 * page as u64).unwrap();
    }
    let mut ballast = std::fs::File::create("ballast").unwrap();
    while ballast.write_all(&[1; 1024]).is_ok() {}
    drop(ballast);
    let error = writer("copy", 40_000, SyncPolicy::Never).unwrap_err();
    assert_eq!(error.errno(), Some(28), "{error}");
    check("copy", 0);
    std::fs::remove_file("ballast").unwrap();
    let mut writer = writer("copy", 40_000, SyncPolicy::Never).unwrap();
    writer.append(&rows(0, 3)).unwrap();
    writer.close().unwrap();
    check("copy", 3);
}

/// Takes all space of the disk but `left` bytes.
fn fill(left: u64) {
    let mut ballast = std::fs::File::create("ballast").unwrap();
    while ballast.write_all(&[1; 1024]).is_ok() {}
    ballast.sync_all().unwrap();
    let len = ballast.metadata().unwrap().len();
    ballast.set_len(len.saturating_sub(left)).unwrap();
    // Only then ext4 gives the space to others.
    ballast.sync_all().unwrap();
}

/// Drops the pages of a file that nobody has mapped from memory, and reads it page by page.
fn read_anew(path: &str) {
    #![allow(unsafe_code)]
    let file = std::fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    // SAFETY: takes numbers only.
    assert_eq!(unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) }, 0);
    let mut page = [0; 4096];
    let mut at = 0;
    while file.read_at(&mut page, at).unwrap() > 0 {
        at += 4096;
    }
}

/// Pages that were read one after the other are kept together, those of commit records with those of the hole behind them. A
/// store to one needs blocks for all: on a full disk another program seemed to have changed the file.
#[test]
fn a_full_disk_is_no_changed_file_where_pages_of_holes_are_beside() {
    on_disk("ext4", "pages beside holes");
}

fn pages_beside_holes() {
    let (mut refused, mut committed) = (0, 0);
    // Opening needs some space, and a store may need a few blocks more.
    for left in (16..64).map(|number| number << 10) {
        let mut first = writer("ticks", 40_000, SyncPolicy::Never).unwrap();
        first.append(&rows(0, 3)).unwrap();
        first.close().unwrap();
        read_anew(&format!("ticks/{:020}.arrow", 0));
        fill(left);
        let next = writer("ticks", 40_000, SyncPolicy::Never);
        let done = next.and_then(|mut next| next.append(&rows(3, 1)).and_then(|()| next.commit()));
        let count = 3 + u64::from(done.is_ok());
        match done {
            Ok(()) => committed += 1,
            Err(e) => {
                refused += 1;
                assert_eq!(e.errno(), Some(28), "{left} bytes left: {e}");
            }
        }
        check("ticks", count);
        let report = arrowwood::check("ticks", |_, _| ()).unwrap();
        assert!(report.is_good(), "{left} bytes left: {report:?}");
        std::fs::remove_file("ballast").unwrap();
        let mut last = writer("ticks", 40_000, SyncPolicy::Never).unwrap();
        last.append(&rows(count, 1)).unwrap();
        last.close().unwrap();
        check("ticks", count + 1);
        std::fs::remove_dir_all("ticks").unwrap();
    }
    eprintln!("  refused on {refused} disks, {committed} commits on others");
    assert!(refused > 0 && committed > 0);
}

/// Pages that have blocks need no more of them, whatever is beside.
#[test]
fn stores_to_pages_that_have_blocks_need_no_space() {
    on_disk("ext4", "no space");
}

fn no_space() {
    let front = vec![1; 7 << 12];
    for page in (0..7).rev() {
        let file = std::fs::File::create("file").unwrap();
        file.write_all_at(&front, 0).unwrap();
        file.write_all_at(&front, 1 << 20).unwrap();
        drop(file);
        read_anew("file");
        // Less than a page, too, which a store that fails takes.
        fill(page << 9);
        let store = SharedFile::open(&FileSystem::default(), Path::new("file")).unwrap();
        for at in [page << 12, (1 << 20) + (page << 12)] {
            store.populate(at, 8).unwrap();
            let stored = guard(|| {
                store.put(at, &[7; 8]);
                Ok::<_, mapping::Error>(())
            });
            stored.unwrap();
        }
        drop(store);
        let mut expected = front.clone();
        expected.resize(1 << 20, 0);
        expected.extend(&front);
        for at in [0, 1 << 20] {
            expected[at + (page << 12) as usize..][..8].fill(7);
        }
        assert!(std::fs::read("file").unwrap() == expected, "page {page}");
        std::fs::remove_file("ballast").unwrap();
    }
}

/// What is stored behind a store that could not be made, as the number of a commit behind its record, does not reach the file.
#[test]
fn a_store_that_a_full_disk_has_no_room_for_is_its_error() {
    on_disk("tmpfs", "lost store");
    on_disk("ext4", "lost store");
}

fn lost_store() {
    let store = SharedFile::create(&FileSystem::default(), Path::new("."), 1 << 20).unwrap();
    store.link_at(Path::new("file")).unwrap();
    store.write(0, &[1; 4096]).unwrap();
    fill(0);
    let stored = guard(|| {
        store.put(512 << 10, &[7; 8]);
        store.publish64(0, 9);
        Ok::<_, mapping::Error>(())
    });
    let is_full = |e: mapping::Error| assert!(e.kind() == mapping::ErrorKind::Io && e.errno() == Some(28), "{e}");
    is_full(stored.unwrap_err());
    assert_eq!(std::fs::read("file").unwrap()[..8], [1; 8], "stored behind the store that was lost");
    is_full(store.check_stored().unwrap_err());
    is_full(store.check_unchanged(ChangeCheck::Now).unwrap_err());
    let view = || Mapping::open("file", Mode::ReadWrite).unwrap().view::<u8>(0, None).unwrap();
    is_full(view().set(512 << 10, 7).unwrap_err());
    std::fs::remove_file("ballast").unwrap();
    view().set(512 << 10, 7).unwrap();
    assert_eq!(view().get(512 << 10).unwrap(), 7);
}

fn full_disk() {
    let mut at = 0;
    for round in 0..if is_long() { 20 } else { 3 } {
        std::fs::write("ballast", vec![1; 4 << 20]).unwrap();
        let mut writer = writer("ticks", 40_000, SyncPolicy::Never).unwrap();
        // Small pieces go by stores into mapped pages, large ones by writes.
        let count = [7, 3000, 50_000][round % 3];
        let error = loop {
            match writer.append(&rows(at, count)).and_then(|()| writer.commit()) {
                Ok(()) => at += count,
                Err(e) => break e,
            }
        };
        if round < 3 {
            eprintln!("  round {round}, after {at} rows: {error}");
        }
        assert_eq!(error.errno(), Some(28), "{error}");
        assert_eq!(writer.committed_rows(), at);
        check("ticks", at);
        // Where there is no room to compact either, the table stays as it was.
        let _ = writer.compact(|_, _| ());
        check("ticks", at);
        std::fs::remove_file("ballast").unwrap();
        // The same writer goes on.
        writer.rollback();
        writer.append(&rows(at, count)).unwrap();
        writer.commit().unwrap();
        at += count;
        writer.close().unwrap();
        check("ticks", at);
        std::fs::remove_dir_all("ticks").unwrap();
        at = 0;
    }
}

/// What a writer or a compaction that was killed had begun beside the folder stayed there for ever; and where process ids
/// come again, as they do in containers, its name kept the next one from opening the table.
#[test]
fn the_next_writer_removes_what_a_killed_one_left_beside_its_table() {
    let folder = tempfile::tempdir().unwrap();
    let (table, own) = (folder.path().join("ticks"), format!(".ticks.{}.0.part", std::process::id()));
    let others = [".ticks.old.7.0.part", ".ticks.7.part", ".ticks.7.0.part.arrow", ".tick.7.0.part", "ticks.7.0.part"];
    let names = [own.as_str(), ".ticks.7.0.part"].into_iter().chain(others);
    names.for_each(|name| std::fs::write(folder.path().join(name), "begun").unwrap());
    let mut writer = writer(table.to_str().unwrap(), 8, SyncPolicy::Never).unwrap();
    writer.append(&rows(0, 20)).unwrap();
    writer.close().unwrap();
    let there = |name: &str| folder.path().join(name).exists();
    assert!(!there(&own) && !there(".ticks.7.0.part"));
    assert!(others.iter().all(|name| there(name)));
    std::fs::write(folder.path().join(&own), "begun").unwrap();
    arrowwood::compact(&table, |_, _| ()).unwrap();
    assert!(!there(&own));
    check(table.to_str().unwrap(), 20);
}
