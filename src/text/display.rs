//! Values and tables as people and programs read them: text, HTML, JSON and CSV.
//!
//! Printing never fails and never panics: a damaged cell prints as `<error: …>`. Only [`Value::to_json`] and
//! [`Value::to_csv_cell`], which programs read, hand the error on.

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};
use std::fmt::{self, Display, Write};
use std::iter::once;
use std::ops::Range;
use std::path::Path;

use arrow_buffer::i256;
use arrow_schema::TimeUnit;
use chrono::{DateTime, NaiveDate};
use serde_json::{Number, Value as Json};

use crate::array::{Items, Value};
use crate::dataset::{Dataset, Row};
use crate::error::{Error, Result};
use crate::map::{Look, guard};
use crate::types::{field_type_name, unit_name};

// ---- numbers and times ----

/// A count with its thousands apart: `5,600,000`.
#[doc(hidden)]
pub fn count_text(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of bytes: `95.2 MB`, in powers of 1000.
#[doc(hidden)]
pub fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let (mut amount, mut unit) = (bytes as f64 / 1000.0, 0);
    while amount >= 999.95 && unit + 1 < UNITS.len() {
        (amount, unit) = (amount / 1000.0, unit + 1);
    }
    format!("{amount:.1} {}", UNITS[unit])
}

/// `1 row`, `2 rows`.
#[doc(hidden)]
pub fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", count_text(count), if count == 1 { one } else { many })
}

/// `digits × 10^-scale`, every digit of it.
fn decimal_text(digits: i256, scale: i8) -> String {
    let text = digits.to_string();
    let (sign, digits) = text.strip_prefix('-').map_or(("", &text[..]), |digits| ("-", digits));
    let places = usize::from(scale.unsigned_abs());
    if scale > 0 {
        let padded = format!("{digits:0>width$}", width = places + 1);
        let (whole, fraction) = padded.split_at(padded.len() - places);
        return format!("{sign}{whole}.{fraction}");
    }
    let zeros = if digits == "0" { 0 } else { places };
    format!("{sign}{digits}{}", "0".repeat(zeros))
}

const DAY: i64 = 86_400;

/// Whole seconds, rounded down, and the nanoseconds that are left.
fn split(count: i64, unit: TimeUnit) -> (i64, i64) {
    let per_second = match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    (count.div_euclid(per_second), count.rem_euclid(per_second) * (1_000_000_000 / per_second))
}

fn raw(count: i64, unit: TimeUnit) -> String {
    format!("{count} {}", unit_name(unit))
}

/// The day of a number of days since 1970; `None` beyond chrono's calendar of a quarter of a million years.
fn civil(days: i64) -> Option<NaiveDate> {
    Some(DateTime::from_timestamp(days.checked_mul(DAY)?, 0)?.date_naive())
}

fn date_text(days: i64) -> String {
    civil(days).map_or_else(|| format!("{days} days"), |date| date.to_string())
}

/// Hours, minutes and seconds, and a fraction of as many digits as the unit has where it is not zero.
fn clock(second: i64, nanos: i64, unit: TimeUnit) -> String {
    let time = format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
    match unit {
        _ if nanos == 0 => time,
        TimeUnit::Second => time,
        TimeUnit::Millisecond => format!("{time}.{:03}", nanos / 1_000_000),
        TimeUnit::Microsecond => format!("{time}.{:06}", nanos / 1_000),
        TimeUnit::Nanosecond => format!("{time}.{nanos:09}"),
    }
}

fn time_text(count: i64, unit: TimeUnit) -> String {
    match split(count, unit) {
        (second @ 0..DAY, nanos) => clock(second, nanos, unit),
        _ => raw(count, unit),
    }
}

/// Date and time of a timestamp with `between` between them.
fn moment(count: i64, unit: TimeUnit, between: char) -> Option<String> {
    let (seconds, nanos) = split(count, unit);
    let date = civil(seconds.div_euclid(DAY))?;
    Some(format!("{date}{between}{}", clock(seconds.rem_euclid(DAY), nanos, unit)))
}

/// There is no database of time zones in here, so a zone that is not UTC by its name shows the time of UTC, marked `Z`,
/// and the zone's name: `2000-01-01 00:00:00Z Europe/Paris`.
fn timestamp_text(count: i64, unit: TimeUnit, tz: Option<&str>) -> String {
    match (moment(count, unit, ' '), tz) {
        (None, _) => raw(count, unit),
        (Some(text), None) => text,
        (Some(text), Some(tz @ ("UTC" | "Etc/UTC"))) => format!("{text} {tz}"),
        (Some(text), Some(tz)) => format!("{text}Z {tz}"),
    }
}

fn timestamp_iso(count: i64, unit: TimeUnit, tz: Option<&str>) -> String {
    let zone = if tz.is_some() { "Z" } else { "" };
    moment(count, unit, 'T').map_or_else(|| raw(count, unit), |text| text + zone)
}

/// A length of time; every part has its own sign, as those of an Arrow interval do.
struct Span {
    months: i64,
    days: i64,
    seconds: i64,
    nanos: i64,
}

