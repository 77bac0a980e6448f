//! Controls of administrators, at the loop: each says when it is done.

use std::time::Duration;

use gate::Time;

use super::{AllPools, Answer, Ask, Asked, Ready, put, settings};
use crate::client::{Client, State};
use crate::pool::PoolIndex;
use crate::reload::Reloaded;
use crate::slab::Key;
use crate::state::{Loop, Phase};
use pgconsole::{self, Control, Refusal, Shutdown};
use pgwire::SqlState;

/// Longest wait of PAUSE and WAIT_CLOSE.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// One of a database's pools, or all.
type Target = Option<String>;

/// A control that is done later.
#[derive(Debug)]
pub(super) struct Wait {
    admin_connection: Key,
    until: Until,
    latest: Time,
}

/// When a control is done.
#[derive(Debug)]
enum Until {
    /// When pools that were paused have no connections to servers any more.
    Unused(Target),
    /// When no connection is left that was to be closed.
    Closed(Target),
}

/// The part of a control that is left to whoever owns the listeners.
#[derive(Debug)]
pub(crate) enum Ending {
    No,
    Ends(Shutdown),
}

/// For which configuration somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// The one that is about to be read.
    This,
    /// The one that is read when another one has been.
    Next,
}

fn canceled() -> Refusal {
    let message = "canceling statement due to user request".to_owned();
    Refusal::because(SqlState::QUERY_CANCELED, message, None)
}

impl Loop {
    /// Readiness for clients. Whoever asks whether to come should not, while the delay of a drain runs.
    fn ready(&self) -> Ready {
        let awaits_first = self.awaits_servers && self.reached.is_empty();
        // A pool that tells its clients at once is tried again by one who comes: nobody may be sent elsewhere.
        let awaits_all = !self.pools.is_empty()
            && self.pools.iter().all(|pool| pool.janitor.awaits_return() && !pool.driver.any_up());
        match self.phase {
            _ if self.drains_at.is_some() => Ready::Draining,
            Phase::Leaving | Phase::HandingOver | Phase::Draining => Ready::Draining,
            Phase::Open if awaits_first || awaits_all => Ready::NoServer,
            Phase::Open => Ready::Yes,
        }
    }

    /// Answers the admin server, or remembers to.
    pub(crate) fn operate(&mut self, asked: Asked) -> Ending {
        let Asked { admin_connection, ask } = asked;
        let answer = match ask {
            Ask::Snapshot => {
                let before = self.clock();
                let snapshot = Box::new(self.survey());
                Answer::Snapshot(snapshot, self.clock().since(before))
            }
            Ask::Pulse => Answer::Pulse(self.ready()),
            Ask::Models(what) => Answer::Models(what, self.models()),
            Ask::Withdraw => match self.take_wait(admin_connection) {
                Some(wait) => Answer::Refused(self.withdraw(wait)),
                // What is being read counts all the same.
                None if self.take_reload(admin_connection) => Answer::Refused(canceled()),
                None => return Ending::No,
            },
            Ask::Forget(process) => {
                self.take_wait(admin_connection);
                self.take_reload(admin_connection);
                if let Some(process) = process {
                    self.admin.consoles.remove(&process);
                }
                return Ending::No;
            }
            Ask::Control(Control::Shutdown(when)) => {
                self.admin.answer(admin_connection, Answer::Done);
                return Ending::Ends(when);
            }
            Ask::Control(Control::Reload) => match self.begin_reload(Some(admin_connection)) {
                true => return Ending::No,
                false => Answer::Refused(Refusal::because(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "the gate was not started from a configuration that could be read again"
                        .to_owned(),
                    Some("SET changes single settings"),
                )),
            },
            // As in a file, where the same keys stand with a note.
            Ask::Control(Control::Set { key, .. }) if settings::without_effect(&key).is_some() => {
                Answer::Told(settings::without_effect(&key).into_iter().collect())
            }
            Ask::Control(Control::Set { key, value })
                if settings::is_of_source(&key) && self.has_setter() =>
            {
                let sets = self.admin.with_set(key, value);
                match self.begin_set(admin_connection, sets) {
                    true => return Ending::No,
                    false => Answer::Refused(Refusal::because(
                        SqlState::NOT_IN_PREREQUISITE_STATE,
                        "a configuration is being read".to_owned(),
                        Some("say it again when that is done"),
                    )),
                }
            }
            Ask::Control(control) => match self.control(&control) {
                Ok(None) => Answer::Done,
                Ok(Some(until)) => {
                    let latest = self.now + WAIT_MAX;
                    self.admin.waits.push(Wait { admin_connection, until, latest });
                    self.look_at_waits();
                    return Ending::No;
                }
                Err(refusal) => Answer::Refused(refusal),
            },
        };
        self.admin.answer(admin_connection, answer);
        Ending::No
    }

