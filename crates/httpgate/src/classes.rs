//! Classes of requests: which one a head belongs to, by its method, path and fields.

use std::time::Duration;

use super::message::Request;

/// A class of requests. All of its tests must hold; one without tests holds every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name in metrics, logs and policies.
    pub name: String,
    /// Test of the path, as it was sent and without the query.
    pub path: Option<Text>,
    /// Methods, one of which must be that of the request; empty for any.
    pub methods: Vec<String>,
    /// Fields that must be there.
    pub fields: Vec<Field>,
    /// Its importance; under strict priority the larger number goes first.
    pub priority: u8,
    /// Service that its requests need, in a unit of one's own that is the same for all classes; 0
    /// if nobody knows.
    pub size: u64,
    /// The longest wait of its requests, if that is shorter than the gate's.
    pub wait_max: Option<Duration>,
}

/// Test of a field of a request's head: a line of it must fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, in letters of either case.
    pub name: String,
    /// Test of its value, without spaces around.
    pub value: Text,
}

/// Test of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// It must be this one.
    Is(String),
    /// It must begin so.
    Begins(String),
}

impl Text {
    /// The test as files write it: a `*` at the end stands for all that begin so.
    pub fn parse(text: &str) -> Text {
        match text.strip_suffix('*') {
            Some(beginning) => Text::Begins(beginning.to_owned()),
            None => Text::Is(text.to_owned()),
        }
    }

    /// True if the parts of a text, one after the other, fit.
    fn fits(&self, parts: [&[u8]; 2]) -> bool {
        let [lead, rest] = parts;
        let wanted = match self {
            Text::Is(wanted) | Text::Begins(wanted) => wanted.as_bytes(),
        };
        let Some(left) = wanted.strip_prefix(lead) else {
            // All that is wanted may be within the first part.
            return matches!(self, Text::Begins(_)) && lead.starts_with(wanted);
        };
        match self {
            Text::Is(_) => rest == left,
            Text::Begins(_) => rest.starts_with(left),
        }
    }
}

impl Class {
    /// A class of the lowest priority, without a size, of the requests whose paths begin so: it has the
    /// name of that prefix.
    pub fn new(prefix: impl Into<String>) -> Class {
        let name = prefix.into();
        Class {
            path: Some(Text::Begins(name.clone())),
            name,
            methods: Vec::new(),
            fields: Vec::new(),
            priority: 0,
            size: 0,
            wait_max: None,
        }
    }

    /// True if it holds a request.
    pub(crate) fn holds(&self, request: &Request<'_, '_>) -> bool {
        let method = || {
            self.methods.is_empty() || self.methods.iter().any(|method| method == request.method)
        };
        let path = || {
            let [lead, rest] = path_of(request).map(str::as_bytes);
            self.path.as_ref().is_none_or(|path| path.fits([lead, rest]))
        };
        let fields = || {
            self.fields.iter().all(|wanted| {
                let named =
                    |field: &&httparse::Header<'_>| field.name.eq_ignore_ascii_case(&wanted.name);
                let mut lines = request.fields.iter().filter(named);
                lines.any(|line| wanted.value.fits([b"", line.value.trim_ascii()]))
            })
        };
        method() && path() && fields()
    }
}

/// The path of a request's target in two parts.
pub(crate) fn path_of<'b>(request: &Request<'b, '_>) -> [&'b str; 2] {
    let target = request.target;
    match target.rest.split_once('?') {
        Some((path, _)) => [target.lead, path],
        None => [target.lead, target.rest],
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::room;
    use super::*;

    fn holds(class: &Class, head: &str) -> bool {
        let mut room = room();
        class.holds(&Request::parse(head.as_bytes(), &mut room).unwrap())
    }

    fn get(path: &str, fields: &str) -> String {
        format!("GET {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n")
    }

    #[test]
    fn a_path_is_compared_without_its_query_whole_or_by_its_beginning() {
        let class = |path: &str| Class { path: Some(Text::parse(path)), ..Class::new("c") };
        assert!(holds(&class("/pay/*"), &get("/pay/1?x=/", "")));
        assert!(!holds(&class("/pay/*"), &get("/?x=/pay/", "")));
        assert!(!holds(&class("/pay/*"), &get("/pay", "")));
        assert!(holds(&class("/pay"), &get("/pay?again", "")));
        assert!(!holds(&class("/pay"), &get("/pay/1", "")));
        assert!(holds(&class("*"), &get("/", "")));
        // An absolute target without a path is for the path `/`.
        assert!(holds(&class("/"), &get("http://h", "")));
        assert!(holds(&class("/*"), &get("http://h?x", "")));
        assert!(!holds(&class("/x"), &get("http://h", "")));
    }

    #[test]
    fn all_tests_must_hold_and_a_line_of_a_field_is_enough() {
        let field =
            |name: &str, value: &str| Field { name: name.into(), value: Text::parse(value) };
        let class = Class {
            path: None,
            methods: vec!["GET".into()],
            fields: vec![field("x-plan", "gold*"), field("X-Here", "*")],
            ..Class::new("c")
        };
        assert!(holds(&class, &get("/", "X-Plan:  golden \r\nx-here:\r\n")));
        assert!(holds(&class, &get("/", "X-Plan: tin\r\nX-PLAN: gold\r\nx-here: 1\r\n")));
        assert!(!holds(&class, &get("/", "X-Plan: gold\r\n")), "a field lacks");
        assert!(!holds(&class, &get("/", "X-Plan: tin\r\nX-Here: 1\r\n")));
        let post = get("/", "X-Plan: gold\r\nX-Here: 1\r\n").replace("GET", "DELETE");
        assert!(!holds(&class, &post), "another method");
        let exact = Class { fields: vec![field("x-plan", "gold")], ..class };
        assert!(!holds(&exact, &get("/", "X-Plan: golden\r\n")));
    }
}
