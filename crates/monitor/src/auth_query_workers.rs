//! `auth_query` workers: each asks the servers of a place one after the other, on one connection,
//! and several ask at the same time. So servers that let nobody in hold up nobody else, and those
//! who wait for them hear it together.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use super::auth_query::Found;
use super::auth_query_connection::{AuthQueryWorker, Extent, Place, Unknown};
use super::background::Wanted;
use super::config::Address;

/// Workers at once, at most. With more servers than that which let nobody in, the others wait for
/// one of these to give up.
const THREADS_MAX: usize = 16;
/// Offices besides those at which somebody waits, at most.
const OFFICES_MAX: usize = 64;
/// Time for which a connection is kept for the next lookup.
const KEPT: Duration = Duration::from_secs(60);

/// Threads that look up secrets. They end when this is dropped, and with what they are at.
pub(super) struct AuthQueryWorkers {
    shared: Arc<Shared>,
    tell: Arc<Tell>,
}

/// Is told whose secret is what, or why that is not known.
type Tell = dyn Fn(Wanted, Result<Found, String>) + Send + Sync;

#[derive(Default)]
struct Shared {
    work: Mutex<Work>,
    /// There is something to do, or all is over.
    changed: Condvar,
}

#[derive(Default)]
struct Work {
    /// The one that was served last is the last.
    queues: VecDeque<ServerQueue>,
    threads: usize,
    /// Threads that have nothing to do.
    idle: usize,
    over: bool,
}

/// Servers at which secrets are looked up, and whose.
struct ServerQueue {
    servers: Vec<Address>,
    /// Away while it looks somebody up.
    auth_query_worker: Option<AuthQueryWorker>,
    waiting: VecDeque<Wanted>,
    used: Instant,
}

impl AuthQueryWorkers {
    /// Starts one thread; others follow when they are needed.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub(super) fn start(
        tell: impl Fn(Wanted, Result<Found, String>) + Send + Sync + 'static,
    ) -> io::Result<AuthQueryWorkers> {
        let auth_query_workers = AuthQueryWorkers { shared: Arc::default(), tell: Arc::new(tell) };
        auth_query_workers.hire(&mut auth_query_workers.shared.lock())?;
        Ok(auth_query_workers)
    }

    /// Looks somebody's secret up.
    pub(super) fn look_up(&self, wanted: Wanted) {
        let mut work = self.shared.lock();
        work.enter(wanted);
        if work.ready() > work.idle && work.threads < THREADS_MAX {
            // If the system has none left, those that there are come to it.
            let _ = self.hire(&mut work);
        }
        self.shared.changed.notify_one();
    }

    fn hire(&self, work: &mut Work) -> io::Result<()> {
        let (shared, tell) = (Arc::clone(&self.shared), Arc::clone(&self.tell));
        let name = format!("sekisho-lookup{}", work.threads + 1);
        thread::Builder::new().name(name).spawn(move || shared.run(&*tell))?;
        work.threads += 1;
        Ok(())
    }
}

impl Drop for AuthQueryWorkers {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().expect("nothing panics while it has this")
    }

    /// The loop of each thread.
    fn run(&self, tell: &Tell) {
        let mut work = self.lock();
        while !work.over {
            let Some((mut auth_query_worker, wanted)) = work.next() else {
                work.idle += 1;
                let waited = self.changed.wait_timeout(work, KEPT);
                (work, _) = waited.expect("nothing panics while it has this");
                work.idle -= 1;
                work.close_unused(Instant::now());
                continue;
            };
            drop(work);
            let place = Arc::clone(&wanted.place);
            let found = auth_query_worker.look_up(&place, &wanted.user);
            let extent = found.as_ref().map_or_else(|unknown| unknown.extent, |_| Extent::User);
            let others = self.lock().give_back(auth_query_worker, &place, extent);
            let found = found.map_err(|Unknown { cause, .. }| cause);
            let cause = found.as_ref().err().cloned().unwrap_or_default();
            tell(wanted, found);
            for other in others {
                tell(other, Err(cause.clone()));
            }
            work = self.lock();
        }
    }
}

impl Work {
    /// Somebody waits from now on.
    fn enter(&mut self, wanted: Wanted) {
        let of = |queue: &ServerQueue| queue.servers == wanted.place.servers;
        let at = self.queues.iter().position(of).unwrap_or_else(|| {
            let is_unused =
                |queue: &ServerQueue| queue.auth_query_worker.is_some() && queue.waiting.is_empty();
            if self.queues.len() >= OFFICES_MAX
                && let Some(unused) = self.queues.iter().position(is_unused)
            {
                self.queues.remove(unused);
            }
            self.queues.push_back(ServerQueue {
                servers: wanted.place.servers.clone(),
                auth_query_worker: Some(AuthQueryWorker::default()),
                waiting: VecDeque::new(),
                used: Instant::now(),
            });
            self.queues.len() - 1
        });
        self.queues[at].waiting.push_back(wanted);
    }

    /// Offices at which somebody waits and nobody is looked up.
    fn ready(&self) -> usize {
        self.queues.iter().filter(|queue| queue.is_ready()).count()
    }

    /// The next lookup, and its worker.
    fn next(&mut self) -> Option<(AuthQueryWorker, Wanted)> {
        let at = self.queues.iter().position(ServerQueue::is_ready)?;
        let mut queue = self.queues.remove(at).expect("it was found there");
        let found = queue.auth_query_worker.take().zip(queue.waiting.pop_front());
        self.queues.push_back(queue);
        found
    }

    /// A lookup has ended; who waits there need not do so any more, as its failure is theirs too.
    fn give_back(
        &mut self,
        auth_query_worker: AuthQueryWorker,
        place: &Arc<Place>,
        extent: Extent,
    ) -> VecDeque<Wanted> {
        let mut queues = self.queues.iter_mut();
        let of = |queue: &&mut ServerQueue| queue.servers == place.servers;
        let queue = queues.find(of).expect("a queue whose worker is away stays");
        queue.auth_query_worker = Some(auth_query_worker);
        queue.used = Instant::now();
        let waiting = std::mem::take(&mut queue.waiting).into_iter();
        let (others, waiting) = waiting.partition(|other| match extent {
            Extent::User => false,
            Extent::Place => Arc::ptr_eq(&other.place, place),
            Extent::Servers => true,
        });
        queue.waiting = waiting;
        others
    }

    /// Ends connections that nobody has needed for long.
    fn close_unused(&mut self, now: Instant) {
        for queue in &mut self.queues {
            if let Some(auth_query_worker) = &mut queue.auth_query_worker
                && now.saturating_duration_since(queue.used) >= KEPT
            {
                auth_query_worker.close();
            }
        }
    }
}

impl ServerQueue {
    fn is_ready(&self) -> bool {
        self.auth_query_worker.is_some() && !self.waiting.is_empty()
    }
}

#[cfg(test)]
#[path = "../tests/unit/auth_query_workers.rs"]
mod tests;
