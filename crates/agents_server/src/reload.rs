//! Rules that are read anew while the server runs. In each partition they hold from one position of its log
//! on; what becomes of what is armed can be asked before.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use agents::{Agent, Audience, Destination, Envelope, Key, Priority, Refusal, Seq};
use agents_rules::{FieldChange, Message, RuleAgent, RuleChange, Rules, TimerChange, Way};
use agents_store::Store;
use hyper::StatusCode;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::answer::{
    FieldChangeView, FieldFate, ReloadAnswer, RuleChangeView, RuleFate, TimerChangeView, TimerFate,
};
use crate::delivery::{Outlet, ToDeliver};
use crate::http::{ANSWER_WITHIN, Gateway};
use crate::ids::message_id;
use crate::partition::Reply;
use crate::past::PastError;
use crate::response::Refused;
use crate::server::{Start, prepare};

/// Most bytes of a file that changes the rules: each partition keeps its text.
pub(crate) const TEXT_MAX: u64 = 1 << 20;
/// Agents that are read at once.
const AGENTS: usize = 500;
/// Time to count agents; beyond it the numbers are those of a part.
const COUNT_WITHIN: Duration = Duration::from_secs(20);

/// The file that rules are read from again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesFile {
    /// The file.
    pub path: PathBuf,
    /// The way in which messages find agents, if somebody said one.
    pub way: Option<Way>,
}

impl RulesFile {
    /// The rules of the file, with the modules of those of today.
    fn read(&self, today: &Rules) -> Result<Arc<Rules>, String> {
        let name = self.path.display().to_string();
        let wrong = |error: std::io::Error| format!("cannot read {name}: {error}");
        let mut text = String::new();
        let file = File::open(&self.path).map_err(wrong)?;
        file.take(TEXT_MAX + 1).read_to_string(&mut text).map_err(wrong)?;
        if text.len() as u64 > TEXT_MAX {
            return Err(format!(
                "{name}: rules of a server have at most 1 MiB, since each change of them is kept"
            ));
        }
        today.read_again(&name, &text, self.way).map_err(|error| error.to_string())
    }
}

/// The way in which rules are read anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// It is told what would become of what is armed; nothing changes.
    DryRun,
    /// They change now, or not at all while another change is under way.
    Now,
    /// They change after the change that is under way.
    InTurn,
}

/// The cause why a change is not in the log of a partition.
enum Undone {
    /// The store refuses its content.
    Refused(String),
    /// The partition has ended: its next owner reads the file.
    Ended,
}

/// The part of the server that changes its rules.
#[derive(Debug)]
pub(crate) struct Reload {
    pub(crate) start: Start,
    /// One change at a time.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Changes so far.
    pub(crate) changes: AtomicU64,
}

impl Reload {
    pub(crate) fn new(start: Start) -> Reload {
        Reload { start, turn: Arc::default(), changes: AtomicU64::new(0) }
    }
}

impl Gateway {
    /// Reads the rules anew, and lets them hold from now on, or tells alone what would become of what is armed.
    ///
    /// # Errors
    /// The file is wrong, or cannot hold here, or the status is 503: then nothing has changed. The store does not
    /// answer in time: then the change goes on.
    pub(crate) async fn reload(self: &Arc<Gateway>, wish: Wish) -> Result<ReloadAnswer, Refused> {
        let file = self.reload.start.file.clone();
        let file = file.ok_or_else(|| Refused::bad("this server was started without a file"))?;
        let turn = self.reload.turn.clone();
        let turn = match wish {
            // It changes nothing, and keeps nobody from a change.
            Wish::DryRun => None,
            Wish::Now => {
                let busy = |_| Refused::later("another change of the rules is under way");
                Some(turn.try_lock_owned().map_err(busy)?)
            }
            Wish::InTurn => Some(turn.lock_owned().await),
        };
        let today = self.rules();
        let read = tokio::task::spawn_blocking(move || file.read(&today)).await;
        let read = read.map_err(|error| internal(error.to_string()))?;
        let after = read.map_err(|cause| unchanged(&cause))?;
        let before = self.rules();
        let changes = before.changes_to(&after).map_err(|error| unchanged(&error.to_string()))?;
        let outlets =
            self.reload.start.check(&after).map_err(|error| unchanged(&error.to_string()))?;
        let (fields, timers) = (before.fields_to(&after), before.timers_to(&after));
        let mut told = self.told(&changes, fields, timers).await?;
        told.is_changed = !before.is_of_one_text(&after);
        told.is_dry = turn.is_none();
        let Some(turn) = turn else { return Ok(told) };
        prepare(&outlets).map_err(|error| unchanged(&error.to_string()))?;
        if !told.is_changed {
            // Secrets are read anew also where nothing else is new.
            self.parcels.send(ToDeliver::Routes(after, outlets)).ok();
            return Ok(told);
        }
        let gateway = self.clone();
        // Whoever asked may go away meanwhile.
        let change = tokio::spawn(async move {
            let _turn = turn;
            gateway.change_to(&before, &after, outlets).await
        });
        let late =
            || Refused::late("the store is slow: the change goes on, and holds when it answers");
        let done = timeout(ANSWER_WITHIN, change).await.map_err(|_| late())?;
        told.positions = done.map_err(|error| internal(error.to_string()))??;
        Ok(told)
    }

