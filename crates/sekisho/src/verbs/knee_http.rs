//! `sekisho measure http --knee`: the knee of an HTTP server, in one process, or in several that search in lockstep.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cli::text::rate;
use cli::{Failure, Session, Verdict, progress, store};
use load::company::{Following, Leading};
use load::http::{
    Followed, Load, Naming, Plan, PlanSpec, ProbeError, RunError, follow, probe, probe_jointly,
};
use load::lockstep::{Answer, Course, Ending, Joined};
use load::meeting::{MeetError, Meeting};
use measure::knee::{KneeSpec, Outcome, Probe, Search};
use measure::limit::Limit;
use measure::{Interval, RunHeader, RunRecord, Until};
use workload::Dist;

use super::http_target::press_within;
use super::knee::{ALONE, System, Wanted, limit, look, no_limit, show};
use super::measure::HttpArgs;
use super::parts;

/// HTTP server that is measured.
struct Http<'a> {
    args: &'a HttpArgs,
    session: &'a Session,
    /// The plan of a probe but for its rate and its length.
    base: PlanSpec,
}

/// Runs an HTTP server with one client.
fn alone(args: &HttpArgs, session: &Session) -> Result<RunRecord, Failure> {
    let load = Load::Closed { clients: 1, think: Dist::Constant(0.0) };
    let mut spec = args.spec(load)?;
    spec.until = Until::Requests(100);
    spec.warmup = Duration::ZERO;
    spec.interval = Duration::from_millis(50);
    press_within(spec, Duration::from_secs_f64(ALONE * args.budget_s()), session)
}

impl System for Http<'_> {
    fn alone(&mut self) -> Result<RunRecord, Failure> {
        alone(self.args, self.session)
    }

    fn probe(
        &mut self,
        at: Probe,
        number: u64,
        length: Duration,
        limit: &Limit,
        sink: &mut dyn FnMut(&Interval),
    ) -> Result<Outcome, Failure> {
        let probed = probe(&self.base, at, number, length, limit, &self.session.interrupt, sink);
        Ok(probed.map_err(failure)?.outcome)
    }
}

/// Failure of a probe.
fn failure(error: ProbeError) -> Failure {
    match error {
        ProbeError::Run(RunError::Start(_)) => Failure::machine(error),
        error => Failure::usage(error),
    }
}

/// Looks for the knee of an HTTP server, in one process or as a part of several.
pub(super) fn run(
    args: &HttpArgs,
    session: &Session,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    // The search says the rate of each probe.
    let base = args.spec(args.open(1.0))?;
    let wanted = Wanted {
        limit: args.knee_limit().ok_or_else(no_limit)?,
        budget_s: args.budget_s(),
        length_given_s: args.length_given_s(),
        json: args.json(),
        idle: base.idle,
        more: "`--threads`, or processors of its own with `--cpus`",
        command: args.command(session),
        command_of_part: args.command_of_part(session),
        part: args.part(),
    };
    match args.meeting()? {
        None => look(&wanted, &mut Http { args, session, base }, session, out),
        Some(meeting) => in_parts(&wanted, args, (&meeting, base), session, out),
    }
}

