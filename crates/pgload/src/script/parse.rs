//! Reads scripts: statements and meta-commands in order, branches turned into jumps, and each name
//! held against those that something sets.

use std::collections::HashSet;
use std::time::Duration;

use super::expr::{self, Expr, Fault, Use, continuation, variable_length};
use super::lex::{self, Ends, Inside};
use super::{
    Assignment, Command, Condition, Fetch, Names, OWN, Pause, Piece, Place, Protocol, Script,
    ScriptError, Scripts, Source, Statement, Value,
};

/// Meta-commands that are understood, for the suggestion of one.
const COMMANDS: [&str; 11] = [
    "set",
    "sleep",
    "gset",
    "aset",
    "if",
    "elif",
    "else",
    "endif",
    "startpipeline",
    "syncpipeline",
    "endpipeline",
];
/// Most parameters of a statement, as the protocol counts them.
const PARAMETERS_MAX: usize = 65_535;

pub(super) fn read(
    sources: &[Source],
    definitions: &[(String, String)],
    protocol: Protocol,
) -> Result<Scripts, ScriptError> {
    let mut names = Names::default();
    let [client_id, default_seed, random_seed] = OWN.map(|name| names.number(name));
    let mut known: HashSet<usize> = [client_id, default_seed, random_seed].into();
    let mut defined = Vec::new();
    for (name, value) in definitions {
        if name.is_empty() || variable_length(name) < name.len() {
            let cause =
                format!("`{name}` is no name of a variable: letters, digits and _, no digit first");
            return Err(ScriptError { file: "-D".into(), line: 1, column: 1, cause });
        }
        let variable = names.number(name);
        known.insert(variable);
        defined.push((variable, Value::Text(value.as_str().into())));
    }
    let mut read = Vec::new();
    for source in sources {
        let mut reader = Reader::new(&source.text, protocol, &mut names);
        reader.run().map_err(|fault| located(source, &fault))?;
        known.extend(reader.sets);
        read.push((reader.commands, reader.uses, reader.prefixes));
    }
    let prefixes: Vec<String> = read.iter().flat_map(|(.., prefixes)| prefixes.clone()).collect();
    let mut binder = Binder { protocol, known, prefixes, names, number: 0 };
    let mut scripts = Vec::new();
    for (source, (raw, uses, _)) in sources.iter().zip(read) {
        let script = binder.script(source, raw, &uses);
        scripts.push(script.map_err(|fault| located(source, &fault))?);
    }
    let Binder { names, known, .. } = binder;
    let definitions = defined;
    Ok(Scripts {
        protocol,
        scripts,
        names,
        known,
        definitions,
        client_id,
        default_seed,
        random_seed,
    })
}

/// Statements of a text that has no variables, as they are.
pub(super) fn split(source: &Source) -> Result<Vec<String>, ScriptError> {
    let (mut at, mut all) = (0, Vec::new());
    loop {
        let read = lex::statement(&source.text, at).map_err(|fault| located(source, &fault))?;
        let (found, ends, next) = read;
        all.extend(found.map(|statement| {
            let text = |piece| match piece {
                lex::Piece::Text(text) => text,
                lex::Piece::Variable { name, .. } => format!(":{name}"),
            };
            statement.pieces.into_iter().map(text).collect::<String>()
        }));
        at = next;
        match ends {
            Ends::Semicolon => {}
            Ends::File => return Ok(all),
            Ends::Backslash => {
                let cause = "a meta-command stands here, and only SQL is understood in this file";
                return Err(located(source, &Fault::new(at, cause)));
            }
        }
    }
}

fn located(source: &Source, fault: &Fault) -> ScriptError {
    let Place { line, column } = place(&source.text, fault.at);
    ScriptError { file: source.name.clone(), line, column, cause: fault.cause.clone() }
}

fn place(text: &str, at: usize) -> Place {
    let before = &text[..at.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Place { line, column }
}

/// A command whose names are not yet held against what is known.
enum Raw {
    Sql(lex::Statement, Fetch),
    Ready(Command),
}

/// A branch that is open.
struct Branch {
    at: usize,
    /// The jump of its condition that has no aim yet.
    unless: Option<usize>,
    /// Jumps from the ends of its arms.
    leaves: Vec<usize>,
    has_else: bool,
}

struct Reader<'a, 'n> {
    text: &'a str,
    protocol: Protocol,
    names: &'n mut Names,
    commands: Vec<(usize, Raw)>,
    branches: Vec<Branch>,
    /// Where the pipeline began that is open.
    pipeline: Option<usize>,
    sets: Vec<usize>,
    uses: Vec<Use>,
    /// Prefixes of variables that columns bring.
    prefixes: Vec<String>,
}

/// A meta-command: where it stands, its name, and where what follows stands.
#[derive(Clone, Copy)]
struct Meta<'a> {
    at: usize,
    name: &'a str,
    rest: (usize, usize),
}

