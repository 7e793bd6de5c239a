//! Tests queries over several servers, which are processes with their own rows, against the same rows in one memory.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use arrowwood::WriterOptions;
use arrowwood_query::{ClientOptions, Cluster, ClusterAnswer};
use datafusion::arrow::array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, Schema};
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use tempfile::TempDir;

use crate::support::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_arrowwood-datafusion");
const SYMBOLS: &[&str] = &["AAPL", "IBM", "MSFT", "ORCL", "SAP", "TSM", "INTC"];

/// A generator of random numbers that are the same in each run.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Returns rows of the table `ticks`, which differ between hosts.
pub fn tick_rows(host: u64, rows: usize) -> RecordBatch {
    let mut random = Rng(host * 7_919 + 17);
    let ts: Vec<i64> = (0..rows as i64).map(|row| row * 3 + host as i64).collect();
    let mut symbols = Vec::new();
    let mut prices = Vec::new();
    let mut notes = Vec::new();
    for _ in 0..rows {
        let symbol = SYMBOLS[(random.next() % SYMBOLS.len() as u64) as usize];
        symbols.push(symbol);
        prices.push((!random.next().is_multiple_of(5)).then(|| (random.next() % 1_000) as i64 - 200));
        notes.push((!random.next().is_multiple_of(3)).then(|| format!("note {}", random.next() % 50)));
    }
    let symbols: DictionaryArray<Int32Type> = symbols.into_iter().collect();
    let columns: [(&str, ArrayRef); 4] = [
        ("ts", Arc::new(Int64Array::from(ts))),
        ("symbol", Arc::new(symbols)),
        ("price", Arc::new(Int64Array::from(prices))),
        ("note", Arc::new(StringArray::from(notes))),
    ];
    let columns = columns.into_iter().map(|(name, column)| (name, column, name != "ts"));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// Returns rows of the table `names`: symbols and their sectors.
pub fn symbol_rows(symbols: &[&str]) -> RecordBatch {
    let sectors: Vec<Option<&str>> = symbols.iter().map(|name| (*name != "SAP").then_some(&name[..1])).collect();
    let columns: Vec<ArrayRef> =
        vec![Arc::new(StringArray::from(symbols.to_vec())), Arc::new(StringArray::from(sectors))];
    let fields = vec![Field::new("symbol", DataType::Utf8, false), Field::new("sector", DataType::Utf8, true)];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

pub fn sorted_by_ts() -> WriterOptions {
    WriterOptions { sorted_by: Some("ts".into()), dictionary: vec!["symbol".into()], ..WriterOptions::default() }
}

/// A server process, which is killed on drop.
struct Server {
    process: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails if a test has killed it before.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    fn start(directory: &Path, port: u16, arguments: &[&str]) -> Server {
        let mut command = Command::new(PROGRAM);
        command.arg("serve").arg(directory).args(["--listen", &format!("127.0.0.1:{port}")]).args(arguments);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("://127.0.0.1:"), "{line}");
        Server { process }
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// The servers of a cluster, their directories, and the rows of all of them.
pub struct Hosts {
    directory: TempDir,
    servers: Vec<Server>,
    ports: Vec<u16>,
    tables: Vec<(String, Vec<RecordBatch>)>,
}

impl Hosts {
    /// Creates directories for `count` servers, which do not run yet.
    pub fn new(count: usize) -> Hosts {
        let directory = tempfile::tempdir().unwrap();
        // Bound at the same time, so that ports differ.
        let listeners: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<u16> = listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
        let lines: Vec<_> = ports.iter().map(|port| format!("http://127.0.0.1:{port}")).collect();
        std::fs::write(directory.path().join("hosts.txt"), format!("# the cluster\n{}\n", lines.join("\n"))).unwrap();
        for host in 0..count {
            std::fs::create_dir(directory.path().join(host.to_string())).unwrap();
        }
        Hosts { directory, servers: Vec::new(), ports, tables: Vec::new() }
    }

    /// Returns the path of the list of servers.
    fn list(&self) -> PathBuf {
        self.directory.path().join("hosts.txt")
    }

    fn host_directory(&self, host: usize) -> PathBuf {
        self.directory.path().join(host.to_string())
    }

    /// Writes a table in the directory of a host.
    fn write(&mut self, host: usize, name: &str, rows: &RecordBatch, options: WriterOptions) {
        self.write_batches(host, name, std::slice::from_ref(rows), options);
    }

    pub fn write_batches(&mut self, host: usize, name: &str, rows: &[RecordBatch], options: WriterOptions) {
        write_table(rows, &self.host_directory(host).join(name), options);
        match self.tables.iter_mut().find(|(table, _)| table == name) {
            Some((_, batches)) => batches.extend_from_slice(rows),
            None => self.tables.push((name.into(), rows.to_vec())),
        }
    }

    pub fn start(mut self, arguments: &[&str]) -> Hosts {
        for host in 0..self.ports.len() {
            let server = self.start_server(host, arguments);
            self.servers.push(server);
        }
        self
    }

    fn start_server(&self, host: usize, arguments: &[&str]) -> Server {
        let list = self.list();
        let arguments = [&["--worker", list.to_str().unwrap()], arguments].concat();
        Server::start(&self.host_directory(host), self.ports[host], &arguments)
    }

    fn cluster(&self) -> Cluster {
        Cluster::open(self.list(), &ClientOptions::default()).unwrap()
    }

    /// Makes a certificate, and lists the servers with URLs for TLS.
    fn with_certificate(self) -> Hosts {
        let cert = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        std::fs::write(self.directory.path().join("cert.pem"), cert.cert.pem()).unwrap();
        std::fs::write(self.directory.path().join("key.pem"), cert.signing_key.serialize_pem()).unwrap();
        let list = std::fs::read_to_string(self.list()).unwrap().replace("http://127.0.0.1", "https://localhost");
        std::fs::write(self.list(), list).unwrap();
        self
    }

    pub async fn run_sql(&self, sql: &str) -> Result<Vec<RecordBatch>> {
        Ok(self.cluster().query(sql).await?.collect().await?.1)
    }

    /// Runs a statement with other options, and returns its rows as lines.
    async fn run_sql_with(&self, options: &ClientOptions, sql: &str) -> Result<Vec<String>> {
        let (_, batches) = Cluster::open(self.list(), options).unwrap().query(sql).await?.collect().await?;
        Ok(format_rows(&batches))
    }

    /// Returns a context with the rows of all servers in one memory.
    pub fn memory_context(&self) -> SessionContext {
        let context = new_context(1);
        for (name, batches) in &self.tables {
            register_memory(&context, name, batches);
        }
        context
    }

    /// Compares the answers of the cluster and of one memory, in any order unless the statement defines it. Returns the
    /// plan of the cluster.
    async fn assert_same_answer(&self, sql: &str) -> String {
        let answer = self.cluster().query(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        let plan = answer.plan.clone();
        let (_, batches) = answer.collect().await.unwrap_or_else(|e| panic!("{sql}: {e}\n{plan}"));
        let mut actual = format_rows(&batches);
        let mut expected = sql_lines(&self.memory_context(), sql).await;
        // The outermost `order by` follows the last parenthesis.
        let is_ordered = sql.rsplit(')').next().unwrap().contains("order by");
        if !is_ordered {
            actual.sort_unstable();
            expected.sort_unstable();
        }
        assert!(!expected.is_empty(), "{sql}: a query without rows tests nothing");
        assert_eq!(actual, expected, "{sql}\n{plan}");
        plan
    }
}

/// Returns three hosts: all have `ticks`, two have `names`, one has `only`.
fn three_hosts() -> Hosts {
    let mut hosts = Hosts::new(3);
    for (host, rows) in [(0, 40_000), (1, 70_001), (2, 5)] {
        hosts.write(host, "ticks", &tick_rows(host as u64, rows), sorted_by_ts());
    }
    hosts.write(0, "names", &symbol_rows(&SYMBOLS[..3]), WriterOptions::default());
    hosts.write(2, "names", &symbol_rows(&SYMBOLS[2..6]), WriterOptions::default());
    hosts.write(1, "only", &tick_rows(9, 300), sorted_by_ts());
    hosts
}

const QUERIES: &[&str] = &[
    "select count(*) from ticks",
    "select count(*), count(price), min(ts), max(ts), sum(price) from ticks",
    "select * from ticks where ts between 3000 and 3300",
    "select ts, note from ticks where symbol = 'IBM' and price > 700 and note like 'note 1%'",
    "select symbol, count(*), sum(price), avg(price), min(note) from ticks group by symbol",
    "select note, symbol, count(*) as n from ticks group by note, symbol having count(*) > 60",
    "select count(distinct note), count(distinct price), count(distinct symbol) from ticks",
    "select distinct symbol from ticks where price is null",
    "select ts, symbol, price from ticks order by price desc nulls last, ts, symbol limit 20",
    "select ts, symbol from ticks order by ts desc, symbol offset 1000 limit 5",
    "select ts, price from ticks where ts > 34900 and ts < 35500 order by ts, price",
    "select sector, count(*), sum(price) from ticks join names on ticks.symbol = names.symbol group by sector",
    "select t.ts, n.sector from ticks t left join names n on t.symbol = n.symbol where t.ts < 60",
    "select n.symbol, count(t.ts) from ticks t right join names n on t.symbol = n.symbol and t.ts < 40 group by n.symbol",
    "select a.ts, b.ts from (select * from ticks where ts < 90) a full join (select * from ticks where ts > 80 and ts < 120) b \
     on a.ts = b.ts",
    "select a.symbol, count(*) from ticks a join ticks b on a.ts = b.ts and a.symbol = b.symbol group by a.symbol",
    "select count(*) from ticks where symbol in (select symbol from names where sector is not null)",
    "select count(*) from ticks where symbol not in (select symbol from names)",
    "select count(*) from ticks t where not exists (select 1 from names n where n.symbol = t.symbol)",
    "select n.symbol from names n where exists (select 1 from ticks t where t.symbol = n.symbol and t.price = 5)",
    "select ts from ticks where price = (select max(price) from ticks) order by ts limit 3",
    "select a.symbol, b.symbol from names a full join names b on a.sector < b.sector",
    "select a.symbol, b.symbol from names a left join names b on a.sector < b.sector",
    "select count(*) from names a cross join names b",
    "select symbol, ts from (select symbol, ts, row_number() over (partition by symbol order by ts, price, note) as n from ticks) \
     where n <= 2",
    "select sum(n) from (select row_number() over () as n from ticks)",
    "select symbol from ticks union select symbol from names",
    "select count(*) from (select ts, symbol from ticks union all select ts, symbol from only union all select 1, 'x')",
    "select symbol from names except select symbol from ticks where symbol = 'IBM'",
    "with a as (select symbol, max(price) as top from ticks group by symbol) select * from a join names using (symbol)",
    "select v.column1, count(*) from ticks t join (values ('IBM'), ('SAP')) v on v.column1 = t.symbol group by 1",
    "select symbol, price, count(*) from ticks where ts < 3000 group by rollup (symbol, price)",
    "select count(*) from (select * from ticks limit 77)",
    "select count(*) from ticks where false",
    "select count(*), sum(price) from only",
    "select ts from only order by ts limit 4",
    "select 1 as one",
    "select count(*) from public.ticks",
];

#[tokio::test(flavor = "multi_thread")]
async fn three_servers_answer_as_one_memory() {
    let hosts = three_hosts().start(&[]);
    for sql in QUERIES {
        hosts.assert_same_answer(sql).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_servers_answer_as_one_memory() {
    let mut hosts = Hosts::new(8);
    for host in 0..8 {
        hosts.write(host, "ticks", &tick_rows(host as u64, 4_000 + 1_111 * host), sorted_by_ts());
        if host % 3 == 0 {
            let first = host / 3 * 2;
            hosts.write(host, "names", &symbol_rows(&SYMBOLS[first..first + 2]), WriterOptions::default());
        }
    }
    hosts.write(5, "only", &tick_rows(9, 300), sorted_by_ts());
    let hosts = hosts.start(&[]);
    for sql in QUERIES {
        hosts.assert_same_answer(sql).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_is_a_cluster() {
    let mut hosts = Hosts::new(1);
    hosts.write(0, "ticks", &tick_rows(1, 20_000), sorted_by_ts());
    hosts.write(0, "names", &symbol_rows(SYMBOLS), WriterOptions::default());
    let hosts = hosts.start(&[]);
    // Leaves out statements over `only`, which it does not have, and those that look for symbols without a name.
    for sql in QUERIES.iter().filter(|sql| !sql.contains("only") && !sql.contains("not ")) {
        hosts.assert_same_answer(sql).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_group_and_join_on_the_servers() {
    let hosts = three_hosts().start(&[]);
    let plan = hosts.assert_same_answer("select symbol, count(*) from ticks group by symbol").await;
    assert!(plan.contains("mode=Partial") && plan.contains("mode=FinalPartitioned"), "{plan}");
    assert!(plan.contains("NetworkShuffleExec") && plan.contains("tasks=3"), "{plan}");
    let join = "select t.ts from ticks t join names n on t.symbol = n.symbol where t.ts < 30";
    let plan = hosts.assert_same_answer(join).await;
    assert!(plan.contains("NetworkBroadcastExec") || plan.contains("NetworkShuffleExec"), "{plan}");
}

fn random_column(random: &mut Rng) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values((0..2_000_000).map(|_| random.next() as i64)))
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_dies_during_an_answer_is_an_error() {
    let mut hosts = Hosts::new(3);
    for host in 0..3 {
        let mut random = Rng(host as u64 + 5);
        let columns = [("a", random_column(&mut random)), ("b", random_column(&mut random))];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        hosts.write(host, "noise", &rows, WriterOptions::default());
    }
    let mut hosts = hosts.start(&[]);
    // The first statement receives rows of each server, the second one the groups after all rows.
    for (victim, sql) in [(2, "select * from noise"), (1, "select a, count(b) from noise group by a")] {
        let ClusterAnswer { rows: mut stream, .. } = hosts.cluster().query(sql).await.unwrap();
        let first = stream.next().await.unwrap();
        assert!(first.is_ok(), "{sql}: {first:?}");
        hosts.servers[victim].kill();
        let mut has_failed = false;
        while let Some(batch) = stream.next().await {
            has_failed |= batch.is_err();
        }
        assert!(has_failed, "{sql}: a server died, and the answer ended without an error");
        let error = hosts.run_sql(sql).await.unwrap_err().to_string();
        assert!(error.contains(&format!("http://127.0.0.1:{}", hosts.ports[victim])), "{error}");
        hosts.servers[victim] = hosts.start_server(victim, &[]);
        assert_eq!(count_rows(&hosts.run_sql("select a from noise").await.unwrap()), 6_000_000);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_servers_cause_no_wrong_answers() {
    let mut hosts = three_hosts().start(&[]);
    let sql = "select a.symbol, count(*), sum(b.price) from ticks a join ticks b on a.ts = b.ts group by a.symbol";
    let expected = sorted_sql_lines(&hosts.memory_context(), sql).await;
    let mut random = Rng(99);
    let mut errors = 0;
    for round in 0..12 {
        let victim = round % 3;
        let delay = Duration::from_millis(random.next() % 300);
        let cluster = hosts.cluster();
        let query = tokio::spawn(async move { cluster.query(sql).await?.collect().await });
        tokio::time::sleep(delay).await;
        hosts.servers[victim].process.kill().unwrap();
        match query.await.unwrap() {
            Err(_) => errors += 1,
            Ok((_, batches)) => {
                let mut actual = format_rows(&batches);
                actual.sort_unstable();
                assert_eq!(actual, expected, "after {delay:?}");
            }
        }
        hosts.servers[victim].process.wait().unwrap();
        hosts.servers[victim] = hosts.start_server(victim, &[]);
    }
    assert!(errors > 0, "no server was killed in time");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_statements_and_clusters_are_reported() {
    let mut hosts = Hosts::new(2);
    hosts.write(0, "ticks", &tick_rows(0, 100), sorted_by_ts());
    let other = RecordBatch::try_from_iter([("ts", Arc::new(StringArray::from(vec!["now"])) as ArrayRef)]).unwrap();
    hosts.write(1, "ticks", &other, WriterOptions::default());
    let hosts = hosts.start(&[]);
    for (sql, expected) in [
        ("select * from ticks", "Int64"),
        ("select * from nothing", "nothing"),
        ("select * from 'ticks", "sql"),
        ("create table t as select 1", "DDL"),
        ("create external table t stored as csv location '/etc/passwd'", "DDL"),
        ("copy (select 1) to '/tmp/x.csv'", "DML"),
        ("insert into ticks values (1)", "ticks"),
        ("set datafusion.execution.batch_size = 1", "Statement"),
        ("select * from a.b.c", "a.b.c"),
    ] {
        let error = hosts.run_sql(sql).await.unwrap_err().to_string().to_lowercase();
        assert!(error.contains(&expected.to_lowercase()), "{sql}: {error}");
    }

    // Two servers of the same directory.
    let duplicates = Hosts::new(2);
    let list = duplicates.list();
    let arguments = ["--worker", list.to_str().unwrap()];
    let directory = hosts.host_directory(0);
    let _servers: Vec<_> = duplicates.ports.iter().map(|&port| Server::start(&directory, port, &arguments)).collect();
    let error = duplicates.run_sql("select * from ticks").await.unwrap_err().to_string();
    assert!(error.contains("same directory"), "{error}");

    // A server that is not a worker.
    let not_worker = Hosts::new(1);
    let _server = Server::start(&directory, not_worker.ports[0], &[]);
    let error = not_worker.run_sql("select * from ticks").await.unwrap_err().to_string();
    assert!(error.contains("--worker"), "{error}");
}

fn read_rights(table: &str) -> arrowwood_serve::Rights {
    arrowwood_serve::Rights { read: vec![table.into()], write: Vec::new() }
}

fn with_token(token: Option<&str>) -> ClientOptions {
    ClientOptions { token: token.map(str::to_owned), ..ClientOptions::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_limit_the_tables_of_a_query() {
    let hosts = three_hosts();
    let file = hosts.directory.path().join("tokens");
    let all_tables = arrowwood_serve::add_token(&file, "all", read_rights("*")).unwrap();
    let names_only = arrowwood_serve::add_token(&file, "few", read_rights("names")).unwrap();
    let hosts = hosts.start(&["--token-file", file.to_str().unwrap()]);
    let join = "select count(*) from ticks join names on ticks.symbol = names.symbol";
    let expected = sql_lines(&hosts.memory_context(), join).await;
    assert_eq!(hosts.run_sql_with(&with_token(Some(&all_tables)), join).await.unwrap(), expected);
    assert_eq!(
        hosts.run_sql_with(&with_token(Some(&names_only)), "select count(distinct symbol) from names").await.unwrap(),
        ["| 6                            |"]
    );
    for (token, expected) in [(None, "401"), (Some("wrong"), "401"), (Some(names_only.as_str()), "403")] {
        let error = hosts.run_sql_with(&with_token(token), join).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_connect_to_each_other_with_tls() {
    let hosts = three_hosts().with_certificate();
    let cert = hosts.directory.path().join("cert.pem").to_str().unwrap().to_owned();
    let key = hosts.directory.path().join("key.pem").to_str().unwrap().to_owned();
    let tokens = hosts.directory.path().join("tokens").to_str().unwrap().to_owned();
    let token = Some(arrowwood_serve::add_token(&tokens, "all", read_rights("*")).unwrap());
    let hosts =
        hosts.start(&["--tls-cert", &cert, "--tls-key", &key, "--token-file", &tokens, "--worker-cafile", &cert]);
    let sql =
        "select sector, count(*) from ticks join names on ticks.symbol = names.symbol group by sector order by sector";
    let trusting = ClientOptions { token, cafile: Some(PathBuf::from(&cert)), insecure: false };
    let expected = sql_lines(&hosts.memory_context(), sql).await;
    assert_eq!(hosts.run_sql_with(&trusting, sql).await.unwrap(), expected);
    let distrusting = ClientOptions { cafile: None, ..trusting };
    let error = hosts.run_sql_with(&distrusting, sql).await.unwrap_err().to_string();
    assert!(error.contains("connecting to https://localhost"), "{error}");
}

const LIVE_COMMIT_ROWS: i64 = 7;

/// Returns the rows of one commit: consecutive numbers from `start` on.
fn live_rows(start: i64) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(start..start + LIVE_COMMIT_ROWS));
    RecordBatch::try_from_iter([("n", numbers)]).unwrap()
}

/// Commits rows until the other end of `stop` is dropped. Returns the number of rows.
fn keep_committing(path: &Path, stop: &Receiver<()>) -> i64 {
    let mut writer = arrowwood::Writer::open(path, None, &WriterOptions::default()).unwrap();
    let mut rows = LIVE_COMMIT_ROWS;
    while stop.try_recv() == Err(TryRecvError::Empty) {
        writer.append(&live_rows(rows)).unwrap();
        writer.commit().unwrap();
        rows += LIVE_COMMIT_ROWS;
    }
    writer.close().unwrap();
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_reads_one_commit_of_each_server() {
    let mut hosts = three_hosts();
    let path = hosts.host_directory(0).join("live");
    hosts.write(0, "live", &live_rows(0), WriterOptions::default());
    hosts.write(2, "live", &live_rows(0), WriterOptions::default());
    let hosts = hosts.start(&[]);
    let (stop_sender, stop) = channel::<()>();
    let writer_thread = std::thread::spawn(move || keep_committing(&path, &stop));
    // The numbers of rows by several mentions. The second server has 7 rows that do not grow.
    let sql = "select (select count(n) from live), (select max(n) from live) + 1 + 7, b.c, (select count(*) from live) \
               from (select count(*) as c from live a where a.n % 7 >= 0) b";
    let mut last_count = 0;
    for _ in 0..20 {
        let batches = hosts.run_sql(sql).await.unwrap();
        let counts: Vec<i64> = batches[0]
            .columns()
            .iter()
            .map(|column| column.as_any().downcast_ref::<Int64Array>().unwrap().value(0))
            .collect();
        let count = counts[0];
        assert!(counts.iter().all(|other| *other == count), "{counts:?}");
        assert!(count % LIVE_COMMIT_ROWS == 0 && count >= last_count, "{counts:?} after {last_count}");
        last_count = count;
    }
    drop(stop_sender);
    let rows = writer_thread.join().unwrap();
    assert!(last_count > 14 && last_count <= rows + 7, "{last_count} of {rows}");
}

fn run_command(list: &Path, arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(["sql", "--cluster"]).arg(list).args(arguments).output().unwrap()
}

#[test]
fn command_prints_the_answer() {
    let hosts = three_hosts().start(&[]);
    let sql = "select count(*) as rows, count(distinct symbol) as symbols from ticks";
    let output = run_command(&hosts.list(), &[sql, "--csv"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "rows,symbols\n110006,7\n", "{stderr}");
    let output = run_command(&hosts.list(), &["select * from nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("arrowwood: "));
}
