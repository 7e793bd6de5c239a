//! The boundary to C. **The fence**: this file and `data.rs` hold all unsafe code of the C library.
//!
//! [`export!`] declares functions with parameters of the types below, which C passes as plain numbers and pointers.
//! Each type documents what its pointer must be; `arrowwood.h` requires the same of callers. Only C creates values of
//! these types: their fields are private, and nothing here creates one from anything else. The Rust form that a
//! parameter [gives](Param) is valid until the call returns, so all code outside the fence is safe.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr::NonNull;

use arrowwood::mapping::os::path_from_bytes;
use arrowwood::{Error, ErrorKind, Result};

use crate::error::{code, error_code, invalid_argument};
use crate::translation::translate_message;
pub use data::*;

// ---- functions ----

/// Exports functions to C. The caller's `arrowwood_error *` follows the parameters; the result is 0 or an error code.
///
/// `name: Type` declares a parameter, `name[count]: Type` a pointer and its element count. In the body each is what its
/// type [gives](Param); invalid parameters are refused before the body runs.
macro_rules! export {
    ($($(#[$doc:meta])* fn $name:ident($($param:ident $([$count:ident])?: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The arguments must be what `arrowwood.h` says.
        #[allow(unsafe_code)]
        // SAFETY: no other library defines names that begin with this library's name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($param: $type, $($count: usize,)?)*
            error: $crate::ffi::ErrorOut,
        ) -> i32 {
            $crate::ffi::run(error, || {
                $(let $param = given!($name, $param $(, $count)?);)*
                $body
            })
        }
    )*};
}

macro_rules! given {
    ($function:ident, $param:ident) => {
        $crate::ffi::Param::to_rust(&$param, stringify!($param)).map_err(|e| e.context(stringify!($function)))?
    };
    ($function:ident, $param:ident, $count:ident) => {
        // SAFETY: the header pairs the pointer with this very count.
        unsafe { $crate::ffi::ArrayParam::to_rust(&$param, $count, stringify!($param)) }
            .map_err(|e| e.context(stringify!($function)))?
    };
}

/// Exports functions that can't fail, without an `arrowwood_error`.
macro_rules! export_infallible {
    ($($(#[$doc:meta])* fn $name:ident($($param:ident: $type:ty),*) $(-> $result:ty)? $body:block)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The arguments must be what `arrowwood.h` says.
        #[allow(unsafe_code)]
        // SAFETY: no other library defines names that begin with this library's name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($param: $type),*) $(-> $result)? $body
    )*};
}

/// The number of an error that did not come from the system.
const NO_ERRNO: i32 = 0;

/// Runs the body of a function and reports its error. Catches panics.
pub fn run(error: ErrorOut, work: impl FnOnce() -> Result<()>) -> i32 {
    let e = match catch_unwind(AssertUnwindSafe(reserving(work))) {
        Ok(Ok(())) => return code::NONE,
        Ok(Err(e)) => e,
        Err(panic) => Error::from_panic(&*panic),
    };
    let code = error_code(&e);
    error.put(code, e.errno().unwrap_or(NO_ERRNO), translate_message(e.to_string()));
    code
}

/// Runs the body of a function that can't report errors. Catches panics.
pub fn run_quietly(work: impl FnOnce()) {
    // The panic hook has printed the message.
    let _ = catch_unwind(AssertUnwindSafe(work));
}

/// A parameter of a function.
pub trait Param {
    /// The parameter in Rust, valid until the call returns.
    type RustType<'a>
    where
        Self: 'a;

    /// Checks the parameter `name`.
    fn to_rust<'a>(&'a self, name: &str) -> Result<Self::RustType<'a>>;
}

/// A pointer parameter that is followed by its element count.
pub trait ArrayParam {
    /// Both in Rust, valid until the call returns.
    type RustType<'a>
    where
        Self: 'a;

    /// Checks the parameter `name`.
    ///
    /// # Safety
    /// `count` must be the number that C passed with the pointer.
    unsafe fn to_rust<'a>(&'a self, count: usize, name: &str) -> Result<Self::RustType<'a>>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Param for $number {
            type RustType<'a> = $number;

            fn to_rust(&self, _name: &str) -> Result<$number> {
                Ok(*self)
            }
        }
    )*};
}

numbers!(i32, i64, u64, usize, f64);

