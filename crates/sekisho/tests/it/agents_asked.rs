//! The verbs that ask a running server of agents, as a user types them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::browser::Scratch;
use crate::command::{Ended, PATIENCE, Running, sekisho, shell};
use crate::serving_agents::{RULES, address, user};

/// A server with the agent alice.
pub(crate) struct Served {
    running: Running,
    pub(crate) address: String,
}

impl Served {
    /// A server of the rules in a folder.
    pub(crate) fn start(folder: &Path) -> Served {
        let running = shell(folder, "sekisho agents serve rules.toml --listen 127.0.0.1:0");
        Served { address: address(&running), running }
    }

    pub(crate) fn stop(self) {
        self.running.signal("TERM");
        let ended = self.running.ended(PATIENCE);
        assert_eq!(ended.code, 0, "{ended:?}");
    }

    /// Runs a verb of agents on it.
    #[track_caller]
    pub(crate) fn ask(&self, folder: &Path, words: &[&str]) -> Ended {
        let url = format!("http://{}", self.address);
        sekisho(folder, &[&["agents"], words, &["--url", &url]].concat())
    }

    /// The object that a verb prints with `--json`, of this format.
    #[track_caller]
    pub(crate) fn object(&self, folder: &Path, words: &[&str], format: &str) -> Value {
        let ended = self.ask(folder, &[words, &["--json"]].concat());
        assert_eq!((ended.code, &*ended.err), (0, ""), "{words:?}: {ended:?}");
        ended.object(format)
    }

