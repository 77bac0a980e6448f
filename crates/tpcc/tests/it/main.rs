//! TPC-C against a private PostgreSQL server.
#![allow(clippy::unwrap_used)]

mod holding;
mod isolating;
mod loading;
mod parts;
mod placing;
mod refusing;
mod resuming;
mod running;
mod transacting;
mod tuning;
mod verifying;

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, OnceLock, PoisonError};

use pgtest::Bound;
use postgres::{Private, Settings};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};
use tpcc::{Config, LoadError, LoadPlan, Loaded, load, schema};

/// The server of all tests that do not kill theirs. It ends with this process.
fn server() -> &'static Private {
    static CONNECTIONS: Bound = Bound::of(CONNECTIONS_MAX, SHARE);
    static SERVER: OnceLock<Private> = OnceLock::new();
    CONNECTIONS.enter();
    SERVER.get_or_init(start)
}

/// The connections of a server.
const CONNECTIONS_MAX: usize = 100;
/// The connections that a test may have at once, all of its databases together.
const SHARE: usize = 12;

/// A server that forgets nothing it need not: tests do not wait for a disk.
fn start() -> Private {
    let connections_max = CONNECTIONS_MAX.to_string();
    let parameters = [
        ("fsync", "off"),
        ("shared_buffers", "256MB"),
        ("max_wal_size", "1GB"),
        ("max_connections", &connections_max),
    ];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    Private::start(&Settings { parameters, ..Settings::default() }).unwrap()
}

/// A database of a test's own.
struct Database(Config);

/// A copy that goes with its test: thirty of them would ask for 7 GB of disk.
struct Copied {
    database: Database,
    name: String,
}

impl std::ops::Deref for Copied {
    type Target = Database;

    fn deref(&self) -> &Database {
        &self.database
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let drop = format!("drop database {} with (force)", self.name);
            Database::of(server(), "postgres").ask(&drop);
        }
    }
}

impl Database {
    fn new(name: &str) -> Database {
        Database::on(server(), name)
    }

    fn on(server: &Private, name: &str) -> Database {
        Database::of(server, "postgres").ask(&format!("create database {name}"));
        Database::of(server, name)
    }

    /// One that is there.
    fn of(server: &Private, name: &str) -> Database {
        let mut config: Config = server.url().as_str().parse().unwrap();
        config.dbname(name);
        Database(config)
    }

    /// A database of a test's own that holds two warehouses: a copy of one that is loaded once.
    fn loaded(name: &str) -> Copied {
        static LOADED: OnceLock<()> = OnceLock::new();
        // Its share first: who has one may wait here for who loads it.
        server();
        LOADED.get_or_init(|| {
            Database::new("two_warehouses").load(&LoadPlan::new(7, 2)).map(drop).unwrap();
        });
        let mut config: Config = server().url().as_str().parse().unwrap();
        let copy = format!("create database {name} template two_warehouses strategy file_copy");
        // A copy needs its original to itself, and other tests may be copying.
        static ONE: Mutex<()> = Mutex::new(());
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        Database(config.clone()).ask(&copy);
        drop(one);
        config.dbname(name);
        Copied { database: Database(config), name: name.to_owned() }
    }

    fn load(&self, plan: &LoadPlan) -> Result<Loaded, LoadError> {
        load(&self.0, plan, &AtomicBool::new(false), &mut |_| {})
    }

    /// Runs the work of a client here.
    fn with<T>(&self, work: impl AsyncFnOnce(&Client) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (client, connection) = self.0.connect(NoTls).await.unwrap();
            tokio::spawn(connection);
            work(&client).await
        })
    }

    /// The rows of the last statement that has some, columns divided by `|`.
    fn ask(&self, sql: &str) -> Vec<String> {
        let answer = self.with(async |client| client.simple_query(sql).await.unwrap());
        let row = |message| match message {
            SimpleQueryMessage::Row(row) => {
                let columns = (0..row.len()).map(|at| row.get(at).unwrap_or("null"));
                Some(columns.collect::<Vec<_>>().join("|"))
            }
            _ => None,
        };
        answer.into_iter().filter_map(row).collect()
    }

    /// The contents of the nine tables, whatever the order of their rows and the time of the load:
    /// a number of rows and a sum of their hashes.
    fn hashes(&self) -> Vec<(&'static str, String)> {
        let table = |table: &schema::Table| {
            let columns: Vec<String> = self.ask(&format!(
                "select case when data_type like 'timestamp%' \
                     then column_name || ' = (select loaded_at from tpcc_load)' \
                     else column_name end \
                 from information_schema.columns where table_name = '{}' order by column_name",
                table.name
            ));
            let sql = format!(
                "select count(*), sum(hashtextextended(row({})::text, 0)) from {}",
                columns.join(", "),
                table.name
            );
            (table.name, self.ask(&sql).remove(0))
        };
        schema::TABLES.iter().map(table).collect()
    }

    /// The tables of users, which a load that refuses must leave as they are.
    fn tables(&self) -> Vec<String> {
        self.ask(
            "select relname from pg_class where relkind = 'r' \
                  and relnamespace = 'public'::regnamespace order by 1",
        )
    }
}
