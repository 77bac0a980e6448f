//! A paper's claims, as `studies/` lists them, and what became of each.
//!
//! The list says how each claim is expected to be judged, known deviations with their reasons. A
//! finding that differs from it, to the good or to the bad, is news, and the verdict fails.
//!
//! A claim counts only if what was computed or measured could have contradicted it: the list says how,
//! and [`Evidence`] looks for values that do. What is fitted, copied, or chosen so that it holds is
//! told as taken from the paper.

use std::collections::BTreeSet;

use advise::Approximation;
use cli::Verdict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Verdict on a claim.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Finding {
    /// It holds, and the text prints a number for it.
    Reproduces,
    /// It holds, but the text prints no number: an order, a shape.
    ShapeOnly,
    /// It does not hold.
    DoesNotReproduce,
    /// Fitted, copied, or chosen so that it holds: nothing that was found could have contradicted it.
    Taken,
    /// The text says nothing to compare with; what was found agrees with what was found before.
    NotStated,
    /// The intervals are too wide to say.
    Undecided,
    /// This machine cannot do what it takes.
    NotRun,
}

impl Finding {
    /// True if a claim that is found so counts among those that could have failed.
    pub(super) fn counts(self) -> bool {
        matches!(self, Finding::Reproduces | Finding::ShapeOnly | Finding::DoesNotReproduce)
    }

    /// As a table has it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Finding::Reproduces => "reproduces",
            Finding::ShapeOnly => "shape only",
            Finding::DoesNotReproduce => "does not",
            Finding::Taken => "taken",
            Finding::NotStated => "not stated",
            Finding::Undecided => "undecided",
            Finding::NotRun => "not run",
        }
    }
}

/// A claim of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claim {
    pub(super) id: String,
    /// Short, for a terminal.
    pub(super) title: String,
    /// Section, figure, equation.
    pub(super) place: String,
    /// The claim in our words.
    pub(super) says: String,
    /// The paper's value, short.
    pub(super) paper: String,
    /// The number that the text prints, in the unit of `paper`.
    value: Option<f64>,
    /// The largest share by which a number may differ and still count as the same.
    within: Option<f64>,
    pub(super) expect: Finding,
    /// Reason why it does not reproduce, is taken, or more must be known.
    #[serde(default)]
    pub(super) why: String,
    /// Of a claim that counts: what was computed or measured that could have contradicted it, and how.
    #[serde(default)]
    pub(super) fails: String,
    /// True if only a measurement can judge it.
    #[serde(default)]
    pub(super) live: bool,
}

/// All claims of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registry {
    format: u32,
    /// The name of the study.
    pub study: String,
    pub(super) title: String,
    #[serde(rename = "claim")]
    pub(super) claims: Vec<Claim>,
}

impl Registry {
    /// The claims that `studies/` lists in this text.
    ///
    /// # Panics
    /// If the text is no list of claims, or one that counts does not say how it could have failed: it
    /// is part of the program.
    pub(super) fn parse(text: &str) -> Registry {
        let registry: Registry = toml::from_str(text).expect("the list of claims is well formed");
        assert_eq!(registry.format, 1, "the format of the list of claims");
        let ids: BTreeSet<&str> = registry.claims.iter().map(|claim| claim.id.as_str()).collect();
        assert_eq!(ids.len(), registry.claims.len(), "two claims have one id");
        for Claim { id, expect, fails, why, .. } in &registry.claims {
            assert_eq!(expect.counts(), !fails.is_empty(), "`{id}`: what counts says how it fails");
            assert!(
                *expect != Finding::Taken || !why.is_empty(),
                "`{id}` is taken: say from where"
            );
        }
        registry
    }

    /// The claim of this name.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn claim(&self, id: &str) -> &Claim {
        let found = self.claims.iter().find(|claim| claim.id == id);
        found.unwrap_or_else(|| panic!("the list of claims has no `{id}`"))
    }

    /// Every claim was judged exactly once, in the order of the list: what is listed is never
    /// skipped.
    ///
    /// # Panics
    /// If one was not.
    pub(super) fn assert_complete(&self, judged: &[Judged], live: Live) {
        let due = self.claims.iter().filter(|claim| live == Live::Judged || !claim.live);
        let due = due.map(|claim| &claim.id);
        let judged = judged.iter().map(|one| &one.id);
        assert!(due.eq(judged), "the claims of the list of {} and those judged differ", self.study);
    }
}

/// Treatment of the claims that only a measurement can judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Live {
    Judged,
    LeftOut,
}

