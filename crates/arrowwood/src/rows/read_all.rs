//! Reads a stream into one contiguous batch: bytes from a pipe or socket go straight to their column.
//!
//! ```text
//! body of a message   [ ids ][validity][ prices ][offsets][ text ]
//!                        │                 │         └──┬──────┘
//!  readv(2)              ▼                 ▼            ▼ decoded, then appended
//! columns            ids ······▶      prices ·····▶    text ·····▶
//! ```
//! Reading batches and concatenating them would take two passes over memory, and twice the space.

use std::io::Read;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_buffer::{BooleanBufferBuilder, Buffer};
use arrow_data::ArrayData;
use arrow_schema::{FieldRef, Schema, SchemaRef};

use super::builder::DatasetBuilder;
use super::collect::fixed_width;
use crate::array::{ArrayParts, Bytes, room_for_bits, to_array};
use crate::dataset::Dataset;
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::{ReceivedBatch, StreamReader, ValueDestination};
use crate::map::GrowableBuffer;

impl<R: Read> StreamReader<R> {
    /// Reads all remaining batches into one in memory.
    ///
    /// More than 2 GiB of text in one column takes several batches, unless its offsets have 64 bits.
    ///
    /// # Errors
    /// The errors of the batches. The batches before the failed one are lost; to keep them, iterate over the stream.
    pub fn read_all(mut self) -> Result<Dataset> {
        let schema = self.schema().clone();
        let mut columns = match StreamColumns::new(&schema) {
            Ok(columns) => columns,
            // Types that `DatasetBuilder` doesn't support are read batch by batch and then concatenated.
            Err(e) if e.kind() == ErrorKind::Unsupported => {
                return Dataset::from_batches(schema, self.collect::<Result<_>>()?)?.collect();
            }
            Err(e) => return Err(e),
        };
        while let Some(arrived) = self.read_into(&mut columns)? {
            columns.take(arrived)?;
        }
        columns.finish(&schema)
    }
}

/// The columns of a stream so far. All have the same number of rows.
struct StreamColumns {
    /// The values of each column of fixed width, by its number; `None` for other columns.
    fixed: Vec<Option<FixedColumn>>,
    /// All other columns.
    others: DatasetBuilder,
    rows: usize,
}

/// Values of fixed width.
struct FixedColumn {
    width: usize,
    values: GrowableBuffer,
    /// Present from the first batch with nulls on.
    validity: Option<BooleanBufferBuilder>,
}

impl StreamColumns {
    fn new(schema: &SchemaRef) -> Result<StreamColumns> {
        let fixed = |field: &FieldRef| {
            let width = fixed_width(field.data_type())?;
            Some(FixedColumn { width, values: GrowableBuffer::new(), validity: None })
        };
        let fixed: Vec<_> = schema.fields().iter().map(fixed).collect();
        let others = schema.fields().iter().zip(&fixed).filter(|(_, fixed)| fixed.is_none());
        let others: Vec<FieldRef> = others.map(|(field, _)| field.clone()).collect();
        Ok(StreamColumns { fixed, others: DatasetBuilder::new(Arc::new(Schema::new(others)))?, rows: 0 })
    }

    /// Adds the rows of a batch, whose fixed-width values may be in place already.
    fn take(&mut self, arrived: ReceivedBatch) -> Result<()> {
        let before = self.rows;
        let rows = arrived.rows;
        let mut others = Vec::new();
        for (fixed, column) in self.fixed.iter_mut().zip(arrived.columns) {
            match (fixed, column) {
                (Some(fixed), Err(validity)) => fixed.note(before, rows, validity.map(|(bits, _)| (bits, 0)))?,
                (Some(fixed), Ok(array)) => {
                    fixed.values.extend_from_slice(values_of(&array, fixed.width)?)?;
                    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
                    fixed.note(before, rows, nulls.map(|nulls| (nulls.buffer().clone(), nulls.offset())))?;
                }
                (None, Ok(array)) => others.push(array),
                (None, Err(_)) => return Err(Error::internal("a column without its values")),
            }
        }
        self.rows += rows;
        let fields = self.others.schema().fields().clone();
        self.others.append_arrays(&fields, &others, rows)
    }

