//! Formats: files as models and measurements, and models as files.
//!
//! ```text
//!   scenario.toml ──────────▶ advise::Scenario ──▶ formula, simulation
//!   .jmva, .lqn, .lqnx ─────▶ Model ──▶ Solved ──▶ table, CSV, .jmva
//!   logs, metrics, spans ───▶ what a fit takes
//!   outputs of load tools ──▶ advise::ToolRun
//!   requests, logs ─────────▶ what a load is made of
//! ```
//!
//! Each reader names the place of whatever it cannot read, the cause, and the nearest right spelling.
//! Each file has a bound ([`bounded`]). The numbers get their meaning in `advise`. Nothing here has a
//! clock, a thread or a socket.

pub mod bounded;
pub mod document_file;
pub mod exchange;
pub mod load_tools;
pub mod request_file;
pub mod scenario_file;
pub mod sources;

mod error;

pub use error::ReadError;