/// Parameters passed on unchanged, and checked when they are used.
macro_rules! as_given {
    ($(<$($inner:ident: $bound:ident)?> $type:ty),*) => {$(
        impl$(<$inner: $bound>)? Param for $type {
            type RustType<'a>
                = &'a $type
            where
                Self: 'a;

            fn to_rust<'a>(&'a self, _name: &str) -> Result<&'a $type> {
                Ok(self)
            }
        }
    )*};
}

// After the macro that it uses.
mod data;

/// Returns `pointer` if it can point to a `T`.
fn checked<T>(pointer: *const T, name: &str) -> Result<NonNull<T>> {
    let Some(pointer) = NonNull::new(pointer.cast_mut()) else {
        return Err(invalid_argument(format!("'{name}' is NULL")));
    };
    if pointer.is_aligned() {
        Ok(pointer)
    } else {
        Err(invalid_argument(format!("'{name}' is not aligned: it points to nothing of its type")))
    }
}

// ---- errors ----

/// `arrowwood_error`.
#[repr(C)]
pub struct CError {
    code: i32,
    os_error: i32,
    message: *mut c_char,
}

// `tests/capi/c/layout.c` has the same numbers.
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<CError>() == 16 && offset_of!(CError, os_error) == 4 && offset_of!(CError, message) == 8);
};

/// `arrowwood_error *`: NULL, or a place to write one to.
#[repr(transparent)]
pub struct ErrorOut(*mut CError);

impl ErrorOut {
    fn put(self, code: i32, os_error: i32, message: String) {
        if let Ok(place) = checked(self.0, "error") {
            let message = c_string(message);
            // SAFETY: a place for an error; `write` doesn't read it.
            unsafe { place.write(CError { code, os_error, message }) }
        }
    }
}

/// `arrowwood_error *`: NULL, or an initialised error.
#[repr(transparent)]
pub struct ErrorIn(*mut CError);

impl ErrorIn {
    /// Frees the message and zeroes the error.
    pub fn clear(self) {
        let Ok(mut place) = checked(self.0, "error") else { return };
        // SAFETY: initialised, and no other thread uses it during the call.
        let error = unsafe { place.as_mut() };
        OwnedString(std::mem::replace(&mut error.message, std::ptr::null_mut())).free();
        error.code = code::NONE;
        error.os_error = NO_ERRNO;
    }
}

fn c_string(text: String) -> *mut c_char {
    let text = if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text };
    match CString::new(text) {
        Ok(text) => text.into_raw(),
        // Not reached, as each NUL was replaced. A panic here would abort the process.
        Err(_) => CString::default().into_raw(),
    }
}

// ---- text ----

/// `const char *`: NUL-terminated UTF-8.
#[repr(transparent)]
pub struct CText(*const c_char);

impl CText {
    fn bytes(&self, name: &str) -> Result<&[u8]> {
        let text = checked(self.0, name)?;
        // SAFETY: not NULL, so a NUL-terminated string that doesn't change during the call.
        Ok(unsafe { CStr::from_ptr(text.as_ptr()) }.to_bytes())
    }
}

impl Param for CText {
    type RustType<'a> = &'a str;

    fn to_rust<'a>(&'a self, name: &str) -> Result<&'a str> {
        let bytes = self.bytes(name)?;
        std::str::from_utf8(bytes).map_err(|e| invalid_argument(format!("'{name}' is not UTF-8: {e}")))
    }
}

/// `const char *`: a NUL-terminated path, of any bytes.
#[repr(transparent)]
pub struct CPath(CText);

impl Param for CPath {
    type RustType<'a> = &'a Path;

    fn to_rust<'a>(&'a self, name: &str) -> Result<&'a Path> {
        path_from_bytes(self.0.bytes(name)?).map_err(|e| invalid_argument(format!("{name}: {e}")))
    }
}

/// `char **`: a place for a string, which the caller frees with `arrowwood_string_free`.
#[repr(transparent)]
pub struct StringOut(OutPtr<*mut c_char>);

impl Param for StringOut {
    type RustType<'a> = StringSlot<'a>;

    fn to_rust<'a>(&'a self, name: &str) -> Result<StringSlot<'a>> {
        self.0.to_rust(name).map(StringSlot)
    }
}

