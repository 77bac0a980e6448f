//! `sekisho agents dead list` and `dead resend`: messages that could not be handled, and notifications that
//! their destinations did not take.

use std::io::Write;

use agents_server::{LetterView, LettersAnswer, SentAnswer, UndeliveredAnswer, UndeliveredView};
use clap::{Args as ClapArgs, Subcommand};
use cli::json::Answer;
use cli::request::query;
use cli::text::{count, filled, paragraph, sentence};
use cli::{Failure, Verdict, say};
use schemars::JsonSchema;
use serde::Serialize;

use crate::client::{Client, ServerArgs};

#[derive(Subcommand)]
pub(crate) enum Dead {
    List(ListArgs),
    Resend(ResendArgs),
}

/// List messages that agents could not handle, and notifications that were not taken
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho agents dead list")]
pub(crate) struct ListArgs {
    /// Most of each kind that are shown
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    #[command(flatten)]
    server: ServerArgs,
}

/// Send what is dead again, all of it or one; each message takes effect once
#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  sekisho agents dead resend --dry-run
  sekisho agents dead resend")]
pub(crate) struct ResendArgs {
    /// The message with this number in its partition, as `dead list` shows it, such as 0/7
    #[arg(long, value_name = "PARTITION/N", value_parser = numbered, conflicts_with = "notification")]
    message: Option<(u64, u64)>,
    /// The notification with this number
    #[arg(long, value_name = "N")]
    notification: Option<u64>,
    /// Say what would be sent, and send nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Messages and notifications that wait for a person.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DeadList {
    /// Messages that agents could not handle.
    messages: Vec<LetterView>,
    /// Notifications that were not taken. Those that are not dead are still tried.
    notifications: Vec<UndeliveredView>,
    /// True if there are more than the limit of either.
    more: bool,
}

impl Answer for DeadList {
    const FORMAT: &'static str = "sekisho/agents-dead/1";
}

/// The numbers of what was sent again.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Resent {
    /// Messages.
    messages: u64,
    /// Messages that stay dead: they cannot be read any more, or are none by the rules of today.
    left: u64,
    /// Notifications, which are tried again from now on.
    notifications: u64,
    /// True if nothing was sent: these are the numbers of what would be.
    is_dry: bool,
}

impl Answer for Resent {
    const FORMAT: &'static str = "sekisho/agents-resent/1";
}

fn numbered(text: &str) -> Result<(u64, u64), String> {
    let parts = text.split_once('/').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    parts.ok_or_else(|| format!("`{text}` is no number of a message, such as 0/7: see `dead list`"))
}

pub(crate) fn run(of: &Dead, out: &mut dyn Write) -> Result<Verdict, Failure> {
    match of {
        Dead::List(args) => list(args, out),
        Dead::Resend(args) => resend(args, out),
    }
}

/// What is there, at most so many of each kind and some more.
fn found(client: &Client, most: usize) -> Result<(Vec<LetterView>, Vec<UndeliveredView>), Failure> {
    let page = |place: &str, partition: Option<u64>, after: Option<u64>| {
        let number = |of: Option<u64>| of.map(|n| n.to_string());
        let query = query(&[("partition", number(partition)), ("after", number(after))]);
        format!("{place}{query}")
    };
    let (mut letters, mut partition, mut partitions) = (Vec::new(), 0, 1);
    while partition < partitions && letters.len() <= most {
        let mut after = None;
        loop {
            let place = page("/dead", Some(partition), after);
            let told: LettersAnswer = client.ask("GET", &place, None, None)?;
            partitions = told.partitions;
            letters.extend(told.letters);
            after = told.next;
            if after.is_none() || letters.len() > most {
                break;
            }
        }
        partition += 1;
    }
    let (mut notifications, mut after) = (Vec::new(), None);
    loop {
        let place = page("/undelivered", None, after);
        let told: UndeliveredAnswer = client.ask("GET", &place, None, None)?;
        notifications.extend(told.notifications);
        after = told.next;
        if after.is_none() || notifications.len() > most {
            return Ok((letters, notifications));
        }
    }
}

