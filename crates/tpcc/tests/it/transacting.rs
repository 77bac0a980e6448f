//! Effects of each transaction on each table, in both modes.

use std::time::Duration;

use tokio_postgres::Client;
use tpcc::{Execution, Isolation, OrderScreen, Performed, Screen, Session, TransactionError};
use workload::stream;
use workload::tpcc::{
    Constants, CustomerBy, Delivery, Inputs, Kind, Line, NewOrder, OrderStatus, Payment, Request,
    StockLevel, last_name, rules,
};

use super::Database;

const BOTH: [Execution; 2] = [Execution::Sql, Execution::Functions];

/// Runs the work of a session here; the functions are there.
fn in_session<T>(
    database: &Database,
    execution: Execution,
    isolation: Isolation,
    work: impl AsyncFnOnce(&Session, &Client) -> T,
) -> T {
    let config = &database.0;
    database.with(async |client| {
        tpcc::install_functions(config).await.unwrap();
        let session = Session::open(config, execution, isolation, 1).await.unwrap();
        work(&session, client).await
    })
}

fn perform(database: &Database, execution: Execution, requests: &[Request]) -> Vec<Performed> {
    in_session(database, execution, Isolation::RepeatableRead, async |session, _| {
        let mut performed = Vec::new();
        for request in requests {
            performed.push(session.perform(request).await.unwrap());
        }
        performed
    })
}

fn line(item: u32, supply_warehouse: u32, quantity: u8) -> Line {
    Line { item, supply_warehouse, quantity }
}

fn order(customer: u32, lines: &[Line]) -> Request {
    Request::NewOrder(NewOrder { warehouse: 1, district: 4, customer, lines: lines.to_vec() })
}

fn shown_order(performed: &Performed) -> &OrderScreen {
    let Screen::NewOrder(shown) = &performed.screen else { panic!("{performed:?}") };
    shown
}

/// An order of local, remote and repeated items.
fn some_order(customer: u32) -> Request {
    order(
        customer,
        &[line(70, 1, 3), line(20, 2, 10), line(70, 1, 9), line(20, 1, 1), line(9, 1, 7)],
    )
}

/// Requests of every kind as terminals draw them, and those that chance seldom makes.
fn requests() -> Vec<Request> {
    let inputs = Inputs::new(Constants::for_run(3, 100), 2);
    let mut chance = stream(11, 0);
    let mut requests: Vec<Request> = (0..60)
        .map(|nth| {
            let kind = Kind::ALL[[0, 1, 0, 1, 2, 3, 4][nth % 7]];
            inputs.draw(kind, nth as u32 % 2 + 1, 3, &mut chance)
        })
        .collect();
    requests.push(some_order(77));
    requests.push(order(78, &[line(5, 1, 1), line(5, 1, 2), line(rules::ITEM_UNUSED, 1, 1)]));
    requests
}

/// The fields of a screen, without times: they are when the server was asked.
fn timeless(screen: &Screen) -> String {
    let text = format!("{screen:?}");
    let mut parts = text.split("SystemTime { ");
    let mut kept = parts.next().unwrap().to_owned();
    for part in parts {
        kept += part.split_once('}').unwrap().1;
    }
    kept
}

#[test]
fn in_both_modes_the_same_requests_leave_the_same_rows_and_screens() {
    let requests = requests();
    let (sql, functions) = (Database::loaded("by_sql"), Database::loaded("by_functions"));
    let by_sql = perform(&sql, Execution::Sql, &requests);
    let by_functions = perform(&functions, Execution::Functions, &requests);
    for ((request, one), two) in requests.iter().zip(&by_sql).zip(&by_functions) {
        assert_eq!(timeless(&one.screen), timeless(&two.screen), "{request:?}");
    }
    for (one, two) in rows(&sql).iter().zip(&rows(&functions)) {
        assert_eq!(one, two);
    }
    let rolled_back = by_sql.iter().filter(
        |performed| matches!(&performed.screen, Screen::NewOrder(shown) if shown.entered.is_none()),
    );
    assert!(rolled_back.count() >= 1, "an order was rolled back");
}

/// The contents of the tables, of times only whether they are those of the load.
fn rows(database: &Database) -> Vec<String> {
    let hashes = database.hashes();
    hashes.into_iter().map(|(table, hash)| format!("{table}: {hash}")).collect()
}

