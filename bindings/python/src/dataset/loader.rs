//! Batches of rows as memory for NumPy, from which `arrowwood/_loader.py` makes arrays.

use arrow_schema::{DataType, Field};
use arrowwood::{EpochOrder, ErrorKind, Value};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat};

use super::column::Column;
use super::dataset::Dataset;
use crate::convert::to_numpy::{NumpyType, nested_list_shape, row_shape};
use crate::exchange::buffer_protocol::Block;
use crate::interpreter::errors::Result;
use crate::interpreter::py_call::{CallPy, guard};

/// Columns copied as they are stored, with NumPy's view of their items, and the others.
#[pyclass(frozen, module = "arrowwood._arrowwood", name = "_Batches")]
pub struct BatchReader {
    all: arrowwood::Dataset,
    plain: arrowwood::Dataset,
    /// The number in `all`, and the items, of each column of `plain`.
    items: Vec<(usize, NumpyType)>,
    rest: arrowwood::Dataset,
    /// The number in `all` of each column of `rest`.
    others: Vec<usize>,
}

/// NumPy's name of the items' type, shape of a row, and order of its dimensions if it is another.
type ArrayDescription = (String, Vec<usize>, Option<Vec<usize>>);

/// Returns the type of a column's items, if NumPy holds them as Arrow does.
fn items(field: &Field) -> Option<NumpyType> {
    let item = nested_list_shape(field.data_type()).map_or(field.data_type(), |(item, _)| item);
    NumpyType::for_type(item).filter(|_| !matches!(item, DataType::Boolean | DataType::Date32))
}

/// The number of rows whose values are in a digest of all rows.
const SAMPLES: u64 = 32;
/// The maximum number of items of a list that are in a digest.
const MAX_ITEMS: usize = 1 << 12;

/// FNV-1a of numbers and values. The same on every machine.
struct Digest(u64);

impl Digest {
    /// The parameters of FNV-1a for 64 bits.
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x100_0000_01b3;
    /// The number of bits of the result, which JSON keeps in every language.
    const RESULT_BITS: u32 = 53;

    fn new() -> Digest {
        Digest(Digest::OFFSET_BASIS)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(Digest::PRIME));
    }

    fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    fn text(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.bytes(bytes);
    }

    fn value(&mut self, value: &Value<'_>) -> arrowwood::Result<()> {
        match value {
            Value::Int(number) => self.number(number.cast_unsigned()),
            Value::Float32(number) => self.number(number.to_bits().into()),
            Value::Float64(number) => self.number(number.to_bits()),
            Value::Str(text) => self.text(text.as_bytes()),
            Value::Bytes(bytes) => self.text(bytes),
            Value::List(items) | Value::Map(items) => {
                self.number(items.len() as u64);
                items.iter().take(MAX_ITEMS).try_for_each(|item| self.value(&item?))?;
            }
            Value::Struct(members) => members.iter().try_for_each(|(_, member)| self.value(&member?))?,
            other => self.text(other.to_string().as_bytes()),
        }
        Ok(())
    }

    /// Returns the high bits of the hash.
    fn finish(self) -> u64 {
        self.0 >> (u64::BITS - Digest::RESULT_BITS)
    }
}

#[pymethods]
impl BatchReader {
    #[new]
    fn new(dataset: &Dataset) -> Result<BatchReader> {
        let all = dataset.inner().clone();
        let fields = all.schema().fields();
        let items: Vec<_> = fields.iter().enumerate().filter_map(|(at, field)| Some((at, items(field)?))).collect();
        let others: Vec<usize> = (0..fields.len()).filter(|at| items.iter().all(|(plain, _)| plain != at)).collect();
        let plain = all.select_at(&items.iter().map(|(at, _)| *at).collect::<Vec<_>>())?;
        let rest = all.select_at(&others)?;
        Ok(BatchReader { all, plain, items, rest, others })
    }

