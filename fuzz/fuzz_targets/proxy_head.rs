//! A head is found at the same place in whatever portions it comes, says where its body ends in
//! one way only, and says the same when it is written anew.
//!
//! Input: a byte that seeds the portions, the bytes of a connection.
#![no_main]

mod portions;

use libfuzzer_sys::fuzz_target;
use httpgate::body::Framing;
use httpgate::message::{Asked, HeadScan, Request, Response, Version, room};

/// Small enough to be reached by a fuzzer.
const HEAD_MAX: usize = 1024;

fuzz_target!(|input: &[u8]| {
    let [seed, bytes @ ..] = input else { return };
    // The parsers take any bytes, whether a head was found in them or not.
    request(bytes);
    for asked in [Asked::Head, Asked::Other] {
        response(bytes, asked);
    }
    let whole = HeadScan::default().scan(bytes, HEAD_MAX);
    let mut scan = HeadScan::default();
    let mut found = Ok(None);
    for end in portions::ends(*seed, bytes.len()) {
        found = scan.scan(&bytes[..end], HEAD_MAX);
        if found != Ok(None) {
            break;
        }
    }
    assert_eq!(found, whole, "portions matter");
    if let Ok(Some(span)) = whole {
        assert!(bytes[..span.end].ends_with(b"\r\n\r\n") && span.end <= HEAD_MAX);
        request(&bytes[span.start..span.end]);
        response(&bytes[span.start..span.end], Asked::Other);
    }
});

fn request(bytes: &[u8]) {
    let mut fields = room();
    let Ok(request) = Request::parse(bytes, &mut fields) else { return };
    one_framing(request.fields.iter().map(|field| field.name), request.framing);
    let version = version(request.version);
    let first = format!(
        "{} {}{} HTTP/{version}\r\n",
        request.method, request.target.lead, request.target.rest
    );
    let head = written(&first, request.fields.iter().map(|field| (field.name, field.value)));
    let mut again = room();
    let again = Request::parse(&head, &mut again).expect("what was read can be read again");
    assert_eq!(again.method, request.method);
    assert_eq!(again.version, request.version);
    assert_eq!(again.framing, request.framing);
    assert_eq!(again.persistent, request.persistent);
    assert_eq!(again.expects_continue, request.expects_continue);
    assert_eq!(again.hops_max, request.hops_max);
    assert_eq!(again.fields.len(), request.fields.len());
    let target = format!("{}{}", request.target.lead, request.target.rest);
    assert_eq!(format!("{}{}", again.target.lead, again.target.rest), target);
    // An absolute target names the host itself, and was written in origin form.
    let raw = bytes.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
    if raw == target.as_bytes() {
        assert_eq!(again.host, request.host);
    }
}

fn response(bytes: &[u8], asked: Asked) {
    let mut fields = room();
    let Ok(response) = Response::parse(bytes, asked, &mut fields) else { return };
    one_framing(response.fields.iter().map(|field| field.name), response.framing);
    assert!((100..600).contains(&response.status) && response.status != 101);
    let version = version(response.version);
    let first = format!("HTTP/{version} {} {}\r\n", response.status, response.reason);
    let head = written(&first, response.fields.iter().map(|field| (field.name, field.value)));
    let mut again = room();
    let again = Response::parse(&head, asked, &mut again).expect("what was read can be read again");
    assert_eq!(again.status, response.status);
    assert_eq!(again.framing, response.framing);
    assert_eq!(again.length, response.length);
    assert_eq!(again.persistent, response.persistent);
    assert_eq!(again.fields.len(), response.fields.len());
}

/// A message that two programs could delimit in two ways must not have been taken.
fn one_framing<'a>(names: impl Iterator<Item = &'a str>, framing: Framing) {
    let (mut lengths, mut codings) = (0, 0);
    for name in names {
        lengths += usize::from(name.eq_ignore_ascii_case("content-length"));
        codings += usize::from(name.eq_ignore_ascii_case("transfer-encoding"));
    }
    assert!(lengths + codings <= 1, "{lengths} lengths and {codings} codings");
    match framing {
        Framing::Length(_) => assert_eq!(lengths, 1),
        Framing::Chunked => assert_eq!(codings, 1),
        Framing::UntilClose => assert_eq!(lengths + codings, 0),
        Framing::None => {}
    }
}

fn version(version: Version) -> &'static str {
    match version {
        Version::Http10 => "1.0",
        Version::Http11 => "1.1",
    }
}

fn written<'a>(first: &str, fields: impl Iterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let mut head = first.as_bytes().to_vec();
    for (name, value) in fields {
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}
