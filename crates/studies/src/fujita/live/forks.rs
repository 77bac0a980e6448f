//! Experiment 1: a fork for each request against preforked helpers, by the built-in origin, which can
//! do both (Apache's prefork module cannot fork for each request).

use cli::Failure;
use measure::Ratio;
use origin::{Demand, Origin, OriginConfig, Serving};
use report::{Cell, Column, Section, Table};
use workload::DocumentSet;

use super::super::super::claim::{Answer, Registry};
use super::Part;
use super::press::{Ask, BACKLOG, CONFIDENCE, Lab, served};

/// The CPU time of a request, so small that a fork shows \[s\].
const BASE_S: f64 = 50e-6;
/// Workers and clients.
const WORKERS: u32 = 16;
/// Number of times that the two are compared, in turns.
const PAIRS: usize = 4;

pub(super) fn measure(registry: &Registry, lab: &Lab) -> Result<Part, Failure> {
    let origin = |serving: Serving| {
        Origin::start(&OriginConfig {
            documents: served(&DocumentSet::webstone()),
            bytes_max: 0,
            demand: Demand { per_byte_s: 0.0, base_s: BASE_S },
            workers: WORKERS,
            serving,
            cpu: Some(lab.server_cpu),
            backlog: BACKLOG,
            keep_alive: false,
        })
        .map_err(Failure::machine)
    };
    let forking = origin(Serving::ForkPerRequest(lab.supervised))?;
    let preforked = origin(Serving::PreforkedProcesses(lab.supervised))?;
    let mut rates = [Vec::new(), Vec::new()];
    let mut responses = [Vec::new(), Vec::new()];
    for pair in 0..PAIRS {
        // In turns, and each first once, so that what slows the machine slows both.
        for turn in 0..2 {
            let which = (pair + turn) % 2;
            let address = [&forking, &preforked][which].address();
            let ask = Ask {
                clients: WORKERS,
                documents: DocumentSet::webstone(),
                length_s: lab.seconds / 2.0,
                warmup_s: 0.2,
                deck_s: None,
            };
            let (seen, _) = lab.press_at(address, ask)?;
            rates[which].push(seen.throughput.mean);
            responses[which].push(seen.response.mean);
        }
    }
    let rate = Ratio::paired(&rates[0], &rates[1], CONFIDENCE);
    let response = Ratio::paired(&responses[0], &responses[1], CONFIDENCE);
    let answer = Answer::above(1.0, rate.low, rate.high).and(Answer::below(
        1.0,
        response.low,
        response.high,
    ));
    let claim = registry.claim("live-fork");
    let judged = claim
        .judge()
        .measured(format!("x{:.2} rate", rate.ratio))
        .found(format!(
            "Preforked over forking, {WORKERS} clients: connections a second x{:.2} (x{:.2} to \
             x{:.2}), response time x{:.2} (x{:.2} to x{:.2}).",
            rate.ratio, rate.low, rate.high, response.ratio, response.low, response.high
        ))
        .shape(answer);
    let section = Section::new("Measured: experiment 1, fork against prefork")
        .paragraph(format!(
            "The built-in origin with {WORKERS} workers on one processor, the file list, {WORKERS} \
             clients; {:.0} us of work a request.",
            BASE_S * 1e6
        ))
        .table(table(&rates, &responses)?);
    Ok(Part { judged: vec![judged], section })
}

fn table(rates: &[Vec<f64>; 2], responses: &[Vec<f64>; 2]) -> Result<Table, Failure> {
    let columns = [
        Column::plain("a request is served by"),
        Column::new("connections", "1/s"),
        Column::new("response", "ms"),
    ];
    let mut table = Table::new("Fork for each request against preforked helpers", columns);
    for (which, name) in ["a process forked for it", "a preforked helper"].into_iter().enumerate() {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let cells = [mean(&rates[which]), mean(&responses[which]) * 1e3].map(Cell::from);
        table = table.row([Cell::from(name)].into_iter().chain(cells)).map_err(Failure::defect)?;
    }
    Ok(table)
}
