//! Reading a scenario file: whatever is wrong is told with its place, its cause and the nearest right
//! spelling, before anything else is done.

use std::fmt::Write;
use std::ops::Range;
use std::path::Path;

use advise::Scenario;

use crate::bounded;

/// The most jobs that a trace may have, with long lines.
const TRACE_MIB: u64 = 512;

/// Reads a trace, which lies beside the scenario that names it.
pub fn beside(scenario: &Path) -> impl Fn(&str) -> Result<String, String> {
    let folder = scenario.parent().unwrap_or(Path::new("")).to_owned();
    move |file| bounded::text(&folder.join(file), TRACE_MIB).map_err(|error| error.to_string())
}

/// A scenario that can be run from the text of the file of this name; else what is wrong.
///
/// # Errors
/// If it is none or cannot be run: the place, the cause and the way out.
pub fn parse(
    name: &str,
    text: &str,
    read: impl FnMut(&str) -> Result<String, String>,
) -> Result<Scenario, String> {
    let place = |error: advise::ScenarioError| match line_of(text, &error.place) {
        Some(line) => format!("{name}:{line}: {error}"),
        None => format!("{name}: {error}"),
    };
    let mut scenario: Scenario =
        toml::from_str(text).map_err(|error| explain(name, text, &error))?;
    scenario.read_traces(read).map_err(place)?;
    scenario.network().map_err(place)?;
    Ok(scenario)
}

/// The line, from 1, on which the part of the scenario stands that an error names as its place, such
/// as "class `web`, route step 1".
fn line_of(text: &str, place: &str) -> Option<usize> {
    let (kind, rest) = place.split_once(" `")?;
    let (name, within) = rest.split_once('`')?;
    let file = toml::de::DeTable::parse(text).ok()?;
    let parts = file.get_ref().get(kind)?.get_ref().as_array()?;
    let is_it = |part: &&toml::de::DeTable<'_>| {
        part.get("name").and_then(|value| value.get_ref().as_str()) == Some(name)
    };
    let part = parts.iter().filter_map(|part| part.get_ref().as_table()).find(is_it)?;
    let key = ["route", "inside"].into_iter().find(|key| within.starts_with(&format!(", {key}")));
    let span = part.get(key.unwrap_or("name"))?.span();
    Some(Place::of(text, span).line)
}

/// The value of a key of a scenario file from a flag: a name without its quotes, or a table.
///
/// # Errors
/// If it is no such value: the cause.
pub fn parse_value<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    #[derive(serde::Deserialize)]
    struct Wrapped<T> {
        value: T,
    }
    let value = match text.trim_start().starts_with('{') {
        true => text.to_owned(),
        false => toml::Value::String(text.to_owned()).to_string(),
    };
    let wrapped: Wrapped<T> =
        toml::from_str(&format!("value = {value}")).map_err(|error| cause(error.message()))?;
    Ok(wrapped.value)
}

/// A scenario from JSON, which has no lines that a person wrote.
///
/// # Errors
/// If it is none or cannot be run: the cause.
pub fn parse_json(name: &str, text: &str) -> Result<Scenario, String> {
    let mut scenario: Scenario = serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(&*message, |(cause, _)| cause);
        format!("{name}: {}", cause(message))
    })?;
    scenario.read_traces(beside(Path::new(name))).map_err(|error| format!("{name}: {error}"))?;
    scenario.network().map_err(|error| format!("{name}: {error}"))?;
    Ok(scenario)
}

/// `file:line:column: cause`, and the line with a mark under what is meant.
pub fn explain(name: &str, text: &str, error: &toml::de::Error) -> String {
    let cause = cause(error.message());
    match error.span() {
        Some(span) => at(name, text, span, &cause),
        None => format!("{name}: {cause}"),
    }
}

/// `file:line:column: cause` of a part of a text that a parser takes and its reader does not, and the line with
/// a mark under the part.
pub fn at(name: &str, text: &str, span: Range<usize>, cause: &str) -> String {
    let place = Place::of(text, span);
    format!("{name}:{}:{}: {cause}\n{}", place.line, place.column, place.snippet())
}

/// The line, from 1, on which a part of a text begins.
pub fn line_at(text: &str, span: Range<usize>) -> usize {
    Place::of(text, span).line
}

