//! Section 4.2: five like servers, up to 50 clients, and five ways to spread requests over them. The
//! paper prints no numbers and leaves out every definition that its findings depend on: what the
//! length of a queue counts, how ties fall, since when utilisation counts, what EV is at length 0, and
//! how much service varies. Each is varied here.

use std::time::Duration;

use cli::Failure;
use cli::text::percent;
use gate::{AtZero, GateSpec, Length, Queues, RouterSpec, ServerSpec, Ties, Window};
use measure::Estimate;
use sim::{
    Class, ClassOutcome, Comparison, Demand, GateNode, Load, Network, Of, Options, Quantity,
    Station, StationKind, Step,
};
use workload::Dist;

use super::super::claim::{Answer, Claim, Evidence, Judged, Registry};

/// Servers, think time and mean service time of the paper.
pub(super) const SERVERS: usize = 5;
pub(super) const THINK_S: f64 = 10.0;
pub(super) const SERVICE_S: f64 = 1.5;
/// Numbers of clients of figures 4.3 to 4.6.
pub(super) const CLIENTS: [u32; 6] = [5, 10, 20, 30, 40, 50];
/// Few and many of them.
const LIGHT: u32 = 5;
const HEAVY: u32 = 50;
/// Number of clients at which the weights of EV are swept.
pub(super) const SWEPT: u32 = 30;
/// The squared coefficient of variation of the hyperexponential service, which the paper does not
/// state, and others that are tried.
pub(super) const SCV: f64 = 4.0;
pub(super) const SCVS: [f64; 3] = [2.0, 4.0, 10.0];
/// K1 : K2, from utilisation alone (nearly) to length alone (nearly).
pub(super) const WEIGHTS: [f64; 5] = [0.01, 0.1, 1.0, 10.0, 100.0];
/// Treatments by EV of a length of 0.
const AT_ZERO: [AtZero; 3] = [AtZero::PlusOne, AtZero::Best, AtZero::Floor(0.1)];
/// The window of "recent" utilisation \[s\].
pub(super) const RECENT: Duration = Duration::from_secs(10);

/// The recent window, for a figure.
pub(super) fn recent() -> Window {
    Window::Recent(RECENT)
}

/// One of the paper's five ways to spread requests, with every definition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Policy {
    /// (1)
    RoundRobin,
    /// (2)
    Shortest(Length, Ties),
    /// (3)
    Lowest(Window),
    /// (4), with K1 / K2.
    Ev { ratio: f64, length: Length, at_zero: AtZero, window: Window },
    /// (5) one queue for all: multiple servers, single queue.
    OneQueue,
}

/// The definitions under which the paper's findings hold.
pub(super) const SHORTEST: Policy = Policy::Shortest(Length::Waiting, Ties::Lowest);
pub(super) const LOWEST: Policy = Policy::Lowest(Window::Recent(RECENT));
pub(super) const EV: Policy = ev(1.0, Window::Recent(RECENT));
/// The same with utilisation since the start of the run.
pub(super) const LOWEST_EVER: Policy = Policy::Lowest(Window::SinceStart);
pub(super) const EV_EVER: Policy = ev(1.0, Window::SinceStart);
/// Other readings of (2).
pub(super) const SHORTEST_ROTATING: Policy = Policy::Shortest(Length::Waiting, Ties::Rotate);
pub(super) const SHORTEST_IN_SYSTEM: Policy = Policy::Shortest(Length::InSystem, Ties::Rotate);

/// The paper's five, under the definitions with which its findings hold.
pub(super) const FIVE: [Policy; 5] = [Policy::RoundRobin, SHORTEST, LOWEST, EV, Policy::OneQueue];

const fn ev(ratio: f64, window: Window) -> Policy {
    Policy::Ev { ratio, length: Length::Waiting, at_zero: AtZero::PlusOne, window }
}

