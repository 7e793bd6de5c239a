//! Lines of JSON, the members of their objects, and errors with their place.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result};
use crate::text::scalar::shorten;

/// The nonblank lines of a text.
pub(super) struct Lines<'a> {
    rest: &'a [u8],
    /// The number of the previous line.
    number: usize,
}

impl<'a> Lines<'a> {
    /// The lines of `text`, numbered from `before` + 1.
    pub(super) fn of(text: &'a [u8], before: usize) -> Lines<'a> {
        Lines { rest: text, number: before }
    }

    /// The number of the last line returned.
    pub(super) fn number(&self) -> usize {
        self.number
    }
}

#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    number: usize,
    text: &'a str,
}

impl<'a> Iterator for Lines<'a> {
    type Item = Result<Line<'a>>;

    fn next(&mut self) -> Option<Result<Line<'a>>> {
        while !self.rest.is_empty() {
            let end = self.rest.iter().position(|&byte| byte == b'\n').unwrap_or(self.rest.len());
            let line = self.rest.get(..end).unwrap_or_default();
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            self.number += 1;
            let marked = if self.number == 1 { line.strip_prefix(b"\xEF\xBB\xBF") } else { None };
            let line = marked.unwrap_or(line).trim_ascii();
            if !line.is_empty() {
                let number = self.number;
                let text = std::str::from_utf8(line).map_err(|_| {
                    Error::invalid(format!("line {number}: expected UTF-8, got other bytes; save the text as UTF-8"))
                });
                return Some(text.map(|text| Line { number, text }));
            }
        }
        None
    }
}

impl<'a> Line<'a> {
    pub(super) fn object(&self) -> Result<JsonObject<'a>> {
        let object = if self.text.starts_with('{') {
            members(self.text)
        } else {
            Err(Refusal::new(format!("expected one object on each line, got {}", quoted(self.text))))
        };
        object.map_err(|refusal| self.error(refusal))
    }

    pub(super) fn error(&self, Refusal { kind, column, fault }: Refusal) -> Error {
        let column = if column.is_empty() { column } else { format!(", column `{}`", shorten(&column)) };
        Error::new(kind, format!("line {}{column}: {fault}", self.number))
    }
}

/// An error in a line.
pub(super) struct Refusal {
    pub kind: ErrorKind,
    /// The path of the value, such as `a.b`; empty for the line itself.
    pub column: String,
    pub fault: String,
}

impl Refusal {
    pub(super) fn new(fault: String) -> Refusal {
        Refusal { kind: ErrorKind::InvalidData, column: String::new(), fault }
    }

    pub(super) fn inside(mut self, name: &str) -> Refusal {
        let point = if self.column.is_empty() || self.column.starts_with('[') { "" } else { "." };
        self.column = format!("{name}{point}{}", self.column);
        self
    }
}

pub(super) fn quoted(value: &str) -> String {
    shorten(value).replace(char::is_control, " ")
}

/// The members of an object, in order, with unparsed values.
pub(super) struct JsonObject<'a>(pub Vec<(JsonText<'a>, &'a RawValue)>);

pub(super) struct JsonText<'a>(pub Cow<'a, str>);

pub(super) fn members(json: &str) -> Result<JsonObject<'_>, Refusal> {
    serde_json::from_str(json).map_err(|e| not_json(json, &e))
}

pub(super) fn items(json: &str) -> Result<Vec<&RawValue>, Refusal> {
    serde_json::from_str(json).map_err(|e| not_json(json, &e))
}

pub(super) fn string(json: &str) -> Result<Cow<'_, str>, Refusal> {
    serde_json::from_str(json).map(|JsonText(text)| text).map_err(|e| not_json(json, &e))
}

fn not_json(json: &str, e: &serde_json::Error) -> Refusal {
    let what = e.to_string();
    let what = what.split(" at line ").next().unwrap_or_default();
    Refusal::new(format!("expected JSON, got {} ({what} at character {})", quoted(json), e.column()))
}

impl<'de> Deserialize<'de> for JsonObject<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = JsonObject<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonObject<'de>, A::Error> {
                let mut found = Vec::new();
                while let Some(member) = map.next_entry()? {
                    found.push(member);
                }
                Ok(JsonObject(found))
            }
        }
        from.deserialize_map(MembersVisitor)
    }
}

impl<'de> Deserialize<'de> for JsonText<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Characters;
        impl<'de> Visitor<'de> for Characters {
            type Value = JsonText<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<JsonText<'de>, E> {
                Ok(JsonText(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<JsonText<'de>, E> {
                Ok(JsonText(Cow::Owned(text.into())))
            }
        }
        from.deserialize_str(Characters)
    }
}