    /// Asks again and again until the answer fits. What is acknowledged takes effect behind that: until then there may
    /// be no such agent.
    #[track_caller]
    pub(crate) fn until(
        &self,
        folder: &Path,
        words: &[&str],
        format: &str,
        fits: impl Fn(&Value) -> bool,
    ) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let ended = self.ask(folder, &[words, &["--json"]].concat());
            let is_none = ended.code == 2 && ended.err.contains("there is no agent");
            assert!(is_none || (ended.code, &*ended.err) == (0, ""), "{words:?}: {ended:?}");
            if !is_none {
                let told = ended.object(format);
                if fits(&told) {
                    return told;
                }
            }
            assert!(Instant::now() < until, "{words:?}: {ended:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Exports again and again until so many agents are there: a declaration is acknowledged when it is durable, and
    /// takes effect behind that.
    #[track_caller]
    fn exported(&self, folder: &Path, file: &str, agents: u64) {
        let until = Instant::now() + PATIENCE;
        loop {
            let told = self.object(folder, &["export", file], "agents-moved");
            if told["agents"] == agents {
                return;
            }
            assert!(Instant::now() < until, "{told}");
            fs::remove_file(folder.join(file)).expect("it was written");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A text for people without the ends of its lines.
pub(crate) fn flat(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().filter(|word| *word != "\\").collect();
    words.join(" ")
}

pub(crate) fn with_alice(folder: &Path) -> Served {
    fs::write(folder.join("rules.toml"), RULES).expect("a folder of our own");
    let served = Served::start(folder);
    let put = served.ask(folder, &["put", "alice", "symbol=A", "high=10"]);
    assert_eq!((put.code, &*put.err), (0, ""), "{put:?}");
    served
}

#[test]
fn an_agent_is_declared_told_shown_and_ended() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let served = with_alice(&folder);
    let sent = served.object(&folder, &["send", "tick", "symbol=A", "price=11"], "agents-accepted");
    assert_eq!((&sent["accepted"], &sent["is_dry"]), (&1.into(), &false.into()), "{sent}");
    let one = ["send", "order", "--agent", "alice", "--id", "order-1"];
    for _ in 0..2 {
        served.object(&folder, &one, "agents-accepted");
    }
    let told = served.until(&folder, &["get", "alice"], "agents-state", |told| {
        told["fired"] == 1 && told["state"]["count"] == 1.0
    });
    assert_eq!(told["rules"]["too-high"]["is_armed"], false, "{told}");
    let text = served.ask(&folder, &["get", "alice"]).out;
    assert!(text.contains("alice: 1 notification so far"), "{text}");
    assert!(text.contains("rule too-high: not armed now"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let dry = served.object(&folder, &["delete", "alice", "--dry-run"], "agents-accepted");
    assert_eq!((&dry["accepted"], &dry["request"]), (&0.into(), &"DELETE /agents/alice".into()));
    served.until(&folder, &["get", "alice"], "agents-state", |told| told["fired"] == 1);
    served.object(&folder, &["delete", "alice"], "agents-accepted");
    let until = Instant::now() + PATIENCE;
    loop {
        let gone = served.ask(&folder, &["get", "alice"]);
        if gone.code == 2 && gone.err.contains("there is no agent `alice`") {
            break;
        }
        assert!(Instant::now() < until, "{gone:?}");
        thread::sleep(Duration::from_millis(20));
    }
    served.stop();
}

/// An order for somebody who was never declared is dead, of whatever partition; after the declaration it is
/// sent again, and counts once.
#[test]
fn what_is_dead_is_listed_and_sent_again() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    let line = "sekisho agents serve rules.toml --listen 127.0.0.1:0 --partitions 3";
    let running = shell(&folder, line);
    let served = Served { address: address(&running), running };
    let names = ["bob", "carol", "dave", "erin", "frank"];
    for name in names {
        served.object(&folder, &["send", "order", "--agent", name], "agents-accepted");
    }
    let all = |told: &Value| told["messages"].as_array().is_some_and(|it| it.len() == names.len());
    let told = served.until(&folder, &["dead", "list"], "agents-dead", all);
    assert_eq!(told["more"], false, "{told}");
    let text = served.ask(&folder, &["dead", "list"]).out;
    assert!(text.contains("5 messages not handled, 0 notifications not taken"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let few = served.object(&folder, &["dead", "list", "--limit", "2"], "agents-dead");
    assert_eq!((few["messages"].as_array().unwrap().len(), &few["more"]), (2, &true.into()));
    let dry = served.object(&folder, &["dead", "resend", "--dry-run"], "agents-resent");
    assert_eq!((&dry["messages"], &dry["is_dry"]), (&5.into(), &true.into()));
    for name in names {
        served.object(&folder, &["put", name], "agents-accepted");
    }
    let first = &told["messages"][0];
    let number = format!("{}/{}", first["partition"], first["n"]);
    let one = ["dead", "resend", "--message", &number];
    assert_eq!(served.object(&folder, &one, "agents-resent")["messages"], 1);
    for sent in [4, 0] {
        let told = served.object(&folder, &["dead", "resend"], "agents-resent");
        assert_eq!(told["messages"], sent, "{told}");
    }
    for name in names {
        let counted = |told: &Value| told["state"]["count"] == 1.0;
        served.until(&folder, &["get", name], "agents-state", counted);
    }
    served.stop();
}

/// A folder with three users, their access tokens, a certificate of `localhost` and its authority.
fn with_users(folder: &Path) {
    for (name, rights) in [("ann", "--read"), ("feed", "--send"), ("root", "--admin")] {
        let access_token = user(folder, name, rights);
        fs::write(folder.join(name), format!("{access_token}\n"))
            .expect("the folder can be written");
    }
    let certificates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tls/tests/certificates");
    for name in ["database.pem", "leaf.key", "authority.pem"] {
        fs::copy(certificates.join(name), folder.join(name)).expect("the folder can be written");
    }
}

/// Ann reads, feed sends, root does everything: each verb with each of them, by TLS, and with what the verb has printed.
#[test]
fn users_do_what_they_may_by_tls_and_no_more() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    with_users(&folder);
    let line = "sekisho agents serve rules.toml --listen 127.0.0.1:0 --users users.toml \
                --tls-cert database.pem --tls-key leaf.key";
    let running = shell(&folder, line);
    let url = format!("https://{}", address(&running).replace("127.0.0.1", "localhost"));
    let server = format!("--url {url} --ca authority.pem");
    let run = |line: &str| shell(&folder, &format!("sekisho agents {line}")).ended(PATIENCE);
    fs::write(folder.join("in.jsonl"), "{\"agent\": \"bob\", \"state\": {}}\n").unwrap();
    for (line, right) in [
        ("put alice symbol=A high=10", "declare"),
        ("send tick symbol=A price=9", "send"),
        ("send order --agent alice", "send"),
        ("dead list", "admin"),
        ("dead resend", "admin"),
        ("reload", "admin"),
        ("import in.jsonl", "declare"),
        ("export out.jsonl", "read"),
        ("why alice", "read"),
        ("try rules.toml", "read"),
        ("delete bob", "declare"),
    ] {
        // What ann may is done below, once.
        let others = [("ann", "read"), ("feed", "send")];
        for (name, has) in others.into_iter().filter(|of| of.1 != right || of.0 == "feed") {
            let ended = run(&format!("{line} {server} --access-token-file {name}"));
            if has == right {
                assert_eq!(ended.code, 0, "{line}: {ended:?}");
                let again = format!("--access-token-file {name} --ca authority.pem");
                assert!(flat(&ended.out).contains(&again), "what comes next: {ended:?}");
            } else {
                // An import first reads the rules of the server.
                let first =
                    if name == "feed" && line.starts_with("import") { "read" } else { right };
                let told = format!("`{first} = true`");
                assert!(ended.code == 2 && flat(&ended.err).contains(&told), "{line}: {ended:?}");
                assert!(flat(&ended.err).contains(&format!("`{name}` may not")), "{ended:?}");
            }
        }
        if right != "send" {
            let until = Instant::now() + PATIENCE;
            // A declaration takes effect after it was acknowledged.
            loop {
                let name = if right == "read" { "ann" } else { "root" };
                let ended = run(&format!("{line} {server} --access-token-file {name}"));
                if ended.code == 0 {
                    break;
                }
                let is_early = ended.err.contains("there is no agent");
                assert!(is_early && Instant::now() < until, "{line}: {ended:?}");
            }
        }
    }
    let nobody = run(&format!("get alice {server}"));
    assert!(nobody.code == 2 && flat(&nobody.err).contains("$AGENTS_ACCESS_TOKEN"), "{nobody:?}");
    let stranger = run(&format!("get alice --url {url} --access-token-file ann"));
    assert!(stranger.code == 2 && flat(&stranger.err).contains("`--ca FILE`"), "{stranger:?}");
    let program = env!("CARGO_BIN_EXE_sekisho");
    let typed = format!(
        "AGENTS_ACCESS_TOKEN=$(cat ann) exec '{program}' agents get alice {server} >/dev/null"
    );
    let status =
        std::process::Command::new("sh").args(["-c", &typed]).current_dir(&folder).status();
    assert!(status.unwrap().success(), "{typed}");
    running.signal("TERM");
    assert_eq!(running.ended(PATIENCE).code, 0);
}

#[test]
fn a_user_is_made_once_and_for_something() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let run = |line: &str| shell(&folder, &format!("sekisho agents user {line}")).ended(PATIENCE);
    let idle = run("ann");
    assert!(
        idle.code == 2 && flat(&idle.err).contains("`--read`, `--send`, `--declare` or `--admin`"),
        "{idle:?}"
    );
    let made = run("ann --read --users users.toml --json");
    let made = made.object("agents-user");
    assert!(made["access_token"].as_str().unwrap().starts_with("agents_"), "{made}");
    let before = fs::read_to_string(folder.join("users.toml")).unwrap();
    assert!(before.contains(made["access_token_sha256"].as_str().unwrap()), "{before}");
    let twice = run("ann --send --users users.toml");
    assert!(twice.code == 2 && flat(&twice.err).contains("a name of its own"), "{twice:?}");
    assert_eq!(fs::read_to_string(folder.join("users.toml")).unwrap(), before);
    // With some agents alone, which an administrator cannot have, and which alone are no right.
    let some = run("acme --declare --agents acme/ --agents one --users users.toml");
    assert_eq!((some.code, &*some.err), (0, ""), "{some:?}");
    let after = fs::read_to_string(folder.join("users.toml")).unwrap();
    assert!(after.ends_with("declare = true\nagents = [\"acme/\", \"one\"]\n"), "{after}");
    for (line, told) in [
        ("bob --admin --agents acme/", "cannot be used with"),
        ("bob --agents acme/", "could do nothing"),
        ("bob --read --agents ''", "`agents` names agents, beginnings of names that end in `/`"),
    ] {
        let refused = run(&format!("{line} --users users.toml"));
        assert!(refused.code == 2 && flat(&refused.err).contains(told), "{line}: {refused:?}");
    }
    assert_eq!(fs::read_to_string(folder.join("users.toml")).unwrap(), after);
}

#[test]
fn without_a_server_or_with_a_wrong_field_the_way_out_is_told() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let nobody = sekisho(&folder, &["agents", "get", "alice", "--url", "http://127.0.0.1:9"]);
    assert_eq!(nobody.code, 2, "{nobody:?}");
    assert!(flat(&nobody.err).contains("sekisho agents serve rules.toml"), "{nobody:?}");
    let other = sekisho(&folder, &["agents", "get", "alice", "--url", "ftp://127.0.0.1:9"]);
    assert!(other.code == 2 && flat(&other.err).contains("or https://HOST:PORT"), "{other:?}");
    let served = with_alice(&folder);
    for (words, told) in [
        (&["send", "tik", "symbol=A", "price=11"][..], "did you mean `tick`?"),
        (&["send", "tick", "symbol=A", "price=high"], "the field `price` is"),
        (&["send", "tick", "symbol"], "NAME=VALUE"),
        (&["put", "alice", "hihg=1"], "did you mean `high`?"),
        (&["dead", "resend", "--message", "7"], "such as 0/7"),
    ] {
        let ended = served.ask(&folder, words);
        assert!(ended.code == 2 && flat(&ended.err).contains(told), "{words:?}: {ended:?}");
    }
    served.stop();
}

/// A firing and a suppression are kept with their states; the rest is recomputed, and that is said.
#[test]
fn the_past_of_an_agent_is_told() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let served = with_alice(&folder);
    let tick = |price: &str| {
        let price = format!("price={price}");
        served.object(&folder, &["send", "tick", "symbol=A", &price], "agents-accepted");
    };
    tick("9");
    tick("11");
    let is_told = |told: &Value| {
        let kept = &told["kept"][0];
        kept["firing"] == 1
            && kept["delivery"].as_str().is_some_and(|it| it.contains("delivered at"))
    };
    let told = served.until(&folder, &["why", "alice"], "agents-why", is_told);
    let kept = &told["kept"][0];
    assert_eq!(kept["before"]["high"], 10.0, "{told}");
    assert!(kept["message"].as_str().is_some_and(|it| it.contains("\"price\":11")), "{told}");
    assert_eq!(told["began"], "declaration", "{told}");
    // The declaration, the price that was inside, and the one that was not.
    let again = told["recomputed"].as_array().unwrap();
    let ends: Vec<&str> = again.iter().filter_map(|it| it["rules"]["too-high"].as_str()).collect();
    assert_eq!(ends, ["its condition did not hold", "fired"], "{told}");
    let text = served.ask(&folder, &["why", "alice"]);
    assert!(flat(&text.out).contains("Recomputed from its declaration on"), "{text:?}");
    assert!(flat(&text.out).contains("too-high: firing 1; alerts: delivered at"), "{text:?}");
    let early = ["why", "alice", "--at", "2026-01-01T00:00:00Z"];
    let early = served.object(&folder, &early, "agents-why");
    assert_eq!((&early["kept"], &early["recomputed"]), (&Value::Array(Vec::new()), &early["kept"]));
    served.stop();
}

/// Other rules on the same messages: as many would have fired as do when they are followed. Nothing is sent.
#[test]
fn rules_are_tried_on_kept_messages() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let served = with_alice(&folder);
    served.object(&folder, &["put", "bob", "symbol=A", "high=20"], "agents-accepted");
    for price in ["9", "11", "9", "21", "9", "25"] {
        let price = format!("price={price}");
        served.object(&folder, &["send", "tick", "symbol=A", &price], "agents-accepted");
    }
    let done = |told: &Value| told["fired"] == 2;
    served.until(&folder, &["get", "bob"], "agents-state", done);
    let before = fs::read_to_string(folder.join("alerts.jsonl")).unwrap();
    let told = served.object(&folder, &["try", "rules.toml"], "agents-try");
    assert_eq!(told["fired"]["too-high"], 5, "alice 3, bob 2: {told}");
    assert_eq!((&told["agents"], &told["agents_fired"]), (&2.into(), &2.into()), "{told}");
    assert_eq!((&told["messages"], &told["is_whole"]), (&6.into(), &true.into()), "{told}");
    let other = RULES.replace("price > high", "price > high + 3");
    let other = other.replace("on = \"tick\"", "on = \"tick\"\ncooldown = \"1h\"");
    fs::write(folder.join("other.toml"), other).unwrap();
    let told = served.object(&folder, &["try", "other.toml", "--since", "5m"], "agents-try");
    let rule = "too-high";
    assert_eq!((&told["fired"][rule], &told["suppressed"][rule]), (&2.into(), &1.into()), "{told}");
    let text = served.ask(&folder, &["try", "other.toml", "--since", "5m"]);
    assert!(flat(&text.out).contains("with all rules armed anew"), "{text:?}");
    assert!(text.out.lines().all(|line| line.chars().count() <= 80), "{text:?}");
    fs::write(folder.join("other.toml"), RULES.replace("price > high", "prise > high")).unwrap();
    let wrong = served.ask(&folder, &["try", "other.toml"]);
    assert!(wrong.code == 2 && flat(&wrong.err).contains("other.toml:12:9"), "{wrong:?}");
    let after = fs::read_to_string(folder.join("alerts.jsonl")).unwrap();
    assert_eq!(before, after, "nothing was sent");
    served.stop();
}

/// The file is read anew by command and by SIGHUP; what becomes of the rules is told before, and a wrong file changes
/// nothing.
#[test]
fn rules_are_read_anew_while_the_server_runs() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let served = with_alice(&folder);
    let fired = |count: u64| {
        let done = move |told: &Value| told["fired"] == count;
        served.until(&folder, &["get", "alice"], "agents-state", done);
    };
    let tick = |price: &str| {
        served.object(&folder, &["send", "tick", "symbol=A", price], "agents-accepted");
    };
    tick("price=11");
    fired(1);
    fs::write(folder.join("rules.toml"), RULES.replace("price > high", "prise > high")).unwrap();
    let wrong = served.ask(&folder, &["reload"]);
    let told = flat(&wrong.err);
    assert!(wrong.code == 2 && told.contains("nothing was changed: rules.toml:12:9"), "{wrong:?}");
    fs::write(folder.join("rules.toml"), RULES.replace("price > high", "price > high + 1"))
        .unwrap();
    let dry = served.object(&folder, &["reload", "--dry-run"], "agents-reload");
    let rule = &dry["rules"][0];
    assert_eq!(
        (&rule["change"], &rule["agents"], &rule["armed"]),
        (&"changed".into(), &1.into(), &0.into())
    );
    let text = served.ask(&folder, &["reload", "--dry-run"]);
    assert!(
        flat(&text.out).contains("rules: nothing was changed; it would be 0 added, 1 changed"),
        "{text:?}"
    );
    assert!(text.out.lines().all(|line| line.chars().count() <= 80), "{text:?}");
    let other = RULES.replace("price > high", "price > high + 1");
    let other = other.replace("count = 0", "count = \"text\"").replace("count + 1", "'more'");
    assert_ne!(other, RULES);
    fs::write(folder.join("other.toml"), fs::read_to_string(folder.join("rules.toml")).unwrap())
        .unwrap();
    fs::write(folder.join("rules.toml"), other).unwrap();
    let text = served.ask(&folder, &["reload", "--dry-run"]);
    let wanted =
        "field count: changed, number to text; 1 agent loses its value; begins without a value";
    assert!(text.code == 0 && flat(&text.out).contains(wanted), "{text:?}");
    assert!(text.out.lines().all(|line| line.chars().count() <= 80), "{text:?}");
    fs::rename(folder.join("other.toml"), folder.join("rules.toml")).unwrap();
    let told = served.object(&folder, &["reload"], "agents-reload");
    assert_eq!(told["positions"].as_array().map(Vec::len), Some(1), "{told}");
    tick("price=12");
    fired(2);
    // The same by SIGHUP: the first version comes anew, and is armed.
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    served.running.signal("HUP");
    let until = Instant::now() + PATIENCE;
    while served.object(&folder, &["reload", "--dry-run"], "agents-reload")["is_changed"] != false {
        assert!(Instant::now() < until, "it is not read");
        thread::sleep(Duration::from_millis(20));
    }
    tick("price=11");
    fired(3);
    served.stop();
}

