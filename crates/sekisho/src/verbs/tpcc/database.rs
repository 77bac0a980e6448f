//! Which database a verb works on, as the user names it.

use ::load::tpcc::{Config, SslMode};
use clap::Args as ClapArgs;

use crate::verdict::Failure;

#[derive(ClapArgs)]
pub(super) struct DatabaseArgs {
    /// The database: postgresql://USER@HOST:PORT/NAME. A password is better put into PGPASSWORD
    #[arg(long, value_name = "URL", env = "DATABASE_URL", hide_env_values = true)]
    db: Option<String>,
}

impl DatabaseArgs {
    /// Whether a database is named at all.
    pub(super) fn is_named(&self) -> bool {
        self.db.is_some()
    }

    /// How to connect to the database that is named.
    pub(super) fn named(&self) -> Result<Config, Failure> {
        const NONE: &str = "no database is named: give `--db postgresql://USER@HOST/NAME`, or set \
            DATABASE_URL";
        let url = self.db.as_ref().ok_or_else(|| Failure::Usage(NONE.into()))?;
        // The address may hold a password, so it is not repeated.
        let mut config: Config = url.parse().map_err(|error| {
            Failure::Usage(format!(
                "`--db` is no address of a database ({error}): it has the form \
                 postgresql://USER@HOST:PORT/NAME"
            ))
        })?;
        if config.get_ssl_mode() == SslMode::Require {
            return Err(Failure::Usage(
                "`--db` asks for TLS (sslmode=require), which `tpcc` does not speak: measure from \
                 within the server's network, with sslmode=disable"
                    .into(),
            ));
        }
        if config.get_password().is_none()
            && let Ok(password) = std::env::var("PGPASSWORD")
        {
            config.password(password);
        }
        Ok(config)
    }
}
