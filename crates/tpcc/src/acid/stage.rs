//! The stage on which the tests are played: sessions, the connection that looks on, and what is put
//! back.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::Client;
use workload::tpcc::{Constants, Inputs, Kind, Line, NewOrder, Request, rules};
use workload::{Chance, stream};

use super::scripts::Stuck;
use super::{AcidError, AcidPlan, AcidTest};
use crate::connection::Config;
use crate::loader::LoadRecord;
use crate::server;
use crate::terminals::RunError;
use crate::transactions::{
    Execution, OpenError, Performed, Session, TransactionError, connect, install_functions, reason,
};

/// Time limit for what was sent either to wait for whom it should or to end.
const PATIENCE: Duration = Duration::from_secs(15);
/// Interval between looks at the server's locks.
const LOOK: Duration = Duration::from_millis(3);

/// The database, and who is there beside the transactions under test.
pub(super) struct Stage<'a> {
    config: &'a Config,
    plan: AcidPlan,
    /// Reads what is committed, and who waits for whom.
    pub(super) onlooker: Client,
    warehouse: u32,
    inputs: Inputs,
    chance: Chance,
    /// Statements that put back what a test changes beside its transactions, the last change first.
    undo: Vec<String>,
}

/// A transaction that was sent from a task of its own.
pub(super) struct Sent {
    task: JoinHandle<Result<Performed, TransactionError>>,
    backend: i32,
}

