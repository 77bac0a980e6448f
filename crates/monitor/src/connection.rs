//! Connection: one socket and the bytes that lie between it and the loop: read or not yet taken, said
//! or not yet written. Buffers are borrowed only while there are such bytes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use super::config::{Keepalive, Tcp};
use super::slab::Socket;
use super::write_half::WriteHalf;
use mio::net::{TcpStream, UnixStream};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use pgwire::frame::{HEAD, Limits};
use pgwire::startup::PACKET_MAX;
use rustls::{self, Connection as TlsConnection};
use socket2::{SockRef, TcpKeepalive};

/// The bytes of a buffer: the largest message that must be whole, of either side, fits.
pub(super) const BUFFER: usize = 32 * 1024;
/// Empty buffers kept for whoever needs one next, at most.
// Two megabytes. A burst that needs more makes them, and gives them back to the system.
const SPARE_MAX: usize = 64;
/// The most bytes that are laid aside in a buffer of their size: the longest start-up packet is 10,000.
const ASIDE_MAX: usize = BUFFER / 2;
const _: () = assert!(PACKET_MAX + 4 <= ASIDE_MAX, "who logs in keeps no large buffer");
const _: () = assert!(Limits::SESSION.whole_max + HEAD <= BUFFER, "it is whole, and more can come");
const _: () = assert!(Limits::AUTHENTICATION.whole_max <= BUFFER, "a proof is whole");

/// A buffer, of which a part is filled.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    pub(super) fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The first bytes are not needed any more.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.start += bytes;
        assert!(self.start <= self.end, "more was taken than was there");
    }

    /// Moves what is there to the front, if there is no room behind it.
    fn compact(&mut self) {
        // Only then: in the midst of a batch each message would be copied again.
        if self.start > 0 && (self.is_empty() || self.end == self.bytes.len()) {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
    }

    pub(super) fn push(&mut self, more: &[u8]) {
        self.compact();
        let end = self.end + more.len();
        if end > self.bytes.len() {
            self.bytes.resize(end.next_power_of_two(), 0);
        }
        self.bytes[self.end..end].copy_from_slice(more);
        self.end = end;
    }
}

/// When what is said to connections is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Writes {
    /// At once, by whoever says it.
    #[default]
    Now,
    /// When the loop is let go, by the worker that had it.
    Later,
}

/// Buffers that nobody needs now, the last used first: it is in the cache still.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    spare: Vec<Buffer>,
    writes: Writes,
    queued: Vec<Arc<WriteHalf>>,
}

impl Buffers {
    pub(super) fn new(writes: Writes) -> Buffers {
        Buffers { writes, ..Buffers::default() }
    }

    /// Somebody has something to be written when the loop is let go.
    pub(super) fn queue(&mut self, write_half: Arc<WriteHalf>) {
        self.queued.push(write_half);
    }

    /// Takes all that is to be written, in exchange for an empty list.
    pub(super) fn take_queued(&mut self, list: &mut Vec<Arc<WriteHalf>>) {
        assert!(list.is_empty(), "what a worker took before is written");
        // A swap, so that neither list is allocated anew in each turn.
        std::mem::swap(&mut self.queued, list);
    }

    /// Number of empty buffers kept.
    pub(super) fn spare(&self) -> usize {
        self.spare.len()
    }

    pub(super) fn take(&mut self) -> Buffer {
        let new = || Buffer { bytes: vec![0; BUFFER], start: 0, end: 0 };
        self.spare.pop().unwrap_or_else(new)
    }

    /// One that has grown is not kept.
    pub(super) fn give(&mut self, mut buffer: Buffer) {
        if buffer.bytes.len() == BUFFER && self.spare.len() < SPARE_MAX {
            (buffer.start, buffer.end) = (0, 0);
            self.spare.push(buffer);
        }
    }
}

