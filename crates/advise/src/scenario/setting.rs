//! Controls of a scenario, their values, and the scenario that results: the sliders of a report,
//! and whoever else tries variants, ask here, so that nothing about policies is listed twice.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::compile::{SERVER, suggest};
use super::{
    DemandEntry, DisciplineEntry, DistEntry, GateEntry, RouteEntry, RouterEntry, Scenario,
    ScenarioError, StationEntry, StationName,
};
use crate::units::{Bytes, PerByte, Rate, Span};

/// A thing of a scenario that can be turned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Control {
    /// The setting that it turns.
    pub turns: Turns,
    /// The gate or station to which that belongs; empty for the load.
    pub of: String,
    /// The values that it may take, the scenario's own among them.
    pub stops: Stops,
    /// The scenario's own: an index into the stops.
    pub own: usize,
}

/// Settings that a control can turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Turns {
    /// The clients of a closed load.
    Clients,
    /// The arrivals of an open load [1/s].
    Rate,
    /// The slots of each server of a gate.
    Slots,
    /// The servers of a gate or a station.
    Servers,
    /// The factor of a station's demand.
    Demand,
    /// The discipline of a gate.
    Discipline,
    /// The router of a gate.
    Router,
}

/// The values of a control, in the order in which one turns through them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stops {
    /// Numbers, rising.
    Numbers(Vec<f64>),
    /// Names of disciplines.
    Disciplines(Vec<DisciplineEntry>),
    /// Names of routers.
    Routers(Vec<RouterEntry>),
}

/// A value for some controls; what is not named stays as the scenario has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Setting {
    /// The clients of the one class, if it is closed.
    pub clients: Option<u32>,
    /// The arrival rate of the one class [1/s], if it is open.
    pub rate: Option<f64>,
    /// Slots of each server, by gate.
    pub slots: BTreeMap<String, u32>,
    /// Servers, by gate or station.
    pub servers: BTreeMap<String, u32>,
    /// Factors of the demand, above 0, by station; for the stations of a gate's servers, by that
    /// gate.
    pub demand: BTreeMap<String, f64>,
    /// Disciplines, by gate.
    pub discipline: BTreeMap<String, DisciplineEntry>,
    /// Routers, by gate.
    pub router: BTreeMap<String, RouterEntry>,
}

/// More sliders than this help nobody; a scenario with more gates and stations shows the first ones.
const CONTROLS_MAX: usize = 24;
/// A control never offers more than this many of anything.
const STOPS_HIGHEST: u32 = 100_000;

/// Every discipline, with usual parameters: what a control offers where the scenario can have it.
pub fn disciplines() -> Vec<DisciplineEntry> {
    vec![
        DisciplineEntry::Fifo,
        DisciplineEntry::Lifo,
        DisciplineEntry::Priority,
        DisciplineEntry::PriorityAgeing { interval: Span(1.0) },
        DisciplineEntry::ShortestJob,
        DisciplineEntry::EarliestDeadline,
        DisciplineEntry::DeficitRoundRobin { quantum: Bytes(10_000), weights: BTreeMap::new() },
        DisciplineEntry::Cohort { capacity: 100, run_max: 10, cached_max: None, levels: None },
    ]
}

/// Every router that needs no numbers of its own for each server, with usual parameters.
pub fn routers() -> Vec<RouterEntry> {
    let (queue, utilisation, window, at_zero) = (1.0, 1.0, None, None);
    let (of, bounds, table, default, down) = (None, None, None, None, None);
    vec![
        RouterEntry::RoundRobin,
        RouterEntry::Random,
        RouterEntry::ShortestQueue,
        RouterEntry::JoinIdleQueue,
        RouterEntry::PowerOfD { d: 2 },
        RouterEntry::LeastWork { per_byte: None },
        RouterEntry::LowestUtilisation { window },
        RouterEntry::Ev { queue, utilisation, window, at_zero },
        RouterEntry::ByKey { of, bounds, table, default, down },
    ]
}

