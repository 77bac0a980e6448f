//! A scenario whose slots are held through several steps, or through other gates, as a layered model:
//! a gate is a task, its slots are the threads, and what is inside is what a thread does and calls.

use gate::{DisciplineSpec, GateSpec, Queues, RouterSpec};
use sim::{Class, Demand, Load, Network, Sizes, StationKind, Step};
use solve::SolveError;
use solve::layered::{
    Call, CallCounts, CallKind, Entry, EntryId, Layered, LayeredAnswer, LayeredError, Phase,
    Processor, Task, Threads,
};
use workload::{Arrivals, Dist};

use super::nodes::{check_pool, is_even, moments};
use super::variation::{self, Place as Meeting, SCV_MAX};
use super::{Bounds, ClassAnswer, FormulaAnswer, NoFormula, NodeAnswer, Trust, swing};
use crate::scenario::mean_demand;

/// Name of such a model's answer.
pub(super) const NAME: &str = "layered model";

/// The largest relative error of throughput and response over the scenarios of the tests, where every
/// demand at a queue or a sharing station is exponential, no router deals jobs out, and no clients hold
/// slots while they wait for others; half of the errors are below 1 %.
const ERROR_EXPONENTIAL: f64 = 0.12;

/// The same with other demands, up to [`SCV_MAX`], with routers and with nested slots; half of the
/// errors are below 3 %.
/// The largest are those of response times in small pools with constant demands, which in truth get
/// out of each other's way.
pub(super) const ERROR: f64 = 0.35;

/// The fewest clients who may ask for a station in slots of several gates. Each finds itself there with the chance p of
/// being there otherwise, beside (n - 1) p others: its service is too long by less than one part in n. Of others who wait
/// for the same slots the response was up to 21 % too short.
const CLIENTS_MIN: u32 = 10;

/// The most servers with a queue each: the model has a task for every one, and takes time as the cube of
/// their number.
const SERVERS_MAX: usize = 32;

/// The answer of the layered model.
///
/// # Errors
/// If the scenario has no such model, or the open load is more than slots or stations can take.
pub(super) fn answer(
    network: &Network,
    bounds: Option<Bounds>,
) -> Result<FormulaAnswer, NoFormula> {
    let mut model = Model::of(network)?;
    let layered = Layered::new(&model.processors, &model.tasks);
    let found = layered.and_then(|layered| layered.solve()).map_err(|of| named(&of, network))?;
    model.judge(&found)?;
    let answer = model.answer(&found, bounds);
    sandwiched(&answer)?;
    Ok(answer)
}

/// Error that a layered model would state of a scenario, even where another formula fits it better;
/// or the reason why the scenario is out of its range. None where the model cannot say the scenario
/// at all.
pub(super) fn stated(network: &Network) -> Option<Result<f64, String>> {
    // What varies too much is refused before there is a model.
    let mut model = match Model::of(network) {
        Err(reason) if reason.contains(variation::TOO_VARIED) => return Some(Err(reason)),
        model => model.ok()?,
    };
    let found = Layered::new(&model.processors, &model.tasks).ok()?.solve().ok()?;
    Some(model.judge(&found).map(|()| model.error))
}

/// An error in the scenario's own words.
fn named(error: &LayeredError, network: &Network) -> NoFormula {
    let own = |text: &str| text.replace("task `", "gate `").replace("processor `", "station `");
    match error {
        LayeredError::Cycle { task } => NoFormula::from(format!(
            "a slot of gate `{task}` is held until another one of it is free, perhaps through others, \
             and jobs may wait for each other for ever"
        )),
        LayeredError::Unstable { place, utilisation } => {
            let open = network.classes.iter().map(|class| match &class.load {
                Load::Open(arrivals) => arrivals.rate(),
                Load::Closed { .. } | Load::Varying(_) | Load::Trace(_) | Load::Within => 0.0,
            });
            let rate_max = open.sum::<f64>() / utilisation;
            let place = own(place);
            SolveError::Unstable { place, rho: *utilisation, rate_max }.into()
        }
        error => own(&error.to_string()).into(),
    }
}

/// Bounds hold whatever the formula: one that leaves them is worthless.
fn sandwiched(answer: &FormulaAnswer) -> Result<(), String> {
    let Some(bounds) = &answer.bounds else { return Ok(()) };
    let slack = 2e-3;
    let low = bounds.throughput_min * (1.0 - slack);
    let high = bounds.throughput_max * (1.0 + slack);
    if (low..=high).contains(&answer.throughput) {
        Ok(())
    } else {
        Err("the layered model's answer leaves the bounds, so that it is worthless here".into())
    }
}

