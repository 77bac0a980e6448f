//! Runs of a set length: intervals, the end, and what changes on the way.

use gate::{Event, Time};

use super::{Replication, nanos};
use crate::agenda::Changed;
use crate::calendar::Entry;
use crate::program::Program;
use crate::run::SimError;

/// State of the agenda.
#[derive(Debug, Default)]
pub(crate) struct AgendaState {
    /// Beginning of each interval, from the start of the run or of a period, and the end of the
    /// last.
    borders: Vec<Time>,
    period: Option<u64>,
    /// The border that comes next, counted over all periods.
    next: u64,
    /// Counts at the border before.
    before: Snapshot,
    /// Counts of each interval, over all periods.
    pub(crate) intervals: Vec<Snapshot>,
    /// Number of entries of the calendar that are the agenda's own.
    entered: usize,
}

/// Counts, as numbers to be added and subtracted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// Time \[s\].
    pub(crate) span: f64,
    /// Of each class: offered, completed, failed, response times \[s\].
    pub(crate) classes: Vec<[f64; 4]>,
    /// Of each gate: job-seconds of waiting, slot-seconds of holding.
    pub(crate) gates: Vec<[f64; 2]>,
    /// Of each station: job-seconds, server-seconds.
    pub(crate) stations: Vec<[f64; 2]>,
}

impl Snapshot {
    /// Adds `sign` times another.
    fn add(&mut self, other: &Snapshot, sign: f64) {
        fn each<const N: usize>(own: &mut Vec<[f64; N]>, other: &[[f64; N]], sign: f64) {
            own.resize(other.len(), [0.0; N]);
            for (own, other) in own.iter_mut().flatten().zip(other.iter().flatten()) {
                *own += sign * other;
            }
        }
        self.span += sign * other.span;
        each(&mut self.classes, &other.classes, sign);
        each(&mut self.gates, &other.gates, sign);
        each(&mut self.stations, &other.stations, sign);
    }
}

impl AgendaState {
    pub(super) fn new(program: &Program) -> AgendaState {
        let Some(agenda) = &program.agenda else { return AgendaState::default() };
        let divided = agenda.divided_s(&program.classes);
        let n = agenda.intervals;
        let border = |at: u32| Time::from_nanos(nanos(divided * f64::from(at) / f64::from(n)));
        AgendaState {
            borders: if n == 0 { Vec::new() } else { (0..=n).map(border).collect() },
            period: agenda.period_s.map(nanos),
            intervals: vec![Snapshot::default(); n as usize],
            ..AgendaState::default()
        }
    }

    /// The time of a border, counted over all periods.
    fn border(&self, number: u64) -> Option<Time> {
        let n = self.borders.len() as u64 - 1;
        match self.period {
            Some(period) => {
                let (round, at) = (number / n, (number % n) as usize);
                Some(Time::from_nanos(round * period + self.borders[at].as_nanos()))
            }
            None => self.borders.get(number as usize).copied(),
        }
    }
}

