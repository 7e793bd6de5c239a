//! Waits for names.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::os::unix::descriptor::owned;

/// Waits for names to be added to or removed from directories (inotify(7)).
#[derive(Debug)]
pub struct NameWatcher {
    events: OwnedFd,
    end: OwnedFd,
}

impl NameWatcher {
    /// Creates a watcher of no directory.
    pub fn new() -> io::Result<NameWatcher> {
        // SAFETY: takes numbers only.
        let events = unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) };
        // SAFETY: the result of the call above.
        let events = unsafe { owned(events) }?;
        // SAFETY: takes numbers only.
        let end = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        // SAFETY: the result of the call above.
        let end = unsafe { owned(end) }?;
        Ok(NameWatcher { events, end })
    }

    /// Watches `directory`, too.
    pub fn add(&self, directory: &Path) -> io::Result<()> {
        let path = CString::new(directory.as_os_str().as_bytes())?;
        let names = libc::IN_CREATE | libc::IN_DELETE | libc::IN_MOVED_FROM | libc::IN_MOVED_TO;
        let itself = libc::IN_DELETE_SELF | libc::IN_MOVE_SELF;
        // SAFETY: the path ends in zero and lives through the call; the descriptor is open as long as `self` lives.
        let watch = unsafe { libc::inotify_add_watch(self.events.as_raw_fd(), path.as_ptr(), names | itself) };
        if watch < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Returns true when names were added or removed, and false after [`NameWatcher::end`].
    pub fn wait(&self) -> bool {
        let mut polled = [&self.events, &self.end].map(|descriptor| libc::pollfd {
            fd: descriptor.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        });
        const NO_TIMEOUT: i32 = -1;
        loop {
            // SAFETY: the array has as many structures as the call is told, which the call writes to.
            let result = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, NO_TIMEOUT) };
            let is_interrupted = io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
            if result >= 0 || !is_interrupted {
                let [_, end] = polled;
                return end.revents == 0;
            }
        }
    }

    /// Ends the wait.
    pub fn end(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: 8 bytes that live through the call; the descriptor is open as long as `self` lives. The call does not
        // wait, as the counter has room for 2⁶⁴ - 2 such calls.
        unsafe { libc::write(self.end.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }
}
