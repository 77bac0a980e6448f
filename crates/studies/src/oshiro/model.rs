//! Prediction of experiment 1 for Jungle: a scenario fitted to few connections, as `sekisho fit` does, and asked for
//! many, as `sekisho ask` does.

use advise::{FitError, FitOptions, Load, LoadPoint, Question, SourceFit};
use board_bench::Mix;
use cli::{Failure, store};

use super::experiment::{CONNECTIONS, Experiment, One};
use crate::measuring::Measuring;

/// A number of clients, predicted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Predicted {
    pub(super) clients: u32,
    /// Requests a second, by formula and by simulation \[1/s\].
    pub(super) rates: [f64; 2],
    /// Mean response, by simulation \[s\].
    pub(super) response_s: f64,
}

/// A mix on Jungle: what was fitted and what follows from it.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) mix: Mix,
    /// Time of a request at the one station that queues, fitted \[s\].
    pub(super) demand_s: f64,
    /// Processor time of board and load engine a request, with the most of the few connections, over the processors
    /// \[s\].
    pub(super) cpu_s: f64,
    /// Each number of clients; or the reason why nothing was predicted.
    pub(super) predicted: Result<Vec<Predicted>, Unpredicted>,
}

/// Why nothing was predicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unpredicted {
    /// A queue and a delay contradict the runs of few connections.
    DoesNotFit(String),
    /// Anything else.
    Other(String),
}

impl Unpredicted {
    pub(super) fn cause(&self) -> &str {
        match self {
            Self::DoesNotFit(cause) | Self::Other(cause) => cause,
        }
    }
}

/// Fits and asks, a mix after the other.
pub(super) fn models(
    experiment: &Experiment,
    measuring: &Measuring,
) -> Result<Vec<Model>, Failure> {
    let model = |mix| {
        let few: Vec<&One> = experiment.few.iter().filter(|few| few.mix == mix).collect();
        let last = few.last().expect("each mix has its runs of few connections");
        let cpu_s = last.cpu_s / experiment.processors as f64;
        let (demand_s, predicted) = match fitted(&few, measuring.seed) {
            Ok(fit) => (demand(&fit), asked(&fit, &experiment.clients(), measuring.seed)),
            Err(error) => (f64::NAN, Err(error)),
        };
        measuring.unless_interrupted("predicting")?;
        Ok(Model { mix, demand_s, cpu_s, predicted })
    };
    Mix::ALL.into_iter().map(model).collect()
}

fn fitted(few: &[&One], seed: u64) -> Result<SourceFit, Unpredicted> {
    let point = |(at, few): (usize, &&One)| LoadPoint {
        line: at + 1,
        clients: f64::from(few.connections),
        throughput: few.rate,
        response: Some(few.response_s),
    };
    let points: Vec<LoadPoint> = few.iter().enumerate().map(point).collect();
    let options = FitOptions {
        slots: None,
        cores: None,
        seed,
        confidence: 0.95,
        date: store::now_rfc3339(),
        name: "jungle".into(),
    };
    let sources = ["experiment 1, few connections".to_owned()];
    advise::fit_points(&points, &sources, &options).map_err(|error| match error {
        FitError::DoesNotFit(how) => Unpredicted::DoesNotFit(how),
        error => Unpredicted::Other(error.to_string()),
    })
}

/// The fitted demand.
fn demand(fit: &SourceFit) -> f64 {
    let calibration = fit.scenario.calibration.as_ref();
    calibration.and_then(|one| one.parameters.get("demand")).map_or(f64::NAN, |one| one.value)
}

fn asked(fit: &SourceFit, clients: &[u32], seed: u64) -> Result<Vec<Predicted>, Unpredicted> {
    let question = Question {
        clients: clients.iter().map(|clients| clients * CONNECTIONS).collect(),
        ..Question::default()
    };
    let points = advise::ask(&fit.scenario, &question, &advise::options(seed), |_, _| {});
    let points = points.map_err(|error| Unpredicted::Other(error.to_string()))?;
    let predicted = points.iter().map(|point| {
        let Load::Clients(connections) = point.load else { unreachable!("it was asked so") };
        let simulated = point.simulation.throughput.mean;
        // Where no formula is near enough, the simulation stands alone.
        let formula = point.formula.as_ref().map_or(simulated, |one| one.throughput.mean);
        Predicted {
            clients: connections / CONNECTIONS,
            rates: [formula, simulated],
            response_s: point.simulation.response.mean,
        }
    });
    Ok(predicted.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commits that share a sync: 20 connections get more than 20 times what one gets, which no queue does.
    #[test]
    fn commits_that_share_a_sync_are_no_queue() {
        let few: Vec<One> = [(1, 100.0), (4, 380.0), (20, 6_000.0)]
            .into_iter()
            .map(|(connections, rate)| One {
                mix: Mix::W100,
                connections,
                completed: rate as u64,
                failed: 0,
                rate,
                response_s: f64::from(connections) / rate,
                cpu_s: 1e-4,
            })
            .collect();
        let refused = fitted(&few.iter().collect::<Vec<_>>(), 1).unwrap_err();
        assert!(
            matches!(&refused, Unpredicted::DoesNotFit(how) if how.contains("off")),
            "{refused:?}"
        );
    }

    /// A station of 100 us behind 50 us of delay: many connections get 10,000 a second, whatever their number.
    #[test]
    fn few_connections_of_a_queue_predict_many() {
        let few: Vec<One> = [(1, 6_667.0), (4, 10_000.0), (20, 10_000.0)]
            .into_iter()
            .map(|(connections, rate)| One {
                mix: Mix::R100,
                connections,
                completed: rate as u64,
                failed: 0,
                rate,
                response_s: f64::from(connections) / rate,
                cpu_s: 1e-4,
            })
            .collect();
        let fit = fitted(&few.iter().collect::<Vec<_>>(), 1).unwrap();
        assert!((demand(&fit) / 1e-4 - 1.0).abs() < 0.05, "{}", demand(&fit));
        let predicted = asked(&fit, &[10, 45], 1).unwrap();
        assert_eq!(predicted.iter().map(|one| one.clients).collect::<Vec<_>>(), [10, 45]);
        for one in predicted {
            assert!(one.rates.iter().all(|rate| (rate / 1e4 - 1.0).abs() < 0.05), "{one:?}");
            let little = f64::from(one.clients * CONNECTIONS) / one.rates[1];
            assert!((one.response_s / little - 1.0).abs() < 0.05, "{one:?}");
        }
    }
}
