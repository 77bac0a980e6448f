//! Number of servers that so much load needs under an objective.

use serde::Serialize;
use sim::Options;

use super::QuestionError;
use super::assess::{Assessment, assess};
use super::growth::{ClassLoad, Growth};
use super::slo::Slo;
use super::work::{Hardness, Part, full_at, work};
use crate::scenario::suggest;
use crate::{Approximation, Right, Scenario, ScenarioError, ServerEntry, StationEntry};

/// Number of servers that a load needs.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Servers {
    /// The station or the gate.
    pub of: String,
    /// Its kind: a gate or a station.
    pub hardness: Hardness,
    /// The present number.
    pub now: u32,
    /// The growth of the load.
    pub growth: Growth,
    /// The loads that this means.
    pub loads: Vec<ClassLoad>,
    /// By the utilisation law, fewer would be overloaded even if nobody waited elsewhere.
    pub law: u32,
    /// The fewest with which it was seen to hold.
    pub holds_with: Option<ServersPoint>,
    /// The most with which it was seen to fail.
    pub fails_with: Option<ServersPoint>,
    /// Verdict on the number: yes if it is sharp, no if no number is enough; else it cannot be
    /// told.
    pub kept: Right,
    /// Every number that was tried, rising.
    pub tried: Vec<ServersPoint>,
}

impl Servers {
    /// Error that the formula's numbers may have, with any number that was tried.
    pub fn approximation(&self) -> Approximation {
        let points = self.holds_with.iter().chain(&self.tried);
        points.map(|point| point.assessment.approximation()).collect()
    }
}

/// A number of servers that was tried.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServersPoint {
    /// The number.
    pub servers: u32,
    /// Assessment of the scenario with so many.
    pub assessment: Assessment,
}

/// A station or gate with so few of its servers busy that more cannot help.
const IDLE: f64 = 0.02;
/// The most servers that are tried.
const SERVERS_MAX: u32 = 4096;

/// Looks for the fewest servers of a station, or of a gate (those that it routes to, or else its
/// slots), with which so many times the load keeps an objective; without one, with which nothing
/// saturates. Where no part is named, the station that the utilisation law has full first is meant.
///
/// # Errors
/// If there is no such part or class, or it cannot be simulated.
pub fn servers(
    scenario: &Scenario,
    of: Option<&str>,
    growth: &Growth,
    slo: Option<&Slo>,
    options: &Options,
) -> Result<Servers, QuestionError> {
    if let Some(slo) = slo {
        slo.check(scenario)?;
    }
    let grown = growth.of(scenario)?;
    let target = Target::of(&grown, of)?;
    let (now, law) = (target.now(&grown), target.law(&grown)?);
    let mut search = Search { grown: &grown, target: &target, slo, options, tried: Vec::new() };
    search.run(law)?;
    let mut tried = search.tried;
    tried.sort_by_key(|point| point.servers);
    let of_kept =
        |kept: Right| tried.iter().filter(move |point| point.assessment.kept == kept).cloned();
    let holds_with = of_kept(Right::Yes).next();
    let fewest = holds_with.as_ref().map_or(u32::MAX, |point| point.servers);
    let fails_with = of_kept(Right::No).rfind(|point| point.servers < fewest);
    let sharp = match (&holds_with, &fails_with) {
        (Some(holds), Some(fails)) => holds.servers == fails.servers + 1,
        (Some(holds), None) => holds.servers <= law,
        (None, _) => false,
    };
    let kept = match (&holds_with, sharp) {
        (Some(_), true) => Right::Yes,
        (None, _) if tried.iter().all(|point| point.assessment.kept == Right::No) => Right::No,
        _ => Right::CannotTell,
    };
    Ok(Servers {
        of: target.name().to_owned(),
        hardness: target.hardness(),
        now,
        growth: growth.clone(),
        loads: ClassLoad::of(&grown),
        law,
        holds_with,
        fails_with,
        kept,
        tried,
    })
}

/// True if [`servers`] can give the part another number of them; without a name, the station that is full first.
pub fn can_vary_servers(scenario: &Scenario, of: Option<&str>) -> bool {
    let target = Target::of(scenario, of);
    target.is_ok_and(|target| target.with(scenario, target.now(scenario).saturating_add(1)).is_ok())
}

