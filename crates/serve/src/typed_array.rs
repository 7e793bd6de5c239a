//! Makes typed arrays of a file's data.

use arrow_array::{ArrayRef, make_array};
use arrow_data::ArrayData;

/// Creates an array of data whose buffers may be anywhere in a file. Unaligned buffers are copied, as arrow-rs needs
/// it.
pub(crate) fn typed(array: &ArrayData) -> ArrayRef {
    let mut array = array.clone();
    array.align_buffers();
    make_array(array)
}
