//! Distributions of response times, against closed forms, limits, moments and each other.

use solve::{Demand, FifoTimes, Lps, LpsTimes, Mg1Fifo, Mg1Ps, Mm1, PsTimes};

use crate::{near, printed};

fn exponential() -> Demand {
    Demand::exponential(1.0).unwrap()
}

/// Mean and variance from a tail: E[T] = sum of P(T > t), E[T^2] = sum of 2 t P(T > t).
fn moments(tail: impl Fn(f64) -> f64, step: f64, until: f64) -> (f64, f64) {
    let (mut mean, mut second) = (0.0, 0.0);
    for i in 0..(until / step) as u32 {
        let t = (f64::from(i) + 0.5) * step;
        mean += step * tail(t);
        second += step * 2.0 * t * tail(t);
    }
    (mean, second - mean * mean)
}

/// The values found by independent programs: the same mean, three very different tails.
#[test]
fn exponential_demand_has_three_tails_for_three_disciplines() {
    let fifo = FifoTimes::new(0.8, exponential()).unwrap();
    let four = LpsTimes::new(0.8, exponential(), 4).unwrap();
    let ps = PsTimes::new(0.8, exponential()).unwrap();
    printed(fifo.response_quantile(0.99).unwrap().0, 23.03, 0.01, &"FIFO");
    printed(four.response_quantile(0.99).unwrap().0, 25.25, 0.01, &"LPS(4)");
    printed(ps.response_quantile(0.99).unwrap().0, 36.94, 0.01, &"PS");
    for (tail, variance) in [
        (&(|t| fifo.response_tail(t).unwrap()) as &dyn Fn(f64) -> f64, 25.0),
        (&|t| four.response_tail(t).unwrap(), 31.38),
        (&|t| ps.response_tail(t).unwrap(), 58.33),
    ] {
        let (mean, found) = moments(tail, 0.05, 250.0);
        near(mean, 5.0, 2e-3, &variance);
        near(found, variance, 5e-3, &variance);
    }
}

#[test]
fn one_slot_is_first_in_first_out_and_many_are_processor_sharing() {
    let one = LpsTimes::new(0.7, exponential(), 1).unwrap();
    let many = LpsTimes::new(0.7, exponential(), 60).unwrap();
    let (fifo, ps) = (Mm1::new(0.7, 1.0).unwrap(), PsTimes::new(0.7, exponential()).unwrap());
    for q in [0.1, 0.5, 0.9, 0.99, 0.999] {
        near(one.response_quantile(q).unwrap().0, fifo.response_quantile(q).unwrap(), 1e-3, &q);
        let sharing = ps.response_quantile(q).unwrap().0;
        near(many.response_quantile(q).unwrap().0, sharing, 1e-3, &q);
    }
}

#[test]
fn the_inverted_fifo_meets_moments_and_closed_forms() {
    for q in [0.01, 0.5, 0.99, 0.9999] {
        let inverted = FifoTimes::new(0.9, exponential()).unwrap().response_quantile(q).unwrap().0;
        near(inverted, Mm1::new(0.9, 1.0).unwrap().response_quantile(q).unwrap(), 1e-5, &q);
    }
    for demand in [Demand::balanced(1.0, 10.0).unwrap(), Demand::erlang(3, 1.0).unwrap()] {
        let times = FifoTimes::new(0.7, demand.clone()).unwrap();
        let (mean, _) = moments(|t| times.response_tail(t).unwrap(), 0.02, 400.0);
        let fifo = Mg1Fifo::new(0.7, demand.moments().unwrap()).unwrap();
        near(mean, fifo.response(), 1e-3, &demand);
        near(times.wait_tail(0.0).unwrap(), 0.7, 1e-12, &demand);
    }
}

