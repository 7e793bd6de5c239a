//! Tests statements that run in query processes, against the same statements in one process, and servers that start
//! such processes.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrowwood::{Dataset, Error, ErrorKind, Writer, WriterOptions, open};
use arrowwood_query::{ProcessEngine, QueryEngine};
use arrowwood_serve::{SqlEngine, SqlError, SqlMemory, SqlPlan, SqlQuery, SqlTables};
use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{Int32Type, Int64Type, SchemaRef};
use datafusion::arrow::util::pretty::pretty_format_batches;
use tempfile::TempDir;

#[allow(dead_code)]
#[path = "../../../datafusion/tests/support/queries.rs"]
mod support;

use support::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_arrowwood-datafusion");

const TOTAL_MEMORY: usize = 128 << 20;

/// A join of several billion rows.
const ENDLESS: &str = "select sum(a.ts * b.ts + c.ts * d.ts) from ticks a, ticks b, ticks c, ticks d";

fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < Duration::from_secs(240), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reads the status of a process; empty if there is no such process.
fn read_status(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default()
}

/// Returns the running child processes of `parent`.
fn child_processes(parent: u32) -> BTreeSet<u32> {
    let parent_line = format!("PPid:\t{parent}");
    let mut children = BTreeSet::new();
    for entry in fs::read_dir("/proc").unwrap() {
        let Ok(entry) = entry else { continue };
        let Ok(pid) = entry.file_name().to_string_lossy().parse() else { continue };
        let status = read_status(pid);
        let is_child = status.lines().any(|line| line == parent_line);
        let is_zombie = status.lines().any(|line| line == "State:\tZ (zombie)");
        if is_child && !is_zombie {
            children.insert(pid);
        }
    }
    children
}

fn process_exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Returns the maximum memory that a process has used, in bytes; 0 if it has ended.
fn peak_memory(pid: u32) -> u64 {
    let status = read_status(pid);
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or(0, |line| line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024)
}

/// Returns `n`, or null for every seventh row.
fn nullable(n: i64) -> Option<i64> {
    (n % 7 > 0).then_some(n)
}

fn sample_rows(first: i64, count: i64) -> RecordBatch {
    let numbers = first..first + count;
    let symbols: DictionaryArray<Int32Type> = numbers.clone().map(|n| ["IBM", "SAP", "ORCL"][n as usize % 3]).collect();
    let words: StringArray = numbers.clone().map(|n| nullable(n).map(|n| format!("word {n}"))).collect();
    let lists = numbers.clone().map(|n| nullable(n).map(|n| (0..n % 4).map(Some)));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("ts", Arc::new(Int64Array::from_iter_values(numbers.clone()))),
        ("price", Arc::new(numbers.clone().map(|n| nullable(n).map(|n| n as f64 / 4.0)).collect::<Float64Array>())),
        ("word", Arc::new(words)),
        ("symbol", Arc::new(symbols)),
        ("list", Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))),
    ];
    let columns = columns.into_iter().map(|(name, column)| (name, column, name != "ts"));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// Creates a directory with a growing table, partitions and a file.
fn write_directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let options = WriterOptions { sorted_by: Some("ts".into()), ..WriterOptions::default() };
    let ticks = [sample_rows(0, 3000), sample_rows(3000, 3000)];
    write_table(&ticks, &directory.path().join("ticks"), options);
    fs::create_dir(directory.path().join("parts")).unwrap();
    for host in ["a", "b"] {
        let partition = directory.path().join(format!("parts/host={host}"));
        write_table(&[sample_rows(100, 100)], &partition, WriterOptions::default());
    }
    write_file(&[sample_rows(0, 100)], &directory.path().join("names.arrow"));
    directory
}

/// The tables of a directory, and `broken`, which can't be opened. Records the names of requested tables.
struct TestTables {
    directory: PathBuf,
    requested: Mutex<BTreeSet<String>>,
}

impl SqlTables for TestTables {
    fn names(&self) -> Result<Vec<String>, SqlError> {
        Ok(vec!["broken".into(), "names".into(), "parts".into(), "ticks".into()])
    }

    fn rows(&self, name: &str) -> Result<Option<Dataset>, SqlError> {
        self.requested.lock().unwrap().insert(name.into());
        match name {
            "broken" => Err(Error::new(ErrorKind::InvalidData, "the file has no end").at("/a/b").into()),
            _ => Ok(self.path(name).map(open).transpose()?),
        }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        match name {
            "names" => Some(self.directory.join("names.arrow")),
            "parts" | "ticks" => Some(self.directory.join(name)),
            _ => None,
        }
    }
}

