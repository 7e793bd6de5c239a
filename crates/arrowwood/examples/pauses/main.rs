//! Writes a table for readers that pause, in `tests/python/test_pauses.py`: `pauses TABLE COLUMNS number|text`.
//!
//! Each line of input is a number of seconds: commits rows for that long, and prints how many rows there are. Time is
//! simulated, with the real constants, unless `ARROWWOOD_PAUSES` is set.

use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_schema::{DataType, Field, Schema};
use arrowwood::simulate::simulate_elapsed;
use arrowwood::{Value, Writer, WriterOptions};

/// The shortest interval at which a writer publishes rows to other readers.
const PUBLISH_INTERVAL: Duration = Duration::from_micros(15_640);

/// A table in which each row is committed.
struct BusyTable {
    writer: Writer,
    column_count: usize,
    has_text: bool,
    row_count: usize,
}

impl BusyTable {
    fn create(path: &Path, column_count: usize, has_text: bool) -> arrowwood::Result<BusyTable> {
        let names: Vec<String> = (0..column_count).map(|column| format!("column {column}")).collect();
        let data_type = if has_text { DataType::Utf8 } else { DataType::Int64 };
        let fields: Vec<_> = names.iter().map(|name| Field::new(name, data_type.clone(), true)).collect();
        let options = WriterOptions {
            dictionary: if has_text { names } else { Vec::new() },
            // A reader takes all bytes from the first column to the last, so that wide tables get small segments.
            segment_rows: (column_count > 10).then_some(1 << 16),
            ..WriterOptions::default()
        };
        let writer = Writer::open(path, Some(Arc::new(Schema::new(fields))), &options)?;
        Ok(BusyTable { writer, column_count, has_text, row_count: 0 })
    }

    /// Commits a row.
    fn commit(&mut self) -> arrowwood::Result<()> {
        let row = self.row_count;
        if self.has_text {
            // There is a new value every seventh row.
            let texts: Vec<_> = (0..self.column_count).map(|column| format!("{column}: {}", row - row % 7)).collect();
            self.writer.append_row(&texts.iter().map(|text| Value::Str(text)).collect::<Vec<_>>())?;
        } else {
            let numbers = (0..self.column_count).map(|column| Value::Int((1000 * row + column) as i64));
            self.writer.append_row(&numbers.collect::<Vec<_>>())?;
        }
        self.writer.commit()?;
        self.row_count += 1;
        Ok(())
    }

    fn write_for(&mut self, time: Duration, is_real: bool) -> arrowwood::Result<()> {
        let start = Instant::now();
        let mut simulated = Duration::ZERO;
        // Commits take real time, also in simulated time.
        while simulated + start.elapsed() < time {
            if !is_real {
                simulate_elapsed(PUBLISH_INTERVAL);
                simulated += PUBLISH_INTERVAL;
            }
            self.commit()?;
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, column_count, kind] = &arguments[..] else {
        eprintln!("pauses TABLE COLUMNS number|text");
        std::process::exit(2);
    };
    let is_real = std::env::var_os("ARROWWOOD_PAUSES").is_some();
    let mut table = BusyTable::create(Path::new(path), column_count.parse()?, kind == "text")?;
    for line in io::stdin().lines() {
        table.write_for(Duration::from_secs_f64(line?.parse()?), is_real)?;
        println!("{}", table.row_count);
    }
    Ok(())
}
