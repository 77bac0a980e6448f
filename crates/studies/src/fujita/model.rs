//! The claims of the paper's section 4: the model, its approximate solution, and what the authors
//! read from its curves.

use advise::Approximation;
use cli::Failure;
use cli::text::percent;
use measure::{Estimate, Ratio};
use solve::{Mg1Fifo, Mg1Ps};

use super::super::claim::{Answer, Claim, Evidence, Judged, Registry};
use super::open::{BASE_S, Base, Bin, Case, Documents, Given, LOADS, Runs, SLOTS, TAIL};

/// Sizes that count as small, all below this \[byte\].
const SMALL: f64 = 8_192.0;
/// With sizes 10 times larger.
const SMALL_TENFOLD: f64 = 65_536.0;
/// Sizes that count as large, from this on \[byte\]; a few in a thousand.
const LARGE: f64 = 131_072.0;
/// Sizes at which the formula errs \[byte\].
const HUGE: f64 = 524_288.0;
const LARGE_TENFOLD: f64 = 4_194_304.0;
/// Above all sizes \[byte\].
const NO_LIMIT: f64 = f64::INFINITY;

/// Means that were found before, row by row.
const MEANS: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/fujita/mean_response.csv"));

/// Judges all claims of section 4, in the order of the list.
pub(super) fn judge(registry: &Registry, runs: &Runs) -> Result<Vec<Judged>, Failure> {
    let judge = Judge { registry, runs };
    let mut judged = judge.moments()?;
    judged.extend(judge.limits()?);
    judged.extend(judge.loads()?);
    judged.extend(judge.helpers()?);
    judged.extend(judge.tenfold()?);
    judged.extend(judge.distributions()?);
    judged.extend(judge.validity()?);
    Ok(judged)
}

/// A time in milliseconds, without its unit.
fn ms(seconds: f64) -> String {
    let value = seconds * 1e3;
    if value.abs() < 1000.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

struct Judge<'a> {
    registry: &'a Registry,
    runs: &'a Runs,
}

