//! What the system tells about the machine and its memory.
#![allow(unsafe_code)]

use std::{fs, io};

use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleW, GetProcAddress};
use windows_sys::core::{s, w};

use super::memory::memory_status;

/// An id that no writer has, as none runs here: each commit is of another machine, or of another boot.
const READERS_BOOT: &str = "6172726f-7777-6f6f-6420-726561646572";

/// Returns the id of the machine's boot as text.
///
/// Where Windows is wine on Linux, it is the boot of that Linux, whose page cache this process shares.
///
/// # Errors
/// The errors of reading it.
pub fn boot_id_text() -> io::Result<Option<String>> {
    if !is_wine() {
        return Ok(Some(READERS_BOOT.to_owned()));
    }
    let text = fs::read_to_string(r"\\?\unix\proc\sys\kernel\random\boot_id")?;
    Ok(Some(text.trim_end().to_owned()))
}

/// Returns true if this is wine, which has functions of its own.
fn is_wine() -> bool {
    // SAFETY: the name ends in zero. The module is part of every process.
    let module = unsafe { GetModuleHandleW(w!("ntdll.dll")) };
    // SAFETY: as above; the function is only looked for.
    unsafe { GetProcAddress(module, s!("wine_get_version")) }.is_some()
}

/// Returns the memory of the machine in bytes; `None` if the system doesn't tell.
pub fn total_memory() -> Option<u64> {
    memory_status().map(|status| status.ullTotalPhys)
}

/// Returns the bytes of memory that this process may still take; `None` if the system doesn't tell.
pub fn free_memory() -> Option<u64> {
    memory_status().map(|status| status.ullAvailPhys.min(status.ullAvailPageFile))
}
