//! Terminals in real time: ten a warehouse, each a small state on one agenda in one thread, before
//! far fewer connections.
//!
//! A terminal's moments are its own and are laid down before they come: a transaction's response
//! time begins when the terminal *intends* to send, so that whatever delays it inside the program,
//! the wait for a connection above all, is part of it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use gate::Time;
use measure::{PartRecord, RunPart};
use workload::tpcc::{Constants, Cycle, Inputs, Kind, Request, Terminal, rules};

use super::connection::Config;
use super::intervals::{self, Intervals, Meters};
use super::meeting::{MeetError, Meeting, Start};
use super::parts::Share;
use super::record::{Client, End, Pace, Plan, Record};
use super::server::{self, Monitor};
use super::tally::Tally;
use super::transactions::{
    Delivered, Execution, OpenError, Performed, Screen, Session, TransactionError,
    install_functions,
};
use crate::sys::Alarm;

/// Observer of a run while it goes on.
pub trait Watch {
    /// About once a second: how long it has run, and the New-Orders completed so far.
    fn tick(&mut self, elapsed: Duration, new_orders: u64);

    /// The deferred part of a Delivery has ended: a line of the result file (2.7.2.2).
    fn delivered(&mut self, result: &DeliveryResult);

    /// The run has not begun: these parts of it have not come, or are still in another run.
    fn waits(&mut self, _parts: &[u32]) {}

    /// The reply to a transaction's commit has arrived. Told before it counts: a line of the
    /// success file (3.5.4).
    fn acknowledged(&mut self, _request: &Request, _screen: &Screen) {}
}

/// A line of the result file of Deliveries (2.7.2.2).
#[derive(Clone, Debug, PartialEq)]
pub struct DeliveryResult {
    /// When it was queued.
    pub queued: SystemTime,
    /// W_ID.
    pub warehouse: u32,
    /// O_CARRIER_ID.
    pub carrier: u8,
    /// (D_ID, O_ID) of what was delivered; a district without an order is not there.
    pub delivered: Delivered,
    /// When it was done.
    pub completed: SystemTime,
}

