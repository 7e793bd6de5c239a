//! A simulated disk, which tells what may be on it after a power cut at any moment of a run.
//!
//! Synced data is on the disk. Everything else may be there or not, independently of each other: each page of 4 KiB is
//! in any of its states since the last sync, or a mixture of such states by sectors of 512 bytes, and each size and
//! each name is the old or the new one. A file that is only ordered before later changes is on the disk if one of them
//! is: the disk is as before, or has it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use arrowwood::simulate::{FsObserver, FsOp};
use arrowwood::table_stat;

use crate::dice::Dice;

const PAGE: usize = 4096;
const SECTOR: usize = 512;

type Page = Arc<[u8; PAGE]>;

/// A file system operation, or a [`Mark`] of the program under test. Files are identified by their inode numbers.
#[derive(Clone, Debug)]
pub enum Event {
    Folder(PathBuf),
    /// A file was created, with a path unless it is unnamed.
    Made(u64, Option<PathBuf>),
    Resize(u64, u64),
    /// Bytes were written at an offset.
    Put(u64, u64, Vec<u8>),
    Name(u64, PathBuf),
    Rename(PathBuf, PathBuf),
    Link(PathBuf, PathBuf),
    Exchange(PathBuf, PathBuf),
    Remove(PathBuf),
    Sync(u64),
    Synced(u64),
    /// As `Synced`, but only where later changes are on the disk.
    Ordered(u64),
    /// A range of bytes, by offset and length, is on the disk, independently of the rest of the file.
    SyncedBytes(u64, u64, u64),
    /// A sync failed: the system treats the pages as written from now on, although they may not be.
    Lost(u64),
    SyncFolder(PathBuf),
    SyncedFolder(PathBuf),
    /// The guarantees that hold from now on.
    Mark(Mark),
}

/// The guarantees for a table after a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mark {
    /// The table exists.
    pub exists: bool,
    /// No row below this one may be lost, except rows below `dropped`.
    pub durable: u64,
    /// No row below this one may be lost as long as the page cache survives, except rows below `dropped`.
    pub committed: u64,
    /// No row from this one on was ever written.
    pub intended: u64,
    /// Rows below this one may have been dropped.
    pub dropped: u64,
    /// The numbers of the first and the last order that the rows may be in.
    pub orders: [usize; 2],
}

/// Records all file system operations, and injects faults into them.
#[derive(Debug, Default)]
pub struct Recorder {
    events: Mutex<Vec<Event>>,
    fault: Mutex<Option<Fault>>,
    syncs_fail: AtomicBool,
    reader: Mutex<Reader>,
    kill: Mutex<Kill>,
    /// True while rows are being sorted.
    pub is_sorting: AtomicBool,
}

/// Another process that asks before each sync how many rows of a table are durable.
#[derive(Debug, Default)]
struct Reader {
    table: Option<PathBuf>,
    /// The last mark of the program under test.
    mark: Mark,
}

/// A kill of the writer in the middle of a sync.
#[derive(Debug, Default)]
enum Kill {
    #[default]
    None,
    /// The writer is killed at the next sync of a file in this table.
    Armed(PathBuf),
    /// The writer was killed and left these files. Its later operations, until it returns, are undone.
    Done(BTreeMap<PathBuf, Vec<u8>>),
}

/// An error of one operation, or of all from that one on if it is `lasting`.
#[derive(Debug)]
struct Fault {
    /// The number of operations that succeed before it.
    after: u64,
    errno: i32,
    lasting: bool,
    was_hit: bool,
}

impl Recorder {
    /// Records the guarantees that hold from now on.
    pub fn mark(&self, mark: Mark) {
        self.reader.lock().unwrap().mark = mark;
        self.events.lock().unwrap().push(Event::Mark(mark));
    }

    /// Reads before each sync from now on how many rows of `table` are durable: these must survive.
    pub fn track_durable_rows(&self, table: PathBuf) {
        self.reader.lock().unwrap().table = Some(table);
    }

    /// Marks the rows as durable that the table reports as durable to readers.
    fn mark_reported_rows(&self) {
        let reader = self.reader.lock().unwrap();
        let Some(table) = reader.table.as_ref().filter(|_| reader.mark.exists) else { return };
        let Ok(Some(stat)) = table_stat(table) else { return };
        if stat.durable_end > reader.mark.durable {
            let mark = Mark { durable: stat.durable_end, ..reader.mark };
            self.events.lock().unwrap().push(Event::Mark(mark));
        }
    }

