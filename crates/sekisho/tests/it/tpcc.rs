//! `sekisho tpcc` on a private PostgreSQL server.

use std::path::Path;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use pgtest::Bound;
use postgres::{Private, Settings};
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::browser::Scratch;
use crate::command::{Ended, PATIENCE, sekisho, start};
use crate::examples::said;

/// A server for all tests of this program; it ends with it.
pub(crate) fn server() -> &'static Private {
    // As many as a test of a verb has at once for each test, and room for one that has more.
    static CONNECTIONS: Bound = Bound::of(100, 12);
    static SERVER: OnceLock<Private> = OnceLock::new();
    CONNECTIONS.enter();
    SERVER.get_or_init(|| {
        let parameters = [("fsync", "off"), ("max_connections", "200")];
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Private::start(&Settings { parameters, ..Settings::default() }).expect("a server starts")
    })
}

/// The address of a new database.
pub(crate) fn database(name: &str) -> String {
    let url = server().url();
    ask(url.as_str(), &format!("create database {name}")).expect("it is a new name");
    let (start, _) = url.as_str().rsplit_once('/').expect("it ends in a database");
    format!("{start}/{name}")
}

/// The first column of each row.
pub(crate) fn ask(url: &str, sql: &str) -> Result<Vec<String>, tokio_postgres::Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("it has nothing behind it").block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        let rows =
            client.simple_query(sql).await?.into_iter().filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("null").to_owned()),
                _ => None,
            });
        Ok(rows.collect())
    })
}

fn load(folder: &Path, url: &str, rest: &[&str]) -> Ended {
    sekisho(folder, &[&["tpcc", "load", "--db", url], rest].concat())
}

/// Waits until so many chunks of a load are there.
fn has_chunks(url: &str, wanted: u64) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        // Until the tables are made there is an error instead.
        let found = ask(url, "select count(*) from tpcc_load_chunk").ok();
        if found.is_some_and(|rows| rows[0].parse::<u64>().is_ok_and(|count| count >= wanted)) {
            return;
        }
        assert!(Instant::now() < deadline, "no load makes progress");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_killed_load_is_resumed() {
    let (scratch, url) = (Scratch::new(), database("killed"));
    let folder = scratch.join("");
    let words = ["tpcc", "load", "--warehouses", "2", "--db", &url, "--jobs", "1", "--seed", "5"];
    let running = start(&folder, &words);
    has_chunks(&url, 3);
    running.signal("KILL");
    drop(running);

    let again = load(&folder, &url, &["--warehouses", "2"]);
    assert_eq!(again.code, 2, "{again:?}");
    assert!(again.err.contains("interrupted here") && again.err.contains("--resume"), "{again:?}");
    let other = load(&folder, &url, &["--warehouses", "2", "--seed", "2", "--resume"]);
    assert_eq!(other.code, 2, "{other:?}");
    assert!(other.err.contains("from seed 5"), "{other:?}");
    let resumed = load(&folder, &url, &["--warehouses", "2", "--resume", "--json"]);
    assert_eq!(resumed.code, 0, "{resumed:?}");
    let object = &resumed.object("tpcc-load");
    assert_eq!(
        (&object["verdict"], &object["seed"]),
        (&"loaded".into(), &5.into()),
        "it goes on with its own"
    );
    let rows = object["rows"].as_u64().expect("a number");
    let all = "select (select count(*) from item) + (select count(*) from stock) \
        + (select count(*) from customer) + (select count(*) from history) \
        + (select count(*) from orders) + (select count(*) from new_order) \
        + (select count(*) from order_line) + (select count(*) from warehouse) \
        + (select count(*) from district)";
    let all: u64 = ask(&url, all).expect("they are there")[0].parse().expect("a number");
    assert!(rows > 0 && rows < all - 100_000, "{rows} of {all}: three chunks were there before");
    assert!(all.abs_diff(1_098_022) < 5_000, "{all}");
}

