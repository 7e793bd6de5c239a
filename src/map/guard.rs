//! Faults in mapped files as errors. When a file is truncated while it is mapped, touching a page behind its new end
//! raises SIGBUS (mmap(2)), which ends the process. Inside of our own calls it becomes `FileChanged`:
//!
//! ```text
//! guard ── work ── touches a lost page ──▶ SIGBUS ── handler: zeros from that page to the region's end, region marked
//!   ▲                                                   │
//!   └── leaves: lost pages mended, `FileChanged` ◀── the work goes on, to no effect
//! ```
//! There is no jump out of the work, which would leave locks held and memory leaked. *Mended* means that the pages are
//! put in place of a file without bytes: whoever touches them later faults again, as without us, instead of reading
//! zeros. Faults outside of our regions, or outside of our calls, go to whoever handled SIGBUS before.
//!
//! Regions stand in slots that are never freed, so the handler can go through them without a lock. Nothing here waits:
//! a forked child finds whatever state the threads of its parent were in.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};

use crate::error::{Error, ErrorKind, Result};

// ---- regions ----

/// What the handler has to know of a region. `base` is 0 where there is none.
#[derive(Debug)]
struct Slot {
    base: AtomicUsize,
    end: AtomicUsize,
    /// The first page that was replaced by zeros and is not mended yet; `usize::MAX` for none.
    zeroed: AtomicUsize,
    /// Whether the file is known not to be what was mapped, for good.
    is_changed: AtomicBool,
    /// How many regions the slot has had.
    turn: AtomicU32,
    /// The slot below in the stack of free ones, counted from 1.
    below: AtomicU32,
    /// Held while pages are mended, so that the region is not unmapped meanwhile. Never held by the handler.
    path: Mutex<Option<PathBuf>>,
}

impl Slot {
    const fn new() -> Slot {
        Slot {
            base: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            zeroed: AtomicUsize::new(usize::MAX),
            is_changed: AtomicBool::new(false),
            turn: AtomicU32::new(0),
            below: AtomicU32::new(0),
            path: Mutex::new(None),
        }
    }

    fn path(&self) -> MutexGuard<'_, Option<PathBuf>> {
        self.path.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Slots in the first chunk; each next one has twice as many.
const FIRST: usize = 64;
/// Chunks of slots: more than there are addresses for regions.
static CHUNKS: [AtomicPtr<Slot>; 26] = [const { AtomicPtr::new(null_mut()) }; 26];
/// How many slots were ever taken.
static COUNT: AtomicU32 = AtomicU32::new(0);
/// The topmost free slot, counted from 1, and above it how often it has changed, so that nobody takes it for another.
static FREE: AtomicU64 = AtomicU64::new(0);

/// Which chunk a slot is in, and where there.
fn place(number: u32) -> (usize, usize) {
    let number = number as usize + FIRST;
    let chunk = (number / FIRST).ilog2() as usize;
    (chunk, number - (FIRST << chunk))
}

fn slot(number: u32) -> Option<&'static Slot> {
    let (chunk, at) = place(number);
    let first = CHUNKS.get(chunk)?.load(Ordering::Acquire);
    if first.is_null() {
        return None;
    }
    // SAFETY: a chunk has `FIRST << chunk` slots, and `place` gives a position below that.
    let slot = unsafe { first.add(at) };
    // SAFETY: chunks are made whole by `make_chunk` before they are published, and never freed.
    Some(unsafe { &*slot })
}

fn make_chunk(chunk: usize) {
    let Some(place) = CHUNKS.get(chunk).filter(|place| place.load(Ordering::Acquire).is_null()) else { return };
    let slots: Box<[Slot]> = (0..FIRST << chunk).map(|_| Slot::new()).collect();
    let made = Box::into_raw(slots);
    if place.compare_exchange(null_mut(), made.cast(), Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: made just above, and nobody else has seen it: another thread's chunk was published.
        drop(unsafe { Box::from_raw(made) });
    }
}

fn take_free() -> Option<u32> {
    let mut top = FREE.load(Ordering::Acquire);
    loop {
        let number = (top as u32).checked_sub(1)?;
        let below = slot(number)?.below.load(Ordering::Relaxed);
        let next = ((top >> 32).wrapping_add(1) << 32) | u64::from(below);
        match FREE.compare_exchange_weak(top, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Some(number),
            Err(now) => top = now,
        }
    }
}

