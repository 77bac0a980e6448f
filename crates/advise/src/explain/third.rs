//! The next run to make: the load that tells most, and the time that it takes.

use serde::Serialize;

use super::knee::clients;
use super::{Knee, LittleCheck, Pace, Side, ToolRun};

/// So many requests leave a hundred beyond p99.
const REQUESTS: f64 = 10_000.0;
/// Runs shorter than this are mostly their own beginning; longer ones nobody waits for \[s\].
const SECONDS: (f64, f64) = (10.0, 600.0);

/// A load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NextLoad {
    /// A closed load of so many clients.
    Clients(u32),
    /// An open load [1/s].
    Rate(f64),
}

/// The next run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NextRun {
    /// Its load.
    pub load: NextLoad,
    /// Its length \[s\].
    pub seconds: f64,
    /// Why this one.
    pub why: String,
}

pub(super) fn next(
    runs: &[ToolRun],
    little: &[LittleCheck],
    knee: &Knee,
    alone: Option<f64>,
) -> NextRun {
    let (load, why) = choose(runs, little, knee, alone);
    let rate = match load {
        NextLoad::Rate(rate) => rate,
        NextLoad::Clients(clients) => least(runs, little, f64::from(clients)),
    };
    let seconds = (REQUESTS / rate / 10.0).ceil() * 10.0;
    NextRun { load, seconds: seconds.clamp(SECONDS.0, SECONDS.1), why }
}

/// At least so many answers a second come with `n` clients.
fn least(runs: &[ToolRun], little: &[LittleCheck], n: f64) -> f64 {
    let of = |(run, check): (&ToolRun, &LittleCheck)| match (clients(check), run.fastest) {
        (Some(fewer), _) if fewer <= n => run.throughput,
        // The fastest met nobody, or nearly; fewer clients wait for fewer.
        (_, Some(fastest)) if fastest > 0.0 => run.throughput.min(0.5 / fastest),
        (Some(more), None) => run.throughput * n / more,
        _ => run.throughput,
    };
    runs.iter().zip(little).map(of).fold(0.0, f64::max).max(1e-9)
}

fn choose(
    runs: &[ToolRun],
    little: &[LittleCheck],
    knee: &Knee,
    alone: Option<f64>,
) -> (NextLoad, String) {
    let best = runs.iter().map(|run| run.throughput).fold(0.0, f64::max);
    if let Some(at) = little.iter().position(LittleCheck::is_failing) {
        let same = clients(&little[at]).unwrap_or(1.0) as u32;
        let why = format!("run {} again, once its requests no longer fail", at + 1);
        if runs[at].pace != Pace::AtOnce {
            return (NextLoad::Rate(0.8 * runs[at].throughput), why);
        }
        return (NextLoad::Clients(same.max(1)), why);
    }
    if runs.iter().all(|run| run.pace != Pace::AtOnce) {
        return match knee.side {
            Side::Past => {
                let why = "below what was answered: there the times belong to the server, not to \
                           the backlog";
                (NextLoad::Rate(0.8 * best), why.into())
            }
            _ => (NextLoad::Rate(1.5 * best), "one half more, until answers fall behind".into()),
        };
    }
    let mut known: Vec<f64> = little.iter().filter_map(clients).collect();
    known.sort_by(f64::total_cmp);
    let has = |n: f64| known.iter().any(|known| (known / n - 1.0).abs() < 0.25);
    let most = known.last().copied().unwrap_or(1.0);
    if !known.contains(&1.0) && alone.is_none() {
        let why = "a single client waits for nobody: its response is R_1 = D, which the knee needs";
        return (NextLoad::Clients(1), why.into());
    }
    let Some([lowest, highest]) = knee.clients else {
        let why = "the ceiling is not in sight: four times the clients";
        return (NextLoad::Clients((4.0 * most).min(1e6) as u32), why.into());
    };
    if knee.side != Side::Past {
        let to = (3.0 * highest).max(2.0 * most).min(1e6).ceil();
        let why = "well beyond the knee, so that the ceiling is seen and not extrapolated";
        return (NextLoad::Clients(to as u32), why.into());
    }
    let middle = (lowest * highest).sqrt().round().max(2.0);
    if !has(middle) && middle < most {
        let why = "at the knee itself: there the curve tells one queue from several";
        return (NextLoad::Clients(middle as u32), why.into());
    }
    let why = "the knee is known; an open load at 80 % of the ceiling tells what users will see, \
               which no closed run does";
    (NextLoad::Rate(0.8 * best), why.into())
}