/// The part that gets more servers.
#[derive(Clone, Debug)]
enum Target {
    /// A station's servers.
    Station(String),
    /// The servers that a gate routes to, with their stations.
    Routed(String),
    /// The slots of a gate with one server.
    Slots(String),
}

impl Target {
    fn of(scenario: &Scenario, name: Option<&str>) -> Result<Target, QuestionError> {
        let name = match name {
            Some(name) => name.to_owned(),
            None => Target::first(scenario)?,
        };
        // A station of a gate's servers grows with the gate.
        let owner = scenario.gates.iter().find(|gate| {
            gate.servers.iter().any(|server| server.station.as_deref() == Some(&*name))
        });
        if let Some(owner) = owner {
            return Ok(Target::Routed(owner.name.clone()));
        }
        if let Some(gate) = scenario.gates.iter().find(|gate| gate.name == name) {
            let routed = !gate.servers.is_empty();
            return Ok(if routed { Target::Routed(name) } else { Target::Slots(name) });
        }
        if scenario.stations.iter().any(|station| station.name == name) {
            return Ok(Target::Station(name));
        }
        let gates = scenario.gates.iter().map(|gate| gate.name.as_str());
        let stations = scenario.stations.iter().map(|station| station.name.as_str());
        let way_out = suggest("gate or station", &name, gates.chain(stations));
        let cause = format!("no gate or station is called `{name}`; {way_out}");
        Err(ScenarioError { place: "servers".into(), cause }.into())
    }

    /// The station that is full first if nobody waits.
    fn first(scenario: &Scenario) -> Result<String, QuestionError> {
        let network = scenario.network()?;
        let works = work(&network)?;
        let parts = Part::all(&network).into_iter();
        let stations = parts.filter(|part| part.hardness() == Hardness::Hard);
        let full = stations.filter_map(|part| Some((part, full_at(&network, &works, part)?)));
        match full.min_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((part, _)) => Ok(part.name(&network).to_owned()),
            None => Err(QuestionError::NothingToVary(
                "no station has a limited number of servers; name a gate with `--gate NAME`".into(),
            )),
        }
    }

    fn name(&self) -> &str {
        match self {
            Target::Station(name) | Target::Routed(name) | Target::Slots(name) => name,
        }
    }

    fn hardness(&self) -> Hardness {
        match self {
            Target::Station(_) => Hardness::Hard,
            Target::Routed(_) | Target::Slots(_) => Hardness::Soft,
        }
    }

    fn now(&self, scenario: &Scenario) -> u32 {
        let station = |name| scenario.stations.iter().find(|station| station.name == name);
        let gate = |name| scenario.gates.iter().find(|gate| gate.name == name);
        match self {
            Target::Station(name) => {
                station(name.as_str()).and_then(|station| station.servers).unwrap_or(1)
            }
            Target::Routed(name) => gate(name.as_str()).map_or(1, |gate| gate.servers.len() as u32),
            Target::Slots(name) => gate(name.as_str()).and_then(|gate| gate.slots).unwrap_or(1),
        }
    }

    /// The fewest servers by the utilisation law: more than are busy on average if nobody waits.
    /// For a closed load it is 1.
    fn law(&self, scenario: &Scenario) -> Result<u32, QuestionError> {
        let network = scenario.network()?;
        let works = work(&network)?;
        let parts =
            Part::all(&network).into_iter().filter(|part| part.name(&network) == self.name());
        // Of a closed load, who waits elsewhere asks for less, so that this is no limit from below.
        let closed = scenario.classes.iter().any(|class| class.population.is_some());
        let full = parts.filter_map(|part| full_at(&network, &works, part)).next();
        let now = f64::from(self.now(scenario));
        let busy = full.map_or(0.0, |full| now / full);
        Ok(if closed { 1 } else { (busy.floor() as u32 + 1).clamp(1, SERVERS_MAX) })
    }

    /// The scenario with so many.
    fn with(&self, scenario: &Scenario, servers: u32) -> Result<Scenario, QuestionError> {
        let mut changed = scenario.clone();
        match self {
            Target::Slots(name) => return Ok(scenario.with_slots(name, servers)?),
            Target::Station(name) => {
                let station = changed.stations.iter_mut().find(|station| station.name == *name);
                let station = station.expect("found when the target was named");
                station.servers = Some(servers);
                let each = speed_of_more(station).map_err(QuestionError::NothingToVary)?;
                station.speeds = each.map_or(Vec::new(), |speed| vec![speed; servers as usize]);
            }
            Target::Routed(name) => route_to(&mut changed, name, servers as usize),
        }
        changed.network()?;
        Ok(changed)
    }
}

