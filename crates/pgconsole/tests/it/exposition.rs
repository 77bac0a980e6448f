//! A strict reader of Prometheus' exposition format, for the metrics of both gates.

use std::collections::{BTreeMap, BTreeSet};

/// A sample: its name, its labels and its value.
pub(crate) type Sample = (String, BTreeMap<String, String>, f64);

/// Reads the exposition format strictly: each family once with HELP and TYPE before its samples, no
/// series twice, labels unescaped. The types of the families, and the samples.
pub(crate) fn read(text: &str) -> (BTreeMap<String, String>, Vec<Sample>) {
    let (mut families, mut samples) = (BTreeMap::new(), Vec::new());
    let (mut family, mut series) = (String::new(), BTreeSet::new());
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            assert!(help.ends_with('.'), "{line}");
            family = name.to_owned();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(name, family);
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert!(families.insert(family.clone(), kind.to_owned()).is_none(), "{name} twice");
        } else {
            let (name, labels, value) = sample(line);
            let kind = &families[&family];
            let parts = ["_bucket", "_sum", "_count"].map(|part| format!("{family}{part}"));
            let belongs = if kind == "histogram" { parts.contains(&name) } else { name == family };
            assert!(belongs, "{line} in {family}");
            assert!(series.insert((name.clone(), labels.clone())), "{line} twice");
            samples.push((name, labels, value));
        }
    }
    (families, samples)
}

fn sample(line: &str) -> Sample {
    let name_end = line.find(['{', ' ']).unwrap();
    let (name, mut rest) = line.split_at(name_end);
    let letter = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    assert!(name.chars().all(letter), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").unwrap();
            assert!(label.chars().all(letter), "{line}");
            let mut letters = after.char_indices();
            let mut value = String::new();
            let end = loop {
                match letters.next().unwrap() {
                    (at, '"') => break at,
                    (_, '\\') => value.push(match letters.next().unwrap().1 {
                        'n' => '\n',
                        other @ ('\\' | '"') => other,
                        other => panic!("\\{other} in {line}"),
                    }),
                    (_, other) => value.push(other),
                }
            };
            assert!(labels.insert(label.to_owned(), value).is_none(), "{line}");
            rest = &after[end + 1..];
            match rest.strip_prefix(',') {
                Some(after) => rest = after,
                None => break,
            }
        }
        rest = rest.strip_prefix('}').unwrap();
    }
    let value = rest.strip_prefix(' ').unwrap().parse().unwrap();
    (name.to_owned(), labels, value)
}
