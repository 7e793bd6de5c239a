//! Typed elements over a mapping, read and written without alignment requirements.

use std::marker::PhantomData;

use super::{ChangeCheck, Mapping, watched};
use crate::error::{Error, ErrorKind, Result};

/// A fixed-width little-endian number that can be read from, and written to, any address.
pub trait Element: Copy + Send + Sync + 'static {
    /// Bytes of an element: 1 to 16, checked at compile time.
    const WIDTH: usize;
    /// Reads an element from its little-endian bytes; `bytes` is `WIDTH` long.
    fn from_bytes(bytes: &[u8]) -> Self;
    /// Writes the element's little-endian bytes; `bytes` is `WIDTH` long.
    fn to_bytes(self, bytes: &mut [u8]);
}

macro_rules! elements {
    ($($type:ty),*) => {$(
        impl Element for $type {
            const WIDTH: usize = size_of::<$type>();
            fn from_bytes(bytes: &[u8]) -> Self {
                let mut raw = [0; size_of::<$type>()];
                raw.copy_from_slice(bytes);
                <$type>::from_le_bytes(raw)
            }
            fn to_bytes(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
elements!(i8, i16, i32, i64, i128, u8, u16, u32, u64, u128, f32, f64);

/// A view of `len` elements of type `T` in a mapping. Clones and slices share the mapping.
///
/// Elements are copied in and out, never borrowed: other processes may be writing them.
#[derive(Clone, Debug)]
pub struct View<T> {
    mapping: Mapping,
    offset: usize,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Element> View<T> {
    pub(super) fn new(mapping: Mapping, offset: usize, len: Option<usize>) -> Result<View<T>> {
        const { assert!(T::WIDTH > 0 && T::WIDTH <= 16, "an element has 1 to 16 bytes") };
        let Some(room) = mapping.len().checked_sub(offset) else {
            let size = mapping.len();
            return Err(Error::argument(format!("the view starts at byte {offset}, past the mapping's {size} bytes")));
        };
        let fits = room / T::WIDTH;
        let len = len.unwrap_or(fits);
        if len > fits {
            let width = T::WIDTH;
            return Err(Error::argument(format!(
                "{len} elements of {width} bytes from byte {offset} on do not fit, {fits} do"
            )));
        }
        Ok(View { mapping, offset, len, element: PhantomData })
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the view is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns element `i`.
    ///
    /// # Errors
    /// `RowOutOfRange` if there is no element `i`, `FileChanged` if the file was truncated.
    pub fn get(&self, i: usize) -> Result<T> {
        let position = self.position(i)?;
        self.watched(ChangeCheck::Seldom, || Ok(self.load(position)))
    }

    fn load(&self, position: usize) -> T {
        let mut raw = [0u8; 16];
        let raw = &mut raw[..T::WIDTH];
        self.mapping.region().copy_out(position, raw);
        T::from_bytes(raw)
    }

    #[inline]
    fn watched<R>(&self, when: ChangeCheck, work: impl FnOnce() -> Result<R>) -> Result<R> {
        watched(when, |when| self.mapping.look(when), work)
    }

    /// Stores element `i`.
    ///
    /// # Errors
    /// `InvalidArgument` if the mapping's mode is `r`, `RowOutOfRange` if there is no element `i`, `FileChanged` if the
    /// file was truncated.
    pub fn set(&self, i: usize, value: T) -> Result<()> {
        if !self.mapping.mode().is_writable() {
            return Err(Error::argument("the mapping is read-only; map it with mode 'r+' or 'c' to store into it"));
        }
        let mut raw = [0u8; 16];
        let raw = &mut raw[..T::WIDTH];
        value.to_bytes(raw);
        let position = self.position(i)?;
        self.watched(ChangeCheck::Seldom, || {
            self.mapping.region().copy_in(position, raw);
            Ok(())
        })
    }

    /// Returns a view of elements `start .. start + len`, which shares the mapping.
    ///
    /// # Errors
    /// `RowOutOfRange` past the end.
    pub fn slice(&self, start: usize, len: usize) -> Result<View<T>> {
        if start > self.len || len > self.len - start {
            return Err(out_of_range(start.saturating_add(len), self.len));
        }
        View::new(self.mapping.clone(), self.offset + start * T::WIDTH, Some(len))
    }

    /// Copies all elements.
    ///
    /// # Errors
    /// `FileChanged` if the file was truncated.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.watched(ChangeCheck::Now, || Ok((0..self.len).map(|i| self.load(self.offset + i * T::WIDTH)).collect()))
    }

    /// Iterates over the elements. Ends early if the file was truncated, which [`View::to_vec`] reports.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        (0..self.len).map_while(|i| self.get(i).ok())
    }

    /// Returns the mapping.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    fn position(&self, i: usize) -> Result<usize> {
        if i < self.len { Ok(self.offset + i * T::WIDTH) } else { Err(out_of_range(i, self.len)) }
    }
}

fn out_of_range(i: usize, len: usize) -> Error {
    Error::new(ErrorKind::RowOutOfRange, format!("element {i} of a view of {len} elements"))
}
