//! [`Column`]: one column of a dataset.

use std::ops::Range;

use arrow_data::ArrayData;
use arrow_schema::{DataType, FieldRef};

use super::dataset::Dataset;
use super::source::{BatchSlice, Footprint};
use crate::array::{Value, count_ones, is_trivial, require_little_endian, slice, value};
use crate::error::{Error, ErrorKind, Result};
use crate::map::ChangeCheck;
use crate::parallel;
use crate::types::{layout, type_name};

/// One column of a dataset, over one or many batches.
///
/// ```
/// use arrowwood::{Dataset, Value};
/// # use arrowwood::{CsvOptions, read_csv_from};
/// # let text = "symbol,price\nAAPL,223.02\nIBM,125.55\nMSFT,\n";
/// # let (schema, batches) = read_csv_from(text.as_bytes(), &CsvOptions::default())?;
/// # let dataset = Dataset::from_batches(schema, batches)?;
///
/// let prices = dataset.column("price")?;
/// assert!(matches!(prices.get(0)?, Value::Float64(223.02)));
/// assert_eq!((prices.len()?, prices.null_count()?), (3, 1));
/// assert!(matches!(prices.max()?, Value::Float64(223.02)));
/// for array in prices.chunks()? {
///     println!("{:?}", arrow_array::make_array(array)); // over the same memory
/// }
/// # Ok::<(), arrowwood::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Column {
    dataset: Dataset,
    field: FieldRef,
}

impl Column {
    pub(crate) fn new(dataset: Dataset) -> Result<Column> {
        match &dataset.schema().fields()[..] {
            [field] => Ok(Column { field: field.clone(), dataset }),
            fields => {
                Err(Error::invalid_argument(format!("a column is a dataset of one column, not {}", fields.len())))
            }
        }
    }

    /// Returns the name, type, nullability and metadata.
    pub fn field(&self) -> &FieldRef {
        &self.field
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.field.name()
    }

    /// Returns the type of the values.
    pub fn data_type(&self) -> &DataType {
        self.field.data_type()
    }

    /// Returns the number of rows.
    ///
    /// # Errors
    /// As [`Dataset::len`].
    pub fn len(&self) -> Result<u64> {
        self.dataset.len()
    }

    /// Returns true if there are no rows.
    ///
    /// # Errors
    /// As [`Dataset::len`].
    pub fn is_empty(&self) -> Result<bool> {
        self.dataset.is_empty()
    }

