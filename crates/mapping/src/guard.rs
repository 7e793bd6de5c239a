//! Turns faults in mapped files into errors.
//!
//! Touching a page past the end of a file that was truncated while mapped raises SIGBUS (mmap(2)), which ends the
//! process. Inside of guarded calls it becomes `FileChanged`, or the [error of the system](crate::fault_cause) if the
//! disk fails or is full:
//!
//! ```text
//! guard ── work ── touches a lost page ──▶ SIGBUS ── handler: zeros from that page to the region's end, region marked
//!   ▲                                                   │
//! └── leaves: lost pages mended, `FileChanged` ◀── the work continues, to no effect
//! ```
//! The handler does not jump out of the work, which would leave locks held and memory leaked. *Mended* pages are
//! replaced by pages of an empty file: the next access faults again, as without this library, instead of reading zeros.
//! Faults outside of our regions, or outside of guarded calls, go to the previous handler of SIGBUS.
//!
//! # What threads share
//! Each region has a [`Slot`]. Slots are never freed, so the handler can search them without a lock, which it must not
//! take: it may have interrupted the thread that holds it. Three sides access a slot:
//!
//! - The owner of the region ([`FaultRegistration`]) takes the slot from a lock-free stack, fills it, and publishes it
//!   by storing `base` (release). On drop, before the region is unmapped, it stores 0 to `base`, increments
//!   `generation`, and returns the slot to the stack.
//! - The handler runs on the thread that touched the lost page. It loads `generation`, `base` (acquire) and `end`, and
//!   then `generation` again: if it differs, `base` and `end` may be of different regions, and the slot is not the one
//!   searched for. The region of the address itself can't be unmapped meanwhile, as the thread's call borrows it. It
//!   sets `lost`, `is_changed` and `zeroed` before it maps zeros, so that a thread that reads such a zero, and then
//!   loads `is_changed`, finds it set.
//! - A call that leaves its guard after a fault mends all slots with zeroed pages. It holds the slot's `origins`
//!   meanwhile, for which the owner's drop has to wait, so that no pages of a later mapping are replaced.
//!
//! `origins` and the lock of [`install`] are the only locks, and none is taken while another is held. `origins` is held
//! for a few instructions, or system calls of `mend`.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence};
use std::sync::{Mutex, MutexGuard, OnceLock};

use crate::error::{Error, ErrorKind, Result};
use crate::fault_cause::MappedOrigin;
use crate::os::{self, DEFAULT_PAGE_SIZE, FaultHandler};
use crate::sync::MutexExt;

// ---- regions ----

/// A region in the form that the handler uses. `base` is 0 in a free slot. See the module's documentation for who
/// accesses which field.
#[derive(Debug)]
struct Slot {
    /// The address of the first byte.
    base: AtomicUsize,
    /// The address after the last page.
    end: AtomicUsize,
    /// The address of the first page replaced by zeros and not mended yet; [`NOWHERE`] if there is none.
    zeroed: AtomicUsize,
    /// True once the file was found to have changed, or a page of it could not be touched. Stays true until the slot
    /// gets another region.
    is_changed: AtomicBool,
    /// The offset of the byte at which a page was lost first; [`NOWHERE`] if none was.
    lost: AtomicUsize,
    /// True if all pages are lost with one. Set for a writer, as its later stores must not reach readers without the
    /// lost one.
    is_lost_whole: AtomicBool,
    /// Number of regions that the slot has had before.
    generation: AtomicU32,
    /// The next slot in the stack of free ones, counted from 1.
    below: AtomicU32,
    /// Held while pages are mended, so that the region stays mapped. Never held by the handler.
    origins: Mutex<Origins>,
}

/// The files of a slot's regions.
#[derive(Debug)]
struct Origins {
    /// The file of the region that is in the slot.
    current: Option<MappedOrigin>,
    /// The generation of the last region that lost a page and was unmapped, and its error, as a call that touched the
    /// page may not have ended.
    lost: Option<(u32, Error)>,
}

