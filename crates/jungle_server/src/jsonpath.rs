//! JSONPath (RFC 9535), evaluated by steps that are counted: a query of whoever may read must not hold up the others.
//! The crates that know JSONPath have no such bound; one of them is the witness in the tests.

mod parse;

use std::cmp::Ordering;
use std::fmt::Write as _;
use std::str::FromStr;

use jungle::{is_equal, number_order};
use regex::Regex;
use serde_json::Value;

pub use parse::JsonPathError;

/// A query of RFC 9535.
#[derive(Clone, Debug)]
pub struct JsonPath {
    segments: Vec<Segment>,
}

#[derive(Clone, Debug)]
struct Segment {
    is_descendant: bool,
    selectors: Vec<Selector>,
}

#[derive(Clone, Debug)]
enum Selector {
    Name(String),
    Wildcard,
    Index(i64),
    Slice { start: Option<i64>, end: Option<i64>, step: i64 },
    Filter(Box<Test>),
}

/// A query within a filter.
#[derive(Clone, Debug)]
struct Query {
    is_absolute: bool,
    segments: Vec<Segment>,
}

impl Query {
    /// Tells whether it finds one value at most, whatever the document.
    fn is_singular(&self) -> bool {
        self.segments.iter().all(|segment| {
            !segment.is_descendant
                && matches!(segment.selectors[..], [Selector::Name(_) | Selector::Index(_)])
        })
    }
}

#[derive(Clone, Debug)]
enum Test {
    Or(Vec<Test>),
    And(Vec<Test>),
    Not(Box<Test>),
    Compare(Operand, Comparison, Operand),
    Exists(Query),
    Matches { is_whole: bool, text: Operand, pattern: Pattern },
}

#[derive(Clone, Copy, Debug)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

/// A part of a filter that is one value or none.
#[derive(Clone, Debug)]
enum Operand {
    Literal(Value),
    Query(Query),
    Length(Box<Operand>),
    Count(Query),
    Value(Query),
}

#[derive(Clone, Debug)]
enum Pattern {
    /// A literal.
    Known(Compiled),
    Asked(Operand),
}

/// A regular expression once it is compiled.
#[derive(Clone, Debug)]
struct Compiled {
    /// `None` if the text is no regular expression, which matches nothing.
    regex: Option<Regex>,
    /// Steps of a match for each 16 bytes of text.
    steps: u64,
}

/// A step from a value to one below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// To a member of an object.
    Name(&'a str),
    /// To an element of an array.
    Index(usize),
}

/// A value that was found, and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Found<'a> {
    /// The value.
    pub value: &'a Value,
    /// The steps that lead to it.
    pub steps: Vec<Step<'a>>,
}

impl Found<'_> {
    /// Its normalized path (RFC 9535, 2.7).
    pub fn path(&self) -> String {
        let mut path = String::from("$");
        for step in &self.steps {
            match step {
                Step::Index(index) => write!(path, "[{index}]").expect("memory takes it"),
                Step::Name(name) => {
                    path.push_str("['");
                    for char in name.chars() {
                        match char {
                            '\'' | '\\' => path.extend(['\\', char]),
                            '\u{8}' => path.push_str("\\b"),
                            '\u{c}' => path.push_str("\\f"),
                            '\n' => path.push_str("\\n"),
                            '\r' => path.push_str("\\r"),
                            '\t' => path.push_str("\\t"),
                            '\0'..='\u{1f}' => {
                                write!(path, "\\u{:04x}", char as u32).expect("memory takes it");
                            }
                            _ => path.push(char),
                        }
                    }
                    path.push_str("']");
                }
            }
        }
        path
    }

    /// The same as a JSON Pointer (RFC 6901).
    pub fn pointer(&self) -> String {
        let mut pointer = String::new();
        for step in &self.steps {
            match step {
                Step::Index(index) => write!(pointer, "/{index}").expect("memory takes it"),
                Step::Name(name) => {
                    pointer.push('/');
                    pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
                }
            }
        }
        pointer
    }
}

/// A query that takes more steps than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the query takes more than {0} steps; ask for a smaller document, or leave out a `..` or a filter"
)]
pub struct TooManySteps(pub u64);

impl FromStr for JsonPath {
    type Err = JsonPathError;

    /// # Errors
    /// [`JsonPathError`], which names the place.
    fn from_str(text: &str) -> Result<Self, JsonPathError> {
        parse::parse(text)
    }
}