#[test]
fn each_transaction_changes_its_tables_and_no_other() {
    let payment = Request::Payment(Payment {
        warehouse: 1,
        district: 2,
        customer_warehouse: 2,
        customer_district: 9,
        customer: CustomerBy::Id(17),
        amount_cents: 4_321,
    });
    let by_name = CustomerBy::LastName(3);
    let status = Request::OrderStatus(OrderStatus { warehouse: 2, district: 1, customer: by_name });
    let delivery = Request::Delivery(Delivery { warehouse: 2, carrier: 6 });
    let level = Request::StockLevel(StockLevel { warehouse: 1, district: 1, threshold: 15 });
    let invalid = order(3, &[line(1, 1, 5), line(2, 2, 5), line(rules::ITEM_UNUSED, 1, 5)]);
    let cases: [(&Request, &[&str]); 6] = [
        (&some_order(3), &["district", "new_order", "order_line", "orders", "stock"]),
        (&invalid, &[]),
        (&payment, &["customer", "district", "history", "warehouse"]),
        (&status, &[]),
        (&delivery, &["customer", "new_order", "order_line", "orders"]),
        (&level, &[]),
    ];
    // That the other mode leaves the same rows is shown above.
    let database = Database::loaded("tables");
    let mut before = database.hashes();
    for (request, tables) in &cases {
        perform(&database, Execution::Sql, std::slice::from_ref(request));
        let after = database.hashes();
        let changed = before.iter().zip(&after).filter(|(before, after)| before.1 != after.1);
        let mut changed: Vec<_> = changed.map(|(before, _)| before.0).collect();
        changed.sort_unstable();
        assert_eq!(&changed, tables, "{request:?}");
        before = after;
    }
}

#[test]
fn a_new_order_is_booked_as_clause_2_4_2_says() {
    for execution in BOTH {
        let database = Database::loaded(&format!("orders_{execution:?}").to_lowercase());
        database.ask("update stock set s_quantity = 15 where s_i_id = 70 and s_w_id = 1");
        database.ask("update stock set s_quantity = 21 where s_i_id = 20 and s_w_id = 2");
        let performed = &perform(&database, execution, &[some_order(42)])[0];
        let shown = shown_order(performed);
        assert_eq!((shown.order, performed.retries), (3001, 0));
        let entered = shown.entered.as_ref().unwrap();
        // 15 - 3, then 12 - 9 with 91 more; 21 - 10.
        let stocks: Vec<i32> = entered.lines.iter().map(|line| line.stock).collect();
        assert_eq!(stocks[..3], [12, 11, 94], "{execution:?}");
        let ask = |sql: &str| database.ask(sql);
        assert_eq!(ask("select d_next_o_id from district where d_w_id = 1 and d_id = 4"), ["3002"]);
        assert_eq!(
            ask("select o_c_id, o_carrier_id, o_ol_cnt, o_all_local, o_entry_d > now() - \
                 interval '1 minute' from orders where o_w_id = 1 and o_d_id = 4 and o_id = 3001"),
            ["42|null|5|0|t"]
        );
        assert_eq!(
            ask("select count(*) from new_order where no_w_id = 1 and no_d_id = 4 \
                 and no_o_id = 3001"),
            ["1"]
        );
        assert_eq!(
            ask("select s_w_id, s_i_id, s_ytd, s_order_cnt, s_remote_cnt from stock \
                 where s_ytd <> 0 order by 1, 2"),
            ["1|9|7|1|0", "1|20|1|1|0", "1|70|12|2|0", "2|20|10|1|1"]
        );
        let lines = ask("select ol_number, ol_i_id, ol_supply_w_id, ol_quantity, \
             ol_amount = ol_quantity * i_price, ol_dist_info = s_dist_04, ol_delivery_d \
             from order_line join item on i_id = ol_i_id \
             join stock on s_w_id = ol_supply_w_id and s_i_id = ol_i_id \
             where ol_w_id = 1 and ol_d_id = 4 and ol_o_id = 3001 order by 1");
        assert_eq!(
            lines,
            [
                "1|70|1|3|t|t|null",
                "2|20|2|10|t|t|null",
                "3|70|1|9|t|t|null",
                "4|20|1|1|t|t|null",
                "5|9|1|7|t|t|null"
            ]
        );
        let sums = ask("select (sum(ol_amount) * 100)::int8, \
             round(sum(ol_amount) * (1 - min(c_discount)) \
             * (1 + min(w_tax) + min(d_tax)), 2) * 100 \
             from order_line, warehouse, district, customer where ol_w_id = 1 and ol_d_id = 4 \
             and ol_o_id = 3001 and w_id = 1 and d_w_id = 1 and d_id = 4 and c_w_id = 1 \
             and c_d_id = 4 and c_id = 42");
        let amounts: i64 = entered.lines.iter().map(|line| line.amount_cents).sum();
        assert_eq!(sums, [format!("{amounts}|{}.00", entered.total_cents)]);
        shows_what_is_there(&database, shown);
    }
}

