//! A real server behind a real gate, in this process.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use httpgate::{Config, Finished, Handle, Server, StartError};
use origin::{Demand, Document, Origin, OriginConfig, Serving};

use crate::records::{COST, DOCUMENTS};

/// Those that press real servers go one after the other: two at once would measure each other.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static LIVE: Mutex<()> = Mutex::new(());
    // It guards no value, so one that panicked with it has broken nothing.
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The server: [`DOCUMENTS`], each at [`COST`], all work on one processor.
pub(crate) fn server() -> Origin {
    let cpu = origin::allowed_cpus().expect("the kernel tells").last().copied();
    Origin::start(&OriginConfig {
        documents: DOCUMENTS
            .iter()
            .map(|&(name, bytes, _)| Document { name: name.into(), bytes })
            .collect(),
        bytes_max: 1_000_000,
        demand: Demand { per_byte_s: COST.0, base_s: COST.1 },
        workers: 40,
        serving: Serving::Threads,
        cpu,
        backlog: 64,
        keep_alive: true,
    })
    .expect("a server on loopback")
}

/// The file that tells `measure` of [`DOCUMENTS`].
pub(crate) fn write_documents(path: &Path) {
    let document = |(name, bytes, weight): &(&str, u64, u32)| {
        format!("[[document]]\nname = \"{name}\"\nsize = \"{bytes}B\"\nweight = {weight}\n")
    };
    let text: String = DOCUMENTS.iter().map(document).collect();
    std::fs::write(path, text).expect("the folder is there");
}

/// A gate that is recorded.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) gate: Handle,
    running: JoinHandle<Result<Finished, StartError>>,
}

impl Recorded {
    /// A gate of so many slots in front of the server at this address.
    pub(crate) fn before(address: SocketAddr, slots: u32) -> Recorded {
        let anywhere: SocketAddr = "127.0.0.1:0".parse().expect("it is an address");
        let mut config = Config::new(anywhere, vec![address], slots);
        config.record_max = 200_000;
        let server = Server::bind(config).expect("a gate on loopback");
        let gate = server.handle();
        Recorded { gate, running: thread::spawn(move || server.run()) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.gate.address())
    }

    /// Lets out what is in, and returns what the gate counted and recorded.
    pub(crate) fn stop(self) -> Finished {
        self.gate.drain().expect("the gate runs");
        let finished = self.running.join().expect("the gate does not panic");
        finished.expect("the gate ends well")
    }
}
