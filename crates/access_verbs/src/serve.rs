//! The arguments of a server that say who may come.

use std::path::PathBuf;

use access::{Access, UsersError};
use clap::Args as ClapArgs;
use cli::Failure;
use tls::Tls;

/// The most MiB of a file of users.
pub(crate) const USERS_MAX_MIB: u64 = 16;

#[expect(missing_docs, reason = "a comment would become a part of the verb's help")]
#[derive(ClapArgs)]
pub struct AccessArgs {
    /// A file of users: the hashes of their access tokens, and what they may do
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// The certificate of the server and its chain, PEM; clients then speak TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl AccessArgs {
    /// Who may come, by a server's own reading of a file of users.
    ///
    /// # Errors
    /// The file cannot be read, or has a fault, which is told with its line.
    pub fn access<U>(
        &self,
        parse: impl Fn(&str) -> Result<U, UsersError>,
    ) -> Result<Access<U>, Failure> {
        let users = self.users.as_ref().map(|file| {
            let place = file.display();
            let text = formats::bounded::text(file, USERS_MAX_MIB)
                .map_err(|error| Failure::Usage(format!("{place}: {error}")))?;
            parse(&text).map_err(|error| Failure::Usage(format!("{place}: {error}")))
        });
        let files = self.tls_cert.as_ref().zip(self.tls_key.as_ref());
        let tls = files.map(|(cert, key)| Tls { cert: cert.clone(), key: key.clone() });
        Ok(Access { users: users.transpose()?, tls })
    }

    /// The scheme of the server's address.
    pub fn scheme(&self) -> &'static str {
        if self.tls_cert.is_some() { "https" } else { "http" }
    }

    /// True if whoever asks needs an access token.
    pub fn has_users(&self) -> bool {
        self.users.is_some()
    }
}
