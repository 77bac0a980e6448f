//! The six published failures of limiters that adapt, in real time: real clients, a real PostgreSQL,
//! slots that are left to the gate. In virtual time the same failures run for hours
//! (`live/tests/it/control.rs`); here they run for half a minute, side by side.
//!
//! A job calls something that many may call at once, and then uses the one thing that there is of its
//! kind: a lock. With 30 and 10 ms (exponential) 6 slots keep 95 % of what can be done. What is
//! asserted are numbers of slots that a limiter which has failed leaves: one that climbs comes to the
//! ceiling, one that takes slowness for overload to the floor.

use std::time::{Duration, Instant};

use gate::{Conduct, ServerSpec};
use monitor::{Address, Auto, Config, Mode};
use postgres::{Private, Settings};

use super::{Gate, ask, code, config, database, enter, password, runtime};

/// How long each failure is waited for.
const SPAN: Duration = Duration::from_secs(25);
const AUTO: Auto =
    Auto { floor: 1, ceiling: 40, conduct: Conduct::Acts, window: Duration::from_millis(500) };
/// Below what a limiter that climbs comes to, and above what is asked for here.
const CLIMBED: u32 = 30;

/// Chance for one client (splitmix64).
struct Chance(u64);

impl Chance {
    fn exponential(&mut self, mean: f64) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let uniform = ((z ^ z >> 31) >> 11) as f64 / (1_u64 << 53) as f64;
        -mean * (1.0 - uniform).ln()
    }
}

/// What clients ask for; times as a share of the span, means in seconds.
#[derive(Clone, Copy)]
struct Load {
    clients: u32,
    start: u32,
    calls: fn(f64) -> f64,
    uses: fn(f64) -> f64,
    /// While this is false, nobody asks for anything.
    asks: fn(f64) -> bool,
    /// The statement time-out of each session.
    limit: &'static str,
}

const USUAL: Load =
    Load { clients: 30, start: 8, calls: |_| 0.03, uses: |_| 0.01, asks: |_| true, limit: "20s" };

/// What came of it.
struct Came {
    /// The slots that stood, and the share of the span at which that was seen.
    stood: Vec<(f64, u32)>,
    moves: u64,
    done: u64,
    failed: u64,
}

impl std::fmt::Debug for Came {
    /// Of the slots that stood, the changes.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut changes = self.stood.clone();
        changes.dedup_by_key(|(_, slots)| *slots);
        let Came { moves, done, failed, .. } = self;
        write!(out, "{done} done, {failed} failed, {moves} moves, standing {changes:.2?}")
    }
}

impl Came {
    fn most(&self) -> u32 {
        self.stood.iter().map(|(_, slots)| *slots).max().unwrap()
    }

    fn least(&self) -> u32 {
        self.stood.iter().map(|(_, slots)| *slots).min().unwrap()
    }
}

impl Load {
    /// Runs it before this server, whose lock of that number is its own.
    fn run(self, server: &Private, lock: u32) -> Came {
        let gate = Gate::new(self.config(server));
        let (account, began) = (gate.account(), Instant::now());
        let asking = std::thread::spawn(move || self.ask(&account, lock, began));
        let mut stood = Vec::new();
        while !asking.is_finished() {
            let stats = gate.stats();
            let control = stats.pools.first().and_then(|pool| pool.control.as_ref());
            stood.extend(control.map(|control| (share(began), control.standing[0])));
            std::thread::sleep(Duration::from_millis(100));
        }
        let (done, failed) = asking.join().unwrap();
        let moves = gate.stats().pools[0].control.as_ref().unwrap().made;
        gate.end();
        Came { stood, moves, done, failed }
    }

    fn config(&self, server: &Private) -> Config {
        let mut database = database(Mode::Transaction, self.start);
        database.servers = vec![Address::Tcp(([127, 0, 0, 1], server.port()).into())];
        database.gate.servers = vec![ServerSpec { slots: self.start }];
        database.auto = Some(AUTO);
        let mut config = config(database);
        config.record_max = 100_000;
        config
    }

