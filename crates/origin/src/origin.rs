//! The built-in origin: a real HTTP server whose work per request is known exactly.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::affinity::pin_current_thread;
use crate::board::{Board, WORKERS_MAX};
use crate::demand::{Demand, Spin, thread_cpu_ns};
use crate::document::{self, Document, DocumentError};
use crate::http::{After, Catalogue};
use crate::supervisor::{Processes, Supervised};
use crate::worker::{Open, Service, Worker};

/// Configuration of an origin: documents, cost and workers.
#[derive(Clone, Debug, PartialEq)]
pub struct OriginConfig {
    /// Served at `/<name>`.
    pub documents: Vec<Document>,
    /// The largest document that `/size/<bytes>` serves \[byte\].
    pub bytes_max: u64,
    /// The CPU time that each request costs.
    pub demand: Demand,
    /// Limit of requests served at once; 1 to 1024.
    pub workers: u32,
    /// The kind of a worker.
    pub serving: Serving,
    /// The CPU that all workers share; `None` leaves them where the caller runs.
    pub cpu: Option<usize>,
    /// Length of the kernel's queue of connections in front of the workers, first come, first
    /// served. More are dropped and come again a second later: see
    /// [`listen_overflows`](crate::listen_overflows).
    pub backlog: u32,
    /// True if a connection may carry several requests. A worker then belongs to its connection
    /// until the client closes it or is silent for 5 s, so there must be at least as many workers
    /// as connections.
    pub keep_alive: bool,
}

/// Kind of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serving {
    /// A thread of this process.
    Threads,
    /// A process that is there before the first request (fujita's helper processes). One that dies
    /// is replaced, and counted.
    PreforkedProcesses(Supervised),
    /// A process that is forked when a connection was accepted and ends with it (fujita's
    /// experiment 1). What the fork itself costs comes on top of the demand.
    ForkPerRequest(Supervised),
}

/// Why an origin did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No workers, or more than there may be.
    #[error("{workers} workers: use 1 to {WORKERS_MAX}")]
    Workers {
        /// The number that was asked for.
        workers: u32,
    },
    /// A document cannot be served.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// A demand is negative or not finite.
    #[error("{demand:?}: both numbers must be finite and not negative")]
    Demand {
        /// The demand.
        demand: Demand,
    },
    /// The kernel would silently cut the backlog.
    #[error(
        "a backlog of {backlog} connections, of which the kernel keeps {limit}: \
         use 1 to {limit}, or raise net.core.somaxconn"
    )]
    Backlog {
        /// The number that was asked for.
        backlog: u32,
        /// The kernel's limit.
        limit: u32,
    },
    /// The workers cannot run on the CPU that was named.
    #[error("cannot run on CPU {cpu}: {source}; see `taskset -p $$` for those that can be used")]
    Cpu {
        /// The CPU.
        cpu: usize,
        /// The error of the kernel.
        source: io::Error,
    },
    /// Process modes need Linux.
    #[error("worker processes need Linux; use threads here")]
    Unsupported,
    /// The process that forks the workers did not come up.
    #[error("the origin's supervisor process did not start: {reason}")]
    Supervisor {
        /// Its message, or its exit status.
        reason: String,
    },
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The purpose of the call.
        what: &'static str,
        /// The error of the kernel.
        source: io::Error,
    },
}

impl StartError {
    pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> StartError {
        move |source| StartError::System { what, source }
    }
}

/// Work of an origin so far.
///
/// Exact when no request is in service; otherwise the CPU time lacks what current requests have
/// spent. Where no request was refused or broken, [`cpu`](Usage::cpu) is
/// [`demand`](Usage::demand) plus [`overrun`](Usage::overrun) plus each worker's last end of a
/// connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Responses with a document that were handed to the kernel whole.
    pub served: u64,
    /// Requests answered with an error status.
    pub refused: u64,
    /// Responses with a document that the client did not take to the end.
    pub broken: u64,
    /// Served requests whose own overhead (accept, parse, send) was more than their demand. A few
    /// are interrupts, or time that a virtual machine's host took away, which its clocks count as
    /// used; many mean that the demand is below what a request costs anyway.
    pub overruns: u64,
    /// The CPU time by which they went beyond.
    pub overrun: Duration,
    /// Requests in service now.
    pub in_service: u32,
    /// The most requests that were in service at once.
    pub in_service_max: u32,
    /// Worker processes that died and were replaced.
    pub lost: u32,
    /// The sum of the demands of the requests served.
    pub demand: Duration,
    /// The CPU time that the workers used since they were ready, as the kernel counts it. Not in it: the
    /// accept and fork by the supervisor in [`Serving::ForkPerRequest`], and network interrupts
    /// while others run.
    pub cpu: Duration,
}

