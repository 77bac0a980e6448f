//! Looks secrets up in a database, on a connection of its own that waits for its answers: it belongs
//! to a thread beside the loop, and counts among no pool's slots.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ring::rand::{SecureRandom, SystemRandom};
use rustls::{ClientConnection, StreamOwned};

use super::auth_query::Found;
use super::config::Address;
use super::server_tls::{Encryption, Handshake, Negotiation, Way};
use pgwire::auth::{Binding, Cleartext, Credential, Login, LoginStep, Terms};
use pgwire::frame::{Frontend, HEAD};
use pgwire::message::{read, write};
use pgwire::secrets::{MockKey, Secret};
use pgwire::startup::{ALPN, Version, write_ssl_request, write_startup};

/// The longest message that is read \[byte\].
const MESSAGE_MAX: usize = 1 << 20;

/// The servers of a lookup, and the login and query there.
pub(super) struct Place {
    pub(super) servers: Vec<Address>,
    pub(super) server_tls: Encryption,
    pub(super) target: String,
    pub(super) user: Vec<u8>,
    pub(super) credential: Credential,
    pub(super) query: String,
    /// For a lookup, its connection included.
    pub(super) timeout: Duration,
    pub(super) key: MockKey,
}

/// An `auth_query` worker at some servers: it keeps its connection for the next lookup at the same
/// place.
#[derive(Default)]
pub(super) struct AuthQueryWorker {
    open: Option<(Arc<Place>, Session)>,
    /// The server that let it in last, by its number: the next connection begins there.
    last: usize,
}

/// Why somebody's secret is not known.
pub(super) struct Unknown {
    pub(super) cause: String,
    pub(super) extent: Extent,
}

/// For whom else a lookup would fail in the same way, and take as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// For nobody, as far as is known.
    User,
    /// For whoever is looked up at this place.
    Place,
    /// For whoever is looked up at these servers.
    Servers,
}

/// From when on a failure has taken so long that nobody else should wait for the same.
const LONG: Duration = Duration::from_secs(1);

/// Why there is no answer.
enum Failure {
    /// The connection is broken: another one may do.
    Broken(String),
    /// The answer is of no use.
    Wrong(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Broken(match error.kind() {
            // The system calls a read that took too long by the one name or by the other.
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                "it did not answer in time".into()
            }
            _ => error.to_string(),
        })
    }
}

fn wrong(cause: impl fmt::Display) -> Failure {
    Failure::Wrong(cause.to_string())
}

impl AuthQueryWorker {
    /// Looks a user up there. On a connection that has broken meanwhile, it is asked again on a new
    /// one.
    pub(super) fn look_up(&mut self, place: &Arc<Place>, user: &[u8]) -> Result<Found, Unknown> {
        let began = Instant::now();
        self.try_to(place, user, began + place.timeout).map_err(|(cause, extent)| {
            let took_long = began.elapsed() >= LONG.min(place.timeout);
            Unknown { cause, extent: if took_long { extent } else { Extent::User } }
        })
    }

    fn try_to(
        &mut self,
        place: &Arc<Place>,
        user: &[u8],
        until: Instant,
    ) -> Result<Found, (String, Extent)> {
        let kept = self.open.take().filter(|(of, _)| Arc::ptr_eq(of, place));
        if let Some((_, mut session)) = kept {
            // It may have died without a word, and then there must be time for another one.
            match session.ask(place, user, share(until, place.servers.len() + 1)) {
                Err(Failure::Broken(_)) => {}
                Err(Failure::Wrong(cause)) => return Err((cause, Extent::User)),
                Ok(found) => {
                    self.open = Some((Arc::clone(place), session));
                    return Ok(found);
                }
            }
        }
        let mut session = self.connect(place, until)?;
        match session.ask(place, user, until) {
            Ok(found) => {
                self.open = Some((Arc::clone(place), session));
                Ok(found)
            }
            Err(Failure::Broken(cause)) => {
                // It lets in and does not answer: the next lookup begins with another.
                self.last = (self.last + 1) % place.servers.len();
                Err((cause, Extent::Place))
            }
            Err(Failure::Wrong(cause)) => Err((cause, Extent::User)),
        }
    }

