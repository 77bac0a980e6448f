//! A network compiled for the event loop: routes become flat lists of operations, checked once, so
//! that the loop has nothing left to doubt.

use std::time::Duration;

use gate::GateSpec;
use workload::{DocumentSet, RecordedJob};

use crate::network::{
    Agenda, Cache, Class, Demand, GateNode, Join, Load, Network, NetworkError, Sizes, Station,
    Step, WhenFull,
};

mod check;
mod closed;
mod flow;
mod shared;

use closed::LongRun;
use flow::Flow;
pub(crate) use flow::Offered;
pub use shared::equal_shares;

/// One operation of a compiled route.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Visit {
        station: u32,
        demand: Demand,
    },
    /// The station of the server held at the innermost gate.
    VisitServer {
        gate: u32,
        demand: Demand,
    },
    Acquire {
        gate: u32,
    },
    Release,
    /// Go on at the first target whose running sum of chances exceeds the draw, else at the next
    /// operation.
    Choose(Box<[(f64, u32)]>),
    Jump(u32),
    /// Go back with this chance.
    Again {
        chance: f64,
        target: u32,
    },
    /// The request is complete.
    Done,
    /// The client goes on there; what follows runs on without it, with the slot held last.
    Reply {
        resume: u32,
    },
    /// A job of its own begins with what follows; this one goes on there.
    Send {
        resume: u32,
    },
    /// Jobs of their own begin there; this one goes on when so many have joined.
    Fork {
        ways: Box<[u32]>,
        need: u32,
        resume: u32,
    },
    /// A job of a fork is through.
    Join,
    /// A job that nobody waits for is through.
    End,
    Become {
        class: u32,
    },
    /// Go on with what follows if the key is there, else there.
    Lookup {
        cache: u32,
        miss: u32,
    },
}

/// A network that can be run.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) classes: Vec<Class>,
    pub(crate) gates: Vec<GateNode>,
    pub(crate) stations: Vec<Station>,
    pub(crate) ops: Vec<Op>,
    /// Beginning of each class's route.
    pub(crate) entries: Vec<u32>,
    /// The customers of all closed classes.
    pub(crate) population: usize,
    pub(crate) caches: Vec<Cache>,
    pub(crate) agenda: Option<Agenda>,
    /// True if some clients give up while they wait.
    pub(crate) impatient: bool,
    /// True if some station blocks those that find it full.
    pub(crate) blocks: bool,
    /// True if some jobs have what few have: a client that gives up, a fork, a server that they
    /// keep, a trace.
    pub(crate) has_rare_states: bool,
    /// True if its jobs were recorded at a gate: then all that happens at the same moment has its place.
    pub(crate) is_recorded: bool,
    /// The time in which the slowest part forgets how it began \[s\].
    pub(crate) relaxation_s: f64,
    /// Places at which the clients of each closed class begin, with their numbers; with an agenda
    /// all of them think.
    pub(crate) initial_places: Vec<Vec<(u32, u32)>>,
    /// The open class that stays longest and the mean time that it stays for its services alone \[s\].
    pub(crate) longest_stay: (usize, f64),
    /// The servers that the work which arrives keeps busy, where all of it is known.
    pub(crate) offered: Option<Vec<Offered>>,
}

/// The deepest nesting of gates; more is surely a mistake in the scenario.
const DEPTH_MAX: usize = 16;

impl Program {
    /// True if the agenda changes slots of this gate.
    pub(crate) fn changes_slots(&self, at: usize) -> bool {
        let changes = self.agenda.iter().flat_map(|agenda| &agenda.changes);
        changes.into_iter().any(
            |change| matches!(change.what, crate::agenda::Changed::Slots { gate, .. } if gate == at),
        )
    }

