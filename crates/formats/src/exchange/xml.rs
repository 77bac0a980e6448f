//! The little of XML that the formats use, each complaint with the line of the element.

use roxmltree::{Document, Node, ParsingOptions};

use super::file::{self, suggest};
use crate::ReadError;

/// No model that a formula can solve has more elements; what has more is refused before it is built.
const NODES_MAX: u32 = 1_000_000;

/// An XML document with the name of its file.
pub(super) struct Xml<'a> {
    pub(super) file: &'a str,
    pub(super) document: Document<'a>,
}

pub(super) type Element<'a> = Node<'a, 'a>;

impl<'a> Xml<'a> {
    pub(super) fn parse(file: &'a str, text: &'a str) -> Result<Xml<'a>, ReadError> {
        let options = ParsingOptions { nodes_limit: NODES_MAX, ..ParsingOptions::default() };
        match Document::parse_with_options(text, options) {
            Ok(document) => Ok(Xml { file, document }),
            Err(error) => Err(ReadError::at(file, error.pos().row, format!("no XML: {error}"))),
        }
    }

    pub(super) fn root(&'a self, wanted: &str) -> Result<Element<'a>, ReadError> {
        let root = self.document.root_element();
        if root.tag_name().name() == wanted {
            return Ok(root);
        }
        let found = root.tag_name().name();
        Err(self.error(root, format!("the file begins with <{found}>, not with <{wanted}>")))
    }

    pub(super) fn line(&self, element: Element<'_>) -> u32 {
        self.document.text_pos_at(element.range().start).row
    }

    pub(super) fn error(&self, element: Element<'_>, cause: impl std::fmt::Display) -> ReadError {
        ReadError::at(self.file, self.line(element), cause)
    }

    /// The elements inside, all of which must be known.
    pub(super) fn inside(
        &self,
        element: Element<'a>,
        known: &[&str],
    ) -> Result<Vec<Element<'a>>, ReadError> {
        let children: Vec<Element<'a>> = element.children().filter(Node::is_element).collect();
        for child in &children {
            let name = child.tag_name().name();
            if !known.contains(&name) {
                let way_out = suggest(name, known.iter().copied());
                let within = element.tag_name().name();
                let cause = format!("<{name}> in <{within}> is not supported; {way_out}");
                return Err(self.error(*child, cause));
            }
        }
        Ok(children)
    }

    /// All attributes must be known: one that is not may change what the element means.
    pub(super) fn only(&self, element: Element<'a>, known: &[&str]) -> Result<(), ReadError> {
        let Some(foreign) = element.attributes().find(|one| !known.contains(&one.name())) else {
            return Ok(());
        };
        let name = foreign.name();
        let way_out = suggest(name, known.iter().copied());
        let within = element.tag_name().name();
        Err(self.error(element, format!("`{name}` of <{within}> is not supported; {way_out}")))
    }

    pub(super) fn attribute(&self, element: Element<'a>, name: &str) -> Result<&'a str, ReadError> {
        element.attribute(name).ok_or_else(|| {
            let within = element.tag_name().name();
            self.error(element, format!("<{within}> has no `{name}`; add it"))
        })
    }

    /// A name that stands for a part of the model.
    pub(super) fn name(&self, element: Element<'a>) -> Result<&'a str, ReadError> {
        let name = self.attribute(element, "name")?;
        if name.trim().is_empty() {
            return Err(self.error(element, "its name is empty; give it one"));
        }
        Ok(name)
    }

    pub(super) fn number(&self, element: Element<'a>, text: &str) -> Result<f64, ReadError> {
        file::number(text).map_err(|cause| self.error(element, cause))
    }

    pub(super) fn count(&self, element: Element<'a>, text: &str) -> Result<u32, ReadError> {
        file::count(text).map_err(|cause| self.error(element, cause))
    }

    /// A number attribute that may be left out.
    pub(super) fn number_or(
        &self,
        element: Element<'a>,
        name: &str,
        default: f64,
    ) -> Result<f64, ReadError> {
        match element.attribute(name) {
            Some(text) => file::number(text)
                .map_err(|cause| self.error(element, format!("`{name}`: {cause}"))),
            None => Ok(default),
        }
    }

    /// A count that may be left out.
    pub(super) fn count_or_one(&self, element: Element<'a>, name: &str) -> Result<u32, ReadError> {
        match element.attribute(name) {
            Some(text) => {
                file::count(text).map_err(|cause| self.error(element, format!("`{name}`: {cause}")))
            }
            None => Ok(1),
        }
    }
}

/// A text as an attribute or as content.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' | '\r' => escaped.push_str(&format!("&#{};", u32::from(c))),
            // XML 1.0 has no other control characters, however written.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
