//! `sort`: the rows in the order of columns' values.

use std::cmp::Ordering;

use arrow_buffer::i256;
use arrow_schema::DataType;

use super::frame::Frame;
use super::group::{KeyPart, is_key_type, is_stored_as_integer, key_part};
use super::reduce::{GroupedRows, for_each_decimal, for_each_float, for_each_integer, is_number, with_decoded_rows};
use super::select::{Categories, RowOrder, reordered_view, try_collect};
use crate::array::room_for;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::map::ChangeCheck;
use crate::types::type_name;

impl Dataset {
    /// All rows in the order of the columns `by`, each with whether its values descend; rows that are equal in all of
    /// them stay in their order. Nulls are last, behind NaN, either way. Text is in the order of its bytes, and
    /// ordered categories are in theirs.
    ///
    /// The result is a view of four or eight bytes a row: [`row`](Dataset::row) reads a row in place; columns used as a
    /// whole are gathered, in batches of at most 65,536 rows, and cached by the view. Sorting itself takes eight bytes a
    /// row for each column, 16 for text, or 32 for wide decimals.
    ///
    /// # Errors
    /// `ColumnNotFound`; `InvalidArgument` without columns; `Unsupported` for columns of nested types.
    pub fn sort<N: AsRef<str>>(&self, by: &[(N, bool)]) -> Result<Dataset> {
        match self.sorted_rows(by)? {
            Some(order) => reordered_view(self, order),
            None => Ok(self.clone()),
        }
    }

    /// The numbers of the rows in the order of [`sort`](Dataset::sort), counted from the dataset's first row.
    ///
    /// # Errors
    /// As [`Dataset::sort`].
    #[doc(hidden)]
    pub fn sort_indices<N: AsRef<str>>(&self, by: &[(N, bool)]) -> Result<Vec<u64>> {
        match self.sorted_rows(by)? {
            Some(order) => order.into_row_numbers(),
            None => try_collect(0..self.len()?),
        }
    }

    /// The order of the rows; `None` where it is the one they have, as of columns of nulls.
    fn sorted_rows<N: AsRef<str>>(&self, by: &[(N, bool)]) -> Result<Option<RowOrder>> {
        if by.is_empty() {
            return Err(Error::invalid_argument("sort needs the name of a column"));
        }
        let columns = by.iter().map(|(name, _)| self.index_of(name.as_ref())).collect::<Result<Vec<_>>>()?;
        self.with_change_check(ChangeCheck::Now, || {
            let frame = Frame::try_new(self)?;
            let mut keys = Vec::with_capacity(columns.len());
            for (&column, (_, descends)) in columns.iter().zip(by) {
                // There may be more of them than memory for their numbers.
                if !are_alike(&frame, column, self.schema().field(column).data_type())? {
                    keys.push(SortKey::load(self, &frame, column, *descends)?);
                }
            }
            if keys.is_empty() { Ok(None) } else { sorted(&keys, frame.num_rows()).map(Some) }
        })
    }
}

/// Whether all values of a column are one, as its type allows no others.
fn are_alike(frame: &Frame<'_>, column: usize, data_type: &DataType) -> Result<bool> {
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
    values: SortValues<'a>,
    is_null: Vec<bool>,
    descends: bool,
}

enum SortValues<'a> {
    /// Numbers of up to 64 bits, in an order-preserving form; NaN is the largest of either order.
    Words(Vec<u64>),
    Wide(Vec<i256>),
    Texts(Vec<&'a [u8]>),
}

impl<'a> SortKey<'a> {
    fn load(dataset: &Dataset, frame: &Frame<'a>, column: usize, descends: bool) -> Result<SortKey<'a>> {
        let field = dataset.schema().field(column);
        let data_type = match field.data_type() {
            DataType::Dictionary(_, values) => values.as_ref(),
            own => own,
        };
        if let Some(categories) = Categories::load(dataset, column)? {
            return SortKey::from_categories(&categories, frame, column, descends);
        }
        let wide = matches!(data_type, DataType::Decimal128(..) | DataType::Decimal256(..));
        let is_no_order = matches!(data_type, DataType::Interval(_));
        let mut is_null = room_for(frame.num_rows(), "rows to sort")?;
        let values = if is_no_order || !is_key_type(field.data_type()) {
            let shown = type_name(field.data_type());
            return Err(Error::unsupported(format!(
                "sorting by column '{}' of type {shown} is not supported",
                field.name()
            )));
        } else if wide {
            let mut found = room_for(frame.num_rows(), "values to sort by")?;
            let add = |rows: &GroupedRows<'_>| for_each_decimal(rows, |_, digits| found.push(digits));
            numbers(frame, column, &mut is_null, add)?;
            SortValues::Wide(found)
        } else if data_type.is_floating() {
            let mut found = room_for(frame.num_rows(), "values to sort by")?;
            let add =
                |rows: &GroupedRows<'_>| for_each_float(rows, |_, _, number| found.push(float_word(number, descends)));
            numbers(frame, column, &mut is_null, add)?;
            SortValues::Words(found)
        } else if is_stored_as_integer(data_type) || is_number(data_type) {
            let mut found = room_for(frame.num_rows(), "values to sort by")?;
            let least = if data_type.is_unsigned_integer() { 0 } else { i128::from(i64::MIN) };
            let add =
                |rows: &GroupedRows<'_>| for_each_integer(rows, |_, _, number| found.push((number - least) as u64));
            numbers(frame, column, &mut is_null, add)?;
            SortValues::Words(found)
        } else {
            SortValues::Texts(texts(frame, column, &mut is_null)?)
        };
        Ok(SortKey { values, is_null, descends })
    }

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
                words.push(rank.unwrap_or_default() as u64);
            }
        }
        Ok(SortKey { values: SortValues::Words(words), is_null, descends })
    }

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

