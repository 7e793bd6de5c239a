//! The states of groups as result columns.

use std::fmt;
use std::str::FromStr;

use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, i256};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use half::f16;

use super::groups::is_key_type;
use super::state::{DecimalSum, ExtremeKind, FloatValues, GroupState, StateKind, ValueKind, is_stored_as_integer};
use crate::array::{ArrayParts, UncheckedArray, nulls};
use crate::array::{decimal_quotient, decimal_to_f64};
use crate::compute::frame::Frame;
use crate::compute::reduce::is_number;
use crate::compute::select::{FixedWidthColumns, RowSelection, limits};
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::types::{is_text_or_binary, type_name};

/// A function of the values of a group; nulls are ignored, but for [`First`](Function::First) and [`Last`](Function::Last).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateFunction {
    /// The sum, 0 for no values: `int64` or `uint64` for integers and booleans, `float64` for floats, the same kind for
    /// decimals and durations. Overflow is an error.
    Sum,
    /// The mean as `float64`, null for no values. NaN propagates, as in sums.
    Mean,
    /// The smallest value; NaN only if there is nothing else.
    Min,
    /// The largest value, likewise.
    Max,
    /// The number of values that are not null.
    Count,
    /// The sample variance (divided by n − 1) as `float64`, null for fewer than two values. That of integers is exact but for
    /// a last rounding.
    Var,
    /// The square root of the variance.
    Std,
    /// The value in the middle, or the mean of the two there, as `float64`; null for no values. NaN is left out. Takes 8
    /// bytes of memory a row.
    Median,
    /// The number of distinct values; null counts as one, and so do all NaN.
    NUnique,
    /// The value of the first row, null if it is null there. Of any type.
    First,
    /// The value of the last row, likewise.
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

/// The result type of `function` for a column of type `of`.
pub(super) fn type_of(function: AggregateFunction, of: &DataType) -> DataType {
    use DataType::*;
    match function {
        AggregateFunction::Count | AggregateFunction::NUnique => Int64,
        AggregateFunction::Mean | AggregateFunction::Var | AggregateFunction::Std | AggregateFunction::Median => {
            Float64
        }
        AggregateFunction::Min | AggregateFunction::Max | AggregateFunction::First | AggregateFunction::Last => {
            of.clone()
        }
        AggregateFunction::Sum => match of {
            Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) => Decimal128(38, *scale),
            Decimal256(_, scale) => Decimal256(76, *scale),
            Duration(unit) => Duration(*unit),
            unsigned if unsigned.is_unsigned_integer() => UInt64,
            float if float.is_floating() => Float64,
            _ => Int64,
        },
    }
}

/// The state that `function` of a column needs; `None` if the type does not support it. Values that are ordered have an order that is
/// not that of their bytes.
pub(super) fn kind_of(
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
    let extreme = |end| {
        let values = if is_ordered {
            ValueKind::Texts
        } else if is_float {
            ValueKind::Floats
        } else if is_wide || is_stored_as_integer(data_type) {
            ValueKind::Integers
        } else if is_text {
            ValueKind::Texts
        } else {
            return None;
        };
        Some(StateKind::Extreme { end, values, column })
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
        // Counted apart, or in sets.
        AggregateFunction::NUnique if is_key_type(data_type) => StateKind::RowCount,
        AggregateFunction::Min => return extreme(ExtremeKind::Min),
        AggregateFunction::Max => return extreme(ExtremeKind::Max),
        AggregateFunction::First => StateKind::Row(ExtremeKind::Min),
        AggregateFunction::Last => StateKind::Row(ExtremeKind::Max),
        _ => return None,
    })
}

/// A column of `rows` values of `data_type`.
pub(super) fn array(
    state: &GroupState<'_>,
    function: AggregateFunction,
    of: &DataType,
    data_type: &DataType,
    rows: usize,
) -> Result<ArrayData> {
    let scale = match of {
        DataType::Decimal32(_, s) | DataType::Decimal64(_, s) => *s,
        DataType::Decimal128(_, s) | DataType::Decimal256(_, s) => *s,
        _ => 0,
    };
    let mean = |sum: i256, count: u64| (count > 0).then(|| decimal_quotient(sum, scale, count));
    match (state, function) {
        (GroupState::Counts(counts), _) => {
            integers(data_type, rows, counts.iter().map(|&n| Some(i256::from_i128(n.into()))))
        }
        (GroupState::Floats(sums), AggregateFunction::Sum) => {
            floats(data_type, rows, sums.iter().map(|sum| Some(sum.total())))
        }
        (GroupState::Floats(sums), _) => {
            let mean = |total: f64, count: u64| (count > 0).then(|| total / count as f64);
            floats(data_type, rows, sums.iter().map(|sum| mean(sum.total(), sum.count)))
        }
        (GroupState::Integers(sums), AggregateFunction::Sum) => {
            totals_of(data_type, rows, sums.iter().map(|sum| i256::from_i128(sum.sum)).collect())
        }
        (GroupState::Integers(sums), _) => {
            floats(data_type, rows, sums.iter().map(|sum| mean(i256::from_i128(sum.sum), sum.count)))
        }
        (GroupState::Decimals(sums), AggregateFunction::Sum) => {
            let totals: Option<Vec<i256>> = sums.iter().map(DecimalSum::total).collect();
            totals_of(data_type, rows, totals.ok_or_else(|| too_large(data_type))?)
        }
        (GroupState::Decimals(sums), _) => floats(data_type, rows, sums.iter().map(|sum| sum.mean(scale))),
        (GroupState::Moments(all), _) => {
            floats(data_type, rows, all.iter().map(|moments| spread(moments.variance(), function, scale)))
        }
        (GroupState::IntegerMoments(all), _) => {
            floats(data_type, rows, all.iter().map(|moments| spread(moments.variance(), function, scale)))
        }
        (GroupState::DecimalMoments(all), _) => {
            floats(data_type, rows, all.iter().map(|moments| spread(moments.distances.variance(), function, scale)))
        }
        (GroupState::Values(all), _) => floats(data_type, rows, all.iter().map(FloatValues::median)),
        (GroupState::Distinct(sets), _) => {
            integers(data_type, rows, sets.counts().map(|n| Some(i256::from_i128(n.into()))))
        }
        (GroupState::Integer(found), _) => integers(data_type, rows, found.best.iter().copied()),
        (GroupState::Float(found), _) => floats(data_type, rows, found.best.iter().copied()),
        (GroupState::Text(_) | GroupState::Row(_), _) => Err(Error::internal("rows are gathered")),
    }
}

