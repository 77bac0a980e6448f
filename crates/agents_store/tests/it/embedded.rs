//! The store in a folder: as the one in memory, for one process at a time, refusing what it does not know.

use std::fs;

use agents_store::{Durability, Embedded, EmbeddedSpec, Memory, Store, StoreError};

use crate::places::Scratch;
use crate::same::as_memory;

#[test]
fn memory_answers_as_memory() {
    // Holds the suite itself: it must be right about a store that is right.
    for seed in 0..20 {
        as_memory(seed, 60, Box::new(Memory::new()), |store| store);
    }
}

#[test]
fn a_folder_answers_as_memory() {
    let scratch = Scratch::new();
    let spec = EmbeddedSpec { durability: Durability::System, ..EmbeddedSpec::default() };
    let open = || Box::new(Embedded::open(scratch.path(), spec).unwrap());
    for seed in 0..40 {
        as_memory(seed, 60, open(), |store| {
            drop(store);
            open()
        });
    }
}

/// The cause of a refusal; nobody opens it.
#[track_caller]
fn refused(folder: &std::path::Path) -> String {
    match Embedded::open(folder, EmbeddedSpec::default()) {
        Err(error @ StoreError::Unusable { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_second_opening_is_refused_until_the_first_ends() {
    let scratch = Scratch::new();
    let first = Embedded::open(scratch.path(), EmbeddedSpec::default()).unwrap();
    let cause = refused(scratch.path());
    assert!(cause.contains("another process has it open"), "{cause}");
    drop(first);
    let again = Embedded::open(scratch.path(), EmbeddedSpec::default()).unwrap();
    assert!(Store::<u64>::partitions(&again).unwrap().is_empty());
}

#[test]
fn a_folder_of_something_else_is_left_alone() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path()).unwrap();
    fs::write(scratch.path().join("photo.jpg"), b"mine").unwrap();
    let cause = refused(scratch.path());
    assert!(cause.contains("has other files and no store"), "{cause}");
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
}

#[test]
fn a_later_format_is_refused_by_its_number() {
    let scratch = Scratch::new();
    drop(Embedded::open(scratch.path(), EmbeddedSpec::default()).unwrap());
    let format = scratch.path().join("format");
    fs::write(&format, "sekisho agents store, format 2\n").unwrap();
    let cause = refused(scratch.path());
    assert!(cause.contains("it is of format 2"), "{cause}");
    fs::write(&format, "").unwrap();
    assert!(refused(scratch.path()).contains("is damaged"));
}

#[test]
fn a_beginning_that_was_interrupted_is_begun_again() {
    let scratch = Scratch::new();
    drop(Embedded::open(scratch.path(), EmbeddedSpec::default()).unwrap());
    // The engine writes this file last: without it nothing was ever in the trees.
    fs::remove_file(scratch.path().join("trees/version")).unwrap();
    fs::remove_file(scratch.path().join("begun")).unwrap();
    let again = Embedded::open(scratch.path(), EmbeddedSpec::default()).unwrap();
    assert!(Store::<u64>::partitions(&again).unwrap().is_empty());
}

/// Trees that were lost were made again, empty: what was left of them was even removed.
#[test]
fn trees_that_are_lost_are_told_and_not_made_again() {
    for lost in ["trees/version", "trees"] {
        let scratch = Scratch::new();
        drop(Embedded::open(scratch.path(), EmbeddedSpec::default()).unwrap());
        let lost = scratch.path().join(lost);
        if lost.is_dir() { fs::remove_dir_all(&lost) } else { fs::remove_file(&lost) }.unwrap();
        let left = fs::read_dir(scratch.path().join("trees")).map_or(0, Iterator::count);
        let cause = refused(scratch.path());
        assert!(cause.contains("is gone, and agents with it: restore it"), "{cause}");
        let now = fs::read_dir(scratch.path().join("trees")).map_or(0, Iterator::count);
        assert_eq!(now, left, "nothing is removed");
    }
}

#[test]
fn too_little_memory_is_refused() {
    let scratch = Scratch::new();
    let spec = EmbeddedSpec { memory_bytes: 1 << 20, ..EmbeddedSpec::default() };
    let cause = Embedded::open(scratch.path(), spec).unwrap_err().to_string();
    assert!(cause.contains("at least 16777216 are needed"), "{cause}");
}
