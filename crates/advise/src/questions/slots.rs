//! Numbers of slots: r against throughput, mean and p99, with the answers that folklore gives.

use std::collections::BTreeSet;

use measure::Estimate;
use serde::Serialize;
use sim::{Network, Of, Options, Quantity, compare};

use super::work::{ClassWork, Part, work};
use super::{Change, QuestionError, gate_named};
use crate::formula::{BestByFormula, Effort, best, formula, formula_outline};
use crate::witnesses::{Standing, pairs, standing};
use crate::{Approximation, Scenario};

/// Effects of different numbers of slots.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slots {
    /// The gate.
    pub gate: String,
    /// Its present number of slots.
    pub now: u32,
    /// By number of slots, rising.
    pub rows: Vec<SlotsRow>,
    /// The number with the smallest mean response.
    pub best_mean: u32,
    /// The number with the smallest p99.
    pub best_p99: u32,
    /// The fewest slots whose throughput is not surely below the largest.
    pub peak: u32,
    /// The answers of folklore.
    pub folklore: Vec<Folklore>,
    /// The best number of slots by formula, where one knows it.
    pub by_formula: Option<BestByFormula>,
    /// Name of the formula, or the reason why there is none.
    pub formula_note: String,
    /// The largest relative error of its means where it was tried.
    pub formula_error: Option<f64>,
}

/// Effects of one number of slots.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlotsRow {
    /// r.
    pub slots: u32,
    /// Completions [1/s]; none where jobs pile up without end, and so of all that follows.
    #[serde(rename = "throughput_per_s")]
    pub throughput: Option<Estimate>,
    /// Mean response time \[s\].
    #[serde(rename = "response_s")]
    pub response: Option<Estimate>,
    /// The 0.99 quantile of the response times \[s\].
    #[serde(rename = "p99_s")]
    pub p99: Option<Estimate>,
    /// The formula's mean response time \[s\], where there is one that is not farther from the
    /// simulation than it states.
    #[serde(rename = "formula_response_s")]
    pub formula: Option<f64>,
    /// Share of the requests that fail.
    pub failed: Option<Estimate>,
    /// True if surely more fail than with the number with which the fewest do; such a number is never the best.
    pub fails_more: bool,
    /// Mean response, over that of the best for it; by pairs.
    pub mean_change: Option<Change>,
    /// p99, over that of the best for it; by pairs.
    pub p99_change: Option<Change>,
    /// Throughput, over the largest; by pairs.
    pub throughput_change: Option<Change>,
    /// Error that the formula's response may have.
    pub formula_approximation: Approximation,
    /// Why the formula was dropped here, or what disagrees with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub formula_note: Option<String>,
}

/// A rule of thumb, and the number that it gives here.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Folklore {
    /// The rule.
    pub rule: &'static str,
    /// The number of slots.
    pub slots: u32,
}

/// More numbers of slots than this are not compared.
const ROWS_MAX: usize = 24;

