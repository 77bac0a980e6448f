//! Places of the clients of closed classes in the long run, roughly (Bard 1979; Schweitzer 1979): a
//! run begins near there, and how slowly the network settles follows from it.

use std::collections::BTreeMap;
use std::f64::consts::PI;

use super::flow;
use super::flow::{Flow, Visit, slots};
use crate::network::{Load, Network};

/// Demands of the closed classes at the places where they may wait: the stations, and behind those
/// the gates.
#[derive(Debug, Default)]
pub(super) struct ClosedDemands {
    /// By class, and by place; none for a class that is not closed.
    by_class: Vec<BTreeMap<usize, PlaceDemand>>,
}

/// Demand of one class at a place, a request.
#[derive(Clone, Copy, Debug, Default)]
struct PlaceDemand {
    visits: f64,
    /// Work, and the mean squares of its visits \[s, s^2\].
    work: f64,
    squares: f64,
    /// The most of the class who can be there at once, as far as slots around it say.
    most: f64,
}

/// Long-run state of a closed network.
#[derive(Clone, Debug, Default)]
pub(super) struct LongRun {
    /// By class, how many of its clients are at which place; who is left thinks.
    pub(super) initial_places: Vec<Vec<(u32, u32)>>,
    /// The time in which the slowest place forgets how it began \[s\].
    pub(super) relaxation_s: f64,
}

/// Steps of the estimate at the most, and all its work.
const STEPS_MAX: usize = 20_000;
const WORK_MAX: usize = 10_000_000;
/// A change of a mean number by less than this share of the clients is none.
const CONVERGED: f64 = 1e-7;

/// A place where clients are.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The work that it can do a second beside that of open classes; none for a delay.
    left: Option<f64>,
    jobs: f64,
}

/// Mean values on their way: by class its throughput, and at each place its jobs there.
struct MeanValues<'a> {
    demands: &'a ClosedDemands,
    population: Vec<f64>,
    think: Vec<f64>,
    places: Vec<Place>,
    throughput: Vec<f64>,
    jobs: Vec<Vec<f64>>,
}

impl ClosedDemands {
    /// Begins the next class: what follows is of it.
    pub(super) fn next_class(&mut self) {
        self.by_class.push(BTreeMap::new());
    }

    fn at(&mut self, place: usize) -> &mut PlaceDemand {
        let class = self.by_class.last_mut().expect("a class has begun");
        class.entry(place).or_default()
    }

    /// A visit to a station, in these gates, which takes at least so long \[s\].
    pub(super) fn add(
        &mut self,
        network: &Network,
        (station, around): (usize, &[usize]),
        (visits, mean, square): Visit,
        least: f64,
    ) {
        let most = around.iter().map(|&gate| slots(&network.gates[gate]));
        let most = most.fold(f64::INFINITY, f64::min);
        let here = self.at(station);
        here.visits += visits;
        here.work += visits * mean;
        here.squares += visits * square;
        here.most = here.most.max(most);
        for &gate in around {
            self.at(network.stations.len() + gate).work += visits * least;
        }
    }

    /// A hold that begins so often a request.
    pub(super) fn add_hold(&mut self, network: &Network, gate: usize, visits: f64) {
        let here = self.at(network.stations.len() + gate);
        here.visits += visits;
        here.most = f64::INFINITY;
    }

    pub(super) fn long_run(&self, network: &Network, flow: &Flow) -> LongRun {
        let mut values = self.values(network, flow);
        let terms: usize = self.by_class.iter().map(BTreeMap::len).sum();
        for _ in 0..(WORK_MAX / terms.max(1)).min(STEPS_MAX) {
            if !values.step() {
                break;
            }
        }
        LongRun { initial_places: values.initial_places(), relaxation_s: values.relaxation_s(flow) }
    }

