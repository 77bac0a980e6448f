//! A connection as bytes, plain or over TLS, that never blocks.

use std::io::{self, Read, Write};
use std::os::fd::RawFd;
use std::sync::Arc;

use measure::ErrorKind;
use rustls::ClientConnection;

use super::tls::{HTTP2, Tls};
use crate::sys::{RawAddress, Socket};

/// A connection, perhaps still being opened.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: Socket,
    tls: Option<Box<ClientConnection>>,
    /// True if anything could be sent yet, so that the transport is known to be open.
    connected: bool,
}

/// Result of an attempt to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// All is with the kernel.
    All,
    /// The rest must wait until the socket is writable.
    Partly,
}

/// Result of an attempt to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// It is open.
    Yes,
    /// It goes on when the socket is readable.
    WantsRead,
    /// It goes on when the socket is writable.
    WantsWrite,
}

/// Result of an attempt to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// So many bytes, in the buffer.
    Bytes(usize),
    /// So many bytes, which nobody has seen.
    Discarded(usize),
    /// The peer has closed, and means it.
    End,
    /// The connection ended without TLS saying so: something may be missing.
    CutOff,
    /// Nothing is there now.
    Nothing,
}

/// Way in which a connection broke.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The transport did.
    Transport(io::Error),
    /// TLS did.
    Tls,
}

impl Broken {
    /// The kind of error that a request on it failed with.
    pub(crate) fn kind(&self, connected: bool) -> ErrorKind {
        match self {
            Broken::Tls => ErrorKind::Tls,
            Broken::Transport(error) => match (error.kind(), connected) {
                (io::ErrorKind::ConnectionRefused, _) => ErrorKind::ConnectRefused,
                (io::ErrorKind::TimedOut, false) => ErrorKind::ConnectTimeout,
                (io::ErrorKind::TimedOut, true) => ErrorKind::Timeout,
                (io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe, _) | (_, true) => {
                    ErrorKind::Reset
                }
                (_, false) => ErrorKind::ConnectOther,
            },
        }
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        Broken::Transport(error)
    }
}

impl Stream {
    /// Begins to connect.
    pub(crate) fn connect(
        socket: Socket,
        address: &RawAddress,
        tls: Option<&Tls>,
    ) -> Result<Stream, Broken> {
        let session = match tls {
            None => None,
            Some(tls) => {
                // A handshake writes twice in a row: without this the second would wait.
                socket.set_no_delay()?;
                let session = ClientConnection::new(Arc::clone(&tls.config), tls.name.clone());
                Some(Box::new(session.map_err(|_| Broken::Tls)?))
            }
        };
        socket.connect(address)?;
        Ok(Stream { socket, tls: session, connected: false })
    }

    /// A connection that is open, its handshake over.
    pub(crate) fn opened(socket: Socket, tls: Option<ClientConnection>) -> Stream {
        Stream { socket, tls: tls.map(Box::new), connected: true }
    }

    /// True if nothing was agreed on that is not HTTP/2: without TLS nothing is.
    pub(crate) fn speaks_http2(&self) -> bool {
        self.tls.as_ref().is_none_or(|session| session.alpn_protocol() == Some(HTTP2))
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.socket.fd()
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// True if the transport is known to be open.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected
    }

    /// Goes on with the TLS handshake as far as it goes. (A plain connection shows that it is open
    /// by taking the request.)
    pub(crate) fn shake_hands(&mut self) -> Result<Opened, Broken> {
        let Some(session) = &mut self.tls else { return Ok(Opened::Yes) };
        loop {
            while session.wants_write() {
                match session.write_tls(&mut Pipe(&self.socket)) {
                    Ok(_) => self.connected = true,
                    Err(error) if would_block(&error) => return Ok(Opened::WantsWrite),
                    Err(error) => return Err(error.into()),
                }
            }
            if !session.is_handshaking() {
                return Ok(Opened::Yes);
            }
            match session.read_tls(&mut Pipe(&self.socket)) {
                Ok(0) => return Err(Broken::Tls),
                Ok(_) => {}
                Err(error) if would_block(&error) => return Ok(Opened::WantsRead),
                Err(error) => return Err(error.into()),
            }
            if session.process_new_packets().is_err() {
                // The alert tells the peer why; whether it arrives does not matter any more.
                let _ = session.write_tls(&mut Pipe(&self.socket));
                return Err(Broken::Tls);
            }
        }
    }

