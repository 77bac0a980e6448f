//! Decides what becomes of a text that leaves something behind: by choice, for each kind of it.

use std::fmt;
use std::ops::Range;

use super::effects::{Effect, EffectKind, Effects, asks_of_sequences, effects};
use super::settings::{is_meaning, is_reported};
use super::tokens::{LexerMode, Unclear};
use pgwire::SqlState;

/// Policy for session state that its server must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The client keeps its server until what it left is gone.
    Pin,
    /// The text is refused.
    Refuse,
}

/// Policy for SET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetChoice {
    /// The setting goes with the client from server to server; one whose value cannot be seen pins.
    Track,
    /// The client keeps its server.
    Pin,
    /// The text is refused.
    Refuse,
}

/// Policy for DO and CALL, which may do anything unseen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeChoice {
    /// They pass, and are trusted to leave nothing behind.
    Trust,
    /// They pass, and their server is cleaned of all that code can leave, before another client's
    /// turn; where code has prepared a statement, it is closed. A library that code loads stays, as does
    /// what a language keeps.
    Clean,
    /// The client keeps its server.
    Pin,
    /// The text is refused.
    Refuse,
}

/// Policy for `currval` and `lastval`, which tell what the session of a server has moved last,
/// whoever had it then. What moves a sequence is not looked for: defaults and triggers hide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceChoice {
    /// They pass, and tell what anybody has moved.
    Trust,
    /// From the first text that names one, or from the beginning where the database has a function, a
    /// default or a view that does, sequences are discarded before each client's turn, so that the server
    /// itself refuses what the same transaction has not moved.
    Discard,
    /// The same from the beginning, whatever the database has.
    DiscardAlways,
    /// The same as discarding, and from its first text that names one a client keeps its server.
    Pin,
    /// The text is refused.
    Refuse,
}

/// A choice for each kind.
///
/// By default nothing is refused, so that every program runs that ran without the gate: settings
/// and roles are tracked, since nearly every driver sets some and a pin for each would use up the
/// slots; what has no other home than its server pins; code passes and is cleaned up behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choices {
    /// `SET`, `RESET`, `set_config`.
    pub set: SetChoice,
    /// `SET ROLE`.
    pub role: SetChoice,
    /// `SET SESSION AUTHORIZATION`.
    pub authorization: Choice,
    /// `LISTEN`.
    pub listen: Choice,
    /// Advisory locks of the session.
    pub advisory_lock: Choice,
    /// Temporary tables and their like.
    pub temporary: Choice,
    /// Cursors WITH HOLD.
    pub with_hold: Choice,
    /// SQL's PREPARE and EXECUTE.
    pub prepare: Choice,
    /// `LOAD`.
    pub load: Choice,
    /// `DO`, `CALL`.
    pub code: CodeChoice,
    /// `currval`, `lastval`.
    pub sequences: SequenceChoice,
    /// Settings that are tracked whatever `set` says, in lower case, beside those that every server
    /// reports.
    pub tracked: Vec<Vec<u8>>,
}

impl Default for Choices {
    fn default() -> Choices {
        Choices {
            set: SetChoice::Track,
            role: SetChoice::Track,
            authorization: Choice::Pin,
            listen: Choice::Pin,
            advisory_lock: Choice::Pin,
            temporary: Choice::Pin,
            with_hold: Choice::Pin,
            prepare: Choice::Pin,
            load: Choice::Pin,
            code: CodeChoice::Clean,
            sequences: SequenceChoice::Discard,
            tracked: vec![b"intervalstyle".to_vec()],
        }
    }
}

impl Choices {
    /// The strictest: all that can be refused is, and no client keeps a server beyond its transaction. Only
    /// settings that every server reports are tracked.
    pub fn strict() -> Choices {
        Choices {
            set: SetChoice::Refuse,
            role: SetChoice::Refuse,
            authorization: Choice::Refuse,
            listen: Choice::Refuse,
            advisory_lock: Choice::Refuse,
            temporary: Choice::Refuse,
            with_hold: Choice::Refuse,
            prepare: Choice::Refuse,
            load: Choice::Refuse,
            code: CodeChoice::Refuse,
            sequences: SequenceChoice::Refuse,
            tracked: Vec::new(),
        }
    }

