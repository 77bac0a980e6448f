//! Figures as values: what each kind shows, and what is refused before it can reach a page.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::sliders::Live;

/// Scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Equal steps are equal differences; begins at zero unless the data are negative.
    Linear,
    /// Equal steps are equal ratios; every number must be above zero.
    Log,
}

/// An axis: what it shows, in which unit, how it counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Name of what it shows.
    pub label: String,
    /// The unit; empty if it has none.
    pub unit: String,
    /// Its scale.
    pub scale: Scale,
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: impl Into<String>, unit: impl Into<String>) -> Axis {
        Axis { label: label.into(), unit: unit.into(), scale: Scale::Linear }
    }

    /// A logarithmic axis.
    pub fn log(label: impl Into<String>, unit: impl Into<String>) -> Axis {
        Axis { label: label.into(), unit: unit.into(), scale: Scale::Log }
    }

    fn range(&self) -> Range {
        match self.scale {
            Scale::Linear => Range::Any,
            Scale::Log => Range::Positive,
        }
    }
}

/// A dot, with its interval if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Place on the horizontal axis.
    pub x: f64,
    /// The value.
    pub y: f64,
    /// The lower and the upper end of the value's interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
}

/// Way in which a series is drawn. The n-th series of one mark gets the n-th dash or the n-th
/// shape, so that series stay apart without colour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// A line through (x, y): a formula, a fit.
    Line(Vec<[f64; 2]>),
    /// A dashed line through (x, y): a simulation, another model.
    Dashed(Vec<[f64; 2]>),
    /// Dots with error bars: what was measured.
    Dots(Vec<Point>),
    /// The area between (x, lower, upper).
    Band(Vec<[f64; 3]>),
}

/// A named row of numbers against x.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// The name in the legend; unique in its figure.
    pub name: String,
    /// The colour's index; series about the same thing (a line, its band, its dots) share one.
    /// `None` for the series' own place in the figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hue: Option<u8>,
    /// Way in which it is drawn, and its numbers.
    pub mark: Mark,
}

impl Series {
    /// A line through (x, y).
    pub fn line(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series::new(name, Mark::Line(points.into_iter().map(|(x, y)| [x, y]).collect()))
    }

    /// A dashed line through (x, y).
    pub fn dashed(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series::new(name, Mark::Dashed(points.into_iter().map(|(x, y)| [x, y]).collect()))
    }

    /// Dots at (x, y), without intervals.
    pub fn dots(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        let points = points.into_iter().map(|(x, y)| Point { x, y, interval: None });
        Series::new(name, Mark::Dots(points.collect()))
    }

    /// Dots with error bars at (x, y, lower, upper).
    pub fn measured(
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64, f64, f64)>,
    ) -> Series {
        let points = points.into_iter().map(|(x, y, lower, upper)| Point {
            x,
            y,
            interval: Some([lower, upper]),
        });
        Series::new(name, Mark::Dots(points.collect()))
    }

    /// Measurements (x, y, [lower, upper]), of which some have no interval that is known.
    pub fn estimated(
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64, Option<[f64; 2]>)>,
    ) -> Series {
        let points = points.into_iter().map(|(x, y, interval)| Point { x, y, interval });
        Series::new(name, Mark::Dots(points.collect()))
    }

    /// The area between (x, lower, upper).
    pub fn band(
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64, f64)>,
    ) -> Series {
        let points = points.into_iter().map(|(x, lower, upper)| [x, lower, upper]);
        Series::new(name, Mark::Band(points.collect()))
    }

    /// The same series in the colour with this index.
    #[must_use]
    pub fn hue(mut self, hue: u8) -> Series {
        self.hue = Some(hue);
        self
    }

    fn new(name: impl Into<String>, mark: Mark) -> Series {
        Series { name: name.into(), hue: None, mark }
    }
}

