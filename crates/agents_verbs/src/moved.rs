//! `sekisho agents export` and `import`: the states of all agents as JSON lines, or as a table (CSV, Parquet).

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use agents_server::{AcceptedAnswer, AgentsAnswer, RulesAnswer, StateView};
use clap::Args as ClapArgs;
use cli::json::Answer;
use cli::request::query;
use cli::text::{count, sentence, shell_word};
use cli::{Failure, Verdict, say};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::client::{Client, ServerArgs};
use crate::csv::{self, Cell, Rows, Wrong};
#[cfg(feature = "parquet")]
use crate::parquet_file;

/// Agents that are declared with one request.
const BATCH: usize = 1_000;
/// Most bytes of a request's body \[B\]; the server takes 4 MiB.
const BATCH_BYTES: usize = 2 << 20;

/// Write the states of all agents, or of those that meet a condition, to a file
///
/// JSON lines; a table if its name ends with .csv or, in a build with `--features parquet`, with .parquet.
#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  sekisho agents export agents.jsonl
  sekisho agents export agents.csv
  sekisho agents export near.csv --where 'symbol == \"ACME\" && high < 110'")]
pub(crate) struct ExportArgs {
    /// The file, which must not be there yet
    file: PathBuf,
    /// Only agents whose state meets this condition, in the language of rules (CEL)
    #[arg(long = "where", value_name = "CONDITION")]
    filter: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

/// Declare the agents of a file, as `export` writes it; their rules are armed anew
///
/// A file is read as a whole before the first agent is declared. An agent that stands there twice is told with both
/// lines: neither of them is the right one without a word.
#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  sekisho agents import agents.jsonl --dry-run
  sekisho agents import agents.csv")]
pub(crate) struct ImportArgs {
    /// The file: in each line {"agent": NAME, "state": {...}}; or, if its name ends with .csv or .parquet, a table
    /// with the columns agent,FIELD,FIELD
    file: PathBuf,
    /// Read the file, and declare nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// States that were written to a file, or declared from it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Moved {
    /// File that the states were written to, or read from.
    file: String,
    /// Number of agents.
    agents: u64,
    /// True if nothing was declared.
    is_dry: bool,
}

impl Answer for Moved {
    const FORMAT: &'static str = "sekisho/agents-moved/1";
}

fn answer(
    server: &ServerArgs,
    moved: &Moved,
    text: &str,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let verdict = Verdict::Holds;
    match server.json {
        true => say(out, &cli::json::answer(verdict, verdict.word(), moved))?,
        false => say(out, text)?,
    }
    Ok(verdict)
}

/// Gives the agents of a server that meet a filter to `take`, page by page.
fn all(
    client: &Client,
    filter: Option<&str>,
    mut take: impl FnMut(Vec<StateView>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (mut partition, mut partitions) = (0, 1);
    while partition < partitions {
        let mut from: Option<String> = None;
        loop {
            let query = query(&[
                ("partition", Some(partition.to_string())),
                ("from", from),
                ("where", filter.map(str::to_owned)),
            ]);
            let page: AgentsAnswer = client.ask("GET", &format!("/agents{query}"), None, None)?;
            partitions = page.partitions;
            take(page.agents)?;
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        partition += 1;
    }
    Ok(())
}

pub(crate) fn export(args: &ExportArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let form = FileForm::of(&args.file)?;
    let client = Client::new(&args.server)?;
    let name = args.file.display().to_string();
    let wrong = |error: &dyn std::fmt::Display| Failure::Machine(format!("{name}: {error}"));
    let file = File::create_new(&args.file).map_err(|error| wrong(&error))?;
    // A part of the agents would look like all of them.
    let filter = args.filter.as_deref();
    let agents = match form {
        FileForm::Lines => written(&client, filter, file, &wrong),
        FileForm::Csv => written_table(&client, filter, file, &wrong),
        FileForm::Parquet => written_parquet(&client, filter, file, &wrong),
    };
    let agents = agents.inspect_err(|_| {
        drop(std::fs::remove_file(&args.file));
    })?;
    let text = sentence(&format!("{}: {} written", name, count(agents, "agent")))
        + &args.server.next(&format!("sekisho agents import {} --dry-run", shell_word(&args.file)));
    answer(&args.server, &Moved { file: name.clone(), agents, is_dry: false }, &text, out)
}

/// The form of a file, which its name tells.
#[derive(Clone, Copy)]
enum FileForm {
    Lines,
    Csv,
    Parquet,
}

impl FileForm {
    /// The form of a file of this name; refused is one that this build does not know.
    fn of(path: &Path) -> Result<FileForm, Failure> {
        let ends = |with: &str| path.extension().is_some_and(|it| it.eq_ignore_ascii_case(with));
        match () {
            () if ends("csv") => Ok(FileForm::Csv),
            () if !ends("parquet") => Ok(FileForm::Lines),
            () if cfg!(feature = "parquet") => Ok(FileForm::Parquet),
            () => Err(Failure::Usage(format!(
                "{}: this build neither writes nor reads Parquet files; name a file that ends with .csv or \
                 .jsonl, or build it with `cargo install --path crates/sekisho --features parquet`",
                path.display()
            ))),
        }
    }
}

/// Writes the agents as a Parquet file; their number.
#[cfg(feature = "parquet")]
fn written_parquet(
    client: &Client,
    filter: Option<&str>,
    file: File,
    wrong: &dyn Fn(&dyn std::fmt::Display) -> Failure,
) -> Result<u64, Failure> {
    let form: RulesAnswer = client.ask("GET", "/rules", None, None)?;
    let told = |cause: String| wrong(&cause);
    let mut writer = parquet_file::Writer::new(file, &form.state).map_err(told)?;
    let mut agents = 0;
    all(client, filter, |states| {
        agents += states.len() as u64;
        states.into_iter().try_for_each(|one| writer.push(one)).map_err(told)
    })?;
    let file = writer.end().map_err(told)?;
    file.sync_all().map_err(|error| wrong(&error))?;
    Ok(agents)
}

#[cfg(not(feature = "parquet"))]
fn written_parquet(
    _: &Client,
    _: Option<&str>,
    _: File,
    _: &dyn Fn(&dyn std::fmt::Display) -> Failure,
) -> Result<u64, Failure> {
    unreachable!("such a file was refused before")
}

/// Reads a Parquet file, agent by agent, with the kinds that the server's rules give to its fields.
#[cfg(feature = "parquet")]
fn read_parquet(
    client: &Client,
    path: &Path,
    take: &mut dyn FnMut(StateView) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let name = path.display();
    if !path.is_file() {
        let cause = "a Parquet file is read from its end: it is a file, and no pipe or folder";
        return Err(Failure::Usage(format!("cannot read {name}: {cause}")));
    }
    let cannot = |error| Failure::Usage(format!("cannot read {name}: {error}"));
    let file = File::open(path).map_err(cannot)?;
    let form: RulesAnswer = client.ask("GET", "/rules", None, None)?;
    let mut rows: HashMap<String, u64> = HashMap::new();
    let mut failed = None;
    let read = parquet_file::read(file, &form.state, |at, one| {
        if let Some(first) = rows.insert(one.agent.clone(), at) {
            let shown: String = one.agent.chars().take(80).collect();
            return Err(format!(
                "`{shown}` stands there twice, in row {first} too: remove one of them"
            ));
        }
        take(one).map_err(|failure| {
            failed = Some(failure);
            String::new()
        })
    });
    match (failed, read) {
        (Some(failure), _) => Err(failure),
        (None, read) => read.map_err(|cause| Failure::Usage(format!("{name}: {cause}"))),
    }
}

#[cfg(not(feature = "parquet"))]
fn read_parquet(
    _: &Client,
    _: &Path,
    _: &mut dyn FnMut(StateView) -> Result<(), Failure>,
) -> Result<(), Failure> {
    unreachable!("such a file was refused before")
}

/// Writes the agents, a line each; their number.
fn written(
    client: &Client,
    filter: Option<&str>,
    file: File,
    wrong: &dyn Fn(&dyn std::fmt::Display) -> Failure,
) -> Result<u64, Failure> {
    lines(client, filter, file, wrong, |one| serde_json::to_string(&one).expect("keys are texts"))
}

/// Writes the agents as a table, behind a line with the names of the fields; their number.
fn written_table(
    client: &Client,
    filter: Option<&str>,
    mut file: File,
    wrong: &dyn Fn(&dyn std::fmt::Display) -> Failure,
) -> Result<u64, Failure> {
    let form: RulesAnswer = client.ask("GET", "/rules", None, None)?;
    let head: Vec<&str> =
        std::iter::once("agent").chain(form.state.keys().map(String::as_str)).collect();
    writeln!(file, "{}", head.join(",")).map_err(|error| wrong(&error))?;
    lines(client, filter, file, wrong, |one| {
        let cells = form.state.keys().map(|field| match one.state.get(field) {
            Some(Value::String(text)) => csv::written(Some(text)),
            Some(value) => value.to_string(),
            None => csv::written(None),
        });
        let cells: Vec<String> =
            std::iter::once(csv::written(Some(&one.agent))).chain(cells).collect();
        cells.join(",")
    })
}

/// Writes a line for each agent, durably; their number.
fn lines(
    client: &Client,
    filter: Option<&str>,
    file: File,
    wrong: &dyn Fn(&dyn std::fmt::Display) -> Failure,
    line: impl Fn(StateView) -> String,
) -> Result<u64, Failure> {
    let mut file = BufWriter::new(file);
    let mut agents = 0;
    all(client, filter, |states| {
        for one in states {
            agents += 1;
            writeln!(file, "{}", line(one)).map_err(|error| wrong(&error))?;
        }
        Ok(())
    })?;
    let file = file.into_inner().map_err(|error| wrong(error.error()))?;
    file.sync_all().map_err(|error| wrong(&error))?;
    Ok(agents)
}

/// The agents of a file so far, each with its line. They take some 100 B of memory each.
#[derive(Default)]
struct Seen(HashMap<String, u64>);

impl Seen {
    /// An agent of a line; an error if another line has it too.
    fn meet(&mut self, agent: &str, line: u64) -> Result<(), String> {
        match self.0.insert(agent.to_owned(), line) {
            None => Ok(()),
            Some(first) => {
                let shown: String = agent.chars().take(80).collect();
                Err(format!(
                    "`{shown}` stands there twice, in line {first} too: remove one of them"
                ))
            }
        }
    }
}

/// Reads a table, agent by agent, with the kinds that the server's rules give to its fields.
fn read_table(
    client: &Client,
    path: &Path,
    take: &mut dyn FnMut(StateView) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let name = path.display();
    let cannot = |error| Failure::Usage(format!("cannot read {name}: {error}"));
    let file = csv::without_mark(File::open(path).map_err(cannot)?).map_err(cannot)?;
    let form: RulesAnswer = client.ask("GET", "/rules", None, None)?;
    let told =
        |Wrong { at, cause }| Failure::Usage(format!("{name}:{}:{}: {cause}", at.line, at.column));
    let mut rows = Rows::new(file);
    let Some(head) = rows.row().map_err(told)? else {
        return Err(Failure::Usage(format!("{name}:1:1: its first line is agent,FIELD,FIELD")));
    };
    let fields = fields(&head, &form).map_err(told)?;
    let mut seen = Seen::default();
    while let Some(row) = rows.row().map_err(told)? {
        let one = agent(&row, &fields, &form).map_err(told)?;
        let twice = |cause| told(wrong_at(&row[0], cause));
        seen.meet(&one.agent, row[0].at.line).map_err(twice)?;
        take(one)?;
    }
    Ok(())
}

fn wrong_at(cell: &Cell, cause: String) -> Wrong {
    Wrong { at: cell.at, cause }
}

/// The names of the fields, from the first line.
fn fields(head: &[Cell], form: &RulesAnswer) -> Result<Vec<String>, Wrong> {
    let text = |cell: &Cell| cell.text.clone().unwrap_or_default();
    if text(&head[0]) != "agent" {
        let semicolon = text(&head[0]).contains(';');
        let more = if semicolon { "; cells are separated by commas" } else { "" };
        let cause = format!("its first line is agent,FIELD,FIELD: `agent` comes first{more}");
        return Err(wrong_at(&head[0], cause));
    }
    let mut fields: Vec<String> = Vec::new();
    for cell in &head[1..] {
        let field = text(cell);
        if !form.state.contains_key(&field) {
            let known: Vec<&str> = form.state.keys().map(String::as_str).collect();
            let known = known.join(", ");
            let cause = format!("the state has no field `{field}`; it has: {known}");
            return Err(wrong_at(cell, cause));
        }
        if fields.contains(&field) {
            return Err(wrong_at(cell, format!("`{field}` stands there twice")));
        }
        fields.push(field);
    }
    Ok(fields)
}

/// The agent of a row. A cell with nothing in it leaves its field out.
fn agent(row: &[Cell], fields: &[String], form: &RulesAnswer) -> Result<StateView, Wrong> {
    if row.len() != fields.len() + 1 {
        let cause = format!(
            "{}, and the first line has {}",
            count(row.len() as u64, "cell"),
            fields.len() + 1
        );
        return Err(wrong_at(&row[0], cause));
    }
    let Some(agent) = row[0].text.clone() else {
        return Err(wrong_at(&row[0], "an agent has a name".to_owned()));
    };
    let mut state = BTreeMap::new();
    for (cell, field) in row[1..].iter().zip(fields) {
        let Some(text) = &cell.text else { continue };
        let kind = form.state[field].as_str();
        let value = match kind {
            "text" => Some(Value::String(text.clone())),
            "bool" => text.parse::<bool>().ok().map(Value::Bool),
            _ => {
                let number = text.parse::<f64>().ok();
                number.and_then(serde_json::Number::from_f64).map(Value::Number)
            }
        };
        let shown: String = text.chars().take(80).collect();
        let form = if kind == "bool" { "true or false" } else { "a number such as 10.5" };
        let value = value.ok_or_else(|| {
            wrong_at(cell, format!("`{field}` is {form}, and `{shown}` stands there"))
        });
        state.insert(field.clone(), value?);
    }
    Ok(StateView { agent, state })
}

pub(crate) fn import(args: &ImportArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let form = FileForm::of(&args.file)?;
    let client = Client::new(&args.server)?;
    if !args.dry_run {
        // A server that is not there is told at once.
        let _: AgentsAnswer = client.ask("GET", "/agents", None, None)?;
    }
    let name = args.file.display().to_string();
    let read = |take: &mut dyn FnMut(StateView) -> Result<(), Failure>| match form {
        FileForm::Lines => read_lines(&args.file, take),
        FileForm::Csv => read_table(&client, &args.file, take),
        FileForm::Parquet => read_parquet(&client, &args.file, take),
    };
    // A file that is wrong in its last line declares nothing. A pipe can be read but once.
    if !args.dry_run && args.file.is_file() {
        read(&mut |_| Ok(()))?;
    }
    let mut batch =
        Batch { client: &client, is_dry: args.dry_run, list: Vec::new(), bytes: 0, agents: 0 };
    let given = read(&mut |one| batch.push(serde_json::to_value(one).expect("keys are texts")));
    let agents = given.and_then(|()| batch.send()).map(|()| batch.agents);
    let agents = agents.map_err(|failure| match failure {
        Failure::Usage(cause) if !args.dry_run && batch.agents > 0 => Failure::Usage(format!(
            "behind the first {} agents, which are declared: {cause}",
            batch.agents
        )),
        other => other,
    })?;
    let told = if args.dry_run { "read; none was declared" } else { "declared" };
    let text = sentence(&format!("{name}: {} {told}", count(agents, "agent")));
    answer(&args.server, &Moved { file: name, agents, is_dry: args.dry_run }, &text, out)
}

/// Reads JSON lines, agent by agent.
fn read_lines(
    path: &Path,
    take: &mut dyn FnMut(StateView) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let name = path.display();
    let file =
        File::open(path).map_err(|error| Failure::Usage(format!("cannot read {name}: {error}")))?;
    let wrong =
        |at: u64, cause: &dyn std::fmt::Display| Failure::Usage(format!("{name}:{at}: {cause}"));
    let mut seen = Seen::default();
    for (at, line) in (1..).zip(BufReader::new(file).lines()) {
        let line = line.map_err(|error| wrong(at, &error))?;
        if line.trim().is_empty() {
            continue;
        }
        let shape = |error| {
            wrong(at, &format_args!("a line is `{{\"agent\": NAME, \"state\": {{...}}}}`: {error}"))
        };
        let one: StateView = serde_json::from_str(&line).map_err(shape)?;
        seen.meet(&one.agent, at).map_err(|cause| wrong(at, &cause))?;
        take(one)?;
    }
    Ok(())
}

/// Agents that go with one request.
struct Batch<'a> {
    client: &'a Client,
    is_dry: bool,
    list: Vec<Value>,
    bytes: usize,
    agents: u64,
}

impl Batch<'_> {
    fn push(&mut self, one: Value) -> Result<(), Failure> {
        self.bytes += one.to_string().len() + 1;
        self.list.push(one);
        if self.list.len() == BATCH || self.bytes >= BATCH_BYTES { self.send() } else { Ok(()) }
    }

    /// Sends what is there. A server without room is asked again, for a minute.
    fn send(&mut self) -> Result<(), Failure> {
        let list = std::mem::take(&mut self.list);
        self.bytes = 0;
        if list.is_empty() {
            return Ok(());
        }
        let sent = list.len() as u64;
        if !self.is_dry {
            let list = Value::Array(list);
            let _: AcceptedAnswer = self.client.patiently("POST", "/agents", Some(&list))?;
        }
        self.agents += sent;
        Ok(())
    }
}
