//! Answer for a network, and the checks that it passes before it is given away.

use super::model::Model;
use super::{Algorithm, Load, Network, approximate};
use crate::{Exactness, SolveError};

/// Results of a network, as means over a long time.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkAnswer {
    /// The algorithm that gave it.
    pub algorithm: Algorithm,
    /// By class, in the order in which they were added.
    pub classes: Vec<ClassAnswer>,
    /// By station, then by class.
    visits: Vec<Vec<VisitAnswer>>,
    exactness: Exactness,
}

/// Results of a class in the whole network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassAnswer {
    /// Cycles completed, or jobs that leave, X [1/s].
    pub throughput: f64,
    /// Time at all stations, delays included, thinking left out, R \[s\].
    pub response: f64,
    /// Mean number of jobs at the stations, delays included, thinking left out.
    pub jobs: f64,
}

/// Results of one class at one station: a row of the table Station, Class, QLen, Util, RespT,
/// ResidT, ArvR, Tput.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VisitAnswer {
    /// Mean number of jobs there, waiting or served, Q (QLen).
    pub jobs: f64,
    /// Mean share of the station's greatest speed that the class uses, U (Util): from 0 to 1 for
    /// any number of servers, of which it is the mean share that is busy. None for a delay.
    pub utilisation: Option<f64>,
    /// Time of one visit, waiting and served (RespT) \[s\].
    pub response: f64,
    /// Time of all visits of a cycle, V times the response (ResidT) \[s\].
    pub residence: f64,
    /// Arrivals, X V (ArvR) [1/s].
    pub arrival_rate: f64,
    /// Departures (Tput) [1/s]: as many as arrive.
    pub throughput: f64,
}

impl NetworkAnswer {
    /// Results of a class at a station.
    ///
    /// # Panics
    /// If there is no such station or class.
    pub fn at(&self, station: usize, class: usize) -> VisitAnswer {
        self.visits[station][class]
    }

    /// Mean number of jobs of all classes at a station.
    ///
    /// # Panics
    /// If there is no such station.
    pub fn jobs_at(&self, station: usize) -> f64 {
        self.visits[station].iter().map(|visit| visit.jobs).sum()
    }

    /// Utilisation of a station by all classes, from 0 to 1; none for a delay.
    ///
    /// # Panics
    /// If there is no such station.
    pub fn utilisation_of(&self, station: usize) -> Option<f64> {
        self.visits[station].iter().map(|visit| visit.utilisation).sum()
    }

    /// Exact, or how far off the algorithm was on networks of this kind.
    pub fn exactness(&self) -> Exactness {
        self.exactness
    }
}

/// Results of an algorithm, from which all else follows.
pub(super) struct Flows {
    /// X by class of the network.
    throughput: Vec<f64>,
    /// R_ck by station, then by class of the network.
    residence: Vec<Vec<f64>>,
}

impl Flows {
    /// Nothing but the open classes' rates.
    pub(super) fn zero(model: &Model) -> Flows {
        let mut throughput = vec![0.0; model.classes];
        for (&class, &lambda) in model.open.iter().zip(&model.lambda) {
            throughput[class] = lambda;
        }
        Flows { throughput, residence: vec![vec![0.0; model.classes]; model.stations.len()] }
    }

    /// Records a closed class, by its index among the closed ones; its time at delays is known.
    pub(super) fn set_closed(
        &mut self,
        model: &Model,
        closed: usize,
        throughput: f64,
        residence: impl Fn(usize) -> f64,
    ) {
        let class = model.closed[closed];
        self.throughput[class] = throughput;
        for (k, spot) in model.stations.iter().enumerate() {
            self.residence[k][class] =
                if spot.is_delay() { spot.demand[class] } else { residence(k) };
        }
    }

