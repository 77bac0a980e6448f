//! Slots that are left to the gate: a controller for each server of a pool, what it decided, and the
//! band that the model gives it.

use std::collections::VecDeque;
use std::time::Duration;

use gate::{Band, Conduct, ControlSpec, Controller, Event, Gate, Move, Time, Why};

use crate::model::Model;

/// Moves that are remembered; the counts go on.
const MOVES_MAX: usize = 100;

/// Search for the slots that are left to the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auto {
    /// A server never has fewer.
    pub floor: u32,
    /// It never has more.
    pub ceiling: u32,
    /// Choice of making the moves or only telling them.
    pub conduct: Conduct,
    /// Length of a window of measurement, if jobs are short.
    pub window: Duration,
}

impl Default for Auto {
    fn default() -> Auto {
        Auto { floor: 1, ceiling: 100, conduct: Conduct::Acts, window: Duration::from_secs(1) }
    }
}

impl Auto {
    /// Slots to begin with, where nothing says more.
    const START: u32 = 20;

    /// As many slots as each server begins with: where the controller only tells what it would do,
    /// they stay at the ceiling.
    pub fn start(&self) -> u32 {
        match self.conduct {
            Conduct::Acts => Auto::START.clamp(self.floor, self.ceiling),
            Conduct::Shadows => self.ceiling,
        }
    }

    /// # Errors
    /// If no controller can work so.
    pub fn check(&self) -> Result<(), gate::ControlError> {
        if self.floor == 0 || self.floor > self.ceiling {
            return Err(gate::ControlError::Limits);
        }
        self.spec(0, self.floor).check()
    }

    fn spec(&self, server: u32, start: u32) -> ControlSpec {
        let Auto { floor, ceiling, conduct, window } = *self;
        let best = start.clamp(floor, ceiling);
        let band = Band { least: floor, best, most: ceiling };
        ControlSpec { server, floor, ceiling, band, window, conduct }
    }
}

/// A number of slots that a controller has decided on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moved {
    /// When, since the monitor began.
    pub at: Time,
    /// The server.
    pub server: u32,
    /// The slots, and why.
    pub made: Move,
}

impl Moved {
    /// True if it is a decision that stands, and no turn of a trial.
    pub fn stands(&self) -> bool {
        matches!(self.made.why, Why::Model(_) | Why::More(_) | Why::Fewer(_))
    }
}

/// Record of what controllers have done.
#[derive(Clone, Debug, PartialEq)]
pub struct Controlled {
    /// Choice of making the moves or only telling them.
    pub conduct: Conduct,
    /// Slots that stand at each server.
    pub standing: Vec<u32>,
    /// Between which numbers the model sees the best.
    pub band: Band,
    /// The last moves, the oldest first.
    pub moves: Vec<Moved>,
    /// Number of moves in all.
    pub made: u64,
}

/// The controllers of one gate.
#[derive(Debug)]
pub(crate) struct Control {
    auto: Auto,
    controllers: Vec<Controller>,
    moves: VecDeque<Moved>,
    made: u64,
    /// Decisions that nobody has been told of yet.
    untold: VecDeque<Moved>,
}

impl Control {
    /// # Panics
    /// If the parameters were not checked.
    pub(crate) fn new(auto: &Auto, gate: &Gate) -> Control {
        let slots = gate.servers().iter().map(|server| server.slots);
        let controllers = slots.zip(0..).map(|(slots, server)| {
            Controller::new(&auto.spec(server, slots)).expect("the configuration was checked")
        });
        Control {
            auto: *auto,
            controllers: controllers.collect(),
            moves: VecDeque::new(),
            made: 0,
            untold: VecDeque::new(),
        }
    }

    /// The gate was told something: the resizes that follow.
    pub(crate) fn after(&mut self, now: Time, event: &Event, gate: &Gate, to: &mut Vec<Event>) {
        for at in 0..self.controllers.len() {
            if let Some(made) = self.controllers[at].after(now, event, gate) {
                self.moved(now, at as u32, made, to);
            }
        }
    }

    /// The job that departs next from this server counts for nothing.
    pub(crate) fn spoil(&mut self, server: u32) {
        self.controllers[server as usize].spoil();
    }

    /// The model says something else.
    pub(crate) fn learn(&mut self, now: Time, model: &Model, to: &mut Vec<Event>) {
        let Auto { floor, ceiling, .. } = self.auto;
        for at in 0..self.controllers.len() {
            let band = model.band(floor, self.controllers[at].standing(), ceiling);
            let made = self.controllers[at].set_band(now, band);
            if let Some(made) = made.expect("a model's band is in order") {
                self.moved(now, at as u32, made, to);
            }
        }
    }

    fn moved(&mut self, now: Time, server: u32, made: Move, to: &mut Vec<Event>) {
        if self.auto.conduct == Conduct::Acts {
            to.push(Event::Resize { server, slots: made.slots });
        }
        let moved = Moved { at: now, server, made };
        for (list, kept) in [(&mut self.moves, true), (&mut self.untold, moved.stands())] {
            if kept {
                list.push_back(moved);
            }
            if list.len() > MOVES_MAX {
                list.pop_front();
            }
        }
        self.made += 1;
    }

    /// A decision that nobody has been told of yet.
    pub(crate) fn next_untold(&mut self) -> Option<Moved> {
        self.untold.pop_front()
    }

    /// Slots that stand at a server; none if what is decided is not done.
    pub(crate) fn found(&self, server: u32) -> Option<u32> {
        self.acting(server).map(Controller::standing)
    }

    /// As many slots as a server has now; none if what is decided is not done.
    pub(crate) fn sought(&self, server: u32) -> Option<u32> {
        self.acting(server).map(Controller::slots)
    }

    fn acting(&self, server: u32) -> Option<&Controller> {
        let controller = &self.controllers[server as usize];
        (controller.conduct() == Conduct::Acts).then_some(controller)
    }

    pub(crate) fn controlled(&self) -> Controlled {
        Controlled {
            conduct: self.auto.conduct,
            standing: self.controllers.iter().map(Controller::standing).collect(),
            band: self.controllers[0].band(),
            moves: self.moves.iter().copied().collect(),
            made: self.made,
        }
    }
}
