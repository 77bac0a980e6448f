//! Tables as a load leaves them.

use std::sync::atomic::AtomicBool;

use tpcc::{ForeignKeys, Grain, LoadPlan, LoadRecord, Phase, Progress, load, schema};
use workload::tpcc::population::Population;

use super::{Database, start};

/// On a server of its own: while a transaction is open in any database, no vacuum freezes what has
/// been written since it began.
#[test]
fn a_load_has_the_rows_keys_and_records_that_it_should() {
    let server = start();
    let database = Database::on(&server, "whole");
    let plan = LoadPlan { jobs: 2, ..LoadPlan::new(7, 2) };
    let mut told: Vec<Progress> = Vec::new();
    let loaded =
        load(&database.0, &plan, &AtomicBool::new(false), &mut |progress| told.push(progress));
    let loaded = loaded.unwrap();

    let record =
        LoadRecord { seed: 7, warehouses: 2, c_load: Population::new(7).c_load(), complete: true };
    assert_eq!(loaded.record, record);
    let read = database.with(async |client| LoadRecord::read(client).await.unwrap());
    assert_eq!(read, Some(record));
    assert!(loaded.bytes > 200_000_000, "two warehouses take {} bytes", loaded.bytes);
    tells_how_far(&told, loaded.rows);
    has_its_rows(&database, loaded.rows);
    has_its_indexes(&database);
    is_frozen(&database);
    follows_the_rules_that_only_the_database_shows(&database);
}

fn tells_how_far(told: &[Progress], rows: u64) {
    assert!(told.windows(2).all(|two| two[0].phase != two[1].phase || two[0].done <= two[1].done));
    let last = told.iter().rfind(|progress| progress.phase == Phase::Rows).unwrap();
    assert_eq!(last.done, rows);
    assert!(last.of.abs_diff(rows) < rows / 100, "{} rows were expected of {rows}", last.of);
    let middle = told.iter().find(|progress| progress.done > 0 && progress.done < rows).unwrap();
    let left = middle.left().unwrap().as_secs_f64();
    let expected = (middle.of - middle.done) as f64 / middle.rate();
    assert!((left - expected).abs() < 0.01 * expected + 1e-3, "{left} s, not {expected} s");
    let keys = told.last().unwrap();
    assert_eq!((keys.phase, keys.done, keys.of), (Phase::Keys, 9, 9));
}

fn has_its_rows(database: &Database, rows: u64) {
    let population = Population::new(7);
    let lines: usize = (1..=2).map(|warehouse| population.order_lines(warehouse).count()).sum();
    let lines = lines.to_string();
    let mut in_all = 0;
    for (table, count) in [
        ("warehouse", "2"),
        ("district", "20"),
        ("customer", "60000"),
        ("history", "60000"),
        ("orders", "60000"),
        ("new_order", "18000"),
        ("order_line", lines.as_str()),
        ("item", "100000"),
        ("stock", "200000"),
    ] {
        assert_eq!(database.ask(&format!("select count(*) from {table}")), [count], "{table}");
        in_all += count.parse::<u64>().unwrap();
    }
    assert_eq!(rows, in_all, "as many as were reported");
}

fn has_its_indexes(database: &Database) {
    let found = database.ask(
        "select indexrelid::regclass from pg_index \
         where indrelid in (select oid from pg_class where relname not like 'tpcc%') \
         and indrelid::regclass::text !~ '^pg_' and indisvalid \
         order by indexrelid::regclass::text collate \"C\"",
    );
    let mut expected: Vec<String> = schema::TABLES
        .iter()
        .filter(|table| table.key.is_some())
        .map(|table| format!("{}_pkey", table.name))
        .chain(["customer_by_name".into(), "orders_by_customer".into()])
        .collect();
    expected.sort();
    assert_eq!(found, expected);
    // The planner knows what is there, and finds customers by name in the index.
    let plan = database.ask(
        "explain select c_id from customer where c_w_id = 2 and c_d_id = 3 \
         and c_last = 'BARBARBAR' order by c_first",
    );
    assert!(plan[0].contains("customer_by_name"), "{plan:?}");
}

/// Nothing is left for a vacuum during a run: all pages are known as visible to all, and frozen.
fn is_frozen(database: &Database) {
    let sql = "select relname, relpages, relallvisible, reltuples >= 0 from pg_class \
        where relkind = 'r' and relnamespace = 'public'::regnamespace \
        and relname not like 'tpcc%'";
    let rows = database.ask(sql);
    assert_eq!(rows.len(), 9);
    for row in rows {
        let columns: Vec<&str> = row.split('|').collect();
        assert_eq!(columns[1], columns[2], "pages, and those visible to all, of {}", columns[0]);
        assert_eq!(columns[3], "t", "{} has statistics", columns[0]);
    }
    let sql = "create extension pageinspect; \
        select count(*) filter (where t_infomask & 768 <> 768) from generate_series(0, 20) page, \
        heap_page_items(get_raw_page('order_line', page))";
    assert_eq!(database.ask(sql), ["0"], "rows of order_line that are not frozen");
}

fn follows_the_rules_that_only_the_database_shows(database: &Database) {
    for &(sql, expected) in RULES {
        assert_eq!(database.ask(sql), [expected], "{sql}");
    }
}

