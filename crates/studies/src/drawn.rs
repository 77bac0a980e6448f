//! Figures whose captions are computed from the series that they draw, so that a number under a figure is of the values
//! above it. A caption that is the same for other values is refused in tests; a sentence beside a number is not checked.

use cli::Failure;
use measure::figures::digits;
use report::{Curves, Figure, Mark, Plot, Residuals, Series};

/// The series of a figure, as its caption reads them.
pub(crate) struct Drawn(Vec<Row>);

/// A series of a figure: its name, and its points by x.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// Points (x, y).
    pub(crate) points: Vec<[f64; 2]>,
    /// The interval (lower, upper) of each; of one without, its value twice.
    pub(crate) intervals: Vec<[f64; 2]>,
}

/// A plot whose values a caption can read. The other kinds of plots are refused by the compiler: their captions could
/// not be tried on other values.
pub(crate) trait Readable: Into<Plot> {
    fn series(&self) -> &[Series];
}

impl Readable for Curves {
    fn series(&self) -> &[Series] {
        &self.series
    }
}

impl Readable for Residuals {
    fn series(&self) -> &[Series] {
        &self.series
    }
}

/// A figure with a caption that is computed from what it draws. Tests ask that the caption is another one for other
/// values, and the same for the same ones. They do not ask what it says: a sentence that stands beside a number may be
/// wrong of it.
///
/// # Errors
/// If the figure cannot be drawn.
///
/// # Panics
/// In tests, if the caption is the same for other values: then it was typed. If it is another one for the same values:
/// then chance speaks.
pub(crate) fn figure(
    title: &str,
    plot: impl Readable,
    caption: impl Fn(&Drawn) -> String,
) -> Result<Figure, Failure> {
    let drawn = Drawn(plot.series().iter().map(Row::of).collect());
    let text = caption(&drawn);
    #[cfg(test)]
    {
        let again = caption(&drawn);
        assert_eq!(again, text, "the caption of `{title}` says something else of the same values");
        let is_computed = !drawn.has_points() || caption(&tests::other(&drawn)) != text;
        assert!(is_computed, "the caption of `{title}` says of any values: {text}");
    }
    Figure::new(title, text, plot).map_err(Failure::defect)
}

impl Drawn {
    #[cfg(test)]
    fn has_points(&self) -> bool {
        self.0.iter().any(|row| !row.points.is_empty())
    }

    /// All series, in the order in which they were added.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.0
    }

    /// The series with this name.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn row(&self, name: &str) -> &Row {
        let found = self.0.iter().find(|row| row.name == name);
        found.unwrap_or_else(|| panic!("no series is named `{name}`"))
    }

    /// The lowest and the highest value at the least and at the largest x that all series have, with their
    /// names: "At 5 clients 1.60 s (a) to 1.90 s (b); at 50 ...".
    pub(crate) fn spread(&self, of: &str, unit: &str) -> String {
        let in_all = |x: &f64| self.0.iter().all(|row| row.at(*x).is_some());
        let xs: Vec<f64> = self.0.first().map_or(Vec::new(), |row| {
            row.points.iter().map(|point| point[0]).filter(in_all).collect()
        });
        let ends = match xs[..] {
            [] => return "No point is drawn of all.".into(),
            [only] => vec![only],
            [first, .., last] => vec![first, last],
        };
        let told = ends.into_iter().map(|x| {
            let mut values: Vec<(f64, &str)> =
                self.0.iter().filter_map(|row| Some((row.at(x)?, row.name.as_str()))).collect();
            values.sort_by(|one, other| one.0.total_cmp(&other.0));
            let told = |(value, name): (f64, &str)| format!("{} {unit} ({name})", digits(value));
            let [least, most] = [values[0], values[values.len() - 1]].map(told);
            format!("at {x} {of} {least} to {most}")
        });
        sentence(&told.collect::<Vec<_>>().join("; "))
    }
}