/// A connection of either kind.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Read for &Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).read(bytes),
            Stream::Unix(stream) => (&mut &*stream).read(bytes),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).write(bytes),
            Stream::Unix(stream) => (&mut &*stream).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream {
    /// Registers it, edge-triggered, once and for all that may happen. That it can be written is told
    /// by the system only after it could not.
    pub(super) fn register(&self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut SourceFd(&self.fd()), token, Interest::READABLE | Interest::WRITABLE)
    }

    /// The system tells nothing of it any more.
    pub(super) fn deregister(&self, registry: &Registry) -> io::Result<()> {
        registry.deregister(&mut SourceFd(&self.fd()))
    }

    fn fd(&self) -> RawFd {
        match self {
            Stream::Tcp(stream) => stream.as_raw_fd(),
            Stream::Unix(stream) => stream.as_raw_fd(),
        }
    }

    /// The same socket once more, for another process.
    ///
    /// # Errors
    /// If the system has no room for it.
    pub(super) fn socket(&self) -> io::Result<OwnedFd> {
        match self {
            Stream::Tcp(stream) => stream.as_fd().try_clone_to_owned(),
            Stream::Unix(stream) => stream.as_fd().try_clone_to_owned(),
        }
    }

    /// The addresses of the other end and of ours; none of a Unix socket, or of one that is broken.
    pub(super) fn ends(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        match self {
            Stream::Tcp(stream) => (stream.peer_addr().ok(), stream.local_addr().ok()),
            Stream::Unix(_) => (None, None),
        }
    }

    /// True once it is connected.
    ///
    /// # Errors
    /// Why it never will be.
    pub(super) fn is_connected(&self) -> io::Result<bool> {
        // A socket that is not connected yet may be told of, too: only one that has a peer is there.
        let (error, peer) = match self {
            Stream::Tcp(stream) => (stream.take_error()?, stream.peer_addr().map(drop)),
            Stream::Unix(stream) => (stream.take_error()?, stream.peer_addr().map(drop)),
        };
        match (error, peer) {
            (Some(error), _) => Err(error),
            (None, Ok(())) => Ok(true),
            (None, Err(error)) if error.kind() == ErrorKind::NotConnected => Ok(false),
            (None, Err(error)) => Err(error),
        }
    }

    /// Sends small messages at once.
    // Nagle's algorithm would hold the second of two back until the other side acknowledges the first.
    pub(super) fn set_prompt(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_nodelay(true),
            Stream::Unix(_) => Ok(()),
        }
    }

    /// Gives a connection of the network its options.
    pub(super) fn tune(&self, tcp: &Tcp) -> io::Result<()> {
        let Stream::Tcp(stream) = self else { return Ok(()) };
        let socket = SockRef::from(stream);
        if let Some(Keepalive { idle, interval, count }) = tcp.keepalive {
            socket.set_keepalive(true)?;
            let mut options = TcpKeepalive::new();
            options = idle.map_or(options.clone(), |idle| options.with_time(idle));
            options = interval.map_or(options.clone(), |interval| options.with_interval(interval));
            options = count.map_or(options.clone(), |count| options.with_retries(count));
            if idle.is_some() || interval.is_some() || count.is_some() {
                socket.set_tcp_keepalive(&options)?;
            }
        }
        if tcp.unacknowledged.is_some() {
            socket.set_tcp_user_timeout(tcp.unacknowledged)?;
        }
        Ok(())
    }
}

/// Outcome of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// There are so many bytes more.
    Bytes(usize),
    /// There is nothing to read until the system says so.
    Nothing,
    /// There is no room: what is there must be taken first.
    NoRoom,
    /// There will be no more.
    Ended(End),
}

/// End of what the other side sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The other side has ended it.
    Closed,
    /// The connection is broken: what was sent may not have arrived.
    Broken,
}

/// A read of a connection without the loop, and its bytes.
#[derive(Debug)]
pub(super) struct Reading {
    write_half: Arc<WriteHalf>,
    buffer: Buffer,
    encrypted: bool,
    filled: Filled,
    /// True once the system has said that there is no more.
    drained: bool,
}

impl Reading {
    /// Reads what is there; of what is encrypted all that there is room for, since what is here of that
    /// does not tell whether there is more.
    pub(super) fn read(&mut self) {
        self.filled = fill(&self.write_half, &mut self.buffer, self.encrypted);
        // Decrypted bytes may wait within the encryption, of which the system tells nothing.
        while let (true, Filled::Bytes(sum)) = (self.encrypted, self.filled) {
            match fill(&self.write_half, &mut self.buffer, self.encrypted) {
                Filled::Bytes(more) => self.filled = Filled::Bytes(sum + more),
                Filled::Nothing => {
                    self.drained = true;
                    return;
                }
                // The loop finds it again.
                Filled::NoRoom | Filled::Ended(_) => return,
            }
        }
    }

