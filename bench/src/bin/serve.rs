//! What `arrowwood serve` takes and gives, beside the limits of the machine: one table of figures, wanted and reached.
//!
//! ```console
//! $ cargo build --release -p arrowwood-cli && cargo run --release -p arrowwood-bench --bin serve -- target/release/arrowwood
//! ```
//! The server is a process of its own, everything goes over loopback. Ways take turns, medians are printed. With `--small` behind
//! the program it only shows that all of it runs; with names of parts, such as `producers`, it measures these. What needs other
//! systems is in `bench/serve.py`.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
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
/// The unanswered batches of a producer whose batches are a stream.
const AHEAD: usize = 64;

/// How much is measured.
#[derive(Clone, Copy)]
struct Sizes {
    /// Bytes of the file that is sent: rows of four columns.
    file: usize,
    rounds: usize,
    followers: usize,
    /// Rows that are appended beside followers, and rows of line protocol.
    appended: usize,
    lines: usize,
    /// How long producers send, and readers read.
    long: Duration,
}

const WHOLE: Sizes = Sizes {
    file: 512 << 20,
    rounds: 7,
    followers: 1_000,
    appended: 1_000_000,
    lines: 10_000_000,
    long: Duration::from_secs(5),
};
const SMALL: Sizes = Sizes {
    file: 16 << 20,
    rounds: 2,
    followers: 50,
    appended: 20_000,
    lines: 100_000,
    long: Duration::from_millis(300),
};

fn main() {
    let program = PathBuf::from(std::env::args().nth(1).expect("the path of the command arrowwood"));
    let folder = std::env::temp_dir().join(format!("arrowwood-bench-serve-{}", std::process::id()));
    fs::create_dir_all(folder.join("data")).expect("a directory");
    let sizes = if std::env::args().any(|option| option == "--small") { SMALL } else { WHOLE };
    let bench = Bench { program, folder: folder.clone(), sizes };
    println!("| figure | wanted | reached |\n| --- | --- | --- |");
    let all: [Section; 6] = [
        ("transfer", Bench::transfer),
        ("producers", Bench::producers),
        ("latency", Bench::latency),
        ("followers", Bench::followers),
        ("reader", Bench::reader),
        ("lines", Bench::lines),
    ];
    let only: Vec<String> = std::env::args().skip(2).filter(|option| option != "--small").collect();
    for (name, measure) in all {
        if only.is_empty() || only.iter().any(|only| only == name) {
            measure(&bench);
        }
    }
    fs::remove_dir_all(folder).expect("the directory is removed");
}

/// A part of the table by its name.
type Section = (&'static str, fn(&Bench));

/// A line of the table.
fn line(figure: &str, wanted: &str, reached: &str) {
    println!("| {figure} | {wanted} | {reached} |");
}

struct Bench {
    program: PathBuf,
    folder: PathBuf,
    sizes: Sizes,
}

struct Server {
    child: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Kilobytes that the kernel says of the process.
    fn memory(&self, name: &str) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.child.id())).expect("the server lives");
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a field of smaps");
        line.trim().trim_end_matches("kB").trim().parse().expect("a number")
    }

    fn private(&self) -> u64 {
        self.memory("Private_Dirty:") + self.memory("Swap:")
    }

    /// Seconds of processor time that the process has had.
    fn busy(&self) -> f64 {
        busy(&self.child.id().to_string())
    }

    fn connect(&self) -> BufReader<TcpStream> {
        let stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        BufReader::new(stream)
    }
}

/// Seconds of processor time of a process, as the kernel counts them: in hundredths.
fn busy(process: &str) -> f64 {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).expect("the process lives");
    let fields = text.rsplit_once(')').expect("a name").1;
    fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<f64>().expect("ticks") / 100.0).sum()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The value below which `part` of all are.
fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * part) as usize]
}

/// Sends a request; its answer's head is read.
fn begin(stream: &mut BufReader<TcpStream>, head: &str, body: &[u8]) -> io::Result<(u16, usize)> {
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
    let (status, len) = begin(stream, head, body).expect("an answer");
    let mut answer = vec![0; len];
    stream.read_exact(&mut answer).expect("a body");
    assert!((200..300).contains(&status), "{status}: {}", String::from_utf8_lossy(&answer));
    answer
}

