//! Lines that coincide, as one line with the names of all.

use std::collections::BTreeMap;

use report::{Mark, Series};

/// A series and what it is named by: slots, and the witness.
pub(super) struct Named {
    pub(super) slots: String,
    pub(super) witness: &'static str,
    pub(super) hue: u8,
    pub(super) series: Series,
}

/// Share of the largest value by which lines that are drawn as one may differ.
const APART: f64 = 0.01;

/// The series to draw: of lines that coincide the first, a solid one where there is one, with the names of
/// all. What was measured stays by itself.
pub(super) fn merged(all: Vec<Named>) -> Vec<Series> {
    let mut groups: Vec<Vec<Named>> = Vec::new();
    for one in all {
        let same = |group: &&mut Vec<Named>| coincide(&group[0].series.mark, &one.series.mark);
        match groups.iter_mut().find(same) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups.into_iter().map(drawn).collect()
}

fn drawn(group: Vec<Named>) -> Series {
    let mut slots: Vec<&str> = Vec::new();
    let mut witnesses: BTreeMap<&str, ()> = BTreeMap::new();
    for one in &group {
        if !slots.contains(&one.slots.as_str()) {
            slots.push(&one.slots);
        }
        witnesses.insert(one.witness, ());
    }
    let witnesses: Vec<&str> = witnesses.into_keys().collect();
    let name = format!("{}, {}", slots.join(" = "), witnesses.join(" = "));
    let solid = group.iter().position(|one| matches!(one.series.mark, Mark::Line(_)));
    let shown = &group[solid.unwrap_or(0)];
    Series { name, ..shown.series.clone() }.hue(shown.hue)
}

/// True of two lines through the same x that are nowhere apart.
fn coincide(a: &Mark, b: &Mark) -> bool {
    let (Some(a), Some(b)) = (line(a), line(b)) else { return false };
    let most = a.iter().chain(b).map(|point| point[1].abs()).fold(0.0, f64::max);
    let near = |(a, b): (&[f64; 2], &[f64; 2])| a[0] == b[0] && (a[1] - b[1]).abs() <= APART * most;
    a.len() == b.len() && a.len() > 1 && a.iter().zip(b).all(near)
}

fn line(mark: &Mark) -> Option<&Vec<[f64; 2]>> {
    match mark {
        Mark::Line(points) | Mark::Dashed(points) => Some(points),
        Mark::Dots(_) | Mark::Band(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_coincides_is_one_line_with_all_names() {
        let named =
            |slots: &str, witness, series| Named { slots: slots.into(), witness, hue: 1, series };
        let all = vec![
            named("2 slots", "simulated", Series::dashed("", [(1.0, 100.0), (2.0, 200.5)])),
            named("2 slots", "formula", Series::line("", [(1.0, 100.0), (2.0, 200.0)])),
            named("8 slots", "simulated", Series::dashed("", [(1.0, 100.0), (2.0, 201.0)])),
            named("8 slots", "formula", Series::line("", [(1.0, 100.0), (2.0, 250.0)])),
            named("8 slots", "measured", Series::dots("", [(1.0, 100.0), (2.0, 200.0)])),
        ];
        let drawn = merged(all);
        let names: Vec<&str> = drawn.iter().map(|series| series.name.as_str()).collect();
        let wanted =
            ["2 slots = 8 slots, formula = simulated", "8 slots, formula", "8 slots, measured"];
        assert_eq!(names, wanted);
        assert!(matches!(drawn[0].mark, Mark::Line(_)));
    }
}
