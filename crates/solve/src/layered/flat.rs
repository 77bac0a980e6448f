//! A layered model without its infinite tasks: nobody waits for a thread of theirs, so that what
//! they do is done by their caller; what they do after the reply, or unasked, is open load.

use std::collections::BTreeMap;

use super::{Call, CallCounts, CallKind, EntryId, Layered, ProcessorDiscipline, Threads, check};

/// Chains of customers, and the stations that they wait at.
pub(super) struct Flat {
    pub(super) stations: Vec<Station>,
    pub(super) chains: Vec<Chain>,
    /// Entries that chains go through, callers before callees.
    pub(super) nodes: Vec<Node>,
    /// Node of an entry of a task with threads.
    pub(super) node_of: BTreeMap<EntryId, usize>,
    /// Node of the work that an entry of an infinite task does unasked, or asked from outside.
    pub(super) open_of: BTreeMap<EntryId, usize>,
}

/// A processor or the threads of a task.
pub(super) struct Station {
    pub(super) name: String,
    pub(super) servers: u32,
    pub(super) is_sharing: bool,
    /// Squared coefficient of variation of gaps.
    pub(super) gap_scv: f64,
    /// The chain whose threads these are; none for a processor.
    pub(super) chain: Option<usize>,
    /// The network that it is solved in.
    pub(super) layer: usize,
}

/// Parties that go round: customers, the threads of a task, or requests that nobody waits for.
pub(super) struct Chain {
    /// Number of them; none for requests from outside.
    pub(super) population: Option<u32>,
    /// Think time of customers; a thread's pause follows from what it is asked \[s\].
    pub(super) think: Option<f64>,
    /// The station that the threads are; none for customers and for requests from outside.
    pub(super) station: Option<usize>,
    pub(super) nodes: Vec<usize>,
}

/// An entry as its chain goes through it.
pub(super) struct Node {
    pub(super) chain: usize,
    pub(super) bodies: [Body; 2],
    /// Requests from outside [1/s].
    pub(super) open_rate: f64,
}

/// Work in a phase.
#[derive(Clone, Default)]
pub(super) struct Body {
    /// Time at processors that make nobody wait \[s\].
    pub(super) delay: f64,
    /// Its variance \[s^2\].
    pub(super) delay_variance: f64,
    /// By station of a processor.
    pub(super) visits: BTreeMap<usize, Visits>,
    /// By node called: how often.
    pub(super) calls: BTreeMap<usize, f64>,
    /// By what the number of rounds through slices and calls depends on: the variance of the number,
    /// and what a round does.
    pub(super) rounds: Vec<(f64, Body)>,
    /// By node sent to: how often.
    pub(super) sends: BTreeMap<usize, f64>,
}

/// Visits to a processor.
#[derive(Clone, Copy, Default)]
pub(super) struct Visits {
    /// Number of visits.
    pub(super) count: f64,
    /// Service in all \[s\].
    pub(super) service: f64,
    /// Squares of the services of visits, on average, in all \[s^2\].
    pub(super) square: f64,
}

impl Visits {
    fn new(count: f64, service: f64, scv: f64) -> Visits {
        let each = service / count;
        Visits { count, service, square: count * each * each * (1.0 + scv) }
    }

    /// Variance of the service of a visit \[s^2\].
    pub(super) fn variance(&self) -> f64 {
        let each = self.service / self.count;
        (self.square / self.count - each * each).max(0.0)
    }
}

impl Body {
    fn add(&mut self, other: &Body, times: f64) {
        self.delay += times * other.delay;
        self.delay_variance += times * other.delay_variance;
        for (&station, visits) in &other.visits {
            let sum = self.visits.entry(station).or_default();
            sum.count += times * visits.count;
            sum.service += times * visits.service;
            sum.square += times * visits.square;
        }
        self.rounds.extend(other.rounds.iter().map(|(var, round)| (times * var, round.clone())));
        for (&node, &mean) in &other.calls {
            *self.calls.entry(node).or_default() += times * mean;
        }
        for (&node, &mean) in &other.sends {
            *self.sends.entry(node).or_default() += times * mean;
        }
    }

    /// Other numbers for the nodes.
    fn turn(&mut self, turned: impl Fn(usize) -> usize) {
        self.calls = self.calls.iter().map(|(&to, &mean)| (turned(to), mean)).collect();
        self.sends = self.sends.iter().map(|(&to, &mean)| (turned(to), mean)).collect();
    }

