//! `sekisho explain`: what the output of somebody else's load tool means.
//!
//! The outputs are read in `formats`, one file a tool; what they mean is judged in `advise`.

mod show;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use advise::{ExplainOptions, Explanation, Little, Span};
use clap::Args as ClapArgs;
use cli::{Failure, Verdict, say};
use formats::bounded::{self, Bounded};
use formats::load_tools::{known, runs_of};

pub use show::Explained;

/// Say what the output of wrk, wrk2, ab, hey, oha, h2load, weighttp, vegeta or pgbench means
///
/// Whether Little's law closes, N = X (R + Z), whether the run was past the knee, and what the next
/// run should be. Give files, or pipe or paste the output, of one run or of several at different
/// loads.
#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  sekisho explain wrk-1.txt wrk-16.txt
  sekisho explain hey-16.txt --clients 16 --alone 2.1ms
  sekisho explain < pgbench-8.txt")]
pub struct Args {
    /// Files with outputs; none, or `-`, is the standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Clients of the runs whose output does not tell them: one for all or one for each run
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    clients: Vec<u32>,
    /// Think time of each client between an answer and its next request
    #[arg(long, value_name = "TIME", default_value = "0s")]
    think: Span,
    /// Mean response with a single client, if you know it
    #[arg(long, value_name = "TIME")]
    alone: Option<Span>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// No output of a load tool is longer.
const OUTPUT_MIB: u64 = 16;

/// Says what the output of another load tool means.
///
/// # Errors
/// An output cannot be read, or is of no tool that is known.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let mut runs = Vec::new();
    let input = [PathBuf::from("-")];
    let paths = if args.files.is_empty() { &input[..] } else { &args.files[..] };
    for path in paths {
        let (name, text) = read(path)?;
        let found = runs_of(&text).map_err(|broken| Failure::Usage(format!("{name}: {broken}")))?;
        if found.is_empty() {
            let known = known();
            return Err(Failure::Usage(format!(
                "{name}: this is the output of no load tool that is known; known are {known}"
            )));
        }
        runs.extend(found);
    }
    let options = ExplainOptions {
        clients: args.clients.clone(),
        think: args.think.0,
        alone: args.alone.map(|alone| alone.0),
    };
    let explanation = advise::explain(&runs, &options).map_err(Failure::usage)?;
    let verdict = verdict(&explanation);
    if args.json {
        say(out, &show::json(verdict, &runs, &explanation))?;
    } else {
        say(out, &show::text(verdict, &runs, &explanation))?;
    }
    Ok(verdict)
}

fn read(path: &Path) -> Result<(String, String), Failure> {
    let is_input = path.as_os_str() == "-";
    let name = if is_input { "standard input".into() } else { path.display().to_string() };
    let failed = |error| Failure::Usage(format!("cannot read the output {name}: {error}"));
    let bytes = if is_input {
        let input = std::io::stdin();
        if input.is_terminal() {
            writeln!(std::io::stderr(), "paste the output, then press Ctrl-D").ok();
        }
        Bounded::new(input.lock(), OUTPUT_MIB).whole()
    } else {
        bounded::open(path, OUTPUT_MIB).and_then(Bounded::whole)
    };
    let bytes = bytes.map_err(failed)?;
    Ok((name, String::from_utf8_lossy(&bytes).into_owned()))
}

fn verdict(explanation: &Explanation) -> Verdict {
    let of = |check: &advise::LittleCheck| match check.little {
        _ if check.is_failing() => Verdict::Invalid,
        Little::Broken => Verdict::Invalid,
        Little::Unknown => Verdict::Inconclusive,
        Little::Closes | Little::ByConstruction | Little::Outstanding => Verdict::Holds,
    };
    explanation.little.iter().map(of).fold(Verdict::Holds, Verdict::and)
}
