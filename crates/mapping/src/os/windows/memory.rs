//! Mapped memory.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr::{NonNull, null};

use windows_sys::Win32::System::Memory::{
    CreateFileMappingW, FILE_MAP_COPY, FILE_MAP_READ, FILE_MAP_WRITE, FlushViewOfFile, MEM_COMMIT, MEM_MAPPED,
    MEM_RELEASE, MEM_RESERVE, MEMORY_BASIC_INFORMATION, MEMORY_MAPPED_VIEW_ADDRESS, MapViewOfFile, PAGE_NOACCESS,
    PAGE_READONLY, PAGE_READWRITE, PAGE_WRITECOPY, UnmapViewOfFile, VirtualAlloc, VirtualFree, VirtualQuery,
};
use windows_sys::Win32::System::ProcessStatus::{K32QueryWorkingSetEx, PSAPI_WORKING_SET_EX_INFORMATION};
use windows_sys::Win32::System::SystemInformation::{GetSystemInfo, GlobalMemoryStatusEx, MEMORYSTATUSEX, SYSTEM_INFO};
use windows_sys::Win32::System::Threading::GetCurrentProcess;

use super::errors::check;
use crate::mode::Mode;

/// The size of a page.
pub(crate) const DEFAULT_PAGE_SIZE: usize = 4096;
/// The number of pages that the system is asked about at once.
const ASKED_PAGES: usize = 1024;

/// Maps the first `len` bytes of `file`, which must be more than none. Returns the first address.
pub(crate) fn map_file(file: &File, len: usize, mode: Mode) -> io::Result<NonNull<u8>> {
    let (protection, access) = match mode {
        Mode::Read => (PAGE_READONLY, FILE_MAP_READ),
        Mode::ReadWrite => (PAGE_READWRITE, FILE_MAP_READ | FILE_MAP_WRITE),
        Mode::CopyOnWrite => (PAGE_WRITECOPY, FILE_MAP_COPY),
    };
    // SAFETY: the handle is open as long as `file` is borrowed; the object has no name, and the length of the file.
    let object = unsafe { CreateFileMappingW(file.as_raw_handle(), null(), protection, 0, 0, null()) };
    if object.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has opened the handle for us. It is closed at the end: the view keeps the object.
    let object = unsafe { OwnedHandle::from_raw_handle(object) };
    // SAFETY: the system chooses unused addresses, so no existing object is affected.
    let view = unsafe { MapViewOfFile(object.as_raw_handle(), access, 0, 0, len) };
    NonNull::new(view.Value.cast()).ok_or_else(io::Error::last_os_error)
}

/// Allocates `len` zeroed bytes, more than none. Returns the first address.
pub(crate) fn map_memory(len: usize) -> io::Result<NonNull<u8>> {
    allocate(len, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE)
}

/// Takes `len` addresses, more than none, which can't be touched. Returns the first.
pub(crate) fn map_nothing(len: usize) -> io::Result<NonNull<u8>> {
    allocate(len, MEM_RESERVE, PAGE_NOACCESS)
}

/// Takes addresses for `len` bytes, more than none, which [`commit_memory`] makes memory. Returns the first.
pub(crate) fn reserve_memory(len: usize) -> io::Result<NonNull<u8>> {
    allocate(len, MEM_RESERVE, PAGE_READWRITE)
}

fn allocate(len: usize, kind: u32, protection: u32) -> io::Result<NonNull<u8>> {
    // SAFETY: the system chooses unused addresses, so no existing object is affected.
    let base = unsafe { VirtualAlloc(null(), len, kind, protection) };
    NonNull::new(base.cast()).ok_or_else(io::Error::last_os_error)
}

/// Does nothing: the first bytes of an allocation can't be given back alone.
///
/// # Safety
/// None is needed.
pub(crate) unsafe fn trim(_start: NonNull<u8>, _len: usize) {}

/// Makes memory of the first `len` of the reserved bytes from `start` on. Returns how many can be touched then: `len`.
///
/// # Safety
/// They must be the caller's own.
pub(crate) unsafe fn commit_memory(start: NonNull<u8>, _reserved: usize, len: usize) -> io::Result<usize> {
    // SAFETY: the caller's promise. Bytes that are memory already stay as they are.
    let base = unsafe { VirtualAlloc(start.as_ptr().cast(), len, MEM_COMMIT, PAGE_READWRITE) };
    if base.is_null() { Err(io::Error::last_os_error()) } else { Ok(len) }
}

