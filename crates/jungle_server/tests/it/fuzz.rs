//! What the fuzzer holds of queries and of requests, on its seeds and by chance.

use crate::play::play;

#[path = "../../../../fuzz/fuzz_targets/jungle_asks.rs"]
#[allow(unreachable_pub, reason = "the targets of the fuzzer are programs of their own")]
mod jungle_asks;

#[test]
fn a_query_finds_values_where_it_says_that_they_are() {
    play("a_query_finds_values", "jungle_jsonpath", 20_000, jungle_asks::jsonpath);
}

#[test]
fn a_request_of_any_bytes_is_answered() {
    play("a_request_of_any_bytes", "jungle_request", 1_000, jungle_asks::request);
}
