//! Job classification: class, priority, key and access of a client's job at its gate, from who asks
//! and from the client's first messages.

use std::sync::Arc;

use gate::{Access, Job, JobId};

use super::config::{Database, Mode};
use super::frontend::Hearing;
use super::pool::{Pool, Says};
use super::slab::Key;
use super::state::Loop;
use pgsession::first_messages::{self, Bind, Peeked};
use pgsession::sql::tokens::LexerMode;
use pgsession::sql::{self, Class, Format, KeyError, KeyRules, Settings, Subject};
use pgwire::SqlState;
use pgwire::message::{Report, Severity};

/// Within how many bytes from its beginning a transaction says to which server it belongs: so many are
/// waited for, of each client \[byte\].
const KEY_BYTES_MAX: usize = 1 << 20;

impl Loop {
    /// The job that a client has now, but for its name.
    pub(super) fn job_of(&mut self, key: Key) -> Job {
        let class = self.class_of(key);
        let client = self.clients.get(key).expect("who asks is there");
        if !self.config.classes.are_one() && !self.config.classes.look_at_texts() {
            let settings = Arc::clone(&client.settings);
            let client = self.clients.get_mut(key).expect("it was there above");
            client.class = Some((settings, class));
        }
        let job = Job { class: class.class, priority: class.priority, ..Job::new(JobId(0)) };
        let client = self.clients.get(key).expect("it was there above");
        let database = &self.config.databases[self.pools[client.pool].database];
        if database.keys.is_empty() && database.gate.roles.is_empty() {
            return job;
        }
        let routed = self.route_of(key, database, job);
        let client = self.clients.get_mut(key).expect("it was there above");
        client.access = routed.access;
        let pool = client.pool;
        let missing = &mut self.pools[pool].counters.keys_missing;
        let key = routed.key.unwrap_or_else(|_| {
            *missing += 1;
            None
        });
        let key = key.unwrap_or(self.config.databases[self.pools[pool].database].key_default);
        Job { key, access: routed.access, ..job }
    }

    /// Sees whether what is here of a client's first messages says all that it will of the server that
    /// its job needs. If not, whether the client is heard on: it waits for more of them, or was refused
    /// since it says that too late.
    pub(super) fn says_where(&mut self, key: Key) -> Result<(), Hearing> {
        let client = self.clients.get(key).expect("its caller has it");
        let says = self.pools[client.pool].says(&self.config);
        let Peeked::More { needs } = self.first_words(key, says) else { return Ok(()) };
        if needs <= KEY_BYTES_MAX {
            let client = self.clients.get_mut(key).expect("it was there above");
            client.needs = needs as u32;
            return Err(Hearing::Done);
        }
        if says == Says::Access {
            // The primary takes it.
            return Ok(());
        }
        let message = format!(
            "it is not said within the first {KEY_BYTES_MAX} bytes of the transaction to which \
             server it belongs"
        );
        let hint = "Begin the transaction by a short statement that says it, such as BEGIN with a \
                    comment.";
        let report = Report {
            hint: Some(hint),
            ..Report::new(Severity::Error, SqlState::PROGRAM_LIMIT_EXCEEDED, &message)
        };
        self.refuse_job(key, &report);
        Err(Hearing::GoesOn)
    }

    /// The need for more of a client's first messages before they tell the job's server.
    fn first_words(&self, key: Key, says: Says) -> Peeked<()> {
        let client = self.clients.get(key).expect("its caller has it");
        let pool = &self.pools[client.pool];
        let rules = &self.config.databases[pool.database].keys;
        let (frames, readable) = (&client.frames, client.connection.read());
        if says == Says::Nothing {
            return Peeked::Here(());
        }
        let text = match first_messages::text(frames, readable, &client.statements, &pool.cache) {
            Peeked::Here(text) => text,
            Peeked::More { .. } if says == Says::Key && !rules.look_at_texts() => b"",
            Peeked::More { needs } => return Peeked::More { needs },
        };
        if says != Says::Key {
            return Peeked::Here(());
        }
        let bind = first_messages::bind(frames, readable);
        if matches!(bind, Peeked::Here(bind) if bind.is_none_or(|bind| bind.is_whole())) {
            return Peeked::Here(());
        }
        let source = rules.source(text, client.settings.lexer_mode());
        let Some(number) = source.ok().and_then(|source| source.number()) else {
            return Peeked::Here(());
        };
        match bind {
            Peeked::Here(bind) => match bind.map(|bind| bind.parameter(number)) {
                Some(Peeked::More { needs }) => Peeked::More { needs },
                _ => Peeked::Here(()),
            },
            Peeked::More { needs } => Peeked::More { needs },
        }
    }