/// A scenario as a layered model, and what its parts are there.
struct Model<'a> {
    network: &'a Network,
    processors: Vec<Processor>,
    tasks: Vec<Task>,
    /// By gate: the tasks that its servers are, or the one that they all are.
    gates: Vec<Vec<usize>>,
    /// By station: the task that serves there, if anybody passes it.
    stations: Vec<Option<usize>>,
    /// By station: the gates whose slots are held there, each with the index of its server; none
    /// for a job that holds no slot.
    holders: Vec<Vec<Option<(usize, usize)>>>,
    /// By station: the visits there.
    visits: Vec<Vec<Visit>>,
    /// By gate that has one queue for several stations: the task that serves for all of them, without
    /// any queue, if anybody passes it.
    pools: Vec<Option<usize>>,
    /// By class: its task.
    classes: Vec<usize>,
    remarks: Vec<String>,
    /// The largest error seen with such demands and routers.
    error: f64,
}

/// A visit of a station.
struct Visit {
    class: usize,
    /// The gate whose slot is held.
    gate: Option<usize>,
    /// Its entry of the station's task.
    entry: usize,
}

/// Position of a step.
#[derive(Clone, Copy)]
struct Place<'a> {
    class: &'a Class,
    /// Mean number of times that a job passes it, for each time that it passes the gate around.
    passes: f64,
    /// The gate around, and which of its servers, where each has a queue.
    around: Option<(usize, usize)>,
}

