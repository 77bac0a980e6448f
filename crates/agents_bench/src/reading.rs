//! Figures of a benchmark as far as they are told, so that a floor or a difference below zero is printed as what it is,
//! and meets no aim.

use std::fmt;
use std::time::Duration;

/// Processor time below which a sum of readings says nothing: they come in steps of 10 ms.
const TOLD_LEAST: Duration = Duration::from_millis(50);

/// A figure above zero, as far as it is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// The figure itself.
    Exact(f64),
    /// It is below that.
    Below(f64),
    /// It is above that.
    Above(f64),
    /// Nothing is known of it.
    Untold,
}

impl Reading {
    /// A figure; one that is no number above zero, such as a difference of what has shrunk meanwhile, is not told.
    ///
    /// # Examples
    /// ```
    /// use agents_bench::Reading;
    ///
    /// assert_eq!(Reading::of(1.5), Reading::Exact(1.5));
    /// assert_eq!(Reading::of(-1.5), Reading::Untold);
    /// ```
    pub fn of(figure: f64) -> Reading {
        if figure > 0.0 && figure.is_finite() { Reading::Exact(figure) } else { Reading::Untold }
    }

    /// A sum of processor times \[s\]. One that is shorter than the kernel tells is below that.
    ///
    /// # Examples
    /// ```
    /// use agents_bench::Reading;
    /// use std::time::Duration;
    ///
    /// assert_eq!(Reading::of_processor(Duration::from_millis(40)), Reading::Below(0.05));
    /// ```
    pub fn of_processor(sum: Duration) -> Reading {
        match sum < TOLD_LEAST {
            true => Reading::Below(TOLD_LEAST.as_secs_f64()),
            false => Reading::Exact(sum.as_secs_f64()),
        }
    }

    /// The ratio to another figure.
    pub fn over(self, other: Reading) -> Reading {
        match (self, other) {
            (Reading::Exact(one), Reading::Exact(other)) => Reading::of(one / other),
            (Reading::Below(one), Reading::Exact(other) | Reading::Above(other))
            | (Reading::Exact(one), Reading::Above(other)) => Reading::Below(one / other),
            (Reading::Above(one), Reading::Exact(other) | Reading::Below(other))
            | (Reading::Exact(one), Reading::Below(other)) => Reading::Above(one / other),
            (Reading::Below(_), Reading::Below(_))
            | (Reading::Above(_), Reading::Above(_))
            | (Reading::Untold, _)
            | (_, Reading::Untold) => Reading::Untold,
        }
    }

    /// The figure so many times.
    ///
    /// # Panics
    /// If the factor is not above zero.
    pub fn times(self, factor: f64) -> Reading {
        assert!(factor > 0.0, "{factor} times a figure is no figure");
        match self {
            Reading::Exact(figure) => Reading::Exact(figure * factor),
            Reading::Below(figure) => Reading::Below(figure * factor),
            Reading::Above(figure) => Reading::Above(figure * factor),
            Reading::Untold => Reading::Untold,
        }
    }
}

impl fmt::Display for Reading {
    /// With as many digits after the point as the precision says, 2 if it says nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        let text = match self {
            Reading::Exact(figure) => format!("{figure:.digits$}"),
            Reading::Below(figure) => format!("< {figure:.digits$}"),
            Reading::Above(figure) => format!("> {figure:.digits$}"),
            Reading::Untold => "not told".to_owned(),
        };
        // `pad` would take the precision for a length.
        let width = f.width().unwrap_or(0);
        write!(f, "{text:>width$}")
    }
}

/// The value that a figure should have: a speed has a least, a cost a most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aim {
    /// At least that.
    Least(f64),
    /// At most that.
    Most(f64),
}

impl Aim {
    /// True if a figure meets it; none if it is not told so far that this is known.
    pub fn is_met(self, found: Reading) -> Option<bool> {
        match (self, found) {
            (Aim::Least(aim), Reading::Exact(found)) => Some(found >= aim),
            (Aim::Most(aim), Reading::Exact(found)) => Some(found <= aim),
            (Aim::Least(aim), Reading::Above(found)) => (found >= aim).then_some(true),
            (Aim::Least(aim), Reading::Below(found)) => (found <= aim).then_some(false),
            (Aim::Most(aim), Reading::Above(found)) => (found >= aim).then_some(false),
            (Aim::Most(aim), Reading::Below(found)) => (found <= aim).then_some(true),
            (_, Reading::Untold) => None,
        }
    }
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Aim::Least(aim) => write!(f, "at least {aim}"),
            Aim::Most(aim) => write!(f, "at most {aim}"),
        }
    }
}

