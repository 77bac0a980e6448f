//! The formula's witness: the shapes of scenarios that `solve` can answer, and the formula for
//! each.
//!
//! The one idea: the route is boiled down to nodes, each a station with the gate that stands right in
//! front of it, and what is asked of it by a job in all. A formula is chosen by what the nodes are; a
//! scenario that fits none is told so, with the reason, and never gets a number of a neighbour.

mod bounds;
mod caches;
mod closed;
mod finite;
mod laws;
mod layers;
mod limited;
mod nodes;
mod plain;
mod product;
mod queue;
mod ranks;
mod remaining;
mod rows;
mod swing;
mod times;
mod variation;

use std::fmt;

use serde::Serialize;
use sim::{Load, Network, Sizes, Speed};
use solve::{Ekmc, Exactness, LpsAnswer, Mg1Fifo, Mm1, Mmc, OpenNetwork, SolveError};
use workload::Arrivals;

pub use bounds::{Bounds, ProductBounds};
pub use caches::CacheAnswer;
pub use limited::BestByFormula;
pub(crate) use limited::best;
use nodes::{Dealing, Kind, Node, Nodes};
pub use product::product_form;
pub use queue::QueueAnswer;
pub use rows::NodeAnswer;
pub use times::Quantiles;
pub use variation::layered_error;

use crate::{Scenario, ScenarioError};

/// Answer of a formula to a scenario: means over a long time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FormulaAnswer {
    /// The formula's name.
    pub name: String,
    /// Its source in the literature.
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
    /// Quantiles of the response time, where they are known.
    pub quantiles: Option<Quantiles>,
    /// Share of the requests that a gate turns away, 0 to 1, where one may; the means are of the others.
    pub refused: Option<f64>,
    /// Share of the requests that find a station full and are lost, 0 to 1, where one may; the means
    /// are of the others.
    pub lost: Option<f64>,
    /// Trust that the means deserve.
    pub trust: Trust,
    /// Simplifications that were made, in sentences.
    pub remarks: Vec<String>,
    /// Limits that throughput and response time cannot exceed.
    pub bounds: Option<Bounds>,
    /// The closer bounds and the knee of a closed network of product form.
    pub product_bounds: Option<ProductBounds>,
    /// The one queue of the scenario, where there is one with nothing but delays beside it.
    pub queue: Option<QueueAnswer>,
    /// The caches, in the scenario's order.
    pub caches: Vec<CacheAnswer>,
    /// The classes, in the scenario's order; throughput and response above are of all together.
    pub classes: Vec<ClassAnswer>,
    /// Gates and stations, class by class where that is known.
    pub nodes: Vec<NodeAnswer>,
}

/// Answer of a formula for one class of jobs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// Trust that an answer deserves as the answer of the model.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trust {
    /// True if it is the model's true value.
    pub exact: bool,
    /// The largest relative error seen where it was tried; none if it is exact, or was not tried.
    pub error: Option<f64>,
    /// The same in words.
    pub text: String,
}

/// Mean response time by the job's size x \[bytes\]: a straight line in most of these formulas.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GivenSize {
    /// At size 0 \[s\].
    #[serde(rename = "base_s")]
    pub base: f64,
    /// The part that is not straight: sizes \[bytes\], rising, with the mean response \[s\] there;
    /// straight from one to the next.
    pub curve: Vec<(f64, f64)>,
    /// Slope from the last size of the curve on: time for each further byte \[s/byte\].
    #[serde(rename = "per_byte_s")]
    pub per_byte: f64,
    /// Trust that it deserves.
    pub trust: Trust,
}

impl GivenSize {
    /// Mean response time of a job of this size \[s\].
    pub fn response(&self, bytes: f64) -> f64 {
        let at = self.curve.partition_point(|(size, _)| *size <= bytes);
        let (size, response) = if at == 0 { (0.0, self.base) } else { self.curve[at - 1] };
        let slope = match self.curve.get(at) {
            Some(next) => (next.1 - response) / (next.0 - size),
            None => self.per_byte,
        };
        response + slope * (bytes - size)
    }
}

