//! The frequency with which a run is called wrong whose terminals ask for what they must, and are
//! answered at once: by the dealing and drawing of the terminals themselves, without a database.

use std::collections::BTreeMap;
use std::time::Duration;

use measure::Histogram;
use workload::tpcc::{Constants, CustomerBy, Inputs, Kind, Request, Terminal, rules};

use super::super::super::record::{InputCounts, KindRecord, Pace, Record};
use super::super::{Finding, Outcome};
use super::good;

/// Time of an answer.
const ANSWER_S: f64 = 0.01;

/// Demand on a run.
#[derive(Clone, Copy)]
struct Asked {
    pace: Pace,
    warehouses: u32,
    ramp_s: f64,
    measure_s: f64,
    /// Of all terminals, without waits.
    transactions: u32,
}

impl Asked {
    fn paced(warehouses: u32, minutes: f64) -> Asked {
        let (pace, measure_s) = (Pace::Paced, minutes * 60.0);
        Asked { pace, warehouses, ramp_s: 60.0, measure_s, transactions: 0 }
    }

    fn stress(transactions: u32) -> Asked {
        Asked { pace: Pace::Stress, warehouses: 2, ramp_s: 0.0, measure_s: 600.0, transactions }
    }

    /// The record of such a run, in which nothing but chance is at work.
    fn record(self, seed: u64) -> Record {
        let mut record = good();
        record.plan.pace = self.pace;
        record.plan.warehouses = self.warehouses;
        record.plan.ramp = Duration::from_secs_f64(self.ramp_s);
        record.plan.measure = Duration::from_secs_f64(self.measure_s);
        record.measured_s = self.measure_s;
        for of in &mut record.kinds {
            *of = KindRecord { think: Histogram::new(), completed: 0, ..of.clone() };
        }
        record.inputs = InputCounts::default();
        record.deferred.skipped = 0;
        let bucket_s = record.plan.bucket().as_secs_f64();
        record.new_orders = vec![0; ((self.ramp_s + self.measure_s) / bucket_s) as usize];
        record.checkpoints = (0..100)
            .map(|nth| super::Checkpoints {
                at_s: f64::from(nth) * 300.0,
                timed: i64::from(nth),
                requested: 0,
            })
            .collect();
        let inputs = Inputs::new(Constants::for_run(seed, 100), self.warehouses);
        let terminals = u32::from(rules::TERMINALS) * self.warehouses;
        for nth in 0..terminals {
            let (warehouse, index) = (nth / 10 + 1, (nth % 10) as u8);
            let mut terminal = Terminal::new(seed, inputs, warehouse, index);
            match self.pace {
                Pace::Stress => {
                    for _ in 0..self.transactions / terminals {
                        book(&mut record, &terminal.cycle().request);
                    }
                }
                _ => {
                    let begins = 20.0 * f64::from(nth) / f64::from(terminals);
                    self.wait_and_ask(&mut record, &mut terminal, (begins, bucket_s));
                }
            }
        }
        record
    }

    fn wait_and_ask(
        self,
        record: &mut Record,
        terminal: &mut Terminal,
        (begins, bucket_s): (f64, f64),
    ) {
        let (begin, end) = (self.ramp_s, self.ramp_s + self.measure_s);
        let mut at = begins;
        loop {
            let cycle = terminal.cycle();
            let (sent, kind) = (at + cycle.keying.as_secs_f64(), cycle.request.kind());
            let answered = sent + ANSWER_S;
            if answered >= end {
                return;
            }
            if kind == Kind::NewOrder {
                record.new_orders[(answered / bucket_s) as usize] += 1;
            }
            if begin <= sent {
                book(record, &cycle.request);
            }
            if begin <= answered {
                record.kinds[kind.index()].think.record(cycle.think);
            }
            at = answered + cycle.think.as_secs_f64();
        }
    }
}

/// Counts what was completed, as a tally does.
fn book(record: &mut Record, request: &Request) {
    record.kinds[request.kind().index()].completed += 1;
    let counts = &mut record.inputs;
    let named = |customer| u64::from(matches!(customer, CustomerBy::LastName(_)));
    match request {
        Request::NewOrder(order) => {
            let unused = order.lines.last().is_some_and(|line| line.item == rules::ITEM_UNUSED);
            counts.rollbacks += u64::from(unused);
            counts.orders_by_lines[order.lines.len() - 5] += 1;
            let remote = order.lines.iter().filter(|line| line.supply_warehouse != order.warehouse);
            counts.lines_remote += remote.count() as u64;
        }
        Request::Payment(payment) => {
            counts.payments_remote += u64::from(payment.customer_warehouse != payment.warehouse);
            counts.payments_by_name += named(payment.customer);
        }
        Request::OrderStatus(status) => counts.statuses_by_name += named(status.customer),
        Request::Delivery(_) | Request::StockLevel(_) => {}
    }
}

/// Number of runs by the rules, of so many, that are called wrong, and by each rule.
fn wrong(asked: Asked, runs: u64) -> (u64, BTreeMap<String, u64>) {
    let (mut wrong, mut by_rule) = (0, BTreeMap::new());
    for seed in 1..=runs {
        let judged = asked.record(seed).judge();
        wrong += u64::from(judged.outcome == Outcome::Deviates);
        let violated = judged.checks.into_iter().filter(|one| one.finding == Finding::Violated);
        violated.for_each(|check| *by_rule.entry(check.rule).or_default() += 1);
    }
    (wrong, by_rule)
}

/// Each bound was held at a level of its own: of ten warehouses by the rules that were measured for
/// ten minutes, 25.5 % were said to deviate, of two 11.9 %, of 5000 transactions without waits 5.3 %.
/// The seeds are fixed. Of 2000 runs a share is known to half a percent (one deviation), and what is
/// found here is 2.9 to 4.1 %, over two hours of two warehouses 2.3 %.
#[test]
fn of_runs_by_the_rules_no_more_than_one_in_twenty_is_called_wrong() {
    let cases = [
        ("1000 without waits", Asked::stress(1000), 2000),
        ("5000 without waits", Asked::stress(5000), 2000),
        ("2 warehouses for 10 minutes", Asked::paced(2, 10.0), 2000),
        ("10 warehouses for 10 minutes", Asked::paced(10, 10.0), 1000),
    ];
    for (name, asked, runs) in cases {
        let (wrong, by_rule) = wrong(asked, runs);
        let share = wrong as f64 / runs as f64;
        assert!(share <= 0.05, "{name}: {wrong} of {runs}, by {by_rule:#?}");
        // Chance is at work in them: a rule that nothing can violate would find none.
        assert!(wrong > 0, "{name}");
    }
}
