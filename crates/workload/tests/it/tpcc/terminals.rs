//! Terminals: their decks, times and homes, and that they are functions of a seed.

use std::collections::BTreeSet;
use std::time::Duration;

use workload::tpcc::{Constants, Cycle, Inputs, Kind, Request, Terminal, rules};

use super::assert_uniform;

fn inputs(active: u32) -> Inputs {
    Inputs::new(Constants { last: 1, customer: 2, item: 3 }, active)
}

fn cycles(seed: u64, active: u32, warehouse: u32, index: u8, n: usize) -> Vec<Cycle> {
    let mut terminal = Terminal::new(seed, inputs(active), warehouse, index);
    (0..n).map(|_| terminal.cycle()).collect()
}

fn kinds(cycles: &[Cycle]) -> Vec<Kind> {
    cycles.iter().map(|cycle| cycle.request.kind()).collect()
}

#[test]
fn each_pass_through_the_deck_has_the_exact_mix_in_a_new_order() {
    let kinds = kinds(&cycles(1, 1, 1, 0, 23 * 2000));
    let mut orders = BTreeSet::new();
    let mut stock_level_at = vec![0.0; 23];
    for pass in kinds.chunks(23) {
        let count = |kind| pass.iter().filter(|&&card| card == kind).count();
        assert_eq!(Kind::ALL.map(count), [10, 10, 1, 1, 1]);
        let at = pass.iter().position(|&card| card == Kind::StockLevel).unwrap();
        stock_level_at[at] += 1.0;
        orders.insert(pass.to_vec());
    }
    assert!(orders.len() > 1990, "{} orders of 2000 passes", orders.len());
    assert_uniform(&stock_level_at, "where in a pass the Stock-Level is");
}

/// The smallest shares that the specification asks for are met by the deck itself.
#[test]
fn the_deck_meets_the_minima_of_the_mix() {
    let cards: u32 = Kind::ALL.iter().map(|kind| u32::from(kind.rules().cards)).sum();
    for kind in Kind::ALL {
        let share = f64::from(kind.rules().cards) / f64::from(cards);
        assert!(kind.rules().share_min.is_none_or(|min| share >= min), "{kind:?}: {share}");
    }
}

/// Exponential with the kind's mean, cut at ten means: of the numbers `1 - exp(-t / mean)` each
/// tenth holds as many, and the largest think time is ten means.
#[test]
fn think_times_are_exponential_and_keying_times_constant() {
    let seconds = |kind: Kind| match kind {
        Kind::NewOrder => (18, 12.0),
        Kind::Payment => (3, 12.0),
        Kind::OrderStatus => (2, 10.0),
        Kind::Delivery | Kind::StockLevel => (2, 5.0),
    };
    let mut tenths = vec![vec![0.0; 10]; 5];
    let mut longest: f64 = 0.0;
    for cycle in cycles(2, 1, 1, 4, 23 * 20_000) {
        let kind = cycle.request.kind();
        let (keying, mean) = seconds(kind);
        assert_eq!(cycle.keying, Duration::from_secs(keying));
        let means = cycle.think.as_secs_f64() / mean;
        longest = longest.max(means);
        tenths[kind.index()][((1.0 - (-means).exp()) * 10.0) as usize] += 1.0;
    }
    for kind in Kind::ALL {
        assert_uniform(&tenths[kind.index()], &format!("think times of {}", kind.name()));
    }
    // Of 460000 think times 21 are expected beyond ten means, so that the cut is seen.
    assert!((longest - 10.0).abs() < 1e-9, "the longest is {longest} means");
}

#[test]
fn limits_are_the_specification_s() {
    let responses = Kind::ALL.map(|kind| kind.rules().response_max.as_secs());
    assert_eq!(responses, [5, 5, 5, 5, 20]);
    assert_eq!(rules::MENU_RESPONSE_MAX, Duration::from_secs(2));
    assert_eq!(rules::DELIVERY_DONE_MAX, Duration::from_secs(80));
    let minima = Kind::ALL.map(|kind| kind.rules().share_min);
    assert_eq!(minima, [None, Some(0.43), Some(0.04), Some(0.04), Some(0.04)]);
}

#[test]
fn homes_are_fixed_and_stock_level_districts_unique() {
    let mut places = BTreeSet::new();
    for warehouse in 1..=3 {
        for index in 0..10 {
            let mut own = BTreeSet::new();
            for cycle in cycles(3, 3, warehouse, index, 23 * 20) {
                assert_eq!(cycle.request.warehouse(), warehouse);
                if let Request::StockLevel(level) = cycle.request {
                    own.insert((level.warehouse, level.district));
                }
            }
            assert_eq!(own.len(), 1, "one district for all Stock-Levels of a terminal");
            assert!(places.is_disjoint(&own), "{own:?} belongs to another terminal too");
            places.extend(own);
        }
    }
    assert_eq!(places.len(), 30);
}

#[test]
fn a_terminal_is_a_function_of_seed_warehouse_and_index() {
    let base = cycles(4, 5, 2, 6, 100);
    assert_eq!(base, cycles(4, 5, 2, 6, 100));
    for other in [cycles(5, 5, 2, 6, 100), cycles(4, 5, 3, 6, 100), cycles(4, 5, 2, 7, 100)] {
        let same = base.iter().zip(&other).filter(|(a, b)| a.think == b.think).count();
        assert_eq!(same, 0, "strangers think for different times");
    }
}

/// A search over active warehouses compares like with like: pace and mix stay.
#[test]
fn pace_does_not_depend_on_the_number_of_active_warehouses() {
    let (few, many) = (cycles(6, 1, 1, 0, 200), cycles(6, 50, 1, 0, 200));
    assert_eq!(kinds(&few), kinds(&many));
    assert!(few.iter().zip(&many).all(|(a, b)| a.think == b.think));
}

#[test]
#[should_panic(expected = "warehouse 4 of 3 active ones")]
fn a_terminal_has_an_active_home() {
    Terminal::new(1, inputs(3), 4, 0);
}
