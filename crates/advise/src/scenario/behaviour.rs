//! Behaviour beyond a steady load on plain queues, key by key: impatient clients, loads that
//! change, caches, stations with bounds and speeds, and the agenda; each with its form in `sim`.

use std::time::Duration;

use gate::{Band, Conduct, ControlSpec, GateSpec};
use serde::{Deserialize, Serialize};
use sim::{
    Agenda, Cache, Change, Changed, Client, Keys, Load, Noticed, Order, Replacement, Retry, Speed,
    Station, StationKind, TimeOut, WhenFull,
};
use workload::{Dist, Pieces, RateCurve};

use super::compile::suggest;
use super::loads::{above_zero, dist};
use super::{ClassEntry, DistEntry, GateEntry, Scenario, ScenarioError, StationEntry};
use crate::units::{Rate, Span};

/// Controller of a gate's slots: it begins with the slots of its one server and tries others while
/// jobs wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ControlEntry {
    /// The fewest slots that may be best.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub least: u32,
    /// The most slots that may be best.
    pub most: u32,
    /// Length of one measurement; left out, 1 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "1s"), transform = crate::schema::above_zero))]
    pub window: Option<Span>,
}

/// The controller of a gate.
pub(super) fn control(entry: &ControlEntry, spec: &GateSpec) -> Result<ControlSpec, String> {
    let [server] = &*spec.servers else {
        return Err("`control` turns the slots of one server, and the gate has several".into());
    };
    let Span(window) = entry.window.unwrap_or(Span(1.0));
    above_zero("control.window", window)?;
    let (best, least, most) = (server.slots, entry.least, entry.most);
    if least == 0 || !(least..=most).contains(&best) {
        return Err(format!(
            "`control` begins with the gate's {best} slots, which must lie within its `least`, {least} \
             and 1 at least, and its `most`, {most}"
        ));
    }
    let control = ControlSpec {
        server: 0,
        floor: least,
        ceiling: most,
        band: Band { least, best, most },
        window: Duration::from_secs_f64(window.min(1e6)),
        conduct: Conduct::Acts,
    };
    control.check().map_err(|error| format!("`control`: {error}"))?;
    Ok(control)
}

/// Behaviour of clients when they are not served well.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = super::rules::client))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClientEntry {
    /// Time that they wait at a gate before they renege.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience: Option<DistEntry>,
    /// Time that they wait for the answer in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_out: Option<DistEntry>,
    /// The part that notices a time-out; left out, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "nowhere")))]
    pub noticed: Option<NoticedName>,
    /// Attempts after one that failed; left out, they give up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryEntry>,
}

/// The part that notices a time-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NoticedName {
    /// Nobody: the request runs on, for nothing.
    Nowhere,
    /// The gate where it waits, or the next one.
    AtGates,
}

/// Rule by which an attempt that failed is repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RetryEntry {
    /// The most attempts after the first.
    pub more: u32,
    /// The pause before the first of them.
    pub back_off: Span,
    /// Ratio of each pause to the one before; left out, 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1.0), extend("default" = 1)))]
    pub factor: Option<f64>,
    /// The longest pause; needed where they grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back_off_max: Option<Span>,
    /// The share of each pause that is left to chance, 0 to 1; left out, 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1.0), extend("default" = 0)))]
    pub jitter: Option<f64>,
}

/// An arrival rate over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CurveEntry {
    /// Times, the first 0, and rates.
    pub points: Vec<(Span, Rate)>,
    /// Course of the rate in between; left out, it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "constant")))]
    pub pieces: Option<PiecesName>,
    /// Time after which it begins anew; left out, never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Span>,
}

/// Course of a rate between two points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PiecesName {
    /// It stays until the next point.
    Constant,
    /// It goes straight to the next point.
    Linear,
}

/// A class that jobs become on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LoadName {
    /// No job begins as it.
    Within,
}

/// Fate of a job that finds a station full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FullName {
    /// It is lost.
    Lose,
    /// It stays where it is.
    Block,
}

/// Rule for the next job at a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OrderName {
    /// First in first out.
    Fifo,
    /// The most important class first.
    Priority,
    /// The same, and it takes the server from a less important one.
    Preemptive,
    /// The shortest remaining demand first, and it takes the server from a longer one (SRPT).
    ShortestRemaining,
}

/// A cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = super::rules::cache))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CacheEntry {
    /// Its name.
    pub name: String,
    /// Number of keys that it remembers.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub capacity: u32,
    /// Number of keys in all.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10_000_000)))]
    pub keys: u32,
    /// Order in which they are asked for.
    pub order: KeysName,
    /// The exponent of `zipf`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 100.0)))]
    pub exponent: Option<f64>,
    /// The weights of `weighted`, one for each key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<f64>,
    /// The key that is forgotten when it is full; left out, the one that was used least recently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "lru")))]
    pub policy: Option<ReplacementName>,
}

