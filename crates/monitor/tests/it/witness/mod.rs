//! The witness that the monitor changes nothing: sessions of chance are held directly with a server,
//! and then at once through the monitor, more clients than there are slots, with others beside them;
//! each client must hear the same, message by message. What must differ is left out where it is
//! read, in `line.rs`: the keys for cancelling, the process that a notification comes from, and how
//! often a setting is reported that the client has already.
//!
//! Each value that a client asks for is its own, so a row of somebody else's is seen even where
//! nothing is compared. `SEKISHO_SEED=N` replays the case of this number in either mode,
//! `SEKISHO_LONG=SECONDS` plays cases of new numbers for so long, after the old ones. A case that fails is
//! played again with less and less in it, and what is left is shown.

mod found;
mod line;
mod newest;
mod shrinking;
mod traps;
mod writing;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use monitor::{Address, Database, Mode};
use pgwire::startup::Version;
use postgres::Private;

use self::line::{Line, PATIENCE, Pace, Way};
use self::writing::{Case, End, Part, Round, Session, Wait, case, nonce_of};
use super::{Gate, config, login, server, workers};
use pgtest::Chance;
use pgtest::password_of;
use pgtest::script::{bind, execute, parse, query, runs, sync};
use pgtest::suite::soak;

/// More clients than this are in no case.
const CLIENTS: usize = 14;
/// Clients that are no part of a case.
const NOISY: usize = 4;

const TABLES: &str = "create table if not exists t (n int); \
    create or replace view v as select * from t; \
    create table if not exists d (n int unique deferrable initially deferred); \
    create table if not exists half (n text)";

/// A server, and how many slots a gate before it has.
#[derive(Clone, Copy)]
struct Place<'a> {
    server: &'a Private,
    mode: Mode,
    slots: u32,
    workers: usize,
    patience: Duration,
}

impl Place<'static> {
    fn of(mode: Mode, slots: u32) -> Place<'static> {
        Place::at(server(), mode, slots)
    }
}

impl<'a> Place<'a> {
    fn at(server: &'a Private, mode: Mode, slots: u32) -> Place<'a> {
        Place { server, mode, slots, workers: workers(), patience: PATIENCE }
    }

    fn password(&self) -> Vec<u8> {
        password_of(self.server)
    }

    fn directly(&self) -> Way {
        let address = SocketAddr::from(([127, 0, 0, 1], self.server.port()));
        Way { address, version: Version::V3_0, password: self.password(), patience: self.patience }
    }

    fn gate(&self) -> Gate {
        let address = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], self.server.port())));
        let mut database = Database::new("postgres", vec![address], self.slots);
        database.mode = self.mode;
        database.reuse = monitor::Reuse::Rotate;
        database.login = login(self.server);
        let mut config = config(database);
        let trust = pgwire::auth::Method::Trust;
        config.admission = monitor::Admission::Everybody(trust);
        config.workers = self.workers;
        Gate::new(config)
    }

    /// One that has as many connections as slots, of which the longest unused is the next.
    fn warm_gate(&self) -> Gate {
        let gate = self.gate();
        let way = self.through(&gate, Version::V3_0);
        let round = Round::of(vec![query("begin")], Wait::Ready(1));
        let lines = (0..self.slots).map(|_| {
            let mut line = Line::enter(&way, &Session::default()).unwrap();
            line.play(&round, &mut Pace::AtOnce).unwrap();
            line
        });
        let lines: Vec<Line> = lines.collect();
        assert_eq!(gate.stats().pools[0].servers, self.slots as usize, "all are warm");
        drop(lines);
        gate.until("all are free", |stats| stats.pools[0].busy == 0);
        gate
    }

    fn through(&self, gate: &Gate, version: Version) -> Way {
        Way { address: gate.address(), version, password: Vec::new(), patience: self.patience }
    }

    /// Asks the server something; the lines of the reply.
    fn ask(&self, sql: &str) -> Vec<String> {
        let mut line = Line::enter(&self.directly(), &Session::default()).unwrap();
        let round = Round::of(vec![query(sql)], Wait::Ready(1));
        let heard = line.play(&round, &mut Pace::AtOnce).unwrap();
        line.terminate();
        assert!(!heard.iter().any(|line| line.starts_with('E')), "{heard:?}");
        heard
    }

    fn make_tables(&self) {
        // Two that make the same table at once fail, whatever they say of its being there.
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let own = (0..CLIENTS).map(|n| format!("create table if not exists w{n} (n text)"));
        let own: Vec<String> = own.collect();
        self.ask(&format!("{TABLES}; {}", own.join("; ")));
    }

    fn empty_tables(&self) {
        let own: Vec<String> = (0..CLIENTS).map(|n| format!("w{n}")).collect();
        self.ask(&format!("truncate t, d, half, {}", own.join(", ")));
    }
}

