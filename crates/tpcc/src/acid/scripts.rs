//! Scripts of the tests, step by step, with the values that must be seen. The transactions are
//! called as the specification calls them: T0, T1, T2 and so on.

use tokio_postgres::Client;
use tokio_postgres::types::ToSql;
use workload::tpcc::{CustomerBy, Delivery, Line, NewOrder, OrderStatus, Payment, Request, rules};

use super::stage::{DOES_NOT_WAIT, Stage, WAITS};
use super::{AcidError, AcidTest, Expected, Observation};
use crate::transactions::{
    Delivered, Execution, OpenTransaction, OrderScreen, Performed, Screen, StatusScreen,
    TransactionError, Trouble, reason,
};

/// A warehouse, a district and a customer.
type Whose = (u32, u8, u32);

/// Why a script did not come to its end.
#[derive(Debug)]
pub(super) enum Stuck {
    /// The database is gone, or never was what it should be: nothing was tested.
    Lost(TransactionError),
    /// Something happened that the test does not allow for: it fails.
    Unexpected(String),
}

impl Stuck {
    /// Its meaning to the test: a thing that was seen, or an error.
    pub(super) fn observed(self, test: AcidTest) -> Result<Vec<Observation>, AcidError> {
        match self {
            Stuck::Lost(source) => Err(AcidError::Transaction { doing: test.name(), source }),
            Stuck::Unexpected(seen) => {
                let expected = Expected::Always("the test to its end".into());
                Ok(vec![Observation { what: "what happened".into(), expected, seen }])
            }
        }
    }
}

impl From<TransactionError> for Stuck {
    fn from(error: TransactionError) -> Stuck {
        match error {
            TransactionError::Lost(_) | TransactionError::Missing { .. } => Stuck::Lost(error),
            other => Stuck::Unexpected(other.to_string()),
        }
    }
}

impl From<Trouble> for Stuck {
    fn from(trouble: Trouble) -> Stuck {
        match trouble {
            Trouble::Conflict => Stuck::Unexpected(
                "a transaction that nobody was in the way of was given up (40001 or 40P01)".into(),
            ),
            Trouble::Final(error) => error.into(),
        }
    }
}

impl From<tokio_postgres::Error> for Stuck {
    fn from(error: tokio_postgres::Error) -> Stuck {
        match error.as_db_error() {
            Some(_) => Stuck::Unexpected(reason(&error)),
            None => Stuck::Lost(TransactionError::Lost(reason(&error))),
        }
    }
}

/// Plays a test.
pub(super) async fn play(stage: &mut Stage<'_>, test: AcidTest) -> Result<Vec<Observation>, Stuck> {
    let mut notes = Notes(Vec::new());
    match test {
        AcidTest::AtomicityCommit => payment_commits(stage, &mut notes).await,
        AcidTest::AtomicityRollback => payment_rolls_back(stage, &mut notes).await,
        AcidTest::Isolation1 => status_meets_order(stage, &mut notes, Ending::Commit).await,
        AcidTest::Isolation2 => status_meets_order(stage, &mut notes, Ending::Rollback).await,
        AcidTest::Isolation3 => order_meets_order(stage, &mut notes).await,
        AcidTest::Isolation4 => match stage.execution() {
            Execution::Sql => order_meets_invalid_order(stage, &mut notes).await,
            Execution::Functions => order_meets_invalid_call(stage, &mut notes).await,
        },
        AcidTest::Isolation5 => payment_meets_delivery(stage, &mut notes, Ending::Commit).await,
        AcidTest::Isolation6 => payment_meets_delivery(stage, &mut notes, Ending::Rollback).await,
        AcidTest::Isolation7 => prices_are_raised(stage, &mut notes).await,
        AcidTest::Isolation8 => order_meets_empty_delivery(stage, &mut notes).await,
        AcidTest::Isolation9 => order_meets_status(stage, &mut notes).await,
    }?;
    Ok(notes.0)
}