/// Memory that several queries share.
struct SharedMemory {
    max_bytes: usize,
    free: Mutex<usize>,
}

impl SqlMemory for SharedMemory {
    fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    fn free(&self) -> usize {
        *self.free.lock().unwrap()
    }

    fn take(&self, bytes: usize) -> bool {
        let mut free = self.free.lock().unwrap();
        match free.checked_sub(bytes) {
            Some(rest) => {
                *free = rest;
                true
            }
            None => false,
        }
    }

    fn release(&self, bytes: usize) {
        *self.free.lock().unwrap() += bytes;
    }
}

/// Two engines over the tables of the same directory.
struct Engines {
    directory: TempDir,
    tables: Arc<TestTables>,
    memory: Arc<SharedMemory>,
    /// Runs all statements in this process.
    in_process: Arc<QueryEngine>,
    /// Runs statements in query processes unless they are known to be bounded.
    with_processes: ProcessEngine,
}

impl Engines {
    fn new(program: &str) -> Engines {
        let directory = write_directory();
        let tables = Arc::new(TestTables { directory: directory.path().into(), requested: Mutex::default() });
        let in_process = Arc::new(QueryEngine::new().unwrap());
        let with_processes = ProcessEngine::new(in_process.clone(), program);
        let memory = Arc::new(SharedMemory { max_bytes: TOTAL_MEMORY / 2, free: Mutex::new(TOTAL_MEMORY) });
        Engines { directory, tables, memory, in_process, with_processes }
    }

    fn query(&self, sql: &str) -> SqlQuery {
        let tables = self.tables.clone();
        let memory = self.memory.clone();
        SqlQuery { text: sql.into(), parameters: None, tables, memory, most: None }
    }

    fn plan(&self, engine: &dyn SqlEngine, query: &SqlQuery) -> Result<SqlPlan, SqlError> {
        self.in_process.handle().block_on(engine.plan(query.clone()))
    }

    /// Plans and runs a statement, and returns its schema, and its rows as text.
    fn run(&self, engine: &dyn SqlEngine, query: &SqlQuery) -> Result<(SchemaRef, String), SqlError> {
        self.in_process.handle().block_on(async {
            let plan = engine.plan(query.clone()).await?;
            let mut rows = engine.run(query.clone()).await?;
            assert_eq!(plan.schema, rows.schema(), "{}", query.text);
            let mut batches = Vec::new();
            while let Some(dataset) = rows.next().await? {
                batches.extend(dataset.to_record_batches().map(Result::unwrap));
            }
            let text = pretty_format_batches(&batches).unwrap().to_string();
            Ok((plan.schema, text))
        })
    }

    fn run_in_process(&self, query: &SqlQuery) -> Result<(SchemaRef, String), SqlError> {
        self.run(self.in_process.as_ref(), query)
    }

    fn run_with_processes(&self, query: &SqlQuery) -> Result<(SchemaRef, String), SqlError> {
        self.run(&self.with_processes, query)
    }
}

/// Statements with functions, aggregates, operators and joins that are not known to be bounded, over all types. They
/// run in a process.
const UNBOUNDED: &[&str] = &[
    "select upper(word) as up, to_char(to_timestamp(ts), '%Y-%m-%d') as day from ticks where ts between 10 and 40 order by ts",
    "select array_union(list, [1, 2, 9]) as found, list from ticks where ts < 50 order by ts",
    "select *, reverse(word) as back from ticks order by ts",
    "select *, reverse(word) as back from parts order by host, ts",
    "select *, reverse(word) as back from names order by ts",
    "select regexp_replace(word, 'w(.)', 'x') as word from names where word ~ '1' order by ts",
    "select symbol, count(*) as n from names group by rollup (symbol) order by symbol",
    "with a as (select ts from names), b as (select x.ts from a x, a y where x.ts = y.ts), c as (select x.ts from b x, b y, a z \
     where x.ts = y.ts and y.ts = z.ts) select count(*) as n from c x, c y, b z where x.ts = y.ts and y.ts = z.ts",
    "select host, count(distinct symbol) as n, array_agg(ts order by ts) as all from parts group by host order by host",
    "select a.ts, b.word from ticks a join names b on a.ts = b.ts order by a.ts",
    "select sum(a.ts + b.ts * c.ts) as n from ticks a, names b, names c where a.ts < 10",
    "select ts, row_number() over (partition by symbol order by ts desc) as n from names order by ts",
    "select unnest(list) as n, ts from names order by ts, n",
    "with recursive n as (select 1 as k union all select k + 1 from n where k < 10) select k from n order by k",
    "select symbol, min(word) as least, string_agg(word, ',' order by ts) as words from names group by symbol order by symbol",
    "select case when ts > 5 then word else 'none' end as word from names order by ts",
    "select value from generate_series(1, cast(upper('4') as bigint)) order by value",
    "select upper(table_name) as name from information_schema.tables where table_schema = 'public' order by name",
    "select struct(ts, word) as pair, map {'a': ts} as known from names where ts < 3 order by ts",
    "explain select upper(word) from parts where host = 'a' and ts > 150",
    "explain select upper(word) from ticks where ts > 5900",
];

