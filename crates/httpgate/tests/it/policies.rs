//! Routers and disciplines on real sockets, each held to what it promises. Servers answer when the test
//! says so, so that who is where is known at each moment; every gate's recording replays at its end.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use gate::{
    DisciplineSpec, KeyDown, KeyMap, KeyOf, KeyRow, Length, Queues, RouterSpec, Ties, Window,
};
use httpgate::{Class, Config};

use crate::support::*;

/// A server that answers one request for each word; without anybody to say one it answers at once.
fn held() -> (Upstream, Sender<()>) {
    let (word, words) = channel();
    let words = Mutex::new(words);
    let upstream = Upstream::start(move |stream, seen| {
        words.lock().unwrap().recv().ok();
        ok(stream, seen.target())
    });
    (upstream, word)
}

/// Held servers behind a gate with a queue for each.
struct Site {
    gate: Gate,
    upstreams: Vec<Upstream>,
    words: Vec<Sender<()>>,
    /// Clients that wait for an answer, in the order of their requests.
    clients: Vec<Client>,
}

impl Site {
    fn start(servers: usize, slots: u32, router: RouterSpec, change: impl Fn(&mut Config)) -> Site {
        let (upstreams, words): (Vec<Upstream>, _) = (0..servers).map(|_| held()).unzip();
        let addresses: Vec<_> = upstreams.iter().map(|upstream| upstream.address).collect();
        let mut config = config(&addresses, slots);
        config.gate.queues = Queues::PerServer;
        config.gate.router = router;
        config.gate.seed = SEED;
        change(&mut config);
        Site { gate: Gate::start(config), upstreams, words, clients: Vec::new() }
    }

    fn requests(&self) -> Vec<usize> {
        self.upstreams.iter().map(Upstream::requests).collect()
    }

    /// Begins a request and waits until the gate has it.
    fn begin(&mut self, target: &str) {
        let arrived = |site: &Site| {
            let stats = site.gate.stats();
            stats.waiting + stats.upstreams.iter().map(|one| u64::from(one.busy)).sum::<u64>()
        };
        let before = arrived(self);
        let mut client = self.gate.client();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        self.clients.push(client);
        let until = Instant::now() + PATIENCE;
        while arrived(self) == before {
            assert!(Instant::now() < until, "{target} never arrived");
            std::thread::sleep(ms(1));
        }
    }

    /// Begins a request that finds a free slot, and says at which server.
    fn begin_at(&mut self, target: &str) -> usize {
        let before = self.requests();
        self.begin(target);
        let until = Instant::now() + PATIENCE;
        loop {
            let now = self.requests();
            if let Some(at) = (0..now.len()).find(|&at| now[at] > before[at]) {
                assert_eq!(now.iter().sum::<usize>(), before.iter().sum::<usize>() + 1);
                return at;
            }
            assert!(Instant::now() < until, "{target} never came to a server: {now:?}");
            std::thread::sleep(ms(1));
        }
    }

    /// Lets a server answer the only request that there is.
    fn is_done(&mut self, at: usize) {
        self.words[at].send(()).unwrap();
        assert_eq!(self.clients.remove(0).response().status(), 200);
        self.gate.wait_for("idle", |stats| stats.upstreams[at].busy == 0);
    }

    /// Lets every server answer all there is and will be; then the targets that each saw, in order.
    fn end(mut self) -> Vec<Vec<String>> {
        self.words.clear();
        for client in &mut self.clients {
            assert_eq!(client.response().status(), 200);
        }
        self.gate.finish();
        self.upstreams.iter().map(Upstream::targets).collect()
    }
}

/// Of every router with chance in it. Requests come one at a time, so a seed is a run.
const SEED: u64 = 7;

