//! Proofs of a password other than itself: the hashes of MD5 and the keys of SCRAM-SHA-256.

use std::fmt;
use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use md5::{Digest, Md5};
use ring::{digest, hmac, pbkdf2};
use subtle::ConstantTimeEq;
use thiserror::Error;

/// A hash of 256 bits.
pub(crate) type Hash = [u8; 32];

/// Iterations of the hash of a password where nobody says otherwise, as in PostgreSQL.
pub const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("it is not 0");

/// The keys that a password comes to under one salt and one count: who has them is as good as who
/// knows the password, wherever the salt and the count are the same.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    /// ClientKey.
    pub client: Hash,
    /// ServerKey.
    pub server: Hash,
}

impl fmt::Debug for Keys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Keys(***)")
    }
}

impl Keys {
    /// The keys of a password (RFC 5802, section 3). This takes as long as `iterations` want.
    pub(crate) fn derive(password: &[u8], salt: &[u8], iterations: NonZeroU32) -> Keys {
        let prepared = std::str::from_utf8(password).ok();
        let prepared = prepared.and_then(|text| stringprep::saslprep(text).ok());
        // What cannot be prepared counts as it is, as PostgreSQL has it.
        let password = prepared.as_ref().map_or(password, |text| text.as_bytes());
        let mut salted: Hash = [0; 32];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, salt, password, &mut salted);
        Keys { client: hmac(&salted, b"Client Key"), server: hmac(&salted, b"Server Key") }
    }
}

/// The secret that a server stores of a password for SCRAM-SHA-256: it can check the password with
/// it, and prove itself, but not log in elsewhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    pub(crate) iterations: NonZeroU32,
    pub(crate) salt: Vec<u8>,
    pub(crate) stored: Hash,
    pub(crate) server: Hash,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Verifier({} iterations, ***)", self.iterations)
    }
}

/// Why a stored SCRAM secret cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the SCRAM secret has an invalid {part}: it is \
     SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>, as in pg_authid"
)]
pub struct VerifierError {
    /// The part of it that is wrong.
    pub part: &'static str,
}

impl Verifier {
    /// Prefix of a stored text of this form.
    pub(crate) const PREFIX: &str = "SCRAM-SHA-256$";

    /// The verifier of a password. This takes as long as `iterations` want.
    pub fn derive(password: &[u8], salt: &[u8], iterations: NonZeroU32) -> Verifier {
        let keys = Keys::derive(password, salt, iterations);
        let stored = sha256(&keys.client);
        Verifier { iterations, salt: salt.to_vec(), stored, server: keys.server }
    }

    /// Reads `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`.
    ///
    /// # Errors
    /// If it is not of this form.
    pub fn parse(text: &str) -> Result<Verifier, VerifierError> {
        let invalid = |part| VerifierError { part };
        let rest = text.strip_prefix(Verifier::PREFIX).ok_or(invalid("name"))?;
        let (ahead, keys) = rest.split_once('$').ok_or(invalid("form"))?;
        let (iterations, salt) = ahead.split_once(':').ok_or(invalid("form"))?;
        let (stored, server) = keys.split_once(':').ok_or(invalid("form"))?;
        let key = |text: &str| BASE64.decode(text).ok()?.try_into().ok();
        Ok(Verifier {
            iterations: number(iterations).ok_or(invalid("number of iterations"))?,
            salt: BASE64.decode(salt).map_err(|_| invalid("salt"))?,
            stored: key(stored).ok_or(invalid("StoredKey"))?,
            server: key(server).ok_or(invalid("ServerKey"))?,
        })
    }

    /// The stored text; as secret as a password's hash is.
    pub fn to_text(&self) -> String {
        let [salt, stored, server] =
            [&self.salt[..], &self.stored, &self.server].map(|bytes| BASE64.encode(bytes));
        format!("{}{}:{salt}${stored}:{server}", Verifier::PREFIX, self.iterations)
    }

    /// The client's key, if `proof` is one of it over `message` (RFC 5802, section 3).
    pub(crate) fn client_key(&self, message: &[u8], proof: &Hash) -> Option<Hash> {
        let mut client = hmac(&self.stored, message);
        client.iter_mut().zip(proof).for_each(|(byte, proof)| *byte ^= proof);
        bool::from(sha256(&client).ct_eq(&self.stored)).then_some(client)
    }

    /// True if it is the verifier of `password`. This takes as long as its iterations want.
    pub(crate) fn fits(&self, password: &[u8]) -> bool {
        let keys = Keys::derive(password, &self.salt, self.iterations);
        sha256(&keys.client).ct_eq(&self.stored).into()
    }
}

