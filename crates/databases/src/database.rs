//! Database that a verb works on, as the user names it, and permission to do so.

use std::path::{Path, PathBuf};

use crate::passfile;
use ::load::{Reach, ReachError};
use ::tpcc::{Config, PlaceError, SslMode, Verify};
use clap::Args as ClapArgs;
use cli::Failure;
use cli::text::{next, paragraph, quoted};
use monitor::{Authorities, Negotiation, ServerTls, Tls, TlsMode, TlsVersion};

/// Folders in which PostgreSQL's own packages put the socket.
const SOCKETS: [&str; 2] = ["/var/run/postgresql", "/tmp"];
/// Variables of PostgreSQL's own programs, each of which names a database.
const NAMING: [&str; 4] = ["PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE"];
const UNVERIFIED: &str = "sslrootcert verifies nothing without sslmode=verify-full (or verify-ca): \
    add that, or leave it out";
const ANYBODY: &str = "with sslrootcert=system lets in whoever has any certificate: use \
    sslmode=verify-full";
const OF_GATES: &str = "is for `sekisho gate postgres` alone: leave it out here, where TLS 1.2 and 1.3 are spoken \
    after the server was asked for it";
const NONE: &str = "no database is named: give `--db postgresql://USER@HOST/NAME`, or set \
    DATABASE_URL, or PGHOST and PGDATABASE";

#[expect(missing_docs, reason = "a comment would become the text of the verb's help")]
#[derive(ClapArgs)]
pub struct DatabaseArgs {
    /// The database: postgresql://USER@HOST:PORT/NAME; left out, PGHOST, PGDATABASE and so on. A
    /// password is better put into PGPASSWORD, `~/.pgpass`, or the file that PGPASSFILE names
    #[arg(long, value_name = "URL", env = "DATABASE_URL", hide_env_values = true)]
    db: Option<String>,
    /// Allow a database at an address that is neither loopback nor private: say it twice
    #[arg(long, action = clap::ArgAction::Count)]
    public: u8,
}

/// Times that `--public` must be said to a verb that presses a public server, or changes it.
pub const PRESSES: u8 = 2;
/// Times for a verb that stands in front of one: that is ordinary use.
pub const STANDS_BEFORE: u8 = 1;

/// Reach of a verb that was told `--public` so often.
pub fn reach(said: u8, needed: u8) -> Reach {
    if said >= needed { Reach::Anywhere } else { Reach::Private }
}

/// Message where a verb may not reach so far, with the way out.
pub fn out_of_reach(error: &ReachError, needed: u8) -> Failure {
    let text = match (error, needed) {
        (ReachError::Public { .. }, STANDS_BEFORE) => {
            format!("{error}: `--public` says that it is the one you mean")
        }
        (ReachError::Public { .. }, _) => format!(
            "{error}: load goes to machines of your own only, unless you say that this one is \
             yours: `--public --public`"
        ),
        // Whatever stands before an @ may be part of a password.
        (ReachError::Unresolved { host, .. }, _) if host.contains('@') => {
            "the host cannot be resolved: an @ in a password is written %40".to_owned()
        }
        (ReachError::Unresolved { .. }, _) => error.to_string(),
    };
    Failure::Usage(text)
}

impl DatabaseArgs {
    /// The database at an address, for a verb that does not take one from the environment.
    pub fn at(url: &str, public: u8) -> DatabaseArgs {
        DatabaseArgs { db: Some(url.to_owned()), public }
    }

    /// The database of a command as it was typed, word by word; records keep it without secrets.
    pub fn typed(words: &[String]) -> DatabaseArgs {
        let behind = |at: usize| words.get(at + 1).cloned();
        let of_word = |(at, word): (usize, &String)| match word.strip_prefix("--db")? {
            "" => behind(at),
            rest => rest.strip_prefix('=').map(str::to_owned),
        };
        let public = words.iter().filter(|word| *word == "--public").count();
        DatabaseArgs {
            db: words.iter().enumerate().find_map(of_word),
            public: public.try_into().unwrap_or(u8::MAX),
        }
    }

