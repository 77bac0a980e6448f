//! The users that the gate knows, and the rules of their admission. Texts only; files are read
//! elsewhere.

mod hba;
mod ident;
mod users;

pub use hba::{
    Admission, Certificate, Facts, Hba, HbaCause, HbaError, Origin, Peer, Refusal, Transport,
};
pub use ident::{IdentCause, IdentError, IdentMaps};
pub use users::{Users, UsersCause, UsersError};

use std::num::NonZeroU32;

use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;

use super::auth::{
    Credential, ITERATIONS, Md5Hash, Verifier, VerifierError, digits, hmac, md5_stored,
};

/// The salt of a SCRAM secret that PostgreSQL makes \[byte\].
const SALT_BYTES: usize = 16;

/// From which the secrets of unknown users are made, so that they look as others do and stay the
/// same. It is drawn at random once, kept from everybody, and best kept over restarts.
#[derive(Clone)]
pub struct MockKey([u8; 32]);

impl MockKey {
    /// The key that these bytes are; they come from a good source of chance.
    pub fn new(bytes: [u8; 32]) -> MockKey {
        MockKey(bytes)
    }

    /// One that nobody knows, from the system's chance.
    ///
    /// # Panics
    /// If the system has none.
    pub fn drawn() -> MockKey {
        let mut bytes = [0; 32];
        SystemRandom::new().fill(&mut bytes).expect("the system gives chance to whoever asks");
        MockKey(bytes)
    }

    fn draw(&self, what: &str, user: &[u8]) -> [u8; 32] {
        hmac(&self.0, &[what.as_bytes(), &[0], user].concat())
    }

    fn salt(&self, user: &[u8]) -> Vec<u8> {
        self.draw("salt", user)[..SALT_BYTES].to_vec()
    }

    /// A verifier that no password fits.
    fn verifier(&self, user: &[u8], iterations: NonZeroU32) -> Verifier {
        Verifier {
            iterations,
            salt: self.salt(user),
            stored: self.draw("stored", user),
            server: self.draw("server", user),
        }
    }
}

impl std::fmt::Debug for MockKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("MockKey(***)")
    }
}

/// In which form a secret is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// As it is.
    Plain,
    /// As `md5` and a hash.
    Md5,
    /// As a SCRAM verifier.
    Scram,
}

/// The visible part of a secret: anybody who tries to log in sees the method by which it is asked
/// for, and the number of its iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looks {
    /// Its form.
    pub kind: Kind,
    /// Iterations of its hash for SCRAM.
    pub iterations: NonZeroU32,
}

impl Default for Looks {
    /// As PostgreSQL stores passwords where nobody says otherwise.
    fn default() -> Looks {
        Looks { kind: Kind::Scram, iterations: ITERATIONS }
    }
}

/// The stored secret of a user, ready for every method. Where a method cannot work with what is
/// stored, the exchange runs to its end and fails there, as it does for a user who is not known.
#[derive(Clone)]
pub struct Secret {
    form: Form,
    md5: Md5Hash,
    verifier: Verifier,
}

#[derive(Clone)]
enum Form {
    Plain(Vec<u8>),
    Md5,
    Scram,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Secret({:?}, ***)", self.kind())
    }
}

impl Secret {
    /// The secret that `stored` is, as in pg_authid: `SCRAM-SHA-256$...`, `md5` and 32 hexadecimal
    /// digits, or else the password itself. A password is hashed here once, about a millisecond, so
    /// that nobody who wants in can make the gate do so.
    ///
    /// # Errors
    /// If it begins as a SCRAM secret does and is none.
    pub fn stored(user: &[u8], stored: &str, key: &MockKey) -> Result<Secret, VerifierError> {
        Secret::hashed(user, stored, key, ITERATIONS)
    }

    /// The same, where a password is hashed so many times.
    ///
    /// # Errors
    /// If it begins as a SCRAM secret does and is none.
    pub fn hashed(
        user: &[u8],
        stored: &str,
        key: &MockKey,
        iterations: NonZeroU32,
    ) -> Result<Secret, VerifierError> {
        if stored.starts_with(Verifier::PREFIX) {
            let verifier = Verifier::parse(stored)?;
            return Ok(Secret { form: Form::Scram, md5: digits(&key.draw("md5", user)), verifier });
        }
        if let Some(md5) = md5(stored) {
            let verifier = key.verifier(user, iterations);
            return Ok(Secret { form: Form::Md5, md5, verifier });
        }
        let password = stored.as_bytes();
        let verifier = Verifier::derive(password, &key.salt(user), iterations);
        let md5 = md5_stored(password, user);
        Ok(Secret { form: Form::Plain(password.to_vec()), md5, verifier })
    }

