//! From a scenario to what `sim` runs: names become indices, gates are spelled out where a route
//! passes them, and whatever is impossible or surely a mistake is refused with its place.

use std::collections::BTreeMap;
use std::time::Duration;

use gate::{GateSpec, Queues, ServerSpec};
use sim::{Class, Demand, GateNode, Join, Load, Network, Sizes, Station, StationKind, Step};

use super::behaviour;
use super::loads::{TIME_MIN, above_zero, check_time, dist, load, sizes};
use super::{
    ClassEntry, DemandEntry, GateEntry, Policies, RouteEntry, Scenario, ScenarioError, SizesEntry,
    StationEntry, StationName,
};
use crate::units::Span;

/// The step that visits the station of the server whose slot is held.
pub(super) const SERVER: &str = "server";
/// The step from which on the client does not wait.
pub(super) const REPLY: &str = "reply";

/// The most slots of a gate, over all its servers.
const SLOTS_MAX: u64 = 1_000_000;
/// The most steps of all routes together, with every gate spelled out.
const STEPS_MAX: usize = 100_000;
/// The most slices of a mean visit to a fair share.
const SLICES_MAX: f64 = 1e4;
/// The largest mean number of times that a job may pass a step.
const PASSES_MAX: f64 = 1e6;

impl Scenario {
    /// The network that this scenario describes: classes, gates and stations in its order.
    ///
    /// # Errors
    /// The first thing that makes it impossible to run, or that is surely a mistake: its place, what
    /// is wrong and the way out. Whether open classes bring a station more work than it can do is
    /// found by `sim` and by the formulas.
    pub fn network(&self) -> Result<Network, ScenarioError> {
        if self.sekisho != 1 {
            let cause = format!(
                "the format has version {}, this program reads version 1; use the program that the \
                 file was written for",
                self.sekisho
            );
            return Err(error("sekisho", cause));
        }
        if self.classes.iter().any(|class| !class.matrix.is_empty()) {
            return self.with_routes()?.network();
        }
        let mut compiler = Compiler {
            scenario: self,
            parts: parts(self)?,
            gates_passed: vec![false; self.gates.len()],
            caches_asked: vec![false; self.caches.len()],
            stations_visited: vec![false; self.stations.len()],
            steps: 0,
        };
        let gates = self.gates.iter().map(|entry| compiler.gate(entry));
        let gates = gates.collect::<Result<_, _>>()?;
        let stations = self.stations.iter().map(|entry| compiler.station(entry));
        let stations = stations.collect::<Result<_, _>>()?;
        let caches = self.caches.iter().map(super::CacheEntry::cache).collect::<Result<_, _>>()?;
        let mut network = Network { gates, stations, caches, ..Network::default() };
        for entry in &self.classes {
            network.classes.push(compiler.class(entry)?);
        }
        compiler.check_all_fed()?;
        network.agenda = self.agenda.as_ref().map(|agenda| agenda.agenda(self)).transpose()?;
        self.check_lasting(&network)?;
        Ok(network)
    }

    /// The same with a route in place of each routing matrix.
    fn with_routes(&self) -> Result<Scenario, ScenarioError> {
        let mut scenario = self.clone();
        for class in &mut scenario.classes {
            let rows = std::mem::take(&mut class.matrix);
            if rows.is_empty() {
                continue;
            }
            let place = format!("class `{}`, matrix", class.name);
            if !class.route.is_empty() {
                return Err(error(place, "it stands beside a `route`; keep one of them"));
            }
            class.route = super::matrix::route(&rows).map_err(|cause| error(place, cause))?;
        }
        Ok(scenario)
    }

    /// Loads that change over time have an agenda that says how long to look.
    fn check_lasting(&self, network: &Network) -> Result<(), ScenarioError> {
        let changing = |class: &&Class| matches!(class.load, Load::Varying(_) | Load::Trace(_));
        let class = network.classes.iter().find(changing);
        if let (Some(class), None) = (class, &network.agenda) {
            let cause = "its load changes over time, so that there is no steady state; add an [agenda] \
                         with a `length` (or without one, where all loads are traces that end)";
            return Err(error(format!("class `{}`", class.name), cause));
        }
        Ok(())
    }
}