/// Mean response time of one document.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DocumentAnswer {
    /// Its name.
    pub name: String,
    /// Its size \[bytes\].
    pub bytes: u64,
    /// Mean response time \[s\].
    #[serde(rename = "response_s")]
    pub response: f64,
}

/// Answer of a formula at one load of a curve, without all that takes longer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FormulaMeans {
    /// Completions [1/s].
    pub throughput: f64,
    /// Mean response time, without thinking \[s\].
    pub response: f64,
}

/// Time that a formula may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// A second or two: for one answer.
    Full,
    /// Some tens of milliseconds, for what moves with a slider: limited processor sharing then has
    /// its chain for fewer slots, and quantiles fewer of all.
    Quick,
}

/// Parts of an answer that are asked for, and the effort.
#[derive(Clone, Copy, Debug)]
struct Detail {
    effort: Effort,
    /// True if quantiles, sizes and documents are wanted, beside throughput and mean response.
    all: bool,
}

/// Up to this error a formula stands beside a simulation; beyond, the simulation is the answer.
const TRUSTED: f64 = 0.03;

/// Sentence that names the witness who answers, where a formula is off by up to `error`; none where
/// it is so near the truth that both do.
pub fn who_answers(error: f64) -> Option<String> {
    let percent = format!("{:.0}", error * 100.0);
    (error > TRUSTED)
        .then(|| format!("the formula is off by up to {percent} %, so the simulation answers."))
}

