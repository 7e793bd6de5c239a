//! Implements `arrowwood view`.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrowwood::Dataset;
use arrowwood::mapping::os::create_private_dir;
use arrowwood_serve::{BlockingEngine, BlockingQuery, Options, Server, SqlEngine};
use clap::Args;

use crate::engine::Engine;
use crate::shell::{CliResult, Stdout};

/// Programs that open a URL in the user's browser.
const OPENERS: [&str; 4] = ["xdg-open", "open", "wslview", "sensible-browser"];

/// Look at data in the browser: rows, columns, plots, and the bytes of the file.
///
/// Prints the page's URL as the first line, and opens it in the browser. The URL has a token that is made for this run;
/// nothing is shown without it. Only this machine is served, nothing is written, and nothing comes from the internet.
/// Ends with Ctrl-C.
#[derive(Args)]
#[command(after_help = "Example: arrowwood view ticks.arrow\n\
                  Example: arrowwood view 'logs/*.arrow' --no-browser")]
pub(crate) struct View {
    /// Address to listen on, of this machine; port 0 selects a free one.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    listen: String,
    /// Only print the URL.
    #[arg(long)]
    no_browser: bool,
    /// A file, a table, a glob, or a directory of .arrow files.
    #[arg(value_name = "PATH")]
    path: PathBuf,
}

impl View {
    pub(crate) fn run(&self, out: &mut Stdout, engine: Option<&'static dyn Engine>) -> CliResult {
        let sql = engine.map(|engine| engine.server_engine().unwrap_or_else(|| page_engine(engine)));
        let options = Options { listen: self.listen.clone(), sql, ..Options::default() };
        let server = Server::view(&self.path, &options)?;
        server.handle_signals()?;
        writeln!(out, "{}", server.url())?;
        out.flush()?;
        if !self.no_browser {
            open_browser(server.url());
        }
        Ok(server.run()?)
    }
}

/// Returns the server's engine for an engine that answers one query at a time.
fn page_engine(engine: &'static dyn Engine) -> Arc<dyn SqlEngine> {
    let blocking = BlockingEngine::new(move |query: &BlockingQuery| {
        engine.sql_on_path(&query.text, &query.path, query.most, &query.given_up)
    });
    Arc::new(blocking.with_parquet(move |rows| write_unnamed_parquet(engine, rows)))
}

/// Writes rows to a Parquet file without a name, which is removed once it is closed.
fn write_unnamed_parquet(engine: &dyn Engine, rows: &Dataset) -> Result<File, String> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("arrowwood-{}-{number}", std::process::id()));
    // Creation fails if the folder exists, and its mode keeps other users out: only this process writes into it.
    create_private_dir(&folder).map_err(|e| parquet_error(&folder, &e))?;
    let path = folder.join("rows.parquet");
    let written =
        engine.write_parquet(rows, &path).and_then(|()| File::open(&path).map_err(|e| parquet_error(&folder, &e)));
    std::fs::remove_dir_all(&folder).map_err(|e| parquet_error(&folder, &e))?;
    written
}

fn parquet_error(folder: &Path, error: &io::Error) -> String {
    format!("writing Parquet in {}: {error}", folder.display())
}

/// Opens the URL in the browser, if one can be started. The URL was printed, too.
fn open_browser(url: &str) {
    for opener in OPENERS {
        let spawned =
            Command::new(opener).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        if let Ok(mut child) = spawned {
            // The opener ends at once, or with the browser. Waiting for it keeps it from becoming a zombie.
            std::thread::spawn(move || child.wait());
            return;
        }
    }
}
