//! Rules for jobs in the words of the running gate: their classes, their keys, and the policy for
//! session state.

use std::time::Duration;

use advise::{RouterEntry, Span};
use gate::KeyOf;
use monitor::{Classes, JobClass};
use pgsession::sql::{
    Choice, Choices, Class, CodeChoice, Fingerprint, KeyRule, KeyRules, KeyType, Mapping, Pattern,
    Rule, SequenceChoice, SetChoice, Test, Where,
};

use super::config::{
    ClassEntry, CodePolicy, GateFile, KeyEntry, KeyKind, SequencePolicy, SetPolicy, StatePolicy,
    StatementKey,
};
use super::policies::has_texts;

/// The classes; behind their rules stand those for users whose jobs no class holds.
///
/// # Errors
/// The key, and what is wrong with it.
pub(super) fn classes(file: &GateFile) -> Result<Classes, (String, String)> {
    let mut rules = Vec::new();
    for (number, entry) in (1..).zip(&file.class) {
        let path = format!("class.{}", number - 1);
        let tests = tests(entry).map_err(|cause| (path, cause))?;
        rules.push(Rule { tests, class: Class { class: number, priority: entry.priority } });
    }
    for user in &file.user {
        if let Some(priority) = user.priority {
            let name = Pattern::Exact(user.name.clone().into_bytes());
            let class = Class { class: 0, priority };
            rules.push(Rule { tests: vec![Test::User(name)], class });
        }
    }
    let wait_max = |span: Span| Duration::from_secs_f64(span.0);
    let list = file
        .class
        .iter()
        .map(|entry| JobClass { name: entry.name.clone(), wait_max: entry.deadline.map(wait_max) });
    Classes::new(list.collect(), rules).map_err(|error| ("class".to_owned(), error.to_string()))
}

fn tests(entry: &ClassEntry) -> Result<Vec<Test>, String> {
    let ClassEntry { user, database, application_name, tag, fingerprint, .. } = entry;
    let pattern = |text: &String| Pattern::new(text.as_bytes());
    let mut tests = Vec::new();
    tests.extend(user.as_ref().map(|text| Test::User(pattern(text))));
    tests.extend(database.as_ref().map(|text| Test::Database(pattern(text))));
    tests.extend(application_name.as_ref().map(|text| Test::ApplicationName(pattern(text))));
    if let Some(tag) = tag {
        let (name, value) = tag.split_once('=').ok_or(NO_TAG)?;
        let (name, value) = (name.as_bytes().to_vec(), Pattern::new(value.as_bytes()));
        tests.push(Test::Tag { name, value });
    }
    if let Some(text) = fingerprint {
        tests.push(Test::Statement(self::fingerprint(text)?));
    }
    Ok(tests)
}

pub(super) const NO_TAG: &str = "a tag is `key=value`; write it so";
pub(super) const NO_FINGERPRINT: &str = "a fingerprint is 1 to 16 hexadecimal digits; write it so";

/// The fingerprint that a text is.
pub(super) fn fingerprint(text: &str) -> Result<Fingerprint, String> {
    let padded = if text.is_empty() { String::new() } else { format!("{text:0>16}") };
    padded.parse().map_err(|_| NO_FINGERPRINT.to_owned())
}

/// Rules for the keys of jobs, and the key of those that tell none.
///
/// # Errors
/// The key of the configuration, and what is wrong with it.
pub(super) fn keys(file: &GateFile) -> Result<(KeyRules, u64), (String, String)> {
    let (mapping, usual, unknown) = mapping(file);
    let mut rules = Vec::new();
    for (at, entry) in file.key.iter().enumerate() {
        let wrong = |cause: &str| (format!("key.{at}"), cause.to_owned());
        let place = place(entry).map_err(|cause| wrong(&cause))?;
        let bound = entry.parameter.is_some() || entry.statement.is_some();
        let of = match entry.kind {
            None if mapping == Mapping::Hash && bound => {
                return Err(wrong(
                    "the router goes by the hash of what drivers send, and they send one number in \
                     several forms; say `type = \"integer\"`, or `type = \"text\"` if it is no number",
                ));
            }
            None => usual,
            Some(KeyKind::Integer) => KeyType::Integer,
            Some(KeyKind::Text) if mapping == Mapping::Number => {
                return Err(wrong(
                    "the router goes by numbers; say `type = \"integer\"` or leave it out",
                ));
            }
            Some(KeyKind::Text) => KeyType::Text,
        };
        rules.push(KeyRule { at: place, of, mapping: mapping.clone() });
    }
    Ok((KeyRules::new(rules), unknown))
}

