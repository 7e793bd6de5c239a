//! [`Adapter`]: a source that shows another source with other columns.

use std::fmt::Debug;
use std::ops::Range;

use arrow_data::ArrayData;
use arrow_schema::SchemaRef;

use super::constant::ConstantColumn;
use super::source::{Batches, ColumnWidths, Facts, FixedWidthValues, Footprint, Source, ViewSource};
#[cfg(feature = "compute")]
use super::zone::Zones;
use crate::array::UncheckedArray;
use crate::error::Result;
use crate::map::ChangeCheck;

/// A source with the rows of another one, the stored source, and other columns. Each column is either a stored column,
/// passed on unchanged, or derived.
///
/// The implementations of [`Batches`] and [`Source`] pass on everything that concerns rows, once for all adapters.
pub(super) trait Adapter: Debug + Send + Sync + 'static {
    fn schema(&self) -> &SchemaRef;

    /// Returns the source whose rows are shown.
    fn stored(&self) -> &dyn Source;

    /// Returns the number of column `column` in the stored source, if it is passed on unchanged.
    fn stored_column(&self, column: usize) -> Option<usize>;

    /// Returns a derived column of a batch, with checked values.
    fn derived_column(&self, batch: usize, column: usize) -> Result<&ArrayData>;

    /// Returns the dictionary that all batches of a derived column share.
    fn derived_dictionary(&self, column: usize) -> Option<&ArrayData>;

    /// Returns the size in bytes of the derived columns that are in memory.
    fn derived_bytes(&self) -> u64;

    /// See [`Source::constants`].
    fn constants(&self) -> &[ConstantColumn];

    /// Returns the stored source's facts, with the adapter's numbers of columns.
    fn facts(&self) -> Facts<'_>;
}

impl<A: Adapter> Batches for A {
    fn schema(&self) -> &SchemaRef {
        Adapter::schema(self)
    }

    fn count_until(&self, until: u64) -> Result<u64> {
        self.stored().count_until(until)
    }

    fn num_batches(&self) -> Result<usize> {
        self.stored().num_batches()
    }

    fn span(&self, batch: usize) -> Result<Option<Range<u64>>> {
        self.stored().span(batch)
    }

    fn locate(&self, row: u64) -> Result<Option<usize>> {
        self.stored().locate(row)
    }

    fn locate_from_end(&self, back: u64) -> Result<Option<(usize, usize)>> {
        self.stored().locate_from_end(back)
    }

    fn column(&self, batch: usize, column: usize) -> Result<&UncheckedArray> {
        match self.stored_column(column) {
            Some(number) => self.stored().column(batch, number),
            None => self.derived_column(batch, column).map(UncheckedArray::from_ref),
        }
    }

    fn checked_column(&self, batch: usize, column: usize) -> Result<&ArrayData> {
        match self.stored_column(column) {
            Some(number) => self.stored().checked_column(batch, number),
            None => self.derived_column(batch, column),
        }
    }

    fn prepare(&self, columns: &[usize]) -> Result<()> {
        let stored: Vec<usize> = columns.iter().filter_map(|&column| self.stored_column(column)).collect();
        self.stored().prepare(&stored)
    }

    fn validate_column(&self, batch: usize, column: usize) -> Result<()> {
        match self.stored_column(column) {
            Some(number) => self.stored().validate_column(batch, number),
            None => self.derived_column(batch, column).map(drop),
        }
    }

