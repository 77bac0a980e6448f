//! Arrival rates that change over time.

use std::fmt;

/// An arrival rate over time, in pieces.
#[derive(Clone, Debug, PartialEq)]
pub struct RateCurve {
    /// Times \[s\], the first 0, and rates [1/s].
    points: Vec<(f64, f64)>,
    pieces: Pieces,
    period: Option<f64>,
    /// Arrivals of a period in the mean.
    period_area: f64,
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
        let mut curve = RateCurve { points, pieces, period, period_area: f64::INFINITY };
        if let Some(period) = period {
            curve.period_area = curve.arrivals_by(period);
        }
        Ok(curve)
    }

    /// After which time it begins anew \[s\].
    pub fn period(&self) -> Option<f64> {
        self.period
    }

    /// The highest rate [1/s].
    pub fn rate_max(&self) -> f64 {
        self.points.iter().fold(0.0, |max, (_, rate)| max.max(*rate))
    }

    /// The mean number of arrivals from 0 to `t` \[s\].
    pub fn arrivals_by(&self, t: f64) -> f64 {
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
            for period in [None, Some(10.0)] {
                let curve = RateCurve::new(points.clone(), pieces, period).unwrap();
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
