//! Cases of the textbooks whose answers a reader can derive on paper: the comment names the chapter in
//! which the formula stands, and the numbers are rational, worked out by hand beside it. None is copied from
//! a printed table.
//!
//! Books: Kleinrock, *Queueing Systems*, volumes 1 (1975) and 2 (1976); Lazowska, Zahorjan, Graham and
//! Sevcik, *Quantitative System Performance* (1984); Jain, *The Art of Computer Systems Performance
//! Analysis* (1991); Bolch, Greiner, de Meer and Trivedi, *Queueing Networks and Markov Chains* (1998).

use solve::{
    ClosedNetwork, Demand, FifoTimes, Mg1Fifo, Mg1Priority, Mg1Ps, Mm1, Mmc, Mmck, Moments,
    OpenNetwork, Preemption, Station, erlang_b,
};

use crate::near;

/// All of this is exact; what is lost is lost to rounding.
const ROUNDING: f64 = 1e-12;

#[track_caller]
fn is(found: f64, wanted: f64) {
    near(found, wanted, ROUNDING, &"a sum on paper");
}

/// M/M/1: Kleinrock 1, section 3.2; Jain, chapter 31. lambda = 125/s, S = 2 ms, so that rho = 1/4.
#[test]
fn one_exponential_server() {
    let queue = Mm1::new(125.0, 2e-3).unwrap();
    is(queue.utilisation(), 0.25);
    is(queue.in_system(), 1.0 / 3.0);
    is(queue.response(), 8e-3 / 3.0);
    is(queue.wait(), 2e-3 / 3.0);
    // The response is exponential: a tenth takes longer than R ln 10.
    is(queue.response_quantile(0.9).unwrap(), 8e-3 / 3.0 * 10.0_f64.ln());
}

/// Erlang's C: Kleinrock 1, section 3.5; Jain, chapter 31; Bolch, chapter 6.
#[test]
fn several_exponential_servers() {
    // a = 1, c = 2: p0 = 1 / (1 + 1 + 1/2 / (1 - 1/2)) = 1/3, C = 1 p0, W = C / (2 - 1).
    let two = Mmc::new(1.0, 1.0, 2).unwrap();
    is(two.wait_probability(), 1.0 / 3.0);
    is(two.response(), 4.0 / 3.0);
    // a = 4, c = 5: 1 + 4 + 8 + 32/3 + 32/3 = 103/3, and 4^5 / 5! / (1 - 4/5) = 128/3, of 231/3 in all.
    let five = Mmc::new(4.0, 1.0, 5).unwrap();
    is(five.wait_probability(), 128.0 / 231.0);
    is(five.waiting(), 4.0 * 128.0 / 231.0);
    is(five.wait(), 128.0 / 231.0);
    // Who waits at all waits for an exponential time of mean 1 / (5 - 4).
    is(five.wait_tail(2.0).unwrap(), 128.0 / 231.0 * (-2.0_f64).exp());
}

/// Finite room and Erlang's loss formula: Kleinrock 1, sections 3.6 and 3.7; Bolch, chapter 6.
#[test]
fn finite_room() {
    // rho = 1/2, K = 3: 1, 1/2, 1/4, 1/8 of 15/8.
    let queue = Mmck::new(1.0, 0.5, 1, 3).unwrap();
    is(queue.loss(), 1.0 / 15.0);
    is(queue.in_system(), 11.0 / 15.0);
    is(queue.response(), 11.0 / 14.0);
    // At rho = 1 all states are as likely.
    is(Mmck::new(1.0, 1.0, 1, 3).unwrap().loss(), 0.25);
    // a = 3, c = 4: 27/8 of 1 + 3 + 9/2 + 9/2 + 27/8.
    is(erlang_b(3.0, 4).unwrap(), 27.0 / 131.0);
    is(Mmck::new(3.0, 1.0, 4, 4).unwrap().loss(), 27.0 / 131.0);
}

/// Finitely many customers: Kleinrock 1, sections 3.8 and 3.10; the response is what the interactive
/// response-time law leaves, R = N / X - Z (Lazowska, chapter 3; Jain, chapter 33).
#[test]
fn machine_repairmen() {
    // Three machines, one repairman, Z = 2, S = 1: 1, 3/2, 3/2, 3/4 of 19/4.
    let one = ClosedNetwork::new(3, 2.0, &[Station::queue(1.0).unwrap()]).unwrap().solve();
    is(one.throughput, 15.0 / 19.0);
    is(one.response, 9.0 / 5.0);
    is(one.stations[0].jobs, 27.0 / 19.0);
    // Four machines, two repairmen, Z = S = 1: 1, 4, 6, 6, 3 of 20.
    let two = ClosedNetwork::new(4, 1.0, &[Station::multi(1.0, 2).unwrap()]).unwrap();
    is(two.solve().throughput, 34.0 / 20.0);
    is(two.solve().response, 23.0 / 17.0);
    for (state, weight) in two.distribution(0).unwrap().iter().zip([1.0, 4.0, 6.0, 6.0, 3.0]) {
        is(*state, weight / 20.0);
    }
}

