//! Section 4: response times with tables on one disk and over three (table 5), the sectors of each
//! disk (table 6), and what the placement followed.

use advise::Approximation;
use advise::disk_model::{
    self, DiskModel, DiskModelError, Effort, PAPER_ONE, PAPER_THREE, Point, limit,
};
use cli::Failure;
use cli::text::percent;
use measure::Estimate;
use tpcc::place::{Arrangement, Kind, LOG, Pattern, Rated, assign};
use workload::tpcc::Kind as Transaction;

use super::super::claim::{Answer, Evidence, Judged, Registry};

/// Table 6, sectors a second at 8 warehouses: all on one disk; the three disks.
const SECTORS_ONE: f64 = 3992.47;
pub(super) const SECTORS: [f64; 3] = [1013.74, 1848.08, 1385.90];

/// A point of the model beside the paper's.
pub(super) struct Row {
    pub(super) warehouses: u32,
    pub(super) paper: f64,
    pub(super) answer: disk_model::Answer,
}

/// Results of the model.
pub(super) struct Runs {
    one: DiskModel,
    pub(super) single: Vec<Row>,
    pub(super) spread: Vec<Row>,
    /// The most warehouses within the limit: one disk, three in the paper's shares, three evenly.
    pub(super) valid: [u32; 3],
}

impl Runs {
    pub(super) fn simulate(effort: Effort, seed: u64) -> Result<Runs, DiskModelError> {
        let one = DiskModel::fitted(&PAPER_ONE)?;
        let three = one.over(&SECTORS);
        let rows = |model: &DiskModel, points: &[Point]| -> Result<Vec<Row>, DiskModelError> {
            let row = |(warehouses, paper): &Point| {
                let answer = model.answer(*warehouses, effort, seed)?;
                Ok(Row { warehouses: *warehouses, paper: *paper, answer })
            };
            points.iter().map(row).collect()
        };
        let valid = [
            one.valid_most(effort, seed)?,
            three.valid_most(effort, seed)?,
            one.over(&[1.0; 3]).valid_most(effort, seed)?,
        ];
        Ok(Runs {
            single: rows(&one, &PAPER_ONE)?,
            spread: rows(&three, &PAPER_THREE)?,
            one,
            valid,
        })
    }

    /// The fitted time of a transaction at the disk.
    pub(super) fn demand_text(&self) -> String {
        format!("{:.3}", self.one.demand)
    }

    /// The three-disk row with as many warehouses as a one-disk row.
    fn pairs(&self) -> impl Iterator<Item = (&Row, &Row)> {
        let same = |row: &Row| self.spread.iter().find(|other| other.warehouses == row.warehouses);
        self.single.iter().filter_map(move |row| Some((row, same(row)?)))
    }
}

/// Judges the claims of section 4, in the order of the list.
pub(super) fn judge(registry: &Registry, runs: &Runs) -> Result<Vec<Judged>, Failure> {
    let mut judged = vec![little_log(registry, 0.1, "little-log")?, apart(registry)?];
    judged.extend(runs.single.iter().map(|row| point(registry, "one", row)));
    judged.extend(runs.spread.iter().map(|row| point(registry, "three", row)));
    judged.extend(claims_of_table_5(registry, runs));
    judged.extend(claims_of_table_6(registry, runs));
    Ok(judged)
}

/// Tables of like rates, and a log that has this share of all accesses.
fn with_log(share: f64) -> Vec<Rated> {
    let rate = |at: usize| 1.0 + at as f64;
    let tables: f64 = (0..9).map(rate).sum();
    let log = Rated {
        name: LOG.into(),
        kind: Kind::Log,
        pattern: Pattern::Sequential,
        rate: tables * share / (1.0 - share),
    };
    let table = |at| Rated {
        name: format!("table {at}"),
        kind: Kind::Table,
        pattern: Pattern::Random,
        rate: rate(at),
    };
    std::iter::once(log).chain((0..9).map(table)).collect()
}

fn little_log(registry: &Registry, share: f64, id: &str) -> Result<Judged, Failure> {
    let found = assign(&with_log(share), 3).map_err(Failure::defect)?;
    let least_used = found.arrangement == Arrangement::LogBesideLeastUsed;
    Ok(registry
        .claim(id)
        .judge()
        .formula(if least_used { "beside" } else { "not so" })
        .found(format!(
            "`tpcc place` with nine tables of rates 1 to 9 and a log with {:.0} % of the accesses: the \
             busiest of three directories is {} from the mean.",
            share * 100.0,
            percent(found.imbalance())
        ))
        .taken(least_used))
}

fn apart(registry: &Registry) -> Result<Judged, Failure> {
    let found = assign(&with_log(1.0 / 3.0), 3).map_err(Failure::defect)?;
    let is_apart = found.arrangement == Arrangement::Apart;
    Ok(registry
        .claim("log-apart")
        .judge()
        .formula(if is_apart { "apart" } else { "not so" })
        .found("`tpcc place` with a log that has a third of all accesses.")
        .taken(is_apart))
}

fn interval(estimate: &Estimate) -> String {
    let digits = if estimate.half_width < 0.01 { 3 } else { 2 };
    format!("{:.digits$} ± {:.digits$}", estimate.mean, estimate.half_width)
}

/// Error that the formula's values of either may have.
fn by_formula((single, spread): (&Row, &Row)) -> Approximation {
    single.answer.approximation.and(spread.answer.approximation)
}