/// The memory that worker processes cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Number of worker processes.
    pub workers: u32,
    /// Their proportional set size in all: own pages, and their share of those they share \[byte\].
    pub workers_pss: u64,
    /// That of the process which forks them \[byte\].
    pub control_pss: u64,
}

/// A running origin; ends when dropped.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    board: Arc<Board>,
    running: Running,
}

#[derive(Debug)]
enum Running {
    Threads(Threads),
    Processes(Processes),
}

impl std::fmt::Debug for Board {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Board").finish_non_exhaustive()
    }
}

impl Origin {
    /// Starts an origin on a free port of 127.0.0.1. When this returns, all workers are ready.
    ///
    /// # Errors
    /// If the configuration is not sound, or the system refuses what it asks for; nothing is left
    /// running then.
    pub fn start(config: &OriginConfig) -> Result<Origin, StartError> {
        config.check()?;
        let listener = listen(config.backlog)?;
        let address =
            listener.local_addr().map_err(StartError::system("read the listener's address"))?;
        let (board, running) = match config.serving {
            Serving::Threads => {
                let board = Board::anonymous().map_err(StartError::system("map the counters"))?;
                let board = Arc::new(board);
                let threads = Threads::start(config, listener, Arc::clone(&board))?;
                (board, Running::Threads(threads))
            }
            Serving::PreforkedProcesses(_) | Serving::ForkPerRequest(_) => {
                let (board, processes) = Processes::start(config, &listener)?;
                (Arc::new(board), Running::Processes(processes))
            }
        };
        Ok(Origin { address, board, running })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its work so far.
    pub fn usage(&self) -> Usage {
        let board = &self.board;
        // First, so that a request seen out of service is seen in all that follows.
        let in_service = board.in_service();
        let ended = board.ended_cpu_ns.load(Ordering::Relaxed);
        let live: i64 = board.workers.iter().map(|row| row.cpu_ns.load(Ordering::Relaxed)).sum();
        Usage {
            served: board.served.load(Ordering::Relaxed),
            refused: board.refused.load(Ordering::Relaxed),
            broken: board.broken.load(Ordering::Relaxed),
            overruns: board.overruns.load(Ordering::Relaxed),
            overrun: Duration::from_nanos(board.overrun_ns.load(Ordering::Relaxed)),
            in_service,
            in_service_max: board.in_service_max.load(Ordering::Relaxed),
            lost: board.lost.load(Ordering::Relaxed),
            demand: Duration::from_nanos(board.demand_ns.load(Ordering::Relaxed)),
            cpu: Duration::from_nanos(ended + live.unsigned_abs()),
        }
    }

    /// The processes it consists of: first the one that forks, then the workers; empty where
    /// workers are threads.
    pub fn pids(&self) -> Vec<u32> {
        match &self.running {
            Running::Threads(_) => Vec::new(),
            Running::Processes(processes) => {
                let worker_pids =
                    self.board.workers.iter().map(|row| {
                        u32::try_from(row.pid.load(Ordering::Relaxed)).unwrap_or_default()
                    });
                std::iter::once(processes.pid()).chain(worker_pids.filter(|&pid| pid > 0)).collect()
            }
        }
    }

    /// The memory of its processes; `None` where workers are threads and so share the caller's.
    ///
    /// # Errors
    /// If the kernel does not show a process's memory (`/proc/<pid>/smaps_rollup`).
    pub fn memory(&self) -> io::Result<Option<Memory>> {
        match self.pids().split_first() {
            None => Ok(None),
            Some((&control, workers)) => crate::kernel::memory(control, workers).map(Some),
        }
    }

    /// Ends it: threads are joined, processes killed and reaped. Returns what it did in all.
    pub fn stop(mut self) -> Usage {
        self.end();
        self.usage()
    }

    fn end(&mut self) {
        match &mut self.running {
            Running::Threads(threads) => threads.end(&self.board),
            Running::Processes(processes) => processes.end(),
        }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.end();
    }
}

impl OriginConfig {
    fn check(&self) -> Result<(), StartError> {
        let workers = self.workers;
        if !(1..=WORKERS_MAX as u32).contains(&workers) {
            return Err(StartError::Workers { workers });
        }
        if !self.demand.is_sound() {
            return Err(StartError::Demand { demand: self.demand });
        }
        document::check(&self.documents)?;
        Ok(())
    }

