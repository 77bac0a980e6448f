//! LQNX: layered queueing networks as XML. Processors hold tasks, tasks hold entries, entries hold one
//! activity a phase. Results that a solver left in the file are passed over.

use roxmltree::Node;
use solve::layered::{CallCounts, CallKind, EntryId, Threads};

use super::Model;
use super::layers::{Draft, DraftCall, IsShared, processor};
use super::xml::{Element, Xml};
use crate::ReadError;

/// Reads a file.
pub(super) fn read(file: &str, text: &str) -> Result<Model, ReadError> {
    let xml = Xml::parse(file, text)?;
    let root = xml.root("lqn-model")?;
    let mut reader = Reader { xml: &xml, draft: Draft::new(file) };
    for element in reader.inside(root, &["solver-params", "processor"])? {
        if element.tag_name().name() == "processor" {
            reader.processor(element)?;
        }
    }
    reader.draft.finish()
}

struct Reader<'a> {
    xml: &'a Xml<'a>,
    draft: Draft,
}

/// Signs of features that layered models here do not have.
const REFUSED: [(&str, &str); 16] = [
    ("task-activities", "activities"),
    ("reply-entry", "activities"),
    ("precedence", "activities"),
    ("forwarding", "forwarding"),
    ("group", "processor groups"),
    ("fan-in", "replication"),
    ("fan-out", "replication"),
    ("service", "services"),
    ("slot", "slots"),
    ("lqx", "LQX programs"),
    ("spex-parameters", "SPEX parameters"),
    ("spex-results", "SPEX results"),
    ("spex-convergence", "SPEX convergence"),
    ("service-time-distribution", "histograms"),
    ("histogram-bin", "histograms"),
    ("semaphore", "semaphores"),
];

