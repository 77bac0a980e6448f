//! The inputs of the five transactions, as a terminal's user would key them in (2.4.1 to 2.8.1).

use rand::RngExt;

use super::rules::{self, DISTRICTS};
use super::{Constants, NuRand};
use crate::Chance;

/// The five transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Enters an order of 5 to 15 lines.
    NewOrder,
    /// Books a payment of a customer.
    Payment,
    /// Shows the last order of a customer.
    OrderStatus,
    /// Delivers the oldest order of each district.
    Delivery,
    /// Counts the items of the last 20 orders of which there is little in stock.
    StockLevel,
}

impl Kind {
    /// All five, in the specification's order.
    pub const ALL: [Kind; 5] =
        [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];

    /// Its place in [`Kind::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Its name in the specification.
    pub fn name(self) -> &'static str {
        ["New-Order", "Payment", "Order-Status", "Delivery", "Stock-Level"][self.index()]
    }
}

/// The inputs of a transaction. A retry uses the same ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// See [`Kind::NewOrder`].
    NewOrder(NewOrder),
    /// See [`Kind::Payment`].
    Payment(Payment),
    /// See [`Kind::OrderStatus`].
    OrderStatus(OrderStatus),
    /// See [`Kind::Delivery`].
    Delivery(Delivery),
    /// See [`Kind::StockLevel`].
    StockLevel(StockLevel),
}

impl Request {
    /// Which transaction it is.
    pub fn kind(&self) -> Kind {
        match self {
            Request::NewOrder(_) => Kind::NewOrder,
            Request::Payment(_) => Kind::Payment,
            Request::OrderStatus(_) => Kind::OrderStatus,
            Request::Delivery(_) => Kind::Delivery,
            Request::StockLevel(_) => Kind::StockLevel,
        }
    }

    /// The terminal's home warehouse.
    pub fn warehouse(&self) -> u32 {
        match self {
            Request::NewOrder(inputs) => inputs.warehouse,
            Request::Payment(inputs) => inputs.warehouse,
            Request::OrderStatus(inputs) => inputs.warehouse,
            Request::Delivery(inputs) => inputs.warehouse,
            Request::StockLevel(inputs) => inputs.warehouse,
        }
    }
}

/// Inputs of a New-Order (2.4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrder {
    /// W_ID: the terminal's home, from 1.
    pub warehouse: u32,
    /// D_ID, 1 to 10.
    pub district: u8,
    /// C_ID, 1 to 3000.
    pub customer: u32,
    /// 5 to 15 lines. An item may stand in several. In one order of a hundred the last line asks
    /// for [`rules::ITEM_UNUSED`].
    pub lines: Vec<Line>,
}

/// A line of a New-Order (2.4.1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// OL_I_ID, 1 to 100000, or [`rules::ITEM_UNUSED`].
    pub item: u32,
    /// OL_SUPPLY_W_ID, an active warehouse.
    pub supply_warehouse: u32,
    /// OL_QUANTITY, 1 to 10.
    pub quantity: u8,
}

/// How a customer is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CustomerBy {
    /// By C_ID, 1 to 3000.
    Id(u32),
    /// By the number of C_LAST, 0 to 999; see [`super::last_name`].
    LastName(u16),
}

/// Inputs of a Payment (2.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payment {
    /// W_ID: the terminal's home, from 1.
    pub warehouse: u32,
    /// D_ID, 1 to 10.
    pub district: u8,
    /// C_W_ID, an active warehouse.
    pub customer_warehouse: u32,
    /// C_D_ID, 1 to 10.
    pub customer_district: u8,
    /// Who pays.
    pub customer: CustomerBy,
    /// H_AMOUNT \[cents\], 1.00 to 5000.00.
    pub amount_cents: u32,
}

/// Inputs of an Order-Status (2.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderStatus {
    /// W_ID: the terminal's home, from 1.
    pub warehouse: u32,
    /// D_ID, 1 to 10.
    pub district: u8,
    /// Whose order.
    pub customer: CustomerBy,
}

/// Inputs of a Delivery (2.7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// W_ID: the terminal's home, from 1.
    pub warehouse: u32,
    /// O_CARRIER_ID, 1 to 10.
    pub carrier: u8,
}

