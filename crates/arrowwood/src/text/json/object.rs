//! Reads lines of JSON and the members of their objects, and reports errors with their line and column.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result};
use crate::text::chunks::BYTE_ORDER_MARK;
use crate::text::scalar::shorten;

/// An iterator over the nonblank lines of a text.
pub(super) struct Lines<'a> {
    rest: &'a [u8],
    /// The number of the previous line.
    number: usize,
}

impl<'a> Lines<'a> {
    /// Returns the lines of `text`, which follows `before` lines.
    pub(super) fn new(text: &'a [u8], before: usize) -> Lines<'a> {
        Lines { rest: text, number: before }
    }

    /// Returns the number of lines before the rest of the text.
    pub(super) fn number(&self) -> usize {
        self.number
    }
}

/// A line of a text, and its number.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    number: usize,
    text: &'a str,
}

impl<'a> Iterator for Lines<'a> {
    type Item = Result<Line<'a>>;

    fn next(&mut self) -> Option<Result<Line<'a>>> {
        while !self.rest.is_empty() {
            let mut line = self.rest;
            match memchr::memchr(b'\n', self.rest) {
                Some(end) => (line, self.rest) = (&self.rest[..end], &self.rest[end + 1..]),
                None => self.rest = &[],
            }
            self.number += 1;
            if self.number == 1
                && let Some(unmarked) = line.strip_prefix(BYTE_ORDER_MARK)
            {
                line = unmarked;
            }
            let line = line.trim_ascii();
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
    /// Passes each member of the line's object to `take`: see [`each_member`].
    pub(super) fn each_member(&self, take: &mut MemberCallback<'_, 'a>) -> Result<()> {
        if !self.text.starts_with('{') {
            let message = format!("expected one object on each line, got {}", quoted(self.text));
            return Err(self.error(JsonLineError::new(message)));
        }
        each_member(self.text, take).map_err(|e| self.error(e))
    }

    pub(super) fn error(&self, JsonLineError { kind, column, fault }: JsonLineError) -> Error {
        let column = if column.is_empty() { column } else { format!(", column `{}`", shorten(&column)) };
        Error::new(kind, format!("line {}{column}: {fault}", self.number))
    }
}

/// An error in a line.
pub(super) struct JsonLineError {
    pub kind: ErrorKind,
    /// The path of the value, such as `a.b`; empty for the line itself.
    pub column: String,
    pub fault: String,
}

impl JsonLineError {
    pub(super) fn new(fault: String) -> JsonLineError {
        JsonLineError { kind: ErrorKind::InvalidData, column: String::new(), fault }
    }

    /// Adds the name of the column or member that has the value.
    pub(super) fn inside(mut self, name: &str) -> JsonLineError {
        let point = if self.column.is_empty() || self.column.starts_with('[') { "" } else { "." };
        self.column = format!("{name}{point}{}", self.column);
        self
    }
}

/// Returns a value for an error message, shortened and without control characters.
pub(super) fn quoted(value: &str) -> String {
    shorten(value).replace(char::is_control, " ")
}

/// Receives a member of an object: its name, and its value unparsed. The names of items are empty.
pub(super) type MemberCallback<'t, 'a> = dyn FnMut(&str, &'a str) -> Result<(), JsonLineError> + 't;

/// A string of JSON, which is copied only if it has escapes.
pub(super) struct JsonText<'a>(pub Cow<'a, str>);

/// Passes each member of an object to `take`, in order, up to its first error. An error of the JSON takes precedence.
pub(super) fn each_member<'a>(json: &'a str, take: &mut MemberCallback<'_, 'a>) -> Result<(), JsonLineError> {
    each_value(json, Container::Object, take)
}

/// Passes each item of a list to `take`, as [`each_member`].
pub(super) fn each_item<'a>(json: &'a str, take: &mut MemberCallback<'_, 'a>) -> Result<(), JsonLineError> {
    each_value(json, Container::List, take)
}

#[derive(Clone, Copy)]
enum Container {
    Object,
    List,
}

fn each_value<'a>(json: &'a str, container: Container, take: &mut MemberCallback<'_, 'a>) -> Result<(), JsonLineError> {
    let mut refusal = None;
    let result = visit_values(json, container, ValueVisitor { take, refusal: &mut refusal });
    let Some(refusal) = refusal else {
        return result.map_err(|e| not_json(json, &e));
    };
    // The rest may be invalid JSON.
    let ignore = ValueVisitor { take: &mut |_, _| Ok(()), refusal: &mut None };
    visit_values(json, container, ignore).map_err(|e| not_json(json, &e))?;
    Err(refusal)
}

fn visit_values<'a>(json: &'a str, container: Container, visitor: ValueVisitor<'_, '_, 'a>) -> serde_json::Result<()> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    match container {
        Container::Object => deserializer.deserialize_map(visitor)?,
        Container::List => deserializer.deserialize_seq(visitor)?,
    }
    deserializer.end()
}

/// Decodes a string of valid JSON.
pub(super) fn string(json: &str) -> Result<Cow<'_, str>, JsonLineError> {
    let inside = json.strip_prefix('"').and_then(|json| json.strip_suffix('"'));
    if let Some(inside) = inside
        && memchr::memchr(b'\\', inside.as_bytes()).is_none()
    {
        return Ok(Cow::Borrowed(inside));
    }
    serde_json::from_str(json).map(|JsonText(text)| text).map_err(|e| not_json(json, &e))
}

fn not_json(json: &str, e: &serde_json::Error) -> JsonLineError {
    let text = e.to_string();
    let fault = text.split_once(" at line ").map_or(&text[..], |(fault, _)| fault);
    JsonLineError::new(format!("expected JSON, got {} ({fault} at character {})", quoted(json), e.column()))
}

/// Passes the values of an object or a list to `take`, and stores its error in `refusal`.
struct ValueVisitor<'v, 't, 'a> {
    take: &'v mut MemberCallback<'t, 'a>,
    refusal: &'v mut Option<JsonLineError>,
}

impl<'a> ValueVisitor<'_, '_, 'a> {
    fn pass_on<E: serde::de::Error>(&mut self, name: &str, value: &'a RawValue) -> Result<(), E> {
        (self.take)(name, value.get()).map_err(|refusal| {
            *self.refusal = Some(refusal);
            E::custom("refused")
        })
    }
}

impl<'de> Visitor<'de> for ValueVisitor<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some((JsonText(name), value)) = map.next_entry()? {
            self.pass_on(&name, value)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        while let Some(value) = items.next_element()? {
            self.pass_on("", value)?;
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for JsonText<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct StringVisitor;
        impl<'de> Visitor<'de> for StringVisitor {
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
        from.deserialize_str(StringVisitor)
    }
}
