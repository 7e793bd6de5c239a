//! Permitted changes of a table's schema: more columns, wider numbers, columns made nullable.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};

use crate::array::is_wider;
use crate::error::{Error, ErrorKind, Result};
use crate::rows::is_appendable_type;
use crate::types::type_name;

/// Returns the table's schema with the changes in `given`; `None` if there are none.
///
/// # Errors
/// `SchemaMismatch` with all impossible changes.
pub(super) fn evolve_schema(current: &SchemaRef, given: &Schema) -> Result<Option<SchemaRef>> {
    let mut refused = Vec::new();
    let mut fields: Vec<FieldRef> = Vec::with_capacity(given.fields().len());
    for field in current.fields() {
        let name = field.name();
        match given.fields().iter().find(|given| given.name() == name) {
            None => refused.push(format!("column '{name}' is not in the given one")),
            Some(given) => fields.push(changed_field(field, given).unwrap_or_else(|why| {
                refused.push(why);
                field.clone()
            })),
        }
    }
    for field in given.fields().iter().filter(|field| current.index_of(field.name()).is_err()) {
        if !field.is_nullable() {
            let name = field.name();
            refused
                .push(format!("column '{name}' is new and not null, and the rows that are there have no value for it"));
        }
        fields.push(field.clone());
    }
    if !refused.is_empty() {
        let message = format!(
            "the table's schema and the given one differ: {}; a table takes more columns that may be null, wider \
             integers or floats, and nulls where there were none: give it those, or open it with its own schema; for \
             another change append its rows to a new table",
            refused.join("; ")
        );
        return Err(Error::new(ErrorKind::SchemaMismatch, message));
    }
    let newer = Schema::new_with_metadata(fields, current.metadata().clone());
    Ok((newer.fields() != current.fields()).then(|| Arc::new(newer)))
}

/// Returns the field with the changes in `given`, or the reason why it can't be changed.
fn changed_field(current: &FieldRef, given: &Field) -> std::result::Result<FieldRef, String> {
    let name = current.name();
    let old = current.data_type();
    let new = given.data_type();
    let is_same = is_appendable_type(old, new) && !has_more_nulls(old, new);
    if !is_same && !is_wider(old, new) {
        let why = if is_wider(new, old) {
            ", which lacks values of the first"
        } else if is_appendable_type(old, new) {
            ", which may hold nulls inside, and the first none"
        } else {
            ""
        };
        return Err(format!("column '{name}' is {} and {}{why}", type_name(old), type_name(new)));
    }
    if current.is_nullable() && !given.is_nullable() {
        return Err(format!("column '{name}' may hold nulls, and the given one none"));
    }
    if is_same && current.is_nullable() == given.is_nullable() {
        return Ok(current.clone());
    }
    let data_type = if is_same { old } else { new };
    let field = current.as_ref().clone().with_data_type(data_type.clone()).with_nullable(given.is_nullable());
    Ok(Arc::new(field))
}

/// Returns true if a child of `given` is nullable where the same child of `current` is not.
fn has_more_nulls(current: &DataType, given: &DataType) -> bool {
    children(current).zip(children(given)).any(|(current, given)| {
        given.is_nullable() && !current.is_nullable() || has_more_nulls(current.data_type(), given.data_type())
    })
}

/// Returns the fields of a nested type; none for other types.
fn children(data_type: &DataType) -> Box<dyn Iterator<Item = &FieldRef> + '_> {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => Box::new(std::iter::once(item)),
        DataType::Struct(fields) => Box::new(fields.iter()),
        DataType::Union(members, _) => Box::new(members.iter().map(|(_, member)| member)),
        _ => Box::new(std::iter::empty()),
    }
}
