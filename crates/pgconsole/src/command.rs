//! Commands of the console, read from their text.

use live::WhatIf;
use thiserror::Error;

use super::tables::Table;
use pgwire::SqlState;

/// The longest text that is read \[byte\].
pub const TEXT_MAX: usize = 8192;

/// A statement of the console.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Shows something of the gate.
    Show(Table),
    /// Lists the commands, in a notice.
    Help,
    /// Shows a setting of sessions that drivers ask for, and what it is.
    Session(&'static str, &'static str),
    /// Sets a setting of sessions, which has no meaning here.
    Ignored,
    /// Asks the model.
    WhatIf(WhatIf),
    /// Changes something.
    Control(Control),
}

/// Commands for administrators alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Starts no job, of one database or of all; done when no server is in use.
    Pause(Option<String>),
    /// Starts jobs again.
    Resume(Option<String>),
    /// Closes the connections to servers as they become free.
    Reconnect(Option<String>),
    /// Closes all connections at once, and pauses.
    Kill(Option<String>),
    /// Closes the connection of a client.
    KillClient(u64),
    /// Lets no client of a database in.
    Disable(String),
    /// Lets them in again.
    Enable(String),
    /// Reads the configuration again.
    Reload,
    /// Ends the gate.
    Shutdown(Shutdown),
    /// Done when no connection is left that is to be closed.
    WaitClose(Option<String>),
    /// Changes a setting of the gate.
    Set {
        /// Its key, in small letters.
        key: String,
        /// Its new value.
        value: String,
    },
}

/// When the gate ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// At once.
    Now,
    /// When all clients have gone.
    WaitForClients,
    /// When all servers are free.
    WaitForServers,
}

impl Control {
    /// The tag of its CommandComplete.
    pub fn tag(&self) -> String {
        match self {
            Control::Pause(_) => "PAUSE",
            Control::Resume(_) => "RESUME",
            Control::Reconnect(_) => "RECONNECT",
            Control::Kill(_) => "KILL",
            Control::KillClient(_) => "KILL_CLIENT",
            Control::Disable(_) => "DISABLE",
            Control::Enable(_) => "ENABLE",
            Control::Reload => "RELOAD",
            Control::Shutdown(_) => "SHUTDOWN",
            Control::WaitClose(_) => "WAIT_CLOSE",
            Control::Set { key, value } => return format!("SET {key}={value}"),
        }
        .to_owned()
    }
}

/// Why a text is no command.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CommandError {
    /// There is no such word here.
    #[error("the console knows no {place} {word:?}{}", suggestion(.nearest))]
    Unknown {
        /// The kind of word that should stand there.
        place: &'static str,
        /// The word that does.
        word: String,
        /// The word that may be meant.
        nearest: Option<&'static str>,
    },
    /// It ends too early.
    #[error("{command} wants {wanted}")]
    Missing {
        /// The command.
        command: &'static str,
        /// The missing part.
        wanted: &'static str,
    },
    /// There is something behind its end.
    #[error("{command} ends before {word:?}")]
    Trailing {
        /// The command.
        command: &'static str,
        /// The first word behind it.
        word: String,
    },
    /// A quotation or a comment does not end.
    #[error("{what} does not end")]
    Open {
        /// The kind of it.
        what: &'static str,
    },
    /// A character that no command has.
    #[error("no command has the character {letter:?}")]
    Character {
        /// The character.
        letter: char,
    },
    /// The text is too long.
    #[error("a text of the console has at most {TEXT_MAX} bytes, this one has {bytes}")]
    Long {
        /// Its length \[byte\].
        bytes: usize,
    },
    /// It is a command of PgBouncer's that the gate does not have.
    #[error("{command} is not there: {way_out}")]
    Absent {
        /// The command.
        command: &'static str,
        /// The command or setting to use instead.
        way_out: &'static str,
    },
}

fn suggestion(nearest: &Option<&'static str>) -> String {
    nearest.map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default()
}