    /// The first server that lets it in, on the first way that it does, from the one on that did so
    /// last. Each has its share of the time that is left: one that does not answer leaves the others
    /// theirs.
    fn connect(&mut self, place: &Place, until: Instant) -> Result<Session, (String, Extent)> {
        let servers = place.servers.len();
        let mut cause = "there is no server".to_owned();
        let mut extent = Extent::Servers;
        for tried in 0..servers {
            let at = (self.last + tried) % servers;
            let address = &place.servers[at];
            let own = share(until, servers - tried);
            for way in (0..2).map_while(|n| place.server_tls.way(address, n)) {
                match Session::begin(place, address, way, own) {
                    Ok(session) => {
                        self.last = at;
                        return Ok(session);
                    }
                    Err(Failure::Broken(failed)) => cause = format!("{address}: {failed}"),
                    Err(Failure::Wrong(failed)) => {
                        // It answers: to somebody else it may say something else.
                        extent = Extent::Place;
                        cause = format!("{address}: {failed}");
                    }
                }
            }
        }
        Err((cause, extent))
    }

    /// Ends the connection that it keeps.
    pub(super) fn close(&mut self) {
        self.open = None;
    }
}

/// Until when one of so many may take that share what is left.
fn share(until: Instant, among: usize) -> Instant {
    let now = Instant::now();
    now + until.saturating_duration_since(now) / u32::try_from(among).unwrap_or(u32::MAX)
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    fn connect(address: &Address, until: Instant) -> io::Result<Socket> {
        match address {
            Address::Tcp(address) | Address::Host { address, .. } => {
                let stream = TcpStream::connect_timeout(address, left(until)?)?;
                stream.set_nodelay(true)?;
                Ok(Socket::Tcp(stream))
            }
            Address::Unresolved { name, .. } => Err(Address::unresolved(name)),
            Address::Unix(path) => Ok(Socket::Unix(UnixStream::connect(path)?)),
        }
    }

    /// Bounds what the next reads and writes may take.
    fn bound(&self, until: Instant) -> io::Result<()> {
        let left = Some(left(until)?);
        match self {
            Socket::Tcp(stream) => {
                stream.set_read_timeout(left).and_then(|()| stream.set_write_timeout(left))
            }
            Socket::Unix(stream) => {
                stream.set_read_timeout(left).and_then(|()| stream.set_write_timeout(left))
            }
        }
    }
}

fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(bytes),
            Socket::Unix(stream) => stream.read(bytes),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

enum Stream {
    Clear(Socket),
    Encrypted(Box<StreamOwned<ClientConnection, Socket>>),
}

/// A session in which secrets are looked up.
struct Session {
    stream: Stream,
}

impl Session {
    /// A session at one server, on one way.
    fn begin(
        place: &Place,
        address: &Address,
        way: Way,
        until: Instant,
    ) -> Result<Session, Failure> {
        let mut socket = Socket::connect(address, until)?;
        socket.bound(until)?;
        let handshake = match way {
            Way::Clear => None,
            Way::Tls(handshake) if handshake.negotiation == Negotiation::Direct => Some(handshake),
            Way::Tls(handshake) => {
                if !is_promised(&mut socket)? {
                    return Err(wrong("it does not speak TLS, and nothing else will do"));
                }
                Some(handshake)
            }
            Way::TlsIfPossible(handshake) => is_promised(&mut socket)?.then_some(handshake),
        };
        let stream = match handshake {
            None => Stream::Clear(socket),
            Some(handshake) => Stream::Encrypted(Box::new(encrypt(socket, &handshake, until)?)),
        };
        let mut session = Session { stream };
        session.log_in(place, until)?;
        Ok(session)
    }

