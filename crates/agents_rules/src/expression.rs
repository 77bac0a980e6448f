//! Expressions in CEL: read once, checked against the names and kinds of a file, and compiled to a tree
//! of plain operations where they are arithmetic, comparison and logic; all else is interpreted.

use std::sync::Arc;

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators as op};
use cel::common::types::CelDouble;
use cel::{Context, ExecutionError, Program};

use crate::value::{Kind, Value};

/// A name that an expression may use.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) slot: Slot,
}

/// The place of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// A field of the agent's state.
    State(usize),
    /// A field of the message.
    Field(usize),
}

/// The values that an expression sees. Those that it uses are there: [`Expression::is_ready`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) state: &'a [Option<Value>],
    pub(crate) fields: &'a [Value],
}

impl Scope<'_> {
    fn value(&self, slot: Slot) -> &Value {
        match slot {
            Slot::State(at) => self.state[at].as_ref().expect("seen to be there before"),
            Slot::Field(at) => &self.fields[at],
        }
    }
}

/// The cause why a text is no expression here.
#[derive(Debug)]
pub(crate) struct Wrong {
    /// The part of the text that is meant \[bytes\].
    pub(crate) span: std::ops::Range<usize>,
    pub(crate) cause: String,
}

/// An expression that gives a value of a known kind.
#[derive(Debug)]
pub(crate) struct Expression {
    pub(crate) way: Way,
    names: Arc<[Name]>,
    /// Fields of the state that it uses.
    state: Vec<usize>,
}

/// The way in which an expression is evaluated.
#[derive(Debug)]
pub(crate) enum Way {
    /// As plain operations.
    Native(Native),
    /// By the interpreter of CEL.
    Interpreted(IdedExpr),
}

/// Plain operations.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Native {
    Constant(Value),
    Value(Slot, Kind),
    Negative(Box<Native>),
    Not(Box<Native>),
    Arithmetic(Arithmetic, Box<(Native, Native)>),
    Compare(Order, Box<(Native, Native)>),
    Equal(Box<(Native, Native)>),
    And(Box<(Native, Native)>),
    Or(Box<(Native, Native)>),
    If(Box<(Native, Native, Native)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// Comparisons of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Less,
    AtMost,
    More,
    AtLeast,
}

impl Order {
    /// The same comparison with its sides exchanged.
    pub(crate) fn flipped(self) -> Order {
        match self {
            Order::Less => Order::More,
            Order::AtMost => Order::AtLeast,
            Order::More => Order::Less,
            Order::AtLeast => Order::AtMost,
        }
    }
}

/// The cause why a part is not compiled.
enum Stop {
    /// It is right, but no plain operation.
    Other,
    /// It is wrong.
    Wrong(Wrong),
}

impl Expression {
    /// An expression that gives a value of a kind.
    pub(crate) fn read(text: &str, names: &Arc<[Name]>, kind: Kind) -> Result<Expression, Wrong> {
        let program = Program::compile(text).map_err(|errors| {
            let first = errors.errors.first();
            let at = first.map_or(0, |error| offset(text, error.pos));
            let cause = first.map_or_else(String::new, |error| in_plain_words(&error.msg));
            Wrong {
                span: at..text.len().min(at + 1),
                cause: format!("it is no expression of CEL: {cause}"),
            }
        })?;
        let reader = Reader { program: &program, text, names };
        let tree = program.expression();
        reader.check_names(tree)?;
        let mut state = Vec::new();
        reader.uses(tree, &mut state);
        let way = match reader.native(tree) {
            Ok((native, found)) if found == kind => Way::Native(native),
            Ok((_, found)) => {
                return Err(reader.wrong(tree, format!("it gives {found}, and {kind} is wanted")));
            }
            Err(Stop::Wrong(wrong)) => return Err(wrong),
            Err(Stop::Other) => Way::Interpreted(reader.with_numbers(tree)),
        };
        let it = Expression { way, names: names.clone(), state };
        it.try_out(kind).map_err(|cause| reader.wrong(tree, cause))?;
        Ok(it)
    }

