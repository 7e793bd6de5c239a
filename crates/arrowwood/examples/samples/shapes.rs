//! Datasets with rare combinations of types, batches and dictionaries.

use std::sync::Arc;

use arrow_array::builder::*;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema};
use arrowwood::Dataset;

/// Returns the datasets with their names in the table of results.
pub fn shapes() -> Vec<(&'static str, Dataset)> {
    vec![
        ("no nulls", table(vec![vec![ints(&[1, 2]), text(&["a", "b"])]])),
        ("no rows", table(vec![vec![ints(&[]), text(&[]), lists(&[])]])),
        ("no batches", Dataset::from_batches(schema_of(vec![Field::new("c", DataType::Utf8, true)]), vec![]).unwrap()),
        ("empty batch between two", table(vec![vec![ints(&[1])], vec![ints(&[])], vec![ints(&[2])]])),
        ("no columns", no_columns()),
        ("3,000 rows that compress", table(vec![compressible_columns()])),
        ("3,000 rows that do not", table(vec![vec![random_numbers()]])),
        ("list of lists", table(vec![vec![lists_of_lists()]])),
        ("list of dictionary", table(vec![vec![list_of(dictionary(&["a", "b"], &[1, 0, 1, 1]))]])),
        ("struct of dictionary", table(vec![vec![struct_of(dictionary(&["a", "b"], &[1, 0]))]])),
        ("dictionary of structs", table(vec![vec![keyed(struct_of(ints(&[5, 6])), &[1, 0, 1])]])),
        ("dictionary of lists", table(vec![vec![keyed(lists(&[2, 0]), &[1, 0, 1])]])),
        (
            "dictionary of list of dictionary",
            table(vec![vec![keyed(list_of(dictionary(&["a", "b"], &[1, 0, 1, 1])), &[1, 0])]]),
        ),
        ("two dictionaries", table(vec![vec![dictionary(&["a"], &[0, 0]), dictionary(&["b", "c"], &[0, 1])]])),
        ("dictionary that grows", table(vec![vec![dictionary(&["a"], &[0])], vec![dictionary(&["a", "b"], &[1, 0])]])),
        (
            "dictionary that changes",
            table(vec![vec![dictionary(&["a"], &[0])], vec![dictionary(&["c", "b"], &[1, 0])]]),
        ),
        (
            "dictionary unused in the first batch",
            table(vec![vec![dictionary(&[], &[])], vec![dictionary(&["a"], &[0])]]),
        ),
        ("dictionary with a null", table(vec![vec![keyed(nullable_text(), &[0, 1, 0])]])),
        ("runs of a dictionary", table(vec![vec![runs_of(dictionary(&["a", "b"], &[1, 0]))]])),
        ("list of views", table(vec![vec![list_of(views(0..4))]])),
        ("list of structs of lists", table(vec![vec![list_of(struct_of(lists(&[1, 0, 2, 1])))]])),
        ("list of maps", table(vec![vec![list_of(maps())]])),
        ("list of dense unions", table(vec![vec![list_of(unions())]])),
        ("list of runs", table(vec![vec![list_of(runs_of(text(&["a", "b"])))]])),
        ("views of which few are sent", few_of_many_views()),
        ("runs that go over a cut", sliced_runs()),
        ("unknown extension type", extension_type()),
    ]
}

/// Returns a dataset with columns `c0`, `c1` and so on, given the columns of each batch.
fn table(batches: Vec<Vec<ArrayRef>>) -> Dataset {
    let field = |(number, array): (usize, &ArrayRef)| Field::new(format!("c{number}"), array.data_type().clone(), true);
    let schema = Arc::new(Schema::new(batches[0].iter().enumerate().map(field).collect::<Vec<_>>()));
    let batches = batches.into_iter().map(|columns| RecordBatch::try_new(schema.clone(), columns).unwrap()).collect();
    Dataset::from_batches(schema, batches).unwrap()
}

fn schema_of(fields: Vec<Field>) -> Arc<Schema> {
    Arc::new(Schema::new(fields))
}

fn no_columns() -> Dataset {
    let options = RecordBatchOptions::new().with_row_count(Some(3));
    let schema = schema_of(vec![]);
    Dataset::from_batches(schema.clone(), vec![RecordBatch::try_new_with_options(schema, vec![], &options).unwrap()])
        .unwrap()
}

fn ints(values: &[i32]) -> ArrayRef {
    Arc::new(Int32Array::from(values.to_vec()))
}

