//! Answers of `--json`: the frame that all have in common, their formats and their schemas.
//!
//! Every answer is one line, an object. Its `format`, such as `sekisho/check/1`, names its schema; the number
//! rises when a key changes its meaning or goes. The answer that ends a command has its `verdict` and its
//! `exit_code`. Keys are in snake_case with the unit behind; a number that is not known is `null`.

use std::collections::BTreeMap;
use std::time::Duration;

use measure::{Bound, Estimate};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::{Value, json};

use crate::Verdict;

/// Object that `--json` prints.
pub trait Answer: Serialize + JsonSchema {
    /// Its format: `sekisho/NAME/VERSION`.
    const FORMAT: &'static str;
    /// Keys of time spans within it, of types whose own files write them as whole seconds and nanoseconds. An answer has
    /// them in seconds, as it has every time: `wait_max` becomes `wait_max_s`.
    const SPANS: &'static [&'static str] = &[];
}

/// Line of the answer that ends a command; `word` is its verdict, which may be milder in words than the exit
/// code tells, as `measured` is.
pub fn answer<A: Answer>(verdict: Verdict, word: &str, body: &A) -> String {
    line(&Answered { format: A::FORMAT, verdict: word, exit_code: verdict.code(), body }, A::SPANS)
}

/// Line of an answer that ends nothing: what a server says when it begins, a row of a list.
pub fn notice<A: Answer>(body: &A) -> String {
    line(&Noticed { format: A::FORMAT, body }, A::SPANS)
}

fn line(object: &impl Serialize, spans: &[&str]) -> String {
    let mut text =
        serde_json::to_string(object).expect("keys are texts, and writing to memory does not fail");
    for key in spans {
        text = in_seconds(&text, key);
    }
    text + "\n"
}

/// A span's key in an answer.
fn span_key(key: &str) -> String {
    format!("{}_s", key.replace('-', "_"))
}

/// The same text with the spans of a key in seconds. Within a text of it a quotation mark has a backslash before, so
/// that only a key is ever found.
fn in_seconds(text: &str, key: &str) -> String {
    let old = format!("\"{key}\":");
    let mut parts = text.split(&old);
    let mut made = parts.next().unwrap_or_default().to_owned();
    for rest in parts {
        let told = || {
            let (seconds, rest) = rest.strip_prefix("{\"secs\":")?.split_once(",\"nanos\":")?;
            let (nanos, rest) = rest.split_once('}')?;
            let span = Duration::new(seconds.parse().ok()?, nanos.parse().ok()?);
            Some((span.as_secs_f64().to_string(), rest))
        };
        let none = || Some(("null".to_owned(), rest.strip_prefix("null")?));
        match told().or_else(none) {
            Some((value, rest)) => {
                made += &format!("\"{}\":{value}{rest}", span_key(key));
            }
            None => made += &format!("{old}{rest}"),
        }
    }
    made
}

/// The same in a schema: properties that are spans have their new keys, and are numbers.
fn spans_in_seconds(schema: &mut Value, spans: &[&str]) {
    match schema {
        Value::Object(of) => {
            let mut renamed = Vec::new();
            if let Some(Value::Object(properties)) = of.get_mut("properties") {
                for key in spans {
                    if properties.get(*key).is_some_and(is_span) {
                        let mut one = properties.remove(*key).expect("it was there above");
                        number(&mut one);
                        properties.insert(span_key(key), one);
                        renamed.push(*key);
                    }
                }
            }
            if let Some(Value::Array(required)) = of.get_mut("required") {
                for key in required {
                    if key.as_str().is_some_and(|key| renamed.contains(&key)) {
                        *key = span_key(key.as_str().expect("it is one")).into();
                    }
                }
            }
            of.values_mut().for_each(|inner| spans_in_seconds(inner, spans));
        }
        Value::Array(all) => all.iter_mut().for_each(|inner| spans_in_seconds(inner, spans)),
        _ => {}
    }
}

/// Definition that the library has of a [`Duration`].
const SPAN: &str = "#/$defs/Duration";

fn is_span(schema: &Value) -> bool {
    let is = |schema: &Value| schema.get("$ref").is_some_and(|to| to == SPAN);
    is(schema)
        || schema.get("anyOf").and_then(Value::as_array).is_some_and(|all| all.iter().any(is))
}