/// Statements that are known to be bounded. They run in the process of the server.
const BOUNDED: &[&str] = &[
    "select * from ticks where price > 20.5 order by ts",
    "select symbol, avg(price) as mean, count(*) as n, max(ts) as last from ticks where ts >= 500 group by symbol order by symbol",
    "select ts, word from ticks order by price desc, ts limit 5",
    "select a.ts from ticks a join names b on a.ts = b.ts where a.price + b.price > 3 order by a.ts",
    "select ts from ticks where ts in (select ts from names where length(word) > 6) order by ts",
    "select date_trunc('second', to_timestamp(ts)) as second, sum(price) as all from ticks group by 1 order by 1 limit 3",
    "select ts from names union all select ts from parts order by ts",
    "select distinct symbol from ticks order by symbol",
    "select word || '-' || ts as both, cast(ts as text) as shown from names order by ts",
    "select coalesce(price, 0) as price, case when ts > 3 then 1 else 2 end as kind from names order by ts",
    "select value from generate_series(1, 5) order by value",
    "select ts, (select max(ts) from names) as last from names order by ts limit 2",
    "explain select ts from ticks where ts > 5",
    "show tables",
    "describe ticks",
    "with a as (select ts from names) select x.ts from a x, a y where x.ts = y.ts order by x.ts",
    "select 1 + 1 as two",
];

#[test]
fn query_processes_return_the_same_rows() {
    let engines = Engines::new(PROGRAM);
    for sql in UNBOUNDED.iter().chain(BOUNDED) {
        let query = engines.query(sql);
        let expected = engines.run_in_process(&query).unwrap_or_else(|e| panic!("{sql}: {e}"));
        let actual = engines.run_with_processes(&query).unwrap_or_else(|e| panic!("{sql}: {e}"));
        assert_eq!(actual, expected, "{sql}");

        let limited = SqlQuery { most: Some(2), ..query };
        let expected = engines.run_in_process(&limited).unwrap();
        assert_eq!(engines.run_with_processes(&limited).unwrap(), expected, "{sql}");
    }
    assert_eq!(engines.memory.free(), TOTAL_MEMORY);
}

#[test]
fn only_unbounded_statements_need_a_process() {
    let engines = Engines::new("/no/such/program");
    for sql in BOUNDED {
        engines.run_with_processes(&engines.query(sql)).unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
    for sql in UNBOUNDED {
        let error = engines.run_with_processes(&engines.query(sql)).expect_err(sql).to_string();
        assert!(error.starts_with("starting a process for a query"), "{sql}: {error}");
    }
    assert_eq!(engines.memory.free(), TOTAL_MEMORY);
}

#[test]
fn parameters_are_sent_to_query_processes() {
    let engines = Engines::new(PROGRAM);
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7]));
    let words: ArrayRef = Arc::new(StringArray::from(vec!["é"]));
    let values = RecordBatch::try_from_iter([("1", numbers), ("2", words)]).unwrap();
    let sql = "select upper(word) || upper($2) as up, ts from names where ts > $1 - 5 order by ts";
    let without_values = engines.query(sql);
    let with_values = SqlQuery { parameters: Some(values), ..without_values.clone() };
    for query in [&with_values, &without_values] {
        let expected = engines.run_in_process(query);
        assert_eq!(format!("{:?}", engines.run_with_processes(query)), format!("{expected:?}"));
    }
    // A plan without values describes the parameters.
    let expected = engines.plan(engines.in_process.as_ref(), &without_values).unwrap();
    let actual = engines.plan(&engines.with_processes, &without_values).unwrap();
    assert_eq!(actual.schema, expected.schema);
    assert_eq!(actual.parameters, expected.parameters);
}

