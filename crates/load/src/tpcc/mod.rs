//! TPC-C for PostgreSQL: terminals, transactions and what is concluded from them.

mod transactions;

pub use transactions::*;