/// Place of a reference line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum At {
    /// Vertical: "you are here".
    X(f64),
    /// Horizontal: a service level objective, a capacity.
    Y(f64),
    /// y = intercept + slope x: an asymptotic bound.
    Slope {
        /// The value at x = 0.
        intercept: f64,
        /// Its growth for each unit of x.
        slope: f64,
    },
}

/// A line that the data are compared with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Its meaning.
    pub name: String,
    /// Its place.
    pub at: At,
}

impl Reference {
    /// A vertical line.
    pub fn x(name: impl Into<String>, x: f64) -> Reference {
        Reference { name: name.into(), at: At::X(x) }
    }

    /// A horizontal line.
    pub fn y(name: impl Into<String>, y: f64) -> Reference {
        Reference { name: name.into(), at: At::Y(y) }
    }

    /// The line y = intercept + slope x.
    pub fn slope(name: impl Into<String>, intercept: f64, slope: f64) -> Reference {
        Reference { name: name.into(), at: At::Slope { intercept, slope } }
    }
}

/// One quantity against another: throughput or response time against load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curves {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Series that are drawn.
    pub series: Vec<Series>,
    /// Lines that they are compared with.
    #[serde(default)]
    pub references: Vec<Reference>,
    /// The largest x that the model was fitted to; beyond it the figure is shaded.
    #[serde(default)]
    pub calibrated_to: Option<f64>,
}

impl Curves {
    /// Axes without data.
    pub fn new(x: Axis, y: Axis) -> Curves {
        Curves { x, y, series: Vec::new(), references: Vec::new(), calibrated_to: None }
    }

    /// Adds a series.
    #[must_use]
    pub fn series(mut self, series: Series) -> Curves {
        self.series.push(series);
        self
    }

    /// Adds a reference line.
    #[must_use]
    pub fn reference(mut self, reference: Reference) -> Curves {
        self.references.push(reference);
        self
    }

    /// Shades what lies beyond `x`.
    #[must_use]
    pub fn calibrated_to(mut self, x: f64) -> Curves {
        self.calibrated_to = Some(x);
        self
    }
}

/// A value by its quantile, on an axis on which each further nine takes the same room. The x of a
/// series is the quantile, from 0 to below 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantiles {
    /// The vertical axis: latency, usually.
    pub y: Axis,
    /// Series that are drawn.
    pub series: Vec<Series>,
    /// Lines that they are compared with; the x of a vertical one is a quantile.
    #[serde(default)]
    pub references: Vec<Reference>,
}

impl Quantiles {
    /// Axes without data.
    pub fn new(y: Axis) -> Quantiles {
        Quantiles { y, series: Vec::new(), references: Vec::new() }
    }

    /// Adds a series.
    #[must_use]
    pub fn series(mut self, series: Series) -> Quantiles {
        self.series.push(series);
        self
    }

    /// Adds a reference line.
    #[must_use]
    pub fn reference(mut self, reference: Reference) -> Quantiles {
        self.references.push(reference);
        self
    }
}

/// Nature of a row of a strip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Somebody configured it: a pool, workers, a gate.
    Soft,
    /// It is what it is: a CPU, a disk, a network.
    Hard,
}

impl Kind {
    /// The word, lower case.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Soft => "soft",
            Kind::Hard => "hard",
        }
    }
}

/// A gate or a station in a strip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StripRow {
    /// Its name; unique in its figure.
    pub name: String,
    /// Soft or hard.
    pub kind: Kind,
    /// Its utilisation, from 0 to 1. A measured share that exceeds 1 by the noise of a clock must
    /// be cut by the caller, who can tell noise from an error.
    pub utilisation: f64,
    /// Other facts: queue length, wait.
    pub note: String,
}

/// Every gate and station with its utilisation, in the given order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Strip {
    /// Its rows, from the top.
    pub rows: Vec<StripRow>,
}

impl Strip {
    /// A strip without rows.
    pub fn new() -> Strip {
        Strip::default()
    }

