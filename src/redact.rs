//! URLs without what may be secret in them: users, passwords, and queries, which have signatures.

use std::borrow::Cow;

/// Where the scheme begins that ends before `at`, where `://` stands; `None` if there is no scheme.
fn scheme_before(text: &str, at: usize) -> Option<usize> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let start = text[..at]
        .rfind(|c| !is_part(c))
        .map_or(0, |before| before + text[before..].chars().next().map_or(1, char::len_utf8));
    text[start..at].starts_with(|c: char| c.is_ascii_alphabetic()).then_some(start)
}

/// Appends what is no secret of what follows `://`.
fn push_public(rest: &str, into: &mut String) {
    let public = rest.split(['?', '#']).next().unwrap_or_default();
    let (host, path) = public.find('/').map_or((public, ""), |at| public.split_at(at));
    into.push_str(host.rsplit('@').next().unwrap_or_default());
    into.push_str(path);
}

/// Returns `text` with all URLs in it without users, passwords, queries and fragments. A URL ends with a space or a quote.
#[doc(hidden)]
pub fn redact_urls(text: &str) -> Cow<'_, str> {
    if !text.contains("://") {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let start = at + "://".len();
        shown.push_str(&rest[..start]);
        if scheme_before(rest, at).is_none() {
            rest = &rest[start..];
            continue;
        }
        let is_end = |c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`');
        let end = rest[start..].find(is_end).map_or(rest.len(), |len| start + len);
        push_public(&rest[start..end], &mut shown);
        rest = &rest[end..];
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// As [`without_secrets`], of what is a URL as a whole, or none.
pub(crate) fn redact_url(url: &str) -> Cow<'_, str> {
    match url.find("://").filter(|&at| scheme_before(url, at) == Some(0)) {
        Some(at) => {
            let (scheme, rest) = url.split_at(at + "://".len());
            let mut shown = scheme.to_owned();
            push_public(rest, &mut shown);
            Cow::Owned(shown)
        }
        None => Cow::Borrowed(url),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_shown_without_users_passwords_and_queries() {
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
