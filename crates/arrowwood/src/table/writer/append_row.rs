//! Appends single rows to the table's newest segment.

use super::writer::Writer;
use crate::array::Value;
use crate::dataset::ComparableValue;
use crate::dataset::order::comparable_value;
use crate::error::{Error, Result};
use crate::map::guard;
use crate::rows::{check_values, has_room, intern_keys, put_row, row_counters};

/// # Single rows
impl Writer {
    /// Appends one row: a value for each column, in the table's order.
    ///
    /// Integers are accepted for dates, times and timestamps, in the column's unit. Lists and structs can only be
    /// appended in batches: [`Writer::append`].
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
    /// `InvalidArgument`, naming the column, for a value of another type or out of range, a null in a non-nullable
    /// column, or a value less than the last row's in the column by which the table is sorted; `Io` for a full disk.
    /// Then nothing was appended.
    pub fn append_row(&mut self, row: &[Value<'_>]) -> Result<()> {
        self.check()?;
        // Guarded, as values may be in another mapped file.
        self.stop_at_panic(|writer| match guard(|| writer.check_and_write(row)) {
            Ok(()) => Ok(()),
            Err(e) => {
                writer.forget_unused_entries();
                Err(e.at(writer.path()))
            }
        })
    }

    fn check_and_write(&mut self, row: &[Value<'_>]) -> Result<()> {
        let key = self.check_row(row)?;
        let mut keys = std::mem::take(&mut self.row_keys);
        let written = self.write_row(row, &mut keys);
        self.row_keys = keys;
        written?;
        if key.is_some() {
            self.newest_key.appended = key;
        }
        Ok(())
    }

    /// Discards the dictionary entries that no segment has: a row was not appended.
    #[cold]
    fn forget_unused_entries(&mut self) {
        let counts = self.live().entry_counts();
        for (entries, count) in self.entries.iter_mut().zip(counts) {
            entries.truncate(count);
        }
    }

    /// Checks that the values fit their columns; returns the key of the sorted column's value.
    fn check_row(&self, row: &[Value<'_>]) -> Result<Option<ComparableValue>> {
        check_values(&self.plan, row)?;
        let Some(column) = self.sorted_by else { return Ok(None) };
        let key = comparable_value(self.plan.columns[column].field.data_type(), &row[column]);
        match &key {
            Some(key) if self.newest_key.appended.as_ref().is_none_or(|newest| newest <= key) => Ok(Some(key.clone())),
            _ => Err(Error::invalid_argument(format!(
                "column '{}': {} comes before the last row, or has no order, and the table is sorted by it; leave the \
                 row out, or create the table with late=\"accept\"",
                self.plan.columns[column].field.name(),
                row[column]
            ))),
        }
    }

    /// Writes a row whose values were checked.
    fn write_row(&mut self, row: &[Value<'_>], keys: &mut Vec<u32>) -> Result<()> {
        intern_keys(&self.plan, &mut self.entries, row, keys)?;
        let live = self.live();
        if !has_room(&self.plan, &self.entries, row, keys, &live.now.counters, live.limits()) {
            let min_limits = row_counters(&self.plan, &self.entries, row, keys);
            self.roll(&min_limits)?;
        }
        let Writer { plan, segments, entries, .. } = self;
        let last = segments.len() - 1;
        let live = &mut segments[last];
        // A row that completes a block is appended together with the block's zones or not at all.
        let before = if live.completes_block() { Some(live.now.clone()) } else { None };
        put_row(live, plan, entries, row, keys)?;
        if let Some(before) = before
            && let Err(e) = live.put_zones(before.rows())
        {
            live.now = before;
            return Err(e);
        }
        Ok(())
    }
}
