//! Section 4.1: requests hold one of a few tasks until the reply has gone back. Tables 3.1 and 3.2,
//! the claims about them, and what the paper leaves out.

use advise::{Approximation, DistEntry, DistName, RouterEntry, Scenario, ShapedEntry, Span};
use cli::Failure;
use cli::text::percent;
use gate::Queues;
use measure::Estimate;
use sim::Options;

use super::super::claim::{Answer, Claim, Evidence, Judged, Registry};

/// The model, with six tasks at today's servers.
const SCENARIO: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../studies/ohmae/software-bottleneck.toml"
));

/// A row of table 3.1 or 3.2 as it is printed.
pub(super) struct Printed {
    pub(super) tasks: u32,
    /// Mean service time of a server \[s\].
    pub(super) service: f64,
    /// Mean response time \[s\].
    pub(super) response: f64,
    /// Requests a second \[1/s\].
    throughput: f64,
    /// Mean wait for a task \[s\].
    wait: f64,
    /// Utilisation of the tasks, 0 to 1.
    tasks_busy: f64,
    /// Mean utilisation of the servers, 0 to 1.
    servers_busy: f64,
}

const fn printed(tasks: u32, service: f64, row: [f64; 5]) -> Printed {
    let [response, throughput, wait, tasks_busy, servers_busy] = row;
    Printed { tasks, service, response, throughput, wait, tasks_busy, servers_busy }
}

/// Table 3.1: the number of tasks varied.
pub(super) const MORE_TASKS: [Printed; 10] = [
    printed(1, 5.0, [46.1, 0.18, 39.9, 1.0, 0.23]),
    printed(2, 5.0, [17.9, 0.36, 12.3, 1.0, 0.44]),
    printed(3, 5.0, [11.3, 0.47, 5.52, 0.96, 0.57]),
    printed(4, 5.0, [9.35, 0.52, 2.43, 0.90, 0.62]),
    printed(5, 5.0, [8.69, 0.53, 1.08, 0.81, 0.65]),
    printed(6, 5.0, [8.30, 0.54, 0.37, 0.72, 0.66]),
    printed(7, 5.0, [8.23, 0.55, 0.09, 0.64, 0.66]),
    printed(8, 5.0, [8.26, 0.55, 0.02, 0.56, 0.66]),
    printed(9, 5.0, [8.28, 0.55, 0.0, 0.50, 0.66]),
    printed(10, 5.0, [8.28, 0.55, 0.0, 0.45, 0.66]),
];

/// Table 3.2: one task, faster servers.
pub(super) const FASTER_SERVERS: [Printed; 7] = [
    printed(1, 5.0, [46.1, 0.18, 39.9, 1.0, 0.23]),
    printed(1, 2.5, [19.3, 0.34, 16.34, 1.0, 0.21]),
    printed(1, 1.67, [11.1, 0.46, 9.01, 1.0, 0.19]),
    printed(1, 1.25, [7.24, 0.58, 5.53, 0.99, 0.17]),
    printed(1, 1.0, [5.1, 0.66, 3.62, 0.97, 0.16]),
    printed(1, 0.625, [2.41, 0.81, 1.29, 0.90, 0.13]),
    printed(1, 0.5, [1.75, 0.85, 0.75, 0.85, 0.11]),
];

/// Routing of requests to one of the four servers: the paper does not say.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Routing {
    RoundRobin,
    Random,
    OneQueue,
}

/// Variation of think and dispatch times: the paper does not say.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Times {
    Constant,
    Exponential,
}

/// A point of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Case {
    tasks: u32,
    service: f64,
    routing: Routing,
    times: Times,
}

impl Case {
    /// As it is inferred that the authors had it.
    pub(super) fn inferred(tasks: u32, service: f64) -> Case {
        Case { tasks, service, routing: Routing::RoundRobin, times: Times::Constant }
    }

    /// The scenario of this point.
    fn scenario(&self) -> Result<Scenario, Failure> {
        let scenario: Scenario =
            toml::from_str(SCENARIO).expect("the study's scenario is well formed");
        let mut scenario = scenario.with_slots("tasks", self.tasks).map_err(Failure::defect)?;
        let service = exponential(self.service);
        let servers = &mut scenario.gates[1];
        (servers.router, servers.queues) = match self.routing {
            Routing::RoundRobin => (Some(RouterEntry::RoundRobin), Some(Queues::PerServer)),
            Routing::Random => (Some(RouterEntry::Random), Some(Queues::PerServer)),
            Routing::OneQueue => (Some(RouterEntry::RoundRobin), Some(Queues::Shared)),
        };
        let advise::RouteEntry::Visit(visit) = &mut servers.inside[0] else {
            unreachable!("the study's scenario visits a server with a demand of the step's own")
        };
        visit.demand = advise::DemandEntry::Time(service);
        if self.times == Times::Exponential {
            scenario.classes[0].think = Some(exponential(10.0));
            let dispatch = scenario.stations.iter_mut().find(|station| station.name == "dispatch");
            let dispatch = dispatch.expect("the study's scenario has a dispatch");
            dispatch.demand = Some(advise::DemandEntry::Time(exponential(0.5)));
        }
        Ok(scenario)
    }