impl<'a, 'n> Reader<'a, 'n> {
    fn new(text: &'a str, protocol: Protocol, names: &'n mut Names) -> Reader<'a, 'n> {
        Reader {
            text,
            protocol,
            names,
            commands: Vec::new(),
            branches: Vec::new(),
            pipeline: None,
            sets: Vec::new(),
            uses: Vec::new(),
            prefixes: Vec::new(),
        }
    }

    fn run(&mut self) -> Result<(), Fault> {
        let mut at = 0;
        loop {
            let (statement, ends, next) = lex::statement(self.text, at)?;
            if let Some(statement) = statement {
                self.commands.push((statement.at, Raw::Sql(statement, Fetch::Nothing)));
            }
            at = next;
            match ends {
                Ends::Semicolon => {}
                Ends::Backslash => at = self.meta(at)?,
                Ends::File => break,
            }
        }
        if let Some(branch) = self.branches.last() {
            return Err(Fault::new(branch.at, "this \\if is never closed: \\endif is missing"));
        }
        if let Some(at) = self.pipeline {
            let cause = "this pipeline is never closed: \\endpipeline is missing";
            return Err(Fault::new(at, cause));
        }
        if !self.commands.iter().any(|(_, raw)| matches!(raw, Raw::Sql(..))) {
            let cause = "no statement stands here, so nothing would be measured: write SQL, such as \
                         `select 1;`";
            return Err(Fault::new(0, cause));
        }
        Ok(())
    }

    /// Reads a meta-command; where the next line begins.
    fn meta(&mut self, at: usize) -> Result<usize, Fault> {
        let mut end = at;
        while let Some(c) = self.text[end..].chars().next() {
            match continuation(&self.text[end..]) {
                Some(length) if end > at => end += length,
                _ if c == '\n' => break,
                _ => end += c.len_utf8(),
            }
        }
        let name_length = variable_length(&self.text[at + 1..end]);
        let name = &self.text[at + 1..at + 1 + name_length];
        let meta = Meta { at, name, rest: (at + 1 + name_length, end) };
        self.command(meta)?;
        Ok(end)
    }

    fn command(&mut self, meta: Meta<'a>) -> Result<(), Fault> {
        match &*meta.name.to_ascii_lowercase() {
            "set" => self.set(meta),
            "sleep" => self.sleep(meta),
            "gset" | "aset" => self.fetch(meta),
            "if" => {
                let condition = self.expression(meta.rest)?;
                let unless = Some(self.unless(meta.at, condition));
                let branch = Branch { at: meta.at, unless, leaves: Vec::new(), has_else: false };
                self.branches.push(branch);
                Ok(())
            }
            "elif" | "else" => self.arm(meta),
            "endif" => {
                self.nothing_follows(meta)?;
                let Some(branch) = self.branches.pop() else { return Err(no_branch(meta)) };
                let end = self.commands.len();
                branch.unless.into_iter().chain(branch.leaves).for_each(|at| self.aim(at, end));
                Ok(())
            }
            "startpipeline" | "syncpipeline" | "endpipeline" => self.pipeline(meta),
            _ => Err(self.refused(meta)),
        }
    }

    fn push(&mut self, at: usize, command: Command) -> usize {
        self.commands.push((at, Raw::Ready(command)));
        self.commands.len() - 1
    }

    fn unless(&mut self, at: usize, condition: Expr) -> usize {
        self.push(at, Command::Unless(Condition(condition), usize::MAX))
    }

    /// Gives a jump its aim.
    fn aim(&mut self, jump: usize, aim: usize) {
        if let Raw::Ready(Command::Unless(_, to) | Command::Jump(to)) = &mut self.commands[jump].1 {
            *to = aim;
        }
    }

    fn expression(&mut self, span: (usize, usize)) -> Result<Expr, Fault> {
        expr::parse(self.text, span, self.names, &mut self.uses)
    }

