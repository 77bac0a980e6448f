//! Documents are what users have: JSON goes into a tree and comes out as it was, and its patches become edits, so
//! that each value keeps its node, its id and its history.
//!
//! The rule, both ways:
//!
//! - An object is a node. A member with a scalar value is an attribute of it, whose value is the scalar as JSON text.
//!   A member that is an object or an array is a child, with the attribute `$key`.
//! - An array is a node whose children are its elements. A scalar element is a child whose attribute `$` is JSON text.
//! - The attribute `$` is `{}` for an object and `[]` for an array.
//! - The name of a member that is empty or begins with `$` is an attribute's name behind `$.`.
//!
//! The deadline of a node (`$expires`) is no part of its document, and stays when the value is another. So are its
//! blobs: [`to_json_with_blobs`] names them by the pointers of their nodes.
//!
//! The order of members is not kept, as in JSON it means nothing. Numbers keep their text up to what
//! [`serde_json::Number`] holds.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};

use crate::attributes::{Attributes, NAME_MAX};
use crate::blob::{BLOB, BlobRef, named};
use crate::editor::Editor;
use crate::expiry::EXPIRES;
use crate::node::{Node, NodeId};
use crate::tree::{EditError, Tree};

const KIND: &str = "$";
const KEY: &str = "$key";
const ESCAPE: &str = "$.";
const OBJECT: &[u8] = b"{}";
const ARRAY: &[u8] = b"[]";
/// The deepest document: what JSON parsers take.
const DEPTH_MAX: usize = 128;

/// Why a node and JSON do not go together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// The node was not made of JSON.
    #[error("node {node} is no JSON: attribute `{name}` is not what the mapping makes of a value")]
    NotJson {
        /// The node.
        node: NodeId,
        /// The attribute.
        name: String,
    },
    /// A blob beside the node, which JSON does not take.
    #[error(
        "node {node} has blob `{name}`, which JSON has no place for; read the document with `as=export`, which names its blobs, or by `sekisho jungle export`"
    )]
    Blob {
        /// The node.
        node: NodeId,
        /// The name of the blob.
        name: String,
    },
    /// A merge has brought two members of one name.
    #[error(
        "node {node} has member `{name}` twice, as merges of two branches may bring; remove one"
    )]
    Twice {
        /// The node.
        node: NodeId,
        /// The member.
        name: String,
    },
    /// The document is too deep.
    #[error("node {0} lies deeper than {DEPTH_MAX} levels, which JSON parsers do not take")]
    Deep(NodeId),
    /// A name too long for an attribute.
    #[error("member `{0}...` has too long a name; with its escape it has at most {NAME_MAX} bytes")]
    Name(String),
    /// Text that is no JSON Pointer.
    #[error(
        "`{0}` is no JSON Pointer; it is empty or begins with `/`, and `~` is written `~0`, `/` `~1`"
    )]
    Pointer(String),
    /// Nothing is at the pointer.
    #[error("nothing at `{0}`")]
    Nothing(String),
    /// An operation of a patch that is none, or cannot take effect.
    #[error("{0}")]
    Operation(String),
    /// The patch is not one of RFC 6902.
    #[error("operation {operation} of the patch: {cause}")]
    Patch {
        /// The number of the operation, from 0.
        operation: usize,
        /// The cause.
        cause: String,
    },
    /// An edit failed.
    #[error(transparent)]
    Edit(#[from] EditError),
}

/// A place in a document that a JSON Pointer names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pointed {
    /// A value that is a node: an object, an array or an element.
    Node(NodeId),
    /// A scalar member of an object.
    Member {
        /// The object.
        object: NodeId,
        /// The attribute that holds it.
        attribute: String,
    },
}

fn attribute_of(member: &str) -> Result<String, JsonError> {
    let escaped = if member.is_empty() || member.starts_with('$') {
        format!("{ESCAPE}{member}")
    } else {
        member.to_owned()
    };
    if escaped.len() > NAME_MAX {
        return Err(JsonError::Name(member.chars().take(40).collect()));
    }
    Ok(escaped)
}

fn member_of(attribute: &str) -> &str {
    attribute.strip_prefix(ESCAPE).unwrap_or(attribute)
}

