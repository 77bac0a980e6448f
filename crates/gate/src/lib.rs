//! Decides: a gate is a queue, a discipline (who is next), slots (how many at once) and a router
//! (where to).
//!
//! ```text
//!   arrive ──▶ [ router ] ──▶ ║ queue ║ ──▶ [ slots of server 0 ] ──▶ depart
//!                        └──▶ ║ queue ║ ──▶ [ slots of server 1 ] ──▶ depart
//! ```
//!
//! The one idea: a gate is a *pure decision*. It is told `now` and an event, and appends to a list
//! what must be done. It never reads a clock, never sleeps, never draws chance that it was not
//! given. Two drivers run the same code: the simulator in virtual time, the live servers in real
//! time. So what was simulated is what runs, and a recorded live run replays to the identical
//! actions.
//!
//! ```
//! use gate::{Action, Event, Gate, GateSpec, Job, JobId, Time};
//!
//! let mut gate = Gate::new(&GateSpec::fifo(1)).expect("a valid specification");
//! let mut actions = Vec::new();
//! let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
//!
//! gate.handle(at(0), Event::Arrive(Job::new(JobId(1))), &mut actions);
//! let Action::Start { slot, .. } = actions[0] else { panic!("the gate was empty") };
//! actions.clear();
//!
//! gate.handle(at(1), Event::Arrive(Job::new(JobId(2))), &mut actions);
//! assert!(actions.is_empty(), "job 2 waits");
//!
//! gate.handle(at(5), Event::Depart(slot), &mut actions);
//! assert!(matches!(actions[0], Action::Start { job: JobId(2), .. }));
//! ```

mod cohort;
mod controller;
mod discipline;
mod early_rejection;
mod event;
mod eviction;
mod gate;
mod load_information;
mod policy;
mod reserve;
mod roles;
mod router;
mod servers;
mod spec;
mod time;
mod view;

pub use cohort::{
    AgentState, Cached, CohortScheduler, CohortSpec, PassSpec, SchedulerSpec, TenantSpec, Urgent,
};
pub use controller::{
    Band, Conduct, ControlError, ControlSpec, Controller, Finding, Move, WORTH, Why,
};
pub use discipline::Discipline;
pub use early_rejection::EarlyRejection;
pub use event::{Access, Action, Event, Job, JobId, Reason, Report, Role, Share, Slot};
pub use eviction::{ArrivalOrder, ArrivalTurn, Eviction, EvictionRule, Victim};
pub use gate::Gate;
pub use load_information::LoadInformation;
pub use policy::{
    AtZero, DisciplineSpec, KeyDefault, KeyDown, KeyMap, KeyOf, KeyRow, Length, RouterSpec, Ties,
    WeightedOrder, Window,
};
pub use reserve::Reserve;
pub use router::Router;
pub use spec::{GateSpec, Queues, ServerSpec, SpecError};
pub use time::Time;
pub use view::ServerView;