    /// True if all fields of the state that it uses have values.
    pub(crate) fn is_ready(&self, state: &[Option<Value>]) -> bool {
        self.state.iter().all(|&at| state[at].is_some())
    }

    /// Its value.
    pub(crate) fn value(&self, scope: Scope<'_>) -> Result<Value, String> {
        match &self.way {
            Way::Native(native) => Ok(native.value(scope)),
            Way::Interpreted(tree) => interpreted(tree, &self.names, scope),
        }
    }

    /// True or false; of an expression of that kind.
    pub(crate) fn truth(&self, scope: Scope<'_>) -> Result<bool, String> {
        match self.value(scope)? {
            Value::Bool(it) => Ok(it),
            other => Err(format!("it gives {}, not true or false", other.kind())),
        }
    }

    /// An interpreted expression runs once on samples, so that operations that are not there are told
    /// when the file is read.
    fn try_out(&self, kind: Kind) -> Result<(), String> {
        let Way::Interpreted(tree) = &self.way else { return Ok(()) };
        let (mut state, mut fields) = (Vec::new(), Vec::new());
        for name in self.names.iter() {
            match name.slot {
                Slot::State(at) => {
                    state.resize(state.len().max(at + 1), None);
                    state[at] = Some(name.kind.sample());
                }
                Slot::Field(at) => {
                    fields.resize(fields.len().max(at + 1), Value::Bool(false));
                    fields[at] = name.kind.sample();
                }
            }
        }
        let scope = Scope { state: &state, fields: &fields };
        let found = match resolve(tree, &self.names, scope) {
            Ok(found) => found,
            // Samples may be out of a function's range; what is no operation at all is wrong.
            Err(
                ExecutionError::DivisionByZero(_)
                | ExecutionError::RemainderByZero(_)
                | ExecutionError::Overflow(..)
                | ExecutionError::IndexOutOfBounds(_)
                | ExecutionError::NoSuchKey(_)
                | ExecutionError::FunctionError { .. },
            ) => return Ok(()),
            Err(error) => return Err(format!("it cannot be evaluated: {error}")),
        };
        let found = of_cel(found)?;
        match found.kind() == kind {
            true => Ok(()),
            false => Err(format!("it gives {}, and {kind} is wanted", found.kind())),
        }
    }
}

/// A text's place from the parser's line and column.
fn offset(text: &str, (line, column): (isize, isize)) -> usize {
    let line = usize::try_from(line - 1).unwrap_or(0);
    let before: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let column = usize::try_from(column - 1).unwrap_or(0);
    let rest = &text[before.min(text.len())..];
    let at = rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at);
    (before + at).min(text.len().saturating_sub(1))
}

/// The parser's words in one line.
fn in_plain_words(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    let cut: String = first.chars().take(120).collect();
    match cut.strip_prefix("Syntax error: ") {
        Some(rest) => rest.to_owned(),
        None => cut,
    }
}

struct Reader<'a> {
    program: &'a Program,
    text: &'a str,
    names: &'a [Name],
}

