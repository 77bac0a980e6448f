//! Verbs of the past: log, blame, diff, revert, restore, pick.

use std::io::Write;

use clap::Args as ClapArgs;
use cli::request::{path, query};
use cli::text::quoted;
use cli::{Failure, Verdict};
use jungle_server::{BlameAnswer, CommitView, DiffAnswer, DifferenceView, LogAnswer, Value};
use serde_json::json;

use crate::answer::{Blamed, CommitList, Differences, NodeLog};
use crate::client::{Answered, AuthorArgs, Client, ServerArgs, Wish};
use crate::shown::{commit, committed, counted, done, line, refused, value};

/// List the commits that changed a node or one below it, newest first
#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  sekisho jungle log
  sekisho jungle log board 2.0")]
pub(crate) struct LogArgs {
    /// The tree; left out, all commits are listed
    tree: Option<String>,
    /// The node: its id (17.0), its path (-1,0,2) or `root`
    #[arg(default_value = "root", allow_hyphen_values = true)]
    node: String,
    /// Most commits that are shown
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Only commits before this one
    #[arg(long, value_name = "COMMIT")]
    before: Option<u64>,
    #[command(flatten)]
    server: ServerArgs,
}

/// Say who made a node, moved it, and set each attribute
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho jungle blame board 2.0")]
pub(crate) struct BlameArgs {
    /// The tree
    tree: String,
    /// The node: its id (17.0), its path (-1,0,2) or `root`
    #[arg(allow_hyphen_values = true)]
    node: String,
    #[command(flatten)]
    server: ServerArgs,
}

/// List the differences between two versions of a tree, or to its origin or branch
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho jungle diff board 2")]
pub(crate) struct DiffArgs {
    /// The tree
    tree: String,
    /// The earlier version, a commit
    #[arg(required_unless_present = "from_tree")]
    from: Option<String>,
    /// The later version; left out, the newest
    to: Option<String>,
    /// Compare with this tree, its origin or branch, as both are now
    #[arg(long, value_name = "TREE", conflicts_with_all = ["from", "to"])]
    from_tree: Option<String>,
    /// Most differences that are shown
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    #[command(flatten)]
    server: ServerArgs,
}

