//! A TP monitor before a private server, and what the server's processes take of memory.

use std::fs;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ::tpcc::Host;
use cli::Failure;
use monitor::{Address, Admission, Config, Database, Finished, Handle, Monitor, StartError, Stats};
use pgwire::auth::{Credential, Method};
use pgwire::secrets::{MockKey, Users};
use postgres::Private;

/// A TP monitor in a thread of this process, before one server. It ends with this value.
#[derive(Debug)]
pub struct Gate {
    handle: Handle,
    running: Option<JoinHandle<Result<Finished, StartError>>>,
}

impl Gate {
    /// Lets so many clients in, and `slots` transactions at a time.
    ///
    /// # Errors
    /// If the monitor cannot start.
    pub fn start(to: &::tpcc::Config, slots: u32, clients: u32) -> Result<Gate, Failure> {
        Gate::over(to, clients, |name, server| Database::new(name, vec![server], slots))
    }

    /// The same before a database that is made of its name and one of its servers; clients log in as
    /// at that one, and so does the gate at all.
    ///
    /// # Errors
    /// If the monitor cannot start.
    pub fn over(
        to: &::tpcc::Config,
        clients: u32,
        database: impl FnOnce(&str, Address) -> Database,
    ) -> Result<Gate, Failure> {
        let port = to.get_ports().first().copied().unwrap_or(5432);
        let server = match to.get_hosts().first() {
            Some(Host::Tcp(name)) => format!("{name}:{port}").parse().map_err(Failure::defect)?,
            _ => return Err(Failure::Machine("the private server has no TCP address".into())),
        };
        let user = to.get_user().unwrap_or_default().as_bytes().to_vec();
        let password = to.get_password().unwrap_or_default().to_vec();
        let name = to.get_dbname().unwrap_or_default();
        let mut database = database(name, Address::Tcp(server));
        database.login = Some((user, Credential::Password(password)));
        database.gate.room = Some(u64::from(clients));
        let users = Users::parse("", MockKey::drawn()).map_err(Failure::machine)?;
        let mut config = Config::new(SocketAddr::from(([127, 0, 0, 1], 0)), vec![database], users);
        // On loopback, for the length of a demo: logging in is not what is measured.
        config.admission = Admission::Everybody(Method::Trust);
        // Besides the terminals some ask for checkpoints and settings.
        config.limits.clients = clients as usize + 16;
        let monitor = Monitor::bind(config).map_err(Failure::machine)?;
        let handle = monitor.handle();
        let running = thread::Builder::new().name("monitor".into()).spawn(|| monitor.run())?;
        Ok(Gate { handle, running: Some(running) })
    }

    /// Statistics so far.
    ///
    /// # Errors
    /// If the monitor has ended.
    pub fn stats(&self) -> Result<Stats, Failure> {
        self.handle.stats().map_err(Failure::machine)
    }

    /// Address of the gate for who means this server.
    ///
    /// # Errors
    /// If its address is none.
    pub fn before(&self, server: &Private) -> Result<::tpcc::Config, Failure> {
        let place = |port: u16| format!(":{port}/");
        let own = self.handle.address().port();
        let url = server.url().as_str().replace(&place(server.port()), &place(own));
        url.parse().map_err(Failure::defect)
    }

    /// Lets what is under way end, and says what passed.
    ///
    /// # Errors
    /// If the monitor has failed.
    pub fn stop(mut self) -> Result<Finished, Failure> {
        self.handle.drain().map_err(Failure::machine)?;
        let running = self.running.take().expect("it was not stopped yet");
        let ended = running.join().map_err(|_| Failure::Defect("the monitor panicked".into()))?;
        ended.map_err(Failure::machine)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            // Both fail only where it has ended already.
            let _ = self.handle.drain();
            let _ = running.join();
        }
    }
}

/// Looks, once, after some time, at the memory of a process and of those that it has started.
#[derive(Debug)]
pub struct Look {
    cancel: mpsc::Sender<()>,
    looking: JoinHandle<Option<Memory>>,
}

/// Memory that processes take \[byte\], shared pages divided among those who share them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// In memory.
    pub resident: u64,
    /// On the swap device.
    pub swapped: u64,
}

impl Look {
    /// Looks when `span` has passed, unless it is asked before.
    pub fn after(span: Duration, process: Option<u32>) -> Look {
        let (cancel, cancelled) = mpsc::channel();
        let looking = thread::spawn(move || {
            // Nobody sends: who has stopped waiting has dropped the other end.
            match cancelled.recv_timeout(span) {
                Err(mpsc::RecvTimeoutError::Timeout) => process.and_then(memory),
                _ => None,
            }
        });
        Look { cancel, looking }
    }

    /// Memory that it saw; `None` where it came to nothing.
    pub fn seen(self) -> Option<Memory> {
        drop(self.cancel);
        self.looking.join().ok().flatten()
    }
}

/// That of a process and of those that it has started.
fn memory(process: u32) -> Option<Memory> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
    let children = children.split_whitespace().filter_map(|word| word.parse().ok());
    // One that has ended meanwhile has no memory.
    Some(children.filter_map(own).fold(own(process)?, |all, one| Memory {
        resident: all.resident + one.resident,
        swapped: all.swapped + one.swapped,
    }))
}

/// That of one process alone.
fn own(process: u32) -> Option<Memory> {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").trim().parse().ok()?;
        Some(kilobytes * 1024)
    };
    // A kernel without swap does not speak of it.
    Some(Memory { resident: bytes("Pss:")?, swapped: bytes("SwapPss:").unwrap_or(0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_process_counts_its_children() {
        let own = std::process::id();
        let alone = memory(own).unwrap();
        assert!(alone.resident > 100_000, "{alone:?}");
        assert_eq!(memory(u32::MAX), None);
        // Whoever asks before it has looked hears nothing, so it is waited for.
        let look = Look::after(Duration::ZERO, Some(own));
        while !look.looking.is_finished() {
            thread::yield_now();
        }
        assert!(look.seen().is_some());
        assert_eq!(Look::after(Duration::from_secs(600), Some(own)).seen(), None);
    }
}