impl Row {
    fn of(series: &Series) -> Row {
        let exact = |&[x, y]: &[f64; 2]| ([x, y], [y, y]);
        let mut all: Vec<([f64; 2], [f64; 2])> = match &series.mark {
            Mark::Line(points) | Mark::Dashed(points) => points.iter().map(exact).collect(),
            Mark::Dots(points) => {
                let dot = |point: &report::Point| {
                    ([point.x, point.y], point.interval.unwrap_or([point.y, point.y]))
                };
                points.iter().map(dot).collect()
            }
            Mark::Band(points) => {
                let middle =
                    |&[x, low, high]: &[f64; 3]| ([x, f64::midpoint(low, high)], [low, high]);
                points.iter().map(middle).collect()
            }
        };
        all.sort_by(|one, other| one.0[0].total_cmp(&other.0[0]));
        let (points, intervals) = all.into_iter().unzip();
        Row { name: series.name.clone(), points, intervals }
    }

    /// The value at x: that of a point, or on the straight line between two; none beyond the ends.
    pub(crate) fn at(&self, x: f64) -> Option<f64> {
        let after = self.points.iter().position(|point| point[0] >= x)?;
        let [x1, y1] = self.points[after];
        if x1 == x {
            return Some(y1);
        }
        let [x0, y0] = self.points[after.checked_sub(1)?];
        Some(y0 + (y1 - y0) * (x - x0) / (x1 - x0))
    }

    /// The points of the least and of the largest x.
    pub(crate) fn ends(&self) -> Option<[[f64; 2]; 2]> {
        Some([*self.points.first()?, *self.points.last()?])
    }

    /// The point of the least value.
    pub(crate) fn lowest(&self) -> Option<[f64; 2]> {
        self.points.iter().copied().min_by(|one, other| one[1].total_cmp(&other[1]))
    }

    /// The point of the least value, its interval, and the x of all other points whose intervals meet that one: chance
    /// may have made it the least.
    pub(crate) fn lowest_by_chance(&self) -> Option<([f64; 2], [f64; 2], Vec<f64>)> {
        let both = || self.points.iter().zip(&self.intervals);
        let (least, own) = both().min_by(|one, other| one.0[1].total_cmp(&other.0[1]))?;
        let meets = |other: &[f64; 2]| other[0] <= own[1] && own[0] <= other[1];
        let others = both().filter(|(point, other)| point[0] != least[0] && meets(other));
        Some((*least, *own, others.map(|(point, _)| point[0]).collect()))
    }

    /// The ratio of its values to another's, at each of its points that the other reaches.
    pub(crate) fn over<'a>(&'a self, other: &'a Row) -> impl Iterator<Item = f64> + 'a {
        self.points.iter().filter_map(|[x, y]| Some(y / other.at(*x)?))
    }
}

/// The least and the most of ratios: "0.97 to 1.02 times"; of none, that there are none.
pub(crate) fn times(ratios: impl IntoIterator<Item = f64>) -> String {
    let mut ratios = ratios.into_iter();
    let Some(first) = ratios.next() else { return "at no point".into() };
    let (least, most) =
        ratios.fold((first, first), |(least, most), one| (least.min(one), most.max(one)));
    format!("{least:.2} to {most:.2} times")
}

/// The values at both ends of a series: "46.1 to 8.28".
pub(crate) fn from_to(row: &Row) -> String {
    match row.ends() {
        Some([first, last]) => format!("{} to {}", digits(first[1]), digits(last[1])),
        None => "nothing".into(),
    }
}

