//! A routing matrix: where a job goes next depends only on where it is. It becomes a route of choices
//! and repeats that jobs go in the same way, in law, by taking away one place after the other as one
//! makes a regular expression of an automaton (Kleene 1956).

use std::collections::{BTreeMap, BTreeSet};

use super::{ChoiceEntry, ChooseEntry, RepeatEntry, RouteEntry};

/// Chances by the next place of a job.
pub type MatrixRow = BTreeMap<String, f64>;

/// The row of jobs that come.
const START: &str = "start";
/// The most steps of the route that a matrix becomes.
const STEPS_MAX: usize = 20_000;
/// Largest distance of a sum of chances from 1.
const SLACK: f64 = 1e-9;

/// A way from one place to another: its chance, and the steps between them.
#[derive(Clone)]
struct Edge {
    chance: f64,
    steps: Vec<RouteEntry>,
}

/// Places by name; `None` is outside, where jobs come from and go to.
type Edges<'m> = BTreeMap<(Option<&'m str>, Option<&'m str>), Edge>;

/// The route on which jobs go as the matrix says.
pub(super) fn route(matrix: &BTreeMap<String, MatrixRow>) -> Result<Vec<RouteEntry>, String> {
    let mut edges = edges(matrix)?;
    let mut places: BTreeSet<&str> = edges.keys().filter_map(|(_, to)| *to).collect();
    // The order changes the length of the route, not its law.
    while let Some(place) = fewest_ways(&edges, &places) {
        places.remove(place);
        take_away(&mut edges, place)?;
        if edges.values().map(|edge| count(&edge.steps)).sum::<usize>() > STEPS_MAX {
            return Err(format!(
                "it is too tangled: spelled out as a route it has more than {STEPS_MAX} steps; leave \
                 small chances out, or write the `route`"
            ));
        }
    }
    let all = edges.remove(&(None, None)).expect("who comes leaves, once no place is left");
    Ok(all.steps)
}

fn edges(matrix: &BTreeMap<String, MatrixRow>) -> Result<Edges<'_>, String> {
    let Some(start) = matrix.get(START) else {
        return Err(format!("it has no row `{START}`, which says where jobs come first; add it"));
    };
    let mut edges = Edges::new();
    for (from, row) in matrix {
        if from != START && !matrix.values().any(|row| row.contains_key(from)) {
            return Err(format!("row `{from}`: no row sends a job there; remove it"));
        }
        let mut left = 1.0;
        let from_place = (from != START).then_some(&**from);
        for (to, &chance) in row {
            if !(chance > 0.0 && chance <= 1.0) || to == START {
                return Err(format!(
                    "row `{from}`: `{to}` = {chance}; give the name of a gate or a station, and a \
                     chance above 0 and at most 1"
                ));
            }
            left -= chance;
            edges.insert((from_place, Some(to)), Edge { chance, steps: Vec::new() });
        }
        if left < -SLACK {
            return Err(format!("row `{from}`: the chances sum to {}, more than 1", 1.0 - left));
        }
        if left > SLACK {
            edges.insert((from_place, None), Edge { chance: left, steps: Vec::new() });
        }
    }
    if (start.values().sum::<f64>() - 1.0).abs() > SLACK {
        return Err(format!("row `{START}`: the chances do not sum to 1"));
    }
    for to in matrix.values().flat_map(BTreeMap::keys).filter(|to| !matrix.contains_key(*to)) {
        let leaves = Edge { chance: 1.0, steps: Vec::new() };
        edges.insert((Some(to), None), leaves);
    }
    Ok(edges)
}

/// The place whose removal makes the fewest new ways.
fn fewest_ways<'m>(edges: &Edges<'m>, places: &BTreeSet<&'m str>) -> Option<&'m str> {
    let ways = |place: &str| {
        let out = edges.keys().filter(|(from, _)| *from == Some(place)).count();
        out * edges.keys().filter(|(_, to)| *to == Some(place)).count()
    };
    places.iter().copied().min_by_key(|place| ways(place))
}

/// Joins each way to a place with each way from it; the visit stands between them.
fn take_away<'m>(edges: &mut Edges<'m>, place: &'m str) -> Result<(), String> {
    let visit = RouteEntry::Name(place.to_owned());
    let mut here = vec![visit.clone()];
    let again = edges.remove(&(Some(place), Some(place)));
    let back = again.as_ref().map_or(0.0, |edge| edge.chance);
    if back >= 1.0 - SLACK {
        return Err(format!("a job at `{place}` never leaves; give it a chance to go on"));
    }
    if let Some(Edge { chance, mut steps }) = again {
        steps.push(visit);
        let repeat = RouteEntry::Repeat(RepeatEntry { repeat: chance, route: steps });
        here.push(choice(chance, vec![repeat], Vec::new()));
    }
    let (around, apart): (Vec<_>, Vec<_>) = std::mem::take(edges)
        .into_iter()
        .partition(|((from, to), _)| *from == Some(place) || *to == Some(place));
    edges.extend(apart);
    let (entering, leaving): (Vec<_>, Vec<_>) =
        around.into_iter().partition(|((_, to), _)| *to == Some(place));
    for ((from, _), first) in &entering {
        for ((_, to), last) in &leaving {
            // However often a job comes back here, it leaves once: its chances to leave are shares
            // of 1 - back.
            let chance = first.chance * last.chance / (1.0 - back);
            let steps = [&*first.steps, &*here, &*last.steps].concat();
            let way = Edge { chance, steps };
            let joined = match edges.remove(&(*from, *to)) {
                Some(other) => beside(other, way),
                None => way,
            };
            edges.insert((*from, *to), joined);
        }
    }
    Ok(())
}

/// One way or the other.
fn beside(one: Edge, other: Edge) -> Edge {
    let chance = one.chance + other.chance;
    if one.steps == other.steps {
        return Edge { chance, ..one };
    }
    Edge { chance, steps: vec![choice(one.chance / chance, one.steps, other.steps)] }
}

fn choice(chance: f64, first: Vec<RouteEntry>, second: Vec<RouteEntry>) -> RouteEntry {
    let choose = vec![
        ChoiceEntry { chance, route: first },
        ChoiceEntry { chance: 1.0 - chance, route: second },
    ];
    RouteEntry::Choose(ChooseEntry { choose })
}

fn count(steps: &[RouteEntry]) -> usize {
    let of = |step: &RouteEntry| match step {
        RouteEntry::Choose(choose) => choose.choose.iter().map(|way| count(&way.route)).sum(),
        RouteEntry::Repeat(repeat) => count(&repeat.route),
        _ => 1,
    };
    steps.iter().map(of).sum()
}
