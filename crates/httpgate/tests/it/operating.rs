//! The gate as whoever operates it sees it: classes, the access log, its end with a delay, another
//! configuration while it runs, and the live page's door.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Instant;

use gate::{DisciplineSpec, ServerSpec};
use httpgate::{AccessLog, Class, Config, Field, LoggedTarget, ReloadError, Text};
use serde_json::Value;

use crate::controls::admin;
use crate::support::*;

fn field(name: &str, value: &str) -> Field {
    Field { name: name.to_owned(), value: Text::parse(value) }
}

fn classes() -> Vec<Class> {
    let gold = Class { path: None, fields: vec![field("X-Plan", "gold*")], ..Class::new("gold") };
    let writes = Class {
        path: Some(Text::parse("/orders*")),
        methods: vec!["POST".into()],
        ..Class::new("writes")
    };
    vec![gold, writes]
}

/// The value of a series, by its name and labels.
#[track_caller]
fn metric(gate: &Gate, series: &str) -> u64 {
    let text = admin(gate, "GET /metrics");
    let line = text.text().lines().find_map(|line| line.strip_prefix(&format!("{series} ")));
    line.unwrap_or_else(|| panic!("no {series} in {}", text.text())).parse().unwrap()
}

/// A log of its own, which is gone afterwards.
struct Log(PathBuf);

impl Log {
    fn new(name: &str) -> Log {
        let name = format!("sekisho-access-{name}-{}.log", std::process::id());
        Log(std::env::temp_dir().join(name))
    }

    fn set(&self, config: &mut Config, target: LoggedTarget) {
        config.access_log = Some(AccessLog { file: Some(self.0.clone()), target });
    }

    fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.0).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn requests_are_counted_by_class_of_header_method_and_path() {
    let upstream = Upstream::echo();
    let mut config = config(&[upstream.address], 2);
    config.classes = classes();
    let gate = Gate::start(config);
    let mut client = gate.client();
    client.send("GET /orders HTTP/1.1\r\nHost: a\r\nx-plan: golden\r\n\r\n");
    assert_eq!(client.response().status(), 200);
    client.send("POST /orders/7 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabcd");
    let sent = client.response();
    assert_eq!(sent.status(), 200);
    client.get("/orders");
    client.get("/orders");
    for (class, count) in [("gold", 1), ("writes", 1), ("other", 2)] {
        let label = format!("{{class=\"{class}\"");
        let ok = format!("sekisho_requests_total{label},status=\"2xx\",source=\"server\"}}");
        assert_eq!(metric(&gate, &ok), count, "{class}");
        assert_eq!(metric(&gate, &format!("sekisho_hold_seconds_count{label}}}")), count);
    }
    let received = "POST /orders/7 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabcd".len();
    let of = |what: &str| metric(&gate, &format!("sekisho_{what}_bytes_total{{class=\"writes\"}}"));
    assert_eq!(of("received"), received as u64);
    assert_eq!(of("sent"), (sent.head.len() + sent.body.len()) as u64);
    let series = "sekisho_build_info{version=\"0.1.0\",gate=\"http\"}";
    assert_eq!(metric(&gate, series), 1);
}

