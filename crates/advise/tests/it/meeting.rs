//! Gates that meet at a station: loads that pass different gates, or none, and share what is behind them.

use advise::{Scenario, formula};

use crate::scenario::read;

/// Classes at these rates, each behind a gate of its own of so many slots or behind none, that share a station where they
/// ask for 1 s.
fn meeting(gates: &[(f64, Option<u32>)], station: &str) -> Scenario {
    let demand = "{ mean = \"1s\", dist = \"exponential\" }";
    let class = |(at, (rate, slots)): (usize, &(f64, Option<u32>))| {
        let to = slots.map_or("a".to_owned(), |_| format!("g{at}"));
        format!("{{ name = \"c{at}\", rate = \"{rate}/s\", route = [\"{to}\"] }}")
    };
    let gate = |(at, (_, slots)): (usize, &(f64, Option<u32>))| {
        Some(format!("{{ name = \"g{at}\", slots = {}, inside = [\"a\"] }}", (*slots)?))
    };
    let classes: Vec<String> = gates.iter().enumerate().map(class).collect();
    let gates: Vec<String> = gates.iter().enumerate().filter_map(gate).collect();
    read(&format!(
        "sekisho = 1\nname = \"meeting\"\nclass = [{}]\ngate = [{}]\nstation = [{{ name = \"a\", {station}, \
         demand = {demand} }}]\n",
        classes.join(", "),
        gates.join(", ")
    ))
}

/// The story: two gates of two slots before one processor, 0.45/s each, were answered by 6.59 s "within 20 %". Whoever
/// waits where, one of them is served whenever anybody is there, so that the number of jobs is that of M/M/1: 10 s.
#[test]
fn open_loads_of_several_gates_at_one_station_are_within_the_error_or_refused() {
    let (mut answered, mut refused, mut worst) = (0, 0, 0.0_f64);
    // Many gates of many slots take the layered model seconds.
    let sizes = [(2, 1), (2, 2), (2, 4), (2, 16), (3, 1), (3, 2), (3, 8), (6, 1), (6, 2)];
    for (kind, (gates, slots)) in ["kind = \"sharing\"", "kind = \"queue\""]
        .iter()
        .flat_map(|kind| sizes.map(|of| (kind, of)))
    {
        for (first, rho) in
            [1.0, 6.0].iter().flat_map(|first| [0.2, 0.4, 0.59, 0.65, 0.9].map(|rho| (first, rho)))
        {
            let share = rho / (first + f64::from(gates - 1));
            let rate = |at: u32| if at == 0 { first * share } else { share };
            let all: Vec<_> = (0..gates).map(|at| (rate(at), Some(slots))).collect();
            let Ok(answer) = formula(&meeting(&all, kind)) else {
                refused += 1;
                assert!(rho > 0.3, "{kind} {all:?} is easy");
                continue;
            };
            answered += 1;
            assert!(rho < 0.6, "{kind} {all:?} is out of range");
            let off = (answer.response * (1.0 - rho) - 1.0).abs();
            let stated = answer.trust.error.expect("it is approximate");
            assert!(off <= stated, "{kind} {all:?}: {off:.3} off, stated {stated}");
            worst = worst.max(off);
        }
    }
    assert!(answered >= 100 && refused >= 72, "{answered} answered, {refused} refused");
    // As the constant's note says: up to 11 % at 0.59.
    assert!((0.09..0.12).contains(&worst), "{worst}");
}

