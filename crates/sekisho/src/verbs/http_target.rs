//! The HTTP target of a measurement: which documents, how connections are used, whom TLS trusts, and
//! the one place where a run is pressed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use advise::{Bytes, Span};
use clap::{Args as ClapArgs, ValueEnum};
use cli::text::rate;
use cli::{Failure, Session, store, tool, without_secret};
use indicatif::ProgressBar;
use load::http::{
    Closing, Connections, Idle, Load, Naming, Plan, PlanSpec, Resumption, RunError, Target,
    TargetError, Trust,
};
use measure::{RunRecord, Until};
use serde::Deserialize;
use workload::{Document, DocumentSet, Draw};

use crate::verbs::database::{PRESSES, out_of_reach, reach};

#[derive(ClapArgs)]
pub(crate) struct TargetArgs {
    /// What to measure; documents are asked for below its path
    #[arg(value_name = "URL")]
    url: String,
    /// What to ask for: `webstone`, `lognormal:MU,SIGMA` (asks for size/BYTES), or a TOML file with
    /// [[document]] name, size, weight; left out, the URL itself
    #[arg(long, value_name = "SET")]
    documents: Option<String>,
    /// How documents are drawn
    #[arg(long, value_enum, default_value = "deck")]
    draw: DrawName,
    /// Open a connection for each request
    #[arg(long)]
    no_keep_alive: bool,
    /// Generator threads
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: u32,
    /// Bind the generator threads to these processors
    #[arg(long, value_delimiter = ',', value_name = "CPU,...")]
    cpus: Vec<usize>,
    /// What the generator does while there is nothing to do
    #[arg(long, value_enum, default_value = "sleep")]
    idle: IdleName,
    /// How the generator closes connections
    #[arg(long, value_enum, default_value = "fin")]
    close: CloseName,
    /// A header line to send, `Name: value`
    #[arg(long, value_name = "LINE")]
    header: Vec<String>,
    /// The longest that a response may take
    #[arg(long, value_name = "TIME", default_value = "30s")]
    timeout: Span,
    /// Trust the certificates in this PEM file only
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Trust every certificate; the record says so
    #[arg(long)]
    insecure: bool,
    /// Allow a target that is neither loopback nor private: say it twice
    #[arg(long, action = clap::ArgAction::Count)]
    public: u8,
    /// The seed of all chance
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum DrawName {
    /// From a shuffled deck with the exact mix
    Deck,
    /// Each independently
    Random,
}

#[derive(Clone, Copy, ValueEnum)]
enum IdleName {
    /// Sleep: each answer that finds it asleep costs the server a wake-up
    Sleep,
    /// Spin: a processor is always busy
    Spin,
}

#[derive(Clone, Copy, ValueEnum)]
enum CloseName {
    /// With a FIN, as clients do
    Fin,
    /// With a RST, which leaves no port in TIME_WAIT
    Rst,
}

impl TargetArgs {
    /// The target as it was named, without user and password.
    pub(crate) fn url(&self) -> String {
        without_secret(&self.url)
    }

