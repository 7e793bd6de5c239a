//! Parses the URL and headers of a request.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

use crate::problem::{Problem, Result};

/// The parameters of a URL, in order.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    parameters: Vec<(String, String)>,
}

impl Query {
    /// # Errors
    /// 400 for a parameter not in `known`, so that a misspelt one is noticed.
    pub fn parse(query: Option<&str>, known: &[&str]) -> Result<Query> {
        let parameters = form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned();
        let parameters: Vec<(String, String)> = parameters.collect();
        if let Some((name, _)) = parameters.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            let known = known.join(", ");
            let name: String = name.chars().take(50).collect();
            return Err(Problem::bad_request(format!("there is no parameter '{name}' here; there are {known}")));
        }
        Ok(Query { parameters })
    }

    /// The value of a parameter that may occur once.
    pub fn get(&self, name: &str) -> Result<Option<&str>> {
        let mut values = self.all(name);
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(Problem::bad_request(format!("the parameter '{name}' comes twice"))),
            (value, None) => Ok(value),
        }
    }

    /// The values of a parameter.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.parameters.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The value of a parameter as a number.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.get(name)? else { return Ok(None) };
        let not_one = |_| Problem::bad_request(format!("{name}: a whole number is expected, got '{}'", short(text)));
        text.parse().map(Some).map_err(not_one)
    }

    /// Whether a parameter is `true`.
    pub fn flag(&self, name: &str) -> Result<bool> {
        match self.get(name)? {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => {
                Err(Problem::bad_request(format!("{name}: true or false is expected, got '{}'", short(other))))
            }
        }
    }

    /// The requested columns: `columns` separated by commas, `column` one at a time.
    pub fn columns(&self) -> Option<Vec<String>> {
        let lists = self.all("columns").flat_map(|list| list.split(',')).filter(|name| !name.is_empty());
        let names: Vec<String> = lists.chain(self.all("column")).map(str::to_owned).collect();
        let is_given = self.all("columns").chain(self.all("column")).next().is_some();
        is_given.then_some(names)
    }
}

/// The part of a text repeated in answers.
pub(crate) fn short(text: &str) -> String {
    text.chars().take(50).collect()
}

/// The value of a header, which must occur once and be text.
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

/// The value of a header as a number.
pub(crate) fn header_number(headers: &HeaderMap, name: &str) -> Result<Option<u64>> {
    let Some(text) = header(headers, name)? else { return Ok(None) };
    let not_one = || Problem::bad_request(format!("{name}: a whole number is expected, got '{}'", short(text)));
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().map(Some).map_err(|_| not_one())
    } else {
        Err(not_one())
    }
}

/// The name of a header of this server.
pub(crate) const fn own(name: &'static str) -> HeaderName {
    HeaderName::from_static(name)
}

/// A media type without its parameters, in lower case.
pub(crate) fn media_type(text: &str) -> String {
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_known_and_come_once() {
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
    fn headers_are_whole_numbers() {
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
