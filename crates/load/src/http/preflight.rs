//! Looks at the machine before a run: what would make the generator the limit.

use std::fs;

use measure::Until;

use super::plan::{Closing, Connections, Load, Plan, Protocol};
use crate::sys;

/// Descriptors that a process needs for other things.
const SPARE: u64 = 64;

/// Raises the limit on descriptors as far as it goes, and says in sentences what of this machine
/// stands against the plan. A run does this itself.
pub fn preflight(plan: &Plan) -> Vec<String> {
    let mut warnings = Vec::new();
    let connections = u64::from(match plan.spec.load {
        Load::Closed { clients, .. } => plan.spec.part.share(clients),
        Load::Open { in_flight_max, .. } | Load::Varying { in_flight_max, .. } => {
            plan.spec.part.share(in_flight_max)
        }
    });
    let connections = match plan.spec.protocol {
        Protocol::Http1 => connections,
        Protocol::Http2 { streams_max } => connections.div_ceil(u64::from(streams_max)),
    };
    match sys::raise_descriptor_limit() {
        Ok(limit) if limit < connections + SPARE => warnings.push(format!(
            "up to {connections} connections, but this process may have only {limit} descriptors: \
             raise the hard limit (ulimit -Hn)"
        )),
        Ok(_) => {}
        Err(error) => warnings.push(format!("the limit on descriptors cannot be raised: {error}")),
    }
    let ports = read_numbers("/proc/sys/net/ipv4/ip_local_port_range");
    if let [low, high] = ports[..] {
        warnings.extend(ports_short(plan, connections, high.saturating_sub(low) + 1));
    }
    let local = plan.spec.target.addresses.iter().all(|address| address.ip().is_loopback());
    let backlog = read_numbers("/proc/sys/net/core/somaxconn");
    if let [backlog] = backlog[..]
        && matches!(plan.spec.load, Load::Closed { .. })
        && local
        && connections > backlog
    {
        warnings.push(format!(
            "{connections} clients connect at once, but net.core.somaxconn is {backlog}: the accept \
             queue may overflow, and connections then take 1 s, 3 s or more"
        ));
    }
    warnings
}

/// Connections closed with a FIN leave their port in TIME_WAIT for a minute; the kernel takes such
/// ports again early on loopback only.
fn ports_short(plan: &Plan, connections: u64, ports: u64) -> Option<String> {
    let spec = &plan.spec;
    let address = spec.target.addresses[0].ip();
    if connections > ports {
        return Some(format!(
            "up to {connections} connections, but only {ports} ports to connect from: widen \
             net.ipv4.ip_local_port_range"
        ));
    }
    let waits = spec.connections == Connections::PerRequest
        && spec.closing == Closing::Fin
        && !address.is_loopback();
    let asked = match (spec.until, &spec.load) {
        (Until::Requests(requests), _) => requests as f64,
        (Until::Seconds(seconds), Load::Varying { schedule, .. }) => {
            schedule.arrivals().min(schedule.rate_max() * seconds.min(60.0))
        }
        (Until::Seconds(seconds), Load::Open { arrivals, .. }) => {
            arrivals.rate() * seconds.min(60.0)
        }
        (Until::Seconds(_), Load::Closed { .. }) => 0.0,
    };
    (waits && asked > ports as f64).then(|| {
        format!(
            "about {asked:.0} connections within a minute, but only {ports} ports to connect from: \
             they may run out; close with RST, or keep connections alive"
        )
    })
}

fn read_numbers(path: &str) -> Vec<u64> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}
