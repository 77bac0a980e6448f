//! Set times: the end of a run that claims no steady state, the intervals that it is reported by,
//! and changes to gates and stations on the way.

use gate::{Event, Time};

use crate::network::{Class, Load, Network, NetworkError, Speed, StationKind};

/// Length of a run, its intervals, and the changes on the way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Agenda {
    /// Length of each replication \[s\]; none: until the traces have ended and all their jobs have
    /// left.
    pub length_s: Option<f64>,
    /// In how many intervals of equal length the time is divided for the report.
    pub intervals: u32,
    /// The load and the changes repeat after this time \[s\]: the first period is left out as warm-up,
    /// and the intervals are those of the period, over all the others together.
    pub period_s: Option<f64>,
    /// Changes on the way.
    pub changes: Vec<Change>,
}

/// A change at a set time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// When \[s\]; with a period, in each of them.
    pub at_s: f64,
    /// The change.
    pub what: Changed,
}

/// Kinds of changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Changed {
    /// A server of a gate has this many slots from now on.
    Slots {
        /// The gate.
        gate: usize,
        /// The server.
        server: u32,
        /// Number of slots.
        slots: u32,
    },
    /// A server of a gate gets no more jobs; those that it has are served.
    GateDown {
        /// The gate.
        gate: usize,
        /// The server.
        server: u32,
    },
    /// A server of a gate gets jobs again.
    GateUp {
        /// The gate.
        gate: usize,
        /// The server.
        server: u32,
    },
    /// A gate is told what came from outside when it was recorded ([`crate::recorded`]): neither the
    /// arrival of a job, nor what follows from one.
    Told {
        /// The gate.
        gate: usize,
        /// When, to the nanosecond.
        at: Time,
        /// The event.
        event: Event,
        /// Its place among all that happens at the same moment.
        order: u32,
    },
    /// Services at the station of a gate's server that begin from now on go at this speed
    /// ([`crate::Step::VisitServer`]).
    GateSpeed {
        /// The gate.
        gate: usize,
        /// The server.
        server: u32,
        /// Speed, above 0.
        speed: f64,
    },
    /// A station's server goes at this speed from now on, the service that it is at included. At 0 it
    /// is down: its job waits on it, and goes on where it was.
    StationSpeed {
        /// The station: a queue, or a sharing one, whose only server is 0.
        station: usize,
        /// The server.
        server: u32,
        /// Speed, 0 or above.
        speed: f64,
    },
}

/// The most intervals of a report.
const INTERVALS_MAX: u32 = 100_000;
/// The longest run \[s\], 10 years.
const LENGTH_MAX: f64 = 3.2e8;

impl Agenda {
    pub(crate) fn check(&self, network: &Network) -> Result<(), NetworkError> {
        let error = |cause: String| Err(NetworkError::new("agenda", cause));
        if self.intervals > INTERVALS_MAX {
            return error(format!("{} intervals are more than {INTERVALS_MAX}", self.intervals));
        }
        match self.length_s {
            Some(length) if !(length > 0.0 && length <= LENGTH_MAX) => {
                return error(format!(
                    "its length must be above 0 s and at most {LENGTH_MAX} s, but it is {length} s"
                ));
            }
            None => self.check_ends(network)?,
            Some(_) => {}
        }
        if let Some(period) = self.period_s {
            let long_enough = self.length_s.is_some_and(|length| length >= 2.0 * period);
            if !(period > 0.0 && long_enough) {
                return error(format!(
                    "with a period of {period} s the run must last at least two of them: the first is \
                     warm-up"
                ));
            }
        }
        for class in &network.classes {
            let own = match &class.load {
                Load::Varying(curve) => curve.period(),
                Load::Trace(trace) => trace.period(),
                Load::Open(_) | Load::Closed { .. } | Load::Within => continue,
            };
            if let (Some(own), Some(period)) = (own, self.period_s)
                && ((period / own).round() * own / period - 1.0).abs() > 1e-9
            {
                return error(format!(
                    "class `{}` repeats after {own} s, which does not divide the period of {period} s",
                    class.name
                ));
            }
        }
        self.changes.iter().try_for_each(|change| self.check_change(change, network))
    }

