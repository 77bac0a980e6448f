//! TLS for the client side: whom to trust, made once a run.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;

use super::plan::{Resumption, Trust};
use crate::certificates::Lenient;

/// Names of protocols in TLS (ALPN, RFC 7301).
pub(crate) const HTTP1: &[u8] = b"http/1.1";
pub(crate) const HTTP2: &[u8] = b"h2";

/// File of the certificates that the system trusts.
const SYSTEM: &str = "/etc/ssl/certs/ca-certificates.crt";

/// No file of certificates is as large \[bytes\]; a system's has some hundred kB.
const PEM_MAX: u64 = 16 << 20;

/// Why TLS cannot be set up.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The file of trusted certificates cannot be read.
    #[error("{path}: {error}; name a PEM file of trusted certificates, or trust everybody")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file of trusted certificates holds none.
    #[error("{path}: there is no usable certificate in it, only PEM is read")]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The host cannot be the name of a certificate.
    #[error("`{0}` cannot stand in a certificate: it is neither a name nor an address")]
    Name(
        /// The host.
        String,
    ),
    /// The TLS library refuses.
    #[error("TLS: {0}")]
    Library(
        /// Why.
        #[from]
        rustls::Error,
    ),
}

/// TLS configuration of all connections of a thread. Threads share no session store, so that no
/// lock is between them.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

impl Tls {
    pub(crate) fn new(
        host: &str,
        trust: &Trust,
        resumption: Resumption,
        protocol: &[u8],
    ) -> Result<Tls, TlsError> {
        let name =
            ServerName::try_from(host.to_owned()).map_err(|_| TlsError::Name(host.to_owned()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let mut config = match trust {
            Trust::System => builder.with_root_certificates(roots(Path::new(SYSTEM))?),
            Trust::File(path) => builder.with_root_certificates(roots(path)?),
            Trust::Insecure => {
                let any = Lenient::any_server(provider.signature_verification_algorithms);
                builder.dangerous().with_custom_certificate_verifier(Arc::new(any))
            }
        }
        .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        config.resumption = match resumption {
            Resumption::Off => rustls::client::Resumption::disabled(),
            Resumption::On => rustls::client::Resumption::in_memory_sessions(256),
        };
        Ok(Tls { config: Arc::new(config), name })
    }
}

/// The certificates of a file. Single odd ones are left out, as every client does with a system's.
fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let no_certificate = || TlsError::NoCertificate { path: path.to_owned() };
    let pem = whole(path).map_err(|error| TlsError::File { path: path.to_owned(), error })?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        roots.add_parsable_certificates([certificate.map_err(|_| no_certificate())?]);
    }
    if roots.is_empty() { Err(no_certificate()) } else { Ok(roots) }
}

/// A file that may be the wrong one, or have no end.
fn whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(PEM_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > PEM_MAX {
        let cause = format!("it is larger than {} MiB; is it the right file?", PEM_MAX >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, cause));
    }
    Ok(bytes)
}
