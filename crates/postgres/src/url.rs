//! The address of a server with its password, which no log and no debug output shows by accident.

use std::fmt;

/// A connection string as PostgreSQL's own programs and drivers take it, password included.
#[derive(Clone, PartialEq, Eq)]
pub struct Url(String);

impl Url {
    /// `host` is a name, an address, or the folder of a socket.
    pub(crate) fn new(user: &str, password: &str, host: &str, port: u16, database: &str) -> Url {
        let [password, host] = [password, host].map(percent);
        Url(format!("postgresql://{user}:{password}@{host}:{port}/{database}"))
    }

    /// The whole text; who has it may do everything on the server.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.0.rsplit('@').next().unwrap_or_default();
        write!(out, "Url(postgresql://***@{place})")
    }
}

/// A host may be a folder, whose slashes would end it.
fn percent(host: &str) -> String {
    host.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_a_host_and_the_password_stays_out_of_debug_output() {
        let url = Url::new("me", "secret", "/var/tmp/a b", 5433, "postgres");
        assert_eq!(url.as_str(), "postgresql://me:secret@%2Fvar%2Ftmp%2Fa%20b:5433/postgres");
        let shown = format!("{url:?}");
        assert!(!shown.contains("secret") && shown.contains(":5433/postgres"), "{shown}");
    }
}
