//! A bound of the connections to a server that several tests share. A server answers "too many clients
//! already" to one more than it has, whichever test that is of, and how many tests run at once is for the
//! machine to say.

use std::cell::RefCell;
use std::sync::{Condvar, Mutex, PoisonError};

/// The connections of a server, in equal shares: a test takes one before it opens its first connection,
/// and has it until it ends.
#[derive(Debug)]
pub struct Bound {
    free: Mutex<usize>,
    given_back: Condvar,
}

thread_local! {
    static TAKEN: RefCell<Vec<Share>> = const { RefCell::new(Vec::new()) };
}

impl Bound {
    /// Of a server with `connections_max` and tests that have at most `share` at once, all databases
    /// together. A quarter is left to connections that their clients have closed and the server has not.
    ///
    /// # Panics
    /// If not even one test has room.
    pub const fn of(connections_max: usize, share: usize) -> Bound {
        let shares = connections_max * 3 / 4 / share;
        assert!(shares > 0, "a server has room for a test");
        Bound { free: Mutex::new(shares), given_back: Condvar::new() }
    }

    /// Takes a share for the test that asks, once there is one, unless the test has one: whoever held one
    /// while waiting for another could wait for itself. It ends with the thread of the test.
    ///
    /// Threads of tests have names. One without is a test's own, whose share it uses.
    pub fn enter(&'static self) {
        if std::thread::current().name().is_none() {
            return;
        }
        TAKEN.with(|taken| {
            let mut taken = taken.borrow_mut();
            if !taken.iter().any(|share| std::ptr::eq(share.0, self)) {
                taken.push(self.take());
            }
        });
    }

    /// A share, once there is one.
    fn take(&'static self) -> Share {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self
            .given_back
            .wait_while(free, |free| *free == 0)
            .unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Share(self)
    }
}

/// The share of a test.
#[derive(Debug)]
struct Share(&'static Bound);

impl Drop for Share {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.given_back.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread::Builder;
    use std::time::Duration;

    use super::*;

    /// Six tests have their shares, and a seventh waits until one of them is over.
    #[test]
    fn a_test_waits_for_its_share_of_the_connections() {
        static BOUND: Bound = Bound::of(100, 12);
        let mut held: Vec<Share> = (0..6).map(|_| BOUND.take()).collect();
        assert_eq!(*BOUND.free.lock().unwrap(), 0);
        let (says, said) = mpsc::channel();
        let seventh = Builder::new().name("seventh".into()).spawn(move || {
            BOUND.enter();
            BOUND.enter();
            says.send(()).unwrap();
        });
        let early = said.recv_timeout(Duration::from_millis(50));
        assert!(early.is_err(), "there is nothing that it could have");
        held.pop();
        said.recv().unwrap();
        seventh.unwrap().join().unwrap();
        // Its share ended with it, and a thread of a test's own took none.
        std::thread::spawn(|| BOUND.enter()).join().unwrap();
        assert_eq!(*BOUND.free.lock().unwrap(), 1);
        drop(held);
        assert_eq!(*BOUND.free.lock().unwrap(), 6);
    }
}