    /// The policy for a SET of this.
    fn set(&self, name: &[u8]) -> SetChoice {
        // What every server reports is known without its text, so it costs nothing to track.
        let always = is_reported(name) || self.tracked.iter().any(|one| one == name);
        if always { SetChoice::Track } else { self.set }
    }
}

/// A kind of what is left behind: why a client keeps its server, or is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Reason {
    /// A setting.
    Set,
    /// A role.
    Role,
    /// Another user.
    Authorization,
    /// The channels that it listens to.
    Listen,
    /// A lock.
    AdvisoryLock,
    /// Something temporary.
    Temporary,
    /// A cursor.
    WithHold,
    /// A statement that SQL has prepared.
    Prepare,
    /// A library.
    Load,
    /// Code that may do anything.
    Code,
    /// The sequences that its session has moved.
    Sequence,
    /// Its text cannot be read.
    Unreadable,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 12] = [
        Reason::Set,
        Reason::Role,
        Reason::Authorization,
        Reason::Listen,
        Reason::AdvisoryLock,
        Reason::Temporary,
        Reason::WithHold,
        Reason::Prepare,
        Reason::Load,
        Reason::Code,
        Reason::Sequence,
        Reason::Unreadable,
    ];

    /// That of what is left; none for what leaves nothing.
    pub(super) fn of(what: &EffectKind) -> Option<Reason> {
        Some(match what {
            EffectKind::Set { name, .. } | EffectKind::Reset { name } if name == b"role" => {
                Reason::Role
            }
            EffectKind::Set { .. }
            | EffectKind::Reset { .. }
            | EffectKind::ResetAll
            | EffectKind::SetUnknown => Reason::Set,
            // Where the user was another one, that is left and stays.
            EffectKind::ResetAuthorization => Reason::Role,
            EffectKind::SessionAuthorization => Reason::Authorization,
            EffectKind::Listen => Reason::Listen,
            EffectKind::AdvisoryLock => Reason::AdvisoryLock,
            EffectKind::Temporary | EffectKind::TemporaryPath => Reason::Temporary,
            EffectKind::WithHold => Reason::WithHold,
            EffectKind::Prepare | EffectKind::Execute | EffectKind::MayExecute => Reason::Prepare,
            EffectKind::Load => Reason::Load,
            EffectKind::Code => Reason::Code,
            EffectKind::Sequence => Reason::Sequence,
            EffectKind::Many => Reason::Unreadable,
            EffectKind::UnlistenAll
            | EffectKind::AdvisoryUnlock
            | EffectKind::AdvisoryUnlockAll
            | EffectKind::DiscardTemporary
            | EffectKind::DiscardSequences
            | EffectKind::CloseAll
            | EffectKind::DeallocateAll
            | EffectKind::DiscardAll
            | EffectKind::SetLocal { .. }
            | EffectKind::Savepoint(_)
            | EffectKind::Release(_)
            | EffectKind::RollbackTo(_) => return None,
        })
    }
}

// Bits and lists of reasons go by this order.
const _: () = {
    let mut at = 0;
    while at < Reason::ALL.len() {
        assert!(Reason::ALL[at] as usize == at, "`ALL` has each reason once, in its order");
        at += 1;
    }
};

/// Several kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reasons(pub(super) u16);

impl Reasons {
    /// One kind.
    pub const fn of(reason: Reason) -> Reasons {
        Reasons(1 << reason as u8)
    }

    /// True if it is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if this is among them.
    pub fn has(self, reason: Reason) -> bool {
        self.0 & Reasons::of(reason).0 != 0
    }

    /// Those of both.
    #[must_use]
    pub fn with(self, others: Reasons) -> Reasons {
        Reasons(self.0 | others.0)
    }

    /// Those that are also among these.
    #[must_use]
    pub fn among(self, others: Reasons) -> Reasons {
        Reasons(self.0 & others.0)
    }

    /// One by one.
    pub fn iter(self) -> impl Iterator<Item = Reason> {
        Reason::ALL.into_iter().filter(move |&reason| self.has(reason))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Reason::Set => "SET",
            Reason::Role => "SET ROLE",
            Reason::Authorization => "SET SESSION AUTHORIZATION",
            Reason::Listen => "LISTEN",
            Reason::AdvisoryLock => "advisory locks of the session",
            Reason::Temporary => "temporary objects",
            Reason::WithHold => "cursors WITH HOLD",
            Reason::Prepare => "PREPARE and EXECUTE in SQL",
            Reason::Load => "LOAD",
            Reason::Code => "DO and CALL",
            Reason::Sequence => "currval and lastval",
            Reason::Unreadable => "a text that cannot be followed",
        })
    }
}

