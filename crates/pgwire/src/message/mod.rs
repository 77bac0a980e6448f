//! The bodies that the gate says itself, in [`write`](mod@write), or must understand, in [`read`]; the
//! others pass as they are.

pub mod read;
pub mod write;

use super::SqlState;

/// A step of authentication, as a server asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication<'a> {
    /// It is done.
    Ok,
    /// The password as it is.
    CleartextPassword,
    /// The password, hashed with the user's name and this salt.
    Md5Password {
        /// The salt.
        salt: [u8; 4],
    },
    /// SASL by one of these.
    Sasl(Mechanisms<'a>),
    /// SASL goes on.
    SaslContinue(&'a [u8]),
    /// SASL ends, with what proves the server.
    SaslFinal(&'a [u8]),
    /// Another way, which is not spoken here: Kerberos, GSSAPI, SSPI.
    Other {
        /// Its number in the protocol.
        code: u32,
    },
}

/// The names of SASL mechanisms, in the server's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mechanisms<'a>(&'a [u8]);

impl<'a> Mechanisms<'a> {
    /// Each name.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.0.split(|&byte| byte == 0).filter(|name| !name.is_empty())
    }

    /// True if one of them is `name`.
    pub fn has(&self, name: &str) -> bool {
        self.iter().any(|one| one == name.as_bytes())
    }
}

/// Transaction status of a session, as ReadyForQuery gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// No.
    Idle = b'I',
    /// Yes.
    InTransaction = b'T',
    /// Yes, and it can only be rolled back.
    InFailedTransaction = b'E',
}

/// Severity of an error or a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The statement failed; in ErrorResponse.
    Error,
    /// The session ends; in ErrorResponse.
    Fatal,
    /// In NoticeResponse.
    Warning,
    /// In NoticeResponse.
    Notice,
}

impl Severity {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
            Severity::Warning => "WARNING",
            Severity::Notice => "NOTICE",
        }
    }
}

/// Contents of an ErrorResponse or a NoticeResponse of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report<'a> {
    /// The severity.
    pub severity: Severity,
    /// By which programs know it.
    pub sqlstate: SqlState,
    /// The event, in one line.
    pub message: &'a str,
    /// More of it.
    pub detail: Option<&'a str>,
    /// The way out.
    pub hint: Option<&'a str>,
}

impl<'a> Report<'a> {
    /// A report without detail and hint.
    pub fn new(severity: Severity, sqlstate: SqlState, message: &'a str) -> Report<'a> {
        Report { severity, sqlstate, message, detail: None, hint: None }
    }
}