/// The variance, or its square root, of values of which the variance of the digits is known.
fn spread(variance: Option<f64>, function: AggregateFunction, scale: i8) -> Option<f64> {
    let unit = decimal_to_f64(i256::ONE, scale.saturating_neg());
    variance.map(
        |variance| if function == AggregateFunction::Std { variance.sqrt() / unit } else { variance / unit / unit },
    )
}

/// The values of column `column` in the row of each group; null for those without.
pub(super) fn gather_group_rows(
    dataset: &Dataset,
    frame: &Frame<'_>,
    column: usize,
    rows: usize,
    found: &[Option<u64>],
) -> Result<ArrayData> {
    let row = |group: usize| found.get(group).copied().flatten();
    let valid: Vec<bool> = (0..rows).map(|group| row(group).is_some()).collect();
    if !valid.contains(&true) {
        return nulls(dataset.schema().field(column).data_type(), rows);
    }
    // Where nothing was found, any row serves as a placeholder.
    let row = |group: usize| row(group).unwrap_or(0);
    let found = RowSelection::from_rows(frame, (0..rows).map(row)).gather_column(
        frame,
        &FixedWidthColumns::default(),
        dataset.schema(),
        column,
    )?;
    if valid.iter().all(|&valid| valid) {
        return Ok(found);
    }
    let nulls = NullBuffer::from(valid);
    let validity = Some((nulls.buffer().clone(), nulls.null_count()));
    let buffers = found.buffers().to_vec();
    let children = found.child_data().iter().cloned().map(UncheckedArray::from).collect();
    let parts = ArrayParts { data_type: found.data_type().clone(), len: rows, validity, buffers, children };
    parts.assemble().checked(&found.child_data().iter().collect::<Vec<_>>())
}

/// Sums of integers or decimals. A decimal type has fewer numbers than its bits: those with its digits.
fn totals_of(data_type: &DataType, rows: usize, totals: Vec<i256>) -> Result<ArrayData> {
    use DataType::*;
    if let Decimal32(digits, _) | Decimal64(digits, _) | Decimal128(digits, _) | Decimal256(digits, _) = data_type {
        let above = i256::from_i128(10).checked_pow(u32::from(*digits)).unwrap_or(i256::MAX);
        if totals.iter().any(|total| *total >= above || *total <= -above) {
            return Err(too_large(data_type));
        }
    }
    integers(data_type, rows, totals.into_iter().map(Some))
}

fn too_large(data_type: &DataType) -> Error {
    Error::invalid_argument(format!("a sum does not fit its type {}", type_name(data_type)))
}

fn fixed<const N: usize>(
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

fn floats(data_type: &DataType, rows: usize, values: impl Iterator<Item = Option<f64>>) -> Result<ArrayData> {
    match data_type {
        DataType::Float16 => fixed(data_type, rows, values.map(|v| v.map(|v| f16::from_f64(v).to_le_bytes()))),
        DataType::Float32 => fixed(data_type, rows, values.map(|v| v.map(|v| (v as f32).to_le_bytes()))),
        _ => fixed(data_type, rows, values.map(|v| v.map(f64::to_le_bytes))),
    }
}

fn integers(data_type: &DataType, rows: usize, values: impl Iterator<Item = Option<i256>>) -> Result<ArrayData> {
    let values: Vec<Option<i256>> = values.collect();
    let (low, high) = limits(data_type);
    if values.iter().flatten().any(|value| !(low..=high).contains(value)) {
        return Err(too_large(data_type));
    }
    let first = |value: i256| value.to_le_bytes();
    macro_rules! narrow {
        ($width:literal) => {
            fixed::<$width>(
                data_type,
                rows,
                values.into_iter().map(|value| value.and_then(|value| first(value).first_chunk::<$width>().copied())),
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

fn booleans(rows: usize, values: &[Option<i256>]) -> Result<ArrayData> {
    let value = |row: usize| values.get(row).copied().flatten();
    let bits = BooleanBuffer::collect_bool(rows, |row| value(row) == Some(i256::ONE)).into_inner();
    let valid = BooleanBuffer::collect_bool(rows, |row| value(row).is_some());
    let nulls = rows - valid.count_set_bits();
    let validity = (nulls > 0).then(|| (valid.into_inner(), nulls));
    let parts =
        ArrayParts { data_type: DataType::Boolean, len: rows, validity, buffers: vec![bits], children: Vec::new() };
    parts.assemble().checked(&[])
}
