//! The database of a run: the one that is named, or a private one that is started, loaded and
//! removed again.

use std::sync::Arc;

use ::tpcc::{Config, LoadError, LoadPlan, Phase, facts};
use cli::{Failure, Session, progress};
use postgres::{Private, StartError};
use studies::Gate;

use super::terminals;
use databases::DatabaseArgs;
use databases::PrivateArgs;

/// With which a private server runs, unless a verb has reasons for others.
pub const PARAMETERS: [(&str, &str); 2] = [("shared_buffers", "512MB"), ("max_wal_size", "4GB")];

/// A database with warehouses in it.
pub struct Target {
    pub(super) config: Config,
    /// Stopped and removed with this.
    private: Option<Private>,
    /// The release of PostgreSQL that runs there.
    version: String,
    /// Warehouses of a database that was named, if it says.
    room: Option<u32>,
}

impl Target {
    /// The database that is named, as it is; else a private one, loaded with so many warehouses.
    /// `None` if the user did not want to wait for that.
    pub(super) fn open(
        database: &DatabaseArgs,
        choice: &PrivateArgs,
        (warehouses, seed): (u32, u64),
        session: &Session,
    ) -> Result<Option<Target>, Failure> {
        choice.none_beside(database)?;
        if database.is_named() {
            let config = database.named()?;
            let facts = facts(&config).map_err(terminals::failure)?;
            let (version, room) = (facts.version, facts.load.map(|load| load.warehouses));
            return Ok(Some(Target { config, private: None, version, room }));
        }
        Target::lend(choice, &PARAMETERS, (warehouses, seed), session)
    }

    /// A private server with these parameters, and a database of so many warehouses on it. `None`
    /// if the user did not want to wait for that.
    ///
    /// # Errors
    /// PostgreSQL does not start, or the rows cannot be loaded.
    pub fn lend(
        choice: &PrivateArgs,
        parameters: &[(&str, &str)],
        (warehouses, seed): (u32, u64),
        session: &Session,
    ) -> Result<Option<Target>, Failure> {
        let settings = choice.settings(parameters, Some(Arc::clone(&session.interrupt)));
        let private = match Private::start(&settings) {
            Ok(private) => private,
            Err(StartError::Interrupted) => return Ok(None),
            Err(error) => return Err(Failure::machine(error)),
        };
        let config: Config = private.url().as_str().parse().map_err(Failure::defect)?;
        let bar = progress(0, "loading rows");
        let loaded = ::tpcc::load(
            &config,
            &LoadPlan::new(seed, warehouses),
            &session.interrupt,
            &mut |now| {
                bar.set_length(now.of);
                bar.set_position(now.done);
                if now.phase == Phase::Keys {
                    bar.set_message("keys, indexes, vacuum");
                }
            },
        );
        bar.finish_and_clear();
        match loaded {
            Ok(_) => {
                let version = private.programs().version().to_owned();
                Ok(Some(Target { config, private: Some(private), version, room: None }))
            }
            Err(LoadError::Interrupted) => Ok(None),
            Err(error) => Err(Failure::machine(error)),
        }
    }

    /// The server, if it is ours: only such a one is killed, restarted or set otherwise.
    pub(super) fn is_private(&self) -> bool {
        self.private.is_some()
    }

    pub(super) fn private(&mut self) -> Option<&mut Private> {
        self.private.as_mut()
    }

    /// The same database, by way of something on this machine that listens on `port` and passes on
    /// what it is told. Verbs that start or stop a server have no use for it.
    pub(super) fn through(&self, gate: &Gate) -> Result<Target, Failure> {
        let Some(private) = &self.private else {
            return Err(Failure::Defect("only a private server is gone to by another way".into()));
        };
        let version = self.version.clone();
        Ok(Target { config: gate.before(private)?, private: None, version, room: None })
    }

    /// Name of the database where one says what was measured.
    pub(super) fn name(&self) -> String {
        let version = &self.version;
        match self.private {
            Some(_) => format!("a private PostgreSQL {version}"),
            None => format!("the database that was named (PostgreSQL {version})"),
        }
    }

    /// The release of PostgreSQL that runs there.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The warehouses that a command on the same database has, `None` where as many are loaded as it
    /// asks for: a private server is filled anew.
    pub(super) fn room(&self) -> Option<u32> {
        self.room
    }

    /// Stops and removes a private server.
    ///
    /// # Errors
    /// The server does not stop, or its folder cannot be removed.
    pub fn close(self) -> Result<(), Failure> {
        match self.private {
            Some(private) => private.stop().map_err(Failure::machine),
            None => Ok(()),
        }
    }
}
