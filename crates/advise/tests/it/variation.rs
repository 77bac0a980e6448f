//! Queues that are gone to with a slot, whose demands vary more or less than exponential ones, or differ:
//! within the stated error, or refused.

use advise::formula;

use crate::scenario::read;

const QQ: [&str; 3] = ["queue", "queue", "queue"];
const QS: [&str; 3] = ["queue", "sharing", "queue"];
const SQ: [&str; 3] = ["sharing", "queue", "queue"];

/// Slots, mean demands \[s\], their squared coefficient of variation, and the kinds of stations.
type Held = (u32, &'static [f64], f64, [&'static str; 3]);

/// Clients and their mean pause \[s\], what they go to, and the simulated mean and half-width \[s\].
type Closed = ((u32, f64), Held, (f64, f64));

fn demand(mean: f64, scv: f64) -> String {
    match scv {
        0.0 => format!("\"{mean}s\""),
        1.0 => format!("{{ mean = \"{mean}s\", dist = \"exponential\" }}"),
        _ => format!("{{ mean = \"{mean}s\", dist = \"lognormal\", scv = {scv} }}"),
    }
}

fn held(load: &str, (slots, means, scv, kinds): Held) -> String {
    let station = |(i, mean): (usize, &f64)| {
        let (kind, demand) = (kinds[i], demand(*mean, scv));
        format!("{{ name = \"s{i}\", kind = \"{kind}\", demand = {demand} }}")
    };
    let stations: Vec<String> = means.iter().enumerate().map(station).collect();
    let inside: Vec<String> = (0..means.len()).map(|i| format!("\"s{i}\"")).collect();
    format!(
        "sekisho = 1\nname = \"held\"\nclass = [{{ name = \"c\", {load}, route = [\"g\"] }}]\n\
         gate = [{{ name = \"g\", slots = {slots}, inside = [{}] }}]\nstation = [{}]\n",
        inside.join(", "),
        stations.join(", ")
    )
}

/// True if there is a formula; then it is as near to the simulated mean response as it says.
#[track_caller]
pub(crate) fn is_answered(text: &str, (mean, half): (f64, f64)) -> bool {
    match formula(&read(text)) {
        Ok(answer) => {
            let stated = answer.trust.error.expect("it is approximate");
            let off = ((answer.response - mean).abs() - half).max(0.0) / mean;
            assert!(off <= stated, "{off} and {stated}: {answer:?}\n{text}");
            true
        }
        Err(none) => {
            let none = none.to_string();
            let says = none.contains("out of its range") || none.contains("was tried with");
            assert!(says, "{none}\n{text}");
            false
        }
    }
}