/// Compares numbers of slots of a gate with one server: those given, or, where none are, the powers of
/// two, what folklore says, and what is there now. All run under the same chance; the intervals of all
/// comparisons with the best hold together.
///
/// # Errors
/// If there is no such gate, it has several servers, or it cannot be simulated.
pub fn slots(
    scenario: &Scenario,
    gate: Option<&str>,
    numbers: &[u32],
    options: &Options,
) -> Result<Slots, QuestionError> {
    let at = gate_named(scenario, gate)?;
    let network = scenario.network()?;
    let name = scenario.gates[at].name.clone();
    let now = Part::Gate(at).capacity(&network);
    let folklore = folklore(&network, at);
    let mut numbers: Vec<u32> = match numbers {
        [] => usual(scenario, now, &folklore),
        given => given.to_vec(),
    };
    numbers.sort_unstable();
    numbers.dedup();
    if numbers.len() < 2 {
        return Err(QuestionError::NothingToVary(
            "one number of slots compares with nothing; name several, such as `--slots 2,4,8`"
                .into(),
        ));
    }
    let mut variants = Vec::new();
    for &slots in &numbers {
        variants.push((slots, scenario.with_slots(&name, slots)?));
    }
    let (formula_note, formula_error) = match formula(scenario) {
        Ok(answer) => (answer.note(), answer.trust.error),
        Err(none) => (none.to_string(), None),
    };
    let most = numbers.last().copied().unwrap_or(now);
    let rows = rows(&variants, options)?;
    // A witness that was dropped at the number that it calls best tells of no best one.
    let by_formula = best(scenario, &name, most).filter(|best| {
        let row = rows.iter().find(|row| row.slots == best.slots);
        row.is_none_or(|row| row.formula.is_some())
    });
    let (formula_note, formula_error) = told(&rows, formula_note, formula_error);
    let least = |of: fn(&SlotsRow) -> Option<Estimate>| {
        let known = rows.iter().filter(|row| !row.fails_more);
        let known = known.filter_map(|row| Some((row.slots, of(row)?.mean)));
        known.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(slots, _)| slots)
    };
    let not_below = |row: &&SlotsRow| row.throughput_change.is_some_and(|c| c.high >= 1.0);
    let (Some(best_mean), Some(best_p99), Some(peak)) = (
        least(|row| row.response),
        least(|row| row.p99),
        rows.iter().find(not_below).map(|row| row.slots),
    ) else {
        return Err(QuestionError::NothingToVary(format!(
            "with none of {numbers:?} slots of gate `{name}` does its load have a steady state: ask for \
             a lower load, or for more slots"
        )));
    };
    Ok(Slots {
        gate: name,
        now,
        rows,
        best_mean,
        best_p99,
        peak,
        folklore,
        by_formula,
        formula_note,
        formula_error,
    })
}

/// Note on the formula, and its error, once it was held against every row.
fn told(rows: &[SlotsRow], note: String, error: Option<f64>) -> (String, Option<f64>) {
    let noted = rows.iter().filter_map(|row| Some((row.slots, row.formula_note.as_ref()?)));
    let (slots, notes): (Vec<u32>, Vec<&String>) = noted.unzip();
    let stands = rows.iter().any(|row| row.formula.is_some());
    let error = error.filter(|_| stands);
    let Some(first) = notes.first() else { return (note, error) };
    let slots: Vec<String> = slots.iter().map(u32::to_string).collect();
    (format!("{note}; with {} slots: {first}", slots.join(", ")), error)
}

/// Powers of two, folklore and what is there now; of a closed load no more than clients.
fn usual(scenario: &Scenario, now: u32, folklore: &[Folklore]) -> Vec<u32> {
    let clients = |class: &crate::ClassEntry| class.population;
    let closed: Option<Vec<u32>> = scenario.classes.iter().map(clients).collect();
    let most = closed.map_or(u32::MAX, |clients| clients.iter().sum());
    let highest = folklore.iter().map(|rule| rule.slots).chain([now]).max().unwrap_or(1);
    let highest = highest.saturating_mul(2).max(16).min(most).min(1024);
    let powers = (0..=10).map(|power| 1 << power).filter(|power| *power <= highest);
    let others = folklore.iter().map(|rule| rule.slots).chain([now]);
    let all = powers.chain(others).filter(|slots| *slots <= most);
    let mut all: Vec<u32> = all.collect();
    all.sort_unstable();
    all.dedup();
    all.truncate(ROWS_MAX);
    all
}

/// Answers of the rules of thumb for a gate.
fn folklore(network: &Network, gate: usize) -> Vec<Folklore> {
    // Where the law knows nothing there are no rules either: they are made of it.
    let Ok(works) = work(network) else { return Vec::new() };
    let held: f64 = works.iter().map(|work| work.gates[gate]).sum();
    let think: f64 = works.iter().map(|work| work.think + work.response).sum::<f64>();
    let demand = |station: usize| works.iter().map(|work| work.stations[station]).sum::<f64>();
    let limited = machines(network, gate).into_iter().filter_map(|machine| {
        let capacity = |station: &usize| network.stations[*station].kind.capacity();
        let cores: u32 = machine.iter().map(capacity).sum::<Option<u32>>()?;
        let demand: f64 = machine.iter().map(|&station| demand(station)).sum();
        (demand > 0.0).then_some((cores, demand))
    });
    // The one that limits: the most work for each of its servers.
    let busiest =
        |a: &(u32, f64), b: &(u32, f64)| (a.1 / f64::from(a.0)).total_cmp(&(b.1 / f64::from(b.0)));
    let Some((cores, demand)) = limited.max_by(busiest) else { return Vec::new() };
    let rule = |rule, slots: f64| Folklore { rule, slots: (slots.round() as u32).max(1) };
    let c = f64::from(cores);
    let mut rules = vec![
        rule("as many as cores", c),
        rule("cores x 2", 2.0 * c),
        rule("cores x 2 + 1 spindle", 2.0 * c + 1.0),
        rule("cores x (1 + wait / compute)", c * held / demand),
    ];
    if works.iter().any(|work: &ClassWork| work.think > 0.0) {
        rules.push(rule("the knee (D + Z) / Dmax", c * think / demand));
    }
    rules
}