/// A place for a string.
pub struct StringSlot<'a>(OutSlot<'a, *mut c_char>);

impl StringSlot<'_> {
    /// Passes the text to the caller.
    pub fn put(self, text: String) {
        self.0.put(c_string(text));
    }
}

/// `char *`: NULL, or a string that the caller gives back.
#[repr(transparent)]
pub struct OwnedString(*mut c_char);

impl OwnedString {
    /// Frees the string.
    pub fn free(self) {
        if !self.0.is_null() {
            // SAFETY: created by `c_string`, and given back once.
            drop(unsafe { CString::from_raw(self.0) });
        }
    }
}

// ---- pointers ----

/// Types of which any bytes, zeros included, are a valid value.
///
/// # Safety
/// SAFETY: implementors guarantee that.
pub unsafe trait AnyBitPattern: Sized {}

macro_rules! filled {
    ($($type:ty),*) => {$(
        // SAFETY: a number, or a pointer of which nothing is known before it is checked.
        unsafe impl AnyBitPattern for $type {}
    )*};
}

filled!(u8, i32, i64, u64, usize, CText, CPath, CValueIn, Optional<CText>, Optional<SchemaIn>);

// SAFETY: a pointer, of which nothing is known before it is checked.
unsafe impl<T: Opaque> AnyBitPattern for HandleRef<T> {}

/// Parameters that can be NULL.
pub trait Nullable {
    /// Returns true if this one is NULL.
    fn is_null(&self) -> bool;
}

macro_rules! pointers {
    ($($pointer:ident $(<$inner:ident $(: $bound:ident)?>)?),*) => {$(
        impl$(<$inner $(: $bound)?>)? Nullable for $pointer$(<$inner>)? {
            fn is_null(&self) -> bool {
                self.0.is_null()
            }
        }
    )*};
}

pointers!(CText, HandleRef<T: Opaque>, OutPtr<T>, HandleOut<T: Opaque>, InPtr<T: AnyBitPattern>);

/// A pointer that may be NULL.
#[repr(transparent)]
pub struct Optional<P>(P);

impl<P: Param + Nullable> Param for Optional<P> {
    type RustType<'a>
        = Option<P::RustType<'a>>
    where
        P: 'a;

    fn to_rust<'a>(&'a self, name: &str) -> Result<Option<P::RustType<'a>>> {
        if self.0.is_null() { Ok(None) } else { self.0.to_rust(name).map(Some) }
    }
}

/// `const T *`: one `T`.
#[repr(transparent)]
pub struct InPtr<T: AnyBitPattern>(*const T);

impl<T: AnyBitPattern> Param for InPtr<T> {
    type RustType<'a>
        = &'a T
    where
        T: 'a;

    fn to_rust<'a>(&'a self, name: &str) -> Result<&'a T> {
        let pointer = checked(self.0, name)?;
        // SAFETY: not NULL and aligned, so a `T` that doesn't change during the call.
        Ok(unsafe { pointer.as_ref() })
    }
}

/// `const T *` and a count: an array; may be NULL if the count is 0.
#[repr(transparent)]
pub struct InArray<T: AnyBitPattern>(*const T);

impl<T: AnyBitPattern> ArrayParam for InArray<T> {
    type RustType<'a>
        = &'a [T]
    where
        T: 'a;

    unsafe fn to_rust<'a>(&'a self, count: usize, name: &str) -> Result<&'a [T]> {
        if count == 0 {
            return Ok(&[]);
        }
        let first = checked(self.0, name)?;
        check_count::<T>(count, name)?;
        // SAFETY: aligned, and `count` long by the caller's word; it doesn't change during the call.
        Ok(unsafe { std::slice::from_raw_parts(first.as_ptr(), count) })
    }
}

/// `const T *` and `size_t`, side by side in a struct: an array, as in [`InArray`].
#[repr(C)]
pub struct InSlice<T: AnyBitPattern> {
    first: InArray<T>,
    count: usize,
}

// SAFETY: a pointer, of which nothing is known before it is checked, and a number.
unsafe impl<T: AnyBitPattern> AnyBitPattern for InSlice<T> {}

impl<T: AnyBitPattern> Param for InSlice<T> {
    type RustType<'a>
        = &'a [T]
    where
        T: 'a;

