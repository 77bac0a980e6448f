//! The description of every address (OpenAPI 3.1), so that clients in any language are made from what is read and
//! written here: its schemas are those of the types themselves.

use std::sync::OnceLock;

use hyper::body::Bytes;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::answer::{
    BlameAnswer, BlobList, CommitAnswer, CommitView, CommittedAnswer, DiffAnswer, ExportAnswer,
    FoundAnswer, LogAnswer, NodeAnswer, QueryAnswer, SeqAnswer, Stats, TreeView, Trees,
};
use crate::bodies::{At, Create, Hold, Insert, Merge, Move, Name, Pick, Put, SetRule};
use crate::problem::Problem;
use crate::request::TransactionRequest;

/// The parameters of queries: each name means the same wherever it stands.
const QUERY: [(&str, &str, &str); 18] = [
    ("after", "string", "The cursor or token behind which to go on"),
    (
        "as",
        "string",
        "`json` for the document that the node is made of, `export` for it and the names of its blobs, or `node`",
    ),
    ("at", "string", "The version: a commit, a token, or a moment (RFC 3339); else the newest"),
    ("attribute", "string", "The attribute to look for"),
    ("before", "integer", "The commit before which to go on"),
    ("depth", "integer", "Levels below the node, at most 60; else 1"),
    ("from", "string", "The earlier version: a commit or a token"),
    ("from_tree", "string", "The origin or branch to compare with"),
    ("heartbeat_s", "integer", "The time between two positions [s], 1 to 3600"),
    ("limit", "integer", "The most nodes, commits or differences, at most 10,000"),
    ("offset", "integer", "The position of the first child"),
    ("pointer", "string", "A JSON Pointer (RFC 6901) from the node on"),
    ("to", "string", "The later version: a commit or a token; else the newest"),
    ("tree", "string", "The tree whose commits are told; else all"),
    ("value", "string", "The value to look for"),
    ("path", "string", "A JSONPath (RFC 9535), `$` being the document"),
    (
        "order",
        "string",
        "A JSONPath, `$` being each value that was found: they are ordered by what it finds first",
    ),
    ("descending", "boolean", "`true` if the largest come first"),
];

/// Headers of requests.
const HEADERS: [(&str, &str); 9] = [
    (
        "Idempotency-Key",
        "A key of 1 to 255 bytes under which an edit takes effect once; 422 if it was another, 409 while it is under way. \
         The newest 100,000 keys of all users are known",
    ),
    ("If-Match", "Marks (`ETag`) of which the node or tree must have one; else 412"),
    ("If-None-Match", "Marks with one of which nothing is answered (304)"),
    ("If-Range", "The mark that a part is of: with another one the whole is answered"),
    ("Jungle-Author", "The author of the commit"),
    ("Jungle-Message", "The reason of the commit"),
    ("Jungle-Token", "A position that was seen: 409 if it is not in this log"),
    ("Last-Event-ID", "The last event that was heard, behind which to go on"),
    (
        "Range",
        "One part, such as `bytes=0-99` or `bytes=-100`: 206 with it, 416 if no byte of it is there",
    ),
];

/// The body of a request or an answer.
enum Content {
    Nothing,
    /// JSON of a type.
    Json(Value),
    /// Anything else, by its type.
    Other(&'static str),
}

/// One method at one address.
struct Address {
    method: &'static str,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    query: &'static [&'static str],
    headers: &'static [&'static str],
    bodies: Vec<(&'static str, Value)>,
    is_body_needed: bool,
    status: u16,
    answer: Content,
    /// Problems that this address has beside those of all, and 206 and 304.
    problems: &'static [u16],
}

impl Address {
    fn get(path: &'static str, id: &'static str, summary: &'static str, answer: Content) -> Self {
        Self {
            method: "get",
            path,
            id,
            summary,
            query: &[],
            headers: &[],
            bodies: Vec::new(),
            is_body_needed: false,
            status: 200,
            answer,
            problems: &[],
        }
    }

    fn edit(
        (method, path): (&'static str, &'static str),
        id: &'static str,
        summary: &'static str,
        answer: Content,
    ) -> Self {
        let headers = &["Jungle-Author", "Jungle-Message", "Idempotency-Key"];
        Self { method, headers, ..Self::get(path, id, summary, answer) }
    }

    fn query(self, query: &'static [&'static str]) -> Self {
        Self { query, ..self }
    }

    fn headers(self, headers: &'static [&'static str]) -> Self {
        Self { headers, ..self }
    }