/// Take back what a commit did, and leave what others did since
///
/// Later changes of the same are conflicts: they are listed, and nothing changes (exit code 3).
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho jungle revert 6")]
pub(crate) struct RevertArgs {
    /// The commit
    commit: u64,
    #[command(flatten)]
    author: AuthorArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// Make a node and all below it what they were at a version
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho jungle restore board 2.0 3")]
pub(crate) struct RestoreArgs {
    /// The tree
    tree: String,
    /// The node: its id (17.0), its path (-1,0,2) or `root`
    #[arg(allow_hyphen_values = true)]
    node: String,
    /// The version, a commit
    at: u64,
    #[command(flatten)]
    author: AuthorArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// Do to a tree what a commit did to it, or to its origin or branch
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho jungle pick 7 board draft")]
pub(crate) struct PickArgs {
    /// The commit
    commit: u64,
    /// The tree that it changed
    from: String,
    /// The tree to change
    into: String,
    #[command(flatten)]
    author: AuthorArgs,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn log(args: &LogArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let parts = query(&[
        ("limit", Some(args.limit.to_string())),
        ("before", args.before.map(|before| before.to_string())),
    ]);
    let Some(tree) = &args.tree else {
        let commits: Vec<CommitView> = match client.ask(&Wish::get(format!("/commits{parts}")))? {
            Answered::Refused(problem) => return refused(out, args.server.json, &problem),
            Answered::Done(commits) => commits,
        };
        let list = CommitList { commits };
        return done(out, args.server.json, &list, || {
            let mut text = counted(list.commits.len(), "commit") + "\n";
            text.extend(list.commits.iter().map(commit));
            if let Some(last) = list.commits.last().filter(|last| last.seq > 1) {
                text.push_str(
                    &args.server.next(&format!("sekisho jungle log --before {}", last.seq)),
                );
            }
            text
        });
    };
    let wish = Wish::get(path(&["trees", tree, "nodes", &args.node, "log"]) + &parts);
    let log: LogAnswer = match client.ask(&wish)? {
        Answered::Refused(problem) => return refused(out, args.server.json, &problem),
        Answered::Done(log) => log,
    };
    done(out, args.server.json, &NodeLog(&log), || {
        let mut text = line(&format!(
            "{} changed node {} of {tree}",
            counted(log.entries.len(), "commit"),
            log.node
        ));
        text.extend(log.entries.iter().map(|entry| commit(&entry.commit)));
        if let Some(forgotten) = log.forgotten {
            text.push_str(&format!("  older ones are forgotten, the newest of them {forgotten}\n"));
        }
        let (tree, node) = (quoted(tree), &log.node);
        match (log.next_before, log.entries.first()) {
            (Some(before), _) => {
                text.push_str(
                    &args
                        .server
                        .next(&format!("sekisho jungle log {tree} {node} --before {before}")),
                );
            }
            (None, Some(newest)) if newest.commit.seq > 1 => {
                let before = newest.commit.seq - 1;
                text.push_str(&args.server.next(&format!("sekisho jungle diff {tree} {before}")));
            }
            _ => {}
        }
        text
    })
}

pub(crate) fn blame(args: &BlameArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let wish = Wish::get(path(&["trees", &args.tree, "nodes", &args.node, "blame"]));
    let blame: BlameAnswer = match client.ask(&wish)? {
        Answered::Refused(problem) => return refused(out, args.server.json, &problem),
        Answered::Done(blame) => blame,
    };
    done(out, args.server.json, &Blamed(&blame), || {
        let mut text = line(&format!("node {} of {}", blame.node, args.tree));
        let forgotten = || "  forgotten\n".to_owned();
        text.push_str("  made by\n");
        text.push_str(&blame.made.as_ref().map_or_else(forgotten, commit));
        if let Some(moved) = &blame.moved {
            text.push_str("  moved by\n");
            text.push_str(&commit(moved));
        }
        for (name, by) in &blame.attributes {
            text.push_str(&line(&format!("  {name} set by")));
            text.push_str(&by.as_ref().map_or_else(forgotten, commit));
        }
        text
    })
}

fn difference(of: &DifferenceView) -> String {
    let told = |of: &Option<Value>| of.as_ref().map_or("(none)".to_owned(), value);
    line(&match of {
        DifferenceView::Added { node, parent, position } => {
            format!("  + {node} below {parent} at {position}")
        }
        DifferenceView::Removed { node } => format!("  - {node}"),
        DifferenceView::Moved { node, parent, position } => {
            format!("  > {node} to {parent} at {position}")
        }
        DifferenceView::Attribute { node, name, before, after } => {
            format!("  ~ {node} {name}: {} -> {}", told(before), told(after))
        }
    })
}

pub(crate) fn diff(args: &DiffArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let parts = query(&[
        ("from", args.from.clone()),
        ("to", args.to.clone()),
        ("from_tree", args.from_tree.clone()),
        ("limit", Some(args.limit.to_string())),
    ]);
    let wish = Wish::get(path(&["trees", &args.tree, "diff"]) + &parts);
    let diff: DiffAnswer = match client.ask(&wish)? {
        Answered::Refused(problem) => return refused(out, args.server.json, &problem),
        Answered::Done(diff) => diff,
    };
    done(out, args.server.json, &Differences(&diff), || {
        let count = counted(diff.differences.len(), "difference");
        let more = if diff.more { " and more," } else { "" };
        let span = match &args.from_tree {
            Some(other) => format!("from {other} to {}", args.tree),
            None => format!("of {} from commit {} to {}", args.tree, diff.from, diff.to),
        };
        let mut text = line(&format!("{count}{more} {span}"));
        text.extend(diff.differences.iter().map(difference));
        text
    })
}

pub(crate) fn revert(args: &RevertArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let place = path(&["commits", &args.commit.to_string(), "revert"]);
    let answered = client.ask(&Wish::bare("POST", place).by(&args.author))?;
    committed(out, &args.server, &answered, |_| Some("sekisho jungle log".into()))
}

pub(crate) fn restore(args: &RestoreArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let place = path(&["trees", &args.tree, "nodes", &args.node, "restore"]);
    let answered =
        client.ask(&Wish::of("POST", place, &json!({"at": args.at})).by(&args.author))?;
    let then = format!("sekisho jungle get {} {}", quoted(&args.tree), quoted(&args.node));
    committed(out, &args.server, &answered, |_| Some(then))
}

pub(crate) fn pick(args: &PickArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let place = path(&["commits", &args.commit.to_string(), "pick"]);
    let body = json!({"from": args.from, "into": args.into});
    let answered = client.ask(&Wish::of("POST", place, &body).by(&args.author))?;
    committed(out, &args.server, &answered, |_| Some("sekisho jungle log".into()))
}
