//! The audit log: a line of JSON for each request that writes, or that is refused.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arrow_schema::TimeUnit;
use arrowwood::Value;
use hyper::Method;
use serde_json::Value as Json;

use super::log;

/// The maximum number of characters of a path in a line.
const MAX_PATH_CHARS: usize = 300;

/// The destination of the audit log's lines.
#[derive(Clone)]
pub struct AuditLog(Arc<dyn Fn(&str) + Send + Sync>);

impl AuditLog {
    /// Creates a log that passes each line to `write`, for which the response waits.
    pub fn new(write: impl Fn(&str) + Send + Sync + 'static) -> AuditLog {
        AuditLog(Arc::new(write))
    }

    pub(crate) fn write(&self, line: &AuditLine<'_>) {
        (self.0)(&line.text(SystemTime::now()));
    }
}

impl Default for AuditLog {
    /// Writes lines to standard error, by a separate thread that no request waits for. `/metrics` counts dropped lines.
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
    /// The code of the problem, if the request was refused.
    pub code: Option<&'a str>,
    /// The cause, which the client does not get.
    pub log: Option<&'a str>,
}

impl AuditLine<'_> {
    /// Returns the line as JSON.
    fn text(&self, time: SystemTime) -> String {
        let path: String = self.path.chars().take(MAX_PATH_CHARS).collect();
        // The members are in this order, and JSON escapes line breaks in the path.
        let mut line = format!(
            r#"{{"time":{},"peer":"{}","token":{},"method":{},"path":{},"status":{}"#,
            time_text(time),
            self.peer,
            Json::from(self.token),
            Json::from(self.method.as_str()),
            Json::from(path),
            self.status
        );
        let optional = [
            ("rows", self.rows.map(Json::from)),
            ("code", self.code.map(Json::from)),
            ("log", self.log.map(Json::from)),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                line += &format!(r#","{name}":{value}"#);
            }
        }
        line + "}"
    }
}

/// Returns a time as text, in JSON. A time before 1970, as of a clock that isn't set, is shown as 1970.
pub(crate) fn time_text(time: SystemTime) -> Json {
    let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let millis = i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX);
    // A time beyond the calendar has no text.
    Value::Timestamp(millis, TimeUnit::Millisecond, Some("UTC")).to_json().unwrap_or(Json::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_lines_contain_no_line_breaks() {
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
        let parsed: Json = serde_json::from_str(&text).unwrap();
        assert_eq!((&parsed["rows"], &parsed["status"], parsed.get("code")), (&2.into(), &200.into(), None));
        assert!(!text.contains('\n') && text.len() < 600, "{text}");
        assert!(text.starts_with(
            r#"{"time":"1970-01-01T00:00:01.500Z","peer":"10.0.0.7:51234","token":"s1","method":"POST","#
        ));
    }
}