/// Inputs of a Stock-Level (2.8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StockLevel {
    /// W_ID: the terminal's home, from 1.
    pub warehouse: u32,
    /// D_ID, 1 to 10: a terminal has the same all along.
    pub district: u8,
    /// The quantity below which a stock is low, 10 to 20.
    pub threshold: u8,
}

/// Draws inputs: the constants of a run and the warehouses that take part in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inputs {
    last: NuRand,
    customer: NuRand,
    item: NuRand,
    active: u32,
}

impl Inputs {
    /// Inputs over the warehouses 1 to `active`.
    ///
    /// # Panics
    /// If no warehouse is active, or a constant is out of its range.
    pub fn new(constants: Constants, active: u32) -> Inputs {
        assert!(active > 0, "a run has at least one active warehouse");
        Inputs {
            last: NuRand::last(constants.last),
            customer: NuRand::customer(constants.customer),
            item: NuRand::item(constants.item),
            active,
        }
    }

    /// How many warehouses take part.
    pub fn active(&self) -> u32 {
        self.active
    }

    /// Inputs of this kind for a terminal at home in `warehouse`, whose Stock-Levels are about
    /// `district`.
    pub fn draw(&self, kind: Kind, warehouse: u32, district: u8, chance: &mut Chance) -> Request {
        match kind {
            Kind::NewOrder => Request::NewOrder(self.new_order(warehouse, chance)),
            Kind::Payment => Request::Payment(self.payment(warehouse, chance)),
            Kind::OrderStatus => Request::OrderStatus(OrderStatus {
                warehouse,
                district: chance.random_range(1..=DISTRICTS),
                customer: self.customer_by(chance),
            }),
            Kind::Delivery => Request::Delivery(Delivery {
                warehouse,
                carrier: chance.random_range(rules::CARRIER),
            }),
            Kind::StockLevel => Request::StockLevel(StockLevel {
                warehouse,
                district,
                threshold: chance.random_range(rules::THRESHOLD),
            }),
        }
    }

    fn new_order(&self, warehouse: u32, chance: &mut Chance) -> NewOrder {
        let district = chance.random_range(1..=DISTRICTS);
        let customer = self.customer.draw(chance);
        let count = chance.random_range(rules::LINES);
        let rolls_back = percent(chance, rules::ROLLBACK_PERCENT);
        let mut lines: Vec<Line> = (0..count).map(|_| self.line(warehouse, chance)).collect();
        if rolls_back {
            lines.last_mut().expect("an order has five lines or more").item = rules::ITEM_UNUSED;
        }
        NewOrder { warehouse, district, customer, lines }
    }

    fn line(&self, home: u32, chance: &mut Chance) -> Line {
        let item = self.item.draw(chance);
        let remote = percent(chance, rules::REMOTE_LINE_PERCENT);
        let supply_warehouse = if remote { self.other(home, chance) } else { home };
        Line { item, supply_warehouse, quantity: chance.random_range(rules::QUANTITY) }
    }

    fn payment(&self, warehouse: u32, chance: &mut Chance) -> Payment {
        let district = chance.random_range(1..=DISTRICTS);
        let remote = percent(chance, rules::REMOTE_PAYMENT_PERCENT);
        let (customer_warehouse, customer_district) = if remote {
            (self.other(warehouse, chance), chance.random_range(1..=DISTRICTS))
        } else {
            (warehouse, district)
        };
        Payment {
            warehouse,
            district,
            customer_warehouse,
            customer_district,
            customer: self.customer_by(chance),
            amount_cents: chance.random_range(rules::AMOUNT_CENTS),
        }
    }

    fn customer_by(&self, chance: &mut Chance) -> CustomerBy {
        if percent(chance, rules::BY_NAME_PERCENT) {
            CustomerBy::LastName(self.last.draw(chance) as u16)
        } else {
            CustomerBy::Id(self.customer.draw(chance))
        }
    }

    /// Any active warehouse but `home`, each equally likely; `home` where it is the only one.
    fn other(&self, home: u32, chance: &mut Chance) -> u32 {
        if self.active == 1 {
            return home;
        }
        let drawn = chance.random_range(1..self.active);
        if drawn < home { drawn } else { drawn + 1 }
    }
}

/// True so many times in a hundred.
fn percent(chance: &mut Chance, of: u8) -> bool {
    chance.random_range(1..=100) <= of
}
