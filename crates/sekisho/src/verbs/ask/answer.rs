//! Parts that all questions have in common: how they are put, and how an answer is said.

use std::io::Write;
use std::path::PathBuf;

use advise::questions::{
    Assessment, Bottleneck, Busy, Capacity, Change, ClassLoad, Growth, Hardness, Holds, Judged,
    Observed, Policies, Sensitivity, Servers, Slots,
};
use advise::{Approximation, Right, Scenario};
use clap::Args as ClapArgs;
use cli::json::{Answer, Format};
use cli::text::{
    Table, label, next, option, paragraph, percent_estimate, quantile_estimate, rate,
    rate_estimate, sentence, shell_word, time, time_estimate,
};
use cli::{Failure, Verdict, say, store};
use formats::exchange::read_scenario;
use measure::Estimate;
use schemars::JsonSchema;
use serde::Serialize;
use sim::{Options, Quantity};

/// What every question is put with.
#[derive(ClapArgs)]
pub(super) struct Common {
    /// The scenario
    #[arg(value_name = "SCENARIO")]
    pub(super) scenario: PathBuf,
    /// The seed of the simulations; left out, the scenario's, or 1
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Each simulation stops at the latest after about so many requests
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    max_requests: u64,
    /// Most threads that may simulate; left out, one a processor
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

impl Common {
    pub(super) fn read(&self) -> Result<(Scenario, Options), Failure> {
        store::no_recording(&self.scenario, "scenario")?;
        let scenario = read_scenario(&self.scenario)?;
        let options = Options {
            seed: self.seed.or(scenario.seed).unwrap_or(1),
            completions_max: self.max_requests,
            threads: self.threads,
            ..Options::default()
        };
        Ok((scenario, options))
    }

    /// A failure that names the file.
    pub(super) fn failed(&self) -> impl Fn(advise::questions::QuestionError) -> Failure {
        |error| Failure::Usage(format!("{}: {error}", self.scenario.display()))
    }

    /// Says the answer: as JSON, or the verdict, the numbers, why, and what to type next.
    pub(super) fn say<A>(
        &self,
        out: &mut dyn Write,
        verdict: Verdict,
        answer: &A,
        text: &Text,
    ) -> Result<Verdict, Failure>
    where
        for<'a> Asked<'a, A>: Answer,
    {
        if self.json {
            let asked = Asked {
                approximate: text.approximation.approximate,
                error: text.approximation.error,
                headline: &text.headline,
                answer,
            };
            say(out, &cli::json::answer(verdict, verdict.word(), &asked))?;
            return Ok(verdict);
        }
        let headline = text.headline.clone() + &text.approximation.of_formula();
        let mut all = format!("{}\n", sentence(&headline));
        all += &text.numbers;
        all.push('\n');
        for why in &text.why {
            all += &paragraph(why);
        }
        all.push('\n');
        all += &next(&text.next);
        say(out, &all)?;
        Ok(verdict)
    }

    /// A command about the same scenario, as a shell reads it: `ask servers`, say, with the options that
    /// have a value, and with the seed if one was given.
    pub(super) fn command(&self, verb: &str, options: &[(&str, Option<&str>)]) -> String {
        let mut command = format!("sekisho {verb} {}", shell_word(&self.scenario));
        for (name, value) in options {
            command += &value.map_or(String::new(), |value| option(name, value));
        }
        command + &self.seed.map_or(String::new(), |seed| option("seed", &seed.to_string()))
    }
}

/// Answer to a question about a scenario.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Asked<'a, A> {
    /// True if a formula's numbers are among it that are approximate.
    approximate: bool,
    /// The largest relative error where that formula was tried.
    error: Option<f64>,
    /// The answer in words.
    headline: &'a str,
    answer: &'a A,
}

macro_rules! formats {
    ($($answer:ident $name:literal),+ $(,)?) => {
        $(impl Answer for Asked<'_, $answer> {
            const FORMAT: &'static str = $name;
        })+

        /// Formats of the answers to questions.
        pub(super) fn formats() -> Vec<Format> {
            vec![$(Format::of_answer::<Asked<'_, $answer>>()),+]
        }
    };
}

formats!(
    Bottleneck "sekisho/ask-bottleneck/1",
    Capacity "sekisho/ask-capacity/1",
    Holds "sekisho/ask-holds/1",
    Policies "sekisho/ask-policy/1",
    Sensitivity "sekisho/ask-sensitivity/1",
    Servers "sekisho/ask-servers/1",
    Slots "sekisho/ask-slots/1",
);

/// An answer in words.
pub(super) struct Text {
    pub(super) headline: String,
    /// Error that the formula's numbers may have, where any are shown.
    pub(super) approximation: Approximation,
    pub(super) numbers: String,
    pub(super) why: Vec<String>,
    pub(super) next: String,
}

pub(super) fn verdict_of(kept: Right) -> Verdict {
    match kept {
        Right::Yes => Verdict::Holds,
        Right::CannotTell => Verdict::Inconclusive,
        Right::No => Verdict::Fails,
    }
}

/// A load: `12 clients`, or, of several classes, how many times as much.
pub(super) fn load_text(growth: &Growth, loads: &[ClassLoad]) -> String {
    let grown: Vec<&ClassLoad> = match &growth.class {
        Some(class) => loads.iter().filter(|load| load.class == *class).collect(),
        None => loads.iter().collect(),
    };
    match grown.as_slice() {
        [one] => match one.load {
            advise::Load::Rate(per_second) => rate(per_second),
            clients @ advise::Load::Clients(_) => clients.to_string(),
        },
        _ => growth.to_string(),
    }
}

/// Share of the requests that fail, if any does: refused, where gates turn all of them away.
pub(super) fn failing(seen: &Observed) -> Option<String> {
    let failed = seen.failed.as_ref().filter(|share| share.mean > 0.0)?;
    let refused = seen.refused.as_ref().map_or(0.0, |share| share.mean);
    let word = if refused == failed.mean { "are refused" } else { "fail" };
    Some(format!("{} of the requests {word}", percent_estimate(failed, 1)))
}

/// Every limit with what was simulated, and what the formula says.
pub(super) fn limits(limits: &[Judged]) -> String {
    let mut table = Table::new(&["limit", "formula", "simulated", "kept"]);
    for limit in limits {
        let show = |value: f64| match limit.quantity {
            Quantity::Throughput => rate(value),
            Quantity::Refused | Quantity::Failed => share(value),
            Quantity::Response | Quantity::Quantile(_) => time(value),
        };
        let simulated = limit.simulated.as_ref().map_or("-".into(), |value| match limit.quantity {
            Quantity::Throughput => rate_estimate(value),
            Quantity::Refused | Quantity::Failed => percent_estimate(value, 2),
            Quantity::Response | Quantity::Quantile(_) => time_estimate(value),
        });
        table.row(vec![
            limit.limit.clone(),
            limit.formula.map_or("-".into(), show),
            simulated,
            kept(limit.kept).into(),
        ]);
    }
    table.to_string()
}

fn kept(kept: Right) -> &'static str {
    match kept {
        Right::Yes => "yes",
        Right::CannotTell => "?",
        Right::No => "no",
    }
}

