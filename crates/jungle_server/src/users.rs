//! Users of Jungle: the trees that one may read and write, and what that means for its requests.
//! Decided here without a connection or a clock.

use std::sync::Arc;

use access::{CallerError, Entry, UserTable, UsersError};
use jungle::{Commit, Operation, Precondition, Transaction};
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;

use crate::problem::Problem;

/// Users, known by the hashes of their access tokens.
#[derive(Clone, Debug)]
pub struct Users(access::Users<Rights>);

/// The trees of a user.
#[derive(Debug)]
struct Rights {
    admin: bool,
    read: Vec<String>,
    write: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    name: String,
    access_token_sha256: toml::Spanned<String>,
    #[serde(default)]
    admin: bool,
    #[serde(default)]
    read: Vec<String>,
    #[serde(default)]
    write: Vec<String>,
    #[serde(default = "access::in_flight")]
    in_flight: u32,
}

impl UserTable for Table {
    const VERB: &'static str = "sekisho jungle user";
    type Rights = Rights;

    fn entry(self) -> Entry<Rights> {
        let Self { name, access_token_sha256, admin, read, write, in_flight } = self;
        let rights = if read.iter().chain(&write).any(String::is_empty) {
            Err("a rule names a tree, a beginning of names that ends in `/`, or `*`".to_owned())
        } else {
            Ok(Rights { admin, read, write })
        };
        Entry { name, access_token_sha256, in_flight, rights }
    }
}

impl Users {
    /// Reads a file of users (docs/jungle.md): tables `[[user]]` with `name`, `access_token_sha256`, and the trees that the
    /// user may `read` and `write`.
    ///
    /// # Errors
    /// [`UsersError`] with the line at fault.
    pub fn parse(text: &str) -> Result<Self, UsersError> {
        access::Users::parse::<Table>(text).map(Self)
    }

    /// Whoever sends this header `Authorization`.
    pub(crate) fn caller(&self, authorization: Option<&str>) -> Result<Caller, Problem> {
        let caller = self.0.caller(authorization).map_err(|error| match error {
            CallerError::InFlight { .. } => Problem {
                retry_after_s: Some(1),
                ..Problem::new(429, "in-flight", "Too many requests at once", error.to_string())
            },
            _ => Problem::new(401, "unauthorized", "Nobody is known by this", error.to_string()),
        })?;
        Ok(Caller(Some(caller)))
    }
}

/// Whoever asks. Without users that is everybody on this machine, who may do everything.
#[derive(Debug, Default)]
pub(crate) struct Caller(Option<access::Caller<Rights>>);

impl Rights {
    fn may(rules: &[String], tree: &str) -> bool {
        rules.iter().any(|rule| {
            rule == "*" || rule == tree || (rule.ends_with('/') && tree.starts_with(&**rule))
        })
    }

    fn reads(&self, tree: &str) -> bool {
        self.admin || Self::may(&self.read, tree) || Self::may(&self.write, tree)
    }

    fn writes(&self, tree: &str) -> bool {
        self.admin || Self::may(&self.write, tree)
    }
}

impl Caller {
    /// The name of the user; none on a server without users.
    pub(crate) fn name(&self) -> Option<&str> {
        self.0.as_ref().map(|caller| &*caller.name)
    }

    /// The place among those in flight, for an answer that goes on.
    pub(crate) fn take_permit(&mut self) -> Option<OwnedSemaphorePermit> {
        self.0.as_mut().and_then(|caller| caller.permit.take())
    }

    /// What a later look at commits needs of it.
    pub(crate) fn sight(&self) -> Sight {
        Sight(self.0.as_ref().map(|caller| Arc::clone(&caller.rights)))
    }

    /// Nothing, where the rights suffice.
    fn must(
        &self,
        is_enough: impl Fn(&Rights) -> bool,
        what: std::fmt::Arguments<'_>,
    ) -> Result<(), Problem> {
        let refused = self.0.as_ref().filter(|caller| !is_enough(&caller.rights));
        refused.map_or(Ok(()), |caller| {
            Err(Problem::new(403, "forbidden", "Not allowed", caller.refused(what)))
        })
    }

    /// Whether the tree is there or not, the answer is the same.
    pub(crate) fn must_read(&self, tree: &str) -> Result<(), Problem> {
        self.must(|rights| rights.reads(tree), format_args!("read tree `{tree}`"))
    }

