//! Checks of a start: whether what is asked for can be had from the system and from the servers. A start
//! that cannot work says so; one that may come to work says what is missing.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;
use std::{fmt, thread};

use ::tpcc::{Allowance, Config as Place, Host, allowance};
use cli::Failure;
use cli::text::sentence;
use monitor::Address;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Time for which a server is waited for at the start.
const PATIENCE: Duration = Duration::from_secs(1);
/// Servers that are tried at once.
const AT_ONCE: usize = 16;
/// File descriptors of a gate beside those of clients and servers: listeners, logs, the live page.
const OWN: u64 = 64;

/// File descriptors that a gate may need, and what asks for them.
pub(super) struct Descriptors<'d> {
    /// Clients at most.
    pub(super) clients: u64,
    /// The flag or the key of the file that says so.
    pub(super) clients_by: &'d str,
    /// Connections to servers at most.
    pub(super) servers: u64,
}

impl Descriptors<'_> {
    /// Raises the limit of the process as far as it goes, and sees whether it is enough.
    pub(super) fn secured(&self) -> Result<(), Failure> {
        let mut limit = getrlimit(Resource::Nofile);
        if limit.current < limit.maximum || (limit.current.is_some() && limit.maximum.is_none()) {
            let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
            // A system that refuses leaves it as it is.
            if setrlimit(Resource::Nofile, raised).is_ok() {
                limit = raised;
            }
        }
        self.judged(limit.current)
    }

    /// Compares with what the system gives; `None` is without a limit.
    fn judged(&self, given: Option<u64>) -> Result<(), Failure> {
        let needed = self.clients.saturating_add(self.servers).saturating_add(OWN);
        let Some(given) = given.filter(|given| *given < needed) else { return Ok(()) };
        let possible = given.saturating_sub(self.servers).saturating_sub(OWN);
        let less = match possible {
            0 => "fewer slots".to_owned(),
            clients => format!("`{} {clients}`", self.clients_by),
        };
        Err(Failure::Usage(format!(
            "`{} {}` and {} slots need {needed} file descriptors, and the system gives this process {given}: \
             say {less}, or raise that limit (`ulimit -n {needed}`, in a unit of systemd LimitNOFILE={needed})",
            self.clients_by, self.clients, self.servers,
        )))
    }
}

/// Says on standard error what is remarkable about a start.
pub(super) fn note(text: &str) {
    // Who closed standard error does not want to know.
    let _ = write!(std::io::stderr(), "{}", sentence(&format!("note: {text}")));
}

/// A server behind a gate, as a start tries it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ServerPlace {
    /// On the network.
    Tcp(SocketAddr),
    /// On a Unix socket.
    Unix(PathBuf),
}

impl ServerPlace {
    fn connect(&self) -> io::Result<()> {
        match self {
            ServerPlace::Tcp(address) => TcpStream::connect_timeout(address, PATIENCE).map(drop),
            ServerPlace::Unix(path) => UnixStream::connect(path).map(drop),
        }
    }
}

impl fmt::Display for ServerPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerPlace::Tcp(address) => address.fmt(f),
            ServerPlace::Unix(path) => path.display().fmt(f),
        }
    }
}

/// Words about servers that do not answer.
pub(super) struct Unanswered<'w> {
    /// The flag or the key of the file that names them.
    pub(super) by: String,
    /// Fate of those who come meanwhile.
    pub(super) meanwhile: &'w str,
    /// True if the gate has `/readyz`.
    pub(super) has_page: bool,
}

/// Connects to each server once, and says which do not answer: the gate goes on, as they may come later. Returns
/// their numbers.
pub(super) fn try_servers(servers: &[ServerPlace], words: &Unanswered<'_>) -> Vec<usize> {
    let mut down = Vec::new();
    for some in servers.chunks(AT_ONCE) {
        let tries: Vec<_> = some
            .iter()
            .cloned()
            .map(|server| thread::spawn(move || server.connect().err()))
            .collect();
        for tried in tries {
            let error = tried.join().expect("to connect does not panic");
            down.push(error);
        }
    }
    let all_down = down.iter().all(Option::is_some);
    for (server, error) in servers.iter().zip(&down) {
        let Some(error) = error else { continue };
        note(&words.of(&server.to_string(), &error.to_string(), all_down));
    }
    (0..).zip(down).filter_map(|(at, error)| error.map(|_| at)).collect()
}

