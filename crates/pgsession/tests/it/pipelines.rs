//! The traps that poolers have fallen into, one by one: what a server owes, when it is free, and
//! what it needs when its client has gone. Messages are written as their tags.

use pgsession::pipeline::{
    Abandoned, End, Fate, Forwarded, Kept, Local, OWED_MAX, Pipeline, Received, SendError, Sent,
    To, Turn, Violation, Whose,
};
use pgwire::frame::{Backend, Frontend, Tag};
use pgwire::message::Status;

use pgtest::Chance;
use pgtest::messages;

const ERROR: &[u8] = b"SERROR\0VERROR\0C42601\0Mno\0\0";
const FATAL: &[u8] = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0";

/// Sends messages of the client, by tags.
fn sends(pipeline: &mut Pipeline, tags: &str) {
    for byte in tags.bytes() {
        pipeline.send(Frontend::from_byte(byte).unwrap(), Whose::Client).unwrap();
    }
}

/// Receives messages of the server, by tags; behind `Z` stands the status, and `!` is a FATAL
/// error.
fn hears(pipeline: &mut Pipeline, tags: &str) -> Vec<Fate> {
    let mut bytes = tags.bytes();
    let mut fates = Vec::new();
    while let Some(byte) = bytes.next() {
        let received = match byte {
            b'Z' => pipeline.receive(Backend::ReadyForQuery, &[bytes.next().unwrap()]),
            b'E' => pipeline.receive(Backend::ErrorResponse, ERROR),
            b'!' => pipeline.receive(Backend::ErrorResponse, FATAL),
            _ => pipeline.receive(Backend::from_byte(byte).unwrap(), b""),
        };
        fates.push(received.unwrap_or_else(|error| panic!("{tags}: {error}")).fate);
    }
    fates
}

/// A pipeline in which the client has sent `sent` and the server has said `heard`.
fn after(sent: &str, heard: &str) -> Pipeline {
    let mut pipeline = Pipeline::new();
    sends(&mut pipeline, sent);
    hears(&mut pipeline, heard);
    pipeline
}

/// The tags of what the gate would send to end an ambiguity.
fn resolves(pipeline: &mut Pipeline) -> String {
    let mut out = Vec::new();
    pipeline.resolve(&mut out);
    messages::<Frontend>(&out).iter().map(|(tag, _)| char::from(tag.byte())).collect()
}

/// The gate's next step for a client that has gone, and the tags of what it sends.
fn abandons(pipeline: &mut Pipeline) -> (Abandoned, String) {
    let mut out = Vec::new();
    let abandoned = pipeline.abandon(Forwarded::Whole, &mut out);
    (abandoned, messages::<Frontend>(&out).iter().map(|(tag, _)| char::from(tag.byte())).collect())
}

fn owes(ready: u32, requests: u32) -> Option<Kept> {
    Some(Kept::Owes { ready, requests })
}

#[test]
fn a_sync_inside_copy_from_the_client_is_not_answered() {
    // Parse, Bind, Execute, Sync, rows, CopyDone, Sync: one ReadyForQuery.
    let mut talk = after("PBES", "12G");
    assert_eq!((talk.kept(), talk.turn()), (Some(Kept::CopyIn), Turn::Client));
    sends(&mut talk, "dHdSc");
    assert_eq!(talk.kept(), owes(0, 1 + 1));
    sends(&mut talk, "S");
    hears(&mut talk, "C");
    assert_eq!(talk.kept(), owes(1, 1));
    hears(&mut talk, "ZI");
    assert_eq!(talk.kept(), None);
    // The same, sent at once and before anything is heard.
    let talk = after("PBESdScS", "12GCZI");
    assert_eq!(talk.kept(), None);
    // In a Query, of two COPYs.
    let talk = after("QSdcdSc", "GCTDCGCZI");
    assert_eq!(talk.kept(), None);
}

