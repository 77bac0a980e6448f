//! The agent that follows rules. Its state carries the limits of its rules and the life of their alerts,
//! so that a timer and an index need no file; the file comes with each message.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agents::alert::{Alert, AlertMessage, AlertSpec};
use agents::{Agent, Bound, Context, Effect, Failure, Key, Timer, TimerName};
use gate::Time;
use serde::{Deserialize, Serialize};

use crate::expression::Scope;
use crate::history::{Decision, History, Moment};
use crate::message::{Body, Event, Message, json};
use crate::program::AskedAgent;
use crate::rules::{FieldChange, Rule, Rules};
use crate::threshold::{INSIDE, Limits};
use crate::timer::Timers;
use crate::value::Value;

/// An agent that follows the rules of a file.
#[derive(Debug)]
pub struct RuleAgent {
    name: Arc<str>,
    fields: Fields,
    rules: Vec<RuleState>,
    /// Timers of the file that are set.
    timers: Timers,
    history: History,
    /// The answer of a program that was asked for a whole batch.
    precomputed: RefCell<Option<Box<Precomputed>>>,
}

/// The answer of a program: a function of the state and the message, so that it holds as long as these do.
#[derive(Debug)]
struct Precomputed {
    rules: Arc<Rules>,
    event: Event,
    values: Vec<Option<Value>>,
    answer: Result<serde_json::Map<String, serde_json::Value>, String>,
}

/// The fields of its state.
#[derive(Clone, Debug)]
enum Fields {
    /// As they were kept, by name.
    Named(Vec<(String, Value)>),
    /// In the places that a file gives them.
    Placed(Arc<Rules>, Vec<Option<Value>>),
}

/// The state of one rule.
#[derive(Clone, Debug)]
struct RuleState {
    id: u32,
    fingerprint: u64,
    /// Limits of a threshold, and the symbol of the index if it is in one.
    limits: Option<(Limits, Option<u32>)>,
    alert: Alert,
}

/// The content of a notification.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Firing {
    /// The agent.
    pub agent: String,
    /// The rule that fired.
    pub rule: String,
    /// The message by which it fired.
    pub message: String,
    /// The moment \[ns since 1970\].
    pub at_ns: u64,
    /// The fields of the state and of the message.
    pub fields: BTreeMap<String, serde_json::Value>,
}

impl Firing {
    /// The content of a notification that a [`RuleAgent`] gave.
    ///
    /// # Errors
    /// Bytes that no such agent gave.
    pub fn read(payload: &[u8]) -> Result<Firing, serde_json::Error> {
        serde_json::from_slice(payload)
    }
}

/// Names of timers in one rule's alert.
const TIMERS: u64 = 4;

impl RuleAgent {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The fields of its state that have a value.
    pub fn fields(&self) -> BTreeMap<String, serde_json::Value> {
        self.named().into_iter().map(|(name, value)| (name, json(&value))).collect()
    }

    /// The alerts of its rules, by the rules' numbers.
    pub fn alerts(&self) -> impl Iterator<Item = (u32, &Alert)> {
        self.rules.iter().map(|rule| (rule.id, &rule.alert))
    }

    /// True if a change of a field takes a value from it.
    pub fn loses(&self, change: &FieldChange) -> bool {
        let value = self.named().into_iter().find(|(name, _)| *name == change.name);
        value.is_some_and(|(_, value)| change.after != Some(value.kind()))
    }

    /// Its timers of the file that are set, by name.
    pub fn timers(&self) -> impl Iterator<Item = (&str, Timer)> {
        self.timers.iter()
    }

    /// The name of a timer of the file that is set, from the core's name for it.
    pub(crate) fn timer(&self, name: TimerName) -> Option<String> {
        self.timers.named(name)
    }

    /// No timer of the file is set any more: a copy's, which the core does not have.
    pub(crate) fn end_timers(&mut self) {
        self.timers = Timers::default();
    }

    /// The last decisions of its rules, the oldest first.
    pub fn decisions(&self) -> &[Decision] {
        self.history.all()
    }

    pub(crate) fn fields_json(&self) -> serde_json::Map<String, serde_json::Value> {
        self.named().into_iter().map(|(name, value)| (name, json(&value))).collect()
    }

