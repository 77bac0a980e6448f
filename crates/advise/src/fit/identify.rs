//! Processors and slots: told beforehand, seen in the runs, or asked for.

use super::evidence::{Point, interval};
use super::observed::Observed;
use super::{FitError, FitOptions};

/// # Errors
/// If more than one number of processors is possible and none is given.
pub(super) fn identify_cores(
    low: &Observed,
    high: &Observed,
    given: Option<u32>,
) -> Result<u32, FitError> {
    if let Some(cores) = given {
        return if cores == 0 {
            Err(FitError::DoesNotFit("`--cores` must be at least 1".into()))
        } else {
            Ok(cores)
        };
    }
    // X = m / E[g] and E[g] <= R(one client), so m <= X R: the rest is noise.
    let most = high.throughput.mean * low.response_mean();
    let noise = 2.0 * (high.throughput.relative() + low.response.relative()).min(0.5);
    let most = (most * (1.0 + noise)).floor().max(1.0) as u32;
    if most == 1 { Ok(1) } else { Err(FitError::CoresUnknown(most)) }
}

/// # Errors
/// If they are neither given nor told by the runs.
pub(super) fn identify_slots(
    point: &Point,
    draws: &[Point],
    high: &Observed,
    cores: u32,
    options: &FitOptions,
    notes: &mut Vec<String>,
) -> Result<u32, FitError> {
    let seen = point.slots.map(|slots| {
        (slots, interval(slots, draws.iter().filter_map(|draw| draw.slots), options.confidence))
    });
    if let Some(slots) = options.slots {
        if slots == 0 {
            return Err(FitError::DoesNotFit("`--slots` must be at least 1".into()));
        }
        // Above the clients of the run, slots leave no trace in it.
        let shown = f64::from(slots.min(high.clients));
        if let Some((mean, [lower, upper])) = seen
            && (shown < 0.7 * lower || shown > 1.4 * upper)
        {
            notes.push(format!(
                "the runs look like {mean:.1} slots ({lower:.1} to {upper:.1}), not {slots}: is \
                 something else in the way?"
            ));
        }
        return Ok(slots);
    }
    let Some((mean, [lower, upper])) = seen else {
        return Err(FitError::SlotsUnknown("all documents have one size".into()));
    };
    // N clients hold at most N slots: near that number the fit sees the clients, not the slots.
    if upper >= 0.9 * f64::from(high.clients) {
        return Err(FitError::SlotsUnknown(format!(
            "at least {:.0}; no run has clearly more clients than that",
            lower.floor().max(1.0)
        )));
    }
    if mean < 0.8 * f64::from(cores) {
        return Err(FitError::DoesNotFit(format!(
            "{mean:.1} slots come out for {cores} processors, which could not all be busy"
        )));
    }
    if upper - lower > 1.0 {
        notes.push(format!(
            "the runs tell the slots only roughly: {mean:.1} ({lower:.1} to {upper:.1}); if you know \
             them, say it with `--slots`"
        ));
    }
    Ok(mean.round().max(1.0) as u32)
}
