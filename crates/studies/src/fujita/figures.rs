//! The paper's figures 14 to 17, drawn again: the formula's lines with the simulated dots and their
//! intervals; and what the paper does not draw, the formula's error.

use cli::Failure;
use cli::text::bytes;
use report::{Axis, Cell, Column, Curves, Figure, Residuals, Section, Series, Table};

use crate::drawn::{self, Drawn, Row, times};

use super::model::means;
use super::open::{Base, Case, Documents, LOADS, Runs, SLOTS};

/// The sizes of a figure's horizontal axis \[byte\], and how many points a line has.
const SIZES: (f64, f64) = (100.0, 4e6);
const SIZES_TENFOLD: (f64, f64) = (1_000.0, 4e7);
const POINTS: u32 = 40;

/// A dot is drawn if its interval is narrower than this share of it.
const DRAWN: f64 = 0.5;

/// Half-width at which the paper's simulations stop, as a share of the mean \[%\].
const PAPER_STOPS: f64 = 5.0;

/// A curve of a figure: its name, and the point of the model.
type Curve = (String, Case);

/// The section of the report that shows them.
pub(super) fn sections(runs: &Runs) -> Result<Vec<Section>, Failure> {
    let r = |slots: Option<u32>| slots.map_or("r = inf".into(), |r| format!("r = {r}"));
    let loads: Vec<Curve> = LOADS
        .iter()
        .rev()
        .map(|&rho| (format!("rho = {rho}"), Case::paper(Some(4), rho)))
        .collect();
    let slots: Vec<Curve> = SLOTS.map(|slots| (r(slots), Case::paper(slots, 0.8))).into();
    let tenfold = |base| SLOTS.map(|slots| (r(slots), Case::tenfold(base, slots)));
    let mut laws: Vec<Curve> = Vec::new();
    for slots in [Some(2), Some(8)] {
        laws.push((format!("lognormal, {}", r(slots)), Case::paper(slots, 0.8)));
        laws.push((format!("exponential, {}", r(slots)), Case::exponential(Base::Kept, slots)));
    }
    let figures = [
        curves(
            runs,
            "Figure 14: response time by document size, r = 4, load varied",
            SIZES,
            (&loads, &[(0, LOADS.len() - 1)]),
        )?,
        curves(
            runs,
            "Figure 15: response time by document size, rho = 0.8, helpers varied",
            SIZES,
            (&slots, &[(SLOTS.len() - 1, 0)]),
        )?,
        curves(
            runs,
            "Figure 16: sizes 10 times larger, b kept",
            SIZES_TENFOLD,
            (&tenfold(Base::Kept), &[(SLOTS.len() - 1, 0)]),
        )?,
        curves(
            runs,
            "Figure 16: sizes 10 times larger, b dropped as the text suggests",
            SIZES_TENFOLD,
            (&tenfold(Base::Dropped), &[(SLOTS.len() - 1, 0)]),
        )?,
        curves(
            runs,
            "Figure 17: lognormal against exponential sizes, rho = 0.8",
            SIZES,
            (&laws, &[(0, 1), (2, 3)]),
        )?,
    ];
    let mut section = Section::new("The model: section 4 of the paper").paragraph(
        "Lines: equation 1. Dots: simulation of the exact model, with 95 % intervals; documents are \
         taken together by powers of two of their size.",
    );
    for figure in figures {
        section = section.figure(figure);
    }
    let section = section.figure(errors(runs)?).table(means_table(runs)?);
    Ok(vec![section])
}

fn curves(
    runs: &Runs,
    title: &str,
    sizes: (f64, f64),
    (of, pairs): (&[Curve], &[(usize, usize)]),
) -> Result<Figure, Failure> {
    let mut curves =
        Curves::new(Axis::log("Document size", "byte"), Axis::log("Mean response time", "ms"));
    for (hue, (name, case)) in (0_u8..).zip(of) {
        let formula = case.formula()?;
        let mut line = Vec::new();
        for at in 0..=POINTS {
            let bytes = sizes.0 * (sizes.1 / sizes.0).powf(f64::from(at) / f64::from(POINTS));
            let response =
                formula.response_given(case.demand_of(bytes)).map_err(Failure::defect)?;
            line.push((bytes, response * 1e3));
        }
        curves = curves.series(Series::line(format!("{name}{FORMULA}"), line).hue(hue));
    }
    for (hue, (name, case)) in (0_u8..).zip(of) {
        let bins = runs.of(*case).bins()?;
        let drawn = bins.iter().filter(|bin| {
            bin.response.relative() < DRAWN && (sizes.0..=sizes.1).contains(&bin.bytes)
        });
        let dots = drawn.map(|bin| {
            let response = bin.response;
            (bin.bytes, response.mean * 1e3, response.low() * 1e3, response.high() * 1e3)
        });
        curves = curves.series(Series::measured(format!("{name}{SIMULATED}"), dots).hue(hue));
    }
    drawn::figure(title, curves, |drawn| compared(drawn, pairs))
}

