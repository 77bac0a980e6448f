//! COPY from the client with a server that is the test's, so that whoever is late is late by choice:
//! whatever of both sides meets underway, the client hears what it would have heard alone, and nothing
//! of the gate's ever stands within the rows. `SEKISHO_SEED` replays a script.

use pgwire::SqlState;
use pgwire::message::{Report, Severity, Status};

use super::*;
use pgtest::suite::many;

/// PostgreSQL's main loop, as far as COPY goes. `bad` is a COPY that fails before it reads, and a row
/// with an `x` makes any of them fail.
#[derive(Default)]
struct Server {
    heard: Vec<u8>,
    at: At,
    /// The statement that Bind has named, of all that was prepared.
    portal: Vec<u8>,
    statements: std::collections::BTreeMap<Vec<u8>, Vec<u8>>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum At {
    #[default]
    Reading,
    Skipping,
    /// Rows of a Query, or of an Execute.
    Rows {
        of_query: bool,
    },
    Ended,
}

fn word(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap();
    (&bytes[..end], &bytes[end + 1..])
}

impl Server {
    /// Takes one message, if it is here as a whole, and answers it.
    fn step(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(head) = self.heard.get(1..HEAD) else { return false };
        let len = 1 + u32::from_be_bytes(head.try_into().unwrap()) as usize;
        if self.heard.len() < len {
            return false;
        }
        let message: Vec<u8> = self.heard.drain(..len).collect();
        let tag = Frontend::from_byte(message[0]).unwrap();
        let body = &message[HEAD..];
        match self.at {
            At::Ended => {}
            At::Rows { of_query } => self.copies(tag, body, of_query, out),
            At::Skipping if tag != Frontend::Sync => {}
            At::Skipping | At::Reading => self.does(tag, body, out),
        }
        true
    }

    fn does(&mut self, tag: Frontend, body: &[u8], out: &mut Vec<u8>) {
        match tag {
            Frontend::Parse => {
                let (name, rest) = word(body);
                if word(rest).0 == b"selec" {
                    return self.fails(false, out);
                }
                self.statements.insert(name.to_vec(), word(rest).0.to_vec());
                write::bare(out, Backend::ParseComplete);
            }
            Frontend::Bind => {
                let name = word(word(body).1).0;
                let Some(text) = self.statements.get(name) else { return self.fails(false, out) };
                self.portal.clone_from(text);
                write::bare(out, Backend::BindComplete);
            }
            Frontend::Describe => {
                write::message(out, Backend::ParameterDescription, |out| out.extend([0; 2]));
                write::bare(out, Backend::NoData);
            }
            Frontend::Execute => self.runs(&self.portal.clone(), false, out),
            Frontend::Query => self.runs(word(body).0, true, out),
            Frontend::Close => write::bare(out, Backend::CloseComplete),
            Frontend::Sync => {
                self.at = At::Reading;
                write::ready_for_query(out, Status::Idle);
            }
            _ => {}
        }
    }

    fn runs(&mut self, text: &[u8], of_query: bool, out: &mut Vec<u8>) {
        if text.starts_with(b"copy") {
            write::message(out, Backend::CopyInResponse, |out| out.extend_from_slice(&[0, 0, 0]));
            self.at = At::Rows { of_query };
        }
        match text {
            b"copy bad from stdin" => self.fails(of_query, out),
            b"copy t from stdin" => {}
            _ => self.is_done(of_query, out),
        }
    }

    fn copies(&mut self, tag: Frontend, body: &[u8], of_query: bool, out: &mut Vec<u8>) {
        match tag {
            Frontend::CopyData if body.contains(&b'x') => self.fails(of_query, out),
            Frontend::CopyDone => self.is_done(of_query, out),
            Frontend::CopyFail => self.fails(of_query, out),
            Frontend::CopyData | Frontend::Sync | Frontend::Flush => {}
            _ => {
                let code = SqlState::PROTOCOL_VIOLATION;
                write::error_response(out, &Report::new(Severity::Fatal, code, "within rows"));
                self.at = At::Ended;
            }
        }
    }

    fn is_done(&mut self, of_query: bool, out: &mut Vec<u8>) {
        self.at = At::Reading;
        write::command_complete(out, "DONE");
        if of_query {
            write::ready_for_query(out, Status::Idle);
        }
    }

    fn fails(&mut self, of_query: bool, out: &mut Vec<u8>) {
        let report = Report::new(Severity::Error, SqlState::SYNTAX_ERROR, "no");
        write::error_response(out, &report);
        self.at = if of_query { At::Reading } else { At::Skipping };
        if of_query {
            write::ready_for_query(out, Status::Idle);
        }
    }
}

/// The script of a client that waits for nothing: the rows it has for a COPY come whether that has
/// failed or not, and Syncs may stand among them.
fn script(chance: &mut Chance) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..1 + chance.below(5) {
        let text = ["copy bad from stdin", "copy t from stdin", "copy t from stdin", "select 1"]
            [chance.below(4)];
        let in_segment = chance.below(3) > 0;
        bytes.extend(match (in_segment, chance.below(2)) {
            (true, 0) => [close("a"), runs("a", text)].concat(),
            (true, _) => runs("", text),
            (false, _) => query(text),
        });
        if text.starts_with("copy") {
            for _ in 0..chance.below(5) {
                bytes.extend(match chance.below(6) {
                    0 | 1 => sync(),
                    2 => bare(Frontend::Flush),
                    3 => rows("x\n"),
                    _ => rows(&"1\n".repeat(1 + chance.below(2) * 200)),
                });
            }
            bytes.extend(match chance.below(4) {
                0 => named(Frontend::CopyFail, "", "no more", &[]),
                _ => bare(Frontend::CopyDone),
            });
        }
        if in_segment || chance.below(4) == 0 {
            bytes.extend(sync());
        }
        if chance.below(5) == 0 {
            bytes.extend([parse("", "selec", &[]), bind("", "", &[]), sync()].concat());
        }
    }
    bytes.extend([parse("end", "end", &[]), close("end"), sync()].concat());
    bytes
}

