//! `sekisho tpcc verify` on databases that are right, wrong, strange and slow.

use std::time::{Duration, Instant};

use crate::browser::Scratch;
use crate::command::{Ended, PATIENCE, sekisho, start};
use crate::tpcc::{ask, database};

const SCHEMA: &str = include_str!("../../../tpcc/tests/fixtures/schema.sql");
const SMALL: &str = include_str!("../../../tpcc/tests/fixtures/small.sql");

/// The address of a new database of two small warehouses in which every condition holds.
pub(crate) fn small(name: &str) -> String {
    let url = database(name);
    ask(&url, &format!("{SCHEMA}{SMALL}")).expect("it is empty");
    url
}

fn verify(url: &str, rest: &[&str]) -> Ended {
    let scratch = Scratch::new();
    sekisho(&scratch.join(""), &[&["tpcc", "verify", "--db", url], rest].concat())
}

#[test]
fn a_right_database_holds_and_a_fault_fails_with_its_row() {
    let url = small("verify_fault");
    let right = verify(&url, &[]);
    assert_eq!(right.code, 0, "{right:?}");
    assert!(right.out.starts_with("holds: all 37 checks of 2 warehouses in verify_fault at "));
    let password = url.split([':', '@']).nth(2).expect("the address has one");
    assert!(!right.out.contains(password), "{right:?}");

    let fault = "update customer set c_balance = -77 where c_id in (3, 5, 7) and c_d_id < 3";
    ask(&url, fault).expect("they are there");
    let wrong = verify(&url, &[]);
    assert_eq!(wrong.code, 3, "{wrong:?}");
    assert!(wrong.out.starts_with("fails: 2 of 37 checks of 2 warehouses"), "{wrong:?}");
    let row = "    w 1, d 1, c 5: C_BALANCE -77.00, delivered 0.00, sum(H_AMOUNT) 10.00\n";
    assert!(wrong.out.contains(row), "{wrong:?}");
    assert!(wrong.out.contains("condition 10 fails: C_BALANCE = ") && wrong.out.contains("2 more"));
    let wrong = verify(&url, &["--json"]);
    assert_eq!(wrong.code, 3, "{wrong:?}");
    let object = &wrong.object("tpcc-verify");
    assert_eq!((&object["verdict"], &object["warehouses"]), (&"fails".into(), &2.into()));
    let checks = object["checks"].as_array().expect("a list");
    let failed: Vec<_> = checks.iter().filter(|check| check["holds"] == false).collect();
    let brief = |at: usize| (failed[at]["name"].as_str(), failed[at]["broken"].as_u64());
    assert_eq!((checks.len(), failed.len()), (37, 2));
    assert_eq!(
        (brief(0), brief(1)),
        ((Some("condition 10"), Some(12)), (Some("condition 12"), Some(12)))
    );
    assert_eq!(failed[0]["rows"].as_array().map(Vec::len), Some(10));
}

#[test]
fn the_population_is_checked_when_asked_for() {
    let url = small("verify_population");
    let ended = verify(&url, &["--population"]);
    assert_eq!(ended.code, 3, "thirty customers a district are no population: {ended:?}");
    assert!(ended.out.contains("cardinalities fails: "), "{ended:?}");
    assert!(ended.out.contains("table customer: rows 240, at least 60000"), "{ended:?}");
    assert!(!ended.out.contains("condition 1 "), "{ended:?}");
}

#[test]
fn what_cannot_be_verified_says_what_to_do() {
    let url = database("verify_strange");
    let missing = url.replace("verify_strange", "verify_never_made");
    let nowhere = "postgresql://me@127.0.0.1:1/tpcc";
    for (url, words) in [
        (url.as_str(), "the database has no table `warehouse`"),
        (&missing, "make it with `createdb`"),
        (nowhere, "no connection to the database tpcc at 127.0.0.1:1"),
        ("host=db password=secret", "postgresql://USER@HOST:PORT/NAME"),
    ] {
        let ended = verify(url, &[]);
        assert_eq!(ended.code, 2, "{ended:?}");
        let said = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(words) && !said.contains("secret"), "{ended:?}");
    }
}

#[test]
fn an_interrupt_ends_a_verification_at_once() {
    let url = database("verify_slow");
    let slow = "drop table warehouse; create view warehouse as select 1 w_id, ''::text w_name, \
        ''::text w_street_1, ''::text w_street_2, ''::text w_city, ''::text w_state, \
        ''::text w_zip, 0.0 w_tax, 0.0 w_ytd, pg_sleep(60)::text slow";
    ask(&url, &format!("{SCHEMA} {slow}")).expect("it is empty");
    let scratch = Scratch::new();
    let running = start(&scratch.join(""), &["tpcc", "verify", "--db", &url]);
    let busy = "select count(*) from pg_stat_activity where wait_event = 'PgSleep' \
        and datname = 'verify_slow'";
    let begun = Instant::now();
    while ask(&url, busy).expect("it is there") != ["1"] {
        assert!(begun.elapsed() < PATIENCE, "nobody asks");
        std::thread::sleep(Duration::from_millis(10));
    }
    running.signal("INT");
    let ended = running.ended(PATIENCE);
    assert_eq!(ended.code, 130, "{ended:?}");
    assert!(ended.out.starts_with("interrupted: "), "{ended:?}");
    // The server does not go on for nobody.
    let begun = Instant::now();
    while ask(&url, busy).expect("it is there") != ["0"] {
        assert!(begun.elapsed() < PATIENCE, "the server goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
}