/// Looks for the knee as one part of several: part 1 leads, the others follow.
fn in_parts(
    wanted: &Wanted<'_>,
    args: &HttpArgs,
    (meeting, mut base): (&Meeting, PlanSpec),
    session: &Session,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let limit = limit(wanted.limit)?;
    base.part = meeting.part;
    let (header, told) = (header(&base)?, wanted.limit.to_string());
    let bar = progress(0, "waiting for the other parts");
    let mut waits = parts::waiting(&bar);
    let interrupt = &session.interrupt;
    if meeting.part.number() == 1 {
        let led = Leading::gather(meeting, &header, &told, interrupt, &mut waits);
        drop(waits);
        bar.finish_and_clear();
        let leading = match led {
            Ok(leading) => leading,
            Err(error) => return unmet(error, wanted, out),
        };
        let mut led =
            Led { args, session, base, leading: Some(leading), course: None, broken: None };
        let verdict = look(wanted, &mut led, session, out);
        if let (Some(leading), Ok(Verdict::Interrupted)) = (led.leading.take(), &verdict) {
            leading.end(Ending::Interrupted);
        }
        return verdict;
    }
    let following = Following::join(meeting, &header, &told, interrupt, &mut waits);
    drop(waits);
    let following = match following {
        Ok(following) => following,
        Err(error) => {
            bar.finish_and_clear();
            return unmet(error, wanted, out);
        }
    };
    let begun = Instant::now();
    bar.set_message("part 1 asks alone");
    let followed = follow(&base, &following, interrupt, &mut |order| {
        bar.set_message(format!("probe {} at {}", order.number, rate(order.probe.rate)));
    });
    bar.finish_and_clear();
    let found = match followed {
        Followed::Told(answer) => *answer,
        Followed::Interrupted => return super::json::interrupted(wanted.json, out),
        Followed::Lost { course, why } => {
            // Of a search that was never begun only the limit is known.
            let spec = KneeSpec::for_limit(limit.quantile, limit.response.as_secs_f64());
            let course = course.unwrap_or(Course { spec, told: Vec::new() });
            let (elapsed_s, interrupted) = (begun.elapsed().as_secs_f64(), session.interrupted());
            let (knee, broken) = (course.knee(), Some(why));
            Answer { course, knee, elapsed_s, broken, interrupted }
        }
    };
    show(wanted, &found, out)
}

/// The verdict of a part that has met nobody.
fn unmet(error: MeetError, wanted: &Wanted<'_>, out: &mut dyn Write) -> Result<Verdict, Failure> {
    match parts::unmet(error) {
        None => super::json::interrupted(wanted.json, out),
        Some(failure) => Err(failure),
    }
}

/// The facts that all parts must have in common: those of the plan of a probe.
fn header(base: &PlanSpec) -> Result<RunHeader, Failure> {
    let plan = Plan::new(base.clone()).map_err(Failure::usage)?;
    Ok(plan.header(Naming {
        id: "knee".into(),
        started: store::now_rfc3339(),
        tool: cli::tool(),
        command: Vec::new(),
    }))
}

/// HTTP server that several parts press, led from here.
struct Led<'a> {
    args: &'a HttpArgs,
    session: &'a Session,
    /// The plan of a probe but for its rate and its length.
    base: PlanSpec,
    /// None once the search is over.
    leading: Option<Leading>,
    course: Option<Course>,
    broken: Option<String>,
}

impl System for Led<'_> {
    fn alone(&mut self) -> Result<RunRecord, Failure> {
        alone(self.args, self.session)
    }

    fn follow(&mut self, spec: &KneeSpec, search: &Search) {
        self.course = Some(Course { spec: *spec, told: search.probes().to_vec() });
    }

    fn probe(
        &mut self,
        at: Probe,
        number: u64,
        length: Duration,
        limit: &Limit,
        sink: &mut dyn FnMut(&Interval),
    ) -> Result<Outcome, Failure> {
        let leading = self.leading.as_ref().expect("no probe comes after the end");
        let course = self.course.take().expect("the search is told before each probe");
        let interrupt = &self.session.interrupt;
        let with = (leading, course);
        let joined = probe_jointly(&self.base, at, number, length, limit, with, interrupt, sink);
        Ok(match joined.map_err(failure)? {
            Joined::Probed(probed) => probed.outcome,
            Joined::Interrupted => {
                // Whoever stops one part stops all.
                interrupt.store(true, Ordering::Relaxed);
                Outcome::TooFew
            }
            Joined::Broken(why) => {
                self.broken = Some(why.to_string());
                Outcome::Invalid
            }
        })
    }

    fn broken(&self) -> Option<String> {
        self.broken.clone()
    }

    fn end(&mut self, found: &Answer) {
        if let Some(leading) = self.leading.take() {
            leading.end(Ending::Found(found.clone()));
        }
    }
}