    /// The values in the places of a file.
    pub(crate) fn values(&mut self, rules: &Arc<Rules>) -> Vec<Option<Value>> {
        self.placed(rules).clone()
    }

    fn named(&self) -> Vec<(String, Value)> {
        match &self.fields {
            Fields::Named(fields) => fields.clone(),
            Fields::Placed(rules, values) => {
                let names = rules.state.iter().map(|field| field.name.clone());
                names.zip(values).filter_map(|(name, value)| Some((name, value.clone()?))).collect()
            }
        }
    }

    /// The values in the places of today's file.
    fn placed(&mut self, rules: &Arc<Rules>) -> &mut Vec<Option<Value>> {
        if !matches!(&self.fields, Fields::Placed(own, _) if Arc::ptr_eq(own, rules)) {
            let named: BTreeMap<String, Value> = self.named().into_iter().collect();
            let values = rules.state.iter().map(|field| {
                let kept = named.get(&field.name).filter(|value| value.kind() == field.kind);
                kept.or(field.start.as_ref()).cloned()
            });
            self.fields = Fields::Placed(rules.clone(), values.collect());
        }
        match &mut self.fields {
            Fields::Placed(_, values) => values,
            Fields::Named(_) => unreachable!("they were placed above"),
        }
    }

    /// Brings the states of the rules in line with the file. A rule that is new or has changed begins anew.
    fn follow(&mut self, rules: &Arc<Rules>, cx: &mut Context<Message>) -> Result<Effect, Failure> {
        self.placed(rules);
        let ended = self.timers.follow(|name| rules.firing(name).is_some(), cx);
        let are_same = self.rules.len() == rules.rules.len()
            && (self.rules.iter().zip(&rules.rules))
                .all(|(own, rule)| (own.id, own.fingerprint) == (rule.id, rule.fingerprint));
        if are_same {
            return Ok(ended);
        }
        let mut old = std::mem::take(&mut self.rules);
        for rule in &rules.rules {
            let kept =
                old.iter().position(|own| (own.id, own.fingerprint) == (rule.id, rule.fingerprint));
            let state = match kept {
                Some(at) => old.swap_remove(at),
                None => self.declared(rules, rule, cx)?,
            };
            self.rules.push(state);
        }
        // A rule that the file has no more leaves no timer.
        for gone in old.iter().filter(|gone| rules.rules.iter().all(|rule| rule.id != gone.id)) {
            (0..TIMERS).for_each(|n| cx.cancel(TimerName(u64::from(gone.id) * TIMERS + n)));
        }
        self.relimit(rules);
        Ok(Effect::Dirty)
    }

    /// A rule as it begins.
    fn declared(
        &mut self,
        rules: &Arc<Rules>,
        rule: &Rule,
        cx: &mut Context<Message>,
    ) -> Result<RuleState, Failure> {
        let expires = rule.expires.and_then(|at| match self.placed(rules).get(at) {
            Some(Some(Value::Number(seconds))) => {
                let span = Duration::try_from_secs_f64(seconds.max(0.0)).ok();
                span.map(|span| Time::ZERO + span)
            }
            _ => None,
        });
        let spec = AlertSpec {
            on: rule.on,
            rearm: rule.rearm,
            cooldown: rule.cooldown,
            expires,
            quiet: rule.quiet,
            per_day_max: rule.per_day_max,
            utc_offset: rule.utc_offset(cx.now()),
            at_creation: rule.at_creation,
            ..AlertSpec::new(0, INSIDE.0, INSIDE.1)
        };
        let declare = AlertMessage::Declare(spec);
        let alert = Alert::create(cx.key(), &declare);
        let mut state = RuleState {
            id: rule.id,
            fingerprint: rule.fingerprint,
            limits: None,
            alert: alert.expect("a declaration creates an alert"),
        };
        state.tell(&declare, cx)?;
        Ok(state)
    }