    /// Does it, or says until when it is not done.
    fn control(&mut self, control: &Control) -> Result<Option<Until>, Refusal> {
        match control {
            Control::Pause(target) => self.pause(target.clone()).map(Some),
            Control::Resume(target) => self.resume_jobs(target.as_deref()).map(|()| None),
            Control::Reconnect(target) => {
                self.check_target(target.as_deref())?;
                for pool in self.pools_of(target.as_deref()) {
                    self.renew(pool);
                }
                Ok(None)
            }
            Control::Kill(target) => self.kill(target.clone()).map(|()| None),
            Control::KillClient(id) => self.kill_client(*id).map(|()| None),
            Control::Disable(name) => {
                self.check_target(Some(name))?;
                self.admin.disabled.insert(name.clone());
                Ok(None)
            }
            Control::Enable(name) => {
                self.check_target(Some(name))?;
                self.admin.disabled.remove(name);
                Ok(None)
            }
            Control::WaitClose(target) => {
                self.check_target(target.as_deref())?;
                Ok(Some(Until::Closed(target.clone())))
            }
            Control::Set { key, value } => {
                settings::set(&mut self.config, key, value)?;
                put(&mut self.admin.set_at_once, key.clone(), value.clone());
                self.follow_settings();
                Ok(None)
            }
            Control::Reload | Control::Shutdown(_) => unreachable!("its caller sees to it"),
        }
    }

    /// Refuses a database that is not there.
    fn check_target(&self, target: Option<&str>) -> Result<(), Refusal> {
        let Some(name) = target else { return Ok(()) };
        if self.config.databases.iter().any(|one| one.name == name) {
            return Ok(());
        }
        if pgconsole::is_console(name.as_bytes()) {
            let message = format!("database {name:?} is the console itself");
            return Err(Refusal::because(SqlState::FEATURE_NOT_SUPPORTED, message, None));
        }
        let message = format!("there is no database {name:?}");
        let hint = Some("SHOW DATABASES lists them");
        Err(Refusal::because(SqlState::UNDEFINED_DATABASE, message, hint))
    }

    fn pools_of(&self, target: Option<&str>) -> Vec<PoolIndex> {
        let is_meant = |at: &PoolIndex| target.is_none_or(|name| self.name_of(*at) == name);
        (0..self.pools.len()).filter(is_meant).collect()
    }

    /// The name of a pool's database, as clients know it.
    pub(super) fn name_of(&self, pool: PoolIndex) -> &str {
        &self.config.databases[self.pools[pool].database].name
    }

    /// A pool that is new starts no job if its database is paused.
    pub(crate) fn pause_if_asked(&mut self, pool: PoolIndex) {
        if self.admin.is_paused(self.name_of(pool)) {
            self.pools[pool].paused = true;
            self.tell(pool, |driver, now| driver.pause(now));
        }
    }

    fn pause(&mut self, target: Target) -> Result<Until, Refusal> {
        self.check_target(target.as_deref())?;
        let hint = "RESUME starts jobs again";
        match &target {
            _ if self.admin.all == AllPools::Paused => {
                return Err(Refusal::state("all databases are paused already".to_owned(), hint));
            }
            None => self.admin.all = AllPools::Paused,
            Some(name) => {
                if !self.admin.paused.insert(name.clone()) {
                    let message = format!("database {name:?} is paused already");
                    return Err(Refusal::state(message, hint));
                }
            }
        }
        self.stop_jobs(target.as_deref());
        Ok(Until::Unused(target))
    }