/// Ending of a transaction that was stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Commit,
    Rollback,
}

/// Observations so far.
struct Notes(Vec<Observation>);

impl Notes {
    fn note(&mut self, what: &str, expected: Expected, seen: impl ToString) {
        self.0.push(Observation { what: what.into(), expected, seen: seen.to_string() });
    }

    fn always(&mut self, what: &str, expected: impl ToString, seen: impl ToString) {
        self.note(what, Expected::Always(expected.to_string()), seen);
    }

    /// The level at which the transaction that is stopped says it runs.
    async fn level(&mut self, of: &OpenTransaction<'_>) -> Result<(), Stuck> {
        let row = of.client().query_one("select current_setting('transaction_isolation')", &[]);
        self.note(
            "isolation of the one that stops",
            Expected::Level,
            row.await?.get::<_, String>(0),
        );
        Ok(())
    }

    /// Notes the number of retries of a transaction that waited for a row and found it changed.
    fn retries_after_change(&mut self, performed: &Performed) {
        let (snapshot, read_committed) = ("1".to_owned(), "0".to_owned());
        let expected = Expected::ByLevel { snapshot, read_committed };
        self.note("retries of T2", expected, performed.retries);
    }
}

async fn payment_commits(stage: &mut Stage<'_>, notes: &mut Notes) -> Result<(), Stuck> {
    let whose = stage.somebody();
    let before = books(&stage.onlooker, whose).await?;
    stage.perform(payment(whose)).await?;
    let after = books(&stage.onlooker, whose).await?;
    notes.always("changes of rows", paid(), changes(before, after));
    Ok(())
}

async fn payment_rolls_back(stage: &mut Stage<'_>, notes: &mut Notes) -> Result<(), Stuck> {
    let whose = stage.somebody();
    let before = books(&stage.onlooker, whose).await?;
    let session = stage.session().await?;
    let t1 = session.begin().await?;
    t1.work(&payment(whose)).await?;
    notes.level(&t1).await?;
    notes.always("as T1 sees it", paid(), changes(before, books(t1.client(), whose).await?));
    let during = books(&stage.onlooker, whose).await?;
    notes.always("as others see it meanwhile", UNCHANGED, changes(before, during));
    t1.rollback().await?;
    let after = books(&stage.onlooker, whose).await?;
    notes.always("changes of rows", UNCHANGED, changes(before, after));
    Ok(())
}

async fn status_meets_order(
    stage: &mut Stage<'_>,
    notes: &mut Notes,
    ending: Ending,
) -> Result<(), Stuck> {
    let whose = stage.somebody();
    let before = status_of(stage.perform(status(whose)).await?);
    let order = stage.order(whose);
    let session = stage.session().await?;
    let backend = session.backend().await?;
    let t1 = session.begin().await?;
    let entered = order_of(t1.work(&Request::NewOrder(order.clone())).await?);
    notes.level(&t1).await?;

    let t2 = stage.send(status(whose)).await?;
    notes.always("T2 (versions: no wait)", DOES_NOT_WAIT, stage.does(&t2, backend).await?);
    let t2 = t2.ended().await?;
    notes.always("retries of T2", 0, t2.retries);
    let shown = status_of(t2);
    notes.always("T2 shows", "what was there before T1", same(&before, &shown));

    match ending {
        Ending::Commit => t1.commit().await?,
        Ending::Rollback => t1.rollback().await?,
    }
    let after = status_of(stage.perform(status(whose)).await?);
    match ending {
        Ending::Commit => {
            let seen = is_of(&after, &order, &entered);
            notes.always("the status after T1", "T1's order with all its lines", seen);
        }
        Ending::Rollback => {
            let seen = same(&before, &after);
            notes.always("the status after T1", "what was there before T1", seen);
        }
    }
    Ok(())
}

