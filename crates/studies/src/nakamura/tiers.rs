//! Section 5: two tiers, each terminal with a connection of the database, against three, with the TP
//! monitor between them.
//!
//! The paper's machine was full with the load of some twenty warehouses. So that one of today is, keying
//! and think times are divided by what makes it so: the most warehouses of the paper then ask for
//! somewhat more than the machine can do.

use std::num::NonZeroU32;
use std::time::Duration;
use tpcc::{Config, DeliveryResult, Execution, Isolation, Outcome, Pace, Plan, Record, Watch, run};

use cli::Failure;
use measure::figures::digits;
use measure::{Estimate, Ratio};
use postgres::Private;
use report::{Axis, Curves, Reference, Section, Series};
use workload::tpcc::{Kind, rules};

use super::super::claim::{Answer, Evidence, Judged, Registry};
use super::super::measuring::{Extent, Measuring};
use crate::drawn::{Drawn, figure};
use crate::monitor::{Gate, Look, Memory};

/// The monitor's connections to the server, as in the paper.
const SLOTS: u32 = 20;
/// Those of the paper's measurements that its text speaks of, and what lies between.
const WAREHOUSES: [u32; 6] = [2, 8, 12, 16, 20, 24];
/// Those that claims are about.
const WAREHOUSES_SMALL: [u32; 3] = [8, 16, 24];
/// The most of both.
pub(super) const MOST: u32 = 24;
/// New-Orders a minute and warehouse that a valid configuration has (the paper's 5.3.2).
const VALID: [f64; 2] = [9.0, 12.86];
/// Capacity of the machine with the monitor, as a multiple of what the most warehouses must do at
/// least.
const SPARE: f64 = 1.1;
/// Two that differ by less are alike.
const ALIKE: f64 = 0.1;

/// Presence of a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tiers {
    Two,
    Three,
}

/// Two, three, three, two: what drifts changes both.
const ORDER: [Tiers; 4] = [Tiers::Two, Tiers::Three, Tiers::Three, Tiers::Two];

/// The numbers of warehouses that are measured.
pub(super) fn warehouses(extent: Extent) -> &'static [u32] {
    match extent {
        Extent::Full => &WAREHOUSES,
        Extent::Small => &WAREHOUSES_SMALL,
    }
}

/// Number of runs that it takes; the first tells what the machine can do.
pub(super) fn runs(extent: Extent) -> u32 {
    1 + (warehouses(extent).len() * ORDER.len()) as u32
}

/// With the load.
pub(super) fn steps(extent: Extent) -> u64 {
    u64::from(runs(extent)) + 1
}

/// A server with as many warehouses as are ever used.
struct Lab<'a> {
    server: Private,
    config: Config,
    measuring: &'a Measuring<'a>,
}

/// Observations of one run.
struct Seen {
    /// New-Orders a minute.
    rate: Estimate,
    p90_s: f64,
    memory: Option<Memory>,
    /// Connections to the server that the monitor has made.
    connects: u64,
}

impl<'a> Lab<'a> {
    fn open(measuring: &'a Measuring<'a>) -> Result<Lab<'a>, Failure> {
        let connections = (MOST * u32::from(rules::TERMINALS) + SLOTS + 16).to_string();
        let parameters = [
            ("shared_buffers", "512MB"),
            ("max_wal_size", "4GB"),
            ("max_connections", connections.as_str()),
        ];
        let server = measuring.server(&parameters, None)?;
        let config: Config = server.url().as_str().parse().map_err(Failure::defect)?;
        measuring.load(&config, MOST)?;
        Ok(Lab { server, config, measuring })
    }

    fn plan(&self, pace: Pace, warehouses: u32, connections: u32) -> Plan {
        Plan {
            pace,
            warehouses,
            connections,
            ramp: Duration::from_secs(1),
            measure: self.measuring.length(),
            execution: Execution::Sql,
            isolation: Isolation::RepeatableRead,
            seed: self.measuring.seed.wrapping_add(u64::from(connections)),
        }
    }

    fn run(&self, tiers: Tiers, plan: &Plan) -> Result<Seen, Failure> {
        let way = match tiers {
            Tiers::Two => "directly",
            Tiers::Three => "monitored",
        };
        let step = format!("{} warehouses, {way}", plan.warehouses);
        self.measuring.step(&step)?;
        let gate = match tiers {
            Tiers::Two => None,
            Tiers::Three => Some(Gate::start(&self.config, SLOTS, plan.connections)?),
        };
        let config = match &gate {
            None => self.config.clone(),
            Some(gate) => gate.before(&self.server)?,
        };
        let mut looker =
            Looker { server: self.server.pid(), half: (plan.ramp + plan.measure) / 2, look: None };
        let record = run(&config, plan, self.measuring.interrupt(), &mut looker);
        self.measuring.unless_interrupted(&step)?;
        let memory = looker.look.and_then(Look::seen);
        let record = record.map_err(Failure::machine)?;
        let pools = gate.map(Gate::stop).transpose()?.map_or(Vec::new(), |ended| ended.stats.pools);
        let connects = pools.iter().map(|pool| pool.counters.connects).sum();
        self.measuring.done(&step)?;
        Seen::of(&record, memory, connects)
    }
}

