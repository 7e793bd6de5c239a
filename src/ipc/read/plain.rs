//! Columns of numbers as bytes, straight from a batch's header. Who copies a million small batches would spend its time
//! and memory on arrays that nobody looks at again, so nothing is decoded here. Who gathers rows comes again, and finds
//! kept where the values lie.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_data::ArrayData;

use super::decode::Batch;
use super::source::{Ipc, Validate, body_end};
use crate::array::validate;
use crate::dataset::{Plain, Widths};
use crate::error::Result;
use crate::ipc::framing::{BatchHeader, Frame, Header, Node, length};

/// The most places that are kept: 32 MiB.
const MOST_SPOTS: usize = 1 << 22;

/// Where the values of columns begin, as far as they were asked for: 8 bytes for each column of each batch, those of a
/// batch side by side, so that rows of many batches are found in few cache lines.
#[derive(Debug, Default)]
pub(super) struct Spots(OnceLock<Box<[AtomicU64]>>);

/// Where values begin in the file, and whether nulls are among them.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spot {
    offset: usize,
    has_nulls: bool,
}

impl Spots {
    /// One for each column of batch `batch`; none where they would be too many.
    fn of_batch(&self, batch: usize, columns: usize, batches: impl FnOnce() -> usize) -> Option<&[AtomicU64]> {
        let made = || {
            let all = batches().saturating_mul(columns);
            (0..if all > MOST_SPOTS { 0 } else { all }).map(|_| AtomicU64::new(0)).collect()
        };
        self.0.get_or_init(made).get(batch * columns..(batch + 1) * columns)
    }
}

impl Spot {
    /// What is out of the ordinary.
    const NONE: u64 = 1;

    /// In a word that is neither 0, which is for what nobody has asked for, nor `NONE`.
    fn packed(self) -> u64 {
        (self.offset as u64 + 1) << 1 | u64::from(self.has_nulls)
    }

    fn unpacked(word: u64) -> Option<Spot> {
        let offset = usize::try_from((word >> 1).checked_sub(1)?).ok()?;
        Some(Spot { offset, has_nulls: word & 1 == 1 })
    }
}

impl Ipc {
    /// See [`Source::plain`](crate::dataset::Source::plain); of batch and rows.
    pub(super) fn plain_columns<'a>(
        &'a self,
        (batch, rows): (usize, usize),
        columns: Widths<'_>,
        keep: bool,
        into: &mut Vec<Option<Plain<'a>>>,
    ) -> Result<()> {
        let spots = match keep && self.knows_all() {
            true => self.spots.of_batch(batch, self.schema.columns.len(), || self.known_batches()),
            false => None,
        };
        let mut header = None;
        for (column, width) in columns {
            let kept = spots.and_then(|spots| spots.get(column));
            // Relaxed: the word is all there is to it.
            let mut word = kept.map_or(0, |kept| kept.load(Ordering::Relaxed));
            if word == 0 {
                if header.is_none() {
                    header = Some(self.plain_header(batch)?);
                }
                let spot = header.as_deref().and_then(|header| self.spot(header, column, width));
                word = spot.map_or(Spot::NONE, Spot::packed);
                kept.inspect(|kept| kept.store(word, Ordering::Relaxed));
            }
            into.push(Spot::unpacked(word).and_then(|Spot { offset, has_nulls }| {
                let values = self.bytes.get(offset, rows.checked_mul(width)?)?;
                Some(Plain { values, has_nulls })
            }));
        }
        Ok(())
    }

    /// The number of batches, all of which are known.
    fn known_batches(&self) -> usize {
        self.footer.as_ref().map_or_else(|| self.entries.len(), |footer| footer.batches.len())
    }

    /// The header of a batch: that which is there, or read for this.
    fn plain_header(&self, batch: usize) -> Result<Cow<'_, Batch>> {
        let known = match &self.footer {
            Some(_) => self.blocks.get(batch),
            None => self.entry(batch)?.map(|entry| &entry.batch),
        };
        if let Some(decoded) = known.and_then(OnceLock::get) {
            return Ok(Cow::Borrowed(&decoded.batch));
        }
        let header = self.frame_of(batch).and_then(|frame| self.header(frame));
        header.map(Cow::Owned).map_err(|e| self.locate_error(e.context(format_args!("batch {batch}"))))
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
    fn spot(&self, batch: &Batch, column: usize, width: usize) -> Option<Spot> {
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
        fits.then_some(Spot { offset: body.checked_add(offset)?, has_nulls: nulls > 0 })
    }
}

/// Whether a column has a bitmap and values that can be anything, or keys.
fn is_plain(node: &Node) -> bool {
    (node.dictionary.is_some() || validate::is_trivial(node.data_type())) && node.layout.has_validity()
}

#[cfg(test)]
mod tests {
    use super::super::plain::Spot;

    #[test]
    fn spots_fit_into_words() {
        for (offset, has_nulls) in [(0, false), (0, true), (1, false), (usize::MAX >> 2, true)] {
            let spot = Spot { offset, has_nulls };
            assert!(spot.packed() > Spot::NONE);
            assert_eq!(Spot::unpacked(spot.packed()), Some(spot));
        }
        assert_eq!(Spot::unpacked(Spot::NONE), None);
    }
}
