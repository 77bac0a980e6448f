//! The addresses of a server: which handler answers what.

use std::sync::Arc;

use hyper::{Method, StatusCode};

use crate::exchange::{Ask, Reply, reply, set};
use crate::idempotency::{First, Key};
use crate::problem::Problem;
use crate::shared::Shared;
use crate::{blob_routes, edits, history, openapi, query, reads, state, watching};

/// Answers a request, and one that took effect before as it was answered then.
pub(crate) async fn answer(mut ask: Ask, shared: &Arc<Shared>) -> Result<Reply, Problem> {
    let Some(key) = Key::of(&ask)? else { return routed(ask, shared).await };
    ask.key = Some(key);
    // Whoever has lost a right since then is told no more than whoever never had it.
    let words: Vec<&str> = ask.segments.iter().map(String::as_str).collect();
    may(&ask, &ask.method, &words)?;
    let status = status_of(&ask);
    match shared.keys.begin(key, shared.store.generation())? {
        First::No(before) => {
            // The address of a transaction names no tree, and that of a pick none either.
            match shared.store.version().commit(before.seq) {
                Some(commit) => commit.trees().try_for_each(|tree| ask.caller.must_write(tree))?,
                None if words.first() == Some(&"trees") => {}
                // Its trees are not known any more.
                None => ask.caller.must_administer("see an answer whose commit is forgotten")?,
            }
            Ok(edits::committed(status, &before))
        }
        First::Yes(under_way) => {
            let shared = Arc::clone(shared);
            // Whoever leaves before the answer may ask again at once: the key stays taken until it is decided.
            let decided = tokio::spawn(async move {
                let reply = routed(ask, &shared).await;
                drop(under_way);
                reply
            });
            decided.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
        }
    }
}

/// Refuses whoever may not read or write the tree of an address.
fn may(ask: &Ask, method: &Method, words: &[&str]) -> Result<(), Problem> {
    match *words {
        // A branch is written under another name; what is committed is looked at once more, with all its trees.
        ["trees", tree, "branch"] => ask.caller.must_read(tree),
        ["trees", tree, ..] if *method == Method::GET => ask.caller.must_read(tree),
        ["trees", tree, ..] => ask.caller.must_write(tree),
        _ => Ok(()),
    }
}

/// The status of an edit that takes effect.
fn status_of(ask: &Ask) -> StatusCode {
    let words: Vec<&str> = ask.segments.iter().map(String::as_str).collect();
    match (&ask.method, &words[..]) {
        (&Method::PUT, ["trees", _] | ["trees", _, "indexes", _])
        | (&Method::POST, ["trees", _, "branch"] | ["trees", _, "nodes", _, "children"]) => {
            StatusCode::CREATED
        }
        _ => StatusCode::OK,
    }
}

/// Answers a request by its path and method.
async fn routed(mut ask: Ask, shared: &Arc<Shared>) -> Result<Reply, Problem> {
    let segments = std::mem::take(&mut ask.segments);
    let words: Vec<&str> = segments.iter().map(String::as_str).collect();
    let method = match ask.method {
        Method::HEAD => Method::GET,
        ref other => other.clone(),
    };
    reads::has_seen(&ask, &shared.store)?;
    may(&ask, &method, &words)?;
    match words[..] {
        [] => get(&method, || Ok(page("text/html; charset=utf-8", include_str!("page/page.html")))),
        ["page.css"] => get(&method, || Ok(page("text/css", include_str!("page/page.css")))),
        ["page.js"] => get(&method, || Ok(page("text/javascript", include_str!("page/page.js")))),
        ["healthz"] => get(&method, || Ok(text("alive\n"))),
        ["readyz"] => get(&method, || state::ready(shared)),
        ["openapi.json"] => {
            get(&method, || Ok(reply(StatusCode::OK, "application/json", openapi::served())))
        }
        ["metrics"] => get(&method, || {
            ask.caller.must_administer("see the metrics")?;
            Ok(state::metrics(shared))
        }),
        ["stats"] if method == Method::GET => state::stats(ask, shared).await,
        ["watch"] if method == Method::GET => watching::begin(ask, shared),
        ["backup"] if method == Method::GET => state::backup(ask, shared).await,
        ["blobs"] if method == Method::GET => blob_routes::list(ask, shared).await,
        ["blobs", blob] if method == Method::GET => blob_routes::get_any(ask, shared, blob),
        ["snapshot"] if method == Method::POST => state::snapshot(ask, shared).await,
        ["transactions"] if method == Method::POST => edits::transaction(ask, shared).await,
        ["commits"] if method == Method::GET => history::commits(ask, shared),
        ["commits", seq] if method == Method::GET => history::commit(ask, shared, seq),
        ["commits", seq, "revert"] if method == Method::POST => {
            history::revert(ask, shared, seq).await
        }
        ["commits", seq, "pick"] if method == Method::POST => history::pick(ask, shared, seq).await,
        ["holds", name] => match method {
            Method::PUT => history::hold(ask, shared, name).await,
            Method::DELETE => history::let_go(ask, shared, name).await,
            _ => not_allowed("PUT, DELETE"),
        },
        ["trees"] if method == Method::GET => reads::trees(ask, shared).await,
        ["trees", tree, ref rest @ ..] => of_tree(ask, shared, &method, tree, rest).await,
        ["stats" | "watch" | "backup" | "trees" | "commits" | "blobs"]
        | ["commits" | "blobs", _] => not_allowed("GET"),
        ["snapshot" | "transactions"] | ["commits", _, "revert" | "pick"] => not_allowed("POST"),
        _ => Err(unknown()),
    }
}

