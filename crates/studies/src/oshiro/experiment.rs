//! Experiment 1: one server, so many clients at once, each `weighttp -n 20000 -c 20 -t 2 -k`, on three stores.

use std::time::Duration;

use board_bench::{
    Kept, Memory, Mix, Pressed, Shares, Site, SiteSpec, Size, Threads, machine_load, press,
    round_seed,
};
use cli::Failure;

use super::Programs;
use crate::measuring::{Extent, Measuring};

/// Connections of a client, as in the paper.
pub(super) const CONNECTIONS: u32 = 20;
/// The stores that are always there, the paper's own first.
pub(super) const STORES: [&str; 3] = ["jungle", "sqlite", "postgres"];
/// Connections of the runs that the model is fitted to.
pub(super) const FEW: [u32; 3] = [1, 4, 20];
/// Time that opens the connections of a run of one client program, before its rate is measured.
const WARMUP: Duration = Duration::from_millis(500);
/// Time for which it is measured.
const MEASURED: Duration = Duration::from_secs(1);
/// The longest of such a run with its beginning and end \[s\].
pub(super) const ONE_S: f64 = 2.0;
/// Rounds, in each of which every store has its turn. A single one has no slowest and fastest, so that every rate would
/// decide: there are two at least, in every setting.
pub(super) const ROUNDS: usize = 2;
const _: () = assert!(ROUNDS >= 2);

/// Amount of measurement.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    /// The stores, the paper's own first.
    pub(super) stores: Vec<&'static str>,
    pub(super) clients: Vec<u32>,
    /// Requests of a client.
    pub(super) requests: u64,
}

impl Scale {
    /// Amount of an extent, with more rivals beside those that are always there.
    pub(super) fn of(extent: Extent, more: &[&'static str]) -> Self {
        let mut stores = STORES.to_vec();
        stores.extend(more.iter().filter(|store| !STORES.contains(store)));
        match extent {
            Extent::Full => {
                Self { stores, clients: (10..=45).step_by(5).collect(), requests: 20_000 }
            }
            Extent::Small => Self { stores, clients: vec![10, 25, 45], requests: 500 },
        }
    }

    /// Runs of one client program, to which the model is fitted and against which it is held.
    pub(super) fn runs_of_one(&self) -> u32 {
        (Mix::ALL.len() * (FEW.len() + ROUNDS * self.clients.len())) as u32
    }

    pub(super) fn runs(&self) -> u32 {
        (ROUNDS * self.stores.len() * Mix::ALL.len() * self.clients.len()) as u32
    }

    /// The most connections at once.
    pub(super) fn connections(&self) -> u32 {
        self.clients.iter().max().expect("somebody presses") * CONNECTIONS
    }
}

/// A store in a mix with so many clients, over all rounds.
#[derive(Debug)]
pub(super) struct Point {
    pub(super) store: &'static str,
    pub(super) mix: Mix,
    pub(super) clients: u32,
    pub(super) rounds: Vec<Pressed>,
}

impl Point {
    /// Requests a second: of the slowest round and of the fastest.
    pub(super) fn rates(&self) -> [f64; 2] {
        let rates = || self.rounds.iter().map(Pressed::rate);
        [rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max)]
    }

    /// Time of all requests of a client: mean and standard deviation over all clients \[s\].
    pub(super) fn times(&self) -> [f64; 2] {
        let all = self.rounds.iter().flat_map(|round| &round.clients);
        let times: Vec<f64> = all.map(|client| client.elapsed_s).collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
        [mean, (squares / (times.len().max(2) - 1) as f64).sqrt()]
    }

    /// True if clients were cut off before they had made all requests.
    pub(super) fn was_cut(&self) -> bool {
        self.rounds.iter().any(|round| round.cut() > 0)
    }

    pub(super) fn failed(&self) -> u64 {
        self.rounds.iter().map(Pressed::failed).sum()
    }

    pub(super) fn mean(&self, of: impl Fn(&Pressed) -> f64) -> f64 {
        self.rounds.iter().map(of).sum::<f64>() / self.rounds.len() as f64
    }

    /// Use of this machine in each round; none if it is not told.
    pub(super) fn machine(&self) -> Option<Vec<Shares>> {
        self.rounds.iter().map(|round| round.machine).collect()
    }

    /// The least and the greatest share of time in which processors had no work; none if it is not told.
    pub(super) fn idle(&self) -> Option<[f64; 2]> {
        let idle: Vec<f64> = self.machine()?.iter().map(|machine| machine.idle).collect();
        let least = idle.iter().copied().fold(f64::INFINITY, f64::min);
        Some([least, idle.iter().copied().fold(0.0, f64::max)])
    }

