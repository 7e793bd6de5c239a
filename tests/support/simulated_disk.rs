//! A disk that is watched: what it may hold after a power cut at any moment of a run.
//!
//! What was synced is there. Of what was not, each page of 4 KiB is on the disk as it was at any moment since, or mixed
//! of such states by sectors of 512 bytes; each size and each name is the old one or the new one; all independently.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
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

/// An act that was done.
#[derive(Clone, Debug)]
pub enum Event {
    Folder(PathBuf),
    Made(u64, Option<PathBuf>),
    Resize(u64, u64),
    Put(u64, u64, Vec<u8>),
    Name(u64, PathBuf),
    Rename(PathBuf, PathBuf),
    Link(PathBuf, PathBuf),
    Exchange(PathBuf, PathBuf),
    Remove(PathBuf),
    Sync(u64),
    Synced(u64),
    /// These bytes are on the disk, whatever else is not.
    SyncedBytes(u64, u64, u64),
    /// A sync that failed. The system takes its pages for written from then on, and they may not be.
    Lost(u64),
    SyncFolder(PathBuf),
    SyncedFolder(PathBuf),
    /// What the program has been told, or asks for.
    Mark(Mark),
}

/// What must be true of the table after a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The table is there.
    pub exists: bool,
    /// No row below this one may be lost, but for those below `dropped`.
    pub durable: u64,
    /// No row below this one may be lost as long as the page cache is there, but for those below `dropped`.
    pub committed: u64,
    /// No row from this one on can be there.
    pub intended: u64,
    /// Rows below this one may have been dropped.
    pub dropped: u64,
    /// The first and the last of the orders that the rows may be in.
    pub orders: [usize; 2],
}

/// Hears of all acts, and fails those it is told to.
#[derive(Debug, Default)]
pub struct Recorder {
    events: Mutex<Vec<Event>>,
    fault: Mutex<Option<Fault>>,
    syncs_fail: AtomicBool,
    /// A table of which others ask before each sync how many rows are durable; and what was marked last.
    asked: Mutex<(Option<PathBuf>, Mark)>,
    death: Mutex<Death>,
    /// Whether rows are being put in order.
    pub is_sorting: AtomicBool,
}

/// How a writer is killed in the middle of a sync.
#[derive(Debug, Default)]
enum Death {
    #[default]
    Far,
    /// At the next sync of a file in this table.
    Near(PathBuf),
    /// It is dead, and left these files. What it does until it learns of that doesn't count.
    Left(BTreeMap<PathBuf, Vec<u8>>),
}

/// The next acts but `after` fail with `errno`, one or all from there on.
#[derive(Debug)]
struct Fault {
    after: u64,
    errno: i32,
    lasting: bool,
    hit: bool,
}

impl Recorder {
    pub fn mark(&self, mark: Mark) {
        self.asked.lock().unwrap().1 = mark;
        self.events.lock().unwrap().push(Event::Mark(mark));
    }

    /// From now on others ask how many rows of this table are durable, before each sync: those must survive.
    pub fn ask(&self, table: PathBuf) {
        self.asked.lock().unwrap().0 = Some(table);
    }

    /// Marks what a reader is told to be durable.
    fn believe(&self) {
        let mark = match &*self.asked.lock().unwrap() {
            (Some(table), mark) if mark.exists => match table_stat(table) {
                Ok(Some(stat)) if stat.durable_end > mark.durable => Mark { durable: stat.durable_end, ..*mark },
                _ => return,
            },
            _ => return,
        };
        self.events.lock().unwrap().push(Event::Mark(mark));
    }

    /// At the next sync of a file in `table` its writer is killed: what is written is in the page cache, and nobody brings it
    /// to the disk.
    pub fn kill_in_sync(&self, table: PathBuf) {
        *self.death.lock().unwrap() = Death::Near(table);
    }

    /// Leaves the files as they were when the writer was killed.
    pub fn bury(&self) {
        let Death::Left(files) = std::mem::take(&mut *self.death.lock().unwrap()) else { panic!("nobody was killed") };
        for (path, bytes) in files {
            let file = File::options().write(true).open(path).unwrap();
            file.set_len(bytes.len() as u64).and_then(|()| file.write_all_at(&bytes, 0)).unwrap();
        }
    }