/// The address or offset that stands for none.
const NOWHERE: usize = usize::MAX;

impl Slot {
    const fn new() -> Slot {
        Slot {
            base: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            zeroed: AtomicUsize::new(NOWHERE),
            is_changed: AtomicBool::new(false),
            lost: AtomicUsize::new(NOWHERE),
            is_lost_whole: AtomicBool::new(false),
            generation: AtomicU32::new(0),
            below: AtomicU32::new(0),
            origins: Mutex::new(Origins { current: None, lost: None }),
        }
    }

    fn origins(&self) -> MutexGuard<'_, Origins> {
        self.origins.lock_ignoring_poison()
    }

    /// Returns the error of a page that was lost in the region of this generation, which may be unmapped by now.
    fn error_of(&self, generation: u32, offset: usize) -> Error {
        let origins = self.origins();
        let origin = origins.current.clone().filter(|_| self.generation.load(Ordering::Acquire) == generation);
        let recorded = origins.lost.as_ref().filter(|lost| lost.0 == generation).map(|lost| lost.1.clone());
        drop(origins);
        match origin {
            Some(origin) => error_at(&origin, offset),
            None => recorded.unwrap_or_else(|| truncated(None)),
        }
    }
}

/// Number of slots in the first chunk; each further chunk has twice as many.
const FIRST_CHUNK_LEN: usize = 64;
/// Number of chunks: they have almost 2³² slots, far more than the system allows mappings.
const MAX_CHUNKS: usize = 26;
/// The chunks of slots, allocated when they are needed.
static CHUNKS: [AtomicPtr<Slot>; MAX_CHUNKS] = [const { AtomicPtr::new(null_mut()) }; MAX_CHUNKS];
/// Number of slots ever taken: those with smaller numbers may have a region.
static COUNT: AtomicU32 = AtomicU32::new(0);
/// The stack of free slots. The low half is the number of the topmost slot, counted from 1, or 0 if the stack is empty.
/// The high half counts the changes, against the ABA problem.
static FREE: AtomicU64 = AtomicU64::new(0);

/// Returns the number of a slot's chunk, and its index there, which is less than `FIRST_CHUNK_LEN << chunk`.
fn chunk_and_index(number: u32) -> (usize, usize) {
    let number = number as usize + FIRST_CHUNK_LEN;
    let chunk = (number / FIRST_CHUNK_LEN).ilog2() as usize;
    (chunk, number - (FIRST_CHUNK_LEN << chunk))
}

/// Returns the slot with this number; `None` if its chunk is not allocated.
fn slot(number: u32) -> Option<&'static Slot> {
    let (chunk, index) = chunk_and_index(number);
    let first = CHUNKS.get(chunk)?.load(Ordering::Acquire);
    if first.is_null() {
        return None;
    }
    debug_assert!(index < FIRST_CHUNK_LEN << chunk, "slot {index} of chunk {chunk}");
    // SAFETY: a chunk has `FIRST_CHUNK_LEN << chunk` slots, and `chunk_and_index` returns an index below that.
    let slot = unsafe { first.add(index) };
    // SAFETY: chunks are made whole by `allocate_chunk` before they are published, and never freed.
    Some(unsafe { &*slot })
}

/// Allocates a chunk of slots, unless it is there.
fn allocate_chunk(chunk: usize) {
    let Some(pointer) = CHUNKS.get(chunk) else { return };
    if !pointer.load(Ordering::Acquire).is_null() {
        return;
    }
    let slots: Box<[Slot]> = (0..FIRST_CHUNK_LEN << chunk).map(|_| Slot::new()).collect();
    let allocated = Box::into_raw(slots);
    if pointer.compare_exchange(null_mut(), allocated.cast(), Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: allocated just above and not published, as another thread's chunk was, so no other code has seen it.
        drop(unsafe { Box::from_raw(allocated) });
    }
}

