//! Experiment 4: documents of 50 KB and 500 KB in five ratios, at 4, 16 and 32 clients.

use cli::Failure;
use cli::text::percent;
use measure::{Estimate, Ratio};
use report::{Axis, Curves, Section, Series};
use sim::StationKind;

use crate::drawn::{self, Drawn, sentence, times};

use super::super::super::claim::{Answer, Judged, Registry};
use super::super::benchmark::{MIXES, mix};
use super::super::closed::Loop;
use super::press::{Ask, Lab, Seen, undisturbed};
use super::sizes::Demands;
use super::{Part, near};

const CLIENTS: [u32; 3] = [4, 16, 32];
const HELPERS: u32 = 16;
/// Simulated requests a run.
const COMPLETIONS: u64 = 40_000;

/// All runs at one number of clients, in the order of the ratios.
struct Series50 {
    clients: u32,
    seen: Vec<Seen>,
}

impl Series50 {
    /// Response time of 50 KB documents, wherever they are asked for.
    fn of_50(&self) -> Vec<Estimate> {
        let asked = self.seen.iter().zip(MIXES).filter(|(_, of_500)| *of_500 < 1000);
        asked.filter_map(|(seen, _)| seen.of[0]).collect()
    }

    /// Ratio by which they are slower where three quarters ask for 500 KB than where nobody does.
    fn slowed(&self) -> Result<Ratio, Failure> {
        match self.of_50()[..] {
            [pure, _, _, mixed] => Ok(Ratio::of(pure, mixed)),
            _ => Err(Failure::Machine(
                "a mix was measured without a 50 KB document: use more --seconds".into(),
            )),
        }
    }
}

pub(super) fn measure(registry: &Registry, lab: &Lab, demands: &Demands) -> Result<Part, Failure> {
    let server = lab.start(HELPERS, &mix(500))?;
    let mut all = Vec::new();
    for clients in CLIENTS {
        let mut seen = Vec::new();
        for of_500 in MIXES {
            let documents = mix(of_500);
            let round = f64::from(clients) * documents.mean_of(|one| demands.of(one.bytes as f64));
            let length_s = lab.seconds;
            let ask =
                Ask { clients, documents, length_s, warmup_s: 0.1 + 2.0 * round, deck_s: None };
            seen.push(lab.press(&server, ask)?);
        }
        all.push(Series50 { clients, seen });
    }
    drop(server);
    let run = |clients, of_500| Loop::new(clients, HELPERS, mix(of_500), |bytes| demands.of(bytes));
    let judged = vec![
        undisturbed(weighted(registry, &all), all.iter().flat_map(|series| &series.seen)),
        undisturbed(slowed(registry, "live-mixed-many", &all[2], run, lab.seed)?, &all[2].seen),
        undisturbed(slowed(registry, "live-mixed-few", &all[0], run, lab.seed)?, &all[0].seen),
    ];
    Ok(Part { judged, section: section(&all, run)? })
}

/// The mean lies on the line between the pure loads.
fn weighted(registry: &Registry, all: &[Series50]) -> Judged {
    let claim = registry.claim("live-mixed-mean");
    let (mut answer, mut worst) = (Answer::Yes, 0.0_f64);
    for series in all {
        let (first, last) = (series.seen[0].response, series.seen[MIXES.len() - 1].response);
        for (seen, of_500) in series.seen.iter().zip(MIXES).skip(1).take(MIXES.len() - 2) {
            let share = f64::from(of_500) / 1000.0;
            let line = Estimate::combine(&[(1.0 - share, first), (share, last)]);
            let ratio = Ratio::of(line, seen.response);
            answer = answer.and(near(ratio, 1.0, claim.within()));
            let off = ratio.ratio - 1.0;
            worst = if off.abs() > worst.abs() { off } else { worst };
        }
    }
    claim
        .judge()
        .formula("+0 %")
        .measured(percent(worst))
        .found("The largest distance of a mean response time from the line between the pure loads.")
        .shape(answer)
}

/// Verdict on how the 500 KB documents slow those of 50 KB.
fn slowed(
    registry: &Registry,
    id: &str,
    series: &Series50,
    run: impl Fn(u32, u32) -> Loop,
    seed: u64,
) -> Result<Judged, Failure> {
    let many = series.clients > HELPERS;
    let seen = series.slowed()?;
    let by_formula =
        of_50_by_formula(&run(series.clients, 750))? / of_50_by_formula(&run(series.clients, 0))?;
    let fair = |of_500| -> Result<f64, Failure> {
        let fair = Loop { server: FAIR, ..run(series.clients, of_500) };
        let simulated = fair.simulate(COMPLETIONS, seed)?;
        Ok(simulated.of(0).expect("a quarter and more ask for it").mean)
    };
    let simulated = fair(750)? / fair(0)?;
    // By the model 2.8 times and not at all; halfway between is 2.
    let answer = match many {
        true => Answer::above(2.0, seen.low, seen.high),
        false => Answer::below(2.0, seen.low, seen.high),
    };
    Ok(registry
        .claim(id)
        .judge()
        .formula(format!("x{by_formula:.2}"))
        .simulation(format!("x{simulated:.2}"))
        .measured(format!("x{:.2}", seen.ratio))
        .found(format!(
            "Response time of 50 KB where three quarters ask for 500 KB, over that where nobody does; \
             interval x{:.2} to x{:.2}; {} than twice is {}. Simulated: fair share in turns of 1.4 ms and on to the next tick of 4 ms.",
            seen.low,
            seen.high,
            if many { "more" } else { "less" },
            if many { "slowed" } else { "hardly slowed" }
        ))
        .shape(answer))
}

