//! Compares `arrowwood serve` with the limits of the machine, and prints a table of figures.
//!
//! ```console
//! $ cargo build --release -p arrowwood-cli && cargo run --release -p arrowwood-bench --bin serve -- target/release/arrowwood
//! ```
//! The server is a process of its own, and everything goes over loopback. The sides of a comparison are measured
//! alternately, and medians are printed. With `--small` after the program, it only shows that everything runs; names of
//! sections, such as `producers`, select these. `bench/serve.py` has the comparisons that need other systems.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrowwood::{Dataset, Mapping, Mode, Value, WriteOptions, Writer, WriterOptions, open, parse_schema, read_stream};
use arrowwood_bench::put_stream::PutStream;

const PRODUCERS: usize = 64;
/// The maximum of unanswered batches of a producer that sends a stream.
const MAX_UNANSWERED: usize = 64;

/// The sizes of all measurements.
#[derive(Clone, Copy)]
struct Sizes {
    /// Bytes of the file that is sent, which has four columns of eight bytes.
    file_bytes: usize,
    rounds: usize,
    followers: usize,
    /// Rows that are appended beside followers.
    appended_rows: usize,
    /// Rows of line protocol.
    lines: usize,
    /// The time during which producers send, and readers read.
    duration: Duration,
}

const FULL: Sizes = Sizes {
    file_bytes: 512 << 20,
    rounds: 7,
    followers: 1_000,
    appended_rows: 1_000_000,
    lines: 10_000_000,
    duration: Duration::from_secs(5),
};
const SMALL: Sizes = Sizes {
    file_bytes: 16 << 20,
    rounds: 2,
    followers: 50,
    appended_rows: 20_000,
    lines: 100_000,
    duration: Duration::from_millis(300),
};

fn main() {
    let program = PathBuf::from(std::env::args().nth(1).expect("the path of the command arrowwood"));
    let folder = std::env::temp_dir().join(format!("arrowwood-bench-serve-{}", std::process::id()));
    fs::create_dir_all(folder.join("data")).expect("a directory");
    let sizes = if std::env::args().any(|option| option == "--small") { SMALL } else { FULL };
    let bench = Bench { program, folder: folder.clone(), sizes };
    println!("| figure | wanted | reached |\n| --- | --- | --- |");
    let sections: [Section; 6] = [
        ("transfer", Bench::transfer),
        ("producers", Bench::producers),
        ("latency", Bench::latency),
        ("followers", Bench::followers),
        ("reader", Bench::reader),
        ("lines", Bench::lines),
    ];
    let selected: Vec<String> = std::env::args().skip(2).filter(|option| option != "--small").collect();
    for (name, measure) in sections {
        if selected.is_empty() || selected.iter().any(|selected| selected == name) {
            measure(&bench);
        }
    }
    fs::remove_dir_all(folder).expect("the directory is removed");
}

/// A section of the table: its name, and what measures and prints it.
type Section = (&'static str, fn(&Bench));

fn print_line(figure: &str, wanted: &str, measured: &str) {
    println!("| {figure} | {wanted} | {measured} |");
}

struct Bench {
    /// The command `arrowwood`.
    program: PathBuf,
    folder: PathBuf,
    sizes: Sizes,
}

/// A running server, which is killed when it is dropped.
struct Server {
    child: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail if the server has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Returns a field of the process's memory statistics, in kilobytes.
    fn memory_kb(&self, name: &str) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.child.id())).expect("the server lives");
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a field of smaps");
        line.trim().trim_end_matches("kB").trim().parse().expect("a number")
    }

    fn private_memory_kb(&self) -> u64 {
        self.memory_kb("Private_Dirty:") + self.memory_kb("Swap:")
    }

    fn processor_seconds(&self) -> f64 {
        processor_seconds(&self.child.id().to_string())
    }

    fn connect(&self) -> BufReader<TcpStream> {
        let stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        BufReader::new(stream)
    }
}

/// Returns the processor time of a process (its id, or `self`), which the kernel counts in hundredths of seconds.
fn processor_seconds(process: &str) -> f64 {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).expect("the process lives");
    let fields = text.rsplit_once(')').expect("a name").1;
    fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<f64>().expect("ticks") / 100.0).sum()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the value below which this fraction of all values is.