    /// Returns the column as a dataset of one column.
    pub fn as_dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// Returns the value of row number `row`, counted from 0.
    ///
    /// # Errors
    /// As [`Dataset::row`].
    pub fn get(&self, row: u64) -> Result<Value<'_>> {
        self.dataset.row(row)?.get(0)
    }

    /// Returns rows `start .. start + len`, or as many of them as there are.
    ///
    /// # Errors
    /// As [`Dataset::len`].
    pub fn slice(&self, start: u64, len: u64) -> Result<Column> {
        Column::new(self.dataset.slice(start, len)?)
    }

    /// Returns an iterator over all values, in order.
    ///
    /// # Errors
    /// Per value: `InvalidData` if it is damaged.
    pub fn values(&self) -> impl Iterator<Item = Result<Value<'_>>> {
        self.dataset.rows().map(|row| row?.get(0))
    }

    /// Returns the number of values that are not null.
    ///
    /// # Errors
    /// As [`Column::null_count`].
    pub fn count(&self) -> Result<u64> {
        Ok(self.len()? - self.null_count()?)
    }

    /// Returns the number of rows for which [`Column::get`] returns null, or a union with a null member.
    ///
    /// They are counted in the bitmaps, and where dictionaries, runs or unions contain nulls, in their values.
    ///
    /// # Errors
    /// `InvalidData` for a damaged value.
    pub fn null_count(&self) -> Result<u64> {
        let counts = self.with_change_check(|| self.map_chunks(nulls_among))?;
        // Null columns and runs may claim more rows than can be added up.
        Ok(counts.into_iter().fold(0, |sum, nulls| sum.saturating_add(nulls as u64)))
    }

    /// Returns the column as arrays, one per batch, with checked values and without a copy.
    ///
    /// Buffers stay at their place in the file and may be unaligned for their type, which typed arrays of arrow-rs do
    /// not accept. [`ArrayData::align_buffers`] copies unaligned buffers.
    ///
    /// # Errors
    /// `InvalidData` naming batch, column, row and what was expected.
    pub fn chunks(&self) -> Result<Vec<ArrayData>> {
        require_little_endian("making arrays of a column")?;
        self.with_change_check(|| self.map_chunks(|array, rows| Ok(slice(array, rows.start, rows.len()))))
    }

    /// Runs `work` on the column, then checks that its files have not changed.
    pub(crate) fn with_change_check<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.dataset.with_change_check(ChangeCheck::Now, work)
    }

    /// Runs `work` on the rows of each batch in parallel, with checked values; results in order.
    pub(crate) fn map_chunks<'a, T: Send>(
        &'a self,
        work: impl Fn(&'a ArrayData, Range<usize>) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        self.each_part(|part| work(part.checked(part.piece.columns[0])?, part.rows.clone()))
    }

    /// Runs `work` on each batch in parallel; results in order.
    pub(crate) fn each_part<'a, T: Send>(
        &'a self,
        work: impl Fn(BatchSlice<'a>) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        /// How much less the bytes of numbers count: those that are in place are not read, which is only known
        /// afterwards.
        const TRIVIAL_DISCOUNT: usize = 8;
        let discount = if is_trivial(self.data_type()) { TRIVIAL_DISCOUNT } else { 1 };
        // Counting rows would take a walk, which is better done while batches are decoded.
        let Footprint { mapped, copied } = self.dataset.footprint();
        let bytes = usize::try_from(mapped.saturating_add(copied)).unwrap_or(usize::MAX) / discount;
        let width = self.bytes_per_row();
        parallel::try_map(
            self.dataset.parts(),
            bytes,
            |part| part.rows.len().saturating_mul(width) / discount,
            work,
            || (),
        )
    }

    /// Returns the approximate number of bytes per row.
    pub(crate) fn bytes_per_row(&self) -> usize {
        /// An estimate of the bytes of a text, or of a row's children.
        const VARIABLE_BYTES: usize = 16;
        let fixed: usize = layout(self.data_type()).value_roles().filter_map(|role| role.bytes_for(1)).sum();
        if is_trivial(self.data_type()) { fixed } else { fixed + VARIABLE_BYTES }
    }

    /// Returns the error for an operation that this type does not support.
    pub(crate) fn unsupported_operation(&self, what: &str) -> Error {
        let name = self.name();
        let data_type = type_name(self.data_type());
        Error::new(ErrorKind::Unsupported, format!("{what} of column '{name}' of type {data_type} is not supported"))
    }
}

/// Counts the `rows` for which [`Column::get`] returns null.
fn nulls_among(array: &ArrayData, rows: Range<usize>) -> Result<usize> {
    let nested = array.child_data().last().is_some_and(may_have_nulls);
    match array.data_type() {
        DataType::Null => Ok(rows.len()),
        DataType::RunEndEncoded(..) if nested => nulls_in_runs(array, rows),
        DataType::Dictionary(..) if nested => count(rows, |row| is_null_at(array, row)),
        DataType::Union(..) => count(rows, |row| is_null_at(array, row)),
        _ => Ok(match array.nulls() {
            Some(nulls) if rows.len() == array.len() => nulls.null_count(),
            Some(nulls) => rows.len() - count_ones(&nulls.inner().slice(rows.start, rows.len())),
            None => 0,
        }),
    }
}

fn may_have_nulls(array: &ArrayData) -> bool {
    match array.data_type() {
        DataType::Null | DataType::Union(..) => true,
        DataType::Dictionary(..) | DataType::RunEndEncoded(..) => {
            array.nulls().is_some() || array.child_data().last().is_some_and(may_have_nulls)
        }
        _ => array.nulls().is_some(),
    }
}

