//! Traps that poolers fell into, with a server of our own words: what is said when no client is
//! there, what keeps a server, what ends it. `trap_N` is the trap of this number.

use pgsession::pipeline::OWED_MAX;
use pgsession::relay::{ClientFault, Taken};
use pgsession::sql::Reason;
use pgsession::sql::tokens::{Encoding, LexerMode};
use pgwire::SqlState;
use pgwire::message::{Report, Severity, Status};

use super::*;

/// A relay between a client and a server that are both the test.
struct Bench {
    relay: Relay,
    cache: StatementCache,
    client: Client,
    frames: Frames<Frontend>,
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    news: Vec<String>,
}

impl Bench {
    fn new(relay: Relay) -> Bench {
        Bench {
            relay,
            cache: StatementCache::new([7; 8], Bounds::default()),
            client: Client::new(0),
            frames: Frames::new(Limits::SESSION),
            to_server: Vec::new(),
            to_client: Vec::new(),
            news: Vec::new(),
        }
    }

    fn in_rotation() -> Bench {
        Bench::new(Relay::new(Limits::SESSION))
    }

    fn ask(&mut self, bytes: &[u8]) -> Result<Taken, ClientFault> {
        let mut of = Here { client: &mut self.client, cache: &mut self.cache };
        let mut out = Copied::new(bytes, &mut self.to_server);
        self.relay.from_client(&mut of, &mut self.frames, bytes, &mut out, &mut self.to_client)
    }

    /// All of it is taken; what goes to the server.
    fn asks(&mut self, bytes: &[u8]) -> Vec<u8> {
        assert_eq!(self.ask(bytes).unwrap().bytes, bytes.len());
        std::mem::take(&mut self.to_server)
    }

    fn say(&mut self, bytes: &[u8], presence: Presence) -> Stop {
        let client = (presence == Presence::There).then_some(&mut self.client);
        let mut out = Copied::new(bytes, &mut self.to_client);
        let news = |one: News<'_>| {
            if matches!(one, News::Tells(_)) {
                return;
            }
            self.news.push(match one {
                News::Parameter { name, value, .. } => {
                    format!("{}={}", name.escape_ascii(), value.escape_ascii())
                }
                News::Completed { tag, .. } => tag.escape_ascii().to_string(),
                News::Ended(fields) => format!("ended {:?}", fields.unwrap().sqlstate()),
                News::Failed(fields) => format!("failed {:?}", fields.unwrap().sqlstate()),
                other => format!("{other:?}"),
            });
        };
        let (cache, beside) = (&mut self.cache, &mut self.to_server);
        let taken = self.relay.from_server(client, cache, bytes, &mut out, beside, news);
        taken.unwrap().stop
    }

    /// The server says this; what the client gets.
    fn says(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.say(bytes, Presence::There);
        std::mem::take(&mut self.to_client)
    }
}

#[derive(PartialEq)]
enum Presence {
    There,
    Nowhere,
}

fn error(severity: Severity, sqlstate: SqlState) -> Vec<u8> {
    let mut out = Vec::new();
    write::error_response(&mut out, &Report::new(severity, sqlstate, "said"));
    out
}

fn ready(status: Status) -> Vec<u8> {
    let mut out = Vec::new();
    write::ready_for_query(&mut out, status);
    out
}

fn completed(tag: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write::command_complete(&mut out, tag);
    out
}

fn status(name: &str, value: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write::parameter_status(&mut out, name.as_bytes(), value.as_bytes());
    out
}

fn replies(tags: &[Backend]) -> Vec<u8> {
    let mut out = Vec::new();
    tags.iter().for_each(|&tag| write::bare(&mut out, tag));
    out
}

#[test]
fn idle_is_not_enough_to_be_free() {
    let mut bench = Bench::in_rotation();
    bench.asks(&[query("select 1"), query("select 2")].concat());
    let reply = [completed("SELECT 1"), ready(Status::Idle)].concat();
    bench.says(&reply);
    assert_eq!(bench.relay.kept(), Some(Kept::Owes { ready: 1, requests: 1 }));
    bench.says(&reply);
    assert_eq!(bench.relay.kept(), None);
    assert_eq!(bench.news, ["SELECT 1", "Ready(Idle)", "SELECT 1", "Ready(Idle)"]);
    // The gate's own reply waits for its turn.
    let close = [parse("", "show a", &[]), close("no"), sync()].concat();
    bench.asks(&close);
    assert_eq!(bench.relay.kept(), Some(Kept::Owes { ready: 1, requests: 3 }));
    let both = replies(&[Backend::ParseComplete, Backend::CloseComplete]);
    assert_eq!(bench.says(&both[..5]), both);
    assert!(bench.relay.kept().is_some());
    // A message that is under way, and rows that are wanted.
    bench.says(&ready(Status::Idle));
    let mut notice = b"N\0\x01\0\0S".to_vec();
    notice.resize(9000, b'x');
    bench.says(&notice);
    assert_eq!(bench.relay.kept(), Some(Kept::Message));
    bench.says(&vec![0; 0x10001 - 9000]);
    assert_eq!(bench.relay.kept(), None);
    bench.asks(&query("copy t from stdin"));
    bench.says(&replies(&[Backend::CopyInResponse]));
    assert_eq!(bench.relay.kept(), Some(Kept::CopyIn));
}

