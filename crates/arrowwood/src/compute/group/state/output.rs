//! Defines aggregate functions: the state that each needs, and the result column that it makes from the states of
//! groups.

use std::fmt;
use std::str::FromStr;

use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, i256};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use half::f16;

use super::group_state::{
    DecimalSum, ExtremeKind, FloatValues, GroupState, StateKind, ValueKind, is_stored_as_integer,
};
use crate::array::{ArrayParts, UncheckedArray, decimal_quotient, decimal_to_f64, nulls};
use crate::compute::expr::limits;
use crate::compute::gather::{FixedWidthColumns, RowSelection};
use crate::compute::group::keys::is_key_type;
use crate::compute::kernels::is_number;
use crate::compute::scan::Frame;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::types::{is_text_or_binary, type_name};

/// A function of the values of a group. Nulls are ignored, except by [`First`](AggregateFunction::First) and
/// [`Last`](AggregateFunction::Last).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateFunction {
    /// The sum, 0 for no values: `int64` or `uint64` for integers and booleans, `float64` for floats, the same kind for
    /// decimals and durations.
    ///
    /// Overflow is an error.
    Sum,
    /// The mean as `float64`, null for no values. NaN propagates, as in sums.
    Mean,
    /// The smallest value; NaN only if there is nothing else.
    Min,
    /// The largest value; NaN only if there is nothing else.
    Max,
    /// The number of values that are not null.
    Count,
    /// The sample variance (divided by n − 1) as `float64`, null for fewer than two values.
    ///
    /// The variance of integers is rounded only once.
    Var,
    /// The square root of the variance.
    Std,
    /// The value in the middle, or the mean of the two values in the middle, as `float64`; null for no values.
    ///
    /// NaN is left out. Takes 8 bytes of memory per row.
    Median,
    /// The number of distinct values; null counts as one, and so do all NaN.
    NUnique,
    /// The value of the first row, null if it is null there. Of any type.
    First,
    /// The value of the last row, null if it is null there. Of any type.
    Last,
}

impl FromStr for AggregateFunction {
    type Err = Error;

    fn from_str(name: &str) -> Result<AggregateFunction> {
        Ok(match name {
            "sum" => AggregateFunction::Sum,
            "mean" => AggregateFunction::Mean,
            "min" => AggregateFunction::Min,
            "max" => AggregateFunction::Max,
            "count" => AggregateFunction::Count,
            "var" => AggregateFunction::Var,
            "std" => AggregateFunction::Std,
            "median" => AggregateFunction::Median,
            "n_unique" => AggregateFunction::NUnique,
            "first" => AggregateFunction::First,
            "last" => AggregateFunction::Last,
            other => {
                let known =
                    "'sum', 'mean', 'median', 'min', 'max', 'count', 'n_unique', 'first', 'last', 'var' or 'std'";
                return Err(Error::invalid_argument(format!("expected {known}, got '{other}'")));
            }
        })
    }
}

impl fmt::Display for AggregateFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AggregateFunction::Sum => "sum",
            AggregateFunction::Mean => "mean",
            AggregateFunction::Min => "min",
            AggregateFunction::Max => "max",
            AggregateFunction::Count => "count",
            AggregateFunction::Var => "var",
            AggregateFunction::Std => "std",
            AggregateFunction::Median => "median",
            AggregateFunction::NUnique => "n_unique",
            AggregateFunction::First => "first",
            AggregateFunction::Last => "last",
        })
    }
}

/// Returns the result type of `function` for a column of type `source_type`.
pub(in crate::compute::group) fn result_type(function: AggregateFunction, source_type: &DataType) -> DataType {
    use DataType::*;
    match function {
        AggregateFunction::Count | AggregateFunction::NUnique => Int64,
        AggregateFunction::Mean | AggregateFunction::Var | AggregateFunction::Std | AggregateFunction::Median => {
            Float64
        }
        AggregateFunction::Min | AggregateFunction::Max | AggregateFunction::First | AggregateFunction::Last => {
            source_type.clone()
        }
        AggregateFunction::Sum => match source_type {
            Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) => Decimal128(38, *scale),
            Decimal256(_, scale) => Decimal256(76, *scale),
            Duration(unit) => Duration(*unit),
            unsigned if unsigned.is_unsigned_integer() => UInt64,
            float if float.is_floating() => Float64,
            _ => Int64,
        },
    }
}

