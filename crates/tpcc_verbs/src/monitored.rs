//! `sekisho demo monitor`: what a TP monitor does for a database, on this machine.
//!
//! TPC-C without waits from more and more clients on a private PostgreSQL, each number by turns
//! directly and through the monitor, and how many clients either way serves in time.

use std::io::Write;
use std::path::{Path, PathBuf};

use ::tpcc::{End, Execution, Isolation, NOT_AUDITED, Outcome, Pace, Plan, SESSION_SETTINGS};
use advise::Span;
use clap::Args as ClapArgs;
use cli::json::{Answer, Interrupted};
use cli::text::{Table, bytes, count, next, paragraph, quoted, rate, sentence, time};
use cli::{Failure, Session, Verdict, say, store};
use measure::{Histogram, Ratio};
use report::{Axis, Cell, Column, Curves, Figure, Report, Section, Series, Table as ReportTable};
use schemars::JsonSchema;
use serde::Serialize;
use studies::{Gate, Look, Memory};

use super::kept::Kept;
use super::target::{PARAMETERS, Target};
use super::terminals;
use databases::PrivateArgs;

/// Directly, through the monitor, and so on, directly at the end: what drifts changes both.
const RUNS: usize = 5;
/// A tie within so much is a tie, whatever the interval.
const TIE: f64 = 0.03;

/// A TP monitor before a private PostgreSQL: how many clients it serves in time, with and without
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho demo monitor
      ends with 0 or 4: the monitor serves as many, or chance hides it

Exit codes: 0 the monitor serves as many clients in time; 3 it serves fewer, or
does less; 4 chance hides it; 5 a run is invalid: the terminals were the limit,
ask for fewer clients.")]
pub struct Args {
    /// Numbers of clients that are tried
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "4,16,64,256")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=2_000))]
    clients: Vec<u32>,
    /// Transactions that the monitor lets into the server at once [default: twice the processors]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    slots: Option<u32>,
    /// What 90 of 100 transactions must be answered within
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    limit: Span,
    /// Warehouses
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    warehouses: u32,
    /// How long each run goes on before it is measured
    #[arg(long, value_name = "TIME", default_value = "1s")]
    ramp: Span,
    /// How long each run is measured
    #[arg(long, value_name = "TIME", default_value = "4s")]
    measure: Span,
    #[command(flatten)]
    private: PrivateArgs,
    /// The seed of all chance; left out, it is drawn and told
    #[arg(long, value_name = "N", default_value_t = store::drawn_seed(), hide_default_value = true)]
    seed: u64,
    /// File of the report
    #[arg(long, value_name = "FILE", default_value = "sekisho-demo-monitor.html")]
    report: PathBuf,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the demo.
///
/// # Errors
/// The machine, PostgreSQL or the gate does not do its part.
pub fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    session.catch_interrupts()?;
    let cores = std::thread::available_parallelism().map_err(Failure::machine)?.get() as u32;
    let mut clients = args.clients.clone();
    clients.sort_unstable();
    clients.dedup();
    let most = clients.last().copied().unwrap_or(1);
    let slots = args.slots.unwrap_or(2 * cores);
    if !args.json {
        say(out, &introduction(args, slots, most))?;
    }
    // Directly each client has a connection, and the monitor and we some besides.
    let connections = (most + slots + 16).to_string();
    let parameters = [&PARAMETERS[..], &[("max_connections", &connections)]].concat();
    let target = Target::lend(&args.private, &parameters, (args.warehouses, args.seed), session)?;
    let Some(mut target) = target else { return interrupted(args, out) };
    let process = target.private().and_then(|private| private.pid());
    let gate = Gate::start(&target.config, slots, most)?;
    let through = target.through(&gate)?;
    let mut rows = Vec::new();
    for &clients in &clients {
        let mut row = Row::new(clients);
        for nth in 0..RUNS {
            let way = if nth % 2 == 0 { &target } else { &through };
            let look = Look::after(terminals::span(args.ramp)? * 2, process);
            let kept = press(way, clients, args, session)?;
            let memory = look.seen();
            if session.interrupted() {
                return interrupted(args, out);
            }
            row.add(nth % 2, kept, memory)?;
        }
        rows.push(row);
    }
    gate.stop()?;
    let version = target.version().to_owned();
    target.close()?;
    let demo = Demo { rows, slots, limit_s: args.limit.0 };
    demo.finish(args, &version, &session.command, out)
}

