//! Layered models against exact answers: Markov chains of small models, enumerated.

use solve::Exactness;
use solve::layered::{Entry, EntryId, Layered, LayeredAnswer, LayeredError, Processor, Task};

use crate::chain::{mean, stationary};
use crate::near;
use crate::random::Lcg;

fn id(task: usize) -> EntryId {
    EntryId { task, entry: 0 }
}

/// Two tiers of threads, each with two stations of one server: a request holds a thread of the first
/// tier throughout, and one of the second while it is there.
#[derive(Clone, Copy, Debug)]
struct Tiers {
    clients: u32,
    think: f64,
    threads: [u32; 2],
    /// At the first tier's CPU, and at the CPU and the disk of the second \[s\].
    demands: [f64; 3],
}

impl Tiers {
    /// Exact throughput. The state: requests there, of them at the first CPU, and of those in the
    /// second tier, how many there are and how many at the disk.
    fn exact(self) -> f64 {
        let Tiers { clients: n, think, threads: [m1, m2], demands: [s1, s2, s3] } = self;
        let chances = stationary([0_u32; 4], |&[all, first, second, disk]| {
            let served = second.min(m2);
            let let_in = |all: u32, first: u32, second: u32, disk: u32| {
                [all, first + all.min(m1).saturating_sub(first + second), second, disk]
            };
            let mut moves = Vec::new();
            if all < n {
                moves.push((let_in(all + 1, first, second, disk), f64::from(n - all) / think));
            }
            if first > 0 {
                moves.push(([all, first - 1, second + 1, disk], 1.0 / s1));
            }
            if served > disk {
                moves.push(([all, first, second, disk + 1], 1.0 / s2));
            }
            if disk > 0 {
                moves.push((let_in(all - 1, first, second - 1, disk - 1), 1.0 / s3));
            }
            moves
        });
        mean(&chances, |&[_, _, _, disk]| if disk > 0 { 1.0 / s3 } else { 0.0 })
    }

    fn layered(self) -> Layered {
        let Tiers { clients, think, threads: [m1, m2], demands: [s1, s2, s3] } = self;
        let processors = [
            Processor::delay("users"),
            Processor::single("cpu-1"),
            Processor::single("cpu-2"),
            Processor::single("disk"),
        ];
        let tasks = [
            Task::reference(
                "clients",
                0,
                clients,
                think,
                Entry::new("use", 0.0).calling(id(1), 1.0),
            ),
            Task::pool(
                "web",
                0,
                m1,
                vec![Entry::new("page", 0.0).calling(id(2), 1.0).calling(id(3), 1.0).counted()],
            ),
            Task::infinite("first", 1, vec![Entry::new("compute", s1)]),
            Task::pool(
                "base",
                0,
                m2,
                vec![Entry::new("query", 0.0).calling(id(4), 1.0).calling(id(5), 1.0).counted()],
            ),
            Task::infinite("second", 2, vec![Entry::new("compute", s2)]),
            Task::infinite("third", 3, vec![Entry::new("read", s3)]),
        ];
        Layered::new(&processors, &tasks).unwrap()
    }
}

/// 20 clients think 1 s; a request holds one of m threads, computes 30 ms, then reads for 40 ms.
fn pool(threads: u32) -> LayeredAnswer {
    let processors =
        [Processor::delay("users"), Processor::single("cpu"), Processor::single("disk")];
    let tasks = [
        Task::reference("clients", 0, 20, 1.0, Entry::new("use", 0.0).calling(id(1), 1.0)),
        Task::pool("pool", 1, threads, vec![Entry::new("ask", 0.030).calling(id(2), 2.0)]),
        Task::infinite("disk", 2, vec![Entry::new("read", 0.020)]),
    ];
    Layered::new(&processors, &tasks).unwrap().solve().unwrap()
}

#[test]
fn a_thread_pool_is_near_the_exact_answer() {
    // Known layered solvers say 13.06 to 13.58, 16.6, 17.3 to 17.7 and 17.2.
    for (threads, exact) in [(1, 13.6863), (2, 16.1624), (4, 17.0440), (20, 17.2203)] {
        let answer = pool(threads);
        near(answer.tasks[0].throughput, exact, 0.006, &answer);
    }
}

#[test]
fn short_of_threads_is_said_and_by_how_much() {
    let short = pool(2).software_bottleneck.unwrap();
    assert_eq!(short.task, 1);
    assert!((0.8..=1.0).contains(&short.utilisation), "{short:?}");
    assert!((1.2..1.5).contains(&short.strength), "{short:?}");
    assert_eq!(pool(20).software_bottleneck, None);
}