    /// Compiles and checks.
    ///
    /// # Errors
    /// The first thing that makes the network impossible to run.
    pub(crate) fn compile(network: &Network) -> Result<Program, NetworkError> {
        let mut program = Program {
            classes: network.classes.clone(),
            gates: network.gates.clone(),
            stations: network.stations.clone(),
            ops: Vec::new(),
            entries: Vec::new(),
            population: check::population(network)?,
            caches: network.caches.clone(),
            agenda: network.agenda.clone(),
            impatient: network.classes.iter().any(|class| {
                let recorded = || recorded_jobs(class).iter().any(|job| job.patience.is_some());
                class.client.patience.is_some() || class.client.time_out.is_some() || recorded()
            }),
            blocks: (network.stations.iter())
                .any(|station| matches!(station.room, Some((_, WhenFull::Block)))),
            has_rare_states: false,
            is_recorded: network.classes.iter().any(|class| !recorded_jobs(class).is_empty()),
            relaxation_s: 0.0,
            initial_places: Vec::new(),
            longest_stay: (0, 0.0),
            offered: None,
        };
        if network.classes.is_empty() {
            return Err(NetworkError::new(
                "network",
                "it has no class, so nobody asks for anything",
            ));
        }
        check::parts(network)?;
        let mut flow = Flow::new(network);
        for (at, class) in network.classes.iter().enumerate() {
            program.entries.push(program.ops.len() as u32);
            check::class(class, network)?;
            let visits = match &class.load {
                Load::Open(arrivals) => arrivals.rate(),
                // By request.
                Load::Closed { .. } => 1.0,
                Load::Varying(_) | Load::Trace(_) | Load::Within => 0.0,
            };
            flow.closed.next_class();
            let mut compiler = Compiler {
                network,
                class,
                ops: &mut program.ops,
                around: Vec::new(),
                thinned: class.client.patience.is_some() || class.client.time_out.is_some(),
                flow: &mut flow,
                served: 0.0,
            };
            compiler.steps(&class.route, visits)?;
            let stay = if visits > 0.0 { compiler.served / visits } else { 0.0 };
            if stay > program.longest_stay.1 {
                program.longest_stay = (at, stay);
            }
            program.ops.push(Op::Done);
        }
        flow.split(network);
        flow.check(network)?;
        if network.agenda.is_none() {
            let LongRun { initial_places, relaxation_s } = flow.closed.long_run(network, &flow);
            program.relaxation_s = flow.relaxation_s(network).max(relaxation_s);
            program.initial_places = initial_places;
        }
        program.offered = flow.is_whole.then(|| flow.offered(network));
        let forks = program.ops.iter().any(|op| matches!(op, Op::Fork { .. }));
        let traces = program.classes.iter().any(|class| matches!(class.load, Load::Trace(_)));
        program.has_rare_states = program.impatient || program.blocks || forks || traces;
        Ok(program)
    }
}

/// The jobs of a class that were recorded at a gate, if its load is of such.
pub(crate) fn recorded_jobs(class: &Class) -> &[RecordedJob] {
    match &class.load {
        Load::Trace(trace) => trace.recorded_jobs(),
        Load::Closed { .. } | Load::Open(_) | Load::Varying(_) | Load::Within => &[],
    }
}

struct Compiler<'a> {
    network: &'a Network,
    class: &'a Class,
    ops: &'a mut Vec<Op>,
    /// The gates around the present step, innermost last.
    around: Vec<usize>,
    /// True behind a gate that may refuse jobs: the number that comes past it is not known here.
    thinned: bool,
    flow: &'a mut Flow,
    /// The time for which jobs of the class are sure to be served on their way, of all that come in a
    /// second \[s/s\]; what others do for them meanwhile does not count.
    served: f64,
}

