//! `sekisho board` and `sekisho demo jungle`: the bulletin board of the oshiro paper on several stores, served and
//! compared.

#![expect(missing_debug_implementations, reason = "arguments are parsed once; nobody prints them")]

pub mod demo;
mod serve;
mod stores;

use std::io::Write;

use clap::{Args as ClapArgs, Subcommand};
use cli::json::Format;
use cli::{Failure, Session, Verdict};

#[expect(missing_docs, reason = "a comment would become the text of the verb's help")]
#[derive(ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Serve(serve::Args),
}

/// Formats of what these verbs print with `--json`.
pub fn formats() -> Vec<Format> {
    vec![
        Format::of_notice::<serve::Begun>(),
        Format::of_answer::<serve::Ended>(),
        Format::of_answer::<demo::Compared<'_>>(),
    ]
}

/// Serves a board.
///
/// # Errors
/// The store cannot be had, or the address is not to be had.
pub fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    match &args.what {
        What::Serve(args) => serve::run(args, session, out),
    }
}
