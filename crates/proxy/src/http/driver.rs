//! The gate in real time: the one place through which every event goes, which carries out what the
//! gate answers and keeps the one timer that it asks for.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use gate::{Action, Event, Gate, GateSpec, Job, JobId, Reason, Slot, Time};
use measure::Recording;
use tokio::sync::Notify;

use super::stats::Stats;
use super::watch::{First, first};

/// A gate, driven by the clock of the machine. One thread owns it.
#[derive(Debug)]
pub(crate) struct Driver {
    inner: RefCell<Inner>,
    stats: Rc<RefCell<Stats>>,
    began: Instant,
    /// The moment that the timer is set to; `Time::MAX` for none.
    armed: Cell<Time>,
    rearmed: Notify,
    wait_max: Cell<Duration>,
    /// Whether the gate has panicked: what it would say now cannot be trusted.
    dead: Cell<bool>,
    died: Notify,
}

/// Declares the gate dead unless it is disarmed.
struct Alarm<'d>(&'d Driver);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        self.0.dead.set(true);
        self.0.died.notify_one();
    }
}

#[derive(Debug)]
struct Inner {
    gate: Gate,
    actions: Vec<Action>,
    jobs: Vec<Place>,
    vacant: Vec<u32>,
    sequence: u64,
    recording: Option<Recording>,
    up: Vec<bool>,
    /// The mean hold, recent ones weighing more [s]; `None` before the first.
    hold_mean: Option<f64>,
}

/// What a job tells the gate of itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) class: u32,
    pub(crate) priority: u8,
    pub(crate) key: u64,
    pub(crate) size: u64,
    pub(crate) wait_max: Option<Duration>,
}

/// The place of one job. Its index is in the low bits of the job's id.
#[derive(Debug)]
struct Place {
    arrived: Time,
    verdict: Verdict,
}

#[derive(Debug)]
enum Verdict {
    Vacant,
    Waits(Option<Waker>),
    Starts(Slot),
    Refused(Reason),
}

const PLACE_BITS: u32 = 24;

/// The weight of the newest hold in their mean: about the last 64 count.
const HOLD_WEIGHT: f64 = 1.0 / 64.0;

impl Driver {
    /// Drives a fresh gate of `spec`, which `Config::check` has passed.
    pub(crate) fn new(
        spec: &GateSpec,
        record_max: usize,
        stats: Rc<RefCell<Stats>>,
    ) -> Result<Driver, gate::SpecError> {
        let recording = (record_max > 0).then(|| Recording::new(spec.clone(), record_max));
        Ok(Driver {
            inner: RefCell::new(Inner {
                gate: Gate::new(spec)?,
                actions: Vec::new(),
                jobs: Vec::new(),
                vacant: Vec::new(),
                sequence: 0,
                recording,
                up: vec![true; spec.servers.len()],
                hold_mean: None,
            }),
            stats,
            began: Instant::now(),
            armed: Cell::new(Time::MAX),
            rearmed: Notify::new(),
            wait_max: Cell::new(spec.wait_max.unwrap_or(Duration::MAX)),
            dead: Cell::new(false),
            died: Notify::new(),
        })
    }

    /// The driver's clock.
    pub(crate) fn now(&self) -> Time {
        Time::ZERO + self.began.elapsed()
    }

    /// Tells the gate what happened and does what it says.
    pub(crate) fn event(&self, event: Event) {
        let mut inner = self.inner.borrow_mut();
        self.tell(&mut inner, self.now(), event);
    }

    fn tell(&self, inner: &mut Inner, now: Time, event: Event) {
        if self.dead.get() {
            return;
        }
        // The task that asked would take the panic with it, and the others would go on with a gate
        // that lies about its slots.
        let alarm = Alarm(self);
        inner.actions.clear();
        inner.gate.handle(now, event, &mut inner.actions);
        if let Some(recording) = &mut inner.recording {
            recording.push(now, event, &inner.actions);
        }
        let mut stats = self.stats.borrow_mut();
        for &action in &inner.actions {
            let (job, verdict) = match action {
                Action::Start { job, slot } => (job, Verdict::Starts(slot)),
                Action::Refuse { job, reason } => (job, Verdict::Refused(reason)),
            };
            let place = &mut inner.jobs[place_of(job)];
            if let Verdict::Starts(slot) = verdict {
                stats.upstreams[slot.server as usize].wait.observe(now.since(place.arrived));
            }
            if let Verdict::Waits(Some(waker)) = std::mem::replace(&mut place.verdict, verdict) {
                waker.wake();
            }
        }
        if let Some(wakeup) = inner.gate.next_wakeup()
            && wakeup < self.armed.get()
        {
            self.armed.set(wakeup);
            self.rearmed.notify_one();
        }
        std::mem::forget(alarm);
    }

    /// Ends when the gate has panicked.
    pub(crate) async fn death(&self) {
        self.died.notified().await;
    }

