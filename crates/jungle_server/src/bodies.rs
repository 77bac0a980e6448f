//! Bodies of requests, each of a type of its own: what is not known is refused, and the description has their schemas.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::answer::{Value, Values};
use crate::request::{PolicyName, RuleName};

/// A tree that is to be made.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CreateRequest")]
pub(crate) struct Create {
    #[serde(default = "addressable")]
    pub(crate) addressable: bool,
}

/// A new name.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NameRequest")]
pub(crate) struct Name {
    pub(crate) name: String,
}

/// A merge into the tree of the address.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "MergeRequest")]
pub(crate) struct Merge {
    pub(crate) from: String,
    #[serde(default)]
    pub(crate) policy: PolicyName,
}

/// The rule of an attribute.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RuleRequest")]
pub(crate) struct SetRule {
    pub(crate) rule: RuleName,
}

/// A child, by its attributes or as a document.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "InsertRequest")]
pub(crate) struct Insert {
    #[serde(default)]
    pub(crate) attributes: Values,
    #[serde(default)]
    pub(crate) json: Option<serde_json::Value>,
    /// The time after which it goes with all below it, such as `90s`.
    #[serde(default)]
    pub(crate) ttl: Option<String>,
    #[serde(default)]
    pub(crate) position: Option<usize>,
}

/// Attributes to set, or with null to take out.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PutRequest")]
pub(crate) struct Put {
    #[serde(default)]
    pub(crate) attributes: BTreeMap<String, Option<Value>>,
    #[serde(default)]
    pub(crate) expect: BTreeMap<String, Option<Value>>,
    /// The time from now on after which it goes with all below it, such as `90s`, or `never`.
    #[serde(default)]
    pub(crate) ttl: Option<String>,
}

/// A new place.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "MoveRequest")]
pub(crate) struct Move {
    pub(crate) parent: String,
    #[serde(default)]
    pub(crate) position: Option<usize>,
}

/// The tree that the commit changed, and the one in which it is to do the same.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PickRequest")]
pub(crate) struct Pick {
    pub(crate) from: String,
    pub(crate) into: String,
}

/// The version whose state is to come back.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RestoreRequest")]
pub(crate) struct At {
    pub(crate) at: u64,
}

/// The version that is to be kept.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HoldRequest")]
pub(crate) struct Hold {
    pub(crate) seq: u64,
    /// The time after which it is let go of, unless it is asked for again \[s\]; none keeps it until it is let go of.
    #[serde(default)]
    pub(crate) lease_s: Option<u32>,
}

fn addressable() -> bool {
    true
}

impl Default for Create {
    fn default() -> Self {
        Self { addressable: true }
    }
}