    fn to_rust<'a>(&'a self, name: &str) -> Result<&'a [T]> {
        // SAFETY: C has set both, and the fields are private.
        unsafe { self.first.to_rust(self.count, name) }
    }
}

fn check_count<T>(count: usize, name: &str) -> Result<()> {
    if count.checked_mul(size_of::<T>()).is_some_and(|bytes| isize::try_from(bytes).is_ok()) {
        Ok(())
    } else {
        Err(invalid_argument(format!("'{name}': {count} elements don't fit into memory")))
    }
}

/// Returns the texts of an array.
pub fn texts<'a>(list: &'a [CText], name: &str) -> Result<Vec<&'a str>> {
    list.iter().map(|text| text.to_rust(name)).collect()
}

/// `T *`: a place for one `T`.
#[repr(transparent)]
pub struct OutPtr<T>(*mut T);

impl<T> Param for OutPtr<T> {
    type RustType<'a>
        = OutSlot<'a, T>
    where
        T: 'a;

    fn to_rust<'a>(&'a self, name: &str) -> Result<OutSlot<'a, T>> {
        checked(self.0, name)?;
        Ok(OutSlot(self))
    }
}

/// A place for a `T`.
pub struct OutSlot<'a, T>(&'a OutPtr<T>);

impl<T> OutSlot<'_, T> {
    /// Passes `value` to the caller.
    pub fn put(self, value: T) {
        // SAFETY: not NULL and aligned, as `OutPtr` has checked, so a place for a `T`; `write` doesn't read it.
        unsafe { self.0.0.write(value) }
    }
}

/// `T *` and a count: an array to fill.
#[repr(transparent)]
pub struct OutArray<T>(*mut T);

impl<T> ArrayParam for OutArray<T> {
    type RustType<'a>
        = OutSlots<'a, T>
    where
        T: 'a;

    unsafe fn to_rust<'a>(&'a self, count: usize, name: &str) -> Result<OutSlots<'a, T>> {
        if count > 0 {
            checked(self.0, name)?;
        }
        check_count::<T>(count, name)?;
        Ok(OutSlots { first: self, count })
    }
}

/// An array to fill.
pub struct OutSlots<'a, T> {
    first: &'a OutArray<T>,
    count: usize,
}

impl<T> OutSlots<'_, T> {
    /// Returns its length.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Writes element `number`; does nothing past the end.
    #[inline]
    pub fn put(&self, number: usize, value: T) {
        if number < self.count {
            // SAFETY: inside of the caller's array.
            let place = unsafe { self.first.0.add(number) };
            // SAFETY: as above, and aligned; `write` doesn't read it.
            unsafe { place.write(value) }
        }
    }
}

// ---- handles ----

/// Types that C holds by pointer only, and may use from any thread.
pub trait Opaque: Send + Sync {
    /// The name in the header.
    const NAME: &'static str;
    /// The first word of each handle, by which handles of other types are refused.
    const TAG: u64;

    /// Returns true if a call of this thread uses the value, and the thread is in its callback: then it can't be given
    /// back.
    fn is_locked_by_this_thread(&self) -> bool {
        false
    }
}

/// The tag of a handle that was freed, for as long as its memory isn't reused. No type has it.
const FREED_TAG: u64 = 0;

/// An [`Opaque`] value and its tag.
#[repr(C)]
pub struct Handle<T> {
    tag: u64,
    value: T,
}

impl<T: Opaque> Handle<T> {
    /// Returns the handle at `pointer`.
    ///
    /// # Safety
    /// It must be NULL, or a handle of any type that was not freed and is not freed during `'a`.
    unsafe fn find<'a>(pointer: *const Handle<T>, name: &str) -> Result<&'a Handle<T>> {
        let pointer = checked(pointer, name)?;
        // SAFETY: all handles begin with a tag.
        let tag = unsafe { pointer.cast::<u64>().read() };
        if tag != T::TAG {
            return Err(invalid_argument(format!("'{name}' is no {}, or was freed", T::NAME)));
        }
        // SAFETY: a handle of this type, by its tag.
        Ok(unsafe { pointer.as_ref() })
    }
}

/// `const T *`: a handle that is not freed during the call.
#[repr(transparent)]
pub struct HandleRef<T: Opaque>(*const Handle<T>);

impl<T: Opaque> Param for HandleRef<T> {
    type RustType<'a>
        = &'a T
    where
        T: 'a;

