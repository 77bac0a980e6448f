//! Files of other tools: what they say is read, solved, simulated and written; what is not supported is
//! named with its line, and never becomes a number.

use std::fs;
use std::path::PathBuf;

use formats::exchange::{self, Model, Shape, Solved, method, write_jmva};
use solve::{Algorithm, Load, Network, StationKind};

const JMVA: [&str; 3] = ["ring.jmva", "many-servers.jmva", "mixed.jmva"];
const LAYERED: [&str; 3] = ["pool.lqn", "pool.lqnx", "late-work.lqn"];

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/models").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(path(name)).expect("it is part of the repository")
}

#[track_caller]
fn read(name: &str, text: &str) -> Model {
    exchange::read(name, text).unwrap_or_else(|error| panic!("{error}"))
}

fn network(model: &Model) -> &Network {
    let Shape::Network(network) = &model.shape else { panic!("no network: {model:?}") };
    network
}

#[track_caller]
fn solved(name: &str) -> Solved {
    read(name, &text(name)).solve(None).unwrap_or_else(|error| panic!("{error}"))
}

/// Digit by digit, but for rounding: the numbers are those of the literature.
#[track_caller]
fn near(found: f64, wanted: f64, tolerance: f64) {
    assert!((found / wanted - 1.0).abs() <= tolerance, "{found}, not {wanted}");
}

#[test]
fn jmva_files_give_the_known_answers() {
    // Four exponential queues in a ring, 10 customers: the convolution in rational numbers.
    let ring = solved("ring.jmva");
    assert!(ring.trust.exact);
    near(ring.classes[0].throughput, 0.953_956_715_634_138, 1e-12);
    // 8 servers, 80 customers: saturated, so that R = N S / m - Z = 80 * 4 / 8 - 10 but for 1e-9.
    let many = solved("many-servers.jmva");
    near(many.classes[0].response, 30.0, 1e-6);
    assert_eq!(many.rows.len(), 1, "thinking is no station: {:?}", many.rows);
    near(many.rows[0].utilisation.expect("it is a queue"), 1.0, 1e-6);
}

#[test]
fn what_a_jmva_file_says_beside_the_model_is_a_note() {
    let ring = solved("ring.jmva");
    assert!(ring.notes.iter().any(|note| note.contains("`Linearizer`")), "{:?}", ring.notes);
    let mixed = solved("mixed.jmva");
    for wanted in ["`whatIf` is left out", "`readers` thinks at `Think`", "divided by 0.5"] {
        assert!(mixed.notes.iter().any(|note| note.contains(wanted)), "{:?}", mixed.notes);
    }
}

#[test]
fn every_element_of_a_jmva_file_means_what_it_should() {
    let model = read("mixed.jmva", &text("mixed.jmva"));
    let network = network(&model);
    assert_eq!(network.load(0), Load::Closed { customers: 6, think: 5.0 });
    // A cycle is one visit of the reference station, to which the file gives half a visit.
    assert_eq!(network.load(1), Load::Closed { customers: 3, think: 8.0 });
    assert_eq!(network.visits(0, 1), (2.0, 0.25));
    assert_eq!(network.load(2), Load::Open { rate: 0.25 });
    assert_eq!(network.class_name(2), "reports <daily>");
    assert_eq!(network.kind(0), &StationKind::Sharing { servers: 2 });
    let StationKind::Curve { rates } = network.kind(1) else { panic!("no curve") };
    assert_eq!(rates.len(), 3);
    near(rates[2], 0.2 / 0.12, 1e-15);
    assert_eq!(network.kind(2), &StationKind::Delay);
    assert_eq!(network.stations(), 3, "nobody is at `Think` but who thinks");
}

#[test]
fn what_is_written_is_read_again() {
    for name in JMVA {
        let model = read(name, &text(name));
        let network = network(&model);
        let answer = network.solve().unwrap();
        let written = write_jmva("a \"name\" & <more>", network, Some(&answer)).unwrap();
        let again = read(name, &written);
        assert_eq!(network, self::network(&again), "{name}:\n{written}");
        // And so on: a second time changes nothing at all.
        assert_eq!(
            write_jmva("a \"name\" & <more>", self::network(&again), Some(&answer)).unwrap(),
            written
        );
    }
}

