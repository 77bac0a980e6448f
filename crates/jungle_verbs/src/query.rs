//! The verb that asks a document by JSONPath.

use std::io::Write;

use clap::Args as ClapArgs;
use cli::request::{path, query};
use cli::text::quoted;
use cli::{Failure, Verdict};
use jungle_server::QueryAnswer;

use crate::answer::Queried;
use crate::client::{Answered, Client, ServerArgs, Wish};
use crate::shown::{counted, done, line, refused};

/// Ask the document that a node is made of, by JSONPath (RFC 9535)
#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  sekisho jungle query site -1,0 '$..title'
  sekisho jungle query site -1,0 '$.tags[?@ > 0]' --order '$' --descending")]
pub(crate) struct QueryArgs {
    /// The tree
    tree: String,
    /// The node of the document, such as -1,0
    #[arg(allow_hyphen_values = true)]
    node: String,
    /// The JSONPath, `$` being the document
    path: String,
    /// Order by what this JSONPath finds first, `$` being each value that was found
    #[arg(long, value_name = "JSONPATH")]
    order: Option<String>,
    /// The largest first
    #[arg(long, requires = "order")]
    descending: bool,
    /// Most values that are shown
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Go on behind this cursor
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

/// Asks, and shows a page of what was found.
pub(crate) fn run(args: &QueryArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let parts = query(&[
        ("path", Some(args.path.clone())),
        ("order", args.order.clone()),
        ("descending", args.descending.then(|| "true".to_owned())),
        ("limit", Some(args.limit.to_string())),
        ("after", args.after.clone()),
    ]);
    let wish = Wish::get(path(&["trees", &args.tree, "nodes", &args.node, "query"]) + &parts);
    let found: QueryAnswer = match client.ask(&wish)? {
        Answered::Refused(problem) => return refused(out, args.server.json, &problem),
        Answered::Done(found) => found,
    };
    done(out, args.server.json, &Queried(&found), || {
        let head = format!(
            "{} in node {} of {}, read at commit {}",
            counted(found.count, "value"),
            found.node,
            args.tree,
            found.seq
        );
        let mut text = line(&head);
        for one in &found.matches {
            text.push_str(&line(&format!("  {} {}", one.path, one.value)));
        }
        if let Some(after) = &found.next_after {
            let (tree, node) = (quoted(&args.tree), quoted(&args.node));
            let mut again = format!("sekisho jungle query {tree} {node} {}", quoted(&args.path));
            if let Some(order) = &args.order {
                again.push_str(&format!(" --order {}", quoted(order)));
            }
            if args.descending {
                again.push_str(" --descending");
            }
            let limit = args.limit;
            text.push_str(&args.server.next(&format!("{again} --limit {limit} --after {after}")));
        }
        text
    })
}
