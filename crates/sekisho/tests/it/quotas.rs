//! Quotas are gates inside gates: the chain that a live server drives takes the decisions that the
//! simulator takes of `studies/slots/quotas.toml`, on the same events.

use std::collections::{BTreeMap, HashMap};

use advise::Scenario;
use gate::{Action, Event, Job, JobId, Slot, Time};
use live::model::Work;
use live::{Chain, Driver, Permits, SlotGuard};
use measure::Recording;
use sim::{Options, Plan};

/// The places of the gates in the scenario: two pools, and what is over both.
const POOLS: [usize; 2] = [0, 1];
const ALL: usize = 2;

/// The first replication as each of the gates saw it.
fn simulated() -> (Vec<Recording>, sim::Network) {
    let path = format!("{}/../../studies/slots/quotas.toml", env!("CARGO_MANIFEST_DIR"));
    let scenario: Scenario =
        toml::from_str(&std::fs::read_to_string(path).expect("it is committed"))
            .expect("a scenario");
    let network = scenario.network().expect("it can be run");
    let recorded = |gate| {
        let options = Options {
            plan: Plan::Replications(2),
            completions_max: 5_000,
            record: Some((gate, 1_000_000)),
            ..Options::default()
        };
        sim::run(&network, &options).expect("it is stable").recording.expect("it was asked for")
    };
    ((0..=ALL).map(recorded).collect(), network.clone())
}

/// The live side: a driver for each pool, and the chain behind them.
struct Live {
    pools: Vec<Driver<u64>>,
    chain: Chain<u64>,
    /// By job: its pool and the slot there.
    slots: HashMap<u64, (usize, SlotGuard)>,
    /// By slot over all: the job, and what it holds of the chain.
    held: BTreeMap<Slot, (u64, Permits)>,
    jobs: u64,
}

impl Live {
    fn new(network: &sim::Network) -> Live {
        let mut chain = Chain::default();
        let all = &network.gates[ALL].spec;
        let turns = live::turns(all.servers[0].slots, None);
        assert_eq!(format!("{:?}", turns.servers), format!("{:?}", all.servers));
        chain.set(0, &turns, 1_000_000).expect("a gate");
        let pool = |pool: usize| {
            let mut driver = Driver::new(&network.gates[pool].spec, 1, 1_000_000).expect("a gate");
            driver.keep_waiting();
            driver
        };
        let (slots, held) = (HashMap::new(), BTreeMap::new());
        Live { pools: POOLS.map(pool).into(), chain, slots, held, jobs: 0 }
    }

    fn arrives(&mut self, now: Time, pool: usize) {
        self.jobs += 1;
        let job = Job { class: pool as u32, ..Job::new(JobId(0)) };
        self.pools[pool].arrive(now, self.jobs, now, job);
        self.settle(now);
    }

    fn departs(&mut self, now: Time, slot: Slot) {
        let (job, permits) = self.held.remove(&slot).expect("it holds that slot here too");
        self.chain.release(now, permits);
        self.settle(now);
        let (pool, slot) = self.slots.remove(&job).expect("it has one of its pool");
        self.pools[pool].depart(now, slot, Work::Done);
        self.settle(now);
    }

    fn settle(&mut self, now: Time) {
        for pool in POOLS {
            while let Some(decision) = self.pools[pool].next_decision() {
                let slot = decision.outcome.expect("nobody is refused");
                let since = (now, self.pools[pool].deadline_at(&slot));
                self.slots.insert(decision.owner, (pool, slot));
                self.chain.enter(now, (decision.owner, pool as u32), &[0], since);
            }
        }
        while let Some(passed) = self.chain.next_passed(now) {
            let permits = passed.outcome.expect("nobody is refused");
            let (pool, slot) = &self.slots[&passed.owner];
            self.pools[*pool].admitted(now, slot);
            let slot = self.chain.slot_of(&permits[0]);
            self.held.insert(slot, (passed.owner, permits));
        }
    }
}

/// When which job came, started where and left, jobs by the order in which they came.
fn decisions(recording: &Recording) -> Vec<(Time, String)> {
    let mut names = HashMap::new();
    let steps = recording.steps.iter().map(|step| {
        let event = match step.event {
            Event::Arrive(job) => {
                names.insert(job.id, names.len());
                format!("class {} comes", job.class)
            }
            Event::Depart(slot) => format!("{slot:?} is free"),
            other => panic!("{other:?} in a run without changes"),
        };
        let action = |action: &Action| match action {
            Action::Start { job, slot } => format!("; job {} has {slot:?}", names[job]),
            Action::Refuse { .. } => panic!("nobody is refused"),
        };
        (step.at, event + &step.actions.iter().map(action).collect::<String>())
    });
    steps.collect()
}

#[test]
fn the_live_chain_and_the_simulator_take_the_same_decisions() {
    let (recordings, network) = simulated();
    let mut live = Live::new(&network);
    // What comes from outside: jobs at the pools, and ends of what is done behind all gates.
    let mut outside = Vec::new();
    for pool in POOLS {
        let arrivals = recordings[pool].steps.iter();
        let arrivals = arrivals.filter(|step| matches!(step.event, Event::Arrive(_)));
        outside.extend(arrivals.map(|step| (step.at, pool, None)));
    }
    outside.extend(recordings[ALL].steps.iter().filter_map(|step| match step.event {
        Event::Depart(slot) => Some((step.at, ALL, Some(slot))),
        _ => None,
    }));
    outside.sort_by_key(|(at, ..)| *at);
    for (at, gate, slot) in outside {
        match slot {
            None => live.arrives(at, gate),
            Some(slot) => live.departs(at, slot),
        }
    }
    let simulated = decisions(&recordings[ALL]);
    let waits = simulated.iter().filter(|(_, what)| what.ends_with("comes")).count();
    assert!(simulated.len() > 4_000 && waits > 500, "{waits} of {} wait", simulated.len());
    assert_eq!(decisions(live.chain.recording(0).expect("it records")), simulated, "over all");
    for pool in POOLS {
        let recording = live.pools[pool].recording().expect("it records");
        assert_eq!(decisions(recording), decisions(&recordings[pool]), "pool {pool}");
    }
}