/// Throughput, mean and quantiles of what was simulated, the formula beside it.
pub(super) fn observed(assessment: &Assessment) -> String {
    let Some(seen) = &assessment.simulated else { return String::new() };
    let failed = seen.failed.as_ref().filter(|share| share.mean > 0.0);
    let head = ["", "throughput", "mean response", "p50", "p99"].into_iter();
    let mut table = Table::new(&head.chain(failed.map(|_| "fail")).collect::<Vec<_>>());
    if let Some(answer) = &assessment.formula {
        let (throughput, response) = (rate(answer.throughput), time(answer.response));
        let quantile = |q| {
            let known = answer.quantiles.as_ref().and_then(|known| known.at(q));
            known.map_or("-".into(), time)
        };
        let cells = ["formula".into(), throughput, response, quantile(0.5), quantile(0.99)];
        let known = answer.refused.unwrap_or(0.0) + answer.lost.unwrap_or(0.0);
        table.row(cells.into_iter().chain(failed.map(|_| share(known))).collect());
    }
    let cells = vec![
        "simulated".into(),
        rate_estimate(&seen.throughput),
        time_or_dash(seen.response.as_ref()),
        quantile_or_dash(seen.p50.as_ref()),
        quantile_or_dash(seen.p99.as_ref()),
    ];
    let failed = failed.map(|share| percent_estimate(share, 1));
    table.row(cells.into_iter().chain(failed).collect());
    table.to_string()
}

pub(super) fn time_or_dash(estimate: Option<&Estimate>) -> String {
    estimate.map_or("-".into(), time_estimate)
}

fn quantile_or_dash(estimate: Option<&Estimate>) -> String {
    estimate.map_or("-".into(), quantile_estimate)
}

/// `12.0 %`.
pub(super) fn share(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A strip: every gate and station, the busiest first, with a bar.
pub(super) fn strip(busy: &[Busy]) -> String {
    const CELLS: usize = 30;
    let mut sorted: Vec<&Busy> = busy.iter().collect();
    sorted.sort_by(|a, b| b.share.mean.total_cmp(&a.share.mean));
    let mut table = Table::new(&["", "kind", "has", "busy", ""]);
    for busy in sorted {
        let full = (busy.share.mean.clamp(0.0, 1.0) * CELLS as f64).round() as usize;
        let bar = format!("|{}{}|", "#".repeat(full), "-".repeat(CELLS - full));
        let kind = hardness(busy.hardness).to_owned();
        let has = busy.capacity.to_string();
        table.row(vec![label(&busy.name), kind, has, share(busy.share.mean), bar]);
    }
    table.to_string()
}

pub(super) fn hardness(hardness: Hardness) -> &'static str {
    match hardness {
        Hardness::Soft => "soft",
        Hardness::Hard => "hard",
    }
}

/// A change with its interval: `+3.1 % (+2.0 to +4.2)`.
pub(super) fn change_text(change: Option<&Change>) -> String {
    let Some(change) = change else { return "-".into() };
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    if change.low == 1.0 && change.high == 1.0 {
        return "=".into();
    }
    let (low, high) = (percent(change.low), percent(change.high));
    let mark = if change.is_real() { "*" } else { " " };
    format!("{:+.1} % ({low:+.1} to {high:+.1}){mark}", percent(change.ratio))
}

/// Sources of the numbers.
pub(super) fn sources(formula_note: &str, formula_error: Option<f64>, seed: u64) -> Vec<String> {
    let mut sources = vec![format!("formula: {formula_note}")];
    sources.extend(formula_error.and_then(advise::who_answers));
    sources.push(format!("simulated: 10 replications, 95 % intervals, seed {seed}."));
    sources
}

/// The largest error of the formula of an assessment, where it has one.
pub(super) fn error_of(assessment: &Assessment) -> Option<f64> {
    assessment.formula.as_ref()?.trust.error
}
