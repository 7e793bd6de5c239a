//! Sorts rows by the values of columns.
//!
//! Each column is loaded as a [`SortKey`]: a value for each row that is quickly compared. Rows are then sorted by
//! number, and rows that are equal in all keys are compared by their numbers, so that the unstable sort of the standard
//! library keeps their order.

use std::cmp::Ordering;

use arrow_buffer::i256;
use arrow_schema::DataType;

use super::group::{KeyPart, is_key_type, is_stored_as_integer, key_part};
use super::kernels::{
    GroupedRows, ONLY_GROUP, for_each_decimal, for_each_float, for_each_integer, is_number, with_decoded_rows,
};
use super::scan::{Categories, Frame};
use super::view::{RowOrder, reordered_view, try_collect};
use crate::array::{require_little_endian, room_for};
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::map::ChangeCheck;
use crate::types::type_name;

/// # Sorted rows
impl Dataset {
    /// Returns all rows in the order of the columns `by`.
    ///
    /// Each is given by its name, and true if its values descend. Rows that are equal in all of these columns keep
    /// their order. Nulls come last, behind NaN, whether values ascend or descend. Text has the order of its bytes, and
    /// ordered categories have their own order.
    ///
    /// The result is a view of four or eight bytes a row: [`row`](Dataset::row) reads a row in place; columns used as a
    /// whole are gathered, in batches of at most 65,536 rows, and cached by the view. Sorting itself takes eight bytes
    /// a row for each column, 16 for text, or 32 for wide decimals.
    ///
    /// ```
    /// # use arrowwood::{CsvOptions, Dataset, Value, read_csv_from};
    /// # let text = "symbol,price\nAAPL,223.02\nIBM,125.55\nMSFT,28.8\n";
    /// # let (schema, batches) = read_csv_from(text.as_bytes(), &CsvOptions::default())?;
    /// # let dataset = Dataset::from_batches(schema, batches)?;
    /// let dearest_first = dataset.sort(&[("price", true)])?;
    /// assert!(matches!(dearest_first.row(0)?.get(0)?, Value::Str("AAPL")));
    /// # Ok::<(), arrowwood::Error>(())
    /// ```
    ///
    /// # Errors
    /// `ColumnNotFound`; `InvalidArgument` without columns; `Unsupported` for columns of nested types.
    pub fn sort<N: AsRef<str>>(&self, by: &[(N, bool)]) -> Result<Dataset> {
        match sorted_rows(self, by)? {
            Some(order) => reordered_view(self, order),
            None => Ok(self.clone()),
        }
    }

    /// Returns the numbers of the rows in the order of [`sort`](Dataset::sort), counted from the dataset's first row.
    ///
    /// # Errors
    /// As [`Dataset::sort`].
    pub fn sort_indices<N: AsRef<str>>(&self, by: &[(N, bool)]) -> Result<Vec<u64>> {
        match sorted_rows(self, by)? {
            Some(order) => order.into_row_numbers(),
            None => try_collect(0..self.len()?),
        }
    }
}

/// Returns the order of the rows; `None` if no column can change it, such as a column of nulls.
fn sorted_rows<N: AsRef<str>>(dataset: &Dataset, by: &[(N, bool)]) -> Result<Option<RowOrder>> {
    if by.is_empty() {
        return Err(Error::invalid_argument("sort needs the name of a column"));
    }
    let columns = by.iter().map(|(name, _)| dataset.index_of(name.as_ref())).collect::<Result<Vec<_>>>()?;
    require_little_endian("sorting")?;
    dataset.with_change_check(ChangeCheck::Now, || {
        let frame = Frame::try_new(dataset)?;
        let mut keys = Vec::with_capacity(columns.len());
        for (&column, (_, descends)) in columns.iter().zip(by) {
            // Such a column may have more rows than there is memory for their numbers.
            if !has_one_value(&frame, column, dataset.schema().field(column).data_type())? {
                keys.push(SortKey::load(dataset, &frame, column, *descends)?);
            }
        }
        if keys.is_empty() { Ok(None) } else { sort_by_keys(&keys, frame.num_rows()).map(Some) }
    })
}