    /// A job arrives. Its deadline is the gate's longest wait, or its own if that is shorter,
    /// counted from `since`.
    pub(crate) fn arrive(self: &Rc<Self>, wanted: Wanted, since: Time) -> Ticket {
        let now = self.now();
        let inner = &mut *self.inner.borrow_mut();
        let at = inner.vacant.pop().unwrap_or_else(|| {
            inner.jobs.push(Place { arrived: now, verdict: Verdict::Vacant });
            (inner.jobs.len() - 1) as u32
        });
        inner.sequence += 1;
        let id = JobId(inner.sequence << PLACE_BITS | u64::from(at));
        inner.jobs[at as usize] = Place { arrived: now, verdict: Verdict::Waits(None) };
        let Wanted { class, priority, key, size, wait_max } = wanted;
        let wait_max = wait_max.map_or(self.wait_max.get(), |own| own.min(self.wait_max.get()));
        let deadline = Some(since + wait_max);
        let job = Job { class, priority, key, size, deadline, ..Job::new(id) };
        self.tell(inner, now, Event::Arrive(job));
        Ticket { driver: Rc::clone(self), id }
    }

    fn depart(&self, slot: Slot, since: Time) {
        let now = self.now();
        let hold = now.since(since);
        let mut inner = self.inner.borrow_mut();
        let seconds = hold.as_secs_f64();
        let mean = inner.hold_mean.get_or_insert(seconds);
        *mean += HOLD_WEIGHT * (seconds - *mean);
        self.stats.borrow_mut().upstreams[slot.server as usize].hold.observe(hold);
        self.tell(&mut inner, now, Event::Depart(slot));
    }

    /// A server was found to be up or down.
    pub(crate) fn set_up(&self, server: usize, up: Up) {
        let now = self.now();
        let mut inner = self.inner.borrow_mut();
        let is_up = up == Up::Yes;
        if inner.up[server] != is_up {
            inner.up[server] = is_up;
            self.stats.borrow_mut().upstreams[server].up = is_up;
            let at = server as u32;
            self.tell(&mut inner, now, if is_up { Event::Up(at) } else { Event::Down(at) });
        }
    }

    pub(crate) fn is_up(&self, server: usize) -> bool {
        self.inner.borrow().up[server]
    }

    pub(crate) fn any_up(&self) -> bool {
        self.inner.borrow().up.contains(&true)
    }

    /// The longest wait of jobs that arrive from now on.
    pub(crate) fn set_wait_max(&self, span: Duration) {
        self.wait_max.set(span);
        self.event(Event::WaitMax(Some(span)));
    }

    /// How long a job would wait that came now [s], rounded up, for Retry-After: the jobs before
    /// it, served by all slots at the recent mean hold. Little's law needs no more.
    pub(crate) fn retry_after(&self) -> u64 {
        let inner = self.inner.borrow();
        let slots: u32 = (inner.gate.servers().iter().zip(&inner.up))
            .filter(|(_, up)| **up)
            .map(|(server, _)| server.slots)
            .sum();
        let wait = match inner.hold_mean {
            Some(hold) if slots > 0 => (inner.gate.waiting() + 1) as f64 * hold / f64::from(slots),
            // Nothing is known of a gate that lets nobody in; nobody waits longer than this.
            _ => self.wait_max.get().as_secs_f64(),
        };
        (wait.ceil() as u64).clamp(1, 3600)
    }

    /// Brings the figures that the gate itself keeps up to date in the statistics.
    pub(crate) fn refresh_stats(&self) {
        let inner = self.inner.borrow();
        let mut stats = self.stats.borrow_mut();
        stats.waiting = inner.gate.waiting();
        for (upstream, server) in stats.upstreams.iter_mut().zip(inner.gate.servers()) {
            upstream.busy = server.busy;
            upstream.slots = server.slots;
        }
    }

    /// What was recorded so far.
    pub(crate) fn recording(&self) -> Option<Recording> {
        self.inner.borrow().recording.clone()
    }

    /// Wakes the gate when it asked for it. Never ends.
    pub(crate) async fn keep_time(self: Rc<Self>) {
        loop {
            let armed = self.armed.get();
            if armed == Time::MAX {
                self.rearmed.notified().await;
                continue;
            }
            let sleep = tokio::time::sleep(armed.since(self.now()));
            if first(sleep, self.rearmed.notified()).await == First::One {
                self.due();
            }
        }
    }

    fn due(&self) {
        let mut inner = self.inner.borrow_mut();
        let now = self.now();
        self.armed.set(Time::MAX);
        match inner.gate.next_wakeup() {
            // What the timer was set for may have come and gone; a needless event would only fill
            // the recording.
            Some(wakeup) if wakeup <= now => self.tell(&mut inner, now, Event::Wake),
            Some(wakeup) => self.armed.set(wakeup),
            None => {}
        }
    }
}

/// Whether a server may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Up {
    Yes,
    No,
}

fn place_of(job: JobId) -> usize {
    (job.0 & ((1 << PLACE_BITS) - 1)) as usize
}

/// A job at the gate until it starts or is refused. Dropped before that, it reneges.
#[derive(Debug)]
pub(crate) struct Ticket {
    driver: Rc<Driver>,
    id: JobId,
}

