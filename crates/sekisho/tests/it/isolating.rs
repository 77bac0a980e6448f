//! `sekisho tpcc acid`: what it says of each test, and how it ends.

use crate::browser::Scratch;
use crate::command::sekisho;
use crate::tpcc::{ask, database};

#[test]
fn each_test_is_told_with_what_was_done_and_seen() {
    let (scratch, url) = (Scratch::new(), database("acid"));
    let folder = scratch.join("");
    let loaded = sekisho(&folder, &["tpcc", "load", "--warehouses", "1", "--db", &url]);
    assert_eq!(loaded.code, 0, "{loaded:?}");
    let words = ["tpcc", "acid", "--db", &url, "--isolation"];
    let weak = sekisho(&folder, &[&words[..], &["read-committed"]].concat());
    assert_eq!(weak.code, 0, "{weak:?}");
    let flat = weak.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "holds: all 11 tests of atomicity and isolation, the database that was named (PostgreSQL ",
        "), at read committed, 3 of them with an anomaly that read committed allows",
        "At read committed, statements of the client:",
        "isolation 3 (clause 3.4.2.3) holds: T1, a New-Order, stops before its commit;",
        "T2: waits for it",
        "isolation 9 (clause 3.4.2.9) shows a phantom, as read committed may:",
        "Verified: all 37 checks",
    ] {
        assert!(flat.contains(words), "{words}: {weak:?}");
    }
    let both = ["serializable,repeatable-read", "--execute", "functions", "--seed", "9", "--json"];
    let strong = sekisho(&folder, &[&words[..], &both].concat());
    assert_eq!(strong.code, 0, "{strong:?}");
    let object = &strong.object("tpcc-acid");
    assert_eq!((&object["verdict"], &object["verified"]), (&"holds".into(), &true.into()));
    let suites = object["suites"].as_array().expect("a list");
    assert_eq!(suites.len(), 2);
    assert_eq!(suites[0]["isolation"], "serializable");
    let tests = suites[1]["tests"].as_array().expect("a list");
    assert!(tests.len() == 11 && tests.iter().all(|test| test["finding"] == "holds"), "{object}");

    // Payments that leave no trace in HISTORY: the first test fails, and the conditions break.
    let fault = "create function nothing() returns trigger language plpgsql as $$ \
        begin return null; end $$; \
        create trigger lost before insert on history for each row execute function nothing()";
    ask(&url, fault).expect("it is loaded");
    let wrong = sekisho(&folder, &[&words[..], &["repeatable-read"]].concat());
    assert_eq!(wrong.code, 3, "{wrong:?}");
    assert!(wrong.out.starts_with("fails: 2 of 11 tests"), "{wrong:?}");
    let flat = wrong.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("EXPECTED W_YTD +1234.56") && flat.contains("condition 8"), "{wrong:?}");
}
