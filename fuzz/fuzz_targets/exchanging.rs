//! Lets clients take turns on few servers that stand in for PostgreSQL, and holds that each hears byte by
//! byte what a server of its own would have told it: what the fuzzer feeds, and what the ordinary tests
//! feed from chance.
//!
//! Input: a byte that seeds the portions, then acts of two bytes each: what is done, and by whom or with
//! what.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use pgsession::pipeline::Abandoned;
use pgsession::relay::{ClientStatements, Copied, Relay, Stop};
use pgsession::statements::{Bounds, Client, StatementCache};
use pgwire::frame::{Backend, Frames, Frontend, HEAD, Limits, Tag};
use pgwire::message::{Status, write};

use super::portions;

/// What is behind is not played.
const ACTS_MAX: usize = 300;
const CLIENTS: usize = 3;
const LINES: usize = 2;
/// What is prepared and asked again and again, some of it in error.
const TEXTS: [&str; 11] = [
    "one",
    "two",
    "three",
    "",
    "x wrong",
    "x too",
    "y late",
    "z table",
    "deallocate a",
    "deallocate all",
    "discard all",
];
const NAMES: [&str; 4] = ["", "a", "b", "c"];
/// So small that servers must forget statements.
const BOUNDS: Bounds = Bounds {
    client_max: 1000,
    client_bytes_max: 1 << 20,
    entries_max: 1000,
    bytes_max: 1 << 20,
    statement_max: 1 << 16,
    server_max: 2,
    replies_max: 1000,
};

/// What a server knows of its session, and how it answers: PostgreSQL, as far as an exchange of
/// messages goes. A text is its own one row; one that begins with `x` is an error, with `y` it fails
/// behind its row, and with `z` it needs a table.
#[derive(Default)]
struct Session {
    /// Whether the table that texts need is away: for all sessions alike.
    lacks: Rc<Cell<bool>>,
    statements: BTreeMap<Vec<u8>, Vec<u8>>,
    portals: BTreeMap<Vec<u8>, Vec<u8>>,
    is_open: bool,
    /// After an error, until Sync.
    skips: bool,
    heard: Vec<u8>,
}

/// The error that ends a request: its code, and what it says.
type Wrong = (&'static str, String);

/// What is before the next zero, and the rest.
fn text(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|&byte| byte == 0).expect("a text ends");
    (&bytes[..end], &bytes[end + 1..])
}

impl Session {
    /// Hears bytes in whatever portions, and answers the messages that are whole.
    fn hear(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.heard.extend_from_slice(bytes);
        loop {
            let Some(head) = self.heard.get(1..HEAD) else { return };
            let len = 1 + u32::from_be_bytes(head.try_into().expect("four bytes")) as usize;
            if self.heard.len() < len {
                return;
            }
            let message: Vec<u8> = self.heard.drain(..len).collect();
            let tag = Frontend::from_byte(message[0]).expect("clients say what there is");
            self.answer(tag, &message[HEAD..], out);
        }
    }

    fn answer(&mut self, tag: Frontend, body: &[u8], out: &mut Vec<u8>) {
        if self.skips && tag != Frontend::Sync {
            return;
        }
        let is_query = tag == Frontend::Query;
        if let Err((code, words)) = self.does(tag, body, out) {
            write::message(out, Backend::ErrorResponse, |out| {
                for (kind, value) in
                    [(b'S', "ERROR"), (b'V', "ERROR"), (b'C', code), (b'M', &words)]
                {
                    out.push(kind);
                    out.extend_from_slice(value.as_bytes());
                    out.push(0);
                }
                out.push(0);
            });
            self.skips = !is_query;
        }
        if is_query || tag == Frontend::Sync {
            self.skips = false;
            if !self.is_open {
                self.portals.clear();
            }
            let status = if self.is_open { Status::InTransaction } else { Status::Idle };
            write::ready_for_query(out, status);
        }
    }

