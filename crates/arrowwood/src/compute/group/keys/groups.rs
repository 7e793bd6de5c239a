//! Numbers the groups of a block's rows.
//!
//! Each row gets the number of its group, in order of appearance. Rows that a filter excludes get number 0, so that
//! later loops need no branch.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int8Type;
use arrow_array::{Int8Array, RecordBatch};
use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::interner::{AT_ONCE, Interner, InternerScratch, KeyPart, LONG, pack_short_text, pack_text};
use crate::array::access::{BYTE_KEYS, Bits, Keys, Texts, dictionary_of, fixed_values};
use crate::array::{UncheckedArray, Value, value};
use crate::compute::kernels::OUT;
use crate::compute::scan::Frame;
use crate::compute::selection::Mask;
use crate::dataset::Dataset;
use crate::error::{Error, ErrorKind, Result};
use crate::types::{has_bits, type_name};

/// The maximum width of a range of keys for each row of a block, for which a table has an entry for each number of the
/// range.
const DENSE_PER_ROW: usize = 4;
/// The distance of the rows that are sampled for the range of keys.
const SAMPLE_STEP: usize = 16;
/// The minimum share of rows that a condition must include, as a fraction, if it does not exclude many.
const MIN_DENSE_SHARE: (usize, usize) = (3, 4);
/// The minimum number of included rows among `AT_ONCE` for which looking up all of them together is faster.
const MIN_BULK_ROWS: u32 = 16;
/// The number of a dictionary value that is in no group yet.
const UNSEEN: u32 = u32::MAX;

/// The rows of a block in groups. Groups are numbered from 1, in order of appearance.
#[derive(Debug)]
pub(in crate::compute::group) struct Groups<'a> {
    /// The number of each row's group; [`OUT`] for excluded rows. Empty if nothing depends on it any more.
    pub ids: Vec<u32>,
    /// The keys of group 1, group 2, and so on, with `width` keys each.
    pub cells: Vec<KeyPart<'a>>,
    pub width: usize,
    /// The first row of each group in the block.
    pub firsts: Vec<u32>,
    /// True if a condition excludes many of the rows.
    pub is_sparse: bool,
}

impl<'a> Groups<'a> {
    /// Returns the number of groups, without group 0.
    pub(in crate::compute) fn count(&self) -> usize {
        self.firsts.len()
    }

    /// Returns the keys of a group, where group 1 has index 0.
    pub(in crate::compute::group) fn key(&self, index: usize) -> &[KeyPart<'a>] {
        &self.cells[index * self.width..][..self.width]
    }
}

/// Returns true if rows can be grouped by a column of the type.
pub(in crate::compute) fn is_key_type(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Dictionary(_, values) => is_key_type(values) && !matches!(**values, Dictionary(..)),
        Null | Boolean | Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => true,
        other => other.is_primitive(),
    }
}

/// Replaces the true values of the columns of `arrow.bool8` among `names` by 1, as any byte but 0 is true. Returns
/// `None` if there is no such column.
pub(in crate::compute::group) fn with_plain_booleans(dataset: &Dataset, names: &[String]) -> Result<Option<Dataset>> {
    let schema = dataset.schema();
    let mut columns = Vec::new();
    for (column, field) in schema.fields().iter().enumerate() {
        let is_bool8 = *field.data_type() == DataType::Int8 && field.extension_type_name() == Some("arrow.bool8");
        if is_bool8 && names.contains(field.name()) {
            columns.push(column);
        }
    }
    if columns.is_empty() {
        return Ok(None);
    }
    let mut batches = Vec::new();
    for batch in dataset.to_record_batches() {
        let batch = batch?;
        let mut arrays = batch.columns().to_vec();
        for &column in &columns {
            let flags: Int8Array = arrays[column].as_primitive::<Int8Type>().unary(|byte| i8::from(byte != 0));
            arrays[column] = Arc::new(flags);
        }
        batches.push(RecordBatch::try_new(batch.schema(), arrays).map_err(|e| Error::invalid(e.to_string()))?);
    }
    Dataset::from_batches(schema.clone(), batches).map(Some)
}

/// Checks that rows can be grouped by the columns `keys`.
///
/// # Errors
/// `Unsupported` if they can't.
pub(in crate::compute::group) fn check_keys(keys: &[usize], dataset: &Dataset) -> Result<()> {
    for &key in keys {
        let field = dataset.schema().field(key);
        if !is_key_type(field.data_type()) {
            let name = field.name();
            let data_type = type_name(field.data_type());
            return Err(Error::unsupported(format!(
                "grouping by column '{name}' of type {data_type} is not supported"
            )));
        }
    }
    check_claim(keys, dataset)
}

