//! One server that always works on the job whose remaining demand is the shortest.

use super::demand::{Demand, Law, Part};
use crate::error::{not_negative, stable};
use crate::{Exactness, SolveError};

/// Steps in which integrals over continuous demands are summed.
const STEPS: u32 = 20_000;
/// Error of these steps at the most, as a share of a mean, and of the mean of one demand.
const ERROR: f64 = 1e-5;
/// Shares of jobs below the smallest demand that is looked at, and beyond the largest.
const LEFT_OUT: (f64, f64) = (1e-9, 1e-13);

/// M/G/1 SRPT: one server that always works on the job whose remaining demand is the shortest, so that a
/// shorter one interrupts. No order has a shorter mean response (Schrage and Miller 1966; Schrage 1968).
/// With F the distribution of the demand over all classes and rho(x) the utilisation by jobs of demand up to
/// x, below x for rho(x-), a job of demand x takes
///
/// ```text
///   T(x) = (lambda int_0^x t^2 dF + lambda x^2 (1 - F(x))) / (2 (1 - rho(x-)) (1 - rho(x)))
///        + int_0^x dt / (1 - rho(t))
/// ```
///
/// where the first term is its wait before the first part of its service, and jobs of equal remaining
/// demand are served in the order in which they came. Moments up to x are closed forms; sums over
/// twenty thousand steps stand for the integral and for means over continuous demands, which costs less
/// than 1e-5 of them. Lists are exact.
///
/// ```
/// use solve::{Demand, Mg1Srpt};
///
/// // Equal demands: nobody is overtaken, and the wait is that of Pollaczek and Khinchine.
/// let equal = Mg1Srpt::new(&[(80.0, Demand::constant(10e-3)?)])?;
/// assert!((equal.response() - 30e-3).abs() < 1e-12);
/// // Exponential demand at 0.8: 5 services first in first out, 2.353 here.
/// let varied = Mg1Srpt::new(&[(80.0, Demand::exponential(10e-3)?)])?;
/// assert!((varied.response() - 23.53e-3).abs() < 0.01e-3);
/// # Ok::<(), solve::SolveError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Mg1Srpt {
    classes: Vec<(f64, Part)>,
    lambda: f64,
    rho: f64,
    /// True if some demand is no list of values.
    is_continuous: bool,
    /// Demands x \[s\], rising, each with the integral of dt / (1 - rho(t)) up to it \[s\].
    done: Vec<(f64, f64)>,
    /// By class: mean wait before the first service, and mean response \[s\].
    means: Vec<(f64, f64)>,
}

/// Sums of the jobs up to a demand x, over all classes.
#[derive(Clone, Copy, Debug, Default)]
struct UpTo {
    /// Their arrival rate [1/s].
    rate: f64,
    /// Their utilisation, rho(x).
    load: f64,
    /// lambda times the integral of t^2 dF \[s\].
    second: f64,
}

impl Mg1Srpt {
    /// A server of classes, each with its arrival rate lambda [1/s] and its demand; the order does not
    /// look at the class.
    ///
    /// # Errors
    /// If there is no class, a rate is negative, a demand has moments beyond all measure, or the
    /// utilisation is not below 1.
    pub fn new(classes: &[(f64, Demand)]) -> Result<Mg1Srpt, SolveError> {
        if classes.is_empty() {
            return Err(SolveError::Zero { name: "classes" });
        }
        let (mut lambda, mut rho) = (0.0, 0.0);
        for (rate, demand) in classes {
            demand.moments()?;
            lambda += not_negative("arrival rate lambda", *rate, "/s")?;
            rho += rate * demand.mean();
        }
        let mean = if lambda > 0.0 { rho / lambda } else { 0.0 };
        stable(|| "M/G/1 SRPT".to_owned(), lambda, mean, 1)?;
        let parts: Vec<Part> = classes.iter().map(|(_, demand)| Part::new(demand)).collect();
        let points = points(classes, &parts)?;
        let is_continuous = parts.iter().any(|part| part.values().is_none());
        let classes = classes.iter().map(|(rate, _)| *rate).zip(parts).collect();
        let (done, means) = (Vec::with_capacity(points.len()), Vec::new());
        let mut server = Mg1Srpt { classes, lambda, rho, is_continuous, done, means };
        server.sum(&points);
        Ok(server)
    }

    /// Utilisation, rho = lambda E\[S\].
    pub fn utilisation(&self) -> f64 {
        self.rho
    }

    /// Mean wait before the first part of service of class k, counted from 0 \[s\].
    ///
    /// # Errors
    /// If there is no such class.
    pub fn wait(&self, class: usize) -> Result<f64, SolveError> {
        Ok(self.mean(class)?.0)
    }

    /// Mean response time of class k, counted from 0 \[s\].
    ///
    /// # Errors
    /// If there is no such class.
    pub fn response_of(&self, class: usize) -> Result<f64, SolveError> {
        Ok(self.mean(class)?.1)
    }

    /// Mean response time over all classes \[s\]; of none that arrives, that of the first.
    pub fn response(&self) -> f64 {
        if self.lambda == 0.0 {
            return self.means[0].1;
        }
        let of_all = self.classes.iter().zip(&self.means).map(|((rate, _), mean)| rate * mean.1);
        of_all.sum::<f64>() / self.lambda
    }