/// Number of aims that were held against figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aims {
    all: u32,
    missed: u32,
    untold: u32,
}

impl Aims {
    /// The most letters of the name of a figure.
    pub const NAME_MAX: usize = 57;

    /// Holds a figure against its aim; the row to print. Figures below 10^9 stand in at most 98 columns, so that an
    /// indent of two leaves 100.
    ///
    /// # Panics
    /// If the name has more than [`Aims::NAME_MAX`] letters.
    pub fn row(&mut self, name: &str, found: Reading, aim: Aim) -> String {
        assert!(name.chars().count() <= Self::NAME_MAX, "`{name}` is too long for a row");
        self.all += 1;
        let mark = match aim.is_met(found) {
            Some(true) => "",
            Some(false) => {
                self.missed += 1;
                "  MISSED"
            }
            None => {
                self.untold += 1;
                "  not told"
            }
        };
        format!("{name:<width$} {found:>12.1}  {aim}{mark}", width = Self::NAME_MAX)
    }
}

impl fmt::Display for Aims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} aims missed, {} not told", self.missed, self.all, self.untold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two processor times below the floor had a gain of 1.00.
    #[test]
    fn figures_below_the_floor_have_no_ratio() {
        let short = Reading::of_processor(Duration::from_millis(10));
        let long = Reading::of_processor(Duration::from_millis(500));
        assert_eq!(short.over(short).to_string(), "not told");
        assert_eq!(long.over(short).to_string(), "> 10.00");
        assert_eq!(format!("{:.1}", short.over(long)), "< 0.1");
        assert_eq!(format!("{:>8.1}|", long.over(long)), "     1.0|");
        assert_eq!(short.times(20.0).over(long), Reading::Below(2.0));
        assert_eq!(Reading::of(3.0).over(Reading::Above(6.0)), Reading::Below(0.5));
        assert_eq!(long.over(Reading::Untold), Reading::Untold);
    }

    /// Memory that had shrunk was 0 bytes an agent, and a processor time of 0 infinitely fast: both aims were met.
    #[test]
    fn an_aim_is_met_only_by_what_is_told() {
        assert_eq!(Aim::Most(40.0).is_met(Reading::of(-3.0)), None);
        assert_eq!(Aim::Most(40.0).is_met(Reading::of(0.0)), None);
        assert_eq!(Aim::Least(5e6).is_met(Reading::of(f64::INFINITY)), None);
        assert_eq!(Aim::Most(1.5).is_met(Reading::Below(1.0)), Some(true));
        assert_eq!(Aim::Most(1.5).is_met(Reading::Below(2.0)), None);
        assert_eq!(Aim::Most(1.5).is_met(Reading::Above(2.0)), Some(false));
        assert_eq!(Aim::Most(1.5).is_met(Reading::Exact(1.5)), Some(true));
        assert_eq!(Aim::Least(40.0).is_met(Reading::Below(20.0)), Some(false));
        assert_eq!(Aim::Least(40.0).is_met(Reading::Below(60.0)), None);
        assert_eq!(Aim::Least(40.0).is_met(Reading::Above(60.0)), Some(true));
        assert_eq!(Aim::Least(40.0).is_met(Reading::Exact(39.0)), Some(false));
    }

    #[test]
    fn what_is_missed_and_what_is_not_told_is_counted() {
        let mut aims = Aims::default();
        let met = aims.row("a", Reading::of(1.0), Aim::Most(1.5));
        assert!(met.ends_with("1.0  at most 1.5"), "{met}");
        let missed = aims.row("b", Reading::of(1.0), Aim::Least(1.5));
        assert!(missed.ends_with("at least 1.5  MISSED"), "{missed}");
        let untold = aims.row("c", Reading::of(-1.0), Aim::Least(1.5));
        assert!(untold.ends_with("not told  at least 1.5  not told"), "{untold}");
        assert_eq!(aims.to_string(), "1 of 3 aims missed, 1 not told");
    }

    /// A row of 103 columns was said to have at most 100, and stands behind two blanks.
    #[test]
    fn a_row_has_at_most_98_columns() {
        let name = "n".repeat(Aims::NAME_MAX);
        for found in [Reading::Untold, Reading::Above(999_999_999.9), Reading::Exact(-1.0)] {
            for aim in [Aim::Least(5e6), Aim::Most(1_200.0)] {
                let row = Aims::default().row(&name, found, aim);
                assert!(row.chars().count() <= 98, "{}: {row}", row.chars().count());
            }
        }
    }
}