impl Seen {
    fn of(record: &Record, memory: Option<Memory>, connects: u64) -> Result<Seen, Failure> {
        let judged = record.judge();
        if let Outcome::Invalid(why) = judged.outcome {
            return Err(Failure::Machine(format!("a run is invalid: {why}")));
        }
        let p90_s = record.of(Kind::NewOrder).response.quantile(0.9).as_secs_f64();
        Ok(Seen { rate: judged.new_orders_per_minute, p90_s, memory, connects })
    }
}

/// Looks at the server's memory half-way through a run. A run begins once all its connections are open,
/// which takes the longer the more there are: before that there would be fewer of them to see.
struct Looker {
    server: Option<u32>,
    half: Duration,
    look: Option<Look>,
}

impl Watch for Looker {
    fn tick(&mut self, elapsed: Duration, _: u64) {
        let left = self.half.saturating_sub(elapsed);
        self.look.get_or_insert_with(|| Look::after(left, self.server));
    }

    fn delivered(&mut self, _: &DeliveryResult) {}
}

/// Both ways at one number of warehouses.
struct Row {
    warehouses: u32,
    two: Vec<Seen>,
    three: Vec<Seen>,
}

impl Row {
    /// New-Orders a minute and warehouse, of terminals as slow as people.
    fn each(&self, tiers: Tiers, by: NonZeroU32) -> Estimate {
        let runs = self.of(tiers);
        let weight = 1.0 / (runs.len() as f64 * f64::from(self.warehouses) * f64::from(by.get()));
        let parts: Vec<_> = runs.iter().map(|seen| (weight, seen.rate)).collect();
        Estimate::combine(&parts)
    }

    fn of(&self, tiers: Tiers) -> &[Seen] {
        match tiers {
            Tiers::Two => &self.two,
            Tiers::Three => &self.three,
        }
    }

    /// The most memory that was seen \[MB\].
    fn memory(&self, tiers: Tiers) -> Option<f64> {
        let seen = self.of(tiers).iter().filter_map(|seen| seen.memory);
        seen.map(|memory| memory.resident).max().map(|bytes| bytes as f64 / 1e6)
    }
}

/// All that was measured.
struct Measured {
    /// Divisor of keying and think times.
    by: NonZeroU32,
    /// New-Orders a minute that the machine did with the monitor, without waits.
    capacity: f64,
    rows: Vec<Row>,
}

/// Judges the claims of section 5.
pub(super) fn measure(
    registry: &Registry,
    measuring: &Measuring,
) -> Result<(Vec<Judged>, Section), Failure> {
    let lab = Lab::open(measuring)?;
    let capacity = lab.run(Tiers::Three, &lab.plan(Pace::Stress, MOST, SLOTS))?.rate.mean;
    let by = (capacity / (f64::from(MOST) * VALID[0] * SPARE)) as u32;
    let by = NonZeroU32::new(by).unwrap_or(NonZeroU32::MIN);
    let mut rows = Vec::new();
    for &warehouses in warehouses(measuring.extent) {
        let connections = warehouses * u32::from(rules::TERMINALS);
        let plan = lab.plan(Pace::Hastened(by), warehouses, connections);
        let mut row = Row { warehouses, two: Vec::new(), three: Vec::new() };
        for tiers in ORDER {
            let seen = lab.run(tiers, &plan)?;
            match tiers {
                Tiers::Two => row.two.push(seen),
                Tiers::Three => row.three.push(seen),
            }
        }
        rows.push(row);
    }
    lab.server.stop().map_err(Failure::machine)?;
    let measured = Measured { by, capacity, rows };
    Ok((measured.judge(registry), measured.section()?))
}