    /// Gives its buffer back: what was read is for nobody.
    pub(super) fn give_back(self, buffers: &mut Buffers) {
        buffers.give(self.buffer);
    }
}

/// A socket with its buffers.
#[derive(Debug)]
pub(super) struct Connection {
    write_half: Arc<WriteHalf>,
    input: Option<Buffer>,
    /// True while there may be something to read.
    readable: bool,
    /// True once the system has said that the other side sends no more.
    hung_up: bool,
    /// True if what passes is encrypted, or will be.
    encrypted: bool,
    /// True while a worker reads it without the loop.
    is_read: bool,
    /// Its end, once such a read has found it.
    ended: Option<End>,
    /// The worker that watches it.
    watcher: u16,
}

impl Connection {
    pub(super) fn new(stream: Stream) -> Connection {
        Connection {
            write_half: WriteHalf::new(stream),
            input: None,
            readable: false,
            hung_up: false,
            encrypted: false,
            is_read: false,
            ended: None,
            watcher: 0,
        }
    }

    /// This worker watches it from now on, as this.
    pub(super) fn watched(&mut self, watcher: usize, socket: Socket) {
        self.watcher = watcher as u16;
        self.write_half.watched(socket);
    }

    /// The worker that watches it.
    pub(super) fn watcher(&self) -> usize {
        self.watcher.into()
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.write_half.stream
    }

    /// The system has something to tell of it.
    pub(super) fn note(&mut self, event: &mio::event::Event) {
        // Noted and never forgotten by an event: an edge that says less than the one before adds to it.
        self.readable |= event.is_readable() || event.is_error();
        self.hung_up |= event.is_read_closed() || event.is_error();
    }

    /// True if a read may bring something.
    pub(super) fn may_read(&self) -> bool {
        self.readable
    }

    /// The system may not have told yet: the next read finds out.
    pub(super) fn mark_readable(&mut self) {
        self.readable = true;
    }

    /// True once the other side sends no more, though what it has sent may not all be read.
    pub(super) fn has_hung_up(&self) -> bool {
        self.hung_up
    }

    /// Bytes read and not taken.
    pub(super) fn read(&self) -> &[u8] {
        self.input.as_ref().map_or(&[], Buffer::filled)
    }

    /// True while something waits to be written that the system had no room for.
    pub(super) fn is_blocked(&self) -> bool {
        self.write_half.is_blocked()
    }

    /// True if nothing of it is here: nothing was read that was not taken, nobody reads it now, and
    /// nothing waits to be written.
    pub(super) fn is_at_rest(&self) -> bool {
        let unread = self.read().is_empty() && !self.is_read && self.ended.is_none();
        unread && !self.is_blocked() && !self.write_half.has_borrowed()
    }

    /// True if nothing of it will be here as soon as a worker has written what was said.
    pub(super) fn is_being_written(&self) -> bool {
        let unread = self.read().is_empty() && !self.is_read && self.ended.is_none();
        unread && !self.is_blocked() && self.write_half.has_borrowed()
    }

    /// Bytes that wait to be written, as far as they are not encrypted yet.
    pub(super) fn unsent(&self) -> usize {
        self.write_half.unsent()
    }

    /// Buffers that it has borrowed.
    pub(super) fn borrowed(&self) -> usize {
        usize::from(self.input.is_some()) + usize::from(self.write_half.has_borrowed())
    }

    /// The version and the cipher suite of TLS that were agreed on, empty without TLS.
    pub(super) fn server_tls(&self) -> String {
        let agreed = |tls: &TlsConnection| {
            let version = tls.protocol_version()?.as_str()?.replacen('_', ".", 1);
            Some(format!("{version}/{}", tls.negotiated_cipher_suite()?.suite().as_str()?))
        };
        self.write_half.of_encryption(agreed).flatten().unwrap_or_default()
    }

