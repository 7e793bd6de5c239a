//! The rows of a table kept by its writer: by time, or by size.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use arrow_schema::DataType;
use arrowwood::mapping::MutexExt;
use arrowwood::mapping::os::{FileInfo, allocated_bytes};
use arrowwood::{Dataset, Error, Literal, Value, col};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::interpreter::errors::{Result, invalid_argument};
use crate::interpreter::py_call::CallPy;

/// The interval between checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The rows to keep.
#[derive(Clone, Copy)]
pub enum RetentionPolicy {
    /// Rows of so much time before the newest.
    Time(Duration),
    /// So many bytes of the newest segments.
    Bytes(u64),
}

impl RetentionPolicy {
    /// Parses a `timedelta`, or text: a number, and a unit of time or of bytes.
    pub fn parse(py: Python<'_>, object: &Bound<'_, PyAny>) -> Result<RetentionPolicy> {
        let policy = RetentionPolicy::try_parse(py, object)?;
        policy.ok_or_else(|| {
            invalid_argument(format!(
                "keep must be a time such as '1h' or '30 days', or a size such as '10 GB', got {object}"
            ))
        })
    }

    fn try_parse(py: Python<'_>, object: &Bound<'_, PyAny>) -> Result<Option<RetentionPolicy>> {
        let Ok(text) = object.cast::<PyString>() else {
            let is_time = object.is_instance(&py.import("datetime")?.getattr("timedelta")?)?;
            if !is_time {
                return Ok(None);
            }
            let seconds: f64 = object.call_py_method("total_seconds", ())?.extract()?;
            return Ok(Duration::try_from_secs_f64(seconds).ok().map(RetentionPolicy::Time));
        };
        let text = text.to_str()?.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let Ok(amount) = text[..end].parse::<f64>() else { return Ok(None) };
        let unit = text[end..].trim();
        if let Some(seconds) = seconds_of(unit) {
            return Ok(Duration::try_from_secs_f64(amount * seconds).ok().map(RetentionPolicy::Time));
        }
        Ok(bytes_of(unit).map(|bytes| RetentionPolicy::Bytes((amount * bytes) as u64)))
    }
}

/// Returns the seconds of a unit of time; `None` if it is none.
fn seconds_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "s" | "second" | "seconds" => 1.0,
        "min" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3_600.0,
        "d" | "day" | "days" => 86_400.0,
        "w" | "week" | "weeks" => 604_800.0,
        _ => return None,
    })
}

/// Returns the bytes of a unit of size; `None` if it is none.
fn bytes_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "B" => 1.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        "KiB" => 1024.0,
        "MiB" => 1024f64.powi(2),
        "GiB" => 1024f64.powi(3),
        "TiB" => 1024f64.powi(4),
        _ => return None,
    })
}

/// The rows of a table to keep, and the time of the last check.
pub struct Retention {
    keep: RetentionPolicy,
    last_check: Mutex<Option<Instant>>,
}

impl Retention {
    /// Creates the rule for the table at `path`, which is not checked yet.
    ///
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
        Ok(Retention { keep, last_check: Mutex::new(None) })
    }

    /// Returns true if it is time for a check, which begins now.
    pub fn is_due(&self) -> bool {
        let mut last_check = self.last_check.lock_ignoring_poison();
        let is_due = last_check.is_none_or(|last_check| last_check.elapsed() >= CHECK_INTERVAL);
        if is_due {
            *last_check = Some(Instant::now());
        }
        is_due
    }

    /// Returns the first row to keep of the table at `path`; `None` if all rows are kept.
    pub fn first_row_at_least(&self, path: &Path) -> arrowwood::Result<Option<u64>> {
        match self.keep {
            RetentionPolicy::Time(time) => first_row_of_time(path, time),
            RetentionPolicy::Bytes(bytes) => first_row_of_bytes(path, bytes),
        }
    }
}

const SECONDS_PER_DAY: i128 = 86_400;
const NANOS_PER_DAY: i128 = 1_000_000_000 * SECONDS_PER_DAY;

/// Returns the number of units of a column of times in a day; `None` for other columns.
fn ticks_of_day(data_type: &DataType) -> Option<i128> {
    use arrow_schema::TimeUnit::*;
    Some(match data_type {
        DataType::Date32 => 1,
        DataType::Timestamp(Second, _) => SECONDS_PER_DAY,
        DataType::Timestamp(Millisecond, _) => 1_000 * SECONDS_PER_DAY,
        DataType::Timestamp(Microsecond, _) => 1_000_000 * SECONDS_PER_DAY,
        DataType::Timestamp(Nanosecond, _) => NANOS_PER_DAY,
        _ => return None,
    })
}

/// Returns the first row that is at most `time` older than the newest; `None` if there are no rows.
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
    let span = time.as_nanos() as i128 * day / NANOS_PER_DAY;
    let oldest = i64::try_from(i128::from(newest) - span).unwrap_or(i64::MIN);
    first_row_at_least(&table, field.name(), Value::Int(oldest).into()).map(Some)
}

/// Returns the number of the first row of `table` whose value in the column `name`, by which it is sorted, is not less
/// than `value`. If rows may be late, it is the first row of the first block that may have such a value.
pub fn first_row_at_least(table: &Dataset, name: &str, value: Literal) -> arrowwood::Result<u64> {
    if table.late_by().is_some() {
        let newer = table.prune(&!col(name).lt(value))?;
        return if newer.is_empty()? { Ok(table.first_row() + table.len()?) } else { Ok(newer.first_row()) };
    }
    let older = table.prune_contiguous(&col(name).lt(value))?;
    let older_rows = older.len()?;
    assert!(older_rows <= table.len()?, "a part of a table has more rows than the table");
    Ok(table.first_row() + older_rows)
}

fn listing_error(error: std::io::Error, path: &Path) -> Error {
    Error::io("listing the table's directory", &error).at(path)
}

/// Returns the first row of the newest segments that have at most `max_bytes` together; `None` if all have.
fn first_row_of_bytes(path: &Path, max_bytes: u64) -> arrowwood::Result<Option<u64>> {
    // The first row of each segment, and its bytes.
    let mut segments: Vec<(u64, u64)> = Vec::new();
    for entry in fs::read_dir(path).map_err(|e| listing_error(e, path))? {
        let entry = entry.map_err(|e| listing_error(e, path))?;
        let name = entry.file_name();
        let digits = name.to_str().and_then(|name| name.strip_suffix(".arrow"));
        let Some(row) = digits.and_then(|digits| digits.parse().ok()) else { continue };
        match FileInfo::from_link(&entry.path()) {
            // Disk space instead of the length, as the live segment is mostly a hole.
            Ok(data) => segments.push((row, allocated_bytes(&data))),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(listing_error(e, path)),
        }
    }
    segments.sort_unstable();
    let mut size = 0u64;
    for &(row, bytes) in segments.iter().rev() {
        size = size.saturating_add(bytes);
        if size > max_bytes {
            // The newest segment stays, whatever its size.
            let next = segments.iter().map(|(next, _)| *next).find(|next| *next > row);
            return Ok(Some(next.unwrap_or(row)));
        }
    }
    Ok(None)
}