#[test]
fn nothing_is_asked_behind_what_may_be_a_copy_itself() {
    for swallowed in [true, false] {
        for then in ["Q", "PBES"] {
            // The client has said more before the failure was heard.
            let mut talk = after(&format!("PBESdcS{then}"), "12GE");
            assert_eq!(talk.kept(), Some(Kept::Ambiguous));
            assert_eq!(resolves(&mut talk), "", "a Close would end the session within a COPY");
            hears(&mut talk, if swallowed { "ZI" } else { "ZIZI" });
            assert_eq!(resolves(&mut talk), "");
            hears(&mut talk, if then == "Q" { "G" } else { "12G" });
            assert_eq!((talk.kept(), resolves(&mut talk)), (Some(Kept::CopyIn), String::new()));
            sends(&mut talk, "dcS");
            hears(&mut talk, if then == "Q" { "CZIZI" } else { "CZI" });
            assert_eq!((talk.kept(), resolves(&mut talk)), (None, String::new()));
        }
    }
    // A query that has failed itself has nothing to say but ReadyForQuery.
    let mut talk = after("QSdc", "GE");
    assert_eq!(resolves(&mut talk), "CS");
    hears(&mut talk, "ZIZI3ZI");
    assert_eq!(talk.kept(), None);
}

#[test]
fn whether_a_failed_copy_has_swallowed_a_sync_is_asked() {
    for swallowed in [true, false] {
        let mut talk = after("PBES", "12GE");
        assert_eq!((talk.kept(), talk.turn()), (Some(Kept::Ambiguous), Turn::Client));
        // The server may be skipping, so there is no place for a question yet.
        assert_eq!(resolves(&mut talk), "");
        let refused = talk.send(Frontend::Parse, Whose::Client);
        assert_eq!(refused, Err(SendError::Ambiguous { tag: Frontend::Parse }));
        sends(&mut talk, "dcS");
        assert_eq!(resolves(&mut talk), "CS");
        assert_eq!(resolves(&mut talk), "");
        hears(&mut talk, if swallowed { "ZI" } else { "ZIZI" });
        let fates = hears(&mut talk, "3");
        assert!(matches!(fates[..], [Fate::Done(_)]));
        assert_eq!(talk.receive(Backend::ReadyForQuery, b"I").map(|it| it.to), Ok(To::Nobody));
        assert_eq!(talk.kept(), None);
    }
    // A ReadyForQuery that comes before the next Sync is sent answers the question itself.
    let mut talk = after("PBES", "12GEZI");
    assert_eq!((talk.kept(), resolves(&mut talk)), (None, String::new()));
    sends(&mut talk, "PBcS");
    hears(&mut talk, "12ZI");
    assert_eq!(talk.kept(), None);
    // Behind a Query that may be skipped there is no place for a question: its Sync would end the
    // skipping, which only the client's may.
    let mut talk = after("QSPQ", "GEZI");
    assert_eq!(resolves(&mut talk), "");
    hears(&mut talk, "E");
    assert_eq!(talk.kept(), Some(Kept::Skipping));
    // Replies that tell the Syncs apart by themselves need no question.
    let mut talk = after("PBEScSPES", "12GEZIZI1C");
    assert_eq!((talk.kept(), resolves(&mut talk)), (owes(1, 1), String::new()));
    // What follows in the same segment is executed or is not: nobody can tell.
    let mut talk = after("PBEScPS", "12G");
    assert_eq!(hears(&mut talk, "E"), [Fate::Ended(End::Lost)]);
    assert_eq!(talk.kept(), Some(Kept::Ended(End::Lost)));
}

#[test]
fn a_parse_that_fails_is_known_by_its_number() {
    let mut talk = Pipeline::new();
    assert_eq!(talk.send(Frontend::Parse, Whose::Gate), Ok(Sent::Owes(0)));
    assert_eq!(talk.send(Frontend::Parse, Whose::Client), Ok(Sent::Owes(1)));
    assert_eq!(talk.send(Frontend::Close, Whose::Client), Ok(Sent::Owes(2)));
    assert_eq!(talk.send(Frontend::Sync, Whose::Client), Ok(Sent::Owes(3)));
    let done = talk.receive(Backend::ParseComplete, b"");
    assert_eq!(done, Ok(Received { to: To::Nobody, fate: Fate::Done(0) }));
    let failed = Fate::Failed { number: 1, next: 3 };
    let error = talk.receive(Backend::ErrorResponse, ERROR);
    assert_eq!(error, Ok(Received { to: To::Client, fate: failed }));
    assert_eq!(hears(&mut talk, "ZI"), [Fate::Done(3)]);
    // What the gate has to prepare for a client fails the client.
    talk.send(Frontend::Parse, Whose::Gate).unwrap();
    assert_eq!(talk.receive(Backend::ErrorResponse, ERROR).map(|it| it.to), Ok(To::Client));
}