/// Reads all there is, and says how much that was and when the first byte came.
fn drain(stream: &mut impl Read, begun: Instant) -> (usize, f64) {
    let mut buffer = vec![0; 1 << 20];
    let (mut bytes, mut first) = (0, 0.0);
    loop {
        let len = stream.read(&mut buffer).expect("bytes");
        if bytes == 0 {
            first = begun.elapsed().as_secs_f64();
        }
        bytes += len;
        if len == 0 {
            return (bytes, first);
        }
    }
}

/// The body of an answer, out of its chunks.
struct Chunks(BufReader<TcpStream>, usize);

impl Read for Chunks {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.1 == 0 {
            let mut line = String::new();
            self.0.read_line(&mut line)?;
            self.1 = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
            if self.1 == 0 {
                return Ok(0);
            }
        }
        let most = into.len().min(self.1);
        let len = self.0.read(&mut into[..most])?;
        self.1 -= len;
        if self.1 == 0 {
            self.0.read_exact(&mut [0; 2])?;
        }
        Ok(len)
    }
}

impl Bench {
    fn data(&self, name: &str) -> PathBuf {
        self.folder.join("data").join(name)
    }

    fn serve(&self) -> Server {
        let mut command = Command::new(&self.program);
        command.args(["serve", "--listen", "127.0.0.1:0"]).arg(self.folder.join("data"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the command");
        let mut url = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut url).expect("a line");
        Server { child, address: url.trim().rsplit_once('/').expect("a URL").1.to_owned() }
    }

    // ---- bytes ----

    fn transfer(&self) {
        let path = self.data("big.arrow");
        let Sizes { file, rounds, .. } = self.sizes;
        write_file(&path, file);
        let server = self.serve();
        let private = server.private();
        let (mut raw, mut http, mut read, mut firsts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut most = 0;
        for round in 0..=rounds {
            let plain = send_raw(&path, file);
            let (seconds, first) = get(&server, file);
            let parsed = get_parsed(&server, file);
            most = most.max(server.private().saturating_sub(private));
            // The first round is for the page cache.
            if round > 0 {
                raw.push(plain);
                http.push(seconds);
                firsts.push(first);
                read.push(parsed);
            }
        }
        let gigabytes = file as f64 / 1e9;
        let (raw, http, read, first) = (median(raw), median(http), median(read), median(firsts));
        let shown = format!("{:.2} × ({:.2} : {:.2} GB/s)", raw / http, gigabytes / http, gigabytes / raw);
        line("512 MiB as Arrow over HTTP, bytes received : raw TCP from a mapping", "≥ 0.9 ×", &shown);
        line("the same, read by `read_stream`", "", &format!("{:.2} GB/s", gigabytes / read));
        line("first byte of 512 MiB", "", &format!("{:.2} ms", 1e3 * first));
        line("private memory that sending it adds", "", &format!("{:.1} MiB", most as f64 / 1024.0));
        drop(server);
        fs::remove_file(path).expect("the file is removed");
    }

    // ---- producers ----

    fn table(&self, name: &str) -> Writer {
        let schema = parse_schema("producer: int not null, n: int not null, x: float").expect("a schema");
        Writer::open(self.data(name), Some(Arc::new(schema)), &WriterOptions::default()).expect("a table")
    }

    fn producers(&self) {
        let alone = self.in_process(1);
        let together = self.in_process(PRODUCERS);
        self.table("http").close().expect("a table");
        let server = self.serve();
        let mut one = send_rows(&server, 1, self.sizes.long);
        let (server_before, clients_before) = (server.busy(), busy("self"));
        let mut many = send_rows(&server, PRODUCERS, self.sizes.long);
        let (in_server, in_clients) = (server.busy() - server_before, busy("self") - clients_before);
        self.table("flight").close().expect("a table");
        let streams = send_streams(&server, PRODUCERS, self.sizes.long);
        let mut bare = ask(&server, PRODUCERS, self.sizes.long, |_, _| ("GET /healthz".into(), String::new()));
        let commit = median(alone.clone());
        let sync = median(self.syncs());
        let (median_one, p99) = (quantile(&mut one.1, 0.5), quantile(&mut many.1, 0.99));
        let group = together.len() as f64 * PRODUCERS as f64 / together.iter().sum::<f64>();
        let shown = format!("{:.2} × ({:.0} : {group:.0} rows/s)", many.0 / group, many.0);
        line("64 producers, durable batches of one row : the writer in one process, 64 rows a sync", "≥ 0.5 ×", &shown);
        let shown = format!(
            "{:.2} × ({:.0} : {group:.0} rows/s), 99th of 100 {:.1} ms",
            streams.rate / group,
            streams.rate,
            1e3 * streams.p99
        );
        line(
            "64 producers, each a stream (DoPut) of durable batches of one row, 64 of them unanswered : the same",
            "≥ 0.5 ×",
            &shown,
        );
        let shown = format!("{:.1} µs, {:.1} µs", 1e6 * streams.busy[0], 1e6 * streams.busy[1]);
        line("processor time of each of these rows: server, clients", "", &shown);
        let shown = format!("{:.2} × ({:.2} : {:.2} ms)", median_one / sync, 1e3 * median_one, 1e3 * sync);
        line("durable acknowledgement, one producer, median : pwrite and fdatasync of a page", "≤ 2 ×", &shown);
        line(
            "the same : one durable commit in process",
            "",
            &format!("{:.2} × ({:.2} ms)", median_one / commit, 1e3 * commit),
        );
        let shown = format!("{:.2} × ({:.2} ms)", p99 / sync, 1e3 * p99);
        line("durable acknowledgement, 64 producers, 99th of 100", "≤ 5 ×", &shown);
        let per_row = 1e6 / many.1.len() as f64;
        line(
            "processor time of each of these rows: server, clients",
            "",
            &format!("{:.0} µs, {:.0} µs", per_row * in_server, per_row * in_clients),
        );
        let shown = format!("{:.0} a second, 99th of 100 {:.2} ms", bare.0, 1e3 * quantile(&mut bare.1, 0.99));
        line("the limit: as many clients of the same server that ask for /healthz", "", &shown);
    }

    /// Seconds of each sync of a page that was written.
    fn syncs(&self) -> Vec<f64> {
        let file = fs::File::create(self.folder.join("page")).expect("a file");
        file.set_len(1 << 20).expect("a file");
        let mut times = Vec::new();
        let begun = Instant::now();
        while begun.elapsed() < self.sizes.long / 2 {
            let page = [times.len() as u8; 4096];
            let start = Instant::now();
            file.write_all_at(&page, 4096 * (times.len() as u64 % 256))
                .and_then(|()| file.sync_data())
                .expect("a page");
            times.push(start.elapsed().as_secs_f64());
        }
        times
    }

    /// Seconds of each durable commit of so many rows, in this process.
    fn in_process(&self, rows: usize) -> Vec<f64> {
        let mut writer = self.table(&format!("local{rows}"));
        let begun = Instant::now();
        let mut times = Vec::new();
        while begun.elapsed() < self.sizes.long / 2 {
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

    /// From the commit of a local writer to the row in the hands of a client.
    fn latency(&self) {
        let mut writer = self.table("followed");
        writer.commit().expect("a commit");
        let server = self.serve();
        let mut client = server.connect();
        begin(&mut client, "GET /v1/tables/followed/follow?from=0", b"").expect("an answer");
        let (sender, came) = std::sync::mpsc::channel();
        thread::spawn(move || {
            for batch in read_stream(Chunks(client, 0)).expect("a stream") {
                if batch.is_err() || sender.send(Instant::now()).is_err() {
                    return;
                }
            }
        });
        let mut times = Vec::new();
        for n in 0..500 {
            writer.append_row(&[Value::Int(0), Value::Int(n), Value::Null]).expect("a row");
            let begun = Instant::now();
            writer.commit().expect("a commit");
            times.push((came.recv().expect("a batch") - begun).as_secs_f64());
            thread::sleep(Duration::from_millis(2));
        }
        let (half, most) = (quantile(&mut times, 0.5), quantile(&mut times, 0.99));
        line(
            "commit → remote follower, median (99th of 100)",
            "≤ 1 ms",
            &format!("{:.2} ms ({:.2} ms)", 1e3 * half, 1e3 * most),
        );
    }

    // ---- followers that do not read ----

    fn followers(&self) {
        let mut writer = self.table("stalled");
        let append = |writer: &mut Writer, rows: usize| {
            let begun = Instant::now();
            for n in 0..rows {
                writer.append_row(&[Value::Int(0), Value::Int(n as i64), Value::Float64(0.5)]).expect("a row");
                if n % 100 == 0 {
                    writer.commit().expect("a commit");
                }
            }
            rows as f64 / begun.elapsed().as_secs_f64()
        };
        append(&mut writer, self.sizes.appended / 5);
        let server = self.serve();
        let mut warm = server.connect();
        begin(&mut warm, "GET /v1/tables/stalled/follow?from=0", b"").expect("an answer");
        thread::sleep(Duration::from_millis(200));
        let before = server.private();
        let alone = append(&mut writer, self.sizes.appended);
        let count = self.sizes.followers;
        let stalled: Vec<_> = (0..count)
            .map(|_| {
                let mut client = server.connect();
                begin(&mut client, "GET /v1/tables/stalled/follow?from=0", b"").expect("an answer");
                client
            })
            .collect();
        // Until all have got what they take without reading.
        thread::sleep(Duration::from_secs(2));
        let beside = append(&mut writer, self.sizes.appended);
        // Threads that made what is stalled end when they have nothing to do.
        thread::sleep(Duration::from_secs(12));
        let each = 1024.0 * server.private().saturating_sub(before) as f64 / count as f64;
        line(
            &format!("memory for each of {count} followers that have stalled"),
            "< 16 kB",
            &format!("{:.1} kB", each / 1e3),
        );
        line("the writer beside them : alone", "untouched", &format!("{:.2} ×", beside / alone));
        drop(stalled);
    }

    // ---- local readers ----

    /// A local reader, alone and while a client takes the same file as fast as it comes, from the server and from a thread that only
    /// writes the file to a socket. They share the processors.
    fn reader(&self) {
        let path = self.data("read.arrow");
        write_file(&path, self.sizes.file);
        let server = self.serve();
        let read = || {
            let column = open(&path).and_then(|rows| rows.column("a")).expect("a column");
            let (begun, mut sums) = (Instant::now(), 0);
            while begun.elapsed() < self.sizes.long {
                column.sum().expect("a sum");
                sums += 1;
            }
            f64::from(sums) / begun.elapsed().as_secs_f64()
        };
        let beside = |send: &(dyn Fn() + Sync)| {
            let is_over = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        send();
                    }
                });
                let rate = read();
                is_over.store(true, Ordering::Relaxed);
                rate
            })
        };
        read();
        let alone = read();
        let served = beside(&|| {
            get_named(&server, "read.arrow");
        });
        let raw = beside(&|| {
            send_raw(&path, self.sizes.file);
        });
        let processors = thread::available_parallelism().map_or(0, usize::from);
        let shown = format!(
            "{:.2} × ({processors} processors); beside raw TCP from a mapping {:.2} ×",
            served / alone,
            raw / alone
        );
        line("local reader of a file while it is sent at full speed : alone", "≥ 0.95 ×", &shown);
        drop(server);
        fs::remove_file(path).expect("the file is removed");
    }

    // ---- line protocol ----

    fn lines(&self) {
        const BATCH: usize = 10_000;
        let rows = self.sizes.lines;
        let server = self.serve();
        let next = AtomicU64::new(0);
        let begun = Instant::now();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut client = server.connect();
                    loop {
                        let batch = next.fetch_add(1, Ordering::Relaxed) as usize;
                        if batch * BATCH >= rows {
                            return;
                        }
                        let mut body = String::with_capacity(BATCH * 90);
                        for n in batch * BATCH..(batch + 1) * BATCH {
                            let host = n % 100;
                            body += &format!(
                                "cpu,host=host{host},region=eu usage_user={}.5,usage_system={}i {n}000\n",
                                n % 97,
                                n % 31
                            );
                        }
                        request(&mut client, "POST /write", body.as_bytes());
                    }
                });
            }
        });
        let seconds = begun.elapsed().as_secs_f64();
        assert_eq!(open(self.data("cpu")).expect("a table").len().expect("rows"), rows as u64);
        line(
            &format!("{} M rows of line protocol, durable, 4 connections that make them", rows as f64 / 1e6),
            "≥ QuestDB",
            &format!("{:.2} M rows/s", rows as f64 / seconds / 1e6),
        );
    }
}