/// Calls `add` with the rows of each batch, all of them of group 1, and notes which are null.
fn numbers(
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
            ids.resize(rows.len(), 1);
            add(&GroupedRows { array, rows, ids: &ids, lane: 0, is_sparse: false })
        })?;
    }
    Ok(())
}

fn texts<'a>(frame: &Frame<'a>, column: usize, is_null: &mut Vec<bool>) -> Result<Vec<&'a [u8]>> {
    let mut found = room_for(frame.num_rows(), "values to sort by")?;
    for part in 0..frame.num_parts() {
        let array = frame.checked(part, column)?;
        for row in frame.rows_of(part) {
            let text = match key_part(array, row)? {
                KeyPart::Bytes(bytes) => Some(bytes),
                KeyPart::Null => None,
                KeyPart::Word(_) => return Err(Error::internal("text that is a number")),
            };
            is_null.push(text.is_none());
            found.push(text.unwrap_or_default());
        }
    }
    Ok(found)
}

/// A number whose order is that of floats; both zeros are one, and NaN is last in either order.
fn float_word(number: f64, descends: bool) -> u64 {
    const SIGN: u64 = 1 << 63;
    if number.is_nan() {
        return if descends { 0 } else { u64::MAX };
    }
    let bits = (number + 0.0).to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

/// The numbers of the rows in the order of the keys.
fn sorted(keys: &[SortKey<'_>], rows: u64) -> Result<RowOrder> {
    let rows = usize::try_from(rows).map_err(|_| Error::unsupported("sorting more rows than there is memory for"))?;
    debug_assert!(keys.iter().all(|key| key.is_null.len() == rows));
    if let [SortKey { values: SortValues::Words(words), is_null, descends }] = keys
        && !is_null.contains(&true)
    {
        let word = |row: usize| if *descends { !words[row] } else { words[row] };
        let mut pairs: Vec<(u64, u64)> = try_collect((0..rows).map(|row| (word(row), row as u64)))?;
        pairs.sort_unstable();
        return RowOrder::try_from_rows(rows as u64, pairs.into_iter().map(|(_, row)| row));
    }
    let compare = |a: usize, b: usize| {
        let unequal = keys.iter().map(|key| key.compare(a, b)).find(|order| order.is_ne());
        unequal.unwrap_or_else(|| a.cmp(&b))
    };
    if u32::try_from(rows).is_ok() {
        let mut order: Vec<u32> = try_collect(0..rows as u32)?;
        order.sort_unstable_by(|&a, &b| compare(a as usize, b as usize));
        return Ok(RowOrder::Short(order));
    }
    let mut order: Vec<u64> = try_collect(0..rows as u64)?;
    order.sort_unstable_by(|&a, &b| compare(a as usize, b as usize));
    Ok(RowOrder::Long(order))
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

    /// The order of two values as text says it, nulls behind NaN behind all else.
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
        fn rows_are_in_the_order_of_their_values(
            rows in prop::collection::vec(
                (
                    prop::option::of(-2i8..3),
                    prop::option::of(prop_oneof![Just(f64::NAN), Just(-0.0), Just(0.0), Just(f64::INFINITY), -1.0..1.0f64]),
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
            let found = dataset.sort(&by).unwrap();
            prop_assert_eq!(found.len().unwrap(), rows.len() as u64);
            for (row, &own) in expected.iter().enumerate() {
                let text = |dataset: &Dataset, row: usize| {
                    dataset.row(row as u64).unwrap().iter().map(|(_, value)| value.unwrap().to_string()).collect::<Vec<_>>()
                };
                prop_assert_eq!(text(&found, row), text(&dataset, own));
            }
            // As a whole, too, which gathers.
            let whole = found.column("int").unwrap();
            let ints: Vec<String> = whole.values().map(|value| value.unwrap().to_string()).collect();
            prop_assert_eq!(whole.count().unwrap(), rows.iter().filter(|row| row.0.is_some()).count() as u64);
            prop_assert_eq!(ints.len(), rows.len());
        }
    }

    #[test]
    fn what_has_no_order_is_refused() {
        let none: &[(&str, bool)] = &[];
        let lists: ArrayRef =
            Arc::new(ListArray::new_null(Arc::new(arrow_schema::Field::new("item", DataType::Int8, true)), 2));
        let dataset = Dataset::try_from(vec![RecordBatch::try_from_iter([("lists", lists)]).unwrap()]).unwrap();
        assert!(dataset.sort(&[("lists", false)]).unwrap_err().to_string().contains("sorting by column 'lists'"));
        assert!(dataset.sort(none).is_err() && dataset.sort(&[("other", true)]).is_err());
    }
}
