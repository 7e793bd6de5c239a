//! One question of three servers beside the same of one: `make bench-cluster`, or `cargo run --release --example cluster --
//! FOLDER`, which needs 3 GB of disk in the folder, and the program `arrowwood-datafusion` beside it.

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use arrowwood::{SyncPolicy, Writer, WriterOptions};
use arrowwood_datafusion::{Cluster, PeerOptions, Table};
use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::Int32Type;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::*;

type Outcome<T> = Result<T, Box<dyn Error>>;

const QUERY: &str =
    "select symbol, count(*) as n, sum(price) as prices, sum(size) as sizes from ticks group by symbol order by symbol";
/// Rows of all servers, and what a row has in the columns that the query reads.
const ROWS: i64 = 54_000_000;
const ROW: i64 = 20;
const BATCH: i64 = 1 << 16;
const RUNS: usize = 5;

fn ticks(start: i64, rows: i64) -> Outcome<RecordBatch> {
    let each = || start..start + rows;
    let symbols: Vec<String> = (0..1_000).map(|n| format!("S{n:03}")).collect();
    let keys = Int32Array::from_iter_values(each().map(|n| (n * 7_919 % 1_000) as i32));
    let symbols = DictionaryArray::<Int32Type>::try_new(keys, Arc::new(StringArray::from(symbols)))?;
    Ok(RecordBatch::try_from_iter([
        ("symbol", Arc::new(symbols) as ArrayRef),
        // Halves are added exactly, in whatever order.
        ("price", Arc::new(Float64Array::from_iter_values(each().map(|n| (n * 31 % 60_000) as f64 / 2.0)))),
        ("size", Arc::new(Int64Array::from_iter_values(each().map(|n| n % 700)))),
    ])?)
}

fn table(path: &Path, rows: std::ops::Range<i64>) -> Outcome<()> {
    if path.exists() {
        return Ok(());
    }
    let options = WriterOptions { sync: SyncPolicy::Never, ..WriterOptions::default() };
    let mut writer = Writer::open(path, Some(ticks(0, 1)?.schema()), &options)?;
    for start in rows.clone().step_by(BATCH as usize) {
        writer.append(&ticks(start, BATCH.min(rows.end - start))?)?;
    }
    writer.commit()?;
    Ok(writer.close()?)
}

struct Server {
    process: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// The bytes that it has sent and received.
    fn moved(&self) -> Outcome<u64> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        write!(stream, "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let counts =
            answer.lines().filter(|line| line.contains("sent_bytes_total") || line.contains("received_bytes_total"));
        let counts = counts
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        Ok(counts.sum())
    }
}

/// Servers of these directories, and the file that lists them.
fn serve(directories: &[PathBuf], list: &Path) -> Outcome<Vec<Server>> {
    let free = directories.iter().map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>()?;
    let ports = free.iter().map(|one| Ok(one.local_addr()?.port())).collect::<Outcome<Vec<_>>>()?;
    drop(free);
    let lines: Vec<String> = ports.iter().map(|port| format!("http://127.0.0.1:{port}\n")).collect();
    fs::write(list, lines.concat())?;
    let program = std::env::current_exe()?.with_file_name("../arrowwood-datafusion");
    let start = |(directory, port): (&PathBuf, u16)| {
        let listen = format!("127.0.0.1:{port}");
        let mut command = Command::new(&program);
        command.arg("serve").arg(directory).args(["--listen", &listen, "--worker"]).arg(list);
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        Ok(Server { process, port })
    };
    directories.iter().zip(ports).map(start).collect()
}

/// The median of the milliseconds.
fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The answer of a cluster, its time, and the most bytes that went over the network for one.
async fn measured(servers: &[Server], list: &Path) -> Outcome<(String, f64, u64)> {
    let cluster = Cluster::open(list, &PeerOptions::default())?;
    let ask = async || Ok::<_, Box<dyn Error>>(cluster.query(QUERY).await?.collect().await?.1);
    let moved = || servers.iter().map(Server::moved).sum::<Outcome<u64>>();
    let answer = pretty_format_batches(&ask().await?)?.to_string();
    let mut times = Vec::new();
    let mut most = 0;
    for _ in 0..RUNS {
        let before = moved()?;
        let begun = Instant::now();
        ask().await?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
        // What was moved between two servers is counted by both.
        most = most.max(moved()? - before);
    }
    Ok((answer, median(times), most))
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("a folder is expected")?);
    let rows = ROWS / 3;
    let thirds: Vec<PathBuf> = (0..3).map(|n| folder.join(format!("third{n}"))).collect();
    let whole = folder.join("whole");
    for (n, third) in thirds.iter().enumerate() {
        fs::create_dir_all(third)?;
        table(&third.join("ticks"), rows * n as i64..rows * (n as i64 + 1))?;
    }
    fs::create_dir_all(&whole)?;
    table(&whole.join("ticks"), 0..ROWS)?;
    let scanned = ROWS * ROW;

    let (three, three_ms, three_bytes) = {
        let list = folder.join("three.txt");
        let servers = serve(&thirds, &list)?;
        measured(&servers, &list).await?
    };
    let (one, one_ms, one_bytes) = {
        let list = folder.join("one.txt");
        let servers = serve(std::slice::from_ref(&whole), &list)?;
        measured(&servers, &list).await?
    };
    let context = SessionContext::new();
    context.register_table("ticks", Arc::new(Table::open(whole.join("ticks"))?))?;
    let local = pretty_format_batches(&context.sql(QUERY).await?.collect().await?)?.to_string();
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let begun = Instant::now();
        context.sql(QUERY).await?.collect().await?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    let local_ms = median(times);
    if three != one || one != local {
        return Err("the answers differ".into());
    }
    println!(
        "| group by 1,000 symbols, {:.2} GB scanned, {} cores | time | bytes over the network |",
        scanned as f64 / 1e9,
        std::thread::available_parallelism()?
    );
    println!("|---|---:|---:|");
    println!(
        "| three servers of a third each | {three_ms:.0} ms | {} kB, {:.3} % of what was scanned |",
        three_bytes / 1_000,
        three_bytes as f64 * 100.0 / scanned as f64
    );
    println!("| one server | {one_ms:.0} ms | {} kB |", one_bytes / 1_000);
    println!("| in one process, without a server | {local_ms:.0} ms | 0 |");
    println!("three servers : one server = {:.2}", three_ms / one_ms);
    Ok(())
}