/// Two answers: true if a router looks at queues, and true if it looks at servers at all.
fn looks(router: &RouterEntry) -> (bool, bool) {
    match router {
        RouterEntry::ShortestQueue | RouterEntry::PowerOfD { .. } | RouterEntry::Ev { .. } => {
            (true, true)
        }
        RouterEntry::JoinIdleQueue
        | RouterEntry::LeastWork { .. }
        | RouterEntry::LowestUtilisation { .. } => (false, true),
        RouterEntry::Random
        | RouterEntry::RoundRobin
        | RouterEntry::Weighted { .. }
        | RouterEntry::ByKey { .. } => (false, false),
    }
}

impl Scenario {
    /// Controls of the scenario: its load if it has one class, then gate by gate and station by
    /// station, in the order of the file.
    pub fn controls(&self) -> Vec<Control> {
        let mut controls: Vec<Control> = self.load_control().into_iter().collect();
        for gate in &self.gates {
            controls.extend(gate_controls(gate).into_iter().filter_map(|one| self.possible(one)));
        }
        let owned: BTreeSet<&str> = self.gates.iter().flat_map(owned_stations).collect();
        for station in &self.stations {
            if !owned.contains(&*station.name) {
                controls.extend(station_servers(station));
                controls.push(demand_control(&station.name));
            }
        }
        controls.truncate(CONTROLS_MAX);
        controls
    }

    /// The scenario with this setting.
    ///
    /// # Errors
    /// If the setting names a gate or a station that is not there or cannot be turned so, a load of
    /// the other kind, a load though there are several classes, or a factor that is not above 0.
    pub fn set(&self, setting: &Setting) -> Result<Scenario, ScenarioError> {
        let mut changed = self.clone();
        if let Some(clients) = setting.clients {
            changed = changed.with_population(&self.only_class()?, clients)?;
        }
        if let Some(rate) = setting.rate {
            changed = changed.with_rate(&self.only_class()?, rate)?;
        }
        for (name, &slots) in &setting.slots {
            let gate = changed.gate_named(name)?;
            if gate.servers.is_empty() {
                gate.slots = Some(slots);
            }
            gate.servers.iter_mut().for_each(|server| server.slots = slots);
        }
        for (name, &servers) in &setting.servers {
            changed.set_servers(name, servers)?;
        }
        for (name, &factor) in &setting.demand {
            changed.set_demand(name, factor)?;
        }
        for (name, discipline) in &setting.discipline {
            changed.gate_named(name)?.discipline = Some(discipline.clone());
        }
        for (name, router) in &setting.router {
            let gate = changed.gate_named(name)?;
            gate.router = Some(router.clone());
            // What was said of the other router goes with it.
            let (at_queues, at_servers) = looks(router);
            gate.length = gate.length.filter(|_| at_queues);
            gate.ties = gate.ties.filter(|_| at_servers);
            gate.load_information = gate.load_information.filter(|_| at_servers);
        }
        Ok(changed)
    }

    /// The control with those of its stops that this scenario can have; none if it then turns
    /// nothing: no shortest job without sizes, no other number of servers beside weights for each.
    fn possible(&self, control: Control) -> Option<Control> {
        let Control { turns, of, stops, own } = control;
        let runs =
            |setting: Setting| self.set(&setting).is_ok_and(|changed| changed.network().is_ok());
        let kept = |at: usize, setting: Setting| at == own || runs(setting);
        let named = || of.clone();
        let mut before = 0;
        let (stops, left) = match stops {
            Stops::Numbers(list) if turns == Turns::Servers => {
                let servers = |value: f64| BTreeMap::from([(named(), value as u32)]);
                let list = keep(list, own, &mut before, |at, &value| {
                    kept(at, Setting { servers: servers(value), ..Setting::default() })
                });
                let left = list.len();
                (Stops::Numbers(list), left)
            }
            Stops::Numbers(list) => {
                before = own;
                let left = list.len();
                (Stops::Numbers(list), left)
            }
            Stops::Disciplines(list) => {
                let list = keep(list, own, &mut before, |at, entry: &DisciplineEntry| {
                    let discipline = BTreeMap::from([(named(), entry.clone())]);
                    kept(at, Setting { discipline, ..Setting::default() })
                });
                let left = list.len();
                (Stops::Disciplines(list), left)
            }
            Stops::Routers(list) => {
                let list = keep(list, own, &mut before, |at, entry: &RouterEntry| {
                    let router = BTreeMap::from([(named(), entry.clone())]);
                    kept(at, Setting { router, ..Setting::default() })
                });
                let left = list.len();
                (Stops::Routers(list), left)
            }
        };
        (left > 1).then_some(Control { turns, of, stops, own: before })
    }