impl Ticket {
    /// The gate's verdict. To be asked until it is ready, and then no more.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Result<Held, Reason>> {
        let inner = &mut *self.driver.inner.borrow_mut();
        let place = &mut inner.jobs[place_of(self.id)];
        match &mut place.verdict {
            Verdict::Waits(waker) => {
                if waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
                    *waker = Some(cx.waker().clone());
                }
                Poll::Pending
            }
            Verdict::Starts(slot) => {
                let slot = *slot;
                place.verdict = Verdict::Vacant;
                let driver = Rc::clone(&self.driver);
                let since = driver.now();
                Poll::Ready(Ok(Held { driver, slot, since }))
            }
            Verdict::Refused(reason) => {
                let reason = *reason;
                place.verdict = Verdict::Vacant;
                Poll::Ready(Err(reason))
            }
            Verdict::Vacant => unreachable!("a verdict is taken once"),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let driver = &self.driver;
        let inner = &mut *driver.inner.borrow_mut();
        let at = place_of(self.id);
        let now = driver.now();
        match std::mem::replace(&mut inner.jobs[at].verdict, Verdict::Vacant) {
            Verdict::Vacant | Verdict::Refused(_) => {}
            Verdict::Waits(_) => {
                driver.stats.borrow_mut().reneged += 1;
                driver.tell(inner, now, Event::Renege(self.id));
                // The gate may have refused it in that same event: its deadline had come.
                inner.jobs[at].verdict = Verdict::Vacant;
            }
            // It was started, but nobody came to take the slot.
            Verdict::Starts(slot) => driver.tell(inner, now, Event::Depart(slot)),
        }
        inner.vacant.push(at as u32);
    }
}

/// A slot that is held. Dropping it is the one way to give it back, so it happens once.
#[derive(Debug)]
pub(crate) struct Held {
    driver: Rc<Driver>,
    slot: Slot,
    since: Time,
}

impl Held {
    pub(crate) fn server(&self) -> usize {
        self.slot.server as usize
    }

    pub(crate) fn since(&self) -> Time {
        self.since
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.driver.depart(self.slot, self.since);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(slots: u32) -> Rc<Driver> {
        let spec = GateSpec {
            room: Some(2),
            wait_max: Some(Duration::from_secs(9)),
            ..GateSpec::fifo(slots)
        };
        let stats = Rc::new(RefCell::new(Stats::new(&["127.0.0.1:1".parse().unwrap()])));
        Rc::new(Driver::new(&spec, 100, stats).unwrap())
    }

    fn poll(ticket: &Ticket) -> Poll<Result<Held, Reason>> {
        ticket.poll(&Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_slot_goes_from_job_to_job_and_each_gives_it_back_once() {
        let driver = driver(1);
        let [a, b, c] = [0; 3].map(|_| driver.arrive(Wanted::default(), driver.now()));
        let Poll::Ready(Ok(held)) = poll(&a) else { panic!("the gate was empty") };
        assert!(poll(&b).is_pending());
        drop(a);
        drop(b);
        drop(held);
        // It started, but is dropped before it takes its slot.
        drop(c);
        let d = driver.arrive(Wanted::default(), driver.now());
        assert!(matches!(poll(&d), Poll::Ready(Ok(_))));
        let recording = driver.recording().unwrap();
        assert_eq!(recording.replay(), Ok(()));
        let departures =
            recording.steps.iter().filter(|step| matches!(step.event, Event::Depart(_))).count();
        assert_eq!(departures, 3);
        driver.refresh_stats();
        let stats = driver.stats.borrow();
        assert_eq!((stats.upstreams[0].busy, stats.waiting, stats.reneged), (0, 0, 1));
    }

    #[test]
    fn ids_increase_while_places_are_used_again() {
        let driver = driver(1);
        let first = driver.arrive(Wanted::default(), driver.now());
        let (id, place) = (first.id, place_of(first.id));
        drop(first);
        let second = driver.arrive(Wanted::default(), driver.now());
        assert!(second.id > id);
        assert_eq!(place_of(second.id), place);
    }

    #[test]
    fn a_gate_that_panicked_is_not_asked_again() {
        let driver = driver(1);
        let bogus = Event::Depart(Slot { server: 0, index: 0 });
        let asked = || driver.event(bogus);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(asked)).is_err());
        driver.event(bogus);
        let mut death = std::pin::pin!(driver.death());
        assert!(death.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        let ticket = driver.arrive(Wanted::default(), driver.now());
        assert!(poll(&ticket).is_pending(), "a dead gate starts nobody");
    }

    #[test]
    fn the_predicted_wait_follows_the_line() {
        let driver = driver(2);
        assert_eq!(driver.retry_after(), 9);
        driver.inner.borrow_mut().hold_mean = Some(4.0);
        assert_eq!(driver.retry_after(), 2);
        let tickets: Vec<Ticket> =
            (0..4).map(|_| driver.arrive(Wanted::default(), driver.now())).collect();
        assert_eq!(driver.retry_after(), 6);
        drop(tickets);
        driver.set_up(0, Up::No);
        assert_eq!(driver.retry_after(), 9);
    }
}