    fn does(&mut self, tag: Frontend, body: &[u8], out: &mut Vec<u8>) -> Result<(), Wrong> {
        match tag {
            Frontend::Query => {
                self.statements.remove(&b""[..]);
                self.runs(text(body).0, out)?;
            }
            Frontend::Parse => {
                let (name, rest) = text(body);
                let (text, _) = text(rest);
                if name.is_empty() {
                    self.statements.remove(name);
                }
                if text.starts_with(b"x") {
                    return Err(("42601", format!("syntax of {}", text.escape_ascii())));
                }
                self.revalidates(text)?;
                if !name.is_empty() && self.statements.contains_key(name) {
                    return Err((
                        "42P05",
                        format!("prepared statement \"{}\" exists", shown(name)),
                    ));
                }
                self.statements.insert(name.to_vec(), text.to_vec());
                write::bare(out, Backend::ParseComplete);
            }
            Frontend::Bind => {
                let (portal, rest) = text(body);
                let text = self.statement(text(rest).0)?;
                self.revalidates(&text)?;
                if !portal.is_empty() && self.portals.contains_key(portal) {
                    return Err(("42P03", format!("portal \"{}\" exists", shown(portal))));
                }
                self.portals.insert(portal.to_vec(), text);
                write::bare(out, Backend::BindComplete);
            }
            Frontend::Describe if body[0] == b'S' => {
                let text = self.statement(text(&body[1..]).0)?;
                self.revalidates(&text)?;
                write::message(out, Backend::ParameterDescription, |out| out.extend([0, 0]));
                write::bare(out, Backend::NoData);
            }
            Frontend::Describe => {
                self.portal(text(&body[1..]).0)?;
                write::bare(out, Backend::NoData);
            }
            Frontend::Execute => {
                let text = self.portal(text(body).0)?;
                self.runs(&text, out)?;
            }
            Frontend::Close => {
                let name = text(&body[1..]).0;
                match body[0] {
                    b'S' => drop(self.statements.remove(name)),
                    _ => drop(self.portals.remove(name)),
                }
                write::bare(out, Backend::CloseComplete);
            }
            Frontend::Sync | Frontend::Flush => {}
            other => panic!("nobody says {other:?}"),
        }
        Ok(())
    }

    fn statement(&self, name: &[u8]) -> Result<Vec<u8>, Wrong> {
        let missing =
            || ("26000", format!("prepared statement \"{}\" does not exist", shown(name)));
        self.statements.get(name).cloned().ok_or_else(missing)
    }

    fn revalidates(&self, text: &[u8]) -> Result<(), Wrong> {
        if self.lacks.get() && text.starts_with(b"z") {
            return Err(("42P01", format!("no table for {}", text.escape_ascii())));
        }
        Ok(())
    }

    fn portal(&self, name: &[u8]) -> Result<Vec<u8>, Wrong> {
        let missing = || ("34000", format!("portal \"{}\" does not exist", shown(name)));
        self.portals.get(name).cloned().ok_or_else(missing)
    }

    fn runs(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), Wrong> {
        let tag = match text {
            b"" => {
                write::bare(out, Backend::EmptyQueryResponse);
                return Ok(());
            }
            b"begin" => {
                self.is_open = true;
                "BEGIN"
            }
            b"commit" | b"rollback" | b"ROLLBACK" => {
                self.is_open = false;
                self.portals.clear();
                "COMMIT"
            }
            b"deallocate all" => {
                self.statements.retain(|name, _| name.is_empty());
                "DEALLOCATE ALL"
            }
            b"discard all" if self.is_open => {
                return Err(("25001", "DISCARD ALL in a transaction".to_owned()));
            }
            b"discard all" => {
                self.statements.retain(|name, _| name.is_empty());
                self.portals.clear();
                "DISCARD ALL"
            }
            b"drop" | b"create" => {
                self.lacks.set(text == b"drop");
                if text == b"drop" { "DROP TABLE" } else { "CREATE TABLE" }
            }
            text if text.starts_with(b"deallocate ") => {
                // Quoted or not, it is the same name.
                let name = &text[b"deallocate ".len()..];
                let name = name.strip_prefix(b"\"").unwrap_or(name);
                let name = name.strip_suffix(b"\"").unwrap_or(name);
                self.statement(name)?;
                self.statements.remove(name);
                "DEALLOCATE"
            }
            text if text.starts_with(b"x") => {
                return Err(("22012", format!("error of {}", text.escape_ascii())));
            }
            text => {
                self.revalidates(text)?;
                write::message(out, Backend::DataRow, |out| {
                    out.extend([0, 1]);
                    out.extend((text.len() as u32).to_be_bytes());
                    out.extend_from_slice(text);
                });
                if text.starts_with(b"y") {
                    return Err(("22012", format!("error behind {}", text.escape_ascii())));
                }
                "SELECT 1"
            }
        };
        write::command_complete(out, tag);
        Ok(())
    }
}