#[test]
fn after_an_unknown_statement_the_connection_stays() {
    let mut talk = after("B", "E");
    assert_eq!(talk.kept(), Some(Kept::Skipping));
    assert_eq!(talk.send(Frontend::Execute, Whose::Client), Ok(Sent::Discarded));
    sends(&mut talk, "S");
    hears(&mut talk, "ZI");
    assert_eq!(talk.kept(), None);
}

#[test]
fn replies_of_the_gate_stand_where_the_servers_would() {
    let mut talk = Pipeline::new();
    assert_eq!(talk.answer_here(Local::ParseComplete), Ok(Sent::Owes(0)));
    assert_eq!(talk.next_local(), Some((0, Local::ParseComplete)));
    sends(&mut talk, "B");
    talk.answer_here(Local::CloseComplete).unwrap();
    talk.answer_here(Local::ParseComplete).unwrap();
    sends(&mut talk, "ES");
    assert_eq!(talk.next_local(), None);
    hears(&mut talk, "2");
    assert_eq!(talk.next_local(), Some((2, Local::CloseComplete)));
    assert_eq!(talk.next_local(), Some((3, Local::ParseComplete)));
    assert_eq!(talk.next_local(), None);
    hears(&mut talk, "CZI");
    // Who fails before them fails them too.
    sends(&mut talk, "B");
    talk.answer_here(Local::CloseComplete).unwrap();
    hears(&mut talk, "E");
    assert_eq!(talk.next_local(), None);
    assert_eq!(talk.answer_here(Local::CloseComplete), Ok(Sent::Discarded));
}

#[test]
fn a_query_in_a_series_has_a_ready_of_its_own_unless_it_is_skipped() {
    let mut talk = after("PBEQPS", "12C");
    assert_eq!(talk.kept(), owes(2, 3));
    hears(&mut talk, "CZI1ZI");
    assert_eq!(talk.kept(), None);
    // A Query closes a segment: what came before it is committed with it.
    assert_eq!(after("PBEQ", "12CCZI").kept(), None);
    assert_eq!(after("PQ", "E").kept(), Some(Kept::Skipping));
    assert_eq!(after("PQFS", "EZI").kept(), None);
    // An error of a Query skips nothing.
    assert_eq!(after("QPS", "TDEZI1ZI").kept(), None);
}

#[test]
fn an_error_skips_to_the_next_sync_and_no_further() {
    let mut talk = after("PBDESPBES", "12");
    assert_eq!(hears(&mut talk, "E"), [Fate::Failed { number: 2, next: 4 }]);
    assert_eq!(hears(&mut talk, "ZI"), [Fate::Done(4)]);
    hears(&mut talk, "12DCZI");
    assert_eq!(talk.kept(), None);
    // Sync itself fails, where a constraint is deferred to the commit.
    assert_eq!(after("PBES", "12CEZI").kept(), None);
    assert_eq!(after("F", "EZI").kept(), None);
}

#[test]
fn ready_is_not_enough_to_be_free() {
    assert_eq!(after("QQ", "CZI").kept(), owes(1, 1));
    assert_eq!(after("SS", "ZI").kept(), owes(1, 1));
    assert_eq!(after("QPH", "CZI1").kept(), Some(Kept::Segment));
    assert_eq!(after("Q", "CZT").kept(), Some(Kept::InTransaction));
    assert_eq!(after("Q", "EZE").kept(), Some(Kept::InFailedTransaction));
    assert_eq!(after("Q", "H").kept(), Some(Kept::CopyOut));
    assert_eq!(after("Q", "G").kept(), Some(Kept::CopyIn));
    assert_eq!(after("X", "").kept(), Some(Kept::Ended(End::Terminated)));
    let mut talk = Pipeline::of_replication();
    sends(&mut talk, "Q");
    hears(&mut talk, "WdZI");
    assert_eq!(talk.kept(), Some(Kept::Replication));
    assert_eq!(abandons(&mut talk).0, Abandoned::Close(Kept::Replication));
    // Each reason says itself in a line.
    assert_eq!(owes(1, 3).unwrap().to_string(), "3 replies and 1 ReadyForQuery are outstanding");
}