fn give_free(number: u32, slot: &Slot) {
    let mut top = FREE.load(Ordering::Acquire);
    loop {
        slot.below.store(top as u32, Ordering::Relaxed);
        let next = ((top >> 32).wrapping_add(1) << 32) | u64::from(number + 1);
        match FREE.compare_exchange_weak(top, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return,
            Err(now) => top = now,
        }
    }
}

/// A region of a file that the handler knows of, until this is dropped, which has to be before it is unmapped.
#[derive(Debug)]
pub(super) struct Registered {
    number: u32,
    slot: &'static Slot,
}

impl Registered {
    /// Notes `len` bytes from `base` on, mapped from the file at `path`. `None` where there are too many regions.
    pub(super) fn new(base: usize, len: usize, path: &Path) -> Option<Registered> {
        install();
        let number = take_free().unwrap_or_else(|| {
            let number = COUNT.fetch_add(1, Ordering::AcqRel);
            make_chunk(place(number).0);
            number
        });
        let slot = slot(number)?;
        *slot.path() = Some(path.to_path_buf());
        slot.end.store(base + len.next_multiple_of(PAGE.load(Ordering::Relaxed)), Ordering::Relaxed);
        slot.is_changed.store(false, Ordering::Relaxed);
        slot.base.store(base, Ordering::Release);
        Some(Registered { number, slot })
    }

    /// Whether the file was found to be another than was mapped.
    #[inline]
    pub(super) fn is_changed(&self) -> bool {
        let is_changed = self.slot.is_changed.load(Ordering::Relaxed);
        // What was read before this look was read before the look: zeros come only after the mark.
        fence(Ordering::Acquire);
        is_changed
    }

    /// Notes that the file is another than was mapped.
    pub(super) fn mark(&self) {
        self.slot.is_changed.store(true, Ordering::Release);
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut path = self.slot.path();
        self.slot.base.store(0, Ordering::Release);
        self.slot.turn.fetch_add(1, Ordering::AcqRel);
        self.slot.zeroed.store(usize::MAX, Ordering::Release);
        *path = None;
        drop(path);
        give_free(self.number, self.slot);
    }
}

// ---- calls ----

/// A fault inside of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    slot: u32,
    turn: u32,
    /// The byte of the region.
    offset: usize,
}

/// What the handler has to know of a thread.
struct Local {
    /// How many calls of ours, one inside the other, the thread is in: the low half. The high half counts calls, so that
    /// the clock is asked for now and then. One word: two would be added to as one and then stored apart, and the next
    /// call would wait for that.
    calls: Cell<u64>,
    has_fault: Cell<bool>,
    /// The first one of the call.
    fault: Cell<Fault>,
}

thread_local! {
    // Without a destructor, and made without running anything: the handler may look at it at any time.
    static LOCAL: Local = const {
        Local {
            calls: Cell::new(0),
            has_fault: Cell::new(false),
            fault: Cell::new(Fault { slot: 0, turn: 0, offset: 0 }),
        }
    };
}

/// A call, in the word that counts them.
const CALL: u64 = 1 << 32;

impl Local {
    fn depth(&self) -> u32 {
        self.calls.get() as u32
    }

    fn note(&self, fault: Fault) {
        if !self.has_fault.replace(true) {
            self.fault.set(fault);
        }
    }

    /// Whether something was lost, in this call or in the one around it.
    #[inline]
    fn has_failed(&self) -> bool {
        // The handler runs on this thread: only the compiler could move the work behind the look.
        compiler_fence(Ordering::SeqCst);
        self.has_fault.get()
    }
}

/// The time inside of a call, which a panic ends as well. Its two ends are no generic functions, so that the thread's data
/// is found without a call through a pointer.
struct GuardScope {
    /// The word that counts calls as it was before.
    before: u64,
}

impl GuardScope {
    fn enter() -> GuardScope {
        LOCAL.with(|local| {
            let before = local.calls.get();
            local.calls.set(before + 1);
            // As in `has_failed`.
            compiler_fence(Ordering::SeqCst);
            GuardScope { before }
        })
    }