impl<'a> Model<'a> {
    fn of(network: &'a Network) -> Result<Model<'a>, String> {
        let mut model = Model {
            network,
            processors: vec![Processor::delay("everybody's own")],
            tasks: Vec::new(),
            gates: Vec::new(),
            stations: Vec::new(),
            holders: vec![Vec::new(); network.stations.len()],
            visits: network.stations.iter().map(|_| Vec::new()).collect(),
            pools: Vec::new(),
            classes: Vec::new(),
            remarks: Vec::new(),
            error: ERROR_EXPONENTIAL,
        };
        model.add_stations();
        model.add_gates()?;
        for class in &network.classes {
            model.add_class(class)?;
        }
        // What nobody passes is not part of the model.
        for task in &mut model.tasks {
            if task.entries.is_empty() {
                task.entries.push(Entry::new("unused", 0.0));
            }
        }
        model.without_unused()
    }

    fn add_stations(&mut self) {
        for station in &self.network.stations {
            let name = station.name.as_str();
            self.processors.push(match station.kind {
                StationKind::Queue { servers } => Processor::multi(name, servers),
                StationKind::Sharing { processors } => Processor::sharing(name, processors),
                StationKind::Delay => Processor::delay(name),
                StationKind::FairShare { .. } => {
                    self.remarks.push(format!(
                        "the fair share of `{name}` is treated as ideal sharing, its limit for small \
                         quanta"
                    ));
                    Processor::sharing(name, 1)
                }
            });
            self.stations.push(Some(self.tasks.len()));
            self.tasks.push(Task::infinite(name, self.processors.len() - 1, Vec::new()));
        }
    }

    fn add_gates(&mut self) -> Result<(), String> {
        for (at, gate) in self.network.gates.iter().enumerate() {
            let spec = &gate.spec;
            check_plain(&gate.name, spec, self.network)?;
            let slots = spec.servers.iter().map(|server| server.slots);
            let (threads, gap_scv): (Vec<u32>, f64) = match spec.queues {
                Queues::PerServer if spec.servers.len() > 1 => {
                    if spec.servers.len() > SERVERS_MAX {
                        return Err(format!(
                            "gate `{}` has {} servers with a queue each, and the layered model is solved \
                             for {SERVERS_MAX} at the most",
                            gate.name,
                            spec.servers.len()
                        ));
                    }
                    let servers = spec.servers.len() as f64;
                    self.error = ERROR;
                    (slots.collect(), gaps(&gate.name, &spec.router, servers)?)
                }
                Queues::PerServer | Queues::Shared => (vec![slots.sum()], 1.0),
            };
            let most = clients(self.network, at);
            let mut tasks = Vec::new();
            for threads in threads {
                let threads = threads.min(most);
                tasks.push(self.tasks.len());
                let task = Task::pool(&gate.name, 0, threads, Vec::new());
                self.tasks.push(Task { gap_scv, ..task });
            }
            let is_pool = tasks.len() == 1 && gate.stations.len() > 1;
            self.pools.push(is_pool.then_some(self.tasks.len()));
            if is_pool {
                self.tasks.push(Task::infinite(&gate.name, 0, Vec::new()));
            }
            self.gates.push(tasks);
        }
        Ok(())
    }

    fn add_class(&mut self, class: &Class) -> Result<(), String> {
        let place = Place { class, passes: 1.0, around: None };
        let phase = self.phase(&class.route, place)?;
        let mut entry = Entry { phases: [phase, Phase::default()], ..Entry::new("route", 0.0) };
        let threads = match &class.load {
            Load::Closed { population, think } => {
                Threads::Reference { population: *population, think: think.mean() }
            }
            Load::Open(Arrivals::Poisson { rate }) => {
                entry.open_rate = *rate;
                Threads::Infinite
            }
            Load::Open(_) => {
                let reason = "its arrivals are not Poisson, and the formulas need that they are";
                return Err(reason.into());
            }
            Load::Varying(_) | Load::Trace(_) | Load::Within => {
                return Err("the formulas know constant loads only".into());
            }
        };
        self.classes.push(self.tasks.len());
        let task = Task::infinite(&class.name, 0, vec![entry]);
        self.tasks.push(Task { threads, ..task });
        Ok(())
    }

    fn phase(&mut self, steps: &[Step], place: Place<'_>) -> Result<Phase, String> {
        let mut phase = Phase { counts: CallCounts::Fixed, ..Phase::default() };
        self.steps(steps, place, &mut phase)?;
        Ok(phase)
    }

    fn steps(&mut self, steps: &[Step], place: Place<'_>, phase: &mut Phase) -> Result<(), String> {
        for step in steps {
            match step {
                Step::Visit { station, demand } => self.visit(*station, demand, place, phase)?,
                Step::VisitServer { demand } => self.visit_server(demand, place, phase)?,
                Step::Hold { gate, inside } => self.hold(*gate, inside, place, phase)?,
                Step::Choose(ways) => {
                    for (chance, steps) in ways.iter().filter(|(chance, _)| *chance > 0.0) {
                        let place = Place { passes: place.passes * chance, ..place };
                        self.steps(steps, place, phase)?;
                    }
                }
                Step::Repeat { again, steps } => {
                    phase.counts = CallCounts::Geometric;
                    let place = Place { passes: place.passes / (1.0 - again), ..place };
                    self.steps(steps, place, phase)?;
                }
                Step::Reply => return Err("a slot is kept after the answer".into()),
                Step::Send { .. } => return Err("jobs are sent that nobody waits for".into()),
                Step::Fork { .. } => return Err("a job forks".into()),
                Step::Become { .. } => return Err("jobs change their class".into()),
                Step::Lookup { .. } => return Err("the way depends on a cache".into()),
            }
        }
        Ok(())
    }

    fn hold(
        &mut self,
        gate: usize,
        inside: &[Step],
        place: Place<'_>,
        phase: &mut Phase,
    ) -> Result<(), String> {
        if place.class.deadline.is_some() {
            return Err(format!(
                "gate `{}` turns jobs of class `{}` away that would miss their deadline, and the formulas let all in",
                self.network.gates[gate].name, place.class.name
            ));
        }
        let tasks = self.gates[gate].clone();
        for (server, &task) in tasks.iter().enumerate() {
            let within = Place { class: place.class, passes: 1.0, around: Some((gate, server)) };
            let first = self.phase(inside, within)?;
            let entry = Entry { phases: [first, Phase::default()], ..Entry::new("inside", 0.0) };
            self.call(task, entry, place.passes / tasks.len() as f64, phase);
        }
        Ok(())
    }

    fn visit_server(
        &mut self,
        demand: &Demand,
        place: Place<'_>,
        phase: &mut Phase,
    ) -> Result<(), String> {
        let (gate, server) = place.around.expect("a scenario's server is visited inside its gate");
        let node = &self.network.gates[gate];
        if self.gates[gate].len() > 1 || node.stations.len() == 1 {
            return self.visit(node.stations[server], demand, place, phase);
        }
        // One queue before several servers: whoever has a slot has a processor, and waits for nobody.
        check_pool(self.network, gate)?;
        let Some((mean, scv)) = self.asked(node.stations[0], demand, place)? else { return Ok(()) };
        if scv != 1.0 {
            self.error = ERROR;
        }
        let task = self.pools[gate].expect("a gate with one queue for several stations has a pool");
        self.call(task, Entry::new("serve", mean).scv(scv), place.passes, phase);
        Ok(())
    }

    fn visit(
        &mut self,
        station: usize,
        demand: &Demand,
        place: Place<'_>,
        phase: &mut Phase,
    ) -> Result<(), String> {
        let Some((mean, scv)) = self.asked(station, demand, place)? else { return Ok(()) };
        let waits = self.network.stations[station].kind.capacity().is_some();
        let exponential = matches!(demand, Demand::Drawn(Dist::Exponential { .. }));
        if waits && !exponential {
            self.error = ERROR;
        }
        if !self.holders[station].contains(&place.around) {
            self.holders[station].push(place.around);
        }
        let task = self.stations[station].expect("unused stations are left out later");
        // The class itself is added when its route is known.
        let class = self.classes.len();
        let gate = place.around.map(|(gate, _)| gate);
        self.visits[station].push(Visit { class, gate, entry: self.tasks[task].entries.len() });
        self.call(task, Entry::new("serve", mean).scv(scv), place.passes, phase);
        Ok(())
    }

    /// Raises the error to the largest that was seen with what meets what.
    ///
    /// # Errors
    /// If the scenario is out of the range that was tried: why.
    fn judge(&mut self, found: &LayeredAnswer) -> Result<(), String> {
        let meets_itself = self.meets_itself()?;
        let meeting = variation::meeting(self.meeting_share(found))?;
        self.error = self.error.max(variation::open(found)?).max(meeting);
        if meets_itself || self.differs(found)? || swing::is_nested(&self.tasks) {
            self.error = ERROR;
        }
        Ok(())
    }

    /// The largest utilisation of a station at which jobs meet that hold slots of different gates, or of a gate and of
    /// none; 0 where there is none. Clients who wait for their answer send no further request, so that a closed load counts
    /// by the share of the time in which its clients think.
    fn meeting_share(&self, found: &LayeredAnswer) -> f64 {
        let share = |(station, visits): (usize, &Vec<Visit>)| {
            let first = visits.first()?.gate;
            let servers = f64::from(self.network.stations[station].kind.capacity()?);
            let task = self.stations[station]?;
            let work = |visit: &Visit| {
                let demand = self.tasks[task].entries[visit.entry].phases[0].demand;
                found.tasks[task].entries[visit.entry].throughput
                    * demand
                    * self.thinking_share(visit.class, found)
            };
            let busy = visits.iter().map(work).sum::<f64>() / servers;
            visits.iter().any(|visit| visit.gate != first).then_some(busy)
        };
        self.visits.iter().enumerate().filter_map(share).fold(0.0, f64::max)
    }

    /// True if clients of a class ask for a station in slots of several gates, or in some and in none: to the layered model a
    /// client there is another one than itself, and waits for itself.
    ///
    /// # Errors
    /// If they are so few that it is out of its range.
    fn meets_itself(&self) -> Result<bool, String> {
        let mut meets = false;
        let queues = self.network.stations.iter().zip(&self.visits);
        for (station, visits) in queues.filter(|(station, _)| station.kind.capacity().is_some()) {
            for (at, class) in self.network.classes.iter().enumerate() {
                let Load::Closed { population, .. } = class.load else { continue };
                let mut gates =
                    visits.iter().filter(|visit| visit.class == at).map(|visit| visit.gate);
                let first = gates.next();
                let by_several = gates.any(|gate| Some(gate) != first);
                if by_several && population < CLIENTS_MIN {
                    return Err(format!(
                        "clients of class `{}` ask for `{}` in slots of different gates, or in a slot and in none, \
                         and where they are fewer than {CLIENTS_MIN} the layered model is out of its range",
                        class.name, station.name
                    ));
                }
                meets |= by_several;
            }
        }
        Ok(meets)
    }

    /// Share of the time in which a client of a class thinks; 1 under open load.
    fn thinking_share(&self, class: usize, found: &LayeredAnswer) -> f64 {
        match &self.network.classes[class].load {
            Load::Closed { think, .. } => {
                let think = think.mean();
                let response = found.tasks[self.classes[class]].entries[0].hold[0];
                think / (think + response)
            }
            Load::Open(_) | Load::Varying(_) | Load::Trace(_) | Load::Within => 1.0,
        }
    }

    /// True if demands that differ meet in a queue.
    ///
    /// # Errors
    /// If they vary too much for the layered model.
    fn differs(&self, found: &LayeredAnswer) -> Result<bool, String> {
        let slots =
            |&(gate, server): &(usize, usize)| match self.tasks[self.gates[gate][server]].threads {
                Threads::Finite(slots) => u64::from(slots),
                Threads::Infinite | Threads::Reference { .. } => 0,
            };
        let stations = self.stations.iter().zip(&self.holders).enumerate();
        let places: Vec<Meeting> = stations
            .filter_map(|(station, (task, holders))| {
                let is_free = holders.contains(&None);
                let slots = holders.iter().flatten().map(slots).sum();
                Some(Meeting { station, task: (*task)?, slots, is_free })
            })
            .collect();
        let parts = (&*self.processors, &*self.tasks);
        variation::check(self.network, &places, parts, found)
    }

    /// Mean \[s\] and squared coefficient of variation of a demand; none if nothing is asked.
    fn asked(
        &self,
        station: usize,
        demand: &Demand,
        place: Place<'_>,
    ) -> Result<Option<(f64, f64)>, String> {
        let sizes = &place.class.sizes;
        let mean = mean_demand(demand, sizes);
        if mean == 0.0 {
            return Ok(None);
        }
        let exponential = matches!(demand, Demand::Drawn(Dist::Exponential { .. }));
        let scv = if exponential { Some(1.0) } else { moments(demand, sizes).map(|of| of.scv()) };
        let name = &self.network.stations[station].name;
        // What a distribution is given by is rounded.
        let scv = scv.filter(|scv| *scv <= SCV_MAX + 1e-9).ok_or_else(|| {
            format!(
                "the demand at `{name}` {}: a squared coefficient of variation of {SCV_MAX} at the most",
                variation::TOO_VARIED
            )
        })?;
        Ok(Some((mean, scv)))
    }

    /// A call of a new entry.
    fn call(&mut self, task: usize, entry: Entry, mean: f64, phase: &mut Phase) {
        let entries = &mut self.tasks[task].entries;
        entries.push(entry);
        let to = EntryId { task, entry: entries.len() - 1 };
        phase.calls.push(Call { to, mean, kind: CallKind::Synchronous });
    }

    /// Gates and stations that no route passes are left out of the model, and said to be idle.
    fn without_unused(mut self) -> Result<Model<'a>, String> {
        let unused = |task: &Task| task.entries.iter().all(|entry| entry.name == "unused");
        for (index, gate) in self.gates.iter().enumerate() {
            if gate.iter().any(|&task| unused(&self.tasks[task])) {
                let name = &self.network.gates[index].name;
                return Err(format!("no route passes gate `{name}`; remove it"));
            }
        }
        let mut kept = vec![None; self.tasks.len()];
        let mut tasks = Vec::new();
        for (index, task) in std::mem::take(&mut self.tasks).into_iter().enumerate() {
            if !unused(&task) {
                kept[index] = Some(tasks.len());
                tasks.push(task);
            }
        }
        let renamed = |old: usize| kept[old].expect("only unused tasks are left out");
        for call in tasks
            .iter_mut()
            .flat_map(|task| &mut task.entries)
            .flat_map(|entry| entry.phases.iter_mut().flat_map(|phase| &mut phase.calls))
        {
            call.to.task = renamed(call.to.task);
        }
        let tasks_of = self.stations.iter_mut().chain(&mut self.pools);
        tasks_of.for_each(|at| *at = at.and_then(|old| kept[old]));
        self.gates.iter_mut().flatten().chain(&mut self.classes).for_each(|at| *at = renamed(*at));
        self.tasks = tasks;
        Ok(self)
    }