impl Compiler<'_> {
    fn error(&self, cause: impl Into<String>) -> NetworkError {
        NetworkError::new(format!("class `{}`", self.class.name), cause)
    }

    fn is_closed(&self) -> bool {
        matches!(self.class.load, Load::Closed { .. })
    }

    /// Compiles steps that are passed `rate` times a second, or a request of a closed class, unless gates
    /// refuse jobs before.
    fn steps(&mut self, steps: &[Step], rate: f64) -> Result<(), NetworkError> {
        steps.iter().try_for_each(|step| self.step(step, rate))
    }

    fn step(&mut self, step: &Step, rate: f64) -> Result<(), NetworkError> {
        match step {
            Step::Visit { station, demand } => {
                if *station >= self.network.stations.len() {
                    return Err(self.error(format!(
                        "its route visits station {station}, which does not exist"
                    )));
                }
                self.demand(*station, demand, rate, 1.0)?;
                self.ops.push(Op::Visit { station: *station as u32, demand: demand.clone() });
            }
            Step::VisitServer { demand } => self.visit_server(demand, rate)?,
            Step::Hold { gate, inside } => self.hold(*gate, inside, rate)?,
            Step::Choose(ways) => self.choose(ways, rate)?,
            Step::Repeat { again, steps } => {
                if !(0.0..1.0).contains(again) {
                    return Err(self.error(format!(
                        "the chance to repeat must be 0 or above and below 1, but it is {again}"
                    )));
                }
                if steps.is_empty() {
                    return Err(self.error("it repeats a way without steps"));
                }
                let target = self.ops.len() as u32;
                // Who is refused on the way does not go again: only the first time is sure.
                let rate = if may_refuse(self.network, self.class, steps) {
                    self.flow.is_whole = false;
                    rate
                } else {
                    rate / (1.0 - again)
                };
                self.steps(steps, rate)?;
                self.ops.push(Op::Again { chance: *again, target });
            }
            Step::Reply => {
                return Err(self.error(
                    "it replies where it cannot: `Reply` is a step of a gate's own, once, not in a \
                     choice, a repetition or a way of its own",
                ));
            }
            Step::Send { way } => self.send(way, rate)?,
            Step::Fork { ways, join } => self.fork(ways, *join, rate)?,
            Step::Become { class } => {
                let Some(fed) = self.flow.class_fed.get_mut(*class) else {
                    return Err(
                        self.error(format!("it becomes class {class}, which does not exist"))
                    );
                };
                *fed = true;
                self.ops.push(Op::Become { class: *class as u32 });
            }
            Step::Lookup { cache, hit, miss } => self.lookup(*cache, hit, miss)?,
        }
        Ok(())
    }

    /// A way of a job of its own, which holds nothing.
    fn own_way(&mut self, way: &[Step], rate: f64, end: Op) -> Result<(), NetworkError> {
        if way.is_empty() {
            return Err(self.error("it sends a job on a way without steps"));
        }
        let (around, served) = (std::mem::take(&mut self.around), self.served);
        self.steps(way, rate)?;
        (self.around, self.served) = (around, served);
        self.ops.push(end);
        Ok(())
    }

    fn send(&mut self, way: &[Step], rate: f64) -> Result<(), NetworkError> {
        let head = self.ops.len();
        self.ops.push(Op::Send { resume: 0 });
        self.own_way(way, rate, Op::End)?;
        self.ops[head] = Op::Send { resume: self.ops.len() as u32 };
        Ok(())
    }

    fn fork(&mut self, ways: &[Vec<Step>], join: Join, rate: f64) -> Result<(), NetworkError> {
        let need = match join {
            Join::All => ways.len() as u32,
            Join::First(need) => need,
        };
        if need == 0 || need as usize > ways.len() {
            return Err(self.error(format!(
                "it forks into {} ways and waits for {need} of them; wait for at least 1 and at most all",
                ways.len()
            )));
        }
        let head = self.ops.len();
        self.ops.push(Op::Join);
        let mut starts = Vec::with_capacity(ways.len());
        for way in ways {
            starts.push(self.ops.len() as u32);
            self.own_way(way, rate, Op::Join)?;
        }
        let resume = self.ops.len() as u32;
        self.ops[head] = Op::Fork { ways: starts.into(), need, resume };
        Ok(())
    }

    fn lookup(&mut self, cache: usize, hit: &[Step], miss: &[Step]) -> Result<(), NetworkError> {
        let Some(fed) = self.flow.cache_fed.get_mut(cache) else {
            return Err(self.error(format!("it looks into cache {cache}, which does not exist")));
        };
        *fed = true;
        self.flow.is_whole = false;
        let head = self.ops.len();
        self.ops.push(Op::Join);
        // How often it hits is for the run to find: neither way is sure.
        self.steps(hit, 0.0)?;
        let skip = self.ops.len();
        self.ops.push(Op::Join);
        self.ops[head] = Op::Lookup { cache: cache as u32, miss: self.ops.len() as u32 };
        self.steps(miss, 0.0)?;
        self.ops[skip] = Op::Jump(self.ops.len() as u32);
        Ok(())
    }

    fn visit_server(&mut self, demand: &Demand, rate: f64) -> Result<(), NetworkError> {
        let Some(&gate) = self.around.last() else {
            return Err(
                self.error("it visits the server of a gate, but no gate is around that step")
            );
        };
        let node = &self.network.gates[gate];
        if node.stations.len() != node.spec.servers.len() {
            return Err(NetworkError::new(
                format!("gate `{}`", node.name),
                format!(
                    "it has {} servers but {} stations of their own",
                    node.spec.servers.len(),
                    node.stations.len()
                ),
            ));
        }
        let shares = node.spec.shares();
        match shares {
            // A router that looks at nothing gives each server its share.
            Some(shares) => {
                for (server, (&station, share)) in node.stations.iter().zip(shares).enumerate() {
                    self.demand(station, demand, rate * share, node.speed(server))?;
                }
            }
            None => self.demand_of_any(gate, demand, rate)?,
        }
        self.ops.push(Op::VisitServer { gate: gate as u32, demand: demand.clone() });
        Ok(())
    }

    fn hold(&mut self, gate: usize, inside: &[Step], rate: f64) -> Result<(), NetworkError> {
        let Some(node) = self.network.gates.get(gate) else {
            return Err(self.error(format!("its route passes gate {gate}, which does not exist")));
        };
        let place = format!("gate `{}`", node.name);
        if self.around.contains(&gate) {
            return Err(NetworkError::new(
                place,
                "it is inside itself: a job would wait for a slot that it holds",
            ));
        }
        if self.around.len() >= DEPTH_MAX {
            return Err(NetworkError::new(place, format!("gates nest deeper than {DEPTH_MAX}")));
        }
        if self.comes_back_at_once(&node.spec) {
            let cause = format!(
                "class `{}` has no think time, so a customer that is refused here would come back at \
                 once, for ever: give it a think time, or the gate more room or time for its servers to \
                 come up",
                self.class.name
            );
            return Err(NetworkError::new(place, cause));
        }
        self.flow.gate_fed[gate] = true;
        match self.thinned {
            false if self.is_closed() => self.flow.closed.add_hold(self.network, gate, rate),
            false => self.flow.add_hold(gate, rate),
            true => {}
        }
        self.thinned |= refuses(&node.spec, self.class);
        self.ops.push(Op::Acquire { gate: gate as u32 });
        self.around.push(gate);
        match inside.iter().position(|step| matches!(step, Step::Reply)) {
            None => {
                self.steps(inside, rate)?;
                self.ops.push(Op::Release);
            }
            Some(reply) => {
                self.steps(&inside[..reply], rate)?;
                let head = self.ops.len();
                self.ops.push(Op::Reply { resume: 0 });
                // Behind the reply the slot is all that is held.
                let around = std::mem::replace(&mut self.around, vec![gate]);
                self.steps(&inside[reply + 1..], rate)?;
                self.around = around;
                self.ops.extend([Op::Release, Op::End]);
                self.ops[head] = Op::Reply { resume: self.ops.len() as u32 };
            }
        }
        self.around.pop();
        Ok(())
    }

    /// True if customers of this class are sure to be refused at a gate and to be there again at
    /// the same moment. (If that depends on other classes or on chance, the run will tell.)
    fn comes_back_at_once(&self, spec: &GateSpec) -> bool {
        let Load::Closed { population, think } = &self.class.load else { return false };
        let first = self.ops.last().is_none_or(|op| matches!(op, Op::Done));
        let slots: u64 = spec.servers.iter().map(|server| u64::from(server.slots)).sum();
        let is_full =
            spec.room.is_some_and(|room| room.saturating_add(slots) < u64::from(*population));
        let is_left = self.network.agenda.is_some() && spec.unreachable_max == Some(Duration::ZERO);
        think.mean() == 0.0 && (is_full || is_left) && first
    }

    fn choose(&mut self, ways: &[(f64, Vec<Step>)], rate: f64) -> Result<(), NetworkError> {
        let sum: f64 = ways.iter().map(|(chance, _)| chance).sum();
        if ways.iter().any(|(chance, _)| !(0.0..=1.0).contains(chance)) || sum > 1.0 + 1e-9 {
            return Err(self.error(format!(
                "chances must be between 0 and 1 and sum to at most 1, but they sum to {sum}"
            )));
        }
        let head = self.ops.len();
        self.ops.push(Op::Choose(Box::new([])));
        // The way for the rest of the draw: past all others.
        let skip = self.ops.len();
        self.ops.push(Op::Jump(0));
        let mut targets = Vec::new();
        let mut ends = vec![skip];
        let mut running = 0.0;
        for (chance, steps) in ways {
            running += chance;
            targets.push((running, self.ops.len() as u32));
            self.steps(steps, rate * chance)?;
            ends.push(self.ops.len());
            self.ops.push(Op::Jump(0));
        }
        // Chances that are meant to add up to 1 may end a little below: no draw may fall beyond them.
        if (sum - 1.0).abs() < 1e-9
            && let Some(last) = targets.last_mut()
        {
            last.0 = 1.0;
        }
        let end = self.ops.len() as u32;
        for at in ends {
            self.ops[at] = Op::Jump(end);
        }
        self.ops[head] = Op::Choose(targets.into());
        Ok(())
    }

    /// A visit of a station by a job whose work is done at this speed there.
    fn demand(
        &mut self,
        station: usize,
        demand: &Demand,
        rate: f64,
        speed: f64,
    ) -> Result<(), NetworkError> {
        let (mean, square) = self.moments(demand)?;
        let (mean, square) = (mean / speed, square / (speed * speed));
        self.flow.station_fed[station] = true;
        let fastest = self.network.stations[station].speed_of_one();
        let (visit, least) = ((rate, mean, square), mean / fastest);
        match self.thinned {
            false if self.is_closed() => {
                let at = (station, &*self.around);
                self.flow.closed.add(self.network, at, visit, least);
            }
            false => {
                self.flow.add(station, &self.around, visit, least);
                self.served += rate * least;
            }
            true => self.flow.is_whole = false,
        }
        self.may_lose(station);
        Ok(())
    }

    /// The demand of a job that goes to any of a gate's stations.
    fn demand_of_any(
        &mut self,
        gate: usize,
        demand: &Demand,
        rate: f64,
    ) -> Result<(), NetworkError> {
        let network = self.network;
        let node = &network.gates[gate];
        let stations: Vec<(usize, f64)> =
            (0..).zip(&node.stations).map(|(server, &at)| (at, node.speed(server))).collect();
        if self.is_closed() {
            // Roughly: clients move until all are equally busy.
            let speeds =
                stations.iter().map(|&(at, speed)| Some(speed * network.stations[at].speed_max()?));
            let total: Option<f64> = speeds.clone().sum();
            for (&(station, own), speed) in stations.iter().zip(speeds) {
                let share = speed.zip(total).map_or(0.0, |(speed, total)| speed / total);
                self.demand(station, demand, rate * share, own)?;
            }
            return Ok(());
        }
        let (mean, square) = self.moments(demand)?;
        stations.iter().for_each(|&(station, _)| self.flow.station_fed[station] = true);
        let fastest =
            stations.iter().map(|&(at, speed)| speed * network.stations[at].speed_of_one());
        let least = mean / fastest.fold(f64::MIN_POSITIVE, f64::max);
        // Who does how much, and so how long it takes, is not known.
        self.flow.is_whole &= stations.iter().all(|(_, speed)| *speed == stations[0].1);
        if self.thinned {
            self.flow.is_whole = false;
        } else {
            self.flow.add_shared((gate, &stations), &self.around, (rate, mean, square), least);
            self.served += rate * least;
        }
        stations.iter().for_each(|&(station, _)| self.may_lose(station));
        Ok(())
    }

    /// Who finds a station full may be lost, and goes no further.
    fn may_lose(&mut self, station: usize) {
        if self.network.stations[station].room.is_some() {
            self.thinned = true;
            self.flow.is_whole = false;
        }
    }

    /// The mean and the mean square of a demand \[s, s^2\].
    fn moments(&self, demand: &Demand) -> Result<(f64, f64), NetworkError> {
        let mut square = None;
        let mean = match (demand, &self.class.sizes) {
            (Demand::Drawn(dist), _) => {
                dist.check().map_err(|error| self.error(error.to_string()))?;
                square = Some(dist.second_moment()).filter(|square| square.is_finite());
                dist.mean()
            }
            (Demand::OfTrace, _) => check::traced_demand(self.class)?,
            (Demand::OfDocument(_), Sizes::None) => return Err(self.no_sizes()),
            (Demand::OfSize { per_byte_s, base_s }, _) => {
                let fits = |value: f64| value.is_finite() && value >= 0.0;
                if !(fits(*per_byte_s) && fits(*base_s)) {
                    return Err(self.error(format!(
                        "a demand of {per_byte_s} s a byte and {base_s} s is not 0 or above"
                    )));
                }
                let mean_size = check::mean_size(self.class).ok_or_else(|| self.no_sizes())?;
                per_byte_s * mean_size + base_s
            }
            (Demand::OfDocument(by_document), Sizes::Documents(set, _)) => {
                self.by_document(by_document, set)?
            }
            (Demand::OfDocument(_), Sizes::Drawn(_)) => {
                return Err(self.error(
                    "a demand is given by document, but the class has sizes without documents",
                ));
            }
        };
        // Where it is not known, as if it were exponential.
        Ok((mean, square.unwrap_or(2.0 * mean * mean)))
    }

    fn no_sizes(&self) -> NetworkError {
        self.error("a demand depends on the size of the job, but the class has no sizes")
    }

    fn by_document(&self, demands: &[f64], set: &DocumentSet) -> Result<f64, NetworkError> {
        if demands.len() != set.len() {
            return Err(self.error(format!(
                "{} demands are given for {} documents",
                demands.len(),
                set.len()
            )));
        }
        if let Some(bad) = demands.iter().find(|demand| !(demand.is_finite() && **demand >= 0.0)) {
            return Err(self.error(format!("a demand must be 0 or above, but one is {bad}")));
        }
        Ok(demands.iter().enumerate().map(|(class, demand)| set.share(class) * demand).sum())
    }
}

