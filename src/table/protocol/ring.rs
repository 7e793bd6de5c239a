//! The ring of published footers for other Arrow readers.
//!
//! To publish, the messages are written to a part of the ring that no reader can be using, a footer to its own place, and
//! then the footer's *length*, one aligned word, is stored: footers end at increasing distances before it, so another
//! length selects another footer (a flatbuffer ignores the bytes after it). Both places rest for a minute before they are
//! used again: the time that another Arrow reader has between reading the footer and decoding the messages it points to.
//!
//! Messages follow each other around the ring, each time around 64 bytes earlier: what a reader finds that comes back to
//! them after more than that minute is the middle of other messages, and no message.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use super::footer::{FooterSizes, STAMP, encode_footer, footer_stamp, selected_footer};
use super::publish;
use super::rate_limiter::{RateLimiter, elapsed, now, unix_micros};
use crate::error::Error;
use crate::map::SharedFile;
use crate::rows::Plan;
use crate::table::format::{Header, LINE, PAGE};

/// Footers are used block by block, as many as possible of the first ones: a reader reads all bytes behind a footer.
const BLOCK: u64 = 128;
/// The most bytes of the ring that are kept ready to be written, unless they are less than some groups of messages.
const READY: u64 = 256 << 10;
/// How long somebody waits for a place if a clock was wrong.
const PATIENCE: Duration = Duration::from_secs(1);

/// The most footers of a segment; fewer if their messages need more than `MOST_BYTES`.
const MOST_FOOTERS: u64 = 4096;
const LEAST_FOOTERS: u64 = 64;
const MOST_BYTES: u64 = 48 << 20;

/// The number of footers of a new segment, and the share of the ring that each of them adds.
pub(in crate::table) fn ring_size(sizes: &FooterSizes) -> (u64, u64) {
    let slot = (sizes.group + sizes.group / 8).next_multiple_of(LINE);
    let footers = (MOST_BYTES / (slot + sizes.footer)).clamp(LEAST_FOOTERS, MOST_FOOTERS);
    (footers, slot)
}

/// A published footer: its number, and where its messages begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FooterSlot {
    number: u64,
    messages: u64,
}

/// Where the messages of the next footer stand. Offsets count from the start of the ring.
#[derive(Debug)]
struct Frontier {
    group: u64,
    /// The bytes of a lap. A group may end beyond it.
    lap: u64,
    next: u64,
    /// From here up to `next` there may be blocks.
    from: u64,
    /// The bytes from `next` on that have blocks.
    ready: u64,
    /// How many bytes get blocks, or are given back, at a time.
    step: u64,
}

impl Frontier {
    fn new(group: u64, header: &Header) -> Frontier {
        let bytes = header.slot * u64::from(header.slots);
        // Of whole groups and a line: so each lap begins at another multiple of a line.
        let lap = (bytes.saturating_sub(group + LINE) / group).max(1) * group + LINE;
        let step = (128 * group).min(READY).max(4 * group).next_multiple_of(PAGE);
        Frontier { group, lap, next: 0, from: 0, ready: 0, step }
    }

    fn distance(&self, from: u64, to: u64) -> u64 {
        (to + self.lap - from) % self.lap
    }

    /// The parts of the ring from `from` on, in bytes of the ring.
    fn parts(&self, from: u64, len: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let end = from + len;
        let first = if end < self.lap { end } else { self.lap + self.group };
        [(from, first), (0, end.saturating_sub(self.lap))].into_iter().filter(|(from, to)| from < to)
    }

    /// Whether the next messages would be written over those at `used`.
    fn reaches(&self, used: u64) -> bool {
        self.distance(self.next, used) < self.group
    }

    /// Goes on behind those of the messages at `used` that leave the most room, if one leaves room for a group.
    fn go_around(&mut self, used: &[u64]) {
        let is_free = |&next: &u64| used.iter().all(|&messages| self.distance(messages, next) >= self.group);
        let room = |&next: &u64| used.iter().map(|&messages| self.distance(next, messages)).min();
        let behind = used.iter().map(|messages| (messages + self.group) % self.lap).filter(is_free).max_by_key(room);
        let behind = behind.filter(|next| room(next) >= Some(self.group));
        self.next = behind.unwrap_or(self.next);
    }