/// Returns the state that `function` of a column needs; `None` if the type does not support the function. With
/// `is_ordered`, the values have an order other than the order of their bytes.
pub(in crate::compute::group) fn state_kind(
    function: AggregateFunction,
    data_type: &DataType,
    column: usize,
    is_ordered: bool,
) -> Option<StateKind> {
    use DataType::*;
    let is_float = data_type.is_floating();
    let is_wide = matches!(data_type, Decimal128(..) | Decimal256(..));
    let is_number = is_number(data_type) && !matches!(data_type, Dictionary(..));
    let is_text = match data_type {
        Dictionary(_, values) => is_text_or_binary(values),
        other => is_text_or_binary(other),
    };
    let compared_values = if is_ordered {
        Some(ValueKind::Texts)
    } else if is_float {
        Some(ValueKind::Floats)
    } else if is_wide || is_stored_as_integer(data_type) {
        Some(ValueKind::Integers)
    } else if is_text {
        Some(ValueKind::Texts)
    } else {
        None
    };
    Some(match function {
        AggregateFunction::Count => StateKind::Count(column),
        AggregateFunction::Sum | AggregateFunction::Mean if is_float => StateKind::Floats(column),
        AggregateFunction::Sum | AggregateFunction::Mean if is_wide => StateKind::Decimals(column),
        AggregateFunction::Sum | AggregateFunction::Mean if is_number => StateKind::Integers(column),
        AggregateFunction::Sum if matches!(data_type, Duration(_)) => StateKind::Integers(column),
        AggregateFunction::Var | AggregateFunction::Std if is_float => StateKind::Moments(column),
        AggregateFunction::Var | AggregateFunction::Std if is_wide => StateKind::DecimalMoments(column),
        AggregateFunction::Var | AggregateFunction::Std if is_number => StateKind::IntegerMoments(column),
        AggregateFunction::Median if is_number => StateKind::Values(column),
        // A placeholder: `GroupPlan::count_in_sets` replaces it, or values are counted by another aggregation.
        AggregateFunction::NUnique if is_key_type(data_type) => StateKind::RowCount,
        AggregateFunction::Min => StateKind::Extreme { end: ExtremeKind::Min, values: compared_values?, column },
        AggregateFunction::Max => StateKind::Extreme { end: ExtremeKind::Max, values: compared_values?, column },
        AggregateFunction::First => StateKind::Row(ExtremeKind::Min),
        AggregateFunction::Last => StateKind::Row(ExtremeKind::Max),
        _ => return None,
    })
}

