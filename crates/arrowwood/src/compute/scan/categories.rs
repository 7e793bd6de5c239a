//! Ranks ordered categories: dictionaries whose values have an order of their own, such as S < M < L.
//!
//! The batches of a column may have different dictionaries, if their orders do not contradict each other: these are
//! merged into one order, in which each category has a rank from 0.

use std::collections::HashMap;

use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::frame::{Frame, ValueOrder};
use crate::array::access::{dictionary_of, fixed_values};
use crate::array::merge_dictionaries::CategoryRanks;
use crate::array::{UncheckedArray, Value, key, value};
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::types::{has_bits, is_ordered};

/// The order of the categories of a column.
#[derive(Debug)]
pub(in crate::compute) struct Categories {
    /// The type of the categories.
    data_type: DataType,
    /// The dictionaries of the column's batches.
    dictionaries: Vec<ArrayData>,
    /// The numbers of the dictionaries, by the address of their values.
    numbers: HashMap<usize, Vec<usize>>,
    /// The rank of each value of each dictionary, and a value of each rank.
    ranks: CategoryRanks,
    /// The rank of each category as bytes with the same order.
    bytes: Vec<[u8; 8]>,
}

/// The ranks of an array's values.
pub(in crate::compute) struct ArrayRanks<'a> {
    array: &'a ArrayData,
    dictionary: &'a ArrayData,
    ranks: &'a [usize],
}

impl Categories {
    /// Loads the categories of column number `column`; `None` if it has no ordered ones.
    ///
    /// # Errors
    /// `InvalidArgument` if the orders of its batches contradict each other.
    pub(in crate::compute) fn load(dataset: &Dataset, column: usize) -> Result<Option<Categories>> {
        let field = dataset.schema().field(column);
        let DataType::Dictionary(_, values) = field.data_type() else { return Ok(None) };
        // Values without bytes are all equal.
        if !is_ordered(field) || !has_bits(values) {
            return Ok(None);
        }
        let dictionaries = load_dictionaries(&Frame::try_new(dataset)?, column)?;
        let unchecked: Vec<&UncheckedArray> = dictionaries.iter().map(UncheckedArray::from_ref).collect();
        let ranks =
            CategoryRanks::build(&unchecked).map_err(|e| e.context(format_args!("column '{}'", field.name())))?;
        assert!(ranks.ranks.len() == dictionaries.len(), "ranks of {} dictionaries", ranks.ranks.len());
        let bytes = (0..ranks.origins.len() as u64).map(u64::to_be_bytes).collect();
        let mut numbers: HashMap<usize, Vec<usize>> = HashMap::new();
        for (number, dictionary) in dictionaries.iter().enumerate() {
            numbers.entry(address(dictionary)).or_default().push(number);
        }
        Ok(Some(Categories { data_type: values.as_ref().clone(), dictionaries, numbers, ranks, bytes }))
    }

    /// Returns the ranks of the values of `array`, an array of the column.
    pub(in crate::compute) fn ranks_of<'a>(&'a self, array: &'a ArrayData) -> Result<ArrayRanks<'a>> {
        let dictionary = dictionary_of(array)?;
        for &number in self.numbers.get(&address(dictionary)).into_iter().flatten() {
            if UncheckedArray::from_ref(&self.dictionaries[number]).is_same(UncheckedArray::from_ref(dictionary)) {
                return Ok(ArrayRanks { array, dictionary, ranks: &self.ranks.ranks[number] });
            }
        }
        Err(Error::internal("a batch has another dictionary than before"))
    }

    /// Returns the type of the categories.
    pub(in crate::compute) fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Returns the number of categories.
    pub(in crate::compute) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the category with rank `rank`.
    pub(in crate::compute) fn value(&self, rank: usize) -> Result<Value<'_>> {
        let (number, key) = self.ranks.origins[rank];
        value(&self.dictionaries[number as usize], key)
    }

    /// Returns the value that tests compare: several dates in milliseconds may be on the same day.
    pub(in crate::compute) fn stored_value(&self, rank: usize) -> Result<Value<'_>> {
        let (number, key) = self.ranks.origins[rank];
        let dictionary = &self.dictionaries[number as usize];
        match self.data_type {
            DataType::Date64 if dictionary.is_valid(key) => {
                let millis = fixed_values(dictionary).get(key).map(|raw| i64::from_le_bytes(*raw));
                millis.map(Value::Int).ok_or_else(|| Error::internal("a category outside of its dictionary"))
            }
            _ => value(dictionary, key),
        }
    }
}

