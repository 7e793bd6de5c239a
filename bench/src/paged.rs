//! Memory in pages, as QuestDB had it until 2020, and in one piece, as it has had it since: what it takes to get a
//! value out of either and into it. Written anew from what these classes do; its page of 1 MiB is the one of their
//! benchmarks.
//!
//! ```text
//! paged   offset ─▶ inside the hot page? ─ yes ─▶ load
//!                                        ─ no ──▶ page = offset >> 20, hot from now on; a value across two by bytes
//! whole   offset ─▶ before the end? ─────────────▶ load
//! ```
//! Both check each access and nothing else, as Java does with `Unsafe`.

use std::cell::Cell;

/// A number as it lies in memory.
pub trait Number: Copy {
    /// Its bytes.
    const WIDTH: usize = size_of::<Self>();
    /// The number of these bytes, of which there are `WIDTH`.
    fn from_bytes(bytes: &[u8]) -> Self;
    /// Each of its bytes in order.
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

/// Memory that values are put behind each other into, and got out of at any offset.
pub trait Memory {
    /// The value that begins at byte `offset`.
    fn get<T: Number>(&self, offset: usize) -> T;
    /// Appends a value.
    fn put<T: Number>(&mut self, value: T);
    /// Goes on appending at the start.
    fn rewind(&mut self);
    /// Where the next value goes.
    fn end(&self) -> usize;

    /// Appends a string, its length first and characters of 16 bits, and says where it is.
    fn put_str(&mut self, text: &str) -> usize {
        let offset = self.end();
        self.put(text.len() as i32);
        for byte in text.bytes() {
            self.put(u16::from(byte));
        }
        offset
    }

    /// The sum of the characters of the string at `offset`.
    fn add_up_str(&self, offset: usize) -> i64 {
        let len = self.get::<i32>(offset) as usize;
        (0..len).map(|i| i64::from(self.get::<u16>(offset + 4 + 2 * i))).sum()
    }
}

/// The size of a page, a power of two.
pub const PAGE: usize = 1 << BITS;
const BITS: usize = 20;

/// A list of pages.
#[derive(Debug)]
pub struct PagedMemory {
    pages: Vec<*mut u8>,
    /// Where the page that was read last begins and ends, and what to add to an offset to get its address.
    hot: Cell<(usize, usize)>,
    hot_base: Cell<*const u8>,
    /// Where the next value goes, the end of its page, and that page's number.
    at: *mut u8,
    page_end: *mut u8,
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
    /// No pages yet.
    pub fn new() -> PagedMemory {
        PagedMemory {
            pages: Vec::new(),
            hot: Cell::new((1, 0)),
            hot_base: Cell::new(std::ptr::null()),
            at: std::ptr::null_mut(),
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
        (self.page, self.at) = (page, self.pages[page]);
        // SAFETY: a page has as many bytes.
        self.page_end = unsafe { self.at.add(PAGE) };
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
            if self.at == self.page_end {
                self.turn_to(self.page.wrapping_add(1));
            }
            // SAFETY: before the end of the page.
            unsafe { self.at.write(byte) };
            self.at = self.at.wrapping_add(1);
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
        if self.page_end.addr() - self.at.addr() < T::WIDTH {
            return self.put_far(value);
        }
        // SAFETY: so many bytes are left in the page.
        unsafe { self.at.cast::<T>().write_unaligned(value) };
        self.at = self.at.wrapping_add(T::WIDTH);
    }

    fn rewind(&mut self) {
        self.turn_to(0);
    }

    fn end(&self) -> usize {
        match self.pages.get(self.page) {
            Some(page) => (self.page << BITS) + self.at.addr() - page.addr(),
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

/// One piece, which is made larger by copying.
#[derive(Debug, Default)]
pub struct ContiguousMemory {
    bytes: Vec<u8>,
    end: usize,
}

impl Memory for ContiguousMemory {
    #[inline]
    fn get<T: Number>(&self, offset: usize) -> T {
        assert!(offset + T::WIDTH <= self.bytes.len());
        // SAFETY: inside, as was just found.
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

    /// The twin has to be right where pages meet, or the figures of long columns mean nothing.
    #[test]
    fn values_across_pages_come_back() {
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
    fn strings_are_the_same_in_both() {
        let (mut paged, mut whole) = (PagedMemory::new(), ContiguousMemory::default());
        paged.rewind();
        whole.rewind();
        for i in 0..200_000usize {
            let text = &"abcdefghijk"[..i % 11];
            let (a, b) = (paged.put_str(text), whole.put_str(text));
            assert_eq!((a, paged.add_up_str(a)), (b, whole.add_up_str(b)), "{i}");
            assert_eq!(paged.add_up_str(a), text.bytes().map(i64::from).sum::<i64>());
        }
    }
}
