//! Large stores: a start from a snapshot, reads of the present beside a long history, the past of one node beside many
//! commits elsewhere.

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use jungle::{
    Database, MemoryDisk, NodeId, NodePath, Operation, Place, Reader, Retention, Target, Thinning,
    Timestamp, Transaction, read_snapshot, write_snapshot,
};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::{ALLOCATOR, below, cpu_s, insert, put, transaction};

/// Nodes of a folder of a large store.
const FOLDER: u32 = 1_000;
/// Folders that a commit makes.
const FOLDERS_A_COMMIT: u32 = 100;
/// Nodes of a store with a history.
const PRESENT: u32 = 100_000;
/// Time between two commits \[us\].
const APART: u64 = 1_000;
/// Rounds, in each of which every store is read in turn.
const ROUNDS: usize = 20;
/// Reads of a store in a round.
const READS: usize = 20_000;
/// Commits that change the node whose past is asked for.
const OWN: usize = 20;

fn line(name: &str, value: f64, bar: f64, unit: &str) {
    let verdict = if value > bar { "  SHORT" } else { "" };
    println!("{name:<58} {value:>12.3} {bar:>10} {unit}{verdict}");
}

/// A database that keeps nothing of the past.
fn forgetful() -> Database {
    let thinning = Thinning { newest: 1, all_for: 0, minutes_for: 0, versions: 1 };
    Database::new(Retention { commits: 1, bytes: 0 }, thinning)
}

/// A tree of folders with so many nodes, committed in parts.
fn filled(nodes: u32, addressable: bool) -> Result<Database, Box<dyn Error>> {
    let mut database = forgetful();
    let root = NodeId::pending(0);
    let create = Operation::CreateTree { root, name: "t".to_owned(), addressable };
    let seq = database.commit(&transaction(vec![create]))?.seq;
    let folders = nodes / FOLDER;
    let mut made = 0;
    while made < folders {
        let mut operations = Vec::new();
        for _ in 0..FOLDERS_A_COMMIT.min(folders - made) {
            let number = operations.len() as u32;
            let (id, path) = (NodeId::pending(number), NodePath::from([made as usize]));
            let root = NodeId::new(seq, 0);
            let top = if addressable { Target::Node(root) } else { NodePath::root().into() };
            let parent = if addressable { Target::Node(id) } else { Target::Path(path) };
            operations.push(insert(number, top, Place::Last));
            let below = (1..FOLDER).map(|node| insert(number + node, parent.clone(), Place::Last));
            operations.extend(below);
            made += 1;
        }
        database.commit(&transaction(operations))?;
    }
    Ok(database)
}

/// The start of a large store: its snapshot becomes the tree.
pub(crate) fn start(small: bool) -> Result<(), Box<dyn Error>> {
    let nodes = if small { 1_000_000 } else { 10_000_000 };
    println!(
        "\nstart from a snapshot of {nodes} nodes of 116 B, in memory; bars are of 10,000,000"
    );
    for (addressable, bar) in [(false, 220.0), (true, 280.0)] {
        let kind = if addressable { "addressable" } else { "plain" };
        let database = filled(nodes, addressable)?;
        let (seq, hash) = (database.private().seq(), database.private().hash());
        // In memory: the time of the disk is no matter of the tree.
        let mut disk = MemoryDisk::default();
        write_snapshot(&mut disk, database.private())?;
        drop(database);
        let before = ALLOCATOR.allocated();
        let (begun, cpu) = (Instant::now(), cpu_s());
        let version = read_snapshot(&disk, seq)?;
        let (wall, cpu) = (begun.elapsed().as_secs_f64(), cpu_s() - cpu);
        let bytes = (ALLOCATOR.allocated() - before) as f64 / f64::from(nodes);
        if version.hash() != hash {
            return Err("the snapshot is another version".into());
        }
        let bar_s = 10.0 * f64::from(nodes) / 1e7;
        line(&format!("{kind}: start, processor time"), cpu, bar_s, "s");
        line(&format!("{kind}: start, by the clock"), wall, bar_s, "s");
        line(&format!("{kind}: memory of a node"), bytes, bar, "B");
    }
    Ok(())
}

fn put_at(chance: &mut Xoshiro256PlusPlus, time: u64) -> Transaction {
    let index = 1 + below(chance, PRESENT as usize) as u32;
    let time = Timestamp(time);
    Transaction { time, ..transaction(vec![put(NodeId::new(1, index))]) }
}

