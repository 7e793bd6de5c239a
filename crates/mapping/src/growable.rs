//! Provides memory that grows without being moved.
//!
//! ```text
//! reserved   [················································]   as many addresses as the machine has memory
//! touched    [##################······························]   pages allocated by the system
//! ```
//! Addresses cost nothing, so a buffer reserves as many as it could ever need, and each page becomes memory on its
//! first write: growth copies nothing and changes no address. Beyond a few MiB, buffers use huge pages, which are first
//! touched three times as fast. Unused memory is kept for the next buffer, and lent to the system meanwhile
//! (madvise(2), `MADV_FREE`): touched pages are the fastest of all.
//!
//! Tried and rejected: doubling by copy, which is half as fast as `Vec` (its `realloc` moves pages); mremap(2) with
//! huge pages, which is as fast, but changes addresses.
//!
//! If the system refuses to reserve that many addresses (`ulimit -v`, strict overcommit), a buffer reserves what it
//! needs, and doubles that when it is full (mremap(2)).

use std::io;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::element::{Element, MAX_WIDTH};
use crate::error::{Error, Result};
use crate::os::physical_memory;
use crate::sys::{MIN_HUGE_LEN, MemoryRegion};

/// A growable buffer of bytes, aligned to a page, that does not move.
///
/// ```
/// # use arrowwood_mapping::GrowableBuffer;
/// let mut buffer = GrowableBuffer::new();
/// let address = buffer.reserve(8)?.address();
/// for number in 0..1_000_000i64 {
///     buffer.push(number)?;
/// }
/// assert_eq!((buffer.len(), buffer.address()), (8_000_000, address));
/// # Ok::<(), arrowwood_mapping::Error>(())
/// ```
#[derive(Debug)]
pub struct GrowableBuffer {
    memory: PooledMemory,
    len: usize,
}

/// A region and its number of touched bytes. Returns to the pool on drop.
#[derive(Debug)]
pub struct PooledMemory {
    region: MemoryRegion,
    touched: usize,
    /// Number of bytes lent to the system, which may take them back until they are written.
    lent: usize,
}

impl GrowableBuffer {
    /// Creates an empty buffer without memory.
    pub fn new() -> GrowableBuffer {
        GrowableBuffer { memory: PooledMemory::none(), len: 0 }
    }

    /// Creates an empty buffer with room for `capacity` bytes; large ones use huge pages from the start.
    ///
    /// # Errors
    /// `Io` if the system refuses that many addresses.
    pub fn with_capacity(capacity: usize) -> Result<GrowableBuffer> {
        let mut buffer = GrowableBuffer::new();
        buffer.reserve(capacity)?;
        Ok(buffer)
    }

    /// Creates a buffer of `len` arbitrary bytes, with no room for more.
    ///
    /// # Errors
    /// `Io` if the system refuses that many addresses.
    pub fn with_len(len: usize) -> Result<GrowableBuffer> {
        if len == 0 {
            return Ok(GrowableBuffer::new());
        }
        let mut memory = PooledMemory::take(len, len).map_err(|e| out_of_memory(len, &e))?;
        memory.hold(0..len);
        Ok(GrowableBuffer { memory, len })
    }

    /// Drops the buffer, whose bytes were not all written.
    ///
    /// Pages of unwritten bytes are not counted as touched, so that later buffers don't touch them in order to reuse
    /// them.
    pub fn discard(mut self) {
        self.len = 0;
    }

    /// Makes room for `more` bytes after the last.
    ///
    /// # Errors
    /// `Io` if the system refuses that many addresses.
    #[cold]
    pub fn reserve(&mut self, more: usize) -> Result<&mut GrowableBuffer> {
        let end = self.len.saturating_add(more);
        if end > self.capacity() {
            self.grow(end)?;
        }
        Ok(self)
    }