/// The key that is forgotten when a cache is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ReplacementName {
    /// The key that was used least recently.
    Lru,
    /// The key that came in first.
    Fifo,
    /// Any, each alike.
    Random,
}

/// Order in which keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum KeysName {
    /// Any, each time.
    Uniform,
    /// The k-th with a chance in proportion to `k^-exponent`.
    Zipf,
    /// Each with a chance in proportion to its weight.
    Weighted,
    /// One after the other, always in the same order.
    Scan,
    /// One after the other, in a new order each round.
    Shuffled,
    /// One after the other, those in the cache first.
    CachedFirst,
}

/// Length of a simulation, and changes on the way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct AgendaEntry {
    /// The length; left out, until the traces have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(transform = crate::schema::above_zero))]
    pub length: Option<Span>,
    /// Number of intervals into which the time is divided for the report; left out, 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1), extend("default" = 1)))]
    pub intervals: Option<u32>,
    /// Time after which everything repeats; the first period is warm-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(transform = crate::schema::above_zero))]
    pub period: Option<Span>,
    /// Changes on the way.
    #[serde(rename = "change", default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ChangeEntry>,
}

/// A change on the way: of one gate or station, and one thing of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = super::rules::change))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ChangeEntry {
    /// The moment, from the beginning.
    pub at: Span,
    /// The gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// The station.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub station: Option<String>,
    /// The server, from 1; left out, the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1), extend("default" = 1)))]
    pub server: Option<u32>,
    /// Its speed from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
    /// Its slots from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
    /// Its state from now on: it works or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateName>,
}

/// State of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StateName {
    /// It works.
    Up,
    /// It does not work.
    Down,
}

impl ClientEntry {
    pub(super) fn client(&self) -> Result<Client, String> {
        let time = |key: &str, entry: &Option<DistEntry>| -> Result<Option<Dist>, String> {
            let Some(entry) = entry else { return Ok(None) };
            let dist = dist(entry).map_err(|cause| format!("{key}: {cause}"))?;
            if dist.mean() == 0.0 {
                Err(format!("`{key}` must be above 0"))
            } else {
                Ok(Some(dist))
            }
        };
        let patience = time("patience", &self.patience)?;
        let after = time("time-out", &self.time_out)?;
        if after.is_none() && self.noticed.is_some() {
            return Err("`noticed` is of a time-out; add `time-out` or remove it".into());
        }
        let noticed = match self.noticed {
            None | Some(NoticedName::Nowhere) => Noticed::Nowhere,
            Some(NoticedName::AtGates) => Noticed::AtGates,
        };
        let retry = self.retry.as_ref().map(RetryEntry::retry).transpose()?;
        Ok(Client { patience, time_out: after.map(|after| TimeOut { after, noticed }), retry })
    }
}

impl RetryEntry {
    fn retry(&self) -> Result<Retry, String> {
        let factor = self.factor.unwrap_or(1.0);
        if !(factor.is_finite() && factor >= 1.0) {
            return Err(format!("retry: `factor` must be 1 or above; it is {factor}"));
        }
        let back_off_max_s = match self.back_off_max {
            Some(Span(max)) if max < self.back_off.0 => {
                return Err("retry: `back-off-max` is below `back-off`; raise it".into());
            }
            Some(Span(max)) => max,
            None if factor > 1.0 => {
                return Err("retry: pauses that grow need a `back-off-max`".into());
            }
            None => self.back_off.0,
        };
        let jitter = self.jitter.unwrap_or(0.0);
        if !(0.0..=1.0).contains(&jitter) {
            return Err(format!("retry: `jitter` is a share from 0 to 1; it is {jitter}"));
        }
        Ok(Retry { more: self.more, back_off_s: self.back_off.0, factor, back_off_max_s, jitter })
    }
}

