//! `sekisho demo jungle`: the same board on Jungle and its rivals, each pressed by one client of the papers, by turns.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use board_bench::{Mix, Pressed, Site, SiteSpec, Size, machine_load, orders, press, round_seed};
use clap::Args as ClapArgs;
use cli::json::{Answer, Interrupted};
use cli::text::{Table as TextTable, paragraph, quantile, sentence};
use cli::{Failure, Session, Verdict, progress, say};
use databases::PrivateArgs;
use measure::Histogram;
use report::{Cell, Column, Report, Section, Table};
use schemars::JsonSchema;
use serde::Serialize;

use crate::stores::{ChoiceName, DurabilityName, StoreName};

/// The stores that are always there, the paper's own first.
const STORES: [StoreName; 3] = [StoreName::Jungle, StoreName::Sqlite, StoreName::Postgres];
/// Rounds, in each of which every store has its turn: what drifts, drifts for all. So many that chance alone calls one
/// of two stores that are alike the faster one once in 252 comparisons.
const ROUNDS: usize = 5;
/// The time after which a run is cut off, so that all of them end within 120 s on a slow machine.
const LONGEST: Duration = Duration::from_millis(1_500);

#[expect(missing_docs, reason = "a comment would become the text of the verb's help")]
#[derive(ClapArgs)]
#[command(after_help = "\
Each run is one client of the paper, `weighttp -n 20000 -c 20 -t 2 -k`, by
Sekisho's own load engine, and is cut off after 1.5 s. Each board is a process of
its own, with 50 threads of a page. Claims: Jungle answers more requests a second
than each rival, in every mix, in all rounds. Whatever was acknowledged must be
stored, once and in order. Boards and load engine share the processors of this
machine.

Examples:
  sekisho demo jungle
      ends with 0 or 3 or 4: what the claims come to on this machine
  sekisho demo jungle --choice zipf
      ends with 0 or 3 or 4: what the claims come to on this machine
  sekisho demo jungle --store etcd
      ends with 0 or 3 or 4: what the claims come to on this machine")]
pub struct Args {
    /// Requests of a run
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    requests: u64,
    /// Connections of a run
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=900))]
    connections: u32,
    /// One more rival beside SQLite and PostgreSQL: the paper's `cassandra`, or `etcd`; may be said twice
    #[arg(long = "store", value_name = "STORE", value_parser = more)]
    more: Vec<MoreName>,
    /// The moment at which a write is acknowledged, the same class for all stores
    #[arg(long, value_enum, default_value = "strict")]
    durability: DurabilityName,
    /// The choice of the thread that a request is about
    #[arg(long, value_enum, default_value = "uniform")]
    choice: ChoiceName,
    /// The seed of all chance
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    server: PrivateArgs,
    /// File of the report
    #[arg(long, value_name = "FILE", default_value = "sekisho-jungle.html")]
    report: PathBuf,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// A rival that is compared only if it is named.
#[derive(Clone, Copy, Debug)]
pub struct MoreName(StoreName);

impl MoreName {
    /// Its word, if this build has a client of it.
    ///
    /// # Errors
    /// It has none.
    pub fn word(self) -> Result<&'static str, Failure> {
        self.0.check(DurabilityName::Strict).map(|()| self.0.word())
    }
}

/// A rival that is compared only if it is named; the words of an argument.
///
/// # Errors
/// Another word.
pub fn more(word: &str) -> Result<MoreName, String> {
    match word {
        "cassandra" => Ok(MoreName(StoreName::Cassandra)),
        "etcd" => Ok(MoreName(StoreName::Etcd)),
        _ => Err(
            "one more rival is `cassandra` or `etcd`; jungle, sqlite and postgres are always there"
                .into(),
        ),
    }
}

impl Args {
    /// The stores, the paper's own first, each once.
    fn stores(&self) -> Vec<StoreName> {
        let mut all = STORES.to_vec();
        for name in &self.more {
            if !all.contains(&name.0) {
                all.push(name.0);
            }
        }
        all
    }
}