    /// Simulates this point until its mean response time is known to `precision`.
    fn simulate(&self, precision: f64, seed: u64) -> Result<Row, Failure> {
        let scenario = self.scenario()?;
        let formula = advise::formula(&scenario).map_err(Failure::defect)?;
        let network = scenario.network().map_err(Failure::defect)?;
        let options = Options { seed, precision, ..Options::default() };
        let outcome = sim::run(&network, &options).map_err(Failure::defect)?;
        let slots = |gate: &sim::GateOutcome| gate.busy.mean / f64::from(gate.slots);
        let class = &outcome.classes[0];
        Ok(Row {
            case: *self,
            formula: [formula.response, formula.throughput],
            approximation: (&formula.trust).into(),
            response: class.response.expect("thousands of requests were completed"),
            throughput: class.throughput,
            wait: outcome.gates[0].wait.expect("every request took a task"),
            tasks_busy: slots(&outcome.gates[0]),
            servers_busy: slots(&outcome.gates[1]),
        })
    }
}

fn exponential(mean: f64) -> DistEntry {
    DistEntry::Shaped(ShapedEntry {
        mean: Span(mean),
        dist: Some(DistName::Exponential),
        scv: None,
    })
}

/// Results of a simulation at a point.
#[derive(Debug)]
pub(super) struct Row {
    case: Case,
    /// Response time \[s\] and throughput [1/s] by the layered model, which is approximate.
    formula: [f64; 2],
    /// Error that it may have.
    approximation: Approximation,
    /// Mean response time \[s\].
    pub(super) response: Estimate,
    /// Requests a second \[1/s\].
    throughput: Estimate,
    /// Mean wait for a task \[s\].
    wait: Estimate,
    /// Shares of tasks and servers that are busy, 0 to 1.
    tasks_busy: f64,
    servers_busy: f64,
}

impl Row {
    /// The time for which a task is held \[s\].
    fn hold(&self) -> f64 {
        self.response.mean - self.wait.mean
    }
}

/// Every point that a table or a claim of section 4.1 needs, simulated.
#[derive(Debug)]
pub(super) struct Runs(Vec<Row>);

impl Runs {
    pub(super) fn simulate(precision: f64, seed: u64) -> Result<Runs, Failure> {
        let tables = MORE_TASKS.iter().chain(&FASTER_SERVERS);
        let mut cases: Vec<Case> =
            tables.map(|row| Case::inferred(row.tasks, row.service)).collect();
        for routing in [Routing::Random, Routing::OneQueue] {
            cases.push(Case { routing, ..Case::inferred(10, 5.0) });
        }
        cases.push(Case { times: Times::Exponential, ..Case::inferred(1, 0.5) });
        let mut rows: Vec<Row> = Vec::new();
        for case in cases {
            if !rows.iter().any(|row| row.case == case) {
                rows.push(case.simulate(precision, seed)?);
            }
        }
        Ok(Runs(rows))
    }

    /// The simulation of a point.
    ///
    /// # Panics
    /// If it is none of those that are simulated.
    pub(super) fn of(&self, case: Case) -> &Row {
        let found = self.0.iter().find(|row| row.case == case);
        found.unwrap_or_else(|| panic!("{case:?} is not simulated"))
    }

    /// The simulation of a printed row.
    pub(super) fn row(&self, printed: &Printed) -> &Row {
        self.of(Case::inferred(printed.tasks, printed.service))
    }
}

/// Judges the claims of section 4.1, in the order of the list.
pub(super) fn judge(registry: &Registry, runs: &Runs) -> Result<Vec<Judged>, Failure> {
    let judge = Judge { registry, runs };
    let mut judged = Vec::new();
    for column in &COLUMNS {
        judged.push(judge.column(column)?);
    }
    judged.push(judge.held()?);
    judged.extend(judge.bottleneck()?);
    judged.extend(judge.relieved()?);
    judged.extend(judge.inferred());
    Ok(judged)
}

/// A column of a table, held against the simulation row by row.
struct Column {
    claim: &'static str,
    rows: &'static [Printed],
    printed: fn(&Printed) -> f64,
    simulated: fn(&Row) -> f64,
    /// The same by formula, where there is one.
    formula: Option<fn(&Row) -> f64>,
    /// Base that differences are a share of.
    of: fn(&Printed) -> f64,
}