impl Policy {
    /// As a figure names it.
    pub(super) fn name(&self) -> String {
        let window = |window: &Window| match window {
            Window::SinceStart => "since start",
            Window::Recent(_) => "last 10 s",
        };
        match self {
            Policy::RoundRobin => "(1) round robin".into(),
            Policy::Shortest(Length::Waiting, Ties::Lowest) => {
                "(2) shortest queue, waiting, ties to the lowest index".into()
            }
            Policy::Shortest(Length::Waiting, _) => {
                "(2) shortest queue, waiting, ties rotate".into()
            }
            Policy::Shortest(Length::InSystem, _) => "(2) shortest queue, in system".into(),
            Policy::Lowest(over) => format!("(3) lowest utilisation, {}", window(over)),
            Policy::Ev { window: over, .. } => format!("(4) EV, {}", window(over)),
            Policy::OneQueue => "(5) one shared queue".into(),
        }
    }

    /// The same, with this for the window of what is recent.
    pub(super) fn within(self, recent: Duration) -> Policy {
        let shorter = |window| match window {
            Window::SinceStart => Window::SinceStart,
            Window::Recent(_) => Window::Recent(recent),
        };
        match self {
            Policy::Lowest(window) => Policy::Lowest(shorter(window)),
            Policy::Ev { ratio, length, at_zero, window } => {
                Policy::Ev { ratio, length, at_zero, window: shorter(window) }
            }
            Policy::RoundRobin | Policy::Shortest(..) | Policy::OneQueue => self,
        }
    }

    pub(super) fn router(&self) -> RouterSpec {
        match *self {
            Policy::RoundRobin | Policy::OneQueue => RouterSpec::RoundRobin,
            Policy::Shortest(length, ties) => RouterSpec::ShortestQueue { length, ties },
            Policy::Lowest(window) => RouterSpec::LowestUtilisation { window, ties: Ties::Rotate },
            Policy::Ev { ratio, length, at_zero, window } => RouterSpec::Ev {
                queue: ratio,
                utilisation: 1.0,
                length,
                at_zero,
                window,
                ties: Ties::Rotate,
            },
        }
    }

    pub(super) fn queues(&self) -> Queues {
        if *self == Policy::OneQueue { Queues::Shared } else { Queues::PerServer }
    }
}

/// A point of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) policy: Policy,
    pub(super) clients: u32,
    /// Think and service, in seconds of the paper.
    pub(super) think: Dist,
    pub(super) service: Dist,
}

impl Case {
    fn usual(policy: Policy, clients: u32, scv: f64) -> Case {
        let service = Dist::Hyperexponential { mean: SERVICE_S, scv };
        Case { policy, clients, think: Dist::Exponential { mean: THINK_S }, service }
    }

    pub(super) fn network(&self) -> Network {
        let mut network = Network::default();
        let stations: Vec<usize> = (1..=SERVERS)
            .map(|at| {
                let kind = StationKind::Queue { servers: 1 };
                network.add_station(Station::new(&format!("server {at}"), kind))
            })
            .collect();
        let spec = GateSpec {
            servers: vec![ServerSpec { slots: 1 }; SERVERS],
            queues: self.policy.queues(),
            router: self.policy.router(),
            ..GateSpec::fifo(1)
        };
        let gate = network.add_gate(GateNode { stations, ..GateNode::new("servers", spec) });
        let inside = vec![Step::VisitServer { demand: Demand::Drawn(self.service) }];
        let load = Load::Closed { population: self.clients, think: self.think };
        network.add_class(Class::new("clients", load, vec![Step::Hold { gate, inside }]));
        network
    }
}

/// Policies that were simulated side by side, under the same chance.
#[derive(Debug)]
struct Group {
    clients: u32,
    scv: f64,
    policies: Vec<Policy>,
    seen: Comparison,
}

impl Group {
    fn simulate(
        policies: &[Policy],
        (clients, scv): (u32, f64),
        precision: f64,
        seed: u64,
    ) -> Result<Group, Failure> {
        let network = |policy: &Policy| Case::usual(*policy, clients, scv).network();
        let networks: Vec<Network> = policies.iter().map(network).collect();
        let options = Options { seed, precision, ..Options::default() };
        let seen =
            sim::compare(&networks, &options).map_err(|(_, error)| Failure::defect(error))?;
        Ok(Group { clients, scv, policies: policies.to_vec(), seen })
    }

    fn has(&self, policies: &[Policy]) -> bool {
        policies.iter().all(|policy| self.policies.contains(policy))
    }

    fn index(&self, policy: Policy) -> usize {
        let at = self.policies.iter().position(|one| *one == policy);
        at.unwrap_or_else(|| panic!("{policy:?} is not simulated"))
    }
}

