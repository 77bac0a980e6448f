//! The certificate that a gate shows its clients.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;

/// Place of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificate and its chain, PEM.
    pub cert: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
}

/// A certificate or key could not be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("cannot use {} for TLS: {cause}", path.display())]
pub struct TlsError {
    /// The file.
    pub path: PathBuf,
    /// The fault.
    pub cause: String,
}

/// The certificates and the private key that lie there.
pub type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn unusable(path: &Path, cause: &dyn std::fmt::Display) -> TlsError {
    TlsError { path: path.to_owned(), cause: cause.to_string() }
}

/// Reads the certificates of a file.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(path, &error))
}

/// Reads certificate and key.
pub fn identity(tls: &Tls) -> Result<Identity, TlsError> {
    let certificates = certificates(&tls.cert)?;
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| unusable(&tls.key, &error))?;
    Ok((certificates, key))
}

/// Reads certificate and key, for clients that speak `protocol` inside (ALPN).
pub fn load(tls: &Tls, protocol: &[u8]) -> Result<Arc<ServerConfig>, TlsError> {
    let (certs, key) = identity(tls)?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certs, key))
        .map_err(|error| unusable(&tls.cert, &error))?;
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(Arc::new(config))
}