    /// `\elif` and `\else`: the arm before them ends, and another begins.
    fn arm(&mut self, meta: Meta<'a>) -> Result<(), Fault> {
        let Some(branch) = self.branches.last() else { return Err(no_branch(meta)) };
        if branch.has_else {
            let cause = format!("\\{} cannot follow \\else", meta.name);
            return Err(Fault::new(meta.at, cause));
        }
        let leave = self.push(meta.at, Command::Jump(usize::MAX));
        let begins = self.commands.len();
        let open = self.branches.last_mut().and_then(|branch| {
            branch.leaves.push(leave);
            branch.unless.take()
        });
        open.into_iter().for_each(|jump| self.aim(jump, begins));
        if meta.name.eq_ignore_ascii_case("else") {
            self.nothing_follows(meta)?;
            self.branches.iter_mut().next_back().into_iter().for_each(|one| one.has_else = true);
            return Ok(());
        }
        let condition = self.expression(meta.rest)?;
        let unless = Some(self.unless(meta.at, condition));
        self.branches.iter_mut().next_back().into_iter().for_each(|one| one.unless = unless);
        Ok(())
    }

    fn set(&mut self, meta: Meta<'a>) -> Result<(), Fault> {
        let (name, after) = self.word(meta.rest);
        let (at, length) = (after - name.len(), variable_length(name));
        if length == 0 || length < name.len() {
            let cause =
                "the name of a variable is wanted here: letters, digits and _, no digit first";
            return Err(Fault::new(at, cause));
        }
        let variable = self.names.number(name);
        let expr = self.expression((after, meta.rest.1))?;
        self.sets.push(variable);
        self.push(meta.at, Command::Set(Assignment { variable, expr }));
        Ok(())
    }

    /// `\gset` and `\aset` end the statement before them.
    fn fetch(&mut self, meta: Meta<'a>) -> Result<(), Fault> {
        let (prefix, after) = self.word(meta.rest);
        if let (extra, end) = self.word((after, meta.rest.1))
            && !extra.is_empty()
        {
            let cause = format!("`{extra}` is too much: \\{} takes one prefix", meta.name);
            return Err(Fault::new(end - extra.len(), cause));
        }
        if !prefix.is_empty() && variable_length(prefix) < prefix.len() {
            let cause =
                "the prefix of variables is wanted here: letters, digits and _, no digit first";
            return Err(Fault::new(after - prefix.len(), cause));
        }
        if self.pipeline.is_some() {
            let cause = format!(
                "\\{} cannot stand within a pipeline, whose rows come at its end",
                meta.name
            );
            return Err(Fault::new(meta.at, cause));
        }
        let Some((_, Raw::Sql(_, fetch @ Fetch::Nothing))) = self.commands.last_mut() else {
            let cause =
                format!("\\{} must follow a statement, in place of its semicolon", meta.name);
            return Err(Fault::new(meta.at, cause));
        };
        let all = meta.name.eq_ignore_ascii_case("aset");
        *fetch = if all { Fetch::All(prefix.to_owned()) } else { Fetch::Row(prefix.to_owned()) };
        self.prefixes.push(prefix.to_owned());
        Ok(())
    }

    fn pipeline(&mut self, meta: Meta<'a>) -> Result<(), Fault> {
        self.nothing_follows(meta)?;
        let begins = meta.name.eq_ignore_ascii_case("startpipeline");
        let cause = match (begins, self.pipeline) {
            (true, _) if self.protocol == Protocol::Simple => {
                "a pipeline needs `--protocol extended` or `prepared`"
            }
            (true, Some(_)) => "a pipeline is open already: \\endpipeline is missing before this",
            (false, None) => "no pipeline is open: \\startpipeline is missing before this",
            _ => "",
        };
        if !cause.is_empty() {
            return Err(Fault::new(meta.at, cause));
        }
        let (command, open) = match &*meta.name.to_ascii_lowercase() {
            "startpipeline" => (Command::StartPipeline, Some(meta.at)),
            "syncpipeline" => (Command::SyncPipeline, self.pipeline),
            _ => (Command::EndPipeline, None),
        };
        self.pipeline = open;
        self.push(meta.at, command);
        Ok(())
    }

