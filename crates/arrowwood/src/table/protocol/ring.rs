//! Publishes footers for other Arrow readers, and manages the ring of their messages.
//!
//! To publish, the messages are written to a part of the ring that no reader can be using, a footer to its own place,
//! and then the footer's *length*, one aligned word, is stored: footers begin at increasing distances before it, so
//! another length selects another footer (a flatbuffer ignores the bytes after it).
//!
//! The *place* ([`FooterSlot`]) of a footer and its messages is in one of three states:
//!
//! - *published*: readers that open the file use it.
//! - *resting*: another footer was published in its stead less than a minute ago. A reader may have read the footer
//!   before, and still has to decode the messages it points to; a minute is the time it has for that.
//! - *free*: it may be written.
//!
//! Only the writer, which has the table's lock, changes these states; they are in its memory. Readers see the length,
//! the footers and the messages. The next writer recovers the states from the times in the footers
//! ([`FooterRing::reopen`]).
//!
//! The messages of a footer, its *group*, follow those of the footer before it around the ring, 64 bytes earlier in
//! each *lap*. A reader that comes back to old messages after more than that minute finds the middle of other messages,
//! and no message. The file is sparse: only the parts of the ring that are in use, or will be soon, have *blocks* of
//! the file system.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::footer::{FooterSizes, STAMP, encode_footer, footer_stamp, selected_footer};
use super::publish;
use super::rate_limiter::{RateLimiter, elapsed, now, unix_micros};
use crate::error::Error;
use crate::map::SharedFile;
use crate::rows::Plan;
use crate::table::format::{Header, LINE, PAGE};

/// Footers are used in runs of this many, as many as possible of the first ones: a reader reads all bytes behind a
/// footer.
const RUN: u64 = 128;
/// The number of groups that get blocks at a time, as far as [`MAX_STEP`] allows it.
const STEP_GROUPS: u64 = 128;
/// The minimum number of groups that get blocks at a time.
const MIN_STEP_GROUPS: u64 = 4;
/// The maximum number of bytes of the ring that get blocks at a time, unless [`MIN_STEP_GROUPS`] need more.
const MAX_STEP: u64 = 256 << 10;
/// The longest wait for a place if a clock was wrong.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// The number of bytes that are read at a time to find the footers in a file.
const READ: u64 = 64 << 10;

/// The maximum number of footers of a segment; fewer if they and their messages need more than [`MAX_BYTES`].
const MAX_FOOTERS: u64 = 4096;
/// The minimum number of footers, whatever they need.
const MIN_FOOTERS: u64 = 64;
/// The maximum number of bytes of all footers and their messages.
const MAX_BYTES: u64 = 48 << 20;
/// The ring has room for one more group for each of this many footers: groups move, and leave gaps.
const SPARE_PART: u64 = 8;

/// Returns the number of footers of a new segment, and the share of the ring that each of them adds.
pub(in crate::table) fn ring_size(sizes: &FooterSizes) -> (u64, u64) {
    let slot = (sizes.group + sizes.group / SPARE_PART).next_multiple_of(LINE);
    let footers = (MAX_BYTES / (slot + sizes.footer)).clamp(MIN_FOOTERS, MAX_FOOTERS);
    (footers, slot)
}

/// The places of a footer and its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FooterSlot {
    /// The number of the footer, which counts from the end of the file.
    number: u64,
    /// The offset of the messages from the start of the ring.
    messages: u64,
}

/// The position in the ring of the next footer's messages, and the bytes around it that have blocks. Offsets count from
/// the start of the ring, and `from`, `next` and `next + ready` follow each other around it:
///
/// ```text
/// ┆ no blocks │ messages, resting or published │ ready to be written │ no blocks ┆
///             from                             next                  next + ready
/// ```
#[derive(Debug)]
struct Frontier {
    /// The number of bytes of a footer's messages.
    group: u64,
    /// The number of bytes of a lap. A group may end beyond it.
    lap: u64,
    /// The offset of the next messages.
    next: u64,
    /// The start of the bytes before `next` that may have blocks.
    from: u64,
    /// The number of bytes from `next` on that have blocks.
    ready: u64,
    /// The number of bytes that get blocks, or are given back, at a time.
    step: u64,
}

