//! The stores by their names, and the way to open one.

use std::path::PathBuf;
use std::sync::Arc;

#[cfg(feature = "cassandra")]
use crate::on_cassandra::OnCassandra;
use crate::on_etcd::OnEtcd;
use crate::on_jungle::OnJungle;
use crate::on_postgres::OnPostgres;
use crate::on_sqlite::OnSqlite;
use crate::post::{Durability, Store, StoreError};

/// True if this build has a client of Cassandra: the feature `cassandra`.
pub const HAS_CASSANDRA: bool = cfg!(feature = "cassandra");

/// A store with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Jungle in this process, in a directory.
    Jungle(PathBuf),
    /// SQLite in this process, in a folder.
    Sqlite(PathBuf),
    /// The PostgreSQL at an address, `postgres://user:password@host:port/database`.
    Postgres(String),
    /// The Cassandra at an address, `HOST:PORT/KEYSPACE`; a build without the feature `cassandra` has no client of it.
    Cassandra(String),
    /// The etcd at an address, `HOST:PORT/PREFIX`; it has the strict class alone.
    Etcd(String),
}

impl Choice {
    /// The name of the store.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Jungle(_) => "jungle",
            Self::Sqlite(_) => "sqlite",
            Self::Postgres(_) => "postgres",
            Self::Cassandra(_) => "cassandra",
            Self::Etcd(_) => "etcd",
        }
    }

    /// The store's own word for a durability class.
    pub fn setting(&self, durability: Durability) -> &'static str {
        match (self, durability) {
            (Self::Jungle(_), Durability::Strict) => "durability sync",
            (Self::Jungle(_), Durability::Relaxed) => "durability interval, 100 ms",
            (Self::Sqlite(_), Durability::Strict) => "WAL, synchronous full",
            (Self::Sqlite(_), Durability::Relaxed) => "WAL, synchronous normal",
            (Self::Postgres(_), Durability::Strict) => "synchronous_commit on",
            (Self::Postgres(_), Durability::Relaxed) => "synchronous_commit off",
            (Self::Cassandra(_), Durability::Strict) => "commitlog_sync batch",
            (Self::Cassandra(_), Durability::Relaxed) => "commitlog_sync periodic, 10 s",
            (Self::Etcd(_), _) => "each write synced",
        }
    }

    /// Opens the store, inside a runtime.
    ///
    /// # Errors
    /// [`StoreError::Open`].
    pub async fn open(&self, durability: Durability) -> Result<Arc<dyn Store>, StoreError> {
        Ok(match self {
            Self::Jungle(folder) => Arc::new(OnJungle::open(folder, durability).await?),
            Self::Sqlite(folder) => Arc::new(OnSqlite::open(folder, durability)?),
            Self::Postgres(url) => Arc::new(OnPostgres::open(url, durability).await?),
            #[cfg(feature = "cassandra")]
            Self::Cassandra(place) => Arc::new(OnCassandra::open(place, durability).await?),
            #[cfg(not(feature = "cassandra"))]
            Self::Cassandra(_) => {
                let cause =
                    "this build has no client of it; build with `--features cassandra`".into();
                return Err(StoreError::Open { store: "cassandra", cause });
            }
            Self::Etcd(place) => Arc::new(OnEtcd::open(place, durability).await?),
        })
    }
}
