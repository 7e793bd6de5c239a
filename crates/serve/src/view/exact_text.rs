//! Writes values as text with all of their digits and characters, to be copied or shown in full.

use std::collections::HashSet;

use arrowwood::{Error, Items, Value};
use serde_json::Value as Json;

use crate::hex::hex;

/// The number of bytes of a value that are written at once.
const CHUNK_BYTES: usize = 4 << 10;

/// A value as text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ExactText {
    pub text: String,
    /// False if the text is cut off.
    pub is_whole: bool,
}

/// Returns the text of `value`, cut off after `room` characters.
///
/// Text is written as it is, bytes as hexadecimal digits; lists, maps and structs as JSON, as in a cell of a CSV file;
/// other values as they are printed, with all digits. Null is empty.
///
/// # Errors
/// The error of the first damaged value inside.
pub(crate) fn exact(value: &Value<'_>, room: usize) -> arrowwood::Result<ExactText> {
    let mut writer = LimitedWriter { text: String::new(), room };
    let is_whole = match writer.plain(value) {
        Ok(()) => true,
        Err(StopReason::Full) => false,
        Err(StopReason::Damaged(e)) => return Err(e),
    };
    Ok(ExactText { text: writer.text, is_whole })
}

/// The reason why writing stops early.
enum StopReason {
    Full,
    Damaged(Error),
}

impl From<Error> for StopReason {
    fn from(e: Error) -> StopReason {
        StopReason::Damaged(e)
    }
}

/// Writes text up to a limit: a list of a gigabyte is not written to show some of it.
struct LimitedWriter {
    text: String,
    /// How many more characters the text may have.
    room: usize,
}

impl LimitedWriter {
    fn push(&mut self, text: &str) -> Result<(), StopReason> {
        match text.char_indices().nth(self.room) {
            None => {
                self.room -= text.chars().count();
                self.text.push_str(text);
                Ok(())
            }
            Some((end, _)) => {
                self.room = 0;
                self.text.push_str(&text[..end]);
                Err(StopReason::Full)
            }
        }
    }

    fn plain(&mut self, value: &Value<'_>) -> Result<(), StopReason> {
        match value {
            Value::Null => Ok(()),
            Value::Str(text) => self.push(text),
            Value::Bytes(bytes) => self.hex(bytes),
            Value::List(_) | Value::Map(_) | Value::Struct(_) => self.json(value),
            Value::Union(_, member) => self.plain(member),
            other => self.push(&other.to_string()),
        }
    }

    fn hex(&mut self, bytes: &[u8]) -> Result<(), StopReason> {
        bytes.chunks(CHUNK_BYTES).try_for_each(|chunk| self.push(&hex(chunk)))
    }

    /// Writes a value as [`Value::to_json`] does, chunk by chunk.
    fn json(&mut self, value: &Value<'_>) -> Result<(), StopReason> {
        match value {
            Value::Str(text) => self.quoted(text),
            Value::Bytes(bytes) => {
                self.push("\"")?;
                self.hex(bytes)?;
                self.push("\"")
            }
            Value::List(items) => self.sequence(['[', ']'], items.iter(), |writer, item| writer.json(&item?)),
            Value::Map(entries) => {
                let is_object = has_unique_names(entries, self.room)?;
                self.pairs(is_object, entries.iter().map(key_and_value))
            }
            Value::Struct(members) => {
                let mut names = HashSet::new();
                let is_object = members.iter().all(|(field, _)| names.insert(field.name().as_str()));
                let pairs = members.iter().map(|(field, value)| Ok((Value::Str(field.name()), value?)));
                self.pairs(is_object, pairs)
            }
            Value::Union(_, member) => self.json(member),
            other => self.push(&other.to_json()?.to_string()),
        }
    }

    fn quoted(&mut self, text: &str) -> Result<(), StopReason> {
        self.push("\"")?;
        let mut left = text;
        while !left.is_empty() {
            let end = (0..=left.len().min(CHUNK_BYTES)).rev().find(|&end| end > 0 && left.is_char_boundary(end));
            let (chunk, rest) = left.split_at(end.unwrap_or(left.len()));
            let quoted = Json::from(chunk).to_string();
            assert!(quoted.starts_with('"') && !chunk.is_empty(), "a text in JSON has two quotes");
            self.push(&quoted[1..quoted.len() - 1])?;
            left = rest;
        }
        self.push("\"")
    }

