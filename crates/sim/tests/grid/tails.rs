//! How often the intervals of quantiles hold the truth, far ones too, and the committed table of that:
//! `examples/tails.rs` makes it. The rule that it judges was chosen among some by these seeds: other ones are
//! asked in `tests/it/intervals.rs`.

use sim::{Class, Demand, Load, Network, Options, Plan, Station, StationKind, Step};
use workload::{Arrivals, Dist};

/// A queue of exponential servers of mean service 1, how it is run, and what is true of it.
pub(crate) struct Tail {
    pub(crate) name: &'static str,
    servers: u32,
    rate: f64,
    plan: Plan,
    precision: f64,
}

/// The intervals of one quantile, counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) runs: u64,
    /// Those that are finite, and of these: those that hold the truth, and those that lie below it.
    pub(crate) known: u64,
    pub(crate) held: u64,
    pub(crate) below: u64,
    /// Sum over the known ones, as shares of the truth.
    pub(crate) half_widths: f64,
}

/// The quantiles looked at, those that a run reports.
pub(crate) const QUANTILES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];

impl Tail {
    pub(crate) const SEEDS: u64 = 200;

    pub(crate) fn all() -> Vec<Tail> {
        let ten = Plan::Replications(10);
        let tail = |name, servers: u32, rho: f64, plan, precision| {
            let rate = rho * f64::from(servers);
            Tail { name, servers, rate, plan, precision }
        };
        vec![
            tail("M/M/1 at 0.5", 1, 0.5, ten, 0.02),
            tail("M/M/1 at 0.5, briefly", 1, 0.5, ten, 0.05),
            tail("M/M/1 at 0.8", 1, 0.8, ten, 0.04),
            tail("M/M/1 at 0.8, briefly", 1, 0.8, ten, 0.1),
            tail("M/M/1 at 0.8 in one run", 1, 0.8, Plan::OneRun, 0.04),
            tail("M/M/1 at 0.8 by 30 replications", 1, 0.8, Plan::Replications(30), 0.04),
            tail("M/M/4 at 0.8", 4, 0.8, ten, 0.04),
        ]
    }

    fn network(&self) -> Network {
        let mut network = Network::default();
        let kind = StationKind::Queue { servers: self.servers };
        let station = network.add_station(Station::new("queue", kind));
        let demand = Demand::Drawn(Dist::Exponential { mean: 1.0 });
        let load = Load::Open(Arrivals::Poisson { rate: self.rate });
        network.add_class(Class::new("jobs", load, vec![Step::Visit { station, demand }]));
        network
    }

    fn options(&self, at: usize, n: u64) -> Options {
        Options {
            seed: 2_000_000 + 1_000 * at as u64 + n,
            plan: self.plan,
            precision: self.precision,
            threads: Some(1),
            ..Options::default()
        }
    }

    /// The quantile of the response \[s\], by bisection: who waits does so for an exponential time.
    pub(crate) fn truth(&self, q: f64) -> f64 {
        let servers = f64::from(self.servers);
        let waits = crate::truths::erlang_wait(self.servers, self.rate) * (servers - self.rate);
        let rest = servers - self.rate;
        let beyond = |t: f64| {
            let both = (rest * (-t).exp() - (-rest * t).exp()) / (rest - 1.0);
            (1.0 - waits) * (-t).exp() + waits * both
        };
        let (mut low, mut high) = (0.0, 1e4);
        while high - low > 1e-10 * high {
            let middle = f64::midpoint(low, high);
            *(if beyond(middle) > 1.0 - q { &mut low } else { &mut high }) = middle;
        }
        high
    }

    /// Runs these of its runs, by quantile.
    ///
    /// # Panics
    /// If a run fails.
    pub(crate) fn count(&self, at: usize, runs: std::ops::Range<u64>) -> [Count; 5] {
        let mut counts = [Count::default(); 5];
        let network = self.network();
        for n in runs {
            let outcome = sim::run(&network, &self.options(at, n));
            let outcome = outcome.unwrap_or_else(|error| panic!("{}: {error}", self.name));
            let found = &outcome.classes[0].quantiles;
            for (count, (q, found)) in counts.iter_mut().zip(found) {
                let truth = self.truth(*q);
                count.runs += 1;
                if !found.half_width.is_finite() {
                    continue;
                }
                count.known += 1;
                count.held += u64::from(found.holds(truth));
                count.below += u64::from(found.high() < truth);
                count.half_widths += found.half_width / truth;
            }
        }
        counts
    }

    /// What names a row.
    pub(crate) fn key(&self, at: usize, q: f64) -> String {
        let Options { seed, plan, precision, .. } = self.options(at, 0);
        format!("\"{}\",{q},{seed},{plan:?},{precision},{:.8}", self.name, self.truth(q))
    }

    /// The row of a quantile.
    pub(crate) fn row(&self, at: usize, q: f64, count: &Count) -> String {
        let Count { runs, known, held, below, .. } = count;
        let coverage = *held as f64 / (*known).max(1) as f64;
        let half_width = 100.0 * count.half_widths / (*known).max(1) as f64;
        let key = self.key(at, q);
        format!("{key},{runs},{known},{held},{below},{coverage:.3},{half_width:.2}")
    }
}

/// The first line of the table.
pub(crate) const HEAD: &str =
    "case,quantile,seed,plan,precision,truth,runs,known,held,below,coverage,half_width_percent";
