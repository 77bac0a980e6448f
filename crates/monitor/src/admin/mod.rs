//! Operating a monitor while it runs: the console on the wire, metrics and the live page over HTTP.
//!
//! ```text
//!   loop (clients, gates, servers)                    admin server (a thread of its own)
//!     admits ── the connection of an administrator ──▶  console, HTTP
//!     looks, pauses, kills ◀── one question each ─────  bounded admin connections, deadlines
//!     ──────── a snapshot, done, refused ────────────▶  tables, JSON, metrics
//! ```
//!
//! Administrators log in as every client does, at the loop. From then on their connection belongs to
//! the admin server, so that nothing that is rendered, and nobody who does not read, holds up a client. What
//! is asked of the loop is one snapshot at a time, and these take a twentieth of its time at most.

mod config;
mod connection;
mod controls;
mod http;
mod login;
mod server;
mod settings;
mod snapshot;

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use gate::Time;
use live::WhatIf;

pub use config::Admin;
use controls::Wait;
pub(super) use controls::{Awaited, Ending};
pub(super) use server::{AdminServer, Opened};

use super::config::Config;
use super::connection::Connection;
use super::modelling::Models;
use super::pool::PoolIndex;
use super::reload::Set;
use super::slab::Key;
use pgconsole::{Access, Control, Counts, Refusal, Snapshot};

/// A request of the admin server to the loop, with the admin connection that it is for.
#[derive(Debug)]
pub(super) struct Asked {
    admin_connection: Key,
    pub(super) ask: Ask,
}

/// A request of the admin server to the loop.
#[derive(Debug)]
pub(super) enum Ask {
    /// The gate now.
    Snapshot,
    /// A sign of life: that the loop goes round, and whether clients should come.
    Pulse,
    /// The models, for what one wants to know of them.
    Models(WhatIf),
    /// To change something.
    Control(Control),
    /// To give up what this admin connection waits for, and to undo it.
    Withdraw,
    /// To give up what this admin connection waits for; its connection, of this number if it may cancel, has
    /// gone.
    Forget(Option<u32>),
}

/// Readiness of the gate for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ready {
    Yes,
    /// Nobody should come any more.
    Draining,
    /// No server has answered yet, or all have gone and clients wait for one.
    NoServer,
}

/// An answer of the loop.
#[derive(Debug)]
enum Answer {
    /// The gate at that moment, and how long it took to look.
    Snapshot(Box<Snapshot>, Duration),
    Pulse(Ready),
    Models(WhatIf, Models),
    Done,
    /// Done, and this is to be told of it, in sentences.
    Told(Vec<String>),
    Refused(Refusal),
}

/// A message of the loop to the admin server.
#[derive(Debug)]
enum AdminMessage {
    Admitted(Box<Admitted>),
    Answer(Key, Answer),
    /// Whoever has this number wants no longer what it waits for.
    Cancel(u32),
    /// Accept or accept no longer those who look at the metrics.
    Listen(Listening),
    /// The monitor has ended.
    End,
}

/// Acceptance of those who look at the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listening {
    /// Somebody else does.
    Stops,
    GoesOn,
}

/// Somebody who has logged in at the console.
#[derive(Debug)]
struct Admitted {
    connection: Connection,
    access: Access,
    id: u64,
    user: String,
    database: String,
    application_name: String,
    ends: (Option<SocketAddr>, Option<SocketAddr>),
    came: SystemTime,
    process: u32,
    secret: Vec<u8>,
}

