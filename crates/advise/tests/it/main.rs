//! What `advise` promises, seen from outside.

mod agree;
mod fit;
mod formula;
mod fuzz;
mod scenario;
