//! Answers about the past: why an agent did what it did, and what other rules would have done. Both read
//! kept messages; they change nothing and send nothing.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agents::{Agent, Audience, Destination, Entry, Key, LoadWay, NotificationKey, Row, Seq};
use agents_rules::{Changes, Judged, Judgement, Message, Rang, Replay, RuleAgent, Rules};
use agents_store::{Store, StoreError};
use gate::Time;

use crate::answer::{Began, DecisionView, FiredView, RecomputedView, TrialAnswer, WhyAnswer};
use crate::clock;

/// Messages that are read at once: one may have 4 MiB.
const PAGE: usize = 64;
/// Agents that are read at once.
const AGENTS: usize = 500;
/// Bytes of kept messages that a trial holds in memory, by estimate \[B\].
const TRIAL_BYTES_MAX: u64 = 64 << 20;
/// Pages of an outbox that are looked through for a notification.
const OUTBOX_PAGES: usize = 20;

/// The past of an agent.
pub(crate) struct Past {
    /// The rules at each position of the log of its partition.
    pub(crate) changes: Changes,
    pub(crate) store: Arc<dyn Store<Message>>,
    pub(crate) partition: u32,
    pub(crate) key: Key,
}

/// The cause why there is no answer.
#[derive(Debug)]
pub(crate) enum PastError {
    Store(StoreError),
    /// There is no such agent.
    Absent,
    /// Its state cannot be read.
    State(String),
}

impl From<StoreError> for PastError {
    fn from(error: StoreError) -> PastError {
        PastError::Store(error)
    }
}

impl Past {
    fn row(&self) -> Result<Row, PastError> {
        let rows = self.store.load(self.partition, &[self.key], LoadWay::Keys)?;
        rows.into_iter()
            .next()
            .map(|(_, row)| row)
            .filter(|row| row.state.is_some())
            .ok_or(PastError::Absent)
    }

    /// What its rules decided, with what became of each notification, and the last messages up to a moment.
    pub(crate) fn why(
        &self,
        name: &str,
        upto_ns: u64,
        most: usize,
        delivery: impl Fn(&str) -> Option<String>,
    ) -> Result<WhyAnswer, PastError> {
        let row = self.row()?;
        let agent = decoded(&row)?;
        if agent.name() != name {
            return Err(PastError::Absent);
        }
        let mut kept = Vec::new();
        for decision in agent.decisions().iter().filter(|it| it.at_ns <= upto_ns) {
            let (mut notification, mut delivery_told) = (None, None);
            if let Some(firing) = decision.firing {
                let key = NotificationKey {
                    rule: decision.rule,
                    version: RuleAgent::VERSION,
                    agent: self.key,
                    life: row.header.born,
                    firing,
                };
                let id = crate::delivery::key_text(&key);
                delivery_told = Some(self.delivered(&key, delivery(&id))?);
                notification = Some(id);
            }
            let decision = decision.clone();
            kept.push(DecisionView { decision, notification, delivery: delivery_told });
        }
        let (recomputed, began, messages_since_ns) = self.recomputed(&row, upto_ns, most)?;
        let agent = name.to_owned();
        Ok(WhyAnswer { agent, kept, recomputed, began, messages_since_ns })
    }

    /// What became of a notification: as its destinations tell, or as the outbox does.
    fn delivered(&self, key: &NotificationKey, told: Option<String>) -> Result<String, PastError> {
        if let Some(told) = told {
            return Ok(told);
        }
        let mut after = 0;
        for _ in 0..OUTBOX_PAGES {
            let part = self.store.outbox(self.partition, after, PAGE)?;
            if part.iter().any(|one| one.key == *key) {
                return Ok("on its way".to_owned());
            }
            match part.last() {
                Some(last) if part.len() == PAGE => after = last.n,
                // Which of its destinations took it, and when, this process has not seen or forgotten.
                _ => return Ok("in no outbox any more; no delivery is remembered".to_owned()),
            }
        }
        Ok("not known: the outbox is too long to be looked through".to_owned())
    }

