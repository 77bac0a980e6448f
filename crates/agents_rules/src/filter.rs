//! A condition on the states of agents alone: those that meet it are found among all, as a table is asked.

use std::sync::Arc;

use cel::common::ast::{Expr, IdedExpr};
use formats::scenario_file;

use crate::agent::RuleAgent;
use crate::expression::{Expression, Name, Scope, Slot, Way, Wrong, children};
use crate::file::RulesError;
use crate::rules::Rules;
use crate::value::Kind;

/// Most bytes of a filter: it is read anew for each page.
const TEXT_MAX: usize = 2_000;

/// A condition on the fields of the state, in the language of rules.
#[derive(Debug)]
pub struct Filter {
    rules: Arc<Rules>,
    when: Expression,
}

impl Rules {
    /// A filter of these rules' agents.
    ///
    /// # Errors
    /// The text is no condition on the fields of the state; the error names line, column and the nearest spelling.
    pub fn filter(self: &Arc<Rules>, text: &str) -> Result<Filter, RulesError> {
        if text.len() > TEXT_MAX {
            let cause = format!("where: a condition has at most {TEXT_MAX} bytes");
            return Err(RulesError(cause));
        }
        let names = self.state.iter().enumerate().map(|(at, field)| Name {
            name: field.name.clone(),
            kind: field.kind,
            slot: Slot::State(at),
        });
        let names: Arc<[Name]> = names.collect();
        let told =
            |Wrong { span, cause }| RulesError(scenario_file::at("where", text, span, &cause));
        let when = Expression::read(text, &names, Kind::Bool).map_err(told)?;
        match &when.way {
            // What is evaluated for each of very many agents takes a time that its length bounds.
            Way::Interpreted(tree) if loops(tree) > 1 => Err(told(Wrong {
                span: 0..text.len(),
                cause:
                    "a filter has no map, and goes through one list, not through lists within lists"
                        .to_owned(),
            })),
            _ => Ok(Filter { rules: self.clone(), when }),
        }
    }
}

impl Filter {
    /// True if an agent's state meets it. One that lacks a value of a field that it uses does not.
    ///
    /// # Errors
    /// The condition has no answer for this state.
    pub fn holds(&self, agent: &mut RuleAgent) -> Result<bool, String> {
        let state = agent.values(&self.rules);
        if !self.when.is_ready(&state) {
            return Ok(false);
        }
        self.when.truth(Scope { state: &state, fields: &[] })
    }
}

/// Number of lists that are gone through within each other.
fn loops(tree: &IdedExpr) -> usize {
    match &tree.expr {
        Expr::Comprehension(it) => {
            let parts = [&it.iter_range, &it.accu_init, &it.loop_cond, &it.loop_step, &it.result];
            1 + parts.into_iter().map(loops).max().unwrap_or(0)
        }
        // Its parts are not looked at.
        Expr::Map(_) | Expr::Struct(_) => 2,
        other => children(other).into_iter().map(loops).max().unwrap_or(0),
    }
}