/// A store in a mix, over all rounds.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Row {
    /// Name of the store.
    store: &'static str,
    /// Mix of reads and writes.
    mix: &'static str,
    /// Requests a second, of each round \[1/s\].
    rates: Vec<f64>,
    /// Time of all requests, of each round \[s\].
    elapsed_s: Vec<f64>,
    /// Rounds that were cut off before all requests were made.
    cut: usize,
    /// Remarks of the load engine, each once.
    warnings: Vec<String>,
    /// Requests answered in full with 2xx or 3xx.
    completed: u64,
    /// Number that failed.
    failed: u64,
    /// Median \[s\].
    p50_s: f64,
    /// 99th percentile \[s\].
    p99_s: f64,
    /// Processor time of board and store a request \[s\].
    server_cpu_s: f64,
    /// Processor time of the load engine a request \[s\].
    generator_cpu_s: f64,
    /// Resident memory of the processes that hold it, the board's and the store's own, after the last round; a page
    /// that several of them share counts once \[B\]. None if the kernel does not tell.
    memory_bytes: Option<u64>,
}

impl Row {
    fn of(store: &'static str, mix: Mix, rounds: &[Pressed]) -> Self {
        let mut response = Histogram::default();
        rounds.iter().for_each(|round| response.merge(&round.response()));
        let clients = || rounds.iter().flat_map(|round| &round.clients);
        let mean =
            |of: fn(&Pressed) -> f64| rounds.iter().map(of).sum::<f64>() / rounds.len() as f64;
        Self {
            store,
            mix: mix.word(),
            rates: rounds.iter().map(Pressed::rate).collect(),
            elapsed_s: rounds.iter().map(|round| round.elapsed_s).collect(),
            cut: rounds.iter().filter(|round| round.cut() > 0).count(),
            warnings: {
                let all = clients().flat_map(|client| client.warnings.iter().cloned());
                all.collect::<BTreeSet<_>>().into_iter().collect()
            },
            completed: rounds.iter().map(Pressed::completed).sum(),
            failed: rounds.iter().map(Pressed::failed).sum(),
            p50_s: response.quantile(0.5).as_secs_f64(),
            p99_s: response.quantile(0.99).as_secs_f64(),
            server_cpu_s: mean(|round| round.server_cpu_s),
            generator_cpu_s: mean(|round| round.generator_cpu_s),
            memory_bytes: rounds
                .last()
                .and_then(|round| round.memory)
                .map(|memory| memory.resident),
        }
    }

    fn lowest(&self) -> f64 {
        self.rates.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn highest(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }
}

/// Contents of a store after all runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Kept {
    /// Name of the store.
    store: &'static str,
    /// The store's own word for the durability class.
    setting: String,
    /// Messages that the load engine saw acknowledged.
    acknowledged: u64,
    /// Messages that are stored.
    stored: u64,
    /// Acknowledged writes that are missing, twice or out of order; the first 20.
    faults: Vec<String>,
}

/// Jungle beside a rival in a mix.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Claim {
    /// Mix of reads and writes that it is about.
    mix: &'static str,
    /// Store that Jungle is compared with.
    rival: &'static str,
    /// Jungle's slowest round over the rival's fastest.
    at_least: f64,
    /// Jungle's fastest round over the rival's slowest.
    at_most: f64,
    /// Finding: faster, slower, or not told by these rounds.
    finding: Finding,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Finding {
    /// Every round of Jungle is faster than every round of the rival.
    Faster,
    /// Every round of Jungle is slower.
    Slower,
    /// The rounds overlap.
    CannotTell,
}

impl Finding {
    fn word(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::CannotTell => "cannot tell",
        }
    }
}