/// Checks that an aggregation can read all rows of `columns`. Nulls, values without width and runs take no bytes per
/// row, so a small file may claim to have too many of them.
///
/// # Errors
/// `Unsupported`.
pub(in crate::compute::group) fn check_claim(columns: &[usize], dataset: &Dataset) -> Result<()> {
    for &column in columns {
        let data_type = dataset.schema().field(column).data_type();
        if has_bits(data_type) && !matches!(data_type, DataType::RunEndEncoded(..)) {
            return Ok(());
        }
    }
    if !columns.is_empty() && dataset.len()? > u64::from(u32::MAX) {
        let message = "aggregating more than 2^32 rows of columns without bytes for each is not supported";
        return Err(Error::unsupported(message));
    }
    Ok(())
}

/// Memory that a thread reuses for the groups of its next block.
#[derive(Debug, Default)]
pub(in crate::compute::group) struct GroupScratch {
    ids: Vec<u32>,
    interner: InternerScratch,
    /// The expected number of groups.
    pub expected: usize,
}

impl GroupScratch {
    /// Takes the memory of the numbers of rows in `groups`, once these are no longer needed.
    pub(in crate::compute::group) fn reuse(&mut self, groups: &mut Groups<'_>) {
        self.ids = std::mem::take(&mut groups.ids);
    }
}

/// Groups the rows of block `block` by the columns `keys`; `masks` has the selected rows of each span.
pub(in crate::compute::group) fn group<'a>(
    frame: &Frame<'a>,
    block: usize,
    keys: &[usize],
    masks: &[Option<Mask>],
    scratch: &mut GroupScratch,
) -> Result<Groups<'a>> {
    let num_rows: usize = frame.spans(block).map(|(_, rows)| rows.len()).sum();
    let mut groups: Option<Groups<'a>> = None;
    for &column in keys {
        let expected = if keys.len() == 1 { scratch.expected } else { 0 };
        let mut encoder = Encoder::new(DENSE_PER_ROW * num_rows, expected, scratch);
        encoder.ids.reserve(num_rows);
        for ((part, rows), mask) in frame.spans(block).zip(masks) {
            encoder.add(frame.checked(part, column)?, rows, mask.as_ref())?;
        }
        let column_groups = encoder.finish(scratch);
        assert_eq!(column_groups.ids.len(), num_rows, "each row of a block has a group");
        groups = Some(match groups {
            None => column_groups,
            Some(groups) => combine(groups, column_groups, scratch),
        });
    }
    let mut groups = groups.unwrap_or_else(|| one_group(frame, block, masks));
    let included: Option<usize> = masks.iter().map(|mask| mask.as_ref().map(Mask::count)).sum();
    let (numerator, denominator) = MIN_DENSE_SHARE;
    groups.is_sparse = included.is_some_and(|included| included < groups.ids.len() / denominator * numerator);
    Ok(groups)
}

/// Puts all included rows into one group.
fn one_group<'a>(frame: &Frame<'a>, block: usize, masks: &[Option<Mask>]) -> Groups<'a> {
    let mut ids = Vec::new();
    for ((_, rows), mask) in frame.spans(block).zip(masks) {
        match mask {
            None => ids.resize(ids.len() + rows.len(), 1),
            Some(mask) => ids.extend((0..rows.len()).map(|row| u32::from(mask.is_set(row)))),
        }
    }
    let first = ids.iter().position(|&id| id != OUT);
    let firsts = first.map(|row| row as u32).into_iter().collect();
    Groups { ids, cells: Vec::new(), width: 0, firsts, is_sparse: false }
}

