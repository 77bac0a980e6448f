//! Clients that get no server for what they ask: what they hear, and that their sessions go on.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use monitor::{Address, Config, Mode};
use pgwire::auth::{Credential, Login, LoginStep, Terms};
use pgwire::frame::{Backend, Frontend};
use pgwire::message::{read, write};
use pgwire::startup::Version;

use super::{Gate, Raw, ask, code, config, database, password, runtime, server, shown, trusting};
use pgtest::CLIENT_NONCE;

/// One slot, and nobody may wait: while somebody has it, all others are refused.
fn without_room(mode: Mode) -> Config {
    let mut database = database(mode, 1);
    database.gate.room = Some(0);
    trusting(database)
}

/// A gate at which `holder` has the only slot.
fn full(config: Config) -> (Gate, Raw) {
    let gate = Gate::new(config);
    let mut holder = Raw::enter(&gate, Version::V3_0, &[]);
    holder.query("begin");
    assert_eq!(holder.answer(), ["BEGIN", "ZT"]);
    (gate, holder)
}

fn frees(holder: &mut Raw) {
    holder.query("commit");
    assert_eq!(holder.answer(), ["COMMIT", "ZI"]);
}

const REFUSED: &str = "ERROR 53300 too many clients wait for a server";

fn message(out: &mut Vec<u8>, tag: Frontend, body: &[u8]) {
    write::message(out, tag, |out| out.extend_from_slice(body));
}

/// A segment that prepares `name` and runs it, without its Sync.
fn segment(out: &mut Vec<u8>, name: &str, sql: &str) {
    message(out, Frontend::Parse, format!("{name}\0{sql}\0\0\0").as_bytes());
    message(out, Frontend::Bind, format!("\0{name}\0\0\0\0\0\0\0").as_bytes());
    message(out, Frontend::Execute, b"\0\0\0\0\0");
}

#[test]
fn a_refused_query_leaves_its_session() {
    let (gate, mut holder) = full(without_room(Mode::Transaction));
    let mut late = Raw::enter(&gate, Version::V3_0, &[("application_name", "late")]);
    for _ in 0..3 {
        late.query("select 'no'");
        assert_eq!(late.answer(), [REFUSED, "ZI"]);
    }
    frees(&mut holder);
    late.query("select current_setting('application_name')");
    assert_eq!(late.answer(), ["late", "SELECT 1", "ZI"]);
    let stats = gate.end().stats;
    assert_eq!(stats.pools[0].counters.refused_queue_full, 3);
    assert_eq!((stats.clients_accepted, stats.pools[0].counters.reneged), (2, 0));
}

#[test]
fn a_refused_series_has_no_effect_and_the_next_is_asked_for_anew() {
    let (gate, mut holder) = full(without_room(Mode::Transaction));
    let mut late = Raw::enter(&gate, Version::V3_0, &[]);
    let mut out = Vec::new();
    segment(&mut out, "kept", "select 'kept'");
    write::query(&mut out, "create table never (a int)");
    write::bare(&mut out, Frontend::Flush);
    segment(&mut out, "", "select 'unnamed'");
    late.say(&out);
    let (tag, error) = late.hear();
    assert_eq!((tag, &*shown(&error)), (Backend::ErrorResponse, REFUSED));
    let fields = read::fields(&error).unwrap();
    let detail = String::from_utf8_lossy(fields.detail().unwrap()).into_owned();
    assert!(detail.starts_with("1 slots are there and 0 clients wait; "), "{detail}");
    assert!(fields.hint().is_some());
    // The rest of the segment comes when the slot is free, and is none the less for nobody.
    frees(&mut holder);
    let mut out = Vec::new();
    segment(&mut out, "later", "select 'later'");
    write::bare(&mut out, Frontend::Sync);
    segment(&mut out, "good", "select 'good'");
    write::bare(&mut out, Frontend::Sync);
    late.say(&out);
    assert_eq!(late.answer(), ["ZI"], "of the series that was refused");
    assert_eq!(
        late.answer(),
        ["ParseComplete", "BindComplete", "good", "SELECT 1", "ZI"],
        "of the one behind it"
    );
    for name in ["kept", "later", ""] {
        let mut out = Vec::new();
        message(&mut out, Frontend::Describe, format!("S{name}\0").as_bytes());
        write::bare(&mut out, Frontend::Sync);
        late.say(&out);
        let answer = late.answer();
        match name {
            // The segment behind has named none so.
            "" => assert!(answer[0].starts_with("ERROR 26000 unnamed"), "{answer:?}"),
            _ => assert!(answer[0].starts_with("ERROR 26000 prepared"), "{answer:?}"),
        }
        assert_eq!(answer[1..], ["ZI"]);
    }
    late.query("select to_regclass('never') is null");
    assert_eq!(late.answer()[0], "t");
    gate.end();
}