/// Decision on a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It leaves nothing behind.
    Pass,
    /// It changes settings that go with the client.
    Track,
    /// Its server is cleaned of all that code can leave.
    Clean,
    /// Its client keeps its server, for the first thing that says so.
    Pin {
        /// Why.
        reason: Reason,
        /// The words that say so.
        at: Range<usize>,
    },
    /// It is refused.
    Refuse(Refusal),
}

/// Why a text is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The session state that it would leave.
    pub reason: Reason,
    /// The words that say so.
    pub at: Range<usize>,
}

impl Refusal {
    /// 0A000.
    pub fn sqlstate(&self) -> SqlState {
        SqlState::FEATURE_NOT_SUPPORTED
    }

    /// The message to the client.
    pub fn message(&self) -> String {
        let verb = if self.reason == Reason::Unreadable { "is" } else { self.verb() };
        format!("{} {verb} not allowed in transaction mode", self.reason)
    }

    fn verb(&self) -> &'static str {
        match self.reason {
            Reason::AdvisoryLock
            | Reason::Temporary
            | Reason::WithHold
            | Reason::Prepare
            | Reason::Code
            | Reason::Sequence => "are",
            _ => "is",
        }
    }

    /// The way out.
    pub fn hint(&self) -> &'static str {
        match self.reason {
            Reason::Set => "Use SET LOCAL within a transaction, or a pool in session mode.",
            Reason::Role => "Use SET LOCAL ROLE within a transaction, or a pool in session mode.",
            Reason::AdvisoryLock => {
                "Use pg_advisory_xact_lock within a transaction, or a pool in session mode."
            }
            Reason::Temporary => "Use an ordinary or UNLOGGED table, or a pool in session mode.",
            Reason::WithHold => "Use a cursor WITHOUT HOLD, or a pool in session mode.",
            Reason::Prepare => {
                "Prepare statements by the protocol, as drivers do, or use a pool in session mode."
            }
            Reason::Sequence => "Use RETURNING, or a pool in session mode.",
            Reason::Authorization
            | Reason::Listen
            | Reason::Load
            | Reason::Code
            | Reason::Unreadable => "Use a pool in session mode.",
        }
    }

    /// The place in the text, for the field Position of an error: in characters from 1, if it is
    /// UTF-8.
    pub fn position(&self, text: &[u8]) -> Option<usize> {
        let before = std::str::from_utf8(text.get(..self.at.start)?).ok()?;
        Some(before.chars().count() + 1)
    }
}

enum Verdict {
    Pass,
    Track,
    Clean,
    Pin,
    Refuse,
}

impl From<Choice> for Verdict {
    fn from(choice: Choice) -> Verdict {
        match choice {
            Choice::Pin => Verdict::Pin,
            Choice::Refuse => Verdict::Refuse,
        }
    }
}

impl Verdict {
    fn of(effect: &Effect, reason: Reason, choices: &Choices) -> Verdict {
        let choice = match reason {
            Reason::Set | Reason::Role => {
                let choice = match &effect.what {
                    _ if reason == Reason::Role => choices.role,
                    EffectKind::Set { name, .. } => choices.set(name),
                    _ => choices.set,
                };
                let sure = match &effect.what {
                    // A report tells the value that the text does not.
                    EffectKind::Set { name, value } => value.is_some() || is_reported(name),
                    EffectKind::SetUnknown => false,
                    // Going back to what the connection began with leaves nothing.
                    _ if choice != SetChoice::Track => return Verdict::Pass,
                    _ => true,
                };
                return match choice {
                    SetChoice::Track if sure => Verdict::Track,
                    SetChoice::Track | SetChoice::Pin => Verdict::Pin,
                    SetChoice::Refuse => Verdict::Refuse,
                };
            }
            Reason::Code => {
                return match choices.code {
                    CodeChoice::Trust => Verdict::Pass,
                    CodeChoice::Clean => Verdict::Clean,
                    CodeChoice::Pin => Verdict::Pin,
                    CodeChoice::Refuse => Verdict::Refuse,
                };
            }
            Reason::Sequence => {
                return match choices.sequences {
                    SequenceChoice::Trust
                    | SequenceChoice::Discard
                    | SequenceChoice::DiscardAlways => Verdict::Pass,
                    SequenceChoice::Pin => Verdict::Pin,
                    SequenceChoice::Refuse => Verdict::Refuse,
                };
            }
            Reason::Authorization => choices.authorization,
            Reason::Listen => choices.listen,
            Reason::AdvisoryLock => choices.advisory_lock,
            Reason::Temporary => choices.temporary,
            Reason::WithHold => choices.with_hold,
            Reason::Prepare => choices.prepare,
            Reason::Load => choices.load,
            // Nobody has chosen to refuse what cannot be read, and what it leaves is not known: so it
            // pins.
            Reason::Unreadable => Choice::Pin,
        };
        choice.into()
    }
}