/// Combines the groups by some keys with the groups by another: each pair of them that occurs is a group.
fn combine<'a>(mut a: Groups<'a>, mut b: Groups<'a>, scratch: &mut GroupScratch) -> Groups<'a> {
    /// The maximum number of pairs for which a table has an entry for each pair.
    const MAX_DENSE_PAIRS: usize = 1 << 18;
    assert_eq!(a.ids.len(), b.ids.len(), "combined groups are of the same rows");

    // A pair is a number: the group in `a` times this, plus the group in `b`.
    let factor = b.count() as u64 + 1;
    let width = a.width + b.width;
    let mut pairs = Interner::expecting(scratch.expected, &mut scratch.interner);
    let num_pairs = (a.count() as u64 + 1).saturating_mul(factor);
    let max_dense = MAX_DENSE_PAIRS.min(DENSE_PER_ROW * a.ids.len());
    if num_pairs <= max_dense as u64 {
        pairs.prepare([0, num_pairs].into_iter(), max_dense + 1);
    }

    let ids = std::mem::take(&mut a.ids);
    let mut combined = Groups { ids, cells: Vec::new(), width, firsts: Vec::new(), is_sparse: false };
    let mut words = [0; AT_ONCE];
    let mut numbers = [OUT; AT_ONCE];
    for (number, (ids, others)) in combined.ids.chunks_mut(AT_ONCE).zip(b.ids.chunks(AT_ONCE)).enumerate() {
        let mut wanted = 0;
        for (row, (&id, &other)) in ids.iter().zip(others).enumerate() {
            words[row] = u64::from(id) * factor + u64::from(other);
            wanted |= u64::from(id != OUT) << row;
        }
        let mut new = wanted & !pairs.find_words(words[..others.len()].iter().copied(), &mut numbers);
        ids.copy_from_slice(&numbers[..ids.len()]);
        while new != 0 {
            let row = new.trailing_zeros() as usize;
            ids[row] = pairs.intern_word(words[row]);
            if ids[row] as usize > combined.firsts.len() {
                combined.firsts.push((number * AT_ONCE + row) as u32);
                combined.cells.extend_from_slice(a.key((words[row] / factor) as usize - 1));
                combined.cells.extend_from_slice(b.key(others[row] as usize - 1));
            }
            new &= new - 1;
        }
        exclude(ids, wanted);
    }
    pairs.into_cells(&mut scratch.interner);
    scratch.reuse(&mut b);
    combined
}

/// Puts the rows without a bit in `wanted` into group 0.
#[inline(always)]
fn exclude(ids: &mut [u32], wanted: u64) {
    if wanted != u64::MAX {
        // All ones if the row is selected.
        ids.iter_mut().enumerate().for_each(|(row, id)| *id &= 0u32.wrapping_sub((wanted >> row & 1) as u32));
    }
}

/// Returns word number `word` of a mask, where no mask means that all bits are set.
#[inline(always)]
fn mask_word(mask: Option<&Mask>, word: usize) -> u64 {
    mask.map_or(u64::MAX, |mask| mask.words[word])
}

/// Numbers the values of one column of a block, span by span.
#[derive(Debug)]
struct Encoder<'a> {
    /// The number of each row's value so far.
    ids: Vec<u32>,
    /// The first row of each value.
    firsts: Vec<u32>,
    interner: Interner<'a>,
    /// The maximum width of a range of keys for which a table has an entry for each number of the range.
    max_dense: usize,
    /// The last dictionary, and the numbers of its values seen so far, as [`new_entry_numbers`] creates them.
    dictionary: Option<(&'a ArrayData, Vec<u32>)>,
}