/// A server that has done nothing is asked again; one that may have changed the rules is not, or it would say that
/// nothing is new.
#[test]
fn a_change_that_may_have_been_made_is_asked_for_once() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = thread::spawn(move || {
        let mut asked = Vec::new();
        for status in ["503 Service Unavailable", "504 Gateway Timeout"] {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream);
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            asked.push(line.trim_end().to_owned());
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {}
            let body = r#"{"error":"the change goes on"}"#;
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            reader.get_mut().write_all(answer.as_bytes()).unwrap();
        }
        // Nobody is served any more: a third request would be told as refused.
        asked
    });
    let ended = sekisho(&folder, &["agents", "reload", "--url", &url]);
    assert!(ended.code != 0 && flat(&ended.err).contains("the change goes on"), "{ended:?}");
    assert_eq!(served.join().unwrap(), ["POST /rules HTTP/1.1"; 2]);
}

/// A server of somebody else, or of another version, that answers everything with an object of JSON: it was once
/// taken for one that has nothing and did nothing.
#[test]
fn what_is_no_answer_of_agents_is_told_and_not_taken_for_none() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    fs::write(folder.join("in.jsonl"), "{\"agent\":\"a\",\"state\":{}}\n").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream);
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                line.clear();
            }
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
            reader.get_mut().write_all(answer.as_bytes()).ok();
        }
    });
    for words in [
        &["put", "a"][..],
        &["send", "tick"],
        &["get", "a"],
        &["delete", "a"],
        &["dead", "list"],
        &["dead", "resend"],
        &["dead", "resend", "--dry-run"],
        &["reload"],
        &["why", "a"],
        &["try", "rules.toml"],
        &["export", "out.jsonl"],
        &["import", "in.jsonl"],
    ] {
        let ended = sekisho(&folder, &[&["agents"], words, &["--url", &url]].concat());
        assert_eq!((ended.code, &*ended.out), (2, ""), "{words:?}: {ended:?}");
        assert!(flat(&ended.err).contains("no answer of agents of this version"), "{ended:?}");
    }
    assert!(!folder.join("out.jsonl").exists(), "a part would look like all");
}

