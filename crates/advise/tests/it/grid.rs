//! Every error that a formula states, held against a grid of references.
//!
//! The table is made by `examples/formula_references.rs`; `examples/formula_errors.rs` prints how far
//! every formula is from it.

use std::collections::{BTreeMap, BTreeSet};

use advise::formula;
use sim::Options;

use crate::cases::Case;
use crate::is_long;
use crate::scenario::read;
use crate::table::{Reference, references};

const TABLE: &str = include_str!("../grid/references.csv");

/// A reference that is known less well than this confirms no stated error.
const KNOWN: f64 = 0.02;

/// Answers by formula at loads up to 95 % whose reference is that loose, at the most, by family: so many
/// stated errors nothing confirms. The table is to make them fewer, never more.
const LOOSE_MAX: [(&str, u32); 1] = [("cached-open", 2)];

/// Counts of the cases of a kind.
#[derive(Debug, Default)]
struct Count {
    cases: u32,
    held: u32,
    worst: f64,
}

/// Distance of a formula's number from a reference beyond the half-width of its 95 % interval, as a
/// share.
fn beyond(formula: f64, (mean, half): (f64, f64)) -> f64 {
    (((formula - mean).abs() - half) / mean).max(0.0)
}

/// The larger of the errors in throughput and in response; none if there is no formula.
fn error(of: &Reference) -> Option<(Option<f64>, f64)> {
    let answer = formula(&read(&of.text)).ok()?;
    let off = [(answer.throughput, of.throughput), (answer.response, of.response)];
    let worst = off.map(|(formula, reference)| beyond(formula, reference));
    Some((answer.trust.error, worst.into_iter().fold(0.0, f64::max)))
}

/// The page that states the errors has the size of the grid, and how many answers confirm nothing. The story: it
/// had that of a grid before, and no word of the others.
#[test]
fn the_size_of_the_grid_is_told_where_errors_are_stated() {
    let page = include_str!("../../../../docs/solvers.md");
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let cases = Case::all();
    let families: BTreeSet<&str> = cases.iter().map(|case| case.family).collect();
    let says = [
        format!("{} random scenarios in {} families", cases.len(), families.len()),
        format!("At most {} answers", LOOSE_MAX.iter().map(|(_, most)| most).sum::<u32>()),
        format!("known within {} %", 100.0 * KNOWN),
    ];
    for words in says {
        assert!(page.contains(&words), "docs/solvers.md does not say: {words}");
    }
}

/// Families whose formulas take four fifths of the time.
const SLOW: [&str; 4] = ["inner-many", "inner-open", "router-closed", "router-many"];

/// All cases in the long suite; in the short one a third of those of slow families, from all shares of the load.
fn is_asked(case: &Case) -> bool {
    is_long() || !SLOW.contains(&case.family) || case.seed * 11 % 24 < 8
}

