//! Datasets: rows, cells, and deriving other datasets.

use std::ops::Deref;
use std::sync::OnceLock;

use arrow_schema::Field;
use arrowwood::{Column, Dataset, Error, ErrorKind, Result, Value, field_type_name, guard};

use crate::error::invalid_argument;
use crate::ffi::*;
use crate::value::{to_c, with_value};

/// `arrowwood_dataset`: a dataset and its columns, as far as they were used. Values returned to C borrow from these, so
/// they live as long as the handle.
pub struct CDataset {
    dataset: Dataset,
    columns: OnceLock<Box<[OnceLock<Column>]>>,
}

impl Opaque for CDataset {
    const NAME: &'static str = "arrowwood_dataset";
    const TAG: u64 = u64::from_le_bytes(*b"aw_datas");
}

impl CDataset {
    pub fn new(dataset: Dataset) -> CDataset {
        CDataset { dataset, columns: OnceLock::new() }
    }

    /// Returns column number `number`, which is made at its first use.
    pub fn column(&self, number: usize) -> Result<&Column> {
        let all = self.columns.get_or_init(|| (0..self.dataset.num_columns()).map(|_| OnceLock::new()).collect());
        match all.get(number).and_then(OnceLock::get) {
            Some(column) => Ok(column),
            None => {
                let column = self.dataset.column_at(number)?;
                all.get(number).map(|slot| slot.get_or_init(|| column)).ok_or_else(|| no_column(number, all.len()))
            }
        }
    }
}

fn field(dataset: &Dataset, column: usize) -> Result<&Field> {
    let fields = dataset.schema().fields();
    fields.get(column).map(AsRef::as_ref).ok_or_else(|| no_column(column, fields.len()))
}

fn no_column(number: usize, count: usize) -> Error {
    Error::new(ErrorKind::ColumnNotFound, format!("no column number {number}; there are {count}"))
}

impl Deref for CDataset {
    type Target = Dataset;

    fn deref(&self) -> &Dataset {
        &self.dataset
    }
}

/// Returns the value at `path` in a row: a column, and steps inside of its cell.
fn nested<'a>(dataset: &'a Dataset, row: u64, path: &[u64]) -> Result<Value<'a>> {
    let (&column, rest) =
        path.split_first().ok_or_else(|| invalid_argument("the path is empty: it begins with a column"))?;
    let column = usize::try_from(column).unwrap_or(usize::MAX);
    if column >= dataset.num_columns() {
        return Err(no_column(column, dataset.num_columns()));
    }
    inside(dataset.row(row)?.get(column)?, rest)
}

/// Returns the value nested in `value` at `path`.
fn inside<'a>(value: Value<'a>, path: &[u64]) -> Result<Value<'a>> {
    let Some((&step, rest)) = path.split_first() else { return Ok(value) };
    let number = usize::try_from(step).unwrap_or(usize::MAX);
    let next = match value {
        Value::List(items) | Value::Map(items) => items.get(number)?,
        Value::Struct(members) => members.get(number)?,
        Value::Union(_, member) if number == 0 => *member,
        Value::Union(..) => {
            return Err(invalid_argument(format!("a union has one value, number 0, and no number {number}")));
        }
        plain => return Err(invalid_argument(format!("there is nothing inside of the value {plain}"))),
    };
    inside(next, rest)
}

export_infallible! {
    /// Frees a dataset.
    fn arrowwood_dataset_free(dataset: OwnedHandle<CDataset>) {
        dataset.free();
    }
}

fn column_index(dataset: &Dataset, name: &str) -> Option<usize> {
    dataset.schema().fields().iter().position(|field| field.name() == name)
}