fn introduction(args: &Args, slots: u32, most: u32) -> String {
    paragraph(&format!(
        "A private PostgreSQL with TPC-C's tables of {}. Up to {} work without \
         keying and thinking, by turns directly, with a connection of the server each, and through a \
         TP monitor that lets {} in at a time.",
        count(args.warehouses.into(), "warehouse"),
        count(most.into(), "client"),
        count(slots.into(), "transaction")
    )) + "\n"
}

fn interrupted(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let verdict = Verdict::Interrupted;
    let text = match args.json {
        true => Interrupted::default().line(),
        false => "interrupted: what was measured is in .sekisho/runs/\n".into(),
    };
    say(out, &text)?;
    Ok(verdict)
}

fn press(way: &Target, clients: u32, args: &Args, session: &Session) -> Result<Kept, Failure> {
    let plan = Plan {
        pace: Pace::Stress,
        warehouses: args.warehouses,
        connections: clients,
        ramp: terminals::span(args.ramp)?,
        measure: terminals::span(args.measure)?,
        execution: Execution::Sql,
        isolation: Isolation::RepeatableRead,
        seed: args.seed + u64::from(clients),
    };
    terminals::run(way, &plan, session)
}

/// Observations one way at a number of clients.
#[derive(Default)]
struct Seen {
    throughputs: Vec<f64>,
    p90_s: Vec<f64>,
    retries: u64,
    completed: u64,
    memory: Option<Memory>,
}

impl Seen {
    fn throughput(&self) -> f64 {
        mean(&self.throughputs)
    }

    /// The 90th percentile of all responses \[s\], the mean of its runs.
    fn p90(&self) -> f64 {
        mean(&self.p90_s)
    }

