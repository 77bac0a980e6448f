//! Stay of a job at a station of several speeds when it finds so many jobs in the mean: the
//! approximate algorithms need it, and mean value analysis alone does not know it.

use super::convolution::expansion;
use super::model::Spot;

/// Jobs beyond which only the last rate matters and the curve goes on as a line.
const JOBS_MAX: usize = 4096;
/// Nodes lie so close that the line between two of them is off by less than a thousandth.
const SPACING: f64 = 0.02;

/// The mean of (j + 1) / a(j + 1) over the number j of jobs that an arrival finds, as a function of
/// the mean A of j.
///
/// The distribution is taken from the family p(j) = x^j M! / (M-j)! / (a(1) ... a(j)), where M is the
/// number of all other customers and x is chosen to meet the mean: that of a station whose customers
/// are elsewhere for a time that does not depend on their number. It is exact beside delays, for a
/// single speed ((1 + A) / a), and for customers no more than servers.
#[derive(Debug)]
pub(super) struct Curve {
    /// A and the factor, both rising.
    nodes: Vec<(f64, f64)>,
    /// Rise of the factor for each job beyond the last node; nothing where more jobs cannot be
    /// found.
    slope: f64,
}

impl Curve {
    /// For a station that jobs find with at most `others` customers of closed classes.
    pub(super) fn new(spot: &Spot, others: u32) -> Curve {
        let rates = effective_rates(spot, others);
        let jobs = (others as usize).min(JOBS_MAX.max(2 * rates.len()));
        let family = Family { rates: &rates, jobs, others: f64::from(others) };
        let last = rates[rates.len() - 1];
        let mut nodes = vec![(0.0, 1.0 / rates[0])];
        if jobs > 0 {
            let (mut low, mut high) = (rates[0], rates[0]);
            while family.at(low).0 > SPACING {
                low *= 0.5;
            }
            while family.at(high).0 < jobs as f64 - SPACING {
                high *= 2.0;
            }
            nodes.push(family.at(low));
            family.refine((low, family.at(low)), (high, family.at(high)), &mut nodes, 60);
        }
        if others as usize > jobs {
            // The line starts where the cut at the greatest number is not felt yet.
            nodes.retain(|node| node.0 < jobs as f64 / 4.0);
            return Curve { nodes, slope: 1.0 / last };
        }
        let at_most = rates.get(jobs).copied().unwrap_or(last);
        nodes.push((jobs as f64, (jobs + 1) as f64 / at_most));
        Curve { nodes, slope: 0.0 }
    }

    /// The factor for a mean of A jobs found.
    pub(super) fn at(&self, found: f64) -> f64 {
        let Segment { low, factor, slope, .. } = self.segment(found);
        factor + (found - low) * slope
    }

    /// The piece on which a mean of A jobs lies.
    pub(super) fn segment(&self, found: f64) -> Segment {
        let after = self.nodes.partition_point(|node| node.0 <= found);
        let (low, factor) = self.nodes[after.max(1) - 1];
        match self.nodes.get(after) {
            Some(&(high, next)) => {
                Segment { low, high, factor, slope: (next - factor) / (high - low) }
            }
            None => Segment { low, high: f64::INFINITY, factor, slope: self.slope },
        }
    }
}

/// A straight piece of a curve.
#[derive(Debug)]
pub(super) struct Segment {
    low: f64,
    high: f64,
    factor: f64,
    slope: f64,
}

impl Segment {
    /// The factor for a mean of A jobs found, if it is on this piece.
    pub(super) fn at(&self, found: f64) -> Option<f64> {
        (self.low <= found && found <= self.high)
            .then_some(self.factor + (found - self.low) * self.slope)
    }
}

struct Family<'a> {
    rates: &'a [f64],
    jobs: usize,
    /// All other customers, of whom those who are not here may come.
    others: f64,
}

impl Family<'_> {
    /// The mean A and the factor at x.
    fn at(&self, x: f64) -> (f64, f64) {
        let last = self.rates[self.rates.len() - 1];
        let rate = |j: usize| self.rates.get(j - 1).copied().unwrap_or(last);
        let (mut weight, mut sum, mut mean, mut factor) = (1.0, 0.0, 0.0, 0.0);
        for j in 0..=self.jobs {
            if j > 0 {
                let source = 1.0 - (j - 1) as f64 / self.others;
                weight *= x * source / rate(j);
            }
            sum += weight;
            mean += weight * j as f64;
            factor += weight * (j + 1) as f64 / rate(j + 1);
            if weight > 1e200 {
                for part in [&mut weight, &mut sum, &mut mean, &mut factor] {
                    *part *= 1e-200;
                }
            }
        }
        (mean / sum, factor / sum)
    }

    /// Adds nodes up to `high`, halving where two are too far apart.
    fn refine(
        &self,
        low: (f64, (f64, f64)),
        high: (f64, (f64, f64)),
        nodes: &mut Vec<(f64, f64)>,
        depth: u32,
    ) {
        let gap = high.1.0 - low.1.0;
        if depth > 0 && gap > SPACING * (1.0 + low.1.0) {
            let x = (low.0 * high.0).sqrt();
            let middle = (x, self.at(x));
            self.refine(low, middle, nodes, depth - 1);
            self.refine(middle, high, nodes, depth - 1);
        } else if gap > 0.0 {
            nodes.push(high.1);
        }
    }
}

/// The rates that closed classes see: those of the station, less what open classes take. With open
/// load rho they are b(j - 1) / b(j), from the expansion of F(s + rho).
fn effective_rates(spot: &Spot, others: u32) -> Vec<f64> {
    if spot.open_load == 0.0 {
        return spot.rates.clone();
    }
    let settled = spot.rate_last() - spot.open_load;
    let needed = others as usize + 2;
    let mut length = needed.min(spot.rates.len() + 64);
    loop {
        let b = expansion(&spot.rates, spot.open_load, length as u32);
        let rates: Vec<f64> = b.windows(2).map(|b| b[0].over(b[1])).collect();
        let last = rates[rates.len() - 1];
        if length == needed || length >= JOBS_MAX || (last - settled).abs() <= 1e-12 * settled {
            return rates;
        }
        length = needed.min(2 * length);
    }
}
