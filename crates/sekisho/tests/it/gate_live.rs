//! `sekisho gate postgres` while clients use it, seen by those who operate it: psql on the console,
//! and the live page in a real browser.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use postgres::{Private, Settings};

use crate::browser::{Driven, Scratch, keep};
use crate::command::{PATIENCE, start};
use crate::tpcc::ask;

/// The word that stands behind these.
fn behind<'a>(said: &'a str, words: &str) -> &'a str {
    let (_, rest) = said.split_once(words).expect("it says so");
    rest.split_whitespace().next().expect("it says what")
}

#[test]
fn the_console_and_the_live_page_show_a_gate_under_load() {
    let server = Private::start(&Settings::default()).expect("a server starts");
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let url = server.url();
    let gate = ["gate", "postgres", "--listen", "127.0.0.1:0", "--db", url.as_str()];
    let admin = ["--slots", "2", "--admin", "sekisho", "--admin-http", "127.0.0.1:0"];
    let running = start(&folder, &[&gate[..], &admin].concat());
    let said = running.says("next: psql ");
    let address = behind(&said, "listening on ");
    let page = behind(&said, "live page and metrics: ").to_owned();
    let (account, place) = url.as_str().split_once('@').expect("there is a password");
    let (_, database) = place.split_once('/').expect("there is a database");
    let gated = format!("{account}@{address}/{database}");
    let console = format!("{account}@{address}/pgbouncer");

    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..6)
        .map(|_| {
            let (gated, stop) = (gated.clone(), Arc::clone(&stop));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    ask(&gated, "select pg_sleep(0.05)").expect("the gate serves it");
                }
            })
        })
        .collect();
    let mut browser = Driven::start();
    for (name, size) in [("wide", (1200, 900)), ("narrow", (360, 740))] {
        browser.visit(&page, size);
        browser.wait_for("document.documentElement.dataset.state === 'live'");
        browser.wait_for("document.getElementById('slots').textContent === '2 / 2'");
        browser.wait_for("document.querySelectorAll('#times tbody tr').length === 2");
        browser.wait_for("document.querySelectorAll('#queue tbody tr').length > 1");
        let hold = "document.querySelectorAll('#times tbody tr')[1].cells[4].textContent";
        let hold = browser.value(hold).as_str().expect("a cell has text").to_owned();
        assert!(hold.contains(" to ") && !hold.contains("us"), "holds of 50 ms or more: {hold}");
        let [all, seen] = ["scrollWidth", "clientWidth"]
            .map(|name| browser.value(&format!("document.documentElement.{name}")).as_u64());
        assert!(all.is_some() && all <= seen, "{all:?} px in {seen:?} px");
        keep(&format!("gate-live-{name}.png"), &browser.picture());
    }
    assert_eq!(ask(&console, "show pools").expect("the console answers"), [database]);
    let psql = server.programs().folder().join("psql");
    if psql.exists() {
        let told = Command::new(psql).args([&console, "-Atc", "show version"]).output().unwrap();
        assert!(told.stdout.starts_with(b"PgBouncer 1.25.0 console of Sekisho "), "{told:?}");
    }
    stop.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().expect("it was served"));
    browser.wait_for("document.querySelector('#queue').textContent.includes('Nobody waits')");
    // The gate ends as its administrator says, and the page says so.
    let _ = ask(&console, "shutdown wait_for_servers");
    let ended = running.ended(PATIENCE);
    assert_eq!(ended.code, 0, "{ended:?}");
    browser.wait_for("document.documentElement.dataset.state === 'lost'");
    server.stop().expect("it stops");
}