impl Span {
    fn of_duration(count: i64, unit: TimeUnit) -> Span {
        let (mut seconds, mut nanos) = split(count, unit);
        if seconds < 0 && nanos > 0 {
            (seconds, nanos) = (seconds + 1, nanos - 1_000_000_000);
        }
        Span { months: 0, days: seconds / DAY, seconds: seconds % DAY, nanos }
    }

    fn of_interval(months: i32, days: i32, nanos: i64) -> Span {
        let (seconds, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        Span { months: months.into(), days: days.into(), seconds, nanos }
    }

    fn seconds(&self) -> String {
        let sign = if self.seconds < 0 || self.nanos < 0 { "-" } else { "" };
        let (seconds, nanos) = ((self.seconds % 60).abs(), self.nanos.abs());
        let text = format!("{sign}{seconds}.{nanos:09}");
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    }

    /// The parts that are not zero: amount, and its unit in text and in ISO 8601.
    fn parts(&self, date: bool) -> Vec<(String, &'static str, char)> {
        let parts = match date {
            true => [(self.months / 12, "y", 'Y'), (self.months % 12, "mo", 'M'), (self.days, "d", 'D')].to_vec(),
            false => [(self.seconds / 3600, "h", 'H'), (self.seconds / 60 % 60, "m", 'M')].to_vec(),
        };
        let parts = parts.into_iter().filter(|part| part.0 != 0).map(|(n, text, iso)| (n.to_string(), text, iso));
        let seconds = (!date && (self.seconds % 60, self.nanos) != (0, 0)).then(|| (self.seconds(), "s", 'S'));
        parts.chain(seconds).collect()
    }

    /// `1d 2h 3m 4.5s`.
    fn text(&self) -> String {
        let parts = self.parts(true).into_iter().chain(self.parts(false));
        let parts: Vec<_> = parts.map(|(amount, unit, _)| amount + unit).collect();
        if parts.is_empty() { "0s".into() } else { parts.join(" ") }
    }

    /// `P1DT2H3M4.5S`.
    fn iso(&self) -> String {
        let join = |date| self.parts(date).into_iter().map(|(n, _, unit)| format!("{n}{unit}")).collect::<String>();
        match (join(true), join(false)) {
            (date, time) if date.is_empty() && time.is_empty() => "PT0S".into(),
            (date, time) if time.is_empty() => format!("P{date}"),
            (date, time) => format!("P{date}T{time}"),
        }
    }
}

// ---- a value as text ----

impl Display for Value<'_> {
    /// The value as a cell of a table shows it. Times are ISO 8601; a timestamp whose zone is not UTC shows the time of
    /// UTC, marked `Z`, and the zone's name; what lies beyond the calendar shows as a number and its unit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match guard(|| Ok::<_, Error>(self.write(f))) {
            Ok(done) => done,
            Err(e) => write!(f, "<error: {e}>"),
        }
    }
}

impl Value<'_> {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Int(value) => write!(f, "{value}"),
            Value::UInt(value) => write!(f, "{value}"),
            Value::Int128(value) => write!(f, "{value}"),
            Value::Float32(value) => write!(f, "{value:?}"),
            Value::Float64(value) => write!(f, "{value:?}"),
            Value::Decimal { digits, scale } => f.write_str(&decimal_text(*digits, *scale)),
            Value::Str(text) => f.write_str(text),
            Value::Bytes(bytes) => bytes_short(f, bytes),
            Value::Uuid(bytes) => f.write_str(&uuid_text(bytes)),
            Value::Date(days) => f.write_str(&date_text(*days)),
            Value::Time(count, unit) => f.write_str(&time_text(*count, *unit)),
            Value::Timestamp(count, unit, tz) => f.write_str(&timestamp_text(*count, *unit, *tz)),
            Value::Duration(count, unit) => f.write_str(&Span::of_duration(*count, *unit).text()),
            Value::Interval { months, days, nanoseconds, .. } => {
                f.write_str(&Span::of_interval(*months, *days, *nanoseconds).text())
            }
            Value::List(items) => sequence(f, ['[', ']'], items.iter(), item),
            Value::Map(items) => sequence(f, ['{', '}'], entries(*items), |f, entry| match entry {
                Ok((key, value)) => write!(f, "{key}: {value}"),
                Err(e) => write!(f, "<error: {e}>"),
            }),
            Value::Struct(members) => sequence(f, ['{', '}'], members.iter(), |f, (field, value)| {
                write!(f, "{}: ", field.name())?;
                item(f, value)
            }),
            Value::Union(_, value) => value.fmt(f),
        }
    }
}

fn item(f: &mut fmt::Formatter<'_>, value: Result<Value<'_>>) -> fmt::Result {
    match value {
        Ok(value) => value.fmt(f),
        Err(e) => write!(f, "<error: {e}>"),
    }
}

