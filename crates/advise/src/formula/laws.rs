//! The whole distribution of a demand, as `solve` knows distributions.

use sim::{Demand, Sizes};
use workload::{Dist, Document};

/// Values that stand for a lognormal distribution are this far apart, in standard deviations of the
/// logarithm.
const STEP: f64 = 0.02;

/// Standard deviations to either side that count.
const WIDTH: f64 = 8.0;

/// A distribution, and how many values stand for it.
#[derive(Clone, Debug)]
pub(super) struct Law {
    pub(super) demand: solve::Demand,
    /// 0 for one with a name.
    pub(super) values: usize,
    /// Whether it is made of exponential phases.
    pub(super) is_phased: bool,
}

/// The distribution of a demand; none where `solve` has none of this kind, or it is not known.
pub(super) fn law(demand: &Demand, sizes: &Sizes) -> Option<Law> {
    match (demand, sizes) {
        (Demand::Drawn(dist), _) => of_dist(dist),
        (Demand::OfSize { per_byte_s: 0.0, base_s }, _) => constant(*base_s),
        (Demand::OfSize { per_byte_s, base_s }, Sizes::Drawn(dist)) => {
            of_size(dist, *per_byte_s, *base_s)
        }
        (Demand::OfSize { per_byte_s, base_s }, Sizes::Documents(set, _)) => {
            let value = |document: &Document| {
                (per_byte_s * document.bytes as f64 + base_s, f64::from(document.weight))
            };
            let list: Vec<(f64, f64)> = set.documents().iter().map(value).collect();
            listed(&list)
        }
        (Demand::OfSize { .. }, Sizes::None) | (Demand::OfDocument(_) | Demand::OfTrace, _) => None,
    }
}

/// A distribution as `solve` has it.
pub(super) fn of_dist(dist: &Dist) -> Option<Law> {
    let demand = match *dist {
        Dist::Constant(value) => return constant(value),
        Dist::Gamma { .. } | Dist::Pareto { .. } => return None,
        Dist::Uniform { low, high } => solve::Demand::uniform(low, high),
        Dist::Exponential { mean } => solve::Demand::exponential(mean),
        Dist::Erlang { mean, stages } => solve::Demand::erlang(stages, mean),
        Dist::Hyperexponential { mean, scv } => solve::Demand::balanced(mean, scv),
        Dist::Lognormal { .. } => solve::Demand::lognormal(dist.mean(), dist.scv()),
    };
    Some(Law {
        demand: demand.ok()?,
        values: 0,
        is_phased: !matches!(dist, Dist::Lognormal { .. } | Dist::Uniform { .. }),
    })
}

fn constant(value: f64) -> Option<Law> {
    let demand = solve::Demand::constant(value).ok()?;
    Some(Law { demand, values: 1, is_phased: false })
}

/// Values with their weights.
fn listed(list: &[(f64, f64)]) -> Option<Law> {
    let demand = solve::Demand::weighted(list).ok()?;
    Some(Law { demand, values: list.len(), is_phased: false })
}

/// a X + b of a size X.
fn of_size(size: &Dist, a: f64, b: f64) -> Option<Law> {
    let Dist::Lognormal { mu, sigma } = *size else { return None };
    if b == 0.0 {
        let demand = solve::Demand::lognormal(a * size.mean(), size.scv()).ok()?;
        return Some(Law { demand, values: 0, is_phased: false });
    }
    // The trapezoidal rule over the normal distribution of the logarithm is exact to many digits,
    // for every moment up to the second, which the tail beyond 2 sigma carries.
    let last = ((2.0 * WIDTH + 2.0 * sigma) / STEP) as u32;
    let value = |i: u32| {
        let z = f64::from(i) * STEP - WIDTH;
        (a * (mu + sigma * z).exp() + b, (-z * z / 2.0).exp())
    };
    listed(&(0..=last).map(value).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_the_moments_of_what_they_stand_for() {
        let near = |found: &Law, mean: f64, second: f64| {
            let moments = found.demand.moments().unwrap();
            assert!((moments.mean() / mean - 1.0).abs() < 1e-5, "{moments:?} {mean}");
            assert!((moments.second() / second - 1.0).abs() < 1e-5, "{moments:?} {second}");
        };
        for (mu, sigma) in [(7.811, 1.573), (3.0, 2.03), (0.0, 0.1)] {
            let size = Dist::Lognormal { mu, sigma };
            let (a, b) = (3e-6, 2e-3);
            let second = a * a * size.second_moment() + 2.0 * a * b * size.mean() + b * b;
            near(&of_size(&size, a, b).unwrap(), a * size.mean() + b, second);
        }
    }
}
