//! Caches by formula beside the simulator, which knows none: the hit ratio, and what follows from it.

use advise::{NoFormula, formula};
use sim::Options;

use crate::scenario::read;

fn scenario(load: &str, cache: &str) -> advise::Scenario {
    read(&format!(
        "sekisho = 1\nname = \"t\"\nclass = [{{ name = \"c\", {load}, route = [{{ lookup = \"pages\", hit = \
         [\"near\"], miss = [\"disk\"] }}] }}]\ncache = [{{ name = \"pages\", {cache} }}]\nstation = [{{ name \
         = \"near\", kind = \"sharing\", demand = {{ mean = \"1ms\", dist = \"exponential\" }} }}, {{ name = \
         \"disk\", kind = \"queue\", demand = {{ mean = \"8ms\", dist = \"exponential\" }} }}]"
    ))
}

/// The story: a cache had to be given up, or its hits typed, for a formula to answer. Hit ratios are within 1 %
/// of 200 000 lookups beside what is stated, means within what is stated and twice the interval.
#[test]
fn a_cache_tells_its_own_hits() {
    let open = "rate = \"120/s\"";
    let closed = "population = 6, think = { mean = \"20ms\", dist = \"exponential\" }";
    for (seed, load, cache, exact) in [
        (1, open, "capacity = 20, keys = 100, order = \"zipf\", exponent = 0.9", true),
        (
            2,
            open,
            "capacity = 20, keys = 100, order = \"zipf\", exponent = 0.9, policy = \"fifo\"",
            true,
        ),
        (
            3,
            closed,
            "capacity = 20, keys = 100, order = \"zipf\", exponent = 0.9, policy = \"random\"",
            true,
        ),
        (
            4,
            closed,
            "capacity = 300, keys = 5000, order = \"zipf\", exponent = 1.0, policy = \"lru\"",
            false,
        ),
        (5, open, "capacity = 2, keys = 4, order = \"weighted\", weights = [5, 3, 1.5, 0.5]", true),
        (6, open, "capacity = 60, keys = 100, order = \"uniform\", policy = \"fifo\"", true),
        (7, closed, "capacity = 60, keys = 100, order = \"scan\"", true),
    ] {
        let scenario = scenario(load, cache);
        let answer = formula(&scenario).unwrap_or_else(|none| panic!("{cache}: {none}"));
        let [told] = &*answer.caches else { panic!("{:?}", answer.caches) };
        assert_eq!(told.trust.exact, exact, "{cache}: {told:?}");
        let options =
            Options { seed, precision: 0.01, completions_max: 200_000, ..Options::default() };
        let outcome = sim::run(&scenario.network().unwrap(), &options).unwrap();
        let seen = outcome.caches[0].hit_ratio.unwrap().mean;
        let stated = told.trust.error.unwrap_or(0.0);
        assert!(
            (told.hit_ratio - seen).abs() <= (stated + 0.01) * seen,
            "{cache}: {told:?}, {seen}"
        );
        let class = &outcome.classes[0];
        let found = class.response.unwrap();
        let error = answer.trust.error.unwrap_or(0.0) + 2e-3;
        let off = (answer.response - found.mean).abs();
        assert!(
            off <= error * found.mean + 2.0 * found.half_width,
            "{cache}: {answer:?}, {found:?}"
        );
        let is_certain = told.hit_ratio == 0.0;
        assert_eq!(answer.trust.exact, is_certain, "{cache}: {:?}", answer.trust);
        let words = format!("cache `pages` hits {:.2} % of its lookups", 100.0 * told.hit_ratio);
        assert!(answer.remarks.iter().any(|of| of.starts_with(&words)), "{:?}", answer.remarks);
        assert!(
            told.hits.len() <= 100 && told.hits.windows(2).all(|pair| pair[0] >= pair[1] - 1e-9)
        );
    }
}

/// An answer has at least the error of its hit ratio, and orders that are no popularity are left to
/// the simulation.
#[test]
fn what_is_not_known_of_a_cache_is_said() {
    let closed = "population = 6, think = { mean = \"20ms\", dist = \"exponential\" }";
    let error = |cache: &str| formula(&scenario(closed, cache)).unwrap().trust.error.unwrap();
    let few = error("capacity = 3, keys = 5000, order = \"zipf\", exponent = 1.4");
    let many = error("capacity = 300, keys = 5000, order = \"zipf\", exponent = 1.4");
    let exact = error("capacity = 30, keys = 100, order = \"zipf\", exponent = 1.4");
    assert!(few > exact && many > exact, "{few} {many} {exact}");
    for cache in [
        "capacity = 60, keys = 100, order = \"shuffled\"",
        "capacity = 60, keys = 100, order = \"cached-first\"",
        "capacity = 60, keys = 100, order = \"scan\", policy = \"random\"",
    ] {
        let none = formula(&scenario(closed, cache)).unwrap_err();
        let is_said =
            matches!(&none, NoFormula::Shape { reason, .. } if reason.contains("simulation"));
        assert!(is_said, "{none}");
    }
    let refused = |cache: &str| scenario(closed, cache).network().unwrap_err().to_string();
    let text = refused("capacity = 2, keys = 3, order = \"weighted\", weights = [1, 2]");
    assert!(text.contains("another number of weights"), "{text}");
    let text = refused("capacity = 2, keys = 3, order = \"uniform\", weights = [1, 2, 3]");
    assert!(text.contains("remove them"), "{text}");
}
