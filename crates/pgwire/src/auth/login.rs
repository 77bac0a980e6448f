//! Proves to a server that the gate may log in as a user.

use thiserror::Error;

use super::scram::{self, Knowledge, Proving, ScramError};
use super::{Binding, Credential, Keys, Nonce, md5_said, md5_stored};
use crate::SqlState;
use crate::message::{Authentication, write};

/// The most iterations that a server may make the gate hash, unless told otherwise: about a second.
pub const ITERATIONS_MAX: u32 = 1_000_000;

/// Permission to send a password as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cleartext {
    /// No: whoever listens would have it.
    #[default]
    Refused,
    /// Yes: the connection is encrypted to a verified server, or somebody has said so.
    Allowed,
}

/// On which terms the gate logs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Permission to send a password as it is.
    pub cleartext: Cleartext,
    /// The most iterations of SCRAM that the gate hashes for a server.
    pub iterations_max: u32,
    /// Channel binding to the TLS connection, where there is one.
    pub binding: Binding,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            cleartext: Cleartext::Refused,
            iterations_max: ITERATIONS_MAX,
            binding: Binding::Absent,
        }
    }
}

/// Why the gate did not get in, other than by an ErrorResponse of the server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LoginError {
    /// The server asks for a proof that cannot be made with what the gate has.
    #[error(
        "the server asks user \"{user}\" for {method}, but the gate has {has}; \
         give it the password, or let the server store and ask for what the gate has"
    )]
    Credential {
        /// As whom.
        user: String,
        /// The method that it asks for.
        method: &'static str,
        /// The credential that the gate has.
        has: &'static str,
    },
    /// The server wants the password as it is, and the connection is not safe.
    #[error(
        "the server asks for a password in clear on a connection that is not encrypted and \
         verified; verify it by TLS, or let the server ask for scram-sha-256"
    )]
    Cleartext,
    /// The server wants a proof that is not spoken here.
    #[error("the server asks for authentication of kind {code}, which is not supported")]
    Unsupported {
        /// Its number in the protocol.
        code: u32,
    },
    /// The server offers no mechanism that is spoken here.
    #[error("the server offers no SASL mechanism that is supported, but {offered}")]
    Mechanism {
        /// The mechanisms that it offers.
        offered: String,
    },
    /// The server's message does not belong here.
    #[error("the server sent an authentication message out of order")]
    Order,
    /// The server lets the gate in before it has proved itself: it only claims to be the server.
    #[error("the server ended SCRAM before it proved that it knows the secret")]
    Unproven,
    /// The exchange by SCRAM ended.
    #[error("SCRAM with the server failed: {0}")]
    Scram(#[from] ScramError),
}

impl LoginError {
    /// The code to answer with.
    pub fn sqlstate(&self) -> SqlState {
        match self {
            LoginError::Credential { .. } | LoginError::Cleartext | LoginError::Unproven => {
                SqlState::INVALID_AUTHORIZATION
            }
            LoginError::Unsupported { .. } | LoginError::Mechanism { .. } => {
                SqlState::FEATURE_NOT_SUPPORTED
            }
            LoginError::Order => SqlState::PROTOCOL_VIOLATION,
            LoginError::Scram(error) => error.sqlstate(),
        }
    }
}

/// Result of a step.
#[derive(Debug)]
pub enum LoginStep {
    /// The server's next message decides.
    Waits(Login),
    /// The gate is in.
    In,
}

/// A login that has not ended.
#[derive(Clone)]
pub struct Login {
    given: Box<Given>,
    state: State,
}

/// With what it began.
#[derive(Clone)]
struct Given {
    user: Vec<u8>,
    credential: Credential,
    terms: Terms,
    nonce: Nonce,
}

#[derive(Clone)]
enum State {
    /// The server has said nothing.
    Begun,
    /// A password or a hash is sent; only the end may follow.
    Said,
    Proving(Box<Proving>),
    /// The server must say this signature.
    Signature([u8; 32], Keys),
    /// It did.
    Proven,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match self.state {
            State::Begun => "begun",
            State::Said => "said",
            State::Proving(_) => "proving",
            State::Signature(..) => "signature",
            State::Proven => "proven",
        };
        write!(out, "Login({:?}, {state})", self.given.credential)
    }
}

impl Login {
    /// A login as `user`, who is the one in the start-up packet.
    pub fn new(user: &[u8], credential: Credential, terms: Terms, nonce: Nonce) -> Login {
        let given = Given { user: user.to_vec(), credential, terms, nonce };
        Login { given: Box::new(given), state: State::Begun }
    }