async fn order_meets_order(stage: &mut Stage<'_>, notes: &mut Notes) -> Result<(), Stuck> {
    let whose = stage.somebody();
    let before = next_order(stage, whose).await?;
    let (first, second) = (stage.order(whose), stage.order(whose));
    let session = stage.session().await?;
    let backend = session.backend().await?;
    let t1 = session.begin().await?;
    let entered = order_of(t1.work(&Request::NewOrder(first)).await?);
    notes.level(&t1).await?;
    let t2 = stage.send(Request::NewOrder(second)).await?;
    notes.always("T2", WAITS, stage.does(&t2, backend).await?);
    t1.commit().await?;
    let t2 = t2.ended().await?;
    notes.retries_after_change(&t2);
    let after = order_of(t2.screen);
    notes.always("order number of T1", before, entered.order);
    notes.always("order number of T2", before + 1, after.order);
    notes.always("D_NEXT_O_ID", before + 2, next_order(stage, whose).await?);
    Ok(())
}

async fn order_meets_invalid_order(stage: &mut Stage<'_>, notes: &mut Notes) -> Result<(), Stuck> {
    let whose = stage.somebody();
    let before = next_order(stage, whose).await?;
    let (mut first, second) = (stage.order(whose), stage.order(whose));
    make_invalid(&mut first);
    let session = stage.session().await?;
    let backend = session.backend().await?;
    let t1 = session.begin().await?;
    let shown = order_of(t1.work(&Request::NewOrder(first)).await?);
    notes.level(&t1).await?;
    let t2 = stage.send(Request::NewOrder(second)).await?;
    notes.always("T2", WAITS, stage.does(&t2, backend).await?);
    t1.rollback().await?;
    let t2 = t2.ended().await?;
    invalid_order_was_undone(stage, notes, whose, before, &shown, t2).await
}

/// Where the server runs the profile, the rollback is its own, and nothing can be let in right before
/// it. So T1 is stopped inside, by a row of stock that a third session holds: it has taken its
/// number and entered its order by then.
async fn order_meets_invalid_call(stage: &mut Stage<'_>, notes: &mut Notes) -> Result<(), Stuck> {
    let whose = stage.somebody();
    let before = next_order(stage, whose).await?;
    let (mut first, second) = (stage.order(whose), stage.order(whose));
    make_invalid(&mut first);
    let others = [&first.lines[..], &second.lines[..]].concat();
    let item = stage.item_beside(&others);
    first.lines[0] = Line { item, supply_warehouse: whose.0, quantity: 1 };

    let third = stage.stranger().await?;
    let row = third.query_one("select pg_backend_pid()", &[]).await?;
    let hold = format!(
        "begin; select from stock where s_w_id = {} and s_i_id = {item} for update",
        whose.0
    );
    third.batch_execute(&hold).await?;
    let t1 = stage.send(Request::NewOrder(first)).await?;
    notes.always("T1 and who holds a row of stock", WAITS, stage.does(&t1, row.get(0)).await?);
    let t2 = stage.send(Request::NewOrder(second)).await?;
    notes.always("T2", WAITS, stage.does(&t2, t1.backend()).await?);
    third.batch_execute("rollback").await?;
    let t1 = t1.ended().await?;
    notes.always("retries of T1", 0, t1.retries);
    let t2 = t2.ended().await?;
    invalid_order_was_undone(stage, notes, whose, before, &order_of(t1.screen), t2).await
}

async fn invalid_order_was_undone(
    stage: &Stage<'_>,
    notes: &mut Notes,
    whose: Whose,
    before: u32,
    shown: &OrderScreen,
    t2: Performed,
) -> Result<(), Stuck> {
    let words = |shown: &OrderScreen| match shown.entered {
        None => "an invalid item",
        Some(_) => "an order that was entered",
    };
    notes.always("T1 shows", "an invalid item", words(shown));
    notes.always("retries of T2", 0, t2.retries);
    notes.always("order number that T1 gave back", before, shown.order);
    notes.always("order number of T2", before, order_of(t2.screen).order);
    notes.always("D_NEXT_O_ID", before + 1, next_order(stage, whose).await?);
    Ok(())
}

