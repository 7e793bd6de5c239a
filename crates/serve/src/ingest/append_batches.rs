//! Appends the batches of requests to a table's writer, and tells repeated batches from new ones.
//!
//! Nothing is committed here: [`append_all`] returns a [`PendingAck`] for each request with appended batches, and
//! `group_commit` commits them together and acknowledges each.

use std::ops::Range;
use std::sync::atomic::Ordering;

use arrowwood::{Writer, refuse_replica};

use super::producers::{BatchId, MAX_POSITIONS, PendingProducers, ProducerState, RowSpan, Verdict, judge};
use super::queue::{AppendRequest, AppendResults, Receipt};
use crate::http::{Problem, Result, ResultExt};
use crate::ops::Readiness;

/// The batches of a request after they were appended, to be acknowledged once they are committed, or durable.
pub(crate) struct PendingAck {
    pub request: AppendRequest,
    /// The receipts of the first batches of the request: of all of them, unless there is a refusal.
    pub receipts: Vec<Receipt>,
    /// The reason why the other batches were not appended.
    pub refusal: Option<Problem>,
    /// The row after the last one that must be durable.
    pub end: u64,
}

/// Appends the valid batches of a group of requests, and refuses the others. A request of which no batch was appended
/// is answered at once. Returns the others, which the caller must answer after the commit.
pub(crate) fn append_all(
    writer: &mut Writer,
    producers: &mut PendingProducers<'_>,
    group: Vec<AppendRequest>,
    readiness: &Readiness,
) -> Vec<PendingAck> {
    let mut pending = Vec::with_capacity(group.len());
    for request in group {
        let receipts = Vec::with_capacity(request.ends.len());
        let mut ack = PendingAck { receipts, request, refusal: None, end: 0 };
        ack.refusal = ack.append(writer, producers).err();
        if let Some(e) = ack.refusal.as_ref().and_then(Problem::error) {
            readiness.on_failure(e);
        }
        match ack.refusal {
            Some(refusal) if ack.receipts.is_empty() => ack.request.refuse(refusal),
            Some(_) => {
                ack.request.is_over.store(true, Ordering::Relaxed);
                pending.push(ack);
            }
            None => {
                let (receipts, batches) = (ack.receipts.len(), ack.request.ends.len());
                assert!(receipts == batches, "{receipts} receipts for {batches} batches");
                pending.push(ack);
            }
        }
    }
    pending
}

/// Returns how many of `count` batches, the first of which is `first`, are in the table already, and their producer's
/// position; `None` if none is.
fn duplicates(
    producers: &mut PendingProducers<'_>,
    first: &BatchId,
    count: usize,
) -> Result<Option<(usize, ProducerState)>> {
    let verdict = judge(producers.get(&first.producer), first);
    // A repeat by a producer that has replaced another one is recorded, too.
    if matches!(verdict, Verdict::Next | Verdict::Duplicate(_)) && !producers.has_room(first) {
        let detail = format!(
            "the table keeps the positions of {MAX_POSITIONS} producers and has no room for another one; use a name \
             again, or a table for each group of producers"
        );
        return Err(Problem::conflict("too_many_producers", detail));
    }
    match verdict {
        Verdict::Next => Ok(None),
        Verdict::Duplicate(position) => {
            producers.fence(first);
            assert!(first.sequence <= position.sequence, "batch {} is no duplicate", first.sequence);
            let duplicates = usize::try_from(position.sequence - first.sequence).map_or(count, |more| more + 1);
            Ok(Some((duplicates.min(count), position)))
        }
        Verdict::Old { epoch } => {
            let detail = format!("the producer was replaced: its epoch is {epoch} now");
            Err(Problem::conflict("old_epoch", detail).with_member("epoch", epoch))
        }
        Verdict::Gap { expected } => {
            let detail = format!("batches are missing: sequence {expected} is the next");
            Err(Problem::conflict("sequence_gap", detail).with_member("expected", expected))
        }
    }
}

/// Returns the receipt of a batch that is in the table already, as far as its producer's position tells, and the row
/// that must be durable before it is acknowledged.
fn duplicate_receipt(writer: &Writer, sequence: u64, position: ProducerState) -> (Receipt, u64) {
    let span = position.rows.filter(|_| sequence == position.sequence);
    let first_row = span.map(|rows| rows.first_row);
    let rows = span.map_or(0, |rows| rows.end - rows.first_row);
    // The rows of a batch that another server has committed may be anywhere in the table.
    let end = position.rows.map_or(writer.committed_rows(), |rows| rows.end);
    (Receipt { first_row, rows, committed: 0, durable: 0, is_duplicate: true }, end)
}

