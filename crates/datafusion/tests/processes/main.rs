//! Statements that are answered by processes of their own, beside the same in one process; and servers that have such.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrowwood::{Dataset, Error, ErrorKind, Writer, WriterOptions, open};
use arrowwood_datafusion::{ProcessEngine, QueryEngine};
use arrowwood_serve::{SqlEngine, SqlError, SqlMemory, SqlQuery, SqlTables};
use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{Int32Type, Int64Type, SchemaRef};
use datafusion::arrow::util::pretty::pretty_format_batches;
use tempfile::TempDir;

#[allow(dead_code)]
#[path = "../datafusion/support.rs"]
mod support;

use support::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_arrowwood-datafusion");

/// Waits for a condition.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(240), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The processes that `parent` has started.
fn children(parent: u32) -> BTreeSet<u32> {
    let own = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let status = fs::read_to_string(entry.path().join("status")).ok()?;
        let has = |line: &str| status.lines().any(|known| known == line);
        let is_running = !has("State:\tZ (zombie)");
        (is_running && has(&format!("PPid:\t{parent}"))).then_some(pid)
    };
    fs::read_dir("/proc").unwrap().filter_map(|entry| own(entry.ok()?)).collect()
}

fn is_there(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn rows(first: i64, count: i64) -> RecordBatch {
    let some = |n: i64| (n % 7 > 0).then_some(n);
    let symbols: DictionaryArray<Int32Type> =
        (first..first + count).map(|n| ["IBM", "SAP", "ORCL"][n as usize % 3]).collect();
    let words: StringArray = (first..first + count).map(|n| some(n).map(|n| format!("word {n}"))).collect();
    let lists = (first..first + count).map(|n| some(n).map(|n| (0..n % 4).map(Some)));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("ts", Arc::new(Int64Array::from_iter_values(first..first + count))),
        ("price", Arc::new((first..first + count).map(|n| some(n).map(|n| n as f64 / 4.0)).collect::<Float64Array>())),
        ("word", Arc::new(words)),
        ("symbol", Arc::new(symbols)),
        ("list", Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, name != "ts")))
        .unwrap()
}

/// A directory of a table that grows, partitions and a file.
fn directory() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let options = WriterOptions { sorted_by: Some("ts".into()), ..WriterOptions::default() };
    write_table(&[rows(0, 3000), rows(3000, 3000)], &folder.path().join("ticks"), options);
    fs::create_dir(folder.path().join("parts")).unwrap();
    for host in ["a", "b"] {
        let part = folder.path().join(format!("parts/host={host}"));
        write_table(&[rows(100, 100)], &part, WriterOptions::default());
    }
    write_file(&[rows(0, 100)], &folder.path().join("names.arrow"));
    folder
}

/// The tables of a directory but `secret`, and which were asked for.
struct Tables {
    folder: PathBuf,
    asked: Mutex<BTreeSet<String>>,
}

impl SqlTables for Tables {
    fn names(&self) -> Result<Vec<String>, SqlError> {
        Ok(vec!["broken".into(), "names".into(), "parts".into(), "ticks".into()])
    }

    fn rows(&self, name: &str) -> Result<Option<Dataset>, SqlError> {
        self.asked.lock().unwrap().insert(name.into());
        match name {
            "broken" => Err(Error::new(ErrorKind::InvalidData, "the file has no end").at("/a/b").into()),
            _ => Ok(self.path(name).map(open).transpose()?),
        }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        match name {
            "names" => Some(self.folder.join("names.arrow")),
            "parts" | "ticks" => Some(self.folder.join(name)),
            _ => None,
        }
    }
}

/// Memory that several queries share.
struct SharedMemory {
    most: usize,
    free: Mutex<usize>,
}

impl SqlMemory for SharedMemory {
    fn max_bytes(&self) -> usize {
        self.most
    }

    fn free(&self) -> usize {
        *self.free.lock().unwrap()
    }

