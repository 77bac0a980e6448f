//! The gate from outside: every event and policy by table, random sequences against a naive model.

mod deadlines;
#[cfg(feature = "serde")]
mod formats;
mod model;
mod play;
mod protocol;
mod queues;
mod random;
mod routers;
mod servers;
