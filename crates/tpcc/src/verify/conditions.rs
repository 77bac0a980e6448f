//! The consistency conditions of the specification, and the counters beside them.

use super::Check;
use super::pass::{Pass, Test, total};

/// Conditions on every committed state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// One of the specification's, 1 to 12. The eleventh is stated there for the state right after
    /// the load; here deliveries count, so that it holds later too.
    Consistency(u8),
    /// Order numbers of a district are without a gap: an order lost with all its parts shows.
    OrderNumbers,
    /// O_ALL_LOCAL says whether a line is supplied from elsewhere.
    AllLocal,
    /// OL_AMOUNT is the quantity times the item's price.
    LineAmount,
    /// C_PAYMENT_CNT counts the customer's payments.
    PaymentCount,
    /// C_YTD_PAYMENT is what the customer has paid.
    Paid,
    /// C_DELIVERY_CNT counts the customer's deliveries.
    DeliveryCount,
    /// S_YTD is what was ordered of the stock.
    StockYtd,
    /// S_ORDER_CNT counts the lines that the stock supplied.
    StockOrders,
    /// S_REMOTE_CNT counts those of other warehouses.
    StockRemote,
    /// S_QUANTITY stays where the refilling of New-Order keeps it.
    StockQuantity,
    /// Each O_ID below the district's next is there: the order that is lost is named.
    LostOrders,
    /// O_CARRIER_ID is one of ten.
    Carrier,
    /// New orders have five to fifteen lines.
    OrderSize,
    /// O_ENTRY_D is there, OL_DELIVERY_D not before it, and neither is yet to come. One Delivery sets
    /// all lines of an order to the current time (2.7.4.2), and no other transaction changes it.
    OrderDates,
    /// C_SINCE is there and not yet to come.
    CustomerDate,
    /// H_DATE is there and not yet to come.
    PaymentDates,
    /// Orders of the load are of its date, and so are the lines that it says were delivered; other
    /// orders and deliveries are not before its end. When another program loaded is not known.
    OrderLoadDates,
    /// C_SINCE is the date of the load, which alone writes it.
    CustomerLoadDate,
    /// One payment of each customer is of the load and has its date; others are not before its end.
    PaymentLoadDates,
    /// H_DATA is what a payment writes, but for the one row that a customer has of the load, which has
    /// 12 to 24 characters (4.3.3.1).
    HistoryData,
    /// C_DATA has as many characters as the load gives it (4.3.3.1). Payments do not change their
    /// number where the credit is good; where it is bad they add to it, up to 500.
    CustomerText,
    /// C_DATA begins with the customer's payments where the credit is bad, and they have left of the
    /// load's what fits. How they are laid out there is each program's own, so it is asked of our tables
    /// only.
    CustomerData,
    /// OL_DIST_INFO is the supplying stock's for the district, of new lines.
    LineDistrict,
    /// Each warehouse has a row of STOCK for each item.
    StockRows,
    /// The note of the load, which our tables have, says that it came to its end.
    LoadFinished,
}

use Condition::{
    AllLocal, Carrier, Consistency, CustomerData, CustomerDate, CustomerLoadDate, CustomerText,
    DeliveryCount, HistoryData, LineAmount, LineDistrict, LoadFinished, LostOrders, OrderDates,
    OrderLoadDates, OrderNumbers, OrderSize, Paid, PaymentCount, PaymentDates, PaymentLoadDates,
    StockOrders, StockQuantity, StockRemote, StockRows, StockYtd,
};