    fn take(&self, bytes: usize) -> bool {
        let mut free = self.free.lock().unwrap();
        let left = free.checked_sub(bytes);
        *free = left.unwrap_or(*free);
        left.is_some()
    }

    fn release(&self, bytes: usize) {
        *self.free.lock().unwrap() += bytes;
    }
}

/// Engines over the tables of a directory.
struct Engines {
    folder: TempDir,
    tables: Arc<Tables>,
    memory: Arc<SharedMemory>,
    own: Arc<QueryEngine>,
    apart: ProcessEngine,
}

impl Engines {
    fn new(program: &str) -> Engines {
        let folder = directory();
        let tables = Arc::new(Tables { folder: folder.path().into(), asked: Mutex::default() });
        let own = Arc::new(QueryEngine::new().unwrap());
        let apart = ProcessEngine::new(own.clone(), program);
        let memory = Arc::new(SharedMemory { most: 64 << 20, free: Mutex::new(128 << 20) });
        Engines { folder, tables, memory, own, apart }
    }

    fn query(&self, text: &str) -> SqlQuery {
        let (tables, memory) = (self.tables.clone(), self.memory.clone());
        SqlQuery { text: text.into(), parameters: None, tables, memory, most: None }
    }

    /// The plan and the rows of a statement, as text, from one of the engines.
    fn answer(&self, engine: &dyn SqlEngine, query: &SqlQuery) -> Result<(SchemaRef, String), SqlError> {
        self.own.handle().block_on(async {
            let plan = engine.plan(query.clone()).await?;
            let mut rows = engine.run(query.clone()).await?;
            assert_eq!(plan.schema, rows.schema(), "{}", query.text);
            let mut batches = Vec::new();
            while let Some(some) = rows.next().await? {
                batches.extend(some.to_record_batches().map(Result::unwrap));
            }
            let shown = pretty_format_batches(&batches).unwrap().to_string();
            Ok((plan.schema, shown))
        })
    }
}

/// What is answered by a process: functions, aggregates, steps and joins that are not known, with all types.
const APART: &[&str] = &[
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

/// What is answered in the server's process.
const KNOWN: &[&str] = &[
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
fn answers_of_processes_are_those_of_one() {
    let engines = Engines::new(PROGRAM);
    for text in APART.iter().chain(KNOWN) {
        let query = engines.query(text);
        let own = engines.answer(engines.own.as_ref(), &query).unwrap_or_else(|e| panic!("{text}: {e}"));
        let found = engines.answer(&engines.apart, &query).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(found, own, "{text}");
        // The first rows.
        let few = SqlQuery { most: Some(2), ..query };
        let own = engines.answer(engines.own.as_ref(), &few).unwrap();
        assert_eq!(engines.answer(&engines.apart, &few).unwrap(), own, "{text}");
    }
    assert_eq!(engines.memory.free(), 128 << 20);
}

#[test]
fn only_what_is_not_known_needs_a_process() {
    let engines = Engines::new("/no/such/program");
    for text in KNOWN {
        engines.answer(&engines.apart, &engines.query(text)).unwrap_or_else(|e| panic!("{text}: {e}"));
    }
    for text in APART {
        let error = engines.answer(&engines.apart, &engines.query(text)).expect_err(text).to_string();
        assert!(error.starts_with("starting a process for a query"), "{text}: {error}");
    }
    assert_eq!(engines.memory.free(), 128 << 20);
}

#[test]
fn parameters_reach_a_process() {
    let engines = Engines::new(PROGRAM);
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7]));
    let words: ArrayRef = Arc::new(StringArray::from(vec!["é"]));
    let row = RecordBatch::try_from_iter([("1", numbers), ("2", words)]).unwrap();
    let query = engines.query("select upper(word) || ? as up, ts from names where ts > ? - 5 order by ts");
    let query = SqlQuery { text: query.text.replacen("ts > ?", "ts > $1", 1).replacen('?', "upper($2)", 1), ..query };
    let given = SqlQuery { parameters: Some(row), ..query.clone() };
    for query in [&given, &query] {
        let own = engines.answer(engines.own.as_ref(), query);
        assert_eq!(format!("{:?}", engines.answer(&engines.apart, query)), format!("{own:?}"));
    }
    // Without values they are described.
    let plan = |engine: &dyn SqlEngine| engines.own.handle().block_on(engine.plan(query.clone())).unwrap();
    let own = plan(engines.own.as_ref());
    let found = plan(&engines.apart);
    assert_eq!((found.schema, found.parameters), (own.schema, own.parameters));
}