async fn payment_meets_delivery(
    stage: &mut Stage<'_>,
    notes: &mut Notes,
    ending: Ending,
) -> Result<(), Stuck> {
    let (w, d, c) = stage.somebody();
    // However far earlier runs have delivered, there is an order in this district.
    let some = stage.order((w, d, c));
    stage.perform(Request::NewOrder(some)).await?;
    let session = stage.session().await?;
    let backend = session.backend().await?;
    let t1 = session.begin().await?;
    let delivered = delivered_of(t1.work(&delivery(w)).await?);
    notes.level(&t1).await?;
    let order = delivered.orders.iter().find(|(district, _)| *district == d);
    let order = order.ok_or_else(|| unexpected("T1 delivered nothing in that district"))?.1;
    let (c, cents) = debt(&stage.onlooker, (w, d, order)).await?;
    let whose = (w, d, c);
    let before = books(&stage.onlooker, whose).await?;
    let deliveries = delivery_count(&stage.onlooker, whose).await?;

    let t2 = stage.send(payment(whose)).await?;
    notes.always("T2", WAITS, stage.does(&t2, backend).await?);
    let delivered = match ending {
        Ending::Commit => {
            t1.commit().await?;
            let t2 = t2.ended().await?;
            notes.retries_after_change(&t2);
            1
        }
        Ending::Rollback => {
            t1.rollback().await?;
            notes.always("retries of T2", 0, t2.ended().await?.retries);
            0
        }
    };
    let after = books(&stage.onlooker, whose).await?;
    let what = "C_BALANCE, changed by the Payment and what was delivered";
    let expected = delivered * cents - i64::from(AMOUNT_CENTS);
    notes.always(what, money(expected), money(after[2] - before[2]));
    let counted = delivery_count(&stage.onlooker, whose).await? - deliveries;
    notes.always("C_DELIVERY_CNT, changed by", delivered, counted);
    notes.always("C_PAYMENT_CNT, changed by", 1, after[4] - before[4]);
    Ok(())
}

async fn prices_are_raised(stage: &mut Stage<'_>, notes: &mut Notes) -> Result<(), Stuck> {
    let whose = stage.somebody();
    let mut order = stage.order(whose);
    let x = order.lines[0].item;
    let y = stage.item_beside(&order.lines);
    order.lines[1].item = y;
    order.lines[2].item = x;
    let items = [x as i32, y as i32, x as i32];
    let before = prices(&stage.onlooker, &items).await?;
    for (item, price) in items.iter().zip(&before) {
        let (whole, cents) = (price / 100, price % 100);
        let price = format!("{whole}.{cents:02}");
        stage.undo_with(format!("update item set i_price = {price} where i_id = {item}"));
    }

    let session = stage.session().await?;
    let t2 = session.begin().await?;
    let entered = order_of(t2.work(&Request::NewOrder(order)).await?);
    notes.level(&t2).await?;
    let t3 = stage.stranger().await?;
    // What may have to wait is told so by the server, not by us.
    t3.batch_execute("set lock_timeout = '10s'").await?;
    let raise = "update item set i_price = round(i_price * 1.1, 2) where i_id = any ($1)";
    let raised = t3.execute(raise, &[&&items[..]]).await.map_err(|error| reason(&error));
    notes.always(
        "T3 (versions: no wait)",
        "2 prices raised",
        match raised {
            Ok(rows) => format!("{rows} prices raised"),
            Err(said) => said,
        },
    );
    let after = prices(&stage.onlooker, &items).await?;
    let expected = Expected::Isolated {
        snapshot: list(&before),
        read_committed: list(&after),
        anomaly: "non-repeatable read",
    };
    notes.note(
        "prices of x, y, x as T2 reads them again",
        expected,
        list(&t2.prices(&items).await?),
    );
    t2.commit().await?;

    let asked = "select (ol_amount * 100 / ol_quantity)::int8 from order_line where ol_w_id = $1 \
         and ol_d_id = $2 and ol_o_id = $3 and ol_number <= 3 order by ol_number";
    let (w, d, o) = (whose.0 as i32, i16::from(whose.1), entered.order as i32);
    let rows = stage.onlooker.query(asked, &[&w, &d, &o]).await?;
    let booked: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    notes.always("prices of the lines that T2 entered", list(&before), list(&booked));
    let up = |cents: &i64| (cents * 11 + 5) / 10;
    let raised: Vec<i64> = before.iter().map(up).collect();
    notes.always(
        "prices after T3 and T2",
        list(&raised),
        list(&prices(&stage.onlooker, &items).await?),
    );
    Ok(())
}

