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

    /// Variance of the time from arrival to the start of service of class k, counted from 0, with the
    /// third moments E\[S^3\] of all classes \[s^2\] (Kesten and Runnenburg 1957): the work ahead
    /// that a job of the class finds, V, lasts as long as the busy period that it begins of classes
    /// before k. With A the sum of lambda(i) E\[S(i)^2\] over classes up to k, H over those before k, and
    /// sums without a limit over all that count,
    ///
    /// ```text
    ///   E[W(k)^2] = sum lambda(i) E[S(i)^3] / (3 (1 - sigma(k-1))^2 (1 - sigma(k)))
    ///             + W0 A / ((1 - sigma(k-1))^2 (1 - sigma(k))^2)
    ///             + W0 H / ((1 - sigma(k-1))^3 (1 - sigma(k)))
    /// ```
    ///
    /// # Errors
    /// If there is no such class, a third moment is negative, or there are not as many as classes.
    pub fn wait_variance(&self, class: usize, thirds: &[f64]) -> Result<f64, SolveError> {
        let wait = self.wait(class)?;
        let classes = self.classes.len();
        if thirds.len() != classes {
            return Err(SolveError::NoClass { class: thirds.len(), classes });
        }
        for third in thirds {
            not_negative("third moment E[S^3]", *third, "s^3")?;
        }
        let counted = match self.preemption {
            Preemption::None => classes,
            Preemption::Resume => class + 1,
        };
        let third: f64 =
            self.classes[..counted].iter().zip(thirds).map(|((rate, _), third)| rate * third).sum();
        let (first, both) = (1.0 - self.sigma(class), 1.0 - self.sigma(class + 1));
        let left = wait * first * both;
        let square = third / (3.0 * first.powi(2) * both)
            + left * self.second(class + 1) / (first * both).powi(2)
            + left * self.second(class) / (first.powi(3) * both);
        Ok(square - wait.powi(2))
    }

    /// Variance of the time from the start of service to departure of a job of class k, counted from 0,
    /// with this demand \[s^2\]. With preemption a service x lasts as long as the busy period that it
    /// begins of classes before k, whose variance is x H / (1 - sigma(k-1))^3.
    ///
    /// # Errors
    /// If there is no such class.
    pub fn service_variance(&self, class: usize, demand: Moments) -> Result<f64, SolveError> {
        self.class(class)?;
        let first = 1.0 - self.sigma(class);
        Ok(match self.preemption {
            Preemption::None => demand.variance(),
            Preemption::Resume => {
                demand.variance() / first.powi(2)
                    + demand.mean() * self.second(class) / first.powi(3)
            }
        })
    }

    /// Variance of the response time of class k, counted from 0: the wait before service and what
    /// follows are independent \[s^2\].
    ///
    /// # Errors
    /// As [`wait_variance`](Self::wait_variance).
    pub fn response_variance(&self, class: usize, thirds: &[f64]) -> Result<f64, SolveError> {
        let demand = self.class(class)?.1;
        Ok(self.wait_variance(class, thirds)? + self.service_variance(class, demand)?)
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

    /// The sum of lambda E\[S^2\] over the first so many classes \[s\].
    fn second(&self, classes: usize) -> f64 {
        self.classes[..classes].iter().map(|(lambda, s)| lambda * s.second()).sum()
    }
}