/// Makes the schema of a span one of a number of seconds.
fn number(schema: &mut Value) {
    let Some(of) = schema.as_object_mut() else { return };
    let or_none = of.remove("anyOf").is_some();
    of.remove("$ref");
    let kind = if or_none { json!(["number", "null"]) } else { json!("number") };
    of.insert("type".into(), kind);
    of.insert("minimum".into(), json!(0));
}

/// Frame of an answer that ends a command.
#[derive(Serialize, JsonSchema)]
struct Answered<'a, A> {
    /// Name and version of the schema.
    format: &'static str,
    /// How the command ended, in the word that its text has.
    verdict: &'a str,
    /// Exit code of the command.
    exit_code: u8,
    #[serde(flatten)]
    body: &'a A,
}

/// Frame of an answer that ends nothing.
#[derive(Serialize, JsonSchema)]
struct Noticed<'a, A> {
    /// Name and version of the schema.
    format: &'static str,
    #[serde(flatten)]
    body: &'a A,
}

/// Schema of a format, JSON Schema 2020-12.
#[derive(Clone, Debug)]
pub struct Format {
    /// Name and version: `sekisho/check/1`, or `sekisho-run/1` of a file that we keep.
    pub name: &'static str,
    /// Its schema.
    pub schema: Schema,
}

impl Format {
    /// Format of an answer that ends a command.
    pub fn of_answer<A: Answer>() -> Format {
        let mut format = Format::of::<A>(root::<Answered<'_, A>>());
        let codes = [
            Verdict::Holds,
            Verdict::Fails,
            Verdict::Inconclusive,
            Verdict::Invalid,
            Verdict::DoesNotFit,
            Verdict::Interrupted,
        ];
        format.limit("exit_code", "enum", codes.map(Verdict::code).to_vec().into());
        format
    }

    /// Format of an answer that ends nothing.
    pub fn of_notice<A: Answer>() -> Format {
        Format::of::<A>(root::<Noticed<'_, A>>())
    }

    /// Format of a file, or of each of its lines, with a schema from elsewhere.
    pub fn of_file(name: &'static str, mut schema: Schema) -> Format {
        schema.insert("title".into(), name.into());
        Format { name, schema }
    }

    fn of<A: Answer>(schema: Schema) -> Format {
        let mut schema = schema.to_value();
        if !A::SPANS.is_empty() {
            spans_in_seconds(&mut schema, A::SPANS);
            if let Some(Value::Object(definitions)) = schema.get_mut("$defs") {
                definitions.remove("Duration");
            }
        }
        let schema = Schema::try_from(schema).expect("it was one");
        let mut format = Format::of_file(A::FORMAT, schema);
        format.limit("format", "const", A::FORMAT.into());
        // The frame describes itself; a reader wants to know what is inside.
        let inside = A::json_schema(&mut settings().into_generator());
        match inside.get("description").cloned() {
            Some(told) => format.schema.insert("description".into(), told),
            None => format.schema.remove("description"),
        };
        format
    }

    /// Says more of a key of the frame.
    fn limit(&mut self, key: &str, keyword: &str, value: serde_json::Value) {
        let properties = self.schema.get_mut("properties").and_then(|all| all.as_object_mut());
        let one = properties.and_then(|all| all.get_mut(key)).and_then(|one| one.as_object_mut());
        let one = one.expect("a frame has its keys");
        one.insert(keyword.into(), value);
    }

    /// Name of its file in `docs/schemas`: `check.1.json`.
    ///
    /// # Panics
    /// If the name has no version.
    pub fn file(&self) -> String {
        let name = self.name.strip_prefix("sekisho/").unwrap_or(self.name);
        let (name, version) = name.split_once('/').expect("a format has a version");
        format!("{name}.{version}.json")
    }
}

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().for_serialize()
}

/// Schema of what is written of a type.
pub fn root<T: JsonSchema>() -> Schema {
    settings().into_generator().into_root_schema_for::<T>()
}

/// Answer of a command that was interrupted before there was anything to tell.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Interrupted {
    /// Work that was interrupted, where it is known.
    pub at: Option<String>,
    /// Number of runs that are kept, where runs were made.
    pub runs: Option<usize>,
    /// Things that it leaves behind, where it began something.
    pub left: Option<String>,
    /// The seed, where there was one.
    pub seed: Option<u64>,
}

