//! The account of a gate while its steps go by, of a recording that is read or a simulation that runs:
//! what became of its jobs, and the levels, in memory that does not grow with the steps.

use std::collections::BTreeMap;
use std::time::Duration;

use gate::{Action, Event, GateSpec, Reason, Time};

use crate::Histogram;
use crate::protocol::{BrokenProtocol, Fate, Ledger, News};

/// The fate of a job at a gate, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobFate {
    /// It waits.
    Waiting,
    /// It was started after this wait.
    Started(Duration),
    /// It was refused.
    Refused(Reason),
    /// Its client gave up while it waited.
    Reneged,
}

impl JobFate {
    /// Its wait, if it was started.
    pub fn wait(self) -> Option<Duration> {
        match self {
            JobFate::Started(wait) => Some(wait),
            JobFate::Waiting | JobFate::Refused(_) | JobFate::Reneged => None,
        }
    }
}

/// Counts and times of the jobs of one class.
#[derive(Clone, Debug, Default)]
pub struct ClassAccount {
    /// Jobs that arrived.
    pub arrived: u64,
    /// Jobs that were refused, by reason.
    pub refused: BTreeMap<Reason, u64>,
    /// Jobs that gave up while they waited.
    pub reneged: u64,
    /// Waits of the jobs that were started.
    pub waits: Times,
    /// Holds of the jobs that departed.
    pub holds: Times,
}

/// Times: their sum to the nanosecond, and their distribution.
#[derive(Clone, Debug, Default)]
pub struct Times {
    sum: Duration,
    histogram: Histogram,
}

impl Times {
    fn record(&mut self, span: Duration) {
        self.sum = self.sum.saturating_add(span);
        self.histogram.record(span);
    }

    /// Number of times.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Their mean \[s\]; `None` of none.
    pub fn mean_s(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum.as_secs_f64() / self.count() as f64)
    }

    /// The time that a share `q` of them, 0 to 1, does not exceed \[s\]; `None` of none.
    pub fn quantile_s(&self, q: f64) -> Option<f64> {
        (self.count() > 0).then(|| self.histogram.quantile(q).as_secs_f64())
    }

    /// Their distribution.
    pub fn histogram(&self) -> &Histogram {
        &self.histogram
    }
}

impl ClassAccount {
    /// Jobs that were refused, for whatever reason.
    pub fn refused_in_all(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Adds the jobs of another class.
    pub fn merge(&mut self, other: &ClassAccount) {
        self.arrived += other.arrived;
        for (reason, jobs) in &other.refused {
            *self.refused.entry(*reason).or_default() += jobs;
        }
        self.reneged += other.reneged;
        for (own, other) in [(&mut self.waits, &other.waits), (&mut self.holds, &other.holds)] {
            own.sum = own.sum.saturating_add(other.sum);
            own.histogram.merge(&other.histogram);
        }
    }
}

/// Most classes that are told apart: each has its distributions. Live gates have few.
const CLASSES_MAX: usize = 64;

/// The account of a gate.
#[derive(Debug)]
pub struct GateAccount {
    ledger: Ledger,
    classes: BTreeMap<u32, ClassAccount>,
    fates: Option<Vec<JobFate>>,
    first: Option<Time>,
    until: Time,
    /// Slots of each server, as they were set last.
    slots: Vec<u32>,
    /// Over the time so far: jobs that waited, slots held, slots that there were \[s\].
    waiting_s: f64,
    held_s: f64,
    slots_s: f64,
}

impl GateAccount {
    /// The number under which all classes beyond the first 64 are counted together.
    pub const OTHERS: u32 = u32::MAX;

    /// The account of a gate of which nothing was seen yet.
    ///
    /// # Errors
    /// If the specification is none of a gate.
    pub fn new(spec: &GateSpec) -> Result<GateAccount, BrokenProtocol> {
        Ok(GateAccount {
            ledger: Ledger::new(spec)?,
            classes: BTreeMap::new(),
            fates: None,
            first: None,
            until: Time::MAX,
            slots: spec.servers.iter().map(|server| server.slots).collect(),
            waiting_s: 0.0,
            held_s: 0.0,
            slots_s: 0.0,
        })
    }

    /// The same, whose levels are averaged from one moment to another, whenever the steps come; left
    /// out, from the first step to the last.
    #[must_use]
    pub fn between(mut self, first: Time, until: Time) -> GateAccount {
        (self.first, self.until) = (Some(first), until);
        self.ledger.now = first;
        self
    }

    /// The same, which also keeps the fate of each job.
    #[must_use]
    pub fn with_fates(mut self) -> GateAccount {
        self.fates = Some(Vec::new());
        self
    }

