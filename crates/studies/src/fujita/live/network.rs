//! Experiment 5: a network that is the bottleneck. Server and clients stand in a network namespace
//! each, joined by a pair of virtual interfaces, whose rate the kernel's token bucket limits.
//!
//! Nothing outside changes: both namespaces belong to one thread and vanish with it. They carry
//! 127.0.0.1 of the server's namespace to the clients' one, because that is where Apache listens.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;

use cli::Failure;
use report::{Cell, Column, Section, Table};
use workload::DocumentSet;

use super::super::super::claim::{Answer, Registry};
use super::Part;
use super::clients::cell;
use super::press::{Ask, Lab, Seen, undisturbed};
use super::sizes::about;

const SIZES: [(&str, u64); 3] = [("500b", 500), ("50k", 50_000), ("500k", 500_000)];
const CLIENTS: u32 = 24;
const HELPERS: u32 = 16;
/// The limited link carries this share of what the server can send, about as the paper's Ethernet does.
const SHARE: f64 = 0.5;

/// One document size over both links.
struct Row {
    name: &'static str,
    fast: Seen,
    slow: Seen,
}

pub(super) fn measure(registry: &Registry, lab: &Lab) -> Result<Part, Failure> {
    let claim = registry.claim("live-network");
    let heading = "Measured: experiment 5, the network as the bottleneck";
    // A thread that has changed its namespace cannot be used for anything else.
    let measured = std::thread::scope(|scope| {
        scope.spawn(|| over_both(lab)).join().expect("the measuring thread does not panic")
    });
    let (rows, mbit) = match measured {
        Ok(measured) => measured,
        Err(Obstacle::Failure(failure)) => return Err(failure),
        Err(Obstacle::Machine(why)) => {
            let why = format!("This machine does not allow it: {why}.");
            let section = Section::new(heading).paragraph(format!("Not run. {why}"));
            return Ok(Part { judged: vec![claim.judge().not_run(why)], section });
        }
    };
    let large = &rows[SIZES.len() - 1];
    let share = large.slow.mbit_per_s / mbit;
    // It carries headers too, and bursts may pass a little faster.
    let full = Answer::from((share - 1.0).abs() <= claim.within());
    let idle = Answer::from(large.slow.busy < 0.8 * large.fast.busy);
    let judged = claim
        .judge()
        .formula("x1.00")
        .measured(format!("x{share:.2} line"))
        .found(format!(
            "500 KB, {CLIENTS} clients: {:.0} Mbit/s and a server that is busy {:.0} % over a free link; \
             {:.0} Mbit/s and {:.0} % over one of {mbit:.0} Mbit/s.",
            large.fast.mbit_per_s,
            large.fast.busy * 100.0,
            large.slow.mbit_per_s,
            large.slow.busy * 100.0
        ))
        .shape(full.and(idle));
    // Over the limited link the server is to be idle; somebody else may use that.
    let judged = undisturbed(judged, rows.iter().map(|row| &row.fast));
    let columns = [
        Column::plain("document"),
        Column::new("free link", "Mbit/s"),
        Column::new("response", "ms"),
        Column::new("server busy", "%"),
        Column::new("limited link", "Mbit/s"),
        Column::new("response", "ms"),
        Column::new("server busy", "%"),
    ];
    let mut table = Table::new(format!("{mbit:.0} Mbit/s against no limit"), columns);
    for row in &rows {
        let of = |seen: &Seen| {
            [Cell::from(seen.mbit_per_s), cell(&seen.response, 1e3), Cell::from(seen.busy * 100.0)]
        };
        let cells = [Cell::from(row.name)].into_iter().chain(of(&row.fast)).chain(of(&row.slow));
        table = table.row(cells).map_err(Failure::defect)?;
    }
    let section = Section::new(heading)
        .paragraph(format!(
            "Apache and clients in a network namespace each, joined by a virtual link; limited to half of \
             what the server can send of 500 KB documents. {HELPERS} helpers, {CLIENTS} clients."
        ))
        .table(table);
    Ok(Part { judged: vec![judged], section })
}

/// Why there is no measurement.
enum Obstacle {
    /// The machine lacks a right or a program.
    Machine(String),
    /// Something that worked in other parts did not.
    Failure(Failure),
}

impl From<Failure> for Obstacle {
    fn from(failure: Failure) -> Obstacle {
        Obstacle::Failure(failure)
    }
}