    /// Memory after the last round; none if it is not told.
    pub(super) fn memory(&self) -> Option<Memory> {
        self.rounds.last()?.memory
    }

    /// Response-time quantile \[s\].
    pub(super) fn quantile(&self, q: f64) -> f64 {
        let mut all = measure::Histogram::default();
        self.rounds.iter().for_each(|round| all.merge(&round.response()));
        all.quantile(q).as_secs_f64()
    }
}

/// A run of one client program on Jungle, after its connections were opened. The model is fitted to those of few
/// connections, and held against those of many.
#[derive(Clone, Copy, Debug)]
pub(super) struct One {
    pub(super) mix: Mix,
    pub(super) connections: u32,
    /// Requests that were answered after its connections were opened.
    pub(super) completed: u64,
    pub(super) failed: u64,
    pub(super) rate: f64,
    pub(super) response_s: f64,
    /// Processor time of board and load engine a request \[s\].
    pub(super) cpu_s: f64,
}

/// All that was measured.
#[derive(Debug)]
pub(super) struct Experiment {
    pub(super) points: Vec<Point>,
    /// Runs of one client program with few connections.
    pub(super) few: Vec<One>,
    /// Runs of one client program with as many connections as all clients of the points, in rounds.
    pub(super) many: Vec<One>,
    /// Contents of each store at the end.
    pub(super) kept: Vec<(&'static str, Kept)>,
    /// Processors of this machine.
    pub(super) processors: usize,
    pub(super) settings: Vec<String>,
    pub(super) load_before: Option<f64>,
    /// Requests of a client.
    pub(super) requests: u64,
}

impl Experiment {
    pub(super) fn run(
        scale: &Scale,
        programs: &Programs,
        measuring: &Measuring,
    ) -> Result<Self, Failure> {
        let load_before = machine_load();
        let processors = std::thread::available_parallelism().map_err(Failure::machine)?.get();
        let mut sites = Vec::new();
        for &store in &scale.stores {
            let spec = SiteSpec {
                program: programs.sekisho.clone(),
                store,
                durability: "strict",
                postgres: programs.postgres.clone(),
                seed: measuring.seed,
            };
            sites.push(Site::start(spec, measuring.interrupt())?);
        }
        // What few connections see comes first: the model predicts what follows.
        let few = of_one(&mut sites[0], &FEW, 1, measuring)?;
        let connections: Vec<u32> = scale.clients.iter().map(|n| n * CONNECTIONS).collect();
        let many = of_one(&mut sites[0], &connections, ROUNDS, measuring)?;
        let points = points(&mut sites, scale, measuring)?;
        let settings = sites.iter().map(|site| site.started().setting.clone());
        let settings =
            scale.stores.iter().zip(settings).map(|(store, word)| format!("{store} ({word})"));
        let settings = settings.collect();
        let kept = sites.into_iter().map(|site| Ok((site.store(), site.stop()?)));
        let kept = kept.collect::<Result<_, Failure>>()?;
        let requests = scale.requests;
        Ok(Self { points, few, many, kept, processors, settings, load_before, requests })
    }

    /// A point, if it was measured.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn point(&self, store: &str, mix: Mix, clients: u32) -> &Point {
        let is_it = |one: &&Point| one.store == store && one.mix == mix && one.clients == clients;
        self.points.iter().find(is_it).expect("every store has every mix and number of clients")
    }

    /// Requests that failed in all runs.
    pub(super) fn failed(&self) -> u64 {
        let points: u64 = self.points.iter().map(Point::failed).sum();
        points + self.few.iter().chain(&self.many).map(|one| one.failed).sum::<u64>()
    }

    /// Runs of one program with as many connections as so many clients have, a round after the other.
    pub(super) fn of_one(&self, mix: Mix, clients: u32) -> impl Iterator<Item = &One> {
        let connections = clients * CONNECTIONS;
        self.many.iter().filter(move |one| one.mix == mix && one.connections == connections)
    }