    /// Takes a step into account.
    ///
    /// # Errors
    /// If it breaks the protocol of gates; no step that a gate took part in does.
    pub fn step(
        &mut self,
        at: Time,
        event: &Event,
        actions: &[Action],
    ) -> Result<(), BrokenProtocol> {
        let before = match self.first {
            Some(_) => self.ledger.now,
            None => *self.first.insert(at),
        };
        let seconds = at.min(self.until).since(before.min(self.until)).as_secs_f64();
        let slots: u64 = self.slots.iter().map(|&slots| u64::from(slots)).sum();
        self.waiting_s += self.ledger.waiting() as f64 * seconds;
        self.held_s += self.ledger.busy() as f64 * seconds;
        self.slots_s += slots as f64 * seconds;
        if let Event::Arrive(job) = event {
            of_class(&mut self.classes, job.class).arrived += 1;
            if let Some(fates) = &mut self.fates {
                fates.push(JobFate::Waiting);
            }
        }
        let (classes, fates) = (&mut self.classes, self.fates.as_deref_mut());
        let fates = fates.unwrap_or_default();
        self.ledger.step(at, event, actions, |news| hear(classes, fates, &news))?;
        if let Event::Resize { server, slots } = *event {
            self.slots[server as usize] = slots;
        }
        Ok(())
    }

    /// Each class of which a job came, by its number; from the 65th on all are
    /// [one](GateAccount::OTHERS).
    pub fn classes(&self) -> &BTreeMap<u32, ClassAccount> {
        &self.classes
    }

    /// All classes together.
    pub fn all(&self) -> ClassAccount {
        let mut all = ClassAccount::default();
        self.classes.values().for_each(|class| all.merge(class));
        all
    }

    /// The fate of each job, in the order of their arrivals; of none if they are not
    /// [kept](GateAccount::with_fates).
    pub fn fates(&self) -> &[JobFate] {
        self.fates.as_deref().unwrap_or_default()
    }

    /// Jobs that wait, and slots that are held, after the last step.
    pub fn unfinished(&self) -> (u64, u64) {
        (self.ledger.waiting() as u64, self.ledger.busy() as u64)
    }

    /// Slots that there are after the last step, those of a reserve that are lent left out.
    pub fn slots(&self) -> u64 {
        self.slots.iter().map(|&slots| u64::from(slots)).sum()
    }

    /// The moment of the first step.
    pub fn first(&self) -> Option<Time> {
        self.first
    }

    /// The time over which levels are averaged, so far.
    pub fn length(&self) -> Duration {
        let first = self.first.unwrap_or(self.ledger.now);
        self.ledger.now.min(self.until).since(first)
    }

    /// Mean number of jobs waiting, over time.
    pub fn waiting_mean(&self) -> f64 {
        self.over_time(self.waiting_s)
    }

    /// Mean number of slots held, over time.
    pub fn held_mean(&self) -> f64 {
        self.over_time(self.held_s)
    }

    /// Mean number of slots that there were, over time.
    pub fn slots_mean(&self) -> f64 {
        self.over_time(self.slots_s)
    }

    /// The slots that were held as a share of those that there were, 0 to 1; above it where slots were
    /// lent, or taken away while they were held. `None` if there were none.
    pub fn utilisation(&self) -> Option<f64> {
        (self.slots_s > 0.0).then(|| self.held_s / self.slots_s)
    }

    fn over_time(&self, seconds: f64) -> f64 {
        let length = self.length().as_secs_f64();
        if length > 0.0 { seconds / length } else { 0.0 }
    }
}

/// The account of a class, or of all others where there are too many.
fn of_class(classes: &mut BTreeMap<u32, ClassAccount>, class: u32) -> &mut ClassAccount {
    let is_known = classes.len() < CLASSES_MAX || classes.contains_key(&class);
    classes.entry(if is_known { class } else { GateAccount::OTHERS }).or_default()
}

fn hear(classes: &mut BTreeMap<u32, ClassAccount>, fates: &mut [JobFate], news: &News) {
    let class = of_class(classes, news.class);
    let fate = match news.fate {
        Fate::Started { wait } => {
            class.waits.record(wait);
            JobFate::Started(wait)
        }
        Fate::Served { hold, .. } => return class.holds.record(hold),
        Fate::Refused { reason } => {
            *class.refused.entry(reason).or_default() += 1;
            JobFate::Refused(reason)
        }
        Fate::Reneged => {
            class.reneged += 1;
            JobFate::Reneged
        }
    };
    if let Some(kept) = fates.get_mut(news.nth as usize) {
        *kept = fate;
    }
}
