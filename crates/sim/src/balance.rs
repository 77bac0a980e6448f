//! Balance of flows: in a steady state as many jobs leave as arrive, and stations are as busy as
//! the work that is brought to them. A run that is on its way up shows neither, however narrow the
//! intervals of its responses are. Growth of the number of jobs is looked for in the later half of
//! what is counted: what was still on its way when the counting began has come to its end by then,
//! and growth has none.

use measure::{Estimate, Parts};

use crate::network::Load;
use crate::observation::Observation;
use crate::program::{Op, Program};
use crate::tally::ClassTally;

/// The chance that a run in its steady state is taken for one that is not, over all that is looked at.
const FALSE_ALARM: f64 = 0.001;
/// By how much of its servers' time a station may differ from the work that is brought to it.
const BUSY_SLACK: f64 = 0.002;
/// Of fewer replications than this the interval is so wide at the confidence needed here (1273 standard
/// errors of two) that hardly anything would ever lie outside.
const REPLICATIONS_MIN: usize = 10;
/// Of so few, jobs may become more by this share of those that come, and a station's servers may differ
/// by this share of their time, at the most.
const FEW_SLACK: (f64, f64) = (0.01, 0.05);

/// The disagreement, in words; none if everything agrees, as far as chance allows.
pub(crate) fn imbalance(
    program: &Program,
    observations: &[Observation<'_>],
    relation: Parts,
) -> Option<String> {
    let flows = flows(program);
    let stations = program.offered.as_ref().map_or(0, Vec::len);
    let places = program.stations.len() + program.gates.len();
    let confidence = 1.0 - FALSE_ALARM / (flows.len() + stations + places) as f64;
    let found = flows
        .iter()
        .find_map(|(name, classes)| flow(name, classes, observations, relation, confidence));
    let found = found.or_else(|| busy(program, observations, relation, confidence));
    found.or_else(|| piled_up(program, observations, relation, confidence))
}

/// A station or a gate where more and more are: that is to be seen whatever the load, closed classes and
/// work that depends on a cache included.
fn piled_up(
    program: &Program,
    observations: &[Observation<'_>],
    relation: Parts,
    confidence: f64,
) -> Option<String> {
    let grows = |more: &dyn Fn(&Observation<'_>) -> (f64, f64)| {
        let (more, passed): (Vec<f64>, Vec<f64>) = observations.iter().map(more).unzip();
        is_trend(&more, &passed, relation, confidence).then(|| more.iter().sum::<f64>())
    };
    let told = |kind: &str, name: &str, more: f64| {
        let way = if more > 0.0 { "more" } else { "fewer" };
        format!(
            "{kind} `{name}`: the jobs there become {way} and {way}, by {:.0} so far",
            more.abs()
        )
    };
    let station = |at: usize| {
        let more = grows(&|observation| {
            (observation.stations[at].more as f64, observation.stations[at].passed as f64)
        })?;
        Some(told("station", &program.stations[at].name, more))
    };
    let gate = |at: usize| {
        let more = grows(&|observation| {
            let gate = observation.gates[at];
            let more = f64::from(gate.waiting) - f64::from(gate.waiting_before);
            (more, (gate.started - gate.started_before) as f64)
        })?;
        Some(told("gate", &program.gates[at].name, more))
    };
    let stations = (0..program.stations.len()).find_map(station);
    stations.or_else(|| (0..program.gates.len()).find_map(gate))
}

/// Classes whose jobs leave as the class that they arrived as: each by itself; all together where jobs
/// change their class.
pub(crate) fn flows(program: &Program) -> Vec<(String, Vec<usize>)> {
    let open = |at: &usize| matches!(program.classes[*at].load, Load::Open(_));
    if program.ops.iter().any(|op| matches!(op, Op::Become { .. })) {
        return vec![("all classes".into(), (0..program.classes.len()).collect())];
    }
    let named = |at: usize| (format!("class `{}`", program.classes[at].name), vec![at]);
    (0..program.classes.len()).filter(open).map(named).collect()
}

fn flow(
    name: &str,
    classes: &[usize],
    observations: &[Observation<'_>],
    relation: Parts,
    confidence: f64,
) -> Option<String> {
    let sum = |observation: &Observation<'_>, of: &dyn Fn(&ClassTally) -> u64| -> f64 {
        classes.iter().map(|&at| of(&observation.classes[at])).sum::<u64>() as f64
    };
    let arrived = |observation: &Observation<'_>| sum(observation, &|class| class.offered);
    let left =
        |observation: &Observation<'_>| sum(observation, &|class| class.completed + class.failed());
    let came = |observation: &Observation<'_>| sum(observation, &|class| class.since_mark().0);
    let went = |observation: &Observation<'_>| sum(observation, &|class| class.since_mark().1);
    let more: Vec<f64> =
        observations.iter().map(|observation| came(observation) - went(observation)).collect();
    let came: Vec<f64> = observations.iter().map(came).collect();
    if !is_trend(&more, &came, relation, confidence) {
        return None;
    }
    let span: f64 = observations.iter().map(|observation| observation.span).sum();
    let rate =
        |of: &dyn Fn(&Observation<'_>) -> f64| observations.iter().map(of).sum::<f64>() / span;
    Some(format!(
        "{name}: of {:.4} /s that arrive {:.4} /s leave, so that more and more are inside",
        rate(&arrived),
        rate(&left)
    ))
}

/// True if the numbers by which jobs become more show growth: by replications if their mean is
/// other than 0; in one run if it ends with other numbers inside than it began with. One job more
/// or less says nothing. `passed` are those that came, or left: the share of few replications is
/// one of these.
fn is_trend(more: &[f64], passed: &[f64], relation: Parts, confidence: f64) -> bool {
    match relation {
        Parts::Independent => {
            let mean = Estimate::from_independent(more, confidence);
            let few = FEW_SLACK.0 * passed.iter().sum::<f64>() / passed.len() as f64;
            mean.mean.abs() > least(mean.half_width, few, more.len()) + 1.0
        }
        Parts::Neighbours => {
            let mut inside = 0.0;
            let inside: Vec<f64> = more
                .iter()
                .map(|more| {
                    inside += more;
                    inside
                })
                .collect();
            let third = inside.len() / 3;
            if third < 2 {
                return true;
            }
            let first = Estimate::from_independent(&inside[..third], confidence);
            let last = Estimate::from_independent(&inside[inside.len() - third..], confidence);
            // Neighbours are alike, so that each interval counts in full.
            (last.mean - first.mean).abs() > first.half_width + last.half_width + 1.0
        }
    }
}

/// The deviation that an interval allows; of few replications no more than a share.
fn least(half_width: f64, few: f64, replications: usize) -> f64 {
    if replications < REPLICATIONS_MIN { half_width.min(few) } else { half_width }
}

/// Stations that are less or more busy than the work that arrives makes them.
fn busy(
    program: &Program,
    observations: &[Observation<'_>],
    relation: Parts,
    confidence: f64,
) -> Option<String> {
    program.offered.as_ref()?.iter().find_map(|offered| {
        let capacity = |&at: &usize| program.stations[at].kind.capacity().map(f64::from);
        let servers: f64 = offered.stations.iter().map(capacity).sum::<Option<f64>>()?;
        let busy_s = |observation: &Observation<'_>| {
            let all = offered.stations.iter().map(|&at| observation.stations[at].busy_s);
            (all.sum::<f64>() / servers, observation.span)
        };
        let pairs: Vec<_> = observations.iter().map(busy_s).collect();
        let found = relation.ratio(&pairs, confidence)?;
        let rho = offered.servers / servers;
        let apart = (found.mean - rho).abs();
        let allowed = match relation {
            Parts::Independent => least(found.half_width, FEW_SLACK.1, observations.len()),
            Parts::Neighbours => found.half_width,
        };
        (apart > allowed + BUSY_SLACK).then(|| {
            let names = offered.stations.iter().map(|&at| format!("`{}`", program.stations[at].name));
            let (seen, due) = (100.0 * found.mean, 100.0 * rho);
            match &names.collect::<Vec<_>>()[..] {
                [name] => format!(
                    "station {name}: it is busy for {seen:.2} % of the time, and what arrives would make it \
                     {due:.2} %"
                ),
                names => format!(
                    "stations {}: they are busy for {seen:.2} % of their time, and what arrives would make \
                     them {due:.2} %",
                    names.join(", ")
                ),
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use gate::{GateSpec, ServerSpec};
    use workload::{Arrivals, Dist};

    use super::*;
    use crate::network::{Class, Demand, GateNode, Network, Speed, Station, StationKind, Step};
    use crate::observation::StationCounts;
    use crate::program::Offered;

    /// Span of each observation \[s\].
    const SPAN: f64 = 1000.0;

    /// One queue of two servers, to which 1.5 s of work come a second.
    fn program() -> Program {
        let mut network = Network::default();
        let queue = Station::new("disk", StationKind::Queue { servers: 2 });
        let station = network.add_station(queue);
        let demand = Demand::Drawn(Dist::Exponential { mean: 0.5 });
        let load = Load::Open(Arrivals::Poisson { rate: 3.0 });
        network.add_class(Class::new("jobs", load, vec![Step::Visit { station, demand }]));
        let program = Program::compile(&network).unwrap();
        assert_eq!(program.offered, Some(vec![Offered { stations: vec![0], servers: 1.5 }]));
        program
    }

    /// Observations in which as many jobs leave as come, with the server time and the growth of each.
    fn observed(seen: &[(f64, i64)], classes: &[ClassTally], relation: Parts) -> Option<String> {
        let program = program();
        let station = |&(busy_s, more)| StationCounts {
            jobs_s: busy_s,
            busy_s,
            served: 3000,
            lost: 0,
            more,
            passed: 1500,
        };
        let observations: Vec<Observation<'_>> = seen
            .iter()
            .map(|seen| Observation {
                span: SPAN,
                classes,
                gates: Vec::new(),
                stations: vec![station(seen)],
                caches: Vec::new(),
            })
            .collect();
        imbalance(&program, &observations, relation)
    }

    /// Twelve observations near a mean, the even ones a little above it.
    fn near(busy_s: f64, more: i64) -> Vec<(f64, i64)> {
        (0..12).map(|at| (busy_s + f64::from(at % 2) - 0.5, more)).collect()
    }

    #[test]
    fn a_station_is_as_busy_as_the_work_that_is_brought_to_it() {
        let classes = [ClassTally::new(&program().classes[0])];
        for relation in [Parts::Independent, Parts::Neighbours] {
            let seen = |busy_s: f64| observed(&near(busy_s, 0), &classes, relation);
            assert_eq!(seen(1500.0), None, "{relation:?}");
            for (busy_s, percent) in [(750.0, "37.50"), (1980.0, "99.00")] {
                let why = format!(
                    "station `disk`: it is busy for {percent} % of the time, and what arrives would \
                     make it 75.00 %"
                );
                assert_eq!(seen(busy_s), Some(why), "{relation:?}");
            }
        }
        // Two replications have hardly an interval: a share of 5 % of the servers' time is all that they
        // are allowed.
        let two = |busy_s: f64| {
            observed(&[(busy_s - 400.0, 0), (busy_s + 400.0, 0)], &classes, Parts::Independent)
        };
        assert_eq!(two(1410.0), None);
        assert!(two(1390.0).is_some_and(|why| why.contains("69.50 % of the time")));
    }

    /// Whoever does it, the work of a pool keeps its servers busy, all together; servers of speed 2 half as long.
    #[test]
    fn a_pool_is_as_busy_as_the_work_that_is_brought_to_it() {
        let mut network = Network::default();
        let speed = Speed::Servers(vec![2.0]);
        for name in ["a", "b"] {
            let station = Station::new(name, StationKind::Queue { servers: 1 });
            network.add_station(Station { speed: speed.clone(), ..station });
        }
        let spec = GateSpec { servers: vec![ServerSpec { slots: 1 }; 2], ..GateSpec::fifo(1) };
        let gate =
            network.add_gate(GateNode { stations: vec![0, 1], ..GateNode::new("pool", spec) });
        let demand = Demand::Drawn(Dist::Exponential { mean: 1.0 });
        let load = Load::Open(Arrivals::Poisson { rate: 3.0 });
        let inside = vec![Step::VisitServer { demand }];
        network.add_class(Class::new("jobs", load, vec![Step::Hold { gate, inside }]));
        let program = Program::compile(&network).unwrap();
        assert_eq!(program.offered, Some(vec![Offered { stations: vec![0, 1], servers: 1.5 }]));
        let seen = |of_a: f64, of_b: f64| {
            let station = |busy_s| StationCounts {
                jobs_s: busy_s,
                busy_s,
                served: 1500,
                lost: 0,
                more: 0,
                passed: 1500,
            };
            let observation = |at: usize| Observation {
                span: SPAN,
                classes: &[],
                gates: Vec::new(),
                stations: vec![station(of_a + (at % 2) as f64 - 0.5), station(of_b)],
                caches: Vec::new(),
            };
            let observations: Vec<_> = (0..12).map(observation).collect();
            busy(&program, &observations, Parts::Independent, 0.999)
        };
        assert_eq!(seen(900.0, 600.0), None, "the router's choice is its own");
        let why = "stations `a`, `b`: they are busy for 60.00 % of their time, and what arrives would make them \
                   75.00 %";
        assert_eq!(seen(700.0, 500.0).as_deref(), Some(why));
    }

    #[test]
    fn more_and_more_or_fewer_and_fewer_at_a_station_are_told() {
        let classes = [ClassTally::new(&program().classes[0])];
        let seen = |more: i64| observed(&near(1500.0, more), &classes, Parts::Independent);
        let told = |way: &str| {
            Some(format!("station `disk`: the jobs there become {way} and {way}, by 600 so far"))
        };
        assert_eq!((seen(50), seen(-50)), (told("more"), told("fewer")));
        assert_eq!((seen(1), seen(-1)), (None, None), "one job says nothing");
    }
}
