//! What the cases of chance have found, each by its story, so that it is looked at by name.

use super::writing::{Part, Round, Session, Wait};
use super::{Line, Mode, Pace, Place, Version};
use pgtest::script::{bind, execute, parse, query, runs, sync};

fn rows(heard: &[String]) -> Vec<&String> {
    heard.iter().filter(|line| line.starts_with('D')).collect()
}

#[test]
fn who_is_given_its_settings_keeps_the_server_until_it_has_asked() {
    // As soon as a server had the settings of the client that it was for, nothing was owed, so it was
    // taken away again, and the client asked the gate once more. With other settings on each
    // server that it got, it never got any further.
    let place = Place::of(Mode::Transaction, 4);
    let gate = place.warm_gate();
    let way = place.through(&gate, Version::V3_0);
    let named = |name: usize| Session {
        parameters: vec![("application_name", format!("client {name}"))],
        ..Session::default()
    };
    std::thread::scope(|scope| {
        for name in 0..9 {
            let (way, session) = (&way, named(name));
            scope.spawn(move || {
                let mut line = Line::enter(way, &session).unwrap();
                for turn in 0..8 {
                    let text = format!("select {turn}, current_setting('application_name')");
                    let round = Round::of(vec![query(&text)], Wait::Ready(1));
                    let heard = line.play(&round, &mut Pace::AtOnce).unwrap();
                    let found = rows(&heard);
                    assert!(found.len() == 1 && found[0].ends_with(&format!("client {name}")));
                }
                line.terminate();
            });
        }
    });
    gate.end();
}

#[test]
fn what_waits_for_the_end_of_a_copy_asks_the_server_for_it() {
    // A message that had to wait for a COPY before it in its segment waited for ever, because the
    // server kept the last rows to itself until somebody said Flush or Sync.
    let place = Place::of(Mode::Transaction, 1);
    let gate = place.gate();
    let mut line = Line::enter(&place.through(&gate, Version::V3_0), &Session::default()).unwrap();
    let copy = "copy (select g from generate_series(1, 3000) g) to stdout";
    let begins = Part { messages: vec![runs("", copy)], until: Some(b"d") };
    let messages = vec![parse("", "select 'behind'", &[]), bind("", "", &[]), execute(""), sync()];
    let parts = vec![begins, Part { messages, until: None }];
    let round = Round { parts, wait: Wait::Ready(1) };
    let heard = line.play(&round, &mut Pace::AtOnce).unwrap();
    assert_eq!(heard.iter().filter(|line| line.starts_with('d')).count(), 3000);
    assert!(rows(&heard).len() == 1 && rows(&heard)[0].ends_with("behind"));
    line.terminate();
    gate.end();
}

#[test]
fn whose_session_ends_for_a_doubt_is_told_so() {
    // The client of a COPY that failed, with a Sync that it may have read and more behind, lost its
    // connection without a word.
    let place = Place::of(Mode::Session, 1);
    place.make_tables();
    let gate = place.gate();
    let mut line = Line::enter(&place.through(&gate, Version::V3_0), &Session::default()).unwrap();
    let messages = vec![runs("", "copy v from stdin"), sync(), query("select 1")];
    let told = line.play(&Round::of(messages, Wait::Ready(2)), &mut Pace::AtOnce).unwrap_err();
    assert!(told.contains("C08P01") && told.contains("a COPY has failed"), "{told}");
    gate.until("its server is gone", |stats| stats.pools[0].servers == 0);
    gate.end();
}

#[test]
fn a_query_that_fails_has_dropped_the_unnamed_statement() {
    // Where the Query came within a segment, the gate still knew the statement, and gave it to the
    // server again for the next Bind.
    let place = Place::of(Mode::Transaction, 1);
    let gate = place.gate();
    let hears = |way| {
        let mut line = Line::enter(&way, &Session::default()).unwrap();
        let mut messages = vec![parse("", "select 'mine'", &[]), query("select 1/0")];
        messages.extend([bind("", "", &[]), execute(""), sync()]);
        let heard = line.play(&Round::of(messages, Wait::Ready(2)), &mut Pace::AtOnce).unwrap();
        line.terminate();
        heard
    };
    let [directly, through] = [place.directly(), place.through(&gate, Version::V3_0)].map(hears);
    assert_eq!(directly, through);
    assert!(through.iter().any(|line| line.contains("C26000")), "{through:?}");
    gate.end();
}
