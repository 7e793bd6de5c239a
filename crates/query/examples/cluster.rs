//! Measures a query over three servers, over one server with all rows, and in one process.
//!
//! Run it by `make bench-cluster`, or by `cargo run --release --example cluster -- FOLDER`. It needs 3 GB of disk in
//! the folder, and the program `arrowwood-datafusion` of the same build.

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use arrowwood::{SyncPolicy, Writer, WriterOptions};
use arrowwood_datafusion::Table;
use arrowwood_query::{ClientOptions, Cluster};
use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::Int32Type;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::*;

type Outcome<T> = Result<T, Box<dyn Error>>;

const QUERY: &str =
    "select symbol, count(*) as n, sum(price) as prices, sum(size) as sizes from ticks group by symbol order by symbol";
/// The rows of all servers together.
const ROWS: i64 = 54_000_000;
/// The bytes of a row in the columns that the query reads.
const ROW_BYTES: i64 = 20;
const BATCH_ROWS: i64 = 1 << 16;
const RUNS: usize = 5;

fn tick_rows(start: i64, rows: i64) -> Outcome<RecordBatch> {
    let numbers = start..start + rows;
    let symbols: Vec<String> = (0..1_000).map(|n| format!("S{n:03}")).collect();
    let keys = Int32Array::from_iter_values(numbers.clone().map(|n| (n * 7_919 % 1_000) as i32));
    let symbols = DictionaryArray::<Int32Type>::try_new(keys, Arc::new(StringArray::from(symbols)))?;
    Ok(RecordBatch::try_from_iter([
        ("symbol", Arc::new(symbols) as ArrayRef),
        // Multiples of a half, so that sums are exact in any order.
        ("price", Arc::new(Float64Array::from_iter_values(numbers.clone().map(|n| (n * 31 % 60_000) as f64 / 2.0)))),
        ("size", Arc::new(Int64Array::from_iter_values(numbers.clone().map(|n| n % 700)))),
    ])?)
}

/// Writes a table unless it exists.
fn write_table(path: &Path, rows: Range<i64>) -> Outcome<()> {
    if path.exists() {
        return Ok(());
    }
    let options = WriterOptions { sync: SyncPolicy::Never, ..WriterOptions::default() };
    let mut writer = Writer::open(path, Some(tick_rows(0, 1)?.schema()), &options)?;
    for start in rows.clone().step_by(BATCH_ROWS as usize) {
        writer.append(&tick_rows(start, BATCH_ROWS.min(rows.end - start))?)?;
    }
    writer.commit()?;
    Ok(writer.close()?)
}

/// A server process, which is killed on drop.
struct Server {
    process: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails if it has ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    fn start(directory: &Path, port: u16, list: &Path) -> Outcome<Server> {
        let program = std::env::current_exe()?.with_file_name("../arrowwood-datafusion");
        let listen = format!("127.0.0.1:{port}");
        let mut command = Command::new(&program);
        command.arg("serve").arg(directory).args(["--listen", &listen, "--worker"]).arg(list);
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        Ok(Server { process, port })
    }

    /// Returns the bytes that the server has sent and received, from its metrics.
    fn network_bytes(&self) -> Outcome<u64> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        write!(stream, "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        let mut bytes = 0;
        for line in response.lines().filter(|line| !line.starts_with('#')) {
            if (line.contains("sent_bytes_total") || line.contains("received_bytes_total"))
                && let Some((_, value)) = line.rsplit_once(' ')
                && let Ok(value) = value.parse::<u64>()
            {
                bytes += value;
            }
        }
        Ok(bytes)
    }
}