/// True if a gate may turn jobs away.
fn refuses(spec: &GateSpec, class: &Class) -> bool {
    let waits = [spec.wait_max, spec.unreachable_max, class.deadline];
    spec.room.is_some() || waits.iter().any(Option::is_some)
}

/// True if some gate on this way may turn jobs away.
fn may_refuse(network: &Network, class: &Class, steps: &[Step]) -> bool {
    steps.iter().any(|step| match step {
        Step::Visit { station, .. } => {
            network.stations.get(*station).is_some_and(|station| station.room.is_some())
        }
        Step::VisitServer { .. } => network.stations.iter().any(|station| station.room.is_some()),
        Step::Reply | Step::Send { .. } | Step::Become { .. } => false,
        Step::Fork { ways, .. } => ways.iter().any(|steps| may_refuse(network, class, steps)),
        Step::Lookup { hit, miss, .. } => {
            may_refuse(network, class, hit) || may_refuse(network, class, miss)
        }
        Step::Hold { gate, inside } => {
            network.gates.get(*gate).is_some_and(|node| refuses(&node.spec, class))
                || may_refuse(network, class, inside)
        }
        Step::Choose(ways) => ways.iter().any(|(_, steps)| may_refuse(network, class, steps)),
        Step::Repeat { steps, .. } => may_refuse(network, class, steps),
    })
}
