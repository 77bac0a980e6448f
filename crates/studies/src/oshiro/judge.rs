//! Claims of experiment 1, each held against what was measured.

use board_bench::Mix;

use super::experiment::{CONNECTIONS, Experiment, FEW, Point};
use super::figures::chance;
use super::model::{Model, Predicted, Unpredicted};
use crate::claim::{Answer, Evidence, Judged, Registry};

/// The rival that is a server with a log of its own, as Cassandra is.
const RIVAL: &str = "postgres";
/// The paper's own rival.
const PAPERS: &str = "cassandra";
/// Share of a measured rate by which a predicted one may be off.
const WITHIN: f64 = 0.25;
/// Share of processor time without work above which requests wait for something else.
const IDLE_MAX: f64 = 0.15;
/// Factor above which commits of many connections share what one alone waits for.
const SHARED: f64 = 1.5;

/// Share of processor time that others may take from a run that is to show for what its requests wait.
const OTHERS_MAX: f64 = 0.05;

/// Shared buffers that a board's PostgreSQL has \[B\].
const BUFFERS: u64 = 256 << 20;

/// Judges every claim, in the order of the list.
pub(super) fn judge(registry: &Registry, experiment: &Experiment, models: &[Model]) -> Vec<Judged> {
    let judged = [
        faster(registry, experiment, "reads", Mix::R100),
        faster(registry, experiment, "writes", Mix::W100),
        most(registry, experiment),
        ungated(registry, experiment),
        shared(registry, experiment),
        memory(registry, experiment),
        model(registry, experiment, models, ("model-reads", Mix::R100), is_queue),
        model(registry, experiment, models, ("model-writes", Mix::W100), outdoes_queue),
    ];
    let judged = judged.into_iter().map(|one| unless_failed(one, experiment));
    judged.chain([unless_failed(cassandra(registry, experiment), experiment)]).collect()
}

/// The paper's rival itself, in reads and in writes; if it was not asked for, it is not run.
fn cassandra(registry: &Registry, experiment: &Experiment) -> Judged {
    let judged = registry.claim("cassandra").judge();
    if !experiment.stores().contains(&PAPERS) {
        return judged.not_run(
            "Cassandra is run if it is asked for, `--store cassandra`; PostgreSQL, a server with a log of its own, \
             stands in its place in the claims above.",
        );
    }
    let clients = experiment.clients();
    let mut answer = Answer::Yes;
    let mut told = Vec::new();
    for mix in [Mix::R100, Mix::W100] {
        let ratios = clients.iter().map(|clients| ratio(experiment, PAPERS, mix, *clients));
        let ratios: Vec<[f64; 2]> = ratios.collect();
        for [low, high] in &ratios {
            answer = answer.and(Answer::above(1.0, *low, *high));
        }
        let list = clients.iter().zip(&ratios);
        let list = list.map(|(clients, [low, high])| format!("{low:.2} to {high:.2} at {clients}"));
        told.push(format!("{}: {}", mix.word(), list.collect::<Vec<_>>().join(", ")));
    }
    let last = ratio(experiment, PAPERS, Mix::W100, clients[clients.len() - 1]);
    let found = format!(
        "Requests a second of Jungle over Cassandra's, by clients: {}. Cassandra 5 with one copy, its commit log synced \
         before each answer; the paper's kept nothing safe. {}",
        told.join("; "),
        chance(experiment.rounds())
    );
    judged.measured(times(last)).found(found).shape(answer)
}

/// Nothing is decided by runs in which requests failed, or by a store that does not keep what it acknowledged.
fn unless_failed(judged: Judged, experiment: &Experiment) -> Judged {
    let failed = experiment.failed();
    let fault = experiment.kept.iter().find_map(|(store, kept)| {
        kept.faults
            .first()
            .map(|fault| format!("{store} does not keep what it acknowledged: {fault}"))
    });
    match fault {
        Some(fault) => judged.undecided(fault),
        None if failed > 0 => {
            judged.undecided(format!("{failed} requests failed, so the runs cannot be compared."))
        }
        None => match experiment.unanswered() {
            Some(run) => judged.measured("-").undecided(format!("Nothing was answered of {run}.")),
            None => judged,
        },
    }
}

