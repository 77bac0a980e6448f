//! A transaction whose end its caller decides, so that others can be let in right before it.
//!
//! The profiles are those of [`Session::perform`]; only what begins and ends them is not theirs.

use tokio_postgres::Client;
use tokio_postgres::types::Type;
use workload::tpcc::Request;

use super::statements::ITEMS;
use super::{Bounds, Profiles, Screen, Session, Trouble};

/// A transaction that has begun. The connection is of no use for others if this is dropped before
/// it was committed or rolled back.
#[derive(Debug)]
pub(crate) struct OpenTransaction<'a> {
    session: &'a Session,
}

impl Session {
    /// Begins a transaction.
    pub(crate) async fn begin(&self) -> Result<OpenTransaction<'_>, Trouble> {
        self.client.batch_execute("begin").await?;
        Ok(OpenTransaction { session: self })
    }

    /// The process of the server that serves this connection.
    pub(crate) async fn backend(&self) -> Result<i32, Trouble> {
        Ok(self.client.query_one("select pg_backend_pid()", &[]).await?.get(0))
    }
}

impl OpenTransaction<'_> {
    /// Runs a profile up to right before its end. A New-Order whose item is not valid has then done
    /// all that precedes its rollback; where the server runs the profile, the server has rolled it
    /// back already, and no lock of it is left.
    pub(crate) async fn work(&self, request: &Request) -> Result<Screen, Trouble> {
        match &self.session.profiles {
            Profiles::Sql(statements) => {
                statements.perform(self.client(), request, Bounds::Callers).await
            }
            Profiles::Functions(functions) => functions.perform(self.client(), request).await,
        }
    }

    /// Reads the prices \[cents\] of items once more.
    pub(crate) async fn prices(&self, items: &[i32]) -> Result<Vec<i64>, Trouble> {
        let rows = self.client().query_typed(ITEMS, &[(&items, Type::INT4_ARRAY)]).await?;
        let mut prices: Vec<(i32, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        prices.sort_unstable();
        Ok(prices.into_iter().map(|(_, cents)| cents).collect())
    }

    /// The connection, within the transaction.
    pub(crate) fn client(&self) -> &Client {
        &self.session.client
    }

    /// Ends it for good.
    pub(crate) async fn commit(self) -> Result<(), Trouble> {
        Ok(self.client().batch_execute("commit").await?)
    }

    /// Ends it as if it had never been.
    pub(crate) async fn rollback(self) -> Result<(), Trouble> {
        Ok(self.client().batch_execute("rollback").await?)
    }
}