impl<'a> Stage<'a> {
    pub(super) async fn set(config: &'a Config, plan: &AcidPlan) -> Result<Stage<'a>, AcidError> {
        let (_, server) = server::examine(config, 1).await?;
        if plan.execution == Execution::Functions {
            install_functions(config).await.map_err(RunError::Open)?;
        }
        let onlooker = connect(config, 1).await.map_err(RunError::Open)?;
        let failed = |error| AcidError::Begin(RunError::Open(OpenError::Prepare(error)));
        let load = LoadRecord::read(&onlooker).await.map_err(failed)?;
        let load = load.ok_or(RunError::NotLoaded)?;
        // The connection that examined may still be closing; it does nothing any more.
        let others = "select count(*) from pg_stat_activity where datname = current_database() \
             and backend_type = 'client backend' and pid <> pg_backend_pid() and state <> 'idle'";
        let sessions = onlooker.query_one(others, &[]).await.map_err(failed)?.get(0);
        if sessions > 0 {
            return Err(AcidError::Busy { sessions });
        }
        let constants = Constants::for_run(plan.seed, server.c_load);
        Ok(Stage {
            config,
            plan: *plan,
            onlooker,
            warehouse: (plan.seed % u64::from(load.warehouses)) as u32 + 1,
            inputs: Inputs::new(constants, load.warehouses),
            chance: stream(plan.seed, 0),
            undo: Vec::new(),
        })
    }

    pub(super) fn execution(&self) -> Execution {
        self.plan.execution
    }

    /// A session of the plan's kind and level.
    pub(super) async fn session(&self) -> Result<Session, Stuck> {
        let AcidPlan { execution, isolation, .. } = self.plan;
        Session::open(self.config, execution, isolation, 1)
            .await
            .map_err(|error| Stuck::Lost(TransactionError::Lost(error.to_string())))
    }

    /// A connection of somebody who knows nothing of TPC-C.
    pub(super) async fn stranger(&self) -> Result<Client, Stuck> {
        connect(self.config, 1)
            .await
            .map_err(|error| Stuck::Lost(TransactionError::Lost(error.to_string())))
    }

    /// A district and a customer, drawn as terminals draw them, and the seed's warehouse.
    pub(super) fn somebody(&mut self) -> (u32, u8, u32) {
        let drawn = self.drawn();
        (drawn.warehouse, drawn.district, drawn.customer)
    }

    /// An item that is none of `others`.
    pub(super) fn item_beside(&mut self, others: &[Line]) -> u32 {
        let is_other = |line: &Line| others.iter().any(|other| other.item == line.item);
        loop {
            let drawn = self.drawn();
            if let Some(line) = drawn.lines.iter().find(|line| !is_other(line)) {
                return line.item;
            }
        }
    }

    /// An order of a customer, its lines drawn as terminals draw them; all items exist.
    pub(super) fn order(&mut self, (warehouse, district, customer): (u32, u8, u32)) -> NewOrder {
        NewOrder { warehouse, district, customer, lines: self.drawn().lines }
    }

    fn drawn(&mut self) -> NewOrder {
        loop {
            let drawn = self.inputs.draw(Kind::NewOrder, self.warehouse, 1, &mut self.chance);
            let Request::NewOrder(drawn) = drawn else { unreachable!("it was asked for") };
            if drawn.lines.iter().all(|line| line.item != rules::ITEM_UNUSED) {
                return drawn;
            }
        }
    }

    /// Performs a transaction that nobody is in the way of.
    pub(super) async fn perform(&self, request: Request) -> Result<Performed, Stuck> {
        Ok(self.session().await?.perform(&request).await?)
    }

    /// Sends a transaction that may have to wait.
    pub(super) async fn send(&self, request: Request) -> Result<Sent, Stuck> {
        let session = self.session().await?;
        let backend = session.backend().await?;
        let task = tokio::spawn(async move { session.perform(&request).await });
        Ok(Sent { task, backend })
    }

    /// The behaviour of a transaction that was sent, as the server's locks tell, once it does
    /// something.
    pub(super) async fn does(&self, sent: &Sent, blocker: i32) -> Result<String, Stuck> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if sent.task.is_finished() {
                return Ok(DOES_NOT_WAIT.into());
            }
            let asked = "select $2 = any (pg_blocking_pids($1))";
            if self.onlooker.query_one(asked, &[&sent.backend, &blocker]).await?.get(0) {
                return Ok(WAITS.into());
            }
            if Instant::now() > deadline {
                let seconds = PATIENCE.as_secs();
                return Ok(format!("neither waits for it nor ends within {seconds} s"));
            }
            sleep(LOOK).await;
        }
    }

    /// Notes what puts something back; to be called before it is changed.
    pub(super) fn undo_with(&mut self, statement: String) {
        self.undo.push(statement);
    }

    /// Puts back what a test has changed, on a connection of its own: the test may have been left
    /// in the middle.
    pub(super) async fn put_back(&mut self, test: AcidTest) -> Result<(), AcidError> {
        let Some(statement) = self.undo.last().cloned() else { return Ok(()) };
        let failed = |cause: String| AcidError::NotUndone {
            test: test.name(),
            cause,
            statement: statement.clone(),
        };
        let client = connect(self.config, 1).await.map_err(|error| failed(error.to_string()))?;
        while let Some(statement) = self.undo.last() {
            // A transaction of the test that was left in the middle ends when its connection does.
            let done = timeout(PATIENCE, client.batch_execute(statement)).await;
            done.map_err(|_| failed("it waits for somebody".into()))?
                .map_err(|error| failed(reason(&error)))?;
            self.undo.pop();
        }
        Ok(())
    }
}

/// Behaviours of a transaction, in words.
pub(super) const WAITS: &str = "waits for it";
pub(super) const DOES_NOT_WAIT: &str = "does not wait";

impl Sent {
    /// Its end, now that nothing is in its way any more.
    pub(super) async fn ended(self) -> Result<Performed, Stuck> {
        match timeout(PATIENCE, self.task).await {
            Ok(Ok(ended)) => Ok(ended?),
            Ok(Err(panicked)) => std::panic::resume_unwind(panicked.into_panic()),
            Err(_) => {
                let seconds = PATIENCE.as_secs();
                Err(Stuck::Unexpected(format!("no end {seconds} s after the way was free")))
            }
        }
    }

    /// The process that serves it.
    pub(super) fn backend(&self) -> i32 {
        self.backend
    }
}