#[test]
fn every_request_has_a_line_that_says_how_it_ended() {
    let (upstream, _) = Upstream::slow(ms(200));
    let log = Log::new("ends");
    let mut config = config(&[upstream.address], 1);
    config.gate.room = Some(1);
    config.gate.wait_max = Some(ms(5000));
    config.classes = classes();
    log.set(&mut config, LoggedTarget::Path);
    let gate = Gate::start(config);
    let mut served = gate.client();
    served.send("GET /served?secret=1 HTTP/1.1\r\nHost: a\r\nX-Plan: gold\r\n\r\n");
    upstream.wait_for(1);
    let mut left = gate.client();
    left.send("GET /left HTTP/1.1\r\nHost: a\r\n\r\n");
    gate.wait_for("waiting", |stats| stats.waiting == 1);
    gate.client().get("/full").assert_refused("queue-full");
    drop(left);
    gate.wait_for("gone", |stats| stats.reneged == 1);
    let response = served.response();
    assert_eq!(response.status(), 200);
    let mut invalid = gate.client();
    invalid.send("BAD\r\n\r\n");
    assert_eq!(invalid.response().status(), 400);
    let mut lost = gate.client();
    lost.send("GET /lost HTTP/1.1\r\nHost: a\r\n\r\n");
    upstream.wait_for(2);
    let address = upstream.address.to_string();
    gate.finish();
    let lines = log.lines();
    let of = |path: &str| {
        let found: Vec<_> = lines.iter().filter(|line| line["path"] == path).collect();
        assert_eq!(found.len(), 1, "{path}: {lines:?}");
        found[0].clone()
    };
    let line = of("/served");
    assert_eq!((&line["outcome"], &line["class"]), (&"served".into(), &"gold".into()));
    assert_eq!((&line["method"], &line["status"]), (&"GET".into(), &200.into()));
    assert_eq!((&line["server"], &line["client"]), (&(*address).into(), &"127.0.0.1".into()));
    assert_eq!(line["sent_bytes"], response.head.len() + response.body.len());
    let [wait, hold, all] =
        ["wait_s", "hold_s", "response_s"].map(|key| line[key].as_f64().unwrap());
    assert!(wait >= 0.0 && hold >= 0.2 && all >= hold, "{line}");
    let time = line["time"].as_str().unwrap();
    assert!(time.len() == 24 && time.ends_with('Z'), "{time}");
    let line = of("/full");
    assert_eq!((&line["outcome"], &line["reason"]), (&"refused".into(), &"queue-full".into()));
    assert_eq!((&line["status"], &line["server"]), (&503.into(), &Value::Null));
    assert_eq!(of("/left")["outcome"], "reneged");
    assert_eq!(of("/left")["status"], Value::Null);
    assert_eq!(of("/lost")["outcome"], "served", "a drain lets it end");
    let invalid = lines.iter().find(|line| line["outcome"] == "invalid").unwrap();
    assert_eq!((&invalid["status"], invalid.get("path")), (&400.into(), None));
    assert_eq!(lines.len(), 5, "{lines:?}");
}

