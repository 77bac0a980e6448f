//! The profiles run by the server: one call a transaction, which is the transaction.

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Statement};
use workload::tpcc::{CustomerBy, NewOrder, Payment, Request, Text, last_name};

use super::Trouble;
use super::screens::{Entered, LineScreen, OrderScreen, Screen, total_cents};
use super::sql::{Head, delivered, payment_screen, status_screen};

/// The code that `tpcc_new_order` raises where an item does not exist, and has rolled everything
/// back.
const ITEM_NOT_VALID: &str = "TPC01";

/// The prepared calls of a session.
#[derive(Debug)]
pub(super) struct Functions {
    new_order: Statement,
    payment: Statement,
    order_status: Statement,
    delivery: Statement,
    stock_level: Statement,
}

impl Functions {
    pub(super) async fn prepare(client: &Client) -> Result<Functions, Error> {
        const N: Type = Type::INT4;
        const NS: Type = Type::INT4_ARRAY;
        let call = async |text: &str, types: &[Type]| client.prepare_typed(text, types).await;
        Ok(Functions {
            new_order: call(
                "select * from tpcc_new_order($1, $2, $3, $4, $5, $6)",
                &[N, N, N, NS, NS, NS],
            )
            .await?,
            payment: call(
                "select * from tpcc_payment($1, $2, $3, $4, $5, $6, $7)",
                &[N, N, N, N, N, Type::TEXT, Type::INT8],
            )
            .await?,
            order_status: call(
                "select * from tpcc_order_status($1, $2, $3, $4)",
                &[N, N, N, Type::TEXT],
            )
            .await?,
            delivery: call("select * from tpcc_delivery($1, $2)", &[N, N]).await?,
            stock_level: call("select tpcc_stock_level($1, $2, $3)", &[N, N, N]).await?,
        })
    }

    /// One try.
    pub(super) async fn perform(
        &self,
        client: &Client,
        request: &Request,
    ) -> Result<Screen, Trouble> {
        let w = request.warehouse() as i32;
        match request {
            Request::NewOrder(order) => self.new_order(client, order).await.map(Screen::NewOrder),
            Request::Payment(payment) => self.payment(client, payment).await,
            Request::OrderStatus(status) => {
                let (id, name) = named(status.customer);
                let name = name.as_ref().map(Text::as_str);
                let rows = client
                    .query(&self.order_status, &[&w, &i32::from(status.district), &id, &name])
                    .await?;
                status_screen(&rows).map(Screen::OrderStatus)
            }
            Request::Delivery(delivery) => {
                let rows =
                    client.query(&self.delivery, &[&w, &i32::from(delivery.carrier)]).await?;
                delivered(&rows).map(Screen::Delivery)
            }
            Request::StockLevel(level) => {
                let (d, threshold) = (i32::from(level.district), i32::from(level.threshold));
                let row = client.query_one(&self.stock_level, &[&w, &d, &threshold]).await?;
                Ok(Screen::StockLevel(row.get::<_, i32>(0) as u32))
            }
        }
    }

    async fn new_order(&self, client: &Client, order: &NewOrder) -> Result<OrderScreen, Trouble> {
        let (w, d, c) = (order.warehouse as i32, i32::from(order.district), order.customer as i32);
        let items: Vec<i32> = order.lines.iter().map(|line| line.item as i32).collect();
        let supply: Vec<i32> =
            order.lines.iter().map(|line| line.supply_warehouse as i32).collect();
        let wanted: Vec<i32> = order.lines.iter().map(|line| i32::from(line.quantity)).collect();
        let called =
            client.query_one(&self.new_order, &[&w, &d, &c, &items, &supply, &wanted]).await;
        let row = match called {
            Ok(row) => row,
            Err(error) => return item_not_valid(&error).ok_or_else(|| error.into()),
        };
        let head = Head::of(&row);
        let (names, prices): (Vec<String>, Vec<i64>) = (row.get(7), row.get(8));
        let (stocks, brands): (Vec<i32>, Vec<bool>) = (row.get(9), row.get(10));
        let lines: Vec<LineScreen> = names
            .into_iter()
            .enumerate()
            .map(|(line, name)| LineScreen {
                name,
                stock: stocks[line],
                branded: brands[line],
                price_cents: prices[line],
                amount_cents: prices[line] * i64::from(wanted[line]),
            })
            .collect();
        let sum = lines.iter().map(|line| line.amount_cents).sum();
        let taxes = head.warehouse_tax + head.district_tax;
        let entered = Some(Entered {
            at: head.entered,
            discount: head.discount,
            warehouse_tax: head.warehouse_tax,
            district_tax: head.district_tax,
            total_cents: total_cents(sum, head.discount, taxes),
            lines,
        });
        Ok(OrderScreen { order: head.order as u32, last: head.last, credit: head.credit, entered })
    }

    async fn payment(&self, client: &Client, payment: &Payment) -> Result<Screen, Trouble> {
        let (w, d) = (payment.warehouse as i32, i32::from(payment.district));
        let (c_w, c_d) = (payment.customer_warehouse as i32, i32::from(payment.customer_district));
        let (id, name) = named(payment.customer);
        let name = name.as_ref().map(Text::as_str);
        let cents = i64::from(payment.amount_cents);
        let row =
            client.query_one(&self.payment, &[&w, &d, &c_w, &c_d, &id, &name, &cents]).await?;
        Ok(Screen::Payment(payment_screen(&row).into()))
    }
}

/// A customer by C_ID or by C_LAST.
fn named(customer: CustomerBy) -> (Option<i32>, Option<Text<16>>) {
    match customer {
        CustomerBy::Id(id) => (Some(id as i32), None),
        CustomerBy::LastName(number) => (None, Some(last_name(number))),
    }
}

/// The screen of an order that the function rolled back; `None` of any other error.
fn item_not_valid(error: &Error) -> Option<OrderScreen> {
    let told = error.as_db_error().filter(|told| told.code().code() == ITEM_NOT_VALID)?;
    let mut words = told.detail()?.split_whitespace();
    let order = words.next()?.parse().ok()?;
    let (credit, last) = (words.next()?.to_owned(), words.next()?.to_owned());
    Some(OrderScreen { order, last, credit, entered: None })
}
