//! The profiles run by the client: what is sent together, and what is decided in between.

use std::time::SystemTime;

use futures_util::future::join;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Row, Statement};
use workload::tpcc::{
    CustomerBy, Delivery, NewOrder, OrderStatus, Payment, Request, StockLevel, last_name,
};

use super::screens::{
    Delivered, Entered, LastOrder, LineScreen, OrderScreen, PaymentScreen, Screen, StatusLine,
    StatusScreen, total_cents,
};
use super::statements::{self as text, *};
use super::{Bounds, Trouble};

/// The prepared statements of a session.
#[derive(Debug)]
pub(super) struct Statements {
    order_read: Statement,
    order_fill: Statement,
    pay_by_id: Statement,
    pay_by_name: Statement,
    status_by_id: Statement,
    status_by_name: Statement,
    deliver: Statement,
    level: Statement,
}

impl Statements {
    pub(super) async fn prepare(client: &Client) -> Result<Statements, Error> {
        const N: Type = Type::INT4;
        const NS: Type = Type::INT4_ARRAY;
        const CENTS: Type = Type::INT8;
        let fill = [N, N, N, N, N, N, NS, NS, NS, NS, NS, NS, NS, NS, NS, NS, Type::INT8_ARRAY];
        let pay = |who: Type| [N, N, who, CENTS, N, N];
        Ok(Statements {
            order_read: client.prepare_typed(ORDER_READ, &[N, N, N, NS, NS]).await?,
            order_fill: client.prepare_typed(ORDER_FILL, &fill).await?,
            pay_by_id: client.prepare_typed(&text::pay_by_id(), &pay(N)).await?,
            pay_by_name: client.prepare_typed(&text::pay_by_name(), &pay(Type::TEXT)).await?,
            status_by_id: client.prepare_typed(&text::status_by_id(), &[N, N, N]).await?,
            status_by_name: client
                .prepare_typed(&text::status_by_name(), &[N, N, Type::TEXT])
                .await?,
            deliver: client.prepare_typed(DELIVER, &[N, N]).await?,
            level: client.prepare_typed(LEVEL, &[N, N, N]).await?,
        })
    }

    /// One try. Whatever it ends with, the connection is out of the transaction, if that is the
    /// profile's own.
    pub(super) async fn perform(
        &self,
        client: &Client,
        request: &Request,
        bounds: Bounds,
    ) -> Result<Screen, Trouble> {
        match request {
            Request::NewOrder(order) => {
                let read = self.read_order(client, order, bounds).await;
                let read = rolled_back_on_error(client, read).await?;
                self.write_order(client, order, read, bounds).await.map(Screen::NewOrder)
            }
            Request::Payment(payment) => {
                self.pay(client, payment).await.map(|screen| Screen::Payment(screen.into()))
            }
            Request::OrderStatus(status) => {
                self.status(client, status).await.map(Screen::OrderStatus)
            }
            Request::Delivery(delivery) => {
                self.deliver(client, delivery).await.map(Screen::Delivery)
            }
            Request::StockLevel(level) => self.level(client, level).await.map(Screen::StockLevel),
        }
    }

    /// The reading half of a New-Order, with the district's number and the locks on the stocks.
    async fn read_order(
        &self,
        client: &Client,
        order: &NewOrder,
        bounds: Bounds,
    ) -> Result<Read, Trouble> {
        let (w, d, c) = (order.warehouse as i32, i32::from(order.district), order.customer as i32);
        let mut places = Places::of(order);
        let (began, rows) = join(
            client.batch_execute(bounds.statement("begin")),
            client.query(&self.order_read, &[&w, &d, &c, &places.warehouses, &places.items]),
        )
        .await;
        began?;
        let rows = rows?;
        let head = rows.first().map(Head::of);
        let head = head.ok_or_else(|| Trouble::missing("warehouse, district or customer"))?;
        let mut items = vec![None; places.items.len()];
        for row in &rows {
            let place = row.get::<_, i32>(7) as usize - 1;
            if let Some(name) = row.get(8) {
                items[place] = Some((name, row.get(9), row.get(10)));
            }
            places.quantities[place] = row.get(11);
            places.branded[place] = row.get::<_, Option<bool>>(12).unwrap_or_default();
        }
        // A repeated stock is read once; its name is shown by each of its lines.
        let items = places.of_line.iter().map(|&place| items[place].clone()).collect();
        Ok(Read { head, items, places })
    }

