//! The part of the demo that moves: another process appends to a table, and this one follows it.

use std::env;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arrow_schema::{DataType, Field, Schema, TimeUnit};
use arrowwood::{Dataset, Error, Value, Writer, WriterOptions, follow, open};

use crate::shell::{Failure, Outcome, Stdout};

/// Rows that the other process appends, and its rest between them.
const ROWS: usize = 25;
const REST: Duration = Duration::from_millis(100);

/// What other libraries make of the folder while it grows.
const OTHERS: &str = r#"
import sys
try:
    import pyarrow, pyarrow.dataset
    rows = pyarrow.dataset.dataset(sys.argv[1], format="arrow").count_rows()
    print(f"pyarrow {pyarrow.__version__} has read the same folder meanwhile: {rows} rows")
except ImportError:
    pass
try:
    import polars
    rows = polars.scan_ipc(sys.argv[1] + "/").select(polars.len()).collect().item()
    print(f"polars {polars.__version__} has read the same folder meanwhile: {rows} rows")
except ImportError:
    pass
"#;

/// Starts the other process and prints its rows as they come.
pub(crate) fn show(folder: &Path, out: &mut Stdout) -> Outcome {
    let table = folder.join("ticks");
    let fields = vec![
        Field::new("sent", DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())), false),
        Field::new("symbol", DataType::Utf8, false),
        Field::new("price", DataType::Float64, false),
    ];
    let options = WriterOptions { dictionary: vec!["symbol".into()], ..WriterOptions::default() };
    Writer::open(&table, Some(Arc::new(Schema::new(fields))), &options)?.close()?;
    writeln!(out, "\na table that grows, {}: another process appends, this one follows", table.display())?;
    out.flush()?;
    let coming = follow(&open(&table)?, None, Some(20 * REST))?;
    let mut writer = spawn(&table)?;
    let others = look(&table);
    let mut followed = 0;
    for rows in coming {
        followed += print(&rows?, out)?;
        out.flush()?;
        if followed >= ROWS as u64 {
            break;
        }
    }
    let others = others.and_then(|child| child.wait_with_output().ok());
    write!(out, "{}", String::from_utf8_lossy(&others.map_or(Vec::new(), |output| output.stdout)))?;
    let ended = writer.wait().map_err(|e| Error::io("waiting for the appending process", &e))?;
    match ended.success() {
        true => sum(&table, out),
        false => Err(Failure::hint("the appending process has failed")),
    }
}

fn sum(table: &Path, out: &mut Stdout) -> Outcome {
    let dataset = open(table)?;
    Ok(writeln!(out, "{} rows, the sum of price is {}", dataset.len()?, dataset.column("price")?.sum()?)?)
}

/// Prints rows with their age, and returns how many there are.
fn print(rows: &Dataset, out: &mut Stdout) -> Outcome<u64> {
    for row in rows.rows() {
        let row = row?;
        let age = match row.get(0)? {
            Value::Timestamp(sent, ..) => now().saturating_sub(sent) / 1000,
            _ => 0,
        };
        let [sent, symbol, price] = [row.get(0)?.to_string(), row.get(1)?.to_string(), row.get(2)?.to_string()];
        writeln!(out, "{sent}  {symbol:4}  {price:>6}  seen after {age} µs")?;
    }
    Ok(rows.len()?)
}

/// Nanoseconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// This program again, which may be Python's.
fn spawn(table: &Path) -> Outcome<Child> {
    let program = env::current_exe().map_err(|e| Error::io("looking for this program", &e))?;
    let is_python = program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"));
    let mut command = Command::new(program);
    command.args(is_python.then_some(["-m", "arrowwood._cli"]).into_iter().flatten());
    command.args(["demo", "--append"]).arg(table).stdin(Stdio::null());
    Ok(command.spawn().map_err(|e| Error::io("starting another process", &e))?)
}

/// Lets Python's libraries read the table, where they are.
fn look(table: &Path) -> Option<Child> {
    let python = env::var_os("PYTHON").unwrap_or("python3".into());
    let mut command = Command::new(python);
    command.args(["-c", OTHERS]).arg(table).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().ok()
}

/// What the other process does.
pub(crate) fn append(table: &Path, symbols: &[&str], prices: &[f64]) -> Outcome {
    let mut writer = Writer::open(table, None, &WriterOptions::default())?;
    let start = Instant::now();
    for (number, &price) in prices.iter().take(ROWS).enumerate() {
        std::thread::sleep((REST * number as u32).saturating_sub(start.elapsed()));
        let symbol = symbols.get(number % symbols.len().max(1)).copied().unwrap_or_default();
        writer.append_row(&[Value::Int(now()), Value::Str(symbol), Value::Float64(price)])?;
        writer.commit()?;
    }
    Ok(writer.close()?)
}
