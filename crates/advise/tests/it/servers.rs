//! Gates with several servers, each with a station of its own, against exact answers.

use advise::{FormulaAnswer, NoFormula, Scenario, formula};
use solve::{ClosedNetwork, Mmc, Station};

use crate::scenario::read;

const EXPONENTIAL: &str = "{ mean = \"1s\", dist = \"exponential\" }";

/// A gate of so many servers of one slot and one processor each.
fn servers(load: &str, servers: usize, rule: &str, demand: &str) -> Scenario {
    let each = |of: fn(usize) -> String| (0..servers).map(of).collect::<Vec<_>>().join(", ");
    read(&format!(
        "sekisho = 1\nname = \"servers\"\nclass = [{{ name = \"c\", {load}, route = [\"g\"] }}]\n\
         gate = [{{ name = \"g\", {rule}, servers = [{}], \
         inside = [{{ visit = \"server\", demand = {demand} }}] }}]\nstation = [{}]\n",
        each(|i| format!("{{ slots = 1, station = \"s{i}\" }}")),
        each(|i| format!("{{ name = \"s{i}\", kind = \"queue\" }}"))
    ))
}

fn busy(answer: &FormulaAnswer, of: &str) -> Option<f64> {
    answer.utilisation.iter().find(|(name, _)| name == of).map(|(_, busy)| *busy)
}

fn is_near(found: f64, exact: f64) -> bool {
    (found / exact - 1.0).abs() < 1e-6
}

/// The story: the layered model had each job choose one of four stations by chance inside the pool, so
/// that jobs met there which in truth never do: 4.96 s for 1.087 s at half load, and at 0.8 no wait at all.
#[test]
fn one_queue_before_equal_stations_is_one_station_of_so_many_servers() {
    for (rate, count) in [(2.0, 4), (3.2, 4), (0.7, 1), (1.9, 2), (14.4, 16)] {
        let load = format!("rate = \"{rate}/s\"");
        let answer = formula(&servers(&load, count, "queues = \"shared\"", EXPONENTIAL)).unwrap();
        let exact = Mmc::new(rate, 1.0, count as u32).unwrap();
        assert!(is_near(answer.response, 1.0 + exact.wait()), "{rate} {count}: {answer:?}");
        assert!(answer.trust.exact, "{:?}", answer.trust);
        let share = rate / count as f64;
        assert!(is_near(busy(&answer, "g").unwrap(), share), "{answer:?}");
        assert!(is_near(busy(&answer, "s0").unwrap(), share), "{answer:?}");
        let at_stations: f64 = answer.nodes.iter().skip(1).map(|row| row.throughput).sum();
        assert!(is_near(at_stations, rate), "{:?}", answer.nodes);
    }
    for (clients, count) in [(20, 4), (3, 4), (100, 8), (5, 1)] {
        let load = format!("population = {clients}, think = \"10s\"");
        let answer = formula(&servers(&load, count, "queues = \"shared\"", EXPONENTIAL)).unwrap();
        let station = Station::multi(1.0, count as u32).unwrap();
        let exact = ClosedNetwork::new(clients, 10.0, &[station]).unwrap().solve();
        assert!(is_near(answer.throughput, exact.throughput), "{clients} {count}: {answer:?}");
        assert!(answer.trust.exact, "{:?}", answer.trust);
    }
}

/// A router that prefers some servers keeps them busier than others: by how much is not told.
#[test]
fn the_share_of_each_server_is_told_where_it_is_known() {
    let load = "rate = \"2/s\"";
    let rule = "queues = \"shared\", router = \"shortest-queue\", ties = \"lowest\"";
    let answer = formula(&servers(load, 4, rule, EXPONENTIAL)).unwrap();
    assert!(is_near(busy(&answer, "g").unwrap(), 0.5), "{answer:?}");
    assert_eq!(busy(&answer, "s0"), None, "{answer:?}");
}

/// Of several classes, and of other demands, the layered model has the same pool.
#[test]
fn a_pool_of_servers_makes_nobody_wait_inside() {
    let text = |inside: &str, stations: &str| {
        read(&format!(
            "sekisho = 1\nname = \"two\"\nclass = [{{ name = \"a\", rate = \"1.2/s\", route = [\"g\"] }}, \
             {{ name = \"b\", rate = \"2/s\", route = [\"g\"] }}]\ngate = [{{ name = \"g\", {inside} }}]\n\
             station = [{stations}]\n"
        ))
    };
    let pooled = text(
        &format!(
            "servers = [{{ slots = 2, station = \"x\" }}, {{ slots = 2, station = \"y\" }}], \
             inside = [{{ visit = \"server\", demand = {EXPONENTIAL} }}]"
        ),
        "{ name = \"x\", kind = \"queue\", servers = 2 }, { name = \"y\", kind = \"sharing\", servers = 2 }",
    );
    let answer = formula(&pooled).unwrap();
    let exact = 1.0 + Mmc::new(3.2, 1.0, 4).unwrap().wait();
    assert!(is_near(answer.response, exact), "{answer:?}");
    // Simulated with lognormal demand of squared coefficient of variation 4: 2.65 s, +- 2 %.
    let lognormal = "{ mean = \"1s\", dist = \"lognormal\", scv = 4 }";
    let answer =
        formula(&servers("rate = \"3.2/s\"", 4, "queues = \"shared\"", lognormal)).unwrap();
    let error = (answer.response / 2.65 - 1.0).abs();
    assert!(error < answer.trust.error.unwrap() && error < 0.1, "{answer:?}");
}

