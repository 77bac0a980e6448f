//! The throughput of a database against the slots held, as the model has it: a station of m servers
//! behind a delay, X(n) of the closed network of both.

use solve::{ClosedGate, Moments};

/// Curves of more slots than this are taken as flat from there on.
const LEVEL_MAX: u32 = 4096;

/// A closed network of a delay and a station of like servers, in terms that are seen: the time a job
/// takes alone, A = D + Z, and the knee, N* = A / (D / m).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Curve {
    /// m.
    pub(super) servers: u32,
    /// N*, where the asymptotes n / A and m / D meet \[slots\]; at least m.
    pub(super) knee: f64,
    /// A \[s\].
    pub(super) alone: f64,
}

impl Curve {
    /// Demand at the station, D \[s\].
    pub(super) fn demand(&self) -> f64 {
        self.alone * f64::from(self.servers) / self.knee
    }

    /// Delay of a job besides, Z \[s\].
    pub(super) fn delay(&self) -> f64 {
        (self.alone - self.demand()).max(0.0)
    }

    /// Throughput that it nears with many slots, m / D [1/s].
    pub(super) fn throughput_max(&self) -> f64 {
        self.knee / self.alone
    }

    /// X(n) [1/s].
    pub(super) fn throughput(&self, level: f64) -> f64 {
        relative(self.servers, self.knee, level) / self.alone
    }

    /// X of 1 to `most` jobs over so many like servers, each of which has its even share of them
    /// [1/s].
    pub(super) fn spread(&self, servers: u32, most: u32) -> Vec<f64> {
        let each = f64::from(servers);
        let of_one: Vec<f64> =
            (0..=most.div_ceil(servers)).map(|n| self.throughput(f64::from(n))).collect();
        let between = |level: f64| {
            let (low, high) = (of_one[level.floor() as usize], of_one[level.ceil() as usize]);
            low + level.fract() * (high - low)
        };
        (1..=most).map(|n| each * between(f64::from(n) / each)).collect()
    }

    /// The fewest slots with this share of the throughput at `most`.
    pub(super) fn fewest(&self, share: f64, most: u32) -> u32 {
        let enough = share * self.throughput(f64::from(most));
        let (mut less, mut enough_at) = (0, most);
        while less + 1 < enough_at {
            let middle = u32::midpoint(less, enough_at);
            let reaches = self.throughput(f64::from(middle)) >= enough;
            *(if reaches { &mut enough_at } else { &mut less }) = middle;
        }
        enough_at
    }
}

/// X(n) A of m servers with a knee, n whole or between.
pub(super) fn relative(servers: u32, knee: f64, level: f64) -> f64 {
    // The station is never idle there, to a millionth.
    if level > 2.0 * knee + 40.0 {
        return knee;
    }
    let low = level.floor();
    let at = |level: f64| whole(servers, knee, (level as u32).clamp(1, LEVEL_MAX));
    if low < 1.0 {
        return level * at(1.0);
    }
    let below = at(low);
    if level == low { below } else { below + (level - low) * (at(low + 1.0) - below) }
}

fn whole(servers: u32, knee: f64, level: u32) -> f64 {
    let demand = f64::from(servers) / knee;
    let proven = "a knee is at least the servers, so the parts of 1 are positive";
    let moments = Moments::exponential(demand).expect(proven);
    let gate = ClosedGate::new(level, (1.0 - demand).max(0.0), moments, level).expect(proven);
    gate.with_cores(servers).expect("there is a server").solve().throughput
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_throughput_of_the_closed_network() {
        let (delay, demand, servers) = (0.03, 0.02, 4);
        let curve = Curve { servers, knee: 0.05 / (0.02 / 4.0), alone: 0.05 };
        assert!((curve.demand() - demand).abs() < 1e-12 && (curve.delay() - delay).abs() < 1e-12);
        let station = solve::Station::multi(demand, servers).unwrap();
        let network = solve::ClosedNetwork::new(70, delay, &[station]).unwrap();
        for (n, x) in (1..).zip(network.throughputs()) {
            let ours = curve.throughput(f64::from(n));
            assert!((ours / x - 1.0).abs() < 1e-6, "{ours} and {x} at {n}");
        }
        let [two, between, three] = [2.0, 2.5, 3.0].map(|n| curve.throughput(n));
        assert!((between - f64::midpoint(two, three)).abs() < 1e-12);
    }

    #[test]
    fn what_is_spread_over_servers_is_that_of_each() {
        let curve = Curve { servers: 2, knee: 7.0, alone: 0.1 };
        for servers in [1, 3, 100] {
            let each = f64::from(servers);
            for (n, x) in (1..).zip(curve.spread(servers, 250)) {
                let one = each * curve.throughput(f64::from(n) / each);
                // From far beyond the knee on it is taken as flat, to a millionth.
                assert!((x / one - 1.0).abs() < 1e-5, "{x} and {one} of {n} on {servers}");
            }
        }
    }

    #[test]
    fn the_fewest_slots_are_where_a_search_finds_them() {
        let curve = Curve { servers: 2, knee: 7.0, alone: 0.1 };
        for most in [1, 3, 40] {
            let enough = 0.95 * curve.throughput(f64::from(most));
            let found = (1..=most).find(|n| curve.throughput(f64::from(*n)) >= enough);
            assert_eq!(Some(curve.fewest(0.95, most)), found);
        }
    }
}
