//! User name maps, as in PostgreSQL's `pg_ident.conf`: the users that a name of the system, or of a
//! certificate, may come in as.

use thiserror::Error;

use super::hba::{HbaCause, Word, fields};

/// The maps, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentMaps {
    rows: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    map: String,
    system: String,
    user: User,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum User {
    /// Any.
    All,
    Named(String),
}

/// Why the maps cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {cause}")]
pub struct IdentError {
    /// The line, from 1.
    pub line: usize,
    /// The cause, and what to do.
    pub cause: IdentCause,
}

/// Fault in a line of the maps.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IdentCause {
    /// It is not three words.
    #[error("a line is MAPNAME SYSTEM-USERNAME DATABASE-USERNAME, and nothing else")]
    Words,
    /// Something that the gate does not read.
    #[error("{what} \"{word}\" is not read: name each")]
    Unread {
        /// The thing that cannot be read.
        what: &'static str,
        /// The word that stands there.
        word: String,
    },
    /// It cannot be cut into words.
    #[error(transparent)]
    Text(#[from] HbaCause),
}

impl IdentMaps {
    /// Reads maps in the format of `pg_ident.conf`: names as they are, and `all` for any user.
    ///
    /// # Errors
    /// If a line is none, or has a regular expression or the members of a role.
    pub fn parse(text: &str) -> Result<IdentMaps, IdentError> {
        let mut rows = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let failed = |cause| IdentError { line, cause };
            let fields = fields(text).map_err(|cause| failed(cause.into()))?;
            if !fields.is_empty() {
                rows.push(row(fields).map_err(failed)?);
            }
        }
        Ok(IdentMaps { rows })
    }

    /// True if there is a map of this name.
    pub fn has(&self, map: &str) -> bool {
        self.rows.iter().any(|row| row.map == map)
    }

    /// True if somebody of this name of the system may come in as a user. Without a map the names
    /// must be the same.
    pub fn allow(&self, map: Option<&str>, system: &[u8], user: &[u8]) -> bool {
        let Some(map) = map else { return system == user };
        self.rows.iter().any(|row| {
            let is_user = match &row.user {
                User::All => true,
                User::Named(name) => name.as_bytes() == user,
            };
            row.map == map && row.system.as_bytes() == system && is_user
        })
    }
}

fn row(fields: Vec<Vec<Word>>) -> Result<Row, IdentCause> {
    let words: Option<Vec<Word>> = fields
        .into_iter()
        .map(|list| <[Word; 1]>::try_from(list).map(|[word]| word).ok())
        .collect();
    let words = words.and_then(|words| <[Word; 3]>::try_from(words).ok());
    let [map, system, user] = words.ok_or(IdentCause::Words)?;
    let unread = |what, word: &Word| Err(IdentCause::Unread { what, word: word.text.clone() });
    for word in [&system, &user] {
        if word.text.starts_with('/') {
            return unread("the regular expression", word);
        }
    }
    let user = match user.keyword() {
        "all" => User::All,
        text if text.starts_with('+') => return unread("the role", &user),
        _ => User::Named(user.text),
    };
    Ok(Row { map: map.text, system: system.text, user })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_says_who_may_come_in_as_whom() {
        let text = "# office\noffice  bob  clerk\noffice \"ann lee\" all\nother root \"all\"\n";
        let maps = IdentMaps::parse(text).unwrap();
        for (map, system, user, allowed) in [
            (Some("office"), "bob", "clerk", true),
            (Some("office"), "bob", "bob", false),
            (Some("office"), "ann lee", "whoever", true),
            (Some("other"), "root", "clerk", false),
            (Some("other"), "root", "all", true),
            (Some("none"), "bob", "bob", false),
            (None, "bob", "bob", true),
            (None, "bob", "clerk", false),
        ] {
            let found = maps.allow(map, system.as_bytes(), user.as_bytes());
            assert_eq!(found, allowed, "{map:?} {system} {user}");
        }
        assert!(maps.has("office") && !maps.has("none"));
        for (text, told) in [
            ("\na b", "line 2: a line is MAPNAME"),
            ("a b c d", "line 1: a line is MAPNAME"),
            ("a b,c d", "line 1: a line is MAPNAME"),
            ("a /^x d", "line 1: the regular expression \"/^x\" is not read"),
            ("a b +c", "line 1: the role \"+c\" is not read"),
            ("a \"b c", "line 1: a quotation mark"),
        ] {
            let error = IdentMaps::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(told), "{error}");
        }
    }
}