    /// Of a hundred transactions, the tries that were repeated.
    fn repeated(&self) -> f64 {
        self.retries as f64 * 100.0 / self.completed.max(1) as f64
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// A number of clients, directly and through the monitor.
struct Row {
    clients: u32,
    ways: [Seen; 2],
    /// Throughputs in the order of the runs.
    order: Vec<f64>,
    /// The runs that are invalid, each with its reason.
    invalid: Vec<String>,
}

impl Row {
    fn new(clients: u32) -> Row {
        Row { clients, ways: Default::default(), order: Vec::new(), invalid: Vec::new() }
    }

    fn add(&mut self, way: usize, kept: Kept, memory: Option<Memory>) -> Result<(), Failure> {
        let Kept { record, path, .. } = &kept;
        if let End::Lost(at, why) | End::Failed(at, why) = &record.end {
            return Err(Failure::Machine(format!(
                "the run with {} came to nothing: after {at:.0} s: {why}; what was measured is in {}",
                count(self.clients.into(), "client"),
                path.display()
            )));
        }
        if let Outcome::Invalid(why) = record.judge().outcome {
            let clients = count(self.clients.into(), "client");
            self.invalid.push(format!("run {}, with {clients}: {why}", kept.id));
        }
        let completed = record.completed();
        let throughput = completed as f64 / record.measured_s;
        let seen = &mut self.ways[way];
        seen.throughputs.push(throughput);
        let mut responses = Histogram::new();
        record.kinds.iter().for_each(|kind| responses.merge(&kind.response));
        seen.p90_s.push(responses.quantile(0.9).as_secs_f64());
        seen.retries += record.kinds.iter().map(|kind| kind.retries).sum::<u64>();
        seen.completed += completed;
        seen.memory = [seen.memory, memory].into_iter().flatten().max_by_key(|all| all.resident);
        self.order.push(throughput);
        Ok(())
    }

    /// The throughput through the monitor over that without.
    fn ratio(&self) -> Ratio {
        Ratio::alternating(&self.order, 0.95)
    }
}

struct Demo {
    rows: Vec<Row>,
    slots: u32,
    limit_s: f64,
}

impl Demo {
    /// The most clients that a way serves within the limit, of those tried; 0 for none.
    fn knee(&self, way: usize) -> u32 {
        let within = self.rows.iter().take_while(|row| row.ways[way].p90() <= self.limit_s);
        within.last().map_or(0, |row| row.clients)
    }

    /// The runs that are invalid, each with its reason.
    fn invalid(&self) -> impl Iterator<Item = &String> {
        self.rows.iter().flat_map(|row| &row.invalid)
    }

    fn last(&self) -> &Row {
        self.rows.last().expect("at least one number of clients is tried")
    }

    /// Verdict on whether the monitor does no harm where clients are most; of invalid runs there is none.
    fn verdict(&self) -> Verdict {
        if self.invalid().next().is_some() {
            return Verdict::Invalid;
        }
        judge(self.last().ratio(), self.knee(0), self.knee(1))
    }

    fn headline(&self) -> String {
        if self.verdict() == Verdict::Invalid {
            return "of the monitor nothing is known, for a run is invalid".into();
        }
        let knee = |way| match self.knee(way) {
            0 => "none".to_owned(),
            n => n.to_string(),
        };
        let most = self.last();
        let Ratio { ratio, low, high, .. } = most.ratio();
        format!(
            "within {} (p90) {} clients are served directly and {} through {} slots; with \
             {} clients the monitor does {ratio:.2} times as much ({low:.2} to {high:.2})",
            time(self.limit_s),
            knee(0),
            knee(1),
            self.slots,
            most.clients
        )
    }

    fn why(&self) -> String {
        if self.verdict() == Verdict::Invalid {
            return "A run is invalid: the numbers below say nothing of the monitor.".into();
        }
        let [direct, gated] = &self.last().ways;
        let memory = match (direct.memory, gated.memory) {
            (Some(direct), Some(gated)) => format!(
                " The server's processes took {} of memory directly and {} behind the monitor, shared \
                 pages counted once; it keeps the connections that it has opened.",
                bytes(direct.resident),
                bytes(gated.resident)
            ),
            _ => String::new(),
        };
        format!(
            "Directly, {} transactions are in the server at once: they wait for its processors and for \
             each other's rows, and {:.1} of 100 tries were repeated after a conflict. Behind the monitor \
             {} are, the others wait in its queue in the order in which they came, and {:.1} of 100 were \
             repeated.{memory}",
            self.last().clients,
            direct.repeated(),
            self.slots,
            gated.repeated(),
        )
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&[
            "clients",
            "directly",
            "p90",
            "again",
            "monitor",
            "p90",
            "again",
            "ratio, 95 %",
        ]);
        for row in &self.rows {
            let mut cells = vec![row.clients.to_string()];
            for seen in &row.ways {
                cells.push(rate(seen.throughput()));
                cells.push(time(seen.p90()));
                cells.push(format!("{:.1} %", seen.repeated()));
            }
            let Ratio { ratio, low, high, .. } = row.ratio();
            cells.push(format!("{ratio:.2} ({low:.2}-{high:.2})"));
            table.row(cells);
        }
        table
    }

    fn report(&self) -> Result<Report, Failure> {
        let settings = SESSION_SETTINGS.map(|(name, value)| format!("{name} = {value}"));
        let report = Report::new("Sekisho demo: a TP monitor before PostgreSQL")
            .verdict(self.verdict().into(), self.headline())
            .lead(self.why());
        let invalid = self.invalid().map(|why| format!("Invalid: {why}."));
        Ok(invalid
            .fold(report, Report::lead)
            .lead(format!("Sessions of the terminals: {}. {NOT_AUDITED}", settings.join(", ")))
            .section(self.figures()?)
            .section(self.numbers()?))
    }

    fn figures(&self) -> Result<Section, Failure> {
        let points = |way: usize, of: fn(&Seen) -> Vec<f64>| {
            self.rows.iter().map(move |row| {
                let values = of(&row.ways[way]);
                let low = values.iter().copied().fold(f64::INFINITY, f64::min);
                let high = values.iter().copied().fold(0.0, f64::max);
                (f64::from(row.clients), mean(&values), low, high)
            })
        };
        let curves = |y: Axis, of: fn(&Seen) -> Vec<f64>| {
            ["directly", "through the monitor"]
                .into_iter()
                .enumerate()
                .fold(Curves::new(Axis::log("Clients", ""), y), |curves, (way, name)| {
                    curves.series(Series::measured(name, points(way, of)))
                })
        };
        let throughput = curves(Axis::linear("Throughput", "1/s"), |seen| seen.throughputs.clone());
        let caption = "Dots are means of the runs of one way, bars from the least to the most.";
        let p90 = curves(Axis::log("p90 of all transactions", "ms"), |seen| {
            seen.p90_s.iter().map(|seconds| seconds * 1e3).collect()
        });
        let limit = format!("The limit is {}.", time(self.limit_s));
        let figure = |title, caption: &str, curves| {
            Figure::new(title, caption, curves).map_err(Failure::defect)
        };
        Ok(Section::new("More and more clients")
            .figure(figure("Throughput against clients", caption, throughput)?)
            .figure(figure("Response against clients", &limit, p90)?))
    }

    fn numbers(&self) -> Result<Section, Failure> {
        let columns = [
            Column::plain("clients"),
            Column::plain("way"),
            Column::new("throughput", "1/s"),
            Column::new("p90", "ms"),
            Column::new("repeated", "of 100"),
            Column::new("server's memory", "MB"),
        ];
        let mut table = ReportTable::new("Every number", columns);
        for row in &self.rows {
            for (seen, way) in row.ways.iter().zip(["directly", "through the monitor"]) {
                let memory =
                    seen.memory.map_or(Cell::Empty, |all| Cell::Number(all.resident as f64 / 1e6));
                let cells = [
                    Cell::Number(row.clients.into()),
                    Cell::from(way),
                    Cell::Number(seen.throughput()),
                    Cell::Number(seen.p90() * 1e3),
                    Cell::Number(seen.repeated()),
                    memory,
                ];
                table = table.row(cells).map_err(Failure::defect)?;
            }
        }
        Ok(Section::new("The numbers").table(table))
    }

    fn finish(
        &self,
        args: &Args,
        version: &str,
        command: &[String],
        out: &mut dyn Write,
    ) -> Result<Verdict, Failure> {
        let verdict = self.verdict();
        self.report()?.write(&args.report).map_err(Failure::machine)?;
        let text = match args.json {
            true => cli::json::answer(verdict, verdict.word(), &self.answer(args, version)),
            false => self.text(args, version, command)?,
        };
        say(out, &text)?;
        Ok(verdict)
    }

    fn answer<'a>(&'a self, args: &'a Args, version: &'a str) -> Monitored<'a> {
        Monitored {
            slots: self.slots,
            postgres: version,
            seed: args.seed,
            limit_s: self.limit_s,
            knee_directly: self.knee(0),
            knee_monitor: self.knee(1),
            invalid: self.invalid().collect(),
            rows: self.rows.iter().map(RowAnswer::from).collect(),
            report: &args.report,
        }
    }

    fn text(&self, args: &Args, version: &str, command: &[String]) -> Result<String, Failure> {
        let mut text = sentence(&format!("{}: {}", self.verdict().word(), self.headline()));
        text += &format!("\n{}\n{}", self.table(), paragraph(&self.why()));
        text += &paragraph(&format!("A private PostgreSQL {version}. Seed {}.", args.seed));
        text += &paragraph(NOT_AUDITED);
        for why in self.invalid() {
            text += &paragraph(&format!("invalid: {why}"));
        }
        let report = std::path::absolute(&args.report)?;
        text += &format!("\n  report: {}\n", report.display());
        Ok(text + &next(&self.next_command(command)))
    }

    /// The command to type next. Of an invalid result nothing follows but that it is measured again, the same but for
    /// its clients, of which there were too many.
    fn next_command(&self, command: &[String]) -> String {
        let Some(first) = self.rows.iter().find(|row| !row.invalid.is_empty()) else {
            return format!("sekisho gate postgres --db \"$DATABASE_URL\" --slots {}", self.slots);
        };
        let fewer = self.rows.iter().map(|row| row.clients).filter(|&n| n < first.clients);
        let mut fewer: Vec<String> = fewer.map(|clients| clients.to_string()).collect();
        if fewer.is_empty() {
            fewer.push((first.clients / 2).max(1).to_string());
        }
        with_clients(command, &fewer.join(","))
    }
}

