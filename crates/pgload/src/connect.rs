//! The way to a database, without tokio-postgres: its tasks and channels would cost more than what is
//! measured. Where it leads, whom it trusts and how far it may go is [`tpcc::Config`]'s business.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use measure::ErrorKind;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::frontend;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tpcc::{
    ChannelBinding as Binding, Config, Host, PlaceError, SslMode, TargetSessionAttrs,
    certificate_way_out, encryption_failure,
};

/// Time limit for a session to begin, where `connect_timeout` says nothing.
const PATIENCE: Duration = Duration::from_secs(30);
/// PostgreSQL's own port.
const PORT: u16 = 5432;
/// No message of a server that is read as a whole is longer [bytes]: rows that nobody wants are not.
const MESSAGE_MAX: usize = 64 << 20;

/// Error of a database.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} (SQLSTATE {code})")]
pub struct Said {
    /// The SQLSTATE.
    pub code: String,
    /// The message.
    pub message: String,
    /// Where in the statement, in characters from 1, if it says so.
    pub position: Option<usize>,
    /// True if the session ends by it.
    pub fatal: bool,
}

/// Why no session began.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The place is out of reach, or none.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Nobody is there, or the way broke.
    #[error("cannot connect to the database at {place}: {error}")]
    Way {
        /// The address.
        place: String,
        /// The cause.
        error: io::Error,
    },
    /// Somebody listens, and does not let a session begin.
    #[error(
        "no session began within {} s: is it PostgreSQL that listens there, and is it well? \
         connect_timeout=SECONDS in the URL waits longer",
        .0.as_secs_f64()
    )]
    Silent(Duration),
    /// The encryption failed, or there is none.
    #[error("the way cannot be encrypted: {0}")]
    Encryption(String),
    /// The server wants a proof that there is none of.
    #[error("{0}")]
    Proof(String),
    /// The server refused.
    #[error("the database refuses a session: {0}")]
    Refused(#[from] Said),
    /// The server refused for want of a certificate.
    #[error("the database refuses a session: {said}; {way_out}")]
    Certificate {
        /// Answer of the server.
        said: Said,
        /// The way out.
        way_out: &'static str,
    },
    /// The server has no connection left.
    #[error(
        "the database has no connection left for connection {number} of {of}: {said}; ask for fewer, \
         or raise max_connections"
    )]
    TooMany {
        /// Number of the connection, from 1.
        number: u32,
        /// Connections that were wanted.
        of: u32,
        /// Answer of the server.
        said: Said,
    },
}

impl OpenError {
    /// Kind of the failure of a transaction that found no session.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            OpenError::Way { error, .. } => match error.kind() {
                // The socket's file goes with the server.
                io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
                    ErrorKind::ConnectRefused
                }
                io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => ErrorKind::Reset,
                io::ErrorKind::TimedOut => ErrorKind::ConnectTimeout,
                _ => ErrorKind::ConnectOther,
            },
            OpenError::Silent(_) => ErrorKind::ConnectTimeout,
            OpenError::Encryption(_) => ErrorKind::Tls,
            OpenError::Refused(said)
            | OpenError::Certificate { said, .. }
            | OpenError::TooMany { said, .. } => ErrorKind::of_sqlstate(&said.code),
            OpenError::Place(_) | OpenError::Proof(_) => ErrorKind::ConnectOther,
        }
    }
}

trait Duplex: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Duplex for S {}

/// One of the addresses of a database.
#[derive(Clone, Debug)]
enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// A way with messages on it.
pub(crate) struct Wire {
    stream: Box<dyn Duplex>,
    input: BytesMut,
    pub(crate) output: BytesMut,
    /// Bytes of the message at the front that nobody wants to see.
    unseen: usize,
    /// Bytes that have come.
    pub(crate) received: u64,
}

/// The front of what has come.
pub(crate) struct Message {
    pub(crate) tag: u8,
    length: usize,
}

impl Wire {
    fn new(stream: Box<dyn Duplex>) -> Wire {
        let (input, output) = (BytesMut::with_capacity(8 << 10), BytesMut::with_capacity(1 << 10));
        Wire { stream, input, output, unseen: 0, received: 0 }
    }

