//! A table of the user's PostgreSQL as a source of messages: each row is one, in the order of a column that only
//! grows. Its id is its place in that column, so that a row that is offered again is the same message; the place
//! up to which all rows are accepted is kept beside the notifications.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agents_rules::Rules;
use agents_store::{StoreError, Table, TableRow, TableSpec};
use tpcc::Config;

use crate::http::Gateway;
use crate::ids::message_id;
use crate::source::{Offered, offer, write};

/// Pause between two looks at a table that had nothing new, and after a fault of the database.
const EVERY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(1));
/// Most rows that are offered at once.
const ROWS_MAX: usize = 1_000;
/// Time limit for a statement.
const PATIENCE: Duration = Duration::from_secs(30);

/// A table whose rows are messages.
#[derive(Clone, Debug)]
pub struct TableSource {
    /// The message of the rules: its fields are columns of the same names.
    pub message: String,
    /// The database.
    pub config: Config,
    /// The table, as SQL names it.
    pub table: String,
    /// The column that only grows.
    pub column: String,
}

/// A table that is read.
pub(crate) struct Polled {
    spec: TableSource,
    table: Table,
    /// The fields that are read of each row.
    fields: Vec<String>,
    /// File of the place; `None` for memory.
    mark: Option<PathBuf>,
    place: i64,
    /// The cause why it could not be read at the last look, so that it is told once.
    error: Option<String>,
}

/// The cause why a table is no source.
#[derive(Debug)]
pub(crate) enum PolledError {
    Table(StoreError),
    Disk(io::Error),
}

impl Polled {
    /// A table from where it was left, or from its first row.
    ///
    /// # Errors
    /// It cannot be read so; the place cannot be read, or is none.
    pub(crate) fn open(
        spec: TableSource,
        rules: &Rules,
        directory: Option<&Path>,
    ) -> Result<Polled, PolledError> {
        let fields: Vec<String> = rules.fields(&spec.message).map(str::to_owned).collect();
        let table = table(&spec, &fields).map_err(PolledError::Table)?;
        let name = message_id(&["table", &spec.message, table.name(), &spec.column]);
        let mark = directory.map(|directory| directory.join(format!("table-{:032x}", name.0)));
        let place = match mark.as_ref().map(fs::read_to_string) {
            Some(Ok(text)) => text.trim().parse().map_err(|_| {
                let mark = mark.as_deref().unwrap_or(Path::new("")).display();
                PolledError::Disk(io::Error::other(format!(
                    "{mark} is no place in a table; write there the number of the last row that was accepted"
                )))
            })?,
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => {
                return Err(PolledError::Disk(error));
            }
            Some(Err(_)) | None => i64::MIN,
        };
        Ok(Polled { spec, table, fields, mark, place, error: None })
    }

    /// Offers the rows of the table as they come, until the server closes.
    pub(crate) async fn run(mut self, gateway: Arc<Gateway>) {
        while !gateway.is_closing.load(Ordering::Relaxed) {
            let rules = gateway.rules();
            let read = tokio::task::spawn_blocking(move || {
                let rows = self.read(&rules);
                (self, rows)
            });
            // It ends with the runtime alone.
            let Ok((own, rows)) = read.await else { return };
            self = own;
            match rows {
                Ok(rows) if rows.is_empty() => {
                    self.error = None;
                    tokio::time::sleep(EVERY.0).await;
                }
                Ok(rows) => {
                    self.error = None;
                    if !self.accept(rows, &gateway).await {
                        return;
                    }
                }
                Err(error) => {
                    let told = error.to_string();
                    if self.error.as_ref() != Some(&told) {
                        gateway.figures.line_refused(told.clone());
                    }
                    self.error = Some(told);
                    tokio::time::sleep(EVERY.1).await;
                }
            }
        }
    }

    /// The next rows, with the fields that the message has today.
    fn read(&mut self, rules: &Rules) -> Result<Vec<TableRow>, StoreError> {
        if !rules.fields(&self.spec.message).eq(self.fields.iter().map(String::as_str)) {
            let fields: Vec<String> = rules.fields(&self.spec.message).map(str::to_owned).collect();
            self.table = table(&self.spec, &fields)?;
            self.fields = fields;
        }
        self.table.after(self.place, ROWS_MAX)
    }

    /// Offers rows until they are accepted, and keeps the place; false if the server closes before.
    async fn accept(&mut self, rows: Vec<TableRow>, gateway: &Gateway) -> bool {
        let Some(last) = rows.last().map(|row| row.place) else { return true };
        let name = self.table.name().to_owned();
        let mut messages = Vec::new();
        for TableRow { place, json } in rows {
            let told = format!("{name}, {} {place}", self.spec.column);
            let fields = serde_json::from_str(&json).map_err(|error| error.to_string());
            let message = fields.and_then(|fields| {
                let message = gateway.rules().event(&self.spec.message, &fields);
                message.map_err(|error| error.to_string())
            });
            match message {
                Ok(message) => {
                    let parts =
                        ["row", &self.spec.message, &name, &self.spec.column, &place.to_string()];
                    messages.push(Offered { message, id: message_id(&parts), told });
                }
                Err(cause) => gateway.figures.line_refused(format!("{told}: {cause}")),
            }
        }
        if !offer(gateway, &messages).await {
            return false;
        }
        self.place = last;
        if let Some(mark) = &self.mark
            && let Err(error) = write(mark, &format!("{last}\n"))
        {
            gateway.figures.line_refused(format!("{}: {error}", mark.display()));
        }
        true
    }
}

fn table(spec: &TableSource, fields: &[String]) -> Result<Table, StoreError> {
    let (table, column) = (spec.table.clone(), spec.column.clone());
    let of = TableSpec { table, column, fields: fields.to_vec(), patience: PATIENCE };
    Table::open(spec.config.clone(), &of)
}