/// Counts, sums and shares, each with what 4.3.3.1 makes of two warehouses.
const RULES: &[(&str, &str)] = &[
    ("select sum(w_ytd) from warehouse", "600000.00"),
    ("select sum(d_ytd), min(d_next_o_id), max(d_next_o_id) from district", "600000.00|3001|3001"),
    (
        "select count(*) from district join (select o_w_id, o_d_id, max(o_id) m from orders \
          group by 1, 2) o on (o_w_id, o_d_id) = (d_w_id, d_id) and m = d_next_o_id - 1",
        "20",
    ),
    ("select sum(o_ol_cnt) = (select count(*) from order_line) from orders", "t"),
    (
        "select count(*) from orders full join new_order on (no_w_id, no_d_id, no_o_id) = \
          (o_w_id, o_d_id, o_id) where (o_carrier_id is null) is distinct from \
          (no_o_id is not null)",
        "0",
    ),
    (
        "select count(*) from order_line join orders on (ol_w_id, ol_d_id, ol_o_id) = \
          (o_w_id, o_d_id, o_id) where (ol_delivery_d is null) <> (o_carrier_id is null) \
          or (ol_amount = 0) <> (o_carrier_id is not null)",
        "0",
    ),
    ("select count(*) from order_line where ol_quantity <> 5 or ol_supply_w_id <> ol_w_id", "0"),
    (
        "select sum(c_balance), sum(c_ytd_payment), sum(c_credit_lim), min(c_middle), \
          max(c_middle) from customer",
        "-600000.00|600000.00|3000000000.00|OE|OE",
    ),
    ("select sum(c_payment_cnt), sum(c_delivery_cnt) from customer", "60000|0"),
    (
        "select count(*) from (select c_w_id, c_d_id from customer where c_credit = 'BC' \
          group by 1, 2 having count(*) = 300) x",
        "20",
    ),
    (
        "select sum(h_amount), count(distinct (h_c_w_id, h_c_d_id, h_c_id)) from history",
        "600000.00|60000",
    ),
    ("select count(*) from history where (h_c_w_id, h_c_d_id) <> (h_w_id, h_d_id)", "0"),
    ("select count(distinct (o_w_id, o_d_id, o_c_id)), min(o_all_local) from orders", "60000|1"),
    (
        "select string_agg(n::text, ',') from (select count(*) n from stock where s_data like \
          '%ORIGINAL%' group by s_w_id) x",
        "10000,10000",
    ),
    (
        "select sum(s_ytd + s_order_cnt + s_remote_cnt), min(s_quantity), max(s_quantity) \
          from stock",
        "0|10|100",
    ),
    ("select min(i_price), max(i_price) from item", "1.00|100.00"),
    ("select count(*) from customer where c_zip !~ '^[0-9]{4}11111$'", "0"),
    (
        "select count(*) from customer where c_since is distinct from \
          (select loaded_at from tpcc_load)",
        "0",
    ),
    (
        "select max(w_tax) <= 0.2 and min(w_tax) >= 0 and max(c_discount) between 0.49 and 0.5 \
          from warehouse, customer",
        "t",
    ),
];

/// Rows do not depend on how they were brought, and are the population's.
#[test]
fn the_same_seed_gives_the_same_rows() {
    let database = |name: &str, plan: LoadPlan| {
        let database = Database::new(name);
        database.load(&plan).unwrap();
        database
    };
    let two = LoadPlan::new(11, 2);
    let first = database("same_1", LoadPlan { jobs: 3, grain: Grain::Warehouse, ..two });
    let second = database("same_2", LoadPlan { jobs: 1, grain: Grain::Table, ..two });
    let hashes = first.hashes();
    assert_eq!(hashes, second.hashes());
    is_frozen(&second);
    let other = database("same_3", LoadPlan::new(12, 2)).hashes();
    for ((table, here), (_, there)) in hashes.iter().zip(&other) {
        // NEW-ORDER holds nothing that is drawn.
        assert_eq!(here == there, *table == "new_order", "{table} of another seed");
    }
    let population = Population::new(11);
    let customer = population.customers(2).last().unwrap();
    let sql = "select c_first, c_last, c_zip, c_data, (c_discount * 10000)::int from customer \
        where (c_w_id, c_d_id, c_id) = (2, 10, 3000)";
    let expected = format!(
        "{}|{}|{}|{}|{}",
        customer.first, customer.last, customer.address.zip, customer.text, customer.discount
    );
    assert_eq!(first.ask(sql), [expected]);
}

#[test]
fn foreign_keys_are_added_where_asked_for() {
    let database = Database::new("keys");
    let plan = LoadPlan { foreign_keys: ForeignKeys::Added, ..LoadPlan::new(3, 1) };
    database.load(&plan).unwrap();
    let sql = "select conrelid::regclass || ' ' || confrelid::regclass from pg_constraint \
        where contype = 'f' and convalidated order by 1";
    let expected = [
        "customer district",
        "district warehouse",
        "history customer",
        "history district",
        "new_order orders",
        "order_line orders",
        "order_line stock",
        "orders customer",
        "stock item",
        "stock warehouse",
    ];
    assert_eq!(database.ask(sql), expected);
    is_frozen(&database);
}