    fn answer(self, found: &LayeredAnswer, bounds: Option<Bounds>) -> FormulaAnswer {
        let mut classes = Vec::new();
        for (class, &task) in self.network.classes.iter().zip(&self.classes) {
            let answer = &found.tasks[task];
            let throughput = answer.throughput;
            let response = answer.entries[0].hold[0];
            classes.push(ClassAnswer { name: class.name.clone(), throughput, response });
        }
        let throughput: f64 = classes.iter().map(|class| class.throughput).sum();
        let jobs: f64 = classes.iter().map(|class| class.throughput * class.response).sum();
        let wait = match &*self.gates {
            [tasks] => {
                let calls: f64 = tasks.iter().map(|&task| found.tasks[task].throughput).sum();
                let waits = tasks.iter().map(|&task| &found.tasks[task]);
                Some(waits.map(|task| task.throughput * task.wait).sum::<f64>() / calls)
            }
            _ => None,
        };
        let trust = Trust {
            exact: false,
            error: Some(self.error),
            text: format!("approximate (within {:.0} % where tried)", self.error * 100.0),
        };
        FormulaAnswer {
            name: NAME.into(),
            source: "method of layers, Rolia and Sevcik 1995",
            throughput,
            response: jobs / throughput,
            wait,
            utilisation: self.utilisation(found),
            given_size: None,
            quantiles: None,
            refused: None,
            lost: None,
            documents: Vec::new(),
            trust,
            remarks: self.remarks_on(found),
            bounds,
            product_bounds: None,
            caches: Vec::new(),
            queue: None,
            nodes: self.rows(found, &classes),
            classes,
        }
    }

