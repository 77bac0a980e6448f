//! Scripts as pgbench reads them: SQL with variables, and meta-commands that set them.
//!
//! [`Scripts::read`] takes the texts and gives programs that cannot go wrong in their form: each name
//! is known, each branch is closed, each jump has its aim. What they do to a server is the caller's
//! business; here are no clock, no chance of its own and no socket.

mod eval;
mod expr;
mod lex;
mod parse;
mod random;
mod value;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use workload::Chance;

pub use eval::Variables;
pub use value::{EvalError, Value};

use expr::Expr;

/// Way in which statements are sent: pgbench's `-M`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// As texts, with the values of variables in them.
    Simple,
    /// With parameters; parsed and planned each time.
    Extended,
    /// With parameters, and prepared once for each connection.
    Prepared,
}

impl Protocol {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Simple => "simple",
            Protocol::Extended => "extended",
            Protocol::Prepared => "prepared",
        }
    }
}

/// A text to be read.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name, for errors and for the class of its transactions.
    pub name: String,
    /// The text.
    pub text: String,
    /// Weight of its transactions, relative to the others'; 1 or more.
    pub weight: u32,
}

/// A fault of a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}, line {line}, column {column}: {cause}")]
pub struct ScriptError {
    /// Name of the script.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1, in characters.
    pub column: usize,
    /// The fault, and the way out.
    pub cause: String,
}

/// Scripts that share their variables, as those of one pgbench do.
#[derive(Clone, Debug)]
pub struct Scripts {
    protocol: Protocol,
    scripts: Vec<Script>,
    names: Names,
    /// Variables that the command line or a `\set` gives a value; others come from columns.
    known: HashSet<usize>,
    /// Variables of the command line.
    definitions: Vec<(usize, Value)>,
    client_id: usize,
    default_seed: usize,
    random_seed: usize,
}

/// A script: what one transaction does.
#[derive(Clone, Debug)]
pub struct Script {
    /// Its name.
    pub name: String,
    /// Weight of its transactions.
    pub weight: u32,
    /// What it does, in order.
    pub commands: Vec<Command>,
    /// Where each command stands.
    places: Vec<Place>,
}

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
}

/// A command of a script.
#[derive(Clone, Debug)]
pub enum Command {
    /// A statement.
    Sql(Statement),
    /// `\set`.
    Set(Assignment),
    /// `\sleep`.
    Sleep(Pause),
    /// Goes on elsewhere unless a condition holds.
    Unless(Condition, usize),
    /// Goes on elsewhere.
    Jump(usize),
    /// `\startpipeline`.
    StartPipeline,
    /// `\syncpipeline`.
    SyncPipeline,
    /// `\endpipeline`.
    EndPipeline,
}

/// A variable that gets a value.
#[derive(Clone, Debug)]
pub struct Assignment {
    variable: usize,
    expr: Expr,
}

/// A condition of `\if` or `\elif`.
#[derive(Clone, Debug)]
pub struct Condition(Expr);

/// Length of a `\sleep`.
#[derive(Clone, Debug)]
pub enum Pause {
    /// So long.
    Constant(Duration),
    /// So many units, as a variable has it.
    Variable {
        /// Its number.
        variable: usize,
        /// Length of a unit.
        unit: Duration,
    },
}

/// A statement, ready to be sent.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Its number among the statements of all scripts.
    pub number: usize,
    /// Its name where it is prepared.
    pub name: String,
    /// Its text with `$1` and so on in place of variables; the same as `pieces` where there are none.
    pub sql: String,
    /// Variables of its parameters, in order.
    pub parameters: Vec<usize>,
    /// Its text in pieces, for the simple protocol.
    pieces: Vec<Piece>,
    /// True if several statements are joined in it.
    pub joined: bool,
    /// What becomes of its rows.
    pub fetch: Fetch,
}

/// A piece of a statement's text.
#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Variable(usize),
    /// A name that is only a variable's if a column has brought it; else it is text.
    Perhaps(usize, String),
}

/// Use of a statement's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetch {
    /// They are thrown away.
    Nothing,
    /// The only row becomes variables of this prefix: `\gset`.
    Row(String),
    /// The last row of each joined statement does: `\aset`.
    All(String),
}

/// Names of variables, numbered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    names: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl Names {
    /// Number of a name; a new one if it is new.
    fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len();
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    fn name(&self, number: usize) -> &str {
        &self.names[number]
    }
}

/// Names of variables that are there from the beginning.
const OWN: [&str; 3] = ["client_id", "default_seed", "random_seed"];

impl Scripts {
    /// Reads scripts. `definitions` are names and values of the command line (`-D`).
    ///
    /// # Errors
    /// If one is not of the form, or uses what is not supported: with the place, and the way out.
    pub fn read(
        sources: &[Source],
        definitions: &[(String, String)],
        protocol: Protocol,
    ) -> Result<Scripts, ScriptError> {
        parse::read(sources, definitions, protocol)
    }

