//! One record of several: the parts of a run, merged without loss. Pure, so that it can be done
//! whenever and wherever the records are.

use std::collections::{BTreeMap, BTreeSet};

use measure::parts::{arranged, differs, together};
use measure::{Histogram, MergeError, PartRecord};

use super::intervals;
use super::record::{
    Checkpoints, Client, DeferredRecord, End, InputCounts, KindRecord, MergedPart, Plan, Record,
    Server,
};

impl Record {
    /// The record of a whole run from those of its parts, in any order. Histograms merge and counts
    /// add, so that it is what one process would have recorded; of what each part saw alike, the
    /// server's checkpoints, each is there once. A run is as complete as its least complete part.
    ///
    /// Throughput by buckets is kept as long as all parts ran; the longest part says how long was
    /// measured, so that a run that lost a part never looks faster than it was.
    ///
    /// # Errors
    /// If they are not the parts of one run: one is missing or there twice, their plans or databases
    /// differ, or they began too far apart.
    pub fn merge(records: &[Record]) -> Result<Record, MergeError> {
        let parts = arranged(records, |record| record.part)?;
        agree(&parts)?;
        together(parts.iter().map(|(part, _)| *part))?;
        let first = parts.first().expect("without a record there is an error").1;
        let each = || parts.iter().map(|(_, record)| *record);
        let merged: Vec<MergedPart> =
            parts.iter().map(|(part, record)| kept(*part, record)).collect();
        let buckets = each().map(|record| record.new_orders.len()).min().unwrap_or(0);
        let connections = each().map(|record| record.plan.connections).sum();
        Ok(Record {
            plan: Plan { connections, ..first.plan.clone() },
            host: first.host.clone(),
            server: first.server.clone(),
            end: end(each().map(|record| &record.end)),
            measured_s: each().map(|record| record.measured_s).fold(0.0, f64::max),
            kinds: std::array::from_fn(|at| kind(each().map(|record| &record.kinds[at]))),
            menu: histogram(each().map(|record| &record.menu)),
            deferred: deferred(each().map(|record| &record.deferred)),
            inputs: inputs(each().map(|record| &record.inputs)),
            new_orders: (0..buckets)
                .map(|at| each().map(|record| record.new_orders[at]).sum())
                .collect(),
            checkpoints: checkpoints(each().map(|record| &record.checkpoints[..])),
            errors: errors(each().map(|record| &record.errors)),
            error_first: each().find_map(|record| record.error_first.clone()),
            client: client(each().map(|record| &record.client)),
            part: None,
            merged,
            intervals: intervals::merged(each().map(|record| &record.intervals[..])),
            // Each part saw its own machine, or the same one as another.
            machine_busy: Vec::new(),
        })
    }
}

/// A part's record, with what it says of the part.
type PartOf<'a> = (PartRecord, &'a Record);

/// Checks that all parts ran the same plan on the same database.
fn agree(parts: &[PartOf]) -> Result<(), MergeError> {
    let (first, record) = &parts[0];
    for (part, other) in &parts[1..] {
        for ((what, one), (_, two)) in record.plan.facts().into_iter().zip(other.plan.facts()) {
            if one != two {
                return Err(differs(first, part, what, (one, two)));
            }
        }
        if let Some((what, values)) = servers(&record.server, &other.server) {
            return Err(differs(first, part, &what, values));
        }
    }
    Ok(())
}

/// The first thing in which two databases differ.
fn servers(one: &Server, two: &Server) -> Option<(String, (String, String))> {
    let facts = |server: &Server| {
        let mut facts = vec![
            ("version of PostgreSQL".to_owned(), server.version.clone()),
            ("seed of the load".to_owned(), server.load_seed.to_string()),
            ("constant C-Load".to_owned(), server.c_load.to_string()),
        ];
        facts.extend(server.settings.iter().map(|(name, value)| (name.clone(), value.clone())));
        facts
    };
    let (one, two): (BTreeMap<_, _>, BTreeMap<_, _>) =
        (facts(one).into_iter().collect(), facts(two).into_iter().collect());
    let names: BTreeSet<&String> = one.keys().chain(two.keys()).collect();
    let name = names.into_iter().find(|name| one.get(*name) != two.get(*name))?;
    let value =
        |of: &BTreeMap<String, String>| of.get(name).map_or("not said".into(), Clone::clone);
    Some((name.clone(), (value(&one), value(&two))))
}