impl Measured {
    fn at(&self, warehouses: u32) -> &Row {
        self.rows.iter().find(|row| row.warehouses == warehouses).expect("it was measured")
    }

    fn each(&self, tiers: Tiers, warehouses: u32) -> Estimate {
        self.at(warehouses).each(tiers, self.by)
    }

    /// In the order of the list.
    fn judge(&self, registry: &Registry) -> Vec<Judged> {
        vec![
            self.alike(registry),
            self.overload(registry),
            self.valid(registry),
            self.grows(registry),
            self.queue(registry),
            self.connections(registry),
            self.memory(registry),
        ]
    }

    fn alike(&self, registry: &Registry) -> Judged {
        let ratio = Ratio::of(self.each(Tiers::Two, 8), self.each(Tiers::Three, 8));
        let answer = Answer::above(1.0 - ALIKE, ratio.low, ratio.high).and(Answer::below(
            1.0 + ALIKE,
            ratio.low,
            ratio.high,
        ));
        registry
            .claim("monitor-alike")
            .judge()
            .measured(format!("x{:.2}", ratio.ratio))
            .found(format!(
                "New-Orders at 8 warehouses, with the monitor over without: {}.",
                range(ratio)
            ))
            .shape(answer)
    }

    fn overload(&self, registry: &Registry) -> Judged {
        let ratio = Ratio::of(self.each(Tiers::Two, 8), self.each(Tiers::Two, 24));
        registry
            .claim("monitor-overload")
            .judge()
            .measured(format!("x{:.2}", ratio.ratio))
            .found(format!(
                "Without it, New-Orders a warehouse at 24 warehouses over those at 8: {}.",
                range(ratio)
            ))
            .shape(Answer::below(1.0 - ALIKE, ratio.low, ratio.high))
    }

    /// The most warehouses up to which all are valid, as far as the intervals tell.
    fn valid_up_to(&self, tiers: Tiers) -> u32 {
        let valid = |row: &&Row| row.each(tiers, self.by).mean >= VALID[0];
        self.rows.iter().take_while(valid).last().map_or(0, |row| row.warehouses)
    }

    fn valid(&self, registry: &Registry) -> Judged {
        let [two, three] = [Tiers::Two, Tiers::Three].map(|tiers| self.each(tiers, 24));
        let answer = Answer::above(VALID[0], three.low(), three.high()).and(Answer::below(
            VALID[0],
            two.low(),
            two.high(),
        ));
        registry
            .claim("monitor-valid")
            .judge()
            .measured(format!(
                "{}, {}",
                self.valid_up_to(Tiers::Two),
                self.valid_up_to(Tiers::Three)
            ))
            .found(format!(
                "At 24 warehouses {:.1} ± {:.1} New-Orders a minute and warehouse without and {:.1} ± {:.1} \
                 with the monitor, by terminals {} times as fast as people.",
                two.mean, two.half_width, three.mean, three.half_width, self.by
            ))
            .shape(answer)
    }

    fn grows(&self, registry: &Registry) -> Judged {
        let growth = |tiers| Ratio::of(self.each(tiers, 16), self.each(tiers, 24));
        let [two, three] = [growth(Tiers::Two), growth(Tiers::Three)];
        let ends = [two.low, two.high, three.low, three.high];
        let answer = Evidence::of(&ends, |ends| match () {
            () if ends[2] > ends[1] => Answer::Yes,
            () if ends[3] < ends[0] => Answer::No,
            () => Answer::CannotTell,
        });
        let all = |ratio: Ratio| ratio.ratio * 24.0 / 16.0;
        registry
            .claim("monitor-grows")
            .judge()
            .measured(format!("x{:.2}, x{:.2}", all(two), all(three)))
            .found("New-Orders in all at 24 warehouses over those at 16, without the monitor and with it.")
            .shape(answer)
    }

    fn queue(&self, registry: &Registry) -> Judged {
        let ratio = Ratio::of(self.each(Tiers::Three, 8), self.each(Tiers::Three, 24));
        registry
            .claim("monitor-queue")
            .judge()
            .measured(format!("x{:.2}", ratio.ratio))
            .found(format!(
                "With it, New-Orders a warehouse at 24 warehouses over those at 8: {}.",
                range(ratio)
            ))
            .shape(Answer::below(1.0, ratio.low, ratio.high))
    }