async fn of_tree(
    ask: Ask,
    shared: &Arc<Shared>,
    method: &Method,
    tree: &str,
    rest: &[&str],
) -> Result<Reply, Problem> {
    match *rest {
        [] => match *method {
            Method::GET => reads::tree(ask, shared, tree).await,
            Method::PUT => edits::create(ask, shared, tree).await,
            Method::DELETE => edits::drop_tree(ask, shared, tree).await,
            _ => not_allowed("GET, PUT, DELETE"),
        },
        ["rename"] if *method == Method::POST => edits::rename(ask, shared, tree).await,
        ["branch"] if *method == Method::POST => edits::branch(ask, shared, tree).await,
        ["merge"] if *method == Method::POST => edits::merge(ask, shared, tree).await,
        ["find"] if *method == Method::GET => reads::find(ask, shared, tree).await,
        ["diff"] if *method == Method::GET => history::diff(ask, shared, tree).await,
        ["indexes", attribute] => match *method {
            Method::PUT => edits::make_index(ask, shared, tree, attribute).await,
            Method::DELETE => edits::drop_index(ask, shared, tree, attribute).await,
            _ => not_allowed("PUT, DELETE"),
        },
        ["rules", attribute] if *method == Method::PUT => {
            edits::set_rule(ask, shared, tree, attribute).await
        }
        ["nodes", node, ref rest @ ..] => of_node(ask, shared, method, tree, node, rest).await,
        ["rename" | "branch" | "merge"] => not_allowed("POST"),
        ["find" | "diff"] => not_allowed("GET"),
        ["rules", _] => not_allowed("PUT"),
        _ => Err(unknown()),
    }
}

async fn of_node(
    ask: Ask,
    shared: &Arc<Shared>,
    method: &Method,
    tree: &str,
    node: &str,
    rest: &[&str],
) -> Result<Reply, Problem> {
    match *rest {
        [] => match *method {
            Method::GET => reads::node(ask, shared, tree, node).await,
            Method::PATCH => edits::patch(ask, shared, tree, node).await,
            Method::DELETE => edits::remove(ask, shared, tree, node).await,
            _ => not_allowed("GET, PATCH, DELETE"),
        },
        ["query"] if *method == Method::GET => query::query(ask, shared, tree, node).await,
        ["children"] if *method == Method::POST => edits::insert(ask, shared, tree, node).await,
        ["move"] if *method == Method::POST => edits::relocate(ask, shared, tree, node).await,
        ["restore"] if *method == Method::POST => history::restore(ask, shared, tree, node).await,
        ["log"] if *method == Method::GET => history::log(ask, shared, tree, node).await,
        ["blame"] if *method == Method::GET => history::blame(ask, shared, tree, node).await,
        ["blobs", name] => match *method {
            Method::GET => blob_routes::get(ask, shared, tree, node, name).await,
            Method::PUT => blob_routes::put(ask, shared, tree, node, name).await,
            Method::DELETE => blob_routes::remove(ask, shared, tree, node, name).await,
            _ => not_allowed("GET, PUT, DELETE"),
        },
        ["children" | "move" | "restore"] => not_allowed("POST"),
        ["query" | "log" | "blame"] => not_allowed("GET"),
        _ => Err(unknown()),
    }
}

/// A part of the page, which asks nobody but this server and runs nothing but its own script.
fn page(kind: &'static str, text: &'static str) -> Reply {
    let mut reply = reply(StatusCode::OK, kind, text);
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                  base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    set(&mut reply, "content-security-policy", policy);
    set(&mut reply, "x-content-type-options", "nosniff");
    reply
}

fn text(text: &'static str) -> Reply {
    reply(StatusCode::OK, "text/plain; charset=utf-8", text)
}

fn get(method: &Method, answer: impl FnOnce() -> Result<Reply, Problem>) -> Result<Reply, Problem> {
    if *method == Method::GET { answer() } else { not_allowed("GET") }
}

fn unknown() -> Problem {
    Problem::not_found("no such address; docs/jungle.md lists them, /trees is where to begin")
}

fn not_allowed(methods: &'static str) -> Result<Reply, Problem> {
    Err(Problem::not_allowed(methods))
}
