//! The gate of the server in real time: a [`live::Driver`] with the clock of the machine, the one timer
//! that it asks for, and the tasks that wait for what it decides.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use gate::{Job, JobId, Reason, Report, Time};
use live::model::{Fitted, Refusal, Work};
use live::{Anew, ClassCounts, Controlled, Estimate, SlotGuard, WhatIf};
use measure::Recording;
use tokio::sync::Notify;

use super::config::Config;
use super::stats::Stats;
use super::watch::{First, first};

/// Name of the one gate in what is told of it.
const NAME: &str = "gate";

/// A gate, driven by the clock of the machine. One thread owns it.
#[derive(Debug)]
pub(crate) struct Driver {
    inner: RefCell<Inner>,
    began: Instant,
    /// The moment that the timer is set to; `Time::MAX` for none.
    armed: Cell<Time>,
    rearmed: Notify,
    /// True if the gate has panicked: what it would say now cannot be trusted.
    dead: Cell<bool>,
    died: Notify,
    /// Receiver of the decisions about the slots, if any.
    decisions: Option<fn(&str)>,
    /// Names of its classes.
    names: RefCell<Vec<String>>,
    /// Times that they were numbered anew, and the numbers that they have since the last time by those that
    /// they had before.
    numbering: Cell<u32>,
    renumbered: RefCell<Vec<Option<u32>>>,
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
    gate: live::Driver<u32>,
    /// The jobs of tickets; the owner of a job at the gate is its index here.
    places: Vec<Place>,
    vacant: Vec<u32>,
}

/// The number of a class, as it was numbered at some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbered {
    pub(crate) class: u32,
    /// Times that classes had been numbered anew by then.
    pub(crate) numbering: u32,
}

/// Needs and traits that a job tells the gate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) class: Numbered,
    pub(crate) priority: u8,
    pub(crate) key: u64,
    pub(crate) size: u64,
    pub(crate) wait_max: Option<Duration>,
}

/// A job that waits.
#[derive(Debug)]
struct Waits {
    waker: Option<Waker>,
    /// The job as the gate has it, with its own deadline; none of a gate that is dead.
    job: Option<Job>,
}

/// The job of one ticket.
#[derive(Debug)]
enum Place {
    Waits(Waits),
    Decided(Result<SlotGuard, Reason>),
    /// There is none, or its decision was taken.
    Vacant,
}

impl Driver {
    /// Drives a fresh gate, which `Config::check` has passed.
    pub(crate) fn new(config: &Config) -> Result<Driver, gate::SpecError> {
        // Beside those of the configuration there are requests of none.
        let classes = config.classes.len() + 1;
        let gate = live::Driver::new(&config.gate, classes, config.record_max)?;
        let gate = gate.modelled(config.auto.as_ref());
        Ok(Driver {
            decisions: config.decisions,
            names: RefCell::new(config.class_names()),
            numbering: Cell::new(0),
            renumbered: RefCell::default(),
            inner: RefCell::new(Inner { gate, places: Vec::new(), vacant: Vec::new() }),
            began: Instant::now(),
            armed: Cell::new(Time::MAX),
            rearmed: Notify::new(),
            dead: Cell::new(false),
            died: Notify::new(),
        })
    }

    /// The driver's clock.
    pub(crate) fn now(&self) -> Time {
        Time::ZERO + self.began.elapsed()
    }

    /// Tells the gate what happened now and wakes the tasks of whose jobs it has decided; the answer,
    /// or `None` if the gate is dead.
    fn tell<T>(
        &self,
        inner: &mut Inner,
        event: impl FnOnce(&mut live::Driver<u32>, Time) -> T,
    ) -> Option<T> {
        if self.dead.get() {
            return None;
        }
        // The task that asked would take the panic with it, and the others would go on with a gate
        // that lies about its slots.
        let alarm = Alarm(self);
        let answer = event(&mut inner.gate, self.now());
        while let Some(decision) = inner.gate.next_decision() {
            let place = &mut inner.places[decision.owner as usize];
            let decided = Place::Decided(decision.outcome);
            if let Place::Waits(Waits { waker: Some(waker), .. }) =
                std::mem::replace(place, decided)
            {
                waker.wake();
            }
        }
        if let Some(told) = self.decisions {
            while let Some(moved) = inner.gate.next_untold() {
                told(&moved.line(NAME));
            }
        }
        if let Some(wakeup) = inner.gate.next_wakeup()
            && wakeup < self.armed.get()
        {
            self.armed.set(wakeup);
            self.rearmed.notify_one();
        }
        std::mem::forget(alarm);
        Some(answer)
    }

