//! Change after an invalid run: the fault in words that say what to do, and the command that does it.

use std::collections::BTreeSet;

use measure::{Course, Fault, GeneratorLimit, Judgement, LoadShape, RunRecord, Until};

use super::typed::Typed;

/// What to change, and the changed command where one can help.
#[derive(Debug)]
pub(crate) struct Change {
    /// Sentences, one for each kind of fault.
    pub(crate) why: Vec<String>,
    /// The command that is to be typed instead.
    pub(crate) command: Option<String>,
}

/// Changes that faults ask for.
#[derive(Default)]
struct Wanted {
    longer: bool,
    warmer: bool,
    threads: bool,
    less: bool,
    keep: bool,
    /// True where a command cannot help.
    by_hand: bool,
    why: BTreeSet<String>,
}

/// The change after runs of one command, of which some are invalid; none where all are valid.
pub(crate) fn change(runs: &[(&RunRecord, &Judgement)], typed: Option<Typed>) -> Option<Change> {
    let (record, _) = runs.iter().find(|(_, judgement)| !judgement.is_valid())?;
    let mut wanted = Wanted::default();
    let cpus = record.header.host.cpus.max(1);
    let threads = runs.iter().map(|(run, _)| threads(run)).max().unwrap_or(1);
    for (run, judgement) in runs {
        for fault in &judgement.faults {
            wanted.note(fault, run, threads < cpus);
        }
    }
    let command = match typed {
        Some(typed) if !wanted.by_hand => wanted.command(typed, runs, (record, threads, cpus)),
        _ => None,
    };
    Some(Change { why: wanted.why.into_iter().collect(), command })
}

/// A generator whose threads use less of their time is not late for want of threads.
const IDLE: f64 = 0.5;

/// Threads of the generator of a run.
fn threads(run: &RunRecord) -> u32 {
    run.header.settings.get("threads").and_then(|threads| threads.parse().ok()).unwrap_or(1)
}

impl Wanted {
    fn note(&mut self, fault: &Fault, run: &RunRecord, has_spare: bool) {
        let open = !matches!(run.header.load, LoadShape::Closed { .. });
        let is_sql = run.header.settings.contains_key("protocol");
        let why = match fault {
            Fault::NoSteadyInterval => {
                self.longer = true;
                "the run ended within its warm-up: measure longer"
            }
            Fault::NothingCompleted if is_sql => {
                self.by_hand = true;
                "no transaction was completed: see the failures by kind above, and run the script once \
                 with `psql -f`; one that takes long needs a longer `--duration`"
            }
            Fault::Generator(GeneratorLimit::Connect { .. }) if is_sql => {
                self.by_hand = true;
                "connections could not be opened: use fewer `--clients` or `--connections`, or raise the \
                 limits with `ulimit -n`"
            }
            Fault::NothingCompleted => {
                self.by_hand = true;
                "nothing was answered: see the failures by kind above, and ask for the URL once with \
                 `curl -v`; a server that answers slowly needs a longer `--timeout` and `--duration`"
            }
            Fault::Generator(GeneratorLimit::Connect { .. }) => {
                let kept = run.header.settings.get("keep-alive").is_some_and(|kept| kept == "on");
                if kept {
                    self.by_hand = true;
                } else {
                    self.keep = true;
                }
                "connections could not be opened: let them be kept (without `--no-keep-alive`), use \
                 fewer clients, or raise the limits with `ulimit -n`"
            }
            Fault::Generator(limit) => self.of_generator(limit, run, has_spare),
            Fault::Drifts { .. } if open => {
                (self.warmer, self.longer, self.less) = (true, true, true);
                "the run was not stationary: warm up longer, and ask for less"
            }
            Fault::Drifts { .. } => {
                (self.warmer, self.longer) = (true, true);
                "the run was not stationary: warm up and measure longer, while nothing else uses the \
                 machine"
            }
            Fault::Little(_) => {
                self.by_hand = true;
                "the generator's own counts contradict each other, which is a defect of sekisho: \
                 please report it with the record"
            }
        };
        self.why.insert(why.to_owned());
    }