impl Judge<'_> {
    fn claim(&self, id: &str) -> &Claim {
        self.registry.claim(id)
    }

    /// Documents of these sizes at a point of the model.
    fn bin(&self, case: Case, low: f64, high: f64) -> Result<Bin, Failure> {
        let bin = self.runs.of(case).between(low, high)?;
        bin.ok_or_else(|| {
            Failure::Machine(format!("{case:?}: too few documents from {low} to {high} B"))
        })
    }

    fn response(&self, case: Case) -> Estimate {
        self.runs.of(case).response
    }

    fn moments(&self) -> Result<Vec<Judged>, Failure> {
        let lognormal = Case::paper(None, 0.8).demand()?;
        let exponential = Case::exponential(Base::Kept, None).demand()?;
        let claim = self.claim("mean-demand");
        let mean = lognormal.mean() * 1e3;
        // Without a limit the simulated mean response is E[S] / (1 - rho).
        let simulated = self.response(Case::paper(None, 0.8));
        let seen = simulated.mean * 0.2 * 1e3;
        let first = claim
            .judge()
            .formula(format!("{mean:.2} ms"))
            .simulation(format!("{seen:.2} ± {:.2}", simulated.half_width * 0.2 * 1e3))
            .found("Simulated: mean response time without a limit, times 1 - rho.")
            .number(Evidence::of(&[mean], |found| claim.same(found[0], claim.value())));
        let claim = self.claim("second-moment");
        let second = exponential.second() * 1e6;
        let second = claim
            .judge()
            .formula(format!("{second:.1}"))
            .found("In ms^2, from a, b and the mean of the lognormal sizes.")
            .number(Evidence::of(&[second], |found| claim.same(found[0], claim.value())));
        let less = self
            .claim("second-moment-less")
            .judge()
            .formula(format!("{:.1}", lognormal.second() * 1e6))
            .found("In ms^2.")
            .shape(Evidence::of(&[exponential.second(), lognormal.second()], |found| {
                found[0] < found[1]
            }));
        Ok(vec![first, second, less])
    }

    /// Equation 1 at r = 1 and without a limit, and its mean.
    fn limits(&self) -> Result<Vec<Judged>, Failure> {
        let mut judged = Vec::new();
        for (id, case) in [
            ("one-slot-is-fifo", Case::paper(Some(1), 0.8)),
            ("no-limit-is-ps", Case::paper(None, 0.8)),
        ] {
            let lps = case.formula()?;
            let (rate, demand) = (case.rate()?, case.demand()?);
            let fifo = Mg1Fifo::new(rate, demand).map_err(Failure::defect)?;
            let ps = Mg1Ps::new(rate, demand).map_err(Failure::defect)?;
            let mut off = 0.0_f64;
            for bytes in [0.0, 1e3, 1e6] {
                let x = case.demand_of(bytes);
                let known = if case.slots.is_some() {
                    fifo.response_given(x)
                } else {
                    ps.response_given(x)
                };
                let (ours, known) = (lps.response_given(x), known.map_err(Failure::defect)?);
                off = off.max((ours.map_err(Failure::machine)? / known - 1.0).abs());
            }
            judged.push(self.exact(id, case, off)?);
        }
        // Exact for exponential demand, so without b.
        let case = Case::exponential(Base::Dropped, Some(4));
        let lps = case.formula()?;
        let mean = lps.response_given(case.demand()?.mean()).map_err(Failure::defect)?;
        judged.push(self.exact("mean-of-equation-1", case, (lps.response() / mean - 1.0).abs())?);
        Ok(judged)
    }

    /// A formula that is off another by `off`, and exact against simulation.
    fn exact(&self, id: &str, case: Case, off: f64) -> Result<Judged, Failure> {
        let claim = self.claim(id);
        let (by_formula, simulated) = (case.formula()?.response(), self.response(case));
        let holds = Evidence::of(&[off, by_formula, simulated.mean], |found| {
            found[0] < 1e-9 && claim.same(found[1], found[2])
        });
        Ok(claim
            .judge()
            .formula(format!("{} ms", ms(by_formula)))
            .approximate(worst_of([case], Given::Nothing)?)
            .simulation(interval(&simulated))
            .found(format!(
                "Mean response time at rho = 0.8; simulated over formula {}.",
                percent(simulated.mean / by_formula - 1.0)
            ))
            .shape(holds))
    }

    /// Figure 14: r = 4, load varied.
    fn loads(&self) -> Result<Vec<Judged>, Failure> {
        let (light, heavy) = (Case::paper(Some(4), LOADS[0]), Case::paper(Some(4), LOADS[4]));
        let (small, large) = (self.bin(light, 1.0, SMALL)?, self.bin(light, LARGE, NO_LIMIT)?);
        let share = light.formula()?.wait() / small.formula;
        let stretch = |bin: &Bin| bin.response.mean / light.demand_of(bin.bytes);
        let claim = self.claim("light-load");
        let unequal = stretch(&large) / stretch(&small) - 1.0;
        let light_load = claim
            .judge()
            .formula(format!("{:.1} %", share * 100.0))
            .approximate(worst_of([light], Given::Size)?)
            .simulation(format!("{} off", percent(unequal)))
            .found(
                "rho = 0.2. Formula: the wait's share of the response time of small documents. \
                 Simulated: response time over demand, documents from 128 KB against those below 8 KB.",
            )
            .shape(Evidence::of(&[share, unequal], |found| {
                found.iter().all(|off| off.abs() <= claim.within())
            }));

        let (small_heavy, large_heavy) =
            (self.bin(heavy, 1.0, SMALL)?, self.bin(heavy, LARGE, NO_LIMIT)?);
        let by_formula = [small_heavy.formula / small.formula, large_heavy.formula / large.formula];
        let simulated = [
            Ratio::of(small.response, small_heavy.response),
            Ratio::of(large.response, large_heavy.response),
        ];
        let ends = [by_formula[0], by_formula[1], simulated[0].low, simulated[1].high];
        let grows = Evidence::of(&ends, |ends| ends[0] > ends[1] && ends[2] > ends[3]);
        let hits = self
            .claim("load-hits-small")
            .judge()
            .formula(format!("x{:.1}, x{:.1}", by_formula[0], by_formula[1]))
            .approximate(worst_of([light, heavy], Given::Size)?)
            .simulation(format!("x{:.1}, x{:.1}", simulated[0].ratio, simulated[1].ratio))
            .found("Growth from rho = 0.2 to 0.9: documents below 8 KB, and from 128 KB on.")
            .shape(grows);
        Ok(vec![light_load, hits])
    }

    /// Figure 15: rho = 0.8, r varied.
    fn helpers(&self) -> Result<Vec<Judged>, Failure> {
        let (mut means, mut smalls, mut by_formula) = (Vec::new(), Vec::new(), Vec::new());
        for slots in SLOTS {
            let case = Case::paper(slots, 0.8);
            let small = self.bin(case, 1.0, SMALL)?;
            by_formula.push([case.formula()?.response(), small.formula]);
            means.push(self.response(case));
            smalls.push(small.response);
        }
        let formulas: Vec<f64> = by_formula.iter().flatten().copied().collect();
        let answer = Evidence::of(&formulas, |all| {
            let rises = all.windows(3).all(|three| three[0] < three[2]);
            Answer::from(rises).and(grows(&means)).and(grows(&smalls))
        });
        let slower = self
            .claim("helpers-slow")
            .judge()
            .formula(format!("{}-{}", ms(by_formula[0][0]), ms(by_formula[4][0])))
            .approximate(worst_of(SLOTS.map(|slots| Case::paper(slots, 0.8)), Given::Size)?)
            .simulation(format!("{}-{}", ms(means[0].mean), ms(means[4].mean)))
            .found(format!(
                "Mean response time [ms] at r = 2 and without a limit, rising between; documents \
                 below 8 KB: {} to {} by formula, {} to {} simulated.",
                ms(by_formula[0][1]),
                ms(by_formula[4][1]),
                ms(smalls[0].mean),
                ms(smalls[4].mean)
            ))
            .shape(answer);

        let case = Case::paper(Some(4), 0.8);
        let ratio = case.demand_of(10_000.0) / case.demand_of(0.0);
        let share = self.runs.of(case).share_below(SMALL);
        let residual = case.demand()?.residual();
        let why = self
            .claim("why-helpers-slow")
            .judge()
            .formula(format!("x{ratio:.2}"))
            .simulation(format!("{:.0} % small", share * 100.0))
            .found(format!(
                "g(10 KB) / g(0), and the share of documents below 8 KB. E[S^2] / (2 E[S]) = {} ms.",
                ms(residual)
            ))
            .shape(Evidence::of(&[ratio, share, residual], |found| {
                found[0] < 1.25 && found[1] > 0.5 && found[2] < BASE_S
            }));
        Ok(vec![slower, why])
    }

    /// Figure 16: sizes 10 times larger.
    fn tenfold(&self) -> Result<Vec<Judged>, Failure> {
        let change = |low: f64, high: f64, base: Base| -> Result<(f64, Ratio), Failure> {
            let few = self.bin(Case::tenfold(base, Some(2)), low, high)?;
            let many = self.bin(Case::tenfold(base, None), low, high)?;
            Ok((many.formula / few.formula, Ratio::of(few.response, many.response)))
        };
        let judged = |id: &str,
                      what: &str,
                      low: f64,
                      high: f64,
                      lower: bool|
         -> Result<Judged, Failure> {
            let (kept, dropped) =
                (change(low, high, Base::Kept)?, change(low, high, Base::Dropped)?);
            // By formula, then the ends of what was simulated.
            let side = |found: &[f64]| match lower {
                true => Answer::from(found[0] < 1.0).and(Answer::below(1.0, found[1], found[2])),
                false => Answer::from(found[0] > 1.0).and(Answer::above(1.0, found[1], found[2])),
            };
            let three = |(by_formula, seen): &(f64, Ratio)| [*by_formula, seen.low, seen.high];
            let both = [three(&kept), three(&dropped)].concat();
            let answer = Evidence::of(&both, |both| side(&both[..3]).and(side(&both[3..])));
            Ok(self
                .claim(id)
                .judge()
                .formula(format!("x{:.2}", kept.0))
                .approximate(worst_of([Case::tenfold(Base::Kept, Some(2))], Given::Size)?)
                .simulation(format!("x{:.2}", kept.1.ratio))
                .found(format!(
                    "Response time of documents {what}, no limit over r = 2, with b; without b \
                     x{:.2} by formula, x{:.2} simulated.",
                    dropped.0, dropped.1.ratio
                ))
                .shape(answer))
        };
        let small = judged("tenfold-small-gain", "below 64 KB", 1.0, SMALL_TENFOLD, true)?;
        let large = judged("tenfold-large-lose", "from 4 MB on", LARGE_TENFOLD, NO_LIMIT, false)?;
        let kept = Case::tenfold(Base::Kept, None);
        let share = BASE_S / kept.demand()?.mean();
        let ratio =
            Ratio::of(self.response(Case::tenfold(Base::Dropped, None)), self.response(kept));
        let claim = self.claim("tenfold-base");
        let base = claim
            .judge()
            .formula(format!("{:.0} % of S", share * 100.0))
            .simulation(format!("R x{:.2}", ratio.ratio))
            .found("b / E[S]; simulated: mean response time without a limit, with b over without.")
            .number(Evidence::of(&[share], |found| found[0] <= claim.value() + claim.within()));
        Ok(vec![small, large, base])
    }

    /// Figure 17: lognormal against exponential sizes.
    fn distributions(&self) -> Result<Vec<Judged>, Failure> {
        let mut by_formula = Vec::new();
        let mut simulated = Vec::new();
        for slots in [Some(2), Some(8), None] {
            let (lognormal, exponential) =
                (Case::paper(slots, 0.8), Case::exponential(Base::Kept, slots));
            by_formula
                .push(lognormal.formula()?.response() / exponential.formula()?.response() - 1.0);
            simulated.push(Ratio::of(self.response(exponential), self.response(lognormal)));
        }
        let first = &simulated[0];
        let slower = self
            .claim("lognormal-slower")
            .judge()
            .formula(percent(by_formula[0]))
            .approximate(worst_of(compared(Some(2)), Given::Nothing)?)
            .simulation(percent(first.ratio - 1.0))
            .found("Mean response time, lognormal over exponential, r = 2.")
            .shape(Evidence::of(&[by_formula[0], first.low, first.high], |found| {
                Answer::from(found[0] > 0.0).and(Answer::above(1.0, found[1], found[2]))
            }));
        let last = &simulated[2];
        let seen = [simulated[1].ratio, first.low, last.low, last.high];
        let fades = Evidence::of(&[&by_formula[..], &seen].concat(), |all| {
            let (formula, seen) = all.split_at(3);
            let fades = formula.windows(2).all(|pair| pair[1] < pair[0]) && formula[2].abs() < 1e-9;
            fades && seen[0] < seen[1] && seen[2] <= 1.0 && 1.0 <= seen[3]
        });
        let insensitive = self
            .claim("insensitive")
            .judge()
            .formula(percent(by_formula[2]))
            .approximate(worst_of(compared(Some(8)), Given::Nothing)?)
            .simulation(percent(last.ratio - 1.0))
            .found(format!(
                "The same without a limit; at r = 8 {} by formula, {} simulated.",
                percent(by_formula[1]),
                percent(simulated[1].ratio - 1.0)
            ))
            .shape(fades);
        Ok(vec![slower, insensitive])
    }

    /// Verdict on the quality of the approximation.
    fn validity(&self) -> Result<Vec<Judged>, Failure> {
        let (mut worst, mut its_width) = (0.0_f64, 0.0);
        for case in points_of_the_paper() {
            let simulated = self.response(case);
            let error = case.formula()?.response() / simulated.mean - 1.0;
            if error.abs() > worst.abs() {
                (worst, its_width) = (error, simulated.relative());
            }
        }
        let claim = self.claim("formula-mean");
        let mean = claim
            .judge()
            .formula(percent(worst))
            .approximate(worst_of(points_of_the_paper(), Given::Nothing)?)
            .simulation(width(its_width))
            .found("The largest error of the mean over the nine points of figures 14 and 15.")
            .shape(Evidence::of(&[worst], |found| found[0].abs() <= claim.within()));

        let first = self.bin(TAIL, HUGE, 2.0 * HUGE)?;
        let mut found = format!("From 0.5 to 1 MB, simulated {} ms;", interval(&first.response));
        let larger = [("from 1 to 4 MB", 2.0 * HUGE, 8.0 * HUGE), ("above", 8.0 * HUGE, NO_LIMIT)];
        for (sizes, low, high) in larger {
            if let Some(bin) = self.runs.of(TAIL).between(low, high)? {
                let error = percent(bin.error().1);
                found += &format!(" {sizes} {error} (simulated {} ms);", interval(&bin.response));
            }
        }
        let claim = self.claim("formula-large");
        let large = claim
            .judge()
            .formula(percent(first.error().1))
            .approximate(worst_of([TAIL], Given::Size)?)
            .simulation(width(first.response.relative()))
            .found(found.trim_end_matches(';').to_owned() + ".")
            .shape(within(claim, first.error()));

        let bin = self.bin(Case::tenfold(Base::Kept, Some(8)), 1.0, SMALL_TENFOLD)?;
        let claim = self.claim("formula-tenfold");
        let tenfold = claim
            .judge()
            .formula(percent(bin.error().1))
            .approximate(worst_of([Case::tenfold(Base::Kept, Some(8))], Given::Size)?)
            .simulation(width(bin.response.relative()))
            .found(format!("Simulated: {} ms.", interval(&bin.response)))
            .shape(within(claim, bin.error()));
        Ok(vec![mean, large, tenfold, self.table()?])
    }

    /// The mean response times found before, row by row.
    fn table(&self) -> Result<Judged, Failure> {
        let claim = self.claim("mean-table");
        let rows = means();
        let (mut off_formula, mut differing) = (0.0_f64, Vec::new());
        for row in &rows {
            let by_formula = row.case.formula()?.response() * 1e3;
            off_formula = off_formula.max((by_formula / row.formula_ms - 1.0).abs());
            let Some(before) = row.simulated_ms else { continue };
            let now = self.response(row.case);
            let allowed = now.half_width * 1e3 + claim.within() * before;
            if (now.mean * 1e3 - before).abs() > allowed {
                differing.push(format!("{:?} {} (before {before})", row.case, interval(&now)));
            }
        }
        let simulated = rows.iter().filter(|row| row.simulated_ms.is_some()).count();
        // Printed to three digits.
        let agree = off_formula < 0.005 && differing.is_empty();
        let found = if differing.is_empty() {
            String::new()
        } else {
            format!("Differ: {}.", differing.join("; "))
        };
        Ok(claim
            .judge()
            .formula(format!("{} rows", rows.len()))
            .approximate(worst_of(rows.iter().map(|row| row.case), Given::Nothing)?)
            .simulation(format!("{} of {simulated}", simulated - differing.len()))
            .found(found)
            .unstated(agree.into()))
    }
}

