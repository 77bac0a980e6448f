//! Connections to a server: opened, kept for the next request, and checked before they are used
//! again.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;

use gate::Time;
use tokio::net::TcpStream;

use super::driver::Up;
use super::server::Shared;
use super::stats::UpstreamError;
use super::watch::Watch;

/// One server's connections.
#[derive(Debug)]
pub(crate) struct Pool {
    index: usize,
    address: SocketAddr,
    /// Without a request, the one longest idle first.
    idle: RefCell<Vec<(TcpStream, Time)>>,
}

impl Pool {
    pub(crate) fn new(index: usize, address: SocketAddr) -> Pool {
        Pool { index, address, idle: RefCell::default() }
    }

    /// The connection that was used last, if it still seems to be open. Asking costs no system
    /// call unless the event loop has seen something happen to it.
    pub(crate) fn take(&self, shared: &Shared) -> Option<TcpStream> {
        loop {
            let (stream, _) = self.idle.borrow_mut().pop()?;
            // Bytes that nobody asked for are as bad as an end.
            let silent = stream.try_read(&mut [0]);
            if silent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
                shared.stats.borrow_mut().upstreams[self.index].connections_reused += 1;
                return Some(stream);
            }
        }
    }

    /// Keeps a connection for the next request.
    pub(crate) fn put(&self, stream: TcpStream, shared: &Shared) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() < shared.config.limits.pool && !shared.draining.get() {
            idle.push((stream, shared.driver.now()));
        }
    }

    /// A new connection.
    ///
    /// # Errors
    /// With the kind that it is counted as.
    pub(crate) async fn connect(
        &self,
        shared: &Shared,
        watch: &Watch,
    ) -> Result<TcpStream, UpstreamError> {
        let deadline = shared.driver.now() + shared.config.timeouts.connect;
        let connected = watch.until(deadline, TcpStream::connect(self.address)).await;
        let result = match connected {
            None => Err(UpstreamError::ConnectTimeout),
            Some(Err(_)) => Err(UpstreamError::Connect),
            Some(Ok(stream)) => stream.set_nodelay(true).map(|()| stream).map_err(|_| {
                // It was reset between the two calls.
                UpstreamError::Connect
            }),
        };
        match &result {
            Ok(_) => {
                shared.tallies[self.index].passed();
                shared.stats.borrow_mut().upstreams[self.index].connections_opened += 1;
            }
            Err(error) => {
                shared.stats.borrow_mut().upstreams[self.index].count_error(*error);
                shared.tallies[self.index].failed(*error, shared);
            }
        }
        result
    }

    /// Closes what nobody has used since `before`.
    pub(crate) fn expire(&self, before: Time) {
        let mut idle = self.idle.borrow_mut();
        let stale = idle.partition_point(|(_, since)| *since < before);
        idle.drain(..stale);
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// How a server did lately: what makes it count as down or up.
#[derive(Debug)]
pub(crate) struct Tally {
    index: usize,
    failures: std::cell::Cell<u32>,
    successes: std::cell::Cell<u32>,
}

impl Tally {
    pub(crate) fn new(index: usize) -> Tally {
        Tally { index, failures: Default::default(), successes: Default::default() }
    }

    /// It was connected to, or a probe went well.
    pub(crate) fn passed(&self) {
        self.failures.set(0);
    }

    /// A probe went well: enough of them in a row and it is up.
    pub(crate) fn probed_well(&self, shared: &Shared) {
        self.passed();
        self.successes.set(self.successes.get().saturating_add(1));
        if self.successes.get() >= shared.config.health.rise {
            shared.driver.set_up(self.index, Up::Yes);
        }
    }

    /// It could not be used. A refused connection is proof; anything else is a sign.
    pub(crate) fn failed(&self, error: UpstreamError, shared: &Shared) {
        self.successes.set(0);
        self.failures.set(self.failures.get().saturating_add(1));
        let proof = error == UpstreamError::Connect;
        if proof || self.failures.get() >= shared.config.health.fall {
            shared.driver.set_up(self.index, Up::No);
        }
    }
}