    /// Adds a row at the bottom.
    #[must_use]
    pub fn row(
        mut self,
        name: impl Into<String>,
        kind: Kind,
        utilisation: f64,
        note: impl Into<String>,
    ) -> Strip {
        self.rows.push(StripRow { name: name.into(), kind, utilisation, note: note.into() });
        self
    }
}

/// Role of a part of a stack's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Waiting at a gate or a station; drawn hatched.
    Wait,
    /// Being served; drawn solid.
    Service,
}

/// A part of each row of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Its name; unique in its figure.
    pub name: String,
    /// Waiting or service.
    pub role: Role,
}

/// A row of a stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StackRow {
    /// Requests whose time it is: "median request", "slowest 1 %"; unique in its figure.
    pub name: String,
    /// One value for each part, in the order of the parts, none below zero.
    pub values: Vec<f64>,
}

/// Parts of the time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stack {
    /// The unit of all values.
    pub unit: String,
    /// The parts, from the left.
    pub parts: Vec<Part>,
    /// The rows, from the top.
    pub rows: Vec<StackRow>,
}

impl Stack {
    /// A stack without parts and rows.
    pub fn new(unit: impl Into<String>) -> Stack {
        Stack { unit: unit.into(), parts: Vec::new(), rows: Vec::new() }
    }

    /// Adds a part at the right.
    #[must_use]
    pub fn part(mut self, name: impl Into<String>, role: Role) -> Stack {
        self.parts.push(Part { name: name.into(), role });
        self
    }

    /// Adds a row at the bottom: one value for each part.
    #[must_use]
    pub fn row(mut self, name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Stack {
        self.rows.push(StackRow { name: name.into(), values: values.into_iter().collect() });
        self
    }
}

/// Part that the model left unexplained, in per cent of the measured value, around a line at zero.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Residuals {
    /// The horizontal axis.
    pub x: Axis,
    /// Dots of residuals [%].
    pub series: Vec<Series>,
    /// The residual that would still be accepted [%], above zero: a shaded band around the line.
    #[serde(default)]
    pub tolerance: Option<f64>,
}

impl Residuals {
    /// An axis without data.
    pub fn new(x: Axis) -> Residuals {
        Residuals { x, series: Vec::new(), tolerance: None }
    }

    /// Adds a series.
    #[must_use]
    pub fn series(mut self, series: Series) -> Residuals {
        self.series.push(series);
        self
    }

    /// Shades what is within `per_cent` of zero.
    #[must_use]
    pub fn tolerance(mut self, per_cent: f64) -> Residuals {
        self.tolerance = Some(per_cent);
        self
    }
}

/// Content of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Plot {
    /// One quantity against another.
    Curves(Curves),
    /// A value by its quantile.
    Quantiles(Quantiles),
    /// Utilisation of every gate and station.
    Strip(Strip),
    /// Parts of the time.
    Stack(Stack),
    /// Part that the model left unexplained.
    Residuals(Residuals),
}

macro_rules! plot_from {
    ($($kind:ident),*) => {$(
        impl From<$kind> for Plot {
            fn from(plot: $kind) -> Plot {
                Plot::$kind(plot)
            }
        }
    )*};
}
plot_from!(Curves, Quantiles, Strip, Stack, Residuals);

/// A figure that can be drawn: its numbers are finite and where their axes can show them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Figure {
    title: String,
    caption: String,
    plot: Plot,
    #[serde(skip_serializing_if = "Option::is_none")]
    live: Option<Live>,
}

/// A figure as it stands in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    title: String,
    caption: String,
    plot: Plot,
    #[serde(default)]
    live: Option<Live>,
}

impl TryFrom<Unchecked> for Figure {
    type Error = FigureError;

    fn try_from(figure: Unchecked) -> Result<Figure, FigureError> {
        let live = figure.live;
        Ok(Figure { live, ..Figure::new(figure.title, figure.caption, figure.plot)? })
    }
}

