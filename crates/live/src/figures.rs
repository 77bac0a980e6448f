//! Findings of a driver about what is behind its gate, and the slots that stand where they are left
//! to it.

use gate::Conduct;

use crate::control::Moved;
use crate::driver::Driver;
use crate::estimate::Estimate;
use crate::model::{Fitted, Now};

impl<O: Copy> Driver<O> {
    /// Estimates of what is behind the gate `of`, with its classes by these names, and of the slots
    /// where they are left to it.
    pub fn estimates(&self, of: &str, class: impl Fn(u32) -> String) -> Vec<Estimate> {
        let model = self.model().map(|model| model.estimates(of, class));
        let mut rows = model.unwrap_or_default();
        let Some(controlled) = self.controlled() else { return rows };
        for (server, standing) in controlled.standing.iter().enumerate() {
            let mut moves = controlled.moves.iter().rev();
            let last = moves.find(|moved| moved.server as usize == server && moved.stands());
            let basis = match last {
                Some(moved) => moved.made.why.to_string(),
                None => "as it began".to_owned(),
            };
            let (least, most) = (controlled.band.least.into(), controlled.band.most.into());
            rows.push(Estimate {
                of: format!("{of} server {}", server + 1),
                what: match controlled.conduct {
                    Conduct::Acts => "slots".to_owned(),
                    Conduct::Shadows => "slots, if it acted".to_owned(),
                },
                unit: "slots".to_owned(),
                value: f64::from(*standing),
                interval: Some((least, most)),
                happened: None,
                basis,
            });
        }
        rows
    }

    /// Findings as the parts of a scenario with so many clients.
    pub fn fitted(&self, clients: u32) -> Option<Fitted> {
        self.model()?.fitted(self.stands(clients))
    }

    /// State of the gate, with so many clients.
    pub fn stands(&self, clients: u32) -> Now {
        let servers = self.slots_each().count() as u32;
        Now { clients, servers, slots: self.slots() / servers.max(1) }
    }
}

impl Moved {
    /// It in a line, of the gate `of`.
    pub fn line(&self, of: &str) -> String {
        let seconds = self.at.since(gate::Time::ZERO).as_secs_f64();
        let (server, slots, why) = (self.server + 1, self.made.slots, self.made.why);
        format!("{seconds:.1} s: {of} server {server}: {slots} slots: {why}")
    }
}
