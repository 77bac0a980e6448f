//! Gives a transaction its class and priority, by the first rule that fits its first text.

use super::fingerprint::Fingerprint;
use super::tags::Tags;
use super::tokens::LexerMode;

/// Pattern that a rule compares with: a text as it is, or with `*` at its end all that begin so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// As it is.
    Exact(Vec<u8>),
    /// All that begin so.
    Prefix(Vec<u8>),
}

impl Pattern {
    /// The one that is written so.
    pub fn new(text: &[u8]) -> Pattern {
        match text.strip_suffix(b"*") {
            Some(prefix) => Pattern::Prefix(prefix.to_vec()),
            None => Pattern::Exact(text.to_vec()),
        }
    }

    fn fits(&self, text: &[u8]) -> bool {
        match self {
            Pattern::Exact(exact) => exact == text,
            Pattern::Prefix(prefix) => text.starts_with(prefix),
        }
    }
}

/// One condition of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// The user that asks.
    User(Pattern),
    /// Of which database.
    Database(Pattern),
    /// As which program, by the setting of its session.
    ApplicationName(Pattern),
    /// With this tag in a comment.
    Tag {
        /// Its name.
        name: Vec<u8>,
        /// Its value.
        value: Pattern,
    },
    /// With a statement like this.
    Statement(Fingerprint),
}

/// Class and priority of a job at the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// Its number, `gate::Job::class`.
    pub class: u32,
    /// Its priority, `gate::Job::priority`: a larger number is served first.
    pub priority: u8,
}

/// A rule: if all its conditions hold, its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The conditions; without any it always fits.
    pub tests: Vec<Test>,
    /// The class.
    pub class: Class,
}

/// Facts that a rule may look at.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The user.
    pub user: &'a [u8],
    /// The database.
    pub database: &'a [u8],
    /// The program.
    pub application_name: &'a [u8],
    /// The first text of the transaction.
    pub text: &'a [u8],
    /// The lexer mode of the text.
    pub lexer_mode: LexerMode,
}

/// The rules, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    rules: Vec<Rule>,
}

impl Rules {
    /// These rules, asked in this order.
    pub fn new(rules: Vec<Rule>) -> Rules {
        Rules { rules }
    }

    /// True if a rule looks at texts. If none does, the class is a session's until its settings
    /// change.
    pub fn look_at_texts(&self) -> bool {
        let tests = self.rules.iter().flat_map(|rule| &rule.tests);
        tests.into_iter().any(|test| matches!(test, Test::Tag { .. } | Test::Statement(_)))
    }

    /// The class of the first rule that fits. None if none does. A text that cannot be read has
    /// neither tags nor a fingerprint.
    pub fn class(&self, subject: &Subject<'_>) -> Option<Class> {
        let (mut tags, mut fingerprint) = (None, None);
        let rule = self.rules.iter().find(|rule| {
            rule.tests.iter().all(|test| match test {
                Test::User(pattern) => pattern.fits(subject.user),
                Test::Database(pattern) => pattern.fits(subject.database),
                Test::ApplicationName(pattern) => pattern.fits(subject.application_name),
                Test::Tag { name, value } => {
                    // Once for all rules that ask.
                    let read = || Tags::of(subject.text, subject.lexer_mode).unwrap_or_default();
                    let tags = tags.get_or_insert_with(read);
                    tags.value(name).is_some_and(|found| value.fits(found))
                }
                Test::Statement(wanted) => {
                    let read = || Fingerprint::of(subject.text, subject.lexer_mode).ok();
                    *fingerprint.get_or_insert_with(read) == Some(*wanted)
                }
            })
        });
        rule.map(|rule| rule.class)
    }
}