#[test]
fn a_half_series_is_rolled_back_and_never_committed_by_a_sync() {
    let waits = |kept| Abandoned::Waits(kept);
    let mut talk = after("PBE", "");
    // It might be a COPY, which only its reply can tell.
    assert_eq!(abandons(&mut talk), (waits(owes(0, 3).unwrap()), "H".to_owned()));
    hears(&mut talk, "12");
    assert_eq!(abandons(&mut talk), (waits(owes(0, 1).unwrap()), String::new()));
    hears(&mut talk, "C");
    assert_eq!(abandons(&mut talk), (waits(Kept::Segment), "Q".to_owned()));
    hears(&mut talk, "NCZI");
    assert_eq!(abandons(&mut talk), (Abandoned::Free, String::new()));
    // It has failed already.
    let mut talk = after("PBE", "E");
    assert_eq!(abandons(&mut talk), (waits(Kept::Skipping), "S".to_owned()));
    hears(&mut talk, "ZE");
    assert_eq!(abandons(&mut talk), (waits(Kept::InFailedTransaction), "Q".to_owned()));
    hears(&mut talk, "CZI");
    assert_eq!(abandons(&mut talk).0, Abandoned::Free);
    // It is a COPY, with a Sync inside.
    let mut talk = after("PBES", "12G");
    assert_eq!(abandons(&mut talk).1, "fH");
    hears(&mut talk, "E");
    assert_eq!(abandons(&mut talk), (waits(Kept::Ambiguous), "SCS".to_owned()));
    hears(&mut talk, "ZI3ZI");
    assert_eq!(abandons(&mut talk).0, Abandoned::Free);
    // Half a message went out.
    let mut talk = after("Q", "G");
    sends(&mut talk, "d");
    let mut out = Vec::new();
    let lost = Abandoned::Close(Kept::Ended(End::Lost));
    assert_eq!((talk.abandon(Forwarded::InPart, &mut out), out), (lost, Vec::new()));
}

#[test]
fn notices_and_settings_answer_nothing_at_any_moment() {
    let mut talk = Pipeline::new();
    let aside = [Fate::Aside; 3];
    assert_eq!(hears(&mut talk, "NAS"), aside);
    sends(&mut talk, "PBES");
    for reply in ["1", "2", "D", "C", "ZI"] {
        assert_eq!(hears(&mut talk, "ANS"), aside);
        hears(&mut talk, reply);
    }
    assert_eq!(hears(&mut talk, "SNA"), aside);
    assert_eq!(talk.kept(), None);
}

#[test]
fn a_server_ends_the_session_at_any_moment() {
    for (sent, heard) in [("", ""), ("PBES", "12"), ("Q", "G"), ("PBE", "E")] {
        let mut talk = after(sent, heard);
        assert_eq!(hears(&mut talk, "!"), [Fate::Ended(End::Fatal)]);
        assert_eq!(abandons(&mut talk).0, Abandoned::Close(Kept::Ended(End::Fatal)));
        assert_eq!(talk.send(Frontend::Query, Whose::Client), Err(SendError::Ended));
    }
}

#[test]
fn a_function_call_has_a_reply_and_a_ready() {
    let mut talk = after("F", "");
    assert_eq!((talk.kept(), talk.turn()), (owes(1, 1), Turn::Server));
    hears(&mut talk, "VZT");
    assert_eq!((talk.kept(), talk.status()), (Some(Kept::InTransaction), Status::InTransaction));
}

#[test]
fn what_cannot_be_sent_is_refused_and_what_is_passed_over_is_known() {
    let mut talk = after("Q", "G");
    let refused = talk.send(Frontend::Query, Whose::Client).unwrap_err();
    assert_eq!(refused.to_string(), "unexpected message type 0x51 during COPY from stdin");
    assert_eq!(refused.sqlstate().as_str(), "08P01");
    assert!(talk.send(Frontend::Password, Whose::Client).is_err());
    hears(&mut talk, "EZI");
    for tag in [Frontend::CopyData, Frontend::CopyDone, Frontend::CopyFail] {
        assert_eq!(talk.send(tag, Whose::Client), Ok(Sent::Discarded));
    }
    assert_eq!(talk.kept(), None);
}