    /// Kills the writer at the next sync of a file in `table`: its writes are in the page cache, and never reach the
    /// disk.
    pub fn kill_in_sync(&self, table: PathBuf) {
        *self.kill.lock().unwrap() = Kill::Armed(table);
    }

    /// Restores the files as they were when the writer was killed.
    pub fn restore_killed_files(&self) {
        let Kill::Done(files) = std::mem::take(&mut *self.kill.lock().unwrap()) else { panic!("no writer was killed") };
        for (path, bytes) in files {
            let file = File::options().write(true).open(path).unwrap();
            file.set_len(bytes.len() as u64).and_then(|()| file.write_all_at(&bytes, 0)).unwrap();
        }
    }

    /// Returns true if the writer was killed before this operation, or is killed by it.
    fn is_killed(&self, op: FsOp<'_>) -> bool {
        let mut kill = self.kill.lock().unwrap();
        let Kill::Armed(table) = &*kill else { return matches!(&*kill, Kill::Done(_)) };
        let (FsOp::Sync { file } | FsOp::WriteSynced { file, .. }) = op else { return false };
        let mut files = BTreeMap::new();
        for entry in table.read_dir().unwrap().map(Result::unwrap) {
            let mut bytes = std::fs::read(entry.path()).unwrap();
            if let FsOp::WriteSynced { offset, bytes: written, .. } = op
                && entry.metadata().unwrap().ino() == file
            {
                bytes[offset as usize..][..written.len()].copy_from_slice(written);
                self.events.lock().unwrap().push(Event::Put(file, offset, written.to_vec()));
            }
            files.insert(entry.path(), bytes);
        }
        *kill = Kill::Done(files);
        true
    }

    /// Returns the events since the last call.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.events.lock().unwrap())
    }

    /// Makes an operation fail with `errno` after `after` others, and all later ones, too, if `lasting`.
    pub fn fail(&self, after: u64, errno: i32, lasting: bool) {
        *self.fault.lock().unwrap() = Some(Fault { after, errno, lasting, was_hit: false });
    }

    /// Removes the fault; returns whether an operation has failed.
    pub fn clear_fault(&self) -> bool {
        self.fault.lock().unwrap().take().is_some_and(|fault| fault.was_hit)
    }

    /// Makes all syncs of files fail from now on, or succeed again.
    pub fn fail_syncs(&self, fail: bool) {
        self.syncs_fail.store(fail, Ordering::SeqCst);
    }

    /// Returns the injected error if it is due.
    fn check_fault(&self) -> io::Result<()> {
        let mut fault = self.fault.lock().unwrap();
        let Some(fault) = fault.as_mut().filter(|fault| !fault.was_hit || fault.lasting) else { return Ok(()) };
        if fault.after > 0 {
            fault.after -= 1;
            return Ok(());
        }
        fault.was_hit = true;
        Err(io::Error::from_raw_os_error(fault.errno))
    }
}