    pub(super) fn is_empty(&self) -> bool {
        let is_idle = self.delay == 0.0 && self.visits.is_empty();
        is_idle && self.calls.is_empty() && self.sends.is_empty()
    }
}

impl Flat {
    pub(super) fn of(layered: &Layered) -> Flat {
        let mut making = Making::new(layered);
        let order = check::order(layered).expect("the model was checked for cycles");
        // Callees first, because a body refers to nodes that are there.
        for &task in order.iter().rev() {
            making.task(task);
        }
        making.done(&order)
    }
}

struct Making<'a> {
    layered: &'a Layered,
    flat: Flat,
    /// By processor: its station.
    processors: Vec<Option<usize>>,
    /// By entry of an infinite task: what a caller does, what is done after the reply, and the node
    /// that does both unasked.
    inlined: BTreeMap<EntryId, Inlined>,
}

struct Inlined {
    first: Body,
    whole: Body,
    second: Option<usize>,
    sent: Option<usize>,
}

impl Making<'_> {
    fn new(layered: &Layered) -> Making<'_> {
        let mut stations = Vec::new();
        let mut processors = Vec::new();
        for processor in &layered.processors {
            processors.push(processor.servers.map(|servers| {
                stations.push(Station {
                    name: format!("processor `{}`", processor.name),
                    servers,
                    is_sharing: processor.discipline == ProcessorDiscipline::Sharing,
                    gap_scv: 1.0,
                    chain: None,
                    layer: 0,
                });
                stations.len() - 1
            }));
        }
        let flat = Flat {
            stations,
            chains: Vec::new(),
            nodes: Vec::new(),
            node_of: BTreeMap::new(),
            open_of: BTreeMap::new(),
        };
        Making { layered, flat, processors, inlined: BTreeMap::new() }
    }

    fn task(&mut self, index: usize) {
        let task = &self.layered.tasks[index];
        let (population, think) = match task.threads {
            Threads::Infinite => return self.infinite(index),
            Threads::Finite(threads) => (threads, None),
            Threads::Reference { population, think } => (population, Some(think)),
        };
        // The bodies first: they may add chains of messages.
        let bodies: Vec<[Body; 2]> = (0..task.entries.len())
            .map(|entry| EntryId { task: index, entry })
            .map(|id| [self.body(id, 0), self.body(id, 1)])
            .collect();
        let chain = self.flat.chains.len();
        let station = think.is_none().then_some(self.flat.stations.len());
        if station.is_some() {
            self.flat.stations.push(Station {
                name: format!("task `{}`", task.name),
                servers: population,
                is_sharing: false,
                gap_scv: task.gap_scv,
                chain: Some(chain),
                layer: 0,
            });
        }
        let mut nodes = Vec::new();
        for (entry, bodies) in bodies.into_iter().enumerate() {
            let open_rate = task.entries[entry].open_rate;
            let node = self.node(Node { chain, bodies, open_rate });
            self.flat.node_of.insert(EntryId { task: index, entry }, node);
            nodes.push(node);
        }
        self.flat.chains.push(Chain { population: Some(population), think, station, nodes });
    }

    fn infinite(&mut self, task: usize) {
        for entry in 0..self.layered.tasks[task].entries.len() {
            let id = EntryId { task, entry };
            let (first, second) = (self.body(id, 0), self.body(id, 1));
            let mut whole = first.clone();
            whole.add(&second, 1.0);
            let second = (!second.is_empty()).then(|| self.open_node(second, 0.0));
            let rate = self.layered.tasks[task].entries[entry].open_rate;
            let sent = (rate > 0.0).then(|| self.open_node(whole.clone(), rate));
            self.inlined.insert(id, Inlined { first, whole, second, sent });
        }
    }

    fn node(&mut self, node: Node) -> usize {
        self.flat.nodes.push(node);
        self.flat.nodes.len() - 1
    }

    /// A chain of requests that nobody waits for.
    fn open_node(&mut self, body: Body, open_rate: f64) -> usize {
        let chain = self.flat.chains.len();
        let node = self.node(Node { chain, bodies: [body, Body::default()], open_rate });
        let nodes = vec![node];
        self.flat.chains.push(Chain { population: None, think: None, station: None, nodes });
        node
    }

    fn body(&mut self, id: EntryId, phase: usize) -> Body {
        let task = &self.layered.tasks[id.task];
        let phase = &task.entries[id.entry].phases[phase];
        // A slice before, between and after the calls.
        let slices = 1.0 + phase.calls.iter().map(|call| call.mean).sum::<f64>();
        let mut body = Body::default();
        let slice = self.slice(task.processor, phase.demand / slices, phase.scv);
        body.add(&slice, slices);
        for call in &phase.calls {
            match (self.flat.node_of.get(&call.to).copied(), call.kind) {
                (Some(node), CallKind::Synchronous) => {
                    *body.calls.entry(node).or_default() += call.mean;
                }
                (Some(node), CallKind::Asynchronous) => {
                    *body.sends.entry(node).or_default() += call.mean;
                }
                (None, CallKind::Synchronous) => {
                    let inlined = &self.inlined[&call.to];
                    body.add(&inlined.first, call.mean);
                    if let Some(second) = inlined.second {
                        *body.sends.entry(second).or_default() += call.mean;
                    }
                }
                (None, CallKind::Asynchronous) => {
                    let node = self.sent(call.to);
                    *body.sends.entry(node).or_default() += call.mean;
                }
            }
            self.round(&mut body, &slice, phase.counts, call);
        }
        body
    }

    fn slice(&self, processor: usize, demand: f64, scv: f64) -> Body {
        let mut body = Body::default();
        match self.processors[processor] {
            Some(station) if demand > 0.0 => {
                body.visits.insert(station, Visits::new(1.0, demand, scv));
            }
            Some(_) => {}
            None => {
                body.delay = demand;
                body.delay_variance = scv * demand * demand;
            }
        }
        body
    }

    /// Notes that the number of calls varies, and with it the number of slices.
    fn round(&self, body: &mut Body, slice: &Body, counts: CallCounts, call: &Call) {
        let mean = call.mean;
        let part = mean.fract();
        let variance = match counts {
            CallCounts::Geometric => mean * (1.0 + mean),
            CallCounts::Fixed => part * (1.0 - part),
        };
        if variance == 0.0 {
            return;
        }
        let mut round = slice.clone();
        round.rounds.clear();
        if call.kind == CallKind::Synchronous {
            match self.flat.node_of.get(&call.to) {
                Some(&node) => {
                    round.calls.insert(node, 1.0);
                }
                None => round.add(&self.inlined[&call.to].first, 1.0),
            }
        }
        round.rounds.clear();
        body.rounds.push((variance, round));
    }

    /// The node of an infinite task's entry that nobody waits for.
    fn sent(&mut self, id: EntryId) -> usize {
        if let Some(node) = self.inlined[&id].sent {
            return node;
        }
        let node = self.open_node(self.inlined[&id].whole.clone(), 0.0);
        self.inlined.get_mut(&id).expect("it was just looked up").sent = Some(node);
        node
    }

    /// Turns the order of nodes round, and finds the layers.
    fn done(self, order: &[usize]) -> Flat {
        let mut flat = self.flat;
        let last = flat.nodes.len().saturating_sub(1);
        let turned = |node: usize| last - node;
        flat.nodes.reverse();
        for node in &mut flat.nodes {
            for body in &mut node.bodies {
                for (_, round) in &mut body.rounds {
                    round.turn(turned);
                }
                body.turn(turned);
            }
        }
        for chain in &mut flat.chains {
            chain.nodes.iter_mut().for_each(|node| *node = turned(*node));
        }
        flat.node_of.values_mut().for_each(|node| *node = turned(*node));
        for (&id, inlined) in &self.inlined {
            if let Some(node) = inlined.sent {
                flat.open_of.insert(id, turned(node));
            }
        }
        debug_assert_eq!(order.len(), self.layered.tasks.len());
        flat.find_layers();
        flat
    }
}

impl Flat {
    /// A task is one layer below the lowest of its callers; the processors are below all.
    fn find_layers(&mut self) {
        let mut depth = vec![0_usize; self.chains.len()];
        for node in &self.nodes {
            let callees =
                node.bodies.iter().flat_map(|body| body.calls.keys().chain(body.sends.keys()));
            for &callee in callees {
                let (from, to) = (node.chain, self.nodes[callee].chain);
                depth[to] = depth[to].max(depth[from] + 1);
            }
        }
        let deepest = depth.iter().copied().max().unwrap_or(0);
        for station in &mut self.stations {
            station.layer = station.chain.map_or(deepest + 1, |chain| depth[chain]);
        }
    }

    /// Stations by the network that they are solved in, from the top.
    pub(super) fn layers(&self) -> Vec<Vec<usize>> {
        let mut layers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, station) in self.stations.iter().enumerate() {
            layers.entry(station.layer).or_default().push(index);
        }
        layers.into_values().collect()
    }
}
