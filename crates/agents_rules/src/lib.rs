//! Rules of agents in a file: which state an agent has, which messages there are, when one makes it fire.
//! The file becomes [`Rules`]; [`RuleAgent`] is the agent that follows them.
//!
//! A condition is an expression in CEL. Comparisons and arithmetic are compiled to plain operations, all
//! else is interpreted. A condition that compares a number of the message with numbers of the state is a
//! threshold: the agent then publishes bounds, and a message wakes those alone whose bounds it crosses.
//! When a condition may fire again is the business of [`agents::alert`].
//!
//! No clock, no socket, no file: the text of a file comes in, and the time comes with each message.
//!
//! ```
//! use agents::{Agent, Context, Key};
//! use agents_rules::{RuleAgent, Rules, Value};
//! use gate::Time;
//!
//! let rules = Rules::read("rules.toml", r#"
//! [agent]
//! state = { symbol = "text", high = "number" }
//!
//! [messages.tick]
//! fields = { symbol = "text", price = "number" }
//!
//! [rules.too-high]
//! on = "tick"
//! when = "price > high"
//! "#)?;
//! let declared = rules.declaration("alice", &serde_json::json!({"symbol": "A", "high": 10}))?;
//! let tick = rules.event("tick", &serde_json::json!({"symbol": "A", "price": 11}))?;
//! let mut alice = RuleAgent::create(rules.key("alice")?, &declared).expect("it is declared");
//! let mut cx = Context::new(Time::ZERO, rules.key("alice")?, 0);
//! alice.on(&declared, &mut cx).expect("it has this state");
//! alice.on(&tick, &mut cx).expect("it knows ticks");
//! assert_eq!(cx.notified().len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agent;
mod changes;
mod destination;
mod expression;
mod file;
mod filter;
mod history;
mod judged;
mod message;
mod program;
mod rules;
mod threshold;
mod timer;
mod timing;
mod value;

pub use agent::{Firing, RuleAgent};
pub use changes::Changes;
pub use file::RulesError;
pub use filter::Filter;
pub use history::Decision;
pub use judged::{Judged, Judgement, Rang, Replay};
pub use message::{Message, MessageError};
pub use program::{AskedAgent, ModuleFile, Modules, NoModules, Program};
pub use rules::{
    Delivered, Destination, Digest, Email, FieldChange, KeyKind, KeyKindChanged, MailSecurity,
    RuleChange, RuleSummary, Rules, Way, Webhook,
};
pub use timer::{TimerChange, TimerSummary};
pub use value::{Kind, Value};
