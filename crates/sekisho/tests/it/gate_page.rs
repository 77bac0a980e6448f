//! The live page of the gate for PostgreSQL in a real browser: wide and narrow, light and dark, of a
//! gate at work, of one that has just begun, and of one that stops answering.

#[path = "../../../pgconsole/tests/it/sample.rs"]
pub(crate) mod sample;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use pgconsole::{PAGE, Snapshot, state_json};
use serde_json::{Value, json};

use crate::browser::{Driven, keep};

pub(crate) const WIDE: (u32, u32) = (1200, 900);
pub(crate) const NARROW: (u32, u32) = (390, 740);

/// Serves the page and what it asks for, until the process ends.
struct Served {
    address: SocketAddr,
    /// `None` while it answers with an error.
    state: Arc<Mutex<Option<String>>>,
}

impl Served {
    fn start(snapshot: &Snapshot) -> Served {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let address = listener.local_addr().expect("it is bound");
        let state = Arc::new(Mutex::new(Some(state_json(snapshot))));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                // A browser opens connections that it does not use.
                thread::spawn(move || answer(stream, &shared));
            }
        });
        Served { address, state }
    }

    fn shows(&self, snapshot: Option<&Snapshot>) {
        *self.state.lock().expect("nobody panics with it") = snapshot.map(state_json);
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

fn answer(mut stream: TcpStream, state: &Mutex<Option<String>>) {
    let mut head = Vec::new();
    let mut bytes = [0; 4096];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut bytes) {
            Ok(count @ 1..) => head.extend_from_slice(&bytes[..count]),
            _ => return,
        }
    }
    let state = state.lock().expect("nobody panics with it").clone();
    let (status, kind, body) = match state {
        _ if head.starts_with(b"GET / ") => ("200 OK", "text/html", PAGE.to_owned()),
        Some(json) if head.starts_with(b"GET /state.json ") => ("200 OK", "application/json", json),
        _ => ("503 Service Unavailable", "text/plain", String::new()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    // A browser that has gone needs no answer.
    let _ = stream.write_all(format!("{head}{body}").as_bytes());
}

/// A gate at work after a while: other numbers, more clients and a longer queue.
fn later() -> Snapshot {
    let mut later = sample::filled();
    let idle = later.clients[1].clone();
    later.clients.extend(vec![idle; 1_000]);
    let waiter = later.queue[0].clone();
    later.queue.extend(vec![waiter; 40]);
    later.at += std::time::Duration::from_secs(10);
    later.uptime += std::time::Duration::from_secs(10);
    later.pools[0].total.transactions += 1_100;
    for pool in &mut later.pools {
        pool.gate.waiting = 12_345;
        pool.classes[0].wait.observe(std::time::Duration::from_secs(90));
    }
    later
}

/// Places of everything that a reader looks at.
pub(crate) fn places(browser: &mut Driven) -> Value {
    browser.value(
        "[...document.querySelectorAll('header > *, dl > div, h2, .box, figure')].map((e) => { \
         const r = e.getBoundingClientRect(); \
         return [r.x, r.y + scrollY, r.width, r.height].map(Math.round); })",
    )
}

pub(crate) fn text(browser: &mut Driven, id: &str) -> String {
    let found = browser.value(&format!("document.getElementById('{id}').textContent"));
    found.as_str().expect("an element has text").to_owned()
}

#[track_caller]
pub(crate) fn fits(browser: &mut Driven) {
    let [all, seen] = ["scrollWidth", "clientWidth"]
        .map(|name| browser.value(&format!("document.documentElement.{name}")).as_u64());
    assert!(all.is_some() && all <= seen, "{all:?} px in {seen:?} px");
    // On a phone no table is wider than its box.
    let wide = "innerWidth > 720 ? [] : [...document.querySelectorAll('.box')] \
                .filter((box) => box.scrollWidth > box.clientWidth).map((box) => box.firstChild.id)";
    assert_eq!(browser.value(wide), json!([]));
}

#[test]
fn the_page_shows_a_gate_at_work_and_nothing_moves() {
    let served = Served::start(&sample::filled());
    let mut browser = Driven::start();
    for (name, size) in [("wide", WIDE), ("narrow", NARROW)] {
        served.shows(Some(&sample::filled()));
        browser.visit(&served.url(), size);
        browser.wait_for("document.documentElement.dataset.state === 'live'");
        assert_eq!(text(&mut browser, "clients"), "29");
        assert_eq!(text(&mut browser, "slots"), "12 / 12");
        assert_eq!(text(&mut browser, "waiting"), "2");
        assert_eq!(text(&mut browser, "oldest"), "2.5 s");
        assert_eq!(text(&mut browser, "state"), "Sekisho 0.1.0 lets jobs in");
        let queue = "document.querySelectorAll('#queue tbody tr').length";
        assert_eq!(browser.value(queue), json!(2));
        let first = browser.value("document.querySelector('#list tbody tr').cells[5].textContent");
        assert_eq!(first, json!("waiting"));
        // What a client calls itself is a text, whatever stands in it.
        assert_eq!(browser.value("document.images.length"), json!(0));
        assert_eq!(browser.value("document.body.innerText.includes('<img src=x')"), json!(true));
        fits(&mut browser);

        let before = places(&mut browser);
        served.shows(Some(&later()));
        browser.wait_for("document.getElementById('clients').textContent === '1,029'");
        // Ten seconds later there are 1,100 transactions more.
        assert_eq!(text(&mut browser, "rate"), "110 /s");
        let ticks =
            "[...document.querySelectorAll('#chart-rate .upright li')].map((l) => l.textContent)";
        assert_eq!(browser.value(ticks), json!(["200 /s", "100 /s", "0 /s"]));
        assert_eq!(places(&mut browser), before, "{name}: an update moves something");
        assert!(text(&mut browser, "listed").starts_with("200 of 1,029"));
        served.shows(None);
        browser.wait_for("document.documentElement.dataset.state === 'lost'");
        assert!(text(&mut browser, "state").starts_with("No answer since "));
        assert_eq!(places(&mut browser), before, "{name}: losing the gate moves something");
        served.shows(Some(&sample::filled()));
        browser.wait_for("document.documentElement.dataset.state === 'live'");
        // Taking a picture hides the scroll bars, which would count as a move.
        keep(&format!("gate-{name}.png"), &browser.picture());
    }
    // That the gate was lost is all that the browser had to say.
    let complaints: Vec<_> = browser.complaints().iter().filter(|c| !c.contains("503")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
}

#[test]
fn the_page_of_a_gate_that_has_just_begun_says_what_is_not_there_yet() {
    let served = Served::start(&sample::empty());
    let mut browser = Driven::start();
    browser.visit(&served.url(), NARROW);
    browser.wait_for("document.documentElement.dataset.state === 'live'");
    for (id, said) in [
        ("pools", "No pool yet"),
        ("times", "No job has started"),
        ("queue", "Nobody waits"),
        ("list", "No client is connected"),
        ("pins", "Nobody is pinned"),
        ("model", "No model is fitted"),
    ] {
        let found = text(&mut browser, id);
        assert!(found.contains(said), "{id}: {found}");
    }
    assert_eq!(text(&mut browser, "slots"), "0 / 0");
    fits(&mut browser);
    keep("gate-empty.png", &browser.picture());
    // It fills as the gate does.
    served.shows(Some(&sample::filled()));
    browser.wait_for("document.querySelectorAll('#pools tbody tr').length === 3");
    served.shows(Some(&sample::empty()));
    browser.wait_for("document.querySelector('#pools').textContent.includes('No pool yet')");
    assert_eq!(browser.value("document.querySelectorAll('#pools tbody tr').length"), json!(1));
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
}

#[test]
fn the_page_is_dark_where_that_is_wanted_and_works_by_keyboard_and_ear() {
    let served = Served::start(&sample::filled());
    let mut browser = Driven::start();
    browser.visit(&served.url(), WIDE);
    browser.wait_for("document.documentElement.dataset.state === 'live'");
    let paper = "getComputedStyle(document.body).backgroundColor";
    assert_eq!(browser.value(paper), json!("rgb(255, 255, 255)"));
    let dark = json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]});
    browser.send("Emulation.setEmulatedMedia", dark);
    assert_eq!(browser.value(paper), json!("rgb(21, 23, 27)"));
    keep("gate-dark.png", &browser.picture());

    browser.press("Tab", 9);
    assert_eq!(browser.value("document.activeElement.id"), json!("hold"));
    browser.value("document.activeElement.click()");
    assert_eq!(text(&mut browser, "hold"), "Go on updating");
    served.shows(Some(&later()));
    // Two rounds of the page's clock, in which nothing is asked.
    browser.value("new Promise((done) => setTimeout(done, 2200))");
    assert_eq!(text(&mut browser, "clients"), "29");
    browser.value("document.activeElement.click()");
    browser.wait_for("document.getElementById('clients').textContent === '1,029'");
    // Lists that scroll can be reached and have names; the state is said aloud; columns have heads.
    let boxes = "[...document.querySelectorAll('.box')].every((b) => b.tabIndex === 0 && \
                 document.getElementById(b.getAttribute('aria-labelledby')).textContent !== '')";
    assert_eq!(browser.value(boxes), json!(true));
    assert_eq!(browser.value("document.getElementById('state').role"), json!("status"));
    let heads = "[...document.querySelectorAll('thead th')].every((h) => h.scope === 'col')";
    assert_eq!(browser.value(heads), json!(true));
    let figure = "document.querySelector('figure svg').getAttribute('aria-label').length > 10";
    assert_eq!(browser.value(figure), json!(true));
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
}