    /// The limits of all thresholds, from the state as it is.
    fn relimit(&mut self, rules: &Arc<Rules>) {
        let values = self.placed(rules).clone();
        for (own, rule) in self.rules.iter_mut().zip(&rules.rules) {
            let message = &rules.messages[rule.message];
            let shared = message.shared.iter().map(|&(at, _)| values[at].as_ref());
            let symbol = message.compared.and_then(|_| message.symbol(shared));
            let limits = (rule.threshold.as_ref())
                .filter(|_| rule.when.is_ready(&values))
                .and_then(|threshold| threshold.limits(&values, rule.band));
            own.limits = limits.map(|limits| (limits, symbol));
        }
    }

    fn declare(
        &mut self,
        rules: &Arc<Rules>,
        name: &str,
        fields: &[(String, Value)],
        cx: &mut Context<Message>,
    ) -> Result<Effect, Failure> {
        for (field, value) in fields {
            let at = rules.state.iter().position(|known| known.name == *field);
            let at = at.ok_or_else(|| Failure(format!("the state of {name} has no `{field}`")))?;
            self.placed(rules)[at] = Some(value.clone());
        }
        // An edit arms every rule anew.
        self.rules.clear();
        self.follow(rules, cx)?;
        self.relimit(rules);
        Ok(Effect::Dirty)
    }

    fn event(
        &mut self,
        rules: &Arc<Rules>,
        event: &Event,
        cx: &mut Context<Message>,
    ) -> Result<Effect, Failure> {
        let message = &rules.messages[event.index];
        // A price of another symbol is no business of this agent.
        if !event.is_for(message, self.placed(rules)) {
            return Ok(Effect::Clean);
        }
        let handled = match message.program {
            Some(_) => self.handled(rules, event)?,
            None => Vec::new(),
        };
        let values = self.placed(rules);
        // For its history; a message without fields to set leaves the state as it is. JSON is made of it where
        // something is decided: most messages decide nothing.
        let before = (message.sets() && !message.rules.is_empty()).then(|| values.clone());
        let mut effect = Effect::Clean;
        let scope = Scope { state: values, fields: &event.fields };
        let mut set = handled;
        for (at, expression) in &message.set {
            if expression.is_ready(values) {
                let value = expression.value(scope).map_err(Failure)?;
                let is_number = !matches!(value, Value::Number(it) if !it.is_finite());
                if !is_number {
                    return Err(Failure(format!("`{}` would be no number", rules.state[*at].name)));
                }
                set.push((*at, value));
            }
        }
        for (at, value) in set {
            if values[at].as_ref() != Some(&value) {
                values[at] = Some(value);
                effect = Effect::Dirty;
            }
        }
        if effect == Effect::Dirty {
            self.relimit(rules);
        }
        effect = effect.max(self.time(rules, event, cx)?);
        for &at in &message.rules {
            effect = effect.max(self.judge(rules, at, event, before.as_deref(), cx)?);
        }
        Ok(effect)
    }

    /// A message sets timers and cancels others. A moment is computed from the state as the message leaves it.
    fn time(
        &mut self,
        rules: &Arc<Rules>,
        event: &Event,
        cx: &mut Context<Message>,
    ) -> Result<Effect, Failure> {
        let message = &rules.messages[event.index];
        if message.timers.is_empty() && message.cancel.is_empty() {
            return Ok(Effect::Clean);
        }
        let mut timers = std::mem::take(&mut self.timers);
        let scope = Scope { state: self.placed(rules), fields: &event.fields };
        let end = timers.take((&message.cancel, &message.timers), scope, cx);
        self.timers = timers;
        end
    }

    /// A timer of the file is due.
    fn ring(
        &mut self,
        name: &str,
        rules: &Arc<Rules>,
        cx: &mut Context<Message>,
    ) -> Result<Effect, Failure> {
        self.timers.fire(name, cx.now());
        self.follow(rules, cx)?;
        // One that the file has no more is over.
        if let Some(index) = rules.firing(name) {
            self.event(rules, &Event { index, fields: Arc::from([]) }, cx)?;
        }
        Ok(Effect::Dirty)
    }