    /// The last messages to it up to a moment, handled once more.
    fn recomputed(
        &self,
        row: &Row,
        upto_ns: u64,
        most: usize,
    ) -> Result<(Vec<RecomputedView>, Began, Option<u64>), PastError> {
        let mut agent: Option<Replay> = None;
        let upto = Time::from_nanos(upto_ns);
        let mut began = Began::Declaration;
        let (mut last, mut first) = (VecDeque::new(), None);
        let mut keep = |view: RecomputedView| {
            last.push_back(view);
            last.drain(..last.len().saturating_sub(most));
        };
        let mut after = Seq(0);
        loop {
            let part = self.store.log(self.partition, after, PAGE)?;
            let Some(end) = part.entries.last().map(|entry| entry.seq) else { break };
            for mut entry in part.entries {
                first = first.or(Some(entry.at.as_nanos()));
                let is_for_it = entry.seq >= row.header.born && is_for(&entry, self.key);
                if !is_for_it || entry.at.as_nanos() > upto_ns {
                    continue;
                }
                let rules = self.changes.at(entry.seq);
                entry.envelope.message.by(rules);
                let message = &entry.envelope.message;
                if agent.is_none() {
                    let is_first = entry.seq == row.header.born;
                    let made = Replay::declared(self.key, message).filter(|_| is_first);
                    agent = Some(match made {
                        Some(made) => made,
                        None => {
                            began = Began::StateOfToday;
                            Replay::begun(decoded(row)?, self.key, rules, entry.at)
                        }
                    });
                }
                let agent = agent.as_mut().expect("it was made above");
                recompute_timers(agent, entry.at, &mut keep);
                let judged = agent.give(message, entry.at);
                let (at_ns, told) = (entry.at.as_nanos(), message.told(500));
                keep(recomputed(entry.seq, at_ns, told, judged));
            }
            after = end;
        }
        if let Some(agent) = &mut agent {
            recompute_timers(agent, upto.min(clock::now()), &mut keep);
        }
        Ok((last.into(), began, first))
    }
}

fn decoded(row: &Row) -> Result<RuleAgent, PastError> {
    let state = row.state.as_ref().ok_or(PastError::Absent)?;
    RuleAgent::decode(row.header.version, &state.cold, &state.hot)
        .map_err(|error| PastError::State(error.0))
}

/// True if a message may concern an agent. One to those crossed is looked at by all: it changes nothing for
/// those whose bounds it did not cross.
fn is_for(entry: &Entry<Message>, key: Key) -> bool {
    match &entry.envelope.to {
        Destination::One(to) => *to == key,
        Destination::Keys(keys) => keys.contains(&key),
        Destination::Range(first, last) => (*first..=*last).contains(&key),
        Destination::All | Destination::Crossed { .. } => true,
    }
}

/// The timers of an agent fire that are due by a moment.
fn recompute_timers(agent: &mut Replay, upto: Time, keep: &mut impl FnMut(RecomputedView)) {
    while let Some(Rang { timer, at, judged }) = agent.wake(upto) {
        keep(recomputed(Seq(0), at.as_nanos(), format!("timer {timer}"), judged));
    }
}

fn recomputed(seq: Seq, at_ns: u64, message: String, judged: Judged) -> RecomputedView {
    let Judged { before, changed, rules, failure } = judged;
    let rules = rules.into_iter().map(|(name, end)| (name, end.told())).collect();
    RecomputedView { position: seq.0, at_ns, message, before, changed, rules, failure }
}

/// Rules that are tried on kept messages.
pub(crate) struct Trial {
    pub(crate) rules: Arc<Rules>,
    pub(crate) store: Arc<dyn Store<Message>>,
    pub(crate) partitions: u32,
    /// The first moment whose messages take part \[ns since 1970\].
    pub(crate) since_ns: u64,
    /// The moment up to which timers fire.
    pub(crate) until: Time,
    /// Time that it may take.
    pub(crate) within: Duration,
}

/// Agents with the most firings that are named.
const NAMED: usize = 10;

impl Trial {
    pub(crate) fn run(&self) -> Result<TrialAnswer, PastError> {
        let started = Instant::now();
        let none: BTreeMap<String, u64> =
            self.rules.summary().into_iter().map(|rule| (rule.name, 0)).collect();
        let mut tried = TrialAnswer {
            agents: 0,
            agents_fired: 0,
            messages: 0,
            messages_unread: 0,
            messages_since_ns: None,
            evaluations: 0,
            fired: none.clone(),
            suppressed: none,
            most: Vec::new(),
            failures: 0,
            is_whole: true,
            is_span_kept: true,
            seconds: 0.0,
        };
        for partition in 0..self.partitions {
            let messages = self.messages(partition, started, &mut tried)?;
            self.agents(partition, &messages, started, &mut tried)?;
        }
        tried.seconds = started.elapsed().as_secs_f64();
        Ok(tried)
    }

