//! Decisions that an agent keeps, and messages that are handled once more.

use std::sync::Arc;
use std::time::Duration;

use agents::{Agent, Context, Key};
use agents_rules::{Decision, Judgement, Message, Replay, RuleAgent, Rules};
use gate::Time;
use serde_json::json;

fn rules(more: &str) -> Arc<Rules> {
    let text = format!(
        "[agent]\nstate = {{ symbol = \"text\", high = \"number\", last = 0, note = \"text\" }}\n\
         [messages.tick]\nfields = {{ symbol = \"text\", price = \"number\" }}\n\
         set = {{ last = \"price\" }}\n\
         [rules.too-high]\non = \"tick\"\nwhen = \"price > high\"\n{more}"
    );
    Rules::read("r.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

fn tick(rules: &Arc<Rules>, symbol: &str, price: f64) -> Message {
    rules.event("tick", &json!({ "symbol": symbol, "price": price })).unwrap()
}

fn declared(rules: &Arc<Rules>, note: &str) -> (Key, Message) {
    let fields = json!({ "symbol": "A", "high": 10, "note": note });
    (rules.key("alice").unwrap(), rules.declaration("alice", &fields).unwrap())
}

fn agent(rules: &Arc<Rules>, note: &str) -> RuleAgent {
    let (key, message) = declared(rules, note);
    let mut agent = RuleAgent::create(key, &message).unwrap();
    agent.on(&message, &mut Context::new(Time::ZERO, key, 0)).unwrap();
    agent
}

fn tell(agent: &mut RuleAgent, message: &Message, now: Time, fired: u64) -> u64 {
    let mut cx = Context::new(now, Key(0), fired);
    agent.on(message, &mut cx).unwrap();
    cx.fired()
}

fn again(agent: &RuleAgent) -> RuleAgent {
    let (mut cold, mut hot) = (Vec::new(), Vec::new());
    agent.encode_cold(&mut cold);
    agent.encode_hot(&mut hot);
    RuleAgent::decode(RuleAgent::VERSION, &cold, &hot).unwrap()
}

/// What fired and what was suppressed is kept, with message and states, through the store and through a new
/// declaration; nothing else is.
#[test]
fn a_decision_is_kept_with_its_states() {
    let rules = rules("cooldown = \"1h\"");
    let mut alice = agent(&rules, "");
    let mut hot = Vec::new();
    alice.encode_hot(&mut hot);
    let mut fired = 0;
    for (seconds, price) in [(1, 9.0), (2, 11.0), (3, 8.0), (4, 12.0)] {
        fired = tell(&mut alice, &tick(&rules, "A", price), at(seconds), fired);
    }
    let alice = again(&alice);
    let [one, two] = alice.decisions() else { panic!("{:?}", alice.decisions()) };
    let message = r#"{"event":{"name":"tick","fields":{"price":11.0,"symbol":"A"}}}"#;
    assert_eq!(
        (one.at_ns, one.firing, one.message.as_deref()),
        (at(2).as_nanos(), Some(1), Some(message))
    );
    assert_eq!(one.before.as_ref().unwrap()["last"], 9.0);
    assert_eq!(json!(one.changed), json!({ "last": 11.0 }));
    let Decision { firing: None, suppressed, name, .. } = two else { panic!("{two:?}") };
    assert_eq!((&**suppressed, &**name), ("the cooldown after a firing", "too-high"));
    let mut alice = alice;
    let (_, anew) = declared(&rules, "x");
    tell(&mut alice, &anew, at(5), fired);
    assert_eq!(alice.decisions().len(), 2, "a declaration forgets nothing");
    // A state without decisions is as long as it was before they were kept.
    let mut fresh = Vec::new();
    agent(&rules, "").encode_hot(&mut fresh);
    assert_eq!(fresh.len(), hot.len());
}

/// However often it fires and however large its state is, what is kept has a bound.
#[test]
fn what_is_kept_is_bounded() {
    let rules = rules("fires = \"level\"");
    let mut alice = agent(&rules, &"x".repeat(5_000));
    let mut fired = 0;
    for n in 0..100 {
        fired = tell(&mut alice, &tick(&rules, "A", 11.0 + f64::from(n)), at(1), fired);
    }
    assert_eq!(fired, 100);
    let kept: Vec<_> = alice.decisions().iter().map(|it| it.firing).collect();
    assert_eq!(kept, [Some(97), Some(98), Some(99), Some(100)]);
    assert!(alice.decisions().iter().all(|it| it.before.is_none()), "5 kB are not kept");
    let mut hot = Vec::new();
    alice.encode_hot(&mut hot);
    assert!(hot.len() < 4_000, "{}", hot.len());
}

/// A copy that is given the same messages decides as the agent did, its timers included.
#[test]
fn a_replay_decides_as_the_agent_did() {
    let rules = rules("rearm = { after = \"10s\" }");
    let (key, message) = declared(&rules, "");
    let mut replay = Replay::declared(key, &message).unwrap();
    replay.give(&message, at(0));
    let mut ends = Vec::new();
    for (seconds, symbol, price) in
        [(1, "A", 9.0), (2, "A", 11.0), (3, "A", 12.0), (4, "B", 12.0), (13, "A", 12.0)]
    {
        let judged = replay.give(&tick(&rules, symbol, price), at(seconds));
        ends.push(judged.rules[0].1.clone());
    }
    let other = Judgement::NotConcerned("it is for another `symbol`".to_owned());
    use Judgement::{Fired, Inside, NotArmed};
    assert_eq!(ends, [Inside, Fired, NotArmed, other, Fired]);
    // With the state of today all rules begin anew.
    let mut begun = Replay::begun(agent(&rules, ""), key, &rules, at(3));
    assert_eq!(begun.give(&tick(&rules, "A", 12.0), at(3)).rules[0].1, Fired);
}
