//! Arrival rates that change over time.

use std::fmt;

use crate::{Chance, Dist};

/// An arrival rate over time, in pieces.
#[derive(Clone, Debug, PartialEq)]
pub struct RateCurve {
    /// Times \[s\], the first 0, and rates [1/s].
    points: Vec<(f64, f64)>,
    pieces: Pieces,
    period: Option<f64>,
    /// Arrivals of a period in the mean.
    period_area: f64,
    /// The span before its time 0, at its first rate \[s\].
    lead: f64,
}

/// What the rate does between two points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pieces {
    /// It stays until the next point.
    Constant,
    /// It goes straight to the next point.
    Linear,
}

/// Why points are no rate over time.
#[derive(Clone, Debug, PartialEq)]
pub struct CurveError(String);

impl fmt::Display for CurveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CurveError {}

impl RateCurve {
    /// The most points of a curve.
    pub const POINTS_MAX: usize = 100_000;
    /// The highest rate [1/s]: a clock of nanoseconds must tell arrivals apart.
    pub const RATE_MAX: f64 = 1e8;

    /// A curve through these (time \[s\], rate [1/s]); with a period it begins anew after it, without
    /// one the last rate stays for ever.
    ///
    /// # Errors
    /// If there is no point or there are too many, the first is not at 0, times do not increase, a
    /// rate is out of range, the period is not beyond the last point, or nobody ever arrives.
    pub fn new(
        points: Vec<(f64, f64)>,
        pieces: Pieces,
        period: Option<f64>,
    ) -> Result<RateCurve, CurveError> {
        let error = |text: String| Err(CurveError(text));
        let Some(&(first, _)) = points.first() else {
            return error("a rate over time needs at least one point".into());
        };
        if points.len() > RateCurve::POINTS_MAX {
            return error(format!("it has more than {} points", RateCurve::POINTS_MAX));
        }
        if first != 0.0 {
            return error(format!("its first point must be at 0 s, but it is at {first} s"));
        }
        if let Some(at) = points.windows(2).position(|two| !is_after(two[1].0, two[0].0)) {
            let (before, after) = (points[at].0, points[at + 1].0);
            return error(format!("times must increase, but {after} s follows {before} s"));
        }
        if let Some((at, rate)) =
            points.iter().find(|(_, rate)| !(0.0..=RateCurve::RATE_MAX).contains(rate))
        {
            return error(format!("a rate is from 0/s to 1e8/s, but at {at} s it is {rate}/s"));
        }
        let last = points[points.len() - 1].0;
        if !last.is_finite() {
            return error("its last point is not at a finite time".into());
        }
        if let Some(period) = period
            && !(period.is_finite() && period > last)
        {
            return error(format!(
                "its period must end after its last point, {last} s, but it is {period} s"
            ));
        }
        if points.iter().all(|(_, rate)| *rate == 0.0) {
            return error("its rate is 0 throughout: nobody ever arrives".into());
        }
        let mut curve = RateCurve { points, pieces, period, period_area: f64::INFINITY, lead: 0.0 };
        if let Some(period) = period {
            curve.period_area = curve.begun_by(period);
        }
        Ok(curve)
    }

    /// The same curve, begun so much later \[s\]: until then its first rate is held, as in a warm-up.
    ///
    /// # Panics
    /// If `lead` is negative or not finite.
    pub fn led_in(mut self, lead: f64) -> RateCurve {
        assert!(lead.is_finite() && lead >= 0.0, "a warm-up of {lead} s");
        self.lead = lead;
        self
    }

    /// The same curve at a share of every rate, above 0: independent Poisson streams superpose exactly.
    ///
    /// # Panics
    /// If the share is not above 0 and at most 1.
    pub fn scaled(mut self, share: f64) -> RateCurve {
        assert!(share > 0.0 && share <= 1.0, "a share of {share}");
        self.points.iter_mut().for_each(|(_, rate)| *rate *= share);
        self.period_area *= share;
        self
    }

    /// The times \[s\] and rates [1/s], without the lead.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// The course of the rate between two points.
    pub fn pieces(&self) -> Pieces {
        self.pieces
    }

