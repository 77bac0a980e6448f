//! Counters of a real server, and relations that move between real tablespaces.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use tpcc::place::{
    Accesses, Kind, LOG, Observed, Pattern, PlaceError, Step, assign, observe, perform, steps,
    undoing,
};
use tpcc::{Execution, Isolation, Pace, Plan, run};

use super::running::Seen;
use super::{Database, server};

/// Two folders of the server's user.
struct Folders([PathBuf; 2]);

impl Folders {
    fn new() -> Folders {
        let folder = |number: u32| {
            let name = format!("/var/tmp/sekisho-placing-{}-{number}", std::process::id());
            fs::create_dir(&name).unwrap();
            if let Some((user, group)) = server().user() {
                chown(&name, Some(user), Some(group)).unwrap();
            }
            PathBuf::from(name)
        };
        Folders([folder(1), folder(2)])
    }

    fn are_empty(&self) -> bool {
        self.0.iter().all(|folder| fs::read_dir(folder).unwrap().next().is_none())
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        for folder in &self.0 {
            fs::remove_dir_all(folder).ok();
        }
    }
}

fn look(database: &Database) -> Observed {
    observe(&database.0, &AtomicBool::new(false)).unwrap()
}

fn act(database: &Database, steps: &[Step]) -> Result<(), PlaceError> {
    perform(&database.0, steps, &AtomicBool::new(false), &mut |_| {})
}

/// One test, since tablespaces belong to the server and not to a database.
#[test]
fn what_a_run_accesses_is_counted_and_moved_and_put_back() {
    let database = Database::loaded("placed_tables");
    a_stranger_is_refused(&database);
    let before = look(&database);
    assert_eq!(before.unwritten, None, "we are a superuser");
    let plan = Plan {
        pace: Pace::Stress,
        warehouses: 2,
        connections: 2,
        ramp: std::time::Duration::ZERO,
        measure: std::time::Duration::from_secs(2),
        execution: Execution::Functions,
        isolation: Isolation::RepeatableRead,
        seed: 5,
    };
    let record = run(&database.0, &plan, &AtomicBool::new(false), &mut Seen::default()).unwrap();
    let after = look(&database);
    let seconds = record.client.elapsed_s;
    let accesses = Accesses::between(&before.snapshot, &after.snapshot, seconds).unwrap();
    // Nine tables, eight keys, two more indexes, and the log.
    assert_eq!(accesses.all.len(), 20, "{accesses:?}");
    let of = |name: &str| accesses.all.iter().find(|access| access.name == name).unwrap();
    assert_eq!(of(LOG).pattern(), Pattern::Sequential);
    assert_eq!(of("history").pattern(), Pattern::Sequential, "{:?}", of("history"));
    assert_eq!(of("stock").pattern(), Pattern::Random, "{:?}", of("stock"));
    assert!(of(LOG).written > 0.0 && of("stock").written > of("warehouse").written);
    assert_eq!(of("item").written, 0.0, "nobody changes it");
    assert!(accesses.written > 0.0, "a checkpoint wrote what was changed");

    let placement = assign(&accesses.rated(), 2).unwrap();
    let folders = Folders::new();
    let places: Vec<&Path> = folders.0.iter().map(PathBuf::as_path).collect();
    let mut to_do = steps(&accesses, &placement, &places);
    directories_are_refused(&database);

    // A step that fails leaves those before it, and says so.
    to_do.push(Step::Move {
        relation: "no_such_table".into(),
        kind: Kind::Table,
        tablespace: "sekisho_place_1".into(),
    });
    let hashes = database.hashes();
    let failed = act(&database, &to_do).unwrap_err().to_string();
    let count = to_do.len();
    assert!(failed.contains(&format!("{} of {count} steps are done", count - 1)), "{failed}");
    let placed = look(&database).snapshot;
    for relation in &placed.relations {
        let at = accesses.all.iter().position(|access| access.name == relation.name).unwrap();
        let expected = format!("sekisho_place_{}", placement.of[at] + 1);
        assert_eq!(relation.tablespace, expected, "{}", relation.name);
    }
    let again = act(&database, &steps(&accesses, &placement, &places)).unwrap_err();
    assert!(matches!(again, PlaceError::Placed { .. }), "{again}");

    let back = undoing(&database.0, &AtomicBool::new(false)).unwrap();
    act(&database, &back).unwrap();
    assert!(look(&database).snapshot.relations.iter().all(|one| one.tablespace.is_empty()));
    assert!(folders.are_empty() && database.hashes() == hashes);
    assert_eq!(undoing(&database.0, &AtomicBool::new(false)).unwrap(), []);

    let stopped = undoing(&database.0, &AtomicBool::new(true));
    assert!(matches!(stopped, Err(PlaceError::Interrupted { done: 0 }) | Ok(_)), "{stopped:?}");
    let empty = Database::new("placed_nothing");
    let refused = observe(&empty.0, &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(refused, PlaceError::NotLoaded), "{refused}");
}

/// Steps that a superuser could take, in words that tell so.
fn a_stranger_is_refused(database: &Database) {
    database.ask(
        "create role stranger login password 'stranger'; grant select on tpcc_load to stranger",
    );
    let mut config = database.0.clone();
    config.user("stranger").password("stranger");
    let observed = observe(&config, &AtomicBool::new(false)).unwrap();
    assert!(observed.unwritten.is_some(), "a stranger makes no checkpoint");
    let step = Step::Make { tablespace: "sekisho_place_9".into(), folder: "/var/tmp".into() };
    let refused = perform(&config, &[step], &AtomicBool::new(false), &mut |_| {}).unwrap_err();
    assert!(refused.to_string().contains("only a superuser"), "{refused}");
}

/// Directories that the server cannot have, in words that tell what to do.
fn directories_are_refused(database: &Database) {
    let missing =
        Step::Make { tablespace: "sekisho_place_1".into(), folder: "/nowhere/at/all".into() };
    let refused = act(database, &[missing]).unwrap_err().to_string();
    assert!(refused.contains("install -d -o postgres"), "{refused}");
    let not_theirs = Step::Make { tablespace: "sekisho_place_1".into(), folder: "/usr".into() };
    let refused = act(database, &[not_theirs]).unwrap_err().to_string();
    assert!(refused.contains("chown"), "{refused}");
}
