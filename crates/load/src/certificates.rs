//! Certificates of servers that are taken although less is known of them than TLS asks for by
//! default: of any server, or of any that an authority has signed, whatever its name.
//!
//! What is said under a certificate must still be signed with its key, so that a connection costs
//! what it costs with trust, and so that nobody speaks for a certificate that is another's.

use std::sync::Arc;

use rustls::CertificateError::{NotValidForName, NotValidForNameContext};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

/// Takes more certificates than TLS does by default.
#[derive(Debug)]
pub struct Lenient {
    algorithms: WebPkiSupportedAlgorithms,
    /// Authority that must have signed; anybody may if there is none.
    authority: Option<Arc<WebPkiServerVerifier>>,
}

impl Lenient {
    /// Takes any certificate.
    pub fn any_server(algorithms: WebPkiSupportedAlgorithms) -> Lenient {
        Lenient { algorithms, authority: None }
    }

    /// Takes what an authority has signed, under whatever name.
    pub fn any_name(
        algorithms: WebPkiSupportedAlgorithms,
        authority: Arc<WebPkiServerVerifier>,
    ) -> Lenient {
        Lenient { algorithms, authority: Some(authority) }
    }
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