#[test]
fn an_error_of_what_was_put_before_a_query_ends_the_query() {
    // A cancel that hit the Parse before DEALLOCATE left the client waiting for ever.
    let mut bench = Bench::in_rotation();
    let parsed = [replies(&[Backend::ParseComplete]), ready(Status::Idle)].concat();
    bench.asks(&[parse("a", "show a", &[]), sync()].concat());
    bench.says(&parsed);
    let out = bench.asks(&query("deallocate a"));
    let tags: Vec<Frontend> = pgtest::messages(&out).iter().map(|&(tag, _)| tag).collect();
    assert_eq!(tags, [Frontend::Close, Frontend::Parse, Frontend::Query]);
    let cancelled = error(Severity::Error, SqlState::from_bytes(b"57014").unwrap());
    let said = bench.says(&[replies(&[Backend::CloseComplete]), cancelled.clone()].concat());
    assert_eq!(said, cancelled);
    assert_eq!(std::mem::take(&mut bench.to_server), sync());
    assert_eq!(bench.says(&ready(Status::Idle)), ready(Status::Idle));
    assert_eq!((bench.relay.kept(), bench.client.names()), (None, 1));
}

#[test]
fn a_setting_of_the_gates_own_is_told_to_it_alone() {
    let mut bench = Bench::in_rotation();
    bench.relay.query("set timezone to 'utc'", &mut bench.to_server).unwrap();
    assert_eq!(std::mem::take(&mut bench.to_server), query("set timezone to 'utc'"));
    // The client need not wait for the gate's questions.
    bench.asks(&query("select 1"));
    let told = status("TimeZone", "utc");
    let mut notice = Vec::new();
    let report = Report::new(Severity::Notice, SqlState::SYNTAX_ERROR, "psst");
    write::notice_response(&mut notice, &report);
    let own = [notice, told.clone(), completed("SET"), ready(Status::Idle)].concat();
    assert_eq!(bench.says(&own), b"", "the client was told its settings");
    let reply = [completed("SELECT 1"), told.clone(), ready(Status::Idle)].concat();
    assert_eq!(bench.says(&reply), reply, "what its own command has changed is told");
    let changed = ["TimeZone=utc", "SELECT 1", "TimeZone=utc", "Ready(Idle)"];
    assert_eq!(
        bench.news,
        [&changed[..1], &["Own { failed: None, rows: 0 }"], &changed[1..]].concat()
    );
    bench.relay.query("selec", &mut bench.to_server).unwrap();
    let failed = [error(Severity::Error, SqlState::SYNTAX_ERROR), ready(Status::Idle)].concat();
    assert_eq!(bench.says(&failed), b"");
    assert_eq!(bench.news[5], "Own { failed: Some(SqlState(42601)), rows: 0 }");
}

#[test]
fn what_comes_unasked_reaches_whom_it_concerns() {
    let mut notification = Vec::new();
    write::message(&mut notification, Backend::NotificationResponse, |out| {
        out.extend_from_slice(b"\0\0\0\x07here\0\0");
    });
    let mut notice = Vec::new();
    let report = Report::new(Severity::Notice, SqlState::SYNTAX_ERROR, "psst");
    write::notice_response(&mut notice, &report);
    let all = [notification, status("TimeZone", "utc"), notice].concat();
    let mut bench = Bench::in_rotation();
    bench.say(&all, Presence::Nowhere);
    assert!(bench.to_client.is_empty(), "nobody is there");
    assert!(bench.news[0].starts_with("Unheard"), "{:?}", bench.news);
    bench.asks(&query("select 1"));
    assert_eq!(bench.says(&all), all);
    bench.asks(&[parse("", "copy t from stdin", &[]), bind("", "", &[])].concat());
    assert_eq!(bench.says(&all[..7]), b"", "a message that is not whole yet");
}

