//! Fills columns from records of CSV.

use std::borrow::Cow;

use arrow_schema::{DataType, Field, SchemaRef};

use super::options::{CsvOptions, is_text, reading};
use super::records::CsvRecords;
use crate::error::Result;
use crate::text::columns::*;
use crate::text::scalar::*;
use crate::types::type_name;

/// A header, and the columns read from the records after it.
pub(super) struct CsvTable {
    /// The number of fields of a record.
    pub width: usize,
    /// The source of each column.
    sources: Vec<FieldSource>,
    pub columns: BatchBuilder<Box<dyn Sink>>,
}

/// The field of a record with a column's values.
struct FieldSource {
    number: usize,
    /// True if the column's type was inferred without values, so that any value would change it.
    is_empty: bool,
}

impl CsvTable {
    pub(super) fn new(schema: &SchemaRef, header: &[String], options: &CsvOptions) -> Result<CsvTable> {
        check_dictionary(&options.dictionary, schema).map_err(reading)?;
        let mut sources = Vec::with_capacity(schema.fields().len());
        let mut sinks = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            let Some(number) = header.iter().position(|name| name == field.name()) else {
                let names = header.iter().map(String::as_str);
                return Err(reading(missing_column(field.name(), "the schema", names)));
            };
            sources.push(FieldSource { number, is_empty: false });
            sinks.push(column_sink(field, &options.dictionary).map_err(reading)?);
        }
        Ok(CsvTable::with_sinks(schema, header.len(), sources, sinks, options.batch_rows))
    }

    /// Creates a table for a header that must not name other columns than `schema`.
    pub(super) fn for_all(schema: &SchemaRef, header: &[String], options: &CsvOptions) -> Result<CsvTable> {
        let names = schema.fields().iter().map(|field| field.name().as_str());
        for name in header {
            if names.clone().all(|column| column != name) {
                return Err(reading(missing_column(name, "the header", names)));
            }
        }
        CsvTable::new(schema, header, options)
    }

    /// Creates a table for all columns of `schema`, which was inferred from `kinds`. It refuses values that would
    /// change the schema.
    pub(super) fn exact(schema: &SchemaRef, kinds: &[TypeSet], batch_rows: usize) -> CsvTable {
        let mut sources = Vec::with_capacity(kinds.len());
        let mut sinks = Vec::with_capacity(kinds.len());
        for (number, &kinds) in kinds.iter().enumerate() {
            sources.push(FieldSource { number, is_empty: kinds == UNSEEN });
            sinks.push(exact_sink(kinds));
        }
        CsvTable::with_sinks(schema, kinds.len(), sources, sinks, batch_rows)
    }

    fn with_sinks(
        schema: &SchemaRef,
        width: usize,
        sources: Vec<FieldSource>,
        sinks: Vec<Box<dyn Sink>>,
        batch_rows: usize,
    ) -> CsvTable {
        assert_eq!(sinks.len(), schema.fields().len(), "each column has a sink");
        assert_eq!(sources.len(), schema.fields().len(), "each column has a source");
        let fields = schema.fields().iter().zip(sinks);
        let columns = fields.map(|(field, sink)| TextColumn::new(field.as_ref().clone(), sink)).collect();
        CsvTable { width, sources, columns: BatchBuilder::new(schema.clone(), columns, batch_rows) }
    }

    /// Adds the next row. Returns true if a batch is full.
    pub(super) fn push(&mut self, rows: &CsvRecords<'_>, options: &CsvOptions) -> Result<bool> {
        for (column, source) in self.columns.columns.iter_mut().zip(&self.sources) {
            push_field(column, rows, source, options).map_err(|refusal| rows.error(refusal))?;
        }
        Ok(self.columns.count_row())
    }
}

fn push_field(
    column: &mut TextColumn<Box<dyn Sink>>,
    rows: &CsvRecords<'_>,
    source: &FieldSource,
    options: &CsvOptions,
) -> Result<(), String> {
    let value = rows.field(source.number);
    // Finding out takes time, and is rarely needed.
    let is_quoted = || rows.is_quoted(source.number);
    let is_null = options.is_null(value, column.field.data_type(), is_quoted);
    let keeps_type = !source.is_empty || options.is_null(value, &DataType::Null, is_quoted);
    if keeps_type && (!is_null || column.field.is_nullable()) {
        let text = if is_text(column.field.data_type()) { Cow::Borrowed(value) } else { options.with_point(value) };
        if column.sink.push((!is_null).then_some(&text)).is_some() {
            return Ok(());
        }
    }
    let (expected, remedy) = describe_refusal(&column.field, is_null);
    let name = shorten(column.field.name());
    let offset_hint = utc_offset_advice(column.field.data_type(), value);
    let remedy = if offset_hint.is_empty() { remedy } else { offset_hint };
    Err(format!("expected {expected} in column `{name}`, got {:?}{remedy}", shorten(value)))
}

/// Returns the expected form of a refused value, and the remedy.
fn describe_refusal(field: &Field, is_null: bool) -> (String, &'static str) {
    let name = type_name(field.data_type());
    if is_null {
        return (format!("{name} without nulls"), "; correct the value or make the field nullable");
    }
    if is_text(field.data_type()) {
        return ("at most 2 GiB of text".to_string(), "; read it as large_utf8 or use a smaller batch_rows");
    }
    (name, "; correct the value or read the column as utf8")
}