fn claim(jungle: &Row, rival: &Row) -> Claim {
    let at_least = jungle.lowest() / rival.highest();
    let at_most = jungle.highest() / rival.lowest();
    let finding = match () {
        () if at_least > 1.0 => Finding::Faster,
        () if at_most < 1.0 => Finding::Slower,
        () => Finding::CannotTell,
    };
    Claim { mix: jungle.mix, rival: rival.store, at_least, at_most, finding }
}

/// The board on Jungle and its rivals.
#[derive(Serialize, JsonSchema)]
pub struct Compared<'a> {
    /// Durability that all stores were held to.
    durability: &'static str,
    /// The choice of the thread that a request is about: `uniform` or `zipf`.
    choice: &'static str,
    /// Seed of all that was drawn.
    seed: u64,
    /// A row for each store and mix.
    rows: Vec<Row>,
    /// The claims, each with its finding.
    claims: Vec<Claim>,
    /// Contents of each store after all runs.
    kept: Vec<Kept>,
    /// Load of the machine before the runs, mean number of runnable tasks over a minute; none if it is not told.
    load_before: Option<f64>,
    /// File of the report.
    report: &'a Path,
}

impl std::fmt::Debug for Compared<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Compared({} rows)", self.rows.len())
    }
}

impl Answer for Compared<'_> {
    const FORMAT: &'static str = "sekisho/demo-jungle/1";
}

impl Compared<'_> {
    fn verdict(&self) -> Verdict {
        let has = |finding| self.claims.iter().any(|claim| claim.finding == finding);
        if self.kept.iter().any(|kept| !kept.faults.is_empty()) {
            return Verdict::Fails;
        }
        if self.rows.iter().any(|row| row.failed > 0 || row.completed == 0) {
            return Verdict::Invalid;
        }
        match () {
            () if has(Finding::Slower) => Verdict::Fails,
            () if has(Finding::CannotTell) => Verdict::Inconclusive,
            () => Verdict::Holds,
        }
    }

    fn line(&self) -> String {
        if let Some(kept) = self.kept.iter().find(|kept| !kept.faults.is_empty()) {
            return format!("{} does not keep what it has acknowledged", kept.store);
        }
        let failed: u64 = self.rows.iter().map(|row| row.failed).sum();
        if failed > 0 {
            return format!("{failed} requests failed, so the rates cannot be compared");
        }
        if let Some(row) = self.rows.iter().find(|row| row.completed == 0) {
            let Row { store, mix, .. } = row;
            return format!("{store} answered nothing in {mix}, so the rates cannot be compared");
        }
        let faster = self.claims.iter().filter(|claim| claim.finding == Finding::Faster).count();
        format!(
            "Jungle is faster in {faster} of {} comparisons with its rivals; everything acknowledged is stored, \
             once and in order",
            self.claims.len()
        )
    }
}

/// A board under test, and what was found of it.
struct Tested {
    site: Site,
    rounds: [Vec<Pressed>; Mix::ALL.len()],
}

impl Tested {
    fn start(name: StoreName, args: &Args, session: &Session) -> Result<Self, Failure> {
        let spec = SiteSpec {
            program: std::env::current_exe().map_err(Failure::machine)?,
            store: name.word(),
            durability: args.durability.word(),
            postgres: args.server.chosen().map(str::to_owned),
            seed: args.seed,
        };
        let site = Site::start(spec, &session.interrupt)?;
        Ok(Self { site, rounds: [const { Vec::new() }; Mix::ALL.len()] })
    }

    fn stop(self) -> Result<Kept, Failure> {
        let (store, setting) = (self.site.store(), self.site.started().setting.clone());
        let board_bench::Kept { acknowledged, stored, faults } = self.site.stop()?;
        Ok(Kept { store, setting, acknowledged, stored, faults })
    }
}