impl Frontier {
    fn new(group: u64, header: &Header) -> Frontier {
        assert!(group > 0, "a footer has messages");
        let bytes = header.slot * u64::from(header.slots);
        // Whole groups and a line, so that each lap begins at another multiple of a line.
        let lap = (bytes.saturating_sub(group + LINE) / group).max(1) * group + LINE;
        let step = (STEP_GROUPS * group).min(MAX_STEP).max(MIN_STEP_GROUPS * group).next_multiple_of(PAGE);
        Frontier { group, lap, next: 0, from: 0, ready: 0, step }
    }

    /// Returns the number of bytes from one offset to another, forwards around the ring.
    fn distance(&self, from: u64, to: u64) -> u64 {
        debug_assert!(from <= to + self.lap, "{from} and {to} are offsets in a lap of {}", self.lap);
        (to + self.lap - from) % self.lap
    }

    /// Returns the parts of the ring in which the `len` bytes from `from` on are: two if they go beyond the end of the
    /// lap.
    fn parts(&self, from: u64, len: u64) -> impl Iterator<Item = Range<u64>> + use<> {
        let end = from + len;
        // The last group of a lap may end beyond it.
        let first_end = if end < self.lap { end } else { self.lap + self.group };
        let next_lap = 0..end.saturating_sub(self.lap);
        [from..first_end, next_lap].into_iter().filter(|part| !part.is_empty())
    }

    /// Returns true if the next messages would overwrite the messages at `used`.
    fn reaches(&self, used: u64) -> bool {
        self.distance(self.next, used) < self.group
    }

    /// Continues behind one of the groups at `used`, where the gap to the next one is largest. Stays where it is if no
    /// gap has room for a group.
    fn go_around(&mut self, used: &[u64]) {
        let mut max_gap = 0;
        for start in used.iter().map(|messages| (messages + self.group) % self.lap) {
            let is_free = used.iter().all(|&messages| self.distance(messages, start) >= self.group);
            let gap = used.iter().map(|&messages| self.distance(start, messages)).min();
            // The last of several equal gaps, behind the oldest messages.
            if let Some(gap) = gap.filter(|&gap| is_free && gap >= max_gap.max(self.group)) {
                max_gap = gap;
                self.next = start;
            }
        }
    }

    /// Gives the next messages blocks. If the file system is full, they overwrite the oldest ones.
    fn prepare(&mut self, store: &SharedFile, ring: u64) -> io::Result<()> {
        if self.ready >= self.group.max(self.step / 2) {
            return Ok(());
        }
        let with_blocks = self.distance(self.from, self.next) + self.ready;
        let len = self.step.min(self.lap - with_blocks.min(self.lap));
        let start = (self.next + self.ready) % self.lap;
        let mut parts = self.parts(start, len);
        match parts.try_for_each(|part| store.fill_holes(ring + part.start, part.end - part.start)) {
            Ok(()) => self.ready += len,
            Err(e) if e.kind() == io::ErrorKind::StorageFull && self.ready < self.group => {
                self.ready += self.distance(self.from, self.next);
                self.next = self.from;
                return if self.ready < 2 * self.group { Err(e) } else { Ok(()) };
            }
            Err(e) if e.kind() == io::ErrorKind::StorageFull => (),
            Err(e) => return Err(e),
        }
        Ok(())
    }

    /// Moves behind the messages that were written.
    fn advance(&mut self) {
        self.next = (self.next + self.group) % self.lap;
        self.ready = self.ready.saturating_sub(self.group);
    }

    /// Takes the parts of the ring before `used`, the oldest messages in use, if they are enough to give their blocks
    /// back.
    fn take_rested(&mut self, used: u64) -> Option<impl Iterator<Item = Range<u64>> + use<>> {
        let rested = self.distance(self.from, used);
        // Newer messages come before the oldest ones after the file system was full.
        if rested < self.step || rested > self.distance(self.from, self.next) {
            return None;
        }
        let to = used - used % PAGE;
        let parts = self.parts(self.from, self.distance(self.from, to));
        self.from = to;
        Some(parts)
    }
}