    /// The words on a generator that was the limit.
    fn of_generator(
        &mut self,
        limit: &GeneratorLimit,
        run: &RunRecord,
        has_spare: bool,
    ) -> &'static str {
        if matches!(limit, GeneratorLimit::Lag { .. }) && busiest(run) < IDLE {
            return "requests left late, although the generator had time for them: something else uses the processors; \
                    measure again while nothing else does, or from another machine";
        }
        let is_log = speed(run).is_some();
        (self.threads, self.less) = (self.threads || has_spare, self.less || !has_spare);
        match (has_spare, is_log) {
            (true, true) => {
                "the generator was the limit, and has processors left: give it more threads; where they do not \
                 suffice, replay the log more slowly (`--speed 0.5`) or at a rate (`--rate`), or share it among \
                 several processes (`--part`)"
            }
            (true, false) => {
                "the generator was the limit, and has processors left: give it more threads"
            }
            (false, true) => {
                "the generator was the limit, and there is no processor left for it: replay the log more slowly \
                 (`--speed`) or at a rate (`--rate`), or share it among several machines (`--part`)"
            }
            (false, false) => {
                "the generator was the limit, and there is no processor left for it: ask for less, or \
                 press the server from another machine"
            }
        }
    }

    fn command(
        &self,
        typed: Typed,
        runs: &[(&RunRecord, &Judgement)],
        (record, threads, cpus): (&RunRecord, u32, u32),
    ) -> Option<String> {
        let mut again = typed;
        for name in ["out", "csv", "hlog"] {
            again = again.without(name);
        }
        let warmup = record.header.warmup_s;
        if self.warmer {
            again = again.with("warmup", seconds((3.0 * warmup).max(3.0)));
        }
        if self.longer {
            again = match record.header.until {
                Until::Seconds(length) => {
                    again.with("duration", seconds((2.0 * length).max(5.0 * warmup).max(5.0)))
                }
                Until::Requests(requests) => again.with("requests", requests.saturating_mul(4)),
            };
        }
        if self.threads {
            again = again.with("threads", threads.saturating_mul(2).min(cpus));
        }
        if self.keep {
            again = again.without("no-keep-alive");
        }
        if self.less {
            again = match record.header.load {
                LoadShape::Closed { .. } => again.with("clients", fewer_clients(runs)?),
                LoadShape::Poisson { rate, .. } | LoadShape::Fixed { rate, .. } => {
                    again.with("rate", less(rate))
                }
                LoadShape::Varying { course: Course::Log { speed, .. }, .. } => {
                    again.with("speed", slower(speed))
                }
                // Of a rate that changes, the user knows which part to lower.
                LoadShape::Varying { .. } => return None,
            };
        }
        Some(again.line())
    }
}

/// Share of the time that the busiest thread of the generator used; all of it where that is not known.
fn busiest(run: &RunRecord) -> f64 {
    let steady = run.steady();
    let threads = steady.iter().map(|one| one.generator.thread_cpu_s.len()).min().unwrap_or(0);
    let length_s: f64 = steady.iter().map(|one| one.length_s).sum();
    let share =
        |at: usize| steady.iter().map(|one| one.generator.thread_cpu_s[at]).sum::<f64>() / length_s;
    (0..threads).map(share).reduce(f64::max).unwrap_or(1.0)
}

/// Factor by which the gaps of a log were divided; none of another load.
fn speed(run: &RunRecord) -> Option<f64> {
    match run.header.load {
        LoadShape::Varying { course: Course::Log { speed, .. }, .. } => Some(speed),
        _ => None,
    }
}

/// Half of a speed, as an option has it.
fn slower(speed: f64) -> String {
    format!("{}", (speed / 2.0 * 1e6).round() / 1e6)
}

