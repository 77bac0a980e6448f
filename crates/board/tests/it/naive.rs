//! The board as anybody would write it down: a map in memory. It is the witness of the others.

use std::collections::BTreeMap;
use std::sync::Mutex;

use board::{Message, Outcome, Pending, Span, Store, StoreError, Thread, Write};

#[derive(Default)]
struct Held {
    threads: BTreeMap<u64, (Thread, BTreeMap<u64, Message>)>,
}

/// A bug that a test plants, to see that a verification finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    None,
    /// One acknowledged write of ten is not stored. An append of the text `gone` is not either, and has no answer.
    Lost,
    /// One page of ten has a message twice.
    Twice,
    /// Pages come in the wrong order.
    Shuffled,
    /// An append is stored, and its answer never comes.
    Silent,
}

pub(crate) struct Naive {
    held: Mutex<Held>,
    planted: Planted,
}

impl Naive {
    pub(crate) fn new(planted: Planted) -> Self {
        Self { held: Mutex::default(), planted }
    }
}

fn spanned<T: Clone>(all: &BTreeMap<u64, T>, span: Span, limit: usize) -> Vec<T> {
    match span {
        Span::After(id) => all.range(id + 1..).take(limit).map(|(_, one)| one.clone()).collect(),
        Span::Newest => all.values().skip(all.len().saturating_sub(limit)).cloned().collect(),
    }
}

fn ready<T: Send + 'static>(answer: T) -> Pending<'static, T> {
    Box::pin(std::future::ready(Ok(answer)))
}

impl Store for Naive {
    fn write(&self, write: Write) -> Pending<'_, Outcome> {
        let is_silent = self.planted == Planted::Silent && matches!(write, Write::Append { .. });
        if let (Planted::Lost, Write::Append { message, .. }) = (self.planted, &write)
            && message.body == "gone"
        {
            return Box::pin(std::future::pending());
        }
        let mut held = self.held.lock().unwrap();
        let is_done = match write {
            Write::Open(thread) => {
                held.threads.insert(thread.id, (thread, BTreeMap::new()));
                true
            }
            Write::Append { thread, message } => match held.threads.get_mut(&thread) {
                Some(_) if self.planted == Planted::Lost && message.id % 10 == 0 => true,
                Some((_, messages)) => messages.insert(message.id, message).is_none(),
                None => false,
            },
            Write::Edit { thread, id, time, body } => {
                let found = held.threads.get_mut(&thread).and_then(|one| one.1.get_mut(&id));
                found.map(|message| (message.body, message.edited) = (body, Some(time))).is_some()
            }
            Write::Delete { thread, id } => {
                held.threads.get_mut(&thread).and_then(|one| one.1.remove(&id)).is_some()
            }
        };
        if is_silent {
            return Box::pin(std::future::pending());
        }
        ready(if is_done { Outcome::Done } else { Outcome::Missing })
    }

    fn threads(&self, span: Span, limit: usize) -> Pending<'_, Vec<Thread>> {
        let held = self.held.lock().unwrap();
        let threads: BTreeMap<_, _> =
            held.threads.iter().map(|(id, (thread, _))| (*id, thread.clone())).collect();
        ready(spanned(&threads, span, limit))
    }

    fn messages(
        &self,
        thread: u64,
        span: Span,
        limit: usize,
    ) -> Pending<'_, Option<(Thread, Vec<Message>)>> {
        let held = self.held.lock().unwrap();
        let found = held.threads.get(&thread);
        ready(found.map(|(thread, messages)| {
            let mut read = spanned(messages, span, limit);
            match self.planted {
                Planted::Twice => read.extend(read.first().cloned()),
                Planted::Shuffled => read.reverse(),
                Planted::None | Planted::Lost | Planted::Silent => {}
            }
            (thread.clone(), read)
        }))
    }

    fn stop(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