    /// The kinds of arrays that the columns become; `None` for columns that are not numbers in place.
    fn describe(&self) -> Vec<Option<ArrayDescription>> {
        let mut descriptions: Vec<Option<ArrayDescription>> = (0..self.all.num_columns()).map(|_| None).collect();
        for (column, plain) in &self.items {
            let field = self.all.schema().field(*column);
            let (shape, order) = row_shape(field, nested_list_shape(field.data_type()).map(|(_, lengths)| lengths));
            // Without a shape, each row is a single number.
            descriptions[*column] = Some((plain.dtype.clone(), shape.unwrap_or_else(Vec::new), order));
        }
        descriptions
    }

    /// A number that other rows hardly ever have: of their numbers in the data, as far as they are in files or a
    /// view, and of the values of some of them. Where the files are does not matter.
    fn rows_id(&self, py: Python<'_>) -> Result<u64> {
        py.detach(|| {
            let mut digest = Digest::new();
            match (self.all.resolve_view()?, self.all.file_slices()) {
                (Some((_, rows)), _) => rows.into_iter().for_each(|row| digest.number(row)),
                // Only their starts: a table's rows stay the same when its files are merged.
                (None, Ok(places)) => digest.number(places.first().map_or(0, |slice| slice.start)),
                (None, Err(e)) if e.kind() == ErrorKind::Unsupported => {}
                (None, Err(e)) => return Err(e.into()),
            }
            let mut rows: Vec<u64> = match self.all.len()? {
                0 => Vec::new(),
                len => (0..SAMPLES)
                    .map(|sample| (u128::from(len - 1) * u128::from(sample) / u128::from(SAMPLES - 1)) as u64)
                    .collect(),
            };
            rows.dedup();
            for row in rows {
                self.all.row(row)?.iter().try_for_each(|(_, value)| digest.value(&value?))?;
            }
            Ok(digest.finish())
        })
    }

    /// The columns' parts of the rows at places `start .. stop` of an epoch: memory, or a column where that is not
    /// enough.
    ///
    /// Args:
    ///     seed: None leaves the rows in order.
    ///     block: rows of the blocks to shuffle; None shuffles all rows.
    #[pyo3(signature = (seed, epoch, block, start, stop))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        seed: Option<u64>,
        epoch: u64,
        block: Option<u64>,
        start: u64,
        stop: u64,
    ) -> Result<Vec<Bound<'py, PyAny>>> {
        let (gathered, rest) = py.detach(|| {
            let len = self.all.len()?;
            let order = match (seed, block) {
                (None, _) => EpochOrder::in_order(len),
                (Some(seed), None) => EpochOrder::shuffled(len, seed, epoch),
                (Some(seed), Some(block)) => EpochOrder::shuffled_blocks(len, block, seed, epoch)?,
            };
            let rows = order.rows(start..stop);
            let signed: Vec<i64> = rows.iter().map(|row| row.cast_signed()).collect();
            let rest = if self.others.is_empty() { None } else { Some(self.rest.take(&signed)?) };
            Ok::<_, arrowwood::Error>((self.plain.gather(&rows)?, rest))
        })?;
        let mut parts: Vec<Option<Bound<'py, PyAny>>> = (0..self.all.num_columns()).map(|_| None).collect();
        let mut left = 0;
        for ((at, plain), memory) in self.items.iter().zip(gathered.blocks) {
            parts[*at] = Some(match memory {
                Some(memory) => Bound::new(py, Block::new(memory, plain.width, plain.format))?.into_any(),
                None => {
                    left += 1;
                    Bound::new(py, Column::new(gathered.rest.column_at(left - 1)?))?.into_any()
                }
            });
        }
        for (number, at) in self.others.iter().enumerate() {
            let Some(rest) = &rest else { break };
            parts[*at] = Some(Bound::new(py, Column::new(rest.column_at(number)?))?.into_any());
        }
        Ok(parts.into_iter().map(|part| part.unwrap_or_else(|| py.None().into_bound(py))).collect())
    }
}

