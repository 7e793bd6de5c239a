//! Reads the list of the servers of a cluster.

use std::path::Path;

use arrowwood::{Error, ErrorKind, Result};
use url::{Host, Url};

/// The maximum number of servers of a cluster.
const MAX_SERVERS: usize = 256;

/// Reads the servers that `file` lists: one URL a line, `http://HOST:PORT` or `https://HOST:PORT`. Skips empty lines
/// and lines that begin with `#`.
pub(super) fn read_hosts(file: &Path) -> Result<Vec<Url>> {
    let text = std::fs::read_to_string(file).map_err(|e| Error::io("reading the list of servers", &e).at(file))?;
    parse_hosts(&text).map_err(|e| e.at(file))
}

fn line_error(index: usize, line: &str, problem: &str) -> Error {
    let message = format!("line {}: '{line}' {problem}; expected http://HOST:PORT or https://HOST:PORT", index + 1);
    Error::new(ErrorKind::InvalidArgument, message)
}

fn parse_hosts(text: &str) -> Result<Vec<Url>> {
    let mut urls = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Ok(url) = Url::parse(line) else { return Err(line_error(index, line, "is not a URL")) };
        let has_only_host = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() || !has_only_host {
            return Err(line_error(index, line, "is not the URL of a server"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(line_error(index, line, "has a user"));
        }
        if urls.contains(&url) {
            return Err(line_error(index, line, "is listed twice"));
        }
        urls.push(url);
    }
    match urls.len() {
        0 => Err(Error::new(ErrorKind::InvalidArgument, "no server is listed; expected a URL in each line")),
        1..=MAX_SERVERS => Ok(urls),
        count => {
            Err(Error::new(ErrorKind::InvalidArgument, format!("{count} servers; a cluster has at most {MAX_SERVERS}")))
        }
    }
}

/// Returns true if `url` is an address of this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
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
    fn lists_are_parsed_and_mistakes_reported() {
        let urls = parse_hosts("# three\nhttp://127.0.0.1:7447\n\n  https://b.example:1/  \n").unwrap();
        assert_eq!(
            urls.iter().map(Url::as_str).collect::<Vec<_>>(),
            ["http://127.0.0.1:7447/", "https://b.example:1/"]
        );
        for invalid in ["", "# none", "b.example", "ftp://b", "http://b/ticks", "http://u@b", "http://b\nhttp://b/"] {
            assert!(parse_hosts(invalid).is_err(), "{invalid}");
        }
        assert!(parse_hosts("http://a\nhttp://b/x").unwrap_err().to_string().contains("line 2"));
    }

    #[test]
    fn only_addresses_of_this_machine_are_loopback() {
        for url in ["http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1", "http://a.localhost"] {
            assert!(is_loopback(&Url::parse(url).unwrap()), "{url}");
        }
        for url in ["http://10.0.0.1:1", "http://localhost.example"] {
            assert!(!is_loopback(&Url::parse(url).unwrap()), "{url}");
        }
    }
}
