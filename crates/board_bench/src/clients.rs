//! Clients of the paper, all at once: each is `weighttp -n N -c C -t 2 -k`, by the load engine, with its own requests.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use cli::Failure;
use load::host::ticks;
use load::http::{Load, Method, Order, Plan, PlanSpec, Reach, Request, RunError, Target, run};
use measure::{Histogram, Until};
use rand_core::Rng;
use workload::{Dist, stream};

use crate::cost::Memory;
use crate::site::Site;

/// Kinds of requests, and their shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Pages only.
    R100,
    /// Pages, and one append in twenty requests.
    R95,
    /// As many pages as appends.
    R50,
    /// Appends only.
    W100,
}

impl Mix {
    /// All of them, the one with the fewest appends first.
    pub const ALL: [Mix; 4] = [Mix::R100, Mix::R95, Mix::R50, Mix::W100];

    /// The name.
    pub fn word(self) -> &'static str {
        match self {
            Self::R100 => "R100",
            Self::R95 => "R95",
            Self::R50 => "R50",
            Self::W100 => "W100",
        }
    }

    /// Weights of pages and of appends.
    pub(crate) fn weights(self) -> (u32, u32) {
        match self {
            Self::R100 => (1, 0),
            Self::R95 => (19, 1),
            Self::R50 => (1, 1),
            Self::W100 => (0, 1),
        }
    }
}

/// Choice of the thread that a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// Each as often as any other.
    Uniform,
    /// Thread k of a seeded order with a weight of 1/k (Zipf's law with exponent 1).
    Zipf,
}

impl Threads {
    /// The name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
        }
    }

    /// Weights of so many threads, in an order by the seed.
    fn weights(self, threads: usize, seed: u64) -> Vec<u32> {
        /// Weight of the first: that of the 1,000th is still whole.
        const FIRST: usize = 1_000;
        match self {
            Self::Uniform => vec![1; threads],
            Self::Zipf => {
                let weight = |rank: usize| ((FIRST + rank / 2) / rank).max(1) as u32;
                let mut weights: Vec<u32> = (1..=threads).map(weight).collect();
                let mut chance = stream(seed, 0);
                // Fisher and Yates. 2^64 is no multiple of what is left, which no run could see.
                for at in (1..weights.len()).rev() {
                    weights.swap(at, (chance.next_u64() % (at as u64 + 1)) as usize);
                }
                weights
            }
        }
    }
}

/// Size of a run.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Clients, all started at once.
    pub clients: u32,
    /// Requests of a client.
    pub requests: u64,
    /// Connections of a client.
    pub connections: u32,
    /// Time from the start that rates and response times leave out: it opens the connections.
    pub warmup: Duration,
    /// The time after which the run is cut off.
    pub longest: Duration,
    /// The seed of all chance.
    pub seed: u64,
}

/// Findings of one client.
#[derive(Clone, Debug)]
pub struct Client {
    /// Requests that were answered in full with 2xx or 3xx.
    pub completed: u64,
    /// Appends among them.
    pub appended: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Time of all requests \[s\].
    pub elapsed_s: f64,
    /// Response times after the warm-up.
    pub response: Histogram,
    /// Requests after the warm-up that were answered so.
    pub settled: u64,
    /// Time of all requests after the warm-up \[s\].
    pub settled_s: f64,
    /// Processor time of the load engine \[s\].
    cpu_s: f64,
    /// True if it was cut off before all requests were made.
    pub was_cut: bool,
    /// Remarks of the load engine.
    pub warnings: Vec<String>,
}

/// Findings of a run.
#[derive(Clone, Debug)]
pub struct Pressed {
    /// Each client.
    pub clients: Vec<Client>,
    /// From the common start to the end of the last client \[s\].
    pub elapsed_s: f64,
    /// Processor time of board and store a request \[s\].
    pub server_cpu_s: f64,
    /// Processor time of the load engine a request \[s\].
    pub generator_cpu_s: f64,
    /// Memory of board and store after the run; none if the kernel does not tell that of each process.
    pub memory: Option<Memory>,
    /// Use of this machine; none if the kernel does not tell.
    pub machine: Option<Shares>,
}