/// All of them, in the order of reports.
const ALL: [(Condition, &str, &str); 37] = [
    (LoadFinished, "load-finished", "the note of the load says that it came to its end"),
    (Consistency(1), "", "W_YTD = sum(D_YTD), per warehouse"),
    (Consistency(2), "", "D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID), per district"),
    (Consistency(3), "", "max(NO_O_ID) - min(NO_O_ID) + 1 = new orders, per district"),
    (Consistency(4), "", "sum(O_OL_CNT) = order lines, per district"),
    (Consistency(5), "", "O_CARRIER_ID is NULL where there is a new order, and only there"),
    (Consistency(6), "", "O_OL_CNT = lines of the order, numbered from 1"),
    (Consistency(7), "", "OL_DELIVERY_D is NULL where O_CARRIER_ID is, and only there"),
    (Consistency(8), "", "W_YTD = sum(H_AMOUNT), per warehouse"),
    (Consistency(9), "", "D_YTD = sum(H_AMOUNT), per district"),
    (Consistency(10), "", "C_BALANCE = delivered OL_AMOUNT - H_AMOUNT, per customer"),
    (Consistency(11), "", "orders - new orders = 2100 + deliveries, per district"),
    (Consistency(12), "", "C_BALANCE + C_YTD_PAYMENT = delivered OL_AMOUNT, per customer"),
    (OrderNumbers, "order-numbers", "O_ID is 1, 2, ... without a gap, per district"),
    (LostOrders, "lost-orders", "each O_ID from 1 to D_NEXT_O_ID - 1 is there"),
    (Carrier, "carrier", "O_CARRIER_ID is 1 to 10 where it is not NULL"),
    (OrderSize, "order-size", "O_OL_CNT is 5 to 15, of new orders"),
    (OrderDates, "order-dates", "O_ENTRY_D <= OL_DELIVERY_D (to a minute) <= now; one an order"),
    (
        OrderLoadDates,
        "order-load-dates",
        "O_ENTRY_D, OL_DELIVERY_D: the load's date in its rows, others from its end on (to a minute)",
    ),
    (AllLocal, "all-local", "O_ALL_LOCAL = 1 where all lines are supplied from home"),
    (LineAmount, "line-amount", "OL_AMOUNT = OL_QUANTITY * I_PRICE, of new lines"),
    (LineDistrict, "line-district", "OL_DIST_INFO = S_DIST_xx of the supplier, of new lines"),
    (CustomerDate, "customer-date", "C_SINCE <= now"),
    (CustomerLoadDate, "customer-load-date", "C_SINCE = the load's date"),
    (CustomerText, "customer-text", "C_DATA has 300 to 500 characters"),
    (PaymentDates, "payment-dates", "H_DATE <= now"),
    (
        PaymentLoadDates,
        "payment-load-dates",
        "H_DATE: the load's date in one row a customer, others from its end on (to a minute)",
    ),
    (
        HistoryData,
        "history-data",
        "H_DATA = W_NAME, 4 spaces, D_NAME, but in one row of the load: 12 to 24 characters",
    ),
    (CustomerData, "customer-data", "C_DATA begins with the payments, where C_CREDIT = BC"),
    (PaymentCount, "payment-count", "C_PAYMENT_CNT = rows of HISTORY, per customer"),
    (Paid, "paid", "C_YTD_PAYMENT = sum(H_AMOUNT), per customer"),
    (DeliveryCount, "delivery-count", "C_DELIVERY_CNT = orders delivered since the load"),
    (StockRows, "stock-rows", "each warehouse has a row of STOCK for each item"),
    (StockYtd, "stock-ytd", "S_YTD = sum(OL_QUANTITY) of new lines, by supplier and item"),
    (StockOrders, "stock-orders", "S_ORDER_CNT = new lines, by supplier and item"),
    (StockRemote, "stock-remote", "S_REMOTE_CNT = new lines of other warehouses"),
    (StockQuantity, "stock-quantity", "S_QUANTITY is 10 to 100"),
];

impl Condition {
    pub(super) fn name(&self) -> String {
        match self {
            Consistency(number) => format!("condition {number}"),
            _ => ALL[self.order()].1.to_owned(),
        }
    }

    pub(super) fn statement(&self) -> &'static str {
        ALL[self.order()].2
    }

    /// Its place among all.
    pub(super) fn order(&self) -> usize {
        ALL.iter().position(|(one, _, _)| one == self).expect("the list has every condition")
    }
}

fn test(
    condition: Condition,
    broken: &'static str,
    says: &'static [(&'static str, &'static str)],
) -> Test {
    Test { check: Check::Condition(condition), broken, says }
}

/// One pass for each kind of row. In their joins `k` is the table that counts, NULL where a row of
/// another table belongs to none of its rows; a check looks at the rows of which the tables that it
/// names have something.
/// The note of a load, and with it what only our transactions write so, is asked of `ours` alone.
pub(super) fn passes(ours: Tables) -> Vec<Pass> {
    let mut passes =
        vec![warehouses(), districts(), orders(ours), lost(), customers(ours), lines()];
    passes.extend([stock(), stock_rows()]);
    if ours == Tables::Ours {
        passes.extend([bad_credit(), note()]);
    }
    passes
}

