//! Screens of a terminal when a transaction is done (2.4.3 to 2.8.3): every field of every screen,
//! fetched from the database. Beside what its user keyed in, which the request holds.

use std::time::SystemTime;

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Screen {
    /// An order was entered, or rolled back because of an item that does not exist.
    NewOrder(OrderScreen),
    /// A payment was booked.
    Payment(Box<PaymentScreen>),
    /// The last order of a customer.
    OrderStatus(StatusScreen),
    /// The result of the deferred part of a Delivery.
    Delivery(Delivered),
    /// The number of items that are low in stock.
    StockLevel(u32),
}

/// The screen of a New-Order (2.4.3).
#[derive(Clone, Debug, PartialEq)]
pub struct OrderScreen {
    /// O_ID; of an order that was rolled back, the number that it would have had.
    pub order: u32,
    /// C_LAST.
    pub last: String,
    /// C_CREDIT.
    pub credit: String,
    /// The rest; `None` if an item number was not valid and all was rolled back (2.4.3.4).
    pub entered: Option<Entered>,
}

/// Screen fields of an order that was entered.
#[derive(Clone, Debug, PartialEq)]
pub struct Entered {
    /// O_ENTRY_D.
    pub at: SystemTime,
    /// C_DISCOUNT \[ten-thousandths\].
    pub discount: i32,
    /// W_TAX \[ten-thousandths\].
    pub warehouse_tax: i32,
    /// D_TAX \[ten-thousandths\].
    pub district_tax: i32,
    /// The lines, in the order in which they were keyed in.
    pub lines: Vec<LineScreen>,
    /// total-amount \[cents\], rounded half up.
    pub total_cents: i64,
}

/// A line of an order that was entered.
#[derive(Clone, Debug, PartialEq)]
pub struct LineScreen {
    /// I_NAME.
    pub name: String,
    /// S_QUANTITY, after the line was supplied.
    pub stock: i32,
    /// brand-generic: whether both item and stock are marked as original ("B").
    pub branded: bool,
    /// I_PRICE \[cents\].
    pub price_cents: i64,
    /// OL_AMOUNT \[cents\].
    pub amount_cents: i64,
}

/// The total of an order \[cents\], rounded half up: the sum of its lines, less the discount, with
/// both taxes (2.4.2.2). Rates in ten-thousandths.
pub(super) fn total_cents(lines: i64, discount: i32, taxes: i32) -> i64 {
    let exact = lines * i64::from(10_000 - discount) * i64::from(10_000 + taxes);
    (exact + 50_000_000).div_euclid(100_000_000)
}

/// Two streets, city, state, zip.
pub type Address = [String; 5];

/// The screen of a Payment (2.5.3).
#[derive(Clone, Debug, PartialEq)]
pub struct PaymentScreen {
    /// The address of the warehouse.
    pub warehouse: Address,
    /// The address of the district.
    pub district: Address,
    /// C_ID.
    pub customer: u32,
    /// C_FIRST, C_MIDDLE, C_LAST.
    pub name: [String; 3],
    /// The address of the customer.
    pub address: Address,
    /// C_PHONE.
    pub phone: String,
    /// C_SINCE.
    pub since: SystemTime,
    /// C_CREDIT.
    pub credit: String,
    /// C_CREDIT_LIM \[cents\].
    pub credit_limit_cents: i64,
    /// C_DISCOUNT \[ten-thousandths\].
    pub discount: i32,
    /// C_BALANCE \[cents\], after the payment.
    pub balance_cents: i64,
    /// The first 200 characters of C_DATA, of a customer with bad credit only.
    pub text: Option<String>,
}

/// The screen of an Order-Status (2.6.3).
#[derive(Clone, Debug, PartialEq)]
pub struct StatusScreen {
    /// C_ID.
    pub customer: u32,
    /// C_FIRST, C_MIDDLE, C_LAST.
    pub name: [String; 3],
    /// C_BALANCE \[cents\].
    pub balance_cents: i64,
    /// The last order; a customer need not have one.
    pub order: Option<LastOrder>,
}

/// The last order of a customer.
#[derive(Clone, Debug, PartialEq)]
pub struct LastOrder {
    /// O_ID.
    pub order: u32,
    /// O_ENTRY_D.
    pub entered: SystemTime,
    /// O_CARRIER_ID, once it is delivered.
    pub carrier: Option<u8>,
    /// Its lines.
    pub lines: Vec<StatusLine>,
}

/// A line of a customer's last order.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusLine {
    /// OL_I_ID.
    pub item: u32,
    /// OL_SUPPLY_W_ID.
    pub supply_warehouse: u32,
    /// OL_QUANTITY.
    pub quantity: i32,
    /// OL_AMOUNT \[cents\].
    pub amount_cents: i64,
    /// OL_DELIVERY_D, once it is delivered.
    pub delivered: Option<SystemTime>,
}

/// Orders that a Delivery delivered: of each district but those without a new order, D_ID and O_ID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// (D_ID, O_ID), by district.
    pub orders: Vec<(u8, u32)>,
}

impl Delivered {
    /// Number of the ten districts without an order to deliver (2.7.4.2).
    pub fn skipped(&self) -> u32 {
        u32::from(workload::tpcc::rules::DISTRICTS) - self.orders.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_is_exact_and_rounded_half_up() {
        // 100.00 less 11.11 %, plus 12.34 % and 5.67 %: 104.89887...
        assert_eq!(total_cents(10_000, 1_111, 1_234 + 567), 10_490);
        assert_eq!(total_cents(10_000, 0, 0), 10_000);
        assert_eq!(total_cents(1, 5_000, 0), 1, "half a cent is rounded up");
        assert_eq!(total_cents(1, 5_001, 0), 0, "less than half is rounded down");
        assert_eq!(total_cents(15 * 10 * 10_000, 0, 4_000), 2_100_000, "the largest order");
    }
}