    /// The first arrival after `t` of the Poisson process with this rate \[s\]; none if nobody arrives any
    /// more. The simulator and the load engine both draw arrivals here.
    pub fn arrival_after(&self, t: f64, chance: &mut Chance) -> Option<f64> {
        self.after(t, Dist::Exponential { mean: 1.0 }.sample(chance))
    }

    /// After which time it begins anew \[s\].
    pub fn period(&self) -> Option<f64> {
        self.period
    }

    /// The highest rate [1/s].
    pub fn rate_max(&self) -> f64 {
        self.points.iter().fold(0.0, |max, (_, rate)| max.max(*rate))
    }

    /// The mean number of arrivals from 0, or the beginning of the lead, to `t` \[s\].
    pub fn arrivals_by(&self, t: f64) -> f64 {
        if self.lead > 0.0 {
            return self.points[0].1 * t.min(self.lead) + self.begun_by((t - self.lead).max(0.0));
        }
        self.begun_by(t)
    }

    fn begun_by(&self, t: f64) -> f64 {
        let (mut area, mut left) = (0.0, t);
        if let Some(period) = self.period
            && t > period
        {
            area = (t / period).floor() * self.period_area;
            left = t % period;
        }
        for at in 0..self.points.len() {
            let span = (self.end(at) - self.points[at].0).min(left);
            if span <= 0.0 {
                break;
            }
            let (rate, slope) = self.piece(at, 0.0);
            area += rate * span + slope * span * span / 2.0;
            left -= span;
        }
        area
    }

    /// The time at which the mean number of arrivals since `t` has reached `area`; none if it never
    /// does. With an exponential `area` of mean 1 it is the next arrival of a Poisson process
    /// (inversion; Çinlar 1975).
    pub fn after(&self, t: f64, area: f64) -> Option<f64> {
        if t >= self.lead {
            return self.begun_after(t - self.lead, area).map(|after| self.lead + after);
        }
        let first = self.points[0].1;
        let led = first * (self.lead - t);
        if area < led {
            return Some(t + area / first);
        }
        self.begun_after(0.0, area - led).map(|after| self.lead + after)
    }

    fn begun_after(&self, t: f64, area: f64) -> Option<f64> {
        let (mut now, mut left) = (t, area);
        if let Some(period) = self.period {
            let whole = (left / self.period_area).floor();
            now += whole * period;
            left -= whole * self.period_area;
        }
        let mut local = self.period.map_or(now, |period| now % period);
        let mut at = self.points.partition_point(|(time, _)| *time <= local) - 1;
        // Rounding may leave a last crumb of area behind a piece of rate 0: one round more than a
        // period is enough for any of it.
        for _ in 0..=2 * self.points.len() + 1 {
            let span = self.end(at) - local;
            let (rate, slope) = self.piece(at, local - self.points[at].0);
            let all = if span.is_finite() { rate * span + slope * span * span / 2.0 } else { rate };
            if left <= all || (span.is_infinite() && rate > 0.0) {
                let root = (rate * rate + 2.0 * slope * left).max(0.0).sqrt();
                let step = if left == 0.0 { 0.0 } else { 2.0 * left / (rate + root) };
                return Some(now + step.min(span));
            }
            if span.is_infinite() {
                return None;
            }
            left -= all;
            now += span;
            local += span;
            at += 1;
            if at == self.points.len() {
                (at, local) = (0, 0.0);
            }
        }
        Some(now)
    }

    /// Where a piece ends \[s\].
    fn end(&self, at: usize) -> f64 {
        let next = self.points.get(at + 1).map(|(time, _)| *time);
        next.or(self.period).unwrap_or(f64::INFINITY)
    }

    /// The rate so far into a piece, and its slope.
    fn piece(&self, at: usize, into: f64) -> (f64, f64) {
        let (start, rate) = self.points[at];
        let end = self.end(at);
        if self.pieces == Pieces::Constant || end.is_infinite() {
            return (rate, 0.0);
        }
        let next = self.points.get(at + 1).unwrap_or(&self.points[0]).1;
        let slope = (next - rate) / (end - start);
        (rate + slope * into, slope)
    }
}

