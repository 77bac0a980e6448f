//! Single stations: finite room and priorities.

use solve::{Mg1Fifo, Mg1Priority, Mm1, Mmc, Mmck, Moments, Preemption, erlang_b};

use crate::near;

#[test]
fn one_server_with_room_for_k_meets_the_closed_form() {
    // Jain 1991, chapter 31: a gateway that takes 125 packets a second, 2 ms each, and has room for
    // 13: loss about 1.12e-8 (rho = 0.25).
    let queue = Mmck::new(125.0, 2e-3, 1, 13).unwrap();
    let rho = 0.25_f64;
    near(queue.loss(), (1.0 - rho) * rho.powi(13) / (1.0 - rho.powi(14)), 1e-12, &"loss");
    near(queue.loss(), 1.1176e-8, 1e-3, &"as printed");
    near(queue.response(), 2e-3 / 0.75, 1e-6, &"as without a limit");
}

#[test]
fn no_queue_is_erlang_s_loss_and_much_room_is_mmc() {
    for (lambda, servers) in [(3.0, 5), (40.0, 30), (0.0, 2), (95_000.0, 100_000)] {
        let loss = Mmck::new(lambda, 1.0, servers, servers).unwrap();
        let want = erlang_b(lambda, servers).unwrap();
        assert!((loss.loss() - want).abs() <= 1e-11 * want + 1e-300, "{lambda} {servers}");
        assert_eq!((loss.wait(), loss.wait_quantile(0.9).unwrap()), (0.0, 0.0));
    }
    let (queue, endless) = (Mmck::new(0.7, 5.0, 4, 2000).unwrap(), Mmc::new(0.7, 5.0, 4).unwrap());
    near(queue.wait(), endless.wait(), 1e-11, &"wait");
    for t in [0.0, 3.0, 50.0] {
        near(queue.wait_tail(t).unwrap(), endless.wait_tail(t).unwrap(), 1e-10, &t);
    }
    near(queue.wait_quantile(0.99).unwrap(), endless.wait_quantile(0.99).unwrap(), 1e-9, &"p99");
}

#[test]
fn a_large_system_keeps_its_digits_at_any_load() {
    for lambda in [1.0, 50_000.0, 99_999.0, 100_000.0, 100_001.0, 1e9] {
        let queue = Mmck::new(lambda, 1.0, 60_000, 100_000).unwrap();
        near(queue.distribution().iter().sum::<f64>(), 1.0, 1e-9, &lambda);
        assert!(queue.utilisation() <= 1.0 + 1e-9, "{lambda}");
        near(queue.in_system(), queue.throughput() * queue.response(), 1e-9, &lambda);
        near(queue.throughput(), lambda * (1.0 - queue.loss()), 1e-6, &lambda);
    }
    // At twice the capacity half is lost, and the room is full but for one job on average.
    let queue = Mmck::new(120_000.0, 1.0, 60_000, 100_000).unwrap();
    near(queue.loss(), 0.5, 1e-12, &"half");
    near(queue.in_system(), 99_999.0, 1e-9, &"full");
}

/// The wait of the accepted integrates to its mean.
#[test]
fn the_tail_of_the_wait_integrates_to_its_mean() {
    for (lambda, servers, capacity) in [(0.9, 1, 10), (3.0, 2, 7), (5.0, 4, 40)] {
        let queue = Mmck::new(lambda, 1.0, servers, capacity).unwrap();
        let step = 0.01;
        let tail = |i: u32| queue.wait_tail(f64::from(i) * step).unwrap();
        let sum: f64 = (0..6000).map(|i| step * 0.5 * (tail(i) + tail(i + 1))).sum();
        near(sum, queue.wait(), 1e-4, &queue.distribution().len());
        let median = queue.wait_quantile(0.8).unwrap();
        near(queue.wait_tail(median).unwrap(), 0.2, 1e-9, &median);
    }
}