fn is_scalar(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

fn scalar(node: &Node, name: &str, text: &[u8]) -> Result<Value, JsonError> {
    let value = serde_json::from_slice::<Value>(text).ok().filter(is_scalar);
    value.ok_or_else(|| JsonError::NotJson { node: node.id(), name: name.to_owned() })
}

/// The JSON value of a node.
///
/// # Errors
/// [`JsonError`], if the node was not made of JSON, or a merge brought a member twice.
pub fn to_json(node: &Node) -> Result<Value, JsonError> {
    let refuse = |_: &Tokens<'_>, node: &Node, name: &str, _| {
        Err(JsonError::Blob { node: node.id(), name: name.to_owned() })
    };
    value_of(node, &mut Vec::new(), &mut { refuse })
}

/// A blob beside a node of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentBlob {
    /// The JSON Pointer of the node in the document.
    pub at: String,
    /// The node.
    pub node: NodeId,
    /// The name of the blob.
    pub name: String,
    /// The blob.
    pub blob: BlobRef,
}

/// The JSON value of a node, and the blobs beside it and the nodes below it, in the order of these.
///
/// # Errors
/// [`JsonError`], as of [`to_json`], but for [`JsonError::Blob`].
pub fn to_json_with_blobs(node: &Node) -> Result<(Value, Vec<DocumentBlob>), JsonError> {
    let mut blobs = Vec::new();
    let mut keep = |tokens: &Tokens<'_>, node: &Node, name: &str, blob| {
        let at = pointer_of(tokens);
        blobs.push(DocumentBlob { at, node: node.id(), name: name.to_owned(), blob });
        Ok(())
    };
    let document = value_of(node, &mut Vec::new(), &mut keep)?;
    Ok((document, blobs))
}

/// The unescaped tokens of a pointer.
type Tokens<'a> = Vec<Cow<'a, str>>;

/// The pointer of tokens (RFC 6901).
fn pointer_of(tokens: &Tokens<'_>) -> String {
    tokens.iter().map(|one| format!("/{}", one.replace('~', "~0").replace('/', "~1"))).collect()
}

/// The value of a node; `beside` is told each blob, and where it lies.
fn value_of<'a>(
    node: &'a Node,
    tokens: &mut Tokens<'a>,
    beside: &mut impl FnMut(&Tokens<'_>, &Node, &str, BlobRef) -> Result<(), JsonError>,
) -> Result<Value, JsonError> {
    if tokens.len() > DEPTH_MAX {
        return Err(JsonError::Deep(node.id()));
    }
    for (name, blob) in node.blobs() {
        beside(tokens, node, name, blob)?;
    }
    match node.attribute(KIND) {
        Some(OBJECT) => {
            let mut object = Map::new();
            for (name, text) in node.attributes() {
                let is_member = name != KIND && name != KEY && name != EXPIRES;
                if is_member && named(name, text).is_none() {
                    object.insert(member_of(name).to_owned(), scalar(node, name, text)?);
                }
            }
            for child in node.children() {
                let key = child.attribute(KEY).and_then(|key| std::str::from_utf8(key).ok());
                let name =
                    key.ok_or(JsonError::NotJson { node: child.id(), name: KEY.to_owned() })?;
                tokens.push(name.into());
                let value = value_of(child, tokens, beside)?;
                tokens.pop();
                if object.insert(name.to_owned(), value).is_some() {
                    return Err(JsonError::Twice { node: node.id(), name: name.to_owned() });
                }
            }
            Ok(Value::Object(object))
        }
        Some(ARRAY) => {
            let mut elements = Vec::with_capacity(node.len());
            for (position, child) in node.children().enumerate() {
                tokens.push(position.to_string().into());
                elements.push(value_of(child, tokens, beside)?);
                tokens.pop();
            }
            Ok(Value::Array(elements))
        }
        Some(text) => scalar(node, KIND, text),
        None => Err(JsonError::NotJson { node: node.id(), name: KIND.to_owned() }),
    }
}

/// The attributes of the node of a value.
fn attributes(value: &Value, key: Option<&str>) -> Result<Attributes, JsonError> {
    let mut pairs: Vec<(String, Vec<u8>)> = Vec::new();
    let kind = match value {
        Value::Object(object) => {
            for (name, member) in object.iter().filter(|(_, member)| is_scalar(member)) {
                pairs.push((attribute_of(name)?, member.to_string().into_bytes()));
            }
            OBJECT.to_vec()
        }
        Value::Array(_) => ARRAY.to_vec(),
        scalar => scalar.to_string().into_bytes(),
    };
    pairs.push((KIND.to_owned(), kind));
    pairs.extend(key.map(|key| (KEY.to_owned(), key.as_bytes().to_vec())));
    Ok(Attributes::of(pairs.iter().map(|(name, value)| (&**name, &**value))))
}

