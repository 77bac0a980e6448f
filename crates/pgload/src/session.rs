//! A client's connection, and one transaction on it: the commands of a script in turn, again where the
//! database gave it up for the sake of others.

use std::io;

use bytes::{BufMut, BytesMut};
use gate::Time;
use measure::ErrorKind;
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;
use tpcc::Config;
use workload::{Chance, stream};

use crate::connect::{Cancel, OpenError, Opened, Rows, Said, Wire, open, said};
use crate::script::{Command, EvalError, Fetch, Protocol, ScriptError, Scripts, Statement, Value};
use crate::sleeps::{Clock, Sleeps};

/// The stream of chance of a client's expressions; its number is added.
const EXPRESSIONS: u64 = 1 << 50;

/// Errors of prepared statements that are not there, or that another client has made.
const LOST: [&str; 2] = ["26000", "42P05"];

/// A client: its connection, its variables, its chance.
pub(crate) struct Session {
    /// Its number, from 0, over all threads.
    pub(crate) number: u32,
    link: Option<Link>,
    variables: Vec<Option<Value>>,
    chance: Chance,
    /// For statements' texts and parameters.
    text: String,
}

/// A connection.
struct Link {
    wire: Wire,
    cancel: Cancel,
    /// By the number of a statement, whether the server has it prepared.
    prepared: Vec<bool>,
    /// Status of the transaction, as the server last said: I, T or E.
    status: u8,
    /// Messages put out since the last Sync that the server has yet to answer by one ReadyForQuery.
    syncs: u32,
}

/// A transaction that has ended.
pub(crate) struct Ended {
    pub(crate) at: Time,
    pub(crate) result: Result<(), Failed>,
    /// Tries after the first.
    pub(crate) retries: u64,
    pub(crate) bytes: u64,
    /// Connections that it had to open.
    pub(crate) connects: u64,
}

/// Failure of a transaction.
pub(crate) struct Failed {
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
    /// True if the connection is gone, or did not come.
    pub(crate) lost: bool,
}

impl Failed {
    fn of(said: Said) -> Failed {
        let kind = ErrorKind::of_sqlstate(&said.code);
        Failed { kind, message: said.to_string(), lost: said.fatal }
    }

    /// The same of a statement, with the way out where a pooler has lost what was prepared.
    fn of_statement(said: Said, protocol: Protocol) -> Failed {
        let is_lost = LOST.contains(&&*said.code) && protocol == Protocol::Prepared;
        let mut failed = Failed::of(said);
        if is_lost {
            failed.message += "; if a pooler stands between that gives each transaction another connection, let it know \
                 prepared statements (PgBouncer's max_prepared_statements), or say `--protocol extended`";
        }
        failed
    }

    fn broken(error: &io::Error) -> Failed {
        let kind = match error.kind() {
            io::ErrorKind::UnexpectedEof => ErrorKind::ClosedEarly,
            io::ErrorKind::InvalidData => ErrorKind::Malformed,
            _ => ErrorKind::Reset,
        };
        Failed { kind, message: format!("the connection broke: {error}"), lost: true }
    }
}

/// Why a transaction did not come to its end.
enum Stop {
    /// It failed.
    Failed(Failed),
    /// The script is wrong: the command, and why.
    Script(usize, String),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Failed(Failed::broken(&error))
    }
}

/// Surroundings of a client's transactions.
pub(crate) struct Stage<'a> {
    pub(crate) config: &'a Config,
    pub(crate) scripts: &'a Scripts,
    pub(crate) sleeps: Sleeps,
    pub(crate) clock: Clock,
    /// Tries of a transaction, at most; 0 is without limit.
    pub(crate) tries_max: u32,
}

impl Session {
    /// A client that has yet to connect.
    pub(crate) fn new(scripts: &Scripts, number: u32, seed: u64) -> Session {
        Session {
            number,
            link: None,
            variables: scripts.variables(number, seed),
            chance: stream(seed, EXPRESSIONS + u64::from(number)),
            text: String::new(),
        }
    }

    /// Connects, and prepares what can be prepared.
    pub(crate) async fn open(
        &mut self,
        config: &Config,
        scripts: &Scripts,
    ) -> Result<(), OpenError> {
        let Opened { wire, cancel, place, .. } = open(config).await?;
        let prepared = vec![false; scripts.statements()];
        let mut link = Link { wire, cancel, prepared, status: b'I', syncs: 0 };
        if scripts.protocol() == Protocol::Prepared {
            let broken = |error| OpenError::Way { place, error };
            link.prepare_all(scripts).await.map_err(broken)?;
        }
        self.link = Some(link);
        Ok(())
    }

