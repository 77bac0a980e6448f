//! Outputs of load tools, one file a tool: wrk, wrk2, ab, hey, oha, h2load, weighttp, vegeta, pgbench.

mod ab;
mod h2load;
mod hey;
mod json;
mod outputs;
mod pgbench;
mod scan;
mod vegeta;
mod wrk;

pub use outputs::{known, runs_of};
pub use scan::Broken;
