//! Parses the parameters and headers of requests.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

use super::problem::{Problem, Result};

/// The maximum number of characters of a client's text that are repeated in errors.
const MAX_QUOTED_CHARS: usize = 50;

/// The parameters of a URL, in order.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    parameters: Vec<(String, String)>,
}

impl Query {
    /// Parses the query of a URL.
    ///
    /// # Errors
    /// 400 for a parameter that is not in `names`, so that a misspelt one is noticed.
    pub fn parse(query: Option<&str>, names: &[&str]) -> Result<Query> {
        let query = query.unwrap_or("");
        let parameters: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        if let Some((name, _)) = parameters.iter().find(|(name, _)| !names.contains(&name.as_str())) {
            let known = names.join(", ");
            let name = short(name);
            return Err(Problem::bad_request(format!("there is no parameter '{name}' here; there are {known}")));
        }
        Ok(Query { parameters })
    }

    /// Returns the value of a parameter that may occur once.
    pub fn get(&self, name: &str) -> Result<Option<&str>> {
        let mut values = self.all(name);
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(Problem::bad_request(format!("the parameter '{name}' comes twice"))),
            (value, None) => Ok(value),
        }
    }

    /// Returns the values of a parameter.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.parameters.iter().filter(move |(parameter, _)| parameter == name).map(|(_, value)| value.as_str())
    }

    /// Returns true if a parameter occurs.
    pub fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }

    /// Returns the value of a parameter as a number.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.get(name)? else { return Ok(None) };
        text.parse().map(Some).map_err(|_| not_a_number(name, text))
    }

    /// Returns true if a parameter is `true`.
    pub fn flag(&self, name: &str) -> Result<bool> {
        match self.get(name)? {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => {
                Err(Problem::bad_request(format!("{name}: true or false is expected, got '{}'", short(other))))
            }
        }
    }

    /// Returns the requested columns: `columns` separated by commas, `column` one at a time. `None` if neither occurs.
    pub fn columns(&self) -> Option<Vec<String>> {
        if !self.has("columns") && !self.has("column") {
            return None;
        }
        let lists = self.all("columns").flat_map(|list| list.split(',')).filter(|name| !name.is_empty());
        Some(lists.chain(self.all("column")).map(str::to_owned).collect())
    }
}

/// Returns the part of a client's text that is repeated in errors.
pub(crate) fn short(text: &str) -> String {
    text.chars().take(MAX_QUOTED_CHARS).collect()
}

/// Returns the value of a header, which must occur at most once and be text.
pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>> {
    let mut values = headers.get_all(name).into_iter();
    let first = values.next();
    let second = values.next();
    if second.is_some() {
        return Err(Problem::bad_request(format!("the header '{name}' comes twice")));
    }
    let text = first.map(HeaderValue::to_str).transpose();
    text.map_err(|_| Problem::bad_request(format!("the header '{name}' is not text")))
}

/// Returns the value of a header as a number.
pub(crate) fn header_number(headers: &HeaderMap, name: &str) -> Result<Option<u64>> {
    let Some(text) = header(headers, name)? else { return Ok(None) };
    // `parse` accepts a sign, which a header can't have.
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(not_a_number(name, text));
    }
    text.parse().map(Some).map_err(|_| not_a_number(name, text))
}

fn not_a_number(name: &str, text: &str) -> Problem {
    Problem::bad_request(format!("{name}: a whole number is expected, got '{}'", short(text)))
}

/// Returns the name of a header that only this server has.
pub(crate) const fn header_name(name: &'static str) -> HeaderName {
    HeaderName::from_static(name)
}

/// Returns a media type without its parameters, in lower case.
pub(crate) fn media_type(text: &str) -> String {
    let media_type = text.split_once(';').map_or(text, |(media_type, _)| media_type);
    media_type.trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_repeated_parameters_are_refused() {
        let known = ["from", "columns", "column", "durable"];
        let parse = |text| Query::parse(Some(text), &known);
        let query = parse("from=-10&columns=a,b&column=c%2Cd&durable=true").unwrap();
        assert_eq!(query.number::<i64>("from").unwrap(), Some(-10));
        assert_eq!(query.columns().unwrap(), ["a", "b", "c,d"]);
        assert!(query.flag("durable").unwrap());
        assert!(parse("form=1").unwrap_err().detail().contains("'form'"));
        assert!(parse("from=1&from=2").unwrap().number::<i64>("from").is_err());
        assert!(parse("from=1.5").unwrap().number::<i64>("from").is_err());
        assert!(parse("durable=yes").unwrap().flag("durable").is_err());
        assert_eq!(Query::parse(None, &known).unwrap().columns(), None);
        assert_eq!(parse("columns=").unwrap().columns(), Some(Vec::new()));
    }

    #[test]
    fn numeric_headers_must_be_integers() {
        let mut headers = HeaderMap::new();
        for (text, number) in
            [("17", Some(17)), ("+17", None), ("", None), ("99999999999999999999", None), ("-1", None)]
        {
            headers.insert("n", HeaderValue::from_static(text));
            assert_eq!(header_number(&headers, "n").ok().flatten(), number, "{text}");
        }
        headers.append("n", HeaderValue::from_static("1"));
        assert!(header(&headers, "n").is_err());
    }
}
