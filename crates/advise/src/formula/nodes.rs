//! A route boiled down: every station that a job passes, with the gate right in front of it, and
//! what is asked of it in all.

use gate::{DisciplineSpec, GateSpec, Queues, RouterSpec};
use sim::{Class, Demand, Load, Network, Order, Sizes, Speed, StationKind, Step};
use solve::{Moments, Station};
use workload::{Dist, Draw};

use super::{Served, laws, plain};
use crate::scenario::mean_demand;

/// All that a job meets on its way.
pub(super) struct Nodes {
    pub(super) list: Vec<Node>,
    /// Simplifications that were made, in sentences.
    pub(super) remarks: Vec<String>,
    /// True if there are no gates at which anybody ever waits.
    pub(super) gates_ignored: bool,
    /// True if a fair share by quantum is treated as ideal sharing.
    pub(super) fair_share: bool,
    /// True if the work that jobs bring depends on documents that are dealt from a deck. Then it is
    /// spread more evenly over time than the formulas know, which draw each job anew.
    pub(super) dealt: bool,
}

/// A station, and the gate in front of it if it makes anybody wait.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: String,
    /// The stations that serve here, each for an equal share of the visits: one, or those of servers
    /// that have one queue.
    pub(super) stations: Vec<usize>,
    pub(super) gate: Option<Front>,
    /// Service of one of the stations; of all of them together where they have one queue.
    pub(super) kind: Kind,
    pub(super) dealing: Dealing,
    /// Mean number of visits of a job.
    pub(super) visits: f64,
    /// Mean demand of a job, over all its visits \[s\].
    pub(super) demand: f64,
    /// The part of that which does not depend on the job's size \[s\].
    pub(super) base: f64,
    /// The part that does \[s/byte\].
    pub(super) per_byte: f64,
    /// True if every visit has the same exponential demand.
    pub(super) is_exponential: bool,
    /// Moments of the demand of the one visit; none where there are several.
    pub(super) moments: Option<Moments>,
    /// The whole distribution of that.
    pub(super) law: Option<laws::Law>,
    /// The speed with 1, 2, ... jobs in service, where it depends on their number; the last one holds
    /// beyond.
    pub(super) curve: Vec<f64>,
}

/// A gate right in front of a station.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Front {
    pub(super) index: usize,
    pub(super) slots: u32,
    /// True if all waiting is at the gate, and none at the station behind it.
    pub(super) has_wait: bool,
    /// True if those who wait are served in the order in which they came.
    pub(super) in_order: bool,
}

/// Rule by which the jobs of a node come to its stations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Dealing {
    /// All to one queue.
    None,
    /// To so many queues that are alike, one after the other.
    InTurn(u32),
    /// To so many queues that are alike, each by chance.
    ByChance(u32),
}

impl Dealing {
    /// Number of queues.
    pub(super) fn queues(self) -> f64 {
        match self {
            Dealing::None => 1.0,
            Dealing::InTurn(queues) | Dealing::ByChance(queues) => f64::from(queues),
        }
    }
}

/// Service of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Fifo {
        servers: u32,
    },
    Sharing {
        processors: u32,
    },
    Delay,
    /// First in first out for a slot, fewer processors than slots, shared.
    Limited {
        slots: u32,
        processors: u32,
    },
}

impl Nodes {
    /// The nodes of a class's route; else the reason why it has none.
    pub(super) fn of(network: &Network, class: &Class) -> Result<Nodes, String> {
        // All classes compete for the slots.
        let population = network.classes.iter().try_fold(0_u32, |sum, class| match class.load {
            Load::Closed { population, .. } => Some(sum.saturating_add(population)),
            Load::Open(_) | Load::Varying(_) | Load::Trace(_) | Load::Within => None,
        });
        let nodes = Nodes {
            list: Vec::new(),
            remarks: Vec::new(),
            gates_ignored: false,
            fair_share: false,
            dealt: false,
        };
        let mut walk = Walk { network, class, population, nodes, gates_met: 0 };
        walk.steps(&class.route, 1.0, None)?;
        let mut nodes = walk.nodes;
        nodes.gates_ignored = walk.gates_met == 0;
        nodes.list.retain(|node| node.demand > 0.0);
        let by_size = |node: &Node| node.kind != Kind::Delay && node.per_byte > 0.0;
        nodes.dealt = is_dealt(&class.sizes) && nodes.list.iter().any(by_size);
        Ok(nodes)
    }

