//! TLS with clients: the certificate that they are shown, and the one that they must show.

use std::fmt;
use std::sync::Arc;

use ring::digest::{Context, SHA256};
use rustls::ServerConfig;
use rustls::crypto::ring as provider;
use rustls::server::WebPkiClientVerifier;

use super::server_tls::{Authorities, EncryptionError, TlsMode, TlsVersion, roots};
use pgwire::auth::Binding;
use pgwire::startup::ALPN;
use tls::{Tls, TlsError};

/// The wanted encryption of connections of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTls {
    /// The demand for it, and for a certificate of the client: with [`TlsMode::VerifyCa`] or
    /// [`TlsMode::VerifyFull`], which mean the same here, since the names of clients are no
    /// addresses. With [`TlsMode::Allow`] or [`TlsMode::Prefer`] the client decides.
    pub mode: TlsMode,
    /// The certificate that is shown.
    pub identity: Tls,
    /// The authorities that may have signed the certificates of clients. Where they are named and
    /// the mode is another, a client need not show one, but one that it shows must be theirs.
    pub authorities: Authorities,
    /// The oldest version that is spoken.
    pub oldest: TlsVersion,
}

impl From<Tls> for ClientTls {
    /// For clients that want TLS; none need show a certificate.
    fn from(identity: Tls) -> ClientTls {
        ClientTls {
            mode: TlsMode::Prefer,
            identity,
            authorities: Authorities::Unnamed,
            oldest: TlsVersion::V12,
        }
    }
}

/// Encryption of connections of clients: a [`ClientTls`] whose files were read.
pub(super) struct ClientEncryption {
    pub(super) mode: TlsMode,
    pub(super) config: Arc<ServerConfig>,
    /// The channel binding to the certificate that is shown.
    pub(super) binding: Binding,
}

impl fmt::Debug for ClientEncryption {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ClientEncryption({})", self.mode)
    }
}

impl ClientEncryption {
    /// Reads the files that are named; `None` if nothing is to be encrypted.
    ///
    /// # Errors
    /// If a file cannot be read or used, or authorities are missing that are to verify.
    pub(super) fn load(
        wanted: &ClientTls,
    ) -> Result<Option<Arc<ClientEncryption>>, EncryptionError> {
        let mode = wanted.mode;
        if mode == TlsMode::Disable {
            return Ok(None);
        }
        let roots = roots(&wanted.authorities, &mut Context::new(&SHA256))?;
        if roots.is_none() && mode.verifies() {
            return Err(EncryptionError::NoAuthority { mode });
        }
        let ring = Arc::new(provider::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&ring))
            .with_protocol_versions(&wanted.oldest.and_later())
            .expect("ring has what these versions need");
        let builder = match roots {
            None => builder.with_no_client_auth(),
            Some(roots) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), ring);
                let verifier =
                    if mode.verifies() { verifier } else { verifier.allow_unauthenticated() };
                let verifier = verifier.build();
                builder.with_client_cert_verifier(
                    verifier.expect("there is an authority, and no revocations to be wrong"),
                )
            }
        };
        let (certificates, key) = tls::identity(&wanted.identity)?;
        let binding =
            certificates.first().map_or(Binding::Absent, |first| Binding::of_certificate(first));
        let mut config = builder.with_single_cert(certificates, key).map_err(|error| TlsError {
            path: wanted.identity.cert.clone(),
            cause: error.to_string(),
        })?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Some(Arc::new(ClientEncryption { mode, config: Arc::new(config), binding })))
    }
}