    /// The kept messages of a partition that the rules know, as far as they fit into memory.
    fn messages(
        &self,
        partition: u32,
        started: Instant,
        tried: &mut TrialAnswer,
    ) -> Result<Vec<Entry<Message>>, PastError> {
        let (mut found, mut after, mut bytes) = (Vec::new(), Seq(0), 0);
        let mut oldest = None;
        loop {
            let part = self.store.log(partition, after, PAGE)?;
            if after == Seq(0) {
                // What was forgotten was older than what is kept; if that reaches back far enough, nothing is missing.
                oldest = part.entries.first().map(|entry| entry.at.as_nanos());
                let is_all = part.first <= Seq(1);
                tried.is_span_kept &= is_all || oldest.is_some_and(|at| at <= self.since_ns);
            }
            let Some(end) = part.entries.last().map(|entry| entry.seq) else { break };
            if started.elapsed() > self.within {
                tried.is_whole = false;
                break;
            }
            for mut entry in part.entries {
                if entry.at.as_nanos() < self.since_ns {
                    continue;
                }
                entry.envelope.message.by(&self.rules);
                let message = &entry.envelope.message;
                bytes += RuleAgent::message_bytes(message);
                if !message.is_event() {
                    continue;
                }
                // One to many stands in the log of each partition.
                let is_copy = partition > 0 && !matches!(entry.envelope.to, Destination::One(_));
                if bytes > TRIAL_BYTES_MAX {
                    tried.messages_unread += u64::from(!is_copy);
                    tried.is_whole = false;
                    continue;
                }
                tried.messages += u64::from(!is_copy);
                found.push(entry);
            }
            after = end;
        }
        tried.messages_since_ns = [tried.messages_since_ns, oldest].into_iter().flatten().min();
        Ok(found)
    }

    fn agents(
        &self,
        partition: u32,
        messages: &[Entry<Message>],
        started: Instant,
        tried: &mut TrialAnswer,
    ) -> Result<(), PastError> {
        let mut from = Some(Key(0));
        while let Some(key) = from.take() {
            let rows = self.store.scan(partition, key, AGENTS)?;
            if rows.len() == AGENTS {
                from = rows.last().and_then(|(key, _)| key.0.checked_add(1)).map(Key);
            }
            for (key, row) in rows.iter().filter(|(_, row)| row.state.is_some()) {
                if started.elapsed() > self.within {
                    tried.is_whole = false;
                    return Ok(());
                }
                let agent = decoded(row)?;
                self.agent((*key, agent), messages, started, tried);
            }
        }
        Ok(())
    }

    fn agent(
        &self,
        (key, agent): (Key, RuleAgent),
        messages: &[Entry<Message>],
        started: Instant,
        tried: &mut TrialAnswer,
    ) {
        tried.agents += 1;
        let Some(first) = messages.first() else { return };
        let mut agent = Replay::begun(agent, key, &self.rules, first.at);
        let mut fired = 0;
        for entry in messages.iter().filter(|entry| is_for(entry, key)) {
            if entry.envelope.audience == Audience::Armed && !agent.armed() {
                continue;
            }
            fired += self.timers(&mut agent, entry.at, started, tried);
            if started.elapsed() > self.within {
                break;
            }
            fired += counted(agent.give(&entry.envelope.message, entry.at), tried);
        }
        fired += self.timers(&mut agent, self.until, started, tried);
        if fired > 0 {
            tried.agents_fired += 1;
            tried.most.push(FiredView { agent: agent.name().to_owned(), fired });
            // The most firings first; of equal ones the first name.
            tried.most.sort_by(|a, b| b.fired.cmp(&a.fired).then_with(|| a.agent.cmp(&b.agent)));
            tried.most.truncate(NAMED);
        }
    }
}

impl Trial {
    /// The timers of an agent fire that are due by a moment, as long as there is time; the number of firings.
    fn timers(
        &self,
        agent: &mut Replay,
        upto: Time,
        started: Instant,
        tried: &mut TrialAnswer,
    ) -> u64 {
        let mut fired = 0;
        loop {
            // A row of a second has a million firings in twelve days.
            if started.elapsed() > self.within {
                tried.is_whole = false;
                return fired;
            }
            let Some(rang) = agent.wake(upto) else { return fired };
            fired += counted(rang.judged, tried);
        }
    }
}