/// Every point that a figure or a claim of section 4.2 needs, simulated.
#[derive(Debug)]
pub(super) struct Runs {
    groups: Vec<Group>,
    /// The numbers of clients at which all policies were simulated.
    pub(super) clients: Vec<u32>,
}

impl Runs {
    /// Simulates with these numbers of clients, [`LIGHT`] and [`HEAVY`] among them.
    pub(super) fn simulate(clients: &[u32], precision: f64, seed: u64) -> Result<Runs, Failure> {
        let others = [LOWEST_EVER, EV_EVER, SHORTEST_ROTATING, SHORTEST_IN_SYSTEM];
        let all: Vec<Policy> = FIVE.iter().chain(&others).copied().collect();
        let mut groups = Vec::new();
        let mut add = |policies: &[Policy], clients, scv| -> Result<(), Failure> {
            groups.push(Group::simulate(policies, (clients, scv), precision, seed)?);
            Ok(())
        };
        for &clients in clients {
            add(&all, clients, SCV)?;
        }
        for scv in SCVS.into_iter().filter(|scv| *scv != SCV) {
            add(&FIVE, HEAVY, scv)?;
        }
        for window in [recent(), Window::SinceStart] {
            add(&WEIGHTS.map(|ratio| ev(ratio, window)), SWEPT, SCV)?;
        }
        add(&AT_ZERO.map(with_zero), SWEPT, SCV)?;
        Ok(Runs { groups, clients: clients.to_vec() })
    }

    /// The first group with these policies, so many clients and this variability.
    fn group(&self, policies: &[Policy], clients: u32, scv: f64) -> &Group {
        let is_it =
            |group: &&Group| group.clients == clients && group.scv == scv && group.has(policies);
        let found = self.groups.iter().find(is_it);
        found.unwrap_or_else(|| panic!("{policies:?} with {clients} clients are not simulated"))
    }

    fn outcome(&self, policy: Policy, clients: u32, scv: f64) -> &ClassOutcome {
        let group = self.group(&[policy], clients, scv);
        &group.seen.outcomes[group.index(policy)].classes[0]
    }

    /// Gain in response time of a policy over another: (least, middle, most), as shares, from
    /// differences in pairs.
    fn gain(&self, policy: Policy, other: Policy, clients: u32, scv: f64) -> (f64, f64, f64) {
        let group = self.group(&[policy, other], clients, scv);
        let pair = (group.index(other), group.index(policy));
        let ratio = group.seen.ratio(pair, Of::All, Quantity::Response, 1);
        let ratio = ratio.expect("thousands of requests were completed");
        (1.0 - ratio.high, 1.0 - ratio.ratio, 1.0 - ratio.low)
    }

    /// Mean response time \[s\] at the variability that is inferred.
    pub(super) fn response(&self, policy: Policy, clients: u32) -> Estimate {
        self.response_at(policy, clients, SCV)
    }

    fn response_at(&self, policy: Policy, clients: u32, scv: f64) -> Estimate {
        let response = self.outcome(policy, clients, scv).response;
        response.expect("thousands of requests were completed")
    }

    /// Requests a second \[1/s\].
    pub(super) fn throughput(&self, policy: Policy, clients: u32) -> Estimate {
        self.outcome(policy, clients, SCV).throughput
    }

    /// Mean response time of EV by K1 / K2 \[s\].
    pub(super) fn by_weight(&self, window: Window) -> Vec<(f64, Estimate)> {
        WEIGHTS.iter().map(|&k| (k, self.response(ev(k, window), SWEPT))).collect()
    }
}

/// EV with another value at length 0.
const fn with_zero(at_zero: AtZero) -> Policy {
    Policy::Ev { ratio: 1.0, length: Length::Waiting, at_zero, window: Window::Recent(RECENT) }
}

/// Judges the claims of section 4.2, in the order of the list.
pub(super) fn judge(registry: &Registry, runs: &Runs) -> Vec<Judged> {
    let judge = Judge { registry, runs };
    vec![
        judge.shortest(),
        judge.lowest(),
        judge.ev_best(),
        judge.equal_weights(),
        judge.one_queue(),
        judge.since_start(),
        judge.in_system(),
        judge.at_zero(),
        judge.variability(),
    ]
}

struct Judge<'a> {
    registry: &'a Registry,
    runs: &'a Runs,
}