    /// Whether the writer is dead, or dies of this act.
    fn is_dead(&self, act: FsOp<'_>) -> bool {
        let mut death = self.death.lock().unwrap();
        let Death::Near(table) = &*death else { return matches!(&*death, Death::Left(_)) };
        let (FsOp::Sync { file } | FsOp::WriteSynced { file, .. }) = act else { return false };
        let mut left = BTreeMap::new();
        for entry in table.read_dir().unwrap().map(Result::unwrap) {
            let mut bytes = std::fs::read(entry.path()).unwrap();
            if let FsOp::WriteSynced { offset, bytes: written, .. } = act
                && entry.metadata().unwrap().ino() == file
            {
                bytes[offset as usize..][..written.len()].copy_from_slice(written);
                self.events.lock().unwrap().push(Event::Put(file, offset, written.to_vec()));
            }
            left.insert(entry.path(), bytes);
        }
        *death = Death::Left(left);
        true
    }

    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.events.lock().unwrap())
    }

    /// The act behind the next `after` ones fails.
    pub fn fail(&self, after: u64, errno: i32, lasting: bool) {
        *self.fault.lock().unwrap() = Some(Fault { after, errno, lasting, hit: false });
    }

    /// All is well again; whether an act has failed.
    pub fn heal(&self) -> bool {
        self.fault.lock().unwrap().take().is_some_and(|fault| fault.hit)
    }

    /// From now on syncs of files fail, or no more.
    pub fn fail_syncs(&self, fail: bool) {
        self.syncs_fail.store(fail, Ordering::SeqCst);
    }

    fn refuse(&self) -> io::Result<()> {
        let mut fault = self.fault.lock().unwrap();
        let Some(fault) = fault.as_mut().filter(|fault| !fault.hit || fault.lasting) else { return Ok(()) };
        if fault.after > 0 {
            fault.after -= 1;
            return Ok(());
        }
        fault.hit = true;
        Err(io::Error::from_raw_os_error(fault.errno))
    }
}

impl FsObserver for Recorder {
    fn before_op(&self, act: FsOp<'_>) -> io::Result<()> {
        if matches!(act, FsOp::Sync { .. } | FsOp::WriteSynced { .. } | FsOp::SyncFolder { .. }) {
            self.believe();
        }
        if self.is_dead(act) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        if !matches!(
            act,
            FsOp::StoreMapped { .. }
                | FsOp::Created { .. }
                | FsOp::Synced { .. }
                | FsOp::WroteSynced { .. }
                | FsOp::SyncedFolder { .. }
        ) {
            self.refuse()?;
        }
        if let (FsOp::Sync { file } | FsOp::WriteSynced { file, .. }, true) =
            (act, self.syncs_fail.load(Ordering::SeqCst))
        {
            let mut events = self.events.lock().unwrap();
            if let FsOp::WriteSynced { offset, bytes, .. } = act {
                events.push(Event::Put(file, offset, bytes.to_vec()));
            }
            events.push(Event::Lost(file));
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        let event = match act {
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
            FsOp::SyncFolder { path } => Event::SyncFolder(path.into()),
            FsOp::SyncedFolder { path } => Event::SyncedFolder(path.into()),
            _ => return Ok(()),
        };
        self.events.lock().unwrap().push(event);
        Ok(())
    }
}

/// A file: what is certainly on the disk, and what has come since.
#[derive(Clone, Debug, Default)]
struct Inode {
    synced: BTreeMap<u64, Page>,
    synced_len: u64,
    now: BTreeMap<u64, Page>,
    /// States of pages since the last sync, with the number of the event that made each.
    since: BTreeMap<u64, Vec<(usize, Page)>>,
    lens: Vec<(usize, u64)>,
    /// Pages that a sync was to write and didn't, or did: no later one will, unless they are written to again.
    stuck: BTreeSet<u64>,
    /// What a sync that goes on will have brought to the disk.
    syncing: Option<(usize, BTreeMap<u64, Page>, u64)>,
}

impl Inode {
    fn len(&self) -> u64 {
        self.lens.last().map_or(self.synced_len, |&(_, len)| len)
    }

