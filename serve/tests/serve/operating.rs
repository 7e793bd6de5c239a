//! Tests what operators see of a server: whether it is alive and ready if connections, disk or certificate are not, and
//! how it stops.

use std::fs;
use std::io::{self, Read};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrowwood::simulate::{FileSystem, FsObserver, FsOp};
use arrowwood_serve::{Limits, Options};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};

use crate::simulated_disk::Recorder;
use crate::support::flight::{Descriptor, call, framed, put};
use crate::support::*;
use crate::tables::folder_in_memory;

/// Silent connections up to the limit and beyond must not lock out health checks and, for long, other clients.
#[test]
fn health_checks_are_answered_when_all_connections_are_taken() {
    let served = Served::with(|_| Options { limits: Limits { connections: 5, ..Limits::default() }, ..options() });
    let silent: Vec<_> = (0..60).map(|_| served.connect()).collect();
    for path in ["/healthz", "/readyz", "/healthz"] {
        let reply = served.get(path);
        assert_eq!((reply.status, reply.header("connection")), (200, Some("close")), "{path}: {}", reply.text());
    }
    assert_eq!(served.send("GET", "/ping", &[], b"").status, 204);
    let refused = served.get("/metrics");
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")), "{}", refused.text());
    drop(silent);
    wait_until("a place for others", || {
        served.client().send("GET", "/metrics", &[], b"").is_ok_and(|it| it.status == 200)
    });
}

/// A disk that refuses writes while it is told to.
#[derive(Debug, Default)]
struct Full(AtomicBool);

impl FsObserver for Full {
    fn before_op(&self, _: FsOp<'_>) -> io::Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(io::Error::from_raw_os_error(28)) } else { Ok(()) }
    }
}

#[test]
fn server_with_a_full_disk_is_alive_and_not_ready() {
    let full = Arc::new(Full::default());
    let medium = FileSystem::with_observer(full.clone());
    let served = Served::with(|_| Options { medium, ..options() });
    served.numbers("t", 3);
    assert_eq!(served.get("/readyz").status, 200);
    full.0.store(true, Ordering::Relaxed);
    assert_eq!(served.post_json("t", "{\"n\":3}").code(), "no_space");
    let reply = served.get("/readyz");
    assert_eq!((reply.status, reply.code().as_str()), (503, "not_ready"));
    assert!(reply.text().contains("the disk is full"), "{}", reply.text());
    assert_eq!(served.get("/healthz").status, 200);
    assert_eq!(served.rows("/v1/tables/t/rows").len().unwrap(), 3);
    full.0.store(false, Ordering::Relaxed);
    // Readiness is probed by a write, even without rows.
    wait_until("the server is ready", || served.get("/readyz").status == 200);
}

/// Writes to a server; returns whether that was refused, and the message.
type Write = fn(&Served) -> (bool, String);

const WRITES: [Write; 5] = [
    |served| of_reply(&served.send("PUT", "/v1/tables/new", &[], b"n: int not null")),
    |served| of_reply(&served.post_json("closed", "{\"n\":1}")),
    // Rows for several segments.
    |served| of_reply(&served.post_json("open", &"{\"n\":1}\n".repeat(100))),
    |served| {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
        let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        let call_result = call(served, "DoPut", framed(&put(Descriptor::path("open"), &[batch])));
        (call_result.status != 0, format!("{}: {}", call_result.status, call_result.message))
    },
    |served| of_reply(&served.send("POST", "/write", &[], b"fresh x=1 1\nmeasured x=2 2")),
];

fn of_reply(reply: &Reply) -> (bool, String) {
    (reply.status >= 400, format!("{}: {}", reply.status, reply.text()))
}