/// Extends memory from [`reserve_memory`] to `new_len` bytes where it is. Fails if fewer were reserved.
///
/// # Safety
/// The bytes from `start` on must be the caller's own.
pub unsafe fn move_memory(start: NonNull<u8>, len: usize, new_len: usize) -> io::Result<NonNull<u8>> {
    let first = query(start.as_ptr() as usize)?;
    let next = query(start.as_ptr() as usize + len)?;
    let reserved = len.saturating_add(next.RegionSize);
    // The pages after the last committed one are one region of the same reservation.
    if first.AllocationBase != next.AllocationBase || next.State != MEM_RESERVE || reserved < new_len {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: the caller's promise, and inside of the reservation, as was checked above.
    unsafe { commit_memory(start, reserved, new_len) }?;
    Ok(start)
}

/// Returns what is at an address.
pub(super) fn query(address: usize) -> io::Result<MEMORY_BASIC_INFORMATION> {
    let mut found = MaybeUninit::<MEMORY_BASIC_INFORMATION>::uninit();
    let size = size_of::<MEMORY_BASIC_INFORMATION>();
    // SAFETY: touches nothing at the address; there is room for the one structure that the call writes.
    if unsafe { VirtualQuery(address as *const _, found.as_mut_ptr(), size) } == 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded, so it has filled the structure.
    Ok(unsafe { found.assume_init() })
}

/// Unmaps the view of a file, or releases the allocation, that has the byte at `start`.
///
/// # Safety
/// It must be the caller's own, and not be used any more.
pub(crate) unsafe fn unmap(start: NonNull<u8>, _len: usize) {
    // What is not known stays mapped.
    let Ok(found) = query(start.as_ptr() as usize) else { return };
    if found.Type == MEM_MAPPED {
        // SAFETY: the caller's promise.
        unsafe { UnmapViewOfFile(MEMORY_MAPPED_VIEW_ADDRESS { Value: found.AllocationBase }) };
    } else {
        // SAFETY: as above.
        unsafe { VirtualFree(found.AllocationBase, 0, MEM_RELEASE) };
    }
}

/// Stores for each page of `len` bytes, from the start of a page on, whether this process can touch it without waiting:
/// in the lowest bit of a byte of `flags`. Fails if something is not mapped.
pub(crate) fn resident_pages(start: NonNull<u8>, len: usize, flags: &mut [u8]) -> io::Result<()> {
    let page = page_size();
    let count = len.div_ceil(page);
    assert!(flags.len() >= count, "{} flags for {len} bytes", flags.len());
    for (number, flags) in flags[..count].chunks_mut(ASKED_PAGES).enumerate() {
        let first = start.as_ptr() as usize + number * ASKED_PAGES * page;
        let mut asked: Vec<PSAPI_WORKING_SET_EX_INFORMATION> = (0..flags.len())
            .map(|index| PSAPI_WORKING_SET_EX_INFORMATION {
                VirtualAddress: (first + index * page) as *mut _,
                // SAFETY: a union of numbers.
                VirtualAttributes: unsafe { zeroed() },
            })
            .collect();
        let size = size_of_val(asked.as_slice()) as u32;
        // SAFETY: takes no argument.
        let process = unsafe { GetCurrentProcess() };
        // SAFETY: the call reads and writes the `size` bytes of the structures, which live through it.
        check(unsafe { K32QueryWorkingSetEx(process, asked.as_mut_ptr().cast(), size) })?;
        for (flag, asked) in flags.iter_mut().zip(&asked) {
            // SAFETY: the call has stored the number.
            *flag = unsafe { asked.VirtualAttributes.Flags } as u8 & 1;
        }
    }
    Ok(())
}

/// Writes changed pages of a mapped file back to it. The bytes are `len`, from the start of a page on. The disk may not
/// have them yet.
pub(crate) fn flush_pages(start: NonNull<u8>, len: usize) -> io::Result<()> {
    // SAFETY: changes no byte in memory; fails if something is not mapped.
    check(unsafe { FlushViewOfFile(start.as_ptr().cast(), len) })
}

/// Returns what the system tells about memory; `None` if it doesn't.
pub(super) fn memory_status() -> Option<MEMORYSTATUSEX> {
    // SAFETY: a structure of numbers.
    let mut status: MEMORYSTATUSEX = unsafe { zeroed() };
    status.dwLength = size_of::<MEMORYSTATUSEX>() as u32;
    // SAFETY: the structure has as many bytes as it says.
    let told = unsafe { GlobalMemoryStatusEx(&raw mut status) };
    (told != 0).then_some(status)
}

/// Returns the size of the machine's memory in bytes; 0 if the system doesn't tell.
pub(crate) fn physical_memory() -> usize {
    memory_status().map_or(0, |status| usize::try_from(status.ullTotalPhys).unwrap_or(usize::MAX))
}

/// Returns the size of a page in bytes.
pub(crate) fn page_size() -> usize {
    system_info().dwPageSize as usize
}

/// Returns the number of bytes at multiples of which mappings begin, in memory and in a file: several pages.
pub(crate) fn granularity() -> usize {
    system_info().dwAllocationGranularity as usize
}

fn system_info() -> SYSTEM_INFO {
    let mut info = MaybeUninit::<SYSTEM_INFO>::uninit();
    // SAFETY: there is room for the one structure that the call writes.
    unsafe { GetSystemInfo(info.as_mut_ptr()) };
    // SAFETY: the call can't fail, so it has filled the structure.
    unsafe { info.assume_init() }
}
