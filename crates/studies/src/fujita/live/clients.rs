//! Experiment 2: the file list against the number of clients, and of helpers, with the memory that these
//! cost.

use cli::Failure;
use cli::text::{bytes, percent, time};
use measure::{Estimate, Ratio};
use origin::Memory;
use report::{Axis, Cell, Column, Curves, Section, Series, Table};
use workload::DocumentSet;

use crate::drawn;

use super::super::super::claim::{Answer, Evidence, Judged, Registry};
use super::press::{Ask, Lab, Seen, undisturbed};
use super::sizes::Demands;
use super::{Part, near};

const CLIENTS: [u32; 4] = [10, 30, 60, 110];
const HELPERS: u32 = 16;
/// Numbers of helpers, and of clients then.
const HELPERS_VARIED: [u32; 4] = [4, 8, 16, 48];
const CLIENTS_THEN: u32 = 64;

/// Documents in a deck of the file list.
pub(super) const CARDS: f64 = 1000.0;

/// Mean demand of the file list \[s\].
pub(super) fn demand(demands: &Demands) -> f64 {
    DocumentSet::webstone().mean_of(|one| demands.of(one.bytes as f64))
}

/// The clients-varied half, with the response time of each document set.
pub(super) fn measure(registry: &Registry, lab: &Lab, demands: &Demands) -> Result<Part, Failure> {
    let g = demand(demands);
    let server = lab.start(HELPERS, &DocumentSet::webstone())?;
    let ask = |clients: u32, length_s: f64| Ask {
        clients,
        documents: DocumentSet::webstone(),
        length_s,
        // The largest document is under way for r times its demand.
        warmup_s: 0.5 + f64::from(clients) * g,
        deck_s: Some(CARDS * g),
    };
    let mut by_clients = Vec::new();
    for clients in CLIENTS {
        by_clients.push((clients, lab.press(&server, ask(clients, 3.0 * lab.seconds))?));
    }
    drop(server);
    // There and back again, so that a drift of the machine cancels.
    let there_and_back = HELPERS_VARIED.into_iter().chain(HELPERS_VARIED.into_iter().rev());
    let mut by_helpers: Vec<(u32, Seen, Option<Memory>)> = Vec::new();
    for helpers in there_and_back {
        let server = lab.start(helpers, &DocumentSet::webstone())?;
        let seen = lab.press(&server, ask(CLIENTS_THEN, 2.0 * lab.seconds))?;
        // A container may forbid the look at another user's process.
        by_helpers.push((helpers, seen, server.memory().ok()));
    }
    let linear = linear(registry, &by_clients, g);
    let mut judged = vec![undisturbed(linear, by_clients.iter().map(|run| &run.1))];
    let [hardly, fewer, memory] = helpers(registry, &by_helpers);
    judged.extend([hardly, fewer].map(|one| undisturbed(one, by_helpers.iter().map(|run| &run.1))));
    judged.push(memory);
    Ok(Part { judged, section: section(&by_clients, &by_helpers, g)? })
}

fn linear(registry: &Registry, by_clients: &[(u32, Seen)], g: f64) -> Judged {
    let claim = registry.claim("live-clients");
    let (base_clients, base) = &by_clients[1];
    let (mut answer, mut worst) = (Answer::Yes, 0.0_f64);
    for (clients, seen) in by_clients {
        let ratio = Ratio::of(base.response, seen.response);
        let expected = f64::from(*clients) / f64::from(*base_clients);
        answer = answer.and(near(ratio, expected, claim.within()));
        let off = ratio.ratio / expected - 1.0;
        worst = if off.abs() > worst.abs() { off } else { worst };
    }
    let per_client = base.response.mean / f64::from(*base_clients);
    claim
        .judge()
        .formula(format!("{:.0} us*c", g * 1e6))
        .measured(format!("{:.0} us*c", per_client * 1e6))
        .found(format!(
            "R / c at {CLIENTS:?} clients is at most {} off that at {base_clients}. Formula: E[g] from \
             the sizes measured one at a time.",
            percent(worst)
        ))
        .shape(answer)
}

/// Both runs with so many helpers.
fn both(
    by_helpers: &[(u32, Seen, Option<Memory>)],
    helpers: u32,
    of: fn(&Seen) -> Estimate,
) -> Estimate {
    let runs = by_helpers.iter().filter(|run| run.0 == helpers);
    Estimate::combine(&runs.map(|run| (0.5, of(&run.1))).collect::<Vec<_>>())
}