/// The mapping from values to numbers for the router, the type of the values, and the number of an
/// unknown one.
fn mapping(file: &GateFile) -> (Mapping, KeyType, u64) {
    match &file.router {
        Some(RouterEntry::ByKey { of: Some(KeyOf::Class), .. }) => {
            (Mapping::Hash, KeyType::Text, 0)
        }
        Some(RouterEntry::ByKey { table: Some(table), .. }) if has_texts(table) => {
            let rows = (0..).zip(table.keys()).map(|(at, key)| (key.clone().into_bytes(), at));
            // No row has this one, so that it belongs where the table's `default` says.
            (Mapping::Table(rows.collect()), KeyType::Text, u64::MAX)
        }
        Some(
            RouterEntry::ByKey { bounds: Some(_), .. } | RouterEntry::ByKey { table: Some(_), .. },
        ) => (Mapping::Number, KeyType::Integer, 0),
        _ => (Mapping::Hash, KeyType::Text, 0),
    }
}

fn place(entry: &KeyEntry) -> Result<Where, String> {
    let from_one = |number: u16| match number {
        0 => Err("parameters and places are counted from 1; give a larger number".to_owned()),
        number => Ok(number),
    };
    match (entry.parameter, &entry.tag, &entry.statement) {
        (Some(number), None, None) => Ok(Where::AnyParameter { number: from_one(number)? }),
        (None, Some(tag), None) => Ok(Where::Comment { name: tag.clone().into_bytes() }),
        (None, None, Some(StatementKey { fingerprint: text, parameter, place })) => {
            let statement = fingerprint(text)?;
            match (parameter, place) {
                (Some(number), None) => {
                    Ok(Where::Parameter { statement, number: from_one(*number)? })
                }
                (None, Some(number)) => {
                    Ok(Where::Place { statement, number: from_one(*number)?.into() })
                }
                _ => Err("a statement's key is in a `parameter` or at a `place`; say one".into()),
            }
        }
        _ => Err("it is in a `parameter`, a `tag` or a `statement`; say one of the three".into()),
    }
}

/// The policy for session state that clients leave.
pub(super) fn choices(file: &GateFile) -> Choices {
    let left = &file.session_state;
    let choice = |choice| match choice {
        StatePolicy::Pin => Choice::Pin,
        StatePolicy::Refuse => Choice::Refuse,
    };
    let set = |choice| match choice {
        SetPolicy::Track => SetChoice::Track,
        SetPolicy::Pin => SetChoice::Pin,
        SetPolicy::Refuse => SetChoice::Refuse,
    };
    Choices {
        set: set(left.set),
        role: set(left.role),
        authorization: choice(left.session_authorization),
        listen: choice(left.listen),
        advisory_lock: choice(left.advisory_locks),
        temporary: choice(left.temporary_tables),
        with_hold: choice(left.held_cursors),
        prepare: choice(left.prepare),
        load: choice(left.load),
        code: match left.code {
            CodePolicy::Trust => CodeChoice::Trust,
            CodePolicy::Clean => CodeChoice::Clean,
            CodePolicy::Pin => CodeChoice::Pin,
            CodePolicy::Refuse => CodeChoice::Refuse,
        },
        sequences: match left.sequences {
            SequencePolicy::Trust => SequenceChoice::Trust,
            SequencePolicy::Discard => SequenceChoice::Discard,
            SequencePolicy::DiscardAlways => SequenceChoice::DiscardAlways,
            SequencePolicy::Pin => SequenceChoice::Pin,
            SequencePolicy::Refuse => SequenceChoice::Refuse,
        },
        tracked: file
            .startup
            .track
            .iter()
            .map(|name| name.to_ascii_lowercase().into_bytes())
            .collect(),
    }
}