#[test]
fn an_interrupted_load_says_how_to_go_on() {
    let (scratch, url) = (Scratch::new(), database("interrupted"));
    let folder = scratch.join("");
    let words = ["tpcc", "load", "--warehouses", "20", "--db", &url, "--seed", "4"];
    let running = start(&folder, &words);
    has_chunks(&url, 1);
    running.signal("INT");
    let ended = running.ended(PATIENCE);
    assert_eq!(ended.code, 130, "{ended:?}");
    assert!(ended.out.starts_with("interrupted: about "), "{ended:?}");
    let next = "next: sekisho tpcc load --warehouses 20 --seed 4 --resume";
    assert!(ended.out.contains(next), "{ended:?}");
    // A password was typed, and is not printed.
    let said = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("The password is not printed: put it into PGPASSWORD"), "{ended:?}");
}

#[test]
fn a_load_tells_what_it_did_and_is_not_done_twice() {
    let (scratch, url) = (Scratch::new(), database("told"));
    let folder = scratch.join("");
    let loaded = load(&folder, &url, &["--warehouses", "1", "--seed", "7"]);
    assert_eq!(loaded.code, 0, "{loaded:?}");
    assert!(loaded.out.starts_with("loaded: 1 warehouse from seed 7, "), "{loaded:?}");
    let flat = loaded.out.replace("\\\n", " ").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("C-Load is "), "{loaded:?}");
    let next = "next: sekisho tpcc run --warehouses 1 --db postgresql://sekisho@";
    assert!(flat.contains(next) && flat.ends_with("/told"), "{loaded:?}");
    assert!(!flat.contains(&url) && loaded.err.is_empty(), "the password is not told: {loaded:?}");
    let twice = load(&folder, &url, &["--warehouses", "1"]);
    assert_eq!(twice.code, 2, "{twice:?}");
    assert!(twice.err.contains("loaded already") && twice.err.contains("--replace"), "{twice:?}");
}

/// A result did not say which PostgreSQL it was of, a seed that nobody had said was always 1, and the
/// command to type next was for another database than the one that was given, or for more warehouses than
/// are loaded there.
#[test]
fn a_result_names_its_postgresql_and_its_seed_and_goes_on_with_the_same_database() {
    let (scratch, url) = (Scratch::new(), database("named"));
    let folder = scratch.join("");
    let (start, place) = url.split_once('@').expect("a user and a password");
    let (user, password) = start.rsplit_once(':').expect("the same");
    let same = format!("--db {user}@{place}");
    let release = format!("PostgreSQL {}", server().programs().version());
    let flat = |ended: &Ended| {
        let text = ended.out.replace("\\\n", " ");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let told = |ended: &Ended, next: &str| {
        let text = flat(ended);
        assert!(text.contains(&release), "{release}: {ended:?}");
        assert!(text.ends_with(&format!("next: {next} {same}")), "{next} {same}: {ended:?}");
        assert!(!text.contains(password), "{ended:?}");
        text
    };
    let seed = |text: &str, before: &str| -> u64 {
        let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("{before}: {text}"));
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse().expect("a seed")
    };
    let loaded = load(&folder, &url, &["--warehouses", "1"]);
    let drawn = seed(&told(&loaded, "sekisho tpcc run --warehouses 1"), "from seed ");
    let verified = sekisho(&folder, &["tpcc", "verify", "--db", &url]);
    told(&verified, "sekisho tpcc verify --population");
    let words = ["tpcc", "stress", "--db", &url, "--ramp", "0s", "--measure", "1s", "--no-verify"];
    let stressed = || {
        let ended = sekisho(&folder, &[&words[..], &["--connections", "1"]].concat());
        seed(&told(&ended, "sekisho tpcc run --warehouses 1 --measure 10min"), "Seed ")
    };
    let seeds = [drawn, stressed(), stressed()];
    assert!(seeds[0] != seeds[1] && seeds[1] != seeds[2], "{seeds:?}: each is drawn");
    let chosen = sekisho(&folder, &[&words[..], &["--postgres", "15"]].concat());
    assert_eq!(chosen.code, 2, "{chosen:?}");
    assert!(chosen.err.contains("chooses a private server"), "{chosen:?}");
}

