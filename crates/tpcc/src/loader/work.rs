//! The connections that load, and what they tell whoever waits for them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{CancelToken, Client};

use super::LoadError;
use crate::connection::Config;

/// Interval at which the one who waits is told the progress, and looks whether to stop.
const TOLD_EVERY: Duration = Duration::from_millis(100);
/// Time limit of a wait for a server that may be gone.
const CANCEL_MAX: Duration = Duration::from_millis(200);

/// Work of several connections.
pub(super) struct Work<'a> {
    config: &'a Config,
    /// The user's wish to stop.
    stop: &'a AtomicBool,
    /// That one connection has failed, and the others need not go on.
    failed: AtomicBool,
    done: AtomicU64,
    /// The tokens that cancel what is running.
    running: Mutex<Vec<CancelToken>>,
}

impl<'a> Work<'a> {
    pub(super) fn new(config: &'a Config, stop: &'a AtomicBool, done: u64) -> Work<'a> {
        Work {
            config,
            stop,
            failed: AtomicBool::new(false),
            done: AtomicU64::new(done),
            running: Mutex::new(Vec::new()),
        }
    }

    /// Notes that so much more is done.
    pub(super) fn brought(&self, more: u64) {
        self.done.fetch_add(more, Ordering::Relaxed);
    }

    /// Fails if there is no sense in going on.
    pub(super) fn go_on(&self) -> Result<(), LoadError> {
        let ended = self.stop.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed);
        if ended { Err(LoadError::Interrupted) } else { Ok(()) }
    }

    /// Does all tasks, `jobs` at once, each on a connection of its own, and tells meanwhile how
    /// much is done. What fails first is the error of all.
    pub(super) fn all<T: Send>(
        &self,
        jobs: usize,
        tasks: impl IntoIterator<Item = T>,
        each: impl AsyncFn(&mut Client, T) -> Result<(), LoadError> + Sync,
        tell: &mut dyn FnMut(u64),
    ) -> Result<(), LoadError> {
        let tasks: VecDeque<T> = tasks.into_iter().collect();
        let jobs = jobs.min(tasks.len());
        let tasks = Mutex::new(tasks);
        let next = || tasks.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let (ended, ends) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..jobs {
                let (ended, next, each) = (ended.clone(), &next, &each);
                scope.spawn(move || {
                    let result = self.job(next, each);
                    let failed = result.is_err();
                    // Told before the others can know: so the cause comes first, and then what
                    // they say who stop because of it. Whoever waits has gone only if it panicked.
                    ended.send(result).ok();
                    if failed {
                        self.failed.store(true, Ordering::Relaxed);
                    }
                });
            }
            self.wait(jobs, &ends, tell)
        })
    }

    fn job<T>(
        &self,
        next: &impl Fn() -> Option<T>,
        each: &impl AsyncFn(&mut Client, T) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        let runtime = runtime()?;
        runtime.block_on(async {
            let mut client = connect(self.config).await?;
            let token = client.cancel_token();
            self.running.lock().unwrap_or_else(PoisonError::into_inner).push(token);
            while let Some(task) = next() {
                self.go_on()?;
                each(&mut client, task).await?;
            }
            Ok(())
        })
    }

    fn wait(
        &self,
        jobs: usize,
        ends: &mpsc::Receiver<Result<(), LoadError>>,
        tell: &mut dyn FnMut(u64),
    ) -> Result<(), LoadError> {
        let mut first = Ok(());
        let mut left = jobs;
        while left > 0 {
            match ends.recv_timeout(TOLD_EVERY) {
                Ok(Err(error)) => {
                    left -= 1;
                    // The others stop because of the first; what they say is not the cause.
                    if first.is_ok() {
                        first = Err(error);
                    }
                }
                Ok(Ok(())) => left -= 1,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.go_on().is_err() {
                self.cancel()?;
            }
            tell(self.done.load(Ordering::Relaxed));
        }
        if self.stop.load(Ordering::Relaxed) { Err(LoadError::Interrupted) } else { first }
    }

    /// Cancels what the server is doing for us: building an index takes minutes. Asked again and
    /// again, since one statement may end and the next begin in between.
    fn cancel(&self) -> Result<(), LoadError> {
        let tokens = self.running.lock().unwrap_or_else(PoisonError::into_inner).clone();
        runtime()?.block_on(async {
            for token in tokens {
                // A connection that is gone has nothing to be cancelled.
                tokio::time::timeout(CANCEL_MAX, self.config.cancel(&token)).await.ok();
            }
        });
        Ok(())
    }
}

/// A runtime for one connection: on the thread that asks, with nothing behind it.
pub(super) fn runtime() -> Result<Runtime, LoadError> {
    let built = Builder::new_current_thread().enable_io().enable_time().build();
    built.map_err(|error| LoadError::Connect { cause: error.to_string() })
}

/// A connection for bulk work. What a database sets against long statements is put aside, commits
/// need not wait for the disk (those at the end of a phase do), and sorts have memory.
pub(super) async fn connect(config: &Config) -> Result<Client, LoadError> {
    const SETTINGS: &str = "set statement_timeout = 0; set lock_timeout = 0; \
        set idle_in_transaction_session_timeout = 0; set synchronous_commit = off; \
        select set_config('maintenance_work_mem', '128MB', false) \
        where pg_size_bytes(current_setting('maintenance_work_mem')) < 128 * 1024 * 1024";
    let client = config.open().await.map_err(|error| LoadError::of_connecting(&error))?;
    let set = client.batch_execute(SETTINGS).await;
    set.map_err(|error| LoadError::of("preparing the connection", &error))?;
    Ok(client)
}