impl Claim {
    /// The number that the text prints.
    ///
    /// # Panics
    /// If the list has none for it.
    pub(super) fn value(&self) -> f64 {
        self.value.unwrap_or_else(|| panic!("claim `{}` has no `value`", self.id))
    }

    /// The tolerance.
    ///
    /// # Panics
    /// If the list has none for it.
    pub(super) fn within(&self) -> f64 {
        self.within.unwrap_or_else(|| panic!("claim `{}` has no `within`", self.id))
    }

    /// True if two numbers are the same, within the claim's tolerance of the second.
    pub(super) fn same(&self, one: f64, other: f64) -> bool {
        (one - other).abs() <= self.within() * other.abs()
    }

    /// A judgement that still lacks its values and its finding.
    pub(super) fn judge(&self) -> Judged {
        Judged {
            id: self.id.clone(),
            formula: "-".into(),
            simulation: "-".into(),
            measured: "-".into(),
            found: String::new(),
            finding: Finding::Undecided,
            refuted_by: None,
            approximation: Approximation::NONE,
            expect: self.expect,
        }
    }
}

/// A claim that was judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    pub(super) id: String,
    /// Values, short.
    pub(super) formula: String,
    pub(super) simulation: String,
    pub(super) measured: String,
    /// Observation and finding, in a sentence or two.
    pub(super) found: String,
    pub(super) finding: Finding,
    /// Values in place of those that were found that would have contradicted it.
    pub(super) refuted_by: Option<String>,
    /// Error that the formula's values may have.
    pub(super) approximation: Approximation,
    expect: Finding,
}

impl Judged {
    pub(super) fn formula(self, formula: impl Into<String>) -> Judged {
        Judged { formula: formula.into(), ..self }
    }

    /// Its formula's values are of this one too.
    pub(super) fn approximate(self, approximation: Approximation) -> Judged {
        Judged { approximation: self.approximation.and(approximation), ..self }
    }

    pub(super) fn simulation(self, simulation: impl Into<String>) -> Judged {
        Judged { simulation: simulation.into(), ..self }
    }

    pub(super) fn measured(self, measured: impl Into<String>) -> Judged {
        Judged { measured: measured.into(), ..self }
    }

    pub(super) fn found(self, found: impl Into<String>) -> Judged {
        Judged { found: found.into(), ..self }
    }

    /// A claim with a printed number.
    pub(super) fn number(self, evidence: impl Into<Evidence>) -> Judged {
        self.counted(evidence.into(), Finding::Reproduces)
    }

    /// A claim without a printed number.
    pub(super) fn shape(self, evidence: impl Into<Evidence>) -> Judged {
        self.counted(evidence.into(), Finding::ShapeOnly)
    }

    /// Claim that is taken from the paper, and still as it was taken: if not, it no longer is what
    /// it seems.
    pub(super) fn taken(self, as_known: bool) -> Judged {
        self.finding(as_known.into(), Finding::Taken)
    }

    /// Claim that holds under definitions that were chosen so that it does.
    pub(super) fn chosen(self, answer: Answer) -> Judged {
        self.finding(answer, Finding::Taken)
    }

    /// Something that the text does not state, held against what was found before.
    pub(super) fn unstated(self, answer: Answer) -> Judged {
        self.finding(answer, Finding::NotStated)
    }

    /// A claim that this machine cannot judge.
    pub(super) fn not_run(self, why: impl Into<String>) -> Judged {
        Judged { found: why.into(), finding: Finding::NotRun, ..self }
    }

    /// The same claim after all undecided, and why.
    pub(super) fn undecided(self, found: impl Into<String>) -> Judged {
        Judged { found: found.into(), finding: Finding::Undecided, ..self }
    }

    /// Claim that counts only if something could have contradicted it, whatever was expected.
    fn counted(self, evidence: Evidence, if_it_holds: Finding) -> Judged {
        let Evidence { answer, refuted_by } = evidence;
        let is_idle = answer == Answer::Yes && refuted_by.is_none();
        let finding = if is_idle { Finding::Taken } else { if_it_holds };
        Judged { refuted_by, ..self }.finding(answer, finding)
    }

    fn finding(self, answer: Answer, if_it_holds: Finding) -> Judged {
        let finding = match answer {
            Answer::Yes => if_it_holds,
            Answer::No => Finding::DoesNotReproduce,
            Answer::CannotTell => Finding::Undecided,
        };
        Judged { finding, ..self }
    }

    /// True if it was found as `studies/` expects.
    pub(super) fn is_expected(&self) -> bool {
        self.finding == self.expect
    }

