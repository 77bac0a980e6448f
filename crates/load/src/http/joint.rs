//! A probe of a search for the knee that several parts make together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use measure::Interval;
use measure::knee::Probe;
use measure::limit::Limit;

use super::plan::{Naming, Plan, PlanSpec};
use super::probe::ProbeError;
use super::run::{RunError, record_from};
use crate::company::{Following, Leading, Next, Task};
use crate::lockstep::{Answer, Course, Ending, FollowerWord, Heard, Joined, Joint, Order, Told};
use crate::meeting::MeetError;
use crate::probe::{Decision, Layout};

/// Interval of looks for what other parts tell.
const LOOK: Duration = Duration::from_millis(20);

/// Makes one probe as part 1, together with the parts that follow it: as [`probe`](super::probe), of the sum of what
/// all parts see. `course` is the search before it.
///
/// # Errors
/// If the plan is not open, or its share cannot be run here.
#[expect(clippy::too_many_arguments, reason = "those of a probe, and with whom")]
pub fn probe_jointly(
    base: &PlanSpec,
    at: Probe,
    number: u64,
    length: Duration,
    limit: &Limit,
    (leading, course): (&Leading, Course),
    interrupt: &AtomicBool,
    sink: &mut dyn FnMut(&Interval),
) -> Result<Joined, ProbeError> {
    let (plan, naming) = share(base, at, number, length)?;
    let (begun, stop) = (Instant::now(), AtomicBool::new(false));
    let mut joint = Joint::new(number, leading.of(), Decision::new(limit, length));
    let start = leading.order(|start_us| Order { number, probe: at, length, start_us, course });
    // All that has come by now, at the time at which it is looked at.
    let look = |joint: &mut Joint, within: Duration| {
        let mut next = leading.hear(within);
        while let Some((part, heard)) = next {
            joint.hear(part, heard, begun.elapsed());
            next = leading.hear(Duration::ZERO);
        }
        if interrupt.load(Ordering::Relaxed) {
            joint.hear(1, Heard::Interrupted, begun.elapsed());
        }
        joint.tick(begun.elapsed());
        if joint.stops() && !stop.swap(true, Ordering::Relaxed) {
            leading.stop(number);
        }
    };
    let made = record_from(&plan, naming, start, &stop, &mut |interval| {
        let told = Told::Interval(Box::new(interval.clone()));
        joint.hear(1, Heard::Share(number, told), begun.elapsed());
        look(&mut joint, Duration::ZERO);
        sink(interval);
    })?;
    let summary = made.summary.expect("a run that was made has an end");
    let told = Told::Ended(Box::new(made.header), summary);
    joint.hear(1, Heard::Share(number, told), begun.elapsed());
    while !joint.is_over() {
        look(&mut joint, LOOK);
    }
    Ok(joint.end())
}

/// End of a search, as a follower has it.
#[derive(Debug)]
pub enum Followed {
    /// Part 1 has told it.
    Told(Box<Answer>),
    /// A user has asked to stop before there was anything to tell.
    Interrupted,
    /// Part 1 has gone, or has ended the search without an answer.
    Lost {
        /// The search as far as part 1 had told it, if it had begun.
        course: Option<Course>,
        /// What became of part 1.
        why: String,
    },
}

/// Makes this part's share of each probe that part 1 orders, to the end of the search. `tell` sees each order.
pub fn follow(
    base: &PlanSpec,
    following: &Following,
    interrupt: &AtomicBool,
    tell: &mut dyn FnMut(&Order),
) -> Followed {
    let mut course = None;
    let why = loop {
        match following.next(interrupt) {
            Next::Press(task) => {
                course = Some(task.order.course.clone());
                tell(&task.order);
                press_share(base, &task, following, interrupt);
            }
            Next::Over(ending) => match *ending {
                Ending::Found(answer) => return Followed::Told(Box::new(answer)),
                Ending::Interrupted => return Followed::Interrupted,
                Ending::Failed => break "part 1 has ended the search".to_owned(),
            },
            Next::Lost(why) => break format!("part 1 was lost ({why})"),
        }
    };
    if course.is_none() && interrupt.load(Ordering::Relaxed) {
        return Followed::Interrupted;
    }
    Followed::Lost { course, why: format!("{why}: see there why, then start all parts again") }
}

/// Makes this part's share of a probe, and tells part 1 each interval and the end, or why it cannot be made.
fn press_share(base: &PlanSpec, task: &Task, following: &Following, interrupt: &AtomicBool) {
    let (order, stop) = (&task.order, &*task.stop);
    let tell = |told| following.say(FollowerWord::Share(order.number, told));
    let made = share(base, order.probe, order.number, order.length).and_then(|(plan, naming)| {
        let made = record_from(&plan, naming, task.start, stop, &mut |interval| {
            tell(Told::Interval(Box::new(interval.clone())));
            // All parts end it as soon as part 1 knows.
            if interrupt.load(Ordering::Relaxed) && !stop.swap(true, Ordering::Relaxed) {
                following.say(FollowerWord::Interrupted);
            }
        });
        Ok(made?)
    });
    match made {
        Ok(made) => {
            let summary = made.summary.expect("a run that was made has an end");
            tell(Told::Ended(Box::new(made.header), summary));
        }
        // It was over before it began, and part 1 knows.
        Err(ProbeError::Run(RunError::Meet(MeetError::Interrupted))) => {}
        Err(error) => tell(Told::Failed(error.to_string())),
    }
}

/// The plan of this part's share of a probe.
fn share(
    base: &PlanSpec,
    at: Probe,
    number: u64,
    length: Duration,
) -> Result<(Plan, Naming), ProbeError> {
    let Layout { load, until, warmup, interval, seed, naming } =
        Layout::new(&base.load, base.seed, at, number, length)?;
    let spec = PlanSpec { load, until, warmup, interval, seed, ..base.clone() };
    Ok((Plan::new(spec)?, naming))
}
