//! Answers of the model: its numbers, and what would be if something were otherwise.

use measure::figures::rate;
use solve::FlowEquivalent;
use thiserror::Error;

use super::curve::Curve;
use super::fit::{BLOCKS_MIN, DONE_MIN, Fit};
use super::observed::Block;
use super::{KEEP, MISFIT_MAX, Model, fits};
use crate::estimate::{Estimate, WhatIf};

/// Most that the throughput of now may be off what the model makes of it, as a share.
const OFF_MAX: f64 = 0.3;
/// The most clients that are asked about.
const CLIENTS_MAX: u32 = 1 << 20;
/// A level is within the range seen if it is at most so many times the most that was seen.
const BEYOND: f64 = 1.0 + 1e-9;

/// State of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Clients that may ask it for a slot.
    pub clients: u32,
    /// Servers.
    pub servers: u32,
    /// Slots of each server.
    pub slots: u32,
}

/// Findings as the parts of a scenario: clients that think, slots, a delay, and a station of like
/// servers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fitted {
    /// Clients.
    pub clients: u32,
    /// For how long one is away from the gate \[s\].
    pub think: f64,
    /// Slots of each server.
    pub slots: u32,
    /// Delay within a slot \[s\].
    pub delay: f64,
    /// Demand at the station \[s\].
    pub demand: f64,
    /// Its servers.
    pub servers: u32,
}

/// Why the model gives no answer.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Too little is known.
    #[error(
        "too little was seen yet: a model needs {DONE_MIN} jobs in {BLOCKS_MIN} s at least; ask \
         again under load"
    )]
    TooLittle,
    /// Nothing was done.
    #[error(
        "no job was done of late, so nothing is known of the load: ask again when the servers do \
         what they are asked"
    )]
    Idle,
    /// It would take long.
    #[error("that would be {asked:.0} clients: at most {CLIENTS_MAX} are reckoned with")]
    Clients {
        /// The number.
        asked: f64,
    },
    /// No such curve fits what was seen.
    #[error(
        "the model does not fit: at {level:.0} slots the throughput is {percent:+.0} % off that of \
         a station of servers behind a delay; try numbers of slots instead, or let `slots = \
         \"auto\"` do it"
    )]
    Misfit {
        /// Level at which it is worst \[slots\].
        level: f64,
        /// Deviation there.
        percent: f64,
    },
    /// The model does not give what is there.
    #[error(
        "the model gives {} for now, but {} were measured: the load has changed, or does not come \
         from {clients} clients alike; ask again later",
        rate(*modelled),
        rate(*measured)
    )]
    NotNow {
        /// \[1/s\].
        modelled: f64,
        /// \[1/s\].
        measured: f64,
        /// Number of clients.
        clients: u32,
    },
    /// A router is a matter of simulation.
    #[error(
        "the model knows one queue for all servers only: ask for `policy shared`, and simulate \
         `{policy}` with `sekisho ask`"
    )]
    Policy {
        /// Policy that was asked for.
        policy: String,
    },
}

impl Model {
    /// Estimates of what it has found: of servers behind the gate `of`, and of its classes by these
    /// names. Nothing if nothing is known yet.
    pub fn estimates(&self, of: &str, class: impl Fn(u32) -> String) -> Vec<Estimate> {
        let Some(fit) = &self.fit else { return Vec::new() };
        let basis = basis(fit);
        let mut rows = Vec::new();
        let mut row = |what: &str, unit: &str, value: f64, interval| {
            let [of, what, unit] = [of, what, unit].map(str::to_owned);
            let basis = basis.clone();
            rows.push(Estimate { of, what, unit, value, interval, happened: None, basis });
        };
        let best = &fit.best;
        let [alone, demand, delay, servers]: [fn(&Curve) -> f64; 4] =
            [|c| c.alone, Curve::demand, Curve::delay, |c| f64::from(c.servers)];
        row("time alone", "s", alone(best), Some(fit.range(alone)));
        if fit.has_knee {
            row("demand", "s", demand(best), Some(fit.range(demand)));
            row("delay", "s", delay(best), Some(fit.range(delay)));
            row("servers of the bottleneck", "", servers(best), Some(fit.range(servers)));
            row("knee", "slots", best.knee, Some(fit.range(|curve| curve.knee)));
            let most = Curve::throughput_max;
            row("throughput at most", "1/s", most(best), Some(fit.range(most)));
            let enough = |curve: &Curve| f64::from(curve.fewest(KEEP, slots_of(curve)));
            row("slots for 95 %", "slots", enough(best), Some(fit.range(enough)));
        }
        row("misfit", "", fit.misfit.0, None);
        if let Some(score) = self.score {
            rows.push(Estimate {
                of: of.to_owned(),
                what: "throughput, predicted".to_owned(),
                unit: "1/s".to_owned(),
                value: score.predicted,
                interval: Some(score.between),
                happened: Some(score.happened),
                basis: format!("said before the last {:.0} s", score.span),
            });
        }
        self.classes(of, &basis, class, &mut rows);
        rows
    }