impl Figure {
    /// A figure.
    ///
    /// # Errors
    ///
    /// There is nothing to draw, a name occurs twice, a number is not finite or cannot stand on its
    /// axis, an interval is upside down, or a stack's row has too many or too few values.
    pub fn new(
        title: impl Into<String>,
        caption: impl Into<String>,
        plot: impl Into<Plot>,
    ) -> Result<Figure, FigureError> {
        let (title, caption) = (title.into(), caption.into());
        let figure = Figure { title, caption, plot: plot.into(), live: None };
        match check(&figure.plot) {
            Ok(()) => Ok(figure),
            Err((series, fault)) => Err(FigureError { figure: figure.title, series, fault }),
        }
    }

    /// The same figure, which also draws what the report's sliders answer.
    #[must_use]
    pub fn live(mut self, live: Live) -> Figure {
        self.live = Some(live);
        self
    }

    /// Its title.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Caption: what to see in it.
    pub fn caption(&self) -> &str {
        &self.caption
    }

    /// Its content.
    pub fn plot(&self) -> &Plot {
        &self.plot
    }
}

/// Why a figure cannot be drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureError {
    /// The figure's title.
    pub figure: String,
    /// The series, row, part or line at fault; empty if it is the whole figure.
    pub series: String,
    /// The fault.
    pub fault: Fault,
}

/// Fault of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// A number is NaN or infinite.
    NotFinite,
    /// A number is zero or below on a logarithmic axis.
    NotPositive(f64),
    /// A duration is below zero.
    Negative(f64),
    /// A quantile is not from 0 to below 1.
    NotQuantile(f64),
    /// A utilisation is not from 0 to 1.
    NotShare(f64),
    /// An interval ends before it begins.
    Reversed {
        /// The lower end.
        lower: f64,
        /// The upper end.
        upper: f64,
    },
    /// There is nothing to draw.
    Empty,
    /// The name occurs twice.
    Duplicate,
    /// A row has not one value for each part.
    Width {
        /// The row's values.
        values: usize,
        /// The stack's parts.
        parts: usize,
    },
}

impl fmt::Display for FigureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "figure \"{}\"", self.figure)?;
        if !self.series.is_empty() {
            write!(f, ", \"{}\"", self.series)?;
        }
        match self.fault {
            Fault::NotFinite => {
                f.write_str(": a number is not finite; leave the point out and say why in the text")
            }
            Fault::NotPositive(value) => {
                write!(f, ": {value} cannot stand on a logarithmic axis; use a linear one")
            }
            Fault::Negative(value) => write!(f, ": {value} is a time below zero"),
            Fault::NotQuantile(value) => write!(f, ": {value} is not a quantile from 0 to below 1"),
            Fault::NotShare(value) => write!(f, ": {value} is not a utilisation from 0 to 1"),
            Fault::Reversed { lower, upper } => {
                write!(f, ": the interval from {lower} to {upper} is upside down")
            }
            Fault::Empty => f.write_str(": there is nothing to draw; leave the figure out"),
            Fault::Duplicate => f.write_str(": the name occurs twice; the legend needs two names"),
            Fault::Width { values, parts } => write!(f, ": {values} values for {parts} parts"),
        }
    }
}

impl std::error::Error for FigureError {}

/// The numbers that an axis can show.
#[derive(Clone, Copy)]
enum Range {
    Any,
    Positive,
    NonNegative,
    Quantile,
    Share,
}

impl Range {
    fn check(self, value: f64) -> Result<(), Fault> {
        if !value.is_finite() {
            return Err(Fault::NotFinite);
        }
        match self {
            Range::Positive if value <= 0.0 => Err(Fault::NotPositive(value)),
            Range::NonNegative if value < 0.0 => Err(Fault::Negative(value)),
            Range::Quantile if !(0.0..1.0).contains(&value) => Err(Fault::NotQuantile(value)),
            Range::Share if !(0.0..=1.0).contains(&value) => Err(Fault::NotShare(value)),
            _ => Ok(()),
        }
    }

