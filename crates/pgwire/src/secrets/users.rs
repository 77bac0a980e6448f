//! Users and their secrets, as PgBouncer's `userlist.txt` has them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::num::NonZeroU32;

use thiserror::Error;

use super::{Kind, Looks, MockKey, Secret};
use crate::auth::{Credential, ITERATIONS, VerifierError};

/// The longest user name and the longest secret \[byte\], as PgBouncer has them.
const USER_MAX: usize = 127;
const SECRET_MAX: usize = 2047;

/// Users and their secrets.
#[derive(Debug)]
pub struct Users {
    secrets: HashMap<Vec<u8>, Secret>,
    /// Of these no line has a secret.
    without: HashSet<Vec<u8>>,
    key: MockKey,
    /// The looks of secrets of unknown users.
    looks: Looks,
}

/// Why a list of users cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {cause}")]
pub struct UsersError {
    /// The line, from 1.
    pub line: usize,
    /// The cause, and what to do.
    pub cause: UsersCause,
}

/// Fault in a line of a list of users.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UsersCause {
    /// There is no quotation mark where one must be.
    #[error("no quotation mark before the {what}: a line is \"user\" \"secret\"")]
    Quote {
        /// The part that should be quoted.
        what: &'static str,
    },
    /// A text does not end on its line.
    #[error(
        "the {what} does not end: it ends with a quotation mark, and \"\" stands for one in it"
    )]
    Unended {
        /// The part that does not end.
        what: &'static str,
    },
    /// The secret ends in the middle of a word.
    #[error("something follows the secret: \"\" stands for a quotation mark in it")]
    Trailing,
    /// Nobody has this name, or no message could carry it.
    #[error("the {what} has {bytes} bytes: 1 to {most} are possible, without a NUL")]
    Length {
        /// The part that is too long or holds a NUL.
        what: &'static str,
        /// Its length \[byte\].
        bytes: usize,
        /// The most \[byte\].
        most: usize,
    },
    /// The user has two secrets.
    #[error("user \"{user}\" stands on line {first} already: remove one of the two lines")]
    Twice {
        /// The user.
        user: String,
        /// The other line, from 1.
        first: usize,
    },
    /// The secret cannot be read.
    #[error(transparent)]
    Secret(#[from] VerifierError),
}

impl Users {
    /// Reads a list of users: a line for each, `"user" "secret"`, where `""` stands for a quotation
    /// mark. Lines that are empty or begin with `;` or `#` say nothing, nor does what follows a
    /// blank after the secret. A user whose secret is empty is known, but has no password that fits.
    ///
    /// Each password that is stored as it is costs about a millisecond here ([`Secret::stored`]).
    ///
    /// # Errors
    /// If a line is not of this form or a user stands there twice.
    pub fn parse(text: &str, key: MockKey) -> Result<Users, UsersError> {
        Users::hashed(text, key, ITERATIONS)
    }

    /// The same, where a password that is stored as it is is hashed so many times for SCRAM.
    ///
    /// # Errors
    /// If a line is not of this form or a user stands there twice.
    pub fn hashed(text: &str, key: MockKey, iterations: NonZeroU32) -> Result<Users, UsersError> {
        let mut lines: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut users = Users {
            secrets: HashMap::new(),
            without: HashSet::new(),
            key,
            looks: Looks { kind: Kind::Scram, iterations },
        };
        let mut without = Vec::new();
        for (index, text) in text.lines().enumerate() {
            let line = index + 1;
            let failed = |cause| UsersError { line, cause };
            let Some((user, stored)) = pair(text).map_err(failed)? else { continue };
            let name = user.as_bytes().to_vec();
            if let Some(first) = lines.insert(name.clone(), line) {
                return Err(failed(UsersCause::Twice { user, first }));
            }
            if stored.is_empty() {
                without.push(name);
                continue;
            }
            let secret = Secret::hashed(&name, &stored, &users.key, iterations);
            let secret = secret.map_err(|error| failed(error.into()))?;
            users.secrets.insert(name, secret);
        }
        // Of forms that are as frequent the safest, of counts the greatest.
        let secrets = users.secrets.values();
        let kind = usual(secrets.clone().map(Secret::kind)).unwrap_or(Kind::Scram);
        let most =
            usual(secrets.filter(|one| one.kind() == kind).map(|one| one.verifier().iterations));
        users.looks = Looks { kind, iterations: most.unwrap_or(iterations) };
        for name in without {
            let secret = users.secret(&name);
            users.secrets.insert(name.clone(), secret);
            users.without.insert(name);
        }
        Ok(users)
    }

    /// The user's secret; of a user who is not known, one that nothing fits and that nobody can tell
    /// from others.
    pub fn secret(&self, user: &[u8]) -> Secret {
        let known = self.secrets.get(user).cloned();
        known.unwrap_or_else(|| Secret::mock(user, self.looks, &self.key))
    }

    /// Their names, in no order.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.secrets.keys().map(Vec::as_slice)
    }

    /// True if the user is known; for the gate's own log.
    pub fn knows(&self, user: &[u8]) -> bool {
        self.secrets.contains_key(user)
    }

    /// True if the user is known, and its line has a secret.
    pub fn has_secret(&self, user: &[u8]) -> bool {
        self.knows(user) && !self.without.contains(user)
    }

    /// With what the gate logs in at a server as a user on its own: with nothing as one that is not known,
    /// or has no secret, which a server that trusts the gate does not ask for.
    pub fn credential(&self, user: &[u8]) -> Credential {
        match self.secrets.get(user).filter(|_| self.has_secret(user)) {
            Some(secret) => secret.credential(),
            None => Credential::Nothing,
        }
    }

    /// From which the secrets of those who are not known are made.
    pub fn key(&self) -> &MockKey {
        &self.key
    }

    /// Number of users.
    pub fn len(&self) -> usize {
        self.secrets.len()
    }

    /// True if there are no users.
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }
}

