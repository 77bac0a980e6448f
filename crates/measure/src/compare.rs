//! Compares two runs: is b better than a, worse, the same for all that matters, or is it not known.

use crate::{Estimate, Fault, Measures, Ratio, RunRecord};

/// Two runs, b against a.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Of the throughputs.
    pub throughput: Change,
    /// Of the mean response times.
    pub response: Change,
    /// Of the 0.99 quantiles of the response times.
    pub p99: Change,
    /// Names of the settings in which the two runs differ: then the ratios compare more than the
    /// targets.
    pub differing: Vec<&'static str>,
    /// Faults of run a, and of run b; if there is any, every verdict is inconclusive.
    pub faults: [Vec<Fault>; 2],
}

/// Change of one quantity from a to b.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// b over a; `None` if one of them has no such number.
    pub ratio: Option<Ratio>,
    /// Verdict on it.
    pub verdict: ChangeVerdict,
}

/// Verdict on a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeVerdict {
    /// b is better: surely at all, and probably by enough to matter.
    Better,
    /// b is worse: surely at all, and probably by enough to matter.
    Worse,
    /// The two surely differ by too little to matter.
    NoDifference,
    /// The interval leaves it open, or a run is not valid: measure longer.
    Inconclusive,
}

impl ChangeVerdict {
    /// Verdict on a ratio of which more is better; `difference_min` as in [`compare`].
    pub fn of(ratio: Ratio, difference_min: f64) -> ChangeVerdict {
        verdict(ratio, difference_min, Better::More)
    }
}

/// Compares run b with run a, each a single run: Welch's intervals on logarithms (see [`Ratio::of`]).
/// `difference_min` is the smallest relative difference that matters, 0.05 for 5 %. What differs from
/// run to run (a neighbour, a thermal state) is not in a single run's interval: for that, interleave
/// several and take [`Ratio::paired`].
///
/// # Panics
/// If the confidence is not between 0 and 1, or `difference_min` not above 0.
pub fn compare(a: &RunRecord, b: &RunRecord, confidence: f64, difference_min: f64) -> Comparison {
    assert!(difference_min > 0.0, "a smallest difference that matters of {difference_min}");
    let (judged_a, judged_b) = (a.judge(confidence), b.judge(confidence));
    let valid = judged_a.is_valid() && judged_b.is_valid();
    let change = |of: &dyn Fn(&Measures) -> Option<Estimate>, more_is_better: Better| {
        let ratio = of(&judged_a.all)
            .zip(of(&judged_b.all))
            .filter(|(a, b)| a.mean > 0.0 && b.mean > 0.0)
            .map(|(a, b)| Ratio::of(a, b));
        let verdict = match ratio {
            Some(ratio) if valid => verdict(ratio, difference_min, more_is_better),
            _ => ChangeVerdict::Inconclusive,
        };
        Change { ratio, verdict }
    };
    let p99 = |measures: &Measures| {
        measures.quantiles.iter().find(|quantile| quantile.q == 0.99)?.response
    };
    Comparison {
        throughput: change(&|measures| Some(measures.throughput), Better::More),
        response: change(&|measures| measures.response, Better::Less),
        p99: change(&p99, Better::Less),
        differing: differing(a, b),
        faults: [judged_a.faults, judged_b.faults],
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Better {
    More,
    Less,
}

fn verdict(ratio: Ratio, difference_min: f64, better: Better) -> ChangeVerdict {
    let enough = 1.0 + difference_min;
    let (more, less) = match better {
        Better::More => (ChangeVerdict::Better, ChangeVerdict::Worse),
        Better::Less => (ChangeVerdict::Worse, ChangeVerdict::Better),
    };
    if 1.0 / enough < ratio.low && ratio.high < enough {
        ChangeVerdict::NoDifference
    } else if ratio.low > 1.0 && ratio.ratio >= enough {
        more
    } else if ratio.high < 1.0 && ratio.ratio <= 1.0 / enough {
        less
    } else {
        ChangeVerdict::Inconclusive
    }
}

fn differing(a: &RunRecord, b: &RunRecord) -> Vec<&'static str> {
    let (a, b) = (&a.header, &b.header);
    [
        ("target", a.target != b.target),
        ("load", a.load != b.load),
        ("classes", a.classes != b.classes),
        ("settings", a.settings != b.settings),
        ("host", a.host != b.host),
        ("tool", a.tool != b.tool),
    ]
    .into_iter()
    .filter_map(|(name, differs)| differs.then_some(name))
    .collect()
}
