//! A table of the user's that is read by a column that only grows: each row once, in the order of the column.
//!
//! A row that was drawn from a sequence earlier may be committed later. So no row is read before all that could
//! come before it have been committed or have ended: the writers of a moment are known by their locks, and the
//! rows up to the last one of that moment are read when these writers have gone.

use std::collections::BTreeSet;
use std::time::Duration;

use tpcc::Config;

use super::session::{Fault, Session};
use crate::store::StoreError;

/// Parameters of a table that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSpec {
    /// The table, as SQL names it: `prices` or `market.prices`.
    pub table: String,
    /// The column that only grows: whole numbers, each once, drawn by the statement that inserts the row.
    pub column: String,
    /// The columns that a row is read of.
    pub fields: Vec<String>,
    /// Time limit for a statement.
    pub patience: Duration,
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRow {
    /// Its place: the number in the column.
    pub place: i64,
    /// The columns that were asked for, as an object of JSON.
    pub json: String,
}

/// A table of the user's that is read.
#[derive(Debug)]
pub struct Table {
    session: Session,
    place: String,
    /// Its name and its number in the database.
    name: String,
    oid: u32,
    rows: String,
    last: String,
    /// All rows up to this place are final.
    settled: Option<i64>,
    settling: Option<Settling>,
}

/// The last row of a moment, and those who were writing then.
#[derive(Debug)]
struct Settling {
    last: i64,
    writers: BTreeSet<String>,
}

/// What the database says of a table.
const LOOK: &str = "select format('%I.%I', n.nspname, c.relname), c.oid, c.relkind::text, \
     (select format_type(a.atttypid, null) from pg_attribute a \
       where a.attrelid = c.oid and a.attname = $2 and a.attnum > 0 and not a.attisdropped), \
     exists (select from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0] \
       where i.indrelid = c.oid and a.attname = $2 and i.indisunique and i.indisvalid \
         and i.indnkeyatts = 1 and i.indexprs is null and i.indpred is null), \
     array(select a.attname::text from pg_attribute a \
       where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attnum), \
     pg_is_in_recovery() \
     from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = to_regclass($1::text)";

/// Those who write to a table; a transaction that was prepared has no process.
const WRITERS: &str = "select distinct virtualtransaction, pid is null from pg_locks \
     where locktype = 'relation' and relation = $1 and mode = 'RowExclusiveLock' and granted \
       and database = (select oid from pg_database where datname = current_database()) \
       and pid is distinct from pg_backend_pid()";

impl Table {
    /// Looks for the table and its columns.
    ///
    /// # Errors
    /// The database is out of reach; the table is none that can be read so, with the way out.
    pub fn open(config: Config, spec: &TableSpec) -> Result<Table, StoreError> {
        let place = format!("the table {} of PostgreSQL", spec.table);
        let unusable = |cause: String| StoreError::Unusable { place: place.clone(), cause };
        let session = Session::new(config, &place, spec.patience);
        let mut session = session.with_missing("it was there at the start");
        let found = session.rows(LOOK, &[&spec.table, &spec.column]);
        let found = found.map_err(|fault| fault.told(&place))?;
        let Some(row) = found.first() else {
            return Err(unusable("there is no such table: say SCHEMA.TABLE".to_owned()));
        };
        let name: String = row.get(0);
        let (kind, of_column): (String, Option<String>) = (row.get(2), row.get(3));
        let (is_unique, columns, is_standby): (bool, Vec<String>, bool) =
            (row.get(4), row.get(5), row.get(6));
        if is_standby {
            let cause = "a standby does not say who writes: name the primary server";
            return Err(unusable(cause.to_owned()));
        }
        if kind != "r" {
            return Err(unusable("it is no plain table: name the table itself".to_owned()));
        }
        let missing = spec.fields.iter().chain([&spec.column]).find(|it| !columns.contains(it));
        if let Some(missing) = missing {
            let known = columns.join(", ");
            return Err(unusable(format!("it has no column {missing}; it has: {known}")));
        }
        let column = &spec.column;
        if !of_column.as_deref().is_some_and(|it| ["bigint", "integer", "smallint"].contains(&it)) {
            let told = of_column.unwrap_or_default();
            return Err(unusable(format!(
                "the column {column} is {told}: one of whole numbers is wanted, such as `bigint generated \
                 always as identity`"
            )));
        }
        if !is_unique {
            return Err(unusable(format!(
                "the column {column} has no unique index of its own, so that a place in it is none: \
                 `create unique index on {name} ({column})`"
            )));
        }
        let by = quoted(column);
        let fields = spec.fields.iter().map(|it| format!("{}, t.{}", literal(it), quoted(it)));
        let fields = fields.collect::<Vec<_>>().join(", ");
        let rows = format!(
            "select t.{by}::bigint, json_build_object({fields})::text from only {name} t \
             where t.{by} > $1::bigint and t.{by} <= $2::bigint order by t.{by} limit $3::bigint"
        );
        let last = format!("select max(t.{by})::bigint from only {name} t");
        let (oid, settled, settling) = (row.get(1), None, None);
        Ok(Table { session, place, name, oid, rows, last, settled, settling })
    }

    /// The name of the table with its schema.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The next rows after a place, in order, at most so many: none while a writer that may have drawn an earlier
    /// place is at work.
    ///
    /// # Errors
    /// The database is out of reach, or the table has gone.
    pub fn after(&mut self, place: i64, most: usize) -> Result<Vec<TableRow>, StoreError> {
        self.read(place, most).map_err(|fault| fault.told(&self.place))
    }

    fn read(&mut self, place: i64, most: usize) -> Result<Vec<TableRow>, Fault> {
        if self.settled.is_none_or(|settled| settled <= place) {
            self.settle(place)?;
        }
        let Some(settled) = self.settled.filter(|settled| *settled > place) else {
            return Ok(Vec::new());
        };
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = self.session.rows(&self.rows, &[&place, &settled, &most])?;
        let rows: Vec<TableRow> =
            rows.iter().map(|row| TableRow { place: row.get(0), json: row.get(1) }).collect();
        if rows.is_empty() {
            // They were deleted.
            self.settled = None;
        }
        Ok(rows)
    }

    /// Moves the place on up to which all is final, if it can.
    fn settle(&mut self, place: i64) -> Result<(), Fault> {
        if self.settling.is_none() {
            let rows = self.session.rows(&self.last, &[])?;
            let last: Option<i64> = rows.first().and_then(|row| row.get(0));
            let Some(last) = last.filter(|last| *last > place) else { return Ok(()) };
            // After the last row: who draws a place before it has the lock by now, or has gone.
            let (writers, _) = self.writers()?;
            self.settling = Some(Settling { last, writers });
        }
        let (now, has_prepared) = self.writers()?;
        let Some(settling) = &mut self.settling else { return Ok(()) };
        settling.writers.retain(|writer| now.contains(writer));
        if settling.writers.is_empty() && !has_prepared {
            self.settled = Some(settling.last);
            self.settling = None;
        }
        Ok(())
    }

    /// Those who write now, and true if some of them are transactions that were prepared: these have other names
    /// than before.
    fn writers(&mut self) -> Result<(BTreeSet<String>, bool), Fault> {
        let rows = self.session.rows(WRITERS, &[&self.oid])?;
        let has_prepared = rows.iter().any(|row| row.get(1));
        Ok((rows.iter().map(|row| row.get(0)).collect(), has_prepared))
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