fn write_file(path: &Path, bytes: usize) {
    let rows = (bytes / 32 / 256) as i64;
    let batches = (0..256).map(|number| {
        let range = number * rows..(number + 1) * rows;
        let floats =
            |by: f64| Arc::new(Float64Array::from_iter_values(range.clone().map(|n| n as f64 * by))) as ArrayRef;
        let numbers = |add: i64| Arc::new(Int64Array::from_iter_values(range.clone().map(|n| n + add))) as ArrayRef;
        let columns = [("a", numbers(0)), ("b", floats(0.5)), ("c", numbers(1)), ("d", floats(0.25))];
        RecordBatch::try_from_iter(columns).expect("a batch")
    });
    let dataset = Dataset::try_from(batches.collect::<Vec<_>>()).expect("a dataset");
    arrowwood::write(&dataset, path, &WriteOptions::default()).expect("a file");
}

/// Seconds for the file through a socket, a mapping's bytes written as they are.
fn send_raw(path: &Path, file: usize) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = listener.local_addr().expect("an address");
    let path = path.to_path_buf();
    let sender = thread::spawn(move || {
        let mapping = Mapping::open(path, Mode::Read).expect("a mapping");
        let bytes = arrowwood::Bytes::from_mapping(mapping).expect("bytes");
        let (mut stream, _) = listener.accept().expect("a connection");
        for at in (0..bytes.len()).step_by(1 << 20) {
            let piece = bytes.slice(at, (bytes.len() - at).min(1 << 20)).expect("a piece");
            stream.write_all(&piece).expect("it is taken");
        }
    });
    let begun = Instant::now();
    let (bytes, _) = drain(&mut TcpStream::connect(address).expect("a connection"), begun);
    let seconds = begun.elapsed().as_secs_f64();
    sender.join().expect("a sender");
    assert!(bytes >= file);
    seconds
}