/// The machines that work while a slot of the gate is held: stations by themselves, and together those
/// between which a gate routes, which are one machine to whoever chooses its slots.
fn machines(network: &Network, gate: usize) -> BTreeSet<Vec<usize>> {
    let mut behind = Behind { network, gate, machines: BTreeSet::new() };
    for class in &network.classes {
        behind.steps(&class.route, OUTSIDE);
    }
    behind.machines
}

/// The machines behind a gate, as far as they were found.
struct Behind<'a> {
    network: &'a Network,
    gate: usize,
    machines: BTreeSet<Vec<usize>>,
}

/// Slots around a step.
#[derive(Clone, Copy)]
struct Held {
    /// True if one of them is of the gate behind which is looked.
    within: bool,
    /// The gate of the innermost: it has chosen the server that is visited.
    by: Option<usize>,
}

/// None.
const OUTSIDE: Held = Held { within: false, by: None };

impl Behind<'_> {
    fn steps(&mut self, steps: &[sim::Step], held: Held) {
        for step in steps {
            match step {
                sim::Step::Visit { station, .. } => self.visit(vec![*station], held),
                sim::Step::VisitServer { .. } => {
                    let chosen = held.by.map(|gate| self.network.gates[gate].stations.clone());
                    self.visit(chosen.unwrap_or_default(), held);
                }
                sim::Step::Hold { gate, inside } => {
                    let within = held.within || *gate == self.gate;
                    self.steps(inside, Held { within, by: Some(*gate) });
                }
                sim::Step::Choose(ways) => ways.iter().for_each(|(_, way)| self.steps(way, held)),
                sim::Step::Repeat { steps, .. } => self.steps(steps, held),
                // What is sent or forked holds nothing of what its sender holds.
                sim::Step::Send { way } => self.steps(way, OUTSIDE),
                sim::Step::Fork { ways, .. } => {
                    ways.iter().for_each(|way| self.steps(way, OUTSIDE));
                }
                sim::Step::Lookup { hit, miss, .. } => {
                    self.steps(hit, held);
                    self.steps(miss, held);
                }
                sim::Step::Reply | sim::Step::Become { .. } => {}
            }
        }
    }

    fn visit(&mut self, mut machine: Vec<usize>, held: Held) {
        if held.within {
            machine.sort_unstable();
            machine.dedup();
            self.machines.insert(machine);
        }
    }
}