fn quantile(values: &mut [f64], fraction: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * fraction) as usize]
}

/// Sends a request, and reads the head of its response. Returns the status and the content length.
fn begin_request(stream: &mut BufReader<TcpStream>, head: &str, body: &[u8]) -> io::Result<(u16, usize)> {
    let head = format!(
        "{head} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.get_mut().write_all(&[head.as_bytes(), body].concat())?;
    let (mut line, mut len) = (String::new(), 0);
    stream.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        match line.trim_end().split_once(": ") {
            Some(("content-length", value)) => len = value.parse().unwrap_or(0),
            Some(_) => (),
            None => return Ok((status, len)),
        }
    }
}

fn request(stream: &mut BufReader<TcpStream>, head: &str, body: &[u8]) -> Vec<u8> {
    let (status, len) = begin_request(stream, head, body).expect("an answer");
    let mut answer = vec![0; len];
    stream.read_exact(&mut answer).expect("a body");
    assert!((200..300).contains(&status), "{status}: {}", String::from_utf8_lossy(&answer));
    answer
}

/// The bytes that a stream had.
struct Drained {
    bytes: usize,
    seconds_to_first_byte: f64,
}

/// Reads a stream to its end, discarding the bytes.
fn drain(stream: &mut impl Read, start: Instant) -> Drained {
    let mut buffer = vec![0; 1 << 20];
    let mut drained = Drained { bytes: 0, seconds_to_first_byte: 0.0 };
    loop {
        let len = stream.read(&mut buffer).expect("bytes");
        if drained.bytes == 0 {
            drained.seconds_to_first_byte = start.elapsed().as_secs_f64();
        }
        drained.bytes += len;
        if len == 0 {
            return drained;
        }
    }
}

/// Reads the body of a response with chunked transfer encoding.
struct ChunkedBody {
    stream: BufReader<TcpStream>,
    /// Bytes left of the current chunk.
    chunk_left: usize,
}

impl ChunkedBody {
    fn new(stream: BufReader<TcpStream>) -> ChunkedBody {
        ChunkedBody { stream, chunk_left: 0 }
    }
}

impl Read for ChunkedBody {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.chunk_left == 0 {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            self.chunk_left = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
            if self.chunk_left == 0 {
                return Ok(0);
            }
        }
        let max_len = buffer.len().min(self.chunk_left);
        let len = self.stream.read(&mut buffer[..max_len])?;
        self.chunk_left -= len;
        if self.chunk_left == 0 {
            // The line end after a chunk.
            self.stream.read_exact(&mut [0; 2])?;
        }
        Ok(len)
    }
}

impl Bench {
    fn data_path(&self, name: &str) -> PathBuf {
        self.folder.join("data").join(name)
    }

