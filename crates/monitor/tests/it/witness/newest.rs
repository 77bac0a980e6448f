//! The witness on PostgreSQL 18, which speaks protocol 3.2 and so has long keys for cancel requests.

use std::path::Path;

use super::writing::{Round, Session, Wait};
use super::{Case, Line, Mode, Pace, Place, Version, Way, case, cases_of};
use pgtest::script::{query, sync};
use pgtest::{Chance, Newest};

/// A case in which no simple query stands in the middle of a segment: release 18.1 then leaves the segment'
/// transaction open, and answers the next one with an internal error or not at all.
fn apart(seed: u64, mode: Mode, clients: usize) -> Case {
    let mut case = case(seed, mode, clients);
    let sessions = case.clients.iter_mut().flatten();
    // The others are known by how often they are ready, and have none.
    let rounds = sessions.flat_map(|session| &mut session.rounds);
    for round in rounds.filter(|round| round.wait == Wait::Mark) {
        let mut is_open = false;
        for part in &mut round.parts {
            let bytes = std::mem::take(&mut part.messages).concat();
            let mut rest = &bytes[..];
            while let Some(head) = rest.get(1..5) {
                let len = 1 + u32::from_be_bytes(head.try_into().unwrap()) as usize;
                let (message, behind) = rest.split_at(len);
                if message[0] == b'Q' && std::mem::take(&mut is_open) {
                    part.messages.push(sync());
                }
                is_open = matches!(message[0], b'P' | b'B' | b'D' | b'E' | b'C' | b'H')
                    || is_open && message[0] != b'S';
                part.messages.push(message.to_vec());
                rest = behind;
            }
        }
    }
    case
}

#[test]
fn postgresql_18_is_heard_as_on_a_connection_of_ones_own() {
    let newest = Newest::new(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let server =
        newest.start(&[("fsync", "off"), ("shared_buffers", "16MB"), ("max_connections", "60")]);
    assert_eq!(server.programs().version(), "18.1");
    long_keys_cancel(&Place::at(&server, Mode::Transaction, 2));
    cases_of(apart, Place::at(&server, Mode::Transaction, 10), 12, 301..305);
    cases_of(apart, Place::at(&server, Mode::Transaction, 2), 8, 401..405);
    cases_of(apart, Place::at(&server, Mode::Session, 10), 12, 501..505);
    server.stop().unwrap();
}

/// A cancel request with a key of either length, to the gate and from it to the server.
fn long_keys_cancel(place: &Place) {
    let new = Way { version: Version::V3_2, ..place.directly() };
    let line = Line::enter(&new, &Session::default()).unwrap();
    assert!(line.key().len() > 4, "the server gives long keys, so the gate gets them as well");
    line.terminate();
    let gate = place.gate();
    for version in [Version::V3_0, Version::V3_2] {
        let mut line = Line::enter(&place.through(&gate, version), &Session::default()).unwrap();
        let is_long = line.key().len() > 4;
        assert_eq!(is_long, version == Version::V3_2);
        let sleeps = vec![query("select pg_sleep(5)")];
        let round = Round::of(sleeps, Wait::Cancelled { ready: 1, after: 200 });
        // One that comes before the query has begun hits nothing.
        let mut tries = (0..5).map(|at| line.play(&round, &mut Pace::Chance(Chance::of(at + 1))));
        let hit = tries.any(|heard| heard.unwrap().iter().any(|line| line.contains("C57014")));
        assert!(hit, "no cancel request hit");
        let well = Round::of(vec![query("select 'well'")], Wait::Ready(1));
        let heard = line.play(&well, &mut Pace::AtOnce).unwrap();
        assert!(heard.iter().any(|line| line.starts_with('D') && line.ends_with("well")));
        line.terminate();
    }
    assert!(gate.stats().cancels >= 2);
    gate.end();
}