    /// All clients, until the span is over: jobs done and failed.
    fn ask(self, account: &tokio_postgres::Config, lock: u32, began: Instant) -> (u64, u64) {
        runtime().block_on(async {
            let clients = (0..self.clients).map(|number| {
                let chance = Chance(u64::from(lock << 16 | number));
                tokio::spawn(self.client(account.clone(), lock, began, chance))
            });
            let (mut done, mut failed) = (0, 0);
            for client in clients.collect::<Vec<_>>() {
                let one = client.await.unwrap();
                (done, failed) = (done + one.0, failed + one.1);
            }
            (done, failed)
        })
    }

    async fn client(
        self,
        account: tokio_postgres::Config,
        lock: u32,
        began: Instant,
        mut chance: Chance,
    ) -> (u64, u64) {
        let client = enter(&account).await.unwrap();
        ask(&client, &format!("set statement_timeout = '{}'", self.limit)).await.unwrap();
        let (mut done, mut failed) = (0, 0);
        loop {
            let at = share(began);
            if at >= 1.0 {
                return (done, failed);
            }
            if !(self.asks)(at) {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
            let calls = chance.exponential((self.calls)(at));
            let uses = chance.exponential((self.uses)(at));
            let job = format!(
                "select pg_sleep({calls}), pg_advisory_xact_lock({lock}), pg_sleep({uses})"
            );
            match ask(&client, &job).await {
                Ok(_) => done += 1,
                Err(error) if code(&error) == "57014" => failed += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// How much of the span is over.
fn share(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() / SPAN.as_secs_f64()
}

#[test]
fn the_six_failures_of_limiters_do_not_happen_in_real_time() {
    let parameters = [("fsync", "off"), ("shared_buffers", "16MB"), ("max_connections", "300")];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let password = Some(String::from_utf8(password()).unwrap());
    let server = Private::start(&Settings { parameters, password, ..Settings::default() }).unwrap();
    let loads = [
        // 1: a modest overload.
        Load { clients: 12, ..USUAL },
        // 2: time-outs, whatever the number of slots.
        Load { calls: |_| 1e6, limit: "150ms", ..USUAL },
        // 3: what is called becomes slow for a while: more slots are needed then, not fewer.
        Load { calls: |at| if at > 0.4 { 0.15 } else { 0.03 }, ..USUAL },
        // 4: a sustained overload.
        Load { clients: 60, ..USUAL },
        // 5: a silence.
        Load { asks: |at| !(0.4..0.8).contains(&at), ..USUAL },
        // 6: everything becomes slower, a little at a time.
        Load { uses: |at| 0.01 * 3.0_f64.powf(at), calls: |at| 0.03 * 3.0_f64.powf(at), ..USUAL },
    ];
    let came: Vec<Came> = std::thread::scope(|scope| {
        let server = &server;
        let running =
            loads.iter().zip(1..).map(|(load, lock)| scope.spawn(move || load.run(server, lock)));
        let running: Vec<_> = running.collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for (number, came) in [1, 4, 6].map(|number| (number, &came[number - 1])) {
        assert!(came.most() < CLIMBED, "{number}: it climbs: {came:?}");
        assert!(came.least() >= 2 && came.done > 100, "{number}: it starves: {came:?}");
    }
    let flat = &came[1];
    assert!(flat.failed > 100 && flat.done == 0, "{flat:?}");
    assert_eq!((flat.least(), flat.most(), flat.moves), (8, 8, 0), "nothing done says nothing");
    let slow = &came[2];
    let later = slow.stood.iter().filter(|(at, _)| *at > 0.5).map(|(_, slots)| *slots).min();
    assert!(later.unwrap() >= 4, "slowness is not overload: {slow:?}");
    let silent = &came[4];
    let quiet = silent.stood.iter().filter(|(at, _)| (0.45..0.8).contains(at));
    let quiet: std::collections::BTreeSet<u32> = quiet.map(|(_, slots)| *slots).collect();
    assert_eq!(quiet.len(), 1, "nothing moves in silence: {silent:?}");
    assert!(silent.most() < CLIMBED, "{silent:?}");
    server.stop().unwrap();
}
