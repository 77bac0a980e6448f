//! Trial of a prediction: the gate before the service that was measured, the predicted loads through it,
//! and the check.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use advise::{Load, Point, Prediction};
use cli::store;
use cli::text::{next, paragraph, shell_word, then};

use super::super::typed::Typed;

/// Commands that try the prediction; where it is not known what was measured, what to do in words.
pub(super) fn steps(prediction: &Prediction, path: &Path) -> String {
    let report = next(&format!("sekisho report {}", shell_word(path)));
    let Some((best, typed)) = best(prediction).zip(measured(prediction)) else {
        let held = format!(
            "to hold it against a run of one of these loads: `sekisho check --last 1 --prediction {}`",
            path.display()
        );
        return paragraph(&held) + &report;
    };
    let loads = loads(prediction, best);
    let mut steps = Vec::new();
    let mut typed = typed.for_another_load();
    let mut slots = String::new();
    if let Some(number) = best.slots.filter(|_| asks_slots(prediction)) {
        let Some(gate) = typed.target().and_then(Gate::before) else {
            let tls = "its server speaks TLS, and a gate goes to its servers in clear: set the slots in \
                       the server itself, measure again, and check with \
                       `sekisho check --last 1 --slots N`";
            return paragraph(tls) + &report;
        };
        let public = match typed.has("public") {
            true => " --public",
            false => "",
        };
        steps.push(format!(
            "sekisho gate http --listen {} --upstream {} --slots {number}{public}",
            gate.listen, gate.upstream
        ));
        typed = typed.at(gate.url);
        slots = format!(" --slots {number}");
    }
    steps.push(typed.with(loads.option, loads.values.join(",")).line());
    let prediction = shell_word(path);
    let last = if loads.option == "rate" { 1 } else { loads.values.len() };
    steps.push(format!("sekisho check --last {last} --prediction {prediction}{slots}"));
    let gated = steps.len() > 2;
    let (first, rest) = steps.split_first().expect("two at the least");
    let mut text = next(first);
    if gated {
        text += &paragraph("and while the gate runs, in another terminal, in this folder:");
    }
    text + &rest.iter().map(|step| then(step)).collect::<String>()
}

/// True if the question was about several numbers of slots, or about others than the scenario has.
fn asks_slots(prediction: &Prediction) -> bool {
    let own = prediction.scenario.gates.first().and_then(|gate| gate.slots);
    prediction.points.iter().any(|point| point.slots != own)
}

/// The point of most throughput; of equal ones that of the shortest response.
fn best(prediction: &Prediction) -> Option<&Point> {
    let throughput = |point: &Point| point.simulation.throughput.mean;
    let most = prediction.points.iter().map(throughput).max_by(f64::total_cmp)?;
    // What simulations tell apart by less is one.
    let good = prediction.points.iter().filter(|point| throughput(point) > 0.98 * most);
    good.min_by(|a, b| a.simulation.response.mean.total_cmp(&b.simulation.response.mean))
}

/// The command that measured what the scenario was fitted to, if its record is in the store.
fn measured(prediction: &Prediction) -> Option<Typed> {
    let id = prediction.scenario.calibration.as_ref()?.runs.first()?;
    let file = Path::new(".sekisho").join("runs").join(format!("{id}.jsonl"));
    Typed::of_record(&store::read_run(&file).ok()?)
}

/// Loads to measure, as an option has them.
struct Loads {
    option: &'static str,
    values: Vec<String>,
}

/// The predicted loads with the slots of this point: its numbers of clients, else its rate.
fn loads(prediction: &Prediction, best: &Point) -> Loads {
    let points = prediction.points.iter().filter(|point| point.slots == best.slots);
    let clients: BTreeSet<u32> = points
        .filter_map(|point| match point.load {
            Load::Clients(clients) => Some(clients),
            Load::Rate(_) => None,
        })
        .collect();
    match best.load {
        Load::Rate(rate) => Loads { option: "rate", values: vec![format!("{rate}/s")] },
        Load::Clients(_) => {
            Loads { option: "clients", values: clients.iter().map(u32::to_string).collect() }
        }
    }
}

/// A gate before a server.
struct Gate {
    listen: String,
    upstream: String,
    /// The server's URL, through the gate.
    url: String,
}

impl Gate {
    /// The gate before the server of a URL in clear, on a port that is free now.
    fn before(url: &str) -> Option<Gate> {
        let rest = url.strip_prefix("http://")?;
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, path) = rest.split_at(at);
        // A user and a password stay with the request.
        let (user, host) = host.rsplit_once('@').map_or(("", host), |(user, host)| (user, host));
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let upstream = if has_port { host.to_owned() } else { format!("{host}:80") };
        let port = free_port(upstream.rsplit_once(':')?.1.parse().ok()?)?;
        let listen = format!("127.0.0.1:{port}");
        let user = if user.is_empty() { String::new() } else { format!("{user}@") };
        let url = format!("http://{user}{listen}{path}");
        Some(Gate { listen, upstream, url })
    }
}

/// The first free port of this machine above a server's, or above 8080 where the server's is one that the
/// kernel hands out itself.
fn free_port(above: u16) -> Option<u16> {
    let least = if (1024..HANDED_OUT).contains(&above) { above } else { 8080 };
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    (1..=100).filter_map(|step| least.checked_add(step)).find(is_free)
}

/// From this port on Linux hands out ports to whoever connects.
const HANDED_OUT: u16 = 32_768;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_stands_before_the_server_of_a_url() {
        let gate = Gate::before("http://localhost/a/b?c").unwrap();
        assert_eq!(gate.upstream, "localhost:80");
        assert!(gate.listen.starts_with("127.0.0.1:8") && gate.url.ends_with("/a/b?c"));
        let gate = Gate::before("http://127.0.0.1:8080").unwrap();
        assert_eq!(gate.upstream, "127.0.0.1:8080");
        assert_eq!(gate.url, format!("http://{}", gate.listen));
        assert!(Gate::before("https://127.0.0.1/").is_none());
    }
}
