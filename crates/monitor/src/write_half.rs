//! Write half of a connection, which several workers may use: its socket, its encryption, and what
//! waits to be written. Who holds the loop says what is to be written; where there are several
//! workers, it is written when the loop is let go, so that nobody waits at the loop for the system.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use mio::Token;
use rustls::{self, Connection as TlsConnection};

use super::connection::{BUFFER, Buffer, Buffers, Stream};
use super::slab::Socket;

/// The encryption of a socket.
#[derive(Debug)]
struct Tls {
    connection: TlsConnection,
    /// Why it ended, if the other side has broken it or does not take it.
    fault: Option<rustls::Error>,
}

/// A socket, and what waits to be written to it.
#[derive(Debug)]
pub(super) struct WriteHalf {
    pub(super) stream: Stream,
    /// True while something waits that the system had no room for. Any attempt to write may find
    /// that out; that it has gone is said by a [flush](Link::flush) alone, so that whoever is told
    /// by the system that there is room sees the change, and wakes who waits for it.
    // Outside of the lock: the loop looks at it all the time, and a worker may be in a write.
    blocked: AtomicBool,
    /// The name under which the loop knows it, from when it is watched.
    token: AtomicUsize,
    pipe: Mutex<Pipe>,
}

/// Bytes that wait to be written. Whoever has it writes; nobody who has it waits for the loop.
#[derive(Debug, Default)]
struct Pipe {
    /// Encrypts what passes, from when that was agreed on.
    tls: Option<Box<Tls>>,
    output: Option<Buffer>,
    /// True while a worker has it among what it will write.
    queued: bool,
    /// Why a worker could not write it.
    broken: Option<ErrorKind>,
    /// Bytes that the system has taken.
    written: u64,
    /// True once the last words were said.
    ended: bool,
}

/// Outcome of a worker's write.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// A buffer that is empty again.
    pub(super) spare: Option<Buffer>,
    /// The socket whose connection is broken, if it is.
    pub(super) broken: Option<Socket>,
}

impl WriteHalf {
    pub(super) fn new(stream: Stream) -> Arc<WriteHalf> {
        let (blocked, token) = (AtomicBool::new(false), AtomicUsize::new(0));
        Arc::new(WriteHalf { stream, blocked, token, pipe: Mutex::default() })
    }

    /// It is watched as this from now on.
    pub(super) fn watched(&self, socket: Socket) {
        self.token.store(socket.token().0, Ordering::Relaxed);
    }

