//! Words on a search for the knee: its foreseen course, and where the knee was found.

use measure::knee::{Believed, Knee, KneeSpec, Outcome, Probe, Why};

use crate::Verdict;
use crate::text::{rate, time};

/// Foreseen course of a search, told before it begins.
pub fn outlook(spec: &KneeSpec, quantile: f64, response_s: f64) -> String {
    let slot = 1.0 / response_s;
    let one = Probe { rate: slot, effort: 1 };
    let length_s = spec.length_s(one);
    let likely_s = spec.search_s(slot);
    let p = percentile(quantile);
    let mut text = format!(
        "A request alone takes {}. {p} needs {:.0} requests a probe, {} each at {}; a probe ends when it has \
         decided.",
        time(response_s),
        spec.requests,
        time(length_s),
        rate(slot)
    );
    if likely_s <= spec.budget_s {
        text += &format!(
            " An interval of a factor of two takes about {}; in {} (--budget) it is narrowed.",
            span(likely_s),
            span(spec.budget_s)
        );
        return text;
    }
    text += &format!(
        " If the server does one request at a time, that is about {} in all, more than the {} of --budget; it will \
         be told as far as it is known then.",
        span(likely_s),
        span(spec.budget_s)
    );
    match spec.quantile_within(slot).filter(|within| *within < quantile) {
        Some(within) => {
            text += &format!(" {} can tell {}.", span(spec.budget_s), percentile(within))
        }
        None => text += " No quantile can be told in less.",
    }
    text
}

fn percentile(quantile: f64) -> String {
    let percent = (quantile * 1e6).round() / 1e4;
    format!("p{percent}")
}

/// A length as a person says it: `40 s`, `3 min`.
pub fn span(seconds: f64) -> String {
    match seconds {
        s if !s.is_finite() => "no end".into(),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
    }
}

/// The verdict of a search and its sentence; `more` are options that give the generator more.
pub fn finding(knee: &Knee, believed: &Believed, limit: &str, more: &str) -> (Verdict, String) {
    match *knee {
        Knee::Between { low, high } => (
            Verdict::Holds,
            format!("{limit} holds up to {} and fails at {}", rate(low), rate(high)),
        ),
        Knee::Above { low } => {
            (Verdict::Holds, format!("{limit} holds even at {}, the highest rate tried", rate(low)))
        }
        Knee::Below { high } => {
            (Verdict::Fails, format!("{limit} fails even at {}, the lowest rate tried", rate(high)))
        }
        Knee::Inconclusive { why, .. } => {
            let known = known(knee, believed, limit);
            let verdict = match why {
                Why::Stopped => Verdict::Interrupted,
                _ => Verdict::Inconclusive,
            };
            let why = match why {
                Why::Probes => "the probes were used up: allow longer ones with `--duration`",
                Why::Budget => {
                    "the time was used up before the interval was as narrow as it should be: allow \
                                more with `--budget`"
                }
                Why::Stopped => "that is what was known when it was stopped",
                Why::Noise => {
                    "between them nothing could be decided: allow longer probes with `--duration`"
                }
                Why::Few => {
                    "too few requests were seen to tell: allow longer probes with `--duration`"
                }
                Why::Generator => &format!(
                    "the generator could not make the next load in time: give it more {more}"
                ),
            };
            (verdict, format!("{known}; {why}"))
        }
    }
}

/// The ends of a knee, as far as they are known, in words; those that were seen once are marked.
pub fn known(knee: &Knee, believed: &Believed, limit: &str) -> String {
    let told = |end: f64, believed: Option<f64>| match believed == Some(end) {
        true => rate(end),
        false => format!("{} (seen once)", rate(end)),
    };
    match knee.ends() {
        (Some(low), Some(high)) => {
            let (low, high) = (told(low, believed.low), told(high, believed.high));
            format!("{limit} holds at {low} and fails at {high}")
        }
        (Some(low), None) => {
            format!("{limit} holds at {}; no rate was seen to fail", told(low, believed.low))
        }
        (None, Some(high)) => {
            format!("{limit} fails at {}; no rate was seen to hold", told(high, believed.high))
        }
        (None, None) => format!("no rate was seen to hold or fail {limit}"),
    }
}

/// Outcome of a probe, in a word.
pub fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Holds => "holds",
        Outcome::Fails => "fails",
        Outcome::Straddles => "straddles",
        Outcome::TooFew => "too few",
        Outcome::Invalid => "invalid",
    }
}