/// The story: eight slots before a queue of squared coefficient of variation 4 at 0.73 were 49 % too
/// short, four before two such queues at 0.54 50 %, and constant demands up to 86 % too long, where 35 %
/// were stated. The means are those of `sekisho sim --precision 3% --seed 7`.
#[test]
fn demands_that_vary_behind_slots_are_within_what_is_said_or_refused() {
    let open: [(f64, Held, (f64, f64)); 27] = [
        (0.6, (4, &[0.9, 0.9], 4.0, QQ), (10.6, 0.2)),
        (0.73428, (8, &[1.0, 0.3], 4.0, QS), (8.366, 0.228)),
        (0.56195, (8, &[1.0, 0.3], 4.0, QS), (4.601, 0.071)),
        (1.4533, (8, &[0.3, 0.5], 4.0, SQ), (4.394, 0.099)),
        (1.11222, (8, &[0.3, 0.5], 4.0, SQ), (2.522, 0.059)),
        (0.56, (8, &[1.0, 0.3], 0.5, QS), (2.281, 0.062)),
        (0.56, (8, &[1.0, 0.3], 1.5, QS), (2.961, 0.063)),
        (0.56, (8, &[1.0, 0.3], 2.0, QS), (3.286, 0.092)),
        (0.56, (8, &[1.0, 0.3], 3.0, QS), (3.971, 0.115)),
        (1.1, (8, &[0.3, 0.5], 0.5, QQ), (1.336, 0.034)),
        (1.1, (8, &[0.3, 0.5], 2.0, QQ), (1.990, 0.053)),
        (1.1, (8, &[0.3, 0.5], 3.0, QQ), (2.438, 0.042)),
        (0.7, (20, &[1.0, 0.2], 0.5, QS), (2.966, 0.066)),
        (0.7, (20, &[1.0, 0.2], 2.0, QS), (4.786, 0.111)),
        (0.7, (20, &[1.0, 0.2], 3.0, QS), (5.937, 0.117)),
        (0.4, (3, &[1.0, 1.0], 0.5, QQ), (2.927, 0.070)),
        (0.4, (3, &[1.0, 1.0], 2.0, QQ), (4.425, 0.116)),
        (0.4, (3, &[1.0, 1.0], 3.0, QQ), (5.477, 0.099)),
        (0.72, (12, &[1.0, 0.2], 0.0, QS), (2.493, 0.058)),
        (0.68, (12, &[1.0, 1.0], 0.0, QQ), (3.056, 0.078)),
        (0.68, (12, &[1.0, 1.0], 2.0, QQ), (9.246, 0.232)),
        (0.68, (12, &[1.0, 1.0], 2.5, QQ), (10.847, 0.188)),
        (0.5, (3, &[1.0, 1.0], 0.0, QQ), (2.499, 0.030)),
        (0.5, (3, &[1.0, 1.0], 2.5, QQ), (7.382, 0.172)),
        (0.72, (12, &[0.3, 1.0], 0.0, SQ), (2.677, 0.056)),
        (0.67112, (12, &[1.0, 0.3, 1.0], 2.0, QS), (9.485, 0.267)),
        (0.51361, (12, &[1.0, 0.3, 1.0], 2.0, QS), (5.832, 0.122)),
    ];
    let answered = open
        .iter()
        .filter(|(rate, of, mean)| is_answered(&held(&format!("rate = \"{rate}/s\""), *of), *mean));
    // Who refuses everything holds everything.
    assert!(answered.count() >= 5);
    let closed: [Closed; 11] = [
        ((20, 20.0), (8, &[1.0, 0.3], 0.0, QS), (3.138, 0.047)),
        ((20, 20.0), (8, &[1.0, 0.3], 4.0, QS), (5.235, 0.102)),
        ((40, 80.0), (8, &[1.0, 0.3], 0.0, QQ), (1.743, 0.025)),
        ((40, 80.0), (8, &[1.0, 0.3], 4.0, QQ), (3.291, 0.056)),
        ((20, 5.0), (3, &[1.0, 1.0], 4.0, QQ), (25.005, 0.383)),
        ((100, 150.0), (12, &[1.0, 0.5], 0.0, QQ), (2.418, 0.047)),
        ((100, 150.0), (12, &[1.0, 0.5], 2.0, QQ), (4.386, 0.080)),
        ((100, 150.0), (12, &[1.0, 0.5], 4.0, QQ), (5.946, 0.068)),
        ((10, 1.0), (4, &[1.0, 1.0], 4.0, QQ), (13.200, 0.186)),
        ((40, 80.0), (8, &[1.0, 0.3], 0.5, QQ), (1.97, 0.02)),
        ((40, 80.0), (8, &[1.0, 0.3], 1.5, QQ), (2.41, 0.03)),
    ];
    let answered = closed.iter().filter(|((clients, think), of, mean)| {
        let think = format!("{{ mean = \"{think}s\", dist = \"exponential\" }}");
        is_answered(&held(&format!("population = {clients}, think = {think}"), *of), *mean)
    });
    assert!(answered.count() >= 1);
}

