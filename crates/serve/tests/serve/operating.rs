//! Tests what operators see of a server: whether it is alive and ready if connections, disk or certificate are not, and
//! how it stops.

use std::fs;
use std::io::{self, Read};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrowwood::Value;
use arrowwood::simulate::{FileSystem, FsObserver, FsOp};
use arrowwood_serve::{Limits, Options};
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
};

use crate::simulated_disk::Recorder;
use crate::support::flight::{Descriptor, call, framed, put};
use crate::support::*;
use crate::tables::folder_in_memory;

/// Silent connections up to the limit and beyond must not lock out health checks and, for long, other clients.
#[test]
fn health_checks_are_answered_when_all_connections_are_taken() {
    let limits = Limits { connections: 5, ..Limits::default() };
    let served = TestServer::start_with(|_| Options { limits, ..options() });
    let silent: Vec<_> = (0..60).map(|_| served.connect()).collect();
    for path in ["/healthz", "/readyz", "/healthz"] {
        let reply = served.get(path);
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        assert_eq!(reply.header("connection"), Some("close"), "{path}");
    }
    assert_eq!(served.get("/ping").status, 204);
    let refused = served.get("/metrics");
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!(refused.header("retry-after"), Some("1"));
    drop(silent);
    wait_until("a connection is accepted again", || {
        let reply = served.client().send("GET", "/metrics", &[], b"");
        reply.is_ok_and(|reply| reply.status == 200)
    });
}

/// A disk that can be full.
#[derive(Debug, Default)]
struct FullDisk {
    is_full: AtomicBool,
}

impl FsObserver for FullDisk {
    fn before_op(&self, _: FsOp<'_>) -> io::Result<()> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        Ok(())
    }
}

#[test]
fn server_with_a_full_disk_is_alive_and_not_ready() {
    let disk = Arc::new(FullDisk::default());
    let medium = FileSystem::with_observer(disk.clone());
    let served = TestServer::start_with(|_| Options { medium, ..options() });
    served.write_numbers("t", 3);
    assert_eq!(served.get("/readyz").status, 200);
    disk.is_full.store(true, Ordering::Relaxed);
    assert_eq!(served.post_json("t", "{\"n\":3}").code(), "no_space");
    let reply = served.get("/readyz");
    assert_eq!(reply.status, 503, "{}", reply.text());
    assert_eq!(reply.code(), "not_ready", "{}", reply.text());
    assert!(reply.text().contains("the disk is full"), "{}", reply.text());
    assert_eq!(served.get("/healthz").status, 200);
    assert_eq!(served.get_rows("/v1/tables/t/rows").len().unwrap(), 3);
    disk.is_full.store(false, Ordering::Relaxed);
    // Readiness is probed by a write, even without rows.
    wait_until("the server is ready", || served.get("/readyz").status == 200);
}

/// The response to a write.
struct WriteResult {
    is_refused: bool,
    /// The status and the message.
    text: String,
}

impl From<Reply> for WriteResult {
    fn from(reply: Reply) -> WriteResult {
        WriteResult { is_refused: reply.status >= 400, text: format!("{}: {}", reply.status, reply.text()) }
    }
}

const WRITES: [fn(&TestServer) -> WriteResult; 5] =
    [create_table, append_to_closed_table, append_to_several_segments, append_over_flight, write_lines];

fn create_table(served: &TestServer) -> WriteResult {
    served.send("PUT", "/v1/tables/new", &[], b"n: int not null").into()
}

fn append_to_closed_table(served: &TestServer) -> WriteResult {
    served.post_json("closed", "{\"n\":1}").into()
}

fn append_to_several_segments(served: &TestServer) -> WriteResult {
    served.post_json("open", &"{\"n\":1}\n".repeat(100)).into()
}

fn append_over_flight(served: &TestServer) -> WriteResult {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
    let call_result = call(served, "DoPut", framed(&put(Descriptor::path("open"), &[batch])));
    WriteResult {
        is_refused: call_result.status != 0,
        text: format!("{}: {}", call_result.status, call_result.message),
    }
}

/// Appends to an existing table, and creates another one.
fn write_lines(served: &TestServer) -> WriteResult {
    served.send("POST", "/write", &[], b"fresh x=1 1\nmeasured x=2 2").into()
}

/// Starts a server on a recorded disk, with the tables that [`WRITES`] use.
fn serve_recorded_tables() -> (TestServer, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let folder = folder_in_memory();
    fs::create_dir(folder.path().join("data")).unwrap();
    let served =
        TestServer::start_in(folder, Options { medium: FileSystem::with_observer(recorder.clone()), ..options() });
    for name in ["open", "closed"] {
        let path = format!("/v1/tables/{name}?segment_rows=24");
        assert_eq!(served.send("PUT", &path, &[], b"n: int not null").status, 201);
    }
    assert_eq!(served.post_json("open", "{\"n\":0}").status, 200);
    assert_eq!(served.send("POST", "/write", &[], b"measured x=1 1").status, 204);
    assert_eq!(served.post_json("open", "{\"n\":\"x\"}").status, 400);
    assert_eq!(served.get("/readyz").status, 200);
    (served, recorder)
}