impl FsObserver for Recorder {
    fn before_op(&self, op: FsOp<'_>) -> io::Result<()> {
        if matches!(op, FsOp::Sync { .. } | FsOp::WriteSynced { .. } | FsOp::SyncFolder { .. }) {
            self.mark_reported_rows();
        }
        if self.is_killed(op) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        // Stores into mapped memory can't return an error, nor can operations that were already done.
        if !matches!(
            op,
            FsOp::StoreMapped { .. }
                | FsOp::Created { .. }
                | FsOp::Synced { .. }
                | FsOp::Ordered { .. }
                | FsOp::WroteSynced { .. }
                | FsOp::SyncedFolder { .. }
        ) {
            self.check_fault()?;
        }
        if let (FsOp::Sync { file } | FsOp::WriteSynced { file, .. }, true) =
            (op, self.syncs_fail.load(Ordering::SeqCst))
        {
            let mut events = self.events.lock().unwrap();
            if let FsOp::WriteSynced { offset, bytes, .. } = op {
                events.push(Event::Put(file, offset, bytes.to_vec()));
            }
            events.push(Event::Lost(file));
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        let event = match op {
            FsOp::MakeFolder { path } => Event::Folder(path.into()),
            FsOp::Created { file, path } => Event::Made(file, path.map(Path::to_path_buf)),
            FsOp::Resize { file, len } => Event::Resize(file, len),
            FsOp::Write { file, offset, bytes }
            | FsOp::WriteSynced { file, offset, bytes }
            | FsOp::StoreMapped { file, offset, bytes } => Event::Put(file, offset, bytes.to_vec()),
            FsOp::WroteSynced { file, offset, len } => Event::SyncedBytes(file, offset, len),
            FsOp::Release { file, offset, len } => Event::Put(file, offset, vec![0; len as usize]),
            FsOp::Name { file, path } => Event::Name(file, path.into()),
            FsOp::Rename { from, to } => Event::Rename(from.into(), to.into()),
            FsOp::Link { from, to } => Event::Link(from.into(), to.into()),
            FsOp::Exchange { one, other } => Event::Exchange(one.into(), other.into()),
            FsOp::Remove { path } | FsOp::RemoveFolder { path } => Event::Remove(path.into()),
            FsOp::Sync { file } => Event::Sync(file),
            FsOp::Synced { file } => Event::Synced(file),
            FsOp::Ordered { file } => Event::Ordered(file),
            FsOp::SyncFolder { path } => Event::SyncFolder(path.into()),
            FsOp::SyncedFolder { path } => Event::SyncedFolder(path.into()),
            _ => return Ok(()),
        };
        self.events.lock().unwrap().push(event);
        Ok(())
    }
}

/// A file: its contents on the disk, and all changes since.
#[derive(Clone, Debug, Default)]
struct Inode {
    synced: BTreeMap<u64, Page>,
    synced_len: u64,
    /// The pages in the page cache.
    cached: BTreeMap<u64, Page>,
    /// The states of pages since the last sync, each with the number of its event.
    dirty: BTreeMap<u64, Vec<(usize, Page)>>,
    /// The sizes since the last sync, each with the number of its event.
    lens: Vec<(usize, u64)>,
    /// Pages of a failed sync, which may be on the disk or not: no later sync writes them, unless they change again.
    stuck: BTreeSet<u64>,
    syncing: Option<SyncInProgress>,
}

/// The contents that a sync will have brought to the disk when it ends.
#[derive(Clone, Debug)]
struct SyncInProgress {
    /// The number of the event that began it.
    number: usize,
    pages: BTreeMap<u64, Page>,
    len: u64,
}

impl Inode {
    fn len(&self) -> u64 {
        self.lens.last().map_or(self.synced_len, |&(_, len)| len)
    }

    fn put(&mut self, number: usize, offset: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let position = offset + done as u64;
            let page = position / PAGE as u64;
            let start = (position % PAGE as u64) as usize;
            let len = (PAGE - start).min(bytes.len() - done);
            let mut new = self.cached.get(&page).map_or([0; PAGE], |page| **page);
            let part = &bytes[done..done + len];
            done += len;
            self.stuck.remove(&page);
            // Writing zeros to a hole leaves it a hole.
            if new[start..start + len] == *part {
                continue;
            }
            new[start..start + len].copy_from_slice(part);
            let new = Arc::new(new);
            self.cached.insert(page, new.clone());
            self.dirty.entry(page).or_default().push((number, new));
        }
    }

    fn sync(&mut self, number: usize) {
        let mut pages = self.cached.clone();
        for page in &self.stuck {
            match self.synced.get(page) {
                Some(old) => pages.insert(*page, old.clone()),
                None => pages.remove(page),
            };
        }
        self.syncing = Some(SyncInProgress { number, pages, len: self.len() });
    }

    fn synced_bytes(&mut self, offset: u64, len: u64) {
        for page in offset / PAGE as u64..(offset + len).div_ceil(PAGE as u64) {
            self.synced.extend(self.cached.get(&page).map(|bytes| (page, bytes.clone())));
            self.dirty.remove(&page);
        }
    }

    fn synced(&mut self) {
        let Some(SyncInProgress { number, pages, len }) = self.syncing.take() else { return };
        self.synced = pages;
        self.synced_len = len;
        self.lens.retain(|&(event, _)| event > number);
        for (page, states) in &mut self.dirty {
            if !self.stuck.contains(page) {
                states.retain(|&(event, _)| event > number);
            }
        }
        self.dirty.retain(|_, states| !states.is_empty());
    }
}