    /// The writing half of a New-Order, and its end: a commit, or, where an item was not found, the
    /// rollback after all that could be done was done (2.4.2.3).
    async fn write_order(
        &self,
        client: &Client,
        order: &NewOrder,
        read: Read,
        bounds: Bounds,
    ) -> Result<OrderScreen, Trouble> {
        let Read { head, items, mut places } = read;
        let supplied = supply(order, items, &mut places);
        let (lines, all_found) = rolled_back_on_error(client, supplied).await?;
        let home = order.lines.iter().all(|line| line.supply_warehouse == order.warehouse);
        let written = places.written();
        let (w, d, c) = (order.warehouse as i32, i32::from(order.district), order.customer as i32);
        let (count, all_local) = (order.lines.len() as i32, i32::from(home));
        let (filled, ended) = join(
            client.execute(
                &self.order_fill,
                &[
                    &w,
                    &d,
                    &head.order,
                    &c,
                    &count,
                    &all_local,
                    &written.warehouses,
                    &written.items,
                    &written.quantities,
                    &written.wanted,
                    &written.orders,
                    &written.remote,
                    &lines.numbers,
                    &lines.items,
                    &lines.warehouses,
                    &lines.wanted,
                    &lines.cents,
                ],
            ),
            client.batch_execute(bounds.statement(if all_found { "commit" } else { "rollback" })),
        )
        .await;
        if filled? != lines.numbers.len() as u64 {
            // What was locked a moment ago is there; only a trigger or rule could have done this.
            return Err(Trouble::missing("row of stock"));
        }
        ended?;
        let entered = all_found.then(|| {
            let sum = lines.cents.iter().sum();
            Entered {
                at: head.entered,
                discount: head.discount,
                warehouse_tax: head.warehouse_tax,
                district_tax: head.district_tax,
                total_cents: total_cents(
                    sum,
                    head.discount,
                    head.warehouse_tax + head.district_tax,
                ),
                lines: lines.shown,
            }
        });
        Ok(OrderScreen { order: head.order as u32, last: head.last, credit: head.credit, entered })
    }

    /// One statement, and so one transaction of its own.
    async fn pay(&self, client: &Client, payment: &Payment) -> Result<PaymentScreen, Trouble> {
        let (w, d) = (payment.warehouse as i32, i32::from(payment.district));
        let (c_w, c_d) = (payment.customer_warehouse as i32, i32::from(payment.customer_district));
        let cents = i64::from(payment.amount_cents);
        let row = match payment.customer {
            CustomerBy::Id(id) => {
                let id = id as i32;
                client.query_opt(&self.pay_by_id, &[&c_w, &c_d, &id, &cents, &w, &d]).await?
            }
            CustomerBy::LastName(number) => {
                let name = last_name(number);
                let name = name.as_str();
                client.query_opt(&self.pay_by_name, &[&c_w, &c_d, &name, &cents, &w, &d]).await?
            }
        };
        let row = row.ok_or_else(|| Trouble::missing("warehouse, district or customer"))?;
        Ok(payment_screen(&row))
    }

    /// One statement, and so one transaction of its own that sees one state of the database.
    async fn status(&self, client: &Client, status: &OrderStatus) -> Result<StatusScreen, Trouble> {
        let (w, d) = (status.warehouse as i32, i32::from(status.district));
        let rows = match status.customer {
            CustomerBy::Id(id) => client.query(&self.status_by_id, &[&w, &d, &(id as i32)]).await?,
            CustomerBy::LastName(number) => {
                client.query(&self.status_by_name, &[&w, &d, &last_name(number).as_str()]).await?
            }
        };
        status_screen(&rows)
    }

    async fn deliver(&self, client: &Client, delivery: &Delivery) -> Result<Delivered, Trouble> {
        let (w, carrier) = (delivery.warehouse as i32, i32::from(delivery.carrier));
        delivered(&client.query(&self.deliver, &[&w, &carrier]).await?)
    }

    async fn level(&self, client: &Client, level: &StockLevel) -> Result<u32, Trouble> {
        let (w, d) = (level.warehouse as i32, i32::from(level.district));
        let row = client.query_one(&self.level, &[&w, &d, &i32::from(level.threshold)]).await?;
        Ok(row.get::<_, i32>(0) as u32)
    }
}

/// Ends the transaction if something failed. If even that fails, what failed first is the news.
async fn rolled_back_on_error<T>(
    client: &Client,
    result: Result<T, Trouble>,
) -> Result<T, Trouble> {
    if result.is_err() {
        client.batch_execute("rollback").await.ok();
    }
    result
}

/// Rows that a New-Order has read.
struct Read {
    head: Head,
    /// Of each line: name, price \[cents\], whether it is marked as original.
    items: Vec<Option<(String, i64, bool)>>,
    places: Places,
}