/// The central-server model: Buzen's convolution (Bolch, chapter 8; Jain, chapter 35) and mean value
/// analysis (Lazowska, chapter 6) by hand. Demands 1, 1/2 and 1/4, three customers.
#[test]
fn a_central_server() {
    let demands = [1.0, 0.5, 0.25].map(|demand| Station::queue(demand).unwrap());
    let network = ClosedNetwork::new(3, 0.0, &demands).unwrap();
    // In quarters, demands 4, 2, 1: G = 1, 7, 35, 155. X(3) = 4 * 35 / 155.
    let answer = network.solve();
    is(answer.throughput, 28.0 / 31.0);
    is(answer.response, 93.0 / 28.0);
    for (station, (busy, jobs)) in
        answer.stations.iter().zip([(28.0, 316.0), (14.0, 106.0), (7.0, 43.0)])
    {
        is(station.utilisation.unwrap(), busy / 31.0);
        // Of the first, (4 * 35 + 16 * 7 + 64) / 155 jobs.
        is(station.jobs, jobs / 155.0);
    }
    // By mean values: X(1) = 4/7, X(2) = 4 * 7 / 35.
    for (found, wanted) in network.throughputs().iter().zip([4.0 / 7.0, 4.0 / 5.0, 28.0 / 31.0]) {
        is(*found, wanted);
    }
}

/// An open network is its stations alone: Jackson (Kleinrock 1, section 4.8; Lazowska, chapter 6; Bolch,
/// chapter 7). lambda = 2/s, demands 0.2, 0.3 and 0.1 s.
#[test]
fn an_open_network() {
    let demands = [0.2, 0.3, 0.1].map(|demand| Station::queue(demand).unwrap());
    let answer = OpenNetwork::new(2.0, &demands).unwrap().solve();
    // 0.2 / 0.6 + 0.3 / 0.4 + 0.1 / 0.8.
    is(answer.response, 29.0 / 24.0);
    for (station, busy) in answer.stations.iter().zip([0.4, 0.6, 0.2]) {
        is(station.utilisation.unwrap(), busy);
    }
}

/// Pollaczek and Khinchine, W = lambda E[S^2] / (2 (1 - rho)): Kleinrock 1, chapter 5; Jain, chapter 31;
/// Bolch, chapter 6. Constant, Erlang-2 and a mixture: with 1/4 a rate of 1, else of 2, so that E[S] =
/// 5/8 and E[S^2] = 7/8.
#[test]
fn general_service() {
    let wait =
        |lambda, demand: &Demand| Mg1Fifo::new(lambda, demand.moments().unwrap()).unwrap().wait();
    is(wait(0.5, &Demand::constant(1.0).unwrap()), 0.5);
    is(wait(0.5, &Demand::erlang(2, 1.0).unwrap()), 0.75);
    let mixture = Demand::hyperexponential(&[(0.25, 1.0), (0.75, 0.5)]).unwrap();
    is(wait(1.0, &mixture), 7.0 / 6.0);
    // The transform of the wait, (1 - rho) s / (s - lambda + lambda B(s)), has the poles -1/2 and -3/2:
    // P(W > t) = 9/16 exp(-t/2) + 1/16 exp(-3t/2), whose integral is the mean again.
    let times = FifoTimes::new(1.0, mixture).unwrap();
    for t in [0.0, 0.3, 1.0, 4.0, 12.0_f64] {
        let exact = 9.0 / 16.0 * (-t / 2.0).exp() + (-1.5 * t).exp() / 16.0;
        near(times.wait_tail(t).unwrap(), exact, 1e-6, &t);
    }
}

/// Processor sharing knows the mean of the demand only, and serves each job in proportion to its own:
/// Kleinrock 2, chapter 4. rho = 5/8 with the mixture above, or with any other demand of its mean.
#[test]
fn processor_sharing_is_insensitive() {
    for second in [25.0 / 64.0, 7.0 / 8.0, 40.0] {
        let queue = Mg1Ps::new(1.0, Moments::new(0.625, second).unwrap()).unwrap();
        is(queue.response(), 5.0 / 3.0);
        is(queue.response_given(3.0).unwrap(), 8.0);
    }
}

