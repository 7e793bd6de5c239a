//! Lines of JSON, the members of their objects, and errors with their place.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
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
    pub(super) fn new(text: &'a [u8], before: usize) -> Lines<'a> {
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
            let end = memchr::memchr(b'\n', self.rest).unwrap_or(self.rest.len());
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
    /// Hands each member of the line's object to `take`: see [`each_member`].
    pub(super) fn each_member(&self, take: &mut MemberCallback<'_, 'a>) -> Result<()> {
        let done = if self.text.starts_with('{') {
            each_member(self.text, take)
        } else {
            Err(JsonLineError::new(format!("expected one object on each line, got {}", quoted(self.text))))
        };
        done.map_err(|refusal| self.error(refusal))
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

    pub(super) fn inside(mut self, name: &str) -> JsonLineError {
        let point = if self.column.is_empty() || self.column.starts_with('[') { "" } else { "." };
        self.column = format!("{name}{point}{}", self.column);
        self
    }
}

pub(super) fn quoted(value: &str) -> String {
    shorten(value).replace(char::is_control, " ")
}

/// Takes a member of an object: its name, and its value unparsed. The names of items are empty.
pub(super) type MemberCallback<'t, 'a> = dyn FnMut(&str, &'a str) -> Result<(), JsonLineError> + 't;

pub(super) struct JsonText<'a>(pub Cow<'a, str>);

/// Passes each member of an object to `take`, in order, up to the first refusal. Faulty JSON takes precedence over refusals.
pub(super) fn each_member<'a>(json: &'a str, take: &mut MemberCallback<'_, 'a>) -> Result<(), JsonLineError> {
    each_value(json, take, |from, values| from.deserialize_map(values))
}

/// As [`each_member`], for the items of a list.
pub(super) fn each_item<'a>(json: &'a str, take: &mut MemberCallback<'_, 'a>) -> Result<(), JsonLineError> {
    each_value(json, take, |from, values| from.deserialize_seq(values))
}

type StrDeserializer<'a> = serde_json::Deserializer<serde_json::de::StrRead<'a>>;

fn each_value<'a>(
    json: &'a str,
    take: &mut MemberCallback<'_, 'a>,
    read: impl Fn(&mut StrDeserializer<'a>, ValueVisitor<'_, '_, 'a>) -> serde_json::Result<()>,
) -> Result<(), JsonLineError> {
    let mut refusal = None;
    let whole = |take: &mut MemberCallback<'_, 'a>, refusal: &mut _| {
        let mut from = serde_json::Deserializer::from_str(json);
        read(&mut from, ValueVisitor { take, refusal }).and_then(|()| from.end())
    };
    let done = whole(take, &mut refusal);
    match refusal {
        Some(refusal) => whole(&mut |_, _| Ok(()), &mut None).map_err(|e| not_json(json, &e)).and(Err(refusal)),
        None => done.map_err(|e| not_json(json, &e)),
    }
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
    let what = e.to_string();
    let what = what.split(" at line ").next().unwrap_or_default();
    JsonLineError::new(format!("expected JSON, got {} ({what} at character {})", quoted(json), e.column()))
}

/// Hands on the values of an object or a list.
struct ValueVisitor<'v, 't, 'a> {
    take: &'v mut MemberCallback<'t, 'a>,
    refusal: &'v mut Option<JsonLineError>,
}

impl<'a> ValueVisitor<'_, '_, 'a> {
    fn hand_on<E: serde::de::Error>(&mut self, name: &str, value: &'a RawValue) -> Result<(), E> {
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
            self.hand_on(&name, value)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        while let Some(value) = items.next_element()? {
            self.hand_on("", value)?;
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