#[test]
fn query_processes_return_the_same_errors() {
    let engines = Engines::new(PROGRAM);
    for sql in [
        "select upper(nothing) from ticks",
        "select upper(word) from broken",
        "select upper(word) from secret",
        "select upper(word), 1 / (ts - ts) from names",
        "select arrow_cast(upper(word), 'Int32') from names",
        "select upper(word) from names cluster by ts",
        "create table t as select upper('a')",
        "select upper(word from",
        "select no_such_function(ts) from ticks",
        "select count(*) from generate_series(1, cast(upper('a') as int))",
    ] {
        let query = engines.query(sql);
        let expected = engines.run_in_process(&query).expect_err(sql);
        let actual = engines.run_with_processes(&query).expect_err(sql);
        assert_eq!(format!("{actual:?}"), format!("{expected:?}"), "{sql}");
    }
    // Only tables that a statement names are requested.
    let named = ["ticks", "broken", "secret", "names", "t", "generate_series"];
    let requested = engines.tables.requested.lock().unwrap().clone();
    assert!(requested.iter().all(|name| named.contains(&name.as_str())), "{requested:?}");
}

#[test]
fn query_processes_read_one_commit() {
    let engines = Engines::new(PROGRAM);
    let path = engines.directory.path().join("ticks");
    let mut writer = Writer::open(&path, None, &WriterOptions::default()).unwrap();
    let sql = "select count(*) as n, count(distinct a.ts) as ts from ticks a, (select count(*) as all from ticks) b \
               where upper('a') = 'A' and b.all > 0";
    for round in 0..20 {
        writer.append(&sample_rows(6000 + round * 10, 10)).unwrap();
        writer.commit().unwrap();
        let (_, text) = engines.run_with_processes(&engines.query(sql)).unwrap();
        let count = 6010 + round * 10;
        assert!(text.contains(&format!("| {count} | {count} |")), "{text}");
    }
}

#[test]
fn queries_wait_for_memory_of_other_queries() {
    let engines = Engines::new(PROGRAM);
    assert!(engines.memory.take(TOTAL_MEMORY));
    let query = engines.query("select upper(word) as up from names order by ts");
    engines.in_process.handle().block_on(async {
        let answer = engines.with_processes.run(query);
        tokio::pin!(answer);
        let result = tokio::time::timeout(Duration::from_millis(200), &mut answer).await;
        assert!(result.is_err(), "the query runs without memory");
        engines.memory.release(TOTAL_MEMORY);
        let mut rows = answer.await.unwrap();
        assert!(rows.next().await.unwrap().is_some());
    });
}

#[test]
fn dropped_query_ends_its_process() {
    let engines = Engines::new(PROGRAM);
    let run = engines.with_processes.run(engines.query(ENDLESS));
    let children_before = child_processes(std::process::id());
    let mut rows = engines.in_process.handle().block_on(run).unwrap();
    let is_running = engines
        .in_process
        .handle()
        .block_on(async { tokio::time::timeout(Duration::from_millis(200), rows.next()).await.is_err() });
    assert!(is_running, "the query has ended");
    assert!(engines.memory.free() < TOTAL_MEMORY);
    let started: BTreeSet<_> = child_processes(std::process::id()).difference(&children_before).copied().collect();
    assert!(!started.is_empty());
    drop(rows);
    wait_until("the memory of the query is released", || engines.memory.free() == TOTAL_MEMORY);
    drop(engines);
    wait_until("its processes end", || started.iter().all(|pid| !process_exists(*pid)));
}

// ---- servers ----

/// A server process, which is killed on drop.
struct Server {
    process: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails if a test has killed it before.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    fn start(directory: &Path, arguments: &[&str]) -> Server {
        let mut command = Command::new(PROGRAM);
        command.arg("serve").arg(directory).args(["--listen", "127.0.0.1:0"]).args(arguments);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
        Server { process, address }
    }

    /// Sends a statement and returns the connection for its response.
    fn send(&self, sql: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let query: String = sql.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let host = &self.address;
        let headers = format!("Host: {host}\r\nAccept: text/csv\r\nConnection: close\r\n");
        write!(stream, "GET /v1/sql?query={query} HTTP/1.1\r\n{headers}\r\n").unwrap();
        stream
    }

    /// Runs a statement and returns the whole response, with its headers.
    fn run(&self, sql: &str) -> String {
        let mut response = Vec::new();
        // An answer that fails midway ends with an error of the connection.
        let _ = self.send(sql).read_to_end(&mut response);
        String::from_utf8_lossy(&response).into_owned()
    }