/// The free footers. They are taken run by run, from the first run on, and downwards in each run. Polars reads the
/// footer's length twice, and refuses the file if the second is greater, so lengths should rarely grow.
#[derive(Debug)]
struct FreeFooters {
    /// The number of the segment's first footer. Footers before it have given their place to the schema.
    first: u64,
    /// Whether each footer is free, from `first` on.
    is_free: Vec<bool>,
    /// The number of free footers.
    count: usize,
    /// The number of footers, the first ones, that have blocks of the file system.
    ready: u64,
}

impl FreeFooters {
    fn new(header: &Header) -> FreeFooters {
        assert!(header.shared < header.slots.into(), "the schema leaves no footer of {}", header.slots);
        let count = (u64::from(header.slots) - header.shared) as usize;
        FreeFooters { first: header.shared, is_free: vec![true; count], count, ready: 0 }
    }

    /// Marks a footer as in use: published or resting.
    fn take(&mut self, number: u64) {
        let is_free = self.is_free_mut(number);
        let was_free = std::mem::replace(is_free, false);
        self.count -= usize::from(was_free);
    }

    /// Marks a footer as free.
    fn give_back(&mut self, number: u64) {
        let is_free = self.is_free_mut(number);
        let was_free = std::mem::replace(is_free, true);
        self.count += usize::from(!was_free);
    }

    fn is_free_mut(&mut self, number: u64) -> &mut bool {
        let end = self.first + self.is_free.len() as u64;
        assert!((self.first..end).contains(&number), "footer {number} of {} to {end}", self.first);
        &mut self.is_free[(number - self.first) as usize]
    }

    /// Returns the free footer to take after `current` from the first `count`.
    fn next(&self, current: Option<u64>, count: u64) -> Option<u64> {
        let free = &self.is_free[..(count as usize).min(self.is_free.len())];
        let below = current.and_then(|current| current.checked_sub(self.first)?.checked_sub(1));
        if let Some(below) = below.filter(|below| (below + 1) % RUN != 0)
            && free.get(below as usize) == Some(&true)
        {
            return Some(self.first + below);
        }
        // The first run with free footers only, else a run with the most of them.
        let runs = free.chunks(RUN as usize).enumerate();
        let (number, run) = runs.max_by_key(|(number, run)| {
            let count = run.iter().filter(|&&is_free| is_free).count();
            let is_whole = count == run.len();
            (is_whole, if is_whole { 0 } else { count }, Reverse(*number))
        })?;
        let last = run.iter().rposition(|&is_free| is_free)?;
        Some(self.first + number as u64 * RUN + last as u64)
    }

    /// Returns the same footer as [`FreeFooters::next`], after giving it blocks of the file system; `None` if no free
    /// one has blocks or gets some.
    fn prepare(&mut self, store: &SharedFile, header: &Header, current: Option<u64>) -> io::Result<Option<u64>> {
        let all = self.is_free.len() as u64;
        let Some(number) = self.next(current, all) else { return Ok(None) };
        if number - self.first < self.ready {
            return Ok(Some(number));
        }
        let ready = (number - self.first + 1).next_multiple_of(RUN).min(all);
        let from = header.footer_at(self.first + ready - 1);
        match store.fill_holes(from, header.footer_at(self.first) + header.footer - from) {
            Ok(()) => self.ready = ready,
            Err(e) if e.kind() != io::ErrorKind::StorageFull || self.ready == 0 => return Err(e),
            Err(_) => return Ok(self.next(current, self.ready)),
        }
        Ok(Some(number))
    }
}

/// A place that may still be read.
#[derive(Clone, Copy, Debug)]
struct RestingSlot {
    slot: FooterSlot,
    /// The time when another footer was published in its stead.
    since: Instant,
}

