//! Cost of Jungle's tree in memory, by the edit, the read, the node and the branch, beside a tree whose children
//! are a copied vector.
//!
//! One thread, CPU time, medians of five rounds, the cases interleaved; allocated bytes are counted by the
//! allocator. There is no log: what a sync costs belongs to the machine.
//!
//!     cargo xtask bench jungle                      # all of it
//!     cargo xtask bench jungle --small              # the parts of large stores with a tenth
//!     cargo xtask bench jungle --part=start         # one part of: edits, sizes, start, history, past
//!
//! `--case=TEXT` selects the edits whose name contains it, for a profiler.

#![allow(clippy::print_stdout)]

mod scale;

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;

use cap::Cap;
use jungle::{
    Attributes, Database, Edit, Expect, NodeId, NodePath, Operation, Place, Retention, Target,
    Thinning, Transaction,
};
use mimalloc::MiMalloc;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

#[global_allocator]
static ALLOCATOR: Cap<MiMalloc> = Cap::new(MiMalloc, usize::MAX);

const ROUNDS: usize = 5;
const CHILDREN: u32 = 100_000;
const EDITS: usize = 20_000;
const PAYLOAD: [u8; 110] = [b'x'; 110];

/// A case: its name, the bar [1/s], and a run of so many operations.
struct Case {
    name: &'static str,
    bar: f64,
    allocated_max: Option<f64>,
    count: usize,
    run: Box<dyn FnMut(&mut Xoshiro256PlusPlus)>,
    rates: Vec<f64>,
    allocated: f64,
}

/// The parts, in their order.
const PARTS: [&str; 5] = ["edits", "sizes", "start", "history", "past"];

fn main() -> Result<(), Box<dyn Error>> {
    let (mut small, mut parts, mut only) = (false, Vec::new(), String::new());
    for word in std::env::args().skip(1) {
        if word == "--small" {
            small = true;
        } else if let Some(text) = word.strip_prefix("--case=") {
            text.clone_into(&mut only);
            parts.push("edits".to_owned());
        } else {
            let part = word.strip_prefix("--part=").filter(|part| PARTS.contains(part));
            let known = PARTS.join(", ");
            let told = format!(
                "`{word}`: it takes `--small`, `--case=TEXT`, and `--part=` one of {known}"
            );
            parts.push(part.ok_or(told)?.to_owned());
        }
    }
    for part in PARTS {
        if !parts.is_empty() && !parts.iter().any(|it| it == part) {
            continue;
        }
        match part {
            "edits" => rates(&only),
            "sizes" => sizes(),
            "start" => scale::start(small)?,
            "history" => scale::history(small)?,
            _ => scale::past(small)?,
        }
    }
    Ok(())
}

/// Rates of edits and reads.
fn rates(only: &str) {
    let mut cases = cases();
    cases.retain(|case| case.name.contains(only));
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(1);
    for _ in 0..ROUNDS {
        for case in &mut cases {
            let (start, before) = (cpu_s(), ALLOCATOR.total_allocated());
            (case.run)(&mut chance);
            case.rates.push(case.count as f64 / (cpu_s() - start));
            case.allocated = (ALLOCATOR.total_allocated() - before) as f64 / case.count as f64;
        }
    }
    println!("one core, no log, {CHILDREN} children of a node, 116 B payload; median of {ROUNDS}");
    println!("{:<44} {:>12} {:>10} {:>10}", "", "1/s", "bar", "B/op");
    for case in &mut cases {
        let bar = if case.bar > 0.0 { format!("{:.0}", case.bar) } else { String::new() };
        let rate = median(&mut case.rates);
        let over = case.allocated_max.is_some_and(|most| case.allocated > most);
        let verdict = if rate < case.bar || over { "  SHORT" } else { "" };
        let (name, allocated) = (case.name, case.allocated);
        println!("{name:<44} {rate:>12.0} {bar:>10} {allocated:>10.0}{verdict}");
    }
}