    fn load_control(&self) -> Option<Control> {
        let [class] = self.classes.as_slice() else { return None };
        let calibration = self.calibration.as_ref();
        let (turns, own, stops) = match (class.population, class.rate) {
            (Some(clients), None) => {
                let measured = calibration.map_or(0, |calibration| calibration.clients[1]);
                let highest = clients.max(measured).saturating_mul(4).max(32);
                (Turns::Clients, f64::from(clients), whole(clients, highest))
            }
            (None, Some(Rate(rate))) => {
                let measured = calibration.map_or(0.0, |c| c.throughput_max.0);
                (Turns::Rate, rate, rates(rate, measured))
            }
            _ => return None,
        };
        Some(numbers(turns, "", own, stops))
    }

    fn only_class(&self) -> Result<String, ScenarioError> {
        match self.classes.as_slice() {
            [class] => Ok(class.name.clone()),
            classes => Err(wrong(
                "class",
                format!(
                    "there are {} classes, so that a load must say which; change the loads in the file",
                    classes.len()
                ),
            )),
        }
    }

    fn gate_named(&mut self, name: &str) -> Result<&mut GateEntry, ScenarioError> {
        match self.gates.iter().position(|gate| gate.name == name) {
            Some(at) => Ok(&mut self.gates[at]),
            None => {
                let names = self.gates.iter().map(|gate| &*gate.name);
                let way_out = suggest("gate", name, names);
                Err(wrong("gate", format!("no gate is called `{name}`; {way_out}")))
            }
        }
    }

    fn set_servers(&mut self, name: &str, servers: u32) -> Result<(), ScenarioError> {
        if let Some(station) = self.stations.iter_mut().find(|station| station.name == name) {
            station.servers = Some(servers);
            return Ok(());
        }
        let gate = self.gate_named(name)?;
        let place = format!("gate `{name}`");
        let Some(last) = gate.servers.last().cloned() else {
            let cause = "it has one server and no list of `servers`; turn its slots";
            return Err(wrong(place, cause));
        };
        if servers == 0 || servers > STOPS_HIGHEST {
            let cause = format!("a gate has from 1 to {STOPS_HIGHEST} servers, not {servers}");
            return Err(wrong(place, cause));
        }
        let before: Vec<String> = owned_stations(gate).map(str::to_owned).collect();
        let add = (servers as usize).saturating_sub(gate.servers.len());
        gate.servers.truncate(servers as usize);
        let kept: BTreeSet<String> = owned_stations(gate).map(str::to_owned).collect();
        // Servers may share a station: it stays while one of those kept has it.
        self.stations.retain(|one| !before.contains(&one.name) || kept.contains(&one.name));
        for _ in 0..add {
            let mut more = last.clone();
            if let Some(model) = &last.station {
                more.station = Some(self.copy_station(model)?);
            }
            self.gate_named(name)?.servers.push(more);
        }
        Ok(())
    }

    /// Adds a station like this one under a name of its own.
    fn copy_station(&mut self, model: &str) -> Result<String, ScenarioError> {
        let Some(found) = self.stations.iter().find(|station| station.name == model) else {
            let names = self.stations.iter().map(|station| &*station.name);
            let way_out = suggest("station", model, names);
            return Err(wrong("station", format!("no station is called `{model}`; {way_out}")));
        };
        let mut copy = found.clone();
        let stem = model.trim_end_matches(|c: char| c.is_ascii_digit());
        let stem = if stem.len() == model.len() { format!("{model}-") } else { stem.to_owned() };
        let mut number = self.stations.len();
        let taken = |name: &str| {
            self.stations.iter().any(|station| station.name == name)
                || self.gates.iter().any(|gate| gate.name == name)
        };
        copy.name = loop {
            let name = format!("{stem}{number}");
            if !taken(&name) {
                break name;
            }
            number += 1;
        };
        let name = copy.name.clone();
        self.stations.push(copy);
        Ok(name)
    }

