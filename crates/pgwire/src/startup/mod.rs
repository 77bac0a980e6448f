//! The packets without a tag, with which a connection begins: read from clients, written to servers.
//!
//! A client may ask for encryption first, in two ways, or begin with TLS itself; it may want a query
//! cancelled; or it starts a session. A packet has at most [`PACKET_MAX`] bytes after its length.

mod options;
mod write;

use thiserror::Error;

use super::SqlState;
pub use options::{OptionsError, Setting};
pub use write::{UnwritableError, write_cancel, write_ssl_request, write_startup};

/// The most that a packet may have after its length \[byte\], as PostgreSQL has it.
pub const PACKET_MAX: usize = 10_000;
/// The name by which PostgreSQL is known inside TLS (ALPN), which direct TLS must agree on.
pub const ALPN: &[u8] = b"postgresql";
/// The least and the most that a key for cancelling may have \[byte\].
pub const KEY_BYTES: std::ops::RangeInclusive<usize> = 4..=256;
/// Prefix of the names of options of the protocol itself.
pub const PROTOCOL_OPTION: &[u8] = b"_pq_.";

const CANCEL_REQUEST: u32 = 1234 << 16 | 5678;
const SSL_REQUEST: u32 = 1234 << 16 | 5679;
const GSSENC_REQUEST: u32 = 1234 << 16 | 5680;
/// The first byte of a TLS handshake. As that of a length it would be far too long a packet.
const TLS_HANDSHAKE: u8 = 0x16;

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// 3 everywhere.
    pub major: u16,
    /// 0 everywhere until PostgreSQL 18, which has 2.
    pub minor: u16,
}

impl Version {
    /// The version that every client and every server speaks.
    pub const V3_0: Version = Version { major: 3, minor: 0 };
    /// Keys for cancelling may have up to 256 bytes.
    pub const V3_2: Version = Version { major: 3, minor: 2 };

    /// The version that is spoken when this one is asked for: the newest that is known and no
    /// newer. There has never been a 3.1.
    pub fn granted(self) -> Version {
        if self >= Version::V3_2 { Version::V3_2 } else { Version::V3_0 }
    }

    /// As it is on the wire.
    pub fn code(self) -> u32 {
        u32::from(self.major) << 16 | u32::from(self.minor)
    }

    /// The version that a code on the wire is.
    pub fn from_code(code: u32) -> Version {
        Version { major: (code >> 16) as u16, minor: code as u16 }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}.{}", self.major, self.minor)
    }
}

/// Why a connection did not begin.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StartupError {
    /// No packet has this length.
    #[error("invalid length of startup packet: {length} bytes")]
    Length {
        /// Its length, as it says itself \[byte\].
        length: u32,
    },
    /// Another protocol, or 2.0.
    #[error(
        "unsupported frontend protocol {asked}: server supports {} to {}",
        Version::V3_0,
        Version::V3_2
    )]
    Unsupported {
        /// The version that was asked for.
        asked: Version,
    },
    /// The parameters do not end where the packet does.
    #[error("invalid startup packet layout: expected terminator as last byte")]
    Layout,
    /// Nobody wants in.
    #[error("no PostgreSQL user name specified in startup packet")]
    UserMissing,
    /// A parameter with a value that it cannot have.
    #[error("invalid value for parameter \"replication\": \"{value}\"")]
    Replication {
        /// Its value.
        value: String,
    },
    /// A key for cancelling that is no key.
    #[error("invalid length of query cancel key: {length} bytes")]
    CancelKey {
        /// Its length \[byte\].
        length: usize,
    },
    /// Bytes in clear came with a request for encryption. Whoever sits in between could have put
    /// them there, and they would be taken for encrypted ones.
    #[error("received unencrypted data after {after} request")]
    ClearText {
        /// The kind of encryption that was asked for.
        after: &'static str,
    },
}

impl StartupError {
    /// The code to answer with.
    pub fn sqlstate(&self) -> SqlState {
        match self {
            StartupError::Unsupported { .. } => SqlState::FEATURE_NOT_SUPPORTED,
            StartupError::UserMissing => SqlState::INVALID_AUTHORIZATION,
            StartupError::Replication { .. } => SqlState::INVALID_PARAMETER_VALUE,
            StartupError::Length { .. }
            | StartupError::Layout
            | StartupError::CancelKey { .. }
            | StartupError::ClearText { .. } => SqlState::PROTOCOL_VIOLATION,
        }
    }
}