impl Reader<'_> {
    fn wrong(&self, at: &IdedExpr, cause: String) -> Wrong {
        let (start, stop) = self.extent(at);
        Wrong { span: start..stop, cause }
    }

    /// The bytes from which to which a part reaches.
    fn extent(&self, at: &IdedExpr) -> (usize, usize) {
        let place = self.program.source_info().offset_for(at.id);
        let chars =
            |n: u32| self.text.char_indices().nth(n as usize).map_or(self.text.len(), |(at, _)| at);
        // Offsets are those of the first and the last character.
        let (mut start, mut stop) =
            place.map_or((0, self.text.len()), |(a, b)| (chars(a), chars(b.max(a) + 1)));
        // A call's offset is that of its parenthesis.
        if let Expr::Call(call) = &at.expr
            && self.text[..start].ends_with(&call.func_name)
        {
            start -= call.func_name.len();
        }
        for child in children(&at.expr) {
            let (from, to) = self.extent(child);
            (start, stop) = (start.min(from), stop.max(to));
        }
        (start, stop)
    }

    /// Every name that stands free is one of the file.
    fn check_names(&self, tree: &IdedExpr) -> Result<(), Wrong> {
        self.check_free(tree, &mut Vec::new())
    }

    fn check_free(&self, at: &IdedExpr, bound: &mut Vec<String>) -> Result<(), Wrong> {
        match &at.expr {
            Expr::Ident(name) => {
                if bound.contains(name) || self.name(name).is_some() {
                    return Ok(());
                }
                let known = self.names.iter().map(|name| name.name.as_str());
                let way_out = match measure::nearest(name, known.clone()) {
                    Some(nearest) => format!("did you mean `{nearest}`?"),
                    None => format!("known here: {}", known.collect::<Vec<_>>().join(", ")),
                };
                Err(self.wrong(at, format!("unknown name `{name}`; {way_out}")))
            }
            Expr::Comprehension(inner) => {
                self.check_free(&inner.iter_range, bound)?;
                self.check_free(&inner.accu_init, bound)?;
                let before = bound.len();
                bound.extend([inner.iter_var.clone(), inner.accu_var.clone()]);
                bound.extend(inner.iter_var2.clone());
                for part in [&inner.loop_cond, &inner.loop_step, &inner.result] {
                    self.check_free(part, bound)?;
                }
                bound.truncate(before);
                Ok(())
            }
            other => children(other).into_iter().try_for_each(|it| self.check_free(it, bound)),
        }
    }

    fn name(&self, name: &str) -> Option<&Name> {
        self.names.iter().find(|it| it.name == name)
    }

    /// Fields of the state that stand in it.
    fn uses(&self, at: &IdedExpr, state: &mut Vec<usize>) {
        if let Expr::Ident(name) = &at.expr
            && let Some(Name { slot: Slot::State(slot), .. }) = self.name(name)
            && !state.contains(slot)
        {
            state.push(*slot);
        }
        if let Expr::Comprehension(inner) = &at.expr {
            let parts = [
                &inner.iter_range,
                &inner.accu_init,
                &inner.loop_cond,
                &inner.loop_step,
                &inner.result,
            ];
            parts.into_iter().for_each(|part| self.uses(part, state));
        }
        children(&at.expr).into_iter().for_each(|child| self.uses(child, state));
    }

    fn native(&self, at: &IdedExpr) -> Result<(Native, Kind), Stop> {
        match &at.expr {
            Expr::Literal(LiteralValue::Int(it)) => number(*it.inner() as f64),
            Expr::Literal(LiteralValue::Double(it)) => number(*it.inner()),
            Expr::Literal(LiteralValue::Boolean(it)) => {
                Ok((Native::Constant(Value::Bool(*it.inner())), Kind::Bool))
            }
            Expr::Literal(LiteralValue::String(it)) => {
                Ok((Native::Constant(Value::Text(it.inner().into())), Kind::Text))
            }
            Expr::Ident(name) => match self.name(name) {
                Some(name) => Ok((Native::Value(name.slot, name.kind), name.kind)),
                None => Err(Stop::Other),
            },
            Expr::Call(call) if call.target.is_none() => self.native_call(at, call),
            _ => Err(Stop::Other),
        }
    }

    fn native_call(&self, at: &IdedExpr, call: &CallExpr) -> Result<(Native, Kind), Stop> {
        let parts = call.args.iter().map(|arg| self.native(arg));
        let parts: Vec<(Native, Kind)> = parts.collect::<Result<_, _>>()?;
        let function = call.func_name.as_str();
        let refuse = |cause: String| Err(Stop::Wrong(self.wrong(at, cause)));
        let told = |wanted: Kind| match parts.iter().find(|(_, kind)| *kind != wanted) {
            Some((_, kind)) => format!("{wanted} is wanted on each side, and here is {kind}"),
            None => String::new(),
        };
        let all = |kind: Kind| parts.iter().all(|(_, found)| *found == kind);
        let (arithmetic, order) = (arithmetic(function), order(function));
        let kinds: Vec<Kind> = parts.iter().map(|(_, kind)| *kind).collect();
        // Texts have an order and a sum in CEL, too.
        let texts = (arithmetic == Some(Arithmetic::Add) || order.is_some()) && all(Kind::Text);
        if texts {
            return Err(Stop::Other);
        }
        let mut own = parts.clone().into_iter().map(|(native, _)| native);
        let mut next = || own.next().expect("an operator has its operands");
        Ok(match (function, kinds.as_slice()) {
            (op::NEGATE, [kind]) => match kind {
                Kind::Number => (Native::Negative(Box::new(next())), Kind::Number),
                _ => return refuse(format!("only a number can be negative, and here is {kind}")),
            },
            (op::LOGICAL_NOT, [kind]) => match kind {
                Kind::Bool => (Native::Not(Box::new(next())), Kind::Bool),
                _ => {
                    return refuse(format!(
                        "true or false is wanted behind `!`, and here is {kind}"
                    ));
                }
            },
            (op::LOGICAL_AND | op::LOGICAL_OR, [_, _]) if !all(Kind::Bool) => {
                return refuse(told(Kind::Bool));
            }
            (op::LOGICAL_AND, [_, _]) => (Native::And(Box::new((next(), next()))), Kind::Bool),
            (op::LOGICAL_OR, [_, _]) => (Native::Or(Box::new((next(), next()))), Kind::Bool),
            (op::EQUALS | op::NOT_EQUALS, [one, other]) if one != other => {
                return refuse(format!("{one} never equals {other}"));
            }
            (op::EQUALS, [_, _]) => (Native::Equal(Box::new((next(), next()))), Kind::Bool),
            (op::NOT_EQUALS, [_, _]) => {
                let equal = Native::Equal(Box::new((next(), next())));
                (Native::Not(Box::new(equal)), Kind::Bool)
            }
            (op::CONDITIONAL, [Kind::Bool, one, other]) if one == other => {
                (Native::If(Box::new((next(), next(), next()))), *one)
            }
            (op::CONDITIONAL, [Kind::Bool, one, other]) => {
                return refuse(format!("it gives {one} or {other}: both must be of one kind"));
            }
            (op::CONDITIONAL, [kind, ..]) => {
                return refuse(format!("true or false is wanted before `?`, and here is {kind}"));
            }
            (_, [_, _]) if arithmetic.is_some() || order.is_some() => {
                if !all(Kind::Number) {
                    return refuse(told(Kind::Number));
                }
                let both = Box::new((next(), next()));
                match (arithmetic, order) {
                    (Some(arithmetic), _) => (Native::Arithmetic(arithmetic, both), Kind::Number),
                    (_, Some(order)) => (Native::Compare(order, both), Kind::Bool),
                    _ => unreachable!("one of both, as asked above"),
                }
            }
            _ => return Err(Stop::Other),
        })
    }

    /// The tree with whole numbers as numbers with a fraction wherever they meet values of a file, which
    /// are such: CEL adds no whole number to one.
    fn with_numbers(&self, at: &IdedExpr) -> IdedExpr {
        let is_plain = !matches!(at.expr, Expr::Literal(_)) && self.native(at).is_ok();
        if is_plain { with_fractions(at) } else { mapped(at, &|child| self.with_numbers(child)) }
    }
}