/// Returns true if all values of a column are the same, as its type has one value only.
fn has_one_value(frame: &Frame<'_>, column: usize, data_type: &DataType) -> Result<bool> {
    match data_type {
        DataType::Null => Ok(true),
        DataType::FixedSizeBinary(0) => {
            for part in 0..frame.num_parts() {
                if frame.checked(part, column)?.nulls().is_some() {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// The values of a column, one for each row.
struct SortKey<'a> {
    /// The values, which are arbitrary for nulls.
    values: SortValues<'a>,
    is_null: Vec<bool>,
    /// True if greater values come first.
    descends: bool,
}

/// Values to sort by, in a form that is quickly compared.
enum SortValues<'a> {
    /// Numbers of up to 64 bits, as words with the same order. The word of NaN depends on the direction, so that NaN
    /// comes last in either.
    Words(Vec<u64>),
    /// Integers or digits of more than 64 bits.
    Wide(Vec<i256>),
    /// Texts or bytes.
    Texts(Vec<&'a [u8]>),
}

impl<'a> SortKey<'a> {
    /// Loads column number `column`.
    ///
    /// # Errors
    /// `Unsupported` for types without an order; `Io` if memory has no room for the values.
    fn load(dataset: &Dataset, frame: &Frame<'a>, column: usize, descends: bool) -> Result<SortKey<'a>> {
        let field = dataset.schema().field(column);
        if let Some(categories) = Categories::load(dataset, column)? {
            return SortKey::from_categories(&categories, frame, column, descends);
        }
        let data_type = match field.data_type() {
            DataType::Dictionary(_, values) => values.as_ref(),
            data_type => data_type,
        };
        if matches!(data_type, DataType::Interval(_)) || !is_key_type(field.data_type()) {
            return Err(Error::unsupported(format!(
                "sorting by column '{}' of type {} is not supported",
                field.name(),
                type_name(field.data_type())
            )));
        }

        let mut is_null = room_for(frame.num_rows(), "rows to sort")?;
        let values = if matches!(data_type, DataType::Decimal128(..) | DataType::Decimal256(..)) {
            let mut digits = room_for(frame.num_rows(), "values to sort by")?;
            for_each_batch(frame, column, &mut is_null, |rows| for_each_decimal(rows, |_, value| digits.push(value)))?;
            SortValues::Wide(digits)
        } else if data_type.is_floating() {
            let mut words = room_for(frame.num_rows(), "values to sort by")?;
            for_each_batch(frame, column, &mut is_null, |rows| {
                for_each_float(rows, |_, _, number| words.push(float_to_word(number, descends)))
            })?;
            SortValues::Words(words)
        } else if is_stored_as_integer(data_type) || is_number(data_type) {
            let mut words = room_for(frame.num_rows(), "values to sort by")?;
            let min = if data_type.is_unsigned_integer() { 0 } else { i128::from(i64::MIN) };
            for_each_batch(frame, column, &mut is_null, |rows| {
                for_each_integer(rows, |_, _, number| words.push((number - min) as u64))
            })?;
            SortValues::Words(words)
        } else {
            SortValues::Texts(load_texts(frame, column, &mut is_null)?)
        };
        let key = SortKey { values, is_null, descends };
        key.assert_complete(frame.num_rows());
        Ok(key)
    }

    /// Creates the key of a column of ordered categories, by their ranks.
    fn from_categories(
        categories: &Categories,
        frame: &Frame<'a>,
        column: usize,
        descends: bool,
    ) -> Result<SortKey<'a>> {
        let mut words = room_for(frame.num_rows(), "values to sort by")?;
        let mut is_null = room_for(frame.num_rows(), "rows to sort")?;
        for part in 0..frame.num_parts() {
            let ranks = categories.ranks_of(frame.checked(part, column)?)?;
            for row in frame.rows_of(part) {
                let rank = ranks.rank(row)?;
                is_null.push(rank.is_none());
                words.push(rank.map_or(NULL_WORD, |rank| rank as u64));
            }
        }
        let key = SortKey { values: SortValues::Words(words), is_null, descends };
        key.assert_complete(frame.num_rows());
        Ok(key)
    }

    /// Panics unless there is a value for each row: a missing one would shift the order of all rows after it.
    fn assert_complete(&self, rows: u64) {
        let values = match &self.values {
            SortValues::Words(words) => words.len(),
            SortValues::Wide(digits) => digits.len(),
            SortValues::Texts(texts) => texts.len(),
        };
        assert!(values as u64 == rows, "{values} values to sort {rows} rows by");
        assert!(self.is_null.len() as u64 == rows, "{} marks of nulls for {rows} rows", self.is_null.len());
    }

    /// Compares the values of rows `a` and `b`.
    fn compare(&self, a: usize, b: usize) -> Ordering {
        let nulls = self.is_null[a].cmp(&self.is_null[b]);
        if nulls.is_ne() || self.is_null[a] {
            return nulls;
        }
        let order = match &self.values {
            SortValues::Words(words) => words[a].cmp(&words[b]),
            SortValues::Wide(digits) => digits[a].cmp(&digits[b]),
            SortValues::Texts(texts) => texts[a].cmp(texts[b]),
        };
        if self.descends { order.reverse() } else { order }
    }
}

/// The word of a null. Any value does, as nulls are compared by `is_null`.
const NULL_WORD: u64 = 0;

/// Calls `add` with the rows of each batch, all of them in group 1, and appends which are null to `is_null`.
fn for_each_batch(
    frame: &Frame<'_>,
    column: usize,
    is_null: &mut Vec<bool>,
    mut add: impl FnMut(&GroupedRows<'_>) -> Result<()>,
) -> Result<()> {
    for part in 0..frame.num_parts() {
        let array = frame.checked(part, column)?;
        let rows = frame.rows_of(part);
        with_decoded_rows(array, rows, |array, rows| {
            let nulls = array.nulls();
            is_null.extend(rows.clone().map(|row| nulls.is_some_and(|nulls| nulls.is_null(row))));
            let mut ids = room_for(rows.len() as u64, "rows to sort")?;
            ids.resize(rows.len(), ONLY_GROUP);
            add(&GroupedRows { array, rows, ids: &ids, lane: 0, is_sparse: false })
        })?;
    }
    Ok(())
}

/// Returns the text of each row, empty for nulls, and appends which are null to `is_null`.
fn load_texts<'a>(frame: &Frame<'a>, column: usize, is_null: &mut Vec<bool>) -> Result<Vec<&'a [u8]>> {
    let mut texts: Vec<&[u8]> = room_for(frame.num_rows(), "values to sort by")?;
    for part in 0..frame.num_parts() {
        let array = frame.checked(part, column)?;
        for row in frame.rows_of(part) {
            match key_part(array, row)? {
                KeyPart::Bytes(bytes) => {
                    is_null.push(false);
                    texts.push(bytes);
                }
                KeyPart::Null => {
                    is_null.push(true);
                    texts.push(&[]);
                }
                KeyPart::Word(_) => return Err(Error::internal("text that is a number")),
            }
        }
    }
    Ok(texts)
}

/// Converts a float to a word with the same order. Both zeros are one, and NaN is last in either order.
fn float_to_word(number: f64, descends: bool) -> u64 {
    /// The bit of the sign.
    const SIGN: u64 = 1 << 63;
    if number.is_nan() {
        return if descends { 0 } else { u64::MAX };
    }
    let bits = (number + 0.0).to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

/// Returns the numbers of the rows in the order of the keys.
fn sort_by_keys(keys: &[SortKey<'_>], rows: u64) -> Result<RowOrder> {
    let rows = usize::try_from(rows).map_err(|_| Error::unsupported("sorting more rows than there is memory for"))?;
    if let [SortKey { values: SortValues::Words(words), is_null, descends }] = keys
        && !is_null.contains(&true)
    {
        let flip = if *descends { u64::MAX } else { 0 };
        let mut pairs: Vec<(u64, u64)> = try_collect((0..rows).map(|row| (words[row] ^ flip, row as u64)))?;
        pairs.sort_unstable();
        return RowOrder::try_from_rows(rows as u64, pairs.into_iter().map(|(_, row)| row));
    }
    if u32::try_from(rows).is_ok() {
        let mut order: Vec<u32> = try_collect(0..rows as u32)?;
        order.sort_unstable_by(|&a, &b| compare_rows(keys, a as usize, b as usize));
        return Ok(RowOrder::Short(order));
    }
    let mut order: Vec<u64> = try_collect(0..rows as u64)?;
    order.sort_unstable_by(|&a, &b| compare_rows(keys, a as usize, b as usize));
    Ok(RowOrder::Long(order))
}

/// Compares two rows by the first key in which they differ, or by their numbers.
#[inline]
fn compare_rows(keys: &[SortKey<'_>], a: usize, b: usize) -> Ordering {
    let unequal = keys.iter().map(|key| key.compare(a, b)).find(|order| order.is_ne());
    unequal.unwrap_or_else(|| a.cmp(&b))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::*;
    use proptest::prelude::*;

    use super::*;

    type TestRow = (Option<i8>, Option<f64>, Option<String>, Option<u8>);

    fn dataset(rows: &[TestRow], cut: usize) -> Dataset {
        let batch = |rows: &[TestRow]| {
            let words = ["b", "a", "", "aa"].map(Some);
            let keys: Int8Array = rows.iter().map(|row| row.3.map(|key| (key % 4) as i8)).collect();
            let names = DictionaryArray::new(keys, Arc::new(StringArray::from(words.to_vec())));
            let decimals = rows.iter().map(|row| row.0.map(i128::from)).collect::<Decimal128Array>();
            RecordBatch::try_from_iter_with_nullable([
                ("int", Arc::new(rows.iter().map(|row| row.0).collect::<Int8Array>()) as ArrayRef, true),
                ("float", Arc::new(rows.iter().map(|row| row.1).collect::<Float64Array>()) as ArrayRef, true),
                ("text", Arc::new(rows.iter().map(|row| row.2.as_deref()).collect::<StringArray>()) as ArrayRef, true),
                ("name", Arc::new(names) as ArrayRef, true),
                ("decimal", Arc::new(decimals) as ArrayRef, true),
                ("byte", Arc::new(rows.iter().map(|row| row.3).collect::<UInt8Array>()) as ArrayRef, true),
            ])
            .unwrap()
        };
        let (first, second) = rows.split_at(cut % (rows.len() + 1));
        Dataset::try_from(vec![batch(first), batch(second)]).unwrap()
    }

    /// Compares two rows as documented: NaN follows all other values, and nulls follow NaN.
    fn naive(column: &str, descends: bool, a: &TestRow, b: &TestRow) -> Ordering {
        fn last<T>(a: Option<T>, b: Option<T>, descends: bool, order: impl Fn(&T, &T) -> Ordering) -> Ordering {
            match (a, b) {
                (None, None) => Ordering::Equal,
                (None, _) => Ordering::Greater,
                (_, None) => Ordering::Less,
                (Some(a), Some(b)) if descends => order(&b, &a),
                (Some(a), Some(b)) => order(&a, &b),
            }
        }
        let word = |row: &TestRow| row.3.map(|key| ["b", "a", "", "aa"][usize::from(key % 4)]);
        match column {
            "int" | "decimal" => last(a.0, b.0, descends, i8::cmp),
            "byte" => last(a.3, b.3, descends, u8::cmp),
            "text" => last(a.2.clone(), b.2.clone(), descends, String::cmp),
            "name" => last(word(a), word(b), descends, |a, b| a.cmp(b)),
            _ => {
                let rank = |row: &TestRow| row.1.map_or(2, |number| u8::from(number.is_nan()));
                let number = |row: &TestRow| row.1.filter(|number| !number.is_nan());
                let order = |a: &f64, b: &f64| a.partial_cmp(b).unwrap();
                rank(a).cmp(&rank(b)).then(last(number(a), number(b), descends, order))
            }
        }
    }

    proptest! {
        #[test]
        fn rows_are_sorted_by_their_values(
            rows in prop::collection::vec(
                (
                    prop::option::of(-2i8..3),
                    prop::option::of(
                        prop_oneof![Just(f64::NAN), Just(-0.0), Just(0.0), Just(f64::INFINITY), -1.0..1.0f64],
                    ),
                    prop::option::of("[ab]{0,2}"),
                    prop::option::of(any::<u8>()),
                ),
                0..40,
            ),
            by in prop::collection::vec((0usize..6, any::<bool>()), 1..4),
            cut in any::<usize>(),
        ) {
            let names = ["int", "float", "text", "name", "decimal", "byte"];
            let by: Vec<(&str, bool)> = by.into_iter().map(|(column, descends)| (names[column], descends)).collect();
            let mut expected: Vec<usize> = (0..rows.len()).collect();
            expected.sort_by(|&a, &b| {
                let orders = by.iter().map(|(column, descends)| naive(column, *descends, &rows[a], &rows[b]));
                orders.fold(Ordering::Equal, Ordering::then)
            });
            let dataset = dataset(&rows, cut);
            let sorted = dataset.sort(&by).unwrap();
            prop_assert_eq!(sorted.len().unwrap(), rows.len() as u64);
            for (row, &own) in expected.iter().enumerate() {
                let text = |dataset: &Dataset, row: usize| {
                    let row = dataset.row(row as u64).unwrap();
                    row.iter().map(|(_, value)| value.unwrap().to_string()).collect::<Vec<_>>()
                };
                prop_assert_eq!(text(&sorted, row), text(&dataset, own));
            }
            // Gathers a whole column.
            let int_column = sorted.column("int").unwrap();
            let ints: Vec<String> = int_column.values().map(|value| value.unwrap().to_string()).collect();
            prop_assert_eq!(int_column.count().unwrap(), rows.iter().filter(|row| row.0.is_some()).count() as u64);
            prop_assert_eq!(ints.len(), rows.len());
        }
    }

    #[test]
    fn sorting_by_a_list_a_missing_column_or_none_is_an_error() {
        let none: &[(&str, bool)] = &[];
        let lists: ArrayRef =
            Arc::new(ListArray::new_null(Arc::new(arrow_schema::Field::new("item", DataType::Int8, true)), 2));
        let dataset = Dataset::try_from(vec![RecordBatch::try_from_iter([("lists", lists)]).unwrap()]).unwrap();
        assert!(dataset.sort(&[("lists", false)]).unwrap_err().to_string().contains("sorting by column 'lists'"));
        assert!(dataset.sort(none).is_err() && dataset.sort(&[("other", true)]).is_err());
    }
}