/// The published footer of a segment, and the places of the next ones: see the module.
#[derive(Debug)]
pub(in crate::table) struct FooterRing {
    sizes: FooterSizes,
    free: FreeFooters,
    /// The resting places, oldest first.
    resting: VecDeque<RestingSlot>,
    /// The published place; `None` before the first footer.
    current: Option<FooterSlot>,
    /// `None` in format 1.0, where messages are in the slot of their footer's number.
    frontier: Option<Frontier>,
    pace: RateLimiter,
    /// The time of the newest footer, in µs since 1970: times of footers always grow.
    stamp: u64,
    /// The sequence of the published commit; 0 if it is unknown.
    pub published: u64,
}

impl FooterRing {
    /// Creates the ring of a new segment; nothing is published yet.
    ///
    /// # Errors
    /// Returns an error if space for the first footers can't be reserved.
    pub fn create(sizes: FooterSizes, header: &Header, store: &SharedFile) -> io::Result<FooterRing> {
        let mut footer = FooterRing::new(sizes, header);
        footer.prepare(header, store)?;
        Ok(footer)
    }

    fn new(sizes: FooterSizes, header: &Header) -> FooterRing {
        let free = FreeFooters::new(header);
        let pace = RateLimiter::new(free.is_free.len() as u64);
        let frontier = (header.shared > 0).then(|| Frontier::new(sizes.group, header));
        let resting = VecDeque::new();
        FooterRing { sizes, free, resting, current: None, frontier, pace, stamp: 0, published: 0 }
    }

    /// Reserves space, as a full disk should not keep commits from other readers.
    fn prepare(&mut self, header: &Header, store: &SharedFile) -> io::Result<()> {
        let Some(frontier) = &mut self.frontier else {
            let slots = u64::from(header.slots);
            store.fill_holes(header.ring, slots * header.slot)?;
            self.free.ready = slots;
            return store.fill_holes(header.footer_at(slots - 1), slots * header.footer);
        };
        frontier.prepare(store, header.ring)?;
        self.free.prepare(store, header, self.current.map(|slot| slot.number)).map(|_| ())
    }

    /// Reads the ring of a segment whose footer another process may have published a moment ago.
    ///
    /// # Errors
    /// Returns the errors of the disk.
    pub fn reopen(sizes: FooterSizes, header: &Header, store: &SharedFile) -> io::Result<FooterRing> {
        let mut schema = vec![0; sizes.schema.len()];
        store.read(header.shared_at(), &mut schema)?;
        if schema != sizes.schema {
            // It is damaged, or was encoded by another version of the library.
            store.write(header.shared_at(), &sizes.schema)?;
        }
        let mut ring = FooterRing::new(sizes, header);
        let current = selected_footer(header, store.load32(header.tail));
        let mut footers = ring.stamped_footers(header, store, current)?;
        footers.sort_unstable_by_key(|footer| (footer.stamp, Reverse(footer.slot.number)));
        let clocks = Clocks::read();
        put_back_stamps(&mut footers, header, store, clocks.micros)?;

        ring.restore_places(&footers, current, clocks);
        ring.restore_frontier(&footers, current);
        ring.prepare(header, store)?;
        Ok(ring)
    }

    /// Marks the place of footer number `current` as published, and the places of other `footers`, which are sorted by
    /// their times, as resting if they are.
    fn restore_places(&mut self, footers: &[StampedFooter], current: Option<u64>, clocks: Clocks) {
        for (number, footer) in footers.iter().enumerate() {
            // Its place rests since the next one was published.
            let since = footers.get(number + 1).map_or(clocks.micros, |next| next.stamp);
            let since = clocks.instant_of(since);
            if Some(footer.slot.number) == current {
                self.current = Some(footer.slot);
            } else if let Some(since) = since.filter(|&since| elapsed(since) < self.pace.rest) {
                self.resting.push_back(RestingSlot { slot: footer.slot, since });
            } else {
                continue;
            }
            self.free.take(footer.slot.number);
            if let Some(published) = clocks.instant_of(footer.stamp) {
                self.pace.count(published);
            }
        }
        self.pace.bound();
        self.stamp = footers.last().map_or(0, |last| last.stamp);
    }

