//! Search for a knee in one process or in several, whatever engine presses: of several, part 1 leads and the others
//! follow, in lockstep.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cli::text::rate;
use cli::{Failure, Session, Verdict, progress};
use load::company::{Following, Leading};
use load::joint::{Asked, Base, Followed, follow, probe_jointly};
use load::lockstep::{Answer, Course, Ending, Joined};
use load::meeting::{MeetError, Meeting};
use load::probe::{NoRate, Probed};
use measure::knee::{KneeSpec, Probe, Search};
use measure::limit::Limit;
use measure::{Interval, RunHeader, RunRecord};

use super::knee::{System, Wanted, Watch, limit, look, show};
use super::parts;

/// Engine that presses a system whose knee is looked for.
pub(super) trait Engine {
    /// The plan of a probe but for its rate and its length.
    type Plan: Base<Error: From<NoRate>>;

    /// The plan, of the part that this is.
    fn base(&self) -> &Self::Plan;

    /// Runs the system with one client for so many requests, or as long: how long a request takes alone.
    ///
    /// # Errors
    /// If it cannot be run.
    fn alone(&self, requests: u64, longest: Duration) -> Result<RunRecord, Failure>;

    /// Makes a probe in one process; `sink` sees each interval.
    ///
    /// # Errors
    /// If it cannot be run at this rate.
    fn probe(
        &self,
        at: Probe,
        number: u64,
        length: Duration,
        limit: &Limit,
        sink: &mut dyn FnMut(&Interval),
    ) -> Result<Probed, Failure>;

    /// Description of a probe, as its record begins.
    ///
    /// # Errors
    /// If the plan does not hold.
    fn header(&self) -> Result<RunHeader, Failure>;

    /// Failure of a share of a probe.
    fn failure(error: <Self::Plan as Base>::Error) -> Failure;
}

/// Looks for the knee, alone or as one of several parts that meet.
pub(super) fn run<E: Engine>(
    wanted: &Wanted<'_>,
    engine: &E,
    meeting: Option<&Meeting>,
    session: &Session,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    match meeting {
        None => look(wanted, &mut Whole(engine), session, out),
        Some(meeting) if meeting.part.number() == 1 => lead(wanted, engine, meeting, session, out),
        Some(meeting) => be_led(wanted, engine, meeting, session, out),
    }
}

/// System that one process presses.
struct Whole<'a, E>(&'a E);

impl<E: Engine> System for Whole<'_, E> {
    fn alone(&self, requests: u64, longest: Duration) -> Result<RunRecord, Failure> {
        self.0.alone(requests, longest)
    }

    fn header(&self) -> Result<RunHeader, Failure> {
        self.0.header()
    }

    fn probe(
        &mut self,
        at: Probe,
        number: u64,
        length: Duration,
        limit: &Limit,
        sink: &mut dyn FnMut(&Interval),
    ) -> Result<Option<Probed>, Failure> {
        self.0.probe(at, number, length, limit, sink).map(Some)
    }
}

/// Looks for the knee as part 1.
fn lead<E: Engine>(
    wanted: &Wanted<'_>,
    engine: &E,
    meeting: &Meeting,
    session: &Session,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let (header, told) = (engine.header()?, wanted.limit.to_string());
    let bar = progress(0, "waiting for the other parts");
    let mut waits = parts::waiting(&bar);
    let led = Leading::gather(meeting, &header, &told, &session.interrupt, &mut waits);
    drop(waits);
    bar.finish_and_clear();
    let leading = match led {
        Ok(leading) => leading,
        Err(error) => return unmet(error, wanted, out),
    };
    let mut led = Led { engine, session, leading: Some(leading), course: None, broken: None };
    let verdict = look(wanted, &mut led, session, out);
    if let (Some(leading), Ok(Verdict::Interrupted)) = (led.leading.take(), &verdict) {
        leading.end(Ending::Interrupted);
    }
    verdict
}

/// Makes the share of each probe that part 1 orders.
fn be_led<E: Engine>(
    wanted: &Wanted<'_>,
    engine: &E,
    meeting: &Meeting,
    session: &Session,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let limit = limit(wanted.limit)?;
    let (header, told) = (engine.header()?, wanted.limit.to_string());
    let interrupt = &session.interrupt;
    let bar = progress(0, "waiting for the other parts");
    let mut waits = parts::waiting(&bar);
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
    let followed = follow(engine.base(), &following, interrupt, &mut |order| {
        bar.set_message(format!("probe {} at {}", order.number, rate(order.probe.rate)));
    });
    bar.finish_and_clear();
    match followed {
        // Part 1 keeps the record.
        Followed::Told(answer) => show(wanted, &answer, None, out),
        Followed::Interrupted => super::json::interrupted(wanted.json, out),
        Followed::Lost { course, why } => {
            // Of a search that was never begun only the limit is known.
            let spec = KneeSpec::for_limit(limit.quantile, limit.response.as_secs_f64());
            let course = course.unwrap_or(Course { spec, told: Vec::new() });
            let (elapsed_s, interrupted) = (begun.elapsed().as_secs_f64(), session.interrupted());
            let (knee, broken) = (course.knee(), Some(why));
            let found = Answer { course, knee, elapsed_s, broken, interrupted };
            let record = Watch::new(limit).record(header, wanted, &found);
            show(wanted, &found, Some(record), out)
        }
    }
}

/// The verdict of a part that has met nobody.
fn unmet(error: MeetError, wanted: &Wanted<'_>, out: &mut dyn Write) -> Result<Verdict, Failure> {
    match parts::unmet(error) {
        None => super::json::interrupted(wanted.json, out),
        Some(failure) => Err(failure),
    }
}

/// System that several parts press, led from here.
struct Led<'a, E> {
    engine: &'a E,
    session: &'a Session,
    /// None once the search is over.
    leading: Option<Leading>,
    course: Option<Course>,
    broken: Option<String>,
}

impl<E: Engine> System for Led<'_, E> {
    fn alone(&self, requests: u64, longest: Duration) -> Result<RunRecord, Failure> {
        self.engine.alone(requests, longest)
    }

    fn header(&self) -> Result<RunHeader, Failure> {
        self.engine.header()
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
    ) -> Result<Option<Probed>, Failure> {
        let leading = self.leading.as_ref().expect("no probe comes after the end");
        let course = self.course.take().expect("the search is told before each probe");
        let asked = Asked { at, number, length, limit: *limit, course };
        let interrupt = &self.session.interrupt;
        let joined = probe_jointly(self.engine.base(), asked, leading, interrupt, sink);
        Ok(match joined.map_err(E::failure)? {
            Joined::Probed(probed) => Some(*probed),
            Joined::Interrupted => {
                // Whoever stops one part stops all.
                interrupt.store(true, Ordering::Relaxed);
                None
            }
            Joined::Broken(why) => {
                self.broken = Some(why.to_string());
                None
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