/// A change of names that the disk may not know of yet.
#[derive(Clone, Debug)]
enum Naming {
    Folder(PathBuf),
    Name(PathBuf, u64),
    /// From, to, and the file: the new name leads to it even where the disk doesn't know the old one.
    Rename(PathBuf, PathBuf, u64),
    Exchange(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl Naming {
    /// Returns the folder whose sync makes the change durable.
    fn folder(&self) -> &Path {
        let (Naming::Folder(path)
        | Naming::Name(path, _)
        | Naming::Rename(_, path, _)
        | Naming::Exchange(_, path)
        | Naming::Remove(path)) = self;
        path.parent().unwrap()
    }
}

/// The names of files, with their numbers, and of folders, which have none.
type Names = BTreeMap<PathBuf, Option<u64>>;

fn apply_naming(names: &mut Names, naming: &Naming) {
    match naming {
        Naming::Folder(path) => drop(names.insert(path.clone(), None)),
        Naming::Name(path, file) => drop(names.insert(path.clone(), Some(*file))),
        Naming::Remove(path) => drop(names.remove(path)),
        Naming::Rename(from, to, file) => {
            names.remove(from);
            names.insert(to.clone(), Some(*file));
        }
        Naming::Exchange(one, other) => {
            let old_names = std::mem::take(names);
            *names = old_names.into_iter().map(|(path, file)| (exchange_prefix(path, one, other), file)).collect();
        }
    }
}

/// Returns a path after `one` and `other` were exchanged, one of which it may begin with.
fn exchange_prefix(path: PathBuf, one: &Path, other: &Path) -> PathBuf {
    let exchanged = match (path.strip_prefix(one), path.strip_prefix(other)) {
        (Ok(rest), _) => other.join(rest),
        (_, Ok(rest)) => one.join(rest),
        _ => return path,
    };
    // Joining an empty path adds a slash, which collecting the components removes.
    exchanged.components().collect()
}

/// The disk after some events.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    inodes: BTreeMap<u64, Inode>,
    /// The file that each inode number means now: the system reuses the numbers of removed files.
    ids: BTreeMap<u64, u64>,
    names: Names,
    /// Changes of names that aren't synced, each with the number of its event.
    namings: Vec<(usize, Naming)>,
    /// Syncs of folders that are in progress, each with the number of its event.
    syncing: Vec<(usize, PathBuf)>,
    /// The disk before the first file was ordered that may not be on it: no full sync has ended since.
    before_order: Option<Box<Disk>>,
    pub mark: Mark,
    events: usize,
}

/// Chooses which of the unsynced changes are on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Luck {
    Nothing,
    Everything,
    /// All names, and a random state of each page.
    Pages,
    /// A random state of each sector, and random names.
    Sectors,
    /// Everything but one page.
    OneBehind,
    /// All names and one page.
    OneAhead,
}

impl Luck {
    pub const ALL: [Luck; 6] =
        [Luck::Nothing, Luck::Everything, Luck::Pages, Luck::Sectors, Luck::OneBehind, Luck::OneAhead];
}

impl Disk {
    /// Returns true if a crash can't lose anything.
    pub fn is_synced(&self) -> bool {
        let has_all = self.namings.is_empty() && self.before_order.is_none();
        has_all && self.inodes.values().all(|inode| inode.dirty.is_empty() && inode.lens.is_empty())
    }

    /// Returns true if a sync has failed, and pages may not be on the disk that the system treats as written.
    pub fn has_failed(&self) -> bool {
        self.inodes.values().any(|inode| !inode.stuck.is_empty())
    }

    /// Returns the file that has an inode number now, and its identity on this disk.
    fn inode(&mut self, number: u64) -> (u64, &mut Inode) {
        let next = self.inodes.len() as u64;
        let id = *self.ids.entry(number).or_insert(next);
        (id, self.inodes.entry(id).or_default())
    }

