//! The sliders of a report in a real browser: they are moved by keys, answer what the command
//! answers, to the last bit, and never leave a dead page.
//!
//! The module must be there: `cargo xtask web` builds it, and so do `cargo xtask check` and `test`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::devtools::Driven;
use super::{Scratch, keep};
use crate::command::sekisho;

const DESKTOP: (u32, u32) = (1200, 1000);
const PHONE: (u32, u32) = (360, 800);

/// A closed load behind a gate in front of one processor: a formula knows it.
const POOL: &str = r#"sekisho = 1
name = "a pool before a processor"

[[class]]
name = "web"
population = 12
sizes = "webstone"
route = ["pool"]

[[gate]]
name = "pool"
slots = 4
inside = ["cpu"]

[[station]]
name = "cpu"
kind = "sharing"
demand = { per-byte = "25us/kB", base = "1ms" }
"#;

/// An open load on two servers behind a router: no formula knows it.
const FARM: &str = r#"sekisho = 1
name = "a farm"

[[class]]
name = "web"
rate = "100/s"
route = ["farm"]

[[gate]]
name = "farm"
queues = "per-server"
router = "shortest-queue"
servers = [{ slots = 1, station = "cpu-1" }, { slots = 1, station = "cpu-2" }]
inside = [{ visit = "server", demand = { mean = "12ms", dist = "exponential" } }]

[[station]]
name = "cpu-1"
kind = "queue"

[[station]]
name = "cpu-2"
kind = "queue"
"#;

/// The report of a scenario, as a user makes it.
fn report(scratch: &Scratch, scenario: &str) -> PathBuf {
    let folder = scratch.join("");
    fs::write(folder.join("scenario.toml"), scenario).unwrap();
    let made = sekisho(&folder, &["report", "scenario.toml", "--out", "report.html"]);
    assert_eq!(made.code, 0, "{made:?}");
    let html = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(
        html.contains("id=\"module\""),
        "this test needs the module of the sliders; run:\n    cargo xtask web"
    );
    folder.join("report.html")
}

const SETTLED: &str = "['done', 'failed'].includes(document.documentElement.dataset.sliders)";

/// Waits until the sliders have answered, and says how: `done` or `failed`.
#[track_caller]
fn settled(page: &mut Driven) -> String {
    page.wait_for(SETTLED);
    text(page, "document.documentElement.dataset.sliders")
}

#[track_caller]
fn text(page: &mut Driven, expression: &str) -> String {
    let value = page.value(expression);
    value.as_str().unwrap_or_else(|| panic!("{expression} is {value}")).to_owned()
}

#[track_caller]
fn assert_quiet(page: &mut Driven) {
    assert_eq!(text(page, "document.documentElement.dataset.errors"), "0");
    assert!(page.complaints().is_empty(), "{:?}", page.complaints());
}

/// Moves the focus to the control with this name, as a reader who uses no mouse does, by Tab.
#[track_caller]
fn focus(page: &mut Driven, name: &str) {
    page.value("document.activeElement.blur()");
    for _ in 0..60 {
        page.press("Tab", 9);
        if page.value("document.activeElement.labels?.[0]?.textContent ?? ''") == json!(name) {
            return;
        }
    }
    panic!("no control is called `{name}`: {}", text(page, "document.body.innerText"));
}

/// Presses an arrow key so many times on the control with this name.
#[track_caller]
fn turn(page: &mut Driven, name: &str, (key, code): (&str, u32), times: usize) {
    focus(page, name);
    for _ in 0..times {
        page.press(key, code);
    }
}

const RIGHT: (&str, u32) = ("ArrowRight", 39);
const END: (&str, u32) = ("End", 35);

/// The full value of a cell of the readouts; null if it has none.
#[track_caller]
fn readout(page: &mut Driven, cell: &str) -> Value {
    let value = page.value(&format!("document.getElementById('{cell}').dataset.value ?? null"));
    value.as_str().map_or(Value::Null, |number| json!(number.parse::<f64>().expect("a number")))
}

