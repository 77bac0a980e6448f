//! A probe of a search for the knee that several parts make together, whatever engine presses.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use measure::knee::Probe;
use measure::limit::Limit;
use measure::{Interval, PartRecord, RunRecord};

use crate::company::{Following, Leading, Next, Task};
use crate::lockstep::{Answer, Course, Ending, FollowerWord, Heard, Joined, Joint, Order, Told};
use crate::meeting::MeetError;
use crate::probe::{Decision, Layout, NoRate};

/// Interval of looks for what other parts tell.
const LOOK: Duration = Duration::from_millis(20);

/// Wait for the start that all parts agree on: the moment that all times count from, and the record of it.
pub type Begin<'a> = &'a mut dyn FnMut() -> Result<(Instant, PartRecord), MeetError>;

/// Plan of a probe but for its rate and its length, of a part that an engine can press.
pub trait Base {
    /// Why a share cannot be made.
    type Error: fmt::Display;

    /// Layout of a probe, the whole load in it.
    ///
    /// # Errors
    /// If the plan has no rate that could be another.
    fn layout(&self, at: Probe, number: u64, length: Duration) -> Result<Layout, NoRate>;

    /// Makes this part's share of a probe. When its connections are open it calls `begin` once, and its load begins
    /// when that returns. It ends as soon as `stop` is true.
    ///
    /// # Errors
    /// If the share cannot be made, or `begin` fails.
    fn press(
        &self,
        layout: Layout,
        begin: Begin<'_>,
        stop: &AtomicBool,
        sink: &mut dyn FnMut(&Interval),
    ) -> Result<RunRecord, Self::Error>;
}

/// A probe as its search orders it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its rate.
    pub at: Probe,
    /// Its number, from 1.
    pub number: u64,
    /// Its length at most, warm-up not counted.
    pub length: Duration,
    /// The limit that ends it when it is decided.
    pub limit: Limit,
    /// The search before it.
    pub course: Course,
}

/// Makes one probe as part 1, together with the parts that follow it: of the sum of what all parts see.
///
/// # Errors
/// If the plan is not open, or its share cannot be run here.
pub fn probe_jointly<B: Base<Error: From<NoRate>>>(
    base: &B,
    asked: Asked,
    leading: &Leading,
    interrupt: &AtomicBool,
    sink: &mut dyn FnMut(&Interval),
) -> Result<Joined, B::Error> {
    let Asked { at, number, length, limit, course } = asked;
    let layout = base.layout(at, number, length)?;
    let (begun, stop, gave_up) = (Instant::now(), AtomicBool::new(false), Cell::new(false));
    let joint = RefCell::new(Joint::new(number, leading.of(), Decision::new(&limit, length)));
    leading.order(Order { number, probe: at, length, course });
    let own = |told| joint.borrow_mut().hear(1, Heard::Share(number, told), begun.elapsed());
    // All that has come by now, at the time at which it is looked at.
    let look = |within: Duration| {
        let mut next = leading.hear(within);
        let mut joint = joint.borrow_mut();
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
    let mut begin = || {
        own(Told::Ready);
        loop {
            look(LOOK);
            if joint.borrow().stops() {
                gave_up.set(true);
                return Err(MeetError::Interrupted);
            }
            if joint.borrow().is_ready() {
                break;
            }
        }
        joint.borrow_mut().begin(begun.elapsed());
        leading.begin(number).wait(&stop)
    };
    let made = base.press(layout, &mut begin, &stop, &mut |interval| {
        own(Told::Interval(Box::new(interval.clone())));
        look(Duration::ZERO);
        sink(interval);
    });
    match made {
        Ok(made) => {
            let summary = made.summary.expect("a run that was made has an end");
            own(Told::Ended(Box::new(made.header), summary));
        }
        // Why is known.
        Err(_) if gave_up.get() => {}
        Err(error) => return Err(error),
    }
    while !joint.borrow().is_over() {
        look(LOOK);
    }
    Ok(joint.into_inner().end())
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
pub fn follow<B: Base<Error: From<NoRate>>>(
    base: &B,
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
fn press_share<B: Base<Error: From<NoRate>>>(
    base: &B,
    task: &Task,
    following: &Following,
    interrupt: &AtomicBool,
) {
    let (order, stop, gave_up) = (&task.order, &*task.stop, Cell::new(false));
    let tell = |told| following.say(FollowerWord::Share(order.number, told));
    // All parts end it as soon as part 1 knows.
    let look = || {
        if interrupt.load(Ordering::Relaxed) && !stop.swap(true, Ordering::Relaxed) {
            following.say(FollowerWord::Interrupted);
        }
    };
    let mut begin = || {
        tell(Told::Ready);
        let begun = loop {
            match task.start.recv_timeout(LOOK) {
                Ok(start) => break start.wait(stop),
                Err(RecvTimeoutError::Disconnected) => break Err(MeetError::Gone),
                Err(RecvTimeoutError::Timeout) => look(),
            }
            if stop.load(Ordering::Relaxed) {
                break Err(MeetError::Interrupted);
            }
        };
        gave_up.set(begun.is_err());
        begun
    };
    let layout = base.layout(order.probe, order.number, order.length);
    let made = layout.map_err(B::Error::from).and_then(|layout| {
        base.press(layout, &mut begin, stop, &mut |interval| {
            tell(Told::Interval(Box::new(interval.clone())));
            look();
        })
    });
    match made {
        Ok(made) => {
            let summary = made.summary.expect("a run that was made has an end");
            tell(Told::Ended(Box::new(made.header), summary));
        }
        // It was over before it began, and part 1 knows, or has gone.
        Err(_) if gave_up.get() => {}
        Err(error) => tell(Told::Failed(error.to_string())),
    }
}
