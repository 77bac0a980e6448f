//! A case that fails is made smaller, as long as it fails, so that what is shown can be read.

use std::time::{Duration, Instant};

use super::writing::{Case, End};
use super::{Place, Tally, Trouble, directly, through};

/// How long this may take; who waits for the cause wants it soon.
const BUDGET: Duration = Duration::from_secs(120);
/// How often a case is played before it is said that it does not fail: clients meet otherwise each time.
const TRIES: usize = 3;

/// How long an answer may take while a case is made smaller.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why it fails, if it does.
fn fails(place: &Place, case: &Case) -> Option<String> {
    let place = &Place { patience: PATIENCE, ..*place };
    let expected = directly(place, case).ok()?;
    (0..TRIES).find_map(|_| {
        // One that was left by what went wrong before could do anything.
        let gate = place.gate();
        let told = through(place, &gate, case, &expected, &Tally::default());
        gate.handle.drain().unwrap();
        match told {
            Err(Trouble::Through(cause)) => Some(cause),
            _ => None,
        }
    })
}

/// All that is one step smaller: the larger steps first.
fn smaller(case: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    let mut without = |change: &dyn Fn(&mut Case)| {
        let mut less = case.clone();
        change(&mut less);
        all.push(less);
    };
    for (client, sessions) in case.clients.iter().enumerate() {
        if !sessions.is_empty() {
            without(&|case| case.clients[client].clear());
        }
    }
    for (client, sessions) in case.clients.iter().enumerate() {
        for (at, session) in sessions.iter().enumerate() {
            if sessions.len() > 1 {
                without(&|case| drop(case.clients[client].remove(at)));
            }
            for round in 0..session.rounds.len() {
                without(&|case| drop(case.clients[client][at].rounds.remove(round)));
            }
            if !session.parameters.is_empty() {
                without(&|case| case.clients[client][at].parameters.clear());
            }
            if matches!(session.end, End::Cut(_)) {
                without(&|case| case.clients[client][at].end = End::Terminates);
            }
        }
    }
    all
}

/// Says what is left of a case, and ends the test.
pub(super) fn report(place: &Place, mut case: Case, trouble: &Trouble) {
    let seed = case.seed;
    println!("case {seed} on {} slots in {} mode: {trouble:?}", place.slots, place.mode);
    println!("SEKISHO_SEED={seed} replays it");
    let (began, mut last) = (Instant::now(), None);
    'less: while began.elapsed() < BUDGET {
        for less in smaller(&case) {
            if began.elapsed() > BUDGET {
                break 'less;
            }
            if let Some(cause) = fails(place, &less) {
                (case, last) = (less, Some(cause));
                continue 'less;
            }
        }
        break;
    }
    show(&case);
    match (last, trouble) {
        (Some(cause), _) => panic!("case {seed}, made smaller, fails: {cause}"),
        (None, Trouble::Through(cause) | Trouble::Directly(cause)) => {
            panic!("case {seed}, which is as small as it fails, fails: {cause}")
        }
    }
}

fn show(case: &Case) {
    for (client, sessions) in case.clients.iter().enumerate() {
        for (at, session) in sessions.iter().enumerate() {
            println!("client {client}, session {at}, begins with {:?}", session.parameters);
            for (turn, round) in session.rounds.iter().enumerate() {
                println!("  round {turn}, until {:?}", round.wait);
                for part in &round.parts {
                    for message in &part.messages {
                        let shown: String = message.escape_ascii().to_string();
                        println!("    {}", &shown[..shown.len().min(400)]);
                    }
                    if let Some(until) = part.until {
                        println!("    ... until one of {}", until.escape_ascii());
                    }
                }
            }
            let end = match &session.end {
                End::Cut(bytes) => format!("cut behind {}", bytes.escape_ascii()),
                end => format!("{end:?}"),
            };
            println!("  {}", &end[..end.len().min(400)]);
        }
    }
}
