//! The whole distribution of a demand, as `solve` knows distributions.

use sim::{Demand, Sizes};
use workload::{Dist, Document};

/// Values that stand for a lognormal distribution are this far apart, in standard deviations of the
/// logarithm.
const STEP: f64 = 0.02;

/// Standard deviations to either side that count.
const WIDTH: f64 = 8.0;

/// Largest relative errors of the shortest remaining first that come of values in place of a
/// distribution: of the mean response, and of the response by size, which steps where the
/// distribution does not. The test below finds 6e-5 and 0.039.
pub(super) const STANDS_IN: (f64, f64) = (1e-4, 0.05);

/// The largest utilisation at which that was tried; it grows by less than the inverse of what is idle.
pub(super) const STOOD_IN_MAX: f64 = 0.995;

/// A distribution, and how many values stand for it.
#[derive(Clone, Debug)]
pub(super) struct Law {
    pub(super) demand: solve::Demand,
    /// 0 for one with a name.
    pub(super) values: usize,
    /// True if it is made of exponential phases.
    pub(super) is_phased: bool,
    /// True if its values stand for a distribution that has none.
    pub(super) stands_in: bool,
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
        stands_in: false,
    })
}

fn constant(value: f64) -> Option<Law> {
    let demand = solve::Demand::constant(value).ok()?;
    Some(Law { demand, values: 1, is_phased: false, stands_in: false })
}

/// Values with their weights.
fn listed(list: &[(f64, f64)]) -> Option<Law> {
    let demand = solve::Demand::weighted(list).ok()?;
    Some(Law { demand, values: list.len(), is_phased: false, stands_in: false })
}

/// a X + b of a size X.
fn of_size(size: &Dist, a: f64, b: f64) -> Option<Law> {
    let Dist::Lognormal { mu, sigma } = *size else { return None };
    if b == 0.0 {
        let demand = solve::Demand::lognormal(a * size.mean(), size.scv()).ok()?;
        return Some(Law { demand, values: 0, is_phased: false, stands_in: false });
    }
    Some(Law { stands_in: true, ..listed(&stand_in((mu, sigma), a, b, STEP))? })
}

/// Values with their weights for a X + b of a lognormal X, in steps of so many standard deviations.
///
/// The trapezoidal rule over the normal distribution of the logarithm is exact to many digits, for every
/// moment up to the second, which the tail beyond 2 sigma carries.
fn stand_in((mu, sigma): (f64, f64), a: f64, b: f64, step: f64) -> Vec<(f64, f64)> {
    // The square of the value moves the peak of the normal weights up by 2 sigma; the list goes on
    // by as much.
    let last = ((2.0 * WIDTH + 2.0 * sigma) / step) as u32;
    let value = |i: u32| {
        let z = f64::from(i) * step - WIDTH;
        (a * (mu + sigma * z).exp() + b, (-z * z / 2.0).exp())
    };
    (0..=last).map(value).collect()
}

#[cfg(test)]
mod tests {
    use solve::Mg1Srpt;

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

    /// Errors of the shortest remaining first, in the mean and by size, that come of values in
    /// place of a distribution. The reference has finer values, or is the distribution itself where
    /// nothing is added.
    #[test]
    fn srpt_of_a_stand_in_is_as_near_as_is_said() {
        let (mut mean_off, mut size_off, mut worst) = (0.0_f64, 0.0_f64, String::new());
        for sigma in [0.1, 1.573, 2.03] {
            let size = Dist::Lognormal { mu: 0.0, sigma };
            for b in [0.0, 0.1, 1.0, 10.0] {
                for load in [0.5, 0.9, 0.98, STOOD_IN_MAX] {
                    let rate = load / (size.mean() + b);
                    let server = |demand| Mg1Srpt::new(&[(rate, demand)]).unwrap();
                    let by = |step| solve::Demand::weighted(&stand_in((0.0, sigma), 1.0, b, step));
                    let found = server(by(STEP).unwrap());
                    let wanted = match b {
                        0.0 => server(solve::Demand::lognormal(size.mean(), size.scv()).unwrap()),
                        _ => server(by(STEP / 8.0).unwrap()),
                    };
                    let off = (found.response() / wanted.response() - 1.0).abs();
                    mean_off = mean_off.max(off);
                    let mut here = 0.0_f64;
                    // Just above values, and between them.
                    let at = (-35..=45).flat_map(|z| [0.0002, 0.01, 0.0198].map(|d| (z, d)));
                    for (tenth, beside) in at {
                        let x = (sigma * (f64::from(tenth) / 10.0 + beside)).exp() + b;
                        let response = |of: &Mg1Srpt| of.response_given(x).unwrap();
                        here = here.max((response(&found) / response(&wanted) - 1.0).abs());
                    }
                    if here > size_off {
                        worst = format!("sigma {sigma}, b {b}, load {load}");
                    }
                    size_off = size_off.max(here);
                }
            }
        }
        assert!(mean_off <= STANDS_IN.0, "{mean_off}");
        assert!(size_off <= STANDS_IN.1, "{size_off}: {worst}");
    }
}