/// The story: of several gates before a station of two processors all slots were taken for customers of one kind, so that
/// the few who were there made all others hasten: 1.54 s for 1.19 s at 0.4, "within 20 %", and more where it was idle.
/// With as many slots as servers, the servers are busy whenever anybody waits: M/M/c, whoever is behind which gate.
#[test]
fn loads_of_several_gates_at_several_servers_are_within_the_error_or_refused() {
    let (mut answered, mut worst) = (0, 0.0_f64);
    for (servers, kind, rho) in [2_u32, 4]
        .iter()
        .flat_map(|servers| ["sharing", "queue"].map(|kind| (servers, kind)))
        .flat_map(|(servers, kind)| [0.1, 0.4, 0.59].map(|rho| (*servers, kind, rho)))
    {
        let exact = solve::Mmc::new(rho * f64::from(servers), 1.0, servers).unwrap().response();
        let (few, many) = (Some(servers), Some(2 * servers));
        for slots in [
            [few; 2].as_slice(),
            &[many; 2],
            &[few; 3],
            &[many; 3],
            &[few, None],
            &[many, few, None],
        ] {
            let rate = rho * f64::from(servers) / slots.len() as f64;
            let loads: Vec<_> = slots.iter().map(|slots| (rate, *slots)).collect();
            let station = format!("kind = \"{kind}\", servers = {servers}");
            let place = format!("{station}, {slots:?}, {rho}");
            let answer = match formula(&meeting(&loads, &station)) {
                Ok(answer) => answer,
                // Linearizer does not settle with many slots of many gates.
                Err(none) if none.to_string().contains("the layers still change") => continue,
                Err(none) => panic!("{place}: {none}"),
            };
            let off = (answer.response / exact - 1.0).abs();
            let stated = answer.trust.error.expect("it is approximate");
            assert!(off <= stated, "{place}: {off:.3} off, stated {stated}");
            answered += 1;
            worst = worst.max(off);
        }
    }
    assert!(answered >= 60, "{answered} of 72");
    assert!((0.05..0.19).contains(&worst), "{worst}");
}

/// The story: a client who asks for a station in a slot and then in none waited for itself: 66.3 ms, where it takes
/// 25 ms / (1 - 0.05) each time; and two clients behind two gates of one slot each, 23 % too long.
#[test]
fn a_client_does_not_wait_for_itself() {
    let exponential = |mean: &str| format!("{{ mean = \"{mean}\", dist = \"exponential\" }}");
    let text = |clients: u32, route: &str, more: &str, gates: &str| {
        format!(
            "sekisho = 1\nname = \"itself\"\nclass = [{{ name = \"k\", population = {clients}, think = {}, route = {route} \
             }}, {more}]\ngate = [{gates}]\nstation = [{{ name = \"a\", kind = \"sharing\", demand = {} }}]\n",
            exponential("50ms"),
            exponential("25ms")
        )
    };
    let open = "{ name = \"o\", rate = \"2/s\", route = [\"g\"] }";
    let gate = "{ name = \"g\", slots = 2, inside = [\"a\"] }";
    let other = "{ name = \"h\", slots = 2, inside = [\"a\"] }";
    for (clients, route, gates) in
        [(1, "[\"g\", \"a\"]", gate.to_owned()), (9, "[\"g\", \"h\"]", format!("{gate}, {other}"))]
    {
        let none = formula(&read(&text(clients, route, open, &gates))).unwrap_err().to_string();
        assert!(none.contains("fewer than 10"), "{none}");
    }
    // Ten are in range, with the larger error: simulated 17.26 s and 8.07 s, +- 2 %, at pauses of 5 s and demands of 1 s.
    let slow = text(
        10,
        "[\"g\", \"h\"]",
        "{ name = \"o\", rate = \"0.1/s\", route = [\"h\"] }",
        &format!("{gate}, {}", other.replace("slots = 2", "slots = 3")),
    )
    .replace("50ms", "5s")
    .replace("25ms", "1s");
    let answer = formula(&read(&slow)).unwrap();
    assert_eq!(answer.trust.error, Some(0.35));
    for (class, simulated) in answer.classes.iter().zip([17.26, 8.07]) {
        assert!((class.response / simulated - 1.0).abs() < 0.2, "{class:?}");
    }
    // Of two classes that go different ways nobody meets itself.
    let answer = formula(&read(&text(1, "[\"a\"]", open, gate))).unwrap();
    let off = (answer.classes[0].response * (1.0 - 0.05) / 0.025 - 1.0).abs();
    assert!(off < 0.01, "{off}");
}

