//! Gates that a job passes one after the other, as quotas are: it keeps the slot of each until it is
//! done.
//!
//! ```text
//!   pool's gate ──▶ [ narrow ] ──▶ [ wide ] ──▶ done: all slots back
//!   pool's gate ─────────────────▶ [ wide ] ──▶
//! ```
//!
//! A scenario says the same with gates inside gates.

use std::collections::VecDeque;

use gate::{DisciplineSpec, GateSpec, Job, JobId, Reason, Slot, SpecError, Time};
use measure::Recording;

use crate::driver::Driver;
use crate::guard::SlotGuard;
use crate::model::Work;

/// So many jobs of one class go before those of another have their turn, where both wait: what a turn
/// costs, such as a connection that is closed and another one that is made, is not paid for each job.
pub const TURN: u64 = 32;

/// A gate of a chain that has one server with so many slots, at which classes take [turns](TURN) and so
/// many jobs may wait, each up to the deadline that it brings.
pub fn turns(slots: u32, room: Option<u64>) -> GateSpec {
    GateSpec {
        discipline: DisciplineSpec::DeficitRoundRobin { quantum: TURN, weights: Vec::new() },
        room,
        ..GateSpec::fifo(slots)
    }
}

/// A job's way through a chain, until it has passed, was refused or is [withdrawn](Chain::withdraw).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassId(u32);

/// The slots of a chain that a job holds, each with its gate. Dropped, they go back when the chain hears
/// of something next.
pub type Permits = Vec<(usize, SlotGuard)>;

/// Result of a job's way.
#[derive(Debug)]
pub struct Passed<O> {
    /// The one whose job it is.
    pub owner: O,
    /// Its way.
    pub pass: PassId,
    /// All its slots, to be [released](Chain::release) when it is done; or why it has none.
    pub outcome: Result<Permits, Reason>,
}

/// A job on its way.
#[derive(Debug)]
struct Pass<O> {
    owner: O,
    class: u32,
    since: Time,
    deadline: Option<Time>,
    /// The gates still before it, the next one last.
    way: Vec<usize>,
    held: Permits,
    /// Gate and id of its wait.
    asks: (usize, JobId),
}

/// Gates one behind the other. Like a [`Driver`] it is told what happens and when, and asked what was
/// decided.
#[derive(Debug)]
pub struct Chain<O> {
    gates: Vec<Driver<u32>>,
    passes: Vec<Option<Pass<O>>>,
    vacant: Vec<u32>,
    /// Gates that may have decided something.
    decided: VecDeque<usize>,
    passed: VecDeque<Passed<O>>,
}

impl<O> Default for Chain<O> {
    fn default() -> Chain<O> {
        Chain {
            gates: Vec::new(),
            passes: Vec::new(),
            vacant: Vec::new(),
            decided: VecDeque::new(),
            passed: VecDeque::new(),
        }
    }
}

impl<O: Copy> Chain<O> {
    /// Sets a gate in this place, behind the last one or instead of one at which nobody is.
    ///
    /// # Errors
    /// If the specification describes none.
    ///
    /// # Panics
    /// If somebody is at the one that it takes the place of, or the place is beyond the next.
    pub fn set(&mut self, at: usize, spec: &GateSpec, record_max: usize) -> Result<(), SpecError> {
        let driver = Driver::new(spec, 1, record_max)?;
        match self.gates.get_mut(at) {
            Some(place) => {
                // Slots whose guards were dropped go with it.
                let there = (place.guards(), place.waiting());
                assert_eq!(there, (0, 0), "somebody is at gate {at}");
                *place = driver;
            }
            None => {
                assert_eq!(at, self.gates.len(), "the next gate of a chain");
                self.gates.push(driver);
            }
        }
        Ok(())
    }

    /// Number of gates.
    pub fn len(&self) -> usize {
        self.gates.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.gates.is_empty()
    }

