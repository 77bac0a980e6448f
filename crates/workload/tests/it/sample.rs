//! Sums over samples, with the tolerance that chance asks for.

/// What is kept of a sample: its size, mean, and the mean of its squares.
pub(crate) struct Sample {
    pub(crate) n: f64,
    pub(crate) mean: f64,
    pub(crate) second: f64,
    /// The mean of the fourth powers.
    fourth: f64,
}

impl Sample {
    pub(crate) fn of(n: u32, mut draw: impl FnMut() -> f64) -> Sample {
        let mut sums = [0.0; 3];
        for _ in 0..n {
            let x = draw();
            sums = [sums[0] + x, sums[1] + x * x, sums[2] + x * x * x * x];
        }
        let n = f64::from(n);
        Sample { n, mean: sums[0] / n, second: sums[1] / n, fourth: sums[2] / n }
    }

    pub(crate) fn scv(&self) -> f64 {
        self.second / (self.mean * self.mean) - 1.0
    }

    /// Four standard errors of the mean of a variable with this variance.
    pub(crate) fn four_sigma(&self, variance: f64) -> f64 {
        4.0 * (variance.max(0.0) / self.n).sqrt()
    }

    /// The same for the mean of the squares; their variance is taken from the sample.
    pub(crate) fn four_sigma_of_second(&self) -> f64 {
        self.four_sigma(self.fourth - self.second * self.second)
    }
}