    /// Starts no job any more, and closes what is idle.
    fn stop_jobs(&mut self, target: Option<&str>) {
        for pool in self.pools_of(target) {
            if !std::mem::replace(&mut self.pools[pool].paused, true) {
                self.tell(pool, |driver, now| driver.pause(now));
            }
            self.close_idle(pool);
        }
    }

    pub(crate) fn close_idle(&mut self, pool: PoolIndex) {
        let idle: Vec<Key> = self.pools[pool].idle_longest().collect();
        for key in idle {
            self.drop_server(key);
        }
    }

    fn resume_jobs(&mut self, target: Option<&str>) -> Result<(), Refusal> {
        self.check_target(target)?;
        let was_paused = match target {
            None => {
                let before = std::mem::take(&mut self.admin.all);
                before == AllPools::Paused
            }
            Some(name) => self.admin.paused.remove(name),
        };
        if !was_paused {
            let what = target.map_or("the gate".to_owned(), |name| format!("database {name:?}"));
            let message = format!("{what} is not paused");
            return Err(Refusal::state(message, "SHOW DATABASES tells which ones are"));
        }
        for pool in self.pools_of(target) {
            let goes_on = !self.admin.is_paused(self.name_of(pool));
            if goes_on && std::mem::replace(&mut self.pools[pool].paused, false) {
                self.tell(pool, |driver, now| driver.resume(now));
            }
        }
        Ok(())
    }

    /// Closes the connections of a pool as they become free.
    pub(crate) fn renew(&mut self, pool: PoolIndex) {
        self.pools[pool].janitor.is_in();
        let of_pool = self.servers.iter().filter(|(_, server)| server.pool == pool);
        let keys: Vec<Key> = of_pool.map(|(key, _)| key).collect();
        for key in keys {
            let Some(server) = self.servers.get_mut(key) else { continue };
            server.closing = true;
            if server.probe.is_some() {
                // Nobody gives it back, ever.
                self.close_spent_probe(key);
            }
        }
        self.close_idle(pool);
    }

    fn kill(&mut self, target: Target) -> Result<(), Refusal> {
        self.check_target(target.as_deref())?;
        match &target {
            None => self.admin.all = AllPools::Paused,
            Some(name) => drop(self.admin.paused.insert(name.clone())),
        }
        self.stop_jobs(target.as_deref());
        let pools = self.pools_of(target.as_deref());
        let is_in = |state: &State| {
            matches!(
                state,
                State::WaitingForWelcome(_) | State::Idle | State::Waits(_) | State::Served(_)
            )
        };
        let clients = self.clients.iter();
        let clients = clients.filter(|(_, one)| is_in(&one.state) && pools.contains(&one.pool));
        let clients: Vec<Key> = clients.map(|(key, _)| key).collect();
        for key in clients {
            self.send_away(key);
            self.settle();
        }
        self.withdraw_probes(&pools);
        let servers = self.servers.iter().filter(|(_, server)| pools.contains(&server.pool));
        let servers: Vec<Key> = servers.map(|(key, _)| key).collect();
        for key in servers {
            self.drop_server(key);
        }
        Ok(())
    }

    fn kill_client(&mut self, id: u64) -> Result<(), Refusal> {
        let is_it = |one: &Client| one.id == id && !matches!(one.state, State::Migrating);
        let Some(key) = self.clients.iter().find(|(_, one)| is_it(one)).map(|(key, _)| key) else {
            let message = format!("there is no client {id}");
            let hint = Some("SHOW CLIENTS lists them");
            let code = SqlState::INVALID_PARAMETER_VALUE;
            return Err(Refusal::because(code, message, hint));
        };
        self.send_away(key);
        Ok(())
    }

    /// Applies new settings to clients and gates.
    fn follow_settings(&mut self) {
        self.follow_patience();
        for at in 0..self.pools.len() {
            let pool = &self.pools[at];
            let terms = self.config.terms.get(&pool.user);
            let (gate, _) =
                self.config.databases[pool.database].pool(terms, self.config.unreachable_max);
            if let Some(longest) = gate.wait_max
                && longest != self.pools[at].driver.wait_max()
            {
                self.tell(at, |driver, now| driver.set_wait_max(now, longest));
                self.follow_unreachable(at, gate.unreachable_max);
            }
        }
    }