    /// A job of `owner` sets out to pass these gates, in this order, by its deadline; who waits for a
    /// wide gate holds narrow ones, and not the other way round, so that nobody waits for each other.
    /// It has waited since `since` already.
    ///
    /// # Panics
    /// If there is no gate to pass.
    pub fn enter(
        &mut self,
        now: Time,
        (owner, class): (O, u32),
        gates: &[usize],
        (since, deadline): (Time, Option<Time>),
    ) -> PassId {
        let at = self.vacant.pop().unwrap_or_else(|| {
            self.passes.push(None);
            (self.passes.len() - 1) as u32
        });
        let way = gates.iter().rev().copied().collect();
        let asks = (usize::MAX, JobId(0));
        let pass = Pass { owner, class, since, deadline, way, held: Permits::new(), asks };
        self.passes[at as usize] = Some(pass);
        self.ask(now, at);
        PassId(at)
    }

    /// A job on its way asks the next gate for a slot.
    fn ask(&mut self, now: Time, at: u32) {
        let pass = self.passes[at as usize].as_mut().expect("who asks is on its way");
        let gate = pass.way.pop().expect("there is a gate before it");
        let job = Job { class: pass.class, deadline: pass.deadline, ..Job::new(JobId(0)) };
        pass.asks = (gate, self.gates[gate].arrive(now, at, pass.since, job));
        self.decided.push_back(gate);
    }

    /// Result of the next job's way of which something is known.
    pub fn next_passed(&mut self, now: Time) -> Option<Passed<O>> {
        while self.passed.is_empty() {
            let gate = self.decided.pop_front()?;
            while let Some(decision) = self.gates[gate].next_decision() {
                let at = decision.owner;
                let pass = self.passes[at as usize].as_mut().expect("who goes is withdrawn");
                assert_eq!(pass.asks, (gate, decision.job), "it waits for one gate at a time");
                match decision.outcome {
                    Ok(guard) => {
                        pass.held.push((gate, guard));
                        if pass.way.is_empty() {
                            self.ends(at, None);
                        } else {
                            self.ask(now, at);
                        }
                    }
                    Err(reason) => {
                        let held = std::mem::take(&mut pass.held);
                        self.release(now, held);
                        self.ends(at, Some(reason));
                    }
                }
            }
        }
        let passed = self.passed.pop_front()?;
        // Its number is another job's only now: until it is told, its owner may withdraw it by that.
        self.vacant.push(passed.pass.0);
        Some(passed)
    }

    fn ends(&mut self, at: u32, refused: Option<Reason>) {
        let Pass { owner, held, .. } =
            self.passes[at as usize].take().expect("who ends is on its way");
        let outcome = refused.map_or(Ok(held), Err);
        self.passed.push_back(Passed { owner, pass: PassId(at), outcome });
    }

    /// The owner of a job has gone while that was on its way.
    pub fn withdraw(&mut self, now: Time, pass: PassId) {
        let at = self.passed.iter().position(|passed| passed.pass == pass);
        if let Some(passed) = at.and_then(|at| self.passed.remove(at)) {
            // It had passed, and nobody knew. What was refused holds nothing.
            self.vacant.push(pass.0);
            if let Ok(held) = passed.outcome {
                self.release(now, held);
            }
            return;
        }
        let Pass { held, asks: (gate, job), .. } =
            self.passes[pass.0 as usize].take().expect("who is withdrawn is on its way");
        self.vacant.push(pass.0);
        self.gates[gate].renege(now, job);
        self.decided.push_back(gate);
        self.release(now, held);
    }

    /// A job is done: its slots are free.
    pub fn release(&mut self, now: Time, permits: Permits) {
        for (gate, guard) in permits {
            self.gates[gate].depart(now, guard, Work::Done);
            self.decided.push_back(gate);
        }
    }

    /// A job holds a slot of a gate from now on that has never waited there.
    pub fn occupy(&mut self, now: Time, gate: usize, class: u32) -> SlotGuard {
        // Others may start, in slots whose guards were dropped.
        self.decided.push_back(gate);
        self.gates[gate].occupy(now, class)
    }

    /// The slot that a job holds at a gate.
    ///
    /// # Panics
    /// If it is of another chain.
    pub fn slot_of(&self, (gate, guard): &(usize, SlotGuard)) -> Slot {
        self.gates[*gate].slot_of(guard)
    }

