//! A layered model says the same as the scenario that is the same model: the same error, or that it is out
//! of the method's range.

use std::fmt::Write;

use sekisho::exchange::{self, Solved};

/// Slots, and the stations behind them: kind, mean demand \[s\], squared coefficient of variation.
type Held<'a> = (u32, &'a [(&'a str, f64, f64)]);

/// Who comes: a rate [1/s], or clients with their mean pause \[s\].
#[derive(Clone, Copy)]
enum Comes {
    Open(f64),
    Clients(u32, f64),
}

fn scenario((slots, stations): Held<'_>, comes: Comes) -> String {
    let exponential = |mean: f64| format!("{{ mean = \"{mean}s\", dist = \"exponential\" }}");
    let load = match comes {
        Comes::Open(rate) => format!("rate = \"{rate}/s\""),
        Comes::Clients(clients, think) => {
            format!("population = {clients}, think = {}", exponential(think))
        }
    };
    let (mut inside, mut rows) = (Vec::new(), Vec::new());
    for (at, (kind, mean, scv)) in stations.iter().enumerate() {
        let demand = match scv {
            1.0 => exponential(*mean),
            _ => format!("{{ mean = \"{mean}s\", scv = {scv} }}"),
        };
        inside.push(format!("\"s{at}\""));
        rows.push(format!("{{ name = \"s{at}\", kind = \"{kind}\", demand = {demand} }}"));
    }
    format!(
        "sekisho = 1\nname = \"held\"\nclass = [{{ name = \"c\", {load}, route = [\"g\"] }}]\n\
         gate = [{{ name = \"g\", slots = {slots}, inside = [{}] }}]\nstation = [{}]\n",
        inside.join(", "),
        rows.join(", ")
    )
}

fn layers((slots, stations): Held<'_>, comes: Comes) -> String {
    let mut processors = String::from("p own f i\n");
    let mut tasks = format!("t pool n ask -1 own m {slots}\n");
    let mut entries = String::from("f ask 1 -1\n");
    match comes {
        Comes::Open(rate) => writeln!(entries, "a ask {rate}"),
        Comes::Clients(clients, think) => {
            writeln!(tasks, "t clients r use -1 own z {think} m {clients}").ok();
            writeln!(entries, "f use 1 -1\ny use ask 1 -1")
        }
    }
    .expect("a String takes all");
    for (at, (kind, mean, scv)) in stations.iter().enumerate() {
        let discipline = if *kind == "queue" { "f" } else { "s" };
        writeln!(processors, "p s{at} {discipline}").expect("the same");
        writeln!(tasks, "t work{at} i do{at} -1 s{at}").expect("the same");
        writeln!(entries, "y ask do{at} 1 -1\ns do{at} {mean} -1\nc do{at} {scv} -1")
            .expect("the same");
    }
    format!("G \"held\" 1e-6 100 1 0.9 -1\nP 0\n{processors}-1\nT 0\n{tasks}-1\nE 0\n{entries}-1\n")
}

fn solved(file: &str, text: &str) -> Result<Solved, String> {
    exchange::read(file, text).unwrap_or_else(|error| panic!("{error}\n{text}")).solve(None)
}

/// The story: a file of layers was solved past all that is asked of a scenario, and said "within 12 %" of
/// answers that are 49 % too short (eight slots before a queue of squared coefficient of variation 4), 76 %
/// (nested) or more than twice too long (an open load near what slots can do).
#[test]
fn a_file_of_layers_is_judged_as_the_scenario_that_it_is() {
    let (queue, shared) = ("queue", "sharing");
    let cases: [(Held<'_>, Comes); 10] = [
        ((8, &[(queue, 1.0, 4.0), (shared, 0.3, 4.0)]), Comes::Open(0.73)),
        ((4, &[(queue, 0.9, 4.0), (queue, 0.9, 4.0)]), Comes::Open(0.6)),
        ((4, &[(queue, 0.9, 1.0), (queue, 0.9, 1.0)]), Comes::Open(0.75)),
        ((3, &[(queue, 1.0, 5.0), (queue, 1.0, 1.0)]), Comes::Open(0.2)),
        ((10, &[(queue, 1.0, 1.0), (shared, 0.3, 1.0)]), Comes::Open(0.3)),
        ((8, &[(queue, 0.3, 0.5), (queue, 0.5, 0.5)]), Comes::Open(0.6)),
        ((8, &[(queue, 1.0, 1.0), (queue, 0.3, 1.0)]), Comes::Clients(20, 20.0)),
        ((3, &[(queue, 1.0, 4.0), (queue, 1.0, 4.0)]), Comes::Clients(20, 5.0)),
        ((12, &[(queue, 1.0, 0.5), (queue, 0.5, 0.5)]), Comes::Clients(100, 150.0)),
        ((4, &[(shared, 1.0, 1.0), (shared, 0.5, 1.0)]), Comes::Clients(10, 1.0)),
    ];
    let (mut answered, mut wider, mut refused) = (0, 0, 0);
    for (held, comes) in cases {
        let (text, lqn) = (scenario(held, comes), layers(held, comes));
        match (solved("m.toml", &text), solved("m.lqn", &lqn)) {
            (Ok(one), Ok(other)) => {
                assert_eq!(one.trust.error, other.trust.error, "{text}{lqn}");
                let (one_s, other_s) = (one.classes[0].response, other.classes[0].response);
                assert!((one_s / other_s - 1.0).abs() < 0.02, "{one_s} {other_s}\n{text}{lqn}");
                answered += 1;
                wider += u32::from(other.trust.error > Some(0.12));
            }
            (Err(one), Err(other)) => {
                for said in [&one, &other] {
                    let range =
                        said.contains("out of its range") || said.contains("was tried with");
                    assert!(range, "{one}\n{other}");
                }
                refused += 1;
            }
            (one, other) => panic!("{one:?}\n{other:?}\n{text}{lqn}"),
        }
    }
    // Who refuses everything says the same of everything.
    assert!(answered >= 4 && wider >= 2 && refused >= 3, "{answered} {wider} {refused}");
}

/// What gates of scenarios cannot say is judged by its parts: here a pool of two entries.
#[test]
fn what_is_no_scenario_is_judged_by_what_meets() {
    let text = |scv: f64, second: f64| {
        format!(
            "G \"two\" 1e-6 100 1 0.9 -1\nP 0\np own f i\np cpu f\n-1\nT 0\n\
             t one r use -1 own z 2.0 m 4\nt two r ask -1 own z 2.0 m 4\n\
             t pool n serve tell -1 cpu m 2\n-1\nE 0\n\
             y use serve 1 -1\nf use 1 -1\ny ask tell 1 -1\nf ask 1 -1\n\
             s serve 0.2 -1\nc serve {scv} -1\ns tell {second} -1\n-1\n"
        )
    };
    let error = |scv, second| solved("two.lqn", &text(scv, second)).map(|of| of.trust.error);
    assert_eq!(error(1.0, 0.2), Ok(Some(0.12)));
    // It was 12 % of these, too.
    assert_eq!(error(2.0, 0.2), Ok(Some(0.35)));
    assert_eq!(error(1.0, 0.1), Ok(Some(0.35)));
    let refused = error(5.0, 0.2).expect_err("it varies too much");
    assert!(refused.contains("`cpu`") && refused.contains("was tried with"), "{refused}");
    // 0.2 s and 4 ms vary together as neither does, and 4 ms wait for little else.
    let swung = error(1.0, 0.004).expect_err("no simulation knows it");
    assert!(swung.contains("out of its range"), "{swung}");
    assert!(error(1.0, 0.05).is_ok());
    assert!(error(3.9, 0.004).is_err());
}
