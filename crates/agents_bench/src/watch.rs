//! The second rule: one threshold on one symbol, which others keep in an ordered index. An agent publishes it
//! as a bound, so that only those whose threshold a price crosses are woken.

use agents::{Agent, Bound, Context, Effect, Failure, Header, Key, RowWrite, StateWrite};
use agents_store::{Content, Store};
use std::sync::atomic::AtomicBool;

use crate::load::{Fired, RunError, fill, stored};

/// A rule's number in notifications.
const RULE: u32 = 2;
/// The lowest threshold.
const BASE: i64 = 1_000_000;

/// A price of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// The number of its tick.
    pub number: u64,
    /// The symbol.
    pub symbol: u32,
    /// The price.
    pub price: i64,
}

/// An agent that tells its owner each time a price crosses its threshold, in either direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The symbol.
    pub symbol: u32,
    /// The threshold: prices up to it are below.
    pub threshold: i64,
    /// Bytes that are only carried along.
    pub rest: Vec<u8>,
    /// The last price was above.
    pub above: bool,
}

impl Watch {
    /// The content of its notification.
    pub fn payload(tick: u64, above: bool) -> Vec<u8> {
        let mut bytes = tick.to_le_bytes().to_vec();
        bytes.push(above.into());
        bytes
    }
}

impl Agent for Watch {
    type Message = Price;
    const VERSION: u16 = 1;

    /// Watches are opened before the load, none by a message.
    fn create(_key: Key, _first: &Price) -> Option<Watch> {
        None
    }

    fn decode(version: u16, cold: &[u8], hot: &[u8]) -> Result<Watch, Failure> {
        let read = || {
            let (symbol, rest) = cold.split_first_chunk()?;
            let (threshold, rest) = rest.split_first_chunk()?;
            let [above] = *hot else { return None };
            let (symbol, threshold) = (u32::from_le_bytes(*symbol), i64::from_le_bytes(*threshold));
            Some(Watch { symbol, threshold, rest: rest.to_vec(), above: above != 0 })
        };
        let is_known = version == Watch::VERSION;
        let told = || Failure(format!("no watch: version {version}, {} bytes", cold.len()));
        is_known.then(read).flatten().ok_or_else(told)
    }

    fn encode_cold(&self, to: &mut Vec<u8>) {
        to.extend(self.symbol.to_le_bytes());
        to.extend(self.threshold.to_le_bytes());
        to.extend(&self.rest);
    }

    fn encode_hot(&self, to: &mut Vec<u8>) {
        to.push(self.above.into());
    }

    fn on(&mut self, price: &Price, cx: &mut Context<Price>) -> Result<Effect, Failure> {
        let above = price.price > self.threshold;
        if price.symbol != self.symbol || above == self.above {
            return Ok(Effect::Clean);
        }
        self.above = above;
        cx.notify(RULE, Watch::payload(price.number, above));
        Ok(Effect::Hot)
    }

    fn bounds(&self) -> Vec<Bound> {
        let (low, high) = match self.above {
            true => (self.threshold + 1, i64::MAX),
            false => (i64::MIN, self.threshold),
        };
        vec![Bound { symbol: self.symbol, low, high }]
    }
}

impl Content for Price {
    fn encode(&self, to: &mut Vec<u8>) {
        to.extend(self.number.to_le_bytes());
        to.extend(self.symbol.to_le_bytes());
        to.extend(self.price.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<Price, String> {
        let read = || {
            let (number, rest) = bytes.split_first_chunk()?;
            let (symbol, rest) = rest.split_first_chunk()?;
            let price = rest.try_into().ok()?;
            Some(Price {
                number: u64::from_le_bytes(*number),
                symbol: u32::from_le_bytes(*symbol),
                price: i64::from_le_bytes(price),
            })
        };
        read().ok_or_else(|| format!("a price of {} bytes", bytes.len()))
    }
}

/// Watches whose thresholds are such that a price is above exactly as many as one likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchSpec {
    /// Number of watches, a multiple of `symbols`.
    pub agents: u32,
    /// Number of symbols, at least 1; the same number of watches is on each.
    pub symbols: u32,
    /// Size of a watch's state \[bytes\], at least 13.
    pub bytes: usize,
}

impl WatchSpec {
    /// Number of watches on a symbol.
    ///
    /// # Panics
    /// If it is not a whole number.
    pub fn each(&self) -> u32 {
        assert!(self.agents.is_multiple_of(self.symbols), "no whole number on each: {self:?}");
        self.agents / self.symbols
    }

    /// The watch of a key, before any price. Keys are not in the order of thresholds.
    pub fn watch(&self, key: Key) -> Watch {
        Watch {
            symbol: (key.0 % u64::from(self.symbols)) as u32,
            threshold: self.threshold(key),
            rest: vec![0x5a; self.bytes.saturating_sub(13)],
            above: false,
        }
    }

    fn threshold(&self, key: Key) -> i64 {
        let (symbols, each) = (u64::from(self.symbols), u64::from(self.each()));
        // A step that has no divisor in common with `each` meets each rank once.
        let step = (each * 5 / 8..).find(|&step| step > 0 && is_coprime(step, each));
        let rank = key.0 / symbols * step.expect("1 more than a multiple has none") % each;
        BASE + rank as i64
    }

    /// The prices of all symbols at which so many watches of each are below their price.
    pub fn prices(&self, number: u64, above_each: u32) -> Vec<Price> {
        let price = BASE + i64::from(above_each);
        (0..self.symbols).map(|symbol| Price { number, symbol, price }).collect()
    }

    /// The notifications that lead from the prices of one such number to those of another, by one loop.
    pub fn expected(&self, number: u64, (from, to): (u32, u32)) -> Fired {
        let mut fired = Fired::default();
        for key in (0..u64::from(self.agents)).map(Key) {
            let threshold = self.threshold(key);
            let [was, is] = [from, to].map(|above| BASE + i64::from(above) > threshold);
            if was != is {
                fired.add(key, &Watch::payload(number, is));
            }
        }
        fired
    }

    /// Writes all watches into a partition, unless `stop` is set meanwhile.
    ///
    /// # Errors
    /// The store fails or refuses, or it was stopped.
    pub fn populate(
        &self,
        store: &dyn Store<Price>,
        partition: u32,
        stop: &AtomicBool,
    ) -> Result<(), RunError> {
        let row = |key| {
            let watch = self.watch(key);
            let (version, bounds) = (Watch::VERSION, watch.bounds());
            let header = Header { version, armed: true, bounds, ..Header::default() };
            RowWrite { key, header, state: StateWrite::Whole(stored(&watch)) }
        };
        fill(store, partition, (self.agents.into(), row), (stop, |_| ()))
    }
}

fn is_coprime(one: u64, other: u64) -> bool {
    let (mut large, mut small) = (one, other);
    while small > 0 {
        (large, small) = (small, large % small);
    }
    large == 1
}