/// A database whose versions are few, with one parent of many children.
fn wide(addressable: bool) -> (Database, NodeId) {
    let thinning = Thinning { newest: 100, all_for: 0, minutes_for: 0, versions: 100 };
    let retention = Retention { commits: 10_000, ..Retention::default() };
    let mut database = Database::new(retention, thinning);
    let root = NodeId::pending(0);
    let mut operations = vec![Operation::CreateTree { root, name: "t".to_owned(), addressable }];
    let parent = if addressable { Target::Node(root) } else { Target::Path(NodePath::root()) };
    operations.extend((1..=CHILDREN).map(|index| insert(index, parent.clone(), Place::Last)));
    let seq = database.commit(&transaction(operations)).expect("all are new").seq;
    (database, NodeId::new(seq, 0))
}

fn insert(index: u32, parent: Target, place: Place) -> Operation {
    let attributes = Attributes::of([("body", &PAYLOAD[..])]);
    let edit = Edit::Insert { node: NodeId::pending(index), parent, place, attributes };
    Operation::Edit { tree: "t".to_owned(), edit }
}

fn transaction(operations: Vec<Operation>) -> Transaction {
    Transaction { operations, ..Transaction::default() }
}

fn put(node: NodeId) -> Operation {
    let edit = Edit::Put {
        node: Target::Node(node),
        name: "body".to_owned(),
        value: Some(PAYLOAD.to_vec()),
        expect: Expect::Anything,
    };
    Operation::Edit { tree: "t".to_owned(), edit }
}

fn below(chance: &mut Xoshiro256PlusPlus, bound: usize) -> usize {
    (chance.next_u64() % bound as u64) as usize
}

/// Commits so many transactions of so many operations.
fn edits(
    addressable: bool,
    group: usize,
    mut wish: impl FnMut(&mut Xoshiro256PlusPlus, &Database, NodeId, u32) -> Operation + 'static,
) -> Box<dyn FnMut(&mut Xoshiro256PlusPlus)> {
    let (mut database, root) = wide(addressable);
    Box::new(move |chance| {
        for _ in 0..EDITS / group {
            let number = |index: usize| u32::try_from(index).expect("groups are small");
            let wishes = (0..group).map(|index| wish(chance, &database, root, number(index)));
            let wishes = transaction(wishes.collect());
            database.commit(&wishes).expect("the edit is possible");
        }
    })
}

fn cases() -> Vec<Case> {
    let case = |name, bar, count, run| Case {
        name,
        bar,
        allocated_max: None,
        count,
        run,
        rates: Vec::new(),
        allocated: 0.0,
    };
    let edit =
        |name, bar, run| Case { allocated_max: Some(3_000.0), ..case(name, bar, EDITS, run) };
    let append =
        |_: &mut _, _: &Database, root: NodeId, index: u32| insert(index, root.into(), Place::Last);
    let plain_append = |_: &mut _, _: &Database, _: NodeId, index: u32| {
        insert(index, NodePath::root().into(), Place::Last)
    };
    let at = |chance: &mut Xoshiro256PlusPlus, database: &Database| {
        below(chance, database.private().tree("t").expect("it is there").root().len())
    };
    let plain_insert = move |chance: &mut _, database: &Database, _: NodeId, index: u32| {
        insert(index, NodePath::root().into(), Place::At(at(chance, database)))
    };
    let middle = move |chance: &mut _, database: &Database, root: NodeId, index: u32| {
        insert(index, root.into(), Place::At(at(chance, database)))
    };
    let any = |chance: &mut Xoshiro256PlusPlus| {
        let index = 1 + below(chance, CHILDREN as usize);
        NodeId::new(1, u32::try_from(index).expect("it is one of the first"))
    };
    let value = move |chance: &mut _, _: &Database, _: NodeId, _: u32| put(any(chance));
    vec![
        edit("append, plain tree", 400_000.0, edits(false, 1, plain_append)),
        edit("append, addressable", 400_000.0, edits(true, 1, append)),
        edit("append, addressable, 100 a commit", 0.0, edits(true, 100, append)),
        edit("insert at random, plain tree", 400_000.0, edits(false, 1, plain_insert)),
        edit("insert at random, addressable", 400_000.0, edits(true, 1, middle)),
        edit("put by id, addressable", 200_000.0, edits(true, 1, value)),
        case("append to a copied vector", 0.0, 200, vector()),
        case("read by path, a million nodes", 1_000_000.0, 1_000_000, reads()),
        case("page: the last 20 children, copied out", 100_000.0, 100_000, pages()),
    ]
}