/// The arithmetic of an operator of CEL.
fn arithmetic(function: &str) -> Option<Arithmetic> {
    match function {
        op::ADD => Some(Arithmetic::Add),
        op::SUBSTRACT => Some(Arithmetic::Subtract),
        op::MULTIPLY => Some(Arithmetic::Multiply),
        op::DIVIDE => Some(Arithmetic::Divide),
        _ => None,
    }
}

/// The comparison of an operator of CEL.
fn order(function: &str) -> Option<Order> {
    match function {
        op::LESS => Some(Order::Less),
        op::LESS_EQUALS => Some(Order::AtMost),
        op::GREATER => Some(Order::More),
        op::GREATER_EQUALS => Some(Order::AtLeast),
        _ => None,
    }
}

fn number(it: f64) -> Result<(Native, Kind), Stop> {
    Ok((Native::Constant(Value::Number(it)), Kind::Number))
}

/// The tree of plain operations with all its whole numbers as numbers with a fraction.
pub(crate) fn with_fractions(at: &IdedExpr) -> IdedExpr {
    match &at.expr {
        Expr::Literal(LiteralValue::Int(it)) => {
            let number = CelDouble::from(*it.inner() as f64);
            IdedExpr { id: at.id, expr: Expr::Literal(LiteralValue::Double(number)) }
        }
        _ => mapped(at, &with_fractions),
    }
}