    /// Its part in the verdict.
    pub(super) fn verdict(&self) -> Verdict {
        match self.finding {
            Finding::Undecided | Finding::NotRun => Verdict::Inconclusive,
            _ if self.is_expected() => Verdict::Holds,
            _ => Verdict::Fails,
        }
    }
}

/// Answer that values give to a claim, and whether others could have said otherwise.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Evidence {
    pub(super) answer: Answer,
    /// The nearest of the contradicting values that were tried.
    pub(super) refuted_by: Option<String>,
}

/// Changes of values in search of a contradiction, the smallest first.
const CHANGES: [fn(f64) -> f64; 9] = [
    |value| value * 1.25,
    |value| value * 0.8,
    |value| value + 1.0,
    |value| value - 1.0,
    |value| value * 2.0,
    |value| value * 0.5,
    |value| value * 10.0,
    |_| 0.0,
    |value| -value,
];

impl Evidence {
    /// The rule's answer to what was computed or measured. The rule must rest on these values alone; one
    /// that no change of them contradicts is no evidence.
    pub(super) fn of<R: Into<Answer>>(values: &[f64], rule: impl Fn(&[f64]) -> R) -> Evidence {
        let rule = |values: &[f64]| rule(values).into();
        let answer = rule(values);
        let one = |change: fn(f64) -> f64| {
            (0..values.len()).map(move |at| {
                let mut changed = values.to_vec();
                changed[at] = change(changed[at]);
                changed
            })
        };
        let all = |change: fn(f64) -> f64| values.iter().copied().map(change).collect();
        let mut tried = CHANGES.into_iter().flat_map(|change| one(change).chain([all(change)]));
        let contrary = tried.find(|changed: &Vec<f64>| rule(changed) == Answer::No);
        let refuted_by = contrary.map(|changed| {
            let pairs = values.iter().zip(&changed).filter(|(was, is)| was != is);
            let words = pairs.take(3).map(|(was, is)| format!("{is:.4} for {was:.4}"));
            words.collect::<Vec<_>>().join(", ")
        });
        Evidence { answer, refuted_by }
    }
}

/// An answer that intervals gave ([`Answer::below`], [`Answer::above`]): on the other side of the limit
/// they would have contradicted.
impl From<Answer> for Evidence {
    fn from(answer: Answer) -> Evidence {
        Evidence { answer, refuted_by: Some("an interval beyond the limit".into()) }
    }
}

/// Answer to whether something is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Yes,
    No,
    /// The interval straddles the limit.
    CannotTell,
}

impl From<bool> for Answer {
    fn from(yes: bool) -> Answer {
        if yes { Answer::Yes } else { Answer::No }
    }
}

impl Answer {
    /// Answer to whether the whole interval lies at or below the limit.
    pub(super) fn below(limit: f64, low: f64, high: f64) -> Answer {
        match () {
            () if high <= limit => Answer::Yes,
            () if low > limit => Answer::No,
            () => Answer::CannotTell,
        }
    }

    /// Answer to whether the whole interval lies above the limit.
    pub(super) fn above(limit: f64, low: f64, high: f64) -> Answer {
        match () {
            () if low > limit => Answer::Yes,
            () if high <= limit => Answer::No,
            () => Answer::CannotTell,
        }
    }

    /// Answer to whether both are so: a no decides.
    pub(super) fn and(self, other: Answer) -> Answer {
        match (self, other) {
            (Answer::No, _) | (_, Answer::No) => Answer::No,
            (Answer::Yes, Answer::Yes) => Answer::Yes,
            _ => Answer::CannotTell,
        }
    }
}