/// The fields of the screen that come from items, stocks and the customer.
fn shows_what_is_there(database: &Database, shown: &OrderScreen) {
    let entered = shown.entered.as_ref().unwrap();
    let customer = database.ask(
        "select c_last, c_credit, (c_discount * 10000)::int, (w_tax * 10000)::int, \
         (d_tax * 10000)::int from customer, warehouse, district where w_id = 1 and d_w_id = 1 \
         and d_id = 4 and c_w_id = 1 and c_d_id = 4 and c_id = 42",
    );
    let fields = (entered.discount, entered.warehouse_tax, entered.district_tax);
    let expected =
        format!("{}|{}|{}|{}|{}", shown.last, shown.credit, fields.0, fields.1, fields.2);
    assert_eq!(customer, [expected]);
    let lines = database.ask(
        "select i_name, i_data like '%ORIGINAL%' and s_data like '%ORIGINAL%', \
         (i_price * 100)::int from order_line join item on i_id = ol_i_id \
         join stock on s_w_id = ol_supply_w_id and s_i_id = ol_i_id \
         where ol_w_id = 1 and ol_d_id = 4 and ol_o_id = 3001 order by ol_number",
    );
    let expected = entered.lines.iter().map(|line| {
        let branded = if line.branded { "t" } else { "f" };
        format!("{}|{branded}|{}", line.name, line.price_cents)
    });
    assert_eq!(lines, expected.collect::<Vec<_>>());
}

#[test]
fn an_order_with_an_unused_item_shows_its_head_and_leaves_nothing() {
    for execution in BOTH {
        let database = Database::loaded(&format!("invalid_{execution:?}").to_lowercase());
        let invalid = order(9, &[line(1, 1, 5), line(2, 2, 5), line(rules::ITEM_UNUSED, 1, 5)]);
        let valid = some_order(9);
        let performed = perform(&database, execution, &[invalid, valid]);
        let shown = shown_order(&performed[0]);
        assert_eq!((shown.order, shown.entered.is_none()), (3001, true), "{execution:?}");
        let name = database.ask(
            "select c_last, c_credit from customer where c_w_id = 1 and c_d_id = 4 and c_id = 9",
        );
        assert_eq!(name, [format!("{}|{}", shown.last, shown.credit)]);
        // The number that it would have had is the next one's.
        assert_eq!(shown_order(&performed[1]).order, 3001);
    }
}

#[test]
fn a_payment_by_name_is_the_middle_customer_s_and_bad_credit_keeps_500_characters() {
    for execution in BOTH {
        let database = Database::loaded(&format!("payments_{execution:?}").to_lowercase());
        let name = last_name(55);
        let middle = database.ask(&format!(
            "select c_id from (select c_id, row_number() over (order by c_first, c_id) as nth, \
             count(*) over () as n from customer where c_w_id = 2 and c_d_id = 3 \
             and c_last = '{name}') as named where nth = ceil(n / 2.0)"
        ));
        database.ask(&format!(
            "update customer set c_credit = 'BC', c_data = repeat('x', 495) \
             where c_w_id = 2 and c_d_id = 3 and c_id = {}",
            middle[0]
        ));
        let payment = Request::Payment(Payment {
            warehouse: 1,
            district: 8,
            customer_warehouse: 2,
            customer_district: 3,
            customer: CustomerBy::LastName(55),
            amount_cents: 123_456,
        });
        let performed = &perform(&database, execution, &[payment])[0];
        let Screen::Payment(shown) = &performed.screen else { panic!("{performed:?}") };
        assert_eq!(shown.customer.to_string(), middle[0], "{execution:?}");
        assert_eq!((shown.balance_cents, shown.credit.as_str()), (-124_456, "BC"));
        let text = format!("{} 3 2 8 1 1234.56 xxx", middle[0]);
        assert!(shown.text.as_ref().unwrap().starts_with(&text), "{shown:?}");
        assert_eq!(shown.text.as_ref().unwrap().len(), 200);
        let customer = database.ask(&format!(
            "select c_balance, c_ytd_payment, c_payment_cnt, length(c_data), \
             c_data like '{text}%' from customer where c_w_id = 2 and c_d_id = 3 and c_id = {}",
            middle[0]
        ));
        assert_eq!(customer, ["-1244.56|1244.56|2|500|t"]);
        let history = database.ask(
            "select h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, \
             h_data = w_name || '    ' || d_name \
             from history, warehouse, district where h_amount = 1234.56 and w_id = 1 \
             and d_w_id = 1 and d_id = 8",
        );
        assert_eq!(history, [format!("{}|3|2|8|1|t", middle[0])]);
        let sums = database.ask(
            "select w_ytd, d_ytd from warehouse join district on d_w_id = w_id \
             where w_id = 1 and d_id = 8",
        );
        assert_eq!(sums, ["301234.56|31234.56"]);
    }
}