    fn sleep(&mut self, meta: Meta<'a>) -> Result<(), Fault> {
        let (amount, after) = self.word(meta.rest);
        let (mut unit, mut end) = self.word((after, meta.rest.1));
        let at = after - amount.len();
        let mut count = amount;
        if !amount.starts_with(':') && unit.is_empty() {
            let digits = amount.trim_start_matches(['+', '-']);
            let digits = digits.trim_start_matches(|c: char| c.is_ascii_digit());
            count = &amount[..amount.len() - digits.len()];
            (unit, end) = (digits, after);
        }
        let unit = match &*unit.to_ascii_lowercase() {
            "" | "s" => Duration::from_secs(1),
            "ms" => Duration::from_millis(1),
            "us" => Duration::from_micros(1),
            _ => {
                let cause = format!("`{unit}` is no unit of \\sleep: there are us, ms and s");
                return Err(Fault::new(end - unit.len(), cause));
            }
        };
        if let (extra, end) = self.word((end, meta.rest.1))
            && !extra.is_empty()
        {
            let cause = format!("`{extra}` is too much: \\sleep takes a number and a unit");
            return Err(Fault::new(end - extra.len(), cause));
        }
        let pause = match count.strip_prefix(':') {
            Some(name) if !name.is_empty() && variable_length(name) == name.len() => {
                let variable = self.names.number(name);
                self.uses.push(Use { variable, at });
                Pause::Variable { variable, unit }
            }
            _ => match count.parse::<i64>() {
                Ok(count) => Pause::Constant(
                    unit.saturating_mul(u32::try_from(count.max(0)).unwrap_or(u32::MAX)),
                ),
                Err(_) => {
                    let cause = "\\sleep takes a whole number, or a variable such as :n, and a unit \
                                 (us, ms or s)";
                    return Err(Fault::new(at, cause));
                }
            },
        };
        self.push(meta.at, Command::Sleep(pause));
        Ok(())
    }

    /// The next word of a span, and where it ends.
    fn word(&self, (mut at, end): (usize, usize)) -> (&'a str, usize) {
        let text = self.text;
        loop {
            let rest = &text[at..end];
            if let Some(length) = continuation(rest) {
                at += length;
            } else if let Some(c) = rest.chars().next().filter(|c| c.is_whitespace()) {
                at += c.len_utf8();
            } else {
                break;
            }
        }
        let rest = &text[at..end];
        let ends =
            |(from, c): &(usize, char)| c.is_whitespace() || continuation(&rest[*from..]).is_some();
        let length = rest.char_indices().find(ends).map_or(rest.len(), |(from, _)| from);
        (&rest[..length], at + length)
    }

    fn nothing_follows(&self, meta: Meta<'a>) -> Result<(), Fault> {
        match self.word(meta.rest) {
            ("", _) => Ok(()),
            (extra, end) => {
                let cause = format!("`{extra}` is too much: \\{} stands alone", meta.name);
                Err(Fault::new(end - extra.len(), cause))
            }
        }
    }

    /// The fault of a meta-command that is not understood, with the way out.
    fn refused(&self, meta: Meta<'a>) -> Fault {
        let cause = match meta.name {
            "" => "a backslash begins a meta-command, such as \\set: write \\; for a semicolon within \
                   a statement"
                .to_owned(),
            "setrandom" => self.setrandom(meta),
            "shell" | "setshell" => format!(
                "\\{} would measure a shell: set the value beforehand with -D NAME=VALUE",
                meta.name
            ),
            name => {
                let lower = name.to_ascii_lowercase();
                let way_out = match measure::nearest(&lower, COMMANDS) {
                    Some(near) => format!("did you mean \\{near}?"),
                    None => {
                        let all = COMMANDS.map(|name| format!("\\{name}"));
                        format!("there are {}", all.join(", "))
                    }
                };
                format!("\\{name} is no meta-command of pgbench's that is understood here: {way_out}")
            }
        };
        Fault::new(meta.at, cause)
    }

    /// The way out of `\setrandom NAME MIN MAX [DISTRIBUTION PARAMETER]`, which pgbench had up to 9.5.
    fn setrandom(&self, meta: Meta<'a>) -> String {
        let mut words = Vec::new();
        let mut at = meta.rest.0;
        while let (word, end) = self.word((at, meta.rest.1))
            && !word.is_empty()
        {
            words.push(word);
            at = end;
        }
        let instead = match words[..] {
            [name, min, max] | [name, min, max, "uniform"] => {
                format!("\\set {name} random({min}, {max})")
            }
            [name, min, max, how @ ("gaussian" | "exponential"), parameter] => {
                format!("\\set {name} random_{how}({min}, {max}, {parameter})")
            }
            _ => "\\set NAME random(MIN, MAX)".to_owned(),
        };
        format!("\\setrandom is gone from pgbench since 9.6: write `{instead}`")
    }
}

