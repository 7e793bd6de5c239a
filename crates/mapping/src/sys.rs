//! Accesses mapped memory.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::error::Error;
use crate::fault_cause::{JoinedPart, MappedOrigin};
use crate::guard::FaultRegistration;
use crate::mode::Mode;
use crate::os;

/// A contiguous range of mapped addresses.
///
/// Invariant: `base` is the start of `len` bytes that were mapped and that only `drop` unmaps; with `len == 0`
/// nothing is mapped and `base` dangles. Bytes can be stored to if `is_writable`.
///
/// A file's bytes may be written by other processes, and through other mappings of this one: through `&MemoryRegion`
/// they are loaded and stored atomically only ([`atoms`](MemoryRegion::atoms), [`word64`](MemoryRegion::word64)).
/// Memory of no file is borrowed as bytes, like a `Vec`'s: [`bytes`](MemoryRegion::bytes),
/// [`bytes_mut`](MemoryRegion::bytes_mut). No region is used in both ways.
#[derive(Debug)]
pub(crate) struct MemoryRegion {
    base: NonNull<u8>,
    len: usize,
    is_writable: bool,
    /// The registration with the fault handler, for regions of files.
    registration: Option<FaultRegistration>,
    /// Counts as one of the system's mappings of files.
    counted: Option<MappingCount>,
}

// SAFETY: a MemoryRegion is an address range owned for its whole life, not tied to the thread that mapped it.
unsafe impl Send for MemoryRegion {}
// SAFETY: through `&MemoryRegion` bytes are loaded and stored atomically, or, of memory of no file, read while no other
// code can have the `&mut MemoryRegion` that writing to them takes.
unsafe impl Sync for MemoryRegion {}

impl MemoryRegion {
    /// Maps the first `len` bytes of `file`, which is the file of `origin`.
    pub(crate) fn map_file(file: &File, len: usize, mode: Mode, origin: MappedOrigin) -> io::Result<MemoryRegion> {
        if len == 0 {
            return Ok(MemoryRegion::none());
        }
        let base = os::map_file(file, len, mode)?;
        Ok(MemoryRegion::new(base, len, mode.is_writable()).registered(origin))
    }

    /// Takes over `len` mapped bytes.
    fn new(base: NonNull<u8>, len: usize, is_writable: bool) -> MemoryRegion {
        MemoryRegion { base, len, is_writable, registration: None, counted: None }
    }

    /// Maps `len` zeroed bytes of anonymous memory.
    fn map_memory(len: usize) -> io::Result<MemoryRegion> {
        if len == 0 {
            return Ok(MemoryRegion::none());
        }
        Ok(MemoryRegion::new(os::map_memory(len)?, len, true))
    }

    fn registered(mut self, origin: MappedOrigin) -> MemoryRegion {
        if self.len > 0 {
            self.registration = FaultRegistration::new(self.address(), self.len, origin);
            self.counted = Some(MappingCount::new());
        }
        self
    }

    /// Returns true if a file of the region was found to have changed.
    #[inline]
    pub(crate) fn is_changed(&self) -> bool {
        self.registration.as_ref().is_some_and(FaultRegistration::is_changed)
    }

    /// Makes all pages of the region be lost as soon as one can't be touched.
    pub(crate) fn lose_whole(&self) {
        self.registration.iter().for_each(FaultRegistration::lose_whole);
    }