/// Why a run could not begin.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A session could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Fewer warehouses are loaded than are asked for.
    #[error(
        "the run wants {}, and {loaded} are loaded; ask for {loaded}, or load {asked} with `sekisho tpcc \
         load --warehouses {asked} --replace`",
        measure::figures::count((*asked).into(), "warehouse")
    )]
    TooFewWarehouses {
        /// The number that the run wants.
        asked: u32,
        /// The number that there is.
        loaded: u32,
    },
    /// The database was not loaded by us.
    #[error(
        "the database holds no load of TPC-C's tables; load it with `sekisho tpcc load --warehouses N`"
    )]
    NotLoaded,
    /// A load was interrupted.
    #[error(
        "the database was not loaded to the end; go on with `sekisho tpcc load --warehouses {warehouses} \
         --resume`"
    )]
    Incomplete {
        /// The number that it was to have.
        warehouses: u32,
    },
    /// The parts of the run have not met.
    #[error(transparent)]
    Meet(#[from] MeetError),
    /// There is nothing to run.
    #[error("a run needs a warehouse, a connection and a time to measure")]
    Nothing,
    /// The machine refuses what the terminals need.
    #[error("cannot start the terminals: {0}")]
    Machine(#[from] std::io::Error),
}

/// Interval between the loop's looks for a wish to stop, at most.
const LOOK: Duration = Duration::from_millis(100);
/// Limit of a menu's lateness: a thousandth of what its 90th percentile may be (5.2.5.1).
const MENU_SLACK: Duration = Duration::from_millis(2);

/// Time limit of the wait for transactions under way, at the end of a run.
const GRACE: Duration = Duration::from_millis(500);

/// Time limit of the wait for Deliveries that were answered when they were queued.
const GRACE_DEFERRED: Duration = Duration::from_secs(5);

/// Limit of the Deliveries that wait for one warehouse; more are refused and counted as failed.
const LANE_MAX: usize = 10_000;

/// After so many refused transactions a run ends: what the database refuses is not the load.
const FAILED_MAX: u64 = 1_000;

/// Runs a plan against a loaded database, until its end, until `stop` is set, or until the database
/// is lost. In each case there is a record; it says which.
///
/// # Errors
/// If it cannot begin: no connection, no tables, too few warehouses.
pub fn run(
    config: &Config,
    plan: &Plan,
    stop: &AtomicBool,
    watch: &mut dyn Watch,
) -> Result<Record, RunError> {
    run_terminals(config, plan, None, stop, watch)
}

/// Runs the terminals of one part of a plan, once all parts have come to the same database. What
/// the parts ask for together is what [`run()`] asks for. The parts of a run without waits have
/// as many terminals together as they have connections.
///
/// The parts meet in the table `tpcc_part`, which is made where it is missing. When all are there
/// they agree on a start by the database's clock; each record is of a [part](Record::part), and
/// [`Record::merge`] makes one of them.
///
/// # Errors
/// As [`run()`]; and if a part is missing, has another plan, or is there already.
pub fn run_part(
    config: &Config,
    plan: &Plan,
    meeting: &Meeting,
    stop: &AtomicBool,
    watch: &mut dyn Watch,
) -> Result<Record, RunError> {
    meeting.check(plan)?;
    run_terminals(config, plan, Some(meeting), stop, watch)
}

fn run_terminals(
    config: &Config,
    plan: &Plan,
    meeting: Option<&Meeting>,
    stop: &AtomicBool,
    watch: &mut dyn Watch,
) -> Result<Record, RunError> {
    if plan.warehouses == 0 || plan.connections == 0 || plan.measure.is_zero() {
        return Err(RunError::Nothing);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut monitor, server) = server::examine(config, plan.warehouses).await?;
        if plan.execution == Execution::Functions {
            install_functions(config).await?;
        }
        let mut idle = Vec::with_capacity(plan.connections as usize);
        for nth in 1..=plan.connections {
            idle.push(Session::open(config, plan.execution, plan.isolation, nth).await?);
        }
        load::host::set_timer_slack_least();
        let mut part = None;
        if let Some(meeting) = meeting {
            let mut waits = |missing: &[u32]| watch.waits(missing);
            let start = monitor.attend(meeting, plan, stop, &mut waits).await?;
            part = Some(begin(start, stop).await?);
        }
        let seats =
            seats(plan, meeting.map_or(RunPart::WHOLE, |meeting| meeting.part), server.c_load);
        let epoch = part.map_or_else(Instant::now, |(epoch, _)| epoch);
        let mut driver = Driver::new(plan, seats, epoch, idle, monitor, watch)?;
        let (cpu, began) = (load::host::thread_cpu(), driver.epoch);
        let end = std::future::poll_fn(|context| driver.poll(context, stop)).await;
        let cost = Client {
            cpu_s: load::host::thread_cpu().saturating_sub(cpu).as_secs_f64(),
            elapsed_s: began.elapsed().as_secs_f64(),
            transactions: driver.performed,
            lag: Default::default(),
        };
        driver.settle(&end, stop).await;
        let part = part.map(|(_, part)| part);
        Ok(Record { part, ..driver.record(plan, server, end, cost) })
    })
}

/// Waits for the start that the parts have agreed on; when it is, and what is kept of it.
async fn begin(start: Start, stop: &AtomicBool) -> Result<(Instant, PartRecord), MeetError> {
    while let Some(left) = start.at.checked_duration_since(Instant::now()) {
        if stop.load(Ordering::Relaxed) {
            return Err(MeetError::Interrupted);
        }
        tokio::time::sleep(left.min(LOOK)).await;
    }
    let late_s = start.at.elapsed().as_secs_f64();
    Ok((start.at, PartRecord { late_s, ..start.record }))
}

/// Next step of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Its user picks from the menu.
    Pick,
    /// Its user has keyed all in.
    Send,
}

