//! Columns of numbers as bytes, straight from a batch's header. Who copies a million small batches would spend its time
//! and memory on arrays that nobody looks at again, so nothing is decoded here and nothing kept.

use std::sync::OnceLock;

use arrow_data::ArrayData;

use super::decode::Batch;
use super::message::{BatchHeader, Frame, Header, length};
use super::read::{Ipc, Validate, body_end};
use super::schema::Node;
use crate::dataset::{Plain, Widths};
use crate::error::Result;
use crate::validate;

impl Ipc {
    /// See [`Source::plain`](crate::dataset::Source::plain).
    pub(super) fn plain_columns<'a>(
        &'a self,
        batch: usize,
        columns: Widths<'_>,
        keep: bool,
        into: &mut Vec<Option<Plain<'a>>>,
    ) -> Result<()> {
        let known = match &self.footer {
            Some(_) => self.blocks.get(batch),
            None => self.entry(batch)?.map(|entry| &entry.batch),
        };
        let parsed;
        let header = match known.and_then(OnceLock::get) {
            Some(decoded) => &decoded.batch,
            None if keep => &self.decoded(batch)?.batch,
            None => {
                let header = self.frame_of(batch).and_then(|frame| self.header(frame));
                parsed = header.map_err(|e| self.locate_error(e.context(format_args!("batch {batch}"))))?;
                &parsed
            }
        };
        into.extend(columns.map(|(column, width)| self.plain_column(header, column, width)));
        Ok(())
    }

    /// See [`Source::dictionary`](crate::dataset::Source::dictionary): that of a column whose dictionary is there before
    /// the first batch and never changes.
    pub(super) fn only_dictionary(&self, column: usize) -> Result<Option<ArrayData>> {
        let Some(node) = self.schema.columns.get(column) else { return Ok(None) };
        let Some((id, values)) = &node.dictionary else { return Ok(None) };
        let mut is_flat = true;
        values.dictionaries(&mut |_, _| is_flat = false);
        if !self.knows_all() {
            return Ok(None);
        }
        let epoch = self.epoch_of_batch(0)?;
        let only = self.dictionaries.get(id).and_then(|dictionary| dictionary.only(epoch));
        let Some(version) = only.filter(|_| is_flat && !self.is_thorough()) else { return Ok(None) };
        let checked = if self.options.validate != Validate::None { version.check(self, *id) } else { Ok(()) };
        checked.and_then(|()| version.values(self, *id)).map(Some).map_err(|e| self.column_error(e, 0, column))
    }

    /// The header of the batch whose message is at `frame`, checked against the schema.
    pub(super) fn header(&self, frame: Frame) -> Result<Batch> {
        let mut metadata = vec![0; frame.metadata_len];
        self.bytes.read_at(frame.metadata, &mut metadata)?;
        let header = Header::parse(&metadata)?;
        let body = (frame.body(), header.body_len);
        body_end(&self.bytes, frame, header.body_len)?;
        Batch::new(BatchHeader::parse(header.table)?, header.version, body, &self.schema.columns)
    }

    /// `None` where anything is out of the ordinary: the decoder knows what to do, or what to say.
    fn plain_column(&self, batch: &Batch, column: usize, width: usize) -> Option<Plain<'_>> {
        let node = self.schema.columns.get(column)?;
        let as_stored = batch.header.compression.is_none() && !self.schema.big_endian && !self.is_thorough();
        if !as_stored || !is_plain(node) {
            return None;
        }
        let (number, buffer) = batch.start_of(column)?;
        let &(len, nulls) = batch.header.nodes.get(number)?;
        if usize::try_from(len).ok()? != batch.header.rows || !(0..=len).contains(&nulls) {
            return None;
        }
        // The first buffer is the validity bitmap.
        let &(offset, len) = batch.header.buffers.get(buffer + 1)?;
        let (offset, len) = (length("buffer offset", offset).ok()?, length("buffer length", len).ok()?);
        let (body, body_len) = batch.body;
        let needed = batch.header.rows.checked_mul(width)?;
        let fits = needed <= len && offset.checked_add(len)? <= body_len;
        let values = if fits { self.bytes.get(body.checked_add(offset)?, needed) } else { None };
        values.map(|values| Plain { values, has_nulls: nulls > 0 })
    }
}

/// Whether a column has a bitmap and values that can be anything, or keys.
fn is_plain(node: &Node) -> bool {
    (node.dictionary.is_some() || validate::is_trivial(node.data_type())) && node.layout.has_validity()
}