    fn pipe(&self) -> MutexGuard<'_, Pipe> {
        self.pipe.lock().expect("nobody panics who writes")
    }

    /// True while something waits to be written that the system had no room for.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Acquire)
    }

    /// Bytes that wait to be written, as far as they are not encrypted yet.
    pub(super) fn unsent(&self) -> usize {
        self.pipe().output.as_ref().map_or(0, |buffer| buffer.filled().len())
    }

    /// Bytes that the system has taken in all.
    pub(super) fn written(&self) -> u64 {
        self.pipe().written
    }

    /// True while it has borrowed a buffer.
    pub(super) fn has_borrowed(&self) -> bool {
        self.pipe().output.is_some()
    }

    /// Writes, or keeps what cannot be written now behind what already waits.
    ///
    /// # Errors
    /// If the connection is broken.
    pub(super) fn send(&self, bytes: &[u8], buffers: &mut Buffers) -> io::Result<()> {
        let mut pipe = self.pipe();
        assert!(!pipe.ended, "nothing is written to a closed connection");
        let mut rest = bytes;
        // What waits goes first. Where the system has refused some of it, it is not asked in vain.
        if pipe.output.is_some() && !self.is_blocked() {
            self.flush_pipe(&mut pipe, buffers)?;
        }
        // Encrypted bytes that were refused are with the encryption: it writes those first by itself.
        if pipe.output.is_none() {
            rest = &bytes[pipe.write(&self.stream, bytes)?..];
        }
        if !rest.is_empty() {
            pipe.output.get_or_insert_with(|| buffers.take()).push(rest);
        }
        self.note_refusal(pipe.is_blocked());
        Ok(())
    }

    /// Has it written by the worker that holds the loop, when it lets that go; more than a buffer has
    /// room for is written now. What cannot be written is known when the connection is
    /// [flushed](Link::flush) next.
    ///
    /// # Errors
    /// If the connection is broken.
    pub(super) fn send_later(
        self: &Arc<WriteHalf>,
        bytes: &[u8],
        buffers: &mut Buffers,
    ) -> io::Result<()> {
        let mut pipe = self.pipe();
        assert!(!pipe.ended, "nothing is written to a closed connection");
        if let Some(cause) = pipe.broken {
            return Err(cause.into());
        }
        let waits = pipe.output.as_ref().map_or(0, |buffer| buffer.filled().len());
        if waits + bytes.len() > BUFFER {
            // `send` takes the lock itself. Nobody else adds anything: for that one must hold the loop.
            drop(pipe);
            return self.send(bytes, buffers);
        }
        pipe.output.get_or_insert_with(|| buffers.take()).push(bytes);
        // What is blocked waits for the system's word: to try before would be a call in vain.
        if !pipe.queued && !self.is_blocked() {
            pipe.queued = true;
            buffers.queue(Arc::clone(self));
        }
        Ok(())
    }

    /// Goes on writing what waits.
    ///
    /// # Errors
    /// If the connection is broken.
    pub(super) fn flush(&self, buffers: &mut Buffers) -> io::Result<()> {
        let mut pipe = self.pipe();
        if let Some(cause) = pipe.broken {
            return Err(cause.into());
        }
        self.flush_pipe(&mut pipe, buffers)
    }

    fn flush_pipe(&self, pipe: &mut Pipe, buffers: &mut Buffers) -> io::Result<()> {
        let spare = pipe.flush(&self.stream)?;
        self.note(pipe);
        if let Some(spare) = spare {
            buffers.give(spare);
        }
        Ok(())
    }

    /// Writes what a worker was to write, without the loop. What is blocked goes on when the system
    /// says that it can, with the loop, which must hear of it.
    pub(super) fn write_queued(&self) -> Written {
        let mut pipe = self.pipe();
        pipe.queued = false;
        debug_assert!(!pipe.ended || pipe.output.is_none(), "what waited went with the last words");
        if self.is_blocked() {
            return Written::default();
        }
        match pipe.flush(&self.stream) {
            Ok(spare) => {
                self.note(&pipe);
                Written { spare, broken: None }
            }
            Err(error) => {
                pipe.broken = Some(error.kind());
                let token = Token(self.token.load(Ordering::Relaxed));
                Written { spare: None, broken: Some(Socket::of(token)) }
            }
        }
    }

    /// After an attempt to write, whoever has the pipe tells what the loop sees: so the system's word
    /// that there is room again is heard behind the attempt that had none.
    // Under the lock of the pipe, so that two attempts tell what they found in their order.
    fn note(&self, pipe: &Pipe) {
        self.blocked.store(pipe.is_blocked(), Ordering::Release);
    }

    /// The same of an attempt behind which nobody looks for who waits for room. It may have written what
    /// was refused before; the system's word that there is room follows all the same.
    fn note_refusal(&self, refused: bool) {
        if refused {
            self.blocked.store(true, Ordering::Release);
        }
    }

    /// Reads once. `encrypted`: the other side encrypts.
    pub(super) fn read(&self, room: &mut [u8], encrypted: bool) -> io::Result<usize> {
        if !encrypted {
            return (&self.stream).read(room);
        }
        let mut guard = self.pipe();
        let pipe = &mut *guard;
        // The lock is held over the call: to read may write an answer, which has its place among records.
        let Some(tls) = &mut pipe.tls else { return (&self.stream).read(room) };
        let read = decrypt(tls, &self.stream, room, &mut pipe.written);
        // What waits for its worker has met no refusal yet.
        self.note_refusal(tls.connection.wants_write());
        read.map_err(|error| match error.kind() {
            ErrorKind::Interrupted | ErrorKind::WouldBlock => error,
            kind => {
                if let Some(tls) = &mut pipe.tls {
                    tls.fault = error.downcast().ok();
                }
                kind.into()
            }
        })
    }

    /// All from here on is encrypted; what was read already is so, and what waits is not.
    ///
    /// # Errors
    /// If that is no handshake, or what waits in clear cannot be written first.
    pub(super) fn encrypt(
        &self,
        mut connection: TlsConnection,
        mut begun: &[u8],
        buffers: &mut Buffers,
    ) -> io::Result<()> {
        let mut pipe = self.pipe();
        assert!(pipe.tls.is_none(), "it is agreed on once");
        self.flush_pipe(&mut pipe, buffers)?;
        // What stands in clear before is a few bytes: a socket without room for these is of no use.
        if pipe.output.is_some() {
            return Err(ErrorKind::WouldBlock.into());
        }
        while !begun.is_empty() {
            connection.read_tls(&mut begun)?;
            connection.process_new_packets().map_err(io::Error::other)?;
        }
        pipe.tls = Some(Box::new(Tls { connection, fault: None }));
        // The first words of the handshake, which nobody else would send.
        pipe.write(&self.stream, b"")?;
        self.note(&pipe);
        Ok(())
    }

    /// A view of its encryption, if it has any.
    pub(super) fn of_encryption<T>(&self, see: impl FnOnce(&TlsConnection) -> T) -> Option<T> {
        self.pipe().tls.as_ref().map(|tls| see(&tls.connection))
    }

    /// Why the encryption has ended, if not by the connection.
    pub(super) fn fault(&self) -> Option<rustls::Error> {
        self.pipe().tls.as_ref()?.fault.clone()
    }

    /// The last words: what waits, if the system has room for it, and that nothing follows.
    pub(super) fn end(&self, buffers: &mut Buffers) {
        let mut guard = self.pipe();
        let pipe = &mut *guard;
        pipe.ended = true;
        if !self.is_blocked() && pipe.broken.is_none() {
            // Who is not there any more does not hear it.
            let _ = self.flush_pipe(pipe, buffers);
        }
        if let Some(output) = pipe.output.take() {
            buffers.give(output);
        }
        if let Some(tls) = &mut pipe.tls {
            tls.connection.send_close_notify();
            let _ = encrypt(tls, &self.stream, b"", &mut pipe.written);
        }
    }
}