/// What a pointer's last token names below a node.
enum Slot<'a> {
    /// A member of an object.
    Member(NodeId, &'a str),
    /// A position in an array, or its end.
    Element(NodeId, Option<usize>),
}

/// The unescaped tokens of a pointer (RFC 6901).
fn tokens(pointer: &str) -> Result<Vec<String>, JsonError> {
    let wrong = || JsonError::Pointer(pointer.to_owned());
    if pointer.is_empty() {
        return Ok(Vec::new());
    }
    let token = |token: &str| {
        let mut rest = token.split('~');
        let mut whole = rest.next().expect("a split has a first part").to_owned();
        for part in rest {
            let (first, part) = match part.split_at_checked(1).ok_or_else(wrong)? {
                ("0", part) => ('~', part),
                ("1", part) => ('/', part),
                _ => return Err(wrong()),
            };
            whole.push(first);
            whole.push_str(part);
        }
        Ok(whole)
    };
    pointer.strip_prefix('/').ok_or_else(wrong)?.split('/').map(token).collect()
}

/// A position as RFC 6901 writes it: without a sign and without zeros in front.
fn position(token: &str) -> Option<usize> {
    let is_plain = token == "0" || !token.starts_with('0') && !token.starts_with('+');
    token.parse().ok().filter(|_| is_plain)
}

fn child_of<'a>(object: &'a Node, name: &str) -> Option<&'a Node> {
    object.children().find(|child| child.attribute(KEY) == Some(name.as_bytes()))
}

/// The node or member at a pointer below a document.
///
/// # Errors
/// [`JsonError::Pointer`] and [`JsonError::Nothing`].
pub fn point(tree: &Tree, document: NodeId, pointer: &str) -> Result<Pointed, JsonError> {
    found(tree, document, &tokens(pointer)?).ok_or_else(|| JsonError::Nothing(pointer.to_owned()))
}

/// Many JSON Pointers below one document: [`point`] looks through the members of an object for each pointer anew, this
/// does so once.
#[derive(Debug)]
pub struct Pointers<'a> {
    document: &'a Node,
    /// The children of each object that a pointer led through, by their keys.
    members: BTreeMap<NodeId, BTreeMap<&'a [u8], &'a Node>>,
}

impl<'a> Pointers<'a> {
    /// Pointers below a document.
    pub fn new(document: &'a Node) -> Self {
        Self { document, members: BTreeMap::new() }
    }

    /// The node or member at a pointer, as [`point`] finds it.
    ///
    /// # Errors
    /// [`JsonError::Pointer`] and [`JsonError::Nothing`].
    pub fn point(&mut self, pointer: &str) -> Result<Pointed, JsonError> {
        let child_of = |object: &'a Node, name: &str| {
            let members = self.members.entry(object.id()).or_insert_with(|| {
                let mut members = BTreeMap::new();
                for child in object.children() {
                    if let Some(key) = child.attribute(KEY) {
                        // The first of two, as `child_of` finds it.
                        members.entry(key).or_insert(child);
                    }
                }
                members
            });
            members.get(name.as_bytes()).copied()
        };
        found_below(self.document, &tokens(pointer)?, child_of)
            .ok_or_else(|| JsonError::Nothing(pointer.to_owned()))
    }
}

fn found(tree: &Tree, document: NodeId, tokens: &[String]) -> Option<Pointed> {
    found_below(tree.node(document)?, tokens, child_of)
}

fn found_below<'a>(
    mut node: &'a Node,
    tokens: &[String],
    mut child_of: impl FnMut(&'a Node, &str) -> Option<&'a Node>,
) -> Option<Pointed> {
    for (index, token) in tokens.iter().enumerate() {
        node = match node.attribute(KIND)? {
            OBJECT => match child_of(node, token) {
                Some(child) => child,
                None if index + 1 == tokens.len() => {
                    let attribute = attribute_of(token).ok()?;
                    node.attribute(&attribute)?;
                    return Some(Pointed::Member { object: node.id(), attribute });
                }
                None => return None,
            },
            ARRAY => node.child(position(token)?)?,
            _ => return None,
        };
    }
    Some(Pointed::Node(node.id()))
}

