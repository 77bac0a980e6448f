//! Answers: from run records to a fitted scenario, from a scenario and a question to a prediction,
//! from a prediction and a measurement to a score.
//!
//! ```text
//!   run records ──fit──▶ scenario ──ask──▶ prediction ──check──▶ score
//!                           │        formula │ simulation           ▲
//!                           └─ file format 1 │                measurement
//! ```
//!
//! The one idea: every answer is given by two witnesses that do not know each other, the formulas of
//! `solve` and the simulation of `sim`, and is stored with the range that it was calibrated on, so
//! that a measurement can judge it later.

mod approximation;
mod corrected;
pub mod disk_model;
mod explain;
mod fit;
mod formula;
#[cfg(feature = "schema")]
mod keys;
mod predict;
pub mod questions;
mod scenario;
#[cfg(feature = "schema")]
pub mod schema;
mod score;
mod units;
mod witnesses;

pub use approximation::Approximation;
pub use corrected::{
    Corrected, CorrectedError, Totals, corrected, corrected_sweep, short_simulation,
};
pub use explain::{
    ExplainError, ExplainOptions, Explanation, Knee, KneeFrom, Little, LittleCheck, MeanFrom,
    NextLoad, NextRun, Pace, Side, Tool, ToolMean, ToolPart, ToolRun, explain,
};
pub use fit::{
    Cause, CauseKind, DemandEvidence, Fit, FitError, FitOptions, Fitted, LeftOut, LoadPoint,
    LoggedRequest, QuantileWitness, Residual, RowStand, SourceFit, SourceRow, Statement,
    StatementEvidence, TraceSpan, Window, causes, fit, fit_demands, fit_log, fit_points, fit_runs,
    fit_spans, fit_statements, names, together,
};
pub use formula::{
    BestByFormula, Bounds, CacheAnswer, ClassAnswer, DocumentAnswer, Effort, FormulaAnswer,
    FormulaMeans, GivenSize, NoFormula, NodeAnswer, ProductBounds, Quantiles, QueueAnswer, Trust,
    formula, formula_means, formula_with, layered_error, product_form, who_answers,
};
#[cfg(feature = "schema")]
pub use keys::ScenarioKeys;
pub use predict::{
    AskError, DocumentNumbers, Load, Numbers, Point, Prediction, Question, Value, ask, at, beyond,
    options, simulate,
};
pub use scenario::{
    AgendaEntry, ArrivalsName, BecomeEntry, ByteDemand, CacheEntry, Calibration, ChangeEntry,
    ChoiceEntry, ChooseEntry, ClassEntry, ClientEntry, Control, ControlEntry, CurveEntry,
    DemandEntry, DisciplineEntry, DistEntry, DistName, DocumentEntry, DocumentsEntry, ForkEntry,
    FullName, GateEntry, KeysName, LengthName, LoadInformationEntry, LoadName, LognormalEntry,
    LookupEntry, MatrixRow, NoticedName, NumberKind, NumericParameter, OfTrace, OrderName,
    Parameter, PiecesName, Policies, RepeatEntry, ReplacementName, RetryEntry, RouteEntry,
    RouterEntry, Scenario, ScenarioError, SendEntry, ServerEntry, Setting, ShapedEntry, SizesEntry,
    SizesName, StateName, StationEntry, StationName, Stops, TraceEntry, Turns, Unreachable,
    VisitEntry, VisitsEntry, disciplines, routers,
};
pub use score::{Account, Quantity, Right, Row, Score, Tolerance, load_of, point_for, score};
pub use units::{Bytes, PerByte, Rate, Span, UnitError};
