//! Data at the boundary: values, the Arrow C data interface, memory and callbacks of the caller. Part of the fence: see
//! [`super`].
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_buffer::Buffer;
use arrowwood::{Bytes, Dataset, Error, ErrorKind, ExportOptions, Result, guard};

use super::{AnyBitPattern, ArrayParam, Nullable, Param, check_count, checked};
use crate::error::invalid_argument;

// ---- values ----

/// `arrowwood_value`, as returned.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CValue {
    /// `arrowwood_value_kind`.
    pub kind: i32,
    /// The unit of a time, the scale of a decimal.
    pub unit: i32,
    /// Bytes, items or members.
    pub length: u64,
    /// The union `as`.
    pub words: [u64; 4],
}

// `tests/capi/c/layout.c` has the same numbers.
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<CValue>() == 48 && align_of::<CValue>() == 8);
    assert!(offset_of!(CValue, unit) == 4 && offset_of!(CValue, length) == 8 && offset_of!(CValue, words) == 16);
};

/// The word of text or bytes that is their address.
const BYTES_WORD: usize = 0;
/// The word of a timestamp that is the address of its zone's name; 0 without a zone.
pub const ZONE_WORD: usize = 1;

/// `arrowwood_value`, as passed by C: text and bytes point to `length` bytes.
#[repr(transparent)]
pub struct CValueIn(CValue);

impl CValueIn {
    /// Returns the value without its bytes.
    pub fn raw(&self) -> &CValue {
        &self.0
    }

    /// Returns the bytes of text or bytes. Only inside of a guard, as they may lie in a mapped file.
    pub fn bytes(&self) -> Result<&[u8]> {
        self.bytes_at(BYTES_WORD, "value.as.bytes")
    }

    /// Returns the bytes of a timestamp's zone; `None` if it has no zone.
    pub fn zone(&self) -> Result<Option<&[u8]>> {
        if self.0.words[ZONE_WORD] == 0 {
            return Ok(None);
        }
        self.bytes_at(ZONE_WORD, "value.as.timestamp.zone").map(Some)
    }

    /// Returns the bytes at the address in word `word`, which is the member `name` in C.
    fn bytes_at(&self, word: usize, name: &str) -> Result<&[u8]> {
        let length = usize::try_from(self.0.length).unwrap_or(usize::MAX);
        let first: *const u8 = std::ptr::with_exposed_provenance(self.0.words[word] as usize);
        if length == 0 {
            return Ok(&[]);
        }
        let first = checked(first, name)?;
        check_count::<u8>(length, name)?;
        // SAFETY: `length` bytes by the caller's word, which don't change during the call.
        Ok(unsafe { std::slice::from_raw_parts(first.as_ptr(), length) })
    }
}

// ---- members of structs ----

/// `int32_t`: a member of a struct that has no meaning yet, and is 0.
#[repr(transparent)]
pub struct Reserved(i32);

// SAFETY: a number.
unsafe impl AnyBitPattern for Reserved {}

impl Reserved {
    /// Refuses the member `name` if it has a value, which a later version may give a meaning.
    pub fn check(&self, name: &str) -> Result<()> {
        if self.0 == 0 {
            return Ok(());
        }
        let message = format!(
            "'{name}' is {}, and must be 0 for this version of the library: initialise the struct with its \
             …_INIT macro, or with zeros",
            self.0
        );
        Err(Error::new(ErrorKind::Unsupported, message))
    }
}

// ---- Arrow's C data interface ----

/// `const struct ArrowSchema *`: one that is not released, and remains the caller's.
#[repr(transparent)]
pub struct SchemaIn(*const FFI_ArrowSchema);

impl Nullable for SchemaIn {
    fn is_null(&self) -> bool {
        self.0.is_null()
    }
}

/// The fields of an ArrowSchema (Arrow C Data Interface, *The ArrowSchema structure*).
#[repr(C)]
struct RawSchema {
    _before: [usize; 7],
    release: Option<unsafe extern "C" fn(*mut FFI_ArrowSchema)>,
    _private_data: *mut c_void,
}

impl Param for SchemaIn {
    type RustType<'a> = &'a FFI_ArrowSchema;