    fn leave(self) -> Option<Error> {
        LOCAL.with(|local| match local.has_failed() {
            true => Some(error_of(local.fault.get())),
            false => None,
        })
    }
}

impl Drop for GuardScope {
    fn drop(&mut self) {
        LOCAL.with(|local| {
            if local.has_failed() && self.before as u32 == 0 {
                local.has_fault.set(false);
                mend();
            }
            local.calls.set(self.before.wrapping_add(CALL));
        });
    }
}

/// Does `work`, which looks at mapped files. If one of them loses a page that is touched meanwhile, as it was truncated,
/// that is an error instead of the end of the process; what the work has made of the bytes is thrown away.
///
/// All calls of this library that return a `Result` do so themselves. Work on what they hand out in place (text of a
/// [`Value`](crate::Value), arrays of [`Column::chunks`](crate::Column::chunks)) is safe from truncation inside of a
/// guard only, and only on the thread that entered it.
///
/// ```
/// # use std::sync::Arc;
/// # let array: arrow_array::ArrayRef = Arc::new(arrow_array::StringArray::from(vec!["ash", "elm"]));
/// # let batch = arrow_array::RecordBatch::try_from_iter([("tree", array)]).unwrap();
/// # let dataset = arrowwood::Dataset::try_from(vec![batch])?;
/// let texts = arrowwood::guard(|| {
///     dataset.rows().map(|row| Ok(row?.get(0)?.to_string())).collect::<arrowwood::Result<Vec<_>>>()
/// })?;
/// assert_eq!(texts, ["ash", "elm"]);
/// # Ok::<(), arrowwood::Error>(())
/// ```
///
/// # Errors
/// `FileChanged`; else whatever `work` answers.
#[inline]
pub fn guard<T, E: From<Error>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let inside = GuardScope::enter();
    let done = work();
    match inside.leave() {
        None => done,
        Some(error) => Err(error.into()),
    }
}

/// Whether it is this call's turn to ask for the time: that takes longer than reading a value.
#[inline]
pub(super) fn is_turn() -> bool {
    LOCAL.with(|local| (local.calls.get() / CALL).is_multiple_of(16))
}

/// Whether a call is going on here whose work may be handed to other threads.
pub(crate) fn is_inside() -> bool {
    LOCAL.with(|local| local.depth() > 0)
}

/// Does a part of a call's work on another thread; the fault, if there was one, is to be [adopted](adopt) by the call.
pub(crate) fn lend<T>(work: impl FnOnce() -> T) -> (T, Option<Fault>) {
    let _inside = GuardScope::enter();
    let done = work();
    LOCAL.with(|local| {
        let fault = local.has_failed().then(|| local.fault.get());
        local.has_fault.set(false);
        (done, fault)
    })
}

/// Takes over a fault of another thread that worked for the call that is going on here.
pub(crate) fn adopt(fault: Option<Fault>) {
    if let Some(fault) = fault {
        LOCAL.with(|local| local.note(fault));
    }
}

#[cold]
fn error_of(fault: Fault) -> Error {
    let known = slot(fault.slot).filter(|slot| slot.turn.load(Ordering::Acquire) == fault.turn);
    match known.and_then(|slot| slot.path().clone()) {
        Some(path) => truncated(Some(fault.offset)).at(path),
        None => truncated(None),
    }
}

fn truncated(offset: Option<usize>) -> Error {
    let what = offset.map_or("some bytes".into(), |offset| format!("byte {offset}"));
    let message =
        format!("{what} of the mapped file can't be read any more: it was truncated, or its disk fails; open it again");
    Error::new(ErrorKind::FileChanged, message)
}

/// Makes all pages that were replaced by zeros fault again: those of other calls that still go on as well.
#[cold]
fn mend() {
    for number in 0..COUNT.load(Ordering::Acquire) {
        let Some(slot) = slot(number) else { continue };
        if slot.zeroed.load(Ordering::Acquire) == usize::MAX {
            continue;
        }
        let _mapped = slot.path();
        let start = slot.zeroed.swap(usize::MAX, Ordering::AcqRel);
        let end = slot.end.load(Ordering::Relaxed);
        if slot.base.load(Ordering::Acquire) != 0 && start < end {
            bury(start, end - start);
        }
    }
}

