//! Reads: the state of an agent, lists, the past, and rules that are tried on kept messages.

use std::collections::BTreeMap;
use std::time::Duration;

use agents::{Agent, Key, LoadWay, Row};
use agents_rules::{Filter, Message, RuleAgent};
use agents_store::{Store, StoreError};
use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use serde::Serialize;
use tokio::time::timeout;

use super::{ANSWER_WITHIN, Gateway, Read, body, number};
use crate::answer::{AgentAnswer, AgentsAnswer, RuleView, SilenceView, StateView, TimerView};
use crate::clock;
use crate::partition::of_key;
use crate::past::{Past, PastError, Trial};
use crate::response::{Answer, Refused, object};
use crate::users::Reach;

/// Times that a question is put to the store: it may have two connections that were lost while nobody asked.
const ATTEMPTS: usize = 3;
/// Time that a trial takes at most: a client waits for it.
const TRIAL_MAX: Duration = Duration::from_secs(50);
/// Parameters of the list of all.
const LIST_PARAMETERS: [&str; 3] = ["partition", "from", "where"];
/// Agents of a page of the list of all, before a filter.
const LIST: usize = 1_000;

impl Gateway {
    pub(super) async fn state(&self, agent: &str) -> Result<Answer, Refused> {
        let key = self.rules().key(agent)?;
        let partition = of_key(key, self.partitions.len() as u32);
        let rows = self.blocking(move |store| store.load(partition, &[key], LoadWay::Keys)).await?;
        let row = rows.into_iter().next().map(|(_, row)| row).unwrap_or_default();
        let Some(state) = row.state else {
            let cause = format!("there is no agent `{agent}`");
            return Err(Refused::new(StatusCode::NOT_FOUND, cause));
        };
        let read = RuleAgent::decode(row.header.version, &state.cold, &state.hot);
        let read =
            read.map_err(|error| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error.0))?;
        if read.name() != agent {
            let cause = format!("there is no agent `{agent}`");
            return Err(Refused::new(StatusCode::NOT_FOUND, cause));
        }
        let today = self.rules();
        let rules = read.alerts().map(|(id, alert)| {
            let name = today.rule(id).unwrap_or("(not in the file)");
            let last_silence = alert
                .last_silence()
                .map(|(at, cause)| SilenceView { at_ns: at.as_nanos(), cause: cause.to_string() });
            let (is_armed, silences) = (alert.is_ready(), alert.silences());
            (name.to_owned(), RuleView { is_armed, silences, last_silence })
        });
        let rules = rules.collect();
        let (agent, state) = (agent.to_owned(), read.fields());
        let timers = read.timers().map(|(name, timer)| (name.to_owned(), TimerView::of(timer)));
        let timers = timers.collect();
        let told = AgentAnswer { agent, state, fired: row.header.fired, rules, timers };
        Ok(object(StatusCode::OK, &told))
    }

    /// Those agents of a part of a partition whose user asks, and who meet the filter, with their states, in the
    /// order of their keys.
    pub(super) async fn list(
        &self,
        query: &BTreeMap<String, String>,
        reach: &Reach,
    ) -> Result<Answer, Refused> {
        // A filter that is misspelt would select all.
        if let Some(other) = query.keys().find(|key| !LIST_PARAMETERS.contains(&key.as_str())) {
            let known = LIST_PARAMETERS.join(", ");
            return Err(Refused::bad(format!("unknown parameter `{other}`; known: {known}")));
        }
        let filter = query.get("where").map(|text| self.rules().filter(text)).transpose();
        let filter = filter.map_err(|error| Refused::bad(error.to_string()))?;
        let partitions = self.partitions.len() as u64;
        let partition = number(query, "partition")?.unwrap_or(0);
        if partition >= partitions {
            return Err(Refused::bad(format!("there are {partitions} partitions, from 0 on")));
        }
        let from = Key(number(query, "from")?.unwrap_or(0));
        let rows = self.blocking(move |store| store.scan(partition as u32, from, LIST)).await?;
        let next = (rows.len() == LIST).then(|| rows.last().map(|(key, _)| key.0)).flatten();
        // As a text: programs that read JSON may have no whole numbers of 64 bits.
        let next = next.and_then(|key| key.checked_add(1)).map(|key| key.to_string());
        let reach = reach.clone();
        let agents = match filter {
            None => views(rows, &reach, None)?,
            // Conditions take longer than states alone: they go to a thread that may be busy, one page at a time.
            Some(filter) => {
                let turn = timeout(ANSWER_WITHIN, self.questions.acquire()).await;
                let _turn = turn.map_err(|_| Refused::later("another question takes long"))?;
                let judged = move || views(rows, &reach, Some(&filter));
                let judged = tokio::task::spawn_blocking(judged).await;
                let wrong = |error: tokio::task::JoinError| {
                    Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
                };
                judged.map_err(wrong)??
            }
        };
        let told = AgentsAnswer { agents, next, partitions };
        Ok(object(StatusCode::OK, &told))
    }

    /// The past of an agent.
    pub(super) async fn why(
        &self,
        agent: &str,
        query: &BTreeMap<String, String>,
    ) -> Result<Answer, Refused> {
        let key = self.rules().key(agent)?;
        let upto = number(query, "at_ns")?.unwrap_or(u64::MAX);
        let most = number(query, "limit")?.unwrap_or(20).clamp(1, 1_000) as usize;
        let partition = of_key(key, self.partitions.len() as u32);
        let past = Past {
            changes: self.partitions[partition as usize].shown.changes(),
            store: self.store.clone(),
            partition,
            key,
        };
        let (name, board) = (agent.to_owned(), self.board.clone());
        self.asked(move || past.why(&name, upto, most, |id| board.told(id)), agent).await
    }

    /// Rules that are tried on kept messages.
    pub(super) async fn attempt(
        &self,
        request: &mut Request<Incoming>,
        query: &BTreeMap<String, String>,
    ) -> Result<Answer, Refused> {
        let since_ns = number(query, "since_ns")?.unwrap_or(0);
        let within = Duration::from_millis(number(query, "within_ms")?.unwrap_or(30_000));
        if within > TRIAL_MAX {
            return Err(Refused::bad("a trial takes at most 50 s"));
        }
        let Read { content, _room } = body(&self.bodies, request).await?;
        let text = content.as_str().ok_or_else(|| Refused::bad("the body is a text of rules"))?;
        let rules = self
            .rules()
            .try_text("rules", text)
            .map_err(|error| Refused::bad(error.to_string()))?;
        let (store, partitions) = (self.store.clone(), self.partitions.len() as u32);
        let trial = Trial { rules, store, partitions, since_ns, until: clock::now(), within };
        self.asked(move || trial.run(), "").await
    }

    /// Answers a question about the past, after those before it.
    pub(super) async fn asked<T: Serialize + Send + 'static>(
        &self,
        answer: impl Fn() -> Result<T, PastError> + Send + 'static,
        agent: &str,
    ) -> Result<Answer, Refused> {
        self.known(answer, agent).await.map(|told| object(StatusCode::OK, &told))
    }

    /// The same as it is.
    pub(crate) async fn known<T: Send + 'static>(
        &self,
        answer: impl Fn() -> Result<T, PastError> + Send + 'static,
        agent: &str,
    ) -> Result<T, Refused> {
        let _turn = timeout(ANSWER_WITHIN, self.questions.acquire()).await;
        let _turn = _turn.map_err(|_| Refused::later("another question takes long"))?;
        let again = move || {
            let is_lost = |end: &Result<T, PastError>| {
                matches!(end, Err(PastError::Store(StoreError::Unavailable { .. })))
            };
            (1..ATTEMPTS).map(|_| answer()).find(|end| !is_lost(end)).unwrap_or_else(&answer)
        };
        let told = tokio::task::spawn_blocking(again).await;
        let told = told
            .map_err(|error| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        told.map_err(|error| match error {
            PastError::Store(error) => Refused::later(error.to_string()),
            PastError::State(cause) => Refused::new(StatusCode::INTERNAL_SERVER_ERROR, cause),
            PastError::Absent => {
                Refused::new(StatusCode::NOT_FOUND, format!("there is no agent `{agent}`"))
            }
        })
    }

    /// A call of the store on a thread that may block. A connection that was lost while nobody asked is
    /// noticed by the call: it is made again.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        call: impl Fn(&dyn Store<Message>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Refused> {
        let store = self.store.clone();
        let again = move || {
            let is_lost =
                |end: &Result<T, StoreError>| matches!(end, Err(StoreError::Unavailable { .. }));
            (1..ATTEMPTS)
                .map(|_| call(&*store))
                .find(|end| !is_lost(end))
                .unwrap_or_else(|| call(&*store))
        };
        let done = tokio::task::spawn_blocking(again).await;
        match done {
            Ok(result) => result.map_err(|error| Refused::later(error.to_string())),
            Err(error) => Err(Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
        }
    }
}

/// The states of those rows that a user may see and that meet a filter.
fn views(
    rows: Vec<(Key, Row)>,
    reach: &Reach,
    filter: Option<&Filter>,
) -> Result<Vec<StateView>, Refused> {
    let mut agents = Vec::new();
    for (_, row) in rows {
        let Some(state) = row.state else { continue };
        let read = RuleAgent::decode(row.header.version, &state.cold, &state.hot);
        let wrong = |cause: String| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, cause);
        let mut read = read.map_err(|error| wrong(error.0))?;
        if !reach.covers(read.name()) {
            continue;
        }
        let one = StateView { agent: read.name().to_owned(), state: read.fields() };
        let holds = filter.map_or(Ok(true), |filter| filter.holds(&mut read));
        let untold = |cause| Refused::bad(format!("where: of agent `{}`: {cause}", one.agent));
        if holds.map_err(untold)? {
            agents.push(one);
        }
    }
    Ok(agents)
}