    fn problems(self, problems: &'static [u16]) -> Self {
        Self { problems, ..self }
    }

    fn status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    fn body(self, schema: Value) -> Self {
        Self { is_body_needed: true, ..self.body_or_none(schema) }
    }

    fn body_or_none(self, schema: Value) -> Self {
        Self { bodies: vec![("application/json", schema)], ..self }
    }

    /// The names of the path's parts that vary.
    fn parts(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    fn described(self) -> Value {
        let reference =
            |kind: &str, name: &str| json!({"$ref": format!("#/components/{kind}/{name}")});
        let parts = self.parts().map(|name| reference("parameters", &format!("path.{name}")));
        let query = self.query.iter().map(|name| reference("parameters", &format!("query.{name}")));
        let headers = self.headers.iter().chain(&["Jungle-Token"]);
        let headers = headers.map(|name| reference("parameters", &format!("header.{name}")));
        let parameters: Vec<Value> = parts.chain(query).chain(headers).collect();
        let mut good = json!({
            "description": "It is so",
            "headers": {"Jungle-Token": reference("headers", "Jungle-Token")},
        });
        match self.answer {
            Content::Nothing => {}
            Content::Json(schema) => {
                good["content"] = json!({"application/json": {"schema": schema}})
            }
            Content::Other(kind) => good["content"] = json!({kind: {}}),
        }
        let mut responses = Map::new();
        responses.insert(self.status.to_string(), good);
        for status in self.problems {
            let answer = match status {
                206 => json!({
                    "description": "The part that `Range` asks for, the first of several; `Content-Range` says which",
                    "content": {"application/octet-stream": {}},
                }),
                304 => json!({"description": "The mark that was sent is that of now"}),
                _ => reference("responses", "Problem"),
            };
            responses.insert(status.to_string(), answer);
        }
        responses.insert("default".to_owned(), reference("responses", "Problem"));
        let mut described = json!({
            "operationId": self.id,
            "summary": self.summary,
            "parameters": parameters,
            "responses": responses,
        });
        if !self.bodies.is_empty() {
            let bodies = self
                .bodies
                .into_iter()
                .map(|(kind, schema)| (kind.to_owned(), json!({"schema": schema})));
            let content: Map<String, Value> = bodies.collect();
            described["requestBody"] = json!({"required": self.is_body_needed, "content": content});
        }
        described
    }
}

/// Schemas of what is read and of what is written: a field with a default may be left out of the first alone.
struct Schemas {
    read: SchemaGenerator,
    written: SchemaGenerator,
}

impl Schemas {
    fn new() -> Self {
        let settings = || {
            let mut settings = SchemaSettings::draft2020_12();
            settings.definitions_path = "/components/schemas".into();
            settings
        };
        Self {
            read: settings().for_deserialize().into_generator(),
            written: settings().for_serialize().into_generator(),
        }
    }

    fn read<T: JsonSchema>(&mut self) -> Value {
        self.read.subschema_for::<T>().to_value()
    }

    fn written<T: JsonSchema>(&mut self) -> Content {
        Content::Json(self.written.subschema_for::<T>().to_value())
    }