    /// Each rule with the agents that have it, each field that changes with those that lose a value, and each timer
    /// with those for which it is set.
    async fn told(
        &self,
        changes: &[RuleChange],
        fields: Vec<FieldChange>,
        timers: Vec<TimerChange>,
    ) -> Result<ReloadAnswer, Refused> {
        let count = Counting {
            store: self.store.clone(),
            partitions: self.partitions.len() as u32,
            ids: changes.iter().map(|change| change.id).collect(),
            fields: fields.clone(),
            timers: timers.iter().map(|change| change.name.clone()).collect(),
        };
        let counted = self.known(move || count.run(), "").await?;
        let rules = changes.iter().map(|change| {
            let version = |of: Option<u64>| of.map(|of| format!("{of:016x}"));
            let (agents, armed) = counted.of.get(&change.id).copied().unwrap_or_default();
            RuleChangeView {
                name: change.name.clone(),
                change: fate(change),
                version_before: version(change.before),
                version: version(change.after),
                agents,
                armed,
            }
        });
        let fields = fields.iter().zip(&counted.lost).map(|(change, lost)| FieldChangeView {
            name: change.name.clone(),
            change: field_fate(change),
            kind_before: change.before.map(|kind| kind.word().to_owned()),
            kind: change.after.map(|kind| kind.word().to_owned()),
            start: change.start.clone(),
            lost: *lost,
        });
        let timers = timers.into_iter().zip(&counted.set).map(|(change, set)| TimerChangeView {
            change: timer_fate(&change),
            name: change.name,
            set: *set,
        });
        Ok(ReloadAnswer {
            timers: timers.collect(),
            is_changed: false,
            is_dry: false,
            rules: rules.collect(),
            fields: fields.collect(),
            agents: counted.agents,
            is_whole: counted.is_whole,
            positions: Vec::new(),
        })
    }

    /// Lets other rules hold; the position of the change in the log of each partition.
    async fn change_to(
        &self,
        before: &Arc<Rules>,
        after: &Arc<Rules>,
        outlets: Vec<Outlet>,
    ) -> Result<Vec<u64>, Refused> {
        // A start that follows a crash in the midst of this tells all agents once more.
        self.reload.start.unmark().map_err(|error| unchanged(&error.to_string()))?;
        // Before a rule can fire for the first time.
        self.parcels.send(ToDeliver::Routes(after.clone(), outlets)).ok();
        let all: Vec<usize> = (0..self.partitions.len()).collect();
        let ends = self.hold(before, after, &all).await;
        let mut positions = Vec::new();
        let (mut taken, mut refused) = (Vec::new(), None);
        for (at, end) in ends.into_iter().enumerate() {
            match end {
                Ok(seq) => {
                    positions.push(seq.0);
                    taken.push(at);
                }
                Err(Undone::Ended) => {
                    return Err(Refused::late(
                        "a partition has ended: its next owner reads the file",
                    ));
                }
                Err(Undone::Refused(cause)) => refused = refused.or(Some(cause)),
            }
        }
        match refused {
            None => {
                let marked = self.reload.start.mark(self);
                marked.map_err(|error| internal(error.to_string()))?;
                Ok(positions)
            }
            Some(cause) => Err(self.go_back(before, after, &taken, &cause).await),
        }
    }

    /// Lets the rules of before hold again where the others do already; that the store refused them is told.
    async fn go_back(
        &self,
        before: &Arc<Rules>,
        after: &Arc<Rules>,
        taken: &[usize],
        cause: &str,
    ) -> Refused {
        // Destinations that are not to be had any more are told when something is to be delivered to them.
        if let Ok(outlets) = self.reload.start.check(before) {
            self.parcels.send(ToDeliver::Routes(before.clone(), outlets)).ok();
        }
        let ends = self.hold(after, before, taken).await;
        match ends.into_iter().find_map(Result::err) {
            None => unchanged(&format!("the store refuses the rules: {cause}")),
            Some(_) => internal(format!(
                "some partitions have other rules, and the store refuses those of before: {cause}; start the \
                 server again"
            )),
        }
    }