impl Answer for Interrupted {
    const FORMAT: &'static str = "sekisho/interrupted/1";
}

impl Interrupted {
    /// Its line.
    pub fn line(&self) -> String {
        let verdict = Verdict::Interrupted;
        answer(verdict, verdict.word(), self)
    }
}

/// A quantile with its interval, and on which side it is no more than a bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Quantile {
    /// The quantile.
    pub mean: f64,
    /// Half the width of its interval; none where there were too few values to say.
    pub half_width: Option<f64>,
    /// The share of such intervals that hold the true value, 0 to 1.
    pub confidence: f64,
    /// Number of values, taken as independent, that it rests on.
    pub n: u64,
    /// The side on which the true one may lie beyond it; none where it is the quantile itself.
    pub bound: Option<Bound>,
}

impl From<&Estimate> for Quantile {
    fn from(of: &Estimate) -> Quantile {
        Quantile {
            mean: of.mean,
            half_width: of.half_width.is_finite().then_some(of.half_width),
            confidence: of.confidence,
            n: of.n,
            bound: Bound::of(of.mean),
        }
    }
}

/// Quantiles by their q, as text: `0.99`.
pub type Quantiles = BTreeMap<String, Quantile>;

/// Quantiles with their q, as an object.
pub fn quantiles<'a>(of: impl IntoIterator<Item = (f64, &'a Estimate)>) -> Quantiles {
    of.into_iter().map(|(q, value)| (q.to_string(), value.into())).collect()
}

/// Answers whose keys are those of another type, an answer of a server say, each under a format of its own. Whoever
/// uses it names `serde` and `schemars` among its dependencies.
#[macro_export]
macro_rules! framed {
    ($($(#[$doc:meta])* $name:ident($of:ty) = $format:literal;)*) => {$(
        $(#[$doc])*
        #[derive(::serde::Serialize)]
        #[serde(transparent)]
        pub(crate) struct $name<'a>(pub(crate) &'a $of);

        // Not derived: the keys must stand in the frame, and a reference to them would not.
        impl ::schemars::JsonSchema for $name<'_> {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                <$of as ::schemars::JsonSchema>::schema_name()
            }

            fn json_schema(generator: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                <$of as ::schemars::JsonSchema>::json_schema(generator)
            }
        }

        impl $crate::json::Answer for $name<'_> {
            const FORMAT: &'static str = $format;
        }
    )*};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, JsonSchema)]
    struct Waits {
        /// The longest.
        #[serde(rename = "wait-max")]
        wait_max: Option<Duration>,
        /// The shortest.
        least: Duration,
        /// Words.
        says: &'static str,
    }

    impl Answer for Waits {
        const FORMAT: &'static str = "sekisho/waits/1";
        const SPANS: &'static [&'static str] = &["wait-max", "least"];
    }

    #[test]
    fn spans_are_in_seconds_and_texts_are_left_alone() {
        let says = r#""least":null and "least":{"secs":1,"nanos":0}"#;
        let of = |wait_max| {
            let body = Waits { wait_max, least: Duration::from_micros(1_015_625), says };
            serde_json::from_str::<Value>(&notice(&body)).unwrap()
        };
        let said = of(Some(Duration::from_millis(250)));
        assert_eq!((&said["wait_max_s"], &said["least_s"]), (&json!(0.25), &json!(1.015625)));
        assert_eq!(said["says"], says);
        assert_eq!(said.as_object().unwrap().len(), 4);
        assert!(of(None)["wait_max_s"].is_null());
        let schema = Format::of_notice::<Waits>().schema.to_value();
        assert_eq!(schema["properties"]["least_s"]["type"], "number");
        assert_eq!(schema["properties"]["wait_max_s"]["type"], json!(["number", "null"]));
        assert_eq!(schema["properties"]["least_s"]["description"], "The shortest.");
        let required = schema["required"].as_array().unwrap();
        assert!(required.contains(&json!("least_s")) && !required.contains(&json!("least")));
        assert!(!schema.to_string().contains("Duration"), "{schema}");
    }
}