#[test]
fn errors_of_processes_are_those_of_one() {
    let engines = Engines::new(PROGRAM);
    for text in [
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
        let query = engines.query(text);
        let own = engines.answer(engines.own.as_ref(), &query).expect_err(text);
        let found = engines.answer(&engines.apart, &query).expect_err(text);
        assert_eq!(format!("{found:?}"), format!("{own:?}"), "{text}");
    }
    let asked = engines.tables.asked.lock().unwrap().clone();
    assert!(
        asked
            .iter()
            .all(|name| ["ticks", "broken", "secret", "names", "t", "generate_series"].contains(&name.as_str())),
        "{asked:?}"
    );
}

#[test]
fn a_process_sees_the_rows_of_one_commit() {
    let engines = Engines::new(PROGRAM);
    let path = engines.folder.path().join("ticks");
    let mut writer = Writer::open(&path, None, &WriterOptions::default()).unwrap();
    for round in 0..20 {
        writer.append(&rows(6000 + round * 10, 10)).unwrap();
        writer.commit().unwrap();
        let text = "select count(*) as n, count(distinct a.ts) as ts from ticks a, (select count(*) as all from ticks) b \
                    where upper('a') = 'A' and b.all > 0";
        let found = engines.answer(&engines.apart, &engines.query(text)).unwrap();
        let count = 6010 + round * 10;
        assert!(found.1.contains(&format!("| {count} | {count} |")), "{found:?}");
    }
}

#[test]
fn queries_wait_for_the_memory_of_others() {
    let engines = Engines::new(PROGRAM);
    let all = 128 << 20;
    assert!(engines.memory.take(all));
    let query = engines.query("select upper(word) as up from names order by ts");
    let own = engines.own.handle();
    own.block_on(async {
        let answer = engines.apart.run(query.clone());
        tokio::pin!(answer);
        let early = tokio::time::timeout(Duration::from_millis(200), &mut answer).await;
        assert!(early.is_err(), "there is no memory for it");
        engines.memory.release(all);
        let mut rows = answer.await.unwrap();
        assert!(rows.next().await.unwrap().is_some());
    });
}

#[test]
fn a_query_that_nobody_wants_ends_its_process() {
    let engines = Engines::new(PROGRAM);
    let endless = "select sum(a.ts * b.ts + c.ts * d.ts) from ticks a, ticks b, ticks c, ticks d";
    let run = engines.apart.run(engines.query(endless));
    let before = children(std::process::id());
    let mut rows = engines.own.handle().block_on(run).unwrap();
    let waiting = engines
        .own
        .handle()
        .block_on(async { tokio::time::timeout(Duration::from_millis(200), rows.next()).await.is_err() });
    assert!(waiting, "it has not ended");
    assert!(engines.memory.free() < 128 << 20);
    let during: BTreeSet<_> = children(std::process::id()).difference(&before).copied().collect();
    assert!(!during.is_empty());
    drop(rows);
    wait_until("the memory of the query is given back", || engines.memory.free() == 128 << 20);
    drop(engines);
    wait_until("its processes end", || during.iter().all(|pid| !is_there(*pid)));
}

// ---- servers ----

struct Server {
    process: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    fn start(folder: &Path, words: &[&str]) -> Server {
        let mut command = Command::new(PROGRAM);
        command.arg("serve").arg(folder).args(["--listen", "127.0.0.1:0"]).args(words);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
        Server { process, address }
    }

