//! Meeting of the parts of a run: in the database that all of them load, so that no further port is
//! needed.
//!
//! A part is there as long as its connection holds an advisory lock on its number; a row in
//! `tpcc_part` says what it is there for. What a part that was killed has left is a row without a
//! lock, which nobody heeds. When all are there, one of them lays down the start by the database's
//! clock, to which each measures its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use measure::parts::named;
use measure::{Difference, PartRecord, RunPart};
use tokio_postgres::{Client, Error, IsolationLevel, Transaction};

use super::parts::{self, Present, Standing};
use super::record::Plan;
use super::transactions::reason;

/// A part that is to meet the others.
#[derive(Clone, Copy, Debug)]
pub struct Meeting {
    /// The part, and the number of parts.
    pub part: RunPart,
    /// The time limit of its wait for the others.
    pub patience: Duration,
}

/// Why the parts of a run did not meet.
#[derive(Debug, thiserror::Error)]
pub enum MeetError {
    /// Some did not come.
    #[error(
        "{} of {of} did not come within {patience:?}; start each part with the same arguments, and \
         wait for it longer if need be",
        named(numbers)
    )]
    Missing {
        /// The parts that are missing.
        numbers: Vec<u32>,
        /// The number of parts.
        of: u32,
        /// The time that they were waited for.
        patience: Duration,
    },
    /// They are still in another run.
    #[error(
        "{} of another run still went on after {patience:?}; start again when it has ended",
        named(numbers)
    )]
    UnderWay {
        /// The parts that run.
        numbers: Vec<u32>,
        /// The time that their end was waited for.
        patience: Duration,
    },
    /// Another part waits to run another plan.
    #[error(
        "part {} waits for another plan: its {} is {}, and here it is {}; start all parts with the \
         same arguments", .0.part, .0.what, .0.there, .0.here
    )]
    Differs(Difference),
    /// The same part is there.
    #[error(
        "part {number} is there already, in session {pid} of the server; each part runs once, so end \
         that one or be another part"
    )]
    Twice {
        /// The part.
        number: u32,
        /// The process of the server that serves it.
        pid: i32,
    },
    /// Some parts would have nothing to do.
    #[error("{of} parts are too many for {}: each needs one of its own", measure::figures::count((*warehouses).into(), "warehouse"))]
    TooMany {
        /// The number of parts.
        of: u32,
        /// The number of warehouses.
        warehouses: u32,
    },
    /// The user did not want to wait.
    #[error("interrupted before the other parts had come")]
    Interrupted,
    /// The database does not let them meet.
    #[error("the parts cannot meet in the database: {}", reason(.0))]
    Database(#[from] Error),
}

/// The start that all parts have agreed on.
pub(super) struct Start {
    /// When it is, by this machine's clock.
    pub(super) at: Instant,
    /// The record that is kept of it.
    pub(super) record: PartRecord,
}

/// The first number of our advisory locks: "sekp" in ASCII. The second is a part's number, and 0 for
/// who looks at the table or writes to it.
const LOCKS: i32 = 0x7365_6b70;
/// Interval between a part's looks for the others.
const LOOK: Duration = Duration::from_millis(100);
/// Time that the server may take to notice that a client was killed.
const LINGERS: Duration = Duration::from_secs(2);
/// Lead with which the start is laid down: all parts must have seen it and read the clock by then.
const LEAD_US: i64 = 1_500_000;
/// Number of readings of the clock; the shortest round trip counts.
const READINGS: u32 = 15;

const CREATE: &str = "set local client_min_messages = warning; \
    create table if not exists tpcc_part (number integer primary key, \
    pid integer not null, plan text[] not null, start_us bigint)";
const ENTER: &str = "insert into tpcc_part (number, pid, plan) values ($1, pg_backend_pid(), $2) \
    on conflict (number) do update \
    set pid = excluded.pid, plan = excluded.plan, start_us = excluded.start_us";
/// Rows whose part is there: the session that wrote one holds the lock on its number.
const PRESENT: &str = "select number, plan, start_us from tpcc_part join pg_locks \
    on locktype = 'advisory' and classid = $1::int4::oid and objid = number::oid \
        and objsubid = 2 and granted and pg_locks.pid = tpcc_part.pid \
        and database = (select oid from pg_database where datname = current_database()) \
    order by number";
const TRY_LOCK: &str = "select pg_try_advisory_lock($1, $2)";
const HOLDER: &str = "select pid from pg_locks where locktype = 'advisory' \
    and classid = $1::int4::oid and objid = $2::int4::oid and objsubid = 2 and granted \
    and database = (select oid from pg_database where datname = current_database())";
const CLOCK: &str = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint";

impl Meeting {
    /// Checks that every part has something to do.
    pub(super) fn check(&self, plan: &Plan) -> Result<(), MeetError> {
        let (of, warehouses) = (self.part.of(), plan.warehouses);
        match plan.pace.waits() && of > warehouses {
            true => Err(MeetError::TooMany { of, warehouses }),
            false => Ok(()),
        }
    }