/// Each readout of the page against the point that `sekisho ask` gives for the copied file.
#[track_caller]
fn assert_as_the_command(page: &mut Driven, folder: &Path, load: [&str; 2]) {
    page.value("document.getElementById('sliders-copy').click()");
    let copied = text(page, "document.getElementById('sliders-file').textContent");
    fs::write(folder.join("copied.toml"), copied).unwrap();
    let words = ["ask", "copied.toml", load[0], load[1], "--json"];
    let asked = sekisho(folder, &words);
    assert_eq!(asked.code, 0, "{asked:?}");
    let point = asked.objects()[0]["prediction"]["points"][0].take();
    for of in ["formula", "simulation"] {
        let numbers = &point[of];
        for key in ["throughput", "response", "wait"] {
            let cell = format!("{of}-{key}");
            assert_eq!(readout(page, &cell), numbers[key]["mean"], "{cell}: {numbers}");
        }
    }
    for (key, q) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
        let quantiles = point["simulation"]["quantiles"].as_array().unwrap();
        let pair = quantiles.iter().find(|pair| pair[0] == json!(q)).unwrap();
        assert_eq!(readout(page, &format!("simulation-{key}")), pair[1]["mean"], "{key}");
    }
}

#[test]
fn sliders_answer_what_the_command_answers() {
    let scratch = Scratch::new();
    let file = report(&scratch, POOL);
    let folder = scratch.join("");
    let mut page = Driven::start();
    page.open(&file, DESKTOP);
    assert_eq!(settled(&mut page), "done");
    assert_as_the_command(&mut page, &folder, ["--clients", "12"]);

    turn(&mut page, "Slots of pool", RIGHT, 3);
    turn(&mut page, "Clients", RIGHT, 8);
    assert_eq!(settled(&mut page), "done");
    let shown =
        text(&mut page, "[...document.querySelectorAll('.knob')].map(k => k.innerText).join()");
    assert!(shown.contains("20") && shown.contains("7"), "{shown}");
    let before = readout(&mut page, "simulation-response");
    assert_as_the_command(&mut page, &folder, ["--clients", "20"]);
    let solved = sekisho(&folder, &["solve", "copied.toml"]);
    assert_eq!(solved.code, 0, "{solved:?}");

    // The figures and the strip follow.
    let legends = text(
        &mut page,
        "[...document.querySelectorAll('figure .key')].map(k => k.innerText).join()",
    );
    assert_eq!(legends.matches("sliders, formula").count(), 2, "{legends}");
    assert_eq!(legends.matches("sliders, at this load").count(), 2, "{legends}");
    let strip = text(&mut page, "document.querySelector('.sliders .plot').ariaLabel");
    assert!(strip.contains("pool 100 %") && strip.contains("cpu 100 %"), "{strip}");
    keep("sliders-wide.png", &page.picture());

    // A key held down asks for many positions: the last one counts.
    turn(&mut page, "Demand at cpu, times", RIGHT, 12);
    assert_eq!(settled(&mut page), "done");
    assert_as_the_command(&mut page, &folder, ["--clients", "20"]);
    assert_ne!(readout(&mut page, "simulation-response"), before, "three times the work");
    let back = "[...document.querySelectorAll('.sliders button')].at(-1).click()";
    page.value(back);
    assert_eq!(settled(&mut page), "done");
    let turned = "document.querySelectorAll('.turned').length";
    assert_eq!(page.value(turned), json!(0));
    assert_quiet(&mut page);

    page.open(&file, PHONE);
    assert_eq!(settled(&mut page), "done");
    let overhang = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
    assert_eq!(page.value(overhang), json!(0), "the page is too wide");
    let clipped =
        "(e => e.scrollWidth - e.clientWidth)(document.querySelector('.sliders .scroll'))";
    assert_eq!(page.value(clipped), json!(0), "the readouts are too wide");
    keep("sliders-phone.png", &page.picture());
    page.send("Emulation.setEmulatedMedia", json!({"media": "print"}));
    let displays = "['.knob input', '.knob output', '.sliders table'].map(s => \
                    getComputedStyle(document.querySelector(s)).display === 'none').join()";
    assert_eq!(page.value(displays), json!("true,false,false"), "what paper shows of the sliders");
    assert_quiet(&mut page);
}

