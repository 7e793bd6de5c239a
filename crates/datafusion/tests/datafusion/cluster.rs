//! Queries over several servers, each a process with rows of its own, beside the same over all rows in one memory.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use arrowwood::WriterOptions;
use arrowwood_datafusion::{Cluster, ClusterAnswer, PeerOptions};
use datafusion::arrow::array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, Schema};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use tempfile::TempDir;

use crate::support;

const SYMBOLS: &[&str] = &["AAPL", "IBM", "MSFT", "ORCL", "SAP", "TSM", "INTC"];

/// Random numbers that are the same at each run.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Rows of `ticks` that no other `host` has.
pub fn ticks(host: u64, rows: usize) -> RecordBatch {
    let mut chance = Rng(host * 7_919 + 17);
    let ts: Vec<i64> = (0..rows as i64).map(|row| row * 3 + host as i64).collect();
    let mut symbols = Vec::new();
    let mut prices = Vec::new();
    let mut notes = Vec::new();
    for _ in 0..rows {
        let symbol = SYMBOLS[(chance.next() % SYMBOLS.len() as u64) as usize];
        symbols.push(symbol);
        prices.push((!chance.next().is_multiple_of(5)).then(|| (chance.next() % 1_000) as i64 - 200));
        notes.push((!chance.next().is_multiple_of(3)).then(|| format!("note {}", chance.next() % 50)));
    }
    let symbols: DictionaryArray<Int32Type> = symbols.into_iter().collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("ts", Arc::new(Int64Array::from(ts))),
        ("symbol", Arc::new(symbols)),
        ("price", Arc::new(Int64Array::from(prices))),
        ("note", Arc::new(StringArray::from(notes))),
    ];
    let fields: Vec<Field> =
        columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), *name != "ts")).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, column)| column).collect())
        .unwrap()
}

/// A few rows about symbols.
pub fn names(symbols: &[&str]) -> RecordBatch {
    let sectors: Vec<Option<&str>> = symbols.iter().map(|name| (*name != "SAP").then_some(&name[..1])).collect();
    let text = |values: StringArray| Arc::new(values) as ArrayRef;
    let columns = vec![text(StringArray::from(symbols.to_vec())), text(StringArray::from(sectors))];
    let fields = vec![Field::new("symbol", DataType::Utf8, false), Field::new("sector", DataType::Utf8, true)];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// A process that serves.
struct Server {
    process: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have been killed before.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    fn start(directory: &Path, port: u16, words: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_arrowwood-datafusion"));
        command.arg("serve").arg(directory).args(["--listen", &format!("127.0.0.1:{port}")]).args(words);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("://127.0.0.1:"), "{line}");
        Server { process }
    }
}

/// Servers and the rows of all of them.
pub struct Hosts {
    directory: TempDir,
    servers: Vec<Server>,
    ports: Vec<u16>,
    tables: Vec<(String, Vec<RecordBatch>)>,
}

impl Hosts {
    /// Directories for `count` servers, which don't run yet.
    pub fn new(count: usize) -> Hosts {
        let directory = tempfile::tempdir().unwrap();
        let listeners: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<u16> = listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
        let lines: Vec<_> = ports.iter().map(|port| format!("http://127.0.0.1:{port}")).collect();
        std::fs::write(directory.path().join("hosts.txt"), format!("# the cluster\n{}\n", lines.join("\n"))).unwrap();
        (0..count).for_each(|host| std::fs::create_dir(directory.path().join(host.to_string())).unwrap());
        Hosts { directory, servers: Vec::new(), ports, tables: Vec::new() }
    }

    fn list(&self) -> PathBuf {
        self.directory.path().join("hosts.txt")
    }

    fn host_directory(&self, host: usize) -> PathBuf {
        self.directory.path().join(host.to_string())
    }

    /// Gives a server a table.
    fn write(&mut self, host: usize, name: &str, rows: &RecordBatch, options: WriterOptions) {
        self.write_all(host, name, std::slice::from_ref(rows), options);
    }

    pub fn write_all(&mut self, host: usize, name: &str, rows: &[RecordBatch], options: WriterOptions) {
        support::write_table(rows, &self.host_directory(host).join(name), options);
        match self.tables.iter_mut().find(|(known, _)| known == name) {
            Some((_, batches)) => batches.extend_from_slice(rows),
            None => self.tables.push((name.into(), rows.to_vec())),
        }
    }

    pub fn start(mut self, words: &[&str]) -> Hosts {
        let list = self.list();
        let words = [&["--worker", list.to_str().unwrap()], words].concat();
        for (host, &port) in self.ports.iter().enumerate() {
            self.servers.push(Server::start(&self.host_directory(host), port, &words));
        }
        self
    }