/// The names of the conditions of which tables of another program are not asked.
pub(super) const OURS_ALONE: [Condition; 5] =
    [LoadFinished, OrderLoadDates, CustomerLoadDate, PaymentLoadDates, CustomerData];

/// The note of our load beside each row: its date, which all of its rows have, and the moment before
/// which nothing else can be. A server's clock may be set back by a minute meanwhile.
const NOTE: &str = "
         cross join (select loaded_at,
             coalesce(finished_at, loaded_at) - interval '1 minute' begins from tpcc_load) note";

/// The program that made the tables, by the note of its load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tables {
    Ours,
    Others,
}

fn warehouses() -> Pass {
    let from = format!(
        "(select w_id w, w_ytd from warehouse) k
         full join (select d_w_id w, {} ytd from district group by 1) d using (w)
         full join (select h_w_id w, {} paid from history group by 1) h using (w)",
        total("d_ytd"),
        total("h_amount"),
    );
    let tests = vec![
        test(
            Consistency(1),
            "coalesce(k.w, d.w) is not null
             and (k.w_ytd is null or k.w_ytd is distinct from d.ytd)",
            &[("W_YTD", "k.w_ytd"), ("sum(D_YTD)", "d.ytd")],
        ),
        test(
            Consistency(8),
            "coalesce(k.w, h.w) is not null
             and (k.w_ytd is null or k.w_ytd is distinct from h.paid)",
            &[("W_YTD", "k.w_ytd"), ("sum(H_AMOUNT)", "h.paid")],
        ),
    ];
    Pass { about: "warehouses", from, key: &[("w", "w")], tests }
}

fn districts() -> Pass {
    let from = format!(
        "(select d_w_id w, d_id d, d_next_o_id, d_ytd from district) k
         full join (select o_w_id w, o_d_id d, count(*) n, min(o_id) lowest, max(o_id) highest,
             {lines} lines from orders group by 1, 2) o using (w, d)
         full join (select no_w_id w, no_d_id d, count(*) n, min(no_o_id) lowest,
             max(no_o_id) highest from new_order group by 1, 2) n using (w, d)
         full join (select ol_w_id w, ol_d_id d, count(*) n from order_line group by 1, 2) l
             using (w, d)
         full join (select h_w_id w, h_d_id d, {paid} paid from history group by 1, 2) h
             using (w, d)
         full join (select c_w_id w, c_d_id d, {delivered} n from customer group by 1, 2) c
             using (w, d)",
        lines = total("o_ol_cnt"),
        paid = total("h_amount"),
        delivered = total("c_delivery_cnt"),
    );
    let tests = vec![
        test(
            Consistency(2),
            "coalesce(k.w, o.w, n.w) is not null
             and (k.d_next_o_id is null or k.d_next_o_id - 1 is distinct from o.highest
             or (n.n is not null and n.highest is distinct from o.highest))",
            &[
                ("D_NEXT_O_ID", "k.d_next_o_id"),
                ("max(O_ID)", "o.highest"),
                ("max(NO_O_ID)", "n.highest"),
            ],
        ),
        test(
            Consistency(3),
            "n.n is not null and n.highest - n.lowest + 1 is distinct from n.n",
            &[("min(NO_O_ID)", "n.lowest"), ("max(NO_O_ID)", "n.highest"), ("new orders", "n.n")],
        ),
        test(
            Consistency(4),
            "o.lines is distinct from l.n",
            &[("sum(O_OL_CNT)", "o.lines"), ("lines", "l.n")],
        ),
        test(
            Consistency(9),
            "coalesce(k.w, h.w) is not null
             and (k.d_ytd is null or k.d_ytd is distinct from h.paid)",
            &[("D_YTD", "k.d_ytd"), ("sum(H_AMOUNT)", "h.paid")],
        ),
        test(
            Consistency(11),
            "coalesce(k.w, o.w, n.w, c.w) is not null
             and coalesce(o.n, 0) - coalesce(n.n, 0) is distinct from 2100 + c.n",
            &[("orders", "o.n"), ("new orders", "n.n"), ("deliveries", "c.n")],
        ),
        test(
            OrderNumbers,
            "coalesce(k.w, o.w) is not null
             and (o.lowest is distinct from 1 or o.highest is distinct from o.n)",
            &[("orders", "o.n"), ("min(O_ID)", "o.lowest"), ("max(O_ID)", "o.highest")],
        ),
    ];
    Pass { about: "districts", from, key: &[("w", "w"), ("d", "d")], tests }
}

