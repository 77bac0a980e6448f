//! Where clients connect to: addresses of the network and sockets in the file system.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream};
use std::path::{Path, PathBuf};

use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::config::{Address, Config, SocketFile, StartError};
use super::wire::Stream;

/// Where a client comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// This machine, by a socket in the file system.
    Local,
    /// The network.
    Network(SocketAddr),
}

/// Something that clients connect to.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, #[expect(dead_code, reason = "it takes its file away")] Placed),
}

/// A socket's file. It is taken away with this value, unless it is somebody else's by then.
#[derive(Debug)]
pub(super) struct Placed {
    path: PathBuf,
    inode: u64,
}

impl Drop for Placed {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            // What cannot be taken away is found stale by whoever listens there next.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Listens wherever the configuration says. The listeners, and where they are.
pub(super) fn listen(config: &Config) -> Result<(Vec<Listener>, Vec<Address>), StartError> {
    let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
    let backlog = i32::try_from(config.limits.backlog).unwrap_or(i32::MAX);
    for &address in &config.listen {
        let failed = |source| StartError::Listen { address: Address::Tcp(address), source };
        let listener = tcp(address, backlog).map_err(failed)?;
        addresses.push(Address::Tcp(listener.local_addr().map_err(failed)?));
        listeners.push(Listener::Tcp(listener));
    }
    for file in &config.sockets {
        let address = Address::Unix(file.path.clone());
        let failed = |source| StartError::Listen { address: address.clone(), source };
        let (listener, placed) = unix(file, backlog).map_err(failed)?;
        listeners.push(Listener::Unix(listener, placed));
        addresses.push(address);
    }
    Ok((listeners, addresses))
}

fn tcp(address: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        // Who listens on all addresses of both kinds says so twice.
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    socket.set_nonblocking(true)?;
    Ok(TcpListener::from_std(socket.into()))
}

fn unix(file: &SocketFile, backlog: i32) -> io::Result<(UnixListener, Placed)> {
    take_stale(&file.path)?;
    let listener = StdUnixListener::bind(&file.path)?;
    let placed = Placed { path: file.path.clone(), inode: fs::symlink_metadata(&file.path)?.ino() };
    if file.group.is_some() {
        chown(&file.path, None, file.group)?;
    }
    fs::set_permissions(&file.path, fs::Permissions::from_mode(file.mode))?;
    SockRef::from(&listener).listen(backlog)?;
    listener.set_nonblocking(true)?;
    Ok((UnixListener::from_std(listener), placed))
}

/// Takes away a socket that nobody listens on any more; what is no socket is left alone.
fn take_stale(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        return Ok(());
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

impl Listener {
    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => registry.register(listener, token, Interest::READABLE),
            Listener::Unix(listener, _) => registry.register(listener, token, Interest::READABLE),
        }
    }

    pub(super) fn accept(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, address) = listener.accept()?;
                Ok((Stream::Tcp(stream), Peer::Network(address)))
            }
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                Ok((Stream::Unix(stream), Peer::Local))
            }
        }
    }
}