fn helpers(registry: &Registry, by_helpers: &[(u32, Seen, Option<Memory>)]) -> [Judged; 3] {
    let claim = registry.claim("live-helpers");
    let response = |helpers| both(by_helpers, helpers, |seen| seen.response);
    let (mut answer, mut worst) = (Answer::Yes, 0.0_f64);
    for helpers in [16, 48] {
        let ratio = Ratio::of(response(8), response(helpers));
        answer = answer.and(near(ratio, 1.0, claim.within()));
        worst = if (ratio.ratio - 1.0).abs() > worst.abs() { ratio.ratio - 1.0 } else { worst };
    }
    let hardly = claim
        .judge()
        .formula("+0 %")
        .measured(percent(worst))
        .found(format!(
            "Mean response time with 16 and 48 helpers against 8, at {CLIENTS_THEN} clients: {}, {}, \
             {}; with 4: {}.",
            time(response(16).mean),
            time(response(48).mean),
            time(response(8).mean),
            time(response(4).mean)
        ))
        .shape(answer);

    let claim = registry.claim("live-forty-eight");
    let rate = |helpers| both(by_helpers, helpers, |seen| seen.throughput);
    let ratio = Ratio::of(rate(16), rate(48));
    let fewer = claim
        .judge()
        .formula("x1.00")
        .measured(format!("x{:.2}", ratio.ratio))
        .found(format!(
            "Connections a second, 48 helpers over 16: x{:.3} to x{:.3}.",
            ratio.low, ratio.high
        ))
        .shape(Answer::below(1.0 - claim.within(), ratio.low, ratio.high));

    let claim = registry.claim("live-memory").judge();
    let memory =
        |helpers: u32| by_helpers.iter().find(|run| run.0 == helpers).and_then(|run| run.2);
    let memory = match (memory(4), memory(48)) {
        (Some(few), Some(many)) => {
            let each = many.workers_pss.saturating_sub(few.workers_pss) / 44;
            claim
                .measured(format!("{} each", bytes(each)))
                .found(format!(
                    "Proportional set size of all helpers: {} with 4, {} with 48.",
                    bytes(few.workers_pss),
                    bytes(many.workers_pss)
                ))
                .shape(Evidence::of(&[each as f64], |found| found[0] > 0.0))
        }
        _ => claim.not_run(
            "The kernel does not show the helpers' memory (/proc/<pid>/smaps_rollup): this process \
             lacks CAP_SYS_PTRACE.",
        ),
    };
    [hardly, fewer, memory]
}

/// Names of the line and of the dots.
const LIMIT: &str = "c E[g]";
const MEASURED: &str = "measured";

fn section(
    by_clients: &[(u32, Seen)],
    by_helpers: &[(u32, Seen, Option<Memory>)],
    g: f64,
) -> Result<Section, Failure> {
    let line = by_clients.iter().map(|(c, _)| (f64::from(*c), f64::from(*c) * g * 1e3));
    let dots = by_clients.iter().map(|(c, seen)| {
        let response = seen.response;
        (f64::from(*c), response.mean * 1e3, response.low() * 1e3, response.high() * 1e3)
    });
    let dots: Vec<_> = dots.filter(|dot| dot.3.is_finite()).collect();
    let curves = Curves::new(Axis::linear("Clients", ""), Axis::linear("Mean response time", "ms"))
        .series(Series::line(LIMIT, line).hue(0))
        .series(Series::measured(MEASURED, dots).hue(0));
    let title = "Figure 2 on this machine: response time against clients";
    let figure = drawn::figure(title, curves, |drawn| {
        let ratios = drawn.row(MEASURED).over(drawn.row(LIMIT));
        format!(
            "The line is that of a server which is the limit, so that each client waits for all others; \
             measured are {} it.",
            drawn::times(ratios)
        )
    });
    let columns = [
        Column::plain("helpers"),
        Column::new("connections", "1/s"),
        Column::new("response", "ms"),
        Column::new("memory of helpers", "MB"),
    ];
    let mut table =
        Table::new(format!("Helpers varied, {CLIENTS_THEN} clients, in order"), columns);
    for (helpers, seen, memory) in by_helpers {
        let cells = [
            Cell::from(helpers.to_string()),
            cell(&seen.throughput, 1.0),
            cell(&seen.response, 1e3),
            memory.map_or(Cell::Empty, |memory| Cell::from(memory.workers_pss as f64 / 1e6)),
        ];
        table = table.row(cells).map_err(Failure::defect)?;
    }
    Ok(Section::new("Measured: experiment 2, clients and helpers")
        .paragraph(format!(
            "Apache prefork with the file list; {HELPERS} helpers where clients vary."
        ))
        .figure(figure?)
        .table(table))
}

/// An estimate in a table; without its interval where that has no end.
pub(super) fn cell(estimate: &Estimate, factor: f64) -> Cell {
    Cell::non_negative(estimate.mean * factor, estimate.half_width * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caption_tells_how_far_from_the_line_the_runs_are() {
        let rows = [4, 16].map(|clients| (clients, Seen::made_up(&[0.011 * f64::from(clients)])));
        let told = format!("{:?}", section(&rows, &[], 0.01).unwrap());
        assert!(told.contains("measured are 1.10 to 1.10 times it."), "{told}");
    }
}
