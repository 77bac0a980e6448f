//! The stores by their names, and the way to open one.

use std::path::PathBuf;
use std::sync::Arc;

use crate::on_jungle::OnJungle;
use crate::on_postgres::OnPostgres;
use crate::on_sqlite::OnSqlite;
use crate::post::{Durability, Store, StoreError};

/// A store with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Jungle in this process, in a directory.
    Jungle(PathBuf),
    /// SQLite in this process, in a folder.
    Sqlite(PathBuf),
    /// The PostgreSQL at an address, `postgres://user:password@host:port/database`.
    Postgres(String),
}

impl Choice {
    /// The name of the store.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Jungle(_) => "jungle",
            Self::Sqlite(_) => "sqlite",
            Self::Postgres(_) => "postgres",
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
        })
    }
}