#[test]
fn the_solution_that_is_written_is_the_solution() {
    let model = read("many-servers.jmva", &text("many-servers.jmva"));
    let answer = network(&model).solve().unwrap();
    let written = write_jmva("", network(&model), Some(&answer)).unwrap();
    let document = roxmltree::Document::parse(&written).unwrap();
    let station = |name: &str| {
        let mut all = document.descendants();
        all.find(|node| node.attribute("station") == Some(name)).expect("it was solved")
    };
    let value = |name: &str, kind: &str| -> f64 {
        let mut all = station(name).descendants();
        let measure = all.find(|node| node.attribute("measureType") == Some(kind)).expect(kind);
        measure.attribute("meanValue").expect("a value").parse().expect("a number")
    };
    // 80 customers: 20 think, 60 are at the desk.
    near(value("Think", "Number of Customers"), 20.0, 1e-6);
    near(value("desk", "Number of Customers"), 60.0, 1e-6);
    near(value("desk", "Residence time"), 30.0, 1e-6);
    near(value("desk", "Throughput"), 2.0, 1e-6);
    near(value("desk", "Utilization"), 1.0, 1e-6);
}

#[test]
fn names_and_numbers_of_all_kinds_come_back() {
    let mut network = Network::new();
    let odd = network.add_closed("a \"b\" & <c>\t'd' \u{e4}", 3, 0.1 + 0.2).unwrap();
    let rate = network.add_open("Think", 1e-9).unwrap();
    let curve = StationKind::Curve { rates: vec![1.0, 1.7, 2.3, 2.9] };
    let curve = network.add_station("Think", curve).unwrap();
    network.set_visits(curve, odd, 1.0 / 3.0, 0.7).unwrap();
    network.set_visits(curve, rate, 2.0, 1e-12).unwrap();
    let written = write_jmva("", &network, None).unwrap();
    let again = read("odd.jmva", &written);
    assert_eq!(&network, self::network(&again), "{written}");
}

#[test]
fn what_jmva_cannot_say_is_not_written() {
    let mut network = Network::new();
    let one = network.add_closed("one", 1, 0.0).unwrap();
    let two = network.add_closed("two", 1, 0.0).unwrap();
    let desk = network.add_station("desk", StationKind::Fifo { servers: 1 }).unwrap();
    network.set_visits(desk, one, 1.0, 1.0).unwrap();
    network.set_visits(desk, two, 1.0, 2.0).unwrap();
    let error = write_jmva("", &network, None).expect_err("it would be solved as sharing");
    assert!(error.contains("station `desk` is first in first out"), "{error}");
}

/// The message for a file with `from` replaced by `to`, which begins with the place.
#[track_caller]
fn refused(name: &str, from: &str, to: &str, line: u32, wanted: &str) {
    let text = text(name);
    assert!(text.contains(from), "`{from}` stands in {name}");
    let error = match exchange::read(name, &text.replacen(from, to, 1)) {
        Err(error) => error.to_string(),
        Ok(model) => model.solve(None).expect_err("it is wrong now"),
    };
    assert!(error.starts_with(&format!("{name}:{line}: ")), "{to}: {error}");
    assert!(error.contains(wanted), "{to}: no `{wanted}` in: {error}");
}