/// Adds what an agent did with a message or a timer; the number of firings among it.
fn counted(judged: Judged, tried: &mut TrialAnswer) -> u64 {
    tried.evaluations += judged.rules.len() as u64;
    tried.failures += u64::from(judged.failure.is_some());
    let mut fired = 0;
    for (rule, end) in judged.rules {
        let counted = match end {
            Judgement::Fired => {
                fired += 1;
                &mut tried.fired
            }
            Judgement::Suppressed(_) => &mut tried.suppressed,
            _ => continue,
        };
        *counted.entry(rule).or_default() += 1;
    }
    fired
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use agents::{Append, Commit, Cursor, Envelope, Priority};
    use agents_store::Memory;

    use super::*;

    const RULES: &str = "[agent]\nstate = { high = \"number\" }\n\
                         [messages.tick]\nfields = { price = \"number\" }\n\
                         [rules.too-high]\non = \"tick\"\nwhen = \"price > high\"\n";

    /// A store whose partitions have three messages to all, at 1, 2 and 3 s, and nothing else; all took effect.
    fn store(rules: &Arc<Rules>, partitions: u32) -> Arc<dyn Store<Message>> {
        let store: Arc<dyn Store<Message>> = Arc::new(Memory::new());
        for partition in 0..partitions {
            let epoch = store.open(partition).unwrap().epoch;
            let entries = (1..=3).map(|n| Entry {
                seq: Seq(n),
                at: Time::ZERO + Duration::from_secs(n),
                envelope: Envelope {
                    id: None,
                    sender: 1,
                    to: Destination::All,
                    audience: Audience::Everyone,
                    priority: Priority::Normal,
                    message: rules.event("tick", &serde_json::json!({ "price": 1 })).unwrap(),
                },
            });
            let received = BTreeMap::new();
            let append = Append { epoch, after: Seq(0), entries: entries.collect(), received };
            store.append(partition, &append).unwrap();
            let cursor = Cursor { low: Seq(3), trimmed: Seq(3), ..Cursor::default() };
            let commit = Commit {
                epoch,
                version: 0,
                cursor,
                rows: Vec::new(),
                erased: Vec::new(),
                notifications: Vec::new(),
                delivered: Vec::new(),
                sends: Vec::new(),
                timers: BTreeMap::new(),
                dead: Vec::new(),
            };
            store.commit(partition, &commit).unwrap();
        }
        store
    }

    fn trial(partitions: u32, forgotten: u64, since_s: u64) -> TrialAnswer {
        let rules = Rules::read("r.toml", RULES).unwrap();
        let store = store(&rules, partitions);
        if forgotten > 0 {
            (0..partitions).for_each(|partition| {
                store.forget(partition, Seq(forgotten)).unwrap();
            });
        }
        let since_ns = since_s * 1_000_000_000;
        let within = Duration::from_secs(10);
        let until = Time::ZERO + Duration::from_secs(10);
        Trial { rules, store, partitions, since_ns, until, within }.run().unwrap()
    }

    #[test]
    fn a_message_to_all_counts_once() {
        assert_eq!([trial(1, 0, 0), trial(3, 0, 0)].map(|told| told.messages), [3, 3]);
    }

    #[test]
    fn a_span_of_which_a_part_was_forgotten_is_not_whole() {
        let kept = |forgotten, since_s| trial(1, forgotten, since_s).is_span_kept;
        assert!(kept(0, 0), "nothing was forgotten");
        assert!(!kept(1, 0));
        assert!(!kept(1, 1), "the first that is kept is of a later moment");
        assert!(kept(1, 2));
        assert!(!kept(3, 2), "nothing is kept");
    }

    /// The story: all firings of a row were made and kept before the time was looked at.
    #[test]
    fn a_row_of_seconds_ends_with_the_time_of_a_trial() {
        let timed = "[messages.tick]\ntimers = { look = { every = \"1s\" } }\n";
        let rules = Rules::read("r.toml", &RULES.replace("[messages.tick]\n", timed)).unwrap();
        let store = store(&rules, 1);
        let mut messages = store.log(0, Seq(0), 1).unwrap().entries;
        messages.iter_mut().for_each(|entry| entry.envelope.message.by(&rules));
        let declared = rules.declaration("a", &serde_json::json!({ "high": 1 })).unwrap();
        let agent = RuleAgent::create(Key(0), &declared).unwrap();
        let mut tried = trial(1, 0, 0);
        assert!(tried.is_whole);
        // A hundred years, of which hours pass in that time.
        let until = Time::ZERO + Duration::from_secs(100 * 365 * 86_400);
        let within = Duration::from_millis(50);
        let trial = Trial { rules, store, partitions: 1, since_ns: 0, until, within };
        trial.agent((Key(0), agent), &messages, Instant::now(), &mut tried);
        assert!(!tried.is_whole);
    }
}
