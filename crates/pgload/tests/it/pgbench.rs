//! The real pgbench, where it is installed, beside this one: the same script leaves the same rows. Where
//! it is not, the rows are those that pgbench 15.18 left.

use std::process::Command;

use super::*;

/// Calculation without chance: hashes, permutations, casts, rounding, branches, rows, NULL.
const SCRIPT: &str = "\
\\set n :client_id + 41
\\set h hash(:n, 5432)
\\set f hash_fnv1a(:n, 7)
\\set p permute(:n, 1000, 42)
\\set q permute(:n - 41, 3, 1)
\\set d 22.0 / 7
\\set e 1e20 * 3
\\set i int(:d * 1.5)
\\set b case when :i > 4 then true else false end
\\set s :n << 3 | 5 # 2
\\set m -7 % 3 + mod(17, 5)
begin;
insert into t values (:h::bigint, :f::bigint, :p::bigint, :q::bigint, :d::text, :e::text, :i::bigint,
  :b::text, :s::bigint, :m::bigint);
select count(*) as rows, min(p) as least from t \\gset g_
\\if :g_rows = 1 and :g_least >= 0
update t set m = m + :g_rows::bigint;
\\elif true
delete from t;
\\endif
commit;
";

/// Columns of the row.
const TABLE: &str = "create table t (h bigint, f bigint, p bigint, q bigint, d text, e text, i bigint, \
    b text, s bigint, m bigint)";

#[test]
fn a_script_leaves_the_rows_that_pgbench_leaves() {
    let url = database(TABLE);
    let record =
        run(spec(&url, SCRIPT, Protocol::Prepared, closed(1), Until::Requests(1))).unwrap();
    assert_eq!((completed(&record), failed(&record)), (1, vec![]), "{}", warnings(&record));
    let ours = ask(&url, "select * from t");
    assert_eq!(ours, [ROW]);
    let program = server().programs().folder().join("pgbench");
    if program.exists() && server().programs().major() >= 15 {
        let url = database(TABLE);
        assert_eq!(theirs(&program, &url, SCRIPT, 1), "");
        assert_eq!(ask(&url, "select * from t"), ours);
    }
}

/// The row that pgbench 15.18 left.
const ROW: &str =
    "-1087163704183661713|-8984750220696046997|109|0|3.14285714285714|3e+20|5|true|335|2";

/// Shares of draws: those of pgbench and ours differ by chance alone.
#[test]
fn chance_is_distributed_as_pgbench_distributes_it() {
    const DRAWS: u32 = 4_000;
    let program = server().programs().folder().join("pgbench");
    let table = "create table t (u int, g int, e int, z int)";
    let text = "\\set u random(1, 5)\n\\set g random_gaussian(1, 5, 3)\n\
        \\set e random_exponential(1, 5, 2.5)\n\\set z random_zipfian(1, 5, 1.3)\n\
        insert into t values (:u, :g, :e, :z);";
    let shares = |url: &str| -> Vec<f64> {
        let mut all = Vec::new();
        for column in ["u", "g", "e", "z"] {
            let count = format!(
                "select count(*) filter (where {column} = v) from t, \
                                 generate_series(1, 5) v group by v order by v"
            );
            let rows = ask(url, &count);
            all.extend(rows.iter().map(|row| row.parse::<f64>().unwrap() / f64::from(DRAWS)));
        }
        all
    };
    let url = database(table);
    run(spec(&url, text, Protocol::Prepared, closed(1), Until::Requests(DRAWS.into()))).unwrap();
    let ours = shares(&url);
    let theirs = if program.exists() {
        let url = database(table);
        assert_eq!(theirs(&program, &url, text, DRAWS), "");
        shares(&url)
    } else {
        SHARES.to_vec()
    };
    // A share p of n draws has a standard deviation of at most 0.008; the difference of two of them
    // one of 0.011, and four of these are allowed for twenty shares.
    for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert!((ours - theirs).abs() < 0.045, "share {at}: {ours} and {theirs}");
    }
}

/// Shares of the formulas, where there is no pgbench: uniform, gaussian, exponential, zipfian.
const SHARES: [f64; 20] = [
    0.2, 0.2, 0.2, 0.2, 0.2, 0.0346, 0.2385, 0.4538, 0.2385, 0.0346, 0.4287, 0.2600, 0.1577,
    0.0957, 0.0580, 0.4848, 0.1969, 0.1162, 0.0800, 0.1222,
];

/// Runs pgbench on a script; its complaints.
fn theirs(program: &std::path::Path, url: &str, script: &str, transactions: u32) -> String {
    let file = std::env::temp_dir().join(format!("sekisho-pgbench-{}.sql", std::process::id()));
    std::fs::write(&file, script).unwrap();
    let output = Command::new(program)
        .args(["-n", "-M", "prepared", "-c", "1", "-t", &transactions.to_string(), "-f"])
        .arg(&file)
        .arg(url)
        .output()
        .unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    let complaints: Vec<&str> = complaints
        .lines()
        .filter(|line| line.contains("error") || line.contains("fatal"))
        .collect();
    assert!(output.status.success(), "{complaints:?}");
    complaints.join("\n")
}