impl Replication<'_> {
    /// Enters what the agenda says.
    pub(super) fn schedule_agenda(&mut self) {
        let Some(agenda) = &self.program.agenda else { return };
        for (at, change) in agenda.changes.iter().enumerate() {
            let entry = Entry::Change(at as u32);
            match change.what {
                Changed::Told { at, order, .. } => self.calendar.enter_in_order(at, order, entry),
                _ => self.calendar.enter(Time::from_nanos(nanos(change.at_s)), entry),
            }
            self.agenda.entered += 1;
        }
        if self.agenda.borders.len() > 1 {
            self.agenda.next = match self.agenda.period {
                // The first period is warm-up: the first border is its end.
                Some(_) => self.agenda.borders.len() as u64 - 1,
                None => 0,
            };
            self.enter_interval_end();
        }
    }

    fn enter_interval_end(&mut self) {
        if let Some(at) = self.agenda.border(self.agenda.next) {
            self.calendar.enter(at, Entry::IntervalEnd);
            self.agenda.entered += 1;
        }
    }

    /// A border between intervals.
    pub(super) fn end_interval(&mut self) -> Result<(), SimError> {
        // Taken out before the check, which compares with what is still in the calendar.
        self.agenda.entered -= 1;
        self.check_alive()?;
        let now = self.snapshot();
        let state = &mut self.agenda;
        let n = state.borders.len() as u64 - 1;
        let first = if state.period.is_some() { n } else { 0 };
        if state.next > first {
            let interval = &mut state.intervals[((state.next - 1) % n) as usize];
            interval.add(&now, 1.0);
            interval.add(&state.before, -1.0);
        }
        state.before = now;
        state.next += 1;
        self.enter_interval_end();
        Ok(())
    }

    /// Jobs that wait for each other would let the agenda run to its end with nothing else.
    fn check_alive(&self) -> Result<(), SimError> {
        let busy = self.customers.len() > self.free.len();
        let nothing_comes = self.ready.is_empty() && self.calendar.len() <= self.agenda.entered;
        if busy && nothing_comes && !self.is_shut() {
            return Err(SimError::Deadlock { at: self.now, place: self.fullest() });
        }
        Ok(())
    }

    /// True if jobs wait at a gate of which no slot is held: the agenda has taken its slots or servers
    /// away. In a deadlock each job that others wait for holds a slot or a place.
    fn is_shut(&self) -> bool {
        self.gates.iter().any(|state| state.gate.waiting() > 0 && state.gate.busy() == 0)
    }

    fn snapshot(&mut self) -> Snapshot {
        let span = self.accumulate();
        let classes = self.classes.iter().map(|tally| {
            let failed = tally.refused + tally.lost + tally.reneged + tally.timed_out;
            let counts = [tally.offered, tally.completed, failed].map(|count| count as f64);
            [counts[0], counts[1], counts[2], tally.response_sum]
        });
        let gates = self.gates.iter().map(|state| &state.tally);
        Snapshot {
            span,
            classes: classes.collect(),
            gates: gates.map(|g| [g.waiting_area * 1e-9, g.busy_area * 1e-9]).collect(),
            stations: (self.stations.iter())
                .map(|state| [state.jobs_area * 1e-9, state.busy_area * 1e-9])
                .collect(),
        }
    }

    /// A change of the agenda.
    pub(super) fn change(&mut self, at: usize) {
        self.agenda.entered -= 1;
        let Some(agenda) = &self.program.agenda else { return };
        if let Some(period) = self.agenda.period {
            self.calendar.enter_after(self.now, period, Entry::Change(at as u32));
            self.agenda.entered += 1;
        }
        match agenda.changes[at].what {
            Changed::Slots { gate, server, slots } => {
                self.tell_change(gate as u32, Event::Resize { server, slots });
            }
            Changed::GateDown { gate, server } => {
                self.tell_change(gate as u32, Event::Down(server));
            }
            Changed::Told { gate, event, .. } => self.tell_change(gate as u32, event),
            Changed::GateUp { gate, server } => self.tell_change(gate as u32, Event::Up(server)),
            Changed::GateSpeed { gate, server, speed } => {
                let servers = self.program.gates[gate].spec.servers.len();
                let speeds = &mut self.gates[gate].speeds;
                speeds.resize(servers, 1.0);
                speeds[server as usize] = speed;
            }
            Changed::StationSpeed { station, server, speed } => {
                let state = &mut self.stations[station];
                if let Some(due) = state.set_speed(self.now, server as usize, speed) {
                    self.calendar.enter(due, Entry::Station(station as u32));
                }
            }
        }
    }

    /// Runs from the start to the end of the agenda. What comes before the end of the first period,
    /// where there are periods, is warm-up.
    ///
    /// # Errors
    /// As for [`run`](Replication::run).
    pub(crate) fn run_agenda(&mut self) -> Result<(), SimError> {
        let agenda = self.program.agenda.as_ref().expect("it is asked for with an agenda only");
        if let Some(period) = agenda.period_s {
            self.run_until(Time::from_nanos(nanos(period)))?;
            self.reset();
        }
        match agenda.length_s {
            Some(length) => {
                let end = Time::from_nanos(nanos(length));
                self.run_until(end)?;
                // Before the last border is counted out: its entry stays in the calendar.
                self.check_alive()?;
                // The last border of the intervals is the end itself.
                let state = &self.agenda;
                let last = state.borders.len() > 1 && state.border(state.next) == Some(end);
                if last { self.end_interval() } else { Ok(()) }
            }
            None => {
                while self.step()? {}
                self.check_alive()
            }
        }
    }

    /// Runs up to `end`; what happens at that very moment belongs to the time after it.
    fn run_until(&mut self, end: Time) -> Result<(), SimError> {
        loop {
            let idle = self.ready.is_empty();
            if idle && self.calendar.due().is_none_or(|due| due >= end) {
                break;
            }
            self.step()?;
        }
        self.now = end;
        Ok(())
    }

    pub(crate) fn intervals(&self) -> &[Snapshot] {
        &self.agenda.intervals
    }
}
