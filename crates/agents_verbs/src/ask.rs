//! `sekisho agents put`, `send`, `get` and `delete`: agents of a running server.

use std::io::Write;
use std::time::Duration;

use agents_server::{AcceptedAnswer, AgentAnswer};
use clap::Args as ClapArgs;
use cli::json::Answer;
use cli::request::{path, query};
use cli::text::{filled, paragraph, quoted, sentence};
use cli::{Failure, Verdict, say};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::client::{Client, ServerArgs};

/// Declare an agent, or change fields of its state; its rules are armed anew
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho agents put alice symbol=A high=10")]
pub(crate) struct PutArgs {
    /// The agent
    agent: String,
    /// Fields of its state: NAME=VALUE, a number, true, false or a text
    #[arg(value_name = "NAME=VALUE", value_parser = field)]
    fields: Vec<(String, Value)>,
    #[command(flatten)]
    given: GivenArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// Send a message to those concerned, or to one agent
#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  sekisho agents send tick symbol=A price=11
  sekisho agents send order --agent alice")]
pub(crate) struct SendArgs {
    /// The message, as the file of rules names it
    message: String,
    /// Its fields: NAME=VALUE, a number, true, false or a text
    #[arg(value_name = "NAME=VALUE", value_parser = field)]
    fields: Vec<(String, Value)>,
    /// The agent that it is for
    #[arg(long, value_name = "NAME", conflicts_with = "to")]
    agent: Option<String>,
    /// The agents that it is for: concerned, all or armed
    #[arg(long, value_name = "AGENTS")]
    to: Option<String>,
    /// Its importance: low, normal, high, or urgent (to one agent alone)
    #[arg(long, value_name = "WORD")]
    priority: Option<String>,
    #[command(flatten)]
    given: GivenArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// Show the state of an agent, and what its rules did
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho agents get alice")]
pub(crate) struct GetArgs {
    /// The agent
    agent: String,
    #[command(flatten)]
    server: ServerArgs,
}

/// End an agent: its state and its timers go
#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  sekisho agents delete alice --dry-run
  sekisho agents delete alice")]
pub(crate) struct DeleteArgs {
    /// The agent
    agent: String,
    #[command(flatten)]
    given: GivenArgs,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(ClapArgs)]
struct GivenArgs {
    /// A name of this request: if it comes again within 10 minutes, it is the same one
    #[arg(long, value_name = "TEXT")]
    id: Option<String>,
    /// Print the request, and send nothing
    #[arg(long)]
    dry_run: bool,
}

/// A message that is durable.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Accepted {
    /// Messages that were accepted; 0 if nothing was sent.
    accepted: u64,
    /// The last position in the logs of its partitions.
    position: Option<u64>,
    /// The request: method and place.
    request: String,
    /// Its body.
    body: Option<Value>,
    /// True if nothing was sent.
    is_dry: bool,
}

impl Answer for Accepted {
    const FORMAT: &'static str = "sekisho/agents-accepted/1";
}

cli::framed! {
    /// The state of an agent.
    AgentState(AgentAnswer) = "sekisho/agents-state/1";
}

/// A field as it is typed. Whatever is no number, true, false or text in quotes is a text.
fn field(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` is no field: write NAME=VALUE, such as price=11"))?;
    let read: Option<Value> = serde_json::from_str(value).ok();
    let read = read.filter(|it| it.is_number() || it.is_boolean() || it.is_string());
    Ok((name.to_owned(), read.unwrap_or_else(|| value.into())))
}

fn body(fields: &[(String, Value)]) -> Value {
    Value::Object(fields.iter().cloned().collect())
}

pub(crate) fn put(args: &PutArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let place = path(&["agents", &args.agent]);
    let then = format!("sekisho agents get {}", quoted(&args.agent));
    let request = Request { method: "PUT", place, body: Some(body(&args.fields)), then };
    give(&request, &args.given, &args.server, out)
}

pub(crate) fn send(args: &SendArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let query = query(&[("to", args.to.clone()), ("priority", args.priority.clone())]);
    let (place, then) = match &args.agent {
        Some(agent) => (
            path(&["agents", agent, "messages", &args.message]),
            format!("sekisho agents get {}", quoted(agent)),
        ),
        None => (path(&["messages", &args.message]), "sekisho agents dead list".to_owned()),
    };
    let place = format!("{place}{query}");
    let request = Request { method: "POST", place, body: Some(body(&args.fields)), then };
    give(&request, &args.given, &args.server, out)
}

pub(crate) fn delete(args: &DeleteArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let place = path(&["agents", &args.agent]);
    let then = "sekisho agents dead list".to_owned();
    let request = Request { method: "DELETE", place, body: None, then };
    give(&request, &args.given, &args.server, out)
}

struct Request {
    method: &'static str,
    place: String,
    body: Option<Value>,
    /// The command that shows what came of it.
    then: String,
}

fn give(
    request: &Request,
    given: &GivenArgs,
    server: &ServerArgs,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let client = Client::new(server)?;
    let Request { method, place, body, then } = request;
    let told = match given.dry_run {
        true => AcceptedAnswer { accepted: 0, position: None },
        false => client.ask(method, place, given.id.as_deref(), body.as_ref())?,
    };
    let answer = Accepted {
        accepted: told.accepted,
        position: told.position,
        request: format!("{method} {place}"),
        body: body.clone(),
        is_dry: given.dry_run,
    };
    let verdict = Verdict::Holds;
    if server.json {
        say(out, &cli::json::answer(verdict, verdict.word(), &answer))?;
        return Ok(verdict);
    }
    let text = match answer.position {
        Some(position) => {
            sentence(&format!("accepted: durable at position {position}")) + &server.next(then)
        }
        None => {
            let body = body.as_ref().map_or_else(String::new, |body| format!(" {body}"));
            sentence(&format!("nothing was sent: {}{body}", answer.request))
        }
    };
    say(out, &text)?;
    Ok(verdict)
}

pub(crate) fn get(args: &GetArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let told: AgentAnswer = client.ask("GET", &path(&["agents", &args.agent]), None, None)?;
    let answer = AgentState(&told);
    let verdict = Verdict::Holds;
    if args.server.json {
        say(out, &cli::json::answer(verdict, verdict.word(), &answer))?;
        return Ok(verdict);
    }
    let fired = cli::text::count(told.fired, "notification");
    let mut text = sentence(&format!("{}: {fired} so far", told.agent));
    for (name, value) in &told.state {
        text += &filled("  ", "    ", &format!("{name} = {value}"));
    }
    for (name, rule) in &told.rules {
        let is_armed = if rule.is_armed { "armed" } else { "not armed now" };
        let silent = rule.last_silence.as_ref().map_or_else(String::new, |last| {
            format!(", {} not told, the last one for {}", rule.silences, last.cause)
        });
        text += &paragraph(&format!("rule {name}: {is_armed}{silent}"));
    }
    for (name, timer) in &told.timers {
        let every = timer.every_ns.map_or_else(String::new, |span| {
            format!(", then every {}", humantime::format_duration(Duration::from_nanos(span)))
        });
        let due = crate::why::time(timer.due_ns);
        text += &paragraph(&format!("timer {name}: due {due}{every}"));
    }
    text += &args.server.next(&format!("sekisho agents why {}", quoted(&args.agent)));
    say(out, &text)?;
    Ok(verdict)
}