/// Of alice and of agents a0 to a2499, whose `high` is their number.
fn those_who_meet_a_condition_are_exported(served: &Served, folder: &Path) {
    let near = ["export", "near.jsonl", "--where", "high >= 10 && high < 12.5 && symbol == 'A'"];
    assert_eq!(served.object(folder, &near, "agents-moved")["agents"], 4);
    let text = fs::read_to_string(folder.join("near.jsonl")).expect("it was written");
    let names = text.lines().map(|line| {
        let one: Value = serde_json::from_str(line).expect("a line is JSON");
        one["agent"].as_str().expect("it has a name").to_owned()
    });
    let names: std::collections::BTreeSet<String> = names.collect();
    let wanted = ["a10", "a11", "a12", "alice"].map(str::to_owned);
    assert_eq!(names, wanted.into(), "{text}");
    let table = ["export", "near.csv", "--where", "symbol.startsWith('A') && high == 7"];
    assert_eq!(served.object(folder, &table, "agents-moved")["agents"], 1);
    let text = fs::read_to_string(folder.join("near.csv")).expect("it was written");
    assert!(text.lines().count() == 2 && text.contains("\na7,"), "{text}");
    let wrong = served.ask(folder, &["export", "no.csv", "--where", "hgih > 1"]);
    let told = "where:1:1: unknown name `hgih`; did you mean `high`?";
    assert!(wrong.code == 2 && flat(&wrong.err).contains(told), "{wrong:?}");
    assert!(!folder.join("no.csv").exists(), "a table without agents would look like an answer");
}

