//! Checks that errors are ignored only where a list says why.

use crate::{all_sources, without_comment, without_tests};

/// Ignored errors of a file: its path, parts of the lines, and the reason.
type IgnoredErrors = (&'static str, &'static [&'static str], &'static str);

/// Lists where errors may be ignored, as that loses no row and hides no fault. Everywhere else, a failed system call
/// must be an error.
const IGNORED_ERRORS: &[IgnoredErrors] = &[
    (
        "crates/arrowwood/src/table/check/repair.rs",
        &[
            "RecordBatch::try_new_with_options",
            "array.clone().checked(&[]).or_else",
            "segment.dictionary(dictionary, &counters)",
            "segment.column(number, &record).and_then(check_and_mend)",
            "check_and_mend(array.slice(0",
        ],
        "values in mapped memory are right or wrong; what can't be read ends the repair",
    ),
    (
        "crates/arrowwood/src/table/check/segments.rs",
        &["segment::read_front(&mapping)", "Ok(None) | Err(_) => None", "IpcSchema::parse_message", "ipc.frames()"],
        "only where in the file a finding is",
    ),
    (
        "crates/arrowwood/src/table/check/segments.rs",
        &[
            "ipc.checked_column(0, column)",
            "zone_of(&block)",
            "&checked[number]",
            "&checked[map.column]",
            "footer.as_ref().ok()",
            "Err(_) => \"readers refuse",
        ],
        "it is a finding already, or compared with what is expected",
    ),
    (
        "crates/arrowwood/src/table/check/segments.rs",
        &["read => read.ok()"],
        "errors of the system were returned before",
    ),
    (
        "crates/arrowwood/src/table/protocol/ring.rs",
        &["Err(_) => return Ok(self.next"],
        "no free place: the footer goes over the oldest one",
    ),
    ("crates/arrowwood/src/table/protocol/ring.rs", &["store.release("], "blocks that stay allocated cost space"),
    ("crates/arrowwood/src/table/reader/chain.rs", &["std::fs::read_dir(folder).into_iter()"], "the words of an error"),
    (
        "crates/arrowwood/src/table/reader/contiguous.rs",
        &["Mapping::join(&buffers)"],
        "who asks gets the segments one by one",
    ),
    (
        "crates/arrowwood/src/table/reader/follow.rs",
        &["Mapping::open(path, Mode::ReadWrite)"],
        "who may not write polls; the second error is returned",
    ),
    ("crates/arrowwood/src/table/reader/recount.rs", &["node.each_child("], "the closure gives no errors"),
    ("crates/arrowwood/src/table/reader/table.rs", &["check_goes_on("], "a refresh that follows has the error"),
    (
        "crates/arrowwood/src/table/writer/background/next_segment.rs",
        &["guard(factory).ok()"],
        "the segment is made when it is needed, with the error",
    ),
    (
        "crates/arrowwood/src/table/writer/background/work.rs",
        &["let _ = self.state.syncer.sync(", "self.syncer.sync(SyncTarget::Columns).ok()?"],
        "the writer has noted it, and goes on no more",
    ),
    (
        "crates/arrowwood/src/table/writer/background/work.rs",
        &["segment.trim_footers()"],
        "blocks that stay allocated cost space",
    ),
    (
        "crates/arrowwood/src/table/writer/compact.rs",
        &["check_directory().is_ok()"],
        "the writer is given up if it can be told, and the first error returned",
    ),
    (
        "crates/arrowwood/src/table/writer/live/file.rs",
        &["self.store.release("],
        "blocks that stay allocated cost space",
    ),
    (
        "crates/arrowwood/src/table/writer/live/file.rs",
        &["let _ = guard(|| {"],
        "a time of modification is best effort",
    ),
    (
        "crates/arrowwood/src/table/writer/live/region_space.rs",
        &["store.reserve("],
        "reserved ahead: the store that needs it has the error",
    ),
    ("crates/arrowwood/src/table/writer/open.rs", &["Chain::open(path).ok()"], "the words of an error"),
    (
        "crates/arrowwood/src/table/writer/open.rs",
        &["let Ok(opened)", "let Ok(store)", "store.file_fingerprint()"],
        "the next writer stamps the file",
    ),
    (
        "crates/arrowwood/src/table/writer/open.rs",
        &["restore_footers(medium, path"],
        "other readers find the rows of the segment after a repair, which has the error",
    ),
    (
        "crates/arrowwood/src/table/writer/roll.rs",
        &["self.next_shape("],
        "the segment is made when it is needed, with the error",
    ),
    (
        "crates/arrowwood/src/table/writer/writer.rs",
        &["store.check_stored().is_err()"],
        "asked after another error, which is returned then",
    ),
    (
        "crates/arrowwood/src/table/writer/writer.rs",
        &["self.stop_at_panic(|writer| {"],
        "the error of a failed assertion, which the next call has",
    ),
    (
        "crates/arrowwood/src/table/writer/writer.rs",
        &["Err(_) => Ok(()),"],
        "a path that this process can't open may still be the directory's",
    ),
    (
        "crates/arrowwood/src/table/writer/live/durability.rs",
        &["catch_panic(|| {"],
        "a time of modification is best effort",
    ),
    (
        "crates/arrowwood/src/table/writer/commit_segments.rs",
        &["taken_back.is_err()"],
        "the writer ends, and the first error is returned",
    ),
    (
        "crates/arrowwood/src/table/writer/writer.rs",
        &["live.trim()", "trim_footers()"],
        "blocks that stay allocated cost space",
    ),
    ("crates/arrowwood/src/table/writer/commit_segments.rs", &["done.trim()"], "blocks that stay allocated cost space"),
    (
        "crates/arrowwood/src/table/writer/commit_segments.rs",
        &["self.medium.remove("],
        "the next writer removes it; the first error is returned",
    ),
    (
        "crates/mapping/src/disk/directory_lock.rs",
        &[
            "remove_part_folder(",
            "symlink_metadata(&path)",
            "check_directory().is_ok()",
            ".unlink()",
            "DirectoryHandle::open(&path)",
            "handle.try_lock()",
        ],
        "what can't be removed only costs space",
    ),
    (
        "crates/mapping/src/growable.rs",
        &["MemoryRegion::reserved(rounded, wanted)"],
        "a smaller part is asked for next",
    ),
    ("crates/mapping/src/mapping.rs", &["origin.with_file("], "bytes that can't be read are not compared"),
    (
        "crates/mapping/src/disk/file_system.rs",
        &["self.file.set_times(", "FileInfo::from_path(before)"],
        "a lock that looks older is still held",
    ),
    (
        "crates/mapping/src/disk/file_system.rs",
        &["self.medium.remove(&self.path)"],
        "what can't be removed only costs space",
    ),
    ("crates/mapping/src/os/apple/machine.rs", &["hw.memsize"], "a fact that the system need not tell"),
    ("crates/mapping/src/os/apple/names.rs", &["F_GETPATH", "CStr::from_bytes_until_nul"], "the words of an error"),
    ("crates/mapping/src/os/apple/watch.rs", &["let _ = self.change(END"], "has no cause, and its caller no remedy"),
    (
        "crates/mapping/src/os/linux/blocks.rs",
        &["Err(_) => match io::Error"],
        "what the system lacks is done in another way",
    ),
    (
        "crates/mapping/src/os/linux/machine.rs",
        &["/proc/self/cgroup", "/proc/meminfo", "read_to_string(path)", "read_to_string(folder", "free.into_iter()"],
        "limits that can't be read are not taken into account",
    ),
    ("crates/mapping/src/os/linux/machine.rs", &["text => text.ok()"], "the file is missing, so there is no limit"),
    ("crates/mapping/src/os/linux/mounts.rs", &["/proc/self/fdinfo/"], "without /proc the device and inode decide"),
    (
        "crates/mapping/src/os/linux/names.rs",
        &["opened.is_ok_and("],
        "asked after another error, which is returned then",
    ),
    ("crates/mapping/src/os/linux/names.rs", &["read_link("], "the words of an error"),
    ("crates/mapping/src/os/linux/process.rs", &["/proc/self/"], "facts that the system need not tell, and a hint"),
    ("crates/mapping/src/os/portable/called.rs", &["write_all("], "make test-portable finds what is missing"),
    ("crates/mapping/src/os/portable/facts.rs", &["current_exe()"], "the name by which it was started is as good"),
    ("crates/mapping/src/os/portable/memory.rs", &["create_empty_file()"], "the pages get no access then"),
    ("crates/mapping/src/os/portable/watch.rs", &["Listing::read("], "a directory that can't be listed has changed"),
    ("crates/mapping/src/os/unix/files.rs", &["fchown(file"], "the file gets fewer permissions then"),
    ("crates/mapping/src/os/unix/files.rs", &["chown(path"], "the directory stays the process's own"),
    (
        "crates/mapping/src/os/unix/files.rs",
        &["metadata.created().ok()"],
        "not every file system has times of creation",
    ),
    (
        "crates/mapping/src/os/unix/fork.rs",
        &["io::pipe()", "PLACEHOLDER.set("],
        "a descriptor that is only a place holder",
    ),
    ("crates/mapping/src/os/unix/memory.rs", &["map_at(start"], "the pages get no access then"),
    (
        "crates/mapping/src/os/windows/descriptor.rs",
        &["let Ok(owned) = borrowed"],
        "the handle is taken over as it is then",
    ),
    (
        "crates/mapping/src/os/unix/names.rs",
        &["let Ok(path) = self.text()"],
        "a path with a zero byte: the call that follows refuses it",
    ),
    (
        "crates/mapping/src/os/unix/process.rs",
        &["gethostname(", "from_bytes_until_nul("],
        "a machine without a name is reached by its addresses",
    ),
    (
        "crates/mapping/src/os/unix/rename.rs",
        &["Err(_) if self.is_same_as", "Err(_) => match to.identity()"],
        "what the system lacks is done in another way",
    ),
    (
        "crates/mapping/src/os/windows/faults.rs",
        &["query(start)", "stderr().write_all(LOST)"],
        "a page that is not known is not ours; the last words of the process",
    ),
    (
        "crates/mapping/src/os/windows/files.rs",
        &["short_identity(file)"],
        "what the system lacks is done in another way",
    ),
    (
        "crates/mapping/src/os/windows/files.rs",
        &["metadata.created().ok()"],
        "not every file system has times of creation",
    ),
    ("crates/mapping/src/os/windows/memory.rs", &["query(start.as_ptr()"], "addresses that are not known stay taken"),
    (
        "crates/mapping/src/os/windows/process.rs",
        &["GetComputerNameExW(", "String::from_utf16("],
        "a machine without a name is reached by its addresses",
    ),
    (
        "crates/mapping/src/disk/unfinished_file.rs",
        &["remove_file(&self.part)"],
        "what can't be removed only costs space",
    ),
    (
        "crates/mapping/src/disk/unfinished_file.rs",
        &["FileInfo::from_link(path).is_ok_and("],
        "what can't be removed only costs space",
    ),
    ("crates/mapping/src/reserve.rs", &["MemoryRegion::sparse("], "whether there is memory is what is asked"),
    (
        "crates/mapping/src/shared_file.rs",
        &["self.medium.tell("],
        "an observer of tests, whose errors the next call has",
    ),
    ("crates/mapping/src/shared_file.rs", &["modified.is_ok_and("], "the file is stamped once more"),
    (
        "crates/mapping/src/shared_file.rs",
        &["self.medium.remove(&part)", "self.part.get_mut()"],
        "what can't be removed only costs space",
    ),
    ("crates/mapping/src/sys.rs", &["os::move_memory("], "the bytes are copied then"),
    ("crates/mapping/src/sys.rs", &["wait_for_any("], "waits are made one by one then"),
    ("crates/mapping/src/view.rs", &["self.get(i).ok()"], "an iterator that ends where the array does"),
    ("crates/mapping/src/wait_set.rs", &["waited.is_err()"], "the wait ends"),
    (
        "crates/mapping/src/change_check.rs",
        &["FileInfo::from_file(file).ok()?", "read_exact_at("],
        "bytes that can't be read are not compared",
    ),
];

#[test]
fn ignored_errors_are_listed() {
    const IGNORING: &[&str] = &[
        ".ok()",
        ".is_ok()",
        ".is_err()",
        ".is_ok_and(",
        "let Ok(",
        "let _ = ",
        "Err(_) ",
        ".or_else(|_|",
        "unwrap_or_else(|_|",
        "map_or_else(|_|",
        ".into_iter().flatten()",
    ];
    // Calls and names in lines that don't ignore an error of the system.
    const NO_SYSTEM_CALLS: &[&str] = &[
        "try_from(",
        "try_into()",
        "parse()",
        "parse::<",
        "from_utf8",
        "from_str_radix",
        "lock()",
        "try_lock()",
        ".join()",
        "check_record(",
        "order::check_ascending",
        "duration_since(",
        "SchemaConversion::try_new(",
        "Plan::for_schema(",
        "dense_settings(",
        "debug_assert",
        "compare_exchange",
        "both",
        "rested.into_iter()",
        "NOWHERE.set(",
        "strip_prefix",
        "of_machine()",
        "part.take()",
        "let _ = offset;",
        "let _ = len;",
        "let _ = word;",
        "let _ = bytes;",
        "let _ = (",
        "index_of(",
        "done.is_err()",
        "shown.is_err()",
        "appended.is_err()",
        "renamed.is_err()",
    ];
    let mut is_used = [false; IGNORED_ERRORS.len()];
    let mut unlisted = Vec::new();
    for (path, text) in all_sources() {
        let name = path.display().to_string();
        if !(name.starts_with("crates/arrowwood/src/table/")
            || name.starts_with("crates/mapping/src/")
            || name == "crates/arrowwood/src/directory.rs")
        {
            continue;
        }
        for (number, line) in without_tests(&text).lines().enumerate() {
            let code = without_comment(line);
            let ignores_error = IGNORING.iter().any(|call| code.contains(call));
            if !ignores_error || NO_SYSTEM_CALLS.iter().any(|call| code.contains(call)) {
                continue;
            }
            let entry = IGNORED_ERRORS
                .iter()
                .position(|(file, calls, _)| *file == name && calls.iter().any(|call| code.contains(call)));
            match entry {
                Some(entry) => is_used[entry] = true,
                None => unlisted.push(format!("{name}:{}: {}", number + 1, code.trim())),
            }
        }
    }
    assert!(
        unlisted.is_empty(),
        "errors may be lost: return them, or say in IGNORED_ERRORS why not:\n{}",
        unlisted.join("\n")
    );
    for (entry, is_used) in IGNORED_ERRORS.iter().zip(is_used) {
        assert!(is_used, "{entry:?} is no more");
    }
}
