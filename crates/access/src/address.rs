//! Addresses that a server may listen on, and names under which it may be asked: without users nobody but this machine
//! reaches it, and no page in a browser of this machine either.

use std::net::{IpAddr, SocketAddr};

use tls::{Tls, TlsError};
use tokio_rustls::TlsAcceptor;

/// Who may come, and how what is said is kept from others. By default everybody on this machine.
#[derive(Clone, Debug)]
pub struct Access<U> {
    /// The users; without them everybody may do everything, and the address must be a loopback one.
    pub users: Option<U>,
    /// The certificate of the server and its key.
    pub tls: Option<Tls>,
}

impl<U> Default for Access<U> {
    fn default() -> Self {
        Self { users: None, tls: None }
    }
}

/// An address that a server must not listen on, or a certificate that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// Others would reach it, and there are no users.
    #[error(
        "{0} is no loopback address, and everybody who reaches this server may do everything: \
         listen on 127.0.0.1, or name a file of users (--users)"
    )]
    Public(SocketAddr),
    /// Others would reach it, and read the access tokens on their way.
    #[error(
        "{0} is no loopback address, and without TLS whoever carries the bytes reads the access tokens: name a \
         certificate and its key (--tls-cert, --tls-key), or listen on 127.0.0.1 behind a proxy with TLS"
    )]
    InClear(SocketAddr),
    /// The certificate or its key.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl<U> Access<U> {
    /// The side of TLS that a server has, if it has a certificate; nothing is connected or listened to.
    ///
    /// # Errors
    /// [`AccessError`]: the address is not a loopback one, and users or TLS are missing, or the certificate cannot be used.
    pub fn check(&self, listen: SocketAddr) -> Result<Option<TlsAcceptor>, AccessError> {
        if !listen.ip().is_loopback() {
            match self {
                Self { users: None, .. } => return Err(AccessError::Public(listen)),
                Self { tls: None, .. } => return Err(AccessError::InClear(listen)),
                _ => {}
            }
        }
        let config = self.tls.as_ref().map(|tls| tls::load(tls, b"http/1.1")).transpose()?;
        Ok(config.map(TlsAcceptor::from))
    }
}

/// A request to a server without users that a page of somebody else may have sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElsewhereError {
    /// A name that may have been made to lead here.
    #[error("the host `{0}` is not how this server is reached; use its address or `localhost`")]
    Host(String),
    /// Another page than the server's own.
    #[error("pages of `{0}` may not ask this server")]
    Origin(String),
}

/// A page of somebody else in a browser of this machine must not reach a server that asks for no access token: such a page
/// sends its own origin, or a name that it has made to lead here. `host` and `origin` are the headers, the first empty where
/// it is missing.
///
/// # Errors
/// [`ElsewhereError`].
pub fn from_here(host: &str, origin: Option<&str>) -> Result<(), ElsewhereError> {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let is_known = name.is_empty() || name == "localhost" || name.parse::<IpAddr>().is_ok();
    if !is_known {
        return Err(ElsewhereError::Host(host.to_owned()));
    }
    match origin {
        Some(origin) if origin.split_once("://").map(|(_, host)| host) != Some(host) => {
            Err(ElsewhereError::Origin(origin.to_owned()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn others_reach_a_server_with_users_and_tls_alone() {
        let certificates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tls/tests/certificates");
        let tls =
            Tls { cert: certificates.join("database.pem"), key: certificates.join("leaf.key") };
        let absent = Tls { cert: "no-such.pem".into(), ..tls.clone() };
        let access = |users: Option<()>, tls: Option<&Tls>| Access { users, tls: tls.cloned() };
        for (listen, is_loopback) in [
            ("127.0.0.1:1", true),
            ("127.9.9.9:1", true),
            ("[::1]:1", true),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
            ("10.0.0.1:1", false),
            ("192.0.2.1:1", false),
        ] {
            let listen: SocketAddr = listen.parse().unwrap();
            let ends = |access: Access<()>| access.check(listen).map(|acceptor| acceptor.is_some());
            let public = if is_loopback { Ok(false) } else { Err(AccessError::Public(listen)) };
            assert_eq!(ends(access(None, None)), public);
            let in_clear = if is_loopback { Ok(false) } else { Err(AccessError::InClear(listen)) };
            assert_eq!(ends(access(Some(()), None)), in_clear);
            let public = if is_loopback { Ok(true) } else { Err(AccessError::Public(listen)) };
            assert_eq!(ends(access(None, Some(&tls))), public, "TLS alone asks nobody who he is");
            assert_eq!(ends(access(Some(()), Some(&tls))), Ok(true));
            let told = ends(access(Some(()), Some(&absent))).unwrap_err().to_string();
            assert!(told.starts_with("cannot use no-such.pem for TLS"), "{told}");
        }
    }

    #[test]
    fn a_page_of_somebody_else_is_known_by_its_origin_or_its_name() {
        for (host, origin, is_here) in [
            ("", None, true),
            ("localhost:7080", None, true),
            ("127.0.0.1:7080", Some("http://127.0.0.1:7080"), true),
            ("[::1]:7080", None, true),
            ("evil.example:7080", None, false),
            ("127.0.0.1:7080", Some("http://evil.example"), false),
            ("127.0.0.1:7080", Some("http://127.0.0.1:9999"), false),
            ("127.0.0.1:7080", Some("null"), false),
        ] {
            assert_eq!(from_here(host, origin).is_ok(), is_here, "{host} {origin:?}");
        }
    }
}
