//! The groups of a block's rows: each row gets the number of its group, in order of appearance. Number 0 is for rows
//! excluded by a filter, so that later loops need no test.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int8Type;
use arrow_array::{Int8Array, RecordBatch};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field};

use super::interner::{AT_ONCE, Interner, InternerScratch, KeyPart, LONG, packed, with_len};
use crate::array::access::{Bits, Keys, Texts, dictionary_of, fixed_values};
use crate::array::{UncheckedArray, Value, value};
use crate::compute::frame::Frame;
use crate::compute::reduce::OUT;
use crate::compute::select::Mask;
use crate::dataset::Dataset;
use crate::error::{Error, ErrorKind, Result};
use crate::types::{has_bits, type_name};

/// The most numbers for each row of a block that keys of a narrow range may have for a table of all.
const DENSE_A_ROW: usize = 4;
/// Of how many rows one is looked at for the range of keys.
const SAMPLED: usize = 16;
/// Of `AT_ONCE` rows, so many that a condition includes are looked up together.
const FEW_WANTED: u32 = 16;
/// Not a group yet.
const UNSEEN: u32 = u32::MAX;

/// Rows in groups.
#[derive(Debug)]
pub(super) struct Groups<'a> {
    /// The number of each row's group.
    pub ids: Vec<u32>,
    /// The keys of group 1, of group 2, and so on: `width` each.
    pub cells: Vec<KeyPart<'a>>,
    pub width: usize,
    /// The first row of each group.
    pub firsts: Vec<u32>,
    /// Whether a condition excludes many of the rows.
    pub is_sparse: bool,
}

impl<'a> Groups<'a> {
    pub(in crate::compute) fn count(&self) -> usize {
        self.firsts.len()
    }

    pub(super) fn cells_of(&self, group: usize) -> &[KeyPart<'a>] {
        &self.cells[group * self.width..][..self.width]
    }
}

/// Whether rows can be grouped by a column of the type.
pub(in crate::compute) fn is_key_type(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Dictionary(_, values) => is_key_type(values) && !matches!(**values, Dictionary(..)),
        Null | Boolean | Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => true,
        other => other.is_primitive(),
    }
}

/// `dataset` with 1 for each true value of the columns of `arrow.bool8` among `names`, of which any byte but 0 is true; `None`
/// if there is no such column.
pub(super) fn with_plain_booleans(dataset: &Dataset, names: &[String]) -> Result<Option<Dataset>> {
    let schema = dataset.schema();
    let is_bool8 = |field: &Field| {
        *field.data_type() == DataType::Int8
            && field.extension_type_name() == Some("arrow.bool8")
            && names.contains(field.name())
    };
    let columns: Vec<usize> = (0..dataset.num_columns()).filter(|&column| is_bool8(schema.field(column))).collect();
    if columns.is_empty() {
        return Ok(None);
    }
    let plain = |batch: Result<RecordBatch>| {
        let batch = batch?;
        let mut arrays = batch.columns().to_vec();
        for &column in &columns {
            let flags: Int8Array = arrays[column].as_primitive::<Int8Type>().unary(|byte| i8::from(byte != 0));
            arrays[column] = Arc::new(flags);
        }
        RecordBatch::try_new(batch.schema(), arrays).map_err(|e| Error::invalid(e.to_string()))
    };
    let batches = dataset.to_record_batches().map(plain).collect::<Result<Vec<_>>>()?;
    Dataset::from_batches(schema.clone(), batches).map(Some)
}

/// # Errors
/// `Unsupported` if rows can't be grouped by the columns `keys`.
pub(super) fn check_keys(keys: &[usize], dataset: &Dataset) -> Result<()> {
    let field = |key: usize| dataset.schema().field(key);
    if let Some(&key) = keys.iter().find(|&&key| !is_key_type(field(key).data_type())) {
        let name = field(key).name();
        let data_type = type_name(field(key).data_type());
        return Err(Error::unsupported(format!("grouping by column '{name}' of type {data_type} is not supported")));
    }
    check_claim(keys, dataset)
}

