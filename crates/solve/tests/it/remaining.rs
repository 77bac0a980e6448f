//! The shortest remaining demand first: closed forms, one distribution told in two ways, and what no other
//! order can be better than.

use solve::{Demand, Mg1Fifo, Mg1Priority, Mg1Ps, Mg1Srpt, Moments, Preemption};

use crate::near;

fn one(lambda: f64, demand: Demand) -> Mg1Srpt {
    Mg1Srpt::new(&[(lambda, demand)]).unwrap()
}

/// Demands a < b: a job of a finds at most the rest of one that is served, up to a, and those of a that
/// came before it; nobody of b interrupts.
#[test]
fn two_demands_are_as_by_hand() {
    let (lambda, p, a, b) = (0.5, 0.7, 0.4, 3.0);
    let server = one(lambda, Demand::weighted(&[(a, p), (b, 1.0 - p)]).unwrap());
    let load = lambda * p * a;
    let rho = load + lambda * (1.0 - p) * b;
    let short = lambda * a * a / (2.0 * (1.0 - load)) + a;
    let second = lambda * (p * a * a + (1.0 - p) * b * b);
    let long = second / (2.0 * (1.0 - load) * (1.0 - rho)) + a + (b - a) / (1.0 - load);
    near(server.response_given(a).unwrap(), short, 1e-12, &"short");
    near(server.response_given(b).unwrap(), long, 1e-12, &"long");
    near(server.response(), p * short + (1.0 - p) * long, 1e-12, &"mean");
    near(server.utilisation(), rho, 1e-12, &"rho");
    near(server.in_system(), lambda * server.response(), 1e-12, &"Little");
    // As classes, in either order, it is the same server; a class that never comes changes nothing.
    let (first, last) = (Demand::constant(a).unwrap(), Demand::constant(b).unwrap());
    let classes = [(lambda * (1.0 - p), last), (0.0, first.clone()), (lambda * p, first)];
    let classes = Mg1Srpt::new(&classes).unwrap();
    near(classes.response_of(0).unwrap(), long, 1e-12, &"long");
    near(classes.response_of(2).unwrap(), short, 1e-12, &"short");
    near(classes.response(), server.response(), 1e-12, &"mean");
    // Constant demands of two classes are preemptive priorities but for who is nearly done.
    let moments = |value| Moments::constant(value).unwrap();
    let ranks = [(lambda * p, moments(a)), (lambda * (1.0 - p), moments(b))];
    let ranks = Mg1Priority::new(&ranks, Preemption::Resume).unwrap();
    assert!(long < ranks.response(1).unwrap() && short > ranks.response(0).unwrap());
}

/// Every continuous demand against the list of 4000 values that its quantiles are.
#[test]
fn a_distribution_and_a_fine_list_of_it_agree() {
    for (rho, demand) in [
        (0.8, Demand::exponential(1.0).unwrap()),
        (0.5, Demand::erlang(4, 2.0).unwrap()),
        (0.9, Demand::balanced(1.0, 5.0).unwrap()),
        (0.8, Demand::lognormal(1.0, 3.0).unwrap()),
        (0.95, Demand::uniform(0.2, 1.8).unwrap()),
        (0.7, Demand::uniform(0.0, 3.0).unwrap()),
        (0.3, Demand::hyperexponential(&[(0.2, 0.01), (0.8, 10.0)]).unwrap()),
    ] {
        let lambda = rho / demand.mean();
        let values =
            (0..4000).map(|i| (demand.quantile((f64::from(i) + 0.5) / 4000.0).unwrap(), 1.0));
        let list = Demand::weighted(&values.collect::<Vec<_>>()).unwrap();
        let (told, listed) = (one(lambda, demand.clone()), one(lambda, list.clone()));
        // The list has no jobs beyond its last value: its load is that much less.
        let loads = demand.mean() / list.mean();
        let tolerance = 4e-3 + 3.0 * (loads - 1.0).abs() / (1.0 - rho);
        near(told.response(), listed.response(), tolerance, &(rho, &demand));
        near(told.wait(0).unwrap(), listed.wait(0).unwrap(), 4.0 * tolerance, &(rho, &demand));
        for q in [0.1, 0.5, 0.9] {
            let x = demand.quantile(q).unwrap();
            let (a, b) = (told.response_given(x).unwrap(), listed.response_given(x).unwrap());
            near(a, b, 2.0 * tolerance, &(rho, q, &demand));
            assert!(a >= x);
        }
        // No order has a shorter mean.
        let moments = demand.moments().unwrap();
        assert!(told.response() < Mg1Ps::new(lambda, moments).unwrap().response());
        assert!(told.response() < Mg1Fifo::new(lambda, moments).unwrap().response());
    }
}

/// The mean is the response given x over all jobs: two sums of which one knows nothing of the other.
#[test]
fn the_response_given_the_demand_averages_to_the_mean() {
    let demand = Demand::lognormal(1.0, 4.0).unwrap();
    let server = one(0.8, demand.clone());
    let count = 20_000;
    let given = (0..count).map(|i| (f64::from(i) + 0.5) / f64::from(count));
    let given = given.map(|q| server.response_given(demand.quantile(q).unwrap()).unwrap());
    near(given.sum::<f64>() / f64::from(count), server.response(), 2e-3, &"lognormal");
}

#[test]
fn equal_demands_are_pollaczek_and_khinchine_and_what_cannot_be_is_refused() {
    for demand in [Demand::constant(2.0).unwrap(), Demand::lognormal(2.0, 0.0).unwrap()] {
        let fifo = Mg1Fifo::new(0.45, Moments::constant(2.0).unwrap()).unwrap();
        near(one(0.45, demand.clone()).response(), fifo.response(), 1e-12, &demand);
        near(one(0.45, demand.clone()).wait(0).unwrap(), fifo.wait(), 1e-12, &demand);
        near(one(0.0, demand.clone()).response(), 2.0, 1e-12, &demand);
    }
    let exponential = Demand::exponential(1.0).unwrap();
    let text = |of: Result<Mg1Srpt, solve::SolveError>| of.unwrap_err().to_string();
    assert!(text(Mg1Srpt::new(&[(1.2, exponential.clone())])).contains("rho = 1.2 is not below 1"));
    assert!(text(Mg1Srpt::new(&[])).contains("classes is 0"));
    assert!(text(Mg1Srpt::new(&[(-1.0, exponential.clone())])).contains("lambda = -1"));
    let server = one(0.5, exponential);
    assert!(server.response_given(-1.0).is_err() && server.response_of(1).is_err());
    assert_eq!(server.response_given(0.0).unwrap(), 0.0);
    assert!(Demand::uniform(2.0, 1.0).is_err() && Demand::uniform(-1.0, 1.0).is_err());
    let uniform = Demand::uniform(1.0, 3.0).unwrap();
    near(uniform.moments().unwrap().scv(), 1.0 / 12.0, 1e-9, &"uniform");
    near(uniform.quantile(0.25).unwrap(), 1.5, 1e-9, &"uniform");
}
