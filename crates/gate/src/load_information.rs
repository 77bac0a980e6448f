//! Load information of the servers beyond their lengths now: utilisation and work, and all of it as
//! it was a while ago, or as somebody else reports it.

use std::collections::VecDeque;
use std::time::Duration;

use crate::{GateSpec, Report, RouterSpec, ServerView, SpecError, Time, Window};

/// Age of the load information that a router sees. Which of the servers are
/// [usable](ServerView::usable), and how many [slots](ServerView::slots) they have, it always sees
/// as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum LoadInformation {
    /// As it is.
    #[default]
    Fresh,
    /// As it was this long ago; before that, as it was at the start. The gate remembers every change
    /// of that time.
    Delayed(
        /// Age, above 0.
        Duration,
    ),
    /// As it was at the last whole multiple of this, before whatever happened then.
    Refreshed(
        /// The period, above 0.
        Duration,
    ),
    /// As it was last [reported](crate::Event::Report); as it is for a server that nobody reported
    /// on yet.
    Reported,
}

impl LoadInformation {
    /// True if it is [`Fresh`](LoadInformation::Fresh).
    pub fn is_fresh(&self) -> bool {
        *self == LoadInformation::Fresh
    }

    pub(crate) fn check(self) -> Result<(), SpecError> {
        match self {
            LoadInformation::Delayed(Duration::ZERO)
            | LoadInformation::Refreshed(Duration::ZERO) => Err(SpecError::Span),
            _ => Ok(()),
        }
    }
}

/// State that the gate keeps for a router that sees more than lengths now.
#[derive(Debug)]
pub(crate) struct Watch {
    load_information: LoadInformation,
    window: Window,
    counts_work: bool,
    speed: Option<u64>,
    /// Each server since its last change.
    states: Vec<State>,
    /// Under a delay: each server's earlier states, oldest first. The first one holds until the
    /// second, and at the oldest moment that can still be asked for.
    past: Vec<VecDeque<State>>,
    /// Under refreshes: as it was at the last of them, and which that was.
    refreshed: Vec<ServerView>,
    refresh: u64,
    reports: Vec<Option<Report>>,
    seen: Vec<ServerView>,
}

/// Changes to the work at a server, as far as work is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    Same,
    Joins(u64),
    Leaves(u64),
    /// All who waited are sent elsewhere.
    Cleared,
    Starts {
        index: u32,
        size: u64,
    },
    Departs {
        index: u32,
    },
}

/// A server from one change to the next, in which nothing moves but time.
#[derive(Clone, Debug, Default)]
struct State {
    since: Time,
    waiting: u64,
    busy: u32,
    /// Of its slots, 0 to 1.
    share: f64,
    /// The integral of the share up to `since` \[ns\].
    area: f64,
    /// The recent utilisation at `since`.
    recent: f64,
    /// The work that waits. Wide enough for any sum of sizes, so that what joins also leaves.
    work: u128,
    /// The jobs in service: slot, start, size.
    service: Vec<(u32, Time, u64)>,
}

impl State {
    /// Brings the integrals up to `now`.
    fn advance(&mut self, now: Time, window: Window) {
        self.recent = self.recent_at(now, window);
        self.area += self.share * span_ns(self.since, now);
        self.since = now;
    }

    fn recent_at(&self, at: Time, window: Window) -> f64 {
        match window {
            Window::SinceStart => 0.0,
            Window::Recent(window) => {
                let spans = span_ns(self.since, at) / window.as_nanos() as f64;
                self.share + (self.recent - self.share) * (-spans).exp()
            }
        }
    }

    /// View of it at a moment before its next change. No side of it is usable.
    fn view(&self, at: Time, watch: (Window, Option<u64>)) -> ServerView {
        let (window, speed) = watch;
        let utilisation = match window {
            Window::Recent(_) => self.recent_at(at, window),
            Window::SinceStart if at == Time::ZERO => 0.0,
            Window::SinceStart => {
                (self.area + self.share * span_ns(self.since, at)) / at.as_nanos() as f64
            }
        };
        let left = |&(_, start, size): &(u32, Time, u64)| match speed {
            None => size,
            Some(speed) => {
                let done = u128::from(speed) * at.since(start).as_nanos() / 1_000_000_000;
                size.saturating_sub(u64::try_from(done).unwrap_or(u64::MAX))
            }
        };
        let work = self.service.iter().map(left).map(u128::from).sum::<u128>() + self.work;
        let work = u64::try_from(work).unwrap_or(u64::MAX);
        let (waiting, busy) = (self.waiting, self.busy);
        ServerView { waiting, busy, utilisation, work, ..ServerView::default() }
    }
}

fn span_ns(from: Time, to: Time) -> f64 {
    to.as_nanos().saturating_sub(from.as_nanos()) as f64
}