    fn event(&self, event: impl FnOnce(&mut live::Driver<u32>, Time)) {
        self.tell(&mut self.inner.borrow_mut(), event);
    }

    /// A server has so many slots from now on.
    pub(crate) fn resize(&self, server: usize, slots: u32) {
        self.event(|gate, now| gate.resize(now, server as u32, slots));
    }

    /// A server tells how it is.
    pub(crate) fn report(&self, server: usize, report: Report) {
        self.event(|gate, now| gate.report(now, server as u32, report));
    }

    /// Starts no job until it is [resumed](Driver::resume).
    pub(crate) fn pause(&self) {
        self.event(live::Driver::pause);
    }

    /// Starts jobs again.
    pub(crate) fn resume(&self) {
        self.event(live::Driver::resume);
    }

    /// Ends when the gate has panicked.
    pub(crate) async fn death(&self) {
        self.died.notified().await;
    }

    /// A job arrives. Its deadline is the gate's longest wait, or its own if that is shorter,
    /// counted from `since`.
    pub(crate) fn arrive(self: &Rc<Self>, wanted: Wanted, since: Time) -> Ticket {
        let inner = &mut *self.inner.borrow_mut();
        let place = inner.vacant.pop().unwrap_or_else(|| {
            inner.places.push(Place::Vacant);
            (inner.places.len() - 1) as u32
        });
        let Wanted { class, priority, key, size, wait_max } = wanted;
        let class = self.class_now(class);
        let longest = inner.gate.wait_max();
        let deadline = Some(since + wait_max.map_or(longest, |own| own.min(longest)));
        let job = Job { class, priority, key, size, deadline, ..Job::new(JobId(0)) };
        inner.places[place as usize] = Place::Waits(Waits { waker: None, job: None });
        let id = self.tell(inner, |gate, now| gate.arrive(now, place, since, job));
        if let Place::Waits(waits) = &mut inner.places[place as usize] {
            waits.job = id.map(|id| Job { id, ..job });
        }
        Ticket { driver: Rc::clone(self), place }
    }

    /// The gate begins anew with another configuration, which `Config::check` has passed: whoever holds a
    /// slot holds it, whoever waits waits on, and the first servers are those that there were. `classes` are the
    /// numbers that the classes have now.
    pub(crate) fn begin_anew(&self, config: &Config, classes: &[Option<u32>], paused: bool) {
        let names = config.class_names();
        let inner = &mut *self.inner.borrow_mut();
        let servers = inner.gate.servers().count();
        let places: Vec<Option<usize>> =
            (0..config.upstreams.len()).map(|at| (at < servers).then_some(at)).collect();
        let anew = Anew {
            spec: &config.gate,
            places: &places,
            classes,
            classes_now: names.len(),
            record_max: config.record_max,
            auto: config.auto.as_ref(),
            models: true,
        };
        let mut waiting = Vec::new();
        self.tell(inner, |gate, now| {
            waiting = gate.take_waiting();
            gate.begin_anew(now, &anew);
            gate.set_unreachable_max(now, config.gate.unreachable_max);
            if paused {
                gate.pause(now);
            }
        });
        for (place, arrived) in waiting {
            let Place::Waits(Waits { job: Some(job), .. }) = &inner.places[place as usize] else {
                unreachable!("whoever waits has a job")
            };
            let number = classes.get(job.class as usize).copied().flatten().unwrap_or(0);
            let job = Job { class: number, ..*job };
            let id = self.tell(inner, |gate, now| gate.wait_on(now, place, arrived, job));
            if let Place::Waits(waits) = &mut inner.places[place as usize] {
                waits.job = id.map(|id| Job { id, ..job });
            }
        }
        if *self.names.borrow() != names {
            self.numbering.set(self.numbering.get().wrapping_add(1));
            *self.renumbered.borrow_mut() = classes.to_vec();
            *self.names.borrow_mut() = names;
        }
    }

    /// Times that classes were numbered anew.
    pub(crate) fn numbering(&self) -> u32 {
        self.numbering.get()
    }

    /// The number that a class has now: `other` if there is no such class any more, or if it was numbered
    /// before the last time but one.
    pub(crate) fn class_now(&self, of: Numbered) -> u32 {
        match self.numbering.get().wrapping_sub(of.numbering) {
            0 => of.class,
            1 => self.renumbered.borrow().get(of.class as usize).copied().flatten().unwrap_or(0),
            _ => 0,
        }
    }

    /// The name of a class, as they are numbered now.
    pub(crate) fn class_name(&self, class: u32) -> String {
        let names = self.names.borrow();
        names.get(class as usize).unwrap_or(&names[0]).clone()
    }

