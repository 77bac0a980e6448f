//! A run whose load varies, phase by phase: the run as a whole has no steady state to speak of.

use crate::{
    Fault, GeneratorLimit, Judgement, LittleCheck, LittleVerdict, LoadShape, Phase, RunRecord,
};

/// Phase of a run, judged as a run of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseJudgement {
    /// The phase.
    pub phase: Phase,
    /// True if the run went on to its end.
    pub complete: bool,
    /// Its judgement. A drift in it is no fault: the backlog of one phase is worked off in the next.
    pub judgement: Judgement,
    /// Series that drifted within it, such as `mean response`: its mean is then one over a transient,
    /// and no steady state.
    pub drifting: Vec<&'static str>,
}

impl PhaseJudgement {
    /// True if the phase says something of the server.
    pub fn is_valid(&self) -> bool {
        self.judgement.is_valid()
    }
}

/// Share of a phase that a run may lack at its end and still have passed it.
const SHORT: f64 = 0.01;

impl RunRecord {
    /// The phases of a load that varies, as far as the run went, each judged by itself at the given
    /// confidence; none of any other load.
    ///
    /// # Panics
    /// If the confidence is not between 0 and 1.
    pub fn judge_phases(&self, confidence: f64) -> Vec<PhaseJudgement> {
        let judged = |phase: &Phase| self.judge_phase(phase, confidence);
        self.header.load.phases().iter().filter_map(judged).collect()
    }

    /// True if the run, and each phase of a load that varies, says something of the server.
    ///
    /// # Panics
    /// If the confidence is not between 0 and 1.
    pub fn is_valid(&self, confidence: f64) -> bool {
        self.judge(confidence).is_valid()
            && self.judge_phases(confidence).iter().all(PhaseJudgement::is_valid)
    }

    /// The first phase in which fewer requests were begun than the load has arrivals.
    pub(crate) fn starts_by_phase(&self, confidence: f64) -> Option<Fault> {
        let late = |fault: &Fault| matches!(fault, Fault::Generator(GeneratorLimit::Starts { .. }));
        self.judge_phases(confidence)
            .into_iter()
            .flat_map(|phase| phase.judgement.faults)
            .find(late)
    }

    fn judge_phase(&self, phase: &Phase, confidence: f64) -> Option<PhaseJudgement> {
        let within =
            |at: f64| at >= phase.start_s - 1e-9 && at < phase.start_s + phase.length_s - 1e-9;
        let inside = self.intervals.iter().filter(|interval| within(interval.start_s));
        let mut part = RunRecord {
            header: self.header.clone(),
            intervals: inside.cloned().collect(),
            summary: None,
        };
        if part.intervals.is_empty() {
            return None;
        }
        let rate = phase.arrivals / phase.length_s.max(1e-9);
        part.header.load = LoadShape::Poisson { rate, in_flight_max: u32::MAX };
        part.header.warmup_s = 0.0;
        let mut judgement = part.judge(confidence);
        judgement.little = of_varying(judgement.little, true);
        let complete = judgement.length_s >= (1.0 - SHORT) * phase.length_s;
        let mut drifting = Vec::new();
        judgement.faults.retain(|fault| match fault {
            Fault::Drifts { what, .. } => {
                drifting.push(*what);
                false
            }
            Fault::Little(_) => false,
            // Of a rate that changes, a part says nothing of the number in the whole.
            Fault::Generator(GeneratorLimit::Starts { .. }) => complete,
            // Where nobody was to come, nothing is to be completed.
            Fault::NothingCompleted => phase.arrivals >= 1.0,
            Fault::NoSteadyInterval | Fault::Generator(_) => true,
        });
        Some(PhaseJudgement { phase: phase.clone(), complete, judgement, drifting })
    }
}

/// The tolerance of the law's check follows from a steady state: where the load varies, books that do not
/// close by it may be right.
pub(crate) fn of_varying(little: LittleCheck, varies: bool) -> LittleCheck {
    match little.verdict {
        LittleVerdict::DoesNot if varies => {
            LittleCheck { verdict: LittleVerdict::CannotTell, ..little }
        }
        _ => little,
    }
}