// ---- the signal ----

/// Whether SIGBUS is handled, once that is settled.
static IS_HANDLED: OnceLock<bool> = OnceLock::new();

/// Leaves SIGBUS to others: for a process that has a handler of its own and can't have it changed. A call that touches a
/// page of a file that was truncated then ends the process, as without this library. To be called before the first file
/// is mapped; the environment can say the same: `ARROWWOOD_SIGBUS=off`.
///
/// # Errors
/// `Busy` where a file was mapped before, and the handler is installed.
pub fn leave_sigbus_alone() -> Result<()> {
    match IS_HANDLED.get_or_init(|| false) {
        false => Ok(()),
        true => {
            Err(Error::new(ErrorKind::Busy, "a file was mapped before, and SIGBUS is handled since; call it first"))
        }
    }
}

/// The size of a page.
static PAGE: AtomicUsize = AtomicUsize::new(4096);

#[cfg(not(target_os = "linux"))]
fn install() {}

#[cfg(not(target_os = "linux"))]
fn bury(_start: usize, _len: usize) {}

#[cfg(target_os = "linux")]
use linux::{bury, install};

#[cfg(target_os = "linux")]
mod linux {
    use libc::{c_int, c_void, sigaction, siginfo_t};

    use super::*;

    /// A page of a file without bytes.
    static TOMB: AtomicUsize = AtomicUsize::new(0);

    /// Who handled SIGBUS before: set before the handler is, and never freed.
    static BEFORE: AtomicPtr<sigaction> = AtomicPtr::new(null_mut());