/// Meaning of the name of a step.
#[derive(Clone, Copy)]
enum Part {
    Gate(usize),
    Station(usize),
}

fn error(place: impl Into<String>, cause: impl Into<String>) -> ScenarioError {
    ScenarioError { place: place.into(), cause: cause.into() }
}

/// All gates and stations by name; also the check that every name, classes' too, is given once.
fn parts(scenario: &Scenario) -> Result<BTreeMap<&str, Part>, ScenarioError> {
    let mut classes = BTreeMap::new();
    for (at, class) in scenario.classes.iter().enumerate() {
        check_name("class", at, &class.name)?;
        if classes.insert(&*class.name, ()).is_some() {
            let place = format!("class `{}`", class.name);
            return Err(error(place, "two classes have this name; rename one"));
        }
    }
    if scenario.classes.is_empty() {
        return Err(error("class", "there is none, so nobody asks for anything; add a [[class]]"));
    }
    let gates = scenario.gates.iter().enumerate();
    let gates = gates.map(|(at, gate)| ("gate", at, &*gate.name, Part::Gate(at)));
    let stations = scenario.stations.iter().enumerate();
    let stations = stations.map(|(at, entry)| ("station", at, &*entry.name, Part::Station(at)));
    let mut parts = BTreeMap::new();
    for (kind, at, name, part) in gates.chain(stations) {
        check_name(kind, at, name)?;
        let place = || format!("{kind} `{name}`");
        if name == SERVER || name == REPLY {
            let cause = format!(
                "as a step, `{name}` means {}; choose another name",
                if name == SERVER {
                    "the station of the server that is held"
                } else {
                    "the answer"
                }
            );
            return Err(error(place(), cause));
        }
        let cause = match (parts.insert(name, part), part) {
            (None, _) => continue,
            (Some(Part::Gate(_)), Part::Gate(_)) => "two gates have this name; rename one",
            (Some(Part::Station(_)), Part::Station(_)) => "two stations have this name; rename one",
            (Some(_), _) => {
                "a gate has the same name, so that a route could mean either; rename one"
            }
        };
        return Err(error(place(), cause));
    }
    Ok(parts)
}

fn check_name(kind: &str, at: usize, name: &str) -> Result<(), ScenarioError> {
    if name.trim().is_empty() {
        return Err(error(format!("{kind} {}", at + 1), "its name is empty; give it one"));
    }
    Ok(())
}

/// The way out for a name that is unknown.
pub(crate) fn suggest<'n>(
    kind: &str,
    name: &str,
    known: impl IntoIterator<Item = &'n str> + Clone,
) -> String {
    if let Some(nearest) = measure::nearest(name, known.clone()) {
        return format!("did you mean `{nearest}`?");
    }
    let mut listed: Vec<String> = known.into_iter().map(|name| format!("`{name}`")).collect();
    match listed.len() {
        0 => format!("there is no {kind}"),
        all => {
            listed.truncate(8);
            let more = if all > listed.len() { ", ..." } else { "" };
            format!("there is {}{more}", listed.join(", "))
        }
    }
}

struct Compiler<'a> {
    scenario: &'a Scenario,
    parts: BTreeMap<&'a str, Part>,
    gates_passed: Vec<bool>,
    caches_asked: Vec<bool>,
    stations_visited: Vec<bool>,
    /// Number of steps that were compiled so far.
    steps: usize,
}

impl<'a> Compiler<'a> {
    fn check_all_fed(&self) -> Result<(), ScenarioError> {
        let gates = self.scenario.gates.iter().zip(&self.gates_passed);
        if let Some((gate, _)) = gates.into_iter().find(|(_, passed)| !**passed) {
            let cause = "no class's route passes it; add it to a route or remove it";
            return Err(error(format!("gate `{}`", gate.name), cause));
        }
        let caches = self.scenario.caches.iter().zip(&self.caches_asked);
        if let Some((cache, _)) = caches.into_iter().find(|(_, asked)| !**asked) {
            let cause = "no class's route looks into it; add it to a route or remove it";
            return Err(error(format!("cache `{}`", cache.name), cause));
        }
        let stations = self.scenario.stations.iter().zip(&self.stations_visited);
        if let Some((station, _)) = stations.into_iter().find(|(_, visited)| !**visited) {
            let cause = "no class's route visits it; add it to a route or remove it";
            return Err(error(format!("station `{}`", station.name), cause));
        }
        Ok(())
    }

