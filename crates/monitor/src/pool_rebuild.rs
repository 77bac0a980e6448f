//! Pools that are there when the configuration changes: their gates begin anew with other policies,
//! classes or servers. Who holds a slot keeps it, and who waits waits on, in the order of arrival.
//!
//! A server that is gone takes no job any more; the others change when its last job has ended. The
//! mode changes when nobody is in. Until then the pool is [behind](Pool::behind) and tried again
//! every second.

use gate::{Access, GateSpec, JobId, Time};
use live::{Anew, Driver};

use super::client::State as ClientState;
use super::config::{Address, Config, Mode};
use super::pool::PoolIndex;
use super::server::State;
use super::slab::Key;
use super::state::Loop;

/// The new numbers of classes, and the number of classes.
#[derive(Clone, Debug)]
pub(super) struct Renumbering {
    numbers: Vec<Option<u32>>,
    classes: usize,
}

impl Renumbering {
    /// From the classes of one configuration to those of another, by their names.
    pub(super) fn new(from: &Config, to: &Config) -> Renumbering {
        let to = to.classes.list();
        let number = |name: &str| to.iter().position(|class| class.name == name);
        let numbers = from.classes.list().iter();
        let numbers = numbers.map(|class| number(&class.name).map(|number| number as u32));
        Renumbering { numbers: numbers.collect(), classes: to.len() }
    }

    /// True if each class keeps its number, and no other comes.
    fn is_none(&self) -> bool {
        let same = (0..).zip(&self.numbers).all(|(at, number)| *number == Some(at));
        same && self.numbers.len() == self.classes
    }

    /// The same classes.
    pub(super) fn same(config: &Config) -> Renumbering {
        Renumbering::new(config, config)
    }
}

/// The place in a pool of each server of a configuration, if it has one: by its address, or else by
/// its place, whose server has moved then.
fn places(had: &[Address], wanted: &[Address]) -> Vec<Option<usize>> {
    let mut is_free = vec![true; had.len()];
    let mut found: Vec<Option<usize>> = Vec::with_capacity(wanted.len());
    for address in wanted {
        let at = (0..had.len()).find(|&at| is_free[at] && had[at] == *address);
        if let Some(at) = at {
            is_free[at] = false;
        }
        found.push(at);
    }
    // Behind those by address: one that has moved must not take the place of one that is still there.
    for (at, place) in found.iter_mut().enumerate() {
        if place.is_none() && is_free.get(at) == Some(&true) {
            is_free[at] = false;
            *place = Some(at);
        }
    }
    found
}