/// Loads of a class behind a gate of one slot or more and of one beside it, which share a station: throughputs and mean
/// responses by the chain of the numbers of jobs, cut off at 150, where hardly anybody is.
fn beside(behind: Of, slots: u32, direct: Of) -> [(f64, f64); 2] {
    let most = |of: Of| match of {
        Of::Open(_) => 150,
        Of::Closed(clients, _) => clients as usize,
    };
    let (rows, columns) = (most(behind) + 1, most(direct) + 1);
    let arrives = |of: Of, jobs: usize| match of {
        _ if jobs == most(of) => 0.0,
        Of::Open(rate) => rate,
        Of::Closed(_, think) => (most(of) - jobs) as f64 / think,
    };
    let leaves = |here: usize, there: usize| {
        let inside = here.min(slots as usize);
        let all = (inside + there) as f64;
        if all == 0.0 { (0.0, 0.0) } else { (inside as f64 / all, there as f64 / all) }
    };
    let mut chance: Vec<f64> =
        (0..rows * columns).map(|at| 0.7_f64.powi((at / columns + at % columns) as i32)).collect();
    // Gauss and Seidel, to and fro.
    let (mut jobs, mut before) = ([0.0, 0.0], f64::NAN);
    for _ in 0..20_000 {
        for at in (0..rows * columns).chain((0..rows * columns).rev()) {
            let (here, there) = (at / columns, at % columns);
            let mut comes = 0.0;
            if here > 0 {
                comes += chance[at - columns] * arrives(behind, here - 1);
            }
            if there > 0 {
                comes += chance[at - 1] * arrives(direct, there - 1);
            }
            if here + 1 < rows {
                comes += chance[at + columns] * leaves(here + 1, there).0;
            }
            if there + 1 < columns {
                comes += chance[at + 1] * leaves(here, there + 1).1;
            }
            let (one, other) = leaves(here, there);
            chance[at] = comes / (arrives(behind, here) + arrives(direct, there) + one + other);
        }
        let sum: f64 = chance.iter().sum();
        chance.iter_mut().for_each(|of| *of /= sum);
        let mean = |of: &dyn Fn(usize) -> usize| -> f64 {
            chance.iter().enumerate().map(|(at, chance)| of(at) as f64 * chance).sum()
        };
        jobs = [mean(&|at| at / columns), mean(&|at| at % columns)];
        if (jobs[0] + jobs[1] - before).abs() < 1e-8 * before {
            break;
        }
        before = jobs[0] + jobs[1];
    }
    let rate = |of: Of, index: &dyn Fn(usize) -> usize| -> f64 {
        chance.iter().enumerate().map(|(at, chance)| arrives(of, index(at)) * chance).sum()
    };
    let rates = [rate(behind, &|at| at / columns), rate(direct, &|at| at % columns)];
    [(rates[0], jobs[0] / rates[0]), (rates[1], jobs[1] / rates[1])]
}

/// An open load [1/s], or clients with their mean think time \[s\].
#[derive(Clone, Copy, Debug)]
enum Of {
    Open(f64),
    Closed(u32, f64),
}

