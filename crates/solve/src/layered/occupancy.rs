//! Number of jobs at one station, when everything else is a pause: the repairman's model, with
//! requests from outside, and with service that slows down as more are served.

use std::cell::Cell;

/// Parameters of the rates at a station.
pub(super) struct Repairman<'a> {
    /// Customers that come and go.
    pub(super) population: f64,
    /// Mean time of a customer from leaving to coming back, Z \[s\], above 0.
    pub(super) pause: f64,
    /// Mean time of a customer's round without its wait \[s\].
    pub(super) round: f64,
    /// Requests from outside [1/s].
    pub(super) open_rate: f64,
    /// Mean service \[s\].
    pub(super) service: f64,
    pub(super) servers: u32,
    /// Service with 1, 2, ... servers busy, as multiples of the mean; empty for 1 throughout.
    pub(super) pace: &'a [f64],
    /// Steps that were taken.
    pub(super) steps: &'a Cell<f64>,
}

/// Probabilities of so many jobs, around the most likely number.
pub(super) struct Occupancy {
    /// The number that the first probability is for.
    pub(super) from: u64,
    pub(super) chances: Vec<f64>,
}

/// Chances below this share of the largest change no answer.
const NEGLIGIBLE: f64 = 1e-14;

/// The most numbers of jobs looked at; open load near saturation has a long tail.
const STATES_MAX: usize = 200_000;

impl Repairman<'_> {
    fn birth(&self, jobs: u64) -> f64 {
        (self.population - jobs as f64).max(0.0) / self.pause + self.open_rate
    }

    /// Completions a second with so many jobs, above 0.
    fn death(&self, jobs: u64) -> f64 {
        let busy = jobs.min(u64::from(self.servers));
        busy as f64 / (self.service * self.pace_at(busy as usize))
    }

    fn pace_at(&self, busy: usize) -> f64 {
        self.pace.get(busy - 1).copied().unwrap_or(1.0)
    }

    pub(super) fn occupancy(&self) -> Occupancy {
        let peak = self.peak();
        // In multiples of the most likely one, so that they fall on both sides and none overflows.
        let mut below = Vec::new();
        let mut weight = 1.0;
        for jobs in (0..peak).rev() {
            weight *= self.death(jobs + 1) / self.birth(jobs);
            if weight < NEGLIGIBLE || below.len() == STATES_MAX {
                break;
            }
            below.push(weight);
        }
        let from = peak - below.len() as u64;
        let mut chances: Vec<f64> = below.into_iter().rev().collect();
        chances.push(1.0);
        weight = 1.0;
        for jobs in peak.. {
            weight *= self.birth(jobs) / self.death(jobs + 1);
            if weight < NEGLIGIBLE || chances.len() >= 2 * STATES_MAX {
                break;
            }
            chances.push(weight);
        }
        self.steps.set(self.steps.get() + chances.len() as f64);
        let sum: f64 = chances.iter().sum();
        chances.iter_mut().for_each(|chance| *chance /= sum);
        Occupancy { from, chances }
    }

    /// The most likely number of jobs, if birth falls and death rises with it.
    fn peak(&self) -> u64 {
        let most = self.population.ceil().max(0.0) as u64 + u64::from(self.servers) + 1;
        let (mut low, mut high) = (0, most);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.birth(middle) > self.death(middle + 1) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Mean wait of who comes and finds these chances \[s\].
    pub(super) fn wait(&self, found: &Occupancy) -> f64 {
        let servers = u64::from(self.servers);
        let completion = 1.0 / self.death(servers);
        let ahead = found.numbers().map(|(jobs, chance)| {
            if jobs < servers { 0.0 } else { (jobs - servers + 1) as f64 * chance }
        });
        ahead.sum::<f64>() * completion
    }

    /// The least wait of so many customers with which the servers can do what is asked \[s\].
    pub(super) fn wait_full(&self, customers: f64) -> f64 {
        let capacity = self.death(u64::from(self.servers)) - self.open_rate;
        let least = customers / capacity - self.round;
        if capacity > 0.0 && customers >= 1.0 { least.max(0.0) } else { 0.0 }
    }

    /// Chances that a server that is at work is one of 1, 2, ... `servers`, each weighted by the
    /// completions meanwhile.
    pub(super) fn busy_weights(&self, found: &Occupancy) -> Vec<f64> {
        let mut weights = vec![0.0; self.servers as usize];
        for (jobs, chance) in found.numbers().filter(|(jobs, _)| *jobs > 0) {
            let busy = jobs.min(u64::from(self.servers));
            weights[busy as usize - 1] += chance * self.death(busy);
        }
        let sum: f64 = weights.iter().sum();
        if sum > 0.0 {
            weights.iter_mut().for_each(|weight| *weight /= sum);
        }
        weights
    }
}

/// The most customers for which the influence of variability is computed as such; more are scaled
/// down, with their pause, because it no longer depends on how many they are.
const CUSTOMERS_MAX: f64 = 500.0;

