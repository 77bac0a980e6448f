//! The checks of a TPC-C database hold on data that is right, and each fault that is put into it is
//! found by the checks that must find it, by no other, and named with its row.

use std::time::Duration;

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};
use tpcc::Config;
use tpcc::LoadPlan;
use tpcc::verify::{Check, Part, ROWS_MAX, Verification, VerifyError, verify, verify_with};

use super::{Database, server};

const SCHEMA: &str = include_str!("../fixtures/schema.sql");
const SMALL: &str = include_str!("../fixtures/small.sql");
const POPULATION: &str = include_str!("../fixtures/population.sql");

/// A fault: what it is, the statement that makes it, the checks that find it, and the row that the
/// first of these names.
struct Fault(&'static str, &'static str, &'static [&'static str], &'static str);

const FAULTS: [Fault; 53] = [
    Fault(
        "an order with the number that the district has next",
        "update orders set o_id = 3007 where (o_w_id, o_d_id, o_id) = (1, 3, 3006);
         update order_line set ol_o_id = 3007 where (ol_w_id, ol_d_id, ol_o_id) = (1, 3, 3006);
         update new_order set no_o_id = 3007 where (no_w_id, no_d_id, no_o_id) = (1, 3, 3006)",
        &["condition 2", "condition 3", "order-numbers", "lost-orders"],
        "w 1, d 3: D_NEXT_O_ID 3007, max(O_ID) 3007, max(NO_O_ID) 3007",
    ),
    Fault(
        "a line is missing",
        "delete from order_line where (ol_w_id, ol_d_id, ol_o_id, ol_number) = (2, 4, 3006, 2)",
        &["condition 4", "condition 6", "stock-ytd", "stock-orders"],
        "w 2, d 4: sum(O_OL_CNT) 3030, lines 3029",
    ),
    Fault(
        "all lines of an order are missing",
        "delete from order_line where (ol_w_id, ol_d_id, ol_o_id) = (2, 4, 2500)",
        &["condition 4", "condition 6"],
        "w 2, d 4: sum(O_OL_CNT) 3030, lines 3029",
    ),
    Fault(
        "a line has the wrong number",
        "update order_line set ol_number = 6
         where (ol_w_id, ol_d_id, ol_o_id, ol_number) = (2, 4, 3006, 2)",
        &["condition 6"],
        "w 2, d 4, o 3006: O_OL_CNT 5, lines 5, first 1, last 6",
    ),
    Fault(
        "a payment is lost",
        "delete from history where h_amount = 25.5 and (h_c_w_id, h_c_d_id, h_c_id) = (2, 4, 2)",
        &["condition 8", "condition 9", "condition 10", "payment-count", "paid"],
        "w 2: W_YTD 1404.00, sum(H_AMOUNT) 1378.50",
    ),
    Fault(
        "a balance is overwritten",
        "update customer set c_balance = -77 where (c_w_id, c_d_id, c_id) = (1, 4, 30)",
        &["condition 10", "condition 12"],
        "w 1, d 4, c 30: C_BALANCE -77.00, delivered 0.00, sum(H_AMOUNT) 10.00",
    ),
    Fault(
        "a carrier is NULL",
        "update orders set o_carrier_id = null where (o_w_id, o_d_id, o_id) = (1, 1, 100)",
        &["condition 5", "condition 7"],
        "w 1, d 1, o 100: order 100, O_CARRIER_ID missing, new order missing",
    ),
    Fault(
        "remote stock is booked at home",
        "update stock set s_ytd = s_ytd - 3, s_order_cnt = s_order_cnt - 1,
             s_remote_cnt = s_remote_cnt - 1 where (s_w_id, s_i_id) = (2, 33);
         update stock set s_ytd = s_ytd + 3, s_order_cnt = s_order_cnt + 1
             where (s_w_id, s_i_id) = (1, 33)",
        &["stock-ytd", "stock-orders", "stock-remote"],
        "w 1, i 33: S_YTD 9, sum(OL_QUANTITY) 6",
    ),
    Fault(
        "a new order is missing in the middle",
        "delete from new_order where (no_w_id, no_d_id, no_o_id) = (1, 2, 2500)",
        &["condition 3", "condition 5", "condition 11"],
        "w 1, d 2: min(NO_O_ID) 2104, max(NO_O_ID) 3006, new orders 902",
    ),
    Fault(
        "a district is missing",
        "delete from district where (d_w_id, d_id) = (1, 3)",
        &["condition 1", "condition 2", "condition 9"],
        "w 1: W_YTD 1404.00, sum(D_YTD) 1053.00",
    ),
    Fault(
        "an order is lost with all its parts",
        "delete from orders where (o_w_id, o_d_id, o_id) = (1, 3, 3004);
         delete from order_line where (ol_w_id, ol_d_id, ol_o_id) = (1, 3, 3004);
         delete from new_order where (no_w_id, no_d_id, no_o_id) = (1, 3, 3004)",
        &["condition 3", "order-numbers", "lost-orders", "stock-ytd", "stock-orders"],
        "w 1, d 3: min(NO_O_ID) 2104, max(NO_O_ID) 3006, new orders 902",
    ),
    Fault(
        "a delivery is not counted",
        "update customer set c_delivery_cnt = 0 where (c_w_id, c_d_id, c_id) = (1, 3, 8)",
        &["condition 11", "delivery-count"],
        "w 1, d 3: orders 3006, new orders 903, deliveries 2",
    ),
    Fault(
        "a delivered line has no date",
        "update order_line set ol_delivery_d = null
             where (ol_w_id, ol_d_id, ol_o_id) = (1, 3, 2101)",
        &["condition 7", "condition 10", "condition 12"],
        "w 1, d 3, o 2101: O_CARRIER_ID 4, lines 1, without OL_DELIVERY_D 1",
    ),
    Fault(
        "an order hides that it has a remote line",
        "update orders set o_all_local = 1 where (o_w_id, o_d_id, o_id) = (2, 2, 3003)",
        &["all-local"],
        "w 2, d 2, o 3003: O_ALL_LOCAL 1, remote lines 1",
    ),
    Fault(
        "an amount holds taxes",
        "update order_line set ol_amount = ol_amount * 1.2
             where (ol_w_id, ol_d_id, ol_o_id, ol_number) = (2, 2, 3003, 1)",
        &["line-amount"],
        "w 2, d 2, o 3003, line 1: OL_I_ID 33, OL_AMOUNT 33.30, OL_QUANTITY 3, I_PRICE 9.25",
    ),
    Fault(
        "a payment to nowhere by nobody",
        "insert into history (h_w_id, h_d_id, h_c_w_id, h_c_d_id, h_c_id, h_amount)
             values (9, 1, 1, 1, 31, 5)",
        &["condition 8", "condition 9", "condition 10", "payment-count", "paid"],
        "w 9: W_YTD missing, sum(H_AMOUNT) 5.00",
    ),
    Fault(
        "a new order without an order",
        "insert into new_order (no_w_id, no_d_id, no_o_id) values (1, 1, 3007)",
        &["condition 2", "condition 5", "condition 11"],
        "w 1, d 1: D_NEXT_O_ID 3007, max(O_ID) 3006, max(NO_O_ID) 3007",
    ),
    Fault(
        "an update of a warehouse is lost",
        "update warehouse set w_ytd = w_ytd - 25.5 where w_id = 2",
        &["condition 1", "condition 8"],
        "w 2: W_YTD 1378.50, sum(D_YTD) 1404.00",
    ),
    Fault(
        "a stock runs out",
        "update stock set s_quantity = -3 where (s_w_id, s_i_id) = (2, 90)",
        &["stock-quantity"],
        "w 2, i 90: S_QUANTITY -3",
    ),
    Fault(
        "an amount is NULL",
        "update history set h_amount = null
             where h_amount = 25.5 and (h_c_w_id, h_c_d_id, h_c_id) = (2, 4, 2)",
        &["condition 8", "condition 9", "condition 10", "paid"],
        "w 2: W_YTD 1404.00, sum(H_AMOUNT) missing",
    ),
    Fault(
        "numbers are NULL",
        "update customer set c_balance = null where (c_w_id, c_d_id, c_id) = (1, 1, 1);
         update stock set s_quantity = null where (s_w_id, s_i_id) = (1, 1);
         update order_line set ol_amount = null
             where (ol_w_id, ol_d_id, ol_o_id, ol_number) = (1, 1, 3003, 1)",
        &["condition 10", "condition 12", "line-amount", "stock-quantity"],
        "w 1, d 1, c 1: C_BALANCE missing, delivered 0.00, sum(H_AMOUNT) 10.00",
    ),
    Fault(
        "lines are numbered 0, 2, 3, 4, 5",
        "update order_line set ol_number = 0
         where (ol_w_id, ol_d_id, ol_o_id, ol_number) = (1, 1, 3002, 1)",
        &["condition 6"],
        "w 1, d 1, o 3002: O_OL_CNT 5, lines 5, first 0, last 5",
    ),
    Fault(
        "lines are numbered 1, 3, 3, 4, 5",
        "update order_line set ol_number = 3
         where (ol_w_id, ol_d_id, ol_o_id, ol_number) = (1, 1, 3002, 2)",
        &["condition 6"],
        "w 1, d 1, o 3002: O_OL_CNT 5, lines 5, first 1, last 5",
    ),
    Fault(
        "an eleventh carrier",
        "update orders set o_carrier_id = 11 where (o_w_id, o_d_id, o_id) = (1, 1, 2102)",
        &["carrier"],
        "w 1, d 1, o 2102: O_CARRIER_ID 11",
    ),
    Fault(
        "carrier 0 of an order of the load",
        "update orders set o_carrier_id = 0 where (o_w_id, o_d_id, o_id) = (2, 1, 7)",
        &["carrier"],
        "w 2, d 1, o 7: O_CARRIER_ID 0",
    ),
    Fault(
        "a new order of four lines",
        "update orders set o_ol_cnt = 4 where (o_w_id, o_d_id, o_id) = (1, 2, 3005);
         delete from order_line where (ol_w_id, ol_d_id, ol_o_id, ol_number) = (1, 2, 3005, 5);
         update stock set s_ytd = s_ytd - 3, s_order_cnt = s_order_cnt - 1
             where (s_w_id, s_i_id) = (1, 57)",
        &["order-size"],
        "w 1, d 2, o 3005: O_OL_CNT 4",
    ),
    Fault(
        "a line has the words of another district",
        "update order_line set ol_dist_info = 'of 1 to 3'
         where (ol_w_id, ol_d_id, ol_o_id, ol_number) = (1, 2, 3001, 1)",
        &["line-district"],
        "w 1, d 2, o 3001, line 1: OL_DIST_INFO of 1 to 3, S_DIST_xx of 1 to 2",
    ),
    Fault(
        "a remote line has the words of home",
        "update order_line set ol_dist_info = 'of 1 to 2'
         where (ol_w_id, ol_d_id, ol_o_id, ol_number) = (1, 2, 3003, 2)",
        &["line-district"],
        "w 1, d 2, o 3003, line 2: OL_DIST_INFO of 1 to 2, S_DIST_xx of 2 to 2",
    ),
    Fault(
        "a payment says another place",
        "update history set h_data = 'house1    place4' where h_amount = 25.5
             and (h_c_w_id, h_c_d_id, h_c_id) = (1, 3, 2)",
        &["history-data"],
        "w 1, d 3, c 2: payments 2, with another H_DATA 2, of 12 to 24 characters 2",
    ),
    Fault(
        "a payment says nothing",
        "update history set h_data = null where h_amount = 25.5
             and (h_c_w_id, h_c_d_id, h_c_id) = (1, 3, 2)",
        &["history-data"],
        "w 1, d 3, c 2: payments 2, with another H_DATA 2, of 12 to 24 characters 1",
    ),
    // It is not known what the load wrote there, but how much.
    Fault(
        "a payment of the load says less than it can",
        "update history set h_data = 'xx' where (h_c_w_id, h_c_d_id, h_c_id) = (1, 1, 9)",
        &["history-data"],
        "w 1, d 1, c 9: payments 1, with another H_DATA 1, of 12 to 24 characters 0",
    ),
    Fault(
        "a customer of good credit who never paid has lost what the load wrote",
        "update customer set c_data = 'xx' where (c_w_id, c_d_id, c_id) = (1, 1, 9)",
        &["customer-text"],
        "w 1, d 1, c 9: characters of C_DATA 2",
    ),
    Fault(
        "behind the payments of bad credit there is too little of what the load wrote",
        "update customer set c_data = left(c_data, 310) where (c_w_id, c_d_id, c_id) = (1, 3, 3)",
        &["customer-data"],
        "w 1, d 3, c 3: payments 1, \
         C_DATA 3 3 1 3 2 25.50 of old of old of old of old of old of old of",
    ),
    Fault(
        "a payment of bad credit is not noted",
        "update customer set c_data = repeat('of old ', 50)
             where (c_w_id, c_d_id, c_id) = (1, 3, 3)",
        &["customer-data"],
        "w 1, d 3, c 3: payments 1, \
         C_DATA of old of old of old of old of old of old of old of old of o",
    ),
    Fault(
        "a payment of bad credit is noted with another amount",
        "update customer set c_data = replace(c_data, '25.50', '25.51')
             where (c_w_id, c_d_id, c_id) = (1, 3, 3)",
        &["customer-data"],
        "w 1, d 3, c 3: payments 1, \
         C_DATA 3 3 1 3 2 25.51 of old of old of old of old of old of old of",
    ),
    Fault(
        "an order is yet to come",
        "update orders set o_entry_d = '2999-01-01 00:00:00+00'
             where (o_w_id, o_d_id, o_id) = (1, 1, 3006)",
        &["order-dates"],
        "w 1, d 1, o 3006: O_ENTRY_D 2999-01-01 00:00:00+00, first OL_DELIVERY_D missing, \
         last missing",
    ),
    Fault(
        "an order has no date",
        "update orders set o_entry_d = null where (o_w_id, o_d_id, o_id) = (1, 1, 3006)",
        &["order-dates"],
        "w 1, d 1, o 3006: O_ENTRY_D missing, first OL_DELIVERY_D missing, last missing",
    ),
    Fault(
        "a delivery comes before its order",
        "update orders set o_entry_d = '2020-01-01 00:00:00+00'
             where (o_w_id, o_d_id, o_id) = (1, 1, 5);
         update order_line set ol_delivery_d = '2019-12-31 23:00:00+00'
             where (ol_w_id, ol_d_id, ol_o_id) = (1, 1, 5)",
        &["order-dates", "order-load-dates"],
        "w 1, d 1, o 5: O_ENTRY_D 2020-01-01 00:00:00+00, \
         first OL_DELIVERY_D 2019-12-31 23:00:00+00, last 2019-12-31 23:00:00+00",
    ),
    // Both dates are in range; as one Delivery sets them, they cannot be two.
    Fault(
        "the lines of an order were delivered at different times",
        "update orders set o_ol_cnt = 2 where (o_w_id, o_d_id, o_id) = (1, 1, 2101);
         update order_line set ol_delivery_d = '2020-01-02 00:00:00+00'
             where (ol_w_id, ol_d_id, ol_o_id) = (1, 1, 2101);
         insert into order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id,
                 ol_delivery_d, ol_quantity, ol_amount)
             values (1, 1, 2101, 2, 1, 1, '2020-01-02 00:00:01+00', 5, 0)",
        &["order-dates"],
        "w 1, d 1, o 2101: O_ENTRY_D 2020-01-01 00:00:00+00, \
         first OL_DELIVERY_D 2020-01-02 00:00:00+00, last 2020-01-02 00:00:01+00",
    ),
    Fault(
        "a delivery is yet to come",
        "update order_line set ol_delivery_d = '2999-01-01 00:00:00+00'
             where (ol_w_id, ol_d_id, ol_o_id) = (1, 1, 2101)",
        &["order-dates"],
        "w 1, d 1, o 2101: O_ENTRY_D 2020-01-01 00:00:00+00, \
         first OL_DELIVERY_D 2999-01-01 00:00:00+00, last 2999-01-01 00:00:00+00",
    ),
    // The load is of 2020-01-01, and took five minutes.
    Fault(
        "a new order is older than the load",
        "update orders set o_entry_d = '2019-12-31 12:00:00+00'
             where (o_w_id, o_d_id, o_id) = (1, 1, 3006)",
        &["order-load-dates"],
        "w 1, d 1, o 3006: O_ENTRY_D 2019-12-31 12:00:00+00, first OL_DELIVERY_D missing, \
         last missing, load 2020-01-01 00:00:00+00",
    ),
    Fault(
        "a new order came while the load went on, two minutes before its end",
        "update orders set o_entry_d = '2020-01-01 00:03:00+00'
             where (o_w_id, o_d_id, o_id) = (1, 1, 3006)",
        &["order-load-dates"],
        "w 1, d 1, o 3006: O_ENTRY_D 2020-01-01 00:03:00+00, first OL_DELIVERY_D missing, \
         last missing, load 2020-01-01 00:00:00+00",
    ),
    Fault(
        "an order of the load has another date",
        "update orders set o_entry_d = '2020-01-01 00:00:01+00'
             where (o_w_id, o_d_id, o_id) = (1, 1, 2500)",
        &["order-load-dates"],
        "w 1, d 1, o 2500: O_ENTRY_D 2020-01-01 00:00:01+00, first OL_DELIVERY_D missing, \
         last missing, load 2020-01-01 00:00:00+00",
    ),
    Fault(
        "a delivery is older than the load",
        "update order_line set ol_delivery_d = '2019-06-01 00:00:00+00'
             where (ol_w_id, ol_d_id, ol_o_id) = (1, 1, 2101)",
        &["order-dates", "order-load-dates"],
        "w 1, d 1, o 2101: O_ENTRY_D 2020-01-01 00:00:00+00, \
         first OL_DELIVERY_D 2019-06-01 00:00:00+00, last 2019-06-01 00:00:00+00",
    ),
    Fault(
        "what the load delivered has another date",
        "update order_line set ol_delivery_d = '2020-01-03 00:00:00+00'
             where (ol_w_id, ol_d_id, ol_o_id) = (1, 1, 5)",
        &["order-load-dates"],
        "w 1, d 1, o 5: O_ENTRY_D 2020-01-01 00:00:00+00, first OL_DELIVERY_D \
         2020-01-03 00:00:00+00, last 2020-01-03 00:00:00+00, load 2020-01-01 00:00:00+00",
    ),
    Fault(
        "a customer is older than the load",
        "update customer set c_since = '1990-01-01 00:00:00+00'
             where (c_w_id, c_d_id, c_id) = (1, 1, 9)",
        &["customer-load-date"],
        "w 1, d 1, c 9: C_SINCE 1990-01-01 00:00:00+00, load 2020-01-01 00:00:00+00",
    ),
    Fault(
        "a payment is older than the load",
        "update history set h_date = '1970-01-01 00:00:00+00' where h_amount = 25.5
             and (h_c_w_id, h_c_d_id, h_c_id) = (1, 1, 2)",
        &["payment-load-dates"],
        "w 1, d 1, c 2: payments 2, of the load 1, earlier 1",
    ),
    Fault(
        "the payment of the load has another date",
        "update history set h_date = '2020-01-02 00:00:00+00'
             where (h_c_w_id, h_c_d_id, h_c_id) = (1, 1, 9)",
        &["payment-load-dates"],
        "w 1, d 1, c 9: payments 1, of the load 0, earlier 0",
    ),
    Fault(
        "a customer has no date",
        "update customer set c_since = null where (c_w_id, c_d_id, c_id) = (1, 1, 9)",
        &["customer-date"],
        "w 1, d 1, c 9: C_SINCE missing",
    ),
    Fault(
        "a payment has no date, and its time comes for another",
        "update history set h_date = null where h_amount = 25.5
             and (h_c_w_id, h_c_d_id, h_c_id) = (1, 1, 2);
         update history set h_date = '2999-01-01 00:00:00+00' where h_amount = 25.5
             and (h_c_w_id, h_c_d_id, h_c_id) = (1, 1, 3)",
        &["payment-dates"],
        "w 1, d 1, c 2: payments 2, with H_DATE 1, last 2020-01-01 00:00:00+00",
    ),
    Fault(
        "a row of stock is missing of which nothing was ordered",
        "delete from stock where (s_w_id, s_i_id) = (2, 90)",
        &["stock-rows"],
        "w 2, i 90: row of STOCK missing",
    ),
    Fault(
        "the last order of a district is lost with all its parts",
        "update stock set s_ytd = s_ytd - 3, s_order_cnt = s_order_cnt - 1
             where s_w_id = 2 and s_i_id between 65 and 69;
         delete from orders where (o_w_id, o_d_id, o_id) = (2, 4, 3006);
         delete from order_line where (ol_w_id, ol_d_id, ol_o_id) = (2, 4, 3006);
         delete from new_order where (no_w_id, no_d_id, no_o_id) = (2, 4, 3006)",
        &["condition 2", "lost-orders"],
        "w 2, d 4: D_NEXT_O_ID 3007, max(O_ID) 3005, max(NO_O_ID) 3005",
    ),
    Fault(
        "the load never came to its end",
        "update tpcc_load set finished_at = null",
        &["load-finished"],
        "warehouses 2: seed 1, finished missing",
    ),
];

