//! Work that was acknowledged to a client, and its survival.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workload::tpcc::Request;

use super::Entries;
use crate::transactions::Screen;

/// Limit of the lost ones that are named.
pub const LOST_MAX: usize = 10;

/// A line of the success file: the reply to the commit had arrived when it was written.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Acknowledged {
    /// A New-Order that was entered.
    Order(AcknowledgedOrder),
    /// A Payment.
    Payment(AcknowledgedPayment),
}

/// Key of an order.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize,
)]
pub struct OrderKey {
    /// O_W_ID.
    #[serde(rename = "w")]
    pub warehouse: u32,
    /// O_D_ID.
    #[serde(rename = "d")]
    pub district: u8,
    /// O_ID.
    #[serde(rename = "o")]
    pub order: u32,
}

/// An order with all its lines.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct AcknowledgedOrder {
    /// The key.
    #[serde(flatten)]
    pub key: OrderKey,
    /// O_C_ID.
    #[serde(rename = "c")]
    pub customer: u32,
    /// In the order of OL_NUMBER.
    pub lines: Vec<OrderLine>,
}

/// A line of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct OrderLine {
    /// OL_I_ID.
    #[serde(rename = "i")]
    pub item: u32,
    /// OL_SUPPLY_W_ID.
    #[serde(rename = "w")]
    pub supply_warehouse: u32,
    /// OL_QUANTITY.
    #[serde(rename = "q")]
    pub quantity: i32,
    /// OL_AMOUNT \[cents\].
    #[serde(rename = "cents")]
    pub amount_cents: i64,
}

/// A payment, as HISTORY has it. It has no key: equal ones are counted.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize,
)]
pub struct AcknowledgedPayment {
    /// H_W_ID.
    #[serde(rename = "w")]
    pub warehouse: u32,
    /// H_D_ID.
    #[serde(rename = "d")]
    pub district: u8,
    /// H_C_W_ID.
    #[serde(rename = "c_w")]
    pub customer_warehouse: u32,
    /// H_C_D_ID.
    #[serde(rename = "c_d")]
    pub customer_district: u8,
    /// H_C_ID.
    #[serde(rename = "c")]
    pub customer: u32,
    /// H_AMOUNT \[cents\].
    #[serde(rename = "cents")]
    pub amount_cents: i64,
}

impl Acknowledged {
    /// The order or payment that a transaction leaves behind that was performed; an order that was
    /// rolled back leaves nothing.
    pub fn of(request: &Request, screen: &Screen) -> Option<Acknowledged> {
        match (request, screen) {
            (Request::NewOrder(order), Screen::NewOrder(shown)) => {
                let entered = shown.entered.as_ref()?;
                let line =
                    |(line, shown): (&workload::tpcc::Line, &super::super::LineScreen)| OrderLine {
                        item: line.item,
                        supply_warehouse: line.supply_warehouse,
                        quantity: i32::from(line.quantity),
                        amount_cents: shown.amount_cents,
                    };
                let key = OrderKey {
                    warehouse: order.warehouse,
                    district: order.district,
                    order: shown.order,
                };
                Some(Acknowledged::Order(AcknowledgedOrder {
                    key,
                    customer: order.customer,
                    lines: order.lines.iter().zip(&entered.lines).map(line).collect(),
                }))
            }
            (Request::Payment(payment), Screen::Payment(shown)) => {
                Some(Acknowledged::Payment(AcknowledgedPayment {
                    warehouse: payment.warehouse,
                    district: payment.district,
                    customer_warehouse: payment.customer_warehouse,
                    customer_district: payment.customer_district,
                    customer: shown.customer,
                    amount_cents: i64::from(payment.amount_cents),
                }))
            }
            _ => None,
        }
    }
}

/// Survival of everything that was acknowledged since the load.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Survival {
    /// Orders that were acknowledged.
    pub orders: u64,
    /// Payments that were acknowledged.
    pub payments: u64,
    /// Orders that were acknowledged and are not there.
    pub orders_lost: u64,
    /// Orders that are there, but not as they were acknowledged, or were acknowledged twice.
    pub orders_damaged: u64,
    /// Payments that were acknowledged and are not there.
    pub payments_lost: u64,
    /// Orders that are there and were not acknowledged: their reply was under way.
    pub orders_unacknowledged: u64,
    /// The same of payments.
    pub payments_unacknowledged: u64,
    /// The first [`LOST_MAX`] orders that are lost or damaged.
    pub first: Vec<OrderKey>,
}

impl Survival {
    /// Compares what was acknowledged with what is there.
    pub fn of(acknowledged: &[Acknowledged], there: &Entries) -> Survival {
        let mut survival = Survival::default();
        let mut seen = BTreeSet::new();
        let mut paid: BTreeMap<&AcknowledgedPayment, u64> = BTreeMap::new();
        for entry in acknowledged {
            match entry {
                Acknowledged::Order(order) => survival.order(order, there, seen.insert(order.key)),
                Acknowledged::Payment(payment) => {
                    survival.payments += 1;
                    *paid.entry(payment).or_default() += 1;
                }
            }
        }
        for (payment, &count) in &paid {
            let found = there.payments.get(payment).copied().unwrap_or(0);
            survival.payments_lost += count.saturating_sub(found);
        }
        for (payment, &found) in &there.payments {
            let count = paid.get(payment).copied().unwrap_or(0);
            survival.payments_unacknowledged += found.saturating_sub(count);
        }
        let unknown = there.orders.keys().filter(|key| !seen.contains(key));
        survival.orders_unacknowledged = unknown.count() as u64;
        survival
    }

