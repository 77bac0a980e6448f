//! `sekisho demo`, as short as it goes, to its report in a real browser.

use std::fs;

use crate::browser::{Scratch, framed, open};
use crate::command::{Ended, sekisho};
use crate::site::alone;

const PHONE_WIDTH: u32 = 390;

/// Runs the demo until there is something to report of. Where the machine is busy with other things,
/// short runs may fit no model (6), or be of no use to a fit (5); longer ones are tried then.
fn demo(scratch: &Scratch) -> Ended {
    let _live = alone();
    let mut without = Vec::new();
    for length in ["1s", "2s", "4s", "4s", "8s", "8s"] {
        let words = ["demo", "--run", length, "--report", "demo.html"];
        let ended = sekisho(&scratch.join(""), &words);
        if scratch.join("demo.html").exists() {
            return ended;
        }
        assert!([5, 6].contains(&ended.code), "{ended:?}");
        let words = ["\ninvalid: ", "\ndoes not fit: "];
        assert!(words.iter().any(|word| ended.out.contains(word)), "{ended:?}");
        fs::remove_dir_all(scratch.join(".sekisho")).expect("the runs were kept");
        without.push(ended);
    }
    panic!("no demo gave a report: {without:?}");
}

#[test]
fn the_demo_closes_the_loop_and_its_report_opens() {
    let scratch = Scratch::new();
    let ended = demo(&scratch);
    assert!([0, 3, 4, 5].contains(&ended.code), "{ended:?}");
    let parts = ["\n1. measured and fitted\n", "\n2. asked, before", "\n3. checked\n"];
    let places: Vec<_> = parts.iter().map(|part| ended.out.find(part)).collect();
    assert!(places.is_sorted() && places[0].is_some(), "{ended:?}");
    let words = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("replays in the same gate to identical actions"), "{ended:?}");
    assert_eq!(fs::read_dir(scratch.join(".sekisho/runs")).unwrap().count(), 7);
    assert!(scratch.join(ended.after("prediction")).is_file(), "{ended:?}");

    let file = scratch.join("demo.html");
    let html = fs::read_to_string(&file).expect("the report was written");
    let page = open(&file, (1200, 900));
    assert_eq!(page.root_data("errors"), Some("0"), "{:?}", page.script_messages());
    assert!(page.script_messages().is_empty(), "{:?}", page.script_messages());
    let figures = page.dom.matches("<figure ").count();
    assert!(figures >= 6, "only {figures} figures");
    assert_eq!(page.root_data("figures"), Some(figures.to_string().as_str()));
    let phone = scratch.join("phone.html");
    fs::write(&phone, framed(&html, PHONE_WIDTH, 900)).unwrap();
    let narrow = open(&phone, (800, 900));
    // The frame is less high than the page, so its bar takes some of the width.
    let width = narrow.root_data("client-width").expect("the page tells");
    let pixels: u32 = width.parse().expect("it is a number");
    assert!((PHONE_WIDTH - 20..=PHONE_WIDTH).contains(&pixels), "{width}");
    assert_eq!(narrow.root_data("errors"), Some("0"), "{:?}", narrow.script_messages());
    assert_eq!(narrow.root_data("scroll-width"), Some(width), "the page is too wide");
}