    #[inline]
    fn to_rust<'a>(&'a self, name: &str) -> Result<&'a T> {
        // SAFETY: the header requires a handle that is not freed during the call.
        Ok(&unsafe { Handle::find(self.0, name) }?.value)
    }
}

/// `T **`: a place for a new handle, which the caller frees.
#[repr(transparent)]
pub struct HandleOut<T: Opaque>(*mut *mut Handle<T>);

impl<T: Opaque> Param for HandleOut<T> {
    type RustType<'a>
        = HandleSlot<'a, T>
    where
        T: 'a;

    fn to_rust<'a>(&'a self, name: &str) -> Result<HandleSlot<'a, T>> {
        checked(self.0, name)?;
        Ok(HandleSlot(self))
    }
}

/// A place for a new handle.
pub struct HandleSlot<'a, T: Opaque>(&'a HandleOut<T>);

impl<T: Opaque> HandleSlot<'_, T> {
    /// Passes `value` to the caller.
    pub fn put(self, value: T) {
        let handle = Box::into_raw(Box::new(Handle { tag: T::TAG, value }));
        // SAFETY: not NULL and aligned, as `HandleOut` has checked, so a place for a pointer.
        unsafe { self.0.0.write(handle) }
    }

    /// Passes NULL to the caller.
    pub fn put_null(self) {
        // SAFETY: as in `put`.
        unsafe { self.0.0.write(std::ptr::null_mut()) }
    }
}

/// `T *`: NULL, or a handle that the function takes back. NULL once it is taken.
#[repr(transparent)]
pub struct OwnedHandle<T: Opaque>(Cell<*mut Handle<T>>);

impl<T: Opaque> OwnedHandle<T> {
    /// Takes the handle's value and frees it; `None` for NULL.
    ///
    /// # Errors
    /// `InvalidArgument` for a handle of another type, `Busy` for one whose call runs the callback that gives it back;
    /// neither is freed.
    pub fn take(&self, name: &str) -> Result<Option<T>> {
        let pointer = self.0.get();
        if pointer.is_null() {
            return Ok(None);
        }
        // SAFETY: the header requires a handle that was not freed.
        if unsafe { Handle::find(pointer, name) }?.value.is_locked_by_this_thread() {
            let message = format!("'{name}': a callback can't free the {} whose call it is", T::NAME);
            return Err(Error::new(ErrorKind::Busy, message));
        }
        self.0.set(std::ptr::null_mut());
        // SAFETY: created by `HandleSlot::put`; C gives each handle back once, and this parameter no longer has it.
        let mut handle = unsafe { Box::from_raw(pointer) };
        handle.tag = FREED_TAG;
        Ok(Some(handle.value))
    }

    /// Frees the handle. Does nothing for NULL, for handles of other types, and in a callback of a call that uses it.
    pub fn free(self) {
        run_quietly(|| drop(self.take("")));
    }
}

as_given!(<T: Opaque> OwnedHandle<T>);

// ---- structs that begin with their size ----

