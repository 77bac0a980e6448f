//! Encryption of connections to servers, in libpq's words: what is wanted, what was read from files
//! for it, and in which order it is tried.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ring::digest::{Context, SHA256};
use rustls::CertificateError::{NotValidForName, NotValidForNameContext};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring as provider, verify_tls12_signature,
    verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    SupportedProtocolVersion, version,
};

use super::config::Address;
use pgwire::startup::ALPN;
use tls::{Tls, TlsError};

/// The demand for encryption, and for a verified certificate of the other side. libpq's `sslmode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// It is not.
    #[default]
    Disable,
    /// It is where the other side lets nobody in without.
    Allow,
    /// It is where the other side can. Whoever sits in between can make it be in clear.
    Prefer,
    /// It must be; the certificate is verified only where authorities are named.
    Require,
    /// It must be, with a certificate of one of the authorities, for whatever name.
    VerifyCa,
    /// It must be, with a certificate of one of the authorities for the server's own name.
    VerifyFull,
}

impl fmt::Display for TlsMode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            TlsMode::Disable => "disable",
            TlsMode::Allow => "allow",
            TlsMode::Prefer => "prefer",
            TlsMode::Require => "require",
            TlsMode::VerifyCa => "verify-ca",
            TlsMode::VerifyFull => "verify-full",
        })
    }
}

/// The beginning of TLS. libpq's `sslnegotiation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Negotiation {
    /// The server is asked whether it speaks it.
    #[default]
    Asked,
    /// At once, as PostgreSQL 17 and later take it.
    Direct,
}

/// The authorities that may have signed the certificate of the other side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Authorities {
    /// Nobody is asked for.
    #[default]
    Unnamed,
    /// Those whose certificates stand in this file, PEM.
    File(PathBuf),
    /// Those whose certificates these are, DER.
    Known(Vec<Vec<u8>>),
}

/// The oldest version of TLS that is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// 1.2
    #[default]
    V12,
    /// 1.3
    V13,
}

impl TlsVersion {
    /// The versions from this one on.
    pub(super) fn and_later(self) -> Vec<&'static SupportedProtocolVersion> {
        match self {
            TlsVersion::V12 => vec![&version::TLS13, &version::TLS12],
            TlsVersion::V13 => vec![&version::TLS13],
        }
    }
}

/// The wanted encryption of connections to servers. Those by Unix sockets never are, as libpq has
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerTls {
    /// The demand for it, and for a verified certificate.
    pub mode: TlsMode,
    /// Its beginning; direct only with [`TlsMode::Require`] or stricter.
    pub negotiation: Negotiation,
    /// The authorities that may have signed the servers' certificates.
    pub authorities: Authorities,
    /// The certificate that the gate shows servers that ask for one.
    pub identity: Option<Tls>,
    /// The oldest version that is spoken.
    pub oldest: TlsVersion,
}

/// Why connections cannot be encrypted as they are to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncryptionError {
    /// A certificate or a key.
    #[error(transparent)]
    File(#[from] TlsError),
    /// There is nothing to go back to from direct TLS.
    #[error("direct TLS cannot be {mode}: use require, verify-ca or verify-full")]
    Direct {
        /// The wanted mode.
        mode: TlsMode,
    },
    /// Nobody may have signed.
    #[error("{mode} verifies certificates, and no authority is named: name the file of theirs")]
    NoAuthority {
        /// The wanted mode.
        mode: TlsMode,
    },
}

/// Encryption of connections to servers: a [`ServerTls`] whose files were read.
#[derive(Clone)]
pub struct Encryption {
    wanted: ServerTls,
    /// `None` where nothing ever is.
    config: Option<Arc<ClientConfig>>,
    /// Of the certificates that were read, to tell whether they are others now.
    read: [u8; 32],
}

impl PartialEq for Encryption {
    fn eq(&self, other: &Encryption) -> bool {
        self.wanted == other.wanted && self.read == other.read
    }
}

impl fmt::Debug for Encryption {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Encryption({:?})", self.wanted)
    }
}

impl Default for Encryption {
    fn default() -> Encryption {
        Encryption::disabled()
    }
}

impl Encryption {
    /// None.
    pub fn disabled() -> Encryption {
        Encryption { wanted: ServerTls::default(), config: None, read: [0; 32] }
    }

