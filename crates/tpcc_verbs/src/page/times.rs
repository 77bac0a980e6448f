//! Histograms of times as figures: how frequent, by quantile, and beside the distribution that the
//! rules ask for.

use std::time::Duration;

use cli::text::{self, time};
use measure::Histogram;
use report::{Axis, Curves, Figure, Quantiles, Reference, Series};

use super::Broken;

/// Stretches of a frequency distribution; the specification asks for 20 at least (8.1.6.5).
const STRETCHES: usize = 40;
/// Reach of a distribution, in 90th percentiles (8.1.6.5).
const REACH: u64 = 4;
/// The finest that a histogram resolves \[ns\].
const RESOLUTION: u64 = 1_000;
/// The quantiles that a curve is drawn through.
const CURVE: [f64; 10] = [0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.999, 0.9999];
/// Reach of the think times that are drawn, in means, and the number of stretches.
const THOUGHT: (f64, usize) = (4.0, 24);

/// Limit on the 90th percentile.
#[derive(Clone, Copy)]
pub(super) struct Limit(Duration);

impl Limit {
    pub(super) fn on_p90(limit: Duration) -> Limit {
        Limit(limit)
    }
}

/// A unit for times up to so many nanoseconds, and how many nanoseconds it has.
fn unit(most: u64) -> (&'static str, f64) {
    match most {
        2_000_000_000.. => ("s", 1e9),
        2_000_000.. => ("ms", 1e6),
        _ => ("us", 1e3),
    }
}

/// Frequencies of times, from zero to four times their 90th percentile; `None` of nothing.
pub(super) fn frequency(
    title: &str,
    times: &Histogram,
    Limit(limit): Limit,
) -> Result<Option<Figure>, Broken> {
    if times.is_empty() {
        return Ok(None);
    }
    let p90 = times.quantile(0.9).as_nanos() as u64;
    let width = (REACH * p90).div_ceil(STRETCHES as u64).max(RESOLUTION);
    let reach = width * STRETCHES as u64;
    let mut counts = [0_u64; STRETCHES];
    for (nanos, count) in times.counts() {
        if let Some(stretch) = counts.get_mut((nanos / width) as usize) {
            *stretch += count;
        }
    }
    let all = times.len() as f64;
    let (name, size) = unit(reach);
    let middle = |nth: usize| (nth as f64 + 0.5) * width as f64 / size;
    let shares = counts.iter().enumerate().map(|(nth, &n)| (middle(nth), n as f64 / all * 100.0));
    let mut curves = Curves::new(Axis::linear("Response time", name), Axis::linear("Share", "%"))
        .series(Series::line("frequency", shares));
    let quantile = |q: f64| times.quantile(q).as_nanos() as f64 / size;
    let marks =
        [("p50", quantile(0.5)), ("mean", times.mean_s() * 1e9 / size), ("p90", quantile(0.9))];
    let edge = reach as f64 / size;
    for (name, at) in marks {
        if at <= edge {
            curves = curves.reference(Reference::x(name, at));
        }
    }
    let limit_at = limit.as_nanos() as f64 / size;
    let limit_text = match limit_at <= edge {
        true => {
            curves = curves.reference(Reference::x("limit on p90", limit_at));
            String::new()
        }
        false => format!(" The limit on p90, {}, is far to the right.", time(limit.as_secs_f64())),
    };
    let beyond = times.len() - counts.iter().sum::<u64>();
    let caption = format!(
        "Share of {} answers in each {}. p50 {}, mean {}, p90 {}; {beyond} lie beyond the axis, the \
         longest at {}.{limit_text}",
        times.len(),
        time(width as f64 * 1e-9),
        text::quantile(times.quantile(0.5).as_secs_f64()),
        time(times.mean_s()),
        text::quantile(times.quantile(0.9).as_secs_f64()),
        time(times.max().as_secs_f64()),
    );
    Ok(Some(Figure::new(title, caption, curves)?))
}

/// Times by their quantile, a curve a name; `None` where there are too few for any.
pub(super) fn by_quantile<'a>(
    title: &str,
    all: impl Iterator<Item = (&'a str, &'a Histogram)>,
) -> Result<Option<Figure>, Broken> {
    let mut plot = Quantiles::new(Axis::log("Response time", "ms"));
    for (name, times) in all {
        // Ten beyond a quantile are the least that it may be read from.
        let points: Vec<_> = CURVE
            .iter()
            .filter(|q| (1.0 - **q) * times.len() as f64 >= 10.0)
            .map(|&q| (q, times.quantile(q).as_secs_f64() * 1e3))
            .filter(|&(_, response)| response > 0.0)
            .collect();
        if points.len() > 1 {
            plot = plot.series(Series::line(name, points));
        }
    }
    if plot.series.is_empty() {
        return Ok(None);
    }
    let caption = "A curve ends where fewer than ten are beyond it.";
    Ok(Some(Figure::new(title, caption, plot)?))
}

