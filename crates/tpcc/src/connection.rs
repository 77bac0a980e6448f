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
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::DbError;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres::{CancelToken, Client, Error};

use super::transactions::reason;
use load::certificates::Lenient;
use load::{Reach, ReachError, judge, resolve};

/// Time limit for the listener to let a session begin, where `connect_timeout` says nothing.
const PATIENCE: Duration = Duration::from_secs(30);
/// PostgreSQL's own port.
const PORT: u16 = 5432;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The database, or the way to it, refuses.
    #[error("{}", refusal(.0))]
    Refused(#[from] Error),
    /// The database is not where load may go, or nowhere.
    #[error(transparent)]
    Reach(#[from] PlaceError),
    /// Somebody listens, and does not let a session begin.
    #[error(
        "no session began within {} s: is it PostgreSQL that listens there, and is it well? \
         connect_timeout=SECONDS in the URL waits longer",
        .0.as_secs_f64()
    )]
    Silent(Duration),
}

impl ConnectError {
    /// The error of the database itself, if it gave one.
    pub(super) fn said(&self) -> Option<&DbError> {
        match self {
            ConnectError::Refused(error) => error.as_db_error(),
            ConnectError::Reach(_) | ConnectError::Silent(_) => None,
        }
    }
}

/// Why nothing may connect to a place.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// A host leads nowhere, or where load may not go.
    #[error(transparent)]
    Reach(#[from] ReachError),
    /// Sockets of this machine and hosts of a network in one place.
    #[error("sockets and hosts are named at once: name those of one kind")]
    Mixed,
    /// Hosts and their addresses do not belong together.
    #[error("{hosts} hosts have {addresses} addresses (hostaddr): name one for each, or none")]
    Unpaired {
        /// The number of hosts.
        hosts: usize,
        /// The number of addresses.
        addresses: usize,
    },
    /// Hosts and ports do not belong together.
    #[error("{hosts} hosts have {ports} ports: name one for all, or one for each")]
    Ports {
        /// The number of hosts.
        hosts: usize,
        /// The number of ports.
        ports: usize,
    },
}

/// Connection to a database: the parameters of tokio-postgres, the trusted authorities, and the
/// distance that is allowed.
///
/// Whatever connects without regard to the trust fails where there is to be one: the mode is then
/// [`SslMode::Require`], which a connection without encryption refuses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    place: tokio_postgres::Config,
    trust: Trust,
    identity: Option<Identity>,
    reach: Reach,
}

/// Certificates that are shown to a server that asks for them, one's own first, and its key.
#[derive(Clone, PartialEq, Eq)]
struct Identity {
    certificates: Vec<CertificateDer<'static>>,
    key: Arc<PrivateKeyDer<'static>>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Identity({})", self.certificates.len())
    }
}

/// Whom to trust on an encrypted way.
#[derive(Clone, Default, PartialEq, Eq)]
enum Trust {
    /// Whoever answers, as libpq's `require` does.
    #[default]
    Anybody,
    /// Whoever one of these authorities has certified, under whatever name: `verify-ca`.
    Authorities(Vec<CertificateDer<'static>>),
    /// A server certified by one of them under the name that is asked for: `verify-full`.
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

/// Extent of the verification of a certificate.
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
        /// Its number, from 1.
        number: usize,
        /// The fault.
        cause: rustls::Error,
    },
}

impl Config {
    /// Nowhere, yet.
    pub fn new() -> Config {
        Config::default()
    }

    /// The same place with every name looked up, and every address allowed: what opens a connection
    /// goes to these addresses and looks nothing up again.
    ///
    /// # Errors
    /// If a name leads nowhere, an address of it is out of reach, or hosts, addresses and ports do not
    /// belong together.
    pub fn within(&self, reach: Reach) -> Result<Config, PlaceError> {
        let place = addressed(&self.place, reach)?;
        Ok(Config { place, reach, ..self.clone() })
    }

