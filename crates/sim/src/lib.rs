//! Virtual time: networks of gates and stations, simulated.
//!
//! ```text
//!            think                    ┌─────────── gate (r slots) ───────────┐
//!   class ──(population)──▶ arrive ──▶│ wait ──▶ station ──▶ station ──▶ ... │──▶ done ──┐
//!     ▲                               └──────────────────────────────────────┘          │
//!     └─────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The one idea: what a person could configure (a pool, a worker count, a balancer, an admission
//! rule) is a [`gate::Gate`], the very code that runs live; only what the hardware does by itself (a
//! CPU, a disk, a delay) is modelled here, as a [`Station`].
//!
//! Results do not depend on the number of threads: each replication has its own streams of chance,
//! and they are merged in order.
//!
//! ```
//! use sim::{Class, Demand, Load, Network, Options, Station, StationKind, Step};
//! use workload::{Arrivals, Dist};
//!
//! let mut network = Network::default();
//! let cpu = network.add_station(Station::new("cpu", StationKind::Queue { servers: 1 }));
//! network.add_class(Class::new(
//!     "jobs",
//!     Load::Open(Arrivals::Poisson { rate: 0.5 }),
//!     vec![Step::Visit { station: cpu, demand: Demand::Drawn(Dist::Exponential { mean: 1.0 }) }],
//! ));
//! let outcome = sim::run(&network, &Options { precision: 0.05, ..Options::default() }).unwrap();
//! let response = outcome.classes[0].response.expect("many jobs were completed");
//! assert!((response.mean - 2.0).abs() < 0.2, "M/M/1 at rho 0.5: E[R] = 1 / (1 - 0.5)");
//! ```

mod agenda;
pub mod agents;
mod balance;
mod cache;
mod calendar;
mod compare;
mod network;
mod observation;
mod outcome;
mod program;
pub mod recorded;
mod replication;
mod run;
mod sequential;
mod servers;
mod station;
mod sweep;
mod tally;
mod warmup;

pub use compare::{Comparison, Of, Quantity, compare, compare_until};
pub use network::{
    Agenda, Cache, Change, Changed, Class, Client, Demand, GateNode, Join, Keys, Load, Network,
    NetworkError, NetworkFault, Noticed, Order, Replacement, Retry, Sizes, Speed, Station,
    StationKind, Step, TimeOut, WhenFull,
};
pub use outcome::{
    CacheOutcome, ClassInterval, ClassOutcome, GateOutcome, Interval, NodeInterval, Outcome,
    SizeOutcome, SizeRange, StationOutcome, Stop,
};
pub use program::equal_shares;
pub use run::{Options, Plan, SimError, run};
pub use sweep::sweep;
