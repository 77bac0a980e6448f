//! Connections to a server: opened, kept for the next request, and checked before they are used
//! again.

use std::cell::{Cell, RefCell};
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
        if idle.len() < shared.config().limits.pool && shared.is_open() {
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
        let deadline = shared.driver.now() + shared.config().timeouts.connect;
        let connected = watch.until(deadline, TcpStream::connect(self.address)).await;
        let result = match connected {
            None => Err(UpstreamError::ConnectTimeout),
            Some(Err(_)) => Err(UpstreamError::Connect),
            Some(Ok(stream)) => stream.set_nodelay(true).map(|()| stream).map_err(|_| {
                // It was reset between the two calls.
                UpstreamError::Connect
            }),
        };
        {
            let stats = &mut shared.stats.borrow_mut().upstreams[self.index];
            match &result {
                Ok(_) => stats.connections_opened += 1,
                Err(error) => stats.count_error(*error),
            }
        }
        shared.tally(self.index).request(result.as_ref().map(drop).map_err(|e| *e), shared);
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

/// Recent results of a server, which make it count as down or up.
#[derive(Debug)]
pub(crate) struct Tally {
    index: usize,
    /// Requests in a row that could not connect.
    requests_failed: Cell<u32>,
    /// Probes in a row that went wrong. Apart from the requests: a sick server that can still be
    /// connected to must not be kept up by those who do.
    probes_failed: Cell<u32>,
    probes_passed: Cell<u32>,
}

impl Tally {
    pub(crate) fn new(index: usize) -> Tally {
        let zero = || Cell::new(0);
        Tally { index, requests_failed: zero(), probes_failed: zero(), probes_passed: zero() }
    }

    /// A request connected to it, or could not.
    fn request(&self, result: Result<(), UpstreamError>, shared: &Shared) {
        match result {
            Ok(()) => self.requests_failed.set(0),
            Err(error) => self.failed(&self.requests_failed, error, shared),
        }
    }

    /// A probe went well: enough of them in a row and it is up; or it did not.
    pub(crate) fn probe(&self, result: Result<(), UpstreamError>, shared: &Shared) {
        match result {
            Ok(()) => {
                self.requests_failed.set(0);
                self.probes_failed.set(0);
                self.probes_passed.set(self.probes_passed.get().saturating_add(1));
                if self.probes_passed.get() >= shared.config().health.rise {
                    shared.set_up(self.index, Up::Yes, None);
                }
            }
            Err(error) => self.failed(&self.probes_failed, error, shared),
        }
    }

    /// It could not be used. A refused connection is proof; anything else is a sign.
    fn failed(&self, count: &Cell<u32>, error: UpstreamError, shared: &Shared) {
        self.probes_passed.set(0);
        count.set(count.get().saturating_add(1));
        let proof = error == UpstreamError::Connect;
        if proof || count.get() >= shared.config().health.fall {
            shared.set_up(self.index, Up::No, Some(error));
        }
    }
}