    /// Installs the handler, once, unless [`leave_sigbus_alone`] was called or the environment says `ARROWWOOD_SIGBUS=off`.
    pub(super) fn install() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // SAFETY: sysconf reads a constant of the system.
            let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
            PAGE.store(usize::try_from(page).unwrap_or(4096), Ordering::Relaxed);
            let is_allowed = || std::env::var_os("ARROWWOOD_SIGBUS").is_none_or(|value| value != "off");
            if let Some(tomb) = IS_HANDLED.get_or_init(is_allowed).then(tomb).flatten() {
                TOMB.store(tomb, Ordering::Release);
                set_handler();
            }
        });
    }

    fn set_handler() {
        let before = Box::into_raw(Box::new(default_action()));
        // SAFETY: asks for the action that is set, and stores it where nobody else looks yet.
        if unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), before) } != 0 {
            return;
        }
        BEFORE.store(before, Ordering::Release);
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_fault;
        let mut ours = default_action();
        ours.sa_sigaction = handler as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: `ours` lives through the call, and `on_fault` does only what a handler may.
        unsafe { libc::sigaction(libc::SIGBUS, &raw const ours, null_mut()) };
    }

    fn default_action() -> sigaction {
        // SAFETY: a structure of integers; zeros ask for the default action, no flags and no mask.
        unsafe { std::mem::zeroed() }
    }

    /// Maps a page of an empty file in memory.
    fn tomb() -> Option<usize> {
        // SAFETY: the name is a string that ends in zero.
        let file = unsafe { libc::memfd_create(c"arrowwood".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return None;
        }
        let (both, page) = (libc::PROT_READ | libc::PROT_WRITE, PAGE.load(Ordering::Relaxed));
        // SAFETY: a null hint lets the kernel choose an unused range, so no existing object is affected.
        let tomb = unsafe { libc::mmap(null_mut(), page, both, libc::MAP_SHARED, file, 0) };
        // SAFETY: opened above; the mapping keeps the file, so that nobody who closes all descriptors can take it away.
        unsafe { libc::close(file) };
        (tomb != libc::MAP_FAILED).then_some(tomb as usize)
    }

    /// Maps the empty file over part of a region: whoever touches it faults.
    pub(super) fn bury(start: usize, len: usize) {
        let (tomb, flags) = (TOMB.load(Ordering::Acquire), libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED);
        // SAFETY: an old length of 0 asks for a further mapping of the same file (mremap(2)). It takes the place of pages
        // of ours: `mend` holds the lock that keeps their region mapped, and `start` and `len` are whole pages inside.
        let done = unsafe { libc::mremap(tomb as *mut c_void, 0, len, flags, start as *mut c_void) };
        if done == libc::MAP_FAILED {
            // SAFETY: as above; no access is the next best.
            unsafe { libc::mprotect(start as *mut c_void, len, libc::PROT_NONE) };
        }
    }

    extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
        // SAFETY: the kernel passes a pointer to the signal's description, which lives as long as the handler runs.
        let said = unsafe { &*info };
        // SAFETY: takes nothing.
        let place = unsafe { libc::__errno_location() };
        // SAFETY: errno is the thread's own, and has to be what it was when the handler returns.
        let errno = unsafe { place.read() };
        // SAFETY: a fault's description has an address, and another signal's has other numbers in its place.
        let address = unsafe { said.si_addr() } as usize;
        if !is_handled(said, address) {
            pass_on(signal, info, context);
        }
        // SAFETY: as above.
        unsafe { place.write(errno) };
    }

    fn is_handled(said: &siginfo_t, address: usize) -> bool {
        if said.si_code == libc::SI_TKILL {
            // Somebody who handled the fault first, and wants the one before to see it, raises it again: then the access
            // is repeated, and comes here by itself.
            return is_inside();
        }
        said.si_code == libc::BUS_ADRERR && is_replaced(address)
    }

    /// Puts zeros in the place of a page of ours that was lost, and of all behind it, which truncation takes as well.
    fn is_replaced(address: usize) -> bool {
        let Some((slot, fault)) = region_of(address) else { return false };
        // Only now: a thread's first look at its own data may allocate, which must not happen in the midst of others'.
        if !is_inside() {
            return false;
        }
        let page = PAGE.load(Ordering::Relaxed);
        let start = address - address % page;
        slot.is_changed.store(true, Ordering::SeqCst);
        slot.zeroed.fetch_min(start, Ordering::SeqCst);
        let len = slot.end.load(Ordering::Relaxed) - start;
        let (both, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let flags = flags | libc::MAP_FIXED | libc::MAP_NORESERVE;
        // SAFETY: replaces whole pages of a region of ours. It stays mapped meanwhile: this thread is reading it.
        let zeros = unsafe { libc::mmap(start as *mut c_void, len, both, flags, -1, 0) };
        LOCAL.with(|local| local.note(fault));
        zeros != libc::MAP_FAILED
    }

    fn region_of(address: usize) -> Option<(&'static Slot, Fault)> {
        (0..COUNT.load(Ordering::Acquire)).find_map(|number| {
            let slot = slot(number)?;
            let turn = slot.turn.load(Ordering::Acquire);
            let base = slot.base.load(Ordering::Acquire);
            let inside = base != 0 && (base..slot.end.load(Ordering::Relaxed)).contains(&address);
            // Another thread may be giving the slot to another region.
            fence(Ordering::Acquire);
            let is_whole = slot.turn.load(Ordering::Relaxed) == turn;
            (inside && is_whole).then(|| (slot, Fault { slot: number, turn, offset: address - base }))
        })
    }

    /// Does what would have been done without us.
    fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
        // SAFETY: `set_handler` has set it before the handler could run, and nobody writes to it any more.
        let before = unsafe { &*BEFORE.load(Ordering::Acquire) };
        // SAFETY: see `on_fault`.
        let was_raised = unsafe { &*info }.si_code <= 0;
        match before.sa_sigaction {
            libc::SIG_IGN if was_raised => (),
            libc::SIG_DFL | libc::SIG_IGN => {
                let default = default_action();
                // SAFETY: lives through the call. The access is repeated, and ends the process at its true address.
                unsafe { libc::sigaction(signal, &raw const default, null_mut()) };
                if was_raised {
                    // SAFETY: takes a number; it is delivered when the handler has returned.
                    unsafe { libc::raise(signal) };
                }
            }
            handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
                // SAFETY: with this flag the action is a function of three arguments (sigaction(2)).
                let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                    unsafe { std::mem::transmute(handler) };
                handler(signal, info, context);
            }
            handler => {
                // SAFETY: without the flag it is a function of one.
                let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
                handler(signal);
            }
        }
    }
}