/// First packet of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// Too little to say: at least `missing` more bytes are needed.
    More {
        /// Their number \[byte\].
        missing: usize,
    },
    /// A TLS handshake, of which nothing was taken. It must agree on [`ALPN`].
    DirectTls,
    /// It wants TLS: answer `S` and go on with TLS, or `N` and go on in clear. All that was readable
    /// was this packet, so that nothing in clear can pass for encrypted.
    SslRequest,
    /// It wants GSSAPI encryption: answer `N`. All that was readable was this packet.
    GssEncRequest,
    /// It wants a query cancelled, and nothing else; it gets no answer.
    Cancel(CancelRequest<'a>),
    /// It wants a session.
    Startup(Startup<'a>),
}

/// The wish that another session's query be cancelled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CancelRequest<'a> {
    /// The number of the session, as BackendKeyData gave it.
    pub process: u32,
    /// Its key: 4 to 256 bytes.
    pub key: &'a [u8],
}

impl std::fmt::Debug for CancelRequest<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "CancelRequest {{ process: {}, key: {} bytes }}", self.process, self.key.len())
    }
}

/// The beginning of a client's connection.
#[derive(Clone, Debug)]
pub struct Opening {
    asks: Asks,
}

/// The requests that a client may still begin with.
#[derive(Clone, Copy, Debug)]
struct Asks {
    direct_tls: bool,
    ssl: bool,
    gssenc: bool,
}

impl Opening {
    /// A connection of which nothing was read.
    pub fn in_clear() -> Opening {
        Opening { asks: Asks { direct_tls: true, ssl: true, gssenc: true } }
    }

    /// The inside of a TLS connection, direct or asked for.
    pub fn inside_tls() -> Opening {
        Opening { asks: Asks { direct_tls: false, ssl: false, gssenc: false } }
    }

    /// Reads the packet at the front of `readable`, which holds all bytes that came and were not
    /// taken. A packet was taken when it is returned: [`Startup::bytes`] of a session, else all.
    ///
    /// # Errors
    /// If no connection begins so. Say so, and close.
    pub fn read<'a>(&mut self, readable: &'a [u8]) -> Result<Packet<'a>, StartupError> {
        if self.asks.direct_tls && readable.first() == Some(&TLS_HANDSHAKE) {
            return Ok(Packet::DirectTls);
        }
        let Some(&[a, b, c, d]) = readable.first_chunk::<4>() else {
            return Ok(Packet::More { missing: 4 - readable.len() });
        };
        let length = u32::from_be_bytes([a, b, c, d]);
        let len = length as usize;
        if !(8..=PACKET_MAX + 4).contains(&len) {
            return Err(StartupError::Length { length });
        }
        let Some(packet) = readable.get(4..len) else {
            return Ok(Packet::More { missing: len - readable.len() });
        };
        self.asks.direct_tls = false;
        let (code, rest) = packet.split_first_chunk().expect("a packet has 4 bytes or more");
        match u32::from_be_bytes(*code) {
            CANCEL_REQUEST => cancel(rest, length).map(Packet::Cancel),
            SSL_REQUEST if self.asks.ssl => {
                self.asks.ssl = false;
                alone(readable, len, "SSL").map(|()| Packet::SslRequest)
            }
            GSSENC_REQUEST if self.asks.gssenc => {
                self.asks.gssenc = false;
                alone(readable, len, "GSSAPI encryption").map(|()| Packet::GssEncRequest)
            }
            code => Startup::read(Version::from_code(code), rest).map(Packet::Startup),
        }
    }
}

/// A request for encryption is a packet of 8 bytes, and nothing follows it until it is answered.
fn alone(readable: &[u8], len: usize, after: &'static str) -> Result<(), StartupError> {
    if len != 8 {
        return Err(StartupError::Length { length: len as u32 });
    }
    if readable.len() > len { Err(StartupError::ClearText { after }) } else { Ok(()) }
}

fn cancel(rest: &[u8], length: u32) -> Result<CancelRequest<'_>, StartupError> {
    let (process, key) = rest.split_first_chunk().ok_or(StartupError::Length { length })?;
    if !KEY_BYTES.contains(&key.len()) {
        return Err(StartupError::CancelKey { length: key.len() });
    }
    Ok(CancelRequest { process: u32::from_be_bytes(*process), key })
}

/// Replication mode of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replication {
    /// No.
    #[default]
    No,
    /// Of the server's log.
    Physical,
    /// Of the changes to one database.
    Logical,
}