/// What the gate says in a server's place is no reason to ask for one.
#[test]
fn a_client_at_rest_needs_no_server_for_what_does_nothing() {
    let (gate, mut holder) = full(without_room(Mode::Transaction));
    let mut rests = Raw::enter(&gate, Version::V3_0, &[]);
    let mut out = Vec::new();
    for _ in 0..3 {
        write::bare(&mut out, Frontend::Flush);
        message(&mut out, Frontend::CopyData, &[b'x'; 100_000]);
        write::bare(&mut out, Frontend::CopyDone);
        message(&mut out, Frontend::CopyFail, b"why\0");
        write::bare(&mut out, Frontend::Sync);
    }
    rests.say(&out);
    for _ in 0..3 {
        assert_eq!(rests.answer(), ["ZI"]);
    }
    assert_eq!(gate.stats().pools[0].counters.refused_queue_full, 0);
    frees(&mut holder);
    gate.end();
}

/// A message that fails at PostgreSQL, where it is the first of its segment, and fits no other.
fn failing(chance: &mut Chance) -> (Frontend, Vec<u8>) {
    let large = "x".repeat(chance.below(3) * 20_000 + 1);
    match chance.below(8) {
        0 => (Frontend::Query, format!("{large} is no SQL\0").into_bytes()),
        1 => (Frontend::Query, b"copy no_such_table from stdin\0".to_vec()),
        // The function 0, with nothing.
        2 => (Frontend::FunctionCall, vec![0; 10]),
        3 => (Frontend::Parse, format!("a\0{large} is no SQL\0\0\0").into_bytes()),
        4 => (Frontend::Bind, b"\0no_such\0\0\0\0\0\0\0".to_vec()),
        5 => (Frontend::Describe, b"Sno_such\0".to_vec()),
        6 => (Frontend::Describe, b"Pno_such\0".to_vec()),
        _ => (Frontend::Execute, b"no_such\0\0\0\0\0".to_vec()),
    }
}

/// What may stand anywhere, within a segment that has failed or between two.
fn idle(chance: &mut Chance) -> (Frontend, Vec<u8>) {
    match chance.below(5) {
        0 => (Frontend::Flush, Vec::new()),
        1 => (Frontend::CopyData, vec![b'x'; chance.below(3) * 30_000]),
        2 => (Frontend::CopyDone, Vec::new()),
        3 => (Frontend::CopyFail, b"why\0".to_vec()),
        _ => (Frontend::Sync, Vec::new()),
    }
}

/// What stands in a segment that has failed.
fn skipped(chance: &mut Chance) -> (Frontend, Vec<u8>) {
    match chance.below(4) {
        0 => (Frontend::Query, b"select 'skipped'\0".to_vec()),
        1 => (Frontend::Close, b"Skept\0".to_vec()),
        2 => idle(chance),
        _ => failing(chance),
    }
}

/// Messages of which each that counts fails at PostgreSQL, with a last word that is answered.
fn said(chance: &mut Chance) -> Vec<u8> {
    let (mut out, mut skips) = (Vec::new(), false);
    for _ in 0..40 {
        let (tag, body) = match chance.below(3) {
            0 => idle(chance),
            _ if skips => skipped(chance),
            _ => failing(chance),
        };
        skips = match tag {
            Frontend::Sync => false,
            Frontend::Parse | Frontend::Bind | Frontend::Describe | Frontend::Execute => true,
            _ => skips,
        };
        message(&mut out, tag, &body);
    }
    write::bare(&mut out, Frontend::Sync);
    out
}