    /// A gate has so many slots from now on.
    pub fn resize(&mut self, now: Time, gate: usize, slots: u32) {
        self.gates[gate].resize(now, 0, slots);
        self.decided.push_back(gate);
    }

    /// Wakes the gates whose moment has come.
    pub fn wake(&mut self, now: Time) {
        for (at, gate) in self.gates.iter_mut().enumerate() {
            if gate.next_wakeup().is_some_and(|moment| moment <= now) {
                gate.wake(now);
                self.decided.push_back(at);
            }
        }
    }

    /// When to [`wake`](Chain::wake) it at the latest: at once if permits were dropped.
    pub fn next_wakeup(&self) -> Option<Time> {
        self.gates.iter().filter_map(Driver::next_wakeup).min()
    }

    /// True if a gate may have decided something that nobody has [asked](Chain::next_passed) about.
    pub fn has_decided(&self) -> bool {
        !self.decided.is_empty() || !self.passed.is_empty()
    }

    /// Slots of a gate that are held.
    pub fn busy(&self, gate: usize) -> u32 {
        self.gates[gate].busy()
    }

    /// Guards of a gate that were dropped instead of [released](Chain::release), so far as their slots
    /// are back.
    pub fn dropped(&self, gate: usize) -> u64 {
        self.gates[gate].dropped()
    }

    /// Jobs that wait for one.
    pub fn waiting(&self, gate: usize) -> u64 {
        self.gates[gate].waiting()
    }

    /// Waits of those that have got one, since they came.
    pub fn wait(&self, gate: usize) -> &measure::Histogram {
        self.gates[gate].wait()
    }

    /// Recording of a gate, if there is one.
    pub fn recording(&self, gate: usize) -> Option<&Recording> {
        self.gates[gate].recording()
    }
}

