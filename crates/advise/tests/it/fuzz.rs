//! Scenario files mutated by chance: reading, compiling and simulating them ends in an answer or an
//! error, never in a panic, and never not at all.

use advise::{Scenario, formula};
use rand::RngExt;
use sim::{Class, Demand, Load, Network, Options, Sizes, Step};
use workload::{Chance, stream};

use crate::scenario::ALL;

/// Texts that a mutation may put in: units, words of the format, numbers at the edge.
const WORDS: [&str; 44] = [
    "0",
    "1",
    "-1",
    "0.5",
    "0.999999",
    "1e300",
    "nan",
    "inf",
    "4294967295",
    "\"0s\"",
    "\"1ns\"",
    "\"1d\"",
    "\"1e9d\"",
    "\"1/s\"",
    "\"1e9/s\"",
    "\"1e-6/s\"",
    "\"5TB\"",
    "\"1us/kB\"",
    "\"server\"",
    "\"cpu\"",
    "\"disk\"",
    "\"pool\"",
    "\"farm\"",
    "\"net\"",
    "\"web\"",
    "\"webstone\"",
    "\"exponential\"",
    "\"erlang\"",
    "\"fair-share\"",
    "\"sharing\"",
    "\"delay\"",
    "\"queue\"",
    "\"lifo\"",
    "\"random\"",
    "repeat = 0.9, ",
    "slots = 1\n",
    "room = 0\n",
    "quantum = \"1us\"\n",
    "[[gate]]\n",
    "[[class]]\n",
    "{",
    "}",
    "[",
    "]",
];

/// The text with a few random changes.
fn mutated(text: &str, chance: &mut Chance) -> String {
    let mut text: Vec<char> = text.chars().collect();
    for _ in 0..chance.random_range(1..4) {
        let at = chance.random_range(0..text.len());
        // A token, from a boundary to the next, is what most mistakes of people are made of.
        let is_end = |c: &char| " ,\n=[]{}".contains(*c);
        let end = text[at..].iter().position(is_end).map_or(text.len(), |length| at + length);
        let word = || WORDS;
        match chance.random_range(0..6) {
            0 => drop(text.drain(at..end)),
            1 | 2 => {
                let word = word()[chance.random_range(0..WORDS.len())];
                let start = text[..at].iter().rposition(is_end).map_or(0, |at| at + 1);
                drop(text.splice(start..end.max(start), word.chars()));
            }
            3 => {
                let letter = char::from(chance.random_range(b' '..=b'~'));
                text[at] = letter;
            }
            4 => {
                // A line twice.
                let start = text[..at].iter().rposition(|c| *c == '\n').map_or(0, |at| at + 1);
                let length = text[at..].iter().position(|c| *c == '\n').unwrap_or(0);
                let line: Vec<char> = text[start..(at + length + 1).min(text.len())].to_vec();
                drop(text.splice(start..start, line));
            }
            _ => {
                let digits: Vec<usize> =
                    (0..text.len()).filter(|&n| text[n].is_ascii_digit()).collect();
                if let Some(&digit) = digits.get(chance.random_range(0..digits.len().max(1))) {
                    text[digit] = char::from(chance.random_range(b'0'..=b'9'));
                }
            }
        }
        if text.is_empty() {
            text.push('\n');
        }
    }
    text.into_iter().collect()
}

/// About how many events a job costs.
fn events(network: &Network, class: &Class, steps: &[Step]) -> f64 {
    let size = match &class.sizes {
        Sizes::None => 0.0,
        Sizes::Documents(set, _) => set.mean_of(|document| document.bytes as f64),
        Sizes::Drawn(dist) => dist.mean(),
    };
    let slices = |demand: &Demand| {
        let mean = match demand {
            Demand::Drawn(dist) => dist.mean(),
            Demand::OfSize { per_byte_s, base_s } => per_byte_s * size + base_s,
            Demand::OfDocument(_) => unreachable!("scenarios have none"),
            Demand::OfTrace => 1.0,
        };
        let quantum = network.stations.iter().filter_map(|station| match station.kind {
            sim::StationKind::FairShare { quantum_s, .. } => Some(quantum_s),
            _ => None,
        });
        1.0 + mean / quantum.fold(f64::INFINITY, f64::min)
    };
    let one = |step: &Step| match step {
        Step::Visit { demand, .. } | Step::VisitServer { demand } => slices(demand),
        Step::Hold { inside, .. } => 1.0 + events(network, class, inside),
        Step::Choose(ways) => {
            ways.iter().map(|(chance, steps)| chance * events(network, class, steps)).sum()
        }
        Step::Repeat { again, steps } => events(network, class, steps) / (1.0 - again),
        Step::Reply | Step::Become { .. } => 0.0,
        Step::Send { way } => events(network, class, way),
        Step::Fork { ways, .. } => ways.iter().map(|way| events(network, class, way)).sum(),
        Step::Lookup { hit, miss, .. } => {
            events(network, class, hit) + events(network, class, miss)
        }
    };
    steps.iter().map(one).sum()
}

/// True if a short simulation is short in real time too.
fn is_cheap(network: &Network) -> bool {
    let small = |class: &Class| match class.load {
        Load::Closed { population, .. } => population <= 1_000,
        Load::Open(_) | Load::Within => true,
        // What lasts a set time may bring any number of jobs.
        Load::Varying(_) | Load::Trace(_) => false,
    };
    let slots = network.gates.iter().flat_map(|gate| &gate.spec.servers).map(|server| server.slots);
    slots.sum::<u32>() <= 100_000
        && network
            .classes
            .iter()
            .all(|class| small(class) && events(network, class, &class.route) <= 200.0)
}

#[test]
fn a_mutated_scenario_gives_an_answer_or_an_error() {
    let corpus = [
        ALL,
        include_str!("../../../../studies/fujita/lps-r4.toml"),
        include_str!("../../../../studies/fujita/webstone-r16.toml"),
        include_str!("../../../../studies/ohmae/software-bottleneck.toml"),
        include_str!("../../../../studies/ohmae/scan-stations.toml"),
    ];
    let (mut read, mut compiled, mut simulated, mut answered) = (0, 0, 0, 0);
    for seed in 0..if crate::is_long() { 60_000 } else { 3_000 } {
        // Shown if a panic follows: the seed is what replays it.
        println!("seed {seed}");
        let mut chance = stream(seed, 0);
        let text = mutated(corpus[chance.random_range(0..corpus.len())], &mut chance);
        let Ok(scenario) = toml::from_str::<Scenario>(&text) else { continue };
        read += 1;
        let Ok(network) = scenario.network() else { continue };
        compiled += 1;
        if let Ok(answer) = formula(&scenario) {
            answered += 1;
            let sound = answer.throughput > 0.0 && answer.response >= 0.0;
            assert!(sound && answer.response.is_finite(), "{answer:?} of\n{text}");
        }
        if compiled % 4 == 0 && is_cheap(&network) {
            let options = Options {
                seed,
                plan: sim::Plan::Replications(2),
                precision: 1.0,
                completions_max: 2_000,
                threads: Some(1),
                ..Options::default()
            };
            if let Ok(outcome) = sim::run(&network, &options) {
                simulated += 1;
                assert!(outcome.classes.iter().all(|class| class.throughput.mean >= 0.0));
            }
        }
    }
    // Mutations that break everything would test nothing behind the parser.
    assert!(read >= 500, "{read} were read");
    assert!(compiled >= 250, "{compiled} were compiled");
    assert!(simulated >= 50, "{simulated} were simulated");
    assert!(answered >= 50, "{answered} were answered by a formula");
}