    fn start_server(&self) -> Server {
        let mut command = Command::new(&self.program);
        command.args(["serve", "--listen", "127.0.0.1:0"]).arg(self.folder.join("data"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the command");
        let mut url = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut url).expect("a line");
        Server { child, address: url.trim().rsplit_once('/').expect("a URL").1.to_owned() }
    }

    // ---- bytes ----

    fn transfer(&self) {
        let path = self.data_path("big.arrow");
        let Sizes { file_bytes, rounds, .. } = self.sizes;
        write_file(&path, file_bytes);
        let server = self.start_server();
        let memory_before = server.private_memory_kb();
        let mut added_memory_kb = 0;
        let (mut raw_times, mut http_times, mut parsed_times) = (Vec::new(), Vec::new(), Vec::new());
        let mut first_byte_times = Vec::new();
        for round in 0..=rounds {
            let raw_time = time_raw_transfer(&path, file_bytes);
            let http = time_download(&server, "big.arrow", file_bytes);
            let parsed_time = time_parsed_download(&server, file_bytes);
            added_memory_kb = added_memory_kb.max(server.private_memory_kb().saturating_sub(memory_before));
            // The first round fills the page cache.
            if round > 0 {
                raw_times.push(raw_time);
                http_times.push(http.seconds);
                first_byte_times.push(http.seconds_to_first_byte);
                parsed_times.push(parsed_time);
            }
        }
        let gigabytes = file_bytes as f64 / 1e9;
        let (raw, http, parsed) = (median(raw_times), median(http_times), median(parsed_times));
        let measured = format!("{:.2} × ({:.2} : {:.2} GB/s)", raw / http, gigabytes / http, gigabytes / raw);
        print_line("512 MiB as Arrow over HTTP, bytes received : raw TCP from a mapping", "≥ 0.9 ×", &measured);
        print_line("the same, read by `read_stream`", "", &format!("{:.2} GB/s", gigabytes / parsed));
        print_line("first byte of 512 MiB", "", &format!("{:.2} ms", 1e3 * median(first_byte_times)));
        let added_mib = added_memory_kb as f64 / 1024.0;
        print_line("private memory that sending it adds", "", &format!("{added_mib:.1} MiB"));
        drop(server);
        fs::remove_file(path).expect("the file is removed");
    }

    // ---- producers ----

    fn create_table(&self, name: &str) -> Writer {
        let schema = parse_schema("producer: int not null, n: int not null, x: float").expect("a schema");
        Writer::open(self.data_path(name), Some(Arc::new(schema)), &WriterOptions::default()).expect("a table")
    }

    fn producers(&self) {
        let duration = self.sizes.duration;
        let single_commits = self.time_local_commits(1);
        let group_commits = self.time_local_commits(PRODUCERS);
        self.create_table("http").close().expect("a table");
        let server = self.start_server();
        let mut one = send_rows(&server, 1, duration);
        let (server_before, clients_before) = (server.processor_seconds(), processor_seconds("self"));
        let mut many = send_rows(&server, PRODUCERS, duration);
        let server_time = server.processor_seconds() - server_before;
        let clients_time = processor_seconds("self") - clients_before;
        self.create_table("flight").close().expect("a table");
        let streams = send_streams(&server, PRODUCERS, duration);
        let health_check = |_, _| Request { head: "GET /healthz".into(), body: String::new() };
        let mut health_checks = request_repeatedly(&server, PRODUCERS, duration, health_check);

        let group_rate = (group_commits.len() * PRODUCERS) as f64 / group_commits.iter().sum::<f64>();
        let commit = median(single_commits);
        let sync = median(self.time_syncs());
        let one_median = quantile(&mut one.waits, 0.5);
        let many_p99 = quantile(&mut many.waits, 0.99);
        let measured = format!("{:.2} × ({:.0} : {group_rate:.0} rows/s)", many.rate / group_rate, many.rate);
        print_line(
            "64 producers, durable batches of one row : the writer in one process, 64 rows a sync",
            "≥ 0.5 ×",
            &measured,
        );
        let measured = format!(
            "{:.2} × ({:.0} : {group_rate:.0} rows/s), 99th of 100 {:.1} ms",
            streams.rate / group_rate,
            streams.rate,
            1e3 * streams.p99
        );
        print_line(
            "64 producers, each a stream (DoPut) of durable batches of one row, 64 of them unanswered : the same",
            "≥ 0.5 ×",
            &measured,
        );
        let measured =
            format!("{:.1} µs, {:.1} µs", 1e6 * streams.server_time_per_row, 1e6 * streams.client_time_per_row);
        print_line("processor time of each of these rows: server, clients", "", &measured);
        let measured = format!("{:.2} × ({:.2} : {:.2} ms)", one_median / sync, 1e3 * one_median, 1e3 * sync);
        print_line(
            "durable acknowledgement, one producer, median : pwrite and fdatasync of a page",
            "≤ 2 ×",
            &measured,
        );
        let measured = format!("{:.2} × ({:.2} ms)", one_median / commit, 1e3 * commit);
        print_line("the same : one durable commit in process", "", &measured);
        let measured = format!("{:.2} × ({:.2} ms)", many_p99 / sync, 1e3 * many_p99);
        print_line("durable acknowledgement, 64 producers, 99th of 100", "≤ 5 ×", &measured);
        let us_per_row = 1e6 / many.waits.len() as f64;
        let measured = format!("{:.0} µs, {:.0} µs", us_per_row * server_time, us_per_row * clients_time);
        print_line("processor time of each of these rows: server, clients", "", &measured);
        let health_p99 = quantile(&mut health_checks.waits, 0.99);
        let measured = format!("{:.0} a second, 99th of 100 {:.2} ms", health_checks.rate, 1e3 * health_p99);
        print_line("the limit: as many clients of the same server that ask for /healthz", "", &measured);
    }

    /// Returns the seconds of each write and sync of a page.
    fn time_syncs(&self) -> Vec<f64> {
        let file = fs::File::create(self.folder.join("page")).expect("a file");
        file.set_len(1 << 20).expect("a file");
        let mut times = Vec::new();
        let start_of_all = Instant::now();
        while start_of_all.elapsed() < self.sizes.duration / 2 {
            let page = [times.len() as u8; 4096];
            let start = Instant::now();
            file.write_all_at(&page, 4096 * (times.len() as u64 % 256))
                .and_then(|()| file.sync_data())
                .expect("a page");
            times.push(start.elapsed().as_secs_f64());
        }
        times
    }

    /// Returns the seconds of each durable commit of `rows` rows in this process.
    fn time_local_commits(&self, rows: usize) -> Vec<f64> {
        let mut writer = self.create_table(&format!("local{rows}"));
        let start_of_all = Instant::now();
        let mut times = Vec::new();
        while start_of_all.elapsed() < self.sizes.duration / 2 {
            let start = Instant::now();
            for n in 0..rows {
                writer
                    .append_row(&[Value::Int(n as i64), Value::Int(times.len() as i64), Value::Float64(0.5)])
                    .expect("a row");
            }
            writer.commit().and_then(|()| writer.sync()).expect("a commit");
            times.push(start.elapsed().as_secs_f64());
        }
        times
    }

    // ---- latency ----

    /// Measures the time from the commit of a local writer until a client has received the row.
    fn latency(&self) {
        let mut writer = self.create_table("followed");
        writer.commit().expect("a commit");
        let server = self.start_server();
        let client = follow_table(&server, "followed");
        let (sender, receive_times) = std::sync::mpsc::channel();
        thread::spawn(move || {
            for batch in read_stream(ChunkedBody::new(client)).expect("a stream") {
                if batch.is_err() || sender.send(Instant::now()).is_err() {
                    return;
                }
            }
        });
        let mut times = Vec::new();
        for n in 0..500 {
            writer.append_row(&[Value::Int(0), Value::Int(n), Value::Null]).expect("a row");
            let start = Instant::now();
            writer.commit().expect("a commit");
            times.push((receive_times.recv().expect("a batch") - start).as_secs_f64());
            thread::sleep(Duration::from_millis(2));
        }
        let (median, p99) = (quantile(&mut times, 0.5), quantile(&mut times, 0.99));
        let measured = format!("{:.2} ms ({:.2} ms)", 1e3 * median, 1e3 * p99);
        print_line("commit → remote follower, median (99th of 100)", "≤ 1 ms", &measured);
    }

    // ---- followers that do not read ----

    fn followers(&self) {
        let mut writer = self.create_table("stalled");
        append_rows(&mut writer, self.sizes.appended_rows / 5);
        let server = self.start_server();
        // The first follower also creates what all share.
        let _first_follower = follow_table(&server, "stalled");
        thread::sleep(Duration::from_millis(200));
        let memory_before = server.private_memory_kb();
        let rate_alone = append_rows(&mut writer, self.sizes.appended_rows);
        let count = self.sizes.followers;
        let stalled: Vec<_> = (0..count).map(|_| follow_table(&server, "stalled")).collect();
        // Waits until all have received what they accept without reading.
        thread::sleep(Duration::from_secs(2));
        let rate_beside = append_rows(&mut writer, self.sizes.appended_rows);
        // The threads that encoded what is stalled end after being idle.
        thread::sleep(Duration::from_secs(12));
        let added_memory_kb = server.private_memory_kb().saturating_sub(memory_before);
        let bytes_per_follower = 1024.0 * added_memory_kb as f64 / count as f64;
        print_line(
            &format!("memory for each of {count} followers that have stalled"),
            "< 16 kB",
            &format!("{:.1} kB", bytes_per_follower / 1e3),
        );
        let measured = format!("{:.2} ×", rate_beside / rate_alone);
        print_line("the writer beside them : alone", "untouched", &measured);
        drop(stalled);
    }

    // ---- local readers ----

    /// Measures a local reader alone, and while a client downloads the same file as fast as possible: from the server, and
    /// from a thread that only writes the file to a socket. All of them share the processors.
    fn reader(&self) {
        let path = self.data_path("read.arrow");
        write_file(&path, self.sizes.file_bytes);
        let server = self.start_server();
        // The first run warms up the page cache.
        self.sums_per_second(&path);
        let alone = self.sums_per_second(&path);
        let beside_server = self.sums_per_second_beside(&path, || {
            download(&server, "read.arrow");
        });
        let beside_raw = self.sums_per_second_beside(&path, || {
            time_raw_transfer(&path, self.sizes.file_bytes);
        });
        let processors = thread::available_parallelism().map_or(0, usize::from);
        let measured = format!(
            "{:.2} × ({processors} processors); beside raw TCP from a mapping {:.2} ×",
            beside_server / alone,
            beside_raw / alone
        );
        print_line("local reader of a file while it is sent at full speed : alone", "≥ 0.95 ×", &measured);
        drop(server);
        fs::remove_file(path).expect("the file is removed");
    }

    fn sums_per_second(&self, path: &Path) -> f64 {
        let column = open(path).and_then(|rows| rows.column("a")).expect("a column");
        let start = Instant::now();
        let mut sums = 0;
        while start.elapsed() < self.sizes.duration {
            column.sum().expect("a sum");
            sums += 1;
        }
        f64::from(sums) / start.elapsed().as_secs_f64()
    }

    /// Measures sums while another thread repeats `work`.
    fn sums_per_second_beside(&self, path: &Path, work: impl Fn() + Sync) -> f64 {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    work();
                }
            });
            let rate = self.sums_per_second(path);
            is_over.store(true, Ordering::Relaxed);
            rate
        })
    }

    // ---- line protocol ----

    fn lines(&self) {
        const BATCH: usize = 10_000;
        const CONNECTIONS: usize = 4;
        let rows = self.sizes.lines;
        let server = self.start_server();
        let next_batch = AtomicU64::new(0);
        let start = Instant::now();
        thread::scope(|scope| {
            for _ in 0..CONNECTIONS {
                scope.spawn(|| {
                    let mut client = server.connect();
                    loop {
                        let first_row = BATCH * next_batch.fetch_add(1, Ordering::Relaxed) as usize;
                        if first_row >= rows {
                            return;
                        }
                        let body = line_protocol(first_row..first_row + BATCH);
                        request(&mut client, "POST /write", body.as_bytes());
                    }
                });
            }
        });
        let seconds = start.elapsed().as_secs_f64();
        assert_eq!(open(self.data_path("cpu")).expect("a table").len().expect("rows"), rows as u64);
        print_line(
            &format!("{} M rows of line protocol, durable, 4 connections that make them", rows as f64 / 1e6),
            "≥ QuestDB",
            &format!("{:.2} M rows/s", rows as f64 / seconds / 1e6),
        );
    }
}

