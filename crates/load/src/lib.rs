//! Presses: clients in real time.
//!
//! The one idea: what is asked for is laid down beforehand (a seed, a plan), and every latency
//! counts from the moment at which the request *should* have begun. A closed load is a population
//! that waits for its answers; an open load waits for nobody. They are different systems, and a
//! run is one or the other.
//!
//! [`http`] is the engine for HTTP servers; [`export`] writes a run record in the formats of others. Other
//! load stands on the rest: which addresses may be loaded ([`judge`]), which certificates are taken
//! ([`certificates`]), what is asked for next ([`asks`]) and when ([`schedule`]), what is counted in an
//! interval ([`tally`]), how several processes begin a run together ([`meeting`]), when a probe of a search for
//! the knee is decided ([`probe`]), also of one that several processes make in step ([`lockstep`] decides, [`joint`] makes it,
//! [`company`] connects), and what machine this is ([`host`]). The engine needs Linux (epoll).

pub mod asks;
pub mod certificates;
pub mod company;
pub mod export;
pub mod host;
pub mod http;
pub mod joint;
pub mod lockstep;
pub mod meeting;
pub mod probe;
pub mod schedule;
pub mod tally;

mod reach;
#[allow(unsafe_code)]
mod sys;

pub use reach::{Reach, ReachError, judge, resolve};
