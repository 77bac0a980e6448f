//! Users of a server: who asks, by the access token that is sent along, and the rights that the server's file gives him.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toml::Spanned;

/// Requests of a user that may be in flight where the file does not say how many.
pub const IN_FLIGHT: u32 = 64;
/// The most that it may say.
pub const IN_FLIGHT_MAX: u32 = 10_000;

/// [`IN_FLIGHT`], for a field that may be left out.
pub fn in_flight() -> u32 {
    IN_FLIGHT
}

/// A table `[[user]]` of a server's file, with the keys that its rights have there. It refuses unknown keys.
pub trait UserTable: DeserializeOwned {
    /// The command that prints the lines of a user.
    const VERB: &'static str;
    /// The rights of a user.
    type Rights: std::fmt::Debug;

    /// Its parts.
    fn entry(self) -> Entry<Self::Rights>;
}

/// The parts of a user's table.
#[derive(Debug)]
pub struct Entry<R> {
    /// The name, one for each user.
    pub name: String,
    /// The hash of the access token: 64 hexadecimal digits.
    pub access_token_sha256: Spanned<String>,
    /// Requests and streams at once, 1 to [`IN_FLIGHT_MAX`].
    pub in_flight: u32,
    /// The rights, or the cause why they are none.
    pub rights: Result<R, String>,
}

/// Users with their rights, known by the hashes of their access tokens.
#[derive(Debug)]
pub struct Users<R>(Arc<HashMap<[u8; 32], User<R>>>);

// Not derived: the rights need not be copied.
impl<R> Clone for Users<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[derive(Debug)]
struct User<R> {
    name: Arc<str>,
    rights: Arc<R>,
    in_flight: Arc<Semaphore>,
    in_flight_max: u32,
}

/// A file of users that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UsersError(String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File<T> {
    #[serde(default = "Vec::new")]
    user: Vec<T>,
}

