//! Users of a server of agents: what one may do, and who asks. Decided here without a connection or a clock.

use access::{CallerError, Entry, UserTable, UsersError};
use hyper::StatusCode;
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;

use crate::response::Refused;

/// Users, known by the hashes of their access tokens.
#[derive(Clone, Debug)]
pub struct Users(access::Users<Rights>);

/// A right that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// None: the server says nothing but that it lives.
    Anybody,
    /// To see states, the past, the rules, notifications, metrics.
    Read,
    /// To send messages of the file.
    Send,
    /// To declare and end agents, to change the rules, to see and send again what failed. Who has it may do everything.
    Administer,
}

/// The rights of a user.
#[derive(Clone, Copy, Debug)]
struct Rights {
    admin: bool,
    read: bool,
    send: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    name: String,
    access_token_sha256: toml::Spanned<String>,
    #[serde(default)]
    admin: bool,
    #[serde(default)]
    read: bool,
    #[serde(default)]
    send: bool,
    #[serde(default = "access::in_flight")]
    in_flight: u32,
}

impl UserTable for Table {
    const VERB: &'static str = "sekisho agents user";
    type Rights = Rights;

    fn entry(self) -> Entry<Rights> {
        let Self { name, access_token_sha256, admin, read, send, in_flight } = self;
        Entry { name, access_token_sha256, in_flight, rights: Ok(Rights { admin, read, send }) }
    }
}

impl Users {
    /// Reads a file of users (docs/agents-rules.md): tables `[[user]]` with `name`, `access_token_sha256`, and what the user
    /// may do: `read`, `send`, `admin`.
    ///
    /// # Errors
    /// [`UsersError`] with the line at fault.
    pub fn parse(text: &str) -> Result<Self, UsersError> {
        access::Users::parse::<Table>(text).map(Self)
    }

    /// Whoever sends this header `Authorization`.
    pub(crate) fn caller(&self, authorization: Option<&str>) -> Result<Caller, Refused> {
        let caller = self.0.caller(authorization).map_err(|error| match error {
            CallerError::InFlight { .. } => Refused::crowded(error.to_string()),
            _ => Refused::new(StatusCode::UNAUTHORIZED, error.to_string()),
        })?;
        Ok(Caller(Some(caller)))
    }
}

/// Whoever asks. Without users that is everybody on this machine, who may do everything.
#[derive(Debug, Default)]
pub(crate) struct Caller(Option<access::Caller<Rights>>);

impl Caller {
    /// Nothing, where the rights suffice.
    pub(crate) fn must(&self, right: Right) -> Result<(), Refused> {
        let Some(caller) = &self.0 else { return Ok(()) };
        let Rights { admin, read, send } = *caller.rights;
        let (is_enough, what) = match right {
            Right::Anybody => (true, ""),
            Right::Read => (read, "read without `read = true`"),
            Right::Send => (send, "send messages without `send = true`"),
            Right::Administer => (false, "do that without `admin = true`"),
        };
        if is_enough || admin {
            return Ok(());
        }
        Err(Refused::new(StatusCode::FORBIDDEN, caller.refused(what)))
    }

    /// The place among those in flight, for an answer that goes on.
    pub(crate) fn take_permit(&mut self) -> Option<OwnedSemaphorePermit> {
        self.0.as_mut().and_then(|caller| caller.permit.take())
    }
}

#[cfg(test)]
mod tests {
    use access::access_token_hash;

    use super::*;

    #[test]
    fn each_right_is_given_by_its_key_and_admin_gives_all() {
        let all = [Right::Anybody, Right::Read, Right::Send, Right::Administer];
        for (keys, given) in [
            ("", [true, false, false, false]),
            ("read = true", [true, true, false, false]),
            ("send = true", [true, false, true, false]),
            ("read = true\nsend = true", [true, true, true, false]),
            ("admin = true", [true, true, true, true]),
        ] {
            let hash = access_token_hash("secret");
            let head = format!("[[user]]\nname = \"ann\"\naccess_token_sha256 = \"{hash}\"\n");
            let users = Users::parse(&(head + keys)).unwrap();
            let caller = users.caller(Some("Bearer secret")).unwrap_or_else(|_| panic!("known"));
            assert_eq!(all.map(|right| caller.must(right).is_ok()), given, "{keys}");
        }
        assert!(all.iter().all(|right| Caller::default().must(*right).is_ok()));
    }

    #[test]
    fn a_file_at_fault_is_told_with_its_line() {
        let hash = access_token_hash("a");
        let one = format!("[[user]]\nname = \"ann\"\naccess_token_sha256 = \"{hash}\"\n");
        for (text, words) in [
            (String::new(), "no user; `sekisho agents user NAME`"),
            (one.clone() + "write = true\n", "line 4: unknown field `write`"),
            // A file of Jungle's users.
            (one + "read = [\"*\"]\n", "line 4: invalid type: sequence, expected a boolean"),
        ] {
            let error = Users::parse(&text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