/// A tree with one parent of many children, in an empty database.
fn present(mut database: Database) -> Result<Database, Box<dyn Error>> {
    let root = NodeId::pending(0);
    let mut all = vec![Operation::CreateTree { root, name: "t".to_owned(), addressable: true }];
    all.extend((1..=PRESENT).map(|index| insert(index, root.into(), Place::Last)));
    database.commit(&transaction(all))?;
    Ok(database)
}

/// Times of reads of the newest version, by id \[ns\].
fn read(reader: &Reader, chance: &mut Xoshiro256PlusPlus, times: &mut Vec<u64>) {
    for _ in 0..READS {
        let index = 1 + below(chance, PRESENT as usize) as u32;
        let begun = Instant::now();
        let version = reader.version();
        let node = version.tree("t").and_then(|tree| tree.node(NodeId::new(1, index)));
        black_box(node.and_then(|node| node.attribute("body")).map(<[u8]>::len));
        times.push(begun.elapsed().as_nanos() as u64);
    }
}

/// Reads of the present of a store with a long history, beside the same edits of a store that keeps none, and the same
/// present as a snapshot has it.
pub(crate) fn history(small: bool) -> Result<(), Box<dyn Error>> {
    let commits: u64 = if small { 1_000_000 } else { 10_000_000 };
    println!(
        "\nreads by id of {PRESENT} nodes beside {commits} commits of history, default bounds"
    );
    let mut with = present(Database::new(Retention::default(), Thinning::default()))?;
    let mut without = present(forgetful())?;
    for database in [&mut with, &mut without] {
        let mut chance = Xoshiro256PlusPlus::seed_from_u64(1);
        let cpu = cpu_s();
        for number in 1..=commits {
            database.commit(&put_at(&mut chance, number * APART))?;
        }
        let each = (cpu_s() - cpu) * 1e6 / commits as f64;
        println!("{:<58} {each:>12.3}            us", "a commit, processor time");
    }
    let mut disk = MemoryDisk::default();
    write_snapshot(&mut disk, with.private())?;
    let (retention, thinning) = (Retention::default(), Thinning::default());
    let fresh =
        Database::at_version(read_snapshot(&disk, with.private().seq())?, retention, thinning);
    println!("{:<58} {:>12}", "versions that are kept", with.versions().count());
    let readers = [with.reader(), without.reader(), fresh.reader()];
    let (mut times, mut chance) = ([const { Vec::new() }; 3], Xoshiro256PlusPlus::seed_from_u64(2));
    for _ in 0..ROUNDS {
        for (reader, times) in readers.iter().zip(&mut times) {
            read(reader, &mut chance, times);
        }
    }
    let p99 = times.map(|mut all| {
        all.sort_unstable();
        all[all.len() * 99 / 100] as f64
    });
    println!("{:<58} {:>12} ns", "p99 of a read with history", p99[0]);
    line("p99 over that of the same edits without history", p99[0] / p99[1], 1.1, "");
    line("p99 over that of the present as a snapshot has it", p99[0] / p99[2], 1.1, "");
    Ok(())
}

/// The past of a node that a few commits have changed, among very many elsewhere.
pub(crate) fn past(small: bool) -> Result<(), Box<dyn Error>> {
    let commits: usize = if small { 100_000 } else { 1_000_000 };
    println!("\nthe past of a node with {OWN} commits among {commits} elsewhere, all remembered");
    let retention = Retention { commits: 2_000_000, bytes: 4 << 30 };
    let mut database = present(Database::new(retention, Thinning::default()))?;
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(1);
    let own = NodeId::new(1, 1);
    for number in 1..=commits {
        let mut wish = put_at(&mut chance, number as u64 * APART);
        if number % (commits / OWN) == 1 {
            wish.operations = vec![put(own)];
        } else if let [Operation::Edit { edit: jungle::Edit::Put { node, .. }, .. }] =
            &mut wish.operations[..]
            && *node == Target::Node(own)
        {
            *node = NodeId::new(1, 2).into();
        }
        database.commit(&wish)?;
    }
    let version = database.private();
    let (mut log_s, mut blame_s): (f64, f64) = (0.0, 0.0);
    for _ in 0..100 {
        let cpu = cpu_s();
        let log = version.log("t", own).ok_or("the node is there")?;
        let entries = log.count();
        log_s = log_s.max(cpu_s() - cpu);
        if entries != OWN + 1 {
            return Err(format!("the log has {entries} commits, and {} were made", OWN + 1).into());
        }
        let cpu = cpu_s();
        black_box(version.blame("t", own));
        blame_s = blame_s.max(cpu_s() - cpu);
    }
    line("log of the node, the longest of 100, processor time", log_s * 1e3, 10.0, "ms");
    line("blame of the node, the longest of 100, processor time", blame_s * 1e3, 10.0, "ms");
    Ok(())
}
