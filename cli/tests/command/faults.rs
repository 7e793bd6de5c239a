//! Tests a server in which one system call after another fails, and whose log nobody reads.
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
use crate::serve::{Server, connect, fill, numbers, request, run, text};
use crate::wait::wait_until;

/// ENOSPC, EIO, EPIPE and EMFILE.
const ERRORS: [i64; 4] = [28, 5, 32, 24];

/// The file through which the preloaded library is told which call fails.
struct FaultPlan(File);

impl FaultPlan {
    /// Lets call number `after`, counted from now on, fail with `error`; none if it is 0.
    fn fail(&self, after: i64, error: i64) {
        self.0.write_all_at(&error.to_ne_bytes(), 8).unwrap();
        self.0.write_all_at(&after.to_ne_bytes(), 0).unwrap();
    }

    /// Returns the number of calls that have failed.
    fn failure_count(&self) -> i64 {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, 16).unwrap();
        i64::from_ne_bytes(bytes)
    }
}

/// Compiles the library that lets calls fail; returns its path.
fn compile_fault_library(folder: &Path) -> String {
    let library = folder.join("faults.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/command/faults.c");
    let mut command = Command::new(std::env::var("CC").unwrap_or("cc".into()));
    let output = output(command.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).args([source, "-ldl"]), b"");
    assert!(output.status.success(), "{}", text(&output.stderr));
    library.display().to_string()
}

/// A client that connects again after an error.
struct Client<'a> {
    address: &'a str,
    stream: Option<BufReader<TcpStream>>,
}

impl Client<'_> {
    /// Returns the status of the response.
    fn request(&mut self, head: &str, body: &str) -> io::Result<u16> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => self.stream.insert(connect(self.address)?),
        };
        let result = request(stream, head, body).map(|(status, _)| status);
        if result.is_err() {
            self.stream = None;
        }
        result
    }
}

#[test]
fn failing_system_calls_change_no_rights_and_lose_no_row() {
    let folder = tempfile::tempdir().unwrap();
    let plan = File::create_new(folder.path().join("plan")).unwrap();
    plan.set_len(24).unwrap();
    let plan = FaultPlan(File::options().read(true).write(true).open(folder.path().join("plan")).unwrap());
    let tokens = folder.path().join("tokens.json");
    let token_file = tokens.display().to_string();
    let add_token = |name: &str, right: &str| {
        let output = run(&["token", "add", name, "--token-file", &token_file, right, "*"]);
        format!("\r\nauthorization: Bearer {}", text(&output.stdout).trim_end())
    };
    let [reader, producer, revoked] =
        [("r", "--read"), ("p", "--write"), ("x", "--write")].map(|(name, right)| add_token(name, right));
    assert!(run(&["token", "revoke", "x", "--token-file", &token_file]).status.success());
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let schema = parse_schema("n: int not null").unwrap();
    let options = WriterOptions { segment_rows: Some(16), ..WriterOptions::default() };
    Writer::open(data.join("t"), Some(schema.into()), &options).unwrap().close().unwrap();
    let (_unread, pipe) = io::pipe().unwrap();
    fill(&pipe);
    let library = compile_fault_library(folder.path());
    let faults = [("LD_PRELOAD", library), ("TEST_FAULTS", folder.path().join("plan").display().to_string())];
    let mut server = Server::with(&data, &["--token-file", &token_file], Stdio::from(pipe), &faults);
    let address = server.address.clone();
    let mut client = Client { address: &address, stream: None };
    let post_row = |token: &str, n: i64| {
        let head = "POST /v1/tables/t/rows HTTP/1.1\r\ncontent-type: application/json";
        (format!("{head}\r\nproducer: a\r\nproducer-sequence: {n}{token}"), format!("{{\"n\":{n}}}"))
    };
    let facts = format!("GET /v1/tables/t HTTP/1.1{reader}");
    let list_tables = |token: &str| format!("GET /v1/tables HTTP/1.1{token}");
    let mut sent = 0;
    for error in ERRORS {
        for round in 0..60 {
            let after = 1 + round % 30;
            // Tokens and certificates are also read again while a call fails.
            if after == 3 || after == 6 {
                server.process.signal("HUP");
            }
            plan.fail(after, error);
            let (head, row) = post_row(&producer, sent);
            let (revoked_head, _) = post_row(&revoked, sent);
            let (reader_head, _) = post_row(&reader, sent);
            wait_until("a row is acknowledged", || {
                for head in [&revoked_head, &reader_head] {
                    let status = client.request(head, &row).unwrap_or(0);
                    assert!(![200, 204].contains(&status), "error {error}, call {after}: {status}");
                }
                let status = client.request(&head, &row).unwrap_or(0);
                assert!(![404, 409].contains(&status), "error {error}, call {after}: {status}");
                status == 200
            });
            sent += 1;
            // These may fail, but not as if a table were missing.
            let create = format!("PUT /v1/tables/t{sent} HTTP/1.1{producer}");
            for (head, body) in [(create.as_str(), "n: int"), (&facts, ""), ("GET /readyz HTTP/1.1", "")] {
                let status = client.request(head, body).unwrap_or(0);
                assert!(![404, 409].contains(&status), "error {error}, call {after}, {head}: {status}");
            }
            plan.fail(0, 0);
            wait_until("the reader has its right", || {
                client.request(&list_tables(&reader), "").is_ok_and(|status| status == 200)
            });
            let statuses = [&reader_head, &revoked_head].map(|head| client.request(head, &row).unwrap());
            assert_eq!(statuses, [403, 401], "error {error}, call {after}");
        }
    }
    assert!(plan.failure_count() > sent / 2, "{} calls failed in {sent} rounds", plan.failure_count());
    plan.fail(1, 5);
    server.process.signal("TERM");
    assert_eq!(server.process.status().code(), Some(0));
    assert_eq!(numbers(&data.join("t")), (0..sent).collect::<Vec<_>>());
}