    /// Sends what was put out.
    pub(crate) async fn send(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.output).await?;
        self.output.clear();
        self.stream.flush().await
    }

    /// Waits for the next message. A row's is thrown away as it comes, unless rows are wanted.
    pub(crate) async fn next(&mut self, rows: Rows) -> io::Result<Message> {
        loop {
            let dropped = self.unseen.min(self.input.len());
            self.input.advance(dropped);
            self.unseen -= dropped;
            if self.unseen == 0 && self.input.len() >= 5 {
                let tag = self.input[0];
                let length = u32::from_be_bytes(self.input[1..5].try_into().expect("four bytes"));
                let length = length as usize + 1;
                if length < 5 {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "a message has no length",
                    ));
                }
                if tag == b'D' && rows == Rows::Unwanted {
                    self.unseen = length;
                    continue;
                }
                if length > MESSAGE_MAX {
                    let cause = "a message is longer than 64 MiB";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, cause));
                }
                if self.input.len() >= length {
                    return Ok(Message { tag, length });
                }
                self.input.reserve(length - self.input.len());
            }
            if self.input.capacity() - self.input.len() < 1 << 10 {
                self.input.reserve(8 << 10);
            }
            match self.stream.read_buf(&mut self.input).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.received += count as u64,
            }
        }
    }

    /// The body of the message at the front.
    pub(crate) fn body(&self, message: &Message) -> &[u8] {
        &self.input[5..message.length]
    }

    /// Goes on to the message after it.
    pub(crate) fn done(&mut self, message: &Message) {
        self.input.advance(message.length);
    }

    /// Says goodbye; whether it arrives does not matter.
    pub(crate) async fn close(mut self) {
        frontend::terminate(&mut self.output);
        let _ = self.send().await;
        let _ = self.stream.shutdown().await;
    }
}

/// Use of the rows that come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    Wanted,
    Unwanted,
}

/// A session that has just begun.
pub(crate) struct Opened {
    pub(crate) wire: Wire,
    /// The way to cancel what it does.
    pub(crate) cancel: Cancel,
    /// The server's release, as it says.
    pub(crate) version: String,
    /// Its address.
    pub(crate) place: String,
}

/// Permission to cancel what a session does.
#[derive(Clone, Debug)]
pub(crate) struct Cancel {
    at: usize,
    process: i32,
    secret: i32,
}

