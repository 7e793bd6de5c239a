//! Converts a JSON array of objects to JSON lines, byte by byte, as it is read.

use std::io::{self, Read};

use crate::text::chunks::BYTE_ORDER_MARK;

/// A reader that converts an array to a text with one element on each line, and leaves other texts unchanged.
///
/// Each byte becomes one byte: commas between elements become line breaks, and line breaks inside of elements and the
/// brackets around all of them become spaces.
pub(super) struct ArrayLines<R> {
    input: R,
    state: ArrayState,
}

/// The state after some bytes of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArrayState {
    /// Only blanks and a byte order mark so far.
    Start,
    /// Inside of lines, which are left unchanged.
    Lines,
    /// Before an element of the array: after a comma, or after the opening bracket, where the array may also end.
    Element { is_first: bool },
    /// Inside of the array, and of `depth` brackets and braces of an element, or after the element.
    Array { depth: u32 },
    /// Inside of a string of an element, or after a backslash in it.
    String { depth: u32, is_escaped: bool },
    /// After the array.
    End,
}

impl<R> ArrayLines<R> {
    pub fn new(input: R) -> ArrayLines<R> {
        ArrayLines { input, state: ArrayState::Start }
    }

    /// Converts a byte, and advances the state.
    fn convert(&mut self, byte: &mut u8) -> io::Result<()> {
        self.state = match self.state {
            ArrayState::Lines => ArrayState::Lines,
            ArrayState::Start if byte.is_ascii_whitespace() || BYTE_ORDER_MARK.contains(byte) => ArrayState::Start,
            ArrayState::Start if *byte == b'[' => {
                *byte = b' ';
                ArrayState::Element { is_first: true }
            }
            ArrayState::Start => ArrayState::Lines,
            ArrayState::Element { is_first } => match byte {
                b']' if is_first => convert_in_array(0, byte)?,
                b',' | b']' => {
                    return Err(invalid("expected an element of the array, got a comma or bracket too many"));
                }
                b'\n' | b'\r' => {
                    *byte = b' ';
                    self.state
                }
                _ if byte.is_ascii_whitespace() => self.state,
                _ => convert_in_array(0, byte)?,
            },
            ArrayState::Array { depth } => convert_in_array(depth, byte)?,
            ArrayState::String { depth, is_escaped: true } => ArrayState::String { depth, is_escaped: false },
            ArrayState::String { depth, .. } => match byte {
                b'"' => ArrayState::Array { depth },
                b'\\' => ArrayState::String { depth, is_escaped: true },
                _ => ArrayState::String { depth, is_escaped: false },
            },
            ArrayState::End if byte.is_ascii_whitespace() => ArrayState::End,
            ArrayState::End => {
                return Err(invalid("there is more text behind the end of the array; expected one array, or lines"));
            }
        };
        Ok(())
    }
}

/// Converts a byte inside of the array and outside of strings, and returns the state after it.
fn convert_in_array(depth: u32, byte: &mut u8) -> io::Result<ArrayState> {
    Ok(match *byte {
        b'"' => ArrayState::String { depth, is_escaped: false },
        b'[' | b'{' => match depth.checked_add(1) {
            Some(depth) => ArrayState::Array { depth },
            None => return Err(invalid("brackets in brackets, four billion deep")),
        },
        b']' if depth == 0 => {
            *byte = b' ';
            ArrayState::End
        }
        b',' if depth == 0 => {
            *byte = b'\n';
            ArrayState::Element { is_first: false }
        }
        b'\n' | b'\r' => {
            *byte = b' ';
            ArrayState::Array { depth }
        }
        // The parser of the line reports a brace too many.
        b']' | b'}' => ArrayState::Array { depth: depth.saturating_sub(1) },
        _ => ArrayState::Array { depth },
    })
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

impl<R: Read> Read for ArrayLines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.input.read(buffer)?;
        if len == 0
            && !buffer.is_empty()
            && matches!(self.state, ArrayState::Element { .. } | ArrayState::Array { .. } | ArrayState::String { .. })
        {
            return Err(invalid("the text ends inside of its array; is it cut off?"));
        }
        for byte in buffer.iter_mut().take(len) {
            if self.state == ArrayState::Lines {
                break;
            }
            self.convert(byte)?;
        }
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value as Json, json};

    /// A reader that returns a fixed number of bytes at a time.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = self.1.min(buffer.len());
            (&mut self.0).take(len as u64).read(buffer)
        }
    }

    fn lines(text: &str, piece: usize) -> io::Result<String> {
        let mut result = String::new();
        ArrayLines::new(Pieces(text.as_bytes(), piece)).read_to_string(&mut result).map(|_| result)
    }

    fn json() -> impl Strategy<Value = Json> {
        let text = "[\\PC\\\\\"\\[\\]{},\n]{0,6}";
        let leaf = prop_oneof![Just(Json::Null), any::<i32>().prop_map(Json::from), text.prop_map(Json::from)];
        leaf.prop_recursive(3, 20, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                prop::collection::hash_map(text, inner, 0..4).prop_map(|map| Json::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn an_array_has_one_element_on_each_line(
            elements in prop::collection::vec(json(), 0..6),
            is_pretty in any::<bool>(),
            piece in 1usize..9,
        ) {
            let array = Json::from(elements.clone());
            let text = if is_pretty { serde_json::to_string_pretty(&array).unwrap() } else { array.to_string() };
            let result = lines(&format!(" \n{text}\n "), piece).unwrap();
            let result: Vec<Json> =
                result.lines().filter(|line| !line.trim().is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect();
            prop_assert_eq!(result, elements);
        }

        #[test]
        fn lines_are_unchanged(text in "[ \n\u{feff}]{0,3}[^\\[\\s\u{feff}]\\PC{0,20}", piece in 1usize..9) {
            prop_assert_eq!(lines(&text, piece).unwrap(), text);
        }
    }

    #[test]
    fn an_array_has_one_end() {
        for text in ["[", "[{\"a\": 1}", "[{\"a\": \"x", "[{\"a\": [1}]"] {
            assert!(lines(text, 3).unwrap_err().to_string().contains("cut off"), "{text}");
        }
        assert!(lines("[{\"a\": 1}] {\"a\": 2}", 3).unwrap_err().to_string().contains("behind the end"));
        assert_eq!(lines("\u{feff}[{},\r\n{}]\n", 1).unwrap().trim_start_matches('\u{feff}').trim(), "{}\n  {}");
        for text in ["[{},]", "[,{}]", "[{},,{}]", "[ , ]", "[{}, \n ]"] {
            assert!(lines(text, 2).unwrap_err().to_string().contains("expected an element"), "{text}");
        }
        assert!(lines("[{},", 2).unwrap_err().to_string().contains("cut off"));
        assert_eq!(lines(" [ ] ", 2).unwrap().trim(), "");
        assert_eq!(json!([]).to_string(), "[]");
    }
}
