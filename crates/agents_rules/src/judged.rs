//! The way in which an agent takes a message, told rule by rule: for what was not kept, and for rules that
//! are only tried.

use std::collections::BTreeMap;
use std::sync::Arc;

use agents::{Agent, Context, Effect, Failure, Key, Timer, TimerName};
use gate::Time;
use serde_json::{Map, Value as Json};

use crate::agent::RuleAgent;
use crate::expression::Scope;
use crate::message::{Body, Event, Message};
use crate::rules::Rules;

/// A message as an agent took it.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The fields of the state before.
    pub before: Map<String, Json>,
    /// The fields that were others afterwards.
    pub changed: Map<String, Json>,
    /// Of each rule that the message is about: its name, and what it decided.
    pub rules: Vec<(String, Judgement)>,
    /// The cause why the agent could not handle it.
    pub failure: Option<String>,
}

/// The decision of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It notified.
    Fired,
    /// Its condition held, and it did not notify, for this cause.
    Suppressed(String),
    /// Its condition held; it had fired before and was not armed again.
    NotArmed,
    /// Its condition did not hold.
    Inside,
    /// The message is not for this agent, or its condition needs a field that has no value.
    NotConcerned(String),
}

impl Judgement {
    /// It in words.
    pub fn told(&self) -> String {
        match self {
            Judgement::Fired => "fired".to_owned(),
            Judgement::Suppressed(cause) => format!("suppressed: {cause}"),
            Judgement::NotArmed => {
                "its condition held; it has fired before and is not armed again yet".to_owned()
            }
            Judgement::Inside => "its condition did not hold".to_owned(),
            Judgement::NotConcerned(cause) => cause.clone(),
        }
    }
}

/// An agent that is given messages of the past, with the timers that it asks for. It is a copy: nothing that
/// it does takes place.
#[derive(Debug)]
pub struct Replay {
    agent: RuleAgent,
    key: Key,
    timers: BTreeMap<TimerName, Timer>,
    /// The rules of the last message.
    rules: Option<Arc<Rules>>,
}

/// A timer of the file that was due.
#[derive(Clone, Debug, PartialEq)]
pub struct Rang {
    /// Its name.
    pub timer: String,
    /// The moment at which it was due.
    pub at: Time,
    /// The deeds of its agent.
    pub judged: Judged,
}

impl Replay {
    /// The agent that a first message makes, if it is a declaration.
    pub fn declared(key: Key, first: &Message) -> Option<Replay> {
        let agent = RuleAgent::create(key, first)?;
        Some(Replay { agent, key, timers: BTreeMap::new(), rules: None })
    }

    /// An agent with its state, whose rules all begin anew, as a declaration does it, and that has no timers.
    pub fn begun(mut agent: RuleAgent, key: Key, rules: &Arc<Rules>, now: Time) -> Replay {
        agent.end_timers();
        let message = Message {
            rules: Some(rules.clone()),
            body: Body::Declare { name: agent.name().into(), fields: Arc::from([]) },
        };
        let mut it = Replay { agent, key, timers: BTreeMap::new(), rules: None };
        it.give(&message, now);
        it
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.agent.name()
    }

    /// True if multicasts to armed agents are for it.
    pub fn armed(&self) -> bool {
        self.agent.armed()
    }

    /// Timers that are due by a moment fire, in the order of their moments, up to the first of the file, which is told;
    /// `None` if no more are due. One at a time: a row may have fired a million times since.
    pub fn wake(&mut self, now: Time) -> Option<Rang> {
        loop {
            let due = self.timers.iter().map(|(name, timer)| (timer.due, *name)).min();
            let (at, name) = due.filter(|(at, _)| *at <= now)?;
            let timer = self.timers.remove(&name).expect("it was found above");
            self.timers.extend(timer.after_firing(at).map(|next| (name, next)));
            let own = self.agent.timer(name);
            let rules = self.rules.clone();
            let event = own.as_ref().zip(rules.as_ref()).and_then(|(own, rules)| {
                let index = rules.firing(own)?;
                Some((rules.clone(), Event { index, fields: Arc::from([]) }))
            });
            let divider = rules.map(|rules| rules.reminder());
            let cx = Context::new(at, self.key, 0).due_behind(divider);
            let judged = self.judge(event, None, cx, |agent, cx| agent.on_timer(name, cx));
            if let Some(timer) = own {
                return Some(Rang { timer, at, judged });
            }
        }
    }