impl<'a> Reader<'a> {
    /// The elements inside but results: known ones, or else a feature that is named.
    fn inside(&self, element: Element<'a>, known: &[&str]) -> Result<Vec<Element<'a>>, ReadError> {
        let is_result = |one: &Element<'_>| one.tag_name().name().starts_with("result-");
        let children: Vec<Element<'a>> =
            element.children().filter(Node::is_element).filter(|one| !is_result(one)).collect();
        for child in &children {
            let name = child.tag_name().name();
            if let Some((_, feature)) = REFUSED.iter().find(|(of, _)| *of == name) {
                let cause =
                    format!("<{name}>, {feature}: not supported; express the model without");
                return Err(self.xml.error(*child, cause));
            }
            if !known.contains(&name) {
                let way_out = super::file::suggest(name, known.iter().copied());
                let within = element.tag_name().name();
                let cause = format!("<{name}> in <{within}> is not supported; {way_out}");
                return Err(self.xml.error(*child, cause));
            }
        }
        Ok(children)
    }

    fn refused(&self, element: Element<'a>, what: &str) -> ReadError {
        self.xml.error(element, format!("{what}: not supported; express the model without"))
    }

    fn processor(&mut self, element: Element<'a>) -> Result<(), ReadError> {
        let xml = self.xml;
        let known =
            ["name", "scheduling", "multiplicity", "speed-factor", "quantum", "replication"];
        xml.only(element, &known)?;
        let name = xml.name(element)?;
        let mut servers = self.many(element)?;
        let is_shared = match element.attribute("scheduling").unwrap_or("fcfs") {
            "fcfs" => IsShared::No,
            "ps" => IsShared::Yes,
            "inf" => {
                servers = None;
                IsShared::No
            }
            other => {
                return Err(self.refused(element, &format!("scheduling `{other}` of a processor")));
            }
        };
        if xml.number_or(element, "quantum", 0.0)? > 0.0 {
            self.draft.note("a quantum is left out: sharing is ideal");
        }
        let speed = xml.number_or(element, "speed-factor", 1.0)?;
        let line = xml.line(element);
        let index = self.draft.processor(line, processor(name, servers, is_shared), speed)?;
        for task in self.inside(element, &["task"])? {
            self.task(task, index)?;
        }
        Ok(())
    }

    /// Multiplicity; none for infinitely many.
    fn many(&self, element: Element<'a>) -> Result<Option<u32>, ReadError> {
        if self.xml.count_or_one(element, "replication")? > 1 {
            return Err(self.refused(element, "replication"));
        }
        if matches!(element.attribute("multiplicity"), Some("inf" | "infinite" | "@infinity")) {
            return Ok(None);
        }
        self.xml.count_or_one(element, "multiplicity").map(Some)
    }

    fn task(&mut self, element: Element<'a>, processor: usize) -> Result<(), ReadError> {
        let xml = self.xml;
        let known = [
            "name",
            "scheduling",
            "multiplicity",
            "think-time",
            "replication",
            "priority",
            "queue-length",
            "activity-graph",
        ];
        xml.only(element, &known)?;
        let name = xml.name(element)?;
        if element
            .attribute("activity-graph")
            .is_some_and(|text| !matches!(text, "NO" | "no" | "false"))
        {
            return Err(self.refused(element, "activities"));
        }
        if xml.number_or(element, "queue-length", 0.0)? > 0.0 {
            return Err(self.refused(element, "a bound on a queue"));
        }
        if element.attribute("priority").is_some_and(|text| text.trim() != "0") {
            self.draft.note("priorities are left out: all scheduling is by order of arrival");
        }
        let think = xml.number_or(element, "think-time", 0.0)?;
        let many = self.many(element)?;
        let threads = match (element.attribute("scheduling").unwrap_or("fcfs"), many) {
            ("ref", Some(population)) => Threads::Reference { population, think },
            ("ref", None) => {
                let cause = format!("reference task `{name}` is infinite; give its multiplicity");
                return Err(xml.error(element, cause));
            }
            ("n" | "fcfs" | "none", Some(threads)) => Threads::Finite(threads),
            ("n" | "fcfs" | "none", None) | ("inf", _) => Threads::Infinite,
            (other, _) => {
                return Err(self.refused(element, &format!("scheduling `{other}` of a task")));
            }
        };
        if think > 0.0 && !matches!(threads, Threads::Reference { .. }) {
            let cause = format!("task `{name}` thinks, which only reference tasks do");
            return Err(xml.error(element, cause));
        }
        let task = self.draft.task(xml.line(element), name, processor, threads)?;
        for entry in self.inside(element, &["entry"])? {
            self.entry(entry, task)?;
        }
        Ok(())
    }

    fn entry(&mut self, element: Element<'a>, task: usize) -> Result<(), ReadError> {
        let xml = self.xml;
        xml.only(element, &["name", "type", "open-arrival-rate", "priority"])?;
        if !matches!(element.attribute("type").unwrap_or("PH1PH2"), "PH1PH2" | "NONE") {
            return Err(self.refused(element, "activities"));
        }
        if element.attribute("priority").is_some_and(|text| text.trim() != "0") {
            self.draft.note("priorities are left out: all scheduling is by order of arrival");
        }
        let id = self.draft.entry(xml.line(element), task, xml.name(element)?)?;
        *self.draft.open(id) = xml.number_or(element, "open-arrival-rate", 0.0)?;
        let mut seen = Vec::new();
        for phases in self.inside(element, &["entry-phase-activities"])? {
            for activity in self.inside(phases, &["activity"])? {
                let phase = self.activity(activity, id)?;
                if seen.contains(&phase) {
                    let cause = format!("phase {} is there twice; keep one", phase + 1);
                    return Err(xml.error(activity, cause));
                }
                seen.push(phase);
            }
        }
        Ok(())
    }

    /// One phase of an entry; gives which, from 0.
    fn activity(&mut self, element: Element<'a>, id: EntryId) -> Result<usize, ReadError> {
        let xml = self.xml;
        let known = [
            "name",
            "phase",
            "host-demand-mean",
            "host-demand-cvsq",
            "call-order",
            "think-time",
            "max-service-time",
            "bound-to-entry",
        ];
        xml.only(element, &known)?;
        let phase = match xml.attribute(element, "phase")?.trim() {
            "1" => 0,
            "2" => 1,
            "3" => return Err(self.refused(element, "a third phase")),
            other => {
                return Err(xml.error(element, format!("`{other}` is no phase; use 1 or 2")));
            }
        };
        if xml.number_or(element, "think-time", 0.0)? > 0.0 {
            return Err(self.refused(element, "think times of phases"));
        }
        if xml.number_or(element, "max-service-time", 0.0)? > 0.0 {
            self.draft.note("limits on service times are left out");
        }
        let demand = xml.number(element, xml.attribute(element, "host-demand-mean")?)?;
        let scv = xml.number_or(element, "host-demand-cvsq", 1.0)?;
        let counts = match element.attribute("call-order").unwrap_or("STOCHASTIC") {
            "STOCHASTIC" => CallCounts::Geometric,
            "DETERMINISTIC" => CallCounts::Fixed,
            other => {
                let cause = format!("`{other}` is no call order; use STOCHASTIC or DETERMINISTIC");
                return Err(xml.error(element, cause));
            }
        };
        let of = self.draft.phase(id, phase);
        (of.demand, of.scv, of.counts) = (demand, scv, counts);
        for call in self.inside(element, &["synch-call", "asynch-call"])? {
            xml.only(call, &["dest", "calls-mean"])?;
            let kind = match call.tag_name().name() {
                "synch-call" => CallKind::Synchronous,
                _ => CallKind::Asynchronous,
            };
            self.draft.call(DraftCall {
                line: xml.line(call),
                from: id,
                phase,
                to: xml.attribute(call, "dest")?.to_owned(),
                mean: xml.number_or(call, "calls-mean", 1.0)?,
                kind,
            });
        }
        Ok(phase)
    }
}