#[test]
fn a_delivery_takes_the_oldest_order_of_each_district_and_skips_empty_ones() {
    for execution in BOTH {
        let database = Database::loaded(&format!("deliveries_{execution:?}").to_lowercase());
        database.ask("delete from new_order where no_w_id = 1 and no_d_id = 7");
        let due = database.ask(
            "select c_d_id, c_id, c_balance + sum(ol_amount) from orders \
             join order_line on ol_w_id = 1 and ol_d_id = o_d_id and ol_o_id = o_id \
             join customer on c_w_id = 1 and c_d_id = o_d_id and c_id = o_c_id \
             where o_w_id = 1 and o_id = 2101 and o_d_id <> 7 group by 1, 2, c_balance order by 1",
        );
        let delivery = Request::Delivery(Delivery { warehouse: 1, carrier: 6 });
        let performed = &perform(&database, execution, &[delivery])[0];
        let Screen::Delivery(delivered) = &performed.screen else { panic!("{performed:?}") };
        let expected: Vec<(u8, u32)> =
            (1..=10).filter(|&district| district != 7).map(|district| (district, 2101)).collect();
        assert_eq!(delivered.orders, expected, "{execution:?}");
        assert_eq!(delivered.skipped(), 1);
        let paid = database.ask(
            "select c_d_id, c_id, c_balance from customer where c_delivery_cnt = 1 order by 1",
        );
        assert_eq!(paid, due);
        let orders = database.ask(
            "select count(*) from orders where o_w_id = 1 and o_id = 2101 and o_carrier_id = 6",
        );
        assert_eq!(orders, ["9"]);
        let lines = database.ask(
            "select count(*) from order_line where ol_w_id = 1 and ol_o_id = 2101 \
             and (ol_delivery_d is null) <> (ol_d_id = 7)",
        );
        assert_eq!(lines, ["0"]);
        let left =
            database.ask("select count(*) from new_order where no_w_id = 1 and no_o_id = 2101");
        assert_eq!(left, ["0"]);
    }
}

#[test]
fn order_status_and_stock_level_show_what_is_there() {
    for execution in BOTH {
        let database = Database::loaded(&format!("reading_{execution:?}").to_lowercase());
        database.ask(
            "update stock set s_quantity = case when s_i_id % 3 = 0 then 9 else 20 end \
             where s_w_id = 1",
        );
        let low = database.ask(
            "select count(distinct ol_i_id) from order_line where ol_w_id = 1 and ol_d_id = 4 \
             and ol_o_id between 2982 and 3001 and ol_i_id % 3 = 0",
        );
        let status = |customer| {
            let customer = CustomerBy::Id(customer);
            Request::OrderStatus(OrderStatus { warehouse: 1, district: 4, customer })
        };
        let level = Request::StockLevel(StockLevel { warehouse: 1, district: 4, threshold: 10 });
        let performed = perform(&database, execution, &[some_order(42), status(42), level]);
        let Screen::OrderStatus(shown) = &performed[1].screen else { panic!("{performed:?}") };
        let last = shown.order.as_ref().unwrap();
        assert_eq!((shown.customer, shown.balance_cents, last.order), (42, -1_000, 3001));
        let lines: Vec<_> = last
            .lines
            .iter()
            .map(|line| (line.item, line.supply_warehouse, line.quantity, line.delivered))
            .collect();
        let expected = [(70, 1, 3), (20, 2, 10), (70, 1, 9), (20, 1, 1), (9, 1, 7)]
            .map(|(i, w, q)| (i, w, q, None));
        assert_eq!(lines, expected, "{execution:?}");
        // Of the new order, item 9 alone divides by three; its stock falls to 9 - 7 + 91.
        let Screen::StockLevel(count) = performed[2].screen else { panic!("{performed:?}") };
        assert_eq!(count.to_string(), low[0], "{execution:?}");
    }
}

