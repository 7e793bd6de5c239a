//! Infers the common type of each column's values.

use std::collections::HashMap;

use arrow_schema::{DataType, Field, Fields, Schema};

use super::object::{JsonObject, JsonText, Lines, Refusal, items, members, string};
use crate::error::Result;
use crate::text::scalar::*;

/// The common type of a column's values so far.
enum CommonType {
    Scalar(Kinds),
    List(Box<CommonType>),
    Struct(Shapes),
}

/// Members of objects, in order of first appearance.
#[derive(Default)]
struct Shapes {
    members: Vec<(String, CommonType)>,
    numbers: HashMap<String, usize>,
}

/// The maximum nesting depth, as for IPC files.
const MAX_DEPTH: usize = 64;

/// The columns of the lines. Those of `dictionary` are text.
pub(super) fn infer(lines: Lines<'_>, dictionary: &[String]) -> Result<Schema> {
    let mut shapes = Shapes::default();
    for line in lines {
        let line = line?;
        shapes.see(&line.object()?, MAX_DEPTH - 1).map_err(|refusal| line.error(refusal))?;
    }
    for (name, shape) in &mut shapes.members {
        if dictionary.contains(name) {
            *shape = CommonType::Scalar(TEXT);
        }
    }
    Ok(Schema::new(shapes.fields()))
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

    fn fields(self) -> Fields {
        self.members.into_iter().map(|(name, shape)| Field::new(name, shape.data_type(), true)).collect()
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

    fn data_type(self) -> DataType {
        match self {
            CommonType::Scalar(kinds) => candidate(kinds),
            CommonType::List(shape) => DataType::new_list(shape.data_type(), true),
            CommonType::Struct(shapes) => DataType::Struct(shapes.fields()),
        }
    }
}

fn scalar_kinds(json: &str) -> Result<Kinds, Refusal> {
    Ok(match json.as_bytes().first() {
        Some(b'"') => match &*string(json)? {
            "NaN" | "Infinity" | "-Infinity" => FLOAT,
            text => kinds_of(text) & !(BOOLEAN | INT | UINT | FLOAT),
        },
        Some(b'[' | b'{') => TEXT,
        Some(b't' | b'f') => BOOLEAN,
        _ => number_kinds(json),
    })
}
