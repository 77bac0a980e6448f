//! Tests of the threads that look users up.

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