    fn gate(&self, entry: &GateEntry) -> Result<GateNode, ScenarioError> {
        let place = format!("gate `{}`", entry.name);
        let (servers, stations) = self.servers(entry, &place)?;
        let wait_max = match entry.wait_max {
            Some(Span(seconds)) => {
                above_zero("wait-max", seconds).map_err(|cause| error(&*place, cause))?;
                Some(Duration::from_secs_f64(seconds))
            }
            None => None,
        };
        if entry.inside.is_empty() {
            let cause = "`inside` is empty: nothing is done while the slot is held; name a station";
            return Err(error(place, cause));
        }
        let spec = GateSpec {
            servers,
            queues: entry.queues.unwrap_or(Queues::Shared),
            room: entry.room,
            wait_max,
            unreachable_max: entry.unreachable.and_then(|unreachable| unreachable.limit(wait_max)),
            ..GateSpec::fifo(1)
        };
        let spec = self.policies(entry, spec).map_err(|cause| error(&*place, cause))?;
        let speeds = behaviour::gate_speeds(entry).map_err(|cause| error(&*place, cause))?;
        let control = entry.control.as_ref().map(|control| behaviour::control(control, &spec));
        let control = control.transpose().map_err(|cause| error(place, cause))?;
        Ok(GateNode { stations, speeds, control, ..GateNode::new(&entry.name, spec) })
    }

    /// The gate with its policies, as far as the jobs have what these look at.
    fn policies(&self, entry: &GateEntry, spec: GateSpec) -> Result<GateSpec, String> {
        let policies = Policies {
            discipline: entry.discipline.clone(),
            router: entry.router.clone(),
            length: entry.length,
            ties: entry.ties,
            load_information: entry.load_information,
        };
        let classes = &self.scenario.classes;
        let names: Vec<&str> = classes.iter().map(|class| &*class.name).collect();
        let spec = policies.at(spec, &names)?;
        if spec.load_information == gate::LoadInformation::Reported {
            return Err(
                "`load-information = \"reported\"` is for a live gate: in a model nobody reports; give it a \
                        `delay` or a `refresh`"
                    .into(),
            );
        }
        let (sized, keyed) = policies.looks_at();
        if sized && classes.iter().all(|class| class.sizes.is_none()) {
            return Err(
                "its policies go by the sizes of jobs, but no class has `sizes`; give them to \
                        a class, or choose others"
                    .into(),
            );
        }
        let has_documents = |class: &ClassEntry| {
            matches!(&class.sizes, Some(SizesEntry::Named(_) | SizesEntry::Documents(_)))
        };
        if keyed && !classes.iter().any(has_documents) {
            return Err("its policies go by the keys of jobs, the documents that they are about, but \
                        no class has documents; give a class such `sizes`, or choose others (`by-key` \
                        has `of = \"class\"`)"
                .into());
        }
        Ok(spec)
    }

    /// A gate's servers, and the stations that belong to them: of all servers or of none.
    fn servers(
        &self,
        entry: &GateEntry,
        place: &str,
    ) -> Result<(Vec<ServerSpec>, Vec<usize>), ScenarioError> {
        let servers = match (entry.slots, &*entry.servers) {
            (Some(_), [_, ..]) => {
                let cause = "`slots` and `servers` are both given; `slots` is for a gate of one \
                             server: keep one of them";
                return Err(error(place, cause));
            }
            (None, []) => {
                return Err(error(place, "it has no slots; give `slots` (or `servers`)"));
            }
            (Some(slots), []) => vec![ServerSpec { slots }],
            (None, servers) => {
                servers.iter().map(|server| ServerSpec { slots: server.slots }).collect()
            }
        };
        if servers.iter().any(|server| server.slots == 0) {
            return Err(error(place, "0 slots let nobody in; give at least 1"));
        }
        let slots: u64 = servers.iter().map(|server| u64::from(server.slots)).sum();
        if slots > SLOTS_MAX {
            let cause = format!("it has {slots} slots, more than a million; give fewer");
            return Err(error(place, cause));
        }
        let mut stations = Vec::new();
        for (at, server) in entry.servers.iter().enumerate() {
            let Some(name) = &server.station else { continue };
            let Some(Part::Station(station)) = self.parts.get(&**name) else {
                let names = self.scenario.stations.iter().map(|station| &*station.name);
                let cause =
                    format!("no station is called `{name}`; {}", suggest("station", name, names));
                return Err(error(format!("{place}, server {}", at + 1), cause));
            };
            stations.push(*station);
        }
        if !stations.is_empty() && stations.len() != servers.len() {
            let cause = format!(
                "{} of its {} servers have a station; give each of them one, or none",
                stations.len(),
                servers.len()
            );
            return Err(error(place, cause));
        }
        Ok((servers, stations))
    }