impl Pipe {
    fn is_blocked(&self) -> bool {
        self.output.is_some() || self.tls.as_ref().is_some_and(|tls| tls.connection.wants_write())
    }

    /// Writes what waits; the buffer that is empty then.
    fn flush(&mut self, stream: &Stream) -> io::Result<Option<Buffer>> {
        let Some(mut buffer) = self.output.take() else {
            if self.tls.is_some() {
                self.write(stream, b"")?;
            }
            return Ok(None);
        };
        let written = self.write(stream, buffer.filled())?;
        buffer.skip(written);
        if buffer.filled().is_empty() {
            return Ok(Some(buffer));
        }
        self.output = Some(buffer);
        Ok(None)
    }

    /// Writes until all is written or nothing can be.
    fn write(&mut self, mut stream: &Stream, bytes: &[u8]) -> io::Result<usize> {
        if let Some(tls) = &mut self.tls {
            return encrypt(tls, stream, bytes, &mut self.written);
        }
        let mut written = 0;
        while written < bytes.len() {
            match stream.write(&bytes[written..]) {
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
}

/// Reads what came encrypted, and answers what belongs to the handshake.
fn decrypt(
    tls: &mut Tls,
    mut stream: &Stream,
    room: &mut [u8],
    written: &mut u64,
) -> io::Result<usize> {
    loop {
        match tls.connection.reader().read(room) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            read => return read,
        }
        if tls.connection.read_tls(&mut stream)? == 0 {
            return Ok(0);
        }
        let processed = tls.connection.process_new_packets();
        // An alert, if it did not go well: then who does not hear it any more does not matter.
        let answered = encrypt(tls, stream, b"", written);
        processed.map_err(io::Error::other)?;
        answered?;
    }
}

/// Encrypts bytes and writes what there is to write, as far as that is possible now; how many of the
/// bytes are on their way.
fn encrypt(
    tls: &mut Tls,
    mut stream: &Stream,
    bytes: &[u8],
    written: &mut u64,
) -> io::Result<usize> {
    let tls = &mut tls.connection;
    let mut taken = 0;
    loop {
        while tls.wants_write() {
            match tls.write_tls(&mut stream) {
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
    use std::path::PathBuf;
    use std::sync::Arc;

    use mio::net::UnixStream;
    use rustls::crypto::ring;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ClientConfig, RootCertStore, ServerConfig};
    use rustls::{ClientConnection, ServerConnection};

    use super::*;

    fn fixture(name: &str) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tls/tests/certificates").join(name)
    }

    fn certificate(name: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(fixture(name)).unwrap()
    }

    /// The gate's end and a server's.
    fn ends() -> (ClientConnection, ServerConnection) {
        let provider = Arc::new(ring::default_provider());
        let key = PrivateKeyDer::from_pem_file(fixture("leaf.key")).unwrap();
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate("database.pem")], key)
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate("authority.pem")).unwrap();
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().unwrap();
        (
            ClientConnection::new(Arc::new(client), name).unwrap(),
            ServerConnection::new(Arc::new(server)).unwrap(),
        )
    }