    /// Gates, then stations; of several classes together, as the layered model counts them.
    fn rows(&self, found: &LayeredAnswer, classes: &[ClassAnswer]) -> Vec<NodeAnswer> {
        let only = if let [class] = classes { Some(class) } else { None };
        let row = |name: &str, x: f64, jobs: f64, utilisation: Option<f64>| NodeAnswer {
            station: name.to_owned(),
            class: only.map(|class| class.name.clone()),
            jobs: Some(jobs),
            utilisation,
            response: (x > 0.0).then(|| jobs / x),
            residence: only.map(|class| jobs / class.throughput),
            arrival_rate: x,
            throughput: x,
        };
        let busy = self.utilisation(found);
        let busy = |name: &str| busy.iter().find(|(of, _)| of == name).map(|(_, busy)| *busy);
        let mut rows = Vec::new();
        for (gate, tasks) in self.network.gates.iter().zip(&self.gates) {
            let tasks = || tasks.iter().map(|&task| &found.tasks[task]);
            let x = tasks().map(|task| task.throughput).sum();
            let jobs = tasks().map(|task| task.throughput * task.wait + task.busy).sum();
            rows.push(row(&gate.name, x, jobs, busy(&gate.name)));
        }
        for (station, task) in self.network.stations.iter().zip(&self.stations) {
            let Some(task) = task.map(|task| &found.tasks[task]) else { continue };
            let jobs = task.entries.iter().map(|entry| entry.throughput * entry.hold[0]).sum();
            rows.push(row(&station.name, task.throughput, jobs, busy(&station.name)));
        }
        for (station, task, share) in self.pooled() {
            let task = &found.tasks[task];
            let jobs: f64 = task.entries.iter().map(|entry| entry.throughput * entry.hold[0]).sum();
            rows.push(row(station, share * task.throughput, share * jobs, busy(station)));
        }
        rows
    }