impl ArrayRanks<'_> {
    /// Returns the rank of the value of row `row`; `None` for null.
    pub(in crate::compute) fn rank(&self, row: usize) -> Result<Option<usize>> {
        if self.array.nulls().is_some_and(|nulls| nulls.is_null(row)) {
            return Ok(None);
        }
        let key = key(self.array, self.array.offset() + row)?;
        if self.dictionary.nulls().is_some_and(|nulls| nulls.is_null(key)) {
            return Ok(None);
        }
        match self.ranks.get(key) {
            Some(rank) => Ok(Some(*rank)),
            None => Err(Error::invalid("a key outside of its dictionary")),
        }
    }
}

impl ValueOrder for Categories {
    fn sort_key(&self, array: &ArrayData, row: usize) -> Result<Option<&[u8]>> {
        let rank = self.ranks_of(array)?.rank(row)?;
        Ok(rank.map(|rank| self.bytes[rank].as_slice()))
    }
}

/// Returns the dictionaries of a column; consecutive batches with the same dictionary count once.
fn load_dictionaries(frame: &Frame<'_>, column: usize) -> Result<Vec<ArrayData>> {
    if let Some(only) = frame.dictionary(column)? {
        return Ok(vec![only]);
    }
    let mut dictionaries: Vec<ArrayData> = Vec::new();
    for part in 0..frame.num_parts() {
        let dictionary = dictionary_of(frame.checked(part, column)?)?;
        let is_repeated = dictionaries
            .last()
            .is_some_and(|last| UncheckedArray::from_ref(last).is_same(UncheckedArray::from_ref(dictionary)));
        if !is_repeated {
            dictionaries.push(dictionary.clone());
        }
    }
    Ok(dictionaries)
}

