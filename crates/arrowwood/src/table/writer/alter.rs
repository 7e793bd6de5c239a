//! Continues a table with a newer schema: the live segment is sealed, and the next one has the schema. It is a commit
//! like any other, without rows.

use std::path::Path;
use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};

use super::live::{LiveSegment, PROVISIONAL, SegmentShape};
use super::open::{FIRST_ROWS, first_guess, refuse_duplicate_names};
use super::options::WriterOptions;
use super::roll::GROWTH;
use super::schema_change::evolve_schema;
use super::writer::Writer;
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::ReadOptions;
use crate::map::guard;
use crate::rows::{DictionaryEntries, Plan, PlanDictionary, is_appendable_type};
use crate::table::format::ROWS;
use crate::table::reader::open_table;
use crate::types::type_name;

/// Changes the schema of one table as [`alter`](crate::alter) does.
pub(crate) fn alter(path: &Path, add: &Schema, widen: &Schema, nullable: &[String]) -> Result<bool> {
    let mut writer = Writer::open(path, None, &WriterOptions::default())?;
    let schema = altered(writer.schema(), add, widen, nullable).map_err(|e| e.at(path))?;
    let is_changed = writer.alter(&schema)?;
    writer.close()?;
    Ok(is_changed)
}

/// Returns the schema that [`alter`] would give the table at `path`; `None` if there is no table.
///
/// # Errors
/// As [`alter`] for an impossible change, and as [`open_table`].
pub(crate) fn altered_schema(
    path: &Path,
    add: &Schema,
    widen: &Schema,
    nullable: &[String],
) -> Result<Option<SchemaRef>> {
    let Some(table) = open_table(path, ReadOptions::default())? else { return Ok(None) };
    let schema = changed_schema(table.schema(), add, widen, nullable).map_err(|e| e.at(path))?;
    Plan::for_schema(&schema).map_err(|e| e.at(path))?;
    Ok(Some(schema))
}

/// Returns the schema of a table after the changes.
fn changed_schema(old: &SchemaRef, add: &Schema, widen: &Schema, nullable: &[String]) -> Result<SchemaRef> {
    let requested = altered(old, add, widen, nullable)?;
    Ok(evolve_schema(old, &requested)?.unwrap_or_else(|| old.clone()))
}