    /// True if a database is named at all.
    pub fn is_named(&self) -> bool {
        self.url().is_some() || is_in_environment(&variable)
    }

    /// Reach of what presses it.
    pub fn reach(&self) -> Reach {
        reach(self.public, PRESSES)
    }

    /// Configuration to connect to the database that is named.
    pub fn named(&self) -> Result<Config, Failure> {
        address(self.url(), self.reach())
    }

    /// The same command on the same database: with what was given, and without any secret.
    pub fn again(&self, command: &str) -> String {
        let of_environment = variable("DATABASE_URL");
        let database = match self.url() {
            None => String::new(),
            url if url == of_environment.as_deref() => " --db \"$DATABASE_URL\"".to_owned(),
            Some(url) => format!(" --db {}", quoted(&without_password(url))),
        };
        format!("{command}{database}{}", " --public".repeat(self.public.into()))
    }

    /// The same command to type next.
    pub fn next(&self, command: &str) -> String {
        self.next_line(&self.again(command))
    }

    /// A line to type next, with what it needs.
    pub fn next_line(&self, line: &str) -> String {
        self.needs().map_or(String::new(), paragraph) + &next(line)
    }

    /// Sentence on what a line to type next needs: no such line has a secret that was typed.
    pub fn needs(&self) -> Option<&'static str> {
        let of_environment = variable("DATABASE_URL");
        let typed = self.url().filter(|url| Some(*url) != of_environment.as_deref());
        let has_needs = typed.is_some_and(has_password) && variable("PGPASSWORD").is_none();
        has_needs.then_some(PASSWORD)
    }

    /// The address as it was given, without its password; none where the environment has it.
    pub fn shown(&self) -> Option<String> {
        let of_environment = variable("DATABASE_URL");
        self.url().filter(|url| Some(*url) != of_environment.as_deref()).map(without_password)
    }

    /// An empty variable names nothing.
    fn url(&self) -> Option<&str> {
        self.db.as_deref().filter(|url| !url.is_empty())
    }
}

/// Configuration to connect to the database of an address; without one, to that of the environment.
/// Its names are looked up, and each of their addresses must be in reach.
fn address(url: Option<&str>, reach: Reach) -> Result<Config, Failure> {
    let (config, encryption) = match url {
        Some(url) => of_url(url)?,
        None if is_in_environment(&variable) => (Config::new(), Encryption::default()),
        None => return Err(Failure::Usage(NONE.into())),
    };
    within(encryption.completed(&variable).demanded_of(completed(config, &variable)?)?, reach)
}

/// The same place with names looked up, if it is in reach.
fn within(config: Config, reach: Reach) -> Result<Config, Failure> {
    config.within(reach).map_err(|error| match error {
        PlaceError::Reach(error) => out_of_reach(&error, PRESSES),
        error => Failure::Usage(format!("the database that is named: {error}")),
    })
}

/// Place of a server, and the encryption of what a gate sends there: an address as above, with what
/// libpq knows of encryption beyond that.
pub fn server(url: Option<&str>) -> Result<(Config, ServerTls), Failure> {
    let (config, encryption) = match url {
        Some(url) => of_url(url)?,
        None if is_in_environment(&variable) => (Config::new(), Encryption::default()),
        None => return Err(Failure::Usage(NONE.into())),
    };
    let tls = encryption.completed(&variable).of_gate()?;
    Ok((completed(config, &variable)?, tls))
}

/// The sentence before a command whose password is not printed.
const PASSWORD: &str = "The password is not printed: put it into PGPASSWORD, or into ~/.pgpass.";

/// True if an address has a password.
fn has_password(url: &str) -> bool {
    of_url(url).is_ok_and(|(config, _)| config.get_password().is_some())
}