    /// Estimates of the jobs of each class: how long they held their slots, and how long they would
    /// have alone.
    fn classes(
        &self,
        of: &str,
        basis: &str,
        class: impl Fn(u32) -> String,
        rows: &mut Vec<Estimate>,
    ) {
        let total = self.observed.total();
        for (at, sum) in total.classes.iter().enumerate().filter(|(_, sum)| sum.done > 0.0) {
            let blocks = self.observed.blocks().iter();
            let cells: Vec<_> = blocks.filter_map(|block| block.classes.get(at)).collect();
            let done: Vec<f64> = cells.iter().map(|cell| cell.done).collect();
            let alone: Vec<f64> = cells.iter().map(|cell| cell.alone).collect();
            let held: Vec<f64> = cells.iter().map(|cell| cell.held).collect();
            for (what, sums) in [("time alone", &alone), ("hold", &held)] {
                let found = measure::Estimate::from_ratio(sums, &done, 0.95);
                let interval = found.half_width.is_finite();
                rows.push(Estimate {
                    of: format!("{of} class {}", class(at as u32)),
                    what: what.to_owned(),
                    unit: "s".to_owned(),
                    value: found.mean,
                    interval: interval.then(|| (found.low().max(0.0), found.high())),
                    happened: None,
                    basis: format!("{} jobs; {basis}", sum.done),
                });
            }
        }
    }

    /// Findings, if a knee was seen and the model fits.
    pub fn fitted(&self, now: Now) -> Option<Fitted> {
        let fit = self.fit.as_ref().filter(|fit| fit.has_knee && fits(fit))?;
        let Load { clients, think, .. } = Load::of(&self.observed.total(), now.clients)?;
        let (delay, demand) = (fit.best.delay(), fit.best.demand());
        Some(Fitted { clients, think, slots: now.slots, delay, demand, servers: fit.best.servers })
    }

    /// Prediction of what would be if something were otherwise: throughput, and the mean wait, hold
    /// and response. `arrivals` are more clients of the same kind.
    ///
    /// # Errors
    /// If too little is known, the model does not fit, or the question is beyond it.
    pub fn what_if(&self, of: &str, asked: &WhatIf, now: Now) -> Result<Vec<Estimate>, Refusal> {
        let fit = self.fit.as_ref().ok_or(Refusal::TooLittle)?;
        if !fits(fit) {
            let (off, level) = fit.misfit;
            return Err(Refusal::Misfit { level, percent: off * 100.0 });
        }
        if let Some(policy) = asked.policy.as_ref().filter(|policy| *policy != "shared") {
            return Err(Refusal::Policy { policy: policy.clone() });
        }
        let load = Load::of(&self.observed.total(), now.clients).ok_or(Refusal::Idle)?;
        let present = answer(&fit.best, load, now.servers, now.slots);
        let (modelled, measured) = (present[0], load.throughput);
        if (modelled / measured - 1.0).abs() > OFF_MAX {
            return Err(Refusal::NotNow { modelled, measured, clients: load.clients });
        }
        let servers = asked.servers.unwrap_or(now.servers);
        let slots = asked.slots.unwrap_or(now.slots);
        let grown = f64::from(load.clients) * asked.arrivals.unwrap_or(1.0);
        if grown > f64::from(CLIENTS_MAX) {
            return Err(Refusal::Clients { asked: grown });
        }
        let clients = (grown.round() as u32).max(1);
        let grown = Load { clients, ..load };
        let all: Vec<[f64; 4]> =
            fit.region.iter().map(|curve| answer(curve, grown, servers, slots)).collect();
        let best = answer(&fit.best, grown, servers, slots);
        let held = f64::from(slots).min(f64::from(clients));
        let rows = NAMES.iter().enumerate().map(|(at, (what, unit))| {
            let values = all.iter().map(|answer| answer[at]);
            let ends =
                values.fold((best[at], best[at]), |(low, high), x| (low.min(x), high.max(x)));
            Estimate {
                of: of.to_owned(),
                what: (*what).to_owned(),
                unit: (*unit).to_owned(),
                value: best[at],
                interval: Some(ends),
                happened: None,
                basis: said(fit, held, clients, load.throughput, present[0]),
            }
        });
        Ok(rows.collect())
    }
}

