//! Deadlines of connections. A timer for each wait would cost more than the wait; here a
//! connection writes its deadline into a cell, and one clock looks through the cells at each tick.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use gate::Time;

/// One connection's deadline.
#[derive(Debug)]
pub(crate) struct Watch {
    deadline: Cell<Time>,
    expired: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Watch {
    /// Sets the deadline of the wait that begins now, and who is to be woken then.
    pub(crate) fn arm(&self, deadline: Time, cx: &Context<'_>) {
        self.deadline.set(deadline);
        self.expired.set(false);
        let mut waker = self.waker.borrow_mut();
        if waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Ends the wait.
    pub(crate) fn disarm(&self) {
        self.deadline.set(Time::MAX);
        self.expired.set(false);
    }

    /// True if the deadline came.
    pub(crate) fn expired(&self) -> bool {
        self.expired.get()
    }

    /// Wakes the connection, whatever it waits for.
    fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Waits for `future` until `deadline`; `None` if that came first.
    pub(crate) async fn until<F: Future>(&self, deadline: Time, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        let mut begun = false;
        let output = std::future::poll_fn(|cx| {
            if begun && self.expired() {
                return Poll::Ready(None);
            }
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            if !begun {
                self.arm(deadline, cx);
                begun = true;
            }
            Poll::Pending
        })
        .await;
        self.disarm();
        output
    }
}

/// First of two to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    One,
    Other,
}

/// Waits for whichever of two ends first; if both have, it is `one`.
pub(crate) async fn first(one: impl Future<Output = ()>, other: impl Future<Output = ()>) -> First {
    let (mut one, mut other) = (pin!(one), pin!(other));
    std::future::poll_fn(|cx| {
        if one.as_mut().poll(cx).is_ready() {
            return Poll::Ready(First::One);
        }
        other.as_mut().poll(cx).map(|()| First::Other)
    })
    .await
}

/// All watches, and the clock that looks at them.
#[derive(Debug, Default)]
pub(crate) struct Watches(RefCell<Vec<Weak<Watch>>>);

impl Watches {
    pub(crate) fn add(&self) -> Rc<Watch> {
        let watch = Rc::new(Watch {
            deadline: Cell::new(Time::MAX),
            expired: Cell::new(false),
            waker: RefCell::new(None),
        });
        self.0.borrow_mut().push(Rc::downgrade(&watch));
        watch
    }

    /// Wakes every connection.
    pub(crate) fn wake_all(&self) {
        for watch in self.0.borrow().iter().filter_map(Weak::upgrade) {
            watch.wake();
        }
    }

    /// Wakes the connections whose deadline has come, and forgets those that are gone.
    fn look(&self, now: Time) {
        self.0.borrow_mut().retain(|watch| {
            let Some(watch) = watch.upgrade() else { return false };
            if watch.deadline.get() <= now && !watch.expired.replace(true) {
                watch.wake();
            }
            true
        });
    }

    /// Looks at every tick. Never ends.
    pub(crate) async fn keep_time(&self, tick: impl Fn() -> Duration, now: impl Fn() -> Time) {
        loop {
            tokio::time::sleep(tick()).await;
            self.look(now());
        }
    }
}