#[test]
fn a_server_that_closes_between_two_clients_tells_none() {
    let mut bench = Bench::in_rotation();
    let fatal = error(Severity::Fatal, SqlState::from_bytes(b"57P01").unwrap());
    assert_eq!(bench.say(&fatal, Presence::Nowhere), Stop::Ended);
    assert_eq!(bench.news, ["ended Some(SqlState(57P01))"]);
    assert!(bench.to_client.is_empty());
    assert!(matches!(bench.relay.kept(), Some(Kept::Ended(_))));
    assert!(matches!(bench.ask(&query("select 1")), Err(ClientFault::Message(_))));
}

#[test]
fn a_function_call_passes_and_is_answered() {
    let mut bench = Bench::in_rotation();
    let call = b"F\0\0\0\x0e\0\0\0\xb1\0\0\0\0\0\x01";
    assert_eq!(bench.asks(call), call);
    assert_eq!(bench.relay.turn(), Turn::Server);
    let mut reply = replies(&[Backend::FunctionCallResponse]);
    reply.extend(ready(Status::Idle));
    assert_eq!(bench.says(&reply), reply);
    assert_eq!(bench.relay.kept(), None);
}

#[test]
fn what_a_session_has_no_place_for_is_refused_as_postgresql_does() {
    let fault = Bench::in_rotation().ask(b"p\0\0\0\x09word\0").unwrap_err();
    assert_eq!(fault.to_string(), "invalid frontend message type 112");
    assert_eq!(fault.sqlstate(), SqlState::PROTOCOL_VIOLATION);
    let fault = Bench::in_rotation().ask(b"k\0\0\0\x04").unwrap_err();
    assert_eq!(fault.to_string(), "invalid frontend message type 107");
    // What was said before is good.
    let mut bench = Bench::in_rotation();
    bench.ask(&[query("select 1"), b"p\0\0\0\x04".to_vec()].concat()).unwrap_err();
    assert_eq!(bench.to_server, query("select 1"));
    let mut bench = Bench::in_rotation();
    bench.asks(&query("copy t from stdin"));
    bench.says(&replies(&[Backend::CopyInResponse]));
    let fault = bench.ask(&query("select 1")).unwrap_err();
    assert_eq!(fault.to_string(), "unexpected message type 0x51 during COPY from stdin");
}

#[test]
fn terminate_is_taken_and_goes_nowhere() {
    let mut bench = Bench::in_rotation();
    let bytes = [query("begin"), bare(Frontend::Terminate), query("select 1")].concat();
    let taken = bench.ask(&bytes).unwrap();
    let before = query("begin").len();
    assert_eq!(taken, Taken { bytes: before + 5, stop: Stop::Terminated });
    assert_eq!(std::mem::take(&mut bench.to_server), query("begin"));
    let client = std::mem::replace(&mut bench.client, Client::new(0));
    let what = bench.relay.leave(client, &mut bench.cache, &mut bench.to_server);
    assert!(matches!(what, Abandoned::Waits(_)));
    bench.say(&[completed("BEGIN"), ready(Status::InTransaction)].concat(), Presence::Nowhere);
    assert_eq!(std::mem::take(&mut bench.to_server), query("ROLLBACK"));
    bench.say(&[completed("ROLLBACK"), ready(Status::Idle)].concat(), Presence::Nowhere);
    assert_eq!((bench.relay.kept(), bench.to_client.len()), (None, 0));
}

#[test]
fn a_fence_waits_for_the_end_of_a_message_that_is_under_way() {
    let mut bench = Bench::in_rotation();
    bench.asks(&query("copy t from stdin"));
    bench.says(&replies(&[Backend::CopyInResponse]));
    bench.asks(&[sync(), b"d\0\0\x10\0half".to_vec()].concat());
    bench.says(&error(Severity::Error, SqlState::SYNTAX_ERROR));
    assert!(bench.to_server.is_empty(), "it would stand among the rows");
    let mut rest = vec![b'x'; 0x1000 - 8];
    assert_eq!(bench.ask(&rest).unwrap().bytes, rest.len());
    let out = std::mem::take(&mut bench.to_server);
    assert!(out.starts_with(&rest) && out.len() > rest.len(), "the fence is behind");
    rest.clear();
}

