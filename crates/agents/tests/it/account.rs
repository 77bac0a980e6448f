//! An account that counts what it is told and watches limits: every effect that a handler can have,
//! in a form that an oracle can add up.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use agents::{Agent, Bound, Context, Effect, Failure, Key, Priority, TimerName};

/// A message to accounts. `from` and `ordinal` number those of one sender.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Message {
    pub(crate) from: u64,
    pub(crate) ordinal: u64,
    pub(crate) priority: Priority,
    pub(crate) what: What,
    /// The last divider before it, if it is behind one.
    pub(crate) behind: u64,
}

impl Message {
    /// A number of it among all.
    fn number(&self) -> u64 {
        self.from * 1_000 + self.ordinal
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    /// Adds to the sum.
    Add(u64),
    /// Sets limits; the account is inside afterwards.
    Limits(i64, i64),
    /// A price: outside of the limits it fires, once until it has been inside again.
    Price(i64),
    /// Counts, for all who are armed.
    Count,
    /// Wants multicasts for armed accounts, or not.
    Arm(bool),
    /// Sends an `Add` of this to another account.
    Forward(Key, u64),
    /// Sets a timer of this name.
    Timer(u64, Duration),
    /// Cannot be handled.
    Poison,
    /// Cannot be stored.
    Unstorable,
    /// Panics.
    Panic,
    /// Ends the account.
    Delete,
    /// Divides the log.
    Divide,
}

pub(crate) const SYMBOL: u32 = 1;
pub(crate) const FIRED: u32 = 1;
pub(crate) const RANG: u32 = 2;
/// A price that some accounts cannot handle.
pub(crate) const BAD_PRICE: i64 = 13;
/// The first byte of a state that the store refuses.
pub(crate) const UNSTORABLE: u64 = 0xdead;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Account {
    pub(crate) key: u64,
    low: i64,
    high: i64,
    armed: bool,
    marked: u64,
    /// The last ordinal of each sender and priority.
    ordinals: BTreeMap<(u64, u64), u64>,
    outside: bool,
    pub(crate) sum: u64,
    pub(crate) urgent: u64,
    pub(crate) fired: u64,
    pub(crate) rang: u64,
    pub(crate) counted: u64,
    /// The sums as they were at each divider, and the messages behind each.
    pub(crate) divided: u64,
    /// The last divider that it was told of.
    pub(crate) divider: u64,
    /// Messages that came out of order, and timers that were behind another divider.
    pub(crate) disorder: u64,
}

impl Account {
    fn in_order(&mut self, message: &Message) {
        if message.ordinal == 0 {
            return;
        }
        let last = self.ordinals.entry((message.from, message.priority as u64)).or_default();
        self.disorder += u64::from(*last >= message.ordinal);
        *last = message.ordinal;
    }

    fn price(&mut self, price: i64, cx: &mut Context<Message>) -> Result<Effect, Failure> {
        if price == BAD_PRICE && self.key.is_multiple_of(5) {
            // Half a change, which must be undone.
            self.fired += 1_000;
            return Err(Failure("no such price".to_owned()));
        }
        let outside = price < self.low || price > self.high;
        if outside == self.outside {
            return Ok(Effect::Clean);
        }
        self.outside = outside;
        if outside {
            self.fired += 1;
            cx.notify(FIRED, price.to_le_bytes().to_vec());
        }
        Ok(Effect::Hot)
    }
}

fn put(to: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| to.extend(number.to_le_bytes()));
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|it| u64::from_le_bytes(it.try_into().unwrap())).collect()
}

thread_local! {
    /// The agents and messages of each precomputation of this thread.
    static PRECOMPUTED: RefCell<Vec<Vec<(u64, What)>>> = const { RefCell::new(Vec::new()) };
}

/// The agents and messages that were precomputed since it was asked last, batch by batch.
#[allow(dead_code, reason = "tests of stores have accounts too, and precompute nothing")]
pub(crate) fn precomputed() -> Vec<Vec<(u64, What)>> {
    PRECOMPUTED.take()
}

impl Agent for Account {
    type Message = Message;
    const VERSION: u16 = 3;

    fn create(key: Key, first: &Message) -> Option<Account> {
        let wanted = matches!(
            first.what,
            What::Add(_)
                | What::Limits(..)
                | What::Arm(_)
                | What::Forward(..)
                | What::Timer(..)
                | What::Poison
        );
        let (low, high) = (i64::MIN, i64::MAX);
        let divider = first.behind;
        wanted.then(|| Account { key: key.0, low, high, divider, ..Account::default() })
    }