/// Follows a table from its first row on; returns the connection after the head of the response.
fn follow_table(server: &Server, table: &str) -> BufReader<TcpStream> {
    let mut client = server.connect();
    begin_request(&mut client, &format!("GET /v1/tables/{table}/follow?from=0"), b"").expect("an answer");
    client
}

/// Appends rows, and commits each hundred. Returns the rows per second.
fn append_rows(writer: &mut Writer, rows: usize) -> f64 {
    let start = Instant::now();
    for n in 0..rows {
        writer.append_row(&[Value::Int(0), Value::Int(n as i64), Value::Float64(0.5)]).expect("a row");
        if n % 100 == 0 {
            writer.commit().expect("a commit");
        }
    }
    rows as f64 / start.elapsed().as_secs_f64()
}

fn line_protocol(rows: Range<usize>) -> String {
    const MAX_LINE: usize = 90;
    let mut text = String::with_capacity(rows.len() * MAX_LINE);
    for n in rows {
        let host = n % 100;
        text += &format!("cpu,host=host{host},region=eu usage_user={}.5,usage_system={}i {n}000\n", n % 97, n % 31);
    }
    text
}

/// Writes a file of about `bytes` bytes: 256 batches of four columns.
fn write_file(path: &Path, bytes: usize) {
    const BATCHES: i64 = 256;
    const BYTES_PER_ROW: usize = 32;
    let batch_rows = (bytes / BYTES_PER_ROW) as i64 / BATCHES;
    let batches = (0..BATCHES).map(|number| {
        let first = number * batch_rows;
        let columns = [
            ("a", integers(first, batch_rows, 0)),
            ("b", floats(first, batch_rows, 0.5)),
            ("c", integers(first, batch_rows, 1)),
            ("d", floats(first, batch_rows, 0.25)),
        ];
        RecordBatch::try_from_iter(columns).expect("a batch")
    });
    let dataset = Dataset::try_from(batches.collect::<Vec<_>>()).expect("a dataset");
    arrowwood::write(&dataset, path, &WriteOptions::default()).expect("a file");
}