    /// What was refused was written on by a read, which said that nothing was blocked any more: whoever
    /// heard of the room then saw no change, and did not wake who waited for it.
    #[test]
    fn what_was_refused_is_blocked_until_it_is_flushed_though_a_read_writes_it_on() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (write_half, theirs) = (WriteHalf::new(Stream::Unix(ours)), Stream::Unix(theirs));
        let (client, mut server) = ends();
        let mut buffers = Buffers::default();
        write_half.encrypt(client.into(), b"", &mut buffers).unwrap();
        let mut room = [0; 4096];
        let hear = |server: &mut ServerConnection| {
            while server.read_tls(&mut &theirs).is_ok_and(|bytes| bytes > 0) {
                server.process_new_packets().unwrap();
                // What it hears is thrown away.
                while server.reader().read(&mut [0; 4096]).is_ok_and(|bytes| bytes > 0) {}
            }
            while server.wants_write() {
                server.write_tls(&mut &theirs).unwrap();
            }
        };
        while server.is_handshaking() {
            hear(&mut server);
            let _ = write_half.read(&mut room, true);
        }
        let _ = write_half.read(&mut room, true);
        while !write_half.is_blocked() {
            write_half.send(&[7; 1000], &mut buffers).unwrap();
        }
        assert!(!write_half.has_borrowed(), "what was refused is encrypted");
        server.writer().write_all(b"an answer").unwrap();
        hear(&mut server);
        assert_eq!(write_half.read(&mut room, true).unwrap(), 9);
        let is_written = || write_half.of_encryption(|tls| !tls.wants_write()) == Some(true);
        assert!(is_written() && write_half.is_blocked(), "it has not been said yet");
        write_half.flush(&mut buffers).unwrap();
        assert!(!write_half.is_blocked());
        // Nor does it say so who writes something else.
        while !write_half.is_blocked() {
            write_half.send(&[7; 1000], &mut buffers).unwrap();
        }
        hear(&mut server);
        write_half.send(b"more", &mut buffers).unwrap();
        assert!(is_written() && write_half.is_blocked());
        write_half.flush(&mut buffers).unwrap();
        assert!(!write_half.is_blocked());
    }
}