/// Ratio of Jungle's rate to the rival's: the least and the greatest that two rounds give.
fn ratio(experiment: &Experiment, rival: &str, mix: Mix, clients: u32) -> [f64; 2] {
    let [slow, fast] = experiment.point("jungle", mix, clients).rates();
    let [rival_slow, rival_fast] = experiment.point(rival, mix, clients).rates();
    [slow / rival_fast, fast / rival_slow]
}

fn times([low, high]: [f64; 2]) -> String {
    format!("x{:.2}", (low * high).sqrt())
}

fn faster(registry: &Registry, experiment: &Experiment, id: &str, mix: Mix) -> Judged {
    let clients = experiment.clients();
    let ratios: Vec<[f64; 2]> =
        clients.iter().map(|clients| ratio(experiment, RIVAL, mix, *clients)).collect();
    let answer = ratios
        .iter()
        .fold(Answer::Yes, |all, [low, high]| all.and(Answer::above(1.0, *low, *high)));
    let list = clients
        .iter()
        .zip(&ratios)
        .map(|(clients, [low, high])| format!("{low:.2} to {high:.2} at {clients}"));
    let found = format!(
        "{} requests a second of Jungle over PostgreSQL's, by clients: {}. {}",
        mix.word(),
        list.collect::<Vec<_>>().join(", "),
        chance(experiment.rounds())
    );
    let last = ratios[ratios.len() - 1];
    registry.claim(id).judge().measured(times(last)).found(found).shape(answer)
}

/// The gain in writes over that in reads, with the most clients.
fn most(registry: &Registry, experiment: &Experiment) -> Judged {
    let clients = experiment.clients();
    let last = clients[clients.len() - 1];
    let reads = ratio(experiment, RIVAL, Mix::R100, last);
    let writes = ratio(experiment, RIVAL, Mix::W100, last);
    let (low, high) = (writes[0] / reads[1], writes[1] / reads[0]);
    let found = format!(
        "With {last} clients Jungle does {:.2} to {:.2} times PostgreSQL's requests in W100, and {:.2} to \
         {:.2} times in R100.",
        writes[0], writes[1], reads[0], reads[1]
    );
    let judged = registry.claim("writes-most").judge().measured(times([low, high])).found(found);
    judged.shape(Answer::above(1.0, low, high))
}

/// Reads pass no gate: while many want a page, no processor is without work.
fn ungated(registry: &Registry, experiment: &Experiment) -> Judged {
    let judged = registry.claim("ungated").judge();
    let clients = experiment.clients();
    let idle = |mix: Mix| {
        let points = clients.iter().map(|clients| experiment.point("jungle", mix, *clients));
        let all: Vec<[f64; 2]> = points.map(Point::idle).collect::<Option<_>>()?;
        let least = all.iter().map(|one| one[0]).fold(f64::INFINITY, f64::min);
        Some([least, all.iter().map(|one| one[1]).fold(0.0, f64::max)])
    };
    let (Some(reads), Some(writes)) = (idle(Mix::R100), idle(Mix::W100)) else {
        return judged.not_run("The kernel does not tell how long processors had no work.");
    };
    let found = format!(
        "Processors without work on Jungle: {:.0} to {:.0} % of the time in R100, {:.0} to {:.0} % in W100.",
        reads[0] * 100.0,
        reads[1] * 100.0,
        writes[0] * 100.0,
        writes[1] * 100.0
    );
    let judged = judged.measured(format!("{:.0} %", reads[1] * 100.0));
    if let Some(reason) = unrefutable(experiment) {
        return judged.undecided(format!("{found} {reason}"));
    }
    judged.found(found).shape(Answer::below(IDLE_MAX, reads[0], reads[1]))
}

/// Reason why reads that wait at a gate that is held for all of a request would leave no processor idle here: others use
/// what they leave, or there are too few processors. None if idle processors would show them.
fn unrefutable(experiment: &Experiment) -> Option<String> {
    let is_read = |point: &&Point| point.store == "jungle" && point.mix == Mix::R100;
    let rounds = || experiment.points.iter().filter(is_read).flat_map(|point| &point.rounds);
    let others = rounds().filter_map(|round| round.machine).map(|machine| machine.others);
    let most = others.fold(0.0, f64::max);
    if most > OTHERS_MAX {
        return Some(format!(
            "Other programs or the kernel worked {:.0} % of the time, and so would have hidden that reads wait: try \
             again when this machine is quiet.",
            most * 100.0
        ));
    }
    // Through a gate that is held for all of a request one processor at most serves, and beside it the load engine works
    // for what that one serves.
    let beside = rounds().map(|round| round.generator_cpu_s / round.server_cpu_s);
    let busy = 1.0 + beside.fold(0.0, f64::max);
    let could_show = experiment.processors as f64 * (1.0 - IDLE_MAX);
    (busy >= could_show).then(|| {
        format!(
            "A board whose reads wait at a gate that is held for all of a request, and the load engine beside it, would \
             keep {busy:.1} of {} processors busy, so that idle ones cannot tell: it takes a machine with more \
             processors.",
            experiment.processors
        )
    })
}