/// Returns the state of [`FREE`] that follows `state`, with `top` as the topmost slot.
fn next_free_state(state: u64, top: u32) -> u64 {
    ((state >> 32).wrapping_add(1) << 32) | u64::from(top)
}

/// Takes a slot from the stack of free ones.
fn pop_free() -> Option<u32> {
    let mut state = FREE.load(Ordering::Acquire);
    loop {
        let number = (state as u32).checked_sub(1)?;
        let below = slot(number)?.below.load(Ordering::Relaxed);
        let next = next_free_state(state, below);
        match FREE.compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Some(number),
            Err(current) => state = current,
        }
    }
}

/// Returns a slot to the stack of free ones.
fn push_free(number: u32, slot: &Slot) {
    let mut state = FREE.load(Ordering::Acquire);
    loop {
        slot.below.store(state as u32, Ordering::Relaxed);
        let next = next_free_state(state, number + 1);
        match FREE.compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return,
            Err(current) => state = current,
        }
    }
}

/// The registration of a file's region with the handler, until it is dropped, which must happen before the region is
/// unmapped.
#[derive(Debug)]
pub(crate) struct FaultRegistration {
    number: u32,
    slot: &'static Slot,
}

impl FaultRegistration {
    /// Registers `len` bytes from `base` on, mapped from the file of `origin`. Returns `None` if there are too many
    /// regions.
    pub(crate) fn new(base: usize, len: usize, origin: MappedOrigin) -> Option<FaultRegistration> {
        install();
        let number = pop_free().unwrap_or_else(|| {
            let number = COUNT.fetch_add(1, Ordering::AcqRel);
            allocate_chunk(chunk_and_index(number).0);
            number
        });
        let slot = slot(number)?;

        assert_eq!(slot.base.load(Ordering::Relaxed), 0, "slot {number} has a region already");
        slot.origins().current = Some(origin);
        slot.end.store(base + len.next_multiple_of(PAGE.load(Ordering::Relaxed)), Ordering::Relaxed);
        slot.is_changed.store(false, Ordering::Relaxed);
        slot.lost.store(NOWHERE, Ordering::Relaxed);
        slot.is_lost_whole.store(false, Ordering::Relaxed);
        slot.base.store(base, Ordering::Release);
        Some(FaultRegistration { number, slot })
    }

    /// Returns true if the file was found to have changed.
    #[inline]
    pub(crate) fn is_changed(&self) -> bool {
        let is_changed = self.slot.is_changed.load(Ordering::Relaxed);
        // Reads before this one stay before it: zeros appear only after the mark.
        fence(Ordering::Acquire);
        is_changed
    }

    /// Makes all pages be lost as soon as one is.
    pub(crate) fn lose_whole(&self) {
        self.slot.is_lost_whole.store(true, Ordering::Release);
    }

    /// Returns the system's error for the page that was lost first; `None` if the file has changed instead.
    #[cold]
    pub(crate) fn failure(&self) -> Option<Error> {
        let offset = self.slot.lost.load(Ordering::Acquire);
        if offset == NOWHERE {
            return None;
        }
        let origin = self.origin()?;
        let (file, offset) = origin.file_of(offset as u64);
        failure(file, offset)
    }

    /// Returns the file of the region.
    pub(crate) fn origin(&self) -> Option<MappedOrigin> {
        self.slot.origins().current.clone()
    }

    /// Records that the file has changed.
    pub(crate) fn mark(&self) {
        self.slot.is_changed.store(true, Ordering::Release);
    }
}

impl Drop for FaultRegistration {
    fn drop(&mut self) {
        let lost = self.slot.lost.load(Ordering::Acquire);
        let origin = self.slot.origins().current.take();
        // Found out without the lock, because it takes system calls.
        let error = origin.filter(|_| lost != NOWHERE).map(|origin| error_at(&origin, lost));

        let mut origins = self.slot.origins();
        self.slot.base.store(0, Ordering::Release);
        let generation = self.slot.generation.fetch_add(1, Ordering::AcqRel);
        origins.lost = error.map(|error| (generation, error)).or(origins.lost.take());
        self.slot.zeroed.store(NOWHERE, Ordering::Release);
        drop(origins);
        push_free(self.number, self.slot);
    }
}