/// Checks that the rows can be looked at in the columns `columns`, of which there is one at least: nulls, values of no width and
/// runs take no bytes a row, and a small file may have more of them than anybody can count.
///
/// # Errors
/// `Unsupported`.
pub(super) fn check_claim(columns: &[usize], dataset: &Dataset) -> Result<()> {
    let data_type = |column: usize| dataset.schema().field(column).data_type();
    let is_hollow =
        |&column: &usize| !has_bits(data_type(column)) || matches!(data_type(column), DataType::RunEndEncoded(..));
    if !columns.is_empty() && columns.iter().all(is_hollow) && dataset.len()? > u64::from(u32::MAX) {
        let message = "aggregating more than 2^32 rows of columns without bytes for each is not supported";
        return Err(Error::unsupported(message));
    }
    Ok(())
}

/// Memory of one block's groups, for the next one's.
#[derive(Debug, Default)]
pub(super) struct GroupScratch {
    ids: Vec<u32>,
    interner: InternerScratch,
    /// Groups that are expected.
    pub expected: usize,
}

impl GroupScratch {
    /// Takes back what `groups` has no need of any more.
    pub(super) fn reuse(&mut self, groups: &mut Groups<'_>) {
        self.ids = std::mem::take(&mut groups.ids);
    }
}

/// Groups the rows of block `block` by the columns `keys`; `masks` has the selected rows of each span.
pub(super) fn group<'a>(
    frame: &Frame<'a>,
    block: usize,
    keys: &[usize],
    masks: &[Option<Mask>],
    memory: &mut GroupScratch,
) -> Result<Groups<'a>> {
    let mut groups: Option<Groups<'a>> = None;
    for &column in keys {
        let rows: usize = frame.spans(block).map(|(_, rows)| rows.len()).sum();
        let expected = if keys.len() == 1 { memory.expected } else { 0 };
        let mut encoder = Encoder::new(DENSE_A_ROW * rows, expected, memory);
        encoder.ids.reserve(rows);
        for ((part, rows), mask) in frame.spans(block).zip(masks) {
            encoder.add(frame.checked(part, column)?, rows, mask.as_ref())?;
        }
        let next = encoder.finish(memory);
        groups = Some(match groups {
            None => next,
            Some(before) => combine(before, next, memory),
        });
    }
    let mut groups = groups.unwrap_or_else(|| one_group(frame, block, masks));
    let included: Option<usize> = masks.iter().map(|mask| mask.as_ref().map(Mask::count)).sum();
    groups.is_sparse = included.is_some_and(|included| included < groups.ids.len() / 4 * 3);
    Ok(groups)
}

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

/// Groups of both: a number for each pair that occurs.
fn combine<'a>(mut a: Groups<'a>, mut b: Groups<'a>, memory: &mut GroupScratch) -> Groups<'a> {
    /// The maximum number of pairs for which a table of all is made.
    const DENSE: usize = 1 << 18;
    let rows_of = b.count() as u64 + 1;
    let width = a.width + b.width;
    let mut pairs = Interner::expecting(memory.expected, &mut memory.interner);
    let most = (a.count() as u64 + 1).saturating_mul(rows_of);
    let dense = DENSE.min(DENSE_A_ROW * a.ids.len());
    if most <= dense as u64 {
        pairs.prepare([0, most].into_iter(), dense + 1);
    }
    let ids = std::mem::take(&mut a.ids);
    let mut combined = Groups { ids, cells: Vec::new(), width, firsts: Vec::new(), is_sparse: false };
    let (mut words, mut numbers) = ([0; AT_ONCE], [OUT; AT_ONCE]);
    for (number, (ids, others)) in combined.ids.chunks_mut(AT_ONCE).zip(b.ids.chunks(AT_ONCE)).enumerate() {
        let mut wanted = 0;
        for (row, (&id, &other)) in ids.iter().zip(others).enumerate() {
            words[row] = u64::from(id) * rows_of + u64::from(other);
            wanted |= u64::from(id != OUT) << row;
        }
        let mut new = wanted & !pairs.look_up(words[..others.len()].iter().copied(), &mut numbers);
        ids.copy_from_slice(&numbers[..ids.len()]);
        while new != 0 {
            let row = new.trailing_zeros() as usize;
            ids[row] = pairs.word(words[row]);
            if ids[row] as usize > combined.firsts.len() {
                combined.firsts.push((number * AT_ONCE + row) as u32);
                combined.cells.extend_from_slice(a.cells_of((words[row] / rows_of) as usize - 1));
                combined.cells.extend_from_slice(b.cells_of(others[row] as usize - 1));
            }
            new &= new - 1;
        }
        exclude(ids, wanted);
    }
    pairs.into_cells(&mut memory.interner);
    memory.reuse(&mut b);
    combined
}

