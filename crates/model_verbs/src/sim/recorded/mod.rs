//! The load of a recorded gate at other gates: which ones the flags name, and how they compare with the
//! recorded one.

mod compared;
mod gates;
mod shown;

use std::io::Write;
use std::ops::ControlFlow;

use cli::{Failure, Session, Verdict, progress, say};
use measure::GateAccount;
use sim::recorded::{RecordedLoad, RecordedLoadReader};

pub(super) use gates::OtherGates;

use super::Args;
use crate::recording::{CutOff, Recorded};
use compared::{Reproduction, differences};
use gates::OtherGate;

/// Result at one gate.
struct Simulated {
    gate: OtherGate,
    account: GateAccount,
}

/// A recording, and what its load does at each gate; the first is the recorded one.
struct WhatIf<'a> {
    args: &'a Args,
    seed: u64,
    recorded: Recorded,
    load: RecordedLoad,
    simulated: Vec<Simulated>,
    reproduction: Reproduction,
}

pub(super) fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    session.catch_interrupts()?;
    let path = &args.scenario;
    let seed = args.seed.unwrap_or(1);
    let mut reader = None;
    let cut_off = if args.other.partial { CutOff::Taken } else { CutOff::Refused };
    let recorded = Recorded::read(path, cut_off, session, true, &mut |spec, step| {
        reader.get_or_insert_with(|| RecordedLoadReader::new(spec)).step(step);
    })?;
    let failed = |error: String| Failure::Usage(format!("{}: {error}", path.display()));
    if recorded.quotas > 0 {
        return Err(failed(
            "its jobs also passed quotas while they held their slots; what they waited there is part of \
             their holds, and would be another with other slots. `sekisho replay` holds it against today's \
             gate; for a what-if simulate a scenario with gates inside gates, such as \
             studies/slots/quotas.toml"
                .into(),
        ));
    }
    let reader = reader.unwrap_or_else(|| RecordedLoadReader::new(&recorded.spec));
    let load = reader.finish(seed).map_err(|error| failed(error.to_string()))?;
    let gates = args.other.gates(&recorded)?;
    let simulated = simulate(args, session, &load, gates)?;
    let reproduction = Reproduction::of(&recorded.account, &simulated[0].account);
    let what_if = WhatIf { args, seed, recorded, load, simulated, reproduction };
    let verdict = match what_if.reproduction.is_near() {
        true => Verdict::Holds,
        false => Verdict::DoesNotFit,
    };
    let text = match args.json {
        true => cli::json::answer(verdict, verdict.word(), &what_if.answer()),
        false => what_if.text(verdict),
    };
    say(out, &text)?;
    Ok(verdict)
}

fn simulate(
    args: &Args,
    session: &Session,
    load: &RecordedLoad,
    gates: Vec<OtherGate>,
) -> Result<Vec<Simulated>, Failure> {
    let jobs = load.jobs().len() as u64;
    let bar = progress(jobs * gates.len() as u64, "simulating");
    bar.tick();
    let mut all = Vec::new();
    for (nth, gate) in (0..).zip(gates) {
        let mut go_on = |arrived: u64| {
            bar.set_position(jobs * nth + arrived);
            if session.interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let account = load.simulate(&gate.spec, gate.resizes, &mut go_on).map_err(|error| {
            Failure::Usage(format!("{}: {}: {error}", args.scenario.display(), gate.name))
        });
        match account? {
            Some(account) => all.push(Simulated { gate, account }),
            None => {
                bar.finish_and_clear();
                return Err(Failure::Interrupted(format!("simulating {}", gate.name)));
            }
        }
    }
    bar.finish_and_clear();
    Ok(all)
}

impl WhatIf<'_> {
    /// The difference of the mean wait to that at the recorded gate, as it was simulated.
    fn difference(&self, simulated: &Simulated, class: Option<u32>) -> Option<measure::Estimate> {
        let base = &self.simulated[0].account;
        differences(&self.load, base.fates(), simulated.account.fates(), class)
    }
}