/// All agents of all partitions come out, and go into a server with another number of partitions.
#[test]
fn agents_are_exported_and_imported() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let served = with_alice(&folder);
    let lines: String = (0..2_500)
        .map(|n| format!("{{\"agent\":\"a{n}\",\"state\":{{\"symbol\":\"A\",\"high\":{n}}}}}\n"))
        .collect();
    fs::write(folder.join("in.jsonl"), &lines).unwrap();
    let dry = served.object(&folder, &["import", "in.jsonl", "--dry-run"], "agents-moved");
    assert_eq!((&dry["agents"], &dry["is_dry"]), (&2_500.into(), &true.into()), "{dry}");
    let told = served.object(&folder, &["import", "in.jsonl"], "agents-moved");
    assert_eq!(told["agents"], 2_500, "{told}");
    served.exported(&folder, "out.jsonl", 2_501);
    let again = served.ask(&folder, &["export", "out.jsonl"]);
    assert_eq!(again.code, 2, "nothing is written over: {again:?}");
    those_who_meet_a_condition_are_exported(&served, &folder);
    fs::write(folder.join("wrong.jsonl"), format!("{lines}{{\"agent\":\"b\"}}\n")).unwrap();
    let wrong = served.ask(&folder, &["import", "wrong.jsonl", "--dry-run"]);
    assert!(
        wrong.code == 2 && flat(&wrong.err).contains("wrong.jsonl:2501: a line is"),
        "{wrong:?}"
    );
    // An agent that stood there twice was once declared as its last line says. Now none of the file is declared.
    let twice = lines.replace(":\"a", ":\"z") + "{\"agent\":\"z7\",\"state\":{}}\n";
    fs::write(folder.join("twice.jsonl"), twice).unwrap();
    for words in [&["import", "twice.jsonl", "--dry-run"][..], &["import", "twice.jsonl"]] {
        let wrong = served.ask(&folder, words);
        let wanted = "twice.jsonl:2501: `z7` stands there twice, in line 8 too: remove one of them";
        assert!(wrong.code == 2 && flat(&wrong.err).contains(wanted), "{wrong:?}");
        assert!(!wrong.err.contains("are declared"), "{wrong:?}");
    }
    assert_eq!(served.ask(&folder, &["get", "z1"]).code, 2, "none was declared");
    served.stop();
    let line = "sekisho agents serve rules.toml --listen 127.0.0.1:0 --in-memory --partitions 3";
    let running = shell(&folder, line);
    let served = Served { address: address(&running), running };
    served.object(&folder, &["import", "out.jsonl"], "agents-moved");
    served.exported(&folder, "second.jsonl", 2_501);
    let told = served.object(&folder, &["get", "a7"], "agents-state");
    assert_eq!(told["state"], json!({"symbol": "A", "high": 7.0, "count": 0.0}), "{told}");
    let sorted = |name: &str| {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted("out.jsonl"), sorted("second.jsonl"));
    served.stop();
}