/// Starts a server for each directory, and writes the file that lists them.
fn start_servers(directories: &[PathBuf], list: &Path) -> Outcome<Vec<Server>> {
    // Bound at the same time, so that ports differ.
    let listeners = directories.iter().map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>()?;
    let mut ports = Vec::with_capacity(listeners.len());
    for listener in &listeners {
        ports.push(listener.local_addr()?.port());
    }
    drop(listeners);
    let lines: Vec<String> = ports.iter().map(|port| format!("http://127.0.0.1:{port}\n")).collect();
    fs::write(list, lines.concat())?;
    directories.iter().zip(ports).map(|(directory, port)| Server::start(directory, port, list)).collect()
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// The result of a benchmark.
struct Measurement {
    /// The rows of the answer as text.
    answer: String,
    median_ms: f64,
    /// The maximum bytes that one run sent over the network. Bytes between two servers count twice.
    network_bytes: u64,
}

/// Runs the query on a cluster.
async fn run_query(cluster: &Cluster) -> Outcome<Vec<RecordBatch>> {
    Ok(cluster.query(QUERY).await?.collect().await?.1)
}

fn total_network_bytes(servers: &[Server]) -> Outcome<u64> {
    servers.iter().map(Server::network_bytes).sum()
}

async fn measure_cluster(servers: &[Server], list: &Path) -> Outcome<Measurement> {
    let cluster = Cluster::open(list, &ClientOptions::default())?;
    let answer = pretty_format_batches(&run_query(&cluster).await?)?.to_string();
    let mut times_ms = Vec::new();
    let mut network_bytes = 0;
    for _ in 0..RUNS {
        let bytes_before = total_network_bytes(servers)?;
        let start = Instant::now();
        run_query(&cluster).await?;
        times_ms.push(start.elapsed().as_secs_f64() * 1e3);
        network_bytes = network_bytes.max(total_network_bytes(servers)? - bytes_before);
    }
    Ok(Measurement { answer, median_ms: median(times_ms), network_bytes })
}

/// Runs the query over the table at `path` in this process.
async fn measure_local(path: &Path) -> Outcome<Measurement> {
    let context = SessionContext::new();
    context.register_table("ticks", Arc::new(Table::open(path)?))?;
    let answer = pretty_format_batches(&context.sql(QUERY).await?.collect().await?)?.to_string();
    let mut times_ms = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        context.sql(QUERY).await?.collect().await?;
        times_ms.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(Measurement { answer, median_ms: median(times_ms), network_bytes: 0 })
}

async fn measure_servers(directories: &[PathBuf], list: &Path) -> Outcome<Measurement> {
    let servers = start_servers(directories, list)?;
    measure_cluster(&servers, list).await
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("a folder is expected")?);
    let third_rows = ROWS / 3;
    let thirds: Vec<PathBuf> = (0..3).map(|n| folder.join(format!("third{n}"))).collect();
    for (n, third) in (0..).zip(&thirds) {
        fs::create_dir_all(third)?;
        write_table(&third.join("ticks"), third_rows * n..third_rows * (n + 1))?;
    }
    let whole = folder.join("whole");
    fs::create_dir_all(&whole)?;
    write_table(&whole.join("ticks"), 0..ROWS)?;

    let three = measure_servers(&thirds, &folder.join("three.txt")).await?;
    let one = measure_servers(std::slice::from_ref(&whole), &folder.join("one.txt")).await?;
    let local = measure_local(&whole.join("ticks")).await?;
    if three.answer != one.answer || one.answer != local.answer {
        return Err("the answers differ".into());
    }
    let scanned_bytes = ROWS * ROW_BYTES;
    println!(
        "| group by 1,000 symbols, {:.2} GB scanned, {} cores | time | bytes over the network |",
        scanned_bytes as f64 / 1e9,
        std::thread::available_parallelism()?
    );
    println!("|---|---:|---:|");
    println!(
        "| three servers of a third each | {:.0} ms | {} kB, {:.3} % of what was scanned |",
        three.median_ms,
        three.network_bytes / 1_000,
        three.network_bytes as f64 * 100.0 / scanned_bytes as f64
    );
    println!("| one server | {:.0} ms | {} kB |", one.median_ms, one.network_bytes / 1_000);
    println!("| in one process, without a server | {:.0} ms | 0 |", local.median_ms);
    println!("three servers : one server = {:.2}", three.median_ms / one.median_ms);
    Ok(())
}
