//! `sekisho agents user`: an access token for a user, and the lines by which a server knows it.

use std::io::Write;
use std::path::PathBuf;

use access_verbs::user;
use agents_server::Users;
use clap::Args as ClapArgs;
use cli::{Failure, Verdict, say};

cli::framed! {
    /// A user with its access token.
    UserMade(access_verbs::user::UserMade) = "sekisho/agents-user/1";
}

/// Make a user: draw its access token, and print the lines of the file of users
///
/// The access token is shown once and kept nowhere: the file holds its hash (SHA-256).
#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  sekisho agents user feed --send
  sekisho agents user ann --read --send --users users.toml
  sekisho agents user acme --read --declare --agents acme/ --users users.toml")]
pub(crate) struct UserArgs {
    /// The user
    name: String,
    /// The user may read: states, why, rules, notifications, metrics; and try rules
    #[arg(long)]
    read: bool,
    /// The user may send messages
    #[arg(long)]
    send: bool,
    /// The user may declare, end and silence agents
    #[arg(long)]
    declare: bool,
    /// The user may do that with these agents alone: a name, or the beginning of names that ends in `/`. May be
    /// repeated
    #[arg(long = "agents", value_name = "RULE", conflicts_with = "admin")]
    agents: Vec<String>,
    /// The user may do everything: declare and end agents, change the rules, see and resend what is dead
    #[arg(long)]
    admin: bool,
    /// Add the lines to this file of users, which is made if it is not there
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &UserArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let keys = [
        ("admin", args.admin),
        ("read", args.read),
        ("send", args.send),
        ("declare", args.declare),
    ];
    let rights = keys.iter().filter(|(_, is_given)| *is_given);
    let mut rights: String = rights.map(|(key, _)| format!("{key} = true\n")).collect();
    if rights.is_empty() {
        return Err(Failure::Usage(format!(
            "user `{}` could do nothing: say `--read`, `--send`, `--declare` or `--admin`",
            args.name
        )));
    }
    if !args.agents.is_empty() {
        let rules = toml::Value::from(args.agents.clone());
        rights += &format!("agents = {rules}\n");
    }
    let (mut made, lines) = user::draw(&args.name, "agents", &rights)?;
    made.keep(&lines, args.users.as_deref(), Users::parse)?;
    let told = if args.json {
        cli::json::answer(Verdict::Holds, Verdict::Holds.word(), &UserMade(&made))
    } else {
        made.told(&lines, "sekisho agents serve rules.toml")
    };
    say(out, &told)?;
    Ok(Verdict::Holds)
}
