//! Verbs that edit: put, append, insert, mv, rm, branch, merge.

use std::collections::BTreeMap;
use std::io::Write;

use clap::{Args as ClapArgs, ValueEnum};
use cli::request::path;
use cli::text::quoted;
use cli::{Failure, Verdict};
use serde_json::{Value, json};

use crate::blob;
use crate::client::{AuthorArgs, Client, ServerArgs, Wish};
use crate::shown::committed;

/// Set attributes of a node, or create a tree
#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  sekisho jungle put journal
  sekisho jungle put board 2.0 title=Welcome -m 'a better title'")]
pub(crate) struct PutArgs {
    /// The tree; alone, it is created
    tree: String,
    /// The node: its id (17.0), its path (-1,0,2) or `root`
    #[arg(allow_hyphen_values = true)]
    node: Option<String>,
    /// Attributes and their values
    #[arg(value_name = "NAME=VALUE")]
    values: Vec<String>,
    /// Take an attribute out; say it once for each
    #[arg(long, value_name = "NAME")]
    remove: Vec<String>,
    /// The time from now on after which the node goes with all below it, such as 90s or 2h; or `never`
    #[arg(long, value_name = "TIME", requires = "node")]
    ttl: Option<String>,
    /// Store the bytes of a file beside the node, under a name; without attributes
    #[arg(long, value_name = "NAME=FILE", requires = "node", conflicts_with_all = ["values", "remove", "ttl", "remove_file"])]
    file: Option<String>,
    /// Take such bytes away again
    #[arg(long, value_name = "NAME", requires = "node", conflicts_with_all = ["values", "remove", "ttl"])]
    remove_file: Option<String>,
    /// Only if the node and all below it are still at this mark, the ETag of an answer
    #[arg(long, value_name = "ETAG")]
    pub(crate) if_match: Option<String>,
    /// Create a tree without addresses by id, which takes less memory
    #[arg(long, conflicts_with = "node")]
    plain: bool,
    #[command(flatten)]
    pub(crate) author: AuthorArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// Append a child to a node
#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  sekisho jungle append board root title=Hello
  sekisho jungle append board root body=soon-gone --ttl 2h")]
pub(crate) struct AppendArgs {
    /// The tree
    tree: String,
    /// The parent: its id (17.0), its path (-1,0,2) or `root`
    #[arg(allow_hyphen_values = true)]
    parent: String,
    /// Attributes and their values
    #[arg(value_name = "NAME=VALUE")]
    values: Vec<String>,
    /// A JSON value, which becomes a node and those below it
    #[arg(long, value_name = "JSON", conflicts_with = "values")]
    document: Option<String>,
    /// The time after which the node goes with all below it, such as 90s or 2h
    #[arg(long, value_name = "TIME")]
    ttl: Option<String>,
    #[command(flatten)]
    author: AuthorArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// Insert a child at a position
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho jungle insert board root 0 title=First")]
pub(crate) struct InsertArgs {
    /// The tree
    tree: String,
    /// The parent: its id (17.0), its path (-1,0,2) or `root`
    #[arg(allow_hyphen_values = true)]
    parent: String,
    /// The position among its children, from 0
    #[arg(value_name = "N")]
    position: usize,
    /// Attributes and their values
    #[arg(value_name = "NAME=VALUE")]
    values: Vec<String>,
    /// A JSON value, which becomes a node and those below it
    #[arg(long, value_name = "JSON", conflicts_with = "values")]
    document: Option<String>,
    /// The time after which the node goes with all below it, such as 90s or 2h
    #[arg(long, value_name = "TIME")]
    ttl: Option<String>,
    #[command(flatten)]
    author: AuthorArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// Move a node with all below it, or rename a tree
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho jungle mv board 3.0 root")]
pub(crate) struct MoveArgs {
    /// The tree
    tree: String,
    /// The node; if no parent follows, the new name of the tree
    #[arg(allow_hyphen_values = true)]
    node: String,
    /// The new parent
    #[arg(allow_hyphen_values = true)]
    parent: Option<String>,
    /// The position among its children, counted without the node; left out, the end
    position: Option<usize>,
    #[command(flatten)]
    author: AuthorArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// Remove a node with all below it, or drop a tree
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho jungle rm board 5.0")]
pub(crate) struct RemoveArgs {
    /// The tree; alone, it is dropped
    tree: String,
    /// The node
    #[arg(allow_hyphen_values = true)]
    node: Option<String>,
    #[command(flatten)]
    author: AuthorArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// Make a branch of a tree
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho jungle branch board draft")]
pub(crate) struct BranchArgs {
    /// The tree
    tree: String,
    /// The name of the branch
    name: String,
    #[command(flatten)]
    author: AuthorArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// Merge a branch into its origin, or an origin into its branch
///
/// Conflicts are listed, and then nothing changes (exit code 3), unless a side is to decide them.
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho jungle merge draft board")]
pub(crate) struct MergeArgs {
    /// The tree whose changes are brought
    from: String,
    /// The tree that is changed
    into: String,
    /// The side that decides conflicts
    #[arg(long, value_enum, default_value = "refuse")]
    policy: Policy,
    #[command(flatten)]
    author: AuthorArgs,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Policy {
    /// Neither: a conflict stops the merge
    Refuse,
    /// The tree that is merged into
    Ours,
    /// The tree that is merged
    Theirs,
}

/// Pairs of a command line.
fn values(pairs: &[String]) -> Result<BTreeMap<&str, Option<&str>>, Failure> {
    let mut values = BTreeMap::new();
    for pair in pairs {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(Failure::Usage(format!(
                "`{pair}` is no attribute with a value; write NAME=VALUE, such as title=Hello"
            )));
        };
        if values.insert(name, Some(value)).is_some() {
            return Err(Failure::Usage(format!("`{name}` stands twice; say it once")));
        }
    }
    Ok(values)
}

pub(crate) fn put(args: &PutArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let tree = &*args.tree;
    let Some(node) = &args.node else {
        let wish = Wish::of("PUT", path(&["trees", tree]), &json!({"addressable": !args.plain}));
        let answered = client.ask(&wish.by(&args.author))?;
        let then = format!("sekisho jungle append {} root title=Hello", quoted(tree));
        return committed(out, &args.server, &answered, |_| Some(then));
    };
    let then = format!("sekisho jungle blame {} {}", quoted(tree), quoted(node));
    if args.file.is_some() || args.remove_file.is_some() {
        let wish = match (&args.file, &args.remove_file) {
            (Some(named), _) => blob::stored(&client, (tree, node), named, args)?,
            (None, Some(name)) => client.ask(&blob::removed((tree, node), name, args))?,
            (None, None) => unreachable!("one of them is there"),
        };
        return committed(out, &args.server, &wish, |_| Some(then));
    }
    let mut attributes = values(&args.values)?;
    for name in &args.remove {
        if attributes.insert(name, None).is_some() {
            return Err(Failure::Usage(format!("`{name}` is both set and removed; say one")));
        }
    }
    if attributes.is_empty() && args.ttl.is_none() {
        return Err(Failure::Usage(
            "nothing is to be set; write NAME=VALUE, such as title=Hello, or --remove NAME, or --ttl TIME".into(),
        ));
    }
    let place = path(&["trees", tree, "nodes", node]);
    let body = json!({"attributes": attributes, "ttl": args.ttl});
    let wish = Wish::of("PATCH", place, &body);
    let wish = wish.by(&args.author).with("if-match", args.if_match.as_ref());
    committed(out, &args.server, &client.ask(&wish)?, |_| Some(then))
}

/// The body of an insertion.
fn child(
    pairs: &[String],
    document: Option<&String>,
    ttl: Option<&String>,
) -> Result<Value, Failure> {
    let mut body = match document {
        None => json!({"attributes": values(pairs)?}),
        Some(text) => {
            let value: Value = serde_json::from_str(text)
                .map_err(|error| Failure::Usage(format!("`--document`: it is no JSON: {error}")))?;
            json!({"json": value})
        }
    };
    body["ttl"] = json!(ttl);
    Ok(body)
}

pub(crate) fn append(args: &AppendArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let place = path(&["trees", &args.tree, "nodes", &args.parent, "children"]);
    let body = child(&args.values, args.document.as_ref(), args.ttl.as_ref())?;
    let answered = client.ask(&Wish::of("POST", place, &body).by(&args.author))?;
    let then = format!("sekisho jungle get {} {}", quoted(&args.tree), quoted(&args.parent));
    committed(out, &args.server, &answered, |_| Some(then))
}

pub(crate) fn insert(args: &InsertArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let place = path(&["trees", &args.tree, "nodes", &args.parent, "children"]);
    let mut body = child(&args.values, args.document.as_ref(), args.ttl.as_ref())?;
    body["position"] = args.position.into();
    let answered = client.ask(&Wish::of("POST", place, &body).by(&args.author))?;
    let then = format!("sekisho jungle get {} {}", quoted(&args.tree), quoted(&args.parent));
    committed(out, &args.server, &answered, |_| Some(then))
}

pub(crate) fn relocate(args: &MoveArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let (wish, then) = match &args.parent {
        None => {
            let place = path(&["trees", &args.tree, "rename"]);
            let then = format!("sekisho jungle get {}", quoted(&args.node));
            (Wish::of("POST", place, &json!({"name": args.node})), then)
        }
        Some(parent) => {
            let place = path(&["trees", &args.tree, "nodes", &args.node, "move"]);
            let body = json!({"parent": parent, "position": args.position});
            let then = format!("sekisho jungle get {} {}", quoted(&args.tree), quoted(parent));
            (Wish::of("POST", place, &body), then)
        }
    };
    committed(out, &args.server, &client.ask(&wish.by(&args.author))?, |_| Some(then))
}

pub(crate) fn remove(args: &RemoveArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let place = match &args.node {
        None => path(&["trees", &args.tree]),
        Some(node) => path(&["trees", &args.tree, "nodes", node]),
    };
    let answered = client.ask(&Wish::bare("DELETE", place).by(&args.author))?;
    let of_node = args.node.is_some();
    committed(out, &args.server, &answered, |done| {
        // A tree that was dropped is not brought back by a revert.
        of_node.then(|| format!("sekisho jungle revert {}", done.seq))
    })
}

pub(crate) fn branch(args: &BranchArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let place = path(&["trees", &args.tree, "branch"]);
    let answered =
        client.ask(&Wish::of("POST", place, &json!({"name": args.name})).by(&args.author))?;
    let then = format!("sekisho jungle merge {} {}", quoted(&args.name), quoted(&args.tree));
    committed(out, &args.server, &answered, |_| Some(then))
}

pub(crate) fn merge(args: &MergeArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let policy = match args.policy {
        Policy::Refuse => "refuse",
        Policy::Ours => "ours",
        Policy::Theirs => "theirs",
    };
    let place = path(&["trees", &args.into, "merge"]);
    let wish = Wish::of("POST", place, &json!({"from": args.from, "policy": policy}));
    let answered = client.ask(&wish.by(&args.author))?;
    committed(out, &args.server, &answered, |done| {
        Some(format!("sekisho jungle diff {} {}", quoted(&args.into), done.seq - 1))
    })
}