    /// The routing of a job: its key and its access.
    fn route_of(&self, key: Key, database: &Database, job: Job) -> Routed {
        let client = self.clients.get(key).expect("its caller has it");
        let pool = &self.pools[client.pool];
        let lexer_mode = client.settings.lexer_mode();
        let (frames, readable) = (&client.frames, client.connection.read());
        let text = first_messages::text(frames, readable, &client.statements, &pool.cache);
        let key = match text {
            // Who has just come in has asked nothing yet.
            _ if database.keys.is_empty() || readable.is_empty() => Ok(None),
            Peeked::More { .. } if database.keys.look_at_texts() => Err(KeyError::Text),
            Peeked::More { .. } => {
                key_of(&database.keys, b"", lexer_mode, first_messages::bind(frames, readable))
            }
            Peeked::Here(text) => {
                key_of(&database.keys, text, lexer_mode, first_messages::bind(frames, readable))
            }
        };
        let Peeked::Here(text) = text else {
            // The primary takes all there is.
            return Routed { key, access: Access::Write };
        };
        let declared = match sql::access(text, lexer_mode) {
            // A session may go on to write whatever its first text says.
            _ if database.gate.roles.is_empty() => job.access,
            Ok(sql::Access::ReadOnly) if pool.mode != Mode::Session => Access::Read,
            Ok(sql::Access::ReadWrite) | Err(_) => Access::Write,
            Ok(_) if reads_only(&client.settings) => Access::Read,
            Ok(_) => Access::Write,
        };
        let wrote = client.wrote.is_some_and(|at| self.now.since(at) < database.own_writes);
        Routed { key, access: if wrote { Access::Write } else { declared } }
    }

    fn class_of(&mut self, key: Key) -> Class {
        let classes = &self.config.classes;
        if classes.are_one() {
            return Class::default();
        }
        let client = self.clients.get(key).expect("its caller has it");
        if let Some((settings, class)) = &client.class
            && Arc::ptr_eq(settings, &client.settings)
        {
            return *class;
        }
        let Pool { user, database, cache, classification_cache, .. } = &mut self.pools[client.pool];
        let database = self.config.databases[*database].name.as_bytes();
        let read = |text: &[u8]| {
            classes.class(&Subject {
                // Who asks, whoever it is at the servers.
                user: client.user.as_deref().unwrap_or(user),
                database,
                application_name: &client.settings.value(b"application_name").unwrap_or_default(),
                text,
                lexer_mode: client.settings.lexer_mode(),
            })
        };
        if !classes.look_at_texts() {
            return read(b"");
        }
        let readable = client.connection.read();
        let text = match first_messages::text(&client.frames, readable, &client.statements, cache) {
            Peeked::Here(text) => text,
            Peeked::More { .. } => b"",
        };
        classification_cache.class((&client.settings, client.user.as_ref()), text, || read(text))
    }
}

/// The routing of a job: its key and its access.
struct Routed {
    key: Result<Option<u64>, KeyError>,
    access: Access,
}

/// True if transactions of a session with these settings only read unless they say otherwise.
fn reads_only(settings: &Settings) -> bool {
    let value =
        settings.value(b"default_transaction_read_only").map(|value| value.to_ascii_lowercase());
    matches!(value.as_deref(), Some(b"on" | b"true" | b"yes" | b"1"))
}

/// The key of a job by its first text and, if that is where it is, its first Bind.
fn key_of(
    rules: &KeyRules,
    text: &[u8],
    lexer_mode: LexerMode,
    bind: Peeked<Option<Bind<'_>>>,
) -> Result<Option<u64>, KeyError> {
    let source = rules.source(text, lexer_mode)?;
    let Some(number) = source.number() else { return source.bound(Format::Text, None) };
    let found = match bind {
        Peeked::Here(None) => return Ok(None),
        Peeked::Here(Some(bind)) => bind.parameter(number),
        Peeked::More { needs } => Peeked::More { needs },
    };
    let Peeked::Here(Some((format, value))) = found else { return Err(KeyError::Missing) };
    source.bound(format, value)
}