impl Watch {
    /// State that a gate of this specification must keep; none if its router looks at lengths now
    /// only.
    pub(crate) fn new(spec: &GateSpec, views: &[ServerView]) -> Option<Box<Watch>> {
        let window = spec.router.window();
        let (counts_work, speed) = match spec.router {
            RouterSpec::LeastWork { speed, .. } => (true, speed),
            _ => (false, None),
        };
        let is_stale = !spec.load_information.is_fresh() && !spec.router.is_blind();
        if window.is_none() && !counts_work && !is_stale {
            return None;
        }
        let states = views.iter().map(|view| State { share: share(view), ..State::default() });
        let mut watch = Watch {
            load_information: spec.load_information,
            window: window.unwrap_or(Window::SinceStart),
            counts_work,
            speed,
            states: states.collect(),
            past: Vec::new(),
            refreshed: Vec::new(),
            refresh: 0,
            reports: Vec::new(),
            seen: views.to_vec(),
        };
        match spec.load_information {
            LoadInformation::Fresh => {}
            LoadInformation::Delayed(_) => {
                let first = |state: &State| VecDeque::from([state.clone()]);
                watch.past = watch.states.iter().map(first).collect();
            }
            LoadInformation::Refreshed(_) => watch.take_views(Time::ZERO),
            LoadInformation::Reported => watch.reports = vec![None; views.len()],
        }
        Some(Box::new(watch))
    }

    /// Time goes on to an event, of which nothing has happened yet.
    pub(crate) fn tick(&mut self, now: Time) {
        let LoadInformation::Refreshed(period) = self.load_information else { return };
        let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        let refresh = now.as_nanos() / period;
        if refresh > self.refresh {
            self.refresh = refresh;
            self.take_views(Time::from_nanos(refresh * period));
        }
    }

    fn take_views(&mut self, at: Time) {
        let watch = (self.window, self.speed);
        self.refreshed = self.states.iter().map(|state| state.view(at, watch)).collect();
    }

    /// A server has changed, and looks like this now.
    pub(crate) fn note(&mut self, now: Time, server: usize, view: &ServerView, work: Work) {
        let state = &mut self.states[server];
        state.advance(now, self.window);
        state.waiting = view.waiting;
        state.busy = view.busy;
        state.share = share(view);
        if self.counts_work {
            state.count(now, work);
        }
        let LoadInformation::Delayed(delay) = self.load_information else { return };
        let past = &mut self.past[server];
        // What changed twice in one moment was never seen in between; but the state at the start
        // is what is seen until the delay has passed.
        if past.len() > 1 && past.back().is_some_and(|last| last.since == now) {
            past.pop_back();
        }
        past.push_back(state.clone());
        forget(past, now, delay);
    }

    /// Somebody outside says how a server is.
    pub(crate) fn report(&mut self, server: usize, report: Report) {
        if self.load_information == LoadInformation::Reported {
            self.reports[server] = Some(report);
        }
    }

    /// Views of the router now, of servers that are so.
    pub(crate) fn see(&mut self, now: Time, views: &[ServerView]) -> &[ServerView] {
        let watch = (self.window, self.speed);
        for (at, seen) in self.seen.iter_mut().enumerate() {
            let view = match self.load_information {
                LoadInformation::Fresh => self.states[at].view(now, watch),
                LoadInformation::Refreshed(_) => self.refreshed[at],
                LoadInformation::Reported => match &self.reports[at] {
                    None => self.states[at].view(now, watch),
                    Some(report) => ServerView {
                        waiting: report.waiting,
                        busy: report.busy,
                        utilisation: report.utilisation.as_f64(),
                        work: report.work,
                        ..ServerView::default()
                    },
                },
                LoadInformation::Delayed(delay) => {
                    let past = &mut self.past[at];
                    let then = forget(past, now, delay);
                    past.front().map_or_else(ServerView::default, |state| state.view(then, watch))
                }
            };
            *seen = ServerView { usable: views[at].usable, slots: views[at].slots, ..view };
        }
        &self.seen
    }
}

impl State {
    fn count(&mut self, now: Time, work: Work) {
        match work {
            Work::Same => {}
            Work::Joins(size) => self.work += u128::from(size),
            Work::Leaves(size) => self.work -= u128::from(size),
            Work::Cleared => self.work = 0,
            Work::Starts { index, size } => self.service.push((index, now, size)),
            Work::Departs { index } => self.service.retain(|(slot, ..)| *slot != index),
        }
    }
}

/// Drops the states that nobody can see any more; the moment that is seen.
fn forget(past: &mut VecDeque<State>, now: Time, delay: Duration) -> Time {
    let Some(then) = Duration::from_nanos(now.as_nanos()).checked_sub(delay) else {
        return Time::ZERO;
    };
    let then = Time::ZERO + then;
    while past.get(1).is_some_and(|next| next.since <= then) {
        past.pop_front();
    }
    then
}

/// The share of a server's slots that is busy.
fn share(view: &ServerView) -> f64 {
    if view.busy >= view.slots { 1.0 } else { f64::from(view.busy) / f64::from(view.slots) }
}