    /// All from here on is encrypted; what was read and not taken is so already.
    ///
    /// # Errors
    /// If that is no handshake, or what waits in clear cannot be written first.
    pub(super) fn encrypt(
        &mut self,
        tls: impl Into<TlsConnection>,
        buffers: &mut Buffers,
    ) -> io::Result<()> {
        assert!(!self.is_read, "nobody reads in clear what is encrypted");
        // Behind a request for TLS nothing comes before the answer. Of direct TLS the beginning is here.
        let begun = self.input.take();
        let bytes = begun.as_ref().map_or(&[][..], Buffer::filled);
        let encrypted = self.write_half.encrypt(tls.into(), bytes, buffers);
        if let Some(buffer) = begun {
            buffers.give(buffer);
        }
        // What came with the beginning may be read though the system tells of nothing more.
        (self.encrypted, self.readable) = (true, true);
        encrypted
    }

    /// The protocol that was agreed on for the inside of TLS.
    pub(super) fn protocol(&self) -> Option<Vec<u8>> {
        self.write_half.of_encryption(|tls| tls.alpn_protocol().map(<[u8]>::to_vec)).flatten()
    }

    /// True if what passes is encrypted, or will be.
    pub(super) fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// True until the two sides have agreed on how to encrypt.
    pub(super) fn is_handshaking(&self) -> bool {
        self.write_half.of_encryption(|tls| tls.is_handshaking()).unwrap_or(false)
    }

    /// The certificate that the other side has shown, DER.
    pub(super) fn certificate(&self) -> Option<Vec<u8>> {
        let shown = |tls: &TlsConnection| Some(tls.peer_certificates()?.first()?.to_vec());
        self.write_half.of_encryption(shown).flatten()
    }

    /// Why the encryption has ended, if not by the connection.
    pub(super) fn fault(&self) -> Option<rustls::Error> {
        self.write_half.fault()
    }

    /// Reads once, behind what is there.
    pub(super) fn fill(&mut self, buffers: &mut Buffers) -> Filled {
        if let Some(end) = self.ended {
            return Filled::Ended(end);
        }
        if !self.readable || self.is_read {
            // Whoever reads it now says what came of that.
            return Filled::Nothing;
        }
        let mut buffer = self.input.take().unwrap_or_else(|| buffers.take());
        // It was laid aside, or came from there.
        if buffer.bytes.len() < BUFFER {
            let background = std::mem::replace(&mut buffer, buffers.take());
            buffer.push(background.filled());
        }
        buffer.compact();
        let asked = buffer.bytes.len() - buffer.end;
        let filled = fill(&self.write_half, &mut buffer, self.encrypted);
        self.filled(asked, filled);
        // One that brought nothing goes back at once: thousands of idle connections have none.
        self.keep(buffer, buffers);
        filled
    }

    /// Notes what follows from a read that had room for so many bytes.
    fn filled(&mut self, asked: usize, filled: Filled) {
        match filled {
            // Less than was asked for is all there is; the end comes with a hang-up.
            Filled::Bytes(bytes) => {
                self.readable = bytes == asked || self.hung_up || self.encrypted;
            }
            Filled::Nothing => self.readable = false,
            Filled::NoRoom | Filled::Ended(_) => {}
        }
    }

    /// Lets the caller read once without the loop, if there may be something to read and nothing is
    /// here. Nobody else reads it until it is told [what came](Connection::end_read).
    pub(super) fn begin_read(&mut self, buffers: &mut Buffers) -> Option<Reading> {
        // With something here the read would stand behind it, and only the loop may look at that.
        let may = self.readable && self.input.is_none() && !self.is_read && self.ended.is_none();
        may.then(|| {
            self.is_read = true;
            let (write_half, buffer) = (Arc::clone(&self.write_half), buffers.take());
            let (encrypted, filled) = (self.encrypted, Filled::Nothing);
            Reading { write_half, buffer, encrypted, filled, drained: false }
        })
    }

    /// Takes what came of a read, if it was of this connection.
    pub(super) fn end_read(&mut self, reading: Reading, buffers: &mut Buffers) {
        // A server that is tried on the other way has the same key and another socket.
        if !Arc::ptr_eq(&reading.write_half, &self.write_half) {
            return reading.give_back(buffers);
        }
        assert!(self.is_read && self.input.is_none(), "nobody else has read it meanwhile");
        self.is_read = false;
        self.filled(BUFFER, reading.filled);
        self.readable &= !reading.drained || self.hung_up;
        // Kept for who fills it next: a reset is told by the system once.
        if let Filled::Ended(end) = reading.filled {
            self.ended = Some(end);
        }
        self.keep(reading.buffer, buffers);
    }