    fn begin(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let query: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let host = &self.address;
        let lines = ["Accept: text/csv", "Connection: close", ""].join("\r\n");
        write!(stream, "GET /v1/sql?query={query} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n").unwrap();
        stream
    }

    /// The answer to a statement, with its head.
    fn ask(&self, text: &str) -> String {
        let mut answer = Vec::new();
        // An answer that fails on its way is cut off.
        let _ = self.begin(text).read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// The most memory that the server has had, in bytes, and each of its processes.
    fn peak(pid: u32) -> u64 {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.map_or(0, |line| line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024)
    }
}

/// Whether an answer that had begun was given up.
fn is_cut(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 200") && !answer.ends_with("0\r\n\r\n")
}

fn nested(count: usize, first: &str, next: impl Fn(&str) -> String) -> String {
    let mut text = format!("with t0 as (select {first} as a)");
    for step in 1..=count {
        text += &format!(", t{step} as (select {} as a from t{})", next("a"), step - 1);
    }
    text + &format!(" select length(cast(a as text)) as n from t{count} where a is not null")
}

/// Results that grow from step to step.
fn bombs() -> Vec<String> {
    let doubled = |_: &str| "array_union(a, array_concat(a, a))".to_owned();
    vec![
        nested(12, "range(0, 10000000)", |a| format!("array_union(array_concat({a}, [-1]), {a})")),
        nested(30, "range(0, 1000000)", doubled),
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
fn no_statement_takes_a_server_down() {
    let folder = directory();
    let server = Server::start(folder.path(), &["--query-memory", "67108864", "--query-timeout", "20"]);
    for text in bombs() {
        let answer = server.ask(&text);
        let is_refused =
            ["query_memory", "query_timeout", "would compare", "verflow"].iter().any(|code| answer.contains(code));
        // What is too much for a batch on its way ends the answer; what is written bit by bit may be whole.
        let is_streamed = text.contains("'x', 1000000");
        assert!(is_refused || is_cut(&answer) || is_streamed, "{text}: {}", &answer[..answer.len().min(2000)]);
        let peak = Server::peak(server.process.id());
        assert!(peak < 700 << 20, "{text}: {peak} bytes");
        for child in children(server.process.id()) {
            let peak = Server::peak(child);
            assert!(peak < 500 << 20, "{text}: a process of {peak} bytes");
        }
        let answer = server.ask("select 1 + 1 as two");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\r\n2\n"), "{text}: {answer}");
        let answer = server.ask("select upper('still there') as told");
        assert!(answer.contains("STILL THERE"), "{text}: {answer}");
    }
}

#[test]
fn what_a_process_gets_no_memory_for_is_told_as_such() {
    let engines = Engines::new(PROGRAM);
    for text in [
        nested(12, "range(0, 10000000)", |a| format!("array_union(array_concat({a}, [-1]), {a})")),
        "select array_agg(a.ts + b.ts) as a from ticks a, ticks b".into(),
        "select upper(repeat(word, 100000)) as a from ticks".into(),
    ] {
        let error = engines.answer(&engines.apart, &engines.query(&text)).expect_err(&text);
        assert!(matches!(error, SqlError::Memory(_)), "{text}: {error:?}");
        assert_eq!(engines.memory.free(), 128 << 20);
        let told = engines.answer(&engines.apart, &engines.query("select upper('a') as a")).unwrap();
        assert!(told.1.contains("| A |"), "{told:?}");
    }
}

/// A plan of a billion steps, of a statement of some hundred words.
#[test]
fn planning_ends_with_its_time() {
    let folder = directory();
    let server = Server::start(folder.path(), &["--query-timeout", "2"]);
    let twice = |step: usize| format!(", t{step} as (select a.k from t{0} a join t{0} b on a.k = b.k)", step - 1);
    let steps: String = (1..30).map(twice).collect();
    let answer = server.ask(&format!("with t0 as (select 1 as k){steps} select count(*) from t29"));
    assert!(answer.starts_with("HTTP/1.1 422"), "{answer}");
    assert!(answer.contains("query_timeout") || answer.contains("query_memory"), "{answer}");
    wait_until("its process ends", || children(server.process.id()).len() <= 2);
    assert!(server.ask("select 1 + 1 as two").contains("\r\n2\n"));
}

#[test]
fn a_join_without_a_condition_ends_with_its_time() {
    let folder = directory();
    let server = Server::start(folder.path(), &["--query-timeout", "2"]);
    for text in [
        "select a.ts as n from ticks a, ticks b, ticks c, ticks d where a.ts + b.ts + c.ts + d.ts < 0",
        "select sum(a.ts * b.ts) as n from ticks a cross join ticks b cross join ticks c cross join ticks d",
    ] {
        let answer = server.ask(text);
        assert!(answer.contains("query_timeout") || is_cut(&answer), "{text}: {answer}");
        // Only those that wait are left.
        wait_until("its process ends", || {
            let all = children(server.process.id());
            all.iter().all(|pid| {
                let stat = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
                stat.contains("State:\tS")
            }) && all.len() <= 2
        });
    }
}

#[test]
fn a_client_that_goes_away_ends_its_process_and_so_does_a_server() {
    let folder = directory();
    let mut server = Server::start(folder.path(), &[]);
    let pid = server.process.id();
    let endless = "select sum(a.ts * b.ts + c.ts * d.ts) from ticks a, ticks b, ticks c, ticks d";
    let gone = server.begin(endless);
    wait_until("the query has a process, and another waits", || children(pid).len() == 2);
    drop(gone);
    wait_until("its process ends", || children(pid).len() == 1);
    let kept = server.begin(endless);
    wait_until("the query has a process, and another waits", || children(pid).len() == 2);
    let all = children(pid);
    let folders = |all: &BTreeSet<u32>| -> Vec<PathBuf> {
        let folder = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
            PathBuf::from(String::from_utf8(line.split(|byte| *byte == 0).nth(2).unwrap().to_vec()).unwrap())
        };
        all.iter().map(folder).collect()
    };
    let folders = folders(&all);
    assert!(folders.iter().all(|folder| folder.is_dir()), "{folders:?}");
    server.process.kill().unwrap();
    server.process.wait().unwrap();
    wait_until("processes end with their server", || all.iter().all(|pid| !is_there(*pid)));
    wait_until("they leave nothing behind", || folders.iter().all(|folder| !folder.exists()));
    drop(kept);
}

#[test]
fn wide_rows_are_sorted_within_the_memory() {
    let folder = directory();
    let words = |n: i64| "0".repeat(100_000) + &format!("{:04}", (n * 7919) % 1009);
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1009));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..1009).map(words)));
    write_file(
        &[RecordBatch::try_from_iter([("n", numbers), ("text", texts)]).unwrap()],
        &folder.path().join("wide.arrow"),
    );
    let server = Server::start(folder.path(), &["--query-memory", "134217728"]);
    let in_order: String = (0..1009_i64).map(|n| format!("{n}\n")).collect();
    for text in [
        "select (n * 7919) % 1009 as k, text from \"wide.arrow\" order by text",
        "select (n * 7919) % 1009 as k, upper(text) as text from \"wide.arrow\" order by text",
        "select (n * 7919) % 1009 as k, text || 'x' as text from \"wide.arrow\" order by text",
    ] {
        let answer = server.ask(text);
        assert!(answer.starts_with("HTTP/1.1 200"), "{text}: {}", &answer[..answer.len().min(1000)]);
        let found: String = answer
            .split("\r\n\r\n")
            .skip(1)
            .flat_map(str::lines)
            .filter_map(|line| line.split_once(',').filter(|(k, _)| k.parse::<i64>().is_ok()))
            .map(|(k, _)| format!("{k}\n"))
            .collect();
        assert_eq!(found, in_order, "{text}");
    }
}