/// Refuses each operation of each kind of write.
#[test]
fn refused_write_shows_in_readiness() {
    for (number, write) in WRITES.iter().enumerate() {
        for (errno, problem) in [(libc::ENOSPC, "the disk is full"), (libc::EIO, "the disk fails")] {
            let mut report_count = 0;
            for operation in 0.. {
                let (served, recorder) = serve_recorded_tables();
                let stays_full = errno == libc::ENOSPC;
                recorder.fail(operation, errno, stays_full);
                let result = write(&served);
                let readiness = served.get("/readyz");
                if result.is_refused {
                    let context = format!("write {number}, operation {operation}: {}", result.text);
                    assert_eq!(readiness.status, 503, "{context}, and then {}", readiness.text());
                    // After a failed background sync, nothing else is known.
                    assert!(readiness.text().contains("the disk"), "{context}, and then {}", readiness.text());
                    report_count += usize::from(readiness.text().contains(problem));
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
    const ROWS: u64 = 64;
    let limits = Limits { grace: Duration::from_secs(3_600), ..Limits::default() };
    let served = TestServer::start_with(|_| Options { limits, ..options() });
    let mut writer = served.writer("t", "text: text not null");
    let text = "x".repeat(1 << 20);
    // The rows do not fit into the buffers of the system.
    for _ in 0..ROWS {
        writer.append_row(&[Value::Str(&text)]).unwrap();
    }
    writer.close().unwrap();
    let mut client = served.client();
    client.send_request("GET", "/v1/tables/t/rows", &[], b"").unwrap();
    client.read_head().unwrap();
    served.stopper().stop();
    wait_until("connections are refused", || {
        TcpStream::connect(("127.0.0.1", served.port)).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused)
    });
    let mut rows = Vec::new();
    client.body().read_to_end(&mut rows).unwrap();
    assert_eq!(decode_stream(&rows).len().unwrap(), ROWS);
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

/// Accepts one certificate, even if it is expired.
#[derive(Debug)]
struct OneCertificate(CertificateDer<'static>);

impl ServerCertVerifier for OneCertificate {
    fn verify_server_cert(
        &self,
        cert: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if *cert != self.0 {
            return Err(Error::General("another certificate".into()));
        }
        Ok(ServerCertVerified::assertion())
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

/// Requests a path over TLS; returns `None` if the server has another certificate.
fn get_over_tls(served: &TestServer, cert: &CertificateDer<'static>, path: &str) -> Option<Reply> {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(OneCertificate(cert.clone())))
        .with_no_client_auth();
    let connection = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let mut client = Client::new(StreamOwned::new(connection, served.connect()));
    client.send("GET", path, &[], b"").ok()
}

/// Copied files, and volumes of secrets, keep their times, so a changed certificate may have an old time.
#[test]
fn certificate_is_renewed_by_content_and_expiry_is_logged() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    let expired = write_certificate(folder.path(), 2020);
    let cert_path = folder.path().join("cert.pem");
    let key_path = folder.path().join("key.pem");
    let cert_time = fs::metadata(&cert_path).unwrap().modified().unwrap();
    let key_time = fs::metadata(&key_path).unwrap().modified().unwrap();
    let limits = Limits { renewal: Duration::from_millis(10), ..Limits::default() };
    let tls = Some((cert_path.clone(), key_path.clone()));
    let served = TestServer::start_in(folder, Options { tls, limits, ..options() });
    let readiness = get_over_tls(&served, &expired, "/readyz").unwrap();
    assert_eq!(readiness.status, 503, "{}", readiness.text());
    assert!(readiness.text().contains("certificate is expired"), "{}", readiness.text());
    assert_eq!(get_over_tls(&served, &expired, "/healthz").unwrap().status, 200);

    let renewed = write_certificate(served.folder.path(), 4_000);
    set_modified(&cert_path, cert_time);
    set_modified(&key_path, key_time);
    wait_until("the new certificate", || {
        get_over_tls(&served, &renewed, "/readyz").is_some_and(|reply| reply.status == 200)
    });
    // An unusable certificate must not stop the server.
    fs::write(&cert_path, "nothing").unwrap();
    assert_eq!(get_over_tls(&served, &renewed, "/readyz").unwrap().status, 200);
}

fn set_modified(path: &Path, time: SystemTime) {
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}