/// Relative errors of throughput and of response time.
fn errors(clients: u32, think: f64, throughput: f64, exact: f64) -> [f64; 2] {
    let response = |x: f64| f64::from(clients) / x - think;
    [throughput / exact - 1.0, response(throughput) / response(exact) - 1.0].map(f64::abs)
}

fn median_and_worst(mut errors: Vec<f64>) -> [f64; 2] {
    errors.sort_by(f64::total_cmp);
    [errors[errors.len() / 2], errors[errors.len() - 1]]
}

#[test]
fn two_tiers_of_threads_are_as_near_as_is_said() {
    let (mut throughputs, mut responses) = (Vec::new(), Vec::new());
    let mut claimed = 0.0;
    for seed in 0..300 {
        let mut lcg = Lcg::new(seed);
        let clients = lcg.count(1, 16);
        let first = lcg.count(1, clients);
        let threads = [first, lcg.count(1, first)];
        let demands = [lcg.scale(0.1, 1.0), lcg.scale(0.1, 1.0), lcg.scale(0.1, 1.0)];
        let tiers = Tiers { clients, think: lcg.scale(0.1, 20.0), threads, demands };
        let model = tiers.layered();
        let Exactness::Approximate { error, .. } = model.exactness() else { panic!("it is not") };
        claimed = error;
        let answer = model.solve().unwrap_or_else(|error| panic!("{seed} {tiers:?}: {error}"));
        let [x, r] = errors(clients, tiers.think, answer.tasks[0].throughput, tiers.exact());
        assert!(x <= error && r <= error, "{seed} {tiers:?}: {x} {r}");
        throughputs.push(x);
        responses.push(r);
    }
    let [x, r] = [throughputs, responses].map(median_and_worst);
    assert!(x[0] <= 0.002 && x[1] <= 0.08, "{x:?}");
    assert!(r[0] <= 0.005 && r[1] <= claimed, "{r:?}");
}

/// N clients of a server that replies after s1 and goes on for s2: exactly, with the state requests
/// not replied to, and whether the server is busy after a reply.
fn second_phase(clients: u32, think: f64, [s1, s2]: [f64; 2]) -> f64 {
    let chances = stationary((0_u32, false), |&(open, goes_on)| {
        let mut moves = Vec::new();
        if open < clients {
            moves.push(((open + 1, goes_on), f64::from(clients - open) / think));
        }
        if goes_on {
            moves.push(((open, false), 1.0 / s2));
        } else if open > 0 {
            moves.push(((open - 1, true), 1.0 / s1));
        }
        moves
    });
    mean(&chances, |&(open, goes_on)| if open > 0 && !goes_on { 1.0 / s1 } else { 0.0 })
}

fn second_phase_layered(clients: u32, think: f64, [s1, s2]: [f64; 2]) -> f64 {
    let processors = [Processor::delay("users"), Processor::delay("machine")];
    let client = Entry::new("use", think).calling(id(1), 1.0).counted();
    let tasks = [
        Task::reference("clients", 0, clients, 0.0, client),
        Task::pool("server", 1, 1, vec![Entry::new("serve", s1).then(s2)]),
    ];
    let answer = Layered::new(&processors, &tasks).unwrap().solve().unwrap();
    answer.tasks[0].throughput
}

#[test]
fn a_caller_that_is_back_early_waits_for_the_second_phase() {
    // Client 1, phases 1 and 1: 0.4, by hand and in every textbook on overtaking.
    near(second_phase(1, 1.0, [1.0, 1.0]), 0.4, 1e-9, &());
    near(second_phase_layered(1, 1.0, [1.0, 1.0]), 0.4, 1e-6, &());
    let mut all = Vec::new();
    for seed in 0..100 {
        let mut lcg = Lcg::new(seed);
        let (clients, think) = (lcg.count(1, 12), lcg.scale(0.1, 20.0));
        let phases = [lcg.scale(0.1, 1.0), lcg.scale(0.1, 1.0)];
        let exact = second_phase(clients, think, phases);
        let layered = second_phase_layered(clients, think, phases);
        all.push((layered / exact - 1.0).abs());
    }
    let [median, worst] = median_and_worst(all);
    assert!(median <= 0.001 && worst <= 0.07, "{median} {worst}");
}