fn orders(tables: Tables) -> Pass {
    // A bit for each number that a line has: of n lines the bits 1 to n, or one is missing.
    let mut from =
        "(select o_w_id w, o_d_id d, o_id o, true here, o_carrier_id, o_ol_cnt, o_all_local,
             o_entry_d from orders) k
         full join (select ol_w_id w, ol_d_id d, ol_o_id o, count(*) n, min(ol_number) lowest,
             max(ol_number) highest,
             bit_or(1::bigint << least(greatest(ol_number, 0), 62)::int) numbers,
             min(ol_delivery_d) delivered, max(ol_delivery_d) delivered_last,
             count(*) filter (where ol_delivery_d is null) undelivered,
             count(*) filter (where ol_supply_w_id is distinct from ol_w_id) remote
             from order_line group by 1, 2, 3) l using (w, d, o)
         full join (select no_w_id w, no_d_id d, no_o_id o, true here from new_order) n
             using (w, d, o)"
            .to_owned();
    let mut tests = vec![
        test(
            Consistency(5),
            "case when k.here then (k.o_carrier_id is null) <> (n.here is not null)
             else n.here is not null end",
            &[("order", "k.o"), ("O_CARRIER_ID", "k.o_carrier_id"), ("new order", "n.o")],
        ),
        test(
            Consistency(6),
            "case when k.here then k.o_ol_cnt is distinct from coalesce(l.n, 0)
                 or l.numbers is distinct from (1::bigint << least(l.n + 1, 62)::int) - 2
             else l.n is not null end",
            &[
                ("O_OL_CNT", "k.o_ol_cnt"),
                ("lines", "l.n"),
                ("first", "l.lowest"),
                ("last", "l.highest"),
            ],
        ),
        test(
            Consistency(7),
            "k.here is not null and l.n is not null and l.undelivered
             <> case when k.o_carrier_id is null then l.n else 0 end",
            &[
                ("O_CARRIER_ID", "k.o_carrier_id"),
                ("lines", "l.n"),
                ("without OL_DELIVERY_D", "l.undelivered"),
            ],
        ),
        test(
            AllLocal,
            "k.here is not null and l.n is not null
             and k.o_all_local is distinct from case when l.remote = 0 then 1 else 0 end",
            &[("O_ALL_LOCAL", "k.o_all_local"), ("remote lines", "l.remote")],
        ),
    ];
    tests.extend(order_fields());
    if tables == Tables::Ours {
        from += NOTE;
        tests.push(order_load_dates());
    }
    Pass { about: "orders", from, key: &[("w", "w"), ("d", "d"), ("o", "o")], tests }
}

/// Conditions on an order by itself. A Delivery's date is the beginning of its transaction, which
/// may be a little before that of an order which it sees.
fn order_fields() -> [Test; 3] {
    [
        test(
            Carrier,
            "k.here is not null and k.o_carrier_id is not null
             and k.o_carrier_id not between 1 and 10",
            &[("O_CARRIER_ID", "k.o_carrier_id")],
        ),
        test(
            OrderSize,
            "k.here is not null and k.o > 3000 and (k.o_ol_cnt is null
             or k.o_ol_cnt not between 5 and 15)",
            &[("O_OL_CNT", "k.o_ol_cnt")],
        ),
        test(
            OrderDates,
            "k.here is not null and (k.o_entry_d is null or k.o_entry_d > statement_timestamp()
             or coalesce(l.delivered < k.o_entry_d - interval '1 minute', false)
             or coalesce(l.delivered_last > statement_timestamp(), false)
             or coalesce(l.delivered <> l.delivered_last, false))",
            &[
                ("O_ENTRY_D", "k.o_entry_d"),
                ("first OL_DELIVERY_D", "l.delivered"),
                ("last", "l.delivered_last"),
            ],
        ),
    ]
}

/// The load has delivered the orders up to 2100; those up to 3000 are its too.
fn order_load_dates() -> Test {
    test(
        OrderLoadDates,
        "k.here is not null
         and (coalesce(case when k.o <= 3000 then k.o_entry_d <> loaded_at
             else k.o_entry_d < begins end, false)
         or coalesce(case when k.o <= 2100
             then l.delivered <> loaded_at or l.delivered_last <> loaded_at
             else l.delivered < begins end, false))",
        &[
            ("O_ENTRY_D", "k.o_entry_d"),
            ("first OL_DELIVERY_D", "l.delivered"),
            ("last", "l.delivered_last"),
            ("load", "loaded_at"),
        ],
    )
}

