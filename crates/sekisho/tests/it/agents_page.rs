//! The live page of the agent server in a real browser, wide and narrow: of a server at work, behind an access
//! token, and of one that stops answering.

use std::fs;

use serde_json::json;

use crate::browser::{Driven, Scratch, keep};
use crate::command::{PATIENCE, shell};
use crate::gate_page::{NARROW, WIDE, fits, places, text};
use crate::serving_agents::{RULES, address, request, user};

const DOWN: &str = r#"
[destinations.hook]
webhook = "http://127.0.0.1:9/hook"
slots = 2

[destinations.digests]
log = "digests.jsonl"
digest = { every = "1h" }
"#;

#[test]
fn the_page_shows_agents_at_work_and_nothing_moves() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let rules = RULES.replace("[\"alerts\"]", "[\"alerts\", \"hook\", \"digests\"]") + DOWN;
    fs::write(folder.join("rules.toml"), rules).unwrap();
    let line = "sekisho agents serve rules.toml --listen 127.0.0.1:0 --partitions 2";
    let running = shell(&folder, line);
    let address = address(&running);
    let tell = |line: &str, body: &str| {
        assert_eq!(request(&address, line, &[], body).map(|it| it.0), Some(202), "{line}");
    };
    let mut browser = Driven::start();
    let mut agents = 0;
    for (name, size) in [("wide", WIDE), ("narrow", NARROW)] {
        browser.visit(&format!("http://{address}/"), size);
        browser.wait_for("document.documentElement.dataset.state === 'live'");
        assert_eq!(text(&mut browser, "state"), "Sekisho 0.1.0 serves agents");
        assert_eq!(text(&mut browser, "agents"), agents.to_string());
        assert_eq!(browser.value("document.getElementById('login').hidden"), json!(true));
        let rows = |of: &str| format!("document.querySelectorAll('#{of} tbody tr').length");
        assert_eq!(browser.value(&rows("partitions")), json!(2));
        assert_eq!(browser.value(&rows("destinations")), json!(3));
        fits(&mut browser);

        let before = places(&mut browser);
        let added = agents..agents + 5;
        agents += 5;
        for agent in added.clone() {
            tell(&format!("PUT /agents/a{agent}"), r#"{"symbol": "A", "high": 10}"#);
        }
        // An urgent message passes by the one that makes its agent, and finds none.
        browser.wait_for(&format!("document.getElementById('agents').textContent === '{agents}'"));
        for agent in added {
            let line = format!("POST /agents/a{agent}/messages/tick?priority=urgent");
            tell(&line, r#"{"symbol": "A", "price": 11}"#);
        }
        // Of each destination what became of its notifications: well, down, and waiting for a digest.
        let cell = |row: usize, column: usize| {
            format!(
                "document.querySelectorAll('#destinations tbody tr')[{row}].cells[{column}].textContent"
            )
        };
        browser.wait_for(&format!("{} === 'well'", cell(0, 2)));
        browser.wait_for(&format!("{} === '{agents}'", cell(0, 4)));
        browser.wait_for(&format!("{} === '{agents}'", cell(1, 7)));
        browser.wait_for(&format!("{}.startsWith('down, ')", cell(2, 2)));
        browser.wait_for(&format!("{}.startsWith('cannot connect: ')", cell(2, 9)));
        let lane = "[...document.querySelectorAll('#cache tbody tr')]\
                    .reduce((all, row) => all + Number(row.cells[8].textContent), 0)";
        browser.wait_for(&format!("{lane} === {agents}"));
        assert_eq!(places(&mut browser), before, "{name}: an update moves something");
        fits(&mut browser);
        keep(&format!("agents-{name}.png"), &browser.picture());
    }
    running.signal("TERM");
    let ended = running.ended(PATIENCE);
    assert_eq!(ended.code, 0, "{ended:?}");
    browser.wait_for("document.documentElement.dataset.state === 'lost'");
    assert!(text(&mut browser, "state").starts_with("No answer since "));
}

#[test]
fn the_page_shows_nothing_without_the_access_token_of_one_who_may_read() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    let sender = user(&folder, "feed", "--send");
    let reader = user(&folder, "ann", "--read");
    let line = "sekisho agents serve rules.toml --listen 127.0.0.1:0 --users users.toml";
    let running = shell(&folder, line);
    let address = address(&running);
    assert_eq!(request(&address, "GET /state.json", &[], "").map(|it| it.0), Some(401));
    let mut browser = Driven::start();
    browser.visit(&format!("http://{address}/"), NARROW);
    browser.wait_for("document.documentElement.dataset.state === 'locked'");
    assert_eq!(text(&mut browser, "state"), "Say the access token of a user who may read");
    assert_eq!(text(&mut browser, "agents"), "-");
    fits(&mut browser);
    keep("agents-locked.png", &browser.picture());
    let say = |browser: &mut Driven, token: &str| {
        let token = json!(token);
        browser.value(&format!(
            "document.getElementById('token').value = {token}; \
             document.querySelector('#login button').click()"
        ));
    };
    for (token, told) in [
        ("nonsense", "No user has this access token"),
        (&*sender, "This user may not read: say the access token of one who may"),
    ] {
        say(&mut browser, token);
        browser
            .wait_for(&format!("document.getElementById('state').textContent === {}", json!(told)));
        assert_eq!(text(&mut browser, "agents"), "-", "{told}");
    }
    say(&mut browser, &reader);
    browser.wait_for("document.documentElement.dataset.state === 'live'");
    assert_eq!(text(&mut browser, "agents"), "0");
    assert_eq!(browser.value("document.getElementById('login').hidden"), json!(true));
    assert_eq!(browser.value("document.getElementById('token').value"), json!(""));
    running.signal("TERM");
    running.ended(PATIENCE);
}
