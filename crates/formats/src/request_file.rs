//! Requests that a load is made of, from a file: TOML with a `[[request]]` each, or targets as vegeta
//! reads them.

use std::collections::BTreeMap;
use std::path::Path;

use advise::Bytes;
use serde::Deserialize;

use crate::scenario_file::{explain, line_at};
use crate::{ReadError, bounded};

/// No file of requests is larger.
const FILE_MIB: u64 = 64;
/// The largest body that a file may hold.
const BODY_MIB: u64 = 16;

/// A request as it stands in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct FiledRequest {
    /// The line on which it begins.
    pub line: usize,
    /// The name that it is counted under; none: its method and path.
    pub name: Option<String>,
    /// Its method.
    pub method: String,
    /// Its path, or the whole URL.
    pub place: String,
    /// Its header fields.
    pub headers: Vec<(String, String)>,
    /// Its body; empty: none.
    pub body: Vec<u8>,
    /// How often it is made, relative to the others.
    pub weight: u32,
    /// The size of the body that answers it \[bytes\].
    pub bytes: Option<u64>,
}

/// Requests that a load is made of: `measure http --targets FILE`.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Requests"))]
#[serde(deny_unknown_fields)]
struct File {
    /// A request each.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Entry>", length(min = 1)))]
    request: Vec<toml::Spanned<Entry>>,
}

/// A request.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Request", transform = rules))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Entry {
    /// The name that it is counted under; left out, its method and path.
    name: Option<String>,
    /// Its method; left out, GET.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "GET")))]
    method: Option<String>,
    /// Its path at the server of the URL, with the query.
    path: Option<String>,
    /// The whole URL, instead of a path.
    url: Option<String>,
    /// Its header fields.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
    /// Its body, as a text; left out, none.
    body: Option<String>,
    /// The file of its body, beside this one; at most 16 MiB.
    body_file: Option<String>,
    /// Its frequency, relative to the others; left out, 1.
    #[cfg_attr(feature = "schema", schemars(extend("default" = 1)))]
    weight: Option<u32>,
    /// The size of the body that answers it, so that `fit` need not learn it.
    size: Option<Bytes>,
}

/// Rules that its types do not say, for the schema.
#[cfg(feature = "schema")]
fn rules(schema: &mut schemars::Schema) {
    advise::schema::exactly_one(schema, &["path", "url"]);
    advise::schema::not_both(schema, "body", "body-file");
}

/// The JSON Schema of a file of requests.
#[cfg(feature = "schema")]
pub fn schema(generator: schemars::SchemaGenerator) -> schemars::Schema {
    generator.into_root_schema_for::<File>()
}

/// Reads a file of requests. One whose first line with text begins with a method and a URL is in vegeta's
/// format, `GET http://host/path`, with header lines and `@FILE` for a body below; any other is TOML. Files
/// of bodies lie beside it.
///
/// # Errors
/// If a file cannot be read, or a request in it: its place, the cause and the way out.
pub fn read_requests(path: &Path) -> Result<Vec<FiledRequest>, ReadError> {
    let text = bounded::text(path, FILE_MIB).map_err(|error| {
        ReadError::whole(format!("cannot read the requests {}: {error}", path.display()))
    })?;
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let requests = match first {
        Some(line) if is_target(line) => targets(path, &text)?,
        _ => entries(path, &text)?,
    };
    if requests.is_empty() {
        let cause = format!("{}: there is no request in it; write [[request]]", path.display());
        return Err(ReadError::whole(cause));
    }
    Ok(requests)
}

fn is_target(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let is_method = words.next().is_some_and(|word| word.chars().all(|c| c.is_ascii_uppercase()));
    is_method && words.next().is_some_and(|word| word.contains("://") || word.starts_with('/'))
}

fn entries(path: &Path, text: &str) -> Result<Vec<FiledRequest>, ReadError> {
    let name = path.display().to_string();
    let file: File =
        toml::from_str(text).map_err(|error| ReadError::whole(explain(&name, text, &error)))?;
    let mut requests = Vec::new();
    for entry in file.request {
        let line = line_at(text, entry.span());
        let wrong = |cause: &str| ReadError::at(&name, line, cause);
        let entry = entry.into_inner();
        let place = match (entry.path, entry.url) {
            (Some(place), None) | (None, Some(place)) => place,
            (Some(_), Some(_)) => return Err(wrong("it has both `path` and `url`; keep one")),
            (None, None) => return Err(wrong("it has no `path`; write path = \"/orders\"")),
        };
        let body = match (entry.body, entry.body_file) {
            (Some(_), Some(_)) => {
                return Err(wrong("it has both `body` and `body-file`; keep one"));
            }
            (Some(body), None) => body.into_bytes(),
            (None, Some(file)) => body_of(path, &file).map_err(|cause| wrong(&cause))?,
            (None, None) => Vec::new(),
        };
        requests.push(FiledRequest {
            line,
            name: entry.name,
            method: entry.method.unwrap_or_else(|| "GET".into()),
            place,
            headers: entry.headers.into_iter().collect(),
            body,
            weight: entry.weight.unwrap_or(1),
            bytes: entry.size.map(|Bytes(bytes)| bytes),
        });
    }
    Ok(requests)
}

fn targets(path: &Path, text: &str) -> Result<Vec<FiledRequest>, ReadError> {
    let name = path.display().to_string();
    let mut requests: Vec<FiledRequest> = Vec::new();
    for (nth, line) in text.lines().enumerate() {
        let (line, nth) = (line.trim(), nth + 1);
        let wrong = |cause: &str| ReadError::at(&name, nth, cause);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if is_target(line) {
            let mut words = line.split_whitespace();
            let (method, place) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            if words.next().is_some() {
                return Err(wrong("something follows the URL; write `GET http://host/path`"));
            }
            requests.push(FiledRequest {
                line: nth,
                name: None,
                method: method.to_owned(),
                place: place.to_owned(),
                headers: Vec::new(),
                body: Vec::new(),
                weight: 1,
                bytes: None,
            });
            continue;
        }
        let Some(request) = requests.last_mut() else {
            return Err(wrong("nothing stands before it; write `GET http://host/path`"));
        };
        if let Some(file) = line.strip_prefix('@') {
            request.body = body_of(path, file).map_err(|cause| wrong(&cause))?;
        } else if let Some((name, value)) = line.split_once(':') {
            request.headers.push((name.trim().to_owned(), value.trim().to_owned()));
        } else {
            return Err(wrong(
                "it is no target (`GET http://host/path`), no header (`Name: value`) and no body \
                 (`@FILE`)",
            ));
        }
    }
    Ok(requests)
}

/// A body that lies beside the file that names it.
fn body_of(path: &Path, file: &str) -> Result<Vec<u8>, String> {
    let beside = path.parent().unwrap_or(Path::new("")).join(file);
    read_body(&beside)
}

/// Reads a body from a file of at most 16 MiB.
///
/// # Errors
/// If it cannot be read, or is larger: the cause.
pub fn read_body(path: &Path) -> Result<Vec<u8>, String> {
    bounded::open(path, BODY_MIB)
        .and_then(bounded::Bounded::whole)
        .map_err(|error| format!("cannot read the body {}: {error}", path.display()))
}