    /// Answers those whose controls are done, or have taken too long.
    pub(crate) fn look_at_waits(&mut self) {
        let mut at = 0;
        while let Some(wait) = self.admin.waits.get(at) {
            let answer = if self.is_done(&wait.until) {
                Answer::Done
            } else if wait.latest <= self.now {
                Answer::Refused(Refusal::because(
                    SqlState::QUERY_CANCELED,
                    format!("connections are in use still after {} s", WAIT_MAX.as_secs()),
                    Some("SHOW SERVERS lists them; what was asked for stays in force"),
                ))
            } else {
                at += 1;
                continue;
            };
            let wait = self.admin.waits.remove(at);
            self.admin.answer(wait.admin_connection, answer);
        }
    }

    /// True if somebody waits for a control to be done.
    pub(crate) fn has_waits(&self) -> bool {
        !self.admin.waits.is_empty()
    }

    fn is_done(&self, until: &Until) -> bool {
        match until {
            Until::Unused(target) => {
                let pools = self.pools_of(target.as_deref());
                pools.iter().all(|&at| self.pools[at].connections.iter().all(|&count| count == 0))
            }
            Until::Closed(target) => !self.servers.iter().any(|(_, server)| {
                let meant = target.as_deref().is_none_or(|name| self.name_of(server.pool) == name);
                server.closing && meant
            }),
        }
    }

    fn take_wait(&mut self, admin_connection: Key) -> Option<Wait> {
        let at =
            self.admin.waits.iter().position(|wait| wait.admin_connection == admin_connection)?;
        Some(self.admin.waits.remove(at))
    }

    /// Somebody wants to be told what becomes of a configuration.
    pub(crate) fn await_reload(&mut self, admin_connection: Key, when: Awaited) {
        match when {
            Awaited::This => self.admin.reloads.push(admin_connection),
            Awaited::Next => self.admin.reloads_next.push(admin_connection),
        }
    }

    /// Tells those who wait for it what became of a configuration; the next one is waited for by
    /// those who asked meanwhile.
    pub(crate) fn tell_reload(&mut self, outcome: Result<&Reloaded, &str>) {
        let next = std::mem::take(&mut self.admin.reloads_next);
        for admin_connection in std::mem::replace(&mut self.admin.reloads, next) {
            let answer = match outcome {
                Ok(reloaded) => Answer::Told(reloaded.sentences().collect()),
                Err(cause) => Answer::Refused(Refusal::because(
                    SqlState::CONFIG_FILE_ERROR,
                    cause.to_owned(),
                    Some("all is as it was"),
                )),
            };
            self.admin.answer(admin_connection, answer);
        }
    }

    /// Tells who has set a key why it is as it was.
    pub(crate) fn tell_unset(&mut self, cause: &str) {
        let next = std::mem::take(&mut self.admin.reloads_next);
        for admin_connection in std::mem::replace(&mut self.admin.reloads, next) {
            let answer = Answer::Refused(Refusal::because(
                SqlState::INVALID_PARAMETER_VALUE,
                cause.to_owned(),
                Some("all is as it was"),
            ));
            self.admin.answer(admin_connection, answer);
        }
    }

    fn take_reload(&mut self, admin_connection: Key) -> bool {
        let admin = &mut self.admin;
        for waiting in [&mut admin.reloads, &mut admin.reloads_next] {
            if let Some(at) = waiting.iter().position(|one| *one == admin_connection) {
                waiting.remove(at);
                return true;
            }
        }
        false
    }

    /// Somebody does not want any more what it waits for: a pause ends.
    fn withdraw(&mut self, wait: Wait) -> Refusal {
        if let Until::Unused(target) = &wait.until {
            // Somebody else may have resumed it meanwhile, which is what is wanted.
            let _ = self.resume_jobs(target.as_deref());
        }
        canceled()
    }

    /// The phase as the console knows it.
    pub(super) fn console_phase(&self) -> pgconsole::Phase {
        match (self.phase, self.admin.all) {
            _ if self.drains_at.is_some() => pgconsole::Phase::Draining,
            (Phase::Draining | Phase::Leaving | Phase::HandingOver, _) => {
                pgconsole::Phase::Draining
            }
            (Phase::Open, AllPools::Paused) => pgconsole::Phase::Paused,
            (Phase::Open, AllPools::Start) => pgconsole::Phase::Active,
        }
    }
}
