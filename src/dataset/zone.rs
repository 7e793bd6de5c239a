//! Zones: what the values of a block of rows lie between. A condition that none of them can meet leaves the block out.

use super::key::Key;
use crate::array::Value;

/// The values of a column in a block of rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Zone {
    /// The number of nulls; more than none where it is not known exactly.
    pub nulls: u64,
    /// Whether one is no number.
    pub has_nan: bool,
    /// The smallest and the largest of the others; `None` where there are none.
    pub bounds: Option<(Bound, Bound)>,
}

/// A value, or how a text begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bound {
    pub key: Key,
    /// Whether the value is a text that begins so and is longer.
    pub is_cut: bool,
}

impl Bound {
    /// The value itself.
    pub fn exact(key: Key) -> Bound {
        Bound { key, is_cut: false }
    }
}

#[cfg(feature = "compute")]
impl Zone {
    /// Rows that all have `value`; `None` where it has no order.
    pub fn of_value(value: &Value<'_>) -> Option<Zone> {
        let is_nan = match value {
            Value::Float32(x) => x.is_nan(),
            Value::Float64(x) => x.is_nan(),
            _ => false,
        };
        match value {
            Value::Null => Some(Zone { nulls: 1, ..Zone::default() }),
            _ if is_nan => Some(Zone { has_nan: true, ..Zone::default() }),
            value => {
                let bound = Bound::exact(Key::of(value)?);
                Some(Zone { bounds: Some((bound.clone(), bound)), ..Zone::default() })
            }
        }
    }
}

/// The zones of a column in one batch. Rows behind the last one have none.
#[cfg(feature = "compute")]
#[derive(Clone, Debug)]
pub(crate) struct Zones {
    /// The rows of a zone.
    pub rows: u64,
    /// The rows of the first zone that are before the batch's first row.
    pub skipped: u64,
    pub list: Vec<Zone>,
}

#[cfg(feature = "compute")]
impl Zones {
    /// The zone that holds row `row` of the batch, and the row behind that zone.
    pub fn at(&self, row: u64) -> Option<(&Zone, u64)> {
        let number = (row + self.skipped) / self.rows.max(1);
        let zone = self.list.get(usize::try_from(number).ok()?)?;
        Some((zone, (number + 1) * self.rows - self.skipped))
    }
}