fn integers(first: i64, count: i64, offset: i64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values((first..first + count).map(|n| n + offset)))
}

fn floats(first: i64, count: i64, factor: f64) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values((first..first + count).map(|n| n as f64 * factor)))
}

/// Returns the seconds of sending a mapped file through a socket as it is.
fn time_raw_transfer(path: &Path, file_bytes: usize) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = listener.local_addr().expect("an address");
    let path = path.to_path_buf();
    let sender = thread::spawn(move || {
        let mapping = Mapping::open(path, Mode::Read).expect("a mapping");
        let bytes = arrowwood::Bytes::from_mapping(mapping).expect("bytes");
        let (mut stream, _) = listener.accept().expect("a connection");
        for start in (0..bytes.len()).step_by(1 << 20) {
            let piece = bytes.slice(start, (bytes.len() - start).min(1 << 20)).expect("a piece");
            stream.write_all(&piece).expect("it is taken");
        }
    });
    let start = Instant::now();
    let received = drain(&mut TcpStream::connect(address).expect("a connection"), start);
    let seconds = start.elapsed().as_secs_f64();
    sender.join().expect("a sender");
    assert!(received.bytes >= file_bytes);
    seconds
}

/// The times of a download.
struct DownloadTimes {
    seconds: f64,
    seconds_to_first_byte: f64,
}

