//! The floor: a relay that gives each client a connection of its own and looks at no byte.

use std::io::{self, Read, Write};
use std::net::SocketAddr;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

/// As large as what PgBouncer reads into, so that the system calls are as many.
const BUFFER: usize = 4096;

/// Two sockets, and what one has said that the other does not take yet.
struct Pair {
    sockets: [TcpStream; 2],
    /// By who said it.
    held: [Vec<u8>; 2],
}

/// Relays until it is killed.
pub(crate) fn run(mut listener: TcpListener, upstream: SocketAddr) -> io::Result<()> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(1024);
    poll.registry().register(&mut listener, Token(0), Interest::READABLE)?;
    let mut pairs: Vec<Option<Pair>> = Vec::new();
    let both = Interest::READABLE | Interest::WRITABLE;
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            let Some(at) = event.token().0.checked_sub(2) else {
                while let Ok((client, _)) = listener.accept() {
                    let mut sockets = [client, TcpStream::connect(upstream)?];
                    for (side, socket) in sockets.iter_mut().enumerate() {
                        socket.set_nodelay(true)?;
                        poll.registry().register(
                            socket,
                            Token(2 + 2 * pairs.len() + side),
                            both,
                        )?;
                    }
                    pairs.push(Some(Pair { sockets, held: [Vec::new(), Vec::new()] }));
                }
                continue;
            };
            let place = &mut pairs[at / 2];
            let Some(pair) = place else { continue };
            // A socket that can be written to lets the other be heard.
            let heard = event.is_readable() && !pair.moves(at % 2);
            let wrote = event.is_writable() && !pair.moves(1 - at % 2);
            if heard || wrote {
                *place = None;
            }
        }
    }
}

impl Pair {
    /// Moves what the side says to the other; whether they go on.
    fn moves(&mut self, from: usize) -> bool {
        let mut buffer = [0; BUFFER];
        loop {
            if !self.held[from].is_empty() {
                match self.sockets[1 - from].write(&self.held[from]) {
                    Ok(count) => drop(self.held[from].drain(..count)),
                    Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
                }
                continue;
            }
            match self.sockets[from].read(&mut buffer) {
                Ok(0) => return false,
                Ok(read) => {
                    let wrote = match self.sockets[1 - from].write(&buffer[..read]) {
                        Ok(count) => count,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                        // Its connection is not there yet: what is said waits for the edge.
                        Err(error) if error.kind() == io::ErrorKind::NotConnected => 0,
                        Err(_) => return false,
                    };
                    if wrote < read {
                        self.held[from].extend_from_slice(&buffer[wrote..read]);
                        return true;
                    }
                    // A short read has emptied the socket: its next byte is a new edge.
                    if read < BUFFER {
                        return true;
                    }
                }
                Err(error) => {
                    return matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected
                    );
                }
            }
        }
    }
}