/// The loop's line to its admin server. The admin server ends when this is dropped.
#[derive(Debug)]
pub(super) struct Line {
    admin_messages: mpsc::Sender<AdminMessage>,
    waker: mio::Waker,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Line {
    fn send(&self, admin_message: AdminMessage) {
        // An admin server that has gone has nobody left to tell.
        if self.admin_messages.send(admin_message).is_ok() {
            let _ = self.waker.wake();
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.send(AdminMessage::End);
        if let Some(thread) = self.thread.take() {
            // What it panicked of, if it did, was printed then.
            let _ = thread.join();
        }
    }
}

/// Knowledge of the loop about its administrators.
#[derive(Debug, Default)]
pub(super) struct Operating {
    line: Option<Line>,
    /// The number that the last connection got.
    numbered: u64,
    all: AllPools,
    /// Databases of which no job starts, and those that let nobody in.
    paused: BTreeSet<String>,
    disabled: BTreeSet<String>,
    /// Waiting administrators, each with the control that is to be done.
    waits: Vec<Wait>,
    /// Administrators who wait for the configuration that is being read, and for the next one.
    reloads: Vec<Key>,
    reloads_next: Vec<Key>,
    /// Keys that SET has changed since the configuration was read: at once, and by its source.
    set_at_once: Vec<Set>,
    set_by_source: Vec<Set>,
    /// By which connections of the console are cancelled.
    consoles: HashMap<u32, Vec<u8>>,
    periods: Periods,
}

/// Keeps the last value of a key: no list is longer than there are keys.
fn put(sets: &mut Vec<Set>, key: String, value: String) {
    match sets.iter_mut().find(|(one, _)| *one == key) {
        Some((_, last)) => *last = value,
        None => sets.push((key, value)),
    }
}

/// The start of jobs of all databases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AllPools {
    #[default]
    Start,
    Paused,
}

/// Counters of each pool in the last period.
#[derive(Debug, Default)]
struct Periods {
    began: Time,
    /// Length of the last one; zero before its end.
    length: Duration,
    /// Of each pool, when the period began, and in the last one.
    pools: Vec<(Counts, Counts)>,
}

impl Operating {
    /// A pool is closed, and its place is for another one.
    pub(super) fn forget_pool(&mut self, pool: PoolIndex) {
        self.periods.forget(pool);
    }

    /// The number of the next connection, of a client or to a server.
    pub(super) fn number(&mut self) -> u64 {
        self.numbered += 1;
        self.numbered
    }

    /// True if nobody is let into a database.
    pub(super) fn is_disabled(&self, database: &str) -> bool {
        self.disabled.contains(database)
    }

    /// True if no job of a database starts.
    fn is_paused(&self, database: &str) -> bool {
        self.all == AllPools::Paused || self.paused.contains(database)
    }

    /// True if there is an admin server to speak with.
    pub(super) fn is_open(&self) -> bool {
        self.line.is_some()
    }

    /// Tells the admin server to accept, from now on, those who look at the metrics, or not to.
    pub(super) fn listen(&self, listening: Listening) {
        if let Some(line) = &self.line {
            line.send(AdminMessage::Listen(listening));
        }
    }

    /// Begins to speak with an admin server.
    pub(super) fn open(&mut self, line: Line) {
        self.line = Some(line);
    }

    /// The keys that the source of configurations is to change, with one more.
    fn with_set(&self, key: String, value: String) -> Vec<Set> {
        let mut sets = self.set_by_source.clone();
        put(&mut sets, key, value);
        sets
    }

    /// The source has changed these.
    pub(super) fn keep_sets(&mut self, sets: Vec<Set>) {
        self.set_by_source = sets;
    }

    /// Sets in another configuration what was set at once.
    pub(super) fn set_again(&self, config: &mut Config) {
        for (key, value) in &self.set_at_once {
            settings::set(config, key, value).expect("it was set before, and no bound moves");
        }
    }

    /// The configuration is what its source says, and nothing that was set.
    pub(super) fn forget_sets(&mut self) {
        self.set_at_once.clear();
        self.set_by_source.clear();
    }

    fn answer(&self, admin_connection: Key, answer: Answer) {
        if let Some(line) = &self.line {
            line.send(AdminMessage::Answer(admin_connection, answer));
        }
    }
}