    /// Number of nodes that have queues or sharing.
    pub(super) fn busy(&self) -> usize {
        self.list.iter().filter(|node| node.kind != Kind::Delay).count()
    }

    /// The stations as `solve` knows them, if their network has product form.
    pub(super) fn product_form(&self) -> Result<Vec<Station>, super::NoFormula> {
        let station = |node: &Node| {
            if node.dealing != Dealing::None {
                return Err(node.not_dealt_alone().into());
            }
            if !node.curve.is_empty() {
                return Err(node.not_of_one_speed().into());
            }
            let station = match node.kind {
                Kind::Delay => Station::delay(node.demand)?,
                Kind::Sharing { processors } => Station::multi(node.demand, processors)?,
                Kind::Fifo { servers } if node.is_exponential => {
                    Station::multi(node.demand, servers)?
                }
                Kind::Fifo { .. } => return Err(node.not_exponential().into()),
                Kind::Limited { .. } => return Err(node.not_limited_alone().into()),
            };
            Ok(station)
        };
        self.list.iter().map(station).collect()
    }

    /// Jobs' times at nodes of product form, from the residence at each.
    pub(super) fn served(&self, residences: impl Iterator<Item = f64>) -> Vec<Served> {
        self.list.iter().zip(residences).map(|(node, residence)| node.served(residence)).collect()
    }

    /// The first node whose jobs a router deals to several queues.
    pub(super) fn dealt_to_several(&self) -> Option<&Node> {
        self.list.iter().find(|node| node.dealing != Dealing::None)
    }

    /// The first node that this rate overloads.
    pub(super) fn overloaded(&self, lambda: f64) -> Option<&Node> {
        self.list.iter().find(|node| match node.kind {
            _ if !node.curve.is_empty() => lambda * node.demand >= node.curve[node.curve.len() - 1],
            Kind::Fifo { servers: n } | Kind::Sharing { processors: n } => {
                lambda * node.demand >= f64::from(n)
            }
            Kind::Limited { processors, .. } => lambda * node.demand >= f64::from(processors),
            Kind::Delay => false,
        })
    }
}

impl Node {
    /// A job's time here, in a network of product form, from its residence.
    pub(super) fn served(&self, residence: f64) -> Served {
        match self.kind {
            Kind::Fifo { .. } => Served::queued(residence, self.demand),
            Kind::Sharing { .. } | Kind::Limited { .. } => Served::shared(residence, self.demand),
            Kind::Delay => Served::alone(),
        }
    }

    /// The first of its stations, which no other node has.
    pub(super) fn station(&self) -> usize {
        self.stations[0]
    }

    pub(super) fn not_exponential(&self) -> String {
        format!(
            "`{}` serves first in first out and its demand is not one exponential distribution, \
             which has a formula only for one server, visited once, with Poisson arrivals and \
             nothing but delays beside it",
            self.name
        )
    }

    pub(super) fn not_limited_alone(&self) -> String {
        format!(
            "`{}` is shared behind a gate of fewer slots than jobs, which has a formula only for one \
             visit to one processor, with nothing but delays beside it",
            self.name
        )
    }

    pub(super) fn not_dealt_alone(&self) -> String {
        format!(
            "a router deals jobs to `{}` and others, which has a formula of its own for like servers, \
             visited once, with Poisson arrivals and nothing but delays beside them",
            self.name
        )
    }

    pub(super) fn not_of_one_speed(&self) -> String {
        format!(
            "the speed of `{}` depends on how many it serves, which has a formula only under an open \
             load, with nothing but delays beside it, or without gates",
            self.name
        )
    }

    /// Its speed with 1, 2, ... of so many in service.
    pub(super) fn speeds(&self, slots: u32) -> Vec<f64> {
        let speed = |n: usize| match self.curve.get(n) {
            Some(speed) => *speed,
            None => self.curve.last().copied().unwrap_or(1.0),
        };
        (0..slots as usize).map(speed).collect()
    }

    pub(super) fn visited_often(&self) -> String {
        format!("the gate before `{}` is passed other than once by each job", self.name)
    }
}

