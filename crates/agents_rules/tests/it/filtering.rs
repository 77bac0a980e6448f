//! Filters: conditions on states alone, by plain operations or by the interpreter.

use std::sync::Arc;

use agents::{Agent, Context};
use agents_rules::{RuleAgent, Rules};
use gate::Time;
use serde_json::json;

fn rules() -> Arc<Rules> {
    let text = "[agent]\nstate = { owner = \"text\", high = \"number\", on = \"bool\", count = 2 }\n\
                [messages.tick]\nfields = { price = \"number\" }\n";
    Rules::read("r.toml", text).unwrap()
}

/// An agent with these fields, as a store gives it.
fn agent(rules: &Arc<Rules>, state: &serde_json::Value) -> RuleAgent {
    let declared = rules.declaration("a", state).unwrap();
    let key = rules.key("a").unwrap();
    let mut agent = RuleAgent::create(key, &declared).unwrap();
    agent.on(&declared, &mut Context::new(Time::ZERO, key, 0)).unwrap();
    let (mut cold, mut hot) = (Vec::new(), Vec::new());
    agent.encode_cold(&mut cold);
    agent.encode_hot(&mut hot);
    RuleAgent::decode(RuleAgent::VERSION, &cold, &hot).unwrap()
}

#[test]
fn a_filter_selects_by_the_state() {
    let rules = rules();
    let full = json!({"owner": "ann", "high": 110, "on": true});
    for (text, of_full, of_owner) in [
        ("high > 100 && owner == 'ann'", true, false),
        ("high > 110 || on", true, false),
        ("!on", false, false),
        ("owner == 'bob'", false, true),
        ("owner.startsWith('a')", true, false),
        ("owner in ['bob', 'ann'] && count + 1 > 2.5", true, true),
        ("['x', 'b'].exists(it, owner.startsWith(it))", false, true),
    ] {
        let filter = rules.filter(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let owner = json!({"owner": "bob"});
        let holds = [&full, &owner].map(|state| filter.holds(&mut agent(&rules, state)).unwrap());
        assert_eq!(holds, [of_full, of_owner], "{text}");
    }
    let filter = rules.filter("owner.matches(owner)").unwrap();
    let cause = filter.holds(&mut agent(&rules, &json!({"owner": "["}))).unwrap_err();
    assert!(cause.contains("regex"), "{cause}");
}

#[test]
fn a_filter_that_is_wrong_is_told_with_its_place() {
    let long = format!("owner == '{}'", "x".repeat(2_000));
    for (text, told) in [
        ("hihg > 1", "where:1:1: unknown name `hihg`; did you mean `high`?"),
        ("high > 1 && price > 2", "where:1:13: unknown name `price`; "),
        ("high + 1", "where:1:1: it gives a number, and true or false is wanted"),
        ("high > owner", "where:1:1: a number is wanted on each side, and here is a text"),
        ("", "where:1:1: it is no expression of CEL: "),
        ("high >", "where:1:6: it is no expression of CEL: "),
        ("[1, 2].all(a, [1, 2].all(b, a < 3 && b < high))", "where:1:1: a filter has no map"),
        ("{'a': [1].all(a, [1].all(b, true))}['a']", "where:1:1: a filter has no map"),
        (&long, "where: a condition has at most 2000 bytes"),
    ] {
        let error = rules().filter(text).expect_err(text).to_string();
        assert!(error.starts_with(told), "{text}: {error}");
    }
}