    /// Requests a second of one program with as many connections as so many clients have: of the slowest round and of
    /// the fastest.
    pub(super) fn rates_of_one(&self, mix: Mix, clients: u32) -> [f64; 2] {
        let rates = || self.of_one(mix, clients).map(|one| one.rate);
        [rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max)]
    }

    /// Mean response of one program with as many connections as so many clients have \[s\].
    pub(super) fn response_of_one(&self, mix: Mix, clients: u32) -> f64 {
        let rounds = self.of_one(mix, clients).count();
        self.of_one(mix, clients).map(|one| one.response_s).sum::<f64>() / rounds as f64
    }

    /// Name of a run of which nothing was answered.
    pub(super) fn unanswered(&self) -> Option<String> {
        let mut few = self.few.iter().chain(&self.many).filter(|one| one.completed == 0);
        let mut points = self
            .points
            .iter()
            .filter(|point| point.rounds.iter().any(|round| round.completed() == 0));
        few.next()
            .map(|few| format!("{} with {} connections on jungle", few.mix.word(), few.connections))
            .or_else(|| {
                let point = points.next()?;
                let word = point.mix.word();
                Some(format!("{} clients, {word} on {}", point.clients, point.store))
            })
    }

    /// The stores, the paper's own first.
    pub(super) fn stores(&self) -> Vec<&'static str> {
        let mut stores = Vec::new();
        for point in &self.points {
            if !stores.contains(&point.store) {
                stores.push(point.store);
            }
        }
        stores
    }

    /// Number of rounds.
    pub(super) fn rounds(&self) -> usize {
        self.points.first().map_or(0, |point| point.rounds.len())
    }

    /// The numbers of clients.
    pub(super) fn clients(&self) -> Vec<u32> {
        let mut clients: Vec<u32> = self.points.iter().map(|point| point.clients).collect();
        clients.sort_unstable();
        clients.dedup();
        clients
    }

    pub(super) fn facts(&self) -> Vec<(String, String, String)> {
        let failed = self.failed();
        let cut = self.points.iter().filter(|point| point.was_cut()).count();
        let mut facts = vec![
            ("requests of a client".into(), self.requests.to_string(), String::new()),
            ("durability class".into(), "strict".into(), String::new()),
            ("failed requests".into(), failed.to_string(), String::new()),
            ("points cut off".into(), format!("{cut} of {}", self.points.len()), String::new()),
        ];
        facts
            .extend(self.settings.iter().map(|word| ("store".into(), word.clone(), String::new())));
        let load = self.load_before.map(|load| load.to_string());
        facts.extend(load.map(|load| ("runnable tasks before".into(), load, String::new())));
        facts
    }
}

/// Runs of one client program on Jungle, in rounds of all mixes and numbers of connections.
fn of_one(
    site: &mut Site,
    connections: &[u32],
    rounds: usize,
    measuring: &Measuring,
) -> Result<Vec<One>, Failure> {
    // A setting whose runs are cut off sooner has no longer ones of one program.
    let measured = MEASURED.min(measuring.length());
    let warmup = WARMUP.min(measured / 2);
    let mut all = Vec::new();
    for round in 0..rounds {
        for (mix, &connections) in
            Mix::ALL.iter().flat_map(|mix| connections.iter().map(move |one| (*mix, one)))
        {
            let step = format!("{} with {connections} connections on jungle", mix.word());
            measuring.step(&step)?;
            let size = Size {
                clients: 1,
                requests: 10_000_000,
                connections,
                warmup,
                longest: warmup + measured,
                seed: round_seed(measuring.seed, round),
            };
            let seen = press(site, mix, Threads::Uniform, size, measuring.interrupt())?;
            measuring.done(&step)?;
            all.push(One {
                mix,
                connections,
                completed: seen.clients.iter().map(|client| client.settled).sum(),
                failed: seen.failed(),
                rate: seen.settled_rate(),
                response_s: seen.response().mean_s(),
                cpu_s: seen.server_cpu_s + seen.generator_cpu_s,
            });
        }
    }
    Ok(all)
}

fn points(sites: &mut [Site], scale: &Scale, measuring: &Measuring) -> Result<Vec<Point>, Failure> {
    let mut points: Vec<Point> = Vec::new();
    for round in 0..ROUNDS {
        let mut at = 0;
        for &clients in &scale.clients {
            for mix in Mix::ALL {
                for site in &mut *sites {
                    let store = site.store();
                    let step = format!("{clients} clients, {} on {store}", mix.word());
                    measuring.step(&step)?;
                    let size = Size {
                        clients,
                        requests: scale.requests,
                        connections: CONNECTIONS,
                        warmup: Duration::ZERO,
                        longest: measuring.length(),
                        seed: round_seed(measuring.seed, round),
                    };
                    let seen = press(site, mix, Threads::Uniform, size, measuring.interrupt())?;
                    measuring.done(&step)?;
                    if round == 0 {
                        points.push(Point { store, mix, clients, rounds: Vec::new() });
                    }
                    points[at].rounds.push(seen);
                    at += 1;
                }
            }
        }
    }
    Ok(points)
}
