//! Loads the server's certificate and its key, and renews them while the server runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use arrowwood::mapping::MutexExt;
use arrowwood::{Error, ErrorKind, Result};
use sha2::{Digest, Sha256};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use webpki::{EndEntityCert, KeyUsage};

use crate::ops::{log, time_text};

/// The server's certificate and its key.
pub(crate) struct Tls {
    cert: PathBuf,
    key: PathBuf,
    current: Mutex<CertState>,
    /// Locked while the files are read again, as a signal and the clock may do so at the same time. `current` is locked
    /// after it, and only for moments, as each new connection needs it.
    renewing: Mutex<()>,
}

/// The certificate in use, and what the log says about it.
struct CertState {
    loaded: LoadedCert,
    /// Set once the log says that the certificate is expired.
    is_expiry_logged: bool,
    /// The reason why newer files can't be used.
    problem: Option<String>,
}

/// A SHA-256 hash of the certificate and its key.
type ContentHash = [u8; 32];

/// The content of both files.
struct LoadedCert {
    acceptor: TlsAcceptor,
    names: Vec<String>,
    /// The hash of both files, which detects changes whatever the times of the files are.
    content_hash: ContentHash,
    /// The end of the certificate's validity, in seconds since 1970.
    valid_until: Option<u64>,
}

impl Tls {
    /// Loads the certificate and its key.
    ///
    /// # Errors
    /// `Io`; `InvalidData` for files that are no certificate and its key.
    pub fn open(cert: &Path, key: &Path) -> Result<Tls> {
        let (chain, secret) = read(cert, key)?;
        let loaded = LoadedCert::parse(cert, &chain, key, &secret)?;
        let current = Mutex::new(CertState { loaded, is_expiry_logged: false, problem: None });
        let tls = Tls { cert: cert.to_path_buf(), key: key.to_path_buf(), current, renewing: Mutex::default() };
        tls.log_expiry();
        Ok(tls)
    }

    fn current(&self) -> MutexGuard<'_, CertState> {
        self.current.lock_ignoring_poison()
    }

    /// Returns the names in the certificate.
    pub fn names(&self) -> Vec<String> {
        self.current().loaded.names.clone()
    }

    pub fn acceptor(&self) -> TlsAcceptor {
        self.current().loaded.acceptor.clone()
    }

    /// Returns true if clients refuse the certificate because it is expired.
    pub fn is_expired(&self) -> bool {
        self.current().loaded.is_expired(SystemTime::now())
    }

    /// Reads the files again, and uses the new certificate if it is valid; otherwise the current one stays in use.
    /// Blocks.
    pub fn renew(&self) {
        let _exclusive = self.renewing.lock_ignoring_poison();
        let renewed = read(&self.cert, &self.key).and_then(|(chain, secret)| {
            if self.current().loaded.content_hash == hash_content(&chain, &secret) {
                return Ok(None);
            }
            LoadedCert::parse(&self.cert, &chain, &self.key, &secret).map(Some)
        });
        let mut current = self.current();
        match renewed {
            Ok(renewed) => {
                current.problem = None;
                if let Some(loaded) = renewed {
                    current.loaded = loaded;
                    current.is_expiry_logged = false;
                    log::message("the certificate was renewed");
                }
            }
            // One of the files may not be written completely yet; the next check tries again.
            Err(e) => {
                let problem = e.to_string();
                if current.problem.as_ref() != Some(&problem) {
                    log::message(format_args!("the certificate was not renewed: {problem}"));
                }
                current.problem = Some(problem);
            }
        }
        drop(current);
        self.log_expiry();
    }

    /// Logs once that the certificate is expired.
    fn log_expiry(&self) {
        if let Some(message) = self.take_expiry_message(SystemTime::now()) {
            log::message(message);
        }
    }

    /// Returns the message about a certificate that is expired at the time `now`, the first time it is called.
    fn take_expiry_message(&self, now: SystemTime) -> Option<String> {
        let mut current = self.current();
        if current.is_expiry_logged || !current.loaded.is_expired(now) {
            return None;
        }
        current.is_expiry_logged = true;
        let until = time_text(SystemTime::UNIX_EPOCH + Duration::from_secs(current.loaded.valid_until?));
        Some(format!(
            "{}: the certificate was valid until {}, and clients refuse it; put a new one there, which needs no \
             restart",
            self.cert.display(),
            until.as_str()?
        ))
    }
}

