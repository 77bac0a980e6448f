//! One server, several classes of jobs, the more important ones first.

use crate::error::{not_negative, stable};
use crate::{Exactness, Moments, Preemption, SolveError};

/// M/G/1 with priorities: each class has Poisson arrivals and a demand of its own; within a class
/// first in first out. Exact.
///
/// Without preemption (Cobham 1954; Kleinrock 1976, eq. 3.30), with sigma(k) the utilisation by
/// classes up to k and W0 the mean work left in service that an arrival finds,
///
/// ```text
///   W(k) = W0 / ((1 - sigma(k-1)) (1 - sigma(k))),   W0 = sum over all i of lambda(i) E[S(i)^2] / 2
/// ```
///
/// With preemption only classes up to k count in W0, and a service lasts E\[S(k)\] / (1 -
/// sigma(k-1)) (Kleinrock 1976, eq. 3.39).
///
/// ```
/// use solve::{Mg1Priority, Moments, Preemption};
///
/// let demand = Moments::exponential(10e-3)?;
/// let both = Mg1Priority::new(&[(20.0, demand), (60.0, demand)], Preemption::None)?;
/// assert!((both.wait(0)? - 10e-3).abs() < 1e-12);
/// assert!((both.wait(1)? - 50e-3).abs() < 1e-12);
/// # Ok::<(), solve::SolveError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Mg1Priority {
    classes: Vec<(f64, Moments)>,
    preemption: Preemption,
}

impl Mg1Priority {
    /// A server of classes, the most important first, each with arrival rate lambda [1/s] and
    /// demand S \[s\].
    ///
    /// # Errors
    /// If there is no class, an arrival rate is negative, or the utilisation by all classes together
    /// is not below 1.
    pub fn new(
        classes: &[(f64, Moments)],
        preemption: Preemption,
    ) -> Result<Mg1Priority, SolveError> {
        if classes.is_empty() {
            return Err(SolveError::Zero { name: "classes" });
        }
        let (mut lambda, mut rho) = (0.0, 0.0);
        for &(rate, demand) in classes {
            lambda += not_negative("arrival rate lambda", rate, "/s")?;
            rho += rate * demand.mean();
        }
        let mean = if lambda > 0.0 { rho / lambda } else { 0.0 };
        stable(|| "M/G/1 with priorities".to_owned(), lambda, mean, 1)?;
        Ok(Mg1Priority { classes: classes.to_vec(), preemption })
    }

    /// Utilisation by all classes together.
    pub fn utilisation(&self) -> f64 {
        self.sigma(self.classes.len())
    }

    /// Mean time from arrival to the start of service of class k, counted from 0 \[s\].
    ///
    /// # Errors
    /// If there is no such class.
    pub fn wait(&self, class: usize) -> Result<f64, SolveError> {
        self.class(class)?;
        let found = match self.preemption {
            Preemption::None => &self.classes[..],
            Preemption::Resume => &self.classes[..=class],
        };
        let left: f64 = found.iter().map(|(lambda, s)| lambda * s.second() / 2.0).sum();
        Ok(left / ((1.0 - self.sigma(class)) * (1.0 - self.sigma(class + 1))))
    }

    /// Mean response time of class k, counted from 0 \[s\].
    ///
    /// # Errors
    /// If there is no such class.
    pub fn response(&self, class: usize) -> Result<f64, SolveError> {
        let demand = self.class(class)?.1.mean();
        let service = match self.preemption {
            Preemption::None => demand,
            Preemption::Resume => demand / (1.0 - self.sigma(class)),
        };
        Ok(self.wait(class)? + service)
    }

    /// Exact.
    pub fn exactness(&self) -> Exactness {
        Exactness::Exact
    }

    fn class(&self, class: usize) -> Result<(f64, Moments), SolveError> {
        let classes = self.classes.len();
        self.classes.get(class).copied().ok_or(SolveError::NoClass { class, classes })
    }

    /// Utilisation by the first so many classes.
    fn sigma(&self, classes: usize) -> f64 {
        self.classes[..classes].iter().map(|(lambda, s)| lambda * s.mean()).sum()
    }
}