    pub(crate) fn service(&self) -> Service {
        Service {
            catalogue: Catalogue::new(&self.documents, self.bytes_max),
            demand: self.demand,
            after: if self.keep_alive { After::Keep } else { After::Close },
            spin: Spin::calibrate(),
        }
    }
}

/// A listener on a free port whose queue has exactly the length asked for.
#[allow(unsafe_code)]
fn listen(backlog: u32) -> Result<TcpListener, StartError> {
    let limit = crate::kernel::backlog_max();
    if !(1..=limit).contains(&backlog) {
        return Err(StartError::Backlog { backlog, limit });
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .map_err(StartError::system("listen on a free port of 127.0.0.1"))?;
    // A second `listen` changes the length that the first one chose.
    // SAFETY: the descriptor is the open listener's.
    let result = unsafe { libc::listen(listener.as_raw_fd(), backlog as libc::c_int) };
    if result != 0 {
        return Err(StartError::system("set the backlog")(io::Error::last_os_error()));
    }
    Ok(listener)
}

/// Workers that are threads.
#[derive(Debug)]
struct Threads {
    listener: Arc<TcpListener>,
    workers: Vec<(JoinHandle<()>, Arc<Open>)>,
}

impl Threads {
    fn start(
        config: &OriginConfig,
        listener: TcpListener,
        board: Arc<Board>,
    ) -> Result<Threads, StartError> {
        let service = Arc::new(config.service());
        let mut threads = Threads { listener: Arc::new(listener), workers: Vec::new() };
        let (ready, all_ready) = mpsc::channel();
        let mut result = Ok(());
        for row in 0..config.workers as usize {
            let open = Arc::new(Open::default());
            let (service, board) = (Arc::clone(&service), Arc::clone(&board));
            let (listener, its_open) = (Arc::clone(&threads.listener), Arc::clone(&open));
            let (ready, cpu) = (ready.clone(), config.cpu);
            let thread = thread::Builder::new().name(format!("origin-{row}")).spawn(move || {
                let pinned = cpu.map_or(Ok(()), pin_current_thread);
                let runs = pinned.is_ok();
                // The other end only goes away when nobody needs the answer any more.
                let _ = ready.send(pinned);
                drop(ready);
                if runs {
                    Worker::new(&service, &board, row, &its_open, thread_cpu_ns()).run(&listener);
                }
            });
            match thread {
                Ok(thread) => threads.workers.push((thread, open)),
                Err(error) => {
                    result = Err(StartError::system("start a thread")(error));
                    break;
                }
            }
        }
        drop(ready);
        for pinned in all_ready {
            if let (Err(source), Some(cpu)) = (pinned, config.cpu) {
                result = Err(StartError::Cpu { cpu, source });
            }
        }
        if result.is_err() {
            threads.end(&board);
        }
        result.map(|()| threads)
    }

    fn end(&mut self, board: &Board) {
        board.stopping.store(true, Ordering::SeqCst);
        wake_acceptors(&self.listener, self.workers.len());
        self.workers.iter().for_each(|(_, open)| open.shut_down());
        for (thread, _) in self.workers.drain(..) {
            thread.join().expect("a worker does not panic");
        }
    }
}

/// Makes all threads that wait in `accept` return.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn wake_acceptors(listener: &TcpListener, _threads: usize) {
    // SAFETY: the descriptor is the open listener's. On Linux this ends every `accept` on it.
    unsafe { libc::shutdown(listener.as_raw_fd(), libc::SHUT_RDWR) };
}

/// Makes all threads that wait in `accept` return: elsewhere only a connection does.
#[cfg(not(target_os = "linux"))]
fn wake_acceptors(listener: &TcpListener, threads: usize) {
    if let Ok(address) = listener.local_addr() {
        for _ in 0..threads {
            let _ = std::net::TcpStream::connect_timeout(&address, Duration::from_secs(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> OriginConfig {
        OriginConfig {
            documents: vec![Document { name: "a".to_owned(), bytes: 1 }],
            bytes_max: 0,
            demand: Demand { per_byte_s: 0.0, base_s: 0.0 },
            workers: 1,
            serving: Serving::Threads,
            cpu: None,
            backlog: 16,
            keep_alive: false,
        }
    }

    #[test]
    fn a_configuration_that_cannot_be_kept_is_refused() {
        let refused = |change: fn(&mut OriginConfig)| {
            let mut config = config();
            change(&mut config);
            Origin::start(&config).map(Origin::stop).unwrap_err()
        };
        assert!(matches!(refused(|c| c.workers = 0), StartError::Workers { .. }));
        assert!(matches!(refused(|c| c.workers = 1025), StartError::Workers { .. }));
        assert!(matches!(refused(|c| c.demand.base_s = -1.0), StartError::Demand { .. }));
        assert!(matches!(refused(|c| c.backlog = 0), StartError::Backlog { .. }));
        assert!(matches!(refused(|c| c.backlog = u32::MAX), StartError::Backlog { .. }));
        let bad = refused(|c| c.documents[0].name = "../etc".to_owned());
        assert!(matches!(bad, StartError::Document(DocumentError::Name { .. })));
        assert!(Origin::start(&config()).is_ok());
    }

    #[test]
    fn a_cpu_that_cannot_be_had_is_refused() {
        let config = OriginConfig { cpu: Some(60_000), ..config() };
        let error = Origin::start(&config).unwrap_err();
        assert!(matches!(error, StartError::Cpu { cpu: 60_000, .. }), "{error}");
    }
}
