//! The sockets of one exchange, and the buffers between them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::buf::Buf;
use super::config::Limits;

/// A client's connection, with what has passed over it.
#[derive(Debug)]
pub(crate) struct ClientIo {
    stream: Stream,
    /// Read from the client [B].
    received: u64,
    /// Taken by the system to be sent to the client [B].
    sent: u64,
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl ClientIo {
    pub(crate) fn plain(stream: TcpStream) -> ClientIo {
        ClientIo { stream: Stream::Plain(stream), received: 0, sent: 0 }
    }

    pub(crate) fn tls(stream: TlsStream<TcpStream>) -> ClientIo {
        ClientIo { stream: Stream::Tls(Box::new(stream)), received: 0, sent: 0 }
    }

    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.stream, Stream::Plain(_))
    }

    /// Read and sent so far, without what TLS adds [B].
    pub(crate) fn passed(&self) -> (u64, u64) {
        (self.received, self.sent)
    }

    /// Reads into `buf`, which must have room: 0 is the end.
    pub(crate) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut Buf,
    ) -> Poll<io::Result<usize>> {
        let n = ready!(match &mut self.stream {
            Stream::Plain(stream) => poll_fill(stream, cx, buf, usize::MAX),
            Stream::Tls(stream) => poll_fill(&mut **stream, cx, buf, usize::MAX),
        })?;
        self.received += n as u64;
        Poll::Ready(Ok(n))
    }

    /// Sends the front of `buf` and drops what was taken.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut Buf,
    ) -> Poll<io::Result<()>> {
        let n = ready!(match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, buf.filled()),
            Stream::Tls(stream) => Pin::new(&mut **stream).poll_write(cx, buf.filled()),
        })?;
        if n == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        buf.consume(n);
        self.sent += n as u64;
        Poll::Ready(Ok(()))
    }

    /// Sends what TLS still holds; ready at once without it.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(_) => Poll::Ready(Ok(())),
            Stream::Tls(stream) => Pin::new(&mut **stream).poll_flush(cx),
        }
    }

    /// Says that nothing more will be sent.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
        }
    }

    /// Makes the coming close a reset, so that the client cannot take what it got for all.
    pub(crate) fn reset_on_close(&self) {
        let stream = match &self.stream {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.get_ref().0,
        };
        // A socket that refuses this is broken already.
        let _ = stream.set_zero_linger();
    }
}

/// Reads at most `most` bytes into `buf`, which must have room: 0 is the end.
pub(crate) fn poll_fill<S: AsyncRead + Unpin>(
    stream: &mut S,
    cx: &mut Context<'_>,
    buf: &mut Buf,
    most: usize,
) -> Poll<io::Result<usize>> {
    let space = buf.space();
    assert!(!space.is_empty(), "reading without room would look like the end");
    let len = space.len().min(most);
    let mut into = ReadBuf::new(&mut space[..len]);
    ready!(Pin::new(stream).poll_read(cx, &mut into))?;
    let n = into.filled().len();
    buf.commit(n);
    Poll::Ready(Ok(n))
}

/// The four buffers of a client's connection. They outlive its exchanges.
#[derive(Debug)]
pub(crate) struct Wires {
    /// From the client.
    pub(crate) client_in: Buf,
    /// To the client.
    pub(crate) client_out: Buf,
    /// From the server.
    pub(crate) server_in: Buf,
    /// To the server.
    pub(crate) server_out: Buf,
    /// The longest head [B], for which these buffers were made.
    pub(crate) head_max: usize,
}

/// Room that a buffer of content keeps free, so that nobody reads or sends in crumbs [B].
pub(crate) const SLACK: usize = 2048;

impl Wires {
    pub(crate) fn new(limits: &Limits) -> Wires {
        let first = 4096;
        Wires {
            client_in: Buf::new(first, limits.head),
            client_out: Buf::new(first, limits.buffer + 2 * SLACK),
            server_in: Buf::new(2 * first, limits.head),
            server_out: Buf::new(first, limits.buffer.min(64 * 1024) + 2 * SLACK),
            head_max: limits.head,
        }
    }

    /// Gives memory back that only a large message needed.
    pub(crate) fn shrink(&mut self) {
        self.client_out.shrink();
        self.server_in.shrink();
        self.server_out.shrink();
    }
}
