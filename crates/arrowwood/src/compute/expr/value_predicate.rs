//! [`ValuePredicate`]: a condition on one value, as ranges and sets that a loop over values tests.

use std::sync::Arc;

use arrow_buffer::i256;
use memchr::memmem::Finder;

use super::literal::Operator;
use super::pattern::Pattern;
use super::predicate::TextMatch;
use super::text_set::TextSet;
use crate::error::Result;

/// A condition on a value.
#[derive(Clone, Debug)]
pub(in crate::compute) enum ValuePredicate {
    /// Unknown for all values: a comparison with null.
    Unknown,
    /// False for all values that are not null.
    Never,
    /// An integer, or the digits of a decimal, within inclusive bounds.
    Range(i256, i256),
    /// A float within inclusive bounds.
    Floats(f64, f64),
    /// A comparison with a text or bytes.
    Text(Operator, Vec<u8>),
    /// A search in a text.
    Matches(TextMatcher),
    /// One of some texts.
    Texts(Arc<TextSet>),
    /// One of some integers, or digits of decimals, in order.
    Integers(Vec<i256>),
    /// One of some floats, in order.
    OneOfFloats(Vec<f64>),
    Not(Box<ValuePredicate>),
    /// True if one of the tests is.
    Any(Vec<ValuePredicate>),
}

/// A search for a text or a pattern in another text.
#[derive(Clone, Debug)]
pub(in crate::compute) enum TextMatcher {
    StartsWith(Vec<u8>),
    EndsWith(Vec<u8>),
    /// Found in time that is linear in both lengths.
    Contains(Arc<Finder<'static>>),
    Pattern(Pattern),
}

impl TextMatcher {
    pub(super) fn try_new(kind: TextMatch, text: &str) -> Result<TextMatcher> {
        Ok(match kind {
            TextMatch::Pattern => TextMatcher::Pattern(Pattern::parse(text)?),
            TextMatch::StartsWith => TextMatcher::StartsWith(text.into()),
            TextMatch::EndsWith => TextMatcher::EndsWith(text.into()),
            TextMatch::Contains => TextMatcher::Contains(Arc::new(Finder::new(text).into_owned())),
        })
    }

    /// Returns true if `bytes`, a text, matches.
    pub(super) fn holds(&self, bytes: &[u8]) -> bool {
        match self {
            TextMatcher::StartsWith(text) => bytes.starts_with(text),
            TextMatcher::EndsWith(text) => bytes.ends_with(text),
            TextMatcher::Contains(finder) => finder.find(bytes).is_some(),
            TextMatcher::Pattern(pattern) => pattern.is_in(bytes),
        }
    }
}
