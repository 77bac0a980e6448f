//! Pools whose slots are kept by what clients left: what those hear who get none, and what is logged.

use std::time::Duration;

use monitor::{KeptNotice, Logged, Mode, Monitor};
use pgwire::frame::Backend;
use pgwire::message::read;
use pgwire::startup::Version;

use super::reloading::Paper;
use super::{Gate, Raw, database, trusting};

/// The detail and the hint of the error that a query of this client's hears.
fn refused(client: &mut Raw) -> [String; 2] {
    client.query("select 'late'");
    let (tag, body) = client.hear();
    assert_eq!(tag, Backend::ErrorResponse);
    assert_eq!(client.answer(), ["ZI"]);
    let fields = read::fields(&body).unwrap();
    let text = |field: Option<&[u8]>| String::from_utf8_lossy(field.unwrap()).into_owned();
    [text(fields.detail()), text(fields.hint())]
}

#[test]
fn who_waits_for_slots_that_are_kept_hears_by_what() {
    let mut database = database(Mode::Transaction, 3);
    database.gate.wait_max = Some(Duration::from_millis(200));
    let mut config = trusting(database);
    config.logged = Logged { errors: true, ..Logged::default() };
    let paper = Paper::default();
    let monitor = Monitor::bind(config).unwrap().log_to(paper.clone()).unwrap();
    let handle = monitor.handle();
    let gate = Gate { handle, thread: Some(std::thread::spawn(|| monitor.run().unwrap())) };
    let mut clients: Vec<Raw> = (0..4).map(|_| Raw::enter(&gate, Version::V3_0, &[])).collect();
    for (client, text) in ["select pg_advisory_lock(77001)", "listen a"].iter().enumerate() {
        clients[client].query(text);
        assert_eq!(clients[client].answer().last().unwrap(), "ZI");
    }
    gate.until("two keep theirs", |stats| stats.pins.len() == 2);
    clients[2].query("begin");
    assert_eq!(clients[2].answer(), ["BEGIN", "ZT"]);
    // Some are kept: how long says nothing of those.
    let [detail, hint] = refused(&mut clients[3]);
    assert_eq!(
        detail,
        "2 of 3 slots are kept by what clients left there (LISTEN on 1, advisory locks of the \
         session on 1); 0 other clients wait.",
    );
    assert!(hint.contains("SHOW PINS"), "{hint}");
    clients[2].query("create temp table kept (a int)");
    assert_eq!(clients[2].answer(), ["CREATE TABLE", "ZT"]);
    clients[2].query("commit");
    assert_eq!(clients[2].answer(), ["COMMIT", "ZI"]);
    gate.until("all keep theirs", |stats| stats.pins.len() == 3);
    let [detail, _] = refused(&mut clients[3]);
    assert!(detail.starts_with("3 of 3 slots are kept by what clients left there ("), "{detail}");
    assert!(detail.contains("temporary objects on 1"), "{detail}");
    gate.end();
    let written = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
    let told: Vec<&str> = written.lines().filter(|line| line.contains(" event=kept ")).collect();
    assert_eq!(told.len(), 1, "it is said when half are, once: {written}");
    assert!(told[0].contains(" kept=2 slots=3 ") && told[0].contains("LISTEN"), "{written}");
}

#[test]
fn who_keeps_a_slot_where_half_are_kept_hears_so_by_choice() {
    for (choice, told) in [(KeptNotice::Off, [0, 0, 0]), (KeptNotice::Half, [0, 1, 1])] {
        let mut config = trusting(database(Mode::Transaction, 3));
        config.kept_notice = choice;
        let gate = Gate::new(config);
        for (kept, told) in (1..).zip(told) {
            let mut client = Raw::enter(&gate, Version::V3_0, &[]);
            client.query("listen a");
            assert_eq!(client.answer(), ["LISTEN", "ZI"]);
            gate.until("it keeps its server", |stats| stats.pins.len() == kept);
            client.query("select 'goes on'");
            let heard = client.answer();
            let notices: Vec<_> =
                heard.iter().filter(|one| one.starts_with("NOTICE 00000 ")).collect();
            assert_eq!((notices.len(), heard.len()), (told, 3 + told), "{heard:?}");
            let text = format!("keeps its server by what it has left there, as {kept} of 3 do");
            assert!(notices.iter().all(|one| one.ends_with(&text)), "{heard:?}");
            std::mem::forget(client);
        }
        gate.end();
    }
}