fn time_download(server: &Server, name: &str, file_bytes: usize) -> DownloadTimes {
    let start = Instant::now();
    let Drained { bytes, seconds_to_first_byte } = download(server, name);
    assert!(bytes >= file_bytes, "{bytes} bytes came");
    DownloadTimes { seconds: start.elapsed().as_secs_f64(), seconds_to_first_byte }
}

/// Downloads a file, discarding the bytes.
fn download(server: &Server, name: &str) -> Drained {
    let mut stream = TcpStream::connect(&server.address).expect("a connection");
    let start = Instant::now();
    let request = format!("GET /v1/tables/{name}/rows HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it is taken");
    drain(&mut stream, start)
}

/// Returns the seconds of downloading a file, and reading it as an Arrow stream.
fn time_parsed_download(server: &Server, file_bytes: usize) -> f64 {
    let mut stream = server.connect();
    let start = Instant::now();
    begin_request(&mut stream, "GET /v1/tables/big.arrow/rows", b"").expect("an answer");
    let batches = read_stream(ChunkedBody::new(stream)).expect("a stream");
    let rows: usize = batches.map(|batch| batch.expect("a batch").num_rows()).sum();
    assert_eq!(rows * 32, file_bytes);
    start.elapsed().as_secs_f64()
}

/// A request of a client: method and path, and a body.
struct Request {
    head: String,
    body: String,
}

/// The results of clients that wait for each response.
struct ResponseTimes {
    /// Responses per second.
    rate: f64,
    /// The seconds of each request.
    waits: Vec<f64>,
}

/// Sends batches of one row from so many producers, each of which waits for its acknowledgements.
fn send_rows(server: &Server, producers: usize, duration: Duration) -> ResponseTimes {
    request_repeatedly(server, producers, duration, |producer, n| Request {
        head: "POST /v1/tables/http/rows".into(),
        body: format!("{{\"producer\":{producer},\"n\":{n},\"x\":0.5}}"),
    })
}