impl CommandError {
    /// The code to answer with.
    pub fn sqlstate(&self) -> SqlState {
        match self {
            CommandError::Absent { .. } => SqlState::FEATURE_NOT_SUPPORTED,
            CommandError::Long { .. } => SqlState::PROGRAM_LIMIT_EXCEEDED,
            _ => SqlState::SYNTAX_ERROR,
        }
    }
}

/// Settings that drivers set or ask for in every session, with the values that they are told.
const SESSION: [(&str, &str); 7] = [
    ("client_encoding", "UTF8"),
    ("default_transaction_isolation", "read committed"),
    ("standard_conforming_strings", "on"),
    ("datestyle", "ISO"),
    ("timezone", "GMT"),
    ("extra_float_digits", "1"),
    ("application_name", ""),
];

/// Commands that begin with this word, of all that begin one.
const VERBS: [&str; 15] = [
    "SHOW",
    "SELECT",
    "SET",
    "PAUSE",
    "RESUME",
    "RECONNECT",
    "KILL",
    "KILL_CLIENT",
    "DISABLE",
    "ENABLE",
    "SUSPEND",
    "RELOAD",
    "SHUTDOWN",
    "WAIT_CLOSE",
    "HELP",
];

impl Command {
    /// Reads all statements of a text, which semicolons divide; none of an empty one. Words in any
    /// case; names of databases as they stand, or in double quotes; values in single ones.
    ///
    /// # Errors
    /// If one of them is no command; then none of them counts.
    ///
    /// ```
    /// use pgconsole::{Command, Control};
    ///
    /// let commands = Command::parse("pause \"My Shop\"; RESUME shop;")?;
    /// assert_eq!(commands, [
    ///     Command::Control(Control::Pause(Some("My Shop".to_owned()))),
    ///     Command::Control(Control::Resume(Some("shop".to_owned()))),
    /// ]);
    /// let error = Command::parse("show pool").unwrap_err();
    /// assert_eq!(error.to_string(), "the console knows no table \"pool\"; did you mean POOLS?");
    /// # Ok::<(), pgconsole::CommandError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Vec<Command>, CommandError> {
        if text.len() > TEXT_MAX {
            return Err(CommandError::Long { bytes: text.len() });
        }
        let tokens = tokens(text)?;
        tokens
            .split(|token| *token == Token::End)
            .filter(|statement| !statement.is_empty())
            .map(statement)
            .collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    /// In double quotes.
    Name(String),
    /// In single quotes.
    Text(String),
    Equals,
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Token::Word(text) | Token::Name(text) | Token::Text(text) => text,
            Token::Equals => "=",
            Token::End => ";",
        }
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, CommandError> {
    let mut rest = text;
    let mut found = Vec::new();
    while let Some(letter) = rest.chars().next() {
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |(_, rest)| rest);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let open = CommandError::Open { what: "a comment" };
            rest = comment.split_once("*/").ok_or(open)?.1;
        } else if letter.is_whitespace() {
            rest = &rest[letter.len_utf8()..];
        } else if letter == ';' || letter == '=' {
            found.push(if letter == ';' { Token::End } else { Token::Equals });
            rest = &rest[1..];
        } else if letter == '"' {
            let (name, after) = quoted(rest, '"', "a name in double quotes")?;
            (rest, _) = (after, found.push(Token::Name(name)));
        } else if letter == '\'' {
            let (value, after) = quoted(rest, '\'', "a value in single quotes")?;
            (rest, _) = (after, found.push(Token::Text(value)));
        } else {
            let end = rest.find(|letter| !belongs(letter)).unwrap_or(rest.len());
            if end == 0 {
                return Err(CommandError::Character { letter });
            }
            found.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
    }
    Ok(found)
}

fn belongs(letter: char) -> bool {
    letter.is_alphanumeric() || "_.-+*/:,@%$".contains(letter)
}

/// The text between two of `quote`, of which two within are one, and the text behind it.
fn quoted<'a>(
    text: &'a str,
    quote: char,
    what: &'static str,
) -> Result<(String, &'a str), CommandError> {
    let (mut rest, mut value) = (&text[1..], String::new());
    loop {
        let (before, after) = rest.split_once(quote).ok_or(CommandError::Open { what })?;
        value.push_str(before);
        match after.strip_prefix(quote) {
            Some(after) => (rest, _) = (after, value.push(quote)),
            None => return Ok((value, after)),
        }
    }
}