struct Walk<'a> {
    network: &'a Network,
    class: &'a Class,
    population: Option<u32>,
    nodes: Nodes,
    /// Gates that may make somebody wait.
    gates_met: usize,
}

impl Walk<'_> {
    /// Steps that a job passes so many times on average, right behind a gate or not.
    fn steps(&mut self, steps: &[Step], passes: f64, front: Option<Front>) -> Result<(), String> {
        for step in steps {
            match step {
                Step::Visit { station, demand } => {
                    self.visit(&[*station], demand, passes, front)?
                }
                Step::VisitServer { .. } => {
                    return Err("a router chooses the station, and no formula knows routers".into());
                }
                Step::Hold { gate, inside } => self.hold(*gate, inside, passes)?,
                Step::Choose(ways) => {
                    for (chance, steps) in ways {
                        self.steps(steps, passes * chance, front)?;
                    }
                }
                Step::Repeat { again, steps } => {
                    self.steps(steps, passes / (1.0 - again), front)?
                }
                Step::Reply => return Err("a slot is kept after the answer".into()),
                Step::Send { .. } => return Err("jobs are sent that nobody waits for".into()),
                Step::Fork { .. } => return Err("a job forks".into()),
                Step::Become { .. } => return Err("jobs change their class".into()),
                Step::Lookup { .. } => return Err("the way depends on a cache".into()),
            }
        }
        Ok(())
    }

    fn hold(&mut self, index: usize, inside: &[Step], passes: f64) -> Result<(), String> {
        let node = &self.network.gates[index];
        let spec = &node.spec;
        if let [Step::VisitServer { demand }] = inside
            && spec.queues == Queues::Shared
            && node.stations.len() > 1
        {
            return self.visit_pool(index, demand, passes);
        }
        // At most as many jobs as the server with the fewest slots has: whatever the router does,
        // nobody waits. A sum is enough where all servers have one queue.
        let slots: u32 = spec.servers.iter().map(|server| server.slots).sum();
        let enough = match spec.queues {
            Queues::Shared => slots,
            Queues::PerServer => spec.servers.iter().map(|s| s.slots).min().unwrap_or(0),
        };
        if let Some(population) = self.population
            && population <= enough
        {
            let remark = format!(
                "gate `{}` is left aside: a population of {population} never waits for {enough} \
                 slots",
                node.name
            );
            if !self.nodes.remarks.contains(&remark) {
                self.nodes.remarks.push(remark);
            }
            return self.steps(inside, passes, None);
        }
        self.gates_met += 1;
        self.check_plain(&node.name, spec, slots)?;
        if spec.servers.len() > 1 && spec.queues == Queues::PerServer {
            return self.visit_dealt(index, inside, passes);
        }
        match inside {
            [Step::Visit { station, demand }] => {
                // Of one class and one priority, all other disciplines that pass are first in first out.
                let in_order = !matches!(spec.discipline, DisciplineSpec::Lifo);
                let front = Front { index, slots, has_wait: true, in_order };
                self.visit(&[*station], demand, passes, Some(front))
            }
            [Step::VisitServer { demand }] if node.stations.len() == 1 => {
                let in_order = !matches!(spec.discipline, DisciplineSpec::Lifo);
                let front = Front { index, slots, has_wait: true, in_order };
                self.visit(&node.stations, demand, passes, Some(front))
            }
            [Step::VisitServer { .. }] => {
                Err("a router chooses the station, and no formula knows routers".into())
            }
            steps if steps.iter().any(|step| matches!(step, Step::Hold { .. })) => {
                Err(format!("a slot of gate `{}` is held while another gate is passed", node.name))
            }
            _ => Err(format!("a slot of gate `{}` is held through several steps", node.name)),
        }
    }

    /// Servers that have one queue: where each slot has a processor of its own, they are one station of
    /// so many servers, whichever of them a job is given to.
    fn visit_pool(&mut self, index: usize, demand: &Demand, passes: f64) -> Result<(), String> {
        let gate = &self.network.gates[index];
        let slots: u32 = gate.spec.servers.iter().map(|server| server.slots).sum();
        self.gates_met += 1;
        self.check_plain(&gate.name, &gate.spec, slots)?;
        check_pool(self.network, index)?;
        let in_order = !matches!(gate.spec.discipline, DisciplineSpec::Lifo);
        let front = Front { index, slots, has_wait: true, in_order };
        self.visit(&gate.stations, demand, passes, Some(front))
    }

    /// Servers that are alike, each with a queue and a station of its own, to which an open load is dealt
    /// once, in turn or by chance: what comes to each is then a known stream.
    fn visit_dealt(&mut self, index: usize, inside: &[Step], passes: f64) -> Result<(), String> {
        let gate = &self.network.gates[index];
        let spec = &gate.spec;
        let servers = spec.servers.len() as u32;
        let dealing = match spec.router {
            RouterSpec::RoundRobin => Dealing::InTurn(servers),
            RouterSpec::Random => Dealing::ByChance(servers),
            _ => {
                let name = &gate.name;
                return Err(format!("gate `{name}` has a router, and no formula knows it"));
            }
        };
        let stations = || gate.stations.iter().map(|&station| &self.network.stations[station]);
        let first = stations().next();
        let kind = first.map(|station| station.kind);
        let is_open = self.population.is_none() && passes == 1.0;
        let [Step::VisitServer { demand }] = inside else {
            return Err("a router chooses the station, and no formula knows routers".into());
        };
        if !is_open
            || !is_even(spec)
            || gate.stations.len() != spec.servers.len()
            || !stations().all(|station| Some(station.kind) == kind && station.is_plain())
        {
            let name = &gate.name;
            return Err(format!(
                "gate `{name}` has a router, which has a formula of its own for an open load and \
                 servers that are alike"
            ));
        }
        let slots = spec.servers[0].slots;
        let in_order = !matches!(spec.discipline, DisciplineSpec::Lifo);
        let front = Front { index, slots, has_wait: true, in_order };
        let stations = gate.stations.clone();
        self.visit(&stations[..1], demand, passes, Some(front))?;
        let node = self.nodes.list.last_mut().expect("a station was visited");
        if node.station() != stations[0] || node.visits != 1.0 {
            return Err(format!("station `{}` is visited elsewhere too", node.name));
        }
        let all = node.gate.map(|front| Front { slots: servers * slots, ..front });
        (node.stations, node.dealing, node.gate) = (stations, dealing, all);
        Ok(())
    }

    /// A gate that only makes jobs wait, in an order that does not look at them.
    fn check_plain(&self, name: &str, spec: &GateSpec, slots: u32) -> Result<(), String> {
        let refuses = match (spec.room, self.population) {
            // Those who hold a slot need no room.
            (Some(room), Some(population)) => room < u64::from(population.saturating_sub(slots)),
            (room, _) => room.is_some(),
        };
        if refuses || spec.wait_max.is_some() || self.class.deadline.is_some() {
            return Err(format!("gate `{name}` turns jobs away, and the formulas let all in"));
        }
        let classes = &self.network.classes;
        let alike = classes.windows(2).all(|pair| pair[0].priority == pair[1].priority);
        match &spec.discipline {
            DisciplineSpec::Fifo => Ok(()),
            DisciplineSpec::Priority if alike => Ok(()),
            _ if classes.len() > 1 => {
                Err(format!("gate `{name}` does not serve its classes first in first out"))
            }
            // With one class and one priority, the order of those who wait changes no mean.
            DisciplineSpec::Lifo | DisciplineSpec::Priority => Ok(()),
            // The same where the order looks at the class, the priority or how long a job waits.
            DisciplineSpec::PriorityAgeing { .. } => Ok(()),
            _ => Err(format!("no formula knows the discipline of gate `{name}`")),
        }
    }

    fn visit(
        &mut self,
        stations: &[usize],
        demand: &Demand,
        passes: f64,
        front: Option<Front>,
    ) -> Result<(), String> {
        let of = &self.network.stations[stations[0]];
        if of.order == Order::ShortestRemaining {
            return Err(plain::not_shortest_alone(&of.name));
        }
        if matches!(of.kind, StationKind::FairShare { .. }) && !self.nodes.fair_share {
            self.nodes.fair_share = true;
            self.nodes.remarks.push(format!(
                "the fair share of `{}` is treated as ideal sharing, its limit for small quanta",
                of.name
            ));
        }
        let (kind, front, curve) = served(of, stations.len() > 1, front);
        let (base, per_byte) = match *demand {
            Demand::Drawn(dist) => (dist.mean(), 0.0),
            Demand::OfSize { per_byte_s, base_s } => (base_s, per_byte_s),
            Demand::OfDocument(_) => return Err("a demand is given by document".into()),
            Demand::OfTrace => return Err("a demand is given by a trace".into()),
        };
        let mean = mean_demand(demand, &self.class.sizes);
        let is_exponential = matches!(demand, Demand::Drawn(Dist::Exponential { .. }));
        let shares = |node: &&mut Node| node.stations.iter().any(|of| stations.contains(of));
        let Some(node) = self.nodes.list.iter_mut().find(shares) else {
            let once = passes == 1.0;
            let moments = if once { moments(demand, &self.class.sizes) } else { None };
            let law = if once { laws::law(demand, &self.class.sizes) } else { None };
            self.nodes.list.push(Node {
                name: of.name.clone(),
                stations: stations.to_vec(),
                gate: front,
                kind,
                dealing: Dealing::None,
                visits: passes,
                demand: passes * mean,
                base: passes * base,
                per_byte: passes * per_byte,
                is_exponential,
                moments,
                law,
                curve,
            });
            return Ok(());
        };
        if node.gate.map(|front| front.index) != front.map(|front| front.index)
            || node.stations != stations
        {
            return Err(format!(
                "station `{}` is visited behind a gate and elsewhere too",
                of.name
            ));
        }
        let same = (node.demand / node.visits - mean).abs() <= 1e-12 * mean;
        node.is_exponential &= is_exponential && same;
        (node.moments, node.law) = (None, None);
        node.visits += passes;
        node.demand += passes * mean;
        node.base += passes * base;
        node.per_byte += passes * per_byte;
        Ok(())
    }
}

