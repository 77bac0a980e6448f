//! `sekisho jungle user`: an access token for a user, and the lines by which a server knows it.

use std::io::Write;
use std::path::PathBuf;

use access_verbs::user;
use clap::Args as ClapArgs;
use cli::{Failure, Verdict};
use jungle_server::Users;

use crate::answer::UserMade;
use crate::shown::done;

/// Make a user: draw its access token, and print the lines of the file of users
///
/// The access token is shown once and kept nowhere: the file holds its hash (SHA-256).
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho jungle user ann --read '*' --write wiki --write shop/")]
pub(crate) struct Args {
    /// The user
    name: String,
    /// A tree that the user may read: its name, a beginning of names that ends in `/`, or `*`; repeat
    #[arg(long, value_name = "RULE")]
    read: Vec<String>,
    /// A tree that the user may read and write
    #[arg(long, value_name = "RULE")]
    write: Vec<String>,
    /// The user may do everything: all trees, metrics, backups
    #[arg(long)]
    admin: bool,
    /// Add the lines to this file of users, which is made if it is not there
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// The lines of a user's rights in a file of users.
fn rights(args: &Args) -> String {
    let mut lines = String::new();
    if args.admin {
        lines.push_str("admin = true\n");
    }
    for (key, rules) in [("read", &args.read), ("write", &args.write)] {
        if !rules.is_empty() {
            let rules: Vec<String> = rules.iter().map(|rule| user::quoted(rule)).collect();
            lines.push_str(&format!("{key} = [{}]\n", rules.join(", ")));
        }
    }
    lines
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    if !args.admin && args.read.is_empty() && args.write.is_empty() {
        return Err(Failure::Usage(format!(
            "user `{}` could do nothing: say `--read RULE`, `--write RULE` or `--admin`",
            args.name
        )));
    }
    let (mut made, lines) = user::draw(&args.name, "jungle", &rights(args))?;
    made.keep(&lines, args.users.as_deref(), Users::parse)?;
    done(out, args.json, &UserMade(&made), || made.told(&lines, "sekisho jungle serve ./data"))
}