    fn cluster(&self) -> Cluster {
        Cluster::open(self.list(), &PeerOptions::default()).unwrap()
    }

    /// Has the list say that servers have TLS, with a certificate that is made for them.
    fn with_certificate(self) -> Hosts {
        let cert = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        std::fs::write(self.directory.path().join("cert.pem"), cert.cert.pem()).unwrap();
        std::fs::write(self.directory.path().join("key.pem"), cert.signing_key.serialize_pem()).unwrap();
        let list = std::fs::read_to_string(self.list()).unwrap().replace("http://127.0.0.1", "https://localhost");
        std::fs::write(self.list(), list).unwrap();
        self
    }

    pub async fn ask(&self, sql: &str) -> Result<Vec<RecordBatch>> {
        Ok(self.cluster().query(sql).await?.collect().await?.1)
    }

    /// All rows in one memory.
    pub fn one(&self) -> SessionContext {
        let context = support::context(1);
        for (name, batches) in &self.tables {
            let table = MemTable::try_new(batches[0].schema(), vec![batches.clone()]).unwrap();
            context.register_table(name.as_str(), Arc::new(table)).unwrap();
        }
        context
    }

    /// Compares the answers of the cluster and of one memory; in any order unless the statement orders them.
    async fn check(&self, sql: &str) -> String {
        let answer = self.cluster().query(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        let plan = answer.plan.clone();
        let (_, found) = answer.collect().await.unwrap_or_else(|e| panic!("{sql}: {e}\n{plan}"));
        let mut found = lines(&found);
        let mut expected = lines(&support::ask(&self.one(), sql).await.unwrap());
        if !sql.rsplit(')').next().unwrap().contains("order by") {
            found.sort_unstable();
            expected.sort_unstable();
        }
        assert!(!expected.is_empty(), "{sql}: a question without an answer tests nothing");
        assert_eq!(found, expected, "{sql}\n{plan}");
        plan
    }
}

pub fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let shown = pretty_format_batches(batches).unwrap().to_string();
    shown.lines().filter(|line| line.starts_with('|')).skip(1).map(str::to_owned).collect()
}

pub fn sorted() -> WriterOptions {
    WriterOptions { sorted_by: Some("ts".into()), dictionary: vec!["symbol".into()], ..WriterOptions::default() }
}

