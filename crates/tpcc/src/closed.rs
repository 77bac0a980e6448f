//! A run without waits as a closed load, so that whatever judges, fits and checks closed loads takes it
//! too: as many clients as connections, which never think.

use std::collections::BTreeMap;

use measure::{ClassSpec, LoadShape, RunHeader, RunRecord, RunSummary, Until, figures};
use workload::tpcc::Kind;

use super::record::{End, Record};

/// Why a record is no closed load.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotClosed {
    /// Terminals waited as people do.
    #[error(
        "its terminals keyed and thought: only runs without waits are closed loads; make some with \
         `sekisho tpcc stress --connections 1,2,4,8`"
    )]
    Paced,
    /// It is a part of a run, and the server saw all of them.
    #[error("it is one part of a run; merge the records of all parts first (`sekisho tpcc merge`)")]
    Part,
    /// Nothing was counted by interval: an older record, or the end came at once.
    #[error("it has no intervals; run it again with `sekisho tpcc stress`")]
    NoIntervals,
    /// It ended without its server, or by an error.
    #[error("it is invalid: {0}")]
    Broken(String),
}

impl Record {
    /// The run as a closed load of one class a kind. What a record of TPC-C does not know is empty:
    /// the run's name, its beginning, tool and command.
    ///
    /// # Errors
    /// If it is none, or came to nothing.
    pub fn closed(&self) -> Result<RunRecord, NotClosed> {
        let plan = &self.plan;
        match &self.end {
            End::Lost(_, why) | End::Failed(_, why) => return Err(NotClosed::Broken(why.clone())),
            End::Complete | End::Interrupted(_) => {}
        }
        if plan.pace.waits() {
            return Err(NotClosed::Paced);
        }
        if self.part.is_some() {
            return Err(NotClosed::Part);
        }
        if self.intervals.is_empty() {
            return Err(NotClosed::NoIntervals);
        }
        let class = |kind: &Kind| ClassSpec {
            name: kind.name().into(),
            bytes: None,
            weight: kind.rules().cards.into(),
        };
        let words: Vec<&str> = self.server.version.split(' ').take(2).collect();
        let header = RunHeader {
            id: String::new(),
            started: String::new(),
            tool: String::new(),
            command: Vec::new(),
            seed: plan.seed,
            host: self.host.clone(),
            target: format!(
                "TPC-C-like, {}: {}",
                figures::count(plan.warehouses.into(), "warehouse"),
                words.join(" ")
            ),
            load: LoadShape::Closed { clients: plan.connections, think_s: 0.0 },
            until: Until::Seconds(plan.measure.as_secs_f64()),
            warmup_s: plan.ramp.as_secs_f64(),
            classes: Kind::ALL.iter().map(class).collect(),
            settings: self.closed_settings(),
            part: None,
            merged: Vec::new(),
        };
        let interrupted = matches!(self.end, End::Interrupted(_));
        let summary =
            RunSummary { elapsed_s: self.client.elapsed_s, interrupted, warnings: Vec::new() };
        Ok(RunRecord { header, intervals: self.intervals.clone(), summary: Some(summary) })
    }

