//! Reading a file of rules: whatever is wrong is told with its line, its column, its cause and the
//! nearest right spelling.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use agents::alert::{AtCreation, On, Quiet, Rearm};
use formats::scenario_file;
use jiff::tz::TimeZone;
use serde::Deserialize;
use toml::Spanned;

use crate::destination::DestinationEntry;
use crate::expression::{Expression, Name, Slot, Way, Wrong};
use crate::program::{ModuleEntry, Modules, NamedProgram, NoModules, Running};
use crate::rules::{
    self, Destination, KeyKind, MessageRules, Rule, Rules, Source, StateField, way_out,
};
use crate::threshold::{BAND, Threshold};
use crate::timer::PREFIX;
use crate::timing::{FiringEntry, TimerEntry};
use crate::value::{Kind, Value, stable_hash};

/// The cause why a file has no rules: its place, what is wrong, and the way out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RulesError(pub(crate) String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileEntry {
    agent: AgentEntry,
    pub(crate) messages: BTreeMap<String, Spanned<MessageEntry>>,
    #[serde(default)]
    rules: BTreeMap<String, Spanned<RuleEntry>>,
    #[serde(default)]
    destinations: BTreeMap<String, Spanned<DestinationEntry>>,
    #[serde(default)]
    modules: BTreeMap<String, Spanned<ModuleEntry>>,
    #[serde(default)]
    pub(crate) timers: BTreeMap<String, Spanned<FiringEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentEntry {
    key: Option<KeyEntry>,
    state: BTreeMap<String, Spanned<StateEntry>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum KeyEntry {
    Text,
    Number,
}

/// A kind, or the value that a field has at the beginning.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a kind (text, number, bool), or a number, true or false to begin with"
)]
enum StateEntry {
    Kind(String),
    Truth(bool),
    Number(f64),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageEntry {
    #[serde(default)]
    pub(crate) fields: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    pub(crate) set: BTreeMap<String, Spanned<String>>,
    pub(crate) module: Option<Spanned<String>>,
    #[serde(default)]
    pub(crate) timers: BTreeMap<String, Spanned<TimerEntry>>,
    #[serde(default)]
    pub(crate) cancel: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RuleEntry {
    on: Spanned<String>,
    when: Spanned<String>,
    fires: Option<FiresEntry>,
    rearm: Option<Spanned<RearmEntry>>,
    cooldown: Option<Spanned<String>>,
    at_most: Option<Spanned<String>>,
    quiet: Option<Spanned<String>>,
    zone: Option<Spanned<String>>,
    expires: Option<Spanned<String>>,
    at_creation: Option<AtCreationEntry>,
    #[serde(default)]
    notify: Vec<Spanned<String>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FiresEntry {
    Crossing,
    Level,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum AtCreationEntry {
    Fires,
    Waits,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RearmEntry {
    Inside,
    Edit,
    Band(f64),
    After(String),
}

impl Rules {
    /// The rules of a file; `name` is that of the file, for errors.
    ///
    /// # Errors
    /// Whatever is wrong with it, with line and column.
    pub fn read(name: &str, text: &str) -> Result<Arc<Rules>, RulesError> {
        Rules::read_by(name, text, None)
    }

    /// The same, whose messages find agents in this way, whatever is the better one; `None` for the better one.
    ///
    /// # Errors
    /// Also bounds, where a message with a rule is for more than thresholds of one field.
    pub fn read_by(
        name: &str,
        text: &str,
        way: Option<rules::Way>,
    ) -> Result<Arc<Rules>, RulesError> {
        Rules::read_with(name, text, way, &(Arc::new(NoModules) as Arc<dyn Modules>))
    }

    /// The same, whose programs are of these modules.
    ///
    /// # Errors
    /// Also a module that is not to be had.
    pub fn read_with(
        name: &str,
        text: &str,
        way: Option<rules::Way>,
        modules: &Arc<dyn Modules>,
    ) -> Result<Arc<Rules>, RulesError> {
        let file: FileEntry = toml::from_str(text)
            .map_err(|error| RulesError(scenario_file::explain(name, text, &error)))?;
        let mut read = Reader { name, text }.rules(&file, modules)?;
        read.source = Arc::new(Source { text: text.to_owned(), way });
        let other = read.summary().into_iter().find(|rule| rule.way == rules::Way::All);
        match (way, other) {
            (Some(rules::Way::Bounds), Some(rule)) => Err(RulesError(format!(
                "{name}: `{}` cannot find agents by bounds: {}; leave `--way` out, or say `--way all`",
                rule.message, rule.why
            ))),
            (Some(rules::Way::All), _) => Ok(Arc::new(read.asking_all())),
            _ => Ok(Arc::new(read)),
        }
    }

    /// The rules of another text, with the modules of these.
    ///
    /// # Errors
    /// Whatever is wrong with it.
    pub fn read_again(
        &self,
        name: &str,
        text: &str,
        way: Option<rules::Way>,
    ) -> Result<Arc<Rules>, RulesError> {
        Rules::read_with(name, text, way, &self.modules)
    }

    /// The rules of a text of somebody who must not name files of this machine: with the modules alone that these
    /// rules run.
    ///
    /// # Errors
    /// Also another module.
    pub fn try_text(&self, name: &str, text: &str) -> Result<Arc<Rules>, RulesError> {
        let own = self.messages.iter().filter_map(|message| message.program.as_ref());
        let own = own.map(|it| (it.file.clone(), it.program.clone())).collect();
        Rules::read_with(name, text, None, &(Arc::new(Running(own)) as Arc<dyn Modules>))
    }
}

pub(crate) struct Reader<'a> {
    name: &'a str,
    text: &'a str,
}

pub(crate) type Read<T> = Result<T, RulesError>;

/// Names that the expressions on a message may use.
type Names = Arc<[Name]>;

/// The parts of a file that a rule may name.
struct Declared<'a> {
    state: &'a [StateField],
    messages: &'a [MessageRules],
    /// Of each message, the names that an expression may use.
    names: &'a [Arc<[Name]>],
    destinations: &'a [Destination],
}

impl Reader<'_> {
    pub(crate) fn wrong<T>(&self, span: Range<usize>, cause: &str) -> Read<T> {
        Err(RulesError(scenario_file::at(self.name, self.text, span, cause)))
    }

    fn rules(&self, file: &FileEntry, modules: &Arc<dyn Modules>) -> Read<Rules> {
        let state = self.state(file)?;
        let destinations = self.destinations(&file.destinations, &state)?;
        let (mut messages, names) = self.messages(file, &state, modules)?;
        let mut rules: Vec<Rule> = Vec::new();
        for (name, entry) in &file.rules {
            let declared = Declared {
                state: &state,
                messages: &messages,
                names: &names,
                destinations: &destinations,
            };
            let rule = self.rule(name, entry, &declared)?;
            if let Some(other) = rules.iter().find(|other| other.id == rule.id) {
                let cause = format!("`{name}` and `{}` have one number: rename one", other.name);
                return self.wrong(entry.span(), &cause);
            }
            messages[rule.message].rules.push(rules.len());
            rules.push(rule);
        }
        for message in &mut messages {
            let mut fields = message.rules.iter().map(|&at| rules[at].threshold.as_ref());
            let first = fields.next().flatten().map(|threshold| threshold.field);
            let is_one = fields.all(|it| it.map(|threshold| threshold.field) == first);
            message.compared = first.filter(|_| is_one && !message.acts());
        }
        let all = rules.iter().map(|rule| rule.fingerprint.to_le_bytes());
        let all: Vec<[u8; 8]> = all.collect();
        let mut parts: Vec<&[u8]> = all.iter().map(|it| &it[..]).collect();
        let ways: Vec<u8> =
            messages.iter().map(|message| u8::from(message.compared.is_some())).collect();
        parts.push(&ways);
        // Those that are set and that the file has no more end.
        let timers = messages.iter().filter_map(|message| message.timer.as_deref());
        parts.extend(timers.map(str::as_bytes));
        let fingerprint = stable_hash(&parts);
        let key = match file.agent.key {
            Some(KeyEntry::Number) => KeyKind::Number,
            Some(KeyEntry::Text) | None => KeyKind::Text,
        };
        let source = Arc::default();
        let asks_all = false;
        let modules = modules.clone();
        Ok(Rules {
            key,
            state,
            messages,
            rules,
            destinations,
            fingerprint,
            asks_all,
            source,
            modules,
        })
    }

    /// The messages and the timers of a file, and the names that expressions on each may use.
    fn messages(
        &self,
        file: &FileEntry,
        state: &[StateField],
        modules: &Arc<dyn Modules>,
    ) -> Read<(Vec<MessageRules>, Vec<Names>)> {
        let mut programs = Vec::new();
        for (name, entry) in &file.modules {
            programs.push(self.module(name, entry, &**modules)?);
        }
        let mut messages = Vec::new();
        let mut names = Vec::new();
        for (name, entry) in &file.messages {
            if name.starts_with(PREFIX) {
                let cause = format!("`{name}` is the name of a timer's firing: take another");
                return self.wrong(entry.span(), &cause);
            }
            let (mut message, known) = self.message(name, entry.get_ref(), state)?;
            message.program = self.program_of(entry.get_ref(), &programs)?;
            messages.push(message);
            names.push(known);
        }
        for (name, entry) in self.firings(file)? {
            let (message, known) = self.message(&format!("{PREFIX}{name}"), &entry, state)?;
            messages.push(MessageRules { timer: Some(name.into()), ..message });
            names.push(known);
        }
        Ok((messages, names))
    }

    /// The program of a message.
    fn program_of(
        &self,
        entry: &MessageEntry,
        programs: &[Arc<NamedProgram>],
    ) -> Read<Option<Arc<NamedProgram>>> {
        let Some(name) = &entry.module else { return Ok(None) };
        if let Some(set) = entry.set.values().next() {
            let cause = "a message has `set` or `module`: leave one of them out";
            return self.wrong(set.span(), cause);
        }
        let at = self.named(name, "module", programs.iter().map(|it| it.name.as_str()))?;
        Ok(Some(programs[at].clone()))
    }

    /// A name that expressions can use.
    fn check_name(&self, name: &str, span: Range<usize>) -> Read<()> {
        let is_word = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_word {
            let cause = format!(
                "`{name}` is no name for an expression: letters, digits and `_`, a letter first"
            );
            return self.wrong(span, &cause);
        }
        const TAKEN: [&str; 19] = [
            "true",
            "false",
            "null",
            "in",
            "as",
            "break",
            "const",
            "continue",
            "else",
            "for",
            "function",
            "if",
            "import",
            "let",
            "loop",
            "package",
            "namespace",
            "return",
            "var",
        ];
        match TAKEN.contains(&name) {
            true => self.wrong(span, &format!("`{name}` is a word of CEL: take another name")),
            false => Ok(()),
        }
    }

    fn kind(&self, word: &str, span: Range<usize>) -> Read<Kind> {
        match Kind::NAMES.iter().find(|(name, _)| *name == word) {
            Some((_, kind)) => Ok(*kind),
            None => {
                let way_out = way_out(word, Kind::NAMES.iter().map(|(name, _)| *name));
                self.wrong(span, &format!("unknown kind `{word}`; {way_out}"))
            }
        }
    }

    fn state(&self, file: &FileEntry) -> Read<Vec<StateField>> {
        let mut state = Vec::new();
        for (name, entry) in &file.agent.state {
            self.check_name(name, entry.span())?;
            let (kind, start) = match entry.get_ref() {
                StateEntry::Kind(word) => (self.kind(word, entry.span())?, None),
                StateEntry::Truth(it) => (Kind::Bool, Some(Value::Bool(*it))),
                StateEntry::Number(it) if it.is_finite() => {
                    (Kind::Number, Some(Value::Number(*it)))
                }
                StateEntry::Number(_) => {
                    return self.wrong(entry.span(), "a number to begin with is finite");
                }
            };
            state.push(StateField { name: name.clone(), kind, start });
        }
        Ok(state)
    }

    /// A message, and the names that expressions on it may use.
    fn message(
        &self,
        name: &str,
        entry: &MessageEntry,
        state: &[StateField],
    ) -> Read<(MessageRules, Arc<[Name]>)> {
        let mut fields = Vec::new();
        for (field, kind) in &entry.fields {
            self.check_name(field, kind.span())?;
            fields.push((field.clone(), self.kind(kind.get_ref(), kind.span())?));
        }
        let mut shared = Vec::new();
        for (at, field) in state.iter().enumerate() {
            let Some(same) = fields.iter().position(|(name, _)| *name == field.name) else {
                continue;
            };
            if fields[same].1 != field.kind {
                let cause = format!(
                    "`{}` is {} here and {} in the state; a field of both must be the same",
                    field.name, fields[same].1, field.kind
                );
                return self.wrong(entry.fields[&field.name].span(), &cause);
            }
            shared.push((at, same));
        }
        let own = state.iter().enumerate().map(|(at, field)| Name {
            name: field.name.clone(),
            kind: field.kind,
            slot: Slot::State(at),
        });
        let of_message = fields.iter().enumerate().filter_map(|(at, (name, kind))| {
            let is_shared = shared.iter().any(|&(_, field)| field == at);
            (!is_shared).then(|| Name { name: name.clone(), kind: *kind, slot: Slot::Field(at) })
        });
        let names: Arc<[Name]> = own.chain(of_message).collect();
        let set = self.set(entry, (state, &shared), &names)?;
        let timers = self.timers(entry, &names)?;
        let cancel = entry.cancel.iter().map(|name| name.get_ref().as_str().into()).collect();
        let message = MessageRules {
            name: name.to_owned(),
            fields,
            shared,
            set,
            program: None,
            timers,
            cancel,
            timer: None,
            rules: Vec::new(),
            compared: None,
        };
        Ok((message, names))
    }

    /// The fields of the state that a message sets.
    fn set(
        &self,
        entry: &MessageEntry,
        (state, shared): (&[StateField], &[(usize, usize)]),
        names: &Arc<[Name]>,
    ) -> Read<Vec<(usize, Expression)>> {
        let mut set = Vec::new();
        for (field, text) in &entry.set {
            let Some(at) = state.iter().position(|it| it.name == *field) else {
                let known = state.iter().map(|it| it.name.as_str());
                let cause = format!("unknown field `{field}`; {}", way_out(field, known));
                return self.wrong(text.span(), &cause);
            };
            if shared.iter().any(|&(state, _)| state == at) {
                let cause = format!("`{field}` says for which agents the message is: it stays");
                return self.wrong(text.span(), &cause);
            }
            set.push((at, self.expression(text, names, state[at].kind)?));
        }
        Ok(set)
    }

    pub(crate) fn expression(
        &self,
        text: &Spanned<String>,
        names: &Arc<[Name]>,
        kind: Kind,
    ) -> Read<Expression> {
        Expression::read(text.get_ref(), names, kind).map_err(|Wrong { span, cause }| {
            // Behind the quotation mark, if the text stands as it is written; else the whole of it.
            let whole = text.span();
            let written = self.text.get(whole.clone()).unwrap_or_default();
            let place = match written.find(text.get_ref().as_str()) {
                Some(at) => whole.start + at + span.start..whole.start + at + span.end,
                None => whole,
            };
            RulesError(scenario_file::at(self.name, self.text, place, &cause))
        })
    }

    fn rule(
        &self,
        name: &str,
        entry: &Spanned<RuleEntry>,
        &Declared { state, messages, names, destinations }: &Declared<'_>,
    ) -> Read<Rule> {
        let it = entry.get_ref();
        let known = messages.iter().map(|message| message.name.as_str());
        let message = self.named(&it.on, "message", known)?;
        let when = self.expression(&it.when, &names[message], Kind::Bool)?;
        let threshold = match &when.way {
            Way::Native(native) => Threshold::of(native),
            Way::Interpreted(_) => None,
        };
        let (rearm, band) = self.rearm(it.rearm.as_ref(), threshold.is_some())?;
        let mut notify = Vec::new();
        for one in &it.notify {
            let known = destinations.iter().map(|it| it.name.as_str());
            notify.push(self.named(one, "destination", known)?);
        }
        let shared = messages[message].shared.iter().map(|&(at, _)| state[at].name.as_bytes());
        let mut rule = Rule {
            name: name.to_owned(),
            id: stable_hash(&[name.as_bytes()]) as u32,
            fingerprint: 0,
            message,
            when,
            threshold,
            on: match it.fires {
                Some(FiresEntry::Level) => On::Level,
                Some(FiresEntry::Crossing) => On::Crossing,
                // A timer that is due is news each time.
                None if messages[message].timer.is_some() => On::Level,
                None => On::Crossing,
            },
            rearm,
            band,
            cooldown: it.cooldown.as_ref().map(|text| self.span(text)).transpose()?,
            per_day_max: it.at_most.as_ref().map(|text| self.per_day(text)).transpose()?,
            quiet: it.quiet.as_ref().map(|text| self.quiet(text)).transpose()?,
            zone: self.zone(it)?,
            expires: it.expires.as_ref().map(|text| self.expires(text, state)).transpose()?,
            at_creation: match it.at_creation {
                Some(AtCreationEntry::Waits) => AtCreation::Waits,
                Some(AtCreationEntry::Fires) | None => AtCreation::Fires,
            },
            notify,
        };
        let life = format!(
            "{:?}",
            (rule.on, rule.rearm, band, rule.cooldown, rule.per_day_max, rule.quiet)
        );
        let more = format!(
            "{:?}",
            (rule.expires, rule.at_creation, it.zone.as_ref().map(Spanned::get_ref))
        );
        let texts = [it.on.get_ref(), it.when.get_ref(), &life, &more].map(|text| text.as_bytes());
        let parts: Vec<&[u8]> = texts.into_iter().chain(shared).collect();
        rule.fingerprint = stable_hash(&parts);
        Ok(rule)
    }

    /// The place of a name among those known.
    pub(crate) fn named<'k>(
        &self,
        name: &Spanned<String>,
        kind: &str,
        known: impl Iterator<Item = &'k str> + Clone,
    ) -> Read<usize> {
        match known.clone().position(|it| it == name.get_ref()) {
            Some(at) => Ok(at),
            None => {
                let way_out = way_out(name.get_ref(), known);
                self.wrong(name.span(), &format!("unknown {kind} `{}`; {way_out}", name.get_ref()))
            }
        }
    }

    fn rearm(&self, entry: Option<&Spanned<RearmEntry>>, is_threshold: bool) -> Read<(Rearm, f64)> {
        let Some(entry) = entry else { return Ok((Rearm::Band(BAND), 0.0)) };
        match entry.get_ref() {
            RearmEntry::Inside => Ok((Rearm::Band(BAND), 0.0)),
            RearmEntry::Edit => Ok((Rearm::Edit, 0.0)),
            RearmEntry::Band(_) if !is_threshold => self.wrong(
                entry.span(),
                "a band is for a condition that compares one number of the message with limits; \
                 take \"inside\", { after = \"10m\" } or \"edit\"",
            ),
            RearmEntry::Band(band) if band.is_finite() && *band >= 0.0 => {
                Ok((Rearm::Band(BAND), *band))
            }
            RearmEntry::Band(_) => self.wrong(entry.span(), "a band is 0 or above"),
            RearmEntry::After(text) => match duration(text) {
                Ok(span) => Ok((Rearm::After(span), 0.0)),
                Err(cause) => self.wrong(entry.span(), &cause),
            },
        }
    }

    pub(crate) fn span(&self, text: &Spanned<String>) -> Read<Duration> {
        duration(text.get_ref()).or_else(|cause| self.wrong(text.span(), &cause))
    }

    fn per_day(&self, text: &Spanned<String>) -> Read<u32> {
        let count = text.get_ref().strip_suffix("/day").and_then(|it| it.trim().parse().ok());
        match count {
            Some(count @ 1..) => Ok(count),
            _ => self.wrong(text.span(), "a limit such as \"3/day\" is wanted, at least 1"),
        }
    }

    fn quiet(&self, text: &Spanned<String>) -> Read<Quiet> {
        let minute = |text: &str| {
            let (hour, minute) = text.trim().split_once(':')?;
            let (hour, minute): (u32, u32) = (hour.parse().ok()?, minute.parse().ok()?);
            (hour < 24 && minute < 60).then_some(hour * 60 + minute)
        };
        let both = text.get_ref().split_once('-');
        match both.and_then(|(from, to)| Some((minute(from)?, minute(to)?))) {
            Some((from, to)) if from != to => Ok(Quiet { from, to }),
            _ => self.wrong(text.span(), "a stretch of the day such as \"22:00-07:00\" is wanted"),
        }
    }

    fn zone(&self, it: &RuleEntry) -> Read<TimeZone> {
        let Some(name) = &it.zone else {
            // A day without a zone would be one that nobody meant.
            return match it.quiet.as_ref().or(it.at_most.as_ref()) {
                Some(needs) => self.wrong(
                    needs.span(),
                    "days and times of day need a zone: add `zone = \"Europe/Berlin\"`, or \"UTC\"",
                ),
                None => Ok(TimeZone::UTC),
            };
        };
        let zones = jiff::tz::TimeZoneDatabase::bundled();
        match zones.get(name.get_ref()) {
            Ok(zone) => Ok(zone),
            Err(_) => {
                let known: Vec<String> =
                    zones.available().map(|zone| zone.as_str().to_owned()).collect();
                let nearest = measure::nearest(name.get_ref(), known.iter().map(String::as_str));
                let way_out = match nearest {
                    Some(nearest) => format!("did you mean `{nearest}`?"),
                    None => "names are those of the IANA, such as Europe/Berlin".to_owned(),
                };
                self.wrong(name.span(), &format!("unknown zone `{}`; {way_out}", name.get_ref()))
            }
        }
    }

    fn expires(&self, text: &Spanned<String>, state: &[StateField]) -> Read<usize> {
        let at = self.named(text, "field", state.iter().map(|field| field.name.as_str()))?;
        match state[at].kind {
            Kind::Number => Ok(at),
            kind => self.wrong(
                text.span(),
                &format!("`{}` is {kind}: it holds a moment in seconds since 1970", text.get_ref()),
            ),
        }
    }
}

/// A span above 0, such as `10m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(span) if !span.is_zero() => Ok(span),
        _ => Err(format!("`{text}` is no span above 0 such as \"30s\", \"10m\" or \"2h\"")),
    }
}