#[test]
fn a_server_that_says_what_it_cannot_say_is_lost() {
    for (sent, heard, wrong) in [
        ("", "", "Z"),
        ("", "", "1"),
        ("", "", "E"),
        ("", "", "K"),
        ("PS", "", "2"),
        ("PS", "", "Z"),
        ("Q", "", "Z"),
        ("Q", "", "2"),
        ("Q", "G", "C"),
        ("Q", "H", "Z"),
        ("Q", "", "W"),
        ("Q", "E", "D"),
        ("QS", "CZIZI", "Z"),
        ("PBES", "12D", "Z"),
        ("B", "E", "E"),
    ] {
        let mut talk = after(sent, heard);
        let body = if wrong == "E" { ERROR } else { b"I" };
        let tag = Backend::from_byte(wrong.as_bytes()[0]).unwrap();
        let violation = talk.receive(tag, body).unwrap_err();
        assert_eq!(violation.sqlstate().as_str(), "08P01");
        assert_eq!(talk.kept(), Some(Kept::Ended(End::Lost)), "{sent} {heard} {wrong}");
        assert_eq!(talk.receive(tag, body), Err(Violation::Ended { tag }));
    }
    assert!(Pipeline::new().receive(Backend::ReadyForQuery, b"X").is_err());
}

#[test]
fn a_pipeline_without_end_meets_a_limit_but_copy_does_not() {
    let mut talk = Pipeline::new();
    for _ in 0..OWED_MAX {
        assert!(!talk.is_full());
        sends(&mut talk, "P");
    }
    assert!(talk.is_full());
    assert_eq!(talk.send(Frontend::Parse, Whose::Client), Err(SendError::Full));
    assert_eq!(talk.turn(), Turn::Client);
    sends(&mut talk, "H");
    assert_eq!(talk.turn(), Turn::Server);
    hears(&mut talk, "1");
    sends(&mut talk, "P");
    let mut talk = after("Q", "");
    sends(&mut talk, &"S".repeat(OWED_MAX - 1));
    assert!(talk.is_full());
    hears(&mut talk, "G");
    assert!(!talk.is_full());
    sends(&mut talk, &"Sd".repeat(OWED_MAX));
    sends(&mut talk, "c");
    hears(&mut talk, "CZI");
    assert_eq!(talk.kept(), None);
}

#[test]
fn a_connection_remembers_little() {
    assert!(size_of::<Pipeline>() <= 80);
}

#[test]
fn no_events_make_it_panic_or_grow() {
    let mut chance = Chance::new(7);
    let (mut ends, mut doubts) = (0, 0);
    for _ in 0..3000 {
        let mut talk = Pipeline::new();
        for _ in 0..60 {
            match chance.below(8) {
                0..4 => {
                    let tags = b"BCdcfDEHFPpQSSSEEQ";
                    let tag = Frontend::from_byte(tags[chance.below(tags.len())]).unwrap();
                    let whose = if chance.below(4) == 0 { Whose::Gate } else { Whose::Client };
                    let _ = talk.send(tag, whose);
                }
                4..6 => {
                    let tags = b"RK23CdcGHWDIEVvnNAtS1sZTZZGGE";
                    let tag = Backend::from_byte(tags[chance.below(tags.len())]).unwrap();
                    let bodies = [&b""[..], b"I", b"T", ERROR, FATAL, b"SERR", b"\0\0"];
                    let mut next = talk.clone();
                    let heard = next.receive(tag, bodies[chance.below(bodies.len())]);
                    // What is possible is mostly what comes, so that deep states are reached.
                    if heard.is_ok() || chance.below(30) == 0 {
                        talk = next;
                    }
                }
                6 => {
                    let _ = talk.answer_here(Local::CloseComplete);
                }
                _ => {
                    abandons(&mut talk);
                }
            }
            if chance.below(2) == 0 {
                while talk.next_local().is_some() {}
            }
            let _ = (talk.turn(), talk.is_full());
            match talk.kept() {
                Some(Kept::Owes { ready, requests }) => assert!(ready <= requests),
                Some(kept) => doubts += usize::from(kept == Kept::Ambiguous),
                None => assert_eq!(talk.status(), Status::Idle),
            }
        }
        ends += usize::from(matches!(talk.kept(), Some(Kept::Ended(_))));
    }
    // Some garbage is noticed, and some was possible.
    assert!((300..2700).contains(&ends) && doubts > 20, "{ends} {doubts}");
}
