//! Sums over a Poisson number of events, which every uniformised chain comes down to, and the
//! search for a quantile.

/// The Poisson distribution around its mode: probabilities left out are below 1e-15.
#[derive(Clone, Debug)]
pub(crate) struct Poisson {
    low: f64,
    weights: Vec<f64>,
}

impl Poisson {
    pub(crate) fn new(mean: f64) -> Poisson {
        let width = 9.0 * mean.sqrt() + 30.0;
        let low = (mean - width).max(0.0).floor();
        let high = (mean + width).ceil();
        // By ratios outwards from the mode, then scaled to sum 1: nothing overflows.
        let mode = mean.floor();
        let (mut weights, mut term, mut j) = (vec![1.0], 1.0, mode);
        while j > low {
            term *= j / mean;
            weights.push(term);
            j -= 1.0;
        }
        weights.reverse();
        (term, j) = (1.0, mode);
        while j < high {
            j += 1.0;
            term *= mean / j;
            weights.push(term);
        }
        let total: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= total);
        Poisson { low, weights }
    }

    /// The mean of a function of the number of events.
    pub(crate) fn mean_of(&self, value: impl Fn(f64) -> f64) -> f64 {
        self.weights.iter().enumerate().map(|(i, w)| w * value(self.low + i as f64)).sum()
    }
}

/// The time at which a falling tail reaches `left`, by doubling and halving from a first guess.
pub(crate) fn crossing(guess: f64, left: f64, tail: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, guess);
    while tail(high) > left {
        (low, high) = (high, 2.0 * high);
    }
    while high - low > 1e-12 * high {
        let middle = low + (high - low) / 2.0;
        if tail(middle) > left {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}
