//! Tests a server in which one system call after another fails, and whose log is not read.
//!
//! Rights must not change, no acknowledged row may be lost or duplicated, no table may be reported as missing, and the
//! server must end on SIGTERM.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use arrowwood::{Writer, WriterOptions, parse_schema};

use crate::running::output;
use crate::serve::{Server, add_token, connect, fill, numbers, request, run, text};
use crate::wait::wait_until;

const ENOSPC: i64 = 28;
const EIO: i64 = 5;
const EPIPE: i64 = 32;
const EMFILE: i64 = 24;

/// The file that says to the preloaded library which call fails: the number of the call, the error, and the number of
/// calls that have failed, of eight bytes each.
struct FaultPlan {
    file: File,
}

impl FaultPlan {
    const CALL_OFFSET: u64 = 0;
    const ERROR_OFFSET: u64 = 8;
    const FAILURES_OFFSET: u64 = 16;
    const LEN: u64 = 24;

    fn create(path: &Path) -> FaultPlan {
        let file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
        file.set_len(FaultPlan::LEN).unwrap();
        FaultPlan { file }
    }

    /// Lets call number `call`, counted from now on, fail with `error`.
    fn fail(&self, call: i64, error: i64) {
        self.file.write_all_at(&error.to_ne_bytes(), FaultPlan::ERROR_OFFSET).unwrap();
        self.file.write_all_at(&call.to_ne_bytes(), FaultPlan::CALL_OFFSET).unwrap();
    }

    /// Lets all calls succeed.
    fn clear(&self) {
        self.fail(0, 0);
    }

    /// Returns the number of calls that have failed.
    fn failure_count(&self) -> i64 {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, FaultPlan::FAILURES_OFFSET).unwrap();
        i64::from_ne_bytes(bytes)
    }
}

/// Compiles the library that lets calls fail; returns its path.
fn compile_fault_library(folder: &Path) -> String {
    let library = folder.join("faults.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/command/faults.c");
    let compiler = std::env::var("CC").unwrap_or("cc".into());
    let mut command = Command::new(compiler);
    command.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).args([source, "-ldl"]);
    let output = output(&mut command, b"");
    assert!(output.status.success(), "{}", text(&output.stderr));
    library.display().to_string()
}

/// A client that connects again after an error.
struct Client {
    address: String,
    stream: Option<BufReader<TcpStream>>,
}

impl Client {
    /// Returns the status of the response, or `None` if there is none.
    fn request(&mut self, head: &str, body: &str) -> Option<u16> {
        if self.stream.is_none() {
            self.stream = connect(&self.address).ok();
        }
        match request(self.stream.as_mut()?, head, body) {
            Ok((status, _)) => Some(status),
            Err(_) => {
                self.stream = None;
                None
            }
        }
    }
}

/// Returns the header of a token.
fn authorization(token: &str) -> String {
    format!("\r\nauthorization: Bearer {token}")
}

/// Returns the head of a request that appends batch `n`.
fn append_head(authorization: &str, n: i64) -> String {
    let head = "POST /v1/tables/t/rows HTTP/1.1\r\ncontent-type: application/json";
    format!("{head}\r\nproducer: a\r\nproducer-sequence: {n}{authorization}")
}

/// Creates a table with segments of 16 rows.
fn create_table(path: &Path) {
    let schema = parse_schema("n: int not null").unwrap();
    let options = WriterOptions { segment_rows: Some(16), ..WriterOptions::default() };
    Writer::open(path, Some(schema.into()), &options).unwrap().close().unwrap();
}

/// A server with failing calls, and clients with different rights.
struct FaultTest {
    plan: FaultPlan,
    server: Server,
    client: Client,
    reader: String,
    producer: String,
    revoked: String,
    /// The number of batches that were acknowledged.
    batches: i64,
}

