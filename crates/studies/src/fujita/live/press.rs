//! The laboratory: which processors, which Apache, and one run of the load engine against it.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cli::{Failure, store, tool};
use load::http::{Closing, Connections, Load, Naming, Plan, PlanSpec, Reach, Request, Target};
use measure::{Estimate, Fault, Until};
use origin::{Apache, ApacheConfig, ApacheServer, Work};
use workload::{Dist, DocumentSet};

use super::super::super::claim::Judged;
use super::super::super::measuring::Measuring;

/// The confidence of all intervals.
pub(super) const CONFIDENCE: f64 = 0.95;
/// The kernel's queue before the helpers: more than there are clients, so that nobody is dropped.
pub(super) const BACKLOG: u32 = 511;

/// Place in which measurements are made.
pub(super) struct Lab<'a> {
    measuring: &'a Measuring<'a>,
    pub(super) supervised: origin::Supervised,
    pub(super) seed: u64,
    /// The processor of all servers.
    pub(super) server_cpu: usize,
    /// The generator's.
    client_cpu: usize,
    /// The usual length of a run \[s\].
    pub(super) seconds: f64,
    apache: Apache,
    log: Mutex<Log>,
}

/// Summary of all runs together.
#[derive(Default)]
pub(super) struct Log {
    pub(super) runs: u32,
    pub(super) requests: u64,
    pub(super) failed: u64,
    /// The faults of runs that cannot be believed, each with the run's place.
    pub(super) faults: Vec<String>,
}

/// A run to be made: closed clients without think time, one connection a request.
pub(super) struct Ask {
    pub(super) clients: u32,
    pub(super) documents: DocumentSet,
    /// After the warm-up \[s\].
    pub(super) length_s: f64,
    pub(super) warmup_s: f64,
    /// Time to serve each card of the deck once \[s\], where that is long: means over whole decks
    /// vary little, because each holds the same documents.
    pub(super) deck_s: Option<f64>,
}

/// Observations of a run.
pub(super) struct Seen {
    pub(super) throughput: Estimate,
    pub(super) response: Estimate,
    /// Mean response time of each document; none where it was hardly seen.
    pub(super) of: Vec<Option<Estimate>>,
    /// Numbers of each document that were seen.
    pub(super) counts: Vec<u64>,
    pub(super) mbit_per_s: f64,
    /// CPU time of the server per request, warm-up included \[s\].
    pub(super) cpu_per_request: f64,
    /// Share of its processor that the server used.
    pub(super) busy: f64,
    /// Share that neither it nor idleness used: interrupts, and somebody else.
    pub(super) foreign: f64,
}

#[cfg(test)]
impl Seen {
    /// A run that was not made: a document of each of these response times [s], of which all were seen
    /// alike.
    pub(super) fn made_up(of: &[f64]) -> Seen {
        let about = |mean: f64| Estimate { mean, half_width: 0.02 * mean, confidence: 0.95, n: 30 };
        let response = about(of.iter().sum::<f64>() / of.len() as f64);
        Seen {
            throughput: about(1.0 / response.mean),
            response,
            of: of.iter().map(|mean| Some(about(*mean))).collect(),
            counts: vec![100; of.len()],
            mbit_per_s: 1.0,
            cpu_per_request: 0.01,
            busy: 1.0,
            foreign: 0.0,
        }
    }
}

/// More than this used by somebody else, and a run measured them too.
const FOREIGN_MAX: f64 = 0.15;

/// A claim that rests on these runs; undecided if somebody else used the processor meanwhile.
pub(super) fn undisturbed<'a>(judged: Judged, runs: impl IntoIterator<Item = &'a Seen>) -> Judged {
    let most = runs.into_iter().map(|seen| seen.foreign).fold(0.0, f64::max);
    if most <= FOREIGN_MAX {
        return judged;
    }
    let found = format!(
        "{} Undecided: somebody else used {:.0} % of the server's processor; repeat it on a quiet \
         machine.",
        judged.found,
        most * 100.0
    );
    judged.undecided(found)
}

/// Ticks of a processor since the machine began, as the kernel counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    idle: u64,
    all: u64,
}

impl Ticks {
    fn of(cpu: usize) -> Result<Ticks, Failure> {
        let text = std::fs::read_to_string("/proc/stat")?;
        Ticks::parse(&text, cpu)
            .ok_or_else(|| Failure::Machine(format!("/proc/stat has no line for processor {cpu}")))
    }

    /// user, nice, system, idle, iowait, irq, softirq, steal; guests are in user already.
    fn parse(text: &str, cpu: usize) -> Option<Ticks> {
        let name = format!("cpu{cpu} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name))?;
        let fields: Vec<u64> =
            line.split_whitespace().take(8).map(|word| word.parse().ok()).collect::<Option<_>>()?;
        Some(Ticks { idle: fields.get(3)? + fields.get(4)?, all: fields.iter().sum() })
    }

    /// The share of time since then in which the processor was idle.
    fn idle_since(self, then: Ticks) -> f64 {
        self.idle.saturating_sub(then.idle) as f64 / self.all.saturating_sub(then.all).max(1) as f64
    }
}

impl<'a> Lab<'a> {
    /// Finds two processors and Apache.
    pub(super) fn open(measuring: &'a Measuring<'a>) -> Result<Lab<'a>, Failure> {
        let cpus = origin::allowed_cpus().map_err(Failure::machine)?;
        let [server_cpu, client_cpu, ..] = cpus[..] else {
            return Err(Failure::Usage(
                "`--live` needs two processors: one for the server, one for the clients".into(),
            ));
        };
        let apache = Apache::find().map_err(Failure::usage)?;
        let log = Mutex::default();
        let (seed, seconds) = (measuring.seed, measuring.seconds);
        let supervised = measuring.supervised();
        Ok(Lab { measuring, supervised, seed, server_cpu, client_cpu, seconds, apache, log })
    }

