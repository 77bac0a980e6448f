//! The messages of the log that have not all taken effect yet, and the ids that are remembered.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use gate::Time;

use crate::message::{Destination, Entry, MessageId, Seq};

/// Memory that an entry takes beside its content \[bytes\].
const ENTRY_BYTES: u64 = 128;

/// The end of the log from the first message on that has not taken effect everywhere.
#[derive(Debug)]
pub(crate) struct Window<M> {
    /// The first of them is the one after `low`.
    slots: VecDeque<Slot<M>>,
    low: Seq,
    bytes: u64,
    ids: BTreeMap<MessageId, Seq>,
    /// Messages whose ids are remembered, the oldest first.
    ages: VecDeque<(Time, Seq, MessageId)>,
    trimmed: Seq,
    /// Time without an owner before this one, and the moment up to which ids are remembered so much longer: a
    /// client may have waited for an owner with a message that was accepted.
    gap: (Duration, Time),
}

#[derive(Debug)]
struct Slot<M> {
    entry: Arc<Entry<M>>,
    bytes: u64,
    done: bool,
}

impl<M> Window<M> {
    pub(crate) fn new(low: Seq, trimmed: Seq) -> Window<M> {
        let (slots, ids, ages) = (VecDeque::new(), BTreeMap::new(), VecDeque::new());
        let gap = (Duration::ZERO, Time::ZERO);
        Window { slots, low, bytes: 0, ids, ages, trimmed, gap }
    }

    /// The log ends here for a new owner: ids of the time before its end are remembered for `window` from now on.
    pub(crate) fn reopened(&mut self, now: Time, window: Duration) {
        if let Some((last, ..)) = self.ages.back() {
            self.gap = (now.since(*last), now + window);
        }
    }

    /// A message that is durable, with the memory that its content takes. `done` if it has taken
    /// effect already.
    pub(crate) fn push(&mut self, entry: Entry<M>, content: u64, done: bool) {
        let (seq, id) = (entry.seq, entry.envelope.id);
        if let Some(id) = id {
            self.ages.push_back((entry.at, seq, id));
            self.ids.insert(id, seq);
        }
        if seq <= self.low {
            return;
        }
        assert_eq!(seq, Seq(self.end().0 + 1), "the log has no gaps");
        let bytes = entry_bytes(&entry.envelope.to, content);
        self.bytes += bytes;
        self.slots.push_back(Slot { entry: Arc::new(entry), bytes, done });
        self.advance();
    }

    /// The last message.
    pub(crate) fn end(&self) -> Seq {
        Seq(self.low.0 + self.slots.len() as u64)
    }

    /// All messages up to this one have taken effect.
    pub(crate) fn low(&self) -> Seq {
        self.low
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn at(&self, seq: Seq) -> usize {
        assert!(seq > self.low && seq <= self.end(), "{seq:?} is not in the window");
        (seq.0 - self.low.0 - 1) as usize
    }

    pub(crate) fn get(&self, seq: Seq) -> &Arc<Entry<M>> {
        &self.slots[self.at(seq)].entry
    }

    /// A message has taken effect.
    pub(crate) fn complete(&mut self, seq: Seq) {
        if seq > self.low {
            let at = self.at(seq);
            self.slots[at].done = true;
            self.advance();
        }
    }

    fn advance(&mut self) {
        while self.slots.front().is_some_and(|slot| slot.done) {
            let slot = self.slots.pop_front().expect("it is there");
            self.bytes -= slot.bytes;
            self.low.0 += 1;
        }
    }

    /// The messages after one, up to another.
    pub(crate) fn between(&self, after: Seq, until: Seq) -> impl Iterator<Item = &Arc<Entry<M>>> {
        let skip = after.0.saturating_sub(self.low.0) as usize;
        let take = until.0.saturating_sub(after.0.max(self.low.0)) as usize;
        let slots = self.slots.iter().skip(skip).take(take);
        slots.filter(|slot| !slot.done).map(|slot| &slot.entry)
    }

    /// The position of the message of this id, if it is remembered.
    pub(crate) fn of_id(&self, id: MessageId) -> Option<Seq> {
        self.ids.get(&id).copied()
    }

    /// Number of ids that are remembered.
    pub(crate) fn ids(&self) -> usize {
        self.ids.len()
    }

    /// Forgets the ids of messages that took effect and are older than `window`; the last message
    /// before all that are remembered.
    pub(crate) fn trim(&mut self, now: Time, window: Duration) -> Seq {
        let (gap, until) = self.gap;
        let window = if now < until { window + gap } else { window };
        while let Some(&(at, seq, id)) = self.ages.front()
            && seq <= self.low
            && at + window <= now
        {
            self.ages.pop_front();
            // The same id may stand for a later message, if it came again after the window.
            if self.ids.get(&id) == Some(&seq) {
                self.ids.remove(&id);
            }
        }
        let remembered = self.ages.front().map_or(self.low.0, |&(_, seq, _)| seq.0 - 1);
        self.trimmed = self.trimmed.max(Seq(remembered.min(self.low.0)));
        self.trimmed
    }
}

/// Memory of an entry.
pub(crate) fn entry_bytes(to: &Destination, content: u64) -> u64 {
    let keys = match to {
        Destination::Keys(keys) => 8 * keys.len() as u64,
        _ => 0,
    };
    ENTRY_BYTES + keys + content
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Audience, Envelope, Key, Priority};

    const SPAN: Duration = Duration::from_secs(600);

    fn second(second: u64) -> Time {
        Time::from_nanos(second * 1_000_000_000)
    }

    fn entry(n: u64, at: Time) -> Entry<()> {
        let envelope = Envelope {
            id: Some(MessageId(n.into())),
            sender: 0,
            to: Destination::One(Key(1)),
            audience: Audience::Everyone,
            priority: Priority::Normal,
            message: (),
        };
        Entry { seq: Seq(n), at, envelope }
    }

    /// A source that was killed between its messages and its mark offers them again. If the server was down for
    /// longer than ids are remembered, they counted twice.
    #[test]
    fn ids_are_remembered_for_their_span_of_a_new_owner() {
        let mut window: Window<()> = Window::new(Seq(2), Seq(0));
        window.push(entry(1, second(100)), 0, true);
        window.push(entry(2, second(1_000)), 0, true);
        // A day later.
        let opened = second(87_400);
        window.reopened(opened, SPAN);
        window.trim(opened, SPAN);
        assert_eq!(window.of_id(MessageId(2)), Some(Seq(2)));
        assert_eq!(window.of_id(MessageId(1)), None, "it was forgotten before the end");
        window.trim(opened + (SPAN - Duration::from_nanos(1)), SPAN);
        assert_eq!(window.of_id(MessageId(2)), Some(Seq(2)));
        assert_eq!(window.trim(opened + SPAN, SPAN), Seq(2));
        assert_eq!(window.of_id(MessageId(2)), None);
    }
}
