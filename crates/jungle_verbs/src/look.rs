//! Verbs that read: get, at, find.

use std::io::Write;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use cli::request::{path, query};
use cli::text::{Table, bytes, label, quoted};
use cli::{Failure, Verdict, say};
use jungle_server::{FoundAnswer, NodeAnswer, Trees};

use crate::answer::{Found, OneNode, TreeList};
use crate::blob;
use crate::client::{Answered, Client, ServerArgs, Wish};
use crate::shown::{counted, done, line, node, refused, value};

/// List the trees, or show a node and its children
#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  sekisho jungle get
  sekisho jungle get board root --depth 2")]
pub(crate) struct GetArgs {
    /// The tree; left out, all trees are listed
    tree: Option<String>,
    /// The node: its id (17.0), its path (-1,0,2) or `root`
    #[arg(default_value = "root", allow_hyphen_values = true)]
    node: String,
    #[command(flatten)]
    part: PartArgs,
    /// The value of JSON below the node that a JSON Pointer (RFC 6901) names
    #[arg(long, value_name = "POINTER")]
    pointer: Option<String>,
    /// The bytes of this name that lie beside the node (`put --file`), written to --out
    #[arg(
        long,
        value_name = "NAME",
        requires = "out",
        requires = "tree",
        conflicts_with = "pointer"
    )]
    file: Option<String>,
    /// The file to which they are written
    #[arg(long, value_name = "FILE", requires = "file")]
    out: Option<PathBuf>,
    #[command(flatten)]
    server: ServerArgs,
}

/// Show trees or a node as they were
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho jungle at 3 board")]
pub(crate) struct AtArgs {
    /// A commit, the token of an answer, or a moment such as 2026-11-27T12:00:00Z
    when: String,
    /// The tree; left out, all trees are listed
    tree: Option<String>,
    /// The node: its id (17.0), its path (-1,0,2) or `root`
    #[arg(default_value = "root", allow_hyphen_values = true)]
    node: String,
    #[command(flatten)]
    part: PartArgs,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(ClapArgs)]
struct PartArgs {
    /// Levels below the node that are shown
    #[arg(long, value_name = "N", default_value_t = 1)]
    depth: usize,
    /// Most nodes that are shown
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// First child that is shown
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: usize,
}

/// Find nodes by the value of an attribute, or list them in the order of an index
#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  sekisho jungle find board title Hello
  sekisho jungle find board title --make-index")]