#[test]
fn a_session_of_its_own_keeps_its_names() {
    let mut bench = Bench::new(Relay::transparent(Limits::SESSION));
    let bytes = [parse("a", "select 1", &[]), again("a"), close("a"), sync()].concat();
    assert_eq!(bench.asks(&bytes), bytes);
    let parsed = [replies(&[Backend::ParseComplete, Backend::BindComplete])].concat();
    assert_eq!(bench.says(&parsed), parsed);
    let mut bench = Bench::new(Relay::of_replication(Limits::SESSION));
    assert_eq!(bench.asks(&bytes), bytes);
    assert_eq!(bench.relay.kept(), Some(Kept::Replication));
}

#[test]
fn of_a_large_bind_only_the_head_is_written_and_a_large_parse_is_waited_for() {
    let mut bench = Bench::in_rotation();
    let large = parse("a", &format!("select $1::text --{}", "x".repeat(9000)), &[]);
    let taken = bench.ask(&large[..8192]).unwrap();
    assert_eq!(taken, Taken { bytes: 0, stop: Stop::More { needs: large.len() } });
    assert!(bench.to_server.is_empty());
    let out = bench.asks(&large);
    let name = b"Psekisho.0707070707070707.1\0";
    assert_eq!([&out[..1], &out[HEAD..HEAD + name.len() - 1]].concat(), name);
    let value = "v".repeat(3 << 20);
    let bytes = bind("p", "a", &[&value]);
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let end = (at + 8192).min(bytes.len());
        out.extend(bench.asks(&bytes[at..end]));
        at = end;
    }
    assert_eq!(out, bind("p", "sekisho.0707070707070707.1", &[&value]));
}

/// `AS end` in the body of a function was taken for its end, so that each command behind it had the
/// number of another, and what the last one left was never told.
#[test]
fn a_text_that_has_another_number_of_commands_than_it_seems_to_have_keeps_its_server() {
    let mut bench = Bench::in_rotation();
    let text = "set a to 1; set b to 2";
    let set = completed("SET");
    for reply in [
        [set.clone(), set.clone()].concat(),
        [set.clone(), error(Severity::Error, SqlState::SYNTAX_ERROR)].concat(),
    ] {
        bench.asks(&query(text));
        bench.says(&[reply, ready(Status::Idle)].concat());
        assert!(bench.relay.pins().is_empty());
    }
    let segment = [runs("", text), sync()].concat();
    let taken = replies(&[Backend::ParseComplete, Backend::BindComplete]);
    for (asked, reply) in [
        (query(text), set.clone()),
        (query(text), [&set[..], &set, &set].concat()),
        (query(text), replies(&[Backend::EmptyQueryResponse])),
        (segment.clone(), [&taken[..], &set].concat()),
        (segment, [taken, replies(&[Backend::EmptyQueryResponse])].concat()),
    ] {
        bench.news.clear();
        bench.asks(&asked);
        bench.says(&[reply, ready(Status::Idle)].concat());
        assert!(bench.relay.pins().has(Reason::Unreadable));
        // Who follows the settings hears it before anybody else may have the server.
        let last = &bench.news[bench.news.len() - 2..];
        assert!(last[1] == "Ready(Idle)" && matches!(&*last[0], "" | "SET"), "{last:?}");
        bench.relay.discarded();
        assert!(bench.relay.pins().is_empty());
    }
}

#[test]
fn replies_of_the_gates_own_go_with_what_the_server_says_next() {
    let mut bench = Bench::in_rotation();
    let completes = replies(&[Backend::ParseComplete]);
    let ran =
        [replies(&[Backend::BindComplete]), completed("SELECT 1"), ready(Status::Idle)].concat();
    bench.asks(&[runs("", "show a"), sync()].concat());
    bench.says(&[completes.clone(), ran.clone()].concat());
    // From here on the server has it.
    bench.asks(&[runs("", "show a"), sync()].concat());
    assert_eq!(bench.to_client, b"", "alone it would only wake the client");
    assert_eq!(bench.says(&ran), [completes.clone(), ran.clone()].concat());
    // Whether the client asks for the replies in the same breath or later.
    bench.asks(&runs("", "show a"));
    assert_eq!(bench.to_client, b"");
    bench.asks(&bare(Frontend::Flush));
    assert_eq!(bench.to_client, b"", "the server answers the Flush");
    assert_eq!(bench.says(&ran[..5]), [completes.clone(), ran[..5].to_vec()].concat());
    bench.asks(&sync());
    assert_eq!(bench.says(&ran[5..]), ran[5..]);
    // What comes of itself brings them, and half a message does not.
    bench.asks(&[runs("", "show a"), sync()].concat());
    let told = status("TimeZone", "utc");
    assert_eq!(bench.says(&told[..7]), b"");
    assert_eq!(bench.says(&told), [completes.clone(), told].concat());
    assert_eq!(bench.says(&ran), ran);
    // Where the server has nothing to say, nothing would bring them.
    bench.asks(&parse("", "show a", &[]));
    assert_eq!((&*bench.to_client, bench.relay.kept()), (&b""[..], Some(Kept::Segment)));
    bench.asks(&bare(Frontend::Flush));
    assert_eq!(std::mem::take(&mut bench.to_client), completes);
    assert_eq!(bench.relay.kept(), None);
    bench.asks(&[query("select 2"), runs("", "show a"), sync()].concat());
    let simple = [rows_of("v", 23), completed("SELECT 1"), ready(Status::Idle)].concat();
    assert_eq!(bench.says(&simple), [simple, completes.clone()].concat(), "in their order");
    bench.says(&ran);
    bench.asks(&[runs("", "show a"), sync()].concat());
    let gone = std::mem::replace(&mut bench.client, Client::new(0));
    let _ = bench.relay.leave(gone, &mut bench.cache, &mut bench.to_server);
    bench.say(&ran, Presence::Nowhere);
    assert_eq!((&*bench.to_client, bench.relay.kept()), (&b""[..], None), "nobody hears them");
}

