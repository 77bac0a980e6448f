//! `sekisho jungle`: the server of a tree database, and the verbs that ask it. A client verb is one request, so that
//! whatever it does other programs can do as well.

#![expect(missing_debug_implementations, reason = "arguments are parsed once; nobody prints them")]

mod answer;
mod blob;
mod client;
mod edit;
mod export;
mod folder;
mod import;
mod look;
mod package;
mod past;
mod query;
mod serve;
mod shown;
mod store;
mod user;
mod watch;

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
    Get(look::GetArgs),
    Put(edit::PutArgs),
    Append(edit::AppendArgs),
    Insert(edit::InsertArgs),
    Mv(edit::MoveArgs),
    Rm(edit::RemoveArgs),
    Find(look::FindArgs),
    Query(query::QueryArgs),
    Log(past::LogArgs),
    Blame(past::BlameArgs),
    Diff(past::DiffArgs),
    At(look::AtArgs),
    Branch(edit::BranchArgs),
    Merge(edit::MergeArgs),
    Revert(past::RevertArgs),
    Restore(past::RestoreArgs),
    Pick(past::PickArgs),
    Watch(watch::Args),
    Snapshot(store::SnapshotArgs),
    Backup(store::BackupArgs),
    Verify(store::VerifyArgs),
    Import(import::ImportArgs),
    Export(export::ExportArgs),
    Stats(store::StatsArgs),
    User(user::Args),
}

/// Formats of what these verbs print with `--json`.
pub fn formats() -> Vec<Format> {
    answer::formats()
}

/// Serves a directory, or asks a server.
///
/// # Errors
/// The server is not there, does not know what is asked for, or cannot start.
pub fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    match &args.what {
        What::Serve(args) => serve::run(args, session, out),
        What::Get(args) => look::get(args, out),
        What::Put(args) => edit::put(args, out),
        What::Append(args) => edit::append(args, out),
        What::Insert(args) => edit::insert(args, out),
        What::Mv(args) => edit::relocate(args, out),
        What::Rm(args) => edit::remove(args, out),
        What::Find(args) => look::find(args, out),
        What::Query(args) => query::run(args, out),
        What::Log(args) => past::log(args, out),
        What::Blame(args) => past::blame(args, out),
        What::Diff(args) => past::diff(args, out),
        What::At(args) => look::at(args, out),
        What::Branch(args) => edit::branch(args, out),
        What::Merge(args) => edit::merge(args, out),
        What::Revert(args) => past::revert(args, out),
        What::Restore(args) => past::restore(args, out),
        What::Pick(args) => past::pick(args, out),
        What::Watch(args) => watch::run(args, session, out),
        What::Snapshot(args) => store::snapshot(args, out),
        What::Backup(args) => store::backup(args, out),
        What::Verify(args) => store::verify(args, out),
        What::Import(args) => import::import(args, out),
        What::Export(args) => export::export(args, out),
        What::Stats(args) => store::stats(args, out),
        What::User(args) => user::run(args, out),
    }
}