    fn decode(version: u16, cold: &[u8], hot: &[u8]) -> Result<Account, Failure> {
        if version != Self::VERSION {
            return Err(Failure(format!("version {version}")));
        }
        let (cold, hot) = (numbers(cold), numbers(hot));
        let [marked, key, low, high, armed, ref ordinals @ ..] = cold[..] else {
            return Err(Failure("short".to_owned()));
        };
        let [outside, sum, urgent, fired, rang, counted, divided, divider, disorder] = hot[..]
        else {
            return Err(Failure("short".to_owned()));
        };
        let (low, high, armed) = (low as i64, high as i64, armed == 1);
        let ordinals = ordinals.chunks_exact(3).map(|it| ((it[0], it[1]), it[2])).collect();
        let outside = outside == 1;
        Ok(Account {
            key,
            low,
            high,
            armed,
            marked,
            ordinals,
            outside,
            sum,
            urgent,
            fired,
            rang,
            counted,
            divided,
            divider,
            disorder,
        })
    }

    fn encode_cold(&self, to: &mut Vec<u8>) {
        let armed = u64::from(self.armed);
        put(to, &[self.marked, self.key, self.low as u64, self.high as u64, armed]);
        for (&(from, priority), &ordinal) in &self.ordinals {
            put(to, &[from, priority, ordinal]);
        }
    }

    fn encode_hot(&self, to: &mut Vec<u8>) {
        let Account { sum, urgent, fired, rang, counted, divided, divider, disorder, .. } = *self;
        let outside = u64::from(self.outside);
        put(to, &[outside, sum, urgent, fired, rang, counted, divided, divider, disorder]);
    }

    fn divides(message: &Message) -> bool {
        message.what == What::Divide
    }

    fn behind(divider: &Message, message: &mut Message) {
        message.behind = divider.number();
    }

    fn on(&mut self, message: &Message, cx: &mut Context<Message>) -> Result<Effect, Failure> {
        match message.what {
            What::Divide => {
                let now = [self.sum, self.urgent, self.fired, self.counted, message.behind];
                let mix = |so_far: u64, one: u64| so_far.wrapping_mul(31).wrapping_add(one);
                self.divided = now.into_iter().fold(self.divided, mix);
                self.divider = message.number();
            }
            What::Price(price) => return self.price(price, cx),
            What::Count => {
                self.counted += 1;
                self.in_order(message);
            }
            What::Add(n) if message.priority == Priority::Urgent => {
                self.urgent += n;
                self.in_order(message);
            }
            What::Add(n) => {
                self.sum += n;
                self.divided = self.divided.wrapping_add(n * message.behind);
                self.in_order(message);
            }
            What::Limits(low, high) => {
                self.in_order(message);
                (self.low, self.high, self.outside) = (low, high, false);
            }
            What::Arm(armed) => {
                self.in_order(message);
                self.armed = armed;
            }
            What::Forward(to, n) => {
                self.in_order(message);
                let what = What::Add(n);
                let priority = Priority::Normal;
                let add = Message { from: self.key, ordinal: 0, priority, what, behind: 0 };
                cx.send(to, Priority::Normal, add);
            }
            What::Timer(name, span) => {
                self.in_order(message);
                cx.after(TimerName(name), span);
            }
            What::Poison => {
                self.sum += 1_000_000;
                return Err(Failure("poison".to_owned()));
            }
            What::Panic => panic!("on purpose"),
            What::Unstorable => self.marked = UNSTORABLE,
            What::Delete => return Ok(Effect::Delete),
        }
        Ok(Effect::Dirty)
    }

    fn precomputes(message: &Message) -> bool {
        matches!(message.what, What::Count | What::Price(_) | What::Panic)
    }

    fn precompute(batch: &[(&Account, &Message)]) {
        let batch = batch.iter().map(|(account, message)| (account.key, message.what.clone()));
        let batch: Vec<(u64, What)> = batch.collect();
        let panics = batch.iter().any(|(_, what)| *what == What::Panic);
        PRECOMPUTED.with_borrow_mut(|all| {
            // A world is long; a test looks at the last ones.
            all.truncate(1_000);
            all.push(batch);
        });
        assert!(!panics, "on purpose");
    }

    fn on_timer(&mut self, name: TimerName, cx: &mut Context<Message>) -> Result<Effect, Failure> {
        self.rang += 1;
        // Its divider is the last one that the account has handled, or that was before it was created.
        let behind = cx.behind().map_or(0, Message::number);
        self.disorder += u64::from(behind != self.divider);
        cx.notify(RANG, name.0.to_le_bytes().to_vec());
        Ok(Effect::Hot)
    }

    fn armed(&self) -> bool {
        self.armed
    }

    fn bounds(&self) -> Vec<Bound> {
        // Outside, only a return can change anything. Which side it is on is not known: it asks for all.
        let (low, high) = if self.outside { (i64::MAX, i64::MIN) } else { (self.low, self.high) };
        let unlimited = (self.low, self.high) == (i64::MIN, i64::MAX);
        if unlimited { Vec::new() } else { vec![Bound { symbol: SYMBOL, low, high }] }
    }

    fn message_bytes(message: &Message) -> u64 {
        size_of_val(message) as u64
    }

    fn tenant(key: Key) -> u32 {
        (key.0 % 3) as u32
    }
}