/// Compares the board on all stores.
///
/// # Errors
/// No store, no folder, or a report that cannot be written.
pub fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let stores = args.stores();
    stores.iter().try_for_each(|name| name.check(args.durability))?;
    session.catch_interrupts()?;
    let load_before = machine_load();
    let runs = ROUNDS * stores.len() * Mix::ALL.len();
    let bar = progress(runs as u64, "starting");
    let mut sites = Vec::new();
    for &name in &stores {
        match Tested::start(name, args, session) {
            Ok(site) => sites.push(site),
            Err(Failure::Interrupted(_)) => {
                bar.finish_and_clear();
                return interrupted(args, sites, out);
            }
            Err(failure) => return Err(failure),
        }
    }
    for round in 0..ROUNDS {
        for (place, mix) in Mix::ALL.into_iter().enumerate() {
            for Tested { site, rounds } in &mut sites {
                bar.set_message(format!("round {}: {} on {}", round + 1, mix.word(), site.store()));
                let size = Size {
                    clients: 1,
                    requests: args.requests,
                    connections: args.connections,
                    warmup: Duration::ZERO,
                    longest: LONGEST,
                    seed: round_seed(args.seed, round),
                };
                let choice = args.choice.threads();
                rounds[place].push(press(site, mix, choice, size, &session.interrupt)?);
                bar.inc(1);
                if session.interrupted() {
                    bar.finish_and_clear();
                    return interrupted(args, sites, out);
                }
            }
        }
    }
    bar.finish_and_clear();
    let mut rows = Vec::new();
    for (place, mix) in Mix::ALL.into_iter().enumerate() {
        rows.extend(sites.iter().map(|one| Row::of(one.site.store(), mix, &one.rounds[place])));
    }
    let claims = rows.chunks(stores.len()).flat_map(|mix| {
        let (jungle, rivals) = mix.split_first().expect("there are stores");
        rivals.iter().map(|rival| claim(jungle, rival)).collect::<Vec<_>>()
    });
    let claims = claims.collect();
    let kept = sites.into_iter().map(Tested::stop).collect::<Result<_, _>>()?;
    let (durability, choice) = (args.durability.word(), args.choice.threads().word());
    let (seed, report) = (args.seed, &*args.report);
    let found = Compared { durability, choice, seed, rows, claims, kept, load_before, report };
    let verdict = found.verdict();
    page(args, &found, verdict)?.write(report).map_err(Failure::machine)?;
    let text = if args.json {
        cli::json::answer(verdict, verdict.word(), &found)
    } else {
        text(args, &found, verdict)
    };
    say(out, &text)?;
    Ok(verdict)
}

fn interrupted(args: &Args, sites: Vec<Tested>, out: &mut dyn Write) -> Result<Verdict, Failure> {
    for site in sites {
        site.stop()?;
    }
    let left = "nothing: what was started is stopped, and its data is removed";
    let text = match args.json {
        true => {
            let left = Some(left.to_owned());
            Interrupted { left, seed: Some(args.seed), ..Interrupted::default() }.line()
        }
        false => sentence(&format!("interrupted; it leaves {left}")),
    };
    say(out, &text)?;
    Ok(Verdict::Interrupted)
}

const HEAD: [&str; 9] =
    ["store, mix", "1/s", "to 1/s", "all, s", "p50", "p99", "board, us", "load, us", "MB"];

fn cells(row: &Row) -> Vec<String> {
    let all = row.elapsed_s.iter().sum::<f64>() / row.elapsed_s.len() as f64;
    let cut = if row.cut > 0 { "cut " } else { "" };
    vec![
        format!("{} {}", row.store, row.mix),
        format!("{:.0}", row.lowest()),
        format!("{:.0}", row.highest()),
        format!("{cut}{all:.2}"),
        quantile(row.p50_s),
        quantile(row.p99_s),
        format!("{:.1}", row.server_cpu_s * 1e6),
        format!("{:.1}", row.generator_cpu_s * 1e6),
        row.memory_bytes.map_or("-".into(), |bytes| format!("{:.0}", bytes as f64 / 1e6)),
    ]
}