/// When which terminal does what.
///
/// To wake is most of what a terminal costs that rests, and nobody's response time depends on when a
/// form appears. So a user who picks is served when the program is awake anyhow, at most
/// [`MENU_SLACK`] late, which counts as the menu's response time; one who sends is served at once.
#[derive(Default)]
struct Agenda {
    picks: BinaryHeap<Reverse<(Time, u32)>>,
    sends: BinaryHeap<Reverse<(Time, u32)>>,
}

impl Agenda {
    fn push(&mut self, step: Step, at: Time, seat: u32) {
        self.of(step).push(Reverse((at, seat)));
    }

    /// The next terminal whose moment has come, and when that was.
    fn due(&mut self, now: Time) -> Option<(Step, Time, u32)> {
        [Step::Send, Step::Pick].into_iter().find_map(|step| {
            let of = self.of(step);
            of.peek().filter(|next| next.0.0 <= now)?;
            of.pop().map(|Reverse((at, seat))| (step, at, seat))
        })
    }

    /// When to wake at the latest.
    fn wake(&self) -> Time {
        let next = |of: &BinaryHeap<Reverse<(Time, u32)>>| of.peek().map(|next| next.0.0);
        let sends = next(&self.sends).unwrap_or(Time::MAX);
        next(&self.picks).map_or(sends, |pick| sends.min(pick + MENU_SLACK))
    }

    fn of(&mut self, step: Step) -> &mut BinaryHeap<Reverse<(Time, u32)>> {
        match step {
            Step::Pick => &mut self.picks,
            Step::Send => &mut self.sends,
        }
    }
}

/// A terminal of the run.
struct Seat {
    terminal: Terminal,
    /// When its user first picks from the menu.
    begins: Time,
    /// The turn that was picked, until it is sent; then its think time is what is left of it.
    cycle: Option<Cycle>,
    think: Duration,
}

/// A transaction between a terminal and a connection.
struct Job {
    request: Request,
    /// When it was sent, or queued.
    sent: Time,
    /// The terminal that waits for its end; nobody for a Delivery that was queued.
    waits: Option<u32>,
}

/// The Deliveries of a warehouse: one at a time, in the order in which they came.
#[derive(Default)]
struct Lane {
    queue: VecDeque<Job>,
    /// When the one was queued that is under way.
    busy: Option<Time>,
}

/// Something that went on while the loop slept.
enum Finished {
    Transaction(Session, Job, Result<Performed, TransactionError>),
    Looked(Monitor, Option<(i64, i64)>),
}

type Work = Pin<Box<dyn Future<Output = Finished>>>;

struct Driver<'a> {
    pace: Pace,
    epoch: Instant,
    epoch_wall: SystemTime,
    finish: Time,
    seats: Vec<Seat>,
    agenda: Agenda,
    lanes: Vec<Lane>,
    /// Sessions without work; the last used is the next used.
    idle: Vec<Session>,
    waiting: VecDeque<Job>,
    running: FuturesUnordered<Work>,
    alarm: Alarm,
    /// When the alarm rings; [`Time::MAX`] where it is not set.
    alarm_at: Time,
    monitor: Option<Monitor>,
    monitor_at: Time,
    tick_at: Time,
    tally: Tally,
    performed: u64,
    failed: u64,
    watch: &'a mut dyn Watch,
}

