//! Order of saturation: the part that saturates first as the load grows, and the one that is next
//! when that one is relieved.
//!
//! Hard stations could be put in order by the utilisation law alone. Gates cannot: the time for
//! which a slot is held depends on who waits inside of it, and so on the load. So the order comes
//! from simulation; the law, which lets nobody wait, stands beside it.

use measure::Estimate;
use serde::Serialize;
use sim::{Network, Options, Speed, Station, StationKind};

use super::assess::{Busy, busy};
use super::growth::{ClassLoad, Growth};
use super::work::{Hardness, Part, full_at, work};
use super::{QuestionError, SATURATED};
use crate::Scenario;

/// Gates and stations in the order in which they saturate.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bottleneck {
    /// The share of slots or servers that counts as saturated.
    pub threshold: f64,
    /// The class that grows; none for all.
    pub class: Option<String>,
    /// Utilisation of every gate and station under the scenario's own load; none where jobs pile up
    /// without end.
    pub now: Option<Vec<Busy>>,
    /// The part that saturates first, then the one that does when that one is relieved, and so on.
    pub order: Vec<Saturation>,
}

/// Something that saturates.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Saturation {
    /// The part; several where they saturate together.
    pub parts: Vec<SaturatedPart>,
    /// The load at which it saturates, as a factor of the scenario's.
    pub factor: f64,
    /// Two factors of the load: at the first it is surely not saturated yet, at the second it
    /// surely is.
    pub interval: [f64; 2],
    /// The loads that the factor means.
    pub loads: Vec<ClassLoad>,
    /// Completions of all classes there [1/s]; none where jobs pile up without end.
    #[serde(rename = "throughput_per_s")]
    pub throughput: Option<Estimate>,
    /// Utilisation of every gate and station there.
    pub busy: Vec<Busy>,
}

/// A gate or a station that saturates.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SaturatedPart {
    /// Its name.
    pub name: String,
    /// Its kind: a gate or a station.
    pub hardness: Hardness,
    /// Slots or servers.
    pub capacity: u32,
    /// By the utilisation law: the factor of the load at which it would be full if nobody waited
    /// anywhere.
    pub law: Option<f64>,
}

/// The most stages that are put in order.
const STAGES_MAX: usize = 6;
/// Parts this near to the threshold, at the load at which the first reaches it, saturate together
/// with it.
const TOGETHER: f64 = 0.03;
/// Precision of the load that is looked for, as a share.
const NEAR: f64 = 0.02;
/// Requests of one simulation at the most: a share is precise long before a quantile is.
const REQUESTS_MAX: u64 = 300_000;
/// Slots of a gate that is relieved: more than jobs.
const RELIEVED: u32 = 65_536;
/// The largest speed of a station.
const SPEED_MAX: f64 = 1e6;
/// The farthest from the scenario's own load that is looked for.
const FACTORS: (f64, f64) = (1e-6, 1e6);

/// Puts every gate and station in the order in which it saturates as the load (of all classes, or of
/// one) grows, each time with those before it relieved: given more slots or servers than jobs.
///
/// # Errors
/// If there is no such class, or it cannot be simulated.
pub fn bottleneck(
    scenario: &Scenario,
    class: Option<&str>,
    options: &Options,
) -> Result<Bottleneck, QuestionError> {
    let along = Growth { factor: 1.0, class: class.map(str::to_owned) };
    let options =
        Options { completions_max: options.completions_max.min(REQUESTS_MAX), ..options.clone() };
    let mut climb =
        Climb { scenario, along: &along, options: &options, relieved: Vec::new(), tried: vec![] };
    let now = climb.look(1.0)?.shares;
    let mut order = Vec::new();
    while order.len() < STAGES_MAX {
        let Some(saturation) = climb.first()? else { break };
        let network = scenario.network()?;
        let named =
            |part: &Part| saturation.parts.iter().any(|found| found.name == part.name(&network));
        climb.relieved.extend(Part::all(&network).into_iter().filter(named));
        // With a part relieved it is another network: nothing that was seen holds any more.
        climb.tried.clear();
        order.push(saturation);
    }
    Ok(Bottleneck { threshold: SATURATED, class: along.class.clone(), now, order })
}

struct Climb<'a> {
    scenario: &'a Scenario,
    along: &'a Growth,
    options: &'a Options,
    relieved: Vec<Part>,
    tried: Vec<Look>,
}

