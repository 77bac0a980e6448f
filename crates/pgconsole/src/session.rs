//! Session of one client of the console: the simple protocol, and as much of the extended one as a
//! statement without parameters needs, so that drivers without the simple one can ask too.

use std::collections::{BTreeMap, VecDeque};

use live::{Estimate, WhatIf};

use super::command::{Command, CommandError, Control};
use super::extended::{self, Bind, Execute, Parse, Target};
use super::row::{self, Column, Formats, Value, text};
use super::snapshot::Snapshot;
use super::tables::{ESTIMATES, Sink, estimates};
use pgwire::SqlState;
use pgwire::frame::{Backend, Frontend};
use pgwire::message::read::ReadError;
use pgwire::message::write::{self, message};
use pgwire::message::{Report, Severity, Status};

/// The most bytes of rows in one reply; what is more is left out, and a warning says how many rows
/// that are.
pub const REPLY_MAX: usize = 16 << 20;

/// The most prepared statements, and the most portals, of a client.
const KEPT_MAX: usize = 100;

/// Rights of a client of the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Ask; PgBouncer's `stats_users`.
    Show,
    /// Change something too; PgBouncer's `admin_users`.
    All,
}

/// Outcome of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// All of it is answered; the next one may come.
    Answered,
    /// Somebody else must do or know something first; [`Session::reply`] goes on.
    Wants(Want),
    /// The client goes, or is to be sent away when it has what was written.
    Ends,
}

/// Request of a session to whoever runs the gate.
#[derive(Clone, Debug, PartialEq)]
pub enum Want {
    /// [`Reply::Snapshot`].
    Snapshot,
    /// [`Reply::Estimates`], or [`Reply::Refused`] if the model cannot say.
    Estimates(WhatIf),
    /// [`Reply::Done`] when it is done, or [`Reply::Refused`].
    Control(Control),
}