    fn set(&mut self, cx: &Context<Message>) {
        for (name, timer) in cx.timers_set() {
            match timer {
                Some(timer) => self.timers.insert(name, timer),
                None => self.timers.remove(&name),
            };
        }
    }

    /// Gives it a message at a moment, and tells what it did. Timers that are due fire before.
    pub fn give(&mut self, message: &Message, now: Time) -> Judged {
        while self.wake(now).is_some() {}
        let untold = self.agent.untold(message);
        let event = match (&message.rules, &message.body) {
            (Some(rules), Body::Event(event)) => Some((rules.clone(), event.clone())),
            _ => None,
        };
        let cx = Context::new(now, self.key, 0);
        let judged = self.judge(event, untold, cx, |agent, cx| agent.on(message, cx));
        self.rules = message.rules.clone().or(self.rules.take());
        judged
    }

    /// Calls a handler, and tells what it did and what each rule of the event decided.
    fn judge(
        &mut self,
        event: Option<(Arc<Rules>, Event)>,
        untold: Option<String>,
        mut cx: Context<Message>,
        call: impl FnOnce(&mut RuleAgent, &mut Context<Message>) -> Result<Effect, Failure>,
    ) -> Judged {
        let before = self.agent.fields_json();
        let mut judged = Judged { before, changed: Map::new(), rules: Vec::new(), failure: None };
        let silences: BTreeMap<u32, u64> =
            self.agent.alerts().map(|(id, alert)| (id, alert.silences())).collect();
        if let Err(failure) = call(&mut self.agent, &mut cx) {
            judged.failure = Some(failure.0);
            return judged;
        }
        self.set(&cx);
        let is_other = |(name, value): &(String, Json)| judged.before.get(name) != Some(value);
        judged.changed = self.agent.fields_json().into_iter().filter(is_other).collect();
        let Some((rules, event)) = event else { return judged };
        let values = self.agent.values(&rules);
        for &at in &rules.messages[event.index].rules {
            let rule = &rules.rules[at];
            let fired = cx.notified().iter().any(|(id, ..)| *id == rule.id);
            let alert = self.agent.alerts().find(|(id, _)| *id == rule.id).map(|(_, alert)| alert);
            let was = silences.get(&rule.id).copied().unwrap_or(0);
            let silent = alert.filter(|it| it.silences() > was).and_then(|it| it.last_silence());
            let end = match (&untold, fired, silent) {
                (Some(cause), ..) => Judgement::NotConcerned(cause.clone()),
                (None, true, _) => Judgement::Fired,
                (None, _, Some((_, cause))) => Judgement::Suppressed(cause.to_string()),
                (None, ..) if !rule.when.is_ready(&values) => {
                    Judgement::NotConcerned("a field of the state has no value".to_owned())
                }
                _ => match rule.when.truth(Scope { state: &values, fields: &event.fields }) {
                    Ok(true) => Judgement::NotArmed,
                    _ => Judgement::Inside,
                },
            };
            judged.rules.push((rule.name.clone(), end));
        }
        judged
    }
}

impl RuleAgent {
    /// The cause why a message is no business of this agent.
    fn untold(&mut self, message: &Message) -> Option<String> {
        let (Some(rules), Body::Event(event)) = (&message.rules, &message.body) else {
            return None;
        };
        let of = &rules.messages[event.index];
        let values = self.values(rules);
        let other = of
            .shared
            .iter()
            .find(|&&(at, field)| values[at].as_ref() != Some(&event.fields[field]));
        other.map(|&(at, _)| format!("it is for another `{}`", rules.state[at].name))
    }
}