/// The story: "within 12 % where tried" was said of nested gates that were 26 % off, and "within 35 %"
/// of those that were 76 % off.
#[test]
fn every_stated_error_holds_at_99_of_100_cases() {
    let mut kinds: BTreeMap<String, Count> = BTreeMap::new();
    let mut answered: BTreeMap<&str, u32> = BTreeMap::new();
    let mut loose: BTreeMap<&str, u32> = BTreeMap::new();
    for of in references(TABLE) {
        if !is_asked(&of.case) {
            continue;
        }
        let Some((stated, found)) = error(&of) else { continue };
        if of.response.1 > KNOWN * of.response.0 {
            // Beyond, only what is exact is answered.
            *loose.entry(of.case.family).or_default() += u32::from(!of.is_beyond());
            // Beyond its whole interval it contradicts all the same, which no approximation may be
            // by chance: one in twenty intervals misses by a little.
            if stated.is_none_or(|stated| found <= stated) {
                continue;
            }
        }
        *answered.entry(of.case.family).or_default() += 1;
        // What a cache's hits may be off is stated by what comes of it, in each case another number.
        let is_cached = of.case.family.starts_with("cached") && stated.is_some();
        let kind = if is_cached { "cached".to_owned() } else { format!("{stated:?}") };
        let count = kinds.entry(kind).or_default();
        count.cases += 1;
        // What is exact may be off by what the ends of a simulation cut.
        count.held += u32::from(found <= stated.unwrap_or(5e-3));
        count.worst = count.worst.max(found);
    }
    println!("{kinds:#?} {answered:?}, loose: {loose:?}");
    for (family, found) in loose {
        let most = LOOSE_MAX.iter().find(|(name, _)| *name == family).map_or(0, |(_, most)| *most);
        assert!(found <= most, "{family}: {found} references confirm nothing, and {most} may");
    }
    // All of them, where 99 of 100 are no whole number of cases.
    for (stated, count) in &kinds {
        assert!(count.held >= count.cases - count.cases / 100, "{stated}: {count:?}");
        assert!(count.cases >= 10, "{stated}: {count:?}");
    }
    // Who refuses everything holds everything.
    let least = [
        ("shared-open", 30),
        ("shared-closed", 35),
        ("router-open", 10),
        ("router-closed", 10),
        ("held-open", 15),
        ("held-closed", 28),
        ("nested-open", 15),
        ("nested-closed", 30),
        ("cached-open", 16),
        ("cached-closed", 20),
        ("sharing-many", 35),
        ("held-many", 30),
        ("line-open", 10),
        ("line-many", 22),
        ("inner-open", 10),
        ("inner-many", 20),
        ("router-many", 30),
    ];
    for (family, cases) in least {
        let cases = if is_long() || !SLOW.contains(&family) { cases } else { cases / 4 };
        assert!(
            answered.get(family).is_some_and(|found| *found >= cases),
            "{family}: {answered:?}"
        );
    }
}

/// The story: of an open load of 0.98 no reference is known to 2 %, so that whatever was stated there
/// was never held against anything: 36 of 36 cases were passed over.
#[test]
fn what_no_reference_knows_is_exact_or_refused() {
    for of in references(TABLE).into_iter().filter(Reference::is_beyond) {
        if let Ok(answer) = formula(&read(&of.text)) {
            assert!(answer.trust.error.is_none_or(|error| error < 5e-3), "{answer:?}\n{}", of.text);
        }
    }
}

/// A bounded share of the references, made anew with another seed; in the long suite all of them.
#[test]
fn references_are_found_again() {
    let mut seen: Vec<&str> = Vec::new();
    // Thousands of keys take more lookups to fill a cache than are made here.
    let is_filled =
        |of: &Reference| !of.text.contains("keys = 1000") && !of.text.contains("keys = 5000");
    // Clients that pause for a constant time keep the order in which they began.
    let by_chance = |of: &Reference| of.response.1 > 0.0 && !of.text.contains("think = \"");
    let known =
        |of: &Reference| by_chance(of) && of.response.1 <= 1e-2 * of.response.0 && is_filled(of);
    for of in references(TABLE).iter().filter(|of| known(of)) {
        let Case { family, seed, .. } = of.case;
        // Three of each family.
        if !is_long() && seen.iter().filter(|other| **other == family).count() == 3 {
            continue;
        }
        seen.push(family);
        let options = Options {
            seed: 77_000 + u64::from(seed),
            precision: 0.01,
            completions_max: 200_000,
            ..Options::default()
        };
        let network = read(&of.text).network().unwrap();
        let found = sim::run(&network, &options).unwrap();
        let found = found.classes[0].response.unwrap();
        let (mean, half) = of.response;
        let allowed = 2.0 * (found.half_width + half);
        assert!((found.mean - mean).abs() <= allowed, "{found:?}, not {mean}\n{}", of.text);
    }
    assert!(seen.len() == 51 || is_long() && seen.len() > 51, "three of each of 17 families");
}
