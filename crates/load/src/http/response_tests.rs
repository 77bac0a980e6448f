//! Tests of the response reader: every message in one piece and cut at every byte, then mutated.

use rand::RngExt;
use workload::stream;

use super::*;

/// Result of a message, and then the close.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Came {
    /// Complete: status, whether the connection stays open, bytes of surplus.
    Whole(u16, bool, usize),
    /// Complete with the close.
    AtClose(u16),
    Broken(ErrorKind),
}

fn read<'a>(body: Body, pieces: impl Iterator<Item = &'a [u8]>) -> Came {
    let mut response = Response::new();
    response.restart(body);
    let mut whole = None;
    let mut surplus = 0;
    for piece in pieces {
        if whole.is_some() {
            surplus += piece.len();
            continue;
        }
        match response.feed(piece) {
            Err(kind) => return Came::Broken(kind),
            Ok(Progress::More) => {}
            Ok(Progress::Complete(taken)) => {
                whole = Some((response.status(), response.keeps_open()));
                surplus += piece.len() - taken;
            }
        }
    }
    match whole {
        Some((status, open)) => Came::Whole(status, open, surplus),
        None => match response.end() {
            Ok(()) => Came::AtClose(response.status()),
            Err(kind) => Came::Broken(kind),
        },
    }
}

const MESSAGES: &[(&str, Came)] = &[
    ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", Came::Whole(200, true, 0)),
    ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Came::Whole(200, true, 0)),
    ("HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nhello", Came::Whole(200, true, 3)),
    (
        "HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx",
        Came::Whole(503, false, 0),
    ),
    ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", Came::Whole(200, false, 0)),
    (
        "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\nx",
        Came::Whole(200, true, 0),
    ),
    ("HTTP/1.1 200 OK\r\n\r\nuntil the end", Came::AtClose(200)),
    ("HTTP/1.1 204 None\r\nContent-Length: 7\r\n\r\n", Came::Whole(204, true, 0)),
    ("HTTP/1.1 304 Same\r\n\r\n", Came::Whole(304, true, 0)),
    (
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\n\
         HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
        Came::Whole(200, true, 0),
    ),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        Came::Whole(200, true, 0),
    ),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\nContent-Length: 3\r\n\r\n\
         A;name=\"v\"\r\n0123456789\r\n1 \r\nx\r\n000\r\nTrailer: yes\r\nMore: 1\r\n\r\nsurplus",
        Came::Whole(200, true, 7),
    ),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc", Came::AtClose(200)),
    ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", Came::Broken(ErrorKind::WrongLength)),
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        Came::Broken(ErrorKind::Malformed),
    ),
    ("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello", Came::Broken(ErrorKind::Malformed)),
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        Came::Broken(ErrorKind::Malformed),
    ),
    ("HTTP/1.1 200 OK\r\nContent-Le", Came::Broken(ErrorKind::ClosedEarly)),
    ("", Came::Broken(ErrorKind::ClosedEarly)),
    ("SSH-2.0-OpenSSH\r\n\r\n", Came::Broken(ErrorKind::Malformed)),
    ("HTTP/1.1 twohundred OK\r\n\r\n", Came::Broken(ErrorKind::Malformed)),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        Came::Broken(ErrorKind::ClosedEarly),
    ),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        Came::Broken(ErrorKind::Malformed),
    ),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
        Came::Broken(ErrorKind::Malformed),
    ),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n",
        Came::Broken(ErrorKind::Malformed),
    ),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\n0\n\n",
        Came::Broken(ErrorKind::Malformed),
    ),
];

#[test]
fn a_message_means_the_same_wherever_it_is_cut() {
    for &(message, came) in MESSAGES {
        let bytes = message.as_bytes();
        assert_eq!(read(Body::Expected, [bytes].into_iter()), came, "in one piece: {message:?}");
        assert_eq!(read(Body::Expected, bytes.chunks(1)), came, "byte by byte: {message:?}");
        for cut in 0..bytes.len() {
            let (a, b) = bytes.split_at(cut);
            let pieces = [a, b].into_iter().filter(|piece| !piece.is_empty());
            assert_eq!(read(Body::Expected, pieces), came, "cut at {cut}: {message:?}");
        }
    }
}

#[test]
fn the_answer_to_a_head_request_has_no_body() {
    let message = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(read(Body::Never, [&message[..]].into_iter()), Came::Whole(200, true, 0));
    assert_eq!(
        read(Body::Expected, [&message[..]].into_iter()),
        Came::Broken(ErrorKind::WrongLength)
    );
}

#[test]
fn bytes_are_counted_with_the_head() {
    for &(message, came) in MESSAGES {
        let Came::Whole(_, _, surplus) = came else { continue };
        let mut response = Response::new();
        let end = response.feed(message.as_bytes()).unwrap();
        assert_eq!(end, Progress::Complete(message.len() - surplus), "{message:?}");
        assert_eq!(response.bytes(), (message.len() - surplus) as u64, "{message:?}");
    }
}

#[test]
fn bodies_may_be_thrown_away_unseen() {
    let mut response = Response::new();
    response.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n12345").unwrap();
    assert_eq!(response.rest(), 95);
    assert_eq!(response.discarded(94), Ok(Progress::More));
    assert_eq!(response.discarded(1), Ok(Progress::Complete(1)));
    assert_eq!(response.bytes(), 40 + 100);

    response.restart(Body::Expected);
    response.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n").unwrap();
    assert_eq!(response.discarded(11), Err(ErrorKind::WrongLength), "one more than announced");
}

#[test]
fn a_head_chunk_line_or_trailer_without_an_end_is_malformed_not_memory() {
    for start in [
        "HTTP/1.1 200 OK\r\nX: ",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
    ] {
        let mut response = Response::new();
        assert_eq!(response.feed(start.as_bytes()), Ok(Progress::More));
        let broken = (0..100).find_map(|_| response.feed(&[b'x'; 1000]).err());
        assert_eq!(broken, Some(ErrorKind::Malformed), "{start:?}");
        assert!(response.partial.capacity() <= 2 * HEAD_MAX);
    }
}

/// Mutants of good messages, cut anywhere: the reader comes to an end, keeps to its bounds, and
/// says the same however the bytes are cut, except that a head is judged no later in small pieces.
#[test]
fn whatever_is_sent_it_never_panics() {
    let seed: u64 = std::env::var("LOAD_FUZZ_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(7);
    println!("replay with LOAD_FUZZ_SEED={seed}");
    let mut chance = stream(seed, 0);
    for round in 0..60_000 {
        let mut bytes = MESSAGES[chance.random_range(0..MESSAGES.len())].0.as_bytes().to_vec();
        for _ in 0..chance.random_range(0..6) {
            let at = chance.random_range(0..=bytes.len());
            match chance.random_range(0..4) {
                0 if at < bytes.len() => bytes[at] = chance.random(),
                1 if at < bytes.len() => drop(bytes.remove(at)),
                2 => bytes.insert(at, b"\r\n:;0fF ,H"[chance.random_range(0..10)]),
                _ => {
                    let other = MESSAGES[chance.random_range(0..MESSAGES.len())].0.as_bytes();
                    let from = chance.random_range(0..=other.len());
                    bytes.splice(at..at, other[from..].iter().copied());
                }
            }
        }
        let whole = read(Body::Expected, [&bytes[..]].into_iter().filter(|b| !b.is_empty()));
        let pieces = read(Body::Expected, bytes.chunks(chance.random_range(1..9)));
        assert_eq!(whole, pieces, "seed {seed}, round {round}: {:?}", bytes.escape_ascii());
    }
}