/// Turns as Linux gives them on two processors with 250 ticks a second: a process that has had 1.4 ms
/// (0.7 ms, and as much again for each doubling of the processors) keeps the processor up to the next tick.
/// Turns of one length would make steps: a document that needs a little more than so many of them waits for
/// a turn of everybody else's more, 13 % at 12 helpers.
pub(super) const FAIR: StationKind = StationKind::FairShare { quantum_s: 1.4e-3, tick_s: 4e-3 };

/// Response time of the first document by the saturated loop \[s\].
fn of_50_by_formula(run: &Loop) -> Result<f64, Failure> {
    let given = solve::SaturatedLoop::new(run.clients, run.slots, run.demand())
        .and_then(|formula| formula.response_given(run.demands[0]));
    given.map_err(Failure::defect)
}

/// The small documents, measured: how much longer they take among the most large ones, and beside their
/// formula.
fn small(drawn: &Drawn) -> String {
    let measured = drawn.rows().iter().filter_map(|row| {
        let clients = row.name.strip_prefix(SMALL)?.strip_suffix(" clients")?;
        let formula = drawn.row(&format!("{}{FORMULA}", row.name));
        let [[_, least], [share, most]] = row.ends()?;
        Some(format!(
            "with {clients} clients {:.2} times as long at {share} % of 500 KB as at the least share, and {} \
             the formula",
            most / least,
            times(row.over(formula))
        ))
    });
    sentence(&format!("50 KB measured, {}", measured.collect::<Vec<_>>().join("; ")))
}

/// Name of the small documents in a legend, and the end of it for their formula.
const SMALL: &str = "50 KB, ";
const FORMULA: &str = ", formula";

fn section(all: &[Series50], run: impl Fn(u32, u32) -> Loop) -> Result<Section, Failure> {
    let axes = (Axis::linear("Share of 500 KB", "%"), Axis::log("Mean response time", "ms"));
    let mut curves = Curves::new(axes.0, axes.1);
    for (hue, series) in (0_u8..).zip(all) {
        let c = series.clients;
        let mut formula = Vec::new();
        for of_500 in &MIXES[..MIXES.len() - 1] {
            formula.push((f64::from(*of_500) / 10.0, of_50_by_formula(&run(c, *of_500))? * 1e3));
        }
        let dots = |values: Vec<Estimate>| {
            let values = values.into_iter().zip(MIXES).filter(|(value, _)| value.relative() < 1.0);
            values
                .map(|(value, of_500)| {
                    let at = f64::from(of_500) / 10.0;
                    (at, value.mean * 1e3, value.low() * 1e3, value.high() * 1e3)
                })
                .collect::<Vec<_>>()
        };
        curves =
            curves.series(Series::line(format!("{SMALL}{c} clients{FORMULA}"), formula).hue(hue));
        let all_sizes = series.seen.iter().map(|seen| seen.response).collect();
        for (name, dots) in [("50 KB", dots(series.of_50())), ("all", dots(all_sizes))] {
            if !dots.is_empty() {
                curves =
                    curves.series(Series::measured(format!("{name}, {c} clients"), dots).hue(hue));
            }
        }
    }
    let title = "Figures 9 and 10 on this machine: 50 KB and 500 KB mixed";
    let figure = drawn::figure(title, curves, small);
    Ok(Section::new("Measured: experiment 4, two sizes mixed")
        .paragraph(format!(
            "Apache prefork, {HELPERS} helpers. Formula: the saturated loop with the demands measured \
             one size at a time."
        ))
        .figure(figure?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The story: under whatever was measured stood that small documents wait behind large ones.
    #[test]
    fn the_caption_tells_how_much_longer_small_documents_took() {
        let run = |clients, of_500| Loop::new(clients, HELPERS, mix(of_500), |bytes| bytes / 1e7);
        let all = CLIENTS.map(|clients| {
            let by_formula = of_50_by_formula(&run(clients, 0)).unwrap();
            let slowed = |at: usize| by_formula * (1.0 + at as f64 * f64::from(clients) / 10.0);
            let seen = (0..MIXES.len()).map(|at| Seen::made_up(&[slowed(at), 1.0]));
            Series50 { clients, seen: seen.collect() }
        });
        let told = format!("{:?}", section(&all, run).unwrap());
        for clients in CLIENTS {
            let times = 1.0 + 3.0 * f64::from(clients) / 10.0;
            let wanted =
                format!("with {clients} clients {times:.2} times as long at 75 % of 500 KB");
            assert!(told.contains(&wanted), "{wanted}: {told}");
        }
    }
}