/// Error that the formula may have at the worst of these points.
fn worst_of(cases: impl IntoIterator<Item = Case>, given: Given) -> Result<Approximation, Failure> {
    cases.into_iter().map(|case| case.approximation(given)).collect()
}

/// The two of which one is held against the other.
fn compared(slots: Option<u32>) -> [Case; 2] {
    [Case::paper(slots, 0.8), Case::exponential(Base::Kept, slots)]
}

/// The points of figures 14 and 15.
fn points_of_the_paper() -> impl Iterator<Item = Case> {
    let loads = LOADS.into_iter().map(|rho| Case::paper(Some(4), rho));
    let slots = SLOTS.into_iter().filter(|slots| *slots != Some(4));
    loads.chain(slots.map(|slots| Case::paper(slots, 0.8)))
}

/// Answer to whether simulated values rise: the last is above the first, and none is below the one
/// before, as far as the intervals tell.
fn grows(values: &[Estimate]) -> Answer {
    let (first, last) = (values[0], values[values.len() - 1]);
    let never_falls = values.windows(2).all(|pair| pair[1].high() >= pair[0].low());
    let rises = Answer::above(0.0, last.low() - first.high(), last.high() - first.low());
    Answer::from(never_falls).and(rises)
}

/// Answer to whether an error (low, middle, high) is within the claim's tolerance on either side.
fn within(claim: &Claim, (low, _, high): (f64, f64, f64)) -> Answer {
    let limit = claim.within();
    match () {
        () if low >= -limit && high <= limit => Answer::Yes,
        () if low > limit || high < -limit => Answer::No,
        () => Answer::CannotTell,
    }
}