/// Reads the certificate chain and the key.
fn read(cert: &Path, key: &Path) -> Result<(Vec<u8>, Vec<u8>)> {
    let chain = fs::read(cert).map_err(|e| Error::io("reading the certificate", &e).at(cert))?;
    let secret = fs::read(key).map_err(|e| Error::io("reading the certificate's key", &e).at(key))?;
    Ok((chain, secret))
}

fn hash_content(chain: &[u8], secret: &[u8]) -> ContentHash {
    let mut hash = Sha256::new();
    hash.update((chain.len() as u64).to_le_bytes());
    hash.update(chain);
    hash.update(secret);
    hash.finalize().into()
}

impl LoadedCert {
    fn parse(cert: &Path, chain: &[u8], key: &Path, secret: &[u8]) -> Result<LoadedCert> {
        let content_hash = hash_content(chain, secret);
        let chain = CertificateDer::pem_slice_iter(chain)
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|e| invalid(cert, format!("a certificate in PEM is expected: {e}")))?;
        let first = chain.first().ok_or_else(|| invalid(cert, "the file holds no certificate"))?;
        // Names and validity are unknown if the certificate has extensions that the library does not support.
        let mut names = Vec::new();
        let mut valid_until = None;
        if let Ok(parsed) = EndEntityCert::try_from(first) {
            names.extend(parsed.valid_dns_names().map(str::to_owned));
            valid_until = end_of_validity(&parsed);
        }
        let secret = PrivateKeyDer::from_pem_slice(secret)
            .map_err(|e| invalid(key, format!("a private key in PEM is expected: {e}")))?;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret));
        let mut config = config.map_err(|e| invalid(cert, format!("certificate and key can't be used: {e}")))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(LoadedCert { acceptor: TlsAcceptor::from(Arc::new(config)), names, content_hash, valid_until })
    }

    fn is_expired(&self, now: SystemTime) -> bool {
        match (self.valid_until, now.duration_since(SystemTime::UNIX_EPOCH)) {
            (Some(until), Ok(now)) => until < now.as_secs(),
            // The validity is unknown, or the clock is wrong.
            _ => false,
        }
    }
}

fn invalid(path: &Path, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidData, message).at(path)
}

/// Returns the end of a certificate's validity in seconds since 1970, if it can be determined.
fn end_of_validity(cert: &EndEntityCert<'_>) -> Option<u64> {
    // The library reports it only in the error for a certificate that is verified too late.
    let far = UnixTime::since_unix_epoch(Duration::from_secs(u64::MAX));
    match cert.verify_for_usage(&[], &[], &[], far, KeyUsage::server_auth(), None, None) {
        Err(webpki::Error::CertExpired { not_after, .. }) => Some(not_after.as_secs()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a certificate that is valid until the end of a year, and its key.
    fn write_certificate(folder: &Path, year: i32) {
        let mut params = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 12, 31);
        let key = rcgen::KeyPair::generate().unwrap();
        fs::write(folder.join("cert.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
    }

    /// Returns the first second of a year.
    fn begin(year: i32) -> SystemTime {
        rcgen::date_time_ymd(year, 1, 1).into()
    }

    #[test]
    fn certificate_expiry_is_logged_once() {
        let folder = tempfile::tempdir().unwrap();
        let [cert, key] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
        write_certificate(folder.path(), 4_000);
        let tls = Tls::open(&cert, &key).unwrap();
        assert_eq!(tls.take_expiry_message(begin(4_000)), None);
        let message = tls.take_expiry_message(begin(4_001)).unwrap();
        assert!(message.contains("cert.pem: the certificate was valid until 4000-12-31T00:00:00"), "{message}");
        assert_eq!(tls.take_expiry_message(begin(4_002)), None);
        // Reading unchanged files is no renewal.
        tls.renew();
        assert_eq!(tls.take_expiry_message(begin(4_002)), None);
        write_certificate(folder.path(), 4_010);
        tls.renew();
        assert_eq!(tls.take_expiry_message(begin(4_010)), None);
        let message = tls.take_expiry_message(begin(4_011)).unwrap();
        assert!(message.contains("valid until 4010-12-31"), "{message}");
    }
}
