//! Checks of the parts of a network, each by itself: the impossible is refused.

use gate::Gate;
use workload::Dist;

use crate::agenda::wrong_speed;
use crate::network::{
    CUSTOMERS_MAX, Class, Client, GateNode, Load, Network, NetworkError, Order, Retry, Sizes,
    Speed, Station, StationKind, WhenFull,
};

use super::recorded_jobs;

/// More arrivals a second would come closer to each other than the clock can tell [1/s].
const RATE_MAX: f64 = 1e8;

/// Gates, stations, caches and the agenda.
pub(super) fn parts(network: &Network) -> Result<(), NetworkError> {
    network.stations.iter().try_for_each(|found| station(found, network))?;
    network.gates.iter().try_for_each(|found| gate(found, network))?;
    network.caches.iter().try_for_each(crate::network::Cache::check)?;
    network.agenda.iter().try_for_each(|agenda| agenda.check(network))
}

/// The customers of all closed classes.
pub(super) fn population(network: &Network) -> Result<usize, NetworkError> {
    let closed = network.classes.iter().map(|class| match class.load {
        Load::Closed { population, .. } => population as usize,
        Load::Open(_) | Load::Varying(_) | Load::Trace(_) | Load::Within => 0,
    });
    let sum: usize = closed.fold(0, usize::saturating_add);
    if sum >= CUSTOMERS_MAX {
        let cause = format!(
            "its closed classes have {sum} customers, but fewer than {CUSTOMERS_MAX} can be simulated"
        );
        return Err(NetworkError::new("network", cause));
    }
    Ok(sum)
}

/// The mean size of a class's jobs \[bytes\], if they have sizes.
pub(super) fn mean_size(class: &Class) -> Option<f64> {
    if let Load::Trace(trace) = &class.load {
        let sum: Option<f64> = trace.jobs().iter().map(|job| job.size).sum();
        if let Some(sum) = sum {
            return Some(sum / trace.jobs().len() as f64);
        }
    }
    match &class.sizes {
        Sizes::None => None,
        Sizes::Documents(set, _) => Some(set.mean_of(|document| document.bytes as f64)),
        Sizes::Drawn(dist) => Some(dist.mean()),
    }
}

/// The mean demand that a class's trace gives \[s\].
pub(super) fn traced_demand(class: &Class) -> Result<f64, NetworkError> {
    let error = |cause: &str| NetworkError::new(format!("class `{}`", class.name), cause);
    let Load::Trace(trace) = &class.load else {
        return Err(error("a demand is that of the trace, but the class replays no trace"));
    };
    let sum: Option<f64> = trace.jobs().iter().map(|job| job.demand).sum();
    let sum = sum.ok_or_else(|| {
        error("a demand is that of the trace, but not every job of the trace has one")
    })?;
    Ok(sum / trace.jobs().len() as f64)
}

fn station(station: &Station, network: &Network) -> Result<(), NetworkError> {
    let error = |cause: &str| Err(NetworkError::new(format!("station `{}`", station.name), cause));
    match station.kind {
        StationKind::Queue { servers: 0 } | StationKind::Sharing { processors: 0 } => {
            return error("it needs at least one server");
        }
        StationKind::FairShare { quantum_s, .. } if !(quantum_s.is_finite() && quantum_s > 0.0) => {
            return error("its quantum must be above 0");
        }
        StationKind::FairShare { tick_s, .. } if !(tick_s.is_finite() && tick_s >= 0.0) => {
            return error("its tick must be 0 or more");
        }
        StationKind::Queue { .. } => {}
        _ if station.order != Order::Fifo => {
            return error("only a queue has an order; at other kinds of stations all are served");
        }
        _ => {}
    }
    if station.room.is_some_and(|(room, _)| room == 0) {
        return error("it has room for nobody; give it room for at least 1");
    }
    if let Some(cause) = wrong_speed(station.kind, &station.speed) {
        return error(&cause);
    }
    let blocks = network.stations.iter().any(|s| matches!(s.room, Some((_, WhenFull::Block))));
    let at = network.stations.iter().position(|other| std::ptr::eq(other, station));
    let changes =
        network.agenda.as_ref().zip(at).is_some_and(|(agenda, at)| agenda.changes_speed(at));
    let told_apart = station.order != Order::Fifo
        || matches!(station.speed, Speed::Servers(_))
        || (changes && matches!(station.kind, StationKind::Queue { .. }));
    if blocks && told_apart {
        return error(
            "in a network in which stations block, its queues are first in first out with equal \
             servers that do not change: remove its order, speeds or changes, or let full stations \
             lose jobs",
        );
    }
    Ok(())
}

