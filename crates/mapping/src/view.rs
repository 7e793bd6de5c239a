//! Reads and writes typed elements of a mapping, without alignment requirements.

use std::marker::PhantomData;

use crate::change_check::{ChangeCheck, with_change_check};
use crate::element::{Element, MAX_WIDTH};
use crate::error::{Error, ErrorKind, Result};
use crate::mapping::Mapping;

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

impl Mapping {
    /// Returns a view of `len` elements of type `T` from byte `offset` on, or of all that fit if `len` is `None`.
    ///
    /// ```
    /// # use arrowwood_mapping::{Mapping, Mode};
    /// # let path = std::env::temp_dir().join(format!("view-{}", std::process::id()));
    /// # std::fs::write(&path, 1.5f64.to_le_bytes()).unwrap();
    /// let mapping = Mapping::open(&path, Mode::Read)?;
    /// assert_eq!(mapping.view::<f64>(0, None)?.get(0)?, 1.5);
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), arrowwood_mapping::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if `len` elements don't fit.
    pub fn view<T: Element>(&self, offset: usize, len: Option<usize>) -> Result<View<T>> {
        View::new(self.clone(), offset, len)
    }
}

impl<T: Element> View<T> {
    fn new(mapping: Mapping, offset: usize, len: Option<usize>) -> Result<View<T>> {
        const { assert!(T::WIDTH > 0 && T::WIDTH <= MAX_WIDTH, "an element has 1 to 16 bytes") };
        let Some(room) = mapping.len().checked_sub(offset) else {
            let size = mapping.len();
            return Err(Error::invalid_argument(format!(
                "the view starts at byte {offset}, past the mapping's {size} bytes"
            )));
        };
        let fits = room / T::WIDTH;
        let len = len.unwrap_or(fits);
        if len > fits {
            let width = T::WIDTH;
            return Err(Error::invalid_argument(format!(
                "{len} elements of {width} bytes from byte {offset} on do not fit, {fits} do"
            )));
        }
        Ok(View { mapping, offset, len, element: PhantomData })
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the view is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns element `i`.
    ///
    /// # Errors
    /// `NoSuchElement` if there is no element `i`, `FileChanged` if the file was truncated.
    pub fn get(&self, i: usize) -> Result<T> {
        let position = self.position(i)?;
        self.with_change_check(ChangeCheck::Seldom, || Ok(self.load(position)))
    }

    fn load(&self, position: usize) -> T {
        let mut raw = [0u8; MAX_WIDTH];
        let raw = &mut raw[..T::WIDTH];
        self.mapping.region().copy_out(position, raw);
        T::from_bytes(raw)
    }

    #[inline]
    fn with_change_check<R>(&self, when: ChangeCheck, work: impl FnOnce() -> Result<R>) -> Result<R> {
        with_change_check(when, |when| self.mapping.check_unchanged(when), work)
    }

    /// Stores element `i`.
    ///
    /// # Errors
    /// `InvalidArgument` if the mapping's mode is `r`, `NoSuchElement` if there is no element `i`, `FileChanged` if the
    /// file was truncated.
    pub fn set(&self, i: usize, value: T) -> Result<()> {
        if !self.mapping.mode().is_writable() {
            return Err(Error::invalid_argument(
                "the mapping is read-only; map it with mode 'r+' or 'c' to store into it",
            ));
        }
        let mut raw = [0u8; MAX_WIDTH];
        let raw = &mut raw[..T::WIDTH];
        value.to_bytes(raw);
        let position = self.position(i)?;
        self.with_change_check(ChangeCheck::Seldom, || {
            self.mapping.region().copy_in(position, raw);
            Ok(())
        })
    }

    /// Returns a view of elements `start .. start + len`, which shares the mapping.
    ///
    /// # Errors
    /// `NoSuchElement` past the end.
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
        self.with_change_check(ChangeCheck::Now, || {
            Ok((0..self.len).map(|i| self.load(self.offset + i * T::WIDTH)).collect())
        })
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
    Error::new(ErrorKind::NoSuchElement, format!("element {i} of a view of {len} elements"))
}
