//! Text of anybody that Jungle's server reads: queries by JSONPath, and requests. Played by the fuzzer, and by chance in
//! the tests of the crate.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::time::Duration;

use jungle_server::{Access, JsonPath, Server, ServerSettings};
use serde_json::Value;

/// A query finds values where it says that they are, within its steps.
///
/// Input: a document, a zero, a query.
pub fn jsonpath(input: &[u8]) {
    let mut parts = input.splitn(2, |byte| *byte == 0);
    let document = parts.next().and_then(|text| serde_json::from_slice::<Value>(text).ok());
    let query = parts.next().and_then(|text| std::str::from_utf8(text).ok());
    let (Some(document), Some(query)) = (document, query) else { return };
    let query = match query.parse::<JsonPath>() {
        Ok(query) => query,
        Err(error) => return assert!(error.at <= query.len(), "{error}"),
    };
    let Ok(found) = query.find(&document, 20_000) else { return };
    for one in found.iter().take(50) {
        assert_eq!(document.pointer(&one.pointer()), Some(one.value), "{one:?}");
        let path = one.path();
        let normalized: JsonPath = path.parse().unwrap_or_else(|error| panic!("{error}"));
        let again = normalized.find(&document, 20_000).expect("it is one value");
        assert_eq!(again.len(), 1, "{path}");
        assert_eq!(again[0].path(), path);
    }
}

/// A server for all requests of this process, in a folder of its own.
fn server() -> SocketAddr {
    static SERVER: OnceLock<Server> = OnceLock::new();
    let started = SERVER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("jungle-asked-{}", std::process::id()));
        let mut settings = ServerSettings::at("127.0.0.1:0".parse().expect("an address"));
        settings.store.durability = jungle::Durability::None;
        settings.body_max = 4_096;
        settings.patience = Duration::from_secs(2);
        let server = Server::start(&folder, settings, Access::default()).expect("it starts");
        let body = br#"{"json": {"title": "Hello", "tags": [1, 2]}}"#;
        let made = |bytes: &[u8]| {
            let answer = asked(server.address(), bytes);
            assert!(answer.starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&answer));
        };
        made(b"PUT /trees/board HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let head = "POST /trees/board/nodes/root/children HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
        let mut insert = format!("{head}content-length: {}\r\n\r\n", body.len()).into_bytes();
        insert.extend_from_slice(body);
        made(&insert);
        server
    });
    started.address()
}

fn asked(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("the server lives");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    // It may refuse before all is sent. The stream stays open: whoever shuts it down is taken for gone, and his edit is
    // given up.
    let sent = stream.write_all(bytes);
    drop(sent);
    let mut answer = Vec::new();
    let mut part = [0; 4_096];
    loop {
        match stream.read(&mut part) {
            Ok(0) => break,
            // A watch goes on for ever; its head is enough.
            Ok(count) if answer.len() < 1 << 16 => answer.extend_from_slice(&part[..count]),
            Ok(_) => break,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("no answer: {error}"),
        }
        if answer.windows(13).any(|part| part == b"/event-stream") {
            break;
        }
    }
    answer
}

/// A request of any bytes is answered, by no defect of the server's.
///
/// Input: method, path and headers as they are sent; the rest of a line that is missing is made up: the first line is
/// taken for `METHOD PATH`, all behind the first empty line for the body.
pub fn request(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let (head, body) = text.split_once("\n\n").unwrap_or((&text, ""));
    let mut lines = head.lines();
    let first = lines.next().unwrap_or_default();
    let mut bytes = format!("{first} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    for line in lines {
        bytes.push_str(line);
        bytes.push_str("\r\n");
    }
    bytes.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
    let answer = asked(server(), bytes.as_bytes());
    assert!(!answer.is_empty(), "no answer to {input:?}");
    let status = answer.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5));
    let status = status.map(String::from_utf8_lossy).unwrap_or_else(|| panic!("{answer:?}"));
    let number: u16 = status.parse().unwrap_or_else(|_| panic!("{status}"));
    let told = String::from_utf8_lossy(&answer);
    assert!(number < 500 || matches!(number, 503 | 507), "{told}");
    // Whoever is refused is told why, but where bytes are no HTTP at all.
    let is_ours = told.contains("jungle-token");
    assert!(number < 400 || !is_ours || told.contains("application/problem+json"), "{told}");
}