/// A command line, its program first, with other numbers of clients.
fn with_clients(command: &[String], clients: &str) -> String {
    let mut line = String::from("sekisho");
    let mut words = command.iter().skip(1);
    while let Some(word) = words.next() {
        if word == "--clients" {
            words.next();
        } else if !word.starts_with("--clients=") {
            line += &format!(" {}", quoted(word));
        }
    }
    format!("{line} --clients {clients}")
}

/// Clients with a connection each, and through a TP monitor.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Monitored<'a> {
    /// Slots of the monitor.
    slots: u32,
    /// Version of the PostgreSQL.
    postgres: &'a str,
    /// Seed of all that was drawn.
    seed: u64,
    /// Limit on the 90th percentile of the responses.
    limit_s: f64,
    /// Most clients within the limit; 0 if none are.
    knee_directly: u32,
    /// The same through the monitor.
    knee_monitor: u32,
    /// Runs that are invalid, each with its reason: then the numbers say nothing of the monitor.
    invalid: Vec<&'a String>,
    /// A row for each number of clients.
    rows: Vec<RowAnswer<'a>>,
    /// File of the report.
    report: &'a Path,
}

impl Answer for Monitored<'_> {
    const FORMAT: &'static str = "sekisho/demo-monitor/1";
}

/// A number of clients.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Clients")]
struct RowAnswer<'a> {
    /// Number of clients.
    clients: u32,
    directly: WayAnswer<'a>,
    monitor: WayAnswer<'a>,
    /// Throughput of the monitor over the other's.
    ratio: f64,
    /// Ends of its 95 % interval; the upper one is null where it is not known.
    ratio_95: [Option<f64>; 2],
}