    /// The fields that the program of a message sets, in the places of the file.
    fn handled(
        &mut self,
        rules: &Arc<Rules>,
        event: &Event,
    ) -> Result<Vec<(usize, Value)>, Failure> {
        let message = &rules.messages[event.index];
        let of = message.program.as_ref().expect("the message has a program");
        let values = self.placed(rules).clone();
        let precomputed = self.precomputed.take().filter(|it| {
            Arc::ptr_eq(&it.rules, rules)
                && it.event.index == event.index
                && it.event.fields == event.fields
                && it.values == values
        });
        let answer = match precomputed {
            Some(precomputed) => precomputed.answer,
            None => {
                let asked =
                    AskedAgent { agent: self.name.to_string(), state: json_of(rules, &values) };
                let told = of.program.handle(&message.name, &event.named(message), &[asked]);
                told.into_iter().next().unwrap_or_else(|| Err("it did not answer".to_owned()))
            }
        };
        let wrong = |cause: String| Failure(format!("the module `{}`: {cause}", of.name));
        let mut set = Vec::new();
        for (name, json) in answer.map_err(wrong)? {
            let Some(at) = rules.state.iter().position(|field| field.name == name) else {
                return Err(wrong(format!("it sets `{name}`, which the state does not have")));
            };
            if message.shared.iter().any(|&(shared, _)| shared == at) {
                return Err(wrong(format!(
                    "it sets `{name}`, which says for which agents the message is"
                )));
            }
            let kind = rules.state[at].kind;
            let value = Value::of_json(&json).filter(|value| value.kind() == kind);
            let value =
                value.ok_or_else(|| wrong(format!("`{name}` is {kind}, and it sets {json}")))?;
            set.push((at, value));
        }
        Ok(set)
    }

    /// The values in the places of these rules, if the agent follows them.
    fn following(&self, rules: &Arc<Rules>) -> Option<&[Option<Value>]> {
        match &self.fields {
            Fields::Placed(own, values) if Arc::ptr_eq(own, rules) => Some(values),
            _ => None,
        }
    }

    /// Asks the program of a message for several agents at once.
    fn precompute_event(rules: &Arc<Rules>, event: &Event, agents: &[&RuleAgent]) {
        let message = &rules.messages[event.index];
        let Some(of) = &message.program else { return };
        let concerned = agents.iter().filter_map(|agent| {
            let values = agent.following(rules)?;
            event.is_for(message, values).then_some((*agent, values))
        });
        let concerned: Vec<(&RuleAgent, &[Option<Value>])> = concerned.collect();
        let asked = concerned.iter().map(|(agent, values)| AskedAgent {
            agent: agent.name.to_string(),
            state: json_of(rules, values),
        });
        let asked: Vec<AskedAgent> = asked.collect();
        let answers = of.program.handle(&message.name, &event.named(message), &asked);
        for ((agent, values), answer) in concerned.into_iter().zip(answers) {
            let (rules, event, values) = (rules.clone(), event.clone(), values.to_vec());
            let precomputed = Precomputed { rules, event, values, answer };
            agent.precomputed.replace(Some(Box::new(precomputed)));
        }
    }

    /// Holds a message against one rule.
    fn judge(
        &mut self,
        rules: &Arc<Rules>,
        at: usize,
        event: &Event,
        before: Option<&[Option<Value>]>,
        cx: &mut Context<Message>,
    ) -> Result<Effect, Failure> {
        let rule = &rules.rules[at];
        let limits = self.rules[at].limits;
        let values = self.placed(rules);
        if !rule.when.is_ready(values) {
            return Ok(Effect::Clean);
        }
        let scope = Scope { state: values, fields: &event.fields };
        let height = match (&rule.threshold, limits) {
            (Some(threshold), Some((limits, _))) => match &event.fields[threshold.field] {
                Value::Number(number) => limits.height(*number),
                other => unreachable!("{other:?}: kinds were checked"),
            },
            _ => 2 * i64::from(rule.when.truth(scope).map_err(Failure)?),
        };
        let own = &mut self.rules[at];
        if rule.quiet.is_some() || rule.per_day_max.is_some() {
            own.alert.set_utc_offset(rule.utc_offset(cx.now()));
        }
        let silences = own.alert.silences();
        let (effect, fired) = own.tell(&AlertMessage::Value(height), cx)?;
        let silence = own.alert.last_silence().filter(|_| own.alert.silences() > silences);
        let end = match (fired, silence) {
            (true, _) => Ok(cx.notify(rule.id, self.firing(rules, rule, event, cx.now()))),
            (false, Some((_, cause))) => Err(cause.to_string()),
            (false, None) => return Ok(effect),
        };
        let after = self.fields_json();
        let message = Message { rules: Some(rules.clone()), body: Body::Event(event.clone()) };
        let before = before.map_or_else(|| after.clone(), |values| json_of(rules, values));
        let moment = Moment::new(&message, before, cx);
        self.history.push(moment.decision((rule.id, &rule.name), &after, end));
        Ok(effect)
    }

