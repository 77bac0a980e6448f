//! The processor time of a pass over cached agents, for docs/agents.md: a multicast to all that changes
//! nothing, without a store.
//!
//!     cargo run --release -p agents --example pass -- 200000        # by frequency
//!     cargo run --release -p agents --example pass -- 200000 lru
//!
//! A third argument is the number of passes: on a machine that others use too, take the difference of the
//! processor times (`time`) of two numbers.

#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![allow(clippy::print_stdout, reason = "a measurement prints")]

use std::time::Instant;

use agents::alert::{Alert, AlertMessage, AlertSpec};
use agents::{
    Action, Audience, Destination, Envelope, Epoch, Event, Key, Outcome, Partition, PartitionSpec,
    Priority, Row, Seq, Snapshot,
};
use gate::{EvictionRule, Time};

fn main() {
    let count = std::env::args().nth(1).and_then(|it| it.parse().ok()).unwrap_or(100_000_u64);
    let spec = PartitionSpec {
        message_bytes_max: u64::MAX,
        eviction: match std::env::args().nth(2).as_deref() {
            Some("lru") => EvictionRule::Lru,
            _ => EvictionRule::Frequency,
        },
        pass_messages_max: u64::MAX,
        ..PartitionSpec::new(0, u32::try_from(count).unwrap_or(u32::MAX).max(16))
    };
    let snapshot = Snapshot {
        epoch: Epoch(1),
        version: 0,
        cursor: Default::default(),
        log_end: Seq(0),
        received: Default::default(),
        log: Vec::new(),
        directory: Vec::new(),
        ended: Vec::new(),
        timers: Vec::new(),
    };
    let mut core = Partition::<Alert>::open(spec, Time::ZERO, snapshot).expect("it can be");
    for key in 0..count {
        let spec = AlertSpec::new(1, 0, 100);
        tell(&mut core, envelope(Destination::One(Key(key)), AlertMessage::Declare(spec)));
    }
    tell(&mut core, envelope(Destination::All, AlertMessage::Value(50)));
    let rounds = std::env::args().nth(3).and_then(|it| it.parse().ok()).unwrap_or(5);
    for round in 0..rounds {
        let (start, handled) = (Instant::now(), core.counts().handled);
        tell(&mut core, envelope(Destination::All, AlertMessage::Value(50 + round % 50)));
        let handled = core.counts().handled - handled;
        let span = start.elapsed();
        let each = span.as_nanos() as f64 / handled as f64;
        println!("{handled} agents in {span:.1?}: {each:.0} ns an agent");
    }
}

fn envelope(to: Destination, message: AlertMessage) -> Envelope<AlertMessage> {
    let (audience, priority) = (Audience::Everyone, Priority::Normal);
    Envelope { id: None, sender: 0, to, audience, priority, message }
}

/// Offers a message, with a store that forgets.
fn tell(core: &mut Partition<Alert>, envelope: Envelope<AlertMessage>) {
    let mut events = vec![Event::Offer { ticket: 0, envelope }];
    let mut actions = Vec::new();
    while let Some(event) = events.pop() {
        core.handle(Time::ZERO, event, &mut actions);
        events.extend(actions.drain(..).filter_map(|action| match action {
            Action::Append(_) => Some(Event::Appended(Outcome::Written)),
            Action::Commit(_) => Some(Event::Committed(Outcome::Written)),
            Action::Load { load, keys, .. } => {
                let rows = keys.into_iter().map(|key| (key, Row::default())).collect();
                Some(Event::Loaded { load, rows: Some(rows) })
            }
            Action::Deliver(notification) => Some(Event::Delivered(notification.n)),
            Action::Continue => Some(Event::Wake),
            _ => None,
        }));
    }
}
