//! The socket between a gate and its successor: whole words in and out, with the sockets that go with
//! them, and never more in memory than a few frames.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::protocol::{GIVEN_MAX, Malformed, Message, TAKEN_MAX};
use crate::peer;

/// Bytes that are read at once \[byte\].
// A word of the largest size is read in many such pieces, and its frame is put together here.
const READ: usize = 64 << 10;

/// Sockets that may have come whose words have not: each word has one at most, and what is read at
/// once ends with it.
const SOCKETS_MAX: usize = 16;

/// End of the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// That of the gate that hands over: small words come, and no sockets.
    Predecessor,
    /// That of the one that takes over.
    Successor,
}

impl Side {
    /// The largest frame that comes, and the largest that goes.
    fn bounds(self) -> (usize, usize) {
        match self {
            Side::Predecessor => (TAKEN_MAX, GIVEN_MAX),
            Side::Successor => (GIVEN_MAX, TAKEN_MAX),
        }
    }
}

/// A frame that waits to be sent, with its socket until the first byte has gone.
#[derive(Debug)]
struct Parcel {
    bytes: Vec<u8>,
    at: usize,
    socket: Option<OwnedFd>,
}

/// A word that is not too long.
#[derive(Debug)]
pub(super) struct Framed(Vec<u8>);

/// Outcome of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    Bytes,
    /// There is nothing now.
    Nothing,
    /// Nothing will come any more.
    Ended,
}

/// A word, and the socket that came with it.
pub(super) type Heard = (Message, Option<OwnedFd>);

/// The socket.
#[derive(Debug)]
pub(super) struct Channel {
    stream: UnixStream,
    side: Side,
    input: Vec<u8>,
    /// Bytes of the input that were taken.
    taken: usize,
    sockets: VecDeque<OwnedFd>,
    output: VecDeque<Parcel>,
    /// The bytes of the output, and how many words have gone in all.
    unsent: usize,
    sent: u64,
}

impl Channel {
    pub(super) fn new(stream: UnixStream, side: Side) -> Channel {
        Channel {
            stream,
            side,
            input: Vec::new(),
            taken: 0,
            sockets: VecDeque::new(),
            output: VecDeque::new(),
            unsent: 0,
            sent: 0,
        }
    }

    /// The process at the other end: the number of the system's user, and its own.
    ///
    /// # Errors
    /// If the system does not say.
    pub(super) fn peer(&self) -> io::Result<(u32, u32)> {
        let found = peer::credentials_of(&self.stream)?;
        Ok((found.uid, found.pid.unsigned_abs()))
    }

    /// Lets reads and writes wait so long at most.
    ///
    /// # Errors
    /// If the system does not take it.
    pub(super) fn wait_for(&self, timeout: Duration) -> io::Result<()> {
        self.stream.set_nonblocking(false)?;
        self.stream.set_read_timeout(Some(timeout))?;
        self.stream.set_write_timeout(Some(timeout))
    }

