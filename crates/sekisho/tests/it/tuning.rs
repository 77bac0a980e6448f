//! `sekisho tpcc tune`: on a server of somebody else's, and on one of its own.

use postgres::{Private, Settings};
use serde_json::Value;

use crate::browser::Scratch;
use crate::command::sekisho;
use crate::tpcc::ask;

/// Query of what `ALTER SYSTEM` has written.
const WRITTEN: &str = "select name || ' = ' || setting from pg_file_settings \
    where sourcefile like '%/postgresql.auto.conf' order by 1";

#[test]
fn a_server_of_somebody_elses_is_only_read_until_its_owner_says_otherwise() {
    let parameters =
        [("fsync", "off"), ("shared_buffers", "16MB"), ("checkpoint_completion_target", "0.5")];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let server = Private::start(&Settings { parameters, ..Settings::default() });
    let server = server.expect("a server starts");
    let url = server.url();
    let (scratch, url) = (Scratch::new(), url.as_str());
    let folder = scratch.join("");
    assert_eq!(sekisho(&folder, &["tpcc", "load", "--warehouses", "1", "--db", url]).code, 0);

    let words = ["tpcc", "tune", "--db", url, "--ramp", "0s", "--measure", "500ms"];
    let plan = sekisho(&folder, &words);
    assert_eq!(plan.code, 0, "{plan:?}");
    let flat = plan.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for found in [
        "plan: ",
        "nothing was changed",
        "shared_buffers = 16MB, try 192MB: ",
        "checkpoint_completion_target = 0.5, try 0.9: ",
        "fsync = off, advised on: ",
        "next: sekisho tpcc tune --warehouses 1 --apply",
    ] {
        assert!(flat.contains(found), "{found}: {}", plan.out);
    }
    assert!(plan.out.lines().all(|line| line.chars().count() <= 80), "{}", plan.out);
    assert_eq!(ask(url, WRITTEN).expect("it answers"), [""; 0]);
    let plan = sekisho(&folder, &[&words[..], &["--json", "--no-verify"]].concat());
    assert_eq!(plan.objects()[0]["verdict"], "plan", "nothing holds that was not tried");

    let only = ["--only", "shared_buffers,checkpoint_completion_target,wal_compression"];
    let apply = ["--apply", "--rounds", "2", "--longest", "1s", "--json"];
    let tuned = sekisho(&folder, &[&words[..], &only, &apply].concat());
    assert!([0, 4].contains(&tuned.code), "{tuned:?}");
    let object = &tuned.object("tpcc-tune/2");
    assert_eq!(object["verified"], true, "{object}");
    let of = |setting: &str| -> &Value {
        let trials = object["trials"].as_array().expect("a list").iter();
        let mut trials = trials.filter(|trial| trial["changes"][0]["setting"] == setting);
        trials.next().unwrap_or_else(|| panic!("{setting} was not spoken of: {object}"))
    };
    assert_eq!(of("shared_buffers")["result"], "not-ours");
    assert!(of("checkpoint_completion_target")["result"]["too-long"].is_object(), "{object}");
    let trial = of("wal_compression");
    assert_eq!(trial["new_orders_per_minute"].as_array().map(Vec::len), Some(5), "{trial}");
    // What is kept is in force and can be taken back; what is not has left nothing.
    let (written, undo) = match trial["result"]["measured"]["kept"].as_bool() {
        Some(true) => {
            let to = trial["changes"][0]["to"].as_str().expect("a text");
            let written = vec![format!("wal_compression = {to}")];
            (written, serde_json::json!(["alter system reset wal_compression"]))
        }
        kept => {
            assert_eq!(kept, Some(false), "{trial}");
            (Vec::new(), serde_json::json!([]))
        }
    };
    assert_eq!(ask(url, WRITTEN).expect("it answers"), written, "{object}");
    assert_eq!(object["undo"], undo);
    server.stop().expect("it runs");
}

#[test]
fn a_private_server_runs_with_the_old_and_the_new_value_by_turns() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let words = ["tpcc", "tune", "--only", "shared_buffers", "--rounds", "2", "--json"];
    let short = ["--ramp", "0s", "--measure", "500ms", "--connections", "2"];
    let tuned = sekisho(&folder, &[&words[..], &short].concat());
    assert!([0, 4].contains(&tuned.code), "{tuned:?}");
    let object = &tuned.objects()[0];
    let trial = &object["trials"][0];
    assert!(trial["result"]["measured"]["ratio"]["low"].is_number(), "{trial}");
    let buffers = trial["runs"].as_array().expect("a list").iter().map(|run| {
        let name = format!(".sekisho/runs/{}.tpcc.json", run.as_str().expect("a name"));
        let record = std::fs::read_to_string(folder.join(name)).expect("it was kept");
        let record: Value = serde_json::from_str(&record).expect("it is JSON");
        record["record"]["server"]["settings"]["shared_buffers"].as_str().map(str::to_owned)
    });
    let buffers: Vec<String> = buffers.map(|value| value.expect("a text")).collect();
    let (from, to) = (&trial["changes"][0]["from"], &trial["changes"][0]["to"]);
    assert_eq!(buffers, [from, to, from, to, from].map(|value| value.as_str().expect("a text")));
    assert!(object["kernel"].as_array().is_some_and(|lines| !lines.is_empty()), "{object}");
}

#[test]
fn what_cannot_be_tuned_is_refused_before_anything_starts() {
    let scratch = Scratch::new();
    for (words, says) in [
        (["--only", "shared_bufers"], "shared_buffers"),
        (["--rounds", "1"], "2..=100"),
        (["--least", "0"], "more than 0 %"),
        (["--restart", "true"], "--apply"),
    ] {
        let ended = sekisho(&scratch.join(""), &[&["tpcc", "tune"][..], &words].concat());
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.err.contains(says), "{says}: {ended:?}");
    }
}