/// The same call with other operands; anything else as it is.
fn mapped(at: &IdedExpr, change: &dyn Fn(&IdedExpr) -> IdedExpr) -> IdedExpr {
    let Expr::Call(call) = &at.expr else { return at.clone() };
    let call = CallExpr {
        func_name: call.func_name.clone(),
        target: call.target.as_ref().map(|target| Box::new(change(target))),
        args: call.args.iter().map(change).collect(),
    };
    IdedExpr { id: at.id, expr: Expr::Call(call) }
}

/// The parts of an expression, but for those of a comprehension.
pub(crate) fn children(expr: &Expr) -> Vec<&IdedExpr> {
    match expr {
        Expr::Call(call) => call.target.iter().map(|it| &**it).chain(&call.args).collect(),
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Select(select) => vec![&select.operand],
        _ => Vec::new(),
    }
}

impl Native {
    pub(crate) fn value(&self, scope: Scope<'_>) -> Value {
        match self {
            Native::Constant(value) => value.clone(),
            Native::Value(slot, _) => scope.value(*slot).clone(),
            Native::If(parts) => {
                let (condition, one, other) = &**parts;
                if condition.truth(scope) { one.value(scope) } else { other.value(scope) }
            }
            Native::Negative(_) | Native::Arithmetic(..) => Value::Number(self.number(scope)),
            _ => Value::Bool(self.truth(scope)),
        }
    }

    /// The value of one of the kind number.
    pub(crate) fn number(&self, scope: Scope<'_>) -> f64 {
        match self {
            Native::Negative(inner) => -inner.number(scope),
            Native::Arithmetic(arithmetic, both) => {
                let (one, other) = (both.0.number(scope), both.1.number(scope));
                match arithmetic {
                    Arithmetic::Add => one + other,
                    Arithmetic::Subtract => one - other,
                    Arithmetic::Multiply => one * other,
                    Arithmetic::Divide => one / other,
                }
            }
            Native::Value(slot, _) => match scope.value(*slot) {
                Value::Number(it) => *it,
                other => unreachable!("{other:?}: kinds were checked"),
            },
            other => match other.value(scope) {
                Value::Number(it) => it,
                other => unreachable!("{other:?}: kinds were checked"),
            },
        }
    }

    fn truth(&self, scope: Scope<'_>) -> bool {
        match self {
            Native::Not(inner) => !inner.truth(scope),
            Native::And(both) => both.0.truth(scope) && both.1.truth(scope),
            Native::Or(both) => both.0.truth(scope) || both.1.truth(scope),
            Native::Equal(both) => both.0.value(scope) == both.1.value(scope),
            Native::Compare(order, both) => {
                let (one, other) = (both.0.number(scope), both.1.number(scope));
                match order {
                    Order::Less => one < other,
                    Order::AtMost => one <= other,
                    Order::More => one > other,
                    Order::AtLeast => one >= other,
                }
            }
            other => match other.value(scope) {
                Value::Bool(it) => it,
                other => unreachable!("{other:?}: kinds were checked"),
            },
        }
    }