    /// Nothing waits from here on, and the system tells by this name that something can be done.
    ///
    /// # Errors
    /// If the system has no room for it.
    pub(super) fn watch(&self, registry: &Registry, token: Token) -> io::Result<()> {
        self.stream.set_nonblocking(true)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut SourceFd(&self.stream.as_raw_fd()), token, interest)
    }

    /// Says something, as soon as there is room. The number of the word among those that were said.
    ///
    /// # Errors
    /// If it is too long; then nothing was said.
    pub(super) fn say(
        &mut self,
        message: &Message,
        socket: Option<OwnedFd>,
    ) -> Result<u64, Malformed> {
        let frame = self.frame(message)?;
        Ok(self.put(frame, socket))
    }

    /// Something that can be [put](Channel::put) whatever happens meanwhile.
    ///
    /// # Errors
    /// If it is too long.
    pub(super) fn frame(&self, message: &Message) -> Result<Framed, Malformed> {
        message.encode(self.side.bounds().1).map(Framed)
    }

    /// Says what was framed, as soon as there is room. Its number among the words that were said.
    pub(super) fn put(&mut self, Framed(bytes): Framed, socket: Option<OwnedFd>) -> u64 {
        self.unsent += bytes.len();
        self.output.push_back(Parcel { bytes, at: 0, socket });
        self.sent + self.output.len() as u64
    }

    /// Words that the system has taken in all.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes that wait to be sent \[byte\].
    pub(super) fn unsent(&self) -> usize {
        self.unsent
    }

    /// Sends what there is room for.
    ///
    /// # Errors
    /// If nothing can be sent any more.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while let Some(parcel) = self.output.front_mut() {
            let sent = match send(&self.stream, parcel) {
                Ok(sent) => sent,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            assert!(sent > 0, "the system takes a byte, or says why not");
            // It has gone with the first byte. Sent again with the rest it would come twice.
            parcel.socket = None;
            parcel.at += sent;
            self.unsent -= sent;
            if parcel.at == parcel.bytes.len() {
                self.output.pop_front();
                self.sent += 1;
            }
        }
        debug_assert_eq!(self.unsent, 0, "all that was said is sent");
        Ok(())
    }

    /// Says what waits to be said no more, but for the rest of what was begun.
    pub(super) fn withhold(&mut self) {
        // Half a frame would make nonsense of what is said behind it.
        let begun = self.output.front().is_some_and(|parcel| parcel.at > 0);
        self.output.truncate(usize::from(begun));
        self.unsent = self.output.iter().map(|parcel| parcel.bytes.len() - parcel.at).sum();
    }

    /// Reads once.
    ///
    /// # Errors
    /// If it is broken.
    pub(super) fn fill(&mut self) -> io::Result<Filled> {
        if self.taken > 0 {
            self.input.drain(..self.taken);
            self.taken = 0;
        }
        let before = self.input.len();
        self.input.resize(before + READ, 0);
        let read = receive(&self.stream, self.side, &mut self.input[before..], &mut self.sockets);
        self.input.truncate(before + read.as_ref().copied().unwrap_or(0));
        match read {
            Ok(0) => Ok(Filled::Ended),
            Ok(_) => Ok(Filled::Bytes),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(Filled::Bytes),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Filled::Nothing),
            // So the system tells of an end with something unread at the other side.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(Filled::Ended),
            Err(error) => Err(error),
        }
    }

    /// The next word that is all here.
    ///
    /// # Errors
    /// If it is none: nothing that follows can be understood.
    pub(super) fn next(&mut self) -> Result<Option<Heard>, Malformed> {
        let readable = &self.input[self.taken..];
        let Some(len) = Message::measure(readable, self.side.bounds().0)? else { return Ok(None) };
        let Some(frame) = readable.get(..len) else { return Ok(None) };
        let message = Message::decode(frame)?;
        self.taken += len;
        // In the order of the words, since each comes with the first byte of its own.
        let socket = match message.has_socket() {
            true => Some(self.sockets.pop_front().ok_or(Malformed::Socket)?),
            false => None,
        };
        // Open files are few: who sends them without words for them may not use them up.
        if self.sockets.len() > SOCKETS_MAX {
            return Err(Malformed::Socket);
        }
        Ok(Some((message, socket)))
    }

    /// Waits for the next word; `None` if there is none in time, or ever.
    ///
    /// # Errors
    /// If it is broken, or what came is no word.
    pub(super) fn wait(&mut self) -> io::Result<Option<Heard>> {
        loop {
            if let Some(heard) = self.next().map_err(io::Error::other)? {
                return Ok(Some(heard));
            }
            match self.fill()? {
                Filled::Bytes => {}
                Filled::Nothing | Filled::Ended => return Ok(None),
            }
        }
    }

    /// Takes no more words: whatever the other side says from here on, it is told by the system that
    /// nobody hears it. What it said before can still be read.
    ///
    /// # Errors
    /// If it is broken.
    pub(super) fn deafen(&self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Read)
    }
}