impl<'a> Driver<'a> {
    fn new(
        plan: &Plan,
        seats: Vec<Seat>,
        epoch: Instant,
        idle: Vec<Session>,
        monitor: Monitor,
        watch: &'a mut dyn Watch,
    ) -> Result<Driver<'a>, RunError> {
        let (ramp, finish) = (Time::ZERO + plan.ramp, Time::ZERO + plan.ramp + plan.measure);
        let mut agenda = Agenda::default();
        (0..).zip(&seats).for_each(|(nth, seat)| agenda.push(Step::Pick, seat.begins, nth));
        Ok(Driver {
            pace: plan.pace,
            epoch,
            epoch_wall: SystemTime::now() - epoch.elapsed(),
            finish,
            seats,
            agenda,
            lanes: (0..plan.warehouses).map(|_| Lane::default()).collect(),
            idle,
            waiting: VecDeque::new(),
            running: FuturesUnordered::new(),
            alarm: Alarm::new()?,
            alarm_at: Time::MAX,
            monitor: Some(monitor),
            monitor_at: Time::ZERO,
            tick_at: Time::ZERO,
            tally: Tally::new(ramp, finish, plan.bucket(), intervals_of(plan)),
            performed: 0,
            failed: 0,
            watch,
        })
    }

    fn now(&self) -> Time {
        Time::ZERO + self.epoch.elapsed()
    }

    /// One pass of the loop: what has ended, what is due, what can start, when to wake.
    fn poll(&mut self, context: &mut Context<'_>, stop: &AtomicBool) -> Poll<End> {
        loop {
            while let Poll::Ready(Some(finished)) = self.running.poll_next_unpin(context) {
                if let Some(end) = self.finished(finished) {
                    return Poll::Ready(end);
                }
            }
            let now = self.now();
            if now >= self.finish {
                return Poll::Ready(End::Complete);
            }
            if stop.load(Ordering::Relaxed) {
                return Poll::Ready(End::Interrupted(now.as_secs_f64()));
            }
            self.take_due(now);
            if self.start_work(now) {
                continue; // What was started has yet to be polled for the first time.
            }
            if let Err(error) = self.sleep(context, now) {
                let end = End::Failed(now.as_secs_f64(), format!("the clock failed: {error}"));
                return Poll::Ready(end);
            }
            return Poll::Pending;
        }
    }

    /// Sets the alarm for what comes next and registers for its ring.
    fn sleep(&mut self, context: &mut Context<'_>, now: Time) -> std::io::Result<()> {
        let due = self.agenda.wake().min(self.finish).min(now + LOOK);
        if self.alarm.poll(context)? {
            self.alarm_at = Time::MAX;
        }
        // An alarm that rings too early is cheaper than to set it for every change of plan.
        if due < self.alarm_at {
            self.alarm.set(due.since(self.now()))?;
            self.alarm_at = due;
        }
        Ok(())
    }

    /// Lets every terminal act whose moment has come.
    fn take_due(&mut self, now: Time) {
        while let Some((step, due, seat)) = self.agenda.due(now) {
            match step {
                Step::Pick => self.pick(due, seat),
                Step::Send => self.send(due, seat),
            }
        }
        if now >= self.tick_at {
            self.tick_at = now + Duration::from_secs(1);
            self.watch.tick(now.since(Time::ZERO), self.tally.new_orders());
        }
    }

    /// The user picks a transaction, and its form appears: the driver shows it, so that the menu's
    /// response time is how long that took it.
    fn pick(&mut self, due: Time, seat: u32) {
        let now = self.now();
        let at = &mut self.seats[seat as usize];
        let cycle = at.terminal.cycle();
        // What is waited is what is recorded, however long a person would take: no terminal acts
        // before its moment on the agenda, and what it is late counts as response time.
        let keying = self.pace.wait(cycle.keying);
        if self.pace.waits() {
            self.tally.picked(due, now, cycle.request.kind(), keying);
        }
        at.cycle = Some(cycle);
        match self.pace.waits() {
            true => self.agenda.push(Step::Send, now + keying, seat),
            false => self.send(now, seat),
        }
    }

    /// The user sends.
    fn send(&mut self, due: Time, seat: u32) {
        let now = self.now();
        let at = &mut self.seats[seat as usize];
        let cycle = at.cycle.take().expect("a terminal sends what it has picked");
        at.think = cycle.think;
        let kind = cycle.request.kind();
        self.tally.sent(due, now, kind);
        let job = Job { request: cycle.request, sent: due, waits: Some(seat) };
        if kind != Kind::Delivery {
            self.waiting.push_back(job);
            return;
        }
        let lane = job.request.warehouse() as usize - 1;
        if self.lanes[lane].queue.len() >= LANE_MAX {
            self.tally.failed(kind, (due, now), "queue full", "too many Deliveries wait");
            self.failed += 1;
            self.rest(seat, now, kind);
            return;
        }
        // A terminal that waits as people do has its answer as soon as its Delivery is queued. One
        // that never waits would queue without end; it waits for the deferred part.
        let waits = match self.pace.waits() {
            false => Some(seat),
            true => {
                self.tally.answered(kind, due, now, 0);
                self.rest(seat, now, kind);
                None
            }
        };
        self.lanes[lane].queue.push_back(Job { waits, ..job });
        self.next_delivery(lane);
    }

    /// Lets the next Delivery of a warehouse have a connection, if none is under way.
    fn next_delivery(&mut self, lane: usize) {
        let lane = &mut self.lanes[lane];
        if lane.busy.is_none()
            && let Some(job) = lane.queue.pop_front()
        {
            lane.busy = Some(job.sent);
            self.waiting.push_back(job);
        }
    }

    /// The user has the answer, and thinks.
    fn rest(&mut self, seat: u32, now: Time, kind: Kind) {
        let at = &mut self.seats[seat as usize];
        let think = self.pace.wait(at.think);
        match self.pace.waits() {
            true => {
                self.tally.thinks(now, kind, think);
                self.agenda.push(Step::Pick, now + think, seat);
            }
            false => self.pick(now, seat),
        }
    }

    /// Gives waiting transactions to idle connections; whether there were any.
    fn start_work(&mut self, now: Time) -> bool {
        let before = self.running.len();
        while let Some(session) = self.idle.pop() {
            let Some(job) = self.waiting.pop_front() else {
                self.idle.push(session);
                break;
            };
            self.running.push(Box::pin(async move {
                let result = session.perform(&job.request).await;
                Finished::Transaction(session, job, result)
            }));
        }
        if now >= self.monitor_at
            && let Some(monitor) = self.monitor.take()
        {
            self.monitor_at = now + Duration::from_secs(5);
            self.running.push(Box::pin(async move {
                let seen = monitor.checkpoints().await;
                Finished::Looked(monitor, seen)
            }));
        }
        self.running.len() > before
    }

    /// Books what has ended; the end of the run, if that was it.
    fn finished(&mut self, finished: Finished) -> Option<End> {
        let now = self.now();
        let (session, job, result) = match finished {
            Finished::Looked(monitor, seen) => {
                self.monitor = Some(monitor);
                if let Some(counts) = seen {
                    self.tally.checkpoints(now, counts);
                }
                return None;
            }
            Finished::Transaction(session, job, result) => (session, job, result),
        };
        self.idle.push(session);
        let kind = job.request.kind();
        match &result {
            Ok(performed) => {
                self.watch.acknowledged(&job.request, &performed.screen);
                self.performed += 1;
                self.book(&job, performed, now);
            }
            Err(error) => {
                if let Some(end) = self.refused(&job, error, now) {
                    return Some(end);
                }
            }
        }
        if kind == Kind::Delivery {
            let lane = job.request.warehouse() as usize - 1;
            self.lanes[lane].busy = None;
            self.next_delivery(lane);
        }
        if let Some(seat) = job.waits {
            self.rest(seat, now, kind);
        }
        None
    }

    fn book(&mut self, job: &Job, performed: &Performed, now: Time) {
        let kind = job.request.kind();
        if job.waits.is_some() {
            self.tally.answered(kind, job.sent, now, performed.retries);
            self.tally.inputs(job.sent, now, &job.request, &performed.screen);
        } else {
            self.tally.retried(kind, job.sent, performed.retries);
        }
        if let Screen::Delivery(delivered) = &performed.screen {
            self.tally.deferred(job.sent, now, delivered.skipped());
        }
        self.note(job, performed, now);
    }

    /// Writes a Delivery into the result file.
    fn note(&mut self, job: &Job, performed: &Performed, now: Time) {
        if let (Request::Delivery(inputs), Screen::Delivery(delivered)) =
            (&job.request, &performed.screen)
        {
            let moment = |at: Time| self.epoch_wall + at.since(Time::ZERO);
            self.watch.delivered(&DeliveryResult {
                queued: moment(job.sent),
                warehouse: inputs.warehouse,
                carrier: inputs.carrier,
                delivered: delivered.clone(),
                completed: moment(now),
            });
        }
    }

    /// Books what was refused. Without its database, its rows, or room a run cannot go on.
    fn refused(&mut self, job: &Job, error: &TransactionError, now: Time) -> Option<End> {
        let (at, text) = (now.as_secs_f64(), error.to_string());
        let code = match error {
            TransactionError::Lost(_) => return Some(End::Lost(at, text)),
            TransactionError::Missing { .. } => return Some(End::Failed(at, text)),
            // Class 53: the disk is full, or memory is; XX: the server contradicts itself.
            TransactionError::Refused { code, .. } if code.starts_with("53") => {
                return Some(End::Failed(at, format!("{text}; make room and run again")));
            }
            TransactionError::Refused { code, .. } if code.starts_with("XX") => {
                return Some(End::Failed(at, text));
            }
            TransactionError::Refused { code, .. } => code.as_str(),
            TransactionError::GaveUp => "gave up",
        };
        match job.waits {
            Some(_) => self.tally.failed(job.request.kind(), (job.sent, now), code, &text),
            None => self.tally.deferred_failed(job.sent, code, &text),
        }
        self.failed += 1;
        let many = self.failed >= FAILED_MAX;
        many.then(|| End::Failed(at, format!("{FAILED_MAX} transactions were refused: {text}")))
    }

    /// Waits for the transactions under way, and at a run's own end for the Deliveries that were
    /// answered when they were queued. Of the others nothing is counted. What takes longer is left to
    /// the server, which does it without anybody who hears of it, or rolls it back.
    async fn settle(&mut self, end: &End, stop: &AtomicBool) {
        let queued = *end == End::Complete && self.pace.waits();
        let until = Instant::now() + if queued { GRACE_DEFERRED } else { GRACE };
        self.waiting.retain(|job| queued && job.waits.is_none());
        loop {
            if queued {
                self.start_work(Time::ZERO);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || (queued && stop.load(Ordering::Relaxed)) {
                return;
            }
            match tokio::time::timeout(left.min(LOOK), self.running.next()).await {
                Ok(Some(Finished::Transaction(session, job, result))) => {
                    self.idle.push(session);
                    self.settled(&job, result, queued);
                }
                Ok(Some(Finished::Looked(..))) | Err(_) => {}
                Ok(None) => return,
            }
        }
    }

    /// Books what ended after the run: a Delivery that had been answered, and nothing else.
    fn settled(&mut self, job: &Job, result: Result<Performed, TransactionError>, queued: bool) {
        let (now, answered) = (self.now(), job.waits.is_none());
        match &result {
            Ok(performed) => {
                self.watch.acknowledged(&job.request, &performed.screen);
                if let (Screen::Delivery(delivered), true) = (&performed.screen, answered) {
                    self.tally.deferred(job.sent, now, delivered.skipped());
                }
                self.note(job, performed, now);
            }
            Err(TransactionError::Lost(_)) => return,
            Err(error) if answered => {
                self.tally.deferred_failed(job.sent, "after the end", &error.to_string());
            }
            Err(_) => {}
        }
        if answered {
            let lane = job.request.warehouse() as usize - 1;
            self.lanes[lane].busy = None;
            if queued {
                self.next_delivery(lane);
            }
        }
    }

    fn record(self, plan: &Plan, server: super::Server, end: End, cost: Client) -> Record {
        let open: Vec<Time> = self
            .lanes
            .iter()
            .flat_map(|lane| lane.busy.into_iter().chain(lane.queue.iter().map(|job| job.sent)))
            .collect();
        let until = self.now().min(self.finish);
        let parts = self.tally.close(until, &open, rules::DELIVERY_DONE_MAX);
        Record {
            plan: plan.clone(),
            host: load::host::facts(),
            server,
            end,
            measured_s: until.since(Time::ZERO + plan.ramp).as_secs_f64(),
            client: Client { lag: parts.lag, ..cost },
            kinds: parts.kinds,
            menu: parts.menu,
            deferred: parts.deferred,
            inputs: parts.inputs,
            new_orders: parts.new_orders,
            checkpoints: parts.checkpoints,
            errors: parts.errors,
            error_first: parts.error_first,
            part: None,
            merged: Vec::new(),
            intervals: parts.intervals,
            machine_busy: parts.machine_busy,
        }
    }
}