    /// Returns the system's error for the page that was lost first; `None` if the file has changed instead.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.registration.as_ref().and_then(FaultRegistration::failure)
    }

    /// Records that the file has changed, for good.
    pub(crate) fn mark(&self) {
        self.registration.iter().for_each(FaultRegistration::mark);
    }

    /// Maps `len` zeroed bytes of anonymous memory, few pages of which will be touched, without huge pages. Adjacent
    /// regions of this kind are one mapping for the system.
    pub(crate) fn sparse(len: usize) -> io::Result<MemoryRegion> {
        let region = MemoryRegion::map_memory(len)?;
        if len > 0 {
            os::avoid_huge_pages(region.base, len);
        }
        Ok(region)
    }

    /// Maps `len` zeroed bytes of anonymous memory, in huge pages if available and worthwhile.
    pub(crate) fn anonymous(len: usize) -> io::Result<MemoryRegion> {
        let region = MemoryRegion::map_memory(len)?;
        if len >= MIN_HUGE_LEN {
            os::prefer_huge_pages(region.base, len);
        }
        Ok(region)
    }

    /// Returns the empty region.
    pub(crate) const fn none() -> MemoryRegion {
        MemoryRegion { base: NonNull::dangling(), len: 0, is_writable: false, registration: None, counted: None }
    }

    /// Reserves addresses for `wanted` bytes of memory, which is allocated on first touch. The first address is the
    /// start of a huge page. May reserve more than the machine's memory, unless the system refuses. A system that
    /// allocates nothing on touch allocates `len` bytes, and [`extend`](MemoryRegion::extend) more where they are.
    pub(crate) fn reserved(len: usize, wanted: usize) -> io::Result<MemoryRegion> {
        let wide = wanted.checked_add(HUGE_PAGE).ok_or_else(os::out_of_memory)?;
        let mapped = os::reserve_memory(wide)?;
        let lead = mapped.addr().get().next_multiple_of(HUGE_PAGE) - mapped.addr().get();
        // SAFETY: `lead < HUGE_PAGE <= wide`, so this stays inside of what was just mapped.
        let base = unsafe { mapped.add(lead) };
        if lead > 0 {
            // SAFETY: the first `lead` bytes, whole pages, of what was just mapped and no other code knows of.
            unsafe { os::trim(mapped, lead) };
        }
        let mut region = MemoryRegion::new(base, wide - lead, true);
        // SAFETY: what was just mapped, from the first byte of the region on.
        region.len = unsafe { os::commit_memory(base, wide - lead, len) }?;
        Ok(region)
    }

    /// Asks for huge pages from byte `offset` on. A hint.
    pub(crate) fn prefer_huge_pages(&self, offset: usize) {
        if offset < self.len && offset.is_multiple_of(HUGE_PAGE) {
            // SAFETY: `offset < self.len`, so the sum stays inside the mapped range.
            let start = unsafe { self.base.add(offset) };
            os::prefer_huge_pages(start, self.len - offset);
        }
    }

    /// Allows the system to reclaim the memory of the first `len` bytes; their contents may be lost until they are
    /// written again. A hint.
    pub(crate) fn lend(&mut self, len: usize) {
        assert!(len <= self.len, "lending {len} bytes of {}", self.len);
        if len > 0 {
            // SAFETY: mapped bytes of our own, asserted above; `&mut self` proves that no other code accesses them.
            unsafe { os::lend_pages(self.base, len) };
        }
    }

    /// Writes to each page of a range of anonymous memory, so that the system does not reclaim it; see
    /// [`lend`](MemoryRegion::lend). The contents are lost.
    pub(crate) fn hold(&mut self, range: Range<usize>) {
        let page = os::page_size();
        let bytes = &mut self.bytes_mut()[range];
        bytes.iter_mut().step_by(page).for_each(|byte| *byte = 0);
        // A range that does not begin at a page touches one more.
        if let Some(last) = bytes.last_mut() {
            *last = 0;
        }
    }

    /// Extends the region, of anonymous memory, to `len` bytes. Keeps the first `used` bytes, which were written, but
    /// may move them.
    pub(crate) fn extend(&mut self, len: usize, used: usize) -> io::Result<()> {
        assert!(used <= self.len && self.len <= len, "extending {} bytes, {used} in use, to {len}", self.len);
        // SAFETY: by the invariant the range is ours and mapped; `&mut self` proves that no other code holds addresses
        // in it.
        if let Ok(base) = unsafe { os::move_memory(self.base, self.len, len) } {
            self.base = base;
            self.len = len;
            return Ok(());
        }
        // Other systems have no such call, and Linux fails if only a part of the range has huge pages.
        let mut other = MemoryRegion::reserved(len, len)?;
        other.bytes_mut()[..used].copy_from_slice(self.bytes(used));
        *self = other;
        Ok(())
    }

    /// Maps parts of shared mappings of files, each an offset and a length, contiguously. Parts are multiples of the
    /// system's granularity, but for the end of the last. The first file is at `path`. The files need not be open, and
    /// may have lost their names.
    ///
    /// # Errors
    /// Errors of the system; `Unsupported` if it can't map parts again.
    pub(crate) fn joined(parts: &[(&MemoryRegion, usize, usize)], path: &Path) -> io::Result<MemoryRegion> {
        let unit = os::granularity();
        let len = parts.iter().try_fold(0usize, |sum, (_, _, len)| sum.checked_add(*len));
        let len = len.ok_or_else(os::out_of_memory)?;
        for (number, (from, offset, len)) in parts.iter().enumerate() {
            let is_inside = offset.checked_add(*len).is_some_and(|end| end <= from.len);
            let is_last = number + 1 == parts.len();
            let has_whole_units = offset.is_multiple_of(unit) && *len > 0 && (len.is_multiple_of(unit) || is_last);
            if !is_inside || !has_whole_units {
                return Err(io::Error::other("parts that are joined begin where a mapping may"));
            }
        }
        if len == 0 {
            return Ok(MemoryRegion::none());
        }
        let region = MemoryRegion::new(os::map_nothing(len)?, len, false);
        let mut start = 0;
        let mut joined = Vec::with_capacity(parts.len());
        for (from, offset, len) in parts {
            // SAFETY: `start` is the sum of lengths before this one, so inside the region just reserved.
            let target = unsafe { region.base.add(start) };
            let origin = from.registration.as_ref().and_then(FaultRegistration::origin);
            let origin = origin.unwrap_or_else(|| MappedOrigin::joined(path, Vec::new()));
            joined.push(JoinedPart { start: start as u64, offset: *offset as u64, origin });
            // SAFETY: `offset` is inside of the mapping, checked above.
            let from = unsafe { from.base.add(*offset) };
            // SAFETY: `from` is mapped. This replaces `len` bytes of our own reservation, from the start of a page on,
            // that no other code has seen yet; a part's last page may be longer than the part, and is then the
            // region's last.
            unsafe { os::map_again(from, *len, target) }?;
            start += len;
        }
        assert_eq!(start, region.len, "the parts fill the region");
        Ok(region.registered(MappedOrigin::joined(path, joined)))
    }

    /// Returns the bytes of anonymous memory.
    ///
    /// Bytes that were [lent](MemoryRegion::lend) to the system and not written since may become zeros at any time;
    /// call [`hold`](MemoryRegion::hold) before reading or borrowing them.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        debug_assert!(self.registration.is_none() && (self.is_writable || self.len == 0), "memory of no file");
        // SAFETY: `base` starts `len` mapped, writable bytes of no file (callers create the region by `anonymous` or
        // `reserved`), which no other code has: addresses of them leave with `GrowableBuffer::into_parts` only, which
        // moves the region as well. They are borrowed as long as `&mut self`.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }

    /// Returns the first `len` bytes of anonymous memory, which must all be written or held.
    pub(crate) fn bytes(&self, len: usize) -> &[u8] {
        assert!(len <= self.len, "bytes past the mapping");
        debug_assert!(self.registration.is_none(), "memory of no file");
        // SAFETY: `len` mapped bytes, asserted above, of memory that is written to through `&mut self` alone; a shared
        // borrow of it is a shared borrow of the region.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), len) }
    }

    /// Copies bytes into anonymous memory, if there is room for them.
    #[inline]
    pub(crate) fn try_write(&mut self, offset: usize, from: &[u8]) -> bool {
        if offset > self.len || from.len() > self.len - offset {
            return false;
        }
        debug_assert!(self.registration.is_none() && (self.is_writable || from.is_empty()), "memory of no file");
        // SAFETY: `offset + from.len() <= self.len`, checked above.
        let into = unsafe { self.base.as_ptr().add(offset) };
        if let (Some(word), 8) = (from.first_chunk::<8>(), from.len()) {
            // A single number is stored without a call.
            // SAFETY: as below, of 8 bytes; an array of bytes needs no alignment.
            unsafe { into.cast::<[u8; 8]>().write(*word) };
            return true;
        }
        if let (Some(word), 4) = (from.first_chunk::<4>(), from.len()) {
            // SAFETY: as below, of 4 bytes; an array of bytes needs no alignment.
            unsafe { into.cast::<[u8; 4]>().write(*word) };
            return true;
        }
        // SAFETY: the destination is inside of writable memory. `&mut self` proves that no other code accesses it, so
        // `from`, a live borrow, is no part of it.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), into, from.len()) };
        true
    }

    /// Returns `len` bytes from `offset` on, which other processes may be storing to, as the bytes before the first
    /// aligned word, the words, and the bytes after the last word. Panics if they are not inside, which callers rule
    /// out.
    #[inline]
    pub(crate) fn atoms(&self, offset: usize, len: usize) -> (&[AtomicU8], &[AtomicU64], &[AtomicU8]) {
        assert!(offset <= self.len && len <= self.len - offset, "bytes past the mapping");
        // A mapping begins at a page.
        let head = (offset.next_multiple_of(8) - offset).min(len);
        let words = (len - head) / 8;
        let tail = (len - head) % 8;
        // SAFETY: `offset <= self.len`, asserted above, so this stays inside the range, as do the next two.
        let start = unsafe { self.base.as_ptr().add(offset) };
        // SAFETY: `head` bytes inside; see below.
        let first = unsafe { std::slice::from_raw_parts(start.cast::<AtomicU8>(), head) };
        // SAFETY: `head <= len`.
        let start = unsafe { start.add(head) };
        let middle = match words {
            0 => &[],
            // SAFETY: `words` words inside, aligned since `head` bytes lead to a multiple of 8. References to atomics
            // may be to memory that others store to; they live as long as the range is borrowed.
            _ => unsafe { std::slice::from_raw_parts(start.cast::<AtomicU64>(), words) },
        };
        // SAFETY: `head + 8 * words <= len`.
        let start = unsafe { start.add(8 * words) };
        // SAFETY: `tail` bytes inside, as above.
        let last = unsafe { std::slice::from_raw_parts(start.cast::<AtomicU8>(), tail) };
        (first, middle, last)
    }

    /// Returns `len` bytes from `offset` on, which other processes may be storing to. Panics if they are not inside,
    /// which callers rule out.
    #[inline]
    pub(crate) fn atoms8(&self, offset: usize, len: usize) -> &[AtomicU8] {
        assert!(offset <= self.len && len <= self.len - offset, "bytes past the mapping");
        // SAFETY: `offset <= self.len`, asserted above, so this stays inside the range.
        let start = unsafe { self.base.as_ptr().add(offset) };
        // SAFETY: `len` bytes inside, asserted above. References to atomics may be to memory that others store to; they
        // live as long as the range is borrowed.
        unsafe { std::slice::from_raw_parts(start.cast::<AtomicU8>(), len) }
    }

    /// [Prefetches](prefetch) bytes that other processes may be storing to. Panics if they are not inside, which
    /// callers rule out.
    pub(crate) fn prefetch(&self, offset: usize, len: usize) {
        assert!(offset <= self.len && len <= self.len - offset, "bytes past the mapping");
        if len > 0 {
            os::prefetch_pages(self.base.as_ptr().wrapping_add(offset), len);
        }
    }

    /// Loads bytes, an aligned 8-byte word at a time (relaxed), in no order. Panics if they are not inside, which
    /// callers rule out.
    #[inline]
    pub(crate) fn copy_out(&self, offset: usize, into: &mut [u8]) {
        let (first, words, last) = self.atoms(offset, into.len());
        let (head, rest) = into.split_at_mut(first.len());
        let (middle, tail) = rest.as_chunks_mut::<8>();
        debug_assert_eq!((middle.len(), tail.len()), (words.len(), last.len()), "bytes cut alike");
        head.iter_mut().zip(first).for_each(|(into, byte)| *into = byte.load(Ordering::Relaxed));
        middle.iter_mut().zip(words).for_each(|(into, word)| *into = word.load(Ordering::Relaxed).to_ne_bytes());
        tail.iter_mut().zip(last).for_each(|(into, byte)| *into = byte.load(Ordering::Relaxed));
    }

    /// Returns true if the bytes at `offset` are `expected`. Loads them up to the first difference, as
    /// [`MemoryRegion::copy_out`] does, and panics like it.
    pub(crate) fn has_bytes(&self, offset: usize, expected: &[u8]) -> bool {
        let (first, words, last) = self.atoms(offset, expected.len());
        let (head, rest) = expected.split_at(first.len());
        let (middle, tail) = rest.as_chunks::<8>();
        debug_assert_eq!((middle.len(), tail.len()), (words.len(), last.len()), "bytes cut alike");
        head.iter().zip(first).all(|(expected, byte)| byte.load(Ordering::Relaxed) == *expected)
            && middle.iter().zip(words).all(|(expected, word)| word.load(Ordering::Relaxed).to_ne_bytes() == *expected)
            && tail.iter().zip(last).all(|(expected, byte)| byte.load(Ordering::Relaxed) == *expected)
    }

    /// Stores bytes, an aligned 8-byte word at a time (relaxed), in no order. Panics if they are not inside, or the
    /// region is read-only.
    #[inline]
    pub(crate) fn copy_in(&self, offset: usize, from: &[u8]) {
        assert!(self.is_writable, "storing into a mapping that is only read");
        // A number, which is what most cells are.
        if let Ok(word) = from.try_into()
            && offset.is_multiple_of(8)
        {
            return self.word64(offset).store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
        if let Ok(word) = from.try_into()
            && offset.is_multiple_of(4)
        {
            return self.word32(offset).store(u32::from_ne_bytes(word), Ordering::Relaxed);
        }
        if from.len() < 8 {
            let bytes = self.atoms8(offset, from.len());
            return from.iter().zip(bytes).for_each(|(from, byte)| byte.store(*from, Ordering::Relaxed));
        }
        self.copy_in_any(offset, from);
    }

    fn copy_in_any(&self, offset: usize, from: &[u8]) {
        let (first, words, last) = self.atoms(offset, from.len());
        let (head, rest) = from.split_at(first.len());
        let (middle, tail) = rest.as_chunks::<8>();
        debug_assert_eq!((middle.len(), tail.len()), (words.len(), last.len()), "bytes cut alike");
        head.iter().zip(first).for_each(|(from, byte)| byte.store(*from, Ordering::Relaxed));
        middle.iter().zip(words).for_each(|(from, word)| word.store(u64::from_ne_bytes(*from), Ordering::Relaxed));
        tail.iter().zip(last).for_each(|(from, byte)| byte.store(*from, Ordering::Relaxed));
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    #[inline]
    pub(crate) fn address(&self) -> usize {
        self.base.as_ptr() as usize
    }

    /// Returns the aligned 8-byte word at `offset`, which other processes may be storing to. Panics if it is not
    /// inside.
    #[inline]
    pub(crate) fn word64(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset.checked_add(8).is_some_and(|end| end <= self.len), "no such word");
        // SAFETY: `offset` is inside the range, asserted above.
        let word = unsafe { self.base.as_ptr().add(offset) };
        // SAFETY: 8 mapped bytes, asserted above, and aligned, since a mapping begins at a page. Both sides of a table
        // access the words that they share atomically, through the methods of this type; the reference
        // lives no longer than the range.
        unsafe { AtomicU64::from_ptr(word.cast()) }
    }

    /// Returns the aligned 4-byte word at `offset`; see [`MemoryRegion::word64`].
    #[inline]
    pub(crate) fn word32(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset.checked_add(4).is_some_and(|end| end <= self.len), "no such word");
        // SAFETY: `offset` is inside the range, asserted above.
        let word = unsafe { self.base.as_ptr().add(offset) };
        // SAFETY: as in `word64`, with 4 bytes.
        unsafe { AtomicU32::from_ptr(word.cast()) }
    }

    /// Waits while the little-endian word at `offset` is `expected`, until woken or for `timeout`; may return
    /// early. Works on a read-only mapping.
    pub(crate) fn wait(&self, offset: usize, expected: u32, timeout: Duration) {
        os::wait(self.word32(offset), expected.to_le(), timeout);
    }

    /// Wakes all that [`wait`](MemoryRegion::wait) at `offset`, in any process.
    pub(crate) fn wake(&self, offset: usize) {
        os::wake(self.word32(offset));
    }

    /// Makes the pages of `len` bytes from `offset` on present and writable, so that stores there do not fault. Returns
    /// false if a store would raise a signal. If the system has no such call, pages are made on first touch.
    pub(crate) fn populate(&self, offset: usize, len: usize) -> bool {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return true;
        }
        let lead = offset % os::page_size();
        // SAFETY: at most `offset`, so the sum stays inside the mapped range, or at its end.
        let page = unsafe { self.base.add(offset - lead) };
        os::populate_pages(page, lead + len)
    }

    /// Returns the number of resident bytes.
    pub(crate) fn resident(&self) -> io::Result<usize> {
        let mut pages = 0;
        self.each_page(|_, is_resident| pages += usize::from(is_resident))?;
        Ok((pages * os::page_size()).min(self.len))
    }

    /// Returns the share of resident pages in each of `parts` parts of the same length.
    pub(crate) fn residency(&self, parts: usize) -> io::Result<Vec<f32>> {
        let page_count = self.len.div_ceil(os::page_size());
        let parts = parts.min(page_count);
        let mut resident = vec![0u32; parts];
        let mut pages = vec![0u32; parts];
        self.each_page(|page, is_resident| {
            let part = (page as u128 * parts as u128 / page_count as u128) as usize;
            resident[part] += u32::from(is_resident);
            pages[part] += 1;
        })?;
        let share = |(&resident, &pages): (&u32, &u32)| resident as f32 / pages.max(1) as f32;
        Ok(resident.iter().zip(&pages).map(share).collect())
    }

    /// Calls `visit` with the number of each page, and true if the page is resident. Asks the system in steps of 1 GiB,
    /// so that its answer, a byte for each page, stays small.
    fn each_page(&self, mut visit: impl FnMut(usize, bool)) -> io::Result<()> {
        const STEP: usize = 1 << 30;
        /// The bit of a flag that says so; the others are reserved.
        const IS_RESIDENT: u8 = 1;
        let page = os::page_size();
        let mut flags = vec![0u8; STEP.min(self.len).div_ceil(page)];
        for start in (0..self.len).step_by(STEP) {
            let len = STEP.min(self.len - start);
            // SAFETY: `start < self.len`, so the sum stays inside the mapped range.
            let address = unsafe { self.base.add(start) };
            os::resident_pages(address, len, &mut flags)?;
            for (number, flag) in flags.iter().take(len.div_ceil(page)).enumerate() {
                visit(start / page + number, flag & IS_RESIDENT != 0);
            }
        }
        Ok(())
    }

    pub(crate) fn flush(&self) -> io::Result<()> {
        if self.len == 0 {
            return Ok(());
        }
        os::flush_pages(self.base, self.len)
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        // First, because the range may be reused as soon as it is unmapped.
        self.registration = None;
        if self.len > 0 {
            // SAFETY: by the invariant the range is ours and still mapped; it is not used after drop.
            unsafe { os::unmap(self.base, self.len) };
        }
    }
}

