//! A process that starts a server and is then killed, to show that its server dies with it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use origin::{Apache, Origin, OriginConfig, Serving, Supervised};

use crate::client::eventually;

/// The argument that makes this executable a victim; the server to start follows.
pub(crate) const ARGUMENT: &str = "--victim=";

/// The victim's life: it says which processes it started and waits to be killed.
pub(crate) fn live(role: &str, supervised: Supervised) -> ! {
    let serving = match role {
        "prefork" => Some(Serving::PreforkedProcesses(supervised)),
        "fork" => Some(Serving::ForkPerRequest(supervised)),
        _ => None,
    };
    let (_origin, _apache);
    let pids = if let Some(serving) = serving {
        _origin = Origin::start(&OriginConfig { serving, ..crate::serving::config() }).unwrap();
        _origin.pids()
    } else {
        _apache = Apache::find().unwrap().start(&crate::apache::config()).unwrap();
        let helpers = _apache.usage().unwrap().helpers;
        std::iter::once(_apache.pid()).chain(helpers.iter().map(|helper| helper.pid)).collect()
    };
    println!("{}", pids.iter().map(u32::to_string).collect::<Vec<_>>().join(" "));
    loop {
        std::thread::park();
    }
}

/// Starts a victim, kills it, and waits until all that it started is gone. Returns its number.
pub(crate) fn kill_one(role: &str, pids_min: usize) -> u32 {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .arg(format!("{ARGUMENT}{role}"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(victim.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pids: Vec<u32> = line.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert!(pids.len() >= pids_min, "{line:?}");
    assert!(pids.iter().all(|&pid| exists(pid)));
    victim.kill().unwrap();
    victim.wait().unwrap();
    eventually("the server dies with who started it", || !pids.iter().any(|&pid| exists(pid)));
    victim.id()
}

/// True if there is such a process that has not ended. One that has, but that the system's first
/// process has not reaped yet, is none of ours any more.
pub(crate) fn exists(pid: u32) -> bool {
    let path = Path::new("/proc").join(pid.to_string()).join("stat");
    std::fs::read_to_string(path).is_ok_and(|stat| {
        let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
        state != Some("Z")
    })
}