fn no_branch(meta: Meta<'_>) -> Fault {
    Fault::new(meta.at, format!("\\{} without an \\if before it", meta.name))
}

/// Knowledge of a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Surely,
    /// A column of some statement may bring it.
    Perhaps,
    Not,
}

/// Turns what was read into programs.
struct Binder {
    protocol: Protocol,
    known: HashSet<usize>,
    prefixes: Vec<String>,
    names: Names,
    number: usize,
}

impl Binder {
    fn known(&self, name: &str) -> Known {
        let number = self.names.numbers.get(name);
        if number.is_some_and(|number| self.known.contains(number)) {
            Known::Surely
        } else if self.prefixes.iter().any(|prefix| name.starts_with(prefix.as_str())) {
            Known::Perhaps
        } else {
            Known::Not
        }
    }

    fn script(
        &mut self,
        source: &Source,
        raw: Vec<(usize, Raw)>,
        uses: &[Use],
    ) -> Result<Script, Fault> {
        for one in uses {
            let name = self.names.name(one.variable);
            if self.known(name) == Known::Not {
                return Err(Fault::new(one.at, set_nowhere(name)));
            }
        }
        let mut commands = Vec::new();
        let mut places = Vec::new();
        for (at, raw) in raw {
            places.push(place(&source.text, at));
            commands.push(match raw {
                Raw::Ready(command) => command,
                Raw::Sql(statement, fetch) => Command::Sql(self.statement(statement, fetch)?),
            });
        }
        Ok(Script { name: source.name.clone(), weight: source.weight, commands, places })
    }

    fn statement(&mut self, raw: lex::Statement, fetch: Fetch) -> Result<Statement, Fault> {
        let simple = self.protocol == Protocol::Simple;
        if let (Some(at), false) = (raw.joined, simple) {
            let cause = "\\; joins statements into one message, which only `--protocol simple` can send: \
                         use that, or a plain semicolon";
            return Err(Fault::new(at, cause));
        }
        let (mut sql, mut parameters, mut pieces) = (String::new(), Vec::new(), Vec::new());
        for piece in raw.pieces {
            let (name, at, place) = match piece {
                lex::Piece::Text(text) => {
                    sql.push_str(&text);
                    pieces.push(Piece::Text(text));
                    continue;
                }
                lex::Piece::Variable { name, at, place } => (name, at, place),
            };
            let text = format!(":{name}");
            match (place, self.known(&name)) {
                (Inside::Nothing, Known::Not) => return Err(Fault::new(at, set_nowhere(&name))),
                (Inside::Quotes, Known::Surely) if !simple => {
                    let cause = format!(
                        "{text} stands in quotes, where no parameter can: write it outside of them, or \
                         use `--protocol simple`, which puts the value into the text"
                    );
                    return Err(Fault::new(at, cause));
                }
                (Inside::Quotes, Known::Perhaps) if simple => {
                    let variable = self.names.number(&name);
                    pieces.push(Piece::Perhaps(variable, text));
                    continue;
                }
                (Inside::Quotes, Known::Perhaps | Known::Not) => {
                    sql.push_str(&text);
                    pieces.push(Piece::Text(text));
                    continue;
                }
                _ => {}
            }
            let variable = self.names.number(&name);
            parameters.push(variable);
            sql.push_str(&format!("${}", parameters.len()));
            pieces.push(Piece::Variable(variable));
            if parameters.len() > PARAMETERS_MAX {
                return Err(Fault::new(at, "a statement can have 65535 parameters, and no more"));
            }
        }
        let number = self.number;
        self.number += 1;
        let joined = raw.joined.is_some();
        let name = format!("sekisho_{number}");
        Ok(Statement { number, name, sql, parameters, pieces, joined, fetch })
    }
}

fn set_nowhere(name: &str) -> String {
    format!(
        "{name} is set nowhere: add `\\set {name} ...` before this, or say `-D {name}=VALUE`; a colon \
         that names no variable is written \\:"
    )
}