    /// Continues behind the newest messages of `footers`, which are sorted by their times.
    fn restore_frontier(&mut self, footers: &[StampedFooter], current: Option<u64>) {
        let published = footers.iter().find(|footer| Some(footer.slot.number) == current);
        // A footer that was written and not published has a later time than the published one.
        let newest = match (footers.last(), published) {
            (Some(last), Some(published)) if last.stamp <= published.stamp => Some(published),
            (last, _) => last,
        };
        let oldest = self.oldest();
        let Some((frontier, newest)) = self.frontier.as_mut().zip(newest) else { return };
        frontier.next = (newest.slot.messages + frontier.group) % frontier.lap;
        frontier.from = oldest.unwrap_or(newest.slot).messages;
        if self.current.is_some_and(|current| frontier.reaches(current.messages)) {
            // A lost page cache left an older footer published, whose messages follow the newest ones.
            let resting = self.resting.iter().rev().map(|resting| resting.slot.messages);
            let used: Vec<u64> = self.current.iter().map(|slot| slot.messages).chain(resting).collect();
            frontier.go_around(&used);
        }
    }

    /// Reads the times and places of all footers in the file.
    fn stamped_footers(
        &self,
        header: &Header,
        store: &SharedFile,
        current: Option<u64>,
    ) -> io::Result<Vec<StampedFooter>> {
        let first = header.footer_at(u64::from(header.slots) - 1);
        let end = header.shared_at();
        let mut footers = Vec::new();
        let mut piece = vec![0; ((READ / header.footer).max(1) * header.footer) as usize];
        let mut offset = first;

        while let Some(data) = store.next_data(offset)?.filter(|&data| data < end) {
            let data = data.max(first);
            // The footer that contains the first byte of data.
            offset = data - (data - first) % header.footer;
            let len = piece.len().min((end - offset) as usize);
            store.read(offset, &mut piece[..len])?;
            for bytes in piece[..len].chunks_exact(header.footer as usize) {
                let number = (header.tail - offset) / header.footer - 1;
                let stamp = footer_stamp(header, bytes, number);
                let messages = stamp.messages.wrapping_sub(header.ring);
                let is_used = stamp.time > 0 || Some(number) == current;
                let is_inside = match &self.frontier {
                    Some(frontier) => messages < frontier.lap && messages.is_multiple_of(LINE),
                    None => true,
                };
                if is_used && is_inside {
                    footers.push(StampedFooter { stamp: stamp.time, slot: FooterSlot { number, messages } });
                }
                offset += header.footer;
            }
        }

        Ok(footers)
    }

    /// Returns the time that places rest.
    pub fn rest(&self) -> Duration {
        self.pace.rest
    }

    /// Returns the time until the next footer may be published, which leaves places for urgent ones.
    pub fn wait(&mut self) -> Duration {
        self.wait_for_place().max(self.pace.wait())
    }

    /// Returns the time until a footer may be published that a caller waits for.
    pub fn wait_if_urgent(&mut self) -> Duration {
        self.wait_for_place().min(MAX_WAIT).max(self.pace.wait_if_urgent())
    }

    /// Returns the time until a place has rested.
    fn wait_for_place(&mut self) -> Duration {
        self.retire_rested();
        let Some(RestingSlot { slot: oldest, since }) = self.resting.front() else { return Duration::ZERO };
        let is_reached = self.frontier.as_ref().is_some_and(|frontier| frontier.reaches(oldest.messages));
        let is_free = self.free.count > 0 && !is_reached;
        if is_free { Duration::ZERO } else { self.pace.rest.saturating_sub(elapsed(*since)) }
    }

    /// Lets all places that have rested be used again.
    fn retire_rested(&mut self) {
        while self.resting.front().is_some_and(|oldest| elapsed(oldest.since) >= self.pace.rest) {
            self.retire_oldest();
        }
    }

