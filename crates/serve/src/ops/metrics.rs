//! Counts what the server does, and reports it in Prometheus' format.

use std::fmt::Display;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use super::log;

/// The classes of statuses, from 1xx to 5xx: the first digits of the status.
const STATUS_CLASSES: std::ops::RangeInclusive<u16> = 1..=5;
/// The number of statuses in a class.
const CLASS_SIZE: u16 = 100;
const MICROS_PER_SECOND: f64 = 1e6;

/// Counters since the start of the server. Each is a number by itself, so that relaxed ordering is enough.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Responses by the class of their status; there is none of class 0.
    responses: [Counter; *STATUS_CLASSES.end() as usize + 1],
    pub connections: Gauge,
    pub refused_connections: Counter,
    pub requests: Gauge,
    pub followers: Gauge,
    pub sent: Counter,
    pub received: Counter,
    commits: Counter,
    batches: Counter,
    rows: Counter,
    syncs: Counter,
    /// The time of all syncs, in microseconds.
    sync_micros: Counter,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that grows and shrinks.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicI64);

impl Gauge {
    pub fn add(&self, more: i64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Metrics {
    /// Counts a response.
    pub fn answered(&self, status: u16) {
        if let Some(responses) = self.responses.get(usize::from(status / CLASS_SIZE)) {
            responses.add(1);
        }
    }

    /// Counts a commit with its batches and rows.
    pub fn committed(&self, batches: usize, rows: u64) {
        self.commits.add(1);
        self.batches.add(batches as u64);
        self.rows.add(rows);
    }

    /// Counts a sync, and the time that it took.
    pub fn synced(&self, took: Duration) {
        self.syncs.add(1);
        self.sync_micros.add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// Returns all numbers in Prometheus' text format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        write_head(&mut text, "responses_total", "counter", "Responses by class of status.");
        for class in STATUS_CLASSES {
            let count = self.responses[usize::from(class)].get();
            text += &format!("arrowwood_responses_total{{status=\"{class}xx\"}} {count}\n");
        }

        let counters = [
            (
                "refused_connections_total",
                "Connections beyond the limit, which may only ask how the server is.",
                &self.refused_connections,
            ),
            ("sent_bytes_total", "Bytes sent, before TLS.", &self.sent),
            ("received_bytes_total", "Bytes received, after TLS.", &self.received),
            ("commits_total", "Commits of tables.", &self.commits),
            ("batches_total", "Batches of rows that were committed, or refused alone.", &self.batches),
            ("rows_total", "Rows that were committed.", &self.rows),
            (
                "syncs_total",
                "Times that a table was brought to the disk because a producer waited for it.",
                &self.syncs,
            ),
        ];
        for (name, help, counter) in counters {
            write_number(&mut text, name, "counter", help, counter.get());
        }

        let help = "Lines of the log that could not be written.";
        write_number(&mut text, "log_dropped_lines_total", "counter", help, log::dropped());
        let seconds = self.sync_micros.get() as f64 / MICROS_PER_SECOND;
        write_number(&mut text, "sync_seconds_total", "counter", "Time that those took.", seconds);

        let gauges = [
            ("connections", "Open connections.", &self.connections),
            ("requests", "Requests under way.", &self.requests),
            ("followers", "Streams that follow a table.", &self.followers),
        ];
        for (name, help, gauge) in gauges {
            write_number(&mut text, name, "gauge", help, gauge.get());
        }
        text
    }
}

fn write_head(text: &mut String, name: &str, kind: &str, help: &str) {
    *text += &format!("# HELP arrowwood_{name} {help}\n# TYPE arrowwood_{name} {kind}\n");
}

fn write_number(text: &mut String, name: &str, kind: &str, help: &str, value: impl Display) {
    write_head(text, name, kind, help);
    *text += &format!("arrowwood_{name} {value}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_has_help_a_type_and_a_value() {
        let metrics = Metrics::default();
        metrics.answered(204);
        metrics.answered(999);
        metrics.committed(3, 12);
        metrics.synced(Duration::from_millis(1500));
        let text = metrics.text();
        for line in [
            "arrowwood_responses_total{status=\"2xx\"} 1",
            "arrowwood_batches_total 3",
            "arrowwood_rows_total 12",
            "arrowwood_sync_seconds_total 1.5",
            "# TYPE arrowwood_connections gauge",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        assert_eq!(text.matches("# HELP").count(), text.matches("# TYPE").count());
    }
}