/// The most frequent one; of several the greatest.
fn usual<T: Ord>(all: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    all.for_each(|one| *counts.entry(one).or_default() += 1);
    counts.into_iter().max_by_key(|&(_, count)| count).map(|(one, _)| one)
}

/// The two texts of a line that says something.
fn pair(line: &str) -> Result<Option<(String, String)>, UsersCause> {
    let line = line.trim_matches([' ', '\t', '\r']);
    if line.is_empty() || line.starts_with([';', '#']) {
        return Ok(None);
    }
    let (user, rest) = quoted(line, "user")?;
    let (secret, rest) = quoted(rest.trim_start_matches([' ', '\t']), "secret")?;
    if !rest.is_empty() && !rest.starts_with([' ', '\t']) {
        return Err(UsersCause::Trailing);
    }
    for (what, text, least, most) in
        [("user", &user, 1, USER_MAX), ("secret", &secret, 0, SECRET_MAX)]
    {
        if !(least..=most).contains(&text.len()) || text.contains('\0') {
            return Err(UsersCause::Length { what, bytes: text.len(), most });
        }
    }
    Ok(Some((user, secret)))
}

/// The text between quotation marks at the front of `line`, and what follows it.
fn quoted<'a>(line: &'a str, what: &'static str) -> Result<(String, &'a str), UsersCause> {
    let mut rest = line.strip_prefix('"').ok_or(UsersCause::Quote { what })?;
    let mut text = String::new();
    loop {
        let (part, after) = rest.split_once('"').ok_or(UsersCause::Unended { what })?;
        text.push_str(part);
        match after.strip_prefix('"') {
            Some(after) => {
                text.push('"');
                rest = after;
            }
            None => return Ok((text, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Verifier;

    fn parse(text: &str) -> Result<Users, String> {
        Users::parse(text, MockKey::new([1; 32])).map_err(|error| error.to_string())
    }

    #[test]
    fn a_list_is_read_with_its_quotation_marks() {
        let text = "; a comment\n\n# another\n\"alice\" \"se\"\"cr\"\"et\"\r\n  \"b\"\"ob\"\t\"md5\"\n\
                    \"nobody\" \"\"\n";
        let users = parse(text).unwrap();
        assert_eq!(users.len(), 3);
        assert!(users.secret(b"alice").fits(b"alice", b"se\"cr\"et"));
        assert!(users.secret(b"b\"ob").fits(b"b\"ob", b"md5"));
        assert!(users.knows(b"nobody") && !users.secret(b"nobody").fits(b"nobody", b""));
        assert!(!users.knows(b"somebody"));
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn who_has_no_secret_logs_in_at_servers_with_nothing() {
        for others in ["", "\"alice\" \"secret\"\n"] {
            let users = parse(&format!("{others}\"nobody\" \"\"\n")).unwrap();
            assert_eq!(users.credential(b"nobody"), Credential::Nothing, "{others}");
            assert_eq!(users.credential(b"somebody"), Credential::Nothing, "{others}");
            assert!(!users.has_secret(b"nobody") && !users.has_secret(b"somebody"));
            assert_eq!(users.has_secret(b"alice"), !others.is_empty());
        }
        let users = parse("\"alice\" \"secret\"\n").unwrap();
        assert_eq!(users.credential(b"alice"), Credential::Password(b"secret".to_vec()));
    }

    #[test]
    fn an_unknown_user_looks_like_most_others() {
        let md5 = format!("md5{}", "0".repeat(32));
        let kind = |text: &str| parse(text).unwrap().secret(b"unknown").kind();
        assert_eq!(kind(""), Kind::Scram);
        assert_eq!(kind(&format!("\"a\" \"{md5}\"\n\"b\" \"{md5}\"\n\"c\" \"plain\"")), Kind::Md5);
        assert_eq!(kind("\"a\" \"plain\""), Kind::Plain);
        let hashed = |times| {
            let times = NonZeroU32::new(times).unwrap();
            Verifier::derive(b"x", b"0123456789abcdef", times).to_text()
        };
        let (few, many) = (hashed(10), hashed(20));
        let users = format!("\"a\" \"{few}\"\n\"b\" \"{many}\"\n\"c\" \"{many}\"\n\"d\" \"{few}\"");
        let unknown = parse(&users).unwrap().secret(b"unknown");
        assert_eq!((unknown.kind(), unknown.verifier().iterations.get()), (Kind::Scram, 20));
    }

    #[test]
    fn a_line_that_is_none_is_refused_with_its_number() {
        let long = "x".repeat(2048);
        let refused = [
            ("\nalice secret", "line 2: no quotation mark before the user"),
            ("\"alice\" secret", "line 1: no quotation mark before the secret"),
            ("\"alice\"", "line 1: no quotation mark before the secret"),
            ("\"alice", "line 1: the user does not end"),
            ("\"alice\" \"se\"\"cret", "line 1: the secret does not end"),
            ("\"alice\" \"sec\"ret\"", "line 1: something follows the secret"),
            ("\"\" \"secret\"", "line 1: the user has 0 bytes"),
            ("\"a\0b\" \"secret\"", "line 1: the user has 3 bytes"),
            (&format!("\"a\" \"{long}\""), "line 1: the secret has 2048 bytes"),
            ("\"a\" \"x\"\n\"a\" \"y\"", "line 2: user \"a\" stands on line 1 already"),
            ("\"a\" \"SCRAM-SHA-256$1\"", "line 1: the SCRAM secret has an invalid form"),
        ];
        for (text, expected) in refused {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
            assert!(error.len() > expected.len(), "{error} says no way out");
        }
    }
}