/// Commits pass one short gate: many get more done than one whose commits stand in it for all of their time.
fn shared(registry: &Registry, experiment: &Experiment) -> Judged {
    let few = experiment.few.iter().find(|few| few.mix == Mix::W100 && few.connections == FEW[0]);
    let alone = few.expect("it was measured").rate;
    let judged = registry.claim("short-gate").judge();
    let clients = experiment.clients();
    let rates =
        clients.iter().map(|clients| experiment.point("jungle", Mix::W100, *clients).rates());
    let (low, high) = rates.fold((f64::INFINITY, 0.0_f64), |(low, high), rates| {
        (low.min(rates[0] / alone), high.max(rates[1] / alone))
    });
    let found = format!(
        "W100 on Jungle, {} to {} connections over one: {low:.2} to {high:.2} times the commits a second. \
         What waits in the gate shares a sync.",
        clients[0] * CONNECTIONS,
        clients[clients.len() - 1] * CONNECTIONS
    );
    judged.measured(times([low, high])).found(found).shape(Answer::above(SHARED, low, high))
}

/// The price: memory, with the most clients and all messages.
fn memory(registry: &Registry, experiment: &Experiment) -> Judged {
    let judged = registry.claim("memory").judge();
    let clients = experiment.clients();
    let of = |store| experiment.point(store, Mix::W100, clients[clients.len() - 1]).memory();
    let (Some(jungle), Some(rival), Some(sqlite)) = (of("jungle"), of(RIVAL), of("sqlite")) else {
        return judged.not_run("The kernel does not tell the memory of every process.");
    };
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let stored = |store| {
        experiment.kept.iter().find(|(name, _)| *name == store).map_or(0, |(_, kept)| kept.stored)
    };
    let found = format!(
        "Resident at the end: Jungle {:.0} MB with {} messages, PostgreSQL {:.0} with {}, SQLite {:.0} with {}.",
        megabytes(jungle.resident),
        stored("jungle"),
        megabytes(rival.resident),
        stored(RIVAL),
        megabytes(sqlite.resident),
        stored("sqlite")
    );
    let ratio = jungle.resident as f64 / rival.resident as f64;
    let judged = judged.measured(format!("x{ratio:.2}"));
    if rival.shared < BUFFERS {
        return judged.undecided(format!(
            "{found} PostgreSQL's buffers ({:.0} of {:.0} MB) are not full, so that its memory still grows with the \
             board as Jungle's does: more messages tell, `--full`.",
            megabytes(rival.shared),
            megabytes(BUFFERS)
        ));
    }
    let pair = [megabytes(jungle.resident), megabytes(rival.resident)];
    judged.found(found).shape(Evidence::of(&pair, |found| found[0] > found[1]))
}

/// Answer to whether a predicted rate is within a share of all that was measured.
fn near(predicted: f64, [slow, fast]: [f64; 2]) -> Answer {
    let (low, high) = (predicted / fast - 1.0, predicted / slow - 1.0);
    match () {
        () if low >= -WITHIN && high <= WITHIN => Answer::Yes,
        () if low > WITHIN || high < -WITHIN => Answer::No,
        () => Answer::CannotTell,
    }
}