/// Decision on a text with these session effects. A text that its server refuses as a whole passes.
pub fn decide(effects: &Effects, choices: &Choices) -> Decision {
    if effects.unclear == Some(Unclear::Encoding) {
        // The server can read it, so it runs; one that is unterminated does not.
        return Decision::Pin { reason: Reason::Unreadable, at: 0..0 };
    }
    let mut decision = Decision::Pass;
    for effect in &effects.effects {
        let Some(reason) = Reason::of(&effect.what) else { continue };
        decision = match (Verdict::of(effect, reason, choices), decision) {
            (Verdict::Refuse, _) => {
                return Decision::Refuse(Refusal { reason, at: effect.at.clone() });
            }
            // The first reason is told; a later refusal still counts, above.
            (_, pinned @ Decision::Pin { .. }) => pinned,
            (Verdict::Pin, _) => Decision::Pin { reason, at: effect.at.clone() },
            (Verdict::Clean, _) | (_, Decision::Clean) => Decision::Clean,
            (Verdict::Track, _) => Decision::Track,
            (Verdict::Pass, other) => other,
        };
    }
    decision
}

/// A text that leaves something behind, and why its client keeps its server for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    effects: Effects,
    pins: Reasons,
    /// The mark of a text that asks what sequences its session has moved.
    sequences: Sequences,
}

/// Question of a text for the sequences that its session has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sequences {
    Asked,
    Not,
}

impl Sequences {
    fn asked(by: bool, choices: &Choices) -> Sequences {
        if by && choices.sequences != SequenceChoice::Trust {
            return Sequences::Asked;
        }
        Sequences::Not
    }
}

impl Followed {
    /// Reads a text. None if there is nothing to follow.
    ///
    /// # Errors
    /// If it is refused.
    pub fn of(
        text: &[u8],
        lexer_mode: LexerMode,
        choices: &Choices,
    ) -> Result<Option<Followed>, Refusal> {
        let mut found = effects(text, lexer_mode);
        if let Decision::Refuse(refusal) = decide(&found, choices) {
            return Err(refusal);
        }
        if choices.code == CodeChoice::Trust {
            found.effects.retain(|effect| effect.what != EffectKind::Code);
        }
        let unreadable = found.unclear == Some(Unclear::Encoding);
        let names = found.effects.iter().any(|effect| effect.what == EffectKind::Sequence);
        let names = names || (unreadable && asks_of_sequences(text));
        let sequences = Sequences::asked(names, choices);
        if choices.sequences != SequenceChoice::Pin {
            // Nothing of it is left: it is discarded before anybody else asks.
            found.effects.retain(|effect| effect.what != EffectKind::Sequence);
        }
        if found.effects.is_empty() && !unreadable && sequences == Sequences::Not {
            return Ok(None);
        }
        let mut pins = Reasons::default();
        if unreadable {
            pins = Reasons::of(Reason::Unreadable);
        }
        for effect in &found.effects {
            if let Some(reason) = Reason::of(&effect.what)
                && matches!(Verdict::of(effect, reason, choices), Verdict::Pin)
            {
                pins = pins.with(Reasons::of(reason));
            }
        }
        Ok(Some(Followed { effects: found, pins, sequences }))
    }