/// Ends of the names of a curve's line and dots.
const FORMULA: &str = ", formula";
const SIMULATED: &str = ", simulated";

/// Pairs of lines at both ends, and the dots held against their lines.
fn compared(drawn: &Drawn, pairs: &[(usize, usize)]) -> String {
    let [lines, dots] = [FORMULA, SIMULATED].map(|end| {
        drawn.rows().iter().filter(|row| row.name.ends_with(end)).collect::<Vec<&Row>>()
    });
    let pairs = pairs.iter().filter_map(|(one, other)| {
        let [one, other] = [lines[*one], lines[*other]];
        let at = |[x, y]: [f64; 2]| Some(format!("{:.2} at {}", y / other.at(x)?, bytes(x as u64)));
        let [small, large] = one.ends()?;
        let name = |row: &Row| row.name.trim_end_matches(FORMULA).to_owned();
        Some(format!("{} over {}: {}, {}", name(one), name(other), at(small)?, at(large)?))
    });
    let off = lines.iter().zip(&dots).flat_map(|(line, dots)| line_over_dots(line, dots));
    format!(
        "Response times by the formula: {}. The formula has {} the simulated time.",
        pairs.collect::<Vec<_>>().join("; "),
        times(off)
    )
}

/// The formula's value over the simulated one, at each dot.
fn line_over_dots(line: &Row, dots: &Row) -> Vec<f64> {
    dots.over(line).map(f64::recip).collect()
}

/// Error of equation 1 against simulation, by size.
fn errors(runs: &Runs) -> Result<Figure, Failure> {
    let mut residuals = Residuals::new(Axis::log("Document size", "byte")).tolerance(PAPER_STOPS);
    for (name, case) in [
        ("paper's sizes, r = 4", Case::paper(Some(4), 0.8)),
        ("10 times larger, r = 8", Case::tenfold(Base::Kept, Some(8))),
    ] {
        let bins = runs.of(case).bins()?;
        let drawn = bins.iter().filter(|bin| bin.response.relative() < DRAWN / 2.0);
        let dots = drawn.map(|bin| {
            let (low, middle, high) = bin.error();
            (bin.bytes, middle * 100.0, low * 100.0, high * 100.0)
        });
        residuals = residuals.series(Series::measured(name, dots));
    }
    let title = "What the paper does not draw: the error of equation 1 by size (rho = 0.8)";
    drawn::figure(title, residuals, |drawn| {
        let each = drawn.rows().iter().filter_map(|row| {
            let errors = || row.points.iter().map(|point| point[1]);
            let within = errors().filter(|error| error.abs() <= PAPER_STOPS).count();
            let [least, most] =
                [errors().min_by(f64::total_cmp)?, errors().max_by(f64::total_cmp)?];
            Some(format!(
                "{}: {least:+.1} to {most:+.1} %, {within} of {} sizes within",
                row.name,
                row.points.len()
            ))
        });
        format!(
            "Above zero: the formula is too slow. The paper simulates to within {PAPER_STOPS} % (shaded) and \
             calls the approximation valid. {}.",
            each.collect::<Vec<_>>().join("; ")
        )
    })
}

fn means_table(runs: &Runs) -> Result<Table, Failure> {
    let columns = [
        Column::plain("sizes"),
        Column::plain("r"),
        Column::new("simulated", "ms"),
        Column::new("formula", "ms"),
        Column::new("simulated before", "ms"),
        Column::new("formula before", "ms"),
    ];
    let mut table = Table::new("Mean response time at rho = 0.8 (the text prints none)", columns);
    for row in means() {
        let sizes = match row.case {
            Case { documents: Documents::Paper, .. } => "paper",
            Case { base: Base::Kept, .. } => "10 times larger, b kept",
            Case { base: Base::Dropped, .. } => "10 times larger, b dropped",
        };
        let now = runs.of(row.case).response;
        let cells = [
            Cell::from(sizes),
            Cell::from(row.case.slots.map_or("inf".to_owned(), |r| r.to_string())),
            Cell::interval(now.mean * 1e3, now.low() * 1e3, now.high() * 1e3),
            Cell::from(row.case.formula()?.response() * 1e3),
            row.simulated_ms.map_or(Cell::Empty, Cell::from),
            Cell::from(row.formula_ms),
        ];
        table = table.row(cells).map_err(Failure::defect)?;
    }
    Ok(table)
}
