//! Zones: the smallest and the largest value of a block of rows. A condition skips a block if no value between them
//! meets it.

use super::comparable_value::ComparableValue;
use crate::array::Value;

/// The zone of a column in a block of rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Zone {
    /// The number of nulls; greater than 0 if it is not known exactly.
    pub nulls: u64,
    /// True if a value is NaN.
    pub has_nan: bool,
    /// The smallest and the largest of the other values; `None` if there are none.
    pub bounds: Option<(ZoneBound, ZoneBound)>,
}

/// A value, or the beginning of a text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ZoneBound {
    pub key: ComparableValue,
    /// True if the value is a longer text that begins with the key.
    pub is_cut: bool,
}

impl ZoneBound {
    /// Creates a bound that is exactly `key`.
    pub fn exact(key: ComparableValue) -> ZoneBound {
        ZoneBound { key, is_cut: false }
    }
}

#[cfg(feature = "compute")]
impl Zone {
    /// Returns the zone of rows that all have `value`; `None` if it has no order.
    pub fn from_value(value: &Value<'_>) -> Option<Zone> {
        let is_nan = match value {
            Value::Float32(x) => x.is_nan(),
            Value::Float64(x) => x.is_nan(),
            _ => false,
        };
        match value {
            Value::Null => Some(Zone { nulls: 1, ..Zone::default() }),
            _ if is_nan => Some(Zone { has_nan: true, ..Zone::default() }),
            value => {
                let bound = ZoneBound::exact(ComparableValue::from_value(value)?);
                Some(Zone { bounds: Some((bound.clone(), bound)), ..Zone::default() })
            }
        }
    }
}

/// The zones of a column in one batch. Rows after the last zone have none.
#[cfg(feature = "compute")]
#[derive(Clone, Debug)]
pub(crate) struct Zones {
    /// The number of rows in a zone.
    pub rows: u64,
    /// The number of the first zone's rows that are before the batch's first row.
    pub skipped: u64,
    /// The zones, of which the first one may begin before the batch.
    pub list: Vec<Zone>,
}

#[cfg(feature = "compute")]
impl Zones {
    /// Returns the zone that contains row `row` of the batch, and the row after the zone.
    pub fn at(&self, row: u64) -> Option<(&Zone, u64)> {
        debug_assert!(self.skipped <= self.rows, "{} of {} rows are before the batch", self.skipped, self.rows);
        let number = (row + self.skipped) / self.rows.max(1);
        let zone = self.list.get(usize::try_from(number).ok()?)?;
        Some((zone, (number + 1) * self.rows - self.skipped))
    }
}
