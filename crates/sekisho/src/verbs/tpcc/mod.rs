//! `sekisho tpcc`: TPC-C on PostgreSQL, by the rules of the specification. One module a question.

mod database;
mod load;

use std::io::Write;

use clap::{Args as ClapArgs, Subcommand};

use crate::session::Session;
use crate::verdict::{Failure, Verdict};

#[derive(ClapArgs)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Fill a database with the warehouses of a seed
    Load(load::Args),
}

pub(crate) fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    match &args.what {
        What::Load(args) => load::run(args, session, out),
    }
}