    fn log_in(&mut self, place: &Place, until: Instant) -> Result<(), Failure> {
        let (binding, cleartext) = match &self.stream {
            Stream::Clear(Socket::Unix(_)) => (Binding::Absent, Cleartext::Allowed),
            Stream::Clear(Socket::Tcp(_)) => (Binding::Absent, Cleartext::Refused),
            Stream::Encrypted(stream) => {
                let shown = stream.conn.peer_certificates().and_then(|all| all.first());
                let binding = shown.map_or(Binding::Absent, |one| Binding::of_certificate(one));
                let is_verified = place.server_tls.is_verified();
                (binding, if is_verified { Cleartext::Allowed } else { Cleartext::Refused })
            }
        };
        let mut out = Vec::new();
        let parameters = [
            (&b"user"[..], &place.user[..]),
            (b"database", place.target.as_bytes()),
            (b"application_name", b"sekisho: secrets of users"),
            // Nothing that users have made can stand in for what the query names.
            (b"search_path", b"pg_catalog, pg_temp"),
        ];
        write_startup(&mut out, Version::V3_0, parameters).map_err(wrong)?;
        self.say(&out, until)?;
        let terms = Terms { cleartext, binding, ..Terms::default() };
        let mut nonce = [0; 18];
        SystemRandom::new().fill(&mut nonce).map_err(|_| wrong("the system gives no chance"))?;
        let mut login = Some(Login::new(&place.user, place.credential.clone(), terms, nonce));
        loop {
            let (tag, body) = self.hear(until)?;
            match (tag, login.take()) {
                (b'R', Some(step)) => {
                    let asked = read::authentication(&body).map_err(wrong)?;
                    let mut out = Vec::new();
                    match step.answer(&asked, &mut out).map_err(wrong)? {
                        LoginStep::Waits(next) => login = Some(next),
                        LoginStep::In => {}
                    }
                    self.say(&out, until)?;
                }
                (b'E', _) => return Err(error(&body)),
                (b'Z', None) => return Ok(()),
                (b'S' | b'K', None) => {}
                (b'N' | b'v', left) => login = left,
                (tag, _) => {
                    return Err(wrong(format!("it sent message {tag} out of order")));
                }
            }
        }
    }

    /// Asks for a user's secret.
    fn ask(&mut self, place: &Place, user: &[u8], until: Instant) -> Result<Found, Failure> {
        if user.contains(&0) {
            return Ok(Found::Nobody);
        }
        let mut out = Vec::new();
        write::message(&mut out, Frontend::Parse, |out| {
            out.push(0);
            out.extend_from_slice(place.query.as_bytes());
            out.extend_from_slice(&[0, 0, 0]);
        });
        write::message(&mut out, Frontend::Bind, |out| {
            // The unnamed portal of the unnamed statement, all in text, with one value.
            out.extend_from_slice(&[0, 0, 0, 0, 0, 1]);
            out.extend_from_slice(&(user.len() as u32).to_be_bytes());
            out.extend_from_slice(user);
            out.extend_from_slice(&[0, 0]);
        });
        write::message(&mut out, Frontend::Execute, |out| out.extend_from_slice(&[0; 5]));
        write::bare(&mut out, Frontend::Sync);
        self.say(&out, until)?;
        let (mut found, mut failed) = (None, None);
        loop {
            let (tag, body) = self.hear(until)?;
            match tag {
                b'D' if found.is_some() => {
                    failed = Some(wrong("the query returns several rows for one user"));
                }
                b'D' => found = Some(secret(&body, user)),
                b'E' => failed = Some(error(&body)),
                b'Z' => break,
                _ => {}
            }
        }
        if let Some(failed) = failed {
            return Err(failed);
        }
        match found {
            None => Ok(Found::Nobody),
            Some(row) => match row.map_err(wrong)? {
                None => Ok(Found::Bare),
                Some(text) => {
                    // A password in clear is hashed here, where nobody waits for it.
                    let text = std::str::from_utf8(&text).map_err(wrong)?;
                    Secret::stored(user, text, &place.key).map(Found::Secret).map_err(wrong)
                }
            },
        }
    }

    fn bound(&mut self, until: Instant) -> io::Result<()> {
        match &self.stream {
            Stream::Clear(socket) => socket.bound(until),
            Stream::Encrypted(stream) => stream.sock.bound(until),
        }
    }

