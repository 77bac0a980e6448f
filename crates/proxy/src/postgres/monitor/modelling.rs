//! What the running monitor says of its models: estimates, what would be, and what was decided about
//! the slots.

use gate::Time;

use super::classes::JobClass;
use super::client;
use super::pool::{Pool, PoolIndex};
use super::state::Loop;
use crate::postgres::console::{Estimate, WhatIf};
use crate::postgres::model::{Now, Refusal};

impl Pool {
    /// What is found of what is behind its gate, and what stands where the slots are left to it.
    pub(super) fn estimates(&self, database: &str, classes: &[JobClass]) -> Vec<Estimate> {
        let of = self.named(database);
        let class = |class: u32| classes[class as usize].name.clone();
        let model = self.driver.model().map(|model| model.estimates(&of, class));
        let mut rows = model.unwrap_or_default();
        let Some(controlled) = self.driver.controlled() else { return rows };
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
                    gate::Conduct::Acts => "slots".to_owned(),
                    gate::Conduct::Shadows => "slots, if it acted".to_owned(),
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

    fn named(&self, database: &str) -> String {
        format!("{database}/{}", String::from_utf8_lossy(&self.user))
    }
}

impl Loop {
    /// What would be, of each pool of which enough is known; why not, if that is none.
    pub(super) fn what_if(&self, asked: &WhatIf) -> Result<Vec<Estimate>, Refusal> {
        let mut rows = Vec::new();
        let mut refused = Refusal::TooLittle;
        for (at, pool) in self.pools.iter().enumerate() {
            let Some(model) = pool.driver.model() else { continue };
            let of = pool.named(&self.config.databases[pool.database].name);
            let servers = pool.driver.slots_each().count() as u32;
            let slots = pool.driver.slots() / servers.max(1);
            let now = Now { clients: self.clients_of(at), servers, slots };
            match model.what_if(&of, asked, now) {
                Ok(answer) => rows.extend(answer),
                Err(cause) if refused == Refusal::TooLittle => refused = cause,
                Err(_) => {}
            }
        }
        if rows.is_empty() { Err(refused) } else { Ok(rows) }
    }

    /// Clients of a pool that are in.
    fn clients_of(&self, pool: PoolIndex) -> u32 {
        let is_in = |client: &client::Client| {
            use client::State::{Idle, Served, Waits};
            client.pool == pool && matches!(client.state, Idle | Waits(_) | Served(_))
        };
        self.clients.iter().filter(|(_, client)| is_in(client)).count() as u32
    }

    /// Tells whoever wants to know what was decided about the slots.
    pub(super) fn tell_decisions(&mut self) {
        let Some(told) = self.config.decisions else { return };
        for pool in &mut self.pools {
            let of = pool.named(&self.config.databases[pool.database].name);
            while let Some(moved) = pool.driver.next_untold() {
                let (slots, why) = (moved.made.slots, moved.made.why);
                let seconds = moved.at.since(Time::ZERO).as_secs_f64();
                let server = moved.server + 1;
                told(&format!("{seconds:.1} s: {of} server {server}: {slots} slots: {why}"));
            }
        }
    }
}
