//! Paged memory, as QuestDB had it until 2020, and contiguous memory, as it has had it since.
//!
//! This is a reimplementation of what its classes do, with the pages of 1 MiB of its benchmarks.
//!
//! ```text
//! paged       offset ─▶ inside the hot page? ─ yes ─▶ load
//!                                            ─ no ──▶ page = offset >> 20, which becomes hot; a value across two by bytes
//! contiguous  offset ─▶ before the end? ─────────────▶ load
//! ```
//! Both check each access and nothing else, as Java does with `Unsafe`.

use std::cell::Cell;

/// A number of fixed width.
pub trait Number: Copy {
    /// The number of bytes.
    const WIDTH: usize = size_of::<Self>();
    /// Converts `WIDTH` bytes to a number.
    fn from_bytes(bytes: &[u8]) -> Self;
    /// Calls `put` with each byte in order.
    fn each_byte(self, put: impl FnMut(u8));
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Number for $type {
            fn from_bytes(bytes: &[u8]) -> $type {
                <$type>::from_le_bytes(bytes.try_into().expect("as many bytes"))
            }
            fn each_byte(self, put: impl FnMut(u8)) {
                self.to_le_bytes().into_iter().for_each(put);
            }
        }
    )*};
}

numbers! { u8 u16 i32 i64 }

/// Memory to which values are appended, and from which they are read at any offset.
pub trait Memory {
    /// Returns the value at `offset`.
    fn get<T: Number>(&self, offset: usize) -> T;
    /// Appends a value.
    fn put<T: Number>(&mut self, value: T);
    /// Continues appending at the start.
    fn rewind(&mut self);
    /// Returns the offset of the next value.
    fn end(&self) -> usize;

    /// Appends a string as its length and characters of 16 bits; returns its offset.
    fn put_str(&mut self, text: &str) -> usize {
        let offset = self.end();
        self.put(text.len() as i32);
        for byte in text.bytes() {
            self.put(u16::from(byte));
        }
        offset
    }

    /// Returns the sum of the characters of the string at `offset`.
    fn add_up_str(&self, offset: usize) -> i64 {
        let len = self.get::<i32>(offset) as usize;
        (0..len).map(|i| i64::from(self.get::<u16>(offset + 4 + 2 * i))).sum()
    }
}

/// The size of a page, a power of two.
pub const PAGE: usize = 1 << BITS;
const BITS: usize = 20;

/// Memory in a list of pages.
#[derive(Debug)]
pub struct PagedMemory {
    pages: Vec<*mut u8>,
    /// The offsets at which the page that was read last begins and ends.
    hot: Cell<(usize, usize)>,
    /// The address of offset 0, if all pages were contiguous with the hot one.
    hot_base: Cell<*const u8>,
    /// The address of the next value.
    next: *mut u8,
    /// The end of the page of the next value.
    page_end: *mut u8,
    /// The number of this page.
    page: usize,
}

const LAYOUT: std::alloc::Layout = match std::alloc::Layout::from_size_align(PAGE, 4096) {
    Ok(layout) => layout,
    Err(_) => unreachable!(),
};

impl Default for PagedMemory {
    fn default() -> PagedMemory {
        PagedMemory::new()
    }
}

impl PagedMemory {
    /// Creates memory without pages. Call [`Memory::rewind`] before the first append.
    pub fn new() -> PagedMemory {
        PagedMemory {
            pages: Vec::new(),
            hot: Cell::new((1, 0)),
            hot_base: Cell::new(std::ptr::null()),
            next: std::ptr::null_mut(),
            page_end: std::ptr::null_mut(),
            page: usize::MAX,
        }
    }

    fn turn_to(&mut self, page: usize) {
        while self.pages.len() <= page {
            // SAFETY: the layout is not empty.
            let memory = unsafe { std::alloc::alloc_zeroed(LAYOUT) };
            assert!(!memory.is_null(), "no memory for a page");
            self.pages.push(memory);
        }
        (self.page, self.next) = (page, self.pages[page]);
        // SAFETY: a page has as many bytes.
        self.page_end = unsafe { self.next.add(PAGE) };
    }

