//! A table of the user's that is read row by row: each once and in order, whoever writes meanwhile.

use std::time::Duration;

use agents_store::{StoreError, Table, TableSpec};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls};

use crate::postgres::{ask, config, server};

fn opened(table: &str, column: &str, fields: &[&str]) -> Result<Table, StoreError> {
    let spec = TableSpec {
        table: table.to_owned(),
        column: column.to_owned(),
        fields: fields.iter().map(|&it| it.to_owned()).collect(),
        patience: Duration::from_secs(30),
    };
    Table::open(config(server()), &spec)
}

/// A new table of prices.
fn prices(name: &str) -> Table {
    ask(&format!(
        "create table {name} (id bigint generated always as identity primary key, symbol text, \"the price\" \
         numeric)"
    ));
    opened(name, "id", &["symbol", "the price"]).unwrap()
}

/// A session that keeps its transaction.
struct Writer {
    runtime: Runtime,
    client: Client,
}

impl Writer {
    fn new() -> Writer {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let url = server().url();
        let (client, connection) =
            runtime.block_on(tokio_postgres::connect(url.as_str(), NoTls)).unwrap();
        runtime.spawn(connection);
        Writer { runtime, client }
    }

    fn say(&self, sql: &str) {
        self.runtime.block_on(self.client.batch_execute(sql)).unwrap();
    }
}

fn insert(table: &str, symbol: &str) -> String {
    format!("insert into {table} (symbol, \"the price\") values ('{symbol}', 1.50)")
}

/// All that can be read after a place now.
fn rest(table: &mut Table, after: &mut i64) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        let rows = table.after(*after, 3).unwrap();
        if rows.is_empty() {
            return found;
        }
        for row in rows {
            assert!(row.place > *after, "{row:?}");
            *after = row.place;
            let json: serde_json::Value = serde_json::from_str(&row.json).unwrap();
            assert_eq!(json["the price"], 1.5);
            found.push(json["symbol"].as_str().unwrap().to_owned());
        }
    }
}

#[test]
fn rows_come_once_each_and_in_order() {
    let mut table = prices("table_plain");
    let mut after = i64::MIN;
    assert!(rest(&mut table, &mut after).is_empty());
    for n in 0..7 {
        ask(&insert("table_plain", &n.to_string()));
    }
    assert_eq!(rest(&mut table, &mut after), ["0", "1", "2", "3", "4", "5", "6"]);
    assert!(rest(&mut table, &mut after).is_empty());
    // What was undone or deleted leaves a gap, and nothing waits for it.
    ask("begin; insert into table_plain (symbol) values ('no'); rollback");
    ask(&insert("table_plain", "7"));
    ask(&insert("table_plain", "8"));
    ask("delete from table_plain where symbol = '7'");
    assert_eq!(rest(&mut table, &mut after), ["8"]);
    // A new reader goes on behind a place.
    let mut other = opened("public.table_plain", "id", &["symbol", "the price"]).unwrap();
    assert_eq!(rest(&mut other, &mut 5), ["5", "6", "8"]);
}

/// A reader that takes all behind the last row that it saw loses a row that was drawn earlier and is committed later.
#[test]
fn a_row_that_is_committed_late_is_not_passed_over() {
    let mut table = prices("table_late");
    let mut after = i64::MIN;
    let (early, late) = (Writer::new(), Writer::new());
    late.say("begin");
    late.say(&insert("table_late", "drawn first"));
    early.say(&insert("table_late", "drawn second"));
    for _ in 0..3 {
        assert!(rest(&mut table, &mut after).is_empty(), "the first may still come");
    }
    // Who begins to write now is not waited for.
    let later = Writer::new();
    later.say("begin");
    later.say(&insert("table_late", "drawn third"));
    late.say("commit");
    assert_eq!(rest(&mut table, &mut after), ["drawn first", "drawn second"]);
    later.say("commit");
    assert_eq!(rest(&mut table, &mut after), ["drawn third"]);
}

/// A transaction that is prepared has another name than before.
#[test]
fn a_row_of_a_prepared_transaction_is_not_passed_over() {
    let mut table = prices("table_prepared");
    let mut after = i64::MIN;
    let writer = Writer::new();
    writer.say("begin");
    writer.say(&insert("table_prepared", "first"));
    ask(&insert("table_prepared", "second"));
    assert!(rest(&mut table, &mut after).is_empty());
    writer.say("prepare transaction 'of table_prepared'");
    assert!(rest(&mut table, &mut after).is_empty(), "the first may still come");
    ask("commit prepared 'of table_prepared'");
    assert_eq!(rest(&mut table, &mut after), ["first", "second"]);
}

#[test]
fn writers_at_once_lose_no_row() {
    let mut table = prices("table_many");
    let mut after = i64::MIN;
    let mut found = Vec::new();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|own| {
                scope.spawn(move || {
                    let writer = Writer::new();
                    for n in 0..50 {
                        writer.say("begin");
                        writer.say(&insert("table_many", &format!("{own} {n}")));
                        // Some are slow, and some do not mean it.
                        if n % 7 == own {
                            std::thread::sleep(Duration::from_millis(30));
                        }
                        writer.say(if n % 5 == 4 { "rollback" } else { "commit" });
                    }
                })
            })
            .collect();
        while writers.iter().any(|it| !it.is_finished()) {
            found.extend(rest(&mut table, &mut after));
        }
    });
    found.extend(rest(&mut table, &mut after));
    let mut wanted = ask("select symbol from table_many");
    assert_eq!(wanted.len(), 160);
    wanted.sort();
    found.sort();
    assert_eq!(found, wanted);
}

#[test]
fn a_table_that_cannot_be_read_so_is_told_with_the_way_out() {
    ask("create table table_odd (id bigint, at timestamptz unique, n int unique, \"of\" text);
         create view table_seen as select * from table_odd;
         create unique index on table_odd (id, n); create unique index on table_odd (id) where n > 0");
    for (table, column, fields, told) in [
        ("table_none", "id", &[][..], "there is no such table"),
        ("table_seen", "n", &[], "it is no plain table"),
        ("table_odd", "nn", &[], "it has no column nn; it has: id, at, n, of"),
        ("table_odd", "n", &["symbol"], "it has no column symbol"),
        ("table_odd", "at", &[], "the column at is timestamp with time zone: one of whole numbers"),
        ("table_odd", "id", &[], "`create unique index on public.table_odd (id)`"),
    ] {
        let error = opened(table, column, fields).unwrap_err();
        assert!(matches!(error, StoreError::Unusable { .. }), "{error}");
        assert!(error.to_string().contains(told), "{told}: {error}");
    }
    let mut table = opened("table_odd", "n", &["of"]).unwrap();
    ask("drop table table_odd cascade");
    let gone = table.after(0, 1).unwrap_err().to_string();
    assert!(gone.contains("table_odd") && !gone.contains("agents init"), "{gone}");
}