    /// Makes one batch, or as many as the other columns have.
    fn finish(self, schema: &SchemaRef) -> Result<Dataset> {
        let others = self.others.finish()?.to_record_batches().collect::<Result<Vec<_>>>()?;
        let fields = schema.fields().iter().zip(self.fixed);
        let fixed = fields.map(|(field, fixed)| fixed.map(|fixed| fixed.array(field, self.rows)).transpose());
        let fixed = fixed.collect::<Result<Vec<_>>>()?;
        let mut start = 0;
        let mut whole = |others: &RecordBatch| {
            let rows = others.num_rows();
            let mut rest = others.columns().iter();
            let column = |array: &Option<ArrayData>| match array {
                Some(array) => Some(to_array(crate::array::slice(array, start, rows))),
                None => rest.next().cloned(),
            };
            let columns = fixed.iter().filter_map(column).collect();
            start += rows;
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            RecordBatch::try_new_with_options(schema.clone(), columns, &options)
                .map_err(|e| Error::invalid(e.to_string()))
        };
        let batches = others.iter().map(&mut whole).collect::<Result<_>>()?;
        Dataset::from_batches(schema.clone(), batches)
    }
}

impl ValueDestination for StreamColumns {
    fn reserve(&mut self, rows: usize) -> Result<Vec<Option<&mut [u8]>>> {
        let places = self.fixed.iter_mut().map(|fixed| fixed.as_mut().map(|fixed| fixed.reserve(rows)));
        places.map(Option::transpose).collect()
    }
}

impl FixedColumn {
    /// Returns memory for the values of `rows` more rows.
    fn reserve(&mut self, rows: usize) -> Result<&mut [u8]> {
        let len = rows.checked_mul(self.width).ok_or_else(|| Error::invalid(format!("a batch of {rows} rows")))?;
        Ok(self.values.extend_uninit(len)?)
    }

    /// Records the validity of `rows` rows after the first `before`: a bitmap from a bit on, or all valid.
    fn note(&mut self, before: usize, rows: usize, bits: Option<(Buffer, usize)>) -> Result<()> {
        if self.validity.is_none() && bits.is_none() {
            return Ok(());
        }
        let validity = self.bits(before, rows)?;
        match bits {
            Some((bits, from)) => validity.append_packed_range(from..from + rows, &bits),
            None => validity.append_n(rows, true),
        }
        Ok(())
    }

    /// Returns the validity of the first `before` rows, with room for `rows` more, which is asked for first: values of
    /// no bytes may be any number.
    fn bits(&mut self, before: usize, rows: usize) -> Result<&mut BooleanBufferBuilder> {
        let needed = before.checked_add(rows).ok_or_else(|| Error::invalid(format!("a batch of {rows} rows")))?;
        let capacity = self.validity.as_ref().map_or(0, BooleanBufferBuilder::capacity);
        if self.validity.is_none() || needed > capacity {
            let mut grown = room_for_bits(needed.max(capacity.saturating_mul(2)))?;
            match &self.validity {
                Some(bits) => grown.append_packed_range(0..bits.len(), bits.as_slice()),
                None => grown.append_n(before, true),
            }
            self.validity = Some(grown);
        }
        self.validity.as_mut().ok_or_else(|| Error::internal("a bitmap that was just made"))
    }

    fn array(self, field: &FieldRef, rows: usize) -> Result<ArrayData> {
        let validity = self.validity.map(|mut validity| validity.finish());
        let validity = validity.map(|bits| {
            let nulls = rows - bits.count_set_bits();
            (bits.into_inner(), nulls)
        });
        let values = Bytes::from(self.values).slice(0, rows * self.width);
        let buffers = vec![values.ok_or_else(|| Error::invalid("fewer values than rows"))?];
        let data_type = field.data_type().clone();
        ArrayParts { data_type, len: rows, validity, buffers, children: Vec::new() }.assemble().checked(&[])
    }
}

/// Returns the bytes of the values of an array, `width` bytes each.
fn values_of(array: &ArrayData, width: usize) -> Result<&[u8]> {
    let from = array.offset() * width;
    let to = (array.offset() + array.len()) * width;
    let values = array.buffers().first().and_then(|values| values.get(from..to));
    values.ok_or_else(|| Error::invalid("fewer values than rows"))
}