    /// The secret of a user who is not known, which nothing fits. It looks as those of others do.
    pub fn mock(user: &[u8], looks: Looks, key: &MockKey) -> Secret {
        let md5 = digits(&key.draw("md5", user));
        let form = match looks.kind {
            Kind::Plain => Form::Plain(digits(&key.draw("plain", user)).to_vec()),
            Kind::Md5 => Form::Md5,
            Kind::Scram => Form::Scram,
        };
        Secret { form, md5, verifier: key.verifier(user, looks.iterations) }
    }

    /// The part of it that a client sees.
    pub fn looks(&self) -> Looks {
        Looks { kind: self.kind(), iterations: self.verifier.iterations }
    }

    /// In which form it is stored.
    pub fn kind(&self) -> Kind {
        match self.form {
            Form::Plain(_) => Kind::Plain,
            Form::Md5 => Kind::Md5,
            Form::Scram => Kind::Scram,
        }
    }

    /// With what the gate can log in at a server on its own; a SCRAM secret lets nobody in.
    pub fn credential(&self) -> Credential {
        match &self.form {
            Form::Plain(password) => Credential::Password(password.clone()),
            Form::Md5 => Credential::Md5(self.md5),
            Form::Scram => Credential::Nothing,
        }
    }

    pub(super) fn md5(&self) -> &Md5Hash {
        &self.md5
    }

    pub(super) fn verifier(&self) -> &Verifier {
        &self.verifier
    }

    /// True if `password` is the user's.
    pub(super) fn fits(&self, user: &[u8], password: &[u8]) -> bool {
        match &self.form {
            Form::Plain(right) => right[..].ct_eq(password).into(),
            Form::Md5 => self.md5.ct_eq(&md5_stored(password, user)).into(),
            Form::Scram => self.verifier.fits(password),
        }
    }
}

/// The hash in `md5` and 32 hexadecimal digits, in small letters.
fn md5(stored: &str) -> Option<Md5Hash> {
    let hash = stored.strip_prefix("md5")?.to_ascii_lowercase();
    let hash: Md5Hash = hash.as_bytes().try_into().ok()?;
    hash.iter().all(u8::is_ascii_hexdigit).then_some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: MockKey = MockKey([7; 32]);

    #[test]
    fn a_secret_is_of_the_kind_that_its_text_shows() {
        let hash = format!("md5{}", "0aF1".repeat(8));
        let verifier = Verifier::derive(b"x", b"salt", ITERATIONS).to_text();
        let kinds = [
            ("secret", Kind::Plain),
            ("", Kind::Plain),
            ("md5", Kind::Plain),
            ("md5isbad", Kind::Plain),
            ("md5zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", Kind::Plain),
            (&hash, Kind::Md5),
            (&verifier, Kind::Scram),
        ];
        for (stored, kind) in kinds {
            assert_eq!(Secret::stored(b"u", stored, &KEY).unwrap().kind(), kind, "{stored}");
        }
        assert!(Secret::stored(b"u", "SCRAM-SHA-256$x", &KEY).is_err());
    }

    #[test]
    fn a_mock_stays_the_same_and_is_of_its_user_alone() {
        for kind in [Kind::Plain, Kind::Md5, Kind::Scram] {
            let [one, again, other] = [&b"a"[..], b"a", b"b"]
                .map(|user| Secret::mock(user, Looks { kind, ..Looks::default() }, &KEY));
            assert_eq!((one.kind(), &one.verifier), (kind, &again.verifier));
            assert_ne!(one.verifier.salt, other.verifier.salt);
            assert_ne!(one.md5, other.md5);
            // As those of known users, whose salts are as long and stay the same.
            let known = Secret::stored(b"a", "secret", &KEY).unwrap();
            assert_eq!(known.verifier.salt, one.verifier.salt);
            assert_ne!(known.verifier.stored, one.verifier.stored);
        }
    }

    #[test]
    fn nothing_prints_a_secret() {
        let secret = Secret::stored(b"a", "hunter2", &KEY).unwrap();
        let shown = format!("{secret:?} {KEY:?} {:?}", secret.credential());
        assert!(!shown.contains("hunter2") && shown.contains("***"), "{shown}");
    }
}
