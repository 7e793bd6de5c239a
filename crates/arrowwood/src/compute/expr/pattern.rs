//! Matches regular expressions, in time that is linear in the text.

use regex::bytes::Regex;

use crate::error::{Error, Result};

/// A regular expression.
#[derive(Clone, Debug)]
pub(in crate::compute) struct Pattern(Regex);

impl Pattern {
    pub(super) fn parse(pattern: &str) -> Result<Pattern> {
        Regex::new(pattern).map(Pattern).map_err(|e| {
            let message = e.to_string();
            // The last line says what is wrong, the lines before it say where.
            let reason = message.lines().last().map_or("", |line| line.trim_start_matches("error: "));
            Error::invalid_argument(format!("the regular expression {pattern:?}: {reason}"))
        })
    }

    pub(super) fn is_in(&self, text: &[u8]) -> bool {
        self.0.is_match(text)
    }
}
