//! [`Pattern`]: a regular expression, in time that is linear in the text.

use regex::bytes::Regex;

use crate::error::{Error, Result};

/// A regular expression.
#[derive(Clone, Debug)]
pub(in crate::compute) struct Pattern(Regex);

impl Pattern {
    pub(super) fn parse(pattern: &str) -> Result<Pattern> {
        // The last line of its message says what is wrong, those before where.
        let last = |e: regex::Error| e.to_string().lines().last().unwrap_or_default().to_owned();
        Regex::new(pattern).map(Pattern).map_err(|e| {
            Error::invalid_argument(format!(
                "the regular expression {pattern:?}: {}",
                last(e).trim_start_matches("error: ")
            ))
        })
    }

    pub(super) fn is_in(&self, text: &[u8]) -> bool {
        self.0.is_match(text)
    }
}