/// The answer to a [`Want`].
#[derive(Clone, Copy, Debug)]
pub enum Reply<'a> {
    /// The gate now.
    Snapshot(&'a Snapshot),
    /// The estimates of the model.
    Estimates(&'a [Estimate]),
    /// It is done.
    Done,
    /// It is done, and this is to be told of it, in sentences.
    Told(&'a [String]),
    /// It cannot be done.
    Refused(&'a Refusal),
}

/// Why something cannot be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// By which programs know it.
    pub sqlstate: SqlState,
    /// The obstacle.
    pub message: String,
    /// The way out.
    pub hint: Option<String>,
}

impl Refusal {
    /// A refusal with a cause of its own.
    pub fn because(sqlstate: SqlState, message: String, hint: Option<&str>) -> Refusal {
        Refusal { sqlstate, message, hint: hint.map(str::to_owned) }
    }

    /// It is not the moment for it.
    pub fn state(message: String, hint: &str) -> Refusal {
        Refusal::because(SqlState::NOT_IN_PREREQUISITE_STATE, message, Some(hint))
    }

    fn new(sqlstate: SqlState, message: impl Into<String>) -> Refusal {
        Refusal { sqlstate, message: message.into(), hint: None }
    }

    fn syntax(error: &CommandError) -> Refusal {
        let hint = "SHOW HELP lists the commands".to_owned();
        Refusal { hint: Some(hint), ..Refusal::new(error.sqlstate(), error.to_string()) }
    }

    fn damaged(error: ReadError) -> Refusal {
        Refusal::new(error.sqlstate(), error.to_string())
    }

    fn write(&self, out: &mut Vec<u8>) {
        let hint = self.hint.as_deref();
        let report = Report::new(Severity::Error, self.sqlstate, &self.message);
        write::error_response(out, &Report { hint, ..report });
    }
}

/// A statement that is bound.
#[derive(Clone, Debug)]
struct Portal {
    /// `None` for an empty text.
    command: Option<Command>,
    formats: Formats,
    ran: Ran,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ran {
    NotYet,
    Once,
}

/// Form of the reply to a command.
#[derive(Clone, Debug)]
enum Manner {
    /// With a RowDescription, and ReadyForQuery behind the last command of the text.
    Simple,
    /// Without either.
    Extended(Formats),
}

/// One client of the console, behind its login. It remembers at most 100 prepared statements and 100
/// portals, and the commands of one text.
#[derive(Clone, Debug)]
pub struct Session {
    access: Access,
    statements: BTreeMap<Vec<u8>, Option<Command>>,
    portals: BTreeMap<Vec<u8>, Portal>,
    /// An error of the extended protocol: nothing counts until Sync.
    skips: Skips,
    /// Of a simple query, what is not begun.
    left: VecDeque<Command>,
    asked: Option<(Command, Manner)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skips {
    Nothing,
    ToSync,
}

/// True if clients that ask for this database want the console.
pub fn is_console(database: &[u8]) -> bool {
    matches!(database, b"pgbouncer" | b"sekisho")
}

impl Session {
    /// A client that has logged in, and what is said to it behind AuthenticationOk and before
    /// BackendKeyData: the settings that drivers look at.
    pub fn begin(access: Access, version: &str, out: &mut Vec<u8>) -> Session {
        let server_version = format!("{version}/sekisho");
        for (name, value) in [
            ("server_version", server_version.as_str()),
            ("client_encoding", "UTF8"),
            ("server_encoding", "UTF8"),
            ("DateStyle", "ISO"),
            ("TimeZone", "GMT"),
            ("integer_datetimes", "on"),
            ("standard_conforming_strings", "on"),
            ("is_superuser", if access == Access::All { "on" } else { "off" }),
        ] {
            write::parameter_status(out, name.as_bytes(), value.as_bytes());
        }
        Session {
            access,
            statements: BTreeMap::new(),
            portals: BTreeMap::new(),
            skips: Skips::Nothing,
            left: VecDeque::new(),
            asked: None,
        }
    }

    /// Hears a whole message; the framing's limits are those of
    /// [`AUTHENTICATION`](pgwire::frame::Limits::AUTHENTICATION), under which all are whole.
    ///
    /// # Panics
    /// If the session still wants something.
    pub fn hear(&mut self, tag: Frontend, body: &[u8], out: &mut Vec<u8>) -> Heard {
        assert!(self.asked.is_none(), "a session that wants something hears nothing");
        match tag {
            Frontend::Terminate => return Heard::Ends,
            Frontend::Sync => {
                self.skips = Skips::Nothing;
                self.portals.clear();
                write::ready_for_query(out, Status::Idle);
                return Heard::Answered;
            }
            _ if self.skips == Skips::ToSync => return Heard::Answered,
            Frontend::Query => return self.query(body, out),
            Frontend::Password => {
                let report = "a password behind the login is not the protocol";
                let code = SqlState::PROTOCOL_VIOLATION;
                write::error_response(out, &Report::new(Severity::Fatal, code, report));
                return Heard::Ends;
            }
            Frontend::FunctionCall => {
                let code = SqlState::FEATURE_NOT_SUPPORTED;
                Refusal::new(code, "the console has no functions").write(out);
                write::ready_for_query(out, Status::Idle);
                return Heard::Answered;
            }
            // As PostgreSQL has it where no COPY goes on; and replies are never held back.
            Frontend::CopyData | Frontend::CopyDone | Frontend::CopyFail | Frontend::Flush => {
                return Heard::Answered;
            }
            Frontend::Parse
            | Frontend::Bind
            | Frontend::Describe
            | Frontend::Execute
            | Frontend::Close => {}
        }
        self.extended(tag, body, out).unwrap_or_else(|refusal| {
            self.skips = Skips::ToSync;
            refusal.write(out);
            Heard::Answered
        })
    }

    /// Goes on with what was wanted.
    ///
    /// # Panics
    /// If nothing was wanted, or something else.
    pub fn reply(&mut self, reply: Reply<'_>, out: &mut Vec<u8>) -> Heard {
        let (command, manner) = self.asked.take().expect("a reply is to something that was wanted");
        match (&command, reply) {
            (_, Reply::Refused(refusal)) => {
                refusal.write(out);
                self.left.clear();
                if let Manner::Extended(_) = manner {
                    self.skips = Skips::ToSync;
                }
            }
            (Command::Show(table), Reply::Snapshot(snapshot)) => {
                rows(out, table.columns(), &manner, |to| table.rows(snapshot, to));
            }
            (Command::WhatIf(_), Reply::Estimates(found)) => {
                rows(out, ESTIMATES, &manner, |to| estimates(found, to));
            }
            (Command::Control(control), Reply::Done) => {
                write::command_complete(out, &control.tag());
            }
            (Command::Control(control), Reply::Told(sentences)) => {
                let code = SqlState::SUCCESSFUL_COMPLETION;
                for sentence in sentences {
                    let notice = Report::new(Severity::Notice, code, sentence);
                    write::notice_response(out, &notice);
                }
                write::command_complete(out, &control.tag());
            }
            (command, reply) => panic!("{reply:?} is no reply to {command:?}"),
        }
        match manner {
            Manner::Simple => self.advance(out),
            Manner::Extended(_) => Heard::Answered,
        }
    }

    fn query(&mut self, body: &[u8], out: &mut Vec<u8>) -> Heard {
        // A simple query ends the unnamed statement, and with its transaction all portals.
        self.statements.remove(&[][..]);
        self.portals.clear();
        let commands = extended::query(body)
            .map_err(Refusal::damaged)
            .and_then(|text| Command::parse(text).map_err(|error| Refusal::syntax(&error)));
        match commands {
            Ok(commands) if commands.is_empty() => write::bare(out, Backend::EmptyQueryResponse),
            Ok(commands) => self.left = commands.into(),
            Err(refusal) => refusal.write(out),
        }
        self.advance(out)
    }

    /// Goes on with the commands of a simple query.
    fn advance(&mut self, out: &mut Vec<u8>) -> Heard {
        while let Some(command) = self.left.pop_front() {
            match self.run(command, Manner::Simple, out) {
                Ok(Heard::Answered) => {}
                Ok(heard) => return heard,
                Err(refusal) => {
                    refusal.write(out);
                    self.left.clear();
                }
            }
        }
        write::ready_for_query(out, Status::Idle);
        Heard::Answered
    }

    /// Answers a command, or asks for what that takes.
    fn run(
        &mut self,
        command: Command,
        manner: Manner,
        out: &mut Vec<u8>,
    ) -> Result<Heard, Refusal> {
        let want = match &command {
            Command::Show(_) => Want::Snapshot,
            Command::WhatIf(asked) => Want::Estimates(asked.clone()),
            Command::Control(control) => {
                self.allow()?;
                Want::Control(control.clone())
            }
            Command::Session(name, value) => {
                rows(out, &[text(name)], &manner, |to| to(&[Value::from(*value)]));
                return Ok(Heard::Answered);
            }
            Command::Help => {
                help(out);
                return Ok(Heard::Answered);
            }
            Command::Ignored => {
                let notice = "SET ignored: the console has no such setting";
                let code = SqlState::SUCCESSFUL_COMPLETION;
                write::notice_response(out, &Report::new(Severity::Notice, code, notice));
                write::command_complete(out, "SET");
                return Ok(Heard::Answered);
            }
        };
        self.asked = Some((command, manner));
        Ok(Heard::Wants(want))
    }

    fn allow(&self) -> Result<(), Refusal> {
        if self.access != Access::All {
            let hint = "users in admin_users may; those in stats_users may SHOW".to_owned();
            let message = "only administrators may change something";
            let refusal = Refusal::new(SqlState::INSUFFICIENT_PRIVILEGE, message);
            return Err(Refusal { hint: Some(hint), ..refusal });
        }
        Ok(())
    }

    fn extended(
        &mut self,
        tag: Frontend,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Heard, Refusal> {
        match tag {
            Frontend::Parse => self.parse(extended::parse(body).map_err(Refusal::damaged)?, out)?,
            Frontend::Bind => self.bind(extended::bind(body).map_err(Refusal::damaged)?, out)?,
            Frontend::Describe => {
                let target = extended::target("Describe", body).map_err(Refusal::damaged)?;
                self.describe(target, out)?;
            }
            Frontend::Execute => {
                let execute = extended::execute(body).map_err(Refusal::damaged)?;
                return self.execute(execute, out);
            }
            _ => {
                match extended::target("Close", body).map_err(Refusal::damaged)? {
                    Target::Statement(name) => drop(self.statements.remove(name)),
                    Target::Portal(name) => drop(self.portals.remove(name)),
                }
                write::bare(out, Backend::CloseComplete);
            }
        }
        Ok(Heard::Answered)
    }

    fn parse(&mut self, Parse { name, text }: Parse<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let mut commands = Command::parse(text).map_err(|error| Refusal::syntax(&error))?;
        if commands.len() > 1 {
            let message = "a prepared statement is one command; send them one by one";
            return Err(Refusal::new(SqlState::SYNTAX_ERROR, message));
        }
        if !name.is_empty() && self.statements.contains_key(name) {
            let name = String::from_utf8_lossy(name);
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(Refusal::new(SqlState::DUPLICATE_STATEMENT, message));
        }
        room(&self.statements, name, "prepared statements")?;
        self.statements.insert(name.to_vec(), commands.pop());
        write::bare(out, Backend::ParseComplete);
        Ok(())
    }

    fn bind(&mut self, bind: Bind<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let command = self.statement(bind.statement)?.clone();
        let columns = command.as_ref().and_then(columns).map_or(0, |columns| columns.len());
        if bind.parameters > 0 {
            let message = format!("{} parameters for a statement that has none", bind.parameters);
            return Err(Refusal::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        if !bind.formats.fit(columns) {
            let given = bind.formats.0.len();
            let message = format!("{given} formats for {columns} columns");
            return Err(Refusal::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        if !bind.portal.is_empty() && self.portals.contains_key(bind.portal) {
            let name = String::from_utf8_lossy(bind.portal);
            let message = format!("cursor \"{name}\" already exists");
            return Err(Refusal::new(SqlState::DUPLICATE_CURSOR, message));
        }
        room(&self.portals, bind.portal, "portals")?;
        let portal = Portal { command, formats: bind.formats, ran: Ran::NotYet };
        self.portals.insert(bind.portal.to_vec(), portal);
        write::bare(out, Backend::BindComplete);
        Ok(())
    }

    fn describe(&self, target: Target<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let (command, formats) = match target {
            Target::Statement(name) => {
                let command = self.statement(name)?;
                message(out, Backend::ParameterDescription, |out| out.extend([0, 0]));
                (command, &Formats::default())
            }
            Target::Portal(name) => {
                let portal = self.portals.get(name).ok_or_else(|| no_portal(name))?;
                (&portal.command, &portal.formats)
            }
        };
        match command.as_ref().and_then(columns) {
            Some(columns) => row::describe(out, &columns, formats),
            None => write::bare(out, Backend::NoData),
        }
        Ok(())
    }

    fn execute(&mut self, execute: Execute<'_>, out: &mut Vec<u8>) -> Result<Heard, Refusal> {
        let name = execute.portal;
        let portal = self.portals.get_mut(name).ok_or_else(|| no_portal(name))?;
        if execute.rows_max != 0 {
            let message = "the console has no cursors: Execute with a limit of rows";
            return Err(Refusal::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let Some(command) = portal.command.clone() else {
            write::bare(out, Backend::EmptyQueryResponse);
            return Ok(Heard::Answered);
        };
        if std::mem::replace(&mut portal.ran, Ran::Once) == Ran::Once {
            let name = String::from_utf8_lossy(name);
            let message = format!("portal \"{name}\" cannot be run again");
            return Err(Refusal::new(SqlState::NOT_IN_PREREQUISITE_STATE, message));
        }
        let formats = portal.formats.clone();
        self.run(command, Manner::Extended(formats), out)
    }

    fn statement(&self, name: &[u8]) -> Result<&Option<Command>, Refusal> {
        self.statements.get(name).ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            let message = format!("prepared statement \"{name}\" does not exist");
            Refusal::new(SqlState::UNDEFINED_STATEMENT, message)
        })
    }
}

fn no_portal(name: &[u8]) -> Refusal {
    let name = String::from_utf8_lossy(name);
    Refusal::new(SqlState::UNDEFINED_CURSOR, format!("portal \"{name}\" does not exist"))
}

/// Room for one more, unless this replaces one.
fn room<T>(kept: &BTreeMap<Vec<u8>, T>, name: &[u8], what: &str) -> Result<(), Refusal> {
    if kept.len() < KEPT_MAX || kept.contains_key(name) {
        return Ok(());
    }
    let message = format!("a client of the console has at most {KEPT_MAX} {what}");
    Err(Refusal::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
}

/// The columns of the rows that a command brings, if it brings some.
fn columns(command: &Command) -> Option<Vec<Column>> {
    match command {
        Command::Show(table) => Some(table.columns().to_vec()),
        Command::WhatIf(_) => Some(ESTIMATES.to_vec()),
        Command::Session(name, _) => Some(vec![text(name)]),
        Command::Help | Command::Ignored | Command::Control(_) => None,
    }
}

/// The rows that `each` brings, and CommandComplete.
fn rows(out: &mut Vec<u8>, columns: &[Column], manner: &Manner, each: impl FnOnce(&mut Sink<'_>)) {
    let formats = match manner {
        Manner::Simple => {
            row::describe(out, columns, &Formats::default());
            &Formats::default()
        }
        Manner::Extended(formats) => formats,
    };
    let (start, mut left_out) = (out.len(), 0_u64);
    each(&mut |values| {
        if left_out == 0 && out.len() - start < REPLY_MAX {
            row::row(out, columns, values, formats);
        } else {
            left_out += 1;
        }
    });
    if left_out > 0 {
        let message = format!("{left_out} rows left out: a reply has at most {REPLY_MAX} bytes");
        let code = SqlState::PROGRAM_LIMIT_EXCEEDED;
        write::notice_response(out, &Report::new(Severity::Warning, code, &message));
    }
    write::command_complete(out, "SHOW");
}

fn help(out: &mut Vec<u8>) {
    let detail = "\n\
        \tSHOW POOLS|CLIENTS|SERVERS|DATABASES|USERS|CONFIG|VERSION|STATE\n\
        \tSHOW STATS|STATS_TOTALS|STATS_AVERAGES|TOTALS\n\
        \tSHOW LISTS|MEM|SOCKETS|ACTIVE_SOCKETS|PEERS|PEER_POOLS\n\
        \tSHOW DNS_HOSTS|DNS_ZONES\n\
        \tSHOW GATE|SLOTS|QUEUE|PINS|MODEL\n\
        \tSHOW WHATIF [slots <n>] [arrivals x<f>] [servers <n>] [policy <p>]\n\
        \tPAUSE|RESUME|RECONNECT|KILL|WAIT_CLOSE [<db>]\n\
        \tDISABLE|ENABLE <db>\n\
        \tKILL_CLIENT <id>\n\
        \tRELOAD\n\
        \tSET <key> = <value>\n\
        \tSHUTDOWN [WAIT_FOR_CLIENTS|WAIT_FOR_SERVERS]";
    let code = SqlState::SUCCESSFUL_COMPLETION;
    let notice = Report::new(Severity::Notice, code, "Commands of the console");
    write::notice_response(out, &Report { detail: Some(detail), ..notice });
    write::command_complete(out, "SHOW");
}
