//! Work that a router which looks, or one queue, may give to any of several stations: how it is split where all
//! of them are kept as equally busy as can be. Where even that split has a station full, every split has.

use super::flow::Visit;

/// The most times that the split is improved. A chain of 30 pools needs some hundred.
const SWEEPS_MAX: usize = 10_000;
/// A change by less than this share of the work is none.
const SETTLED: f64 = 1e-10;

/// Work that comes to some stations together, by the gate that gives it to them.
#[derive(Debug, Default)]
pub(super) struct SharedWork {
    pools: Vec<Pool>,
}

/// Work that any of some stations may do.
#[derive(Debug)]
struct Pool {
    gate: usize,
    stations: Vec<usize>,
    /// The speed at which each of them does this work: a second of it takes 1 / speed of the station's time.
    speeds: Vec<f64>,
    /// Mean work that is sure to arrive a second.
    work: f64,
    /// The mean square of the demands that are sure to come in a second \[s^2/s\].
    squares: f64,
    /// The part of the work that each station has.
    given: Vec<f64>,
}

impl SharedWork {
    /// A visit to one of these stations, each with its speed, whichever the gate chooses.
    pub(super) fn add(
        &mut self,
        gate: usize,
        stations: &[(usize, f64)],
        (rate, mean, square): Visit,
    ) {
        let at = self.pools.iter().position(|pool| pool.gate == gate).unwrap_or_else(|| {
            let given = vec![0.0; stations.len()];
            let (stations, speeds) = stations.iter().copied().unzip();
            self.pools.push(Pool { gate, stations, speeds, work: 0.0, squares: 0.0, given });
            self.pools.len() - 1
        });
        let pool = &mut self.pools[at];
        pool.work += rate * mean;
        pool.squares += rate * square;
    }

    /// Splits all of it over stations that have `work` of their own and can do so much a second (none: without
    /// end), adds each station's part to `work` and `squares`.
    ///
    /// The level of each pool is raised where it is lowest, in turn, until nothing changes: that is descent by
    /// blocks on the convex sum of `load^2 / capacity`, whose least value has the least largest utilisation.
    pub(super) fn split(
        &mut self,
        work: &mut [f64],
        squares: &mut [f64],
        capacities: &[Option<f64>],
    ) {
        self.speed_up_where_unlike(work.len());
        for _ in 0..SWEEPS_MAX {
            let changes = self.pools.iter_mut().map(|pool| pool.give(work, capacities));
            if changes.fold(true, |settled, change| settled & !change) {
                break;
            }
        }
        for pool in self.pools.iter().filter(|pool| pool.work > 0.0) {
            for ((&station, given), speed) in
                pool.stations.iter().zip(&pool.given).zip(&pool.speeds)
            {
                squares[station] += pool.squares * given / pool.work / (speed * speed);
            }
        }
    }

    /// A station that does the work of two pools at different speeds has no measure of what it can do for both. Such
    /// pools are taken to be as fast everywhere as where they are fastest: less work than there is.
    fn speed_up_where_unlike(&mut self, stations: usize) {
        while let Some(station) = self.unlike(stations) {
            let fastest = |pool: &Pool| pool.speeds.iter().copied().fold(0.0, f64::max);
            let of_station = self.pools.iter().filter(|pool| pool.stations.contains(&station));
            let most = of_station.map(fastest).fold(0.0, f64::max);
            for pool in self.pools.iter_mut().filter(|pool| pool.stations.contains(&station)) {
                pool.speeds.fill(most);
            }
        }
    }

    /// A station that does the work of two pools at different speeds, if there is one.
    fn unlike(&self, stations: usize) -> Option<usize> {
        let mut known = vec![None; stations];
        let all = self.pools.iter().flat_map(|pool| pool.stations.iter().zip(&pool.speeds));
        let mut stations = all.map(|(&station, &speed)| (station, speed));
        let is_unlike =
            |&(station, speed): &(usize, f64)| *known[station].get_or_insert(speed) != speed;
        stations.find(is_unlike).map(|(station, _)| station)
    }

    /// True if a station may do work that others may do, too.
    pub(super) fn is_of(&self, station: usize) -> bool {
        self.pools.iter().any(|pool| pool.stations.contains(&station))
    }

    /// The stations that share work, each with all that it shares work with, directly or through others.
    pub(super) fn groups(&self, stations: usize) -> Vec<Vec<usize>> {
        let mut group: Vec<usize> = (0..stations).collect();
        for pool in self.pools.iter() {
            let least = pool.stations.iter().map(|&at| group[at]).min().unwrap_or(0);
            let joined: Vec<usize> = pool.stations.iter().map(|&at| group[at]).collect();
            for of in group.iter_mut().filter(|of| joined.contains(of)) {
                *of = least;
            }
        }
        let mut groups = vec![Vec::new(); stations];
        group.iter().enumerate().for_each(|(at, &of)| groups[of].push(at));
        groups.retain(|group| !group.is_empty());
        groups
    }
}