#[pymethods]
impl Dataset {
    /// Iterate over batches of `batch_size` rows for training, each a dict of NumPy arrays by column: numbers
    /// ``(n,)``, fixed-size lists ``(n, length)``, tensors ``(n, *shape)``, in writable memory. Lists of several
    /// lengths are arrays of arrays, text is an array of objects.
    ///
    /// Only the rows of the requested batch are read, and no order is stored: the number of rows, 10 or 10 billion,
    /// makes no difference. A table's loader has the rows of the dataset, not those committed later.
    ///
    /// Args:
    ///     batch_size: rows per batch; the last one may have fewer.
    ///     seed: shuffles all rows, in a new order each epoch; the same on every machine. None: file order.
    ///     block: shuffles blocks of this many rows, and mixes the rows of 16 of them at a time. Faster for a file
    ///         that does not fit into memory, if adjacent rows are not alike.
    ///     start: the number of the batch to begin with, in the first epoch.
    ///     drop_last: omit a last batch with fewer rows, and batches that not every rank would get.
    ///     columns: the columns to read; None reads all.
    ///     device: None gives NumPy arrays. ``"torch"`` gives tensors of PyTorch, ``"cuda"`` and so on tensors there.
    ///     rank: the number of this process among `world`: it gets batches ``rank``, ``rank + world``, and so on, of
    ///         those that a single process would get.
    ///     world: the number of processes that share the rows.
    ///
    /// Raises:
    ///     ColumnNotFound: there is no such column.
    ///     InvalidArgument: an argument is out of range, or PyTorch has no such device.
    ///     ImportError: a device is given, and PyTorch is not installed.
    #[pyo3(signature = (
        batch_size, *, seed = None, block = None, start = 0, drop_last = false, columns = None, device = None, rank = 0,
        world = 1
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
    fn loader<'py>(
        slf: &Bound<'py, Self>,
        batch_size: &Bound<'py, PyAny>,
        seed: Option<&Bound<'py, PyAny>>,
        block: Option<&Bound<'py, PyAny>>,
        start: i64,
        drop_last: bool,
        columns: Option<&Bound<'py, PyAny>>,
        device: Option<&Bound<'py, PyAny>>,
        rank: i64,
        world: i64,
    ) -> Result<Bound<'py, PyAny>> {
        let py = slf.py();
        let named = PyDict::new(py);
        named.set_item("seed", seed)?;
        named.set_item("block", block)?;
        named.set_item("start", start)?;
        named.set_item("drop_last", drop_last)?;
        named.set_item("columns", columns)?;
        named.set_item("device", device)?;
        named.set_item("rank", rank)?;
        named.set_item("world", world)?;
        let class = py.import("arrowwood._loader")?.getattr("Loader")?;
        guard(|| Ok(class.call((slf, batch_size), Some(&named))?))
    }

    /// Split the rows at random into two datasets: one for training, and one for testing. Both are views: nothing is
    /// copied.
    ///
    /// Args:
    ///     test_size: the share of rows for testing, rounded up, as ``0.1``, or their number; a quarter by default.
    ///     seed: the same seed gives the same split on every machine; without a seed, each split is different.
    ///
    /// Raises:
    ///     InvalidArgument: `test_size` is out of range.
    #[pyo3(signature = (test_size = None, seed = None))]
    fn train_test_split<'py>(
        slf: &Bound<'py, Self>,
        test_size: Option<&Bound<'py, PyAny>>,
        seed: Option<u64>,
    ) -> Result<Bound<'py, PyAny>> {
        let py = slf.py();
        let quarter = PyFloat::new(py, 0.25).into_any();
        let split = py.import("arrowwood._loader")?.getattr("split")?;
        guard(|| Ok(split.call_py((slf, test_size.unwrap_or(&quarter), seed))?))
    }
}