fn notes(args: &Args, found: &Compared<'_>) -> Vec<String> {
    let settings = found.kept.iter().map(|kept| format!("{} ({})", kept.store, kept.setting));
    let mut notes = vec![
        format!(
            "{} requests a run on {} keep-alive connections, {ROUNDS} rounds by turns, {} choice of threads, \
             durability class {}: {}.",
            args.requests,
            args.connections,
            found.choice,
            found.durability,
            settings.collect::<Vec<_>>().join(", ")
        ),
        format!(
            "\"faster\" and \"slower\" need all rounds; of stores that are alike chance alone says \"faster\" once in \
             {} comparisons.",
            orders(ROUNDS)
        ),
        "\"1/s\" is the slowest round and \"to 1/s\" the fastest; \"all\" the time of all requests; \"board\" the \
         processor time of board and store a request, \"load\" that of the load engine, which has the same \
         processors; \"MB\" the resident memory of the processes that hold the store, after its last round in that \
         mix (each round adds messages). Jungle and SQLite are in the board's process; the processes of the others, \
         behind a socket, count with their board's."
            .to_owned(),
    ];
    if found.rows.iter().any(|row| row.cut > 0) {
        notes.push(format!(
            "Runs marked \"cut\" were cut off after {} s; their rates are of what was answered by then.",
            LONGEST.as_secs_f64()
        ));
    }
    for row in &found.rows {
        let of = |warning: &String| format!("{} {}: {warning}", row.store, row.mix);
        notes.extend(row.warnings.iter().map(of));
    }
    if let Some(load) = found.load_before {
        notes.push(format!("Runnable tasks of this machine before the runs: {load}."));
    }
    notes
}

fn text(args: &Args, found: &Compared<'_>, verdict: Verdict) -> String {
    let mut text = sentence(&format!("{}: {}", verdict.word(), found.line())) + "\n";
    let mut table = TextTable::new(&HEAD);
    found.rows.iter().for_each(|row| table.row(cells(row)));
    text += &format!("{table}\n");
    let mut claims = TextTable::new(&["Jungle beside", "times", "to times", "finding"]);
    for claim in &found.claims {
        claims.row(vec![
            format!("{} in {}", claim.rival, claim.mix),
            format!("{:.2}", claim.at_least),
            format!("{:.2}", claim.at_most),
            claim.finding.word().to_owned(),
        ]);
    }
    text += &format!("{claims}\n");
    for kept in &found.kept {
        text += &paragraph(&format!(
            "{}: {} messages acknowledged, {} stored",
            kept.store, kept.acknowledged, kept.stored
        ));
        kept.faults.iter().for_each(|fault| text += &paragraph(fault));
    }
    text.push('\n');
    notes(args, found).iter().for_each(|note| text += &paragraph(note));
    let next = "sekisho board serve --store jungle";
    text + &format!("\n  report: {}\n", args.report.display()) + &cli::text::next(next)
}