/// All variants side by side; those whose jobs pile up without end have no numbers.
fn rows(variants: &[(u32, Scenario)], options: &Options) -> Result<Vec<SlotsRow>, QuestionError> {
    let mut networks = Vec::new();
    for (slots, scenario) in variants {
        networks.push((*slots, scenario.network()?));
    }
    let comparison = loop {
        let list: Vec<Network> = networks.iter().map(|(_, network)| network.clone()).collect();
        match compare(&list, options) {
            Ok(comparison) => break comparison,
            Err((at, error)) if error.overloaded().is_some() && networks.len() > 1 => {
                networks.remove(at);
            }
            Err((_, error)) if error.overloaded().is_some() => return Ok(Vec::new()),
            Err((at, error)) => {
                return Err(QuestionError::sim(format!("with {} slots", networks[at].0))(error));
            }
        }
    };
    let all = networks.len();
    let claims = all.saturating_sub(1) as u32;
    let value = |at: usize, quantity| comparison.value(at, Of::All, quantity, 1);
    let extreme = |among: &[usize], quantity, sign: f64| {
        among.iter().copied().min_by(|&a, &b| {
            let mean = |at| value(at, quantity).map_or(f64::INFINITY, |value| sign * value.mean);
            mean(a).total_cmp(&mean(b))
        })
    };
    // Whoever lets few in serves these soon: the best is sought where no more fail than must.
    let every: Vec<usize> = (0..all).collect();
    let fewest = extreme(&every, Quantity::Failed, 1.0);
    let fails_more = |at: usize| {
        let more = |from| comparison.difference((from, at), Of::All, Quantity::Failed, claims);
        fewest.filter(|&from| from != at).and_then(more).is_some_and(|more| more.low() > 0.0)
    };
    let candidates: Vec<usize> = every.iter().copied().filter(|&at| !fails_more(at)).collect();
    let change = |at: usize, best: Option<usize>, quantity| {
        comparison.ratio((best?, at), Of::All, quantity, claims).map(Change::from)
    };
    let p99 = Quantity::Quantile(0.99);
    let (best_mean, best_p99) =
        (extreme(&candidates, Quantity::Response, 1.0), extreme(&candidates, p99, 1.0));
    let most = extreme(&every, Quantity::Throughput, -1.0);
    let row = |(slots, scenario): &(u32, Scenario)| {
        let at = networks.iter().position(|(other, _)| other == slots);
        let means = [Quantity::Throughput, Quantity::Response];
        let means = means.map(|quantity| at.and_then(|at| value(at, quantity)));
        let (formula, formula_approximation, formula_note) = by_formula(scenario, means);
        SlotsRow {
            slots: *slots,
            throughput: means[0],
            response: means[1],
            p99: at.and_then(|at| value(at, p99)),
            formula,
            formula_approximation,
            failed: at.and_then(|at| value(at, Quantity::Failed)),
            fails_more: at.is_some_and(fails_more),
            mean_change: at.and_then(|at| change(at, best_mean, Quantity::Response)),
            p99_change: at.and_then(|at| change(at, best_p99, p99)),
            throughput_change: at.and_then(|at| change(at, most, Quantity::Throughput)),
            formula_note,
        }
    };
    Ok(variants.iter().map(row).collect())
}

/// The formula's mean response \[s\], if it stands beside the simulated throughput and mean
/// response, and the error that it may have; and a note, where it does not stand or the simulation
/// disputes it.
fn by_formula(
    scenario: &Scenario,
    means: [Option<Estimate>; 2],
) -> (Option<f64>, Approximation, Option<String>) {
    let none = |why| (None, Approximation::NONE, why);
    let Ok(answer) = formula_outline(scenario, Effort::Full) else { return none(None) };
    let stands = |why| (Some(answer.response), Approximation::from(&answer.trust), why);
    let quantities = [Quantity::Throughput, Quantity::Response];
    let known = quantities.into_iter().zip(means);
    let known = known.filter_map(|(quantity, mean)| Some((Of::All, quantity, mean?)));
    let simulated: Vec<_> = known.collect();
    match standing(&answer.name, &answer.trust, &pairs(&answer, &simulated)) {
        Standing::Agrees if simulated.is_empty() && !answer.trust.exact => {
            let why = "dropped, since it is out of its range: simulated, jobs pile up without end";
            none(Some(why.to_owned()))
        }
        Standing::Agrees => stands(None),
        Standing::Dropped(why) => none(Some(why)),
        Standing::Disputed(why) => stands(Some(why)),
    }
}

impl Slots {
    /// Error that the formula's numbers may have, the best number among them.
    pub fn approximation(&self) -> Approximation {
        let best = self.by_formula.as_ref().map(|best| Approximation::from(&best.trust));
        let rows = self.rows.iter().map(|row| row.formula_approximation);
        best.into_iter().chain(rows).collect()
    }

    /// The rules of thumb that give this number.
    pub fn folklore_of(&self, slots: u32) -> Vec<&'static str> {
        let same = self.folklore.iter().filter(|rule| rule.slots == slots);
        same.map(|rule| rule.rule).collect()
    }

    /// The numbers of slots of which it cannot be told that they are worse for the mean (or for p99)
    /// than the best.
    pub fn as_good(&self, of: fn(&SlotsRow) -> Option<Change>) -> Vec<u32> {
        let good =
            |row: &&SlotsRow| !row.fails_more && of(row).is_some_and(|change| !change.is_real());
        self.rows.iter().filter(good).map(|row| row.slots).collect()
    }
}
