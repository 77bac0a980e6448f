//! Negotiation with a server before the first message that counts: whether it speaks TLS, and the
//! handshake. Sessions and cancel requests come the same way.

use std::io;

use rustls::{self, ClientConnection};

use super::connection::{Buffers, Connection, Filled};
use super::server_tls::{Handshake, Negotiation, Way};
use pgwire::auth::Binding;
use pgwire::startup::{ALPN, write_ssl_request};

/// Progress of a connection to a server.
pub(super) struct Negotiating {
    step: Step,
    /// Of direct TLS, which must agree on what is spoken inside.
    direct: bool,
}

enum Step {
    /// It may not be there yet; then it is tried like this.
    Connecting(Way),
    /// The server was asked whether it speaks TLS; if it does not, that may be all right.
    Asked(Handshake, Otherwise),
    /// The two sides agree on how to encrypt.
    Handshaking,
    /// The first message may be said.
    Open,
}

impl std::fmt::Debug for Negotiating {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self.step {
            Step::Connecting(_) => "Connecting",
            Step::Asked(..) => "Asked",
            Step::Handshaking => "Handshaking",
            Step::Open => "Open",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Otherwise {
    InClear,
    NotAtAll,
}

/// Why the first message cannot be said.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unapproachable {
    /// There is no connection.
    #[error("{0}")]
    Broken(#[from] io::Error),
    /// It has ended.
    #[error("it has closed the connection")]
    Closed,
    /// It does not speak TLS.
    #[error("it does not speak TLS, and nothing else will do")]
    Declined,
    /// Bytes in clear came behind its answer, which would pass for encrypted ones: whoever sits in
    /// between could have put them there.
    #[error("it sent bytes in clear where a TLS handshake must follow")]
    ClearText,
    /// Its answer is neither yes nor no.
    #[error("it answered a request for TLS with byte {byte}: is it PostgreSQL?")]
    Answer {
        /// The answer.
        byte: u8,
    },
    /// Direct TLS reached something that does not say that it is PostgreSQL.
    #[error("it took direct TLS without agreeing to speak PostgreSQL inside")]
    Protocol,
    /// The handshake has failed: the certificate is wrong, or nothing is spoken by both.
    #[error("TLS: {0}")]
    Handshake(rustls::Error),
}

impl Unapproachable {
    /// True if a connection in clear might do where encryption was only preferred.
    pub(super) fn is_of_tls(&self) -> bool {
        matches!(
            self,
            Unapproachable::Handshake(_) | Unapproachable::Closed | Unapproachable::Answer { .. }
        )
    }
}

impl Negotiating {
    pub(super) fn new(way: Way) -> Negotiating {
        Negotiating { step: Step::Connecting(way), direct: false }
    }

    /// Goes as far as it can now. True when the first message may be said.
    ///
    /// # Errors
    /// If it never may.
    pub(super) fn advance(
        &mut self,
        connection: &mut Connection,
        buffers: &mut Buffers,
    ) -> Result<bool, Unapproachable> {
        loop {
            let next = match &self.step {
                Step::Open => return Ok(true),
                Step::Connecting(way) => {
                    if !connection.stream().is_connected()? {
                        return Ok(false);
                    }
                    connection.stream().set_prompt()?;
                    self.direct = matches!(way, Way::Tls(one) if one.is_direct());
                    begin(way.clone(), connection, buffers)?
                }
                Step::Asked(handshake, otherwise) => {
                    connection.flush(buffers)?;
                    let ended = matches!(connection.fill(buffers), Filled::Ended(_));
                    let next = match *connection.read() {
                        [] if ended => return Err(Unapproachable::Closed),
                        [] => return Ok(false),
                        [b'S'] => Ok(Step::Handshaking),
                        [b'N'] if *otherwise == Otherwise::InClear => Ok(Step::Open),
                        [b'N'] => Err(Unapproachable::Declined),
                        [b'S' | b'N', ..] => Err(Unapproachable::ClearText),
                        [byte, ..] => Err(Unapproachable::Answer { byte }),
                    }?;
                    connection.take(1, buffers);
                    if matches!(next, Step::Handshaking) {
                        handshake.begin(connection, buffers)?;
                    }
                    next
                }
                Step::Handshaking => {
                    connection.flush(buffers)?;
                    let filled = connection.fill(buffers);
                    if let Some(fault) = connection.fault() {
                        return Err(Unapproachable::Handshake(fault));
                    }
                    if !connection.is_handshaking() {
                        if self.direct && connection.protocol().as_deref() != Some(ALPN) {
                            return Err(Unapproachable::Protocol);
                        }
                        Step::Open
                    } else if matches!(filled, Filled::Ended(_)) {
                        return Err(Unapproachable::Closed);
                    } else {
                        return Ok(false);
                    }
                }
            };
            self.step = next;
        }
    }
}

/// The connection is there: what is said first.
fn begin(
    way: Way,
    connection: &mut Connection,
    buffers: &mut Buffers,
) -> Result<Step, Unapproachable> {
    let (handshake, otherwise) = match way {
        Way::Clear => return Ok(Step::Open),
        Way::Tls(handshake) if handshake.is_direct() => {
            handshake.begin(connection, buffers)?;
            return Ok(Step::Handshaking);
        }
        Way::Tls(handshake) => (handshake, Otherwise::NotAtAll),
        Way::TlsIfPossible(handshake) => (handshake, Otherwise::InClear),
    };
    let mut out = Vec::new();
    write_ssl_request(&mut out);
    connection.send(&out, buffers)?;
    Ok(Step::Asked(handshake, otherwise))
}

impl Handshake {
    fn is_direct(&self) -> bool {
        self.negotiation == Negotiation::Direct
    }

    fn begin(
        &self,
        connection: &mut Connection,
        buffers: &mut Buffers,
    ) -> Result<(), Unapproachable> {
        let tls = ClientConnection::new(self.config.clone(), self.name.clone())
            .map_err(Unapproachable::Handshake)?;
        Ok(connection.encrypt(tls, buffers)?)
    }
}

/// The channel binding of a proof to the certificate that the server of a connection has shown.
pub(super) fn binding(connection: &Connection) -> Binding {
    connection.certificate().map_or(Binding::Absent, |shown| Binding::of_certificate(&shown))
}