    /// Takes what the server asks for, and writes the answer at the end of `out`.
    ///
    /// SCRAM with a password hashes here as often as the server wants, within the terms; with keys,
    /// and in all other cases, this takes microseconds.
    ///
    /// # Errors
    /// If the gate cannot or must not go on; then nothing was written.
    pub fn answer(
        mut self,
        asked: &Authentication<'_>,
        out: &mut Vec<u8>,
    ) -> Result<LoginStep, LoginError> {
        self.state = match (&self.state, asked) {
            (State::Begun | State::Said | State::Proven, Authentication::Ok) => {
                return Ok(LoginStep::In);
            }
            (State::Proving(_) | State::Signature(..), Authentication::Ok) => {
                return Err(LoginError::Unproven);
            }
            (State::Begun, Authentication::CleartextPassword) => self.say_password(out)?,
            (State::Begun, Authentication::Md5Password { salt }) => self.say_hash(*salt, out)?,
            (State::Begun, Authentication::Sasl(offered)) => {
                self.check_scram()?;
                let bound = self.given.terms.binding != Binding::Absent && offered.has(scram::PLUS);
                if !bound && !offered.has(scram::PLAIN) {
                    let names = offered.iter().map(|name| name.escape_ascii().to_string());
                    let offered = names.collect::<Vec<_>>().join(", ");
                    return Err(LoginError::Mechanism { offered });
                }
                let mechanism = if bound { scram::PLUS } else { scram::PLAIN };
                let proving = Proving::new(mechanism, &self.given.terms.binding, self.given.nonce);
                write::sasl_initial_response(out, mechanism, proving.first().as_bytes());
                State::Proving(Box::new(proving))
            }
            (State::Begun, &Authentication::Other { code }) => {
                return Err(LoginError::Unsupported { code });
            }
            (State::Proving(proving), Authentication::SaslContinue(challenge)) => {
                let iterations_max = self.given.terms.iterations_max;
                let (last, signature, keys) =
                    proving.answer(challenge, self.check_scram()?, iterations_max)?;
                write::sasl_response(out, last.as_bytes());
                State::Signature(signature, keys)
            }
            (State::Signature(signature, _), Authentication::SaslFinal(said)) => {
                scram::is_signed(said, signature)?;
                State::Proven
            }
            _ => return Err(LoginError::Order),
        };
        Ok(LoginStep::Waits(self))
    }

    /// True if the answer to this would have a password hashed for SCRAM: it takes as long as the
    /// server wants.
    pub fn hashes(&self, asked: &Authentication<'_>) -> bool {
        matches!(asked, Authentication::SaslContinue(_))
            && matches!(self.given.credential, Credential::Password(_))
    }

    /// The keys that the password has come to, once SCRAM has said its last message. With them the
    /// next login need not hash, as long as the server's secret stays the same.
    pub fn keys(&self) -> Option<&Keys> {
        match &self.state {
            State::Signature(_, keys) => Some(keys),
            _ => None,
        }
    }

    fn say_password(&self, out: &mut Vec<u8>) -> Result<State, LoginError> {
        let Credential::Password(password) = &self.given.credential else {
            return Err(self.lacks("a password"));
        };
        if self.given.terms.cleartext == Cleartext::Refused {
            return Err(LoginError::Cleartext);
        }
        write::password(out, password);
        Ok(State::Said)
    }

    fn say_hash(&self, salt: [u8; 4], out: &mut Vec<u8>) -> Result<State, LoginError> {
        let stored = match &self.given.credential {
            Credential::Password(password) => md5_stored(password, &self.given.user),
            Credential::Md5(stored) => *stored,
            Credential::Nothing | Credential::Keys(_) => return Err(self.lacks("an MD5 hash")),
        };
        write::password(out, &md5_said(&stored, salt));
        Ok(State::Said)
    }

    /// The knowledge that SCRAM can be spoken with.
    fn check_scram(&self) -> Result<Knowledge<'_>, LoginError> {
        match &self.given.credential {
            Credential::Password(password) => Ok(Knowledge::Password(password)),
            Credential::Keys(keys) => Ok(Knowledge::Keys(keys)),
            Credential::Nothing | Credential::Md5(_) => Err(self.lacks("SCRAM-SHA-256")),
        }
    }

    fn lacks(&self, method: &'static str) -> LoginError {
        let has = match self.given.credential {
            Credential::Nothing => "nothing to prove itself with",
            Credential::Password(_) => "a password",
            Credential::Md5(_) => "only an MD5 hash",
            Credential::Keys(_) => "only SCRAM keys",
        };
        LoginError::Credential {
            user: String::from_utf8_lossy(&self.given.user).into_owned(),
            method,
            has,
        }
    }
}