/// Refuses each operation of each kind of write.
#[test]
fn refused_write_shows_in_readiness() {
    for (number, write) in WRITES.iter().enumerate() {
        for (errno, problem) in [(libc::ENOSPC, "the disk is full"), (libc::EIO, "the disk fails")] {
            let mut report_count = 0;
            // A full disk stays full.
            for after in 0.. {
                let recorder = Arc::new(Recorder::default());
                let folder = folder_in_memory();
                fs::create_dir(folder.path().join("data")).unwrap();
                let served =
                    Served::over(folder, Options { medium: FileSystem::with_observer(recorder.clone()), ..options() });
                for name in ["open", "closed"] {
                    let path = format!("/v1/tables/{name}?segment_rows=24");
                    assert_eq!(served.send("PUT", &path, &[], b"n: int not null").status, 201);
                }
                assert_eq!(served.post_json("open", "{\"n\":0}").status, 200);
                assert_eq!(served.send("POST", "/write", &[], b"measured x=1 1").status, 204);
                assert_eq!(served.post_json("open", "{\"n\":\"x\"}").status, 400);
                assert_eq!(served.get("/readyz").status, 200);
                recorder.fail(after, errno, errno == libc::ENOSPC);
                let (is_refused, said) = write(&served);
                let ready = served.get("/readyz");
                if is_refused {
                    // After a failed background sync, nothing else is known.
                    let is_told = ready.status == 503 && ready.text().contains("the disk");
                    assert!(is_told, "write {number}, act {after}: {said}, and then {}", ready.text());
                    report_count += usize::from(ready.text().contains(problem));
                }
                if !recorder.clear_fault() {
                    break;
                }
            }
            assert!(report_count > 3, "write {number}: {report_count} times {problem}");
        }
    }
}

/// While started responses are finished, new connections must be refused instead of left waiting.
#[test]
fn stopping_server_refuses_connections_at_once() {
    let limits = Limits { grace: Duration::from_secs(3_600), ..Limits::default() };
    let served = Served::with(|_| Options { limits, ..options() });
    let mut writer = served.writer("t", "text: text not null");
    let text = "x".repeat(1 << 20);
    // More than fits into the buffers of the system.
    (0..64).for_each(|_| writer.append_row(&[arrowwood::Value::Str(&text)]).unwrap());
    writer.close().unwrap();
    let mut client = served.client();
    client.begin("GET", "/v1/tables/t/rows", &[], b"").unwrap();
    client.head().unwrap();
    served.stopper().stop();
    wait_until("connections are refused", || {
        TcpStream::connect(("127.0.0.1", served.port)).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused)
    });
    let mut rows = Vec::new();
    client.body().read_to_end(&mut rows).unwrap();
    assert_eq!(dataset(&rows).len().unwrap(), 64);
}

/// Writes a certificate that is valid until the end of a year, and its key.
fn write_certificate(folder: &Path, year: i32) -> CertificateDer<'static> {
    let mut params = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
    params.not_before = rcgen::date_time_ymd(year, 1, 1);
    params.not_after = rcgen::date_time_ymd(year, 12, 31);
    let key = rcgen::KeyPair::generate().unwrap();
    let cert = params.self_signed(&key).unwrap();
    fs::write(folder.join("cert.pem"), cert.pem()).unwrap();
    fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
    cert.der().clone()
}

/// Sends a request to a server that must have this certificate.
fn ask(served: &Served, cert: &CertificateDer<'static>, path: &str) -> Option<Reply> {
    use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use tokio_rustls::rustls::crypto::ring::default_provider;
    use tokio_rustls::rustls::{
        ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
    };
    #[derive(Debug)]
    struct Only(CertificateDer<'static>);
    impl ServerCertVerifier for Only {
        fn verify_server_cert(
            &self,
            cert: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            if *cert == self.0 {
                Ok(ServerCertVerified::assertion())
            } else {
                Err(Error::General("another one".into()))
            }
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            default_provider().signature_verification_algorithms.supported_schemes()
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Only(cert.clone())))
        .with_no_client_auth();
    let connection = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    Client::new(StreamOwned::new(connection, served.connect())).send("GET", path, &[], b"").ok()
}

/// Copied files, and volumes of secrets, keep their times, so a changed certificate may have an old time.
#[test]
fn certificate_is_renewed_by_content_and_expiry_is_logged() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    let expired = write_certificate(folder.path(), 2020);
    let files = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
    let times = files.each_ref().map(|path| fs::metadata(path).unwrap().modified().unwrap());
    let limits = Limits { renewal: Duration::from_millis(10), ..Limits::default() };
    let tls = Some((files[0].clone(), files[1].clone()));
    let served = Served::over(folder, Options { tls, limits, ..options() });
    let reply = ask(&served, &expired, "/readyz").unwrap();
    assert!(reply.status == 503 && reply.text().contains("certificate is expired"), "{}", reply.text());
    assert_eq!(ask(&served, &expired, "/healthz").unwrap().status, 200);
    let renewed = write_certificate(served.folder.path(), 4_000);
    for (path, time) in files.iter().zip(times) {
        fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
    wait_until("the new certificate", || ask(&served, &renewed, "/readyz").is_some_and(|it| it.status == 200));
    // An unusable certificate must not stop the server.
    fs::write(&files[0], "nothing").unwrap();
    assert_eq!(ask(&served, &renewed, "/readyz").unwrap().status, 200);
}
