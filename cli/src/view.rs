//! `arrowwood view`.

use std::fs::{DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrowwood::Dataset;
use arrowwood_serve::{BlockingEngine, BlockingQuery, Options, Server, SqlEngine};
use clap::Args;

use crate::shell::{CliResult, Stdout};
use crate::sql::Engine;

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
        let sql = engine.map(|engine| {
            let answer =
                move |asked: &BlockingQuery| engine.sql_on_path(&asked.text, &asked.path, asked.most, &asked.given_up);
            let of_page = BlockingEngine::new(answer).with_parquet(move |rows| parquet(engine, rows));
            engine.server_engine().unwrap_or_else(|| Arc::new(of_page) as Arc<dyn SqlEngine>)
        });
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

/// Rows as a file of Parquet, which has no name, so that it is gone when it was sent.
fn parquet(engine: &dyn Engine, rows: &Dataset) -> Result<File, String> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("arrowwood-{}-{number}", std::process::id()));
    let failed = |e: std::io::Error| format!("writing Parquet in {}: {e}", folder.display());
    // Nobody else can have made it, or put something into it.
    DirBuilder::new().mode(0o700).create(&folder).map_err(failed)?;
    let path = folder.join("rows.parquet");
    let written = engine.write_parquet(rows, &path).and_then(|()| File::open(&path).map_err(failed));
    std::fs::remove_dir_all(&folder).map_err(failed).and(written)
}

/// Opens the URL where there is a browser; it was printed for everybody else.
fn open_browser(url: &str) {
    let started = OPENERS.iter().find_map(|opener| {
        let quiet = || Stdio::null();
        Command::new(opener).arg(url).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn().ok()
    });
    if let Some(mut opener) = started {
        // It ends at once, or with the browser; until then it is not left as a zombie.
        std::thread::spawn(move || opener.wait());
    }
}