impl Default for Session {
    fn default() -> Session {
        Session { parameters: Vec::new(), rounds: Vec::new(), end: End::Terminates }
    }
}

impl Round {
    fn of(messages: Vec<Vec<u8>>, wait: Wait) -> Round {
        Round { parts: vec![Part { messages, until: None }], wait }
    }
}

/// What a client hears in each round of each session.
type Heard = Vec<Vec<Vec<String>>>;

/// What went wrong with a case.
#[derive(Debug)]
enum Trouble {
    /// It is not valid on a connection of its own.
    Directly(String),
    /// It is heard otherwise, or not at all, through the monitor.
    Through(String),
}

/// What was seen on the way.
#[derive(Default)]
struct Tally {
    rounds: AtomicU32,
    cancelled: AtomicU32,
    /// Sessions that were not compared to their end, for what a failed transaction cannot do.
    unlike: AtomicU32,
    noise: AtomicU32,
}

/// What each client hears without a monitor.
fn directly(place: &Place, case: &Case) -> Result<Vec<Heard>, Trouble> {
    place.empty_tables();
    let way = place.directly();
    let play = |session: &Session| {
        let mut line = Line::enter(&way, session)?;
        let rounds = session.rounds.iter().map(|round| line.play(round, &mut Pace::AtOnce));
        let heard: Result<Vec<_>, String> = rounds.collect();
        if heard.is_ok() {
            line.terminate();
        }
        heard
    };
    let of_client = |sessions: &Vec<Session>| sessions.iter().map(play).collect();
    let heard: Result<Vec<Heard>, String> = case.clients.iter().map(of_client).collect();
    heard.map_err(Trouble::Directly)
}

/// Whether what is heard through the monitor is the same.
fn through(
    place: &Place,
    gate: &Gate,
    case: &Case,
    expected: &[Heard],
    tally: &Tally,
) -> Result<(), Trouble> {
    place.empty_tables();
    let over = AtomicBool::new(false);
    let told: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let noisy: Vec<_> = (0..NOISY)
            .map(|number| {
                let over = &over;
                scope.spawn(move || noise(&place.through(gate, Version::V3_0), number, over, tally))
            })
            .collect();
        let clients: Vec<_> = (0..case.clients.len())
            .map(|number| {
                scope.spawn(move || client(place, gate, case, &expected[number], number, tally))
            })
            .collect();
        let mut told: Vec<_> = clients.into_iter().map(|one| one.join().unwrap()).collect();
        over.store(true, Ordering::Relaxed);
        told.extend(noisy.into_iter().map(|one| one.join().unwrap()));
        told
    });
    told.into_iter().collect::<Result<(), String>>().map_err(Trouble::Through)?;
    gate.until("all slots are back", |stats| stats.clients == 0 && stats.pools[0].busy == 0);
    let odd = place.ask("select n from half group by n having count(*) <> 2");
    let odd: Vec<&String> = odd.iter().filter(|line| line.starts_with('D')).collect();
    if !odd.is_empty() {
        return Err(Trouble::Through(format!("half of these was done: {odd:?}")));
    }
    Ok(())
}

