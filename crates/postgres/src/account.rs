//! As whom the server runs. PostgreSQL refuses root, so root's servers run as somebody else.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::process;

/// Accounts that serve where we are root, best first.
const NAMES: [&str; 2] = ["postgres", "nobody"];
const PASSWD: &str = "/etc/passwd";

/// Why there is nobody to run the server as.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The list of users cannot be read.
    #[error("cannot read {PASSWD} to find a user to run PostgreSQL as: {0}")]
    Unreadable(io::Error),
    /// Only root is there.
    #[error(
        "PostgreSQL refuses to run as root, and {PASSWD} has no other user: add one, \
         `useradd --system postgres`, or run as an ordinary user"
    )]
    Nobody,
}

/// A user that is not root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) user: u32,
    pub(crate) group: u32,
}

impl Account {
    /// The account that is to serve: `None` is the user who runs us.
    pub(crate) fn to_serve() -> Result<Option<Account>, AccountError> {
        if !process::is_root() {
            return Ok(None);
        }
        let accounts = fs::read_to_string(PASSWD).map_err(AccountError::Unreadable)?;
        Account::choose(&accounts).map(Some).ok_or(AccountError::Nobody)
    }

    /// One of the usual names, else the first user of the list that is not root: `initdb` wants a
    /// user with an entry, so a number alone will not do.
    fn choose(accounts: &str) -> Option<Account> {
        let all: Vec<Account> = accounts.lines().filter_map(Account::parse).collect();
        let usual = NAMES.iter().find_map(|name| all.iter().find(|one| one.name == *name));
        usual.or(all.first()).cloned()
    }

    fn parse(line: &str) -> Option<Account> {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?.to_owned();
        let user = fields.nth(1)?.parse().ok().filter(|user| *user != 0)?;
        let group = fields.next()?.parse().ok()?;
        Some(Account { name, user, group })
    }
}

/// Makes `command` run as `account`, without root's groups, in an environment of its own.
pub(crate) fn run_as(command: &mut Command, account: Option<&Account>) {
    command.env_clear().env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").env("LC_ALL", "C");
    command.current_dir("/").process_group(0);
    if let Some(account) = account {
        command.uid(account.user).gid(account.group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_users_come_first_and_root_never() {
        let list = "root:x:0:0::/root:/bin/sh\nbin:x:2:3::/bin:/bin/sh\n\
                    nobody:x:65534:65533::/:/bin/false\n";
        let of = |list: &str| Account::choose(list).map(|one| (one.name, one.user, one.group));
        assert_eq!(of(list), Some(("nobody".to_owned(), 65534, 65533)));
        let more = format!("{list}postgres:x:101:104:,,,:/var/lib/postgresql:/bin/bash\n");
        assert_eq!(of(&more), Some(("postgres".to_owned(), 101, 104)));
        assert_eq!(of("toor:x:0:0::/:\nbin:x:2:3::/:\n"), Some(("bin".to_owned(), 2, 3)));
        assert_eq!(of("root:x:0:0::/root:/bin/sh\n# nothing else\nbad:x:y:z\n"), None);
    }
}