/// Seconds for the file over HTTP, and to its first byte.
fn get(server: &Server, file: usize) -> (f64, f64) {
    let begun = Instant::now();
    let (bytes, first) = get_named(server, "big.arrow");
    assert!(bytes >= file, "{bytes} bytes came");
    (begun.elapsed().as_secs_f64(), first)
}

/// Bytes that come, and seconds to the first of them.
fn get_named(server: &Server, name: &str) -> (usize, f64) {
    let mut stream = TcpStream::connect(&server.address).expect("a connection");
    let begun = Instant::now();
    let request = format!("GET /v1/tables/{name}/rows HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it is taken");
    drain(&mut stream, begun)
}

fn get_parsed(server: &Server, file: usize) -> f64 {
    let mut stream = server.connect();
    let begun = Instant::now();
    begin(&mut stream, "GET /v1/tables/big.arrow/rows", b"").expect("an answer");
    let rows: usize =
        read_stream(Chunks(stream, 0)).expect("a stream").map(|batch| batch.expect("a batch").num_rows()).sum();
    assert_eq!(rows * 32, file);
    begun.elapsed().as_secs_f64()
}

/// Rows a second of so many producers, and the seconds that each waited.
fn send_rows(server: &Server, producers: usize, long: Duration) -> (f64, Vec<f64>) {
    let row = |producer: usize, n: usize| {
        ("POST /v1/tables/http/rows".into(), format!("{{\"producer\":{producer},\"n\":{n},\"x\":0.5}}"))
    };
    ask(server, producers, long, row)
}