#[test]
fn replies_of_the_gates_own_are_not_held_without_a_bound() {
    let mut bench = Bench::in_rotation();
    bench.asks(&[parse("", "show a", &[]), sync()].concat());
    bench.says(&[replies(&[Backend::ParseComplete]), ready(Status::Idle)].concat());
    bench.asks(&[parse("", "show a", &[]).repeat(2000), bind("", "", &[]), sync()].concat());
    let (given, ran) =
        (bench.to_client.len(), [replies(&[Backend::BindComplete]), ready(Status::Idle)]);
    assert!((8192..10_000).contains(&given), "{given}");
    let said = bench.says(&ran.concat());
    assert_eq!(said.len(), 10_000 + ran.concat().len(), "each Parse has its reply");
}

/// As in the reply to a Query.
fn rows_of(name: &str, of: u32) -> Vec<u8> {
    described(name, of).split_off(HEAD + 2)
}

/// One column of this name and type.
fn described(name: &str, of: u32) -> Vec<u8> {
    let mut out = Vec::new();
    write::message(&mut out, Backend::ParameterDescription, |out| out.extend_from_slice(&[0, 0]));
    write::message(&mut out, Backend::RowDescription, |out| {
        out.extend_from_slice(&[0, 1]);
        out.extend_from_slice(format!("{name}\0").as_bytes());
        out.extend_from_slice(&[0; 6]);
        out.extend_from_slice(&of.to_be_bytes());
        out.extend_from_slice(&[0, 4, 0xff, 0xff, 0xff, 0xff, 0, 0]);
    });
    out
}