/// `01234567-89ab-cdef-0123-456789abcdef`.
fn uuid_text(bytes: &[u8; 16]) -> String {
    let digits = hex(bytes);
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

fn bytes_short(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    const MOST: usize = 32;
    write!(f, "0x{}", hex(&bytes[..bytes.len().min(MOST)]))?;
    f.write_str(if bytes.len() > MOST { "…" } else { "" })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sequence<T>(
    f: &mut fmt::Formatter<'_>,
    [open, close]: [char; 2],
    items: impl Iterator<Item = T>,
    write: impl Fn(&mut fmt::Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    f.write_char(open)?;
    for (i, item) in items.enumerate() {
        f.write_str(if i > 0 { ", " } else { "" })?;
        write(f, item)?;
    }
    f.write_char(close)
}

/// Key and value of each entry of a map.
fn entries<'a>(items: Items<'a>) -> impl Iterator<Item = Result<(Value<'a>, Value<'a>)>> {
    items.iter().map(|item| {
        let Value::Struct(members) = item? else { return Err(Error::invalid("an entry of a map is null")) };
        let mut members = members.iter().map(|(_, value)| value);
        match (members.next(), members.next()) {
            (Some(key), Some(value)) => Ok((key?, value?)),
            _ => Err(Error::invalid("an entry of a map is not a key and a value")),
        }
    })
}

// ---- a value for programs ----

impl Value<'_> {
    /// The value as JSON.
    ///
    /// Numbers are numbers, but `NaN`, `Infinity`, `-Infinity`, decimals, and integers of more than 64 bits are
    /// strings, as JSON readers would lose them; dates, times and timestamps are ISO 8601 (with `Z` where there is a time zone), durations and intervals
    /// `P1DT2H`, bytes hexadecimal digits. Structs, and maps from strings, are objects; other maps, and structs that
    /// use a name twice, are lists of `[key, value]`.
    ///
    /// # Errors
    /// That of the first damaged value inside.
    pub fn to_json(&self) -> Result<Json> {
        guard(|| self.json())
    }

    fn json(&self) -> Result<Json> {
        Ok(match self {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Int(value) => Json::from(*value),
            Value::UInt(value) => Json::from(*value),
            Value::Int128(value) => Number::from_i128(*value).map_or_else(|| value.to_string().into(), Json::Number),
            Value::Float32(value) => float_json(widen(*value)),
            Value::Float64(value) => float_json(*value),
            Value::Decimal { digits, scale } => Json::String(decimal_text(*digits, *scale)),
            Value::Str(text) => Json::String((*text).into()),
            Value::Bytes(bytes) => Json::String(hex(bytes)),
            Value::Uuid(bytes) => Json::String(uuid_text(bytes)),
            Value::Timestamp(count, unit, tz) => Json::String(timestamp_iso(*count, *unit, *tz)),
            Value::Duration(count, unit) => Json::String(Span::of_duration(*count, *unit).iso()),
            Value::Interval { months, days, nanoseconds, .. } => {
                Json::String(Span::of_interval(*months, *days, *nanoseconds).iso())
            }
            Value::Date(_) | Value::Time(..) => Json::String(self.to_string()),
            Value::List(items) => Json::Array(items.iter().map(|item| item?.json()).collect::<Result<_>>()?),
            Value::Map(items) => object(entries(*items).map(|entry| {
                let (key, value) = entry?;
                Ok((key.json()?, value.json()?))
            }))?,
            Value::Struct(members) => {
                object(members.iter().map(|(field, value)| Ok((Json::String(field.name().clone()), value?.json()?))))?
            }
            Value::Union(_, value) => value.json()?,
        })
    }

    /// The value as a cell of a CSV file, not yet quoted: null is empty, a list, struct or map is JSON, and the rest is
    /// as in [`Value::to_json`].
    ///
    /// # Errors
    /// That of the first damaged value inside.
    pub fn to_csv_cell(&self) -> Result<Cow<'_, str>> {
        if let Value::Str(text) = self {
            return Ok(Cow::Borrowed(text));
        }
        Ok(Cow::Owned(match self.to_json()? {
            Json::Null => String::new(),
            Json::String(text) => text,
            other => other.to_string(),
        }))
    }
}

/// The float of 64 bits with the same shortest digits: 0.1, not 0.10000000149011612.
fn widen(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(value.into())
}

fn float_json(value: f64) -> Json {
    match Number::from_f64(value) {
        Some(number) => Json::Number(number),
        None if value.is_nan() => "NaN".into(),
        None if value > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

fn object(pairs: impl Iterator<Item = Result<(Json, Json)>>) -> Result<Json> {
    let pairs = pairs.collect::<Result<Vec<_>>>()?;
    let mut names = HashSet::new();
    if pairs.iter().all(|(key, _)| key.as_str().is_some_and(|key| names.insert(key))) {
        let members = pairs.iter().filter_map(|(key, value)| Some((key.as_str()?.to_string(), value.clone())));
        return Ok(Json::Object(members.collect()));
    }
    Ok(Json::Array(pairs.into_iter().map(|(key, value)| Json::Array(vec![key, value])).collect()))
}

// ---- a table ----

/// How a dataset is printed: `println!("{}", dataset.preview().rows(20).width(120))`.
#[derive(Clone, Copy, Debug)]
pub struct Preview<'a> {
    dataset: &'a Dataset,
    rows: u64,
    width: usize,
    cell: usize,
    bare: bool,
}

impl Dataset {
    /// The dataset for printing, with its first and last rows, 10 of them, in 100 characters a line.
    pub fn preview(&self) -> Preview<'_> {
        Preview { dataset: self, rows: 10, width: 100, cell: 30, bare: false }
    }

    /// The dataset as an HTML table for notebooks.
    pub fn to_html(&self) -> String {
        Preview { cell: 60, ..self.preview() }.html()
    }
}