    /// At first everybody is spread evenly.
    fn values(&self, network: &Network, flow: &Flow) -> MeanValues<'_> {
        let stations = network
            .stations
            .iter()
            .enumerate()
            .map(|(at, station)| station.speed_max().map(|speed| speed - flow.work[at]));
        let gates = network.gates.iter().enumerate();
        // How many slots a controller will find is not known.
        let gates =
            gates.map(|(at, gate)| gate.control.is_none().then(|| slots(gate) - flow.held[at]));
        // Open load may leave nothing at a station with a bound, which is not refused for that.
        let places: Vec<Place> = stations
            .chain(gates)
            .map(|left| Place { left: left.map(|left| left.max(1e-9)), jobs: 0.0 })
            .collect();
        let closed = network.classes.iter().map(|class| match &class.load {
            Load::Closed { population, think } => (f64::from(*population), think.mean()),
            _ => (0.0, 0.0),
        });
        let (population, think): (Vec<f64>, Vec<f64>) = closed.unzip();
        let spread = |(demands, population): (&BTreeMap<usize, PlaceDemand>, &f64)| {
            vec![population / demands.len() as f64; demands.len()]
        };
        let jobs = self.by_class.iter().zip(&population).map(spread).collect();
        let throughput = vec![0.0; population.len()];
        let mut values = MeanValues { demands: self, population, think, places, throughput, jobs };
        values.count();
        values
    }
}