    /// A server was found to be up or down.
    pub(crate) fn set_up(&self, server: usize, up: Up) {
        self.event(|gate, now| match up {
            Up::Yes => gate.rise(now, server as u32),
            Up::No => gate.lower(now, server as u32),
        });
    }

    pub(crate) fn is_up(&self, server: usize) -> bool {
        self.inner.borrow().gate.is_up(server as u32)
    }

    pub(crate) fn any_up(&self) -> bool {
        self.inner.borrow().gate.any_up()
    }

    /// The longest wait of jobs that arrive from now on.
    pub(crate) fn set_wait_max(&self, span: Duration) {
        self.event(|gate, now| gate.set_wait_max(now, span));
    }

    /// Wait of a job that came now [s], rounded up, for Retry-After. Of a gate that lets nobody in
    /// nothing is known, but that nobody waits longer than the longest wait.
    pub(crate) fn retry_after(&self) -> u64 {
        let gate = &self.inner.borrow().gate;
        let wait = gate.predicted_wait(self.now()).unwrap_or(gate.wait_max());
        (wait.as_secs_f64().ceil() as u64).clamp(1, 3600)
    }

    /// Brings the figures that the gate keeps up to date in the statistics.
    pub(crate) fn refresh_stats(&self, stats: &mut Stats) {
        let gate = &self.inner.borrow().gate;
        stats.waiting = gate.waiting();
        stats.uptime = self.began.elapsed();
        stats.wait_oldest = gate.wait_oldest(self.now());
        let none = |name: &String| (name.clone(), ClassCounts::default());
        stats.classes = self.names.borrow().iter().map(none).collect();
        for (class, counts) in gate.counts() {
            stats.classes[class].1.clone_from(counts);
        }
        let classes = &stats.classes;
        let sum = |count: fn(&ClassCounts) -> u64| {
            classes.iter().map(|(_, counts)| count(counts)).sum::<u64>()
        };
        stats.refused_queue_full = sum(|counts| counts.refused_queue_full);
        stats.refused_deadline = sum(|counts| counts.refused_deadline);
        stats.refused_hopeless = sum(|counts| counts.refused_hopeless);
        stats.refused_unreachable = sum(|counts| counts.refused_unreachable);
        stats.reneged = sum(|counts| counts.reneged);
        stats.slots_dropped = gate.dropped();
        for ((at, upstream), server) in (0..).zip(&mut stats.upstreams).zip(gate.servers()) {
            upstream.up = server.up;
            upstream.busy = server.busy;
            upstream.slots = server.slots;
            [upstream.wait, upstream.hold] = gate.times_at(at).map(Clone::clone);
        }
    }

    /// Estimates of the servers.
    pub(crate) fn estimates(&self) -> Vec<Estimate> {
        self.inner.borrow().gate.estimates(NAME, |class| self.class_name(class))
    }

    /// Estimates as the parts of a scenario with so many clients.
    pub(crate) fn fitted(&self, clients: u32) -> Option<Fitted> {
        self.inner.borrow().gate.fitted(clients)
    }

    /// Decisions about the slots, where they are left to the gate.
    pub(crate) fn controlled(&self) -> Option<Controlled> {
        self.inner.borrow().gate.controlled()
    }

    /// Function that answers a question about other slots, loads or servers, with so many clients.
    /// That takes as long as it takes: it is not for the thread of the gate.
    pub(crate) fn what_if(&self, clients: u32) -> impl Fn(&WhatIf) -> Answer + Send + 'static {
        let gate = &self.inner.borrow().gate;
        let (model, now) = (gate.model().cloned(), gate.stands(clients));
        move |asked| model.as_ref().expect("a driver of HTTP has a model").what_if(NAME, asked, now)
    }

    /// Recording so far.
    pub(crate) fn recording(&self) -> Option<Recording> {
        self.inner.borrow().gate.recording().cloned()
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
                self.armed.set(Time::MAX);
                // What the timer was set for may have come and gone: then it is set anew.
                self.event(live::Driver::wake);
            }
        }
    }
}

/// Estimates of a model, or its reason to give none.
pub(crate) type Answer = Result<Vec<Estimate>, Refusal>;

/// State of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Up {
    Yes,
    No,
}

/// A job at the gate until it starts or is refused. Dropped before that, it reneges.
#[derive(Debug)]
pub(crate) struct Ticket {
    driver: Rc<Driver>,
    place: u32,
}