/// Returns true if the system can wait for several words, and allows it.
pub(crate) fn can_wait_for_any() -> bool {
    // The word has another value, so this returns at once.
    os::wait_for_any(&[(&AtomicU32::new(1), 0)]).is_ok()
}

/// The number of mappings of files.
static MAPPED_FILES: AtomicUsize = AtomicUsize::new(0);
/// The simulated limit; see `limit_mappings`.
static SIMULATED_LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Counts as one of [`MAPPED_FILES`] until it is dropped.
#[derive(Debug)]
struct MappingCount;

impl MappingCount {
    fn new() -> MappingCount {
        MAPPED_FILES.fetch_add(1, Ordering::Relaxed);
        MappingCount
    }
}

impl Drop for MappingCount {
    fn drop(&mut self) {
        let before = MAPPED_FILES.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "more mappings of files were removed than made");
    }
}

/// Returns true if the number of mapped files is so high that other code in the process, such as its allocator, might
/// soon be refused a mapping.
///
/// Linux allows 65,530 (`vm.max_map_count`).
pub fn mappings_are_scarce() -> bool {
    mapped_file_count() >= SIMULATED_LIMIT.load(Ordering::Relaxed).min(os::max_mappings() / 4 * 3)
}

/// Returns the number of files that the process has mapped.
pub fn mapped_file_count() -> usize {
    MAPPED_FILES.load(Ordering::Relaxed)
}