impl FormulaAnswer {
    /// Name of the formula, its exactness, and the simplifications that were made, in one line.
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
        /// Limits that its throughput and response time cannot exceed all the same.
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
/// | open, Poisson | a gate with one queue for several servers, a processor for each slot | as one queue |
/// | open, Poisson | a gate before like servers with a queue each, at random | each as one queue |
/// | open, Poisson | the same, round robin, exponential | E_k/M/c |
/// | open, Poisson | one FIFO queue of one server, any demand | Pollaczek-Khinchine |
/// | open, Poisson | a gate before one sharing processor, of one speed or a `speed-curve` | limited processor sharing as a chain; fujita's formula beyond 64 slots, or 128 |
/// | open, Poisson | one station, or a gate before one, with `room`, exponential | M/M/c/K |
/// | open, Poisson, several classes | one FIFO server with an `order`, any demand | M/G/1 with priorities |
/// | open, Poisson, one class or several | one FIFO server, the shortest remaining first | M/G/1 SRPT |
/// | open, Poisson | stations of product form | Jackson; alone and shared: M/G/1 PS |
/// | closed | stations of product form | exact mean values |
/// | closed | a gate before one sharing station, delays elsewhere | closed gate; a chain of phases where the demand is not exponential |
/// | open, Poisson, or closed | stations of product form, several classes, or a `speed-curve` | network of several classes |
/// | the same | one of them with an `order`, one server, exponential | the same, approximately |
/// | open, Poisson, or closed | slots held through several steps or gates, several classes | layered model |
///
/// Where keys are asked for independently, a cache's lookups are ways by chance.
///
/// Delays may stand before and after. Stations of product form are FIFO queues with exponential
/// demand, sharing stations, delays, and gates whose slots have a processor each.
///
/// Quantiles of the response time come with M/M/1 and M/M/c; with M/G/1 unless the demand is lognormal;
/// with exponential processor sharing; and with limited processor sharing of few exponential phases
/// and slots: alone, or with constant delays beside.
///
/// An approximation is told only where it was tried: not where demands that are not exponential may
/// swing the layered model too far, nor of an open load of more than 95 %.
///
/// # Errors
/// If the scenario is impossible, no formula fits its shape (the reason says what does not), or the
/// load is more than the formula, and the server, can take.
pub fn formula(scenario: &Scenario) -> Result<FormulaAnswer, NoFormula> {
    formula_with(scenario, Effort::Full)
}

/// The same, with this effort.
///
/// # Errors
/// As [`formula`], and if the effort is not enough and there is no cheaper formula.
pub fn formula_with(scenario: &Scenario, effort: Effort) -> Result<FormulaAnswer, NoFormula> {
    detailed(scenario, Detail { effort, all: true })
}

/// Throughput and mean response alone, for many loads at once: those of [`formula_with`].
///
/// # Errors
/// As [`formula_with`].
pub fn formula_means(scenario: &Scenario, effort: Effort) -> Result<FormulaMeans, NoFormula> {
    let answer = formula_outline(scenario, effort)?;
    Ok(FormulaMeans { throughput: answer.throughput, response: answer.response })
}

/// An answer without what takes longer than its means: sizes and quantiles.
pub(crate) fn formula_outline(
    scenario: &Scenario,
    effort: Effort,
) -> Result<FormulaAnswer, NoFormula> {
    detailed(scenario, Detail { effort, all: false })
}

fn detailed(scenario: &Scenario, detail: Detail) -> Result<FormulaAnswer, NoFormula> {
    let network = plain::without_idle_rules(scenario.network()?);
    let is_open = network.classes.iter().all(|class| matches!(class.load, Load::Open(_)));
    let stations: Vec<String> = network.stations.iter().map(|of| of.name.clone()).collect();
    let gates: Vec<String> = network.gates.iter().map(|of| of.name.clone()).collect();
    let answer = caches::answer(network, |network| without_caches(network, detail))?;
    match beyond_tried(&stations, &gates, &answer).filter(|_| is_open) {
        Some(reason) => Err(NoFormula::Shape { reason, bounds: answer.bounds }),
        None => Ok(answer),
    }
}

/// The largest utilisation by open load at which approximate formulas were tried: beyond, no simulation of
/// the grid knows the truth well enough.
const OPEN_TRIED_MAX: f64 = 0.95;

/// Errors below this share are rounding, and are stated by who knows how it grows.
const ROUNDING: f64 = 5e-3;

/// Why an answer under open load is out of what its formula was tried on, if it is.
fn beyond_tried(stations: &[String], gates: &[String], answer: &FormulaAnswer) -> Option<String> {
    let is_approximate = answer.trust.error.is_some_and(|error| error > ROUNDING);
    if !is_approximate || answer.lost.is_some() || answer.refused.is_some() {
        return None;
    }
    // Slots before a shared processor may all be held; those of layers were tried up to as much.
    let gates = if answer.name == layers::NAME { gates } else { &[] };
    let is_of = |(name, _): &&(String, f64)| stations.contains(name) || gates.contains(name);
    let busy = answer.utilisation.iter().filter(is_of);
    let (name, busy) = busy.max_by(|a, b| a.1.total_cmp(&b.1))?;
    // What is dealt to a server is rounded.
    (*busy > OPEN_TRIED_MAX + 2e-3).then(|| {
        format!(
            "the open load keeps `{name}` {:.1} % busy, and the `{}` was tried up to {:.0} %",
            100.0 * busy,
            answer.name,
            100.0 * OPEN_TRIED_MAX
        )
    })
}

/// The answer to a network that has no caches.
fn without_caches(network: &Network, detail: Detail) -> Result<FormulaAnswer, NoFormula> {
    if let Some(reason) = plain::beyond_formulas(network) {
        return Err(reason.into());
    }
    let bounds = bounds::bounds(network);
    // From the special to the general: the layered model fits most shapes, but only approximates,
    // and so comes last.
    if let Some(answered) = finite::answer(network) {
        return answered;
    }
    if let Some(answered) = ranks::answer(network).or_else(|| remaining::answer(network)) {
        return answered;
    }
    let none = match answer(network, bounds, detail) {
        Err(NoFormula::Shape { reason, .. }) => reason,
        answered => return answered,
    };
    if network.classes.len() == 1 && network.stations.iter().any(|of| of.speed != Speed::One) {
        match product::answer(network) {
            Err(NoFormula::Shape { .. }) => {}
            answered => return answered,
        }
    }
    if let Some(reason) = plain::beyond_layers(network) {
        let reason = if network.classes.len() == 1 { none } else { reason };
        return Err(NoFormula::Shape { reason, bounds });
    }
    if !layers::fits(network) {
        return Err(NoFormula::Shape { reason: none, bounds });
    }
    layers::answer(network, bounds).map_err(|none| match none {
        NoFormula::Shape { reason, .. } => NoFormula::Shape { reason, bounds },
        none => none,
    })
}

fn answer(
    network: &Network,
    bounds: Option<Bounds>,
    detail: Detail,
) -> Result<FormulaAnswer, NoFormula> {
    let [class] = &*network.classes else { return product::answer(network) };
    let nodes = Nodes::of(network, class)?;
    let found = match &class.load {
        Load::Open(Arrivals::Fixed { .. }) => {
            let reason = "its arrivals have equal gaps, and the formulas need Poisson arrivals";
            return Err(reason.to_owned().into());
        }
        Load::Open(Arrivals::Poisson { rate }) => open(*rate, &nodes, detail)?,
        Load::Closed { population, think } => {
            closed::found(*population, think, &nodes, detail.effort)?
        }
        Load::Varying(_) | Load::Trace(_) | Load::Within => {
            return Err("the formulas know constant loads only".to_owned().into());
        }
    };
    Ok(found.answer(network, &class.sizes, nodes, bounds))
}

/// Result of a formula, node by node.
struct Found {
    name: String,
    source: &'static str,
    throughput: f64,
    /// Exactness of the means, and of the means given the size.
    exactness: (Exactness, Exactness),
    served: Vec<Served>,
    quantiles: Option<Quantiles>,
    remark: Option<String>,
    queue: Option<QueueAnswer>,
    product_bounds: Option<ProductBounds>,
}

/// A job's time at a node: fixed + stretch times its demand there.
struct Served {
    /// The part that does not depend on the job's own demand: the wait \[s\].
    fixed: f64,
    /// Mean ratio of the time in service to the demand.
    stretch: f64,
    /// The same for each demand, where that differs.
    given: Option<LpsAnswer>,
}

impl Served {
    /// First in first out: a wait, then service at full speed.
    fn queued(residence: f64, demand: f64) -> Served {
        Served { fixed: (residence - demand).max(0.0), stretch: 1.0, given: None }
    }

