//! Tests access: every route with every kind of token, paths that escape the directory, foreign origins, and TLS.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::slice;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int8Array, Int64Array, RecordBatch, StringArray};
use arrowwood::ErrorKind;
use arrowwood_serve::{Options, Rights, Server, add_token, revoke_token};
use prost::Message;

use crate::support::flight::{Descriptor, Ticket};
use crate::support::*;

const JSON: (&str, &str) = ("content-type", "application/x-ndjson");

fn rights(read: &[&str], write: &[&str]) -> Rights {
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Rights { read: list(read), write: list(write) }
}

/// The statuses of each route: without a token, with a wrong one, a revoked one, one for another table, one that may
/// read, one that may write, and one that may do everything.
const ROUTES: &[(&str, &str, &str, [u16; 7])] = &[
    ("GET", "/healthz", "", [200; 7]),
    ("GET", "/ping", "", [204; 7]),
    ("GET", "/metrics", "", [401, 401, 401, 403, 403, 403, 200]),
    ("GET", "/v1/tables", "", [401, 401, 401, 200, 200, 200, 200]),
    ("GET", "/v1/tables/t", "", [401, 401, 401, 403, 200, 200, 200]),
    ("HEAD", "/v1/tables/t", "", [401, 401, 401, 403, 200, 200, 200]),
    ("GET", "/v1/tables/t/rows", "", [401, 401, 401, 403, 200, 403, 200]),
    ("GET", "/v1/tables/t/rows?format=csv&where=n%3D1", "", [401, 401, 401, 403, 200, 403, 200]),
    ("HEAD", "/v1/tables/t/follow", "", [401, 401, 401, 403, 200, 403, 200]),
    ("HEAD", "/v1/tables/t/events", "", [401, 401, 401, 403, 200, 403, 200]),
    ("GET", "/v1/tables/t/producers/p", "", [401, 401, 401, 403, 404, 404, 404]),
    ("POST", "/v1/tables/t/rows", "{\"n\":1}", [401, 401, 401, 403, 403, 200, 200]),
    ("PUT", "/v1/tables/t", "n: int not null", [401, 401, 401, 403, 403, 200, 200]),
    ("PUT", "/v1/tables/new", "n: int", [401, 401, 401, 403, 403, 403, 201]),
    ("POST", "/write", "t n=1", [401, 401, 401, 403, 403, 400, 400]),
    ("POST", "/api/v2/write", "other n=1\nt n=1", [401, 401, 401, 403, 403, 403, 400]),
    ("POST", "/write", "made n=1", [401, 401, 401, 403, 403, 403, 204]),
    ("GET", "/v1/tables/t/sql?query=select+1", "", [401, 401, 401, 403, 501, 403, 501]),
    ("GET", "/v1/tables/t/groups?of=sum:0", "", [401, 401, 401, 403, 200, 403, 200]),
    ("GET", "/v1/tables/t/image?row=0&at=0", "", [401, 401, 401, 403, 404, 403, 404]),
    ("GET", "/v1/tables/t/seek?at=0&value=1", "", [401, 401, 401, 403, 200, 403, 200]),
    ("GET", "/v1/tables/t/statistics?at=0", "", [401, 401, 401, 403, 200, 403, 200]),
    ("GET", "/v1/tables/t/bins?at=0", "", [401, 401, 401, 403, 200, 403, 200]),
    ("GET", "/v1/tables/t/views?sort=n", "", [401, 401, 401, 403, 200, 403, 200]),
    ("GET", "/v1/tables/t/cells", "", [401, 401, 401, 403, 200, 403, 200]),
    ("GET", "/v1/tables/t/messages", "", [401, 401, 401, 403, 200, 403, 200]),
    ("GET", "/v1/tables/nothing", "", [401, 401, 401, 403, 403, 403, 404]),
    ("GET", "/v1/tables/nothing/rows", "", [401, 401, 401, 403, 403, 403, 404]),
    ("POST", "/v1/tables/nothing/rows", "{\"n\":1}", [401, 401, 401, 403, 403, 403, 404]),
    ("GET", "/nowhere", "", [401, 401, 401, 404, 404, 404, 404]),
    ("GET", "/", "", [401, 401, 401, 404, 404, 404, 404]),
    ("DELETE", "/v1/tables", "", [401, 401, 401, 405, 405, 405, 405]),
    ("GET", "/v1/tables/t/rows?limit=0", "", [401, 401, 401, 403, 200, 200, 200]),
    ("GET", "/v1/tables/t/rows?limit=1", "", [401, 401, 401, 403, 200, 403, 200]),
    ("GET", "/readyz", "", [200; 7]),
];

