//! `sekisho tpcc place` on a private PostgreSQL server and on one that is named.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use crate::browser::Scratch;
use crate::command::{Ended, PATIENCE, sekisho, start};
use crate::tpcc::{ask, database, server};

const SHORT: [&str; 6] = ["--ramp", "0s", "--measure", "1s", "--connections", "2"];

/// Directories that the user of servers may enter; they may be there already.
pub(crate) fn directories(scratch: &Scratch, owner: Option<(u32, u32)>) -> (Vec<PathBuf>, String) {
    let open = |path: &Path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    };
    open(&scratch.join(""));
    let folders: Vec<PathBuf> = ["one", "two", "three"].map(|name| scratch.join(name)).into();
    for folder in &folders {
        fs::create_dir_all(folder).expect("the scratch folder is ours");
        open(folder);
        if let Some((user, group)) = owner {
            chown(folder, Some(user), Some(group)).expect("we are root");
        }
    }
    let names: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    (folders, names.join(","))
}

fn are_empty(folders: &[PathBuf]) -> bool {
    folders.iter().all(|folder| fs::read_dir(folder).expect("it is there").next().is_none())
}

fn place(folder: &Path, rest: &[&str]) -> Ended {
    sekisho(folder, &[&["tpcc", "place"], rest].concat())
}

#[test]
fn a_private_server_is_placed_measured_and_removed() {
    let scratch = Scratch::new();
    let (folders, on) = directories(&scratch, None);
    let ended = place(&scratch.join(""), &[&["--on", &on], &SHORT[..]].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.starts_with("placed: "), "{ended:?}");
    let flat = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["New-Orders", "pg_wal", "order_line", "Verified: all", "estimate"] {
        assert!(flat.contains(words), "{words}: {ended:?}");
    }
    assert!(are_empty(&folders), "what was lent is removed: {ended:?}");
}

#[test]
fn a_database_that_is_named_is_planned_then_placed_then_put_back() {
    let (scratch, url) = (Scratch::new(), database("placed"));
    let folder = scratch.join("");
    let (folders, on) = directories(&scratch, server().user());
    assert_eq!(sekisho(&folder, &["tpcc", "load", "--warehouses", "1", "--db", &url]).code, 0);
    let words = [&["--on", &on, "--db", &url], &SHORT[..]].concat();
    // What is only planned is verified once it is placed.
    let planned = place(&folder, &[&words[..], &["--no-verify"]].concat());
    assert_eq!(planned.code, 0, "{planned:?}");
    let start = planned.out.starts_with("plan: ");
    assert!(start && planned.out.contains("create tablespace sekisho_place_1 "), "{planned:?}");
    assert!(planned.out.contains("/pg_wal\n    pg_ctl "), "the log is advised: {planned:?}");
    assert!(are_empty(&folders), "only the plan: {planned:?}");
    let spaces = "select count(*) from pg_class where reltablespace <> 0 and relkind in ('r', 'i') \
        and relnamespace = 'public'::regnamespace";
    assert_eq!(ask(&url, spaces).expect("it is there"), ["0"]);

    let applied = place(&folder, &[&words[..], &["--apply", "--json"]].concat());
    assert_eq!(applied.code, 0, "{applied:?}");
    let object = &applied.object("tpcc-place");
    assert_eq!((&object["applied"], &object["verified"]), (&true.into(), &true.into()));
    assert_eq!(object["verdict"], "placed", "as the text says");
    assert_eq!(ask(&url, spaces).expect("it is there"), ["19"]);
    let relations = object["relations"].as_array().expect("a list");
    assert_eq!(relations.len(), 20, "{object}");
    assert!(relations.iter().all(|one| (1..=3).contains(&one["directory"].as_u64().unwrap_or(0))));
    assert!(!applied.out.contains("sekisho:"), "no password: {applied:?}");

    let again = place(&folder, &[&words[..], &["--apply"]].concat());
    assert!(again.code == 2 && again.err.contains("--undo"), "{again:?}");
    let undone = place(&folder, &["--undo", "--db", &url]);
    assert!(undone.code == 0 && undone.out.starts_with("undone: 19 tables"), "{undone:?}");
    assert_eq!(ask(&url, spaces).expect("it is there"), ["0"]);
    assert!(are_empty(&folders), "{undone:?}");
    let nothing = place(&folder, &["--undo", "--db", &url]);
    assert!(nothing.code == 0 && nothing.out.starts_with("undone: nothing"), "{nothing:?}");
}

#[test]
fn directories_that_will_not_do_are_usage_errors() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let (_, on) = directories(&scratch, None);
    let refused = |words: &[&str], says: &str| {
        let ended = place(&folder, words);
        let err = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(ended.code == 2 && err.contains(says), "{words:?}: {ended:?}");
    };
    let (one, _) = on.split_once(',').expect("there are three");
    refused(&["--on", one], "1 of the 2 to 16");
    refused(&["--on", &format!("{one},{one}")], "twice");
    refused(&["--on", &format!("{one},/nowhere/at/all")], "make it");
    refused(&["--undo"], "no database is named");
    refused(&["--undo", "--on", &on], "--on");
    refused(&[], "--on");
    let url = "postgresql://nobody@127.0.0.1:1/none";
    refused(&["--on", "a,b", "--db", url], "from its root");
}

#[test]
fn three_disks_are_simulated_by_the_model() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let ended = place(&folder, &[&["--simulate=model", "--no-verify"], &SHORT[..]].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    let first = "holds: by the queueing model of disks, 6 warehouses are within 5 s on one disk";
    let flat = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.starts_with(first), "{ended:?}");
    assert!(flat.contains("not devices: the model was asked for"), "{ended:?}");
    assert!(flat.contains("Seconds are of the model"), "{ended:?}");
    let (_, scenario) = flat.split_once("sekisho sim ").expect("it says what to type next");
    assert_eq!(sekisho(&folder, &["solve", scenario]).code, 0, "{scenario}");
}

/// Where the machine can make devices it is they that are used, else there are words for why not; in
/// both cases nothing is left.
#[test]
fn three_disks_are_devices_where_the_machine_can_make_them() {
    let scratch = Scratch::new();
    let words = ["tpcc", "place", "--simulate", "--json", "--ramp", "0s", "--measure", "1s"];
    let words = [&words[..], &["--no-verify"]].concat();
    let running = start(&scratch.join(""), &words);
    let disks = format!("/var/tmp/sekisho-disks-{}", running.pid());
    let ended = running.ended(2 * PATIENCE);
    let object = &ended.objects()[0];
    match object["simulated_by"].as_str() {
        Some("devices") => {
            assert!([0, 3, 4].contains(&ended.code), "three short runs may say anything: {object}");
            let loads = object["loads"].as_array().expect("a list");
            assert_eq!(loads.len(), 3, "{object}");
            assert!(
                loads.iter().all(|load| load["new_orders_ratio"]["ratio"].is_f64()),
                "{object}"
            );
        }
        Some("model") => assert_ne!(object["why"], "the model was asked for", "{object}"),
        other => panic!("{other:?}: {ended:?}"),
    }
    let mounts = fs::read_to_string("/proc/self/mounts").expect("it is Linux");
    assert!(!mounts.contains(&disks) && !Path::new(&disks).exists(), "{mounts}");
    let named = ["--simulate", "--db", "postgresql://nobody@127.0.0.1:1/none"];
    let refused = place(&scratch.join(""), &named);
    assert!(refused.code == 2 && refused.err.contains("leave out `--db`"), "{refused:?}");
}
