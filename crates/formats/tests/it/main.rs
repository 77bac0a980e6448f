//! Models of other tools: what they say, what is refused, and what the simulator says of them.

mod interchange;
mod layered_range;