/// One way to the server; a number a run.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Way")]
struct WayAnswer<'a> {
    /// Throughput of each run \[1/s\].
    throughput_per_s: &'a [f64],
    /// 90th percentile of the response of each run \[s\].
    p90_s: &'a [f64],
    /// Repetitions for 100 transactions.
    repeated_of_100: f64,
    /// None where the machine does not tell it.
    memory_bytes: Option<u64>,
}

impl<'a> From<&'a Row> for RowAnswer<'a> {
    fn from(row: &'a Row) -> RowAnswer<'a> {
        let Ratio { ratio, low, high, .. } = row.ratio();
        let way = |seen: &'a Seen| WayAnswer {
            throughput_per_s: &seen.throughputs,
            p90_s: &seen.p90_s,
            repeated_of_100: seen.repeated(),
            memory_bytes: seen.memory.map(|all| all.resident),
        };
        let [directly, monitor] = &row.ways;
        let known = |value: f64| value.is_finite().then_some(value);
        RowAnswer {
            clients: row.clients,
            directly: way(directly),
            monitor: way(monitor),
            ratio,
            ratio_95: [low, high].map(known),
        }
    }
}

/// A monitor holds where it serves as many clients in time, and does as much where they are most.
fn judge(ratio: Ratio, directly: u32, monitored: u32) -> Verdict {
    let better = monitored >= directly;
    match () {
        () if better && ratio.low >= 1.0 - TIE => Verdict::Holds,
        () if ratio.high < 1.0 - TIE || !better && ratio.high < 1.0 => Verdict::Fails,
        () => Verdict::Inconclusive,
    }
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches as _;

    use super::*;

    #[test]
    fn a_monitor_must_serve_as_many_in_time_and_do_as_much() {
        let ratio = |ratio, low, high| Ratio { ratio, low, high, confidence: 0.95 };
        assert_eq!(judge(ratio(1.2, 1.1, 1.3), 16, 64), Verdict::Holds);
        assert_eq!(judge(ratio(1.0, 0.98, 1.02), 16, 16), Verdict::Holds);
        assert_eq!(judge(ratio(1.0, 0.8, 1.2), 16, 64), Verdict::Inconclusive);
        assert_eq!(judge(ratio(0.9, 0.85, 0.95), 16, 64), Verdict::Fails);
        assert_eq!(judge(ratio(0.98, 0.97, 0.99), 64, 16), Verdict::Fails);
        assert_eq!(judge(ratio(1.2, 1.1, 1.3), 64, 16), Verdict::Inconclusive);
    }

    /// Numbers of clients, each with a p90 \[s\] both ways.
    fn demo(clients: &[(u32, f64)], limit_s: f64) -> Demo {
        let row = |&(clients, p90_s)| {
            let seen = || Seen { p90_s: vec![p90_s], throughputs: vec![1.0], ..Seen::default() };
            let order = vec![1.0, 1.1, 1.0, 1.1, 1.0];
            Row { clients, ways: [seen(), seen()], order, invalid: Vec::new() }
        };
        Demo { rows: clients.iter().map(row).collect(), slots: 4, limit_s }
    }

    #[test]
    fn the_knee_is_before_the_first_number_that_is_too_slow() {
        let rows = [(4, 0.01), (16, 0.06), (64, 0.04)];
        let knee = |limit_s| demo(&rows, limit_s).knee(0);
        assert_eq!([knee(0.05), knee(0.005), knee(0.1)], [4, 0, 64]);
        let mut all = demo(&rows, 0.05);
        assert!(all.headline().contains("4 clients are served directly"));
        assert_ne!(all.verdict(), Verdict::Invalid);
        all.rows[0].invalid.push("run 7: the generator was late".into());
        assert_eq!(all.verdict(), Verdict::Invalid, "of one invalid run nothing follows");
    }

    /// An invalid result praised the monitor in its text and on its page, which named no run, and the next command was
    /// the same with none of its options.
    #[test]
    fn an_invalid_result_says_nothing_of_the_monitor_and_goes_on_with_fewer_clients() {
        let typed = [
            "/bin/sekisho",
            "demo",
            "monitor",
            "--clients",
            "4,16",
            "--clients=64",
            "--slots",
            "4",
            "--limit=50ms",
            "--report",
            "my page.html",
        ];
        let parsed = Args::augment_args(clap::Command::new("monitor"));
        let args = Args::from_arg_matches(&parsed.get_matches_from(&typed[2..])).unwrap();
        let command = typed.map(str::to_owned);
        let mut all = demo(&[(4, 0.01), (16, 0.02), (64, 0.06)], args.limit.0);
        let next = |all: &Demo| all.next_command(&command);
        assert_eq!(next(&all), "sekisho gate postgres --db \"$DATABASE_URL\" --slots 4");
        let valid = report::render(&all.report().unwrap());
        assert!(valid.contains("clients are served directly") && !valid.contains("is invalid"));

        let why = "the terminals used 97 % of a processor: they were the limit; ask for fewer";
        all.rows[2].invalid.push(format!("run 7, with 64 clients: {why}"));
        let says = "A run is invalid: the numbers below say nothing of the monitor.";
        let again = "sekisho demo monitor --slots 4 --limit=50ms --report 'my page.html' --clients";
        assert_eq!(next(&all), format!("{again} 4,16"));
        let text = all.text(&args, "18.4", &command).unwrap().replace("\\\n", " ");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.starts_with("invalid: of the monitor nothing is known"), "{text}");
        assert!(text.contains(says) && text.contains(why) && text.contains("run 7"), "{text}");
        assert!(text.ends_with(&format!("next: {again} 4,16")), "{text}");
        let page = report::render(&all.report().unwrap());
        assert!(page.contains(says) && page.contains(why) && page.contains("run 7, with 64"));
        for told in [&text, &page] {
            assert!(!told.contains("served directly") && !told.contains("Behind the monitor"));
        }
        let json = cli::json::answer(all.verdict(), "invalid", &all.answer(&args, "18.4"));
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["verdict"], "invalid");
        assert_eq!(json["invalid"][0], format!("run 7, with 64 clients: {why}"));

        all.rows[0].invalid.push("run 1".into());
        assert_eq!(next(&all), format!("{again} 2"), "half of the fewest");
    }
}
