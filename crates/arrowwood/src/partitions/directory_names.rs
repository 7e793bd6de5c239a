//! Encodes and parses names of directories: `key=value`, percent-encoded as Hive does.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use chrono::NaiveDate;

use crate::array::Value;
use crate::error::{Error, Result};

/// The directory value for null.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";
/// A percent-encoded underscore.
const ENCODED_UNDERSCORE: &str = "%5F";
/// The maximum length in bytes of a name on common file systems.
const MAX_NAME_LEN: usize = 255;

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

/// Returns the text of a value in a directory's name; `None` for null.
pub(super) fn text_of(key: &str, value: &Value<'_>) -> Result<Option<String>> {
    match value {
        Value::Null => Ok(None),
        Value::Str(text) => Ok(Some((*text).to_owned())),
        Value::Date(days) if !is_in_calendar(*days) => {
            let message = format!(
                "partition column '{key}': expected a date of the calendar, got {days} days since 1970, which has no \
                 year; leave such rows out, or split them by another column"
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

/// Returns true if a day, counted from 1970, has a date: the calendar has half a million years.
fn is_in_calendar(days: i64) -> bool {
    i32::try_from(days).ok().and_then(NaiveDate::from_epoch_days).is_some()
}

/// Returns the name of the directory of a column and a value; `None` is null.
///
/// # Errors
/// `InvalidArgument` for a name of more than 255 bytes.
pub(super) fn directory_name(key: &str, value: Option<&str>) -> Result<String> {
    let value = match value {
        None => NULL.to_owned(),
        // The text that stands for null is escaped like any leading underscore.
        Some(NULL) => NULL.replacen('_', ENCODED_UNDERSCORE, 1),
        Some(text) => encode(text),
    };
    let encoded_key = encode(key);
    let name = match encoded_key.strip_prefix('_') {
        // Listings skip names that begin with an underscore, as they belong to other programs.
        Some(rest) => format!("{ENCODED_UNDERSCORE}{rest}={value}"),
        None => format!("{encoded_key}={value}"),
    };
    if name.len() > MAX_NAME_LEN {
        let message =
            format!("the partition's directory would have a name of {} bytes, more than {MAX_NAME_LEN}", name.len());
        return Err(Error::invalid_argument(message));
    }
    debug_assert!(
        matches!(parse(OsStr::new(&name)), Ok(Some((parsed, _))) if parsed == key),
        "the partition '{name}' would not be found again"
    );
    Ok(name)
}

/// Parses the column and value of a directory named `name`; returns `None` if it is not a partition.
///
/// # Errors
/// `InvalidData` if the name is not UTF-8.
pub(super) fn parse(name: &OsStr) -> Result<Option<PartitionKey>> {
    let bytes = name.as_encoded_bytes();
    if !bytes.contains(&b'=') || bytes.starts_with(b"=") || bytes.starts_with(b".") {
        return Ok(None);
    }
    let Some((key, value)) = name.to_str().ok_or_else(|| invalid_name(name))?.split_once('=') else {
        return Ok(None);
    };
    let key = decode(key).ok_or_else(|| invalid_name(name))?;
    let value = if value == NULL { None } else { Some(decode(value).ok_or_else(|| invalid_name(name))?) };
    Ok(Some((key, value)))
}

fn invalid_name(name: &OsStr) -> Error {
    Error::invalid(format!("the partition's directory {name:?} is not called by valid UTF-8"))
}

/// Encodes the characters that Hive encodes, and a leading dot, as `%XX`.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for (position, character) in text.char_indices() {
        let is_special = matches!(character, '\0'..='\x1f' | '\x7f') || "\"#%'*/:=?\\{[]^".contains(character);
        if is_special || position == 0 && character == '.' {
            encoded.push_str(&format!("%{:02X}", u32::from(character)));
        } else {
            encoded.push(character);
        }
    }
    encoded
}

/// Decodes each `%XX`; other percent signs stay. Returns `None` if the result is not UTF-8.
fn decode(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        if let (b'%', [high, low, tail @ ..]) = (first, tail)
            && let (Some(high), Some(low)) = (char::from(*high).to_digit(16), char::from(*low).to_digit(16))
        {
            decoded.push((16 * high + low) as u8);
            rest = tail;
        } else {
            decoded.push(*first);
            rest = tail;
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
    fn names_are_encoded_as_by_hive() {
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
        fn any_text_survives_encoding_and_parsing(
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
