//! `sekisho measure http --knee`: the knee of an HTTP server.

use std::io::Write;
use std::time::Duration;

use cli::{Failure, Session, Verdict};
use load::http::{Load, Plan, PlanSpec, ProbeError, RunError, probe};
use load::probe::Probed;
use measure::knee::Probe;
use measure::limit::Limit;
use measure::{Interval, RunHeader, RunRecord, Until};
use workload::Dist;

use super::http_target::{naming, press_within};
use super::knee::{Wanted, no_limit};
use super::knee_parts::{self, Engine};
use super::measure::HttpArgs;

/// HTTP server that is measured.
struct Http<'a> {
    args: &'a HttpArgs,
    session: &'a Session,
    /// The plan of a probe but for its rate and its length.
    base: PlanSpec,
}

impl Engine for Http<'_> {
    type Plan = PlanSpec;

    fn base(&self) -> &PlanSpec {
        &self.base
    }

    fn alone(&self, requests: u64, longest: Duration) -> Result<RunRecord, Failure> {
        let load = Load::Closed { clients: 1, think: Dist::Constant(0.0) };
        let mut spec = self.args.spec(load)?;
        spec.until = Until::Requests(requests);
        spec.warmup = Duration::ZERO;
        spec.interval = Duration::from_millis(50);
        press_within(spec, longest, self.session)
    }

    fn probe(
        &self,
        at: Probe,
        number: u64,
        length: Duration,
        limit: &Limit,
        sink: &mut dyn FnMut(&Interval),
    ) -> Result<Probed, Failure> {
        probe(&self.base, at, number, length, limit, &self.session.interrupt, sink)
            .map_err(Self::failure)
    }

    fn header(&self) -> Result<RunHeader, Failure> {
        let plan = Plan::new(self.base.clone()).map_err(Failure::usage)?;
        Ok(plan.header(naming(self.session)))
    }

    fn failure(error: ProbeError) -> Failure {
        match error {
            ProbeError::Run(RunError::Start(_)) => Failure::machine(error),
            error => Failure::usage(error),
        }
    }
}

/// Looks for the knee of an HTTP server, in one process or as a part of several.
pub(super) fn run(
    args: &HttpArgs,
    session: &Session,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    // The search says the rate of each probe.
    let mut base = args.spec(args.open(1.0))?;
    base.part = args.part();
    let wanted = Wanted {
        limit: args.knee_limit().ok_or_else(no_limit)?,
        budget_s: args.budget_s(),
        length_given_s: args.length_given_s(),
        json: args.json(),
        limits: args.output().limits(),
        keep: &|record| args.output().keep_knee(record),
        idle: base.idle,
        more: "`--threads`, or processors of its own with `--cpus`",
        command: args.command(session),
        command_of_run: args.command_of_run(session),
        part: args.part(),
    };
    let meeting = args.meeting()?;
    knee_parts::run(&wanted, &Http { args, session, base }, meeting.as_ref(), session, out)
}
