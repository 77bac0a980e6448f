//! What the formulas know nothing of, whatever the rest of the network is.

use sim::{Client, Load, Network};

/// Why no formula, and no bound, is of this network; none if nothing stands against one.
pub(super) fn beyond_formulas(network: &Network) -> Option<String> {
    for class in &network.classes {
        let Client { patience, time_out, retry } = &class.client;
        let what = match &class.load {
            Load::Varying(_) => Some("the load changes over time"),
            Load::Trace(_) => Some("the load is a trace"),
            Load::Within => Some("jobs change their class"),
            Load::Open(_) | Load::Closed { .. } => None,
        };
        let what = what
            .or(patience.as_ref().map(|_| "clients lose patience"))
            .or(time_out.as_ref().map(|_| "clients time out"))
            .or(retry.as_ref().map(|_| "clients try again"));
        if let Some(what) = what {
            return Some(format!("{what} (class `{}`), and no formula knows that", class.name));
        }
    }
    if network.agenda.is_some() {
        return Some("it lasts a set time, and the formulas are of a steady state".into());
    }
    if let Some(cache) = network.caches.first() {
        return Some(format!(
            "how often cache `{}` hits is for the simulation to tell",
            cache.name
        ));
    }
    if let Some(station) = network.stations.iter().find(|station| !station.is_plain()) {
        return Some(format!(
            "station `{}` has a bound, an order or speeds of its own, and the formulas know stations \
             without",
            station.name
        ));
    }
    let gate = network.gates.iter().find(|gate| !gate.speeds.is_empty())?;
    Some(format!(
        "the servers of gate `{}` differ in speed, and no formula knows routers",
        gate.name
    ))
}
