//! Specifications, events and actions as files hold them.

use std::fmt::Debug;

use gate::{
    Access, Action, AtZero, CohortSpec, DisciplineSpec, EarlyRejection, Event, GateSpec, Job,
    JobId, KeyDown, KeyMap, KeyOf, Length, LoadInformation, Queues, Reason, Report, Reserve, Role,
    RouterSpec, ServerSpec, Share, Slot, Ties, Window,
};
use serde_json::{Value, from_value, json, to_value};

use crate::play::{at, ms};

/// It is written like this, and read back as it was.
fn holds<T>(value: &T, expected: Value)
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + Debug,
{
    let written = to_value(value).expect("it can be written");
    assert_eq!(written, expected);
    assert_eq!(from_value::<T>(written).expect("it can be read"), *value);
}

fn spec() -> GateSpec {
    GateSpec {
        servers: vec![ServerSpec { slots: 2 }, ServerSpec { slots: 0 }],
        queues: Queues::PerServer,
        router: RouterSpec::ShortestQueue { length: Length::InSystem, ties: Ties::Rotate },
        load_information: LoadInformation::Fresh,
        discipline: DisciplineSpec::Priority,
        room: Some(7),
        wait_max: Some(ms(1500)),
        unreachable_max: None,
        early_rejection: None,
        reserve: None,
        roles: Vec::new(),
        seed: u64::MAX,
    }
}

#[test]
fn specifications_go_round() {
    let expected = json!({
        "servers": [{"slots": 2}, {"slots": 0}],
        "queues": "per-server",
        "router": {"shortest-queue": {"length": "in-system", "ties": "rotate"}},
        "discipline": "priority",
        "room": 7,
        "wait_max": {"secs": 1, "nanos": 500_000_000},
        "seed": u64::MAX,
    });
    holds(&spec(), expected);
    for discipline in [DisciplineSpec::Fifo, DisciplineSpec::Lifo] {
        for router in [RouterSpec::Random, RouterSpec::RoundRobin] {
            let discipline = discipline.clone();
            let spec = GateSpec { discipline, router, ..GateSpec::fifo(3) };
            let written = to_value(&spec).expect("it can be written");
            assert_eq!(from_value::<GateSpec>(written).expect("it can be read"), spec);
        }
    }
}

/// Policies with parameters, as recordings keep them; and a recording made before there was load information.
#[test]
fn policies_go_round() {
    let cohort = CohortSpec { capacity: 4, run_max: 2, cached_max: None, levels: 1 };
    let expected = json!({"cohort": {"capacity": 4, "run_max": 2, "levels": 1}});
    holds(&DisciplineSpec::Cohort(cohort), expected);
    let weights = vec![2];
    let expected = json!({"deficit-round-robin": {"quantum": 5, "weights": [2]}});
    holds(&DisciplineSpec::DeficitRoundRobin { quantum: 5, weights }, expected);
    let ev = RouterSpec::Ev {
        queue: 0.1,
        utilisation: 1.0,
        length: Length::Waiting,
        at_zero: AtZero::Floor(0.3),
        window: Window::Recent(ms(1500)),
        ties: Ties::Lowest,
    };
    let window = json!({"recent": {"secs": 1, "nanos": 500_000_000}});
    let expected = json!({"ev": {
        "queue": 0.1, "utilisation": 1.0, "length": "waiting", "at_zero": {"floor": 0.3},
        "window": window, "ties": "lowest",
    }});
    holds(&ev, expected);
    let map = KeyMap::Range { bounds: vec![u64::MAX] };
    let by_key = RouterSpec::ByKey { of: KeyOf::Key, map, down: KeyDown::Wait };
    let map = json!({"range": {"bounds": [u64::MAX]}});
    holds(&by_key, json!({"by-key": {"of": "key", "map": map, "down": "wait"}}));
    let stale = GateSpec { load_information: LoadInformation::Delayed(ms(3)), ..spec() };
    let written = to_value(&stale).expect("it can be written");
    assert_eq!(written["load_information"], json!({"delayed": {"secs": 0, "nanos": 3_000_000}}));
    assert_eq!(from_value::<GateSpec>(written.clone()).expect("it can be read"), stale);
    let mut earlier = written;
    let sight = earlier.as_object_mut().unwrap().remove("load_information").unwrap();
    earlier["sight"] = sight;
    assert_eq!(from_value::<GateSpec>(earlier).expect("an earlier name"), stale);
    let report = Report { waiting: 2, utilisation: Share::new(0.25), ..Report::default() };
    let expected = json!({"waiting": 2, "busy": 0, "utilisation": 250_000});
    let expected = json!({"report": {"server": 1, "report": expected}});
    holds(&Event::Report { server: 1, report }, expected);
}

