//! A server of which one system call after another fails, while nobody reads its log: rights stay what they are, no
//! acknowledged row is lost or doubled, no table is taken for missing, and it ends when it is told to.

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

/// No space, an error of the device, a reader that has gone, too many open files.
const ERRORS: [i64; 4] = [28, 5, 32, 24];

/// The file that says which call fails.
struct Plan(File);

impl Plan {
    fn fail(&self, after: i64, error: i64) {
        self.0.write_all_at(&error.to_ne_bytes(), 8).unwrap();
        self.0.write_all_at(&after.to_ne_bytes(), 0).unwrap();
    }

    fn failed(&self) -> i64 {
        let mut failed = [0; 8];
        self.0.read_exact_at(&mut failed, 16).unwrap();
        i64::from_ne_bytes(failed)
    }
}

fn library(folder: &Path) -> String {
    let built = folder.join("faults.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/command/faults.c");
    let mut command = Command::new(std::env::var("CC").unwrap_or("cc".into()));
    let done = output(command.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&built).args([source, "-ldl"]), b"");
    assert!(done.status.success(), "{}", text(&done.stderr));
    built.display().to_string()
}

/// A connection that is made anew when it breaks.
struct Caller<'a> {
    address: &'a str,
    stream: Option<BufReader<TcpStream>>,
}

impl Caller<'_> {
    fn ask(&mut self, head: &str, body: &str) -> io::Result<u16> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => self.stream.insert(connect(self.address)?),
        };
        let asked = request(stream, head, body).map(|(status, _)| status);
        if asked.is_err() {
            self.stream = None;
        }
        asked
    }
}

#[test]
fn whatever_system_call_fails_rights_stay_and_no_row_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let plan = File::create_new(folder.path().join("plan")).unwrap();
    plan.set_len(24).unwrap();
    let plan = Plan(File::options().read(true).write(true).open(folder.path().join("plan")).unwrap());
    let tokens = folder.path().join("tokens.json");
    let file = tokens.display().to_string();
    let add = |name: &str, right: &str| {
        let added = run(&["token", "add", name, "--token-file", &file, right, "*"]);
        format!("\r\nauthorization: Bearer {}", text(&added.stdout).trim_end())
    };
    let [reader, producer, revoked] = [("r", "--read"), ("p", "--write"), ("x", "--write")].map(|(a, b)| add(a, b));
    assert!(run(&["token", "revoke", "x", "--token-file", &file]).status.success());
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let schema = parse_schema("n: int not null").unwrap();
    let options = WriterOptions { segment_rows: Some(16), ..WriterOptions::default() };
    Writer::open(data.join("t"), Some(schema.into()), &options).unwrap().close().unwrap();
    let (_unread, pipe) = io::pipe().unwrap();
    fill(&pipe);
    let library = library(folder.path());
    let faults = [("LD_PRELOAD", library), ("TEST_FAULTS", folder.path().join("plan").display().to_string())];
    let mut server = Server::with(&data, &["--token-file", &file], Stdio::from(pipe), &faults);
    let address = server.address.clone();
    let mut caller = Caller { address: &address, stream: None };
    let post = |token: &str, n: i64| {
        let head = "POST /v1/tables/t/rows HTTP/1.1\r\ncontent-type: application/json";
        (format!("{head}\r\nproducer: a\r\nproducer-sequence: {n}{token}"), format!("{{\"n\":{n}}}"))
    };
    let facts = format!("GET /v1/tables/t HTTP/1.1{reader}");
    let list = |token: &str| format!("GET /v1/tables HTTP/1.1{token}");
    let mut sent = 0;
    for error in ERRORS {
        for round in 0..60 {
            let after = 1 + round % 30;
            // What is read again has to be read while a call fails, too.
            if after == 3 || after == 6 {
                server.process.signal("HUP");
            }
            plan.fail(after, error);
            let (head, row) = post(&producer, sent);
            let (others, _) = post(&revoked, sent);
            let (reads, _) = post(&reader, sent);
            wait_until("a row is acknowledged", || {
                for refused in [&others, &reads] {
                    let status = caller.ask(refused, &row).unwrap_or(0);
                    assert!(![200, 204].contains(&status), "error {error}, call {after}: {status}");
                }
                let status = caller.ask(&head, &row).unwrap_or(0);
                assert!(![404, 409].contains(&status), "error {error}, call {after}: {status}");
                status == 200
            });
            sent += 1;
            // These may fail, and yet the table is there.
            let made = format!("PUT /v1/tables/t{sent} HTTP/1.1{producer}");
            for (head, body) in [(made.as_str(), "n: int"), (&facts, ""), ("GET /readyz HTTP/1.1", "")] {
                let status = caller.ask(head, body).unwrap_or(0);
                assert!(![404, 409].contains(&status), "error {error}, call {after}, {head}: {status}");
            }
            plan.fail(0, 0);
            wait_until("the reader has its right", || caller.ask(&list(&reader), "").is_ok_and(|status| status == 200));
            let answers = [&reads, &others].map(|head| caller.ask(head, &row).unwrap());
            assert_eq!(answers, [403, 401], "error {error}, call {after}");
        }
    }
    assert!(plan.failed() > sent / 2, "{} calls failed in {sent} rounds", plan.failed());
    plan.fail(1, 5);
    server.process.signal("TERM");
    assert_eq!(server.process.status().code(), Some(0));
    assert_eq!(numbers(&data.join("t")), (0..sent).collect::<Vec<_>>());
}
