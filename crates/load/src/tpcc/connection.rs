//! The way to a database: where it is, whether the way is encrypted, and whom to trust there.
//!
//! The modes are libpq's. tokio-postgres knows the lower ones by name and takes the encryption from
//! its caller: here it is rustls, over the connector that `tokio-rustls` has. Channel binding is left
//! out: it would need a parser of certificates for a protection that verifying gives as well.

use std::fmt;
use std::future::Future;
use std::io;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::DbError;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres::{CancelToken, Client, Error};

use super::transactions::reason;
use crate::certificates::Lenient;

/// How long whoever listens may take to let a session begin, where `connect_timeout` says nothing.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The database, or the way to it, refuses.
    #[error("{}", reason(.0))]
    Refused(#[from] Error),
    /// Somebody listens, and does not let a session begin.
    #[error(
        "no session began within {} s: is it PostgreSQL that listens there, and is it well? \
         connect_timeout=SECONDS in the URL waits longer",
        .0.as_secs_f64()
    )]
    Silent(Duration),
}

impl ConnectError {
    /// What the database itself said, if it did.
    pub(super) fn said(&self) -> Option<&DbError> {
        match self {
            ConnectError::Refused(error) => error.as_db_error(),
            ConnectError::Silent(_) => None,
        }
    }
}

/// How to connect to a database, as tokio-postgres has it, and whom to trust there.
///
/// Whatever connects without regard to the trust fails where there is to be one: the mode is then
/// [`SslMode::Require`], which a connection without encryption refuses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    place: tokio_postgres::Config,
    trust: Trust,
}

/// Whom to trust on an encrypted way.
#[derive(Clone, Default, PartialEq, Eq)]
enum Trust {
    /// Whoever answers, as libpq's `require` does.
    #[default]
    Anybody,
    /// Whoever one of these authorities has certified, under whatever name: `verify-ca`.
    Authorities(Vec<CertificateDer<'static>>),
    /// Who is certified by one of them under the name that is asked for: `verify-full`.
    Named(Vec<CertificateDer<'static>>),
}

impl fmt::Debug for Trust {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trust::Anybody => out.write_str("Anybody"),
            Trust::Authorities(roots) => write!(out, "Authorities({})", roots.len()),
            Trust::Named(roots) => write!(out, "Named({})", roots.len()),
        }
    }
}

/// How much of a certificate is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// That one of the authorities has signed it.
    Authority,
    /// That, and that it is for the host that is asked for.
    AuthorityAndHost,
}

/// Why a certificate is no authority.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// None at all.
    #[error("no certificate to verify with")]
    Empty,
    /// One that nothing can be verified with.
    #[error("certificate {number} is no authority's: {cause}")]
    NotAuthority {
        /// Which one, from 1.
        number: usize,
        /// What is wrong with it.
        cause: rustls::Error,
    },
}

impl Config {
    /// Nowhere, yet.
    pub fn new() -> Config {
        Config::default()
    }

    /// Demands an encrypted way, and a certificate that one of these authorities has signed.
    ///
    /// # Errors
    /// If there are none, or one is no certificate of an authority.
    pub fn verify(
        &mut self,
        what: Verify,
        authorities: Vec<CertificateDer<'static>>,
    ) -> Result<(), TrustError> {
        if authorities.is_empty() {
            return Err(TrustError::Empty);
        }
        let mut roots = RootCertStore::empty();
        for (at, certificate) in authorities.iter().enumerate() {
            let added = roots.add(certificate.clone());
            added.map_err(|cause| TrustError::NotAuthority { number: at + 1, cause })?;
        }
        self.place.ssl_mode(SslMode::Require);
        self.trust = match what {
            Verify::Authority => Trust::Authorities(authorities),
            Verify::AuthorityAndHost => Trust::Named(authorities),
        };
        Ok(())
    }

    /// Connects; a task of the runtime drives the connection, which ends with the client.
    pub(super) async fn open(&self) -> Result<Client, ConnectError> {
        let mut place = self.place.clone();
        // As libpq does: on a socket of the same machine nothing is encrypted.
        if place.get_hosts().iter().all(|host| matches!(host, Host::Unix(_))) {
            place.ssl_mode(SslMode::Disable);
        }
        // As libpq has it: until there is a session, not only a connection.
        let patience = place.get_connect_timeout().copied().unwrap_or(PATIENCE);
        let connected = timeout(patience, place.connect(self.encryption())).await;
        let (client, connection) = connected.map_err(|_| ConnectError::Silent(patience))??;
        // Its end is seen by whoever asks the client for something next.
        tokio::spawn(async move { connection.await.ok() });
        Ok(client)
    }

    /// Cancels what a connection to this database does.
    pub(super) async fn cancel(&self, token: &CancelToken) -> Result<(), Error> {
        token.cancel_query(self.encryption()).await
    }

    fn encryption(&self) -> Encryption {
        let provider = Arc::new(ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let verifier: Arc<dyn ServerCertVerifier> = match &self.trust {
            Trust::Anybody => Arc::new(Lenient::any_server(algorithms)),
            Trust::Authorities(roots) => {
                Arc::new(Lenient::any_name(algorithms, by_authority(roots, &provider)))
            }
            Trust::Named(roots) => by_authority(roots, &provider),
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring has what the default protocols need")
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Encryption(Arc::new(config))
    }
}

fn by_authority(
    authorities: &[CertificateDer<'static>],
    provider: &Arc<CryptoProvider>,
) -> Arc<WebPkiServerVerifier> {
    let mut roots = RootCertStore::empty();
    for certificate in authorities {
        roots.add(certificate.clone()).expect("it was added once, when it was given");
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .expect("there is an authority, and no revocations to be wrong")
}

impl Deref for Config {
    type Target = tokio_postgres::Config;

    fn deref(&self) -> &tokio_postgres::Config {
        &self.place
    }
}

impl DerefMut for Config {
    fn deref_mut(&mut self) -> &mut tokio_postgres::Config {
        &mut self.place
    }
}

impl From<tokio_postgres::Config> for Config {
    fn from(place: tokio_postgres::Config) -> Config {
        Config { place, trust: Trust::Anybody }
    }
}

impl FromStr for Config {
    type Err = Error;

    fn from_str(text: &str) -> Result<Config, Error> {
        text.parse::<tokio_postgres::Config>().map(Config::from)
    }
}

/// What tokio-postgres asks for encryption.
#[derive(Clone)]
struct Encryption(Arc<ClientConfig>);

/// The encryption of one connection; a host without a name can have none.
struct Handshake {
    config: Arc<ClientConfig>,
    host: Option<ServerName<'static>>,
}

/// An encrypted connection.
struct Encrypted<S>(tokio_rustls::client::TlsStream<S>);

impl<S> MakeTlsConnect<S> for Encryption
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        let host = ServerName::try_from(host.to_owned()).ok();
        Ok(Handshake { config: Arc::clone(&self.0), host })
    }
}

impl<S> TlsConnect<S> for Handshake
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let host = self.host.ok_or_else(|| io::Error::other("the host has no name"))?;
            let connector = tokio_rustls::TlsConnector::from(self.config);
            connector.connect(host, stream).await.map(Encrypted)
        })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
