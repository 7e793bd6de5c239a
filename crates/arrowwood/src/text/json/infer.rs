//! Infers the common type of each column's values.

use std::collections::HashMap;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_schema::{DataType, Field, Fields, Schema};

use super::object::{JsonLineError, Lines, each_item, each_member, string};
use crate::error::{Error, Result};
use crate::text::columns::narrow;
use crate::text::scalar::*;

/// The common type of a column's values so far.
#[derive(Clone)]
pub(super) enum CommonType {
    Scalar(TypeSet),
    List(Box<CommonType>),
    Struct(InferredFields),
}

/// The members of objects, in order of first appearance.
#[derive(Clone)]
pub(super) struct InferredFields {
    members: Vec<(String, CommonType)>,
    /// The number of each member, by its name.
    numbers: HashMap<String, usize>,
    /// Fields that determine the types of some members, so that their values are not inspected.
    overrides: Fields,
}

/// The maximum nesting depth, as for IPC files.
const MAX_DEPTH: usize = 64;

/// Adds the columns of `lines` to `fields`.
pub(super) fn infer_fields(mut fields: InferredFields, lines: Lines<'_>) -> Result<InferredFields> {
    for line in lines {
        let line = line?;
        let mut position = 0;
        line.each_member(&mut |name, value| fields.add_member(&mut position, name, value, MAX_DEPTH - 1))?;
    }
    Ok(fields)
}

impl InferredFields {
    /// Creates a set of no members. The types of `overrides` will not be inferred.
    pub(super) fn with_overrides(overrides: &Fields) -> InferredFields {
        InferredFields { members: Vec::new(), numbers: HashMap::new(), overrides: overrides.clone() }
    }

    /// Adds the value of the member at `position` of an object, and advances the position. The value may be nested
    /// `depth` levels deep.
    fn add_member(&mut self, position: &mut usize, name: &str, value: &str, depth: usize) -> Result<(), JsonLineError> {
        // Members are mostly in the same order.
        let number = match self.members.get(*position) {
            Some((member, _)) if member == name => *position,
            _ => self.find_or_insert(name),
        };
        *position += 1;
        let (_, member_type) = &mut self.members[number];
        member_type.add_value(value, depth).map_err(|e| e.inside(name))
    }

    /// Returns the number of a member, which is added if it is new.
    fn find_or_insert(&mut self, name: &str) -> usize {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let kinds = if self.overrides.find(name).is_some() { TEXT } else { UNSEEN };
        self.push(name.into(), CommonType::Scalar(kinds));
        self.members.len() - 1
    }

    fn push(&mut self, name: String, member_type: CommonType) {
        let previous = self.numbers.insert(name.clone(), self.members.len());
        assert!(previous.is_none(), "a member is added twice");
        self.members.push((name, member_type));
    }

    /// Returns the types of the members, in order.
    pub(super) fn types(&self) -> impl Iterator<Item = &CommonType> {
        self.members.iter().map(|(_, member_type)| member_type)
    }

    /// Narrows the types by the values in columns that were filled by these types.
    pub(super) fn narrow(&mut self, columns: &[ArrayRef]) {
        assert_eq!(columns.len(), self.members.len(), "each member has a column");
        for ((_, member_type), column) in self.members.iter_mut().zip(columns) {
            member_type.narrow(column);
        }
    }

    /// Adds the columns of later lines.
    pub(super) fn merge(&mut self, later: InferredFields) {
        for (name, later_type) in later.members {
            match self.numbers.get(&name) {
                Some(&number) => {
                    let (_, member_type) = &mut self.members[number];
                    member_type.merge(later_type);
                }
                None => self.push(name, later_type),
            }
        }
    }

    /// Returns the schema of the columns. Columns in `dictionary` are text.
    pub(super) fn schema(&self, dictionary: &[String]) -> Result<Schema> {
        Ok(Schema::new(self.fields("", dictionary)?))
    }

    /// Returns the fields of the members, whose names follow `prefix` in errors.
    fn fields(&self, prefix: &str, dictionary: &[String]) -> Result<Fields> {
        let mut fields = Vec::with_capacity(self.members.len());
        for (name, member_type) in &self.members {
            let data_type = if dictionary.contains(name) {
                DataType::Utf8
            } else {
                member_type.data_type(&format!("{prefix}{name}"))?
            };
            fields.push(Field::new(name, data_type, true));
        }
        Ok(fields.into())
    }
}