    fn set_demand(&mut self, name: &str, factor: f64) -> Result<(), ScenarioError> {
        if !(factor > 0.0 && factor.is_finite()) {
            let cause =
                format!("its demand cannot be multiplied by {factor}; give a factor above 0");
            return Err(wrong(format!("station `{name}`"), cause));
        }
        let mut stations = BTreeSet::new();
        if self.stations.iter().any(|station| station.name == name) {
            stations.insert(name.to_owned());
        } else {
            let gate = self.gate_named(name)?;
            stations.extend(owned_stations(gate).map(str::to_owned));
            if stations.is_empty() {
                let cause = "its servers have no stations; name a station";
                return Err(wrong(format!("gate `{name}`"), cause));
            }
            scale_route(&mut gate.inside, &|visit| visit == SERVER, factor);
        }
        for station in &mut self.stations {
            if stations.contains(&station.name) {
                let own = station.demand.iter_mut();
                own.chain(station.demands.values_mut()).for_each(|demand| scale(demand, factor));
            }
        }
        let visits = |visit: &str| stations.contains(visit);
        self.gates.iter_mut().for_each(|gate| scale_route(&mut gate.inside, &visits, factor));
        self.classes.iter_mut().for_each(|class| scale_route(&mut class.route, &visits, factor));
        Ok(())
    }
}

fn wrong(place: impl Into<String>, cause: impl Into<String>) -> ScenarioError {
    ScenarioError { place: place.into(), cause: cause.into() }
}

/// The stations that belong to the servers of a gate.
fn owned_stations(gate: &GateEntry) -> impl Iterator<Item = &str> {
    gate.servers.iter().filter_map(|server| server.station.as_deref())
}

/// The entries that may stay; `place` becomes that of the one that was at `own`.
fn keep<T>(
    list: Vec<T>,
    own: usize,
    place: &mut usize,
    may_stay: impl Fn(usize, &T) -> bool,
) -> Vec<T> {
    let mut kept = Vec::with_capacity(list.len());
    for (at, entry) in list.into_iter().enumerate() {
        if at == own {
            *place = kept.len();
        }
        if may_stay(at, &entry) {
            kept.push(entry);
        }
    }
    kept
}

fn gate_controls(gate: &GateEntry) -> Vec<Control> {
    let mut controls = Vec::new();
    let slots = gate.slots.or_else(|| gate.servers.first().map(|server| server.slots));
    let alike = gate.servers.windows(2).all(|two| two[0].slots == two[1].slots);
    if let Some(slots) = slots.filter(|_| alike) {
        let stops = whole(slots, slots.saturating_mul(4).max(32));
        controls.push(numbers(Turns::Slots, &gate.name, f64::from(slots), stops));
    }
    if let Ok(servers @ 1..) = u32::try_from(gate.servers.len()) {
        let stops = whole(servers, servers.saturating_mul(4).max(8));
        controls.push(numbers(Turns::Servers, &gate.name, f64::from(servers), stops));
        let own = gate.router.clone().unwrap_or(RouterEntry::RoundRobin);
        let (own, list) = with_own(routers(), own);
        let (turns, of) = (Turns::Router, gate.name.clone());
        controls.push(Control { turns, of, own, stops: Stops::Routers(list) });
    }
    let own = gate.discipline.clone().unwrap_or(DisciplineEntry::Fifo);
    let (own, list) = with_own(disciplines(), own);
    let (turns, of) = (Turns::Discipline, gate.name.clone());
    controls.push(Control { turns, of, own, stops: Stops::Disciplines(list) });
    if owned_stations(gate).next().is_some() {
        controls.push(demand_control(&gate.name));
    }
    controls
}

/// A list that holds `own`, and where.
fn with_own<T: PartialEq>(mut list: Vec<T>, own: T) -> (usize, Vec<T>) {
    let at = list.iter().position(|one| *one == own).unwrap_or(list.len());
    if at == list.len() {
        list.push(own);
    }
    (at, list)
}