    fn put(&mut self, number: usize, offset: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let (page, from) = (at / PAGE as u64, (at % PAGE as u64) as usize);
            let len = (PAGE - from).min(bytes.len() - done);
            let mut new = self.now.get(&page).map_or([0; PAGE], |page| **page);
            let part = &bytes[done..done + len];
            done += len;
            self.stuck.remove(&page);
            // Pages of zeros that nobody wrote stay holes.
            if new[from..from + len] == *part {
                continue;
            }
            new[from..from + len].copy_from_slice(part);
            let new = Arc::new(new);
            self.now.insert(page, new.clone());
            self.since.entry(page).or_default().push((number, new));
        }
    }

    fn sync(&mut self, number: usize) {
        let mut pages = self.now.clone();
        for page in &self.stuck {
            match self.synced.get(page) {
                Some(old) => pages.insert(*page, old.clone()),
                None => pages.remove(page),
            };
        }
        self.syncing = Some((number, pages, self.len()));
    }

    fn synced_bytes(&mut self, offset: u64, len: u64) {
        for page in offset / PAGE as u64..(offset + len).div_ceil(PAGE as u64) {
            self.synced.extend(self.now.get(&page).map(|bytes| (page, bytes.clone())));
            self.since.remove(&page);
        }
    }

    fn synced(&mut self) {
        let Some((number, pages, len)) = self.syncing.take() else { return };
        (self.synced, self.synced_len) = (pages, len);
        self.lens.retain(|&(at, _)| at > number);
        let stuck = &self.stuck;
        let states = self.since.iter_mut().filter(|(page, _)| !stuck.contains(page));
        states.for_each(|(_, states)| states.retain(|&(at, _)| at > number));
        self.since.retain(|_, states| !states.is_empty());
    }
}

#[derive(Clone, Debug)]
enum Naming {
    Folder(PathBuf),
    Name(PathBuf, u64),
    /// From, to, and the file: its new name says which it is, whatever is known of the old one.
    Rename(PathBuf, PathBuf, u64),
    Exchange(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl Naming {
    fn folder(&self) -> &Path {
        let (Naming::Folder(path)
        | Naming::Name(path, _)
        | Naming::Rename(_, path, _)
        | Naming::Exchange(_, path)
        | Naming::Remove(path)) = self;
        path.parent().unwrap()
    }
}

/// Names, of files and of folders (which have no number).
type Names = BTreeMap<PathBuf, Option<u64>>;

fn name(names: &mut Names, naming: &Naming) {
    match naming {
        Naming::Folder(path) => drop(names.insert(path.clone(), None)),
        Naming::Name(path, file) => drop(names.insert(path.clone(), Some(*file))),
        Naming::Remove(path) => drop(names.remove(path)),
        Naming::Rename(from, to, file) => {
            names.remove(from);
            names.insert(to.clone(), Some(*file));
        }
        Naming::Exchange(one, other) => {
            let place = |path: PathBuf| match (path.strip_prefix(one), path.strip_prefix(other)) {
                (Ok(inside), _) => other.join(inside),
                (_, Ok(inside)) => one.join(inside),
                _ => path,
            };
            // A path that nothing follows is joined without a slash.
            let place = |path: PathBuf| place(path).components().collect();
            *names = std::mem::take(names).into_iter().map(|(path, file)| (place(path), file)).collect();
        }
    }
}

/// The disk after some events.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    inodes: BTreeMap<u64, Inode>,
    /// Numbers are given again to later files: which file each means now.
    ids: BTreeMap<u64, u64>,
    names: Names,
    namings: Vec<(usize, Naming)>,
    syncing: Vec<(usize, PathBuf)>,
    pub mark: Mark,
    events: usize,
}

/// How much of what was not synced is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Luck {
    Nothing,
    Everything,
    /// Each page by a coin.
    Pages,
    /// Each sector by a coin, names too.
    Sectors,
    /// Everything but one page.
    OneBehind,
    /// Nothing but names and one page.
    OneAhead,
}

impl Luck {
    pub const ALL: [Luck; 6] =
        [Luck::Nothing, Luck::Everything, Luck::Pages, Luck::Sectors, Luck::OneBehind, Luck::OneAhead];
}