impl Repairman<'_> {
    /// Ratio of waits to those with exponential service, if the mean square of the service is so
    /// many times that of an exponential one.
    ///
    /// With requests from outside it is that number (Pollaczek and Khinchine). Where customers are
    /// few, or the station is full, variability matters less; Takacs's formula for one repairman with
    /// gamma service says how much. Several servers are taken as one that is as fast as all.
    pub(super) fn variability(&self, square_ratio: f64) -> f64 {
        let closed_share = {
            let closed = (self.population - self.mean_jobs()).max(0.0) / self.pause;
            closed / (closed + self.open_rate)
        };
        let open = square_ratio.max(0.0);
        if (open - 1.0).abs() < 1e-9 || closed_share.is_nan() {
            return 1.0;
        }
        let scv = (2.0 * open - 1.0).max(0.0);
        let factor = self.wait_of_gamma(scv) / self.wait_of_gamma(1.0);
        let closed = if factor.is_finite() { factor } else { open };
        closed_share * closed + (1.0 - closed_share) * open
    }

    fn mean_jobs(&self) -> f64 {
        self.occupancy().numbers().map(|(jobs, chance)| jobs as f64 * chance).sum()
    }

    /// Mean wait at one server with gamma service, without requests from outside (Takacs,
    /// Introduction to the Theory of Queues, 1962, ch. 5): the share of time that it is idle is
    /// 1 / (1 + N s/Z sum_k C(N-1, k) prod_{i=1..k} (1 / phi(i/Z) - 1)).
    fn wait_of_gamma(&self, scv: f64) -> f64 {
        let servers = f64::from(self.servers);
        let service = self.service / servers;
        let scale = (CUSTOMERS_MAX / (self.population + 1.0)).min(1.0);
        let customers = ((self.population + 1.0) * scale).round().max(1.0);
        let pause = (self.pause + self.service - service) * scale;
        // The logarithm of 1 / phi(i/Z) - 1.
        let factor = |i: f64| {
            let exponent = i * service / pause;
            let exponent = if scv < 1e-6 { exponent } else { (1.0 + exponent * scv).ln() / scv };
            // Far beyond 30 the power would overflow, and from there on the 1 no longer counts.
            if exponent > 30.0 { exponent } else { exponent.exp_m1().ln() }
        };
        // Logarithms and exponentials.
        self.steps.set(self.steps.get() + 5.0 * customers);
        // Both begin with the term of k = 0, which is 1.
        let mut log_term = 0.0_f64;
        let mut log_sum = 0.0_f64;
        for k in 1..customers as u64 {
            let k = k as f64;
            log_term += ((customers - k) / k).ln() + factor(k);
            let (high, low) = (log_sum.max(log_term), log_sum.min(log_term));
            log_sum = high + (low - high).exp().ln_1p();
        }
        let idle = 1.0 / (1.0 + (log_sum + (customers * service / pause).ln()).exp());
        let throughput = (1.0 - idle) / service;
        (customers / throughput - pause - service).max(0.0)
    }
}

impl Occupancy {
    fn numbers(&self) -> impl Iterator<Item = (u64, f64)> {
        self.chances.iter().enumerate().map(|(index, &chance)| (self.from + index as u64, chance))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::Repairman;

    #[test]
    fn without_customers_it_is_erlangs_wait() {
        let open = Repairman {
            population: 0.0,
            pause: 1.0,
            round: 2.0,
            open_rate: 3.0,
            service: 1.0,
            servers: 4,
            pace: &[],
            steps: &Cell::default(),
        };
        let exact = crate::Mmc::new(3.0, 1.0, 4).unwrap().wait();
        let wait = open.wait(&open.occupancy());
        assert!((wait / exact - 1.0).abs() < 1e-9, "{wait}, not {exact}");
    }

    #[test]
    fn variability_matters_as_much_as_it_does() {
        let steps = Cell::default();
        let station = |population, pause, open_rate| Repairman {
            population,
            pause,
            round: pause + 1.0,
            open_rate,
            service: 1.0,
            servers: 1,
            pace: &[],
            steps: &steps,
        };
        // From outside: constant service halves the wait (Pollaczek and Khinchine).
        let outside = station(0.0, 1.0, 0.8).variability(0.5);
        assert!((outside - 0.5).abs() < 1e-9, "{outside}");
        // A thousand customers that come rarely are nearly that.
        let many = station(999.0, 1999.0, 0.0).variability(0.5);
        assert!((0.5..0.53).contains(&many), "{many}");
        // Where the station is always full, the wait is what is left of the cycle.
        let full = station(19.0, 1.0, 0.0).variability(0.5);
        assert!((full - 1.0).abs() < 1e-6, "{full}");
        // Two customers, constant service s = 1, pause Z = 1: idle 1 / (1 + 2 (1 + e - 1)) by hand.
        let wait = station(1.0, 1.0, 0.0).wait_of_gamma(0.0);
        let idle = 1.0 / (1.0 + 2.0 * std::f64::consts::E);
        assert!((wait - (2.0 / (1.0 - idle) - 2.0)).abs() < 1e-12, "{wait}");
    }

    #[test]
    fn without_requests_from_outside_it_is_the_closed_network() {
        // An arrival finds what one customer less leaves.
        for (customers, servers) in [(1, 1), (9, 1), (40, 8), (500, 3)] {
            let closed = Repairman {
                population: f64::from(customers - 1),
                pause: 10.0,
                round: 14.0,
                open_rate: 0.0,
                service: 4.0,
                servers,
                pace: &[],
                steps: &Cell::default(),
            };
            let station = crate::Station::multi(4.0, servers).unwrap();
            let exact = crate::ClosedNetwork::new(customers, 10.0, &[station]).unwrap().solve();
            let response = closed.wait(&closed.occupancy()) + 4.0;
            let case = (customers, servers, response, exact.response);
            assert!((response / exact.response - 1.0).abs() < 1e-9, "{case:?}");
        }
    }
}