    fn station(&self, entry: &StationEntry) -> Result<Station, ScenarioError> {
        let wrong = |cause: String| Err(error(format!("station `{}`", entry.name), cause));
        let servers = entry.servers.unwrap_or(1);
        if servers == 0 {
            return wrong("0 servers serve nobody; give at least 1".into());
        }
        let kind = match entry.kind {
            StationName::Queue => StationKind::Queue { servers },
            StationName::Sharing => StationKind::Sharing { processors: servers },
            StationName::Delay if entry.servers.is_some() => {
                return wrong("a delay serves everybody at once; remove `servers`".into());
            }
            StationName::Delay => StationKind::Delay,
            StationName::FairShare if servers > 1 => {
                return wrong(format!(
                    "a fair share has one processor, not {servers}; remove `servers`, or use kind \
                     `sharing`"
                ));
            }
            StationName::FairShare => {
                let Some(Span(quantum_s)) = entry.quantum else {
                    return wrong("a fair share needs a `quantum`, such as \"4ms\"".into());
                };
                if let Err(cause) = above_zero("quantum", quantum_s) {
                    return wrong(cause);
                }
                let tick_s = entry.tick.map_or(0.0, |Span(tick_s)| tick_s);
                if let Some(Err(cause)) = entry.tick.map(|Span(tick_s)| above_zero("tick", tick_s))
                {
                    return wrong(cause);
                }
                StationKind::FairShare { quantum_s, tick_s }
            }
        };
        let of_fair_share = [("quantum", entry.quantum), ("tick", entry.tick)];
        let given = of_fair_share.into_iter().find(|(_, value)| value.is_some());
        if let (Some((key, _)), true) = (given, entry.kind != StationName::FairShare) {
            return wrong(format!(
                "`{key}` is of a fair share only; use kind `fair-share` or remove it"
            ));
        }
        let classes = || self.scenario.classes.iter().map(|class| &*class.name);
        if let Some(name) = entry.demands.keys().find(|name| !classes().any(|class| class == *name))
        {
            let way_out = suggest("class", name, classes());
            return wrong(format!(
                "it has a demand for class `{name}`, which is unknown; {way_out}"
            ));
        }
        behaviour::station(entry, kind)
            .map_err(|cause| error(format!("station `{}`", entry.name), cause))
    }

    fn class(&mut self, entry: &'a ClassEntry) -> Result<Class, ScenarioError> {
        let place = format!("class `{}`", entry.name);
        let load = load(entry).map_err(|cause| error(&*place, cause))?;
        let sizes = sizes(entry.sizes.as_ref()).map_err(|cause| error(&*place, cause))?;
        let client = entry.client.as_ref().map(super::ClientEntry::client).transpose();
        let client = client.map_err(|cause| error(format!("{place}, client"), cause))?;
        let client = client.unwrap_or_default();
        if matches!(load, Load::Within) {
            let own = [entry.sizes.is_some(), entry.client.is_some(), entry.deadline.is_some()];
            if !entry.route.is_empty() || own.contains(&true) {
                let cause = "jobs become it on their way, and keep their route, sizes, deadline and client; \
                             remove these here";
                return Err(error(place, cause));
            }
            let class = Class::new(&entry.name, load, Vec::new());
            return Ok(Class { priority: entry.priority, ..class });
        }
        let mut way =
            Way { class: entry, named: &entry.name, sizes: &sizes, around: Vec::new(), work: 0.0 };
        let route = self.route(&mut way, &entry.route, &format!("{place}, route"), 1.0)?;
        if let Load::Closed { think, .. } = &load
            && think.mean() + way.work < TIME_MIN
        {
            let cause = "neither thinking nor any demand takes time, so that its customers would go \
                         round for ever; give it a think time or a demand";
            return Err(error(place, cause));
        }
        let deadline = match entry.deadline {
            Some(Span(seconds)) => {
                above_zero("deadline", seconds).map_err(|cause| error(&*place, cause))?;
                Some(Duration::from_secs_f64(seconds))
            }
            None => None,
        };
        let class = Class::new(&entry.name, load, route);
        Ok(Class { sizes, priority: entry.priority, deadline, client, ..class })
    }