fn text(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn dictionary(values: &[&str], keys: &[i32]) -> ArrayRef {
    keyed(text(values), keys)
}

fn keyed(values: ArrayRef, keys: &[i32]) -> ArrayRef {
    Arc::new(DictionaryArray::<Int32Type>::new(keys.to_vec().into(), values))
}

fn struct_of(member: ArrayRef) -> ArrayRef {
    Arc::new(StructArray::from(vec![(Arc::new(Field::new("m", member.data_type().clone(), true)), member)]))
}

/// Returns two lists of two items each.
fn list_of(items: ArrayRef) -> ArrayRef {
    let field = Arc::new(Field::new("item", items.data_type().clone(), true));
    Arc::new(ListArray::new(field, OffsetBuffer::new(vec![0, 2, 4].into()), items, None))
}

/// Returns lists of integers, given their lengths.
fn lists(lengths: &[usize]) -> ArrayRef {
    let items = Int32Array::from_iter_values(0..lengths.iter().sum::<usize>() as i32);
    let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
    Arc::new(ListArray::new(Arc::new(Field::new("item", DataType::Int32, true)), offsets, Arc::new(items), None))
}

fn lists_of_lists() -> ArrayRef {
    let mut builder = ListBuilder::new(ListBuilder::new(StringBuilder::new()));
    builder.values().append_value([Some("a"), None]);
    builder.values().append_null();
    builder.append(true);
    builder.append(false);
    builder.values().append_value([Some("b")]);
    builder.append(true);
    Arc::new(builder.finish())
}

fn compressible_columns() -> Vec<ArrayRef> {
    let sparse = Int64Array::from_iter((0..3000).map(|i| (i % 7 != 0).then_some(i / 100)));
    let words = StringArray::from_iter_values((0..3000).map(|i| format!("word {}", i / 500)));
    let flags = BooleanArray::from_iter((0..3000).map(|i| Some(i < 1500)));
    vec![Arc::new(sparse), Arc::new(words), Arc::new(flags)]
}

/// Returns the upper halves of a linear congruential generator's states, which have no pattern.
fn random_numbers() -> ArrayRef {
    let next = |last: &u64| Some(last.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    Arc::new(UInt32Array::from_iter_values(std::iter::successors(Some(1), next).take(3000).map(|n| (n >> 32) as u32)))
}

/// Returns strings that don't fit into views, in several data buffers.
fn views(numbers: std::ops::Range<usize>) -> ArrayRef {
    let mut builder = StringViewBuilder::new().with_fixed_block_size(100);
    for i in numbers {
        builder.append_value(format!("a string that is too long for a view: {i}"));
    }
    Arc::new(builder.finish())
}

fn few_of_many_views() -> Dataset {
    table(vec![vec![views(0..100)]]).slice(60, 3).unwrap()
}

fn nullable_text() -> ArrayRef {
    Arc::new(StringArray::from(vec![None, Some("a")]))
}

/// Returns two runs of two rows each.
fn runs_of(values: ArrayRef) -> ArrayRef {
    Arc::new(RunArray::<Int32Type>::try_new(&Int32Array::from(vec![2, 4]), &values).unwrap())
}

fn maps() -> ArrayRef {
    let mut builder = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    for entries in [2, 0, 1, 3] {
        for i in 0..entries {
            builder.keys().append_value(format!("k{i}"));
            builder.values().append_option((i > 0).then_some(i));
        }
        builder.append(true).unwrap();
    }
    Arc::new(builder.finish())
}

fn unions() -> ArrayRef {
    let fields = [(3, "x", DataType::Int32), (5, "y", DataType::Utf8)];
    let fields = fields.map(|(id, name, data_type)| (id, Arc::new(Field::new(name, data_type, true))));
    let children: Vec<ArrayRef> = vec![Arc::new(Int32Array::from(vec![7, 8])), text(&["a", "b"])];
    let type_ids = vec![5, 3, 3, 5].into();
    let offsets = Some(vec![0, 0, 1, 1].into());
    Arc::new(UnionArray::try_new(fields.into_iter().collect(), type_ids, offsets, children).unwrap())
}

/// Returns two slices of three runs, which divide the last run.
fn sliced_runs() -> Dataset {
    let ends = Int16Array::from(vec![3, 4, 9]);
    let values = Float64Array::from(vec![Some(0.5), None, Some(-2.25)]);
    let dataset = table(vec![vec![Arc::new(RunArray::<Int16Type>::try_new(&ends, &values).unwrap())]]);
    Dataset::concat(&[dataset.slice(1, 4).unwrap(), dataset.slice(5, 3).unwrap()]).unwrap()
}

/// Returns a column with an unknown extension type, which readers must treat as its storage type.
fn extension_type() -> Dataset {
    let metadata = [("ARROW:extension:name", "arrowwood.unknown"), ("ARROW:extension:metadata", "1")];
    let metadata = metadata.map(|(key, value)| (key.to_string(), value.to_string())).into_iter().collect();
    let schema = schema_of(vec![Field::new("c", DataType::Int16, true).with_metadata(metadata)]);
    let column: ArrayRef = Arc::new(PrimitiveArray::<Int16Type>::new(ScalarBuffer::from(vec![1, -1]), None));
    Dataset::from_batches(schema.clone(), vec![RecordBatch::try_new(schema, vec![column]).unwrap()]).unwrap()
}
