//! Loads: boards of the oshiro paper, each in a process of its own ([`Site`]), pressed by clients of the paper
//! ([`press`]), with what that costs in processor time and memory.
//!
//! ```text
//!   clients of weighttp ──▶ sekisho board serve, one process a store ──▶ PostgreSQL's own
//!                                        └── processor time, memory (/proc) ──┘
//! ```

mod clients;
mod cost;
mod preflight;
mod site;

pub use clients::{Client, Mix, Pressed, Shares, Size, Threads, orders, press, round_seed};
pub use cost::Memory;
pub use preflight::{machine_load, preflight};
pub use site::{Kept, Site, SiteSpec, Start};