/// The load of a class that changes over time, is replayed, or comes from other classes; none if it is
/// a plain one.
pub(super) fn special_load(entry: &ClassEntry) -> Result<Option<Load>, String> {
    let given = [
        ("population", entry.population.is_some()),
        ("rate", entry.rate.is_some()),
        ("rate-curve", entry.rate_curve.is_some()),
        ("trace", entry.trace.is_some()),
        ("load", entry.load.is_some()),
    ];
    let mut given = given.into_iter().filter(|(_, given)| *given).map(|(key, _)| key);
    let (first, second) = (given.next(), given.next());
    if let (Some("rate-curve" | "trace" | "load"), None) = (first, second) {
        for (key, given) in
            [("think", entry.think.is_some()), ("arrivals", entry.arrivals.is_some())]
        {
            if given {
                return Err(format!(
                    "`{key}` does not go with `{}`; remove it",
                    first.unwrap_or("")
                ));
            }
        }
    } else if let (Some(first), Some(second @ ("rate-curve" | "trace" | "load"))) = (first, second)
    {
        return Err(format!("it has both `{first}` and `{second}`; keep one of them"));
    }
    if let Some(curve) = &entry.rate_curve {
        let points = curve.points.iter().map(|(Span(time), Rate(rate))| (*time, *rate)).collect();
        let pieces = match curve.pieces {
            None | Some(PiecesName::Constant) => Pieces::Constant,
            Some(PiecesName::Linear) => Pieces::Linear,
        };
        let curve = RateCurve::new(points, pieces, curve.period.map(|Span(period)| period));
        return curve
            .map(|curve| Some(Load::Varying(curve)))
            .map_err(|e| format!("rate-curve: {e}"));
    }
    if let Some(trace) = &entry.trace {
        return trace.trace(&entry.name).map(|trace| Some(Load::Trace(trace)));
    }
    Ok(entry.load.map(|LoadName::Within| Load::Within))
}

/// The most servers of a queue each of which is remembered with the job that it serves.
const SERVERS_TOLD_APART: u32 = 1_000_000;

/// A station of this kind, with what it has beside that.
pub(super) fn station(entry: &StationEntry, kind: StationKind) -> Result<Station, String> {
    let full = match entry.full {
        None | Some(FullName::Lose) => WhenFull::Lose,
        Some(FullName::Block) => WhenFull::Block,
    };
    let room = match (entry.room, entry.full) {
        (None, Some(_)) => {
            return Err("`full` says what happens without room; give it a `room`".into());
        }
        (Some(0), _) => return Err("room for 0 serves nobody; give at least 1".into()),
        (room, _) => room.map(|room| (room, full)),
    };
    let order = match entry.order {
        None | Some(OrderName::Fifo) => Order::Fifo,
        Some(OrderName::Priority) => Order::Priority,
        Some(OrderName::Preemptive) => Order::Preemptive,
        Some(OrderName::ShortestRemaining) => Order::ShortestRemaining,
    };
    if entry.order.is_some() && !matches!(kind, StationKind::Queue { .. }) {
        return Err("`order` is of a queue only; at other kinds all are served".into());
    }
    if let StationKind::Queue { servers } = kind
        && order != Order::Fifo
        && servers > SERVERS_TOLD_APART
    {
        return Err(format!(
            "an `order` tells its servers apart, and of these there may be {SERVERS_TOLD_APART} at the \
             most; lower `servers`, or leave `order` out"
        ));
    }
    let fits = |speed: &f64| *speed > 0.0 && *speed <= 1e6;
    if let Some(bad) = entry.speeds.iter().chain(&entry.speed_curve).find(|speed| !fits(speed)) {
        return Err(format!("a speed is above 0 and at most 1e6; one is {bad}"));
    }
    let speed = match (&*entry.speeds, &*entry.speed_curve, kind) {
        ([], [], _) => Speed::One,
        ([], curve, StationKind::Sharing { .. }) => Speed::Curve(curve.to_vec()),
        ([], _, _) => return Err("`speed-curve` is of a sharing station only; remove it".into()),
        (speeds, [], StationKind::Queue { servers }) if speeds.len() == servers as usize => {
            Speed::Servers(speeds.to_vec())
        }
        (speeds, [], StationKind::Queue { servers }) => {
            return Err(format!("it has {servers} servers but {} speeds", speeds.len()));
        }
        _ => return Err("`speeds` are of the servers of a queue only; remove them".into()),
    };
    Ok(Station { room, order, speed, ..Station::new(&entry.name, kind) })
}

/// The speeds of a gate's servers; none where all have speed 1.
pub(super) fn gate_speeds(entry: &GateEntry) -> Result<Vec<f64>, String> {
    if entry.servers.iter().all(|server| server.speed.is_none()) {
        return Ok(Vec::new());
    }
    if entry.servers.iter().any(|server| server.station.is_none()) {
        return Err(
            "a server's `speed` is that of its station; give each server a `station`".into()
        );
    }
    let speeds = entry.servers.iter().map(|server| server.speed.unwrap_or(1.0));
    let speeds: Vec<f64> = speeds.collect();
    match speeds.iter().find(|speed| !(**speed > 0.0 && **speed <= 1e6)) {
        Some(bad) => Err(format!("a speed is above 0 and at most 1e6; one is {bad}")),
        None if speeds.iter().all(|speed| *speed == 1.0) => Ok(Vec::new()),
        None => Ok(speeds),
    }
}

