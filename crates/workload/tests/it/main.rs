//! What is drawn has the moments and the mix that are promised, and is the same on every machine.

mod arrivals;
mod chance;
mod dist;
mod documents;
mod sample;
mod tpcc;