    /// Service that the others slow down, in proportion.
    fn shared(residence: f64, demand: f64) -> Served {
        let stretch = if demand > 0.0 { residence / demand } else { 1.0 };
        Served { fixed: 0.0, stretch, given: None }
    }

    fn alone() -> Served {
        Served { fixed: 0.0, stretch: 1.0, given: None }
    }

    /// The time there of a job of this size.
    fn of_size(&self, node: &Node, bytes: f64) -> f64 {
        let demand = node.base + node.per_byte * bytes;
        // What does not depend on the size is as long as on average.
        let given = self.given.as_ref().filter(|_| node.per_byte > 0.0);
        let hold = given.and_then(|given| given.hold_given(demand).ok());
        self.fixed + hold.unwrap_or(self.stretch * demand)
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
        Found {
            name: name.into(),
            source,
            throughput,
            exactness,
            served,
            quantiles: None,
            remark: None,
            queue: None,
            product_bounds: None,
        }
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
        let response = response.sum();
        let given_size = self.given_size(sizes, &nodes);
        let documents = match sizes {
            Sizes::Documents(set, _) => set.documents(),
            Sizes::None | Sizes::Drawn(_) => &[],
        };
        let document = |document: &workload::Document| DocumentAnswer {
            name: document.name.clone(),
            bytes: document.bytes,
            response: given_size.response(document.bytes as f64),
        };
        let mut remarks = nodes.remarks.clone();
        remarks.extend(self.remark.clone());
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
            quantiles: self.quantiles,
            refused: None,
            lost: None,
            remarks,
            name: self.name,
            source: self.source,
            bounds,
            product_bounds: self.product_bounds,
            caches: Vec::new(),
            queue: self.queue,
        }
    }