fn list(args: &ListArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let (mut messages, mut notifications) = found(&client, args.limit)?;
    let more = messages.len().max(notifications.len()) > args.limit;
    messages.truncate(args.limit);
    notifications.truncate(args.limit);
    let answer = DeadList { messages, notifications, more };
    let verdict = Verdict::Holds;
    if args.server.json {
        say(out, &cli::json::answer(verdict, verdict.word(), &answer))?;
        return Ok(verdict);
    }
    say(out, &listed(args, &answer))?;
    Ok(verdict)
}

fn listed(args: &ListArgs, answer: &DeadList) -> String {
    let DeadList { messages, notifications, more } = answer;
    let counts = (
        count(messages.len() as u64, "message"),
        count(notifications.len() as u64, "notification"),
    );
    let mut text = sentence(&format!("{} not handled, {} not taken", counts.0, counts.1));
    for one in messages {
        let message = one.message.as_deref().unwrap_or("it cannot be read any more");
        let told = format!("message {}/{}: {}; {message}", one.partition, one.n, one.cause);
        text += &filled("  ", "    ", &told);
    }
    for one in notifications {
        let state = if one.is_dead { "given up" } else { "tried again" };
        let attempts = count(u64::from(one.attempts), "attempt");
        let (n, to) = (one.n, &one.destination);
        let what = match one.members.len() as u64 {
            0 => format!("notification {n}"),
            members => format!("notification {n}, a digest of {members},"),
        };
        let told = format!("{what} to {to}: {state}, {attempts}; {}", one.cause);
        text += &filled("  ", "    ", &told);
    }
    if *more {
        text += &paragraph(&format!("there are more: --limit {}", args.limit * 10));
    }
    if !messages.is_empty() || !notifications.is_empty() {
        text += &args.server.next("sekisho agents dead resend --dry-run");
    }
    text
}

fn resend(args: &ResendArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let answer = if args.dry_run { would_resend(args, &client)? } else { resent(args, &client)? };
    let verdict = Verdict::Holds;
    if args.server.json {
        say(out, &cli::json::answer(verdict, verdict.word(), &answer))?;
        return Ok(verdict);
    }
    let counts = (count(answer.messages, "message"), count(answer.notifications, "notification"));
    let mut told = match args.dry_run {
        true => format!("{} and {} would be sent again", counts.0, counts.1),
        false => format!("{} and {} sent again", counts.0, counts.1),
    };
    if answer.left > 0 {
        let left = count(answer.left, "message");
        told += &format!("; {left} left, unread or unknown to the rules of today");
    }
    let verb = if args.dry_run { "resend" } else { "list" };
    let next = args.server.next(&format!("sekisho agents dead {verb}"));
    say(out, &(sentence(&told) + &next))?;
    Ok(verdict)
}

fn would_resend(args: &ResendArgs, client: &Client) -> Result<Resent, Failure> {
    let (messages, notifications) = found(client, usize::MAX)?;
    let wanted = |one: &&LetterView| match args.message {
        Some(number) => (one.partition, one.n) == number,
        None => args.notification.is_none(),
    };
    let dead = notifications.iter().filter(|one| one.is_dead);
    let dead = dead.filter(|one| match args.notification {
        Some(n) => one.n == n,
        None => args.message.is_none(),
    });
    Ok(Resent {
        messages: messages.iter().filter(wanted).count() as u64,
        left: 0,
        notifications: dead.count() as u64,
        is_dry: true,
    })
}

fn resent(args: &ResendArgs, client: &Client) -> Result<Resent, Failure> {
    let sent = |place: String| {
        let told: SentAnswer = client.ask("POST", &place, None, None)?;
        Ok::<(u64, u64), Failure>((told.sent, told.left))
    };
    let (messages, left) = match (args.message, args.notification) {
        (Some((partition, n)), _) => sent(format!("/dead/resend?partition={partition}&n={n}"))?,
        (None, Some(_)) => (0, 0),
        (None, None) => sent("/dead/resend".to_owned())?,
    };
    let (notifications, _) = match (args.message, args.notification) {
        (_, Some(n)) => sent(format!("/undelivered/resend?n={n}"))?,
        (Some(_), None) => (0, 0),
        (None, None) => sent("/undelivered/resend".to_owned())?,
    };
    Ok(Resent { messages, left, notifications, is_dry: false })
}