    /// Returns the oldest place in use.
    fn oldest(&self) -> Option<FooterSlot> {
        self.resting.front().map(|oldest| oldest.slot).or(self.current)
    }

    /// Lets the oldest resting place be used again, and returns it.
    fn retire_oldest(&mut self) -> Option<FooterSlot> {
        let RestingSlot { slot, .. } = self.resting.pop_front()?;
        self.free.give_back(slot.number);
        Some(slot)
    }

    /// Publishes `counters`, which commit `sequence` made visible. Call it only after [`wait`](FooterRing::wait) or
    /// [`wait_if_urgent`](FooterRing::wait_if_urgent) has returned zero, unless a slow reader may lose the place it is
    /// using.
    ///
    /// # Errors
    /// Returns the errors of the disk. The footer published before stays then.
    pub fn publish(
        &mut self,
        store: &SharedFile,
        plan: &Plan,
        header: &Header,
        counters: &[u64],
        sequence: u64,
    ) -> io::Result<()> {
        self.retire_rested();
        let slot = self.take(store, header)?;
        let mut messages_start = header.ring + slot.messages;
        let encoded = encode_footer(&self.sizes, plan, header, counters, (messages_start, slot.number));
        let Some((mut messages, mut footer)) = encoded else {
            return Err(io::Error::other(Error::internal("the counters of a commit are beyond their limits")));
        };
        let stamp = unix_micros().max(self.stamp + 1);
        assert!(footer.len() <= header.footer as usize - STAMP, "the footer covers its own time");
        footer.resize(header.footer as usize - STAMP, 0);
        footer.extend_from_slice(&stamp.to_le_bytes());
        let is_inside = (header.shared..u64::from(header.slots)).contains(&slot.number);
        let ring_end = header.ring + u64::from(header.slots) * header.slot;
        if !is_inside || messages_start + messages.len() as u64 > ring_end {
            return Err(io::Error::other(Error::internal(format_args!("a footer in place {slot:?}"))));
        }
        if self.frontier.as_ref().is_some_and(|frontier| slot.messages < frontier.group) {
            // Clear the start of the ring: these messages would overwrite only the end of old ones that begin there.
            messages.splice(..0, vec![0; slot.messages as usize]);
            messages_start = header.ring;
        }

        let footer_start = header.footer_at(slot.number);
        let length = (header.tail - footer_start) as u32;
        assert_eq!(selected_footer(header, length), Some(slot.number), "the length selects the footer");
        assert_ne!(self.current, Some(slot), "readers are using the published footer");
        publish::publish_footer(store, (messages_start, &messages), (footer_start, &footer), (header.tail, length))?;
        self.free.take(slot.number);
        let now = now();
        self.resting.extend(self.current.replace(slot).map(|slot| RestingSlot { slot, since: now }));
        self.pace.count(now);
        self.stamp = stamp;
        self.published = sequence;
        self.advance(store, header);
        Ok(())
    }

    /// Takes the place of the next footer and its messages. If none is free, the oldest one is taken.
    fn take(&mut self, store: &SharedFile, header: &Header) -> io::Result<FooterSlot> {
        let current = self.current.map(|slot| slot.number);
        let number = match self.free.prepare(store, header, current)? {
            Some(number) => number,
            None => self.retire_oldest().ok_or_else(no_place)?.number,
        };
        let Some(frontier) = &mut self.frontier else {
            return Ok(FooterSlot { number, messages: number * header.slot });
        };
        frontier.prepare(store, header.ring)?;
        let messages = frontier.next;
        let reached = self.resting.iter().take_while(|oldest| frontier.reaches(oldest.slot.messages)).count();
        if self.current.is_some_and(|slot| frontier.reaches(slot.messages)) {
            return Err(no_place());
        }
        for _ in 0..reached {
            self.retire_oldest();
        }
        Ok(FooterSlot { number, messages })
    }