/// Declares structs of the header.
macro_rules! structs {
    ($($(#[$doc:meta])* struct $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        #[allow(unsafe_code)]
        // SAFETY: all its fields are so.
        unsafe impl $crate::ffi::AnyBitPattern for $name where $($type: $crate::ffi::AnyBitPattern),* {}
    )*};
}

/// `const T *`: NULL, or options that begin with their size.
#[repr(transparent)]
pub struct OptionsPtr<T: AnyBitPattern>(*const T);

/// More bytes than a struct of any version will have: a larger size was never set.
const MAX_STRUCT_SIZE: usize = 4096;

/// Returns the size with which a struct of the header begins.
fn size_of_struct<T>(place: NonNull<T>, name: &str) -> Result<usize> {
    // SAFETY: the header requires a struct that begins with its size, a u64.
    let size = unsafe { place.cast::<u64>().read() };
    let size = usize::try_from(size).ok().filter(|size| (size_of::<u64>()..=MAX_STRUCT_SIZE).contains(size));
    size.ok_or_else(|| invalid_argument(format!("'{name}' does not begin with its size: set .size to sizeof *{name}")))
}

impl<T: AnyBitPattern> Param for OptionsPtr<T> {
    type RustType<'a>
        = T
    where
        T: 'a;

    fn to_rust(&self, name: &str) -> Result<T> {
        // SAFETY: zeros are a value, as any bytes are.
        let mut options: T = unsafe { std::mem::zeroed() };
        if self.0.is_null() {
            return Ok(options);
        }
        let place = checked(self.0, name)?;
        let size = size_of_struct(place, name)?;
        // SAFETY: the caller's struct has `size` bytes.
        let bytes = unsafe { std::slice::from_raw_parts(place.as_ptr().cast::<u8>(), size) };
        let common_size = size.min(size_of::<T>());
        if bytes[common_size..].iter().any(|&byte| byte != 0) {
            let message =
                format!("'{name}' has options of a newer version of the library: there are only {common_size} bytes");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        // SAFETY: both have `common_size` bytes, and any bytes are a value.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut options).cast::<u8>(), common_size) };
        Ok(options)
    }
}

/// `T *`: a struct to fill, which begins with its size.
#[repr(transparent)]
pub struct SizedOut<T: AnyBitPattern>(*mut T);

impl<T: AnyBitPattern> Param for SizedOut<T> {
    type RustType<'a>
        = SizedSlot<'a, T>
    where
        T: 'a;

    fn to_rust<'a>(&'a self, name: &str) -> Result<SizedSlot<'a, T>> {
        let size = size_of_struct(checked(self.0, name)?, name)?;
        Ok(SizedSlot { place: self, size })
    }
}

/// A struct to fill.
pub struct SizedSlot<'a, T: AnyBitPattern> {
    place: &'a SizedOut<T>,
    size: usize,
}

impl<T: AnyBitPattern> SizedSlot<'_, T> {
    /// Fills as much of it as the caller's version has; the size itself stays.
    pub fn put(self, value: T) {
        let skipped = size_of::<u64>();
        let common_size = self.size.min(size_of::<T>());
        assert!(common_size >= skipped, "a struct of the header begins with its size");

        let from = (&raw const value).cast::<u8>().wrapping_add(skipped);
        let into = self.place.0.cast::<u8>().wrapping_add(skipped);
        // SAFETY: both structs have `common_size` bytes, including the skipped ones; they are copied untyped.
        unsafe { std::ptr::copy_nonoverlapping(from, into, common_size - skipped) };
    }
}

/// Fills the reserve of memory that the library's allocator keeps for small allocations, and returns `work`.
fn reserving<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    arrowwood::mapping::ReserveAllocator::fill();
    work
}

#[cfg(test)]
mod tests {
    use super::*;

    export! {
        /// Panics on request.
        fn arrowwood_test_panic(text: CText) {
            match text {
                "text" => panic!("the left hand knew"),
                "formatted" => panic!("{} hands knew", 2),
                other => std::panic::panic_any(other.len()),
            }
        }
    }

    #[test]
    fn panic_becomes_an_internal_error() {
        std::panic::set_hook(Box::new(|_| ()));
        for (kind, message) in
            [(c"text", "the left hand knew"), (c"formatted", "2 hands knew"), (c"", "without a message")]
        {
            let mut error = CError { code: 0, os_error: 7, message: std::ptr::null_mut() };
            // SAFETY: a text that ends in NUL, and room for an error.
            let code = unsafe { arrowwood_test_panic(CText(kind.as_ptr()), ErrorOut(&raw mut error)) };
            assert_eq!((code, error.code, error.os_error), (code::INTERNAL, code::INTERNAL, NO_ERRNO));
            // SAFETY: filled by the call.
            let text = unsafe { CStr::from_ptr(error.message) }.to_str().unwrap().to_string();
            assert!(text.starts_with("internal error") && text.contains(message), "{text}");
            ErrorIn(&raw mut error).clear();
            assert!(error.message.is_null());
            // SAFETY: the error may be NULL: the caller doesn't want it then.
            let code = unsafe { arrowwood_test_panic(CText(kind.as_ptr()), ErrorOut(std::ptr::null_mut())) };
            assert_eq!(code, code::INTERNAL);
        }
    }

    #[test]
    fn c_string_replaces_inner_nuls() {
        let text = c_string("a\0b".into());
        // SAFETY: just made.
        assert_eq!(unsafe { CStr::from_ptr(text) }.to_str(), Ok("a\u{fffd}b"));
        OwnedString(text).free();
    }
}
