//! Memory that grows without being moved.
//!
//! ```text
//! reserved   [················································]   addresses, as many as the machine has memory
//! touched    [##################······························]   pages that the system has given
//! used       [################································]
//! ```
//! Addresses cost nothing, so a buffer takes at once as many as it could ever need, and each page becomes memory when it is
//! first written to: growth copies nothing and changes no address. What is larger than a few MiB is made of huge pages,
//! which are first touched three times as fast. Memory that is no longer used is kept for the next buffer, lent to the
//! system meanwhile (madvise(2), `MADV_FREE`): touched pages are the fastest of all.
//!
//! Where so many addresses are refused (`ulimit -v`, strict overcommit) a buffer takes what it needs, and twice as much
//! when that is full (mremap(2)).

use std::io;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::Element;
use super::sys::{HUGE, MemoryRegion, physical_memory};
use crate::error::{Error, Result};

/// Bytes that grow at their end, in memory that begins at a page and is not moved; see [`Bytes`](crate::Bytes) for how it
/// becomes arrays.
///
/// ```
/// # use arrowwood::GrowableBuffer;
/// let mut buffer = GrowableBuffer::new();
/// let address = buffer.reserve(8)?.address();
/// for number in 0..1_000_000i64 {
///     buffer.push(number)?;
/// }
/// assert_eq!((buffer.len(), buffer.address()), (8_000_000, address));
/// # Ok::<(), arrowwood::Error>(())
/// ```
#[derive(Debug)]
pub struct GrowableBuffer {
    memory: PooledMemory,
    len: usize,
}

/// A region and how much of it was touched. It goes to the pool when it is dropped.
#[derive(Debug)]
pub(crate) struct PooledMemory {
    region: MemoryRegion,
    touched: usize,
    /// How many bytes were lent to the system before: until they are written to, it may take them back.
    lent: usize,
}

impl GrowableBuffer {
    /// No bytes, and no memory yet.
    pub fn new() -> GrowableBuffer {
        GrowableBuffer { memory: PooledMemory::none(), len: 0 }
    }

    /// No bytes, with room for `capacity` of them; large ones in huge pages from the start.
    ///
    /// # Errors
    /// `Io` when there are not so many addresses.
    pub fn with_capacity(capacity: usize) -> Result<GrowableBuffer> {
        let mut buffer = GrowableBuffer::new();
        buffer.reserve(capacity)?;
        Ok(buffer)
    }

    /// `len` bytes, whatever they are, with room for no more.
    ///
    /// # Errors
    /// `Io` when there are not so many addresses.
    pub(crate) fn exact(len: usize) -> Result<GrowableBuffer> {
        let failed = |e: io::Error| Error::io(&format!("taking memory for a buffer of {len} bytes"), &e);
        let mut memory = if len == 0 { PooledMemory::none() } else { PooledMemory::take(len, len).map_err(failed)? };
        memory.hold(0..len);
        Ok(GrowableBuffer { memory, len })
    }

    /// Makes room for `more` bytes behind those that are there.
    ///
    /// # Errors
    /// `Io` when there are not so many addresses.
    #[cold]
    pub fn reserve(&mut self, more: usize) -> Result<&mut GrowableBuffer> {
        let end = self.len.saturating_add(more);
        if end > self.capacity() {
            self.grow(end)?;
        }
        Ok(self)
    }

    /// The number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many bytes there can be before the buffer has to move.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.memory.region.len()
    }

    /// The address of the first byte: a multiple of the page size. It changes only when the buffer outgrows its capacity.
    pub fn address(&self) -> usize {
        self.memory.region.base().as_ptr() as usize
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// `Io` when there is no memory for them.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) -> Result<()> {
        if !self.memory.region.try_write(self.len, bytes) {
            self.reserve(bytes.len())?;
            self.write_at(self.len, bytes)?;
        }
        self.len += bytes.len();
        Ok(())
    }

    /// Appends a number, in little-endian order.
    ///
    /// # Errors
    /// `Io` when there is no memory for it.
    #[inline]
    pub fn push<T: Element>(&mut self, value: T) -> Result<()> {
        let mut raw = [0; 16];
        value.to_bytes(&mut raw[..T::WIDTH]);
        self.extend_from_slice(&raw[..T::WIDTH])
    }

    /// Writes bytes from byte `at` on, which is inside or at the end; what they go beyond it is appended.
    ///
    /// # Errors
    /// `InvalidArgument` behind the end, `Io` when there is no memory for them.
    #[inline]
    pub fn put(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        if at > self.len || !self.memory.region.try_write(at, bytes) {
            self.make_room(at, bytes.len())?;
            self.write_at(at, bytes)?;
        }
        self.len = self.len.max(at + bytes.len());
        Ok(())
    }

    /// Forgets all bytes from `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.memory.touched = self.memory.touched.max(self.len);
        self.len = self.len.min(len);
    }

    /// Appends `len` bytes, whatever they are, to be written over.
    ///
    /// # Errors
    /// `Io` when there is no memory for them.
    pub(crate) fn lengthen(&mut self, len: usize) -> Result<&mut [u8]> {
        self.reserve(len)?;
        let before = self.len;
        self.len += len;
        self.memory.hold(before..self.len);
        Ok(&mut self.memory.region.bytes_mut()[before..before + len])
    }

    /// The bytes, to be written over.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        let len = self.len;
        &mut self.memory.region.bytes_mut()[..len]
    }

    /// The memory, where it begins, and how much of it is used.
    pub(crate) fn into_parts(mut self) -> (Arc<PooledMemory>, NonNull<u8>, usize) {
        let mut memory = std::mem::replace(&mut self.memory, PooledMemory::none());
        memory.touched = memory.touched.max(self.len);
        let base = memory.region.base();
        (Arc::new(memory), base, self.len)
    }

    /// Writes where room was made.
    #[cold]
    fn write_at(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        match self.memory.region.try_write(at, bytes) {
            true => Ok(()),
            false => Err(Error::internal(format_args!("no room for {} bytes at byte {at} of a buffer", bytes.len()))),
        }
    }

    #[cold]
    fn make_room(&mut self, at: usize, len: usize) -> Result<()> {
        match at > self.len {
            true => Err(Error::argument(format!("byte {at} of a buffer of {} bytes", self.len))),
            false => self.reserve(len).map(drop),
        }
    }

    fn grow(&mut self, end: usize) -> Result<()> {
        let failed = |e: io::Error| Error::io(&format!("taking memory for a buffer of {end} bytes"), &e);
        let capacity = self.capacity();
        if capacity == 0 {
            self.memory = PooledMemory::take(end, end.max(reservation())).map_err(failed)?;
            return Ok(());
        }
        let wanted = end.max(2 * capacity).checked_next_multiple_of(HUGE).unwrap_or(usize::MAX);
        self.memory.region.extend(wanted, self.len).map_err(failed)?;
        RESERVED.fetch_add(self.capacity() - capacity, Ordering::Relaxed);
        self.memory.region.prefer_huge_pages(0);
        Ok(())
    }
}