    fn child_processes(&self) -> BTreeSet<u32> {
        child_processes(self.process.id())
    }
}

/// Returns true if a response that had started was broken off.
fn is_truncated(response: &str) -> bool {
    response.starts_with("HTTP/1.1 200") && !response.ends_with("0\r\n\r\n")
}

/// Returns the start of a text for a message.
fn start_of(text: &str, max_bytes: usize) -> &str {
    &text[..text.len().min(max_bytes)]
}

/// Returns a statement of `count` common table expressions, each of which applies `next` to the column of the one
/// before.
fn nested(count: usize, first: &str, next: impl Fn(&str) -> String) -> String {
    let mut sql = format!("with t0 as (select {first} as a)");
    for step in 1..=count {
        sql += &format!(", t{step} as (select {} as a from t{})", next("a"), step - 1);
    }
    sql + &format!(" select length(cast(a as text)) as n from t{count} where a is not null")
}

/// Returns statements whose results or state would grow far beyond the memory of a query.
fn excessive_statements() -> Vec<String> {
    vec![
        nested(12, "range(0, 10000000)", |a| format!("array_union(array_concat({a}, [-1]), {a})")),
        nested(30, "range(0, 1000000)", |a| format!("array_union({a}, array_concat({a}, {a}))")),
        nested(40, "'%Y-%m-%d %H:%M:%S'", |a| format!("to_char(timestamp '2020-01-01', concat({a}, {a}, 'x'))")),
        nested(40, "[1, 2, 3]", |a| format!("array_append([{a}], {a})")),
        nested(40, "'abc'", |a| format!("translate(concat({a}, {a}), 'a', 'b')")),
        nested(40, "'abc'", |a| format!("replace({a}, 'b', {a})")),
        "select array_agg(word) as a from (select upper(a.word) as word from ticks a, ticks b, ticks c)".into(),
        "select string_agg(upper(a.word), ',') as a from ticks a, ticks b, ticks c".into(),
        "select sum(length(w)) from (select first_value(a.word) over (order by a.ts, b.ts, c.ts) as w from ticks a, ticks b, \
         ticks c)"
            .into(),
        "select median(a.ts + b.ts + c.ts) from ticks a, ticks b, ticks c".into(),
        "select ts, (select repeat('x', 1000000)) as x from ticks".into(),
        "select upper(repeat('x', 1000000)) as x, ts from ticks".into(),
    ]
}

#[test]
fn excessive_statements_do_not_stop_a_server() {
    let directory = write_directory();
    let server = Server::start(directory.path(), &["--query-memory", "67108864", "--query-timeout", "20"]);
    for sql in excessive_statements() {
        let response = server.run(&sql);
        let is_rejected = ["query_memory", "query_timeout", "would compare", "verflow"]
            .iter()
            .any(|message| response.contains(message));
        // These are written to the response in small parts, and may be complete.
        let can_be_streamed = sql.contains("'x', 1000000");
        assert!(is_rejected || is_truncated(&response) || can_be_streamed, "{sql}: {}", start_of(&response, 2000));
        let peak = peak_memory(server.process.id());
        assert!(peak < 700 << 20, "{sql}: {peak} bytes");
        for child in server.child_processes() {
            let peak = peak_memory(child);
            assert!(peak < 500 << 20, "{sql}: a process of {peak} bytes");
        }
        let response = server.run("select 1 + 1 as two");
        assert!(response.starts_with("HTTP/1.1 200") && response.contains("\r\n2\n"), "{sql}: {response}");
        let response = server.run("select upper('still there') as told");
        assert!(response.contains("STILL THERE"), "{sql}: {response}");
    }
}

#[test]
fn lack_of_memory_in_a_process_is_reported_as_such() {
    let engines = Engines::new(PROGRAM);
    for sql in [
        nested(12, "range(0, 10000000)", |a| format!("array_union(array_concat({a}, [-1]), {a})")),
        "select array_agg(a.ts + b.ts) as a from ticks a, ticks b".into(),
        "select upper(repeat(word, 100000)) as a from ticks".into(),
    ] {
        let error = engines.run_with_processes(&engines.query(&sql)).expect_err(&sql);
        assert!(matches!(error, SqlError::Memory(_)), "{sql}: {error:?}");
        assert_eq!(engines.memory.free(), TOTAL_MEMORY);
        let (_, text) = engines.run_with_processes(&engines.query("select upper('a') as a")).unwrap();
        assert!(text.contains("| A |"), "{text}");
    }
}