#[test]
fn priorities_meet_cobham_and_the_conservation_law() {
    let (short, long) = (Moments::exponential(1.0).unwrap(), Moments::with_scv(4.0, 3.0).unwrap());
    let classes = [(0.3, short), (0.1, long), (0.05, short)];
    let queue = Mg1Priority::new(&classes, Preemption::None).unwrap();
    // By hand: W0 = (0.3 * 2 + 0.1 * 64 + 0.05 * 2) / 2 = 3.55; sigma = 0.3, 0.7, 0.75.
    near(queue.wait(0).unwrap(), 3.55 / 0.7, 1e-12, &queue);
    near(queue.wait(1).unwrap(), 3.55 / (0.7 * 0.3), 1e-12, &queue);
    near(queue.wait(2).unwrap(), 3.55 / (0.3 * 0.25), 1e-12, &queue);
    // Kleinrock's conservation law: the waits weighted by rho sum to rho W0 / (1 - rho).
    let sum: f64 =
        (0..3).map(|k| classes[k].0 * classes[k].1.mean() * queue.wait(k).unwrap()).sum();
    near(sum, 0.75 * 3.55 / 0.25, 1e-12, &queue);
    assert_eq!(queue.utilisation(), 0.75);

    let resume = Mg1Priority::new(&classes, Preemption::Resume).unwrap();
    // The first class never sees the others.
    near(resume.response(0).unwrap(), Mm1::new(0.3, 1.0).unwrap().response(), 1e-12, &resume);
    // By hand: (0.3 * 2 + 0.1 * 64) / 2 = 3.5 / (0.7 * 0.3), and 4 / 0.7.
    near(resume.response(1).unwrap(), 3.5 / 0.21 + 4.0 / 0.7, 1e-12, &resume);
    assert!(resume.wait(0).unwrap() < queue.wait(0).unwrap());
}

/// One class is Takacs' variance; a class in front of others that may interrupt them never sees them; and
/// where all wait in one line whatever their class, as they do where the first class is empty, both agree.
#[test]
fn variances_under_priority_meet_what_they_become_at_their_ends() {
    let short = Moments::exponential(1.0).unwrap();
    let long = Moments::exponential(4.0).unwrap();
    let thirds = [6.0, 384.0];
    let line = Mg1Fifo::new(0.15, long).unwrap();
    for preemption in [Preemption::None, Preemption::Resume] {
        let queue = Mg1Priority::new(&[(0.0, short), (0.15, long)], preemption).unwrap();
        near(
            queue.wait_variance(1, &thirds).unwrap(),
            line.wait_variance(384.0).unwrap(),
            1e-12,
            &queue,
        );
        let response = queue.response_variance(1, &thirds).unwrap();
        near(response, line.response_variance(384.0).unwrap(), 1e-12, &queue);
        assert!(
            queue.wait_variance(1, &[6.0]).is_err() && queue.wait_variance(2, &thirds).is_err()
        );
    }
    let resume = Mg1Priority::new(&[(0.3, short), (0.1, long)], Preemption::Resume).unwrap();
    let first = Mm1::new(0.3, 1.0).unwrap();
    near(resume.wait_variance(0, &thirds).unwrap(), first.wait_variance(), 1e-12, &"first");
    near(resume.response_variance(0, &thirds).unwrap(), first.response_variance(), 1e-12, &"first");
    // By hand, for the second: A = 0.3 2 + 0.1 32 = 3.8, W0 = 1.9, H = 0.6; sigma = 0.3, 0.7.
    let square = 40.2 / (3.0 * 0.49 * 0.3) + 1.9 * 3.8 / (0.21 * 0.21) + 1.9 * 0.6 / (0.343 * 0.3);
    let wait = 1.9 / 0.21;
    near(resume.wait_variance(1, &thirds).unwrap(), square - wait * wait, 1e-12, &"second");
    let served = 16.0 / 0.49 + 4.0 * 0.6 / 0.343;
    let response = resume.response_variance(1, &thirds).unwrap();
    near(response, square - wait * wait + served, 1e-12, &"second");
}

#[test]
fn one_class_has_no_priority() {
    let demand = Moments::with_scv(0.1, 7.0).unwrap();
    let fifo = Mg1Fifo::new(6.0, demand).unwrap();
    for preemption in [Preemption::None, Preemption::Resume] {
        let queue = Mg1Priority::new(&[(6.0, demand)], preemption).unwrap();
        near(queue.response(0).unwrap(), fifo.response(), 1e-12, &queue);
        assert!(queue.exactness().is_exact());
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let text = |result: Result<Mmck, solve::SolveError>| result.unwrap_err().to_string();
    assert!(text(Mmck::new(1.0, 1.0, 4, 3)).contains("give at least 4"));
    assert!(text(Mmck::new(1.0, 1.0, 4, 10_000_001)).contains("above the 10000000"));
    assert!(text(Mmck::new(-1.0, 1.0, 4, 5)).starts_with("arrival rate lambda = -1 "));
    assert!(text(Mmck::new(1.0, 1.0, 0, 5)).contains("servers c is 0"));
    let demand = Moments::exponential(1.0).unwrap();
    let over = Mg1Priority::new(&[(0.5, demand), (0.7, demand)], Preemption::None);
    assert!(over.unwrap_err().to_string().contains("rho = 1.2 is not below 1"));
    assert!(Mg1Priority::new(&[], Preemption::None).is_err());
    let one = Mg1Priority::new(&[(0.5, demand)], Preemption::None).unwrap();
    assert!(one.wait(1).unwrap_err().to_string().contains("no such class 1"));
}