/// Puts the rows without a bit in `wanted` into no group.
#[inline(always)]
fn exclude(ids: &mut [u32], wanted: u64) {
    if wanted != u64::MAX {
        // All ones if the row is selected.
        ids.iter_mut().enumerate().for_each(|(row, id)| *id &= 0u32.wrapping_sub((wanted >> row & 1) as u32));
    }
}

/// Numbers the values of one column of a block.
#[derive(Debug)]
struct Encoder<'a> {
    ids: Vec<u32>,
    firsts: Vec<u32>,
    interner: Interner<'a>,
    /// The most numbers that keys of a narrow range may have for a table of all.
    most_dense: usize,
    /// The last dictionary, and the numbers of its values seen so far.
    dictionary: Option<(&'a ArrayData, Vec<u32>)>,
}

impl<'a> Encoder<'a> {
    fn new(most_dense: usize, expected: usize, memory: &mut GroupScratch) -> Encoder<'a> {
        let mut ids = std::mem::take(&mut memory.ids);
        ids.clear();
        let interner = Interner::expecting(expected, &mut memory.interner);
        Encoder { ids, firsts: Vec::with_capacity(expected), interner, most_dense, dictionary: None }
    }

    fn finish(self, memory: &mut GroupScratch) -> Groups<'a> {
        let cells = self.interner.into_cells(&mut memory.interner);
        Groups { ids: self.ids, cells, width: 1, firsts: self.firsts, is_sparse: false }
    }

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

    /// The number of `cell`, the value of row `row` of the block.
    #[inline]
    fn intern(&mut self, cell: KeyPart<'a>, row: usize) -> u32 {
        let id = self.interner.id(cell);
        if id as usize > self.firsts.len() {
            self.firsts.push(row as u32);
        }
        id
    }

    /// Row by row, for any type.
    fn add_cells(&mut self, array: &'a ArrayData, rows: Range<usize>, mask: Option<&Mask>) -> Result<()> {
        for (number, row) in rows.enumerate() {
            let is_in = mask.is_none_or(|mask| mask.is_set(number));
            let id = if is_in { self.intern(key_part(array, row)?, self.ids.len()) } else { OUT };
            self.ids.push(id);
        }
        Ok(())
    }

    /// Numbers that are equal if their bits are: all but floats.
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

    fn add_words<const N: usize>(
        &mut self,
        array: &'a ArrayData,
        rows: &Range<usize>,
        mask: Option<&Mask>,
        word: impl Fn([u8; N]) -> u64,
    ) -> Result<()> {
        let values = fixed_values::<N>(array).get(rows.clone()).unwrap_or_default();
        let valid = Mask::from_validity(array, rows);
        // Some words tell the range of nearly all.
        self.interner.prepare(values.iter().step_by(SAMPLED).map(|raw| word(*raw)), self.most_dense);
        let mut numbers = [OUT; AT_ONCE];
        for (number, raws) in values.chunks(AT_ONCE).enumerate() {
            let bits = |mask: Option<&Mask>| mask.map_or(u64::MAX, |mask| mask.words[number]);
            let (wanted, valid) = (bits(mask), bits(valid.as_ref()));
            if wanted == 0 {
                self.ids.resize(self.ids.len() + raws.len(), OUT);
                continue;
            }
            if wanted.count_ones() < FEW_WANTED {
                self.push_some(raws.len(), wanted, valid, |interner, row| Ok(interner.word(word(raws[row]))))?;
                continue;
            }
            let known = self.interner.look_up(raws.iter().map(|raw| word(*raw)), &mut numbers);
            self.push_all(&mut numbers[..raws.len()], wanted, valid, known, |interner, row| {
                Ok(interner.word(word(raws[row])))
            })?;
        }
        Ok(())
    }

    /// Appends the numbers of the next rows: those of `ids` where a bit is `known`, others by `number`.
    #[inline(always)]
    fn push_all(
        &mut self,
        ids: &mut [u32],
        wanted: u64,
        valid: u64,
        known: u64,
        mut number: impl FnMut(&mut Interner<'a>, usize) -> Result<u32>,
    ) -> Result<()> {
        let mut new = wanted & !(known & valid) & u64::MAX >> (AT_ONCE - ids.len());
        while new != 0 {
            let row = new.trailing_zeros() as usize;
            let is_valid = valid >> row & 1 == 1;
            let id = if is_valid { number(&mut self.interner, row)? } else { self.interner.other(KeyPart::Null) };
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

    /// As `push_all` for `len` rows of which few are wanted: the others are not looked at.
    #[inline(always)]
    fn push_some(
        &mut self,
        len: usize,
        wanted: u64,
        valid: u64,
        mut number: impl FnMut(&mut Interner<'a>, usize) -> Result<u32>,
    ) -> Result<()> {
        let start = self.ids.len();
        self.ids.resize(start + len, OUT);
        let mut left = wanted;
        while left != 0 {
            let row = left.trailing_zeros() as usize;
            left &= left - 1;
            let is_valid = valid >> row & 1 == 1;
            let id = if is_valid { number(&mut self.interner, row)? } else { self.interner.other(KeyPart::Null) };
            if id as usize > self.firsts.len() {
                self.firsts.push((start + row) as u32);
            }
            self.ids[start + row] = id;
        }
        Ok(())
    }

    fn add_texts(&mut self, array: &'a ArrayData, rows: Range<usize>, mask: Option<&Mask>) -> Result<()> {
        let texts = Texts::try_new(array)?;
        let valid = Mask::from_validity(array, &rows);
        // Sorted rows have many equal neighbours.
        let mut last = (&[][..], UNSEEN);
        let (mut numbers, mut words) = ([OUT; AT_ONCE], [LONG; AT_ONCE]);
        for (number, first) in rows.clone().step_by(AT_ONCE).enumerate() {
            let bits = |mask: Option<&Mask>| mask.map_or(u64::MAX, |mask| mask.words[number]);
            let (wanted, valid) = (bits(mask), bits(valid.as_ref()));
            let count = (rows.end - first).min(AT_ONCE);
            if wanted == 0 {
                self.ids.resize(self.ids.len() + count, OUT);
                continue;
            }
            if wanted.count_ones() < FEW_WANTED {
                self.push_some(count, wanted, valid, |interner, row| {
                    let bytes = texts.get(first + row)?;
                    Ok(interner.text(packed(bytes), bytes))
                })?;
                continue;
            }
            if valid == u64::MAX {
                let mut into = words.iter_mut();
                texts.each_short(first..first + count, |len, bytes| {
                    into.by_ref().take(1).for_each(|word| *word = with_len(len, bytes));
                })?;
            } else {
                for (row, word) in words[..count].iter_mut().enumerate() {
                    // Anything may lie under nulls.
                    let (len, bytes) = if valid >> row & 1 == 1 { texts.short(first + row)? } else { (0, 0) };
                    *word = with_len(len, bytes);
                }
            }
            let known = self.interner.look_up_texts(&words, &mut numbers);
            self.push_all(&mut numbers[..count], wanted, valid, known, |interner, row| {
                let bytes = texts.get(first + row)?;
                if words[row] != LONG {
                    return Ok(interner.text(words[row], bytes));
                }
                if last.1 == UNSEEN || last.0 != bytes {
                    last = (bytes, interner.text(LONG, bytes));
                }
                Ok(last.1)
            })?;
        }
        Ok(())
    }

    fn add_keys(&mut self, array: &'a ArrayData, rows: Range<usize>, mask: Option<&Mask>) -> Result<()> {
        let dictionary = dictionary_of(array)?;
        let mut numbers = match self.dictionary.take() {
            Some((last, numbers)) if UncheckedArray::from_ref(last).is_same(UncheckedArray::from_ref(dictionary)) => {
                numbers
            }
            // Values without bytes may be any number.
            _ => vec![UNSEEN; if has_bits(dictionary.data_type()) { dictionary.len().max(256) } else { 256 }],
        };
        let keys = Keys::new(array);
        let valid = Mask::from_validity(array, &rows);
        let start = self.ids.len();
        self.ids.resize(start + rows.len(), OUT);
        for (word, first) in rows.clone().step_by(64).enumerate() {
            let count = (rows.end - first).min(64);
            let bits = |mask: Option<&Mask>| mask.map_or(u64::MAX, |mask| mask.words[word]);
            let wanted = bits(mask);
            let valid = bits(valid.as_ref());
            let into = &mut self.ids[start + word * 64..][..count];
            if valid == u64::MAX && look_up(&keys, first, wanted, &numbers, into) {
                continue;
            }
            for i in 0..count {
                let at = start + word * 64 + i;
                let key = keys.get(first + i);
                self.ids[at] = match (wanted >> i & 1 == 1, valid >> i & 1 == 1) {
                    (false, _) => OUT,
                    (true, false) => self.intern(KeyPart::Null, at),
                    (true, true) => self.number(dictionary, &mut numbers, key, at)?,
                };
            }
        }
        self.dictionary = Some((dictionary, numbers));
        Ok(())
    }

    /// The number of the value with key `key`.
    fn number(
        &mut self,
        dictionary: &'a ArrayData,
        numbers: &mut [u32],
        key: Option<usize>,
        row: usize,
    ) -> Result<u32> {
        let key = key.filter(|&key| key < dictionary.len());
        let key =
            key.ok_or_else(|| Error::invalid(format!("a key outside of a dictionary of {}", dictionary.len())))?;
        if let Some(&number) = numbers.get(key).filter(|&&number| number != UNSEEN) {
            return Ok(number);
        }
        let number = self.intern(key_part(dictionary, key)?, row);
        if let Some(known) = numbers.get_mut(key) {
            *known = number;
        }
        Ok(number)
    }
}

/// The numbers of rows without nulls; false if one of them has none yet.
#[inline]
fn look_up(keys: &Keys<'_>, first: usize, wanted: u64, numbers: &[u32], into: &mut [u32]) -> bool {
    match keys {
        Keys::Bytes(keys) => {
            let whole = keys.get(first..).and_then(|keys| keys.first_chunk::<64>()).zip(numbers.first_chunk::<256>());
            match (into.first_chunk_mut::<64>(), whole) {
                (Some(into), Some((keys, numbers))) => fill_all(into, wanted, keys, numbers),
                _ => number_of(keys, first, wanted, numbers, into, |[raw]| raw.into()),
            }
        }
        Keys::Halves(keys) => number_of(keys, first, wanted, numbers, into, |raw| u16::from_le_bytes(raw).into()),
        Keys::Words(keys) => number_of(keys, first, wanted, numbers, into, |raw| u32::from_le_bytes(raw) as usize),
        Keys::Longs(keys) => number_of(keys, first, wanted, numbers, into, |raw| u64::from_le_bytes(raw) as usize),
    }
}

/// The same for keys of `N` bytes.
#[inline(always)]
fn number_of<const N: usize>(
    keys: &[[u8; N]],
    first: usize,
    wanted: u64,
    numbers: &[u32],
    into: &mut [u32],
    key: impl Fn([u8; N]) -> usize,
) -> bool {
    let keys = keys.get(first..first + into.len()).unwrap_or_default();
    fill(into, wanted, keys.iter().map(|&raw| numbers.get(key(raw)).copied().unwrap_or(UNSEEN)))
}

/// As `fill`, for as many rows as there are bits.
#[inline(always)]
fn fill_all(into: &mut [u32; 64], wanted: u64, keys: &[[u8; 1]; 64], numbers: &[u32; 256]) -> bool {
    let mut most = 0;
    for row in 0..64 {
        let number = numbers[keys[row][0] as usize] & 0u32.wrapping_sub((wanted >> row & 1) as u32);
        most = most.max(number);
        into[row] = number;
    }
    most != UNSEEN
}

#[inline(always)]
fn fill(into: &mut [u32], wanted: u64, numbers: impl Iterator<Item = u32>) -> bool {
    let mut left = wanted;
    let mut most = 0;
    for (into, number) in into.iter_mut().zip(numbers) {
        // All ones if the row is selected.
        let number = number & 0u32.wrapping_sub((left & 1) as u32);
        left >>= 1;
        most = most.max(number);
        *into = number;
    }
    most != UNSEEN
}

/// The word that identifies an integer of 2 bytes as a key: with the sign, integers around 0 lie close together.
#[inline(always)]
pub(super) fn word_of_2(data_type: &DataType) -> impl Fn([u8; 2]) -> u64 + Copy + use<> {
    let is_unsigned = data_type.is_unsigned_integer();
    move |raw| if is_unsigned { u16::from_le_bytes(raw).into() } else { i64::from(i16::from_le_bytes(raw)) as u64 }
}

/// The same of 4 bytes.
#[inline(always)]
pub(super) fn word_of_4(data_type: &DataType) -> impl Fn([u8; 4]) -> u64 + Copy + use<> {
    let is_unsigned = data_type.is_unsigned_integer();
    move |raw| if is_unsigned { u32::from_le_bytes(raw).into() } else { i64::from(i32::from_le_bytes(raw)) as u64 }
}

/// The word that identifies a float as a key.
fn float_word(number: f64) -> u64 {
    if number.is_nan() {
        f64::NAN.to_bits()
    } else {
        // −0.0 equals 0.0.
        (number + 0.0).to_bits()
    }
}

/// The key that row `row` of `array` has.
pub(in crate::compute) fn key_part(array: &ArrayData, row: usize) -> Result<KeyPart<'_>> {
    if array.nulls().is_some_and(|nulls| nulls.is_null(row)) {
        return Ok(KeyPart::Null);
    }
    let words = |number: Option<u64>| number.map(KeyPart::Word).ok_or_else(|| Error::invalid("fewer values than rows"));
    match array.data_type() {
        DataType::Null => Ok(KeyPart::Null),
        DataType::Boolean => Ok(KeyPart::Word(Bits::new(array).get(row).into())),
        DataType::Dictionary(..) => cell_of_key(array, row),
        DataType::Float16 | DataType::Float32 | DataType::Float64 => match value(array, row)? {
            Value::Float32(number) => Ok(KeyPart::Word(float_word(number.into()))),
            Value::Float64(number) => Ok(KeyPart::Word(float_word(number))),
            _ => Ok(KeyPart::Null),
        },
        other => match other.primitive_width() {
            Some(1) => words(fixed_values::<1>(array).get(row).map(|raw| raw[0].into())),
            Some(2) => words(fixed_values::<2>(array).get(row).map(|raw| word_of_2(other)(*raw))),
            Some(4) => words(fixed_values::<4>(array).get(row).map(|raw| word_of_4(other)(*raw))),
            Some(8) => words(fixed_values::<8>(array).get(row).map(|raw| u64::from_le_bytes(*raw))),
            _ => Texts::try_new(array)?.get(row).map(KeyPart::Bytes),
        },
    }
}

/// What the value of row `row` of `array`, of column number `column`, is compared by.
pub(super) fn ordered_cell<'a>(
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

fn cell_of_key(array: &ArrayData, row: usize) -> Result<KeyPart<'_>> {
    let dictionary = dictionary_of(array)?;
    match Keys::new(array).get(row).filter(|&key| key < dictionary.len()) {
        Some(key) if !matches!(dictionary.data_type(), DataType::Dictionary(..)) => key_part(dictionary, key),
        _ => Err(Error::new(ErrorKind::InvalidData, "a key outside of its dictionary")),
    }
}
