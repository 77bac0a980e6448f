//! The outcome of a study: claims, figures, facts.

use crate::claim::Judged;

/// Results of the judging of a paper.
#[derive(Debug)]
pub struct Reproduced {
    /// All claims that were to be judged, in the order of the paper.
    pub judged: Vec<Judged>,
    /// Figures and tables for the report.
    pub sections: Vec<report::Section>,
    /// Facts that are needed to judge or to repeat it: key, value, unit.
    pub facts: Vec<(String, String, String)>,
}
