//! The sliders of a report: a model that the reader turns, answered inside the page by the module of
//! the crate `web`, which the build embeds; `cargo xtask web` makes it.

use std::io::Write as _;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

/// A model that the reader may turn in the page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sliders {
    /// The model as the module reads it: a scenario in JSON.
    pub model: String,
    /// The seed of the simulations.
    pub seed: u64,
}

/// Part of a live answer that a figure of curves shows beside its own series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Live {
    /// Throughput [1/s] against load.
    Throughput,
    /// Mean response \[ms\] against load.
    Response,
}

/// The module as it was built.
#[cfg(web_module)]
const MODULE: Option<&[u8]> = Some(include_bytes!(env!("SEKISHO_WEB_PATH")));
/// The build found none.
#[cfg(not(web_module))]
const MODULE: Option<&[u8]> = None;

/// Why the reports of a command without the module have no sliders and how to get them.
pub(super) fn no_sliders() -> String {
    format!(
        "This report has no sliders: the command that wrote it {}; `cargo xtask web`, then building \
         it again, gives them.",
        env!("SEKISHO_WEB_NONE")
    )
}

/// The module, compressed (gzip) and in base64, as it stands in a page.
pub(super) fn module() -> Option<&'static str> {
    static TEXT: OnceLock<String> = OnceLock::new();
    MODULE.map(|bytes| {
        TEXT.get_or_init(|| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
            STANDARD.encode(written.expect("writing to memory does not fail"))
        })
        .as_str()
    })
}
