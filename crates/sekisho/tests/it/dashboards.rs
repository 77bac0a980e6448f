//! The dashboards of Grafana and the alerts of Prometheus: every metric and label that they name is told by a
//! gate, and promtool takes the rules, their tests, and what the gates tell.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::gate_metrics::{exposition, http_metrics};
use crate::gate_page::sample;

fn contrib(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib").join(name)
}

/// Names of metrics, and of labels, in what a gate tells.
fn told(text: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let (_, samples) = exposition::read(text);
    let labels = samples.iter().flat_map(|(_, labels, _)| labels.keys().cloned());
    // The model has none before it is fitted.
    let model = ["sekisho_model", "sekisho_model_happened"].map(str::to_owned);
    let labels = labels.chain(["of", "what", "unit"].map(str::to_owned)).collect();
    (samples.iter().map(|(name, ..)| name.clone()).chain(model).collect(), labels)
}

/// The words of a query, outside of quotation marks.
fn words(query: &str) -> Vec<&str> {
    let bare = query.split('"').step_by(2);
    let word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    bare.flat_map(|part| part.split(word)).filter(|word| !word.is_empty()).collect()
}

/// The words of PromQL and of Grafana that the queries use.
const LANGUAGE: [&str; 26] = [
    "and",
    "by",
    "clamp_min",
    "histogram_quantile",
    "increase",
    "instance",
    "label_values",
    "max",
    "min",
    "offset",
    "on",
    "rate",
    "resets",
    "sum",
    "unless",
    "__rate_interval",
    "5m",
    "10m",
    "15m",
    "1h",
    "0",
    "1",
    "0.5",
    "3",
    "10",
    "le",
];

#[track_caller]
fn is_told(query: &str, names: &BTreeSet<String>, labels: &BTreeSet<String>) -> Vec<String> {
    let mut asked = Vec::new();
    for word in words(query) {
        if word.starts_with("sekisho_") {
            assert!(names.contains(word), "no gate tells {word}: {query}");
            asked.push(word.to_owned());
            continue;
        }
        let known =
            LANGUAGE.contains(&word) || word.parse::<f64>().is_ok() || labels.contains(word);
        assert!(known, "{word} in {query}");
    }
    asked
}

fn queries(of: &Value, into: &mut Vec<String>) {
    match of {
        Value::Object(fields) => {
            for (key, value) in fields {
                match (&**key, value) {
                    ("expr" | "query", Value::String(text)) if text.contains('_') => {
                        into.push(text.clone());
                    }
                    _ => queries(value, into),
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|one| queries(one, into)),
        _ => {}
    }
}

#[test]
fn every_query_of_the_dashboards_names_metrics_and_labels_that_the_gate_tells() {
    let postgres = pgconsole::prometheus(&sample::filled());
    for (file, text) in [("http", http_metrics()), ("postgres", postgres)] {
        let (names, labels) = told(&text);
        let file = contrib(&format!("grafana/sekisho-{file}.json"));
        let dashboard = std::fs::read_to_string(&file).expect("it is in the repository");
        let dashboard: Value = serde_json::from_str(&dashboard).expect("it is JSON");
        let mut found = Vec::new();
        queries(&dashboard, &mut found);
        let asked: BTreeSet<String> =
            found.iter().flat_map(|query| is_told(query, &names, &labels)).collect();
        assert!(found.len() > 20 && asked.len() > 15, "{}: {asked:?}", file.display());
        let panels = dashboard["panels"].as_array().expect("it has panels");
        let ids: BTreeSet<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
        assert_eq!(ids.len(), panels.len(), "each panel has its own number");
    }
}

#[test]
fn every_alert_names_metrics_and_labels_that_a_gate_tells() {
    let (mut names, mut labels) = told(&http_metrics());
    let (more, further) = told(&pgconsole::prometheus(&sample::filled()));
    names.extend(more);
    labels.extend(further);
    let rules = std::fs::read_to_string(contrib("prometheus/sekisho-alerts.yml"));
    let rules = rules.expect("it is in the repository");
    let mut asked = Vec::new();
    for rule in rules.split("- alert: ").skip(1) {
        let (_, rest) = rule.split_once("expr:").expect("an alert has a query");
        let end = [rest.find("\n        for:"), rest.find("\n        labels:")];
        let end = end.into_iter().flatten().min().expect("labels stand behind it");
        asked.extend(is_told(rest[..end].trim_start_matches([' ', '|']), &names, &labels));
    }
    assert!(asked.len() > 15, "{asked:?}");
}

/// Runs promtool, which must find nothing wrong.
#[track_caller]
fn promtool(words: &[&str], input: &str) {
    let child = Command::new("promtool")
        .args(words)
        .current_dir(contrib("prometheus"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.unwrap_or_else(|error| {
        panic!(
            "this test needs promtool ({error}); run:\n    \
             sudo apt-get install --yes --no-install-recommends prometheus"
        )
    });
    let mut pipe = child.stdin.take().expect("piped above");
    pipe.write_all(input.as_bytes()).expect("it reads");
    drop(pipe);
    let ended = child.wait_with_output().expect("it ends");
    assert!(ended.status.success(), "{words:?}: {ended:?}");
}

#[test]
fn promtool_takes_the_alerts_their_tests_and_what_the_gates_tell() {
    promtool(&["check", "rules", "sekisho-alerts.yml"], "");
    promtool(&["test", "rules", "sekisho-alerts.test.yml"], "");
    promtool(&["check", "metrics"], &http_metrics());
    promtool(&["check", "metrics"], &pgconsole::prometheus(&sample::filled()));
}