/// Shares of this machine's processor time during a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// Share in which nobody had work, 0 to 1.
    pub idle: f64,
    /// Share in which neither board nor store nor load engine worked, but other programs or the kernel did: at most 1, and
    /// below 0 by no more than what the kernel's counts differ.
    pub others: f64,
}

impl Pressed {
    /// A run of one client for a second at this rate: for tests of what is made of runs.
    pub fn of_rate(rate: f64) -> Self {
        let client = Client {
            completed: rate as u64,
            appended: 0,
            failed: 0,
            elapsed_s: 1.0,
            settled: rate as u64,
            settled_s: 1.0,
            response: Histogram::default(),
            cpu_s: 0.0,
            was_cut: false,
            warnings: Vec::new(),
        };
        Self {
            clients: vec![client],
            elapsed_s: 1.0,
            server_cpu_s: 0.0,
            generator_cpu_s: 0.0,
            memory: None,
            machine: None,
        }
    }

    /// Requests that were answered in full with 2xx or 3xx.
    pub fn completed(&self) -> u64 {
        self.clients.iter().map(|client| client.completed).sum()
    }

    /// Appends among them.
    pub fn appended(&self) -> u64 {
        self.clients.iter().map(|client| client.appended).sum()
    }

    /// Requests that failed.
    pub fn failed(&self) -> u64 {
        self.clients.iter().map(|client| client.failed).sum()
    }

    /// Clients that were cut off.
    pub fn cut(&self) -> usize {
        self.clients.iter().filter(|client| client.was_cut).count()
    }

    /// Requests a second, of all clients.
    pub fn rate(&self) -> f64 {
        self.completed() as f64 / self.elapsed_s
    }

    /// Requests a second of each client after its warm-up, added up.
    pub fn settled_rate(&self) -> f64 {
        let rates = self.clients.iter().filter(|client| client.settled > 0);
        rates.map(|client| client.settled as f64 / client.settled_s).sum()
    }

    /// Response times of all clients, after the warm-up.
    pub fn response(&self) -> Histogram {
        let mut all = Histogram::default();
        self.clients.iter().for_each(|client| all.merge(&client.response));
        all
    }
}

/// The orders of so many rounds of each of two stores, alike but for the store: in one of them all rounds of the first
/// store are the faster ones.
///
/// # Examples
/// ```
/// assert_eq!(board_bench::orders(2), 6);
/// ```
pub fn orders(rounds: usize) -> u64 {
    (1..=rounds as u64).fold(1, |all, n| all * (rounds as u64 + n) / n)
}

/// The seed of a round: each round draws otherwise. After the greatest seed comes 0.
///
/// # Examples
/// ```
/// assert_eq!(board_bench::round_seed(7, 2), 9);
/// assert_eq!(board_bench::round_seed(u64::MAX, 1), 0);
/// ```
pub fn round_seed(seed: u64, round: usize) -> u64 {
    seed.wrapping_add(round as u64)
}

