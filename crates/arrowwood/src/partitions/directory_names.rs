//! Encodes and parses names of directories: `key=value`, percent-encoded as Hive does.
//!
//! A name must be valid on every system, and mean the same directory wherever the table is copied to. Some file systems
//! don't distinguish `a` from `A`, or an `ü` of one character from one of two. So values are written in ASCII, and a
//! name may be had in several forms, which differ in the letters that are encoded: `k=a`, `k=%61`.

use std::ffi::OsStr;

use chrono::NaiveDate;

use crate::array::Value;
use crate::error::{Error, Result};

/// The directory value for null.
pub(super) const NULL: &str = "__HIVE_DEFAULT_PARTITION__";
/// A percent-encoded underscore.
const ENCODED_UNDERSCORE: &str = "%5F";
/// The maximum length in bytes of a name on common file systems.
const MAX_NAME_LEN: usize = 255;

/// A partition column and its value as text; `None` is null.
pub type PartitionKey = (String, Option<String>);

/// Returns the columns of a partition with their values as text.
///
/// # Errors
/// `InvalidArgument` without columns, for empty or duplicate names, for values without a text of one line (floats,
/// times, bytes, nested values), and for days beyond the calendar.
pub(super) fn keys_of(partition: &[(&str, Value<'_>)]) -> Result<Vec<PartitionKey>> {
    if partition.is_empty() {
        return Err(Error::invalid_argument("a partition needs a column and its value, such as host=a1"));
    }
    let mut keys = Vec::with_capacity(partition.len());
    for (number, (key, value)) in partition.iter().enumerate() {
        if key.is_empty() || partition[..number].iter().any(|(other, _)| other == key) {
            return Err(Error::invalid_argument(format!("partition columns need different names, got '{key}'")));
        }
        keys.push(((*key).to_owned(), text_of(key, value)?));
    }
    Ok(keys)
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

/// Returns the names that a new directory of a column and a value may have, the preferred one first, in which no letter
/// is encoded. In each further one, one letter more is. A name in which all are encoded equals no name of another
/// value, whatever case the file system ignores.
///
/// # Errors
/// `InvalidArgument` if the preferred name has more than 255 bytes.
pub(super) fn directory_names(key: &str, value: Option<&str>) -> Result<impl Iterator<Item = String>> {
    let letters = value.unwrap_or("").bytes().filter(u8::is_ascii_alphabetic).count();
    let encoded_key = encode(key, 0, false);
    let encoded_key = match encoded_key.strip_prefix('_') {
        // Listings skip names that begin with an underscore, as they belong to other programs.
        Some(rest) => format!("{ENCODED_UNDERSCORE}{rest}"),
        None => encoded_key,
    };
    // Characters beyond ASCII take up to three times the space when they are encoded. A value that would not fit keeps
    // them.
    let in_ascii = encoded_key.len() + 1 + encode_value(value, 0, true).len() <= MAX_NAME_LEN;
    let preferred_len = encoded_key.len() + 1 + encode_value(value, 0, in_ascii).len();
    if preferred_len > MAX_NAME_LEN {
        let message =
            format!("the partition's directory would have a name of {preferred_len} bytes, more than {MAX_NAME_LEN}");
        return Err(Error::invalid_argument(message));
    }
    let names = (0..=letters).map(move |letters| format!("{encoded_key}={}", encode_value(value, letters, in_ascii)));
    Ok(names.filter(|name| name.len() <= MAX_NAME_LEN).inspect(move |name| {
        debug_assert!(
            matches!(parse(OsStr::new(name)), Ok(Some((k, v))) if k == key && v.as_deref() == value),
            "the partition '{name}' would not be found again"
        );
    }))
}

/// Returns true if a file system may take two names for one. The answer is right if both are ASCII; for others it is so
/// in most cases.
pub(super) fn are_folded_alike(name: &str, other: &str) -> bool {
    if name.is_ascii() && other.is_ascii() {
        return name.eq_ignore_ascii_case(other);
    }
    // To upper case first, as `ſ` and `ß` have no other lower case.
    let fold = |name: &str| name.to_uppercase().to_lowercase();
    fold(name) == fold(other)
}

/// Returns true if a name belongs to another program, such as `_temporary` or `.snapshots`.
pub(super) fn is_foreign(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"_") || name.as_encoded_bytes().starts_with(b".")
}

/// Parses the column and value of a directory named `name`; returns `None` if it is not a partition.
///
/// # Errors
/// `InvalidData` if the name is not UTF-8.
pub(super) fn parse(name: &OsStr) -> Result<Option<PartitionKey>> {
    let bytes = name.as_encoded_bytes();
    if !bytes.contains(&b'=') || bytes.starts_with(b"=") || is_foreign(name) {
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

/// Encodes a value; `None` is null. See [`encode`] for the arguments.
fn encode_value(value: Option<&str>, letters: usize, in_ascii: bool) -> String {
    let Some(text) = value else { return NULL.to_owned() };
    let encoded = encode(text, letters, in_ascii);
    if text.eq_ignore_ascii_case(NULL) {
        // The text that stands for null is encoded like any leading underscore.
        return encoded.replacen('_', ENCODED_UNDERSCORE, 1);
    }
    // Windows removes dots and spaces at the end of a name.
    match encoded.strip_suffix(['.', ' ']) {
        Some(rest) => format!("{rest}%{:02X}", encoded.as_bytes()[rest.len()]),
        None => encoded,
    }
}

/// Encodes the characters that Hive encodes or that Windows refuses, and a leading dot, as `%XX`; also the first
/// `letters` letters of ASCII, and with `in_ascii` the UTF-8 of all characters beyond ASCII.
fn encode(text: &str, letters: usize, in_ascii: bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    let mut letters_left = letters;
    for (position, character) in text.char_indices() {
        let is_counted = letters_left > 0 && character.is_ascii_alphabetic();
        letters_left -= usize::from(is_counted);
        let is_special = character.is_ascii_control() || "\"#%'*/:<=>?\\{[]^|".contains(character);
        let is_hidden = position == 0 && character == '.';
        if is_counted || is_special || is_hidden || in_ascii && !character.is_ascii() {
            for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                encoded.push_str(&format!("%{byte:02X}"));
            }
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

    fn preferred_name(key: &str, value: Option<&str>) -> String {
        directory_names(key, value).unwrap().next().unwrap()
    }

    #[test]
    fn names_are_encoded_as_by_hive() {
        let name = |value| preferred_name("k", value);
        assert_eq!(name(Some("a1")), "k=a1");
        assert_eq!(name(None), "k=__HIVE_DEFAULT_PARTITION__");
        assert_eq!(name(Some("a/b:c=d%e")), "k=a%2Fb%3Ac%3Dd%25e");
        assert_eq!(parse(OsStr::new("k=100%")).unwrap(), Some(("k".into(), Some("100%".into()))));
        assert_eq!(parse(OsStr::new("k=a%20b%2f")).unwrap(), Some(("k".into(), Some("a b/".into()))));
        for other in ["k", "=v", ".k=v", "2024"] {
            assert_eq!(parse(OsStr::new(other)).unwrap(), None, "{other}");
        }
    }

    #[test]
    fn names_are_valid_on_every_system() {
        let name = |value| preferred_name("k", Some(value));
        assert_eq!(name("two words, ü"), "k=two words, %C3%BC");
        assert_eq!(name("a<b>c|d"), "k=a%3Cb%3Ec%7Cd");
        assert_eq!(name("1. "), "k=1.%20");
        assert_eq!(name("..."), "k=%2E.%2E");
        assert_eq!(name("."), "k=%2E");
        for common in ["AAPL", "BRK.B", "2026-01-31", "-7", "eu-west-1", "a b", "COM1"] {
            assert_eq!(name(common), format!("k={common}"));
        }
        // Readers that don't decode names of columns see this one as it is.
        assert_eq!(preferred_name("größe", Some("a")), "größe=a");
    }

    #[test]
    fn each_further_name_encodes_one_letter_more() {
        let names = |value| directory_names("k", Some(value)).unwrap().collect::<Vec<_>>();
        assert_eq!(names("a-1B"), ["k=a-1B", "k=%61-1B", "k=%61-1%42"]);
        assert_eq!(names("1"), ["k=1"]);
        assert_eq!(names("__hive_default_partition__")[0], "k=%5F_hive_default_partition__");
    }

    #[test]
    fn long_values_keep_characters_beyond_ascii() {
        assert_eq!(preferred_name("k", Some(&"東".repeat(28))).len(), 2 + 9 * 28);
        let long = "東".repeat(84);
        assert_eq!(preferred_name("k", Some(&long)), format!("k={long}"));
        assert!(directory_names("k", Some(&"東".repeat(85))).is_err());
        assert_eq!(directory_names("k", Some(&"x".repeat(253))).unwrap().count(), 1);
    }

    proptest! {
        #[test]
        fn any_text_survives_encoding_and_parsing(
            key in "\\PC{1,12}|[\\x00-\\xff]{1,4}|_{1,2}\\PC{0,4}",
            value in prop::option::of(prop_oneof![
                ".{0,20}", "[\\x00-\\x7f]{0,12}", Just(NULL.to_owned()), Just("..".to_owned()), Just("%41".to_owned()),
            ]),
        ) {
            for name in directory_names(&key, value.as_deref()).unwrap() {
                prop_assert!(!name.contains(['/', '\0']) && !name.starts_with(['.', '_']));
                prop_assert_eq!(parse(&OsString::from(&name)).unwrap(), Some((key.clone(), value.clone())));
            }
        }
    }
}