/// Servers of a gate with one queue of which each slot has a processor of its own, so that nobody waits
/// but at the gate.
///
/// # Errors
/// If some have more slots than processors, or a speed that depends on how many are served, or if anybody comes to
/// one of them in another way: who has a slot may then wait behind it.
pub(super) fn check_pool(network: &Network, index: usize) -> Result<(), String> {
    let gate = &network.gates[index];
    if let Some(station) = visited_elsewhere(network, index) {
        return Err(format!(
            "station `{}` is visited behind the one queue of gate `{}` and elsewhere too",
            network.stations[station].name, gate.name
        ));
    }
    let stations = gate.stations.iter().map(|&station| &network.stations[station]);
    for (station, server) in stations.zip(&gate.spec.servers) {
        if station.kind.capacity().is_some_and(|capacity| capacity < server.slots) {
            return Err(format!(
                "the servers of gate `{}` have one queue, and more slots than their stations serve at \
                 once (`{}`: {} slots), so that the router's choice matters",
                gate.name, station.name, server.slots
            ));
        }
        if !station.is_plain() {
            return Err(format!(
                "station `{}` of gate `{}` has rules of its own, and the formulas know one queue before \
                 plain stations",
                station.name, gate.name
            ));
        }
    }
    Ok(())
}

/// A station of a gate's servers to which jobs come in another way, too.
fn visited_elsewhere(network: &Network, gate: usize) -> Option<usize> {
    let own = &network.gates[gate].stations;
    let mut routes: Vec<(&[Step], Option<usize>)> =
        network.classes.iter().map(|class| (&*class.route, None)).collect();
    while let Some((steps, around)) = routes.pop() {
        for step in steps {
            match step {
                Step::Visit { station, .. } if own.contains(station) => return Some(*station),
                Step::VisitServer { .. } if around != Some(gate) => {
                    let others = around.map_or(&[][..], |around| &network.gates[around].stations);
                    if let Some(&shared) = others.iter().find(|station| own.contains(station)) {
                        return Some(shared);
                    }
                }
                Step::Hold { gate, inside } => routes.push((inside, Some(*gate))),
                Step::Choose(ways) => {
                    routes.extend(ways.iter().map(|(_, steps)| (&**steps, around)));
                }
                Step::Repeat { steps, .. } => routes.push((steps, around)),
                Step::Send { way } => routes.push((way, None)),
                Step::Fork { ways, .. } => routes.extend(ways.iter().map(|way| (&**way, None))),
                Step::Lookup { hit, miss, .. } => {
                    routes.extend([(&**hit, around), (&**miss, around)]);
                }
                Step::Visit { .. }
                | Step::VisitServer { .. }
                | Step::Reply
                | Step::Become { .. } => {}
            }
        }
    }
    None
}

