//! Numbers of one queue beside its response, against values by hand and against the simulator.

use advise::{QueueAnswer, Scenario, formula};
use sim::Options;

use crate::scenario::read;

fn scenario(load: &str, rest: &str) -> Scenario {
    read(&format!("sekisho = 1\nname = \"t\"\nclass = [{{ name = \"c\", {load} }}]\n{rest}"))
}

fn told(scenario: &Scenario) -> QueueAnswer {
    formula(scenario).unwrap_or_else(|none| panic!("{none}")).queue.expect("it is one queue")
}

fn near(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-9 * b.abs().max(1e-12), "{a} is not {b}");
}

const EXPONENTIAL: &str = "{ mean = \"10ms\", dist = \"exponential\" }";

fn station(kind: &str, demand: &str) -> String {
    format!("station = [{{ name = \"s\", {kind}, demand = {demand} }}]")
}

/// M/M/1 at 0.8, M/M/4 at three erlang (C = 27/53, Gross and Harris), M/D/1 and M/M/1/3 by hand.
#[test]
fn plain_queues_have_the_numbers_of_the_textbook() {
    let load = "rate = \"80/s\", route = [\"s\"]";
    let one = told(&scenario(load, &station("kind = \"queue\"", EXPONENTIAL)));
    near(one.wait, 40e-3);
    near(one.wait_probability.unwrap(), 0.8);
    near(one.jobs, 4.0);
    near(one.waiting, 3.2);
    near(one.wait_variance.unwrap(), 0.8 * 1.2 * 2.5e-3);
    near(one.response_variance.unwrap(), 2.5e-3);

    let four = told(&scenario(
        "rate = \"300/s\", route = [\"s\"]",
        &station("kind = \"queue\", servers = 4", EXPONENTIAL),
    ));
    near(four.wait_probability.unwrap(), 27.0 / 53.0);
    near(four.waiting, 81.0 / 53.0);
    near(four.jobs, 3.0 + 81.0 / 53.0);

    // Var W = W^2 + lambda S^3 / (3 (1 - rho)).
    let constant = told(&scenario(load, &station("kind = \"queue\"", "\"10ms\"")));
    near(constant.wait, 20e-3);
    near(constant.wait_variance.unwrap(), 4e-4 + 80.0 * 1e-6 / 0.6);
    near(constant.response_variance.unwrap(), constant.wait_variance.unwrap());

    // Who is let in finds 0, 1 or 2 jobs, all as likely, and waits for as many services.
    let lossy = "kind = \"queue\", room = 3";
    let full = told(&scenario("rate = \"100/s\", route = [\"s\"]", &station(lossy, EXPONENTIAL)));
    near(full.wait_probability.unwrap(), 2.0 / 3.0);
    near(full.wait, 10e-3);
    near(full.jobs, 1.5);
    near(full.waiting, 0.75);
    near(full.wait_variance.unwrap(), ((2.0 + 6.0) / 3.0 - 1.0) * 1e-4);

    let shared = told(&scenario(load, &station("kind = \"sharing\"", EXPONENTIAL)));
    near(shared.wait, 0.0);
    near(shared.jobs, 4.0);
    near(shared.waiting, 0.0);
    near(shared.wait_probability.unwrap(), 0.0);
    near(shared.response_variance.unwrap(), 2.8 / 1.2 * 2.5e-3);
}

/// Delays add their variance; in another order than that of arrival the means are the same, and the
/// variances are not known.
#[test]
fn what_is_not_known_is_not_told() {
    let gate = |discipline: &str| {
        let rest = format!(
            "gate = [{{ name = \"g\", slots = 1, discipline = \"{discipline}\", inside = [\"s\"] }}]\n\
             station = [{{ name = \"s\", kind = \"queue\", demand = {EXPONENTIAL} }}, \
             {{ name = \"d\", kind = \"delay\", demand = {EXPONENTIAL} }}]"
        );
        told(&scenario("rate = \"50/s\", route = [\"d\", \"g\"]", &rest))
    };
    let (fifo, lifo) = (gate("fifo"), gate("lifo"));
    near(fifo.response_variance.unwrap(), 4e-4 + 1e-4);
    near(lifo.wait, fifo.wait);
    near(lifo.jobs, fifo.jobs);
    near(lifo.wait_probability.unwrap(), 0.5);
    assert!(lifo.wait_variance.is_none() && lifo.response_variance.is_none(), "{lifo:?}");
    let load = "rate = \"50/s\", route = [\"s\"]";
    let ps = told(&scenario(load, &station("kind = \"sharing\"", "\"10ms\"")));
    assert!(ps.response_variance.is_none(), "{ps:?}");
}