impl Unanswered<'_> {
    /// The note on a server: the cause, the way out, and what happens meanwhile.
    fn of(&self, server: &str, cause: &str, all_down: bool) -> String {
        let Unanswered { by, meanwhile, has_page } = self;
        let ready = match (all_down, has_page) {
            (true, true) => "; until one answers, /readyz says 503",
            _ => "",
        };
        format!(
            "the server {server} does not answer ({cause}): start it, or correct {by}. Meanwhile \
             {meanwhile}{ready}"
        )
    }
}

/// Waits on a thread of its own until one of the servers answers, and says so then.
pub(super) fn await_servers(servers: Vec<ServerPlace>, answers: impl FnOnce() + Send + 'static) {
    thread::spawn(move || {
        let found = loop {
            match servers.iter().find(|server| server.connect().is_ok()) {
                Some(server) => break server,
                None => thread::sleep(PATIENCE),
            }
        };
        note(&format!("the server {found} answers"));
        answers();
    });
}

/// A PostgreSQL server, and the connections that a pool may have to it.
pub(super) struct Asked {
    pub(super) place: Place,
    /// Its addresses.
    pub(super) places: Vec<ServerPlace>,
    pub(super) slots: u32,
    /// The flag or the key of the file that says the slots.
    pub(super) by: String,
    /// True if the slots are a limit that may never be reached.
    pub(super) is_ceiling: bool,
}

/// The servers of a gate before PostgreSQL as a start tries them. A name without an address is told elsewhere.
pub(super) fn places_of(servers: &[Address]) -> Vec<ServerPlace> {
    let place = |server: &Address| match server {
        Address::Tcp(address) | Address::Host { address, .. } => Some(ServerPlace::Tcp(*address)),
        Address::Unix(path) => Some(ServerPlace::Unix(path.clone())),
        Address::Unresolved { .. } => None,
    };
    servers.iter().filter_map(place).collect()
}

/// Asks each PostgreSQL server that [answers](try_servers) how many connections it gives, as the user that the gate
/// logs in as. What cannot be asked is told: the gate goes on, as that may change.
///
/// # Errors
/// If more slots are asked for than a server gives connections.
pub(super) fn try_databases(all: Vec<Asked>, down: &[ServerPlace]) -> Result<(), Failure> {
    for Asked { place, places, slots, by, is_ceiling } in all {
        if places.iter().all(|place| down.contains(place)) {
            continue;
        }
        let (told, answer) = mpsc::channel();
        let name = name(&place);
        thread::spawn(move || {
            // Whoever asked may have gone on.
            let _ = told.send(allowance(&place).map_err(|error| error.to_string()));
        });
        match answer.recv_timeout(2 * PATIENCE) {
            Ok(Ok(given)) if given.connections < slots => {
                let Allowance { connections, by: why } = given;
                let text = format!(
                    "`{by} {slots}` is more than the server {name} gives: {connections} connections ({why})"
                );
                if !is_ceiling {
                    let way = format!("say `{by} {connections}`, or raise that limit");
                    return Err(Failure::Usage(format!("{text}; {way}")));
                }
                note(&text);
            }
            Ok(Ok(_)) => {}
            Ok(Err(error)) => note(&format!(
                "the server {name} did not say how many connections it gives, so `{by} {slots}` may be too many: \
                 {error}"
            )),
            Err(_) => note(&format!(
                "the server {name} accepts connections and says nothing: see whether PostgreSQL is there"
            )),
        }
    }
    Ok(())
}

/// A server in words.
fn name(place: &Place) -> String {
    let port = place.get_ports().first().copied().unwrap_or(5432);
    match (place.get_hosts().first(), place.get_hostaddrs().first()) {
        (Some(Host::Tcp(host)), _) => format!("{host}:{port}"),
        (Some(Host::Unix(folder)), _) => folder.display().to_string(),
        (None, Some(address)) => format!("{address}:{port}"),
        (None, None) => format!("port {port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_above_what_the_system_gives_is_told_with_what_would_do() {
        let asked = Descriptors { clients: 10_000, clients_by: "--clients-max", servers: 20 };
        assert!(asked.judged(None).is_ok());
        assert!(asked.judged(Some(10_084)).is_ok());
        let error = asked.judged(Some(1024)).unwrap_err().to_string();
        assert!(error.starts_with("`--clients-max 10000` and 20 slots need 10084 file"), "{error}");
        assert!(error.contains("gives this process 1024: say `--clients-max 940`"), "{error}");
        let error = asked.judged(Some(50)).unwrap_err().to_string();
        assert!(error.contains("say fewer slots"), "{error}");
    }
}