/// Returns the schema with the changes, whether or not a table can take them.
fn altered(old: &Schema, add: &Schema, widen: &Schema, nullable: &[String]) -> Result<SchemaRef> {
    refuse_duplicate_names(add)?;
    let mut fields: Vec<Field> = old.fields().iter().map(|field| field.as_ref().clone()).collect();
    for field in widen.fields() {
        let number = find_field(&fields, field.name(), "widen")?;
        fields[number] = fields[number].clone().with_data_type(field.data_type().clone());
    }
    for name in nullable {
        let number = find_field(&fields, name, "nullable")?;
        fields[number] = fields[number].clone().with_nullable(true);
    }
    for field in add.fields() {
        let Some(number) = fields.iter().position(|existing| existing.name() == field.name()) else {
            fields.push(field.as_ref().clone());
            continue;
        };
        let old_type = old.field(number).data_type();
        if !is_appendable_type(old_type, field.data_type()) {
            let old_type = type_name(old_type);
            let message = format!("add: there is a column '{}' already, of {old_type}", field.name());
            return Err(Error::new(ErrorKind::SchemaMismatch, message));
        }
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// Returns the number of the field that `what` names.
fn find_field(fields: &[Field], name: &str, what: &str) -> Result<usize> {
    fields.iter().position(|field| field.name() == name).ok_or_else(|| {
        let names: Vec<_> = fields.iter().map(|field| format!("'{}'", field.name())).collect();
        let message = format!("{what}: there is no column '{name}'; there are {}", names.join(", "));
        Error::new(ErrorKind::ColumnNotFound, message)
    })
}

/// # Changes of the schema
impl Writer {
    /// Continues with a schema that has more nullable columns, wider numbers, or columns made nullable.
    ///
    /// Without such changes it does nothing. Commits appended rows. Existing rows have nulls in new columns, and are
    /// widened when they are read; open datasets don't change. Columns keep their order, and new ones come last.
    /// Returns whether the table's schema was changed.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrowwood::{Value, Writer, WriterOptions, open, parse_schema};
    /// # let folder = std::env::temp_dir().join(format!("alter-{}", std::process::id()));
    /// let mut writer = Writer::open(&folder, Some(Arc::new(parse_schema("n: int32")?)), &WriterOptions::default())?;
    /// writer.append_row(&[Value::Int(5)])?;
    /// assert!(writer.alter(&Arc::new(parse_schema("n: int64, vol: float64")?))?);
    /// assert_eq!(open(&folder)?.row(0)?.get(1)?.to_string(), "null");
    /// # std::fs::remove_dir_all(&folder).unwrap();
    /// # Ok::<(), arrowwood::Error>(())
    /// ```
    ///
    /// # Errors
    /// `SchemaMismatch` with all other differences, `Unsupported` for types that don't grow; then nothing is changed.
    /// Otherwise as [`Writer::commit`].
    pub fn alter(&mut self, schema: &SchemaRef) -> Result<bool> {
        self.check()?;
        refuse_duplicate_names(schema).map_err(|e| e.at(self.path()))?;
        let Some(newer) = evolve_schema(self.schema(), schema).map_err(|e| e.at(self.path()))? else {
            return Ok(false);
        };
        Plan::for_schema(&newer).map_err(|e| e.at(self.path()))?;
        self.commit()?;
        match self.stop_at_panic(|writer| guard(|| writer.go_on_with(&newer))) {
            Ok(()) => Ok(true),
            Err(e) => Err(self.note(e)),
        }
    }

    /// Seals the live segment, whose rows are all committed, and continues in one with `schema`, a change of the
    /// table's.
    pub(super) fn go_on_with(&mut self, schema: &SchemaRef) -> Result<()> {
        assert_eq!(self.segments.len(), 1, "all rows are committed");
        assert_eq!(self.live().rows(), self.live().committed.rows(), "all rows are committed");
        let plan = Arc::new(Plan::for_schema(schema)?);
        // A segment created ahead has the older schema.
        drop(self.background.take_next());
        let old_plan = std::mem::replace(&mut self.plan, plan);
        assert!(self.plan.dictionaries.len() >= old_plan.dictionaries.len(), "a change keeps all dictionaries");
        let added = &self.plan.dictionaries[old_plan.dictionaries.len()..];
        self.entries.extend(added.iter().map(PlanDictionary::new_entries));
        if let Err(e) = self.commit_next(&old_plan) {
            self.plan = old_plan;
            self.segments.truncate(1);
            self.entries.truncate(self.plan.dictionaries.len());
            return Err(e);
        }
        self.sync_commit()
    }

    /// Commits the first segment of the new schema.
    fn commit_next(&mut self, old_plan: &Plan) -> Result<()> {
        let is_behind = self.put_next(old_plan)?;
        if is_behind { self.commit_all() } else { Ok(()) }
    }

    /// Creates the first segment of the new schema: after the live one, or in its place if that is empty. Returns true
    /// if it is after.
    fn put_next(&mut self, old_plan: &Plan) -> Result<bool> {
        let full = self.live();
        let counters = &full.now.counters;
        let rows = FIRST_ROWS.min(self.settings.segment_rows);
        let limits = self.plan.limits(|counter| {
            if counter == ROWS {
                return rows;
            }
            let first = first_guess(&self.plan, counter, rows);
            match old_counter(&self.plan, old_plan, counter) {
                Some(old) => first.max(GROWTH * counters[old]),
                None => first,
            }
        });
        let settings = self.settings.clone();
        let shape = SegmentShape { first_row: full.end(), limits, settings };
        if full.rows() == 0 {
            self.replace_empty(shape)?;
            return Ok(false);
        }
        let mut next = LiveSegment::create(self.medium(), self.path(), &self.plan, shape, PROVISIONAL)?;
        let entry_counts: Vec<usize> = self.entries.iter().map(DictionaryEntries::len).collect();
        self.carry_over(&mut next, &entry_counts)?;
        self.push_segment(next);
        Ok(true)
    }
}

/// Returns the counter of the old plan that counted the entries, or their bytes, of the dictionary that `counter` of
/// the new plan does; `None` for other counters, and for new dictionaries, which come last.
fn old_counter(plan: &Plan, old_plan: &Plan, counter: usize) -> Option<usize> {
    for (dictionary, old) in plan.dictionaries.iter().zip(&old_plan.dictionaries) {
        if counter == dictionary.entries {
            return Some(old.entries);
        }
        if dictionary.bytes() == Some(counter) {
            return old.bytes();
        }
    }
    None
}