/// The value at a pointer.
///
/// # Errors
/// [`JsonError`].
pub fn json_at(tree: &Tree, document: NodeId, pointer: &str) -> Result<Value, JsonError> {
    let none = || JsonError::Nothing(pointer.to_owned());
    match point(tree, document, pointer)? {
        Pointed::Node(id) => to_json(tree.node(id).ok_or_else(none)?),
        Pointed::Member { object, attribute } => {
            let object = tree.node(object).ok_or_else(none)?;
            scalar(object, &attribute, object.attribute(&attribute).ok_or_else(none)?)
        }
    }
}

impl Editor {
    /// Appends a document to the children of a node of an addressable tree. Its
    /// node is made before those of its parts.
    ///
    /// # Errors
    /// [`JsonError`].
    pub fn append_json(self, parent: NodeId, value: &Value) -> Result<Self, JsonError> {
        let position = self.tree().node(parent).ok_or(EditError::NoSuchNode(parent))?.len();
        self.insert_value(parent, position, value, None)
    }

    /// Makes a node, with its id, the node of a value.
    ///
    /// # Errors
    /// [`JsonError`].
    pub fn set_json(mut self, node: NodeId, value: &Value) -> Result<Self, JsonError> {
        let old = self.tree().node(node).ok_or(EditError::NoSuchNode(node))?;
        let key = old.attribute(KEY).map(<[u8]>::to_vec);
        let key = key.as_deref().and_then(|key| std::str::from_utf8(key).ok());
        let new = attributes(value, key)?;
        let names: Vec<String> = old.attributes().map(|(name, _)| name.to_owned()).collect();
        let children: Vec<NodeId> = old.children().map(Node::id).collect();
        for child in children {
            self = self.delete(child)?;
        }
        // Deadlines and blobs are the node's, not the value's.
        let is_beside = |name: &str| name == EXPIRES || name.starts_with(BLOB);
        let gone = |name: &&String| new.get(name).is_none() && !is_beside(name);
        for name in names.iter().filter(gone) {
            self = self.remove(node, name)?;
        }
        for (name, value) in &new {
            if self.tree().node(node).and_then(|node| node.attribute(name)) != Some(value) {
                self = self.put(node, name, value)?;
            }
        }
        self.append_parts(node, value)
    }

    /// Edits a document by a JSON Patch (RFC 6902). Values that stay, or move, keep their nodes.
    ///
    /// # Errors
    /// [`JsonError::Patch`] with the number of the operation; the editor is gone, its clones are as they were.
    pub fn patch_json(mut self, document: NodeId, patch: &Value) -> Result<Self, JsonError> {
        let wrong = |operation, cause: String| JsonError::Patch { operation, cause };
        let operations = patch.as_array();
        let operations =
            operations.ok_or_else(|| wrong(0, "a patch is an array of operations".to_owned()))?;
        for (number, operation) in operations.iter().enumerate() {
            let done = self.patch_operation(document, operation);
            self = done.map_err(|error| wrong(number, error.to_string()))?;
        }
        Ok(self)
    }

    /// Edits a document by a JSON Merge Patch (RFC 7396).
    ///
    /// # Errors
    /// [`JsonError`]; the editor is gone, its clones are as they were.
    pub fn merge_patch_json(mut self, document: NodeId, patch: &Value) -> Result<Self, JsonError> {
        let Value::Object(members) = patch else { return self.set_json(document, patch) };
        if self.tree().node(document).and_then(|node| node.attribute(KIND)) != Some(OBJECT) {
            self = self.set_json(document, &Value::Object(Map::new()))?;
        }
        for (name, member) in members {
            let object = self.tree().node(document).ok_or(EditError::NoSuchNode(document))?;
            let child = child_of(object, name).map(Node::id);
            self = match (member, child) {
                (Value::Null, _) => match self.remove_member(document, name)? {
                    Ok(editor) | Err(editor) => editor,
                },
                (Value::Object(_), Some(child)) => self.merge_patch_json(child, member)?,
                (Value::Object(_), None) => {
                    let editor = self.set_member(document, name, &Value::Object(Map::new()))?;
                    let object = editor.tree().node(document);
                    let child = object.and_then(|object| child_of(object, name));
                    let child = child.expect("it was just set").id();
                    editor.merge_patch_json(child, member)?
                }
                _ => self.set_member(document, name, member)?,
            };
        }
        Ok(self)
    }

    fn insert_value(
        self,
        parent: NodeId,
        position: usize,
        value: &Value,
        key: Option<&str>,
    ) -> Result<Self, JsonError> {
        let attributes = attributes(value, key)?;
        let editor = self.insert(parent, position, attributes.iter())?;
        let node = editor.last_made().expect("it was just inserted");
        editor.append_parts(node, value)
    }