#[test]
fn join_idle_queue_gives_nobody_a_second_request_while_another_idles() {
    let router = RouterSpec::JoinIdleQueue { ties: Ties::Lowest };
    let mut site = Site::start(3, 1, router, |_| {});
    for server in 0..3 {
        assert_eq!(site.begin_at("/fill"), server, "the lowest of those that idle");
    }
    // One after the other is done, by chance; the next request goes there and nowhere else.
    let mut state = SEED;
    let mut at_server = [0, 1, 2];
    for round in 0..24 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let idle = (state >> 33) as usize % 3;
        site.words[idle].send(()).unwrap();
        let mut client = site.clients.remove(at_server[idle]);
        assert_eq!(client.response().status(), 200);
        site.gate.wait_for("idle", |stats| stats.upstreams[idle].busy == 0);
        let before = at_server[idle];
        at_server.iter_mut().filter(|at| **at > before).for_each(|at| *at -= 1);
        assert_eq!(site.begin_at("/next"), idle, "round {round}");
        at_server[idle] = 2;
    }
    assert_eq!(site.end().iter().map(Vec::len).sum::<usize>(), 3 + 24);
}

#[test]
fn power_of_two_never_takes_the_longest_of_three() {
    let router = RouterSpec::PowerOfD { d: 2, length: Length::InSystem, ties: Ties::Random };
    let mut site = Site::start(3, 32, router, |_| {});
    let mut lengths = [0_usize; 3];
    let mut not_shortest = 0;
    for _ in 0..30 {
        let at = site.begin_at("/x");
        let others = (0..3).filter(|other| *other != at);
        let longer = others.clone().filter(|&other| lengths[other] >= lengths[at]).count();
        assert!(longer >= 1, "{lengths:?}: {at} is longer than both others");
        not_shortest += usize::from(others.clone().any(|other| lengths[other] < lengths[at]));
        lengths[at] += 1;
    }
    // The shortest is not drawn in a third of the cases; with all three drawn it never failed to be.
    assert!(not_shortest >= 1, "it looks at all servers: {lengths:?}");
    let served: Vec<usize> = site.end().iter().map(Vec::len).collect();
    assert_eq!(served, lengths);
}

#[test]
fn least_work_counts_sizes_not_requests() {
    let router = RouterSpec::LeastWork { speed: None, ties: Ties::Lowest };
    let mut site = Site::start(2, 16, router, |config| {
        config.classes = vec![
            Class { size: 10, ..Class::new("/large") },
            Class { size: 1, ..Class::new("/small") },
        ];
    });
    assert_eq!(site.begin_at("/large"), 0);
    // Ten small ones are as much work as the large one; after them both are equal.
    for nth in 0..10 {
        assert_eq!(site.begin_at("/small"), 1, "the {nth}th");
    }
    assert_eq!(site.begin_at("/small"), 0);
    assert_eq!(site.begin_at("/large"), 1, "11 against 10");
    assert_eq!(site.end().iter().map(Vec::len).collect::<Vec<_>>(), [2, 11]);
}

/// Tries with a unit of time of 100 ms, and with longer ones where the machine was too slow to tell.
fn told_in_time(tells: impl Fn(Duration) -> bool) {
    assert!((0..6).any(|n| tells(ms(100 << n))), "the machine is too slow to tell");
}

#[test]
fn lowest_utilisation_takes_who_was_busy_least_so_far() {
    told_in_time(|unit| {
        let router =
            RouterSpec::LowestUtilisation { window: Window::SinceStart, ties: Ties::Lowest };
        let mut site = Site::start(2, 1, router, |_| {});
        let tells = [(0, 1, 2 * unit), (1, 0, 6 * unit)].into_iter().all(|(busy, other, hold)| {
            // One is at work for so long, then the other is for as short as it can, again and again.
            assert_eq!(site.begin_at("/long"), busy);
            std::thread::sleep(hold);
            site.is_done(busy);
            let began = Instant::now();
            let mut short = 0;
            // All of this time may count as work of the other one, which is still behind by half.
            while short < 8 && began.elapsed() < hold / 4 {
                assert_eq!(site.begin_at("/short"), other, "the {short}th");
                site.is_done(other);
                short += 1;
            }
            short >= 2
        });
        site.end();
        tells
    });
}

