//! Probes of the servers behind: whether one that is down is up again, and, if a path is named for
//! it, whether one that is up still answers.

use std::net::SocketAddr;
use std::rc::Rc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::config::{Config, Probe};
use super::message::{Asked, HeadScan, Response, room};
use super::server::Shared;
use super::stats::UpstreamError;

/// Probes one server at every interval. Never ends.
pub(crate) async fn watch(shared: Rc<Shared>, server: usize) {
    loop {
        tokio::time::sleep(shared.config().health.interval).await;
        let config = shared.config();
        if config.health.probe == Probe::Connect && shared.driver.is_up(server) {
            continue;
        }
        let probed = probe(&config, shared.pool(server).address());
        let probed = tokio::time::timeout(config.health.timeout, probed).await;
        let result = probed.unwrap_or(Err(UpstreamError::Timeout));
        shared.tally(server).probe(result, &shared);
    }
}

/// Asks once.
pub(crate) async fn probe(config: &Config, address: SocketAddr) -> Result<(), UpstreamError> {
    let mut stream = TcpStream::connect(address).await.map_err(|_| UpstreamError::Connect)?;
    let Probe::Get(path) = &config.health.probe else { return Ok(()) };
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nVia: 1.1 sekisho\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.map_err(|_| UpstreamError::Closed)?;
    let most = config.limits.head;
    let (mut bytes, mut scan) = (Vec::with_capacity(1024), HeadScan::default());
    loop {
        let read = stream.read_buf(&mut bytes).await.map_err(|_| UpstreamError::Closed)?;
        if read == 0 {
            return Err(UpstreamError::Closed);
        }
        let garbage = |_| UpstreamError::Garbage;
        let Some(span) = scan.scan(&bytes, most).map_err(garbage)? else { continue };
        let mut fields = room();
        let head = &bytes[..span.end];
        let status = Response::parse(head, Asked::Other, &mut fields).map_err(garbage)?.status;
        return if (200..400).contains(&status) { Ok(()) } else { Err(UpstreamError::Garbage) };
    }
}
