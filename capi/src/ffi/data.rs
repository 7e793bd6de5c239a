//! The data that crosses: values, Arrow's C data interface, memory that one side lends to the other, and functions of the
//! caller's. Part of the fence: see [`super`].
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_buffer::Buffer;
use arrowwood::{Bytes, Dataset, Export, Result, guard};

use super::{Counted, Param, Pointer, check_count, checked};
use crate::error::argument;

// ---- values ----

/// `arrowwood_value`, as it is handed out.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CValue {
    /// What it is.
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

/// `arrowwood_value`, filled by C: one of text or bytes points to as many bytes as `length` says.
#[repr(transparent)]
pub struct CValueIn(CValue);

impl CValueIn {
    /// All but the bytes.
    pub fn plain(&self) -> &CValue {
        &self.0
    }

    /// The bytes of a value of text or bytes.
    pub fn bytes(&self) -> Result<&[u8]> {
        let length = usize::try_from(self.0.length).unwrap_or(usize::MAX);
        let first: *const u8 = std::ptr::with_exposed_provenance(self.0.words[0] as usize);
        if length == 0 {
            return Ok(&[]);
        }
        let first = checked(first, "value.as.bytes")?;
        check_count::<u8>(length, "value.as.bytes")?;
        // SAFETY: as many bytes as the caller says, which stay as they are during the call.
        Ok(unsafe { std::slice::from_raw_parts(first.as_ptr(), length) })
    }
}

// ---- Arrow's C data interface ----

/// `const struct ArrowSchema *`: one that was not released, and stays the caller's.
#[repr(transparent)]
pub struct SchemaIn(*const FFI_ArrowSchema);

impl Pointer for SchemaIn {
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
    type Given<'a> = &'a FFI_ArrowSchema;

    fn given<'a>(&'a self, name: &str) -> Result<&'a FFI_ArrowSchema> {
        let found = checked(self.0, name)?;
        // SAFETY: an ArrowSchema, released or not, has these fields.
        if unsafe { found.cast::<RawSchema>().as_ref() }.release.is_none() {
            return Err(argument(format!("'{name}' was released")));
        }
        // SAFETY: an ArrowSchema that was not released, and stays as it is during the call.
        Ok(unsafe { found.as_ref() })
    }
}

/// `struct ArrowArray *`: one that was not released; the function takes it.
#[repr(transparent)]
pub struct ArrayIn(*mut FFI_ArrowArray);

impl Param for ArrayIn {
    type Given<'a> = ArrayTaken<'a>;

    fn given<'a>(&'a self, name: &str) -> Result<ArrayTaken<'a>> {
        let found = checked(self.0, name)?;
        // SAFETY: an ArrowArray, released or not.
        match unsafe { found.as_ref() }.is_released() {
            true => Err(argument(format!("'{name}' was released"))),
            false => Ok(ArrayTaken(self)),
        }
    }
}

/// An array that can be taken.
pub struct ArrayTaken<'a>(&'a ArrayIn);

impl ArrayTaken<'_> {
    /// The array, of type `schema`, as a dataset.
    pub fn import(self, schema: &FFI_ArrowSchema) -> Result<Dataset> {
        // SAFETY: not NULL, aligned and not released, as `ArrayIn` has checked; the caller's struct is marked released.
        let array = unsafe { FFI_ArrowArray::from_raw(self.0.0) };
        // SAFETY: the header asks for an array of this very schema, which follows the C data interface.
        unsafe { Dataset::import_array(array, schema) }
    }
}

/// `struct ArrowArrayStream *`: one that was not released; the function takes it.
#[repr(transparent)]
pub struct StreamIn(*mut FFI_ArrowArrayStream);

impl Param for StreamIn {
    type Given<'a> = StreamTaken<'a>;

    fn given<'a>(&'a self, name: &str) -> Result<StreamTaken<'a>> {
        let found = checked(self.0, name)?;
        // SAFETY: an ArrowArrayStream, released or not.
        match unsafe { found.as_ref() }.release {
            None => Err(argument(format!("'{name}' was released"))),
            Some(_) => Ok(StreamTaken(self)),
        }
    }
}

/// A stream that can be taken.
pub struct StreamTaken<'a>(&'a StreamIn);

impl StreamTaken<'_> {
    /// All that the stream has, as a dataset.
    pub fn import(self) -> Result<Dataset> {
        // SAFETY: not NULL, aligned and not released, as `StreamIn` has checked; the caller's struct is marked released.
        let stream = unsafe { FFI_ArrowArrayStream::from_raw(self.0.0) };
        Dataset::import_stream(stream)
    }
}

/// `uint32_t`: how arrays are handed out. Whoever asks for structure only bounds each access, as the header says.
#[repr(transparent)]
pub struct Flags(u32);