/// The command to type next of a page was for whatever database the environment names.
#[test]
fn every_verb_and_every_page_goes_on_with_the_same_database() {
    let (scratch, url) = (Scratch::new(), database("same"));
    let folder = scratch.join("");
    let (start, place) = url.split_once('@').expect("a user and a password");
    let (user, password) = start.rsplit_once(':').expect("the same");
    let same = format!("--db {user}@{place}");
    let release = format!("PostgreSQL {}", server().programs().version());
    assert_eq!(load(&folder, &url, &["--warehouses", "1"]).code, 0);
    let short = ["--ramp", "0s", "--measure", "1s", "--no-verify"];
    let find = ["--ramp", "0s", "--probe", "1s", "--confirm", "1s", "--max-warehouses", "1"];
    // This server forgets what it has answered if it crashes, so that no run is by the rules (3); a probe of a
    // second cannot be told (4); what is to be tried is planned, and nothing is (0).
    let verbs: [(&str, &[&str], &[i32], &str); 5] = [
        ("run", &short, &[3], "sekisho tpcc run --warehouses 10 --measure 10min"),
        ("stress", &short, &[0], "sekisho tpcc stress --warehouses 1 --connections 1,2,4,8,16"),
        ("find", &find, &[4], ""),
        ("tune", &["--ramp", "0s", "--measure", "1s"], &[0], ""),
        ("acid", &["--isolation", "repeatable-read"], &[0], ""),
    ];
    for (verb, rest, codes, on_page) in verbs {
        // On a machine that others use terminals may be late, which makes a run invalid (5): then once more. So too
        // where the inputs of a seed deviate by chance (3), as one of twenty does: four in a row do in one of 160,000.
        let words = [&["tpcc", verb, "--db", &url], rest].concat();
        let mut tries = ["1", "2", "3", "4"].iter().map(|seed| {
            let seed = ["--seed", seed];
            sekisho(&folder, &[&words[..], &seed].concat())
        });
        let again = |code| code == 5 || code == 3 && !codes.contains(&3);
        let ended = tries.find(|ended| !again(ended.code)).expect("one of four is valid");
        assert!(codes.contains(&ended.code), "{verb}, {codes:?}: {ended:?}");
        assert_eq!(ended.code, said(&ended.out), "{verb}: {ended:?}");
        let flat = ended.out.replace("\\\n", " ");
        let flat = flat.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(&release), "{verb}, {release}: {ended:?}");
        let (_, next) = flat.rsplit_once("next: sekisho tpcc ").expect("each says how to go on");
        assert!(next.ends_with(&same), "{verb}, {same}: {ended:?}");
        assert!(!flat.contains(password), "{verb}: {ended:?}");
        if on_page.is_empty() {
            continue;
        }
        let again = sekisho(&folder, &["tpcc", "report", ended.after("record")]);
        for made in [&ended, &again] {
            let page = folder.join(made.after("report"));
            let page = std::fs::read_to_string(page).expect("it is written");
            let next = format!("{on_page} {same}");
            assert!(page.contains(&next), "{verb}, {next}: {made:?}");
            assert!(!page.contains(password), "{verb}: no page has a secret");
        }
    }
}

