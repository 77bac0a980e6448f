//! Asks a client who it is, by one method, against what is known of the user.

use subtle::ConstantTimeEq;
use thiserror::Error;

use super::scram::{self, Asked, ScramError};
use super::{Binding, Credential, Md5Hash, Nonce, md5_said};
use crate::SqlState;
use crate::frame::{Frontend, Tag};
use crate::message::read::{self, ReadError};
use crate::message::write;
use crate::secrets::{Kind, Secret};

/// Method by which a client proves its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// It need not.
    Trust,
    /// With its password as it is; for encrypted connections.
    Password,
    /// With a hash of it; where a SCRAM secret is stored, by SCRAM, as PostgreSQL has it.
    Md5,
    /// By SCRAM-SHA-256, bound to the TLS connection where both sides can.
    ScramSha256,
}

/// Why a client did not get in. Each ends the connection, with severity FATAL.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CheckError {
    /// The password is wrong, or the user is not known: nobody outside can tell.
    #[error("password authentication failed for user \"{user}\"")]
    WrongPassword {
        /// The user that wanted in.
        user: String,
    },
    /// The password is empty.
    #[error("empty password returned by client")]
    EmptyPassword,
    /// Something else came than an answer.
    #[error("expected password response, got message type {byte}")]
    Unexpected {
        /// The tag of the message that came.
        byte: u8,
    },
    /// The mechanism was not offered.
    #[error("client selected an invalid SASL authentication mechanism")]
    Mechanism,
    /// A message cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The exchange by SCRAM ended.
    #[error(transparent)]
    Scram(#[from] ScramError),
}

impl CheckError {
    /// The code to answer with.
    pub fn sqlstate(&self) -> SqlState {
        match self {
            CheckError::WrongPassword { .. } | CheckError::EmptyPassword => {
                SqlState::INVALID_PASSWORD
            }
            CheckError::Unexpected { .. } | CheckError::Mechanism => SqlState::PROTOCOL_VIOLATION,
            CheckError::Read(error) => error.sqlstate(),
            CheckError::Scram(error) => error.sqlstate(),
        }
    }
}

/// Result of a step.
#[derive(Debug)]
pub enum Checked {
    /// The client must answer, with a [`Frontend::Password`].
    Asks(Check),
    /// It is who it claims to be, and was told so with AuthenticationOk. It proved that with this:
    /// the password, or its keys; [`Credential::Nothing`] after a hash and without a proof.
    Passed(Credential),
}

/// A client that was asked, and has not answered.
#[derive(Debug)]
pub struct Check {
    user: Vec<u8>,
    question: Box<Question>,
}

enum Question {
    Cleartext(Secret),
    Md5 { stored: Md5Hash, salt: [u8; 4] },
    Mechanism { secret: Secret, binding: Binding, nonce: Nonce },
    Proof(Asked),
}

impl std::fmt::Debug for Question {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Question::Cleartext(_) => "Cleartext",
            Question::Md5 { .. } => "Md5",
            Question::Mechanism { .. } => "Mechanism",
            Question::Proof(_) => "Proof",
        })
    }
}

impl Check {
    /// Asks the client, with a message at the end of `out`. `binding` is that of this connection to
    /// the client; where it is not absent, SCRAM-SHA-256-PLUS is offered.
    pub fn begin(
        method: Method,
        user: &[u8],
        secret: &Secret,
        binding: Binding,
        nonce: Nonce,
        out: &mut Vec<u8>,
    ) -> Checked {
        let scram = match method {
            Method::Trust => {
                write::authentication_ok(out);
                return Checked::Passed(Credential::Nothing);
            }
            Method::Password => {
                write::authentication_cleartext(out);
                return Check::asks(user, Question::Cleartext(secret.clone()));
            }
            Method::Md5 => secret.kind() == Kind::Scram,
            Method::ScramSha256 => true,
        };
        if !scram {
            let salt = [nonce[0], nonce[1], nonce[2], nonce[3]];
            write::authentication_md5(out, salt);
            return Check::asks(user, Question::Md5 { stored: *secret.md5(), salt });
        }
        match binding {
            Binding::Absent => write::authentication_sasl(out, &[scram::PLAIN]),
            Binding::EndPoint(_) => {
                write::authentication_sasl(out, &[scram::PLUS, scram::PLAIN]);
            }
        }
        Check::asks(user, Question::Mechanism { secret: secret.clone(), binding, nonce })
    }

    fn asks(user: &[u8], question: Question) -> Checked {
        Checked::Asks(Check { user: user.to_vec(), question: Box::new(question) })
    }

    /// Takes the client's message, and says what it has to say at the end of `out`.
    ///
    /// A password in clear is hashed here if a SCRAM secret is stored, which takes as long as the
    /// secret's iterations want; everything else takes microseconds.
    ///
    /// # Errors
    /// If the client does not get in; then nothing was written.
    pub fn answer(
        self,
        tag: Frontend,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Checked, CheckError> {
        if tag != Frontend::Password {
            return Err(CheckError::Unexpected { byte: tag.byte() });
        }
        let wrong =
            || CheckError::WrongPassword { user: String::from_utf8_lossy(&self.user).into_owned() };
        let passed = match *self.question {
            Question::Cleartext(ref secret) => {
                let password = password(body)?;
                let fits = secret.fits(&self.user, password);
                fits.then(|| Credential::Password(password.to_vec())).ok_or_else(wrong)?
            }
            Question::Md5 { stored, salt } => {
                let right = password(body)?.ct_eq(&md5_said(&stored, salt));
                bool::from(right).then_some(Credential::Nothing).ok_or_else(wrong)?
            }
            Question::Mechanism { ref secret, ref binding, nonce } => {
                let (mechanism, message) = read::sasl_initial_response(body)?;
                let offered = mechanism == scram::PLAIN.as_bytes()
                    || mechanism == scram::PLUS.as_bytes() && *binding != Binding::Absent;
                if !offered {
                    return Err(CheckError::Mechanism);
                }
                let Some(message) = message else {
                    // It waits to be asked: the challenge of a mechanism that begins with the
                    // client is empty.
                    return Err(ScramError::Malformed { part: "it is missing" }.into());
                };
                let verifier = secret.verifier().clone();
                let asked = Asked::new(mechanism, message, verifier, binding, nonce)?;
                write::authentication_sasl_continue(out, asked.challenge().as_bytes());
                return Ok(Check::asks(&self.user, Question::Proof(asked)));
            }
            Question::Proof(ref asked) => {
                let (keys, said) = asked.finish(body)?.ok_or_else(wrong)?;
                write::authentication_sasl_final(out, said.as_bytes());
                Credential::Keys(keys)
            }
        };
        write::authentication_ok(out);
        Ok(Checked::Passed(passed))
    }
}

fn password(body: &[u8]) -> Result<&[u8], CheckError> {
    let password = read::password(body)?;
    if password.is_empty() { Err(CheckError::EmptyPassword) } else { Ok(password) }
}