    pub fn apply(&mut self, event: &Event) {
        if let Event::Ordered(_) = event
            && self.before_order.is_none()
        {
            self.before_order = Some(Box::new(self.clone()));
        }
        if let Event::Synced(_) | Event::SyncedBytes(..) | Event::SyncedFolder(_) = event {
            self.before_order = None;
        }
        self.events += 1;
        let number = self.events;
        match event {
            Event::Folder(path) => self.namings.push((number, Naming::Folder(path.clone()))),
            Event::Made(file, path) => {
                self.ids.remove(file);
                let (id, _) = self.inode(*file);
                if let Some(path) = path {
                    self.namings.push((number, Naming::Name(path.clone(), id)));
                }
            }
            Event::Resize(file, len) => self.inode(*file).1.lens.push((number, *len)),
            Event::Put(file, offset, bytes) => {
                let (_, inode) = self.inode(*file);
                inode.put(number, *offset, bytes);
                let end = offset + bytes.len() as u64;
                if end > inode.len() {
                    inode.lens.push((number, end));
                }
            }
            Event::Name(file, path) => {
                let (id, _) = self.inode(*file);
                self.namings.push((number, Naming::Name(path.clone(), id)));
            }
            Event::Rename(from, to) => {
                let file = self.file_at(from);
                self.namings.push((number, Naming::Rename(from.clone(), to.clone(), file)));
            }
            Event::Link(from, to) => {
                let file = self.file_at(from);
                self.namings.push((number, Naming::Name(to.clone(), file)));
            }
            Event::Exchange(one, other) => {
                self.namings.push((number, Naming::Exchange(one.clone(), other.clone())));
            }
            Event::Remove(path) => self.namings.push((number, Naming::Remove(path.clone()))),
            Event::Sync(file) => self.inode(*file).1.sync(number),
            Event::Synced(file) | Event::Ordered(file) => self.inode(*file).1.synced(),
            Event::SyncedBytes(file, offset, len) => self.inode(*file).1.synced_bytes(*offset, *len),
            Event::Lost(file) => {
                let (_, inode) = self.inode(*file);
                inode.stuck = inode.dirty.keys().copied().collect();
            }
            Event::SyncFolder(path) => self.syncing.push((number, path.clone())),
            Event::SyncedFolder(path) => self.synced_folder(path),
            Event::Mark(mark) => self.mark = *mark,
        }
    }

    /// Returns the file that has this name now.
    fn file_at(&self, path: &Path) -> u64 {
        let mut names = self.names.clone();
        for (_, naming) in &self.namings {
            apply_naming(&mut names, naming);
        }
        names[path].unwrap()
    }

    fn synced_folder(&mut self, folder: &Path) {
        let Some(index) = self.syncing.iter().position(|(_, path)| path == folder) else { return };
        let (started, _) = self.syncing.remove(index);
        let mut unsynced = Vec::new();
        for (number, naming) in std::mem::take(&mut self.namings) {
            if number < started && naming.folder() == folder {
                apply_naming(&mut self.names, &naming);
            } else {
                unsynced.push((number, naming));
            }
        }
        self.namings = unsynced;
    }

    /// Returns the disk with only the first part of the event's write: a page may be written back while it is stored
    /// to.
    pub fn torn(&self, event: &Event, dice: &mut Dice) -> Option<Disk> {
        let Event::Put(file, offset, bytes) = event else { return None };
        let len = 8 * dice.below(bytes.len() as u64 / 8 + 1) as usize;
        let mut disk = self.clone();
        disk.apply(&Event::Put(*file, *offset, bytes[..len].to_vec()));
        Some(disk)
    }

    /// Returns a state that the disk may have if the power fails now.
    pub fn image(&self, luck: Luck, dice: &mut Dice) -> Image {
        if let Some(before) = self.before_order.as_ref().filter(|_| luck != Luck::Everything && dice.below(2) == 0) {
            return before.image(luck, dice);
        }
        let namings = (0..self.namings())
            .filter(|_| match luck {
                Luck::Nothing => false,
                Luck::Sectors => dice.below(2) == 0,
                _ => true,
            })
            .collect();
        self.image_with(&namings, luck, dice)
    }

    /// Returns the number of unsynced changes of names.
    pub fn namings(&self) -> usize {
        self.namings.len()
    }

    /// As [`Disk::image`], with the unsynced changes of names that are chosen by their indices.
    pub fn image_with(&self, namings: &BTreeSet<usize>, luck: Luck, dice: &mut Dice) -> Image {
        let mut names = self.names.clone();
        for &index in namings {
            apply_naming(&mut names, &self.namings[index].1);
        }
        let dirty_pages: u64 = self.inodes.values().map(|inode| inode.dirty.len() as u64).sum();
        let exception = dice.below(dirty_pages.max(1));
        let mut page_number = 0;
        let mut contents = BTreeMap::new();
        for (&file, inode) in &self.inodes {
            let mut pages = inode.synced.clone();
            for (&page, states) in &inode.dirty {
                let old = inode.synced.get(&page);
                if let Some(new) = choose_page(luck, page_number == exception, old, states, dice) {
                    pages.insert(page, new);
                }
                page_number += 1;
            }
            contents.insert(file, (choose_len(inode, luck, dice), pages));
        }
        let mut image = Image::default();
        for (path, file) in names {
            match file {
                None => image.folders.push(path),
                Some(file) => image.files.push((path, contents.get(&file).cloned().unwrap_or_default())),
            }
        }
        image
    }
}

