//! What the fuzzer holds of the log, of snapshots, of patches and of names of blobs, on its seeds and by chance.

use crate::play::play;

#[path = "../../../../fuzz/fuzz_targets/jungle_bytes.rs"]
#[allow(unreachable_pub, reason = "the targets of the fuzzer are programs of their own")]
mod jungle_bytes;

#[test]
fn a_damaged_log_is_read_as_a_beginning_of_it_or_not_at_all() {
    play("a_damaged_log_is_read", "jungle_log", 3_000, jungle_bytes::log);
}

#[test]
fn a_damaged_snapshot_is_told_from_a_whole_one() {
    play("a_damaged_snapshot_is_told", "jungle_snapshot", 500, jungle_bytes::snapshot);
}

#[test]
fn a_patch_makes_what_the_witness_makes() {
    play("a_patch_makes", "jungle_patch", 3_000, jungle_bytes::patch);
}

#[test]
fn a_blob_is_found_by_the_pointer_that_is_told_of_it() {
    play("a_blob_is_found", "jungle_blobs", 3_000, jungle_bytes::names);
}