impl CacheEntry {
    pub(super) fn cache(&self) -> Result<Cache, ScenarioError> {
        let order = match (self.order, self.exponent) {
            (KeysName::Zipf, Some(exponent)) => Keys::Zipf { exponent },
            (KeysName::Zipf, None) => return Err(self.wrong("zipf needs its `exponent`")),
            (_, Some(_)) => {
                return Err(self.wrong("`exponent` is of the order `zipf` only; remove it"));
            }
            (KeysName::Weighted, None) => Keys::Weighted(self.weights.clone()),
            (KeysName::Uniform, None) => Keys::Uniform,
            (KeysName::Scan, None) => Keys::Scan,
            (KeysName::Shuffled, None) => Keys::Shuffled,
            (KeysName::CachedFirst, None) => Keys::CachedFirst,
        };
        if self.order != KeysName::Weighted && !self.weights.is_empty() {
            return Err(self.wrong("`weights` are of the order `weighted` only; remove them"));
        }
        let replacement = match self.policy {
            None | Some(ReplacementName::Lru) => Replacement::Lru,
            Some(ReplacementName::Fifo) => Replacement::Fifo,
            Some(ReplacementName::Random) => Replacement::Random,
        };
        let (name, capacity, keys) = (self.name.clone(), self.capacity, self.keys);
        let cache = Cache { name, capacity, keys, order, replacement };
        cache.check().map_err(|error| self.wrong(&error.cause))?;
        Ok(cache)
    }

    fn wrong(&self, cause: &str) -> ScenarioError {
        ScenarioError { place: format!("cache `{}`", self.name), cause: cause.into() }
    }
}

impl AgendaEntry {
    pub(super) fn agenda(&self, scenario: &Scenario) -> Result<Agenda, ScenarioError> {
        let wrong = |cause: String| ScenarioError { place: "agenda".into(), cause };
        for (key, time) in [("length", self.length), ("period", self.period)] {
            if let Some(Span(seconds)) = time {
                above_zero(key, seconds).map_err(wrong)?;
            }
        }
        let intervals = self.intervals.unwrap_or(1);
        if intervals == 0 {
            return Err(wrong("0 intervals report nothing; give at least 1".into()));
        }
        let changes = self.changes.iter().map(|change| change.change(scenario));
        Ok(Agenda {
            length_s: self.length.map(|Span(length)| length),
            intervals,
            period_s: self.period.map(|Span(period)| period),
            changes: changes.collect::<Result<_, _>>()?,
        })
    }
}

impl ChangeEntry {
    fn change(&self, scenario: &Scenario) -> Result<Change, ScenarioError> {
        let place = format!("agenda, change at {}", self.at);
        let wrong = |cause: String| ScenarioError { place: place.clone(), cause };
        let server = match self.server {
            Some(0) => return Err(wrong("servers are counted from 1".into())),
            server => server.unwrap_or(1) - 1,
        };
        let what = match (&self.gate, &self.station) {
            (Some(name), None) => {
                let names = scenario.gates.iter().map(|gate| &*gate.name);
                let gate = scenario.gates.iter().position(|gate| gate.name == *name);
                let gate = gate.ok_or_else(|| wrong(unknown("gate", name, names)))?;
                match (self.speed, self.slots, self.state) {
                    (Some(speed), None, None) => Changed::GateSpeed { gate, server, speed },
                    (None, Some(slots), None) => Changed::Slots { gate, server, slots },
                    (None, None, Some(StateName::Down)) => Changed::GateDown { gate, server },
                    (None, None, Some(StateName::Up)) => Changed::GateUp { gate, server },
                    _ => return Err(wrong("give one of `speed`, `slots` and `state`".into())),
                }
            }
            (None, Some(name)) => {
                let names = scenario.stations.iter().map(|station| &*station.name);
                let station = scenario.stations.iter().position(|found| found.name == *name);
                let station = station.ok_or_else(|| wrong(unknown("station", name, names)))?;
                let speed = match (self.speed, self.slots, self.state) {
                    (Some(speed), None, None) => speed,
                    (None, None, Some(StateName::Down)) => 0.0,
                    (None, None, Some(StateName::Up)) => 1.0,
                    (_, Some(_), _) => {
                        return Err(wrong("a station has no slots; change a gate's".into()));
                    }
                    _ => return Err(wrong("give one of `speed` and `state`".into())),
                };
                Changed::StationSpeed { station, server, speed }
            }
            _ => return Err(wrong("name either a `gate` or a `station`".into())),
        };
        Ok(Change { at_s: self.at.0, what })
    }
}

fn unknown<'n>(kind: &str, name: &str, known: impl Iterator<Item = &'n str> + Clone) -> String {
    format!("no {kind} is called `{name}`; {}", suggest(kind, name, known))
}