/// Sends requests from so many clients, each of which waits for its responses. `request_of` returns the request of a client
/// with this number.
fn request_repeatedly(
    server: &Server,
    clients: usize,
    duration: Duration,
    request_of: impl Fn(usize, usize) -> Request + Sync,
) -> ResponseTimes {
    let is_over = AtomicBool::new(false);
    let start = Instant::now();
    let waits: Vec<Vec<f64>> = thread::scope(|scope| {
        let (is_over, request_of) = (&is_over, &request_of);
        let mut threads = Vec::new();
        for number in 0..clients {
            let mut client = server.connect();
            threads.push(scope.spawn(move || {
                let mut waits = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let Request { head, body } = request_of(number, waits.len());
                    let start = Instant::now();
                    request(&mut client, &head, body.as_bytes());
                    waits.push(start.elapsed().as_secs_f64());
                }
                waits
            }));
        }
        thread::sleep(duration);
        is_over.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().expect("a producer")).collect()
    });
    let waits = waits.concat();
    ResponseTimes { rate: waits.len() as f64 / start.elapsed().as_secs_f64(), waits }
}

/// The results of producers that send their batches as streams.
struct StreamTimes {
    /// Acknowledged rows per second.
    rate: f64,
    /// The seconds that 99 of 100 batches waited at most.
    p99: f64,
    /// Processor seconds.
    server_time_per_row: f64,
    client_time_per_row: f64,
}

/// Sends batches of one row from so many producers. Each has a call of its own, with up to `MAX_UNANSWERED` batches under way.
fn send_streams(server: &Server, producers: usize, duration: Duration) -> StreamTimes {
    let is_over = AtomicBool::new(false);
    let (server_before, clients_before) = (server.processor_seconds(), processor_seconds("self"));
    let start = Instant::now();
    let waits: Vec<Vec<f64>> = thread::scope(|scope| {
        let is_over = &is_over;
        let threads: Vec<_> =
            (0..producers).map(|number| scope.spawn(move || send_stream(server, number, is_over))).collect();
        thread::sleep(duration);
        is_over.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().expect("a producer")).collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    let mut waits = waits.concat();
    let rows = waits.len() as f64;
    StreamTimes {
        rate: rows / seconds,
        p99: quantile(&mut waits, 0.99),
        server_time_per_row: (server.processor_seconds() - server_before) / rows,
        client_time_per_row: (processor_seconds("self") - clients_before) / rows,
    }
}

/// Sends the batches of one producer; returns the seconds that each waited for its acknowledgement.
fn send_stream(server: &Server, producer: usize, is_over: &AtomicBool) -> Vec<f64> {
    let command = format!("flight?producer=p{producer}&sequence=0");
    let mut put = PutStream::begin(&server.address, &command, &one_row(producer, 0));
    let mut send_times: VecDeque<Instant> = VecDeque::new();
    let (mut waits, mut next) = (Vec::new(), 0);
    loop {
        while send_times.len() < MAX_UNANSWERED && !is_over.load(Ordering::Relaxed) {
            put.add(&one_row(producer, next));
            send_times.push_back(Instant::now());
            next += 1;
        }
        put.send();
        if send_times.is_empty() {
            return waits;
        }
        for answer in put.receive() {
            let expected = format!("\"sequence\":{},\"duplicate\":false", waits.len());
            assert!(answer.contains(&expected), "{answer}: {expected}");
            assert!(json_number(&answer, "durable") > json_number(&answer, "first_row"), "{answer}");
            waits.push(send_times.pop_front().expect("a batch").elapsed().as_secs_f64());
        }
    }
}

fn one_row(producer: usize, n: usize) -> Dataset {
    let columns =
        [("producer", integers(producer as i64, 1, 0)), ("n", integers(n as i64, 1, 0)), ("x", floats(1, 1, 0.5))];
    Dataset::try_from(vec![RecordBatch::try_from_iter(columns).expect("a batch")]).expect("a dataset")
}

/// Returns the number that is a member of a JSON object.
fn json_number(object: &str, name: &str) -> u64 {
    let rest = object.split_once(&format!("\"{name}\":")).expect("a member").1;
    rest.split([',', '}']).next().and_then(|digits| digits.parse().ok()).expect("a number")
}
