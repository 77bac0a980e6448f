//! Listeners for clients: addresses of the network and sockets in the file system.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream};
use std::path::{Path, PathBuf};

use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::config::{Address, Config, SocketFile, StartError};
use super::connection::Stream;
use super::takeover::{Given, Place};

/// Successors that may wait at the door.
const DOOR_BACKLOG: i32 = 8;

/// Origin of a client.
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
    Unix(UnixListener, Placed),
}

/// A socket's file. It is taken away with this value, unless it is somebody else's by then.
#[derive(Debug)]
pub(super) struct Placed {
    path: PathBuf,
    inode: u64,
    whose: Whose,
}

/// The process that takes a socket's file away in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Ours,
    /// Another process's, which listens with the same socket.
    Elses,
}

impl Drop for Placed {
    fn drop(&mut self) {
        if self.whose == Whose::Ours
            && fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode)
        {
            // What cannot be taken away is found stale by whoever listens there next.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Listens wherever the configuration says, with the sockets of a gate before where it gave them. The
/// listeners, and where they are.
pub(super) fn listen(
    config: &Config,
    given: &mut Given,
) -> Result<(Vec<Listener>, Vec<Address>), StartError> {
    let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
    let backlog = i32::try_from(config.limits.backlog).unwrap_or(i32::MAX);
    for &address in &config.listen {
        let failed = |source| StartError::Listen { address: Address::Tcp(address), source };
        let listener = match given.tcp(address) {
            Some(socket) => taken_tcp(socket, backlog).map_err(failed)?,
            None => tcp(address, backlog).map_err(failed)?,
        };
        addresses.push(Address::Tcp(listener.local_addr().map_err(failed)?));
        listeners.push(Listener::Tcp(listener));
    }
    for file in &config.sockets {
        let address = Address::Unix(file.path.clone());
        let failed = |source| StartError::Listen { address: address.clone(), source };
        let taken = given.unix(&file.path);
        let (listener, placed) = unix(file, backlog, taken).map_err(failed)?;
        listeners.push(Listener::Unix(listener, placed));
        addresses.push(address);
    }
    Ok((listeners, addresses))
}

/// Listens for the next gate that takes over.
pub(super) fn door(path: &Path, given: &mut Given) -> Result<Listener, StartError> {
    let failed = |source| StartError::Listen { address: Address::Unix(path.to_owned()), source };
    let file = SocketFile { path: path.to_owned(), mode: 0o600, group: None };
    let (listener, placed) = unix(&file, DOOR_BACKLOG, given.door()).map_err(failed)?;
    Ok(Listener::Unix(listener, placed))
}

fn taken_tcp(socket: OwnedFd, backlog: i32) -> io::Result<TcpListener> {
    let socket = Socket::from(socket);
    socket.listen(backlog)?;
    socket.set_nonblocking(true)?;
    Ok(TcpListener::from_std(socket.into()))
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

/// Listens on a socket in the file system: with the one that was `taken` over, if one was, and is in
/// the file with that number.
fn unix(
    file: &SocketFile,
    backlog: i32,
    taken: Option<(OwnedFd, u64)>,
) -> io::Result<(UnixListener, Placed)> {
    let number = |path: &Path| fs::symlink_metadata(path).map(|found| found.ino());
    let taken = taken.filter(|(_, inode)| number(&file.path).is_ok_and(|there| there == *inode));
    let (listener, whose) = match taken {
        // Until the gate before has let go it takes its files away itself.
        Some((socket, _)) => (StdUnixListener::from(socket), Whose::Elses),
        None => {
            take_stale(&file.path)?;
            (StdUnixListener::bind(&file.path)?, Whose::Ours)
        }
    };
    let (path, inode) = (file.path.clone(), number(&file.path)?);
    let placed = Placed { path, inode, whose };
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

    /// The system tells nothing of it any more.
    pub(super) fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => registry.deregister(listener),
            Listener::Unix(listener, _) => registry.deregister(listener),
        }
    }

    /// Its place, as another process is told; one of the network by its name in the configuration.
    pub(super) fn place(&self, named: Option<String>) -> Place {
        match self {
            Listener::Tcp(_) => Place::Tcp { named: named.unwrap_or_default() },
            Listener::Unix(_, placed) => {
                let path = placed.path.as_os_str().as_bytes().to_vec();
                Place::Unix { path, inode: placed.inode }
            }
        }
    }

    /// The same socket once more, for another process.
    pub(super) fn socket(&self) -> io::Result<OwnedFd> {
        match self {
            Listener::Tcp(listener) => listener.as_fd().try_clone_to_owned(),
            Listener::Unix(listener, _) => listener.as_fd().try_clone_to_owned(),
        }
    }

    /// Its file, if it has one, is another process's from now on.
    pub(super) fn give_away(&mut self) {
        if let Listener::Unix(_, placed) = self {
            placed.whose = Whose::Elses;
        }
    }

    /// Its file, if it has one, is this process's, as before.
    pub(super) fn keep(&mut self) {
        if let Listener::Unix(_, placed) = self {
            placed.whose = Whose::Ours;
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