/// False for what is no number, too.
fn is_after(later: f64, earlier: f64) -> bool {
    later > earlier
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inversion_gives_back_what_integration_took() {
        let points = vec![(0.0, 2.0), (3.0, 0.0), (5.0, 0.0), (6.0, 8.0)];
        for pieces in [Pieces::Constant, Pieces::Linear] {
            for (period, lead) in [(None, 0.0), (Some(10.0), 0.0), (None, 1.5), (Some(10.0), 1.5)] {
                let curve = RateCurve::new(points.clone(), pieces, period).unwrap().led_in(lead);
                for step in 1..400 {
                    let area = f64::from(step) * 0.37;
                    let reached = curve.after(0.0, area).unwrap();
                    let back = curve.arrivals_by(reached);
                    assert!((back - area).abs() < 1e-9, "{pieces:?} {period:?} {area}: {back}");
                    // In two steps as in one.
                    let half = curve.after(0.0, area / 2.0).unwrap();
                    let twice = curve.after(half, area / 2.0).unwrap();
                    assert!((curve.arrivals_by(twice) - area).abs() < 1e-9, "{area}");
                }
            }
        }
    }

    #[test]
    fn a_lead_holds_the_first_rate_and_moves_the_rest() {
        let curve = RateCurve::new(vec![(0.0, 2.0), (1.0, 4.0)], Pieces::Constant, None).unwrap();
        let led = curve.clone().led_in(3.0);
        assert_eq!((led.arrivals_by(1.0), led.arrivals_by(3.0)), (2.0, 6.0));
        assert_eq!(led.arrivals_by(5.0), 6.0 + curve.arrivals_by(2.0));
        assert_eq!(led.after(2.5, 1.0), Some(3.0));
        let idle = RateCurve::new(vec![(0.0, 0.0), (1.0, 4.0)], Pieces::Constant, None).unwrap();
        assert_eq!(idle.led_in(3.0).after(0.0, 2.0), Some(4.5), "nobody comes before");
    }

    /// Of a Poisson count of mean 3 000 four standard deviations are 7.3 %.
    #[test]
    fn shares_of_a_curve_make_the_curve() {
        let curve = RateCurve::new(vec![(0.0, 100.0), (20.0, 50.0)], Pieces::Constant, None);
        let share = curve.unwrap().scaled(0.25);
        let mut counts = [0_u32; 2];
        for stream in 0..4 {
            let mut chance = crate::stream(11, stream);
            let mut at = 0.0;
            while let Some(next) = share.arrival_after(at, &mut chance).filter(|at| *at < 40.0) {
                counts[usize::from(next >= 20.0)] += 1;
                at = next;
            }
        }
        for (count, mean) in counts.into_iter().zip([2000.0, 1000.0_f64]) {
            assert!((f64::from(count) - mean).abs() < 4.0 * mean.sqrt(), "{counts:?}");
        }
    }

    #[test]
    fn a_curve_that_ends_at_zero_ends() {
        let curve = RateCurve::new(vec![(0.0, 1.0), (2.0, 0.0)], Pieces::Constant, None).unwrap();
        assert_eq!(curve.after(0.0, 1.5), Some(1.5));
        assert_eq!(curve.after(0.0, 2.5), None);
    }

    #[test]
    fn points_that_are_no_curve_are_refused() {
        let new = |points: &[(f64, f64)], period| {
            RateCurve::new(points.to_vec(), Pieces::Constant, period).unwrap_err().to_string()
        };
        assert!(new(&[], None).contains("at least one point"));
        assert!(new(&[(1.0, 1.0)], None).contains("at 0 s"));
        assert!(new(&[(0.0, 1.0), (0.0, 2.0)], None).contains("must increase"));
        assert!(new(&[(0.0, -1.0)], None).contains("from 0/s"));
        assert!(new(&[(0.0, f64::NAN)], None).contains("from 0/s"));
        assert!(new(&[(0.0, 0.0)], None).contains("nobody ever arrives"));
        assert!(new(&[(0.0, 1.0), (5.0, 1.0)], Some(5.0)).contains("after its last point"));
    }
}