    /// Sends `bytes` from `sent` on, and moves `sent` by what the connection took.
    #[inline]
    pub(crate) fn send(&mut self, bytes: &[u8], sent: &mut usize) -> Result<Sent, Broken> {
        if self.tls.is_some() {
            return self.send_tls(bytes, sent);
        }
        match self.socket.send(&bytes[*sent..]) {
            Ok(count) => {
                self.connected = true;
                *sent += count;
                Ok(if *sent == bytes.len() { Sent::All } else { Sent::Partly })
            }
            Err(error) if would_block(&error) => Ok(Sent::Partly),
            Err(error) => Err(error.into()),
        }
    }

    fn send_tls(&mut self, bytes: &[u8], sent: &mut usize) -> Result<Sent, Broken> {
        let Some(session) = &mut self.tls else { return Ok(Sent::All) };
        loop {
            if *sent < bytes.len() {
                *sent += session.writer().write(&bytes[*sent..])?;
            }
            while session.wants_write() {
                match session.write_tls(&mut Pipe(&self.socket)) {
                    Ok(_) => {}
                    Err(error) if would_block(&error) => return Ok(Sent::Partly),
                    Err(error) => return Err(error.into()),
                }
            }
            if *sent == bytes.len() {
                return Ok(Sent::All);
            }
        }
    }

    /// Receives into the buffer; where `rest` bytes or more of a body are to come that need not be
    /// seen, a plain connection throws them away instead.
    #[inline]
    pub(crate) fn receive(&mut self, buffer: &mut [u8], rest: usize) -> Result<Received, Broken> {
        if self.tls.is_some() {
            return self.receive_tls(buffer);
        }
        // One byte more than is to come, so that a body that is too long shows.
        let unseen = rest >= buffer.len();
        let received = if unseen {
            self.socket.discard(rest.saturating_add(1))
        } else {
            self.socket.receive(buffer)
        };
        match received {
            Ok(0) => Ok(Received::End),
            Ok(count) if unseen => Ok(Received::Discarded(count)),
            Ok(count) => Ok(Received::Bytes(count)),
            Err(error) if would_block(&error) => Ok(Received::Nothing),
            Err(error) => Err(error.into()),
        }
    }

    fn receive_tls(&mut self, buffer: &mut [u8]) -> Result<Received, Broken> {
        let Some(session) = &mut self.tls else { return Ok(Received::Nothing) };
        loop {
            match session.reader().read(buffer) {
                Ok(0) => return Ok(Received::End),
                Ok(count) => return Ok(Received::Bytes(count)),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Ok(Received::CutOff);
                }
                Err(error) if would_block(&error) => {}
                Err(error) => return Err(error.into()),
            }
            match session.read_tls(&mut Pipe(&self.socket)) {
                Ok(_) => {}
                Err(error) if would_block(&error) => return Ok(Received::Nothing),
                Err(error) => return Err(error.into()),
            }
            let processed = session.process_new_packets();
            if session.wants_write() {
                // An alert or an answer to a key update: small, and nothing waits for it.
                let _ = session.write_tls(&mut Pipe(&self.socket));
            }
            if processed.is_err() {
                return Err(Broken::Tls);
            }
        }
    }

    /// Says goodbye where TLS wants it, then closes.
    pub(crate) fn close(mut self) {
        if let Some(session) = &mut self.tls
            && self.connected
        {
            session.send_close_notify();
            let _ = session.write_tls(&mut Pipe(&self.socket));
        }
    }
}

fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// The socket as rustls wants it.
struct Pipe<'a>(&'a Socket);

impl Read for Pipe<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.receive(buffer)
    }
}

impl Write for Pipe<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_thrown_away_shows_if_it_is_more_than_was_announced() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let socket = Socket::new(&address).unwrap();
        let mut stream = Stream::connect(socket, &RawAddress::new(&address), None).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let mut buffer = [0; 100];
        assert_eq!(stream.receive(&mut buffer, 1000).unwrap(), Received::Nothing);
        peer.write_all(&[b'x'; 1100]).unwrap();
        // On loopback it is there as soon as it is sent, but for the kernel's own threads.
        thread::sleep(Duration::from_millis(20));
        assert_eq!(stream.receive(&mut buffer, 1000).unwrap(), Received::Discarded(1001));
        assert_eq!(stream.receive(&mut buffer, 50).unwrap(), Received::Bytes(99));
        drop(peer);
        assert_eq!(stream.receive(&mut buffer, 0).unwrap(), Received::End);
    }
}
