//! Controls and settings: what a slider may do to a scenario.

use std::collections::BTreeMap;

use advise::{Control, DisciplineEntry, RouterEntry, Setting, Stops, Turns, disciplines, routers};
use sim::{Demand, Step};
use workload::Dist;

use crate::scenario::{ALL, read};

const FARM: &str = r#"
sekisho = 1
name = "farm"
[[class]]
name = "web"
population = 50
route = ["disk", { visit = "disk", demand = "8ms" }, "farm"]
[[gate]]
name = "farm"
router = "shortest-queue"
ties = "lowest"
servers = [{ slots = 2, station = "cpu-1" }, { slots = 2, station = "cpu-2" }]
inside = [{ repeat = 0.5, route = [{ visit = "server", demand = "4ms" }] }]
[[station]]
name = "disk"
kind = "queue"
demand = { mean = "2ms", scv = 1.0 }
[[station]]
name = "cpu-1"
kind = "queue"
[[station]]
name = "cpu-2"
kind = "queue"
"#;

fn named<T>(name: &str, value: T) -> BTreeMap<String, T> {
    BTreeMap::from([(name.to_owned(), value)])
}

fn control(controls: &[Control], turns: Turns, of: &str) -> Control {
    let found = controls.iter().find(|control| control.turns == turns && control.of == of);
    found.unwrap_or_else(|| panic!("no control turns {turns:?} of `{of}`: {controls:#?}")).clone()
}

/// The names that serde knows for `T`, from what it says of an unknown one.
fn names_of<T: serde::de::DeserializeOwned>() -> Vec<String> {
    let Err(error) = serde_json::from_str::<T>("\"?\"") else { panic!("`?` is a name") };
    let (_, known) = measure::unknown_name(&error.to_string()).expect("it lists the known names");
    known
}

#[test]
fn every_policy_that_a_file_can_name_is_offered() {
    let name = |policy: serde_json::Value| match policy {
        serde_json::Value::Object(table) => table.keys().next().unwrap().clone(),
        plain => plain.as_str().unwrap().to_owned(),
    };
    let mut offered: Vec<_> =
        disciplines().iter().map(|one| name(serde_json::json!(one))).collect();
    let mut known = names_of::<DisciplineEntry>();
    offered.sort();
    known.sort();
    assert_eq!(offered, known);
    let mut offered: Vec<_> = routers().iter().map(|one| name(serde_json::json!(one))).collect();
    // Its weights are one number for each server, which nobody knows beforehand.
    offered.push("weighted".to_owned());
    let mut known = names_of::<RouterEntry>();
    offered.sort();
    known.sort();
    assert_eq!(offered, known);
}

#[test]
fn a_scenario_offers_its_load_its_gates_and_its_stations() {
    let controls = read(FARM).controls();
    let turned: Vec<_> = controls.iter().map(|one| (one.turns, one.of.as_str())).collect();
    assert_eq!(
        turned,
        [
            (Turns::Clients, ""),
            (Turns::Slots, "farm"),
            (Turns::Servers, "farm"),
            (Turns::Router, "farm"),
            (Turns::Discipline, "farm"),
            (Turns::Demand, "farm"),
            (Turns::Servers, "disk"),
            (Turns::Demand, "disk"),
        ]
    );
    for one in &controls {
        let Stops::Numbers(stops) = &one.stops else { continue };
        assert!(stops.windows(2).all(|two| two[0] < two[1]), "{one:?}");
        assert!(stops[0] > 0.0 && stops.len() < 100, "{} stops", stops.len());
    }
    let load = control(&controls, Turns::Clients, "");
    let Stops::Numbers(stops) = load.stops else { panic!("clients are numbers") };
    assert_eq!((stops[load.own], stops.last()), (50.0, Some(&200.0)));
    // With several classes, a load would have to say which.
    assert!(!read(ALL).controls().iter().any(|one| one.of.is_empty()));
}

#[test]
fn servers_come_and_go_with_their_stations() {
    let scenario = read(FARM);
    for count in [1_u32, 2, 5] {
        let setting = Setting { servers: named("farm", count), ..Setting::default() };
        let network = scenario.set(&setting).unwrap().network().unwrap();
        assert_eq!(network.gates[0].spec.servers.len(), count as usize);
        let mut stations = network.gates[0].stations.clone();
        stations.sort_unstable();
        stations.dedup();
        assert_eq!(stations.len(), count as usize, "each server has a station of its own");
        assert_eq!(network.stations.len(), count as usize + 1);
    }
    let setting = Setting { servers: named("disk", 3), ..Setting::default() };
    assert_eq!(scenario.set(&setting).unwrap().stations[0].servers, Some(3));
}

/// All constant or exponential demands of a network's one class [s], in order.
fn means(steps: &[Step]) -> Vec<f64> {
    let mean = |demand: &Demand| match demand {
        Demand::Drawn(Dist::Constant(mean) | Dist::Exponential { mean }) => *mean,
        other => panic!("{other:?}"),
    };
    steps
        .iter()
        .flat_map(|step| match step {
            Step::Visit { demand, .. } | Step::VisitServer { demand } => vec![mean(demand)],
            Step::Hold { inside, .. } => means(inside),
            Step::Repeat { steps, .. } => means(steps),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn a_demand_is_multiplied_wherever_it_stands() {
    let scenario = read(FARM);
    let of = |name: &str, factor: f64| {
        let setting = Setting { demand: named(name, factor), ..Setting::default() };
        means(&scenario.set(&setting).unwrap().network().unwrap().classes[0].route)
    };
    assert_eq!(of("disk", 1.0), [2e-3, 8e-3, 4e-3]);
    assert_eq!(of("disk", 2.0), [4e-3, 16e-3, 4e-3]);
    assert_eq!(of("farm", 0.5), [2e-3, 8e-3, 2e-3]);
}

#[test]
fn another_router_takes_what_was_said_of_the_shortest_queue_with_it() {
    let scenario = read(FARM);
    for control in scenario.controls() {
        let settings: Vec<Setting> = match control.stops {
            Stops::Numbers(_) => continue,
            Stops::Routers(list) => list
                .into_iter()
                .map(|one| Setting { router: named("farm", one), ..Setting::default() })
                .collect(),
            Stops::Disciplines(list) => list
                .into_iter()
                .map(|one| Setting { discipline: named("farm", one), ..Setting::default() })
                .collect(),
        };
        assert!(settings.len() >= 4, "{settings:?}");
        for setting in settings {
            scenario.set(&setting).unwrap().network().unwrap();
        }
    }
}

#[test]
fn what_cannot_be_turned_says_why() {
    let refuse = |text: &str, setting: Setting| read(text).set(&setting).unwrap_err().to_string();
    let slots = Setting { slots: named("frm", 3), ..Setting::default() };
    assert_eq!(refuse(FARM, slots), "gate: no gate is called `frm`; did you mean `farm`?");
    let rate = Setting { rate: Some(3.0), ..Setting::default() };
    assert!(refuse(FARM, rate).contains("it is a closed class"));
    let clients = Setting { clients: Some(3), ..Setting::default() };
    assert!(refuse(ALL, clients).contains("there are 3 classes"));
    let demand = Setting { demand: named("disk", f64::NAN), ..Setting::default() };
    assert!(refuse(FARM, demand).contains("give a factor above 0"));
    let servers = Setting { servers: named("pool", 2), ..Setting::default() };
    assert!(refuse(ALL, servers).contains("it has one server"));
}
