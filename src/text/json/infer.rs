//! Infers the common type of each column's values.

use std::collections::HashMap;

use arrow_schema::{DataType, Field, Fields, Schema};

use super::object::{JsonObject, JsonText, Lines, Refusal, items, members, string};
use crate::error::{Error, Result};
use crate::text::scalar::*;

/// The common type of a column's values so far.
enum CommonType {
    Scalar(Kinds),
    List(Box<CommonType>),
    Struct(Shapes),
}

/// Members of objects, in order of first appearance.
#[derive(Default)]
pub(super) struct Shapes {
    members: Vec<(String, CommonType)>,
    numbers: HashMap<String, usize>,
}

/// The maximum nesting depth, as for IPC files.
const MAX_DEPTH: usize = 64;

/// The columns of the lines.
pub(super) fn shapes(lines: Lines<'_>) -> Result<Shapes> {
    let mut shapes = Shapes::default();
    for line in lines {
        let line = line?;
        shapes.see(&line.object()?, MAX_DEPTH - 1).map_err(|refusal| line.error(refusal))?;
    }
    Ok(shapes)
}

impl Shapes {
    fn see(&mut self, JsonObject(members): &JsonObject<'_>, depth: usize) -> Result<(), Refusal> {
        for (JsonText(name), value) in members {
            let number = *self.numbers.entry(name.to_string()).or_insert(self.members.len());
            if number == self.members.len() {
                self.members.push((name.to_string(), CommonType::Scalar(UNSEEN)));
            }
            if let Some((_, shape)) = self.members.get_mut(number) {
                shape.see(value.get(), depth).map_err(|refusal| refusal.inside(name))?;
            }
        }
        Ok(())
    }

    /// The columns of these lines and of `other`, which come after them.
    pub(super) fn merge(&mut self, other: Shapes) {
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
    pub(super) fn schema(mut self, dictionary: &[String]) -> Result<Schema> {
        for (name, shape) in &mut self.members {
            if dictionary.contains(name) {
                *shape = CommonType::Scalar(TEXT);
            }
        }
        Ok(Schema::new(self.fields("")?))
    }

    fn fields(self, above: &str) -> Result<Fields> {
        let field = |(name, shape): (String, CommonType)| {
            let place = format!("{above}{name}");
            Ok(Field::new(name, shape.data_type(&place)?, true))
        };
        self.members.into_iter().map(field).collect()
    }
}

impl CommonType {
    fn see(&mut self, json: &str, depth: usize) -> Result<(), Refusal> {
        let below = || depth.checked_sub(1).ok_or_else(|| Refusal::new(format!("nested more than {MAX_DEPTH} deep")));
        match (json.as_bytes().first(), &mut *self) {
            (Some(b'n'), _) => {}
            (Some(b'['), CommonType::Scalar(UNSEEN)) => {
                *self = CommonType::List(Box::new(CommonType::Scalar(UNSEEN)));
                self.see(json, depth)?;
            }
            (Some(b'{'), CommonType::Scalar(UNSEEN)) => {
                *self = CommonType::Struct(Shapes::default());
                self.see(json, depth)?;
            }
            (Some(b'['), CommonType::List(shape)) => {
                let below = below()?;
                items(json)?.iter().try_for_each(|item| shape.see(item.get(), below))?;
            }
            (Some(b'{'), CommonType::Struct(shapes)) => shapes.see(&members(json)?, below()?)?,
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

    /// The type of the values at `place`.
    fn data_type(self, place: &str) -> Result<DataType> {
        Ok(match self {
            CommonType::Scalar(NUMBER) => {
                return Err(Error::invalid(format!(
                    "column `{}`: no type holds all its numbers exactly; give a schema with its type, such as float64, decimal \
                     or utf8",
                    shorten(place)
                )));
            }
            CommonType::Scalar(kinds) => candidate(kinds),
            CommonType::List(shape) => DataType::new_list(shape.data_type(&format!("{place}[]"))?, true),
            CommonType::Struct(shapes) => DataType::Struct(shapes.fields(&format!("{place}."))?),
        })
    }
}

fn scalar_kinds(json: &str) -> Result<Kinds, Refusal> {
    Ok(match json.as_bytes().first() {
        Some(b'"') => match &*string(json)? {
            "NaN" | "Infinity" | "-Infinity" => FLOAT | WORD | NUMBER,
            text => kinds_of(text) & !(BOOLEAN | INT | UINT | FLOAT),
        },
        Some(b'[' | b'{') => TEXT,
        Some(b't' | b'f') => BOOLEAN,
        _ => number_kinds(json) | NUMBER,
    })
}