/// Chooses the state of one page, given its synced state and all later ones. `is_exception` is true for one page.
fn choose_page(
    luck: Luck,
    is_exception: bool,
    old: Option<&Page>,
    states: &[(usize, Page)],
    dice: &mut Dice,
) -> Option<Page> {
    let newest = states.last().map(|(_, page)| page.clone());
    match luck {
        Luck::Nothing => old.cloned(),
        Luck::Everything => newest,
        Luck::OneBehind if is_exception => random_page(old, states, dice),
        Luck::OneBehind => newest,
        Luck::OneAhead if is_exception => newest,
        Luck::OneAhead => old.cloned(),
        Luck::Pages => random_page(old, states, dice),
        Luck::Sectors => {
            let mut mixed = [0; PAGE];
            for (index, sector) in mixed.chunks_mut(SECTOR).enumerate() {
                if let Some(page) = random_page(old, states, dice) {
                    sector.copy_from_slice(&page[index * SECTOR..(index + 1) * SECTOR]);
                }
            }
            Some(Arc::new(mixed))
        }
    }
}

fn random_page(old: Option<&Page>, states: &[(usize, Page)], dice: &mut Dice) -> Option<Page> {
    match dice.below(states.len() as u64 + 1) as usize {
        0 => old.cloned(),
        number => Some(states[number - 1].1.clone()),
    }
}

fn choose_len(inode: &Inode, luck: Luck, dice: &mut Dice) -> u64 {
    match luck {
        Luck::Nothing => inode.synced_len,
        Luck::Pages | Luck::Sectors => match dice.below(inode.lens.len() as u64 + 1) as usize {
            0 => inode.synced_len,
            number => inode.lens[number - 1].1,
        },
        _ => inode.len(),
    }
}

/// The size and the pages of a file.
type Content = (u64, BTreeMap<u64, Page>);

/// The files and folders on a disk after a power cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    folders: Vec<PathBuf>,
    files: Vec<(PathBuf, Content)>,
}

impl Hash for Image {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.folders.hash(state);
        for (path, (len, pages)) in &self.files {
            (path, len).hash(state);
            for (page, bytes) in pages {
                // A sum is enough, and much faster here than the hash of all bytes.
                let (words, _) = bytes.as_chunks();
                let sum = words.iter().fold(0u64, |sum, word| sum.rotate_left(5) ^ u64::from_le_bytes(*word));
                (page, sum).hash(state);
            }
        }
    }
}

impl Image {
    /// Creates the files, in `home` instead of the folder `from` of the run.
    pub fn write(&self, from: &Path, home: &Path) {
        for folder in &self.folders {
            std::fs::create_dir(relocate(folder, from, home)).unwrap();
        }
        for (path, (len, pages)) in &self.files {
            let target = relocate(path, from, home);
            let Ok(file) = File::options().write(true).create_new(true).open(target) else {
                // The file is in a folder whose own name was lost.
                assert!(!self.folders.iter().any(|folder| path.parent() == Some(folder)), "{}", path.display());
                continue;
            };
            file.set_len(*len).unwrap();
            for (page, bytes) in pages {
                let offset = page * PAGE as u64;
                let end = (len.saturating_sub(offset)).min(PAGE as u64) as usize;
                file.write_all_at(&bytes[..end], offset).unwrap();
            }
        }
    }

    /// Returns a disk with exactly these files, all synced, and the inode numbers that they have in `home`.
    pub fn disk(&self, from: &Path, home: &Path, mark: Mark) -> Disk {
        let mut disk = Disk { mark, ..Disk::default() };
        for folder in &self.folders {
            disk.names.insert(relocate(folder, from, home), None);
        }
        for (path, (len, pages)) in &self.files {
            let Ok(metadata) = std::fs::metadata(relocate(path, from, home)) else { continue };
            let (id, inode) = disk.inode(metadata.ino());
            *inode = Inode { synced: pages.clone(), cached: pages.clone(), synced_len: *len, ..Inode::default() };
            disk.names.insert(relocate(path, from, home), Some(id));
        }
        disk
    }
}

/// Returns a path in `from` as a path in `to`.
fn relocate(path: &Path, from: &Path, to: &Path) -> PathBuf {
    to.join(path.strip_prefix(from).unwrap())
}
