//! Tests access: every route with every kind of token, paths that escape the directory, foreign origins, and TLS.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int8Array, Int64Array, RecordBatch, StringArray};
use arrowwood::ErrorKind;
use arrowwood_serve::{Options, Rights, Server, add_token, revoke_token};
use prost::Message;
use rcgen::{CertifiedKey, KeyPair};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::support::flight::{Descriptor, Ticket};
use crate::support::*;

const JSON: (&str, &str) = ("content-type", "application/x-ndjson");
const CSV: (&str, &str) = ("content-type", "text/csv");
/// The length of `aw_`, the number of a token and `_`, which come before its secret.
const TOKEN_PREFIX_LEN: usize = 12;

fn rights(read: &[&str], write: &[&str]) -> Rights {
    Rights { read: owned(read), write: owned(write) }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A request, and the status that each kind of token gets for it.
struct Route {
    method: &'static str,
    path: &'static str,
    body: &'static str,
    statuses: [u16; 7],
}

const fn route(method: &'static str, path: &'static str, body: &'static str, statuses: [u16; 7]) -> Route {
    Route { method, path, body, statuses }
}

/// The statuses are, in this order: without a token, with a wrong one, a revoked one, one for another table, one that
/// may read, one that may write, and one that may do everything.
const ROUTES: &[Route] = &[
    route("GET", "/healthz", "", [200; 7]),
    route("GET", "/ping", "", [204; 7]),
    route("GET", "/metrics", "", [401, 401, 401, 403, 403, 403, 200]),
    route("GET", "/v1/tables", "", [401, 401, 401, 200, 200, 200, 200]),
    route("GET", "/v1/tables/t", "", [401, 401, 401, 403, 200, 200, 200]),
    route("HEAD", "/v1/tables/t", "", [401, 401, 401, 403, 200, 200, 200]),
    route("GET", "/v1/tables/t/rows", "", [401, 401, 401, 403, 200, 403, 200]),
    route("GET", "/v1/tables/t/rows?format=csv&where=n%3D1", "", [401, 401, 401, 403, 200, 403, 200]),
    route("HEAD", "/v1/tables/t/follow", "", [401, 401, 401, 403, 200, 403, 200]),
    route("HEAD", "/v1/tables/t/events", "", [401, 401, 401, 403, 200, 403, 200]),
    route("GET", "/v1/tables/t/producers/p", "", [401, 401, 401, 403, 404, 404, 404]),
    route("POST", "/v1/tables/t/rows", "{\"n\":1}", [401, 401, 401, 403, 403, 200, 200]),
    route("PUT", "/v1/tables/t", "n: int not null", [401, 401, 401, 403, 403, 200, 200]),
    route("PUT", "/v1/tables/new", "n: int", [401, 401, 401, 403, 403, 403, 201]),
    route("POST", "/write", "t n=1", [401, 401, 401, 403, 403, 400, 400]),
    route("POST", "/api/v2/write", "other n=1\nt n=1", [401, 401, 401, 403, 403, 403, 400]),
    route("POST", "/write", "made n=1", [401, 401, 401, 403, 403, 403, 204]),
    route("GET", "/v1/tables/t/sql?query=select+1", "", [401, 401, 401, 403, 501, 403, 501]),
    route("GET", "/v1/tables/t/groups?of=sum:0", "", [401, 401, 401, 403, 200, 403, 200]),
    route("GET", "/v1/tables/t/image?row=0&at=0", "", [401, 401, 401, 403, 404, 403, 404]),
    route("GET", "/v1/tables/t/seek?at=0&value=1", "", [401, 401, 401, 403, 200, 403, 200]),
    route("GET", "/v1/tables/t/statistics?at=0", "", [401, 401, 401, 403, 200, 403, 200]),
    route("GET", "/v1/tables/t/bins?at=0", "", [401, 401, 401, 403, 200, 403, 200]),
    route("GET", "/v1/tables/t/views?sort=n", "", [401, 401, 401, 403, 200, 403, 200]),
    route("GET", "/v1/tables/t/cells", "", [401, 401, 401, 403, 200, 403, 200]),
    route("GET", "/v1/tables/t/messages", "", [401, 401, 401, 403, 200, 403, 200]),
    route("GET", "/v1/tables/nothing", "", [401, 401, 401, 403, 403, 403, 404]),
    route("GET", "/v1/tables/nothing/rows", "", [401, 401, 401, 403, 403, 403, 404]),
    route("POST", "/v1/tables/nothing/rows", "{\"n\":1}", [401, 401, 401, 403, 403, 403, 404]),
    route("GET", "/nowhere", "", [401, 401, 401, 404, 404, 404, 404]),
    route("GET", "/", "", [401, 401, 401, 404, 404, 404, 404]),
    route("DELETE", "/v1/tables", "", [401, 401, 401, 405, 405, 405, 405]),
    route("GET", "/v1/tables/t/rows?limit=0", "", [401, 401, 401, 403, 200, 200, 200]),
    route("GET", "/v1/tables/t/rows?limit=1", "", [401, 401, 401, 403, 200, 403, 200]),
    route("GET", "/readyz", "", [200; 7]),
];

fn with_tokens(folder: &Path) -> Options {
    add_token(folder.join("tokens.json"), "first", rights(&["x"], &[])).unwrap();
    Options { token_file: Some(folder.join("tokens.json")), ..options() }
}

/// The tokens of the columns in [`ROUTES`].
struct Tokens {
    wrong: String,
    revoked: String,
    other: String,
    reader: String,
    producer: String,
    all: String,
}

impl Tokens {
    fn add_to(file: &Path) -> Tokens {
        let tokens = Tokens {
            wrong: format!("aw_00000000_{}", "0".repeat(64)),
            revoked: add_token(file, "revoked", Rights::all()).unwrap(),
            other: add_token(file, "other", rights(&["other"], &["other"])).unwrap(),
            reader: add_token(file, "reader", rights(&["t"], &[])).unwrap(),
            producer: add_token(file, "producer", rights(&[], &["t"])).unwrap(),
            all: add_token(file, "all", Rights::all()).unwrap(),
        };
        revoke_token(file, "revoked").unwrap();
        tokens
    }

    /// Returns a token for each column; none for the first.
    fn columns(&self) -> [Option<&str>; 7] {
        [
            None,
            Some(&self.wrong),
            Some(&self.revoked),
            Some(&self.other),
            Some(&self.reader),
            Some(&self.producer),
            Some(&self.all),
        ]
    }
}

fn send_with_token(served: &TestServer, route: &Route, token: Option<&str>) -> Reply {
    let authorization = token.map(|token| format!("Bearer {token}"));
    let mut headers = vec![JSON];
    if let Some(authorization) = &authorization {
        headers.push(("authorization", authorization));
    }
    served.send(route.method, route.path, &headers, route.body.as_bytes())
}

fn get_with_token(served: &TestServer, path: &str, token: &str) -> Reply {
    served.send("GET", path, &[("authorization", &format!("Bearer {token}"))], b"")
}

#[test]
fn every_route_requires_its_right() {
    let served = TestServer::start_with(with_tokens);
    served.write_numbers("t", 3);
    let tokens = Tokens::add_to(&served.folder.path().join("tokens.json"));
    wait_until("the tokens are known", || get_with_token(&served, "/v1/tables", &tokens.all).status == 200);
    for route in ROUTES {
        for (token, expected) in tokens.columns().into_iter().zip(route.statuses) {
            let reply = send_with_token(&served, route, token);
            assert_eq!(reply.status, expected, "{} {} with {token:?}: {}", route.method, route.path, reply.text());
            if reply.status == 401 {
                assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
            }
        }
    }
    // A client without rights to a table must not learn that it exists.
    let existing = get_with_token(&served, "/v1/tables/t", &tokens.other);
    let missing = get_with_token(&served, "/v1/tables/nothing", &tokens.other);
    assert_eq!(existing.text().replace("nothing", "t"), missing.text().replace("nothing", "t"));
    let listed = get_with_token(&served, "/v1/tables", &tokens.other);
    assert_eq!(listed.text().trim_end(), r#"{"tables":[]}"#);
    let listed = get_with_token(&served, "/v1/tables", &tokens.reader);
    assert_eq!(listed.text().trim_end(), r#"{"tables":[{"name":"t","kind":"table"}]}"#);
    // The log names the client, and contains no secret.
    let audit = served.audit().join("\n");
    assert!(audit.contains("\"token\":\"producer\""));
    assert!(audit.contains("\"token\":null"));
    for token in tokens.columns().into_iter().flatten() {
        let secret = &token[TOKEN_PREFIX_LEN..];
        assert!(!audit.contains(secret), "{audit}");
    }
    assert!(!audit.contains("format=csv"));
}

/// An overwritten file can have the same size and time.
#[test]
fn overwritten_token_file_ends_its_tokens() {
    let served = TestServer::start_with(with_tokens);
    let file = served.folder.path().join("tokens.json");
    let token = add_token(&file, "all", Rights::all()).unwrap();
    wait_until("the token is known", || get_with_token(&served, "/v1/tables", &token).status == 200);
    let text = fs::read_to_string(&file).unwrap();
    let time = fs::metadata(&file).unwrap().modified().unwrap();
    let token_number = &token["aw_".len()..TOKEN_PREFIX_LEN - "_".len()];
    fs::write(&file, text.replace(token_number, "00000000")).unwrap();
    fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().len(), text.len() as u64);
    wait_until("the token's end", || get_with_token(&served, "/v1/tables", &token).status == 401);
}

/// A value that no log line may contain.
const SECRET: &str = "alice@example.org";

/// Creates a table `t` that is sorted by its column `email`, with one row.
fn create_table_of_emails(served: &TestServer, schema: &[u8]) {
    let created = served.send("PUT", "/v1/tables/t?sorted_by=email", &[], schema);
    assert_eq!(created.status, 201, "{}", created.text());
    assert_eq!(served.post_json("t", "{\"email\":\"x@example.org\"}").status, 200);
}

fn assert_log_contains_no_values(served: &TestServer) {
    let audit = served.audit().join("\n");
    assert!(!audit.contains("alice"), "{audit}");
    assert!(!audit.contains("example"), "{audit}");
}

/// Refusals may quote a value to its sender, but the log must not.
#[test]
fn log_contains_no_values_of_rows() {
    let served = TestServer::start();
    create_table_of_emails(&served, b"email: text not null, n: int8, at: timestamp[us]");
    let rows = "/v1/tables/t/rows";
    let requests = [
        ("POST", rows, vec![JSON], "{\"email\":\"alice@example.org\"}"),
        ("POST", rows, vec![JSON], "{\"email\":\"z\",\"n\":\"alice@example.org\"}"),
        ("POST", rows, vec![JSON], "{\"email\":\"z\",\"alice@example.org\":1}"),
        ("POST", rows, vec![JSON], "{\"email\":\"alice@example.org\""),
        ("POST", rows, vec![JSON, ("producer", "alice@example.org")], "{\"email\":\"z\"}"),
        ("POST", rows, vec![CSV], "email,n\nz,alice@example.org\n"),
        ("POST", rows, vec![CSV], "email,at\nz,alice@example.org\n"),
        ("POST", rows, vec![CSV], "email\nalice@example.org\n"),
        ("POST", "/write", vec![], "t email=\"alice@example.org\",n=1i"),
        ("POST", "/write", vec![], "t n=\"alice@example.org\""),
        ("PUT", "/v1/tables/u", vec![], "alice@example.org: nothing"),
        ("GET", "/v1/tables/t/rows?where=alice%40example.org%20%3D%201", vec![], ""),
        ("GET", "/v1/tables/t/rows?where=n%20%3D%20%27alice%40example.org%27", vec![], ""),
        ("GET", "/v1/tables/t/seek?at=1&value=alice%40example.org", vec![], ""),
    ];
    for (method, path, headers, body) in &requests {
        let reply = served.send(method, path, headers, body.as_bytes());
        assert!(reply.status >= 400, "{method} {path} {body}: {}", reply.status);
    }
    // The creation of the table, and its row, have lines as well.
    wait_until("the lines of the log", || served.audit().len() == requests.len() + 2);
    assert_log_contains_no_values(&served);
}

fn text_column(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

/// Returns rows of the table of emails.
fn email_batch(emails: &[&str]) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int8Array::from(vec![1; emails.len()]));
    let columns = [("email", text_column(emails), false), ("n", numbers, true)];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// Returns messages that append a batch.
fn append_messages(command: &str, batch: &RecordBatch) -> Vec<flight::Data> {
    flight::put(Descriptor::command(command), slice::from_ref(batch))
}

/// Replaces the first byte of the secret in each body by one that is not UTF-8.
fn damage_secret(messages: &mut [flight::Data]) {
    for message in messages {
        let offset = message.body.windows(SECRET.len()).position(|window| window == SECRET.as_bytes());
        if let Some(offset) = offset {
            message.body[offset] = 0xff;
        }
    }
}

/// Returns calls of a method that are refused. The first one has a row that comes too late in the order of the table.
fn refused_appends(method: &str) -> Vec<Vec<flight::Data>> {
    // An exchange would wait for more rows to follow.
    let command = if method == "DoPut" { "t" } else { "t?follow=false" };
    let more_options = if method == "DoPut" { "" } else { "&follow=false" };
    let late = email_batch(&[SECRET]);
    let second_is_late = email_batch(&["y", SECRET]);
    let text_for_number =
        RecordBatch::try_from_iter([("email", text_column(&["z"])), ("n", text_column(&[SECRET]))]).unwrap();
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let unknown_column = RecordBatch::try_from_iter([("email", text_column(&["z"])), (SECRET, numbers)]).unwrap();
    let mut invalid_text = append_messages(command, &late);
    damage_secret(&mut invalid_text);
    let mut truncated = append_messages(command, &late);
    truncated[1].body.truncate(64);
    vec![
        append_messages(command, &late),
        append_messages(command, &second_is_late),
        append_messages(command, &text_for_number),
        append_messages(command, &unknown_column),
        invalid_text,
        truncated,
        append_messages(&format!("t?sequence=1&producer={SECRET}{more_options}"), &late),
        append_messages(&format!("t?ack={SECRET}{more_options}"), &late),
    ]
}

fn count_log_lines(served: &TestServer, is_counted: impl Fn(&str) -> bool) -> usize {
    served.audit().iter().filter(|line| is_counted(line)).count()
}

/// A refusal over Flight may come after the head of the response, and then has a log line of its own.
#[test]
fn log_contains_no_values_of_rows_sent_over_flight() {
    let served = TestServer::start();
    create_table_of_emails(&served, b"email: text not null, n: int8");
    for method in ["DoPut", "DoExchange"] {
        for (number, messages) in refused_appends(method).iter().enumerate() {
            let call_result = flight::call(&served, method, flight::framed(messages));
            assert_ne!(call_result.status, 0, "{method}, call {number}");
            // The sender is told which row is late.
            assert!(number > 0 || call_result.message.contains(SECRET), "{call_result:?}");
            wait_until("the line of a refusal", || {
                count_log_lines(&served, |line| line.contains(method) && line.contains("\"code\":")) == number + 1
            });
        }
    }
    let tickets = ["t?where=alice%40example.org%20%3D%201", "t?where=n%20%3D%20%27alice%40example.org%27", "t?alice=1"];
    for ticket in tickets {
        let ticket = Ticket { ticket: ticket.into() }.encode_to_vec();
        assert_ne!(flight::call(&served, "DoGet", flight::frame(&ticket)).status, 0);
    }
    wait_until("the lines of the log", || count_log_lines(&served, |line| line.contains("DoGet")) == tickets.len());
    assert_log_contains_no_values(&served);
}

#[test]
fn read_only_server_writes_nothing() {
    let served = TestServer::start_with(|_| Options { read_only: true, ..options() });
    served.write_numbers("t", 3);
    for (method, path, body) in [
        ("POST", "/v1/tables/t/rows", "{\"n\":1}"),
        ("PUT", "/v1/tables/new", "n: int"),
        ("POST", "/write", "t n=1i"),
        ("POST", "/api/v2/write", "new n=1i"),
    ] {
        assert_eq!(served.send(method, path, &[JSON], body.as_bytes()).status, 403, "{method} {path}");
    }
    assert_eq!(served.get("/v1/tables/t").json()["writable"], false);
    assert_eq!(served.get_rows("/v1/tables/t/rows").len().unwrap(), 3);
}

#[test]
fn table_names_can_not_escape_the_directory() {
    let served = TestServer::start();
    served.write_numbers("t", 3);
    let outside = served.folder.path().join("outside");
    fs::rename(served.path("t"), &outside).unwrap();
    served.write_numbers("t", 2);
    symlink(&outside, served.path("link")).unwrap();
    let segment = "00000000000000000000.arrow";
    symlink(outside.join(segment), served.path("link.arrow")).unwrap();
    fs::create_dir(served.path("inner")).unwrap();
    symlink(outside.join(segment), served.path("inner").join(segment)).unwrap();
    for name in [
        "..%2foutside",
        "%2e%2e%2foutside",
        "../outside",
        "..",
        ".",
        "%2e",
        "t%2f..%2f..%2foutside",
        "t%00",
        "%00",
        "link",
        "link.arrow",
        "inner",
        "%5c..%5coutside",
        "t%2f",
        "%ff",
        "",
        "%",
        "%zz",
        "t%0a",
        &outside.display().to_string().replace('/', "%2f"),
        &"x".repeat(5_000),
    ] {
        for suffix in ["", "/rows", "/follow", "/events"] {
            let reply = served.get(&format!("/v1/tables/{name}{suffix}"));
            assert!([400, 404, 405].contains(&reply.status), "{name}{suffix}: {} {}", reply.status, reply.text());
        }
        let reply = served.post_json(name, "{\"n\":1}");
        assert!([400, 404].contains(&reply.status), "{name}: {}", reply.text());
        let reply = served.send("PUT", &format!("/v1/tables/{name}"), &[], b"n: int");
        assert!([400, 404, 409].contains(&reply.status), "{name}: {}", reply.text());
    }
    let listed = served.get("/v1/tables").json();
    assert_eq!(listed.to_string(), r#"{"tables":[{"name":"t","kind":"table"}]}"#);
    assert_eq!(arrowwood::open(&outside).unwrap().len().unwrap(), 3);
}

#[test]
fn foreign_hosts_and_origins_are_refused() {
    let served = TestServer::start_with(|_| Options { hosts: vec!["data.lan".into()], ..options() });
    served.write_numbers("t", 3);
    for (host, status) in
        [("data.lan:80", 200), ("127.0.0.1", 200), ("evil.example", 421), ("data.lan.evil.example", 421)]
    {
        assert_eq!(served.send("GET", "/v1/tables/t", &[("host", host)], b"").status, status, "{host}");
    }
    // Browsers send the origin of the page, and ask before they send other methods.
    for (origin, status) in [("http://localhost", 200), ("http://evil.example", 403), ("null", 403)] {
        assert_eq!(served.send("GET", "/v1/tables/t", &[("origin", origin)], b"").status, status, "{origin}");
    }
    let posted = served.send("POST", "/v1/tables/t/rows", &[JSON, ("origin", "http://evil.example")], b"{\"n\":1}");
    assert_eq!(posted.status, 403);
    let preflight_headers = [("origin", "http://evil.example"), ("access-control-request-method", "POST")];
    let preflight = served.send("OPTIONS", "/v1/tables/t/rows", &preflight_headers, b"");
    assert_eq!(preflight.status, 403);
    for reply in [preflight, served.get("/v1/tables/t"), served.get("/nowhere")] {
        assert!(reply.headers.iter().all(|(name, _)| !name.starts_with("access-control")), "{:?}", reply.headers);
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("content-security-policy"), Some("default-src 'none'"));
    }
    assert_eq!(served.get_rows("/v1/tables/t/rows").len().unwrap(), 3);
    assert_eq!(count_log_lines(&served, |line| line.contains("\"status\":421")), 2);
}

/// Writes a certificate and its key; returns their paths.
fn write_certificate(folder: &Path, cert: &CertifiedKey<KeyPair>) -> (PathBuf, PathBuf) {
    let cert_path = folder.join("cert.pem");
    let key_path = folder.join("key.pem");
    fs::write(&cert_path, cert.cert.pem()).unwrap();
    fs::write(&key_path, cert.signing_key.serialize_pem()).unwrap();
    (cert_path, key_path)
}

/// Binds a server, and returns its URL.
fn bind(directory: &Path, options: Options) -> arrowwood::Result<String> {
    Server::bind(directory, &options).map(|server| server.url().to_owned())
}

fn public_options() -> Options {
    Options { listen: "0.0.0.0:0".into(), ..Options::default() }
}

#[test]
fn public_addresses_require_tls_and_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("data");
    fs::create_dir(&directory).unwrap();
    let cert = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let (cert_path, key_path) = write_certificate(folder.path(), &cert);
    let token_path = folder.path().join("tokens.json");
    add_token(&token_path, "a", Rights::all()).unwrap();
    let tls = Some((cert_path.clone(), key_path.clone()));
    let token_file = Some(token_path);
    for (options, missing) in [
        (public_options(), "needs TLS (--tls-cert, --tls-key) and tokens (--token-file)"),
        (Options { tls: tls.clone(), ..public_options() }, "needs tokens (--token-file)"),
        (Options { token_file: token_file.clone(), ..public_options() }, "needs TLS"),
        (Options { listen: "[::]:0".into(), ..Options::default() }, "needs TLS"),
    ] {
        let error = bind(&directory, options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains(missing), "{error}");
    }
    let url = bind(&directory, Options { tls, token_file, ..public_options() }).unwrap();
    assert!(url.starts_with("https://0.0.0.0:"), "{url}");
    let url = bind(&directory, Options { insecure: true, ..public_options() }).unwrap();
    assert!(url.starts_with("http://0.0.0.0:"), "{url}");

    let error = bind(&directory, Options { listen: "nowhere".into(), ..Options::default() }).unwrap_err();
    assert!(error.message().contains("HOST:PORT"), "{error}");
    let swapped = Options { tls: Some((key_path.clone(), cert_path)), ..options() };
    assert_eq!(bind(&directory, swapped).unwrap_err().kind(), ErrorKind::InvalidData);
    let missing = Options { token_file: Some(folder.path().join("no.json")), ..options() };
    assert_eq!(bind(&directory, missing).unwrap_err().kind(), ErrorKind::NotFound);
    let file_as_directory = bind(&key_path, options());
    assert!(file_as_directory.is_err());
}

/// Connects with TLS, and offers one version of HTTP.
fn connect_with_tls(
    served: &TestServer,
    cert: &CertifiedKey<KeyPair>,
    http_version: &[u8],
) -> Client<StreamOwned<ClientConnection, TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(cert.cert.der().clone()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![http_version.to_vec()];
    let connection = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    Client::new(StreamOwned::new(connection, served.connect()))
}

#[test]
fn plain_text_on_the_tls_port_is_not_answered() {
    const SETTINGS_FRAME: u8 = 4;
    let cert = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let served = TestServer::start_with(|folder| {
        let tls = Some(write_certificate(folder, &cert));
        Options { tls, limits: short_timeouts(), ..options() }
    });
    served.write_numbers("t", 3);
    let mut plain = served.connect();
    plain.write_all(b"GET /v1/tables HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // The system decides whether the connection is closed or reset.
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.windows(5).any(|bytes| bytes == b"HTTP/"), "{answer:?}");
    // Silent connections are closed, too.
    let mut silent = served.connect();
    assert_eq!(silent.read(&mut [0; 8]).unwrap_or(0), 0);

    let mut http1 = connect_with_tls(&served, &cert, b"http/1.1");
    let reply = http1.send("GET", "/v1/tables/t/rows", &[], b"").unwrap();
    assert_eq!(reply.dataset().len().unwrap(), 3);
    assert_eq!(http1.stream.get_ref().conn.alpn_protocol(), Some(&b"http/1.1"[..]));

    let mut http2 = connect_with_tls(&served, &cert, b"h2");
    http2.stream.get_mut().write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    let mut frame_head = [0; 9];
    http2.stream.read_exact(&mut frame_head).unwrap();
    assert_eq!(frame_head[3], SETTINGS_FRAME, "HTTP/2 begins with settings");
    assert_eq!(http2.stream.get_ref().conn.alpn_protocol(), Some(&b"h2"[..]));
}