    /// The addresses that it connects to: those looked up and allowed, or, if nobody has asked yet,
    /// that.
    ///
    /// # Errors
    /// As [`within`](Config::within).
    pub fn judged(&self) -> Result<tokio_postgres::Config, PlaceError> {
        addressed(&self.place, self.reach)
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

    /// Shows a certificate to a server that asks for one: one's own first, then those between it and its
    /// authority.
    ///
    /// # Errors
    /// If there is none, or the key is another's.
    pub fn identify(
        &mut self,
        certificates: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<(), rustls::Error> {
        // Whoever builds the way later has it that this works.
        builder(&Arc::new(ring::default_provider()))
            .with_root_certificates(RootCertStore::empty())
            .with_client_auth_cert(certificates.clone(), key.clone_key())?;
        self.identity = Some(Identity { certificates, key: Arc::new(key) });
        Ok(())
    }

    /// Connects; a task of the runtime drives the connection, which ends with the client.
    ///
    /// # Errors
    /// If the place is out of reach, says nothing in time, or lets nobody in.
    pub async fn open(&self) -> Result<Client, ConnectError> {
        let mut place = self.judged()?;
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

    /// The encryption of a way to it, with the trust that is asked for: for whoever opens a connection
    /// without tokio-postgres.
    pub fn tls(&self) -> Arc<ClientConfig> {
        self.encryption().0
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
        let builder = builder(&provider).dangerous().with_custom_certificate_verifier(verifier);
        let config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(Identity { certificates, key }) => builder
                .with_client_auth_cert(certificates.clone(), key.clone_key())
                .expect("it was tried when it was given"),
        };
        Encryption(Arc::new(config))
    }
}

fn builder(provider: &Arc<CryptoProvider>) -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_safe_default_protocol_versions()
        .expect("ring has what the default protocols need")
}

/// The failure of an encrypted way in words, with the way out where one is known; none if the failure is not of the
/// encryption.
pub fn encryption_failure(error: &io::Error) -> Option<String> {
    use AlertDescription as Alert;
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let way_out = match error {
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => {
            "name the host as its certificate does, or say sslmode=verify-ca, which takes any name"
        }
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "none of the trusted authorities has signed the server's certificate: name the file of the one \
             that has, as in sslrootcert=/etc/ssl/ca.pem"
        }
        rustls::Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => "the server's certificate has expired: let it have a new one",
        rustls::Error::AlertReceived(Alert::CertificateRequired) => {
            "the server wants a certificate of its clients: name yours, as in sslcert=FILE&sslkey=FILE"
        }
        rustls::Error::AlertReceived(
            Alert::UnknownCA
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::DecryptError,
        ) => {
            "the server refuses the certificate that it was shown: name one in sslcert and sslkey that an \
             authority of its ssl_ca_file has signed"
        }
        other => return Some(other.to_string()),
    };
    Some(format!("{error}; {way_out}"))
}

/// The way out of a server's refusal, by its SQLSTATE and its message, where it is for want of a client's certificate. The
/// messages are those of a server that speaks English; others are told as they come.
pub fn certificate_way_out(code: &str, message: &str) -> Option<&'static str> {
    match code {
        "28000" if message.contains("requires a valid client certificate") => {
            Some("name yours and its key, as in sslcert=FILE&sslkey=FILE")
        }
        "28000" if message.contains("certificate authentication failed") => Some(
            "the common name of the certificate in sslcert must be the user's, or pg_ident.conf must map it to \
             the user",
        ),
        _ => None,
    }
}

/// The words of a refusal, with the way out where one is known.
fn refusal(error: &Error) -> String {
    let way_out = error
        .as_db_error()
        .and_then(|said| certificate_way_out(said.code().code(), said.message()));
    match way_out {
        Some(way_out) => format!("{}; {way_out}", reason(error)),
        None => reason(error),
    }
}

/// The same failure, its way out in its words.
fn told(error: io::Error) -> io::Error {
    match encryption_failure(&error) {
        Some(text) => io::Error::new(error.kind(), text),
        None => error,
    }
}

/// A place with an address for each host. Addresses that are there already are only judged.
fn addressed(
    place: &tokio_postgres::Config,
    reach: Reach,
) -> Result<tokio_postgres::Config, PlaceError> {
    let (hosts, numbers, ports) = (place.get_hosts(), place.get_hostaddrs(), place.get_ports());
    let count = hosts.len().max(numbers.len());
    if !hosts.is_empty() && !numbers.is_empty() && hosts.len() != numbers.len() {
        return Err(PlaceError::Unpaired { hosts: hosts.len(), addresses: numbers.len() });
    }
    if ports.len() > 1 && ports.len() != count {
        return Err(PlaceError::Ports { hosts: count, ports: ports.len() });
    }
    if !numbers.is_empty() {
        for (at, number) in numbers.iter().enumerate() {
            let name = match hosts.get(at) {
                Some(Host::Tcp(name)) => name.clone(),
                _ => number.to_string(),
            };
            judge(&name, [*number], reach)?;
        }
        return Ok(place.clone());
    }
    let names: Vec<&str> = hosts.iter().filter_map(name_of).collect();
    if names.is_empty() {
        return Ok(place.clone());
    }
    if names.len() < hosts.len() {
        return Err(PlaceError::Mixed);
    }
    let mut whole = without_hosts(place);
    for (at, name) in names.into_iter().enumerate() {
        let port = ports.get(at).or(ports.first()).copied().unwrap_or(PORT);
        for address in resolve(name, port, reach)? {
            whole.host(name).hostaddr(address.ip()).port(port);
        }
    }
    Ok(whole)
}

/// The name of a host that is reached over a network.
fn name_of(host: &Host) -> Option<&str> {
    match host {
        Host::Tcp(name) => Some(name),
        Host::Unix(_) => None,
    }
}