impl Display for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.preview().fmt(f)
    }
}

/// A column as it is printed.
struct Printed {
    name: String,
    type_name: String,
    /// Numbers stand at the right.
    right: bool,
    cells: Vec<String>,
}

/// A row to print; `None` is the gap between the first and the last rows.
type Line<'a> = Option<Result<Row<'a>>>;

impl<'a> Preview<'a> {
    /// Shows `rows` rows, first and last, or all where there are no more.
    pub fn rows(self, rows: u64) -> Preview<'a> {
        Preview { rows, ..self }
    }

    /// Leaves columns out in the middle where they don't fit into `width` characters.
    pub fn width(self, width: usize) -> Preview<'a> {
        Preview { width, ..self }
    }

    /// Prints the rows and their header only, not what the dataset is and how much of it is mapped.
    pub fn bare(self) -> Preview<'a> {
        Preview { bare: true, ..self }
    }

    fn lines(&self, len: &Result<u64>) -> Vec<Line<'a>> {
        let (top, bottom) = (self.rows.div_ceil(2), self.rows / 2);
        let rows = |numbers: Range<u64>| numbers.map(|number| Some(self.dataset.row(number)));
        match len {
            Ok(len) if *len <= self.rows => rows(0..*len).collect(),
            Ok(len) => rows(0..top).chain(once(None)).chain(rows(len - bottom..*len)).collect(),
            Err(_) => rows(0..top).take_while(|row| matches!(row, Some(Ok(_)))).collect(),
        }
    }

    fn printed(&self, column: usize, lines: &[Line<'_>]) -> Printed {
        let field = self.dataset.schema().field(column);
        let cell = |line: &Line<'_>| match line {
            None => "…".into(),
            Some(Ok(row)) => cell_text(row.get(column), self.cell),
            Some(Err(e)) => cell_text(Err(e.clone()), self.cell),
        };
        Printed {
            name: cut(field.name(), self.cell),
            type_name: cut(field_type_name(field), self.cell),
            right: field.data_type().is_numeric(),
            cells: lines.iter().map(cell).collect(),
        }
    }

    /// At most `most` columns, first and last, and where a gap must be shown.
    fn columns(&self, lines: &[Line<'_>], most: usize) -> (VecDeque<Printed>, Option<usize>) {
        let count = self.dataset.num_columns();
        let (left, right) = if count <= most { (count, count) } else { (most.div_ceil(2), count - most / 2) };
        let columns = (0..left).chain(right..count).map(|column| self.printed(column, lines)).collect();
        (columns, (left < right).then_some(left))
    }

    /// The columns that fit, first and last by turns, with a column of `…` for those left out.
    fn fitting(&self, lines: &[Line<'_>]) -> Vec<Printed> {
        let (mut columns, gap) = self.columns(lines, self.width / 3 + 2);
        let alone = columns.len() == 1 && gap.is_none();
        if alone || gap.is_none() && columns.iter().map(Printed::room).sum::<usize>() <= self.width + 2 {
            return columns.into();
        }
        let mut room = self.width.saturating_sub(1);
        let (mut left, mut right) = (Vec::new(), VecDeque::new());
        while let Some(column) = take_end(&mut columns, left.len() > right.len()) {
            room = match room.checked_sub(column.room()) {
                None if !left.is_empty() => break,
                rest => rest.unwrap_or(0),
            };
            if left.len() > right.len() { right.push_front(column) } else { left.push(column) }
        }
        left.into_iter().chain(once(Printed::gap(lines.len()))).chain(right).collect()
    }

    fn title(&self, len: &Result<u64>) -> String {
        let rows = len.as_ref().map_or("? rows".into(), |len| plural(*len, "row", "rows"));
        let columns = plural(self.dataset.num_columns() as u64, "column", "columns");
        let batches = len.as_ref().ok().and_then(|_| self.dataset.num_batches().ok());
        let batches = batches.map_or(String::new(), |n| format!(", {}", plural(n as u64, "batch", "batches")));
        format!("Dataset: {rows} × {columns}{batches}{}", self.origin())
    }

    fn origin(&self) -> String {
        let mut paths: Vec<&Path> = self.dataset.pieces().iter().filter_map(|piece| piece.source.path()).collect();
        paths.dedup();
        match &paths[..] {
            [] => String::new(),
            [path] => format!(" in {}", path.display()),
            [path, more @ ..] => format!(" in {} and {} more", path.display(), count_text(more.len() as u64)),
        }
    }

    fn footer(&self, len: &Result<u64>) -> String {
        let it = self.dataset.footprint();
        match len {
            Ok(_) => format!("{} mapped, {} copied", bytes_text(it.mapped), bytes_text(it.copied)),
            Err(e) => cut(format_args!("<error: {e}>"), 500),
        }
    }

    /// The whole text: what is wrong with the file where it has changed meanwhile.
    fn text(&self) -> Result<String> {
        self.dataset.watched(Look::Now, || {
            let (len, mut text) = (self.dataset.len(), String::new());
            let lines = self.lines(&len);
            if !self.bare {
                text.push_str(&self.title(&len));
                text.push('\n');
            }
            if self.dataset.num_columns() > 0 {
                write_table(&mut text, &self.fitting(&lines), lines.len());
            }
            if !self.bare {
                text.push_str(&self.footer(&len));
            }
            Ok(text)
        })
    }

    fn html(&self) -> String {
        let html = self.dataset.watched(Look::Now, || Ok(self.html_text()));
        html.unwrap_or_else(|e| format!("<div>\n<p>{}</p>\n</div>\n", escape(&format!("<error: {e}>"))))
    }

    fn html_text(&self) -> String {
        let len = self.dataset.len();
        let lines = self.lines(&len);
        let (columns, gap) = self.columns(&lines, 20);
        let mut columns = Vec::from(columns);
        if let Some(gap) = gap {
            columns.insert(gap, Printed::gap(lines.len()));
        }
        let mut html = format!("<div>\n<p>{}</p>\n", escape(&self.title(&len)));
        if !columns.is_empty() {
            html_table(&mut html, &columns, lines.len());
        }
        html + &format!("<p>{}</p>\n</div>\n", escape(&self.footer(&len)))
    }
}

impl Display for Preview<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Ok(text) => f.write_str(&text),
            Err(e) => write!(f, "<error: {e}>"),
        }
    }
}

