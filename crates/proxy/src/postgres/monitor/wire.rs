//! One socket and the bytes that lie between it and the loop: read or not yet taken, said or not yet
//! written. Buffers are borrowed only while there are such bytes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};

use super::config::{Keepalive, Tcp};
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use socket2::{SockRef, TcpKeepalive};
use tokio_rustls::rustls::{self, Connection};

/// The bytes of a buffer: the largest message that must be whole, of either side, fits.
pub(super) const CHUNK: usize = 32 * 1024;
/// How many buffers are kept for whoever needs one next.
const SPARE_MAX: usize = 64;

/// A buffer, of which a part is filled.
#[derive(Debug)]
pub(super) struct Chunk {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Chunk {
    pub(super) fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    fn len(&self) -> usize {
        self.end - self.start
    }

    /// Moves what is there to the front, if there is no room behind it.
    fn make_room(&mut self) {
        if self.start > 0 && (self.is_empty() || self.end == self.bytes.len()) {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
    }

    fn push(&mut self, more: &[u8]) {
        self.make_room();
        let end = self.end + more.len();
        if end > self.bytes.len() {
            self.bytes.resize(end.next_power_of_two(), 0);
        }
        self.bytes[self.end..end].copy_from_slice(more);
        self.end = end;
    }
}

/// Buffers that nobody needs now, the last used first: it is in the cache still.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    spare: Vec<Chunk>,
}

impl Chunks {
    /// How many are kept.
    pub(super) fn spare(&self) -> usize {
        self.spare.len()
    }

    fn take(&mut self) -> Chunk {
        let new = || Chunk { bytes: vec![0; CHUNK], start: 0, end: 0 };
        self.spare.pop().unwrap_or_else(new)
    }

    /// One that has grown is not kept.
    fn give(&mut self, mut chunk: Chunk) {
        if chunk.bytes.len() == CHUNK && self.spare.len() < SPARE_MAX {
            (chunk.start, chunk.end) = (0, 0);
            self.spare.push(chunk);
        }
    }
}

/// A connection of either kind.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(bytes),
            Stream::Unix(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream {
    /// Registers it, edge-triggered, once and for all that may happen. That it can be written is told
    /// by the system only after it could not.
    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let all = Interest::READABLE | Interest::WRITABLE;
        match self {
            Stream::Tcp(stream) => registry.register(stream, token, all),
            Stream::Unix(stream) => registry.register(stream, token, all),
        }
    }

    /// The system tells nothing of it any more.
    pub(super) fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => registry.deregister(stream),
            Stream::Unix(stream) => registry.deregister(stream),
        }
    }

    /// The addresses of the other end and of ours; none of a Unix socket, or of one that is broken.
    pub(super) fn ends(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        match self {
            Stream::Tcp(stream) => (stream.peer_addr().ok(), stream.local_addr().ok()),
            Stream::Unix(_) => (None, None),
        }
    }

    /// Whether it is connected by now.
    ///
    /// # Errors
    /// Why it never will be.
    pub(super) fn is_connected(&self) -> io::Result<bool> {
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

/// What became of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// There are so many bytes more.
    Bytes(usize),
    /// There is nothing to read until the system says so.
    Nothing,
    /// There is no room: what is there must be taken first.
    NoRoom,
    /// The other side has ended it, or it is broken.
    Ended,
}

/// The encryption of a socket.
#[derive(Debug)]
struct Tls {
    connection: Connection,
    /// Why it ended, if the other side has broken it or does not take it.
    fault: Option<rustls::Error>,
}

/// A socket with its buffers.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) stream: Stream,
    /// Encrypts what passes, from when that was agreed on.
    tls: Option<Box<Tls>>,
    input: Option<Chunk>,
    output: Option<Chunk>,
    /// How many bytes the system has taken.
    written: u64,
    /// Whether there may be something to read.
    readable: bool,
    /// Whether the system has said that the other side sends no more.
    hung_up: bool,
}