    /// Gives the next messages blocks. Where the file system is full, they go over the oldest ones.
    fn prepare(&mut self, store: &SharedFile, ring: u64) -> io::Result<()> {
        if self.ready >= self.group.max(self.step / 2) {
            return Ok(());
        }
        let len = self.step.min(self.lap - (self.distance(self.from, self.next) + self.ready).min(self.lap));
        let start = (self.next + self.ready) % self.lap;
        let mut parts = self.parts(start, len);
        match parts.try_for_each(|(from, to)| store.fill_holes(ring + from, to - from)) {
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

    fn advance(&mut self) {
        self.next = (self.next + self.group) % self.lap;
        self.ready = self.ready.saturating_sub(self.group);
    }

    /// The parts of the ring before `used`, the oldest messages in use, if they are worth giving back.
    fn take_rested(&mut self, used: u64) -> Option<impl Iterator<Item = (u64, u64)> + use<>> {
        let rested = self.distance(self.from, used);
        // Where the file system was full, newer messages stand before the oldest ones.
        if rested < self.step || rested > self.distance(self.from, self.next) {
            return None;
        }
        let to = used - used % PAGE;
        let parts = self.parts(self.from, self.distance(self.from, to));
        self.from = to;
        Some(parts)
    }
}

/// The footers that are free: block by block, from the first block on, and downwards in each. Polars reads the footer's
/// length twice, and refuses the file if the second is greater, so lengths should rarely grow.
#[derive(Debug)]
struct FreeFooters {
    /// The number of the first one.
    first: u64,
    is_free: Vec<bool>,
    count: usize,
    /// So many of them have blocks of the file system.
    ready: u64,
}

impl FreeFooters {
    fn new(header: &Header) -> FreeFooters {
        let count = (u64::from(header.slots) - header.shared) as usize;
        FreeFooters { first: header.shared, is_free: vec![true; count], count, ready: 0 }
    }

    fn set(&mut self, number: u64, is_free: bool) {
        let place = number.checked_sub(self.first).and_then(|place| self.is_free.get_mut(place as usize));
        if let Some(place) = place {
            self.count = self.count + usize::from(is_free) - usize::from(*place);
            *place = is_free;
        }
    }

    /// The one to take after `current`, of the first `count`.
    fn next(&self, current: Option<u64>, count: u64) -> Option<u64> {
        let free = &self.is_free[..(count as usize).min(self.is_free.len())];
        let below = current.and_then(|current| current.checked_sub(self.first)?.checked_sub(1));
        if let Some(below) = below.filter(|below| (below + 1) % BLOCK != 0)
            && free.get(below as usize) == Some(&true)
        {
            return Some(self.first + below);
        }
        let blocks = free.chunks(BLOCK as usize).enumerate();
        let counted = blocks.map(|(number, block)| (block.iter().filter(|&&is_free| is_free).count(), number, block));
        // The first one where all are free, else one where most are.
        let best = counted.max_by_key(|&(count, number, block)| {
            let is_whole = count == block.len();
            (is_whole, if is_whole { 0 } else { count }, Reverse(number))
        });
        let (_, number, block) = best?;
        let last = block.iter().rposition(|&is_free| is_free)?;
        Some(self.first + number as u64 * BLOCK + last as u64)
    }

    /// As [`FreeFooters::next`], with blocks of the file system; `None` if there is no free one that has some or gets some.
    fn prepare(&mut self, store: &SharedFile, header: &Header, current: Option<u64>) -> io::Result<Option<u64>> {
        let all = self.is_free.len() as u64;
        let Some(number) = self.next(current, all) else { return Ok(None) };
        if number - self.first < self.ready {
            return Ok(Some(number));
        }
        let ready = (number - self.first + 1).next_multiple_of(BLOCK).min(all);
        let from = header.footer_at(self.first + ready - 1);
        match store.fill_holes(from, header.footer_at(self.first) + header.footer - from) {
            Ok(()) => self.ready = ready,
            Err(e) if e.kind() != io::ErrorKind::StorageFull || self.ready == 0 => return Err(e),
            Err(_) => return Ok(self.next(current, self.ready)),
        }
        Ok(Some(number))
    }
}

/// The free places, and the published footer.
#[derive(Debug)]
pub(in crate::table) struct FooterRing {
    sizes: FooterSizes,
    free: FreeFooters,
    /// Places and when they were retired, oldest first.
    resting: VecDeque<(FooterSlot, Instant)>,
    current: Option<FooterSlot>,
    /// `None` in format 1.0, where messages are in the slot of their footer's number.
    frontier: Option<Frontier>,
    pace: RateLimiter,
    /// The time of the newest footer, in µs since 1970: times of footers always grow.
    stamp: u64,
    /// The sequence of the published commit.
    pub published: u64,
}

impl FooterRing {
    /// The state of a new segment; nothing is published yet.
    ///
    /// # Errors
    /// Those of reserving space for the first footers.
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

    /// Reserves space: a full disk should not keep commits from other readers.
    fn prepare(&mut self, header: &Header, store: &SharedFile) -> io::Result<()> {
        let Some(frontier) = &mut self.frontier else {
            let slots = u64::from(header.slots);
            store.fill_holes(header.ring, slots * header.slot)?;
            self.free.ready = slots;
            return store.fill_holes(header.footer_at(slots - 1), slots * header.footer);
        };
        frontier.prepare(store, header.ring)?;
        self.free.prepare(store, header, self.current.map(|place| place.number)).map(|_| ())
    }

    /// The state of a segment whose footer another process may have published a moment ago.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn reopen(sizes: FooterSizes, header: &Header, store: &SharedFile) -> io::Result<FooterRing> {
        let mut schema = vec![0; sizes.schema.len()];
        store.read(header.shared_at(), &mut schema)?;
        if schema != sizes.schema {
            // It is damaged, or another version of the library has put it together differently.
            store.write(header.shared_at(), &sizes.schema)?;
        }
        let mut footer = FooterRing::new(sizes, header);
        let current = selected_footer(header, store.load32(header.tail));
        let mut stamps = footer.stamps(header, store, current)?;
        stamps.sort_unstable_by_key(|&(stamp, place)| (stamp, Reverse(place.number)));
        let now = (now(), unix_micros());
        for (later, (stamp, place)) in (0..).zip(&mut stamps) {
            if *stamp > now.1 {
                // Of a clock that was put back: nobody would know when it has rested.
                *stamp = now.1 + later;
                store.write(header.footer_at(place.number) + header.footer - STAMP as u64, &stamp.to_le_bytes())?;
            }
        }
        let at = |stamp: u64| now.0.checked_sub(Duration::from_micros(now.1.saturating_sub(stamp)));
        for (number, &(stamp, place)) in stamps.iter().enumerate() {
            // It was retired when the next one was published.
            let next = stamps.get(number + 1).map_or(now.1, |next| next.0);
            let retired = at(next).filter(|at| elapsed(*at) < footer.pace.rest);
            if Some(place.number) == current {
                footer.current = Some(place);
            } else if let Some(retired) = retired {
                footer.resting.push_back((place, retired));
            } else {
                continue;
            }
            footer.free.set(place.number, false);
            at(stamp).into_iter().for_each(|at| footer.pace.count(at));
        }
        footer.pace.bound();
        footer.stamp = stamps.last().map_or(0, |last| last.0);
        let oldest = footer.oldest();
        let of_current = stamps.iter().find(|(_, place)| Some(place.number) == current);
        // One that was written and not published has a later time.
        let newest =
            stamps.last().filter(|last| of_current.is_none_or(|of_current| last.0 > of_current.0)).or(of_current);
        if let Some((frontier, (_, newest))) = footer.frontier.as_mut().zip(newest) {
            frontier.next = (newest.messages + frontier.group) % frontier.lap;
            frontier.from = oldest.unwrap_or(*newest).messages;
            if footer.current.is_some_and(|current| frontier.reaches(current.messages)) {
                // A lost page cache left an older footer published, whose messages stand behind those of the newest.
                let resting = footer.resting.iter().rev().map(|(place, _)| place.messages);
                frontier
                    .go_around(&footer.current.iter().map(|place| place.messages).chain(resting).collect::<Vec<_>>());
            }
        }
        footer.prepare(header, store)?;
        Ok(footer)
    }

    /// The times of the footers that there are, and their places.
    fn stamps(&self, header: &Header, store: &SharedFile, current: Option<u64>) -> io::Result<Vec<(u64, FooterSlot)>> {
        let first = header.footer_at(u64::from(header.slots) - 1);
        let end = header.shared_at();
        let mut stamps = Vec::new();
        let mut piece = vec![0; ((64 << 10) / header.footer).max(1) as usize * header.footer as usize];
        let mut at = first;
        while let Some(data) = store.next_data(at)?.filter(|&data| data < end) {
            at = data.max(first) - (data.max(first) - first) % header.footer;
            let len = piece.len().min((end - at) as usize);
            store.read(at, &mut piece[..len])?;
            for bytes in piece[..len].chunks_exact(header.footer as usize) {
                let number = (header.tail - at) / header.footer - 1;
                let (stamp, messages) = footer_stamp(header, bytes, number);
                let messages = messages.wrapping_sub(header.ring);
                let is_inside = |frontier: &Frontier| messages < frontier.lap && messages.is_multiple_of(LINE);
                let is_used = stamp > 0 || Some(number) == current;
                if is_used && self.frontier.as_ref().is_none_or(is_inside) {
                    stamps.push((stamp, FooterSlot { number, messages }));
                }
                at += header.footer;
            }
        }
        Ok(stamps)
    }

    /// How long places rest.
    pub fn rest(&self) -> Duration {
        self.pace.rest
    }

    /// The time until the next footer may be published, which leaves places for urgent ones.
    pub fn wait(&mut self) -> Duration {
        self.wait_for_place().max(self.pace.wait())
    }

    /// The time until a footer may be published that somebody waits for.
    pub fn wait_if_urgent(&mut self) -> Duration {
        self.wait_for_place().min(PATIENCE).max(self.pace.wait_if_urgent())
    }

    /// The time until a place has rested.
    fn wait_for_place(&mut self) -> Duration {
        self.rested();
        let Some((oldest, since)) = self.resting.front() else { return Duration::ZERO };
        let is_over = self.frontier.as_ref().is_some_and(|frontier| frontier.reaches(oldest.messages));
        let is_free = self.free.count > 0 && !is_over;
        if is_free { Duration::ZERO } else { self.pace.rest.saturating_sub(elapsed(*since)) }
    }

    fn rested(&mut self) {
        while self.resting.front().is_some_and(|(_, since)| elapsed(*since) >= self.pace.rest) {
            self.retire_oldest();
        }
    }

    /// The oldest place in use.
    fn oldest(&self) -> Option<FooterSlot> {
        self.resting.front().map(|&(place, _)| place).or(self.current)
    }

    /// Lets the oldest place be used again.
    fn retire_oldest(&mut self) -> Option<FooterSlot> {
        let (place, _) = self.resting.pop_front()?;
        self.free.set(place.number, true);
        Some(place)
    }

    /// Publishes `counters`, which commit `sequence` made visible. Call it only after `wait` returned zero, or if a
    /// slow reader may lose the place it is using.
    pub fn publish(
        &mut self,
        store: &SharedFile,
        plan: &Plan,
        header: &Header,
        counters: &[u64],
        sequence: u64,
    ) -> io::Result<()> {
        self.rested();
        let place = self.take(store, header)?;
        let at = header.ring + place.messages;
        let Some((mut messages, mut footer)) = encode_footer(&self.sizes, plan, header, counters, (at, place.number))
        else {
            return Err(io::Error::other(Error::internal("the counters of a commit are beyond their limits")));
        };
        let stamp = unix_micros().max(self.stamp + 1);
        footer.resize(header.footer as usize - STAMP, 0);
        footer.extend(stamp.to_le_bytes());
        let footer_at = header.footer_at(place.number);
        let is_inside = (header.shared..u64::from(header.slots)).contains(&place.number);
        if !is_inside || at + messages.len() as u64 > header.ring + u64::from(header.slots) * header.slot {
            return Err(io::Error::other(Error::internal(format_args!("a footer in place {place:?}"))));
        }
        let mut from = at;
        if self.frontier.as_ref().is_some_and(|frontier| place.messages < frontier.group) {
            // Of old messages that begin before the first ones of this lap, no more than the end would be written over.
            messages.splice(..0, vec![0; place.messages as usize]);
            from = header.ring;
        }
        let length = (header.tail - footer_at) as u32;
        publish::publish_footer(store, (from, &messages), (footer_at, &footer), (header.tail, length))?;
        self.free.set(place.number, false);
        let now = now();
        self.resting.extend(self.current.replace(place).map(|before| (before, now)));
        self.pace.count(now);
        (self.stamp, self.published) = (stamp, sequence);
        self.go_on(store, header);
        Ok(())
    }

    /// The place of the next footer and its messages. If none is free, the oldest one is taken.
    fn take(&mut self, store: &SharedFile, header: &Header) -> io::Result<FooterSlot> {
        let none = || io::Error::other("the ring of published footers has no place");
        let current = self.current.map(|place| place.number);
        let number = match self.free.prepare(store, header, current)? {
            Some(number) => number,
            None => self.retire_oldest().ok_or_else(none)?.number,
        };
        let Some(frontier) = &mut self.frontier else {
            return Ok(FooterSlot { number, messages: number * header.slot });
        };
        frontier.prepare(store, header.ring)?;
        let messages = frontier.next;
        let reached = self.resting.iter().take_while(|(oldest, _)| frontier.reaches(oldest.messages)).count();
        if self.current.is_some_and(|place| frontier.reaches(place.messages)) {
            return Err(none());
        }
        for _ in 0..reached {
            self.retire_oldest();
        }
        Ok(FooterSlot { number, messages })
    }

    /// Goes on behind the messages that were written, and gives back blocks of those that have rested.
    fn go_on(&mut self, store: &SharedFile, header: &Header) {
        let oldest = self.oldest();
        let Some(frontier) = &mut self.frontier else { return };
        frontier.advance();
        let rested = oldest.and_then(|oldest| frontier.take_rested(oldest.messages));
        for (from, to) in rested.into_iter().flatten() {
            let (from, to) = ((header.ring + from).next_multiple_of(PAGE), header.ring + to);
            // Blocks that stay allocated only cost space.
            let _ = if from < to - to % PAGE { store.release(from, to - to % PAGE - from) } else { Ok(()) };
        }
    }

    /// The parts of the file used only by places that have rested or were never used.
    pub fn unused(&mut self, header: &Header) -> Vec<(u64, u64)> {
        self.rested();
        let used = || self.resting.iter().map(|&(place, _)| place).chain(self.current);
        let mut numbers: Vec<u64> = used().map(|place| place.number).collect();
        numbers.sort_unstable();
        let gaps = |first: u64| {
            let starts = std::iter::once(first).chain(numbers.iter().map(|number| number + 1));
            let ends = numbers.iter().copied().chain([u64::from(header.slots)]);
            starts.zip(ends).filter(|(from, to)| from < to)
        };
        let mut unused: Vec<_> = gaps(header.shared)
            .map(|(from, to)| (header.footer_at(to - 1), header.footer_at(from) + header.footer))
            .collect();
        let oldest = self.oldest();
        let Some(frontier) = &mut self.frontier else {
            let slot = |number: u64| header.ring + number * header.slot;
            unused.extend(gaps(0).map(|(from, to)| (slot(from), slot(to))));
            return unused;
        };
        let len = oldest.map_or(frontier.lap, |oldest| frontier.distance(frontier.next, oldest.messages));
        unused.extend(frontier.parts(frontier.next, len).map(|(from, to)| (header.ring + from, header.ring + to)));
        frontier.from = oldest.map_or(frontier.next, |oldest| oldest.messages);
        frontier.ready = 0;
        self.free.ready = 0;
        unused
    }
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

    /// Also where each column is a dictionary, and where there are more columns places rest for longer than a second.
    #[test]
    fn places_rest_for_a_minute_in_tables_of_a_hundred_columns() {
        let text = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        for (columns, data_type, least) in [
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
                rest >= Duration::from_secs(least),
                "{columns} × {data_type}: {footers} footers of {slot}: {rest:?}"
            );
            assert!(footers == LEAST_FOOTERS || footers * (slot + sizes.footer) <= MOST_BYTES);
        }
    }