/// The parser's message in the words of a scenario file.
fn cause(message: &str) -> String {
    if let Some((unknown, known)) = measure::unknown_name(message) {
        let kind = if message.starts_with("unknown field") { "key" } else { "name" };
        let way_out = match measure::nearest(&unknown, known.iter().map(String::as_str)) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None if known.is_empty() => "nothing may stand there".into(),
            None => format!("known here: {}", known.join(", ")),
        };
        return format!("unknown {kind} `{unknown}`; {way_out}");
    }
    if let Some(key) = message.strip_prefix("missing field `").and_then(|m| m.strip_suffix('`')) {
        return match key {
            "sekisho" => {
                "the key `sekisho` is missing; a scenario begins with `sekisho = 1`".into()
            }
            key => format!("the key `{key}` is missing"),
        };
    }
    in_words_of_a_file(message.trim_end()).replace('\n', "; ")
}

/// Message about what is expected where something else stands, in words of a file: tables and
/// lists, and no types of this program.
fn in_words_of_a_file(message: &str) -> String {
    let Some((found, expected)) = message.split_once(", expected ") else {
        return message.to_owned();
    };
    let found = match found.rsplit_once(": ") {
        Some((kind, "sequence")) => format!("{kind}: a list"),
        Some((kind, "map")) => format!("{kind}: a table"),
        _ => found.to_owned(),
    };
    let expected = match expected {
        "a sequence" => "a list",
        "a map" => "a table",
        "a boolean" => "true or false",
        "f64" => "a number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, not negative",
        other if other.starts_with("struct ") => "a table",
        other => other,
    };
    format!("{found}, expected {expected}")
}

/// A piece of a text, where a person would look for it.
struct Place<'a> {
    /// From 1.
    line: usize,
    /// From 1, in characters.
    column: usize,
    content: &'a str,
    /// Number of characters of the line that are meant, at least 1.
    length: usize,
}

/// No more than this many characters of a line are shown.
const SHOWN: usize = 66;

