//! The look before a run: what is wrong is told, with its place, and nothing is executed.

use pgload::{Found, OpenError, preflight};

use super::*;

fn look(spec: PlanSpec) -> Result<Found, RunError> {
    preflight(&Plan::new(spec).unwrap(), &AtomicBool::new(false))
}

#[test]
fn statements_are_parsed_and_not_executed() {
    for protocol in [Protocol::Simple, Protocol::Extended, Protocol::Prepared] {
        let url = database("create table t (k int primary key, v text)");
        let good = "\\set k random(1, 9)\nbegin;\ninsert into t values (:k, 'x');\n\
                    select v as w from t where k = :k \\gset\nselect ':w';\ndelete from t;\nend;";
        let text =
            if protocol == Protocol::Simple { good } else { &good.replace("':w'", ":w::text") };
        let found = look(spec(&url, text, protocol, closed(1), Until::Requests(1))).unwrap();
        assert!(found.version.starts_with(char::is_numeric) && found.notes.is_empty(), "{found:?}");
        assert_eq!(ask(&url, "select count(*) from t"), ["0"]);
        for (text, words) in [
            (
                "select 1;\nselect k fro t",
                "own.sql, line 2, column 1: syntax error at or near \"t\"",
            ),
            (
                "select * from nobody",
                "relation \"nobody\" does not exist (SQLSTATE 42P01), at `nobody`",
            ),
            ("select 1;\n  select x from t;", "line 2, column 3: column \"x\" does not exist"),
            (
                "delete from t where k = 1 \\gset",
                "\\gset takes a row, and this statement gives none",
            ),
        ] {
            let error = look(spec(&url, text, protocol, closed(1), Until::Requests(1)));
            let error = error.unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
    let url = database("");
    let missing = "select 1 as one \\gset\nselect :one::int, :two::int";
    let error = look(spec(&url, missing, Protocol::Prepared, closed(1), Until::Requests(1)));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("line 2, column 1: two is set nowhere, and no column"), "{error}");
}

#[test]
fn a_table_that_the_script_makes_is_not_missed() {
    let url = database("");
    let text = "create temp table if not exists mine (k int);\ninsert into mine values (1);";
    for protocol in [Protocol::Simple, Protocol::Prepared] {
        let spec = || spec(&url, text, protocol, closed(2), Until::Requests(10));
        let found = look(spec()).unwrap();
        assert_eq!(found.notes.len(), 1, "{found:?}");
        assert!(found.notes[0].contains("line 2, column 1: not checked beforehand"), "{found:?}");
        let record = run(spec()).unwrap();
        assert_eq!((completed(&record), failed(&record)), (10, vec![]), "{}", warnings(&record));
    }
}

#[test]
fn too_many_connections_are_told_before_the_load() {
    // A server of its own: others are not to find it full.
    let private = start();
    let url = private.url().as_str().to_owned();
    let error = look(spec(&url, "select 1", Protocol::Prepared, closed(60), Until::Requests(1)));
    let error = error.unwrap_err();
    let RunError::Open(OpenError::TooMany { of: 60, .. }) = error else { panic!("{error}") };
    assert!(error.to_string().contains("raise max_connections"), "{error}");
}

#[test]
fn a_wrong_password_and_a_place_where_nobody_is_are_told() {
    let url = server().url();
    let (start, rest) = url.as_str().split_once('@').unwrap();
    let (user, _) = start.rsplit_once(':').unwrap();
    let wrong = look(spec(
        &format!("{user}:wrong@{rest}"),
        "select 1",
        Protocol::Prepared,
        closed(1),
        Until::Requests(1),
    ));
    let wrong = wrong.unwrap_err().to_string();
    assert!(wrong.contains("password authentication failed"), "{wrong}");
    let none = look(spec(
        &format!("{user}@{rest}"),
        "select 1",
        Protocol::Prepared,
        closed(1),
        Until::Requests(1),
    ));
    let none = none.unwrap_err().to_string();
    assert!(none.contains("put it into PGPASSWORD"), "{none}");
    let nobody = "postgresql://me@127.0.0.1:1/x";
    let nobody = look(spec(nobody, "select 1", Protocol::Prepared, closed(1), Until::Requests(1)));
    let nobody = nobody.unwrap_err().to_string();
    assert!(nobody.contains("cannot connect to the database at 127.0.0.1:1"), "{nobody}");
    let public = "postgresql://me@203.0.113.1/x";
    let public = look(spec(public, "select 1", Protocol::Prepared, closed(1), Until::Requests(1)));
    let RunError::Open(OpenError::Place(_)) = public.unwrap_err() else { panic!("it is public") };
}

/// A lock on a table made the look wait for ever.
#[test]
fn an_interruption_ends_the_look_at_a_locked_table() {
    let url = database("create table t (k int)");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _holds = runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        let driven = tokio::spawn(connection);
        client.batch_execute("begin; lock table t").await.unwrap();
        (client, driven)
    });
    let plan =
        Plan::new(spec(&url, "select k from t", Protocol::Prepared, closed(1), Until::Requests(1)));
    let interrupt = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(500));
            interrupt.store(true, Ordering::Relaxed);
        });
        let error = preflight(&plan.unwrap(), &interrupt).unwrap_err();
        assert!(matches!(error, RunError::Interrupted), "{error}");
    });
}

#[test]
fn what_a_url_asks_for_and_is_not_done_is_refused() {
    for option in ["channel_binding=require", "target_session_attrs=read-write"] {
        let url = format!("{}?{option}", database(""));
        let error = look(spec(&url, "select 1", Protocol::Prepared, closed(1), Until::Requests(1)));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(option.split('=').next().unwrap()), "{error}");
    }
}
