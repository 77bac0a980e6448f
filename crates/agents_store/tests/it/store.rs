//! The store of the core's simulated world, with a real one behind it: each transaction goes to both, and
//! all that the core reads comes from the real one.

use std::cell::RefCell;
use std::ops::Deref;

use agents::{
    Append, Commit, DeadLetter, Key, LoadWay, Notification, Outcome, Outgoing, Priority, Row, Seq,
    Snapshot,
};
use agents_store::{Content, Memory, Store as RealStore};

use crate::account::{Message, What};
use crate::simulated;

pub(crate) type Real = Box<dyn RealStore<Message>>;

thread_local! {
    /// The real store of the next world of this thread, with the partition that it uses.
    static NEXT: RefCell<Option<(Real, u32)>> = const { RefCell::new(None) };
}

/// The next world of this thread runs over this store.
pub(crate) fn next(real: Real, partition: u32) {
    NEXT.with(|next| *next.borrow_mut() = Some((real, partition)));
}

pub(crate) struct Store {
    simulated: simulated::Store,
    real: Real,
    partition: u32,
}

impl Default for Store {
    fn default() -> Store {
        let next = NEXT.with(|next| next.borrow_mut().take());
        let (real, partition) = next.unwrap_or_else(|| (Box::new(Memory::new()), 0));
        Store { simulated: simulated::Store::default(), real, partition }
    }
}

impl Deref for Store {
    type Target = simulated::Store;

    fn deref(&self) -> &simulated::Store {
        &self.simulated
    }
}

impl Store {
    pub(crate) fn acquire(&mut self) -> Snapshot<Message> {
        let real = self.real.open(self.partition).unwrap();
        let model = self.simulated.acquire();
        assert_eq!(format!("{real:?}"), format!("{model:?}"));
        real
    }

    pub(crate) fn append(&mut self, append: &Append<Message>) -> Outcome {
        let real = self.real.append(self.partition, append).unwrap();
        assert_eq!(real, self.simulated.append(append));
        real
    }

    pub(crate) fn commit(&mut self, commit: &Commit<Message>, start: u64, now: u64) -> Outcome {
        let model = self.simulated.commit(commit, start, now);
        // The simulated one refuses marks; a real one would, if it had a rule about them.
        if matches!(model, Outcome::Rejected(_)) {
            return model;
        }
        let real = self.real.commit(self.partition, commit).unwrap();
        assert_eq!(real, model);
        real
    }

    pub(crate) fn load(&self, keys: &[Key]) -> Vec<(Key, Row)> {
        let [keyed, ranged] = [LoadWay::Keys, LoadWay::Range]
            .map(|way| self.real.load(self.partition, keys, way).unwrap());
        assert_eq!(keyed, ranged);
        keyed
    }

    pub(crate) fn outbox(&self, after: u64, limit: usize) -> Vec<Notification> {
        self.real.outbox(self.partition, after, limit).unwrap()
    }

    pub(crate) fn sent(&self, after: u64, limit: usize) -> Vec<Outgoing<Message>> {
        self.real.sent(self.partition, after, limit).unwrap()
    }

    /// Nothing is left in a queue of either.
    pub(crate) fn is_empty(&self) -> bool {
        let real = self.outbox(0, 1).is_empty() && self.sent(0, 1).is_empty();
        self.simulated.is_empty() && real
    }

    /// The rows of the real store must be the simulated one's, and the log what was not forgotten.
    pub(crate) fn judge(&self) {
        let rows = self.real.scan(self.partition, Key(0), usize::MAX).unwrap();
        assert!(rows.iter().map(|(key, row)| (key, row)).eq(&self.simulated.rows));
        let log = self.real.log(self.partition, Seq(0), usize::MAX).unwrap();
        assert_eq!(format!("{:?}", log.entries), format!("{:?}", self.simulated.log));
        let dead = self.real.dead(self.partition, 0, usize::MAX).unwrap();
        let real = dead.into_iter().map(|row| alone(row.letter));
        let simulated = self.simulated.dead.iter().cloned().map(alone);
        let text = |letter: DeadLetter<Message>| format!("{letter:?}");
        assert_eq!(real.map(text).collect::<Vec<_>>(), simulated.map(text).collect::<Vec<_>>());
    }
}

/// A dead letter without the place that its message had in the log: it is not stored, for a letter that is sent again
/// gets a place of its own.
fn alone(mut letter: DeadLetter<Message>) -> DeadLetter<Message> {
    if let Some(message) = &mut letter.message {
        message.behind = 0;
    }
    letter
}

impl Drop for Store {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.judge();
        }
    }
}

impl Content for Message {
    fn encode(&self, to: &mut Vec<u8>) {
        let (tag, a, b) = match self.what {
            What::Add(n) => (0, n, 0),
            What::Limits(low, high) => (1, low as u64, high as u64),
            What::Price(price) => (2, price as u64, 0),
            What::Count => (3, 0, 0),
            What::Arm(armed) => (4, u64::from(armed), 0),
            What::Forward(key, n) => (5, key.0, n),
            What::Timer(name, span) => (6, name, span.as_nanos() as u64),
            What::Poison => (7, 0, 0),
            What::Unstorable => (8, 0, 0),
            What::Panic => (9, 0, 0),
            What::Delete => (10, 0, 0),
            What::Divide => (11, 0, 0),
        };
        for number in [self.from, self.ordinal, self.priority as u64, tag, a, b] {
            to.extend(number.to_le_bytes());
        }
    }

    fn decode(bytes: &[u8]) -> Result<Message, String> {
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        let numbers: Vec<u64> = bytes.chunks(8).map(number).collect();
        let [from, ordinal, priority, tag, a, b] = numbers[..] else {
            return Err("too short".to_owned());
        };
        let what = match tag {
            0 => What::Add(a),
            1 => What::Limits(a as i64, b as i64),
            2 => What::Price(a as i64),
            3 => What::Count,
            4 => What::Arm(a == 1),
            5 => What::Forward(Key(a), b),
            6 => What::Timer(a, std::time::Duration::from_nanos(b)),
            7 => What::Poison,
            8 => What::Unstorable,
            9 => What::Panic,
            10 => What::Delete,
            11 => What::Divide,
            _ => return Err("no such kind".to_owned()),
        };
        let all = [Priority::Low, Priority::Normal, Priority::High, Priority::Urgent];
        let priority = *all.get(priority as usize).ok_or("no such priority")?;
        Ok(Message { from, ordinal, priority, what, behind: 0 })
    }
}