fn with_tokens(folder: &Path) -> Options {
    add_token(folder.join("tokens.json"), "first", rights(&["x"], &[])).unwrap();
    Options { token_file: Some(folder.join("tokens.json")), ..options() }
}

#[test]
fn every_route_requires_its_right() {
    let served = Served::with(with_tokens);
    served.numbers("t", 3);
    let file = served.folder.path().join("tokens.json");
    let add = |name: &str, rights: Rights| add_token(&file, name, rights).unwrap();
    let revoked = add("revoked", Rights::all());
    let mut tokens = vec![None, Some("aw_00000000_".to_owned() + &"0".repeat(64)), Some(revoked)];
    tokens.push(Some(add("other", rights(&["other"], &["other"]))));
    tokens.push(Some(add("reader", rights(&["t"], &[]))));
    tokens.push(Some(add("producer", rights(&[], &["t"]))));
    tokens.push(Some(add("all", Rights::all())));
    revoke_token(&file, "revoked").unwrap();
    let send = |(method, path, body, _): &(&str, &str, &str, [u16; 7]), token: &Option<String>| {
        let authorization = token.as_ref().map(|token| format!("Bearer {token}"));
        let mut headers = vec![JSON];
        headers.extend(authorization.as_deref().map(|value| ("authorization", value)));
        served.send(method, path, &headers, body.as_bytes())
    };
    wait_until("the tokens are known", || send(&ROUTES[3], &tokens[6]).status == 200);
    for route in ROUTES {
        for (token, expected) in tokens.iter().zip(route.3) {
            let reply = send(route, token);
            assert_eq!(reply.status, expected, "{} {} with {token:?}: {}", route.0, route.1, reply.text());
            if reply.status == 401 {
                assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
            }
        }
    }
    // A client without rights to a table must not learn that it exists.
    let named = |reply: Reply| reply.text().replace("nothing", "t");
    assert_eq!(named(send(&ROUTES[4], &tokens[3])), named(send(&ROUTES[19], &tokens[3])));
    assert_eq!(send(&ROUTES[3], &tokens[3]).text().trim_end(), r#"{"tables":[]}"#);
    assert_eq!(send(&ROUTES[3], &tokens[4]).text().trim_end(), r#"{"tables":[{"name":"t","kind":"table"}]}"#);
    // The log names the client, and contains no secret.
    let audit = served.audit().join("\n");
    assert!(audit.contains("\"token\":\"producer\"") && audit.contains("\"token\":null"));
    for token in tokens.iter().flatten() {
        assert!(!audit.contains(&token[12..]), "{audit}");
    }
    assert!(!audit.contains("format=csv"));
}

/// An overwritten file can have the same size and time.
#[test]
fn overwritten_token_file_ends_its_tokens() {
    let served = Served::with(with_tokens);
    let file = served.folder.path().join("tokens.json");
    let token = add_token(&file, "all", Rights::all()).unwrap();
    let status = || served.send("GET", "/v1/tables", &[("authorization", &format!("Bearer {token}"))], b"").status;
    wait_until("the token is known", || status() == 200);
    let text = fs::read_to_string(&file).unwrap();
    let time = fs::metadata(&file).unwrap().modified().unwrap();
    fs::write(&file, text.replace(&token[3..11], "00000000")).unwrap();
    fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().len(), text.len() as u64);
    wait_until("the token's end", || status() == 401);
}

/// A refused value may be quoted to its sender, and to nobody else.
#[test]
fn log_contains_no_values_of_rows() {
    let served = Served::start();
    let created =
        served.send("PUT", "/v1/tables/t?sorted_by=email", &[], b"email: text not null, n: int8, at: timestamp[us]");
    assert_eq!(created.status, 201, "{}", created.text());
    assert_eq!(served.post_json("t", "{\"email\":\"x@example.org\"}").status, 200);
    let csv = ("content-type", "text/csv");
    let rows = "/v1/tables/t/rows";
    let mut refused = 0;
    for (method, path, headers, body) in [
        ("POST", rows, vec![JSON], "{\"email\":\"alice@example.org\"}"),
        ("POST", rows, vec![JSON], "{\"email\":\"z\",\"n\":\"alice@example.org\"}"),
        ("POST", rows, vec![JSON], "{\"email\":\"z\",\"alice@example.org\":1}"),
        ("POST", rows, vec![JSON], "{\"email\":\"alice@example.org\""),
        ("POST", rows, vec![JSON, ("producer", "alice@example.org")], "{\"email\":\"z\"}"),
        ("POST", rows, vec![csv], "email,n\nz,alice@example.org\n"),
        ("POST", rows, vec![csv], "email,at\nz,alice@example.org\n"),
        ("POST", rows, vec![csv], "email\nalice@example.org\n"),
        ("POST", "/write", vec![], "t email=\"alice@example.org\",n=1i"),
        ("POST", "/write", vec![], "t n=\"alice@example.org\""),
        ("PUT", "/v1/tables/u", vec![], "alice@example.org: nothing"),
        ("GET", "/v1/tables/t/rows?where=alice%40example.org%20%3D%201", vec![], ""),
        ("GET", "/v1/tables/t/rows?where=n%20%3D%20%27alice%40example.org%27", vec![], ""),
        ("GET", "/v1/tables/t/seek?at=1&value=alice%40example.org", vec![], ""),
    ] {
        let reply = served.send(method, path, &headers, body.as_bytes());
        assert!(reply.status >= 400, "{method} {path} {body}: {}", reply.status);
        refused += 1;
    }
    wait_until("the lines of the log", || served.audit().len() == refused + 2);
    let audit = served.audit().join("\n");
    assert!(!audit.contains("alice") && !audit.contains("example"), "{audit}");
}

/// The same over Flight, where a refusal may come after the head of the response and has a log line of its own.
#[test]
fn log_contains_no_values_of_rows_sent_over_flight() {
    let served = Served::start();
    let created = served.send("PUT", "/v1/tables/t?sorted_by=email", &[], b"email: text not null, n: int8");
    assert_eq!(created.status, 201, "{}", created.text());
    assert_eq!(served.post_json("t", "{\"email\":\"x@example.org\"}").status, 200);
    let texts = |texts: &[&str]| -> ArrayRef { Arc::new(StringArray::from(texts.to_vec())) };
    let secret = "alice@example.org";
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let rows = |emails: &[&str]| {
        let small: ArrayRef = Arc::new(Int8Array::from_iter(emails.iter().map(|_| Some(1))));
        RecordBatch::try_from_iter_with_nullable([("email", texts(emails), false), ("n", small, true)]).unwrap()
    };
    let late = rows(&[secret]);
    let second_is_late = rows(&["y", secret]);
    let no_number = RecordBatch::try_from_iter([("email", texts(&["z"])), ("n", texts(&[secret]))]).unwrap();
    let no_column = RecordBatch::try_from_iter([("email", texts(&["z"])), (secret, numbers)]).unwrap();
    let sent = |command: &str, batch: &RecordBatch| flight::put(Descriptor::command(command), slice::from_ref(batch));
    let mut no_text = sent("t", &late);
    for message in &mut no_text {
        if let Some(at) = message.body.windows(secret.len()).position(|part| part == secret.as_bytes()) {
            message.body[at] = 0xff;
        }
    }
    let mut cut = sent("t", &late);
    cut[1].body.truncate(64);
    let mut calls = Vec::new();
    for method in ["DoPut", "DoExchange"] {
        let suffix = if method == "DoPut" { "" } else { "?follow=false" };
        for batch in [&late, &second_is_late, &no_number, &no_column] {
            calls.push((method, sent(&format!("t{suffix}"), batch)));
        }
        for messages in [&no_text, &cut] {
            let mut messages = messages.clone();
            messages[0].descriptor = Some(Descriptor::command(&format!("t{suffix}")));
            calls.push((method, messages));
        }
        let numbered = suffix.replace('?', "&");
        calls.push((method, sent(&format!("t?sequence=1&producer={secret}{numbered}"), &late)));
        calls.push((method, sent(&format!("t?ack={secret}{numbered}"), &late)));
    }
    for (number, (method, messages)) in calls.iter().enumerate() {
        let call_result = flight::call(&served, method, flight::framed(messages));
        assert_ne!(call_result.status, 0, "{method}, call {number}");
        // The sender is told which row it is.
        assert!(!number.is_multiple_of(8) || call_result.message.contains(secret), "{call_result:?}");
        let lines = || {
            let is_refused = |line: &&String| line.contains(method) && line.contains("\"code\":");
            served.audit().iter().filter(is_refused).count()
        };
        let expected = calls[..=number].iter().filter(|(other, _)| other == method).count();
        wait_until("the line of a refusal", || lines() == expected);
    }
    for ticket in ["t?where=alice%40example.org%20%3D%201", "t?where=n%20%3D%20%27alice%40example.org%27", "t?alice=1"]
    {
        let ticket = Ticket { ticket: ticket.into() }.encode_to_vec();
        assert_ne!(flight::call(&served, "DoGet", flight::frame(&ticket)).status, 0);
    }
    let is_get = |line: &&String| line.contains("DoGet");
    wait_until("the lines of the log", || served.audit().iter().filter(is_get).count() == 3);
    let audit = served.audit().join("\n");
    assert!(!audit.contains("alice") && !audit.contains("example"), "{audit}");
}

#[test]
fn read_only_server_writes_nothing() {
    let served = Served::with(|_| Options { read_only: true, ..options() });
    served.numbers("t", 3);
    for (method, path, body) in [
        ("POST", "/v1/tables/t/rows", "{\"n\":1}"),
        ("PUT", "/v1/tables/new", "n: int"),
        ("POST", "/write", "t n=1i"),
        ("POST", "/api/v2/write", "new n=1i"),
    ] {
        assert_eq!(served.send(method, path, &[JSON], body.as_bytes()).status, 403, "{method} {path}");
    }
    assert_eq!(served.get("/v1/tables/t").json()["writable"], false);
    assert_eq!(served.rows("/v1/tables/t/rows").len().unwrap(), 3);
}

#[test]
fn table_names_can_not_escape_the_directory() {
    let served = Served::start();
    served.numbers("t", 3);
    let outside = served.folder.path().join("outside");
    fs::rename(served.path("t"), &outside).unwrap();
    served.numbers("t", 2);
    symlink(&outside, served.path("link")).unwrap();
    symlink(outside.join("00000000000000000000.arrow"), served.path("link.arrow")).unwrap();
    fs::create_dir(served.path("inner")).unwrap();
    symlink(outside.join("00000000000000000000.arrow"), served.path("inner").join("00000000000000000000.arrow"))
        .unwrap();
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
    let names = served.get("/v1/tables").json();
    assert_eq!(names.to_string(), r#"{"tables":[{"name":"t","kind":"table"}]}"#);
    assert_eq!(arrowwood::open(&outside).unwrap().len().unwrap(), 3);
}

#[test]
fn foreign_hosts_and_origins_are_refused() {
    let served = Served::with(|_| Options { hosts: vec!["data.lan".into()], ..options() });
    served.numbers("t", 3);
    let with = |name: &str, value: &str| served.send("GET", "/v1/tables/t", &[(name, value)], b"").status;
    for (host, status) in
        [("data.lan:80", 200), ("127.0.0.1", 200), ("evil.example", 421), ("data.lan.evil.example", 421)]
    {
        assert_eq!(with("host", host), status, "{host}");
    }
    // Browsers send the origin of the page, and ask before they send other methods.
    for (origin, status) in [("http://localhost", 200), ("http://evil.example", 403), ("null", 403)] {
        assert_eq!(with("origin", origin), status, "{origin}");
    }
    let posted = served.send("POST", "/v1/tables/t/rows", &[JSON, ("origin", "http://evil.example")], b"{\"n\":1}");
    assert_eq!(posted.status, 403);
    let preflight = [("origin", "http://evil.example"), ("access-control-request-method", "POST")];
    let preflight = served.send("OPTIONS", "/v1/tables/t/rows", &preflight, b"");
    assert_eq!(preflight.status, 403);
    let all = [preflight, served.get("/v1/tables/t"), served.get("/nowhere")];
    for reply in all {
        assert!(reply.headers.iter().all(|(name, _)| !name.starts_with("access-control")), "{:?}", reply.headers);
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("content-security-policy"), Some("default-src 'none'"));
    }
    assert_eq!(served.rows("/v1/tables/t/rows").len().unwrap(), 3);
    assert_eq!(served.audit().iter().filter(|line| line.contains("\"status\":421")).count(), 2);
}

#[test]
fn public_addresses_require_tls_and_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let cert = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let (chain, key, tokens) =
        (folder.path().join("cert.pem"), folder.path().join("key.pem"), folder.path().join("tokens.json"));
    fs::write(&chain, cert.cert.pem()).unwrap();
    fs::write(&key, cert.signing_key.serialize_pem()).unwrap();
    add_token(&tokens, "a", Rights::all()).unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    let (tls, tokens) = (Some((chain, key.clone())), Some(tokens));
    let bind =
        |options: Options| Server::bind(folder.path().join("data"), &options).map(|server| server.url().to_owned());
    let open = || Options { listen: "0.0.0.0:0".into(), ..Options::default() };
    for (options, missing) in [
        (open(), "needs TLS (--tls-cert, --tls-key) and tokens (--token-file)"),
        (Options { tls: tls.clone(), ..open() }, "needs tokens (--token-file)"),
        (Options { token_file: tokens.clone(), ..open() }, "needs TLS"),
        (Options { listen: "[::]:0".into(), ..Options::default() }, "needs TLS"),
    ] {
        let e = bind(options).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidArgument);
        assert!(e.message().contains(missing), "{e}");
    }
    assert!(
        bind(Options { tls: tls.clone(), token_file: tokens.clone(), ..open() })
            .unwrap()
            .starts_with("https://0.0.0.0:")
    );
    assert!(bind(Options { insecure: true, ..open() }).unwrap().starts_with("http://0.0.0.0:"));
    assert!(
        bind(Options { listen: "nowhere".into(), ..Options::default() }).unwrap_err().message().contains("HOST:PORT")
    );
    let swapped = Options { tls: tls.map(|(chain, key)| (key, chain)), ..options() };
    assert_eq!(bind(swapped).unwrap_err().kind(), ErrorKind::InvalidData);
    let missing = Options { token_file: Some(folder.path().join("no.json")), ..options() };
    assert_eq!(bind(missing).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(Server::bind(&key, &options()).is_err());
}