/// Begins a session.
pub(crate) async fn open(config: &Config) -> Result<Opened, OpenError> {
    let place = config.judged()?;
    refuse_unsupported(&place)?;
    let patience = place.get_connect_timeout().copied().unwrap_or(PATIENCE);
    let addresses = addresses(&place)?;
    let attempt = async {
        let mut last = None;
        for (at, (name, address)) in addresses.iter().enumerate() {
            match way(config, name, address).await {
                Ok(stream) => return begin(&place, stream, (at, address)).await,
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("there is an address"))
    };
    timeout(patience, attempt).await.map_err(|_| OpenError::Silent(patience))?
}

/// What a URL can ask for and is not done here must not be left out in silence.
fn refuse_unsupported(place: &Place) -> Result<(), OpenError> {
    let not = |what: &str, way_out: &str| {
        Err(OpenError::Proof(format!("{what} in the URL is not supported here: {way_out}")))
    };
    if place.get_channel_binding() == Binding::Require {
        return not("channel_binding=require", "use sslmode=verify-full, which protects as well");
    }
    if place.get_target_session_attrs() != TargetSessionAttrs::Any {
        return not("target_session_attrs", "name the one host that is meant");
    }
    Ok(())
}

/// Asks the server to cancel what a session does.
pub(crate) async fn cancel(config: &Config, session: &Cancel) -> Result<(), OpenError> {
    let addresses = addresses(&config.judged()?)?;
    let (name, address) = &addresses[session.at];
    let mut wire = Wire::new(way(config, name, address).await?);
    frontend::cancel_request(session.process, session.secret, &mut wire.output);
    let broken = |error| OpenError::Way { place: shown(address), error };
    wire.send().await.map_err(broken)?;
    // The server closes when it has passed the wish on.
    let _ = wire.stream.read(&mut [0; 1]).await;
    Ok(())
}

type Place = <Config as std::ops::Deref>::Target;

/// The addresses of a place, each with its name.
fn addresses(place: &Place) -> Result<Vec<(String, Address)>, OpenError> {
    let (hosts, numbers, ports) = (place.get_hosts(), place.get_hostaddrs(), place.get_ports());
    let port = |at: usize| ports.get(at).or(ports.first()).copied().unwrap_or(PORT);
    let all: Vec<(String, Address)> = (0..hosts.len().max(numbers.len()))
        .filter_map(|at| match (hosts.get(at), numbers.get(at)) {
            (Some(Host::Unix(folder)), None) => {
                let path = folder.join(format!(".s.PGSQL.{}", port(at)));
                Some((path.display().to_string(), Address::Unix(path)))
            }
            (host, Some(number)) => {
                let name = match host {
                    Some(Host::Tcp(name)) => name.clone(),
                    _ => number.to_string(),
                };
                Some((name, Address::Tcp((*number, port(at)).into())))
            }
            _ => None,
        })
        .collect();
    if all.is_empty() {
        let error = io::Error::new(io::ErrorKind::InvalidInput, "no host is named");
        return Err(OpenError::Way { place: "the place that is named".into(), error });
    }
    Ok(all)
}

fn shown(address: &Address) -> String {
    match address {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(path) => path.display().to_string(),
    }
}

/// Opens a way, encrypted as it is asked for.
async fn way(config: &Config, name: &str, address: &Address) -> Result<Box<dyn Duplex>, OpenError> {
    let broken = |error| OpenError::Way { place: shown(address), error };
    let mut stream = match address {
        // As libpq does: on a socket of the same machine nothing is encrypted.
        Address::Unix(path) => {
            return Ok(Box::new(UnixStream::connect(path).await.map_err(broken)?));
        }
        Address::Tcp(address) => TcpStream::connect(address).await.map_err(broken)?,
    };
    stream.set_nodelay(true).map_err(broken)?;
    let mode = config.get_ssl_mode();
    if mode == SslMode::Disable {
        return Ok(Box::new(stream));
    }
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    stream.write_all(&request).await.map_err(broken)?;
    let answer = stream.read_u8().await.map_err(broken)?;
    if answer != b'S' {
        return match mode {
            SslMode::Prefer => Ok(Box::new(stream)),
            _ => Err(OpenError::Encryption("the server offers none (sslmode)".into())),
        };
    }
    let refused = |error: String| OpenError::Encryption(error);
    let name = ServerName::try_from(name.to_owned()).map_err(|error| refused(error.to_string()))?;
    let connector = TlsConnector::from(config.tls());
    let encrypted = connector.connect(name, stream).await;
    let failed = |error| encryption_failure(&error).unwrap_or_else(|| error.to_string());
    Ok(Box::new(encrypted.map_err(|error| refused(failed(error)))?))
}

/// Says who comes, proves it, and waits until the session is ready.
async fn begin(
    place: &Place,
    stream: Box<dyn Duplex>,
    (at, address): (usize, &Address),
) -> Result<Opened, OpenError> {
    // Under TLS 1.3 a server says only here that it does not take a certificate.
    let broken = |error| match encryption_failure(&error) {
        Some(cause) => OpenError::Encryption(cause),
        None => OpenError::Way { place: shown(address), error },
    };
    let mut wire = Wire::new(stream);
    let user = place.get_user().map_or_else(user_of_system, str::to_owned);
    let mut parameters = vec![("client_encoding", "UTF8"), ("user", &*user)];
    parameters.extend(place.get_dbname().map(|name| ("database", name)));
    parameters.extend(place.get_options().map(|options| ("options", options)));
    let application = place.get_application_name().unwrap_or("sekisho");
    parameters.push(("application_name", application));
    frontend::startup_message(parameters, &mut wire.output).map_err(broken)?;
    wire.send().await.map_err(broken)?;
    let mut opened = Opened {
        wire,
        cancel: Cancel { at, process: 0, secret: 0 },
        version: String::new(),
        place: shown(address),
    };
    let mut scram = None;
    loop {
        let wire = &mut opened.wire;
        let message = wire.next(Rows::Unwanted).await.map_err(broken)?;
        let body = wire.body(&message).to_vec();
        wire.done(&message);
        match message.tag {
            b'R' => {
                prove(wire, place, &user, &body, &mut scram).await.map_err(|cause| match cause {
                    NoProof::Way(error) => broken(error),
                    NoProof::Cause(text) => OpenError::Proof(text),
                })?
            }
            b'S' => {
                let mut fields = body.split(|byte| *byte == 0);
                if fields.next() == Some(b"server_version") {
                    let version = fields.next().unwrap_or_default();
                    opened.version = String::from_utf8_lossy(version).into_owned();
                }
            }
            b'K' if body.len() >= 8 => {
                let number =
                    |at: usize| i32::from_be_bytes(body[at..at + 4].try_into().expect("four"));
                (opened.cancel.process, opened.cancel.secret) = (number(0), number(4));
            }
            b'E' => return Err(refused(said(&body))),
            b'Z' => return Ok(opened),
            _ => {}
        }
    }
}

/// Refusal of a session, with the way out where it is for want of a certificate.
fn refused(said: Said) -> OpenError {
    match certificate_way_out(&said.code, &said.message) {
        Some(way_out) => OpenError::Certificate { said, way_out },
        None => OpenError::Refused(said),
    }
}

/// Name of the user who runs this, as libpq takes it where none is given.
fn user_of_system() -> String {
    std::env::var("USER").unwrap_or_else(|_| "postgres".into())
}

enum NoProof {
    Way(io::Error),
    Cause(String),
}

impl From<io::Error> for NoProof {
    fn from(error: io::Error) -> NoProof {
        NoProof::Way(error)
    }
}

/// Answers what the server asks of a user.
async fn prove(
    wire: &mut Wire,
    place: &Place,
    user: &str,
    body: &[u8],
    scram: &mut Option<ScramSha256>,
) -> Result<(), NoProof> {
    let Some((kind, rest)) = body.split_first_chunk::<4>() else {
        return Err(NoProof::Cause("the server's question for a password is cut off".into()));
    };
    let password = || {
        let none = "the server asks for a password, and none is given: put it into PGPASSWORD";
        place.get_password().ok_or_else(|| NoProof::Cause(none.into()))
    };
    match (i32::from_be_bytes(*kind), scram) {
        (0, _) => return Ok(()),
        (3, _) => frontend::password_message(password()?, &mut wire.output)?,
        (5, _) => {
            let salt = rest.try_into().map_err(|_| NoProof::Cause("the salt is cut off".into()))?;
            let hash = md5_hash(user.as_bytes(), password()?, salt);
            frontend::password_message(hash.as_bytes(), &mut wire.output)?;
        }
        (10, scram) => {
            if !rest.split(|byte| *byte == 0).any(|name| name == SCRAM_SHA_256.as_bytes()) {
                let cause = "the server asks for a proof other than SCRAM-SHA-256 without channel \
                             binding, which is not supported";
                return Err(NoProof::Cause(cause.into()));
            }
            let begun = ScramSha256::new(password()?, ChannelBinding::unsupported());
            frontend::sasl_initial_response(SCRAM_SHA_256, begun.message(), &mut wire.output)?;
            *scram = Some(begun);
        }
        (11, Some(scram)) => {
            scram.update(rest)?;
            frontend::sasl_response(scram.message(), &mut wire.output)?;
        }
        (12, Some(scram)) => {
            let wrong = |_| NoProof::Cause("the server does not know the password itself".into());
            return scram.finish(rest).map_err(wrong);
        }
        (kind, _) => {
            let cause =
                format!("the server asks for a proof of kind {kind}, which is not supported");
            return Err(NoProof::Cause(cause));
        }
    }
    Ok(wire.send().await?)
}

/// Error that a server reports.
pub(crate) fn said(body: &[u8]) -> Said {
    let mut said =
        Said { code: String::new(), message: String::new(), position: None, fatal: false };
    for field in body.split(|byte| *byte == 0) {
        let Some((kind, text)) = field.split_first() else { continue };
        let text = String::from_utf8_lossy(text).into_owned();
        match kind {
            b'C' => said.code = text,
            b'M' => said.message = text,
            b'P' => said.position = text.parse().ok(),
            b'V' => said.fatal = text == "FATAL" || text == "PANIC",
            _ => {}
        }
    }
    said
}