#[test]
fn what_is_not_ours_is_not_written_to() {
    let (scratch, url) = (Scratch::new(), database("theirs"));
    ask(&url, "create table accounts (id int)").expect("it is new");
    let refused = load(&scratch.join(""), &url, &["--warehouses", "1"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    let says = refused.err.contains("other tables (accounts)");
    assert!(says && refused.err.contains("--beside-others"), "{refused:?}");
    let tables = "select count(*) from pg_class where relnamespace = 'public'::regnamespace";
    assert_eq!(ask(&url, tables).expect("it is there"), ["1"]);
}

#[test]
fn a_database_that_cannot_be_reached_is_a_usage_error() {
    let scratch = Scratch::new();
    for (url, words) in [
        ("postgresql://nobody:secret@127.0.0.1:1/none", "no connection to the database"),
        ("postgresql://nobody:secret@127.0.0.1/none?sslmode=allow", "use disable, prefer"),
        ("not an address: secret", "`--db` is no address"),
    ] {
        let ended = load(&scratch.join(""), url, &["--warehouses", "1"]);
        assert_eq!(ended.code, 2, "{ended:?}");
        let found = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(found.contains(words) && !found.contains("secret"), "{ended:?}");
    }
}

#[test]
fn terminals_run_on_a_database_and_leave_a_record() {
    let (scratch, url) = (Scratch::new(), database("terminals"));
    let folder = scratch.join("");
    assert_eq!(load(&folder, &url, &["--warehouses", "1"]).code, 0);
    let words = ["tpcc", "run", "--db", &url, "--ramp", "0s", "--measure", "3s"];
    let ended = sekisho(&folder, &words);
    // This server forgets nothing it need not: what it answers does not survive a crash.
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.out.starts_with("deviates: "), "{ended:?}");
    let flat = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "new orders per minute (TPC-C-like)",
        "This is not an audited TPC result",
        "short interval: 0.1 minutes of 120",
        "fsync is off",
        "Verified: all",
    ] {
        assert!(flat.contains(words), "{words}: {ended:?}");
    }
    let record = std::fs::read_to_string(folder.join(ended.after("record"))).expect("it is kept");
    let record: serde_json::Value = serde_json::from_str(&record).expect("it is JSON");
    assert_eq!(record["record"]["plan"]["warehouses"], 1);
    assert!(!record.to_string().contains(&url), "a record holds no password");
    let page = std::fs::read_to_string(folder.join(ended.after("report"))).expect("it is written");
    assert!(page.contains("Verified afterwards: all") && !page.contains(&url));
    assert!(record["record"]["server"].get("tls").is_none(), "nobody asked for it here");
    let brief = ["tpcc", "run", "--db", &url, "--ramp", "0s", "--measure", "1s", "--json"];
    let told = sekisho(&folder, &brief);
    assert_eq!(told.code, 3, "{told:?}");
    assert_eq!(told.object("tpcc-run")["outcome"], "deviates", "{told:?}");
    let again = sekisho(&folder, &["tpcc", "report", ended.after("record")]);
    let page = std::fs::read_to_string(folder.join(again.after("report"))).expect("it is written");
    assert!(page.contains("Verified afterwards: all"), "the record knows: {again:?}");

    // Of a thousand transactions three seeds in a hundred deal what is called wrong.
    let words = ["tpcc", "stress", "--db", &url, "--ramp", "0s", "--measure", "1s", "--seed", "4"];
    let more = ["--connections", "1,2", "--execute", "functions"];
    let ended = sekisho(&folder, &[&words[..], &more].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.starts_with("no waits, so no verdict: at most "), "{ended:?}");
    let flat = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains(" ± ? (too short for an interval) new orders"), "{ended:?}");
    let ended = sekisho(&folder, &[&words[..], &more, &["--json"]].concat());
    let objects = ended.objects();
    assert_eq!(objects.len(), 2, "{ended:?}");
    assert_eq!(objects[0]["verdict"], "no verdict", "as the text says");
    assert!(objects[0]["new_orders_per_minute"]["half_width"].is_null(), "{ended:?}");
    let done = |at: usize| objects[at]["transactions"]["New-Order"]["completed"].as_u64();
    assert!(done(0) > Some(0) && done(1) > Some(0), "{ended:?}");
    assert_eq!(objects[0]["verified"], true);
    let report = |at: usize| objects[at]["report"].as_str().expect("it has one").to_owned();
    assert_eq!(report(0), report(1), "one page for all of them");
    let page = std::fs::read_to_string(folder.join(report(0))).expect("it is written");
    assert!(page.contains("Throughput against connections"));
    let words = [&words[..], &more[2..], &["--connections", "1", "--report", "no/such/place.html"]];
    let ended = sekisho(&folder, &words.concat());
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(folder.join(ended.after("record")).exists(), "what was measured is told all the same");
    assert!(ended.err.contains("place.html cannot be written"), "{ended:?}");
}