/// True if each of the servers does as much as any other over a long time: all have as many slots,
/// and the router prefers none.
pub(super) fn is_even(spec: &GateSpec) -> bool {
    let alike = spec.servers.windows(2).all(|pair| pair[0].slots == pair[1].slots);
    alike && matches!(spec.router, RouterSpec::Random | RouterSpec::RoundRobin)
}

/// True if sizes come from a deck that has different ones.
fn is_dealt(sizes: &Sizes) -> bool {
    let Sizes::Documents(set, Draw::Deck) = sizes else { return false };
    set.documents().windows(2).any(|pair| pair[0].bytes != pair[1].bytes)
}

/// Service of a station behind a gate, or together with others behind its queue, and its speeds.
fn served(
    of: &sim::Station,
    is_pool: bool,
    front: Option<Front>,
) -> (Kind, Option<Front>, Vec<f64>) {
    let (kind, front) = match front {
        Some(front) if is_pool => (Kind::Fifo { servers: front.slots }, Some(front)),
        front => behind(front, of.kind),
    };
    match (&of.speed, kind, front) {
        (Speed::Curve(curve), Kind::Fifo { .. } | Kind::Limited { .. }, Some(gate)) => {
            // However many processors it is said to have, its curve stands in their place.
            (Kind::Limited { slots: gate.slots, processors: 1 }, front, curve.clone())
        }
        (Speed::Curve(curve), kind, _) => (kind, front, curve.clone()),
        (Speed::One | Speed::Servers(_), kind, _) => (kind, front, Vec::new()),
    }
}