/// A table comes out and goes in again, with texts that need quotes, and kinds that are those of the rules; what is
/// wrong is told with its line and column.
#[test]
fn agents_are_exported_and_imported_as_a_table() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let served = with_alice(&folder);
    let table = "agent,high,symbol\r\nbob,20,\"A,\"\"B\"\"\n\"\r\n\"c,d\",,\"\"\r\n7,1e3,7\r\n";
    fs::write(folder.join("in.csv"), ["\u{feff}", table].concat()).unwrap();
    let dry = served.object(&folder, &["import", "in.csv", "--dry-run"], "agents-moved");
    assert_eq!((&dry["agents"], &dry["is_dry"]), (&3.into(), &true.into()), "{dry}");
    served.object(&folder, &["import", "in.csv"], "agents-moved");
    served.exported(&folder, "out.csv", 4);
    let out = fs::read_to_string(folder.join("out.csv")).unwrap();
    assert!(out.starts_with("agent,count,high,symbol\n"), "{out}");
    for line in [
        "alice,0.0,10.0,A\n",
        "bob,0.0,20.0,\"A,\"\"B\"\"\n\"\n",
        "\"c,d\",0.0,,\"\"\n",
        "7,0.0,1000.0,7\n",
    ] {
        assert!(out.contains(line), "{line:?} in {out:?}");
    }
    for (table, wanted) in [
        (
            "agent,high\na,1\nb,ten\n",
            "in.csv:3:3: `high` is a number such as 10.5, and `ten` stands there",
        ),
        ("agent,high\na,NaN\n", "in.csv:2:3: `high` is a number"),
        (
            "agent,hihg\na,1\n",
            "in.csv:1:7: the state has no field `hihg`; it has: count, high, symbol",
        ),
        ("agent,high,high\n", "in.csv:1:12: `high` stands there twice"),
        (
            "agent;high\n",
            "in.csv:1:1: its first line is agent,FIELD,FIELD: `agent` comes first; cells",
        ),
        ("agent,high\na,1,2\n", "in.csv:2:1: 3 cells, and the first line has 2"),
        ("agent,high\n,1\n", "in.csv:2:1: an agent has a name"),
        ("agent,symbol\na,\"b\n", "in.csv:2:3: this quote is not closed"),
        ("agent,high\na,1\nb,2\na,3\n", "in.csv:4:1: `a` stands there twice, in line 2 too"),
        ("", "in.csv:1:1: its first line is agent,FIELD,FIELD"),
    ] {
        fs::write(folder.join("in.csv"), table).unwrap();
        let wrong = served.ask(&folder, &["import", "in.csv", "--dry-run"]);
        assert!(wrong.code == 2 && flat(&wrong.err).contains(wanted), "{wanted}: {wrong:?}");
    }
    served.stop();
    let line = "sekisho agents serve rules.toml --listen 127.0.0.1:0 --in-memory";
    let running = shell(&folder, line);
    let served = Served { address: address(&running), running };
    served.object(&folder, &["import", "out.csv"], "agents-moved");
    served.exported(&folder, "second.csv", 4);
    assert_eq!(fs::read_to_string(folder.join("second.csv")).unwrap(), out);
    served.stop();
}