/// The share of each pool's work that each of its stations does where all are kept as equally busy as can be:
/// `own` is what else comes to each station and `capacities` what it can do (none: without end), both a second \[s\];
/// `pools` are stations by index, each with the speed at which it does such work, and the work that any of them may
/// do \[s\]. Of a pool with a station without end all shares are 0.
pub fn equal_shares(
    own: &[f64],
    capacities: &[Option<f64>],
    pools: &[(Vec<(usize, f64)>, f64)],
) -> Vec<Vec<f64>> {
    let mut shared = SharedWork::default();
    for (gate, (stations, work)) in pools.iter().enumerate() {
        shared.add(gate, stations, (*work, 1.0, 1.0));
    }
    let (mut work, mut squares) = (own.to_vec(), vec![0.0; own.len()]);
    shared.split(&mut work, &mut squares, capacities);
    let shares = |pool: &Pool| {
        let share = |given| if pool.work > 0.0 { given / pool.work } else { 0.0 };
        pool.given.iter().map(share).collect()
    };
    shared.pools.iter().map(shares).collect()
}

impl Pool {
    /// Gives its work anew beside what the stations have otherwise; true if that changes anything.
    fn give(&mut self, work: &mut [f64], capacities: &[Option<f64>]) -> bool {
        let capacities: Option<Vec<f64>> = self.stations.iter().map(|&at| capacities[at]).collect();
        // Where one of them serves all at once, nothing is sure to come to the others.
        let Some(capacities) = capacities else { return false };
        let others: Vec<f64> = (0..self.stations.len())
            .map(|at| work[self.stations[at]] - self.given[at] / self.speeds[at])
            .collect();
        let scaled =
            |of: &[f64]| of.iter().zip(&self.speeds).map(|(of, speed)| of * speed).collect();
        let (scaled_others, scaled_capacities): (Vec<f64>, Vec<f64>) =
            (scaled(&others), scaled(&capacities));
        let level = level(&scaled_others, &scaled_capacities, self.work);
        let mut changes = false;
        for (at, &station) in self.stations.iter().enumerate() {
            let given = (level * scaled_capacities[at] - scaled_others[at]).max(0.0);
            changes |= (given - self.given[at]).abs() > SETTLED * self.work;
            self.given[at] = given;
            work[station] = others[at] + given / self.speeds[at];
        }
        changes
    }
}