/// Observations at one load.
#[derive(Clone, Debug)]
struct Look {
    factor: f64,
    /// None where jobs pile up without end.
    shares: Option<Vec<Busy>>,
    throughput: Option<Estimate>,
    /// The place at which they do.
    grows: Option<String>,
}

impl Look {
    /// The share of the busiest: its mean, and the ends of its interval.
    fn top(&self) -> [f64; 3] {
        let Some(shares) = &self.shares else { return [1.0; 3] };
        let most = |of: fn(&Estimate) -> f64| {
            shares.iter().map(|busy| of(&busy.share)).fold(0.0, f64::max)
        };
        [most(|share| share.mean), most(Estimate::low), most(Estimate::high)]
    }
}

impl Climb<'_> {
    fn network(&self, factor: f64) -> Result<Network, QuestionError> {
        let mut network = self.along.times(factor).of(self.scenario)?.network()?;
        for &part in &self.relieved {
            relieve(&mut network, part);
        }
        Ok(network)
    }

    /// Simulates one load; whole numbers of clients where one closed class grows.
    fn look(&mut self, factor: f64) -> Result<Look, QuestionError> {
        let factor = self.possible(factor)?;
        if let Some(known) = self.tried.iter().find(|look| look.factor == factor) {
            return Ok(known.clone());
        }
        let network = self.network(factor)?;
        let place = || format!("at {}", self.along.times(factor));
        let look = match sim::run(&network, self.options) {
            Ok(outcome) => Look {
                factor,
                shares: Some(self.limited(&network, busy(&network, &outcome))),
                throughput: Some(total(&outcome)),
                grows: None,
            },
            Err(error) => match error.overloaded() {
                Some(place) => {
                    Look { factor, shares: None, throughput: None, grows: Some(place.to_owned()) }
                }
                None => return Err(QuestionError::sim(place())(error)),
            },
        };
        self.tried.push(look.clone());
        Ok(look)
    }

    fn possible(&self, factor: f64) -> Result<f64, QuestionError> {
        Ok(match self.along.whole(self.scenario)? {
            Some(population) => {
                let population = f64::from(population);
                (factor * population).round().max(1.0) / population
            }
            None => factor,
        })
    }

    /// Those that are not relieved.
    fn limited(&self, network: &Network, all: Vec<Busy>) -> Vec<Busy> {
        let relieved = |name: &str| self.relieved.iter().any(|part| part.name(network) == name);
        all.into_iter().filter(|busy| !relieved(&busy.name)).collect()
    }

    /// The first to saturate of those that are left; none if nobody is.
    fn first(&mut self) -> Result<Option<Saturation>, QuestionError> {
        let network = self.network(1.0)?;
        let works = work(&network)?;
        let left: Vec<(Part, f64)> = Part::all(&network)
            .into_iter()
            .filter(|part| !self.relieved.contains(part))
            .filter_map(|part| Some((part, full_at(&network, &works, part)?)))
            .collect();
        let Some(law) = left.iter().map(|(_, law)| *law).reduce(f64::min) else { return Ok(None) };
        let Some((low, high)) = self.bracket(SATURATED * law)? else { return Ok(None) };
        let high = self.narrow(low, high)?;
        let interval = self.sure(high.factor)?;
        let parts = together(&high)
            .into_iter()
            .filter_map(|name| {
                let &(part, law) = left.iter().find(|(part, _)| part.name(&network) == name)?;
                Some(SaturatedPart {
                    name,
                    hardness: part.hardness(),
                    capacity: part.capacity(&network),
                    law: Some(law),
                })
            })
            .collect();
        Ok(Some(Saturation {
            parts,
            factor: high.factor,
            interval,
            loads: ClassLoad::of(&self.along.times(high.factor).of(self.scenario)?),
            throughput: high.throughput,
            busy: high.shares.unwrap_or_default(),
        }))
    }

    /// A load at which nobody is saturated, and one above it at which somebody is.
    fn bracket(&mut self, start: f64) -> Result<Option<(f64, Look)>, QuestionError> {
        let mut high = self.look(start.clamp(FACTORS.0, FACTORS.1))?;
        while high.top()[0] < SATURATED {
            let more = high.factor * 1.5;
            if more > FACTORS.1 || self.along.times(more).of(self.scenario).is_err() {
                return Ok(None);
            }
            let more = more.max(high.factor + self.smallest()?);
            high = self.look(more)?;
        }
        let mut low = high.factor;
        while low > FACTORS.0 && self.look(low)?.top()[0] >= SATURATED {
            let less = self.possible(low / 1.5)?;
            if less >= low {
                // Not even one client is served without somebody being saturated.
                return Ok(Some((low, self.look(low)?)));
            }
            low = less;
        }
        Ok(Some((low, high)))
    }

    /// The smallest step of the load.
    fn smallest(&self) -> Result<f64, QuestionError> {
        Ok(self.along.whole(self.scenario)?.map_or(0.0, |all| 1.0 / f64::from(all)))
    }

    fn narrow(&mut self, mut low: f64, mut high: Look) -> Result<Look, QuestionError> {
        // Where jobs pile up, nothing was seen of how busy anybody is; so a load is wanted at which
        // they do not.
        while high.factor / low > 1.0 + NEAR {
            let middle = self.possible((low * high.factor).sqrt())?;
            if middle <= low || middle >= high.factor {
                break;
            }
            let look = self.look(middle)?;
            if look.top()[0] >= SATURATED {
                high = look;
            } else {
                low = middle;
            }
        }
        Ok(high)
    }

    /// The largest load at which surely nobody is saturated (0 if there is none), and the smallest at
    /// which surely somebody is.
    fn sure(&mut self, factor: f64) -> Result<[f64; 2], QuestionError> {
        let smallest = self.smallest()?;
        let (mut step, mut above) = (NEAR, factor);
        while self.look(above)?.top()[1] < SATURATED {
            above = (factor * (1.0 + step)).max(above + smallest);
            step *= 2.0;
        }
        let (mut step, mut below) = (NEAR, factor);
        while self.look(below)?.top()[2] >= SATURATED {
            let less = self.possible((factor / (1.0 + step)).min(below - smallest))?;
            if less >= below || less < FACTORS.0 {
                return Ok([0.0, above]);
            }
            below = less;
            step *= 2.0;
        }
        let of = |surely: fn(&Look) -> bool| {
            self.tried.iter().filter(move |look| surely(look)).map(|look| look.factor)
        };
        let below = of(|look| look.top()[2] < SATURATED).filter(|at| *at <= factor);
        let above = of(|look| look.top()[1] >= SATURATED).filter(|at| *at >= factor);
        Ok([below.fold(0.0, f64::max), above.fold(f64::INFINITY, f64::min)])
    }
}