fn count(rows: Range<usize>, is_null: impl Fn(usize) -> Result<bool>) -> Result<usize> {
    rows.into_iter().try_fold(0, |count, row| Ok(count + usize::from(is_null(row)?)))
}

fn is_null_at(array: &ArrayData, row: usize) -> Result<bool> {
    Ok(value(array, row)?.is_null())
}

/// Counts nulls run by run, as there may be too many rows to visit.
fn nulls_in_runs(array: &ArrayData, rows: Range<usize>) -> Result<usize> {
    debug_assert!(rows.start <= rows.end && rows.end <= array.len(), "rows of the array");
    let [run_ends, values] = array.child_data() else {
        return Err(Error::internal("an array of runs without run ends and values"));
    };
    let mut position = array.offset() + rows.start;
    let end = array.offset() + rows.end;
    let mut nulls = 0;
    for run in 0..run_ends.len() {
        let Value::Int(run_end) = value(run_ends, run)? else {
            return Err(Error::internal("a run end that is not an integer"));
        };
        let run_end = usize::try_from(run_end).map_err(|_| Error::internal("a negative run end in a checked array"))?;
        let run_end = run_end.clamp(position, end);
        if run_end > position && is_null_at(values, run)? {
            nulls += run_end - position;
        }
        position = run_end;
    }
    Ok(nulls)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::{Int8Type, Int32Type};
    use arrow_array::{
        Array, ArrayRef, DictionaryArray, Int8Array, Int32Array, NullArray, RecordBatch, RunArray, StringArray,
        UnionArray,
    };
    use arrow_schema::{Field, UnionFields};
    use proptest::prelude::*;

    use super::*;

    fn column(array: ArrayRef) -> Column {
        let batch = RecordBatch::try_from_iter_with_nullable([("c", array, true)]).unwrap();
        Dataset::try_from(vec![batch]).unwrap().column("c").unwrap()
    }

    fn dictionary(keys: &[Option<i8>]) -> ArrayRef {
        let values = StringArray::from(vec![Some("a"), None, Some("c")]);
        Arc::new(DictionaryArray::<Int8Type>::new(Int8Array::from(keys.to_vec()), Arc::new(values)))
    }

    fn runs(values: &ArrayRef) -> ArrayRef {
        let ends = (1..=values.len()).map(|run| (run * (run + 1) / 2) as i32);
        Arc::new(RunArray::<Int32Type>::try_new(&Int32Array::from_iter_values(ends), values).unwrap())
    }

    fn union(members: &[Option<i8>], dense: bool) -> ArrayRef {
        let field = |id: i8| (id, Arc::new(Field::new(format!("m{id}"), arrow_schema::DataType::Int8, true)));
        let fields: UnionFields = [field(0), field(1)].into_iter().collect();
        let ids: Vec<i8> = (0..members.len()).map(|row| (row % 2) as i8).collect();
        let offsets = dense.then(|| (0..members.len() as i32).rev().collect());
        let child = || Arc::new(Int8Array::from(members.to_vec())) as ArrayRef;
        Arc::new(UnionArray::try_new(fields, ids.into(), offsets, vec![child(), child()]).unwrap())
    }

    proptest! {
        #[test]
        fn nulls_equal_nulls_of_get(
            keys in prop::collection::vec(prop::option::of(0i8..3), 1..40), start in 0u64..30, len in 0u64..200,
        ) {
            let plain: ArrayRef = Arc::new(Int8Array::from(keys.clone()));
            let all = vec![
                plain.clone(), runs(&plain), dictionary(&keys), runs(&dictionary(&keys)), union(&keys, true),
                union(&keys, false), Arc::new(NullArray::new(keys.len())), runs(&union(&keys, false)),
            ];
            for array in all {
                let column = column(array).slice(start, len).unwrap();
                let naive = column.values().filter(|value| value.as_ref().unwrap().is_null()).count() as u64;
                prop_assert_eq!(column.null_count().unwrap(), naive, "{}", column.data_type());
                prop_assert_eq!(column.count().unwrap(), column.len().unwrap() - naive);
            }
        }
    }
}
