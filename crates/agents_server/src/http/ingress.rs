//! Messages and declarations of agents on their way in: read, addressed, offered to their partitions,
//! and acknowledged when they are durable.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use agents::{Audience, Destination, Envelope, Key, MessageId, Priority, Refusal, Seq};
use agents_rules::{KeyKind, Message, MessageError, Rules};
use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{ANSWER_WITHIN, Gateway, Read, body};
use crate::answer::AcceptedAnswer;
use crate::figures::Open;
use crate::ids::message_id;
use crate::partition::{Reply, Shown, of_key};
use crate::response::{Answer, Refused, object};
use crate::users::Caller;

/// Messages of a batch.
const BATCH_MAX: usize = 10_000;
/// Time after which it is looked whether the disk is full, while a message waits for it.
const LOOK_EVERY: Duration = Duration::from_millis(100);

fn id_of(headers: &hyper::HeaderMap) -> Result<Option<String>, Refused> {
    let Some(id) = headers.get("idempotency-key") else { return Ok(None) };
    let wrong = || Refused::bad("Idempotency-Key is a text of 1 to 200 ASCII characters");
    let id = id.to_str().map_err(|_| wrong())?;
    if id.is_empty() || id.len() > 200 {
        return Err(wrong());
    }
    Ok(Some(id.to_owned()))
}

fn priority(query: &BTreeMap<String, String>) -> Result<Priority, Refused> {
    Ok(match query.get("priority").map(String::as_str) {
        None | Some("normal") => Priority::Normal,
        Some("low") => Priority::Low,
        Some("high") => Priority::High,
        Some("urgent") => Priority::Urgent,
        Some(other) => {
            let cause = format!("unknown priority `{other}`; known: low, normal, high, urgent");
            return Err(Refused::bad(cause));
        }
    })
}

/// A message with its receivers.
pub(super) struct Send {
    /// Those that its sender names; `None` for those concerned.
    pub(super) to: Option<(Destination, Audience)>,
    pub(super) priority: Priority,
    pub(super) message: Message,
    pub(super) id: Option<MessageId>,
}

impl Gateway {
    /// Offers messages; the positions, when all are durable.
    pub(super) async fn offer(&self, sends: Vec<Send>) -> Result<Vec<Seq>, Refused> {
        if self.is_closing.load(Ordering::Relaxed) {
            return Err(Refused::later("the server ends"));
        }
        // Those that wait already ask whether there is room again.
        if let Some(cause) = self.partitions.iter().find_map(|it| it.shown.full()) {
            return Err(Refused::full(cause));
        }
        let answers = self.hand_over(sends)?;
        let mut positions = Vec::new();
        let mut refused = None;
        for (shown, answer) in answers {
            match answered(shown, answer).await {
                Ok(seq) => positions.push(seq),
                Err(cause) => refused = Some(cause),
            }
        }
        match refused {
            Some(refused) => Err(refused),
            None => {
                self.figures.accepted.fetch_add(positions.len() as u64, Ordering::Relaxed);
                Ok(positions)
            }
        }
    }