#[test]
fn what_has_no_formula_or_no_answer_says_so_and_goes_on() {
    let scratch = Scratch::new();
    let file = report(&scratch, FARM);
    let folder = scratch.join("");
    let mut page = Driven::start();
    // The first time without workers: then the page itself answers, in shorter steps.
    let source = "globalThis.KeptWorker = Worker; delete globalThis.Worker;";
    let added = page.send("Page.addScriptToEvaluateOnNewDocument", json!({"source": source}));
    page.open(&file, DESKTOP);
    assert_eq!(settled(&mut page), "done");
    let status = "document.getElementById('sliders-status').textContent";
    assert!(text(&mut page, status).contains("on the page's own thread"));
    assert!(readout(&mut page, "simulation-response").is_number());
    page.send("Page.removeScriptToEvaluateOnNewDocument", added);

    page.open(&file, DESKTOP);
    assert_eq!(settled(&mut page), "done");
    assert_eq!(readout(&mut page, "formula-response"), Value::Null);
    assert!(text(&mut page, "document.querySelector('.notes').innerText").contains("no formula"));
    turn(&mut page, "Where to behind farm", ("ArrowUp", 38), 1);
    assert_eq!(settled(&mut page), "done");
    let copied = text(&mut page, "document.getElementById('sliders-file').textContent");
    assert!(copied.contains("router = \"random\""), "{copied}");
    assert_as_the_command(&mut page, &folder, ["--rate", "100/s"]);

    turn(&mut page, "Arrivals", END, 1);
    assert_eq!(settled(&mut page), "failed");
    let said = text(&mut page, status);
    assert!(said.contains("grows without end"), "{said}");
    assert_eq!(readout(&mut page, "simulation-response"), Value::Null, "an old number stays");
    turn(&mut page, "Servers of farm", RIGHT, 3);
    assert_eq!(settled(&mut page), "done");
    keep("sliders-farm.png", &page.picture());
    assert_quiet(&mut page);
}

/// A module whose `call` traps, after which `panicked` tells of a message: "queue".
const TRAPS: &[u8] = b"\0asm\x01\0\0\0\
    \x01\x0a\x02\x60\x01\x7f\x01\x7f\x60\0\x01\x7f\
    \x03\x05\x04\0\x01\x01\x01\
    \x05\x03\x01\0\x01\
    \x07\x2d\x05\x06memory\x02\0\x05input\0\0\x04call\0\x01\x06output\0\x02\x08panicked\0\x03\
    \x0a\x15\x04\x05\0\x41\x80\x08\x0b\x03\0\0\x0b\x04\0\x41\x08\x0b\x04\0\x41\x05\x0b\
    \x0b\x0b\x01\0\x41\x08\x0b\x05queue";

/// The page with other bytes in place of its module.
fn with_module(html: &str, module: &[u8]) -> String {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(module).unwrap();
    let text = STANDARD.encode(packed.finish().unwrap());
    let (before, rest) = html.split_once("id=\"module\">").unwrap();
    let (_, after) = rest.split_once("</script>").unwrap();
    format!("{before}id=\"module\">{text}</script>{after}")
}

#[test]
fn a_module_that_panics_or_is_broken_leaves_a_page_with_a_message() {
    let scratch = Scratch::new();
    let html = fs::read_to_string(report(&scratch, POOL)).unwrap();
    let file = scratch.join("broken.html");
    let mut page = Driven::start();
    for (module, message) in [(TRAPS, "the module stopped: queue"), (b"\0asm no", "cannot work")] {
        fs::write(&file, with_module(&html, module)).unwrap();
        page.open(&file, DESKTOP);
        assert_eq!(settled(&mut page), "failed");
        let said = text(&mut page, "document.getElementById('sliders').innerText");
        assert!(said.contains(message), "{said}");
        // The rest of the page is there.
        let figures = "document.querySelectorAll('figure .plot svg').length";
        assert_eq!(page.value(figures), json!(3));
        assert_quiet(&mut page);
    }
}
