//! The measured part, on this machine: the paper's five experiments and its closing remark, with a
//! real Apache prefork, compression as the work, on one processor, and the generator on another.

mod clients;
mod closed;
mod forks;
mod mixes;
mod network;
mod press;
mod sizes;

use measure::Ratio;

use super::super::claim::{Answer, Judged, Registry};
use super::super::measuring::Measuring;
use crate::Reproduced;

use cli::Failure;
use press::Lab;
use report::Section;

/// Results of an experiment.
struct Part {
    judged: Vec<Judged>,
    section: Section,
}

/// Makes all measurements, each run as long as is asked for or a small multiple of it, and judges the
/// claims that need them.
pub(super) fn measure(registry: &Registry, measuring: &Measuring) -> Result<Reproduced, Failure> {
    let lab = Lab::open(measuring)?;
    measuring.begin(6)?;
    // Sizes come first: from them everything else is predicted.
    measuring.step("sizes")?;
    let (demands, sizes) = sizes::measure(registry, &lab)?;
    measuring.done("sizes")?;
    let part = |name: &str, part: Result<Part, Failure>| {
        let part = part?;
        measuring.done(name)?;
        Ok::<Part, Failure>(part)
    };
    let parts = [
        part("forks", forks::measure(registry, &lab))?,
        part("clients", clients::measure(registry, &lab, &demands))?,
        sizes,
        part("mixes", mixes::measure(registry, &lab, &demands))?,
        part("the network", network::measure(registry, &lab))?,
        part("the closed network", closed::measure(registry, &lab, &demands))?,
    ];
    let (mut judged, mut sections) = (Vec::new(), Vec::new());
    for part in parts {
        judged.extend(part.judged);
        sections.push(part.section);
    }
    let log = lab.log();
    if !log.faults.is_empty() {
        let text = log.faults.iter().fold(Section::new("Runs to be doubted"), |section, fault| {
            section.paragraph(fault.as_str())
        });
        sections.push(text.paragraph(
            "A drift in a run of a few seconds is somebody else's load on this machine; it widens the \
             intervals, and the claims are judged with those.",
        ));
    }
    let number = |value: u64| value.to_string();
    let facts = vec![
        ("measured runs".into(), number(u64::from(log.runs)), String::new()),
        ("of them doubtful".into(), number(log.faults.len() as u64), String::new()),
        ("measured requests".into(), number(log.requests), String::new()),
        ("of them failed".into(), number(log.failed), String::new()),
        ("processor of the servers".into(), lab.server_cpu.to_string(), String::new()),
    ];
    Ok(Reproduced { judged, sections, facts })
}

/// Answer to whether a ratio is within a share of what is expected; unlike a difference in the mean
/// this respects both intervals.
fn near(ratio: Ratio, expected: f64, within: f64) -> Answer {
    let (low, high) = (ratio.low / expected - 1.0, ratio.high / expected - 1.0);
    match () {
        () if low >= -within && high <= within => Answer::Yes,
        () if low > within || high < -within => Answer::No,
        () => Answer::CannotTell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearness_needs_the_whole_interval() {
        let ratio =
            |low, high| Ratio { ratio: f64::midpoint(low, high), low, high, confidence: 0.95 };
        assert_eq!(near(ratio(1.9, 2.1), 2.0, 0.1), Answer::Yes);
        assert_eq!(near(ratio(1.7, 2.1), 2.0, 0.1), Answer::CannotTell);
        assert_eq!(near(ratio(1.5, 1.7), 2.0, 0.1), Answer::No);
        assert_eq!(near(ratio(1.9, f64::INFINITY), 2.0, 0.1), Answer::CannotTell);
    }
}