    pub(crate) fn must_write(&self, tree: &str) -> Result<(), Problem> {
        self.must(|rights| rights.writes(tree), format_args!("write tree `{tree}`"))
    }

    /// Of what is not of one tree: metrics, backups, versions that are held.
    pub(crate) fn must_administer(&self, what: &str) -> Result<(), Problem> {
        self.must(|rights| rights.admin, format_args!("{what} without `admin = true`"))
    }

    /// The author of a commit: a user commits in no other name, unless it administers.
    pub(crate) fn author(&self, said: &str) -> Result<String, Problem> {
        let Some(name) = self.name() else { return Ok(said.to_owned()) };
        if said.is_empty() {
            return Ok(name.to_owned());
        }
        let may = |rights: &Rights| rights.admin || said == name;
        self.must(may, format_args!("commit in the name of `{said}`"))?;
        Ok(said.to_owned())
    }

    /// Every tree that a transaction reads or changes.
    pub(crate) fn must_commit(&self, transaction: &Transaction) -> Result<(), Problem> {
        if self.0.is_none() {
            return Ok(());
        }
        for condition in &transaction.preconditions {
            if let Precondition::Unchanged { tree, .. } = condition {
                self.must_read(tree)?;
            }
        }
        for operation in &transaction.operations {
            match operation {
                Operation::CreateTree { name: tree, .. }
                | Operation::DropTree { tree }
                | Operation::MakeIndex { tree, .. }
                | Operation::DropIndex { tree, .. }
                | Operation::SetRule { tree, .. }
                | Operation::Edit { tree, .. } => self.must_write(tree)?,
                Operation::RenameTree { tree, name } => {
                    self.must_write(tree)?;
                    self.must_write(name)?;
                }
                Operation::Branch { tree: from, name: into, .. }
                | Operation::Merge { from, into, .. } => {
                    self.must_read(from)?;
                    self.must_write(into)?;
                }
                // One that this server does not know cannot be allowed by it.
                _ => self.must_administer("do that")?,
            }
        }
        Ok(())
    }
}

/// The commits that a caller may see: those all of whose trees it may read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sight(Option<Arc<Rights>>);

impl Sight {
    pub(crate) fn sees(&self, commit: &Commit) -> bool {
        self.0.as_ref().is_none_or(|rights| commit.trees().all(|tree| rights.reads(tree)))
    }

    pub(crate) fn reads(&self, tree: &str) -> bool {
        self.0.as_ref().is_none_or(|rights| rights.reads(tree))
    }
}

#[cfg(test)]
mod tests {
    use access::access_token_hash;

    use super::*;

    fn users(rules: &str) -> Users {
        let hash = access_token_hash("secret");
        Users::parse(&format!(
            "[[user]]\nname = \"ann\"\naccess_token_sha256 = \"{hash}\"\n{rules}"
        ))
        .unwrap()
    }

    #[test]
    fn a_rule_is_a_name_a_beginning_or_all() {
        let caller = users("read = [\"wiki\", \"shop/\"]\nwrite = [\"shop/a\"]")
            .caller(Some("bearer secret"))
            .unwrap();
        for (tree, reads, writes) in [
            ("wiki", true, false),
            ("wiki2", false, false),
            ("shop", false, false),
            ("shop/", true, false),
            ("shop/a", true, true),
            ("shop/ab", true, false),
            ("*", false, false),
        ] {
            assert_eq!(caller.must_read(tree).is_ok(), reads, "{tree}");
            assert_eq!(caller.must_write(tree).is_ok(), writes, "{tree}");
        }
        assert!(caller.must_administer("see the metrics").is_err());
        assert_eq!(caller.author("").unwrap(), "ann");
        assert!(caller.author("bob").is_err());
    }

    #[test]
    fn a_file_at_fault_is_told_with_its_line() {
        let hash = access_token_hash("a");
        let one = format!("[[user]]\nname = \"ann\"\naccess_token_sha256 = \"{hash}\"\n");
        for (text, words) in [
            (String::new(), "no user; `sekisho jungle user NAME`"),
            (one.clone() + "read = [\"\"]\n", "line 3: user `ann`: a rule names"),
            (one + "reed = [\"*\"]\n", "line 4: unknown field `reed`"),
        ] {
            let error = Users::parse(&text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
