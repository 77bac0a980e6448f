//! Predicts: what the formulas say.
//!
//! The one idea: an *independent witness*. A simulation runs the very policies that the live gate
//! runs, so it shares their mistakes; a measurement shares the mistakes of its clock and its
//! clients. A formula shares neither: this crate knows nothing of gates, simulators and sockets,
//! only letters from the literature. Where formula, simulation and measurement agree, the number
//! can be trusted; where they differ, the difference has a cause that can be looked for.
//!
//! A witness must not lie, so
//! - every model checks its parameters when it is made, and an error names the parameter, its
//!   value, the cause and the way out; a model that exists has finite, non-negative answers;
//! - every model says whether its answers are exact ([`Exactness`]), and how far off the
//!   approximate ones were where they were tried;
//! - the solvers of closed systems add only positive terms, so no digits cancel, and hold every
//!   answer against Little's law and the capacities before they give it away.
//!
//! | the load is | the server | model |
//! | --- | --- | --- |
//! | open | one or c servers, exponential service | [`Mm1`], [`Mmc`]; no queue: [`erlang_b`] |
//! | open, each k-th of a stream comes, as round robin deals them | c servers, exponential service | [`Ekmc`] |
//! | open, what finds no room is lost | c servers, exponential service | [`Mmck`] |
//! | open | any demand, one at a time or all at once | [`Mg1Fifo`], [`Mg1Ps`] |
//! | open, several classes | any demand, the more important first | [`Mg1Priority`] |
//! | open, several classes | any demand, the shortest remaining first | [`Mg1Srpt`] |
//! | open | any demand, at most r at once | [`Lps`]; fujita's formula: [`Mg1Lps`] |
//! | open | distributions of response times | [`FifoTimes`], [`PsTimes`], [`LpsTimes`] |
//! | open | several stations | [`OpenNetwork`] |
//! | closed, no pause | any demand, at most r at once | [`SaturatedLoop`] |
//! | closed, with a pause | any demand, at most r at once, one core or more | [`ClosedGate`] |
//! | the same | of a known distribution | [`ClosedLps`] |
//! | closed, with a pause | any subsystem whose throughput curve is known, at most r at once | [`FlowEquivalent`] |
//! | closed, with a pause | one server, exponential service: quantiles of response times | [`FiniteSource`] |
//! | closed | several stations | [`ClosedNetwork`] |
//! | open, closed or both, of several classes | any stations | [`Network`] |
//! | keys asked for independently | a cache: LRU, FIFO, RANDOM | [`CacheHits`] |
//! | one scan of all agents | servers with caches, one database | [`Cluster`] |
//! | both | tasks that are held while they call others | [`layered`] |
//!
//! Units are seconds and per second throughout. A station of several servers has a utilisation from
//! 0 to 1. How long would a page take at 20 and at 60 requests a second, if one takes 13 ms alone?
//!
//! ```
//! use solve::{Mg1Lps, Moments, SolveError};
//!
//! let demand = Moments::with_scv(13e-3, 4.0)?;
//! let response = |lambda| Ok(Mg1Lps::new(lambda, demand, Some(8))?.response());
//! assert!((17e-3..18e-3).contains(&response(20.0)?));
//! assert!((60e-3..90e-3).contains(&response(60.0)?));
//!
//! let error: SolveError = response(90.0).expect_err("one server cannot");
//! assert_eq!(
//!     error.to_string(),
//!     "M/G/1 LPS: utilisation rho = 1.17 is not below 1: no steady state; lower the arrival rate \
//!      below 76.92 /s, cut the demand, add capacity, or ask a closed model"
//! );
//! # Ok::<(), SolveError>(())
//! ```

mod bounds;
mod cache;
mod closed;
mod cluster;
mod error;
mod exactness;
mod finite_source;
mod flow;
mod general;
pub mod layered;
mod loops;
mod markov;
mod moments;
mod network;
mod open;
mod station;
mod wide;

pub use bounds::{ClosedBounds, OpenBounds};
pub use cache::{CacheHits, Replacement};
pub use closed::{ClosedAnswer, ClosedNetwork, Station, StationAnswer};
pub use cluster::{Cluster, ClusterAnswer, Cohorts, chord_hit_ratio, lru_hit_ratio};
pub use error::SolveError;
pub use exactness::Exactness;
pub use finite_source::FiniteSource;
pub use flow::{FlowAnswer, FlowEquivalent};
pub use general::{Mg1Fifo, Mg1Lps, Mg1Ps};
pub use loops::{ClosedGate, ClosedGateAnswer, SaturatedLoop};
pub use markov::{Mm1, Mmc, erlang_b};
pub use moments::Moments;
pub use network::{
    Algorithm, ClassAnswer, ClassBounds, Load, Network, NetworkAnswer, Preemption, StationKind,
    VisitAnswer,
};
pub use open::{OpenAnswer, OpenNetwork};
pub use station::{
    BestSlots, ClosedLps, Demand, Ekmc, FifoTimes, Goal, Lps, LpsAnswer, LpsMeans, LpsTimes,
    Mg1Priority, Mg1Srpt, Mmck, PsTimes, Thinking, best_slots,
};
