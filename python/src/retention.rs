//! The rows of a table kept by its writer: by time, or by size.

use arrowwood::mapping::MutexExt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use arrow_schema::DataType;
use arrowwood::{Dataset, Error, Literal, Value, col};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::{Result, invalid_argument};
use crate::py_call::CallPy;

/// The interval between checks.
const PAUSE: Duration = Duration::from_secs(1);

/// The rows to keep.
#[derive(Clone, Copy)]
pub enum RetentionPolicy {
    /// Rows of so much time before the newest.
    Time(Duration),
    /// So many bytes of the newest segments.
    Bytes(u64),
}

impl RetentionPolicy {
    /// A `timedelta`, or text: a number, and a unit of time or of bytes.
    pub fn parse(py: Python<'_>, given: &Bound<'_, PyAny>) -> Result<RetentionPolicy> {
        let wrong = || {
            invalid_argument(format!(
                "keep must be a time such as '1h' or '30 days', or a size such as '10 GB', got {given}"
            ))
        };
        let Ok(text) = given.cast::<PyString>() else {
            let is_time = given.is_instance(&py.import("datetime")?.getattr("timedelta")?)?;
            let seconds = if is_time { given.call_py_method("total_seconds", ())?.extract()? } else { -1.0 };
            return Duration::try_from_secs_f64(seconds).map(RetentionPolicy::Time).map_err(|_| wrong());
        };
        let text = text.to_str()?.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let amount: f64 = text[..end].parse().map_err(|_| wrong())?;
        let unit = text[end..].trim();
        let seconds = match unit {
            "s" | "second" | "seconds" => 1.0,
            "min" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3_600.0,
            "d" | "day" | "days" => 86_400.0,
            "w" | "week" | "weeks" => 604_800.0,
            _ => 0.0,
        };
        if seconds > 0.0 {
            return Duration::try_from_secs_f64(amount * seconds).map(RetentionPolicy::Time).map_err(|_| wrong());
        }
        let bytes = match unit {
            "B" => 1.0,
            "kB" => 1e3,
            "MB" => 1e6,
            "GB" => 1e9,
            "TB" => 1e12,
            "KiB" => 1024.0,
            "MiB" => 1024f64.powi(2),
            "GiB" => 1024f64.powi(3),
            "TiB" => 1024f64.powi(4),
            _ => return Err(wrong()),
        };
        Ok(RetentionPolicy::Bytes((amount * bytes) as u64))
    }
}

/// The rows of a table to keep, and the time of the last check.
pub struct Retention {
    keep: RetentionPolicy,
    looked: Mutex<Option<Instant>>,
}

impl Retention {
    /// # Errors
    /// `InvalidArgument` for a time where the table at `path` is not sorted by one.
    pub fn new(keep: RetentionPolicy, path: &Path) -> Result<Retention> {
        if let RetentionPolicy::Time(_) = keep {
            let table = arrowwood::open(path)?;
            let field = table.sorted_by().or_else(|| table.late_by());
            let is_time = field.is_some_and(|field| ticks_of_day(field.data_type()).is_some());
            if !is_time {
                return Err(invalid_argument(
                    "keep: rows are kept by time where the table was created with sorted_by, a column of timestamps or \
                     dates; other tables by size, as keep='10 GB'",
                ));
            }
        }
        Ok(Retention { keep, looked: Mutex::new(None) })
    }

    /// Whether it is time to look.
    pub fn is_due(&self) -> bool {
        let mut looked = self.looked.lock_ignoring_poison();
        let is_due = looked.is_none_or(|looked| looked.elapsed() >= PAUSE);
        if is_due {
            *looked = Some(Instant::now());
        }
        is_due
    }

    /// The first row of the table at `path` that is to be kept, if any is not.
    pub fn first_row_at_least(&self, path: &Path) -> arrowwood::Result<Option<u64>> {
        match self.keep {
            RetentionPolicy::Time(time) => first_row_of_time(path, time),
            RetentionPolicy::Bytes(bytes) => first_row_of_bytes(path, bytes),
        }
    }
}

/// How many of its units a day has, of a column of times.
fn ticks_of_day(data_type: &DataType) -> Option<i128> {
    use arrow_schema::TimeUnit::*;
    Some(match data_type {
        DataType::Date32 => 1,
        DataType::Timestamp(Second, _) => 86_400,
        DataType::Timestamp(Millisecond, _) => 86_400_000,
        DataType::Timestamp(Microsecond, _) => 86_400_000_000,
        DataType::Timestamp(Nanosecond, _) => 86_400_000_000_000,
        _ => return None,
    })
}

fn first_row_of_time(path: &Path, time: Duration) -> arrowwood::Result<Option<u64>> {
    let table = arrowwood::open(path)?;
    let rows = table.len()?;
    // The last row may be late: then a little more is kept.
    let Some(field) = table.sorted_by().or_else(|| table.late_by()).filter(|_| rows > 0) else { return Ok(None) };
    let Some(day) = ticks_of_day(field.data_type()) else { return Ok(None) };
    let newest = match table.column(field.name())?.get(rows - 1)? {
        Value::Timestamp(ticks, ..) | Value::Date(ticks) => ticks,
        _ => return Ok(None),
    };
    let span = time.as_nanos() as i128 * day / 86_400_000_000_000;
    let oldest = i64::try_from(i128::from(newest) - span).unwrap_or(i64::MIN);
    first_row_at_least(&table, field.name(), Value::Int(oldest).into()).map(Some)
}

/// The number of the first row of `table` whose value in the column `name`, which it is sorted by, is not less than `value`;
/// where rows may be late, of the first block that may have one.
pub fn first_row_at_least(table: &Dataset, name: &str, value: Literal) -> arrowwood::Result<u64> {
    if table.late_by().is_some() {
        let kept = table.prune(&!col(name).lt(value))?;
        return if kept.is_empty()? { Ok(table.first_row() + table.len()?) } else { Ok(kept.first_row()) };
    }
    let behind = table.prune_contiguous(&col(name).lt(value))?;
    Ok(table.first_row() + behind.len()?)
}

fn first_row_of_bytes(path: &Path, most: u64) -> arrowwood::Result<Option<u64>> {
    let failed = |e: std::io::Error| Error::io("listing the table's directory", &e).at(path);
    let mut segments: Vec<(u64, u64)> = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let digits = name.to_str().and_then(|name| name.strip_suffix(".arrow"));
        let Some(row) = digits.and_then(|digits| digits.parse().ok()) else { continue };
        match entry.metadata() {
            // The disk space of a segment: the live one is mostly a hole.
            Ok(data) => segments.push((row, data.blocks().saturating_mul(512))),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(failed(e)),
        }
    }
    segments.sort_unstable();
    let mut size = 0u64;
    for &(row, bytes) in segments.iter().rev() {
        size = size.saturating_add(bytes);
        if size > most {
            // The newest segment stays, whatever its size.
            let next = segments.iter().map(|(next, _)| *next).find(|next| *next > row);
            return Ok(Some(next.unwrap_or(row)));
        }
    }
    Ok(None)
}