    fn check_interval(self, lower: f64, upper: f64) -> Result<(), Fault> {
        self.check(lower)?;
        self.check(upper)?;
        if lower > upper {
            return Err(Fault::Reversed { lower, upper });
        }
        Ok(())
    }
}

/// The name at fault, and the fault.
type Finding = (String, Fault);

fn check(plot: &Plot) -> Result<(), Finding> {
    match plot {
        Plot::Curves(curves) => {
            let (x, y) = (curves.x.range(), curves.y.range());
            check_series(&curves.series, x, y)?;
            check_references(&curves.references, x, y)?;
            let calibrated_to = curves.calibrated_to.map_or(Ok(()), |to| x.check(to));
            calibrated_to.map_err(at("calibrated range"))
        }
        Plot::Quantiles(quantiles) => {
            let y = quantiles.y.range();
            check_series(&quantiles.series, Range::Quantile, y)?;
            check_references(&quantiles.references, Range::Quantile, y)
        }
        Plot::Residuals(residuals) => {
            check_series(&residuals.series, residuals.x.range(), Range::Any)?;
            let tolerance =
                residuals.tolerance.map_or(Ok(()), |width| Range::Positive.check(width));
            tolerance.map_err(at("tolerance"))
        }
        Plot::Strip(strip) => {
            check_names(strip.rows.iter().map(|row| row.name.as_str()))?;
            strip
                .rows
                .iter()
                .try_for_each(|row| Range::Share.check(row.utilisation).map_err(at(&row.name)))
        }
        Plot::Stack(stack) => check_stack(stack),
    }
}

fn check_series(series: &[Series], x: Range, y: Range) -> Result<(), Finding> {
    check_names(series.iter().map(|series| series.name.as_str()))?;
    for Series { name, mark, .. } in series {
        check_mark(mark, x, y).map_err(at(name))?;
    }
    Ok(())
}

fn check_mark(mark: &Mark, x: Range, y: Range) -> Result<(), Fault> {
    let count = match mark {
        Mark::Line(points) | Mark::Dashed(points) => {
            for [at, value] in points {
                x.check(*at)?;
                y.check(*value)?;
            }
            points.len()
        }
        Mark::Dots(points) => {
            for point in points {
                x.check(point.x)?;
                y.check(point.y)?;
                if let Some([lower, upper]) = point.interval {
                    y.check_interval(lower, upper)?;
                }
            }
            points.len()
        }
        Mark::Band(points) => {
            for [at, lower, upper] in points {
                x.check(*at)?;
                y.check_interval(*lower, *upper)?;
            }
            points.len()
        }
    };
    if count == 0 { Err(Fault::Empty) } else { Ok(()) }
}

fn check_references(references: &[Reference], x: Range, y: Range) -> Result<(), Finding> {
    for Reference { name, at: place } in references {
        let checked = match *place {
            At::X(value) => x.check(value),
            At::Y(value) => y.check(value),
            At::Slope { intercept, slope } => {
                Range::Any.check(intercept).and_then(|()| Range::Any.check(slope))
            }
        };
        checked.map_err(at(name))?;
    }
    Ok(())
}

fn check_stack(stack: &Stack) -> Result<(), Finding> {
    check_names(stack.parts.iter().map(|part| part.name.as_str()))?;
    check_names(stack.rows.iter().map(|row| row.name.as_str()))?;
    let parts = stack.parts.len();
    for StackRow { name, values } in &stack.rows {
        if values.len() != parts {
            return Err((name.clone(), Fault::Width { values: values.len(), parts }));
        }
        let total = values.iter().sum();
        let mut numbers = values.iter().copied().chain([total]);
        numbers.try_for_each(|value| Range::NonNegative.check(value)).map_err(at(name))?;
    }
    Ok(())
}

fn check_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), Finding> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err((name.to_owned(), Fault::Duplicate));
        }
    }
    if seen.is_empty() { Err((String::new(), Fault::Empty)) } else { Ok(()) }
}

fn at(name: &str) -> impl FnOnce(Fault) -> Finding {
    move |fault| (name.to_owned(), fault)
}