/// The speed of one more server; none if it is 1 as that of all.
fn speed_of_more(station: &StationEntry) -> Result<Option<f64>, String> {
    if !station.speed_curve.is_empty() {
        return Err(format!(
            "station `{}` is as fast as its `speed-curve` says, however many servers it has: change the \
             curve, or name another part",
            station.name
        ));
    }
    let Some(&speed) = station.speeds.first() else { return Ok(None) };
    match station.speeds.iter().all(|&other| other == speed) {
        true => Ok(Some(speed)),
        false => Err(format!(
            "the servers of station `{}` have several speeds, and one more could have any: give all of them \
             one speed, or change `speeds` and ask `holds`",
            station.name
        )),
    }
}

/// Gives a gate so many servers: the last ones go, or the last one is copied, with its station.
fn route_to(scenario: &mut Scenario, gate: &str, servers: usize) {
    let at = scenario.gates.iter().position(|entry| entry.name == gate);
    let at = at.expect("found when the target was named");
    while scenario.gates[at].servers.len() > servers {
        let gone = scenario.gates[at].servers.pop().expect("it has more than that");
        let named = |server: &ServerEntry| server.station == gone.station;
        if !scenario.gates[at].servers.iter().any(named) {
            scenario.stations.retain(|station| Some(&station.name) != gone.station.as_ref());
        }
    }
    while scenario.gates[at].servers.len() < servers {
        let mut server = scenario.gates[at].servers.last().expect("a gate has a server").clone();
        if let Some(name) = &mut server.station {
            let copied = scenario.stations.iter().find(|station| station.name == *name);
            let mut copy = copied.expect("the scenario can be run").clone();
            let mut number = scenario.gates[at].servers.len() + 1;
            let free = |name: &str| scenario.stations.iter().all(|station| station.name != name);
            while !free(&format!("{gate}, server {number}")) {
                number += 1;
            }
            copy.name = format!("{gate}, server {number}");
            name.clone_from(&copy.name);
            scenario.stations.push(copy);
        }
        scenario.gates[at].servers.push(server);
    }
}

struct Search<'a> {
    grown: &'a Scenario,
    target: &'a Target,
    slo: Option<&'a Slo>,
    options: &'a Options,
    tried: Vec<ServersPoint>,
}

impl Search<'_> {
    fn assess(&mut self, servers: u32) -> Result<Right, QuestionError> {
        if let Some(known) = self.tried.iter().find(|point| point.servers == servers) {
            return Ok(known.assessment.kept);
        }
        let scenario = self.target.with(self.grown, servers)?;
        let assessment = assess(&scenario, self.slo, self.options, 2)?;
        let kept = assessment.kept;
        self.tried.push(ServersPoint { servers, assessment });
        Ok(kept)
    }

    /// Up until it holds, or more cannot help; then between the ends.
    fn run(&mut self, law: u32) -> Result<(), QuestionError> {
        let mut high = law;
        while self.assess(high)? != Right::Yes {
            if high >= SERVERS_MAX || self.is_idle(high) {
                return Ok(());
            }
            high = (high * 2).min(SERVERS_MAX);
        }
        // What cannot be told is taken as failing here; the answer says which numbers were surely so.
        let mut low = self.tried.iter().map(|point| point.servers).filter(|&n| n < high).max();
        while let Some(below) = low.filter(|below| high - below > 1) {
            let middle = below.midpoint(high);
            if self.assess(middle)? == Right::Yes {
                high = middle;
            } else {
                low = Some(middle);
            }
        }
        Ok(())
    }

    /// True if, with so many, hardly one of them is busy.
    fn is_idle(&self, servers: u32) -> bool {
        let point = self.tried.iter().find(|point| point.servers == servers);
        let busy = point.and_then(|point| point.assessment.simulated.as_ref()).and_then(|seen| {
            seen.busy
                .iter()
                .find(|busy| busy.name == self.target.name())
                .map(|busy| busy.share.mean)
        });
        busy.is_some_and(|share| share < IDLE)
    }
}