async fn order_meets_empty_delivery(stage: &mut Stage<'_>, notes: &mut Notes) -> Result<(), Stuck> {
    let (w, d, c) = stage.somebody();
    // What has no carrier is new: this puts back what is removed, and finds T2's order in place.
    stage.undo_with(format!(
        "insert into new_order (no_o_id, no_d_id, no_w_id) select o_id, o_d_id, o_w_id from orders \
         where o_w_id = {w} and o_d_id = {d} and o_carrier_id is null on conflict do nothing"
    ));
    let remove = format!("delete from new_order where no_w_id = {w} and no_d_id = {d}");
    stage.onlooker.batch_execute(&remove).await?;

    let session = stage.session().await?;
    let backend = session.backend().await?;
    let t1 = session.begin().await?;
    let delivered = delivered_of(t1.work(&delivery(w)).await?);
    notes.level(&t1).await?;
    let found =
        delivered.orders.iter().find(|(district, _)| *district == d).map(|(_, order)| *order);
    notes.always("T1 finds in the district", NOTHING, name(found));
    let order = stage.order((w, d, c));
    let t2 = stage.send(Request::NewOrder(order)).await?;
    notes.always("T2 (versions: no wait)", DOES_NOT_WAIT, stage.does(&t2, backend).await?);
    let t2 = t2.ended().await?;
    notes.always("retries of T2", 0, t2.retries);
    let entered = order_of(t2.screen).order;
    let expected = Expected::Isolated {
        snapshot: NOTHING.into(),
        read_committed: name(Some(entered)),
        anomaly: "phantom",
    };
    notes.note("T1 finds when it looks again", expected, name(oldest(t1.client(), w, d).await?));
    t1.commit().await?;
    let after = oldest(&stage.onlooker, w, d).await?;
    notes.always("NEW-ORDER after both", name(Some(entered)), name(after));
    Ok(())
}

async fn order_meets_status(stage: &mut Stage<'_>, notes: &mut Notes) -> Result<(), Stuck> {
    let whose = stage.somebody();
    let session = stage.session().await?;
    let backend = session.backend().await?;
    let t1 = session.begin().await?;
    let first = last_order(t1.work(&status(whose)).await?);
    notes.level(&t1).await?;
    let order = stage.order(whose);
    let t2 = stage.send(Request::NewOrder(order)).await?;
    notes.always("T2 (versions: no wait)", DOES_NOT_WAIT, stage.does(&t2, backend).await?);
    let t2 = t2.ended().await?;
    notes.always("retries of T2", 0, t2.retries);
    let entered = order_of(t2.screen).order;
    let expected = Expected::Isolated {
        snapshot: name(first),
        read_committed: name(Some(entered)),
        anomaly: "phantom",
    };
    notes.note(
        "T1 finds when it looks again",
        expected,
        name(last_order(t1.work(&status(whose)).await?)),
    );
    t1.commit().await?;
    let after = last_order(stage.perform(status(whose)).await?.screen);
    notes.always("the status after both", name(Some(entered)), name(after));
    Ok(())
}