    /// Returns the number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of bytes that fit before the buffer has to move.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.memory.region.len()
    }

    /// Returns the address of the first byte, a multiple of the page size.
    ///
    /// It changes only if the buffer outgrows its capacity.
    #[inline]
    pub fn address(&self) -> usize {
        self.memory.region.base().as_ptr() as usize
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// `Io` if memory runs out.
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
    /// `Io` if memory runs out.
    #[inline]
    pub fn push<T: Element>(&mut self, value: T) -> Result<()> {
        let mut raw = [0; MAX_WIDTH];
        value.to_bytes(&mut raw[..T::WIDTH]);
        self.extend_from_slice(&raw[..T::WIDTH])
    }

    /// Writes bytes at `offset`, which is inside or at the end. Bytes past the end are appended.
    ///
    /// # Errors
    /// `InvalidArgument` if `offset` is past the end, `Io` if memory runs out.
    #[inline]
    pub fn put(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        if offset > self.len || !self.memory.region.try_write(offset, bytes) {
            self.make_room(offset, bytes.len())?;
            self.write_at(offset, bytes)?;
        }
        self.len = self.len.max(offset + bytes.len());
        Ok(())
    }

    /// Removes all bytes from `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.memory.touched = self.memory.touched.max(self.len);
        self.len = self.len.min(len);
    }

    /// Appends `len` arbitrary bytes, to be overwritten.
    ///
    /// # Errors
    /// `Io` if memory runs out.
    pub fn extend_uninit(&mut self, len: usize) -> Result<&mut [u8]> {
        self.reserve(len)?;
        let start = self.len;
        self.len += len;
        self.memory.hold(start..self.len);
        Ok(&mut self.memory.region.bytes_mut()[start..start + len])
    }

    /// Returns the bytes, mutable.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        let len = self.len;
        &mut self.memory.region.bytes_mut()[..len]
    }

    /// Returns the memory, its start, and the number of bytes in use.
    pub fn into_parts(mut self) -> (Arc<PooledMemory>, NonNull<u8>, usize) {
        let mut memory = std::mem::replace(&mut self.memory, PooledMemory::none());
        memory.touched = memory.touched.max(self.len);
        let base = memory.region.base();
        // The buffer has no memory any more, so its drop must not count any as touched.
        let len = std::mem::take(&mut self.len);
        (Arc::new(memory), base, len)
    }

    /// Writes bytes for which there is room.
    #[cold]
    fn write_at(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        if self.memory.region.try_write(offset, bytes) {
            Ok(())
        } else {
            Err(Error::internal(format_args!("no room for {} bytes at byte {offset} of a buffer", bytes.len())))
        }
    }

    #[cold]
    fn make_room(&mut self, offset: usize, len: usize) -> Result<()> {
        if offset > self.len {
            Err(Error::invalid_argument(format!("byte {offset} of a buffer of {} bytes", self.len)))
        } else {
            self.reserve(len).map(drop)
        }
    }

    fn grow(&mut self, end: usize) -> Result<()> {
        let capacity = self.capacity();
        assert!(self.len <= capacity && capacity < end, "growing a buffer of {capacity} bytes to {end} bytes");
        if capacity == 0 {
            self.memory = PooledMemory::take(end, end.max(max_buffer_len())).map_err(|e| out_of_memory(end, &e))?;
            return Ok(());
        }
        let wanted = end.max(2 * capacity).checked_next_multiple_of(MIN_HUGE_LEN).unwrap_or(usize::MAX);
        self.memory.region.extend(wanted, self.len).map_err(|e| out_of_memory(end, &e))?;
        RESERVED.fetch_add(self.capacity() - capacity, Ordering::Relaxed);
        self.memory.region.prefer_huge_pages(0);
        Ok(())
    }
}

fn out_of_memory(len: usize, e: &io::Error) -> Error {
    Error::io(&format!("taking memory for a buffer of {len} bytes"), e)
}

impl Default for GrowableBuffer {
    fn default() -> GrowableBuffer {
        GrowableBuffer::new()
    }
}

impl Deref for GrowableBuffer {
    type Target = [u8];

