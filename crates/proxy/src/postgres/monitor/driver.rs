//! The gate of one pool in real time: the one place through which every event of it goes, which
//! records it, measures waits and holds, and says who starts and who is refused.

use std::collections::VecDeque;
use std::time::Duration;

use gate::{Action, Event, Gate, GateSpec, Job, JobId, Reason, Slot, Time};
use measure::{Histogram, Recording};

use super::arena::Key;

/// What a gate has decided of a client's job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) client: Key,
    /// Which job of it.
    pub(super) job: JobId,
    pub(super) outcome: Result<Slot, Reason>,
}

/// A gate, driven by the clock of the machine.
#[derive(Debug)]
pub(super) struct Driver {
    gate: Gate,
    actions: Vec<Action>,
    places: Vec<Place>,
    vacant: Vec<u32>,
    sequence: u64,
    recording: Option<Recording>,
    up: Vec<bool>,
    /// Since when each slot is held, server by server.
    since: Vec<Vec<Option<Time>>>,
    wait_max: Duration,
    wait: Histogram,
    hold: Histogram,
    /// The mean hold, recent ones weighing more [s]; `None` before the first.
    hold_mean: Option<f64>,
    wait_sum: Duration,
    verdicts: VecDeque<Verdict>,
}

/// The place of one job that waits. Its index is in the low bits of the job's id.
#[derive(Clone, Copy, Debug)]
struct Place {
    job: JobId,
    arrived: Time,
    client: Key,
}

const PLACE_BITS: u32 = 24;

/// The weight of the newest hold in their mean: about the last 64 count.
const HOLD_WEIGHT: f64 = 1.0 / 64.0;

impl Driver {
    /// Drives a fresh gate.
    ///
    /// # Errors
    /// If `spec` describes none.
    pub(super) fn new(spec: &GateSpec, record_max: usize) -> Result<Driver, gate::SpecError> {
        Ok(Driver {
            gate: Gate::new(spec)?,
            actions: Vec::new(),
            places: Vec::new(),
            vacant: Vec::new(),
            sequence: 0,
            recording: (record_max > 0).then(|| Recording::new(spec.clone(), record_max)),
            up: vec![true; spec.servers.len()],
            since: spec.servers.iter().map(|server| vec![None; server.slots as usize]).collect(),
            wait_max: spec.wait_max.unwrap_or(Duration::MAX),
            wait: Histogram::new(),
            hold: Histogram::new(),
            hold_mean: None,
            wait_sum: Duration::ZERO,
            verdicts: VecDeque::new(),
        })
    }

    /// A job of `client` arrives, which may wait until so long after `since`.
    pub(super) fn arrive(&mut self, now: Time, client: Key, since: Time) -> JobId {
        let at = self.vacant.pop().unwrap_or(self.places.len() as u32);
        self.sequence += 1;
        let job = JobId(self.sequence << PLACE_BITS | u64::from(at));
        let place = Place { job, arrived: now, client };
        match self.places.get_mut(at as usize) {
            Some(vacant) => *vacant = place,
            None => self.places.push(place),
        }
        let deadline = Some(since + self.wait_max);
        self.tell(now, Event::Arrive(Job { deadline, ..Job::new(job) }));
        job
    }

    /// The client of a job that waits has gone. What was decided of it and not carried out is undone.
    pub(super) fn renege(&mut self, now: Time, job: JobId) {
        if let Some(outcome) = self.withdraw(job) {
            if let Ok(slot) = outcome {
                self.depart(now, slot);
            }
            return;
        }
        self.tell(now, Event::Renege(job));
        // The gate may have refused it in that same event: its deadline had come.
        if self.withdraw(job).is_none() {
            self.vacate(job);
        }
    }

    fn withdraw(&mut self, job: JobId) -> Option<Result<Slot, Reason>> {
        let at = self.verdicts.iter().position(|verdict| verdict.job == job)?;
        self.verdicts.remove(at).map(|verdict| verdict.outcome)
    }

    /// A slot is given back; how long it was held.
    pub(super) fn depart(&mut self, now: Time, slot: Slot) -> Duration {
        let since = self.since[slot.server as usize][slot.index as usize].take();
        let hold = now.since(since.expect("a slot that departs is held"));
        self.hold.record(hold);
        let seconds = hold.as_secs_f64();
        let mean = self.hold_mean.get_or_insert(seconds);
        *mean += HOLD_WEIGHT * (seconds - *mean);
        self.tell(now, Event::Depart(slot));
        hold
    }

    /// A server was found to be up.
    pub(super) fn rise(&mut self, now: Time, server: u32) {
        if !std::mem::replace(&mut self.up[server as usize], true) {
            self.tell(now, Event::Up(server));
        }
    }

    /// A server was found to be down. The last one stays up: who waits for it hears why it cannot
    /// be reached. Whether others are up.
    pub(super) fn fall(&mut self, now: Time, server: u32) -> bool {
        let is_up = |(at, up): (usize, &bool)| *up && at != server as usize;
        let others = self.up.iter().enumerate().any(is_up);
        if others && std::mem::replace(&mut self.up[server as usize], false) {
            self.tell(now, Event::Down(server));
        }
        others
    }

    /// The moment has come that [`next_wakeup`](Driver::next_wakeup) named.
    pub(super) fn wake(&mut self, now: Time) {
        if self.next_wakeup().is_some_and(|wakeup| wakeup <= now) {
            self.tell(now, Event::Wake);
        }
    }

    /// When to [`wake`](Driver::wake) it at the latest.
    pub(super) fn next_wakeup(&self) -> Option<Time> {
        self.gate.next_wakeup()
    }