// ---- calls ----

/// A fault inside of a guarded call.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    slot: u32,
    generation: u32,
    /// Offset in the region.
    offset: usize,
}

/// The state of a thread in the form that the handler uses.
struct ThreadState {
    /// The low half is the number of nested guarded calls of the thread. The high half counts calls, so that only some
    /// of them read the clock. Packed to avoid a store-forwarding stall.
    calls: Cell<u64>,
    has_fault: Cell<bool>,
    /// The first fault of the call.
    fault: Cell<Fault>,
}

thread_local! {
    // It has no destructor and no initializer that runs code, so the handler may read it at any time.
    static LOCAL: ThreadState = const {
        ThreadState {
            calls: Cell::new(0),
            has_fault: Cell::new(false),
            fault: Cell::new(Fault { slot: 0, generation: 0, offset: 0 }),
        }
    };
}

/// One call, in the high half of [`ThreadState::calls`].
const ONE_CALL: u64 = 1 << 32;
/// Of so many calls of a thread, one reads the clock.
const CALLS_PER_CLOCK_READ: u64 = 16;

impl ThreadState {
    fn depth(&self) -> u32 {
        self.calls.get() as u32
    }

    /// Records a fault, unless the call has one already.
    fn record(&self, fault: Fault) {
        if !self.has_fault.replace(true) {
            self.fault.set(fault);
        }
    }

    /// Returns true if a page was lost, in this call or an enclosing one.
    #[inline]
    fn has_failed(&self) -> bool {
        // The handler runs on this thread: only the compiler could reorder the accesses.
        compiler_fence(Ordering::SeqCst);
        self.has_fault.get()
    }
}

/// The scope of a guarded call. A panic ends it as well. Its functions are not generic, so that the thread's data is
/// found without a call through a pointer.
struct GuardScope {
    /// The word that counts calls, before this call.
    before: u64,
}

impl GuardScope {
    #[inline]
    fn enter() -> GuardScope {
        LOCAL.with(|local| {
            let before = local.calls.get();
            local.calls.set(before + 1);
            // The handler runs on this thread: only the compiler could reorder the accesses.
            compiler_fence(Ordering::SeqCst);
            GuardScope { before }
        })
    }

    #[inline]
    fn leave(self) -> Option<Error> {
        LOCAL.with(|local| if local.has_failed() { Some(error_of(local.fault.get())) } else { None })
    }
}

impl Drop for GuardScope {
    #[inline]
    fn drop(&mut self) {
        LOCAL.with(|local| {
            debug_assert_eq!(local.depth(), self.before as u32 + 1, "guarded calls end in reverse order");
            if local.has_failed() && self.before as u32 == 0 {
                local.has_fault.set(false);
                mend();
            }
            local.calls.set(self.before.wrapping_add(ONE_CALL));
        });
    }
}

/// Runs `work`, which reads mapped files, and returns an error instead of its result if a file was truncated and a lost
/// page was touched, which would end the process otherwise.
///
/// The same happens if the disk fails, or has no room for a page that is stored to.
///
/// Functions of this crate that return a [`Result`] are guarded. Reading mapped bytes in another way, by
/// [`copy_out`](crate::Mapping::copy_out) or through a pointer, is safe from truncation only inside of a guard, on the
/// thread that entered it.
///
/// ```
/// use arrowwood_mapping::{Error, ErrorKind, Mapping, Mode, guard};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("bytes");
/// std::fs::write(&path, [7; 100_000])?;
/// let mapping = Mapping::open(&path, Mode::Read)?;
/// let mut last = [0];
/// guard(|| Ok::<_, Error>(mapping.copy_out(99_999, &mut last)))?;
/// assert_eq!(last, [7]);
///
/// std::fs::File::create(&path)?;
/// let lost = guard(|| Ok::<_, Error>(mapping.copy_out(99_999, &mut last)));
/// assert_eq!(lost.unwrap_err().kind(), ErrorKind::FileChanged);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `FileChanged`; `Io` if the file is unchanged, and its disk fails or is full; errors of `work`.
#[inline]
pub fn guard<T, E: From<Error>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let scope = GuardScope::enter();
    let result = work();
    match scope.leave() {
        None => result,
        Some(error) => Err(error.into()),
    }
}

