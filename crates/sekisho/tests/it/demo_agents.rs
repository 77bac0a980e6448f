//! `sekisho demo agents`, small, to its report in a real browser.

use crate::browser::{Scratch, open};
use crate::command::sekisho;
use crate::site::alone;

/// Hits are as theory says however busy the machine is; of the times only that they were told.
#[test]
fn the_demo_of_agents_hits_as_theory_says() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let _live = alone();
    let words = ["demo", "agents", "--agents", "2000", "--cached", "25", "--seed", "3"];
    let words = [&words[..], &["--one-by-one", "1000"]].concat();
    let ended = sekisho(&folder, &words);
    assert!([0, 4].contains(&ended.code), "{ended:?}");
    let said = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("LRU, same order 1000 0.000 0.000"), "{ended:?}");
    // 1/4 + 3/4 ln 3/4.
    assert!(said.contains("LRU, new order 1000 0.0") && said.contains(" 0.034 "), "{ended:?}");
    assert!(said.contains("cohorts 1000 0.250 0.250"), "{ended:?}");
    assert!(said.contains("cohorts, batches 2000 0.250 0.250"), "{ended:?}");
    let page = open(&folder.join("sekisho-demo-agents.html"), (1200, 900));
    assert_eq!(page.root_data("errors"), Some("0"), "{:?}", page.script_messages());
    assert!(page.dom.contains("Hit ratio against the cached share"));
    let told = sekisho(&folder, &[&words[..], &["--passes", "2", "--json"]].concat());
    let answer = told.object("demo-agents");
    let ways = answer["ways"].as_array().expect("a list");
    assert_eq!(ways.len(), 4, "{told:?}");
    assert_eq!(ways[3]["hit_ratio"], 0.25, "{told:?}");
    assert_eq!(ways[3]["pass_s"].as_array().expect("a list").len(), 2, "{told:?}");
    let notified = |at: usize| ways[at]["notified"].as_u64().expect("a number");
    assert!((0..3).all(|at| (50..175).contains(&notified(at))), "{told:?}");
    assert!((100..350).contains(&notified(3)), "{told:?}");
}
