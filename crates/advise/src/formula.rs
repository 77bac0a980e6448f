//! The formula's witness: which shapes of scenarios `solve` can answer, and with which formula.
//!
//! The one idea: the route is boiled down to nodes, each a station with the gate that stands right in
//! front of it, and what is asked of it by a job in all. A formula is chosen by what the nodes are; a
//! scenario that fits none is told so, with the reason, and never gets a number of a neighbour.

mod bounds;
mod layers;
mod nodes;
mod plain;
mod product;
mod rows;

use std::fmt;

use serde::Serialize;
use sim::{Load, Network, Sizes};
use solve::{
    ClosedGate, ClosedNetwork, Exactness, Mg1Fifo, Mg1Lps, Mm1, Mmc, OpenNetwork, SolveError,
};
use workload::Arrivals;

pub use bounds::Bounds;
use nodes::{Kind, Node, Nodes};
pub use product::product_form;
pub use rows::NodeAnswer;

use crate::{Scenario, ScenarioError};

/// What a formula says of a scenario: means over a long time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FormulaAnswer {
    /// The formula's name.
    pub name: String,
    /// Where it comes from.
    pub source: &'static str,
    /// Completions [1/s].
    #[serde(rename = "throughput_per_s")]
    pub throughput: f64,
    /// Mean response time, without thinking \[s\].
    #[serde(rename = "response_s")]
    pub response: f64,
    /// Mean wait for a slot \[s\], where there is one gate and the formula knows it.
    #[serde(rename = "wait_s")]
    pub wait: Option<f64>,
    /// Gates' slots and stations' servers: the share that is busy, 0 to 1, by name.
    pub utilisation: Vec<(String, f64)>,
    /// Mean response by the job's size, where the class has sizes.
    pub given_size: Option<GivenSize>,
    /// Mean response by document, where the class has documents.
    pub documents: Vec<DocumentAnswer>,
    /// How far the means may be trusted.
    pub trust: Trust,
    /// What was left aside, in sentences.
    pub remarks: Vec<String>,
    /// What throughput and response time cannot exceed.
    pub bounds: Option<Bounds>,
    /// The classes, in the scenario's order; throughput and response above are of all together.
    pub classes: Vec<ClassAnswer>,
    /// Gates and stations, class by class where that is known.
    pub nodes: Vec<NodeAnswer>,
}

/// What a formula says of one class of jobs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassAnswer {
    /// Its name.
    pub name: String,
    /// Completions [1/s].
    #[serde(rename = "throughput_per_s")]
    pub throughput: f64,
    /// Mean response time, without thinking \[s\].
    #[serde(rename = "response_s")]
    pub response: f64,
}

/// How far an answer may be trusted as the answer of the model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trust {
    /// Whether it is the model's true value.
    pub exact: bool,
    /// The largest relative error seen where it was tried; none if it is exact, or was not tried.
    pub error: Option<f64>,
    /// The same in words.
    pub text: String,
}

/// Mean response time by the job's size x \[bytes\]: a straight line in all these formulas.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GivenSize {
    /// At size 0 \[s\].
    #[serde(rename = "base_s")]
    pub base: f64,
    /// For each byte more \[s/byte\].
    #[serde(rename = "per_byte_s")]
    pub per_byte: f64,
    /// How far the line may be trusted.
    pub trust: Trust,
}

impl GivenSize {
    /// Mean response time of a job of this size \[s\].
    pub fn response(&self, bytes: f64) -> f64 {
        self.base + self.per_byte * bytes
    }
}

/// Mean response time of one document.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DocumentAnswer {
    /// Its name.
    pub name: String,
    /// Its size \[bytes\].
    pub bytes: u64,
    /// Mean response time \[s\].
    #[serde(rename = "response_s")]
    pub response: f64,
}

impl FormulaAnswer {
    /// Which formula, how exact, and what was left aside, in one line.
    pub fn note(&self) -> String {
        let mut note = format!("{} ({}): {}", self.name, self.source, self.trust.text);
        for remark in &self.remarks {
            note.push_str("; ");
            note.push_str(remark);
        }
        note
    }
}

