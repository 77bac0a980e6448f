//! Closed runs: what the database saw is what was counted, by each protocol.

use super::*;

const PROTOCOLS: [Protocol; 3] = [Protocol::Simple, Protocol::Extended, Protocol::Prepared];

#[test]
fn a_run_of_n_transactions_makes_exactly_n_in_the_exact_mix() {
    for (protocol, threads) in [(PROTOCOLS[0], 1), (PROTOCOLS[1], 2), (PROTOCOLS[2], 3)] {
        let url = database("create table t (what text, client int)");
        let sources = [
            source("pay.sql", "begin;\ninsert into t values ('pay', :client_id);\ncommit;", 2),
            source("browse.sql", "insert into t values ('browse', :client_id)", 3),
        ];
        let scripts = Scripts::read(&sources, &[], protocol).unwrap();
        let config = url.parse().unwrap();
        let until = Until::Requests(500);
        let spec = PlanSpec {
            threads,
            ..PlanSpec::new(config, "a test".into(), scripts, closed(5), until)
        };
        let record = run(spec).unwrap();
        let rows = ask(&url, "select what, count(*) from t group by 1 order by 1");
        assert_eq!(rows, ["browse|300", "pay|200"], "{protocol:?}");
        let clients = ask(&url, "select count(distinct client), max(client) from t");
        assert_eq!(clients, ["5|4"]);
        let of = |class: usize| -> u64 {
            record.intervals.iter().map(|interval| interval.classes[class].completed).sum()
        };
        assert_eq!((of(0), of(1)), (200, 300));
        let classes: Vec<_> =
            record.header.classes.iter().map(|one| (&*one.name, one.weight)).collect();
        assert_eq!(classes, [("pay.sql", 2), ("browse.sql", 3)]);
        assert_eq!(record.header.settings["protocol"], protocol.name());
        assert_eq!(failed(&record), []);
    }
}

/// All that scripts do to a table: calculation, rows, branches, pipelines, NULL, quotes and casts.
#[test]
fn a_script_does_to_tables_what_it_says() {
    for protocol in PROTOCOLS {
        let url = database("create table t (k serial, v text)");
        let simple = protocol == Protocol::Simple;
        // In a text the value of a column stands without quotes, as pgbench puts it there.
        let top = if simple { "':r_Top'" } else { ":r_Top" };
        let (pipeline, end) = match protocol {
            Protocol::Simple => ("", ""),
            _ => (
                "\\startpipeline\n",
                "\\syncpipeline\ninsert into t (v) values ('in');\n\\endpipeline\n",
            ),
        };
        let text = format!(
            "\\set a 6 * 7\n\\set d 1.0 / 8\n\\set n null\n\
             insert into t (v) values (:a::int::text), (:d::float8::text), (:n::text), ('that: 12:30');\n\
             select count(*) as count, max(v) as \"Top\", null as none from t \\gset r_\n\
             insert into t (v) values ('r' || :r_count || {top});\n\
             select v as w from t where v = 'nobody' \\aset\n\
             \\if :r_count > 3 and :r_none is null\ninsert into t (v) values ('many');\n\
             \\else\ninsert into t (v) values ('few');\n\\endif\n\
             {pipeline}insert into t (v) values ('p');\n{end}"
        );
        let record = run(spec(&url, &text, protocol, closed(1), Until::Requests(1))).unwrap();
        assert_eq!((completed(&record), failed(&record)), (1, vec![]), "{}", warnings(&record));
        let mut wanted = vec!["42", "0.125", "null", "that: 12:30", "r4that: 12:30", "many", "p"];
        if !simple {
            wanted.push("in");
        }
        assert_eq!(ask(&url, "select v from t order by k"), wanted, "{protocol:?}");
    }
}

#[test]
fn the_books_of_a_closed_run_balance() {
    let url = database("");
    let load = Load::Closed { clients: 4, think: Dist::Exponential { mean: 0.004 } };
    let text = "\\sleep 2 ms\nselect 1;";
    let base = spec(&url, text, Protocol::Prepared, load, Until::Seconds(2.0));
    let spec = PlanSpec { interval: std::time::Duration::from_millis(200), threads: 2, ..base };
    let record = run(spec).unwrap();
    let judgement = record.judge(0.95);
    assert_eq!(judgement.little.verdict, measure::LittleVerdict::Closes, "{:?}", judgement.little);
    assert_eq!(record.intervals.len(), 10);
    assert_eq!(record.intervals[0].generator.thread_cpu_s.len(), 2);
    // Four that think 4 ms and are busy for 2 ms and what the server takes: fewer than four in flight.
    let response = judgement.all.response.unwrap().mean;
    assert!(response > 2e-3 && judgement.little.counted < 3.9, "{:?}", judgement.little);
}

#[test]
fn the_same_seed_asks_for_the_same() {
    let rows = |seed| {
        let url = database("create table t (k serial, v bigint)");
        let text = "\\set v random_zipfian(1, 1000000, 1.1)\ninsert into t (v) values (:v)";
        let base = spec(&url, text, Protocol::Prepared, closed(1), Until::Requests(20));
        run(PlanSpec { seed, ..base }).unwrap();
        ask(&url, "select v from t order by k")
    };
    let first = rows(1);
    assert_eq!(first, rows(1));
    assert_ne!(first, rows(2));
}

/// A load of minutes once went on in the server after its run.
#[test]
fn what_is_under_way_at_the_end_is_cancelled() {
    let url = database("");
    let text = "select pg_sleep(60) as the_long_one";
    let record = run(spec(&url, text, Protocol::Prepared, closed(3), Until::Seconds(0.3))).unwrap();
    assert_eq!((completed(&record), failed(&record)), (0, vec![]));
    let busy = "select count(*) from pg_stat_activity where state = 'active' \
                and query like '%the_long_one%' and pid <> pg_backend_pid()";
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while ask(&url, busy) != ["0"] {
        assert!(std::time::Instant::now() < until, "it goes on");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
