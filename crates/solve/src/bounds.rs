//! Bounds that no network can exceed, from demands alone: asymptotic and balanced-job bounds
//! (Lazowska et al. 1984, chapter 5), proportional and geometric ones. They are sums and maxima
//! that a reader can do by hand, and so the first check of every other answer.

use crate::closed::{ClosedNetwork, Kind, Station};
use crate::open::OpenNetwork;
use crate::{Exactness, SolveError};

/// An interval that holds the exact throughput and response time of a closed network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClosedBounds {
    /// The throughput is at least this [1/s].
    pub throughput_min: f64,
    /// The throughput is at most this [1/s].
    pub throughput_max: f64,
    /// The response time is at least this \[s\].
    pub response_min: f64,
    /// The response time is at most this \[s\].
    pub response_max: f64,
}

/// An interval that holds the exact response time of an open network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpenBounds {
    /// The response time is at least this \[s\].
    pub response_min: f64,
    /// The response time is at most this \[s\]; asymptotic bounds know no such limit.
    pub response_max: Option<f64>,
}

impl ClosedNetwork {
    /// Asymptotic bounds: N / (N D + Z) <= X <= min(c_k / D_k, N / (D + Z)), and by Little's law
    /// max(D, N / min(c_k / D_k) - Z) <= R <= N D. Delays count for Z in X and for D in R.
    pub fn asymptotic_bounds(&self) -> ClosedBounds {
        let Sums { n, d, pause, delays, capacity, .. } = self.sums();
        ClosedBounds {
            throughput_min: n / (n * d + pause),
            throughput_max: capacity.min(n / (d + pause)),
            response_min: (d + delays).max(n / capacity - self.think),
            response_max: n * d + delays,
        }
    }

    /// Balanced-job bounds: the network is no worse than one whose stations are all as slow as its
    /// slowest, D_max, and no better than one whose stations are all of its mean, D_a. With think
    /// time:
    ///
    /// ```text
    ///   D + (N-1) D_a / (1 + Z/D)  <=  N/X - Z  <=  D + (N-1) D_max / (1 + Z/(N D))
    /// ```
    ///
    /// A station of m servers serves no faster than one that is m times as fast, and no slower than that
    /// one with a delay of D (m-1)/m behind it (Seidmann, Schweitzer and Shalev-Oren 1987: n jobs alone there
    /// are served at a rate of at most min(n, m)/D). Since a network of product form serves no less where a
    /// station is faster (Shanthikumar and Yao 1986), the bounds of these two hold its answer.
    pub fn balanced_job_bounds(&self) -> ClosedBounds {
        self.between_single_servers(ClosedNetwork::balanced_job)
    }

    /// The balanced-job bounds of single servers.
    fn balanced_job(&self) -> ClosedBounds {
        let Sums { n, d, pause, delays, capacity, queues } = self.sums();
        let asymptotic = self.asymptotic_bounds();
        if d == 0.0 {
            return asymptotic;
        }
        let worst = d + (n - 1.0) / capacity / (1.0 + pause / (n * d));
        let best = d + (n - 1.0) * (d / queues) / (1.0 + pause / d);
        ClosedBounds {
            throughput_min: n / (worst + pause),
            throughput_max: capacity.min(n / (best + pause)),
            response_min: (best + delays).max(asymptotic.response_min),
            response_max: worst + delays,
        }
    }

    /// Bounds for single servers, carried over to this network: for stations of several, by a
    /// network that serves no less and one that serves no more.
    fn between_single_servers(
        &self,
        bounds: impl Fn(&ClosedNetwork) -> ClosedBounds,
    ) -> ClosedBounds {
        if single_servers_only(&self.stations).is_ok() {
            return bounds(self);
        }
        let (mut fast, mut slow) = (Vec::new(), Vec::new());
        for &station in &self.stations {
            match station.kind {
                Kind::Queue { servers } if servers > 1 && servers < self.clients => {
                    let (kind, m) = (Kind::Queue { servers: 1 }, f64::from(servers));
                    let demand = station.demand / m;
                    fast.push(Station { kind, demand });
                    slow.push(Station { kind, demand });
                    let rest = station.demand * (m - 1.0) / m;
                    slow.push(Station { kind: Kind::Delay, demand: rest });
                }
                // Where all are served at once nobody waits.
                Kind::Queue { servers } if servers > 1 => {
                    let alone = Station { kind: Kind::Delay, ..station };
                    fast.push(alone);
                    slow.push(alone);
                }
                Kind::Queue { .. } | Kind::Delay => {
                    fast.push(station);
                    slow.push(station);
                }
            }
        }
        let of = |stations| bounds(&ClosedNetwork { stations, ..self.clone() });
        let (slow, fast, outer) = (of(slow), of(fast), self.asymptotic_bounds());
        ClosedBounds {
            throughput_min: slow.throughput_min.max(outer.throughput_min),
            throughput_max: fast.throughput_max.min(outer.throughput_max),
            response_min: fast.response_min.max(outer.response_min),
            response_max: slow.response_max.min(outer.response_max),
        }
    }