/// Why no formula answers a scenario.
#[derive(Clone, Debug, PartialEq)]
pub enum NoFormula {
    /// The scenario is impossible.
    Scenario(ScenarioError),
    /// No formula fits its shape.
    Shape {
        /// Why.
        reason: String,
        /// What its throughput and response time cannot exceed all the same.
        bounds: Option<Bounds>,
    },
    /// A formula fits, but not with these numbers: too much load, above all.
    Solve(SolveError),
}

impl fmt::Display for NoFormula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoFormula::Scenario(error) => error.fmt(f),
            NoFormula::Shape { reason, .. } => write!(f, "no formula: {reason}; use `sekisho sim`"),
            NoFormula::Solve(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NoFormula {}

impl From<ScenarioError> for NoFormula {
    fn from(error: ScenarioError) -> NoFormula {
        NoFormula::Scenario(error)
    }
}

impl From<SolveError> for NoFormula {
    fn from(error: SolveError) -> NoFormula {
        NoFormula::Solve(error)
    }
}

impl From<String> for NoFormula {
    fn from(reason: String) -> NoFormula {
        NoFormula::Shape { reason, bounds: None }
    }
}

/// Answers a scenario by a formula.
///
/// | the load is | the way is | formula |
/// | --- | --- | --- |
/// | open, Poisson | one FIFO queue, exponential | M/M/1, M/M/c |
/// | open, Poisson | one FIFO queue of one server, any demand | Pollaczek-Khinchine |
/// | open, Poisson | a gate before one sharing processor | limited processor sharing (fujita) |
/// | open, Poisson | stations of product form | Jackson; alone and shared: M/G/1 PS |
/// | closed | stations of product form | exact mean values |
/// | closed | a gate before one sharing station, delays elsewhere | closed gate |
/// | open, Poisson, or closed | stations of product form, several classes | network of several classes |
/// | open, Poisson, or closed | slots held through several steps or gates, several classes | layered model |
///
/// Delays may stand before and after. Stations of product form are FIFO queues with exponential
/// demand, sharing stations, delays, and gates whose slots have a processor each.
///
/// # Errors
/// If the scenario is impossible, no formula fits its shape (the reason says what does not), or the
/// load is more than the formula, and the server, can take.
pub fn formula(scenario: &Scenario) -> Result<FormulaAnswer, NoFormula> {
    let network = scenario.network()?;
    if let Some(reason) = plain::beyond_formulas(&network) {
        return Err(reason.into());
    }
    let bounds = bounds::bounds(&network);
    let none = match answer(&network, bounds.clone()) {
        Err(NoFormula::Shape { reason, .. }) => reason,
        answered => return answered,
    };
    if !layers::fits(&network) {
        return Err(NoFormula::Shape { reason: none, bounds });
    }
    layers::answer(&network, bounds.clone()).map_err(|reason| NoFormula::Shape { reason, bounds })
}

fn answer(network: &Network, bounds: Option<Bounds>) -> Result<FormulaAnswer, NoFormula> {
    let [class] = &*network.classes else { return product::answer(network) };
    let nodes = Nodes::of(network, class)?;
    let found = match &class.load {
        Load::Open(Arrivals::Fixed { .. }) => {
            let reason = "its arrivals have equal gaps, and the formulas need Poisson arrivals";
            return Err(reason.to_owned().into());
        }
        Load::Open(Arrivals::Poisson { rate }) => open(*rate, &nodes)?,
        Load::Closed { population, think } => closed(*population, think.mean(), &nodes)?,
        Load::Varying(_) | Load::Trace(_) | Load::Within => {
            return Err("the formulas know constant loads only".to_owned().into());
        }
    };
    Ok(found.answer(network, &class.sizes, nodes, bounds))
}

/// What a formula found, node by node.
struct Found {
    name: String,
    source: &'static str,
    throughput: f64,
    /// Of the means, and of those given the size.
    exactness: (Exactness, Exactness),
    served: Vec<Served>,
}

/// A job's time at a node: fixed + stretch times its demand there.
struct Served {
    /// What does not depend on the job's own demand: the wait \[s\].
    fixed: f64,
    /// How much longer than its demand its service takes.
    stretch: f64,
}

impl Served {
    /// First in first out: a wait, then service at full speed.
    fn queued(residence: f64, demand: f64) -> Served {
        Served { fixed: (residence - demand).max(0.0), stretch: 1.0 }
    }

    /// Service that the others slow down, in proportion.
    fn shared(residence: f64, demand: f64) -> Served {
        Served { fixed: 0.0, stretch: if demand > 0.0 { residence / demand } else { 1.0 } }
    }

    fn alone() -> Served {
        Served { fixed: 0.0, stretch: 1.0 }
    }
}

impl Found {
    fn exact(
        name: impl Into<String>,
        source: &'static str,
        throughput: f64,
        served: Vec<Served>,
    ) -> Found {
        let exactness = (Exactness::Exact, Exactness::Exact);
        Found { name: name.into(), source, throughput, exactness, served }
    }

    fn answer(
        self,
        network: &Network,
        sizes: &Sizes,
        nodes: Nodes,
        bounds: Option<Bounds>,
    ) -> FormulaAnswer {
        let pairs = || nodes.list.iter().zip(&self.served);
        let response = pairs().map(|(node, served)| served.fixed + served.stretch * node.demand);
        let base = pairs().map(|(node, served)| served.fixed + served.stretch * node.base);
        let per_byte = pairs().map(|(node, served)| served.stretch * node.per_byte);
        let given_size = GivenSize {
            base: base.sum(),
            per_byte: per_byte.sum(),
            trust: trust(self.exactness.1, nodes.fair_share),
        };
        let documents = match sizes {
            Sizes::Documents(set, _) => set.documents(),
            Sizes::None | Sizes::Drawn(_) => &[],
        };
        let document = |document: &workload::Document| DocumentAnswer {
            name: document.name.clone(),
            bytes: document.bytes,
            response: given_size.response(document.bytes as f64),
        };
        let response = response.sum();
        let name = network.classes[0].name.clone();
        let class = ClassAnswer { name, throughput: self.throughput, response };
        FormulaAnswer {
            nodes: rows::of_class(network, &nodes, &self.served, &class),
            classes: vec![class],
            throughput: self.throughput,
            response,
            wait: self.wait(network, &nodes),
            utilisation: self.utilisation(network, &nodes),
            documents: documents.iter().map(document).collect(),
            trust: trust(self.exactness.0, nodes.fair_share),
            given_size: (!matches!(sizes, Sizes::None)).then_some(given_size),
            remarks: nodes.remarks,
            name: self.name,
            source: self.source,
            bounds,
        }
    }

    /// The wait for a slot, where there is one gate.
    fn wait(&self, network: &Network, nodes: &Nodes) -> Option<f64> {
        if network.gates.len() != 1 {
            return None;
        }
        if nodes.gates_ignored {
            return Some(0.0);
        }
        let mut pairs = nodes.list.iter().zip(&self.served);
        let (_, served) = pairs.find(|(node, _)| node.gate.is_some_and(|gate| gate.has_wait))?;
        Some(served.fixed)
    }

    fn utilisation(&self, network: &Network, nodes: &Nodes) -> Vec<(String, f64)> {
        let mut gates = Vec::new();
        let mut stations = Vec::new();
        for (node, served) in nodes.list.iter().zip(&self.served) {
            if let Some(gate) = node.gate.filter(|gate| gate.has_wait) {
                let held = self.throughput * served.stretch * node.demand;
                gates.push((network.gates[gate.index].name.clone(), held / f64::from(gate.slots)));
            }
            let station = &network.stations[node.station];
            if let Some(capacity) = station.kind.capacity() {
                let busy = self.throughput * node.demand;
                stations.push((station.name.clone(), busy / f64::from(capacity)));
            }
        }
        gates.append(&mut stations);
        gates
    }
}

fn trust(exactness: Exactness, fair_share: bool) -> Trust {
    match (exactness, fair_share) {
        (Exactness::Exact, false) => {
            Trust { exact: true, error: None, text: exactness.to_string() }
        }
        (Exactness::Exact, true) => {
            let text = "exact for ideal sharing, for a fair share by quantum not tried".into();
            Trust { exact: false, error: None, text }
        }
        (Exactness::Approximate { error, .. }, _) => {
            Trust { exact: false, error: Some(error), text: exactness.to_string() }
        }
    }
}

fn open(lambda: f64, nodes: &Nodes) -> Result<Found, NoFormula> {
    if nodes.dealt {
        // At rho = 0.8 with WebStone's documents, the mean response of the formulas is 1.5 to 2.2
        // times that of the deck: its one huge document comes about every 1000, never twice in a row.
        let reason = "its documents are dealt from a deck, so that huge ones never come together, and \
                      the formulas for open load draw each independently; list them with `draw = \
                      \"random\"`";
        return Err(reason.to_owned().into());
    }
    let mut busy = nodes.list.iter().enumerate().filter(|(_, node)| node.kind != Kind::Delay);
    if let (Some((at, node)), None) = (busy.next(), busy.next())
        && let Some(found) = alone(lambda, node).map_err(|error| named(error, node))?
    {
        let mut served: Vec<Served> = nodes.list.iter().map(|_| Served::alone()).collect();
        served[at] = found.served;
        let Alone { name, source, exactness, .. } = found;
        return Ok(Found { name, source, throughput: lambda, exactness, served });
    }
    jackson(lambda, nodes)
}

/// What a formula says of a node with nothing but delays beside it.
struct Alone {
    name: String,
    source: &'static str,
    exactness: (Exactness, Exactness),
    served: Served,
}

/// The formula of one queue; none if it is left to the networks.
fn alone(lambda: f64, node: &Node) -> Result<Option<Alone>, SolveError> {
    let exact = |name: String, source, wait| Alone {
        name,
        source,
        exactness: (Exactness::Exact, Exactness::Exact),
        served: Served { fixed: wait, stretch: 1.0 },
    };
    Ok(match (node.kind, node.moments) {
        (Kind::Fifo { servers: 1 }, Some(_)) if node.is_exponential => {
            let queue = Mm1::new(lambda, node.demand)?;
            Some(exact("M/M/1".into(), "Erlang", queue.wait()))
        }
        (Kind::Fifo { servers }, Some(_)) if node.is_exponential => {
            let queue = Mmc::new(lambda, node.demand, servers)?;
            Some(exact(format!("M/M/{servers}"), "Erlang's C", queue.wait()))
        }
        (Kind::Fifo { servers: 1 }, Some(moments)) => {
            let queue = Mg1Fifo::new(lambda, moments)?;
            Some(exact("M/G/1".into(), "Pollaczek and Khinchine", queue.wait()))
        }
        (Kind::Limited { slots, processors: 1 }, Some(moments)) => {
            let queue = Mg1Lps::new(lambda, moments, Some(slots))?;
            let stretch = queue.hold_given(node.demand)? / node.demand;
            Some(Alone {
                name: format!("M/G/1 limited processor sharing, r = {slots}"),
                source: "fujita, eq. 1 and 2",
                exactness: (queue.exactness(), queue.exactness_given()),
                served: Served { fixed: queue.wait(), stretch },
            })
        }
        _ => None,
    })
}

/// Open stations of product form.
fn jackson(lambda: f64, nodes: &Nodes) -> Result<Found, NoFormula> {
    if nodes.list.is_empty() {
        return Err("no step of its route takes any time".to_owned().into());
    }
    let stations = nodes.product_form()?;
    let answer = OpenNetwork::new(lambda, &stations)
        .map_err(|error| match nodes.overloaded(lambda) {
            Some(node) => named(error, node),
            None => error,
        })?
        .solve();
    let served = nodes.served(answer.stations.iter().map(|station| station.residence));
    let (name, source) = match nodes.list.iter().find(|node| node.kind != Kind::Delay) {
        Some(Node { kind: Kind::Sharing { processors: 1 }, .. }) if nodes.busy() == 1 => {
            ("M/G/1 processor sharing", "fujita, eq. 4")
        }
        None => ("M/G/infinity", "delays alone"),
        Some(_) => ("open network of product form", "Jackson 1957; Baskett et al. 1975"),
    };
    Ok(Found::exact(name, source, lambda, served))
}

fn closed(population: u32, think: f64, nodes: &Nodes) -> Result<Found, NoFormula> {
    let mut found = closed_undealt(population, think, nodes)?;
    // Where one server is always full, no order of the documents changes anything.
    let is_always_full = think == 0.0 && nodes.list.len() == 1;
    if nodes.dealt && !is_always_full {
        let (mean, given) = found.exactness;
        found.exactness = (dealt(mean, 0.02), dealt(given, 0.10));
    }
    Ok(found)
}

/// An exact formula asked about documents from a deck. The errors were seen with WebStone's documents
/// before one sharing server, 6 to 16 clients and utilisations from 0.5 to 1: 1.3 % in the mean, and
/// 7.6 % for the largest document.
fn dealt(exactness: Exactness, error: f64) -> Exactness {
    match exactness {
        Exactness::Exact => Exactness::Approximate {
            source: "documents are taken as drawn independently, not dealt from a deck",
            error,
        },
        approximate => approximate,
    }
}

/// A closed load, as if each document were drawn independently.
fn closed_undealt(population: u32, think: f64, nodes: &Nodes) -> Result<Found, NoFormula> {
    let limited = nodes.list.iter().enumerate();
    let mut limited = limited.filter(|(_, node)| matches!(node.kind, Kind::Limited { .. }));
    let Some((at, node)) = limited.next() else {
        let stations = nodes.product_form()?;
        let answer = ClosedNetwork::new(population, think, &stations)?.solve();
        let served = nodes.served(answer.stations.iter().map(|station| station.residence));
        let (name, source) = ("closed network of product form", "exact mean values, Buzen 1973");
        return Ok(Found::exact(name, source, answer.throughput, served));
    };
    let Kind::Limited { slots, processors } = node.kind else { unreachable!("filtered above") };
    let others = || nodes.list.iter().enumerate().filter(|(other, _)| *other != at);
    if let Some((_, other)) = others().find(|(_, other)| other.kind != Kind::Delay) {
        return Err(format!(
            "beside the gate before `{}`, jobs queue at `{}` too, and a closed gate allows delays \
             only",
            node.name, other.name
        )
        .into());
    }
    let Some(moments) = node.moments else { return Err(node.visited_often().into()) };
    let delay: f64 = think + others().map(|(_, other)| other.demand).sum::<f64>();
    let gate = ClosedGate::new(population, delay, moments, slots)?.with_cores(processors)?;
    let answer = gate.solve();
    let mut served: Vec<Served> = nodes.list.iter().map(|_| Served::alone()).collect();
    served[at] = Served { fixed: answer.wait, stretch: answer.hold / node.demand };
    Ok(Found {
        name: format!("closed gate, c = {population}, r = {slots}"),
        source: "product form with a limited station",
        throughput: answer.throughput,
        exactness: (answer.exactness(), answer.exactness_given()),
        served,
    })
}

/// The error with the station's own name.
fn named(error: SolveError, node: &Node) -> SolveError {
    match error {
        SolveError::Unstable { rho, rate_max, .. } => {
            SolveError::Unstable { place: format!("station `{}`", node.name), rho, rate_max }
        }
        other => other,
    }
}
