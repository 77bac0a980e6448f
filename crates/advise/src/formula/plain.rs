//! Traits of a network that the formulas do not know, whatever the rest of it is.

use sim::{Client, Load, Network, Order, Speed, Station, WhenFull};

/// The network without what changes nothing: room for more jobs than there are clients, and an order
/// among jobs that are all alike.
pub(super) fn without_idle_rules(mut network: Network) -> Network {
    let closed = |load: &Load| match load {
        Load::Closed { population, .. } => Some(u64::from(*population)),
        Load::Open(_) | Load::Varying(_) | Load::Trace(_) | Load::Within => None,
    };
    let clients: Option<u64> = network.classes.iter().map(|class| closed(&class.load)).sum();
    let first = network.classes.first().map(|class| class.priority);
    let alike = network.classes.iter().all(|class| Some(class.priority) == first);
    for station in &mut network.stations {
        if station.room.is_some_and(|(room, _)| clients.is_some_and(|all| all <= u64::from(room))) {
            station.room = None;
        }
        if alike && station.order != Order::ShortestRemaining {
            station.order = Order::Fifo;
        }
    }
    network
}

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
    for Station { name, room, speed, .. } in &network.stations {
        if let Speed::Servers(speeds) = speed
            && speeds.iter().any(|speed| *speed != 1.0)
        {
            return Some(format!(
                "the servers of station `{name}` have speeds of their own, and the formulas know servers \
                 that are alike"
            ));
        }
        if let Some((_, WhenFull::Block)) = room {
            return Some(format!(
                "jobs wait where they are until there is room at station `{name}`, and no formula knows \
                 blocking"
            ));
        }
    }
    if let Some(gate) = network.gates.iter().find(|gate| gate.control.is_some()) {
        return Some(format!(
            "the slots of gate `{}` change as its controller finds better ones, and the formulas know \
             slots that stay",
            gate.name
        ));
    }
    let gate = network.gates.iter().find(|gate| !gate.speeds.is_empty())?;
    Some(format!(
        "the servers of gate `{}` differ in speed, and no formula knows routers",
        gate.name
    ))
}

/// Why a station that serves the shortest remaining demand first has no formula.
pub(super) fn not_shortest_alone(name: &str) -> String {
    format!(
        "station `{name}` serves the shortest remaining demand first, which has a formula for one server \
         without gates, visited once, with Poisson arrivals, a demand whose distribution is known, and \
         nothing but delays beside it"
    )
}

/// Why the layered model does not know this network; none if nothing stands against it.
pub(super) fn beyond_layers(network: &Network) -> Option<String> {
    let station = network.stations.iter().find(|station| !station.is_plain())?;
    let name = &station.name;
    Some(match (&station.speed, station.order) {
        (Speed::Curve(_), _) => format!(
            "the speed of `{name}` depends on how many it serves, and the formulas of several classes \
             with gates know one speed"
        ),
        (_, Order::Priority | Order::Preemptive) => format!(
            "station `{name}` serves by priority, which has a formula for one server without gates: with \
             any demand where all is open and it is the only one, else with exponential demand"
        ),
        (_, Order::ShortestRemaining) => not_shortest_alone(name),
        _ => {
            format!("station `{name}` has rules of its own, and the formulas know stations without")
        }
    })
}