/// Service of a station behind a gate: its slots are servers where each has a processor of its own.
fn behind(front: Option<Front>, kind: StationKind) -> (Kind, Option<Front>) {
    let shared = |front: Option<Front>, processors: u32| match front {
        None => Kind::Sharing { processors },
        Some(Front { slots, .. }) if slots <= processors => Kind::Fifo { servers: slots },
        Some(Front { slots, .. }) => Kind::Limited { slots, processors },
    };
    match kind {
        StationKind::Sharing { processors } => (shared(front, processors), front),
        StationKind::FairShare { .. } => (shared(front, 1), front),
        StationKind::Delay => {
            (front.map_or(Kind::Delay, |front| Kind::Fifo { servers: front.slots }), front)
        }
        StationKind::Queue { servers } => match front {
            None => (Kind::Fifo { servers }, None),
            Some(front) => {
                // With more slots than servers, some of those who wait do so at the station.
                let front = Front { has_wait: front.slots <= servers, ..front };
                (Kind::Fifo { servers: front.slots.min(servers) }, Some(front))
            }
        },
    }
}

/// Moments of a demand, where they can be had.
pub(super) fn moments(demand: &Demand, sizes: &Sizes) -> Option<Moments> {
    let of_dist = |dist: &Dist| match *dist {
        Dist::Exponential { mean } => Moments::exponential(mean),
        Dist::Constant(value) => Moments::constant(value),
        Dist::Lognormal { mu, sigma } => Moments::lognormal(mu, sigma),
        dist => Moments::new(dist.mean(), dist.second_moment()),
    };
    match (demand, sizes) {
        (Demand::Drawn(dist), _) => of_dist(dist).ok(),
        (Demand::OfSize { per_byte_s: 0.0, base_s }, _) => Moments::constant(*base_s).ok(),
        (Demand::OfSize { per_byte_s, base_s }, Sizes::Drawn(dist)) => {
            of_dist(dist).ok()?.affine(*per_byte_s, *base_s).ok()
        }
        (Demand::OfSize { per_byte_s, base_s }, Sizes::Documents(set, _)) => {
            let demand = |document: &workload::Document| {
                (per_byte_s * document.bytes as f64 + base_s, f64::from(document.weight))
            };
            Moments::weighted(&set.documents().iter().map(demand).collect::<Vec<_>>()).ok()
        }
        (Demand::OfSize { .. }, Sizes::None) | (Demand::OfDocument(_) | Demand::OfTrace, _) => None,
    }
}
