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
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc;

    use super::super::server_tls::Encryption;
    use super::*;
    use pgwire::auth::Credential;
    use pgwire::frame::HEAD;
    use pgwire::message::{Status, write};
    use pgwire::secrets::MockKey;

    const PATIENCE: Duration = Duration::from_millis(1500);

    /// Behaviour of a server that knows alice.
    #[derive(Clone, Copy)]
    enum Acts {
        /// It answers so many lookups, and then says nothing any more, as if it had lost its power.
        Answers(u32),
        /// It lets everybody in, and says nothing any more.
        LetsIn,
    }

    fn server(acts: Acts) -> Address {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        thread::spawn(move || {
            let times = if let Acts::Answers(times) = acts { times } else { 0 };
            let left = Arc::new(AtomicU32::new(times));
            // Connections are taken on in any case, as those are to a host that hangs.
            let mut taken = Vec::new();
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                taken.push(stream.try_clone().unwrap());
                let left = Arc::clone(&left);
                thread::spawn(move || serve(stream, acts, &left));
            }
        });
        address
    }

    fn serve(mut stream: TcpStream, acts: Acts, left: &AtomicU32) -> Option<()> {
        let body = |stream: &mut TcpStream, head: usize| {
            let mut bytes = vec![0; head];
            stream.read_exact(&mut bytes).ok()?;
            let length = u32::from_be_bytes(*bytes.last_chunk::<4>()?);
            stream.read_exact(&mut vec![0; length as usize - 4]).ok()?;
            Some(bytes[0])
        };
        let dead = || left.load(Ordering::SeqCst) == 0;
        body(&mut stream, 4)?;
        if dead() && !matches!(acts, Acts::LetsIn) {
            return None;
        }
        let mut out = Vec::new();
        write::authentication_ok(&mut out);
        loop {
            write::ready_for_query(&mut out, Status::Idle);
            stream.write_all(&out).ok()?;
            while body(&mut stream, HEAD)? != b'S' {}
            if dead() {
                return None;
            }
            left.fetch_sub(1, Ordering::SeqCst);
            out.clear();
            write::data_row(&mut out, &[Some("alice"), None]);
            write::command_complete(&mut out, "SELECT 1");
        }
    }

    fn place(servers: &[&Address]) -> Arc<Place> {
        Arc::new(Place {
            servers: servers.iter().map(|&server| server.clone()).collect(),
            server_tls: Encryption::disabled(),
            target: "any".to_owned(),
            user: b"sekisho".to_vec(),
            credential: Credential::Nothing,
            query: "select".to_owned(),
            timeout: PATIENCE,
            key: MockKey::new([7; 32]),
        })
    }

    /// Asks for her: success, and the time that it took.
    fn asks(auth_query_worker: &mut AuthQueryWorker, place: &Arc<Place>) -> (bool, Duration) {
        let began = Instant::now();
        let found = auth_query_worker.look_up(place, b"alice");
        (found.is_ok(), began.elapsed())
    }

    /// One deadline was for all servers of a place: the first that did not answer took all of it, and
    /// every lookup failed while one host was down.
    #[test]
    fn a_server_that_does_not_answer_leaves_others_their_time() {
        let (mute, well) = (server(Acts::Answers(0)), server(Acts::Answers(9)));
        let place = place(&[&mute, &well]);
        let mut auth_query_worker = AuthQueryWorker::default();
        let (found, took) = asks(&mut auth_query_worker, &place);
        assert!(found && took >= PATIENCE / 2, "half of the time was the first one's: {took:?}");
        auth_query_worker.close();
        let (found, took) = asks(&mut auth_query_worker, &place);
        assert!(found && took < PATIENCE / 2, "it begins with the one that answers: {took:?}");
    }

    #[test]
    fn a_kept_connection_that_says_nothing_leaves_others_their_time() {
        let (dies, well) = (server(Acts::Answers(1)), server(Acts::Answers(9)));
        let place = place(&[&dies, &well]);
        let mut auth_query_worker = AuthQueryWorker::default();
        assert!(asks(&mut auth_query_worker, &place).0);
        let (found, took) = asks(&mut auth_query_worker, &place);
        assert!(found && took >= PATIENCE / 3, "a third for it, a third for its server: {took:?}");
    }

    #[test]
    fn the_next_lookup_begins_elsewhere_where_one_lets_in_and_does_not_answer() {
        let (deaf, well) = (server(Acts::LetsIn), server(Acts::Answers(9)));
        let place = place(&[&deaf, &well]);
        let mut auth_query_worker = AuthQueryWorker::default();
        assert!(!asks(&mut auth_query_worker, &place).0);
        let (found, took) = asks(&mut auth_query_worker, &place);
        assert!(found && took < PATIENCE / 2, "{took:?}");
    }

    /// The results in the order in which they come: database, success, time since the beginning.
    fn told(auth_queries: &[(&Arc<Place>, &str)]) -> Vec<(String, bool, Duration)> {
        let (tell, hear) = mpsc::channel();
        let began = Instant::now();
        let auth_query_workers = AuthQueryWorkers::start(move |wanted, found| {
            let name = String::from_utf8(wanted.database).unwrap();
            tell.send((name, found.is_ok(), began.elapsed())).unwrap();
        });
        let auth_query_workers = auth_query_workers.unwrap();
        for (place, name) in auth_queries {
            let (database, place) = (name.as_bytes().to_vec(), Arc::clone(place));
            auth_query_workers.look_up(Wanted { database, user: b"alice".to_vec(), place });
        }
        auth_queries.iter().map(|_| hear.recv_timeout(20 * PATIENCE).unwrap()).collect()
    }

    /// One thread asked everywhere, one after the other, and waited for a dead server once for each of
    /// its users: users of others were beyond the time that a login may take.
    #[test]
    fn servers_that_do_not_answer_hold_up_nobody_else() {
        let (mute, well) = (server(Acts::Answers(0)), server(Acts::Answers(9)));
        // Databases that one name stands for are places of their own at the same servers.
        let [dead, dead_too] = [place(&[&mute]), place(&[&mute])];
        let well = place(&[&well]);
        let mut auth_queries = vec![(&dead, "dead"); 20];
        auth_queries.extend([(&dead_too, "dead"); 20]);
        auth_queries.extend([(&well, "well"); 3]);
        let told = told(&auth_queries);
        for (name, found, after) in &told[..3] {
            assert!(name == "well" && *found && *after < PATIENCE / 2, "{told:?}");
        }
        for (name, found, after) in &told[3..] {
            let once = (PATIENCE..2 * PATIENCE).contains(after);
            assert!(name == "dead" && !found && once, "all hear it together: {told:?}");
        }
    }

    #[test]
    fn more_servers_that_do_not_answer_than_there_are_threads_delay_others_and_no_more() {
        let mutes: Vec<Address> = (0..2 * THREADS_MAX).map(|_| server(Acts::Answers(0))).collect();
        let mutes: Vec<Arc<Place>> = mutes.iter().map(|mute| place(&[mute])).collect();
        let well = place(&[&server(Acts::Answers(9))]);
        let mut auth_queries: Vec<_> = mutes.iter().map(|mute| (mute, "dead")).collect();
        auth_queries.push((&well, "well"));
        let told = told(&auth_queries);
        let (_, found, after) = told.iter().find(|(name, ..)| name == "well").unwrap();
        assert!(*found && (2 * PATIENCE..4 * PATIENCE).contains(after), "{told:?}");
    }

    /// What failed at once may not fail for the next one.
    #[test]
    fn who_waits_shares_no_failure_that_took_no_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shut = Address::Tcp(listener.local_addr().unwrap());
        drop(listener);
        let Err(unknown) = AuthQueryWorker::default().look_up(&place(&[&shut]), b"alice") else {
            panic!("nobody listens there")
        };
        assert_eq!(unknown.extent, Extent::User, "{}", unknown.cause);
        let Err(unknown) =
            AuthQueryWorker::default().look_up(&place(&[&server(Acts::Answers(0))]), b"alice")
        else {
            panic!("nobody answers there")
        };
        assert_eq!(unknown.extent, Extent::Servers, "{}", unknown.cause);
    }
}
