//! What the nine tables hold before a run (4.3.3.1), row by row.
//!
//! The rows of a table and warehouse are a function of the seed, the warehouse and the table, so
//! that they can be made in any order, on any number of connections, and again after a load that
//! was interrupted. Columns that are times are not here: they all hold the time of the load, which
//! whoever loads knows.

use rand::RngExt;
use rand::seq::SliceRandom;

use super::rules::{CUSTOMERS, DISTRICTS, ITEMS, LINES, ORDER_UNDELIVERED, ORDERS};
use super::{NuRand, Purpose, Text, c_load, last_name, stream};
use crate::Chance;

/// A population: the rows of any number of warehouses, from one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Population {
    seed: u64,
    last: NuRand,
    c_load: u16,
}

/// Where a warehouse or a district is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// _STREET_1.
    pub street_1: Text<20>,
    /// _STREET_2.
    pub street_2: Text<20>,
    /// _CITY.
    pub city: Text<20>,
    /// _STATE: two letters.
    pub state: Text<2>,
    /// _ZIP: four digits and `11111` (4.3.2.7).
    pub zip: Text<9>,
}

/// A row of ITEM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// I_ID, 1 to 100000.
    pub id: u32,
    /// I_IM_ID, 1 to 10000.
    pub image: u16,
    /// I_NAME.
    pub name: Text<24>,
    /// I_PRICE \[cents\], 1.00 to 100.00.
    pub price_cents: u32,
    /// I_DATA; one row of ten has `ORIGINAL` in it.
    pub text: Text<50>,
}

/// A row of WAREHOUSE. W_YTD is 300000.00.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warehouse {
    /// W_ID, from 1.
    pub id: u32,
    /// W_NAME.
    pub name: Text<10>,
    /// Where it is.
    pub address: Address,
    /// W_TAX \[1/10000\], 0 to 0.2.
    pub tax: u16,
}

/// A row of DISTRICT. D_YTD is 30000.00, D_NEXT_O_ID is 3001.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct District {
    /// D_ID, 1 to 10.
    pub id: u8,
    /// D_NAME.
    pub name: Text<10>,
    /// Where it is.
    pub address: Address,
    /// D_TAX \[1/10000\], 0 to 0.2.
    pub tax: u16,
}

/// A row of STOCK. S_YTD, S_ORDER_CNT and S_REMOTE_CNT are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stock {
    /// S_I_ID, 1 to 100000.
    pub item: u32,
    /// S_QUANTITY, 10 to 100.
    pub quantity: u8,
    /// S_DIST_01 to S_DIST_10: 24 letters each.
    pub districts: [Text<24>; 10],
    /// S_DATA; one row of ten has `ORIGINAL` in it.
    pub text: Text<50>,
}

/// A row of CUSTOMER. C_MIDDLE is `OE`, C_CREDIT_LIM 50000.00, C_BALANCE -10.00, C_YTD_PAYMENT
/// 10.00, C_PAYMENT_CNT 1, C_DELIVERY_CNT 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Customer {
    /// C_D_ID, 1 to 10.
    pub district: u8,
    /// C_ID, 1 to 3000.
    pub id: u32,
    /// C_FIRST.
    pub first: Text<16>,
    /// C_LAST: numbers 0 to 999 in turn, then by NURand with C-Load.
    pub last: Text<16>,
    /// Where the customer is.
    pub address: Address,
    /// C_PHONE: 16 digits.
    pub phone: Text<16>,
    /// C_CREDIT: `BC` in one row of ten, else `GC`.
    pub credit: Text<2>,
    /// C_DISCOUNT \[1/10000\], 0 to 0.5.
    pub discount: u16,
    /// C_DATA.
    pub text: Text<500>,
}

/// A row of HISTORY, one for each customer, of the customer's district. H_AMOUNT is 10.00.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// H_C_D_ID and H_D_ID, 1 to 10.
    pub district: u8,
    /// H_C_ID, 1 to 3000.
    pub customer: u32,
    /// H_DATA.
    pub text: Text<24>,
}