/// The verdict over all claims.
pub fn verdict(judged: &[Judged]) -> Verdict {
    judged.iter().fold(Verdict::Holds, |all, one| all.and(one.verdict()))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Claim {
        fn of(value: f64, within: f64) -> Claim {
            Claim {
                id: "x".into(),
                title: "x".into(),
                place: String::new(),
                says: String::new(),
                paper: String::new(),
                value: Some(value),
                within: Some(within),
                expect: Finding::NotStated,
                why: String::new(),
                fails: String::new(),
                live: false,
            }
        }
    }

    fn judged(finding: Finding, expect: Finding) -> Judged {
        let claim = Claim { expect, ..Claim::of(2.0, 0.1) };
        Judged { finding, ..claim.judge() }
    }

    #[test]
    fn a_known_deviation_holds_and_an_unknown_agreement_fails() {
        let no = Finding::DoesNotReproduce;
        assert_eq!(judged(no, no).verdict(), Verdict::Holds);
        assert_eq!(judged(Finding::Reproduces, no).verdict(), Verdict::Fails);
        assert_eq!(judged(no, Finding::Reproduces).verdict(), Verdict::Fails);
        assert_eq!(judged(Finding::NotRun, Finding::ShapeOnly).verdict(), Verdict::Inconclusive);
        assert_eq!(judged(Finding::Undecided, no).verdict(), Verdict::Inconclusive);
    }

    #[test]
    fn one_failure_outweighs_what_could_not_be_decided() {
        let (yes, no) = (Finding::Reproduces, Finding::DoesNotReproduce);
        let list = [judged(yes, yes), judged(Finding::NotRun, yes), judged(no, yes)];
        assert_eq!(verdict(&list[..1]), Verdict::Holds);
        assert_eq!(verdict(&list[..2]), Verdict::Inconclusive);
        // `Verdict` orders by how bad it is for the caller: what is not decided hides no failure.
        assert_eq!(verdict(&list), Verdict::Fails);
    }

    #[test]
    fn an_interval_decides_only_beyond_the_limit() {
        assert_eq!(Answer::below(1.0, 0.5, 1.0), Answer::Yes);
        assert_eq!(Answer::below(1.0, 1.1, 1.2), Answer::No);
        assert_eq!(Answer::below(1.0, 0.9, 1.1), Answer::CannotTell);
        assert_eq!(Answer::above(1.0, 1.1, 1.2), Answer::Yes);
        assert_eq!(Answer::above(1.0, 0.9, 1.0), Answer::No);
        assert_eq!(Answer::above(1.0, 0.9, 1.1), Answer::CannotTell);
        assert_eq!(Answer::Yes.and(Answer::CannotTell), Answer::CannotTell);
        assert_eq!(Answer::CannotTell.and(Answer::No), Answer::No);
        assert_eq!(Answer::Yes.and(Answer::Yes), Answer::Yes);
    }

    /// A claim that no value could contradict was counted like any other.
    #[test]
    fn a_claim_counts_only_if_a_value_could_have_contradicted_it() {
        let claim = Claim { expect: Finding::Reproduces, ..Claim::of(2.0, 0.1) };
        let real = claim.judge().number(Evidence::of(&[2.05], |found| claim.same(found[0], 2.0)));
        assert_eq!(real.finding, Finding::Reproduces);
        assert!(real.refuted_by.is_some(), "{real:?}");
        let idle = claim.judge().number(Evidence::of(&[2.05], |_| true));
        assert_eq!((idle.finding, idle.verdict()), (Finding::Taken, Verdict::Fails), "{idle:?}");
        let none = claim.judge().number(Evidence::of(&[], |_| true));
        assert_eq!(none.finding, Finding::Taken, "nothing was looked at");
        let copied = claim.judge().number(Evidence::of(&[2.0], |_| claim.value() == 2.0));
        assert_eq!(copied.finding, Finding::Taken, "held against itself");
        let wrong = claim.judge().number(Evidence::of(&[3.0], |found| claim.same(found[0], 2.0)));
        assert_eq!(wrong.finding, Finding::DoesNotReproduce);
        let order =
            Evidence::of(&[1.0, 2.0, 3.0], |found| found.windows(2).all(|two| two[0] < two[1]));
        assert!(order.answer == Answer::Yes && order.refuted_by.is_some(), "{order:?}");
        let zero = Evidence::of(&[0.0], |found| found[0] == 0.0);
        assert!(zero.refuted_by.is_some(), "{zero:?}");
    }

    #[test]
    fn a_list_with_an_unknown_key_is_refused() {
        let good = "format = 1\nstudy = \"s\"\ntitle = \"t\"\n[[claim]]\nid = \"a\"\ntitle = \"a\"\n\
                    place = \"1\"\nsays = \"x\"\npaper = \"-\"\nexpect = \"not-stated\"\n";
        assert_eq!(Registry::parse(good).claim("a").expect, Finding::NotStated);
        let bad = format!("{good}expects = \"reproduces\"\n");
        assert!(toml::from_str::<Registry>(&bad).is_err());
        let twice =
            format!("{good}{}", good.split_once("[[").map(|(_, c)| format!("[[{c}")).unwrap());
        assert!(std::panic::catch_unwind(|| Registry::parse(&twice)).is_err());
        let counted = good.replace("not-stated", "reproduces");
        assert!(
            std::panic::catch_unwind(|| Registry::parse(&counted)).is_err(),
            "how does it fail?"
        );
        Registry::parse(&format!("{counted}fails = \"another number\"\n"));
        let taken = good.replace("not-stated", "taken");
        assert!(std::panic::catch_unwind(|| Registry::parse(&taken)).is_err(), "from where?");
    }
}
