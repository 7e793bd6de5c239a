//! Arrow's fixed-shape tensors (Canonical Extension Types, *Fixed shape tensor*): lists of one length with a shape.

use arrow_schema::{DataType, Field};
use arrowwood::{field_type_name, type_name};
use serde_json::Value;

const NAME: &str = "arrow.fixed_shape_tensor";

/// The shape of a row in memory, and the order in which its dimensions are shown, if it is another.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorShape {
    pub sizes: Vec<usize>,
    pub order: Option<Vec<usize>>,
}

impl TensorShape {
    /// Returns the number of items of a row.
    pub fn items(&self) -> usize {
        // No overflow: `tensor_shape` has compared the product with the length of a list.
        self.sizes.iter().product()
    }
}

/// Returns the shape that a field of lists of one length declares; `None` if it is no tensor, or no valid one.
pub fn tensor_shape(field: &Field) -> Option<TensorShape> {
    let DataType::FixedSizeList(_, len) = field.data_type() else { return None };
    if field.extension_type_name() != Some(NAME) {
        return None;
    }
    let declared: Value = serde_json::from_str(field.extension_type_metadata()?).ok()?;
    let sizes = numbers(declared.get("shape")?)?;
    let product = sizes.iter().try_fold(1usize, |product, size| product.checked_mul(*size))?;
    if i32::try_from(product).ok()? != *len || product == 0 {
        return None;
    }
    let order = match declared.get("permutation") {
        None | Some(Value::Null) => None,
        Some(given) => {
            let order = numbers(given)?;
            let mut sorted = order.clone();
            sorted.sort_unstable();
            if !sorted.into_iter().eq(0..sizes.len()) {
                return None;
            }
            Some(order)
        }
    };
    Some(TensorShape { sizes, order })
}

fn numbers(array: &Value) -> Option<Vec<usize>> {
    array.as_array()?.iter().map(|number| usize::try_from(number.as_u64()?).ok()).collect()
}

/// Converts `field`, of lists of one length, to a field of tensors whose rows have the shape `sizes`.
pub fn tensor_field(field: Field, sizes: &[usize]) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert("ARROW:extension:name".into(), NAME.into());
    metadata.insert("ARROW:extension:metadata".into(), serde_json::json!({ "shape": sizes }).to_string());
    field.with_metadata(metadata)
}

/// Returns the type of a field in words; a tensor has its items and shape in it.
pub fn dtype_name(field: &Field) -> String {
    match (field.data_type(), tensor_shape(field)) {
        (DataType::FixedSizeList(item, _), Some(shape)) => {
            format!("fixed_shape_tensor<{}>{:?}", type_name(item.data_type()), shape.sizes)
        }
        _ => field_type_name(field),
    }
}
