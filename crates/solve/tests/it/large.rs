//! Numbers beyond what can be counted through: they cost a moment, or are refused before any work.

use solve::layered::{Entry, Layered, Processor, Task};
use solve::{ClosedNetwork, Mmc, Station, erlang_b};

use crate::near;

/// Erlang's B by the recursion over every server.
fn by_recursion(a: f64, servers: u32) -> f64 {
    (1..=servers).fold(1.0, |b, k| a * b / (f64::from(k) + a * b))
}

#[test]
fn erlangs_series_is_his_recursion() {
    for servers in [1, 2, 7, 64, 1000, 30_000] {
        for load in [1e-9, 0.01, 0.5, 0.9, 0.999, 1.0, 1.001, 2.0, 1e6] {
            let a = load * f64::from(servers);
            let wanted = by_recursion(a, servers);
            let found = erlang_b(a, servers).unwrap();
            if wanted > 1e-290 {
                near(found, wanted, 1e-11, &(servers, load));
            } else {
                assert!(found < 1e-289, "{servers} at {load}: {found:e}");
            }
        }
    }
}

/// Once each server was one step of a recursion: two minutes brought no answer for 4e9 of them.
/// Halfin and Whitt (1981), near saturation: C tends to 1 / (1 + b F(b) / f(b)) with
/// b = (1 - rho) sqrt(c), and is off by the order of 1 / sqrt(c), 2e-5 here.
#[test]
fn billions_of_servers_cost_no_more_than_a_moment() {
    let servers = 4_000_000_000;
    for (b, wanted) in [(0.1, 0.880_287), (0.5, 0.504_539), (1.0, 0.223_361)] {
        let rho = 1.0 - b / f64::from(servers).sqrt();
        let queue = Mmc::new(rho * f64::from(servers), 1.0, servers).unwrap();
        near(queue.wait_probability(), wanted, 1e-4, &b);
    }
    assert_eq!(Mmc::new(0.9 * 4e9, 1.0, servers).unwrap().wait(), 0.0);
}

/// Once every population was convolved with every number of busy servers: 1e12 steps. So many
/// customers, of whom few are here, come as from outside: M/M/c.
#[test]
fn a_million_customers_at_64_servers_cost_no_more_than_a_moment() {
    let stations = [Station::multi(0.064, 64).unwrap()];
    let network = ClosedNetwork::new(1_000_000, 1_111.1, &stations).unwrap();
    let answer = network.solve();
    let queue = Mmc::new(answer.throughput, 0.064, 64).unwrap();
    near(answer.response, queue.response(), 1e-3, &answer);
}

#[test]
fn as_many_servers_as_customers_are_a_delay() {
    let queue = Station::queue(0.02).unwrap();
    let of = |other: Station| ClosedNetwork::new(50, 1.0, &[queue, other]).unwrap().solve();
    let (many, delay) =
        (of(Station::multi(0.3, 4_000_000_000).unwrap()), of(Station::delay(0.3).unwrap()));
    assert_eq!(many.throughput, delay.throughput);
    near(of(Station::multi(0.3, 49).unwrap()).throughput, delay.throughput, 1e-9, &delay);
}

#[test]
fn what_would_take_hours_is_refused_with_the_steps() {
    let stations = [Station::multi(1.0, 500_000).unwrap()];
    let error = ClosedNetwork::new(1_000_000, 1.0, &stations).unwrap_err().to_string();
    let steps = "an exact solution for 1000000 clients takes 2.5e10 steps, more than 2e9";
    assert!(error.starts_with(steps), "{error}");
}

/// Once 10^9 threads ended the program at 7.8 GB: tables hold a number for each.
#[test]
fn a_billion_threads_are_refused_by_name() {
    let processors = [Processor::delay("all")];
    let model = |threads, clients| {
        let mut callee = Task::pool("pool", 0, threads, vec![Entry::new("ask", 0.1)]);
        callee.processor = 0;
        let go = Entry::new("go", 0.0).calling(solve::layered::EntryId { task: 1, entry: 0 }, 1.0);
        Layered::new(&processors, &[Task::reference("users", 0, clients, 1.0, go), callee])
    };
    assert!(model(1_000_000, 1_000_000).is_ok());
    for (threads, clients, wanted) in [
        (1_000_000_000, 10, "task `pool`: the number of threads is 1000000000, above the 1000000"),
        (10, 1_000_001, "task `users`: the number of customers N is 1000001, above the 1000000"),
    ] {
        let error = model(threads, clients).unwrap_err().to_string();
        assert!(error.starts_with(wanted), "{error}");
    }
}

/// Once 5000 tasks were solved as the pairs of their chains: 5.1 GB, and no answer in 40 s.
#[test]
fn layers_that_take_too_many_steps_are_refused() {
    let ask = |task| solve::layered::EntryId { task, entry: 0 };
    let many = |servers: usize| {
        let processors = vec![Processor::delay("all"); 1];
        let mut go = Entry::new("go", 0.0);
        let mut tasks = Vec::new();
        for server in 0..servers {
            go = go.calling(ask(1 + server), 1.0 / servers as f64);
            tasks.push(Task::pool("server", 0, 2, vec![Entry::new("ask", 1.0)]));
        }
        tasks.insert(0, Task::reference("users", 0, 100, 10.0, go));
        Layered::new(&processors, &tasks).unwrap().solve()
    };
    assert!(many(4).is_ok());
    let error = many(2000).unwrap_err().to_string();
    assert!(error.contains("more than 5e8 steps") && error.contains("simulate it"), "{error}");
}
