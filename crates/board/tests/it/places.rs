//! Stores for a test: a folder of its own, and private servers with a database for each board.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use board::{Choice, Durability};
use pgtest::Bound;
use postgres::{Private, Settings};
use rivals::Lent;
use tokio_postgres::NoTls;

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A folder that goes with its test.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    pub(crate) fn new() -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("sekisho-board-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// Every store that has a durability class.
    pub(crate) async fn choices(&self, durability: Durability) -> Vec<Choice> {
        let database = database().await;
        let mut all = vec![
            Choice::Jungle(self.0.join("jungle")),
            Choice::Sqlite(self.0.join("sqlite")),
            Choice::Postgres(database),
        ];
        if durability == Durability::Strict {
            all.push(etcd());
        }
        // Its start takes so long that it belongs to the long suite, which has the feature.
        #[cfg(feature = "cassandra")]
        all.push(cassandra(durability));
        all
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// The server of all tests. It ends with the process.
fn server() -> &'static Private {
    // A board has sixteen, those of one that was closed may not have ended, and a test has clients besides.
    static CONNECTIONS: Bound = Bound::of(160, 40);
    static SERVER: OnceLock<Private> = OnceLock::new();
    CONNECTIONS.enter();
    SERVER.get_or_init(|| {
        let parameters = [("fsync", "off"), ("shared_buffers", "32MB"), ("max_connections", "160")];
        let parameters =
            parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Private::start(&Settings { parameters, ..Settings::default() }).unwrap()
    })
}

/// A database of its own; its address.
async fn database() -> String {
    let url = server().url().as_str().to_owned();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    let name = format!("board{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let (front, _) = url.rsplit_once('/').unwrap();
    format!("{front}/{name}")
}

/// A prefix of its own on the etcd of all tests.
fn etcd() -> Choice {
    static SERVER: OnceLock<Lent> = OnceLock::new();
    let server = SERVER.get_or_init(|| Lent::etcd(&rivals::Settings::default(), None).unwrap());
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    Choice::Etcd(format!("{}/board{number}", server.address()))
}

/// A keyspace of its own on the Cassandra of all tests of a class.
#[cfg(feature = "cassandra")]
fn cassandra(durability: Durability) -> Choice {
    use rivals::CommitLog;
    static STRICT: OnceLock<Lent> = OnceLock::new();
    static RELAXED: OnceLock<Lent> = OnceLock::new();
    let (server, commit_log) = match durability {
        Durability::Strict => (&STRICT, CommitLog::Batch),
        Durability::Relaxed => (&RELAXED, CommitLog::Periodic),
    };
    let settings = rivals::Settings::default();
    let server = server.get_or_init(|| Lent::cassandra(&settings, commit_log, 512).unwrap());
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    Choice::Cassandra(format!("{}/board{number}", server.address()))
}
