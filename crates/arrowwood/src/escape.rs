//! Makes foreign text safe to print: characters that control a terminal, reverse the direction of a line, or are
//! invisible become escapes. Names of columns, files and time zones may contain any of them.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns true if `c` controls a terminal, changes the direction of the text, ends a line, or is invisible. Joiners
/// are not included: words and emoji need them.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Directions: marks, embeddings, overrides and isolates.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}'
            // Ends of lines and paragraphs.
            | '\u{2028}' | '\u{2029}'
            // Invisible: soft hyphens, fillers, spaces without width, byte order marks, tags.
            | '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}' | '\u{200b}'
            | '\u{2060}'..='\u{2065}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

/// Returns `text` on one line, with escapes such as `\n` and `\u{1b}` for hidden characters.
pub fn escape_hidden(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden, |c, into| into.extend(c.escape_default()))
}

/// As [`escape_hidden`], but keeps line breaks.
pub fn escape_hidden_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c != '\n' && is_hidden(c), |c, into| into.extend(c.escape_default()))
}

/// Escapes hidden characters in JSON text as `\u` and four digits; parses to the same values.
pub fn escape_hidden_json(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden, |c, into| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string does not fail.
            let _ = write!(into, "\\u{unit:04x}");
        }
    })
}

fn escaped(text: &str, is_hidden: impl Fn(char) -> bool, escape: impl Fn(char, &mut String)) -> Cow<'_, str> {
    // The fast path: nearly all text is printable ASCII, and there may be gigabytes of it.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) || !text.contains(&is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut visible = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hidden(c) {
            escape(c, &mut visible);
        } else {
            visible.push(c);
        }
    }
    Cow::Owned(visible)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\u{1b}[2J\u{7}b\u{9b}31m\u{202e}c\u{200b}d\ne\u{7f}\u{2066}\u{feff}\u{e0041}";

    #[test]
    fn hidden_characters_are_escaped() {
        let escaped = escape_hidden(HOSTILE);
        assert_eq!(escaped, r"a\u{1b}[2J\u{7}b\u{9b}31m\u{202e}c\u{200b}d\ne\u{7f}\u{2066}\u{feff}\u{e0041}");
        assert!(!escaped.contains(is_hidden));
        assert_eq!(escape_hidden_lines("one\ntwo\r\u{85}"), "one\ntwo\\r\\u{85}");
    }

    #[test]
    fn words_and_emoji_are_unchanged() {
        for text in ["", "plain", "żółć", "日本語", "می\u{200c}خواهم", "👩\u{200d}🚀", "1\u{a0}000", "עברית"]
        {
            assert!(matches!(escape_hidden(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn escaped_json_parses_to_the_same_value() {
        let json = serde_json::json!({ HOSTILE: [HOSTILE] });
        let escaped = escape_hidden_json(&json.to_string()).into_owned();
        assert!(!escaped.contains(is_hidden), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), json);
    }
}