    fn connections(&self, registry: &Registry) -> Judged {
        let claim = registry.claim("monitor-connections");
        let row = self.at(24);
        let connects = row.three.iter().map(|seen| seen.connects).max().unwrap_or(0);
        claim
            .judge()
            .measured(connects.to_string())
            .found(format!(
                "Connections to the server that the monitor made for {} terminals, all of which were let in.",
                24 * u32::from(rules::TERMINALS)
            ))
            .number(Evidence::of(&[connects as f64], |found| found[0] == claim.value()))
    }

    fn memory(&self, registry: &Registry) -> Judged {
        let claim = registry.claim("monitor-memory");
        let of = |tiers| Some([self.at(8).memory(tiers)?, self.at(16).memory(tiers)?]);
        let (Some(two), Some(three)) = (of(Tiers::Two), of(Tiers::Three)) else {
            return claim
                .judge()
                .not_run("The system does not tell how much memory processes take.");
        };
        let swapped = self.rows.iter().flat_map(|row| row.two.iter().chain(&row.three));
        let swapped = swapped.filter_map(|seen| seen.memory).map(|memory| memory.swapped).max();
        let swap = match swapped.unwrap_or(0) {
            0 => "nothing was swapped out".to_owned(),
            bytes => format!("{:.0} MB at most were swapped out", bytes as f64 / 1e6),
        };
        let more = Evidence::of(&[two[0], two[1], three[0], three[1]], |found| {
            found[1] > found[3] && found[1] - found[0] > found[3] - found[2]
        });
        claim
            .judge()
            .measured(format!("{:.0} {:.0}, {:.0} {:.0}", two[0], two[1], three[0], three[1]))
            .found(format!(
                "Memory of the server's processes [MB], shared pages counted once, at 8 and 16 warehouses \
                 without the monitor and with it; {swap}."
            ))
            .shape(more)
    }

    /// Figures 10 and 11.
    fn section(&self) -> Result<Section, Failure> {
        let axis = || Axis::linear("Warehouses", "");
        let both = |y: Axis, of: &dyn Fn(&Row, Tiers) -> Valued| {
            NAMES.into_iter().fold(Curves::new(axis(), y), |curves, (tiers, name)| {
                let points = self.rows.iter().map(|row| {
                    let (value, interval) = of(row, tiers);
                    (f64::from(row.warehouses), value, interval)
                });
                curves.series(Series::estimated(name, points))
            })
        };
        let by = self.by;
        let label = "New-Orders a minute and warehouse";
        let each = both(Axis::linear(label, ""), &|row, tiers| ends(row.each(tiers, by)));
        let each = each
            .reference(Reference::y("least that is valid", VALID[0]))
            .reference(Reference::y("most that is possible", VALID[1]));
        let all = both(Axis::linear("New-Orders a minute", ""), &|row, tiers| {
            let (value, interval) = ends(row.each(tiers, by));
            let all = |each: f64| each * f64::from(row.warehouses);
            (all(value), interval.map(|ends| ends.map(all)))
        });
        let p90 = both(Axis::log("90th percentile of New-Order", "ms"), &|row, tiers| {
            let seen = row.of(tiers).iter().map(|seen| seen.p90_s * 1e3);
            let mean = seen.clone().sum::<f64>() / ORDER.len() as f64 * 2.0;
            let least = seen.clone().fold(f64::INFINITY, f64::min);
            (mean, Some([least, seen.fold(0.0, f64::max)]))
        });
        Ok(Section::new("The TP monitor: section 5 of the paper")
            .paragraph(format!(
                "Ten terminals a warehouse, without the monitor a connection of the server each, with it \
                 {SLOTS} in all. Keying and think times are divided by {by}, so that {MOST} warehouses may ask \
                 for up to {:.2} times the rate that this machine had with the monitor and no waits; rates are \
                 divided by {by} again.",
                self.asked()
            ))
            .figure(figure("Figure 10: the rate of a warehouse", each, |drawn| {
                with_most_warehouses(drawn, "with intervals where they can be told", "a minute and warehouse")
            })?)
            .figure(figure("Figure 11: the rate in all", all, |drawn| {
                with_most_warehouses(drawn, "with intervals where they can be told", "a minute")
            })?)
            .figure(figure("Response", p90, |drawn| {
                let told = with_most_warehouses(drawn, "bars from the less to the more", "ms");
                format!("Not in the paper. {told}")
            })?))
    }