#[test]
fn what_is_wrong_in_a_jmva_file_is_named_with_its_line() {
    let cases = [
        ("<listation name=\"cpu\"", "<queue name=\"cpu\"", 0, "no XML"),
        ("number=\"3\"", "number=\"4\"", 5, "but 3 are there"),
        ("population=\"6\"", "population=\"0\"", 6, "the population of class `readers` is 0"),
        ("population=\"6\"", "population=\"$n\"", 6, "`$n`"),
        ("population=\"6\"", "size=\"6\" population=\"6\"", 6, "`size` of <closedclass>"),
        ("rate=\"0.25\"", "rate=\"0\"", 8, "the rate of class `reports <daily>` is 0"),
        ("rate=\"0.25\"", "rate=\"nan\"", 8, "`nan` is not a number"),
        ("rate=\"0.25\" priority=\"0\"", "rate=\"0.25\" priority=\"2\"", 8, "priorities"),
        ("rate=\"0.25\"", "rate=\"25\"", 23, "no steady state"),
        (">0.25<", ">-0.25<", 26, "`-0.25` is not a number from 0 up"),
        (
            "customerclass=\"writers\">1.0",
            "customerclass=\"writer\">1.0",
            31,
            "did you mean `writers`",
        ),
        ("0.4;0.3;0.24", "0.4;0.2;0.1", 38, "one curve"),
        ("0.4;0.3;0.24", "0.4;;0.24", 38, "`` is not a number"),
        ("0.4;0.3;0.24", "0.4;0;0.24", 38, "S(2) is 0"),
        (
            "<ldstation name=\"raid\" servers=\"1\">",
            "<ldstation name=\"raid\" servers=\"2\">",
            35,
            "`servers`",
        ),
        (
            "<delaystation name=\"line\"",
            "<delaystation name=\"cpu\"",
            47,
            "two stations are called `cpu`",
        ),
        ("refStation=\"Think\"", "refStation=\"Thinc\"", 61, "did you mean `Think`"),
        (
            "customerclass=\"readers\">1.0</visit>\n          <visit customerclass=\"writers\">0.0",
            "customerclass=\"readers\">0.0</visit>\n          <visit customerclass=\"writers\">0.0",
            47,
            "no class visits station `line`",
        ),
        ("<whatIf", "<wotIf", 66, "did you mean `whatIf`"),
    ];
    for (from, to, line, wanted) in cases {
        if line == 0 {
            let error = exchange::read("mixed.jmva", &text("mixed.jmva").replacen(from, to, 1));
            let error = error.expect_err("the end tag is another").to_string();
            assert!(error.starts_with("mixed.jmva:34: no XML: "), "{error}");
            continue;
        }
        refused("mixed.jmva", from, to, line, wanted);
    }
    let doctype =
        "<!DOCTYPE m [<!ENTITY a \"aaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;\">]><model>&b;</model>";
    let error = exchange::read("bomb.jmva", doctype).expect_err("entities grow without bound");
    assert!(error.to_string().starts_with("bomb.jmva:1: no XML"), "{error}");
}

#[test]
fn what_is_wrong_in_an_lqn_file_is_named_with_its_line() {
    let cases = [
        ("p cpu f", "p cpu h", 6, "scheduling `h` of processor `cpu`: not supported"),
        ("p cpu f", "p cpu x", 6, "`x` is no scheduling"),
        ("p cpu f", "p cpu f m 0", 6, "`0` is not a whole number"),
        ("p cpu f", "p cpu f m $cores", 6, "`$cores` is a variable"),
        ("p cpu f", "p cpu f r 2", 6, "replication: not supported"),
        ("p cpu f", "p users f", 6, "two processors are called `users`"),
        ("z 1.0 m 20", "z 1.0 i", 11, "reference task `clients` is infinite"),
        ("z 1.0 m 20", "z -1.0 m 20", 11, "the think time"),
        ("clients r use", "clients u use", 11, "scheduling `u` of task `clients`"),
        ("-1 cpu m 2", "-1 cpuu m 2", 12, "did you mean `cpu`"),
        ("-1 cpu m 2", "-1 cpu m 2 q 5", 12, "a bound on a queue"),
        ("-1 cpu m 2", "-1 cpu m 2 z 5", 12, "`pool` thinks"),
        ("y ask read 1.0 -1", "y ask reed 1.0 -1", 19, "did you mean `read`"),
        ("y ask read 1.0 -1", "y ask read 1.5 -1", 12, "a whole number"),
        ("y ask read 1.0 -1", "y ask use 1.0 -1", 12, "reference task `clients`"),
        ("y ask read 1.0 -1", "F ask read 1.0 -1", 19, "forwarding: not supported"),
        ("y ask read 1.0 -1", "A ask start", 19, "activities: not supported"),
        ("y ask read 1.0 -1", "", 13, "called by nobody"),
        ("s read 0.040 -1", "s read 0.040 0 0.01 -1", 21, "a third phase: not supported"),
        ("s read 0.040 -1", "Z read 0.040 -1", 21, "think times of phases"),
        ("s read 0.040 -1", "s read -1", 21, "no value of a phase"),
        ("s read 0.040 -1", "q read 0.040 -1", 21, "`q` says nothing of an entry"),
        ("s read 0.040 -1\n-1", "s read 0.040 -1\n-1\nA pool start 1 -1", 23, "activities"),
        ("s read 0.040 -1\n-1", "s read 0.040 -1\n-1\n$x = 3", 23, "$x"),
        ("s read 0.040 -1\n-1", "s read 0.040 -1", 21, "the file ends"),
        ("\"threads before a disk\"", "\"threads", 2, "never closed"),
    ];
    for (from, to, line, wanted) in cases {
        refused("pool.lqn", from, to, line, wanted);
    }
}

