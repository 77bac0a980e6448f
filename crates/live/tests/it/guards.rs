//! Slots whose guards were dropped. The story: a slot was a number that its owner had to bring back, and
//! one that was forgotten on any of the many ways out of a server was lost until the process ended.

use std::collections::BTreeSet;
use std::time::Duration;

use gate::{Event, GateSpec, Job, JobId, Queues, Reason, RouterSpec, ServerSpec, Slot, Time};
use live::model::Work;
use live::{Anew, Chain, Driver, Permits, SlotGuard};

use crate::chance::Chance;

const JOB: Job = Job::new(JobId(0));

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

/// A gate with so many servers of one slot each.
fn spec(servers: usize) -> GateSpec {
    GateSpec {
        servers: vec![ServerSpec { slots: 1 }; servers],
        queues: Queues::Shared,
        router: RouterSpec::RoundRobin,
        ..GateSpec::fifo(1)
    }
}

fn driver(servers: usize) -> Driver<char> {
    Driver::new(&spec(servers), 1, 1_000).unwrap()
}

fn started(driver: &mut Driver<char>, now: Time, owner: char) -> SlotGuard {
    driver.arrive(now, owner, now, JOB);
    driver.next_decision().unwrap().outcome.unwrap()
}

/// The names of those who wait on there.
fn begin_anew(driver: &mut Driver<char>, now: Time, places: &[Option<usize>]) -> BTreeSet<JobId> {
    let waiting = driver.take_waiting();
    let spec = spec(places.len());
    let anew = Anew {
        spec: &spec,
        places,
        classes: &[Some(0)],
        classes_now: 1,
        record_max: 1_000,
        auto: None,
        models: false,
    };
    driver.begin_anew(now, &anew);
    waiting.into_iter().map(|(owner, arrived)| driver.wait_on(now, owner, arrived, JOB)).collect()
}

fn departures(driver: &Driver<char>) -> usize {
    let steps = &driver.recording().unwrap().steps;
    steps.iter().filter(|step| matches!(step.event, Event::Depart(_))).count()
}

#[test]
fn a_dropped_guard_gives_its_slot_back_at_the_next_event_and_once() {
    let mut driver = driver(1);
    let guard = started(&mut driver, at(0), 'a');
    driver.arrive(at(1), 'b', at(1), JOB);
    assert_ne!(driver.next_wakeup(), Some(Time::ZERO));
    drop(guard);
    assert_eq!((driver.busy(), driver.guards(), driver.dropped()), (1, 0, 0), "nothing happened");
    assert_eq!(driver.next_wakeup(), Some(Time::ZERO), "but it asks to be woken");
    driver.wake(at(3));
    assert_eq!((driver.busy(), driver.guards(), driver.dropped()), (1, 1, 1));
    let next = driver.next_decision().unwrap();
    assert_eq!(next.owner, 'b');
    driver.depart(at(4), next.outcome.unwrap(), Work::Done);
    driver.wake(at(5));
    assert_eq!((driver.busy(), driver.dropped(), driver.next_wakeup()), (0, 1, None));
    assert_eq!(departures(&driver), 2);
    assert_eq!(driver.hold().len(), 2, "its hold counts as that of a job that has failed");
    assert_eq!(driver.recording().unwrap().replay(), Ok(()));
}

/// The job that reneges got the slot that came back in that same call, and the gate was told of a job
/// that waits no more.
#[test]
fn a_slot_that_comes_back_may_be_that_of_the_job_that_goes() {
    let mut driver = driver(1);
    let guard = started(&mut driver, at(0), 'a');
    let waits = driver.arrive(at(1), 'b', at(1), JOB);
    drop(guard);
    driver.renege(at(2), waits);
    assert!(driver.next_decision().is_none());
    assert_eq!((driver.busy(), driver.waiting(), driver.dropped()), (0, 0, 1));
    assert_eq!(driver.recording().unwrap().replay(), Ok(()));
}

#[test]
fn who_waits_for_something_else_gives_its_slot_back_too() {
    let mut driver = driver(1);
    driver.keep_waiting();
    drop(started(&mut driver, at(0), 'a'));
    let guard = started(&mut driver, at(1), 'b');
    driver.admitted(at(2), &guard);
    assert_eq!(driver.depart(at(4), guard, Work::Done), Duration::from_secs(2));
    let counts = driver.counts().next().unwrap().1.clone();
    assert_eq!((counts.reneged, counts.busy, counts.waiting), (1, 0, 0));
    assert_eq!((driver.busy(), driver.dropped()), (0, 1));
}

#[test]
fn a_decision_that_nobody_takes_gives_its_slot_back() {
    let mut driver = driver(1);
    driver.arrive(at(0), 'a', at(0), JOB);
    drop(driver.next_decision());
    driver.arrive(at(1), 'b', at(1), JOB);
    assert_eq!(driver.next_decision().map(|next| next.owner), Some('b'));
}

