//! A `measure http` or `measure postgres` as it was typed, to be printed again with changes: so that the command that comes next
//! has whatever this one needed to reach its server.

use clap::{Args as _, Command};
use cli::text::quoted;
use measure::RunRecord;

use super::measure::HttpArgs;
use super::measure_postgres::PostgresArgs;

/// Options that say what one run keeps or prints, or what load it has: the next command has its own.
const OF_ONE_RUN: [&str; 15] = [
    "out",
    "csv",
    "hlog",
    "json",
    "expect",
    "knee",
    "budget",
    "clients",
    "rate",
    "steps",
    "ramp",
    "blip",
    "think",
    "arrivals",
    "in-flight",
];

/// What is pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Engine {
    Http,
    Postgres,
}

impl Engine {
    fn of(word: &str) -> Option<Engine> {
        [Engine::Http, Engine::Postgres].into_iter().find(|engine| engine.word() == word)
    }

    fn word(self) -> &'static str {
        match self {
            Engine::Http => "http",
            Engine::Postgres => "postgres",
        }
    }

    fn command(self) -> Command {
        let command = Command::new(self.word());
        match self {
            Engine::Http => HttpArgs::augment_args(command),
            Engine::Postgres => PostgresArgs::augment_args(command),
        }
    }
}

/// Words of a `measure`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Typed {
    engine: Engine,
    /// What is no long option: the URL or several, scripts, short options and their values.
    targets: Vec<String>,
    /// Options with their values, in the order of the command line.
    options: Vec<(String, Vec<String>)>,
    /// Sentence on what the command needs besides, if anything.
    pub(crate) needs: Option<&'static str>,
}

impl Typed {
    /// The command of a record, if it is a `measure http`.
    pub(crate) fn of_record(record: &RunRecord) -> Option<Typed> {
        Typed::of(&record.header.command).filter(|typed| typed.engine == Engine::Http)
    }

    /// Words of a command line, the program first, if they are a `measure`.
    pub(crate) fn of(words: &[String]) -> Option<Typed> {
        let [_, measure, engine, rest @ ..] = words else { return None };
        if measure != "measure" {
            return None;
        }
        let engine = Engine::of(engine)?;
        let known = engine.command();
        let values_of = |name: &str| {
            let mut all = known.get_arguments();
            let found = all.find(|argument| argument.get_long() == Some(name));
            let found = found.filter(|argument| argument.get_action().takes_values());
            found.map_or(0, |one| one.get_num_args().map_or(1, |range| range.min_values().max(1)))
        };
        let mut typed = Typed { engine, targets: Vec::new(), options: Vec::new(), needs: None };
        let mut words = rest.iter();
        while let Some(word) = words.next() {
            if word == "--" {
                typed.targets.extend(words.cloned());
                break;
            }
            let Some(option) = word.strip_prefix("--") else {
                typed.targets.push(word.clone());
                continue;
            };
            let (name, mut values) = match option.split_once('=') {
                Some((name, value)) => (name, vec![value.to_owned()]),
                None => (option, Vec::new()),
            };
            let rest = values_of(name).saturating_sub(values.len());
            values.extend(words.by_ref().take(rest).cloned());
            typed.options.push((name.to_owned(), values));
        }
        (!typed.targets.is_empty()).then_some(typed)
    }

    /// Values of an option, in their order.
    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let all = self.options.iter().filter(move |(one, _)| one == name);
        all.flat_map(|(_, values)| values).map(String::as_str)
    }

    /// True if an option is given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.options.iter().any(|(one, _)| one == name)
    }

    /// The target, if there is one only.
    pub(crate) fn target(&self) -> Option<&str> {
        let [target] = &self.targets[..] else { return None };
        Some(target)
    }

    /// The same on another target.
    pub(crate) fn at(mut self, target: String) -> Typed {
        self.targets = vec![target];
        self
    }

    /// Without an option.
    pub(crate) fn without(mut self, name: &str) -> Typed {
        self.options.retain(|(one, _)| one != name);
        self
    }

    /// With this value of an option.
    pub(crate) fn with(mut self, name: &str, value: impl ToString) -> Typed {
        let values = vec![value.to_string()];
        match self.options.iter_mut().find(|(one, _)| one == name) {
            Some((_, old)) => *old = values,
            None => self.options.push((name.to_owned(), values)),
        }
        self
    }

    /// Without what belongs to one run alone, its load first.
    pub(crate) fn for_another_load(mut self) -> Typed {
        self.options.retain(|(name, _)| !OF_ONE_RUN.contains(&name.as_str()));
        self
    }

    /// The command line, as a shell reads it.
    pub(crate) fn line(&self) -> String {
        let mut line = format!("sekisho measure {}", self.engine.word());
        for target in &self.targets {
            line += &format!(" {}", quoted(target));
        }
        for (name, values) in &self.options {
            line += &format!(" --{name}");
            for value in values {
                line += &format!(" {}", quoted(value));
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &str) -> Option<Typed> {
        Typed::of(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_command_is_typed_again_with_changes() {
        let line =
            "sekisho measure http http://h/ --clients=1,4 --no-keep-alive --header X:a?b --out f";
        let first = typed(line).unwrap();
        assert_eq!(first.target(), Some("http://h/"));
        assert_eq!(
            first.line(),
            "sekisho measure http http://h/ --clients 1,4 --no-keep-alive --header 'X:a?b' --out f"
        );
        let again = first.for_another_load().with("clients", "8").at("http://g/".into());
        assert_eq!(
            again.line(),
            "sekisho measure http http://g/ --no-keep-alive --header 'X:a?b' --clients 8"
        );
        assert_eq!(again.without("header").values("clients").collect::<Vec<_>>(), ["8"]);
        assert_eq!(typed("sekisho measure http --json"), None);
        let sql =
            typed("sekisho measure postgres a.sql@2 -D x=1 --max-tries 3 --rate=9/s").unwrap();
        let wanted = "sekisho measure postgres a.sql@2 -D x=1 --max-tries 3 --clients 1";
        assert_eq!(sql.for_another_load().with("clients", 1).line(), wanted);
        assert_eq!(typed("sekisho demo"), None);
    }

    /// The story: the body of a `--post` was printed as another URL.
    #[test]
    fn an_option_of_two_values_and_a_load_that_changes_are_typed_again_or_left_out() {
        let line = "sekisho measure http http://h/?a=1&b=2 --post /path body --knee p99<1s --budget 9s --public";
        let again = typed(line).unwrap().for_another_load().line();
        assert_eq!(again, "sekisho measure http 'http://h/?a=1&b=2' --post /path body --public");
        let line = "sekisho measure http http://h/ --ramp 1/s:2/s --steps=1s:2/s --blip 1s:9/s --threads 2";
        let again = typed(line).unwrap().for_another_load().line();
        assert_eq!(again, "sekisho measure http http://h/ --threads 2");
        let line = "sekisho measure http --threads 2 -- http://h/";
        assert_eq!(typed(line).unwrap().line(), "sekisho measure http http://h/ --threads 2");
    }
}
