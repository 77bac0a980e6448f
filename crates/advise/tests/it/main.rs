//! What `advise` promises, seen from outside.

mod agree;
mod formula;
mod fuzz;
mod scenario;
