//! Continues a table with a newer schema: the live segment is sealed, and the next one has the schema. It is a commit
//! like any other, without rows.

use std::path::Path;
use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};

use super::live_segment::LiveSegment;
use super::open::{FIRST_ROWS, first_guess, refuse_twins};
use super::options::WriterOptions;
use super::schema_change::changed;
use super::segment_layout::SegmentShape;
use super::writer::Writer;
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::ReadOptions;
use crate::map::guard;
use crate::rows::{DictionaryEntries, Plan, PlanDictionary, is_appendable_type};
use crate::table::reader::open_table;
use crate::types::type_name;

/// As [`alter`](crate::alter), for one table.
pub(crate) fn alter(path: &Path, add: &Schema, widen: &Schema, nullable: &[String]) -> Result<bool> {
    let mut writer = Writer::open(path, None, &WriterOptions::default())?;
    let schema = altered(writer.schema(), add, widen, nullable).map_err(|e| e.at(path))?;
    let is_changed = writer.alter(&schema)?;
    writer.close()?;
    Ok(is_changed)
}

/// The schema that [`alter`] would give the table at `path`; `None` if there is no table.
///
/// # Errors
/// Those of an impossible change, and of opening the table.
pub(crate) fn altered_schema(
    path: &Path,
    add: &Schema,
    widen: &Schema,
    nullable: &[String],
) -> Result<Option<SchemaRef>> {
    let Some(table) = open_table(path, ReadOptions::default())? else { return Ok(None) };
    let there = table.schema();
    let check = || {
        let given = altered(there, add, widen, nullable)?;
        let newer = changed(there, &given)?.unwrap_or_else(|| there.clone());
        Plan::for_schema(&newer)?;
        Ok(newer)
    };
    check().map(Some).map_err(|e: Error| e.at(path))
}

fn altered(there: &Schema, add: &Schema, widen: &Schema, nullable: &[String]) -> Result<SchemaRef> {
    refuse_twins(add)?;
    let mut fields: Vec<Field> = there.fields().iter().map(|field| field.as_ref().clone()).collect();
    let find = |fields: &[Field], name: &str, what: &str| {
        let names: Vec<_> = fields.iter().map(|field| format!("'{}'", field.name())).collect();
        let message = || format!("{what}: there is no column '{name}'; there are {}", names.join(", "));
        let missing = || Error::new(ErrorKind::ColumnNotFound, message());
        fields.iter().position(|field| field.name() == name).ok_or_else(missing)
    };
    for field in widen.fields() {
        let number = find(&fields, field.name(), "widen")?;
        let wider = fields[number].clone().with_data_type(field.data_type().clone());
        fields[number] = wider;
    }
    for name in nullable {
        let number = find(&fields, name, "nullable")?;
        let with_nulls = fields[number].clone().with_nullable(true);
        fields[number] = with_nulls;
    }
    for field in add.fields() {
        match fields.iter().position(|known| known.name() == field.name()) {
            Some(number) => {
                if !is_appendable_type(there.field(number).data_type(), field.data_type()) {
                    let own = type_name(there.field(number).data_type());
                    let message = format!("add: there is a column '{}' already, of {own}", field.name());
                    return Err(Error::new(ErrorKind::SchemaMismatch, message));
                }
            }
            None => fields.push(field.as_ref().clone()),
        }
    }
    Ok(Arc::new(Schema::new(fields)))
}

impl Writer {
    /// Continues with a schema that has more nullable columns, wider numbers, or columns made nullable; without such
    /// changes it does nothing. Commits appended rows. Existing rows have nulls in new columns, and are widened when
    /// they are read; open datasets don't change. Columns keep their order, and new ones come last. Returns whether the
    /// table's schema was changed.
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
        let at = |e: Error| e.at(self.path());
        refuse_twins(schema).map_err(at)?;
        let Some(newer) = changed(self.schema(), schema).map_err(at)? else { return Ok(false) };
        Plan::for_schema(&newer).map_err(at)?;
        self.commit()?;
        match self.stop_at_panic(|writer| guard(|| writer.go_on_with(&newer))) {
            Ok(()) => Ok(true),
            Err(e) => Err(self.note(e)),
        }
    }

    /// Seals the live segment, whose rows are all committed, and continues in one with `schema`, a change of the
    /// table's.
    pub(super) fn go_on_with(&mut self, schema: &SchemaRef) -> Result<()> {
        debug_assert!(self.segments.len() == 1, "all rows are committed");
        let plan = Arc::new(Plan::for_schema(schema)?);
        // A segment created ahead has the older schema.
        drop(self.background.take_next());
        let before = std::mem::replace(&mut self.plan, plan);
        let added = &self.plan.dictionaries[before.dictionaries.len()..];
        self.entries.extend(added.iter().map(PlanDictionary::new_entries));
        let done = self.put_next(&before).and_then(|is_behind| if is_behind { self.commit_all() } else { Ok(()) });
        if done.is_err() {
            self.plan = before;
            self.segments.truncate(1);
            self.entries.truncate(self.plan.dictionaries.len());
        }
        done.and_then(|()| self.sync_commit())
    }

    /// Creates the first segment of the new schema: after the live one, or in its place if that is empty. Returns
    /// whether it is after.
    fn put_next(&mut self, before: &Plan) -> Result<bool> {
        let full = self.live();
        let counters = &full.now.counters;
        let rows = FIRST_ROWS.min(self.settings.segment_rows);
        let guess = |counter: usize| {
            let of =
                |plan: &Plan| plan.dictionaries.iter().map(|known| (known.entries, known.bytes())).collect::<Vec<_>>();
            let mut pairs = of(&self.plan).into_iter().zip(of(before));
            // The existing dictionaries are the first ones.
            let known = pairs.find_map(|((entries, bytes), (old_entries, old_bytes))| match counter {
                _ if counter == entries => Some(counters[old_entries]),
                _ if bytes == Some(counter) => old_bytes.map(|old| counters[old]),
                _ => None,
            });
            if counter == 0 { rows } else { first_guess(&self.plan, counter, rows).max(2 * known.unwrap_or(0)) }
        };
        let settings = self.settings.clone();
        let shape = SegmentShape { first_row: full.end(), limits: self.plan.limits(guess), settings };
        if full.rows() == 0 {
            self.replace_empty(shape)?;
            return Ok(false);
        }
        let mut next = LiveSegment::create(self.medium(), self.path(), &self.plan, shape, true)?;
        let known: Vec<usize> = self.entries.iter().map(DictionaryEntries::len).collect();
        self.carry_over(&mut next, &known)?;
        self.push_segment(next);
        Ok(true)
    }
}
