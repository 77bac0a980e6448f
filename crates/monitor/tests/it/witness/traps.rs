//! What poolers got wrong in the protocol, through the running monitor with others beside: the client
//! must hear what the server itself says. `trap_N` is the trap of this number.

use pgwire::frame::Frontend;

use super::writing::{Case, Round, Session, Wait};
use super::{Mode, Place, Tally, alone, directly, through};
use pgtest::script::{
    again, bare, bind, close, describe, execute, named, parse, query, rows, runs, sync,
};

/// These rounds are heard through few servers, and through one for the session, as directly.
fn alike(rounds: &[Vec<Vec<u8>>]) {
    alike_on(3, rounds);
}

fn alike_on(slots: u32, rounds: &[Vec<Vec<u8>>]) {
    let _alone = alone();
    let rounds = rounds.iter().map(|messages| Round::of(messages.clone(), Wait::Mark));
    let session = Session { rounds: rounds.collect(), ..Session::default() };
    let case = Case { seed: 0, clients: vec![vec![session]] };
    for mode in [Mode::Transaction, Mode::Session] {
        let place = Place::of(mode, slots);
        place.make_tables();
        let expected = directly(&place, &case).unwrap();
        let (gate, tally) = (place.gate(), Tally::default());
        through(&place, &gate, &case, &expected, &tally).unwrap();
        assert_eq!(tally.unlike.into_inner(), 0, "all of it was compared");
        gate.end();
    }
}

#[test]
fn sync_within_copy_has_no_answer_of_its_own() {
    let copy = vec![runs("", "copy w0 from stdin"), sync(), rows("one\n"), sync(), rows("two\n")];
    let end = vec![bare(Frontend::CopyDone), sync()];
    alike(&[[copy, end].concat(), vec![query("select n from w0 order by n")]]);
}

#[test]
fn a_name_whose_parse_has_failed_is_free() {
    let failed = vec![parse("a", "selec", &[]), sync()];
    alike(&[failed.clone(), failed, vec![parse("a", "select 'well'", &[]), again("a")]]);
}

#[test]
fn an_unknown_statement_is_an_error_and_the_session_stays() {
    alike(&[
        vec![bind("", "nobody", &[]), execute(""), runs("", "select 'skipped'"), sync()],
        vec![describe("nobody"), sync(), query("select 'still here'")],
    ]);
}

#[test]
fn what_is_deallocated_in_a_batch_is_gone_under_its_own_name() {
    alike(&[
        vec![parse("a", "select 1", &[]), parse("b", "select 2", &[]), sync()],
        vec![runs("", "deallocate a"), again("a"), again("b")],
        vec![runs("", "discard all"), sync(), again("b"), query("deallocate b")],
    ]);
}

#[test]
fn close_of_what_is_not_there_is_answered_in_its_turn() {
    let portal = named(Frontend::Close, "P", "nobody", &[]);
    alike(&[vec![close("nobody"), runs("", "select 1"), portal, close("nobody"), sync()]]);
}

#[test]
fn a_query_in_a_series_ends_what_is_unnamed_and_a_commit_the_portals() {
    alike(&[
        vec![parse("", "select 1", &[]), query("select 2"), again("")],
        vec![query("begin"), parse("", "select 3", &[]), bind("p", "", &[]), sync()],
        vec![execute("p"), sync(), query("commit"), execute("p"), sync()],
    ]);
}

#[test]
fn an_error_leaves_out_the_rest_of_its_series_alone() {
    let well = || runs("", "select 'well'");
    let wrong = runs("", "select 1/0");
    let skipped = vec![parse("s", "select 5", &[]), query("select 6"), sync()];
    alike(&[[vec![well(), wrong], skipped].concat(), vec![again("s"), well(), sync()]]);
}

#[test]
fn a_server_that_still_owes_is_not_given_away() {
    let segment = vec![runs("", "select 1"), sync(), runs("", "select 2"), sync()];
    alike(&[[segment, vec![query("select 3"), query("select 4"), sync(), sync()]].concat()]);
}

#[test]
fn what_comes_unasked_comes_in_its_place() {
    let notice = "do $$ begin raise notice 'psst'; end $$";
    alike(&[vec![query(notice), runs("", notice), sync(), query("set timezone = 'Asia/Tokyo'")]]);
}

#[test]
fn a_function_call_is_answered() {
    let mut call = b"F\0\0\0\x20\0\0\0\xb1\0\x01\0\x01\0\x02".to_vec();
    call.extend_from_slice(b"\0\0\0\x04\0\0\0\x02\0\0\0\x04\0\0\0\x03\0\x01");
    alike(&[vec![call.clone()], vec![query("begin; select 1/0"), call, query("rollback")]]);
}

#[test]
fn a_plan_that_no_longer_fits_is_prepared_anew() {
    // Whoever parses it again must get what the server would make of it now. On one server, for
    // another one may never have planned it before the change, and has nothing to complain of.
    let make = "drop table if exists planned; create table planned as select 1 as n";
    // Columns of a union are nobody's, so that nothing tells of a table that is another one each time.
    let all = "select * from planned union all select * from planned";
    let alter = query("alter table planned add column more text default 'more'");
    alike_on(
        1,
        &[
            vec![query(make), parse("a", all, &[]), again("a"), sync()],
            vec![alter, again("a"), again("a")],
            vec![close("a"), parse("a", all, &[]), again("a"), describe("a"), sync()],
            vec![parse("b", all, &[]), again("b"), query("drop table planned")],
        ],
    );
}