    fn closed_settings(&self) -> BTreeMap<String, String> {
        let plan = &self.plan;
        let own = [
            ("idle", "sleep".to_owned()),
            ("warehouses", plan.warehouses.to_string()),
            ("execution", format!("{:?}", plan.execution).to_lowercase()),
            ("isolation", plan.isolation.name().to_owned()),
        ];
        own.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Mean share of the processors of the terminals' machine that were busy while it was measured, by
    /// whatever ran there; `None` where that was not counted.
    pub fn machine_busy(&self) -> Option<f64> {
        let ramp = self.plan.ramp.as_secs_f64() - 1e-9;
        let steady = self.intervals.iter().zip(&self.machine_busy);
        let shares: Vec<f64> =
            steady.filter(|(of, _)| of.start_s >= ramp).map(|(_, share)| *share).collect();
        (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gate::Time;
    use measure::{Histogram, Host, LittleVerdict};

    use super::super::intervals::{Intervals, Meters, length};
    use super::super::record::{Client, DeferredRecord, InputCounts, Pace, Plan, Server};
    use super::super::transactions::{Execution, Isolation};
    use super::*;

    /// Four connections, each of which sends again as soon as it has its answer, after 4 to 12 ms in
    /// turn; six seconds, of which two are not used.
    fn record() -> Record {
        let plan = Plan {
            pace: Pace::Stress,
            warehouses: 2,
            connections: 4,
            ramp: Duration::from_secs(2),
            measure: Duration::from_secs(4),
            execution: Execution::Sql,
            isolation: Isolation::RepeatableRead,
            seed: 1,
        };
        let mut counted =
            Intervals::new(length(plan.ramp + plan.measure), Box::new(Meters::default));
        let end = Time::ZERO + plan.ramp + plan.measure;
        // By the moment of the answer: when it was sent, and of which kind it is.
        let mut open = std::collections::BTreeMap::new();
        let mut nth = 0_u64;
        let mut send =
            |counted: &mut Intervals, now: Time, open: &mut std::collections::BTreeMap<_, _>| {
                counted.sent(now, now);
                let answer = now + Duration::from_micros(4_000 + nth * 7_919 % 8_000);
                open.insert((answer, nth), (now, Kind::ALL[nth as usize * 3 % 5]));
                nth += 1;
            };
        (0..4).for_each(|_| send(&mut counted, Time::ZERO, &mut open));
        while let Some(((now, _), (sent, kind))) = open.pop_first() {
            if now >= end {
                break;
            }
            counted.answered(kind, sent, now);
            send(&mut counted, now, &mut open);
        }
        let (intervals, machine_busy) = counted.close(end);
        Record {
            plan,
            host: Host::default(),
            server: Server { version: "PostgreSQL 15.18 (x)".into(), ..Server::default() },
            end: End::Complete,
            measured_s: 4.0,
            kinds: Default::default(),
            menu: Histogram::new(),
            deferred: DeferredRecord::default(),
            inputs: InputCounts::default(),
            new_orders: Vec::new(),
            checkpoints: Vec::new(),
            errors: Default::default(),
            error_first: None,
            client: Client { elapsed_s: 6.0, ..Client::default() },
            part: None,
            merged: Vec::new(),
            intervals,
            machine_busy,
        }
    }

    #[test]
    fn the_books_of_a_closed_load_balance_and_the_ramp_is_left_out() {
        let run = record().closed().unwrap();
        assert_eq!((run.intervals.len(), run.steady().len()), (12, 8));
        assert_eq!(run.header.load, LoadShape::Closed { clients: 4, think_s: 0.0 });
        assert_eq!(run.header.target, "TPC-C-like, 2 warehouses: PostgreSQL 15.18");
        let judgement = run.judge(0.95);
        assert!(judgement.is_valid(), "{:?}", judgement.faults);
        assert_eq!(judgement.little.verdict, LittleVerdict::Closes);
        assert!((judgement.little.counted - 4.0).abs() < 1e-9, "{:?}", judgement.little);
        // Four under way for 8 ms each in the mean: 500 a second, all kinds alike.
        let throughput = judgement.all.throughput.mean;
        assert!((throughput - 500.0).abs() < 5.0, "{throughput}");
        assert!((judgement.all.response.unwrap().mean - 8e-3).abs() < 1e-4);
        assert!(judgement.classes.iter().all(|class| class.completed > 380));
    }

    #[test]
    fn books_that_do_not_balance_are_seen() {
        let mut record = record();
        for interval in &mut record.intervals {
            interval.in_flight_mean = 5.0;
        }
        let judgement = record.closed().unwrap().judge(0.95);
        assert_eq!(judgement.little.verdict, LittleVerdict::DoesNot);
    }

    #[test]
    fn what_is_no_closed_load_says_why() {
        let of = |change: fn(&mut Record)| {
            let mut record = record();
            change(&mut record);
            record.closed().map(drop)
        };
        assert_eq!(of(|record| record.plan.pace = Pace::Paced), Err(NotClosed::Paced));
        assert_eq!(of(|record| record.intervals.clear()), Err(NotClosed::NoIntervals));
        let lost = of(|record| record.end = End::Lost(1.0, "gone".into()));
        assert_eq!(lost, Err(NotClosed::Broken("gone".into())));
        assert_eq!(of(|record| record.end = End::Interrupted(1.0)), Ok(()));
    }

    #[test]
    fn how_busy_the_machine_was_leaves_the_ramp_out() {
        let mut record = record();
        assert_eq!(record.machine_busy(), None);
        record.machine_busy = [[1.0; 4], [0.5; 4], [0.25; 4]].concat();
        assert_eq!(record.machine_busy(), Some(0.375));
    }
}