/// What a client does, and that it hears what is expected.
fn client(
    place: &Place,
    gate: &Gate,
    case: &Case,
    expected: &Heard,
    number: usize,
    tally: &Tally,
) -> Result<(), String> {
    for (at, session) in case.clients[number].iter().enumerate() {
        let seed = case.seed ^ (number as u64) << 32 ^ (at as u64) << 48;
        let mut chance = Chance::of(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let version = [Version::V3_0, Version::V3_2][chance.below(2)];
        let mut pace = Pace::Chance(chance);
        let whose = |cause| format!("client {number}, session {at}: {cause}");
        let mut line = Line::enter(&place.through(gate, version), session).map_err(whose)?;
        let mut is_like = true;
        for (turn, round) in session.rounds.iter().enumerate() {
            let whose = |cause| format!("client {number}, session {at}, round {turn}: {cause}");
            let heard = line.play(round, &mut pace).map_err(whose)?;
            tally.rounds.fetch_add(1, Ordering::Relaxed);
            only_own(&heard, case.seed, number).map_err(whose)?;
            let expected = &expected[at][turn];
            if !is_like || heard == *expected {
                continue;
            }
            if matches!(round.wait, Wait::Cancelled { .. }) && is_cancelled(&heard, expected) {
                tally.cancelled.fetch_add(1, Ordering::Relaxed);
            } else if place.mode != Mode::Session && is_of_failed(&heard, expected) {
                tally.unlike.fetch_add(1, Ordering::Relaxed);
                is_like = false;
            } else {
                return Err(whose(difference(&heard, expected)));
            }
        }
        match &session.end {
            End::Terminates => line.terminate(),
            End::Closes => drop(line),
            End::Cut(bytes) => line.cut(bytes),
        }
    }
    Ok(())
}

/// Whether all differs only in that the last query was cancelled.
fn is_cancelled(heard: &[String], expected: &[String]) -> bool {
    let [first @ .., error, ready] = heard else { return false };
    // What it had before its row, it may have had.
    let same = first.iter().zip(expected).take_while(|(one, other)| one == other).count();
    same == first.len() && error.contains("C57014") && ready == "Z I"
}

/// Whether all that differs is a failed transaction: what the server lacks cannot be prepared in it,
/// and the client is told of that in the place of whatever else PostgreSQL says of a statement.
fn is_of_failed(heard: &[String], expected: &[String]) -> bool {
    let batches = |lines: &[String]| -> Vec<Vec<String>> {
        let batches = lines.split_inclusive(|line| line.starts_with('Z'));
        batches.map(<[String]>::to_vec).collect()
    };
    let (heard, expected) = (batches(heard), batches(expected));
    let same = |(heard, expected): (&Vec<String>, &Vec<String>)| {
        let failed = |batch: &[String]| batch.last().is_some_and(|line| line == "Z E");
        let told = heard.iter().filter(|line| line.contains("C25P02")).count();
        heard == expected || (failed(heard) && failed(expected) && told == 1)
    };
    heard.len() == expected.len() && heard.iter().zip(&expected).all(same)
}

/// No value of another client, or of another case, may be heard.
fn only_own(heard: &[String], seed: u64, client: usize) -> Result<(), String> {
    let own = nonce_of(seed, client);
    // What describes rows has numbers of tables in it, and a byte of these may look like a mark.
    for line in heard.iter().filter(|line| !line.starts_with('T')) {
        // Values and their parts: each begins with the mark of its owner.
        for (at, _) in line.match_indices('~').step_by(2) {
            let rest = &line[at..];
            if rest.len() > own.len() && !rest.starts_with(&own) && line.len() < 300 {
                return Err(format!("this is somebody else's: {line}"));
            }
        }
    }
    Ok(())
}

fn difference(heard: &[String], expected: &[String]) -> String {
    let same = heard.iter().zip(expected).take_while(|(one, other)| one == other).count();
    let from = same.saturating_sub(2);
    let part = |lines: &[String]| lines[from.min(lines.len())..].iter().take(8).cloned().collect();
    let (heard, expected): (Vec<String>, Vec<String>) = (part(heard), part(expected));
    format!("from message {from} of the round on\n  heard: {heard:#?}\n  directly: {expected:#?}")
}

/// A client that asks all the while, in each way that there is, and holds every row against what it
/// asked for.
fn noise(way: &Way, number: usize, over: &AtomicBool, tally: &Tally) -> Result<(), String> {
    let mut chance = Chance::of(number as u64 * 77 + 5);
    let mut turn = 0;
    while !over.load(Ordering::Relaxed) {
        let mut line = Line::enter(way, &Session::default())?;
        let first = Round::of(vec![parse("n", "select $1::text", &[]), sync()], Wait::Ready(1));
        line.play(&first, &mut Pace::AtOnce)?;
        for _ in 0..20 {
            turn += 1;
            let nonce = format!("noise {number}/{turn}");
            let text = format!("select '{nonce}'");
            let bound = [bind("", "n", &[&nonce]), execute(""), sync()].concat();
            let (messages, ready) = match chance.below(4) {
                0 => (vec![query(&text)], 1),
                1 => (vec![bound], 1),
                2 => (vec![query("begin"), bound, query("commit")], 3),
                _ => (vec![runs("", &text), sync()], 1),
            };
            let heard = line.play(&Round::of(messages, Wait::Ready(ready)), &mut Pace::AtOnce)?;
            let rows: Vec<&String> = heard.iter().filter(|line| line.starts_with('D')).collect();
            if rows.len() != 1 || !rows[0].ends_with(&nonce) {
                return Err(format!("wanted {nonce}, heard {heard:#?}"));
            }
            tally.noise.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_micros(chance.below(2000) as u64));
            if over.load(Ordering::Relaxed) {
                break;
            }
        }
        line.terminate();
    }
    Ok(())
}