impl<'a> Encoder<'a> {
    /// Creates an encoder for about `expected` values, in memory of `scratch`.
    fn new(max_dense: usize, expected: usize, scratch: &mut GroupScratch) -> Encoder<'a> {
        let mut ids = std::mem::take(&mut scratch.ids);
        ids.clear();
        let interner = Interner::expecting(expected, &mut scratch.interner);
        Encoder { ids, firsts: Vec::with_capacity(expected), interner, max_dense, dictionary: None }
    }

    /// Returns the rows in groups by their values, and other memory to `scratch`.
    fn finish(self, scratch: &mut GroupScratch) -> Groups<'a> {
        let cells = self.interner.into_cells(&mut scratch.interner);
        assert_eq!(cells.len(), self.firsts.len(), "each group of a block has a first row");
        Groups { ids: self.ids, cells, width: 1, firsts: self.firsts, is_sparse: false }
    }

    /// Adds the rows `rows` of `array`, of which `mask` has the included ones; `None` includes all.
    fn add(&mut self, array: &'a ArrayData, rows: Range<usize>, mask: Option<&Mask>) -> Result<()> {
        use DataType::*;
        match array.data_type() {
            Dictionary(..) => self.add_keys(array, rows, mask),
            Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView => self.add_texts(array, rows, mask),
            Int8 | UInt8 => self.add_words::<1>(array, &rows, mask, |raw| raw[0].into()),
            other @ (Int16 | UInt16 | Float16) => self.add_numbers::<2>(array, rows, mask, word_of_2(other)),
            other @ (Int32 | UInt32 | Float32 | Date32 | Time32(_) | Decimal32(..)) => {
                self.add_numbers::<4>(array, rows, mask, word_of_4(other))
            }
            Int64 | UInt64 | Float64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => {
                self.add_numbers::<8>(array, rows, mask, u64::from_le_bytes)
            }
            _ => self.add_cells(array, rows, mask),
        }
    }

    /// Returns the number of `cell`, the value of row `row` of the block.
    #[inline]
    fn intern(&mut self, cell: KeyPart<'a>, row: usize) -> u32 {
        let id = self.interner.intern(cell);
        if id as usize > self.firsts.len() {
            self.firsts.push(row as u32);
        }
        id
    }

    /// Adds values of any type, row by row.
    fn add_cells(&mut self, array: &'a ArrayData, rows: Range<usize>, mask: Option<&Mask>) -> Result<()> {
        for (number, row) in rows.enumerate() {
            let is_included = mask.is_none_or(|mask| mask.is_set(number));
            let id = if is_included { self.intern(key_part(array, row)?, self.ids.len()) } else { OUT };
            self.ids.push(id);
        }
        Ok(())
    }

    /// Adds numbers of `N` bytes, which are equal if their words are. Floats are equal in other cases, too.
    fn add_numbers<const N: usize>(
        &mut self,
        array: &'a ArrayData,
        rows: Range<usize>,
        mask: Option<&Mask>,
        word: impl Fn([u8; N]) -> u64,
    ) -> Result<()> {
        match array.data_type() {
            DataType::Float64 => self.add_words::<8>(array, &rows, mask, |raw| float_word(f64::from_le_bytes(raw))),
            DataType::Float16 | DataType::Float32 => self.add_cells(array, rows, mask),
            _ => self.add_words(array, &rows, mask, word),
        }
    }

    /// Adds words. Not inlined, so that the compiler gives each loop its registers.
    #[inline(never)]
    fn add_words<const N: usize>(
        &mut self,
        array: &'a ArrayData,
        rows: &Range<usize>,
        mask: Option<&Mask>,
        word: impl Fn([u8; N]) -> u64,
    ) -> Result<()> {
        let Some(values) = fixed_values::<N>(array).get(rows.clone()) else {
            return Err(Error::invalid("fewer values than rows"));
        };
        let valid = Mask::from_validity(array, rows);
        // A sample of the words has nearly the range of all.
        self.interner.prepare(values.iter().step_by(SAMPLE_STEP).map(|raw| word(*raw)), self.max_dense);
        let mut numbers = [OUT; AT_ONCE];
        for (number, raws) in values.chunks(AT_ONCE).enumerate() {
            let wanted = mask_word(mask, number);
            let valid = mask_word(valid.as_ref(), number);
            if wanted == 0 {
                self.ids.resize(self.ids.len() + raws.len(), OUT);
                continue;
            }
            if wanted.count_ones() < MIN_BULK_ROWS {
                self.push_included(raws.len(), wanted, valid, |interner, row| {
                    Ok(interner.intern_word(word(raws[row])))
                })?;
                continue;
            }
            let hits = self.interner.find_words(raws.iter().map(|raw| word(*raw)), &mut numbers);
            self.push_all(&mut numbers[..raws.len()], wanted, valid, hits, |interner, row| {
                Ok(interner.intern_word(word(raws[row])))
            })?;
        }
        Ok(())
    }

    /// Appends the numbers of the next rows: from `ids` where a bit of `hits` is set, and from `intern` elsewhere.
    #[inline(always)]
    fn push_all(
        &mut self,
        ids: &mut [u32],
        wanted: u64,
        valid: u64,
        hits: u64,
        mut intern: impl FnMut(&mut Interner<'a>, usize) -> Result<u32>,
    ) -> Result<()> {
        let mut new = wanted & !(hits & valid) & u64::MAX >> (AT_ONCE - ids.len());
        while new != 0 {
            let row = new.trailing_zeros() as usize;
            let is_valid = valid >> row & 1 == 1;
            let id =
                if is_valid { intern(&mut self.interner, row)? } else { self.interner.intern_other(KeyPart::Null) };
            if id as usize > self.firsts.len() {
                self.firsts.push((self.ids.len() + row) as u32);
            }
            ids[row] = id;
            new &= new - 1;
        }
        exclude(ids, wanted);
        self.ids.extend_from_slice(ids);
        Ok(())
    }

    /// Appends the numbers of the next `len` rows, where a condition includes only a few. Other rows are not read.
    #[inline(always)]
    fn push_included(
        &mut self,
        len: usize,
        wanted: u64,
        valid: u64,
        mut intern: impl FnMut(&mut Interner<'a>, usize) -> Result<u32>,
    ) -> Result<()> {
        let start = self.ids.len();
        self.ids.resize(start + len, OUT);
        let mut remaining = wanted;
        while remaining != 0 {
            let row = remaining.trailing_zeros() as usize;
            remaining &= remaining - 1;
            let is_valid = valid >> row & 1 == 1;
            let id =
                if is_valid { intern(&mut self.interner, row)? } else { self.interner.intern_other(KeyPart::Null) };
            if id as usize > self.firsts.len() {
                self.firsts.push((start + row) as u32);
            }
            self.ids[start + row] = id;
        }
        Ok(())
    }

    /// Adds texts, which are looked up as words if they are short.
    fn add_texts(&mut self, array: &'a ArrayData, rows: Range<usize>, mask: Option<&Mask>) -> Result<()> {
        let texts = Texts::try_new(array)?;
        let valid = Mask::from_validity(array, &rows);
        // The last long text and its number, as sorted rows have many equal neighbours.
        let mut last_text: &[u8] = &[];
        let mut last_id = UNSEEN;
        let mut numbers = [OUT; AT_ONCE];
        let mut words = [LONG; AT_ONCE];
        for (number, first) in rows.clone().step_by(AT_ONCE).enumerate() {
            let wanted = mask_word(mask, number);
            let valid = mask_word(valid.as_ref(), number);
            let count = (rows.end - first).min(AT_ONCE);
            if wanted == 0 {
                self.ids.resize(self.ids.len() + count, OUT);
                continue;
            }
            if wanted.count_ones() < MIN_BULK_ROWS {
                self.push_included(count, wanted, valid, |interner, row| {
                    let bytes = texts.get(first + row)?;
                    Ok(interner.intern_text(pack_text(bytes), bytes))
                })?;
                continue;
            }
            if valid == u64::MAX {
                let mut next_words = words.iter_mut();
                texts.each_short(first..first + count, |len, bytes| {
                    next_words.by_ref().take(1).for_each(|word| *word = pack_short_text(len, bytes));
                })?;
            } else {
                for (row, word) in words[..count].iter_mut().enumerate() {
                    // Texts under nulls may be invalid, and are not read.
                    let (len, bytes) = if valid >> row & 1 == 1 { texts.short(first + row)? } else { (0, 0) };
                    *word = pack_short_text(len, bytes);
                }
            }
            let hits = self.interner.find_texts(&words, &mut numbers);
            self.push_all(&mut numbers[..count], wanted, valid, hits, |interner, row| {
                let bytes = texts.get(first + row)?;
                if words[row] != LONG {
                    return Ok(interner.intern_text(words[row], bytes));
                }
                if last_id == UNSEEN || last_text != bytes {
                    (last_text, last_id) = (bytes, interner.intern_text(LONG, bytes));
                }
                Ok(last_id)
            })?;
        }
        Ok(())
    }

    /// Adds dictionary keys. Each value of a dictionary is looked up once, and then found by its key.
    fn add_keys(&mut self, array: &'a ArrayData, rows: Range<usize>, mask: Option<&Mask>) -> Result<()> {
        let dictionary = dictionary_of(array)?;
        let mut numbers = match self.dictionary.take() {
            Some((last, numbers)) if UncheckedArray::from_ref(last).is_same(UncheckedArray::from_ref(dictionary)) => {
                numbers
            }
            _ => new_entry_numbers(dictionary),
        };
        let keys = Keys::new(array);
        let valid = Mask::from_validity(array, &rows);
        let start = self.ids.len();
        self.ids.resize(start + rows.len(), OUT);
        for (word, first) in rows.clone().step_by(AT_ONCE).enumerate() {
            let count = (rows.end - first).min(AT_ONCE);
            let wanted = mask_word(mask, word);
            let valid = mask_word(valid.as_ref(), word);
            let ids = &mut self.ids[start + word * AT_ONCE..][..count];
            if valid == u64::MAX && find_keys(&keys, first, wanted, &numbers, ids) {
                continue;
            }
            for bit in 0..count {
                let row = start + word * AT_ONCE + bit;
                let key = keys.get(first + bit);
                self.ids[row] = match (wanted >> bit & 1 == 1, valid >> bit & 1 == 1) {
                    (false, _) => OUT,
                    (true, false) => self.intern(KeyPart::Null, row),
                    (true, true) => self.intern_entry(dictionary, &mut numbers, key, row)?,
                };
            }
        }
        self.dictionary = Some((dictionary, numbers));
        Ok(())
    }

    /// Returns the number of the dictionary's value with key `key`.
    fn intern_entry(
        &mut self,
        dictionary: &'a ArrayData,
        numbers: &mut [u32],
        key: Option<usize>,
        row: usize,
    ) -> Result<u32> {
        let Some(key) = key.filter(|&key| key < dictionary.len()) else {
            return Err(Error::invalid(format!("a key outside of a dictionary of {}", dictionary.len())));
        };
        if let Some(&number) = numbers.get(key)
            && number != UNSEEN
        {
            return Ok(number);
        }
        let number = self.intern(key_part(dictionary, key)?, row);
        // The last number stays UNSEEN.
        if let Some(entry) = numbers.split_last_mut().and_then(|(_, numbers)| numbers.get_mut(key)) {
            *entry = number;
        }
        Ok(number)
    }
}

/// Returns the numbers of the values of `dictionary`, none of which is seen: at least one for each key of one byte, and
/// a last one that stays `UNSEEN`, for all keys beyond them.
fn new_entry_numbers(dictionary: &ArrayData) -> Vec<u32> {
    // A dictionary of values without bytes may claim any length, so it gets no number for each value.
    let len = if has_bits(dictionary.data_type()) { dictionary.len().max(BYTE_KEYS) } else { BYTE_KEYS };
    vec![UNSEEN; len + 1]
}

/// Writes the numbers of rows without nulls to `ids`. Returns false if an included row's key has no number yet.
#[inline]
fn find_keys(keys: &Keys<'_>, first: usize, wanted: u64, numbers: &[u32], ids: &mut [u32]) -> bool {
    match keys {
        Keys::Bytes(keys) => {
            let keys_from_first = keys.get(first..).and_then(|keys| keys.first_chunk::<AT_ONCE>());
            let whole = keys_from_first.zip(numbers.first_chunk::<BYTE_KEYS>());
            match (ids.first_chunk_mut::<AT_ONCE>(), whole) {
                (Some(ids), Some((keys, numbers))) => find_byte_keys(keys, wanted, numbers, ids),
                _ => find_wide_keys(keys, first, wanted, numbers, ids, |[raw]| raw.into()),
            }
        }
        Keys::Halves(keys) => find_wide_keys(keys, first, wanted, numbers, ids, |raw| u16::from_le_bytes(raw).into()),
        Keys::Words(keys) => find_wide_keys(keys, first, wanted, numbers, ids, |raw| u32::from_le_bytes(raw) as usize),
        Keys::Longs(keys) => find_wide_keys(keys, first, wanted, numbers, ids, |raw| u64::from_le_bytes(raw) as usize),
    }
}

/// Writes the numbers of rows with keys of `N` bytes, as [`find_keys`]. Not inlined, so that the compiler gives the
/// loop its registers.
#[inline(never)]
fn find_wide_keys<const N: usize>(
    keys: &[[u8; N]],
    first: usize,
    wanted: u64,
    numbers: &[u32],
    ids: &mut [u32],
    key: impl Fn([u8; N]) -> usize,
) -> bool {
    // Without the keys of all rows, the rows are read one by one, which reports the error.
    let Some(keys) = keys.get(first..first + ids.len()) else { return false };
    let Some(last) = numbers.len().checked_sub(1) else { return false };
    let mut remaining = wanted;
    let mut max_number = 0;
    for (id, &raw) in ids.iter_mut().zip(keys) {
        let number = numbers[key(raw).min(last)];
        // All ones if the row is selected.
        let number = number & 0u32.wrapping_sub((remaining & 1) as u32);
        remaining >>= 1;
        max_number = max_number.max(number);
        *id = number;
    }
    max_number != UNSEEN
}

/// Writes the numbers of as many rows as a word has bits, as [`find_keys`]. All keys of one byte have an entry in
/// `numbers`.
#[inline(always)]
fn find_byte_keys(
    keys: &[[u8; 1]; AT_ONCE],
    wanted: u64,
    numbers: &[u32; BYTE_KEYS],
    ids: &mut [u32; AT_ONCE],
) -> bool {
    let mut max_number = 0;
    for row in 0..AT_ONCE {
        let number = numbers[keys[row][0] as usize] & 0u32.wrapping_sub((wanted >> row & 1) as u32);
        max_number = max_number.max(number);
        ids[row] = number;
    }
    max_number != UNSEEN
}

/// Returns the function from an integer of 2 bytes to the word that identifies it as a key. Words have the sign, so
/// that integers around 0 lie close together.
#[inline(always)]
pub(in crate::compute::group) fn word_of_2(data_type: &DataType) -> impl Fn([u8; 2]) -> u64 + Copy + use<> {
    let is_unsigned = data_type.is_unsigned_integer();
    move |raw| if is_unsigned { u16::from_le_bytes(raw).into() } else { i64::from(i16::from_le_bytes(raw)) as u64 }
}

/// Returns the function from an integer of 4 bytes to its word, as [`word_of_2`].
#[inline(always)]
pub(in crate::compute::group) fn word_of_4(data_type: &DataType) -> impl Fn([u8; 4]) -> u64 + Copy + use<> {
    let is_unsigned = data_type.is_unsigned_integer();
    move |raw| if is_unsigned { u32::from_le_bytes(raw).into() } else { i64::from(i32::from_le_bytes(raw)) as u64 }
}

/// Returns the word that identifies a float as a key: the same for both zeros, and for all NaN.
fn float_word(number: f64) -> u64 {
    if number.is_nan() {
        f64::NAN.to_bits()
    } else {
        // −0.0 equals 0.0.
        (number + 0.0).to_bits()
    }
}

/// Returns the key that row `row` of `array` has.
pub(in crate::compute) fn key_part(array: &ArrayData, row: usize) -> Result<KeyPart<'_>> {
    if array.nulls().is_some_and(|nulls| nulls.is_null(row)) {
        return Ok(KeyPart::Null);
    }
    match array.data_type() {
        DataType::Null => Ok(KeyPart::Null),
        DataType::Boolean => Ok(KeyPart::Word(Bits::new(array).get(row).into())),
        DataType::Dictionary(..) => dictionary_key_part(array, row),
        DataType::Float16 | DataType::Float32 | DataType::Float64 => match value(array, row)? {
            Value::Float32(number) => Ok(KeyPart::Word(float_word(number.into()))),
            Value::Float64(number) => Ok(KeyPart::Word(float_word(number))),
            other => Err(Error::internal(format!("a column of floats has the value {other}"))),
        },
        other => {
            let word = match other.primitive_width() {
                Some(1) => fixed_values::<1>(array).get(row).map(|raw| raw[0].into()),
                Some(2) => fixed_values::<2>(array).get(row).map(|raw| word_of_2(other)(*raw)),
                Some(4) => fixed_values::<4>(array).get(row).map(|raw| word_of_4(other)(*raw)),
                Some(8) => fixed_values::<8>(array).get(row).map(|raw| u64::from_le_bytes(*raw)),
                _ => return Texts::try_new(array)?.get(row).map(KeyPart::Bytes),
            };
            word.map(KeyPart::Word).ok_or_else(|| Error::invalid("fewer values than rows"))
        }
    }
}

/// Returns the key by which the value of row `row` of `array`, of column number `column`, is ordered.
pub(in crate::compute::group) fn ordered_cell<'a>(
    frame: &Frame<'a>,
    column: usize,
    array: &'a ArrayData,
    row: usize,
) -> Result<KeyPart<'a>> {
    match frame.value_order(column) {
        Some(order) => Ok(order.sort_key(array, row)?.map_or(KeyPart::Null, KeyPart::Bytes)),
        None => key_part(array, row),
    }
}

/// Returns the key that the value of a dictionary has, to which row `row` of `array` refers.
fn dictionary_key_part(array: &ArrayData, row: usize) -> Result<KeyPart<'_>> {
    let dictionary = dictionary_of(array)?;
    match Keys::new(array).get(row).filter(|&key| key < dictionary.len()) {
        Some(key) if !matches!(dictionary.data_type(), DataType::Dictionary(..)) => key_part(dictionary, key),
        _ => Err(Error::new(ErrorKind::InvalidData, "a key outside of its dictionary")),
    }
}