#[test]
fn a_statement_of_another_shape_at_another_server_is_refused() {
    let mut bench = Bench::in_rotation();
    let completes = replies(&[Backend::ParseComplete]);
    let tags = |out: &[u8]| -> Vec<Frontend> {
        pgtest::messages(out).iter().map(|&(tag, _)| tag).collect()
    };
    let out = bench.asks(&[parse("a", "select v from t", &[]), sync()].concat());
    assert_eq!(tags(&out), [Frontend::Parse, Frontend::Describe, Frontend::Sync]);
    let shape = described("v", 23);
    let idle = ready(Status::Idle);
    let said = bench.says(&[completes.clone(), shape.clone(), idle.clone()].concat());
    assert_eq!(said, [completes.clone(), idle.clone()].concat(), "nobody has asked for the shape");
    let another = |bench: &mut Bench| {
        bench.relay = Relay::new(Limits::SESSION);
        let asked = again("a");
        let taken = bench.ask(&asked).unwrap();
        assert_eq!((taken.bytes, taken.stop), (0, Stop::Later), "nothing runs before it is known");
        let out = std::mem::take(&mut bench.to_server);
        assert_eq!(tags(&out), [Frontend::Parse, Frontend::Describe, Frontend::Flush]);
        asked
    };
    let asked = another(&mut bench);
    assert_eq!(bench.says(&[completes.clone(), shape.clone()].concat()), b"");
    let out = bench.asks(&asked);
    assert_eq!(tags(&out), [Frontend::Bind, Frontend::Execute, Frontend::Sync]);
    for other in [described("v", 20), described("w", 23)] {
        let asked = another(&mut bench);
        assert_eq!(bench.says(&[completes.clone(), other].concat()), b"");
        let taken = bench.ask(&asked).unwrap();
        assert_eq!(taken.stop, Stop::Later, "what follows is skipped if it fails");
        let out = std::mem::take(&mut bench.to_server);
        assert_eq!(tags(&out)[0], Frontend::Bind, "one that fails, so that a transaction does");
        let name = String::from_utf8(out[6..].split(|&byte| byte == 0).next().unwrap().to_vec());
        let mut failed = Vec::new();
        let lacks = format!("prepared statement \"{}\" does not exist", name.unwrap());
        let code = SqlState::from_bytes(b"26000").unwrap();
        write::error_response(&mut failed, &Report::new(Severity::Error, code, &lacks));
        let said = bench.says(&failed);
        let heard: Vec<(Backend, &[u8])> = pgtest::messages(&said);
        let fields = read::fields(heard[0].1).unwrap();
        assert_eq!(fields.field(b'C'), Some(&b"0A000"[..]));
        let text = b"cached plan must not change result type";
        assert_eq!(fields.field(b'M'), Some(&text[..]));
        bench.asks(&asked[taken.bytes..]);
        bench.says(&idle);
        assert_eq!(bench.relay.kept(), None);
    }
    // Whoever prepares it again has what it is now.
    let anew = [close("a"), parse("a", "select v from t", &[]), sync()].concat();
    let out = bench.asks(&anew);
    let prepares = [Frontend::Close, Frontend::Parse, Frontend::Describe, Frontend::Sync];
    assert_eq!(tags(&out), prepares, "whether it is still that only the server knows");
    let closed = replies(&[Backend::CloseComplete]);
    bench.says(&[closed, completes, described("w", 23), idle.clone()].concat());
    let out = bench.asks(&again("a"));
    assert_eq!(tags(&out), [Frontend::Bind, Frontend::Execute, Frontend::Sync]);
    bench.says(&[replies(&[Backend::BindComplete]), completed("SELECT 0"), idle.clone()].concat());
    // Without a name the gate answers, as often as it is asked.
    let out = bench.asks(&[parse("", "select v from t", &[]), sync()].concat());
    assert_eq!(tags(&out), [Frontend::Sync], "the server has it as it is");
    bench.says(&idle);
}

/// A name that SQL may have is tried at the server first, by a Parse and a Close of the gate's. With these
/// the pipeline was full when the gate came to answer the client's Parse, and that ended the process.
#[test]
fn a_named_parse_at_the_limit_of_outstanding_requests_is_answered_or_waits() {
    let parsed = replies(&[Backend::ParseComplete]);
    for outstanding in OWED_MAX - 3..=OWED_MAX {
        let mut bench = Bench::in_rotation();
        bench.asks(&query("prepare s as select 1"));
        bench.says(&[completed("PREPARE"), ready(Status::Idle)].concat());
        bench.asks(&[parse("", "show a", &[]), sync()].concat());
        bench.says(&[parsed.clone(), ready(Status::Idle)].concat());
        bench.asks(&named(Frontend::Close, "P", "p", &[]).repeat(outstanding));
        let parses = parse("n", "show a", &[]);
        let taken = bench.ask(&parses).unwrap();
        let waits = outstanding == OWED_MAX;
        assert_eq!(taken.stop == Stop::Later, waits, "{outstanding}: {taken:?}");
        bench.says(&replies(&vec![Backend::CloseComplete; outstanding]));
        bench.asks(if waits { &parses } else { &[] });
        bench.asks(&sync());
        let tried = replies(&[Backend::ParseComplete, Backend::CloseComplete]);
        let heard = bench.says(&[tried, ready(Status::Idle)].concat());
        assert_eq!(heard, [&parsed[..], &ready(Status::Idle)].concat(), "{outstanding}");
        assert_eq!((bench.relay.kept(), bench.client.names()), (None, 1));
    }
}