/// All have the same tables, so one has them at a time. One that has failed leaves nothing that hurts
/// the next.
fn alone() -> MutexGuard<'static, ()> {
    static TABLES_FREE: Mutex<()> = Mutex::new(());
    // Its share first: who has one may wait for whoever is here.
    server();
    TABLES_FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Plays cases: those of these numbers, or as the environment says.
fn cases(place: Place, clients: usize, numbers: std::ops::Range<u64>) {
    cases_of(case, place, clients, numbers);
}

/// The same, of cases that `write` writes.
fn cases_of(
    write: fn(u64, Mode, usize) -> Case,
    place: Place,
    clients: usize,
    numbers: std::ops::Range<u64>,
) {
    let _alone = alone();
    place.make_tables();
    let gate = place.warm_gate();
    let tally = Tally::default();
    let play = |seed: u64| {
        let case = write(seed, place.mode, clients);
        let expected = directly(&place, &case).unwrap_or_else(|trouble| panic!("{trouble:?}"));
        if let Err(trouble) = through(&place, &gate, &case, &expected, &tally) {
            shrinking::report(&place, case, &trouble);
        }
    };
    match std::env::var("SEKISHO_SEED") {
        Ok(seed) => play(seed.parse().unwrap()),
        Err(_) => {
            numbers.for_each(play);
            let began = Instant::now();
            let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
            let mut seed = since.as_secs() << 20;
            while began.elapsed() < soak().unwrap_or_default() {
                seed += 1;
                play(seed);
            }
        }
    }
    let finished = gate.end();
    let [rounds, cancelled, unlike, noise] =
        [&tally.rounds, &tally.cancelled, &tally.unlike, &tally.noise]
            .map(|count| count.load(Ordering::Relaxed));
    println!("{rounds} rounds, {cancelled} cancelled, {unlike} sessions unlike, {noise} of noise");
    println!("{:?}", finished.stats.pools[0].counters);
    // Whether one comes while its query runs is for the machine to say; tests of cancelling make sure of it.
    let asked = finished.stats.cancels + finished.stats.cancels_ignored;
    assert!(rounds < 300 || asked > 0, "nobody has asked to cancel");
    assert!(unlike <= 2 + rounds / 30, "of {rounds} rounds {unlike} ended a comparison");
}

#[test]
fn transactions_on_ten_warm_servers_are_heard_as_on_a_connection_of_ones_own() {
    cases(Place::of(Mode::Transaction, 10), CLIENTS, 1..9);
}

#[test]
fn transactions_on_two_servers_are_heard_as_on_a_connection_of_ones_own() {
    cases(Place::of(Mode::Transaction, 2), 8, 101..109);
}

#[test]
fn transactions_by_way_of_three_workers_are_heard_as_on_a_connection_of_ones_own() {
    let place = Place { workers: 3, ..Place::of(Mode::Transaction, 3) };
    cases(place, CLIENTS, 301..307);
}

#[test]
fn sessions_are_heard_as_on_a_connection_of_ones_own() {
    cases(Place::of(Mode::Session, 10), CLIENTS, 201..207);
}