#[test]
fn events_go_round() {
    let job = Job {
        class: 3,
        priority: 200,
        key: u64::MAX,
        size: 5,
        deadline: Some(at(2)),
        ..Job::new(JobId(9))
    };
    let slot = Slot { server: 1, index: 2 };
    let all = json!({
        "id": 9, "class": 3, "priority": 200, "key": u64::MAX, "size": 5, "deadline": 2_000_000
    });
    holds(&Event::Arrive(job), json!({ "arrive": all }));
    holds(&Event::Arrive(Job::new(JobId(1))), json!({"arrive": {"id": 1}}));
    holds(&Event::Depart(slot), json!({"depart": {"server": 1, "index": 2}}));
    holds(&Event::Renege(JobId(4)), json!({"renege": 4}));
    holds(&Event::Wake, json!("wake"));
    holds(&Event::Resize { server: 1, slots: 0 }, json!({"resize": {"server": 1, "slots": 0}}));
    holds(&Event::Up(3), json!({"up": 3}));
    holds(&Event::Down(3), json!({"down": 3}));
    holds(&Event::Pause, json!("pause"));
    holds(&Event::Resume, json!("resume"));
    holds(&Event::WaitMax(Some(ms(3))), json!({"wait-max": {"secs": 0, "nanos": 3_000_000}}));
    holds(&Event::WaitMax(None), json!({"wait-max": null}));
    holds(&Event::UnreachableMax(None), json!({"unreachable-max": null}));
    holds(&Event::Room(Some(7)), json!({"room": 7}));
    holds(&Event::Room(None), json!({"room": null}));
    holds(&Event::Occupy(slot), json!({"occupy": {"server": 1, "index": 2}}));
}

#[test]
fn actions_go_round() {
    let slot = Slot { server: 0, index: 1 };
    let slot_json = json!({"server": 0, "index": 1});
    let job = JobId(5);
    holds(&Action::Start { job, slot }, json!({"start": {"job": 5, "slot": slot_json}}));
    for (reason, name) in [
        (Reason::QueueFull, "queue-full"),
        (Reason::Deadline, "deadline"),
        (Reason::Unreachable, "unreachable"),
    ] {
        holds(&Action::Refuse { job, reason }, json!({"refuse": {"job": 5, "reason": name}}));
    }
}

/// Puts an unknown key at a place of a good file.
fn spoilt<T>(value: &T, place: &str) -> Value
where
    T: serde::Serialize,
{
    let mut written = to_value(value).expect("it can be written");
    let table = written.pointer_mut(place).and_then(Value::as_object_mut).expect("a table");
    table.insert("slot_count".into(), json!(1));
    written
}

#[test]
fn unknown_keys_are_errors() {
    for place in ["", "/servers/0", "/router/shortest-queue"] {
        let error = from_value::<GateSpec>(spoilt(&spec(), place)).expect_err(place).to_string();
        assert!(error.contains("unknown field `slot_count`"), "{place}: {error}");
    }
    let slot = Slot { server: 0, index: 1 };
    for (event, place) in [
        (Event::Arrive(Job::new(JobId(1))), "/arrive"),
        (Event::Depart(slot), "/depart"),
        (Event::Resize { server: 0, slots: 1 }, "/resize"),
    ] {
        let error = from_value::<Event>(spoilt(&event, place)).expect_err(place).to_string();
        assert!(error.contains("unknown field `slot_count`"), "{place}: {error}");
    }
    let action = Action::Start { job: JobId(1), slot };
    for place in ["/start", "/start/slot"] {
        let error = from_value::<Action>(spoilt(&action, place)).expect_err(place).to_string();
        assert!(error.contains("unknown field `slot_count`"), "{place}: {error}");
    }
    assert!(from_value::<GateSpec>(json!({"servers": []})).is_err(), "keys are missing");
    assert!(from_value::<RouterSpec>(json!("shortest-queue")).is_err(), "its lengths are missing");
}

#[test]
fn policies_say_the_names_that_they_have_in_files() {
    let named = |value: serde_json::Value| match value {
        serde_json::Value::String(name) => name,
        value => value.as_object().unwrap().keys().next().unwrap().clone(),
    };
    let interval = std::time::Duration::from_secs(1);
    for policy in [
        gate::DisciplineSpec::Fifo,
        gate::DisciplineSpec::ShortestJob,
        gate::DisciplineSpec::PriorityAgeing { interval },
        gate::DisciplineSpec::DeficitRoundRobin { quantum: 1, weights: vec![] },
    ] {
        assert_eq!(policy.name(), named(serde_json::to_value(&policy).unwrap()));
    }
    for policy in [gate::RouterSpec::RoundRobin, gate::RouterSpec::Random] {
        assert_eq!(policy.name(), named(serde_json::to_value(&policy).unwrap()));
    }
}

#[test]
fn early_rejection_reserve_and_roles_go_round() {
    let mut expected = to_value(spec()).unwrap();
    let more = [
        ("early_rejection", json!({"memory": {"secs": 60, "nanos": 0}})),
        ("reserve", json!({"slots": 3, "after": {"secs": 0, "nanos": 5_000_000}})),
        ("roles", json!(["primary", "replica"])),
    ];
    for (key, value) in more {
        assert_eq!(expected.as_object_mut().unwrap().insert(key.to_owned(), value), None, "{key}");
    }
    let all = GateSpec {
        early_rejection: Some(EarlyRejection::default()),
        reserve: Some(Reserve { slots: 3, after: ms(5) }),
        roles: vec![Role::Primary, Role::Replica],
        ..spec()
    };
    holds(&all, expected);
    let role = Event::Role { server: 1, role: Role::Replica };
    holds(&role, json!({"role": {"server": 1, "role": "replica"}}));
    let reads = Job { access: Access::Read, ..Job::new(JobId(1)) };
    holds(&Event::Arrive(reads), json!({"arrive": {"id": 1, "access": "read"}}));
    let refused = Action::Refuse { job: JobId(1), reason: Reason::Hopeless };
    holds(&refused, json!({"refuse": {"job": 1, "reason": "hopeless"}}));
}