    /// Appends what a value has as children.
    fn append_parts(mut self, node: NodeId, value: &Value) -> Result<Self, JsonError> {
        match value {
            Value::Object(object) => {
                let parts = object.iter().filter(|(_, member)| !is_scalar(member));
                for (position, (name, member)) in parts.enumerate() {
                    self = self.insert_value(node, position, member, Some(name))?;
                }
            }
            Value::Array(elements) => {
                for (position, element) in elements.iter().enumerate() {
                    self = self.insert_value(node, position, element, None)?;
                }
            }
            _ => {}
        }
        Ok(self)
    }

    /// Sets a member, in its node if it has one and keeps one.
    fn set_member(self, object: NodeId, name: &str, value: &Value) -> Result<Self, JsonError> {
        let own = self.tree().node(object).ok_or(EditError::NoSuchNode(object))?;
        let attribute = attribute_of(name)?;
        let (child, len) = (child_of(own, name).map(Node::id), own.len());
        let has = own.attribute(&attribute).is_some();
        if is_scalar(value) {
            let editor = match child {
                Some(child) => self.delete(child)?,
                None => self,
            };
            return Ok(editor.put(object, &attribute, value.to_string().as_bytes())?);
        }
        match child {
            Some(child) => self.set_json(child, value),
            None => {
                let editor = if has { self.remove(object, &attribute)? } else { self };
                editor.insert_value(object, len, value, Some(name))
            }
        }
    }

    /// Removes a member; the editor as it was if there is none.
    fn remove_member(self, object: NodeId, name: &str) -> Result<Result<Self, Self>, JsonError> {
        let own = self.tree().node(object).ok_or(EditError::NoSuchNode(object))?;
        let attribute = attribute_of(name)?;
        if let Some(child) = child_of(own, name).map(Node::id) {
            return Ok(Ok(self.delete(child)?));
        }
        if own.attribute(&attribute).is_some() {
            return Ok(Ok(self.remove(object, &attribute)?));
        }
        Ok(Err(self))
    }

    fn patch_operation(self, document: NodeId, operation: &Value) -> Result<Self, JsonError> {
        let text = |name: &str| {
            let text = operation.get(name).and_then(Value::as_str);
            text.ok_or_else(|| JsonError::Operation(format!("it has no text `{name}`")))
        };
        let value = || {
            let value = operation.get("value");
            value.ok_or_else(|| JsonError::Operation("it has no `value`".to_owned()))
        };
        let path = text("path")?;
        match text("op")? {
            "add" => self.add(document, path, value()?),
            "remove" => self.take(document, path),
            "replace" => {
                json_at(self.tree(), document, path)?;
                self.replace(document, path, value()?)
            }
            "move" => self.move_json(document, text("from")?, path),
            "copy" => {
                let copied = json_at(self.tree(), document, text("from")?)?;
                self.add(document, path, &copied)
            }
            "test" => {
                if is_equal(&json_at(self.tree(), document, path)?, value()?) {
                    return Ok(self);
                }
                Err(JsonError::Operation(format!(
                    "another value is at `{path}` than the one tested for"
                )))
            }
            other => Err(JsonError::Operation(format!(
                "`{other}` is none of add, remove, replace, move, copy and test"
            ))),
        }
    }