    fn to_rust<'a>(&'a self, name: &str) -> Result<&'a FFI_ArrowSchema> {
        let pointer = checked(self.0, name)?;
        // SAFETY: an ArrowSchema, released or not, has these fields.
        if unsafe { pointer.cast::<RawSchema>().as_ref() }.release.is_none() {
            return Err(invalid_argument(format!("'{name}' was released")));
        }
        // SAFETY: an ArrowSchema that is not released and doesn't change during the call.
        Ok(unsafe { pointer.as_ref() })
    }
}

/// `struct ArrowArray *`: one that is not released, to be moved.
#[repr(transparent)]
pub struct ArrayIn(*mut FFI_ArrowArray);

impl Param for ArrayIn {
    type RustType<'a> = ArrayImport<'a>;

    fn to_rust<'a>(&'a self, name: &str) -> Result<ArrayImport<'a>> {
        let pointer = checked(self.0, name)?;
        // SAFETY: an ArrowArray, released or not.
        if unsafe { pointer.as_ref() }.is_released() {
            return Err(invalid_argument(format!("'{name}' was released")));
        }
        Ok(ArrayImport(self))
    }
}

/// An array to be moved.
pub struct ArrayImport<'a>(&'a ArrayIn);

impl ArrayImport<'_> {
    /// Imports the array, of type `schema`, as a dataset. Its buffers may lie in a mapped file.
    pub fn import(self, schema: &FFI_ArrowSchema) -> Result<Dataset> {
        // SAFETY: not NULL and aligned, as `ArrayIn` has checked; the caller's struct is marked released.
        let array = unsafe { FFI_ArrowArray::from_raw(self.0.0) };
        if array.is_released() {
            return Err(invalid_argument("the array was released"));
        }
        // SAFETY: the header requires an array of this schema that follows the C data interface.
        guard(|| unsafe { Dataset::import_array(array, schema) })
    }
}

/// `struct ArrowArrayStream *`: one that is not released, to be moved.
#[repr(transparent)]
pub struct StreamIn(*mut FFI_ArrowArrayStream);

impl Param for StreamIn {
    type RustType<'a> = StreamImport<'a>;

    fn to_rust<'a>(&'a self, name: &str) -> Result<StreamImport<'a>> {
        let pointer = checked(self.0, name)?;
        // SAFETY: an ArrowArrayStream, released or not.
        match unsafe { pointer.as_ref() }.release {
            None => Err(invalid_argument(format!("'{name}' was released"))),
            Some(_) => Ok(StreamImport(self)),
        }
    }
}

/// A stream to be moved.
pub struct StreamImport<'a>(&'a StreamIn);

impl StreamImport<'_> {
    /// Reads the whole stream as a dataset. Its buffers may lie in a mapped file.
    pub fn import(self) -> Result<Dataset> {
        // SAFETY: not NULL, aligned and not released, as `StreamIn` has checked; the caller's struct is marked
        // released.
        let stream = unsafe { FFI_ArrowArrayStream::from_raw(self.0.0) };
        // SAFETY: the caller of the library gives a stream that follows the C stream interface.
        guard(|| unsafe { Dataset::import_stream(stream) })
    }
}

/// `uint32_t`: `arrowwood_flags`. By passing STRUCTURE_ONLY, C promises to bound each access.
#[repr(transparent)]
pub struct ExportFlags(u32);

impl Param for ExportFlags {
    type RustType<'a> = ExportOptions;

    fn to_rust(&self, name: &str) -> Result<ExportOptions> {
        const STRUCTURE_ONLY: u32 = 1;
        const ALIGNED: u32 = 2;
        if self.0 & !(STRUCTURE_ONLY | ALIGNED) != 0 {
            return Err(invalid_argument(format!("'{name}' has a flag that this version doesn't know: {:#x}", self.0)));
        }
        let export = ExportOptions::new().aligned(self.0 & ALIGNED != 0);
        if self.0 & STRUCTURE_ONLY == 0 {
            return Ok(export);
        }
        // SAFETY: the flag is the caller's promise to bound each access.
        Ok(unsafe { export.structure_only() })
    }
}