    /// Gives messages to their partitions. Meanwhile the rules stay: a message is before a change of them, and
    /// read and addressed by those of before, or behind it, and by the others.
    pub(super) fn hand_over(&self, mut sends: Vec<Send>) -> Result<Vec<Handed<'_>>, Refused> {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        for send in &mut sends {
            send.message.by(&rules);
            if let Some(cause) = send.message.unknown() {
                let cause = format!("it is no message by the rules that hold now: {cause}");
                return Err(Refused::bad(cause));
            }
        }
        let count = self.partitions.len() as u32;
        let mut answers = Vec::new();
        for Send { to, priority, message, id } in sends {
            let (to, audience) = to.unwrap_or_else(|| rules.concerned(&message));
            let own = match &to {
                Destination::One(key) => of_key(*key, count)..of_key(*key, count) + 1,
                _ => 0..count,
            };
            for partition in own {
                let (to, message) = (to.clone(), message.clone());
                let envelope = Envelope { id, sender: 0, to, audience, priority, message };
                let partition = &self.partitions[partition as usize];
                answers.push((&*partition.shown, partition.offer(envelope)));
            }
        }
        Ok(answers)
    }

    /// All messages behind this change of the rules are read by them; the answers of the partitions that it is
    /// for.
    pub(crate) fn change(
        &self,
        rules: &Arc<Rules>,
        envelope: &Envelope<Message>,
        of: &[usize],
    ) -> Vec<oneshot::Receiver<Reply>> {
        let mut own = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        *own = rules.clone();
        of.iter().map(|&at| self.partitions[at].offer(envelope.clone())).collect()
    }

    /// Offers messages to those concerned; if not, true if the same may go right later, and the cause.
    pub(crate) async fn take(
        &self,
        messages: Vec<(Message, MessageId)>,
    ) -> Result<(), (bool, String)> {
        let _open = Open::count(&self.figures.open);
        let sends = messages.into_iter().map(|(message, id)| Send {
            to: None,
            priority: Priority::Normal,
            message,
            id: Some(id),
        });
        let offered = self.offer(sends.collect()).await;
        offered.map(|_| ()).map_err(|refused| (refused.again, refused.cause))
    }

    pub(super) async fn one(
        &self,
        request: &Request<Incoming>,
        agent: &str,
        message: Message,
        priority: Priority,
    ) -> Result<Answer, Refused> {
        let id = id_of(request.headers())?.map(|id| message_id(&["one", agent, &id]));
        let to = one(self.rules().key(agent)?);
        self.accept(vec![Send { to, priority, message, id }]).await
    }

    pub(super) async fn accept(&self, sends: Vec<Send>) -> Result<Answer, Refused> {
        let count = sends.len();
        let positions = self.offer(sends).await?;
        let position = positions.iter().map(|seq| seq.0).max();
        let told = AcceptedAnswer { accepted: count as u64, position };
        Ok(object(StatusCode::ACCEPTED, &told))
    }

    pub(super) async fn declare(
        &self,
        request: &mut Request<Incoming>,
        agent: &str,
    ) -> Result<Answer, Refused> {
        let Read { content, _room } = body(&self.bodies, request).await?;
        let message = self.rules().declaration(agent, &content)?;
        let id = id_of(request.headers())?.map(|id| message_id(&["declare", agent, &id]));
        let to = one(self.rules().key(agent)?);
        self.accept(vec![Send { to, priority: Priority::Normal, message, id }]).await
    }

    /// A message of the file for those concerned, or for those that a query names. A user of some agents alone names
    /// them.
    pub(super) async fn post_to_many(
        &self,
        request: &mut Request<Incoming>,
        name: &str,
        query: &BTreeMap<String, String>,
        caller: &Caller,
    ) -> Result<Answer, Refused> {
        match query.get("agents") {
            Some(agents) => agents.split(',').try_for_each(|agent| caller.must_reach(agent))?,
            None => caller.must_reach_all()?,
        }
        self.post_as(request, name, query, (None, caller.limited())).await
    }

    /// A message of the file, or a list of such.
    pub(super) async fn post(
        &self,
        request: &mut Request<Incoming>,
        name: &str,
        query: &BTreeMap<String, String>,
        agent: Option<&str>,
    ) -> Result<Answer, Refused> {
        self.post_as(request, name, query, (agent, None)).await
    }

    /// The same, of a user of some agents alone: its ids are those of no other user.
    async fn post_as(
        &self,
        request: &mut Request<Incoming>,
        name: &str,
        query: &BTreeMap<String, String>,
        (agent, user): (Option<&str>, Option<&str>),
    ) -> Result<Answer, Refused> {
        if !self.rules().messages().any(|known| known == name) {
            // Before the body, so that a wrong address is told as such.
            self.rules().event(name, &json!({}))?;
        }
        let priority = priority(query)?;
        let Read { content, _room } = body(&self.bodies, request).await?;
        let id = id_of(request.headers())?;
        let all = match content {
            Value::Array(all) if all.len() > BATCH_MAX => {
                let cause = format!("a batch has at most {BATCH_MAX} messages: send it in parts");
                return Err(Refused::new(StatusCode::PAYLOAD_TOO_LARGE, cause));
            }
            Value::Array(all) => all,
            one => vec![one],
        };
        let rules = self.rules();
        let mut sends = Vec::new();
        for (at, fields) in all.iter().enumerate() {
            let message = rules.event(name, fields).map_err(|error| {
                let place =
                    if all.len() > 1 { format!("message {}: ", at + 1) } else { String::new() };
                Refused::bad(format!("{place}{error}"))
            })?;
            let to = match agent {
                Some(agent) => one(rules.key(agent)?),
                None => receivers(&rules, query)?,
            };
            let id = id.as_ref().map(|id| {
                let at = at.to_string();
                let parts = ["event", name, agent.unwrap_or_default(), id, &at];
                message_id(&parts.into_iter().chain(user).collect::<Vec<&str>>())
            });
            sends.push(Send { to, priority, message, id });
        }
        self.accept(sends).await
    }

    /// Declares agents of a list.
    pub(super) async fn declare_all(
        &self,
        request: &mut Request<Incoming>,
        caller: &Caller,
    ) -> Result<Answer, Refused> {
        let Read { content, _room } = body(&self.bodies, request).await?;
        let shape = || Refused::bad("a list of agents is `[{\"agent\": NAME, \"state\": {...}}]`");
        let all = content.as_array().ok_or_else(shape)?;
        if all.len() > BATCH_MAX {
            let cause = format!("a batch has at most {BATCH_MAX} agents: send it in parts");
            return Err(Refused::new(StatusCode::PAYLOAD_TOO_LARGE, cause));
        }
        let id = id_of(request.headers())?;
        let rules = self.rules();
        let mut sends = Vec::new();
        for (at, given) in all.iter().enumerate() {
            let name = given["agent"].as_str().ok_or_else(shape)?;
            caller.must_reach(name)?;
            let placed = |error: MessageError| Refused::bad(format!("agent {}: {error}", at + 1));
            let message = rules.declaration(name, &given["state"]).map_err(placed)?;
            let to = one(rules.key(name).map_err(placed)?);
            let id = id.as_ref().map(|id| message_id(&["declare", name, id]));
            let priority = Priority::Normal;
            sends.push(Send { to, priority, message, id });
        }
        self.accept(sends).await
    }
}