fn page(args: &Args, found: &Compared<'_>, verdict: Verdict) -> Result<Report, Failure> {
    let plain = |text: &String| Cell::from(text.as_str());
    let mut rates = Table::new("Rates, times and costs", HEAD.map(Column::plain));
    for row in &found.rows {
        let cells = cells(row);
        rates = rates.row(cells.iter().map(plain)).map_err(Failure::defect)?;
    }
    let heads = ["Jungle beside", "times", "to times", "finding"];
    let mut claims = Table::new("Claims", heads.map(Column::plain));
    for claim in &found.claims {
        let cells = [
            format!("{} in {}", claim.rival, claim.mix),
            format!("{:.2}", claim.at_least),
            format!("{:.2}", claim.at_most),
            claim.finding.word().to_owned(),
        ];
        claims = claims.row(cells.iter().map(plain)).map_err(Failure::defect)?;
    }
    let mut kept = Table::new(
        "Acknowledged and stored",
        ["store", "acknowledged", "stored", "faults"].map(Column::plain),
    );
    for one in &found.kept {
        let faults = if one.faults.is_empty() { "none".into() } else { one.faults.join("; ") };
        let cells =
            [one.store.into(), one.acknowledged.to_string(), one.stored.to_string(), faults];
        kept = kept.row(cells.iter().map(plain)).map_err(Failure::defect)?;
    }
    let mut section = Section::new("The same board on each store").table(rates).table(claims);
    for note in notes(args, found) {
        section = section.paragraph(note);
    }
    Ok(Report::new("Sekisho demo: the bulletin board on Jungle and its rivals")
        .verdict(verdict.into(), found.line())
        .fact("seed", args.seed.to_string(), "")
        .section(section)
        .section(
            Section::new("Kept")
                .table(kept)
                .command("To look at the board itself:", "sekisho board serve --store jungle"),
        ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(store: &'static str, rates: &[f64]) -> Row {
        let one = |rate: &f64| Pressed::of_rate(*rate);
        Row::of(store, Mix::R100, &rates.iter().map(one).collect::<Vec<_>>())
    }

    #[test]
    fn a_claim_is_decided_by_all_rounds() {
        let finding = |jungle: &[f64], rival: &[f64]| {
            claim(&row("jungle", jungle), &row("sqlite", rival)).finding
        };
        assert_eq!(finding(&[300.0, 200.0], &[100.0, 190.0]), Finding::Faster);
        assert_eq!(finding(&[90.0, 80.0], &[100.0, 190.0]), Finding::Slower);
        assert_eq!(finding(&[300.0, 150.0], &[100.0, 190.0]), Finding::CannotTell);
    }

    /// Of all orders of the rounds of two stores that are alike, one says faster and one slower.
    #[test]
    fn of_stores_that_are_alike_one_order_says_faster() {
        let all = 2 * ROUNDS;
        let mut told = [0, 0, 0];
        for first in (0..1_u32 << all).filter(|first| first.count_ones() as usize == ROUNDS) {
            let of = |is_first: bool| -> Vec<f64> {
                let places = (0..all).filter(|place| (first >> place & 1 == 1) == is_first);
                places.map(|place| 100.0 + place as f64).collect()
            };
            told[claim(&row("jungle", &of(true)), &row("sqlite", &of(false))).finding as usize] +=
                1;
        }
        assert_eq!(told, [1, 1, orders(ROUNDS) - 2]);
        assert_eq!(orders(ROUNDS), 252);
    }

    fn compared(rows: Vec<Row>, faults: Vec<String>) -> Compared<'static> {
        let claims = vec![claim(&rows[0], &rows[1])];
        let (store, setting) = ("jungle", "s".into());
        let kept = vec![Kept { store, setting, acknowledged: 1, stored: 1, faults }];
        let report = Path::new("r.html");
        let (durability, choice, seed, load_before) = ("strict", "uniform", 1, None);
        Compared { durability, choice, seed, rows, claims, kept, load_before, report }
    }

    /// The line of an invalid comparison was "Jungle is faster in 0 of 8", without a word of the cause.
    #[test]
    fn a_store_that_answers_nothing_is_named_with_its_mix() {
        let found = compared(vec![row("jungle", &[2.0]), row("sqlite", &[0.0])], Vec::new());
        assert_eq!(found.verdict(), Verdict::Invalid);
        assert!(found.line().starts_with("sqlite answered nothing in R100"), "{}", found.line());
    }

    #[test]
    fn a_verdict_is_never_milder_than_what_was_found() {
        let rows = || vec![row("jungle", &[2.0, 2.0]), row("sqlite", &[1.0, 1.0])];
        let found = |rows, faults| compared(rows, faults).verdict();
        assert_eq!(found(rows(), Vec::new()), Verdict::Holds);
        assert_eq!(found(rows(), vec!["lost".into()]), Verdict::Fails);
        let mut failed = rows();
        failed[1].failed = 1;
        assert_eq!(found(failed, Vec::new()), Verdict::Invalid);
        let mut slower = rows();
        slower.swap(0, 1);
        assert_eq!(found(slower, Vec::new()), Verdict::Fails);
    }
}