/// The row of [`ORDER_HEAD`].
pub(super) struct Head {
    pub(super) order: i32,
    pub(super) entered: SystemTime,
    pub(super) last: String,
    pub(super) credit: String,
    pub(super) discount: i32,
    pub(super) warehouse_tax: i32,
    pub(super) district_tax: i32,
}

impl Head {
    /// From the first seven columns.
    pub(super) fn of(row: &Row) -> Head {
        Head {
            order: row.get(0),
            entered: row.get(1),
            last: row.get(2),
            credit: row.get(3),
            discount: row.get(4),
            warehouse_tax: row.get(5),
            district_tax: row.get(6),
        }
    }
}

/// The stocks that an order draws on, each once, by warehouse and item.
#[derive(Default)]
struct Places {
    warehouses: Vec<i32>,
    items: Vec<i32>,
    /// S_QUANTITY, of those that exist.
    quantities: Vec<Option<i32>>,
    branded: Vec<bool>,
    wanted: Vec<i32>,
    orders: Vec<i32>,
    remote: Vec<i32>,
    /// Of each line, which of the places it draws on.
    of_line: Vec<usize>,
}

impl Places {
    fn of(order: &NewOrder) -> Places {
        let mut keys: Vec<(i32, i32)> = order
            .lines
            .iter()
            .map(|line| (line.supply_warehouse as i32, line.item as i32))
            .collect();
        let asked = keys.clone();
        keys.sort_unstable();
        keys.dedup();
        let count = keys.len();
        Places {
            warehouses: keys.iter().map(|key| key.0).collect(),
            items: keys.iter().map(|key| key.1).collect(),
            quantities: vec![None; count],
            branded: vec![false; count],
            wanted: vec![0; count],
            orders: vec![0; count],
            remote: vec![0; count],
            of_line: asked
                .iter()
                .map(|key| keys.binary_search(key).expect("it is one of them"))
                .collect(),
        }
    }

    /// Those that a line was supplied from.
    fn written(&self) -> Written {
        let mut written = Written::default();
        for place in 0..self.items.len() {
            if let (Some(quantity), 1..) = (self.quantities[place], self.orders[place]) {
                written.warehouses.push(self.warehouses[place]);
                written.items.push(self.items[place]);
                written.quantities.push(quantity);
                written.wanted.push(self.wanted[place]);
                written.orders.push(self.orders[place]);
                written.remote.push(self.remote[place]);
            }
        }
        written
    }
}

/// Values written of stocks.
#[derive(Default)]
struct Written {
    warehouses: Vec<i32>,
    items: Vec<i32>,
    quantities: Vec<i32>,
    wanted: Vec<i32>,
    orders: Vec<i32>,
    remote: Vec<i32>,
}

/// Values written, and shown, of lines.
#[derive(Default)]
struct Lines {
    numbers: Vec<i32>,
    items: Vec<i32>,
    warehouses: Vec<i32>,
    wanted: Vec<i32>,
    cents: Vec<i64>,
    shown: Vec<LineScreen>,
}

/// Supplies line after line from the stocks that were read, so that a stock that two lines ask for
/// is drawn on twice. And whether the items of all lines exist.
fn supply(
    order: &NewOrder,
    items: Vec<Option<(String, i64, bool)>>,
    places: &mut Places,
) -> Result<(Lines, bool), Trouble> {
    let (mut lines, mut all_found) = (Lines::default(), true);
    for (index, (line, item)) in order.lines.iter().zip(items).enumerate() {
        let Some((name, price_cents, item_branded)) = item else {
            all_found = false;
            continue;
        };
        let place = places.of_line[index];
        let quantity =
            places.quantities[place].as_mut().ok_or_else(|| Trouble::missing("row of stock"))?;
        let wanted = i32::from(line.quantity);
        *quantity = stock_after(*quantity, wanted);
        let stock = *quantity;
        places.wanted[place] += wanted;
        places.orders[place] += 1;
        places.remote[place] += i32::from(line.supply_warehouse != order.warehouse);
        let amount_cents = price_cents * i64::from(wanted);
        lines.numbers.push(index as i32 + 1);
        lines.items.push(line.item as i32);
        lines.warehouses.push(line.supply_warehouse as i32);
        lines.wanted.push(wanted);
        lines.cents.push(amount_cents);
        let branded = item_branded && places.branded[place];
        lines.shown.push(LineScreen { name, stock, branded, price_cents, amount_cents });
    }
    Ok((lines, all_found))
}

/// S_QUANTITY after `wanted` were taken: 91 more arrive where fewer than 10 would be left
/// (2.4.2.2).
fn stock_after(quantity: i32, wanted: i32) -> i32 {
    if quantity >= wanted + 10 { quantity - wanted } else { quantity - wanted + 91 }
}

