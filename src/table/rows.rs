//! One row at a time: values straight into the mapped window of each buffer, without an allocation.

use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use super::append::view;
use super::growing::Growing;
use super::plan::{Kind, PlanNode};
use super::sorted::{Key, comparable};
use super::writer::Writer;
use crate::error::{Error, ErrorKind, Result};
use crate::value::Value;

/// The bytes of the widest fixed-width value.
const WIDEST: usize = 32;

impl Writer {
    /// Appends one row: a value for each column, in the table's order. Integers stand for dates, times and timestamps in
    /// the column's unit as well. Lists and structs come in batches: [`Writer::append`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow_schema::{DataType, Field, Schema};
    /// # use arrowwood::{Value, Writer, WriterOptions};
    /// # let folder = std::env::temp_dir().join(format!("row-{}", std::process::id()));
    /// # let fields = vec![Field::new("n", DataType::Int64, false), Field::new("text", DataType::Utf8, true)];
    /// let mut writer = Writer::open(&folder, Some(Arc::new(Schema::new(fields))), &WriterOptions::default())?;
    /// writer.append_row(&[Value::Int(5), Value::Str("five")])?;
    /// writer.append_row(&[Value::Int(6), Value::Null])?;
    /// writer.commit()?;
    /// # writer.close()?;
    /// # assert_eq!(arrowwood::open(&folder)?.len()?, 2);
    /// # std::fs::remove_dir_all(&folder).unwrap();
    /// # Ok::<(), arrowwood::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument`, naming the column, for a value of another type or out of range, a null where there are none, or
    /// one that comes before the last row in the column the table is sorted by; `Io` for a full disk. Then nothing was
    /// appended.
    pub fn append_row(&mut self, row: &[Value<'_>]) -> Result<()> {
        self.check()?;
        let key = self.check_row(row).map_err(|e| e.at(self.path()))?;
        let mut keys = std::mem::take(&mut self.row_keys);
        let written = self.write_row(row, &mut keys);
        self.row_keys = keys;
        written.map_err(|e| e.at(self.path()))?;
        if key.is_some() {
            self.last.0 = key;
        }
        Ok(())
    }

    /// Whether the values fit their columns; the key of the one that the table is sorted by.
    fn check_row(&self, row: &[Value<'_>]) -> Result<Option<Key>> {
        let columns = &self.plan.columns;
        if row.len() != columns.len() {
            return Err(Error::argument(format!("a row of {} values for {} columns", row.len(), columns.len())));
        }
        for (node, value) in columns.iter().zip(row) {
            if !fits(node, value) {
                return Err(unfit(node, value));
            }
        }
        let Some(column) = self.sorted_by else { return Ok(None) };
        let key = comparable(columns[column].field.data_type(), &row[column]);
        match &key {
            Some(key) if self.last.0.as_ref().is_none_or(|last| last <= key) => Ok(Some(key.clone())),
            _ => Err(Error::argument(format!(
                "column '{}': {} comes before the last row, or has no order, and the table is sorted by it",
                columns[column].field.name(),
                row[column]
            ))),
        }
    }

    /// Writes a row that fits its columns.
    fn write_row(&mut self, row: &[Value<'_>], keys: &mut Vec<u32>) -> Result<()> {
        keys.clear();
        for &column in &self.plan.texts {
            if let (Kind::Keys { number }, Some(text)) = (self.plan.columns[column].kind, text_of(&row[column])) {
                let full = || Error::new(ErrorKind::Unsupported, "a dictionary of more than 2^31 values or bytes");
                keys.push(self.entries[number].key(text).ok_or_else(full)?);
            }
        }
        if !self.has_room(row, keys) {
            let needed = self.row_needs(row, keys);
            self.roll(&needed)?;
        }
        let Writer { plan, segments, entries, .. } = self;
        let Some(live) = segments.last_mut() else { return Ok(()) };
        let at = live.rows();
        let mut next_key = keys.iter();
        for (node, value) in plan.columns.iter().zip(row) {
            if let (Kind::Keys { number }, Value::Str(_)) = (node.kind, value) {
                let key = next_key.next().copied().unwrap_or(0);
                live.put_entries(number, &entries[number], key as usize + 1)?;
                live.put(node.region + 1, 4 * at, &key.to_le_bytes())?;
                put_bit(live, node, node.region, at, true)?;
            } else {
                put_value(live, node, at, value)?;
            }
        }
        // Only now that nothing can fail any more.
        for &column in &plan.texts {
            count_text(&mut live.now.counters, &plan.columns[column], &row[column]);
        }
        for (node, _) in plan.columns.iter().zip(row).filter(|(_, value)| matches!(value, Value::Null)) {
            live.now.counters[node.nulls.unwrap_or(0)] += 1;
        }
        live.now.counters[0] += 1;
        Ok(())
    }

    fn has_room(&self, row: &[Value<'_>], keys: &[u32]) -> bool {
        let Some(live) = self.segments.last() else { return false };
        let (counters, limits) = (&live.now.counters, live.limits());
        if counters[0] >= limits[0] {
            return false;
        }
        let mut keys = keys.iter();
        self.plan.texts.iter().all(|&column| match (self.plan.columns[column].kind, text_of(&row[column])) {
            (Kind::Bytes { counter, .. } | Kind::Views { counter }, Some(text)) => {
                counters[counter] + text.len() as u64 <= limits[counter]
            }
            (Kind::Keys { number }, Some(_)) => {
                let entries = keys.next().map_or(0, |&key| key as usize + 1);
                let dictionary = &self.plan.dictionaries[number];
                entries as u64 <= limits[dictionary.entries]
                    && self.entries[number].bytes(entries) <= limits[dictionary.bytes]
            }
            _ => true,
        })
    }

    /// The counters of a segment that holds this row alone.
    fn row_needs(&self, row: &[Value<'_>], keys: &[u32]) -> Vec<u64> {
        let mut needed = vec![0; self.plan.counters];
        needed[0] = 1;
        let mut keys = keys.iter();
        for (node, value) in self.plan.columns.iter().zip(row) {
            match (node.kind, text_of(value)) {
                (Kind::Bytes { counter, .. } | Kind::Views { counter }, Some(text)) => {
                    needed[counter] = text.len() as u64
                }
                (Kind::Keys { number }, Some(_)) => {
                    let entries = keys.next().map_or(0, |&key| key as usize + 1);
                    let dictionary = &self.plan.dictionaries[number];
                    needed[dictionary.entries] = entries as u64;
                    needed[dictionary.bytes] = self.entries[number].bytes(entries);
                }
                _ => (),
            }
        }
        needed
    }
}

fn text_of<'a>(value: &'a Value<'_>) -> Option<&'a [u8]> {
    match value {
        Value::Str(text) => Some(text.as_bytes()),
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

fn fits(node: &PlanNode, value: &Value<'_>) -> bool {
    use DataType::{Binary, BinaryView, LargeBinary};
    if let Value::Null = value {
        return node.nulls.is_some() && node.children.is_empty();
    }
    let is_binary = matches!(node.field.data_type(), Binary | LargeBinary | BinaryView);
    match (node.kind, value) {
        (Kind::Bits, Value::Bool(_)) => true,
        (Kind::Bytes { .. } | Kind::Views { .. } | Kind::Keys { .. }, Value::Str(_)) => !is_binary,
        (Kind::Bytes { .. } | Kind::Views { .. }, Value::Bytes(_)) => is_binary,
        (Kind::Fixed { width }, Value::Bytes(bytes)) => {
            bytes.len() == width && matches!(node.field.data_type(), DataType::FixedSizeBinary(_))
        }
        (Kind::Fixed { .. }, Value::Int(_)) if is_signed_word(node.field.data_type()) => true,
        (Kind::Fixed { .. }, Value::Float64(_)) if *node.field.data_type() == DataType::Float64 => true,
        (Kind::Fixed { .. }, value) => fixed(node.field.data_type(), value).is_some(),
        _ => false,
    }
}

/// Whether a signed integer of 64 bits is what the type stores.
#[inline]
fn is_signed_word(data_type: &DataType) -> bool {
    use DataType::{Date64, Duration, Int64, Time64, Timestamp};
    matches!(data_type, Int64 | Timestamp(..) | Date64 | Time64(_) | Duration(_))
}

fn unfit(node: &PlanNode, value: &Value<'_>) -> Error {
    let (name, data_type) = (node.field.name(), crate::layout::field_type_name(&node.field));
    let what = match value {
        Value::Null if !node.children.is_empty() => "null".into(),
        Value::Null => {
            return Error::argument(format!("column '{name}': null, and the column is declared without nulls"));
        }
        other => format!("{other}"),
    };
    if !node.children.is_empty() {
        return Error::argument(format!("column '{name}' is {data_type}; append it in batches"));
    }
    Error::argument(format!("column '{name}': {what} is no {data_type}, or out of its range"))
}

/// The bytes of a fixed-width value, first ones first, and how many they are.
#[inline]
pub(super) fn fixed(data_type: &DataType, value: &Value<'_>) -> Option<([u8; WIDEST], usize)> {
    use DataType::*;
    let number = match value {
        Value::Float64(x) => return float(data_type, *x),
        Value::Float32(x) => return float(data_type, (*x).into()),
        Value::Int(n) => i128::from(*n),
        Value::UInt(n) => i128::from(*n),
        Value::Int128(n) => *n,
        Value::Date(days) => match data_type {
            Date32 => i128::from(*days),
            Date64 => i128::from(*days) * 86_400_000,
            _ => return None,
        },
        Value::Time(n, unit) => match data_type {
            Time32(own) | Time64(own) => scaled(*n, *unit, *own)?,
            _ => return None,
        },
        Value::Timestamp(n, unit, _) => match data_type {
            Timestamp(own, _) => scaled(*n, *unit, *own)?,
            _ => return None,
        },
        Value::Duration(n, unit) => match data_type {
            Duration(own) => scaled(*n, *unit, *own)?,
            _ => return None,
        },
        Value::Decimal { digits, scale } => return decimal(data_type, *digits, *scale),
        Value::Interval { months, days, nanoseconds, .. } => return interval(data_type, *months, *days, *nanoseconds),
        _ => return None,
    };
    integer(data_type, number)
}

fn bytes<const N: usize>(raw: [u8; N]) -> Option<([u8; WIDEST], usize)> {
    let mut wide = [0; WIDEST];
    wide[..N].copy_from_slice(&raw);
    Some((wide, N))
}

#[inline]
fn integer(data_type: &DataType, n: i128) -> Option<([u8; WIDEST], usize)> {
    use DataType::*;
    match data_type {
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) => bytes(i64::try_from(n).ok()?.to_le_bytes()),
        Int32 | Date32 | Time32(_) => bytes(i32::try_from(n).ok()?.to_le_bytes()),
        UInt64 => bytes(u64::try_from(n).ok()?.to_le_bytes()),
        UInt32 => bytes(u32::try_from(n).ok()?.to_le_bytes()),
        Int16 => bytes(i16::try_from(n).ok()?.to_le_bytes()),
        UInt16 => bytes(u16::try_from(n).ok()?.to_le_bytes()),
        Int8 => bytes(i8::try_from(n).ok()?.to_le_bytes()),
        UInt8 => bytes(u8::try_from(n).ok()?.to_le_bytes()),
        Float16 | Float32 | Float64 => {
            // Integers that a double holds exactly.
            let exact = n as f64;
            if exact as i128 == n { float(data_type, exact) } else { None }
        }
        Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..) => {
            decimal(data_type, arrow_buffer::i256::from_i128(n), 0)
        }
        _ => None,
    }
}

fn float(data_type: &DataType, x: f64) -> Option<([u8; WIDEST], usize)> {
    match data_type {
        DataType::Float64 => bytes(x.to_le_bytes()),
        DataType::Float32 => bytes((x as f32).to_le_bytes()),
        DataType::Float16 => bytes(half::f16::from_f64(x).to_le_bytes()),
        _ => None,
    }
}

fn decimal(data_type: &DataType, digits: arrow_buffer::i256, scale: i8) -> Option<([u8; WIDEST], usize)> {
    use DataType::*;
    let (Decimal32(precision, own)
    | Decimal64(precision, own)
    | Decimal128(precision, own)
    | Decimal256(precision, own)) = data_type
    else {
        return None;
    };
    let more = u32::try_from(i32::from(*own) - i32::from(scale)).ok()?;
    let ten = arrow_buffer::i256::from(10i64);
    let digits = digits.checked_mul(ten.checked_pow(more)?)?;
    let limit = ten.checked_pow((*precision).into());
    if limit.is_some_and(|limit| digits >= limit || digits <= -limit) {
        return None;
    }
    let (wide, width) = bytes(digits.to_le_bytes())?;
    let width = data_type.primitive_width().unwrap_or(width);
    Some((wide, width))
}

fn interval(data_type: &DataType, months: i32, days: i32, nanoseconds: i64) -> Option<([u8; WIDEST], usize)> {
    let DataType::Interval(unit) = data_type else { return None };
    match unit {
        IntervalUnit::YearMonth if days == 0 && nanoseconds == 0 => bytes(months.to_le_bytes()),
        IntervalUnit::DayTime if months == 0 && nanoseconds % 1_000_000 == 0 => {
            let millis = i32::try_from(nanoseconds / 1_000_000).ok()?;
            let mut raw = [0; 8];
            raw[..4].copy_from_slice(&days.to_le_bytes());
            raw[4..].copy_from_slice(&millis.to_le_bytes());
            bytes(raw)
        }
        IntervalUnit::MonthDayNano => {
            let mut raw = [0; 16];
            raw[..4].copy_from_slice(&months.to_le_bytes());
            raw[4..8].copy_from_slice(&days.to_le_bytes());
            raw[8..].copy_from_slice(&nanoseconds.to_le_bytes());
            bytes(raw)
        }
        _ => None,
    }
}

/// `n` of `unit` in `own` units, where that is a whole number.
pub(super) fn scaled(n: i64, unit: TimeUnit, own: TimeUnit) -> Option<i128> {
    let per_second = |unit| match unit {
        TimeUnit::Second => 1i128,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    if unit == own {
        return Some(n.into());
    }
    let product = i128::from(n) * per_second(own);
    (product % per_second(unit) == 0).then(|| product / per_second(unit))
}

/// Writes a value, dictionaries apart, as row `at` of its column.
#[inline]
fn put_value(live: &mut Growing, node: &PlanNode, at: u64, value: &Value<'_>) -> Result<()> {
    if node.nulls.is_some() {
        put_bit(live, node, node.region, at, !matches!(value, Value::Null))?;
    }
    match node.kind {
        Kind::Fixed { width: 8 } if matches!(value, Value::Int(_)) && is_signed_word(node.field.data_type()) => {
            let Value::Int(n) = value else { return Ok(()) };
            live.put(node.region + 1, 8 * at, &n.to_le_bytes())
        }
        Kind::Fixed { width } => match (value, fixed(node.field.data_type(), value)) {
            (Value::Bytes(bytes), _) => live.put(node.region + 1, at * width as u64, bytes),
            (_, Some((bytes, _))) => live.put(node.region + 1, at * width as u64, &bytes[..width.min(WIDEST)]),
            _ => live.put(node.region + 1, at * width as u64, &vec![0; width]),
        },
        Kind::Bits => put_bit(live, node, node.region + 1, at, matches!(value, Value::Bool(true))),
        Kind::Bytes { width, counter } => {
            let text = text_of(value).unwrap_or_default();
            let base = live.now.counters[counter];
            live.put(node.region + 2, base, text)?;
            let end = (base + text.len() as u64).to_le_bytes();
            live.put(node.region + 1, (at + 1) * width as u64, &end[..width])
        }
        Kind::Views { counter } => {
            let text = text_of(value).unwrap_or_default();
            let base = live.now.counters[counter];
            if text.len() > 12 {
                live.put(node.region + 2, base, text)?;
            }
            live.put(node.region + 1, 16 * at, &view(text, base))
        }
        // A null key; the values of nested columns come in batches.
        Kind::Keys { .. } => live.put(node.region + 1, 4 * at, &[0; 4]),
        _ => Ok(()),
    }
}

/// Writes bit `at` of a bitmap: the byte that it is in, of which the bits below are those that are there.
#[inline]
fn put_bit(live: &mut Growing, node: &PlanNode, region: usize, at: u64, bit: bool) -> Result<()> {
    if region == node.region && node.nulls.is_none() {
        return Ok(());
    }
    let shift = at % 8;
    let byte = live.now.tails[region] & !(0xff << shift) | u8::from(bit) << shift;
    live.now.tails[region] = byte;
    live.put(region, at / 8, &[byte])
}

/// Counts the text of a row that was written.
#[inline]
fn count_text(counters: &mut [u64], node: &PlanNode, value: &Value<'_>) {
    match (node.kind, text_of(value)) {
        (Kind::Bytes { counter, .. }, Some(text)) => counters[counter] += text.len() as u64,
        (Kind::Views { counter }, Some(text)) if text.len() > 12 => counters[counter] += text.len() as u64,
        _ => (),
    }
}