/// The orders that must have been. Where D_NEXT_O_ID is out of all measure, the first thousand of
/// those that are not there say enough.
fn lost() -> Pass {
    let from = "(select d_w_id w, d_id d, o from district
             left join (select o_w_id, o_d_id, max(o_id) highest from orders group by 1, 2) last
                 on (o_w_id, o_d_id) = (d_w_id, d_id)
             cross join lateral generate_series(1,
                 least(d_next_o_id::bigint - 1, coalesce(highest, 0)::bigint + 1000)) o) k
         left join (select o_w_id w, o_d_id d, o_id::bigint o, true here from orders) orders
             using (w, d, o)"
        .to_owned();
    let tests = vec![test(LostOrders, "here is null", &[("row of ORDERS", "here")])];
    Pass { about: "lost orders", from, key: &[("w", "w"), ("d", "d"), ("o", "o")], tests }
}

fn customers(tables: Tables) -> Pass {
    // Nothing but its date tells which payment is of the load.
    let (note, of_load) = match tables {
        Tables::Ours => (
            NOTE,
            ",
             count(*) filter (where h_date = loaded_at) of_load,
             count(*) filter (where h_date <> loaded_at and h_date < begins) early",
        ),
        Tables::Others => ("", ""),
    };
    let from = format!(
        "(select c_w_id w, c_d_id d, c_id c, true here, c_balance, c_ytd_payment, c_payment_cnt,
             c_delivery_cnt, c_since, length(c_data) text_length from customer) k
         full join (select o_w_id w, o_d_id d, o_c_id c, count(*) n,
             count(*) filter (where o_carrier_id is not null and o_id > 2100) deliveries,
             coalesce(sum(amount), 0) amount, coalesce(sum(blank), 0) blank
             from orders left join (select ol_w_id, ol_d_id, ol_o_id,
                 sum(ol_amount) filter (where ol_delivery_d is not null) amount,
                 count(*) filter (where ol_delivery_d is not null and ol_amount is null) blank
                 from order_line group by 1, 2, 3) l
             on (ol_w_id, ol_d_id, ol_o_id) = (o_w_id, o_d_id, o_id)
             group by 1, 2, 3) o using (w, d, c)
         full join (select h_c_w_id w, h_c_d_id d, h_c_id c, count(*) n, {paid} paid,
             count(h_date) dated, max(h_date) latest, count(*) filter (where other) others,
             count(*) filter (where other and length(h_data) between 12 and 24) others_right{of_load}
             from (select history.*, w_id is not null and d_id is not null and rtrim(h_data)
                     is distinct from rtrim(w_name || '    ' || d_name) other
                 from history left join warehouse on w_id = h_w_id
                 left join district on (d_w_id, d_id) = (h_w_id, h_d_id)) paid{note}
             group by 1, 2, 3) h using (w, d, c){note}",
        paid = total("h_amount"),
    );
    let mut tests = customer_sums();
    tests.extend(customer_fields());
    if tables == Tables::Ours {
        tests.extend(customer_load_dates());
    }
    Pass { about: "customers", from, key: &[("w", "w"), ("d", "d"), ("c", "c")], tests }
}

/// Conditions on what a customer's row sums up of others.
fn customer_sums() -> Vec<Test> {
    vec![
        test(
            Consistency(10),
            "k.c_balance is null or o.blank > 0 or k.c_balance is distinct from
             coalesce(o.amount, 0) - case when h.n is null then 0 else h.paid end",
            &[("C_BALANCE", "k.c_balance"), ("delivered", "o.amount"), ("sum(H_AMOUNT)", "h.paid")],
        ),
        test(
            Consistency(12),
            "coalesce(k.w, o.w) is not null and (k.here is null or o.blank > 0
             or k.c_balance + k.c_ytd_payment is distinct from coalesce(o.amount, 0))",
            &[
                ("C_BALANCE", "k.c_balance"),
                ("C_YTD_PAYMENT", "k.c_ytd_payment"),
                ("delivered", "o.amount"),
            ],
        ),
        test(
            PaymentCount,
            "coalesce(k.w, h.w) is not null
             and k.c_payment_cnt is distinct from coalesce(h.n, 0)",
            &[("C_PAYMENT_CNT", "k.c_payment_cnt"), ("payments", "h.n")],
        ),
        test(
            Paid,
            "coalesce(k.w, h.w) is not null and (k.c_ytd_payment is null
             or k.c_ytd_payment is distinct from case when h.n is null then 0 else h.paid end)",
            &[("C_YTD_PAYMENT", "k.c_ytd_payment"), ("sum(H_AMOUNT)", "h.paid")],
        ),
        test(
            DeliveryCount,
            "coalesce(k.w, o.w) is not null
             and k.c_delivery_cnt is distinct from coalesce(o.deliveries, 0)",
            &[("C_DELIVERY_CNT", "k.c_delivery_cnt"), ("deliveries", "o.deliveries")],
        ),
    ]
}