#[test]
fn what_is_wrong_in_an_lqnx_file_is_named_with_its_line() {
    let cases = [
        (
            "scheduling=\"fcfs\">\n    <result",
            "scheduling=\"hol\">\n    <result",
            15,
            "scheduling `hol`",
        ),
        ("multiplicity=\"2\"", "multiplicity=\"2\" queue-length=\"3\"", 17, "a bound on a queue"),
        ("multiplicity=\"2\"", "multiplicity=\"2\" colour=\"red\"", 17, "`colour` of <task>"),
        ("multiplicity=\"20\"", "multiplicity=\"$n\"", 5, "`$n` is a variable"),
        ("dest=\"read\"", "dest=\"raed\"", 21, "no entry is called `raed`"),
        (
            "phase=\"1\" host-demand-mean=\"0.04\"",
            "phase=\"3\" host-demand-mean=\"0.04\"",
            31,
            "a third phase",
        ),
        ("host-demand-mean=\"0.04\"", "", 31, "has no `host-demand-mean`"),
        (
            "host-demand-mean=\"0.04\"",
            "host-demand-mean=\"0.04\" think-time=\"1\"",
            31,
            "think times",
        ),
        (
            "<entry name=\"read\" type=\"PH1PH2\">",
            "<entry name=\"read\" type=\"NONE\"><forwarding dest=\"ask\" prob=\"1\"/>",
            29,
            "forwarding",
        ),
        (
            "<entry name=\"read\" type=\"PH1PH2\">",
            "<entry name=\"read\" type=\"GRAPH\">",
            29,
            "activities",
        ),
        (
            "    <task name=\"files\"",
            "    <group name=\"g\"/><task name=\"files\"",
            28,
            "processor groups",
        ),
    ];
    for (from, to, line, wanted) in cases {
        refused("pool.lqnx", from, to, line, wanted);
    }
}

#[test]
fn both_forms_of_a_layered_model_are_one_model() {
    let (text, xml) = (solved("pool.lqn"), solved("pool.lqnx"));
    assert_eq!(text.rows, xml.rows);
    // 20 clients, 2 threads: the Markov chain gives 16.1624/s where the number of reads is geometric; one
    // read each time, as here, makes it about 1 % more.
    near(text.classes[0].throughput, 16.1624, 0.03);
    assert!(text.notes[0].contains("software bottleneck") && text.notes[0].contains("`pool`"));
    let row = |station: &str| text.rows.iter().find(|row| row.station == station).expect(station);
    // With one thread held 1/0.07 requests end a second, with two 0.07/0.0037: a birth-death chain.
    near(row("pool").utilisation.expect("it has threads"), 0.8252, 0.03);
    near(row("disk").utilisation.expect("it has a server"), 16.1624 * 0.04, 0.03);
    assert_eq!(row("clients").utilisation, None);
    // Little's law: who does not think is in the pool or waits for it.
    let jobs = |station: &str| row(station).jobs.expect("it is known");
    near(jobs("clients"), jobs("pool"), 1e-6);
}