/// Simulates that mappings are scarce from `count` on.
#[cfg(feature = "internal")]
pub fn limit_mappings(count: usize) {
    SIMULATED_LIMIT.store(count, Ordering::Relaxed);
}

/// The size of huge pages on most systems.
pub(crate) const HUGE_PAGE: usize = 2 << 20;
/// The minimum size of memory for which huge pages are worthwhile: several of them.
pub(crate) const MIN_HUGE_LEN: usize = 2 * HUGE_PAGE;

/// Asks the system to load the pages of `bytes` and none around them, without waiting for them.
///
/// A hint: if it is refused, pages are loaded when they are touched, together with as much around them as the device
/// reads ahead.
pub fn prefetch(bytes: &[u8]) {
    if !bytes.is_empty() {
        os::prefetch_pages(bytes.as_ptr(), bytes.len());
    }
}

/// Asks the processor to load the first of `bytes` into its cache, without waiting for it.
///
/// A hint: nothing happens on most kinds of processors, or if the page has not been touched yet.
#[inline(always)]
pub fn prefetch_line(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction changes nothing and can't fail, whatever the address; every x86-64 has SSE.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(bytes.as_ptr().cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

/// Copies bytes past the caches, to memory that is not read soon.
///
/// This saves reading the overwritten bytes. Other threads see them after [`store_fence`].
///
/// # Panics
/// If the slices differ in length.
pub fn copy_nontemporal(into: &mut [u8], from: &[u8]) {
    assert_eq!(into.len(), from.len(), "copying to another length");
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        let head = into.as_ptr().align_offset(size_of::<__m128i>()).min(into.len());
        let (into_head, into) = into.split_at_mut(head);
        let (from_head, from) = from.split_at(head);
        into_head.copy_from_slice(from_head);
        let (into, into_tail) = into.as_chunks_mut::<16>();
        let (from, from_tail) = from.as_chunks::<16>();
        debug_assert_eq!((into.len(), into_tail.len()), (from.len(), from_tail.len()), "bytes cut alike");
        for (into, from) in into.iter_mut().zip(from) {
            // SAFETY: 16 readable bytes, which need no alignment; every x86-64 has SSE2.
            let word = unsafe { _mm_loadu_si128(from.as_ptr().cast()) };
            // SAFETY: 16 writable bytes, borrowed as such; the first of them is aligned behind `head`, so all are.
            unsafe { _mm_stream_si128(into.as_mut_ptr().cast(), word) };
        }
        into_tail.copy_from_slice(from_tail);
    }
    #[cfg(not(target_arch = "x86_64"))]
    into.copy_from_slice(from);
}

/// Orders this thread's copies past the caches before its later stores.
pub fn store_fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has SSE; the instruction touches no memory.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use super::MemoryRegion;

    #[test]
    fn regions_have_the_bytes_that_were_copied_into_them_and_no_others() {
        let bytes: Vec<u8> = (1..=40).collect();
        let region = MemoryRegion::anonymous(bytes.len()).unwrap();
        region.copy_in(0, &bytes);
        for start in 0..=bytes.len() {
            for end in start..=bytes.len() {
                let mut expected = bytes[start..end].to_vec();
                assert!(region.has_bytes(start, &expected), "bytes {start} to {end}");
                for number in 0..expected.len() {
                    expected[number] ^= 1;
                    assert!(!region.has_bytes(start, &expected), "byte {number} of bytes {start} to {end}");
                    expected[number] ^= 1;
                }
            }
        }
    }
}