/// The requests that a client chooses from.
fn requests(mix: Mix, weights: &[u32], threads: &[u64]) -> Vec<Request> {
    let (pages, appends) = mix.weights();
    let form = ("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned());
    // A hundred bytes, as people write on boards.
    let body: Arc<[u8]> =
        format!("author=weighttp&body={}", "non-destructive+tree+".repeat(5)).into_bytes().into();
    let mut all = Vec::new();
    for (thread, weight) in threads.iter().zip(weights) {
        if pages > 0 {
            let mut page = Request::get(&format!("/threads/{thread}?newest"));
            (page.class, page.weight) = ("page".into(), pages * weight);
            all.push(page);
        }
        if appends > 0 {
            let mut append = Request::new(Method::Post, &format!("/threads/{thread}/messages"));
            (append.class, append.weight) = (APPEND.into(), appends * weight);
            append.headers.push(form.clone());
            append.body = Arc::clone(&body);
            all.push(append);
        }
    }
    all
}

const APPEND: &str = "append";

/// Runs one client.
fn client(plan: &Plan, size: &Size, interrupt: &AtomicBool) -> Result<Client, RunError> {
    let (begun, enough) = (Instant::now(), AtomicBool::new(false));
    let mut found = Client {
        completed: 0,
        appended: 0,
        failed: 0,
        elapsed_s: 0.0,
        settled: 0,
        settled_s: 0.0,
        response: Histogram::default(),
        cpu_s: 0.0,
        was_cut: false,
        warnings: Vec::new(),
    };
    let append = plan.classes().iter().position(|class| class.name == APPEND);
    let warmup_s = size.warmup.as_secs_f64();
    let summary = run(plan, &enough, &mut |interval| {
        // An interval ends with the warm-up, whatever its length. What was acknowledged counts from the start.
        let is_settled = interval.start_s >= warmup_s - 1e-9;
        if is_settled {
            found.settled_s += interval.length_s;
        }
        for (number, class) in interval.classes.iter().enumerate() {
            found.completed += class.completed;
            found.appended += if append == Some(number) { class.completed } else { 0 };
            found.failed += class.errors.values().sum::<u64>();
            if is_settled {
                found.settled += class.completed;
                found.response.merge(&class.total);
            }
        }
        found.cpu_s += interval.generator.thread_cpu_s.iter().sum::<f64>();
        if begun.elapsed() > size.longest || interrupt.load(Ordering::Relaxed) {
            enough.store(true, Ordering::Relaxed);
        }
    })?;
    found.elapsed_s = summary.elapsed_s;
    found.was_cut = summary.interrupted;
    found.warnings = summary.warnings;
    Ok(found)
}

/// Runs clients against a board, and counts there what was acknowledged.
///
/// # Errors
/// If the load engine cannot begin: no threads, no descriptors.
///
/// # Panics
/// If there are no clients.
pub fn press(
    site: &mut Site,
    mix: Mix,
    choice: Threads,
    size: Size,
    interrupt: &AtomicBool,
) -> Result<Pressed, Failure> {
    assert!(size.clients > 0, "somebody presses");
    let plans = plans(site, mix, choice, size)?;
    let (before, read) = (site.cost(), ticks());
    let (begun, gate) = (Instant::now(), Barrier::new(plans.len()));
    let runs: Vec<Result<Client, RunError>> = thread::scope(|scope| {
        let one = |plan| {
            let gate = &gate;
            scope.spawn(move || {
                gate.wait();
                client(plan, &size, interrupt)
            })
        };
        let running: Vec<_> = plans.iter().map(one).collect();
        let joined = running.into_iter().map(|one| one.join());
        joined.map(|one| one.expect("a client does not panic")).collect()
    });
    let elapsed_s = begun.elapsed().as_secs_f64();
    let read = read.zip(ticks());
    let clients = runs.into_iter().collect::<Result<Vec<_>, _>>().map_err(Failure::machine)?;
    let after = site.cost();
    let mut pressed = Pressed {
        clients,
        elapsed_s,
        server_cpu_s: 0.0,
        generator_cpu_s: 0.0,
        memory: after.memory,
        machine: None,
    };
    let completed = pressed.completed().max(1) as f64;
    pressed.server_cpu_s = (after.cpu_s - before.cpu_s) / completed;
    let generator_s: f64 = pressed.clients.iter().map(|client| client.cpu_s).sum();
    pressed.generator_cpu_s = generator_s / completed;
    let own_s = after.cpu_s - before.cpu_s + generator_s;
    pressed.machine = read.map(|(then, now)| shares(then, now, own_s));
    if let [only] = &pressed.clients[..] {
        // The load engine's own clock leaves out its preparations.
        pressed.elapsed_s = only.elapsed_s;
    }
    site.acknowledge(&pressed, (mix, size.connections));
    Ok(pressed)
}

fn plans(site: &Site, mix: Mix, choice: Threads, size: Size) -> Result<Vec<Plan>, Failure> {
    let base = format!("http://{}/", site.address());
    let target = Target::parse(&base, Reach::Private).map_err(Failure::machine)?;
    let weights = choice.weights(site.threads().len(), site.seed());
    let requests = requests(mix, &weights, site.threads());
    let plan = |number: u32| {
        let load = Load::Closed { clients: size.connections, think: Dist::Constant(0.0) };
        let mut spec = PlanSpec::new(target.clone(), load, Until::Requests(size.requests));
        spec.requests.clone_from(&requests);
        spec.order = Order::Random;
        spec.threads = 2.min(size.connections);
        spec.interval = Duration::from_millis(250);
        spec.warmup = size.warmup;
        spec.seed = size.seed.wrapping_mul(1_000).wrapping_add(u64::from(number));
        Plan::new(spec).map_err(Failure::defect)
    };
    (0..size.clients).map(plan).collect()
}

/// Shares of the processor time of this machine that passed between two readings of its ticks, busy and in all: idle,
/// and taken by others, programs or the kernel, than those whose processor time is given \[s\].
fn shares(then: (u64, u64), now: (u64, u64), own_s: f64) -> Shares {
    let all = now.1.saturating_sub(then.1).max(1) as f64;
    // Linux says "busy" of a processor too that another machine has taken: that is neither idle nor ours.
    let busy = (now.0.saturating_sub(then.0) as f64 / all).min(1.0);
    let own = own_s * rustix::param::clock_ticks_per_second() as f64 / all;
    Shares { idle: 1.0 - busy, others: busy - own }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_a_mix_are_those_of_its_name() {
        for (mix, share) in Mix::ALL.into_iter().zip([0.0, 0.05, 0.5, 1.0]) {
            let all = requests(mix, &[1000, 500, 333], &[1, 4, 9]);
            let of = |class: &str| {
                let of = all.iter().filter(|request| request.class == class);
                of.map(|request| f64::from(request.weight)).sum::<f64>()
            };
            let (pages, appends) = (of("page"), of(APPEND));
            assert!((appends / (pages + appends) - share).abs() < 1e-12, "{}", mix.word());
            assert!(all.iter().all(|request| request.weight > 0));
        }
    }

    /// A page is answered after the warm-up by nobody who was only there before it.
    #[test]
    fn a_rate_after_the_warm_up_is_of_what_came_after_it() {
        let mut pressed = Pressed::of_rate(900.0);
        (pressed.clients[0].settled, pressed.clients[0].settled_s) = (600, 0.5);
        assert_eq!((pressed.rate(), pressed.settled_rate()), (900.0, 1_200.0));
        (pressed.clients[0].settled, pressed.clients[0].settled_s) = (0, 0.0);
        assert_eq!(pressed.settled_rate(), 0.0);
    }

    #[test]
    fn zipfs_law_is_in_the_weights_and_its_order_in_the_seed() {
        let weights = Threads::Zipf.weights(50, 7);
        let mut sorted = weights.clone();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!((sorted[0], sorted[1], sorted[2], sorted[49]), (1000, 500, 333, 20));
        assert_ne!(weights, sorted, "the hottest thread is not always the first");
        assert_eq!(weights, Threads::Zipf.weights(50, 7));
        assert_ne!(weights, Threads::Zipf.weights(50, 8));
        assert_eq!(Threads::Uniform.weights(3, 7), [1, 1, 1]);
    }

    /// Of 4 processor-seconds 1 is idle and 2 are ours.
    #[test]
    fn what_is_neither_idle_nor_ours_is_others() {
        let second = rustix::param::clock_ticks_per_second();
        let found = shares((10, 100), (10 + 3 * second, 100 + 4 * second), 2.0);
        assert!((found.idle - 0.25).abs() < 1e-12 && (found.others - 0.25).abs() < 1e-12);
        let none = shares((10, 100), (10, 100), 0.0);
        assert_eq!((none.idle, none.others), (1.0, 0.0), "no time has passed");
    }
}