/// Content of a file of lines, each of which is whole.
fn lines_of(folder: &Path, ending: &str) -> Vec<serde_json::Value> {
    let files =
        std::fs::read_dir(folder).expect("it has run").map(|file| file.expect("a file").path());
    let ours = files.filter(|path| path.to_string_lossy().ends_with(ending));
    let text: String = ours.map(|path| std::fs::read_to_string(path).expect("text")).collect();
    assert!(text.is_empty() || text.ends_with('\n'), "torn: {ending}");
    text.lines().map(|line| serde_json::from_str(line).expect("a whole line")).collect()
}

/// The orders and the Payments of a success file.
fn counted(lines: &[serde_json::Value]) -> [u64; 2] {
    ["order", "payment"]
        .map(|kind| lines.iter().filter(|line| line.get(kind).is_some()).count() as u64)
}

/// A line of the success file is written before its answer counts, so that no count is larger than the
/// file; and what the file has beyond the counts was under way when the interval ended.
#[test]
fn what_a_run_counts_is_in_its_success_file() {
    let (scratch, url) = (Scratch::new(), database("success"));
    let folder = scratch.join("");
    assert_eq!(load(&folder, &url, &["--warehouses", "1"]).code, 0);
    let short = ["--db", &url, "--ramp", "0s", "--measure", "3s", "--no-verify"];
    let hastened = [&["tpcc", "run", "--hasten", "100"], &short[..]].concat();
    let stressed = [&["tpcc", "stress", "--connections", "4"], &short[..]].concat();
    for (words, terminals) in [(hastened, 10), (stressed, 4)] {
        let ended = sekisho(&folder, &words);
        assert_eq!(ended.code, 0, "{ended:?}");
        let record = std::fs::read_to_string(folder.join(ended.after("record"))).expect("is kept");
        let kept: serde_json::Value = serde_json::from_str(&record).expect("it is JSON");
        let (record, id) = (&kept["record"], kept["id"].as_str().expect("a name"));
        let number = |value: &serde_json::Value| value.as_u64().expect("a number");
        let completed = |kind: usize| number(&record["kinds"][kind]["completed"]);
        let orders = completed(0) - number(&record["inputs"]["rollbacks"]);
        let in_file =
            counted(&lines_of(&folder.join(".sekisho/runs"), &format!("{id}.success.jsonl")));
        assert!(orders > 10 && completed(1) > 10, "{orders}, {}: {ended:?}", completed(1));
        for (in_record, in_file) in [orders, completed(1)].into_iter().zip(in_file) {
            let beyond = in_record..=in_record + terminals;
            assert!(beyond.contains(&in_file), "{in_file} of {beyond:?}: {words:?}");
        }
    }
}