    /// The way to cancel what it does.
    pub(crate) fn cancel(&self) -> Option<Cancel> {
        self.link.as_ref().map(|link| link.cancel.clone())
    }

    /// Ends the session properly.
    pub(crate) async fn close(self) {
        if let Some(link) = self.link {
            link.wire.close().await;
        }
    }

    /// Performs a transaction of a script.
    ///
    /// # Errors
    /// If the script turns out to be wrong: that is no failure of the service.
    pub(crate) async fn perform(
        &mut self,
        stage: &Stage<'_>,
        script: usize,
    ) -> Result<Ended, ScriptError> {
        let (mut retries, mut connects) = (0, 0);
        let before = self.received();
        let as_begun = self.chance.clone();
        let result = loop {
            if self.link.is_none() {
                connects += 1;
                if let Err(error) = self.open(stage.config, stage.scripts).await {
                    let (kind, message) = (error.kind(), error.to_string());
                    break Err(Failed { kind, message, lost: true });
                }
            }
            let failed = match self.attempt(stage, script).await {
                Ok(()) => break Ok(()),
                Err(Stop::Script(command, cause)) => {
                    return Err(stage.scripts.error(script, command, cause));
                }
                Err(Stop::Failed(failed)) => failed,
            };
            if failed.lost {
                self.link = None;
                break Err(failed);
            }
            if let Err(error) = self.roll_back().await {
                self.link = None;
                break Err(Failed::broken(&error));
            }
            let again =
                matches!(failed.kind, ErrorKind::SerializationFailure | ErrorKind::Deadlock);
            let tries = u64::from(stage.tries_max);
            if !again || tries != 0 && retries + 1 >= tries {
                break Err(failed);
            }
            // As pgbench has it: the same chance again, variables as they have become.
            self.chance = as_begun.clone();
            retries += 1;
        };
        let at = stage.clock.now();
        let bytes = self.received().saturating_sub(before);
        Ok(Ended { at, result, retries, bytes, connects })
    }

    fn received(&self) -> u64 {
        self.link.as_ref().map_or(0, |link| link.wire.received)
    }

    /// Leaves a transaction that failed.
    async fn roll_back(&mut self) -> io::Result<()> {
        let Some(link) = &mut self.link else { return Ok(()) };
        if link.status == b'I' {
            return Ok(());
        }
        frontend::query("ROLLBACK", &mut link.wire.output)?;
        link.syncs = 1;
        link.wire.send().await?;
        while link.syncs > 0 {
            let message = link.wire.next(Rows::Unwanted).await?;
            link.note(&message);
            link.wire.done(&message);
        }
        Ok(())
    }

    /// Tries a transaction once.
    async fn attempt(&mut self, stage: &Stage<'_>, script: usize) -> Result<(), Stop> {
        let scripts = stage.scripts;
        let commands = &scripts.all()[script].commands;
        let (mut at, mut pipeline, mut last_sql) = (0, false, 0);
        while let Some(command) = commands.get(at) {
            let here = at;
            let wrong = |error: EvalError| Stop::Script(here, error.to_string());
            at += 1;
            match command {
                Command::Sql(statement) => {
                    last_sql = here;
                    self.put(scripts, statement, pipeline).map_err(|cause| cause.at(here))?;
                    if !pipeline {
                        self.exchange(scripts, Some(statement), here).await?;
                    }
                }
                Command::Set(assignment) => {
                    let (variables, chance) = (&mut self.variables, &mut self.chance);
                    scripts.assign(assignment, variables, chance).map_err(wrong)?;
                }
                Command::Sleep(pause) => {
                    let length = scripts.pause(pause, &self.variables).map_err(wrong)?;
                    stage.sleeps.until(stage.clock, stage.clock.now() + length).await;
                }
                Command::Unless(condition, to) => {
                    let (variables, chance) = (&self.variables, &mut self.chance);
                    if !scripts.holds(condition, variables, chance).map_err(wrong)? {
                        at = *to;
                    }
                }
                Command::Jump(to) => at = *to,
                Command::StartPipeline => pipeline = true,
                Command::SyncPipeline => self.link().sync(),
                Command::EndPipeline => {
                    pipeline = false;
                    self.link().sync();
                    self.exchange(scripts, None, here).await?;
                }
            }
        }
        let status = self.link().status;
        if pipeline || status != b'I' {
            let cause = match pipeline {
                true => "the script ends within a pipeline: \\endpipeline was not come by",
                false => "the script ends within a transaction that it began: COMMIT is missing",
            };
            return Err(Stop::Script(last_sql, cause.into()));
        }
        Ok(())
    }