#[test]
fn more_slots_than_processors_behind_one_queue_are_refused() {
    let text = "sekisho = 1\nname = \"more\"\nclass = [{ name = \"c\", rate = \"1/s\", route = [\"g\"] }]\n\
                gate = [{ name = \"g\", servers = [{ slots = 4, station = \"x\" }, { slots = 4, station = \
                \"y\" }], inside = [{ visit = \"server\", demand = { mean = \"1s\", dist = \
                \"exponential\" } }] }]\nstation = [{ name = \"x\", kind = \"sharing\" }, { name = \"y\", \
                kind = \"sharing\" }]\n";
    let none = formula(&read(text)).unwrap_err();
    assert!(
        matches!(&none, NoFormula::Shape { reason, .. } if reason.contains("`x`: 4 slots")),
        "{none}"
    );
}

/// Scenarios of gates `g`, and `h` where there is one, with the given classes; stations a, b and c of one server.
fn pools(classes: &str, gates: &[(&str, [&str; 2])]) -> Scenario {
    let gate = |(name, of): &(&str, [&str; 2])| {
        format!(
            "{{ name = \"{name}\", servers = [{{ slots = 1, station = \"{}\" }}, {{ slots = 1, station = \
             \"{}\" }}], inside = [{{ visit = \"server\", demand = {EXPONENTIAL} }}] }}",
            of[0], of[1]
        )
    };
    let gates: Vec<String> = gates.iter().map(gate).collect();
    let is_used = |name: &&str| *name != "c" || gates.iter().any(|gate| gate.contains("\"c\""));
    let station =
        |name| format!("{{ name = \"{name}\", kind = \"queue\", demand = {EXPONENTIAL} }}");
    let stations: Vec<String> = ["a", "b", "c"].into_iter().filter(is_used).map(station).collect();
    read(&format!(
        "sekisho = 1\nname = \"pools\"\nclass = [{classes}]\ngate = [{}]\nstation = [{}]\n",
        gates.join(", "),
        stations.join(", ")
    ))
}

/// The story: where jobs come to a server of a pool in another way, too, whoever has a slot may wait, and the pool and
/// the station were two stations: 1.19 s for 2.44 s "within 12 %", and 2.4/s were solved of 2/s that both can do.
#[test]
fn a_pool_whose_servers_have_other_work_is_refused() {
    let two = |one: f64, other: &str| {
        format!(
            "{{ name = \"x\", rate = \"{one}/s\", route = [\"g\"] }}, {{ name = \"y\", {other} }}"
        )
    };
    let (ab, cb) = (("g", ["a", "b"]), ("h", ["c", "b"]));
    for (classes, gates) in [
        (two(0.6, "rate = \"0.9/s\", route = [\"h\"]"), vec![ab, ("h", ["a", "b"])]),
        (two(1.2, "rate = \"1.2/s\", route = [\"h\"]"), vec![ab, ("h", ["a", "b"])]),
        (two(0.6, "rate = \"0.9/s\", route = [\"h\"]"), vec![ab, cb]),
        (two(0.9, "rate = \"0.8/s\", route = [\"a\"]"), vec![ab]),
        ("{ name = \"x\", rate = \"0.5/s\", route = [\"g\", \"a\"] }".into(), vec![ab]),
        (
            "{ name = \"x\", population = 4, think = \"1s\", route = [\"g\"] }, { name = \"y\", \
             population = 2, think = \"1s\", route = [\"a\"] }"
                .into(),
            vec![ab],
        ),
    ] {
        let none = formula(&pools(&classes, &gates)).unwrap_err().to_string();
        assert!(
            none.contains("behind the one queue of gate") && none.contains("elsewhere too"),
            "{none}"
        );
    }
    // Twice through the same pool is one way.
    let twice = "{ name = \"x\", rate = \"0.5/s\", route = [\"g\", \"g\"] }";
    let answer = formula(&pools(twice, &[ab])).unwrap();
    assert!(is_near(answer.response, 2.0 * (1.0 + Mmc::new(1.0, 1.0, 2).unwrap().wait())));
}