    /// Writes the members of an object, or a list of pairs.
    fn pairs<'a>(
        &mut self,
        is_object: bool,
        pairs: impl Iterator<Item = arrowwood::Result<(Value<'a>, Value<'a>)>>,
    ) -> Result<(), StopReason> {
        let ends = if is_object { ['{', '}'] } else { ['[', ']'] };
        self.sequence(ends, pairs, |writer, pair| {
            let (name, value) = pair?;
            let [open, between, close] = if is_object { ["", ":", ""] } else { ["[", ",", "]"] };
            writer.push(open)?;
            writer.json(&name)?;
            writer.push(between)?;
            writer.json(&value)?;
            writer.push(close)
        })
    }

    fn sequence<T>(
        &mut self,
        [open, close]: [char; 2],
        items: impl Iterator<Item = T>,
        write: impl Fn(&mut LimitedWriter, T) -> Result<(), StopReason>,
    ) -> Result<(), StopReason> {
        self.push(open.encode_utf8(&mut [0; 4]))?;
        for (number, item) in items.enumerate() {
            self.push(if number > 0 { "," } else { "" })?;
            write(self, item)?;
        }
        self.push(close.encode_utf8(&mut [0; 4]))
    }
}

/// Returns key and value of an entry of a map.
fn key_and_value(entry: arrowwood::Result<Value<'_>>) -> arrowwood::Result<(Value<'_>, Value<'_>)> {
    if let Value::Struct(members) = entry? {
        let mut values = members.iter().map(|(_, value)| value);
        if let (Some(key), Some(value)) = (values.next(), values.next()) {
            return Ok((key?, value?));
        }
    }
    Err(Error::new(arrowwood::ErrorKind::InvalidData, "an entry of a map is no key and value"))
}

/// Returns true if the keys of a map are unique texts, as far as there is `room` for them.
fn has_unique_names(entries: &Items<'_>, room: usize) -> arrowwood::Result<bool> {
    let mut names = HashSet::new();
    for entry in entries.iter().take(room) {
        match key_and_value(entry)?.0 {
            Value::Str(name) if names.insert(name) => (),
            _ => return Ok(false),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::{Int32Builder, MapBuilder, StringBuilder};
    use arrow_array::types::Float64Type;
    use arrow_array::{ArrayRef, BinaryArray, Float64Array, ListArray, RecordBatch, StringArray};
    use arrowwood::Dataset;

    use super::*;

    fn rows(array: ArrayRef) -> Dataset {
        let batch = RecordBatch::try_from_iter_with_nullable([("x", array, true)]).unwrap();
        Dataset::try_from(vec![batch]).unwrap()
    }

    fn first(array: ArrayRef, room: usize) -> (String, bool) {
        let rows = rows(array);
        let row = rows.row(0).unwrap();
        let ExactText { text, is_whole } = exact(&row.get(0).unwrap(), room).unwrap();
        (text, is_whole)
    }

    #[test]
    fn text_is_exact_and_complete() {
        assert_eq!(first(Arc::new(Float64Array::from(vec![0.1 + 0.2])), 99), ("0.30000000000000004".into(), true));
        let text = "a\nb\t\u{202e}\"\\ é".repeat(2_000);
        assert_eq!(first(Arc::new(StringArray::from(vec![text.as_str()])), usize::MAX), (text.clone(), true));
        assert_eq!(first(Arc::new(StringArray::from(vec!["aé😀b"])), 3), ("aé😀".into(), false));
        assert_eq!(first(Arc::new(BinaryArray::from(vec![&[0xff; 5_000][..]])), usize::MAX).0, "ff".repeat(5_000));
        let list = ListArray::from_iter_primitive::<Float64Type, _, _>([Some([Some(0.1 + 0.2), None, Some(1.5)])]);
        assert_eq!(first(Arc::new(list), 99).0, "[0.30000000000000004,null,1.5]");
        // Long texts are written in pieces, which must end between characters.
        let mut maps = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
        maps.keys().append_value(&text);
        maps.values().append_value(7);
        maps.append(true).unwrap();
        let maps: ArrayRef = Arc::new(maps.finish());
        let whole = rows(maps.clone()).row(0).unwrap().get(0).unwrap().to_json().unwrap().to_string();
        assert_eq!(first(maps, usize::MAX).0, whole);
    }
}