impl Judge<'_> {
    fn claim(&self, id: &str) -> &Claim {
        self.registry.claim(id)
    }

    /// Gain of a policy over another with so many clients.
    fn gain(&self, policy: Policy, other: Policy, clients: u32) -> (f64, f64, f64) {
        self.runs.gain(policy, other, clients, SCV)
    }

    /// (2) helps much under load, and hardly or not at light load.
    fn shortest(&self) -> Judged {
        let light = self.gain(SHORTEST, Policy::RoundRobin, LIGHT);
        let heavy = self.gain(SHORTEST, Policy::RoundRobin, HEAVY);
        self.claim("shortest-under-load")
            .judge()
            .simulation(format!("{} | {}", percent(-light.1), percent(-heavy.1)))
            .found(format!(
                "Mean response time against round robin with {LIGHT} and {HEAVY} clients: ties to \
                 the lowest index make it worse at light load, because a queue where nobody waits \
                 is short even if its server is busy.",
            ))
            .chosen(Answer::below(0.1, light.0, light.2).and(Answer::above(0.2, heavy.0, heavy.2)))
    }

    /// (3) the other way round.
    fn lowest(&self) -> Judged {
        let light = self.gain(LOWEST, SHORTEST, LIGHT);
        let heavy = self.gain(SHORTEST, LOWEST, HEAVY);
        let helps = self.gain(LOWEST, Policy::RoundRobin, LIGHT);
        self.claim("lowest-at-light-load")
            .judge()
            .simulation(format!("{} | {}", percent(-light.1), percent(heavy.1)))
            .found(format!(
                "Lowest utilisation against the shortest queue with {LIGHT} and {HEAVY} clients; {} \
                 against round robin with {LIGHT}.",
                percent(-helps.1)
            ))
            .chosen(
                Answer::above(0.0, light.0, light.2)
                    .and(Answer::above(0.0, heavy.0, heavy.2))
                    .and(Answer::above(0.0, helps.0, helps.2)),
            )
    }

    /// (4) is best of the four with a queue for each server, at every load.
    fn ev_best(&self) -> Judged {
        let claim = self.claim("ev-best");
        let mut answer = Answer::Yes;
        let mut worst = f64::INFINITY;
        for &clients in &self.runs.clients {
            for other in [Policy::RoundRobin, SHORTEST, LOWEST] {
                // Best or as good as the best, within the claim's tolerance.
                let (low, middle, high) = self.gain(EV, other, clients);
                worst = worst.min(middle);
                answer = answer.and(Answer::above(-claim.within(), low, high));
            }
        }
        let at: Vec<String> = [LIGHT, HEAVY]
            .iter()
            .map(|&clients| format!("{:.2} s", self.runs.response(EV, clients).mean))
            .collect();
        claim
            .judge()
            .simulation(percent(-worst))
            .found(format!(
                "Against the best of the other three, where it stands worst; mean response {} with \
                 {LIGHT} and {HEAVY} clients.",
                at.join(" and ")
            ))
            .chosen(answer)
    }

    /// K1 = K2 is best.
    fn equal_weights(&self) -> Judged {
        let claim = self.claim("equal-weights");
        let sweep = self.runs.by_weight(recent());
        let best = sweep.iter().min_by(|a, b| a.1.mean.total_cmp(&b.1.mean));
        let (best, _) = best.expect("weights are swept");
        let (low, gap, high) = match *best {
            1.0 => (0.0, 0.0, 0.0),
            best => self.gain(ev(best, recent()), EV, SWEPT),
        };
        let list: Vec<String> =
            sweep.iter().map(|(k, response)| format!("{k}: {:.2}", response.mean)).collect();
        claim
            .judge()
            .simulation(percent(gap))
            .found(format!(
                "Above the best of K1 : K2, {SWEPT} clients, last 10 s. Any weight of the length \
                 from 1 on is as good; less is worse. Mean response [s] by K1 : K2: {}.",
                list.join(", ")
            ))
            .chosen(Answer::below(claim.within(), low, high))
    }

    /// (5) beats all four.
    fn one_queue(&self) -> Judged {
        let mut ends = Vec::new();
        for &clients in &self.runs.clients {
            for other in [Policy::RoundRobin, SHORTEST, LOWEST, EV] {
                let (low, _, high) = self.gain(Policy::OneQueue, other, clients);
                ends.extend([low, high]);
            }
        }
        let answer = Evidence::of(&ends, |ends| {
            let above = |pair: &[f64]| Answer::above(0.0, pair[0], pair[1]);
            ends.chunks(2).map(above).fold(Answer::Yes, Answer::and)
        });
        let heavy = self.gain(Policy::OneQueue, EV, HEAVY);
        self.claim("one-queue-best")
            .judge()
            .simulation(percent(-heavy.1))
            .found(format!("Against EV with {HEAVY} clients; it is below all four at every load."))
            .shape(answer)
    }

    /// With utilisation since the start of the run the findings on (3) and (4) fade.
    fn since_start(&self) -> Judged {
        let claim = self.claim("since-start");
        let sweep = self.runs.by_weight(Window::SinceStart);
        let means = || sweep.iter().map(|(_, response)| response.mean);
        let (low, high) = (means().fold(f64::INFINITY, f64::min), means().fold(0.0, f64::max));
        let spread = high / low - 1.0;
        let lowest = self.gain(LOWEST_EVER, Policy::RoundRobin, LIGHT);
        claim
            .judge()
            .simulation(format!("± {:.1} %", spread * 50.0))
            .found(format!(
                "How much K1 : K2 from 0.01 to 100 matters with utilisation since the start; the \
                 lowest utilisation since the start is {} against round robin with {LIGHT} clients.",
                percent(-lowest.1)
            ))
            .unstated((spread <= claim.within()).into())
    }

    /// Counting the job in service too, the plain shortest queue is better than EV.
    fn in_system(&self) -> Judged {
        let mut answer = Answer::Yes;
        for &clients in &self.runs.clients {
            let (low, _, high) = self.gain(SHORTEST_IN_SYSTEM, EV, clients);
            answer = answer.and(Answer::above(-0.01, low, high));
        }
        let gains = [LIGHT, HEAVY].map(|clients| self.gain(SHORTEST_IN_SYSTEM, EV, clients).1);
        self.claim("in-system")
            .judge()
            .simulation(format!("{} | {}", percent(-gains[0]), percent(-gains[1])))
            .found(format!(
                "Shortest queue by jobs in system against EV, {LIGHT} and {HEAVY} clients: at no load \
                 is EV better."
            ))
            .unstated(answer)
    }

    /// Verdict on what EV makes of an empty queue.
    fn at_zero(&self) -> Judged {
        let claim = self.claim("at-zero");
        let means = AT_ZERO.map(|at_zero| self.runs.response(with_zero(at_zero), SWEPT).mean);
        let lowest = means.iter().copied().fold(f64::INFINITY, f64::min);
        let spread = means.iter().copied().fold(0.0, f64::max) / lowest - 1.0;
        claim
            .judge()
            .simulation(percent(spread))
            .found(format!(
                "Mean response with {SWEPT} clients: {:.2} s counting from 1, {:.2} s if an empty \
                 queue beats all, {:.2} s if 0 counts as 0.1.",
                means[0], means[1], means[2]
            ))
            .unstated((spread <= claim.within()).into())
    }

    /// The order of the five under more and less variable service.
    fn variability(&self) -> Judged {
        let mut answer = Answer::Yes;
        let mut list = Vec::new();
        for scv in SCVS {
            let gain = |policy, other| self.runs.gain(policy, other, HEAVY, scv);
            let ev = [Policy::RoundRobin, SHORTEST, LOWEST].map(|other| gain(EV, other));
            let queue = gain(Policy::OneQueue, EV);
            answer = answer.and(Answer::above(0.0, queue.0, queue.2));
            for (low, _, high) in ev {
                answer = answer.and(Answer::above(-self.claim("variability").within(), low, high));
            }
            let mean = |policy| self.runs.response_at(policy, HEAVY, scv).mean;
            let means = FIVE.map(|policy| format!("{:.1}", mean(policy)));
            list.push(format!("{scv}: {}", means.join(", ")));
        }
        self.claim("variability")
            .judge()
            .found(format!(
                "Mean response [s] of (1) to (5) with {HEAVY} clients by squared coefficient of \
                 variation: {}.",
                list.join("; ")
            ))
            .unstated(answer)
    }
}