    /// Proportional bounds: what an arriving job finds is spread over the stations at least as
    /// evenly as D_k^(N-1) and at most as evenly as D_k (Hsieh and Lam 1987). With L(n) the jobs that
    /// are at queues when there are n clients, n - Z X(n), which asymptotic bounds of X(n) bound,
    ///
    /// ```text
    ///   D + L(N-1) sum D_k^2 / sum D_k  <=  N/X - Z  <=  D + L(N-1) sum D_k^N / sum D_k^(N-1)
    /// ```
    ///
    /// # Errors
    /// If a station has several servers.
    pub fn proportional_bounds(&self) -> Result<ClosedBounds, SolveError> {
        single_servers_only(&self.stations)?;
        let Sums { n, d, pause, delays, capacity, .. } = self.sums();
        let outer = self.asymptotic_bounds();
        if d == 0.0 {
            return Ok(outer);
        }
        let demands = || self.queue_demands().map(|demand| demand * capacity);
        let sum = |power: f64| demands().map(|d| d.powf(power)).sum::<f64>();
        // Of a zero demand no power counts; 0^0 would.
        let worst = if n > 1.0 { sum(n) / sum(n - 1.0) / capacity } else { 0.0 };
        let best = demands().map(|d| d * d).sum::<f64>() / demands().sum::<f64>() / capacity;
        let (least, most) = self.queued_one_less();
        Ok(self.between(d + least * best, d + most * worst, pause, delays))
    }

    /// Geometric bounds (Casale, Muntz and Serazzi 2008, theorems 1 and 2): as the balanced-job
    /// bounds count every job as if it were at the bottleneck, but with the queues of the other
    /// stations bounded by geometric sums. The tightest of the bounds here when few stations are
    /// near the bottleneck. Stations of several servers as in the balanced-job bounds.
    pub fn geometric_bounds(&self) -> ClosedBounds {
        self.between_single_servers(ClosedNetwork::geometric)
    }

    /// The geometric bounds of single servers.
    fn geometric(&self) -> ClosedBounds {
        let Sums { n, d, pause, delays, capacity, .. } = self.sums();
        let outer = self.asymptotic_bounds();
        if d == 0.0 || n == 1.0 {
            return outer;
        }
        let top = 1.0 / capacity;
        // Q_k(N-1) of the stations that are not the slowest, as (D_max - D_k) Q_k.
        let away = |rate: f64| -> f64 {
            let queue = |y: f64| (0..self.clients - 1).fold(0.0, |sum, _| y * (1.0 + sum));
            self.queue_demands().map(|demand| (top - demand) * queue(demand * rate)).sum()
        };
        let fewer = n - 1.0;
        let rate_most = capacity.min(fewer / (pause + d));
        let rate_least = fewer / (pause + d + top * fewer);
        // N = X (Z + D + D_max (N-1 - Z X(N-1)) - away), where (N-1)/N X <= X(N-1) <= X.
        let root = |sum: f64, bent: f64| {
            let under = sum * sum - 4.0 * pause * top * bent;
            2.0 * n / (sum + under.max(0.0).sqrt())
        };
        let whole = pause + d + top * fewer;
        let throughput_min = root(whole - away(rate_least), fewer).max(outer.throughput_min);
        let throughput_max = root(whole - away(rate_most), n).min(outer.throughput_max);
        ClosedBounds {
            throughput_min,
            throughput_max,
            response_min: (n / throughput_max - self.think).max(outer.response_min),
            response_max: (n / throughput_min - pause + delays).min(outer.response_max),
        }
    }

    /// The least and the most jobs at queues with one client less.
    fn queued_one_less(&self) -> (f64, f64) {
        let Sums { n, d, pause, capacity, .. } = self.sums();
        let fewer = n - 1.0;
        let most = capacity.min(fewer / (pause + d));
        let least = fewer / (pause + d + (fewer - 1.0).max(0.0) / capacity);
        ((fewer - pause * most).max(0.0), fewer - pause * least)
    }