pub(crate) struct FindArgs {
    /// The tree
    tree: String,
    /// The attribute
    attribute: String,
    /// The value; left out, all nodes in the order of the attribute's index
    value: Option<String>,
    /// Make an index of the attribute first, if there is none
    #[arg(long)]
    make_index: bool,
    /// Most nodes that are shown
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Go on behind this cursor
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn get(args: &GetArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let Some(tree) = &args.tree else { return trees(&client, &args.server, None, out) };
    if let (Some(name), Some(file)) = (&args.file, &args.out) {
        return blob::get(&client, &args.server, (tree, &args.node), (name, None), file, out);
    }
    let again = format!("sekisho jungle get {} {}", quoted(tree), quoted(&args.node));
    let parts = (&args.part, None, args.pointer.clone());
    one(&client, &args.server, (tree, &args.node), parts, &again, out)
}

pub(crate) fn at(args: &AtArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let when = Some(args.when.clone());
    let Some(tree) = &args.tree else { return trees(&client, &args.server, when, out) };
    let (moment, place) = (quoted(&args.when), quoted(&args.node));
    let again = format!("sekisho jungle at {moment} {} {place}", quoted(tree));
    let parts = (&args.part, when, None);
    one(&client, &args.server, (tree, &args.node), parts, &again, out)
}

fn trees(
    client: &Client,
    server: &ServerArgs,
    when: Option<String>,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let wish = Wish::get(format!("/trees{}", query(&[("at", when)])));
    let list: Trees = match client.ask(&wish)? {
        Answered::Refused(problem) => return refused(out, server.json, &problem),
        Answered::Done(list) => list,
    };
    done(out, server.json, &TreeList(&list), || {
        let Some(first) = list.trees.first() else {
            return format!(
                "no trees at commit {}\n{}",
                list.seq,
                server.next("sekisho jungle put board")
            );
        };
        let mut table = Table::new(&["tree", "nodes", "changed", "branch of", "indexes"]);
        for tree in &list.trees {
            table.row(vec![
                label(&tree.name),
                tree.nodes.to_string(),
                tree.changed.to_string(),
                tree.branch_of.as_deref().map(label).unwrap_or_default(),
                label(&tree.indexes.join(" ")),
            ]);
        }
        let then = server.next(&format!("sekisho jungle get {}", quoted(&first.name)));
        format!("{} at commit {}\n{table}{then}", counted(list.trees.len(), "tree"), list.seq)
    })
}

fn one(
    client: &Client,
    server: &ServerArgs,
    (tree, place): (&str, &str),
    (part, when, pointer): (&PartArgs, Option<String>, Option<String>),
    again: &str,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let parts = query(&[
        ("at", when),
        ("depth", Some(part.depth.to_string())),
        ("limit", Some(part.limit.to_string())),
        ("offset", Some(part.offset.to_string())),
        ("pointer", pointer),
    ]);
    let wish = Wish::get(path(&["trees", tree, "nodes", place]) + &parts);
    let found: NodeAnswer = match client.ask(&wish)? {
        Answered::Refused(problem) => return refused(out, server.json, &problem),
        Answered::Done(found) => found,
    };
    done(out, server.json, &OneNode(&found), || {
        let of = &found.node;
        let path = found.path.as_deref().unwrap_or(place);
        let head = format!(
            "node {} at {path} of {tree}, changed by commit {}, read at commit {}",
            of.id, of.changed, found.seq
        );
        let mut text = line(&head);
        for (name, of) in &of.attributes {
            text.push_str(&line(&format!("  {name}: {}", value(of))));
        }
        for (name, blob) in &of.blobs {
            let size = bytes(blob.bytes);
            text.push_str(&line(&format!("  file {name}: {size}, sha256 {}", blob.sha256)));
        }
        if let Some(expires) = &of.expires {
            text.push_str(&format!("  expires: {expires}\n"));
        }
        if of.children > 0 {
            text.push_str(&format!("  children: {}\n", of.children));
        }
        for child in &of.nodes {
            node(child, 4, &mut text);
        }
        if let Some(offset) = of.next_offset {
            text.push_str(&server.next(&format!("{again} --offset {offset}")));
        } else {
            let (tree, id) = (quoted(tree), &of.id);
            text.push_str(&server.next(&format!("sekisho jungle log {tree} {id}")));
        }
        text
    })
}

pub(crate) fn find(args: &FindArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    if args.make_index {
        let place = path(&["trees", &args.tree, "indexes", &args.attribute]);
        // A refusal says that it is there already.
        if let Answered::Refused(problem) = client.bytes(&Wish::bare("PUT", place))?
            && problem.status != 409
        {
            return refused(out, args.server.json, &problem);
        }
    }
    let parts = query(&[
        ("attribute", Some(args.attribute.clone())),
        ("value", args.value.clone()),
        ("limit", Some(args.limit.to_string())),
        ("after", args.after.clone()),
    ]);
    let wish = Wish::get(path(&["trees", &args.tree, "find"]) + &parts);
    let found: FoundAnswer = match client.ask(&wish)? {
        Answered::Refused(problem) => return refused(out, args.server.json, &problem),
        Answered::Done(found) => found,
    };
    let verdict = done(out, args.server.json, &Found(&found), || {
        let how = if found.indexed { "by its index" } else { "by a walk over all nodes" };
        let mut text =
            line(&format!("{} of {}, {how}", counted(found.nodes.len(), "node"), args.tree));
        for one in &found.nodes {
            node(one, 2, &mut text);
        }
        text
    })?;
    if let (false, Some(after)) = (args.server.json, &found.next_after) {
        let value = args.value.as_deref().map(|of| format!(" {}", quoted(of))).unwrap_or_default();
        let (tree, name) = (quoted(&args.tree), quoted(&args.attribute));
        say(
            out,
            &args.server.next(&format!("sekisho jungle find {tree} {name}{value} --after {after}")),
        )?;
    }
    Ok(verdict)
}
