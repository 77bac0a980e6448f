//! Closed networks of one class, exactly: what mean value analysis (MVA) answers, computed so that
//! stations of many servers cannot spoil it.
//!
//! The textbook recursion finds the probability that a multi-server station is empty as one less
//! all the others; that difference loses its digits, and at 8 servers and 80 clients the response
//! time comes out negative. Here the normalising constant G(n) is built by convolution (Buzen
//! 1973), in which every term is positive, so that the relative error stays near the number of
//! operations times 1e-16.

use crate::error::{at_least_one, not_negative};
use crate::wide::{Wide, convolved_at, convolved_log_concave};
use crate::{Exactness, SolveError};

/// Additions that an exact answer may take: some seconds.
const STEPS_MAX: f64 = 2e9;

/// A station of a network, with the demand of one cycle (or, in an open network, of one job):
/// visits times the service time of a visit, D = V S \[s\].
///
/// Exact answers need product form: a queue serves first in first out with exponential times, or
/// shares its servers among its jobs with any distribution; a delay may have any distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Station {
    pub(crate) demand: f64,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Queue { servers: u32 },
    Delay,
}

impl Station {
    /// One server with a queue in front, or one server that all its jobs share.
    ///
    /// # Errors
    /// If the demand \[s\] is negative.
    pub fn queue(demand: f64) -> Result<Station, SolveError> {
        Station::multi(demand, 1)
    }

    /// c like servers with one queue in front, or c that all jobs share, at most one a job.
    ///
    /// # Errors
    /// If the demand \[s\] is negative or there is no server.
    pub fn multi(demand: f64, servers: u32) -> Result<Station, SolveError> {
        at_least_one("servers", servers)?;
        let demand = not_negative("demand D", demand, "s")?;
        Ok(Station { demand, kind: Kind::Queue { servers } })
    }

    /// A server for everyone: time passes, nobody waits.
    ///
    /// # Errors
    /// If the demand \[s\] is negative.
    pub fn delay(demand: f64) -> Result<Station, SolveError> {
        Ok(Station { demand: not_negative("demand D", demand, "s")?, kind: Kind::Delay })
    }

    /// The throughput that this station alone allows, c / D [1/s]; infinite for a delay.
    pub(crate) fn capacity(&self) -> f64 {
        match self.kind {
            Kind::Queue { servers } => f64::from(servers) / self.demand,
            Kind::Delay => f64::INFINITY,
        }
    }

    /// Terms that count in one sum of [`ClosedNetwork::with_servers`], at most.
    fn terms(&self, clients: f64) -> f64 {
        let Kind::Queue { servers } = self.kind else { return 0.0 };
        let c = f64::from(servers);
        c.min(18.0 * c.min(clients).sqrt() + 10.0)
    }

    /// Only a station of several servers needs the long way.
    fn is_multi(&self) -> bool {
        matches!(self.kind, Kind::Queue { servers: 2.. })
    }
}

/// N clients that think for Z seconds, pass through the stations, and think again.
///
/// Time grows with N, and with N times the servers of a multi-server station (or, where these are
/// many, times some multiples of their root) and the square of how many such stations there are.
///
/// ```
/// use solve::{ClosedNetwork, Station};
///
/// // ohmae, part B: four stations that think 5 s, a LAN of 3.3 pages/s, a server of 2.5 pages/s.
/// let lan = Station::queue(1.0 / 3.3)?;
/// let scan_server = Station::queue(1.0 / 2.5)?;
/// let answer = ClosedNetwork::new(4, 5.0, &[lan, scan_server])?.solve();
/// assert!((answer.response - 0.85098).abs() < 1e-5);
/// assert!((answer.throughput - 0.68365).abs() < 1e-5);
/// # Ok::<(), solve::SolveError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ClosedNetwork {
    pub(crate) clients: u32,
    pub(crate) think: f64,
    pub(crate) stations: Vec<Station>,
}

/// Results of a closed network, as means over a long time.
#[derive(Clone, Debug, PartialEq)]
pub struct ClosedAnswer {
    /// Cycles completed, X [1/s].
    pub throughput: f64,
    /// Response time of a cycle without thinking, R = N / X - Z \[s\].
    pub response: f64,
    /// The stations, in the order given.
    pub stations: Vec<StationAnswer>,
}