/// Returns the result of `function` for a column of type `source_type`, as a column of `rows` values of `data_type`.
pub(in crate::compute::group) fn state_to_array(
    state: &GroupState<'_>,
    function: AggregateFunction,
    source_type: &DataType,
    data_type: &DataType,
    rows: usize,
) -> Result<ArrayData> {
    let scale = match source_type {
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) => *scale,
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => *scale,
        _ => 0,
    };
    match (state, function) {
        (GroupState::Counts(counts), _) => {
            integers(data_type, rows, counts.iter().map(|&n| Some(i256::from_i128(n.into()))))
        }
        (GroupState::Floats(sums), AggregateFunction::Sum) => {
            floats(data_type, rows, sums.iter().map(|sum| Some(sum.total())))
        }
        (GroupState::Floats(sums), _) => {
            floats(data_type, rows, sums.iter().map(|sum| float_mean(sum.total(), sum.count)))
        }
        (GroupState::Integers(sums), AggregateFunction::Sum) => {
            exact_sums(data_type, rows, sums.iter().map(|sum| i256::from_i128(sum.sum)).collect())
        }
        (GroupState::Integers(sums), _) => {
            let means = sums
                .iter()
                .map(|sum| (sum.count > 0).then(|| decimal_quotient(i256::from_i128(sum.sum), scale, sum.count)));
            floats(data_type, rows, means)
        }
        (GroupState::Decimals(sums), AggregateFunction::Sum) => {
            let totals: Option<Vec<i256>> = sums.iter().map(DecimalSum::total).collect();
            exact_sums(data_type, rows, totals.ok_or_else(|| too_large(data_type))?)
        }
        (GroupState::Decimals(sums), _) => floats(data_type, rows, sums.iter().map(|sum| sum.mean(scale))),
        (GroupState::Moments(all), _) => {
            floats(data_type, rows, all.iter().map(|moments| to_var_or_std(moments.variance(), function, scale)))
        }
        (GroupState::IntegerMoments(all), _) => {
            floats(data_type, rows, all.iter().map(|moments| to_var_or_std(moments.variance(), function, scale)))
        }
        (GroupState::DecimalMoments(all), _) => {
            let variances = all.iter().map(|moments| moments.distances.variance());
            floats(data_type, rows, variances.map(|variance| to_var_or_std(variance, function, scale)))
        }
        (GroupState::Values(all), _) => floats(data_type, rows, all.iter().map(FloatValues::median)),
        (GroupState::Distinct(sets), _) => {
            integers(data_type, rows, sets.counts().map(|n| Some(i256::from_i128(n.into()))))
        }
        (GroupState::Integer(extreme), _) => integers(data_type, rows, extreme.best.iter().copied()),
        (GroupState::Float(extreme), _) => floats(data_type, rows, extreme.best.iter().copied()),
        (GroupState::Text(_) | GroupState::Row(_), _) => Err(Error::internal("rows are gathered")),
    }
}

/// Returns the mean of `count` values whose sum is `total`; `None` if there are none.
#[inline]
fn float_mean(total: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| total / count as f64)
}

/// Returns the variance, or its square root, of values whose digits have the variance `variance`.
fn to_var_or_std(variance: Option<f64>, function: AggregateFunction, scale: i8) -> Option<f64> {
    let variance = variance?;
    let unit = decimal_to_f64(i256::ONE, scale.saturating_neg());
    Some(if function == AggregateFunction::Std { variance.sqrt() / unit } else { variance / unit / unit })
}

/// Returns the value of column `column` in the row of each of `rows` groups; null for groups without a row in
/// `group_rows`.
pub(in crate::compute::group) fn gather_group_rows(
    dataset: &Dataset,
    frame: &Frame<'_>,
    column: usize,
    rows: usize,
    group_rows: &[Option<u64>],
) -> Result<ArrayData> {
    /// The row whose value is gathered for groups without a row, and is null in the result.
    const PLACEHOLDER: u64 = 0;
    assert!(group_rows.len() <= rows, "{} rows of {rows} groups", group_rows.len());
    let mut valid = vec![false; rows];
    let mut gathered_rows = vec![PLACEHOLDER; rows];
    for (group, row) in group_rows.iter().enumerate() {
        if let Some(row) = *row {
            valid[group] = true;
            gathered_rows[group] = row;
        }
    }
    if !valid.contains(&true) {
        return nulls(dataset.schema().field(column).data_type(), rows);
    }
    let selection = RowSelection::from_rows(frame, gathered_rows.into_iter());
    let values = selection.gather_column(frame, &FixedWidthColumns::default(), dataset.schema(), column)?;
    if !valid.contains(&false) {
        return Ok(values);
    }
    let nulls = NullBuffer::from(valid);
    let validity = Some((nulls.buffer().clone(), nulls.null_count()));
    let buffers = values.buffers().to_vec();
    let children = values.child_data().iter().cloned().map(UncheckedArray::from).collect();
    let parts = ArrayParts { data_type: values.data_type().clone(), len: rows, validity, buffers, children };
    parts.assemble().checked(&values.child_data().iter().collect::<Vec<_>>())
}