impl Ticket {
    /// The gate's decision. To be asked until it is ready, and then no more.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Result<Held, Reason>> {
        let inner = &mut *self.driver.inner.borrow_mut();
        let place = &mut inner.places[self.place as usize];
        if let Place::Waits(Waits { waker, .. }) = place {
            if waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
                *waker = Some(cx.waker().clone());
            }
            return Poll::Pending;
        }
        let Place::Decided(outcome) = std::mem::replace(place, Place::Vacant) else {
            unreachable!("a decision is taken once")
        };
        Poll::Ready(outcome.map(|guard| Held {
            server: inner.gate.slot_of(&guard).server as usize,
            guard: Some(guard),
            since: self.driver.now(),
            work: Work::Done,
            driver: Rc::clone(&self.driver),
        }))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let driver = &self.driver;
        let inner = &mut *driver.inner.borrow_mut();
        let at = self.place as usize;
        match std::mem::replace(&mut inner.places[at], Place::Vacant) {
            Place::Vacant | Place::Decided(Err(_)) => {}
            Place::Waits(Waits { job, .. }) => {
                if let Some(job) = job {
                    driver.tell(inner, |gate, now| gate.renege(now, job.id));
                }
                // The gate may have refused it in that same event: its deadline had come.
                inner.places[at] = Place::Vacant;
            }
            // It was started, but nobody came to take the slot.
            Place::Decided(Ok(guard)) => {
                driver.tell(inner, |gate, now| gate.depart(now, guard, Work::Failed));
            }
        }
        inner.vacant.push(self.place);
    }
}

/// A slot that is held. Dropped, it is given back at once, whoever waits for it is woken, and the gate
/// hears what became of the job: else its guard would wait for the gate's next event.
#[derive(Debug)]
pub(crate) struct Held {
    driver: Rc<Driver>,
    /// There until it is dropped.
    guard: Option<SlotGuard>,
    /// A gate of HTTP never numbers its servers anew.
    server: usize,
    since: Time,
    work: Work,
}

impl Held {
    /// Marks its purpose as failed.
    pub(crate) fn fails(&mut self) {
        self.work = Work::Failed;
    }

    pub(crate) fn server(&self) -> usize {
        self.server
    }

    pub(crate) fn since(&self) -> Time {
        self.since
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(guard) = self.guard.take() else { return };
        self.driver.event(|gate, now| {
            gate.depart(now, guard, self.work);
        });
    }
}

#[cfg(test)]
mod tests {
    use gate::{Event, GateSpec};

    use super::*;

    fn stats(driver: &Driver) -> Stats {
        let mut stats = Stats::new(&["127.0.0.1:1".parse().unwrap()], 1);
        driver.refresh_stats(&mut stats);
        stats
    }

    fn driver(slots: u32) -> Rc<Driver> {
        let spec = GateSpec {
            room: Some(2),
            wait_max: Some(Duration::from_secs(9)),
            ..GateSpec::fifo(slots)
        };
        let upstream = "127.0.0.1:1".parse().unwrap();
        let config = Config::new(upstream, vec![upstream], slots);
        Rc::new(Driver::new(&Config { gate: spec, record_max: 100, ..config }).unwrap())
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
        let stats = stats(&driver);
        assert_eq!((stats.upstreams[0].busy, stats.waiting, stats.reneged), (0, 0, 1));
    }

    #[test]
    fn ids_increase_while_places_are_used_again() {
        let driver = driver(1);
        let first = driver.arrive(Wanted::default(), driver.now());
        let place = first.place;
        drop(first);
        let second = driver.arrive(Wanted::default(), driver.now());
        assert_eq!(second.place, place);
        drop(second);
        let recording = driver.recording().unwrap();
        let arrived = recording.steps.iter().filter_map(|step| match step.event {
            Event::Arrive(job) => Some(job.id),
            _ => None,
        });
        let ids: Vec<JobId> = arrived.collect();
        assert!(ids.len() == 2 && ids[0] < ids[1], "{ids:?}");
    }

    #[test]
    fn a_gate_that_panicked_is_not_asked_again() {
        let driver = driver(1);
        let bogus = || driver.event(|gate, now| gate.rise(now, 9));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(bogus)).is_err());
        bogus();
        let mut death = std::pin::pin!(driver.death());
        assert!(death.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        let ticket = driver.arrive(Wanted::default(), driver.now());
        assert!(poll(&ticket).is_pending(), "a dead gate starts nobody");
    }

    #[test]
    fn a_client_may_come_again_when_its_turn_would_come() {
        let driver = driver(2);
        assert_eq!(driver.retry_after(), 1, "a slot is free");
        driver.set_up(0, Up::No);
        assert_eq!(driver.retry_after(), 9, "nobody waits longer, and no more is known");
        driver.set_up(0, Up::Yes);
        let tickets = [0; 3].map(|_| driver.arrive(Wanted::default(), driver.now()));
        assert_eq!(driver.retry_after(), 9, "nothing is known of holds yet");
        drop(tickets);
    }
}