/// The statement has some hundred words, and its plan would have a billion operators.
#[test]
fn planning_is_limited_by_the_timeout() {
    let directory = write_directory();
    let server = Server::start(directory.path(), &["--query-timeout", "2"]);
    let mut sql = "with t0 as (select 1 as k)".to_owned();
    for step in 1..30 {
        let previous = step - 1;
        sql += &format!(", t{step} as (select a.k from t{previous} a join t{previous} b on a.k = b.k)");
    }
    let response = server.run(&(sql + " select count(*) from t29"));
    assert!(response.starts_with("HTTP/1.1 422"), "{response}");
    assert!(response.contains("query_timeout") || response.contains("query_memory"), "{response}");
    wait_until("its process ends", || server.child_processes().len() <= 2);
    assert!(server.run("select 1 + 1 as two").contains("\r\n2\n"));
}

#[test]
fn joins_without_a_condition_are_limited_by_the_timeout() {
    let directory = write_directory();
    let server = Server::start(directory.path(), &["--query-timeout", "2"]);
    for sql in [
        "select a.ts as n from ticks a, ticks b, ticks c, ticks d where a.ts + b.ts + c.ts + d.ts < 0",
        "select sum(a.ts * b.ts) as n from ticks a cross join ticks b cross join ticks c cross join ticks d",
    ] {
        let response = server.run(sql);
        assert!(response.contains("query_timeout") || is_truncated(&response), "{sql}: {response}");
        wait_until("only idle processes are left", || {
            let children = server.child_processes();
            let are_sleeping = children.iter().all(|pid| read_status(*pid).contains("State:\tS"));
            are_sleeping && children.len() <= 2
        });
    }
}

/// Returns the directory for temporary files of a query process, which is its second argument.
fn temporary_directory(pid: u32) -> PathBuf {
    let command_line = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    let argument = command_line.split(|byte| *byte == 0).nth(2).unwrap();
    PathBuf::from(String::from_utf8(argument.to_vec()).unwrap())
}

#[test]
fn processes_end_with_their_client_or_server() {
    let directory = write_directory();
    let mut server = Server::start(directory.path(), &[]);
    let client = server.send(ENDLESS);
    wait_until("the query has a process, and another one is idle", || server.child_processes().len() == 2);
    drop(client);
    wait_until("its process ends", || server.child_processes().len() == 1);

    let client = server.send(ENDLESS);
    wait_until("the query has a process, and another one is idle", || server.child_processes().len() == 2);
    let children = server.child_processes();
    let temporary: Vec<PathBuf> = children.iter().map(|pid| temporary_directory(*pid)).collect();
    assert!(temporary.iter().all(|directory| directory.is_dir()), "{temporary:?}");
    server.process.kill().unwrap();
    server.process.wait().unwrap();
    wait_until("processes end with their server", || children.iter().all(|pid| !process_exists(*pid)));
    wait_until("they remove their files", || temporary.iter().all(|directory| !directory.exists()));
    drop(client);
}

#[test]
fn wide_rows_are_sorted_within_the_memory() {
    const ROWS: i64 = 1009;
    let directory = write_directory();
    let padding = "0".repeat(100_000);
    let texts = (0..ROWS).map(|n| format!("{padding}{:04}", (n * 7919) % ROWS));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let rows = RecordBatch::try_from_iter([("n", numbers), ("text", texts)]).unwrap();
    write_file(&[rows], &directory.path().join("wide.arrow"));
    let server = Server::start(directory.path(), &["--query-memory", "134217728"]);
    for sql in [
        "select (n * 7919) % 1009 as k, text from \"wide.arrow\" order by text",
        "select (n * 7919) % 1009 as k, upper(text) as text from \"wide.arrow\" order by text",
        "select (n * 7919) % 1009 as k, text || 'x' as text from \"wide.arrow\" order by text",
    ] {
        let response = server.run(sql);
        assert!(response.starts_with("HTTP/1.1 200"), "{sql}: {}", start_of(&response, 1000));
        // Lines without a number are the header, or lengths of chunks.
        let mut keys: Vec<i64> = Vec::new();
        for line in response.split("\r\n\r\n").skip(1).flat_map(str::lines) {
            if let Some((key, _)) = line.split_once(',')
                && let Ok(key) = key.parse()
            {
                keys.push(key);
            }
        }
        assert!(keys.iter().copied().eq(0..ROWS), "{sql}: {keys:?}");
    }
}