/// A text with a capital and a full stop.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", letters.as_str())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use std::cell::Cell;

    use report::Axis;

    use super::*;

    /// Other values at the same places: each series is turned round, and raised by another factor.
    pub(super) fn other(drawn: &Drawn) -> Drawn {
        let other = |(at, row): (usize, &Row)| {
            // Ratios of two series must not stay as they are either.
            let raised = |y: f64| (1.5 + 0.5 * at as f64) * y + 1.0 + at as f64;
            let turned = row.points.iter().rev().map(|point| raised(point[1]));
            let points = row.points.iter().zip(turned).map(|(point, y)| [point[0], y]).collect();
            let intervals = row.intervals.iter().rev().map(|ends| ends.map(raised)).collect();
            Row { points, intervals, ..row.clone() }
        };
        Drawn(drawn.0.iter().enumerate().map(other).collect())
    }

    fn curves() -> Curves {
        Curves::new(Axis::linear("clients", ""), Axis::linear("time", "s"))
            .series(Series::line("slow", [(1.0, 2.0), (3.0, 8.0)]))
            .series(Series::dots("fast", [(3.0, 1.0), (1.0, 2.5), (2.0, 1.25)]))
    }

    /// The story: a caption said "past six tasks the bottleneck is no longer software", whatever was
    /// simulated; nothing held it to the curve above it.
    #[test]
    #[should_panic(expected = "says of any values")]
    fn a_caption_that_was_typed_is_refused() {
        let _ = figure("A", curves(), |_| "Past six tasks the bottleneck is elsewhere.".into());
    }

    /// A caption that told a number of its own, another one each time, passed: of other values it said something else.
    #[test]
    #[should_panic(expected = "says something else of the same values")]
    fn a_caption_of_chance_is_refused() {
        let told = Cell::new(0);
        let _ = figure("A", curves(), |_| {
            told.set(told.get() + 1);
            format!("The bottleneck is elsewhere past {} tasks.", told.get())
        });
    }

    #[test]
    fn a_caption_reads_what_is_drawn() {
        let made = figure("A", curves(), |drawn| drawn.spread("clients", "s")).unwrap();
        let wanted = "At 1 clients 2.00 s (slow) to 2.50 s (fast); at 3 clients 1.00 s (fast) to 8.00 s (slow).";
        assert_eq!(made.caption(), wanted);
        let made = figure("A", curves(), |drawn| times(drawn.row("fast").over(drawn.row("slow"))));
        assert_eq!(made.unwrap().caption(), "0.12 to 1.25 times");
        let made = figure("A", curves(), |drawn| format!("{:?}", drawn.row("fast").lowest()));
        assert_eq!(made.unwrap().caption(), "Some([3.0, 1.0])");
        let made = figure("A", curves(), |drawn| from_to(&drawn.rows()[0]));
        assert_eq!(made.unwrap().caption(), "2.00 to 8.00");
        let residuals = Residuals::new(Axis::linear("clients", ""))
            .series(Series::measured("off", [(2.0, -3.0, -4.0, 1.0), (1.0, 5.0, 4.0, 6.0)]));
        let made = figure("A", residuals, |drawn| {
            let row = &drawn.rows()[0];
            format!("{:?} {:?}", row.points, row.intervals)
        });
        let wanted = "[[1.0, 5.0], [2.0, -3.0]] [[4.0, 6.0], [-4.0, 1.0]]";
        assert_eq!(made.unwrap().caption(), wanted, "an interval stays with its point");
    }

    /// Sources of this crate, by their path below `src`.
    fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else {
                let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }

    /// Each figure of a study passes here, where its caption is tried on other values. One has a test of its own
    /// instead, `the_caption_of_table_5_is_computed_from_the_runs_that_it_shows`: it says how many warehouses the model
    /// holds, which is between the points that it draws.
    #[test]
    fn no_study_makes_a_figure_past_this_file() {
        let mut found = Vec::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
        assert!(found.len() > 20, "{} files", found.len());
        let made = found.iter().map(|(name, text)| (name.as_str(), text.matches("Figure::new(")));
        let made: Vec<(&str, usize)> =
            made.map(|(name, matches)| (name, matches.count())).collect();
        for (name, count) in made {
            let most = match name {
                "drawn.rs" => usize::MAX,
                "nakamura/figures.rs" => 1,
                _ => 0,
            };
            assert!(count <= most, "{name} makes {count} figures past `drawn::figure`");
        }
    }
}