    fn slot<'a>(&self, document: NodeId, tokens: &'a [String]) -> Option<Slot<'a>> {
        let (last, above) = tokens.split_last()?;
        let Some(Pointed::Node(parent)) = found(self.tree(), document, above) else { return None };
        let node = self.tree().node(parent)?;
        match node.attribute(KIND)? {
            OBJECT => Some(Slot::Member(parent, last)),
            ARRAY if last == "-" => Some(Slot::Element(parent, None)),
            ARRAY => {
                let at = position(last).filter(|at| *at <= node.len())?;
                Some(Slot::Element(parent, Some(at)))
            }
            _ => None,
        }
    }

    fn add(self, document: NodeId, path: &str, value: &Value) -> Result<Self, JsonError> {
        let tokens = tokens(path)?;
        if tokens.is_empty() {
            return self.set_json(document, value);
        }
        let slot = self.slot(document, &tokens);
        match slot.ok_or_else(|| JsonError::Nothing(path.to_owned()))? {
            Slot::Member(object, name) => self.set_member(object, name, value),
            Slot::Element(array, at) => {
                let len = self.tree().node(array).map_or(0, Node::len);
                self.insert_value(array, at.unwrap_or(len), value, None)
            }
        }
    }

    fn replace(self, document: NodeId, path: &str, value: &Value) -> Result<Self, JsonError> {
        let tokens = tokens(path)?;
        match self.slot(document, &tokens) {
            Some(Slot::Member(object, name)) => self.set_member(object, name, value),
            _ => match point(self.tree(), document, path)? {
                Pointed::Node(node) => self.set_json(node, value),
                Pointed::Member { .. } => unreachable!("a member lies in an object"),
            },
        }
    }

    fn take(self, document: NodeId, path: &str) -> Result<Self, JsonError> {
        match point(self.tree(), document, path)? {
            Pointed::Node(node) if node == document => Err(JsonError::Operation(
                "a document is not removed from itself; delete its node".to_owned(),
            )),
            Pointed::Node(node) => Ok(self.delete(node)?),
            Pointed::Member { object, attribute } => Ok(self.remove(object, &attribute)?),
        }
    }

    /// Moves a value; one that has a node takes it along.
    fn move_json(self, document: NodeId, from: &str, path: &str) -> Result<Self, JsonError> {
        let value = json_at(self.tree(), document, from)?;
        if from == path {
            return Ok(self);
        }
        if path.strip_prefix(from).is_some_and(|rest| rest.starts_with('/')) {
            return Err(JsonError::Operation(format!("`{path}` lies in what is moved, `{from}`")));
        }
        let tokens = tokens(path)?;
        let node = match point(self.tree(), document, from)? {
            Pointed::Node(node) if node != document && !tokens.is_empty() => node,
            _ => return self.take(document, from)?.add(document, path, &value),
        };
        // The place is that in the document without the value.
        let without = self.clone().delete(node)?;
        let slot = without.slot(document, &tokens);
        match slot.ok_or_else(|| JsonError::Nothing(path.to_owned()))? {
            // A scalar has no node in an object.
            Slot::Member(..) if is_scalar(&value) => without.add(document, path, &value),
            Slot::Member(object, name) => {
                let editor = match self.remove_member_but(object, name, node)? {
                    Ok(editor) | Err(editor) => editor,
                };
                let parent = editor.tree().node(object).ok_or(EditError::NoSuchNode(object))?;
                let len = parent.len() - usize::from(parent.position(node).is_some());
                let editor = editor.relocate(node, object, len)?;
                Ok(editor.put(node, KEY, name.as_bytes())?)
            }
            Slot::Element(array, at) => {
                let len = without.tree().node(array).map_or(0, Node::len);
                let has_key =
                    self.tree().node(node).is_some_and(|own| own.attribute(KEY).is_some());
                let editor = self.relocate(node, array, at.unwrap_or(len))?;
                if has_key { Ok(editor.remove(node, KEY)?) } else { Ok(editor) }
            }
        }
    }

    /// Removes a member, unless it is the node itself.
    fn remove_member_but(
        self,
        object: NodeId,
        name: &str,
        node: NodeId,
    ) -> Result<Result<Self, Self>, JsonError> {
        let own = self.tree().node(object);
        if own.and_then(|own| child_of(own, name)).is_some_and(|child| child.id() == node) {
            return Ok(Err(self));
        }
        self.remove_member(object, name)
    }
}

/// The order of two numbers by their values, exactly; none only where a number is none of JSON's.
pub fn number_order(left: &Number, right: &Number) -> Option<Ordering> {
    let whole = |number: &Number| {
        number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
    };
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        (Some(left), None) => Some(beside(left, right.as_f64()?)),
        (None, Some(right)) => Some(beside(right, left.as_f64()?).reverse()),
        (None, None) => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

/// The order of a whole number and one with a fraction or an exponent.
fn beside(whole: i128, real: f64) -> Ordering {
    // Beyond the range of whole numbers the cast gives its end, which none of them reaches.
    let below = real.floor();
    whole.cmp(&(below as i128)).then(if below < real { Ordering::Less } else { Ordering::Equal })
}

/// Equality of RFC 6902 and RFC 9535: numbers by their values.
pub fn is_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            number_order(left, right) == Some(Ordering::Equal)
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| is_equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(name, value)| right.get(name).is_some_and(|own| is_equal(value, own)))
        }
        _ => left == right,
    }
}
