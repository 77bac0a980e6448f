//! Requests that a run makes: what is sent, how often, and under which name it is counted.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use workload::DocumentSet;

use super::target::Target;

/// Method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET.
    Get,
    /// HEAD.
    Head,
    /// POST.
    Post,
    /// PUT.
    Put,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
}

impl Method {
    /// Every method.
    pub const ALL: [Method; 6] =
        [Method::Get, Method::Head, Method::Post, Method::Put, Method::Patch, Method::Delete];

    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
        }
    }

    /// True if a request changes nothing at the server (RFC 9110, section 9.2.1).
    pub fn is_safe(self) -> bool {
        matches!(self, Method::Get | Method::Head)
    }

    /// True if a request sent twice has the effect of one (RFC 9110, section 9.2.2).
    pub fn is_idempotent(self) -> bool {
        !matches!(self, Method::Post | Method::Patch)
    }

    /// True if a request says the length of its body even if it has none (RFC 9110, section 8.6).
    pub(crate) fn has_length(self) -> bool {
        matches!(self, Method::Post | Method::Put | Method::Patch)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Method, String> {
        let named = Method::ALL.into_iter().find(|one| one.name().eq_ignore_ascii_case(text));
        named.ok_or_else(|| {
            let known = Method::ALL.map(Method::name).join(", ");
            format!("`{text}` is no method that is sent: {known}")
        })
    }
}

/// One request of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The class that it is counted in; requests of one name are one class.
    pub class: String,
    /// Its method.
    pub method: Method,
    /// Its path with the query, beginning with a slash.
    pub path: String,
    /// Header fields of its own: names and values. They replace the plan's of the same name.
    pub headers: Vec<(String, String)>,
    /// Its body \[at most 16 MiB\]; empty: none.
    pub body: Arc<[u8]>,
    /// How often it is made, relative to the others; at least 1.
    pub weight: u32,
    /// The size of the body that answers it \[bytes\], where it is known and always the same.
    pub bytes: Option<u64>,
}

impl Request {
    /// GET, without a body, of weight 1 and unknown size, counted under its path.
    pub fn get(path: &str) -> Request {
        Request::new(Method::Get, path)
    }

    /// Without a body, of weight 1 and unknown size; counted under its path, and its method where that is
    /// not GET.
    pub fn new(method: Method, path: &str) -> Request {
        let class = match method {
            Method::Get => path.to_owned(),
            other => format!("{other} {path}"),
        };
        Request {
            class,
            method,
            path: path.to_owned(),
            headers: Vec::new(),
            body: Arc::from([]),
            weight: 1,
            bytes: None,
        }
    }

    /// A GET for each document of a set: its path is the target's, a slash, and its name.
    pub fn documents(target: &Target, set: &DocumentSet) -> Vec<Request> {
        let documents = set.documents().iter();
        let request = |document: &workload::Document| Request {
            class: document.name.clone(),
            weight: document.weight,
            bytes: Some(document.bytes),
            ..Request::get(&target.path_below(&document.name))
        };
        documents.map(request).collect()
    }
}