    /// The most that terminals may ask for, over the rate that the machine had.
    fn asked(&self) -> f64 {
        f64::from(MOST) * VALID[1] * f64::from(self.by.get()) / self.capacity
    }
}

/// The names of both ways in a figure.
const NAMES: [(Tiers, &str); 2] =
    [(Tiers::Two, "without the monitor"), (Tiers::Three, "with the monitor")];

/// Description of the dots, and the values of both ways at the most warehouses.
fn with_most_warehouses(drawn: &Drawn, bars: &str, unit: &str) -> String {
    let last = |(_, name): (Tiers, &str)| {
        let [_, [warehouses, value]] = drawn.row(name).ends()?;
        Some((warehouses, format!("{} {name}", digits(value))))
    };
    let dots = format!("Dots are the means of {} runs, {bars}.", ORDER.len() / NAMES.len());
    match NAMES.map(last) {
        [Some((warehouses, two)), Some((_, three))] => {
            format!("{dots} With {warehouses} warehouses {two} and {three} [{unit}].")
        }
        _ => dots,
    }
}

/// A value and its interval, if it has one.
type Valued = (f64, Option<[f64; 2]>);

/// The value and its interval; runs too short for one have none.
fn ends(estimate: Estimate) -> Valued {
    let interval = [estimate.low(), estimate.high()];
    (estimate.mean, estimate.half_width.is_finite().then_some(interval))
}

fn range(Ratio { low, high, .. }: Ratio) -> String {
    format!("{low:.2} to {high:.2} times")
}

#[cfg(test)]
mod tests {
    use super::super::registry;
    use super::*;
    use crate::claim::Finding;

    fn rate(mean: f64) -> Estimate {
        Estimate { mean, half_width: 0.01 * mean, confidence: 0.95, n: 6 }
    }

    /// Rates a warehouse without and with the monitor, and memory as the paper has swap.
    fn measured(two: [f64; 6], three: [f64; 6]) -> Measured {
        let by = NonZeroU32::new(100).unwrap();
        let seen = |each: f64, warehouses: u32, connects, resident| {
            let rate = rate(each * f64::from(warehouses) * 100.0);
            let memory = Some(Memory { resident, swapped: 0 });
            vec![Seen { rate, p90_s: 0.01, memory, connects }]
        };
        let rows = WAREHOUSES.iter().enumerate().map(|(at, &warehouses)| Row {
            warehouses,
            two: seen(two[at], warehouses, 0, u64::from(warehouses) * 10_000_000),
            three: seen(three[at], warehouses, 20, 20_000_000),
        });
        Measured { by, capacity: 24_000.0, rows: rows.collect() }
    }

    #[test]
    fn what_the_paper_measured_is_found_as_it_says() {
        let two = [12.3, 12.2, 12.0, 10.0, 6.0, 4.0];
        let three = [12.3, 12.2, 12.2, 12.0, 11.0, 9.8];
        let found = measured(two, three);
        let judged = found.judge(&registry());
        assert!(judged.iter().all(Judged::is_expected), "{judged:?}");
        assert_eq!(judged[2].measured, "16, 24");
        let section = found.section().unwrap();
        assert!(
            format!("{section:?}").contains("ask for up to 1.29 times the rate"),
            "{section:?}"
        );
        let mut short = measured(two, three);
        short.rows[0].two[0].rate.half_width = f64::INFINITY;
        assert!(short.section().is_ok(), "too short for an interval");
    }

    #[test]
    fn a_monitor_that_brings_nothing_is_told() {
        let same = [12.3, 12.2, 12.2, 12.0, 11.0, 9.8];
        let judged = measured(same, same).judge(&registry());
        let findings: Vec<Finding> = judged.iter().map(|one| one.finding).collect();
        assert_eq!(findings[2], Finding::DoesNotReproduce, "valid at 24 without it");
        assert_eq!(findings[3], Finding::Undecided, "grows alike");
        let worse = [12.3, 10.5, 9.0, 7.0, 6.0, 5.0];
        let judged = measured(same, worse).judge(&registry());
        assert_eq!(judged[0].finding, Finding::DoesNotReproduce, "not alike at 8");
    }
}
