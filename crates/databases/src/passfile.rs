//! The file of passwords, `~/.pgpass` or the one that PGPASSFILE names, as PostgreSQL's own programs read it: a
//! password in it stands neither in the list of processes nor in the environment.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ::tpcc::Config;
use cli::Failure;
use tokio_postgres::config::Host;

/// Most bytes of such a file \[B\].
const BYTES_MAX: u64 = 1 << 20;

/// A place that a password is for: names of its host, port, database and user.
struct Place {
    hosts: Vec<String>,
    port: String,
    database: String,
    user: String,
}

/// The password in a file for this user in the place of a configuration; `None` if none of its lines is for it.
///
/// # Errors
/// A file that cannot be read, that others may read, or that has different passwords for the hosts that are
/// named: which of them is reached is not known before.
pub(crate) fn password(
    path: &Path,
    config: &Config,
    user: &str,
) -> Result<Option<String>, Failure> {
    let name = path.display();
    let wrong = |error: std::io::Error| {
        Failure::Usage(format!("the passwords in {name} cannot be read: {error}"))
    };
    let is = std::fs::metadata(path).map_err(wrong)?;
    if is.len() > BYTES_MAX || !is.is_file() {
        return Err(Failure::Usage(format!(
            "{name} is no file of passwords: PGPASSFILE names one"
        )));
    }
    if is.permissions().mode() & 0o077 != 0 {
        return Err(Failure::Usage(format!(
            "others can read the passwords in {name}; `chmod 600 {name}` keeps it from them"
        )));
    }
    let text = std::fs::read_to_string(path).map_err(wrong)?;
    let mut found = places(config, user).into_iter().map(|place| of_place(&text, &place));
    let first = found.next().flatten();
    match found.all(|other| other == first) {
        true => Ok(first),
        false => Err(Failure::Usage(format!(
            "{name} has different passwords for the hosts that are named: name one host"
        ))),
    }
}

/// Each host of a configuration with its port.
fn places(config: &Config, user: &str) -> Vec<Place> {
    let database = config.get_dbname().unwrap_or(user);
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => vec![name.clone()],
        // A socket of this machine has the name localhost, too.
        Host::Unix(folder) => vec![folder.display().to_string(), "localhost".to_owned()],
    });
    let mut hosts: Vec<Vec<String>> = hosts.collect();
    if hosts.is_empty() {
        hosts = config.get_hostaddrs().iter().map(|address| vec![address.to_string()]).collect();
    }
    let ports = config.get_ports();
    let port = |at: usize| ports.get(at).or(ports.first()).copied().unwrap_or(5_432).to_string();
    let all = hosts.into_iter().enumerate().map(|(at, hosts)| {
        let (database, user) = (database.to_owned(), user.to_owned());
        Place { hosts, port: port(at), database, user }
    });
    all.collect()
}

/// The password of the first line that is for a place.
fn of_place(text: &str, place: &Place) -> Option<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let fits = |pattern: &str, value: &str| pattern == "*" || unescaped(pattern) == value;
    lines.filter_map(parts).find_map(|[host, port, database, user, password]| {
        let is_for_it = place.hosts.iter().any(|name| fits(host, name))
            && fits(port, &place.port)
            && fits(database, &place.database)
            && fits(user, &place.user);
        is_for_it.then(|| unescaped(password))
    })
}

/// The five parts of a line, between colons that no backslash stands before. The last goes to the end.
fn parts(line: &str) -> Option<[&str; 5]> {
    let (mut all, mut rest) = ([""; 5], line);
    for part in &mut all[..4] {
        let mut is_escaped = false;
        let end = rest.char_indices().find(|(_, c)| {
            let is_end = *c == ':' && !is_escaped;
            is_escaped = *c == '\\' && !is_escaped;
            is_end
        });
        let (end, _) = end?;
        (*part, rest) = (&rest[..end], &rest[end + 1..]);
    }
    all[4] = rest;
    Some(all)
}

fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut all = text.chars();
    while let Some(c) = all.next() {
        plain.extend(if c == '\\' { all.next() } else { Some(c) });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with these lines that is read for a configuration, and goes.
    fn found(lines: &str, mode: u32, set: impl Fn(&mut Config)) -> Result<Option<String>, String> {
        let name = format!("passfile-{}-{:?}", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, lines).expect("a file of our own");
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&path, permissions).expect("a file of our own");
        let mut config = Config::new();
        set(&mut config);
        let user = config.get_user().unwrap_or("me");
        let told = password(&path, &config, user).map_err(|failure| failure.to_string());
        std::fs::remove_file(&path).expect("it was written");
        told
    }

    fn some(password: &str) -> Result<Option<String>, String> {
        Ok(Some(password.to_owned()))
    }

    #[test]
    fn the_first_line_for_the_place_has_the_password() {
        let lines = "# a note\nno line\nother:5432:shop:me:no\ndb:6000:shop:me:a\\:b\\\\c:d\n\
                     db:*:*:*:any\nlocalhost:5432:*:me:own\n\\:\\:1:*:*:*:six\n";
        let at = |host: &'static str, port: u16, user: Option<&'static str>| {
            found(lines, 0o600, |config| {
                config.host(host);
                config.port(port);
                config.dbname("shop");
                user.iter().for_each(|user| _ = config.user(*user));
            })
        };
        assert_eq!(at("db", 6000, Some("me")), some("a:b\\c:d"));
        assert_eq!(at("db", 6000, None), some("a:b\\c:d"), "the login's name");
        assert_eq!(at("db", 6000, Some("you")), some("any"));
        assert_eq!(at("nowhere", 5432, Some("me")), Ok(None));
        assert_eq!(at("/tmp", 5432, Some("me")), some("own"), "a socket");
        assert_eq!(at("::1", 5432, None), some("six"));
    }

    #[test]
    fn a_file_that_others_read_or_that_says_two_things_is_refused() {
        let two = |config: &mut Config| {
            config.host("a").host("b");
        };
        let open = found("*:*:*:*:x\n", 0o640, two).expect_err("others can read it");
        assert!(
            open.contains("others can read the passwords in") && open.contains("chmod 600"),
            "{open}"
        );
        assert_eq!(found("*:*:*:*:x\n", 0o600, two), some("x"));
        let different = found("a:*:*:*:x\nb:*:*:*:y\n", 0o600, two).expect_err("which of them?");
        assert!(different.contains("different passwords"), "{different}");
        found("a:*:*:*:x\n", 0o600, two).expect_err("one with, one without");
        let none = password(Path::new("/no/such"), &Config::new(), "me").expect_err("no file");
        assert!(none.to_string().contains("the passwords in /no/such cannot be read"), "{none}");
    }
}