/// A COPY in a text that the gate cannot read was not expected, nor one whose portal was bound before: a
/// Close behind it that the gate answers itself then waited for the server, which waits for rows.
#[test]
fn nothing_is_answered_behind_a_copy_that_may_read_rows() {
    let shift_jis = LexerMode { encoding: Encoding::AsciiUnsafe, ..LexerMode::default() };
    let bound = replies(&[Backend::ParseComplete, Backend::BindComplete]);
    for (lexer_mode, early) in [(shift_jis, false), (LexerMode::default(), true), (shift_jis, true)]
    {
        let mut bench = Bench::in_rotation();
        bench.client.set_scope(Some(1), lexer_mode);
        let name: &[u8] = if lexer_mode == shift_jis { b"\x95\\" } else { b"t" };
        let mut copies = Vec::new();
        write::message(&mut copies, Frontend::Parse, |out| {
            out.extend_from_slice(&[&b"\0copy "[..], name, b" from stdin\0\0\0"].concat());
        });
        copies.extend(bind("", "", &[]));
        bench.asks(&copies);
        if early {
            bench.asks(&bare(Frontend::Flush));
            bench.says(&bound);
        }
        bench.asks(&execute(""));
        let behind = [close("x"), sync()].concat();
        let taken = bench.ask(&behind).unwrap();
        assert_eq!((taken.bytes, taken.stop), (0, Stop::Later), "{lexer_mode:?} {early}");
        bench.says(if early { &[] } else { &bound });
        bench.says(&replies(&[Backend::CopyInResponse]));
        assert_eq!((bench.relay.kept(), bench.relay.turn()), (Some(Kept::CopyIn), Turn::Client));
    }
}

/// A statement that one batch has prepared and closed again came back with the Close that was skipped, and
/// stayed beside the one that it had made room for.
#[test]
fn what_is_skipped_leaves_no_more_statements_than_there_were() {
    for most in [1, 2] {
        let mut bench = Bench::in_rotation();
        bench.cache.bound(Bounds { server_max: most, ..Bounds::default() });
        for number in 0..most {
            bench.asks(&[parse("", &format!("show a{number}"), &[]), sync()].concat());
            bench.says(&[replies(&[Backend::ParseComplete]), ready(Status::Idle)].concat());
        }
        assert_eq!(bench.relay.prepared(), most);
        let parses: Vec<Vec<u8>> =
            (0..3 * most).map(|number| parse("", &format!("show b{number}"), &[])).collect();
        bench.asks(&[execute("no"), parses.concat(), sync()].concat());
        bench.says(&error(Severity::Error, SqlState::SYNTAX_ERROR));
        assert_eq!(bench.relay.prepared(), most);
        bench.says(&ready(Status::Idle));
        // None of these is there, and each of those may be.
        for (text, tags) in [
            ("show b0", &[Frontend::Close, Frontend::Parse, Frontend::Sync]),
            ("show a0", &[Frontend::Close, Frontend::Parse, Frontend::Sync]),
        ] {
            let out = bench.asks(&[parse("", text, &[]), sync()].concat());
            let sent: Vec<Frontend> = pgtest::messages(&out).iter().map(|&(tag, _)| tag).collect();
            assert_eq!(sent, tags, "{text}");
            let both = replies(&[Backend::CloseComplete, Backend::ParseComplete]);
            bench.says(&[both, ready(Status::Idle)].concat());
        }
        assert_eq!(bench.relay.prepared(), most);
    }
}

/// `CREATE TABLE AS` completes with the tag of a SELECT, as `SELECT INTO` does: no change of the schema was
/// seen, and what was prepared before stayed what a Parse was answered for.
#[test]
fn a_table_that_a_query_makes_is_a_change_of_the_schema() {
    let parsed = replies(&[Backend::ParseComplete]);
    let mut nothing = Vec::new();
    write::message(&mut nothing, Backend::ParameterDescription, |out| out.extend([0; 2]));
    write::bare(&mut nothing, Backend::NoData);
    let asks = [parse("", "show a", &[]), sync()].concat();
    let known = || {
        let mut bench = Bench::in_rotation();
        bench.asks(&asks);
        bench.says(&[parsed.clone(), ready(Status::Idle)].concat());
        assert_eq!(bench.asks(&asks), sync(), "the server has it");
        bench.says(&ready(Status::Idle));
        bench
    };
    for (text, tag) in [
        ("create table a.t as select 1", "SELECT 1"),
        ("create materialized view a.t as select 1", "SELECT 1"),
        ("explain analyze create table a.t as select 1", "EXPLAIN"),
        ("explain (analyze, costs off) create table a.t as select 1", "EXPLAIN"),
        ("select 1 into a.t", "SELECT 1"),
        ("with x as (select 1) select * into a.t from x", "SELECT 0"),
        ("explain analyze select 1 into a.t", "EXPLAIN"),
    ] {
        let binds = [parse("s", text, &[]), bind("", "s", &[])].concat();
        let bound = [&parsed[..], &nothing, &replies(&[Backend::BindComplete])].concat();
        for way in ["a Query", "at once", "behind a Flush"] {
            let mut bench = known();
            match way {
                "a Query" => drop(bench.asks(&query(text))),
                "at once" => {
                    bench.asks(&[&binds[..], &execute(""), &sync()].concat());
                    bench.says(&bound);
                }
                _ => {
                    bench.asks(&[binds.clone(), bare(Frontend::Flush)].concat());
                    bench.says(&bound);
                    bench.asks(&[execute(""), sync()].concat());
                }
            }
            bench.says(&[completed(tag), ready(Status::Idle)].concat());
            assert!(bench.cache.take_schema_news(), "{text}, {way}");
            assert_ne!(bench.asks(&asks), sync(), "{text}, {way}: it may be another table");
        }
    }
    for (text, replies) in [
        ("select 1", [rows_of("v", 23), completed("SELECT 1")]),
        ("select 1 where false", [rows_of("v", 23), completed("SELECT 0")]),
        ("explain select 1", [rows_of("v", 23), completed("EXPLAIN")]),
        ("insert into t select 1", [completed("INSERT 0 1"), Vec::new()]),
    ] {
        let mut bench = known();
        bench.asks(&query(text));
        bench.says(&[&replies.concat()[..], &ready(Status::Idle)].concat());
        assert!(!bench.cache.take_schema_news(), "{text}");
        assert_eq!(bench.asks(&asks), sync(), "{text}");
    }
}

