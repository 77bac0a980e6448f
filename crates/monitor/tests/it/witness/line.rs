//! A connection of a client, to a server or to the gate: says bytes in portions, and hears messages
//! as lines that can be compared.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use pgwire::frame::{Backend, Frontend, HEAD, Tag};
use pgwire::message::{read, write};
use pgwire::startup::{Version, write_cancel, write_startup};

use super::writing::{Round, Session, Wait};
use pgtest::Chance;
use pgtest::Proof;
use pgtest::script::{is_mark, step};

/// How long any answer may take; a machine that is busy with other things is slow.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// What of a long message is shown.
const SHOWN: usize = 300;

/// Where a line leads to, and what is said to be let in.
#[derive(Clone)]
pub(super) struct Way {
    pub(super) address: SocketAddr,
    pub(super) version: Version,
    pub(super) password: Vec<u8>,
    pub(super) patience: Duration,
}

/// In which portions bytes are said.
pub(super) enum Pace {
    AtOnce,
    Chance(Chance),
}

/// A client that is in.
pub(super) struct Line {
    stream: TcpStream,
    came: Vec<u8>,
    taken: usize,
    address: SocketAddr,
    process: u32,
    secret: Vec<u8>,
    /// The settings that were reported, and what of that was shown last.
    settings: BTreeMap<String, String>,
    shown: Option<BTreeMap<String, String>>,
}

impl Line {
    pub(super) fn enter(way: &Way, session: &Session) -> Result<Line, String> {
        let broken = |error: std::io::Error| format!("no connection: {error}");
        let stream = TcpStream::connect(way.address).map_err(broken)?;
        stream.set_read_timeout(Some(way.patience)).map_err(broken)?;
        stream.set_write_timeout(Some(way.patience)).map_err(broken)?;
        stream.set_nodelay(true).map_err(broken)?;
        let mut line = Line {
            stream,
            came: Vec::new(),
            taken: 0,
            address: way.address,
            process: 0,
            secret: Vec::new(),
            settings: BTreeMap::new(),
            shown: None,
        };
        line.log_in(way, session)?;
        Ok(line)
    }