export! {
    /// Another handle of the same rows.
    fn arrowwood_dataset_clone(dataset: HandleRef<CDataset>, clone: HandleOut<CDataset>) {
        clone.put(CDataset::new(dataset.dataset.clone()));
        Ok(())
    }

    /// The number of rows.
    fn arrowwood_dataset_num_rows(dataset: HandleRef<CDataset>, rows: OutPtr<u64>) {
        rows.put(dataset.len()?);
        Ok(())
    }

    /// The number of columns.
    fn arrowwood_dataset_num_columns(dataset: HandleRef<CDataset>, columns: OutPtr<usize>) {
        columns.put(dataset.num_columns());
        Ok(())
    }

    /// The number of record batches.
    fn arrowwood_dataset_num_batches(dataset: HandleRef<CDataset>, batches: OutPtr<usize>) {
        batches.put(dataset.num_batches()?);
        Ok(())
    }

    /// The number of the column that has a name.
    fn arrowwood_dataset_column_index(dataset: HandleRef<CDataset>, name: CText, column: OutPtr<usize>) {
        // The error says which names exist, and whether several columns have this one.
        dataset.dataset.column(name)?;
        let Some(index) = column_index(dataset, name) else {
            return Err(Error::new(ErrorKind::Internal, format!("column '{name}' is not in the schema")));
        };
        column.put(index);
        Ok(())
    }

    /// The name of a column.
    fn arrowwood_dataset_column_name(dataset: HandleRef<CDataset>, column: usize, name: StringOut) {
        name.put(field(dataset, column)?.name().clone());
        Ok(())
    }

    /// The type of a column.
    fn arrowwood_dataset_column_type(dataset: HandleRef<CDataset>, column: usize, name: StringOut) {
        name.put(field_type_name(field(dataset, column)?));
        Ok(())
    }

    /// The number of the first row in its table.
    fn arrowwood_dataset_first_row(dataset: HandleRef<CDataset>, row: OutPtr<u64>) {
        row.put(dataset.first_row());
        Ok(())
    }

    /// The column by which the rows are sorted.
    fn arrowwood_dataset_sorted_by(dataset: HandleRef<CDataset>, column: OutPtr<i64>) {
        let index = dataset.sorted_by().and_then(|field| column_index(dataset, field.name()));
        column.put(index.map_or(-1, |index| index as i64));
        Ok(())
    }

    /// The size of the rows in bytes.
    fn arrowwood_dataset_bytes(dataset: HandleRef<CDataset>, bytes: OutPtr<u64>) {
        bytes.put(dataset.nbytes()?);
        Ok(())
    }

    /// The bytes by location.
    fn arrowwood_dataset_footprint(
        dataset: HandleRef<CDataset>, mapped: Optional<OutPtr<u64>>, copied: Optional<OutPtr<u64>>,
        resident: Optional<OutPtr<u64>>,
    ) {
        let footprint = dataset.footprint();
        // The system is asked about every page, so only on request.
        if let Some(resident) = resident {
            resident.put(dataset.resident()?);
        }
        if let Some(mapped) = mapped {
            mapped.put(footprint.mapped);
        }
        if let Some(copied) = copied {
            copied.put(footprint.copied);
        }
        Ok(())
    }

    /// Columns by number.
    fn arrowwood_dataset_select(
        dataset: HandleRef<CDataset>, columns[count]: InArray<usize>, selected: HandleOut<CDataset>,
    ) {
        // The numbers may be values of a mapped file.
        selected.put(CDataset::new(guard(|| dataset.select_at(columns))?));
        Ok(())
    }

    /// Columns by name.
    fn arrowwood_dataset_select_names(
        dataset: HandleRef<CDataset>, names[count]: InArray<CText>, selected: HandleOut<CDataset>,
    ) {
        selected.put(CDataset::new(dataset.select(&texts(names, "names")?)?));
        Ok(())
    }

    /// A range of rows.
    fn arrowwood_dataset_slice(dataset: HandleRef<CDataset>, start: u64, rows: u64, slice: HandleOut<CDataset>) {
        slice.put(CDataset::new(dataset.slice(start, rows)?));
        Ok(())
    }

    /// Concatenates datasets.
    fn arrowwood_dataset_concat(datasets[count]: InArray<HandleRef<CDataset>>, all: HandleOut<CDataset>) {
        let datasets = datasets.iter().map(|dataset| Ok(dataset.to_rust("datasets")?.dataset.clone()));
        all.put(CDataset::new(Dataset::concat(&datasets.collect::<Result<Vec<_>>>()?)?));
        Ok(())
    }

    /// The current rows.
    fn arrowwood_dataset_refresh(dataset: HandleRef<CDataset>, newer: HandleOut<CDataset>) {
        newer.put(CDataset::new(dataset.refresh()?));
        Ok(())
    }

    /// One row.
    fn arrowwood_dataset_cells(dataset: HandleRef<CDataset>, row: u64, cells[count]: OutArray<CValue>) {
        if cells.len() != dataset.num_columns() {
            let room = cells.len();
            let columns = dataset.num_columns();
            return Err(invalid_argument(format!("room for {room} cells, and a row has {columns}")));
        }
        let row = dataset.row(row)?;
        for column in 0..cells.len() {
            cells.put(column, to_c(&row.get(column)?)?);
        }
        Ok(())
    }

    /// One cell, or a value nested in it.
    fn arrowwood_dataset_value(
        dataset: HandleRef<CDataset>, row: u64, path[depth]: InArray<u64>, value: OutPtr<CValue>,
    ) {
        // The steps may be values of a mapped file.
        value.put(guard(|| to_c(&nested(dataset, row, path)?))?);
        Ok(())
    }

    /// The rows whose value in the sorted column is between two values.
    fn arrowwood_dataset_between(
        dataset: HandleRef<CDataset>, low: InPtr<CValueIn>, high: InPtr<CValueIn>, rows: HandleOut<CDataset>,
    ) {
        let between = with_value(low, |low| with_value(high, |high| dataset.between(low, high)))?;
        rows.put(CDataset::new(between));
        Ok(())
    }

    /// The dataset as text.
    fn arrowwood_dataset_display(dataset: HandleRef<CDataset>, rows: u64, width: u64, text: StringOut) {
        let preview = dataset.preview();
        let preview = if rows > 0 { preview.rows(rows) } else { preview };
        let width = usize::try_from(width).unwrap_or(usize::MAX);
        let preview = if width > 0 { preview.width(width) } else { preview };
        text.put(guard(|| Ok::<_, Error>(preview.to_string()))?);
        Ok(())
    }

    /// Checks all values.
    fn arrowwood_dataset_validate(dataset: HandleRef<CDataset>, progress: Progress, context: Context) {
        dataset.validate(progress.with(context))
    }
}