/// All that is said of a connection but where it goes to.
fn without_hosts(place: &tokio_postgres::Config) -> tokio_postgres::Config {
    let mut rest = tokio_postgres::Config::new();
    if let Some(user) = place.get_user() {
        rest.user(user);
    }
    if let Some(password) = place.get_password() {
        rest.password(password);
    }
    if let Some(name) = place.get_dbname() {
        rest.dbname(name);
    }
    if let Some(options) = place.get_options() {
        rest.options(options);
    }
    if let Some(name) = place.get_application_name() {
        rest.application_name(name);
    }
    if let Some(span) = place.get_connect_timeout() {
        rest.connect_timeout(*span);
    }
    if let Some(span) = place.get_tcp_user_timeout() {
        rest.tcp_user_timeout(*span);
    }
    if let Some(span) = place.get_keepalives_interval() {
        rest.keepalives_interval(span);
    }
    if let Some(retries) = place.get_keepalives_retries() {
        rest.keepalives_retries(retries);
    }
    rest.keepalives(place.get_keepalives())
        .keepalives_idle(place.get_keepalives_idle())
        .ssl_mode(place.get_ssl_mode())
        .ssl_negotiation(place.get_ssl_negotiation())
        .target_session_attrs(place.get_target_session_attrs())
        .channel_binding(place.get_channel_binding())
        .load_balance_hosts(place.get_load_balance_hosts());
    rest
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
        Config { place, ..Config::default() }
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
            connector.connect(host, stream).await.map(Encrypted).map_err(told)
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
        // Under TLS 1.3 a server says only now that it does not take a certificate.
        Pin::new(&mut self.0).poll_read(context, into).map_err(told)
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

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn config(text: &str) -> Config {
        text.parse().unwrap()
    }

    fn addresses(config: &Config) -> Vec<String> {
        config.get_hostaddrs().iter().map(IpAddr::to_string).collect()
    }

    /// Sekisho's TPC-C verbs once connected to whatever `--db` named, although load is promised to go
    /// to loopback and private addresses only. Numbers alone, so that nothing is looked up, and
    /// nothing is connected to.
    #[test]
    fn a_database_at_a_public_address_must_be_asked_for() {
        for text in [
            "host=203.0.113.1 user=me",
            "hostaddr=203.0.113.1 user=me",
            "host=localhost hostaddr=203.0.113.1 user=me",
            "host=/run/postgresql hostaddr=203.0.113.1 user=me",
            "host=127.0.0.1,203.0.113.1 user=me",
            "hostaddr=127.0.0.1,203.0.113.1 user=me",
            "postgresql://me@127.0.0.1:5432,203.0.113.1:5433/x",
            "postgresql://me@[2001:db8::1]/x",
            "postgresql://me@[::ffff:203.0.113.1]/x",
            "postgresql://me@%3A%3Affff%3A203.0.113.1/x",
            "postgresql://me@100.64.0.1/x",
            "postgresql://me@127.0.0.1/x?hostaddr=203.0.113.1",
            "postgresql:///x?host=203.0.113.1",
        ] {
            let config = config(text);
            let refused = config.within(Reach::Private);
            let is_public = matches!(refused, Err(PlaceError::Reach(ReachError::Public { .. })));
            assert!(is_public, "{text}: {refused:?}");
            let unasked = config.judged();
            assert!(unasked.is_err(), "{text}: what nobody asked about is asked when it opens");
            let allowed = config.within(Reach::Anywhere).unwrap();
            assert!(allowed.judged().is_ok(), "{text}");
        }
        for text in [
            "host=/var/run/postgresql user=me",
            "host=0.0.0.0 user=me",
            "hostaddr=10.0.0.1,fd00::1,fe80::1 user=me",
            "host=::ffff:192.168.0.1 user=me",
        ] {
            assert!(config(text).within(Reach::Private).is_ok(), "{text}");
        }
    }

    #[test]
    fn every_address_of_a_name_is_one_that_is_connected_to() {
        let asked = config("host=localhost,127.0.0.2 port=6000,6001 user=me");
        let within = asked.within(Reach::Private).unwrap();
        let found = addresses(&within);
        assert_eq!(found.last().unwrap(), "127.0.0.2");
        assert!(
            found.len() >= 2 && found.iter().all(|at| at.parse::<IpAddr>().unwrap().is_loopback())
        );
        assert_eq!(within.get_hosts().len(), found.len());
        assert_eq!(within.get_ports().last(), Some(&6001));
        assert_eq!(within.get_ports().len(), found.len());
        assert_eq!(within.judged().unwrap(), within.place, "nothing is looked up again");
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let refused = |text: &str| config(text).within(Reach::Private).unwrap_err().to_string();
        assert!(refused("host=/tmp,127.0.0.1").contains("one kind"));
        assert!(refused("host=127.0.0.1 hostaddr=127.0.0.1,127.0.0.2").contains("1 hosts have 2"));
        assert!(refused("host=127.0.0.1 port=1,2").contains("1 hosts have 2 ports"));
    }

    #[test]
    fn nothing_but_the_address_changes() {
        let all = "host=127.0.0.1 port=6000 user=me password=mine dbname=x options=-cgeqo=off \
                   application_name=y sslmode=require sslnegotiation=direct connect_timeout=3 \
                   tcp_user_timeout=4 keepalives=0 keepalives_idle=5 keepalives_interval=6 \
                   keepalives_retries=7 target_session_attrs=read-write channel_binding=disable \
                   load_balance_hosts=random";
        let mut same = config(all);
        let within = same.within(Reach::Private).unwrap();
        same.hostaddr("127.0.0.1".parse().unwrap());
        assert_eq!(within, same);
    }
}