    /// Stations behind one queue of which each does as much as any other: the name, the task that serves
    /// for all of them, and the share of it.
    fn pooled(&self) -> impl Iterator<Item = (&str, usize, f64)> {
        let gates = self.network.gates.iter().zip(&self.pools);
        let even = gates.filter(|(gate, _)| is_even(&gate.spec));
        even.filter_map(|(gate, task)| Some((gate, (*task)?))).flat_map(|(gate, task)| {
            let share = 1.0 / gate.stations.len() as f64;
            let name = |&station: &usize| self.network.stations[station].name.as_str();
            gate.stations.iter().map(move |station| (name(station), task, share))
        })
    }

    fn utilisation(&self, found: &LayeredAnswer) -> Vec<(String, f64)> {
        let mut all = Vec::new();
        for (gate, tasks) in self.network.gates.iter().zip(&self.gates) {
            let slots: f64 = gate.spec.servers.iter().map(|server| f64::from(server.slots)).sum();
            let busy: f64 = tasks.iter().map(|&task| found.tasks[task].busy).sum();
            all.push((gate.name.clone(), busy / slots));
        }
        let pools = self.network.gates.iter().zip(&self.pools).filter(|(_, task)| task.is_some());
        let in_pools: Vec<usize> = pools.flat_map(|(gate, _)| gate.stations.clone()).collect();
        let stations = self.network.stations.iter().zip(&found.processors[1..]).enumerate();
        for (_, (station, answer)) in stations.filter(|(at, _)| !in_pools.contains(at)) {
            if let Some(busy) = answer.utilisation {
                all.push((station.name.clone(), busy));
            }
        }
        for (station, task, share) in self.pooled() {
            let of = self.network.stations.iter().find(|of| of.name == station);
            let servers = of.and_then(|of| of.kind.capacity());
            let busy = share * found.tasks[task].busy;
            all.extend(servers.map(|n| (station.to_owned(), busy / f64::from(n))));
        }
        all
    }

