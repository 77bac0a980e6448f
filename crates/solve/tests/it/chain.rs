//! Exact answers by brute force: a Markov chain in continuous time, enumerated from a first state.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;

/// The states that can be reached, each with its long-run probability.
///
/// # Panics
/// If there are more than a hundred thousand, or the balance does not settle.
pub(crate) fn stationary<S: Clone + Debug + Eq + Hash>(
    first: S,
    moves: impl Fn(&S) -> Vec<(S, f64)>,
) -> Vec<(S, f64)> {
    let mut index = HashMap::from([(first.clone(), 0)]);
    let mut states = vec![first];
    let mut incoming: Vec<Vec<(usize, f64)>> = vec![Vec::new()];
    let mut leaving = Vec::new();
    let mut at = 0;
    while at < states.len() {
        let mut out = 0.0;
        for (to, rate) in moves(&states[at]).into_iter().filter(|(_, rate)| *rate > 0.0) {
            let next = *index.entry(to.clone()).or_insert_with(|| {
                states.push(to);
                incoming.push(Vec::new());
                states.len() - 1
            });
            incoming[next].push((at, rate));
            out += rate;
        }
        leaving.push(out);
        at += 1;
        assert!(states.len() < 100_000, "too many states, at {:?}", states[at - 1]);
    }
    let mut chance = vec![1.0 / states.len() as f64; states.len()];
    for _ in 0..200_000 {
        let mut change: f64 = 0.0;
        for to in 0..states.len() {
            let flow: f64 = incoming[to].iter().map(|&(from, rate)| chance[from] * rate).sum();
            let next = flow / leaving[to];
            change = change.max((next - chance[to]).abs());
            chance[to] = next;
        }
        let sum: f64 = chance.iter().sum();
        chance.iter_mut().for_each(|chance| *chance /= sum);
        if change < 1e-13 {
            return states.into_iter().zip(chance).collect();
        }
    }
    panic!("the balance of {} states does not settle", states.len());
}

/// The long-run mean of a function of the state.
pub(crate) fn mean<S>(chances: &[(S, f64)], value: impl Fn(&S) -> f64) -> f64 {
    chances.iter().map(|(state, chance)| chance * value(state)).sum()
}