    fn say(&mut self, bytes: &[u8], until: Instant) -> io::Result<()> {
        self.bound(until)?;
        match &mut self.stream {
            Stream::Clear(socket) => socket.write_all(bytes),
            Stream::Encrypted(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }

    /// The next message: its tag and its body.
    fn hear(&mut self, until: Instant) -> Result<(u8, Vec<u8>), Failure> {
        let mut head = [0; HEAD];
        self.read(&mut head, until)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if !(4..=MESSAGE_MAX).contains(&length) {
            return Err(Failure::Broken(format!("it sent a message of {length} bytes")));
        }
        let mut body = vec![0; length - 4];
        self.read(&mut body, until)?;
        Ok((head[0], body))
    }

    fn read(&mut self, mut into: &mut [u8], until: Instant) -> io::Result<()> {
        while !into.is_empty() {
            self.bound(until)?;
            let read = match &mut self.stream {
                Stream::Clear(socket) => socket.read(into),
                Stream::Encrypted(stream) => stream.read(into),
            };
            match read {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => into = &mut into[bytes..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Asks whether the server speaks TLS. Exactly one byte is read: what follows it is a handshake.
fn is_promised(socket: &mut Socket) -> Result<bool, Failure> {
    let mut out = Vec::new();
    write_ssl_request(&mut out);
    socket.write_all(&out)?;
    let mut answer = [0];
    socket.read_exact(&mut answer)?;
    match answer {
        [b'S'] => Ok(true),
        [b'N'] => Ok(false),
        [byte] => Err(wrong(format!("it answered a request for TLS with byte {byte}"))),
    }
}

fn encrypt(
    socket: Socket,
    handshake: &Handshake,
    until: Instant,
) -> Result<StreamOwned<ClientConnection, Socket>, Failure> {
    let connection = ClientConnection::new(handshake.config.clone(), handshake.name.clone());
    let mut stream = StreamOwned::new(connection.map_err(wrong)?, socket);
    while stream.conn.is_handshaking() {
        stream.sock.bound(until)?;
        stream.conn.complete_io(&mut stream.sock)?;
    }
    let is_direct = handshake.negotiation == Negotiation::Direct;
    if is_direct && stream.conn.alpn_protocol() != Some(ALPN) {
        return Err(wrong("it took direct TLS without agreeing to speak PostgreSQL inside"));
    }
    Ok(stream)
}

/// The failure that an error of a server stands for.
fn error(body: &[u8]) -> Failure {
    let message = read::fields(body).ok().and_then(|fields| {
        fields.message().map(|message| String::from_utf8_lossy(message).into_owned())
    });
    wrong(message.unwrap_or_else(|| "it sent an error that cannot be read".to_owned()))
}

/// The secret in a row of two columns whose first is the user.
fn secret(row: &[u8], user: &[u8]) -> Result<Option<Vec<u8>>, &'static str> {
    const FORM: &str = "the query must return two columns: the user's name and the secret";
    let (count, mut rest) = row.split_first_chunk::<2>().ok_or(FORM)?;
    if u16::from_be_bytes(*count) != 2 {
        return Err(FORM);
    }
    let mut column = || -> Result<Option<&[u8]>, &'static str> {
        let (length, after) = rest.split_first_chunk::<4>().ok_or(FORM)?;
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            rest = after;
            return Ok(None);
        };
        let (value, after) = after.split_at_checked(length).ok_or(FORM)?;
        rest = after;
        Ok(Some(value))
    };
    let (name, secret) = (column()?, column()?);
    if name != Some(user) {
        return Err("the query returned the secret of another user");
    }
    Ok(secret.filter(|secret| !secret.is_empty()).map(<[u8]>::to_vec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_holds_the_user_and_a_secret_or_is_refused() {
        let row = |columns: &[Option<&str>]| {
            let mut out = Vec::new();
            write::data_row(&mut out, columns);
            secret(&out[HEAD..], b"alice")
        };
        assert_eq!(row(&[Some("alice"), Some("x")]), Ok(Some(b"x".to_vec())));
        assert_eq!(row(&[Some("alice"), None]), Ok(None));
        assert_eq!(row(&[Some("alice"), Some("")]), Ok(None));
        for columns in [&[Some("x")][..], &[Some("alice"), Some("x"), None], &[]] {
            assert!(row(columns).unwrap_err().contains("two columns"));
        }
        assert!(row(&[Some("bob"), Some("x")]).unwrap_err().contains("another user"));
        assert!(secret(&[0, 2, 0, 0, 0, 9, 1], b"alice").is_err());
    }
}
