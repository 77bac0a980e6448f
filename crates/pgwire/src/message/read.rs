//! Reads bodies: what stands behind a message's head. Any bytes are either read or refused.

use thiserror::Error;

use super::{Authentication, Mechanisms, Status};
use crate::SqlState;
use crate::startup::{KEY_BYTES, Version};

/// Why a body cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// It ends too early.
    #[error("{message} ends too early")]
    Truncated {
        /// The message.
        message: &'static str,
    },
    /// There is more than belongs into it.
    #[error("{message} has bytes behind its end")]
    Trailing {
        /// The message.
        message: &'static str,
    },
    /// Something in it has a value that it cannot have.
    #[error("{message} has an invalid {what}")]
    Invalid {
        /// The message.
        message: &'static str,
        /// The field that has such a value.
        what: &'static str,
    },
}

impl ReadError {
    /// The code to answer with.
    pub fn sqlstate(&self) -> SqlState {
        SqlState::PROTOCOL_VIOLATION
    }
}

/// The unread rest of a body.
struct Body<'a> {
    message: &'static str,
    left: &'a [u8],
}

impl<'a> Body<'a> {
    fn new(message: &'static str, left: &'a [u8]) -> Body<'a> {
        Body { message, left }
    }

    fn truncated(&self) -> ReadError {
        ReadError::Truncated { message: self.message }
    }

    fn invalid(&self, what: &'static str) -> ReadError {
        ReadError::Invalid { message: self.message, what }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let (array, rest) = self.left.split_first_chunk().ok_or(self.truncated())?;
        self.left = rest;
        Ok(*array)
    }

    fn number(&mut self) -> Result<u32, ReadError> {
        self.array().map(u32::from_be_bytes)
    }

    fn text(&mut self) -> Result<&'a [u8], ReadError> {
        let end = self.left.iter().position(|&byte| byte == 0).ok_or(self.truncated())?;
        let (text, rest) = self.left.split_at(end);
        self.left = &rest[1..];
        Ok(text)
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.left)
    }

    fn end<T>(self, value: T) -> Result<T, ReadError> {
        if self.left.is_empty() {
            Ok(value)
        } else {
            Err(ReadError::Trailing { message: self.message })
        }
    }
}

/// Authentication, of any kind.
///
/// # Errors
/// If it is no such message.
pub fn authentication(body: &[u8]) -> Result<Authentication<'_>, ReadError> {
    let mut body = Body::new("Authentication", body);
    let step = match body.number()? {
        0 => Authentication::Ok,
        3 => Authentication::CleartextPassword,
        5 => Authentication::Md5Password { salt: body.array()? },
        10 => {
            let list = body.left;
            // Each name ends with a NUL, and so does the list.
            while !body.text()?.is_empty() {}
            Authentication::Sasl(Mechanisms(list))
        }
        11 => Authentication::SaslContinue(body.rest()),
        12 => Authentication::SaslFinal(body.rest()),
        code => {
            body.rest();
            Authentication::Other { code }
        }
    };
    body.end(step)
}

/// NegotiateProtocolVersion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated<'a> {
    /// The newest version that the server speaks. Who asked compares it with what was asked for: a
    /// newer one is an error.
    pub version: Version,
    count: u32,
    names: &'a [u8],
}

impl<'a> Negotiated<'a> {
    /// The options that it does not know.
    pub fn unknown_options(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.names.split(|&byte| byte == 0).take(self.count as usize)
    }
}

/// NegotiateProtocolVersion. The documentation has a minor version in it, PostgreSQL sends both
/// numbers; either is understood.
///
/// # Errors
/// If it is no such message, or speaks of another major version or of 3.1, which is none.
pub fn negotiate_protocol_version(body: &[u8]) -> Result<Negotiated<'_>, ReadError> {
    let mut body = Body::new("NegotiateProtocolVersion", body);
    let version = match Version::from_code(body.number()?) {
        Version { major: 0, minor } => Version { major: 3, minor },
        version => version,
    };
    if version.major != 3 || version.minor == 1 {
        return Err(body.invalid("version"));
    }
    let count = body.number()?;
    let names = body.left;
    for _ in 0..count {
        body.text()?;
    }
    body.end(Negotiated { version, count, names })
}

