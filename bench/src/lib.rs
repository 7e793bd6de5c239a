//! Shared code of the benchmarks, and the limits of the machine that they compare with.
//!
//! This is also a C library, so that Python can call the same code: see [`sum_limit`].

use std::ffi::{CStr, c_char};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use multiversion::multiversion;

pub mod builders;
pub mod paged;
pub mod put_stream;
pub mod table;

/// A mapped file, with as little overhead as possible.
#[derive(Debug)]
pub struct BareMapping {
    base: *mut libc::c_void,
    len: usize,
}

impl BareMapping {
    /// Maps a file with nothing but open, fstat, mmap and close.
    pub fn new(path: &Path) -> BareMapping {
        let file = File::open(path).expect("a file");
        let len = file.metadata().expect("its size").len() as usize;
        // SAFETY: a null hint lets the kernel choose an unused range.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        assert_ne!(base, libc::MAP_FAILED);
        BareMapping { base, len }
    }

    /// Returns the file's bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the range stays mapped until drop, and the benchmark's file is not written meanwhile.
        unsafe { std::slice::from_raw_parts(self.base.cast(), self.len) }
    }

    /// Returns the number of bytes in the page cache, rounded up to whole pages.
    pub fn resident(&self) -> u64 {
        const PAGE: usize = 4096;
        let mut pages = vec![0u8; self.len.div_ceil(PAGE)];
        // SAFETY: the mapping, and a byte for each of its pages.
        let status = unsafe { libc::mincore(self.base, self.len, pages.as_mut_ptr()) };
        assert_eq!(status, 0, "asking which pages are in memory");
        (PAGE * pages.iter().filter(|&&page| page & 1 == 1).count()) as u64
    }
}

impl Drop for BareMapping {
    fn drop(&mut self) {
        // SAFETY: the range of `new`, not used after.
        unsafe { libc::munmap(self.base, self.len) };
    }
}

/// Anonymous memory, mapped with as little overhead as possible.
#[derive(Debug)]
pub struct AnonymousPages {
    base: *mut libc::c_void,
    /// The requested bytes. One huge page more is mapped, for alignment.
    len: usize,
    /// The offset of the first whole huge page.
    skip: usize,
}

const HUGE_PAGE: usize = 2 << 20;

impl AnonymousPages {
    /// Maps `len` bytes without touching them, in huge or in small pages.
    pub fn new(len: usize, huge: bool) -> AnonymousPages {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a null hint lets the kernel choose an unused range.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len + HUGE_PAGE, protection, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED);
        #[cfg(target_os = "linux")]
        {
            let advice = if huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
            // SAFETY: the range just mapped; the advice changes no contents.
            unsafe { libc::madvise(base, len + HUGE_PAGE, advice) };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = huge;
        AnonymousPages { base, len, skip: base.align_offset(HUGE_PAGE) }
    }

    /// Returns the memory as numbers.
    pub fn numbers(&mut self) -> &mut [i64] {
        // SAFETY: `skip` is less than a huge page, which was mapped on top of `len`.
        let start = unsafe { self.base.byte_add(self.skip) };
        // SAFETY: mapped until drop, aligned to a huge page, zeroed by the kernel, borrowed from `self` alone.
        unsafe { std::slice::from_raw_parts_mut(start.cast(), self.len / 8) }
    }

    /// Touches all of the memory.
    pub fn filled(mut self) -> AnonymousPages {
        self.numbers().fill(1);
        self
    }
}

impl Drop for AnonymousPages {
    fn drop(&mut self) {
        // SAFETY: the range of `new`, not used after.
        unsafe { libc::munmap(self.base, self.len + HUGE_PAGE) };
    }
}

/// Returns the processor time of this thread.
pub fn processor_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Sums `count` float64 values from byte `offset` of a file on, through a new mapping.
pub fn bare_sum(path: &Path, offset: usize, count: usize, threads: usize) -> f64 {
    let mapping = BareMapping::new(path);
    add_up_on(threads, &mapping.bytes()[offset..offset + 8 * count])
}

/// Sums float64 values on several threads, which get equal shares.
pub fn add_up_on(threads: usize, bytes: &[u8]) -> f64 {
    if threads <= 1 {
        return add_up(bytes);
    }
    let (first, rest) = bytes.split_at(bytes.len() / 8 / threads * 8);
    std::thread::scope(|scope| {
        let others = scope.spawn(|| add_up_on(threads - 1, rest));
        add_up(first) + others.join().expect("the other shares")
    })
}

#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
fn add_up(bytes: &[u8]) -> f64 {
    let (values, _) = bytes.as_chunks::<8>();
    let (steps, rest) = values.as_chunks::<32>();
    let mut lanes = [0.0; 32];
    for step in steps {
        for (lane, raw) in lanes.iter_mut().zip(step) {
            *lane += f64::from_le_bytes(*raw);
        }
    }
    lanes.iter().sum::<f64>() + rest.iter().map(|raw| f64::from_le_bytes(*raw)).sum::<f64>()
}

/// [`bare_sum`] for C.
///
/// # Safety
/// `path` must be a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sum_limit(path: *const c_char, offset: usize, count: usize, threads: usize) -> f64 {
    // SAFETY: the caller's promise.
    let path = unsafe { CStr::from_ptr(path) };
    let path: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(path.to_bytes());
    bare_sum(Path::new(path), offset, count, threads)
}