    /// Waits for the other parts, and says when all start. The part is there as long as `client`
    /// is; `waits` is told again and again who is missing.
    pub(super) async fn attend(
        &self,
        client: &mut Client,
        plan: &Plan,
        stop: &AtomicBool,
        waits: &mut dyn FnMut(&[u32]),
    ) -> Result<Start, MeetError> {
        let deadline = Instant::now() + self.patience;
        self.lock(client, stop, deadline).await?;
        self.clear(client).await?;
        let told = parts::told(self.part, plan);
        let mut entered = false;
        loop {
            let standing = self.look(client, &told, &mut entered).await?;
            let ended = Instant::now() >= deadline;
            let patience = self.patience;
            match standing {
                Standing::Starts(start_us) => return self.start(client, start_us).await,
                Standing::Complete => continue,
                Standing::Differs(difference) => return Err(MeetError::Differs(difference)),
                Standing::Missing(numbers) if ended && !numbers.is_empty() => {
                    return Err(MeetError::Missing { numbers, of: self.part.of(), patience });
                }
                Standing::UnderWay(numbers) if ended => {
                    return Err(MeetError::UnderWay { numbers, patience });
                }
                Standing::Missing(numbers) | Standing::UnderWay(numbers) => waits(&numbers),
            }
            pause(stop).await?;
        }
    }

    /// Takes the lock on the part's number, which says that it is there.
    async fn lock(
        &self,
        client: &Client,
        stop: &AtomicBool,
        deadline: Instant,
    ) -> Result<(), MeetError> {
        let number = self.part.number().cast_signed();
        let lingers = Instant::now() + LINGERS;
        loop {
            let row = client.query_one(TRY_LOCK, &[&LOCKS, &number]).await?;
            if row.get(0) {
                return Ok(());
            }
            if Instant::now() >= lingers {
                let runs = self.runs(client).await?;
                if runs && Instant::now() >= deadline {
                    let numbers = vec![self.part.number()];
                    return Err(MeetError::UnderWay { numbers, patience: self.patience });
                }
                let holder = client.query_opt(HOLDER, &[&LOCKS, &number]).await?;
                if let (false, Some(holder)) = (runs, holder) {
                    let pid = holder.get(0);
                    return Err(MeetError::Twice { number: self.part.number(), pid });
                }
            }
            pause(stop).await?;
        }
    }

    /// True if the one that holds the lock on this part's number is in a run.
    async fn runs(&self, client: &Client) -> Result<bool, Error> {
        let there = client.query_one("select to_regclass('tpcc_part') is not null", &[]).await?;
        if !there.get::<_, bool>(0) {
            return Ok(false);
        }
        let present = present(client).await?;
        let own = present.iter().find(|other| other.number == self.part.number());
        Ok(own.is_some_and(|own| own.start_us.is_some()))
    }

    /// Makes the table, and removes what an earlier part of this number has left in it.
    async fn clear(&self, client: &mut Client) -> Result<(), Error> {
        let transaction = alone(client).await?;
        transaction.batch_execute(CREATE).await?;
        let number = self.part.number().cast_signed();
        transaction.execute("delete from tpcc_part where number = $1", &[&number]).await?;
        transaction.commit().await
    }

    /// Looks who is there. Who differs from them does not enter; who completes them lays down the
    /// start.
    async fn look(
        &self,
        client: &mut Client,
        told: &Vec<String>,
        entered: &mut bool,
    ) -> Result<Standing, Error> {
        let transaction = alone(client).await?;
        let mut standing = parts::standing(self.part, told, &present(transaction.client()).await?);
        if matches!(standing, Standing::Missing(_)) && !*entered {
            transaction.execute(ENTER, &[&self.part.number().cast_signed(), told]).await?;
            *entered = true;
            standing = parts::standing(self.part, told, &present(transaction.client()).await?);
        }
        if standing == Standing::Complete {
            let sql = format!(
                "update tpcc_part set start_us = ({CLOCK}) + $1 where number between 1 and $2"
            );
            transaction.execute(&sql, &[&LEAD_US, &self.part.of().cast_signed()]).await?;
        }
        transaction.commit().await?;
        Ok(standing)
    }

    /// The start by this machine's clock, as well as that can be known: the database read its own
    /// within the shortest round trip.
    async fn start(&self, client: &Client, start_us: i64) -> Result<Start, MeetError> {
        let mut best: Option<(Duration, Instant, i64)> = None;
        for _ in 0..READINGS {
            let asked = Instant::now();
            let server_us: i64 = client.query_one(CLOCK, &[]).await?.get(0);
            let half = asked.elapsed() / 2;
            if best.is_none_or(|(least, ..)| half < least) {
                best = Some((half, asked + half, server_us));
            }
        }
        let (error, read, server_us) = best.expect("the clock is read more than once");
        let ahead = start_us - server_us;
        let span = Duration::from_micros(ahead.unsigned_abs());
        let at = if ahead >= 0 { read + span } else { read.checked_sub(span).unwrap_or(read) };
        let record = PartRecord {
            part: self.part,
            start_us,
            clock_error_s: error.as_secs_f64(),
            late_s: 0.0,
        };
        Ok(Start { at, record })
    }
}

/// A transaction in which nobody else looks at the table. Its statements must see what the one before
/// it has written, whatever the database's default.
async fn alone(client: &mut Client) -> Result<Transaction<'_>, Error> {
    let level = IsolationLevel::ReadCommitted;
    let transaction = client.build_transaction().isolation_level(level).start().await?;
    transaction.execute("select pg_advisory_xact_lock($1, 0)", &[&LOCKS]).await?;
    Ok(transaction)
}

/// Those who are there.
async fn present(client: &Client) -> Result<Vec<Present>, Error> {
    let rows = client.query(PRESENT, &[&LOCKS]).await?;
    let present = |row: &tokio_postgres::Row| Present {
        number: row.get::<_, i32>(0).cast_unsigned(),
        plan: row.get(1),
        start_us: row.get(2),
    };
    Ok(rows.iter().map(present).collect())
}

async fn pause(stop: &AtomicBool) -> Result<(), MeetError> {
    if stop.load(Ordering::Relaxed) {
        return Err(MeetError::Interrupted);
    }
    tokio::time::sleep(LOOK).await;
    Ok(())
}
