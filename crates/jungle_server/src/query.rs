//! Queries of documents by JSONPath, page by page of one version.

use std::sync::Arc;

use hyper::StatusCode;
use jungle::{Pointed, Pointers, Version, to_json};

use crate::answer::{MatchView, QueryAnswer};
use crate::exchange::{Ask, Reply, json};
use crate::jsonpath::{Found, JsonPath, order};
use crate::problem::Problem;
use crate::reads::{LIMIT, LIMIT_MAX, gone, has_room, node_of, past, tree_of, version_at};
use crate::shared::Shared;

/// The most steps of a query, which take at most about a second.
const STEPS_MAX: u64 = 10_000_000;
/// The most bytes of values in an answer, but for its first \[B\].
const BYTES_MAX: usize = 32 << 20;

/// A page that is asked for.
struct Wish {
    path: String,
    order: Option<String>,
    descending: bool,
    limit: usize,
    /// Values that earlier pages had.
    offset: usize,
    /// The generation of the log, for the cursor.
    generation: u64,
}

fn jsonpath(name: &str, text: &str) -> Result<JsonPath, Problem> {
    text.parse().map_err(|error| Problem::bad_request(format!("`?{name}=`: {error}")))
}

/// The cursor `GENERATION.COMMIT.OFFSET`.
fn cursor(text: &str) -> Result<(u64, u64, usize), Problem> {
    let mut parts = text.split('.');
    let mut next = || parts.next()?.parse::<u64>().ok();
    let read = (next(), next(), next());
    match (read, parts.next()) {
        ((Some(generation), Some(seq), Some(offset)), None) => {
            Ok((generation, seq, usize::try_from(offset).unwrap_or(usize::MAX)))
        }
        _ => Err(Problem::bad_request(format!(
            "`?after={text}` is no cursor; send the `next_after` of a page"
        ))),
    }
}

/// `GET /trees/TREE/nodes/NODE/query?path=JSONPATH`.
pub(crate) async fn query(
    mut ask: Ask,
    shared: &Arc<Shared>,
    name: &str,
    place: &str,
) -> Result<Reply, Problem> {
    let store = &shared.store;
    let after = ask.take("after");
    if after.is_some() && ask.has("at") {
        let both = "`?at=` and `?after=` exclude each other: a cursor names its version";
        return Err(Problem::bad_request(both));
    }
    let at = version_at(&mut ask, store).await?;
    let limit = ask.number("limit")?.unwrap_or(LIMIT).min(LIMIT_MAX);
    if limit == 0 {
        return Err(Problem::bad_request("`?limit=0`: a number from 1 on is wanted"));
    }
    let (path, order, descending) = (ask.take("path"), ask.take("order"), ask.take("descending"));
    ask.nothing_left(&["at", "path", "order", "descending", "after", "limit"])?;
    let none = || Problem::bad_request("`?path=` is missing: a JSONPath, such as $..title");
    let path = path.ok_or_else(none)?;
    if descending.is_some() && order.is_none() {
        let alone =
            "`?descending=` has a meaning with `?order=JSONPATH` alone; say it, or leave both out";
        return Err(Problem::bad_request(alone));
    }
    let descending = match descending.as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => {
            let wrong = format!("`?descending={other}`: true or false is wanted");
            return Err(Problem::bad_request(wrong));
        }
    };
    // The pages of one query are of one version, whatever is committed meanwhile.
    let (version, offset) = match after {
        None => (at, 0),
        Some(after) => {
            let (generation, seq, offset) = cursor(&after)?;
            if generation != store.generation() {
                return Err(gone(format!(
                    "the cursor {after} is of another generation of this log"
                )));
            }
            (past(store, seq).await?, offset)
        }
    };
    let generation = store.generation();
    let wish = Wish { path, order, descending, limit, offset, generation };
    // To read a query takes time, too: it may have many regular expressions.
    let answer = tokio::task::block_in_place(|| page(&version, name, place, &wish))?;
    Ok(json(StatusCode::OK, &answer))
}

fn page(version: &Version, name: &str, place: &str, wish: &Wish) -> Result<QueryAnswer, Problem> {
    let path = jsonpath("path", &wish.path)?;
    let order = wish.order.as_ref().map(|order| jsonpath("order", order)).transpose()?;
    let tree = tree_of(version, name)?;
    if !tree.is_addressable() {
        return Err(jungle::EditError::NotAddressable.into());
    }
    let node = node_of(tree, place)?;
    has_room(node)?;
    let document = to_json(node)?;
    let mut found = path.find(&document, STEPS_MAX).map_err(Problem::too_long)?;
    if let Some(by) = &order {
        sort(&mut found, by, wish.descending)?;
    }
    let count = found.len();
    let mut pointers = Pointers::new(node);
    let mut matches = Vec::new();
    let mut bytes = 0;
    for one in found.iter().skip(wish.offset).take(wish.limit) {
        bytes += one.value.to_string().len();
        if bytes > BYTES_MAX && !matches.is_empty() {
            break;
        }
        matches.push(seen(&mut pointers, one)?);
    }
    let end = wish.offset.saturating_add(matches.len());
    let seq = version.seq();
    Ok(QueryAnswer {
        seq,
        tree: name.to_owned(),
        node: node.id().to_string(),
        count,
        next_after: (end < count).then(|| format!("{}.{seq}.{end}", wish.generation)),
        matches,
    })
}

/// Orders what was found by the first value that a query finds in each; what is equal stays as it was.
fn sort(found: &mut Vec<Found<'_>>, by: &JsonPath, descending: bool) -> Result<(), Problem> {
    let mut left = STEPS_MAX;
    let mut keyed = Vec::with_capacity(found.len());
    for one in found.drain(..) {
        // All together cost no more than one query may.
        let key = by.first_within(one.value, STEPS_MAX, &mut left).map_err(Problem::too_long)?;
        keyed.push((key, one));
    }
    keyed.sort_by(|(left, _), (right, _)| {
        let ascending = order(*left, *right);
        if descending { ascending.reverse() } else { ascending }
    });
    found.extend(keyed.into_iter().map(|(_, one)| one));
    Ok(())
}

/// A value with the node that holds it.
fn seen(pointers: &mut Pointers<'_>, found: &Found<'_>) -> Result<MatchView, Problem> {
    let (node, attribute) = match pointers.point(&found.pointer())? {
        Pointed::Node(id) => (id, None),
        Pointed::Member { object, attribute } => (object, Some(attribute)),
    };
    Ok(MatchView {
        path: found.path(),
        node: node.to_string(),
        attribute,
        value: found.value.clone(),
    })
}