    fn log_in(&mut self, way: &Way, session: &Session) -> Result<(), String> {
        let always = [("user", "sekisho"), ("database", "postgres")];
        let own = session.parameters.iter().map(|(name, value)| (*name, value.as_str()));
        let all = always.into_iter().chain(own);
        let all = all.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let mut out = Vec::new();
        write_startup(&mut out, way.version, all).unwrap();
        self.write(&out)?;
        let mut proof = Proof::of(&way.password);
        loop {
            let message = self.next()?;
            let body = &message[HEAD..];
            match Backend::from_byte(message[0]) {
                Some(Backend::Authentication) => self.write(&proof.answer(body))?,
                Some(Backend::BackendKeyData) => {
                    let (process, secret) = read::backend_key_data(body).unwrap();
                    (self.process, self.secret) = (process, secret.to_vec());
                }
                Some(Backend::ParameterStatus) => self.note(body),
                Some(Backend::ReadyForQuery) => return Ok(()),
                Some(Backend::NegotiateProtocolVersion) => {}
                _ => return Err(format!("not let in: {}", told(&message))),
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream.write_all(bytes).map_err(|error| format!("nothing can be said: {error}"))
    }

    /// Says this in portions.
    fn say(&mut self, bytes: &[u8], pace: &mut Pace) -> Result<(), String> {
        let mut rest = bytes;
        while let Pace::Chance(chance) = pace
            && rest.len() > 1
            && chance.below(3) == 0
        {
            let end = match chance.below(2) {
                0 => 1 + chance.below(rest.len()),
                _ => 1 + chance.below(rest.len().min(40)),
            };
            self.write(&rest[..end])?;
            rest = &rest[end..];
            std::thread::sleep(Duration::from_micros(100 * chance.below(15) as u64));
        }
        self.write(rest)
    }

    /// The next message.
    fn next(&mut self) -> Result<Vec<u8>, String> {
        loop {
            let there = &self.came[self.taken..];
            if let Some(head) = there.get(1..HEAD) {
                let len = 1 + u32::from_be_bytes(head.try_into().unwrap()) as usize;
                if there.len() >= len {
                    let message = there[..len].to_vec();
                    self.taken += len;
                    return Ok(message);
                }
            }
            self.came.drain(..std::mem::take(&mut self.taken));
            let mut room = [0; 16 * 1024];
            match self.stream.read(&mut room) {
                Ok(0) => return Err("the connection was closed".to_owned()),
                Ok(more) => self.came.extend_from_slice(&room[..more]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("no answer in time: {error}")),
            }
        }
    }

    fn note(&mut self, body: &[u8]) {
        let (name, value) = read::parameter_status(body).unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.settings.insert(text(name), text(value));
    }

    /// The next message that is no report of a setting. How often those are said is not the
    /// client's concern, for its server may be another one each time; what the settings are whenever
    /// it may ask next, is.
    fn hear(&mut self, heard: &mut Vec<String>) -> Result<Vec<u8>, String> {
        loop {
            let message = self.next()?;
            if message[0] == Backend::ParameterStatus.byte() {
                self.note(&message[HEAD..]);
                continue;
            }
            if message[0] == Backend::ReadyForQuery.byte()
                && self.shown.as_ref() != Some(&self.settings)
            {
                heard.push(format!("settings {:?}", self.settings));
                self.shown = Some(self.settings.clone());
            }
            heard.push(told(&message));
            return Ok(message);
        }
    }

    /// Says a round, and hears all of its replies: one line a message. What was heard before it
    /// went wrong is in the error.
    pub(super) fn play(&mut self, round: &Round, pace: &mut Pace) -> Result<Vec<String>, String> {
        let mut heard = Vec::new();
        match self.speak(round, pace, &mut heard) {
            Ok(()) => Ok(heard),
            Err(error) => {
                let last = heard.len().saturating_sub(8);
                Err(format!("{error}; heard in this round: {:#?}", &heard[last..]))
            }
        }
    }

    fn speak(
        &mut self,
        round: &Round,
        pace: &mut Pace,
        heard: &mut Vec<String>,
    ) -> Result<(), String> {
        let mut ready = 0;
        for (at, part) in round.parts.iter().enumerate() {
            let is_last = at + 1 == round.parts.len();
            if is_last && round.wait == Wait::Mark {
                self.say(&step(&part.messages), pace)?;
            } else {
                self.say(&part.messages.concat(), pace)?;
            }
            while let Some(until) = part.until {
                let tag = self.hear(heard)?[0];
                ready += usize::from(tag == b'Z');
                if until.contains(&tag) {
                    break;
                }
            }
        }
        let wanted = match round.wait {
            Wait::Mark => return self.hear_mark(heard),
            Wait::Ready(wanted) => wanted,
            Wait::Cancelled { ready, after } => {
                if let Pace::Chance(_) = pace {
                    self.cancel(after)?;
                }
                ready
            }
        };
        while ready < wanted {
            ready += usize::from(self.hear(heard)?[0] == b'Z');
        }
        Ok(())
    }

    fn hear_mark(&mut self, heard: &mut Vec<String>) -> Result<(), String> {
        let mut marked = false;
        loop {
            let message = self.hear(heard)?;
            marked |= is_mark(&message);
            if marked && message[0] == b'Z' {
                return Ok(());
            }
        }
    }

    /// Asks for the end of what is under way, and waits until that was passed on or refused.
    fn cancel(&mut self, after: u64) -> Result<(), String> {
        std::thread::sleep(Duration::from_millis(after));
        let mut out = Vec::new();
        write_cancel(&mut out, self.process, &self.secret).unwrap();
        let broken = |error: std::io::Error| format!("cannot cancel: {error}");
        let mut stream = TcpStream::connect(self.address).map_err(broken)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(broken)?;
        stream.write_all(&out).map_err(broken)?;
        let told = stream.read(&mut [0; 16]).map_err(broken)?;
        if told == 0 { Ok(()) } else { Err("a cancel request was answered".to_owned()) }
    }

    /// The secret by which it may cancel.
    pub(super) fn key(&self) -> &[u8] {
        &self.secret
    }

    pub(super) fn terminate(mut self) {
        let mut out = Vec::new();
        write::bare(&mut out, Frontend::Terminate);
        // Who goes need not know whether that was heard.
        let _ = self.write(&out);
    }

    pub(super) fn cut(mut self, bytes: &[u8]) {
        let _ = self.write(bytes);
    }
}

/// A message as it is compared: whole, but for the process that a notification comes from.
fn told(message: &[u8]) -> String {
    let (tag, mut body) = (char::from(message[0]), &message[HEAD..]);
    if message[0] == Backend::NotificationResponse.byte() {
        body = &body[4..];
    }
    if body.len() <= SHOWN {
        return format!("{tag} {}", body.escape_ascii());
    }
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    let begin = body[..SHOWN].escape_ascii();
    format!("{tag} {begin}.. of {} bytes, hash {:x}", body.len(), hasher.finish())
}