/// All that comes until so many errors and ReadyForQuery have: E and Z, with the state of each.
fn shape(raw: &mut Raw, length: usize) -> Vec<String> {
    let mut heard = Vec::new();
    while heard.len() < length {
        match raw.hear() {
            (Backend::ReadyForQuery, body) => heard.push(format!("Z{}", char::from(body[0]))),
            (Backend::ErrorResponse, body) => {
                let fields = read::fields(&body).unwrap();
                assert_eq!(fields.severity(), Some(&b"ERROR"[..]), "{}", shown(&body));
                heard.push("E".to_owned());
            }
            (Backend::NoticeResponse | Backend::ParameterStatus, _) => {}
            (tag, body) => panic!("{tag:?} {body:?} behind {heard:?}"),
        }
    }
    heard
}

/// A client of the server's own, without a detour.
fn direct() -> Raw {
    let mut raw = Raw::connect_to(([127, 0, 0, 1], server().port()).into());
    raw.start(Version::V3_0, &[]);
    let credential = Credential::Password(password());
    let mut login = Some(Login::new(b"sekisho", credential, Terms::default(), CLIENT_NONCE));
    while let Some(waits) = login {
        let (tag, body) = raw.hear();
        assert_eq!(tag, Backend::Authentication, "{body:?}");
        let mut out = Vec::new();
        let asked = read::authentication(&body).unwrap();
        login = match waits.answer(&asked, &mut out).unwrap() {
            LoginStep::Waits(waits) => Some(waits),
            LoginStep::In => None,
        };
        raw.say(&out);
    }
    raw.entered()
}

/// What PostgreSQL says to this, up to the answer to what it is asked behind.
fn at_the_server(said: &[u8]) -> Vec<String> {
    let mut direct = direct();
    let mut writer = direct.stream.try_clone().unwrap();
    let mut said = said.to_vec();
    write::query(&mut said, "select 'over'");
    std::thread::spawn(move || writer.write_all(&said));
    let mut heard = Vec::new();
    loop {
        match direct.hear() {
            (Backend::ReadyForQuery, body) => heard.push(format!("Z{}", char::from(body[0]))),
            (Backend::ErrorResponse, _) => heard.push("E".to_owned()),
            (Backend::RowDescription, _) => return heard,
            (Backend::NoticeResponse | Backend::ParameterStatus, _) => {}
            (tag, body) => panic!("{tag:?} {body:?} behind {heard:?}"),
        }
    }
}

/// Chance for one test (xorshift64*).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }
}

/// Whatever a client sends that is refused each time it asks, it hears as many errors and
/// ReadyForQuery, at the same places, as from a PostgreSQL at which the same messages fail.
#[test]
fn refusals_have_the_shape_of_errors_of_the_server() {
    let (gate, mut holder) = full(without_room(Mode::Transaction));
    let mut errors = 0;
    for seed in 1..=25 {
        let mut chance = Chance(0x9e37_79b9_7f4a_7c15 ^ seed);
        let said = said(&mut chance);
        let wanted = at_the_server(&said);
        let mut refused = Raw::enter(&gate, Version::V3_0, &[]);
        let mut writer = refused.stream.try_clone().unwrap();
        let step = [7, 1000, said.len()][chance.below(3)].max(said.len() / 2000);
        let pieces: Vec<Vec<u8>> = said.chunks(step).map(<[u8]>::to_vec).collect();
        let says =
            std::thread::spawn(move || pieces.iter().try_for_each(|piece| writer.write_all(piece)));
        let heard = shape(&mut refused, wanted.len());
        assert_eq!(heard, wanted, "seed {seed}");
        says.join().unwrap().unwrap();
        // Nothing is left over: what comes next is the answer to what is asked next.
        refused.query("select 'late'");
        assert_eq!(refused.answer(), [REFUSED, "ZI"], "seed {seed}");
        errors += heard.iter().filter(|one| *one == "E").count();
    }
    assert!(errors > 100, "{errors}");
    let stats = gate.stats();
    assert_eq!(stats.pools[0].counters.refused_queue_full, errors as u64 + 25);
    frees(&mut holder);
    gate.end();
}

