//! SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, RFC 7677) as PostgreSQL speaks them: the texts of
//! both sides. The user's name inside is ignored; that of the start-up packet counts.

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use subtle::ConstantTimeEq;
use thiserror::Error;

use super::keys::{Hash, Keys, Verifier, hmac, number, sha256};
use super::{Binding, Nonce};
use crate::SqlState;

pub(super) const PLAIN: &str = "SCRAM-SHA-256";
pub(super) const PLUS: &str = "SCRAM-SHA-256-PLUS";
const END_POINT: &str = "tls-server-end-point";

/// Why an exchange by SCRAM ended, other than by a wrong password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ScramError {
    /// A message does not follow the grammar.
    #[error("malformed SCRAM message: {part}")]
    Malformed {
        /// The part of it that is malformed.
        part: &'static str,
    },
    /// The client would act as somebody else.
    #[error("client uses authorization identity, but it is not supported")]
    Identity,
    /// The other side insists on an extension.
    #[error("an unsupported SCRAM extension is required")]
    Extension,
    /// Binding to something else than the end point.
    #[error("unsupported SCRAM channel-binding type")]
    BindingType,
    /// The mechanism and what the client says of binding contradict each other.
    #[error("the SCRAM mechanism and the channel binding flag contradict each other")]
    BindingFlag,
    /// The client believes that no binding was offered, but it was: somebody sits in between.
    #[error("SCRAM channel binding negotiation error: the server does support channel binding")]
    Downgrade,
    /// The client is bound to another connection: somebody sits in between.
    #[error("SCRAM channel binding check failed")]
    Binding,
    /// The message belongs to another exchange.
    #[error("invalid SCRAM response: nonce does not match")]
    Nonce,
    /// The password would be hashed longer than it may, or not at all.
    #[error("the server wants {iterations} SCRAM iterations; the most is {iterations_max}")]
    Iterations {
        /// The iterations that the server wants.
        iterations: u64,
        /// The most.
        iterations_max: u32,
    },
    /// The server does not know the user's secret: it only claims to be the server.
    #[error(
        "the server did not prove that it knows the SCRAM secret: it is not who it claims to be"
    )]
    ServerSignature,
}

impl ScramError {
    /// The code to answer with.
    pub fn sqlstate(&self) -> SqlState {
        match self {
            ScramError::Identity | ScramError::Extension => SqlState::FEATURE_NOT_SUPPORTED,
            ScramError::Downgrade
            | ScramError::Binding
            | ScramError::Iterations { .. }
            | ScramError::ServerSignature => SqlState::INVALID_AUTHORIZATION,
            _ => SqlState::PROTOCOL_VIOLATION,
        }
    }
}

/// The checking side, after the client's first message.
#[derive(Clone)]
pub(super) struct Asked {
    verifier: Verifier,
    /// The binding that the client must state, in base64.
    binding: String,
    nonce: String,
    /// The client's first message as it is signed, and what is said to it.
    bare: String,
    challenge: String,
}

impl Asked {
    /// Takes the client's first message; what to say to it is [`challenge`](Asked::challenge).
    pub(super) fn new(
        mechanism: &[u8],
        message: &[u8],
        verifier: Verifier,
        offered: &Binding,
        nonce: Nonce,
    ) -> Result<Asked, ScramError> {
        let message = text(message)?;
        let (flag, rest) = message.split_once(',').ok_or(malformed("channel binding flag"))?;
        let (identity, bare) = rest.split_once(',').ok_or(malformed("authorization identity"))?;
        if !identity.is_empty() {
            let names = identity.starts_with("a=");
            return Err(if names { ScramError::Identity } else { malformed("identity") });
        }
        let mut bound = format!("{flag},,").into_bytes();
        match (flag, mechanism == PLUS.as_bytes(), offered) {
            ("n", false, _) | ("y", false, Binding::Absent) => {}
            ("y", false, Binding::EndPoint(_)) => return Err(ScramError::Downgrade),
            ("n" | "y", true, _) => return Err(ScramError::BindingFlag),
            (_, plus, offered) => {
                let kind = flag.strip_prefix("p=").ok_or(malformed("channel binding flag"))?;
                match offered {
                    Binding::EndPoint(hash) if plus => bound.extend_from_slice(hash),
                    _ => return Err(ScramError::BindingFlag),
                }
                if kind != END_POINT {
                    return Err(ScramError::BindingType);
                }
            }
        }
        if bare.starts_with("m=") {
            return Err(ScramError::Extension);
        }
        let mut parts = bare.split(',');
        parts.next().and_then(|name| name.strip_prefix("n=")).ok_or(malformed("user name"))?;
        let theirs = parts.next().and_then(|part| part.strip_prefix("r="));
        let theirs = theirs.filter(|nonce| is_nonce(nonce)).ok_or(malformed("nonce"))?;
        if !parts.all(is_attribute) {
            return Err(malformed("extension"));
        }
        let nonce = format!("{theirs}{}", BASE64.encode(nonce));
        let salt = BASE64.encode(&verifier.salt);
        let challenge = format!("r={nonce},s={salt},i={}", verifier.iterations);
        let (bare, binding) = (bare.to_owned(), BASE64.encode(bound));
        Ok(Asked { verifier, binding, nonce, bare, challenge })
    }