/// The columns of both tables. Waits end at 0, so they are held against the response time that they are
/// part of; utilisations are shares already.
const COLUMNS: [Column; 9] = [
    Column {
        claim: "tasks-response",
        rows: &MORE_TASKS,
        printed: |row| row.response,
        simulated: |row| row.response.mean,
        formula: Some(|row| row.formula[0]),
        of: |row| row.response,
    },
    Column {
        claim: "tasks-throughput",
        rows: &MORE_TASKS,
        printed: |row| row.throughput,
        simulated: |row| row.throughput.mean,
        formula: Some(|row| row.formula[1]),
        of: |row| row.throughput,
    },
    Column {
        claim: "tasks-wait",
        rows: &MORE_TASKS,
        printed: |row| row.wait,
        simulated: |row| row.wait.mean,
        formula: None,
        of: |row| row.response,
    },
    Column {
        claim: "tasks-busy",
        rows: &MORE_TASKS,
        printed: |row| row.tasks_busy,
        simulated: |row| row.tasks_busy,
        formula: None,
        of: |_| 1.0,
    },
    Column {
        claim: "tasks-servers-busy",
        rows: &MORE_TASKS,
        printed: |row| row.servers_busy,
        simulated: |row| row.servers_busy,
        formula: None,
        of: |_| 1.0,
    },
    Column {
        claim: "speed-response",
        rows: &FASTER_SERVERS,
        printed: |row| row.response,
        simulated: |row| row.response.mean,
        formula: Some(|row| row.formula[0]),
        of: |row| row.response,
    },
    Column {
        claim: "speed-throughput",
        rows: &FASTER_SERVERS,
        printed: |row| row.throughput,
        simulated: |row| row.throughput.mean,
        formula: Some(|row| row.formula[1]),
        of: |row| row.throughput,
    },
    Column {
        claim: "speed-wait",
        rows: &FASTER_SERVERS,
        printed: |row| row.wait,
        simulated: |row| row.wait.mean,
        formula: None,
        of: |row| row.response,
    },
    Column {
        claim: "speed-servers-busy",
        rows: &FASTER_SERVERS,
        printed: |row| row.servers_busy,
        simulated: |row| row.servers_busy,
        formula: None,
        of: |_| 1.0,
    },
];

struct Judge<'a> {
    registry: &'a Registry,
    runs: &'a Runs,
}

