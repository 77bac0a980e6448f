//! Pauses within transactions, to the microsecond: the loop that sleeps for all wakes each in time.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Instant;

use gate::Time;

/// The clock of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(pub(crate) Instant);

impl Clock {
    /// The time since the run began.
    #[inline]
    pub(crate) fn now(self) -> Time {
        Time::ZERO + self.0.elapsed()
    }
}

/// Those that sleep.
#[derive(Clone, Default)]
pub(crate) struct Sleeps(Rc<RefCell<Sleeping>>);

#[derive(Default)]
struct Sleeping {
    due: BinaryHeap<Reverse<(Time, u64)>>,
    wakers: BTreeMap<u64, Waker>,
    next: u64,
}

impl Sleeps {
    /// Waits until a moment.
    pub(crate) async fn until(&self, clock: Clock, moment: Time) {
        let mut number = None;
        poll_fn(|context| {
            if clock.now() >= moment {
                return Poll::Ready(());
            }
            let sleeping = &mut *self.0.borrow_mut();
            let number = *number.get_or_insert_with(|| {
                sleeping.next += 1;
                sleeping.next
            });
            if sleeping.wakers.insert(number, context.waker().clone()).is_none() {
                sleeping.due.push(Reverse((moment, number)));
            }
            Poll::Pending
        })
        .await;
    }

    /// Wakes those whose moment has come.
    pub(crate) fn wake(&self, now: Time) {
        let sleeping = &mut *self.0.borrow_mut();
        while let Some(Reverse((due, number))) = sleeping.due.peek().copied()
            && due <= now
        {
            sleeping.due.pop();
            if let Some(waker) = sleeping.wakers.remove(&number) {
                waker.wake();
            }
        }
    }

    /// When the next is to be woken.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.0.borrow().due.peek().map(|Reverse((due, _))| *due)
    }
}