impl Loop {
    /// Brings a pool up to what the configuration says of it, as far as that can be now. What has to
    /// wait, in words.
    pub(super) fn bring_up(&mut self, at: PoolIndex, classes: &Renumbering) -> Vec<&'static str> {
        // What was decided by the old gate is carried out: the new one knows nothing of it.
        self.settle();
        let pool = &self.pools[at];
        let database = &self.config.databases[pool.database];
        let terms = self.config.terms.get(&pool.user);
        let (gate, mode) = database.pool(terms, self.config.unreachable_max);
        let (mut waits, mut now) = (Vec::new(), pool.mode);
        let auto = database.auto(terms).copied();
        // A client's names for statements are the gate's in one mode and the server's in another.
        if mode != pool.mode {
            match self.client_limits.of_pool(at) {
                0 => now = mode,
                _ => waits.push("the mode counts when its clients have gone"),
            }
        }
        let (had, wanted) = (pool.addresses.clone(), database.servers.clone());
        let mut places = places(&had, &wanted);
        let mut is_elsewhere = false;
        let mut gate = gate;
        if self.holds_elsewhere(at, &places) {
            waits.push("other servers count when the jobs at those that are gone have ended");
            is_elsewhere = true;
            self.leave_servers(at, &places);
            let pool = &self.pools[at];
            places = (0..pool.addresses.len()).map(Some).collect();
            // The router and the roles are of the servers that it has.
            gate = GateSpec {
                discipline: gate.discipline,
                room: gate.room,
                wait_max: gate.wait_max,
                unreachable_max: gate.unreachable_max,
                early_rejection: gate.early_rejection,
                ..pool.spec.clone()
            };
        }
        let pool = &mut self.pools[at];
        pool.behind = !waits.is_empty();
        let is_identity = places.iter().copied().eq((0..pool.addresses.len()).map(Some));
        // But for what a gate takes while it goes on.
        let policies = GateSpec {
            servers: pool.spec.servers.clone(),
            room: pool.spec.room,
            wait_max: pool.spec.wait_max,
            unreachable_max: pool.spec.unreachable_max,
            ..gate.clone()
        };
        let auto = auto.filter(|_| now != Mode::Session);
        let is_same = is_identity && classes.is_none() && policies == pool.spec;
        if !is_same || now != pool.mode || auto != pool.auto {
            let addresses = if is_elsewhere { had.clone() } else { wanted };
            self.renew_gate(at, gate, now, (&places, addresses), classes);
        } else {
            self.follow_limits(at, &gate);
            if !is_elsewhere {
                self.follow_slots(at, &gate);
            }
        }
        if !is_elsewhere {
            self.move_servers(at, &had, &places);
            self.pools[at].forget_unlisted_users();
        }
        waits
    }

    /// Servers of the same place that are elsewhere now: connections to the old one end with their jobs.
    fn move_servers(&mut self, at: PoolIndex, had: &[Address], places: &[Option<usize>]) {
        let database = &self.config.databases[self.pools[at].database];
        let wanted = database.servers.clone();
        for (place, address) in wanted.iter().enumerate() {
            let before = places[place].map(|before| &had[before]);
            // A server that is new has no connection yet.
            if before.is_some_and(|before| before != address) {
                self.pools[at].addresses[place] = address.clone();
                self.move_server(at, place as u32);
            }
        }
    }

    /// True if a job is at a server that is not among `places`.
    fn holds_elsewhere(&self, at: PoolIndex, places: &[Option<usize>]) -> bool {
        let is_gone = |place: u32| !places.contains(&Some(place as usize));
        let mut there = self.servers.iter().map(|(_, server)| server);
        there.any(|server| server.pool == at && server.slot.is_some() && is_gone(server.place))
    }

    /// True if a pool has the servers that the configuration says, in the same places: else it
    /// waits for the jobs at those that are gone.
    pub(super) fn has_its_servers(&self, at: PoolIndex) -> bool {
        let pool = &self.pools[at];
        pool.addresses == self.config.databases[pool.database].servers
    }

    /// Servers that are gone get no job any more.
    fn leave_servers(&mut self, at: PoolIndex, places: &[Option<usize>]) {
        for place in 0..self.pools[at].addresses.len() {
            if !places.contains(&Some(place)) {
                // Without slots, too: whoever tries a server while none is up may raise this one again.
                self.tell(at, |driver, now| driver.lower(now, place as u32));
                self.tell(at, |driver, now| driver.resize(now, place as u32, 0));
                self.pools[at].retries[place] = None;
            }
        }
        self.settle();
    }

    /// Room and the longest wait are changed while the gate goes on.
    fn follow_limits(&mut self, at: PoolIndex, gate: &GateSpec) {
        let pool = &mut self.pools[at];
        // The gate compares nothing: each that it is told is a step of its recording.
        let room = (pool.spec.room != gate.room).then_some(gate.room);
        (pool.spec.wait_max, pool.spec.room) = (gate.wait_max, gate.room);
        pool.spec.servers.clone_from(&gate.servers);
        if let Some(longest) = gate.wait_max
            && longest != self.pools[at].driver.wait_max()
        {
            self.tell(at, |driver, now| driver.set_wait_max(now, longest));
        }
        if let Some(room) = room {
            self.tell(at, |driver, now| driver.set_room(now, room));
        }
        self.follow_unreachable(at, gate.unreachable_max);
    }

    /// So long jobs may wait while no server is up, unless nobody gets in for another reason.
    pub(super) fn follow_unreachable(
        &mut self,
        at: PoolIndex,
        longest: Option<std::time::Duration>,
    ) {
        self.pools[at].spec.unreachable_max = longest;
        if self.pools[at].janitor.unavailable_at_once().is_none() {
            self.tell(at, |driver, now| driver.set_unreachable_max(now, longest));
        }
    }

    /// The slots of the servers are changed while the gate goes on. Those that are left to the gate stay
    /// where it has them, also at a server that was [left](Loop::leave_servers) and stays after all.
    fn follow_slots(&mut self, at: PoolIndex, gate: &GateSpec) {
        for (place, server) in (0..).zip(&gate.servers) {
            let slots = self.pools[at].driver.sought(place).unwrap_or(server.slots);
            self.tell(at, |driver, now| driver.resize(now, place, slots));
            self.trim(at, place);
        }
    }

    /// The gate of a pool begins anew, with its servers at these places of before, where they are at
    /// these addresses.
    fn renew_gate(
        &mut self,
        at: PoolIndex,
        mut gate: GateSpec,
        mode: Mode,
        (places, addresses): (&[Option<usize>], Vec<Address>),
        classes: &Renumbering,
    ) {
        assert_eq!(places.len(), addresses.len(), "each place has an address");
        self.leave_places(at, places, addresses);
        let pool = &mut self.pools[at];
        let terms = self.config.terms.get(&pool.user);
        let database = &self.config.databases[pool.database];
        let auto = database.auto(terms).copied().filter(|_| mode != Mode::Session);
        if auto.is_some() && auto == pool.auto {
            // What was found stands.
            for (server, place) in gate.servers.iter_mut().zip(places) {
                if let Some(found) = place.and_then(|place| pool.driver.found(place as u32)) {
                    server.slots = found;
                }
            }
        }
        let waiting = pool.driver.take_waiting();
        let longest = pool.driver.wait_max();
        let room = gate.room;
        // Nobody who waits is sent away.
        let most = room.map(|room| room.max(waiting.len() as u64));
        let spec = GateSpec { room: most, ..gate };
        let anew = Anew {
            spec: &spec,
            places,
            classes: &classes.numbers,
            classes_now: classes.classes,
            record_max: self.config.record_max,
            auto: auto.as_ref(),
            models: mode != Mode::Session,
        };
        pool.driver.begin_anew(self.now, &anew);
        // The new gate was told of slots that are held and of servers that are down, but not of this.
        if pool.paused {
            pool.driver.pause(self.now);
        }
        (pool.spec, pool.auto) = (GateSpec { room, ..spec.clone() }, auto);
        if mode != pool.mode {
            pool.mode = mode;
            self.renew(at);
        }
        for (client, arrived) in waiting {
            self.wait_on(client, arrived, longest);
        }
        if most != room {
            self.tell(at, |driver, now| driver.set_room(now, room));
        }
        self.decided.push_back(at);
        self.follow_health(at, None);
        self.settle();
    }

    /// The servers of a pool have other places from now on; nobody is served by those that are gone.
    fn leave_places(&mut self, at: PoolIndex, places: &[Option<usize>], addresses: Vec<Address>) {
        let mine = self.servers.iter();
        let mine = mine.filter(|(_, server)| server.pool == at && server.own_place().is_some());
        let mine: Vec<Key> = mine.map(|(key, _)| key).collect();
        let now_at = |place: usize| places.iter().position(|one| *one == Some(place));
        for key in mine {
            let Some(server) = self.servers.get_mut(key) else { continue };
            match now_at(server.place as usize) {
                // The driver numbers the slot of its job anew.
                Some(place) => server.place = place as u32,
                None => {
                    let is_used = server.slot.is_some() || server.client.is_some();
                    assert!(!is_used, "a server goes when its last job has ended");
                    self.drop_server(key);
                }
            }
        }
        self.pools[at].settle_places(places, addresses);
    }

    /// A job that waits goes on to do so at a gate that has begun anew, as of the class that it has
    /// now.
    fn wait_on(&mut self, key: Key, arrived: Time, longest: std::time::Duration) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let (pool, since) = (client.pool, client.since);
        assert!(client.state.job().is_some(), "who goes while waiting reneges");
        let waits_for_welcome = matches!(client.state, ClientState::WaitingForWelcome(_));
        client.state = if waits_for_welcome {
            ClientState::WaitingForWelcome(None)
        } else {
            ClientState::Idle
        };
        // Found anew with the job, if the database has roles now.
        client.access = Access::Write;
        let job = self.job_of(key);
        let own = self.config.classes.list()[job.class as usize].wait_max;
        let wait = own.map_or(longest, |own| own.min(longest));
        let since = if waits_for_welcome { arrived } else { since };
        let job = gate::Job { deadline: Some(since + wait), ..job };
        let tell = |driver: &mut Driver<Key>, now| driver.wait_on(now, key, arrived, job);
        let id: JobId = self.tell(pool, tell);
        if let Some(client) = self.clients.get_mut(key) {
            client.state = match waits_for_welcome {
                true => ClientState::WaitingForWelcome(Some(id)),
                false => ClientState::Waits(id),
            };
        }
        // What was decided of it is carried out when all are there.
    }

    /// Tries again to bring up the pools that are behind.
    pub(super) fn catch_up(&mut self) {
        for at in 0..self.pools.len() {
            if self.pools[at].behind && !self.pools[at].vacant {
                let same = Renumbering::same(&self.config);
                drop(self.bring_up(at, &same));
                self.settle();
            }
        }
        self.catch_up_quotas();
    }

    /// True if a server of a pool waits to be admitted by quotas.
    pub(super) fn is_admitting(&self, at: PoolIndex) -> bool {
        let mut there = self.servers.iter().map(|(_, server)| server);
        there.any(|server| server.pool == at && matches!(server.state, State::Admitting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_keep_their_places_by_address_and_else_by_number() {
        let at = |port: u16| Address::Tcp(([127, 0, 0, 1], port).into());
        let of = |had: &[u16], wanted: &[u16]| {
            let [had, wanted] = [had, wanted].map(|ports| ports.iter().map(|&port| at(port)));
            places(&had.collect::<Vec<_>>(), &wanted.collect::<Vec<_>>())
        };
        assert_eq!(of(&[1, 2], &[1, 2]), [Some(0), Some(1)]);
        assert_eq!(of(&[1, 2], &[2, 1]), [Some(1), Some(0)]);
        assert_eq!(of(&[1, 2], &[1, 2, 3]), [Some(0), Some(1), None]);
        assert_eq!(of(&[1, 2], &[2]), [Some(1)]);
        assert_eq!(of(&[1, 2], &[1, 7]), [Some(0), Some(1)], "it has moved");
        assert_eq!(of(&[1, 2], &[3, 1, 2]), [None, Some(0), Some(1)]);
        assert_eq!(of(&[1, 1], &[1, 1, 1]), [Some(0), Some(1), None]);
        assert_eq!(of(&[1], &[2, 3]), [Some(0), None]);
    }
}