    fn firing(&self, rules: &Rules, rule: &Rule, event: &Event, now: Time) -> Vec<u8> {
        let message = &rules.messages[event.index];
        let mut fields = self.fields();
        for ((name, _), value) in message.fields.iter().zip(event.fields.iter()) {
            fields.insert(name.clone(), json(value));
        }
        let firing = Firing {
            agent: self.name.to_string(),
            rule: rule.name.clone(),
            message: message.name.clone(),
            at_ns: now.as_nanos(),
            fields,
        };
        serde_json::to_vec(&firing).expect("keys are texts, and numbers are finite")
    }
}

impl RuleState {
    /// Tells its alert; the change, and true if it fired. Its timers become the agent's.
    fn tell(
        &mut self,
        message: &AlertMessage,
        cx: &mut Context<Message>,
    ) -> Result<(Effect, bool), Failure> {
        let mut inner = Context::new(cx.now(), cx.key(), 0);
        let effect = self.alert.on(message, &mut inner)?;
        self.take_timers(&inner, cx);
        Ok((effect, !inner.notified().is_empty()))
    }

    fn take_timers(&self, inner: &Context<AlertMessage>, cx: &mut Context<Message>) {
        for (name, due) in inner.timers() {
            assert!(name.0 < TIMERS, "an alert has few timers");
            let name = TimerName(u64::from(self.id) * TIMERS + name.0);
            match due {
                Some(at) => cx.at(name, at),
                None => cx.cancel(name),
            }
        }
    }
}

impl Agent for RuleAgent {
    type Message = Message;
    const VERSION: u16 = 1;

    fn create(_key: Key, first: &Message) -> Option<RuleAgent> {
        match &first.body {
            Body::Declare { name, .. } => Some(RuleAgent {
                name: name.clone(),
                fields: Fields::Named(Vec::new()),
                rules: Vec::new(),
                timers: Timers::default(),
                history: History::default(),
                precomputed: RefCell::default(),
            }),
            _ => None,
        }
    }

    fn on(&mut self, message: &Message, cx: &mut Context<Message>) -> Result<Effect, Failure> {
        let Some(rules) = &message.rules else {
            return Err(Failure("the message came without rules".to_owned()));
        };
        let followed = match &message.body {
            Body::End => return Ok(Effect::Delete),
            Body::Unknown { cause, .. } => return Err(Failure(cause.to_string())),
            Body::Declare { name, fields } => {
                if *name != self.name {
                    let cause = format!("`{name}` has the key of `{}`: take another", self.name);
                    return Err(Failure(cause));
                }
                return self.declare(rules, name, fields, cx);
            }
            Body::Changed(_) => {
                // A field may have another kind or beginning, also where no rule has changed. What is left
                // out of the store would depend on who is cached: at the next change others begin with it.
                let kept = |it: &RuleAgent| {
                    let fields: BTreeMap<String, Value> = it.named().into_iter().collect();
                    (fields, it.rules.iter().map(|rule| rule.limits).collect::<Vec<_>>())
                };
                let before = kept(self);
                let followed = self.follow(rules, cx)?;
                self.relimit(rules);
                return Ok(if kept(self) == before { followed } else { Effect::Dirty });
            }
            _ => self.follow(rules, cx)?,
        };
        let effect = match &message.body {
            Body::Event(event) => self.event(rules, event, cx)?,
            Body::Snooze(span) => {
                let silent = AlertMessage::Snooze(*span);
                let all = self.rules.iter_mut().map(|rule| rule.tell(&silent, cx));
                all.map(|told| told.map(|(effect, _)| effect))
                    .try_fold(Effect::Clean, |so_far, one| Ok(so_far.max(one?)))?
            }
            _ => Effect::Clean,
        };
        Ok(followed.max(effect))
    }

