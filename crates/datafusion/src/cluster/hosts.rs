//! The servers of a cluster, as a file lists them.

use std::path::Path;

use arrowwood::{Error, ErrorKind, Result};
use url::{Host, Url};

/// The most servers of a cluster.
const MOST: usize = 256;

/// The servers that `file` lists: one URL a line, `http://HOST:PORT` or `https://HOST:PORT`. Empty lines and lines that
/// begin with `#` are left out.
pub(crate) fn read(file: &Path) -> Result<Vec<Url>> {
    let text = std::fs::read_to_string(file).map_err(|e| Error::io("reading the list of servers", &e).at(file))?;
    parse(&text).map_err(|e| e.at(file))
}

fn invalid(number: usize, line: &str, why: &str) -> Error {
    let message = format!("line {}: '{line}' {why}; expected http://HOST:PORT or https://HOST:PORT", number + 1);
    Error::new(ErrorKind::InvalidArgument, message)
}

fn parse(text: &str) -> Result<Vec<Url>> {
    let mut urls = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Ok(url) = Url::parse(line) else { return Err(invalid(number, line, "is not a URL")) };
        let is_plain = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() || !is_plain {
            return Err(invalid(number, line, "is not the URL of a server"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid(number, line, "has a user"));
        }
        if urls.contains(&url) {
            return Err(invalid(number, line, "is listed twice"));
        }
        urls.push(url);
    }
    match urls.len() {
        0 => Err(Error::new(ErrorKind::InvalidArgument, "no server is listed; expected a URL in each line")),
        1..=MOST => Ok(urls),
        count => Err(Error::new(ErrorKind::InvalidArgument, format!("{count} servers; a cluster has at most {MOST}"))),
    }
}

/// Returns true if `url` is of this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_mistakes_told() {
        let urls = parse("# three\nhttp://127.0.0.1:7447\n\n  https://b.example:1/  \n").unwrap();
        assert_eq!(
            urls.iter().map(Url::as_str).collect::<Vec<_>>(),
            ["http://127.0.0.1:7447/", "https://b.example:1/"]
        );
        for wrong in ["", "# none", "b.example", "ftp://b", "http://b/ticks", "http://u@b", "http://b\nhttp://b/"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse("http://a\nhttp://b/x").unwrap_err().to_string().contains("line 2"));
    }

    #[test]
    fn only_addresses_of_this_machine_are_loopback() {
        let is = |url: &str| is_loopback(&Url::parse(url).unwrap());
        assert!(
            is("http://127.0.0.1:1") && is("http://[::1]:1") && is("http://localhost:1") && is("http://a.localhost")
        );
        assert!(!is("http://10.0.0.1:1") && !is("http://localhost.example"));
    }
}
