//! Timers of a file: set and cancelled by messages, and what an agent does when one is due.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agents::{Agent, Context, Effect, Key, Timer, TimerName};
use agents_rules::{Firing, Judgement, Message, Replay, RuleAgent, Rules, Way};
use gate::Time;
use serde_json::{Value, json};

const ORDERS: &str = r#"[agent]
state = { paid = false, reminders = 0, due = "number" }

[messages.order]
set = { paid = "false" }
timers = { remind = { after = "10m" }, look = { every = "1h" } }

[messages.paid]
set = { paid = "true" }
cancel = ["remind", "look"]

[messages.term]
fields = { moment = "number" }
set = { due = "moment" }
timers = { end = { at = "due + 60" } }

[messages.tick]
fields = { price = "number" }

[timers.remind]
set = { reminders = "reminders + 1" }
timers = { remind = { after = "1h" } }

[rules.late]
on = "timer remind"
when = "!paid"

[rules.ended]
on = "timer end"
when = "true"

[rules.too-high]
on = "tick"
when = "price > due"
"#;

fn rules(text: &str) -> Arc<Rules> {
    Rules::read("r.toml", text).unwrap_or_else(|error| panic!("{error}"))
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

/// An agent with the core's part of its timers.
struct Told {
    rules: Arc<Rules>,
    agent: RuleAgent,
    timers: BTreeMap<TimerName, Timer>,
    fired: Vec<(u64, String)>,
}

impl Told {
    fn declared(rules: &Arc<Rules>) -> Told {
        let message = rules.declaration("alice", &json!({})).unwrap();
        let agent = RuleAgent::create(Key(0), &message).unwrap();
        let (timers, fired) = (BTreeMap::new(), Vec::new());
        let mut told = Told { rules: rules.clone(), agent, timers, fired };
        told.tell(&message, 0);
        told
    }

    fn done(&mut self, now: u64, cx: &Context<Message>) {
        for (name, timer) in cx.timers_set() {
            match timer {
                Some(timer) => _ = self.timers.insert(name, timer),
                None => _ = self.timers.remove(&name),
            }
        }
        for (.., payload) in cx.notified() {
            self.fired.push((now, Firing::read(payload).unwrap().rule));
        }
    }

    fn tell(&mut self, message: &Message, now: u64) -> Effect {
        let mut cx = Context::new(at(now), Key(0), 0);
        let effect = self.agent.on(message, &mut cx).unwrap();
        self.done(now, &cx);
        effect
    }

    fn event(&mut self, name: &str, fields: Value, now: u64) -> Effect {
        let message = self.rules.event(name, &fields).unwrap();
        self.tell(&message, now)
    }

    /// All that is due by a moment fires at that moment, as after a stop.
    fn wake(&mut self, now: u64) {
        while let Some((&name, &timer)) = self.timers.iter().find(|(_, it)| it.due <= at(now)) {
            match timer.after_firing(at(now)) {
                Some(next) => _ = self.timers.insert(name, next),
                None => _ = self.timers.remove(&name),
            }
            let behind = Some(self.rules.reminder());
            let mut cx = Context::new(at(now), Key(0), 0).due_behind(behind);
            self.agent.on_timer(name, &mut cx).unwrap();
            self.done(now, &cx);
            self.keep();
        }
    }

    /// Its bytes and back; the core and the agent have the same timers.
    fn keep(&mut self) {
        let (mut cold, mut hot) = (Vec::new(), Vec::new());
        self.agent.encode_cold(&mut cold);
        self.agent.encode_hot(&mut hot);
        self.agent = RuleAgent::decode(RuleAgent::VERSION, &cold, &hot).unwrap();
        let mut own: Vec<Timer> = self.agent.timers().map(|(_, timer)| timer).collect();
        let mut core: Vec<Timer> = self.timers.values().copied().collect();
        own.sort_by_key(|timer| timer.due);
        core.sort_by_key(|timer| timer.due);
        assert_eq!(own, core);
    }

    fn set(&self) -> Vec<(String, u64)> {
        let seconds = |timer: Timer| timer.due.as_nanos() / 1_000_000_000;
        self.agent.timers().map(|(name, timer)| (name.to_owned(), seconds(timer))).collect()
    }
}

fn named(all: &[(&str, u64)]) -> Vec<(String, u64)> {
    all.iter().map(|(name, at)| ((*name).to_owned(), *at)).collect()
}

#[test]
fn a_message_sets_a_timer_and_another_cancels_it() {
    let mut told = Told::declared(&rules(ORDERS));
    told.event("order", json!({}), 100);
    assert_eq!(told.set(), named(&[("look", 3_700), ("remind", 700)]));
    // The same message once more sets it anew, and not twice.
    told.event("order", json!({}), 200);
    told.keep();
    assert_eq!(told.set(), named(&[("look", 3_800), ("remind", 800)]));
    told.wake(799);
    assert_eq!(told.fired, []);
    told.wake(800);
    assert_eq!(told.fired, [(800, "late".to_owned())]);
    // The firing set it once more.
    assert_eq!(told.set(), named(&[("look", 3_800), ("remind", 4_400)]));
    assert_eq!(told.agent.fields()["reminders"], 1.0);
    told.event("paid", json!({}), 900);
    told.keep();
    assert_eq!((told.set(), told.timers.len()), (vec![], 0));
    assert_eq!(told.event("paid", json!({}), 901), Effect::Clean, "nothing is left to cancel");
}

/// A row that was missed for sixty hours fires once, and goes on at its own moments.
#[test]
fn a_row_goes_on_after_a_stop_and_fires_once() {
    let text = ORDERS.replace("\"timer end\"", "\"timer look\"");
    let text = text.replace("timers = { end = { at = \"due + 60\" } }", "");
    let mut told = Told::declared(&rules(&text));
    told.event("order", json!({}), 0);
    told.event("paid", json!({}), 1);
    told.event("order", json!({}), 100);
    told.wake(100 + 60 * 3_600 + 5);
    let looks = told.fired.iter().filter(|(_, rule)| rule == "ended").count();
    assert_eq!(looks, 1, "{:?}", told.fired);
    assert_eq!(told.set()[0], ("look".to_owned(), 100 + 61 * 3_600));
}

/// The moment is computed from the state as the message leaves it. One that has passed is due at once.
#[test]
fn a_moment_is_an_expression() {
    let mut told = Told::declared(&rules(ORDERS));
    told.event("term", json!({ "moment": 1_000 }), 10);
    assert_eq!(told.set(), named(&[("end", 1_060)]));
    told.event("term", json!({ "moment": -5_000 }), 20);
    told.keep();
    told.wake(20);
    assert_eq!((told.fired.len(), told.set().len()), (1, 0));
    // Beyond all clocks: it never comes.
    told.event("term", json!({ "moment": 1e300 }), 30);
    told.wake(10_000_000_000);
    assert_eq!((told.fired.len(), told.set().len()), (1, 1));
    told.keep();
}

/// A file without the timer: it ends with the first message of that file, and also if it is due before.
#[test]
fn a_timer_that_the_file_has_no_more_ends() {
    let without = ORDERS.replace("look = { every = \"1h\" }", "glance = { every = \"1h\" }");
    let without = rules(&without.replace("\"look\"", "\"glance\""));
    for is_due_before in [false, true] {
        let mut told = Told::declared(&rules(ORDERS));
        told.event("order", json!({}), 0);
        told.keep();
        told.rules = without.clone();
        match is_due_before {
            true => told.wake(4_000),
            false => _ = told.tell(&without.changed(None), 4_000),
        }
        told.keep();
        assert_eq!(told.set()[0].0, "remind", "{is_due_before}");
        assert_eq!((told.set().len(), told.timers.len()), (1, 1), "{is_due_before}");
    }
    // One that the file has still goes on, also with another span from its next setting on.
    let mut told = Told::declared(&rules(ORDERS));
    told.event("order", json!({}), 0);
    told.rules = rules(&ORDERS.replace("after = \"10m\"", "after = \"20m\""));
    let changed = told.rules.changed(None);
    told.tell(&changed, 10);
    assert_eq!(told.set()[1], ("remind".to_owned(), 600));
    assert_ne!(rules(ORDERS).fingerprint(), without.fingerprint(), "all agents are told");
    assert_eq!(rules(ORDERS).fingerprint(), told.rules.fingerprint(), "nobody needs to be told");
}

/// A timer whose deeds fail says so, and an agent without rules says that.
#[test]
fn a_timer_that_fails_is_told_by_its_name() {
    let text = ORDERS.replace("reminders + 1", "reminders / (reminders - reminders)");
    let mut told = Told::declared(&rules(&text));
    told.event("order", json!({}), 0);
    let name = *told.timers.iter().find(|(_, timer)| timer.every.is_none()).unwrap().0;
    let mut alone = Context::new(at(600), Key(0), 0);
    let failure = told.agent.on_timer(name, &mut alone).unwrap_err();
    assert_eq!(failure.0, "the timer `remind`: no rules hold");
    let mut cx = Context::new(at(600), Key(0), 0).due_behind(Some(told.rules.reminder()));
    let failure = told.agent.on_timer(name, &mut cx).unwrap_err();
    assert_eq!(failure.0, "the timer `remind`: `reminders` would be no number");
}

/// Messages that set or cancel timers must reach all whom they are for, whatever their rules compare.
#[test]
fn a_message_with_timers_asks_all() {
    let way = |text: &str, rule: &str| {
        let all = rules(text).summary();
        let found = all.into_iter().find(|summary| summary.name == rule).unwrap();
        (found.way, found.why)
    };
    assert_eq!(way(ORDERS, "too-high").0, Way::Bounds);
    let own = (Way::Own, "the firing of a timer is its agent's alone".to_owned());
    assert_eq!(way(ORDERS, "late"), own);
    for more in ["timers = { look = { every = \"1h\" } }", "cancel = [\"look\"]"] {
        let from = "[messages.tick]\n";
        let text = ORDERS.replace(from, &format!("{from}{more}\n"));
        let why = "`tick` sets or cancels timers of every agent that it is for".to_owned();
        assert_eq!(way(&text, "too-high"), (Way::All, why));
        let read = rules(&text);
        let tick = read.event("tick", &json!({ "price": 1 })).unwrap();
        let (_, audience) = read.concerned(&tick);
        assert_eq!(audience, agents::Audience::Everyone);
    }
    let summary = rules(ORDERS).timers();
    let remind = summary.iter().find(|timer| timer.name == "remind").unwrap();
    let set: Vec<(&str, &str)> = remind.set_by.iter().map(|(a, b)| (&**a, &**b)).collect();
    assert_eq!(set, [("order", "after 10m"), ("timer remind", "after 1h")]);
    assert_eq!(remind.cancelled_by, ["paid"]);
    // Nobody sends a firing.
    let read = rules(ORDERS);
    assert!(read.messages().all(|name| !name.starts_with("timer ")));
    let refused = read.event("timer remind", &json!({})).unwrap_err().to_string();
    assert!(refused.starts_with("unknown message `timer remind`"), "{refused}");
}

/// A copy that is given the same messages has the same timers, and tells what they did.
#[test]
fn a_replay_wakes_as_the_agent_did() {
    let rules = rules(ORDERS);
    let declared = rules.declaration("alice", &json!({})).unwrap();
    let mut replay = Replay::declared(Key(0), &declared).unwrap();
    replay.give(&declared, at(0));
    replay.give(&rules.event("order", &json!({})).unwrap(), at(0));
    assert_eq!(replay.wake(at(599)), None);
    let rang: Vec<_> = std::iter::from_fn(|| replay.wake(at(2 * 3_600))).collect();
    let told: Vec<(&str, Time)> = rang.iter().map(|it| (&*it.timer, it.at)).collect();
    let moments = [("remind", 600), ("look", 3_600), ("remind", 4_200), ("look", 7_200)];
    assert_eq!(told, moments.map(|(name, seconds)| (name, at(seconds))));
    assert_eq!(rang[0].judged.rules, [("late".to_owned(), Judgement::Fired)]);
    assert_eq!(rang[2].judged.changed["reminders"], 2.0);
    // The state of today, with timers that its owner has set, begins without any.
    let mut told = Told::declared(&rules);
    told.event("order", json!({}), 0);
    let mut begun = Replay::begun(told.agent, Key(0), &rules, at(0));
    assert_eq!(begun.wake(at(1_000_000)), None);
}