    /// The interval from the least and the most time that a cycle spends at queues.
    fn between(&self, least: f64, most: f64, pause: f64, delays: f64) -> ClosedBounds {
        let n = f64::from(self.clients);
        let outer = self.asymptotic_bounds();
        ClosedBounds {
            throughput_min: (n / (most + pause)).max(outer.throughput_min),
            throughput_max: (n / (least + pause)).min(outer.throughput_max),
            response_min: (least + delays).max(outer.response_min),
            response_max: (most + delays).min(outer.response_max),
        }
    }

    fn queue_demands(&self) -> impl Iterator<Item = f64> {
        let queues = self.stations.iter().filter(|station| station.kind != Kind::Delay);
        queues.map(|station| station.demand)
    }

    /// The number of clients at which the two asymptotes of the throughput meet, N* = (D + Z) times
    /// the capacity: fewer leave the bottleneck idle, more only queue. None without a queueing
    /// demand.
    pub fn knee(&self) -> Option<f64> {
        let Sums { d, pause, capacity, .. } = self.sums();
        capacity.is_finite().then_some((d + pause) * capacity)
    }

    /// The index of the station that limits the throughput, the first of several such; none without
    /// a queueing demand.
    pub fn bottleneck(&self) -> Option<usize> {
        let capacity = capacity(&self.stations);
        capacity
            .is_finite()
            .then(|| self.stations.iter().position(|station| station.capacity() == capacity))
            .flatten()
    }

    fn sums(&self) -> Sums {
        let (d, delays, queues) = split(&self.stations);
        let n = f64::from(self.clients);
        Sums {
            n,
            d,
            pause: self.think + delays,
            delays,
            capacity: capacity(&self.stations),
            queues,
        }
    }
}

impl OpenNetwork {
    /// The arrival rate at which the first station saturates [1/s]; none if all are delays.
    pub fn saturation_rate(&self) -> Option<f64> {
        Some(capacity(&self.stations)).filter(|rate| rate.is_finite())
    }

    /// Asymptotic bounds: a job takes at least its demand, D.
    pub fn asymptotic_bounds(&self) -> OpenBounds {
        let (d, delays, _) = split(&self.stations);
        OpenBounds { response_min: d + delays, response_max: None }
    }

    /// Balanced-job bounds: D / (1 - lambda D_a) <= R <= D / (1 - lambda D_max), delays added.
    ///
    /// # Errors
    /// If a station has several servers.
    pub fn balanced_job_bounds(&self) -> Result<OpenBounds, SolveError> {
        single_servers_only(&self.stations)?;
        let (d, delays, queues) = split(&self.stations);
        // Without queues d is zero, and so is the mean that 0 / 1 stands for.
        let mean = d / queues.max(1.0);
        Ok(OpenBounds {
            response_min: d / (1.0 - self.lambda * mean) + delays,
            response_max: Some(d / (1.0 - self.lambda / capacity(&self.stations)) + delays),
        })
    }
}

impl ClosedBounds {
    /// That the interval holds the answer is a theorem.
    pub fn exactness(&self) -> Exactness {
        Exactness::Exact
    }
}

impl OpenBounds {
    /// That the interval holds the answer is a theorem.
    pub fn exactness(&self) -> Exactness {
        Exactness::Exact
    }
}

/// Sums that the bounds are made of.
struct Sums {
    /// Clients, N.
    n: f64,
    /// Demand at queues.
    d: f64,
    /// Think time and demand at delays.
    pause: f64,
    /// Demand at delays.
    delays: f64,
    /// The least c_k / D_k, 1 / D_max for single servers.
    capacity: f64,
    /// Number of queues.
    queues: f64,
}

/// Demand at queues, demand at delays, number of queues.
fn split(stations: &[Station]) -> (f64, f64, f64) {
    stations.iter().fold((0.0, 0.0, 0.0), |(d, delays, queues), station| match station.kind {
        Kind::Queue { .. } => (d + station.demand, delays, queues + 1.0),
        Kind::Delay => (d, delays + station.demand, queues),
    })
}

fn capacity(stations: &[Station]) -> f64 {
    stations.iter().map(Station::capacity).fold(f64::INFINITY, f64::min)
}

fn single_servers_only(stations: &[Station]) -> Result<(), SolveError> {
    for (station, of) in stations.iter().enumerate() {
        if let Kind::Queue { servers } = of.kind
            && servers > 1
        {
            return Err(SolveError::NotSingleServer { station, servers });
        }
    }
    Ok(())
}