/// The replies to a client with a server of its own.
fn alone(script: &[u8]) -> Vec<u8> {
    let mut server = Server { heard: script.to_vec(), ..Server::default() };
    let mut out = Vec::new();
    while server.step(&mut out) {}
    out
}

/// A client, a gate and a server, and what is underway between them.
struct Underway {
    relay: Relay,
    cache: StatementCache,
    client: Client,
    frames: Frames<Frontend>,
    server: Server,
    /// Of the client's bytes: how many the gate has taken, and how many it may read.
    taken: usize,
    readable: usize,
    /// Messages of the server that the gate has not heard.
    said: Vec<u8>,
    heard: Vec<u8>,
    /// The story of the run, for whoever reads of a failure.
    story: Vec<String>,
}

impl Drop for Underway {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", self.story.join("\n"));
        }
    }
}

impl Underway {
    /// The gate reads what is there of the client's; whether there was anything for it to do.
    fn takes(&mut self, script: &[u8], chance: &mut Chance) -> bool {
        if self.readable < script.len() {
            let most = chance.below(script.len() - self.readable);
            self.readable += 1 + chance.below(1 + most);
        }
        let bytes = &script[self.taken..self.readable];
        let (mut out, mut here) = (Vec::new(), Vec::new());
        let mut of = Here { client: &mut self.client, cache: &mut self.cache };
        let mut copied = Copied::new(bytes, &mut out);
        let went = self.relay.from_client(&mut of, &mut self.frames, bytes, &mut copied, &mut here);
        let went = went.unwrap();
        let goes_on = went.bytes > 0 || !out.is_empty() || self.readable < script.len();
        self.taken += went.bytes;
        self.story.push(format!(
            "client {:?}, to server {:?}",
            tags(&bytes[..went.bytes]),
            tags(&out)
        ));
        self.heard.extend(here);
        self.server.heard.extend(out);
        goes_on
    }

    /// The gate hears some of what the server has said.
    fn hears(&mut self, chance: &mut Chance) -> bool {
        if self.said.is_empty() {
            return false;
        }
        let some = 1 + chance.below(self.said.len());
        let (client, cache) = (Some(&mut self.client), &mut self.cache);
        let (bytes, mut beside) = (&self.said[..some], Vec::new());
        let mut copied = Copied::new(bytes, &mut self.heard);
        let taken = self.relay.from_server(client, cache, bytes, &mut copied, &mut beside, |_| {});
        self.story.push(format!("hears {:?}: {taken:?}, {}", tags(bytes), tags(&beside)));
        let bytes = taken.unwrap().bytes;
        self.said.drain(..bytes);
        self.server.heard.extend(beside);
        // What is not whole may be waited for.
        bytes > 0 || some < self.said.len()
    }
}

/// The replies to a client through a relay, whoever is late.
fn through(relay: Relay, script: &[u8], chance: &mut Chance) -> (Vec<u8>, Option<Kept>) {
    let mut all = Underway {
        relay,
        cache: StatementCache::new([7; 8], Bounds::default()),
        client: Client::new(0),
        frames: Frames::new(limits()),
        server: Server::default(),
        taken: 0,
        readable: 0,
        said: Vec::new(),
        heard: Vec::new(),
        story: Vec::new(),
    };
    let mut idle = 0;
    while idle < 200 {
        let did = match chance.below(3) {
            0 => all.takes(script, chance),
            1 => all.server.step(&mut all.said),
            _ => all.hears(chance),
        };
        idle = if did { 0 } else { idle + 1 };
    }
    assert_eq!(all.taken, script.len(), "the client is left waiting");
    (all.heard.clone(), all.relay.kept())
}

/// The tags of what begins in there.
fn tags(bytes: &[u8]) -> String {
    let (mut rest, mut found) = (bytes, String::new());
    while rest.len() >= HEAD {
        let len = 1 + u32::from_be_bytes(rest[1..HEAD].try_into().unwrap()) as usize;
        found.push(char::from(rest[0]));
        rest = &rest[len.min(rest.len())..];
    }
    found
}

#[test]
fn whoever_is_late_nothing_of_the_gate_s_stands_within_rows() {
    let replays = std::env::var("SEKISHO_SEED").is_ok();
    for number in 1..=if replays { 1 } else { many(30_000) } {
        let seed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut chance = if replays { Chance::new(1) } else { Chance::of(seed) };
        let limits = Limits { whole_max: 65_536, ..Limits::SESSION };
        let transparent = chance.below(2) == 0;
        let relay = if transparent { Relay::transparent(limits) } else { Relay::new(limits) };
        let script = script(&mut chance);
        let expected = tags(&alone(&script));
        let (heard, kept) = through(relay, &script, &mut chance);
        let shown = || {
            format!("SEKISHO_SEED={seed}, transparent: {transparent}, {}", script.escape_ascii())
        };
        assert_eq!(tags(&heard), expected, "{}", shown());
        assert_eq!(kept, None, "{}", shown());
    }
}