impl Param for Flags {
    type Given<'a> = Export;

    fn given<'a>(&'a self, name: &str) -> Result<Export> {
        const STRUCTURE_ONLY: u32 = 1;
        const ALIGNED: u32 = 2;
        if self.0 & !(STRUCTURE_ONLY | ALIGNED) != 0 {
            return Err(argument(format!("'{name}' has a flag that this version doesn't know: {:#x}", self.0)));
        }
        let export = Export::new().aligned(self.0 & ALIGNED != 0);
        if self.0 & STRUCTURE_ONLY == 0 {
            return Ok(export);
        }
        // SAFETY: the flag is the caller's promise to bound each access.
        Ok(unsafe { export.structure_only() })
    }
}

// ---- memory ----

/// `const void *` and how many bytes: memory that stays as it is until it is released, or as long as the header asks.
#[repr(transparent)]
pub struct Lent(*const u8);

impl Counted for Lent {
    type Given<'a> = LentBytes;

    fn given<'a>(&'a self, count: usize, name: &str) -> Result<LentBytes> {
        if count == 0 {
            return Ok(LentBytes { first: NonNull::dangling(), count });
        }
        check_count::<u8>(count, name)?;
        Ok(LentBytes { first: checked(self.0, name)?, count })
    }
}

/// Memory of the caller's.
pub struct LentBytes {
    first: NonNull<u8>,
    count: usize,
}

/// `void (*)(void *)`: NULL, or a function that may be called once, by any thread, with the context that follows.
#[repr(transparent)]
pub struct Release(Option<unsafe extern "C" fn(*mut c_void)>);

/// `void *`: what a function of the caller's is called with.
#[repr(transparent)]
pub struct Context(*mut c_void);

macro_rules! as_they_are {
    ($($type:ty),*) => {$(
        impl Param for $type {
            type Given<'a> = &'a $type;

            fn given<'a>(&'a self, _name: &str) -> Result<&'a $type> {
                Ok(self)
            }
        }
    )*};
}

as_they_are!(Release, Context, Progress, Room);

/// Who is told that lent memory is not used any more.
pub struct Lender {
    release: Option<unsafe extern "C" fn(*mut c_void)>,
    context: *mut c_void,
    is_bound: AtomicBool,
}

// SAFETY: the header says that `release` may be called by any thread; nothing else is done with the context.
unsafe impl Send for Lender {}
// SAFETY: as above; it is only called when nobody shares it any more.
unsafe impl Sync for Lender {}

impl Lender {
    /// From now on the lender is told; before, the memory stays the caller's whatever happens.
    pub fn bind(&self) {
        self.is_bound.store(true, Ordering::Release);
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        if let Some(release) = self.release.filter(|_| self.is_bound.load(Ordering::Acquire)) {
            // SAFETY: the header says so, and this happens once.
            unsafe { release(self.context) }
        }
    }
}

impl LentBytes {
    /// The memory as bytes that keep the lender until nobody uses them any more.
    pub fn keep(self, release: &Release, context: &Context) -> (Bytes, Arc<Lender>) {
        let lender = Lender { release: release.0, context: context.0, is_bound: AtomicBool::new(false) };
        let lender = Arc::new(lender);
        // SAFETY: the caller leaves the bytes as they are until they are released, which the lender is told by its drop.
        let buffer = unsafe { Buffer::from_custom_allocation(self.first, self.count, lender.clone()) };
        (Bytes::from(buffer), lender)
    }

    /// Copies the bytes, which may be those of a mapped file, to `room`.
    ///
    /// # Errors
    /// `FileChanged` where they were truncated away.
    pub fn copy_to(self, room: &Room) -> Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let target = checked(room.0, "target")?;
        // SAFETY: the header asks for as much room as there are bytes, and for memory that does not overlap.
        guard(|| unsafe {
            std::ptr::copy_nonoverlapping(self.first.as_ptr(), target.as_ptr(), self.count);
            Ok(())
        })
    }
}

/// `void *`: room for as many bytes as the parameter behind it has.
#[repr(transparent)]
pub struct Room(*mut u8);

/// `void (*)(void *, uint64_t, uint64_t)`: NULL, or a function that may be called during the call, by this thread, with
/// the context that follows.
#[repr(transparent)]
pub struct Progress(Option<unsafe extern "C" fn(*mut c_void, u64, u64)>);

impl Progress {
    /// Tells the caller how much of how much is done.
    pub fn with(&self, context: &Context) -> impl FnMut(u64, u64) {
        let (function, context) = (self.0, context.0);
        move |done, total| {
            if let Some(function) = function {
                // SAFETY: the header says so, and the closure does not outlive the call.
                unsafe { function(context, done, total) }
            }
        }
    }
}