/// Idle things, of several that are kept although nobody needs them, that make room for one more,
/// where `open` are there and only `most` may be: those used longest ago. Each comes with its last
/// use.
pub fn evicted<K>(open: usize, most: usize, idle: impl IntoIterator<Item = (K, Time)>) -> Vec<K> {
    let surplus = (open + 1).saturating_sub(most);
    if surplus == 0 {
        return Vec::new();
    }
    let mut idle: Vec<(K, Time)> = idle.into_iter().collect();
    idle.sort_by_key(|(_, used)| *used);
    idle.into_iter().take(surplus).map(|(key, _)| key).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    /// A narrow gate of one slot before a wide one of two.
    fn chain() -> Chain<char> {
        let mut chain = Chain::default();
        chain.set(0, &turns(1, Some(9)), 100).unwrap();
        chain.set(1, &turns(2, Some(9)), 100).unwrap();
        chain
    }

    fn enter(chain: &mut Chain<char>, now: u64, owner: char, gates: &[usize]) -> PassId {
        let class = u32::from(owner) - u32::from('a');
        chain.enter(at(now), (owner, class), gates, (at(now), Some(at(now + 100))))
    }

    fn passed(chain: &mut Chain<char>, now: u64) -> Option<(char, Result<Permits, Reason>)> {
        chain.next_passed(at(now)).map(|passed| (passed.owner, passed.outcome))
    }

    #[test]
    fn a_job_holds_a_slot_of_each_gate_until_it_is_done() {
        let mut chain = chain();
        enter(&mut chain, 0, 'a', &[0, 1]);
        let (owner, permits) = passed(&mut chain, 0).unwrap();
        let permits = permits.unwrap();
        assert_eq!((owner, permits.iter().map(|permit| permit.0).collect()), ('a', vec![0, 1]));
        // One waits for the narrow gate, and holds up nobody at the wide one.
        enter(&mut chain, 1, 'b', &[0, 1]);
        assert!(passed(&mut chain, 1).is_none());
        enter(&mut chain, 2, 'c', &[1]);
        let (owner, _others) = passed(&mut chain, 2).unwrap();
        assert_eq!(owner, 'c');
        assert_eq!((chain.busy(0), chain.waiting(0), chain.busy(1)), (1, 1, 2));
        chain.release(at(3), permits);
        let (owner, permits) = passed(&mut chain, 3).unwrap();
        assert_eq!((owner, permits.unwrap().len()), ('b', 2));
        for gate in [0, 1] {
            assert_eq!(chain.recording(gate).unwrap().replay(), Ok(()));
        }
    }

    #[test]
    fn who_is_refused_or_goes_gives_back_what_it_had() {
        let mut chain = chain();
        let _others = ['c', 'd'].map(|owner| {
            enter(&mut chain, 0, owner, &[1]);
            passed(&mut chain, 0).unwrap()
        });
        let gone = enter(&mut chain, 1, 'a', &[0, 1]);
        assert!(passed(&mut chain, 1).is_none());
        assert_eq!((chain.busy(0), chain.waiting(1)), (1, 1));
        chain.withdraw(at(2), gone);
        assert!(passed(&mut chain, 2).is_none());
        assert_eq!((chain.busy(0), chain.waiting(1)), (0, 0));
        enter(&mut chain, 3, 'b', &[0, 1]);
        assert!(passed(&mut chain, 3).is_none());
        assert_eq!(chain.next_wakeup(), Some(at(103)));
        chain.wake(at(103));
        assert!(matches!(passed(&mut chain, 103), Some(('b', Err(Reason::Deadline)))));
        assert!(passed(&mut chain, 103).is_none());
        assert_eq!((chain.busy(0), chain.has_decided()), (0, false));
    }

    /// The story: the number of a job whose end was decided and not told yet went to the next job that set
    /// out, and when that one's owner had gone, the slots of the first were given back instead.
    #[test]
    fn who_has_not_been_told_yet_keeps_its_number() {
        let mut chain = chain();
        for owner in ['a', 'c'] {
            enter(&mut chain, 0, owner, &[1]);
        }
        let first = passed(&mut chain, 0);
        assert!(matches!(first, Some(('a', Ok(_)))), "both have passed");
        let gone = enter(&mut chain, 1, 'd', &[0]);
        chain.withdraw(at(2), gone);
        let second = passed(&mut chain, 2);
        assert!(matches!(second, Some(('c', Ok(_)))));
        assert!(passed(&mut chain, 2).is_none());
        assert_eq!((chain.busy(0), chain.busy(1)), (0, 2));
    }

    #[test]
    fn who_goes_when_it_has_passed_and_nobody_knew_gives_all_back() {
        let mut chain = chain();
        let first = enter(&mut chain, 0, 'a', &[0, 1]);
        let second = enter(&mut chain, 0, 'c', &[1]);
        assert!(chain.has_decided());
        chain.withdraw(at(1), first);
        chain.withdraw(at(1), second);
        assert!(passed(&mut chain, 1).is_none());
        assert_eq!((chain.busy(0), chain.busy(1), chain.passes.len()), (0, 0, 2));
        assert_eq!((chain.dropped(0), chain.dropped(1)), (0, 0));
    }

    #[test]
    fn classes_take_turns_of_many_jobs() {
        let mut chain = Chain::default();
        chain.set(0, &turns(1, None), 0).unwrap();
        let mut order = Vec::new();
        chain.enter(at(0), ('x', 9), &[0], (at(0), None));
        for _ in 0..40 {
            for owner in ['a', 'b'] {
                chain.enter(at(0), (owner, u32::from(owner)), &[0], (at(0), None));
            }
        }
        while let Some(passed) = chain.next_passed(at(1)) {
            order.push(passed.owner);
            chain.release(at(1), passed.outcome.unwrap());
        }
        let turns: Vec<usize> = order[1..].chunk_by(|a, b| a == b).map(<[char]>::len).collect();
        assert_eq!(turns, [32, 32, 8, 8]);
    }

    #[test]
    fn what_was_used_longest_ago_is_evicted() {
        let idle = [('a', at(5)), ('b', at(1)), ('c', at(3))];
        assert_eq!(evicted(3, 4, idle), []);
        assert_eq!(evicted(4, 4, idle), ['b']);
        assert_eq!(evicted(5, 4, idle), ['b', 'c']);
        assert_eq!(evicted(9, 4, idle), ['b', 'c', 'a'], "no more than there are");
    }
}
