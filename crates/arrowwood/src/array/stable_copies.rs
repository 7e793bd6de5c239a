//! Makes arrays that are safe for the kernels of arrow-rs.
//!
//! A kernel trusts a checked array: it loads an offset again and again, without checking it. Bytes in place belong to a
//! file, which another process may overwrite or truncate between the check and the kernel, against its promise. The
//! kernel would then read, or worse write, outside of memory, before the change can be noticed. So kernels get arrays
//! whose offsets no other process can change.

use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::buffer::build_buffer;
use super::unchecked::UncheckedArray;
use crate::error::Result;
use crate::types::{BufferRole, layout};

/// Makes arrays for kernels of arrow-rs: copies the buffers that lead to other bytes (offsets, sizes, views, keys, type
/// ids, run ends, bitmaps), and checks the copies. Numbers and text stay in place, as they lead nowhere.
#[derive(Debug, Default)]
pub(crate) struct StableCopies {
    /// Dictionaries with their copies, so that arrays that share one still share it.
    dictionaries: Vec<(UncheckedArray, ArrayData)>,
    /// The last array and its copy, which the next part of the same batch uses.
    last: Option<(UncheckedArray, ArrayData)>,
}

impl StableCopies {
    /// Returns the values of `array`, checked or not, as an array for kernels.
    ///
    /// # Errors
    /// `InvalidData` as for [`UncheckedArray::checked`]; `Io` if there is no memory.
    pub(crate) fn stable_copy(&mut self, array: &UncheckedArray) -> Result<ArrayData> {
        if let Some((_, copy)) = self.last.as_ref().filter(|(original, _)| original.is_same(array)) {
            return Ok(copy.clone());
        }
        let copy = self.copied(array, false)?;
        let copy = self.checked(copy)?;
        self.last = Some((array.clone(), copy.clone()));
        Ok(copy)
    }

    fn checked(&self, copy: UncheckedArray) -> Result<ArrayData> {
        copy.checked(&self.dictionaries.iter().map(|(_, copy)| copy).collect::<Vec<_>>())
    }

    /// Copies the buffers of `array` that lead to other bytes. With `is_leading`, its values do too, as run ends.
    fn copied(&mut self, array: &UncheckedArray, is_leading: bool) -> Result<UncheckedArray> {
        let data_type = array.data_type();
        let is_coded = matches!(data_type, DataType::Dictionary(..));
        let has_runs = matches!(data_type, DataType::RunEndEncoded(..));
        let end = array.offset().saturating_add(array.len());
        let layout = layout(data_type);
        let mut roles = layout.value_roles();
        let mut buffers = Vec::with_capacity(array.buffers().len());
        for buffer in array.buffers() {
            buffers.push(match roles.next() {
                Some(role)
                    if is_leading
                        || is_coded
                        || !matches!(role, BufferRole::Values { .. } | BufferRole::Bits | BufferRole::Data) =>
                {
                    // The check reports a buffer that is too short for its rows.
                    let len = role.bytes_for(end).map_or(buffer.len(), |len| len.min(buffer.len()));
                    copy_of(&buffer[..len])?
                }
                _ => buffer.clone(),
            });
        }
        let mut children = Vec::with_capacity(array.child_data().len());
        for (number, child) in array.child_data().iter().enumerate() {
            let is_leading = has_runs && number == 0;
            children.push(if is_coded { self.dictionary(child)? } else { self.copied(child, is_leading)? });
        }
        array.with_buffers(buffers, children, copy_of)
    }

    fn dictionary(&mut self, values: &UncheckedArray) -> Result<UncheckedArray> {
        if let Some((_, copy)) = self.dictionaries.iter().rev().find(|(original, _)| original.is_same(values)) {
            return Ok(UncheckedArray::from(copy.clone()));
        }
        let copy = self.copied(values, false)?;
        let copy = self.checked(copy)?;
        self.dictionaries.push((values.clone(), copy.clone()));
        Ok(UncheckedArray::from(copy))
    }
}

fn copy_of(bytes: &[u8]) -> Result<Buffer> {
    build_buffer(bytes.len(), |copy| {
        copy.copy_from_slice(bytes);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int8Type;
    use arrow_array::{Array, DictionaryArray, Int32RunArray, Int64Array, RunArray, StringArray, StringViewArray};

    use super::*;
    use crate::array::{slice, value};

    /// Returns the addresses of all buffers. The array comes before its children.
    fn addresses(array: &ArrayData) -> Vec<*const u8> {
        array.buffers().iter().map(Buffer::as_ptr).chain(array.child_data().iter().flat_map(addresses)).collect()
    }

    #[test]
    fn only_buffers_with_offsets_or_views_are_copied() {
        let texts = StringArray::from(vec![Some("ash"), None, Some("pear")]);
        let views = StringViewArray::from(vec!["a text that is longer than a view", "short"]);
        let runs: Int32RunArray = RunArray::try_new(&vec![2, 5].into(), &Int64Array::from(vec![7, 8])).unwrap();
        let dictionary: DictionaryArray<Int8Type> = vec!["ash", "pear", "ash"].into_iter().collect();
        let cases = [
            (Arc::new(texts) as Arc<dyn Array>, vec![true, false]),
            (Arc::new(views), vec![true, false]),
            (Arc::new(Int64Array::from(vec![1, 2])), vec![false]),
            (Arc::new(runs), vec![true, false]),
            (Arc::new(dictionary), vec![true, true, false]),
        ];
        for (array, expected) in cases {
            let array = array.to_data();
            for array in [array.clone(), slice(&array, 1, array.len() - 1)] {
                let copy = StableCopies::default().stable_copy(UncheckedArray::from_ref(&array)).unwrap();
                let is_copied =
                    addresses(&array).into_iter().zip(addresses(&copy)).map(|(a, b)| a != b).collect::<Vec<_>>();
                assert_eq!(is_copied, expected, "{}", array.data_type());
                assert_eq!(copy.len(), array.len());
                for row in 0..array.len() {
                    assert_eq!(value(&copy, row).unwrap().to_string(), value(&array, row).unwrap().to_string());
                }
            }
        }
    }

    #[test]
    fn copied_arrays_share_their_dictionary() {
        let dictionary: DictionaryArray<Int8Type> = vec!["ash", "pear", "ash", "elm"].into_iter().collect();
        let array = dictionary.to_data();
        let mut copies = StableCopies::default();
        let parts = [0, 2].map(|start| copies.stable_copy(UncheckedArray::from_ref(&slice(&array, start, 2))).unwrap());
        assert!(parts[0].child_data()[0].ptr_eq(&parts[1].child_data()[0]));
    }
}