/// By its old number it would have been the other one's slot.
#[test]
fn a_guard_of_before_gives_back_its_own_slot_when_servers_have_other_places() {
    let mut driver = driver(2);
    let [first, second] = ['a', 'b'].map(|owner| started(&mut driver, at(0), owner));
    let [one, other] = [&first, &second].map(|guard| driver.slot_of(guard).server);
    assert_ne!(one, other);
    begin_anew(&mut driver, at(1), &[Some(1), Some(0), None]);
    assert_eq!([&first, &second].map(|guard| driver.slot_of(guard).server), [other, one]);
    drop(first);
    driver.wake(at(2));
    let busy: Vec<u32> = driver.servers().map(|server| server.busy).collect();
    assert_eq!((busy[one as usize], busy[other as usize]), (1, 0));
    assert_eq!(driver.slot_of(&second).server, one);
    driver.depart(at(3), second, Work::Done);
    assert_eq!((driver.busy(), driver.dropped()), (0, 1));
    assert_eq!(driver.recording().unwrap().replay(), Ok(()));
}

/// The gate that was would have started a job that was taken out of it.
#[test]
fn a_guard_that_is_dropped_just_before_a_gate_begins_anew_holds_nothing_there() {
    let mut driver = driver(1);
    let guard = started(&mut driver, at(0), 'a');
    driver.arrive(at(1), 'b', at(1), JOB);
    drop(guard);
    assert_eq!(begin_anew(&mut driver, at(2), &[Some(0)]).len(), 1);
    let next = driver.next_decision().unwrap();
    assert_eq!((next.owner, driver.dropped()), ('b', 1));
    driver.depart(at(3), next.outcome.unwrap(), Work::Done);
    assert_eq!(driver.busy(), 0);
    assert_eq!(driver.recording().unwrap().replay(), Ok(()));
}

#[test]
#[should_panic(expected = "nobody holds a slot of a server that goes")]
fn a_server_does_not_go_while_somebody_holds_a_slot_of_it() {
    let mut driver = driver(2);
    let _guards = ['a', 'b'].map(|owner| started(&mut driver, at(0), owner));
    begin_anew(&mut driver, at(1), &[Some(0)]);
}

#[test]
#[should_panic(expected = "a slot goes back to the gate that it is of")]
fn a_slot_does_not_go_back_to_another_gate() {
    let [mut one, mut other] = [driver(1), driver(1)];
    let guard = started(&mut one, at(0), 'a');
    let _others = started(&mut other, at(0), 'a');
    other.depart(at(1), guard, Work::Done);
}

#[test]
fn a_guard_may_outlive_its_driver_and_go_to_another_thread() {
    fn sent<T: Send>(one: T) -> T {
        one
    }
    let mut driver = sent(driver(1));
    let guard = sent(started(&mut driver, at(0), 'a'));
    drop(driver);
    drop(guard);
}

/// The next job's way whose result is known.
fn passed(chain: &mut Chain<char>, now: u64) -> Option<(char, Result<Permits, Reason>)> {
    chain.next_passed(at(now)).map(|passed| (passed.owner, passed.outcome))
}

#[test]
fn the_permits_of_a_chain_that_are_dropped_give_all_slots_back() {
    let mut chain = Chain::default();
    chain.set(0, &live::turns(1, Some(9)), 100).unwrap();
    chain.set(1, &live::turns(2, Some(9)), 100).unwrap();
    for owner in ['a', 'b'] {
        chain.enter(at(0), (owner, 0), &[0, 1], (at(0), None));
    }
    let (owner, permits) = passed(&mut chain, 0).unwrap();
    assert_eq!((owner, permits.as_ref().unwrap().len()), ('a', 2));
    assert!(passed(&mut chain, 0).is_none());
    drop(permits);
    assert_eq!(chain.next_wakeup(), Some(Time::ZERO));
    chain.wake(at(1));
    assert!(chain.has_decided());
    let (owner, permits) = passed(&mut chain, 1).unwrap();
    assert_eq!((owner, chain.busy(0), chain.busy(1)), ('b', 1, 1));
    assert_eq!((chain.dropped(0), chain.dropped(1)), (1, 1));
    // A place that nobody is at may be given to another gate, dropped guards or not.
    drop(permits);
    chain.set(0, &live::turns(3, Some(9)), 100).unwrap();
    chain.wake(at(2));
    assert_eq!((chain.busy(0), chain.busy(1), chain.next_wakeup()), (0, 0, None));
    assert_eq!(chain.recording(1).unwrap().replay(), Ok(()));
}

/// What a job of the random test holds, and where it must be by the test's own account.
struct Mine {
    guard: SlotGuard,
    slot: Slot,
}

struct Random {
    chance: Chance,
    driver: Driver<char>,
    servers: usize,
    now: u64,
    mine: Vec<Mine>,
    waiting: BTreeSet<JobId>,
    dropped: u64,
}