// ---- memory ----

/// `const void *` and `size_t`: memory that doesn't change until it is released, or for as long as the header requires.
#[repr(transparent)]
pub struct BytesIn(*const u8);

impl ArrayParam for BytesIn {
    type RustType<'a> = ForeignBytes;

    unsafe fn to_rust(&self, count: usize, name: &str) -> Result<ForeignBytes> {
        if count == 0 {
            return Ok(ForeignBytes { first: NonNull::dangling(), count });
        }
        check_count::<u8>(count, name)?;
        Ok(ForeignBytes { first: checked(self.0, name)?, count })
    }
}

/// Memory of the caller.
pub struct ForeignBytes {
    first: NonNull<u8>,
    count: usize,
}

/// `void (*)(void *)`: NULL, or a callback to run once, on any thread, with the context that follows.
#[repr(transparent)]
pub struct Release(Option<unsafe extern "C" fn(*mut c_void)>);

/// `void *`: the first argument of a callback.
#[repr(transparent)]
pub struct Context(*mut c_void);

as_given!(<> Release, <> Context, <> Progress, <> BytesOut);

/// Tells the caller, by its callback, that memory which it lent is no longer used: when the last reference to the guard
/// is dropped. Until [`ReleaseGuard::arm`] is called, dropping it does nothing, as the memory is still the caller's.
pub struct ReleaseGuard {
    release: Option<unsafe extern "C" fn(*mut c_void)>,
    context: *mut c_void,
    is_armed: AtomicBool,
}

// SAFETY: the header allows `release` on any thread; nothing else is done with the context.
unsafe impl Send for ReleaseGuard {}
// SAFETY: as above; it runs when the last reference is dropped.
unsafe impl Sync for ReleaseGuard {}

impl ReleaseGuard {
    /// Arms the callback: from now on the library has the memory, and gives it back.
    pub fn arm(&self) {
        self.is_armed.store(true, Ordering::Release);
    }
}

impl Drop for ReleaseGuard {
    fn drop(&mut self) {
        if let Some(release) = self.release.filter(|_| self.is_armed.load(Ordering::Acquire)) {
            // SAFETY: a callback of the caller, with its context, which runs this once.
            unsafe { release(self.context) }
        }
    }
}

impl ForeignBytes {
    /// Converts the memory to bytes, which keep the lender while they are used.
    pub fn into_bytes(self, release: &Release, context: &Context) -> (Bytes, Arc<ReleaseGuard>) {
        let lender = ReleaseGuard { release: release.0, context: context.0, is_armed: AtomicBool::new(false) };
        let lender = Arc::new(lender);
        // SAFETY: the bytes don't change until they are released, which dropping the lender does.
        let buffer = unsafe { Buffer::from_custom_allocation(self.first, self.count, lender.clone()) };
        (Bytes::from(buffer), lender)
    }

    /// Copies the bytes, which may lie in a mapped file, to `room`.
    ///
    /// # Errors
    /// `FileChanged` if they were truncated.
    pub fn copy_to(self, room: &BytesOut) -> Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let target = checked(room.0, "target")?;
        // SAFETY: the header requires a place for as many bytes, which doesn't overlap with them.
        guard(|| unsafe {
            std::ptr::copy_nonoverlapping(self.first.as_ptr(), target.as_ptr(), self.count);
            Ok(())
        })
    }
}

/// `void *`: a place for as many bytes as the next parameter says.
#[repr(transparent)]
pub struct BytesOut(*mut u8);

/// `void (*)(void *, uint64_t, uint64_t)`: NULL, or a callback to run during the call, on this thread, with the context
/// that follows.
#[repr(transparent)]
pub struct Progress(Option<unsafe extern "C" fn(*mut c_void, u64, u64)>);

impl Progress {
    /// Returns a closure that reports progress to the caller.
    pub fn with(&self, context: &Context) -> impl FnMut(u64, u64) {
        let function = self.0;
        let context = context.0;
        move |done, total| {
            if let Some(function) = function {
                // SAFETY: a callback of the caller, with its context; the closure doesn't outlive the call.
                unsafe { function(context, done, total) }
            }
        }
    }
}