    #[inline]
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
        let mut written = 0;
        for slice in slices {
            written += self.write(slice)?;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// ---- the pool of memory that may be used again ----

/// Unused regions with their number of touched bytes.
static POOL: Mutex<Vec<(MemoryRegion, usize)>> = Mutex::new(Vec::new());
/// The maximum number of pooled regions.
const MAX_POOLED: usize = 64;
/// The pool keeps at most this fraction of the machine's memory.
const MAX_POOL_FRACTION: usize = 8;

impl PooledMemory {
    const fn none() -> PooledMemory {
        PooledMemory { region: MemoryRegion::none(), touched: 0, lent: 0 }
    }

    /// Returns memory for `len` bytes, with addresses for `wanted` bytes if the system grants them. Takes the best fit
    /// of the pool, or else new memory.
    fn take(len: usize, wanted: usize) -> io::Result<PooledMemory> {
        if let Some((region, touched)) = reuse(len, wanted) {
            return Ok(PooledMemory { region, touched, lent: touched });
        }
        let fits = RESERVED.load(Ordering::Relaxed).saturating_add(wanted) <= MAX_RESERVED;
        let rounded = if wanted > len { len.checked_next_multiple_of(MIN_HUGE_LEN).unwrap_or(len) } else { len };
        if wanted > len
            && fits
            && let Ok(region) = MemoryRegion::reserved(rounded, wanted)
        {
            // A small buffer takes no huge page.
            region.prefer_huge_pages(if len >= MIN_HUGE_LEN { 0 } else { MIN_HUGE_LEN });
            return Ok(PooledMemory::from_region(region));
        }
        // The system limits addresses, so only those that are needed now are reserved.
        let region = MemoryRegion::reserved(rounded, rounded)?;
        if len >= MIN_HUGE_LEN {
            region.prefer_huge_pages(0);
        }
        Ok(PooledMemory::from_region(region))
    }

    fn from_region(region: MemoryRegion) -> PooledMemory {
        RESERVED.fetch_add(region.len(), Ordering::Relaxed);
        PooledMemory { region, touched: 0, lent: 0 }
    }

    /// Touches unwritten bytes before they are borrowed, so that the system can't take their pages back.
    fn hold(&mut self, range: Range<usize>) {
        if range.start < self.lent {
            self.region.hold(range.start..range.end.min(self.lent));
        }
    }
}

impl Drop for PooledMemory {
    fn drop(&mut self) {
        let region = std::mem::replace(&mut self.region, MemoryRegion::none());
        debug_assert!(self.touched <= region.len(), "{} touched bytes of {}", self.touched, region.len());
        if self.touched > 0 {
            return_to_pool(region, self.touched);
        } else {
            release(region);
        }
    }
}

/// Number of reserved addresses.
static RESERVED: AtomicUsize = AtomicUsize::new(0);
/// Half of the smallest address space of 64-bit systems. Beyond it, buffers are sized exactly.
const MAX_RESERVED: usize = 64 << 40;

fn release(region: MemoryRegion) {
    let before = RESERVED.fetch_sub(region.len(), Ordering::Relaxed);
    debug_assert!(region.len() <= before, "releasing {} of {before} reserved bytes", region.len());
}

/// Returns the least touched memory that has `len` touched bytes, or else the most touched. A buffer that may grow gets
/// the memory that was pooled last, which the system has not taken back yet.
fn reuse(len: usize, wanted: usize) -> Option<(MemoryRegion, usize)> {
    // If another thread holds the lock, or did so when this process was forked, the pool is not used.
    let mut pool = POOL.try_lock().ok()?;
    let mut fitting = (0..pool.len()).filter(|&number| pool[number].0.len() >= wanted);
    let best = if wanted > len {
        fitting.next_back()?
    } else {
        fitting.min_by_key(|&number| {
            let (_, touched) = pool[number];
            (touched < len, touched.abs_diff(len))
        })?
    };
    Some(pool.remove(best))
}

/// Returns memory to the pool. The oldest is released if there is too much.
fn return_to_pool(mut region: MemoryRegion, touched: usize) {
    let Ok(mut pool) = POOL.try_lock() else { return release(region) };
    region.lend(touched);
    pool.push((region, touched));
    let max_touched = physical_memory() / MAX_POOL_FRACTION;
    while pool.len() > MAX_POOLED || pool.iter().map(|(_, touched)| touched).sum::<usize>() > max_touched {
        release(pool.remove(0).0);
    }
}

/// Returns the number of addresses to reserve: as many as the machine has memory, which no buffer can exceed, between 1
/// GiB and 1 TiB.
fn max_buffer_len() -> usize {
    const MIN: usize = 1 << 30;
    const MAX: usize = 1 << 40;
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| physical_memory().clamp(MIN, MAX).next_power_of_two())
}