    fn link(&mut self) -> &mut Link {
        self.link.as_mut().expect("an attempt has a connection")
    }

    /// Puts out the messages of a statement.
    fn put(
        &mut self,
        scripts: &Scripts,
        statement: &Statement,
        pipeline: bool,
    ) -> Result<(), NotPut> {
        let link = self.link.as_mut().expect("an attempt has a connection");
        let (out, text) = (&mut link.wire.output, &mut self.text);
        match scripts.protocol() {
            Protocol::Simple => {
                text.clear();
                scripts.write(statement, &self.variables, text)?;
                frontend::query(text, out)?;
                link.syncs += 1;
                return Ok(());
            }
            Protocol::Extended => {
                frontend::parse("", &statement.sql, [], out)?;
                bind("", scripts, statement, &self.variables, text, out)?;
            }
            Protocol::Prepared => {
                let name = &statement.name;
                if !link.prepared[statement.number] {
                    frontend::parse(name, &statement.sql, [], out)?;
                    // If the server refuses, it says so in the answer, and this is taken back.
                    link.prepared[statement.number] = true;
                }
                bind(name, scripts, statement, &self.variables, text, out)?;
            }
        }
        if statement.fetch != Fetch::Nothing {
            frontend::describe(b'P', "", out)?;
        }
        frontend::execute("", 0, out)?;
        if !pipeline {
            link.sync();
        }
        Ok(())
    }

    /// Sends what was put out, and reads the answers up to the last Sync.
    async fn exchange(
        &mut self,
        scripts: &Scripts,
        statement: Option<&Statement>,
        command: usize,
    ) -> Result<(), Stop> {
        let link = self.link.as_mut().expect("an attempt has a connection");
        link.wire.send().await?;
        let fetch = statement.map_or(&Fetch::Nothing, |statement| &statement.fetch);
        let rows = if *fetch == Fetch::Nothing { Rows::Unwanted } else { Rows::Wanted };
        let (mut first, mut copies) = (None, false);
        let mut fetched = Fetched::default();
        while link.syncs > 0 {
            let message = link.wire.next(rows).await?;
            let body = link.wire.body(&message);
            match message.tag {
                b'T' => fetched.begin(body),
                b'D' => fetched.row(body),
                b'C' => {
                    if let Fetch::All(prefix) = fetch
                        && fetched.count > 0
                    {
                        fetched.assign(scripts, prefix, &mut self.variables);
                    }
                }
                b'E' => {
                    let error = said(body);
                    let fatal = error.fatal;
                    first.get_or_insert(error);
                    if fatal {
                        break;
                    }
                }
                b'G' => {
                    copies = true;
                    let cause = "a script holds no rows to copy";
                    let protocol = scripts.protocol();
                    link.refuse_copy(cause, protocol).await?;
                    continue;
                }
                _ => {}
            }
            link.note(&message);
            link.wire.done(&message);
        }
        if copies {
            let cause = "COPY FROM STDIN wants rows, which a script does not hold: use INSERT, or COPY \
                         from a file of the server's";
            return Err(Stop::Script(command, cause.into()));
        }
        if let Some(error) = first {
            if let (Some(statement), Protocol::Prepared) = (statement, scripts.protocol())
                && ["26", "42"].iter().any(|class| error.code.starts_with(class))
            {
                link.prepared[statement.number] = false;
            }
            return Err(Stop::Failed(Failed::of_statement(error, scripts.protocol())));
        }
        if let Fetch::Row(prefix) = fetch {
            if fetched.count != 1 {
                let cause = format!(
                    "\\gset takes exactly one row, and {} came: \\aset takes any number",
                    fetched.count
                );
                return Err(Stop::Script(command, cause));
            }
            fetched.assign(scripts, prefix, &mut self.variables);
        }
        Ok(())
    }
}

/// Why a statement could not be put out.
enum NotPut {
    Eval(EvalError),
    Message(io::Error),
}

impl NotPut {
    fn at(self, command: usize) -> Stop {
        match self {
            NotPut::Eval(error) => Stop::Script(command, error.to_string()),
            // A zero byte, or a text beyond the protocol's lengths: a fault of the script's.
            NotPut::Message(error) => Stop::Script(command, format!("it cannot be sent: {error}")),
        }
    }
}

impl From<EvalError> for NotPut {
    fn from(error: EvalError) -> NotPut {
        NotPut::Eval(error)
    }
}

impl From<io::Error> for NotPut {
    fn from(error: io::Error) -> NotPut {
        NotPut::Message(error)
    }
}