    fn fixed_width_values<'a>(
        &'a self,
        batch: usize,
        rows: usize,
        columns: ColumnWidths<'_>,
        keep: bool,
        into: &mut Vec<Option<FixedWidthValues<'a>>>,
    ) -> Result<()> {
        let columns: Vec<(Option<usize>, usize)> =
            columns.map(|(column, width)| (self.stored_column(column), width)).collect();
        let expected_len = into.len() + columns.len();
        // The stored source finds all columns of a run at once.
        for run in columns.chunk_by(|a, b| a.0.is_some() == b.0.is_some()) {
            let mut stored = run.iter().filter_map(|&(column, width)| Some((column?, width)));
            if run.first().is_some_and(|first| first.0.is_some()) {
                self.stored().fixed_width_values(batch, rows, &mut stored, keep, into)?;
            } else {
                into.extend(run.iter().map(|_| None));
            }
        }
        assert_eq!(into.len(), expected_len, "one entry for each column");
        Ok(())
    }

    fn value_bytes(&self, batch: usize, row: usize, column: usize, width: usize) -> Option<&[u8]> {
        self.stored().value_bytes(batch, row, self.stored_column(column)?, width)
    }

    fn dictionary(&self, column: usize) -> Result<Option<ArrayData>> {
        match self.stored_column(column) {
            Some(number) => self.stored().dictionary(number),
            None => Ok(self.derived_dictionary(column).cloned()),
        }
    }

    fn footprint(&self) -> Footprint {
        let stored = self.stored().footprint();
        Footprint { copied: stored.copied + self.derived_bytes(), ..stored }
    }

    fn check_unchanged(&self, batches: Range<usize>, when: ChangeCheck) -> Result<()> {
        self.stored().check_unchanged(batches, when)
    }

    fn resident(&self) -> Result<u64> {
        self.stored().resident()
    }
}