/// No formula knows which of unequal servers a job finds free.
#[test]
fn servers_of_other_speeds_behind_one_queue_are_refused() {
    let text = "sekisho = 1\nname = \"unequal\"\nclass = [{ name = \"c\", rate = \"1/s\", route = [\"g\"] }]\n\
                gate = [{ name = \"g\", servers = [{ slots = 1, station = \"x\" }, { slots = 1, station = \
                \"y\" }], inside = [{ visit = \"server\", demand = { mean = \"1s\", dist = \
                \"exponential\" } }] }]\nstation = [{ name = \"x\", kind = \"queue\", speeds = [3.0] }, { name = \
                \"y\", kind = \"queue\" }]\n";
    let none = formula(&read(text)).unwrap_err().to_string();
    assert!(none.contains("station `x` have speeds of their own"), "{none}");
}

/// The mean response of E_k/M/1 with mean service 1: 1 / (1 - sigma), where sigma is the root below 1 of
/// sigma = A*(1 - sigma), A* the transform of the gaps (Kendall 1953), found by bisection.
fn erlang_gaps(k: i32, rho: f64) -> f64 {
    let transform = |s: f64| (1.0 + s / (f64::from(k) * rho)).powi(-k);
    let (mut low, mut high) = (0.0, 1.0 - 1e-9);
    for _ in 0..200 {
        let sigma = 0.5 * (low + high);
        if transform(1.0 - sigma) > sigma { low = sigma } else { high = sigma }
    }
    1.0 / (1.0 - low)
}

/// The story: the work that an arrival finds was divided by 1 - rho where 1 - sigma stands: 4.470 s for
/// 3.267 s with four servers at 0.8, and 85 % too much with 64 at 0.95.
#[test]
fn round_robin_is_exact_for_exponential_service() {
    assert!((erlang_gaps(4, 0.8) - 3.267).abs() < 1e-3);
    for (count, rho) in [(2, 0.5), (4, 0.8), (8, 0.3), (16, 0.9), (64, 0.95), (3, 0.98)] {
        let rule = "queues = \"per-server\", router = \"round-robin\"";
        let load = format!("rate = \"{}/s\"", rho * count as f64);
        let answer = formula(&servers(&load, count, rule, EXPONENTIAL)).unwrap();
        let exact = erlang_gaps(count as i32, rho);
        assert!(is_near(answer.response, exact), "{count} {rho}: {exact}, not {}", answer.response);
    }
}

/// The gate `g` of so many slots, held through two queues of exponential demand.
fn held_through_two(rate: f64, slots: u32, demand: &str) -> Result<FormulaAnswer, NoFormula> {
    let demand = format!("{{ mean = \"{demand}\", dist = \"exponential\" }}");
    formula(&read(&format!(
        "sekisho = 1\nname = \"held\"\nclass = [{{ name = \"c\", rate = \"{rate}/s\", route = [\"g\"] }}]\n\
         gate = [{{ name = \"g\", slots = {slots}, inside = [\"a\", \"b\"] }}]\n\
         station = [{{ name = \"a\", kind = \"queue\", demand = {demand} }}, {{ name = \"b\", kind = \
         \"queue\", demand = {demand} }}]\n"
    )))
}

/// The story: with all slots held a job takes longer inside than on average, so that the slots can do
/// less than their number over a mean hold; 4 slots at 0.92 /s were "41 % busy" and made nobody wait.
#[test]
fn more_load_than_the_slots_can_do_is_refused() {
    // Two queues of demand D with N jobs inside do N / ((N + 1) D) (exact, balanced network).
    for (slots, demand, capacity) in
        [(4, "900ms", 0.8 / 0.9), (1, "600ms", 1.0 / 1.2), (16, "1s", 16.0 / 17.0)]
    {
        let rate_max = |none: NoFormula| match none {
            NoFormula::Solve(solve::SolveError::Unstable { rate_max, place, .. }) => {
                (rate_max, place)
            }
            other => panic!("{slots} {demand}: {other}"),
        };
        for load in [1.005, 1.035, 1.1] {
            let (found, place) =
                rate_max(held_through_two(load * capacity, slots, demand).unwrap_err());
            assert!(
                (found / capacity - 1.0).abs() < 0.01,
                "{slots} {demand} {load}: {found} {capacity}"
            );
            assert_eq!(place, "gate `g`");
        }
        let below = held_through_two(0.7 * capacity, slots, demand).unwrap();
        assert!(below.wait.unwrap() > 0.0, "{below:?}");
        // Nearer to what they can do the answer was up to 61 % too short; one slot is a plain queue, of
        // which no simulation knew the truth beyond 95 %.
        let near = |load: f64| held_through_two(load * capacity, slots, demand);
        let refused = |load: f64| near(load).unwrap_err().to_string();
        if slots == 1 {
            assert!(near(0.94).unwrap().wait.unwrap() > 5.0);
            assert!(refused(0.97).contains("tried up to 95 %"), "{}", refused(0.97));
        } else {
            assert!(refused(0.97).contains("out of its range"), "{}", refused(0.97));
        }
    }
}
