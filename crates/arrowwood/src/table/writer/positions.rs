//! Named positions: the progress of producers, as part of a commit.
//!
//! The values are in the record. The names are appended to a buffer and never change, so they become durable as rows
//! do, and a commit with a hundred positions takes 800 bytes.

use std::collections::BTreeMap;

use super::writer::Writer;
use crate::error::{Error, Result};
use crate::map::guard;
use crate::table::format::{MOST_NAME, MOST_POSITIONS};

/// The name of a replica's position for the numbering of rows by which it was pulled.
pub const NUMBERING: &str = "arrowwood/numbering";
/// The name of a replica's position that is 1 once it was promoted.
pub const PROMOTED: &str = "arrowwood/promoted";
/// The positions that a replica has of its own.
const OWN: [&str; 2] = [NUMBERING, PROMOTED];

/// The reason why a replica takes no positions.
const REPLICA: &str = "the table is a replica, made by `arrowwood pull`: it has the rows of another table, and not \
                           how far its producers are. Promote it first: `arrowwood promote TABLE --producer \
                           NAME=SEQUENCE` or `--position NAME=VALUE` for those that go on here, or without for \
                           producers that begin anew";

/// Returns true if a table with these positions is a replica that was not promoted.
///
/// See [`Writer::promote`].
pub fn is_replica(positions: &BTreeMap<String, i64>) -> bool {
    positions.contains_key(NUMBERING) && positions.get(PROMOTED) != Some(&1)
}

/// Refuses positions of producers for a table with `positions`, if it is a replica that was not promoted.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use arrowwood::{NUMBERING, PROMOTED, refuse_replica};
///
/// let mut positions = BTreeMap::from([(NUMBERING.to_owned(), 7)]);
/// assert!(refuse_replica(&positions).is_err());
/// positions.insert(PROMOTED.to_owned(), 1);
/// assert!(refuse_replica(&positions).is_ok());
/// ```
///
/// # Errors
/// `InvalidArgument`, which says how to promote it.
pub fn refuse_replica(positions: &BTreeMap<String, i64>) -> Result<()> {
    if is_replica(positions) { Err(Error::invalid_argument(REPLICA)) } else { Ok(()) }
}

/// # Progress of producers
impl Writer {
    /// Returns the positions of the newest commit, by name: see [`Writer::commit_with`].
    pub fn positions(&self) -> BTreeMap<String, i64> {
        let values = &self.segments[0].positions;
        self.names.iter().cloned().zip(values.iter().copied()).collect()
    }

    /// Commits, with named positions as part of the commit.
    ///
    /// They become visible together with its rows, are as durable, and are restored by [`Writer::positions`] after any
    /// crash. Other positions keep their values. A producer that stores its progress here, and continues from it,
    /// neither misses nor repeats anything. The commit may have no new rows.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow_schema::{DataType, Field, Schema};
    /// # use arrowwood::{Value, Writer, WriterOptions};
    /// # let folder = std::env::temp_dir().join(format!("positions-{}", std::process::id()));
    /// # let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    /// let mut writer = Writer::open(&folder, Some(schema.clone()), &WriterOptions::default())?;
    /// let from = writer.positions().get("kafka/ticks/0").copied().unwrap_or(0);
    /// writer.append_row(&[Value::Int(5)])?;
    /// writer.commit_with(&[("kafka/ticks/0", from + 1)])?;
    /// # writer.close()?;
    /// # assert_eq!(arrowwood::open(&folder)?.positions()?["kafka/ticks/0"], 1);
    /// # std::fs::remove_dir_all(&folder).unwrap();
    /// # Ok::<(), arrowwood::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for a name that is empty, longer than 255 bytes or has control characters, and for more than
    /// 256 names, and in a replica: see [`Writer::promote`]. Then nothing is committed, and the rows can still be
    /// committed. Otherwise as [`Writer::commit`].
    pub fn commit_with(&mut self, positions: &[(&str, i64)]) -> Result<()> {
        self.check()?;
        if positions.iter().any(|(name, _)| !OWN.contains(name)) && self.is_replica() {
            return Err(Error::invalid_argument(REPLICA).at(self.path()));
        }
        self.commit_positions(positions)
    }

