//! Removes possible secrets from URLs: users, passwords, and queries, which have signatures.

use std::borrow::Cow;

/// Returns the scheme at the end of `text`, which precedes `://`; `None` if there is no scheme.
fn trailing_scheme(text: &str) -> Option<&str> {
    let rest = text.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let scheme = &text[rest.len()..];
    scheme.starts_with(|c: char| c.is_ascii_alphabetic()).then_some(scheme)
}

/// Appends the host and the path of a URL, whose part after `://` is `rest`.
fn push_public(rest: &str, into: &mut String) {
    let public = match rest.find(['?', '#']) {
        Some(end) => &rest[..end],
        None => rest,
    };
    let (authority, path) = match public.find('/') {
        Some(start) => public.split_at(start),
        None => (public, ""),
    };
    let host = match authority.rfind('@') {
        Some(end_of_user) => &authority[end_of_user + 1..],
        None => authority,
    };
    into.push_str(host);
    into.push_str(path);
}

/// Returns `text` with all URLs in it without users, passwords, queries and fragments.
///
/// A URL ends with a space or a quote.
pub fn redact_urls(text: &str) -> Cow<'_, str> {
    if !text.contains("://") {
        return Cow::Borrowed(text);
    }
    let mut redacted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        redacted.push_str(before);
        redacted.push_str("://");
        if trailing_scheme(before).is_none() {
            rest = after;
            continue;
        }
        let len = after.find(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`')).unwrap_or(after.len());
        let (url, tail) = after.split_at(len);
        push_public(url, &mut redacted);
        rest = tail;
    }
    redacted.push_str(rest);
    Cow::Owned(redacted)
}

/// Returns `url` without user, password, query and fragment. A text that is not a URL as a whole stays as it is.
pub(crate) fn redact_url(url: &str) -> Cow<'_, str> {
    match url.split_once("://") {
        Some((scheme, rest)) if trailing_scheme(scheme) == Some(scheme) => {
            let mut redacted = format!("{scheme}://");
            push_public(rest, &mut redacted);
            Cow::Owned(redacted)
        }
        _ => Cow::Borrowed(url),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lose_users_passwords_and_queries() {
        for (text, shown) in [
            ("", ""),
            ("s3://bucket/a", "s3://bucket/a"),
            ("opening 'https://u:p@host:1/a?sig=s#f' failed", "opening 'https://host:1/a' failed"),
            ("http://u:p@host?sig=s", "http://host"),
            ("http://a/1?x http://u@b/2 :// é://u@b", "http://a/1 http://b/2 :// é://u@b"),
            ("http://u:p@ss@host/a@b", "http://host/a@b"),
            ("/a?b://c", "/a?b://c"),
        ] {
            assert_eq!(redact_urls(text), shown);
        }
        assert_eq!(redact_url("ftp://u:p@host/a b'c?hush hush"), "ftp://host/a b'c");
        assert_eq!(redact_url("/data/a://u@b?c"), "/data/a://u@b?c");
    }
}
