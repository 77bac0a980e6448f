//! Models of the running monitor: estimates, what-if questions, and decisions about the slots.

use live::model::{Fitted, Model, Now, Refusal};
use live::{Estimate, WhatIf};

use super::classes::JobClass;
use super::client;
use super::pool::{Pool, PoolIndex};
use super::state::Loop;

impl Pool {
    /// Estimates of the service behind its gate, and of its slots where they are left to it.
    pub(super) fn estimates(&self, database: &str, classes: &[JobClass]) -> Vec<Estimate> {
        let of = self.named(database);
        // A pool that was closed has classes of before.
        let class = |class: u32| {
            classes.get(class as usize).map_or_else(String::new, |class| class.name.clone())
        };
        self.driver.estimates(&of, class)
    }

    /// The fitted model, as the parts of a scenario.
    pub(super) fn fitted(&self) -> Option<Fitted> {
        self.driver.fitted(self.clients_most)
    }

    fn named(&self, database: &str) -> String {
        format!("{database}/{}", String::from_utf8_lossy(&self.user))
    }
}

/// The models of all pools at one moment. What they are asked takes as long as it takes, and is not
/// asked where clients wait.
#[derive(Debug)]
pub(super) struct Models(Vec<(String, Model, Now)>);

impl Models {
    /// Estimates of each pool of which enough is known; the reason if that is none.
    pub(super) fn what_if(&self, asked: &WhatIf) -> Result<Vec<Estimate>, Refusal> {
        let mut rows = Vec::new();
        let mut refused = Refusal::TooLittle;
        for (of, model, now) in &self.0 {
            match model.what_if(of, asked, *now) {
                Ok(answer) => rows.extend(answer),
                Err(cause) if refused == Refusal::TooLittle => refused = cause,
                Err(_) => {}
            }
        }
        if rows.is_empty() { Err(refused) } else { Ok(rows) }
    }
}

impl Loop {
    /// The models of now.
    pub(super) fn models(&self) -> Models {
        let there = self.pools.iter().enumerate().filter(|(_, pool)| !pool.vacant);
        let models = there.filter_map(|(at, pool)| {
            let of = pool.named(&self.config.databases[pool.database].name);
            Some((of, pool.driver.model()?.clone(), pool.driver.stands(self.clients_of(at))))
        });
        Models(models.collect())
    }

    /// Clients of a pool that are in.
    fn clients_of(&self, pool: PoolIndex) -> u32 {
        let mine = |client: &&client::Client| client.pool == pool && is_in(client);
        self.clients.iter().map(|(_, client)| client).filter(mine).count() as u32
    }

    /// Looks at how many clients each pool has.
    pub(super) fn count_clients(&mut self) {
        let mut counts = vec![0; self.pools.len()];
        for (_, client) in self.clients.iter().filter(|(_, client)| is_in(client)) {
            counts[client.pool] += 1;
        }
        for (pool, count) in self.pools.iter_mut().zip(counts) {
            pool.clients_most = pool.clients_most.max(count);
        }
    }

    /// Tells whoever wants to know what was decided about the slots.
    pub(super) fn tell_decisions(&mut self) {
        let Some(told) = self.config.decisions else { return };
        for pool in &mut self.pools {
            let of = pool.named(&self.config.databases[pool.database].name);
            while let Some(moved) = pool.driver.next_untold() {
                told(&moved.line(&of));
            }
        }
    }
}

fn is_in(client: &client::Client) -> bool {
    use client::State::{Idle, Served, Waits};
    matches!(client.state, Idle | Waits(_) | Served(_))
}