    fn commit_positions(&mut self, positions: &[(&str, i64)]) -> Result<()> {
        match self.stop_at_panic(|writer| guard(|| writer.show_with_positions(positions))) {
            Ok(()) => Ok(()),
            Err(e) => Err(self.note(e)),
        }
    }

    fn show_with_positions(&mut self, positions: &[(&str, i64)]) -> Result<()> {
        let before = self.set_positions(positions)?;
        if let Err(e) = self.show_rows(!positions.is_empty()) {
            self.take_back(before);
            return Err(e);
        }
        // Where that fails the commit is visible, with these positions.
        self.sync_commit()
    }

    /// Returns true if the table is a replica that was not promoted: see [`Writer::promote`].
    pub fn is_replica(&self) -> bool {
        self.names.iter().any(|name| name == NUMBERING) && is_replica(&self.positions())
    }

    /// Makes a replica, which `arrowwood pull` has made of another table, a table of its own.
    ///
    /// It has the rows of that table, and not how far its producers were, so that it refuses to commit positions until
    /// then: a producer that begins anew would append again what is there. `positions` are those that are known; the
    /// others begin anew.
    ///
    /// The change is durable when this returns. Rows that are not committed are committed with it.
    ///
    /// # Errors
    /// `InvalidArgument` for a table that is no replica; as [`Writer::commit_with`] and [`Writer::sync`].
    pub fn promote(&mut self, positions: &[(&str, i64)]) -> Result<()> {
        self.check()?;
        if !self.is_replica() {
            return Err(Error::invalid_argument("the table is no replica, or was promoted before").at(self.path()));
        }
        let mut positions = positions.to_vec();
        positions.push((PROMOTED, 1));
        self.commit_positions(&positions)?;
        self.sync()
    }

    /// Sets positions of the next commit; returns the previous ones.
    fn set_positions(&mut self, positions: &[(&str, i64)]) -> Result<PreviousPositions> {
        let mut names = self.names.clone();
        let mut values = self.live().positions.clone();
        assert_eq!(names.len(), values.len(), "each position has a name");
        for &(name, value) in positions {
            check_name(name)?;
            match names.iter().position(|existing| existing == name) {
                Some(number) => values[number] = value,
                None => {
                    names.push(name.into());
                    values.push(value);
                }
            }
        }
        if names.len() > MOST_POSITIONS {
            return Err(Error::invalid_argument(format!(
                "{} positions, a table has {MOST_POSITIONS} at most; '{}'",
                names.len(),
                names[MOST_POSITIONS]
            )));
        }

        let bytes = self.plan.names.bytes;
        let old_names = self.names.len();
        let live = self.live_mut();
        let old_bytes = live.now.counters[bytes];
        if let Err(e) = live.put_names(&names[old_names..]) {
            live.now.counters[bytes] = old_bytes;
            return Err(e);
        }
        let old_values = std::mem::replace(&mut live.positions, values);
        self.names = names;
        Ok(PreviousPositions { names: old_names, bytes: old_bytes, values: old_values })
    }

    /// Discards the positions of a failed commit: a later one must not include them.
    fn take_back(&mut self, before: PreviousPositions) {
        self.names.truncate(before.names);
        let bytes = self.plan.names.bytes;
        let live = self.live_mut();
        live.now.counters[bytes] = before.bytes;
        live.positions = before.values;
        // A segment without a name may have been committed with them.
        live.follow_base();
    }
}

/// The positions before a commit.
struct PreviousPositions {
    /// The number of positions.
    names: usize,
    /// The bytes of their names.
    bytes: u64,
    values: Vec<i64>,
}

/// Checks that `name` can be the name of a position.
fn check_name(name: &str) -> Result<()> {
    let fault = match name {
        "" => "is empty",
        _ if name.len() > MOST_NAME => "is longer than 255 bytes",
        _ if name.chars().any(char::is_control) => "has control characters",
        _ => return Ok(()),
    };
    Err(Error::invalid_argument(format!("the name of a position {fault}: {name:?}; choose another")))
}