impl Disk {
    /// Whether there is anything that a crash may lose.
    pub fn is_synced(&self) -> bool {
        self.namings.is_empty() && self.inodes.values().all(|inode| inode.since.is_empty() && inode.lens.is_empty())
    }

    /// Whether a sync has failed, and the system takes pages for written that are not.
    pub fn has_failed(&self) -> bool {
        self.inodes.values().any(|inode| !inode.stuck.is_empty())
    }

    fn inode(&mut self, number: u64) -> (u64, &mut Inode) {
        let next = self.inodes.len() as u64;
        let id = *self.ids.entry(number).or_insert(next);
        (id, self.inodes.entry(id).or_default())
    }

    pub fn apply(&mut self, event: &Event) {
        self.events += 1;
        let number = self.events;
        match event {
            Event::Folder(path) => self.namings.push((number, Naming::Folder(path.clone()))),
            Event::Made(file, path) => {
                self.ids.remove(file);
                let (id, _) = self.inode(*file);
                let naming = path.as_ref().map(|path| (number, Naming::Name(path.clone(), id)));
                self.namings.extend(naming);
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
                let file = self.named(from);
                self.namings.push((number, Naming::Rename(from.clone(), to.clone(), file)));
            }
            Event::Link(from, to) => {
                let file = self.named(from);
                self.namings.push((number, Naming::Name(to.clone(), file)));
            }
            Event::Exchange(one, other) => {
                self.namings.push((number, Naming::Exchange(one.clone(), other.clone())));
            }
            Event::Remove(path) => self.namings.push((number, Naming::Remove(path.clone()))),
            Event::Sync(file) => self.inode(*file).1.sync(number),
            Event::Synced(file) => self.inode(*file).1.synced(),
            Event::SyncedBytes(file, offset, len) => self.inode(*file).1.synced_bytes(*offset, *len),
            Event::Lost(file) => {
                let (_, inode) = self.inode(*file);
                inode.stuck = inode.since.keys().copied().collect();
            }
            Event::SyncFolder(path) => self.syncing.push((number, path.clone())),
            Event::SyncedFolder(path) => self.synced_folder(path),
            Event::Mark(mark) => self.mark = *mark,
        }
    }

    /// The file that has this name now.
    fn named(&self, path: &Path) -> u64 {
        let mut names = self.names.clone();
        self.namings.iter().for_each(|(_, naming)| name(&mut names, naming));
        names[path].unwrap()
    }

    fn synced_folder(&mut self, folder: &Path) {
        let Some(at) = self.syncing.iter().position(|(_, path)| path == folder) else { return };
        let (started, _) = self.syncing.remove(at);
        let is_done = |(number, naming): &(usize, Naming)| *number < started && naming.folder() == folder;
        self.namings.iter().filter(|naming| is_done(naming)).for_each(|(_, naming)| name(&mut self.names, naming));
        self.namings.retain(|naming| !is_done(naming));
    }

    /// The disk with only the front of what the event writes: a page may be written back while it is stored to.
    pub fn torn(&self, event: &Event, dice: &mut Dice) -> Option<Disk> {
        let Event::Put(file, offset, bytes) = event else { return None };
        let len = 8 * dice.below(bytes.len() as u64 / 8 + 1) as usize;
        let mut disk = self.clone();
        disk.apply(&Event::Put(*file, *offset, bytes[..len].to_vec()));
        Some(disk)
    }

    /// What the disk may hold if the power fails now.
    pub fn image(&self, luck: Luck, dice: &mut Dice) -> Image {
        let is_there = |_: &usize| match luck {
            Luck::Nothing => false,
            Luck::Sectors => dice.below(2) == 0,
            _ => true,
        };
        let there = (0..self.namings()).filter(is_there).collect();
        self.image_with(&there, luck, dice)
    }

    /// How many names were given, changed or taken that the disk may not know of.
    pub fn namings(&self) -> usize {
        self.namings.len()
    }