/// The story: exponential demands of 1 s and 0.1 s in one queue vary together as none of them does: with
/// slots a class's answer was 30 % too short where 20 % were stated, without any 54 and 22 % too long
/// where 12 % were.
#[test]
fn demands_that_differ_in_one_queue_are_approximate_within_more_or_refused() {
    let text = |loads: [&str; 2], second: f64| {
        let class = |name: &str, load: &str, mean: f64| {
            let demand = demand(mean, 1.0);
            format!(
                "{{ name = \"{name}\", {load}, route = [{{ visit = \"cpu\", demand = {demand} }}, \
                 \"disk\"] }}"
            )
        };
        let (a, b) = (class("a", loads[0], 1.0), class("b", loads[1], second));
        format!(
            "sekisho = 1\nname = \"two\"\nclass = [{a}, {b}]\nstation = [{{ name = \"cpu\", kind = \
             \"queue\" }}, {{ name = \"disk\", kind = \"queue\", demand = {} }}]\n",
            demand(0.1, 1.0)
        )
    };
    let clients = |count: u32, think: f64| {
        format!("population = {count}, think = {{ mean = \"{think}s\", dist = \"exponential\" }}")
    };
    // The means of both classes, by `sekisho sim --precision 2% --seed 7`.
    let cases = [
        ((5, 2.5), (1, 0.6), 0.3, [3.286, 2.472]),
        ((20, 40.0), (3, 1.8), 0.3, [2.456, 1.332]),
        ((1, 2.0), (10, 6.0), 0.3, [1.422, 1.123]),
    ];
    for (a, b, second, means) in cases {
        let text = text([&clients(a.0, a.1), &clients(b.0, b.1)], second);
        let answer = formula(&read(&text)).unwrap();
        for (class, mean) in answer.classes.iter().zip(means) {
            let off = (class.response / mean - 1.0).abs();
            assert!(off <= answer.trust.error.unwrap(), "{off}: {answer:?}");
        }
    }
    let varies = |text: &str| {
        let none = formula(&read(text)).unwrap_err().to_string();
        assert!(none.contains("what `cpu` serves in all varies more"), "{none}");
    };
    // 54 % too long: 0.858 s for 0.556.
    varies(&text([&clients(2, 4.0), &clients(3, 0.15)], 0.1));
    // Open load that holds no slot keeps its answer: 2.575 s and 1.770 s.
    let open = formula(&read(&text(["rate = \"0.4/s\"", "rate = \"3/s\""], 0.1))).unwrap();
    assert!((open.classes[1].response / 1.770 - 1.0).abs() < 0.06, "{open:?}");
    // One class goes to a queue with a slot for 1 s, then twice for 0.05 s: 2.44 s for 3.77.
    let visit = |mean| format!("{{ visit = \"cpu\", demand = {} }}", demand(mean, 1.0));
    let inside = [visit(1.0), visit(0.05), visit(0.05)].join(", ");
    let twice = format!(
        "sekisho = 1\nname = \"visits\"\nclass = [{{ name = \"c\", rate = \"0.5/s\", route = [\"g\"] }}]\n\
         gate = [{{ name = \"g\", slots = 8, inside = [{inside}] }}]\nstation = [{{ name = \"cpu\", kind \
         = \"queue\" }}]\n"
    );
    assert!(!is_answered(&twice, (3.772, 0.069)));
}

/// The story: a squared coefficient of variation of 4 at a mean of 0.9 s is 4.0000000000000009 as it is computed,
/// and was refused, "4 at the most".
#[test]
fn what_is_rounded_beyond_the_most_is_answered() {
    let varied = "{ mean = \"0.9s\", scv = 4 }";
    let text =
        held("rate = \"0.05/s\"", (4, &[0.9, 0.9], 1.0, QQ)).replace(&demand(0.9, 1.0), varied);
    assert!(text.contains(varied), "{text}");
    assert!(formula(&read(&text)).is_ok(), "{text}");
}