impl CommonType {
    /// Adds a value, which may be nested `depth` levels deep.
    fn add_value(&mut self, json: &str, depth: usize) -> Result<(), JsonLineError> {
        match (json.as_bytes().first(), &mut *self) {
            (Some(b'n'), _) => {}
            (Some(b'['), CommonType::Scalar(UNSEEN)) => {
                *self = CommonType::List(Box::new(CommonType::Scalar(UNSEEN)));
                self.add_value(json, depth)?;
            }
            (Some(b'{'), CommonType::Scalar(UNSEEN)) => {
                *self = CommonType::Struct(InferredFields::with_overrides(&Fields::empty()));
                self.add_value(json, depth)?;
            }
            (Some(b'['), CommonType::List(item_type)) => {
                let item_depth = depth.checked_sub(1).ok_or_else(too_deep)?;
                each_item(json, &mut |_, item| item_type.add_value(item, item_depth))?;
            }
            (Some(b'{'), CommonType::Struct(fields)) => {
                let member_depth = depth.checked_sub(1).ok_or_else(too_deep)?;
                let mut position = 0;
                each_member(json, &mut |name, value| fields.add_member(&mut position, name, value, member_depth))?;
            }
            (_, CommonType::Scalar(TEXT)) => {}
            (_, CommonType::Scalar(kinds)) => *kinds &= scalar_kinds(json)?,
            _ => *self = CommonType::Scalar(TEXT),
        }
        Ok(())
    }

    /// Adds the values of another type.
    fn merge(&mut self, other: CommonType) {
        match (&mut *self, other) {
            (_, CommonType::Scalar(UNSEEN)) => {}
            (CommonType::Scalar(kinds), other) if *kinds == UNSEEN => *self = other,
            (CommonType::Scalar(kinds), CommonType::Scalar(other)) => *kinds &= other,
            (CommonType::List(item_type), CommonType::List(other)) => item_type.merge(*other),
            (CommonType::Struct(fields), CommonType::Struct(other)) => fields.merge(other),
            _ => *self = CommonType::Scalar(TEXT),
        }
    }

    fn narrow(&mut self, values: &ArrayRef) {
        match self {
            CommonType::Scalar(kinds) => *kinds = narrow(*kinds, values),
            CommonType::List(item_type) => item_type.narrow(values.as_list::<i32>().values()),
            CommonType::Struct(fields) => fields.narrow(values.as_struct().columns()),
        }
    }

    /// Returns the type of the values at `path`.
    fn data_type(&self, path: &str) -> Result<DataType> {
        Ok(match self {
            CommonType::Scalar(NUMBER) => {
                return Err(Error::invalid(format!(
                    "column `{}`: no type holds all its numbers exactly; give its type, such as float64, decimal or \
                     utf8, in a schema or in schema_overrides",
                    shorten(path)
                )));
            }
            CommonType::Scalar(kinds) => inferred_type(*kinds),
            CommonType::List(item_type) => DataType::new_list(item_type.data_type(&format!("{path}[]"))?, true),
            CommonType::Struct(fields) => DataType::Struct(fields.fields(&format!("{path}."), &[])?),
        })
    }
}

fn too_deep() -> JsonLineError {
    JsonLineError::new(format!("nested more than {MAX_DEPTH} deep"))
}

fn scalar_kinds(json: &str) -> Result<TypeSet, JsonLineError> {
    Ok(match json.as_bytes().first() {
        Some(b'"') => match &*string(json)? {
            text if is_word(text) => FLOAT | WORD | NUMBER,
            text => value_kinds(text) & !(BOOLEAN | INT | UINT | FLOAT),
        },
        Some(b'[' | b'{') => TEXT,
        Some(b't' | b'f') => BOOLEAN,
        _ => number_kinds(json) | NUMBER,
    })
}

/// Returns true if a text is the name of a float that is not a finite number.
pub(super) fn is_word(text: &str) -> bool {
    matches!(text, "NaN" | "Infinity" | "-Infinity")
}