#[test]
fn a_key_always_goes_to_the_same_server() {
    let router = RouterSpec::ByKey { of: KeyOf::Key, map: KeyMap::Hash, down: KeyDown::Next };
    let site = Site::start(3, 2, router, |_| {});
    let Site { gate, upstreams, words, .. } = site;
    drop(words);
    // Four clients at once, each asking for all of 40 documents, in orders of their own.
    let workers: Vec<_> = (0..4_usize)
        .map(|worker| {
            let address = gate.handle.address();
            std::thread::spawn(move || {
                let mut client = Client::connect(address);
                for nth in 0..80 {
                    let document = (nth * (2 * worker + 3)) % 40;
                    let target = format!("/doc/{document}?nth={nth}");
                    assert_eq!(client.get(&target).status(), 200);
                }
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    gate.finish();
    let mut server_of: BTreeMap<String, usize> = BTreeMap::new();
    let mut requests = 0;
    for (at, upstream) in upstreams.iter().enumerate() {
        assert!(upstream.requests() > 0, "40 keys leave no server of three without any");
        for target in upstream.targets() {
            let path = target.split('?').next().unwrap().to_owned();
            assert_eq!(*server_of.entry(path.clone()).or_insert(at), at, "{path}");
            requests += 1;
        }
    }
    assert_eq!((requests, server_of.len()), (4 * 80, 40));
}

#[test]
fn a_class_goes_to_the_server_that_a_table_names() {
    let rows = vec![KeyRow { key: 1, server: 2 }, KeyRow { key: 2, server: 0 }];
    let map = KeyMap::Table { rows, default: gate::KeyDefault::Server(1) };
    let router = RouterSpec::ByKey { of: KeyOf::Class, map, down: KeyDown::Wait };
    let mut site = Site::start(3, 8, router, |config| {
        config.classes = vec![Class::new("/web/"), Class::new("/api/")];
    });
    for _ in 0..3 {
        for (target, server) in [("/web/a", 2), ("/api/b", 0), ("/else", 1)] {
            assert_eq!(site.begin_at(target), server, "{target}");
        }
    }
    assert_eq!(site.end(), [["/api/b"; 3], ["/else"; 3], ["/web/a"; 3]]);
}

/// One server of one slot, which is taken, so that all further requests wait.
fn line(discipline: DisciplineSpec, classes: &[Class]) -> Site {
    let mut site = Site::start(1, 1, RouterSpec::RoundRobin, |config| {
        config.gate.discipline = discipline.clone();
        config.classes = classes.to_vec();
    });
    assert_eq!(site.begin_at("/first"), 0);
    site
}

#[test]
fn ageing_lets_who_waited_long_go_before_the_important() {
    told_in_time(|unit| {
        // A wait of this is worth the one priority that a VIP is ahead.
        let interval = 4 * unit;
        let vip = Class { priority: 1, ..Class::new("/vip") };
        let mut site = line(DisciplineSpec::PriorityAgeing { interval }, &[vip]);
        site.begin("/old");
        std::thread::sleep(interval + unit);
        let began = Instant::now();
        site.begin("/young");
        site.begin("/vip");
        let tells = began.elapsed() < interval;
        let order = site.end();
        if tells {
            assert_eq!(order, [["/first", "/old", "/vip", "/young"]]);
        }
        tells
    });
}

#[test]
fn deficit_round_robin_gives_each_class_its_share_of_the_work() {
    let classes =
        [Class { size: 1, ..Class::new("/web") }, Class { size: 4, ..Class::new("/bulk") }];
    // A turn is 4 units of work, and twice that for class 1.
    for (weights, web) in [(Vec::new(), 4), (vec![1, 2, 1], 8)] {
        let mut site = line(DisciplineSpec::DeficitRoundRobin { quantum: 4, weights }, &classes);
        for _ in 0..6 {
            site.begin("/bulk");
        }
        for _ in 0..16 {
            site.begin("/web");
        }
        let mut wanted = vec!["/first"];
        for _ in 0..16 / web {
            wanted.push("/bulk");
            wanted.extend(vec!["/web"; web]);
        }
        wanted.resize(1 + 16 + 6, "/bulk");
        assert_eq!(site.end(), [wanted], "{web} small requests a turn");
    }
}