/// Results of one station of a network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StationAnswer {
    /// Time that a cycle spends here, waiting and served, over all its visits \[s\].
    pub residence: f64,
    /// Mean number of jobs here, waiting or served.
    pub jobs: f64,
    /// Mean share of busy servers, from 0 to 1; none for a delay.
    pub utilisation: Option<f64>,
}

impl ClosedNetwork {
    /// A network of N clients with mean think time Z \[s\].
    ///
    /// # Errors
    /// If there is no client, Z is negative, neither thinking nor any station takes time, or an exact
    /// answer would take more than two billion steps.
    pub fn new(
        clients: u32,
        think: f64,
        stations: &[Station],
    ) -> Result<ClosedNetwork, SolveError> {
        at_least_one("clients N", clients)?;
        let think = not_negative("think time Z", think, "s")?;
        if think + stations_demand(stations) == 0.0 {
            return Err(SolveError::NoTime);
        }
        let network = ClosedNetwork { clients, think, stations: stations.to_vec() };
        let steps = network.steps();
        if steps > STEPS_MAX {
            return Err(SolveError::TooManySteps { clients, steps, steps_max: STEPS_MAX });
        }
        Ok(network)
    }

    /// Additions of [`ClosedNetwork::solve`], about: for each station of several servers, the
    /// constants of all others.
    fn steps(&self) -> f64 {
        let clients = f64::from(self.clients);
        let multi = |station: &&Station| station.is_multi() && !self.is_delay(station);
        let each: f64 = self.stations.iter().filter(multi).map(|s| s.terms(clients)).sum();
        let others = self.stations.iter().filter(multi).count() as f64 + 1.0;
        clients * (each * others + self.stations.len() as f64 * others)
    }

    /// A station at which nobody ever waits: there are no more clients than servers.
    fn is_delay(&self, station: &Station) -> bool {
        match station.kind {
            Kind::Delay => true,
            Kind::Queue { servers } => servers > 1 && servers >= self.clients,
        }
    }

    /// Throughput, response time, and every station's part in it.
    ///
    /// # Panics
    /// If the answer breaks Little's law, a capacity, or an asymptotic bound by more than rounding
    /// can: the formula would then be wrong, and a wrong number is worse than none.
    pub fn solve(&self) -> ClosedAnswer {
        let g = self.constants(None);
        let n = self.clients as usize;
        let x = g[n - 1].over(g[n]);
        let stations: Vec<StationAnswer> =
            (0..self.stations.len()).map(|k| self.station(k, x, &g)).collect();
        let response = stations.iter().map(|station| station.residence).sum();
        let answer = ClosedAnswer { throughput: x, response, stations };
        self.assert_sound(&answer);
        answer
    }

    /// Throughput at 1, 2, ... N clients, X(n) = G(n - 1) / G(n) [1/s], for the price of one.
    pub fn throughputs(&self) -> Vec<f64> {
        self.constants(None).windows(2).map(|g| g[0].over(g[1])).collect()
    }

    /// Probability of 0, 1, ... N jobs at a station, counted from 0.
    ///
    /// # Errors
    /// If there is no such station.
    pub fn distribution(&self, station: usize) -> Result<Vec<f64>, SolveError> {
        let stations = self.stations.len();
        if station >= stations {
            return Err(SolveError::NoStation { station, stations });
        }
        Ok(self.marginal(station))
    }

    /// Exact, for the stations that [`Station`] describes.
    pub fn exactness(&self) -> Exactness {
        Exactness::Exact
    }

    /// Means of station `k` at throughput `x`.
    fn station(&self, k: usize, x: f64, g: &[Wide]) -> StationAnswer {
        let station = &self.stations[k];
        let d = station.demand;
        let jobs = match station.kind {
            _ if self.is_delay(station) => x * d,
            // The arrival theorem: a job finds what a network of one client less would hold.
            Kind::Queue { servers: 1 } => {
                g.windows(2).fold(0.0, |q, g| d * g[0].over(g[1]) * (1.0 + q))
            }
            _ => self.marginal(k).iter().enumerate().map(|(n, p)| n as f64 * p).sum(),
        };
        let utilisation = match station.kind {
            Kind::Delay => None,
            Kind::Queue { servers } => Some(x * d / f64::from(servers)),
        };
        StationAnswer { residence: jobs / x, jobs, utilisation }
    }