/// An address as it was given, but for its password: PGPASSWORD has that, or the server asks for none.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return String::new() };
    // As the address is read: its user ends at the first @, whatever stands before that.
    let (user, rest) = match rest.split_once('@') {
        Some((who, rest)) => {
            let name = who.split(':').next().unwrap_or_default();
            (if name.is_empty() { String::new() } else { format!("{name}@") }, rest)
        }
        None => (String::new(), rest),
    };
    let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = place.split('/').next().unwrap_or_default();
    let place = &place[authority.rfind('@').map_or(0, |at| at + 1)..];
    let options: Vec<&str> =
        options.split('&').filter(|one| !one.is_empty() && !one.contains("password=")).collect();
    let options =
        if options.is_empty() { String::new() } else { format!("?{}", options.join("&")) };
    format!("{scheme}://{user}{place}{options}")
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn is_in_environment(variable: &dyn Fn(&str) -> Option<String>) -> bool {
    NAMING.iter().any(|name| variable(name).is_some())
}

/// The address may hold a password, so no message repeats it.
fn of_url(url: &str) -> Result<(Config, Encryption), Failure> {
    let refuse = |cause: &str| {
        Failure::Usage(format!(
            "`--db` is no address of a database ({cause}): it has the form \
             postgresql://USER@HOST:PORT/NAME"
        ))
    };
    if !url.starts_with("postgresql://") && !url.starts_with("postgres://") {
        return Err(refuse("it does not begin with postgresql://"));
    }
    let (url, encryption) = Encryption::of_url(url);
    let config: Config = url.parse().map_err(|error| refuse(&format!("{error}")))?;
    Ok((config, encryption))
}

/// Settings of encryption, in libpq's words: `sslmode`, `sslrootcert`, `sslcert`, `sslkey` and, for gates,
/// `sslnegotiation` and `ssl_min_protocol_version`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Encryption {
    mode: Option<String>,
    authorities: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
    negotiation: Option<String>,
    oldest: Option<String>,
}

impl Encryption {
    /// Settings of it in an address, and the address without them.
    fn of_url(url: &str) -> (String, Encryption) {
        let mut encryption = Encryption::default();
        let Some((place, options)) = url.split_once('?') else {
            return (url.to_owned(), encryption);
        };
        let mut others = Vec::new();
        for option in options.split('&') {
            let Some((name, value)) = option.split_once('=') else {
                others.push(option);
                continue;
            };
            let said = match name {
                "sslmode" => &mut encryption.mode,
                "sslrootcert" => &mut encryption.authorities,
                "sslcert" => &mut encryption.certificate,
                "sslkey" => &mut encryption.key,
                "sslnegotiation" => &mut encryption.negotiation,
                "ssl_min_protocol_version" => &mut encryption.oldest,
                _ => {
                    others.push(option);
                    continue;
                }
            };
            *said = Some(plain(value));
        }
        let others =
            if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
        (format!("{place}{others}"), encryption)
    }

    /// Takes what is not said from the variables of PostgreSQL's own programs.
    fn completed(self, variable: &dyn Fn(&str) -> Option<String>) -> Encryption {
        Encryption {
            mode: self.mode.or_else(|| variable("PGSSLMODE")),
            authorities: self.authorities.or_else(|| variable("PGSSLROOTCERT")),
            certificate: self.certificate.or_else(|| variable("PGSSLCERT")),
            key: self.key.or_else(|| variable("PGSSLKEY")),
            negotiation: self.negotiation.or_else(|| variable("PGSSLNEGOTIATION")),
            oldest: self.oldest.or_else(|| variable("PGSSLMINPROTOCOLVERSION")),
        }
    }

    /// The certificate that is shown to servers, if one is named.
    fn identity(&self) -> Result<Option<Tls>, Failure> {
        match (&self.certificate, &self.key) {
            (None, None) => Ok(None),
            (Some(cert), Some(key)) => Ok(Some(Tls { cert: cert.into(), key: key.into() })),
            _ => {
                let cause = "sslcert and sslkey belong together: name both, or neither";
                Err(Failure::Usage(cause.into()))
            }
        }
    }