#[test]
fn a_copy_that_was_refused_has_its_rows_passed_over() {
    let (gate, mut holder) = full(without_room(Mode::Transaction));
    let mut late = Raw::enter(&gate, Version::V3_0, &[]);
    let mut out = Vec::new();
    write::query(&mut out, "copy pg_temp.never from stdin");
    for _ in 0..200 {
        message(&mut out, Frontend::CopyData, &[b'1'; 10_000]);
    }
    write::bare(&mut out, Frontend::CopyDone);
    late.say(&out);
    assert_eq!(late.answer(), [REFUSED, "ZI"]);
    frees(&mut holder);
    late.query("select 'next'");
    assert_eq!(late.answer(), ["next", "SELECT 1", "ZI"]);
    assert_eq!(gate.stats().pools[0].counters.refused_queue_full, 1);
    gate.end();
}

/// It could send without end what is answered with more than it has sent.
#[test]
fn who_does_not_hear_its_refusals_is_not_heard() {
    let (gate, mut holder) = full(without_room(Mode::Transaction));
    let mut deaf = Raw::enter(&gate, Version::V3_0, &[]);
    socket2::SockRef::from(&deaf.stream).set_recv_buffer_size(1 << 16).unwrap();
    let mut one = Vec::new();
    write::query(&mut one, &" ".repeat(200));
    let many = one.repeat(1000);
    let mut writer = deaf.stream.try_clone().unwrap();
    writer.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    // Until the sockets of both sides are full.
    let mut sent = 0;
    while let Ok(bytes) = writer.write(&many[sent % many.len()..]) {
        sent += bytes;
        assert!(sent < 100_000_000, "it is heard without end");
    }
    // Nobody else is hurt.
    let mut late = Raw::enter(&gate, Version::V3_0, &[]);
    late.query("select 'late'");
    assert_eq!(late.answer(), [REFUSED, "ZI"]);
    // What it has sent is answered when it hears.
    for at in 0..sent / one.len() {
        assert_eq!(deaf.answer(), [REFUSED, "ZI"], "{at} of {sent} bytes");
    }
    frees(&mut holder);
    gate.end();
}

#[test]
fn a_session_can_end_within_what_was_refused() {
    let (gate, mut holder) = full(without_room(Mode::Transaction));
    for behind in [&b"X\0\0\0\x04"[..], b""] {
        let mut late = Raw::enter(&gate, Version::V3_0, &[]);
        let mut out = Vec::new();
        segment(&mut out, "", "select 1");
        out.extend_from_slice(behind);
        late.say(&out);
        let (_, error) = late.hear();
        assert_eq!(shown(&error), REFUSED);
        if behind.is_empty() {
            drop(late);
        } else {
            assert_eq!(late.rest(), b"", "nothing more is said");
        }
        gate.until("it has gone", |stats| stats.clients == 1);
    }
    let mut wrong = Raw::enter(&gate, Version::V3_0, &[]);
    let mut out = Vec::new();
    segment(&mut out, "", "select 1");
    out.extend_from_slice(b"p\0\0\0\x05x");
    wrong.say(&out);
    wrong.hear();
    assert_eq!(wrong.last_words(), "FATAL 08P01 invalid frontend message type 112");
    frees(&mut holder);
    gate.end();
}

/// In session mode a session begins at its server.
#[test]
fn in_session_mode_a_refusal_ends_what_has_not_begun() {
    let mut config = without_room(Mode::Session);
    config.databases[0].gate.wait_max = Some(Duration::from_millis(50));
    let gate = Gate::new(config);
    let mut holder = Raw::enter(&gate, Version::V3_0, &[]);
    holder.query("select 1");
    holder.answer();
    let mut late = Raw::enter(&gate, Version::V3_0, &[]);
    late.query("select 1");
    assert_eq!(late.last_words(), format!("FATAL{}", REFUSED.strip_prefix("ERROR").unwrap()));
    drop(holder);
    gate.end();
}

/// A login that cannot be ended for want of a slot is no session yet.
#[test]
fn who_is_refused_at_its_login_does_not_get_in() {
    let mut config = without_room(Mode::Transaction);
    config.databases[0].servers = vec![Address::Tcp(nobody().local_addr().unwrap())];
    config.databases[0].gate.wait_max = Some(Duration::from_millis(200));
    config.timeouts.connect = Duration::from_secs(1);
    let gate = Gate::new(config);
    let mut first = Raw::connect(&gate);
    first.start(Version::V3_0, &[]);
    let words = loop {
        match first.hear() {
            (Backend::ErrorResponse, body) => break shown(&body),
            (Backend::Authentication, _) => {}
            (tag, _) => panic!("{tag:?}"),
        }
    };
    assert!(words.starts_with("FATAL 08006 the server cannot be reached"), "{words}");
    assert_eq!(first.rest(), b"");
    gate.end();
}