/// Four servers with two slots and a queue each, behind this router.
fn several(router: &str, demand: &str) -> String {
    let servers = ["a", "b", "c", "d"].map(|of| format!("{{ slots = 2, station = \"{of}\" }}"));
    let stations = ["a", "b", "c", "d"]
        .map(|of| format!("{{ name = \"{of}\", kind = \"queue\", servers = 2 }}"));
    format!(
        "gate = [{{ name = \"g\", queues = \"per-server\", router = \"{router}\", servers = [{}], \
         inside = [{{ visit = \"server\", demand = {demand} }}] }}]\nstation = [{}]",
        servers.join(", "),
        stations.join(", ")
    )
}

/// Servers with a queue each, in turn or by chance: E_k/M/c and M/G/1 for each, exactly.
#[test]
fn a_router_that_deals_has_the_figures_of_each_queue() {
    let one = |router: &str, demand: &str, rate: u32| {
        let rest = several(router, demand).replace("slots = 2", "slots = 1");
        let rest = rest.replace("servers = 2", "servers = 1");
        let load = format!("rate = \"{rate}/s\", route = [\"g\"]");
        formula(&scenario(&load, &rest)).unwrap_or_else(|none| panic!("{none}"))
    };
    // E_4/M/1 at 0.8: sigma = (1 + (1 - sigma) / 3.2)^-4.
    let answer = one("round-robin", EXPONENTIAL, 320);
    let queue = answer.queue.expect("they are alike");
    let sigma = queue.wait_probability.unwrap();
    near(sigma, (1.0 + (1.0 - sigma) / 3.2).powi(-4));
    near(queue.wait, 10e-3 * sigma / (1.0 - sigma));
    near(queue.waiting, 320.0 * queue.wait);
    near(queue.jobs, 320.0 * answer.response);
    near(queue.wait_variance.unwrap(), sigma * (2.0 - sigma) * (1e-2 / (1.0 - sigma)).powi(2));
    // A job's response is exponential.
    near(queue.response_variance.unwrap(), answer.response.powi(2));
    let p99 = answer.quantiles.expect("they are known").at(0.99).unwrap();
    near(p99, answer.response * 100_f64.ln());
    assert!(answer.trust.exact && answer.name == "4 in turn, each E_4/M/1", "{}", answer.name);
    near(answer.utilisation[0].1, 0.8);

    let answer = one("random", "\"10ms\"", 320);
    let queue = answer.queue.expect("they are alike");
    near(queue.wait, 20e-3);
    near(queue.jobs, 320.0 * 30e-3);
    near(queue.wait_variance.unwrap(), 4e-4 + 80.0 * 1e-6 / 0.6);
    assert!(answer.trust.exact && answer.name == "4 by chance, each M/G/1", "{}", answer.name);

    // In turn with another demand is left to the layered model, which says how far it may be off.
    let answer = one("round-robin", "\"10ms\"", 320);
    assert!(!answer.trust.exact && answer.queue.is_none(), "{}", answer.name);
    let text = several("round-robin", EXPONENTIAL);
    let hot = formula(&scenario("rate = \"900/s\", route = [\"g\"]", &text)).unwrap_err();
    let hot = hot.to_string();
    assert!(hot.contains("rho = 1.125") && hot.contains("below 800 /s"), "{hot}");
}

/// Variances over all classes of a server with priorities, beside the simulator's: within 5 % as below.
#[test]
fn variances_under_priorities_are_those_of_the_simulator() {
    let classes = format!(
        "class = [{{ name = \"a\", rate = \"30/s\", priority = 2, route = [{{ visit = \"s\", demand = \
         {{ mean = \"4ms\", scv = 3 }} }}] }}, {{ name = \"b\", rate = \"20/s\", priority = 1, route = \
         [{{ visit = \"s\", demand = {EXPONENTIAL} }}, \"d\"] }}, {{ name = \"c\", rate = \"20/s\", route \
         = [{{ visit = \"s\", demand = \"12ms\" }}] }}]"
    );
    for (seed, order) in [(21, "priority"), (22, "preemptive")] {
        let scenario = read(&format!(
            "sekisho = 1\nname = \"t\"\n{classes}\nstation = [{{ name = \"s\", kind = \"queue\", order = \
             \"{order}\" }}, {{ name = \"d\", kind = \"delay\", demand = {EXPONENTIAL} }}]"
        ));
        let queue = told(&scenario);
        let options =
            Options { seed, precision: 1e-4, completions_max: 400_000, ..Options::default() };
        let outcome = sim::run(&scenario.network().unwrap(), &options).unwrap();
        let (mut count, mut first, mut second) = (0.0, 0.0, 0.0);
        for class in &outcome.classes {
            let (n, mean) = (class.histogram.len() as f64, class.histogram.mean_s());
            count += n;
            first += n * mean;
            second += n * (class.histogram.stdev_s().powi(2) + mean * mean);
        }
        let deviation = (second / count - (first / count).powi(2)).sqrt();
        let told = queue.response_variance.expect("all third moments are known").sqrt();
        assert!((told / deviation - 1.0).abs() < 0.05, "{order}: {told}, not {deviation}");
        let wait = queue.wait_variance.expect("all third moments are known");
        assert!(wait > 0.0 && wait < queue.response_variance.unwrap(), "{order}: {queue:?}");
    }
}

