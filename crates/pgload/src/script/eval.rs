//! Values of expressions, by pgbench's rules: NULL in, NULL out; integers stay integers, and overflow
//! is an error.

use workload::Chance;

use super::expr::{Expr, Function};
use super::random;
use super::value::{EvalError, Value};

/// Variables of one client, by their numbers.
pub type Variables = [Option<Value>];

/// The value of an expression. `name` gives a variable's name, for an error.
pub(super) fn eval(
    expr: &Expr,
    variables: &Variables,
    name: &dyn Fn(usize) -> String,
    chance: &mut Chance,
) -> Result<Value, EvalError> {
    match expr {
        Expr::Constant(value) => Ok(value.clone()),
        Expr::Variable(number) => match variables.get(*number).and_then(Option::as_ref) {
            Some(value) => value.typed(),
            None => Err(EvalError::Unset(name(*number))),
        },
        Expr::Case(arms, otherwise) => {
            for (condition, result) in arms {
                if eval(condition, variables, name, chance)?.truth() {
                    return eval(result, variables, name, chance);
                }
            }
            eval(otherwise, variables, name, chance)
        }
        Expr::Call(function @ (Function::And | Function::Or), operands) => {
            let decides = *function == Function::Or;
            lazily(decides, operands, |operand| eval(operand, variables, name, chance))
        }
        Expr::Call(function, operands) => {
            let mut values = Vec::with_capacity(operands.len());
            for operand in operands {
                values.push(eval(operand, variables, name, chance)?);
            }
            if *function != Function::Is && values.contains(&Value::Null) {
                return Ok(Value::Null);
            }
            call(*function, &values, chance)
        }
    }
}

/// AND and OR in SQL's logic of three values: an operand that decides ends it.
fn lazily(
    decides: bool,
    operands: &[Expr],
    mut eval: impl FnMut(&Expr) -> Result<Value, EvalError>,
) -> Result<Value, EvalError> {
    let mut unknown = false;
    for operand in operands {
        match eval(operand)? {
            Value::Null => unknown = true,
            value if value.bool()? == decides => return Ok(Value::Bool(decides)),
            _ => {}
        }
    }
    Ok(if unknown { Value::Null } else { Value::Bool(!decides) })
}

fn call(function: Function, values: &[Value], chance: &mut Chance) -> Result<Value, EvalError> {
    use Function as F;
    let int = |at: usize| values[at].int();
    let double = |at: usize| values[at].double();
    Ok(match function {
        F::Add | F::Subtract | F::Multiply | F::Divide => arithmetic(function, values)?,
        F::Equal | F::NotEqual | F::Less | F::LessOrEqual => comparison(function, values)?,
        F::Greatest | F::Least => extreme(function, values)?,
        F::Remainder => match (int(0)?, int(1)?) {
            (_, 0) => return Err(EvalError::Division),
            (left, right) => Value::Int(left.wrapping_rem(right)),
        },
        F::BitAnd => Value::Int(int(0)? & int(1)?),
        F::BitOr => Value::Int(int(0)? | int(1)?),
        F::BitXor => Value::Int(int(0)? ^ int(1)?),
        F::ShiftLeft => Value::Int(int(0)?.wrapping_shl(int(1)? as u32)),
        F::ShiftRight => Value::Int(int(0)?.wrapping_shr(int(1)? as u32)),
        F::Not => Value::Bool(!values[0].bool()?),
        F::Is => Value::Bool(values[0] == values[1]),
        F::Absolute => match values[0] {
            Value::Double(value) => Value::Double(value.abs()),
            _ => Value::Int(int(0)?.checked_abs().ok_or(EvalError::Overflow)?),
        },
        F::Double => Value::Double(double(0)?),
        F::Integer => Value::Int(int(0)?),
        F::Pi => Value::Double(std::f64::consts::PI),
        F::SquareRoot => Value::Double(double(0)?.sqrt()),
        F::Logarithm => Value::Double(double(0)?.ln()),
        F::Exponential => Value::Double(double(0)?.exp()),
        F::Power => Value::Double(double(0)?.powf(double(1)?)),
        F::HashFnv1a => Value::Int(random::fnv1a(int(0)?, int(1)?)),
        F::HashMurmur2 => Value::Int(random::murmur2(int(0)?, int(1)?)),
        F::Permute => Value::Int(random::permute(int(0)?, int(1)?, int(2)?)?),
        F::Random | F::RandomExponential | F::RandomGaussian | F::RandomZipfian => {
            drawn(function, values, chance)?
        }
        F::And | F::Or => unreachable!("they are evaluated lazily"),
    })
}