/// Returns true if this call should read the clock, which takes longer than reading a value.
#[inline]
pub(crate) fn should_read_clock() -> bool {
    LOCAL.with(|local| (local.calls.get() / ONE_CALL).is_multiple_of(CALLS_PER_CLOCK_READ))
}

/// Returns true if this thread is inside of a guarded call, whose work may be shared with other threads.
#[inline]
pub fn is_guarded() -> bool {
    LOCAL.with(|local| local.depth() > 0)
}

/// Checks that this call has lost no page so far.
///
/// For calls that publish their results, as [`guard`] finds a lost page only at the end.
///
/// # Errors
/// `FileChanged`; the guard's own error takes its place.
#[inline]
pub fn check_pages() -> Result<()> {
    if LOCAL.with(ThreadState::has_failed) { Err(truncated(None)) } else { Ok(()) }
}

/// Runs a part of a call's work on another thread. The call must [adopt](adopt_fault) the fault, if there is one.
pub fn guard_on_thread<T>(work: impl FnOnce() -> T) -> (T, Option<Fault>) {
    let _scope = GuardScope::enter();
    let result = work();
    LOCAL.with(|local| {
        let fault = local.has_failed().then(|| local.fault.get());
        local.has_fault.set(false);
        (result, fault)
    })
}

/// Takes over the fault of another thread that worked for the current call.
pub fn adopt_fault(fault: Option<Fault>) {
    if let Some(fault) = fault {
        LOCAL.with(|local| local.record(fault));
    }
}

#[cold]
fn error_of(fault: Fault) -> Error {
    slot(fault.slot).map_or_else(|| truncated(None), |slot| slot.error_of(fault.generation, fault.offset))
}

fn error_at(origin: &MappedOrigin, offset: usize) -> Error {
    let (file, offset) = origin.file_of(offset as u64);
    failure(file, offset).unwrap_or_else(|| truncated(Some(offset)).at(&file.path))
}

/// Returns the system's error for byte `offset` of a file, which could not be touched.
fn failure(file: &MappedOrigin, offset: u64) -> Option<Error> {
    let cause = file.cause(offset)?;
    let doing = format!("touching byte {offset} of the mapped file, which has to be opened again");
    Some(Error::io(&doing, &cause).at(&file.path))
}

fn truncated(offset: Option<u64>) -> Error {
    let what = offset.map_or("some bytes".into(), |offset| format!("byte {offset}"));
    let message =
        format!("{what} of the mapped file can't be read any more: it was truncated, or its disk fails; open it again");
    Error::new(ErrorKind::FileChanged, message)
}

/// Makes all pages that were replaced by zeros fault again, including pages that other calls in progress have lost:
/// these fault once more, and are replaced again.
#[cold]
fn mend() {
    for number in 0..COUNT.load(Ordering::Acquire) {
        let Some(slot) = slot(number) else { continue };
        if slot.zeroed.load(Ordering::Acquire) == NOWHERE {
            continue;
        }
        let _keeps_mapped = slot.origins();
        let start = slot.zeroed.swap(NOWHERE, Ordering::AcqRel);
        let end = slot.end.load(Ordering::Relaxed);
        if slot.base.load(Ordering::Acquire) != 0 && start < end {
            // SAFETY: whole pages of a region of ours, which the lock keeps mapped.
            unsafe { os::map_empty_file_over(start, end - start) };
        }
    }
}

// ---- the signal ----

/// True if SIGBUS is handled; not set before that is decided.
static IS_HANDLED: OnceLock<bool> = OnceLock::new();