/// Returns when somebody waits for a lock of this session's.
async fn is_waited_for(client: &Client) {
    let sql = "select exists (select from pg_locks where not granted \
        and pg_backend_pid() = any (pg_blocking_pids(pid)))";
    for _ in 0..3000 {
        if client.query_one(sql, &[]).await.unwrap().get(0) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nobody waits");
}

/// The parts of a Payment wait for each other in one statement, which commits by itself: whichever of
/// its rows is missing, none may be written.
#[test]
fn a_payment_that_lacks_a_row_books_nothing() {
    for execution in BOTH {
        let database = Database::loaded(&format!("lacking_{execution:?}").to_lowercase());
        // Rows that nothing of the load refers to by a key.
        database.ask("delete from district where d_id = 9; delete from customer where c_id = 77");
        let payment = |district, customer_district, customer| {
            Request::Payment(Payment {
                warehouse: 1,
                district,
                customer_warehouse: 1,
                customer_district,
                customer,
                amount_cents: 123_456,
            })
        };
        let lacking = [
            payment(8, 3, CustomerBy::Id(77)),
            payment(9, 3, CustomerBy::Id(5)),
            payment(9, 3, CustomerBy::LastName(5)),
            Request::NewOrder(NewOrder {
                warehouse: 1,
                district: 9,
                customer: 5,
                lines: vec![line(70, 1, 3)],
            }),
        ];
        let before = database.hashes();
        in_session(&database, execution, Isolation::RepeatableRead, async |session, _| {
            for request in &lacking {
                let error = session.perform(request).await.unwrap_err();
                assert!(matches!(error, TransactionError::Missing { .. }), "{error:?}");
            }
        });
        assert_eq!(database.hashes(), before, "{execution:?}");
    }
}

#[test]
fn a_transaction_in_conflict_is_tried_again_with_the_same_inputs() {
    for execution in BOTH {
        let database = Database::loaded(&format!("conflict_{execution:?}").to_lowercase());
        let isolation = Isolation::RepeatableRead;
        in_session(&database, execution, isolation, async |session, other| {
            let raise = "begin; update district set d_next_o_id = d_next_o_id + 1 \
                 where d_w_id = 1 and d_id = 4";
            other.batch_execute(raise).await.unwrap();
            let request = some_order(42);
            let (performed, ()) = futures_util::future::join(session.perform(&request), async {
                is_waited_for(other).await;
                other.batch_execute("commit").await.unwrap();
            })
            .await;
            let performed = performed.unwrap();
            assert_eq!((performed.retries, shown_order(&performed).order), (1, 3002));
        });
        let lines = database.ask("select count(*) from order_line where ol_o_id > 3000");
        assert_eq!(lines, ["5"], "{execution:?}: once, for all its tries");
    }
}

#[test]
fn a_transaction_in_a_deadlock_is_tried_again() {
    let database = Database::loaded("deadlock");
    let isolation = Isolation::ReadCommitted;
    // The server looks once, so late after a wait has begun: the deadlock must be there by then, also
    // where the machine has stood still for a second.
    database.ask("alter database deadlock set deadlock_timeout = '4s'");
    in_session(&database, Execution::Sql, isolation, async |session, other| {
        let stock = "set deadlock_timeout = '1min'; begin; \
             update stock set s_ytd = s_ytd where s_w_id = 1 and s_i_id = 70";
        other.batch_execute(stock).await.unwrap();
        let request = some_order(42);
        let (performed, ()) = futures_util::future::join(session.perform(&request), async {
            is_waited_for(other).await;
            let district =
                "update district set d_ytd = d_ytd where d_w_id = 1 and d_id = 4; commit";
            other.batch_execute(district).await.unwrap();
        })
        .await;
        let performed = performed.unwrap();
        // Whoever was rolled back may have the district again before the other one is awake: then
        // there is another deadlock.
        assert!(performed.retries >= 1, "{performed:?}");
        assert_eq!(shown_order(&performed).order, 3001);
    });
}

#[test]
fn functions_and_statements_are_refused_where_the_tables_are_missing() {
    let database = Database::new("empty_of_tables");
    let config = &database.0;
    for execution in BOTH {
        let error = database.with(async |_| {
            Session::open(config, execution, Isolation::RepeatableRead, 1).await.unwrap_err()
        });
        let text = error.to_string();
        assert!(text.contains("sekisho tpcc load"), "{text}");
    }
}
