//! The benchmark as a model: a fixed number of clients that never pause, r helpers, one server.

use cli::Failure;
use gate::GateSpec;
use measure::Estimate;
use sim::{
    Class, ClassOutcome, Demand, GateNode, Load, Network, Options, Sizes, Station, StationKind,
    Step,
};
use workload::{Dist, DocumentSet, Draw};

/// A run of the benchmark.
#[derive(Clone, Debug)]
pub(super) struct Loop {
    pub(super) clients: u32,
    /// r.
    pub(super) slots: u32,
    pub(super) documents: DocumentSet,
    /// The work demand of each document \[s\].
    pub(super) demands: Vec<f64>,
    /// Sharing of the server.
    pub(super) server: StationKind,
    /// A line behind the server that carries so many bytes a second.
    pub(super) line: Option<f64>,
}

/// Everybody at once, each at an equal share: the paper's model.
pub(super) const SHARED: StationKind = StationKind::Sharing { processors: 1 };

impl Loop {
    /// A run in the paper's model.
    pub(super) fn new(
        clients: u32,
        slots: u32,
        documents: DocumentSet,
        demand_of: impl Fn(f64) -> f64,
    ) -> Loop {
        let demands = documents.documents().iter().map(|one| demand_of(one.bytes as f64)).collect();
        Loop { clients, slots, documents, demands, server: SHARED, line: None }
    }

    /// Mean demand over the mix, E\[g\] \[s\].
    pub(super) fn demand(&self) -> f64 {
        (0..self.demands.len()).map(|at| self.documents.share(at) * self.demands[at]).sum()
    }

    /// Bytes of a mean response.
    pub(super) fn bytes(&self) -> f64 {
        self.documents.mean_of(|one| one.bytes as f64)
    }

    fn network(&self) -> Network {
        let mut network = Network::default();
        let server = network.add_station(Station::new("server", self.server));
        let demand = Demand::OfDocument(self.demands.clone());
        let mut inside = vec![Step::Visit { station: server, demand }];
        if let Some(bytes_per_s) = self.line {
            // One document after the other: like documents that shared both server and line would go
            // through them in step, and leave one of the two idle, as no real ones do.
            let kind = StationKind::Queue { servers: 1 };
            let line = network.add_station(Station::new("line", kind));
            let demand = Demand::OfSize { per_byte_s: bytes_per_s.recip(), base_s: 0.0 };
            inside.push(Step::Visit { station: line, demand });
        }
        let gate = network.add_gate(GateNode::new("helpers", GateSpec::fifo(self.slots)));
        let load = Load::Closed { population: self.clients, think: Dist::Constant(0.0) };
        let class = Class::new("clients", load, vec![Step::Hold { gate, inside }]);
        let sizes = Sizes::Documents(self.documents.clone(), Draw::Deck);
        network.add_class(Class { sizes, ..class });
        network
    }

    /// Simulates it, at the latest to `completions` requests.
    pub(super) fn simulate(&self, completions: u64, seed: u64) -> Result<Simulated, Failure> {
        let options =
            Options { seed, precision: 0.002, completions_max: completions, ..Options::default() };
        let outcome = sim::run(&self.network(), &options).map_err(Failure::defect)?;
        let class = outcome.classes.into_iter().next().expect("the network has a class");
        let server = outcome.stations[0].utilisation.expect("a server has a utilisation");
        Ok(Simulated { class, server: server.mean })
    }
}

/// Results of a simulated run.
#[derive(Debug)]
pub(super) struct Simulated {
    class: ClassOutcome,
    /// Utilisation of the server, 0 to 1.
    pub(super) server: f64,
}

impl Simulated {
    /// Mean response time \[s\].
    pub(super) fn response(&self) -> Estimate {
        self.class.response.expect("thousands of requests were completed")
    }

    /// Requests a second \[1/s\].
    pub(super) fn throughput(&self) -> Estimate {
        self.class.throughput
    }

    /// Mean response time of one document \[s\]; none if it was asked for too rarely.
    pub(super) fn of(&self, document: usize) -> Option<Estimate> {
        let is_it = |range: &sim::SizeRange| matches!(range, sim::SizeRange::Document { index, .. } if *index == document);
        self.class.sizes.iter().find(|size| is_it(&size.range))?.response
    }
}