/// What producers whose batches are streams got done.
struct StreamResults {
    /// Acknowledged rows a second.
    rate: f64,
    /// Seconds that 99 of 100 batches waited at most.
    p99: f64,
    /// Seconds of processor time of a row: of the server, of the clients.
    busy: [f64; 2],
}

/// So many producers, each with a call of its own, over which it sends batches of one row: up to `AHEAD` unanswered ones.
fn send_streams(server: &Server, producers: usize, long: Duration) -> StreamResults {
    let is_over = AtomicBool::new(false);
    let before = [server.busy(), busy("self")];
    let begun = Instant::now();
    let waited: Vec<Vec<f64>> = thread::scope(|scope| {
        let is_over = &is_over;
        let threads: Vec<_> =
            (0..producers).map(|number| scope.spawn(move || send_stream(server, number, is_over))).collect();
        thread::sleep(long);
        is_over.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().expect("a producer")).collect()
    });
    let seconds = begun.elapsed().as_secs_f64();
    let mut waited = waited.concat();
    let rows = waited.len() as f64;
    let busy = [(server.busy() - before[0]) / rows, (busy("self") - before[1]) / rows];
    StreamResults { rate: rows / seconds, p99: quantile(&mut waited, 0.99), busy }
}

/// The seconds that each batch of a producer waited.
fn send_stream(server: &Server, number: usize, is_over: &AtomicBool) -> Vec<f64> {
    let row = |n: usize| {
        let ints = |value: i64| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
        let float = Arc::new(Float64Array::from(vec![0.5])) as ArrayRef;
        let columns = [("producer", ints(number as i64)), ("n", ints(n as i64)), ("x", float)];
        Dataset::try_from(vec![RecordBatch::try_from_iter(columns).expect("a batch")]).expect("a dataset")
    };
    let command = format!("flight?producer=p{number}&sequence=0");
    let mut put = PutStream::begin(&server.address, &command, &row(0));
    let mut sent: VecDeque<Instant> = VecDeque::new();
    let (mut waited, mut next) = (Vec::new(), 0);
    loop {
        while sent.len() < AHEAD && !is_over.load(Ordering::Relaxed) {
            put.add(&row(next));
            sent.push_back(Instant::now());
            next += 1;
        }
        put.send();
        if sent.is_empty() {
            return waited;
        }
        for answer in put.receive() {
            let expected = format!("\"sequence\":{},\"duplicate\":false", waited.len());
            assert!(answer.contains(&expected), "{answer}: {expected}");
            assert!(number_in(&answer, "durable") > number_in(&answer, "first_row"), "{answer}");
            waited.push(sent.pop_front().expect("a batch").elapsed().as_secs_f64());
        }
    }
}