impl JsonPath {
    /// The values of a document that it selects, in the order of the RFC, within so many steps.
    ///
    /// # Errors
    /// [`TooManySteps`].
    pub fn find<'a>(
        &self,
        document: &'a Value,
        steps_max: u64,
    ) -> Result<Vec<Found<'a>>, TooManySteps> {
        let places = vec![(0, None)];
        let mut run = Run { root: document, left: steps_max, steps_max, places };
        let nodes = run.segments(&self.segments, Node { value: document, place: 0 })?;
        nodes.into_iter().map(|node| run.found(node)).collect()
    }

    /// The first of them, of a number of steps that are left for several queries; behind an error none are.
    pub(crate) fn first_within<'a>(
        &self,
        document: &'a Value,
        steps_max: u64,
        left: &mut u64,
    ) -> Result<Option<&'a Value>, TooManySteps> {
        let mut run = Run { root: document, left: *left, steps_max, places: Vec::new() };
        let nodes = run.segments(&self.segments, Node { value: document, place: NOWHERE })?;
        let first = nodes.first().map(|node| node.value);
        if let Some(Value::String(text)) = first {
            // Whoever sorts by it looks at it again and again.
            run.step(text_steps(text))?;
        }
        *left = run.left;
        Ok(first)
    }
}

/// A value on the way; in a filter its place does not matter and is not kept.
#[derive(Clone, Copy)]
struct Node<'a> {
    value: &'a Value,
    place: u32,
}

/// The place of a value in a filter.
const NOWHERE: u32 = u32::MAX;

/// Steps of a value that is found. With 10^7 of them a million are found at most, which bounds the memory.
const FOUND_STEPS: u64 = 10;
/// The same within a filter, where neither place nor path is kept.
const FOUND_IN_FILTER_STEPS: u64 = 2;
/// Steps of a container on the way down, whose place is kept.
const DOWN_STEPS: u64 = 4;
/// Steps of a regular expression that is compiled: as long as 64 KiB of it may take.
const COMPILE_STEPS: u64 = 50_000;
/// Steps of each byte of its text: a class in it may stand for every letter that there is.
const COMPILE_BYTE_STEPS: u64 = 1_000;

/// Steps of a look at a text as a whole.
fn text_steps(text: &str) -> u64 {
    text.len() as u64 / 64
}

struct Run<'a> {
    root: &'a Value,
    left: u64,
    steps_max: u64,
    /// Each place by the one above it and the step from there.
    places: Vec<(u32, Option<Step<'a>>)>,
}

type Counted<T> = Result<T, TooManySteps>;

impl<'a> Run<'a> {
    fn step(&mut self, steps: u64) -> Counted<()> {
        self.left = self.left.checked_sub(steps).ok_or(TooManySteps(self.steps_max))?;
        Ok(())
    }