    /// True if it needs no message.
    pub(crate) fn is_of_state(&self) -> bool {
        match self {
            Native::Constant(_) => true,
            Native::Value(slot, _) => matches!(slot, Slot::State(_)),
            Native::Negative(inner) | Native::Not(inner) => inner.is_of_state(),
            Native::Arithmetic(_, both)
            | Native::Compare(_, both)
            | Native::Equal(both)
            | Native::And(both)
            | Native::Or(both) => both.0.is_of_state() && both.1.is_of_state(),
            Native::If(parts) => {
                parts.0.is_of_state() && parts.1.is_of_state() && parts.2.is_of_state()
            }
        }
    }
}

fn resolve(
    tree: &IdedExpr,
    names: &[Name],
    scope: Scope<'_>,
) -> Result<cel::Value, ExecutionError> {
    let mut context = Context::default();
    // Fields without a value are not used: that was asked before.
    for name in names {
        let value = match name.slot {
            Slot::State(at) => scope.state.get(at).and_then(Option::as_ref),
            Slot::Field(at) => scope.fields.get(at),
        };
        let value = match value {
            None => continue,
            Some(Value::Number(it)) => cel::Value::Float(*it),
            Some(Value::Text(it)) => cel::Value::String(Arc::new((**it).to_owned())),
            Some(Value::Bool(it)) => cel::Value::Bool(*it),
        };
        context.add_variable_from_value(name.name.clone(), value);
    }
    cel::Value::resolve(tree, &context)
}

/// The value of a tree by the interpreter.
pub(crate) fn interpreted(
    tree: &IdedExpr,
    names: &[Name],
    scope: Scope<'_>,
) -> Result<Value, String> {
    let found = resolve(tree, names, scope);
    of_cel(found.map_err(|error| error.to_string())?)
}