/// M/D/1: P(W <= t) = (1 - rho) sum over j <= t / D of (-y)^j e^y / j!, y = lambda (t - j D)
/// (Erlang 1909).
#[test]
fn a_constant_demand_is_as_near_as_it_says() {
    let times = FifoTimes::new(0.8, Demand::constant(1.0).unwrap()).unwrap();
    let exact = |t: f64| {
        let mut sum = 0.0;
        let mut factorial = 1.0;
        for j in 0..=t.floor() as i32 {
            factorial *= f64::from(j.max(1));
            let y = 0.8 * (t - f64::from(j));
            sum += (-y).powi(j) / factorial * y.exp();
        }
        1.0 - 0.2 * sum
    };
    for t in [0.3, 0.9, 1.1, 2.5, 6.2, 9.0] {
        near(times.wait_tail(t).unwrap(), exact(t), 0.02, &t);
    }
    let (p99, exactness) = times.response_quantile(0.99).unwrap();
    near(exact(p99 - 1.0), 0.01, 0.02, &p99);
    assert!(exactness.to_string().starts_with("approximate (within 2 %"));
}

/// Given the demand x: the mean is x / (1 - rho), and over all x the jobs are those of the chain.
#[test]
fn processor_sharing_given_the_demand() {
    let ps = PsTimes::new(0.8, exponential()).unwrap();
    for x in [0.1, 1.0, 6.0] {
        let (over, _) =
            moments(|t| ps.response_tail_given(x, x + t).unwrap(), 0.05, 60.0 * (1.0 + x));
        let mean = Mg1Ps::new(0.8, exponential().moments().unwrap()).unwrap();
        near(x + over, mean.response_given(x).unwrap(), 5e-3, &x);
        let p90 = ps.response_quantile_given(x, 0.9).unwrap().0;
        near(ps.response_tail_given(x, p90).unwrap(), 0.1, 1e-6, &x);
        assert_eq!(ps.response_tail_given(x, 0.9 * x).unwrap(), 1.0);
    }
    // A lonely small job.
    assert_eq!(ps.response_quantile_given(0.1, 0.05).unwrap().0, 0.1);
    let t = 10.0;
    let mixed: f64 = (0..4000)
        .map(|i| (f64::from(i) + 0.5) * 0.01)
        .map(|x| 0.01 * (-x).exp() * ps.response_tail_given(x, t).unwrap())
        .sum();
    near(mixed, ps.response_tail(t).unwrap(), 2e-3, &"mixed over x");
}

/// The mean of a distribution followed job by job is that of the stationary chain, by Little's law.
#[test]
fn limited_sharing_with_phases_meets_its_mean() {
    for (demand, slots) in [
        (Demand::balanced(1.0, 4.0).unwrap(), 2),
        (Demand::hyperexponential(&[(0.8, 0.5), (0.2, 3.0)]).unwrap(), 3),
        (Demand::erlang(2, 1.0).unwrap(), 3),
    ] {
        let times = LpsTimes::new(0.6, demand.clone(), slots).unwrap();
        let mean = Lps::new(0.6, demand.clone(), slots).unwrap().solve().unwrap().response;
        let (found, _) = moments(|t| times.response_tail(t).unwrap(), 0.05, 150.0);
        near(found, mean, 5e-3, &(demand, slots));
    }
}

#[test]
fn unknown_distributions_are_refused_with_the_way_out() {
    let lognormal = Demand::lognormal(1.0, 2.0).unwrap();
    for text in [
        FifoTimes::new(0.5, lognormal.clone()).unwrap_err().to_string(),
        PsTimes::new(0.5, lognormal.clone()).unwrap_err().to_string(),
        LpsTimes::new(0.5, lognormal, 4).unwrap_err().to_string(),
        LpsTimes::new(0.95, Demand::balanced(1.0, 60.0).unwrap(), 8).unwrap_err().to_string(),
    ] {
        assert!(text.contains("no distribution of response times is known"), "{text}");
        assert!(text.contains("simulate"), "{text}");
    }
    let ps = PsTimes::new(0.5, exponential()).unwrap();
    assert!(ps.response_quantile(0.99999).unwrap_err().to_string().contains("simulate it"));
    assert!(ps.response_quantile(1.0).unwrap_err().to_string().contains("0.99"));
    assert!(
        FifoTimes::new(1.0, exponential()).is_err() && PsTimes::new(1.2, exponential()).is_err()
    );
}