    /// The steps of a route that a job passes so many times on average.
    fn route(
        &mut self,
        way: &mut Way<'a, '_>,
        entries: &'a [RouteEntry],
        place: &str,
        passes: f64,
    ) -> Result<Vec<Step>, ScenarioError> {
        if entries.is_empty() {
            return Err(error(place, "it is empty; name a gate or a station"));
        }
        if passes > PASSES_MAX {
            let cause =
                format!("a job would pass it {passes:.0} times on average; lower the `repeat`");
            return Err(error(place, cause));
        }
        let mut steps = Vec::with_capacity(entries.len());
        for (at, entry) in entries.iter().enumerate() {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                let cause = format!(
                    "with every gate spelled out, the routes have more than {STEPS_MAX} steps"
                );
                return Err(error(place, cause));
            }
            let place = format!("{place} step {}", at + 1);
            match entry {
                RouteEntry::Visits(times) => self.times(way, times, &place, passes, &mut steps)?,
                entry => steps.push(self.step(way, entry, &place, passes)?),
            }
        }
        Ok(steps)
    }

    /// A way so many times: whole ones one after the other, and what is left by chance.
    fn times(
        &mut self,
        way: &mut Way<'a, '_>,
        times: &'a super::VisitsEntry,
        place: &str,
        passes: f64,
        steps: &mut Vec<Step>,
    ) -> Result<(), ScenarioError> {
        let visits = times.visits;
        if !(visits > 0.0 && visits <= STEPS_MAX as f64) {
            let cause = format!("`visits` is above 0 and at most {STEPS_MAX}; it is {visits}");
            return Err(error(place, cause));
        }
        for _ in 0..visits.floor() as u32 {
            steps.extend(self.route(way, &times.route, place, passes)?);
        }
        let chance = visits.fract();
        if chance > 0.0 {
            let named = way.named;
            let once = self.route(way, &times.route, place, passes * chance)?;
            // A job that did not go this way kept its class, and the demands behind go by that one.
            way.named = named;
            steps.push(Step::Choose(vec![(chance, once), (1.0 - chance, Vec::new())]));
        }
        Ok(())
    }

    fn step(
        &mut self,
        way: &mut Way<'a, '_>,
        entry: &'a RouteEntry,
        place: &str,
        passes: f64,
    ) -> Result<Step, ScenarioError> {
        match entry {
            RouteEntry::Name(name) if name == REPLY => {
                if way.around.is_empty() {
                    let cause = "`reply` lets the client go while a slot is kept, but here no slot is \
                                 held; use it inside a gate";
                    return Err(error(place, cause));
                }
                Ok(Step::Reply)
            }
            RouteEntry::Name(name) if name == SERVER => self.server(way, None, place, passes),
            RouteEntry::Name(name) => match self.part(name, place)? {
                Part::Gate(gate) => self.hold(way, gate, place, passes),
                Part::Station(station) => self.visit(way, station, None, place, passes),
            },
            RouteEntry::Visit(visit) if visit.visit == SERVER => {
                self.server(way, Some(&visit.demand), place, passes)
            }
            RouteEntry::Visit(visit) => match self.part(&visit.visit, place)? {
                Part::Station(station) => {
                    self.visit(way, station, Some(&visit.demand), place, passes)
                }
                Part::Gate(_) => {
                    let cause = format!(
                        "`{}` is a gate; a demand belongs to a station inside of it",
                        visit.visit
                    );
                    Err(error(place, cause))
                }
            },
            RouteEntry::Choose(choose) => self.choose(way, choose, place, passes),
            RouteEntry::Repeat(repeat) => self.repeat(way, repeat, place, passes),
            RouteEntry::Visits(_) => unreachable!("`route` spells them out"),
            RouteEntry::Send(send) => {
                // Nobody waits for it.
                let (way, _) = self.own_way(way, &send.send, &format!("{place}, send"), passes)?;
                Ok(Step::Send { way })
            }
            RouteEntry::Fork(fork) => self.fork(way, fork, place, passes),
            RouteEntry::Become(become_it) => {
                let name = &*become_it.r#become;
                let classes = &self.scenario.classes;
                let Some(class) = classes.iter().position(|class| class.name == name) else {
                    let names = classes.iter().map(|class| &*class.name);
                    let way_out = suggest("class", name, names);
                    return Err(error(place, format!("no class is called `{name}`; {way_out}")));
                };
                way.named = name;
                Ok(Step::Become { class })
            }
            RouteEntry::Lookup(lookup) => self.lookup(way, lookup, place, passes),
        }
    }

    fn repeat(
        &mut self,
        way: &mut Way<'a, '_>,
        repeat: &'a super::RepeatEntry,
        place: &str,
        passes: f64,
    ) -> Result<Step, ScenarioError> {
        let again = repeat.repeat;
        if !(0.0..1.0).contains(&again) {
            let cause = format!(
                "`repeat` is the chance of going again, from 0 up to but without 1; it is {again}"
            );
            return Err(error(place, cause));
        }
        let place = format!("{place}, repeat");
        let steps = self.route(way, &repeat.route, &place, passes / (1.0 - again))?;
        Ok(Step::Repeat { again, steps })
    }

    /// A way of a job of its own, which holds nothing, and its mean work \[s\].
    fn own_way(
        &mut self,
        way: &mut Way<'a, '_>,
        entries: &'a [RouteEntry],
        place: &str,
        passes: f64,
    ) -> Result<(Vec<Step>, f64), ScenarioError> {
        let mut own = Way {
            class: way.class,
            named: way.named,
            sizes: way.sizes,
            around: Vec::new(),
            work: 0.0,
        };
        let steps = self.route(&mut own, entries, place, passes)?;
        Ok((steps, own.work))
    }

    fn fork(
        &mut self,
        way: &mut Way<'a, '_>,
        fork: &'a super::ForkEntry,
        place: &str,
        passes: f64,
    ) -> Result<Step, ScenarioError> {
        let n = fork.fork.len();
        let join = match fork.join {
            None if n == 0 => return Err(error(place, "it forks into no way; add one")),
            None => Join::All,
            Some(join) if (1..=n).contains(&(join as usize)) => Join::First(join),
            Some(join) => {
                let cause = format!("`join` waits for {join} of {n} ways; it is from 1 to {n}");
                return Err(error(place, cause));
            }
        };
        let ways = fork.fork.iter().enumerate().map(|(at, entries)| {
            self.own_way(way, entries, &format!("{place}, way {}", at + 1), passes)
        });
        let (ways, mut works): (Vec<_>, Vec<f64>) =
            ways.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        // Who forks waits for the last of those that are joined.
        works.sort_by(f64::total_cmp);
        let joined = match join {
            Join::All => n,
            Join::First(joined) => joined as usize,
        };
        way.work += works[joined - 1];
        Ok(Step::Fork { ways, join })
    }

    fn lookup(
        &mut self,
        way: &mut Way<'a, '_>,
        lookup: &'a super::LookupEntry,
        place: &str,
        passes: f64,
    ) -> Result<Step, ScenarioError> {
        let caches = &self.scenario.caches;
        let Some(cache) = caches.iter().position(|cache| cache.name == lookup.lookup) else {
            let names = caches.iter().map(|cache| &*cache.name);
            let way_out = suggest("cache", &lookup.lookup, names);
            let cause = format!("no cache is called `{}`; {way_out}", lookup.lookup);
            return Err(error(place, cause));
        };
        self.caches_asked[cache] = true;
        let named = way.named;
        let hit = match &*lookup.hit {
            [] => Vec::new(),
            hit => self.route(way, hit, &format!("{place}, hit"), passes)?,
        };
        way.named = named;
        let miss = self.route(way, &lookup.miss, &format!("{place}, miss"), passes)?;
        way.named = named;
        Ok(Step::Lookup { cache, hit, miss })
    }

    fn part(&self, name: &str, place: &str) -> Result<Part, ScenarioError> {
        self.parts.get(name).copied().ok_or_else(|| {
            let names = self.parts.keys().copied();
            let way_out = suggest("gate or station", name, names);
            error(place, format!("no gate or station is called `{name}`; {way_out}"))
        })
    }

    fn choose(
        &mut self,
        way: &mut Way<'a, '_>,
        choose: &'a super::ChooseEntry,
        place: &str,
        passes: f64,
    ) -> Result<Step, ScenarioError> {
        let chances = choose.choose.iter().map(|choice| choice.chance);
        if let Some(chance) = chances.clone().find(|chance| !(0.0..=1.0).contains(chance)) {
            return Err(error(place, format!("a chance is from 0 to 1; one is {chance}")));
        }
        let sum: f64 = chances.sum();
        if choose.choose.is_empty() {
            return Err(error(place, "it offers no way to choose; add one or remove the step"));
        }
        if (sum - 1.0).abs() > 1e-9 {
            let cause = format!(
                "the chances sum to {sum}, not to 1; for jobs that go on at once, add a way without \
                 `route`"
            );
            return Err(error(place, cause));
        }
        let mut ways = Vec::with_capacity(choose.choose.len());
        for (at, choice) in choose.choose.iter().enumerate() {
            let place = format!("{place}, way {}", at + 1);
            let named = way.named;
            let steps = match &*choice.route {
                [] => Vec::new(),
                route => self.route(way, route, &place, passes * choice.chance)?,
            };
            way.named = named;
            ways.push((choice.chance, steps));
        }
        Ok(Step::Choose(ways))
    }

    fn hold(
        &mut self,
        way: &mut Way<'a, '_>,
        gate: usize,
        place: &str,
        passes: f64,
    ) -> Result<Step, ScenarioError> {
        let entry = &self.scenario.gates[gate];
        if way.around.contains(&gate) {
            let cause = format!(
                "gate `{}` is inside itself: a job would wait for a slot that it holds; enter it \
                 once",
                entry.name
            );
            return Err(error(place, cause));
        }
        self.gates_passed[gate] = true;
        way.around.push(gate);
        let inside =
            self.route(way, &entry.inside, &format!("gate `{}`, inside", entry.name), passes)?;
        way.around.pop();
        Ok(Step::Hold { gate, inside })
    }

    fn visit(
        &mut self,
        way: &mut Way<'a, '_>,
        station: usize,
        own: Option<&DemandEntry>,
        place: &str,
        passes: f64,
    ) -> Result<Step, ScenarioError> {
        let demand = self.demand(way, station, own, place)?;
        self.check_slices(station, mean_demand(&demand, way.sizes), place)?;
        way.work += passes * mean_demand(&demand, way.sizes);
        self.stations_visited[station] = true;
        Ok(Step::Visit { station, demand })
    }

    /// Refuses a fair share whose slices, each an event of a simulation, would never end.
    fn check_slices(&self, station: usize, mean: f64, place: &str) -> Result<(), ScenarioError> {
        let station = &self.scenario.stations[station];
        let Some(quantum) = station.quantum else { return Ok(()) };
        let slices = mean / quantum.0;
        if slices <= SLICES_MAX {
            return Ok(());
        }
        let cause = format!(
            "a quantum of {quantum} cuts the mean demand of {} at station `{}` into {slices:.1e} slices, \
             more than {SLICES_MAX:.0e}, and each is an event of a simulation: {:.1e} for 100 000 \
             requests; give a longer `quantum`, or kind `sharing`, which is the limit of short ones",
            Span(mean),
            station.name,
            slices * 1e5
        );
        Err(error(place, cause))
    }

    /// A visit to the station of the server that is held, one demand wherever that is.
    fn server(
        &mut self,
        way: &mut Way<'a, '_>,
        own: Option<&DemandEntry>,
        place: &str,
        passes: f64,
    ) -> Result<Step, ScenarioError> {
        let Some(&gate) = way.around.last() else {
            let cause = "`server` is the station of the server whose slot is held, but here no slot \
                         is held; use it inside a gate";
            return Err(error(place, cause));
        };
        let entry = &self.scenario.gates[gate];
        let names = entry.servers.iter().filter_map(|server| server.station.as_deref());
        let mut found: Option<Demand> = None;
        for name in names {
            let Some(&Part::Station(station)) = self.parts.get(name) else { continue };
            let demand = self.demand(way, station, own, place)?;
            self.check_slices(station, mean_demand(&demand, way.sizes), place)?;
            self.stations_visited[station] = true;
            if found.as_ref().is_some_and(|other| *other != demand) {
                let cause = format!(
                    "the stations of gate `{}`'s servers have different demands for class `{}`; give \
                     the step one: {{ visit = \"server\", demand = ... }}",
                    entry.name, way.named
                );
                return Err(error(place, cause));
            }
            found = Some(demand);
        }
        let Some(demand) = found else {
            let cause = format!(
                "the servers of gate `{}` have no stations; give each `station`",
                entry.name
            );
            return Err(error(place, cause));
        };
        way.work += passes * mean_demand(&demand, way.sizes);
        Ok(Step::VisitServer { demand })
    }

    /// The demand of a class at a station: the step's own, else the class's there, else the
    /// station's.
    fn demand(
        &self,
        way: &Way<'a, '_>,
        station: usize,
        own: Option<&DemandEntry>,
        place: &str,
    ) -> Result<Demand, ScenarioError> {
        let station = &self.scenario.stations[station];
        let class = way.named;
        let of_station = || station.demands.get(class).or(station.demand.as_ref());
        let Some(entry) = own.or_else(of_station) else {
            let cause = format!(
                "station `{}` has no demand for class `{class}`; give it `demand`, or an entry in \
                 `demands`",
                station.name
            );
            return Err(error(place, cause));
        };
        let wrong =
            |cause: String| error(place, format!("demand at station `{}`: {cause}", station.name));
        match entry {
            DemandEntry::Time(entry) => dist(entry).map(Demand::Drawn).map_err(wrong),
            DemandEntry::OfTrace(_) if way.class.trace.is_some() => Ok(Demand::OfTrace),
            DemandEntry::OfTrace(_) => Err(wrong(format!(
                "it is that of the trace, but class `{}` has none; give it a `trace`, or a demand",
                way.class.name
            ))),
            DemandEntry::BySize(_)
                if matches!(way.sizes, Sizes::None) && way.class.trace.is_none() =>
            {
                Err(wrong(format!(
                    "it depends on the size of the job; give class `{class}` `sizes`"
                )))
            }
            DemandEntry::BySize(entry) => {
                let demand = Demand::OfSize { per_byte_s: entry.per_byte.0, base_s: entry.base.0 };
                check_time("its mean", mean_demand(&demand, way.sizes)).map_err(wrong)?;
                Ok(demand)
            }
        }
    }
}

/// A class's way through the network, while it is compiled.
struct Way<'a, 's> {
    class: &'a ClassEntry,
    /// The class that it is here: whose demands count.
    named: &'a str,
    sizes: &'s Sizes,
    /// The gates around the present step, innermost last.
    around: Vec<usize>,
    /// Mean work of a job so far \[s\].
    work: f64,
}

/// The mean of a demand \[s\] of jobs of these sizes.
pub(crate) fn mean_demand(demand: &Demand, sizes: &Sizes) -> f64 {
    match (demand, sizes) {
        (Demand::Drawn(dist), _) => dist.mean(),
        (Demand::OfSize { base_s, .. }, Sizes::None) => *base_s,
        (Demand::OfSize { per_byte_s, base_s }, Sizes::Documents(set, _)) => {
            per_byte_s * set.mean_of(|document| document.bytes as f64) + base_s
        }
        (Demand::OfSize { per_byte_s, base_s }, Sizes::Drawn(dist)) => {
            per_byte_s * dist.mean() + base_s
        }
        // What a trace brings is for `sim` to see; it is more than nothing.
        (Demand::OfTrace, _) => 1.0,
        (Demand::OfDocument(_), _) => unreachable!("a scenario has no demands by document"),
    }
}