/// The results of a killed `stress` ended in half a line, and nobody knew what it had been told.
#[test]
fn a_killed_stress_leaves_whole_lines_of_what_was_acknowledged_and_is_there() {
    /// The orders of a warehouse as it is loaded.
    const LOADED: usize = 30_000;
    let (scratch, url) = (Scratch::new(), database("killed_stress"));
    let folder = scratch.join("");
    assert_eq!(load(&folder, &url, &["--warehouses", "1"]).code, 0);
    let words = ["tpcc", "stress", "--db", &url, "--ramp", "0s", "--measure", "1h"];
    let running = start(&folder, &words);
    let runs = folder.join(".sekisho/runs");
    let deadline = Instant::now() + PATIENCE;
    let many = |at: &Path| std::fs::metadata(at).is_ok_and(|file| file.len() > 200_000);
    while !std::fs::read_dir(&runs)
        .is_ok_and(|files| files.flatten().any(|file| many(&file.path())))
    {
        assert!(Instant::now() < deadline, "nothing is acknowledged");
        thread::sleep(Duration::from_millis(50));
    }
    // By SIGKILL.
    drop(running);
    // Its name was its own from the beginning: another process that asks for it gets another.
    let has = |ending: &str| {
        let files = std::fs::read_dir(&runs).expect("it is there").flatten();
        let mut names = files.filter_map(|file| file.file_name().into_string().ok());
        names.find_map(|name| name.strip_suffix(ending).map(str::to_owned))
    };
    let claimed = has(".tpcc.json");
    assert!(claimed.is_some() && claimed == has(".deliveries.jsonl"), "{claimed:?}");
    let acknowledged = lines_of(&runs, ".success.jsonl");
    let delivered = lines_of(&runs, ".deliveries.jsonl");
    assert!(!delivered.is_empty());
    let orders: Vec<String> = acknowledged
        .iter()
        .filter_map(|line| line.get("order"))
        .map(|order| format!("({},{},{})", order["w"], order["d"], order["o"]))
        .collect();
    assert!(orders.len() > 50, "{}", orders.len());
    let there = format!(
        "select count(*) from orders join (values {}) told (w, d, o) on (o_w_id, o_d_id, o_id) = (w, d, o)",
        orders.join(", ")
    );
    let there: usize = ask(&url, &there).expect("it is there")[0].parse().expect("a number");
    assert_eq!(there, orders.len(), "what was acknowledged is there");
    // And nothing else is but what was under way at one of the eight connections.
    let all = ask(&url, "select count(*) from orders").expect("it is there").swap_remove(0);
    let new = all.parse::<usize>().expect("a number") - LOADED;
    assert!(new <= orders.len() + 8, "{new} orders, of which {} were told", orders.len());
}

#[test]
fn with_no_database_named_a_private_one_is_lent_and_an_interrupt_leaves_the_record() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let running = start(&folder, &["tpcc", "run", "--ramp", "0s", "--measure", "1h"]);
    let runs = folder.join(".sekisho/runs");
    let deadline = Instant::now() + PATIENCE;
    // The file of results is there as soon as the terminals are.
    while !std::fs::read_dir(&runs).is_ok_and(|mut files| files.next().is_some()) {
        assert!(Instant::now() < deadline, "no terminals begin");
        thread::sleep(Duration::from_millis(50));
    }
    thread::sleep(Duration::from_secs(1));
    running.signal("INT");
    // It would have gone on for an hour.
    let ended = running.ended(PATIENCE);
    assert_eq!(ended.code, 130, "{ended:?}");
    assert!(ended.out.starts_with("interrupted: "), "{ended:?}");
    assert!(folder.join(ended.after("record")).exists(), "{ended:?}");
}

/// True if terminals were so late that nothing was measured.
fn is_too_slow(ended: &Ended) -> bool {
    let flat = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    ended.code == 5 && flat.starts_with("invalid: ") && flat.contains("this machine is too slow")
}