#[test]
fn second_phases_speeds_messages_and_open_arrivals_are_read() {
    let model = read("late-work.lqn", &text("late-work.lqn"));
    let Shape::Layers(layers) = &model.shape else { panic!("it is layered") };
    let serve = &layers.tasks[1].entries[0];
    // The machine is twice as fast as the one for which the demands are given.
    assert_eq!(serve.phases.each_ref().map(|phase| phase.demand), [1.0, 1.0]);
    assert_eq!(layers.tasks[1].entries[1].open_rate, 0.05);
    let found = model.solve(None).unwrap();
    for wanted in ["quantum", "priorities"] {
        assert!(found.notes.iter().any(|note| note.contains(wanted)), "{:?}", found.notes);
    }
    // Without messages and open arrivals: X = 0.4, a Markov chain of three states.
    let alone = text("late-work.lqn")
        .replace("  z go log 0.5 -1\n", "")
        .replace("a log 0.05", "a log 1e-9");
    let x = read("alone.lqn", &alone).solve(None).unwrap().classes[0].throughput;
    near(x, 0.4, 0.02);
    let error = model.scenario().expect_err("a gate has one way inside");
    assert!(error.starts_with("late-work.lqn:9: task `server` has threads and several"), "{error}");
}

/// A simulation precise enough for a test, and its mean response over all classes \[s\].
fn simulated(model: &Model) -> (f64, f64) {
    let scenario = model.scenario().expect("the model can be simulated");
    let network = scenario.network().expect("the scenario can be run");
    let options = sim::Options { precision: 0.01, ..sim::Options::default() };
    let outcome = sim::run(&network, &options).expect("the network is stable");
    let x: f64 = outcome.classes.iter().map(|class| class.throughput.mean).sum();
    let jobs = outcome.classes.iter().map(|class| {
        class.throughput.mean * class.response.as_ref().expect("it was completed").mean
    });
    (x, jobs.sum::<f64>() / x)
}

#[test]
fn what_is_read_is_simulated_as_the_same_model() {
    // Seed 1, intervals of 1 % at 95 %: 3 % is three half-widths.
    let ring = simulated(&read("ring.jmva", &text("ring.jmva")));
    near(ring.0, 0.953_956_7, 0.03);
    let many = simulated(&read("many-servers.jmva", &text("many-servers.jmva")));
    near(many.1, 30.0, 0.03);
    // The Markov chain of the pool with a geometric number of reads; one each time is about 1 % more.
    let pool = simulated(&read("pool.lqn", &text("pool.lqn")));
    near(pool.0, 16.1624, 0.03);
    // Several classes with visits of all kinds: the exact solution, without the curve.
    let text = text("mixed.jmva");
    let flat = text
        .replace("0.2;0.15;0.12;0.12", "0.2")
        .replace("0.4;0.3;0.24", "0.4")
        .replace("0.1;0.075;0.06;0.06;0.06", "0.1")
        .replace("ldstation", "listation")
        .replace("<servicetimes customerclass", "<servicetime customerclass")
        .replace("0.2</servicetimes>", "0.2</servicetime>")
        .replace("0.4</servicetimes>", "0.4</servicetime>")
        .replace("0.1</servicetimes>", "0.1</servicetime>");
    let model = read("flat.jmva", &flat);
    let exact = model.solve(None).unwrap();
    assert!(exact.trust.exact);
    let x: f64 = exact.classes.iter().map(|class| class.throughput).sum();
    let jobs: f64 = exact.classes.iter().map(|class| class.throughput * class.response).sum();
    let (found, response) = simulated(&model);
    near(found, x, 0.03);
    near(response, jobs / x, 0.04);
    // The scenario is answered by formula as the network is.
    let formula = advise::formula(&model.scenario().unwrap()).unwrap();
    near(formula.throughput, x, 1e-9);
    near(formula.response, jobs / x, 1e-9);
    let error = read("mixed.jmva", &self::text("mixed.jmva")).scenario().expect_err("a curve");
    assert!(error.starts_with("mixed.jmva:35: station `raid` has service times"), "{error}");
}

