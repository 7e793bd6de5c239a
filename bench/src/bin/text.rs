//! Converts a text to Arrow without Python, for profilers and for comparing two changes.
//!
//! ```console
//! $ cargo run --release -p arrowwood-bench --bin text -- TEXT [OUT [RUNS]]
//! ```
//! Reads `TEXT` (CSV if its name ends with `.csv`, JSON lines otherwise) into memory, or to the file `OUT` unless that is
//! `-`. Prints the seconds of each run.

use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrowwood::{
    CsvOptions, Dataset, FileWriter, JsonOptions, Result, TextBatches, TextFile, TextTarget, read_csv_in_order,
    read_json_in_order,
};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (text, out, runs) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [text] => (text, "-", 3),
        [text, out] => (text, out, 3),
        [text, out, runs] => (text, out, runs.parse().expect("a number of runs")),
        _ => {
            eprintln!("usage: text TEXT [OUT [RUNS]]");
            std::process::exit(2);
        }
    };
    for _ in 0..runs {
        let start = Instant::now();
        let rows = if out == "-" { read_to_memory(text)? } else { read_to_file(text, out)? };
        println!("{rows} rows in {:.3} s", start.elapsed().as_secs_f64());
    }
    Ok(())
}

fn read(text: &str, target: &mut dyn TextTarget) -> Result<SchemaRef> {
    let file = TextFile::new(text)?;
    if text.ends_with(".csv") {
        read_csv_in_order(&|| file.open(), &CsvOptions::default(), target)
    } else {
        read_json_in_order(&|| file.open(), &JsonOptions::default(), target)
    }
}

fn read_to_memory(text: &str) -> Result<u64> {
    let mut memory = TextBatches::default();
    let schema = read(text, &mut memory)?;
    Dataset::from_batches(schema, memory.batches)?.len()
}

fn read_to_file(text: &str, out: &str) -> Result<u64> {
    let mut file = ArrowFile { path: out, writer: None, rows: 0 };
    read(text, &mut file)?;
    file.writer.map_or(Ok(()), FileWriter::finish)?;
    Ok(file.rows)
}

/// Writes batches to a file, which is created with the first schema.
struct ArrowFile<'a> {
    path: &'a str,
    writer: Option<FileWriter>,
    rows: u64,
}

impl TextTarget for ArrowFile<'_> {
    fn begin(&mut self, schema: &SchemaRef) -> Result<()> {
        self.rows = 0;
        self.writer = Some(FileWriter::create(self.path, schema.clone(), None)?);
        Ok(())
    }

    fn take(&mut self, batch: RecordBatch) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        let rows = Dataset::from_batches(batch.schema(), vec![batch])?;
        self.writer.as_mut().map_or(Ok(()), |writer| writer.write(&rows))
    }
}