/// Measures all sizes over the free and the limited link; returns also the limit \[Mbit/s\].
fn over_both(lab: &Lab) -> Result<(Vec<Row>, f64), Obstacle> {
    let wire = Wire::new()?;
    wire.enter(End::Server)?;
    let documents =
        SIZES.map(|(name, bytes)| workload::Document { name: name.into(), bytes, weight: 1 });
    let documents = DocumentSet::new(documents.to_vec()).map_err(Failure::defect)?;
    let server = lab.start(HELPERS, &documents)?;
    let press = |(name, bytes): (&str, u64), slower: f64| -> Result<Seen, Obstacle> {
        wire.enter(End::Clients)?;
        let round = f64::from(CLIENTS) * about(bytes as f64) * slower;
        let ask = Ask {
            clients: CLIENTS,
            documents: DocumentSet::single(name, bytes),
            length_s: lab.seconds.max(2.5 * round),
            warmup_s: 0.3 + 1.5 * round,
            deck_s: None,
        };
        Ok(lab.press(&server, ask)?)
    };
    let fast = SIZES.iter().map(|&size| press(size, 1.0)).collect::<Result<Vec<_>, _>>()?;
    let mbit = (fast[SIZES.len() - 1].mbit_per_s * SHARE).max(1.0).round();
    wire.enter(End::Server)?;
    wire.limit(mbit)?;
    let slow =
        SIZES.iter().map(|&size| press(size, SHARE.recip())).collect::<Result<Vec<_>, _>>()?;
    let rows = SIZES.iter().zip(fast.into_iter().zip(slow));
    Ok((rows.map(|(size, (fast, slow))| Row { name: size.0, fast, slow }).collect(), mbit))
}

/// An end of the wire, each in a namespace of its own.
#[derive(Clone, Copy)]
enum End {
    Server,
    Clients,
}

/// Two network namespaces, joined.
struct Wire {
    server: File,
    clients: File,
}

/// Interface and address of each end; the addresses are for documentation (RFC 5737), so that they
/// mean nobody.
const SERVER: (&str, &str) = ("sekisho-s", "192.0.2.1");
const CLIENT: (&str, &str) = ("sekisho-c", "192.0.2.2");

impl Wire {
    /// Makes both namespaces for the calling thread, which is in that of the clients then.
    fn new() -> Result<Wire, Obstacle> {
        let server = fresh()?;
        must(&["ip", "link", "set", "lo", "up"])?;
        let clients = fresh()?;
        let wire = Wire { server, clients };
        must(&["ip", "link", "add", CLIENT.0, "type", "veth", "peer", "name", SERVER.0])?;
        let place = format!("/proc/{}/fd/{}", std::process::id(), wire.server.as_raw_fd());
        must(&["ip", "link", "set", SERVER.0, "netns", &place])?;
        // In the clients' namespace the loopback interface stays down, so 127.0.0.1 is not here.
        up(CLIENT)?;
        must(&[
            "ip",
            "route",
            "add",
            "127.0.0.1/32",
            "via",
            SERVER.1,
            "dev",
            CLIENT.0,
            "src",
            CLIENT.1,
        ])?;
        wire.enter(End::Server)?;
        up(SERVER)?;
        Ok(wire)
    }

    /// Moves the calling thread to one end; what it starts from then on is there too.
    fn enter(&self, end: End) -> Result<(), Obstacle> {
        let place = match end {
            End::Server => &self.server,
            End::Clients => &self.clients,
        };
        set_namespace(place)
            .map_err(|error| Obstacle::Machine(format!("cannot enter a namespace: {error}")))
    }

    /// Limits what the server's end sends; the calling thread must be there.
    fn limit(&self, mbit: f64) -> Result<(), Obstacle> {
        let rate = format!("{mbit:.0}mbit");
        must(&[
            "tc", "qdisc", "add", "dev", SERVER.0, "root", "tbf", "rate", &rate, "burst", "64kb",
            "latency", "100ms",
        ])
    }
}

/// Gives an interface its address, and lets it carry packets of 127.0.0.1.
fn up((interface, address): (&str, &str)) -> Result<(), Obstacle> {
    must(&["ip", "address", "add", &format!("{address}/30"), "dev", interface])?;
    must(&["ip", "link", "set", interface, "up"])?;
    for (setting, value) in [("route_localnet", "1"), ("rp_filter", "0")] {
        for of in ["all", interface] {
            let path = format!("/proc/sys/net/ipv4/conf/{of}/{setting}");
            fs::write(&path, value)
                .map_err(|error| Obstacle::Machine(format!("cannot write {path}: {error}")))?;
        }
    }
    Ok(())
}

/// Runs a command of iproute2.
fn must(words: &[&str]) -> Result<(), Obstacle> {
    let output = Command::new(words[0]).args(&words[1..]).output();
    let output = output.map_err(|error| {
        Obstacle::Machine(format!("`{}` (package iproute2) does not start: {error}", words[0]))
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Obstacle::Machine(format!("`{}` says: {}", words.join(" "), said.trim())))
}

/// Moves the calling thread to a new network namespace, and holds on to it.
#[allow(unsafe_code)]
fn fresh() -> Result<File, Obstacle> {
    // SAFETY: a plain system call, about the calling thread only.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        let error = io::Error::last_os_error();
        return Err(Obstacle::Machine(format!(
            "a network namespace needs CAP_SYS_ADMIN (run as root): {error}"
        )));
    }
    let path = Path::new("/proc/thread-self/ns/net");
    File::open(path).map_err(|error| Obstacle::Machine(format!("{}: {error}", path.display())))
}

#[allow(unsafe_code)]
fn set_namespace(place: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open; the call is about the calling thread only.
    match unsafe { libc::setns(place.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