/// The story: what comes to a station past a gate was no load of another gate, and one slot before a station that is busy
/// for 95 % was answered by 10.5 s for 20 s "within 12 %"; and a closed load of 40 clients who think for long is as good
/// as an open one. One client behind a gate of 16 slots was taken for 16 customers: 25 % too long.
#[test]
fn loads_beside_a_gate_are_within_the_error_or_refused() {
    let (mut answered, mut refused, mut worst) = (0, 0, 0.0_f64);
    let loads = [
        Of::Open(0.15),
        Of::Open(0.4),
        Of::Closed(1, 1.0),
        Of::Closed(10, 5.0),
        Of::Closed(10, 30.0),
        Of::Closed(40, 90.0),
    ];
    let pairs = loads.iter().flat_map(|behind| loads.map(|direct| (*behind, direct)));
    for (slots, (behind, direct)) in pairs.flat_map(|pair| [1, 2, 16].map(|slots| (slots, pair))) {
        let class = |name: &str, of: Of, to: &str| match of {
            Of::Open(rate) => {
                format!("{{ name = \"{name}\", rate = \"{rate}/s\", route = [\"{to}\"] }}")
            }
            Of::Closed(clients, think) => format!(
                "{{ name = \"{name}\", population = {clients}, think = {{ mean = \"{think}s\", dist = \"exponential\" \
                 }}, route = [\"{to}\"] }}"
            ),
        };
        let text = format!(
            "sekisho = 1\nname = \"beside\"\nclass = [{}, {}]\ngate = [{{ name = \"g\", slots = {slots}, inside = \
             [\"a\"] }}]\nstation = [{{ name = \"a\", kind = \"sharing\", demand = {{ mean = \"1s\", dist = \
             \"exponential\" }} }}]\n",
            class("c", behind, "g"),
            class("d", direct, "a")
        );
        let place = format!("{slots} slots, {behind:?}, {direct:?}");
        let Ok(answer) = formula(&read(&text)) else {
            refused += 1;
            continue;
        };
        answered += 1;
        let stated = answer.trust.error.unwrap_or(0.0);
        for (class, (throughput, response)) in
            answer.classes.iter().zip(beside(behind, slots, direct))
        {
            let off = (class.response / response - 1.0).abs();
            assert!(off <= stated.max(1e-6), "{place}: {class:?} for {response}, stated {stated}");
            assert!((class.throughput / throughput - 1.0).abs() <= stated.max(1e-6), "{place}");
            worst = worst.max(off);
        }
    }
    assert!(answered >= 60 && refused >= 15, "{answered} answered, {refused} refused");
    assert!(worst > 0.05, "{worst}");
}

/// One class that passes both gates meets itself.
#[test]
fn two_gates_before_one_station_on_one_way_are_refused_where_it_is_busy() {
    let text = |rate: f64| {
        format!(
            "sekisho = 1\nname = \"twice\"\nclass = [{{ name = \"c\", rate = \"{rate}/s\", route = [\"g\", \"h\"] }}]\n\
             gate = [{{ name = \"g\", slots = 2, inside = [\"a\"] }}, {{ name = \"h\", slots = 2, inside = [\"a\"] }}]\n\
             station = [{{ name = \"a\", kind = \"sharing\", demand = {{ mean = \"1s\", dist = \"exponential\" }} }}]\n"
        )
    };
    let none = formula(&read(&text(0.45))).unwrap_err().to_string();
    assert!(none.contains("meet at a station that they keep busy for 90 %"), "{none}");
    // Two visits a job: 2 / (1 - 0.5) s.
    let answer = formula(&read(&text(0.25))).unwrap();
    let off = (answer.response / 4.0 - 1.0).abs();
    assert!(off <= answer.trust.error.unwrap(), "{off}");
}

/// Simulated with ten million requests: 5.79 s and 9.40 s, +- 1.5 %. The closed load keeps the station busy for 99 %
/// of the time, and the layered model is near all the same.
#[test]
fn a_closed_load_behind_another_gate_is_answered() {
    let text = "sekisho = 1\nname = \"mixed\"\nclass = [{ name = \"c\", rate = \"0.3/s\", route = [\"g\"] }, { name = \
                \"d\", population = 10, think = \"5s\", route = [\"h\"] }]\ngate = [{ name = \"g\", slots = 2, inside = \
                [\"a\"] }, { name = \"h\", slots = 2, inside = [\"a\"] }]\nstation = [{ name = \"a\", kind = \"sharing\", \
                demand = { mean = \"1s\", dist = \"exponential\" } }]\n";
    let answer = formula(&read(text)).unwrap();
    let stated = answer.trust.error.unwrap();
    for (class, simulated) in answer.classes.iter().zip([5.79, 9.40]) {
        let off = (class.response / simulated - 1.0).abs();
        assert!(off < 0.05 && off <= stated, "{class:?}: {off}, stated {stated}");
    }
}