    /// The scripts, in order; 1 or more.
    pub fn all(&self) -> &[Script] {
        &self.scripts
    }

    /// The way in which statements are sent.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The number of statements in all.
    pub fn statements(&self) -> usize {
        let is_sql = |command: &&Command| matches!(command, Command::Sql(_));
        self.scripts.iter().map(|script| script.commands.iter().filter(is_sql).count()).sum()
    }

    /// The variables of a client before its first transaction.
    pub fn variables(&self, client: u32, seed: u64) -> Vec<Option<Value>> {
        let mut all = vec![None; self.names.names.len()];
        let seed = Value::Int(seed as i64);
        all[self.client_id] = Some(Value::Int(client.into()));
        all[self.default_seed] = Some(seed.clone());
        all[self.random_seed] = Some(seed);
        for (variable, value) in &self.definitions {
            all[*variable] = Some(value.clone());
        }
        all
    }

    /// The variable of this name, if any script uses it.
    pub fn variable(&self, name: &str) -> Option<usize> {
        self.names.numbers.get(name).copied()
    }

    /// True if only a column can bring a variable.
    pub fn is_of_column(&self, variable: usize) -> bool {
        !self.known.contains(&variable)
    }

    /// Statements of a text without variables and meta-commands, in order.
    ///
    /// # Errors
    /// If a quote is never closed, or a meta-command stands there.
    pub fn split(source: &Source) -> Result<Vec<String>, ScriptError> {
        parse::split(source)
    }

    /// Name of a variable.
    pub fn name(&self, variable: usize) -> &str {
        self.names.name(variable)
    }

    /// Sets a variable as `\set` does.
    ///
    /// # Errors
    /// If the expression has no value.
    pub fn assign(
        &self,
        assignment: &Assignment,
        variables: &mut Variables,
        chance: &mut Chance,
    ) -> Result<(), EvalError> {
        let value = self.value(&assignment.expr, variables, chance)?;
        variables[assignment.variable] = Some(value);
        Ok(())
    }

    /// True if a condition holds.
    ///
    /// # Errors
    /// If its expression has no value.
    pub fn holds(
        &self,
        condition: &Condition,
        variables: &Variables,
        chance: &mut Chance,
    ) -> Result<bool, EvalError> {
        self.value(&condition.0, variables, chance).map(|value| value.truth())
    }

    fn value(
        &self,
        expr: &Expr,
        variables: &Variables,
        chance: &mut Chance,
    ) -> Result<Value, EvalError> {
        eval::eval(expr, variables, &|variable| self.name(variable).to_owned(), chance)
    }

    /// Length of a pause; one of a negative number of units is none.
    ///
    /// # Errors
    /// If its variable is not set, or is no whole number.
    pub fn pause(&self, pause: &Pause, variables: &Variables) -> Result<Duration, EvalError> {
        match pause {
            Pause::Constant(length) => Ok(*length),
            Pause::Variable { variable, unit } => match self.set(*variable, variables)?.typed()? {
                Value::Int(units) => {
                    let units = u32::try_from(units.clamp(0, u32::MAX.into())).unwrap_or(u32::MAX);
                    Ok(unit.saturating_mul(units))
                }
                _ => {
                    let is = self.name(*variable).to_owned();
                    let (what, must) = ("the variable of \\sleep", "a whole number");
                    Err(EvalError::Range { what, must, is })
                }
            },
        }
    }

    /// The value of a variable.
    ///
    /// # Errors
    /// If it is not set.
    pub fn set<'v>(
        &self,
        variable: usize,
        variables: &'v Variables,
    ) -> Result<&'v Value, EvalError> {
        let value = variables.get(variable).and_then(Option::as_ref);
        value.ok_or_else(|| EvalError::Unset(self.name(variable).to_owned()))
    }

    /// Writes the text of a statement for the simple protocol.
    ///
    /// # Errors
    /// If a variable is not set.
    pub fn write(
        &self,
        statement: &Statement,
        variables: &Variables,
        out: &mut String,
    ) -> Result<(), EvalError> {
        for piece in &statement.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Variable(variable) => self.set(*variable, variables)?.write(out),
                Piece::Perhaps(variable, text) => match &variables[*variable] {
                    Some(value) => value.write(out),
                    None => out.push_str(text),
                },
            }
        }
        Ok(())
    }

    /// Writes the value of a parameter; false if it is NULL.
    ///
    /// # Errors
    /// If the variable is not set.
    pub fn parameter(
        &self,
        variable: usize,
        variables: &Variables,
        out: &mut String,
    ) -> Result<bool, EvalError> {
        let value = self.set(variable, variables)?;
        value.write(out);
        Ok(*value != Value::Null)
    }

    /// The error of a command, at its place.
    pub fn error(&self, script: usize, command: usize, cause: impl Into<String>) -> ScriptError {
        let script = &self.scripts[script];
        let Place { line, column } = script.places[command];
        ScriptError { file: script.name.clone(), line, column, cause: cause.into() }
    }
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