#[test]
fn a_method_is_done_or_refused() {
    let ring = read("ring.jmva", &text("ring.jmva"));
    let linearizer = ring.solve(Some(method("linearizer").unwrap())).unwrap();
    assert!(!linearizer.trust.exact && linearizer.trust.error.is_some());
    near(linearizer.classes[0].throughput, 0.953_956_7, 0.01);
    let error = method("mva").expect_err("it has no such name");
    assert!(error.contains("exact, linearizer"), "{error}");
    let pool = read("pool.lqn", &text("pool.lqn"));
    let error = pool.solve(Some(Algorithm::Exact)).expect_err("a layered model");
    assert!(error.contains("is a layered model"), "{error}");
}

/// The text with a few random changes, the kind that people and broken disks make.
fn mutated(text: &str, chance: &mut impl FnMut(usize) -> usize) -> String {
    let mut bytes: Vec<char> = text.chars().collect();
    for _ in 0..=chance(3) {
        let at = chance(bytes.len());
        let end = (at + 1 + chance(12)).min(bytes.len());
        match chance(6) {
            0 => drop(bytes.drain(at..end)),
            1 => {
                let piece: Vec<char> = bytes[at..end].to_vec();
                let to = chance(bytes.len());
                drop(bytes.splice(to..to, piece));
            }
            2 => bytes[at] = char::from(b"0123456789.-<>\"/ ;aesz#$"[chance(23)]),
            3 => bytes.truncate(at.max(1)),
            4 => {
                let words =
                    ["0", "-1", "1e400", "nan", "inf", "<a/>", "\u{0}", "9".repeat(30).leak()];
                drop(bytes.splice(at..at, words[chance(words.len())].chars()));
            }
            _ => bytes.swap(at, end - 1),
        }
    }
    bytes.into_iter().collect()
}

#[test]
fn mutated_files_end_in_an_answer_that_holds_or_in_an_error() {
    let mut state: u64 = 20_260_723;
    let mut chance = move |below: usize| {
        // Knuth's generator (MMIX): the test needs variety, not quality.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below.max(1)
    };
    let (mut read, mut answered) = (0, 0);
    for name in JMVA.iter().chain(&LAYERED) {
        let whole = text(name);
        for round in 0..250 {
            let text = mutated(&whole, &mut chance);
            let model = match exchange::read(name, &text) {
                Ok(model) => model,
                Err(error) => {
                    assert!(
                        error.to_string().starts_with(*name),
                        "{name} {round}: {error}\n{text}"
                    );
                    continue;
                }
            };
            read += 1;
            model.scenario().ok();
            let Ok(solved) = model.solve(None) else { continue };
            answered += 1;
            for row in &solved.rows {
                let numbers = exchange::cells(row).into_iter().flatten();
                for number in numbers {
                    assert!(number.is_finite() && number >= 0.0, "{name} {round}: {row:?}\n{text}");
                }
                assert!(
                    row.utilisation.is_none_or(|busy| busy <= 1.01),
                    "{round}: {row:?}\n{text}"
                );
            }
        }
    }
    assert!(
        read > 100 && answered > 50,
        "mutations that leave nothing try nothing: {read} {answered}"
    );
}

#[test]
fn a_file_that_was_cut_short_is_refused() {
    for name in JMVA.iter().chain(&LAYERED) {
        let text = text(name);
        let whole = text.trim_end().len();
        for (end, _) in text.char_indices().take_while(|(end, _)| *end < whole).step_by(7) {
            let cut = exchange::read(name, &text[..end]);
            assert!(cut.is_err(), "{name} cut after {end}: {cut:?}");
        }
    }
}