    /// Offers a change to partitions; its position in the log of each of them.
    async fn hold(
        &self,
        before: &Arc<Rules>,
        after: &Arc<Rules>,
        of: &[usize],
    ) -> Vec<Result<Seq, Undone>> {
        let nth = self.reload.changes.fetch_add(1, Ordering::Relaxed);
        let epochs: Vec<String> = self.partitions.iter().map(|it| it.epoch.0.to_string()).collect();
        let envelope = Envelope {
            id: Some(message_id(&["rules", &epochs.join(" "), &nth.to_string()])),
            sender: 0,
            to: Destination::All,
            audience: Audience::Everyone,
            priority: Priority::Normal,
            message: after.changed(Some(before)),
        };
        let mut ends = Vec::new();
        for answer in self.change(after, &envelope, of) {
            ends.push(durable(answer).await);
        }
        ends
    }
}

/// Waits until a change is in the log of a partition.
async fn durable(answer: oneshot::Receiver<Reply>) -> Result<Seq, Undone> {
    match answer.await {
        Ok(Ok(seq)) => Ok(seq),
        Ok(Err(Refusal::Store(cause))) => Err(Undone::Refused(cause)),
        Ok(Err(refusal @ (Refusal::Full | Refusal::UrgentMulticast))) => {
            unreachable!("{refusal:?}: a change is let in, and is not urgent")
        }
        Ok(Err(Refusal::Stopped)) | Err(_) => Err(Undone::Ended),
    }
}

fn unchanged(cause: &str) -> Refused {
    Refused::bad(format!("nothing was changed: {cause}"))
}

fn internal(cause: String) -> Refused {
    Refused::new(StatusCode::INTERNAL_SERVER_ERROR, cause)
}

fn fate(change: &RuleChange) -> RuleFate {
    match (change.before, change.after) {
        (None, _) => RuleFate::Added,
        (_, None) => RuleFate::Removed,
        (before, after) if before == after => RuleFate::Unchanged,
        _ => RuleFate::Changed,
    }
}

fn field_fate(change: &FieldChange) -> FieldFate {
    match (change.before, change.after) {
        (None, _) => FieldFate::Added,
        (_, None) => FieldFate::Removed,
        _ => FieldFate::Changed,
    }
}

fn timer_fate(change: &TimerChange) -> TimerFate {
    match (change.is_before, change.is_after) {
        (false, _) => TimerFate::Added,
        (_, false) => TimerFate::Removed,
        _ => TimerFate::Kept,
    }
}

/// Agents, and of each rule those that have it and those that are armed.
#[derive(Debug)]
struct Counted {
    agents: u64,
    is_whole: bool,
    of: BTreeMap<u32, (u64, u64)>,
    /// Of each field, those that lose a value.
    lost: Vec<u64>,
    /// Of each timer, those for which it is set.
    set: Vec<u64>,
}

struct Counting {
    store: Arc<dyn Store<Message>>,
    partitions: u32,
    ids: Vec<u32>,
    fields: Vec<FieldChange>,
    timers: Vec<String>,
}

impl Counting {
    fn run(&self) -> Result<Counted, PastError> {
        let started = Instant::now();
        let (lost, set) = (vec![0; self.fields.len()], vec![0; self.timers.len()]);
        let mut counted = Counted { agents: 0, is_whole: true, of: BTreeMap::new(), lost, set };
        for partition in 0..self.partitions {
            let mut from = Some(Key(0));
            while let Some(key) = from.take() {
                if started.elapsed() > COUNT_WITHIN {
                    counted.is_whole = false;
                    return Ok(counted);
                }
                let rows = self.store.scan(partition, key, AGENTS)?;
                if rows.len() == AGENTS {
                    from = rows.last().and_then(|(key, _)| key.0.checked_add(1)).map(Key);
                }
                for (_, row) in rows {
                    let Some(state) = row.state else { continue };
                    let agent = RuleAgent::decode(row.header.version, &state.cold, &state.hot);
                    // One that cannot be read keeps nobody from a change of the rules; its messages are dead.
                    let Ok(agent) = agent else {
                        counted.is_whole = false;
                        continue;
                    };
                    self.count(&agent, &mut counted);
                }
            }
        }
        Ok(counted)
    }

    fn count(&self, agent: &RuleAgent, counted: &mut Counted) {
        counted.agents += 1;
        for (lost, change) in counted.lost.iter_mut().zip(&self.fields) {
            *lost += u64::from(agent.loses(change));
        }
        for (set, name) in counted.set.iter_mut().zip(&self.timers) {
            *set += u64::from(agent.timers().any(|(own, _)| own == name));
        }
        for (id, alert) in agent.alerts().filter(|(id, _)| self.ids.contains(id)) {
            let (agents, armed) = counted.of.entry(id).or_default();
            *agents += 1;
            *armed += u64::from(alert.is_ready());
        }
    }
}