    #[cold]
    fn get_far<T: Number>(&self, offset: usize) -> T {
        let (page, inside) = (offset >> BITS, offset & (PAGE - 1));
        if PAGE - inside >= T::WIDTH {
            let base = self.pages[page].cast_const();
            self.hot.set((page << BITS, (page + 1) << BITS));
            self.hot_base.set(base.wrapping_sub(page << BITS));
            // SAFETY: `inside + WIDTH` bytes are in the page, whose bytes are all initialised.
            return unsafe { base.add(inside).cast::<T>().read_unaligned() };
        }
        let byte = |i: usize| {
            let offset = offset + i;
            // SAFETY: less than PAGE is inside of a page.
            unsafe { self.pages[offset >> BITS].add(offset & (PAGE - 1)).read() }
        };
        let bytes: [u8; 8] = std::array::from_fn(|i| if i < T::WIDTH { byte(i) } else { 0 });
        T::from_bytes(&bytes[..T::WIDTH])
    }

    #[cold]
    fn put_far<T: Number>(&mut self, value: T) {
        value.each_byte(|byte| {
            if self.next == self.page_end {
                self.turn_to(self.page.wrapping_add(1));
            }
            // SAFETY: before the end of the page.
            unsafe { self.next.write(byte) };
            self.next = self.next.wrapping_add(1);
        });
    }
}

impl Memory for PagedMemory {
    #[inline]
    fn get<T: Number>(&self, offset: usize) -> T {
        let (low, high) = self.hot.get();
        if low <= offset && offset + T::WIDTH <= high {
            let place = self.hot_base.get().wrapping_add(offset);
            // SAFETY: the hot page has bytes `low .. high`.
            return unsafe { place.cast::<T>().read_unaligned() };
        }
        self.get_far(offset)
    }

    #[inline]
    fn put<T: Number>(&mut self, value: T) {
        if self.page_end.addr() - self.next.addr() < T::WIDTH {
            return self.put_far(value);
        }
        // SAFETY: so many bytes are left in the page.
        unsafe { self.next.cast::<T>().write_unaligned(value) };
        self.next = self.next.wrapping_add(T::WIDTH);
    }

    fn rewind(&mut self) {
        self.turn_to(0);
    }

    fn end(&self) -> usize {
        match self.pages.get(self.page) {
            Some(page) => (self.page << BITS) + self.next.addr() - page.addr(),
            None => 0,
        }
    }
}

impl Drop for PagedMemory {
    fn drop(&mut self) {
        for page in &self.pages {
            // SAFETY: from `alloc_zeroed` with this layout, not used after.
            unsafe { std::alloc::dealloc(*page, LAYOUT) };
        }
    }
}

/// Memory in one piece, which grows by copying.
#[derive(Debug, Default)]
pub struct ContiguousMemory {
    bytes: Vec<u8>,
    end: usize,
}

impl Memory for ContiguousMemory {
    #[inline]
    fn get<T: Number>(&self, offset: usize) -> T {
        assert!(offset + T::WIDTH <= self.bytes.len());
        // SAFETY: the assertion above.
        unsafe { self.bytes.as_ptr().add(offset).cast::<T>().read_unaligned() }
    }

    #[inline]
    fn put<T: Number>(&mut self, value: T) {
        if self.bytes.len() - self.end < T::WIDTH {
            self.bytes.resize(2 * self.bytes.len() + PAGE, 0);
        }
        // SAFETY: so many bytes are left.
        unsafe { self.bytes.as_mut_ptr().add(self.end).cast::<T>().write_unaligned(value) };
        self.end += T::WIDTH;
    }

    fn rewind(&mut self) {
        self.end = 0;
    }

    fn end(&self) -> usize {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paged_memory_reads_values_across_pages() {
        for lead in 0..9 {
            let mut memory = PagedMemory::new();
            memory.rewind();
            (0..lead).for_each(|_| memory.put(7u8));
            let count = 3 * PAGE / 8;
            (0..count).for_each(|i| memory.put(i as i64 * 0x0102_0304_0507));
            assert_eq!(memory.end(), lead + 8 * count);
            for i in (0..count).chain([0, count - 1, PAGE / 8 - 1, PAGE / 8]) {
                assert_eq!(memory.get::<i64>(lead + 8 * i), i as i64 * 0x0102_0304_0507, "{lead} {i}");
            }
        }
    }

    #[test]
    fn paged_and_contiguous_memory_store_equal_strings() {
        let (mut paged, mut contiguous) = (PagedMemory::new(), ContiguousMemory::default());
        paged.rewind();
        contiguous.rewind();
        for i in 0..200_000usize {
            let text = &"abcdefghijk"[..i % 11];
            let offset = paged.put_str(text);
            assert_eq!(offset, contiguous.put_str(text), "{i}");
            assert_eq!(paged.add_up_str(offset), contiguous.add_up_str(offset), "{i}");
            assert_eq!(paged.add_up_str(offset), text.bytes().map(i64::from).sum::<i64>());
        }
    }
}
