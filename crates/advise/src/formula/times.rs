//! Quantiles of the response time of one queue, where a formula knows its distribution, and the sizes
//! at which a mean response is told.

use serde::Serialize;
use sim::Sizes;
use solve::{Ekmc, Exactness, FifoTimes, LpsTimes, Mm1, Mmc, PsTimes, SolveError};

use super::nodes::{Dealing, Kind, Node, Nodes};
use super::{Detail, Effort, Trust, laws, trust};

/// The quantiles that are told.
const TOLD: [f64; 4] = [0.5, 0.9, 0.95, 0.99];

/// A transform is inverted for a list of at most so many values: its cost grows with their square.
const VALUES_MAX: usize = 16;

/// Multiplications that one distribution may cost: about a second, and a twentieth of one.
const WORK_MAX: f64 = 1e9;
const WORK_MAX_QUICK: f64 = 5e7;

/// Quantiles of the response time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quantiles {
    /// Each q with the response time that this share of the requests does not exceed \[s\].
    pub list: Vec<(f64, f64)>,
    /// Trust that they deserve.
    pub trust: Trust,
}

impl Quantiles {
    /// The response time that a share q of the requests does not exceed \[s\], where that is told.
    pub fn at(&self, q: f64) -> Option<f64> {
        self.list.iter().find(|(at, _)| (at - q).abs() < 1e-9).map(|(_, value)| *value)
    }
}

/// Quantiles where one node makes jobs wait and all others are constant delays; none where they are
/// not known, or would take too long.
pub(super) fn quantiles(
    lambda: f64,
    nodes: &Nodes,
    at: usize,
    detail: Detail,
) -> Option<Quantiles> {
    let work_max = match detail.effort {
        _ if !detail.all => return None,
        Effort::Full => WORK_MAX,
        Effort::Quick => WORK_MAX_QUICK,
    };
    let node = &nodes.list[at];
    let others = nodes.list.iter().enumerate().filter(|(other, _)| *other != at);
    let mut delay = 0.0;
    for (_, other) in others {
        // A delay that varies would have to be convolved with the rest.
        other.moments.filter(|moments| moments.scv() < 1e-12)?;
        delay += other.demand;
    }
    let is_in_order = node.gate.is_none_or(|front| front.in_order);
    if nodes.fair_share || !is_in_order {
        return None;
    }
    let quantile = of_node(lambda, node, work_max)?;
    let mut list = Vec::new();
    let mut exactness = Exactness::Exact;
    for q in TOLD {
        let (value, of_this) = quantile(q).ok()?;
        exactness = of_this;
        list.push((q, delay + value));
    }
    Some(Quantiles { list, trust: trust(exactness, nodes.fair_share) })
}

type Quantile = Box<dyn Fn(f64) -> Result<(f64, Exactness), SolveError>>;

/// The response time at a node against q.
fn of_node(lambda: f64, node: &Node, work_max: f64) -> Option<Quantile> {
    let laws::Law { demand, values, .. } = node.law.clone()?;
    let exact = |value: Result<f64, SolveError>| value.map(|value| (value, Exactness::Exact));
    // What comes to each queue.
    let lambda = lambda / node.dealing.queues();
    Some(match node.kind {
        Kind::Fifo { servers } if let Dealing::InTurn(gaps) = node.dealing => {
            let queue = Ekmc::new(lambda, gaps, node.demand, servers).ok()?;
            Box::new(move |q| exact(queue.response_quantile(q)))
        }
        _ if !node.curve.is_empty() && !matches!(node.kind, Kind::Limited { .. }) => return None,
        Kind::Fifo { servers: 1 } if node.is_exponential => {
            let queue = Mm1::new(lambda, node.demand).ok()?;
            Box::new(move |q| exact(queue.response_quantile(q)))
        }
        Kind::Fifo { servers } if node.is_exponential => {
            let queue = Mmc::new(lambda, node.demand, servers).ok()?;
            Box::new(move |q| exact(queue.response_quantile(q)))
        }
        Kind::Fifo { servers: 1 } if values <= VALUES_MAX => {
            let times = FifoTimes::new(lambda, demand).ok()?;
            Box::new(move |q| times.response_quantile(q))
        }
        Kind::Sharing { processors: 1 } => {
            let times = PsTimes::within(lambda, demand, work_max).ok()?;
            Box::new(move |q| times.response_quantile(q))
        }
        Kind::Limited { slots, processors: 1 } => {
            let times = LpsTimes::within(lambda, demand, &node.speeds(slots), work_max).ok()?;
            Box::new(move |q| times.response_quantile(q))
        }
        Kind::Fifo { .. } | Kind::Sharing { .. } | Kind::Limited { .. } | Kind::Delay => {
            return None;
        }
    })
}

/// Sizes at which the mean response is told, rising: the documents', or quantiles of a distribution.
pub(super) fn sizes(sizes: &Sizes) -> Vec<f64> {
    const STEPS: u32 = 48;
    let mut at = match sizes {
        Sizes::None => Vec::new(),
        Sizes::Documents(set, _) => {
            set.documents().iter().map(|document| document.bytes as f64).collect()
        }
        Sizes::Drawn(dist) => {
            let Some(law) = laws::of_dist(dist) else { return Vec::new() };
            let ends = (law.demand.quantile(0.001), law.demand.quantile(0.9995));
            let (Ok(low), Ok(high)) = ends else { return Vec::new() };
            let ratio = (high / low.max(1e-9)).powf(1.0 / f64::from(STEPS));
            (0..=STEPS).map(|i| low.max(1e-9) * ratio.powf(f64::from(i))).collect()
        }
    };
    at.retain(|bytes| *bytes > 0.0);
    at.sort_by(f64::total_cmp);
    at.dedup();
    at
}