    /// p_k(n | N) = f_k(n) G_{-k}(N - n) / G(N), where G_{-k} is the network without station k.
    fn marginal(&self, k: usize) -> Vec<f64> {
        let n = self.clients as usize;
        let f = self.factors(&self.stations[k]);
        let without = self.constants(Some(k));
        let whole = convolved_at(&f, &without, n);
        // One pair at a time, because f alone may be beyond every float.
        (0..=n).map(|j| convolved_at(&[f[j]], &[without[n - j]], 0).over(whole)).collect()
    }

    /// Normalising constants G(0..=N) of the network, without one station if told so.
    fn constants(&self, without: Option<usize>) -> Vec<Wide> {
        let n = self.clients as usize;
        let there = || {
            self.stations.iter().enumerate().filter(|(k, _)| Some(*k) != without).map(|(_, s)| s)
        };
        let delays: f64 = there().filter(|s| self.is_delay(s)).map(|s| s.demand).sum();
        let mut g = Vec::with_capacity(n + 1);
        g.push(Wide::ONE);
        for j in 1..=n {
            // All delays together are one: (Z + D)^j / j!.
            g.push(g[j - 1].times((self.think + delays) / j as f64));
        }
        for station in there().filter(|s| s.kind == Kind::Queue { servers: 1 }) {
            for j in 1..=n {
                g[j] = g[j].plus(g[j - 1].times(station.demand));
            }
        }
        for station in there().filter(|s| s.is_multi() && !self.is_delay(s)) {
            g = self.with_servers(station, &g);
        }
        g
    }

    /// The constants with a station of c servers more. Beyond c its factors fall by D/c each, so
    /// g'(n) - D/c g'(n-1) = sum of (f(j) - D/c f(j-1)) g(n-j) over j < c, and every term is positive.
    fn with_servers(&self, station: &Station, g: &[Wide]) -> Vec<Wide> {
        let Kind::Queue { servers } = station.kind else { unreachable!("a delay has no servers") };
        let (d, c) = (station.demand, f64::from(servers));
        let mut differences = vec![Wide::ONE];
        let mut factor = Wide::ONE;
        for j in 1..servers {
            let j = f64::from(j);
            differences.push(factor.times(d * (c - j) / (c * j)));
            factor = factor.times(d / j);
        }
        convolved_log_concave(&differences, g, d / c)
    }

    /// f(n) = D^n / (a(1) ... a(n)), where a(n) is how many servers work on n jobs.
    fn factors(&self, station: &Station) -> Vec<Wide> {
        let busy = |n: u32| match station.kind {
            Kind::Queue { servers } => n.min(servers),
            Kind::Delay => n,
        };
        let mut f = vec![Wide::ONE];
        for n in 1..=self.clients {
            f.push(f[n as usize - 1].times(station.demand / f64::from(busy(n))));
        }
        f
    }

    fn assert_sound(&self, answer: &ClosedAnswer) {
        let ClosedAnswer { throughput: x, response, stations } = answer;
        let n = f64::from(self.clients);
        let slack = 1e-12 * (n + 1000.0);
        assert!(x.is_finite() && *x > 0.0, "throughput {x} of {self:?}");
        let counted = x * self.think + stations.iter().map(|s| s.jobs).sum::<f64>();
        assert!((counted - n).abs() <= slack * n, "{counted} jobs, not {n}, in {self:?}");
        let within = |name: &str, value: f64, low: f64, high: f64| {
            let inside = value >= low * (1.0 - slack) && value <= high * (1.0 + slack);
            assert!(inside, "{name} {value} is not from {low} to {high} in {self:?}");
        };
        for station in stations {
            within("utilisation", station.utilisation.unwrap_or(0.0), 0.0, 1.0);
        }
        let bounds = self.asymptotic_bounds();
        within("throughput", *x, bounds.throughput_min, bounds.throughput_max);
        // Not `response_min`: where Z is most of a cycle, N D_max - Z itself loses its digits.
        let demand = stations_demand(&self.stations);
        within("response", *response, demand, n * demand);
    }
}

/// Time of a cycle when nobody else is there.
fn stations_demand(stations: &[Station]) -> f64 {
    stations.iter().map(|station| station.demand).sum()
}