    fn all(mut self) -> Map<String, Value> {
        let mut all = self.written.take_definitions(true);
        for (name, schema) in self.read.take_definitions(true) {
            // What is both read and written has the same schema, or a name of its own.
            let known = all.insert(name.clone(), schema.clone());
            assert!(known.is_none_or(|known| known == schema), "two schemas of one name: {name}");
        }
        all
    }
}

/// The server about itself, and its page.
fn of_the_server(schemas: &mut Schemas) -> Vec<Address> {
    let get = Address::get;
    vec![
        get("/", "page", "The page of the browser", Content::Other("text/html")),
        get("/page.css", "page_css", "Its style", Content::Other("text/css")),
        get("/page.js", "page_js", "Its script", Content::Other("text/javascript")),
        get("/healthz", "healthz", "The server lives", Content::Other("text/plain")),
        get("/readyz", "readyz", "It takes commits; else 503", Content::Other("text/plain")),
        get("/metrics", "metrics", "Figures for Prometheus", Content::Other("text/plain")),
        get("/openapi.json", "openapi", "This description", Content::Json(json!({"type": "object"}))),
        get("/stats", "stats", "Counts of the server", schemas.written::<Stats>()),
        get(
            "/watch",
            "watch",
            "Every commit once, in the order of the log, as server-sent events: `commit` (CommitAnswer), \
             `position` ({\"seq\"}) and `reset` ({\"reason\", \"token\", \"detail\"}), with the token as id",
            Content::Other("text/event-stream"),
        )
        .query(&["tree", "after", "heartbeat_s"])
        .headers(&["Last-Event-ID"])
        .problems(&[404]),
        get(
            "/backup",
            "backup",
            "A snapshot of a version, as it lies on a disk; the blobs that it names are read by themselves",
            Content::Other("application/octet-stream"),
        )
        .query(&["at"])
        .problems(&[404, 410]),
        get("/blobs", "blobs", "All blobs that a version names", schemas.written::<BlobList>())
            .query(&["at"])
            .problems(&[404, 410]),
        get(
            "/blobs/{sha256}",
            "any_blob",
            "A blob by its hash",
            Content::Other("application/octet-stream"),
        )
        .headers(&["Range", "If-Range"])
        .problems(&[206, 410, 416]),
        Address::edit(("post", "/snapshot"), "snapshot", "Takes a snapshot", schemas.written::<SeqAnswer>())
            .headers(&[]),
    ]
}

/// Problems of a commit that is taken back or picked: 410 if its version is not kept, 412 if others change the tree
/// without a pause.
const OF_THE_PAST: &[u16] = &[404, 409, 410, 412];

/// Commits, and versions that are held.
fn of_commits(schemas: &mut Schemas) -> Vec<Address> {
    let seq = |schemas: &mut Schemas| schemas.written::<SeqAnswer>();
    let committed = |schemas: &mut Schemas| schemas.written::<CommittedAnswer>();
    vec![
        Address::edit(
            ("post", "/transactions"),
            "transaction",
            "Operations that take effect together or not at all",
            committed(schemas),
        )
        .body(schemas.read::<TransactionRequest>())
        .problems(&[404, 409, 412, 422]),
        Address::get(
            "/commits",
            "commits",
            "Commits, newest first",
            schemas.written::<Vec<CommitView>>(),
        )
        .query(&["limit", "before"]),
        Address::get("/commits/{seq}", "commit", "A commit", schemas.written::<CommitAnswer>())
            .problems(&[404]),
        Address::edit(
            ("post", "/commits/{seq}/revert"),
            "revert",
            "Takes back a commit",
            committed(schemas),
        )
        .problems(OF_THE_PAST),
        Address::edit(
            ("post", "/commits/{seq}/pick"),
            "pick",
            "Does what a commit did to one tree in another",
            committed(schemas),
        )
        .body(schemas.read::<Pick>())
        .problems(OF_THE_PAST),
        Address::edit(
            ("put", "/holds/{name}"),
            "hold",
            "Keeps a version under a name, until the server ends, or for a time (`lease_s`, at most a day) that begins anew \
             with each request",
            seq(schemas),
        )
        .headers(&[])
        .body(schemas.read::<Hold>())
        .problems(&[410]),
        Address::edit(("delete", "/holds/{name}"), "let_go", "Lets go of it", Content::Nothing)
            .headers(&[])
            .status(204)
            .problems(&[404]),
    ]
}

/// An edit that may name the marks of what its caller has seen.
fn guarded(
    schemas: &mut Schemas,
    method: &'static str,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
) -> Address {
    let answer = schemas.written::<CommittedAnswer>();
    let headers = &["Jungle-Author", "Jungle-Message", "If-Match", "Idempotency-Key"];
    Address::edit((method, path), id, summary, answer).headers(headers)
}

fn of_trees(schemas: &mut Schemas) -> Vec<Address> {
    let committed = |schemas: &mut Schemas| schemas.written::<CommittedAnswer>();
    let tree = "/trees/{tree}";
    vec![
        Address::get("/trees", "trees", "All trees", schemas.written::<Trees>())
            .query(&["at"])
            .problems(&[404, 410]),
        Address::get(tree, "tree", "A tree", schemas.written::<TreeView>())
            .query(&["at"])
            .problems(&[404, 410]),
        Address::edit(("put", tree), "create_tree", "Creates a tree", committed(schemas))
            .body_or_none(schemas.read::<Create>())
            .status(201)
            .problems(&[409]),
        guarded(schemas, "delete", tree, "drop_tree", "Drops a tree").problems(&[404, 412]),
        guarded(schemas, "post", "/trees/{tree}/rename", "rename_tree", "Renames a tree")
            .body(schemas.read::<Name>())
            .problems(&[404, 409, 412]),
        guarded(schemas, "post", "/trees/{tree}/branch", "branch", "Makes a branch")
            .body(schemas.read::<Name>())
            .status(201)
            .problems(&[404, 409, 412, 422]),
        guarded(
            schemas,
            "post",
            "/trees/{tree}/merge",
            "merge",
            "Merges a branch or an origin into a tree",
        )
        .body(schemas.read::<Merge>())
        .problems(&[404, 409, 412]),
        Address::get(
            "/trees/{tree}/find",
            "find",
            "Nodes with a value, or all of an index in its order",
            schemas.written::<FoundAnswer>(),
        )
        .query(&["at", "attribute", "value", "after", "limit"])
        .problems(&[404, 410, 422]),
        Address::get(
            "/trees/{tree}/diff",
            "diff",
            "Differences of two versions",
            schemas.written::<DiffAnswer>(),
        )
        .query(&["from", "to", "from_tree", "limit"])
        .problems(&[404, 410]),
    ]
}

fn of_attributes(schemas: &mut Schemas) -> Vec<Address> {
    vec![
        guarded(
            schemas,
            "put",
            "/trees/{tree}/indexes/{attribute}",
            "make_index",
            "Makes an index",
        )
        .status(201)
        .problems(&[404, 409, 412]),
        guarded(
            schemas,
            "delete",
            "/trees/{tree}/indexes/{attribute}",
            "drop_index",
            "Drops an index",
        )
        .problems(&[404, 412]),
        guarded(
            schemas,
            "put",
            "/trees/{tree}/rules/{attribute}",
            "set_rule",
            "Sets the rule of an attribute",
        )
        .body(schemas.read::<SetRule>())
        .problems(&[404, 412]),
    ]
}

fn of_nodes(schemas: &mut Schemas) -> Vec<Address> {
    let node = "/trees/{tree}/nodes/{node}";
    let Content::Json(view) = schemas.written::<NodeAnswer>() else { unreachable!("it is JSON") };
    let Content::Json(export) = schemas.written::<ExportAnswer>() else { unreachable!("the same") };
    // With `as=json` the answer is the document itself.
    let read = Content::Json(json!({"anyOf": [view, export, {}]}));
    let mut patch = guarded(
        schemas,
        "patch",
        node,
        "patch",
        "Sets attributes, or patches the document that the node is made of",
    )
    .body(schemas.read::<Put>())
    .problems(&[404, 409, 412, 415, 422]);
    patch.bodies.push(("application/json-patch+json", json!({"type": "array"})));
    patch.bodies.push(("application/merge-patch+json", json!({})));
    vec![
        Address::get(node, "node", "A node with those below it, or a document", read)
            .query(&["at", "depth", "limit", "offset", "pointer", "as"])
            .headers(&["If-None-Match"])
            .problems(&[304, 404, 410, 422]),
        Address::get(
            "/trees/{tree}/nodes/{node}/query",
            "query",
            "Values of the document that the node is made of, by JSONPath",
            schemas.written::<QueryAnswer>(),
        )
        .query(&["at", "path", "order", "descending", "after", "limit"])
        .problems(&[404, 410, 422]),
        patch,
        guarded(schemas, "delete", node, "remove", "Deletes a node with all below it")
            .problems(&[404, 412, 422]),
        guarded(
            schemas,
            "post",
            "/trees/{tree}/nodes/{node}/children",
            "insert",
            "Makes a child, or a document",
        )
        .body(schemas.read::<Insert>())
        .status(201)
        .problems(&[404, 412, 422]),
        guarded(
            schemas,
            "post",
            "/trees/{tree}/nodes/{node}/move",
            "move",
            "Moves a node with all below it",
        )
        .body(schemas.read::<Move>())
        .problems(&[404, 412, 422]),
    ]
}

/// Blobs beside nodes.
fn of_blobs(schemas: &mut Schemas) -> Vec<Address> {
    let blob = "/trees/{tree}/nodes/{node}/blobs/{blob}";
    let mut put =
        guarded(schemas, "put", blob, "put_blob", "Stores bytes of any length beside a node")
            .headers(&["Jungle-Author", "Jungle-Message", "If-Match"])
            .problems(&[404, 412]);
    put.bodies = vec![("application/octet-stream", json!({}))];
    put.is_body_needed = true;
    vec![
        Address::get(
            blob,
            "blob",
            "The bytes of a blob. They are whole if there are as many as `Content-Length` says; `ETag` is their SHA-256",
            Content::Other("application/octet-stream"),
        )
        .query(&["at"])
        .headers(&["If-None-Match", "Range", "If-Range"])
        .problems(&[206, 304, 404, 410, 416]),
        put,
        guarded(schemas, "delete", blob, "remove_blob", "Takes a blob from a node")
            .problems(&[404, 412]),
    ]
}

fn of_the_past(schemas: &mut Schemas) -> Vec<Address> {
    vec![
        Address::edit(
            ("post", "/trees/{tree}/nodes/{node}/restore"),
            "restore",
            "Makes a node and all below it as they were",
            schemas.written::<CommittedAnswer>(),
        )
        .body(schemas.read::<At>())
        .problems(&[404, 410, 412]),
        Address::get(
            "/trees/{tree}/nodes/{node}/log",
            "log",
            "Commits that changed a node or one below it",
            schemas.written::<LogAnswer>(),
        )
        .query(&["at", "limit", "before"])
        .problems(&[404, 410]),
        Address::get(
            "/trees/{tree}/nodes/{node}/blame",
            "blame",
            "The commits that answer for a node as it is",
            schemas.written::<BlameAnswer>(),
        )
        .query(&["at"])
        .problems(&[404, 410, 422]),
    ]
}

/// The parts of a path that vary.
const PATH: [(&str, &str); 7] = [
    ("attribute", "The name of an attribute"),
    ("blob", "The name of a blob of the node, of 1 to 249 bytes"),
    ("sha256", "The SHA-256 of a blob, 64 hexadecimal digits"),
    ("name", "A name that is free"),
    ("node", "An id (`17.0`), a path (`-1,0,2`) or `root`"),
    ("seq", "The number of a commit"),
    ("tree", "The name of a tree, percent-encoded"),
];

fn components(schemas: Schemas, problem: &Value) -> Value {
    let mut parameters = Map::new();
    for (name, text) in PATH {
        let one = json!({"name": name, "in": "path", "required": true, "description": text, "schema": {"type": "string"}});
        parameters.insert(format!("path.{name}"), one);
    }
    for (name, kind, text) in QUERY {
        let one =
            json!({"name": name, "in": "query", "description": text, "schema": {"type": kind}});
        parameters.insert(format!("query.{name}"), one);
    }
    for (name, text) in HEADERS {
        let one = json!({"name": name, "in": "header", "description": text, "schema": {"type": "string"}});
        parameters.insert(format!("header.{name}"), one);
    }
    json!({
        "schemas": schemas.all(),
        "parameters": parameters,
        "headers": {"Jungle-Token": {
            "description": "The position in the log: GENERATION.COMMIT",
            "required": true,
            "schema": {"type": "string", "pattern": "^[0-9]+\\.[0-9]+$"},
        }},
        "responses": {"Problem": {
            "description": "A problem (RFC 9457) with cause and way out. Every address has 400 (not understood), 401 and \
                            403 (not allowed), 408 (the body came too slowly), 409 (the token is of another log), 413 \
                            (too large), 421 (another host is meant), 422 (not possible, or a key of another request), 429 (too much at once), 500 (nobody knows whether \
                            it was committed), 503 (busy), 507 (no room)",
            "headers": {"Jungle-Token": {"$ref": "#/components/headers/Jungle-Token"}},
            "content": {"application/problem+json": {"schema": problem}},
        }},
        "securitySchemes": {"access_token": {"type": "http", "scheme": "bearer"}},
    })
}

/// The description of the server in OpenAPI 3.1.
pub fn openapi() -> Value {
    let mut schemas = Schemas::new();
    let Content::Json(problem) = schemas.written::<Problem>() else { unreachable!("it is JSON") };
    let mut addresses = of_the_server(&mut schemas);
    addresses.extend(of_commits(&mut schemas));
    addresses.extend(of_trees(&mut schemas));
    addresses.extend(of_attributes(&mut schemas));
    addresses.extend(of_nodes(&mut schemas));
    addresses.extend(of_blobs(&mut schemas));
    addresses.extend(of_the_past(&mut schemas));
    let mut paths = Map::new();
    for address in addresses {
        let (path, method) = (address.path, address.method);
        let methods = paths.entry(path).or_insert_with(|| json!({}));
        methods[method] = address.described();
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Jungle",
            "description": "A non-destructive tree database. docs/jungle.md explains it.",
            "version": "1",
        },
        // A server without users asks for no access token.
        "security": [{"access_token": []}, {}],
        "paths": paths,
        "components": components(schemas, &problem),
    })
}

/// The same as it is served.
pub(crate) fn served() -> Bytes {
    static TEXT: OnceLock<Bytes> = OnceLock::new();
    TEXT.get_or_init(|| (openapi().to_string() + "\n").into()).clone()
}