    /// A text that may run any code and cannot be looked into: a text that is too long to be read,
    /// a call by number. It is never refused. None if it is trusted.
    pub fn code(choices: &Choices) -> Option<Followed> {
        let effect = Effect { command: 0, at: 0..0, what: EffectKind::Code };
        // Where code is refused, this still passes, since most large texts and calls by number run none.
        // Its server is cleaned.
        let pins = match choices.code {
            CodeChoice::Trust => return None,
            CodeChoice::Pin => Reasons::of(Reason::Code),
            CodeChoice::Clean | CodeChoice::Refuse => Reasons::default(),
        };
        let effects = Effects { effects: vec![effect], ..Effects::default() };
        Some(Followed { effects, pins, sequences: Sequences::Not })
    }

    /// The same text where it is known what some of its leaves execute, each by its place: what that
    /// leaves stands in the place of it.
    pub fn executing(&self, known: &[(usize, Option<&Followed>)]) -> Followed {
        let all = self.effects.effects.len();
        debug_assert!(known.iter().all(|(place, _)| *place < all), "of another text: {known:?}");
        let mut effects = Effects { effects: Vec::new(), ..self.effects.clone() };
        let (mut pins, mut sequences) = (Reasons::default(), self.sequences);
        for (at, effect) in self.effects.effects.iter().enumerate() {
            let Some((_, executed)) = known.iter().find(|(place, _)| *place == at) else {
                let of = Reason::of(&effect.what).map_or(Reasons::default(), Reasons::of);
                pins = pins.with(of.among(self.pins));
                effects.effects.push(effect.clone());
                continue;
            };
            let Some(executed) = executed else { continue };
            // As effects of the command that executes it, or they would be told of another
            // CommandComplete.
            let here = |what| Effect { what, ..effect.clone() };
            for left in executed.effects.effects.iter().map(|effect| effect.what.clone()) {
                let left = match effect.what {
                    EffectKind::MayExecute => left.undone_perhaps(),
                    _ => Some(left),
                };
                // A value that is not known goes with no client, whatever choice was made of one that is.
                if let Some(EffectKind::Set { name, value: None }) = &left
                    && !is_reported(name)
                {
                    pins = pins.with(Reasons::of(Reason::Set));
                }
                effects.effects.extend(left.map(here));
            }
            effects.unclear = effects.unclear.or(executed.effects.unclear);
            pins = pins.with(executed.pins);
            if executed.sequences == Sequences::Asked {
                sequences = Sequences::Asked;
            }
        }
        let unreadable = Reasons::of(Reason::Unreadable).among(self.pins);
        Followed { effects, pins: pins.with(unreadable), sequences }
    }

    /// A text of which another number of commands has completed than it was taken to have, so that all
    /// that was found in it may be of others: its client keeps its server, and nothing is known of its
    /// settings.
    pub fn miscounted() -> Followed {
        let effect = |what| Effect { command: 0, at: 0..0, what };
        let effects = vec![effect(EffectKind::SetUnknown), effect(EffectKind::Many)];
        let effects = Effects { effects, ..Effects::default() };
        let sequences = Sequences::Not;
        Followed { effects, pins: Reasons::of(Reason::Unreadable), sequences }
    }

    /// Its session effects.
    pub fn effects(&self) -> &Effects {
        &self.effects
    }

    /// Why its client keeps its server.
    pub fn pins(&self) -> Reasons {
        self.pins
    }

    /// True if what comes behind it waits for its end: it may mean something else then, or has to
    /// find the value again that its client began with.
    pub fn changes_meaning(&self) -> bool {
        self.effects.effects.iter().any(|effect| match &effect.what {
            EffectKind::Set { name, .. } => is_meaning(name),
            EffectKind::SetLocal { .. }
            | EffectKind::Reset { .. }
            | EffectKind::ResetAll
            | EffectKind::SetUnknown
            | EffectKind::SessionAuthorization
            | EffectKind::ResetAuthorization
            | EffectKind::DiscardAll
            | EffectKind::Code
            | EffectKind::Many => true,
            _ => false,
        })
    }

    /// True if it asks what sequences its session has moved.
    pub fn asks_of_sequences(&self) -> bool {
        self.sequences == Sequences::Asked
    }

    /// True if its session is another one behind it, as far as that is followed.
    pub fn effects_something(&self) -> bool {
        !self.effects.effects.is_empty() || self.effects.unclear.is_some()
    }

    /// True if it prepares statements in SQL.
    pub fn prepares(&self) -> bool {
        self.effects.effects.iter().any(|effect| effect.what == EffectKind::Prepare)
    }
}