/// Returns the address of a dictionary's values, by which it is found quickly; 0 if it has no buffer.
fn address(dictionary: &ArrayData) -> usize {
    dictionary.buffers().first().map_or(0, |buffer| buffer.as_ptr() as usize)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int8Type;
    use arrow_array::{ArrayRef, DictionaryArray, Int8Array, RecordBatch, StringArray};
    use arrow_schema::{Field, Schema, SchemaRef};
    use proptest::prelude::*;

    use super::*;
    use crate::{AggregateFunction, ErrorKind, col};

    const SIZES: [&str; 4] = ["S", "M", "L", "XL"];

    fn schema() -> SchemaRef {
        let data_type = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        let size = Field::new("size", data_type, true).with_dict_is_ordered(true);
        Arc::new(Schema::new(vec![size, Field::new("even", DataType::Boolean, false)]))
    }

    /// Returns rows of sizes, given by their rank, with a dictionary of these categories.
    fn batch(categories: &[&str], rows: &[Option<usize>], first: usize) -> RecordBatch {
        let key = |rank: usize| categories.iter().position(|name| *name == SIZES[rank]).unwrap() as i8;
        let keys: Int8Array = rows.iter().map(|row| row.map(key)).collect();
        let values = Arc::new(StringArray::from(categories.to_vec()));
        let sizes: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::new(keys, values));
        let even: arrow_array::BooleanArray = (first..first + rows.len()).map(|row| Some(row % 2 == 0)).collect();
        RecordBatch::try_new(schema(), vec![sizes, Arc::new(even)]).unwrap()
    }

    fn sizes(dataset: &Dataset) -> Vec<Option<usize>> {
        let rank = |value: Value<'_>| SIZES.iter().position(|name| *name == value.to_string());
        dataset.column("size").unwrap().values().map(|value| rank(value.unwrap())).collect()
    }

    proptest! {
        #[test]
        fn categories_are_in_their_order(
            rows in prop::collection::vec(prop::option::weighted(0.8, 0usize..4), 1..40),
            others in prop::collection::vec(prop::option::weighted(0.8, prop_oneof![Just(0usize), Just(2)]), 0..40),
            literal in 0usize..4,
        ) {
            // The second batch has fewer categories, in the same order.
            let batches = vec![batch(&SIZES, &rows, 0), batch(&["S", "L"], &others, rows.len())];
            let dataset = Dataset::from_batches(schema(), batches).unwrap();
            let all = [rows, others].concat();
            let name = SIZES[literal];
            let passing = |holds: &dyn Fn(usize) -> bool| -> Vec<Option<usize>> {
                all.iter().copied().filter(|row| row.is_some_and(holds)).collect()
            };
            prop_assert_eq!(sizes(&dataset.filter(&col("size").gt(name)).unwrap()), passing(&|rank| rank > literal));
            prop_assert_eq!(sizes(&dataset.filter(&col("size").le(name)).unwrap()), passing(&|rank| rank <= literal));
            prop_assert_eq!(sizes(&dataset.filter(&!col("size").lt(name)).unwrap()), passing(&|rank| rank >= literal));
            prop_assert_eq!(sizes(&dataset.filter(&col("size").eq(name)).unwrap()), passing(&|rank| rank == literal));

            let mut ordered = all.clone();
            ordered.sort_by_key(|row| (row.is_none(), *row));
            let sorted = dataset.sort(&[("size", false)]).unwrap();
            prop_assert_eq!(sizes(&sorted), ordered.clone());
            // Gathered batches keep the order, and so do copies.
            let large = sorted.filter(&col("size").ge("L")).unwrap();
            prop_assert_eq!(sizes(&large).len(), passing(&|rank| rank >= 2).len());
            let copy = dataset.collect().unwrap();
            prop_assert_eq!(sizes(&copy), all.clone());
            prop_assert_eq!(sizes(&copy.sort(&[("size", false)]).unwrap()), ordered);

            let name_of = |rank: Option<usize>| rank.map_or("null", |rank| SIZES[rank]).to_string();
            let column = dataset.column("size").unwrap();
            prop_assert_eq!(column.min().unwrap().to_string(), name_of(all.iter().flatten().min().copied()));
            prop_assert_eq!(column.max().unwrap().to_string(), name_of(all.iter().flatten().max().copied()));
            let aggregation = dataset.aggregate(&["even"]).column_as("least", "size", AggregateFunction::Min);
            let groups = aggregation.column_as("most", "size", AggregateFunction::Max).finish().unwrap();
            for row in groups.rows() {
                let row = row.unwrap();
                let is_even = matches!(row.get(0).unwrap(), Value::Bool(true));
                let ranks = || all.iter().skip(usize::from(!is_even)).step_by(2).flatten().copied();
                prop_assert_eq!(row.get(1).unwrap().to_string(), name_of(ranks().min()));
                prop_assert_eq!(row.get(2).unwrap().to_string(), name_of(ranks().max()));
            }
        }
    }

    #[test]
    fn unknown_categories_and_contradicting_orders_are_errors() {
        let rows = [Some(0), Some(2)];
        let dataset = Dataset::from_batches(schema(), vec![batch(&["S", "L"], &rows, 0)]).unwrap();
        let unknown = dataset.filter(&col("size").gt("M")).unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::InvalidArgument);
        assert!(unknown.message().contains("\"M\" is none of its ordered categories S < L"), "{unknown}");
        assert_eq!(dataset.filter(&col("size").eq("M")).unwrap().len().unwrap(), 0);
        let turned = Dataset::from_batches(schema(), vec![batch(&["S", "L"], &rows, 0), batch(&["L", "S"], &rows, 2)]);
        let turned = turned.unwrap();
        for refused in [
            turned.sort(&[("size", false)]).map(drop),
            turned.filter(&col("size").gt("S")).map(drop),
            turned.column("size").unwrap().max().map(drop),
            turned.collect().map(drop),
        ] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            assert!(error.message().contains("different orders"), "{error}");
        }
        // Equality doesn't depend on the order.
        assert_eq!(turned.filter(&col("size").eq("L")).unwrap().len().unwrap(), 2);
    }
}