/// Three servers: all have `ticks`, two have `names`, one has `only`.
fn three() -> Hosts {
    let mut hosts = Hosts::new(3);
    for (host, rows) in [(0, 40_000), (1, 70_001), (2, 5)] {
        hosts.write(host, "ticks", &ticks(host as u64, rows), sorted());
    }
    hosts.write(0, "names", &names(&SYMBOLS[..3]), WriterOptions::default());
    hosts.write(2, "names", &names(&SYMBOLS[2..6]), WriterOptions::default());
    hosts.write(1, "only", &ticks(9, 300), sorted());
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
async fn three_servers_answer_as_one_would() {
    let hosts = three().start(&[]);
    for sql in QUERIES {
        hosts.check(sql).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_servers_answer_as_one_would() {
    let mut hosts = Hosts::new(8);
    for host in 0..8 {
        hosts.write(host, "ticks", &ticks(host as u64, 4_000 + 1_111 * host), sorted());
        if host % 3 == 0 {
            hosts.write(host, "names", &names(&SYMBOLS[host / 3 * 2..host / 3 * 2 + 2]), WriterOptions::default());
        }
    }
    hosts.write(5, "only", &ticks(9, 300), sorted());
    let hosts = hosts.start(&[]);
    for sql in QUERIES {
        hosts.check(sql).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_is_a_cluster_too() {
    let mut hosts = Hosts::new(1);
    hosts.write(0, "ticks", &ticks(1, 20_000), sorted());
    hosts.write(0, "names", &names(SYMBOLS), WriterOptions::default());
    let hosts = hosts.start(&[]);
    for sql in QUERIES.iter().filter(|sql| !sql.contains("only") && !sql.contains("not ")) {
        hosts.check(sql).await;
    }
}

/// What stands in the picture of a plan.
#[tokio::test(flavor = "multi_thread")]
async fn rows_are_grouped_where_they_are_and_tables_joined_by_the_engine() {
    let hosts = three().start(&[]);
    let plan = hosts.check("select symbol, count(*) from ticks group by symbol").await;
    assert!(plan.contains("mode=Partial") && plan.contains("mode=FinalPartitioned"), "{plan}");
    assert!(plan.contains("NetworkShuffleExec") && plan.contains("tasks=3"), "{plan}");
    let plan = hosts.check("select t.ts from ticks t join names n on t.symbol = n.symbol where t.ts < 30").await;
    assert!(plan.contains("NetworkBroadcastExec") || plan.contains("NetworkShuffleExec"), "{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_is_an_error() {
    let mut hosts = Hosts::new(3);
    for host in 0..3 {
        let mut chance = Rng(host as u64 + 5);
        let mut column =
            || Arc::new(Int64Array::from_iter_values((0..2_000_000).map(|_| chance.next() as i64))) as ArrayRef;
        let rows = RecordBatch::try_from_iter([("a", column()), ("b", column())]).unwrap();
        hosts.write(host, "noise", &rows, WriterOptions::default());
    }
    let mut hosts = hosts.start(&[]);
    // Grouping ends with the last row alone, and rows as they come with each server's.
    for (victim, sql) in [(2, "select * from noise"), (1, "select a, count(b) from noise group by a")] {
        let ClusterAnswer { rows: mut stream, .. } = hosts.cluster().query(sql).await.unwrap();
        let first = stream.next().await.unwrap();
        assert!(first.is_ok(), "{sql}: {first:?}");
        hosts.servers[victim].process.kill().unwrap();
        hosts.servers[victim].process.wait().unwrap();
        let mut outcome = Ok(());
        while let Some(batch) = stream.next().await {
            outcome = outcome.and(batch.map(|_| ()));
        }
        assert!(outcome.is_err(), "{sql}: a server died, and the answer ended as if it were whole");
        let e = hosts.ask(sql).await.unwrap_err().to_string();
        assert!(e.contains(&format!("http://127.0.0.1:{}", hosts.ports[victim])), "{e}");
        let list = hosts.list();
        let again =
            Server::start(&hosts.host_directory(victim), hosts.ports[victim], &["--worker", list.to_str().unwrap()]);
        hosts.servers[victim] = again;
        assert_eq!(
            hosts.ask("select a from noise").await.unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(),
            6_000_000
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_at_any_moment_leaves_no_wrong_answer() {
    let mut hosts = three().start(&[]);
    let sql = "select a.symbol, count(*), sum(b.price) from ticks a join ticks b on a.ts = b.ts group by a.symbol";
    let expected = support::sorted_lines(&hosts.one(), sql).await;
    let mut chance = Rng(99);
    let mut errors = 0;
    for round in 0..12 {
        let victim = round % 3;
        let wait = std::time::Duration::from_millis(chance.next() % 300);
        let cluster = hosts.cluster();
        let asked = tokio::spawn(async move { cluster.query(sql).await?.collect().await });
        tokio::time::sleep(wait).await;
        hosts.servers[victim].process.kill().unwrap();
        match asked.await.unwrap() {
            Err(_) => errors += 1,
            Ok((_, found)) => {
                let mut found = lines(&found);
                found.sort_unstable();
                assert_eq!(found, expected, "after {wait:?}");
            }
        }
        let list = hosts.list();
        let words = ["--worker", list.to_str().unwrap()];
        hosts.servers[victim].process.wait().unwrap();
        hosts.servers[victim] = Server::start(&hosts.host_directory(victim), hosts.ports[victim], &words);
    }
    assert!(errors > 0, "no server was killed in time");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_cluster_is_told() {
    let mut hosts = Hosts::new(2);
    hosts.write(0, "ticks", &ticks(0, 100), sorted());
    let other = RecordBatch::try_from_iter([("ts", Arc::new(StringArray::from(vec!["now"])) as ArrayRef)]).unwrap();
    hosts.write(1, "ticks", &other, WriterOptions::default());
    let hosts = hosts.start(&[]);
    for (sql, told) in [
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
        let e = hosts.ask(sql).await.map(|_| ()).unwrap_err().to_string().to_lowercase();
        assert!(e.contains(&told.to_lowercase()), "{sql}: {e}");
    }
    // One directory that is served twice.
    let twice = Hosts::new(2);
    let list = twice.list();
    let words = ["--worker", list.to_str().unwrap()];
    let _servers: Vec<_> =
        twice.ports.iter().map(|&port| Server::start(&hosts.host_directory(0), port, &words)).collect();
    let e = twice.ask("select * from ticks").await.unwrap_err().to_string();
    assert!(e.contains("same directory"), "{e}");
    // A server that is no worker.
    let plain = Hosts::new(1);
    let _server = Server::start(&hosts.host_directory(0), plain.ports[0], &[]);
    let e = plain.ask("select * from ticks").await.unwrap_err().to_string();
    assert!(e.contains("--worker"), "{e}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_those_of_the_servers() {
    let hosts = three();
    let file = hosts.directory.path().join("tokens");
    let rights = |read: &str| arrowwood_serve::Rights { read: vec![read.into()], write: Vec::new() };
    let all = arrowwood_serve::add_token(&file, "all", rights("*")).unwrap();
    let few = arrowwood_serve::add_token(&file, "few", rights("names")).unwrap();
    let hosts = hosts.start(&["--token-file", file.to_str().unwrap()]);
    let ask = async |token: Option<&str>, sql: &str| {
        let options = PeerOptions { token: token.map(str::to_owned), ..PeerOptions::default() };
        let cluster = Cluster::open(hosts.list(), &options).unwrap();
        Ok::<_, datafusion::error::DataFusionError>(lines(&cluster.query(sql).await?.collect().await?.1))
    };
    let join = "select count(*) from ticks join names on ticks.symbol = names.symbol";
    let expected = lines(&support::ask(&hosts.one(), join).await.unwrap());
    assert_eq!(ask(Some(&all), join).await.unwrap(), expected);
    assert_eq!(
        ask(Some(&few), "select count(distinct symbol) from names").await.unwrap(),
        ["| 6                            |"]
    );
    for (token, told) in [(None, "401"), (Some("wrong"), "401"), (Some(few.as_str()), "403")] {
        let e = ask(token, join).await.unwrap_err().to_string();
        assert!(e.contains(told), "{e}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_ask_each_other_by_tls() {
    let hosts = three().with_certificate();
    let at = |name: &str| hosts.directory.path().join(name).to_str().unwrap().to_owned();
    let (cert, key, file) = (at("cert.pem"), at("key.pem"), at("tokens"));
    let rights = arrowwood_serve::Rights { read: vec!["*".into()], write: Vec::new() };
    let token = Some(arrowwood_serve::add_token(&file, "all", rights).unwrap());
    let words = ["--tls-cert", &cert, "--tls-key", &key, "--token-file", &file, "--worker-cafile", &cert];
    let hosts = hosts.start(&words);
    let sql =
        "select sector, count(*) from ticks join names on ticks.symbol = names.symbol group by sector order by sector";
    let ask = async |cafile: Option<&String>| {
        let options = PeerOptions { token: token.clone(), cafile: cafile.map(PathBuf::from), insecure: false };
        let answer = Cluster::open(hosts.list(), &options).unwrap().query(sql).await?;
        Ok::<_, datafusion::error::DataFusionError>(lines(&answer.collect().await?.1))
    };
    assert_eq!(ask(Some(&cert)).await.unwrap(), lines(&support::ask(&hosts.one(), sql).await.unwrap()));
    let e = ask(None).await.unwrap_err().to_string();
    assert!(e.contains("connecting to https://localhost"), "{e}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_sees_one_commit_of_each_server() {
    let mut hosts = three();
    let path = hosts.host_directory(0).join("live");
    let batch = |from: i64| {
        RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from_iter_values(from..from + 7)) as ArrayRef)]).unwrap()
    };
    hosts.write(0, "live", &batch(0), WriterOptions::default());
    hosts.write(2, "live", &batch(0), WriterOptions::default());
    let hosts = hosts.start(&[]);
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let writing = std::thread::spawn(move || {
        let mut writer = arrowwood::Writer::open(&path, None, &WriterOptions::default()).unwrap();
        let mut from = 7;
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            writer.append(&batch(from)).unwrap();
            writer.commit().unwrap();
            from += 7;
        }
        writer.close().unwrap();
        from
    });
    let sql = "select (select count(n) from live), (select max(n) from live) + 1 + 7, b.c, (select count(*) from live) \
               from (select count(*) as c from live a where a.n % 7 >= 0) b";
    let mut seen = 0;
    for _ in 0..20 {
        let found = hosts.ask(sql).await.unwrap();
        let row: Vec<i64> = found[0]
            .columns()
            .iter()
            .map(|column| column.as_any().downcast_ref::<Int64Array>().unwrap().value(0))
            .collect();
        assert!(row.iter().all(|number| *number == row[0]), "{row:?}");
        assert!(row[0] % 7 == 0 && row[0] >= seen, "{row:?} after {seen}");
        seen = row[0];
    }
    drop(stop);
    let rows = writing.join().unwrap();
    assert!(seen > 14 && seen <= rows + 7, "{seen} of {rows}");
}

#[test]
fn the_command_prints_the_answer() {
    let hosts = three().start(&[]);
    let command = |words: &[&str]| {
        let program = env!("CARGO_BIN_EXE_arrowwood-datafusion");
        Command::new(program).args(["sql", "--cluster"]).arg(hosts.list()).args(words).output().unwrap()
    };
    let done = command(&["select count(*) as rows, count(distinct symbol) as symbols from ticks", "--csv"]);
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(String::from_utf8_lossy(&done.stdout), "rows,symbols\n110006,7\n", "{told}");
    let done = command(&["select * from nowhere"]);
    assert_eq!(done.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&done.stderr).starts_with("arrowwood: "));
}