/// Think times beside the exponential distribution of this mean (5.2.5.4); `None` of nothing.
pub(super) fn think(
    title: &str,
    times: &Histogram,
    mean: Duration,
) -> Result<Option<Figure>, Broken> {
    if times.is_empty() {
        return Ok(None);
    }
    let (mean, n) = (mean.as_secs_f64(), times.len() as f64);
    let (reach, stretches) = THOUGHT;
    let width = reach * mean / stretches as f64;
    let mut counts = vec![0_u64; stretches];
    for (nanos, count) in times.counts() {
        if let Some(stretch) = counts.get_mut((nanos as f64 * 1e-9 / width) as usize) {
            *stretch += count;
        }
    }
    let below = |seconds: f64| 1.0 - (-seconds / mean).exp();
    let asked = |nth: usize| below((nth + 1) as f64 * width) - below(nth as f64 * width);
    let middle = |nth: usize| (nth as f64 + 0.5) * width;
    let chance = (0..stretches).map(|nth| {
        let (p, half) = (asked(nth), 1.96 * (asked(nth) * (1.0 - asked(nth)) / n).sqrt());
        (middle(nth), (p - half).max(0.0) * 100.0, (p + half) * 100.0)
    });
    let line = (0..stretches).map(|nth| (middle(nth), asked(nth) * 100.0));
    let dots = counts.iter().enumerate().map(|(nth, &n_of)| (middle(nth), n_of as f64 / n * 100.0));
    let curves = Curves::new(Axis::linear("Think time", "s"), Axis::linear("Share", "%"))
        .series(Series::band("19 of 20 by chance", chance).hue(0))
        .series(Series::line("exponential, as asked for", line).hue(0))
        .series(Series::dots("thought", dots).hue(1))
        .reference(Reference::x("mean", times.mean_s()));
    let gap = gap(times, mean);
    let caption = format!(
        "Share of {n} think times in each {width:.3} s; {mean:.2} s are asked for in the mean, and {:.2} s \
         was it. {:.1} % were longer than the axis, {:.1} % are asked for. The cumulative shares are \
         {:.1} % apart at most; by chance they are more than {:.1} % apart once in 20 runs.",
        times.mean_s(),
        (1.0 - counts.iter().sum::<u64>() as f64 / n) * 100.0,
        (1.0 - below(reach * mean)) * 100.0,
        gap * 100.0,
        1.358 / n.sqrt() * 100.0,
    );
    Ok(Some(Figure::new(title, caption, curves)?))
}

/// The largest distance between the cumulative shares of times and of the exponential distribution of
/// this mean \[s\], as Kolmogorov and Smirnov have it.
fn gap(times: &Histogram, mean: f64) -> f64 {
    let (mut before, mut most, all) = (0_u64, 0.0_f64, times.len() as f64);
    for (nanos, count) in times.counts() {
        let asked = 1.0 - (-(nanos as f64 * 1e-9) / mean).exp();
        let after = before + count;
        // On both sides of the step; that a histogram's value stands for all within a thousandth of it
        // adds 0.04 % at most.
        most = most.max((after as f64 / all - asked).abs());
        most = most.max((asked - before as f64 / all).abs());
        before = after;
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The quantiles of an exponential distribution, each once.
    fn exponential(n: u32, mean: f64) -> Histogram {
        let mut times = Histogram::new();
        for nth in 0..n {
            let u = (f64::from(nth) + 0.5) / f64::from(n);
            times.record(Duration::from_secs_f64(-(1.0 - u).ln() * mean));
        }
        times
    }

    #[test]
    fn the_gap_tells_an_exponential_from_a_constant_and_from_another_mean() {
        assert!(gap(&exponential(10_000, 12.0), 12.0) < 1e-3);
        // Of F(t) = 1 - exp(-t / m), the distance of means 10 and 12 is largest where their
        // densities are equal: at t = ln(1.2) / (1/10 - 1/12), where it is 0.0670.
        let other = gap(&exponential(10_000, 10.0), 12.0);
        assert!((other - 0.0670).abs() < 2e-3, "{other}");
        let mut constant = Histogram::new();
        (0..1000).for_each(|_| constant.record(Duration::from_secs(12)));
        let gap = gap(&constant, 12.0);
        assert!((gap - (1.0 - (-1.0_f64).exp())).abs() < 2e-3, "{gap}");
    }
}