    /// Each lap begins elsewhere: the messages of many laps begin at each line once.
    #[test]
    fn messages_begin_where_others_began_only_after_many_laps() {
        let header = Header { slot: 288, slots: 128, shared: 1, ..Header::default() };
        let mut frontier = Frontier::new(256, &header);
        let bytes = header.slot * u64::from(header.slots);
        let mut seen = std::collections::HashSet::new();
        let mut before = None;
        while seen.insert(frontier.next) {
            assert!(frontier.next + frontier.group <= bytes && frontier.next.is_multiple_of(LINE));
            let lap = before.is_none_or(|before| frontier.next == before + frontier.group);
            assert!(lap || frontier.next < frontier.group);
            before = Some(frontier.next);
            frontier.advance();
        }
        assert_eq!(seen.len() as u64, frontier.lap / LINE);
    }

    /// A lost page cache may leave an older footer published, behind whose messages those of the newest end.
    #[test]
    fn messages_go_around_those_that_are_published() {
        let header = Header { slot: 288, slots: 4096, shared: 1, ..Header::default() };
        let mut frontier = Frontier::new(256, &header);
        frontier.next = 256;
        frontier.go_around(&[256, 512]);
        assert_eq!(frontier.next, 768);
        frontier.go_around(&[256, 600, 1000]);
        assert_eq!(frontier.next, 1256, "there is no room between");
        assert!(!frontier.reaches(1000));
    }