    /// Without a length the run ends with its traces.
    fn check_ends(&self, network: &Network) -> Result<(), NetworkError> {
        let endless = network.classes.iter().find(|class| match &class.load {
            Load::Trace(trace) => trace.period().is_some(),
            Load::Within => false,
            Load::Open(_) | Load::Closed { .. } | Load::Varying(_) => true,
        });
        match endless {
            Some(class) => {
                let cause = "its load has no end, so the agenda needs a length";
                Err(NetworkError::new(format!("class `{}`", class.name), cause))
            }
            None => Ok(()),
        }
    }

    fn check_change(&self, change: &Change, network: &Network) -> Result<(), NetworkError> {
        let at = change.at_s;
        let error =
            |cause: String| Err(NetworkError::new(format!("agenda, change at {at} s"), cause));
        let end = self.period_s.or(self.length_s).unwrap_or(LENGTH_MAX);
        if !(0.0..end).contains(&at) {
            return error(format!("it must be from 0 s to before {end} s"));
        }
        let (speed, least) = match change.what {
            Changed::GateSpeed { speed, .. } => (speed, f64::MIN_POSITIVE),
            Changed::StationSpeed { speed, .. } => (speed, 0.0),
            _ => (1.0, 0.0),
        };
        if !(least..=1e6).contains(&speed) {
            return error(format!("a speed of {speed} is out of range"));
        }
        match change.what {
            // What a gate was told was checked where it was read.
            Changed::Told { .. } => {}
            Changed::StationSpeed { station, server, .. } => {
                let Some(found) = network.stations.get(station) else {
                    return error(format!("station {station} does not exist"));
                };
                let servers = match found.kind {
                    StationKind::Queue { servers } => servers,
                    StationKind::Sharing { .. } => 1,
                    StationKind::Delay | StationKind::FairShare { .. } => {
                        return error(format!(
                            "station `{}` is neither a queue nor sharing: its speed cannot change",
                            found.name
                        ));
                    }
                };
                if server >= servers {
                    return error(format!("station `{}` has no server {server}", found.name));
                }
            }
            Changed::Slots { gate, server, .. }
            | Changed::GateDown { gate, server }
            | Changed::GateUp { gate, server }
            | Changed::GateSpeed { gate, server, .. } => {
                let Some(found) = network.gates.get(gate) else {
                    return error(format!("gate {gate} does not exist"));
                };
                if server as usize >= found.spec.servers.len() {
                    return error(format!("gate `{}` has no server {server}", found.name));
                }
            }
        }
        Ok(())
    }

    /// True if a change of its speed makes a station one whose servers are told apart.
    pub(crate) fn changes_speed(&self, at: usize) -> bool {
        self.changes.iter().any(
            |change| matches!(change.what, Changed::StationSpeed { station, .. } if station == at),
        )
    }

    /// The time that is divided into intervals \[s\].
    pub(crate) fn divided_s(&self, classes: &[Class]) -> f64 {
        let last = |class: &Class| match &class.load {
            Load::Trace(trace) => trace.jobs().last().map_or(0.0, |job| job.at),
            Load::Closed { .. } | Load::Open(_) | Load::Varying(_) | Load::Within => 0.0,
        };
        let traces = || classes.iter().map(last).fold(0.0, f64::max);
        self.period_s.or(self.length_s).unwrap_or_else(traces)
    }
}

/// Why a station's speed is no speed, if it is none.
pub(crate) fn wrong_speed(kind: StationKind, speed: &Speed) -> Option<String> {
    let fits = |speed: &f64| *speed > 0.0 && *speed <= 1e6;
    match (speed, kind) {
        (Speed::One, _) => None,
        (Speed::Servers(speeds), StationKind::Queue { servers }) => {
            if speeds.len() != servers as usize {
                return Some(format!("it has {servers} servers but {} speeds", speeds.len()));
            }
            speeds
                .iter()
                .find(|speed| !fits(speed))
                .map(|bad| format!("a speed of {bad} is out of range"))
        }
        (Speed::Servers(_), _) => {
            Some("only the servers of a queue have speeds of their own".into())
        }
        (Speed::Curve(speeds), StationKind::Sharing { .. }) => {
            if speeds.is_empty() {
                return Some("its speed curve has no value".into());
            }
            speeds
                .iter()
                .find(|speed| !fits(speed))
                .map(|bad| format!("a speed of {bad} is out of range"))
        }
        (Speed::Curve(_), _) => Some("only a sharing station has a speed curve".into()),
    }
}