/// Sends what is left of a parcel, or a part of it.
fn send(stream: &UnixStream, parcel: &Parcel) -> io::Result<usize> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut room);
    let sockets = parcel.socket.as_ref().map(|socket| [socket.as_fd()]);
    if let Some(sockets) = &sockets {
        let fits = ancillary.push(SendAncillaryMessage::ScmRights(sockets));
        assert!(fits, "there is room for one");
    }
    let bytes = [IoSlice::new(&parcel.bytes[parcel.at..])];
    Ok(sendmsg(stream, &bytes, &mut ancillary, SendFlags::NOSIGNAL)?)
}

/// Reads what there is room for, and takes the sockets that came with it.
fn receive(
    stream: &UnixStream,
    side: Side,
    room: &mut [u8],
    sockets: &mut VecDeque<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut ancillary = match side {
        // Without room for them the system closes those that come.
        Side::Predecessor => RecvAncillaryBuffer::default(),
        Side::Successor => RecvAncillaryBuffer::new(&mut space),
    };
    let mut room = [IoSliceMut::new(room)];
    // Or a program that the gate starts would inherit clients.
    let read = recvmsg(stream, &mut room, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(came) = message {
            sockets.extend(came);
        }
    }
    Ok(read.bytes)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    fn pair() -> (Channel, Channel) {
        let (one, other) = UnixStream::pair().unwrap();
        for stream in [&one, &other] {
            stream.set_nonblocking(true).unwrap();
        }
        (Channel::new(one, Side::Predecessor), Channel::new(other, Side::Successor))
    }

    fn listener(path: &str) -> Message {
        let place = super::super::protocol::Place::Unix { path: path.into(), inode: 1 };
        Message::Listener(place)
    }

    #[test]
    fn words_come_in_order_each_with_its_own_socket() {
        let (mut here, mut there) = pair();
        let mut ends = Vec::new();
        for at in 0..40 {
            let (ours, theirs) = UnixStream::pair().unwrap();
            here.say(&listener(&format!("{at}")), Some(OwnedFd::from(theirs))).unwrap();
            here.say(&Message::Listeners { count: at }, None).unwrap();
            ends.push(ours);
        }
        for (at, mut end) in ends.into_iter().enumerate() {
            let mut heard = Vec::new();
            while heard.len() < 2 {
                here.flush().unwrap();
                match there.next().unwrap() {
                    Some(message) => heard.push(message),
                    None => assert_eq!(there.fill().unwrap(), Filled::Bytes),
                }
            }
            assert_eq!(heard[0].0, listener(&format!("{at}")));
            assert_eq!(heard[1].0, Message::Listeners { count: at as u32 });
            let mut came = UnixStream::from(heard.swap_remove(0).1.unwrap());
            came.write_all(b"mine").unwrap();
            let mut bytes = [0; 4];
            end.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"mine");
            drop(came);
            assert_eq!(end.read(&mut bytes).unwrap(), 0, "nobody else has it any more");
        }
        assert_eq!((here.unsent(), here.sent()), (0, 80));
    }

    #[test]
    fn what_was_said_before_it_was_deaf_is_heard_and_nothing_after() {
        let (mut here, mut there) = pair();
        there.say(&Message::Has { number: 1 }, None).unwrap();
        there.flush().unwrap();
        here.deafen().unwrap();
        there.say(&Message::Has { number: 2 }, None).unwrap();
        assert_eq!(there.flush().unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(there.sent(), 1, "who says it knows that it was not heard");
        assert_eq!(here.fill().unwrap(), Filled::Bytes);
        assert_eq!(here.next().unwrap().unwrap().0, Message::Has { number: 1 });
        assert_eq!(here.next().unwrap().map(|heard| heard.0), None);
        assert_eq!(here.fill().unwrap(), Filled::Ended);
        // It still speaks.
        here.say(&Message::GivenUp { why: "late".into() }, None).unwrap();
        here.flush().unwrap();
        assert_eq!(there.fill().unwrap(), Filled::Bytes);
        assert_eq!(there.next().unwrap().unwrap().0, Message::GivenUp { why: "late".into() });
    }

    /// A client was found to be too long to be told when its socket was watched no more: if the system did
    /// not watch it again, nobody heard it.
    #[test]
    fn what_is_too_long_is_known_before_anything_is_said() {
        let (mut here, mut there) = pair();
        let statement = |bytes| Message::Statement {
            number: 1,
            statement: pgsession::statements::ExportedStatement {
                scope: 1,
                lexer_mode: pgsession::sql::tokens::LexerMode::default(),
                tail: vec![7; bytes],
            },
        };
        assert!(matches!(here.frame(&statement(GIVEN_MAX)), Err(Malformed::Long { .. })));
        let frame = here.frame(&statement(100)).unwrap();
        assert_eq!((here.unsent(), here.say(&Message::Begin, None)), (0, Ok(1)));
        assert_eq!(here.put(frame, None), 2);
        here.flush().unwrap();
        assert_eq!(there.fill().unwrap(), Filled::Bytes);
        let heard = [(); 2].map(|()| there.next().unwrap().unwrap().0);
        assert_eq!(heard, [Message::Begin, statement(100)]);
    }

    #[test]
    fn what_is_withheld_never_cuts_a_word_in_two() {
        let (mut here, mut there) = pair();
        let statement = pgsession::statements::ExportedStatement {
            scope: 1,
            lexer_mode: pgsession::sql::tokens::LexerMode::default(),
            tail: vec![7; 1 << 20],
        };
        for number in 0..3 {
            let statement = statement.clone();
            here.say(&Message::Statement { number, statement }, None).unwrap();
        }
        here.flush().unwrap();
        assert!(here.unsent() > 2 << 20, "the system has no room for all");
        here.withhold();
        here.say(&Message::GivenUp { why: "enough".into() }, None).unwrap();
        let mut heard = Vec::new();
        while heard.len() < 2 {
            here.flush().unwrap();
            match there.next().unwrap() {
                Some((message, _)) => heard.push(message),
                None => assert_eq!(there.fill().unwrap(), Filled::Bytes),
            }
        }
        assert_eq!(heard[0], Message::Statement { number: 0, statement });
        assert_eq!(heard[1], Message::GivenUp { why: "enough".into() });
        assert_eq!(here.unsent(), 0);
    }

    #[test]
    fn sockets_that_belong_to_nothing_are_refused_and_so_are_missing_ones() {
        let (mut here, mut there) = pair();
        here.say(&listener("a"), None).unwrap();
        here.flush().unwrap();
        assert_eq!(there.fill().unwrap(), Filled::Bytes);
        assert!(matches!(there.next(), Err(Malformed::Socket)));
        let (mut here, mut there) = pair();
        let mut refused = false;
        for _ in 0..100 {
            let stray = UnixStream::pair().unwrap().0;
            here.say(&Message::Begin, Some(OwnedFd::from(stray))).unwrap();
            here.flush().unwrap();
            assert_eq!(there.fill().unwrap(), Filled::Bytes);
            refused |= there.next().is_err();
        }
        assert!(refused, "they do not pile up");
        // Who hands over is given none: the system closes them.
        let (stray, mut end) = UnixStream::pair().unwrap();
        there.say(&Message::Ready, Some(OwnedFd::from(stray))).unwrap();
        there.flush().unwrap();
        assert_eq!(here.fill().unwrap(), Filled::Bytes);
        assert_eq!(here.next().unwrap().unwrap().0, Message::Ready);
        assert_eq!((end.read(&mut [0]).unwrap(), here.sockets.len()), (0, 0));
    }

    #[test]
    fn the_system_says_who_is_at_the_other_end() {
        let (here, _there) = pair();
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(here.peer().unwrap(), (own, std::process::id()));
    }

    #[test]
    fn bytes_that_are_no_word_end_it() {
        for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\0\0\0\0\0", b"h\0\0\0\x01x", &[0xff; 64]] {
            let (mut here, there) = pair();
            (&there.stream).write_all(bytes).unwrap();
            assert_eq!(here.fill().unwrap(), Filled::Bytes);
            assert!(here.next().is_err(), "{bytes:?}");
        }
    }
}
