//! Which database a verb works on, as the user names it.

use ::load::tpcc::{Config, SslMode};
use clap::Args as ClapArgs;

use crate::verdict::Failure;

/// Where PostgreSQL's own packages put the socket.
const SOCKETS: [&str; 2] = ["/var/run/postgresql", "/tmp"];
/// Variables of PostgreSQL's own programs, each of which names a database.
const NAMING: [&str; 4] = ["PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE"];
const NONE: &str = "no database is named: give `--db postgresql://USER@HOST/NAME`, or set \
    DATABASE_URL, or PGHOST and PGDATABASE";

#[derive(ClapArgs)]
pub(super) struct DatabaseArgs {
    /// The database: postgresql://USER@HOST:PORT/NAME; left out, PGHOST, PGDATABASE and so on. A
    /// password is better put into PGPASSWORD
    #[arg(long, value_name = "URL", env = "DATABASE_URL", hide_env_values = true)]
    db: Option<String>,
}

impl DatabaseArgs {
    /// Whether a database is named at all.
    pub(super) fn is_named(&self) -> bool {
        self.url().is_some() || is_in_environment(&variable)
    }

    /// How to connect to the database that is named.
    pub(super) fn named(&self) -> Result<Config, Failure> {
        if !self.is_named() {
            return Err(Failure::Usage(NONE.into()));
        }
        completed(self.url().map_or(Ok(Config::new()), of_url)?, &variable)
    }

    /// An empty variable names nothing.
    fn url(&self) -> Option<&str> {
        self.db.as_deref().filter(|url| !url.is_empty())
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn is_in_environment(variable: &dyn Fn(&str) -> Option<String>) -> bool {
    NAMING.iter().any(|name| variable(name).is_some())
}

/// The address may hold a password, so no message repeats it.
fn of_url(url: &str) -> Result<Config, Failure> {
    let refuse = |cause: &str| {
        Failure::Usage(format!(
            "`--db` is no address of a database ({cause}): it has the form \
             postgresql://USER@HOST:PORT/NAME"
        ))
    };
    if !url.starts_with("postgresql://") && !url.starts_with("postgres://") {
        return Err(refuse("it does not begin with postgresql://"));
    }
    let config: Config = url.parse().map_err(|error| refuse(&format!("{error}")))?;
    if config.get_ssl_mode() == SslMode::Require {
        return Err(Failure::Usage(
            "`--db` asks for TLS (sslmode=require), which `tpcc` does not speak: measure from \
             within the server's network, with sslmode=disable"
                .into(),
        ));
    }
    Ok(config)
}

/// What the address leaves out comes from the variables of PostgreSQL's own programs.
fn completed(
    mut config: Config,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, Failure> {
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        let socket = || SOCKETS.into_iter().find(|folder| std::path::Path::new(folder).is_dir());
        let host = variable("PGHOST").or_else(|| variable("PGHOSTADDR"));
        config.host(host.as_deref().or(socket()).unwrap_or("localhost"));
    }
    if config.get_ports().is_empty()
        && let Some(port) = variable("PGPORT")
    {
        let wrong = || Failure::Usage(format!("PGPORT is `{port}`, which is no port"));
        config.port(port.parse().map_err(|_| wrong())?);
    }
    if config.get_dbname().is_none()
        && let Some(name) = variable("PGDATABASE")
    {
        config.dbname(name);
    }
    if config.get_user().is_none()
        && let Some(user) = variable("PGUSER")
    {
        config.user(user);
    }
    if config.get_password().is_none()
        && let Some(password) = variable("PGPASSWORD")
    {
        config.password(password);
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::load::tpcc::verify;

    fn none(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn an_address_says_where_and_the_environment_says_the_rest() {
        let set = |name: &str| match name {
            "PGHOST" => Some("db".to_owned()),
            "PGPORT" => Some("6000".to_owned()),
            "PGDATABASE" => Some("tpcc".to_owned()),
            "PGPASSWORD" => Some("secret".to_owned()),
            _ => None,
        };
        assert!(is_in_environment(&set) && !is_in_environment(&none));
        let all = completed(Config::new(), &set).unwrap();
        assert_eq!(verify::name(&all), "tpcc at db:6000");
        assert_eq!(all.get_password(), Some(&b"secret"[..]));
        let url = of_url("postgresql://me:mine@other:7000/bench").unwrap();
        let own = completed(url, &set).unwrap();
        assert_eq!(verify::name(&own), "bench at other:7000");
        assert_eq!(own.get_password(), Some(&b"mine"[..]));
    }

    #[test]
    fn what_is_no_address_is_refused_without_repeating_it() {
        for url in ["host=db password=secret", "postgresql://me:secret@db:port/x", "http://secret"]
        {
            let error = of_url(url).unwrap_err().to_string();
            assert!(error.contains("postgresql://USER@HOST"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        let error = of_url("postgresql://db/x?sslmode=require").unwrap_err().to_string();
        assert!(error.contains("sslmode=disable"), "{error}");
        let port = |_: &str| Some("many".to_owned());
        assert!(completed(Config::new(), &port).unwrap_err().to_string().contains("PGPORT"));
    }
}