    fn precomputes(message: &Message) -> bool {
        match (&message.rules, &message.body) {
            (Some(rules), Body::Event(event)) => rules.messages[event.index].program.is_some(),
            _ => false,
        }
    }

    fn precompute(batch: &[(&RuleAgent, &Message)]) {
        // A multicast is one message to all of them: those of one message are asked for together.
        let mut rest: Vec<(&RuleAgent, &Arc<Rules>, &Event)> = (batch.iter())
            .filter_map(|(agent, message)| match (&message.rules, &message.body) {
                (Some(rules), Body::Event(event)) => Some((*agent, rules, event)),
                _ => None,
            })
            .collect();
        while let Some(&(_, rules, event)) = rest.first() {
            let is_same = |it: &(&RuleAgent, &Arc<Rules>, &Event)| {
                Arc::ptr_eq(it.1, rules)
                    && it.2.index == event.index
                    && Arc::ptr_eq(&it.2.fields, &event.fields)
            };
            let (same, others): (Vec<_>, Vec<_>) = rest.iter().copied().partition(is_same);
            let agents: Vec<&RuleAgent> = same.iter().map(|it| it.0).collect();
            RuleAgent::precompute_event(rules, event, &agents);
            rest = others;
        }
    }

    fn on_timer(&mut self, name: TimerName, cx: &mut Context<Message>) -> Result<Effect, Failure> {
        if let Some(own) = self.timers.named(name) {
            let told = |cause: String| Failure(format!("the timer `{own}`: {cause}"));
            let rules = cx.behind().and_then(|divider| divider.rules.clone());
            let rules = rules.ok_or_else(|| told("no rules hold".to_owned()))?;
            return self.ring(&own, &rules, cx).map_err(|failure| told(failure.0));
        }
        let id = name.0 / TIMERS;
        let Some(own) = self.rules.iter_mut().find(|rule| u64::from(rule.id) == id) else {
            return Ok(Effect::Clean);
        };
        let mut inner = Context::new(cx.now(), cx.key(), 0);
        let effect = own.alert.on_timer(TimerName(name.0 % TIMERS), &mut inner)?;
        own.take_timers(&inner, cx);
        Ok(effect)
    }

    fn armed(&self) -> bool {
        self.rules.iter().any(|rule| rule.alert.armed())
    }

    fn bounds(&self) -> Vec<Bound> {
        let each = self.rules.iter().filter_map(|rule| {
            let (limits, symbol) = rule.limits?;
            let symbol = symbol?;
            Some(rule.alert.bounds().into_iter().map(move |it| limits.bound(it, symbol)))
        });
        each.flatten().collect()
    }

    fn message_bytes(message: &Message) -> u64 {
        message.size()
    }

    fn divides(message: &Message) -> bool {
        message.is_change()
    }

    fn behind(divider: &Message, message: &mut Message) {
        let (_, to) = divider.change().expect("a change divides");
        let own = message.rules.as_ref();
        // Rules of the same text that were read twice are the same rules.
        if own.is_none_or(|own| !Arc::ptr_eq(own, to) && !own.is_of_one_text(to)) {
            message.by(to);
        }
    }

    fn without(divider: &Message, message: &mut Message) {
        let (from, _) = divider.change().expect("a change divides");
        let own = message.rules.as_ref();
        if let Some(from) = from
            && own.is_none_or(|own| !Arc::ptr_eq(own, from) && !own.is_of_one_text(from))
        {
            message.by(from);
        }
    }

