//! The figures of the specification, each once and with its clause.

use std::time::Duration;

use super::Kind;

/// Districts of a warehouse (1.2.1).
pub const DISTRICTS: u8 = 10;
/// Customers of a district (1.2.1).
pub const CUSTOMERS: u32 = 3_000;
/// Items, and so rows of stock in a warehouse (1.2.1).
pub const ITEMS: u32 = 100_000;
/// Terminals of an active warehouse (4.2.2).
pub const TERMINALS: u8 = 10;

/// An item that does not exist: the last line of one New-Order in a hundred asks for it (2.4.1.5).
pub const ITEM_UNUSED: u32 = ITEMS + 1;
/// The first order of a district that is not delivered in the initial population (4.3.3.1).
pub const ORDER_UNDELIVERED: u32 = 2_101;
/// Orders of a district in the initial population (4.3.3.1).
pub const ORDERS: u32 = 3_000;

/// Lines of an order (2.4.1.3).
pub const LINES: std::ops::RangeInclusive<u8> = 5..=15;
/// Quantity of a line (2.4.1.5).
pub const QUANTITY: std::ops::RangeInclusive<u8> = 1..=10;
/// Amount of a Payment \[cents\] (2.5.1.3).
pub const AMOUNT_CENTS: std::ops::RangeInclusive<u32> = 100..=500_000;
/// Carrier of a Delivery (2.7.1.2).
pub const CARRIER: std::ops::RangeInclusive<u8> = 1..=10;
/// Threshold of a Stock-Level (2.8.1.2).
pub const THRESHOLD: std::ops::RangeInclusive<u8> = 10..=20;

/// Of a hundred New-Orders, those that ask for an unused item (2.4.1.4).
pub const ROLLBACK_PERCENT: u8 = 1;
/// Of a hundred lines, those that another warehouse supplies (2.4.1.5).
pub const REMOTE_LINE_PERCENT: u8 = 1;
/// Of a hundred Payments, those of a customer of another warehouse (2.5.1.2).
pub const REMOTE_PAYMENT_PERCENT: u8 = 15;
/// Of a hundred Payments or Order-Statuses, those that name the customer (2.5.1.2, 2.6.1.2).
pub const BY_NAME_PERCENT: u8 = 60;

/// The largest think time, in means; longer ones are cut (5.2.5.4).
pub const THINK_CUT: f64 = 10.0;
/// The quantile of response times that the limits are about (5.2.5.3).
pub const RESPONSE_QUANTILE: f64 = 0.9;
/// The resolution that a response time must at least have; smaller differences mean nothing.
pub const RESPONSE_RESOLUTION: Duration = Duration::from_millis(100);
/// The limit on the menu's response time (5.2.5.1).
pub const MENU_RESPONSE_MAX: Duration = Duration::from_secs(2);
/// The limit on the time from a Delivery's entry in the queue to its end (2.7.2.2, 5.2.5.7).
pub const DELIVERY_DONE_MAX: Duration = Duration::from_secs(80);

/// What the specification asks of one kind of transaction (5.2.4.2, 5.2.5.7).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KindRules {
    /// Cards of this kind in a deck of 23.
    pub cards: u8,
    /// The least share of the completed transactions, between 0 and 1; `None`: no minimum.
    pub share_min: Option<f64>,
    /// Keying time, constant \[s\].
    pub keying: Duration,
    /// Mean think time \[s\].
    pub think_mean: Duration,
    /// The limit on the 90th percentile of the response time \[s\]; for a Delivery, of the answer
    /// that it has been queued.
    pub response_max: Duration,
}

const fn row(
    cards: u8,
    share_min: Option<f64>,
    [keying, think_mean, response_max]: [u64; 3],
) -> KindRules {
    KindRules {
        cards,
        share_min,
        keying: Duration::from_secs(keying),
        think_mean: Duration::from_secs(think_mean),
        response_max: Duration::from_secs(response_max),
    }
}

static KINDS: [KindRules; 5] = [
    row(10, None, [18, 12, 5]),
    row(10, Some(0.43), [3, 12, 5]),
    row(1, Some(0.04), [2, 10, 5]),
    row(1, Some(0.04), [2, 5, 5]),
    row(1, Some(0.04), [2, 5, 20]),
];

impl Kind {
    /// What the specification asks of this kind.
    pub fn rules(self) -> &'static KindRules {
        &KINDS[self.index()]
    }
}