    /// The answer to the client's first message.
    pub(super) fn challenge(&self) -> &str {
        &self.challenge
    }

    /// Takes the client's last message. If the client knows the password: its keys, and what to say.
    pub(super) fn finish(&self, message: &[u8]) -> Result<Option<(Keys, String)>, ScramError> {
        let message = text(message)?;
        let (ahead, proof) = message.rsplit_once(",p=").ok_or(malformed("proof"))?;
        let proof = BASE64.decode(proof).ok().and_then(|proof| Hash::try_from(proof).ok());
        let proof = proof.ok_or(malformed("proof"))?;
        let mut parts = ahead.split(',');
        let binding = parts.next().and_then(|part| part.strip_prefix("c="));
        let nonce = parts.next().and_then(|part| part.strip_prefix("r="));
        if binding.ok_or(malformed("channel binding"))? != self.binding {
            return Err(ScramError::Binding);
        }
        if nonce.ok_or(malformed("nonce"))? != self.nonce {
            return Err(ScramError::Nonce);
        }
        if !parts.all(is_attribute) {
            return Err(malformed("extension"));
        }
        let signed = format!("{},{},{ahead}", self.bare, self.challenge);
        Ok(self.verifier.client_key(signed.as_bytes(), &proof).map(|client| {
            let server = self.verifier.server;
            let signature = BASE64.encode(hmac(&server, signed.as_bytes()));
            (Keys { client, server }, format!("v={signature}"))
        }))
    }
}

/// The knowledge of the proving side.
pub(super) enum Knowledge<'a> {
    Password(&'a [u8]),
    Keys(&'a Keys),
}

/// The proving side, after its first message.
#[derive(Clone)]
pub(super) struct Proving {
    /// The flag, and what is bound, as it is repeated in the last message.
    bound: Vec<u8>,
    flag: String,
    nonce: String,
}

impl Proving {
    /// Begins by one of the server's mechanisms: [`PLUS`] only where there is something to bind.
    pub(super) fn new(mechanism: &str, binding: &Binding, nonce: Nonce) -> Proving {
        let flag = match binding {
            Binding::EndPoint(_) if mechanism == PLUS => format!("p={END_POINT},,"),
            // We could, and believe that the server cannot: it notices if somebody hid its offer.
            Binding::EndPoint(_) => "y,,".to_owned(),
            Binding::Absent => "n,,".to_owned(),
        };
        let mut bound = flag.clone().into_bytes();
        if let Binding::EndPoint(hash) = binding
            && mechanism == PLUS
        {
            bound.extend_from_slice(hash);
        }
        Proving { bound, flag, nonce: BASE64.encode(nonce) }
    }

    fn bare(&self) -> String {
        format!("n=,r={}", self.nonce)
    }

    /// The first message.
    pub(super) fn first(&self) -> String {
        format!("{}{}", self.flag, self.bare())
    }

    /// Takes the server's challenge: the last message, what the server must say to it, and the keys
    /// that the password came to.
    pub(super) fn answer(
        &self,
        challenge: &[u8],
        knowledge: Knowledge<'_>,
        iterations_max: u32,
    ) -> Result<(String, Hash, Keys), ScramError> {
        let challenge = text(challenge)?;
        if challenge.starts_with("m=") {
            return Err(ScramError::Extension);
        }
        let mut parts = challenge.split(',');
        let mut part = |name, what| {
            let part: Option<&str> = parts.next();
            part.and_then(|part| part.strip_prefix(name)).ok_or(malformed(what))
        };
        let (nonce, salt, count) =
            (part("r=", "nonce")?, part("s=", "salt")?, part("i=", "number of iterations")?);
        let salt = BASE64.decode(salt).ok().filter(|salt| !salt.is_empty());
        let salt = salt.ok_or(malformed("salt"))?;
        let own = nonce.strip_prefix(&self.nonce).ok_or(ScramError::Nonce)?;
        if !is_nonce(own) {
            return Err(ScramError::Nonce);
        }
        let iterations = bounded(count, iterations_max)?;
        let keys = match knowledge {
            Knowledge::Password(password) => Keys::derive(password, &salt, iterations),
            Knowledge::Keys(keys) => keys.clone(),
        };
        let ahead = format!("c={},r={nonce}", BASE64.encode(&self.bound));
        let signed = format!("{},{challenge},{ahead}", self.bare());
        let mut proof = hmac(&sha256(&keys.client), signed.as_bytes());
        proof.iter_mut().zip(keys.client).for_each(|(byte, key)| *byte ^= key);
        let last = format!("{ahead},p={}", BASE64.encode(proof));
        Ok((last, hmac(&keys.server, signed.as_bytes()), keys))
    }
}

/// Checks that the server's last message is the signature that only who knows the secret can make.
pub(super) fn is_signed(message: &[u8], signature: &Hash) -> Result<(), ScramError> {
    let message = text(message)?;
    let said = message.split(',').next().and_then(|part| part.strip_prefix("v="));
    let said = BASE64.decode(said.ok_or(malformed("signature"))?);
    let said = said.map_err(|_| malformed("signature"))?;
    if bool::from(said.ct_eq(signature)) { Ok(()) } else { Err(ScramError::ServerSignature) }
}

fn bounded(count: &str, iterations_max: u32) -> Result<NonZeroU32, ScramError> {
    if count.is_empty() || !count.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(malformed("number of iterations"));
    }
    let too_many =
        || ScramError::Iterations { iterations: count.parse().unwrap_or(u64::MAX), iterations_max };
    number(count).filter(|count| count.get() <= iterations_max).ok_or_else(too_many)
}

