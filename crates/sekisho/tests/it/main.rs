//! The product's command, started as a user starts it, and what crosses crates.
//!
//! Everything stays on 127.0.0.1, and whatever is started has a time in which it must end. Machines
//! that run tests are busy: what depends on the machine's speed is asserted in its structure, and in
//! bounds that a slow machine cannot break.

#[path = "../browser/mod.rs"]
mod browser;

mod agents_asked;
mod agents_backup;
mod agents_database;
mod agents_full;
mod agents_modules;
mod agents_page;
mod approximate;
mod arguments;
mod beyond;
mod board;
mod clockwork;
mod command;
mod crashing;
mod dashboards;
mod demo;
mod demo_agents;
mod encrypting;
mod examples;
mod explain;
mod extremes;
mod faults;
mod finding;
mod gate_config;
mod gate_hostile;
mod gate_http;
mod gate_keys;
mod gate_killed;
mod gate_live;
mod gate_metrics;
mod gate_page;
mod gate_start;
mod gate_takeover;
mod interchange;
mod interrupt;
mod isolating;
mod json;
mod jungle;
mod knee_kept;
mod knee_parts;
mod late_work;
mod live_policies;
mod monitoring;
mod own_sql;
mod parquet_files;
mod parts;
mod placing;
mod progress;
mod questions;
mod quotas;
mod recording;
mod records;
mod replaying;
mod scarce;
mod schemas;
mod services;
mod serving_agents;
mod site;
mod sources;
mod terminal;
mod the_loop;
mod tpcc;
mod tpcc_closed;
mod tpcc_records;
mod tpcc_report;
mod tuning;
mod tutorials;
mod unreachable;
mod verdicts;
mod verifying;
mod walks;
mod witnesses;