/// Two processes on one machine, as they would be on two.
#[test]
fn two_processes_share_the_terminals_and_their_records_merge() {
    let (scratch, url) = (Scratch::new(), database("parts"));
    let folder = scratch.join("");
    assert_eq!(load(&folder, &url, &["--warehouses", "2"]).code, 0);
    let words = ["tpcc", "run", "--db", &url, "--warehouses", "2", "--ramp", "1s"];
    let part = |number: &str, measure: &str| {
        let rest = ["--part", number, "--measure", measure, "--connections", "2", "--seed", "3"];
        start(&folder, &[&words[..], &rest].concat())
    };
    let deadline = Instant::now() + PATIENCE;
    // On a machine that others use, terminals may be late: that is no measurement, and is made again.
    let (first, second) = loop {
        let (first, second) = (part("1/2", "2s"), part("2/2", "2s"));
        let both = [first.ended(PATIENCE), second.ended(PATIENCE)];
        if !both.iter().any(is_too_slow) {
            break both.into();
        }
        assert!(Instant::now() < deadline, "{both:?}");
    };
    let mut merge = vec!["tpcc", "merge"];
    for (ended, number, verified) in [(&first, 1, true), (&second, 2, false)] {
        assert_eq!(ended.code, 4, "{ended:?}");
        assert!(ended.out.starts_with("one part, so no verdict: "), "{ended:?}");
        let flat = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains("at 1 of 2 warehouses"), "{ended:?}");
        assert!(flat.contains(&format!("Part {number}/2: its terminals began ")), "{ended:?}");
        assert_eq!(flat.contains("Verified: all"), verified, "{ended:?}");
        assert!(flat.contains("next: sekisho tpcc merge .sekisho/runs/"), "{ended:?}");
        merge.push(ended.after("record"));
    }
    let merged = sekisho(&folder, &[&merge[..], &["--json"]].concat());
    assert_eq!(merged.code, 3, "{merged:?}");
    let object = &merged.object("tpcc-run");
    assert_eq!(object["outcome"], "deviates", "the whole run has a verdict");
    assert_eq!((&object["warehouses"], &object["connections"]), (&2.into(), &4.into()));
    let text = sekisho(&folder, &merge);
    assert!(text.out.starts_with("deviates: "), "{text:?}");
    assert!(text.out.contains("Merged of 2 parts, on "), "{text:?}");
    assert!(text.out.contains("Verified: all"), "as part 1 did: {text:?}");

    let alone = sekisho(&folder, &merge[..3]);
    assert_eq!(alone.code, 2, "{alone:?}");
    assert!(alone.err.contains("part 2 of 2 is missing"), "{alone:?}");

    // Who is interrupted ends alone, and the run is then not complete.
    let last = "select coalesce(max(start_us), 0) from tpcc_part";
    let before = ask(&url, last).expect("it is there").swap_remove(0);
    let (first, second) = (part("1/2", "6s"), part("2/2", "6s"));
    let started = format!(
        "select count(*) from tpcc_part where start_us > {before} \
        and start_us < extract(epoch from clock_timestamp()) * 1000000"
    );
    let deadline = Instant::now() + PATIENCE;
    while ask(&url, &started).expect("it is there")[0] != "2" {
        assert!(Instant::now() < deadline, "they do not start");
        thread::sleep(Duration::from_millis(50));
    }
    second.signal("INT");
    let (first, second) = (first.ended(PATIENCE), second.ended(PATIENCE));
    assert!(first.code == 4 || is_too_slow(&first), "{first:?}");
    assert_eq!(second.code, 130, "{second:?}");
    let merge = ["tpcc", "merge", second.after("record"), first.after("record")];
    let merged = sekisho(&folder, &merge);
    assert_eq!(merged.code, 130, "{merged:?}");
    assert!(merged.out.starts_with("interrupted: "), "{merged:?}");
}

#[test]
fn parts_that_cannot_meet_say_why() {
    let (scratch, url) = (Scratch::new(), database("no_parts"));
    let folder = scratch.join("");
    let says = |words: &[&str], wanted: &str| {
        let ended = sekisho(&folder, &[&["tpcc", "run"], words].concat());
        assert_eq!(ended.code, 2, "{ended:?}");
        let found = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(found.contains(wanted), "{wanted}: {ended:?}");
    };
    says(&["--part", "1/2"], "name it with `--db`");
    says(&["--part", "3/2", "--db", &url], "`3/2` is no part of a run");
    says(&["--part", "1/2", "--db", &url], "2 parts are too many for 1 warehouse");
    says(&["--patience", "9s"], "--part");
    assert_eq!(load(&folder, &url, &["--warehouses", "2"]).code, 0);
    let words = ["--part", "1/2", "--db", &url, "--warehouses", "2", "--patience", "1s"];
    says(&words, "part 2 of 2 did not come within 1s");
    let runs = folder.join(".sekisho/runs");
    let left = std::fs::read_dir(&runs).map_or(0, Iterator::count);
    assert_eq!(left, 0, "what did not begin leaves nothing");
}

#[test]
fn terminals_on_a_database_that_is_not_loaded_are_a_usage_error() {
    let (scratch, url) = (Scratch::new(), database("nothing_in_it"));
    let ended = sekisho(&scratch.join(""), &["tpcc", "run", "--db", &url]);
    assert_eq!(ended.code, 2, "{ended:?}");
    let found = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(found.contains("load it with `sekisho tpcc load --warehouses N`"), "{ended:?}");
}