impl FaultTest {
    /// Appends the next batch, of one row, while a call fails.
    fn append_batch_with_fault(&mut self, call: i64, error: i64) {
        let n = self.batches;
        let row = format!("{{\"n\":{n}}}");
        let producer_head = append_head(&self.producer, n);
        let reader_head = append_head(&self.reader, n);
        let revoked_head = append_head(&self.revoked, n);
        let list_tables = format!("GET /v1/tables HTTP/1.1{}", self.reader);
        let context = format!("error {error}, call {call}");

        self.plan.fail(call, error);
        wait_until("a row is acknowledged", || {
            for head in [&revoked_head, &reader_head] {
                let status = self.client.request(head, &row);
                assert!(![Some(200), Some(204)].contains(&status), "{context}: {status:?}");
            }
            let status = self.client.request(&producer_head, &row);
            assert!(![Some(404), Some(409)].contains(&status), "{context}: {status:?}");
            status == Some(200)
        });
        self.batches += 1;
        self.assert_no_table_is_missing(&context);

        self.plan.clear();
        wait_until("the reader has its right", || self.client.request(&list_tables, "") == Some(200));
        assert_eq!(self.client.request(&reader_head, &row), Some(403), "{context}");
        assert_eq!(self.client.request(&revoked_head, &row), Some(401), "{context}");
    }

    /// Sends requests that may fail, but not as if a table were missing.
    fn assert_no_table_is_missing(&mut self, context: &str) {
        let create = format!("PUT /v1/tables/t{} HTTP/1.1{}", self.batches, self.producer);
        let describe = format!("GET /v1/tables/t HTTP/1.1{}", self.reader);
        for (head, body) in [(create.as_str(), "n: int"), (&describe, ""), ("GET /readyz HTTP/1.1", "")] {
            let status = self.client.request(head, body);
            assert!(![Some(404), Some(409)].contains(&status), "{context}, {head}: {status:?}");
        }
    }
}

#[test]
fn failing_system_calls_change_no_rights_and_lose_no_row() {
    const ROUNDS: i64 = 60;
    const MAX_CALL: i64 = 30;
    let folder = tempfile::tempdir().unwrap();
    let token_path = folder.path().join("tokens.json");
    let token_file = token_path.display().to_string();
    let reader = authorization(&add_token(&token_path, "r", &["--read", "*"]));
    let producer = authorization(&add_token(&token_path, "p", &["--write", "*"]));
    let revoked = authorization(&add_token(&token_path, "x", &["--write", "*"]));
    assert!(run(&["token", "revoke", "x", "--token-file", &token_file]).status.success());
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    create_table(&data.join("t"));
    let plan_path = folder.path().join("plan");
    let plan = FaultPlan::create(&plan_path);
    let variables =
        [("LD_PRELOAD", compile_fault_library(folder.path())), ("TEST_FAULTS", plan_path.display().to_string())];
    let (_unread, full_pipe) = io::pipe().unwrap();
    fill(&full_pipe);
    let server = Server::with(&data, &["--token-file", &token_file], Stdio::from(full_pipe), &variables);
    let client = Client { address: server.address.clone(), stream: None };
    let mut test = FaultTest { plan, server, client, reader, producer, revoked, batches: 0 };

    for error in [ENOSPC, EIO, EPIPE, EMFILE] {
        for round in 0..ROUNDS {
            let call = 1 + round % MAX_CALL;
            // Tokens and certificates are also read again while a call fails.
            if call == 3 || call == 6 {
                test.server.process.signal("HUP");
            }
            test.append_batch_with_fault(call, error);
        }
    }
    let failures = test.plan.failure_count();
    assert!(failures > test.batches / 2, "{failures} calls failed in {} rounds", test.batches);
    test.plan.fail(1, EIO);
    test.server.process.signal("TERM");
    assert_eq!(test.server.process.status().code(), Some(0));
    assert_eq!(numbers(&data.join("t")), (0..test.batches).collect::<Vec<_>>());
}