fn take_end<T>(items: &mut VecDeque<T>, back: bool) -> Option<T> {
    if back { items.pop_back() } else { items.pop_front() }
}

impl Printed {
    fn gap(lines: usize) -> Printed {
        Printed { name: "…".into(), type_name: String::new(), right: false, cells: vec!["…".into(); lines] }
    }

    fn width(&self) -> usize {
        let texts = self.cells.iter().chain([&self.name, &self.type_name]);
        texts.map(|text| text.chars().count()).max().unwrap_or(0)
    }

    /// The width, and the two spaces between columns.
    fn room(&self) -> usize {
        self.width() + 2
    }

    fn pad(&self, text: &str, width: usize) -> String {
        if self.right { format!("{text:>width$}") } else { format!("{text:<width$}") }
    }
}

fn write_table(into: &mut String, columns: &[Printed], lines: usize) {
    let widths: Vec<usize> = columns.iter().map(Printed::width).collect();
    let mut line = |text: &dyn Fn(&Printed, usize) -> String| {
        let cells: Vec<_> = columns.iter().zip(&widths).map(|(column, &width)| text(column, width)).collect();
        into.push_str(cells.join("  ").trim_end());
        into.push('\n');
    };
    line(&|column, width| column.pad(&column.name, width));
    line(&|column, width| column.pad(&column.type_name, width));
    line(&|_, width| "─".repeat(width));
    (0..lines).for_each(|number| line(&|column, width| column.pad(&column.cells[number], width)));
}

/// Only inherited colours, so that it reads on dark and on light.
fn html_table(html: &mut String, columns: &[Printed], lines: usize) {
    let row = |tag: &str, style: &str, text: &dyn Fn(&Printed) -> String| {
        let cell = |column: &Printed| {
            let align = if column.right { "right" } else { "left" };
            format!("<{tag} style=\"padding:2px 8px;text-align:{align};{style}\">{}</{tag}>", escape(&text(column)))
        };
        format!("<tr>{}</tr>\n", columns.iter().map(cell).collect::<String>())
    };
    html.push_str("<table style=\"border-collapse:collapse\">\n<thead>\n");
    html.push_str(&row("th", "", &|column| column.name.clone()));
    let rule = "font-weight:normal;opacity:0.7;border-bottom:1px solid rgba(128,128,128,0.6)";
    html.push_str(&row("th", rule, &|column| column.type_name.clone()));
    html.push_str("</thead>\n<tbody>\n");
    for number in 0..lines {
        html.push_str(&row("td", "", &|column| column.cells[number].clone()));
    }
    html.push_str("</tbody>\n</table>\n");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Errors get twice the room: a sentence says little in thirty characters.
fn cell_text(value: Result<Value<'_>>, room: usize) -> String {
    match value {
        Ok(value) => cut(value, room),
        Err(e) => cut(format_args!("<error: {}>", e.message()), 2 * room),
    }
}

/// What `item` displays, in at most `room` characters on one line.
#[doc(hidden)]
pub fn cut(item: impl Display, room: usize) -> String {
    let mut cut = Cut { text: String::new(), room: room + 1 };
    if write!(cut, "{item}").is_ok() && cut.room > 0 {
        return cut.text;
    }
    cut.text.chars().take(room.saturating_sub(1)).chain(once('…')).collect()
}

/// Takes characters while there is room, so that a list of a million items is not written out to show ten. Control
/// characters are escaped: a cell must neither break the table nor command the terminal.
struct Cut {
    text: String,
    room: usize,
}

impl Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| match c.is_control() {
            true => c.escape_default().try_for_each(|c| self.push(c)),
            false => self.push(c),
        })
    }
}

