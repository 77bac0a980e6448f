//! Many networks, each run by itself, several at a time.

use crate::network::Network;
use crate::outcome::Outcome;
use crate::run::{Options, SimError, for_each, run, threads};

/// Runs every network as [`run`] would, with the same seed and so under the same chance, several at a
/// time. The outcomes come in the order of the networks and do not depend on the number of threads.
/// `each` is called after every one, from whichever thread was done.
pub fn sweep(
    networks: &[Network],
    options: &Options,
    each: impl Fn() + Sync,
) -> Vec<Result<Outcome, SimError>> {
    let all = threads(options);
    // Threads that have no network of their own help with the replications of another's.
    let inside = (all / networks.len().max(1)).max(1);
    let options = Options { threads: Some(inside), ..options.clone() };
    let mut points: Vec<_> = networks.iter().map(|network| (network, None)).collect();
    let done = for_each(&mut points, all, |(network, outcome)| {
        *outcome = Some(run(network, &options));
        each();
        Ok(())
    });
    done.expect("an error is kept with its point");
    let outcome = |(_, outcome): (_, Option<_>)| outcome.expect("every point was run");
    points.into_iter().map(outcome).collect()
}