fn unknown(
    place: &'static str,
    word: &str,
    candidates: impl IntoIterator<Item = &'static str>,
) -> CommandError {
    let upper = word.to_uppercase();
    let nearest = measure::nearest(&upper, candidates);
    let word = word.chars().take(40).collect();
    CommandError::Unknown { place, word, nearest }
}

/// The arguments of a statement, from left to right.
struct Arguments<'a> {
    command: &'static str,
    left: &'a [Token],
}

impl<'a> Arguments<'a> {
    fn next(&mut self) -> Option<&'a Token> {
        let (first, rest) = self.left.split_first()?;
        self.left = rest;
        Some(first)
    }

    fn wanted(&mut self, wanted: &'static str) -> Result<&'a Token, CommandError> {
        self.next().ok_or(CommandError::Missing { command: self.command, wanted })
    }

    fn number<T: std::str::FromStr>(&mut self, wanted: &'static str) -> Result<T, CommandError> {
        let missing = CommandError::Missing { command: self.command, wanted };
        self.wanted(wanted)?.text().parse().map_err(|_| missing)
    }

    fn name(&mut self) -> Result<Option<String>, CommandError> {
        match self.next() {
            Some(Token::Word(name) | Token::Name(name)) => Ok(Some(name.clone())),
            Some(_) => Err(CommandError::Missing { command: self.command, wanted: "a name" }),
            None => Ok(None),
        }
    }

    fn database(&mut self) -> Result<String, CommandError> {
        let missing = CommandError::Missing { command: self.command, wanted: "a database" };
        self.name()?.ok_or(missing)
    }

    fn end(self, command: Command) -> Result<Command, CommandError> {
        match self.left.first() {
            None => Ok(command),
            Some(token) => Err(CommandError::Trailing {
                command: self.command,
                word: token.text().chars().take(40).collect(),
            }),
        }
    }
}

fn statement(tokens: &[Token]) -> Result<Command, CommandError> {
    let (first, left) = tokens.split_first().expect("empty statements are left out");
    let verb = match first {
        Token::Word(word) => VERBS.into_iter().find(|verb| verb.eq_ignore_ascii_case(word)),
        _ => None,
    };
    let command = verb.ok_or_else(|| unknown("command", first.text(), VERBS))?;
    let mut rest = Arguments { command, left };
    let control = match command {
        "SHOW" | "SELECT" => return show(rest),
        "HELP" => return rest.end(Command::Help),
        "SET" => return set(rest),
        "PAUSE" => Control::Pause(rest.name()?),
        "RESUME" => Control::Resume(rest.name()?),
        "RECONNECT" => Control::Reconnect(rest.name()?),
        "KILL" => Control::Kill(rest.name()?),
        "KILL_CLIENT" => Control::KillClient(rest.number("the id of a client (SHOW CLIENTS)")?),
        "DISABLE" => Control::Disable(rest.database()?),
        "ENABLE" => Control::Enable(rest.database()?),
        "RELOAD" => Control::Reload,
        "SHUTDOWN" => Control::Shutdown(shutdown(&mut rest)?),
        "WAIT_CLOSE" => Control::WaitClose(rest.name()?),
        "SUSPEND" => {
            let way_out = "PAUSE starts no job until RESUME; clients stay connected";
            return Err(CommandError::Absent { command, way_out });
        }
        _ => unreachable!("all of VERBS are above"),
    };
    rest.end(Command::Control(control))
}

fn shutdown(rest: &mut Arguments<'_>) -> Result<Shutdown, CommandError> {
    let Some(when) = rest.next() else { return Ok(Shutdown::Now) };
    match when.text().to_ascii_uppercase().as_str() {
        "WAIT_FOR_CLIENTS" => Ok(Shutdown::WaitForClients),
        "WAIT_FOR_SERVERS" => Ok(Shutdown::WaitForServers),
        other => Err(unknown("SHUTDOWN", other, ["WAIT_FOR_CLIENTS", "WAIT_FOR_SERVERS"])),
    }
}