impl Cut {
    fn push(&mut self, c: char) -> fmt::Result {
        self.room = self.room.checked_sub(1).ok_or(fmt::Error)?;
        self.text.push(c);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::*;
    use arrow_array::types::*;
    use arrow_array::*;
    use arrow_buffer::{IntervalMonthDayNano, ScalarBuffer};
    use arrow_schema::{DataType, Field, Schema, UnionFields};

    use super::*;
    use crate::array::Bytes;
    use crate::open::Open;

    fn dataset(columns: Vec<(&str, ArrayRef)>) -> Dataset {
        let fields: Vec<_> = columns.iter().map(|(name, c)| Field::new(*name, c.data_type().clone(), true)).collect();
        let arrays = columns.into_iter().map(|(_, column)| column).collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
        Dataset::try_from(vec![batch]).unwrap()
    }

    fn on_first<T>(array: impl Array + 'static, f: impl Fn(&Value<'_>) -> T) -> T {
        let dataset = dataset(vec![("x", Arc::new(array))]);
        f(&dataset.row(0).unwrap().get(0).unwrap())
    }

    fn text_and_json(array: impl Array + 'static) -> (String, String) {
        on_first(array, |value| (value.to_string(), value.to_json().unwrap().to_string()))
    }

    fn both(value: Value<'_>) -> (String, String) {
        (value.to_string(), value.to_csv_cell().unwrap().into_owned())
    }

    fn pair(a: &str, b: &str) -> (String, String) {
        (a.into(), b.into())
    }

    #[test]
    fn numbers_keep_their_digits() {
        assert_eq!(both(Value::Float64(1.0)), pair("1.0", "1.0"));
        assert_eq!(both(Value::Float32(0.1)), pair("0.1", "0.1"));
        assert_eq!(both(Value::Float64(f64::NEG_INFINITY)), pair("-inf", "-Infinity"));
        assert_eq!(Value::Float64(f64::NAN).to_json().unwrap(), "NaN");
        assert_eq!(Value::UInt(u64::MAX).to_json().unwrap().to_string(), "18446744073709551615");
        let sums = [i64::MAX.into(), i128::MAX].map(|sum| Value::Int128(sum).to_json().unwrap());
        assert_eq!((sums[0].is_number(), sums[1].as_str()), (true, Some("170141183460469231731687303715884105727")));
        let decimal = |digits: i128, scale| both(Value::Decimal { digits: i256::from_i128(digits), scale }).0;
        assert_eq!(decimal(-5, 2), "-0.05");
        assert_eq!(decimal(12345, 2), "123.45");
        assert_eq!(decimal(12345, 0), "12345");
        assert_eq!(decimal(-12, -3), "-12000");
        assert_eq!(decimal(0, -3), "0");
        assert_eq!(decimal(0, 2), "0.00");
        let least = Value::Decimal { digits: i256::MIN, scale: 127 }.to_string();
        assert_eq!(least.len(), 2 + 1 + 127);
    }

    #[test]
    fn dates_and_times_are_iso() {
        use TimeUnit::*;
        let timestamp = |count, unit, tz| both(Value::Timestamp(count, unit, tz));
        assert_eq!(both(Value::Date(10_957)), pair("2000-01-01", "2000-01-01"));
        assert_eq!(both(Value::Date(-719_529)).0, "-0001-12-31");
        assert_eq!(both(Value::Date(i64::MAX)).0, "9223372036854775807 days");
        let start = pair("2000-01-01 00:00:00 UTC", "2000-01-01T00:00:00Z");
        assert_eq!(timestamp(946_684_800_000, Millisecond, Some("UTC")), start);
        assert_eq!(timestamp(-1, Millisecond, None), pair("1969-12-31 23:59:59.999", "1969-12-31T23:59:59.999"));
        assert_eq!(timestamp(1_500_000, Microsecond, None).0, "1970-01-01 00:00:01.500000");
        assert_eq!(timestamp(0, Second, Some("Europe/Paris")).0, "1970-01-01 00:00:00Z Europe/Paris");
        assert_eq!(timestamp(i64::MAX, Second, Some("UTC")), pair("9223372036854775807 s", "9223372036854775807 s"));
        assert_eq!(timestamp(i64::MIN, Nanosecond, None).0, "1677-09-21 00:12:43.145224192");
        assert_eq!(both(Value::Time(86_399_000_001, Microsecond)).0, "23:59:59.000001");
        assert_eq!(both(Value::Time(86_400, Second)).0, "86400 s");
        assert_eq!(both(Value::Time(-1, Nanosecond)).0, "-1 ns");
    }

