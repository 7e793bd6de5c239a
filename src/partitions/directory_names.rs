//! Names of directories: `key=value`, percent-encoded as by Hive.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use chrono::NaiveDate;

use crate::array::Value;
use crate::error::{Error, Result};

/// The directory value for null.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";
/// The maximum length in bytes of a name on common file systems.
const LONGEST: usize = 255;

/// A partition column and its value as text; `None` is null.
pub type PartitionKey = (String, Option<String>);

/// Returns the directory of a partition of `table`: `ticks/host=a1` for the column `host` and the value `a1`. Values
/// that are not valid file names are percent-encoded.
///
/// # Errors
/// `InvalidArgument` without columns, for empty or duplicate names, for values without a text of one line (floats,
/// times, bytes, nested values), for days beyond the calendar, and for names of more than 255 bytes.
pub fn partition_path(table: impl AsRef<Path>, partition: &[(&str, Value<'_>)]) -> Result<PathBuf> {
    if partition.is_empty() {
        return Err(Error::invalid_argument("a partition needs a column and its value, such as host=a1"));
    }
    let mut path = table.as_ref().to_path_buf();
    for (number, (key, value)) in partition.iter().enumerate() {
        if key.is_empty() || partition[..number].iter().any(|(other, _)| other == key) {
            return Err(Error::invalid_argument(format!("partition columns need different names, got '{key}'")));
        }
        path.push(directory_name(key, text_of(key, value)?.as_deref())?);
    }
    Ok(path)
}

/// The text of a value in a directory's name; `None` for null.
pub(super) fn text_of(key: &str, value: &Value<'_>) -> Result<Option<String>> {
    match value {
        Value::Null => Ok(None),
        Value::Str(text) => Ok(Some((*text).to_owned())),
        Value::Date(days) if !is_in_calendar(*days) => {
            let message = format!(
                "partition column '{key}': expected a date of the calendar, got {days} days since 1970, which has no year; \
                 leave such rows out, or split them by another column"
            );
            Err(Error::invalid_argument(message))
        }
        Value::Int(_) | Value::UInt(_) | Value::Bool(_) | Value::Date(_) => Ok(Some(value.to_string())),
        other => {
            let message = format!(
                "partition column '{key}': {other} can't be a directory's name; expected text, an integer, a date, a \
                 boolean or null"
            );
            Err(Error::invalid_argument(message))
        }
    }
}

/// Whether a day, counted from 1970, has a date: the calendar has half a million years.
fn is_in_calendar(days: i64) -> bool {
    i32::try_from(days).ok().and_then(NaiveDate::from_epoch_days).is_some()
}

pub(super) fn directory_name(key: &str, value: Option<&str>) -> Result<String> {
    let value = match value {
        None => NULL.to_owned(),
        // Text that equals the word for null.
        Some(NULL) => format!("%5F{}", &NULL[1..]),
        Some(text) => encode(text),
    };
    let key = encode(key);
    // Listings leave names that begin so to other programs.
    let key = key.strip_prefix('_').map_or(key.clone(), |rest| format!("%5F{rest}"));
    let name = format!("{key}={value}");
    if name.len() > LONGEST {
        let message =
            format!("the partition's directory would have a name of {} bytes, more than {LONGEST}", name.len());
        return Err(Error::invalid_argument(message));
    }
    Ok(name)
}

/// Column and value of a directory named `name`; `None` if it is not a partition.
///
/// # Errors
/// `InvalidData` if the name is not UTF-8.
pub(super) fn parse(name: &OsStr) -> Result<Option<PartitionKey>> {
    let bytes = name.as_encoded_bytes();
    if !bytes.contains(&b'=') || bytes.starts_with(b"=") || bytes.starts_with(b".") {
        return Ok(None);
    }
    let invalid = || Error::invalid(format!("the partition's directory {name:?} is not called by valid UTF-8"));
    let Some((key, value)) = name.to_str().ok_or_else(invalid)?.split_once('=') else { return Ok(None) };
    let key = decode(key).ok_or_else(invalid)?;
    let value = if value == NULL { None } else { Some(decode(value).ok_or_else(invalid)?) };
    Ok(Some((key, value)))
}

/// `text` with `%XX` for the characters that Hive encodes, and for a leading dot.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        let is_special = matches!(character, '\0'..='\x1f' | '\x7f') || "\"#%'*/:=?\\{[]^".contains(character);
        if is_special || at == 0 && character == '.' {
            encoded.push_str(&format!("%{:02X}", u32::from(character)));
        } else {
            encoded.push(character);
        }
    }
    encoded
}

/// `text` with each `%XX` decoded; other percent signs stay. `None` if the result is not UTF-8.
fn decode(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let digit = |at: usize| behind.get(at).and_then(|&byte| char::from(byte).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((16 * high + low) as u8);
                rest = &behind[2..];
            }
            _ => {
                decoded.push(first);
                rest = behind;
            }
        }
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_those_of_hive() {
        let name = |value| directory_name("k", value).unwrap();
        assert_eq!(name(Some("a1")), "k=a1");
        assert_eq!(name(None), "k=__HIVE_DEFAULT_PARTITION__");
        assert_eq!(name(Some("a/b:c=d%e")), "k=a%2Fb%3Ac%3Dd%25e");
        assert_eq!(name(Some("two words, ü")), "k=two words, ü");
        assert_eq!(parse(OsStr::new("k=100%")).unwrap(), Some(("k".into(), Some("100%".into()))));
        assert_eq!(parse(OsStr::new("k=a%20b%2f")).unwrap(), Some(("k".into(), Some("a b/".into()))));
        for other in ["k", "=v", ".k=v", "2024"] {
            assert_eq!(parse(OsStr::new(other)).unwrap(), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_text_comes_back(
            key in "\\PC{1,12}|[\\x00-\\xff]{1,4}|_{1,2}\\PC{0,4}",
            value in prop::option::of(prop_oneof![
                ".{0,20}", "[\\x00-\\x7f]{0,12}", Just(NULL.to_owned()), Just("..".to_owned()), Just("%41".to_owned()),
            ]),
        ) {
            let name = directory_name(&key, value.as_deref()).unwrap();
            prop_assert!(!name.contains(['/', '\0']) && !name.starts_with(['.', '_']));
            prop_assert_eq!(parse(&OsString::from(&name)).unwrap(), Some((key, value)));
        }
    }
}
