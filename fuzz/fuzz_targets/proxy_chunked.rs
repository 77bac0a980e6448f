//! A chunked body has one reading, in whatever portions it comes, and the client of this
//! repository, which shares no code with the gate, ends it at the same byte.
//!
//! Input: a byte that seeds the portions, a byte that bounds the pieces of content, the body.
#![no_main]

mod portions;

use libfuzzer_sys::fuzz_target;
use load::http::{Method, read_response};
use httpgate::body::{BodyError, ChunkedDecoder, Piece};

/// Chunk lines and trailers are bounded, differently here and there; below this both are within.
const BOTH_READ: usize = 4000;
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

/// A body that was read to its end: its content and its length with all framing.
type Body = (Vec<u8>, usize);

fuzz_target!(|input: &[u8]| {
    let [seed, most, bytes @ ..] = input else { return };
    let whole = decode(bytes, &[bytes.len()], usize::MAX);
    let ends = portions::ends(*seed, bytes.len());
    assert_eq!(decode(bytes, &ends, usize::from(*most) + 1), whole, "portions matter");
    let Ok(Some((content, used))) = whole else { return };
    assert_eq!(decode(&bytes[..used], &[used], 1), Ok(Some((content.clone(), used))));
    for end in 0..used {
        assert_eq!(decode(&bytes[..end], &[end], usize::MAX), Ok(None), "it ends twice");
    }
    let again = encoded(&content);
    assert_eq!(decode(&again, &[again.len()], usize::MAX), Ok(Some((content, again.len()))));
    if bytes.len() <= BOTH_READ {
        let read = read_response(Method::Get, [HEAD, bytes]);
        assert_eq!(read.map(|read| read.bytes), Ok((HEAD.len() + used) as u64));
    }
});

/// Reads a body that becomes known up to each of `ends` in turn; `None` if it is not all there.
fn decode(bytes: &[u8], ends: &[usize], most: usize) -> Result<Option<Body>, BodyError> {
    let mut decoder = ChunkedDecoder::default();
    let mut content = Vec::new();
    let mut at = 0;
    for &end in ends {
        loop {
            match decoder.next(&bytes[at..end], most)? {
                Piece::Content { skip, len } => {
                    assert!(len > 0 && len <= most, "a piece of {len} for at most {most}");
                    content.extend_from_slice(&bytes[at + skip..at + skip + len]);
                    at += skip + len;
                }
                Piece::End(used) => return Ok(Some((content, at + used))),
                Piece::More(used) => {
                    at += used;
                    assert_eq!(at, end, "what is not content is framing");
                    break;
                }
            }
        }
    }
    Ok(None)
}

/// The content in chunks of three bytes.
fn encoded(content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in content.chunks(3) {
        bytes.extend_from_slice(format!("{:x};x=y\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\nA: b\r\n\r\n");
    bytes
}
