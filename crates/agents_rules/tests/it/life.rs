//! Agents that follow rules: what fires, when it may fire again, and that bounds lose nothing.

use std::sync::Arc;
use std::time::Duration;

use agents::{Agent, Bound, Context, Destination, Effect};
use agents_rules::{Firing, Message, RuleAgent, Rules, Way};
use agents_store::Content;
use gate::Time;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::json;

fn rules(more: &str) -> Arc<Rules> {
    let text = text(more);
    Rules::read("r.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

fn text(more: &str) -> String {
    format!(
        "[agent]\nstate = {{ symbol = \"text\", low = \"number\", high = \"number\" }}\n\
         [messages.tick]\nfields = {{ symbol = \"text\", price = \"number\" }}\n\
         [rules.limits]\non = \"tick\"\nwhen = \"price > high || price < low\"\n{more}"
    )
}

/// An agent that was declared, with its limits.
fn declared(rules: &Arc<Rules>, low: f64, high: f64) -> RuleAgent {
    let fields = json!({ "symbol": "A", "low": low, "high": high });
    let message = rules.declaration("alice", &fields).unwrap();
    let key = rules.key("alice").unwrap();
    let mut agent = RuleAgent::create(key, &message).unwrap();
    agent.on(&message, &mut Context::new(Time::ZERO, key, 0)).unwrap();
    agent
}

fn tick(rules: &Arc<Rules>, symbol: &str, price: f64) -> Message {
    rules.event("tick", &json!({ "symbol": symbol, "price": price })).unwrap()
}

/// Tells a message at a moment \[s since 1970\]; the number of firings.
fn told(agent: &mut RuleAgent, message: &Message, at: u64) -> usize {
    let now = Time::ZERO + Duration::from_secs(at);
    let mut cx = Context::new(now, agents::Key(0), 0);
    agent.on(message, &mut cx).unwrap();
    for (.., payload) in cx.notified() {
        assert_eq!(Firing::read(payload).unwrap().agent, "alice");
    }
    cx.notified().len()
}

fn fired(agent: &mut RuleAgent, rules: &Arc<Rules>, prices: &[f64]) -> Vec<usize> {
    prices.iter().map(|&price| told(agent, &tick(rules, "A", price), 0)).collect()
}

#[test]
fn a_crossing_fires_once_before_the_value_is_inside_by_the_band() {
    let rules = rules("rearm = { band = 2 }");
    let mut agent = declared(&rules, 0.0, 10.0);
    let prices = [5.0, 11.0, 12.0, 9.0, 11.0, 8.0, 11.0, -1.0, 1.0, -1.0, 2.0, -1.0];
    assert_eq!(fired(&mut agent, &rules, &prices), [0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]);
}

#[test]
fn another_symbol_is_no_business_of_it() {
    let rules = rules("");
    let mut agent = declared(&rules, 0.0, 10.0);
    assert_eq!(told(&mut agent, &tick(&rules, "B", 99.0), 0), 0);
    assert_eq!(told(&mut agent, &tick(&rules, "A", 99.0), 0), 1);
}

/// Berlin is two hours ahead of UTC in July and one in January. 21:30 UTC is quiet there in July (23:30), and
/// so is it in January (22:30); 20:30 UTC is quiet in July alone.
#[test]
fn quiet_times_follow_the_zone_through_the_year() {
    let rules = rules("quiet = \"22:00-07:00\"\nzone = \"Europe/Berlin\"\nfires = \"level\"");
    let mut agent = declared(&rules, 0.0, 10.0);
    let (january, july) = (1_768_435_200, 1_784_073_600); // 15 January and 15 July 2026, 00:00 UTC
    for (day, hour, minute, count) in [
        (january, 21, 30, 0),
        (january, 20, 30, 1),
        (july, 21, 30, 0),
        (july, 20, 30, 0),
        (july, 19, 30, 1),
    ] {
        let at = day + hour * 3_600 + minute * 60;
        assert_eq!(told(&mut agent, &tick(&rules, "A", 11.0), at), count, "{hour}:{minute}");
    }
}

/// Its bytes and back between any two messages: nothing changes.
#[test]
fn a_state_that_was_kept_goes_on_as_it_was() {
    let rules = rules("rearm = { band = 2 }\nat-most = \"2/day\"\nzone = \"UTC\"");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut kept = declared(&rules, 0.0, 10.0);
    let mut agent = declared(&rules, 0.0, 10.0);
    for _ in 0..1_000 {
        let message = tick(&rules, "A", f64::from(rng.random_range(-3_i32..14)));
        assert_eq!(told(&mut kept, &message, 0), told(&mut agent, &message, 0));
        let (mut cold, mut hot) = (Vec::new(), Vec::new());
        kept.encode_cold(&mut cold);
        kept.encode_hot(&mut hot);
        kept = RuleAgent::decode(RuleAgent::VERSION, &cold, &hot).unwrap();
        assert_eq!(kept.bounds(), agent.bounds());
    }
    for cut in 0..40 {
        assert!(RuleAgent::decode(RuleAgent::VERSION, &vec![1; cut], &[]).is_err(), "{cut}");
    }
}

fn crosses(bounds: &[Bound], to: &Destination) -> bool {
    let Destination::Crossed { symbol, price } = to else { panic!("{to:?}") };
    let is_outside = |it: &Bound| it.symbol == *symbol && (*price < it.low || *price > it.high);
    bounds.iter().any(is_outside)
}

/// 2,000 agents that are told every price beside the same ones told only what crosses their bounds.
#[test]
fn bounds_lose_no_firing() {
    let mut woken = 0;
    let mut all = 0;
    for seed in 0..2_000 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let more = [
            "",
            "rearm = { band = 1.5 }",
            "rearm = \"edit\"",
            "rearm = { after = \"7s\" }",
            "fires = \"level\"\ncooldown = \"5s\"",
            "at-creation = \"waits\"",
        ];
        let more = more[rng.random_range(0..more.len())];
        let rules = rules(more);
        let low = f64::from(rng.random_range(-5_i32..3));
        let high = f64::from(rng.random_range(-3_i32..8));
        let (mut full, mut guarded) = (declared(&rules, low, high), declared(&rules, low, high));
        for at in 0..40 {
            let message = tick(&rules, "A", f64::from(rng.random_range(-16_i32..20)) / 2.0);
            let fired = told(&mut full, &message, at);
            let is_crossed = crosses(&guarded.bounds(), &rules.concerned(&message).0);
            let guarded_fired = if is_crossed { told(&mut guarded, &message, at) } else { 0 };
            assert_eq!(fired, guarded_fired, "seed {seed}, {at}: {more} {low} {high} {message:?}");
            woken += u64::from(is_crossed);
            all += 1;
        }
    }
    assert!(woken < all * 3 / 4, "an index that wakes all is none: {woken} of {all}");
}

/// Whoever forces a way gets it, the same firings, and other bounds; one that cannot be is refused with its cause.
#[test]
fn a_way_that_is_forced_is_taken_or_refused() {
    let read = |more: &str, way| Rules::read_by("r.toml", &text(more), way);
    let better = read("", None).unwrap();
    let bounds = read("", Some(Way::Bounds)).unwrap();
    let all = read("", Some(Way::All)).unwrap();
    assert_eq!(better.fingerprint(), bounds.fingerprint());
    assert_ne!(better.fingerprint(), all.fingerprint(), "bounds must be published anew");
    let told =
        |rules: &Rules| rules.summary().into_iter().map(|it| (it.way, it.why)).next().unwrap();
    assert_eq!(told(&better).0, Way::Bounds);
    assert_eq!(told(&all), (Way::All, "`--way all` says so".to_owned()));
    let message = tick(&all, "A", 11.0);
    assert_eq!(all.concerned(&message).0, Destination::All);
    let (mut asked, mut bound) = (declared(&all, 0.0, 10.0), declared(&better, 0.0, 10.0));
    assert!(asked.bounds().is_empty() && !bound.bounds().is_empty());
    let prices = [5.0, 11.0, 12.0, 9.0, 11.0, -1.0, 5.0];
    let fired_by_all = fired(&mut asked, &all, &prices);
    assert_eq!(fired_by_all, fired(&mut bound, &better, &prices));
    assert_eq!(fired_by_all, [0, 1, 0, 0, 1, 0, 0]);
    // A second rule that is no threshold.
    let more = "[rules.other]\non = \"tick\"\nwhen = \"symbol == 'A' && price * price > high\"";
    let refused = read(more, Some(Way::Bounds)).unwrap_err().to_string();
    assert!(refused.starts_with("r.toml: `tick` cannot find agents by bounds: "), "{refused}");
    assert!(
        refused.contains("`other` is no comparison") && refused.contains("--way all"),
        "{refused}"
    );
    read(more, Some(Way::All)).unwrap();
}

#[test]
fn a_rule_that_has_changed_begins_anew_and_others_go_on() {
    let old = rules("");
    let mut agent = declared(&old, 0.0, 10.0);
    assert_eq!(fired(&mut agent, &old, &[11.0, 12.0]), [1, 0]);
    let same = rules("");
    assert_eq!(fired(&mut agent, &same, &[12.0]), [0]);
    let changed = rules("cooldown = \"1s\"");
    let mut cx = Context::new(Time::ZERO, agents::Key(0), 0);
    assert_eq!(agent.on(&changed.changed(None), &mut cx), Ok(Effect::Dirty));
    assert_eq!(fired(&mut agent, &changed, &[12.0]), [1]);
}

/// A field that got another kind, or a beginning, was once changed in memory and not in the store where no rule had
/// changed: the next change of the rules found another state in agents that were not cached.
#[test]
fn a_field_that_changes_with_the_rules_is_written() {
    let read = |field: &str| {
        let text = format!("[agent]\nstate = {{ name = \"text\"{field} }}\n[messages.order]\n");
        Rules::read("r.toml", &text).unwrap()
    };
    let bytes = |agent: &RuleAgent| {
        let (mut cold, mut hot) = (Vec::new(), Vec::new());
        agent.encode_cold(&mut cold);
        agent.encode_hot(&mut hot);
        (cold, hot)
    };
    let first = read(", it = \"text\"");
    let fields = json!({ "name": "A", "it": "seven" });
    let message = first.declaration("alice", &fields).unwrap();
    let mut cached = RuleAgent::create(agents::Key(0), &message).unwrap();
    cached.on(&message, &mut Context::new(Time::ZERO, agents::Key(0), 0)).unwrap();
    let mut row = bytes(&cached);
    for (field, wanted, value) in [
        ("", Effect::Dirty, None),
        (", it = \"text\"", Effect::Clean, None),
        (", it = 7", Effect::Dirty, Some(json!(7.0))),
        (", it = 8", Effect::Clean, Some(json!(7.0))),
        (", it = \"number\"", Effect::Clean, Some(json!(7.0))),
        (", it = \"text\"", Effect::Dirty, None),
        (", it = 8", Effect::Dirty, Some(json!(8.0))),
        (", it = true", Effect::Dirty, Some(json!(true))),
    ] {
        let mut cx = Context::new(Time::ZERO, agents::Key(0), 0);
        let effect = cached.on(&read(field).changed(None), &mut cx).unwrap();
        assert_eq!(effect, wanted, "{field}");
        if effect > Effect::Clean {
            row = bytes(&cached);
        }
        let stored = RuleAgent::decode(RuleAgent::VERSION, &row.0, &row.1).unwrap();
        assert_eq!(
            (stored.fields().get("it"), cached.fields().get("it")),
            (value.as_ref(), value.as_ref())
        );
    }
}

#[test]
fn a_message_that_was_kept_is_read_by_the_rules_of_today() {
    let rules = rules("");
    let mut bytes = Vec::new();
    tick(&rules, "A", 11.0).encode(&mut bytes);
    let mut kept = Message::decode(&bytes).unwrap();
    kept.by(&rules);
    assert_eq!(told(&mut declared(&rules, 0.0, 10.0), &kept, 0), 1);
    // Of a file that knows it no more it is a dead letter.
    let other = "[agent]\nstate = { a = \"text\" }\n[messages.other]\n";
    let other = Rules::read("o.toml", other).unwrap();
    let mut kept = Message::decode(&bytes).unwrap();
    kept.by(&other);
    let mut agent = declared(&rules, 0.0, 10.0);
    let failed = agent.on(&kept, &mut Context::new(Time::ZERO, agents::Key(0), 0)).unwrap_err();
    assert_eq!(failed.0, "unknown message `tick`; known here: other");
    // And it is kept as it was.
    let mut again = Vec::new();
    kept.encode(&mut again);
    assert_eq!(again, bytes);
}

#[test]
fn a_message_sets_fields_from_fields() {
    let text = "[agent]\nstate = { count = 0, last = \"number\" }\n\
                [messages.order]\nfields = { amount = \"number\" }\n\
                set = { count = \"count + 1\", last = \"amount\" }\n\
                [rules.third]\non = \"order\"\nwhen = \"count >= 3 && amount > 1\"\n";
    let rules = Rules::read("r.toml", text).unwrap();
    let message = rules.declaration("alice", &json!({})).unwrap();
    let mut agent = RuleAgent::create(agents::Key(0), &message).unwrap();
    agent.on(&message, &mut Context::new(Time::ZERO, agents::Key(0), 0)).unwrap();
    let order = rules.event("order", &json!({ "amount": 2 })).unwrap();
    let fired: Vec<usize> = (0..4).map(|_| told(&mut agent, &order, 0)).collect();
    assert_eq!(fired, [0, 0, 1, 0]);
    assert_eq!(agent.fields()["count"], json!(4.0));
    assert_eq!(rules.concerned(&order).0, Destination::All);
}