impl<'a> Place<'a> {
    fn of(text: &'a str, span: Range<usize>) -> Place<'a> {
        let start = floor(text, span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let content = text[line_start..].lines().next().unwrap_or("");
        let column = text[line_start..start].chars().count();
        let meant = text[start..floor(text, span.end).max(start)].lines().next().unwrap_or("");
        let left = content.chars().count().saturating_sub(column);
        Place {
            line: text[..line_start].matches('\n').count() + 1,
            column: column + 1,
            content,
            length: meant.chars().count().min(left).max(1),
        }
    }

    fn snippet(&self) -> String {
        // Of a long line, the part that is meant, with a little before it.
        let from = if self.column <= SHOWN { 0 } else { self.column - SHOWN / 2 };
        let shown = self.content.chars().skip(from).take(SHOWN);
        // A tab would move the line away from the mark.
        let shown: String = shown.map(|c| if c.is_control() { ' ' } else { c }).collect();
        let before = self.column - 1 - from;
        let mark = "^".repeat(self.length.min(SHOWN.saturating_sub(before)).max(1));
        let number = self.line.to_string();
        let gutter = " ".repeat(number.len());
        let mut text = String::new();
        // Writing to a string does not fail.
        write!(
            text,
            "{gutter} |\n{number} | {}\n{gutter} | {}{mark}",
            shown.trim_end(),
            " ".repeat(before)
        )
        .ok();
        text
    }
}

/// The nearest boundary of a character at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::parse;

    const GOOD: &str = r#"sekisho = 1
name = "one queue"

[[class]]
name = "web"
rate = "20/s"
route = ["pool"]

[[gate]]
name = "pool"
slots = 4
inside = ["cpu"]

[[station]]
name = "cpu"
kind = "sharing"
demand = { mean = "25ms", dist = "exponential" }
"#;

    fn none(_: &str) -> Result<String, String> {
        Err("there is no trace".into())
    }

    /// The message for the good scenario with `from` replaced by `to`.
    fn error(from: &str, to: &str) -> String {
        assert!(GOOD.contains(from), "`{from}` stands in the scenario");
        parse("s.toml", &GOOD.replacen(from, to, 1), none).expect_err("it is wrong now")
    }

    #[test]
    fn what_is_of_another_kind_is_told_in_words_of_the_file() {
        for (line, told) in [
            ("station = [\"x\"]", "string \"x\", expected a table"),
            ("gate = \"x\"", "string \"x\", expected a list"),
            ("[[gate]]\nname = \"g\"\nslots = -1", "expected a whole number, not negative"),
            ("[[station]]\nname = [1]", "a list, expected a string"),
        ] {
            let text = format!("sekisho = 1\nname = \"x\"\n{line}\n");
            let error = parse("s.toml", &text, none).unwrap_err();
            let first = error.lines().next().unwrap_or_default();
            assert!(first.contains(told) && !first.contains("struct"), "{line}: {error}");
        }
    }

    #[test]
    fn a_good_file_is_read() {
        let scenario = parse("s.toml", GOOD, none).expect("nothing is wrong");
        assert_eq!(scenario.gates[0].slots, Some(4));
    }

    #[test]
    fn an_unknown_key_names_its_place_and_the_nearest_known_one() {
        assert_eq!(
            error("slots = 4", "slotz = 4"),
            "s.toml:11:1: unknown key `slotz`; did you mean `slots`?\n   \
             |\n11 | slotz = 4\n   | ^^^^^"
        );
        assert_eq!(
            error("[[gate]]", "[[gates]]"),
            "s.toml:9:3: unknown key `gates`; did you mean `gate`?\n  |\n9 | [[gates]]\n  |   ^^^^^"
        );
        assert_eq!(
            error("{ mean = \"25ms\"", "{ maen = \"25ms\""),
            "s.toml:17:12: unknown key `maen`; did you mean `mean`?\n   \
             |\n17 | demand = { maen = \"25ms\", dist = \"exponential\" }\n   |            ^^^^"
        );
    }

    #[test]
    fn an_unknown_name_names_the_nearest_known_one() {
        assert_eq!(
            error("\"sharing\"", "\"shareing\""),
            "s.toml:16:8: unknown name `shareing`; did you mean `sharing`?\n   \
             |\n16 | kind = \"shareing\"\n   |        ^^^^^^^^^^"
        );
        assert_eq!(
            error("slots = 4", "slots = 4\ndiscipline = \"round-robin\""),
            "s.toml:12:14: unknown name `round-robin`; known here: fifo, lifo, priority, \
             priority-ageing, shortest-job, earliest-deadline, deficit-round-robin, cohort\n   \
             |\n12 | discipline = \"round-robin\"\n   |              ^^^^^^^^^^^^^"
        );
    }

    #[test]
    fn a_wrong_unit_says_what_was_wanted() {
        assert_eq!(
            error("\"20/s\"", "\"20\""),
            "s.toml:6:8: `20` is not a rate such as \"200/s\" (/s, /min, /h)\n  \
             |\n6 | rate = \"20\"\n  |        ^^^^"
        );
        assert_eq!(
            error("\"20/s\"", "20"),
            "s.toml:6:8: invalid type: integer `20`, expected a rate such as \"200/s\" (/s, /min, /h)\n  \
             |\n6 | rate = 20\n  |        ^^"
        );
        assert_eq!(
            error("{ mean = \"25ms\", dist = \"exponential\" }", "\"25kB\""),
            "s.toml:17:10: `25kB` is not a time such as \"250ms\" (ns, us, ms, s, min, h, d)\n   \
             |\n17 | demand = \"25kB\"\n   |          ^^^^^^"
        );
    }

    #[test]
    fn a_missing_key_is_named() {
        assert_eq!(
            error("sekisho = 1", ""),
            "s.toml:1:1: the key `sekisho` is missing; a scenario begins with `sekisho = 1`\n  \
             |\n1 | \n  | ^"
        );
        assert_eq!(
            error("kind = \"sharing\"\n", ""),
            "s.toml:14:1: the key `kind` is missing\n   |\n14 | [[station]]\n   | ^^^^^^^^^^^"
        );
    }

    #[test]
    fn what_is_no_toml_is_shown_where_it_ends_to_be() {
        assert_eq!(
            error("slots = 4", "slots = "),
            "s.toml:11:9: string values must be quoted, expected literal string\n   \
             |\n11 | slots =\n   |         ^"
        );
    }

    #[test]
    fn what_makes_no_sense_names_the_part() {
        assert_eq!(
            error("route = [\"pool\"]", "route = [\"pol\"]"),
            "s.toml:7: class `web`, route step 1: no gate or station is called `pol`; did you mean \
             `pool`?"
        );
        assert_eq!(
            error("slots = 4", "slots = 0"),
            "s.toml:10: gate `pool`: 0 slots let nobody in; give at least 1"
        );
    }

    #[test]
    fn a_long_line_is_shown_in_part() {
        let long = format!("name = \"{}\", slotz = 4", "x".repeat(300));
        let text = error("slots = 4\ninside = [\"cpu\"]", &format!("inside = [{{ {long} }}]"));
        let lines: Vec<&str> = text.lines().collect();
        assert!(text.contains("unknown key `name`"), "{text}");
        assert!(lines[1..].iter().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn every_prefix_of_a_file_is_an_error_or_a_scenario_but_never_a_panic() {
        let text = GOOD.replace("one queue", "eine Schlange für ñ µ 関所");
        for (end, _) in text.char_indices() {
            if let Err(message) = parse("s.toml", &text[..end], none) {
                assert!(message.starts_with("s.toml:"), "{message}");
            }
        }
    }
}