/// The amount of every Payment of the tests \[cents\].
const AMOUNT_CENTS: u32 = 123_456;

fn payment((warehouse, district, customer): Whose) -> Request {
    Request::Payment(Payment {
        warehouse,
        district,
        customer_warehouse: warehouse,
        customer_district: district,
        customer: CustomerBy::Id(customer),
        amount_cents: AMOUNT_CENTS,
    })
}

fn status((warehouse, district, customer): Whose) -> Request {
    Request::OrderStatus(OrderStatus { warehouse, district, customer: CustomerBy::Id(customer) })
}

fn delivery(warehouse: u32) -> Request {
    Request::Delivery(Delivery { warehouse, carrier: 7 })
}

/// Lets the last line ask for an item that does not exist (2.4.1.5).
fn make_invalid(order: &mut NewOrder) {
    order.lines.last_mut().expect("an order has five lines or more").item = rules::ITEM_UNUSED;
}

fn order_of(screen: Screen) -> OrderScreen {
    match screen {
        Screen::NewOrder(shown) => shown,
        other => unreachable!("a New-Order was asked for: {other:?}"),
    }
}

fn status_of(performed: Performed) -> StatusScreen {
    match performed.screen {
        Screen::OrderStatus(shown) => shown,
        other => unreachable!("an Order-Status was asked for: {other:?}"),
    }
}

fn delivered_of(screen: Screen) -> Delivered {
    match screen {
        Screen::Delivery(delivered) => delivered,
        other => unreachable!("a Delivery was asked for: {other:?}"),
    }
}

/// O_ID of the last order that an Order-Status shows.
fn last_order(screen: Screen) -> Option<u32> {
    status_of(Performed { screen, retries: 0 }).order.map(|order| order.order)
}

fn unexpected(what: &str) -> Stuck {
    Stuck::Unexpected(what.to_owned())
}

/// Comparison of a screen with another one's contents.
fn same(before: &StatusScreen, now: &StatusScreen) -> String {
    let order = now.order.as_ref().map(|order| order.order);
    match before == now {
        true => "what was there before T1".into(),
        false => format!("something else: {}", name(order)),
    }
}

/// Comparison of a screen with an order as it was entered.
fn is_of(status: &StatusScreen, order: &NewOrder, entered: &OrderScreen) -> String {
    let Some(shown) = &status.order else { return "no order".into() };
    if shown.order != entered.order {
        return format!("another one: {}", name(Some(shown.order)));
    }
    let lines = entered.entered.iter().flat_map(|entered| &entered.lines);
    let lines = order.lines.iter().zip(lines).map(|(line, screen)| {
        let quantity = i32::from(line.quantity);
        (line.item, line.supply_warehouse, quantity, screen.amount_cents)
    });
    let shown_lines = shown
        .lines
        .iter()
        .map(|line| (line.item, line.supply_warehouse, line.quantity, line.amount_cents));
    match lines.eq(shown_lines) && shown.carrier.is_none() {
        true => "T1's order with all its lines".into(),
        false => "T1's order, but not as it was entered".into(),
    }
}

const NOTHING: &str = "no order";

fn name(order: Option<u32>) -> String {
    order.map_or(NOTHING.to_owned(), |order| format!("order {order}"))
}

fn money(cents: i64) -> String {
    format!("{}{}.{:02}", if cents < 0 { "-" } else { "+" }, cents.abs() / 100, cents.abs() % 100)
}

fn list(prices: &[i64]) -> String {
    let shown = prices.iter().map(|cents| format!("{}.{:02}", cents / 100, cents % 100));
    shown.collect::<Vec<_>>().join(", ")
}

/// W_YTD, D_YTD, C_BALANCE, C_YTD_PAYMENT \[cents\]; C_PAYMENT_CNT; the customer's rows of HISTORY.
type Books = [i64; 6];

const UNCHANGED: &str = "none";