/// Outcome of the model: it fits few connections, with predicted rates beside the slowest and fastest measured; or it
/// does not fit their rates, from the fewest connections on.
enum Held<'a> {
    Queue(&'a [(f64, [f64; 2])]),
    NoQueue(&'a [(u32, f64)]),
}

/// Answer to whether reads are a queue: all predictions are near.
fn is_queue(held: Held<'_>) -> Answer {
    match held {
        Held::Queue(pairs) => {
            pairs.iter().fold(Answer::Yes, |all, (rate, measured)| all.and(near(*rate, *measured)))
        }
        // Rates of single seconds have no intervals: that they contradict each other says nothing of reads.
        Held::NoQueue(_) => Answer::CannotTell,
    }
}

/// Answer to whether commits get more done than a queue: many connections do more than as many times what one does, or
/// too little is predicted for the most clients.
fn outdoes_queue(held: Held<'_>) -> Answer {
    match held {
        // In a queue none is faster than alone. Rates can contradict a queue in other ways, which say nothing of syncs.
        Held::NoQueue([(fewest, alone), .., (most, rate)]) => {
            let reachable = alone * f64::from(*most) / f64::from(*fewest);
            match *rate > reachable * (1.0 + WITHIN) {
                true => Answer::Yes,
                false => Answer::CannotTell,
            }
        }
        Held::NoQueue(_) => Answer::CannotTell,
        Held::Queue(pairs) => {
            let (rate, [slow, fast]) = pairs[pairs.len() - 1];
            Answer::above(1.0 + WITHIN, slow / rate, fast / rate)
        }
    }
}

fn model(
    registry: &Registry,
    experiment: &Experiment,
    models: &[Model],
    (id, mix): (&str, Mix),
    holds: fn(Held<'_>) -> Answer,
) -> Judged {
    let judged = registry.claim(id).judge();
    let model = models.iter().find(|model| model.mix == mix).expect("each mix has a model");
    let predicted = match &model.predicted {
        Ok(predicted) => predicted,
        Err(error) => {
            let few = experiment.few.iter().filter(|few| few.mix == mix);
            let few: Vec<(u32, f64)> = few.map(|few| (few.connections, few.rate)).collect();
            let rates =
                few.iter().map(|(connections, rate)| format!("{rate:.0} with {connections}"));
            let found = format!(
                "No scenario was fitted: {}. Requests a second by connections: {}.",
                error.cause(),
                rates.collect::<Vec<_>>().join(", ")
            );
            return match error {
                Unpredicted::DoesNotFit(_) => {
                    judged.found(found).unstated(holds(Held::NoQueue(&few)))
                }
                Unpredicted::Other(_) => judged.undecided(found),
            };
        }
    };
    // As it is fitted, so it is judged: by one program whose connections are open.
    let measured = |one: &Predicted| experiment.rates_of_one(mix, one.clients);
    let pairs = predicted.iter().flat_map(|one| one.rates.map(|rate| (rate, measured(one))));
    let answer = holds(Held::Queue(&pairs.collect::<Vec<_>>()));
    let last = predicted.last().expect("clients were asked for");
    let [slow, fast] = measured(last);
    let list = predicted.iter().map(|one| {
        let [slow, fast] = measured(one);
        let [slowest, fastest] = experiment.point("jungle", mix, one.clients).rates();
        let connections = one.clients * CONNECTIONS;
        format!(
            "{:.0} at {connections} ({slow:.0} to {fast:.0}; {} programs {slowest:.0} to {fastest:.0})",
            one.rates[1], one.clients
        )
    });
    let response_s = experiment.response_of_one(mix, last.clients);
    let found = format!(
        "Fitted to {} connections of {}: {:.0} us a request at the one station that queues, of which processors \
         work {:.0} us. Predicted requests a second by connections; in brackets those of one program that is judged by, \
         its connections open, and of as many programs as clients with their beginnings, by which nothing is judged: \
         {}. Mean response with {} connections: {:.1} ms predicted, {:.1} ms measured of one program.",
        FEW.map(|few| few.to_string()).join(", "),
        mix.word(),
        model.demand_s * 1e6,
        model.cpu_s * 1e6,
        list.collect::<Vec<_>>().join(", "),
        last.clients * CONNECTIONS,
        last.response_s * 1e3,
        response_s * 1e3
    );
    judged
        .formula(format!("{:.0}/s", last.rates[0]))
        .simulation(format!("{:.0}/s", last.rates[1]))
        .measured(format!("{:.0}/s", f64::midpoint(slow, fast)))
        .found(found)
        .unstated(answer)
}

#[cfg(test)]
mod tests {
    use board_bench::{Kept, Memory, Pressed, Shares};

    use super::super::experiment::{One, STORES};
    use super::super::registry;
    use super::*;
    use crate::claim::Finding;

    /// A quiet machine of many processors, on which Jungle is twice as fast and all claims can be told.
    fn quiet() -> Experiment {
        quiet_with(&STORES)
    }

    fn of_one(mix: Mix, connections: u32, rate: f64) -> One {
        let (failed, response_s, cpu_s) = (0, 0.01, 1e-4);
        One { mix, connections, completed: 100, failed, rate, response_s, cpu_s }
    }

    fn quiet_with(stores: &[&'static str]) -> Experiment {
        let pressed = |store: &str, clients: u32| {
            let rate = if store == "jungle" { 2_000.0 } else { 1_000.0 };
            Pressed {
                server_cpu_s: 1e-4,
                generator_cpu_s: 5e-5,
                memory: Some(Memory {
                    resident: if store == "jungle" { 900 << 20 } else { 400 << 20 },
                    shared: if store == "postgres" { 300 << 20 } else { 0 },
                }),
                machine: Some(Shares { idle: 0.02, others: 0.01 }),
                ..Pressed::of_rate(rate + f64::from(clients))
            }
        };
        let mut points = Vec::new();
        for &store in stores {
            for mix in Mix::ALL {
                for clients in [10, 45] {
                    let rounds = vec![pressed(store, clients), pressed(store, clients)];
                    points.push(Point { store, mix, clients, rounds });
                }
            }
        }
        let few = Mix::ALL
            .into_iter()
            .flat_map(|mix| FEW.map(|connections| of_one(mix, connections, 100.0)));
        let few = few.collect();
        let many = Mix::ALL.into_iter().flat_map(|mix| {
            [10, 45, 10, 45].map(|clients| of_one(mix, clients * CONNECTIONS, 3_000.0))
        });
        let many = many.collect();
        let kept = |store| (store, Kept { acknowledged: 5, stored: 5, faults: Vec::new() });
        let kept = stores.iter().copied().map(kept).collect();
        let settings = Vec::new();
        let (load_before, requests) = (None, 500);
        Experiment { points, few, many, kept, processors: 8, settings, load_before, requests }
    }

    fn models(predicted: &Result<Vec<Predicted>, Unpredicted>) -> Vec<Model> {
        let one = |mix| Model { mix, demand_s: 1e-4, cpu_s: 1e-4, predicted: predicted.clone() };
        Mix::ALL.map(one).into()
    }

    /// Finding on a claim, where no scenario was fitted, and its sentence.
    fn found(experiment: &Experiment, id: &str) -> (Finding, String) {
        let models = models(&Err(Unpredicted::DoesNotFit("it is 80 % off".into())));
        let judged = judge(&registry(), experiment, &models);
        let judged = judged.into_iter().find(|one| one.id == id).unwrap();
        (judged.finding, judged.found)
    }

    /// Nothing is decided of a claim, and the sentence says this of the cause.
    fn assert_undecided(experiment: &Experiment, id: &str, cause: &str) {
        let (finding, why) = found(experiment, id);
        assert_eq!(finding, Finding::Undecided, "{id}: {why}");
        assert!(why.contains(cause), "{id}: {why}");
    }

    /// The story: these captions were made beside their curves, where nothing tried them on other values.
    #[test]
    fn captions_are_of_the_points_that_are_drawn() {
        let experiment = quiet();
        let told = |models: &[Model]| {
            format!("{:?}", super::super::figures::sections(&experiment, models).unwrap())
        };
        let one = |clients: u32, times: f64| Predicted {
            clients,
            rates: [1.0, times * 3_000.0],
            response_s: 0.01,
        };
        let predicted = told(&models(&Ok(vec![one(10, 1.1), one(45, 0.73)])));
        assert!(
            predicted.contains(
                "of one program from few connections, and off by at most -27 %. The jungle clients"
            ),
            "{predicted}"
        );
        let unpredicted = told(&models(&Err(Unpredicted::Other("no".into()))));
        for wanted in ["2045 1/s (jungle)", "Nothing is predicted: no scenario was fitted."] {
            assert!(unpredicted.contains(wanted), "{wanted}: {unpredicted}");
        }
    }

    /// The story: the model, fitted to one program whose clock begins when its connections are open, was judged by 45
    /// programs whose clock has their threads and connections, and was 2.9 times off by that alone.
    #[test]
    fn a_prediction_is_judged_by_one_program_as_it_is_fitted() {
        let experiment = quiet();
        let rates = |rate: f64| {
            let one = |clients| Predicted { clients, rates: [rate; 2], response_s: 0.01 };
            models(&Ok(vec![one(10), one(45)]))
        };
        let of = |id: &str, rate: f64| {
            let judged = judge(&registry(), &experiment, &rates(rate));
            judged.into_iter().find(|one| one.id == id).unwrap()
        };
        // The many programs do 2,010 and 2,045 a second, the one 3,000: 25 % is the tolerance as ever.
        let near = of("model-reads", 3_000.0);
        assert_eq!(near.finding, Finding::NotStated, "{}", near.found);
        assert!(
            near.found.contains("3000 at 900 (3000 to 3000; 45 programs 2045 to 2045)"),
            "{}",
            near.found
        );
        assert_eq!(of("model-reads", 3_600.0).finding, Finding::NotStated, "20 % off");
        assert_ne!(of("model-reads", 3_900.0).finding, Finding::NotStated, "30 % off");
        assert_ne!(of("model-reads", 2_030.0).finding, Finding::NotStated, "what the programs do");
        assert_eq!(of("model-writes", 2_030.0).finding, Finding::NotStated);
        assert_ne!(of("model-writes", 3_000.0).finding, Finding::NotStated);
        let mut failing = quiet();
        failing.many[0].failed = 3;
        assert_undecided(&failing, "reads", "3 requests failed");
        let mut silent = quiet();
        silent.many.last_mut().unwrap().completed = 0;
        assert_undecided(&silent, "reads", "W100 with 900 connections on jungle");
    }

    fn each_read(experiment: &mut Experiment, change: impl Fn(&mut Pressed)) {
        let is_it = |point: &&mut Point| point.store == "jungle" && point.mix == Mix::R100;
        let points = experiment.points.iter_mut().filter(is_it);
        points.flat_map(|point| &mut point.rounds).for_each(change);
    }

    /// "No processor is without work" was found on every machine on which something else worked, gate or none.
    #[test]
    fn processors_that_others_keep_busy_tell_nothing_of_a_gate() {
        let mut experiment = quiet();
        assert_eq!(found(&experiment, "ungated").0, Finding::ShapeOnly);
        each_read(&mut experiment, |round| round.machine.as_mut().unwrap().idle = 0.5);
        assert_eq!(found(&experiment, "ungated").0, Finding::DoesNotReproduce);
        each_read(&mut experiment, |round| {
            round.machine = Some(Shares { idle: 0.0, others: 0.06 });
        });
        assert_undecided(&experiment, "ungated", "Other programs or the kernel worked 6 %");
    }

    /// On two processors a gate's one and the load engine's leave none idle: nothing could refute the claim.
    #[test]
    fn a_gate_shows_only_beside_more_processors_than_it_and_the_load_engine_need() {
        let mut experiment = quiet();
        experiment.processors = 2;
        assert_eq!(found(&experiment, "ungated").0, Finding::ShapeOnly, "1.5 of 2 are busy");
        each_read(&mut experiment, |round| round.generator_cpu_s = round.server_cpu_s);
        assert_undecided(&experiment, "ungated", "2.0 of 2 processors");
    }

    /// Only the runs of many clients were asked for failed requests, and of a rate of 0 alone anything is a multiple.
    #[test]
    fn runs_of_few_connections_that_fail_decide_nothing() {
        let mut experiment = quiet();
        assert_eq!(found(&experiment, "short-gate").0, Finding::ShapeOnly);
        experiment.few[0].failed = 3;
        assert_undecided(&experiment, "short-gate", "3 requests failed");
        let mut experiment = quiet();
        let few = experiment.few.iter_mut().find(|few| few.mix == Mix::W100).unwrap();
        (few.completed, few.rate) = (0, 0.0);
        assert_undecided(&experiment, "short-gate", "W100 with 1 connections on jungle");
        assert_undecided(&experiment, "reads", "W100 with 1 connections on jungle");
    }

    #[test]
    fn a_rival_that_answers_nothing_is_not_beaten() {
        let mut experiment = quiet();
        assert_eq!(found(&experiment, "reads").0, Finding::ShapeOnly);
        let rival = experiment.points.iter_mut().find(|point| point.store == RIVAL).unwrap();
        rival.rounds[1].clients[0].completed = 0;
        assert_eq!(found(&experiment, "reads").0, Finding::Undecided);
    }

    #[test]
    fn the_papers_rival_is_judged_only_if_it_was_run() {
        let (finding, said) = found(&quiet(), "cassandra");
        assert_eq!(finding, Finding::NotRun);
        assert!(said.contains("`--store cassandra`"), "{said}");
        let mut experiment = quiet_with(&["jungle", "sqlite", "postgres", "cassandra"]);
        let (finding, said) = found(&experiment, "cassandra");
        assert_eq!(finding, Finding::ShapeOnly, "{said}");
        assert!(said.contains("R100: 1.99 to 1.99 at 10") && said.contains("W100: "), "{said}");
        let is_it = |point: &&mut Point| point.store == PAPERS && point.mix == Mix::W100;
        let points = experiment.points.iter_mut().filter(is_it);
        points.for_each(|point| point.rounds.fill(Pressed::of_rate(9_000.0)));
        assert_eq!(found(&experiment, "cassandra").0, Finding::DoesNotReproduce);
    }

    /// All memory of PostgreSQL's processes was held against the size of its buffers.
    #[test]
    fn buffers_are_full_when_they_are_and_not_when_processes_are_large() {
        let mut experiment = quiet();
        assert_eq!(found(&experiment, "memory").0, Finding::ShapeOnly);
        let rivals = experiment.points.iter_mut().filter(|point| point.store == RIVAL);
        rivals.flat_map(|point| &mut point.rounds).for_each(|round| {
            round.memory.as_mut().unwrap().shared = 100 << 20;
        });
        assert_undecided(&experiment, "memory", "105 of 268 MB");
    }

    /// Rates that no queue explains were taken for commits that share a sync, even where many did less than one.
    #[test]
    fn commits_outdo_a_queue_only_if_many_do_more_than_as_many_times_one() {
        let few = |last: f64| [(1, 100.0), (4, 400.0), (20, last)];
        assert_eq!(outdoes_queue(Held::NoQueue(&few(2_600.0))), Answer::Yes);
        assert_eq!(outdoes_queue(Held::NoQueue(&few(2_400.0))), Answer::CannotTell);
        assert_eq!(outdoes_queue(Held::NoQueue(&few(50.0))), Answer::CannotTell);
        assert_eq!(is_queue(Held::NoQueue(&few(50.0))), Answer::CannotTell);
        assert_eq!(found(&quiet(), "model-writes").0, Finding::Undecided);
        assert_eq!(found(&quiet(), "model-reads").0, Finding::Undecided);
        let mut syncs = quiet();
        let last = |few: &&mut One| few.mix == Mix::W100 && few.connections == 20;
        syncs.few.iter_mut().find(last).unwrap().rate = 6_000.0;
        assert_eq!(found(&syncs, "model-writes").0, Finding::NotStated);
    }

    #[test]
    fn the_part_of_chance_is_told() {
        let (_, said) = found(&quiet(), "reads");
        assert!(said.contains("all 2 rounds") && said.contains("once in 6 comparisons"), "{said}");
    }

    #[test]
    fn a_prediction_is_near_only_if_every_round_is() {
        assert_eq!(near(100.0, [90.0, 110.0]), Answer::Yes);
        assert_eq!(near(100.0, [70.0, 110.0]), Answer::CannotTell);
        assert_eq!(near(100.0, [140.0, 150.0]), Answer::No);
        assert_eq!(near(100.0, [60.0, 70.0]), Answer::No);
    }

    #[test]
    fn reads_are_a_queue_and_commits_get_more_done_than_one() {
        let pairs = |slow: f64, fast: f64| [(100.0, [90.0, 110.0]), (100.0, [slow, fast])];
        assert_eq!(is_queue(Held::Queue(&pairs(90.0, 110.0))), Answer::Yes);
        assert_eq!(is_queue(Held::Queue(&pairs(300.0, 400.0))), Answer::No);
        assert_eq!(outdoes_queue(Held::Queue(&pairs(300.0, 400.0))), Answer::Yes);
        assert_eq!(outdoes_queue(Held::Queue(&pairs(90.0, 400.0))), Answer::CannotTell);
        assert_eq!(outdoes_queue(Held::Queue(&pairs(90.0, 110.0))), Answer::No);
    }
}