    /// Mean response time of a job with demand x \[s\].
    ///
    /// # Errors
    /// If x is negative.
    pub fn response_given(&self, x: f64) -> Result<f64, SolveError> {
        let x = not_negative("demand x", x, "s")?;
        if x == 0.0 {
            return Ok(0.0);
        }
        let (below, up_to) = (self.below(x), self.up_to(x));
        let at = self.done.partition_point(|(point, _)| *point <= x);
        let (from, done) = if at == 0 { (0.0, 0.0) } else { self.done[at - 1] };
        let slow = (1.0 / (1.0 - self.up_to(from).load) + 1.0 / (1.0 - below.load)) / 2.0;
        Ok(self.waited(x, &below, &up_to) + done + (x - from) * slow)
    }

    /// Mean number of jobs, by Little's law.
    pub fn in_system(&self) -> f64 {
        self.lambda * self.response()
    }

    /// Exact for lists of values; of what is continuous integrals are summed, which costs less than 0.001 %.
    pub fn exactness(&self) -> Exactness {
        match self.is_continuous {
            true => Exactness::Approximate { source: "integrals summed", error: ERROR },
            false => Exactness::Exact,
        }
    }

    fn mean(&self, class: usize) -> Result<(f64, f64), SolveError> {
        let classes = self.classes.len();
        self.means.get(class).copied().ok_or(SolveError::NoClass { class, classes })
    }

    /// Of demands up to x.
    fn up_to(&self, x: f64) -> UpTo {
        self.total(|part| part.up_to(x))
    }

    /// Of demands below x.
    fn below(&self, x: f64) -> UpTo {
        self.total(|part| part.below(x))
    }

    fn total(&self, of: impl Fn(&Part) -> [f64; 3]) -> UpTo {
        self.classes.iter().fold(UpTo::default(), |sum, (rate, part)| {
            let [share, first, second] = of(part);
            UpTo {
                rate: sum.rate + rate * share,
                load: sum.load + rate * first,
                second: sum.second + rate * second,
            }
        })
    }

    /// The wait of a job of demand x before its first service.
    fn waited(&self, x: f64, below: &UpTo, up_to: &UpTo) -> f64 {
        let larger = (self.lambda - up_to.rate).max(0.0);
        let found = up_to.second + x * x * larger;
        found / (2.0 * (1.0 - below.load) * (1.0 - up_to.load))
    }

    /// Sums what is asked of all jobs over the points.
    fn sum(&mut self, points: &[f64]) {
        let shares = |of: &dyn Fn(&Part) -> [f64; 3]| -> Vec<f64> {
            self.classes.iter().map(|(_, part)| of(part)[0]).collect()
        };
        let mut means = vec![(0.0, 0.0); self.classes.len()];
        let mut list = Vec::with_capacity(points.len());
        let (mut last, mut done) = (0.0, 0.0);
        let mut right = (self.up_to(0.0), (0.0, 0.0));
        let mut shares_right = vec![0.0; self.classes.len()];
        for &x in points {
            let (below, up_to) = (self.below(x), self.up_to(x));
            done += (x - last) * (1.0 / (1.0 - right.0.load) + 1.0 / (1.0 - below.load)) / 2.0;
            list.push((x, done));
            // The limits from the left and from the right, and the value at x between them.
            let told = |wait: f64| (wait, wait + done);
            let left = told(self.waited(x, &below, &below));
            let here = told(self.waited(x, &below, &up_to));
            let next = told(self.waited(x, &up_to, &up_to));
            let (shares_below, shares_up_to) =
                (shares(&|part| part.below(x)), shares(&|part| part.up_to(x)));
            for (class, mean) in means.iter_mut().enumerate() {
                let between = shares_below[class] - shares_right[class];
                let at = shares_up_to[class] - shares_below[class];
                mean.0 += between * (right.1.0 + left.0) / 2.0 + at * here.0;
                mean.1 += between * (right.1.1 + left.1) / 2.0 + at * here.1;
            }
            (last, right, shares_right) = (x, (up_to, next), shares_up_to);
        }
        (self.done, self.means) = (list, means);
    }
}

/// The demands at which integrals are looked at, rising: every value of lists, and steps of like
/// ratio over what is continuous.
fn points(classes: &[(f64, Demand)], parts: &[Part]) -> Result<Vec<f64>, SolveError> {
    let mut points = Vec::new();
    let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
    for ((_, demand), part) in classes.iter().zip(parts) {
        if let Some(values) = part.values() {
            points.extend(values);
            continue;
        }
        low = low.min(demand.quantile(LEFT_OUT.0)? / 2.0);
        high = high.max(demand.quantile(1.0 - LEFT_OUT.1)?);
        if let Law::Uniform(from, to) = demand.law {
            points.extend([from, to]);
        }
    }
    if high > 0.0 {
        let low = low.max(high * 1e-15);
        let ratio = (high / low).ln() / f64::from(STEPS);
        points.extend((0..=STEPS).map(|i| low * (ratio * f64::from(i)).exp()));
    }
    points.retain(|point| *point > 0.0);
    points.sort_by(f64::total_cmp);
    points.dedup();
    Ok(points)
}
