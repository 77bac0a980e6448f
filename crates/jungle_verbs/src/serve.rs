//! `sekisho jungle serve`: the database of a directory, for whoever is on this machine.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use access_verbs::AccessArgs;
use clap::{Args as ClapArgs, ValueEnum};
use cli::json::{answer, notice};
use cli::text::next;
use cli::{Failure, Session, Verdict, complain, say};
use jungle::Durability;
use jungle_server::{Server, ServerSettings, Users};

use crate::answer::{Started, Stopped};
use crate::shown::line;

/// How often it is looked whether somebody wants it to stop.
const GLANCE: Duration = Duration::from_millis(20);

/// Serve the database of a directory by HTTP and JSON
///
/// Without users everybody on this machine may use it, and it listens on a loopback address and no other.
/// A commit is answered when it is safe on the disk (--durability). SIGTERM lets requests end and stops.
#[derive(ClapArgs)]
#[command(after_help = "\
Addresses (docs/jungle.md): /trees, /trees/TREE/nodes/NODE, /transactions,
/commits, /watch, /stats, /metrics, /healthz, /readyz and more.

Example:
  sekisho jungle serve ./data")]
pub(crate) struct Args {
    /// The directory of the database; made if it is not there
    directory: PathBuf,
    /// Address that clients use; other than loopback with --users and --tls-cert only
    #[arg(long, value_name = "ADDRESS", default_value = crate::client::LISTEN)]
    listen: String,
    #[command(flatten)]
    access: AccessArgs,
    /// The moment at which a commit is answered
    #[arg(long, value_enum, default_value = "sync")]
    durability: DurabilityName,
    /// Time between two syncs with `--durability interval`
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = humantime::parse_duration)]
    interval: Duration,
    /// The most connections; beyond, none is accepted until one ends
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections_max: u32,
    /// The most commits that wait; beyond, they are refused with 503
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    waiting_max: u32,
    /// The largest body of a request
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = size)]
    body_max: u64,
    /// The largest blob
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size)]
    blob_max: u64,
    /// The size of a file of the log
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size)]
    segment: u64,
    /// The bytes of log after which a snapshot is taken
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size)]
    snapshot_after: u64,
    /// Time between two positions that a watch is told
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    heartbeat: Duration,
    /// Print lines of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum DurabilityName {
    /// When it is safe: a power failure loses nothing that was answered
    Sync,
    /// When it is written; a power failure may lose the last --interval
    Interval,
    /// When it is written; nothing is synced before the end
    None,
}

/// A size with its unit, as in scenario files.
fn size(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!("`{text}` is no size; write a whole number with its unit, such as 8MiB or 500kB")
    };
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim() {
        "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(wrong()),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    bytes
        .filter(|bytes| (4096..=1 << 40).contains(bytes))
        .ok_or_else(|| format!("`{text}` is too small or too large; 4KiB to 1024GiB are possible"))
}

fn settings(args: &Args) -> Result<ServerSettings, Failure> {
    let listen = args.listen.parse().map_err(|_| {
        Failure::Usage(format!(
            "`--listen {}` is no address such as {}",
            args.listen,
            crate::client::LISTEN
        ))
    })?;
    if args.interval < Duration::from_millis(1) || args.heartbeat < Duration::from_millis(100) {
        return Err(Failure::Usage(
            "`--interval` is at least 1ms, and `--heartbeat` at least 100ms".into(),
        ));
    }
    let mut settings = ServerSettings::at(listen);
    settings.body_max = args.body_max as usize;
    settings.blob_max = args.blob_max;
    settings.connections_max = args.connections_max as usize;
    settings.heartbeat = args.heartbeat;
    settings.store.durability = match args.durability {
        DurabilityName::Sync => Durability::Sync,
        DurabilityName::Interval => Durability::Interval,
        DurabilityName::None => Durability::None,
    };
    settings.store.interval = args.interval;
    settings.store.waiting = args.waiting_max as usize;
    settings.store.segment_bytes = args.segment;
    settings.store.snapshot_bytes = args.snapshot_after;
    Ok(settings)
}

pub(crate) fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let (settings, access) = (settings(args)?, args.access.access(Users::parse)?);
    session.catch_interrupts()?;
    let server = Server::start(&args.directory, settings, access).map_err(Failure::usage)?;
    let (started, store) = (server.started(), server.store().clone());
    let mut notes: Vec<String> =
        started.unusable.iter().map(|error| format!("not used: {error}")).collect();
    if let Some((file, at)) = &started.log.torn {
        notes.push(format!(
            "{file}: cut at byte {at}, where a crash had torn it; nobody was promised the rest"
        ));
    }
    let begun = Started {
        listening: format!("{}://{}", args.access.scheme(), server.address()),
        seq: store.version().seq(),
        snapshot: started.snapshot,
        entries: started.log.entries,
        notes,
    };
    say(out, &if args.json { notice(&begun) } else { told(args, &begun) })?;
    out.flush().map_err(Failure::machine)?;
    let mut failed = None;
    while !session.interrupted() {
        if server.has_ended() {
            return Err(Failure::Defect("the thread of the database has ended".into()));
        }
        if failed.is_none() {
            failed = store.failed();
            failed
                .iter()
                .for_each(|why| complain(&format!("nothing is committed any more: {why}")));
        }
        std::thread::sleep(GLANCE);
    }
    let commits = store.counts().commits.load(std::sync::atomic::Ordering::Relaxed);
    server.stop().map_err(Failure::machine)?;
    let ended = Stopped { seq: store.version().seq(), commits };
    let text = format!("stopped at commit {}; {} in this session\n", ended.seq, ended.commits);
    say(out, &if args.json { answer(Verdict::Holds, "holds", &ended) } else { text })?;
    match failed {
        None => Ok(Verdict::Holds),
        Some(why) => Err(Failure::Machine(why)),
    }
}

fn told(args: &Args, begun: &Started) -> String {
    let mut text = format!("listening on {}\n", begun.listening);
    text.push_str(&line(&format!(
        "  database: {}, commit {}",
        args.directory.display(),
        begun.seq
    )));
    for note in &begun.notes {
        text.push_str(&cli::text::paragraph(note));
    }
    let server = if begun.listening.ends_with(crate::client::LISTEN) {
        String::new()
    } else {
        format!(" --server {}", begun.listening)
    };
    text + &next(&format!("sekisho jungle get{server}"))
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("8MiB"), Ok(8 << 20));
        assert_eq!(size("500kB"), Ok(500_000));
        for wrong in ["", "8", "MiB", "8 mib", "-1MiB", "1B", "99999999999999999999GiB", "2000GiB"]
        {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
