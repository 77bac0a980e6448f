//! Cost of a message between a PostgreSQL client and its server, without the sockets.
//!
//! ```text
//! cargo run --release -p bench --bin bench_relay
//! ```
//!
//! Each line is an exchange: what a client sends in one go and what the server replies, copied to
//! both sides. Beside it stands the same through a relay that leaves names as they are, which is
//! what following the protocol alone costs, and the bare copy.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use pgsession::relay::{ClientStatements, Copied, News, Relay};
use pgsession::statements::{Bounds, Client, StatementCache};
use pgwire::frame::{Backend, Frames, Frontend, Limits};
use pgwire::message::write;

const ROUNDS: u32 = 200_000;
const REPEATS: usize = 5;

/// An exchange, and of how many messages it is.
struct Case {
    name: &'static str,
    asked: Vec<u8>,
    said: Vec<u8>,
    messages: u32,
}

fn message(tag: impl Into<u8>, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write::message(&mut out, tag, |out| out.extend_from_slice(body));
    out
}

fn drop_news(one: News<'_>) {
    black_box(one);
}

fn cases() -> Vec<Case> {
    let row = message(Backend::DataRow, &[b"\0\x01\0\0\0\x14".as_slice(), &[b'x'; 20]].concat());
    let columns = message(Backend::RowDescription, &[0; 30]);
    let done = message(Backend::CommandComplete, b"SELECT 1\0");
    let ready = message(Backend::ReadyForQuery, b"I");
    let query = message(Frontend::Query, b"select abalance from accounts where aid = 12345\0");
    let run = [
        message(Frontend::Bind, b"\0a\0\0\0\0\x01\0\0\0\x01x\0\0"),
        message(Frontend::Execute, b"\0\0\0\0\0"),
        message(Frontend::Sync, b""),
    ]
    .concat();
    let bound = message(Backend::BindComplete, b"");
    vec![
        Case {
            name: "Query, one row",
            asked: query.clone(),
            said: [&columns[..], &row, &done, &ready].concat(),
            messages: 5,
        },
        Case {
            name: "Query, 100 rows",
            asked: query,
            said: [&columns[..], &row.repeat(100), &done, &ready].concat(),
            messages: 104,
        },
        Case {
            name: "Bind, Execute, Sync, one row",
            asked: run,
            said: [&bound[..], &row, &done, &ready].concat(),
            messages: 7,
        },
    ]
}

/// The least of some repetitions for one exchange \[ns\].
fn least(mut exchange: impl FnMut()) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..REPEATS {
        let begun = Instant::now();
        (0..ROUNDS).for_each(|_| exchange());
        least = least.min(begun.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS));
    }
    least
}

fn relayed(mut relay: Relay, case: &Case) -> f64 {
    let mut cache = StatementCache::new([7; 8], Bounds::default());
    let mut client = Client::new(0);
    let mut frames = Frames::<Frontend>::new(Limits::SESSION);
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    let mut exchange = |asked: &[u8], said: &[u8]| {
        to_server.clear();
        to_client.clear();
        let mut client_statements = ClientStatements { client: &mut client, cache: &mut cache };
        let mut out = Copied::new(asked, &mut to_server);
        let taken =
            relay.from_client(&mut client_statements, &mut frames, asked, &mut out, &mut to_client);
        assert_eq!(taken.map(|taken| taken.bytes), Ok(asked.len()));
        let mut out = Copied::new(said, &mut to_client);
        let (client_statements, news) = (Some(&mut client), |one: News<'_>| drop_news(one));
        let taken =
            relay.from_server(client_statements, &mut cache, said, &mut out, &mut to_server, news);
        assert_eq!(taken.map(|taken| taken.bytes), Ok(said.len()));
        assert!(black_box(relay.kept()).is_none());
    };
    let prepare = [message(Frontend::Parse, b"a\0select $1::text\0\0\0"), b"S\0\0\0\x04".to_vec()];
    exchange(&prepare.concat(), b"1\0\0\0\x04Z\0\0\0\x05I");
    least(|| exchange(black_box(&case.asked), black_box(&case.said)))
}

fn copied(case: &Case) -> f64 {
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    least(|| {
        to_server.clear();
        to_client.clear();
        to_server.extend_from_slice(black_box(&case.asked));
        to_client.extend_from_slice(black_box(&case.said));
        black_box((&to_server, &to_client));
    })
}

fn main() {
    println!(
        "{:<30}{:>10}{:>14}{:>14}{:>10}",
        "[ns]", "a message", "an exchange", "names kept", "copy"
    );
    for case in cases() {
        let rewritten = relayed(Relay::new(Limits::SESSION), &case);
        let kept = relayed(Relay::transparent(Limits::SESSION), &case);
        println!(
            "{:<30}{:>10.1}{:>14.0}{:>14.0}{:>10.0}",
            case.name,
            rewritten / f64::from(case.messages),
            rewritten,
            kept,
            copied(&case)
        );
    }
}