/// A count of iterations in digits alone.
pub(crate) fn number(digits: &str) -> Option<NonZeroU32> {
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| plain)
}

/// The hash that PostgreSQL stores for MD5, in hexadecimal: of the password and the user's name.
pub(crate) type Md5Hash = [u8; 32];

pub(crate) fn md5_stored(password: &[u8], user: &[u8]) -> Md5Hash {
    hex(&[password, user])
}

/// The answer of a client to a server that gave it `salt`: `md5` and 32 hexadecimal digits.
pub(crate) fn md5_said(stored: &Md5Hash, salt: [u8; 4]) -> [u8; 35] {
    let mut said = *b"md5................................";
    said[3..].copy_from_slice(&hex(&[stored, &salt]));
    said
}

fn hex(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Md5::new();
    parts.iter().for_each(|part| hash.update(part));
    digits(hash.finalize().as_slice())
}

/// 16 bytes in hexadecimal.
pub(crate) fn digits(bytes: &[u8]) -> [u8; 32] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    std::array::from_fn(|at| {
        let byte = bytes[at / 2];
        DIGITS[usize::from(if at % 2 == 0 { byte >> 4 } else { byte & 15 })]
    })
}

pub(crate) fn hmac(key: &[u8], message: &[u8]) -> Hash {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message);
    tag.as_ref().try_into().expect("HMAC-SHA-256 has 32 bytes")
}

pub(crate) fn sha256(bytes: &[u8]) -> Hash {
    let hash = digest::digest(&digest::SHA256, bytes);
    hash.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn md5_is_as_postgresql_has_it() {
        // Computed with another program.
        assert_eq!(&md5_stored(b"secret", b"alice"), b"4a0a68b43b6cd5cf266fa02f196e2371");
        let said = md5_said(&md5_stored(b"secret", b"alice"), [1, 2, 3, 4]);
        assert_eq!(&said, b"md598a0412b9c31436fc53776e863350083");
    }

    #[test]
    fn a_verifier_is_written_as_it_is_read() {
        let verifier = Verifier::derive(b"pencil", b"0123456789abcdef", ITERATIONS);
        let text = verifier.to_text();
        assert!(text.starts_with("SCRAM-SHA-256$4096:MDEyMzQ1Njc4OWFiY2RlZg==$"), "{text}");
        assert_eq!(Verifier::parse(&text), Ok(verifier.clone()));
        assert!(verifier.fits(b"pencil") && !verifier.fits(b"Pencil"));
        assert!(!format!("{verifier:?}").contains("MDEy"));
    }

    #[test]
    fn passwords_are_prepared_or_taken_as_they_are() {
        let fits =
            |one: &[u8], other: &[u8]| Verifier::derive(one, b"salt", ITERATIONS).fits(other);
        // A soft hyphen goes, a no-break space becomes a space, a Roman numeral two letters (RFC 4013).
        assert!(fits("I\u{ad}X".as_bytes(), b"IX"));
        assert!(fits("a\u{a0}b".as_bytes(), b"a b"));
        assert!(fits("\u{2168}".as_bytes(), b"IX"));
        // A letter and its accent become one character.
        assert!(fits("e\u{301}".as_bytes(), "\u{e9}".as_bytes()));
        // Neither can be prepared.
        assert!(fits(b"\x07", b"\x07") && fits(b"\xff\xfe", b"\xff\xfe"));
        assert!(!fits(b"\xff\xfe", b"\xff\xff"));
    }

    #[test]
    fn a_verifier_that_is_none_is_refused_by_its_part() {
        let key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        let refused = [
            ("SCRAM-SHA-1$1:AA==$x:y".to_owned(), "name"),
            ("SCRAM-SHA-256$1:AA==".to_owned(), "form"),
            (format!("SCRAM-SHA-256$1${key}:{key}"), "form"),
            (format!("SCRAM-SHA-256$0:AA==${key}:{key}"), "number of iterations"),
            (format!("SCRAM-SHA-256$+1:AA==${key}:{key}"), "number of iterations"),
            (format!("SCRAM-SHA-256$4294967296:AA==${key}:{key}"), "number of iterations"),
            (format!("SCRAM-SHA-256$1:A${key}:{key}"), "salt"),
            (format!("SCRAM-SHA-256$1:AA==$AA==:{key}"), "StoredKey"),
            (format!("SCRAM-SHA-256$1:AA==${key}:{key}:"), "ServerKey"),
        ];
        for (text, part) in refused {
            assert_eq!(Verifier::parse(&text), Err(VerifierError { part }), "{text}");
        }
    }
}
