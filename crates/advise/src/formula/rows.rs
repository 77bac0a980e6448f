//! Answer of a formula for each gate and station: the table that people know from other tools.

use serde::Serialize;
use solve::VisitAnswer;

use super::nodes::{Node, Nodes, is_even};
use super::{ClassAnswer, Served};

/// Answer of a formula for one gate or station: a row of the table Station, Class, QLen, Util,
/// RespT, ResidT, ArvR, Tput. Jobs that hold a slot of a gate are counted there, and at the station
/// inside.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeAnswer {
    /// The gate or station; of a layered model, the task or processor.
    pub station: String,
    /// The class, or the entry of a task; none where the numbers are of all together.
    pub class: Option<String>,
    /// Mean number of jobs there, waiting, holding a slot or served (QLen).
    pub jobs: Option<f64>,
    /// Mean share of the servers, slots or threads that is busy, from 0 to 1 for any number of them
    /// (Util); none where nobody ever waits.
    pub utilisation: Option<f64>,
    /// Time of one visit, waiting included (RespT) \[s\].
    #[serde(rename = "response_s")]
    pub response: Option<f64>,
    /// Time of all visits of a job (ResidT) \[s\].
    #[serde(rename = "residence_s")]
    pub residence: Option<f64>,
    /// Arrivals (ArvR) [1/s].
    #[serde(rename = "arrival_rate_per_s")]
    pub arrival_rate: f64,
    /// Departures (Tput) [1/s].
    #[serde(rename = "throughput_per_s")]
    pub throughput: f64,
}

impl NodeAnswer {
    /// A row of a network's answer.
    pub fn of_visit(station: &str, class: &str, visit: VisitAnswer) -> NodeAnswer {
        NodeAnswer {
            station: station.to_owned(),
            class: Some(class.to_owned()),
            jobs: Some(visit.jobs),
            utilisation: visit.utilisation,
            response: Some(visit.response),
            residence: Some(visit.residence),
            arrival_rate: visit.arrival_rate,
            throughput: visit.throughput,
        }
    }
}

/// The rows of one class, from a job's time at each node.
pub(super) fn of_class(
    network: &sim::Network,
    nodes: &Nodes,
    served: &[Served],
    class: &ClassAnswer,
) -> Vec<NodeAnswer> {
    let x = class.throughput;
    let mut rows = Vec::new();
    for (node, served) in nodes.list.iter().zip(served) {
        let hold = served.stretch * node.demand;
        let row = |station: &str, share: f64, residence: Option<f64>, busy| NodeAnswer {
            station: station.to_owned(),
            class: Some(class.name.clone()),
            jobs: residence.map(|residence| share * x * residence),
            utilisation: busy,
            response: residence.map(|residence| residence / node.visits),
            residence: residence.map(|residence| share * residence),
            arrival_rate: share * x * node.visits,
            throughput: share * x * node.visits,
        };
        let residence = served.fixed + hold;
        // Who waits for a slot is not at the station; where some wait at each, how many is not known.
        let at_station = match node.gate {
            None => Some(residence),
            Some(front) => {
                let held = front.has_wait.then(|| x * hold / f64::from(front.slots));
                rows.push(row(&network.gates[front.index].name, 1.0, Some(residence), held));
                front.has_wait.then_some(hold)
            }
        };
        for (station, share, busy) in at_stations(network, node, x) {
            rows.push(row(&network.stations[station].name, share, at_station, busy));
        }
    }
    rows
}

/// The stations of a node: which, the share of the visits that each has, and the share of its servers
/// that is busy with so many jobs a second [1/s], where that is known. None where a router prefers some
/// of several to others.
pub(super) fn at_stations<'a>(
    network: &'a sim::Network,
    node: &'a Node,
    x: f64,
) -> impl Iterator<Item = (usize, f64, Option<f64>)> + 'a {
    let share = 1.0 / node.stations.len() as f64;
    let gate = node.gate.map(|front| &network.gates[front.index].spec);
    let told = node.stations.len() == 1 || gate.is_some_and(is_even);
    node.stations.iter().filter(move |_| told).map(move |&station| {
        let servers = network.stations[station].kind.capacity();
        // Where the speed varies, the share of time that it is busy is not its work over a speed.
        let servers = servers.filter(|_| node.curve.is_empty());
        (station, share, servers.map(|n| share * x * node.demand / f64::from(n)))
    })
}