/// A row of ORDER. O_ALL_LOCAL is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// O_D_ID, 1 to 10.
    pub district: u8,
    /// O_ID, 1 to 3000.
    pub id: u32,
    /// O_C_ID: every customer once, in a random order.
    pub customer: u32,
    /// O_CARRIER_ID, 1 to 10; `None` from order 2101 on: these have a row in NEW-ORDER.
    pub carrier: Option<u8>,
    /// O_OL_CNT, 5 to 15.
    pub lines: u8,
}

/// A row of ORDER-LINE. OL_SUPPLY_W_ID is the order's warehouse, OL_QUANTITY is 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderLine {
    /// The order that it is a line of.
    pub order: Order,
    /// OL_NUMBER, from 1.
    pub number: u8,
    /// OL_I_ID, 1 to 100000, uniform.
    pub item: u32,
    /// OL_AMOUNT \[cents\]: 0 where the order is delivered, else 0.01 to 9999.99.
    pub amount_cents: u32,
    /// OL_DIST_INFO: 24 letters.
    pub dist_info: Text<24>,
}

/// Tables, as numbers of streams: each draws from its own.
#[derive(Clone, Copy)]
enum Table {
    Item = 0,
    Warehouse = 1,
    District = 2,
    Stock = 3,
    Customer = 4,
    History = 5,
    Order = 6,
    OrderLine = 7,
}

impl Population {
    /// The population of a seed; C-Load follows from the seed too.
    pub fn new(seed: u64) -> Population {
        let c_load = c_load(seed);
        Population { seed, last: NuRand::last(c_load), c_load }
    }

    /// The constant C of the last names, which the database must keep: a run needs it (2.1.6.1).
    pub fn c_load(&self) -> u16 {
        self.c_load
    }

    /// The 100 000 items, which all warehouses share.
    pub fn items(&self) -> impl Iterator<Item = Item> + use<> {
        let mut chance = self.chance(Table::Item, 0);
        let mut original = OneInTen::of(ITEMS);
        (1..=ITEMS).map(move |id| Item {
            id,
            image: chance.random_range(1..=10_000),
            name: Text::a_string(&mut chance, 14..=24),
            price_cents: chance.random_range(100..=10_000),
            text: text_of_item(&mut chance, &mut original),
        })
    }

    /// The row of WAREHOUSE.
    pub fn warehouse(&self, id: u32) -> Warehouse {
        let mut chance = self.chance(Table::Warehouse, id);
        Warehouse {
            id,
            name: Text::a_string(&mut chance, 6..=10),
            address: address(&mut chance),
            tax: chance.random_range(0..=2_000),
        }
    }

    /// The ten districts of a warehouse.
    pub fn districts(&self, warehouse: u32) -> impl Iterator<Item = District> + use<> {
        let mut chance = self.chance(Table::District, warehouse);
        (1..=DISTRICTS).map(move |id| District {
            id,
            name: Text::a_string(&mut chance, 6..=10),
            address: address(&mut chance),
            tax: chance.random_range(0..=2_000),
        })
    }

    /// The 100 000 rows of a warehouse's stock.
    pub fn stock(&self, warehouse: u32) -> impl Iterator<Item = Stock> + use<> {
        let mut chance = self.chance(Table::Stock, warehouse);
        let mut original = OneInTen::of(ITEMS);
        (1..=ITEMS).map(move |item| Stock {
            item,
            quantity: chance.random_range(10..=100),
            districts: std::array::from_fn(|_| Text::letters(&mut chance, 24)),
            text: text_of_item(&mut chance, &mut original),
        })
    }

    /// The 30 000 customers of a warehouse, district by district.
    pub fn customers(&self, warehouse: u32) -> impl Iterator<Item = Customer> + use<> {
        let mut chance = self.chance(Table::Customer, warehouse);
        let (last, mut bad) = (self.last, OneInTen::of(CUSTOMERS));
        (1..=DISTRICTS).flat_map(|district| (1..=CUSTOMERS).map(move |id| (district, id))).map(
            move |(district, id)| {
                let number = if id <= 1000 { id - 1 } else { last.draw(&mut chance) };
                Customer {
                    district,
                    id,
                    first: Text::a_string(&mut chance, 8..=16),
                    last: last_name(number as u16),
                    address: address(&mut chance),
                    phone: Text::digits(&mut chance, 16),
                    credit: Text::of(if bad.draw(&mut chance) { "BC" } else { "GC" }),
                    discount: chance.random_range(0..=5_000),
                    text: Text::a_string(&mut chance, 300..=500),
                }
            },
        )
    }