    /// As [`Disk::image`], with these of the names that were given, changed or taken.
    pub fn image_with(&self, there: &BTreeSet<usize>, luck: Luck, dice: &mut Dice) -> Image {
        let mut names = self.names.clone();
        for &number in there {
            name(&mut names, &self.namings[number].1);
        }
        let dirty: u64 = self.inodes.values().map(|inode| inode.since.len() as u64).sum();
        let (odd, mut seen) = (dice.below(dirty.max(1)), 0);
        let mut chosen = BTreeMap::new();
        for (&file, inode) in &self.inodes {
            let mut pages = inode.synced.clone();
            for (&page, states) in &inode.since {
                let old = inode.synced.get(&page).cloned();
                if let Some(new) = choose(luck, seen == odd, old.as_ref(), states, dice) {
                    pages.insert(page, new);
                }
                seen += 1;
            }
            chosen.insert(file, (choose_len(inode, luck, dice), pages));
        }
        let mut image = Image::default();
        for (path, file) in names {
            match file {
                None => image.folders.push(path),
                Some(file) => image.files.push((path, chosen.get(&file).cloned().unwrap_or_default())),
            }
        }
        image
    }
}

fn choose(luck: Luck, is_odd: bool, old: Option<&Page>, states: &[(usize, Page)], dice: &mut Dice) -> Option<Page> {
    let any = |dice: &mut Dice| match dice.below(states.len() as u64 + 1) as usize {
        0 => old.cloned(),
        number => Some(states[number - 1].1.clone()),
    };
    let newest = states.last().map(|(_, page)| page.clone());
    match luck {
        Luck::Nothing => old.cloned(),
        Luck::Everything => newest,
        Luck::OneBehind if is_odd => any(dice),
        Luck::OneBehind => newest,
        Luck::OneAhead if is_odd => newest,
        Luck::OneAhead => old.cloned(),
        Luck::Pages => any(dice),
        Luck::Sectors => {
            let mut mixed = [0; PAGE];
            for sector in mixed.chunks_mut(SECTOR).zip(0..) {
                let (into, number) = sector;
                if let Some(from) = any(dice) {
                    into.copy_from_slice(&from[number * SECTOR..(number + 1) * SECTOR]);
                }
            }
            Some(Arc::new(mixed))
        }
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

type Content = (u64, BTreeMap<u64, Page>);

/// Files as a disk holds them.
#[derive(Clone, Debug, Default)]
pub struct Image {
    folders: Vec<PathBuf>,
    /// Path, and size and pages.
    files: Vec<(PathBuf, Content)>,
}

impl Image {
    /// Makes the files, with `home` in the place of the folder `from` that the run was in.
    pub fn write(&self, from: &Path, home: &Path) {
        let place = |path: &Path| home.join(path.strip_prefix(from).unwrap());
        for folder in &self.folders {
            std::fs::create_dir(place(folder)).unwrap();
        }
        for (path, (len, pages)) in &self.files {
            let Ok(file) = File::options().write(true).create_new(true).open(place(path)) else {
                // The name of a file in a folder whose own name was lost.
                assert!(!self.folders.iter().any(|folder| path.parent() == Some(folder)), "{}", path.display());
                continue;
            };
            file.set_len(*len).unwrap();
            for (page, bytes) in pages {
                let at = page * PAGE as u64;
                let end = (len.saturating_sub(at)).min(PAGE as u64) as usize;
                file.write_all_at(&bytes[..end], at).unwrap();
            }
        }
    }

    /// The disk on which the image is all there is, and the files' numbers are what they are called now.
    pub fn disk(&self, from: &Path, home: &Path, mark: Mark) -> Disk {
        use std::os::unix::fs::MetadataExt;
        let mut disk = Disk { mark, ..Disk::default() };
        let place = |path: &Path| home.join(path.strip_prefix(from).unwrap());
        for folder in &self.folders {
            disk.names.insert(place(folder), None);
        }
        for (path, (len, pages)) in &self.files {
            let Ok(data) = std::fs::metadata(place(path)) else { continue };
            let (synced, now) = (pages.clone(), pages.clone());
            let inode = Inode { synced, now, synced_len: *len, ..Inode::default() };
            let (id, place_of) = disk.inode(data.ino());
            *place_of = inode;
            disk.names.insert(place(path), Some(id));
        }
        disk
    }
}