    /// Moves behind the messages that were written, and gives back blocks of messages that have rested.
    fn advance(&mut self, store: &SharedFile, header: &Header) {
        let oldest = self.oldest();
        let Some(frontier) = &mut self.frontier else { return };
        frontier.advance();
        let Some(rested) = oldest.and_then(|oldest| frontier.take_rested(oldest.messages)) else { return };
        for part in rested {
            // Whole pages only: others have messages in use.
            let start = (header.ring + part.start).next_multiple_of(PAGE);
            let end = header.ring + part.end;
            let end = end - end % PAGE;
            if start < end {
                // Blocks that stay allocated only cost space.
                let _ = store.release(start, end - start);
            }
        }
    }

    /// Returns the parts of the file, as start and end, that are used only by places that have rested or were never
    /// used.
    pub fn unused(&mut self, header: &Header) -> Vec<(u64, u64)> {
        self.retire_rested();
        let mut used: Vec<u64> = self.resting.iter().map(|resting| resting.slot.number).collect();
        used.extend(self.current.map(|slot| slot.number));
        used.sort_unstable();
        let mut unused: Vec<_> = gaps(&used, header.shared..header.slots.into())
            .map(|gap| (header.footer_at(gap.end - 1), header.footer_at(gap.start) + header.footer))
            .collect();
        let oldest = self.oldest();
        let Some(frontier) = &mut self.frontier else {
            let slots = gaps(&used, 0..header.slots.into());
            unused
                .extend(slots.map(|gap| (header.ring + gap.start * header.slot, header.ring + gap.end * header.slot)));
            return unused;
        };
        let len = oldest.map_or(frontier.lap, |oldest| frontier.distance(frontier.next, oldest.messages));
        unused
            .extend(frontier.parts(frontier.next, len).map(|part| (header.ring + part.start, header.ring + part.end)));
        frontier.from = oldest.map_or(frontier.next, |oldest| oldest.messages);
        frontier.ready = 0;
        self.free.ready = 0;
        unused
    }
}

/// A footer in the file, with its time in µs since 1970.
struct StampedFooter {
    stamp: u64,
    slot: FooterSlot,
}

/// The same time on two clocks, including simulated time.
#[derive(Clone, Copy)]
struct Clocks {
    now: Instant,
    /// In µs since 1970.
    micros: u64,
}

impl Clocks {
    fn read() -> Clocks {
        Clocks { now: now(), micros: unix_micros() }
    }

    /// Returns the instant of a time in µs since 1970; `None` if it is before all instants.
    fn instant_of(self, micros: u64) -> Option<Instant> {
        // A footer whose time was put back may be a few µs ahead.
        self.now.checked_sub(Duration::from_micros(self.micros.saturating_sub(micros)))
    }
}

/// Replaces times of `footers` that are later than `now`, in the file as well: the clock was put back, and they would
/// not tell when the places have rested. The order of the times stays.
fn put_back_stamps(footers: &mut [StampedFooter], header: &Header, store: &SharedFile, now: u64) -> io::Result<()> {
    for (later, footer) in (0..).zip(footers) {
        if footer.stamp > now {
            footer.stamp = now + later;
            let offset = header.footer_at(footer.slot.number) + header.footer - STAMP as u64;
            store.write(offset, &footer.stamp.to_le_bytes())?;
        }
    }
    Ok(())
}

/// Iterates over the ranges of `all` between the numbers `used`, which are sorted.
fn gaps(used: &[u64], all: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    debug_assert!(used.is_sorted(), "the numbers are in order");
    let starts = std::iter::once(all.start).chain(used.iter().map(|number| number + 1));
    let ends = used.iter().copied().chain([all.end]);
    starts.zip(ends).map(|(start, end)| start..end).filter(|gap| !gap.is_empty())
}