    /// As a gate takes it. With authorities `require` verifies them too, as libpq has it.
    fn of_gate(self) -> Result<ServerTls, Failure> {
        let identity = self.identity()?;
        let wrong = |what: &str, said: &str, words: &str| {
            Failure::Usage(format!("{what} is `{}`: use {words}", said.escape_debug()))
        };
        let mode = match self.mode.as_deref() {
            None | Some("prefer") => TlsMode::Prefer,
            Some("disable") => TlsMode::Disable,
            Some("allow") => TlsMode::Allow,
            Some("require") => TlsMode::Require,
            Some("verify-ca") => TlsMode::VerifyCa,
            Some("verify-full") => TlsMode::VerifyFull,
            Some(other) => {
                let words = "disable, allow, prefer, require, verify-ca or verify-full";
                return Err(wrong("sslmode", other, words));
            }
        };
        let authorities = match (mode, self.authorities) {
            (TlsMode::Disable | TlsMode::Allow | TlsMode::Prefer, Some(_)) => {
                return Err(Failure::Usage(UNVERIFIED.into()));
            }
            (TlsMode::Require | TlsMode::VerifyCa, Some(file)) if file == "system" => {
                return Err(Failure::Usage(format!("sslmode={mode} {ANYBODY}")));
            }
            (TlsMode::VerifyFull, Some(file)) if file == "system" => of_machine()?,
            (TlsMode::VerifyCa | TlsMode::VerifyFull, None) => of_machine()?,
            (_, Some(file)) => Authorities::File(file.into()),
            (_, None) => Authorities::Unnamed,
        };
        let negotiation = match self.negotiation.as_deref() {
            None | Some("postgres") => Negotiation::Asked,
            Some("direct") => Negotiation::Direct,
            Some(other) => return Err(wrong("sslnegotiation", other, "postgres or direct")),
        };
        let oldest = match self.oldest.as_deref() {
            None | Some("TLSv1" | "TLSv1.1" | "TLSv1.2") => TlsVersion::V12,
            Some("TLSv1.3") => TlsVersion::V13,
            Some(other) => {
                return Err(wrong("ssl_min_protocol_version", other, "TLSv1.2 or TLSv1.3"));
            }
        };
        Ok(ServerTls { mode, negotiation, authorities, identity, oldest })
    }

    /// Demands it of a connection. With authorities `require` verifies them too, as libpq has it.
    fn demanded_of(self, mut config: Config) -> Result<Config, Failure> {
        if !matches!(self.negotiation.as_deref(), None | Some("postgres")) {
            return Err(Failure::Usage(format!("sslnegotiation {OF_GATES}")));
        }
        if !matches!(self.oldest.as_deref(), None | Some("TLSv1" | "TLSv1.1" | "TLSv1.2")) {
            return Err(Failure::Usage(format!("ssl_min_protocol_version {OF_GATES}")));
        }
        if let Some(Tls { cert, key }) = self.identity()? {
            let read = tls::identity(&Tls { cert: cert.clone(), key: key.clone() });
            let (certificates, secret) = read.map_err(Failure::usage)?;
            config.identify(certificates, secret).map_err(|error| {
                Failure::Usage(format!(
                    "cannot use the certificate {} with the key {}: {error}; name the key that it was made with",
                    cert.display(),
                    key.display()
                ))
            })?;
        }
        let file = self.authorities.as_deref();
        let verify = match (self.mode.as_deref(), file) {
            (Some("verify-full"), _) => Verify::AuthorityAndHost,
            (Some(mode @ ("require" | "verify-ca")), Some("system")) => {
                return Err(Failure::Usage(format!("sslmode={mode} {ANYBODY}")));
            }
            (Some("verify-ca"), _) | (Some("require"), Some(_)) => Verify::Authority,
            (Some("require"), None) => {
                config.ssl_mode(SslMode::Require);
                return Ok(config);
            }
            (None | Some("prefer" | "disable"), Some(_)) => {
                return Err(Failure::Usage(UNVERIFIED.into()));
            }
            (None | Some("prefer"), None) => return Ok(config),
            (Some("disable"), None) => {
                config.ssl_mode(SslMode::Disable);
                return Ok(config);
            }
            (Some(other), _) => {
                let other = other.escape_debug();
                return Err(Failure::Usage(format!(
                    "sslmode is `{other}`: use disable, prefer, require, verify-ca or verify-full"
                )));
            }
        };
        let found = match file {
            None | Some("system") => rustls_native_certs::load_native_certs(),
            Some(file) => rustls_native_certs::load_certs_from_paths(Some(Path::new(file)), None),
        };
        let place = file.unwrap_or("this machine's");
        let refuse = |cause: &dyn std::fmt::Display| {
            Failure::Usage(format!(
                "no authorities to verify the server with ({place}: {cause}): name a file of \
                 their certificates, as in sslrootcert=/etc/ssl/ca.pem"
            ))
        };
        match (found.certs.is_empty(), found.errors.first()) {
            (true, Some(error)) => Err(refuse(error)),
            // Of the machine's own some may be of a kind that is of no use here.
            _ => match config.verify(verify, found.certs) {
                Ok(()) => Ok(config),
                Err(error) => Err(refuse(&error)),
            },
        }
    }
}

