//! Defects on purpose, by which the simulator shows that it would find them. Without the feature
//! `planted` there are none.

/// A defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "planted"),
    allow(dead_code, unreachable_pub, reason = "nothing is planted")
)]
pub enum Planted {
    /// A commit says that a pass has come further than the agents that it still waits for.
    CursorTooEarly,
    /// A row does not say which multicasts its agent has handled, so that it handles some twice.
    HeardNotWritten,
    /// A message that comes while its agent runs is not seen when the agent is done.
    LostWakeUp,
    /// A commit whose answer was lost is given up, and its batch runs anew.
    UnknownTakenForLost,
    /// Messages behind a divider do not wait for it.
    DividerPassedOver,
    /// A notification counts as delivered when it is handed out.
    DeliveredTooEarly,
}