    #[test]
    fn lengths_of_time_add_up() {
        use TimeUnit::*;
        let duration = |count, unit| both(Value::Duration(count, unit));
        assert_eq!(duration(93_784_500, Millisecond), pair("1d 2h 3m 4.5s", "P1DT2H3M4.5S"));
        assert_eq!(duration(-1_500, Millisecond), pair("-1.5s", "PT-1.5S"));
        assert_eq!(duration(-500, Millisecond), pair("-0.5s", "PT-0.5S"));
        assert_eq!(duration(-90, Second), pair("-1m -30s", "PT-1M-30S"));
        assert_eq!(duration(600, Second), pair("10m", "PT10M"));
        assert_eq!(duration(10, Second), pair("10s", "PT10S"));
        assert_eq!(duration(86_400, Second), pair("1d", "P1D"));
        assert_eq!(duration(0, Second), pair("0s", "PT0S"));
        assert_eq!(duration(i64::MIN, Second).0, "-106751991167300d -15h -30m -8s");
        let nanos = IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(14, -3, 1_000_000_001)]);
        assert_eq!(text_and_json(nanos), pair("1y 2mo -3d 1.000000001s", "\"P1Y2M-3DT1.000000001S\""));
        assert_eq!(text_and_json(IntervalYearMonthArray::from(vec![-14])), pair("-1y -2mo", "\"P-1Y-2M\""));
        let least = IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(i32::MIN, i32::MIN, i64::MIN)]);
        assert!(text_and_json(least).0.starts_with("-178956970y -8mo -2147483648d -2562047h"));
    }

    #[test]
    fn nested_values_show_their_parts() {
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1), None])]);
        assert_eq!(text_and_json(list), pair("[1, null]", "[1,null]"));
        let (b, a): (ArrayRef, ArrayRef) =
            (Arc::new(StringArray::from(vec!["x"])), Arc::new(Float64Array::from(vec![1.5])));
        let field = |name, array: &ArrayRef| Arc::new(Field::new(name, array.data_type().clone(), true));
        let ordered = StructArray::from(vec![(field("b", &b), b.clone()), (field("a", &a), a.clone())]);
        assert_eq!(text_and_json(ordered), pair("{b: x, a: 1.5}", "{\"b\":\"x\",\"a\":1.5}"));
        let twice = StructArray::from(vec![(field("a", &b), b), (field("a", &a), a)]);
        assert_eq!(text_and_json(twice).1, "[[\"a\",\"x\"],[\"a\",1.5]]");
        assert_eq!(text_and_json(BinaryArray::from(vec![&[0, 255, 16][..]])), pair("0x00ff10", "\"00ff10\""));
        let (long, whole) = text_and_json(BinaryArray::from(vec![&[7; 100][..]]));
        assert_eq!((long.chars().count(), whole.len()), (2 + 64 + 1, 202));
        let dictionary: DictionaryArray<Int8Type> = ["b"].into_iter().collect();
        assert_eq!(text_and_json(dictionary), pair("b", "\"b\""));
        assert_eq!(text_and_json(NullArray::new(1)), pair("null", "null"));
    }

    #[test]
    fn maps_are_objects_when_their_keys_are_text() {
        let mut of_text = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
        of_text.keys().append_value("k");
        of_text.values().append_value(1);
        of_text.append(true).unwrap();
        assert_eq!(text_and_json(of_text.finish()), pair("{k: 1}", "{\"k\":1}"));
        let mut of_numbers = MapBuilder::new(None, Int32Builder::new(), Int32Builder::new());
        of_numbers.keys().append_value(1);
        of_numbers.values().append_null();
        of_numbers.append(true).unwrap();
        assert_eq!(text_and_json(of_numbers.finish()), pair("{1: null}", "[[1,null]]"));
    }

    #[test]
    fn a_union_shows_the_value_it_has() {
        let fields = UnionFields::from_fields(vec![Field::new("n", DataType::Int32, true)]);
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![7]));
        let union = UnionArray::try_new(fields, ScalarBuffer::from(vec![0i8]), None, vec![numbers]).unwrap();
        assert_eq!(text_and_json(union), pair("7", "7"));
    }

    fn numbers(n: i64) -> Dataset {
        let names: StringArray = (0..n).map(|i| Some(format!("row {i}"))).collect();
        dataset(vec![("name", Arc::new(names)), ("number", Arc::new(Int64Array::from_iter_values(0..n)))])
    }

    #[test]
    fn a_table_shows_its_first_and_last_rows() {
        let expected = "\
Dataset: 1,200 rows × 2 columns, 1 batch
name      number
utf8       int64
────────  ──────
row 0          0
row 1          1
row 2          2
row 3          3
row 4          4
…              …
row 1195    1195
row 1196    1196
row 1197    1197
row 1198    1198
row 1199    1199
0 B mapped, 0 B copied";
        assert_eq!(numbers(1200).to_string(), expected);
        assert_eq!(numbers(10).to_string().lines().count(), 1 + 3 + 10 + 1);
        assert_eq!(numbers(3).preview().rows(2).bare().to_string().lines().count(), 3 + 3);
        assert_eq!(numbers(0).to_string().lines().count(), 1 + 3 + 1);
        assert!(numbers(1).to_string().starts_with("Dataset: 1 row × 2 columns, 1 batch\n"));
        assert_eq!(numbers(9).preview().rows(0).bare().to_string().lines().count(), 3 + 1);
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out_in_the_middle() {
        let column = || -> ArrayRef { Arc::new(Int64Array::from(vec![123_456])) };
        let names: Vec<_> = (0..1000).map(|i| format!("column{i}")).collect();
        let wide = dataset(names.iter().map(|name| (&name[..], column())).collect());
        for width in [0, 1, 20, 40, 100, 101, 102, 103, 9000] {
            let text = wide.preview().width(width).bare().to_string();
            let header = text.lines().next().unwrap();
            assert!(header.starts_with("column0") && header.contains(if width < 40 { "…" } else { "column999" }));
            assert!(text.lines().all(|line| line.chars().count() <= width.max(10)), "{width}: {text}");
        }
        let two = wide.select(&["column0", "column1"]).unwrap();
        assert!(!two.preview().width(16).bare().to_string().contains('…'));
        assert!(two.preview().width(15).bare().to_string().contains('…'));
        assert!(!two.select(&["column0"]).unwrap().preview().width(1).to_string().contains('…'));
        let none = Dataset::from_batches(Arc::new(Schema::empty()), vec![]).unwrap();
        assert!(none.to_string().starts_with("Dataset: 0 rows × 0 columns"));
    }

    #[test]
    fn cells_are_cut_and_cannot_break_the_table() {
        let text = StringArray::from(vec!["a\nb\u{1b}[2J", &"x".repeat(31), &"y".repeat(30)]);
        let shown = dataset(vec![("t", Arc::new(text))]).to_string();
        let cells: Vec<_> = shown.lines().skip(4).take(3).collect();
        assert_eq!(cells, ["a\\nb\\u{1b}[2J", &("x".repeat(29) + "…"), &"y".repeat(30)]);
    }

    #[test]
    fn html_is_escaped() {
        let text = StringArray::from(vec!["<script>&\"</script>"]);
        let html = dataset(vec![("<b>", Arc::new(text))]).to_html();
        assert!(!html.contains("<script>") && !html.contains("<b>"));
        assert!(html.contains("&lt;script&gt;&amp;&quot;&lt;/script&gt;") && html.contains("&lt;b&gt;"));
        assert_eq!(numbers(1000).to_html().matches("<tr>").count(), 2 + 11);
    }

    fn stream(batches: &[RecordBatch]) -> Vec<u8> {
        let mut writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.into_inner().unwrap()
    }

    #[test]
    fn damage_shows_where_it_is() {
        let batch = numbers(3).to_record_batches().next().unwrap().unwrap();
        let mut bytes = stream(&[batch.clone(), batch]);
        let damaged = bytes.windows(5).position(|five| five == b"row 0").unwrap();
        bytes[damaged] = 0xff;
        let open = |bytes: &[u8]| Open::new().bytes(Bytes::from(bytes.to_vec())).unwrap();
        let shown = open(&bytes).to_string();
        assert!(shown.contains("<error: batch 0, column 'name': a string is not UTF-8"), "{shown}");
        assert!(shown.contains("\nrow 1 "), "{shown}");
        let cut = open(&bytes[..bytes.len() - 40]);
        let shown = cut.to_string();
        assert!(shown.starts_with("Dataset: ? rows × 2 columns\n"), "{shown}");
        assert!(shown.lines().last().unwrap().starts_with("<error: "), "{shown}");
        assert!(shown.contains("\nrow 1 "), "{shown}");
        assert!(cut.to_html().contains("&lt;error: "));
    }

    #[test]
    fn no_damage_makes_printing_panic() {
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)]), None, Some([None])]);
        let dictionary: DictionaryArray<Int8Type> = ["a", "b", "a"].into_iter().collect();
        let times = TimestampNanosecondArray::from(vec![1, 2, 3]).with_timezone("UTC");
        let columns: Vec<(_, ArrayRef)> =
            vec![("l", Arc::new(list)), ("d", Arc::new(dictionary)), ("t", Arc::new(times))];
        let batch = dataset(columns).to_record_batches().next().unwrap().unwrap();
        let whole = stream(&[batch]);
        for (at, damage) in (0..whole.len()).flat_map(|at| [0x01, 0x80, 0xff].map(|damage| (at, damage))) {
            let mut bytes = whole.clone();
            bytes[at] ^= damage;
            let Ok(dataset) = Open::new().bytes(Bytes::from(bytes)) else { continue };
            assert!(dataset.to_string().starts_with("Dataset: ") && dataset.to_html().ends_with("</div>\n"));
            for (_, value) in dataset.rows().take(5).flatten().flat_map(|row| row.iter()) {
                let _ = value.and_then(|value| value.to_csv_cell().map(|cell| cell.len()));
            }
        }
    }

    #[test]
    fn counts_and_bytes_are_readable() {
        assert_eq!([0, 999, 1_000, 5_600_000].map(count_text), ["0", "999", "1,000", "5,600,000"]);
        let sizes = [0, 999, 1_000, 95_200_000, 999_999, u64::MAX].map(bytes_text);
        assert_eq!(sizes, ["0 B", "999 B", "1.0 kB", "95.2 MB", "1.0 MB", "18.4 EB"]);
    }
}