impl PendingAck {
    /// Appends the batches that are not in the table already, up to the first invalid one.
    fn append(&mut self, writer: &mut Writer, producers: &mut PendingProducers<'_>) -> Result<()> {
        let AppendRequest { ends, numbered, is_over, .. } = &self.request;
        if is_over.load(Ordering::Relaxed) {
            return Err(Problem::bad_request("an earlier batch of the call was refused"));
        }
        if numbered.is_some() && writer.is_replica() {
            refuse_replica(&writer.positions()).map_err(|e| Problem::conflict("replica", e.message()))?;
        }
        let mut first = 0;
        if let Some(id) = numbered
            && let Some((count, position)) = duplicates(producers, id, ends.len())?
        {
            for number in 0..count {
                let (receipt, end) = duplicate_receipt(writer, id.sequence + number as u64, position);
                self.receipts.push(receipt);
                self.end = self.end.max(end);
            }
            first = count;
        }
        if first == ends.len() {
            return Ok(());
        }
        let first_row = writer.rows();
        let (end, result) = append_from(&self.request, first, writer);
        self.record(producers, first..end, first_row);
        assert!(
            end == first || self.end == writer.rows(),
            "batches up to row {} were recorded, and rows up to {} appended",
            self.end,
            writer.rows()
        );
        result.or_input_problem()
    }

    /// Records that batches were appended, the first of them at row `first_row`.
    fn record(&mut self, producers: &mut PendingProducers<'_>, appended: Range<usize>, mut first_row: u64) {
        let last = appended.end;
        for number in appended {
            let span = self.request.span(number);
            let rows = span.end - span.start;
            let end = first_row + rows;
            self.receipts.push(Receipt {
                first_row: Some(first_row),
                rows,
                committed: 0,
                durable: 0,
                is_duplicate: false,
            });
            if let Some(first_id) = self.request.numbered.as_ref().filter(|_| number + 1 == last) {
                producers.set(&first_id.nth_after(number), RowSpan { first_row, end });
            }
            first_row = end;
            self.end = end;
        }
    }

    /// Returns the row after the last one that this request has appended, if any.
    pub fn appended_end(&self) -> Option<u64> {
        self.receipts.last().filter(|receipt| !receipt.is_duplicate).map(|_| self.end)
    }

    /// Sends the receipts, with the rows that are committed and durable now.
    pub fn acknowledge(self, writer: &Writer) {
        let (committed, durable) = (writer.committed_rows(), writer.durable_rows());
        let receipts = self.receipts.into_iter().map(|receipt| Receipt { committed, durable, ..receipt }).collect();
        self.request.answer(AppendResults { receipts, refusal: self.refusal });
    }
}

/// Appends batches from number `first` on. Returns the number of the first batch that was not appended, and why.
fn append_from(request: &AppendRequest, first: usize, writer: &mut Writer) -> (usize, arrowwood::Result<()>) {
    let count = request.ends.len();
    // Appending all batches together takes less time.
    match request.append_to(writer, first..count) {
        Ok(()) => return (count, Ok(())),
        Err(e) if first + 1 == count => return (first, Err(e)),
        Err(_) => (),
    }
    // One of them is invalid: the batches before it stay.
    for number in first..count {
        if let Err(e) = request.append_to(writer, number..number + 1) {
            return (number, Err(e));
        }
    }
    (count, Ok(()))
}

impl AppendRequest {
    /// Returns the rows of batch `number`, by their numbers in `rows`.
    fn span(&self, number: usize) -> Range<u64> {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        let end = self.ends[number];
        assert!(start <= end, "batch {number} ends at row {end}, before it begins at row {start}");
        start..end
    }

    /// Appends the rows of some batches.
    fn append_to(&self, writer: &mut Writer, numbers: Range<usize>) -> arrowwood::Result<()> {
        assert!(!numbers.is_empty() && numbers.end <= self.ends.len(), "batches {numbers:?} of {}", self.ends.len());
        if numbers == (0..self.ends.len()) {
            return writer.append_dataset(&self.rows);
        }
        let start = self.span(numbers.start).start;
        let end = self.span(numbers.end - 1).end;
        writer.append_dataset(&self.rows.slice(start, end - start)?)
    }

    /// Refuses all batches, and later ones of the same call.
    pub fn refuse(self, refusal: Problem) {
        self.is_over.store(true, Ordering::Relaxed);
        self.answer(refusal.into());
    }

    fn answer(self, results: AppendResults) {
        let AppendRequest { rows, share, reply, .. } = self;
        // Frees the memory first: the client may need it for the next batches as soon as it has the response.
        drop((rows, share));
        // A disconnected client gets no response; it will send the batches again.
        let _ = reply.send(results);
    }
}