impl MeanValues<'_> {
    /// Brings the jobs of all classes at each place up to date.
    fn count(&mut self) {
        self.places.iter_mut().for_each(|place| place.jobs = 0.0);
        for (demands, jobs) in self.demands.by_class.iter().zip(&self.jobs) {
            for (place, jobs) in demands.keys().zip(jobs) {
                self.places[*place].jobs += jobs;
            }
        }
    }

    /// Mean value analysis with one client fewer estimated by shares; false if nothing changes any more.
    fn step(&mut self) -> bool {
        let mut changes = false;
        for (class, demands) in self.demands.by_class.iter().enumerate() {
            let population = self.population[class];
            let residences: Vec<f64> = (demands.iter().zip(&self.jobs[class]))
                .map(|((place, here), jobs)| {
                    let Place { left, jobs: all } = self.places[*place];
                    // Several servers are a faster one and a delay (Seidmann et al. 1987). What is done
                    // with a slot counts where it is done.
                    let is_gate = here.squares == 0.0;
                    let Some(left) = left else { return if is_gate { 0.0 } else { here.work } };
                    let one = here.work / left;
                    let alone = if is_gate { 0.0 } else { (here.work - one).max(0.0) };
                    let met = (all - jobs / population).max(0.0);
                    one * if is_gate { met } else { 1.0 + met } + alone
                })
                .collect();
            let cycle = self.think[class] + residences.iter().sum::<f64>();
            if population == 0.0 || cycle <= 0.0 {
                continue;
            }
            self.throughput[class] = population / cycle;
            for (jobs, residence) in self.jobs[class].iter_mut().zip(residences) {
                let now = self.throughput[class] * residence;
                changes |= (now - *jobs).abs() > CONVERGED * population;
                *jobs = now;
            }
        }
        self.count();
        changes
    }

    fn initial_places(&self) -> Vec<Vec<(u32, u32)>> {
        let of_class = |(class, demands): (usize, &BTreeMap<usize, PlaceDemand>)| {
            if self.throughput[class] == 0.0 {
                return Vec::new();
            }
            let jobs = demands.keys().zip(&self.jobs[class]);
            let mut initial_places: Vec<(u32, u32)> =
                jobs.map(|(&place, &jobs)| (place as u32, jobs as u32)).collect();
            let placed: u32 = initial_places.iter().map(|(_, jobs)| jobs).sum();
            debug_assert!(f64::from(placed) <= self.population[class] + 1e-6, "{placed} clients");
            // Who does not think is somewhere.
            if self.think[class] == 0.0
                && let Some((_, most)) = initial_places.iter_mut().max_by_key(|(_, jobs)| *jobs)
            {
                *most += (self.population[class] as u32).saturating_sub(placed);
            }
            initial_places
        };
        self.demands.by_class.iter().enumerate().map(of_class).collect()
    }

    /// Sums of the closed classes at a place: work and mean squares a second, the clients who go
    /// there, those of them who can be there at once, and their cycles a second.
    fn sums_at(&self, place: usize) -> (f64, f64, f64, f64, f64) {
        let mut sums = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (class, demands) in self.demands.by_class.iter().enumerate() {
            let Some(here) = demands.get(&place) else { continue };
            let rate = self.throughput[class];
            // A hold is taken as exponential.
            let square = match here.squares {
                0.0 => 2.0 * here.work * here.work / here.visits.max(f64::MIN_POSITIVE),
                square => square,
            };
            sums.0 += rate * here.work;
            sums.1 += rate * square;
            sums.2 += self.population[class];
            sums.3 += here.most.min(self.population[class]);
            sums.4 += rate;
        }
        sums
    }

    /// The time in which the slowest place forgets how it began \[s\]. The busiest one of all its classes holds
    /// them back: its queue is whoever is not elsewhere, and changes with that.
    fn relaxation_s(&self, flow: &Flow) -> f64 {
        let stations = flow.work.len();
        let open = |place: usize| match place.checked_sub(stations) {
            None => (flow.work[place], flow.squares[place]),
            Some(gate) => (flow.held[gate], flow.hold_squares(gate)),
        };
        let places: Vec<(f64, f64, f64)> = (0..self.places.len())
            .map(|place| {
                let (work, squares, population, most, rate) = self.sums_at(place);
                let Some(left) = self.places[place].left.filter(|_| work > 0.0) else {
                    return (0.0, 0.0, 0.0);
                };
                let (open_work, open_squares) = open(place);
                let servers = left + open_work;
                let (work, squares) = (work + open_work, squares + open_squares);
                let busy = work / servers;
                let queue =
                    flow::OfferedWork { servers, work: work.min(servers * (1.0 - 1e-9)), squares };
                // Between two queues that are alike everybody may be here or there (M/M/1/N: Morse 1958).
                let between = squares / work / 2.0 * (most / PI).powi(2) / servers;
                let alone = together(queue.relaxation_s(), between);
                let elsewhere = (population - self.places[place].jobs).max(0.0) / rate;
                (busy, alone, together(queue.relaxation_s(), elsewhere))
            })
            .collect();
        let busiest: Vec<f64> = (self.demands.by_class.iter())
            .map(|demands| demands.keys().map(|&place| places[place].0).fold(0.0, f64::max))
            .collect();
        let holds_back = |place: usize| {
            let classes = self.demands.by_class.iter().zip(&busiest);
            let mut classes = classes.filter(|(demands, _)| demands.contains_key(&place));
            classes.all(|(_, busiest)| places[place].0 >= *busiest)
        };
        let mut longest: f64 = 0.0;
        // Of several that are as busy only one holds back.
        let mut held = vec![false; self.demands.by_class.len()];
        for (place, &(_, alone, holding)) in places.iter().enumerate() {
            let classes = || {
                let classes = self.demands.by_class.iter().enumerate();
                classes.filter(move |(_, demands)| demands.contains_key(&place)).map(|(at, _)| at)
            };
            let holds = holds_back(place) && classes().all(|class| !held[class]);
            if holds {
                classes().for_each(|class| held[class] = true);
            }
            longest = longest.max(if holds { holding } else { alone });
        }
        longest
    }
}

/// The time in which what is forgotten in either of two ways is forgotten; each by itself takes so long.
fn together(one: f64, other: f64) -> f64 {
    if one <= 0.0 || other <= 0.0 { 0.0 } else { 1.0 / (1.0 / one + 1.0 / other) }
}