/// A number in an answer.
fn number_in(answer: &str, name: &str) -> u64 {
    let rest = answer.split_once(&format!("\"{name}\":")).expect("a member").1;
    rest.split([',', '}']).next().and_then(|digits| digits.parse().ok()).expect("a number")
}

/// Requests a second of so many clients, each of which waits for its answers, and the seconds that each waited. `what` gives head
/// and body of a client's request of that number.
fn ask(
    server: &Server,
    clients: usize,
    long: Duration,
    what: impl Fn(usize, usize) -> (String, String) + Sync,
) -> (f64, Vec<f64>) {
    let is_over = AtomicBool::new(false);
    let begun = Instant::now();
    let waited: Vec<Vec<f64>> = thread::scope(|scope| {
        let (is_over, what) = (&is_over, &what);
        let threads: Vec<_> = (0..clients)
            .map(|number| {
                let mut client = server.connect();
                scope.spawn(move || {
                    let mut waited = Vec::new();
                    while !is_over.load(Ordering::Relaxed) {
                        let (head, body) = what(number, waited.len());
                        let begun = Instant::now();
                        request(&mut client, &head, body.as_bytes());
                        waited.push(begun.elapsed().as_secs_f64());
                    }
                    waited
                })
            })
            .collect();
        thread::sleep(long);
        is_over.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().expect("a producer")).collect()
    });
    let waited = waited.concat();
    (waited.len() as f64 / begun.elapsed().as_secs_f64(), waited)
}
