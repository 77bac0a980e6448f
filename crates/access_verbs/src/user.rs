//! A user that is made: its access token is drawn and shown once, and the lines by which a server knows it are kept.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use access::{UsersError, access_token_hash};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cli::Failure;
use cli::text::{next, shell_word};
use ring::rand::{SecureRandom as _, SystemRandom};
use schemars::JsonSchema;
use serde::Serialize;

use crate::serve::USERS_MAX_MIB;

/// A user with its access token.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UserMade {
    /// The user.
    pub name: String,
    /// The access token, which is kept nowhere.
    pub access_token: String,
    /// Its hash, by which a server knows it.
    pub access_token_sha256: String,
    /// The file of users that the lines were added to.
    pub users_file: Option<PathBuf>,
}

/// A text as it stands in a file of users.
pub fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Draws the access token of a user, and the lines of its table. `rights` are the lines of its rights, and the access token
/// begins with `prefix`.
///
/// # Errors
/// The system gives no random bytes.
pub fn draw(name: &str, prefix: &str, rights: &str) -> Result<(UserMade, String), Failure> {
    let mut bytes = [0; 32];
    let drawn = SystemRandom::new().fill(&mut bytes);
    drawn.map_err(|_| Failure::Machine("the system gives no random bytes".into()))?;
    let access_token = format!("{prefix}_{}", URL_SAFE_NO_PAD.encode(bytes));
    let hash = access_token_hash(&access_token);
    let (name, key) = (name.to_owned(), quoted(name));
    let lines = format!("[[user]]\nname = {key}\naccess_token_sha256 = \"{hash}\"\n{rights}");
    let made = UserMade { name, access_token, access_token_sha256: hash, users_file: None };
    Ok((made, lines))
}

impl UserMade {
    /// Adds the lines to a file of users, if it is one that a server can use then; without a file they are checked alone.
    ///
    /// # Errors
    /// The file cannot be read or written, or has a fault.
    pub fn keep<U>(
        &mut self,
        lines: &str,
        file: Option<&Path>,
        parse: impl Fn(&str) -> Result<U, UsersError>,
    ) -> Result<(), Failure> {
        let Some(file) = file else {
            return parse(lines).map(|_| ()).map_err(Failure::usage);
        };
        add(file, lines, parse)?;
        self.users_file = Some(file.to_owned());
        Ok(())
    }

    /// The access token, and where its lines are; `serve` is the command that starts a server.
    pub fn told(&self, lines: &str, serve: &str) -> String {
        let text =
            format!("access token of {}, shown this once:\n{}\n", self.name, self.access_token);
        match &self.users_file {
            Some(file) => {
                let place = file.display().to_string().replace(char::is_control, "?");
                let then = next(&format!("{serve} --users {}", shell_word(file)));
                format!("{text}its lines stand in {place}\n{then}")
            }
            None => format!("{text}lines for the file of users (`{serve} --users FILE`):\n{lines}"),
        }
    }
}

fn add<U>(
    file: &Path,
    lines: &str,
    parse: impl Fn(&str) -> Result<U, UsersError>,
) -> Result<(), Failure> {
    let place = file.display();
    let before = match formats::bounded::text(file, USERS_MAX_MIB) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(Failure::Usage(format!("{place}: {error}"))),
    };
    let gap = if before.is_empty() { "" } else { "\n" };
    let text = format!("{before}{gap}{lines}");
    let wrong = |error: UsersError| Failure::Usage(format!("{place}: {error}; nothing is added"));
    parse(&text).map_err(wrong)?;
    // Beside it first: a file that is cut off would shut everybody out.
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let beside = file.with_file_name(name);
    let written = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&beside)
        .and_then(|mut open| open.write_all(text.as_bytes()).and_then(|()| open.sync_all()))
        .and_then(|()| fs::rename(&beside, file));
    written.map_err(|error| Failure::Usage(format!("{place}: {error}; nothing is added")))
}
