//! Waits for names.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::Mutex;

use crate::os::unix::descriptor::owned;
use crate::os::unix::errors::check;
use crate::sync::MutexExt;

/// The maximum number of directories of one watcher. Each takes a descriptor, of which a process has 256 by default.
const MAX_DIRECTORIES: usize = 64;
/// The event that ends the wait; its number is one of many that a program may choose.
const END: usize = 0;

/// Waits for names to be added to or removed from directories (kqueue(2)).
#[derive(Debug)]
pub struct KernelNameWatcher {
    events: OwnedFd,
    directories: Mutex<Vec<File>>,
}

impl KernelNameWatcher {
    /// Creates a watcher of no directory.
    pub fn new() -> io::Result<KernelNameWatcher> {
        // SAFETY: takes no argument.
        let events = unsafe { libc::kqueue() };
        // SAFETY: the result of the call above.
        let events = unsafe { owned(events) }?;
        // SAFETY: takes numbers only; the descriptor is open.
        check(unsafe { libc::fcntl(events.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) })?;
        let watcher = KernelNameWatcher { events, directories: Mutex::default() };
        watcher.change(END, libc::EVFILT_USER, libc::EV_ADD, 0)?;
        Ok(watcher)
    }

    /// Watches `directory`, too.
    pub fn add(&self, directory: &Path) -> io::Result<()> {
        let mut directories = self.directories.lock_ignoring_poison();
        if directories.len() == MAX_DIRECTORIES {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_EVTONLY | libc::O_DIRECTORY).open(directory)?;
        let names = libc::NOTE_WRITE | libc::NOTE_EXTEND | libc::NOTE_LINK;
        let itself = libc::NOTE_DELETE | libc::NOTE_RENAME | libc::NOTE_REVOKE;
        let descriptor = opened.as_raw_fd() as usize;
        self.change(descriptor, libc::EVFILT_VNODE, libc::EV_ADD | libc::EV_CLEAR, names | itself)?;
        directories.push(opened);
        Ok(())
    }

    /// Returns true when names were added or removed, and false after [`KernelNameWatcher::end`].
    pub fn wait(&self) -> bool {
        loop {
            // SAFETY: numbers and a pointer, all of which may be zero.
            let mut event = unsafe { zeroed::<libc::kevent>() };
            // SAFETY: no change is read; `event` has room for the one event that the call is told, and lives through
            // it; without a timeout, the call waits.
            let count = unsafe { libc::kevent(self.events.as_raw_fd(), null(), 0, &raw mut event, 1, null()) };
            let is_interrupted = io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
            if count >= 0 || !is_interrupted {
                return event.filter != libc::EVFILT_USER;
            }
        }
    }

    /// Ends the wait.
    pub fn end(&self) {
        // Fails only if the system has no memory for an event that it has by now.
        let _ = self.change(END, libc::EVFILT_USER, 0, libc::NOTE_TRIGGER);
    }

    /// Adds or changes an event to wait for.
    fn change(&self, ident: usize, filter: i16, flags: u16, fflags: u32) -> io::Result<()> {
        let event = libc::kevent { ident, filter, flags, fflags, data: 0, udata: null_mut() };
        // SAFETY: the one change lives through the call; no event is asked for.
        let count = unsafe { libc::kevent(self.events.as_raw_fd(), &raw const event, 1, null_mut(), 0, null()) };
        if count < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