/// A server that lets in whoever comes, and says this and hangs up at the first question.
fn server_that_hangs_up(words: &'static [u8]) -> Address {
    let listener = nobody();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut room = [0; 4096];
                assert!(stream.read(&mut room).unwrap() > 0);
                stream.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").unwrap();
                // Whatever is asked, or nothing if the gate has gone.
                let _ = stream.read(&mut room).and_then(|_| stream.write_all(words));
            });
        }
    });
    Address::Tcp(address)
}

/// A server that died while it was given its client's settings took the session with it, which had said
/// nothing there.
#[test]
fn a_server_that_dies_before_its_client_has_said_anything_leaves_the_session() {
    let lost = "08006 the server has closed the connection unexpectedly";
    let own = b"E\0\0\0\x2dSFATAL\0VFATAL\0C57P01\0Mit shuts down now\0\0";
    for (said, words) in [(&b""[..], lost), (own, "57P01 it shuts down now")] {
        let mut database = database(Mode::Transaction, 1);
        database.servers = vec![server_that_hangs_up(said)];
        let gate = Gate::new(trusting(database));
        let mut client = Raw::enter(&gate, Version::V3_0, &[("application_name", "unheard")]);
        for _ in 0..3 {
            client.query("select 1");
            assert_eq!(client.answer(), [&format!("ERROR {words}"), "ZI"]);
        }
        // One that has said something there does not know what became of it.
        let mut plain = Raw::enter(&gate, Version::V3_0, &[]);
        plain.query("select 1");
        assert_eq!(plain.last_words(), format!("FATAL {words}"));
        drop(client);
        gate.end();
    }
}

/// A port at which nobody answers any more, as soon as this is dropped.
fn nobody() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

/// While it shuts down, whoever is refused has nothing under way any more.
#[test]
fn who_is_refused_in_a_drain_is_sent_away() {
    let mut database = database(Mode::Transaction, 1);
    database.gate.wait_max = Some(Duration::from_millis(500));
    let (gate, mut holder) = full(trusting(database));
    let mut waits = Raw::enter(&gate, Version::V3_0, &[]);
    waits.query("select 'in vain'");
    gate.until("it waits", |stats| stats.pools[0].waiting == 1);
    gate.handle.drain().unwrap();
    assert_eq!(waits.answer(), ["ERROR 53300 no server became free in time", "ZI"]);
    let words = "FATAL 57P01 terminating connection due to administrator command";
    assert_eq!(waits.last_words(), words);
    holder.query("commit");
    assert_eq!(holder.answer(), ["COMMIT", "ZI"]);
    let finished = gate.thread_ends();
    assert_eq!(finished.stats.pools[0].counters.refused_deadline, 1);
}

/// A driver keeps its connection: what it has prepared is there still, and what it asks next is served.
#[test]
fn a_driver_goes_on_after_a_refusal() {
    let mut database = database(Mode::Transaction, 1);
    database.gate.wait_max = Some(Duration::from_millis(100));
    let gate = Gate::new(config(database));
    runtime().block_on(async {
        let (holder, late) = (gate.connect().await, gate.connect().await);
        let prepared = late.prepare("select $1::text").await.unwrap();
        ask(&holder, "begin").await.unwrap();
        let began = Instant::now();
        for _ in 0..3 {
            let error = late.query(&prepared, &[&"no"]).await.unwrap_err();
            assert_eq!(code(&error), "53300");
            let error = late.prepare("select 'never'").await.unwrap_err();
            assert_eq!(code(&error), "53300");
            assert_eq!(code(&ask(&late, "select 'no'").await.unwrap_err()), "53300");
        }
        assert!(began.elapsed() >= Duration::from_millis(900));
        assert!(!late.is_closed());
        ask(&holder, "commit").await.unwrap();
        let row = late.query_one(&prepared, &[&"yes"]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), "yes");
    });
    gate.end();
}