/// The loads of these runs, of the invalid ones half; none where a single client is too much.
fn fewer_clients(runs: &[(&RunRecord, &Judgement)]) -> Option<String> {
    let mut clients = BTreeSet::new();
    for (run, judgement) in runs {
        let LoadShape::Closed { clients: had, .. } = run.header.load else { continue };
        match judgement.is_valid() {
            true => clients.insert(had),
            false if had > 1 => clients.insert(had / 2),
            false => return None,
        };
    }
    Some(clients.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
}

/// Seven tenths of a rate, as an option has it.
fn less(rate: f64) -> String {
    match 0.7 * rate {
        rate if rate >= 10.0 => format!("{rate:.0}/s"),
        rate => format!("{rate:.3}/s"),
    }
}

/// A time of whole seconds, as an option has it.
fn seconds(time: f64) -> String {
    format!("{:.0}s", time.ceil())
}

#[cfg(test)]
mod tests {
    use measure::{Host, RunHeader, Trend};

    use super::*;

    fn run(load: LoadShape) -> RunRecord {
        RunRecord {
            header: RunHeader {
                id: "run".into(),
                started: String::new(),
                tool: String::new(),
                command: Vec::new(),
                seed: 1,
                host: Host { cpus: 2, ..Host::default() },
                target: "http://h/".into(),
                load,
                until: Until::Seconds(2.0),
                warmup_s: 1.0,
                classes: Vec::new(),
                settings: [("threads", "1"), ("keep-alive", "off")]
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .into(),
                part: None,
                merged: Vec::new(),
            },
            intervals: Vec::new(),
            summary: None,
        }
    }

    fn judged(run: &RunRecord, faults: Vec<Fault>) -> Judgement {
        Judgement { faults, ..run.judge(0.95) }
    }

    fn closed(clients: u32) -> RunRecord {
        run(LoadShape::Closed { clients, think_s: 0.0 })
    }

    fn typed(line: &str) -> Option<Typed> {
        let line = format!("sekisho measure http http://h/ {line}");
        Typed::of(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    const BUSY: Fault = Fault::Generator(GeneratorLimit::Cpu { thread: 0, intervals: 1.0 });

    #[track_caller]
    fn changed(run: &RunRecord, fault: Fault, line: &str) -> Option<String> {
        let judgement = judged(run, vec![fault]);
        let change = change(&[(run, &judgement)], typed(line)).unwrap();
        assert_eq!(change.why.len(), 1, "{change:?}");
        change.command
    }

    /// The story: at 300 requests a second on a busy machine more threads were advised, and were as late.
    #[test]
    fn a_generator_that_is_late_and_idle_wants_a_quiet_machine() {
        let lag = || {
            Fault::Generator(GeneratorLimit::Lag {
                p99: std::time::Duration::from_millis(20),
                mean_s: 0.001,
                response_mean_s: 0.001,
            })
        };
        let mut run = run(LoadShape::Fixed { rate: 300.0, in_flight_max: 10_000 });
        let mut with = |cpu_s: f64| {
            let generator = measure::GeneratorHealth { thread_cpu_s: vec![cpu_s] };
            run.intervals = vec![measure::Interval {
                start_s: 1.0,
                length_s: 1.0,
                classes: Vec::new(),
                in_flight_mean: 0.0,
                started: 300,
                connects: 0,
                lag: measure::Histogram::new(),
                generator,
            }];
            let judgement = Judgement { faults: vec![lag()], ..closed(1).judge(0.95) };
            change(&[(&run, &judgement)], typed("--rate 300/s")).unwrap()
        };
        let idle = with(0.1);
        assert!(idle.why[0].contains("while nothing else does"), "{idle:?}");
        assert_eq!(idle.command.unwrap(), "sekisho measure http http://h/ --rate 300/s");
        let busy = with(0.7);
        assert!(busy.command.unwrap().ends_with("--threads 2"), "{:?}", busy.why);
    }

    /// The story: of a log of 45,000 requests a second more threads were advised, and nothing else.
    #[test]
    fn a_log_that_is_too_fast_is_replayed_more_slowly_or_shared() {
        let course = Course::Log { requests: 90_000, speed: 2.0 };
        let (phases, in_flight_max) = (Vec::new(), 10_000);
        let mut log = run(LoadShape::Varying { course, phases, in_flight_max });
        let change_of = |log: &RunRecord| {
            let judgement = judged(log, vec![BUSY]);
            change(&[(log, &judgement)], typed("--log a.log --speed 2")).unwrap()
        };
        let start = "sekisho measure http http://h/ --log a.log";
        let first = change_of(&log);
        assert!(first.why[0].contains("`--part`") && first.why[0].contains("--speed"), "{first:?}");
        assert_eq!(first.command.unwrap(), format!("{start} --speed 2 --threads 2"));
        log.header.settings.insert("threads".into(), "2".into());
        let full = change_of(&log);
        assert!(full.why[0].contains("`--part`") && full.why[0].contains("--speed"), "{full:?}");
        assert_eq!(full.command.unwrap(), format!("{start} --speed 1"));
    }

    #[test]
    fn a_valid_run_needs_no_change() {
        let run = closed(4);
        assert!(change(&[(&run, &judged(&run, Vec::new()))], typed("--clients 4")).is_none());
    }

    #[test]
    fn each_fault_has_its_change() {
        let start = "sekisho measure http http://h/ --clients 4";
        let run_of = closed(4);
        let drifts =
            Fault::Drifts { what: "throughput", trend: Trend { drift: 0.5, p_value: 1e-3 } };
        let wanted = format!("{start} --warmup 3s --duration 5s");
        assert_eq!(changed(&run_of, drifts.clone(), "--clients 4 --out f"), Some(wanted));
        let wanted = format!("{start} --duration 5s");
        assert_eq!(changed(&run_of, Fault::NoSteadyInterval, "--clients 4"), Some(wanted));
        let wanted = format!("{start} --threads 2");
        assert_eq!(changed(&run_of, BUSY, "--clients 4"), Some(wanted));
        let ports = Fault::Generator(GeneratorLimit::Connect { requests: 9 });
        let line = "--clients 4 --no-keep-alive";
        assert_eq!(changed(&run_of, ports.clone(), line), Some(start.into()));
        assert_eq!(changed(&run_of, Fault::NothingCompleted, "--clients 4"), None);
        let mut kept = closed(4);
        kept.header.settings.insert("keep-alive".into(), "on".into());
        assert_eq!(changed(&kept, ports, "--clients 4"), None, "no option opens more");
        let mut sql = closed(4);
        sql.header.settings.insert("protocol".into(), "prepared".into());
        let nothing =
            change(&[(&sql, &judged(&sql, vec![Fault::NothingCompleted]))], None).unwrap();
        assert!(nothing.why[0].contains("`psql -f`"), "{nothing:?}");
        let open = run(LoadShape::Fixed { rate: 1000.0, in_flight_max: 9 });
        let wanted = "sekisho measure http http://h/ --rate 700/s --warmup 3s --duration 5s";
        assert_eq!(changed(&open, drifts, "--rate 1000/s"), Some(wanted.into()));
    }

    /// On a machine without a spare processor there is nothing to give: half the clients are next, and
    /// what was valid stays.
    #[test]
    fn a_generator_without_spare_processors_is_asked_for_less() {
        let mut runs = [closed(1), closed(4), closed(16)];
        for run in &mut runs {
            run.header.settings.insert("threads".into(), "2".into());
        }
        let faults = [vec![], vec![], vec![BUSY]];
        let judgements: Vec<Judgement> =
            runs.iter().zip(faults).map(|(run, faults)| judged(run, faults)).collect();
        let pairs: Vec<(&RunRecord, &Judgement)> = runs.iter().zip(&judgements).collect();
        let change = change(&pairs, typed("--clients 1,4,16")).unwrap();
        let wanted = "sekisho measure http http://h/ --clients 1,4,8";
        assert_eq!(change.command.as_deref(), Some(wanted));
        let single = closed(1);
        let mut full = single.clone();
        full.header.settings.insert("threads".into(), "2".into());
        assert_eq!(changed(&full, BUSY, "--clients 1"), None, "there is no smaller load");
    }
}
