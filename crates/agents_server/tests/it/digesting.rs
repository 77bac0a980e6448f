//! Digests: several notifications of one user in one delivery, each at least once, with its name.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use agents_rules::{Message, Rules};
use agents_server::{Server, ServerSpec};
use agents_store::{Memory, Store};
use serde_json::Value;

use crate::delivering::{accepted, spec};
use crate::mailbox::{Conduct, Mailbox, Offers};
use crate::mailing::mails;
use crate::sink::{self, Sink, request};

/// A folder of its own, that goes with it, and a store that outlives servers.
struct Place {
    folder: PathBuf,
    store: Arc<dyn Store<Message>>,
}

impl Place {
    fn new(name: &str) -> Place {
        let folder = std::env::temp_dir().join(format!("agents-{name}-{}", std::process::id()));
        fs::remove_dir_all(&folder).ok();
        Place { folder, store: Arc::new(Memory::new()) }
    }

    fn start(&self, destination: &str) -> Server {
        let spec = ServerSpec { directory: Some(self.folder.clone()), ..spec() };
        Server::start(&spec, rules(destination), self.store.clone()).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).ok();
    }
}

/// Alerts that have owners, and one destination with these lines.
fn rules(destination: &str) -> Arc<Rules> {
    let text = format!(
        "[agent]\nstate = {{ owner = \"text\", high = \"number\" }}\n\
         [messages.tick]\nfields = {{ price = \"number\" }}\n\
         [rules.too-high]\non = \"tick\"\nwhen = \"price > high\"\nnotify = [\"out\"]\n\
         [destinations.out]\n{destination}\n"
    );
    Rules::read("r.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

/// Lets agents of an owner fire, each once.
fn fire(server: &Server, owner: &str, agents: std::ops::Range<usize>) {
    for agent in agents {
        let body = format!("{{\"owner\": \"{owner}\", \"high\": 10}}");
        accepted(server, &format!("PUT /agents/{owner}{agent}"), &body);
        let line = format!("POST /agents/{owner}{agent}/messages/tick");
        accepted(server, &line, r#"{"price": 11}"#);
    }
}

#[track_caller]
fn gathered(server: &Server, wanted: u64) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let (_, _, text) = request(server.address(), "GET /metrics", &[], "");
        if text.contains(&format!("\nsekisho_agents_notifications_gathered {wanted}\n")) {
            return;
        }
        assert!(Instant::now() < until, "{text}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until nothing is kept as not delivered: a mail has come before the server has noted that.
fn all_delivered(server: &Server) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let (_, _, undelivered) = request(server.address(), "GET /undelivered", &[], "");
        if undelivered.contains("\"notifications\":[]") {
            return;
        }
        assert!(Instant::now() < until && undelivered.contains("\"attempts\":0"), "{undelivered}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn lines_with<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.strip_prefix(start)).collect()
}

/// One user's leave when there are enough of them; another's wait, also across an end of the server, and leave
/// when their time is over.
#[test]
fn a_digest_leaves_when_there_are_enough_or_when_its_time_is_over() {
    let place = Place::new("digest-mail");
    let mailbox = Mailbox::start(Conduct::Takes, Offers::Plain);
    let lines = |every: &str| {
        let more = format!(
            "tls = \"none\"\ndigest = {{ every = \"{every}\", count = 3, by = \"owner\" }}"
        );
        mails(&mailbox, "smtp", &more)
    };
    let server = place.start(&lines("1h"));
    fire(&server, "bob", 0..2);
    fire(&server, "ann", 0..3);
    let first = mailbox.wait_for(1).remove(0);
    assert_eq!(first.header("Subject"), "3 notifications: ann");
    assert!(first.header("Sekisho-Notification").starts_with("digest-"));
    let ids: BTreeSet<&str> = lines_with(first.body(), "  notification ").into_iter().collect();
    assert_eq!(ids.len(), 3, "{}", first.body());
    for agent in ["ann0", "ann1", "ann2"] {
        assert!(first.body().contains(&format!("too-high: {agent}, by the message tick")));
    }
    gathered(&server, 2);
    // None of them failed; why tells where they are.
    all_delivered(&server);
    let (_, _, why) = request(server.address(), "GET /agents/bob0/why", &[], "");
    assert!(
        why.contains("out: not sent yet; attempts: 0; it waits for the digest of bob"),
        "{why}"
    );
    let (_, _, why) = request(server.address(), "GET /agents/ann1/why", &[], "");
    assert!(why.contains("out: delivered at "), "{why}");
    let ended = server.end();
    assert_eq!((ended.notified, ended.kept, ended.gathered), (3, 0, 2), "{ended:?}");
    assert!(ended.is_drained);

    let server = place.start(&lines("1s"));
    let second = mailbox.wait_for(2).remove(1);
    assert_eq!(second.header("Subject"), "2 notifications: bob");
    assert_eq!(lines_with(second.body(), "  notification ").len(), 2);
    gathered(&server, 0);
    let ended = server.end();
    assert_eq!((ended.notified, ended.gathered), (2, 0), "{ended:?}");
}

/// A digest that fails comes again as the same one, whatever has come meanwhile.
#[test]
fn a_digest_that_failed_comes_again_under_its_name() {
    let place = Place::new("digest-hook");
    let hook = Sink::start(sink::Conduct::Fails);
    let lines = format!(
        "webhook = \"http://{}/hook\"\ndigest = {{ every = \"1h\", count = 2, by = \"owner\" }}",
        hook.address
    );
    let server = place.start(&lines);
    fire(&server, "ann", 0..2);
    let first = hook.wait_for(1).remove(0);
    fire(&server, "ann", 2..4);
    fire(&server, "bob", 0..1);
    let (_, _, told) = request(server.address(), "GET /undelivered", &[], "");
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["notifications"][0]["members"].as_array().unwrap().len(), 2, "{told}");
    server.end();
    let tried = hook.received.lock().unwrap().len();
    let server = place.start(&lines);
    // By now it has looked into its outbox again.
    hook.wait_for(tried + 2);
    hook.set(sink::Conduct::Takes);
    let until = Instant::now() + Duration::from_secs(60);
    let all = loop {
        let all = hook.received.lock().unwrap().clone();
        let names: BTreeSet<&str> = all.iter().map(|it| &*it.headers["webhook-id"]).collect();
        if names.len() == 2 {
            break all;
        }
        assert!(Instant::now() < until, "{names:?}");
        thread::sleep(Duration::from_millis(20));
    };
    let same: Vec<_> =
        all.iter().filter(|it| it.headers["webhook-id"] == first.headers["webhook-id"]).collect();
    assert!(same.len() >= 2 && same.iter().all(|it| it.body == first.body), "{same:?}");
    let body: Value = serde_json::from_str(&first.body).unwrap();
    assert_eq!((&body["by"], &body["user"]), (&"owner".into(), &"ann".into()));
    let agents = |body: &Value| {
        let all = body["notifications"].as_array().unwrap().iter();
        all.map(|it| it["agent"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(agents(&body), ["ann0", "ann1"]);
    let ids: BTreeSet<&str> = body["notifications"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 2);
    gathered(&server, 1);
}

/// A file that has no digest any more lets go what waits for one, by itself.
#[test]
fn what_waits_for_a_digest_leaves_when_the_file_has_none_any_more() {
    let place = Place::new("digest-none");
    let hook = Sink::start(sink::Conduct::Takes);
    let lines = format!("webhook = \"http://{}/hook\"\n", hook.address);
    let server = place.start(&(lines.clone() + "digest = { every = \"1h\" }"));
    fire(&server, "ann", 0..3);
    gathered(&server, 3);
    server.end();
    let server = place.start(&lines);
    let received = hook.wait_for(3);
    assert!(received.iter().all(|it| !it.headers["webhook-id"].starts_with("digest-")));
    gathered(&server, 0);
}
