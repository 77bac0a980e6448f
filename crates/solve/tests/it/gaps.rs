//! Arrivals that are dealt in turn: E_k/M/c against what it becomes at its ends, against its Markov chain,
//! and against the transform of the gaps.

use solve::{Ekmc, Mmc};

use crate::chain::{mean, stationary};
use crate::near;

#[test]
fn every_arrival_is_a_poisson_stream() {
    for (lambda, servers) in [(0.5, 1), (0.98, 1), (2.4, 3), (60.0, 64), (1e-6, 2), (990.0, 1000)] {
        let (turns, poisson) =
            (Ekmc::new(lambda, 1, 1.0, servers).unwrap(), Mmc::new(lambda, 1.0, servers).unwrap());
        let case = (lambda, servers);
        near(turns.wait_probability(), poisson.wait_probability(), 1e-9, &case);
        near(turns.wait(), poisson.wait(), 1e-9, &case);
        near(turns.wait_variance(), poisson.wait_variance(), 1e-9, &case);
        near(turns.in_system(), poisson.in_system(), 1e-9, &case);
        let p99 = |q: Result<f64, solve::SolveError>| q.unwrap();
        near(p99(turns.response_quantile(0.99)), p99(poisson.response_quantile(0.99)), 1e-9, &case);
    }
}

/// The states are jobs there and gaps done since the last arrival, up to 400 jobs.
#[test]
fn it_is_what_its_chain_says() {
    for (k, c, rho) in [(4, 1, 0.8), (2, 3, 0.9), (5, 4, 0.6), (3, 8, 0.3), (16, 2, 0.85)] {
        let case = (k, c, rho);
        let lambda = rho * f64::from(c);
        let ends = f64::from(k) * lambda;
        let chances = stationary((0_u32, 0_u32), |&(jobs, gaps)| {
            let mut moves = vec![((jobs.saturating_sub(1), gaps), f64::from(jobs.min(c)))];
            let last = gaps + 1 == k;
            if !last {
                moves.push(((jobs, gaps + 1), ends));
            } else if jobs < 400 {
                moves.push(((jobs + 1, 0), ends));
            }
            moves
        });
        let queue = Ekmc::new(lambda, k, 1.0, c).unwrap();
        // Arrivals come at the end of the last gap.
        let arrives = |&(jobs, gaps): &(u32, u32), found: bool| {
            f64::from(u8::from(gaps + 1 == k && (!found || jobs >= c)))
        };
        let full = mean(&chances, |of| arrives(of, true)) / mean(&chances, |of| arrives(of, false));
        near(queue.wait_probability(), full, 1e-7, &case);
        near(queue.in_system(), mean(&chances, |of| f64::from(of.0)), 1e-7, &case);
        near(queue.waiting(), mean(&chances, |of| f64::from(of.0.saturating_sub(c))), 1e-7, &case);
        // The second moment of the wait: who finds c + i jobs waits for i + 1 services.
        let second = mean(&chances, |of| {
            let ahead = f64::from((of.0 + 1).saturating_sub(c)) * arrives(of, false);
            ahead * (ahead + 1.0) / f64::from(c * c)
        });
        let second = second / mean(&chances, |of| arrives(of, false));
        near(queue.wait_variance() + queue.wait().powi(2), second, 1e-6, &case);
        near(queue.utilisation(), rho, 1e-12, &case);
    }
}

/// With one server P(W > t) = sigma exp(-(1 - sigma) t / S), and the wait integrates to its mean.
#[test]
fn one_server_has_the_root_of_the_transform() {
    for (k, rho) in [(2, 0.5), (4, 0.8), (64, 0.95), (1000, 0.5), (7, 1e-3), (3, 0.999_999)] {
        let queue = Ekmc::new(rho, k, 1.0, 1).unwrap();
        let sigma = queue.wait_probability();
        let step = 1.0 + (1.0 - sigma) / (f64::from(k) * rho);
        near(sigma, step.powi(-(k as i32)), 1e-9, &(k, rho));
        near(queue.wait(), sigma / (1.0 - sigma), 1e-6, &(k, rho));
        near(queue.wait_tail(2.0).unwrap(), sigma * (-2.0 * (1.0 - sigma)).exp(), 1e-9, &(k, rho));
        let q = queue.response_quantile(0.9).unwrap();
        near(queue.response_tail(q).unwrap(), 0.1, 1e-9, &(k, rho));
    }
    // E_4/M/1 at 0.5 by hand: sigma = (2 / (3 - sigma))^4.
    near(Ekmc::new(0.5, 4, 1.0, 1).unwrap().wait_probability(), 0.301_95, 1e-4, &"by hand");
}

#[test]
fn large_ones_take_no_time_and_what_cannot_be_is_refused() {
    // As evenly as that, half a load never waits for a thousand servers.
    let even = Ekmc::new(500.0, 10_000, 1.0, 1000).unwrap();
    assert!((0.0..1e-12).contains(&even.wait_probability()), "{even:?}");
    let busy = Ekmc::new(999.9, 10_000, 1.0, 1000).unwrap();
    assert!((0.5..1.0).contains(&busy.wait_probability()), "{busy:?}");
    let none = Ekmc::new(0.0, 3, 1.0, 2).unwrap();
    assert_eq!((none.wait(), none.wait_probability(), none.response()), (0.0, 0.0, 1.0));
    let text = |of: Result<Ekmc, solve::SolveError>| of.unwrap_err().to_string();
    assert!(text(Ekmc::new(1.0, 4, 1.0, 1)).contains("E_4/M/1: utilisation rho = 1 "));
    assert!(text(Ekmc::new(1.0, 1_000_000, 1.0, 20)).contains("above the 500000"));
    assert!(text(Ekmc::new(1.0, 0, 1.0, 20)).contains("gaps k is 0"));
}