/// Returns a column of sums of integers or decimals.
///
/// # Errors
/// `InvalidArgument` if a sum has more digits than its decimal type, whose bits could hold it, or more bits than its
/// type.
fn exact_sums(data_type: &DataType, rows: usize, sums: Vec<i256>) -> Result<ArrayData> {
    use DataType::*;
    if let Decimal32(digits, _) | Decimal64(digits, _) | Decimal128(digits, _) | Decimal256(digits, _) = data_type {
        let limit = i256::from_i128(10).checked_pow(u32::from(*digits)).unwrap_or(i256::MAX);
        if sums.iter().any(|sum| *sum >= limit || *sum <= -limit) {
            return Err(too_large(data_type));
        }
    }
    integers(data_type, rows, sums.into_iter().map(Some))
}

fn too_large(data_type: &DataType) -> Error {
    Error::invalid_argument(format!("a sum does not fit its type {}", type_name(data_type)))
}

/// Returns a column of `rows` values of `N` bytes. Rows behind the last value are null.
fn fixed_width_values<const N: usize>(
    data_type: &DataType,
    rows: usize,
    values: impl Iterator<Item = Option<[u8; N]>>,
) -> Result<ArrayData> {
    let mut bytes = Vec::with_capacity(rows);
    let mut valid = Vec::with_capacity(rows);
    for value in values.take(rows) {
        bytes.push(value.unwrap_or([0; N]));
        valid.push(value.is_some());
    }
    bytes.resize(rows, [0; N]);
    valid.resize(rows, false);
    let nulls = valid.iter().filter(|valid| !**valid).count();
    let validity = (nulls > 0).then(|| (BooleanBuffer::from(valid).into_inner(), nulls));
    let buffers = vec![Buffer::from(bytes.as_flattened())];
    let parts = ArrayParts { data_type: data_type.clone(), len: rows, validity, buffers, children: Vec::new() };
    parts.assemble().checked(&[])
}

/// Returns a column of `rows` floats of type `data_type`. Rows behind the last value are null.
fn floats(data_type: &DataType, rows: usize, values: impl Iterator<Item = Option<f64>>) -> Result<ArrayData> {
    match data_type {
        DataType::Float16 => {
            fixed_width_values(data_type, rows, values.map(|value| value.map(|v| f16::from_f64(v).to_le_bytes())))
        }
        DataType::Float32 => {
            fixed_width_values(data_type, rows, values.map(|value| value.map(|v| (v as f32).to_le_bytes())))
        }
        _ => fixed_width_values(data_type, rows, values.map(|value| value.map(f64::to_le_bytes))),
    }
}

/// Returns a column of `rows` integers, decimals, times or booleans of type `data_type`. Rows behind the last value are
/// null.
///
/// # Errors
/// `InvalidArgument` for a number that does not fit the type.
fn integers(data_type: &DataType, rows: usize, values: impl Iterator<Item = Option<i256>>) -> Result<ArrayData> {
    let values: Vec<Option<i256>> = values.collect();
    let (low, high) = limits(data_type);
    if values.iter().flatten().any(|value| !(low..=high).contains(value)) {
        return Err(too_large(data_type));
    }
    macro_rules! narrow {
        ($width:literal) => {
            fixed_width_values::<$width>(
                data_type,
                rows,
                values.into_iter().map(|value| value?.to_le_bytes().first_chunk::<$width>().copied()),
            )
        };
    }
    match data_type {
        DataType::Boolean => booleans(rows, &values),
        other => match other.primitive_width() {
            Some(1) => narrow!(1),
            Some(2) => narrow!(2),
            Some(4) => narrow!(4),
            Some(8) => narrow!(8),
            Some(16) => narrow!(16),
            _ => narrow!(32),
        },
    }
}

/// Returns a column of `rows` booleans, which are true for 1.
fn booleans(rows: usize, values: &[Option<i256>]) -> Result<ArrayData> {
    let mut values = values.to_vec();
    values.resize(rows, None);
    let bits = BooleanBuffer::collect_bool(rows, |row| values[row] == Some(i256::ONE)).into_inner();
    let valid = BooleanBuffer::collect_bool(rows, |row| values[row].is_some());
    let nulls = rows - valid.count_set_bits();
    let validity = (nulls > 0).then(|| (valid.into_inner(), nulls));
    let parts =
        ArrayParts { data_type: DataType::Boolean, len: rows, validity, buffers: vec![bits], children: Vec::new() };
    parts.assemble().checked(&[])
}