/// The authorities that this machine knows.
fn of_machine() -> Result<Authorities, Failure> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        return Err(Failure::Usage(
            "this machine knows no authorities to verify the server with: name a file of their \
             certificates, as in sslrootcert=/etc/ssl/ca.pem"
                .into(),
        ));
    }
    Ok(Authorities::Known(
        found.certs.into_iter().map(|certificate| certificate.to_vec()).collect(),
    ))
}

/// A value of an address, with `%2F` and the like resolved.
fn plain(value: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = value.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Takes what the address leaves out from the variables of PostgreSQL's own programs.
fn completed(
    mut config: Config,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, Failure> {
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        let (names, numbers) = (variable("PGHOST"), variable("PGHOSTADDR"));
        let socket = || SOCKETS.into_iter().find(|folder| Path::new(folder).is_dir());
        let usual = names.as_deref().or(socket()).unwrap_or("localhost");
        if names.is_some() || numbers.is_none() {
            for name in usual.split(',') {
                config.host(name);
            }
        }
        for number in numbers.iter().flat_map(|all| all.split(',')) {
            let wrong = || Failure::Usage(format!("PGHOSTADDR is `{number}`, which is no address"));
            config.hostaddr(number.parse().map_err(|_| wrong())?);
        }
    }
    if config.get_ports().is_empty()
        && let Some(ports) = variable("PGPORT")
    {
        for port in ports.split(',') {
            let wrong = || Failure::Usage(format!("PGPORT is `{port}`, which is no port"));
            config.port(port.parse().map_err(|_| wrong())?);
        }
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
    if config.get_password().is_none()
        && let Some(path) = password_file(variable)
    {
        // As whom the connection logs in where nobody says it: not by USER, which may be another one, or none.
        let user = match config.get_user() {
            Some(user) => user.to_owned(),
            None => whoami::username().map_err(|error| {
                Failure::Usage(format!("the login has no name ({error}): say PGUSER"))
            })?,
        };
        let found = passfile::password(&path, &config, &user)?;
        found.iter().for_each(|password| _ = config.password(password));
    }
    Ok(config)
}

/// The file of passwords: that which is named, else the one in the login's home, if it is there.
fn password_file(variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let own = || Some(Path::new(&variable("HOME")?).join(".pgpass")).filter(|path| path.exists());
    variable("PGPASSFILE").map(PathBuf::from).or_else(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::tpcc::verify;

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
        let own = completed(url.0, &set).unwrap();
        assert_eq!(verify::name(&own), "bench at other:7000");
        assert_eq!(own.get_password(), Some(&b"mine"[..]));
    }

    #[test]
    fn the_file_in_the_home_has_the_password_if_no_other_is_named() {
        use std::os::unix::fs::PermissionsExt;
        let home = std::env::temp_dir().join(format!("passfile-home-{}", std::process::id()));
        std::fs::create_dir(&home).unwrap();
        let found = |named: Option<&str>| {
            let set = |name: &str| match name {
                "PGHOST" => Some("db".to_owned()),
                "HOME" => Some(home.display().to_string()),
                "PGPASSFILE" => named.map(str::to_owned),
                _ => None,
            };
            let all = completed(Config::new(), &set).map_err(|failure| failure.to_string())?;
            Ok(all.get_password().map(<[u8]>::to_vec))
        };
        assert_eq!(found(None), Ok(None), "it is not there");
        let path = home.join(".pgpass");
        std::fs::write(&path, "*:*:*:*:own\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let open: String = found(None).unwrap_err();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let own = found(None);
        let other = found(Some("/no/such"));
        std::fs::remove_dir_all(&home).unwrap();
        assert!(open.contains("chmod 600") && open.contains(".pgpass"), "{open}");
        assert_eq!(own, Ok(Some(b"own".to_vec())));
        assert!(other.unwrap_err().contains("/no/such"), "the named one is asked alone");
    }

    #[test]
    fn a_line_to_type_next_says_that_it_has_lost_a_password() {
        let needs = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            DatabaseArgs::typed(&words).needs()
        };
        assert_eq!(needs("x --db postgresql://me@host/db"), None);
        assert_eq!(needs("x"), None);
        assert_eq!(needs("x --db postgresql://me:word@host/db"), Some(PASSWORD));
    }

    /// Where nobody names a user, the connection is that of the login, whatever USER says. The password was once that
    /// of USER.
    #[test]
    fn the_password_of_a_file_is_that_of_whoever_logs_in() {
        use std::os::unix::fs::PermissionsExt;
        let login = whoami::username().unwrap();
        let path = std::env::temp_dir().join(format!("passfile-login-{}", std::process::id()));
        let lines = format!("*:*:*:other-than-{login}:no\n*:*:*:{login}:yes\n");
        std::fs::write(&path, lines).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let set = |name: &str| match name {
            "PGHOST" => Some("db".to_owned()),
            "PGPASSFILE" => Some(path.display().to_string()),
            "USER" => Some(format!("other-than-{login}")),
            _ => None,
        };
        let found = completed(Config::new(), &set).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(found.get_password(), Some(&b"yes"[..]));
    }

    #[test]
    fn the_database_of_a_record_is_the_one_that_was_typed() {
        let next = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            DatabaseArgs::typed(&words).again("sekisho tpcc run")
        };
        assert_eq!(next("sekisho tpcc run --warehouses 2"), "sekisho tpcc run");
        let same = "sekisho tpcc run --db postgresql://me@host/db";
        assert_eq!(next("sekisho tpcc run --db postgresql://me@host/db --json"), same);
        assert_eq!(next("sekisho tpcc run --json --db=postgresql://me@host/db"), same);
        let public = format!("{same} --public --public");
        assert_eq!(next("x --public --db postgresql://me:word@host/db --public"), public);
        assert_eq!(next("sekisho tpcc run --db"), "sekisho tpcc run");
    }

    #[test]
    fn a_command_to_type_next_has_the_database_that_was_given_and_no_secret() {
        let next = |db: &str, public| {
            let args = DatabaseArgs { db: Some(db.to_owned()), public };
            args.again("sekisho tpcc run")
        };
        for (given, shown) in [
            ("postgresql://me@host:5433/shop", "postgresql://me@host:5433/shop"),
            ("postgresql://me:se/cret@host/x", "postgresql://me@host/x"),
            ("postgresql://me:s@cret@host/x", "postgresql://me@host/x"),
            ("postgres://:secret@h1:1,h2:2/x", "postgres://h1:1,h2:2/x"),
            ("postgresql:///x?host=/tmp&password=secret", "'postgresql:///x?host=/tmp'"),
            (
                "postgresql://h/x?sslmode=require&sslrootcert=a",
                "'postgresql://h/x?sslmode=require&sslrootcert=a'",
            ),
            ("postgresql://it's@h/x", r"'postgresql://it'\''s@h/x'"),
        ] {
            let line = next(given, 0);
            assert_eq!(line, format!("sekisho tpcc run --db {shown}"));
            assert!(!line.contains("cret"), "{line}");
        }
        assert!(next("postgresql://h/x", 2).ends_with("/x --public --public"));
        let none = DatabaseArgs { db: None, public: 0 };
        assert_eq!(none.again("sekisho tpcc run"), "sekisho tpcc run");
    }

    /// Numbers alone: nothing is looked up, nothing is connected to.
    #[test]
    fn a_public_address_must_be_said_twice_wherever_it_is_named() {
        let set = |pairs: &'static [(&str, &str)]| {
            move |name: &str| {
                let found = pairs.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            }
        };
        let of_environment =
            |pairs, reach| within(completed(Config::new(), &set(pairs)).unwrap(), reach);
        let public: [&'static [(&str, &str)]; 4] = [
            &[("PGHOST", "203.0.113.1")],
            &[("PGHOSTADDR", "203.0.113.1")],
            &[("PGHOST", "127.0.0.1,203.0.113.1"), ("PGPORT", "5432,5433")],
            &[("PGHOST", "localhost"), ("PGHOSTADDR", "203.0.113.1")],
        ];
        for pairs in public {
            let error = of_environment(pairs, Reach::Private).unwrap_err().to_string();
            assert!(
                error.contains("203.0.113.1") && error.contains("`--public --public`"),
                "{error}"
            );
            assert!(of_environment(pairs, Reach::Anywhere).is_ok(), "{pairs:?}");
        }
        let own: &'static [(&str, &str)] = &[("PGHOST", "/tmp"), ("PGPORT", "6000")];
        assert!(of_environment(own, Reach::Private).is_ok());
        let of_url = |url: &str, said| {
            let (config, _) = of_url(url).unwrap();
            within(completed(config, &none).unwrap(), reach(said, PRESSES))
        };
        for url in ["postgresql://me@203.0.113.1/x", "postgres://me@127.0.0.1,203.0.113.1/x"] {
            assert!(
                of_url(url, 0).is_err() && of_url(url, 1).is_err(),
                "{url}: once is not enough"
            );
            assert!(of_url(url, 2).is_ok(), "{url}");
        }
        let host = "cret@host".to_owned();
        let error = ReachError::Unresolved { host, error: std::io::Error::other("nowhere") };
        assert!(!out_of_reach(&error, PRESSES).to_string().contains("cret"));
    }

    #[test]
    fn what_is_no_address_is_refused_without_repeating_it() {
        for url in ["host=db password=secret", "postgresql://me:secret@db:port/x", "http://secret"]
        {
            let error = of_url(url).unwrap_err().to_string();
            assert!(error.contains("postgresql://USER@HOST"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        for wrong in ["PGPORT", "PGHOSTADDR"] {
            let set = |name: &str| (name == wrong).then(|| "many".to_owned());
            assert!(completed(Config::new(), &set).unwrap_err().to_string().contains(wrong));
        }
    }

    #[test]
    fn encryption_is_demanded_in_libpq_s_words() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../sekisho/tests/fixtures/tls/ca.pem");
        let demanded = |options: &str| {
            let (config, encryption) = of_url(&format!("postgresql://db/x?{options}")).unwrap();
            encryption.completed(&none).demanded_of(config)
        };
        let mode = |options: &str| demanded(options).unwrap().get_ssl_mode();
        assert_eq!(mode("connect_timeout=5"), SslMode::Prefer);
        assert_eq!(mode("sslmode=disable"), SslMode::Disable);
        assert_eq!(mode("sslmode=require"), SslMode::Require);
        let escaped = file.replace('/', "%2F");
        let full = demanded(&format!("sslmode=verify-full&sslrootcert={escaped}")).unwrap();
        assert_eq!(full.get_ssl_mode(), SslMode::Require);
        let shown = |config: &Config| format!("{config:?}");
        assert!(shown(&full).contains("Named(1)"), "{full:?}");
        let strict = demanded(&format!("sslmode=require&sslrootcert={file}")).unwrap();
        assert!(shown(&strict).contains("Authorities(1)"), "{strict:?}");
        for (options, words) in [
            ("sslmode=allow", "use disable, prefer, require"),
            ("sslmode=verify-ca&sslrootcert=system", "sslmode=verify-full"),
            ("sslrootcert=x", "verifies nothing"),
            ("sslmode=verify-full&sslrootcert=/no/such/file", "/no/such/file"),
        ] {
            let error = demanded(options).unwrap_err().to_string();
            assert!(error.contains(words), "{options}: {error}");
        }
        let key = file.replace("ca.pem", "server.pem");
        let server = demanded(&format!("sslmode=verify-ca&sslrootcert={key}"));
        assert!(server.is_ok(), "whoever is named is trusted");
        for option in ["sslnegotiation=direct", "ssl_min_protocol_version=TLSv1.3"] {
            assert!(demanded(option).unwrap_err().to_string().contains("gate postgres"));
        }
        assert!(demanded("sslnegotiation=postgres&ssl_min_protocol_version=TLSv1.2").is_ok());
        let set = |name: &str| (name == "PGSSLMODE").then(|| "require".to_owned());
        assert_eq!(Encryption::default().completed(&set).mode.as_deref(), Some("require"));
    }

    #[test]
    fn a_certificate_is_shown_that_can_be_used() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tls/tests/certificates");
        let shown = |cert: &str, key: &str| {
            let url = format!("postgresql://db/x?sslcert={folder}/{cert}&sslkey={folder}/{key}");
            let (config, encryption) = of_url(&url).unwrap();
            encryption.completed(&none).demanded_of(config)
        };
        let config = shown("alice.pem", "leaf.key").unwrap();
        assert!(format!("{config:?}").contains("Identity(1)"), "{config:?}");
        for (cert, key, words) in [
            ("alice.pem", "server.key", "name the key that it was made with"),
            ("alice.pem", "nothing.key", "nothing.key"),
            ("nothing.pem", "leaf.key", "nothing.pem"),
            ("leaf.key", "leaf.key", "leaf.key"),
        ] {
            let error = shown(cert, key).unwrap_err().to_string();
            assert!(error.contains(words), "{cert} {key}: {error}");
        }
        for half in ["sslcert=x", "sslkey=x"] {
            let (config, encryption) = of_url(&format!("postgresql://db/x?{half}")).unwrap();
            let error = encryption.completed(&none).demanded_of(config).unwrap_err().to_string();
            assert!(error.contains("belong together"), "{half}: {error}");
        }
    }

    #[test]
    fn a_gate_takes_all_that_libpq_says_of_encryption() {
        let of = |options: &str| {
            let (_, encryption) = of_url(&format!("postgresql://db/x?{options}")).unwrap();
            encryption.completed(&none).of_gate()
        };
        let plain = ServerTls { mode: TlsMode::Prefer, ..ServerTls::default() };
        assert_eq!(of("connect_timeout=5").unwrap(), plain);
        let all = "sslmode=verify-full&sslrootcert=%2Fca.pem&sslcert=c&sslkey=k&\
                   sslnegotiation=direct&ssl_min_protocol_version=TLSv1.3";
        let wanted = ServerTls {
            mode: TlsMode::VerifyFull,
            negotiation: Negotiation::Direct,
            authorities: Authorities::File("/ca.pem".into()),
            identity: Some(Tls { cert: "c".into(), key: "k".into() }),
            oldest: TlsVersion::V13,
        };
        assert_eq!(of(all).unwrap(), wanted);
        for (options, words) in [
            ("sslmode=always", "use disable, allow, prefer"),
            ("sslrootcert=x", "verifies nothing"),
            ("sslmode=require&sslrootcert=system", "sslmode=verify-full"),
            ("sslcert=x", "belong together"),
            ("sslnegotiation=fast", "postgres or direct"),
            ("ssl_min_protocol_version=TLSv2", "TLSv1.2 or TLSv1.3"),
        ] {
            let error = of(options).unwrap_err().to_string();
            assert!(error.contains(words), "{options}: {error}");
        }
    }
}