fn shown(name: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(name)
}

/// A client, what it has said and heard, and what it should have heard.
struct Asker {
    client: Client,
    frames: Frames<Frontend>,
    asked: Vec<u8>,
    heard: Vec<u8>,
    own: Session,
    expected: Vec<u8>,
    at: Option<usize>,
}

impl Asker {
    fn new(own: Session) -> Asker {
        Asker {
            client: Client::new(0),
            frames: Frames::new(Limits::SESSION),
            asked: Vec::new(),
            heard: Vec::new(),
            own,
            expected: Vec::new(),
            at: None,
        }
    }

    fn says(&mut self, bytes: &[u8]) {
        self.asked.extend_from_slice(bytes);
        self.own.hear(bytes, &mut self.expected);
    }

    /// What it has heard is so far what a server of its own says.
    fn holds(&self) {
        assert!(
            self.expected.starts_with(&self.heard),
            "heard {}\n of {}",
            self.heard.escape_ascii(),
            self.expected.escape_ascii()
        );
    }
}

/// A connection to a server: what is under way in both directions, and who has it.
struct Line {
    relay: Relay,
    session: Session,
    asked: Vec<u8>,
    /// What the server has said, and how much of that has arrived.
    said: Vec<u8>,
    arrived: usize,
    whose: Option<usize>,
}

impl Line {
    fn new(session: Session) -> Line {
        Line {
            relay: Relay::new(Limits::SESSION),
            session,
            asked: Vec::new(),
            said: Vec::new(),
            arrived: 0,
            whose: None,
        }
    }

    fn is_free(&self) -> bool {
        self.whose.is_none() && self.relay.kept().is_none() && self.said.is_empty()
    }
}

struct Play {
    lacks: Rc<Cell<bool>>,
    cache: StatementCache,
    askers: Vec<Asker>,
    lines: Vec<Line>,
    seed: u8,
    turn: usize,
}

/// Plays an input.
///
/// # Panics
/// If a client hears what is not meant for it, or does not hear what is.
pub(crate) fn run(input: &[u8]) {
    let [seed, acts @ ..] = input else { return };
    let lacks = Rc::default();
    let session = || Session { lacks: Rc::clone(&lacks), ..Session::default() };
    let mut play = Play {
        cache: StatementCache::new([7; 8], BOUNDS),
        askers: (0..CLIENTS).map(|_| Asker::new(session())).collect(),
        lines: (0..LINES).map(|_| Line::new(session())).collect(),
        lacks: Rc::clone(&lacks),
        seed: *seed,
        turn: 0,
    };
    for act in acts.chunks_exact(2).take(ACTS_MAX) {
        play.act(act[0], act[1]);
    }
    play.end();
}

/// What a client says in this turn; many of its texts are nobody else's.
fn message(turn: usize, kind: u8, some: usize) -> Vec<u8> {
    let (name, shared) = (NAMES[some % 4], TEXTS[some / 4 % TEXTS.len()]);
    let nonce = format!("nonce {}", turn);
    let own = if some.is_multiple_of(3) { &*nonce } else { shared };
    let mut out = Vec::new();
    let mut says = |tag, parts: &[&[u8]]| {
        write::message(&mut out, tag, |out| {
            parts.iter().for_each(|one| out.extend_from_slice(one))
        });
    };
    let parse: [&[u8]; 4] = [name.as_bytes(), b"\0", own.as_bytes(), b"\0\0\0"];
    let bind: [&[u8]; 3] = [b"\0", name.as_bytes(), b"\0\0\0\0\0\0\0"];
    let execute: &[u8] = b"\0\0\0\0\0";
    match kind {
        0 => says(Frontend::Query, &[own.as_bytes(), b"\0"]),
        1 => {
            let texts = ["begin", "commit", "rollback", "deallocate a", "deallocate all", "begin"];
            says(Frontend::Query, &[texts[some % texts.len()].as_bytes(), b"\0"]);
        }
        2 | 3 => says(Frontend::Parse, &parse),
        4 => says(Frontend::Bind, &bind),
        5 => {
            says(Frontend::Bind, &bind);
            says(Frontend::Execute, &[execute]);
        }
        6 => says(Frontend::Execute, &[execute]),
        7 => {
            let kind: &[u8] = if some.is_multiple_of(5) { b"P" } else { b"S" };
            let tag = if some.is_multiple_of(2) { Frontend::Describe } else { Frontend::Close };
            says(tag, &[kind, name.as_bytes(), b"\0"]);
        }
        8 => {
            says(Frontend::Parse, &parse);
            says(Frontend::Bind, &bind);
            says(Frontend::Execute, &[execute]);
            says(Frontend::Sync, &[]);
        }
        _ if some.is_multiple_of(4) => says(Frontend::Flush, &[]),
        _ => says(Frontend::Sync, &[]),
    }
    out
}

