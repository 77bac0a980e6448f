//! SQL texts as a gate understands them that sees no plans, and the settings that go with a client.
//!
//! ```text
//!   text ──▶ prefilter ──▶ nothing is left, as of nearly all
//!    └─────▶ tokens ─┬─▶ leaves ──▶ decide: pass, track, clean, pin, refuse
//!                    │     └──▶ Settings (client, server) ──▶ difference
//!                    │     └──▶ Left (server) ──▶ Cleaning
//!                    ├─▶ Tags, Fingerprint ──▶ Rules: class, priority
//!                    │          └───────────▶ KeyRules: key
//!                    └─▶ access: read only
//! ```
//!
//! A text is never parsed as PostgreSQL does; it is cut into the tokens that PostgreSQL cuts it
//! into, and its commands are known by their words. Where that is not enough nothing is claimed:
//! such a text passes, or its client keeps its server, as the part says. What functions do within
//! is not seen by any part.

mod choices;
mod class;
mod cleanup;
mod effects;
mod fingerprint;
mod key;
mod prefilter;
mod read_only;
mod reading;
mod settings;
mod tags;
pub mod tokens;
mod told;

pub use choices::{
    Choice, Choices, CodeChoice, Decision, Followed, Reason, Reasons, Refusal, SequenceChoice,
    SetChoice, decide,
};
pub use class::{Class, Pattern, Rule, Rules, Subject, Test};
pub use cleanup::{Cleanup, Left};
pub use effects::{Effect, EffectKind, Effects, effects};
pub use fingerprint::{Fingerprint, FingerprintError};
pub use key::{Format, KeyError, KeyRule, KeyRules, KeyType, Mapping, Source, Where};
pub use prefilter::{Prefilter, prefilter};
pub use read_only::{Access, access};
pub use settings::{ExportedSettings, Lost, Named, Settings, SettingsBounds, Side, Value};
pub use tags::Tags;
