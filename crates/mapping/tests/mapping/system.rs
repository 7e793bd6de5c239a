//! Tests of what is asked of each operating system: space, holes, advice about pages, and waits.

use std::fs::{self, File};
use std::time::Duration;

use arrowwood_mapping::os::{FileInfo, allocated_bytes};
use arrowwood_mapping::{
    AllowedChanges, AwaitedWord, ChangeCheck, FileSystem, Mapping, Mode, SharedFile, WaitSet, with_change_check,
};

/// A timeout for failures: longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(120);

/// The size of all files: whole pages of each system, and the place of some bytes in it.
const LEN: usize = 1 << 20;
const PLACE: usize = 300_000;

fn create_file(folder: &tempfile::TempDir) -> SharedFile {
    let store = SharedFile::create(&FileSystem::default(), folder.path(), LEN as u64).unwrap();
    store.link_at(&folder.path().join("file")).unwrap();
    store.write(PLACE as u64, b"words").unwrap();
    store
}

#[test]
fn space_is_reserved_and_released_without_a_change_of_other_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let store = create_file(&folder);
    let path = folder.path().join("file");
    let mut expected = vec![0; LEN];
    expected[PLACE..][..5].copy_from_slice(b"words");
    assert_eq!(store.next_data(PLACE as u64).unwrap(), Some(PLACE as u64));
    assert!(store.next_data(0).unwrap().unwrap() <= PLACE as u64);
    store.fill_holes(0, LEN as u64).unwrap();
    assert!(fs::read(&path).unwrap() == expected);
    let allocated = allocated_bytes(&FileInfo::from_path(&path).unwrap());
    assert!(allocated >= LEN as u64, "{allocated} bytes of {LEN}");
    // Blocks are released whole, or not at all.
    store.write(0, &vec![7; PLACE]).unwrap();
    store.release(0, PLACE as u64).unwrap();
    let bytes = fs::read(&path).unwrap();
    assert!(bytes[..PLACE].iter().all(|byte| [0, 7].contains(byte)) && bytes[PLACE..] == expected[PLACE..]);
}

/// Regression test: with musl no file had a time, so that another file with its inode was taken for it.
#[test]
fn files_and_directories_tell_when_they_were_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let file = File::create(&path).unwrap();
    let made = FileInfo::from_file(&file).unwrap().created();
    assert!(made.is_some() && FileInfo::from_path(folder.path()).unwrap().created().is_some());
    assert_eq!(FileInfo::from_path(&path).unwrap().created(), made);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert_eq!(FileInfo::from_path(&link).unwrap().created(), made);
    assert!(FileInfo::from_link(&link).unwrap().created() >= made);
}

#[test]
fn pages_that_have_blocks_are_ready_for_stores() {
    let folder = tempfile::tempdir().unwrap();
    let store = create_file(&folder);
    store.populate(PLACE as u64, 5).unwrap();
    store.put(PLACE as u64, b"WORDS");
    assert_eq!(fs::read(folder.path().join("file")).unwrap()[PLACE..][..5], *b"WORDS");
}

#[test]
fn copies_and_fixed_bytes_of_closed_files_are_those_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    create_file(&folder);
    let path = folder.path().join("file");
    let mapping = Mapping::open(&path, Mode::Read).unwrap();
    let copy = mapping.copy_ranges(std::iter::once(PLACE..PLACE + 3)).unwrap();
    assert_eq!(copy.view::<u8>(PLACE, Some(5)).unwrap().to_vec().unwrap(), b"wor\0\0");
    mapping.set_allowed_changes(AllowedChanges::InPlace(vec![(PLACE as u64, b"words".to_vec())]));
    mapping.close_file();
    let check = || with_change_check(ChangeCheck::Now, |when| mapping.check_unchanged(when), || Ok(()));
    check().unwrap();
    std::io::Write::write_all(&mut File::options().write(true).open(&path).unwrap(), &[1; LEN]).unwrap();
    check().unwrap_err();
}

#[test]
fn changed_words_and_new_names_end_a_wait() {
    let folder = tempfile::tempdir().unwrap();
    let store = create_file(&folder);
    let mapping = Mapping::open(folder.path().join("file"), Mode::Read).unwrap();
    let word = AwaitedWord { mapping, offset: 0, value: 0 };
    let names = [folder.path().join("names")];
    fs::create_dir(&names[0]).unwrap();
    let of_word = match WaitSet::new(vec![word.clone()], &[]) {
        // Linux before 5.16.
        Err(e) if e.kind() == std::io::ErrorKind::Unsupported => return,
        set => set.unwrap(),
    };
    let of_names = WaitSet::new(vec![word], &names).unwrap();
    assert!(!of_word.has_changed() && !of_names.has_changed());
    fs::write(names[0].join("new"), "").unwrap();
    assert!(of_names.wait(PATIENCE));
    assert!(!of_word.has_changed());
    store.publish32(0, 1);
    store.wake(0);
    assert!(of_word.wait(PATIENCE));
}
