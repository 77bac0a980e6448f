//! Guards of slots: whoever holds a slot has one and cannot copy it, and one that is dropped gives its
//! slot back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gate::{JobId, Slot, Time};

/// A slot that is held, by the one job that it was given to. It goes back to its [`Driver`] by
/// [`depart`](crate::Driver::depart) or [`denied`](crate::Driver::denied). Dropped anywhere else it
/// goes back too, as of a job that has failed, when its driver hears of something next; that asks to
/// be [woken](crate::Driver::next_wakeup) at once.
///
/// The number of the slot is its [driver's](crate::Driver::slot_of) to tell, as servers may be numbered
/// anew meanwhile.
///
/// ```compile_fail,E0382
/// # fn give_back_twice(driver: &mut live::Driver<()>, guard: live::SlotGuard, now: gate::Time) {
/// driver.depart(now, guard, live::model::Work::Done);
/// driver.depart(now, guard, live::model::Work::Done);
/// # }
/// ```
///
/// [`Driver`]: crate::Driver
#[derive(Debug)]
#[must_use = "a guard that is dropped gives its slot back as of a job that has failed"]
pub struct SlotGuard {
    id: HolderId,
    /// `None` once its driver has taken it back.
    dropped: Option<Arc<Dropped>>,
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        if let Some(dropped) = self.dropped.take() {
            dropped.push(self.id);
        }
    }
}

/// The number of a holder: its place in the list, and the job, by which no later holder in the same
/// place is taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HolderId {
    at: u32,
    job: JobId,
}

/// The guards of a driver that were dropped since it has last looked.
#[derive(Debug, Default)]
struct Dropped {
    /// True if there may be one: asked at each event, while the list is locked for those alone that
    /// there are.
    any: AtomicBool,
    ids: Mutex<Vec<HolderId>>,
}