/// Clients compute on a shared CPU, and each time leave a message behind that is worked off there too.
fn message(clients: u32, think: f64, [own, sent]: [f64; 2]) -> f64 {
    let chances = stationary((0_u32, 0_u32), |&(asking, messages)| {
        let all = f64::from(asking + messages);
        let mut moves = Vec::new();
        if asking < clients {
            moves.push(((asking + 1, messages), f64::from(clients - asking) / think));
        }
        if asking > 0 && messages < 150 {
            moves.push(((asking - 1, messages + 1), f64::from(asking) / all / own));
        }
        if messages > 0 {
            moves.push(((asking, messages - 1), f64::from(messages) / all / sent));
        }
        moves
    });
    mean(&chances, |&(asking, _)| f64::from(clients - asking) / think)
}

#[test]
fn messages_load_what_works_them_off_and_hold_nobody() {
    let mut all = Vec::new();
    for seed in 0..60 {
        let mut lcg = Lcg::new(seed);
        let (clients, think) = (lcg.count(1, 10), lcg.scale(2.0, 20.0));
        // Both together fill up to 80 % of the CPU.
        let both = think / f64::from(clients) * (0.1 + 0.7 * lcg.unit());
        let share = 0.1 + 0.8 * lcg.unit();
        let demands = [both * share, both * (1.0 - share)];
        let processors = [Processor::delay("users"), Processor::sharing("cpu", 1)];
        let tasks = [
            Task::reference(
                "clients",
                0,
                clients,
                think,
                Entry::new("use", 0.0).calling(id(1), 1.0).sending(id(2), 1.0).counted(),
            ),
            Task::infinite("page", 1, vec![Entry::new("make", demands[0])]),
            Task::infinite("log", 1, vec![Entry::new("write", demands[1])]),
        ];
        let answer = Layered::new(&processors, &tasks).unwrap().solve().unwrap();
        let exact = message(clients, think, demands);
        all.push((answer.tasks[0].throughput / exact - 1.0).abs());
        let busy = answer.processors[1].utilisation.unwrap();
        near(busy, answer.tasks[0].throughput * (demands[0] + demands[1]), 1e-9, &seed);
    }
    let [median, worst] = median_and_worst(all);
    assert!(median <= 0.02 && worst <= 0.08, "{median} {worst}");
}

/// Requests at an open rate to threads that compute on their own: M/M/c.
#[test]
fn open_requests_to_threads_are_erlangs() {
    for (rate, threads) in [(0.5, 1), (0.9, 1), (3.0, 4), (7.5, 8)] {
        let tasks = [Task::pool("server", 0, threads, vec![Entry::new("serve", 1.0).open(rate)])];
        let answer = Layered::new(&[Processor::delay("cpu")], &tasks).unwrap().solve().unwrap();
        let exact = solve::Mmc::new(rate, 1.0, threads).unwrap().response();
        near(answer.tasks[0].entries[0].open_response(), exact, 1e-6, &(rate, threads));
        near(answer.tasks[0].throughput, rate, 1e-12, &(rate, threads));
    }
    let tasks = [Task::pool("server", 0, 2, vec![Entry::new("serve", 1.0).open(2.5)])];
    let model = Layered::new(&[Processor::delay("cpu")], &tasks).unwrap();
    let error = model.solve().unwrap_err();
    assert!(matches!(error, LayeredError::Unstable { .. }), "{error}");
    assert!(error.to_string().starts_with("task `server` is asked for 1.250 of what"), "{error}");
}

/// Two kinds of clients that share threads, a CPU and a disk: exactly, with the state kinds in the
/// order of their arrival, those with a thread at the CPU (shared) or at the disk (shared too).
fn two_kinds(clients: [u8; 2], think: f64, threads: usize, demands: [[f64; 2]; 2]) -> [f64; 2] {
    // A request: its kind, and whether it is at the disk.
    let chances = stationary(Vec::<(u8, bool)>::new(), |line| {
        let mut moves = Vec::new();
        for kind in 0..2_u8 {
            let there = line.iter().filter(|(of, _)| *of == kind).count();
            let away = f64::from(clients[usize::from(kind)]) - there as f64;
            let mut longer = line.clone();
            longer.push((kind, false));
            moves.push((longer, away / think));
        }
        let working = &line[..line.len().min(threads)];
        for (at, &(kind, disk)) in working.iter().enumerate() {
            let sharers = working.iter().filter(|(_, of)| *of == disk).count() as f64;
            let rate = 1.0 / demands[usize::from(kind)][usize::from(disk)] / sharers;
            let mut next = line.clone();
            if disk {
                next.remove(at);
            } else {
                next[at].1 = true;
            }
            moves.push((next, rate));
        }
        moves
    });
    [0, 1].map(|kind| {
        let there = mean(&chances, |line: &Vec<(u8, bool)>| {
            line.iter().filter(|(of, _)| *of == kind).count() as f64
        });
        (f64::from(clients[usize::from(kind)]) - there) / think
    })
}