/// Binds the values of variables, as texts; results come as texts too.
fn bind(
    name: &str,
    scripts: &Scripts,
    statement: &Statement,
    variables: &[Option<Value>],
    text: &mut String,
    out: &mut BytesMut,
) -> Result<(), NotPut> {
    let mut unset = None;
    let bound = frontend::bind(
        "",
        name,
        [],
        &statement.parameters,
        |variable, out| {
            text.clear();
            let is_value = scripts.parameter(*variable, variables, text).unwrap_or_else(|error| {
                unset = Some(error);
                false
            });
            if !is_value {
                return Ok(IsNull::Yes);
            }
            out.put_slice(text.as_bytes());
            Ok(IsNull::No)
        },
        [],
        out,
    );
    match (unset, bound) {
        (Some(error), _) => Err(error.into()),
        (None, Ok(())) => Ok(()),
        (None, Err(frontend::BindError::Serialization(error))) => Err(error.into()),
        (None, Err(frontend::BindError::Conversion(error))) => {
            Err(io::Error::other(error.to_string()).into())
        }
    }
}

impl Link {
    fn sync(&mut self) {
        frontend::sync(&mut self.wire.output);
        self.syncs += 1;
    }

    /// Takes note of a message that says how the transaction stands.
    fn note(&mut self, message: &crate::connect::Message) {
        if message.tag == b'Z' {
            self.syncs = self.syncs.saturating_sub(1);
            self.status = self.wire.body(message).first().copied().unwrap_or(b'I');
        }
    }

    /// Answers a wish for rows: there are none.
    async fn refuse_copy(&mut self, cause: &str, protocol: Protocol) -> io::Result<()> {
        // The message that asked for them is at the front, and is not needed any more.
        let asked = self.wire.next(Rows::Unwanted).await?;
        self.wire.done(&asked);
        frontend::copy_fail(cause, &mut self.wire.output)?;
        if protocol != Protocol::Simple {
            // The server has passed over the Sync that stood behind the statement.
            frontend::sync(&mut self.wire.output);
        }
        self.wire.send().await
    }

    /// Prepares each statement of all scripts. What cannot be prepared yet, for a table that another
    /// statement makes, is left for the first use.
    async fn prepare_all(&mut self, scripts: &Scripts) -> io::Result<()> {
        for script in scripts.all() {
            for command in &script.commands {
                let Command::Sql(statement) = command else { continue };
                frontend::parse(&statement.name, &statement.sql, [], &mut self.wire.output)?;
                self.sync();
                self.wire.send().await?;
                let mut refused = false;
                while self.syncs > 0 {
                    let message = self.wire.next(Rows::Unwanted).await?;
                    refused |= message.tag == b'E';
                    self.note(&message);
                    self.wire.done(&message);
                }
                self.prepared[statement.number] = !refused;
            }
        }
        Ok(())
    }
}

/// Rows of a statement, the last of which is kept.
#[derive(Default)]
struct Fetched {
    columns: Vec<String>,
    row: Vec<Value>,
    count: u64,
}

impl Fetched {
    /// A result begins: its columns.
    fn begin(&mut self, body: &[u8]) {
        self.columns = columns(body);
        self.row.clear();
        self.count = 0;
    }

    fn row(&mut self, body: &[u8]) {
        self.count += 1;
        self.row.clear();
        let mut rest = body.get(2..).unwrap_or_default();
        while let Some((length, values)) = rest.split_first_chunk::<4>() {
            match usize::try_from(i32::from_be_bytes(*length)) {
                Err(_) => {
                    self.row.push(Value::Null);
                    rest = values;
                }
                Ok(length) => {
                    let length = length.min(values.len());
                    let text = String::from_utf8_lossy(&values[..length]);
                    self.row.push(Value::Text(text.into()));
                    rest = &values[length..];
                }
            }
        }
    }

    fn assign(&self, scripts: &Scripts, prefix: &str, variables: &mut [Option<Value>]) {
        for (column, value) in self.columns.iter().zip(&self.row) {
            // What no script names needs no variable.
            if let Some(variable) = scripts.variable(&format!("{prefix}{column}")) {
                variables[variable] = Some(value.clone());
            }
        }
    }
}

/// Names of the columns that a RowDescription describes.
pub(crate) fn columns(body: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = body.get(2..).unwrap_or_default();
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        names.push(String::from_utf8_lossy(&rest[..end]).into_owned());
        // The table, the column, the type, its size and modifier, the format.
        rest = rest.get(end + 1 + 18..).unwrap_or_default();
    }
    names
}
