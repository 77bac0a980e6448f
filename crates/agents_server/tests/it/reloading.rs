//! Rules that are read anew while the server runs: from one position of each partition's log on.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use agents::{Append, Commit, Key, LoadWay, Notification, Outcome, Outgoing, Row, Seq, Snapshot};
use agents_rules::{Message, Rules};
use agents_server::{RulesFile, Server, ServerSpec};
use agents_store::{BackupError, BackupWriter, DeadRow, LogPart, Memory, Store, StoreError};
use serde_json::Value;

use crate::delivering::{accepted, spec};
use crate::sink::{Conduct, Sink, request};

const BEGINNING: &str = "[agent]\nstate = { symbol = \"text\", high = \"number\", count = 0 }\n\
                         [messages.tick]\nfields = { symbol = \"text\", price = \"number\" }\n\
                         [messages.order]\n";
const ONE: &str = "set = { count = \"count + 1\" }\n";
const THOUSAND: &str = "set = { count = \"count + 1000\" }\n";
const TOO_HIGH: &str = "[rules.too-high]\non = \"tick\"\nwhen = \"price > high\"\n";

/// A file of rules in a folder of its own, that goes with it.
pub(crate) struct File(PathBuf);

impl File {
    pub(crate) fn new(name: &str, parts: &[&str]) -> File {
        let folder = std::env::temp_dir().join(format!("agents-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = File(folder);
        file.write(parts);
        file
    }

    fn path(&self) -> PathBuf {
        self.0.join("rules.toml")
    }

    pub(crate) fn write(&self, parts: &[&str]) {
        fs::write(self.path(), BEGINNING.to_owned() + &parts.concat()).unwrap();
    }

    /// A server of the file as it is, whose mark is in the folder.
    pub(crate) fn start(&self, store: &Arc<dyn Store<Message>>) -> Server {
        let text = fs::read_to_string(self.path()).unwrap();
        let rules = Rules::read("rules.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        let rules_file = Some(RulesFile { path: self.path(), way: None });
        let directory = Some(self.0.join("server"));
        let spec = ServerSpec { rules_file, directory, ..spec() };
        Server::start(&spec, rules, store.clone()).unwrap_or_else(|error| panic!("{error}"))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

pub(crate) fn memory() -> Arc<dyn Store<Message>> {
    Arc::new(Memory::new())
}

/// A store that takes messages, and no effects while it is shut: what is accepted does not take effect. It may
/// also give states of which a part is lost, and refuse changes of the rules in partition 1.
#[derive(Default)]
struct Shut {
    own: Memory<Message>,
    is_shut: AtomicBool,
    is_torn: AtomicBool,
    is_refusing: AtomicBool,
    /// It holds changes of the rules back.
    is_slow: AtomicBool,
    /// One is held back.
    is_waiting: AtomicBool,
}

impl Shut {
    fn torn(&self, mut rows: Vec<(Key, Row)>) -> Vec<(Key, Row)> {
        if self.is_torn.load(Ordering::Relaxed) {
            rows.iter_mut()
                .filter_map(|(_, row)| row.state.as_mut())
                .for_each(|it| it.cold.clear());
        }
        rows
    }
}

impl Store<Message> for Shut {
    fn open(&self, partition: u32) -> Result<Snapshot<Message>, StoreError> {
        self.own.open(partition)
    }

    fn append(&self, partition: u32, append: &Append<Message>) -> Result<Outcome, StoreError> {
        let is_change = append.entries.iter().any(|it| it.envelope.message.is_change());
        while is_change && self.is_slow.load(Ordering::Relaxed) {
            self.is_waiting.store(true, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(1));
        }
        if partition == 1 && is_change && self.is_refusing.load(Ordering::Relaxed) {
            // Meanwhile messages come.
            thread::sleep(Duration::from_millis(300));
            return Ok(Outcome::Rejected("too long".to_owned()));
        }
        self.own.append(partition, append)
    }

    fn commit(&self, partition: u32, commit: &Commit<Message>) -> Result<Outcome, StoreError> {
        match self.is_shut.load(Ordering::Relaxed) {
            true => Ok(Outcome::Unknown),
            false => self.own.commit(partition, commit),
        }
    }

    fn load(
        &self,
        partition: u32,
        keys: &[Key],
        way: LoadWay,
    ) -> Result<Vec<(Key, Row)>, StoreError> {
        self.own.load(partition, keys, way).map(|rows| self.torn(rows))
    }

    fn outbox(
        &self,
        partition: u32,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Notification>, StoreError> {
        self.own.outbox(partition, after, limit)
    }

    fn sent(
        &self,
        partition: u32,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Outgoing<Message>>, StoreError> {
        self.own.sent(partition, after, limit)
    }

    fn scan(&self, partition: u32, from: Key, limit: usize) -> Result<Vec<(Key, Row)>, StoreError> {
        self.own.scan(partition, from, limit).map(|rows| self.torn(rows))
    }

    fn log(
        &self,
        partition: u32,
        after: Seq,
        limit: usize,
    ) -> Result<LogPart<Message>, StoreError> {
        self.own.log(partition, after, limit)
    }

    fn forget(&self, partition: u32, upto: Seq) -> Result<Seq, StoreError> {
        self.own.forget(partition, upto)
    }

    fn dead(
        &self,
        partition: u32,
        after: u64,
        limit: usize,
    ) -> Result<Vec<DeadRow<Message>>, StoreError> {
        self.own.dead(partition, after, limit)
    }

    fn remove_dead(&self, partition: u32, numbers: &[u64]) -> Result<u64, StoreError> {
        self.own.remove_dead(partition, numbers)
    }

    fn partitions(&self) -> Result<Vec<u32>, StoreError> {
        self.own.partitions()
    }

    fn backup(&self, to: &mut BackupWriter<'_>) -> Result<(), BackupError> {
        self.own.backup(to)
    }
}

#[track_caller]
pub(crate) fn asked(server: &Server, line: &str, body: &str, wanted: u16) -> Value {
    let (status, _, text) = request(server.address(), line, &[], body);
    assert_eq!(status, wanted, "{line}: {text}");
    serde_json::from_str(&text).unwrap()
}

/// Waits until a number of an agent is so.
#[track_caller]
pub(crate) fn until(server: &Server, agent: &str, look: impl Fn(&Value) -> f64, wanted: f64) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let (_, _, text) = request(server.address(), &format!("GET /agents/{agent}"), &[], "");
        let told: Value = serde_json::from_str(&text).unwrap();
        if look(&told) == wanted {
            return;
        }
        assert!(Instant::now() < end, "{wanted} is wanted: {told}");
        thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn fired(told: &Value) -> f64 {
    told["fired"].as_f64().unwrap_or(-1.0)
}

pub(crate) fn count(told: &Value) -> f64 {
    told["state"]["count"].as_f64().unwrap_or(-1.0)
}

/// Of a rule: what becomes of it, the agents that have it, and those that are armed.
fn fate(told: &Value, rule: &str) -> (String, u64, u64) {
    let all = told["rules"].as_array().unwrap();
    let one = all.iter().find(|it| it["name"] == rule).unwrap_or_else(|| panic!("{rule}: {told}"));
    let number = |name: &str| one[name].as_u64().unwrap();
    (one["change"].as_str().unwrap().to_owned(), number("agents"), number("armed"))
}

/// Waits until a dry run tells this of a rule: what is counted is written behind what was accepted.
#[track_caller]
fn until_fate(server: &Server, rule: &str, wanted: &(String, u64, u64)) -> Value {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let told = asked(server, "POST /rules?dry_run=true", "", 200);
        if fate(&told, rule) == *wanted {
            return told;
        }
        assert!(Instant::now() < end, "{wanted:?} is wanted of {rule}: {told}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A rule that stays is armed as it was, one that changes is armed anew, one that goes fires no more; what becomes of
/// them is told before, and that changes nothing.
#[test]
fn what_is_armed_stays_begins_anew_or_ends() {
    let file = File::new("reload", &[ONE, TOO_HIGH]);
    let server = file.start(&memory());
    for agent in ["a", "b"] {
        accepted(&server, &format!("PUT /agents/{agent}"), r#"{"symbol": "A", "high": 10}"#);
    }
    accepted(&server, "PUT /agents/c", r#"{"symbol": "B", "high": 10}"#);
    let tick = |price: &str| {
        let body = format!(r#"{{"symbol": "A", "price": {price}}}"#);
        accepted(&server, "POST /messages/tick", &body);
    };
    tick("11");
    until(&server, "a", fired, 1.0);
    until(&server, "b", fired, 1.0);
    let same = asked(&server, "POST /rules", "", 200);
    assert_eq!(same["is_changed"], false, "{same}");
    let more = "[rules.far-too-high]\non = \"tick\"\nwhen = \"price > high + 5\"\n";
    file.write(&[ONE, TOO_HIGH, more]);
    let told = until_fate(&server, "too-high", &("unchanged".to_owned(), 3, 1));
    assert_eq!(fate(&told, "far-too-high"), ("added".to_owned(), 0, 0));
    assert_eq!((&told["agents"], &told["positions"]), (&3.into(), &Value::Array(Vec::new())));
    // Nothing was changed by asking.
    tick("20");
    let told = asked(&server, "POST /rules", "", 202);
    assert_eq!(told["positions"].as_array().map(Vec::len), Some(2), "{told}");
    tick("21");
    until(&server, "a", fired, 2.0);
    let other = TOO_HIGH.replace("price > high", "price > high + 1");
    file.write(&[ONE, &other]);
    until_fate(&server, "too-high", &("changed".to_owned(), 3, 1));
    until_fate(&server, "far-too-high", &("removed".to_owned(), 3, 1));
    asked(&server, "POST /rules", "", 202);
    tick("22");
    until(&server, "a", fired, 3.0);
    until(&server, "b", fired, 3.0);
    until(&server, "c", fired, 0.0);
    // Bounds are those of today: a value that no bound of before would have let through.
    tick("5");
    file.write(&[ONE, &TOO_HIGH.replace("price > high", "price > high - 8")]);
    asked(&server, "POST /rules", "", 202);
    tick("3");
    until(&server, "a", fired, 4.0);
    assert!(server.end().is_drained);
}

/// A wrong file changes nothing, and is told with its place; so is one that cannot hold here.
#[test]
fn a_wrong_file_changes_nothing() {
    let file = File::new("wrong", &[ONE, TOO_HIGH]);
    let server = file.start(&memory());
    accepted(&server, "PUT /agents/a", r#"{"symbol": "A", "high": 10}"#);
    let wrong = TOO_HIGH.replace("price", "prise");
    let keys = "[rules.x]\non = \"tick\"\nwhen = \"price > high\"\nnotify = [\"hook\"]\n\
                [destinations.hook]\nwebhook = \"http://192.0.2.1:9/\"\nsecret-env = \"NO_SUCH\"\n";
    for (parts, cause) in [(&[ONE, &*wrong][..], "rules.toml:9:9"), (&[ONE, keys], "NO_SUCH")] {
        file.write(parts);
        for line in ["POST /rules?dry_run=true", "POST /rules"] {
            let told = asked(&server, line, "", 400);
            let told = told["error"].as_str().unwrap();
            assert!(told.starts_with("nothing was changed: ") && told.contains(cause), "{told}");
        }
    }
    fs::write(file.path(), BEGINNING.replace("[agent]", "[agent]\nkey = \"number\"") + ONE)
        .unwrap();
    let told = asked(&server, "POST /rules", "", 400);
    assert!(told["error"].as_str().unwrap().contains("`agent.key` cannot change"), "{told}");
    fs::remove_file(file.path()).unwrap();
    asked(&server, "POST /rules", "", 400);
    accepted(&server, "POST /messages/tick", r#"{"symbol": "A", "price": 11}"#);
    until(&server, "a", fired, 1.0);
    let told =
        Server::start(&spec(), Rules::read("r", &(BEGINNING.to_owned() + ONE)).unwrap(), memory());
    asked(&told.unwrap(), "POST /rules", "", 400);
}

/// Positions at which orders were accepted, of one partition; and those at which rules were changed to another number
/// that an order adds.
#[derive(Default)]
struct Accepted {
    orders: Vec<u64>,
    changes: Vec<(u64, f64)>,
}

impl Accepted {
    /// The count that they come to, each by the rules of its position.
    fn count(&self, first: f64) -> f64 {
        let each = self.orders.iter().map(|order| {
            let before = self.changes.iter().filter(|(at, _)| at < order);
            before.max_by_key(|(at, _)| *at).map_or(first, |(_, each)| *each)
        });
        each.sum()
    }
}

/// The position of one order to the agent.
fn order(server: &Server, priority: &str) -> u64 {
    let line = format!("POST /agents/a/messages/order?priority={priority}");
    asked(server, &line, "{}", 202)["position"].as_u64().unwrap()
}

/// The partition of the only agent, of two.
fn partition_of(server: &Server) -> usize {
    let found = (0..2).find(|partition| {
        let line = format!("GET /agents?partition={partition}");
        !asked(server, &line, "", 200)["agents"].as_array().unwrap().is_empty()
    });
    found.unwrap()
}

/// While orders come, of all priorities, the file changes to and fro: each order counts by the rules that held at its
/// position, and urgent ones behind a change do not overtake what was accepted before.
#[test]
fn each_message_is_handled_by_the_rules_of_its_position() {
    let file = File::new("positions", &[ONE]);
    let server = file.start(&memory());
    accepted(&server, "PUT /agents/a", "{}");
    until(&server, "a", count, 0.0);
    let partition = partition_of(&server);
    let mut all = Accepted::default();
    // Orders come until the last change was made, and one comes behind it.
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let give = |priorities: &'static [&'static str]| {
            let (server, is_over) = (&server, &is_over);
            move || {
                let goes_on = |_: &&&str| !is_over.load(Ordering::Relaxed);
                let all = priorities.iter().cycle().take_while(goes_on);
                all.map(|priority| order(server, priority)).collect::<Vec<u64>>()
            }
        };
        let one = scope.spawn(give(&["low", "urgent", "normal"]));
        let other = scope.spawn(give(&["high", "low"]));
        for (text, each) in [(THOUSAND, 1e3), (ONE, 1.0), (THOUSAND, 1e3), (ONE, 1.0)] {
            thread::sleep(Duration::from_millis(50));
            file.write(&[text]);
            let told = asked(&server, "POST /rules", "", 202);
            all.changes.push((told["positions"][partition].as_u64().unwrap(), each));
        }
        is_over.store(true, Ordering::Relaxed);
        all.orders.extend(one.join().unwrap());
        all.orders.extend(other.join().unwrap());
    });
    all.orders.push(order(&server, "normal"));
    let (wanted, orders) = (all.count(1.0), all.orders.len() as f64);
    // Orders were accepted on both sides of a change, or nothing was tested.
    assert!(wanted > orders && wanted < orders * 1e3, "{wanted} of {orders}");
    until(&server, "a", count, wanted);
    assert!(server.end().is_drained);
}

/// An end of the server at once after a change: what was accepted before it and had not taken effect does so by the
/// rules of before, whatever the file says at the next start.
#[test]
fn what_was_accepted_before_a_change_is_handled_by_the_rules_of_before_also_after_an_end() {
    for (nth, next) in [THOUSAND, ONE].into_iter().enumerate() {
        let file = File::new(&format!("ended-{nth}"), &[ONE]);
        let shut = Arc::new(Shut::default());
        let store: Arc<dyn Store<Message>> = shut.clone();
        let server = file.start(&store);
        accepted(&server, "PUT /agents/a", "{}");
        until(&server, "a", count, 0.0);
        shut.is_shut.store(true, Ordering::Relaxed);
        let orders = |server: &Server, many: usize| {
            let body = format!("[{}]", vec!["{}"; many].join(","));
            accepted(server, "POST /agents/a/messages/order?priority=low", &body);
        };
        orders(&server, 8_000);
        file.write(&[THOUSAND]);
        asked(&server, "POST /rules", "", 202);
        orders(&server, 3_000);
        drop(server);
        shut.is_shut.store(false, Ordering::Relaxed);
        file.write(&[next]);
        let server = file.start(&store);
        orders(&server, 1);
        let last = if next == ONE { 1.0 } else { 1e3 };
        until(&server, "a", count, 8e3 + 3e6 + last);
        assert!(server.end().is_drained);
    }
}

/// `why` recomputes each message by the rules of its position.
#[test]
fn the_past_is_told_by_the_rules_that_held() {
    let file = File::new("past", &[ONE, TOO_HIGH]);
    let store = memory();
    let server = file.start(&store);
    accepted(&server, "PUT /agents/a", r#"{"symbol": "A", "high": 10}"#);
    let body = r#"{"symbol": "A", "price": 9}"#;
    accepted(&server, "POST /messages/tick", body);
    file.write(&[ONE, &TOO_HIGH.replace("price > high", "price > high - 5")]);
    asked(&server, "POST /rules", "", 202);
    accepted(&server, "POST /messages/tick", body);
    until(&server, "a", fired, 1.0);
    let told = |server: &Server| {
        let told = asked(server, "GET /agents/a/why", "", 200);
        let all = told["recomputed"].as_array().unwrap().clone();
        let ends = all.iter().filter(|it| it["message"].as_str().unwrap().contains("tick"));
        let ends = ends.map(|it| it["rules"]["too-high"].as_str().unwrap().to_owned());
        assert!(all.iter().any(|it| it["message"] == "the rules were changed"), "{told}");
        ends.collect::<Vec<_>>()
    };
    assert_eq!(told(&server), ["its condition did not hold", "fired"]);
    server.end();
    let server = file.start(&store);
    assert_eq!(told(&server), ["its condition did not hold", "fired"]);
}

/// Notifications go where the new file says from the first one on, and a rule that is gone still reaches its
/// destination with what it had fired.
#[test]
fn destinations_are_those_of_the_file_of_today() {
    let (first, second) = (Sink::start(Conduct::Takes), Sink::start(Conduct::Takes));
    let with = |rule: &str, sink: &Sink| {
        format!(
            "[rules.{rule}]\non = \"tick\"\nwhen = \"price > high\"\nfires = \"level\"\n\
             notify = [\"{rule}\"]\n[destinations.{rule}]\nwebhook = \"http://{}/\"\n",
            sink.address
        )
    };
    let file = File::new("destinations", &[ONE, &with("one", &first)]);
    let server = file.start(&memory());
    accepted(&server, "PUT /agents/a", r#"{"symbol": "A", "high": 10}"#);
    let body = r#"{"symbol": "A", "price": 11}"#;
    accepted(&server, "POST /messages/tick", body);
    file.write(&[ONE, &with("other", &second)]);
    asked(&server, "POST /rules", "", 202);
    accepted(&server, "POST /messages/tick", body);
    assert_eq!((first.wait_for(1).len(), second.wait_for(1).len()), (1, 1));
    // The same destination elsewhere.
    file.write(&[ONE, &with("other", &first)]);
    asked(&server, "POST /rules", "", 202);
    accepted(&server, "POST /messages/tick", body);
    assert_eq!(first.wait_for(2).len(), 2);
    assert!(server.end().is_drained);
}

/// The numbers of the dead letters of both partitions.
fn dead(server: &Server) -> Vec<(u64, u64)> {
    let of = |partition: u64| {
        let told = asked(server, &format!("GET /dead?partition={partition}"), "", 200);
        let all = told["letters"].as_array().unwrap().clone();
        all.into_iter().map(move |it| (partition, it["n"].as_u64().unwrap()))
    };
    (0..2).flat_map(of).collect()
}

#[track_caller]
fn until_dead(server: &Server, count: usize) -> Vec<(u64, u64)> {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let all = dead(server);
        if all.len() == count {
            return all;
        }
        assert!(Instant::now() < end, "{count} are wanted: {all:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A state could not be read when the rules were changed: the change became a dead letter of its agent. Sent again
/// behind another change it once let the rules of its own day hold for all again.
#[test]
fn a_change_that_is_dead_is_sent_again_as_that_of_today() {
    let file = File::new("dead-change", &[ONE]);
    let torn = Arc::new(Shut::default());
    let store: Arc<dyn Store<Message>> = torn.clone();
    let server = file.start(&store);
    accepted(&server, "PUT /agents/a", "{}");
    until(&server, "a", count, 0.0);
    server.end();
    let server = file.start(&store);
    torn.is_torn.store(true, Ordering::Relaxed);
    file.write(&[THOUSAND]);
    // It keeps nobody from a change, and is not counted.
    let told = asked(&server, "POST /rules", "", 202);
    assert_eq!((&told["agents"], &told["is_whole"]), (&0.into(), &false.into()), "{told}");
    until_dead(&server, 1);
    // The state is mended. A server that runs does not read it anew.
    server.end();
    torn.is_torn.store(false, Ordering::Relaxed);
    let server = file.start(&store);
    file.write(&["set = { count = \"count + 1000000\" }\n"]);
    asked(&server, "POST /rules", "", 202);
    let told = asked(&server, "POST /dead/resend", "", 200);
    assert_eq!((&told["sent"], &told["left"]), (&1.into(), &0.into()), "{told}");
    order(&server, "normal");
    until(&server, "a", count, 1e6);
    assert_eq!(dead(&server), []);
    assert!(server.end().is_drained);
}

/// Of two letters the first is no message of the file any more: it stays, and does not keep the other back. Asked for
/// alone, it is told why.
#[test]
fn a_dead_letter_that_the_rules_know_no_more_stays_alone() {
    let file = File::new("dead-unknown", &[ONE]);
    let server = file.start(&memory());
    accepted(&server, "POST /agents/a/messages/order", "{}");
    let first = until_dead(&server, 1)[0];
    accepted(&server, "POST /agents/a/messages/tick", r#"{"symbol": "A", "price": 11}"#);
    until_dead(&server, 2);
    fs::write(file.path(), BEGINNING.replace("order", "purchase") + ONE).unwrap();
    asked(&server, "POST /rules", "", 202);
    accepted(&server, "PUT /agents/a", r#"{"symbol": "A", "high": 10}"#);
    let told = asked(&server, "POST /dead/resend", "", 200);
    assert_eq!((&told["sent"], &told["left"]), (&1.into(), &1.into()), "{told}");
    assert_eq!(dead(&server), [first]);
    let line = format!("POST /dead/resend?partition={}&n={}", first.0, first.1);
    let told = asked(&server, &line, "", 400);
    assert!(told["error"].as_str().unwrap().contains("unknown message `order`"), "{told}");
    assert!(server.end().is_drained);
}

/// The store refuses a change in one partition of two. It was once offered again for ever; now nothing is changed:
/// the other partition goes back, and what came behind it is read by the rules that hold.
#[test]
fn a_change_that_the_store_refuses_holds_nowhere() {
    const AGENTS: usize = 8;
    let file = File::new("refused", &[ONE]);
    let refusing = Arc::new(Shut::default());
    let store: Arc<dyn Store<Message>> = refusing.clone();
    let server = file.start(&store);
    let agents: Vec<String> = (0..AGENTS).map(|n| format!("a{n}")).collect();
    for agent in &agents {
        accepted(&server, &format!("PUT /agents/{agent}"), "{}");
        until(&server, agent, count, 0.0);
    }
    let told = asked(&server, "GET /agents?partition=1", "", 200);
    let names = told["agents"].as_array().unwrap().iter().map(|it| it["agent"].as_str().unwrap());
    let refused: Vec<&str> = names.collect();
    assert!(!refused.is_empty() && refused.len() < AGENTS, "of both partitions: {refused:?}");
    refusing.is_refusing.store(true, Ordering::Relaxed);
    file.write(&[THOUSAND]);
    let is_over = AtomicBool::new(false);
    let to_all = || accepted(&server, "POST /messages/order", "{}");
    let orders = thread::scope(|scope| {
        let orders = scope.spawn(|| {
            let mut orders = 0.0;
            while !is_over.load(Ordering::Relaxed) {
                to_all();
                orders += 1.0;
            }
            orders
        });
        let told = asked(&server, "POST /rules", "", 400);
        let told = told["error"].as_str().unwrap().to_owned();
        is_over.store(true, Ordering::Relaxed);
        assert!(told.starts_with("nothing was changed: the store refuses the rules"), "{told}");
        orders.join().unwrap()
    });
    for agent in &refused {
        until(&server, agent, count, orders);
    }
    // Both partitions count by the rules of before, and take the change when it is not refused.
    let now = |agent: &str| count(&asked(&server, &format!("GET /agents/{agent}"), "", 200));
    for each in [1.0, 1e3] {
        if each > 1.0 {
            refusing.is_refusing.store(false, Ordering::Relaxed);
            asked(&server, "POST /rules", "", 202);
        }
        // All that was accepted took effect.
        let has_effect = || {
            let (.., told) = request(server.address(), "GET /metrics", &[], "");
            told.contains("sekisho_agents_message_bytes 0\n")
        };
        let end = Instant::now() + Duration::from_secs(60);
        while !has_effect() {
            assert!(Instant::now() < end, "messages wait");
            thread::sleep(Duration::from_millis(10));
        }
        let before: Vec<f64> = agents.iter().map(|agent| now(agent)).collect();
        to_all();
        for (agent, before) in agents.iter().zip(before) {
            until(&server, agent, count, before + each);
        }
    }
    assert!(server.end().is_drained);
}

/// While a change waits for the store, another one by request is told to come later, a dry run is answered, and SIGHUP
/// waits. A dry run once kept others from their change, and SIGHUP was lost.
#[test]
fn a_change_waits_for_its_turn_and_a_dry_run_for_none() {
    let file = File::new("turn", &[ONE]);
    let slow = Arc::new(Shut::default());
    let store: Arc<dyn Store<Message>> = slow.clone();
    let server = file.start(&store);
    accepted(&server, "PUT /agents/a", "{}");
    until(&server, "a", count, 0.0);
    slow.is_slow.store(true, Ordering::Relaxed);
    file.write(&[THOUSAND]);
    let first = server.reload();
    let end = Instant::now() + Duration::from_secs(20);
    while !slow.is_waiting.load(Ordering::Relaxed) {
        assert!(Instant::now() < end, "no change came");
        thread::sleep(Duration::from_millis(1));
    }
    file.write(&["set = { count = \"count + 1000000\" }\n"]);
    let told = asked(&server, "POST /rules", "", 503);
    assert!(told["error"].as_str().unwrap().contains("under way"), "{told}");
    let second = server.reload();
    assert_eq!(asked(&server, "POST /rules?dry_run=true", "", 200)["is_changed"], true);
    slow.is_slow.store(false, Ordering::Relaxed);
    for change in [first, second] {
        let told = change.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
        assert!(told.is_changed && told.positions.len() == 2, "{told:?}");
    }
    order(&server, "normal");
    until(&server, "a", count, 1e6);
    assert!(server.end().is_drained);
}

/// A field that gets another kind, or goes, loses its values: that is told before, with the number of agents that have
/// one.
#[test]
fn fields_that_lose_values_are_told_before() {
    let file = File::new("fields", &[ONE]);
    let server = file.start(&memory());
    for (agent, fields) in [("a", r#"{"symbol": "A", "high": 10}"#), ("b", r#"{"high": 20}"#)] {
        accepted(&server, &format!("PUT /agents/{agent}"), fields);
        until(&server, agent, count, 0.0);
    }
    let other = "[agent]\nstate = { high = \"text\", count = 0, level = 1 }\n\
                 [messages.order]\nset = { count = \"count + 1\" }\n";
    let after = |told: &Value| {
        let view = |it: &Value| {
            let text = |key: &str| it[key].as_str().unwrap_or("-").to_owned();
            let words = ["name", "change", "kind_before", "kind"].map(text).join(" ");
            (words, it["start"].clone(), it["lost"].as_u64().unwrap())
        };
        told["fields"].as_array().unwrap().iter().map(view).collect::<Vec<_>>()
    };
    let wanted = |losing: [u64; 2]| {
        [
            ("high changed number text".to_owned(), Value::Null, losing[0]),
            ("level added - number".to_owned(), Value::from(1.0), 0),
            ("symbol removed text -".to_owned(), Value::Null, losing[1]),
        ]
    };
    assert_eq!(after(&asked(&server, "POST /rules?dry_run=true", "", 200)), []);
    fs::write(file.path(), other).unwrap();
    // What is counted is written behind what was accepted.
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let told = asked(&server, "POST /rules?dry_run=true", "", 200);
        if after(&told) == wanted([2, 1]) {
            break;
        }
        assert!(Instant::now() < end, "{told}");
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(after(&asked(&server, "POST /rules", "", 202)), wanted([2, 1]));
    until(&server, "a", |told| told["state"]["level"].as_f64().unwrap_or(0.0), 1.0);
    let told = asked(&server, "GET /agents/a", "", 200);
    assert_eq!(told["state"], serde_json::json!({ "count": 0.0, "level": 1.0 }), "{told}");
    assert!(server.end().is_drained);
}

/// A dry run makes no file, and a change makes one.
#[test]
fn a_dry_run_makes_no_log() {
    let file = File::new("dry-log", &[ONE]);
    let server = file.start(&memory());
    let log = file.0.join("fired.jsonl");
    let with = |log: &std::path::Path| {
        format!("{TOO_HIGH}notify = [\"file\"]\n[destinations.file]\nlog = {log:?}\n")
    };
    file.write(&[ONE, &with(&log)]);
    asked(&server, "POST /rules?dry_run=true", "", 200);
    assert!(!log.exists());
    asked(&server, "POST /rules", "", 202);
    assert!(log.exists());
    file.write(&[ONE, &with(&file.0.join("none").join("fired.jsonl"))]);
    for line in ["POST /rules?dry_run=true", "POST /rules"] {
        let told = asked(&server, line, "", 400);
        assert!(told["error"].as_str().unwrap().contains("cannot write"), "{told}");
    }
    server.end();
}

/// A text that could not be changed afterwards is refused at the start too.
#[test]
fn rules_have_at_most_a_mebibyte() {
    let text = BEGINNING.to_owned() + ONE + &"#".repeat(1 << 20);
    let rules = Rules::read("r", &text).unwrap();
    let refused = Server::start(&spec(), rules, memory()).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("at most 1 MiB"), "{refused}");
}
