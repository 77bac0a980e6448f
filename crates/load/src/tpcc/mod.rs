//! TPC-C for PostgreSQL: what a database must satisfy.

pub mod verify;