    /// Where the file system was full, messages are written over old ones: those that are new are not given back with them.
    #[test]
    fn messages_that_went_back_are_kept() {
        let header = Header { slot: 288, slots: 4096, shared: 1, ..Header::default() };
        let mut frontier = Frontier::new(256, &header);
        let oldest = 2 * frontier.step;
        frontier.next = 3 * frontier.step;
        assert_eq!(frontier.take_rested(oldest).unwrap().collect::<Vec<_>>(), [(0, oldest)]);
        frontier.from = 0;
        frontier.next = 256;
        assert!(frontier.take_rested(oldest).is_none());
    }

    /// Footers go down in blocks, the first blocks first.
    #[test]
    fn footers_of_quiet_tables_are_the_first_ones() {
        let header = Header { slots: 1000, shared: 3, ..Header::default() };
        let mut free = FreeFooters::new(&header);
        let mut current = None;
        let mut used = VecDeque::new();
        for step in 0..5000 {
            let next = free.next(current, 997).unwrap();
            let grows = current.is_some_and(|current| next > current);
            assert!(!grows || step % BLOCK == 0, "step {step}: {current:?}, {next}");
            assert!((3..3 + 2 * BLOCK).contains(&next), "{next}");
            free.set(next, false);
            used.push_back(next);
            if used.len() > 100 {
                used.pop_front().into_iter().for_each(|number| free.set(number, true));
            }
            current = Some(next);
        }
        assert_eq!(free.count, 997 - 100);
    }
}