fn show(mut rest: Arguments<'_>) -> Result<Command, CommandError> {
    let Some(what) = rest.next() else {
        return Err(CommandError::Missing {
            command: rest.command,
            wanted: "a table, as in SHOW POOLS; SHOW HELP lists them",
        });
    };
    let lower = what.text().to_lowercase();
    if let Some((name, value)) = SESSION.into_iter().find(|(name, _)| *name == lower) {
        return rest.end(Command::Session(name, value));
    }
    match lower.as_str() {
        "help" => return rest.end(Command::Help),
        "whatif" => return what_if(rest),
        "fds" => {
            let way_out = "sockets are handed over by a restart itself; SHOW SOCKETS lists them";
            return Err(CommandError::Absent { command: "SHOW FDS", way_out });
        }
        _ => {}
    }
    match Table::named(&lower) {
        Some(table) => rest.end(Command::Show(table)),
        None => {
            let tables = Table::ALL.iter().map(|table| table.name());
            Err(unknown("table", what.text(), tables.chain(["WHATIF", "HELP"])))
        }
    }
}

fn what_if(mut rest: Arguments<'_>) -> Result<Command, CommandError> {
    const KEYS: [&str; 4] = ["SLOTS", "ARRIVALS", "SERVERS", "POLICY"];
    rest.command = "SHOW WHATIF";
    let mut asked = WhatIf::default();
    while let Some(key) = rest.next() {
        let twice = match key.text().to_ascii_uppercase().as_str() {
            "SLOTS" => asked.slots.replace(rest.number("slots as a whole number")?).is_some(),
            "SERVERS" => asked.servers.replace(rest.number("servers as a whole number")?).is_some(),
            "ARRIVALS" => {
                let factor = rest.wanted("arrivals as a factor, as in x1.5")?.text();
                let number = factor.strip_prefix(['x', 'X']).unwrap_or(factor).parse().ok();
                let factor = number.filter(|factor: &f64| factor.is_finite() && *factor > 0.0);
                let wanted = "arrivals as a factor above 0, as in x1.5";
                let missing = CommandError::Missing { command: rest.command, wanted };
                asked.arrivals.replace(factor.ok_or(missing)?).is_some()
            }
            "POLICY" => {
                let policy = rest.wanted("a policy, as in policy shared")?.text();
                asked.policy.replace(policy.to_lowercase()).is_some()
            }
            _ => return Err(unknown("WHATIF", key.text(), KEYS)),
        };
        if twice {
            let word = key.text().to_owned();
            return Err(CommandError::Trailing { command: rest.command, word });
        }
    }
    if asked == WhatIf::default() {
        let wanted = "a change: slots 20, arrivals x1.5, servers 3 or policy shared";
        return Err(CommandError::Missing { command: rest.command, wanted });
    }
    if asked.slots == Some(0) || asked.servers == Some(0) {
        let wanted = "at least one slot and one server";
        return Err(CommandError::Missing { command: rest.command, wanted });
    }
    Ok(Command::WhatIf(asked))
}

fn set(mut rest: Arguments<'_>) -> Result<Command, CommandError> {
    let key = rest.wanted("a key and a value, as in SET key = value")?.text().to_lowercase();
    let between = rest.wanted("= and a value")?;
    if *between != Token::Equals && !between.text().eq_ignore_ascii_case("to") {
        return Err(CommandError::Missing { command: "SET", wanted: "= behind the key" });
    }
    let value = match rest.wanted("a value")? {
        Token::Equals => {
            return Err(CommandError::Missing { command: "SET", wanted: "one =, then a value" });
        }
        value => value.text().to_owned(),
    };
    if SESSION.iter().any(|(name, _)| *name == key) {
        return rest.end(Command::Ignored);
    }
    rest.end(Command::Control(Control::Set { key, value }))
}