/// PostgreSQL says what the test above takes for granted.
#[test]
fn a_query_that_makes_a_table_describes_no_rows() {
    let (table, view) = ("drop table if exists t_made", "drop materialized view if exists v_made");
    for (text, tag) in [
        ("create table t_made as select 1", "SELECT 1"),
        ("create table t_made as select 1 where false", "SELECT 0"),
        ("create materialized view v_made as select 1", "SELECT 1"),
        ("select 1 into t_made", "SELECT 1"),
        ("explain (analyze, costs off, timing off, summary off) select 1 into t_made", "EXPLAIN"),
    ] {
        let mut gate = small();
        let steps = [(0, vec![query(table), query(view)]), (0, vec![query(text)])];
        let read = same(&mut gate, &[&steps[..], &steps[..1]].concat());
        assert_eq!(has(&read[1], &format!("CommandComplete {tag}\\x00")), 1, "{:?}", read[1]);
        assert_eq!(has(&read[1], "columns"), usize::from(tag == "EXPLAIN"), "{text}");
    }
    let read =
        same(&mut small(), &[(0, vec![query("select where false"), query("table pg_am limit 0")])]);
    assert_eq!(has(&read[0], "columns"), 2);
}

/// A cancel that hit the gate's own Describe left a statement at its server without a shape, and whoever
/// was told another one before was given it all the same.
#[test]
fn a_statement_whose_description_has_failed_is_asked_for_again() {
    let mut bench = Bench::in_rotation();
    let (completes, idle) = (replies(&[Backend::ParseComplete]), ready(Status::Idle));
    let tags = |out: &[u8]| -> Vec<Frontend> {
        pgtest::messages(out).iter().map(|&(tag, _)| tag).collect()
    };
    bench.asks(&[parse("a", "select v from t", &[]), sync()].concat());
    bench.says(&[completes.clone(), described("v", 23), idle.clone()].concat());
    for behind in [describe("a"), [bind("", "a", &[]), execute("")].concat()] {
        bench.relay = Relay::new(Limits::SESSION);
        let asked = again("a");
        assert_eq!(bench.ask(&asked).unwrap().stop, Stop::Later);
        let out = std::mem::take(&mut bench.to_server);
        assert_eq!(tags(&out), [Frontend::Parse, Frontend::Describe, Frontend::Flush]);
        let cancelled = error(Severity::Error, SqlState::from_bytes(b"57014").unwrap());
        bench.says(&[completes.clone(), cancelled].concat());
        // What waited is skipped with it. Behind its Sync nothing is known yet of the statement.
        let taken = bench.ask(&[asked, behind].concat()).unwrap();
        assert_eq!(taken.stop, Stop::Later);
        let out = std::mem::take(&mut bench.to_server);
        assert_eq!(
            tags(&out),
            [Frontend::Sync, Frontend::Close, Frontend::Parse, Frontend::Describe]
        );
        let closed = replies(&[Backend::CloseComplete]);
        bench.says(&[idle.clone(), closed, completes.clone(), described("v", 23)].concat());
        bench.asks(&sync());
        bench.says(&idle);
        assert_eq!((bench.relay.kept(), bench.client.names()), (None, 1));
    }
}