#[test]
fn two_kinds_of_clients_that_share_threads_are_near() {
    let mut all = Vec::new();
    for seed in 0..40 {
        let mut lcg = Lcg::new(seed);
        let clients = [lcg.count(1, 3) as u8, lcg.count(1, 3) as u8];
        let threads = lcg.count(1, 4);
        let think = lcg.scale(0.3, 5.0);
        let mut pair = || [lcg.scale(0.1, 1.0), lcg.scale(0.1, 1.0)];
        let demands = [pair(), pair()];
        let exact = two_kinds(clients, think, threads as usize, demands);
        let processors = [
            Processor::delay("users"),
            Processor::sharing("cpu", 1),
            Processor::sharing("disk", 1),
        ];
        let kind = |name: &str, clients: u8, entry: usize| {
            let call = Entry::new("use", 0.0).calling(EntryId { task: 2, entry }, 1.0).counted();
            Task::reference(name, 0, u32::from(clients), think, call)
        };
        let serve = |entry: usize| {
            let call = Entry::new("serve", 0.0).calling(EntryId { task: 3, entry }, 1.0);
            call.calling(EntryId { task: 4, entry }, 1.0).counted()
        };
        let work = |disk: usize| (0..2).map(|of| Entry::new("work", demands[of][disk])).collect();
        let tasks = [
            kind("few", clients[0], 0),
            kind("others", clients[1], 1),
            Task::pool("pool", 0, threads, vec![serve(0), serve(1)]),
            Task::infinite("cpu", 1, work(0)),
            Task::infinite("disk", 2, work(1)),
        ];
        let answer = Layered::new(&processors, &tasks).unwrap().solve().unwrap();
        let pairs = answer.tasks.iter().zip(exact);
        all.extend(pairs.map(|(task, exact)| (task.throughput / exact - 1.0).abs()));
    }
    let [median, worst] = median_and_worst(all);
    assert!(median <= 0.02 && worst <= 0.12, "{median} {worst}");
}

#[test]
fn what_cannot_be_is_named() {
    let processors = [Processor::delay("users"), Processor::single("cpu")];
    let clients = |to: usize| {
        Task::reference("clients", 0, 3, 1.0, Entry::new("use", 0.0).calling(id(to), 1.0))
    };
    let pool = |threads, entry| Task::pool("pool", 1, threads, vec![entry]);
    let serve = || Entry::new("serve", 1.0);
    let cases: Vec<(Vec<Task>, &str)> = vec![
        (vec![clients(7)], "names task 7, which there is not"),
        (vec![clients(0)], "calls the reference task `clients`"),
        (vec![clients(1), pool(0, serve())], "task `pool`: the number of threads is 0"),
        (vec![clients(1), pool(1, serve().calling(id(1), 1.0))], "task `pool` calls itself"),
        (
            vec![clients(1), pool(1, serve()), pool(1, serve())],
            "entry `serve` of task `pool` is called by nobody",
        ),
        (vec![clients(1), pool(1, Entry::new("serve", -1.0))], "demand = -1 s is neither"),
        (vec![clients(1), pool(1, serve().scv(f64::NAN))], "squared variation = NaN"),
        (vec![clients(1), Task::pool("pool", 9, 1, vec![serve()])], "names processor 9"),
        (vec![clients(1), Task::pool("pool", 1, 1, vec![])], "names entry 0 of task `pool`"),
        (
            vec![
                Task::reference("clients", 0, 3, 0.0, Entry::new("use", 0.0).calling(id(1), 1.0)),
                pool(1, Entry::new("serve", 0.0)),
            ],
            "a cycle of the reference task `clients` takes no time",
        ),
    ];
    for (tasks, part) in cases {
        let error = Layered::new(&processors, &tasks).unwrap_err().to_string();
        assert!(error.contains(part), "{error}, not {part}");
    }
}