impl Default for GrowableBuffer {
    fn default() -> GrowableBuffer {
        GrowableBuffer::new()
    }
}

impl Deref for GrowableBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.memory.region.bytes(self.len)
    }
}

impl Drop for GrowableBuffer {
    fn drop(&mut self) {
        self.memory.touched = self.memory.touched.max(self.len);
    }
}

impl io::Write for GrowableBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.extend_from_slice(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        slices.iter().try_fold(0, |sum, slice| Ok(sum + self.write(slice)?))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// ---- what was used and may be used again ----

/// Regions that nobody uses, and how much of each was touched.
static POOL: Mutex<Vec<(MemoryRegion, usize)>> = Mutex::new(Vec::new());
/// More regions than this are not worth their addresses.
const KEPT: usize = 64;

impl PooledMemory {
    const fn none() -> PooledMemory {
        PooledMemory { region: MemoryRegion::none(), touched: 0, lent: 0 }
    }

    /// Memory for `len` bytes and, where the system has nothing against it, for `wanted`: of the pool what fits best, or
    /// new.
    fn take(len: usize, wanted: usize) -> io::Result<PooledMemory> {
        if let Some((region, touched)) = reuse(len, wanted) {
            return Ok(PooledMemory { region, touched, lent: touched });
        }
        let whole = RESERVED.load(Ordering::Relaxed).saturating_add(wanted) <= MOST && wanted > len;
        if let Some(region) = whole.then(|| MemoryRegion::reserved(wanted).ok()).flatten() {
            // A buffer that stays small takes no huge page.
            region.prefer_huge_pages(if len >= HUGE { 0 } else { HUGE });
            return Ok(PooledMemory::of(region));
        }
        // The system keeps count of addresses: as much as is needed now.
        let few = if wanted > len { len.checked_next_multiple_of(HUGE).unwrap_or(len) } else { len };
        let region = MemoryRegion::reserved(few)?;
        if len >= HUGE {
            region.prefer_huge_pages(0);
        }
        Ok(PooledMemory::of(region))
    }

    fn of(region: MemoryRegion) -> PooledMemory {
        RESERVED.fetch_add(region.len(), Ordering::Relaxed);
        PooledMemory { region, touched: 0, lent: 0 }
    }

    /// Makes bytes that are about to be borrowed, and were not written yet, stay what they are until they are.
    fn hold(&mut self, range: Range<usize>) {
        if range.start < self.lent {
            self.region.hold(range.start..range.end.min(self.lent));
        }
    }
}

impl Drop for PooledMemory {
    fn drop(&mut self) {
        let region = std::mem::replace(&mut self.region, MemoryRegion::none());
        if self.touched > 0 {
            keep(region, self.touched);
        } else {
            give_back(region);
        }
    }
}

/// Addresses that are taken.
static RESERVED: AtomicUsize = AtomicUsize::new(0);
/// Half of what the smallest address spaces of 64-bit systems have. Who asks for more gets what it needs.
const MOST: usize = 64 << 40;

fn give_back(region: MemoryRegion) {
    RESERVED.fetch_sub(region.len(), Ordering::Relaxed);
}

/// The least touched memory that needs no first touch for `len` bytes, or else the most touched. For what may grow, with
/// all the addresses it could want: what was kept last, which the system has not taken back yet.
fn reuse(len: usize, wanted: usize) -> Option<(MemoryRegion, usize)> {
    // Held by another thread, or for ever in the child of a fork: then without.
    let mut pool = POOL.try_lock().ok()?;
    let rank = |touched: usize| (touched < len, touched.abs_diff(len));
    let mut fitting = (0..pool.len()).filter(|&number| pool[number].0.len() >= wanted);
    let best = if wanted > len { fitting.next_back() } else { fitting.min_by_key(|&number| rank(pool[number].1)) }?;
    Some(pool.remove(best))
}

/// Keeps memory for the next buffer. What was kept longest goes where there is too much of it.
fn keep(mut region: MemoryRegion, touched: usize) {
    let Ok(mut pool) = POOL.try_lock() else { return give_back(region) };
    region.lend(touched);
    pool.push((region, touched));
    let most = physical_memory() / 8;
    while pool.len() > KEPT || pool.iter().map(|(_, touched)| touched).sum::<usize>() > most {
        give_back(pool.remove(0).0);
    }
}

/// As many addresses as the machine has memory: no buffer can be larger.
fn reservation() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| physical_memory().clamp(1 << 30, 1 << 40).next_power_of_two())
}