#[test]
fn failures_of_servers_and_cut_requests_have_their_lines_and_queries_only_if_asked_for() {
    let (upstream, _) = Upstream::slow(ms(3000));
    let log = Log::new("cut");
    let mut config = config(&[nobody(), upstream.address], 1);
    config.timeouts.drain = ms(50);
    log.set(&mut config, LoggedTarget::PathAndQuery);
    let mut gate = Gate::start(config);
    let mut cut = gate.client();
    cut.send("GET /cut?x=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    upstream.wait_for(1);
    gate.handle.drain().unwrap();
    gate.join();
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!((&lines[0]["path"], &lines[0]["outcome"]), (&"/cut?x=1".into(), &"cut".into()));
    drop(lines);

    let log = Log::new("failed");
    let mut config = crate::support::config(&[nobody()], 1);
    log.set(&mut config, LoggedTarget::Path);
    let gate = Gate::start(config);
    assert_eq!(gate.client().get("/").status(), 502);
    gate.finish();
    let line = &log.lines()[0];
    assert_eq!((&line["outcome"], &line["reason"]), (&"failed".into(), &"connect".into()));
    assert_eq!(line["status"], 502);
}

#[test]
fn a_gate_that_leaves_is_not_ready_at_once_and_serves_until_its_delay_is_over() {
    let upstream = Upstream::echo();
    let mut config = config(&[upstream.address], 1);
    config.timeouts.drain_delay = ms(700);
    let mut gate = Gate::start(config);
    assert_eq!(admin(&gate, "GET /readyz").status(), 200);
    let mut kept = gate.client();
    kept.get("/before");
    let began = Instant::now();
    gate.handle.drain().unwrap();
    let ready = admin(&gate, "GET /readyz");
    assert_eq!((ready.status(), ready.text()), (503, "draining\n"));
    assert_eq!(admin(&gate, "GET /healthz").status(), 200, "it is well all the same");
    assert!(admin(&gate, "GET /metrics").text().contains("\nsekisho_draining 1\n"));
    // Who is connected and who connects now is served, and told to go elsewhere.
    for client in [&mut kept, &mut gate.client()] {
        let response = client.get("/x");
        assert_eq!(
            (response.text(), response.field("connection").as_deref()),
            ("/x", Some("close"))
        );
    }
    let address = gate.handle.address();
    gate.join();
    assert!(began.elapsed() >= ms(700), "{:?}", began.elapsed());
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}

#[test]
fn another_configuration_holds_at_once_and_whoever_waits_waits_on() {
    let (upstream, _) = Upstream::slow(ms(300));
    let first = config(&[upstream.address], 1);
    let gate = Gate::start(Config { classes: classes(), ..first.clone() });
    let mut clients: Vec<Client> = (0..3).map(|_| gate.client()).collect();
    for client in &mut clients {
        client.send("POST /orders HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    }
    gate.wait_for("two waiting", |stats| stats.waiting == 2);
    // The classes are others, in another order, and there is another server and another discipline.
    let second = Upstream::echo();
    let mut next = config(&[upstream.address, second.address], 1);
    next.gate.servers = vec![ServerSpec { slots: 1 }, ServerSpec { slots: 2 }];
    next.gate.discipline = DisciplineSpec::Priority;
    let [gold, writes]: [Class; 2] = classes().try_into().unwrap();
    next.classes = vec![Class { priority: 3, ..writes }, Class { name: "new".into(), ..gold }];
    next.limits.connections = 100;
    let told = gate.handle.reload(next.clone()).unwrap();
    assert_eq!(told, Vec::<String>::new());
    for client in &mut clients {
        assert_eq!(client.response().status(), 200);
    }
    assert_eq!(second.requests(), 2, "those who waited went to the new server at once");
    let stats = gate.stats();
    let names: Vec<&str> = stats.classes.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["other", "writes", "new"]);
    assert_eq!(stats.classes[1].1.hold.count(), 3, "counts go on under the class's name");
    assert_eq!(stats.traffic[1].responses(), 3);

    // What counts after a restart only is told; what cannot be is refused, and all stays.
    let listen = config(&[upstream.address, second.address], 1);
    let other = Config { listen: nobody(), gate: next.gate.clone(), ..listen };
    let told = gate.handle.reload(other).unwrap();
    assert_eq!(told, ["another address of clients counts after a restart"]);
    let refused = gate.handle.reload(config(&[second.address], 1)).unwrap_err();
    assert!(matches!(refused, ReloadError::Servers), "{refused}");
    let refused = gate.handle.reload(Config { classes: vec![Class::new("other")], ..next.clone() });
    assert!(refused.unwrap_err().to_string().contains("\"other\" is there twice"));
    assert_eq!(gate.stats().upstreams.len(), 2);

    // A server without slots gets nothing more; a paused gate stays paused.
    gate.handle.pause().unwrap();
    next.gate.servers[0].slots = 0;
    gate.handle.reload(next).unwrap();
    let mut client = gate.client();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    gate.wait_for("waiting", |stats| stats.waiting == 1);
    gate.handle.resume().unwrap();
    assert_eq!(client.response().text(), "/x");
    assert_eq!(second.requests(), 3);
}

/// The story: every reload opened the log anew, also where it was the same: one was refused where the folder was gone, and
/// one that was refused for its servers had made a file.
#[test]
fn a_log_is_opened_only_where_a_configuration_that_is_taken_has_another() {
    let upstream = Upstream::echo();
    let folder = std::env::temp_dir().join(format!("sekisho-access-gone-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("a.log");
    let with =
        |config: Config, file: &Path| Config { access_log: Some(AccessLog::named(file)), ..config };
    let gate = Gate::start(with(config(&[upstream.address], 1), &file));
    std::fs::remove_dir_all(&folder).unwrap();
    gate.handle.reload(with(config(&[upstream.address], 3), &file)).unwrap();
    assert_eq!(gate.stats().upstreams[0].slots, 3);

    let other = Log::new("other");
    let refused = gate.handle.reload(with(config(&[nobody()], 1), &other.0)).unwrap_err();
    assert!(matches!(refused, ReloadError::Servers), "{refused}");
    assert!(!other.0.exists(), "what is refused leaves no file");
    gate.handle.reload(with(config(&[upstream.address], 1), &other.0)).unwrap();
    assert_eq!(gate.client().get("/x").text(), "/x");
    drop(gate);
    assert_eq!(other.lines().len(), 1);
}

#[test]
fn a_page_from_elsewhere_cannot_read_what_is_on_this_machine() {
    let gate = Gate::start(config(&[nobody()], 1));
    let ask = |head: &str| {
        let mut client = Client::connect(gate.handle.admin_address().unwrap());
        client.send(head);
        client
    };
    for (host, status) in [("rebound.example", 421), ("localhost:9", 200), ("[::1]:9", 200)] {
        for path in ["/", "/state.json", "/metrics", "/healthz"] {
            let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            assert_eq!(ask(&head).response().status(), status, "{host}{path}");
        }
    }
    let head = ask("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n").head_response();
    assert_eq!(head.field("content-type").as_deref(), Some("text/html; charset=utf-8"));
    assert_eq!(head.field("cache-control").as_deref(), Some("no-store"));
    let state = ask("GET /state.json HTTP/1.1\r\nHost: localhost\r\n\r\n").response();
    let state: Value = serde_json::from_str(state.text()).unwrap();
    assert_eq!((&state["phase"], &state["gate"]["slots"]), (&"active".into(), &1.into()));
    assert_eq!(state["classes"][0]["name"], "other");
}