impl Judge<'_> {
    fn claim(&self, id: &str) -> &Claim {
        self.registry.claim(id)
    }

    /// The largest difference of a column.
    fn column(&self, column: &Column) -> Result<Judged, Failure> {
        let claim = self.claim(column.claim);
        let worst_of = |values: &[f64]| {
            let rows = column.rows.iter().zip(values);
            let off = rows.map(|(row, value)| (value - (column.printed)(row)) / (column.of)(row));
            off.max_by(|a, b| a.abs().total_cmp(&b.abs())).expect("a table has rows")
        };
        let values = |of: fn(&Row) -> f64| -> Vec<f64> {
            column.rows.iter().map(|row| of(self.runs.row(row))).collect()
        };
        let worst = |of: fn(&Row) -> f64| worst_of(&values(of));
        let simulated_off = worst(column.simulated);
        let formula =
            column.formula.map_or("-".to_owned(), |of| format!("{} off", percent(worst(of))));
        let simulated: Vec<String> =
            column.rows.iter().map(|row| short((column.simulated)(self.runs.row(row)))).collect();
        let approximations = column.rows.iter().map(|row| self.runs.row(row).approximation);
        let approximation = match column.formula {
            Some(_) => approximations.collect(),
            None => Approximation::NONE,
        };
        Ok(claim
            .judge()
            .formula(formula)
            .approximate(approximation)
            .simulation(format!("{} off", percent(simulated_off)))
            .found(format!("Simulated: {}.", simulated.join(", ")))
            .number(Evidence::of(&values(column.simulated), |found| {
                worst_of(found).abs() <= claim.within()
            })))
    }

    /// One task is held from its start to the reply: twice in the tables, in two different lengths.
    fn held(&self) -> Result<Judged, Failure> {
        let claim = self.claim("one-task-held");
        let held = self.runs.row(&MORE_TASKS[0]).hold();
        // A dispatch and one service: with one task nobody else is at the servers.
        let formula = 0.5 + 5.0;
        Ok(claim
            .judge()
            .formula(format!("{formula:.1} s"))
            .simulation(format!("{held:.2} s"))
            .number(Evidence::of(&[held], |found| claim.same(found[0], claim.value()))))
    }

    /// Few tasks: they are full while the servers idle.
    fn bottleneck(&self) -> Result<Vec<Judged>, Failure> {
        let response = |row: &Printed| self.runs.row(row).response;
        let ends: Vec<f64> = MORE_TASKS[..5]
            .windows(2)
            .flat_map(|pair| [response(&pair[0]).low(), response(&pair[1]).high()])
            .collect();
        let falls = Evidence::of(&ends, |ends| ends.chunks(2).all(|pair| pair[1] < pair[0]));
        let gain = response(&MORE_TASKS[0]).mean / response(&MORE_TASKS[4]).mean;
        let improves = self
            .claim("tasks-improve")
            .judge()
            .simulation(format!("R / {gain:.1}"))
            .found("Mean response time at 1 task over that at 5; it falls with each one more.")
            .shape(falls);
        let row = self.runs.row(&MORE_TASKS[0]);
        let busy = [row.tasks_busy, row.servers_busy];
        let is_software = Evidence::of(&busy, |busy| busy[0] > 0.95 && busy[1] < 0.5);
        let software = self
            .claim("software-bottleneck")
            .judge()
            .simulation(format!(
                "{} | {}",
                percent_of(row.tasks_busy),
                percent_of(row.servers_busy)
            ))
            .found("Utilisation of the one task, and of the servers.")
            .shape(is_software);
        Ok(vec![improves, software])
    }

    /// Six tasks against servers four times as fast, and more than six.
    fn relieved(&self) -> Result<Vec<Judged>, Failure> {
        let (six, ten) = (self.runs.row(&MORE_TASKS[5]), self.runs.row(&MORE_TASKS[9]));
        let fast = self.runs.row(&FASTER_SERVERS[3]);
        let claim = self.claim("six-tasks-equal-speed");
        let (response, throughput) =
            (six.response.mean / fast.response.mean, six.throughput.mean / fast.throughput.mean);
        let alike = |ratio: f64| (ratio - 1.0).abs() <= claim.within();
        let equal = claim
            .judge()
            .simulation(percent(response - 1.0))
            .found(format!(
                "Six tasks at today's servers over one task at servers four times as fast, in \
                 response time; {} in throughput. The paper's own figures: +15 % and -7 %.",
                percent(throughput - 1.0)
            ))
            .shape(Evidence::of(&[response, throughput], |found| {
                found.iter().all(|ratio| alike(*ratio))
            }));
        let claim = self.claim("past-six-tasks");
        let gain = 1.0 - ten.response.mean / six.response.mean;
        let error = six.response.relative() + ten.response.relative();
        let nothing = claim
            .judge()
            .simulation(percent(gain))
            .found("How much shorter the response time is with ten tasks than with six.")
            .shape(Answer::below(claim.within(), gain - error, gain + error));
        Ok(vec![equal, nothing])
    }

    /// Claims on what the paper does not say, and only one choice of which gives its figures.
    fn inferred(&self) -> Vec<Judged> {
        let claim = self.claim("routing");
        let at = |routing| self.runs.of(Case { routing, ..Case::inferred(10, 5.0) }).response.mean;
        let means = [Routing::RoundRobin, Routing::Random, Routing::OneQueue].map(at);
        let fits = means.map(|mean| claim.same(mean, MORE_TASKS[9].response));
        let routing = claim
            .judge()
            .simulation(format!("{:.2} s", means[0]))
            .found(format!(
                "Mean response time with ten tasks (paper 8.28 s): round robin {:.2} s, random \
                 {:.2} s, one shared queue {:.2} s.",
                means[0], means[1], means[2]
            ))
            .unstated((fits == [true, false, false]).into());
        let claim = self.claim("constant-times");
        let constant = Case::inferred(1, 0.5);
        let exponential = Case { times: Times::Exponential, ..constant };
        let means = [constant, exponential].map(|case| self.runs.of(case).response.mean);
        let fits = means.map(|mean| claim.same(mean, FASTER_SERVERS[6].response));
        let times = claim
            .judge()
            .simulation(format!("{:.2} s", means[0]))
            .found(format!(
                "Mean response time with one task at the fastest servers (paper 1.75 s): think and \
                 dispatch constant {:.2} s, exponential {:.2} s.",
                means[0], means[1]
            ))
            .unstated((fits == [true, false]).into());
        vec![routing, times]
    }
}

/// A number to three digits.
fn short(value: f64) -> String {
    match value {
        value if value >= 9.995 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// A share in whole per cent.
fn percent_of(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the tables print of one row must agree with itself: clients are thinking or waiting.
    #[test]
    fn the_printed_rows_close_under_littles_law() {
        for row in MORE_TASKS.iter().chain(&FASTER_SERVERS) {
            let clients = row.throughput * (row.response + 10.0);
            // Two digits of throughput; the first column is 1 % off by itself.
            assert!((clients / 10.0 - 1.0).abs() < 0.04, "{} tasks: {clients}", row.tasks);
        }
    }
}
