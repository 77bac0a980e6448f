//! Properties that hold for all parameters, tried at random ones. A failure prints them.

use solve::{
    ClosedBounds, ClosedGate, ClosedNetwork, Mg1Fifo, Mg1Lps, Mg1Ps, Mmc, Moments, OpenNetwork,
    Station,
};

use crate::near;

/// The cases of each property in the short suite.
const CASES: u64 = 400;

/// The seeds of a property: ten times as many in the long suite, `SEKISHO_LONG`.
fn seeds() -> std::ops::Range<u64> {
    0..if std::env::var_os("SEKISHO_LONG").is_some() { 10 * CASES } else { CASES }
}

/// A linear congruential generator (Knuth's MMIX constants), so that a seed is a case for ever.
pub(crate) struct Lcg(u64);

impl Lcg {
    pub(crate) fn new(seed: u64) -> Lcg {
        let mut lcg = Lcg(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        lcg.unit();
        lcg
    }

    /// From [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From low to high, each order of magnitude alike.
    pub(crate) fn scale(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }

    /// From low to high, both included, small ones more often.
    pub(crate) fn count(&mut self, low: u32, high: u32) -> u32 {
        (self.scale(f64::from(low), f64::from(high) + 0.999) as u32).clamp(low, high)
    }

    fn moments(&mut self) -> Moments {
        let mean = self.scale(1e-6, 1e3);
        match self.count(1, 3) {
            1 => Moments::exponential(mean).unwrap(),
            2 => Moments::constant(mean).unwrap(),
            _ => Moments::with_scv(mean, self.scale(0.01, 100.0)).unwrap(),
        }
    }

    /// Stations of like orders of magnitude; single servers and delays, and others if `servers` >
    /// 1.
    fn stations(&mut self, servers: u32) -> Vec<Station> {
        (0..self.count(1, 5))
            .map(|_| {
                let demand = if self.unit() < 0.05 { 0.0 } else { self.scale(1e-3, 10.0) };
                match self.count(1, 3) {
                    1 => Station::multi(demand, self.count(1, servers)).unwrap(),
                    2 => Station::queue(demand).unwrap(),
                    _ => Station::delay(demand).unwrap(),
                }
            })
            .collect()
    }

    /// A think time above zero, so that a cycle always takes time.
    fn network(&mut self, clients: u32, servers: u32) -> ClosedNetwork {
        let think = self.scale(1e-3, 1e3);
        let n = self.count(1, clients);
        ClosedNetwork::new(n, think, &self.stations(servers)).unwrap()
    }
}

#[track_caller]
fn at_most(low: f64, high: f64, case: &dyn std::fmt::Debug) {
    assert!(low <= high * (1.0 + 1e-9) + 1e-300, "{low} is above {high}: {case:?}");
}

#[track_caller]
fn sound(value: f64, case: &dyn std::fmt::Debug) {
    assert!(value.is_finite() && value.is_sign_positive(), "{value}: {case:?}");
}

#[test]
fn bounds_hold_the_exact_answer_and_nest() {
    for seed in seeds() {
        let mut lcg = Lcg::new(seed);
        let network = lcg.network(300, 1);
        let answer = network.solve();
        let inner = network.balanced_job_bounds();
        let outer = network.asymptotic_bounds();
        let proportional = network.proportional_bounds().unwrap();
        let geometric = network.geometric_bounds();
        for bounds in [inner, outer, proportional, geometric] {
            let ClosedBounds { throughput_min, throughput_max, response_min, response_max } =
                bounds;
            at_most(throughput_min, answer.throughput, &(seed, &network));
            at_most(answer.throughput, throughput_max, &(seed, &network));
            at_most(response_min, answer.response, &(seed, &network));
            at_most(answer.response, response_max, &(seed, &network));
        }
        at_most(outer.throughput_min, inner.throughput_min, &(seed, &network));
        at_most(inner.throughput_max, outer.throughput_max, &(seed, &network));
        at_most(outer.response_min, inner.response_min, &(seed, &network));
        at_most(inner.response_max, outer.response_max, &(seed, &network));
    }
}

#[test]
fn bounds_hold_with_many_servers_too() {
    for seed in seeds() {
        let network = Lcg::new(seed).network(100, 64);
        let (answer, outer) = (network.solve(), network.asymptotic_bounds());
        for bounds in [outer, network.balanced_job_bounds(), network.geometric_bounds()] {
            at_most(bounds.throughput_min, answer.throughput, &(seed, &network));
            at_most(answer.throughput, bounds.throughput_max, &(seed, &network));
            at_most(bounds.response_min, answer.response, &(seed, &network));
            at_most(answer.response, bounds.response_max, &(seed, &network));
            at_most(outer.throughput_min, bounds.throughput_min, &(seed, &network));
            at_most(bounds.throughput_max, outer.throughput_max, &(seed, &network));
        }
    }
}

#[test]
fn balanced_networks_meet_their_balanced_job_bounds() {
    for seed in seeds() {
        let mut lcg = Lcg::new(seed);
        let d = lcg.scale(1e-3, 10.0);
        let (n, k) = (lcg.count(1, 200), lcg.count(1, 6));
        let stations = vec![Station::queue(d).unwrap(); k as usize];
        let network = ClosedNetwork::new(n, 0.0, &stations).unwrap();
        let (answer, bounds) = (network.solve(), network.balanced_job_bounds());
        let case = (seed, n, k, d);
        near(bounds.throughput_min, answer.throughput, 1e-11, &case);
        near(bounds.throughput_max, answer.throughput, 1e-11, &case);
        // In closed form: X = N / (D (N + K - 1)) for K stations of demand D each.
        let (n, k) = (f64::from(n), f64::from(k));
        near(answer.throughput, n / (d * (n + k - 1.0)), 1e-11, &case);
    }
}

#[test]
fn open_bounds_hold_the_exact_answer() {
    for seed in seeds() {
        let mut lcg = Lcg::new(seed);
        let stations = lcg.stations(1);
        let idle = OpenNetwork::new(0.0, &stations).unwrap();
        let lambda = lcg.unit() * idle.saturation_rate().unwrap_or(1.0) * 0.999_999;
        let network = OpenNetwork::new(lambda, &stations).unwrap();
        let answer = network.solve();
        let bounds = network.balanced_job_bounds().unwrap();
        at_most(bounds.response_min, answer.response, &(seed, &network));
        at_most(answer.response, bounds.response_max.unwrap(), &(seed, &network));
        at_most(network.asymptotic_bounds().response_min, bounds.response_min, &(seed, &network));
        let jobs: f64 = answer.stations.iter().map(|station| station.jobs).sum();
        near(jobs, lambda * answer.response, 1e-12, &(seed, &network));
    }
}

#[test]
fn littles_law_holds_in_every_part_of_a_closed_network() {
    for seed in seeds() {
        let mut lcg = Lcg::new(seed);
        let think = lcg.scale(1e-3, 1e3);
        let (n, stations) = (lcg.count(1, 100), lcg.stations(20));
        let network = ClosedNetwork::new(n, think, &stations).unwrap();
        let answer = network.solve();
        let case = (seed, &network);
        near(answer.throughput * (answer.response + think), f64::from(n), 1e-10, &case);
        for (k, station) in answer.stations.iter().enumerate() {
            near(station.jobs, answer.throughput * station.residence, 1e-12, &case);
            let distribution = network.distribution(k).unwrap();
            near(distribution.iter().sum(), 1.0, 1e-10, &case);
            let mean: f64 = distribution.iter().enumerate().map(|(j, p)| j as f64 * p).sum();
            assert!(
                (mean - station.jobs).abs() <= 1e-9 * (1.0 + mean),
                "{mean}: {case:?} {station:?}"
            );
        }
    }
}

#[test]
fn more_clients_mean_more_throughput_and_longer_responses() {
    for seed in seeds() {
        let network = Lcg::new(seed).network(120, 16);
        let curve = network.throughputs();
        near(*curve.last().unwrap(), network.solve().throughput, 1e-12, &(seed, &network));
        let mut before = (0.0, 0.0);
        for (n, &x) in (1..).zip(&curve) {
            at_most(before.0, x, &(seed, n, &network));
            let cycle = f64::from(n) / x;
            at_most(before.1, cycle, &(seed, n, &network));
            before = (x, cycle);
        }
    }
}

#[test]
fn more_slots_never_slow_the_gate_and_more_cores_neither() {
    for seed in seeds() {
        let mut lcg = Lcg::new(seed);
        let demand = lcg.moments();
        let delay = demand.mean() * lcg.scale(0.01, 1000.0);
        let (clients, slots, cores) = (lcg.count(1, 300), lcg.count(1, 64), lcg.count(1, 16));
        let at = |clients, slots, cores| {
            let gate = ClosedGate::new(clients, delay, demand, slots).unwrap();
            gate.with_cores(cores).unwrap().solve()
        };
        let case = (seed, clients, delay, demand, slots, cores);
        let answer = at(clients, slots, cores);
        at_most(answer.throughput, at(clients, slots + 1, cores).throughput, &case);
        at_most(answer.throughput, at(clients, slots, cores + 1).throughput, &case);
        at_most(answer.throughput, at(clients + 1, slots, cores).throughput, &case);
        at_most(answer.response, at(clients + 1, slots, cores).response, &case);
        at_most(at(clients, slots + 1, cores).wait, answer.wait, &case);
        at_most(answer.hold, at(clients, slots + 1, cores).hold, &case);
        at_most(answer.holding, f64::from(slots.min(clients)), &case);
        at_most(demand.mean(), answer.response, &case);
        at_most(answer.response, demand.mean() * f64::from(clients), &case);
    }
}

#[test]
fn limited_sharing_lies_between_its_limits() {
    for seed in seeds() {
        let mut lcg = Lcg::new(seed);
        let demand = lcg.moments();
        let lambda = lcg.unit() / demand.mean();
        let x = demand.mean() * lcg.scale(1e-3, 1e3);
        let fifo = Mg1Fifo::new(lambda, demand).unwrap();
        let ps = Mg1Ps::new(lambda, demand).unwrap();
        let at = |r| Mg1Lps::new(lambda, demand, r).unwrap();
        let case = (seed, lambda, demand, x);
        near(at(Some(1)).response(), fifo.response(), 1e-9, &case);
        near(at(Some(1)).response_given(x).unwrap(), fifo.response_given(x).unwrap(), 1e-9, &case);
        near(at(None).response_given(x).unwrap(), ps.response_given(x).unwrap(), 1e-12, &case);
        near(at(Some(u32::MAX)).response(), ps.response(), 1e-6, &case);
        let (low, high) = (fifo.response().min(ps.response()), fifo.response().max(ps.response()));
        let mut wait = fifo.wait();
        for r in [2, 3, 7, 50, 1000] {
            let lps = at(Some(r));
            at_most(low, lps.response(), &case);
            at_most(lps.response(), high, &case);
            at_most(lps.wait(), wait, &case);
            at_most(lps.hold_given(x).unwrap(), f64::from(r) * x, &case);
            near(lps.in_system(), lambda * lps.response(), 1e-12, &case);
            wait = lps.wait();
        }
    }
}

#[test]
fn more_load_and_fewer_servers_mean_longer_waits() {
    for seed in seeds() {
        let mut lcg = Lcg::new(seed);
        let (service, c) = (lcg.scale(1e-6, 1e3), lcg.count(1, 500));
        let rho = lcg.unit() * 0.999;
        let at = |rho: f64, c: u32| Mmc::new(rho * f64::from(c) / service, service, c).unwrap();
        let (queue, case) = (at(rho, c), (seed, service, c, rho));
        at_most(queue.wait(), at(rho + 0.000_9, c).wait(), &case);
        // Pooling: twice the servers at the same utilisation wait less.
        at_most(at(rho, 2 * c).wait(), queue.wait(), &case);
        at_most(queue.wait_probability(), 1.0, &case);
        for t in [0.0, service, 30.0 * service] {
            at_most(queue.wait_tail(t).unwrap(), queue.response_tail(t).unwrap(), &case);
            at_most(queue.response_tail(t).unwrap(), 1.0, &case);
        }
        at_most(
            queue.response_quantile(0.5).unwrap(),
            queue.response_quantile(0.99).unwrap(),
            &case,
        );
    }
}

/// The edges of what is promised: 2000 clients, 64 servers, times over six orders of magnitude.
#[test]
fn large_systems_stay_finite_and_positive() {
    for seed in 0..12 {
        let mut lcg = Lcg::new(seed);
        let stations = [
            Station::multi(lcg.scale(1e-3, 1e3), 64).unwrap(),
            Station::queue(lcg.scale(1e-3, 1e3)).unwrap(),
            Station::delay(lcg.scale(1e-3, 1e3)).unwrap(),
            Station::multi(lcg.scale(1e-3, 1e3), lcg.count(2, 64)).unwrap(),
        ];
        let network = ClosedNetwork::new(2000, lcg.scale(1e-3, 1e6), &stations).unwrap();
        let answer = network.solve();
        let case = (seed, &network);
        sound(answer.throughput, &case);
        sound(answer.response, &case);
        for station in &answer.stations {
            sound(station.residence, &case);
            sound(station.jobs, &case);
            at_most(station.utilisation.unwrap_or(0.0), 1.0, &case);
        }
    }
    for seed in seeds() {
        let mut lcg = Lcg::new(seed);
        let demand = lcg.moments();
        let delay = demand.mean() * lcg.scale(1e-6, 1e6);
        let gate = ClosedGate::new(2000, delay, demand, lcg.count(1, 3000)).unwrap();
        let answer = gate.with_cores(lcg.count(1, 64)).unwrap().solve();
        for value in [answer.throughput, answer.response, answer.wait, answer.hold] {
            sound(value, &(seed, &gate));
        }
    }
}

/// Times from 1e-99 to 1e99 in one system: absurd, but accepted, so it must be answered.
#[test]
fn absurd_scales_stay_finite_and_positive() {
    for seed in seeds() {
        let mut lcg = Lcg::new(seed);
        let mut time = || lcg.scale(1e-99, 1e99);
        let (think, demand) = (time(), time());
        let stations = [
            Station::multi(time(), 3).unwrap(),
            Station::queue(time()).unwrap(),
            Station::delay(time()).unwrap(),
        ];
        let n = lcg.count(1, 200);
        let network = ClosedNetwork::new(n, think, &stations).unwrap();
        let answer = network.solve();
        sound(answer.throughput, &(seed, &network));
        sound(answer.response, &(seed, &network));
        let demand = Moments::exponential(demand).unwrap();
        let gate = ClosedGate::new(n, think, demand, lcg.count(1, 300)).unwrap();
        let answer = gate.solve();
        for value in [answer.throughput, answer.response, answer.wait, answer.hold] {
            sound(value, &(seed, &gate));
        }
    }
}

/// Think times that dwarf a response must not cost it its digits.
#[test]
fn a_long_think_time_costs_no_digits() {
    for seed in seeds() {
        let mut lcg = Lcg::new(seed);
        let (n, d) = (lcg.count(2, 50), lcg.scale(1e-3, 10.0));
        let network = ClosedNetwork::new(n, 1e9, &[Station::queue(d).unwrap()]).unwrap();
        // To first order in 1 / Z: a client finds each of the others with chance D / Z.
        let want = d * (1.0 + f64::from(n - 1) * d / 1e9);
        near(network.solve().response, want, 1e-12, &(seed, &network));
    }
}
