//! [`Tls`]: the server's certificate and its key, which may be renewed while it serves.

use arrowwood::mapping::MutexExt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use arrowwood::{Error, ErrorKind, Result};
use sha2::{Digest, Sha256};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use webpki::{EndEntityCert, KeyUsage};

use crate::audit::time_text;
use crate::log;

/// A certificate and its key.
pub(crate) struct Tls {
    cert: PathBuf,
    key: PathBuf,
    current: Mutex<CertState>,
    /// Held while the files are read again: by a signal and by the clock, one after the other.
    renewing: Mutex<()>,
}

struct CertState {
    loaded: LoadedCert,
    /// Whether the log has said that it is expired.
    is_told: bool,
    /// Why newer files can't be used.
    problem: Option<String>,
}

/// What was in both files.
struct LoadedCert {
    acceptor: TlsAcceptor,
    names: Vec<String>,
    /// Tells their content from another one, whatever the times of the files are.
    content: [u8; 32],
    /// The end of the certificate's validity, in seconds since 1970.
    valid_until: Option<u64>,
}

impl Tls {
    /// # Errors
    /// `Io`; `InvalidData` for files that are no certificate and its key.
    pub fn open(cert: &Path, key: &Path) -> Result<Tls> {
        let (chain, secret) = read(cert, key)?;
        let loaded = LoadedCert::parse(cert, &chain, key, &secret)?;
        let current = Mutex::new(CertState { loaded, is_told: false, problem: None });
        let tls = Tls { cert: cert.to_path_buf(), key: key.to_path_buf(), current, renewing: Mutex::default() };
        tls.tell_of_expiry();
        Ok(tls)
    }

    fn current(&self) -> MutexGuard<'_, CertState> {
        self.current.lock_ignoring_poison()
    }

    /// The names in the certificate.
    pub fn names(&self) -> Vec<String> {
        self.current().loaded.names.clone()
    }

    pub fn acceptor(&self) -> TlsAcceptor {
        self.current().loaded.acceptor.clone()
    }

    /// Whether clients refuse the certificate because its time is over.
    pub fn is_expired(&self) -> bool {
        self.current().loaded.is_expired(SystemTime::now())
    }

    /// Uses what the files have by now; as long as that can't be used, what they had. Blocks.
    pub fn renew(&self) {
        let _alone = self.renewing.lock_ignoring_poison();
        let renewed = read(&self.cert, &self.key).and_then(|(chain, secret)| {
            let is_same = self.current().loaded.content == content_of(&chain, &secret);
            (!is_same).then(|| LoadedCert::parse(&self.cert, &chain, &self.key, &secret)).transpose()
        });
        let mut current = self.current();
        match renewed {
            Ok(renewed) => {
                current.problem = None;
                if let Some(loaded) = renewed {
                    (current.loaded, current.is_told) = (loaded, false);
                    log::message("the certificate was renewed");
                }
            }
            // The next look may find both files complete.
            Err(e) => {
                let problem = e.to_string();
                if current.problem.as_ref() != Some(&problem) {
                    log::message(format_args!("the certificate was not renewed: {problem}"));
                }
                current.problem = Some(problem);
            }
        }
        drop(current);
        self.tell_of_expiry();
    }

    /// Says once that a certificate is expired.
    fn tell_of_expiry(&self) {
        self.untold_expiry(SystemTime::now()).into_iter().for_each(log::message);
    }

    /// What is to be said of a certificate that is expired at that time, unless it was said before.
    fn untold_expiry(&self, now: SystemTime) -> Option<String> {
        let mut current = self.current();
        if !current.loaded.is_expired(now) || std::mem::replace(&mut current.is_told, true) {
            return None;
        }
        let until = SystemTime::UNIX_EPOCH + Duration::from_secs(current.loaded.valid_until.unwrap_or_default());
        Some(format!(
            "{}: the certificate was valid until {}, and clients refuse it; put a new one there, which needs no restart",
            self.cert.display(),
            time_text(until).as_str().unwrap_or_default()
        ))
    }
}

fn read(cert: &Path, key: &Path) -> Result<(Vec<u8>, Vec<u8>)> {
    let bytes = |path: &Path, what: &str| fs::read(path).map_err(|e| Error::io(what, &e).at(path));
    Ok((bytes(cert, "reading the certificate")?, bytes(key, "reading the certificate's key")?))
}

fn content_of(chain: &[u8], secret: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update((chain.len() as u64).to_le_bytes());
    hash.update(chain);
    hash.update(secret);
    hash.finalize().into()
}

impl LoadedCert {
    fn parse(cert: &Path, chain: &[u8], key: &Path, secret: &[u8]) -> Result<LoadedCert> {
        let content = content_of(chain, secret);
        let invalid = |path: &Path, what: &str| Error::new(ErrorKind::InvalidData, what.to_owned()).at(path);
        let no_cert = |e| invalid(cert, &format!("a certificate in PEM is expected: {e}"));
        let chain = CertificateDer::pem_slice_iter(chain).collect::<std::result::Result<Vec<_>, _>>();
        let chain = chain.map_err(no_cert)?;
        let first = chain.first().ok_or_else(|| invalid(cert, "the file holds no certificate"))?;
        let parsed = EndEntityCert::try_from(first).ok();
        let names = parsed.iter().flat_map(|parsed| parsed.valid_dns_names()).map(str::to_owned).collect();
        let valid_until = parsed.as_ref().and_then(valid_until);
        let secret = PrivateKeyDer::from_pem_slice(secret);
        let secret = secret.map_err(|e| invalid(key, &format!("a private key in PEM is expected: {e}")))?;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret));
        let mut config = config.map_err(|e| invalid(cert, &format!("certificate and key can't be used: {e}")))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(LoadedCert { acceptor: TlsAcceptor::from(Arc::new(config)), names, content, valid_until })
    }

    fn is_expired(&self, now: SystemTime) -> bool {
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        self.valid_until.is_some_and(|until| until < now)
    }
}

/// The end of a certificate's validity, in seconds since 1970; `None` if it can't be told.
fn valid_until(cert: &EndEntityCert<'_>) -> Option<u64> {
    // The library gives it with the error of a certificate that is looked at too late.
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
    fn certify(folder: &Path, year: i32) {
        let mut params = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 12, 31);
        let key = rcgen::KeyPair::generate().unwrap();
        fs::write(folder.join("cert.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
    }

    /// The first second of a year.
    fn begin(year: i32) -> SystemTime {
        rcgen::date_time_ymd(year, 1, 1).into()
    }

    #[test]
    fn a_certificate_that_expires_while_it_is_served_is_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let [cert, key] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
        certify(folder.path(), 4_000);
        let tls = Tls::open(&cert, &key).unwrap();
        assert_eq!(tls.untold_expiry(begin(4_000)), None);
        let told = tls.untold_expiry(begin(4_001)).unwrap();
        assert!(told.contains("cert.pem: the certificate was valid until 4000-12-31T00:00:00"), "{told}");
        assert_eq!(tls.untold_expiry(begin(4_002)), None);
        // The same files again are no renewal.
        tls.renew();
        assert_eq!(tls.untold_expiry(begin(4_002)), None);
        certify(folder.path(), 4_010);
        tls.renew();
        assert_eq!(tls.untold_expiry(begin(4_010)), None);
        let told = tls.untold_expiry(begin(4_011)).unwrap();
        assert!(told.contains("valid until 4010-12-31"), "{told}");
    }
}