/// The simplest persistent children: a vector that each edit copies.
fn vector() -> Box<dyn FnMut(&mut Xoshiro256PlusPlus)> {
    let node = || Arc::new(Attributes::of([("body", &PAYLOAD[..])]));
    let mut children: Arc<Vec<Arc<Attributes>>> = Arc::new((0..CHILDREN).map(|_| node()).collect());
    Box::new(move |_| {
        for _ in 0..200 {
            let mut copy = Vec::with_capacity(children.len() + 1);
            copy.extend(children.iter().cloned());
            copy.push(node());
            children = Arc::new(copy);
        }
        black_box(children.len());
    })
}

/// A thousand folders of a thousand nodes each.
fn million() -> Database {
    let mut database = Database::default();
    let root = NodeId::pending(0);
    let mut operations =
        vec![Operation::CreateTree { root, name: "t".to_owned(), addressable: true }];
    for folder in 0..1_000 {
        let parent = NodeId::pending(1 + folder * 1_001);
        operations.push(insert(parent.index(), root.into(), Place::Last));
        operations.extend(
            (1..=1_000).map(|node| insert(parent.index() + node, parent.into(), Place::Last)),
        );
    }
    database.commit(&transaction(operations)).expect("all are new");
    database
}

fn reads() -> Box<dyn FnMut(&mut Xoshiro256PlusPlus)> {
    let reader = million().reader();
    Box::new(move |chance| {
        for _ in 0..1_000_000 {
            let version = reader.version();
            let tree = version.tree("t").expect("it is there");
            let folder = tree.root().child(below(chance, 1_000)).expect("a folder");
            let node = folder.child(below(chance, 1_000)).expect("a node");
            black_box(node.attribute("body"));
        }
    })
}

fn pages() -> Box<dyn FnMut(&mut Xoshiro256PlusPlus)> {
    let reader = wide(true).0.reader();
    let mut page = Vec::new();
    Box::new(move |_| {
        for _ in 0..100_000 {
            page.clear();
            let version = reader.version();
            let root = version.tree("t").expect("it is there").root();
            for message in root.children_at(root.len() - 20..root.len()) {
                page.extend_from_slice(message.attribute("body").expect("it has a body"));
            }
            black_box(&page);
        }
    })
}

/// Bytes a node, branches, and a snapshot.
fn sizes() {
    for (addressable, bar) in [(false, 220.0), (true, 280.0)] {
        let before = ALLOCATOR.allocated();
        let (database, _) = wide(addressable);
        let bytes = (ALLOCATOR.allocated() - before) as f64 / f64::from(CHILDREN);
        let kind = if addressable { "addressable" } else { "plain" };
        let verdict = if bytes > bar { "  SHORT" } else { "" };
        println!("{:<44} {bytes:>12.0} {bar:>10.0}{verdict}", format!("B a node, {kind}"));
        drop(database);
    }
    let mut database = million();
    let (start, before) = (cpu_s(), ALLOCATOR.allocated());
    for number in 0..20_000 {
        database.branch("t", &format!("draft{number}")).expect("the name is new");
    }
    let each = (cpu_s() - start) * 1e6 / 20_000.0;
    let bytes = (ALLOCATOR.allocated() - before) as f64 / 20_000.0;
    let verdict = |short| if short { "  SHORT" } else { "" };
    println!(
        "{:<44} {each:>12.1} {:>10}{}",
        "us a branch of a million nodes",
        50,
        verdict(each > 50.0)
    );
    println!(
        "{:<44} {bytes:>12.0} {:>10}{}",
        "B a branch, unedited",
        4_000,
        verdict(bytes > 4_000.0)
    );
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The CPU time of this process \[s\].
#[allow(unsafe_code)]
fn cpu_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec that the call may write to.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
