//! The naive interpreter: one thread, no cache, no index, message by message in the order of the log.

use std::collections::{BTreeMap, BTreeSet};

use agents::{Agent, Audience, Context, Destination, Effect, Entry, Key};
use gate::Time;

use crate::account::{Account, Message, What};

/// The accounts after a log, and what happened on the way.
#[derive(Debug, Default)]
pub(crate) struct Reference {
    pub(crate) accounts: BTreeMap<Key, Account>,
    /// The prices at which each account fired, in order, over all its lives.
    pub(crate) fired: BTreeMap<Key, Vec<Vec<u8>>>,
    /// Each delivery that could not be handled: account and position.
    pub(crate) dead: BTreeSet<(Key, u64)>,
    /// The last divider.
    divider: Option<Message>,
}

impl Reference {
    pub(crate) fn take(&mut self, entry: &Entry<Message>) {
        let mut entry = entry.clone();
        if let Some(divider) = &self.divider {
            Account::behind(divider, &mut entry.envelope.message);
        }
        if Account::divides(&entry.envelope.message) {
            self.divider = Some(entry.envelope.message.clone());
        }
        self.handle_all(&entry);
    }

    fn handle_all(&mut self, entry: &Entry<Message>) {
        let envelope = &entry.envelope;
        let receivers: Vec<Key> = match &envelope.to {
            Destination::One(key) => vec![*key],
            to => {
                let all = self.accounts.iter().filter(|(key, account)| {
                    let named = match to {
                        Destination::Keys(keys) => keys.contains(key),
                        Destination::Range(from, to) => (from..=to).contains(key),
                        _ => true,
                    };
                    named && (envelope.audience == Audience::Everyone || account.armed())
                });
                all.map(|(&key, _)| key).collect()
            }
        };
        receivers.into_iter().for_each(|key| self.handle(key, entry));
    }

    fn handle(&mut self, key: Key, entry: &Entry<Message>) {
        let message = &entry.envelope.message;
        let found = self.accounts.get(&key).cloned();
        let Some(mut account) = found.or_else(|| Account::create(key, message)) else {
            self.dead.insert((key, entry.seq.0));
            return;
        };
        // Nobody looks at its effects: they are known from the messages.
        let mut cx = Context::new(Time::ZERO, key, 0);
        let before = account.fired;
        let effect = match message.what {
            What::Unstorable | What::Panic => None,
            _ => account.on(message, &mut cx).ok(),
        };
        match effect {
            None => _ = self.dead.insert((key, entry.seq.0)),
            Some(Effect::Delete) => _ = self.accounts.remove(&key),
            Some(_) => {
                if let (What::Price(price), true) = (&message.what, account.fired > before) {
                    self.fired.entry(key).or_default().push(price.to_le_bytes().to_vec());
                }
                self.accounts.insert(key, account);
            }
        }
    }
}