/// ParameterStatus: the name and the value.
///
/// # Errors
/// If it is no such message.
pub fn parameter_status(body: &[u8]) -> Result<(&[u8], &[u8]), ReadError> {
    let mut body = Body::new("ParameterStatus", body);
    let pair = (body.text()?, body.text()?);
    body.end(pair)
}

/// BackendKeyData: the number of the session and its key of 4 to 256 bytes.
///
/// # Errors
/// If it is no such message.
pub fn backend_key_data(body: &[u8]) -> Result<(u32, &[u8]), ReadError> {
    let mut body = Body::new("BackendKeyData", body);
    let pair = (body.number()?, body.rest());
    if KEY_BYTES.contains(&pair.1.len()) { Ok(pair) } else { Err(body.invalid("key")) }
}

/// ReadyForQuery.
///
/// # Errors
/// If it is no such message.
pub fn ready_for_query(body: &[u8]) -> Result<Status, ReadError> {
    let mut body = Body::new("ReadyForQuery", body);
    let status = match body.array()? {
        [b'I'] => Status::Idle,
        [b'T'] => Status::InTransaction,
        [b'E'] => Status::InFailedTransaction,
        _ => return Err(body.invalid("status")),
    };
    body.end(status)
}

/// The fields of an ErrorResponse or a NoticeResponse. Any of them may be missing, even those that
/// no server leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Each field by its letter, in the server's order.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        let mut body = Body::new("ErrorResponse", self.0);
        std::iter::from_fn(move || {
            let [kind] = body.array().ok()?;
            Some((kind, body.text().ok()?))
        })
    }

    /// The field of this letter.
    pub fn field(&self, kind: u8) -> Option<&'a [u8]> {
        self.iter().find(|&(one, _)| one == kind).map(|(_, value)| value)
    }

    /// The severity, as a word of English where the server says that (`V`), else as it says it.
    pub fn severity(&self) -> Option<&'a [u8]> {
        self.field(b'V').or_else(|| self.field(b'S'))
    }

    /// By which programs know it.
    pub fn sqlstate(&self) -> Option<SqlState> {
        SqlState::from_bytes(self.field(b'C')?)
    }

    /// The message of the error or notice.
    pub fn message(&self) -> Option<&'a [u8]> {
        self.field(b'M')
    }

    /// More of it.
    pub fn detail(&self) -> Option<&'a [u8]> {
        self.field(b'D')
    }

    /// The way out.
    pub fn hint(&self) -> Option<&'a [u8]> {
        self.field(b'H')
    }
}

/// ErrorResponse or NoticeResponse.
///
/// # Errors
/// If a field or the list of them does not end.
pub fn fields(body: &[u8]) -> Result<Fields<'_>, ReadError> {
    let mut body = Body::new("ErrorResponse", body);
    let whole = body.left;
    loop {
        let [kind] = body.array()?;
        if kind == 0 {
            return body.end(Fields(&whole[..whole.len() - 1]));
        }
        body.text()?;
    }
}

/// PasswordMessage.
///
/// # Errors
/// If it is not one text.
pub fn password(body: &[u8]) -> Result<&[u8], ReadError> {
    let mut body = Body::new("PasswordMessage", body);
    let password = body.text()?;
    body.end(password)
}

/// SASLInitialResponse: the mechanism, and what the client says first, if it says something.
///
/// # Errors
/// If it is no such message.
pub fn sasl_initial_response(body: &[u8]) -> Result<(&[u8], Option<&[u8]>), ReadError> {
    let mut body = Body::new("SASLInitialResponse", body);
    let mechanism = body.text()?;
    let response = match body.number()? {
        u32::MAX => None,
        length => {
            let (response, rest) =
                body.left.split_at_checked(length as usize).ok_or(body.truncated())?;
            body.left = rest;
            Some(response)
        }
    };
    body.end((mechanism, response))
}
