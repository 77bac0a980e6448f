//! What is refused, and that the message names the parameter, its value and the way out.

use solve::{
    ClosedGate, ClosedNetwork, Mg1Fifo, Mg1Lps, Mg1Ps, Mm1, Mmc, Moments, OpenNetwork,
    SaturatedLoop, SolveError, Station, erlang_b,
};

/// The message of a refusal.
#[track_caller]
fn refusal<T: std::fmt::Debug>(result: Result<T, SolveError>) -> String {
    result.expect_err("should be refused").to_string()
}

#[test]
fn an_overload_names_the_rate_that_can_be_carried() {
    let demand = Moments::exponential(0.1).unwrap();
    let stations = [Station::queue(0.01).unwrap(), Station::multi(0.4, 4).unwrap()];
    for (text, place) in [
        (refusal(Mm1::new(10.7, 0.1)), "M/M/1"),
        (refusal(Mmc::new(10.7, 0.4, 4)), "M/M/4"),
        (refusal(Mg1Fifo::new(10.7, demand)), "M/G/1 FIFO"),
        (refusal(Mg1Ps::new(10.7, demand)), "M/G/1 PS"),
        (refusal(Mg1Lps::new(10.7, demand, Some(3))), "M/G/1 LPS"),
        (refusal(OpenNetwork::new(10.7, &stations)), "station 1"),
    ] {
        let want = format!(
            "{place}: utilisation rho = 1.07 is not below 1: no steady state; lower the arrival \
             rate below 10 /s, cut the demand, add capacity, or ask a closed model"
        );
        assert_eq!(text, want);
    }
    assert!(refusal(Mm1::new(10.0, 0.1)).contains("rho = 1 is not below 1"));
}

#[test]
fn no_parameter_may_be_negative_or_no_number() {
    let demand = Moments::exponential(0.1).unwrap();
    let queue = Mmc::new(1.0, 0.1, 2).unwrap();
    let one = Mm1::new(1.0, 0.1).unwrap();
    let lps = Mg1Lps::new(1.0, demand, Some(3)).unwrap();
    let gate = ClosedGate::new(3, 0.1, demand, 2).unwrap().solve();
    let run = SaturatedLoop::new(3, 2, 0.1).unwrap();
    for bad in [-1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-300, 1e300] {
        for (text, name) in [
            (refusal(Mm1::new(bad, 0.1)), "arrival rate lambda"),
            (refusal(Mm1::new(1.0, bad)), "mean service time 1/mu"),
            (refusal(Mmc::new(bad, 0.1, 2)), "arrival rate lambda"),
            (refusal(Mmc::new(1.0, bad, 2)), "mean service time 1/mu"),
            (refusal(erlang_b(bad, 2)), "offered load a"),
            (refusal(Moments::new(bad, 1.0)), "mean E[S]"),
            (refusal(Moments::with_scv(1.0, bad)), "squared coefficient"),
            (refusal(Moments::exponential(bad)), "mean E[S]"),
            (refusal(Moments::constant(bad)), "mean E[S]"),
            (refusal(Moments::lognormal(0.0, bad)), "sigma"),
            (refusal(Moments::weighted(&[(bad, 1.0)])), "value"),
            (refusal(Moments::weighted(&[(1.0, bad)])), "weight"),
            (refusal(demand.affine(bad, 1.0)), "slope a"),
            (refusal(demand.affine(1.0, bad)), "intercept b"),
            (refusal(Mg1Fifo::new(bad, demand)), "arrival rate lambda"),
            (refusal(Mg1Ps::new(bad, demand)), "arrival rate lambda"),
            (refusal(Mg1Lps::new(bad, demand, None)), "arrival rate lambda"),
            (refusal(Station::queue(bad)), "demand D"),
            (refusal(Station::multi(bad, 2)), "demand D"),
            (refusal(Station::delay(bad)), "demand D"),
            (refusal(ClosedNetwork::new(1, bad, &[])), "think time Z"),
            (refusal(ClosedGate::new(1, bad, demand, 1)), "delay Z"),
            (refusal(SaturatedLoop::new(1, 1, bad)), "mean demand E[g]"),
            (refusal(queue.wait_tail(bad)), "time t"),
            (refusal(queue.response_tail(bad)), "time t"),
            (refusal(one.response_tail(bad)), "time t"),
            (refusal(lps.response_given(bad)), "demand x"),
            (refusal(gate.response_given(bad)), "demand x"),
            (refusal(run.response_given(bad)), "demand x"),
        ] {
            assert!(text.starts_with(name), "{text}");
            assert!(text.contains(&format!("= {bad} ")), "{text} does not show {bad}");
            assert!(text.contains("check its sign and its unit"), "{text}");
        }
    }
}

#[test]
fn no_count_may_be_zero() {
    let demand = Moments::exponential(0.1).unwrap();
    let gate = ClosedGate::new(1, 0.1, demand, 1).unwrap();
    for (text, name) in [
        (refusal(Mmc::new(1.0, 0.1, 0)), "servers c"),
        (refusal(erlang_b(1.0, 0)), "servers c"),
        (refusal(Mg1Lps::new(1.0, demand, Some(0))), "slots r"),
        (refusal(Station::multi(1.0, 0)), "servers"),
        (refusal(ClosedNetwork::new(0, 1.0, &[])), "clients N"),
        (refusal(OpenNetwork::new(1.0, &[])), "stations"),
        (refusal(ClosedGate::new(0, 0.1, demand, 1)), "clients c"),
        (refusal(ClosedGate::new(1, 0.1, demand, 0)), "slots r"),
        (refusal(gate.with_cores(0)), "cores"),
        (refusal(SaturatedLoop::new(0, 1, 1.0)), "clients c"),
        (refusal(SaturatedLoop::new(1, 0, 1.0)), "slots r"),
    ] {
        assert_eq!(text, format!("the number of {name} is 0; give at least 1"));
    }
}

#[test]
fn quantiles_moments_and_stations_are_checked() {
    let queue = Mmc::new(1.0, 0.1, 2).unwrap();
    for bad in [1.0, -0.1, 99.0, f64::NAN] {
        for text in [
            refusal(queue.wait_quantile(bad)),
            refusal(queue.response_quantile(bad)),
            refusal(Mm1::new(1.0, 0.1).unwrap().response_quantile(bad)),
        ] {
            assert!(text.contains("the 99th percentile is 0.99"), "{text}");
        }
    }
    // A variance where the second moment belongs: the likeliest slip.
    assert!(refusal(Moments::new(2.0, 1.0)).contains("give E[S^2], not the variance"));
    assert!(refusal(Moments::new(2.0, f64::NAN)).contains("second moment NaN"));
    assert!(refusal(Moments::weighted(&[])).starts_with("sum of weights = 0"));
    let idle = [Station::queue(0.0).unwrap()];
    assert_eq!(ClosedNetwork::new(5, 0.0, &idle), Err(SolveError::NoTime));
    let pool = ClosedNetwork::new(5, 1.0, &[idle[0], Station::multi(1.0, 3).unwrap()]).unwrap();
    let text = refusal(pool.proportional_bounds());
    assert!(text.starts_with("station 1 has 3 servers"), "{text}");
    assert!(refusal(pool.distribution(2)).starts_with("there is no station 2"));
}