impl Random {
    fn below(&mut self, most: usize) -> usize {
        (self.chance.uniform() * most as f64) as usize
    }

    fn any_of_mine(&mut self) -> Option<Mine> {
        let at = self.below(self.mine.len().max(1));
        (!self.mine.is_empty()).then(|| self.mine.swap_remove(at))
    }

    fn step(&mut self) {
        self.now += self.below(2) as u64;
        let now = at(self.now);
        // Most find guards that were dropped in the step before.
        match self.below(16) {
            0..5 => {
                let job = self.driver.arrive(now, 'j', now, JOB);
                self.waiting.insert(job);
            }
            5..8 => {
                if let Some(mine) = self.any_of_mine() {
                    let work = if self.below(2) == 0 { Work::Done } else { Work::Failed };
                    self.driver.depart(now, mine.guard, work);
                }
            }
            // Several may be dropped before anything happens.
            8..12 => {
                for _ in 0..=self.below(3) {
                    let mine = self.any_of_mine();
                    self.dropped += u64::from(mine.is_some());
                }
                if self.below(2) == 0 {
                    return;
                }
            }
            12 => {
                let most = self.waiting.len().max(1);
                let one = self.below(most);
                if let Some(job) = self.waiting.iter().nth(one).copied() {
                    self.waiting.remove(&job);
                    self.driver.renege(now, job);
                }
            }
            13 if self.servers > 1 => {
                let guard = self.driver.occupy(now, 0);
                let slot = self.driver.slot_of(&guard);
                self.mine.push(Mine { guard, slot });
            }
            13 => {}
            _ => self.begin_anew(now),
        }
        self.driver.wake(now);
        self.take_decisions();
        self.check();
    }

    /// Servers are shuffled; one comes, and one goes that nobody is served by.
    fn begin_anew(&mut self, now: Time) {
        assert_eq!(self.driver.recording().unwrap().replay(), Ok(()));
        let mut places: Vec<Option<usize>> = (0..self.servers).map(Some).collect();
        for last in (1..places.len()).rev() {
            let other = self.below(last + 1);
            places.swap(last, other);
        }
        if places.len() < 5 && self.below(2) == 0 {
            let place = self.below(places.len() + 1);
            places.insert(place, None);
        }
        let is_idle =
            |place: usize| self.mine.iter().all(|mine| mine.slot.server as usize != place);
        let idle = places.iter().position(|place| place.is_some_and(is_idle));
        if let Some(idle) = idle.filter(|_| places.len() > 2) {
            places.remove(idle);
        }
        self.waiting = begin_anew(&mut self.driver, now, &places);
        self.servers = places.len();
        for Mine { slot, .. } in &mut self.mine {
            let place = places.iter().position(|place| *place == Some(slot.server as usize));
            slot.server = place.expect("it is not idle") as u32;
        }
    }

    fn take_decisions(&mut self) {
        while let Some(decision) = self.driver.next_decision() {
            self.waiting.remove(&decision.job);
            let guard = decision.outcome.expect("nobody is refused");
            let slot = self.driver.slot_of(&guard);
            self.mine.push(Mine { guard, slot });
        }
    }

    /// At each event: what is busy is what somebody has, and each has the slot that it had.
    fn check(&self) {
        let slots: BTreeSet<Slot> = self.mine.iter().map(|mine| mine.slot).collect();
        assert_eq!(slots.len(), self.mine.len(), "a slot has one holder");
        for mine in &self.mine {
            assert_eq!(self.driver.slot_of(&mine.guard), mine.slot);
        }
        for (server, busy) in (0..).zip(self.driver.servers().map(|server| server.busy)) {
            let mine = slots.iter().filter(|slot| slot.server == server).count();
            assert_eq!(busy as usize, mine, "server {server}");
        }
        assert_eq!((self.driver.dropped(), self.driver.guards()), (self.dropped, self.mine.len()));
    }
}

#[test]
fn dropped_or_not_each_slot_comes_back_once_whatever_happens() {
    for seed in 0..200 {
        println!("seed {seed}");
        let driver = driver(2);
        let (mine, waiting) = (Vec::new(), BTreeSet::new());
        let chance = Chance(seed);
        let mut run = Random { chance, driver, servers: 2, now: 0, mine, waiting, dropped: 0 };
        for _ in 0..400 {
            run.step();
        }
        // All that is left goes, one way or the other, until nobody waits.
        while run.driver.busy() > 0 {
            if let Some(mine) = run.any_of_mine() {
                drop(mine);
                run.dropped += 1;
            }
            run.driver.wake(at(run.now));
            run.take_decisions();
            run.check();
        }
        assert_eq!((run.driver.waiting(), run.driver.guards()), (0, 0));
        assert_eq!(run.driver.recording().unwrap().replay(), Ok(()));
        assert!(run.dropped > 50, "{} were dropped", run.dropped);
    }
}
