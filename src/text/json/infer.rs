//! Infers the common type of each column's values.

use std::collections::HashMap;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_schema::{DataType, Field, Fields, Schema};

use super::object::{JsonLineError, Lines, each_item, each_member, string};
use crate::error::{Error, Result};
use crate::text::columns::narrowed;
use crate::text::scalar::*;

/// The common type of a column's values so far.
#[derive(Clone)]
pub(super) enum CommonType {
    Scalar(TypeSet),
    List(Box<CommonType>),
    Struct(InferredFields),
}

/// Members of objects, in order of first appearance.
#[derive(Clone)]
pub(super) struct InferredFields {
    members: Vec<(String, CommonType)>,
    numbers: HashMap<String, usize>,
    /// Members whose types are given, so that their values are not looked at.
    given: Fields,
}

/// The maximum nesting depth, as for IPC files.
const MAX_DEPTH: usize = 64;

/// The columns of the lines, beside those of `shapes`.
pub(super) fn shapes(mut shapes: InferredFields, lines: Lines<'_>) -> Result<InferredFields> {
    for line in lines {
        let line = line?;
        let mut place = 0;
        line.each_member(&mut |name, value| shapes.see(&mut place, name, value, MAX_DEPTH - 1))?;
    }
    Ok(shapes)
}

impl InferredFields {
    /// No members so far. The types of `given` are not inferred.
    pub(super) fn with_given(given: &Fields) -> InferredFields {
        InferredFields { members: Vec::new(), numbers: HashMap::new(), given: given.clone() }
    }

    /// Sees the member at `place` of an object.
    fn see(&mut self, place: &mut usize, name: &str, value: &str, depth: usize) -> Result<(), JsonLineError> {
        // Members are mostly in the same order.
        let is_here = self.members.get(*place).is_some_and(|(known, _)| known == name);
        let number = if is_here { *place } else { self.number(name) };
        *place += 1;
        match self.members.get_mut(number) {
            Some((_, shape)) => shape.see(value, depth).map_err(|refusal| refusal.inside(name)),
            None => Ok(()),
        }
    }

    fn number(&mut self, name: &str) -> usize {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        self.numbers.insert(name.into(), self.members.len());
        let kinds = if self.given.find(name).is_some() { TEXT } else { UNSEEN };
        self.members.push((name.into(), CommonType::Scalar(kinds)));
        self.members.len() - 1
    }

    /// The types of the members, in order.
    pub(super) fn types(&self) -> impl Iterator<Item = &CommonType> {
        self.members.iter().map(|(_, shape)| shape)
    }

    /// Narrows the types to those of the values in columns filled by these types.
    pub(super) fn narrow(&mut self, columns: &[ArrayRef]) {
        self.members.iter_mut().zip(columns).for_each(|((_, shape), column)| shape.narrow(column));
    }

    /// The columns of these lines followed by `other`.
    pub(super) fn merge(&mut self, other: InferredFields) {
        for (name, shape) in other.members {
            match self.numbers.get(&name).and_then(|&number| self.members.get_mut(number)) {
                Some((_, own)) => own.merge(shape),
                None => {
                    self.numbers.insert(name.clone(), self.members.len());
                    self.members.push((name, shape));
                }
            }
        }
    }

    /// The schema of the columns. Those of `dictionary` are text.
    pub(super) fn schema(&self, dictionary: &[String]) -> Result<Schema> {
        Ok(Schema::new(self.fields("", dictionary)?))
    }

    fn fields(&self, above: &str, dictionary: &[String]) -> Result<Fields> {
        let field = |(name, shape): &(String, CommonType)| {
            let is_text = dictionary.contains(name);
            let data_type = if is_text { DataType::Utf8 } else { shape.data_type(&format!("{above}{name}"))? };
            Ok(Field::new(name, data_type, true))
        };
        self.members.iter().map(field).collect()
    }
}

impl CommonType {
    fn see(&mut self, json: &str, depth: usize) -> Result<(), JsonLineError> {
        let below =
            || depth.checked_sub(1).ok_or_else(|| JsonLineError::new(format!("nested more than {MAX_DEPTH} deep")));
        match (json.as_bytes().first(), &mut *self) {
            (Some(b'n'), _) => {}
            (Some(b'['), CommonType::Scalar(UNSEEN)) => {
                *self = CommonType::List(Box::new(CommonType::Scalar(UNSEEN)));
                self.see(json, depth)?;
            }
            (Some(b'{'), CommonType::Scalar(UNSEEN)) => {
                *self = CommonType::Struct(InferredFields::with_given(&Fields::empty()));
                self.see(json, depth)?;
            }
            (Some(b'['), CommonType::List(shape)) => {
                let below = below()?;
                each_item(json, &mut |_, item| shape.see(item, below))?;
            }
            (Some(b'{'), CommonType::Struct(shapes)) => {
                let below = below()?;
                let mut place = 0;
                each_member(json, &mut |name, value| shapes.see(&mut place, name, value, below))?;
            }
            (_, CommonType::Scalar(TEXT)) => {}
            (_, CommonType::Scalar(kinds)) => *kinds &= scalar_kinds(json)?,
            _ => *self = CommonType::Scalar(TEXT),
        }
        Ok(())
    }

    /// The type of the values of both.
    fn merge(&mut self, other: CommonType) {
        match (&mut *self, other) {
            (_, CommonType::Scalar(UNSEEN)) => {}
            (CommonType::Scalar(own), other) if *own == UNSEEN => *self = other,
            (CommonType::Scalar(own), CommonType::Scalar(other)) => *own &= other,
            (CommonType::List(own), CommonType::List(other)) => own.merge(*other),
            (CommonType::Struct(own), CommonType::Struct(other)) => own.merge(other),
            _ => *self = CommonType::Scalar(TEXT),
        }
    }

    fn narrow(&mut self, values: &ArrayRef) {
        match self {
            CommonType::Scalar(kinds) => *kinds = narrowed(*kinds, values),
            CommonType::List(shape) => shape.narrow(values.as_list::<i32>().values()),
            CommonType::Struct(shapes) => shapes.narrow(values.as_struct().columns()),
        }
    }

    /// The type of the values at `place`.
    fn data_type(&self, place: &str) -> Result<DataType> {
        Ok(match self {
            CommonType::Scalar(NUMBER) => {
                return Err(Error::invalid(format!(
                    "column `{}`: no type holds all its numbers exactly; give its type, such as float64, decimal or utf8, in a \
                     schema or in schema_overrides",
                    shorten(place)
                )));
            }
            CommonType::Scalar(kinds) => candidate(*kinds),
            CommonType::List(shape) => DataType::new_list(shape.data_type(&format!("{place}[]"))?, true),
            CommonType::Struct(shapes) => DataType::Struct(shapes.fields(&format!("{place}."), &[])?),
        })
    }
}

fn scalar_kinds(json: &str) -> Result<TypeSet, JsonLineError> {
    Ok(match json.as_bytes().first() {
        Some(b'"') => match &*string(json)? {
            text if is_word(text) => FLOAT | WORD | NUMBER,
            text => kinds_of(text) & !(BOOLEAN | INT | UINT | FLOAT),
        },
        Some(b'[' | b'{') => TEXT,
        Some(b't' | b'f') => BOOLEAN,
        _ => number_kinds(json) | NUMBER,
    })
}

/// Whether a text is a float that is no number.
pub(super) fn is_word(text: &str) -> bool {
    matches!(text, "NaN" | "Infinity" | "-Infinity")
}