#[test]
fn plain_text_on_the_tls_port_is_not_answered() {
    let cert = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let served = Served::with(|folder| {
        let (chain, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        fs::write(&chain, cert.cert.pem()).unwrap();
        fs::write(&key, cert.signing_key.serialize_pem()).unwrap();
        Options { tls: Some((chain, key)), limits: impatient(), ..options() }
    });
    served.numbers("t", 3);
    let mut plain = served.connect();
    plain.write_all(b"GET /v1/tables HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // The system decides whether the connection is closed or reset.
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.windows(5).any(|bytes| bytes == b"HTTP/" || bytes == b"ticks"), "{answer:?}");
    // Silent connections are closed, too.
    let mut silent = served.connect();
    assert_eq!(silent.read(&mut [0; 8]).unwrap_or(0), 0);
    // TLS works with each version of HTTP.
    for (version, protocol) in [(&b"http/1.1"[..], "HTTP/1.1"), (b"h2", "h2")] {
        use tokio_rustls::rustls::{
            ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto::ring::default_provider,
        };
        let mut roots = RootCertStore::empty();
        roots.add(cert.cert.der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![version.to_vec()];
        let connection = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
        let mut client = Client::new(StreamOwned::new(connection, served.connect()));
        if protocol == "h2" {
            client.stream.get_mut().write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
            let mut settings = [0; 9];
            client.stream.read_exact(&mut settings).unwrap();
            assert_eq!(settings[3], 4, "HTTP/2 begins with settings");
        } else {
            assert_eq!(client.send("GET", "/v1/tables/t/rows", &[], b"").unwrap().dataset().len().unwrap(), 3);
        }
        assert_eq!(client.stream.get_ref().conn.alpn_protocol(), Some(version));
    }
}