fn drawn(function: Function, values: &[Value], chance: &mut Chance) -> Result<Value, EvalError> {
    let (min, max) = (values[0].int()?, values[1].int()?);
    if min > max {
        let is = format!("{min} to {max}");
        return Err(EvalError::Range { what: "a random range", must: "not empty", is });
    }
    if max.checked_sub(min).and_then(|width| width.checked_add(1)).is_none() {
        let is = format!("{min} to {max}");
        return Err(EvalError::Range { what: "a random range", must: "below 2^63 wide", is });
    }
    if function == Function::Random {
        return Ok(Value::Int(random::uniform(min, max, chance)));
    }
    let parameter = values[2].double()?;
    Ok(Value::Int(match function {
        Function::RandomExponential => random::exponential((min, max), parameter, chance)?,
        Function::RandomGaussian => random::gaussian((min, max), parameter, chance)?,
        _ => random::zipfian((min, max), parameter, chance)?,
    }))
}

fn any_double(values: &[Value]) -> bool {
    values.iter().any(|value| matches!(value, Value::Double(_)))
}

fn arithmetic(function: Function, values: &[Value]) -> Result<Value, EvalError> {
    if any_double(values) {
        let (left, right) = (values[0].double()?, values[1].double()?);
        return Ok(Value::Double(match function {
            Function::Add => left + right,
            Function::Subtract => left - right,
            Function::Multiply => left * right,
            _ => left / right,
        }));
    }
    let (left, right) = (values[0].int()?, values[1].int()?);
    let result = match function {
        Function::Add => left.checked_add(right),
        Function::Subtract => left.checked_sub(right),
        Function::Multiply => left.checked_mul(right),
        _ if right == 0 => return Err(EvalError::Division),
        _ => left.checked_div(right),
    };
    result.map(Value::Int).ok_or(EvalError::Overflow)
}

fn comparison(function: Function, values: &[Value]) -> Result<Value, EvalError> {
    let of = |ordering: Option<std::cmp::Ordering>| match function {
        Function::Equal => ordering.is_some_and(|o| o.is_eq()),
        Function::NotEqual => ordering.is_none_or(|o| o.is_ne()),
        Function::Less => ordering.is_some_and(|o| o.is_lt()),
        _ => ordering.is_some_and(|o| o.is_le()),
    };
    Ok(Value::Bool(if any_double(values) {
        of(values[0].double()?.partial_cmp(&values[1].double()?))
    } else {
        of(Some(values[0].int()?.cmp(&values[1].int()?)))
    }))
}

fn extreme(function: Function, values: &[Value]) -> Result<Value, EvalError> {
    let greatest = function == Function::Greatest;
    if any_double(values) {
        let mut most = values[0].double()?;
        for value in &values[1..] {
            let value = value.double()?;
            most = if greatest { most.max(value) } else { most.min(value) };
        }
        return Ok(Value::Double(most));
    }
    let mut most = values[0].int()?;
    for value in &values[1..] {
        let value = value.int()?;
        most = if greatest { most.max(value) } else { most.min(value) };
    }
    Ok(Value::Int(most))
}

#[cfg(test)]
mod tests {
    use workload::stream;

    use super::super::Names;
    use super::super::expr::parse;
    use super::*;

    fn value(text: &str) -> Result<Value, String> {
        let mut names = Names::default();
        let set = [("a", Value::Int(7)), ("t", Value::Text("2.5".into())), ("n", Value::Null)];
        for (name, _) in &set {
            names.number(name);
        }
        let seed = names.number("default_seed");
        assert_eq!(seed, 3);
        let expr = parse(text, (0, text.len()), &mut names, &mut Vec::new())
            .map_err(|fault| format!("{}: {}", fault.at, fault.cause))?;
        let mut variables: Vec<Option<Value>> =
            set.into_iter().map(|(_, value)| Some(value)).collect();
        variables.push(Some(Value::Int(0)));
        eval(&expr, &variables, &|at| names.name(at).to_owned(), &mut stream(1, 0))
            .map_err(|error| error.to_string())
    }

