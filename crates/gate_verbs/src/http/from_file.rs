//! `sekisho gate http --config`: the gate as a file describes it.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use cli::text::{next, sentence};
use cli::{Failure, Verdict, say};
use gatefile::{Disk, HttpFile, load_http, to_httpgate};
use httpgate::Config;

use super::super::answer::HttpChecked;
use super::super::start::note;
use super::{
    HttpArgs, Started, Written, address, beginning, class_names, end, reachable, service, tell,
};

/// A file that was read.
struct Read {
    config: Config,
    file: HttpFile,
}

pub(super) fn run(args: &HttpArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let path = args.config.clone().expect("its caller has looked");
    let listen = args.listen.as_deref().map(|name| address("--listen", name)).transpose()?;
    let (public, record_max) = (args.public, args.policy.record_max());
    let Read { mut config, file } = read(&path, listen).map_err(Failure::Usage)?;
    reached(&config, public)?;
    let recorded = file.record.as_ref().map(|record| PathBuf::from(&record.file));
    if args.policy.record.is_some() {
        config.record_max = record_max;
    }
    let record = args.policy.record.clone().or(recorded);
    let names = args.policy.record.is_some();
    let classes = class_names(&config.classes).into_iter().map(str::to_owned).collect();
    let servers_by = format!("its address in {}", path.display());
    let started = Started::new(config, "limits.connections", servers_by, slots(&file))?;
    let again = move || {
        let Read { mut config, .. } = read(&path, listen)?;
        reached(&config, public).map_err(|failure| failure.to_string())?;
        if names {
            config.record_max = record_max;
        }
        Ok(config)
    };
    let server = started.server.drain_on_signals().reload_from(again);
    say(out, &beginning(args.json, &server.handle(), &started.behind))?;
    out.flush()?;
    service::ready();
    let finished = server.run().map_err(Failure::machine)?;
    let written = Written {
        record: record.as_deref(),
        model: args.auto.model.as_deref(),
        classes,
        again: None,
    };
    end(&finished, written, args.json, out)
}

/// Reads the file; an address of the command line stands in place of the one that it names.
fn read(path: &Path, listen: Option<SocketAddr>) -> Result<Read, String> {
    let file = load_http(path).map_err(|error| error.to_string())?;
    let config = to_httpgate(&file, &Disk);
    let mut config = config.map_err(|error| format!("{}: {error}", path.display()))?;
    config.listen = listen.unwrap_or(config.listen);
    config.decisions = Some(tell);
    Ok(Read { config, file })
}

/// Checks that the gate may stand in front of every server that the file names.
fn reached(config: &Config, public: u8) -> Result<(), Failure> {
    let mut servers = config.upstreams.iter();
    servers.try_for_each(|server| reachable(&server.to_string(), [server.ip()], public))
}

/// The slots of each server in words: one number if they are alike.
fn slots(file: &HttpFile) -> String {
    let own = |server: &gatefile::HttpServer| match (server.slots, file.pool.slots) {
        (Some(slots), _) => slots.to_string(),
        (None, Some(gatefile::Slots::Fixed(slots))) => slots.to_string(),
        (None, _) => "auto".to_owned(),
    };
    let mut each: Vec<String> = file.server.iter().map(own).collect();
    if each.iter().all(|slots| *slots == each[0]) {
        each.truncate(1);
    }
    each.join(",")
}

/// Says whether a gate could start from a file.
pub(super) fn check(
    path: &Path,
    public: u8,
    json: bool,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let name = path.display();
    let Read { config, file } = read(path, None).map_err(Failure::Usage)?;
    // Nothing is connected to here, so that it is told and refused nothing.
    let unreached = reached(&config, public).err().map(|failure| failure.to_string());
    config.try_out().map_err(|error| Failure::Usage(format!("{name}: {error}")))?;
    if json {
        let answer = HttpChecked {
            servers: config.upstreams.iter().map(ToString::to_string).collect(),
            classes: config.classes.iter().map(|class| class.name.as_str()).collect(),
            notes: unreached.into_iter().collect(),
        };
        say(out, &cli::json::answer(Verdict::Holds, Verdict::Holds.word(), &answer))?;
        return Ok(Verdict::Holds);
    }
    let counted = |number: usize, one: &str, more: &str| match number {
        1 => format!("1 {one}"),
        number => format!("{number} {more}"),
    };
    let text = sentence(&format!(
        "{name}: a gate can start with it: {}, slots {}, {}",
        counted(file.server.len(), "server", "servers"),
        slots(&file),
        counted(file.class.len() + 1, "class", "classes"),
    ));
    if let Some(note_of) = &unreached {
        note(note_of);
    }
    let public = if unreached.is_some() || public > 0 { " --public" } else { "" };
    say(out, &(text + &next(&format!("sekisho gate http --config {name}{public}"))))?;
    Ok(Verdict::Holds)
}