/// Formula and simulation: the mean number there within 2.5 intervals of 95 %, the standard deviation of
/// the response within 5 % (300 000 responses, most of them correlated over some hundreds), the share
/// that waits within 0.02. A seed each, so that a failure is a change of the code.
#[test]
fn the_simulator_sees_the_same() {
    let load = "rate = \"60/s\", route = [\"s\"]";
    let gated = "rate = \"120/s\", route = [\"g\"]";
    let gate = format!(
        "gate = [{{ name = \"g\", slots = 2, inside = [\"s\"] }}]\n\
         station = [{{ name = \"s\", kind = \"queue\", servers = 2, demand = {EXPONENTIAL} }}]"
    );
    let room = gate.replace("slots = 2,", "slots = 2, room = 3,");
    let [turns, chance] = ["round-robin", "random"].map(|router| several(router, EXPONENTIAL));
    for (seed, scenario) in [
        (1, scenario(load, &station("kind = \"queue\"", EXPONENTIAL))),
        (2, scenario(load, &station("kind = \"queue\"", "{ mean = \"10ms\", scv = 3 }"))),
        (3, scenario(load, &station("kind = \"queue\"", "\"10ms\""))),
        (4, scenario(load, &station("kind = \"sharing\"", EXPONENTIAL))),
        (5, scenario(gated, &gate)),
        (6, scenario(gated, &room)),
        (7, scenario("rate = \"320/s\", route = [\"g\"]", &turns)),
        (8, scenario("rate = \"240/s\", route = [\"g\"]", &chance)),
    ] {
        let queue = told(&scenario);
        let options =
            Options { seed, precision: 1e-4, completions_max: 300_000, ..Options::default() };
        let network = scenario.network().expect("the formula compiled it");
        let outcome = sim::run(&network, &options).expect("it is stable");
        let waiting = outcome.gates.first().map_or(0.0, |gate| gate.waiting.mean);
        let stations = || outcome.stations.iter().map(|station| &station.jobs);
        let there = stations().map(|jobs| jobs.mean).sum::<f64>();
        let half = stations().map(|jobs| jobs.half_width).sum::<f64>();
        let off = (queue.jobs - there - waiting).abs();
        let width = half + outcome.gates.first().map_or(0.0, |g| g.waiting.half_width);
        assert!(off <= 2.5 * width, "seed {seed}: L {queue:?}, simulated {there} + {waiting}");
        let deviation = outcome.classes[0].histogram.stdev_s();
        let told = queue.response_variance.expect("all of these are known").sqrt();
        assert!((told / deviation - 1.0).abs() < 0.05, "seed {seed}: {told}, not {deviation}");
        let Some(gate) = outcome.gates.first() else { continue };
        // A wait of nothing is counted as the shortest that a histogram knows, a microsecond at most.
        let waits = gate.wait_histogram.counts().filter(|(nanos, _)| *nanos > 1_000);
        let waits: u64 = waits.map(|(_, count)| count).sum();
        let waits = waits as f64 / gate.wait_histogram.len() as f64;
        let told = queue.wait_probability.expect("it is known");
        assert!((told - waits).abs() < 0.02, "seed {seed}: P(wait) {told}, not {waits}");
    }
}

/// Balanced-job and geometric bounds hold the exact answer and are no wider than the asymptotes; the knee
/// is (D + Z) / D_max.
#[test]
fn closed_networks_have_their_bounds_and_knee() {
    for population in [1, 3, 8, 40] {
        let load = format!(
            "population = {population}, think = \"100ms\", route = [\"cpu\", \"disk\", \"net\"]"
        );
        let rest = format!(
            "station = [{{ name = \"cpu\", kind = \"sharing\", demand = {EXPONENTIAL} }}, \
             {{ name = \"disk\", kind = \"queue\", demand = {{ mean = \"20ms\", dist = \
             \"exponential\" }} }}, {{ name = \"net\", kind = \"sharing\", demand = \"5ms\" }}]"
        );
        let answer = formula(&scenario(&load, &rest)).unwrap_or_else(|none| panic!("{none}"));
        let bounds = answer.product_bounds.expect("it is closed and of product form");
        near(bounds.knee.unwrap(), 135.0 / 20.0);
        let outer = bounds.asymptotic;
        for inner in [bounds.balanced_job, bounds.geometric] {
            let case = (population, inner, answer.throughput, answer.response);
            let (x, r) = (answer.throughput, answer.response);
            let slack = 1.0 + 1e-9;
            assert!(
                inner.throughput_min <= x * slack && x <= inner.throughput_max * slack,
                "{case:?}"
            );
            let most = inner.response_max.expect("it is closed");
            assert!(inner.response_min <= r * slack && r <= most * slack, "{case:?}");
            assert!(inner.throughput_min >= outer.throughput_min / slack, "{case:?}");
            assert!(inner.throughput_max <= outer.throughput_max * slack, "{case:?}");
        }
    }
}