    fn segments(&mut self, segments: &[Segment], from: Node<'a>) -> Counted<Vec<Node<'a>>> {
        let mut nodes = vec![from];
        for segment in segments {
            let mut next = Vec::new();
            for node in nodes {
                if segment.is_descendant {
                    self.descend(&segment.selectors, node, &mut next)?;
                } else {
                    self.select(&segment.selectors, node, &mut next)?;
                }
            }
            nodes = next;
        }
        Ok(nodes)
    }

    /// A value with its path, of which each step counts: it is kept.
    fn found(&mut self, node: Node<'a>) -> Counted<Found<'a>> {
        let (mut place, mut steps) = (node.place, Vec::new());
        while let (parent, Some(step)) = self.places[place as usize] {
            steps.push(step);
            place = parent;
        }
        self.step(steps.len() as u64)?;
        steps.reverse();
        Ok(Found { value: node.value, steps })
    }

    /// A value that a selector finds.
    fn find(&mut self, node: Node<'a>, step: Step<'a>, value: &'a Value) -> Counted<Node<'a>> {
        let is_kept = node.place != NOWHERE;
        self.step(if is_kept { FOUND_STEPS } else { FOUND_IN_FILTER_STEPS })?;
        Ok(self.below(node, step, value))
    }

    fn below(&mut self, node: Node<'a>, step: Step<'a>, value: &'a Value) -> Node<'a> {
        if node.place == NOWHERE {
            return Node { value, place: NOWHERE };
        }
        // Steps are fewer than 2^32.
        let place = self.places.len() as u32;
        self.places.push((node.place, Some(step)));
        Node { value, place }
    }

    fn children(node: Node<'a>) -> Box<dyn Iterator<Item = (Step<'a>, &'a Value)> + 'a> {
        match node.value {
            Value::Array(list) => {
                Box::new(list.iter().enumerate().map(|(index, value)| (Step::Index(index), value)))
            }
            Value::Object(members) => {
                Box::new(members.iter().map(|(name, value)| (Step::Name(name), value)))
            }
            _ => Box::new(std::iter::empty()),
        }
    }

    /// Selects of a value and of all below it. Documents are at most as deep as JSON parsers take.
    fn descend(
        &mut self,
        selectors: &[Selector],
        node: Node<'a>,
        found: &mut Vec<Node<'a>>,
    ) -> Counted<()> {
        self.select(selectors, node, found)?;
        for (step, value) in Self::children(node) {
            // One that has nothing below it was looked at, too.
            self.step(1)?;
            if value.is_array() || value.is_object() {
                self.step(DOWN_STEPS)?;
                let node = self.below(node, step, value);
                self.descend(selectors, node, found)?;
            }
        }
        Ok(())
    }

    fn select(
        &mut self,
        selectors: &[Selector],
        node: Node<'a>,
        found: &mut Vec<Node<'a>>,
    ) -> Counted<()> {
        for selector in selectors {
            self.step(1)?;
            match (selector, node.value) {
                (Selector::Name(name), Value::Object(members)) => {
                    self.step(text_steps(name))?;
                    if let Some((name, value)) = members.get_key_value(name) {
                        found.push(self.find(node, Step::Name(name), value)?);
                    }
                }
                (Selector::Index(index), Value::Array(list)) => {
                    let index = from_end(*index, list.len());
                    if let Some(value) = usize::try_from(index).ok().and_then(|at| list.get(at)) {
                        found.push(self.find(node, Step::Index(index as usize), value)?);
                    }
                }
                (Selector::Slice { start, end, step }, Value::Array(list)) => {
                    for index in slice(*start, *end, *step, list.len()) {
                        found.push(self.find(node, Step::Index(index), &list[index])?);
                    }
                }
                (Selector::Wildcard, _) => {
                    for (step, value) in Self::children(node) {
                        found.push(self.find(node, step, value)?);
                    }
                }
                (Selector::Filter(test), _) => {
                    for (step, value) in Self::children(node) {
                        self.step(1)?;
                        if self.holds(test, value)? {
                            found.push(self.find(node, step, value)?);
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn query(&mut self, query: &Query, current: &'a Value) -> Counted<Vec<Node<'a>>> {
        let value = if query.is_absolute { self.root } else { current };
        self.segments(&query.segments, Node { value, place: NOWHERE })
    }

    fn holds(&mut self, test: &Test, current: &'a Value) -> Counted<bool> {
        self.step(1)?;
        Ok(match test {
            Test::Or(tests) => {
                for test in tests {
                    if self.holds(test, current)? {
                        return Ok(true);
                    }
                }
                false
            }
            Test::And(tests) => {
                for test in tests {
                    if !self.holds(test, current)? {
                        return Ok(false);
                    }
                }
                true
            }
            Test::Not(test) => !self.holds(test, current)?,
            Test::Exists(query) => !self.query(query, current)?.is_empty(),
            Test::Compare(left, comparison, right) => {
                let left = self.operand(left, current)?;
                let right = self.operand(right, current)?;
                self.step(match (left.as_deref(), right.as_deref()) {
                    (Some(Value::String(left)), Some(Value::String(right))) => {
                        text_steps(left).min(text_steps(right))
                    }
                    (Some(left), Some(Value::Array(_) | Value::Object(_))) => size(left),
                    // All others differ, or not, at one look.
                    _ => 0,
                })?;
                compare(left.as_deref(), *comparison, right.as_deref())
            }
            Test::Matches { is_whole, text, pattern } => {
                let text = self.operand(text, current)?;
                let Some(Value::String(text)) = text.as_deref() else { return Ok(false) };
                match pattern {
                    Pattern::Known(compiled) => self.matches(compiled, text)?,
                    Pattern::Asked(operand) => {
                        let pattern = self.operand(operand, current)?;
                        let Some(Value::String(pattern)) = pattern.as_deref() else {
                            return Ok(false);
                        };
                        let bytes = pattern.len() as u64;
                        self.step(COMPILE_STEPS + COMPILE_BYTE_STEPS.saturating_mul(bytes))?;
                        // One that is too large is none, as a document is not refused for what it holds.
                        match parse::regex(pattern, *is_whole) {
                            Ok(compiled) => self.matches(&compiled, text)?,
                            Err(parse::TooLarge) => false,
                        }
                    }
                }
            }
        })
    }

    fn matches(&mut self, Compiled { regex, steps }: &Compiled, text: &str) -> Counted<bool> {
        self.step((text.len() as u64).saturating_mul(*steps) / 16)?;
        Ok(regex.as_ref().is_some_and(|regex| regex.is_match(text)))
    }

    fn operand<'v>(
        &mut self,
        operand: &'v Operand,
        current: &'a Value,
    ) -> Counted<Option<std::borrow::Cow<'v, Value>>>
    where
        'a: 'v,
    {
        use std::borrow::Cow;
        Ok(match operand {
            Operand::Literal(value) => Some(Cow::Borrowed(value)),
            Operand::Query(query) | Operand::Value(query) => {
                match self.query(query, current)?[..] {
                    [one] => Some(Cow::Borrowed(one.value)),
                    _ => None,
                }
            }
            Operand::Count(query) => {
                let count = self.query(query, current)?.len();
                Some(Cow::Owned(Value::from(count)))
            }
            Operand::Length(inner) => {
                let length = match self.operand(inner, current)?.as_deref() {
                    Some(Value::String(text)) => {
                        self.step(text_steps(text))?;
                        text.chars().count()
                    }
                    Some(Value::Array(list)) => list.len(),
                    Some(Value::Object(members)) => members.len(),
                    _ => return Ok(None),
                };
                Some(Cow::Owned(Value::from(length)))
            }
        })
    }
}

/// The values that a comparison may look at.
fn size(value: &Value) -> u64 {
    match value {
        Value::Array(list) => 1 + list.iter().map(size).sum::<u64>(),
        Value::Object(all) => {
            1 + all.iter().map(|(name, value)| text_steps(name) + size(value)).sum::<u64>()
        }
        Value::String(text) => 1 + text_steps(text),
        _ => 1,
    }
}

fn from_end(index: i64, len: usize) -> i64 {
    if index < 0 { index + len as i64 } else { index }
}

/// The indexes of a slice (RFC 9535, 2.3.4.2.2).
fn slice(start: Option<i64>, end: Option<i64>, step: i64, len: usize) -> Vec<usize> {
    let len_i = len as i64;
    let mut indexes = Vec::new();
    if step > 0 {
        let mut at = from_end(start.unwrap_or(0), len).clamp(0, len_i);
        let end = from_end(end.unwrap_or(len_i), len).clamp(0, len_i);
        while at < end {
            indexes.push(at as usize);
            at += step;
        }
    } else if step < 0 {
        let mut at = start.map_or(len_i - 1, |start| from_end(start, len)).clamp(-1, len_i - 1);
        let end = end.map_or(-1, |end| from_end(end, len)).clamp(-1, len_i - 1);
        while at > end {
            indexes.push(at as usize);
            at += step;
        }
    }
    indexes
}

fn compare(left: Option<&Value>, comparison: Comparison, right: Option<&Value>) -> bool {
    match comparison {
        Comparison::Equal => equal(left, right),
        Comparison::Unequal => !equal(left, right),
        Comparison::Less => less(left, right),
        Comparison::Greater => less(right, left),
        Comparison::AtMost => less(left, right) || equal(left, right),
        Comparison::AtLeast => less(right, left) || equal(left, right),
    }
}

fn equal(left: Option<&Value>, right: Option<&Value>) -> bool {
    match (left, right) {
        (None, None) => true,
        (Some(left), Some(right)) => is_equal(left, right),
        _ => false,
    }
}

fn less(left: Option<&Value>, right: Option<&Value>) -> bool {
    match (left, right) {
        (Some(Value::Number(left)), Some(Value::Number(right))) => {
            number_order(left, right) == Some(Ordering::Less)
        }
        (Some(Value::String(left)), Some(Value::String(right))) => left < right,
        _ => false,
    }
}

/// The order of values of any kinds, for a list that is to be sorted: nothing, null, false, true, numbers, texts,
/// arrays, objects. Arrays are equal among each other, and so are objects.
pub(crate) fn order(left: Option<&Value>, right: Option<&Value>) -> Ordering {
    let rank = |value: Option<&Value>| match value {
        None => 0,
        Some(Value::Null) => 1,
        Some(Value::Bool(false)) => 2,
        Some(Value::Bool(true)) => 3,
        Some(Value::Number(_)) => 4,
        Some(Value::String(_)) => 5,
        Some(Value::Array(_)) => 6,
        Some(Value::Object(_)) => 7,
    };
    rank(left).cmp(&rank(right)).then_with(|| match (left, right) {
        (Some(Value::Number(left)), Some(Value::Number(right))) => {
            number_order(left, right).unwrap_or(Ordering::Equal)
        }
        (Some(Value::String(left)), Some(Value::String(right))) => left.cmp(right),
        _ => Ordering::Equal,
    })
}