impl Dropped {
    fn push(&self, id: HolderId) {
        let mut ids = self.lock();
        ids.push(id);
        // Inside the lock: whoever takes the list lowers the flag there too, so that a flag that is
        // down never stands over a list that is not empty.
        self.any.store(true, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<HolderId>> {
        // A list is whole between any two of its steps. One who panics drops guards as well.
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A job that holds a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    /// The job, which no other holder has had.
    pub(crate) job: JobId,
    pub(crate) slot: Slot,
    pub(crate) class: u32,
    pub(crate) arrived: Time,
    /// Until when it may wait, where it still does so for something else.
    pub(crate) deadline: Option<Time>,
    /// When its job began; `None` while it waits for slots of quotas.
    pub(crate) since: Option<Time>,
}

/// The holders of a gate's slots. A guard names a holder and not a slot, so that servers are numbered
/// anew here and nowhere else.
#[derive(Debug)]
pub(crate) struct Holders {
    list: Vec<Option<Holder>>,
    vacant: Vec<u32>,
    /// The place of each slot's holder in the list, server by server, as far as slots were held so far.
    by_slot: Vec<Vec<Option<u32>>>,
    dropped: Arc<Dropped>,
}

impl Holders {
    /// None, of so many servers.
    pub(crate) fn new(servers: usize) -> Holders {
        Holders {
            list: Vec::new(),
            vacant: Vec::new(),
            by_slot: vec![Vec::new(); servers],
            dropped: Arc::default(),
        }
    }

    /// A job holds a slot from now on.
    pub(crate) fn put(&mut self, holder: Holder) -> SlotGuard {
        let slot = holder.slot;
        let slots = &mut self.by_slot[slot.server as usize];
        if slots.len() <= slot.index as usize {
            slots.resize(slot.index as usize + 1, None);
        }
        let place = &mut slots[slot.index as usize];
        assert!(place.is_none(), "{slot:?} is held by two");
        let at = self.vacant.pop().unwrap_or_else(|| {
            self.list.push(None);
            (self.list.len() - 1) as u32
        });
        *place = Some(at);
        self.list[at as usize] = Some(holder);
        let id = HolderId { at, job: holder.job };
        SlotGuard { id, dropped: Some(Arc::clone(&self.dropped)) }
    }

    /// Takes a guard back, which is none from here on: its holder is to be [taken out](Holders::take).
    pub(crate) fn redeem(&self, mut guard: SlotGuard) -> HolderId {
        self.check(&guard);
        guard.dropped = None;
        guard.id
    }

    /// A holder holds its slot no more.
    pub(crate) fn take(&mut self, id: HolderId) -> Holder {
        let place = &mut self.list[id.at as usize];
        let holder = place.take_if(|holder| holder.job == id.job);
        let holder = holder.expect("a slot is given back by its one guard");
        self.vacant.push(id.at);
        let Slot { server, index } = holder.slot;
        self.by_slot[server as usize][index as usize] = None;
        holder
    }

    /// The holder that a guard stands for.
    pub(crate) fn of(&self, guard: &SlotGuard) -> &Holder {
        self.check(guard);
        let holder = self.list[guard.id.at as usize].as_ref();
        holder.expect("who has a guard holds its slot")
    }

    pub(crate) fn of_mut(&mut self, guard: &SlotGuard) -> &mut Holder {
        self.check(guard);
        let holder = self.list[guard.id.at as usize].as_mut();
        holder.expect("who has a guard holds its slot")
    }

    fn check(&self, guard: &SlotGuard) {
        let is_own = guard.dropped.as_ref().is_some_and(|of| Arc::ptr_eq(of, &self.dropped));
        assert!(is_own, "a slot goes back to the gate that it is of");
    }

    /// True if guards were dropped that were not [taken](Holders::take_dropped) yet.
    pub(crate) fn any_dropped(&self) -> bool {
        self.dropped.any.load(Ordering::Acquire)
    }

    /// Those that were dropped, in that order.
    pub(crate) fn take_dropped(&mut self) -> Vec<HolderId> {
        let mut ids = self.dropped.lock();
        self.dropped.any.store(false, Ordering::Release);
        std::mem::take(&mut *ids)
    }

    /// Guards that somebody has.
    pub(crate) fn guards(&self) -> usize {
        Arc::strong_count(&self.dropped) - 1
    }

    /// A slot of a server that nobody holds.
    pub(crate) fn free_slot(&self, server: u32) -> Slot {
        let slots = &self.by_slot[server as usize];
        let index = slots.iter().position(Option::is_none).unwrap_or(slots.len());
        Slot { server, index: index as u32 }
    }

    /// All of them, by their slots.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Holder> {
        let places = self.by_slot.iter().flatten().flatten();
        places.map(|at| self.list[*at as usize].as_ref().expect("it is taken out of both"))
    }

    /// The same, in any order.
    pub(crate) fn each_mut(&mut self) -> impl Iterator<Item = &mut Holder> {
        self.list.iter_mut().flatten()
    }

    /// Servers are at these places of before from now on.
    ///
    /// # Panics
    /// If somebody holds a slot of one that has no place any more.
    pub(crate) fn renumber(&mut self, places: &[Option<usize>]) {
        let had = self.each().count();
        self.by_slot = placed(&mut self.by_slot, places);
        for (server, slots) in (0..).zip(&self.by_slot) {
            for at in slots.iter().flatten() {
                let holder = self.list[*at as usize].as_mut().expect("it is taken out of both");
                holder.slot.server = server;
            }
        }
        assert_eq!(self.each().count(), had, "nobody holds a slot of a server that goes");
    }
}

/// The entry of each place that had one before; a default where it is new. What is taken is gone from
/// `had`.
pub fn placed<T: Default>(had: &mut [T], places: &[Option<usize>]) -> Vec<T> {
    let entry = |place: &Option<usize>| place.map(|at| std::mem::take(&mut had[at]));
    places.iter().map(entry).map(Option::unwrap_or_default).collect()
}