/// The names of those that are saturated, or as good as.
fn together(look: &Look) -> Vec<String> {
    match (&look.shares, &look.grows) {
        (Some(shares), _) => {
            let near = shares.iter().filter(|busy| busy.share.mean >= SATURATED - TOGETHER);
            near.map(|busy| busy.name.clone()).collect()
        }
        // The message names it as "gate `name`" or "station `name`".
        (None, place) => {
            let name = place.as_deref().and_then(|place| place.split('`').nth(1));
            name.map(str::to_owned).into_iter().collect()
        }
    }
}

/// Completions of all classes. Their intervals are added: no more than that is known of how they go
/// together.
fn total(outcome: &sim::Outcome) -> Estimate {
    let all = outcome.classes.iter().map(|class| class.throughput);
    all.reduce(|a, b| Estimate {
        mean: a.mean + b.mean,
        half_width: a.half_width + b.half_width,
        ..a
    })
    .expect("a network has a class")
}

/// Gives a part more than anybody needs: a station with as many servers as jobs is a delay, and has no order and no bound.
/// Each job is served as fast as its fastest server serves one alone.
fn relieve(network: &mut Network, part: Part) {
    match part {
        Part::Station(at) => {
            let station = &mut network.stations[at];
            let fastest = match &station.speed {
                Speed::One => None,
                Speed::Servers(speeds) => speeds.iter().copied().reduce(f64::max),
                Speed::Curve(curve) => curve.first().copied(),
            };
            *station = match fastest {
                None => Station::new(&station.name, StationKind::Delay),
                Some(fastest) => Station {
                    speed: Speed::Curve(
                        (1..=RELIEVED).map(|n| (f64::from(n) * fastest).min(SPEED_MAX)).collect(),
                    ),
                    ..Station::new(&station.name, StationKind::Sharing { processors: RELIEVED })
                },
            };
        }
        Part::Gate(at) => {
            let servers = &mut network.gates[at].spec.servers;
            let each = (RELIEVED / servers.len() as u32).max(1);
            servers.iter_mut().for_each(|server| server.slots = server.slots.max(each));
        }
    }
}
