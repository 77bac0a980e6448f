//! The account of yamamoto's section 5: ten holdings, limits of profit and loss, a flag; about 1 kB.

use std::sync::Arc;

use agents::{Agent, Context, Effect, Failure, Key};
use agents_store::Content;

/// A rule's number in notifications: there is one rule.
const RULE: u32 = 1;

/// Shares of one symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The symbol: a place in the table of prices.
    pub symbol: u32,
    /// Number of shares.
    pub count: u32,
    /// The price that one was bought at.
    pub bought: i64,
}

/// A table of prices, for all accounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tick {
    /// Its number.
    pub number: u64,
    /// The price of each symbol.
    pub prices: Arc<[i64]>,
}

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The holdings.
    pub holdings: Vec<Holding>,
    /// Limits of the profit, both included: outside of them its owner is told.
    pub limits: (i64, i64),
    /// Name, mail address and all else that is only carried along.
    pub rest: Vec<u8>,
    /// It was outside at some tick.
    pub notified: bool,
    /// The profit when it was outside last.
    pub last: i64,
}

/// Bytes of a holding in a state.
const HOLDING: usize = 16;

impl Account {
    /// Its profit at these prices; a loss is below 0.
    ///
    /// # Errors
    /// A symbol without a price, or a profit beyond 64 bits.
    pub fn profit(&self, prices: &[i64]) -> Result<i64, Failure> {
        self.holdings.iter().try_fold(0_i64, |sum, holding| {
            let price = prices.get(holding.symbol as usize);
            let price =
                price.ok_or_else(|| Failure(format!("symbol {} has no price", holding.symbol)))?;
            price
                .checked_sub(holding.bought)
                .and_then(|gain| gain.checked_mul(holding.count.into()))
                .and_then(|gain| sum.checked_add(gain))
                .ok_or_else(|| Failure("the profit is beyond 64 bits".to_owned()))
        })
    }

    /// True if a profit is outside of the limits.
    pub fn is_outside(&self, profit: i64) -> bool {
        profit < self.limits.0 || profit > self.limits.1
    }

    /// The content of its notification.
    pub fn payload(tick: u64, profit: i64) -> Vec<u8> {
        [tick.to_le_bytes(), profit.to_le_bytes()].concat()
    }

    /// The number of the tick that a notification tells of; 0 for one of another kind.
    pub fn number(payload: &[u8]) -> u64 {
        payload.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

impl Agent for Account {
    type Message = Tick;
    const VERSION: u16 = 1;

    /// Accounts are opened before the load, none by a message.
    fn create(_key: Key, _first: &Tick) -> Option<Account> {
        None
    }

    fn decode(version: u16, cold: &[u8], hot: &[u8]) -> Result<Account, Failure> {
        if version != Account::VERSION {
            return Err(Failure(format!("an account of version {version}")));
        }
        let (mut cold, mut hot) = (Bytes(cold), Bytes(hot));
        let limits = (cold.int()?, cold.int()?);
        let count = u32::from_le_bytes(cold.take()?) as usize;
        if count > cold.0.len() / HOLDING {
            return Err(Failure(format!("{count} holdings in {} bytes", cold.0.len())));
        }
        let holding = |cold: &mut Bytes<'_>| -> Result<Holding, Failure> {
            let (symbol, count) = (cold.take()?, cold.take()?);
            let (symbol, count) = (u32::from_le_bytes(symbol), u32::from_le_bytes(count));
            Ok(Holding { symbol, count, bought: cold.int()? })
        };
        // Exactly as many: a collected result would have room for the next power of two.
        let mut holdings = Vec::with_capacity(count);
        for _ in 0..count {
            holdings.push(holding(&mut cold)?);
        }
        let [notified] = hot.take()?;
        let last = hot.int()?;
        Ok(Account { holdings, limits, rest: cold.0.to_vec(), notified: notified != 0, last })
    }

    fn encode_cold(&self, to: &mut Vec<u8>) {
        to.extend(self.limits.0.to_le_bytes());
        to.extend(self.limits.1.to_le_bytes());
        to.extend((self.holdings.len() as u32).to_le_bytes());
        for holding in &self.holdings {
            to.extend(holding.symbol.to_le_bytes());
            to.extend(holding.count.to_le_bytes());
            to.extend(holding.bought.to_le_bytes());
        }
        to.extend(&self.rest);
    }

    fn encode_hot(&self, to: &mut Vec<u8>) {
        to.push(self.notified.into());
        to.extend(self.last.to_le_bytes());
    }

    fn on(&mut self, tick: &Tick, cx: &mut Context<Tick>) -> Result<Effect, Failure> {
        let profit = self.profit(&tick.prices)?;
        if !self.is_outside(profit) {
            return Ok(Effect::Clean);
        }
        (self.notified, self.last) = (true, profit);
        cx.notify(RULE, Account::payload(tick.number, profit));
        Ok(Effect::Hot)
    }

    fn message_bytes(tick: &Tick) -> u64 {
        size_of_val(&*tick.prices) as u64
    }
}

/// Bytes that are read from the front.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Failure> {
        let (first, rest) =
            self.0.split_first_chunk().ok_or_else(|| Failure("a state ends early".to_owned()))?;
        self.0 = rest;
        Ok(*first)
    }

    fn int(&mut self) -> Result<i64, Failure> {
        self.take().map(i64::from_le_bytes)
    }
}

impl Content for Tick {
    fn encode(&self, to: &mut Vec<u8>) {
        to.extend(self.number.to_le_bytes());
        self.prices.iter().for_each(|price| to.extend(price.to_le_bytes()));
    }

    fn decode(bytes: &[u8]) -> Result<Tick, String> {
        let mut bytes = Bytes(bytes);
        let all = bytes.0.len();
        let number = bytes.take().map_err(|_| format!("a tick of {all} bytes"))?;
        let (prices, rest) = bytes.0.as_chunks();
        if !rest.is_empty() {
            return Err(format!("a tick of {all} bytes"));
        }
        let prices = prices.iter().map(|price| i64::from_le_bytes(*price)).collect();
        Ok(Tick { number: u64::from_le_bytes(number), prices })
    }
}
