//! The parsers against an oracle that is written differently, slowly and strictly: what they take,
//! it takes, and in the same sense. `SEKISHO_SEED` replays a run.

use httpgate::body::{ChunkedDecoder, EXTRA_MAX, Framing, Piece};
use httpgate::message::{Asked, HeadError, HeadScan, Request, Response, room};

use crate::suite::many;

/// xorshift64*: enough for choosing mutations.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(default: u64) -> Chance {
        let seed = std::env::var("SEKISHO_SEED").ok().and_then(|text| text.parse().ok());
        let seed = seed.unwrap_or(default);
        println!("SEKISHO_SEED={seed}");
        Chance(seed.max(1))
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize) % n
    }
}

const CRUMBS: [&[u8]; 24] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b",",
    b";",
    b"0",
    b"5",
    b"f",
    b"+",
    b"-",
    b"chunked",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: 5\r\n",
    b"Host: b\r\n",
    b"\r\n\r\n",
    b"0\r\n\r\n",
    b"\xff",
    b"\x7f",
    b"HTTP/1.0",
    b"Connection: close\r\n",
];

/// Changes a few bytes: replaces, removes, doubles, inserts.
fn mutate(bytes: &mut Vec<u8>, chance: &mut Chance) {
    for _ in 0..=chance.below(3) {
        let at = chance.below(bytes.len() + 1);
        match chance.below(5) {
            0 if at < bytes.len() => bytes[at] = chance.below(256) as u8,
            1 if at < bytes.len() => drop(bytes.remove(at)),
            2 => {
                let end = (at + chance.below(20)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                let to = chance.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            _ => {
                let crumb = CRUMBS[chance.below(CRUMBS.len())];
                bytes.splice(at..at, crumb.iter().copied());
            }
        }
    }
}

const REQUESTS: [&str; 8] = [
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "\r\nGET /a/b?c=d HTTP/1.1\r\nHost: example.org:80\r\nAccept: */*\r\n\r\n",
    "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "GET http://h/p HTTP/1.1\r\nHost: h\r\nX-Long: a b\tc\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: [::1]:80\r\nMax-Forwards: 3\r\n\r\n",
    "PUT /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 0005\r\n\r\n",
];

const RESPONSES: [&str; 5] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nServer: x\r\n\r\n",
    "HTTP/1.0 404 Not Found\r\n\r\nwho knows",
    "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\nETag: \"x\"\r\n\r\n",
];

/// The first line and the fields of a head, if it is beyond doubt.
fn oracle_head(bytes: &[u8]) -> Option<(String, Vec<(String, String)>)> {
    let text: String = bytes.iter().map(|&byte| char::from(byte)).collect();
    let lines: Vec<&str> = text.strip_suffix("\r\n\r\n")?.split("\r\n").collect();
    let clean = |c: char| c == '\t' || (c >= ' ' && c != '\x7f');
    if lines.iter().any(|line| !line.chars().all(clean)) {
        return None;
    }
    let (first, rest) = lines.split_first()?;
    let mut fields = Vec::new();
    for line in rest {
        let (name, value) = line.split_once(':')?;
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(token) {
            return None;
        }
        let value = value.trim_matches([' ', '\t']).to_owned();
        fields.push((name.to_ascii_lowercase(), value));
    }
    Some(((*first).to_owned(), fields))
}

/// End of the body of such a message, if it is beyond doubt.
fn oracle_framing(fields: &[(String, String)], version: &str) -> Option<Option<Framing>> {
    let all = |wanted: &str| -> Vec<&str> {
        fields.iter().filter(|(name, _)| name == wanted).map(|(_, value)| &**value).collect()
    };
    match (all("content-length").as_slice(), all("transfer-encoding").as_slice()) {
        ([], []) => Some(None),
        ([length], []) => {
            let digits = !length.is_empty() && length.chars().all(|c| c.is_ascii_digit());
            if digits { Some(Some(Framing::Length(length.parse().ok()?))) } else { None }
        }
        ([], [coding]) if version == "HTTP/1.1" => {
            coding.eq_ignore_ascii_case("chunked").then_some(Some(Framing::Chunked))
        }
        _ => None,
    }
}

fn check_request(head: &[u8], request: &Request<'_, '_>) {
    let shown = String::from_utf8_lossy(head);
    let (first, fields) = oracle_head(head).unwrap_or_else(|| panic!("doubtful: {shown:?}"));
    let words: Vec<&str> = first.split(' ').collect();
    let [method, target, version] = words[..] else { panic!("not three words: {shown:?}") };
    assert_eq!(request.method, method, "{shown:?}");
    assert!(["HTTP/1.0", "HTTP/1.1"].contains(&version), "{shown:?}");
    assert!(target.ends_with(request.target.rest), "{shown:?}");
    let framing = oracle_framing(&fields, version).unwrap_or_else(|| panic!("two ways: {shown:?}"));
    assert_eq!(request.framing, framing.unwrap_or(Framing::None), "{shown:?}");
    let disguised = ["content-length", "transfer-encoding", "x-forwarded-for"];
    let is_disguised =
        |name: &str| name.contains('_') && disguised.contains(&name.replace('_', "-").as_str());
    assert!(!fields.iter().any(|(name, _)| is_disguised(name)), "{shown:?}");
    let hosts: Vec<&str> =
        fields.iter().filter(|(name, _)| name == "host").map(|(_, value)| &**value).collect();
    assert!(hosts.len() == 1 || (hosts.is_empty() && version == "HTTP/1.0"), "{shown:?}");
    let absolute = !target.starts_with('/') && target != "*";
    if !absolute {
        assert_eq!(request.host, hosts.first().copied().unwrap_or(""), "{shown:?}");
    }
    assert!(!request.host.contains(['/', '@', ' ', '?', '#', '\\']), "{shown:?}");
}

#[test]
fn a_request_that_is_taken_is_beyond_doubt() {
    let mut chance = Chance::new(0x5e15_0001);
    let mut taken = 0;
    for round in 0..many(150_000) {
        let mut bytes = REQUESTS[chance.below(REQUESTS.len())].as_bytes().to_vec();
        if round >= REQUESTS.len() as u64 {
            mutate(&mut bytes, &mut chance);
        }
        if let Ok(Some(span)) = HeadScan::default().scan(&bytes, 4096) {
            let head = &bytes[span.start..span.end];
            let mut fields = room();
            if let Ok(request) = Request::parse(head, &mut fields) {
                check_request(head, &request);
                taken += 1;
            }
        }
    }
    assert!(taken > 10_000, "only {taken} were taken: the mutations are too wild to test much");
}

#[test]
fn a_response_that_is_taken_is_beyond_doubt() {
    let mut chance = Chance::new(0x5e15_0002);
    let mut taken = 0;
    for _ in 0..many(80_000) {
        let mut bytes = RESPONSES[chance.below(RESPONSES.len())].as_bytes().to_vec();
        mutate(&mut bytes, &mut chance);
        let Ok(Some(span)) = HeadScan::default().scan(&bytes, 4096) else { continue };
        let head = &bytes[..span.end];
        let mut room = room();
        let Ok(response) = Response::parse(head, Asked::Other, &mut room) else { continue };
        taken += 1;
        let shown = String::from_utf8_lossy(head);
        let (first, fields) = oracle_head(head).unwrap_or_else(|| panic!("doubtful: {shown:?}"));
        let (version, rest) = first.split_once(' ').expect("a status");
        let status: u16 = rest.get(..3).and_then(|s| s.parse().ok()).expect("three digits");
        assert_eq!(response.status, status, "{shown:?}");
        let framing =
            oracle_framing(&fields, version).unwrap_or_else(|| panic!("two ways: {shown:?}"));
        let bodiless = status < 200 || matches!(status, 204 | 304);
        let expected =
            if bodiless { Framing::None } else { framing.unwrap_or(Framing::UntilClose) };
        assert_eq!(response.framing, expected, "{shown:?}");
    }
    assert!(taken > 5_000, "only {taken} were taken");
}

#[test]
fn heads_are_found_the_same_at_every_split() {
    let mut chance = Chance::new(0x5e15_0003);
    for round in 0..many(4_000) {
        let mut bytes = REQUESTS[chance.below(REQUESTS.len())].as_bytes().to_vec();
        if round >= REQUESTS.len() as u64 {
            mutate(&mut bytes, &mut chance);
        }
        let whole = HeadScan::default().scan(&bytes, 60);
        for split in 0..=bytes.len() {
            let mut scan = HeadScan::default();
            let parts = match scan.scan(&bytes[..split], 60) {
                Ok(None) => scan.scan(&bytes, 60),
                early => early,
            };
            assert_eq!(parts, whole, "{:?} split at {split}", String::from_utf8_lossy(&bytes));
        }
        let mut scan = HeadScan::default();
        let crumbs = (1..=bytes.len()).map(|end| scan.scan(&bytes[..end], 60));
        let first = crumbs.into_iter().find(|found| *found != Ok(None)).unwrap_or(Ok(None));
        assert_eq!(first, whole);
    }
}

/// The content of a chunked body and its length on the wire, if it is complete and beyond doubt.
fn oracle_chunks(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let text: String = bytes.iter().map(|&byte| char::from(byte)).collect();
    let clean = |c: char| c == '\t' || (c >= ' ' && c != '\x7f');
    let (mut content, mut at) = (Vec::new(), 0);
    loop {
        let line = text[char_at(&text, at)..].split("\r\n").next()?;
        let length = line.chars().count();
        if bytes.get(at + length..at + length + 2) != Some(b"\r\n") {
            return None;
        }
        let (size, extension) = line.split_at(line.find(';').unwrap_or(line.len()));
        let hex = !size.is_empty() && size.chars().all(|c| c.is_ascii_hexdigit());
        if !hex || !extension.chars().all(clean) {
            return None;
        }
        let size = usize::from_str_radix(size, 16).ok()?;
        at += length + 2;
        if size == 0 {
            break;
        }
        content.extend_from_slice(bytes.get(at..at.checked_add(size)?)?);
        at += size;
        if bytes.get(at..at + 2) != Some(b"\r\n") {
            return None;
        }
        at += 2;
    }
    // The trailer section is a head without a first line.
    let end = bytes[at..].windows(2).position(|pair| pair == b"\r\n")?;
    if end == 0 {
        return Some((content, at + 2));
    }
    let end = at + bytes[at..].windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = [b"x\r\n", &bytes[at..end]].concat();
    oracle_head(&head).map(|_| (content, end))
}

/// Index at which the character for byte `at` begins: each byte is one character of the text.
fn char_at(text: &str, at: usize) -> usize {
    text.char_indices().nth(at).map_or(text.len(), |(index, _)| index)
}

/// Decodes in the portions that `chance` chooses; the content and the bytes used.
fn decode(bytes: &[u8], chance: &mut Chance) -> Option<(Vec<u8>, usize)> {
    let (mut decoder, mut content, mut at, mut here) =
        (ChunkedDecoder::default(), Vec::new(), 0, 0);
    loop {
        match decoder.next(&bytes[at..here], 1 + chance.below(50)).ok()? {
            Piece::Content { skip, len } => {
                content.extend_from_slice(&bytes[at + skip..at + skip + len]);
                at += skip + len;
            }
            Piece::End(used) => return Some((content, at + used)),
            Piece::More(used) => {
                at += used;
                assert_eq!(at, here, "what is not content is framing");
                if here == bytes.len() {
                    return None;
                }
                here = (here + 1 + chance.below(bytes.len())).min(bytes.len());
            }
        }
    }
}

#[test]
fn a_chunked_body_that_is_taken_is_beyond_doubt_in_any_portions() {
    const BODIES: [&str; 4] = [
        "5\r\nhello\r\n0\r\n\r\n",
        "1a;x=y\r\nabcdefghijklmnopqrstuvwxyz\r\n3\r\n\r\n!\r\n0\r\nA: b\r\nC: \td\r\n\r\nrest",
        "0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        "00005\r\nhello\r\n5;q=\"r;s\"\r\nworld\r\n000\r\nT:\r\n\r\n",
    ];
    let mut chance = Chance::new(0x5e15_0004);
    let mut taken = 0;
    for _ in 0..many(60_000) {
        let mut bytes = BODIES[chance.below(BODIES.len())].as_bytes().to_vec();
        mutate(&mut bytes, &mut chance);
        assert!(bytes.len() < EXTRA_MAX);
        let found = decode(&bytes, &mut chance);
        if found.is_some() {
            taken += 1;
            assert_eq!(found, oracle_chunks(&bytes), "{:?}", String::from_utf8_lossy(&bytes));
        }
        let again = decode(&bytes, &mut chance);
        assert_eq!(found, again, "portions matter: {:?}", String::from_utf8_lossy(&bytes));
    }
    assert!(taken > 5_000, "only {taken} were taken");
}

#[test]
fn nothing_makes_the_parsers_panic() {
    let mut chance = Chance::new(0x5e15_0005);
    for _ in 0..many(60_000) {
        let length = chance.below(80);
        let bytes: Vec<u8> = (0..length)
            .flat_map(|_| match chance.below(3) {
                0 => vec![chance.below(256) as u8],
                _ => CRUMBS[chance.below(CRUMBS.len())].to_vec(),
            })
            .collect();
        let mut scan = HeadScan::default();
        let scanned = scan.scan(&bytes, 200);
        assert!(scanned != Err(HeadError::Syntax));
        // The parsers themselves take any bytes, whether a head was found in them or not.
        let _ = Request::parse(&bytes, &mut room());
        let _ = Response::parse(&bytes, Asked::Head, &mut room());
        let _ = decode(&bytes, &mut chance);
    }
}