fn station_servers(station: &StationEntry) -> Option<Control> {
    match station.kind {
        StationName::Queue | StationName::Sharing => {
            let servers = station.servers.unwrap_or(1);
            let stops = whole(servers, servers.saturating_mul(4).max(8));
            Some(numbers(Turns::Servers, &station.name, f64::from(servers), stops))
        }
        StationName::Delay | StationName::FairShare => None,
    }
}

/// The factor of a demand, from a quarter to four times, in steps that a hand can tell apart.
fn demand_control(of: &str) -> Control {
    let per_cent =
        (25..100).step_by(5).chain((100..200).step_by(10)).chain((200..=400).step_by(25));
    let stops = per_cent.map(|per_cent| f64::from(per_cent) / 100.0).collect();
    numbers(Turns::Demand, of, 1.0, stops)
}

fn numbers(turns: Turns, of: &str, own: f64, stops: Vec<f64>) -> Control {
    let own = place_of(&stops, &own);
    Control { turns, of: of.to_owned(), stops: Stops::Numbers(stops), own }
}

/// Index of a value in a list that holds it.
fn place_of<T: PartialEq>(list: &[T], value: &T) -> usize {
    list.iter()
        .position(|one| one == value)
        .expect("the list was made so that it holds its own value")
}

/// Whole numbers from 1: each one first, then steps of about a twentieth, `own` among them.
fn whole(own: u32, highest: u32) -> Vec<f64> {
    let highest = highest.min(STOPS_HIGHEST).max(own);
    let mut stops = vec![own];
    let mut next: u32 = 1;
    while next <= highest {
        stops.push(next);
        let unit = 10_u32.pow(next.ilog10());
        let step = if next < 32 { 1 } else { (next / unit * unit / 20).max(1) };
        next += step;
    }
    stops.push(highest);
    stops.sort_unstable();
    stops.dedup();
    stops.into_iter().map(f64::from).collect()
}

/// Rates [1/s] from a twentieth of the larger of two to twice it, `own` among them.
fn rates(own: f64, measured: f64) -> Vec<f64> {
    let highest = own.max(measured);
    let mut stops: Vec<f64> =
        (1..=40).map(|part| three_digits(highest * f64::from(part) / 20.0)).collect();
    stops.push(own);
    stops.sort_unstable_by(f64::total_cmp);
    stops.dedup();
    stops
}

/// A number above 0 to three significant digits.
fn three_digits(value: f64) -> f64 {
    let unit = 10_f64.powi(value.log10().floor() as i32 - 2);
    (value / unit).round() * unit
}

fn scale_route(route: &mut [RouteEntry], is_meant: &impl Fn(&str) -> bool, factor: f64) {
    for step in route {
        match step {
            RouteEntry::Name(_) => {}
            RouteEntry::Visit(visit) => {
                if is_meant(&visit.visit) {
                    scale(&mut visit.demand, factor);
                }
            }
            RouteEntry::Choose(choose) => {
                for way in &mut choose.choose {
                    scale_route(&mut way.route, is_meant, factor);
                }
            }
            RouteEntry::Visits(times) => scale_route(&mut times.route, is_meant, factor),
            RouteEntry::Repeat(repeat) => scale_route(&mut repeat.route, is_meant, factor),
            RouteEntry::Send(send) => scale_route(&mut send.send, is_meant, factor),
            RouteEntry::Fork(fork) => {
                for way in &mut fork.fork {
                    scale_route(way, is_meant, factor);
                }
            }
            RouteEntry::Become(_) => {}
            RouteEntry::Lookup(lookup) => {
                scale_route(&mut lookup.hit, is_meant, factor);
                scale_route(&mut lookup.miss, is_meant, factor);
            }
        }
    }
}

fn scale(demand: &mut DemandEntry, factor: f64) {
    match demand {
        DemandEntry::Time(DistEntry::Constant(Span(mean))) => *mean *= factor,
        DemandEntry::Time(DistEntry::Shaped(shaped)) => shaped.mean.0 *= factor,
        DemandEntry::BySize(entry) => {
            let (PerByte(per_byte), Span(base)) = (&mut entry.per_byte, &mut entry.base);
            *per_byte *= factor;
            *base *= factor;
        }
        // What a trace says of its jobs stays as it was recorded.
        DemandEntry::OfTrace(_) => {}
    }
}