    /// Mean response against size.
    fn given_size(&self, sizes: &Sizes, nodes: &Nodes) -> GivenSize {
        let pairs = || nodes.list.iter().zip(&self.served);
        let of_size =
            |bytes: f64| -> f64 { pairs().map(|(node, served)| served.of_size(node, bytes)).sum() };
        let bends = pairs().any(|(node, served)| served.given.is_some() && node.per_byte > 0.0);
        let at = if bends { times::sizes(sizes) } else { Vec::new() };
        let curve: Vec<(f64, f64)> = at.into_iter().map(|bytes| (bytes, of_size(bytes))).collect();
        let slope = |(node, served): (&Node, &Served)| match &served.given {
            Some(_) => {
                let last = curve.last().map_or(1.0, |(bytes, _)| *bytes);
                (served.of_size(node, 2.0 * last) - served.of_size(node, last)) / last
            }
            None => served.stretch * node.per_byte,
        };
        GivenSize {
            base: of_size(0.0),
            per_byte: pairs().map(slope).sum(),
            trust: trust(self.exactness.1, nodes.fair_share),
            curve,
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
            for (station, _, busy) in rows::at_stations(network, node, self.throughput) {
                stations.extend(busy.map(|busy| (network.stations[station].name.clone(), busy)));
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

fn open(lambda: f64, nodes: &Nodes, detail: Detail) -> Result<Found, NoFormula> {
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
        && let Some(found) = alone(lambda, node, detail)?
    {
        let mut served: Vec<Served> = nodes.list.iter().map(|_| Served::alone()).collect();
        served[at] = found.served;
        let Alone { name, source, exactness, remark, .. } = found;
        let quantiles = times::quantiles(lambda, nodes, at, detail);
        let queue = Some(queue::of(lambda, nodes, at, &served[at]));
        let found = Found::exact(name, source, lambda, served);
        return Ok(Found { exactness, quantiles, remark, queue, ..found });
    }
    jackson(lambda, nodes, detail)
}

/// Result of a formula for a node with nothing but delays beside it.
struct Alone {
    name: String,
    source: &'static str,
    exactness: (Exactness, Exactness),
    served: Served,
    remark: Option<String>,
}

/// The formula of one queue, or of several that are alike; none if it is left to others.
fn alone(lambda: f64, node: &Node, detail: Detail) -> Result<Option<Alone>, NoFormula> {
    let queues = node.dealing.queues();
    // The error speaks of the rate of one queue, the scenario of the rate of all.
    let of_all = |none: NoFormula| match none {
        NoFormula::Solve(SolveError::Unstable { place, rho, rate_max }) => {
            SolveError::Unstable { place, rho, rate_max: rate_max * queues }.into()
        }
        none => none,
    };
    match node.dealing {
        Dealing::None => one_queue(lambda, node, detail),
        Dealing::ByChance(_) => {
            let found = one_queue(lambda / queues, node, detail).map_err(of_all)?;
            Ok(found
                .map(|of| Alone { name: format!("{queues} by chance, each {}", of.name), ..of }))
        }
        Dealing::InTurn(gaps) => {
            let Kind::Fifo { servers } = node.kind else { return Ok(None) };
            if !node.is_exponential || !node.curve.is_empty() {
                return Ok(None);
            }
            let queue = match Ekmc::new(lambda / queues, gaps, node.demand, servers) {
                Ok(queue) => queue,
                Err(SolveError::TooLarge { .. }) => return Ok(None),
                Err(error) => return Err(of_all(NoFormula::Solve(named(error, node)))),
            };
            let name = format!("{gaps} in turn, each E_{gaps}/M/{servers}");
            Ok(Some(exact(name, "GI/M/c, Kendall 1953", queue.wait())))
        }
    }
}

/// First in first out, with this wait.
fn exact(name: String, source: &'static str, wait: f64) -> Alone {
    Alone {
        name,
        source,
        exactness: (Exactness::Exact, Exactness::Exact),
        served: Served { fixed: wait, stretch: 1.0, given: None },
        remark: None,
    }
}

/// The formula of one queue; none if it is left to the networks.
fn one_queue(lambda: f64, node: &Node, detail: Detail) -> Result<Option<Alone>, NoFormula> {
    if let (Kind::Limited { slots, processors: 1 }, Some(moments)) = (node.kind, node.moments) {
        return limited::alone(lambda, node, (slots, moments), detail).map(Some);
    }
    if !node.curve.is_empty() {
        return Ok(None);
    }
    queue(lambda, node).map_err(|error| NoFormula::Solve(named(error, node)))
}

/// The formula of a queue without sharing.
fn queue(lambda: f64, node: &Node) -> Result<Option<Alone>, SolveError> {
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
        _ => None,
    })
}

/// Open stations of product form.
fn jackson(lambda: f64, nodes: &Nodes, detail: Detail) -> Result<Found, NoFormula> {
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
    let busy = nodes.list.iter().position(|node| node.kind != Kind::Delay);
    let is_shared = |at: &usize| nodes.list[*at].kind == Kind::Sharing { processors: 1 };
    if let Some(at) = busy.filter(is_shared).filter(|_| nodes.busy() == 1) {
        let (name, source) = ("M/G/1 processor sharing", "fujita, eq. 4");
        let quantiles = times::quantiles(lambda, nodes, at, detail);
        let queue = Some(queue::of(lambda, nodes, at, &served[at]));
        return Ok(Found { quantiles, queue, ..Found::exact(name, source, lambda, served) });
    }
    let (name, source) = match busy {
        None => ("M/G/infinity", "delays alone"),
        Some(_) => ("open network of product form", "Jackson 1957; Baskett et al. 1975"),
    };
    let alone = busy.filter(|_| nodes.busy() == 1);
    let queue = alone.map(|at| queue::of(lambda, nodes, at, &served[at]));
    Ok(Found { queue, ..Found::exact(name, source, lambda, served) })
}

/// The error with the station's own name.
fn named(error: SolveError, node: &Node) -> SolveError {
    at(error, &node.name)
}

/// The error with the name of the station that it is about.
fn at(error: SolveError, station: &str) -> SolveError {
    match error {
        SolveError::Unstable { rho, rate_max, .. } => {
            SolveError::Unstable { place: format!("station `{station}`"), rho, rate_max }
        }
        other => other,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A scenario with an approximate formula, and an answer that is farther from the truth than it
    /// states.
    pub(crate) fn out_of_its_range() -> (Scenario, FormulaAnswer) {
        let text = serde_json::json!({
            "sekisho": 1, "name": "held",
            "class": [{
                "name": "c", "population": 20, "think": { "mean": "50ms", "dist": "exponential" },
                "route": ["slots"],
            }],
            "gate": [{ "name": "slots", "slots": 4, "inside": ["cpu", "disk"] }],
            "station": [
                { "name": "cpu", "kind": "queue", "demand": { "mean": "5ms", "dist": "exponential" } },
                { "name": "disk", "kind": "queue", "demand": { "mean": "8ms", "dist": "exponential" } },
            ],
        });
        let scenario: Scenario = serde_json::from_value(text).expect("it is a scenario");
        let mut answer = formula(&scenario).expect("it has a formula");
        let error = answer.trust.error.expect("it is approximate");
        answer.response *= 1.1 + error;
        answer.classes[0].response *= 1.1 + error;
        (scenario, answer)
    }
}