    /// Lays what is here, if it is little, into a buffer of its size until more comes: who has sent half a
    /// message, or waits with a whole one, keeps no large buffer from others.
    pub(super) fn lay_aside(&mut self, buffers: &mut Buffers) {
        if let Some(buffer) = &mut self.input
            && buffer.filled().len() <= ASIDE_MAX
            && buffer.bytes.len() >= BUFFER
        {
            let bytes = buffer.filled().to_vec();
            let background = Buffer { start: 0, end: bytes.len(), bytes };
            buffers.give(std::mem::replace(buffer, background));
        }
    }

    /// Makes room for a message of so many bytes.
    pub(super) fn reserve(&mut self, bytes: usize) {
        if let Some(buffer) = &mut self.input
            && buffer.filled().len() < bytes
        {
            let filled = buffer.filled().len();
            buffer.bytes.copy_within(buffer.start..buffer.end, 0);
            (buffer.start, buffer.end) = (0, filled);
            if buffer.bytes.len() < bytes {
                buffer.bytes.resize(bytes, 0);
            }
        }
    }

    /// Takes the first bytes of what was read.
    pub(super) fn take(&mut self, bytes: usize, buffers: &mut Buffers) {
        match self.input.take() {
            Some(mut buffer) => {
                buffer.skip(bytes);
                self.keep(buffer, buffers);
            }
            None => assert_eq!(bytes, 0, "more was taken than was there"),
        }
    }

    fn keep(&mut self, buffer: Buffer, buffers: &mut Buffers) {
        if buffer.is_empty() {
            buffers.give(buffer);
        } else {
            self.input = Some(buffer);
        }
    }

    /// Writes, or keeps what cannot be written now behind what already waits.
    ///
    /// # Errors
    /// If the connection is broken.
    pub(super) fn send(&mut self, bytes: &[u8], buffers: &mut Buffers) -> io::Result<()> {
        match buffers.writes {
            Writes::Now => self.write_half.send(bytes, buffers),
            Writes::Later => self.write_half.send_later(bytes, buffers),
        }
    }

    /// Goes on writing what waits.
    ///
    /// # Errors
    /// If the connection is broken.
    pub(super) fn flush(&mut self, buffers: &mut Buffers) -> io::Result<()> {
        // Then nothing can wait, and the lock is not needed: this is called with each event.
        if buffers.writes == Writes::Now && !self.encrypted && !self.is_blocked() {
            return Ok(());
        }
        self.write_half.flush(buffers)
    }

    /// Bytes that the system has taken in all.
    pub(super) fn written(&self) -> u64 {
        self.write_half.written()
    }

    /// Closes it. What came and was not read is read first: with it unread the system would reset
    /// the connection, and the other side might never see what was written last.
    pub(super) fn close(mut self, buffers: &mut Buffers) {
        let mut buffer = self.input.take().unwrap_or_else(|| buffers.take());
        // So many times at most: whoever sends without end is reset.
        for _ in 0..8 {
            if !matches!(self.stream().read(&mut buffer.bytes), Ok(1..)) {
                break;
            }
        }
        buffers.give(buffer);
        self.write_half.end(buffers);
        // Closing follows at once; a socket that is broken already needs none.
        let _ = match self.stream() {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
    }
}

/// Reads once, behind what is in a buffer.
fn fill(write_half: &WriteHalf, buffer: &mut Buffer, encrypted: bool) -> Filled {
    loop {
        let room = &mut buffer.bytes[buffer.end..];
        if room.is_empty() {
            return Filled::NoRoom;
        }
        match write_half.read(room, encrypted) {
            Ok(0) => return Filled::Ended(End::Closed),
            Ok(bytes) => {
                buffer.end += bytes;
                return Filled::Bytes(bytes);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Filled::Nothing,
            Err(_) => return Filled::Ended(End::Broken),
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/connection.rs"]
mod tests;
