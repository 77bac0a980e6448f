//! Loads agents: the accounts of yamamoto's benchmark, and several ways to give each of them a new table of
//! prices, over the same store.
//!
//! ```text
//!   Ticks ──▶ Server: agents::Partition, cohorts, batches   ──┐
//!        └──▶ Direct: a policy of order and eviction,         ├──▶ a Store, in most cases PostgreSQL
//!                     one agent at a time or in chunks      ──┘
//! ```
//!
//! A second rule, a threshold on one symbol ([`Watch`]), is there for rivals that keep thresholds in an index;
//! agents with timers and nothing else ([`Sleeper`]) for the speed of timers; urgent messages beside a pass
//! ([`Server::lane`]) for that of the interactive lane.
//!
//! All ways handle the same [`Tick`]s by the same [`Account`], and each pass tells which notifications there
//! were ([`Fired`]). [`Load::expected`] says which there must be, from the inputs alone.

mod account;
mod costs;
mod direct;
mod lane;
mod load;
mod policy;
mod reading;
mod server;
mod sleeper;
mod watch;

pub use account::{Account, Holding, Tick};
pub use costs::{Costs, Meter};
pub use direct::{Blocks, Direct, Pace, ReadEach, Timed};
pub use lane::Probes;
pub use load::{Fired, Load, LoadSpec, RunError, populate};
pub use policy::{Order, Policy, PolicySpec, Turn};
pub use reading::{Aim, Aims, Reading};
pub use server::{Server, Told};
pub use sleeper::{Hello, Sleeper, SleeperSpec};
pub use watch::{Price, Watch, WatchSpec};