    /// The run that these arguments and a load describe.
    pub(crate) fn spec(&self, load: Load, until: Until) -> Result<PlanSpec, Failure> {
        let reach = reach(self.public, PRESSES);
        let target = Target::parse(&self.url, reach).map_err(|error| match error {
            TargetError::Reach(error) => out_of_reach(&error, PRESSES),
            error => Failure::usage(error),
        })?;
        let mut spec = PlanSpec::new(target, load, until);
        spec.documents = self.documents.as_deref().map(documents).transpose()?;
        spec.draw = match self.draw {
            DrawName::Deck => Draw::Deck,
            DrawName::Random => Draw::Random,
        };
        spec.connections =
            if self.no_keep_alive { Connections::PerRequest } else { Connections::KeepAlive };
        spec.threads = self.threads;
        spec.cpus.clone_from(&self.cpus);
        spec.idle = match self.idle {
            IdleName::Sleep => Idle::Sleep,
            IdleName::Spin => Idle::Spin,
        };
        spec.closing = match self.close {
            CloseName::Fin => Closing::Fin,
            CloseName::Rst => Closing::Rst,
        };
        spec.headers = self.header.iter().map(|line| header(line)).collect::<Result<_, _>>()?;
        spec.response_max = Duration::from_secs_f64(self.timeout.0);
        spec.trust = match &self.ca {
            Some(path) => Trust::File(path.clone()),
            None if self.insecure => Trust::Insecure,
            None => Trust::System,
        };
        spec.resumption = Resumption::Off;
        spec.seed = self.seed;
        Ok(spec)
    }
}

fn header(line: &str) -> Result<(String, String), Failure> {
    let (name, value) = line.split_once(':').ok_or_else(|| {
        Failure::Usage(format!("`--header {line}` has no colon: write `Name: value`"))
    })?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Number of documents of equal chance that a lognormal size is cut into.
const LOGNORMAL_DOCUMENTS: u32 = 100;

fn documents(set: &str) -> Result<DocumentSet, Failure> {
    if set == "webstone" {
        return Ok(DocumentSet::webstone());
    }
    if let Some(parameters) = set.strip_prefix("lognormal:") {
        let numbers: Option<Vec<f64>> =
            parameters.split(',').map(|text| text.parse().ok()).collect();
        let Some([mu, sigma]) = numbers.as_deref() else {
            return Err(Failure::Usage(format!(
                "`{set}` is not a set: write `lognormal:7.811,1.573` (mean and standard deviation of \
                 the natural logarithm of the bytes)"
            )));
        };
        return lognormal(*mu, *sigma);
    }
    document_file(Path::new(set))
}

/// Documents `size/BYTES` at the middles of equally likely parts of a lognormal size.
fn lognormal(mu: f64, sigma: f64) -> Result<DocumentSet, Failure> {
    let mut sizes: Vec<u64> = (0..LOGNORMAL_DOCUMENTS)
        .map(|part| {
            let q = (f64::from(part) + 0.5) / f64::from(LOGNORMAL_DOCUMENTS);
            (mu + sigma * measure::t_quantile(q, 1e9)).exp().round().max(1.0) as u64
        })
        .collect();
    sizes.dedup();
    let document = |bytes: u64| Document { name: format!("size/{bytes}"), bytes, weight: 1 };
    DocumentSet::new(sizes.into_iter().map(document).collect()).map_err(Failure::usage)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentFile {
    document: Vec<DocumentLine>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentLine {
    name: String,
    size: Bytes,
    weight: u32,
}

fn document_file(path: &Path) -> Result<DocumentSet, Failure> {
    let text = store::read_text(path, "document set (or say `webstone`)")?;
    let file: DocumentFile = toml::from_str(&text)
        .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
    let document =
        |line: DocumentLine| Document { name: line.name, bytes: line.size.0, weight: line.weight };
    DocumentSet::new(file.document.into_iter().map(document).collect())
        .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
}

/// Runs a plan and returns its record; the bar goes on with every interval.
pub(crate) fn press(
    spec: PlanSpec,
    session: &Session,
    bar: &ProgressBar,
) -> Result<RunRecord, Failure> {
    let plan = Plan::new(spec).map_err(Failure::usage)?;
    let naming = Naming {
        id: store::new_id(),
        started: store::now_rfc3339(),
        tool: tool(),
        command: session.command.clone(),
    };
    load::http::record(&plan, naming, &session.interrupt, &mut |interval| {
        let completed: u64 = interval.classes.iter().map(|class| class.completed).sum();
        bar.set_prefix(rate(completed as f64 / interval.length_s.max(1e-9)));
        bar.inc((interval.length_s * 10.0).round() as u64);
    })
    .map_err(|error| match error {
        RunError::Tls(_) => Failure::usage(error),
        RunError::Start(_) => Failure::machine(error),
    })
}