    /// One order; a number that was given twice was lost once, whatever stands there now.
    fn order(&mut self, order: &AcknowledgedOrder, there: &Entries, is_first: bool) {
        self.orders += 1;
        match there.orders.get(&order.key) {
            Some(found) if is_first && found == order => return,
            Some(_) => self.orders_damaged += 1,
            None => self.orders_lost += 1,
        }
        if self.first.len() < LOST_MAX {
            self.first.push(order.key);
        }
    }

    /// Number of those that were acknowledged and are not there as they were.
    pub fn lost(&self) -> u64 {
        self.orders_lost + self.orders_damaged + self.payments_lost
    }

    /// True if all of it is there, as it was.
    pub fn is_whole(&self) -> bool {
        self.lost() == 0
    }

    /// Number of those that are there without having been acknowledged. A crash leaves one of a
    /// connection at most.
    pub fn unacknowledged(&self) -> u64 {
        self.orders_unacknowledged + self.payments_unacknowledged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(order: u32) -> OrderKey {
        OrderKey { warehouse: 1, district: 2, order }
    }

    fn order(number: u32, lines: u32) -> AcknowledgedOrder {
        let line = |item| OrderLine { item, supply_warehouse: 1, quantity: 3, amount_cents: 999 };
        AcknowledgedOrder { key: key(number), customer: 7, lines: (1..=lines).map(line).collect() }
    }

    fn payment(amount_cents: i64) -> AcknowledgedPayment {
        AcknowledgedPayment {
            warehouse: 1,
            district: 2,
            customer_warehouse: 1,
            customer_district: 2,
            customer: 7,
            amount_cents,
        }
    }

    fn entries(orders: &[AcknowledgedOrder], payments: &[(i64, u64)]) -> Entries {
        Entries {
            orders: orders.iter().map(|order| (order.key, order.clone())).collect(),
            payments: payments.iter().map(|&(cents, count)| (payment(cents), count)).collect(),
        }
    }

    fn said(orders: &[AcknowledgedOrder], payments: &[i64]) -> Vec<Acknowledged> {
        let orders = orders.iter().cloned().map(Acknowledged::Order);
        orders.chain(payments.iter().map(|&c| Acknowledged::Payment(payment(c)))).collect()
    }

    #[test]
    fn what_is_there_as_it_was_acknowledged_is_whole() {
        let orders = [order(3001, 5), order(3002, 15)];
        let survival =
            Survival::of(&said(&orders, &[5, 5, 6]), &entries(&orders, &[(5, 2), (6, 1)]));
        assert!(survival.is_whole());
        assert_eq!((survival.orders, survival.payments, survival.unacknowledged()), (2, 3, 0));
    }

    #[test]
    fn each_way_of_losing_is_seen() {
        let orders = [order(3001, 5), order(3002, 6), order(3003, 7)];
        let all = said(&orders, &[5, 5, 6]);
        let lost = Survival::of(&all, &entries(&orders[..1], &[(5, 1)]));
        assert_eq!((lost.orders_lost, lost.payments_lost), (2, 2));
        assert_eq!(lost.first, [key(3002), key(3003)]);
        assert!(!lost.is_whole());

        // A line that is missing, another customer, another amount, another order of lines.
        let mut others = [order(3001, 4), order(3002, 6), order(3003, 7)];
        others[1].customer = 8;
        others[2].lines[6].amount_cents = 1;
        let damaged = Survival::of(&all, &entries(&others, &[(5, 2), (6, 1)]));
        assert_eq!((damaged.orders_damaged, damaged.orders_lost), (3, 0));
        others = orders.clone();
        others[0].lines.swap(0, 1);
        assert_eq!(Survival::of(&all, &entries(&others, &[(5, 2), (6, 1)])).orders_damaged, 1);

        // After a loss the number is given again, and the second order stands there.
        let again = said(&[order(3001, 5), order(3001, 9)], &[]);
        let survival = Survival::of(&again, &entries(&[order(3001, 9)], &[]));
        assert_eq!((survival.orders_damaged, survival.orders_unacknowledged), (2, 0));
    }

    #[test]
    fn what_was_not_acknowledged_is_counted() {
        let orders = [order(3001, 5), order(3002, 6)];
        let there = entries(&orders, &[(5, 3), (7, 1)]);
        let survival = Survival::of(&said(&orders[..1], &[5]), &there);
        assert!(survival.is_whole());
        assert_eq!((survival.orders_unacknowledged, survival.payments_unacknowledged), (1, 3));
    }

    #[test]
    fn a_line_of_the_file_is_read_as_it_was_written() {
        for entry in said(&[order(3001, 2)], &[123]) {
            let line = serde_json::to_string(&entry).unwrap();
            assert_eq!(serde_json::from_str::<Acknowledged>(&line).unwrap(), entry, "{line}");
        }
        let line = serde_json::to_string(&Acknowledged::Order(order(3001, 1))).unwrap();
        let expected =
            r#"{"order":{"w":1,"d":2,"o":3001,"c":7,"lines":[{"i":1,"w":1,"q":3,"cents":999}]}}"#;
        assert_eq!(line, expected);
    }
}
