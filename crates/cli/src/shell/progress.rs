//! Progress on the terminal.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How long an operation takes before its progress is shown.
const PROGRESS_DELAY: Duration = Duration::from_secs(1);

/// A progress bar on the terminal for operations longer than [`PROGRESS_DELAY`]. It does nothing if standard error is
/// not a terminal.
pub(crate) struct Progress {
    /// What is being done, as the bar says it.
    operation: String,
    start: Instant,
    is_visible: bool,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn new(operation: impl Into<String>) -> Progress {
        #[expect(clippy::disallowed_methods, reason = "nothing is printed")]
        let is_visible = io::stderr().is_terminal();
        Progress { operation: operation.into(), start: Instant::now(), is_visible, bar: None }
    }

    /// Creates a bar for an operation that prints rows. It does nothing if they go to a terminal, to keep the bar out
    /// of their lines.
    pub(crate) fn for_output(operation: impl Into<String>) -> Progress {
        let mut progress = Progress::new(operation);
        progress.is_visible &= !io::stdout().is_terminal();
        progress
    }

    /// Reports that `done` units of `total` are done.
    pub(crate) fn update(&mut self, done: u64, total: u64) {
        if self.is_visible && self.bar.is_none() && self.start.elapsed() > PROGRESS_DELAY {
            self.bar = Some(progress_bar(&self.operation, total));
        }
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn progress_bar(operation: &str, total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {percent} %, {eta} left");
    ProgressBar::new(total)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(operation.to_string())
}