    /// Reads the files that are named.
    ///
    /// # Errors
    /// If a file cannot be read or used, or authorities are missing that are to verify.
    pub fn load(wanted: &ServerTls) -> Result<Encryption, EncryptionError> {
        let mode = wanted.mode;
        if mode == TlsMode::Disable {
            return Ok(Encryption { wanted: wanted.clone(), ..Encryption::disabled() });
        }
        if wanted.negotiation == Negotiation::Direct && !mode.must_be() {
            return Err(EncryptionError::Direct { mode });
        }
        let mut read = Context::new(&SHA256);
        let roots = roots(&wanted.authorities, &mut read)?;
        if roots.is_none() && mode.verifies() {
            return Err(EncryptionError::NoAuthority { mode });
        }
        let ring = Arc::new(provider::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&ring))
            .with_protocol_versions(&wanted.oldest.and_later())
            .expect("ring has what these versions need")
            .dangerous()
            .with_custom_certificate_verifier(verifier(mode, roots, &ring));
        let mut config = match &wanted.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (certificates, key) = tls::identity(identity)?;
                certificates.iter().for_each(|one| read.update(one));
                builder.with_client_auth_cert(certificates, key).map_err(|error| TlsError {
                    path: identity.cert.clone(),
                    cause: error.to_string(),
                })?
            }
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        let read = read.finish().as_ref().try_into().expect("SHA-256 has 32 bytes");
        Ok(Encryption { wanted: wanted.clone(), config: Some(Arc::new(config)), read })
    }

    /// True if what a server sends is known to come from it: then a password may be sent as it is.
    pub(super) fn is_verified(&self) -> bool {
        let named = self.wanted.authorities != Authorities::Unnamed;
        self.wanted.mode.verifies() || self.wanted.mode == TlsMode::Require && named
    }

    /// The way of the `n`th try of a connection to `address`, from 0; `None` if there are not so
    /// many.
    pub(super) fn way(&self, address: &Address, n: u8) -> Option<Way> {
        let (Some(_), false) = (&self.config, matches!(address, Address::Unix(_))) else {
            return (n == 0).then_some(Way::Clear);
        };
        match (self.wanted.mode, n) {
            (TlsMode::Allow, 0) | (TlsMode::Prefer, 1) => Some(Way::Clear),
            (TlsMode::Prefer, 0) => self.handshake(address).map(Way::TlsIfPossible),
            (TlsMode::Disable | TlsMode::Prefer, _) => None,
            (TlsMode::Allow, 1) | (_, 0) => self.handshake(address).map(Way::Tls),
            (_, _) => None,
        }
    }

    /// The way to `address` for a cancel request to a session that is encrypted, or is not.
    pub(super) fn same_way(&self, address: &Address, session: Session) -> Option<Way> {
        match session {
            Session::Clear => Some(Way::Clear),
            Session::Encrypted => self.handshake(address).map(Way::Tls),
        }
    }

    fn handshake(&self, address: &Address) -> Option<Handshake> {
        let (config, name) = (Arc::clone(self.config.as_ref()?), address.name()?);
        Some(Handshake { config, name, negotiation: self.wanted.negotiation })
    }
}

impl TlsMode {
    /// True if there is no connection without TLS.
    pub(super) fn must_be(self) -> bool {
        matches!(self, TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull)
    }

    /// True if there is none without a certificate of an authority.
    pub(super) fn verifies(self) -> bool {
        matches!(self, TlsMode::VerifyCa | TlsMode::VerifyFull)
    }
}

/// Encryption of a session that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Session {
    Encrypted,
    Clear,
}

/// The way of one try of a connection to a server.
#[derive(Clone)]
pub(super) enum Way {
    Clear,
    TlsIfPossible(Handshake),
    Tls(Handshake),
}

/// The parts of a handshake with one server.
#[derive(Clone)]
pub(super) struct Handshake {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
    pub(super) negotiation: Negotiation,
}

/// The authorities that are named, if any are.
pub(super) fn roots(
    authorities: &Authorities,
    read: &mut Context,
) -> Result<Option<RootCertStore>, TlsError> {
    let (path, certificates) = match authorities {
        Authorities::Unnamed => return Ok(None),
        Authorities::File(path) => (path.as_path(), tls::certificates(path)?),
        Authorities::Known(all) => {
            let all = all.iter().map(|der| CertificateDer::from(der.clone())).collect();
            (Path::new("the authorities"), all)
        }
    };
    let unusable = |cause: String| TlsError { path: path.to_owned(), cause };
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        read.update(&certificate);
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    if roots.is_empty() { Err(unusable("it has no certificate".into())) } else { Ok(Some(roots)) }
}

fn verifier(
    mode: TlsMode,
    roots: Option<RootCertStore>,
    ring: &Arc<CryptoProvider>,
) -> Arc<dyn ServerCertVerifier> {
    let algorithms = ring.signature_verification_algorithms;
    let Some(roots) = roots.filter(|_| mode.must_be()) else {
        return Arc::new(Lenient { algorithms, authority: None });
    };
    let authority = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(ring))
        .build()
        .expect("there is an authority, and no revocations to be wrong");
    if mode == TlsMode::VerifyFull {
        authority
    } else {
        Arc::new(Lenient { algorithms, authority: Some(authority) })
    }
}

/// Takes more certificates than TLS does by default. What is said under one must still be signed with
/// its key, so that nobody speaks for a certificate that is another's.
#[derive(Debug)]
struct Lenient {
    algorithms: WebPkiSupportedAlgorithms,
    /// The authority that must have signed it, under whatever name; nobody in particular if there
    /// is none.
    authority: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        revocation: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(authority) = &self.authority else {
            return Ok(ServerCertVerified::assertion());
        };
        // The name is looked at last, when all else was found right.
        match authority.verify_server_cert(certificate, between, name, revocation, now) {
            Err(Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