/// The hash under which an access token stands in a file of users: SHA-256, in hexadecimal digits. Access tokens are drawn from
/// 256 bits, so a hash that is slow would hold up nobody but the server.
pub fn access_token_hash(token: &str) -> String {
    let hash = Sha256::digest(token.as_bytes());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of 64 hexadecimal digits.
fn hash_of(digits: &str) -> Option<[u8; 32]> {
    if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut hash = [0; 32];
    for (byte, pair) in hash.iter_mut().zip(digits.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(hash)
}

impl<R: std::fmt::Debug> Users<R> {
    /// Reads a file of users: tables `[[user]]` with `name`, `access_token_sha256`, `in_flight` and the server's rights.
    ///
    /// # Errors
    /// [`UsersError`] with the line at fault.
    pub fn parse<T: UserTable<Rights = R>>(text: &str) -> Result<Self, UsersError> {
        let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
        let file: File<T> = toml::from_str(text).map_err(|error| {
            let at =
                error.span().map_or(String::new(), |span| format!("line {}: ", line(span.start)));
            UsersError(format!("{at}{}", error.message()))
        })?;
        if file.user.is_empty() {
            let none = format!("it has no user; `{} NAME` prints the lines of one", T::VERB);
            return Err(UsersError(none));
        }
        let (mut users, mut names) = (HashMap::new(), HashSet::new());
        for table in file.user {
            let Entry { name, access_token_sha256, in_flight, rights } = table.entry();
            let line = line(access_token_sha256.span().start);
            let wrong = |cause: String| UsersError(format!("line {line}: user `{name}`: {cause}"));
            if name.is_empty() || !names.insert(name.clone()) {
                return Err(wrong("each user has a name of its own".to_owned()));
            }
            let hash = hash_of(access_token_sha256.get_ref()).ok_or_else(|| {
                wrong(format!(
                    "`access_token_sha256` is not 64 hexadecimal digits; `{} NAME` prints them",
                    T::VERB
                ))
            })?;
            if !(1..=IN_FLIGHT_MAX).contains(&in_flight) {
                return Err(wrong(format!("`in_flight` is 1 to {IN_FLIGHT_MAX}")));
            }
            let user = User {
                name: name.as_str().into(),
                rights: Arc::new(rights.map_err(wrong)?),
                in_flight: Arc::new(Semaphore::new(in_flight as usize)),
                in_flight_max: in_flight,
            };
            if users.insert(hash, user).is_some() {
                return Err(wrong(
                    "another user has this access token; draw one for each".to_owned(),
                ));
            }
        }
        Ok(Self(Arc::new(users)))
    }
}

impl<R> Users<R> {
    /// Whoever sends this header `Authorization`.
    ///
    /// # Errors
    /// [`CallerError`].
    pub fn caller(&self, authorization: Option<&str>) -> Result<Caller<R>, CallerError> {
        let said = authorization.ok_or(CallerError::Unsaid)?;
        let token =
            said.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let (_, token) = token.ok_or(CallerError::Scheme)?;
        // Of hashes nothing is learned by the time that a comparison takes: whoever could choose one would have the token.
        let hash: [u8; 32] = Sha256::digest(token.trim().as_bytes()).into();
        let user = self.0.get(&hash).ok_or(CallerError::Unknown)?;
        let permit = Arc::clone(&user.in_flight).try_acquire_owned();
        let full =
            |_| CallerError::InFlight { max: user.in_flight_max, user: user.name.to_string() };
        let (name, rights) = (Arc::clone(&user.name), Arc::clone(&user.rights));
        Ok(Caller { name, rights, permit: Some(permit.map_err(full)?) })
    }
}

/// A user who asks.
#[derive(Debug)]
pub struct Caller<R> {
    /// The name.
    pub name: Arc<str>,
    /// The rights.
    pub rights: Arc<R>,
    /// A place among those of the user that may be in flight, held until the answer is made or the stream ends.
    pub permit: Option<OwnedSemaphorePermit>,
}

impl<R> Caller<R> {
    /// The cause that is told where a right is missing: `what` is the deed, such as `read tree x`.
    pub fn refused(&self, what: impl std::fmt::Display) -> String {
        format!("user `{}` may not {what}; ask whoever keeps the file of users", self.name)
    }
}

/// The reason why nobody is let in. The first three are answered 401, the last one 429.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallerError {
    /// There is no header.
    #[error("this server has users: send `Authorization: Bearer ACCESS-TOKEN`")]
    Unsaid,
    /// The header is of another scheme.
    #[error("`Authorization` is of another scheme; `Bearer ACCESS-TOKEN` is wanted")]
    Scheme,
    /// The access token is nobody's.
    #[error("no user has this access token")]
    Unknown,
    /// The user has as many requests in flight as there may be.
    #[error(
        "{max} requests and streams of user `{user}` are in flight, as many as there may be; wait for one \
         to end, or raise `in_flight`"
    )]
    InFlight {
        /// The most.
        max: u32,
        /// The user.
        user: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Table {
        name: String,
        access_token_sha256: Spanned<String>,
        #[serde(default = "in_flight")]
        in_flight: u32,
        #[serde(default)]
        colour: String,
    }

    impl UserTable for Table {
        const VERB: &'static str = "sekisho x user";
        type Rights = String;

        fn entry(self) -> Entry<String> {
            let Self { name, access_token_sha256, in_flight, colour } = self;
            let rights =
                if colour == "red" { Err("`red` is no colour".to_owned()) } else { Ok(colour) };
            Entry { name, access_token_sha256, in_flight, rights }
        }
    }

    fn one(name: &str, hash: &str) -> String {
        format!("[[user]]\nname = \"{name}\"\naccess_token_sha256 = \"{hash}\"\n")
    }

    #[test]
    fn a_file_at_fault_is_told_with_its_line() {
        let hash = access_token_hash("a");
        for (text, words) in [
            (String::new(), "no user; `sekisho x user NAME` prints"),
            (one("ann", "abc"), "line 3: user `ann`: `access_token_sha256`"),
            (one("ann", &"+1".repeat(32)), "line 3: user `ann`: `access_token_sha256`"),
            (one("ann", &hash) + &one("bob", &hash), "line 6: user `bob`: another user"),
            (one("ann", &hash) + &one("ann", &access_token_hash("b")), "name of its own"),
            (one("", &hash), "name of its own"),
            (one("ann", &hash) + "in_flight = 0\n", "1 to 10000"),
            (one("ann", &hash) + "in_flight = 10001\n", "1 to 10000"),
            (one("ann", &hash) + "colour = \"red\"\n", "line 3: user `ann`: `red` is no colour"),
            (one("ann", &hash) + "color = \"blue\"\n", "line 4: unknown field `color`"),
            ("[[user]\n".to_owned(), "line 1"),
            ("[[user]]\nname = \"ann\"\n".to_owned(), "missing field `access_token_sha256`"),
        ] {
            let error = Users::parse::<Table>(&text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_caller_is_whoever_has_the_access_token() {
        let text = one("ann", &access_token_hash("a")) + "in_flight = 1\ncolour = \"blue\"\n";
        let users = Users::parse::<Table>(&(text + &one("bob", &access_token_hash("b")))).unwrap();
        let refused = |said: Option<&str>| users.caller(said).map(|_| ()).unwrap_err();
        assert_eq!(refused(None), CallerError::Unsaid);
        assert_eq!(refused(Some("Basic YTph")), CallerError::Scheme);
        assert_eq!(refused(Some("a")), CallerError::Scheme);
        for said in
            ["Bearer A", "Bearer ", "Bearer aa", &format!("Bearer {}", access_token_hash("a"))]
        {
            assert_eq!(refused(Some(said)), CallerError::Unknown, "{said}");
        }
        let caller = users.caller(Some("bearer a ")).unwrap();
        assert_eq!((&*caller.name, &**caller.rights), ("ann", "blue"));
        let full = CallerError::InFlight { max: 1, user: "ann".to_owned() };
        assert_eq!(refused(Some("Bearer a")), full);
        assert_eq!(&*users.clone().caller(Some("Bearer b")).unwrap().name, "bob");
        drop(caller);
        assert!(users.caller(Some("Bearer a")).is_ok(), "the place is free again");
    }
}