#[cold]
fn no_place() -> io::Error {
    io::Error::other("the ring of published footers has no place")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{DataType, Field, Schema};

    use super::*;

    fn sizes(fields: impl IntoIterator<Item = Field>) -> FooterSizes {
        let schema = Arc::new(Schema::new(fields.into_iter().collect::<Vec<_>>()));
        FooterSizes::shared(&Plan::for_schema(&schema).unwrap()).unwrap()
    }

    /// Dictionaries need more messages, but even with a thousand of them, footers rest for some seconds.
    #[test]
    fn footers_rest_for_a_minute_in_tables_of_a_hundred_columns() {
        let text = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        for (columns, data_type, min_seconds) in [
            (1, DataType::Int64, 60),
            (100, DataType::Utf8, 60),
            (100, text.clone(), 60),
            (1000, DataType::Utf8, 40),
            (1000, text, 3),
        ] {
            let fields = (0..columns).map(|number| Field::new(format!("column {number}"), data_type.clone(), true));
            let sizes = sizes(fields);
            let (footers, slot) = ring_size(&sizes);
            let rest = RateLimiter::new(footers).rest;
            assert!(
                rest >= Duration::from_secs(min_seconds),
                "{columns} × {data_type}: {footers} footers of {slot}: {rest:?}"
            );
            assert!(footers == MIN_FOOTERS || footers * (slot + sizes.footer) <= MAX_BYTES);
        }
    }

    /// Each lap begins at another line, so that messages begin at each line once in many laps.
    #[test]
    fn messages_begin_at_the_same_line_only_after_many_laps() {
        let header = Header { slot: 288, slots: 128, shared: 1, ..Header::default() };
        let mut frontier = Frontier::new(256, &header);
        let bytes = header.slot * u64::from(header.slots);
        let mut positions = std::collections::HashSet::new();
        let mut previous = None;
        while positions.insert(frontier.next) {
            assert!(frontier.next + frontier.group <= bytes && frontier.next.is_multiple_of(LINE));
            let is_adjacent = previous.is_none_or(|previous| frontier.next == previous + frontier.group);
            assert!(is_adjacent || frontier.next < frontier.group);
            previous = Some(frontier.next);
            frontier.advance();
        }
        assert_eq!(positions.len() as u64, frontier.lap / LINE);
    }

    /// After a loss of the page cache, an older footer may be published, whose messages lie after the newest ones.
    #[test]
    fn messages_do_not_overwrite_published_ones() {
        let header = Header { slot: 288, slots: 4096, shared: 1, ..Header::default() };
        let mut frontier = Frontier::new(256, &header);
        frontier.next = 256;
        frontier.go_around(&[256, 512]);
        assert_eq!(frontier.next, 768);
        frontier.go_around(&[256, 600, 1000]);
        assert_eq!(frontier.next, 1256, "there is no room between");
        assert!(!frontier.reaches(1000));
    }

    /// After the file system was full, new messages overwrite old ones, and must not be released together with them.
    #[test]
    fn messages_after_a_restart_of_the_ring_are_kept() {
        let header = Header { slot: 288, slots: 4096, shared: 1, ..Header::default() };
        let mut frontier = Frontier::new(256, &header);
        let oldest = 2 * frontier.step;
        frontier.next = 3 * frontier.step;
        let mut rested = frontier.take_rested(oldest).unwrap();
        assert_eq!(rested.next(), Some(0..oldest));
        assert_eq!(rested.next(), None);
        frontier.from = 0;
        frontier.next = 256;
        assert!(frontier.take_rested(oldest).is_none());
    }

    /// Footers are chosen in descending order within a block, from the first blocks.
    #[test]
    fn footers_of_quiet_tables_are_the_first_ones() {
        let header = Header { slots: 1000, shared: 3, ..Header::default() };
        let mut free = FreeFooters::new(&header);
        let mut current = None;
        let mut used = VecDeque::new();
        for step in 0..5000 {
            let next = free.next(current, 997).unwrap();
            let is_ascending = current.is_some_and(|current| next > current);
            assert!(!is_ascending || step % RUN == 0, "step {step}: {current:?}, {next}");
            assert!((3..3 + 2 * RUN).contains(&next), "{next}");
            free.take(next);
            used.push_back(next);
            if used.len() > 100 {
                free.give_back(used.pop_front().unwrap());
            }
            current = Some(next);
        }
        assert_eq!(free.count, 997 - 100);
    }
}