    /// Starts Apache with r helpers, whose work is compression.
    pub(super) fn start(
        &self,
        helpers: u32,
        documents: &DocumentSet,
    ) -> Result<ApacheServer, Failure> {
        let config = ApacheConfig {
            documents: served(documents),
            seed: self.seed,
            helpers,
            work: Work::Deflate,
            keep_alive: false,
            cpu: Some(self.server_cpu),
            backlog: BACKLOG,
            send_buffer: None,
        };
        self.apache.start(&config).map_err(Failure::machine)
    }

    /// A run against Apache.
    pub(super) fn press(&self, server: &ApacheServer, ask: Ask) -> Result<Seen, Failure> {
        let used = || -> Result<(u64, Duration), Failure> {
            let usage = server.usage()?;
            Ok((usage.answered, usage.helpers.iter().map(|helper| helper.cpu).sum()))
        };
        let (answered, cpu) = used()?;
        let ticks = Ticks::of(self.server_cpu)?;
        let (seen, elapsed_s) = self.press_at(server.address(), ask)?;
        let idle = Ticks::of(self.server_cpu)?.idle_since(ticks);
        let (answered, cpu) = {
            let now = used()?;
            (now.0 - answered, now.1.saturating_sub(cpu))
        };
        let busy = cpu.as_secs_f64() / elapsed_s;
        Ok(Seen {
            cpu_per_request: cpu.as_secs_f64() / answered.max(1) as f64,
            busy,
            foreign: (1.0 - idle - busy).max(0.0),
            ..seen
        })
    }

    /// A run against whatever listens there; the server's CPU time is not known. Returns what was
    /// seen, and how long it took in all \[s\].
    pub(super) fn press_at(&self, address: SocketAddr, ask: Ask) -> Result<(Seen, f64), Failure> {
        let target = Target::parse(&format!("http://{address}/"), Reach::Private);
        let load = Load::Closed { clients: ask.clients, think: Dist::Constant(0.0) };
        let until = Until::Seconds(ask.length_s);
        let mut spec = PlanSpec::new(target.map_err(Failure::machine)?, load, until);
        spec.requests = Request::documents(&spec.target, &ask.documents);
        spec.warmup = Duration::from_secs_f64(ask.warmup_s);
        let interval_s = ask.deck_s.unwrap_or(ask.length_s / 20.0).max(0.05);
        spec.interval = Duration::from_secs_f64(interval_s);
        spec.cpus = vec![self.client_cpu];
        spec.connections = Connections::PerRequest;
        spec.closing = Closing::Fin;
        spec.seed = self.seed;
        let plan = Plan::new(spec).map_err(Failure::defect)?;
        let naming = Naming {
            id: store::new_id(),
            started: store::now_rfc3339(),
            tool: tool(),
            command: vec!["reproduce".into(), "fujita".into(), "--live".into()],
        };
        let step = format!("run {}, {} clients", self.log().runs + 1, ask.clients);
        self.measuring.step(&step)?;
        let record = load::http::record(&plan, naming, self.measuring.interrupt(), &mut |_| {});
        self.measuring.unless_interrupted(&step)?;
        let record = record.map_err(Failure::machine)?;
        let elapsed_s = record.summary.as_ref().map_or(f64::NAN, |summary| summary.elapsed_s);
        let judged = record.judge(CONFIDENCE);
        self.note(&judged, ask.clients);
        let response = judged.all.response.ok_or_else(|| {
            let errors =
                judged.all.errors.iter().map(|(cause, count)| format!("{count} {cause:?}"));
            let why = match errors.collect::<Vec<_>>().join(", ") {
                none if none.is_empty() => {
                    "nothing went wrong: it or this machine is too slow".into()
                }
                errors => errors,
            };
            Failure::Machine(format!(
                "nothing was answered by {address} in {} s: {why}",
                ask.length_s
            ))
        })?;
        let seen = Seen {
            throughput: judged.all.throughput,
            response,
            of: judged.classes.iter().map(|class| class.response).collect(),
            counts: judged.classes.iter().map(|class| class.completed).collect(),
            mbit_per_s: judged.all.mbit_per_s,
            cpu_per_request: f64::NAN,
            busy: f64::NAN,
            foreign: f64::NAN,
        };
        Ok((seen, elapsed_s))
    }

    fn note(&self, judged: &measure::Judgement, clients: u32) {
        let mut log = self.log();
        log.runs += 1;
        log.requests += judged.all.completed;
        log.failed += judged.all.failed();
        // A drift in a run of seconds is somebody else's load: it widens the intervals, and is counted.
        let run = log.runs;
        for fault in &judged.faults {
            let kind = match fault {
                Fault::Drifts { .. } => "drift",
                _ => "fault",
            };
            log.faults.push(format!("{kind} in run {run} ({clients} clients): {fault}"));
        }
    }

    /// Summary of all runs together.
    pub(super) fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Documents as a server takes them.
pub(super) fn served(documents: &DocumentSet) -> Vec<origin::Document> {
    let list = documents.documents().iter();
    list.map(|one| origin::Document { name: one.name.clone(), bytes: one.bytes }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idleness_is_read_for_the_one_processor() {
        let text =
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 0 1 2 0 0 0 0 0 0\ncpu1 10 0 20 60 5 2 2 1 7 0\n";
        let now = Ticks::parse(text, 1).unwrap();
        assert_eq!(now, Ticks { idle: 65, all: 100 });
        assert!((now.idle_since(Ticks { idle: 15, all: 0 }) - 0.5).abs() < 1e-12);
        assert_eq!(Ticks::parse(text, 2), None);
    }
}