/// The changes of a Payment.
fn paid() -> String {
    let cents = i64::from(AMOUNT_CENTS);
    changes([0; 6], [cents, cents, -cents, cents, 1, 1])
}

fn changes(before: Books, after: Books) -> String {
    const NAMES: [&str; 6] =
        ["W_YTD", "D_YTD", "C_BALANCE", "C_YTD_PAYMENT", "C_PAYMENT_CNT", "HISTORY"];
    let changed = (0..6).filter(|&at| before[at] != after[at]).map(|at| {
        let by = after[at] - before[at];
        let by = if at < 4 { money(by) } else { format!("{by:+}") };
        format!("{} {by}", NAMES[at])
    });
    let changed: Vec<String> = changed.collect();
    if changed.is_empty() { UNCHANGED.into() } else { changed.join(", ") }
}

async fn books(client: &Client, (w, d, c): Whose) -> Result<Books, Stuck> {
    let asked = "select (w_ytd * 100)::int8, (d_ytd * 100)::int8, (c_balance * 100)::int8, \
         (c_ytd_payment * 100)::int8, c_payment_cnt::int8, \
         (select count(*) from history where h_c_w_id = $1 and h_c_d_id = $2 and h_c_id = $3) \
         from warehouse, district, customer where w_id = $1 and d_w_id = $1 and d_id = $2 \
         and c_w_id = $1 and c_d_id = $2 and c_id = $3";
    let row = client.query_one(asked, &[&(w as i32), &i16::from(d), &(c as i32)]).await?;
    Ok(std::array::from_fn(|at| row.get(at)))
}

/// The customer of an order, and what its lines cost \[cents\].
async fn debt(client: &Client, (w, d, o): (u32, u8, u32)) -> Result<(u32, i64), Stuck> {
    let asked = "select o_c_id, (select (sum(ol_amount) * 100)::int8 from order_line \
         where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3) \
         from orders where o_w_id = $1 and o_d_id = $2 and o_id = $3";
    let row = client.query_one(asked, &[&(w as i32), &i16::from(d), &(o as i32)]).await?;
    Ok((row.get::<_, i32>(0) as u32, row.get(1)))
}

async fn delivery_count(client: &Client, (w, d, c): Whose) -> Result<i64, Stuck> {
    let asked = "select c_delivery_cnt::int8 from customer \
         where c_w_id = $1 and c_d_id = $2 and c_id = $3";
    one(client, asked, &[&(w as i32), &i16::from(d), &(c as i32)]).await
}

/// D_NEXT_O_ID, as it is committed.
async fn next_order(stage: &Stage<'_>, (w, d, _): Whose) -> Result<u32, Stuck> {
    let asked = "select d_next_o_id::int8 from district where d_w_id = $1 and d_id = $2";
    Ok(one(&stage.onlooker, asked, &[&(w as i32), &i16::from(d)]).await? as u32)
}

async fn one(client: &Client, asked: &str, with: &[&(dyn ToSql + Sync)]) -> Result<i64, Stuck> {
    Ok(client.query_one(asked, with).await?.get(0))
}

/// The oldest new order of a district, as a Delivery looks for it.
async fn oldest(client: &Client, w: u32, d: u8) -> Result<Option<u32>, Stuck> {
    let asked = "select no_o_id from new_order where no_w_id = $1 and no_d_id = $2 \
         order by no_o_id limit 1";
    let row = client.query_opt(asked, &[&(w as i32), &i16::from(d)]).await?;
    Ok(row.map(|row| row.get::<_, i32>(0) as u32))
}

/// Prices \[cents\], as they are committed.
async fn prices(client: &Client, items: &[i32]) -> Result<Vec<i64>, Stuck> {
    let asked = "select (i_price * 100)::int8 from unnest($1::int4[]) with ordinality \
         as line(i, n) join item on i_id = i order by n";
    let rows = client.query(asked, &[&items]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}
