//! The note that a load of ours leaves in the database, and none of another program does.

use tokio_postgres::Transaction;

use super::{VerifyError, asking};

/// Demand on a load of ours.
#[derive(Clone, Copy)]
pub(super) struct Note {
    pub(super) warehouses: i64,
    /// The constant C of its last names.
    pub(super) c_load: i64,
}

impl Note {
    /// The note of the load; none where the tables are another program's.
    pub(super) async fn read(transaction: &Transaction<'_>) -> Result<Option<Note>, VerifyError> {
        let wrong = || asking("the note of its load");
        let there = "select to_regclass('tpcc_load') is not null";
        if !transaction.query_one(there, &[]).await.map_err(wrong())?.get::<_, bool>(0) {
            return Ok(None);
        }
        let note = "select warehouses::bigint, c_load::bigint from tpcc_load";
        let rows = transaction.query(note, &[]).await.map_err(wrong())?;
        let [note] = rows.as_slice() else { return Err(VerifyError::Load { rows: rows.len() }) };
        Ok(Some(Note { warehouses: note.get(0), c_load: note.get(1) }))
    }
}