/// The screen of a Payment from its row.
pub(super) fn payment_screen(row: &Row) -> PaymentScreen {
    let address = |at: usize| std::array::from_fn(|part| row.get(at + part));
    PaymentScreen {
        warehouse: address(0),
        district: address(5),
        customer: row.get::<_, i32>(10) as u32,
        name: std::array::from_fn(|part| row.get(11 + part)),
        address: address(14),
        phone: row.get(19),
        since: row.get(20),
        credit: row.get(21),
        credit_limit_cents: row.get(22),
        discount: row.get(23),
        balance_cents: row.get(24),
        text: row.get(25),
    }
}

/// The screen of an Order-Status from its rows, one a line.
pub(super) fn status_screen(rows: &[Row]) -> Result<StatusScreen, Trouble> {
    let head = rows.first().ok_or_else(|| Trouble::missing("customer"))?;
    let line = |row: &Row| {
        Some(StatusLine {
            item: row.get::<_, Option<i32>>(8)? as u32,
            supply_warehouse: row.get::<_, i32>(9) as u32,
            quantity: row.get(10),
            amount_cents: row.get(11),
            delivered: row.get(12),
        })
    };
    let order = head.get::<_, Option<i32>>(5).map(|order| LastOrder {
        order: order as u32,
        entered: head.get(6),
        carrier: head.get::<_, Option<i32>>(7).map(|carrier| carrier as u8),
        lines: rows.iter().filter_map(line).collect(),
    });
    Ok(StatusScreen {
        customer: head.get::<_, i32>(0) as u32,
        name: std::array::from_fn(|part| head.get(1 + part)),
        balance_cents: head.get(4),
        order,
    })
}

/// The orders delivered, from a row a district.
pub(super) fn delivered(rows: &[Row]) -> Result<Delivered, Trouble> {
    let mut orders = Vec::with_capacity(rows.len());
    for row in rows {
        if let Some(order) = row.get::<_, Option<i32>>(1) {
            if row.get::<_, Option<i32>>(2).is_none() {
                return Err(Trouble::missing("order with its lines and customer"));
            }
            orders.push((row.get::<_, i32>(0) as u8, order as u32));
        }
    }
    Ok(Delivered { orders })
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::tpcc::Line;

    fn order(lines: &[(u32, u32, u8)]) -> NewOrder {
        let line = |&(supply_warehouse, item, quantity): &(u32, u32, u8)| Line {
            item,
            supply_warehouse,
            quantity,
        };
        NewOrder { warehouse: 1, district: 1, customer: 1, lines: lines.iter().map(line).collect() }
    }

    #[test]
    fn stock_is_refilled_where_fewer_than_ten_would_be_left() {
        assert_eq!(stock_after(15, 5), 10);
        assert_eq!(stock_after(14, 5), 100);
        assert_eq!(stock_after(10, 10), 91);
    }

    #[test]
    fn stocks_are_sorted_and_a_repeated_one_is_drawn_on_twice() {
        let order = order(&[(2, 5, 3), (1, 9, 1), (1, 7, 6), (2, 5, 4)]);
        let mut places = Places::of(&order);
        assert_eq!(places.warehouses, [1, 1, 2]);
        assert_eq!(places.items, [7, 9, 5]);
        places.quantities = vec![Some(20), Some(30), Some(15)];
        let items = vec![Some(("x".to_owned(), 100, true)); 4];
        let (lines, all_found) = supply(&order, items, &mut places).unwrap();
        assert!(all_found);
        assert_eq!(lines.shown.iter().map(|line| line.stock).collect::<Vec<_>>(), [12, 29, 14, 99]);
        let written = places.written();
        assert_eq!(written.quantities, [14, 29, 99]);
        assert_eq!(written.wanted, [6, 1, 7]);
        assert_eq!(written.orders, [1, 1, 2]);
        assert_eq!(written.remote, [0, 0, 2]);
        assert_eq!(lines.cents, [300, 100, 600, 400]);
    }

    #[test]
    fn a_line_whose_item_is_missing_writes_nothing_of_its_own() {
        let order = order(&[(1, 5, 3), (1, 100_001, 4)]);
        let mut places = Places::of(&order);
        places.quantities[0] = Some(50);
        let items = vec![Some(("x".to_owned(), 100, false)), None];
        let (lines, all_found) = supply(&order, items, &mut places).unwrap();
        assert!(!all_found);
        assert_eq!(lines.numbers, [1]);
        assert_eq!(places.written().items, [5]);
    }
}
