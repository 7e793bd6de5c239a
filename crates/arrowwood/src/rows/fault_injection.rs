//! Breaks an invariant on purpose, for tests: an internal error must leave the rows as they were.

use std::cell::Cell;

thread_local! {
    static FORGETS_KEYS: Cell<bool> = const { Cell::new(false) };
}

/// Forgets the last key if a test on this thread asks for it.
pub(super) fn forget_key(keys: &mut Vec<u32>) {
    if FORGETS_KEYS.get() {
        keys.pop();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int32Type;
    use arrow_array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch};
    use arrow_schema::{DataType, Field, Schema, SchemaRef};

    use super::FORGETS_KEYS;
    use crate::array::Value;
    use crate::dataset::{Dataset, Row};
    use crate::error::{Error, ErrorKind};
    use crate::rows::builder::BatchBuffers;
    use crate::rows::{DatasetBuilder, DictionaryEntries, Plan, put_row};

    /// Returns the schema of a dictionary-encoded text between two numbers.
    fn schema() -> SchemaRef {
        let text = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let int = |name: &str| Field::new(name, DataType::Int64, false);
        Arc::new(Schema::new(vec![int("first"), Field::new("text", text, true), int("last")]))
    }

    fn row(n: i64, text: &str) -> [Value<'_>; 3] {
        [Value::Int(n), Value::Str(text), Value::Int(n)]
    }

    fn batch(numbers: [i64; 2], texts: [&str; 2]) -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
        let texts: DictionaryArray<Int32Type> = texts.into_iter().collect();
        RecordBatch::try_new(schema(), vec![numbers.clone(), Arc::new(texts), numbers]).unwrap()
    }

    /// Returns the rows as numbers and texts.
    fn rows(dataset: &Dataset) -> Vec<(i64, String, i64)> {
        let int = |value: Value<'_>| if let Value::Int(n) = value { n } else { panic!("{value:?}") };
        let cells = |row: Row<'_>| {
            let text = row.get(1).unwrap().to_string();
            (int(row.get(0).unwrap()), text, int(row.get(2).unwrap()))
        };
        dataset.rows().map(|row| cells(row.unwrap())).collect()
    }

    /// Makes this thread forget keys as long as it exists, even if the test panics.
    struct Fault;

    impl Fault {
        fn begin() -> Fault {
            FORGETS_KEYS.set(true);
            Fault
        }
    }

    impl Drop for Fault {
        fn drop(&mut self) {
            FORGETS_KEYS.set(false);
        }
    }

    /// Asserts that `append` reports an internal error if it lacks one of its keys.
    fn append_with_fault<T>(append: impl FnOnce() -> Result<T, Error>) {
        let fault = Fault::begin();
        let result = append().map(drop);
        drop(fault);
        let e = result.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Internal, "{e}");
        assert!(e.message().contains("this is a bug in arrowwood"), "{e}");
    }

    fn expected(rows: &[(i64, &str)]) -> Vec<(i64, String, i64)> {
        rows.iter().map(|&(n, text)| (n, text.to_string(), n)).collect()
    }

    #[test]
    #[cfg(feature = "table")]
    fn tables_are_unchanged_after_an_internal_error() {
        use crate::table::{Writer, WriterOptions};

        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("table");
        let open = || Writer::open(&table, Some(schema()), &WriterOptions::default()).unwrap();
        let read_rows = || rows(&crate::open(&table).unwrap());
        let mut writer = open();
        writer.append_row(&row(1, "one")).unwrap();
        writer.commit().unwrap();
        writer.append_row(&row(2, "two")).unwrap();

        // The fault occurs after the first column was written and the text was added to the dictionary.
        append_with_fault(|| writer.append_row(&row(-1, "lost")));
        append_with_fault(|| writer.append(&batch([-1, -2], ["one", "lost too"])));
        assert_eq!(writer.rows(), 2);
        assert_eq!(read_rows(), expected(&[(1, "one")]));
        writer.append_row(&row(3, "three")).unwrap();
        writer.append(&batch([4, 5], ["one", "five"])).unwrap();
        append_with_fault(|| writer.append_row(&row(-1, "lost")));
        writer.commit().unwrap();
        let committed = expected(&[(1, "one"), (2, "two"), (3, "three"), (4, "one"), (5, "five")]);
        assert_eq!(read_rows(), committed);
        writer.close().unwrap();
        let mut writer = open();
        assert_eq!(writer.rows(), 5);
        writer.append_row(&row(6, "lost")).unwrap();
        writer.close().unwrap();
        assert_eq!(read_rows(), [committed, expected(&[(6, "lost")])].concat());
    }

    #[test]
    fn builders_are_usable_after_an_internal_error() {
        let mut builder = DatasetBuilder::new(schema()).unwrap();
        builder.append_row(&row(1, "one")).unwrap();
        append_with_fault(|| builder.append_row(&row(-1, "lost")));
        append_with_fault(|| builder.append(&batch([-1, -2], ["one", "lost too"])));
        builder.append(&batch([2, 3], ["two", "one"])).unwrap();
        assert_eq!(rows(&builder.finish().unwrap()), expected(&[(1, "one"), (2, "two"), (3, "one")]));
    }

    /// `put_row` fails for values that `check_values` rejects, and doesn't write other values instead.
    #[test]
    fn values_that_do_not_fit_are_not_written() {
        let types =
            [DataType::Int64, DataType::Boolean, DataType::Utf8, DataType::Utf8View, DataType::FixedSizeBinary(3)];
        for data_type in types {
            for value in [Value::Null, Value::Bytes(b"four"), Value::Float64(0.5), Value::Bool(true), Value::Int(1)] {
                let is_right = matches!(
                    (&data_type, &value),
                    (DataType::Int64, Value::Int(_))
                        | (DataType::Boolean, Value::Bool(_))
                        | (DataType::Utf8 | DataType::Utf8View, Value::Bytes(_))
                );
                let column = Field::new("column", data_type.clone(), false);
                let plan = Plan::for_schema(&Schema::new(vec![column])).unwrap();
                let mut into = BatchBuffers::new(Arc::new(plan)).unwrap();
                let plan = into.plan.clone();
                let before = into.now.counters.clone();
                let put = put_row(&mut into, &plan, &[] as &[DictionaryEntries], std::slice::from_ref(&value), &[]);
                let kind = put.as_ref().err().map(Error::kind);
                assert_eq!(kind, (!is_right).then_some(ErrorKind::Internal), "{value:?} into {data_type}");
                assert_eq!(into.now.counters == before, !is_right, "{value:?} into {data_type}");
            }
        }
    }
}
