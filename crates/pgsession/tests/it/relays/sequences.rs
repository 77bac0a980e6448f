//! Questions of a text for sequences that the session's clients have moved, without a server.

use pgsession::relay::{ClientStatements, Copied, News, Relay, Stop};
use pgsession::statements::{Bounds, Client, StatementCache};
use pgwire::frame::{Frames, Frontend, Limits};
use pgwire::message::write;

use super::{bind, execute, parse};

const READY: &[u8] = b"Z\0\0\0\x05I";
const IN_TRANSACTION: &[u8] = b"Z\0\0\0\x05T";

/// One connection to a server, and the client that has it.
struct Line {
    relay: Relay,
    cache: StatementCache,
    client: Client,
    frames: Frames<Frontend>,
}

impl Line {
    fn new() -> Line {
        Line {
            relay: Relay::new(Limits::SESSION),
            cache: StatementCache::new([7; 8], Bounds::default()),
            client: Client::new(0),
            frames: Frames::new(Limits::SESSION),
        }
    }

    /// Messages of a client; what was taken of them, and what goes to the server.
    fn says(&mut self, bytes: &[u8]) -> (usize, Stop, Vec<u8>) {
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        let mut client_statements =
            ClientStatements { client: &mut self.client, cache: &mut self.cache };
        let mut out = Copied::new(bytes, &mut to_server);
        let taken = self.relay.from_client(
            &mut client_statements,
            &mut self.frames,
            bytes,
            &mut out,
            &mut to_client,
        );
        let taken = taken.unwrap();
        assert_eq!(to_client, b"");
        (taken.bytes, taken.stop, to_server)
    }

    /// Messages of the server; what goes to the client, and the number of internal queries that are
    /// done.
    fn hears(&mut self, bytes: &[u8]) -> (Vec<u8>, usize) {
        let (mut to_client, mut to_server, mut own) = (Vec::new(), Vec::new(), 0);
        let mut out = Copied::new(bytes, &mut to_client);
        let (client, cache) = (Some(&mut self.client), &mut self.cache);
        let news =
            |news: News<'_>| own += usize::from(matches!(news, News::Own { failed: None, .. }));
        let taken = self.relay.from_server(client, cache, bytes, &mut out, &mut to_server, news);
        assert_eq!(taken.unwrap().bytes, bytes.len());
        (to_client, own)
    }
}

fn query(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write::query(&mut out, text);
    out
}

fn complete(tag: &str, ready: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write::command_complete(&mut out, tag);
    out.extend_from_slice(ready);
    out
}

fn extended(text: &str) -> Vec<u8> {
    let mut out = [parse("", text, &[]), bind("", "", &[]), execute("")].concat();
    write::bare(&mut out, Frontend::Sync);
    out
}

#[test]
fn who_has_a_session_first_asks_of_its_own() {
    let mut line = Line::new();
    let asks = query("select currval('s')");
    assert_eq!(line.says(&asks), (asks.len(), Stop::More { needs: 5 }, asks));
    assert!(!line.relay.has_others_sequences());
}

#[test]
fn behind_others_what_they_have_moved_is_discarded_first_and_nobody_hears_of_it() {
    for asks in [query("select CurrVal /**/ ('s')"), extended("select \"lastval\"()")] {
        let mut line = Line::new();
        line.relay.parted();
        let passes = query("select nextval('s')");
        assert_eq!(line.says(&passes).0, passes.len(), "others pass");
        line.hears(&complete("SELECT 1", READY));
        assert_eq!(line.says(&asks), (0, Stop::Sequences, Vec::new()));
        let mut own = Vec::new();
        line.relay.query("DISCARD SEQUENCES", &mut own).unwrap();
        assert_eq!(own, query("DISCARD SEQUENCES"));
        assert_eq!(line.hears(&complete("DISCARD SEQUENCES", READY)), (Vec::new(), 1));
        line.relay.sequences_discarded();
        let (bytes, stop, to_server) = line.says(&asks);
        assert_eq!((bytes, stop), (asks.len(), Stop::More { needs: 5 }));
        assert!(
            to_server.windows(7).any(|at| at.eq_ignore_ascii_case(b"currval") || at == b"lastval")
        );
        // The next one finds them discarded again.
        line.relay.parted();
        assert!(line.relay.has_others_sequences());
    }
}

#[test]
fn within_a_transaction_it_is_refused_behind_all_that_was_asked() {
    let mut line = Line::new();
    line.relay.parted();
    assert!(line.says(&query("begin")).0 > 0);
    let asks = query("select currval('s')");
    assert_eq!(line.says(&asks), (0, Stop::Later, Vec::new()), "it is not known yet");
    line.hears(&complete("BEGIN", IN_TRANSACTION));
    let (bytes, _, to_server) = line.says(&asks);
    assert_eq!(bytes, asks.len());
    assert!(to_server.starts_with(b"Q") && to_server[5..].starts_with(b"EXECUTE "));
    assert!(!to_server.windows(7).any(|at| at == b"currval"));
    // One that is prepared there is refused where it is run.
    let mut line = Line::new();
    line.relay.parted();
    assert!(line.says(&query("begin")).0 > 0);
    line.hears(&complete("BEGIN", IN_TRANSACTION));
    let (parses, binds) = (parse("", "select lastval()", &[]), bind("", "", &[]));
    assert_eq!(line.says(&parses).0, parses.len());
    let (bytes, stop, _) = line.says(&binds);
    assert_eq!((bytes, stop), (0, Stop::Later));
}
