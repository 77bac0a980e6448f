//! Checks of a start: whether what is asked for can be had from the system and from the servers. A start
//! that cannot work says so; one that may come to work says what is missing.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use ::tpcc::{Allowance, Config as Place, Host, allowance};
use cli::Failure;
use cli::text::sentence;
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

/// Connects to each server once, and says which do not answer: the gate goes on, as they may come later.
pub(super) fn try_servers(servers: &[SocketAddr], meanwhile: &str) {
    for some in servers.chunks(AT_ONCE) {
        let tries: Vec<_> = some
            .iter()
            .map(|&server| {
                let connect = move || TcpStream::connect_timeout(&server, PATIENCE).map(drop);
                (server, std::thread::spawn(connect))
            })
            .collect();
        for (server, tried) in tries {
            if let Ok(Err(error)) = tried.join() {
                note(&format!("the server {server} does not answer ({error}); {meanwhile}"));
            }
        }
    }
}

/// A PostgreSQL server, and the connections that a pool may have to it.
pub(super) struct Asked {
    pub(super) place: Place,
    pub(super) slots: u32,
    /// The flag or the key of the file that says the slots.
    pub(super) by: String,
    /// True if the slots are a limit that may never be reached.
    pub(super) is_ceiling: bool,
}

/// Asks each PostgreSQL server how many connections it gives, as the user that the gate logs in as. What does not
/// answer is told: the gate goes on, as it may come later.
///
/// # Errors
/// If more slots are asked for than a server gives connections.
pub(super) fn try_databases(all: Vec<Asked>) -> Result<(), Failure> {
    for Asked { place, slots, by, is_ceiling } in all {
        let (told, answer) = mpsc::channel();
        let name = name(&place);
        std::thread::spawn(move || {
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
            Ok(Err(error)) => note(&format!("the server {name}: {error}; clients wait for it")),
            Err(_) => note(&format!("the server {name} does not answer; clients wait for it")),
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