/// The face of a partition that was given a message, and where its answer comes.
type Handed<'a> = (&'a Shown, oneshot::Receiver<Reply>);

/// The answer of a partition. Nobody waits for a disk without room.
async fn answered(shown: &Shown, mut answer: oneshot::Receiver<Reply>) -> Result<Seq, Refused> {
    const AGAIN: &str = "the message may be kept: send it again with the same Idempotency-Key";
    let until = Instant::now() + ANSWER_WITHIN;
    while Instant::now() < until {
        match timeout(LOOK_EVERY, &mut answer).await {
            Ok(Ok(reply)) => return told(reply),
            // The thread has ended, or the store does not answer.
            Ok(Err(_)) => return Err(Refused::later("the partition has ended")),
            Err(_) => {
                if let Some(cause) = shown.full() {
                    return Err(Refused::full(format!("{cause}; {AGAIN}")));
                }
            }
        }
    }
    Err(Refused::late(format!("the store did not answer in time; {AGAIN}")))
}

/// The receivers that a query names; `None` for those concerned.
fn receivers(
    rules: &Rules,
    query: &BTreeMap<String, String>,
) -> Result<Option<(Destination, Audience)>, Refused> {
    let everyone = Audience::Everyone;
    if let Some(keys) = query.get("agents") {
        let keys: Result<Vec<Key>, MessageError> =
            keys.split(',').map(|name| rules.key(name)).collect();
        return Ok(Some((Destination::Keys(keys?.into()), everyone)));
    }
    if let (Some(from), Some(to)) = (query.get("from"), query.get("upto")) {
        if rules.key_kind() != KeyKind::Number {
            let cause = "a range needs keys with an order: `key = \"number\"` in the file";
            return Err(Refused::bad(cause));
        }
        let (from, to) = (rules.key(from)?, rules.key(to)?);
        return Ok(Some((Destination::Range(from, to), everyone)));
    }
    match query.get("to").map(String::as_str) {
        None | Some("concerned") => Ok(None),
        Some("all") => Ok(Some((Destination::All, everyone))),
        Some("armed") => Ok(Some((Destination::All, Audience::Armed))),
        Some(other) => {
            Err(Refused::bad(format!("unknown receivers `{other}`; known: concerned, all, armed")))
        }
    }
}

/// One agent as the receiver.
pub(super) fn one(key: Key) -> Option<(Destination, Audience)> {
    Some((Destination::One(key), Audience::Everyone))
}

fn told(reply: Reply) -> Result<Seq, Refused> {
    reply.map_err(|refusal| match refusal {
        Refusal::Full => Refused::later("there is no room for more messages now"),
        Refusal::UrgentMulticast => Refused::bad("only a message to one agent can be urgent"),
        Refusal::Store(cause) => Refused::bad(format!("the store refuses it: {cause}")),
        Refusal::Stopped => Refused::later("another server has taken the agents over"),
    })
}