    fn remarks_on(&self, found: &LayeredAnswer) -> Vec<String> {
        let mut remarks = self.remarks.clone();
        if let Some(short) = found.software_bottleneck
            && let Some(gate) = self.gates.iter().position(|tasks| tasks.contains(&short.task))
        {
            let times = if short.strength < 100.0 {
                format!("{:.1} times as busy as", short.strength)
            } else {
                "busy, unlike".to_owned()
            };
            remarks.push(format!(
                "a software bottleneck: the slots of gate `{}` are {times} anything inside",
                self.network.gates[gate].name
            ));
        }
        remarks
    }
}

/// A gate that only makes jobs wait, in an order that does not look at them.
fn check_plain(name: &str, spec: &GateSpec, network: &Network) -> Result<(), String> {
    let population = network.classes.iter().map(|class| match class.load {
        Load::Closed { population, .. } => Some(u64::from(population)),
        Load::Open(_) | Load::Varying(_) | Load::Trace(_) | Load::Within => None,
    });
    let population: Option<u64> = population.sum();
    let refuses = match (spec.room, population) {
        (Some(room), Some(population)) => room < population,
        (room, _) => room.is_some(),
    };
    if refuses || spec.wait_max.is_some() {
        return Err(format!("gate `{name}` turns jobs away, and the formulas let all in"));
    }
    let alike = network.classes.windows(2).all(|pair| pair[0].priority == pair[1].priority);
    match spec.discipline {
        DisciplineSpec::Fifo => Ok(()),
        DisciplineSpec::Lifo if network.classes.len() == 1 => Ok(()),
        DisciplineSpec::Priority if alike => Ok(()),
        _ => Err(format!("no formula knows the discipline of gate `{name}`")),
    }
}

/// Squared coefficient of variation of the gaps between what one of k servers gets.
fn gaps(name: &str, router: &RouterSpec, servers: f64) -> Result<f64, String> {
    match router {
        RouterSpec::Random => Ok(1.0),
        RouterSpec::RoundRobin => Ok(1.0 / servers),
        _ => Err(format!("no formula knows the router of gate `{name}`")),
    }
}

/// The most clients who may ever be at a gate: of more slots the others are always free, and to the layered model they
/// would be customers of the stations inside.
fn clients(network: &Network, gate: usize) -> u32 {
    let passing = network.classes.iter().filter(|class| passes(&class.route, gate));
    let clients = passing.map(|class| match class.load {
        Load::Closed { population, .. } => population,
        Load::Open(_) | Load::Varying(_) | Load::Trace(_) | Load::Within => u32::MAX,
    });
    clients.fold(0, u32::saturating_add).max(1)
}

/// True if a way leads through a gate.
fn passes(steps: &[Step], gate: usize) -> bool {
    steps.iter().any(|step| match step {
        Step::Hold { gate: of, inside } => *of == gate || passes(inside, gate),
        Step::Choose(ways) => ways.iter().any(|(_, steps)| passes(steps, gate)),
        Step::Repeat { steps, .. } => passes(steps, gate),
        // Of such steps there is no layered model.
        _ => false,
    })
}

/// True if the layered model is meant at all: jobs wait for slots, or are of several kinds.
pub(super) fn fits(network: &Network) -> bool {
    let dealt = |class: &Class| {
        matches!(&class.sizes, Sizes::Documents(_, workload::Draw::Deck))
            && matches!(class.load, Load::Open(_))
    };
    let many = network.classes.len() > 1 || !network.gates.is_empty();
    many && !network.classes.iter().any(dealt)
}
