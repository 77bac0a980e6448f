//! Tests of a connection and its buffers.

use super::*;
use crate::write_half::Written;

fn pair() -> (Connection, std::os::unix::net::UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let theirs = std::os::unix::net::UnixStream::from(std::os::fd::OwnedFd::from(theirs));
    theirs.set_nonblocking(false).unwrap();
    let mut connection = Connection::new(Stream::Unix(ours));
    connection.readable = true;
    (connection, theirs)
}

#[test]
fn a_buffer_is_borrowed_only_while_bytes_are_pending() {
    let (mut connection, mut theirs) = pair();
    let mut buffers = Buffers::default();
    theirs.write_all(b"hello").unwrap();
    assert_eq!(connection.fill(&mut buffers), Filled::Bytes(5));
    assert!(!connection.may_read(), "all there was");
    assert_eq!(connection.read(), b"hello");
    connection.take(2, &mut buffers);
    assert_eq!((connection.read(), buffers.spare.len()), (&b"llo"[..], 0));
    connection.take(3, &mut buffers);
    assert_eq!((connection.read(), buffers.spare.len()), (&b""[..], 1));
    assert_eq!(connection.fill(&mut buffers), Filled::Nothing);
}

/// Bytes of which the system refuses some.
fn more_than_fits() -> Vec<u8> {
    (0..3_000_000_u32).map(|at| (at % 251) as u8).collect()
}

/// Reads what was sent and goes on sending, until all of it has come in its order.
fn all_comes(
    sent: &[u8],
    connection: &mut Connection,
    theirs: &mut impl Read,
    buffers: &mut Buffers,
) {
    assert!(connection.is_blocked(), "some of it waits");
    let mut came = vec![0; sent.len()];
    let mut at = 0;
    while at < came.len() {
        at += theirs.read(&mut came[at..]).unwrap();
        connection.flush(buffers).unwrap();
    }
    assert!(came == sent && !connection.is_blocked());
}

#[test]
fn what_cannot_be_written_waits_in_order_and_is_all_there_in_the_end() {
    let (mut connection, mut theirs) = pair();
    let mut buffers = Buffers::default();
    let sent = more_than_fits();
    for part in sent.chunks(100_000) {
        connection.send(part, &mut buffers).unwrap();
    }
    all_comes(&sent, &mut connection, &mut theirs, &mut buffers);
    assert!(buffers.spare.is_empty(), "a buffer that has grown is not kept");
}

/// Writes what a loop has queued, as its worker does.
fn let_go(buffers: &mut Buffers) -> Vec<Option<Socket>> {
    let mut queue = Vec::new();
    buffers.take_queued(&mut queue);
    let written = queue.into_iter().map(|write_half| {
        let Written { spare, broken } = write_half.write_queued();
        if let Some(spare) = spare {
            buffers.give(spare);
        }
        broken
    });
    written.collect()
}

#[test]
fn what_is_said_with_several_workers_is_written_when_the_loop_is_let_go() {
    let (mut connection, mut theirs) = pair();
    let mut buffers = Buffers::new(Writes::Later);
    connection.send(b"one ", &mut buffers).unwrap();
    connection.send(b"two", &mut buffers).unwrap();
    assert!(!connection.is_blocked(), "nothing was refused");
    theirs.set_nonblocking(true).unwrap();
    let mut came = [0; 16];
    assert_eq!(theirs.read(&mut came).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(let_go(&mut buffers), [None], "in one go");
    assert_eq!(theirs.read(&mut came).unwrap(), 7);
    assert_eq!(came[..7], *b"one two");
    assert_eq!(buffers.spare.len(), 1, "its buffer is back");
    // The last words of who goes are written before it goes.
    connection.send(b"three", &mut buffers).unwrap();
    connection.close(&mut buffers);
    assert_eq!(theirs.read(&mut came).unwrap(), 5);
    assert_eq!(let_go(&mut buffers), [None], "nothing is left of it");
    assert_eq!(theirs.read(&mut came).unwrap(), 0);
}

#[test]
fn what_is_refused_with_several_workers_goes_on_in_order_with_the_loop() {
    let (mut connection, mut theirs) = pair();
    let mut buffers = Buffers::new(Writes::Later);
    let sent = more_than_fits();
    for part in sent.chunks(BUFFER / 3) {
        connection.send(part, &mut buffers).unwrap();
        let_go(&mut buffers);
    }
    assert_eq!(let_go(&mut buffers), [], "what was refused waits for the system's word");
    all_comes(&sent, &mut connection, &mut theirs, &mut buffers);
    drop(theirs);
    let socket = Socket::Own(9);
    connection.watched(0, socket);
    connection.send(b"nobody is there", &mut buffers).unwrap();
    assert_eq!(let_go(&mut buffers), [Some(socket)]);
    assert!(
        connection.flush(&mut buffers).is_err() && connection.send(b"x", &mut buffers).is_err()
    );
}

#[test]
fn what_a_worker_reads_is_nobody_elses_until_it_is_back() {
    let (mut connection, mut theirs) = pair();
    let mut buffers = Buffers::new(Writes::Later);
    theirs.write_all(b"first").unwrap();
    let mut reading = connection.begin_read(&mut buffers).unwrap();
    assert_eq!(connection.fill(&mut buffers), Filled::Nothing, "it is being read");
    assert!(connection.begin_read(&mut buffers).is_none());
    reading.read();
    theirs.write_all(b"second").unwrap();
    assert_eq!(connection.fill(&mut buffers), Filled::Nothing);
    connection.end_read(reading, &mut buffers);
    assert_eq!(connection.read(), b"first");
    connection.readable = true;
    assert!(connection.begin_read(&mut buffers).is_none(), "what is there comes first");
    assert_eq!(connection.fill(&mut buffers), Filled::Bytes(6));
    assert_eq!(connection.read(), b"firstsecond");
    connection.take(11, &mut buffers);
    // What was read of another connection is not this one's.
    let (mut other, _theirs) = pair();
    other.end_read(
        {
            connection.readable = true;
            connection.begin_read(&mut buffers).unwrap()
        },
        &mut buffers,
    );
    assert!(connection.is_read && !other.is_read);
    connection.is_read = false;
    drop(theirs);
    let mut reading = connection.begin_read(&mut buffers).unwrap();
    reading.read();
    connection.end_read(reading, &mut buffers);
    assert_eq!(connection.fill(&mut buffers), Filled::Ended(End::Closed));
    assert_eq!(connection.read(), b"");
}

#[test]
fn a_full_buffer_says_so_and_the_end_is_told() {
    let (mut connection, mut theirs) = pair();
    let mut buffers = Buffers::default();
    theirs.write_all(&vec![7; BUFFER]).unwrap();
    while let Filled::Bytes(_) = connection.fill(&mut buffers) {}
    connection.readable = true;
    assert_eq!(connection.fill(&mut buffers), Filled::NoRoom);
    connection.take(BUFFER, &mut buffers);
    drop(theirs);
    assert_eq!(connection.fill(&mut buffers), Filled::Ended(End::Closed));
}