/// The acts of an input, for who reads of one that fails.
#[allow(dead_code, reason = "the fuzzer shows its input itself")]
pub(crate) fn told(input: &[u8]) -> Vec<String> {
    let acts = input.get(1..).unwrap_or_default().chunks_exact(2).take(ACTS_MAX).enumerate();
    let tell = |(at, act): (usize, &[u8])| {
        let (what, some) = (act[0] % 16, usize::from(act[1]));
        let (who, line, bytes) = (some % CLIENTS, some % LINES, 1 + some / LINES);
        match what {
            0..=9 => {
                let message = message(at + 1, what, some / CLIENTS);
                format!("client {who} says {}", message.escape_ascii())
            }
            10 | 11 => format!("server {line} hears {bytes} bytes"),
            12 | 13 => format!("of server {line} {bytes} bytes arrive"),
            14 if some < 40 => format!("all arrives, then a {}", ["drop", "create"][some % 2]),
            15 if some >= 128 => format!("client {who} leaves"),
            _ => "all arrives".to_owned(),
        }
    };
    acts.map(tell).collect()
}

impl Play {
    fn act(&mut self, what: u8, with: u8) {
        self.turn += 1;
        let (some, line) = (usize::from(with), usize::from(with) % LINES);
        match what % 16 {
            0..=9 => {
                let bytes = message(self.turn, what % 16, some / CLIENTS);
                self.says(some % CLIENTS, &bytes);
            }
            10 | 11 => self.server_hears(line, 1 + some / LINES),
            12 | 13 => self.arrives(line, 1 + some / LINES),
            14 if some < 40 => self.schema_changes(["drop", "create"][some % 2]),
            14 => self.settle(),
            _ if some >= 128 => self.effects(some % CLIENTS),
            _ => self.settle(),
        }
    }

    /// Says this in portions, each of which is passed on as far as it goes.
    fn says(&mut self, who: usize, bytes: &[u8]) {
        let mut from = 0;
        for end in portions::ends(self.seed.wrapping_add(self.turn as u8), bytes.len()) {
            self.askers[who].says(&bytes[from..end]);
            from = end;
            self.passes(who);
        }
    }

    /// Passes on what a client has said, on its server or a free one.
    fn passes(&mut self, who: usize) {
        let asker = &mut self.askers[who];
        while !asker.asked.is_empty() {
            let free = || self.lines.iter().position(Line::is_free);
            let Some(at) = asker.at.or_else(free) else { return };
            let line = &mut self.lines[at];
            (asker.at, line.whose) = (Some(at), Some(who));
            let mut out = Copied::new(&asker.asked, &mut line.asked);
            let mut client_statements =
                ClientStatements { client: &mut asker.client, cache: &mut self.cache };
            let (frames, heard) = (&mut asker.frames, &mut asker.heard);
            let taken = line.relay.from_client(
                &mut client_statements,
                frames,
                &asker.asked,
                &mut out,
                heard,
            );
            let taken = taken.expect("what is said is in order");
            asker.asked.drain(..taken.bytes);
            asker.holds();
            if line.relay.kept().is_none() {
                (asker.at, line.whose) = (None, None);
            }
            match taken.stop {
                Stop::More { .. } if taken.bytes > 0 => {}
                Stop::More { .. } | Stop::Later => return,
                // As if the server had said so.
                Stop::Sequences => line.relay.sequences_discarded(),
                stop => panic!("{stop:?}"),
            }
        }
    }

