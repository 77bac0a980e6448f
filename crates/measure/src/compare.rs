//! Compares two runs: is b better than a, worse, the same for all that matters, or is it not known.

use crate::{Estimate, Fault, Judgement, Measures, Ratio, RunHeader, RunRecord};

/// Two runs, b against a.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Of the throughputs.
    pub throughput: Change,
    /// Of the mean response times.
    pub response: Change,
    /// Of the 0.99 quantiles of the response times.
    pub p99: Change,
    /// Things in which the two runs [differ](differing): then the ratios compare more than the targets.
    pub differing: Vec<String>,
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
    Comparison {
        throughput: change(&|measures| Some(measures.throughput), Better::More),
        response: change(&|measures| measures.response, Better::Less),
        p99: change(&p99, Better::Less),
        differing: differing(&a.header, &b.header),
        faults: [judged_a.faults, judged_b.faults],
    }
}

/// Compares several runs b with several runs a, so that what differs from run to run is in the intervals: each run is
/// one value, and the interval is Welch's on logarithms. A single run on one side is held against the
/// spread of the other side's (its own is not known). One run on each side is compared as by [`compare`].
///
/// # Panics
/// If a side has no run, the confidence is not between 0 and 1, or `difference_min` not above 0.
pub fn compare_runs(
    a: &[&RunRecord],
    b: &[&RunRecord],
    confidence: f64,
    difference_min: f64,
) -> Comparison {
    assert!(difference_min > 0.0, "a smallest difference that matters of {difference_min}");
    assert!(!a.is_empty() && !b.is_empty(), "a comparison has two sides");
    if let ([a], [b]) = (a, b) {
        return compare(a, b, confidence, difference_min);
    }
    let judge = |runs: &[&RunRecord]| -> Vec<Judgement> {
        runs.iter().map(|run| run.judge(confidence)).collect()
    };
    let (judged_a, judged_b) = (judge(a), judge(b));
    let valid = judged_a.iter().chain(&judged_b).all(Judgement::is_valid);
    let change = |of: &dyn Fn(&Measures) -> Option<Estimate>, better: Better| {
        let values = |side: &[Judgement]| -> Option<Vec<f64>> {
            let value = |judged: &Judgement| of(&judged.all).map(|estimate| estimate.mean);
            side.iter().map(value).map(|mean| mean.filter(|mean| *mean > 0.0)).collect()
        };
        let pair = values(&judged_a).zip(values(&judged_b));
        let ratio = pair.map(|(a, b)| Ratio::of_runs(&a, &b, confidence));
        let verdict = match ratio {
            Some(ratio) if valid => verdict(ratio, difference_min, better),
            _ => ChangeVerdict::Inconclusive,
        };
        Change { ratio, verdict }
    };
    let mut differing: Vec<String> = Vec::new();
    for run in a.iter().skip(1).chain(b) {
        differing.extend(self::differing(&a[0].header, &run.header));
    }
    differing.sort();
    differing.dedup();
    let faults = |side: Vec<Judgement>| side.into_iter().flat_map(|judged| judged.faults).collect();
    Comparison {
        throughput: change(&|measures| Some(measures.throughput), Better::More),
        response: change(&|measures| measures.response, Better::Less),
        p99: change(&p99, Better::Less),
        differing,
        faults: [faults(judged_a), faults(judged_b)],
    }
}

fn p99(measures: &Measures) -> Option<Estimate> {
    measures.quantiles.iter().find(|quantile| quantile.q == 0.99)?.response
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

/// Things in which two runs differ, settings by their names. The length of the record's intervals is none: it changes
/// nothing of the load.
pub fn differing(a: &RunHeader, b: &RunHeader) -> Vec<String> {
    let things = [
        ("target", a.target != b.target),
        ("load", a.load != b.load),
        ("classes", a.classes != b.classes),
        ("host", a.host != b.host),
        ("tool", a.tool != b.tool),
    ];
    let things = things.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name);
    let settings = a.settings.keys().chain(b.settings.keys()).map(String::as_str);
    let settings = settings
        .filter(|name| *name != "interval" && a.settings.get(*name) != b.settings.get(*name));
    things.chain(settings).map(str::to_owned).collect()
}