    fn encode_cold(&self, to: &mut Vec<u8>) {
        let fields: serde_json::Map<String, serde_json::Value> =
            self.named().into_iter().map(|(name, value)| (name, json(&value))).collect();
        // An agent without timers is as it was before there were any.
        let text = match self.timers.is_empty() {
            true => serde_json::to_vec(&(&*self.name, fields)),
            false => serde_json::to_vec(&(&*self.name, fields, self.timers.kept())),
        };
        put(to, &text.expect("keys are texts"));
        for rule in &self.rules {
            to.extend(rule.id.to_le_bytes());
            to.extend(rule.fingerprint.to_le_bytes());
            let mut alert = Vec::new();
            rule.alert.encode_cold(&mut alert);
            put(to, &alert);
        }
    }

    fn encode_hot(&self, to: &mut Vec<u8>) {
        for rule in &self.rules {
            let mut alert = Vec::new();
            rule.alert.encode_hot(&mut alert);
            put(to, &alert);
            let numbers = rule.limits.map(|(of, symbol)| {
                let symbol = symbol.map_or(-1, i64::from);
                [of.low, of.high, of.low_band, of.high_band, symbol]
            });
            let bytes = numbers.iter().flatten().flat_map(|number| number.to_le_bytes());
            put(to, &bytes.collect::<Vec<u8>>());
        }
        self.history.encode(to);
    }

    fn decode(version: u16, cold: &[u8], hot: &[u8]) -> Result<RuleAgent, Failure> {
        if version != RuleAgent::VERSION {
            let known = RuleAgent::VERSION;
            return Err(Failure(format!("a state of version {version}; known is {known}")));
        }
        let (mut cold, mut hot) = (cold, hot);
        let Text(name, fields, timers) = serde_json::from_slice(take(&mut cold)?)
            .map_err(|error| Failure(format!("a state that is no JSON: {error}")))?;
        let values =
            fields.iter().filter_map(|(name, it)| Some((name.clone(), Value::of_json(it)?)));
        let fields = Fields::Named(values.collect());
        let mut rules = Vec::new();
        while !cold.is_empty() {
            let id = u32::from_le_bytes(array(&mut cold)?);
            let fingerprint = u64::from_le_bytes(array(&mut cold)?);
            let alert = Alert::decode(Alert::VERSION, take(&mut cold)?, take(&mut hot)?)?;
            let mut numbers = take(&mut hot)?;
            let limits = match numbers.is_empty() {
                true => None,
                false => {
                    let mut next = || Ok::<i64, Failure>(i64::from_le_bytes(array(&mut numbers)?));
                    let (low, high, low_band, high_band) = (next()?, next()?, next()?, next()?);
                    let symbol = u32::try_from(next()?).ok();
                    Some((Limits { low, high, low_band, high_band }, symbol))
                }
            };
            rules.push(RuleState { id, fingerprint, limits, alert });
        }
        // Behind the rules; states of before it was kept end there.
        let history = History::decode(hot)?;
        let (name, timers) = (name.into(), Timers::of_kept(timers));
        Ok(RuleAgent { name, fields, rules, timers, history, precomputed: RefCell::default() })
    }
}

/// The readable part of a state: name, fields and timers, if any are set.
#[derive(Deserialize)]
struct Text(
    String,
    BTreeMap<String, serde_json::Value>,
    #[serde(default)] BTreeMap<String, (u64, u64)>,
);

/// Bytes behind their number.
fn put(to: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("a state is far below 4 GiB");
    to.extend(length.to_le_bytes());
    to.extend(bytes);
}

fn take<'a>(from: &mut &'a [u8]) -> Result<&'a [u8], Failure> {
    let length = u32::from_le_bytes(array(from)?) as usize;
    let (bytes, rest) = from.split_at_checked(length).ok_or_else(cut)?;
    *from = rest;
    Ok(bytes)
}

fn array<const N: usize>(from: &mut &[u8]) -> Result<[u8; N], Failure> {
    let (bytes, rest) = from.split_first_chunk::<N>().ok_or_else(cut)?;
    *from = rest;
    Ok(*bytes)
}

fn cut() -> Failure {
    Failure("a state that ends too early".to_owned())
}

/// Values in the places of a file, as JSON.
fn json_of(rules: &Rules, values: &[Option<Value>]) -> serde_json::Map<String, serde_json::Value> {
    let named = rules.state.iter().zip(values);
    named.filter_map(|(field, value)| Some((field.name.clone(), json(value.as_ref()?)))).collect()
}
