//! The servers behind a gate and their slots: which are free, which are held, which go away when
//! their job departs.

use std::collections::VecDeque;

use crate::{GateSpec, Queues, ServerSpec, ServerView, Slot};

/// One server's slots.
#[derive(Debug)]
pub(crate) struct Server {
    /// The slots that exist: indices below this number, and the most jobs that may be started here.
    /// A higher one that is still held goes away when its job departs.
    pub(crate) slots: u32,
    /// The free slots, the one longest free first (as the kernel wakes the worker that has waited
    /// longest in `accept`).
    free: VecDeque<u32>,
    /// Slots that are held, by index.
    held: Vec<bool>,
    /// Number of held slots.
    pub(crate) busy: u32,
    pub(crate) up: bool,
}

impl Server {
    pub(crate) fn new(spec: ServerSpec) -> Server {
        Server {
            slots: spec.slots,
            free: (0..spec.slots).collect(),
            held: vec![false; spec.slots as usize],
            busy: 0,
            up: true,
        }
    }

    /// True if a job could start here now. Held slots that are gone count: until they depart, the
    /// jobs being served are as many as the new number allows or more.
    #[inline]
    pub(crate) fn available(&self) -> bool {
        self.up && self.busy < self.slots
    }

    /// True if this held slot, once free, would be the only free one and a job could start there.
    #[inline]
    pub(crate) fn passes_on(&self, slot: Slot) -> bool {
        let is_held = self.held.get(slot.index as usize) == Some(&true);
        let is_only = self.busy == self.slots && self.free.is_empty();
        is_held && slot.server == 0 && slot.index < self.slots && self.up && is_only
    }

    /// Brings what a router sees of it up to date, but for the jobs that wait for it.
    #[inline]
    pub(crate) fn show(&self, view: &mut ServerView, queued: Queues) {
        view.busy = self.busy;
        view.slots = self.slots;
        view.usable = match queued {
            Queues::Shared => self.available(),
            Queues::PerServer => self.up,
        };
    }

    #[inline]
    pub(crate) fn take(&mut self) -> u32 {
        let index = self.free.pop_front().expect("fewer slots are held than exist");
        self.held[index as usize] = true;
        self.busy += 1;
        index
    }

    /// # Panics
    /// If the slot is held already, or no gate has it.
    pub(crate) fn occupy(&mut self, slot: Slot) {
        assert!(slot.index < GateSpec::SLOTS_MAX, "{slot:?} is beyond all slots");
        let index = slot.index as usize;
        if self.held.len() <= index {
            self.held.resize(index + 1, false);
        }
        let was_held = std::mem::replace(&mut self.held[index], true);
        assert!(!was_held, "{slot:?} is occupied, but somebody holds it");
        self.free.retain(|&free| free != slot.index);
        self.busy += 1;
    }

    /// # Panics
    /// If the slot is not held: a driver that frees a slot twice would let too many in.
    #[inline]
    pub(crate) fn give_back(&mut self, slot: Slot) {
        let held = self.held.get_mut(slot.index as usize).map(std::mem::take);
        assert!(held == Some(true), "{slot:?} departs, but nobody holds it");
        self.busy -= 1;
        if slot.index < self.slots {
            self.free.push_back(slot.index);
        }
    }

    pub(crate) fn resize(&mut self, slots: u32) {
        if self.held.len() < slots as usize {
            self.held.resize(slots as usize, false);
        }
        if slots < self.slots {
            self.free.retain(|&index| index < slots);
        } else {
            let held = &self.held;
            self.free.extend((self.slots..slots).filter(|&index| !held[index as usize]));
        }
        self.slots = slots;
    }
}