/// Conditions on a customer and the customer's payments by themselves.
fn customer_fields() -> [Test; 4] {
    [
        test(
            CustomerDate,
            "k.here is not null and (k.c_since is null or k.c_since > statement_timestamp())",
            &[("C_SINCE", "k.c_since")],
        ),
        test(
            PaymentDates,
            "h.n is not null and (h.dated <> h.n or h.latest > statement_timestamp())",
            &[("payments", "h.n"), ("with H_DATE", "h.dated"), ("last", "h.latest")],
        ),
        test(
            HistoryData,
            "h.others > 1 or h.others <> h.others_right",
            &[
                ("payments", "h.n"),
                ("with another H_DATA", "h.others"),
                ("of 12 to 24 characters", "h.others_right"),
            ],
        ),
        test(
            CustomerText,
            "k.here is not null and (k.text_length is null
             or k.text_length not between 300 and 500)",
            &[("characters of C_DATA", "k.text_length")],
        ),
    ]
}

fn customer_load_dates() -> [Test; 2] {
    [
        test(
            CustomerLoadDate,
            "k.here is not null and coalesce(k.c_since <> loaded_at, false)",
            &[("C_SINCE", "k.c_since"), ("load", "loaded_at")],
        ),
        test(
            PaymentLoadDates,
            "k.here is not null and h.n is not null and (h.of_load <> 1 or h.early > 0)",
            &[("payments", "h.n"), ("of the load", "h.of_load"), ("earlier", "h.early")],
        ),
    ]
}

/// Customers of bad credit who have paid: C_DATA begins with their payments, six words for each, the
/// last first. Payments at once may begin in another order than they are booked in, so it is
/// asked which they are, and not in which order. Of those that 500 characters do not hold, each that is
/// there as a whole must be one of them. Behind those that it does hold is the load's, of 300 at least.
fn bad_credit() -> Pass {
    let from = "(select c_w_id w, c_d_id d, c_id c, c_data, paid, long from customer
             join (select h_c_w_id, h_c_d_id, h_c_id, array_agg(words order by words) paid,
                 sum(length(words) + 1) - 1 long
                 from (select *, concat_ws(' ', h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id,
                     h_amount) words from history join warehouse on w_id = h_w_id
                     join district on (d_w_id, d_id) = (h_w_id, h_d_id)
                     where h_data = w_name || '    ' || d_name) payments group by 1, 2, 3) h
             on (h_c_w_id, h_c_d_id, h_c_id) = (c_w_id, c_d_id, c_id)
             where c_credit = 'BC') k
         cross join lateral (select coalesce(array_agg(words order by words), '{}') shown from (
             select string_agg(word, ' ' order by place) words, (place - 1) / 6 nth
             from unnest(string_to_array(left(c_data, least(long, 500)::int), ' '))
                 with ordinality word(word, place) group by 2) said
             where long <= 500 or nth < (select (cardinality(string_to_array(left(c_data, 500),
                 ' ')) - 1) / 6)) l"
        .to_owned();
    let broken = "case when long <= 500
             then shown <> paid or length(c_data) < least(500, long + 301) else length(c_data) <> 500 or exists (
             select from unnest(shown) one group by one having count(*) > (
                 select count(*) from unnest(paid) other where other = one)) end";
    let says: &[(&str, &str)] =
        &[("payments", "cardinality(paid)"), ("C_DATA", "left(c_data, 60)")];
    let tests = vec![test(CustomerData, broken, says)];
    Pass { about: "bad credit", from, key: &[("w", "w"), ("d", "d"), ("c", "c")], tests }
}