/// The head of the line: Cobham's formula (Kleinrock 2, chapter 3; Bolch, chapter 6). Two classes, 1/4 a second each, the urgent constant of 1 s, the others exponential of 2 s:
/// W0 = (1/4 + 1/4 * 8) / 2 = 9/8, sigma = 1/4 and 3/4.
#[test]
fn the_head_of_the_line() {
    let classes =
        [(0.25, Moments::new(1.0, 1.0).unwrap()), (0.25, Moments::exponential(2.0).unwrap())];
    let queue = Mg1Priority::new(&classes, Preemption::None).unwrap();
    is(queue.wait(0).unwrap(), 9.0 / 8.0 / 0.75);
    is(queue.wait(1).unwrap(), 9.0 / 8.0 / (0.75 * 0.25));
    // Conservation: the waits weighted by the utilisations are those of one line, rho W0 / (1 - rho).
    let line = 0.25 * queue.wait(0).unwrap() + 0.5 * queue.wait(1).unwrap();
    is(line, 0.75 * 9.0 / 8.0 / 0.25);
}

/// Bounds from demands alone: Lazowska, chapter 5. D = 2, 1, 1 s, Z = 6 s: N* = 10 / 2; with one customer
/// X = 1/10, with many 1/2.
#[test]
fn asymptotes() {
    let demands = [2.0, 1.0, 1.0].map(|demand| Station::queue(demand).unwrap());
    let network = |n| ClosedNetwork::new(n, 6.0, &demands).unwrap();
    is(network(1).knee().unwrap(), 5.0);
    is(network(1).solve().throughput, 0.1);
    for n in [1, 3, 5, 20] {
        let bounds = network(n).asymptotic_bounds();
        let n = f64::from(n);
        is(bounds.throughput_max, (n / 10.0).min(0.5));
        // At worst each waits for all others at every station.
        is(bounds.throughput_min, n / (4.0 * n + 6.0));
        let exact = network(n as u32).solve().throughput;
        assert!(
            bounds.throughput_min <= exact * (1.0 + ROUNDING) && exact <= bounds.throughput_max
        );
    }
}

/// Variances against twice the integral of t P(. > t), taken numerically from the tails, which are
/// other sums; with room for next to all, M/M/c/K is M/M/c, and with exponential demand M/G/1 is M/M/1.
#[test]
fn variances_are_those_of_the_tails() {
    let second = |scale: f64, tail: &dyn Fn(f64) -> f64| {
        let step = scale * 1e-3;
        (1..80_000).map(|i| f64::from(i) * step).map(|t| 2.0 * t * tail(t) * step).sum::<f64>()
    };
    for (lambda, servers) in [(80.0, 1), (150.0, 2), (600.0, 8)] {
        let queue = Mmc::new(lambda, 10e-3, servers).unwrap();
        let wait = second(10e-3, &|t| queue.wait_tail(t).unwrap()) - queue.wait().powi(2);
        near(queue.wait_variance(), wait, 1e-4, &queue);
        let response = second(10e-3, &|t| queue.response_tail(t).unwrap());
        near(queue.response_variance(), response - queue.response().powi(2), 1e-4, &queue);
        let roomy = Mmck::new(lambda, 10e-3, servers, 2000).unwrap();
        near(roomy.wait_variance(), queue.wait_variance(), 1e-9, &queue);
        near(roomy.wait_probability(), queue.wait_probability(), 1e-9, &queue);
        near(roomy.waiting(), queue.waiting(), 1e-9, &queue);
    }
    let full = Mmck::new(250.0, 10e-3, 2, 7).unwrap();
    let wait = second(10e-3, &|t| full.wait_tail(t).unwrap()) - full.wait().powi(2);
    near(full.wait_variance(), wait, 1e-4, &full);
    is(full.response_variance(), full.wait_variance() + 1e-4);
    let (one, any) = (
        Mm1::new(80.0, 10e-3).unwrap(),
        Mg1Fifo::new(80.0, Moments::exponential(10e-3).unwrap()).unwrap(),
    );
    let third = Demand::exponential(10e-3).unwrap().third_moment();
    is(third, 6e-6);
    is(any.wait_variance(third).unwrap(), one.wait_variance());
    is(any.response_variance(third).unwrap(), one.response_variance());
    is(any.wait_probability(), one.wait_probability());
    // Mixtures of exponentials: the second moment of the response from its tail.
    let mixed = Demand::hyperexponential(&[(0.9, 5e-3), (0.1, 55e-3)]).unwrap();
    let times = FifoTimes::new(40.0, mixed.clone()).unwrap();
    let queue = Mg1Fifo::new(40.0, mixed.moments().unwrap()).unwrap();
    let response = second(40e-3, &|t| times.response_tail(t).unwrap()) - queue.response().powi(2);
    near(queue.response_variance(mixed.third_moment()).unwrap(), response, 1e-3, &queue);
    // Sharing: its response times have a tail of their own (Coffman, Muntz and Trotter 1970).
    let shared = Mg1Ps::new(50.0, Moments::exponential(10e-3).unwrap()).unwrap();
    is(shared.response_variance().unwrap(), 2.5 / 1.5 * 4e-4);
    assert!(
        Mg1Ps::new(50.0, Moments::constant(10e-3).unwrap()).unwrap().response_variance().is_none()
    );
}
