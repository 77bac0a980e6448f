//! Further numbers of one queue beside its response: who waits, how many are there, and how much
//! the times vary, where the literature has them in closed form.

use serde::Serialize;
use solve::{Ekmc, Mg1Fifo, Mg1Ps, Mm1, Mmc};

use super::Served;
use super::nodes::{Dealing, Kind, Node, Nodes};

/// One queue, over all of its classes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueAnswer {
    /// The station that serves.
    pub station: String,
    /// Mean wait before service, or before its first part where that may be interrupted; over all
    /// visits of a job \[s\].
    #[serde(rename = "wait_s")]
    pub wait: f64,
    /// Probability that a job must wait, P(wait), 0 to 1; none where it is not known.
    pub wait_probability: Option<f64>,
    /// Mean number of jobs there, waiting or served, L.
    pub jobs: f64,
    /// Mean number of those that are not served, Lq.
    pub waiting: f64,
    /// Variance of the wait \[s^2\]; none where it is not known in closed form.
    #[serde(rename = "wait_variance_s2")]
    pub wait_variance: Option<f64>,
    /// Variance of the response time, delays included \[s^2\]; none where it is not known in closed
    /// form.
    #[serde(rename = "response_variance_s2")]
    pub response_variance: Option<f64>,
}

/// The node that is alone with delays, from a job's time there.
pub(super) fn of(lambda: f64, nodes: &Nodes, at: usize, served: &Served) -> QueueAnswer {
    let node = &nodes.list[at];
    let known = Known::of(lambda / node.dealing.queues(), node).unwrap_or_default();
    // In another order than that of arrival, and by quanta, the means are the same and no more.
    let in_order = !nodes.fair_share && node.gate.is_none_or(|front| front.in_order);
    let delays = nodes.list.iter().enumerate().filter(|(other, _)| *other != at);
    let delays: Option<f64> = delays.map(|(_, node)| Some(node.moments?.variance())).sum();
    let hold = served.stretch * node.demand;
    QueueAnswer {
        station: node.name.clone(),
        wait: served.fixed,
        wait_probability: known.wait_probability,
        jobs: lambda * (served.fixed + hold),
        waiting: lambda * served.fixed,
        wait_variance: known.wait_variance.filter(|_| in_order),
        response_variance: known
            .response_variance
            .filter(|_| in_order)
            .zip(delays)
            .map(|(here, delays)| here + delays),
    }
}

/// Numbers of a queue that are known in closed form.
#[derive(Default)]
struct Known {
    wait_probability: Option<f64>,
    wait_variance: Option<f64>,
    response_variance: Option<f64>,
}

impl Known {
    /// The numbers at the rate of one queue.
    fn of(lambda: f64, node: &Node) -> Option<Known> {
        // Whether anybody waits depends on no order, and where all are served at once nobody does.
        let nobody =
            Known { wait_probability: Some(0.0), wait_variance: Some(0.0), ..Known::default() };
        if !node.curve.is_empty() {
            return matches!(node.kind, Kind::Sharing { .. }).then_some(nobody);
        }
        let moments = match node.kind {
            Kind::Sharing { .. } if node.moments.is_none() => return Some(nobody),
            _ => node.moments?,
        };
        Some(match node.kind {
            Kind::Fifo { servers } if let Dealing::InTurn(gaps) = node.dealing => {
                let queue = Ekmc::new(lambda, gaps, node.demand, servers).ok()?;
                Known {
                    wait_probability: Some(queue.wait_probability()),
                    wait_variance: Some(queue.wait_variance()),
                    response_variance: Some(queue.response_variance()),
                }
            }
            Kind::Fifo { servers: 1 } if node.is_exponential => {
                let queue = Mm1::new(lambda, node.demand).ok()?;
                Known {
                    wait_probability: Some(queue.wait_probability()),
                    wait_variance: Some(queue.wait_variance()),
                    response_variance: Some(queue.response_variance()),
                }
            }
            Kind::Fifo { servers } if node.is_exponential => {
                let queue = Mmc::new(lambda, node.demand, servers).ok()?;
                Known {
                    wait_probability: Some(queue.wait_probability()),
                    wait_variance: Some(queue.wait_variance()),
                    response_variance: Some(queue.response_variance()),
                }
            }
            Kind::Fifo { servers: 1 } => {
                let queue = Mg1Fifo::new(lambda, moments).ok()?;
                let third = node.law.as_ref().map(|law| law.demand.third_moment());
                Known {
                    wait_probability: Some(queue.wait_probability()),
                    wait_variance: third.and_then(|third| queue.wait_variance(third).ok()),
                    response_variance: third.and_then(|third| queue.response_variance(third).ok()),
                }
            }
            Kind::Sharing { processors: 1 } => {
                let queue = Mg1Ps::new(lambda, moments).ok()?;
                Known { response_variance: queue.response_variance(), ..nobody }
            }
            Kind::Sharing { .. } => nobody,
            Kind::Fifo { .. } | Kind::Limited { .. } | Kind::Delay => return None,
        })
    }
}