/// Connections to the databases of the tests' server.
struct Bench {
    runtime: Runtime,
}

impl Bench {
    fn new() -> Bench {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Bench { runtime }
    }

    /// A connection to a database; it ends when dropped.
    async fn connect(&self, database: &str) -> Client {
        let mut config: Config = server().socket_url().as_str().parse().unwrap();
        let (client, connection) = config.dbname(database).connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    async fn run(&self, database: &str, sql: &str) {
        let client = self.connect(database).await;
        client.batch_execute(sql).await.unwrap();
        drop(client);
        // A copy of a database wants nobody in it.
        let admin = self.connect("postgres").await;
        let busy = "select count(*) from pg_stat_activity where datname = $1";
        while admin.query_one(busy, &[&database]).await.unwrap().get::<_, i64>(0) > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    async fn make(&self, database: &str, from: &str) {
        let client = self.connect("postgres").await;
        let sql = format!("create database {database} template {from}");
        client.batch_execute(&sql).await.unwrap();
    }

    async fn verify(&self, database: &str, part: Part) -> Result<Verification, VerifyError> {
        verify_with(&mut self.connect(database).await, &[part], &mut |_, _| {}).await
    }
}

fn names(found: &Verification) -> Vec<String> {
    found.failed().map(|outcome| outcome.check.name()).collect()
}

fn first_row(found: &Verification) -> String {
    let rows = found.failed().next().map(|outcome| &outcome.rows[0]);
    rows.map_or(String::new(), |row| format!("{}: {}", row.row, row.says))
}

#[test]
fn each_fault_is_found_by_the_right_conditions_and_named() {
    let bench = Bench::new();
    bench.runtime.block_on(async {
        bench.make("small", "template0").await;
        bench.run("small", &format!("{SCHEMA}{SMALL}")).await;
        let right = bench.verify("small", Part::Conditions).await.unwrap();
        assert!(right.holds(), "{:?}", right.failed().collect::<Vec<_>>());
        assert_eq!((right.warehouses, right.outcomes.len()), (2, 37));
        assert_eq!(right.outcomes[1].check.name(), "condition 1");
        assert!(right.not_asked.is_empty(), "{:?}", right.not_asked);
        let (mut found_by, mut wrong) = (Vec::new(), Vec::new());
        for (number, Fault(what, sql, checks, row)) in FAULTS.iter().enumerate() {
            let copy = format!("fault_{number}");
            bench.make(&copy, "small").await;
            bench.run(&copy, sql).await;
            let found = bench.verify(&copy, Part::Conditions).await.unwrap();
            if names(&found) != *checks || first_row(&found) != *row {
                wrong.push(format!("{what}: {:?}, {}", names(&found), first_row(&found)));
            }
            found_by.extend(names(&found));
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        for outcome in &right.outcomes {
            assert!(found_by.contains(&outcome.check.name()), "no fault breaks {outcome:?}");
        }
    });
}

/// Thirty payments are more than C_DATA holds: the last is there, the first is not.
#[test]
fn of_more_payments_than_c_data_holds_those_that_are_there_are_looked_at() {
    let bench = Bench::new();
    bench.runtime.block_on(async {
        bench.make("often", "template0").await;
        let pay = "do $$ begin for k in 1..30 loop
            update warehouse set w_ytd = w_ytd + 100 + k where w_id = 1;
            update district set d_ytd = d_ytd + 100 + k where (d_w_id, d_id) = (1, 2);
            update customer set c_balance = c_balance - 100 - k,
                c_ytd_payment = c_ytd_payment + 100 + k, c_payment_cnt = c_payment_cnt + 1,
                c_data = left(concat_ws(' ', c_id, c_d_id, c_w_id, 2, 1,
                    (100 + k)::numeric(6, 2), c_data), 500)
                where (c_w_id, c_d_id, c_id) = (1, 1, 3);
            insert into history (h_w_id, h_d_id, h_c_w_id, h_c_d_id, h_c_id, h_amount, h_data)
                values (1, 2, 1, 1, 3, 100 + k, 'house1    place2');
            end loop; end $$";
        bench.run("often", &format!("{SCHEMA}{SMALL}{pay}")).await;
        let right = bench.verify("often", Part::Conditions).await.unwrap();
        assert!(right.holds(), "{:?}", right.failed().collect::<Vec<_>>());
        let wrong = "update customer set c_data = replace(c_data, ' 125.00 ', ' 126.00 ')
            where (c_w_id, c_d_id, c_id) = (1, 1, 3)";
        bench.run("often", wrong).await;
        let found = bench.verify("often", Part::Conditions).await.unwrap();
        assert_eq!(names(&found), ["customer-data"], "126.00 was paid once");
    });
}

#[test]
fn many_rows_are_counted_and_the_first_are_named() {
    let bench = Bench::new();
    bench.runtime.block_on(async {
        bench.make("many", "template0").await;
        bench.run("many", &format!("{SCHEMA}{SMALL}")).await;
        bench.run("many", "update customer set c_payment_cnt = 0 where c_id <= 12").await;
        let found = bench.verify("many", Part::Conditions).await.unwrap();
        let outcome = found.failed().next().unwrap();
        assert_eq!(names(&found), ["payment-count"]);
        assert_eq!((outcome.broken, outcome.rows.len()), (96, ROWS_MAX));
        assert_eq!(outcome.rows[9].row, "w 1, d 1, c 10");
    });
}

#[test]
fn one_snapshot_sees_no_half_of_what_is_committed_meanwhile() {
    let bench = Bench::new();
    bench.runtime.block_on(async {
        bench.make("moving", "template0").await;
        bench.run("moving", &format!("{SCHEMA}{SMALL}")).await;
        let mut client = bench.connect("moving").await;
        let other = bench.connect("moving").await;
        // From its first pass on, the verification stands in a database that is being emptied.
        let (steps, mut stepped) = tokio::sync::mpsc::unbounded_channel();
        let breaking = tokio::spawn(async move {
            stepped.recv().await.unwrap();
            other.batch_execute("delete from stock; delete from order_line").await.unwrap();
        });
        let mut step = |done, _| steps.send(done).unwrap_or_default();
        let found = verify_with(&mut client, &[Part::Conditions], &mut step).await;
        breaking.await.unwrap();
        assert!(found.unwrap().holds());
        assert!(!bench.verify("moving", Part::Conditions).await.unwrap().holds());
    });
}

#[test]
fn a_population_by_the_rules_passes_and_every_rule_can_fail() {
    let bench = Bench::new();
    bench.runtime.block_on(async {
        bench.make("whole", "template0").await;
        bench.run("whole", &format!("{SCHEMA}{POPULATION}")).await;
        for part in [Part::Population, Part::Conditions] {
            let right = bench.verify("whole", part).await.unwrap();
            assert!(right.holds(), "{:?}", right.failed().collect::<Vec<_>>());
        }
        let faults = "
            delete from history where h_c_id = 5;
            update item set i_name = 'short' where i_id = 7;
            update item set i_price = 100.01 where i_id = 8;
            update item set i_data = 'original' || i_data where i_data like '%ORIGINAL%' and i_id < 9999;
            update item set i_data = replace(i_data, 'ORIGINAL', '') || 'aaaaaaaa';
            update district set d_zip = '123456789' where d_id = 2;
            update district set d_tax = 0.2001 where d_id = 3;
            update stock set s_dist_07 = 'x' where s_i_id = 9;
            update stock set s_data = left(s_data, 18) || 'ORIGINAL' where s_i_id < 20000;
            update customer set c_zip = '1234511112' where c_d_id = 1 and c_id = 4;
            update customer set c_credit = 'BC' where c_id % 2 = 0;
            update customer set c_credit_lim = 5 where c_d_id = 1 and c_id = 6;
            update customer set c_first = 'a' where c_d_id = 1 and c_id = 7;
            update customer set c_last = 'BARBARBAR' where c_d_id = 1 and c_id = 1000;
            update tpcc_load set c_load = 58;
            update orders set o_c_id = o_id where o_d_id = 4;
            update orders set o_ol_cnt = 10 where o_ol_cnt > 10;
            update order_line set ol_amount = 0 where ol_d_id = 6 and ol_o_id = 2101 and ol_number = 1;
            update order_line set ol_quantity = 6 where ol_d_id = 6 and ol_o_id = 1 and ol_number = 1;
        ";
        bench.run("whole", faults).await;
        let found = bench.verify("whole", Part::Population).await.unwrap();
        let holding: Vec<String> = (found.outcomes.iter().filter(|one| one.broken == 0))
            .map(|one| one.check.name())
            .collect();
        assert_eq!(holding, [""; 0]);
        let row = |name: &str| {
            let outcome = found.outcomes.iter().find(|one| one.check.name() == name).unwrap();
            format!("{}: {}", outcome.rows[0].row, outcome.rows[0].says)
        };
        assert_eq!(row("cardinalities"), "table history: rows 29990, at least 30000, at most missing");
        assert_eq!(row("item-price"), "i 8: I_PRICE 100.01");
        assert!(row("order-customers").starts_with("w 1, d 4: "), "{}", row("order-customers"));
        assert!(row("last-names").contains("C = 58"), "{}", row("last-names"));
        assert!(row("customer-first-names").starts_with("w 1, d 1, c 1000: "));
        assert!(found.outcomes.iter().all(|one| matches!(one.check, Check::Population(_))));
    });
}

/// Tables by the rules that another program had loaded were said to be no TPC-C tables, and none of
/// the rules was asked.
#[test]
fn of_tables_of_another_program_is_asked_what_can_be() {
    let bench = Bench::new();
    bench.runtime.block_on(async {
        bench.make("theirs", "template0").await;
        bench.run("theirs", &format!("{SCHEMA}{POPULATION} drop table tpcc_load;")).await;
        let asked = |found: &Verification, name: &str| {
            found.outcomes.iter().any(|outcome| outcome.check.name() == name)
        };
        let found = bench.verify("theirs", Part::Population).await.unwrap();
        assert!(found.holds(), "{:?}", found.failed().collect::<Vec<_>>());
        assert!(found.not_asked.is_empty(), "{:?}", found.not_asked);
        assert_eq!((found.warehouses, found.outcomes.len()), (1, 18));
        assert!(asked(&found, "last-names"));
        let found = bench.verify("theirs", Part::Conditions).await.unwrap();
        assert!(found.holds(), "{:?}", found.failed().collect::<Vec<_>>());
        let of_load = ["order-load-dates", "customer-load-date", "payment-load-dates"];
        let not_asked = [&["load-finished"][..], &of_load, &["customer-data"]].concat();
        assert_eq!(found.not_asked, not_asked);
        assert_eq!(found.outcomes.len(), 32);
        assert!(asked(&found, "history-data") && asked(&found, "customer-text"));
        // No C makes the names of one syllable as likely as that.
        let faults = "update customer set c_last = 'BARBARBAR' where c_id between 1500 and 1700;
            delete from stock where s_i_id = 7";
        bench.run("theirs", faults).await;
        let found = bench.verify("theirs", Part::Population).await.unwrap();
        assert_eq!(names(&found), ["cardinalities", "last-names"]);
    });
}

#[test]
fn a_database_that_is_not_ours_is_refused() {
    let bench = Bench::new();
    bench.runtime.block_on(async {
        bench.make("strange", "template0").await;
        let error = bench.verify("strange", Part::Conditions).await.unwrap_err();
        assert!(error.to_string().contains("no table `warehouse`"), "{error}");
        bench.run("strange", "create table warehouse (w_id int)").await;
        let error = bench.verify("strange", Part::Conditions).await.unwrap_err();
        assert!(error.to_string().contains("no column `warehouse.w_name`"), "{error}");
        bench.run("strange", &format!("drop table warehouse; {SCHEMA}")).await;
        let error = bench.verify("strange", Part::Conditions).await.unwrap_err();
        assert!(matches!(error, VerifyError::Empty), "{error}");
        bench.run("strange", "insert into warehouse (w_id) values (1)").await;
        let error = bench.verify("strange", Part::Population).await.unwrap_err();
        assert!(matches!(error, VerifyError::Load { rows: 0 }), "{error}");
        bench.run("strange", "drop table tpcc_load").await;
        // Without its note the conditions can be checked all the same, and they do not hold.
        assert!(!bench.verify("strange", Part::Conditions).await.unwrap().holds());
    });
}

#[test]
fn what_the_loader_makes_holds_and_has_the_population() {
    let database = Database::new("verified");
    database.load(&LoadPlan::new(3, 1)).unwrap();
    let stop = AtomicBool::new(false);
    let mut steps = Vec::new();
    let parts = [Part::Conditions, Part::Population];
    let found = verify(&database.0, &parts, &stop, &mut |done, of| steps.push((done, of))).unwrap();
    assert!(found.holds(), "{:?}", found.failed().collect::<Vec<_>>());
    assert_eq!((found.warehouses, found.outcomes.len()), (1, 37 + 18));
    let of = steps[0].1;
    assert_eq!(steps, (0..=of).map(|done| (done, of)).collect::<Vec<_>>());
}

#[test]
fn a_verification_can_be_stopped_and_a_server_that_is_not_there_is_named() {
    let bench = Bench::new();
    bench.runtime.block_on(async {
        bench.make("stopped_check", "template0").await;
        // A view in the place of a table, that takes its time.
        let slow = "drop table warehouse; create view warehouse as select 1 w_id, ''::text w_name,
            ''::text w_street_1, ''::text w_street_2, ''::text w_city, ''::text w_state,
            ''::text w_zip, 0.0 w_tax, 0.0 w_ytd, pg_sleep(60)::text slow";
        bench.run("stopped_check", &format!("{SCHEMA} {slow}")).await;
    });
    let mut config: Config = server().url().as_str().parse().unwrap();
    config.dbname("stopped_check");
    let begun = Instant::now();
    let stop = AtomicBool::new(true);
    let error = verify(&config, &[Part::Conditions], &stop, &mut |_, _| {}).unwrap_err();
    assert!(matches!(error, VerifyError::Interrupted), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    let stop = AtomicBool::new(false);
    let nowhere: Config = "postgresql://me:no@127.0.0.1:1/tpcc".parse().unwrap();
    let error = verify(&nowhere, &[Part::Conditions], &stop, &mut |_, _| {}).unwrap_err();
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    let wrong = server().url().as_str().replace("sekisho:", "sekisho:not").parse().unwrap();
    let error = verify(&wrong, &[Part::Conditions], &stop, &mut |_, _| {}).unwrap_err();
    assert!(error.to_string().contains("password"), "{error}");
    let mut missing: Config = server().url().as_str().parse().unwrap();
    missing.dbname("never_made");
    let error = verify(&missing, &[Part::Conditions], &stop, &mut |_, _| {}).unwrap_err();
    assert!(error.to_string().contains("createdb"), "{error}");
}
