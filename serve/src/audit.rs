//! The audit log: a line of JSON for each request that writes, or that is refused.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use arrow_schema::TimeUnit;
use arrowwood::Value;
use hyper::Method;
use serde_json::Value as Json;

use crate::log;

/// The maximum number of characters of a path in a line.
const LONGEST: usize = 300;

/// The destination of lines.
#[derive(Clone)]
pub struct AuditLog(Arc<dyn Fn(&str) + Send + Sync>);

impl AuditLog {
    /// A log that passes each line to `write`, for which the answer waits.
    pub fn new(write: impl Fn(&str) + Send + Sync + 'static) -> AuditLog {
        AuditLog(Arc::new(write))
    }

    pub(crate) fn write(&self, line: &AuditLine<'_>) {
        (self.0)(&line.text(SystemTime::now()));
    }
}

impl Default for AuditLog {
    /// Writes lines to standard error, by a thread of its own: nobody waits for it. `/metrics` counts those that were dropped.
    fn default() -> AuditLog {
        AuditLog::new(log::line)
    }
}

impl std::fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AuditLog")
    }
}

/// The logged facts of a request, without its query and body.
pub(crate) struct AuditLine<'a> {
    pub peer: SocketAddr,
    /// The name of the token.
    pub token: Option<&'a str>,
    pub method: &'a Method,
    pub path: &'a str,
    pub status: u16,
    /// The number of appended rows.
    pub rows: Option<u64>,
    /// The reason of a refusal, and the part of it for the log only.
    pub code: Option<&'a str>,
    pub log: Option<&'a str>,
}

impl AuditLine<'_> {
    /// The line as JSON.
    fn text(&self, time: SystemTime) -> String {
        let quoted = |text: &str| Json::from(text).to_string();
        let path: String = self.path.chars().take(LONGEST).collect();
        let token = self.token.map_or("null".to_owned(), quoted);
        let mut line = format!(
            r#"{{"time":{},"peer":"{}","token":{token},"method":{},"path":{},"status":{}"#,
            time_text(time),
            self.peer,
            quoted(self.method.as_str()),
            quoted(&path),
            self.status
        );
        let rows = self.rows.map(|rows| rows.to_string());
        for (name, value) in [("rows", rows), ("code", self.code.map(quoted)), ("log", self.log.map(quoted))] {
            if let Some(value) = value {
                line += &format!(r#","{name}":{value}"#);
            }
        }
        line + "}"
    }
}

pub(crate) fn time_text(time: SystemTime) -> Json {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let millis = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    Value::Timestamp(millis, TimeUnit::Millisecond, Some("UTC")).to_json().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_line_is_one_line_whatever_the_path_is() {
        let path = format!("/v1/tables/\n\"{}", "x".repeat(1_000));
        let line = AuditLine {
            peer: "10.0.0.7:51234".parse().unwrap(),
            token: Some("s1"),
            method: &Method::POST,
            path: &path,
            status: 200,
            rows: Some(2),
            code: None,
            log: None,
        };
        let text = line.text(SystemTime::UNIX_EPOCH + Duration::from_millis(1_500));
        let known: Json = serde_json::from_str(&text).unwrap();
        assert_eq!((&known["rows"], &known["status"], known.get("code")), (&2.into(), &200.into(), None));
        assert!(!text.contains('\n') && text.len() < 600, "{text}");
        assert!(text.starts_with(
            r#"{"time":"1970-01-01T00:00:01.500Z","peer":"10.0.0.7:51234","token":"s1","method":"POST","#
        ));
    }
}