impl Replication {
    /// The meaning of a parameter's value: PostgreSQL's booleans, and `database`.
    fn read(value: &[u8]) -> Result<Replication, StartupError> {
        let value = value.to_ascii_lowercase();
        let begins =
            |word: &str, least| value.len() >= least && word.as_bytes().starts_with(&value);
        if value == b"database" {
            Ok(Replication::Logical)
        } else if value == b"1" || value == b"on" || begins("true", 1) || begins("yes", 1) {
            Ok(Replication::Physical)
        } else if value == b"0" || begins("off", 2) || begins("false", 1) || begins("no", 1) {
            Ok(Replication::No)
        } else {
            let value = String::from_utf8_lossy(&value).into_owned();
            Err(StartupError::Replication { value })
        }
    }
}

/// The start-up packet of a client that wants a session. Texts are bytes: their encoding depends on
/// the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Startup<'a> {
    version: Version,
    /// Pairs of name and value, each ended by a NUL, without the last NUL.
    pairs: &'a [u8],
    user: &'a [u8],
    database: &'a [u8],
    options: &'a [u8],
    replication: Replication,
}

impl<'a> Startup<'a> {
    fn read(version: Version, rest: &'a [u8]) -> Result<Startup<'a>, StartupError> {
        if version.major != 3 {
            return Err(StartupError::Unsupported { asked: version });
        }
        let (&last, pairs) = rest.split_last().ok_or(StartupError::Layout)?;
        if last != 0 {
            return Err(StartupError::Layout);
        }
        let mut startup = Startup {
            version,
            pairs,
            user: b"",
            database: b"",
            options: b"",
            replication: Replication::No,
        };
        let mut left = pairs;
        while !left.is_empty() {
            let (name, value) = pair(&mut left).ok_or(StartupError::Layout)?;
            match name {
                b"user" => startup.user = value,
                b"database" => startup.database = value,
                b"options" => startup.options = value,
                b"replication" => startup.replication = Replication::read(value)?,
                _ => {}
            }
        }
        if startup.user.is_empty() {
            return Err(StartupError::UserMissing);
        }
        if startup.database.is_empty() {
            startup.database = startup.user;
        }
        Ok(startup)
    }

    /// Length of the packet, its length field included \[byte\].
    pub fn bytes(&self) -> usize {
        4 + 4 + self.pairs.len() + 1
    }

    /// The version that it asks for.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The user; not empty.
    pub fn user(&self) -> &'a [u8] {
        self.user
    }

    /// The database; by default the one of the user's name.
    pub fn database(&self) -> &'a [u8] {
        self.database
    }

    /// The replication mode.
    pub fn replication(&self) -> Replication {
        self.replication
    }

    /// All parameters as they came, in order. Of several of one name the last counts.
    pub fn parameters(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut left = self.pairs;
        std::iter::from_fn(move || pair(&mut left))
    }

    /// The options of the protocol itself, none of which is known. If there are any, or the version
    /// is not [granted](Version::granted), NegotiateProtocolVersion is due.
    pub fn unknown_options(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let names = self.parameters().map(|(name, _)| name);
        names.filter(|name| name.starts_with(PROTOCOL_OPTION))
    }

    /// True if NegotiateProtocolVersion must be said.
    pub fn negotiates(&self) -> bool {
        self.version != self.version.granted() || self.unknown_options().next().is_some()
    }

    /// The settings that the session begins with: first those inside `options`, then those given by
    /// name, as PostgreSQL applies them. Of several of one name the last counts.
    ///
    /// # Errors
    /// If `options` hold something else than settings.
    pub fn settings(&self) -> Result<Vec<Setting>, OptionsError> {
        let mut settings = options::settings(self.options)?;
        settings.extend(self.settings_by_name());
        Ok(settings)
    }

    /// The same without those inside `options`, which are not read.
    pub fn settings_by_name(&self) -> impl Iterator<Item = Setting> {
        const OTHERS: [&[u8]; 4] = [b"user", b"database", b"options", b"replication"];
        self.parameters()
            .filter(|(name, _)| !OTHERS.contains(name) && !name.starts_with(PROTOCOL_OPTION))
            .map(|(name, value)| Setting { name: name.to_vec(), value: value.to_vec() })
    }
}

/// Takes a pair off the front of `left`, unless there is none, or an empty name.
fn pair<'a>(left: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (name, value) = (text(left)?, text(left)?);
    (!name.is_empty()).then_some((name, value))
}

/// Takes bytes up to a NUL off the front of `left`.
fn text<'a>(left: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = left.iter().position(|&byte| byte == 0)?;
    let (text, rest) = left.split_at(end);
    *left = &rest[1..];
    Some(text)
}