fn of_cel(value: cel::Value) -> Result<Value, String> {
    match value {
        cel::Value::Float(it) if !it.is_nan() => Ok(Value::Number(it)),
        cel::Value::Float(_) => Err("it gives no number".to_owned()),
        cel::Value::Int(it) => Ok(Value::Number(it as f64)),
        cel::Value::UInt(it) => Ok(Value::Number(it as f64)),
        cel::Value::Bool(it) => Ok(Value::Bool(it)),
        cel::Value::String(it) => Ok(Value::Text(it.as_str().into())),
        other => Err(format!(
            "it gives a {}; numbers, texts, true and false can be kept",
            other.type_of()
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::{Expression, Name, Scope, Slot, Way, interpreted, with_fractions};
    use crate::value::{Kind, Value};

    fn names() -> Arc<[Name]> {
        let name = |name: &str, kind, slot| Name { name: name.to_owned(), kind, slot };
        [
            name("price", Kind::Number, Slot::Field(0)),
            name("venue", Kind::Text, Slot::Field(1)),
            name("high", Kind::Number, Slot::State(0)),
            name("on", Kind::Bool, Slot::State(1)),
            name("owner", Kind::Text, Slot::State(2)),
        ]
        .into()
    }

    /// A random expression of a kind, at most so deep.
    fn random(rng: &mut Xoshiro256PlusPlus, kind: Kind, depth: u32) -> String {
        let leaf = depth == 0 || rng.random_range(0..5) == 0;
        let mut inner = |kind| random(rng, kind, depth.saturating_sub(1));
        match (kind, leaf) {
            (Kind::Number, true) => {
                ["price", "high", "2", "0.5", "0", "-3"][rng.random_range(0..6)].to_owned()
            }
            (Kind::Text, _) => ["venue", "owner", "'x'"][rng.random_range(0..3)].to_owned(),
            (Kind::Bool, true) => ["on", "true", "false"][rng.random_range(0..3)].to_owned(),
            (Kind::Number, false) => {
                let (one, other, third) =
                    (inner(Kind::Number), inner(Kind::Number), inner(Kind::Bool));
                match rng.random_range(0..6) {
                    0 => format!("({one} + {other})"),
                    1 => format!("({one} - {other})"),
                    2 => format!("({one} * {other})"),
                    3 => format!("({one} / {other})"),
                    4 => format!("-({one})"),
                    _ => format!("({third} ? {one} : {other})"),
                }
            }
            (Kind::Bool, false) => {
                let (one, other) = (inner(Kind::Number), inner(Kind::Number));
                let (left, right) = (inner(Kind::Bool), inner(Kind::Bool));
                let (text, same) = (inner(Kind::Text), inner(Kind::Text));
                match rng.random_range(0..9) {
                    0 => format!("{one} < {other}"),
                    1 => format!("{one} <= {other}"),
                    2 => format!("{one} > {other}"),
                    3 => format!("{one} >= {other}"),
                    4 => format!("({left} && {right})"),
                    5 => format!("({left} || {right})"),
                    6 => format!("!({left})"),
                    7 => format!("({text} == {same})"),
                    _ => format!("({one} != {other})"),
                }
            }
        }
    }

    /// The interpreter of CEL is the witness; divisions by zero and their sums are among the numbers. Where it
    /// gives an error, which comparisons with no number do, there is nothing to compare.
    #[test]
    fn compiled_and_interpreted_agree() {
        let seeds = match std::env::var("SEKISHO_SEED") {
            Ok(seed) => vec![seed.parse().expect("a number")],
            Err(_) => (0..3_000).collect::<Vec<u64>>(),
        };
        let (mut compared, mut truths) = (0, 0);
        for seed in seeds {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            let text = random(&mut rng, Kind::Bool, 4);
            let names = names();
            let read = Expression::read(&text, &names, Kind::Bool)
                .unwrap_or_else(|wrong| panic!("SEKISHO_SEED={seed}: {text}: {wrong:?}"));
            let Way::Native(native) = &read.way else { panic!("SEKISHO_SEED={seed}: {text}") };
            let program = cel::Program::compile(&text).unwrap();
            let tree = with_fractions(program.expression());
            for _ in 0..5 {
                let number = |rng: &mut Xoshiro256PlusPlus| {
                    Value::Number(f64::from(rng.random_range(-4_i32..5)) / 2.0)
                };
                let text_of = |rng: &mut Xoshiro256PlusPlus| {
                    Value::Text(["x", "y"][rng.random_range(0..2)].into())
                };
                let fields = [number(&mut rng), text_of(&mut rng)];
                let state = [
                    Some(number(&mut rng)),
                    Some(Value::Bool(rng.random())),
                    Some(text_of(&mut rng)),
                ];
                let scope = Scope { state: &state, fields: &fields };
                if let Ok(by_cel) = interpreted(&tree, &names, scope) {
                    let own = native.value(scope);
                    assert_eq!(own, by_cel, "SEKISHO_SEED={seed}: {text}: {state:?} {fields:?}");
                    compared += 1;
                    truths += u64::from(own == Value::Bool(true));
                }
            }
        }
        if std::env::var("SEKISHO_SEED").is_err() {
            assert!(compared > 10_000 && truths > 2_000, "{compared}, {truths}");
        }
    }

    #[test]
    fn functions_are_interpreted_beside_numbers_of_the_file() {
        let state =
            [Some(Value::Number(4.0)), Some(Value::Bool(true)), Some(Value::Text("ab".into()))];
        let fields = [Value::Number(5.0), Value::Text("abc".into())];
        let scope = Scope { state: &state, fields: &fields };
        for (text, truth) in [
            ("venue.startsWith(owner) && price > high + 0", true),
            ("size(venue) > 3", false),
            ("venue in ['abc', 'd'] && price - 1 == high", true),
            ("[1, 2].exists(n, n > 1)", true),
        ] {
            let read = Expression::read(text, &names(), Kind::Bool);
            let read = read.unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"));
            assert!(matches!(read.way, Way::Interpreted(_)), "{text}");
            assert_eq!(read.truth(scope), Ok(truth), "{text}");
        }
    }
}
