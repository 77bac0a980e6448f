//! The metrics and the JSON.

use live::BUCKETS;
use pgconsole::{
    CLASSES_MAX, Class, ClientState, LIST_MAX, Pool, Snapshot, prometheus, state_json,
};
use serde_json::{Value, json};

use super::exposition::{Sample, read};
use super::sample::{empty, filled};

fn value(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> f64 {
    let found: Vec<_> = samples
        .iter()
        .filter(|(one, has, _)| {
            one == name && labels.iter().all(|&(l, v)| has.get(l).is_some_and(|has| has == v))
        })
        .collect();
    assert_eq!(found.len(), 1, "{name} {labels:?}: {found:?}");
    found[0].2
}

#[test]
fn metrics_say_what_the_snapshot_says() {
    let (families, samples) = read(&prometheus(&filled()));
    assert_eq!(families["sekisho_wait_seconds"], "histogram");
    let alice = [("database", "shop"), ("user", "alice")];
    let web = [alice[0], alice[1], ("class", "web")];
    let with = |label| [web[0], web[1], web[2], label];
    for (name, labels, wanted) in [
        ("sekisho_connections", &[][..], 29.0),
        ("sekisho_connections_accepted_total", &[], 41.0),
        ("sekisho_logging_in", &[], 1.0),
        ("sekisho_logins_failed_total", &[], 2.0),
        ("sekisho_log_lines_lost_total", &[], 7.0),
        ("sekisho_build_info", &[("version", "0.1.0"), ("gate", "postgres")], 1.0),
        ("sekisho_over_all_slots", &[], 10.0),
        ("sekisho_server_up", &[alice[0], alice[1], ("server", "10.0.0.1:5432")], 1.0),
        ("sekisho_server_slots", &[alice[0], alice[1], ("server", "10.0.0.1:5432")], 4.0),
        ("sekisho_server_started_total", &alice, 998.0),
        ("sekisho_classes_left_out", &[], 0.0),
        ("sekisho_slots", &alice, 4.0),
        ("sekisho_slots_busy", &alice, 4.0),
        ("sekisho_slots_dropped_total", &alice, 3.0),
        ("sekisho_wait_oldest_seconds", &alice, 2.500_123),
        ("sekisho_clients", &[alice[0], alice[1], ("state", "waiting")], 2.0),
        ("sekisho_servers", &[alice[0], alice[1], ("state", "idle")], 1.0),
        ("sekisho_transactions_total", &alice, 998.0),
        ("sekisho_transaction_seconds_total", &alice, 20.0),
        ("sekisho_sent_bytes_total", &alice, 7_654_321.0),
        ("sekisho_waiting", &web, 2.0),
        ("sekisho_refused_total", &with(("reason", "deadline")), 5.0),
        ("sekisho_reneged_total", &web, 1.0),
        ("sekisho_hold_seconds_count", &web, 900.0),
        ("sekisho_hold_seconds_bucket", &with(("le", "+Inf")), 900.0),
        ("sekisho_pinned", &alice, 1.0),
        ("sekisho_pinned_cost_slots", &alice, 0.75),
        ("sekisho_pinned_cost_slots", &[("database", "stock")], 0.0),
        ("sekisho_model", &[("what", "throughput")], 191.5),
        ("sekisho_model_happened", &[("what", "throughput")], 188.2),
        // A name with a quotation mark and a backslash is read back as it is.
        ("sekisho_slots", &[("user", "bo\"b\\")], 4.0),
    ] {
        assert_eq!(value(&samples, name, labels), wanted, "{name}");
    }
    let mut before = 0.0;
    for bound in BUCKETS {
        let le = (bound as f64 / 1e6).to_string();
        let labels = [web[0], web[1], web[2], ("le", le.as_str())];
        let now = value(&samples, "sekisho_wait_seconds_bucket", &labels);
        assert!(now >= before, "{le}");
        before = now;
    }
    assert_eq!(before, 900.0);
}

#[test]
fn metrics_of_nothing_are_there_too() {
    let (families, samples) = read(&prometheus(&empty()));
    assert_eq!(value(&samples, "sekisho_connections", &[]), 0.0);
    assert!(families.contains_key("sekisho_hold_seconds"));
    let labelled = samples.iter().filter(|(_, labels, _)| !labels.is_empty());
    let labelled: Vec<&str> = labelled.map(|(name, ..)| &**name).collect();
    assert_eq!(labelled, ["sekisho_build_info"]);
}

/// OpenMetrics names a counter without its `_total`, so that this must not be another metric.
#[test]
fn no_metric_is_called_as_the_counter_of_another() {
    for told in [prometheus(&filled()), prometheus(&empty())] {
        let (families, _) = read(&told);
        let counters = families.keys().filter_map(|name| name.strip_suffix("_total"));
        let twice: Vec<_> = counters.filter(|name| families.contains_key(*name)).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }
}

#[test]
fn metrics_are_bounded_and_say_what_they_leave_out() {
    let class = |n: usize| Class { name: n.to_string(), ..Class::default() };
    let pool = |user: usize| Pool {
        user: user.to_string(),
        classes: (0..2).map(class).collect(),
        ..filled().pools.remove(0)
    };
    let pools = (0..CLASSES_MAX / 2 + 3).map(pool).collect();
    let (_, samples) = read(&prometheus(&Snapshot { pools, ..empty() }));
    let told = samples.iter().filter(|(name, ..)| name == "sekisho_waiting").count();
    assert_eq!(told, CLASSES_MAX);
    assert_eq!(value(&samples, "sekisho_classes_left_out", &[]), 6.0);
}

#[test]
fn json_has_those_that_wait_first_and_counts_what_it_leaves_out() {
    let state: Value = serde_json::from_str(&state_json(&filled())).unwrap();
    assert_eq!(state["at_unix_s"], json!(1_795_341_600.0));
    assert_eq!(state["phase"], json!("active"));
    assert_eq!(state["over_all"], json!({"slots": 10, "busy": 8, "waiting": 0}));
    let (first, second) = (&state["clients"][0], &state["clients"][1]);
    assert_eq!((&first["id"], &first["waited_s"]), (&json!(3), &json!(2.500_123)));
    assert_eq!((&second["id"], &second["state"]), (&json!(1), &json!("active")));
    let pool = &state["pools"][0];
    assert_eq!(pool["gate"], json!({"slots": 4, "busy": 4, "waiting": 2}));
    assert_eq!(pool["total"]["wait_s"], json!(4.0));
    assert_eq!(pool["classes"][0]["wait"]["p50_s"], json!([0.005, 0.01]));
    assert_eq!(pool["classes"][0]["wait"]["counts"].as_array().unwrap().len(), BUCKETS.len() + 1);
    assert_eq!(state["queue"][0]["left_s"], json!(117.5));
    assert_eq!(state["queue"][0]["estimate_s"], Value::Null);
    assert_eq!(state["pins"][0]["cost_slots"], json!(0.75));
    assert_eq!(state["pins"][0]["reason"], json!("LISTEN"));
    assert_eq!(state["model"][0]["interval"], json!([0.017, 0.02]));

    let idle = filled().clients.remove(1);
    let mut many = vec![idle; LIST_MAX + 50];
    many.last_mut().unwrap().state = ClientState::Waiting;
    let json = state_json(&Snapshot { clients: many, ..empty() });
    let state: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(state["clients"].as_array().unwrap().len(), LIST_MAX);
    assert_eq!(state["totals"]["clients"], json!(LIST_MAX + 50));
    assert_eq!(state["clients"][0]["state"], json!("waiting"));
}