/// A cell of table 5 beside the model's.
fn point(registry: &Registry, disks: &str, row: &Row) -> Judged {
    let claim = registry.claim(&format!("{disks}-{}", row.warehouses));
    let p90 = &row.answer.p90;
    let off = p90.mean / row.paper - 1.0;
    let same = |p90: f64| claim.same(p90, claim.value());
    let judged = claim
        .judge()
        .formula(format!("mean {:.2}", row.answer.response))
        .approximate(row.answer.approximation)
        .simulation(interval(p90))
        .found(format!("Seconds of the disk model, not of a machine: {} off.", percent(off)));
    // The model was fitted to the points of one disk.
    match disks {
        "one" => judged.taken(same(p90.mean)),
        _ => judged.number(Evidence::of(&[p90.mean], |found| same(found[0]))),
    }
}

fn claims_of_table_5(registry: &Registry, runs: &Runs) -> Vec<Judged> {
    let [one, three, even] = runs.valid;
    let found = format!("The most warehouses whose 90th percentile is within {} s.", limit());
    let valid = |id: &str, most: u32| {
        registry.claim(id).judge().simulation(most.to_string()).found(found.as_str())
    };
    let is_printed = |id: &str, most: f64| most == registry.claim(id).value();
    let valid_one = valid("valid-one", one).taken(is_printed("valid-one", one.into()));
    let valid_three = valid("valid-three", three)
        .number(Evidence::of(&[three.into()], |most| is_printed("valid-three", most[0])));
    let ratio = f64::from(three) / f64::from(one);
    let claim = registry.claim("valid-ratio");
    let ratio_valid = claim
        .judge()
        .simulation(format!("{ratio:.2}"))
        .number(Evidence::of(&[f64::from(three), f64::from(one)], |most| {
            claim.same(most[0] / most[1], claim.value())
        }));
    let ends: Vec<f64> = (runs.pairs())
        .flat_map(|(single, spread)| [spread.answer.p90.high(), single.answer.p90.low()])
        .collect();
    let faster = Evidence::of(&ends, |ends| ends.chunks(2).all(|pair| pair[0] < pair[1]));
    let times = |pair: (f64, f64)| format!("{:.1}", pair.0 / pair.1);
    let gains: Vec<String> = (runs.pairs())
        .map(|(single, spread)| times((single.answer.p90.mean, spread.answer.p90.mean)))
        .collect();
    let printed: Vec<String> =
        runs.pairs().map(|(single, spread)| times((single.paper, spread.paper))).collect();
    let at: Vec<String> = runs.pairs().map(|(single, _)| single.warehouses.to_string()).collect();
    let ordering = registry
        .claim("spread-faster")
        .judge()
        .simulation(format!("{}x", gains.join(" ")))
        .found(format!(
            "One disk over three, at {} warehouses; the paper's are {}.",
            at.join(", "),
            printed.join(", ")
        ))
        .shape(faster);
    let tpmc = |row: &Row| {
        let share = f64::from(Transaction::NewOrder.rules().cards)
            / Transaction::ALL.iter().map(|kind| f64::from(kind.rules().cards)).sum::<f64>();
        row.answer.throughput * share * 60.0 / f64::from(row.warehouses)
    };
    let rates: Vec<f64> =
        runs.pairs().flat_map(|(single, spread)| [tpmc(single), tpmc(spread)]).collect();
    let more = Evidence::of(&rates, |rates| rates.chunks(2).all(|pair| pair[1] > pair[0]));
    let last = runs.pairs().last();
    let throughput = registry
        .claim("spread-throughput")
        .judge()
        .formula(last.map_or_else(
            || "-".into(),
            |(single, spread)| format!("{:.1}, {:.1}", tpmc(single), tpmc(spread)),
        ))
        .approximate(runs.pairs().map(by_formula).collect())
        .found("New orders a minute and warehouse at 8 warehouses, one disk and three.")
        .shape(more);
    let better = registry
        .claim("even-better")
        .judge()
        .simulation(format!("{three}, {even}"))
        .found("Valid warehouses with the paper's shares, and with a third of the accesses each.")
        .shape(Evidence::of(&[even.into(), three.into()], |most| most[0] > most[1]));
    vec![valid_one, valid_three, ratio_valid, ordering, throughput, better]
}

fn claims_of_table_6(registry: &Registry, runs: &Runs) -> Vec<Judged> {
    let sum: f64 = SECTORS.iter().sum();
    let mean = sum / 3.0;
    let claim = registry.claim("sectors-each");
    let each = claim
        .judge()
        .formula(format!("{mean:.0}"))
        .found("The mean of the three disks of table 6.")
        .taken(claim.same(mean, claim.value()));
    let claim = registry.claim("sectors-sum");
    let total = claim
        .judge()
        .formula(format!("{:.2}", sum / SECTORS_ONE))
        .found("All three disks over the one disk, of table 6.")
        .taken(claim.same(sum / SECTORS_ONE, 1.0));
    let most = SECTORS[1] == SECTORS.iter().copied().fold(0.0, f64::max);
    let second = registry
        .claim("second-disk")
        .judge()
        .formula(percent(SECTORS[1] / mean - 1.0))
        .found("Of table 6: the second disk above the mean of the three.")
        .taken(most);
    let claim = registry.claim("sectors-per-transaction");
    let eight = runs.pairs().last().map(|(single, spread)| {
        (SECTORS_ONE / single.answer.throughput, sum / spread.answer.throughput)
    });
    let (one, three) = eight.unwrap_or((f64::NAN, f64::NAN));
    let work = claim
        .judge()
        .formula(format!("{one:.0}, {three:.0}"))
        .approximate(runs.pairs().last().map(by_formula).into_iter().collect())
        .found(
            "Sectors of table 6 over the model's transactions a second at 8 warehouses, one disk and \
             three.",
        )
        .unstated(Answer::from(claim.same(three, one)));
    vec![each, total, second, work]
}