    /// So many bytes reach a server, which answers.
    fn server_hears(&mut self, at: usize, bytes: usize) {
        let line = &mut self.lines[at];
        let here: Vec<u8> = line.asked.drain(..bytes.min(line.asked.len())).collect();
        line.session.hear(&here, &mut line.said);
    }

    /// So many bytes of a server arrive.
    fn arrives(&mut self, at: usize, bytes: usize) {
        let line = &mut self.lines[at];
        line.arrived = (line.arrived + bytes).min(line.said.len());
        let mut nowhere = Vec::new();
        let (client, heard) = match line.whose {
            Some(who) => {
                let asker = &mut self.askers[who];
                (Some(&mut asker.client), &mut asker.heard)
            }
            None => (None, &mut nowhere),
        };
        let readable = &line.said[..line.arrived];
        let mut out = Copied::new(readable, heard);
        let (cache, beside) = (&mut self.cache, &mut line.asked);
        let taken = line.relay.from_server(client, cache, readable, &mut out, beside, |_| {});
        let taken = taken.expect("the server answers in order");
        assert!(matches!(taken.stop, Stop::More { .. }), "{taken:?}");
        line.said.drain(..taken.bytes);
        line.arrived -= taken.bytes;
        assert!(nowhere.is_empty(), "said to nobody: {}", nowhere.escape_ascii());
        if let Some(who) = line.whose {
            self.askers[who].holds();
            if line.relay.kept().is_none() {
                assert!(line.said.is_empty(), "a free server has more to say");
                (self.askers[who].at, line.whose) = (None, None);
            }
            self.passes(who);
        }
        (0..CLIENTS).for_each(|who| self.passes(who));
    }

    /// Lets everything arrive that is under way.
    fn settle(&mut self) {
        while let Some(at) =
            self.lines.iter().position(|line| !(line.asked.is_empty() && line.said.is_empty()))
        {
            self.server_hears(at, usize::MAX);
            let more = self.lines[at].said.len();
            for portion in portions::ends(self.seed, more) {
                let line = &self.lines[at];
                let there = line.arrived;
                self.arrives(at, (portion + there).saturating_sub(there).min(4096));
            }
            self.arrives(at, usize::MAX >> 1);
        }
    }

    fn session(&self) -> Session {
        Session { lacks: Rc::clone(&self.lacks), ..Session::default() }
    }

    /// A client drops or makes the table that texts need, while nothing is under way: what is would
    /// find it there on one server and not on another.
    fn schema_changes(&mut self, text: &str) {
        self.settle();
        let served = self.askers[0].at.is_some() || self.lines.iter().any(Line::is_free);
        if served && self.askers.iter().all(|asker| asker.asked.is_empty()) {
            let mut message = Vec::new();
            write::query(&mut message, text);
            self.says(0, &message);
            self.settle();
        }
    }

    /// A client goes, wherever it is, and another one comes.
    fn effects(&mut self, who: usize) {
        let next = Asker::new(self.session());
        let asker = std::mem::replace(&mut self.askers[who], next);
        asker.holds();
        let Some(at) = asker.at else { return self.cache.forget(asker.client) };
        let session = self.session();
        let line = &mut self.lines[at];
        line.whose = None;
        let left = line.relay.leave(asker.client, &mut self.cache, &mut line.asked);
        if let Abandoned::Close(_) = left {
            let line = std::mem::replace(line, Line::new(session));
            line.relay.end(None, &mut self.cache);
        }
        (0..CLIENTS).for_each(|who| self.passes(who));
    }

    /// Whatever is open ends, and all has been heard that was to be.
    fn end(mut self) {
        let mut ends = Vec::new();
        write::bare(&mut ends, Frontend::Sync);
        write::query(&mut ends, "rollback");
        for who in 0..CLIENTS {
            self.says(who, &ends);
        }
        self.settle();
        for asker in std::mem::take(&mut self.askers) {
            asker.holds();
            assert_eq!(asker.heard.len(), asker.expected.len(), "not all was heard");
            assert!(asker.at.is_none() && asker.asked.is_empty());
            self.cache.forget(asker.client);
        }
        for line in self.lines {
            assert!(line.relay.kept().is_none() && line.said.is_empty() && line.asked.is_empty());
            line.relay.end(None, &mut self.cache);
        }
        assert_eq!(self.cache.used(), 0, "statements of nobody");
    }
}