/// Lines of orders that are newer than the load; those of the load cost what chance said.
fn lines() -> Pass {
    let from =
        "(select ol_w_id w, ol_d_id d, ol_o_id o, ol_number n, ol_i_id, ol_quantity, ol_amount,
             ol_supply_w_id, ol_dist_info from order_line where ol_o_id > 3000) l
         left join item on i_id = ol_i_id
         left join stock on (s_w_id, s_i_id) = (ol_supply_w_id, ol_i_id)
         cross join lateral (select case d when 1 then s_dist_01 when 2 then s_dist_02
             when 3 then s_dist_03 when 4 then s_dist_04 when 5 then s_dist_05 when 6 then s_dist_06
             when 7 then s_dist_07 when 8 then s_dist_08 when 9 then s_dist_09
             when 10 then s_dist_10 end dist) s"
            .to_owned();
    let amount = test(
        LineAmount,
        "ol_amount <> ol_quantity * i_price",
        &[
            ("OL_I_ID", "ol_i_id"),
            ("OL_AMOUNT", "ol_amount"),
            ("OL_QUANTITY", "ol_quantity"),
            ("I_PRICE", "i_price"),
        ],
    );
    let district = test(
        LineDistrict,
        "s_i_id is not null and ol_dist_info is distinct from dist",
        &[("OL_DIST_INFO", "ol_dist_info"), ("S_DIST_xx", "dist")],
    );
    let key = &[("w", "w"), ("d", "d"), ("o", "o"), ("line", "n")];
    Pass { about: "order lines", from, key, tests: vec![amount, district] }
}

/// The load orders without touching the stock, so only newer lines count.
fn stock() -> Pass {
    let from = "(select s_w_id w, s_i_id i, s_quantity, s_ytd, s_order_cnt, s_remote_cnt
             from stock) k
         full join (select ol_supply_w_id w, ol_i_id i, sum(ol_quantity) quantity, count(*) n,
             count(*) filter (where ol_supply_w_id <> ol_w_id) remote
             from order_line where ol_o_id > 3000 group by 1, 2) l using (w, i)"
        .to_owned();
    let tests = vec![
        test(
            StockYtd,
            "k.s_ytd is distinct from coalesce(l.quantity, 0)",
            &[("S_YTD", "k.s_ytd"), ("sum(OL_QUANTITY)", "l.quantity")],
        ),
        test(
            StockOrders,
            "k.s_order_cnt is distinct from coalesce(l.n, 0)",
            &[("S_ORDER_CNT", "k.s_order_cnt"), ("lines", "l.n")],
        ),
        test(
            StockRemote,
            "k.s_remote_cnt is distinct from coalesce(l.remote, 0)",
            &[("S_REMOTE_CNT", "k.s_remote_cnt"), ("remote lines", "l.remote")],
        ),
        test(
            StockQuantity,
            "k.s_quantity not between 10 and 100",
            &[("S_QUANTITY", "k.s_quantity")],
        ),
    ];
    Pass { about: "stock", from, key: &[("w", "w"), ("i", "i")], tests }
}

fn stock_rows() -> Pass {
    let from = "(select w_id w, i_id i from warehouse cross join item) k
         left join (select s_w_id w, s_i_id i, true here from stock) s using (w, i)"
        .to_owned();
    let tests = vec![test(StockRows, "here is null", &[("row of STOCK", "here")])];
    Pass { about: "the rows of stock", from, key: &[("w", "w"), ("i", "i")], tests }
}

fn note() -> Pass {
    let says: &[(&str, &str)] = &[("seed", "seed"), ("finished", "finished_at")];
    let tests = vec![test(LoadFinished, "finished_at is null", says)];
    let key = &[("warehouses", "warehouses")];
    Pass { about: "the note of its load", from: "tpcc_load".to_owned(), key, tests }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_condition_is_tested_once() {
        let tested: Vec<Check> = passes(Tables::Ours)
            .iter()
            .flat_map(|pass| pass.tests.iter().map(|test| test.check))
            .collect();
        for (condition, _, _) in ALL {
            let times = tested.iter().filter(|check| **check == Check::Condition(condition));
            assert_eq!(times.count(), 1, "{condition:?}");
        }
        assert_eq!(tested.len(), ALL.len());
    }
}