    /// The 30 000 rows of a warehouse's history, in the order of its customers.
    pub fn history(&self, warehouse: u32) -> impl Iterator<Item = History> + use<> {
        let mut chance = self.chance(Table::History, warehouse);
        (1..=DISTRICTS).flat_map(|district| (1..=CUSTOMERS).map(move |id| (district, id))).map(
            move |(district, customer)| History {
                district,
                customer,
                text: Text::a_string(&mut chance, 12..=24),
            },
        )
    }

    /// The 30 000 orders of a warehouse, district by district.
    pub fn orders(&self, warehouse: u32) -> impl Iterator<Item = Order> + use<> {
        let mut chance = self.chance(Table::Order, warehouse);
        (1..=DISTRICTS).flat_map(move |district| {
            let mut customers: Vec<u32> = (1..=CUSTOMERS).collect();
            customers.shuffle(&mut chance);
            let orders: Vec<Order> = (1..=ORDERS)
                .zip(customers)
                .map(|(id, customer)| {
                    let carrier = chance.random_range(1..=10);
                    let carrier = (id < ORDER_UNDELIVERED).then_some(carrier);
                    Order { district, id, customer, carrier, lines: chance.random_range(LINES) }
                })
                .collect();
            orders
        })
    }

    /// The lines of a warehouse's orders, in their order: about 300 000.
    pub fn order_lines(&self, warehouse: u32) -> impl Iterator<Item = OrderLine> + use<> {
        let mut chance = self.chance(Table::OrderLine, warehouse);
        self.orders(warehouse)
            .flat_map(|order| (1..=order.lines).map(move |number| (order, number)))
            .map(move |(order, number)| {
                let amount = chance.random_range(1..=999_999);
                OrderLine {
                    order,
                    number,
                    item: chance.random_range(1..=ITEMS),
                    amount_cents: if order.carrier.is_some() { 0 } else { amount },
                    dist_info: Text::letters(&mut chance, 24),
                }
            })
    }

    fn chance(&self, table: Table, warehouse: u32) -> Chance {
        let number = (u64::from(warehouse) << 8) | table as u64;
        stream(self.seed, Purpose::Population, number)
    }
}

fn address(chance: &mut Chance) -> Address {
    let mut zip: [u8; 9] = *b"000011111";
    zip[..4].copy_from_slice(Text::<4>::digits(chance, 4).as_bytes());
    Address {
        street_1: Text::a_string(chance, 10..=20),
        street_2: Text::a_string(chance, 10..=20),
        city: Text::a_string(chance, 10..=20),
        state: Text::letters(chance, 2),
        zip: Text::full(zip),
    }
}

/// I_DATA and S_DATA: of these rows one in ten is `ORIGINAL`, at a random place in its text.
fn text_of_item(chance: &mut Chance, original: &mut OneInTen) -> Text<50> {
    let text = Text::a_string(chance, 26..=50);
    if original.draw(chance) { text.with(chance, b"ORIGINAL") } else { text }
}

/// Chooses exactly one row in ten of every `of` rows, any such set of rows as likely as another:
/// each row is taken with the chance of what is still to take among what is left.
struct OneInTen {
    of: u32,
    left: u32,
    take: u32,
}

impl OneInTen {
    fn of(of: u32) -> OneInTen {
        OneInTen { of, left: of, take: of / 10 }
    }

    fn draw(&mut self, chance: &mut Chance) -> bool {
        if self.left == 0 {
            *self = OneInTen::of(self.of);
        }
        let taken = chance.random_range(0..self.left) < self.take;
        self.left -= 1;
        self.take -= u32::from(taken);
        taken
    }
}