fn kept(part: PartRecord, record: &Record) -> MergedPart {
    MergedPart {
        part,
        host: record.host.clone(),
        end: record.end.clone(),
        measured_s: record.measured_s,
        client: record.client.clone(),
    }
}

/// The gravest end, and of those alike the earliest.
fn end<'a>(ends: impl Iterator<Item = &'a End>) -> End {
    let grave = |end: &End| match end {
        End::Complete => (0, 0.0),
        End::Interrupted(at) => (1, -at),
        End::Failed(at, _) => (2, -at),
        End::Lost(at, _) => (3, -at),
    };
    let gravest = ends.reduce(|one, two| {
        let ((one_rank, one_at), (two_rank, two_at)) = (grave(one), grave(two));
        let order = one_rank.cmp(&two_rank).then(f64::total_cmp(&one_at, &two_at));
        if order.is_lt() { two } else { one }
    });
    gravest.expect("a run has a part").clone()
}

fn histogram<'a>(parts: impl Iterator<Item = &'a Histogram>) -> Histogram {
    let mut all = Histogram::new();
    parts.for_each(|part| all.merge(part));
    all
}

fn kind<'a>(parts: impl Iterator<Item = &'a KindRecord>) -> KindRecord {
    let mut all = KindRecord::default();
    for part in parts {
        let KindRecord { completed, unfinished, retries, failed, response, keying, think } = part;
        all.completed += completed;
        all.unfinished += unfinished;
        all.retries += retries;
        all.failed += failed;
        all.response.merge(response);
        all.keying.merge(keying);
        all.think.merge(think);
    }
    all
}

fn deferred<'a>(parts: impl Iterator<Item = &'a DeferredRecord>) -> DeferredRecord {
    let mut all = DeferredRecord::default();
    for DeferredRecord { times, overdue, unfinished, failed, skipped } in parts {
        all.times.merge(times);
        all.overdue += overdue;
        all.unfinished += unfinished;
        all.failed += failed;
        all.skipped += skipped;
    }
    all
}

fn inputs<'a>(parts: impl Iterator<Item = &'a InputCounts>) -> InputCounts {
    let mut all = InputCounts::default();
    for part in parts {
        let InputCounts {
            rollbacks,
            orders_by_lines,
            lines_remote,
            payments_remote,
            payments_by_name,
            statuses_by_name,
        } = part;
        all.rollbacks += rollbacks;
        all.orders_by_lines.iter_mut().zip(orders_by_lines).for_each(|(sum, of)| *sum += of);
        all.lines_remote += lines_remote;
        all.payments_remote += payments_remote;
        all.payments_by_name += payments_by_name;
        all.statuses_by_name += statuses_by_name;
    }
    all
}

/// Each state of the server's counters once, when the first part saw it.
fn checkpoints<'a>(parts: impl Iterator<Item = &'a [Checkpoints]>) -> Vec<Checkpoints> {
    let mut first: BTreeMap<(i64, i64), f64> = BTreeMap::new();
    for seen in parts.flatten() {
        let at_s = first.entry((seen.timed, seen.requested)).or_insert(seen.at_s);
        *at_s = at_s.min(seen.at_s);
    }
    let seen = first.into_iter();
    let mut all: Vec<Checkpoints> =
        seen.map(|((timed, requested), at_s)| Checkpoints { at_s, timed, requested }).collect();
    all.sort_by(|one, two| one.at_s.total_cmp(&two.at_s));
    all
}

fn errors<'a>(parts: impl Iterator<Item = &'a BTreeMap<String, u64>>) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for (code, count) in parts.flatten() {
        *all.entry(code.clone()).or_default() += count;
    }
    all
}

/// Processor time adds up; the parts ran at the same time.
fn client<'a>(parts: impl Iterator<Item = &'a Client>) -> Client {
    let mut all = Client::default();
    for Client { cpu_s, elapsed_s, transactions, lag } in parts {
        all.cpu_s += cpu_s;
        all.elapsed_s = all.elapsed_s.max(*elapsed_s);
        all.transactions += transactions;
        all.lag.merge(lag);
    }
    all
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