const NAMES: [(&str, &str); 4] =
    [("throughput", "1/s"), ("wait", "s"), ("hold", "s"), ("response", "s")];

/// Clients that ask, do something else, and ask again.
#[derive(Clone, Copy, Debug)]
struct Load {
    clients: u32,
    /// \[s\].
    think: f64,
    /// Jobs done [1/s].
    throughput: f64,
}

impl Load {
    /// By Little's law the clients that are not at the gate are as many as start again a second
    /// times how long they are away.
    /// None where nothing was done.
    fn of(seen: &Block, clients: u32) -> Option<Load> {
        let throughput = Some(seen.done() / seen.span).filter(|throughput| *throughput > 0.0)?;
        let inside = (seen.held() + seen.waited) / seen.span;
        let clients = clients.max(inside.ceil() as u32).max(1);
        let think = (f64::from(clients) - inside).max(0.0) / throughput;
        Some(Load { clients, think, throughput })
    }
}

/// Throughput, wait, hold and response.
fn answer(curve: &Curve, load: Load, servers: u32, slots: u32) -> [f64; 4] {
    let most = slots.saturating_mul(servers).min(load.clients).max(1);
    let network = FlowEquivalent::new(load.clients, load.think, &curve.spread(servers, most));
    let found = network.expect("there are clients and slots, and rates are positive").solve();
    [found.throughput, found.wait, found.hold, found.wait + found.hold]
}

/// As many slots as show all that a curve can do.
fn slots_of(curve: &Curve) -> u32 {
    (4.0 * curve.knee + 40.0).min(4096.0) as u32
}

fn basis(fit: &Fit) -> String {
    let (off, at) = fit.misfit;
    let verdict = if off.abs() <= MISFIT_MAX { "" } else { "does not fit: " };
    format!(
        "{verdict}{:.0} jobs at {}, off by {:+.0} % at {at:.0}",
        fit.done,
        seen(fit.levels),
        // No `-0`.
        (off * 100.0).round() + 0.0
    )
}

/// Range of slots that were seen busy.
fn seen([low, high]: [f64; 2]) -> String {
    let (low, high) = (low.round(), high.round());
    if low < high {
        return format!("{low:.0} to {high:.0} slots");
    }
    format!("{high:.0} slot{}", if high == 1.0 { "" } else { "s" })
}

/// Basis of an answer, which says how far it may be trusted.
fn said(fit: &Fit, held: f64, clients: u32, measured: f64, modelled: f64) -> String {
    let range = match held <= fit.levels[1] * BEYOND {
        true => format!("seen at {}", seen(fit.levels)),
        false => format!("beyond the range seen, {}", seen(fit.levels)),
    };
    let now = ((modelled / measured - 1.0) * 100.0).round() + 0.0;
    format!("approximate, exponential demand; {clients} clients; {range}; now off by {now:+.0} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_one_number_is_that_number() {
        let said = [[0.6, 1.2], [2.0, 2.3], [1.0, 8.0]].map(seen);
        assert_eq!(said, ["1 slot", "2 slots", "1 to 8 slots"]);
    }

    /// A job a minute was "0.0/s" of "0.0/s".
    #[test]
    fn a_refusal_keeps_the_digits_of_its_rates() {
        let refused = Refusal::NotNow { modelled: 0.017, measured: 0.004_2, clients: 3 };
        let text = refused.to_string();
        assert!(
            text.starts_with("the model gives 0.0170 /s for now, but 0.00420 /s were"),
            "{text}"
        );
    }
}