impl<A: Adapter> Source for A {
    fn facts(&self) -> Facts<'_> {
        Adapter::facts(self)
    }

    fn constants(&self) -> &[ConstantColumn] {
        Adapter::constants(self)
    }

    /// Returns `None`: the rows behind a view lack the derived columns, so they are read as rows of the view's batches.
    fn view(&self) -> Option<&dyn ViewSource> {
        None
    }

    fn adapted(&self) -> Option<&dyn Source> {
        Some(self.stored())
    }

    fn adapted_column(&self, column: usize) -> Option<usize> {
        self.stored_column(column)
    }

    #[cfg(feature = "compute")]
    fn has_zones(&self, column: usize) -> bool {
        self.stored_column(column).is_some_and(|number| self.stored().has_zones(number))
    }

    #[cfg(feature = "compute")]
    fn zones(&self, batch: usize, column: usize) -> Result<Option<Zones>> {
        self.stored_column(column).map_or(Ok(None), |number| self.stored().zones(batch, number))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::ptr::addr_eq;
    use std::sync::Arc;

    use arrow_array::types::Int32Type;
    use arrow_array::{ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray};
    use arrow_schema::{DataType, Field, Schema, SchemaRef};

    use super::*;
    use crate::array::field_value;
    use crate::dataset::{Dataset, Files, PushedRows};
    use crate::ipc::{IpcSource, ReadOptions, SchemaCache, Shard};
    use crate::table::{LatePolicy, Writer, WriterOptions, compact};
    use crate::{
        Bytes, Format, OpenOptions, Value, WriteOptions, col, open, parse_schema, write, write_pushed, write_to,
    };

    const ROWS: usize = 50;

    /// Returns rows with ascending times, numbers that can be widened, texts and categories.
    fn in_memory() -> Dataset {
        let schema = parse_schema("at: int32, n: int32, name: utf8, kind: dictionary<int32, utf8>").unwrap();
        let schema: SchemaRef = Arc::new(schema);
        let batch = |rows: Range<usize>| {
            let names = rows.clone().map(|row| (row % 7 != 0).then(|| format!("name of row {row}")));
            let kinds: DictionaryArray<Int32Type> = rows.clone().map(|row| ["a", "b", "c"][row % 3]).collect();
            let columns: Vec<ArrayRef> = vec![
                Arc::new(Int32Array::from_iter_values(rows.clone().map(|row| 3 * row as i32))),
                Arc::new(Int32Array::from_iter_values(rows.map(|row| 20 - row as i32))),
                Arc::new(names.collect::<StringArray>()),
                Arc::new(kinds),
            ];
            RecordBatch::try_new(schema.clone(), columns).unwrap()
        };
        let ends = [0..16, 16..16, 16..33, 33..ROWS];
        Dataset::from_batches(schema.clone(), ends.map(batch).to_vec()).unwrap()
    }

    fn options(format: Format) -> WriteOptions {
        WriteOptions { format, ..WriteOptions::default() }
    }

    fn bytes(format: Format) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_to(&in_memory(), &mut bytes, &options(format)).unwrap();
        bytes
    }

    fn write_file(folder: &Path, name: &str, format: Format) -> Dataset {
        let path = folder.join(name);
        write(&in_memory(), &path, &options(format)).unwrap();
        open(&path).unwrap()
    }

    /// Opens a stream without its last bytes.
    fn truncated() -> Dataset {
        let mut bytes = bytes(Format::Stream);
        bytes.truncate(bytes.len() - 100);
        OpenOptions::new().partial(true).bytes(Bytes::from(bytes)).unwrap()
    }

    /// Opens a file with an invalid text, so that there are errors to pass on.
    fn damaged() -> Dataset {
        let mut bytes = bytes(Format::File);
        let text = b"name of row 20";
        let position = bytes.windows(text.len()).position(|window| window == text).unwrap();
        bytes[position] = 0xff;
        OpenOptions::new().bytes(Bytes::from(bytes)).unwrap()
    }

    fn pushed() -> Dataset {
        let mut bytes = Vec::new();
        let from = PushedRows { first_row: 7, table: "a table".into() };
        write_pushed(&in_memory(), &mut bytes, 16, &from).unwrap();
        OpenOptions::new().named_bytes(Bytes::from(bytes), "s3://bucket/object").unwrap()
    }

    fn shards(folder: &Path) -> Dataset {
        let shard = |format| {
            let path = folder.join(format!("shard {format:?}"));
            write(&in_memory(), &path, &options(format)).unwrap();
            let shard = Shard::open(&path, None, ReadOptions::default(), &SchemaCache::default()).unwrap().unwrap();
            Dataset::from_source(Arc::new(shard))
        };
        Dataset::concat(&[Format::File, Format::Stream].map(shard)).unwrap()
    }

    /// Writes the rows to several segments, of which the last one can grow.
    fn table(path: &Path, rows: &Dataset, late: LatePolicy) -> Dataset {
        let options = WriterOptions {
            segment_rows: Some(16),
            sorted_by: Some("at".into()),
            late: Some(late),
            index: Some(vec!["at".into(), "n".into(), "name".into()]),
            zone_rows: Some(4),
            ..WriterOptions::default()
        };
        let mut writer = Writer::open(path, Some(rows.schema().clone()), &options).unwrap();
        writer.append_dataset(rows).unwrap();
        writer.close().unwrap();
        open(path).unwrap()
    }

    /// Opens a table and merges its files afterwards, so that they have successors.
    fn merged(path: &Path) -> Dataset {
        table(path, &in_memory(), LatePolicy::Refuse);
        compact(path, |_, _| ()).unwrap();
        let opened = open(path).unwrap();
        let options = WriterOptions { segment_rows: Some(1 << 20), ..WriterOptions::default() };
        let mut writer = Writer::open(path, None, &options).unwrap();
        writer.compact(|_, _| ()).unwrap();
        writer.close().unwrap();
        opened
    }

    /// Returns the rows in every kind of source.
    fn create_sources(folder: &Path) -> Vec<(&'static str, Dataset)> {
        let late = table(&folder.join("late"), &in_memory().shuffle(1).unwrap(), LatePolicy::Accept);
        let sorted = table(&folder.join("sorted"), &in_memory(), LatePolicy::Refuse);
        vec![
            ("arrays", in_memory()),
            ("file", write_file(folder, "file", Format::File)),
            ("stream", write_file(folder, "stream", Format::Stream)),
            ("bytes", OpenOptions::new().bytes(Bytes::from(bytes(Format::File))).unwrap()),
            ("damaged", damaged()),
            ("cut short", truncated()),
            ("pushed", pushed()),
            ("shards", shards(folder)),
            ("rows found in a table", sorted.filter(&col("n").gt(-20)).unwrap()),
            ("rows found in arrays", in_memory().filter(&col("n").gt(0)).unwrap()),
            ("rows in another order", sorted.sort(&[("n", false)]).unwrap()),
            ("shuffled arrays", in_memory().shuffle(2).unwrap()),
            ("sorted table", sorted),
            ("late table", late),
            ("merged table", merged(&folder.join("merged"))),
        ]
    }

    fn with_day(rows: &Dataset) -> Dataset {
        let field = Arc::new(Field::new("day", DataType::Int64, true));
        rows.with_constants(&[ConstantColumn::new(field, &Value::Int(7)).unwrap()].into())
    }

    fn fit_to(rows: &Dataset, schema: &str) -> Dataset {
        rows.fitted(&Arc::new(parse_schema(schema).unwrap())).unwrap()
    }

    /// Wraps the rows in each adapter, and in combinations of two.
    fn wrap_in_adapters(rows: &Dataset) -> Vec<(&'static str, Dataset)> {
        let kind = "kind: dictionary<int32, utf8>";
        let new = fit_to(rows, &format!("at: int32, n: int32, new: utf8, name: utf8, {kind}"));
        let moved = fit_to(rows, &format!("name: utf8, {kind}, n: int32, at: int32"));
        let wider = fit_to(rows, &format!("at: int32, n: int64, name: utf8, {kind}"));
        let all = fit_to(rows, &format!("new: utf8, {kind}, n: int64, name: utf8, at: int64"));
        vec![
            ("constants", with_day(rows)),
            ("new and constants", with_day(&new)),
            ("moved and constants", with_day(&moved)),
            ("wider and constants", with_day(&wider)),
            ("all and constants", with_day(&all)),
            ("new", new),
            ("moved", moved),
            ("wider", wider),
            ("all", all),
        ]
    }

    /// Converts errors to texts, so that results can be compared.
    fn comparable<T>(answer: Result<T>) -> std::result::Result<T, String> {
        answer.map_err(|e| e.to_string())
    }

    fn pointer_to<T: ?Sized>(value: &T) -> *const T {
        value
    }

    /// Keeps the first word that is written, as the rest may be a whole file.
    #[derive(Default)]
    struct FirstWord(String);

    impl std::fmt::Write for FirstWord {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            if self.0.is_empty() {
                self.0.push_str(text);
                return Ok(());
            }
            Err(std::fmt::Error)
        }
    }

    fn struct_name(source: &dyn Source) -> String {
        let mut name = FirstWord::default();
        let _ = std::fmt::Write::write_fmt(&mut name, format_args!("{source:?}"));
        name.0
    }

    /// Returns the number that a column of `wrapped` has in `original`, if all adapters between them pass it on.
    fn adapted_number(original: &dyn Source, wrapped: &dyn Source, column: usize) -> Option<usize> {
        if addr_eq(original, wrapped) {
            return Some(column);
        }
        let number = wrapped.adapted_column(column)?;
        adapted_number(original, wrapped.adapted().expect("an adapter shows a source"), number)
    }

    /// Pairs the columns of `wrapped` with the columns of the same names in `original`.
    fn same_name_columns(original: &Schema, wrapped: &Schema) -> Vec<(usize, usize)> {
        let pair = |(column, field): (usize, &Arc<Field>)| Some((column, original.index_of(field.name()).ok()?));
        wrapped.fields().iter().enumerate().filter_map(pair).collect()
    }

    /// Pairs the columns that are passed on unchanged, which have the same type in both.
    fn unchanged_columns(original: &Schema, wrapped: &Schema) -> Vec<(usize, usize)> {
        let mut pairs = same_name_columns(original, wrapped);
        pairs.retain(|&(column, number)| wrapped.field(column).data_type() == original.field(number).data_type());
        pairs
    }

    fn assert_same_batches(original: &dyn Source, wrapped: &dyn Source) {
        for until in [1, u64::MAX] {
            assert_eq!(comparable(wrapped.count_until(until)), comparable(original.count_until(until)));
        }
        let rows = original.count_until(u64::MAX).unwrap();
        let batches = original.num_batches().unwrap();
        assert_eq!(comparable(wrapped.num_batches()), Ok(batches));
        for batch in 0..batches + 2 {
            assert_eq!(comparable(wrapped.span(batch)), comparable(original.span(batch)));
        }
        for row in 0..rows + 2 {
            assert_eq!(comparable(wrapped.locate(row)), comparable(original.locate(row)));
            assert_eq!(comparable(wrapped.locate_from_end(row + 1)), comparable(original.locate_from_end(row + 1)));
        }
        assert_eq!(comparable(wrapped.check_unchanged(0..batches, ChangeCheck::Now)), Ok(()));
        assert_eq!(wrapped.footprint().mapped, original.footprint().mapped);
    }

    fn assert_same_columns(original: &dyn Source, wrapped: &dyn Source) {
        let expected = unchanged_columns(original.schema(), wrapped.schema());
        let known = (0..wrapped.schema().fields().len())
            .filter_map(|column| Some((column, adapted_number(original, wrapped, column)?)))
            .collect::<Vec<_>>();
        assert_eq!(known, expected);
        for (column, number) in expected {
            assert_eq!(comparable(wrapped.dictionary(column)), comparable(original.dictionary(number)));
            assert_eq!(comparable(wrapped.prepare(&[column])), comparable(original.prepare(&[number])));
            // Readers look for zones only in columns and batches that may have them.
            assert_eq!(wrapped.has_zones(column), original.has_zones(number));
            for batch in 0..original.num_batches().unwrap() {
                assert_same_column(original, wrapped, batch, (column, number));
            }
        }
    }

    /// Compares a column that is passed on, which is the same array and not a copy.
    fn assert_same_column(original: &dyn Source, wrapped: &dyn Source, batch: usize, (column, number): (usize, usize)) {
        assert_eq!(
            comparable(wrapped.column(batch, column).map(pointer_to)),
            comparable(original.column(batch, number).map(pointer_to))
        );
        assert_eq!(
            comparable(wrapped.checked_column(batch, column).map(pointer_to)),
            comparable(original.checked_column(batch, number).map(pointer_to))
        );
        assert_eq!(
            comparable(wrapped.validate_column(batch, column)),
            comparable(original.validate_column(batch, number))
        );
        let zones = |zones: Option<Zones>| zones.map(|Zones { rows, skipped, list }| (rows, skipped, list));
        assert_eq!(
            comparable(wrapped.zones(batch, column).map(zones)),
            comparable(original.zones(batch, number).map(zones))
        );
        let Some(width) = original.schema().field(number).data_type().primitive_width() else { return };
        let rows = original.span(batch).unwrap().unwrap();
        for row in 0..(rows.end - rows.start) as usize {
            let bytes = wrapped.value_bytes(batch, row, column, width).map(pointer_to);
            assert_eq!(bytes, original.value_bytes(batch, row, number, width).map(pointer_to));
        }
    }

    /// The address of fixed-width values, and whether some are null.
    type ValuesAddress = Option<(*const [u8], bool)>;

    /// Returns the name of each fixed-width column, and the address of its values.
    fn fixed_width_addresses(source: &dyn Source, batch: usize) -> Vec<(String, ValuesAddress)> {
        let width = |data_type: &DataType| match data_type {
            DataType::Dictionary(keys, _) => keys.primitive_width(),
            other => other.primitive_width(),
        };
        let fields = source.schema().fields();
        let columns = fields.iter().enumerate().filter_map(|(column, field)| Some((column, width(field.data_type())?)));
        let columns: Vec<(usize, usize)> = columns.collect();
        let rows = source.span(batch).unwrap().unwrap();
        let mut values = Vec::new();
        let rows = (rows.end - rows.start) as usize;
        source.fixed_width_values(batch, rows, &mut columns.iter().copied(), true, &mut values).unwrap();
        assert_eq!(values.len(), columns.len());
        let addresses = values
            .into_iter()
            .map(|values| values.map(|FixedWidthValues { values, has_nulls }| (pointer_to(values), has_nulls)));
        columns.iter().map(|&(column, _)| fields[column].name().clone()).zip(addresses).collect()
    }

    fn assert_same_fixed_width_values(original: &dyn Source, wrapped: &dyn Source) {
        let passed_on = unchanged_columns(original.schema(), wrapped.schema());
        let is_passed_on =
            |name: &str| passed_on.iter().any(|&(column, _)| wrapped.schema().field(column).name() == name);
        for batch in 0..original.num_batches().unwrap() {
            let original = fixed_width_addresses(original, batch);
            for (name, wrapped) in fixed_width_addresses(wrapped, batch) {
                let stored = original.iter().find(|(stored, _)| *stored == name).and_then(|(_, address)| *address);
                assert_eq!(wrapped, stored.filter(|_| is_passed_on(&name)), "column {name}");
            }
        }
    }

    fn texts(source: &dyn Source, batch: usize, column: usize) -> std::result::Result<Vec<String>, String> {
        let array = comparable(source.checked_column(batch, column).map(UncheckedArray::from_ref))?;
        let field = source.schema().field(column);
        (0..array.len()).map(|row| comparable(field_value(field, array, row).map(|value| value.to_string()))).collect()
    }

    /// Compares the values of all columns as text, which is the same for widened numbers.
    fn assert_same_values(original: &dyn Source, wrapped: &dyn Source) {
        for (column, number) in same_name_columns(original.schema(), wrapped.schema()) {
            for batch in 0..original.num_batches().unwrap() {
                assert_eq!(texts(wrapped, batch, column), texts(original, batch, number));
                assert_eq!(
                    comparable(wrapped.validate_column(batch, column)),
                    comparable(original.validate_column(batch, number))
                );
            }
        }
    }

    fn assert_same_facts(original: &dyn Source, wrapped: &dyn Source) {
        // Destructured, so that the compiler reports a new fact that isn't compared.
        let Facts { path, absolute_path, address, files, first_row, pushed_rows, sorted_by, late_by, holds_others } =
            original.facts();
        let facts = wrapped.facts();
        let name = |source: &dyn Source, column: Option<usize>| Some(source.schema().field(column?).name().clone());
        assert_eq!(facts.path, path);
        assert_eq!(facts.absolute_path, absolute_path);
        assert_eq!(facts.address, address);
        assert_eq!(facts.first_row, first_row);
        assert_eq!(facts.pushed_rows.map(pointer_to), pushed_rows.map(pointer_to));
        assert_eq!(name(wrapped, facts.sorted_by), name(original, sorted_by));
        assert_eq!(name(wrapped, facts.late_by), name(original, late_by));
        assert_eq!(facts.holds_others, holds_others);
        assert_eq!(facts.files.is_some(), files.is_some());
        if let Some((shown_files, files)) = facts.files.zip(files) {
            assert_same_files(files, shown_files);
        }
    }

    fn assert_same_files(original: &dyn Files, wrapped: &dyn Files) {
        assert_eq!(wrapped.list(), original.list());
        assert_eq!(wrapped.version(), original.version());
        assert_eq!(wrapped.are_merged(), original.are_merged());
        for file in original.list() {
            assert_eq!(comparable(wrapped.successor(&file)), comparable(original.successor(&file)));
        }
    }

    fn assert_same_source(original: &dyn Source, wrapped: &dyn Source) {
        assert_same_batches(original, wrapped);
        assert_same_columns(original, wrapped);
        assert_same_fixed_width_values(original, wrapped);
        assert_same_values(original, wrapped);
        assert_same_facts(original, wrapped);
        assert_eq!(wrapped.find::<IpcSource>().map(pointer_to), original.find::<IpcSource>().map(pointer_to));
        assert_eq!(wrapped.find::<Shard>().map(pointer_to), original.find::<Shard>().map(pointer_to));
        assert!(wrapped.view().is_none(), "rows behind a view lack the derived columns");
    }

    /// Returns the rows as text, in the order of the columns `names`.
    fn rows(dataset: &Dataset, names: &[&str]) -> Vec<Vec<std::result::Result<String, String>>> {
        let numbers: Vec<usize> = names.iter().map(|name| dataset.index_of(name).unwrap()).collect();
        let text =
            |row: u64, column: usize| comparable(dataset.row(row).unwrap().get(column).map(|value| value.to_string()));
        let row = |row: u64| numbers.iter().map(|&column| text(row, column)).collect();
        (0..dataset.len().unwrap()).map(row).collect()
    }

    fn assert_same_dataset(original: &Dataset, wrapped: &Dataset) {
        const NAMES: [&str; 4] = ["at", "n", "name", "kind"];
        let name = |field: Option<Arc<Field>>| field.map(|field| field.name().clone());
        assert_eq!(rows(wrapped, &NAMES), rows(original, &NAMES));
        assert_eq!(name(wrapped.sorted_by()), name(original.sorted_by()));
        assert_eq!(name(wrapped.late_by()), name(original.late_by()));
        assert_eq!(wrapped.first_row(), original.first_row());
        assert_eq!(wrapped.path(), original.path());
        assert_eq!(wrapped.versions(), original.versions());
        assert_eq!(wrapped.pushed_rows(), original.pushed_rows());
        assert_eq!(wrapped.retains_other_rows(), original.retains_other_rows());
        assert_eq!(comparable(wrapped.skipped_tails()), comparable(original.skipped_tails()));
        assert_eq!(format!("{:?}", comparable(wrapped.messages())), format!("{:?}", comparable(original.messages())));
        let between = |dataset: &Dataset| {
            let matching = dataset.between(&Value::Int(20), &Value::Int(90));
            comparable(matching.map(|matching| rows(&matching, &NAMES)))
        };
        assert_eq!(between(wrapped), between(original));
    }

    /// Checks the columns that adapters add.
    fn check_derived_columns(wrapped: &Dataset) {
        for (name, value) in [("new", "null"), ("day", "7")] {
            if wrapped.index_of(name).is_ok() {
                assert!(rows(wrapped, &[name]).iter().all(|row| row == &[Ok(value.to_string())]), "{name} is {value}");
            }
        }
    }

    #[test]
    fn adapters_pass_on_all_facts_of_sources() {
        let folder = tempfile::tempdir().unwrap();
        for (kind, original) in create_sources(folder.path()) {
            for (adapter, wrapped) in wrap_in_adapters(&original) {
                println!("{kind}, {adapter}");
                assert_eq!(wrapped.pieces().len(), original.pieces().len());
                for (original, wrapped) in original.pieces().iter().zip(wrapped.pieces()) {
                    assert_same_source(original.source.as_ref(), wrapped.source.as_ref());
                }
                assert_same_dataset(&original, &wrapped);
                check_derived_columns(&wrapped);
            }
        }
    }

    /// Guards the test above, which could not detect the loss of a fact that no source has.
    #[test]
    fn adapters_are_tested_with_all_kinds_of_sources_and_facts() {
        let folder = tempfile::tempdir().unwrap();
        let kinds = create_sources(folder.path());
        let sources: Vec<&dyn Source> =
            kinds.iter().flat_map(|(_, rows)| rows.pieces()).map(|piece| piece.source.as_ref()).collect();
        let names: BTreeSet<String> = sources.iter().map(|source| struct_name(*source)).collect();
        let expected =
            ["FilteredRows", "IpcSource", "LiveSource", "MemorySource", "ReorderedView", "SealedSource", "Shard"];
        assert_eq!(names.into_iter().collect::<Vec<_>>(), expected);
        let knows = |fact: fn(&Facts<'_>) -> bool| assert!(sources.iter().any(|source| fact(&source.facts())));
        knows(|facts| facts.address.is_some() && facts.absolute_path.is_some());
        knows(|facts| facts.first_row > 0);
        knows(|facts| facts.pushed_rows.is_some());
        knows(|facts| facts.sorted_by.is_some());
        knows(|facts| facts.late_by.is_some());
        knows(|facts| facts.holds_others);
        knows(|facts| facts.files.is_some_and(|files| files.are_merged() && files.version().is_some()));
        let has_successor = |files: &dyn Files| {
            files.list().iter().any(|file| files.successor(file).unwrap().is_some_and(|other| other != *file))
        };
        assert!(sources.iter().any(|source| source.facts().files.is_some_and(has_successor)));
        assert!(sources.iter().any(|source| source.zones(0, 1).unwrap().is_some()));
        assert!(sources.iter().any(|source| source.dictionary(3).unwrap().is_some()));
        assert!(sources.iter().any(|source| source.value_bytes(0, 0, 1, 4).is_some()));
        assert!(sources.iter().any(|source| source.validate_column(2, 2).is_err()));
        assert!(kinds.iter().any(|(_, rows)| !rows.skipped_tails().unwrap().is_empty()));
    }

    #[test]
    fn adapters_detect_changed_files() {
        let folder = tempfile::tempdir().unwrap();
        let original = write_file(folder.path(), "changing", Format::File);
        let adapters = wrap_in_adapters(&original);
        let path = folder.path().join("changing");
        std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(100).unwrap();
        let check = |rows: &Dataset| comparable(rows.pieces()[0].source.check_unchanged(0..1, ChangeCheck::Now));
        let expected = check(&original);
        assert!(expected.is_err());
        for (adapter, wrapped) in adapters {
            assert_eq!(check(&wrapped), expected, "{adapter}");
        }
    }
}