fn gate(gate: &GateNode, network: &Network) -> Result<(), NetworkError> {
    let place = || format!("gate `{}`", gate.name);
    Gate::new(&gate.spec).map_err(|error| NetworkError::new(place(), error.to_string()))?;
    // One that was recorded may have got its slots later.
    let is_recorded = network.classes.iter().any(|class| !recorded_jobs(class).is_empty());
    if !is_recorded && gate.spec.servers.iter().all(|server| server.slots == 0) {
        return Err(NetworkError::new(place(), "it has no slots, so nobody ever gets in"));
    }
    let (servers, speeds) = (gate.spec.servers.len(), &gate.speeds);
    if !speeds.is_empty() && speeds.len() != servers {
        let cause = format!("it has {servers} servers but {} speeds", speeds.len());
        return Err(NetworkError::new(place(), cause));
    }
    if let Some(bad) = speeds.iter().find(|speed| !(**speed > 0.0 && **speed <= 1e6)) {
        return Err(NetworkError::new(place(), format!("a speed of {bad} is out of range")));
    }
    if let Some(control) = &gate.control {
        if network.agenda.is_none() {
            let cause = "while its controller looks for better slots there is no steady state: the \
                         network needs an agenda";
            return Err(NetworkError::new(place(), cause));
        }
        control.check().map_err(|error| NetworkError::new(place(), error.to_string()))?;
        if control.server as usize >= servers {
            let cause = format!("it has no server {}, whose slots are controlled", control.server);
            return Err(NetworkError::new(place(), cause));
        }
    }
    match gate.stations.iter().find(|&&station| station >= network.stations.len()) {
        Some(station) => {
            Err(NetworkError::new(place(), format!("its station {station} does not exist")))
        }
        None => Ok(()),
    }
}

/// A class without its route.
pub(super) fn class(class: &Class, network: &Network) -> Result<(), NetworkError> {
    let error = |cause: String| Err(NetworkError::new(format!("class `{}`", class.name), cause));
    match &class.load {
        Load::Closed { population: 0, .. } => {
            return error("its population is 0: nobody asks for anything".into());
        }
        Load::Closed { think, .. } => dist(class, think)?,
        Load::Open(arrivals) => {
            let rate = arrivals.rate();
            if !(rate.is_finite() && rate > 0.0) {
                return error(format!("its arrival rate must be above 0, but it is {rate}/s"));
            }
            if rate > RATE_MAX {
                return error(format!(
                    "{rate}/s arrivals would come too close to each other for a clock of nanoseconds: at \
                     most {RATE_MAX}/s, so give times in a larger unit"
                ));
            }
        }
        Load::Varying(_) | Load::Trace(_) if network.agenda.is_none() => {
            return error(
                "its load changes over time, so that there is no steady state to report: give the \
                 network an agenda, which says how long to look"
                    .into(),
            );
        }
        Load::Varying(_) | Load::Trace(_) => {}
        Load::Within => {
            let plain = class.route.is_empty() && class.client == Client::default();
            let sized = !matches!(class.sizes, Sizes::None);
            if !plain || sized {
                return error(
                    "jobs become it on their way, and keep their route, size and client: give it none \
                     of them, or a load"
                        .into(),
                );
            }
            return Ok(());
        }
    }
    if class.route.is_empty() {
        return error("its route is empty".into());
    }
    client(class)?;
    match &class.sizes {
        Sizes::Drawn(sizes) => dist(class, sizes),
        Sizes::None | Sizes::Documents(..) => Ok(()),
    }
}

fn dist(class: &Class, dist: &Dist) -> Result<(), NetworkError> {
    let place = || format!("class `{}`", class.name);
    dist.check().map(|_| ()).map_err(|cause| NetworkError::new(place(), cause.to_string()))
}

fn client(class: &Class) -> Result<(), NetworkError> {
    let error = |cause: String| Err(NetworkError::new(format!("class `{}`", class.name), cause));
    let Client { patience, time_out, retry } = &class.client;
    let times = patience.iter().chain(time_out.as_ref().map(|time_out| &time_out.after));
    for time in times {
        dist(class, time)?;
        if time.mean() == 0.0 {
            return error("its clients have no patience at all: their time must be above 0".into());
        }
    }
    if let Some(Retry { back_off_s, factor, back_off_max_s, jitter, .. }) = retry {
        let time = |value: f64| value.is_finite() && value >= 0.0;
        if !(time(*back_off_s) && time(*back_off_max_s) && back_off_s <= back_off_max_s) {
            return error(format!(
                "its back-off must be 0 or above and not above its maximum, but it goes from {back_off_s} \
                 s to {back_off_max_s} s"
            ));
        }
        if !(factor.is_finite() && *factor >= 1.0) {
            return error(format!("its back-off must not shrink, but its factor is {factor}"));
        }
        if !(0.0..=1.0).contains(jitter) {
            return error(format!("its jitter is a share from 0 to 1, but it is {jitter}"));
        }
    }
    Ok(())
}
