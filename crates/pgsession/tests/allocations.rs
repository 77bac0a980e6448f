//! Allocations of a relay while messages pass: none, once its queues have their size. A program of
//! its own, because it counts what the whole program allocates.

#![allow(unsafe_code, reason = "an allocator that counts has no safe interface")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use pgsession::relay::{ClientStatements, Copied, News, Relay};
use pgsession::statements::{Bounds, Client, StatementCache};
use pgwire::frame::{Backend, Frames, Frontend, Limits};
use pgwire::message::{Status, write};

struct Counting;

thread_local! {
    /// Number of this thread's allocations: others of the test harness do not count.
    static ALLOCATED: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is passed on as it is to the system's allocator, which keeps the promises; the
// counter has no destructor and allocates nothing itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller has promised for this layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: `at` came from `alloc` above, which is the system's.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATED.with(|count| count.set(count.get() + 1));
        // SAFETY: as for `dealloc`, and as the caller has promised for the size.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Number of allocations of `rounds` exchanges of these bytes, after some that nobody counts.
fn allocations(prepare: &[u8], asked: &[u8], said: &[u8], rounds: u32) -> u64 {
    let mut relay = Relay::new(Limits::SESSION);
    let mut cache = StatementCache::new([7; 8], Bounds::default());
    let mut client = Client::new(0);
    let mut frames = Frames::<Frontend>::new(Limits::SESSION);
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    let (mut readies, mut before) = (0_u32, 0);
    // With each Parse goes a Describe of the gate's own: its reply is for the gate alone.
    let parsed = [
        message(Backend::ParseComplete, b""),
        message(Backend::ParameterDescription, b"\0\x01\0\0\0\x19"),
        message(Backend::NoData, b""),
        message(Backend::ReadyForQuery, b"I"),
    ]
    .concat();
    for round in 0..rounds + 10 {
        if round == 10 {
            before = ALLOCATED.get();
        }
        for (asked, said) in [(prepare, &parsed[..]), (asked, said)] {
            if asked.is_empty() || (asked == prepare && round > 0) {
                continue;
            }
            to_server.clear();
            to_client.clear();
            let mut client_statements = ClientStatements { client: &mut client, cache: &mut cache };
            let mut out = Copied::new(asked, &mut to_server);
            let taken = relay.from_client(
                &mut client_statements,
                &mut frames,
                asked,
                &mut out,
                &mut to_client,
            );
            assert_eq!(taken.map(|taken| taken.bytes), Ok(asked.len()));
            let mut out = Copied::new(said, &mut to_client);
            let client_statements = Some(&mut client);
            let news = |one: News<'_>| readies += u32::from(one == News::Ready(Status::Idle));
            let taken = relay.from_server(
                client_statements,
                &mut cache,
                said,
                &mut out,
                &mut to_server,
                news,
            );
            assert_eq!(taken.map(|taken| taken.bytes), Ok(said.len()));
            assert_eq!(relay.kept(), None);
        }
    }
    let counted = ALLOCATED.get() - before;
    assert!(readies >= rounds, "{readies}");
    counted
}

fn message(tag: impl Into<u8>, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write::message(&mut out, tag, |out| out.extend_from_slice(body));
    out
}

#[test]
fn messages_pass_without_an_allocation() {
    let row = message(Backend::DataRow, b"\0\x01\0\0\0\x01x");
    let done = message(Backend::CommandComplete, b"SELECT 1\0");
    let ready = message(Backend::ReadyForQuery, b"I");
    let sync = message(Frontend::Sync, b"");
    let query = message(Frontend::Query, b"select x from t where y = 'z' -- and so on\0");
    let columns = message(Backend::RowDescription, b"\0\0");
    let rows = row.repeat(100);
    let said = [&columns[..], &rows, &done, &ready].concat();
    assert_eq!(allocations(b"", &query, &said, 1000), 0, "simple");

    let prepare = [message(Frontend::Parse, b"a\0select $1::text\0\0\0"), sync.clone()].concat();
    let run = [
        message(Frontend::Bind, b"\0a\0\0\0\0\x01\0\0\0\x01x\0\0"),
        message(Frontend::Execute, b"\0\0\0\0\0"),
        sync.clone(),
    ]
    .concat();
    let bound = message(Backend::BindComplete, b"");
    let said = [&bound[..], &row, &done, &ready].concat();
    assert_eq!(allocations(&prepare, &run, &said, 1000), 0, "prepared");
    let pipelined = [run.repeat(10), said.repeat(10)];
    assert_eq!(allocations(&prepare, &pipelined[0], &pipelined[1], 100), 0, "pipelined");

    // As drivers do that prepare each time without a name.
    let run = [
        message(Frontend::Parse, b"\0select $1::text\0\0\0"),
        message(Frontend::Bind, b"\0\0\0\0\0\x01\0\0\0\x01x\0\0"),
        message(Frontend::Describe, b"P\0"),
        message(Frontend::Execute, b"\0\0\0\0\0"),
        sync,
    ]
    .concat();
    let said = [&bound[..], &columns, &row, &done, &ready].concat();
    assert_eq!(allocations(&prepare, &run, &said, 1000), 0, "unnamed");
}

#[test]
fn the_counter_counts() {
    let before = ALLOCATED.get();
    drop(std::hint::black_box(vec![1_u8; 100]));
    assert_eq!(ALLOCATED.get() - before, 1);
}