impl Wire {
    pub(super) fn new(stream: Stream) -> Wire {
        Wire {
            stream,
            tls: None,
            input: None,
            output: None,
            written: 0,
            readable: false,
            hung_up: false,
        }
    }

    /// The system has something to tell of it.
    pub(super) fn note(&mut self, event: &mio::event::Event) {
        self.readable |= event.is_readable() || event.is_error();
        self.hung_up |= event.is_read_closed() || event.is_error();
    }

    /// Whether a read may bring something.
    pub(super) fn may_read(&self) -> bool {
        self.readable
    }

    /// The system may not have told yet: the next read finds out.
    pub(super) fn doubt(&mut self) {
        self.readable = true;
    }

    /// Whether the other side sends no more, though what it has sent may not all be read.
    pub(super) fn has_hung_up(&self) -> bool {
        self.hung_up
    }

    /// What was read and not taken.
    pub(super) fn read(&self) -> &[u8] {
        self.input.as_ref().map_or(&[], Chunk::filled)
    }

    /// Whether something waits to be written.
    pub(super) fn is_blocked(&self) -> bool {
        self.output.is_some() || self.tls.as_ref().is_some_and(|tls| tls.connection.wants_write())
    }

    /// How many bytes wait to be written, as far as they are not encrypted yet.
    pub(super) fn unsent(&self) -> usize {
        self.output.as_ref().map_or(0, Chunk::len)
    }

    /// How many buffers it has borrowed.
    pub(super) fn borrowed(&self) -> usize {
        usize::from(self.input.is_some()) + usize::from(self.output.is_some())
    }

    /// The version and the cipher suite of TLS that were agreed on, empty without TLS.
    pub(super) fn encryption(&self) -> String {
        let agreed = self.tls.as_ref().and_then(|tls| {
            let tls = &tls.connection;
            let version = tls.protocol_version()?.as_str()?.replacen('_', ".", 1);
            Some(format!("{version}/{}", tls.negotiated_cipher_suite()?.suite().as_str()?))
        });
        agreed.unwrap_or_default()
    }

    /// All from here on is encrypted; what was read and not taken is so already.
    ///
    /// # Errors
    /// If that is no handshake.
    pub(super) fn encrypt(
        &mut self,
        tls: impl Into<Connection>,
        chunks: &mut Chunks,
    ) -> io::Result<()> {
        let mut connection = tls.into();
        if let Some(chunk) = self.input.take() {
            let mut begun = chunk.filled();
            while !begun.is_empty() {
                connection.read_tls(&mut begun)?;
                connection.process_new_packets().map_err(io::Error::other)?;
            }
            chunks.give(chunk);
        }
        self.tls = Some(Box::new(Tls { connection, fault: None }));
        self.readable = true;
        self.write_some(b"").map(drop)
    }

    /// The protocol that was agreed on for the inside of TLS.
    pub(super) fn protocol(&self) -> Option<&[u8]> {
        self.tls.as_ref()?.connection.alpn_protocol()
    }