/// Counts by interval, of a run without waits: a paced one has no load that is always the same.
fn intervals_of(plan: &Plan) -> Option<Intervals> {
    let meters = || Meters { thread: load::host::thread_cpu(), machine: load::host::ticks() };
    let length = intervals::length(plan.ramp + plan.measure);
    (plan.pace == Pace::Stress).then(|| Intervals::new(length, Box::new(meters)))
}

/// The terminals of a part of a plan. Without waits there is one a connection, spread over the
/// warehouses; where that is more than the warehouses have terminals, they draw from further seeds.
fn seats(plan: &Plan, part: RunPart, c_load: u16) -> Vec<Seat> {
    let inputs = Inputs::new(Constants::for_run(plan.seed, c_load), plan.warehouses);
    let per_warehouse = u32::from(rules::TERMINALS);
    // Terminals begin spread over a turn, of which there are three a minute.
    let spread = plan.pace.wait(Duration::from_secs(20)).min(plan.ramp);
    let all = f64::from(part.seats_of_all(plan));
    let seat = |nth: u32, warehouse: u32, index: u32, round: u32| {
        let seed = plan.seed.wrapping_add(u64::from(round) << 32);
        let terminal = Terminal::new(seed, inputs, warehouse, index as u8);
        let begins = Time::ZERO + spread.mul_f64(f64::from(nth) / all);
        Seat { terminal, begins, cycle: None, think: Duration::ZERO }
    };
    part.seats(plan)
        .map(|nth| match plan.pace.waits() {
            true => seat(nth, nth / per_warehouse + 1, nth % per_warehouse, 0),
            false => {
                let row = nth / plan.warehouses;
                let (warehouse, index) = (nth % plan.warehouses + 1, row % per_warehouse);
                seat(nth, warehouse, index, row / per_warehouse)
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::Isolation;
    use super::*;

    #[test]
    fn parts_ask_together_for_what_one_process_asks_for() {
        for pace in [Pace::Paced, Pace::Stress] {
            for of in [2, 3] {
                let plan = Plan {
                    pace,
                    warehouses: 4,
                    connections: 30,
                    ramp: Duration::from_secs(30),
                    measure: Duration::from_secs(60),
                    execution: Execution::Sql,
                    isolation: Isolation::RepeatableRead,
                    seed: 3,
                };
                let asked = |seats: Vec<Seat>| -> Vec<(Time, Vec<Cycle>)> {
                    let cycles =
                        |terminal: &mut Terminal| (0..30).map(|_| terminal.cycle()).collect();
                    seats
                        .into_iter()
                        .map(|mut seat| (seat.begins, cycles(&mut seat.terminal)))
                        .collect()
                };
                // Connections, and without waits so terminals, add up.
                let one = Plan { connections: plan.connections * of, ..plan.clone() };
                let whole = asked(seats(&one, RunPart::WHOLE, 100));
                let parts = (1..=of).map(|number| format!("{number}/{of}").parse().unwrap());
                let union: Vec<_> = parts.flat_map(|part| asked(seats(&plan, part, 100))).collect();
                assert!(union == whole, "{pace:?} in {of} parts");
                assert_eq!(whole.len(), one.terminals() as usize);
            }
        }
    }
}