    /// Records the open classes, from their residence at a station.
    pub(super) fn set_open(&mut self, model: &Model, residence: impl Fn(usize, usize) -> f64) {
        for &class in &model.open {
            for (k, spot) in model.stations.iter().enumerate() {
                self.residence[k][class] =
                    if spot.is_delay() { spot.demand[class] } else { residence(k, class) };
            }
        }
    }
}

/// The whole answer, checked.
pub(super) fn assembled(
    network: &Network,
    model: &Model,
    algorithm: Algorithm,
    flows: &Flows,
) -> Result<NetworkAnswer, SolveError> {
    let visits: Vec<Vec<VisitAnswer>> = model
        .stations
        .iter()
        .zip(&flows.residence)
        .map(|(spot, residence)| {
            let row = |class: usize| {
                let (x, residence) = (flows.throughput[class], residence[class]);
                let visits = spot.visits[class];
                let response = if visits > 0.0 { residence / visits } else { 0.0 };
                VisitAnswer {
                    jobs: x * residence,
                    utilisation: (!spot.is_delay()).then(|| x * spot.demand[class] / spot.peak),
                    response,
                    residence,
                    arrival_rate: x * visits,
                    throughput: x * visits,
                }
            };
            (0..model.classes).map(row).collect()
        })
        .collect();
    let classes = (0..model.classes)
        .map(|class| {
            let response = flows.residence.iter().map(|residence| residence[class]).sum();
            let throughput = flows.throughput[class];
            ClassAnswer { throughput, response, jobs: throughput * response }
        })
        .collect();
    let exactness = approximate::exactness(model, algorithm);
    let answer = NetworkAnswer { algorithm, classes, visits, exactness };
    check(network, model, &answer)?;
    Ok(answer)
}

/// Little's law for every class, capacities, and the asymptotic bounds, up to rounding.
fn check(network: &Network, model: &Model, answer: &NetworkAnswer) -> Result<(), SolveError> {
    let name = answer.algorithm.name();
    let unsound =
        |what: String, value: f64, law| SolveError::Unsound { algorithm: name, what, value, law };
    let slack = 1e-12 * (f64::from(model.customers()) + 1e4);
    for (index, class) in network.classes.iter().enumerate() {
        let ClassAnswer { throughput, jobs, .. } = answer.classes[index];
        let text = |what: &str| format!("{what} of class `{}`", class.name);
        if !(throughput.is_finite() && throughput >= 0.0) {
            return Err(unsound(text("the throughput"), throughput, "the range of a rate"));
        }
        if let Load::Closed { customers, think } = class.load {
            let counted = jobs + throughput * think;
            let n = f64::from(customers);
            if counted.is_nan() || (counted - n).abs() > slack * n {
                return Err(unsound(text("the number of customers"), counted, "Little's law"));
            }
        }
        for (k, rows) in answer.visits.iter().enumerate() {
            let residence = rows[index].residence;
            let least = model.stations[k].demand[index] / model.fastest_for_one(k);
            if !(residence >= least * (1.0 - slack) && residence.is_finite()) {
                let what = format!(
                    "the residence of class `{}` at station `{}`",
                    class.name, network.stations[k].name
                );
                return Err(unsound(what, residence, "the service that a job needs"));
            }
        }
    }
    for k in 0..model.stations.len() {
        let utilisation = answer.utilisation_of(k).unwrap_or(0.0);
        if utilisation.is_nan() || utilisation > 1.0 + slack {
            let what = format!("the utilisation of station `{}`", network.stations[k].name);
            return Err(unsound(what, utilisation, "the capacity, 1"));
        }
    }
    for (index, class) in network.classes.iter().enumerate() {
        let bounds = super::bounds::of(network, model, index);
        let x = answer.classes[index].throughput;
        let (low, high) = (bounds.throughput_min, bounds.throughput_max);
        if !(x >= low * (1.0 - slack) && x <= high * (1.0 + slack)) {
            let what = format!("the throughput of class `{}`", class.name);
            return Err(unsound(what, x, "its asymptotic bounds"));
        }
    }
    Ok(())
}