    /// Whether what passes is encrypted, or will be.
    pub(super) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether the two sides have not agreed yet on how to encrypt.
    pub(super) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.connection.is_handshaking())
    }

    /// The certificate that the other side has shown, DER.
    pub(super) fn certificate(&self) -> Option<&[u8]> {
        let shown = self.tls.as_ref()?.connection.peer_certificates()?;
        shown.first().map(|certificate| &certificate[..])
    }

    /// Why the encryption has ended, if not by the connection.
    pub(super) fn fault(&self) -> Option<&rustls::Error> {
        self.tls.as_ref()?.fault.as_ref()
    }

    /// Reads once, behind what is there.
    pub(super) fn fill(&mut self, chunks: &mut Chunks) -> Filled {
        if !self.readable {
            return Filled::Nothing;
        }
        let mut chunk = self.input.take().unwrap_or_else(|| chunks.take());
        chunk.make_room();
        let filled = loop {
            let room = &mut chunk.bytes[chunk.end..];
            if room.is_empty() {
                break Filled::NoRoom;
            }
            let asked = room.len();
            let read = match &mut self.tls {
                Some(tls) => decrypt(tls, &mut self.stream, room),
                None => self.stream.read(room),
            };
            match read {
                Ok(0) => break Filled::Ended,
                Ok(bytes) => {
                    chunk.end += bytes;
                    // Less than was asked for is all there is; the end comes with a hang-up.
                    self.readable = bytes == asked || self.hung_up || self.tls.is_some();
                    break Filled::Bytes(bytes);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.readable = false;
                    break Filled::Nothing;
                }
                Err(error) => {
                    if let Some(tls) = &mut self.tls {
                        tls.fault = error.downcast().ok();
                    }
                    break Filled::Ended;
                }
            }
        };
        self.keep(chunk, chunks);
        filled
    }

    /// Makes room for a message of so many bytes.
    pub(super) fn reserve(&mut self, bytes: usize) {
        if let Some(chunk) = &mut self.input
            && chunk.filled().len() < bytes
        {
            let filled = chunk.filled().len();
            chunk.bytes.copy_within(chunk.start..chunk.end, 0);
            (chunk.start, chunk.end) = (0, filled);
            if chunk.bytes.len() < bytes {
                chunk.bytes.resize(bytes, 0);
            }
        }
    }

    /// Takes the first bytes of what was read.
    pub(super) fn take(&mut self, bytes: usize, chunks: &mut Chunks) {
        if let Some(mut chunk) = self.input.take() {
            chunk.start += bytes;
            assert!(chunk.start <= chunk.end, "more was taken than was there");
            self.keep(chunk, chunks);
        }
    }

    fn keep(&mut self, chunk: Chunk, chunks: &mut Chunks) {
        if chunk.is_empty() {
            chunks.give(chunk);
        } else {
            self.input = Some(chunk);
        }
    }

    /// Writes, or keeps what cannot be written now behind what already waits.
    ///
    /// # Errors
    /// If the connection is broken.
    pub(super) fn send(&mut self, bytes: &[u8], chunks: &mut Chunks) -> io::Result<()> {
        let mut rest = bytes;
        if self.output.is_none() {
            rest = &bytes[self.write_some(bytes)?..];
        }
        if !rest.is_empty() {
            self.output.get_or_insert_with(|| chunks.take()).push(rest);
        }
        Ok(())
    }

    /// Goes on writing what waits.
    ///
    /// # Errors
    /// If the connection is broken.
    pub(super) fn flush(&mut self, chunks: &mut Chunks) -> io::Result<()> {
        let Some(mut chunk) = self.output.take() else {
            return if self.tls.is_some() { self.write_some(b"").map(drop) } else { Ok(()) };
        };
        chunk.start += self.write_some(chunk.filled())?;
        if chunk.is_empty() {
            chunks.give(chunk);
        } else {
            self.output = Some(chunk);
        }
        Ok(())
    }

    /// Writes until all is written or nothing can be.
    fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(tls) = &mut self.tls {
            return encrypt(tls, &mut self.stream, bytes, &mut self.written);
        }
        let mut written = 0;
        while written < bytes.len() {
            match self.stream.write(&bytes[written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(more) => written += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.written += written as u64;
        Ok(written)
    }

    /// How many bytes the system has taken in all.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Closes it. What came and was not read is read first: with it unread the system would reset
    /// the connection, and the other side might never see what was written last.
    pub(super) fn close(mut self, chunks: &mut Chunks) {
        let mut chunk = self.input.take().unwrap_or_else(|| chunks.take());
        for _ in 0..8 {
            if !matches!(self.stream.read(&mut chunk.bytes), Ok(1..)) {
                break;
            }
        }
        chunks.give(chunk);
        if let Some(output) = self.output.take() {
            chunks.give(output);
        }
        if let Some(tls) = &mut self.tls {
            tls.connection.send_close_notify();
            // Who is not there any more does not hear it.
            let _ = encrypt(tls, &mut self.stream, b"", &mut self.written);
        }
        // Closing follows at once; a socket that is broken already needs none.
        let _ = match &self.stream {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
    }
}

/// Reads what came encrypted, and answers what belongs to the handshake.
fn decrypt(tls: &mut Tls, stream: &mut Stream, room: &mut [u8]) -> io::Result<usize> {
    loop {
        match tls.connection.reader().read(room) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            read => return read,
        }
        if tls.connection.read_tls(stream)? == 0 {
            return Ok(0);
        }
        let processed = tls.connection.process_new_packets();
        // An alert, if it did not go well: then who does not hear it any more does not matter.
        // Nobody waits for these to be taken.
        let answered = encrypt(tls, stream, b"", &mut 0);
        processed.map_err(io::Error::other)?;
        answered?;
    }
}

/// Encrypts bytes and writes what there is to write, as far as that is possible now; how many of the
/// bytes are on their way.
fn encrypt(
    tls: &mut Tls,
    stream: &mut Stream,
    bytes: &[u8],
    written: &mut u64,
) -> io::Result<usize> {
    let tls = &mut tls.connection;
    let mut taken = 0;
    loop {
        while tls.wants_write() {
            match tls.write_tls(stream) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(more) => *written += more as u64,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(taken),
                Err(error) => return Err(error),
            }
        }
        match tls.writer().write(&bytes[taken..])? {
            0 => return Ok(taken),
            more => taken += more,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Wire, std::os::unix::net::UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let theirs = std::os::unix::net::UnixStream::from(std::os::fd::OwnedFd::from(theirs));
        theirs.set_nonblocking(false).unwrap();
        let mut wire = Wire::new(Stream::Unix(ours));
        wire.readable = true;
        (wire, theirs)
    }

    #[test]
    fn a_buffer_is_borrowed_only_while_bytes_are_pending() {
        let (mut wire, mut theirs) = pair();
        let mut chunks = Chunks::default();
        theirs.write_all(b"hello").unwrap();
        assert_eq!(wire.fill(&mut chunks), Filled::Bytes(5));
        assert!(!wire.may_read(), "all there was");
        assert_eq!(wire.read(), b"hello");
        wire.take(2, &mut chunks);
        assert_eq!((wire.read(), chunks.spare.len()), (&b"llo"[..], 0));
        wire.take(3, &mut chunks);
        assert_eq!((wire.read(), chunks.spare.len()), (&b""[..], 1));
        assert_eq!(wire.fill(&mut chunks), Filled::Nothing);
    }

    #[test]
    fn what_cannot_be_written_waits_in_order_and_is_all_there_in_the_end() {
        let (mut wire, mut theirs) = pair();
        let mut chunks = Chunks::default();
        let sent: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
        for part in sent.chunks(100_000) {
            wire.send(part, &mut chunks).unwrap();
        }
        assert!(wire.is_blocked());
        let mut came = vec![0; sent.len()];
        let mut at = 0;
        while at < came.len() {
            at += theirs.read(&mut came[at..]).unwrap();
            wire.flush(&mut chunks).unwrap();
        }
        assert!(came == sent && !wire.is_blocked());
        assert!(chunks.spare.is_empty(), "a buffer that has grown is not kept");
    }

    #[test]
    fn a_full_buffer_says_so_and_the_end_is_told() {
        let (mut wire, mut theirs) = pair();
        let mut chunks = Chunks::default();
        theirs.write_all(&vec![7; CHUNK]).unwrap();
        while let Filled::Bytes(_) = wire.fill(&mut chunks) {}
        wire.readable = true;
        assert_eq!(wire.fill(&mut chunks), Filled::NoRoom);
        wire.take(CHUNK, &mut chunks);
        drop(theirs);
        assert_eq!(wire.fill(&mut chunks), Filled::Ended);
    }
}