/// Disables the handler of SIGBUS, for a process whose own handler must not be replaced.
///
/// A call that touches a page of a truncated file then ends the process, as without this library. Must be called before
/// the first file is mapped; the environment variable `ARROWWOOD_SIGBUS=off` does the same.
///
/// # Errors
/// `Busy` if a file was mapped before, which installs the handler.
pub fn disable_sigbus_handler() -> Result<()> {
    if *IS_HANDLED.get_or_init(|| false) {
        let message = "a file was mapped before, and SIGBUS is handled since; call it first";
        return Err(Error::new(ErrorKind::Busy, message));
    }
    Ok(())
}

/// The size of a page; set when the handler is installed.
static PAGE: AtomicUsize = AtomicUsize::new(DEFAULT_PAGE_SIZE);
/// The number of bytes at multiples of which pages are replaced; set with [`PAGE`].
static GRANULARITY: AtomicUsize = AtomicUsize::new(DEFAULT_PAGE_SIZE);

/// Installs the handler, once, unless [`disable_sigbus_handler`] was called or the environment has
/// `ARROWWOOD_SIGBUS=off`. If the system refuses the resources for it, the next region tries again.
fn install() {
    static INSTALLING: Mutex<()> = Mutex::new(());
    if !os::HANDLES_FAULTS || os::is_fault_handler_installed() {
        return;
    }
    if !*IS_HANDLED.get_or_init(|| std::env::var_os("ARROWWOOD_SIGBUS").is_none_or(|value| value != "off")) {
        return;
    }
    let _guard = INSTALLING.lock_ignoring_poison();
    if !os::is_fault_handler_installed() {
        PAGE.store(os::page_size(), Ordering::Relaxed);
        GRANULARITY.store(os::granularity(), Ordering::Relaxed);
        os::install_fault_handler(FaultHandler { replace_pages: replace_lost_pages, is_guarded });
    }
}

/// Replaces the lost page at `address`, and all pages after it, which truncation removes as well, by zeros; or the
/// whole region, if it is lost whole. Returns false if the page is not ours.
fn replace_lost_pages(address: usize) -> bool {
    let Some((slot, fault)) = region_of(address) else { return false };
    // This check is second, because a thread's first access to its own data may allocate, which must not happen
    // inside of an allocator.
    if !is_guarded() {
        return false;
    }
    let unit = GRANULARITY.load(Ordering::Relaxed);
    let is_whole = slot.is_lost_whole.load(Ordering::Relaxed);
    let start = if is_whole { address - fault.offset } else { address - address % unit };

    // Before the zeros appear.
    let _ = slot.lost.compare_exchange(NOWHERE, fault.offset, Ordering::SeqCst, Ordering::SeqCst);
    slot.is_changed.store(true, Ordering::SeqCst);
    slot.zeroed.fetch_min(start, Ordering::SeqCst);

    let len = slot.end.load(Ordering::Relaxed) - start;
    // SAFETY: whole pages of a region of ours, which stays mapped meanwhile, as this thread is reading it.
    let is_replaced = unsafe { os::map_zeros_over(start, len) };
    LOCAL.with(|local| local.record(fault));
    is_replaced
}

/// Returns the slot of the region that has the byte at `address`, and the fault to record.
fn region_of(address: usize) -> Option<(&'static Slot, Fault)> {
    (0..COUNT.load(Ordering::Acquire)).find_map(|number| {
        let slot = slot(number)?;
        let generation = slot.generation.load(Ordering::Acquire);
        let base = slot.base.load(Ordering::Acquire);
        let is_inside = base != 0 && (base..slot.end.load(Ordering::Relaxed)).contains(&address);
        // Another thread may be reusing the slot for another region.
        fence(Ordering::Acquire);
        let is_same_region = slot.generation.load(Ordering::Relaxed) == generation;
        (is_inside && is_same_region).then(|| (slot, Fault { slot: number, generation, offset: address - base }))
    })
}
