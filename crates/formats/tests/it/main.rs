//! Models of other tools: what they say, what is refused, and what the simulator says of them. Requests and
//! logs as a load.

mod interchange;
mod layered_range;
mod requests;