fn malformed(part: &'static str) -> ScramError {
    ScramError::Malformed { part }
}

fn text(message: &[u8]) -> Result<&str, ScramError> {
    let text = std::str::from_utf8(message).map_err(|_| malformed("it is not UTF-8"))?;
    if text.contains('\0') { Err(malformed("it holds a NUL")) } else { Ok(text) }
}

/// Printable ASCII without a comma (RFC 5802, section 7).
fn is_nonce(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',')
}

/// A letter, an equals sign, a value.
fn is_attribute(text: &str) -> bool {
    matches!(text.as_bytes(), [letter, b'=', _, ..] if letter.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3, but for the user's name, which PostgreSQL leaves empty.
    const FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const CHALLENGE: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                             s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    const LAST: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    const SIGNATURE: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

    fn example() -> Asked {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = Verifier::derive(b"pencil", &salt, super::super::ITERATIONS);
        Asked {
            verifier,
            binding: "biws".to_owned(),
            nonce: CHALLENGE[2..].split(',').next().unwrap().to_owned(),
            bare: FIRST[3..].to_owned(),
            challenge: CHALLENGE.to_owned(),
        }
    }

    #[test]
    fn the_example_of_rfc_7677_is_what_a_server_says() {
        let asked = example();
        let (keys, said) = asked.finish(LAST.as_bytes()).unwrap().unwrap();
        assert_eq!(said, SIGNATURE);
        assert_eq!(sha256(&keys.client), asked.verifier.stored);
        // One bit of the proof.
        let wrong = LAST.replace("p=dH", "p=dX");
        assert!(asked.finish(wrong.as_bytes()).unwrap().is_none());
    }

    #[test]
    fn the_example_of_rfc_7677_is_what_a_client_says_but_for_the_name() {
        // Without the name another text is signed, so the proof is compared with what a server makes.
        let proving = Proving {
            bound: b"n,,".to_vec(),
            flag: "n,,".to_owned(),
            nonce: "rOprNGfwEbeRWgbNEkqO".to_owned(),
        };
        assert_eq!(proving.first(), FIRST.replace("user", ""));
        let knowledge = Knowledge::Password(b"pencil");
        let (last, signature, _) = proving.answer(CHALLENGE.as_bytes(), knowledge, 4096).unwrap();
        assert!(last.starts_with(&LAST[..LAST.find(",p=").unwrap()]), "{last}");
        let mut asked = example();
        asked.bare = asked.bare.replace("n=user", "n=");
        let (keys, said) = asked.finish(last.as_bytes()).unwrap().unwrap();
        assert_eq!(is_signed(said.as_bytes(), &signature), Ok(()));
        let again = proving.answer(CHALLENGE.as_bytes(), Knowledge::Keys(&keys), 4096).unwrap();
        assert_eq!(again, (last, signature, keys));
    }
}