/// `± 2.1 %`: how well the simulation knows what the formula is held against.
fn width(relative: f64) -> String {
    format!("± {:.1} %", relative * 100.0)
}

/// `98.2 ± 0.4`, in milliseconds.
fn interval(estimate: &Estimate) -> String {
    format!("{} ± {}", ms(estimate.mean), ms(estimate.half_width))
}

/// A row of what was found before.
pub(super) struct Row {
    pub(super) case: Case,
    pub(super) simulated_ms: Option<f64>,
    pub(super) formula_ms: f64,
}

/// The rows of `mean_response.csv`, which is part of the program.
pub(super) fn means() -> Vec<Row> {
    let row = |line: &str| {
        let [sizes, base, slots, simulated, formula] =
            line.split(',').collect::<Vec<_>>().try_into().ok()?;
        let documents = match sizes {
            "paper" => Documents::Paper,
            "tenfold" => Documents::Tenfold,
            _ => return None,
        };
        let base = match base {
            "kept" => Base::Kept,
            "dropped" => Base::Dropped,
            _ => return None,
        };
        let slots = if slots == "inf" { None } else { Some(slots.parse().ok()?) };
        let simulated_ms = if simulated.is_empty() { None } else { Some(simulated.parse().ok()?) };
        let case = Case { documents, base, slots, rho: 0.8 };
        Some(Row { case, simulated_ms, formula_ms: formula.parse().ok()? })
    };
    let lines = MEANS.lines().skip(1);
    lines.map(|line| row(line).unwrap_or_else(|| panic!("mean_response.csv: `{line}`"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(mean: f64, half_width: f64) -> Estimate {
        Estimate { mean, half_width, confidence: 0.95, n: 10 }
    }

    #[test]
    fn growth_is_told_only_where_the_intervals_tell_it() {
        let rising = [estimate(1.0, 0.1), estimate(2.0, 0.1), estimate(1.9, 0.1)];
        assert_eq!(grows(&rising), Answer::Yes);
        assert_eq!(grows(&[estimate(1.0, 0.1), estimate(1.1, 0.1)]), Answer::CannotTell);
        assert_eq!(
            grows(&[estimate(1.0, 0.1), estimate(2.0, 0.1), estimate(1.5, 0.1)]),
            Answer::No
        );
    }

    #[test]
    fn the_rows_found_before_are_those_of_the_figures() {
        let rows = means();
        assert_eq!(rows.len(), 3 * SLOTS.len());
        assert!(rows.iter().all(|row| SLOTS.contains(&row.case.slots)));
        // The formula needs no simulation: each row to the digits that it is printed with.
        for row in rows {
            let now = row.case.formula().unwrap().response() * 1e3;
            assert!((now - row.formula_ms).abs() < 0.5, "{:?}: {now}", row.case);
        }
    }
}
