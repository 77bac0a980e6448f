//! Plays bytes of a client and of a server against a relay: what the fuzzer feeds, and what the
//! ordinary tests feed from its seeds.
//!
//! Input: a byte that says what kind of relay it is, a byte that seeds the portions, then acts: a
//! byte that says whose (0 the client's, 1 the server's, 2 the client goes and another one comes, 3 a
//! question of the gate's), a byte with a length, and so many bytes.

use std::ops::ControlFlow;

use pgsession::pipeline::{Abandoned, Kept, OWED_MAX};
use pgsession::relay::{ClientStatements, Copied, News, Relay, Stop};
use pgsession::statements::{Bounds, Client, StatementCache};
use pgwire::frame::{Backend, Frames, Frontend, Limits, Tag};

use super::portions;

/// Small enough to be reached.
const BOUNDS: Bounds = Bounds {
    client_max: 5,
    client_bytes_max: 1024,
    entries_max: 20,
    bytes_max: 4096,
    statement_max: 512,
    server_max: 3,
    replies_max: 20,
};
/// What a client's message makes of itself: the Parse of a statement and the names in it, and what
/// is put before a text that drops many \[byte\].
const GROWTH: usize = 16 * 1024;

/// How it ends is compared: it does not depend on portions.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    news: Vec<String>,
    end: Option<String>,
    kept: String,
}

/// Plays an input.
///
/// # Panics
/// If something does not hold that must.
pub(crate) fn run(input: &[u8]) {
    let [kind, seed, acts @ ..] = input else { return };
    let whole = play(*kind, None, acts);
    let cut = play(*kind, Some(*seed), acts);
    // A message that is not waited for says less of itself when less of it is there.
    if kind & 4 == 0 {
        assert_eq!(whole, cut, "portions matter");
    }
}

struct Play {
    relay: Relay,
    cache: StatementCache,
    client: Option<Client>,
    frames: Frames<Frontend>,
    limits: Limits,
    asked: Vec<u8>,
    said: Vec<u8>,
    out: Outcome,
}

fn play(kind: u8, seed: Option<u8>, acts: &[u8]) -> Outcome {
    let whole_max = if kind & 4 == 0 { 1 << 17 } else { 32 };
    let limits = Limits { length_max: 1 << 16, whole_max };
    let relay = match kind & 3 {
        0 | 1 => Relay::new(limits),
        2 => Relay::transparent(limits),
        _ => Relay::of_replication(limits),
    };
    let mut play = Play {
        relay,
        cache: StatementCache::new([7; 8], BOUNDS),
        client: Some(Client::new(0)),
        frames: Frames::new(limits),
        limits,
        asked: Vec::new(),
        said: Vec::new(),
        out: Outcome::default(),
    };
    let mut rest = acts;
    while let [whose, length, behind @ ..] = rest {
        let (bytes, behind) = behind.split_at(behind.len().min(usize::from(*length)));
        rest = behind;
        play.act(*whose, bytes, seed);
        if play.out.end.is_some() {
            break;
        }
    }
    play.out.kept = format!("{:?}", play.relay.kept());
    let Play { relay, mut cache, mut client, out, .. } = play;
    relay.end(client.as_mut(), &mut cache);
    if let Some(client) = client {
        cache.forget(client);
    }
    assert_eq!(cache.used(), 0, "statements of nobody");
    out
}

impl Play {
    fn act(&mut self, whose: u8, bytes: &[u8], seed: Option<u8>) {
        let ends = seed.map_or(vec![bytes.len()], |seed| portions::ends(seed, bytes.len()));
        match whose % 4 {
            0 => {
                let mut start = 0;
                for end in ends {
                    self.asked.extend_from_slice(&bytes[start..end]);
                    start = end;
                    if self.ask().is_break() {
                        break;
                    }
                }
            }
            1 => {
                let mut start = 0;
                for end in ends {
                    self.said.extend_from_slice(&bytes[start..end]);
                    start = end;
                    self.say();
                }
                self.comes();
                let _ = self.ask();
            }
            2 => self.leave(),
            _ => {
                if self.relay.kept().is_none() {
                    let out = &mut self.out.to_server;
                    self.relay.query("select 1", out).expect("a free server is there");
                }
            }
        }
        self.holds();
    }

    /// Nothing behind Terminate is a client's.
    fn ask(&mut self) -> ControlFlow<()> {
        let Some(client) = self.client.as_mut().filter(|_| self.out.end.is_none()) else {
            return ControlFlow::Continue(());
        };
        let mut client_statements = ClientStatements { client, cache: &mut self.cache };
        let before = (self.out.to_server.len(), self.asked.len());
        let mut out = Copied::new(&self.asked, &mut self.out.to_server);
        let (frames, beside) = (&mut self.frames, &mut self.out.to_client);
        let taken =
            self.relay.from_client(&mut client_statements, frames, &self.asked, &mut out, beside);
        match taken {
            Ok(taken) => {
                if let Stop::More { needs } = taken.stop {
                    assert!(needs > self.asked.len() - taken.bytes, "{taken:?}");
                }
                self.asked.drain(..taken.bytes);
                if taken.stop == Stop::Terminated {
                    self.leave();
                    return ControlFlow::Break(());
                }
            }
            Err(fault) => self.out.end = Some(fault.to_string()),
        }
        let grown = self.out.to_server.len() - before.0;
        assert!(grown <= (before.1 + 1) * GROWTH, "{grown} bytes of {}", before.1);
        ControlFlow::Continue(())
    }

    fn say(&mut self) {
        if self.out.end.is_some() {
            return;
        }
        let mut out = Copied::new(&self.said, &mut self.out.to_client);
        let (news, beside) = (&mut self.out.news, &mut self.out.to_server);
        let hear = |one: News<'_>| news.push(format!("{one:?}"));
        let (client, cache) = (self.client.as_mut(), &mut self.cache);
        match self.relay.from_server(client, cache, &self.said, &mut out, beside, hear) {
            Ok(taken) => {
                if let Stop::More { needs } = taken.stop {
                    let here = self.said.len() - taken.bytes;
                    let most = self.limits.whole_max.max(Backend::SHORT_MAX as usize + 1);
                    assert!(needs > here && needs <= most, "{taken:?}");
                }
                self.said.drain(..taken.bytes);
                if taken.stop == Stop::Ended {
                    self.out.end = Some("ended".to_owned());
                }
            }
            Err(fault) => self.out.end = Some(fault.to_string()),
        }
    }

    /// The next client comes when the server is free.
    fn comes(&mut self) {
        if self.client.is_none() && self.relay.kept().is_none() {
            self.client = Some(Client::new(0));
        }
    }

    fn leave(&mut self) {
        self.asked.clear();
        self.frames = Frames::new(self.limits);
        let Some(client) = self.client.take() else { return };
        let out = &mut self.out.to_server;
        if let Abandoned::Close(kept) = self.relay.leave(client, &mut self.cache, out) {
            self.out.end = Some(kept.to_string());
        }
        self.comes();
    }

    fn holds(&self) {
        assert!(self.client.as_ref().is_none_or(|client| client.names() <= BOUNDS.client_max));
        assert!(self.cache.len() <= BOUNDS.entries_max);
        assert!(self.cache.bytes() <= BOUNDS.bytes_max);
        // What errors have left in doubt counts as well.
        assert!(self.relay.prepared() <= BOUNDS.server_max + BOUNDS.entries_max);
        if let Some(Kept::Owes { requests, .. }) = self.relay.kept() {
            assert!((requests as usize) < OWED_MAX + 1024, "{requests}");
        }
    }
}