/// The utilisation to which stations that do `others` are raised by so much more work, the least busy ones first.
fn level(others: &[f64], capacities: &[f64], more: f64) -> f64 {
    let mut level = f64::INFINITY;
    loop {
        // Whoever is above the level of all gets nothing, which lowers the level of the rest.
        let (mut load, mut capacity) = (more, 0.0);
        for (other, own) in
            others.iter().zip(capacities).filter(|(other, own)| *other / *own < level)
        {
            load += other;
            capacity += own;
        }
        let lower = load / capacity;
        // Nothing is left to be given where none is below.
        if lower.is_nan() || lower >= level {
            return level;
        }
        level = lower;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The utilisations of stations by the split.
    fn busy(own: &[f64], capacities: &[f64], pools: &[(&[usize], f64)]) -> Vec<f64> {
        let mut shared = SharedWork::default();
        for (gate, (stations, rate)) in pools.iter().enumerate() {
            let stations: Vec<_> = stations.iter().map(|&at| (at, 1.0)).collect();
            shared.add(gate, &stations, (*rate, 1.0, 2.0));
        }
        let (mut work, mut squares) = (own.to_vec(), vec![0.0; own.len()]);
        let ends: Vec<_> = capacities.iter().map(|&one| one.is_finite().then_some(one)).collect();
        shared.split(&mut work, &mut squares, &ends);
        work.iter().zip(capacities).map(|(work, capacity)| work / capacity).collect()
    }

    fn is_near(found: &[f64], expected: &[f64]) -> bool {
        found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-9)
    }

    #[test]
    fn stations_are_kept_as_equally_busy_as_can_be() {
        let two = |own: &[f64], rate| busy(own, &[1.0, 1.0], &[(&[0, 1], rate)]);
        assert!(is_near(&two(&[0.8, 0.0], 0.9), &[0.85, 0.85]), "what else comes counts");
        assert!(is_near(&two(&[0.8, 0.0], 0.5), &[0.8, 0.5]), "nothing is given to who has more");
        let three = |pools: &[(&[usize], f64)]| busy(&[0.0; 3], &[1.0, 1.0, 2.0], pools);
        // A chain: what the first two share flows on to the third.
        assert!(is_near(&three(&[(&[0, 1], 1.2), (&[1, 2], 1.2)]), &[0.6; 3]));
        assert!(is_near(&three(&[(&[0, 1], 1.8), (&[1, 2], 0.4)]), &[0.9, 0.9, 0.2]));
        let endless = busy(&[0.1, 0.0], &[1.0, f64::INFINITY], &[(&[0, 1], 5.0)]);
        assert!(is_near(&endless, &[0.1, 0.0]), "a delay may take it all");
    }

    /// Random pools over random stations: the largest utilisation is that of the set of stations which are sure to
    /// have the most work of what they can do, over all sets.
    #[test]
    fn no_split_has_a_smaller_largest_utilisation() {
        let mut state = 7_u64;
        let mut draw = |most: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % most
        };
        for seed in 0..300 {
            let stations = 2 + draw(4) as usize;
            let own: Vec<f64> = (0..stations).map(|_| draw(8) as f64 / 10.0).collect();
            let capacities: Vec<f64> = (0..stations).map(|_| 1.0 + draw(3) as f64).collect();
            let pools: Vec<(Vec<usize>, f64)> = (0..1 + draw(4))
                .map(|_| {
                    let chosen = 1 + draw((1 << stations) - 1);
                    let of = (0..stations).filter(|at| chosen >> at & 1 == 1).collect();
                    (of, draw(20) as f64 / 10.0)
                })
                .collect();
            let by_set = (1_u64..1 << stations).map(|set| {
                let is_in = |at: &usize| set >> at & 1 == 1;
                let sum = |of: &[f64]| (0..stations).filter(is_in).map(|at| of[at]).sum::<f64>();
                let inside = pools.iter().filter(|(of, _)| of.iter().all(is_in));
                (sum(&own) + inside.map(|(_, rate)| rate).sum::<f64>()) / sum(&capacities)
            });
            let least = by_set.fold(0.0, f64::max);
            let pools: Vec<(&[usize], f64)> =
                pools.iter().map(|(of, rate)| (&**of, *rate)).collect();
            let found = busy(&own, &capacities, &pools).into_iter().fold(0.0, f64::max);
            assert!((found - least).abs() < 1e-6, "{seed}: {found} and {least}: {own:?} {pools:?}");
        }
    }

    /// Both are busy for 3.6 / (3 + 1) of their time, in which the one of speed 3 does thrice as much.
    #[test]
    fn who_is_faster_does_more() {
        let shares = |own: &[f64], pools: &[(Vec<(usize, f64)>, f64)]| {
            equal_shares(own, &vec![Some(1.0); own.len()], pools)
        };
        let found = shares(&[0.0, 0.0], &[(vec![(0, 3.0), (1, 1.0)], 3.6)]);
        assert!(is_near(&found[0], &[0.75, 0.25]), "{found:?}");
        // With other work both are as busy: 0.5 + 0.75 / 3 and 0.75 / 1.
        let found = shares(&[0.5, 0.0], &[(vec![(0, 3.0), (1, 1.0)], 1.5)]);
        assert!(is_near(&found[0], &[0.75 / 1.5, 0.75 / 1.5]), "{found:?}");
        // Two pools of different speeds at a station are as fast as the fastest: not more than there is.
        let (fast, slow) = (vec![(0, 3.0), (1, 1.0)], vec![(1, 2.0), (2, 2.0)]);
        let found = shares(&[0.0; 3], &[(fast, 3.0), (slow, 3.0)]);
        let busy = [found[0][0], found[0][1] + found[1][0], found[1][1]];
        assert!(is_near(&busy, &[2.0 / 3.0; 3]), "{found:?}");
    }

    /// Thirty pools of two stations each, one after the other, share with all 31 through their neighbours.
    #[test]
    fn work_flows_along_a_chain_of_pools() {
        let pools: Vec<[usize; 2]> = (0..30).map(|at| [at, at + 1]).collect();
        let work: Vec<(&[usize], f64)> = pools.iter().map(|of| (&of[..], 0.5)).collect();
        let found = busy(&[0.0; 31], &[1.0; 31], &work);
        assert!(found.iter().all(|busy| (busy - 15.0 / 31.0).abs() < 1e-6), "{found:?}");
    }

    #[test]
    fn stations_that_share_work_through_others_are_one_group() {
        let mut shared = SharedWork::default();
        for (gate, of) in [[0, 1], [4, 5], [1, 3]].iter().enumerate() {
            shared.add(gate, &of.map(|at| (at, 1.0)), (1.0, 1.0, 2.0));
        }
        assert_eq!(shared.groups(6), [vec![0, 1, 3], vec![2], vec![4, 5]]);
    }
}