    /// What was decided and not yet carried out, in order.
    pub(super) fn next_verdict(&mut self) -> Option<Verdict> {
        self.verdicts.pop_front()
    }

    fn tell(&mut self, now: Time, event: Event) {
        self.actions.clear();
        self.gate.handle(now, event, &mut self.actions);
        if let Some(recording) = &mut self.recording {
            recording.push(now, event, &self.actions);
        }
        for at in 0..self.actions.len() {
            let (job, outcome) = match self.actions[at] {
                Action::Start { job, slot } => (job, Ok(slot)),
                Action::Refuse { job, reason } => (job, Err(reason)),
            };
            let place = self.places[place_of(job)];
            assert_eq!(place.job, job, "the gate speaks of a job that is not there");
            self.vacate(job);
            if let Ok(slot) = outcome {
                let wait = now.since(place.arrived);
                self.wait.record(wait);
                self.wait_sum += wait;
                let held = &mut self.since[slot.server as usize][slot.index as usize];
                assert!(held.is_none(), "{slot:?} is held by two");
                *held = Some(now);
            }
            self.verdicts.push_back(Verdict { client: place.client, job, outcome });
        }
    }

    fn vacate(&mut self, job: JobId) {
        let at = place_of(job);
        self.places[at].job = JobId(0);
        self.vacant.push(at as u32);
    }

    /// How long a job would wait that came now: those before it, served by all slots at the recent
    /// mean hold; `None` if nothing is known of holds yet.
    pub(super) fn predicted_wait(&self) -> Option<Duration> {
        let servers = self.gate.servers().iter().zip(&self.up);
        let slots: u32 = servers.filter(|(_, up)| **up).map(|(server, _)| server.slots).sum();
        let hold = self.hold_mean.filter(|_| slots > 0)?;
        let wait = (self.gate.waiting() + 1) as f64 * hold / f64::from(slots);
        Duration::try_from_secs_f64(wait).ok()
    }

    pub(super) fn waiting(&self) -> u64 {
        self.gate.waiting()
    }

    pub(super) fn busy(&self) -> u32 {
        self.gate.busy()
    }

    pub(super) fn slots(&self) -> u32 {
        self.gate.slots()
    }

    /// From arrival to start.
    pub(super) fn wait(&self) -> &Histogram {
        &self.wait
    }

    /// All waits together.
    pub(super) fn wait_sum(&self) -> Duration {
        self.wait_sum
    }

    /// From start to departure.
    pub(super) fn hold(&self) -> &Histogram {
        &self.hold
    }

    pub(super) fn recording(&self) -> Option<&Recording> {
        self.recording.as_ref()
    }
}

fn place_of(job: JobId) -> usize {
    (job.0 & ((1 << PLACE_BITS) - 1)) as usize
}

#[cfg(test)]
mod tests {
    use super::super::arena::Arena;
    use super::*;

    fn driver() -> (Driver, [Key; 3]) {
        let spec =
            GateSpec { room: Some(1), wait_max: Some(Duration::from_secs(9)), ..GateSpec::fifo(1) };
        let mut arena = Arena::new();
        (Driver::new(&spec, 100).unwrap(), [0; 3].map(|_| arena.insert(())))
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_slot_goes_from_client_to_client_and_all_of_it_replays() {
        let (mut driver, [a, b, c]) = driver();
        driver.arrive(at(0), a, at(0));
        let slot = driver.next_verdict().unwrap().outcome.unwrap();
        driver.arrive(at(1), b, at(1));
        assert_eq!(driver.next_verdict(), None);
        driver.arrive(at(1), c, at(1));
        let refused = driver.next_verdict().unwrap();
        assert_eq!((refused.client, refused.outcome), (c, Err(Reason::QueueFull)));
        assert_eq!(driver.depart(at(3), slot), Duration::from_secs(3));
        let next = driver.next_verdict().unwrap();
        assert_eq!((next.client, next.outcome), (b, Ok(slot)));
        assert_eq!(driver.predicted_wait(), Some(Duration::from_secs(3)));
        driver.depart(at(4), slot);
        assert_eq!((driver.busy(), driver.waiting(), driver.wait().len()), (0, 0, 2));
        assert_eq!(driver.recording().unwrap().replay(), Ok(()));
    }

    #[test]
    fn who_waits_too_long_is_refused_and_who_goes_is_forgotten() {
        let (mut driver, [a, b, c]) = driver();
        driver.arrive(at(0), a, at(0));
        let slot = driver.next_verdict().unwrap().outcome.unwrap();
        let gone = driver.arrive(at(1), b, at(1));
        driver.renege(at(2), gone);
        driver.arrive(at(2), c, at(2));
        assert_eq!(driver.next_wakeup(), Some(at(11)));
        driver.wake(at(11));
        let refused = driver.next_verdict().unwrap();
        assert_eq!((refused.client, refused.outcome), (c, Err(Reason::Deadline)));
        driver.depart(at(12), slot);
        assert_eq!(driver.next_verdict(), None);
        assert_eq!(driver.vacant.len(), driver.places.len());
        assert_eq!(driver.recording().unwrap().replay(), Ok(()));
    }

    #[test]
    #[should_panic(expected = "a slot that departs is held")]
    fn a_slot_is_never_given_back_twice() {
        let (mut driver, [a, ..]) = driver();
        driver.arrive(at(0), a, at(0));
        let slot = driver.next_verdict().unwrap().outcome.unwrap();
        driver.depart(at(1), slot);
        driver.depart(at(1), slot);
    }
}