    /// The rows of pgbench's own documentation, and the corners of its grammar.
    #[test]
    fn expressions_have_the_values_that_pgbench_documents() {
        let int = Value::Int;
        let double = Value::Double;
        let yes = Value::Bool(true);
        let no = Value::Bool(false);
        for (text, wanted) in [
            ("2 + 3 * 4", int(14)),
            ("(2 + 3) * 4", int(20)),
            ("5 / 2", int(2)),
            ("-5 / 2", int(-2)),
            ("5 / 2.0", double(2.5)),
            ("-7 % 3", int(-1)),
            ("9 - 3 - 2", int(4)),
            ("- 3 + 1", int(-2)),
            ("-9223372036854775808", int(i64::MIN)),
            ("1e3", double(1000.0)),
            (".5 * 4", double(2.0)),
            ("1 << 4 | 1", int(17)),
            ("5 # 1", int(4)),
            ("6 & 3", int(2)),
            ("~ 1 + 2", int(-4)),
            ("16 >> 2", int(4)),
            ("5 = 5.0", yes.clone()),
            ("5 <> 4 and 5 != 5", no.clone()),
            ("not 1 = 2", yes.clone()),
            ("2 < 3 or 1 / 0 = 1", yes.clone()),
            ("null and false", no.clone()),
            ("null or false", Value::Null),
            ("1 + null", Value::Null),
            ("null is null", yes.clone()),
            (":n isnull and :a notnull", yes.clone()),
            ("1 is not null", yes.clone()),
            ("(1 = 1) is true", yes.clone()),
            ("case when 1 > 2 then 1 when 2 > 1 then 2 else 3 end", int(2)),
            ("case when false then 1 end", Value::Null),
            (":a * 2", int(14)),
            (":t * 2", double(5.0)),
            ("abs(-17)", int(17)),
            ("double(5432)", double(5432.0)),
            ("exp(0.0)", double(1.0)),
            ("greatest(5, 4, 3, 2)", int(5)),
            ("least(5, 4, 3, 2.1)", double(2.1)),
            ("int(5.4 + 3.8)", int(9)),
            ("ln(1.0)", double(0.0)),
            ("mod(54, 32)", int(22)),
            ("pow(2.0, 10)", double(1024.0)),
            ("power(2.0, 10)", double(1024.0)),
            ("sqrt(4)", double(2.0)),
            ("random(5, 5)", int(5)),
            // The documentation's values of the hashes with the seed 5432.
            ("hash(10, 5432)", int(-5_817_877_081_768_721_676)),
            ("hash_fnv1a(10, 5432)", int(-7_793_829_335_365_542_153)),
            ("hash_murmur2(10, 5432)", int(-5_817_877_081_768_721_676)),
            ("hash(10) = hash(10, :default_seed)", yes.clone()),
        ] {
            assert_eq!(value(text), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn what_has_no_value_says_where_or_why() {
        for (text, words) in [
            ("1 +", "3: a value is wanted"),
            ("1 2", "2: the expression ends"),
            ("randon(1, 2)", "0: `randon` is no function of pgbench's: did you mean random()?"),
            ("random(1)", "random() takes 2 arguments, and has 1"),
            ("x + 1", "a variable is written :x"),
            ("1 < 2 < 3", "6: comparisons cannot be chained"),
            ("9223372036854775808", "beyond a 64-bit integer"),
            ("1 $ 2", "2: '$' stands in no expression"),
            ("case 1 when 1 then 1 end", "5: WHEN is wanted"),
            ("(1", "2: `)` is wanted"),
            ("debug(1)", "leave it out"),
            ("9223372036854775807 + 1", "beyond a 64-bit integer"),
            ("1 / 0", "division by zero"),
            ("random(2, 1)", "a random range must be not empty, but it is 2 to 1"),
            ("random(-9223372036854775808, 1)", "2^63 wide"),
            ("not 1", "a integer stands where a boolean is needed"),
            ("1 + true", "a boolean stands where a number is needed"),
            (":nobody", "`nobody` has no value yet"),
            ("random_zipfian(1, 10, 1.0)", "must be 1.001 to 1000"),
        ] {
            let error = value(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        let deep = "(".repeat(10_000);
        assert!(value(&deep).unwrap_err().contains("nests deeper"));
    }
}
