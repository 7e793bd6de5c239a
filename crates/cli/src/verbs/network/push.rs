//! Implements `arrowwood push`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrowwood::blocking::CancelToken;
use arrowwood::readable::{format_bytes, plural};
use arrowwood::{Error, Result};
use arrowwood_objects::{PushOptions, push};
use clap::Args;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::emulate_default_handler;

use crate::shell::{CliResult, Progress, Stdout, print_json, printable_path};

/// Copy a table's rows to an object store, as Arrow files that any reader takes.
///
/// Goes on where it stopped: objects are called by the number of their first row, are there whole or not at all, and
/// are never replaced. The last rows there must be the table's. Rows of the file that grows stay until it is full, or
/// the table is compacted, and rows that a power cut may take until they are durable. Credentials are taken from
/// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and AWS_REGION, another server from AWS_ENDPOINT_URL.
#[derive(Args)]
#[command(after_help = "Example: arrowwood push ticks s3://bucket/ticks")]
pub(crate) struct Push {
    /// Copy also the durable rows of the file that grows.
    #[arg(long)]
    all: bool,
    /// The most rows of a batch: as many as are read together. By default those of some 480 KiB.
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(1..))]
    batch_rows: Option<u64>,
    /// Go on though the table has dropped all rows that are in the store, and was moved since or is a copy.
    #[arg(long)]
    unseen: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The table directory.
    #[arg(value_name = "TABLE")]
    table: PathBuf,
    /// The folder to copy to: s3://BUCKET/PATH, or file:///PATH.
    #[arg(value_name = "URL")]
    url: String,
}

const NO_SIGNAL: usize = 0;

/// Signals that cancel the upload, so that the store can be told, and then end this program.
struct Signals {
    cancel: CancelToken,
    /// The number of the signal that was caught; [`NO_SIGNAL`] if none was.
    caught: Arc<AtomicUsize>,
}

impl Signals {
    fn catch() -> Result<Signals> {
        let signals = Signals { cancel: CancelToken::default(), caught: Arc::new(AtomicUsize::new(NO_SIGNAL)) };
        for signal in [SIGINT, SIGTERM] {
            signals.register(signal).map_err(|e| Error::io("waiting for signals", &e))?;
        }
        Ok(signals)
    }

    fn register(&self, signal: i32) -> io::Result<()> {
        // A second signal, which arrives when the flag is set, ends the program at once.
        flag::register_conditional_default(signal, self.cancel.flag())?;
        flag::register(signal, self.cancel.flag())?;
        flag::register_usize(signal, self.caught.clone(), signal as usize)?;
        Ok(())
    }

    /// Ends the program as the signal would have done, if one was caught.
    fn reraise(&self) {
        let signal = self.caught.load(Ordering::Relaxed);
        if signal != NO_SIGNAL {
            let _ = emulate_default_handler(signal as i32);
        }
    }
}

impl Push {
    pub(crate) fn run(&self, out: &mut Stdout) -> CliResult {
        let name = printable_path(&self.table);
        let mut progress = Progress::new(format!("pushing {name}"));
        let options =
            PushOptions { all: self.all, batch_rows: self.batch_rows, unseen: self.unseen, ..PushOptions::default() };
        let signals = Signals::catch()?;
        let pushed =
            signals.cancel.run(|| push(&self.table, &self.url, &options, |done, total| progress.update(done, total)));
        drop(progress);
        signals.reraise();
        let pushed = pushed?;
        if self.json {
            let summary = json!({
                "table": self.table.to_string_lossy(), "rows": pushed.rows, "objects": pushed.objects,
                "bytes": pushed.bytes, "end": pushed.end, "left": pushed.left,
            });
            return Ok(print_json(out, summary)?);
        }
        let rows = plural(pushed.rows, "row", "rows");
        let objects = plural(pushed.objects, "object", "objects");
        let bytes = format_bytes(pushed.bytes);
        let rest = match pushed.left {
            0 => "all are there".into(),
            left => format!("{} not yet, in the file that grows or not durable", plural(left, "row", "rows")),
        };
        Ok(writeln!(out, "{name}: {rows} pushed, {objects} of {bytes}; {rest}")?)
    }
}
