//! Users of a server of agents: what one may do, and who asks. Decided here without a connection or a clock.

use std::sync::Arc;

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
    /// To declare, end and silence agents.
    Declare,
    /// To change the rules, to see and send again what failed. Who has it may do everything.
    Administer,
}

/// The rights of a user.
#[derive(Debug)]
struct Rights {
    admin: bool,
    read: bool,
    send: bool,
    declare: bool,
    reach: Reach,
}

/// The agents that a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// None.
    Nothing,
    /// The one that its path names.
    Named,
    /// Those that its body or its query names, or all that its answer shows of those the user may see.
    Listed,
    /// All.
    Everything,
}

/// The agents of a user: all, or those of some rules.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach(Option<Arc<[String]>>);

impl Reach {
    /// True if it covers an agent of this name.
    pub(crate) fn covers(&self, agent: &str) -> bool {
        let Some(rules) = &self.0 else { return true };
        rules.iter().any(|rule| {
            rule == "*" || rule == agent || (rule.ends_with('/') && agent.starts_with(&**rule))
        })
    }

    /// True if it covers whatever there is.
    pub(crate) fn is_all(&self) -> bool {
        self.0.as_ref().is_none_or(|rules| rules.iter().any(|rule| rule == "*"))
    }
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
    #[serde(default)]
    declare: bool,
    agents: Option<Vec<String>>,
    #[serde(default = "access::in_flight")]
    in_flight: u32,
}

impl UserTable for Table {
    const VERB: &'static str = "sekisho agents user";
    type Rights = Rights;

    fn entry(self) -> Entry<Rights> {
        let Self { name, access_token_sha256, admin, read, send, declare, agents, in_flight } =
            self;
        let rights = match &agents {
            Some(rules) if rules.is_empty() || rules.iter().any(String::is_empty) => {
                Err("`agents` names agents, beginnings of names that end in `/`, or `*`".to_owned())
            }
            Some(_) if admin => Err(
                "`admin = true` is for all agents: leave `agents` out, or give `read`, `send` and `declare`"
                    .to_owned(),
            ),
            _ => {
                let reach = Reach(agents.map(Into::into));
                Ok(Rights { admin, read, send, declare, reach })
            }
        };
        Entry { name, access_token_sha256, in_flight, rights }
    }
}

impl Users {
    /// Reads a file of users (docs/agents-rules.md): tables `[[user]]` with `name`, `access_token_sha256`, and what the user
    /// may do: `read`, `send`, `declare`, `admin`; with `agents` to some agents alone.
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
        let Rights { admin, read, send, declare, .. } = *caller.rights;
        let (is_enough, what) = match right {
            Right::Anybody => (true, ""),
            Right::Read => (read, "read without `read = true`"),
            Right::Send => (send, "send messages without `send = true`"),
            Right::Declare => (declare, "declare and end agents without `declare = true`"),
            Right::Administer => (false, "do that without `admin = true`"),
        };
        if is_enough || admin {
            return Ok(());
        }
        Err(Refused::new(StatusCode::FORBIDDEN, caller.refused(what)))
    }

    /// The agents that it may see and change.
    pub(crate) fn reach(&self) -> Reach {
        self.0.as_ref().map_or_else(Reach::default, |caller| caller.rights.reach.clone())
    }

    /// The user's name, if it has some agents alone.
    pub(crate) fn limited(&self) -> Option<&str> {
        let limited = self.0.as_ref().filter(|caller| !caller.rights.reach.is_all());
        limited.map(|caller| &*caller.name)
    }

    /// Nothing, where the user may see and change this agent. Whether it is there or not, the answer is the same.
    pub(crate) fn must_reach(&self, agent: &str) -> Result<(), Refused> {
        let cause = || format!("ask about agent `{agent}`, which is none of its `agents`");
        self.must_cover(self.reach().covers(agent), cause)
    }

    /// Nothing, where the user may see and change all agents.
    pub(crate) fn must_reach_all(&self) -> Result<(), Refused> {
        self.must_cover(self.reach().is_all(), || {
            "do what is about all agents: it has some alone".to_owned()
        })
    }

    fn must_cover(&self, is_enough: bool, cause: impl Fn() -> String) -> Result<(), Refused> {
        let refused = self.0.as_ref().filter(|_| !is_enough);
        refused.map_or(Ok(()), |it| Err(Refused::new(StatusCode::FORBIDDEN, it.refused(cause()))))
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
        let all = [Right::Anybody, Right::Read, Right::Send, Right::Declare, Right::Administer];
        for (keys, given) in [
            ("", [true, false, false, false, false]),
            ("read = true", [true, true, false, false, false]),
            ("send = true", [true, false, true, false, false]),
            ("declare = true", [true, false, false, true, false]),
            ("read = true\nsend = true", [true, true, true, false, false]),
            ("admin = true", [true, true, true, true, true]),
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
    fn rules_name_an_agent_a_beginning_or_all() {
        for (rules, agent, is_covered) in [
            ("[\"alice\"]", "alice", true),
            ("[\"alice\"]", "alice2", false),
            ("[\"alice\"]", "alic", false),
            ("[\"acme/\"]", "acme/alice", true),
            ("[\"acme/\"]", "acme/", true),
            ("[\"acme/\"]", "acme", false),
            ("[\"acme/\"]", "acme2/alice", false),
            ("[\"acme/\"]", "Acme/alice", false),
            ("[\"acme\"]", "acme/alice", false),
            ("[\"b/\", \"acme/\"]", "acme/alice", true),
            ("[\"*\"]", "acme", true),
        ] {
            let hash = access_token_hash("secret");
            let head = format!("[[user]]\nname = \"ann\"\naccess_token_sha256 = \"{hash}\"\n");
            let users = Users::parse(&format!("{head}read = true\nagents = {rules}")).unwrap();
            let caller = users.caller(Some("Bearer secret")).unwrap_or_else(|_| panic!("known"));
            assert_eq!(caller.must_reach(agent).is_ok(), is_covered, "{rules} {agent}");
            assert_eq!(caller.must_reach_all().is_ok(), rules == "[\"*\"]", "{rules}");
        }
        assert!(Caller::default().must_reach("a").is_ok());
        assert!(Caller::default().must_reach_all().is_ok());
    }

    #[test]
    fn a_file_at_fault_is_told_with_its_line() {
        let hash = access_token_hash("a");
        let one = format!("[[user]]\nname = \"ann\"\naccess_token_sha256 = \"{hash}\"\n");
        for (text, words) in [
            (String::new(), "no user; `sekisho agents user NAME`"),
            (one.clone() + "write = true\n", "line 4: unknown field `write`"),
            (one.clone() + "agents = []\n", "user `ann`: `agents` names agents, beginnings"),
            (one.clone() + "agents = [\"\"]\n", "user `ann`: `agents` names agents, beginnings"),
            (
                one.clone() + "admin = true\nagents = [\"a/\"]\n",
                "user `ann`: `admin = true` is for all agents: leave `agents` out",
            ),
            // A file of Jungle's users.
            (one + "read = [\"*\"]\n", "line 4: invalid type: sequence, expected a boolean"),
        ] {
            let error = Users::parse(&text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
