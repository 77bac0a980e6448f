//! JMVA: the product-form networks of the Java Modelling Tools, which other solvers read too.
//!
//! What the format says and how it is read:
//! - `listation`: one queue, or `servers` of them, of product form. No discipline is named; sharing is
//!   the one for which class-dependent service times keep product form, so it is read as that. The
//!   means are those of FIFO where all classes have one exponential service time.
//! - `ldstation`: service times with 1, 2, ... jobs, `S(1);S(2);...`; the last one holds for more.
//! - `delaystation`: no queue. Where it is a closed class's reference station, it is where the class
//!   thinks: its time there is no response.
//! - `ReferenceStation`: one visit there is one cycle; visits are taken relative to it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use solve::{Load, Network, NetworkAnswer, SolveError, StationKind};

use super::file::{Lines, suggest};
use super::xml::{Element, Xml, escaped};
use super::{Model, Shape};
use crate::ReadError;

/// Most that the load curves of the classes at one station may differ, relatively, and count as
/// one: files hold them with a few digits.
const SAME: f64 = 1e-6;

const STATIONS: [&str; 3] = ["listation", "ldstation", "delaystation"];

/// Reads a file.
pub(super) fn read(file: &str, text: &str) -> Result<Model, ReadError> {
    let xml = Xml::parse(file, text)?;
    let root = xml.root("model")?;
    let known = ["description", "parameters", "algParams", "whatIf", "solutions"];
    let mut reader =
        Reader { xml: &xml, classes: Vec::new(), notes: Vec::new(), lines: Lines::new(file) };
    let mut parameters = None;
    for element in xml.inside(root, &known)? {
        match element.tag_name().name() {
            "parameters" if parameters.is_none() => parameters = Some(element),
            "parameters" => return Err(xml.error(element, "<parameters> is there twice")),
            "algParams" => reader.algorithm(element),
            "whatIf" => reader.notes.push(
                "`whatIf` is left out: the model is solved as it stands, without the sweep".into(),
            ),
            _ => {}
        }
    }
    let parameters =
        parameters.ok_or_else(|| xml.error(root, "<model> has no <parameters>; add them"))?;
    let network = reader.network(parameters)?;
    Ok(Model { shape: Shape::Network(network), notes: reader.notes, lines: reader.lines })
}

struct Reader<'a> {
    xml: &'a Xml<'a>,
    classes: Vec<Class>,
    notes: Vec<String>,
    lines: Lines,
}

struct Class {
    name: String,
    line: u32,
    load: Load,
    /// The reference station, with the line that names it.
    reference: Option<(String, u32)>,
}

/// A station as it stands in the file.
struct Station {
    name: String,
    line: u32,
    kind: StationKind,
    /// By class: visits and service time \[s\].
    asks: Vec<(f64, f64)>,
}

impl<'a> Reader<'a> {
    fn algorithm(&mut self, element: Element<'a>) {
        let all = element.descendants().filter(|one| one.tag_name().name() == "algType");
        for name in all.filter_map(|one| one.attribute("name")) {
            if name != "MVA" {
                self.notes.push(format!(
                    "the file asks for the algorithm `{name}`; it is solved by what fits best"
                ));
            }
        }
    }

    fn network(&mut self, parameters: Element<'a>) -> Result<Network, ReadError> {
        let xml = self.xml;
        let parts = xml.inside(parameters, &["classes", "stations", "ReferenceStation"])?;
        let part = |name: &str| parts.iter().copied().find(|one| one.tag_name().name() == name);
        let needed = |name: &str| {
            part(name)
                .ok_or_else(|| xml.error(parameters, format!("there are no <{name}>; add them")))
        };
        if let Some(twice) = parts
            .iter()
            .enumerate()
            .find(|(at, one)| parts[..*at].iter().any(|other| other.tag_name() == one.tag_name()))
        {
            let name = twice.1.tag_name().name();
            return Err(xml.error(*twice.1, format!("<{name}> is there twice; keep one")));
        }
        let classes = needed("classes")?;
        self.read_classes(classes)?;
        if let Some(references) = part("ReferenceStation") {
            self.references(references)?;
        }
        let element = needed("stations")?;
        let mut stations: Vec<Station> = Vec::new();
        for child in xml.inside(element, &STATIONS)? {
            let station = self.station(child)?;
            if stations.iter().any(|other| other.name == station.name) {
                let cause = format!("two stations are called `{}`; rename one", station.name);
                return Err(xml.error(child, cause));
            }
            self.lines.add(&station.name, station.line);
            stations.push(station);
        }
        self.counted(element, stations.len())?;
        let thinks = self.thinks(&mut stations)?;
        self.check_visited(&stations)?;
        self.built(&stations, &thinks)
            .map_err(|error| ReadError::whole(self.lines.tell(&error.to_string())))
    }

    /// Checks the number of elements where the file states it: one that was cut short, or edited in
    /// haste, is another model.
    fn counted(&self, element: Element<'a>, found: usize) -> Result<(), ReadError> {
        let Some(text) = element.attribute("number") else { return Ok(()) };
        if text.trim().parse() == Ok(found) {
            return Ok(());
        }
        let name = element.tag_name().name();
        let cause = format!("`number` of <{name}> is `{text}`, but {found} are there; correct it");
        Err(self.xml.error(element, cause))
    }

    fn read_classes(&mut self, element: Element<'a>) -> Result<(), ReadError> {
        let xml = self.xml;
        let mut priorities: Option<(&str, String)> = None;
        for child in xml.inside(element, &["closedclass", "openclass"])? {
            xml.only(child, &["name", "population", "rate", "priority"])?;
            let name = xml.name(child)?;
            if self.classes.iter().any(|class| class.name == name) {
                return Err(
                    xml.error(child, format!("two classes are called `{name}`; rename one"))
                );
            }
            let load = if child.tag_name().name() == "closedclass" {
                let customers = xml
                    .count(child, xml.attribute(child, "population")?)
                    .map_err(|_| self.population(child, name))?;
                Load::Closed { customers, think: 0.0 }
            } else {
                let rate = xml.number(child, xml.attribute(child, "rate")?)?;
                if rate == 0.0 {
                    let cause = format!("the rate of class `{name}` is 0; give one or remove it");
                    return Err(xml.error(child, cause));
                }
                Load::Open { rate }
            };
            let priority = child.attribute("priority").unwrap_or("0").trim();
            match &priorities {
                None => priorities = Some((priority, name.to_owned())),
                Some((other, of)) if *other != priority => {
                    let cause = format!(
                        "class `{name}` has another priority than `{of}`, and priorities of this \
                         format are not supported; give all the same"
                    );
                    return Err(xml.error(child, cause));
                }
                Some(_) => {}
            }
            let line = xml.line(child);
            self.lines.add(name, line);
            self.classes.push(Class { name: name.to_owned(), line, load, reference: None });
        }
        if self.classes.is_empty() {
            return Err(xml.error(element, "there is no class, so nobody comes; add one"));
        }
        self.counted(element, self.classes.len())
    }

    fn population(&self, element: Element<'a>, name: &str) -> ReadError {
        let text = element.attribute("population").unwrap_or_default();
        let cause = match text.trim() {
            "0" => format!("the population of class `{name}` is 0: nobody comes; give at least 1"),
            text => {
                format!(
                    "the population of class `{name}` is `{text}`; give a whole number from 1 up"
                )
            }
        };
        self.xml.error(element, cause)
    }

    fn references(&mut self, element: Element<'a>) -> Result<(), ReadError> {
        let xml = self.xml;
        for child in xml.inside(element, &["Class"])? {
            let at = self.class_index(child, xml.name(child)?)?;
            let station = xml.attribute(child, "refStation")?;
            self.classes[at].reference = Some((station.to_owned(), xml.line(child)));
        }
        Ok(())
    }

    fn class_index(&self, element: Element<'a>, name: &str) -> Result<usize, ReadError> {
        self.classes.iter().position(|class| class.name == name).ok_or_else(|| {
            let way_out = suggest(name, self.classes.iter().map(|class| &*class.name));
            self.xml.error(element, format!("no class is called `{name}`; {way_out}"))
        })
    }

    fn station(&self, element: Element<'a>) -> Result<Station, ReadError> {
        let xml = self.xml;
        xml.only(element, &["name", "servers"])?;
        let name = xml.name(element)?.to_owned();
        let servers = xml.count_or_one(element, "servers")?;
        let parts = xml.inside(element, &["servicetimes", "visits"])?;
        let part = |name: &str| {
            let mut found = parts.iter().copied().filter(|one| one.tag_name().name() == name);
            let first = found.next();
            match (first, found.next()) {
                (Some(part), None) => Ok(part),
                (None, _) => {
                    Err(xml.error(element, format!("the station has no <{name}>; add them")))
                }
                (_, Some(twice)) => {
                    Err(xml.error(twice, format!("<{name}> is there twice; keep one")))
                }
            }
        };
        let is_load_dependent = element.tag_name().name() == "ldstation";
        // In a load-dependent station the inner elements have the outer one's name.
        let inner = if is_load_dependent { "servicetimes" } else { "servicetime" };
        let times = self.by_class(part("servicetimes")?, inner)?;
        let visits = self.by_class(part("visits")?, "visit")?;
        let mut asks = vec![(0.0, 0.0); self.classes.len()];
        let mut curve: Option<Vec<f64>> = None;
        for (class, ask) in asks.iter_mut().enumerate() {
            let (time, visits) = match (times.get(&class), visits.get(&class)) {
                (None, None) => continue,
                (Some(time), Some(visits)) => (*time, *visits),
                (time, _) => {
                    let missing = if time.is_none() { "service time" } else { "visits" };
                    let class = &self.classes[class].name;
                    let cause = format!("class `{class}` has no {missing} at `{name}`; add them");
                    return Err(xml.error(element, cause));
                }
            };
            let visits = xml.number(visits.0, visits.1)?;
            let service = if is_load_dependent {
                self.load_dependent(time, &mut curve)?
            } else {
                xml.number(time.0, time.1)?
            };
            *ask = (visits, service);
        }
        let kind = match element.tag_name().name() {
            "delaystation" => StationKind::Delay,
            "ldstation" => StationKind::Curve { rates: curve.unwrap_or_else(|| vec![1.0]) },
            _ => StationKind::Sharing { servers },
        };
        if is_load_dependent && servers > 1 {
            let cause =
                "`servers` of an <ldstation> is not supported: its service times say it all";
            return Err(xml.error(element, cause));
        }
        Ok(Station { name, line: xml.line(element), kind, asks })
    }

    /// The texts of one element for each class.
    fn by_class(
        &self,
        element: Element<'a>,
        inner: &str,
    ) -> Result<BTreeMap<usize, (Element<'a>, &'a str)>, ReadError> {
        let xml = self.xml;
        let mut found = BTreeMap::new();
        for child in xml.inside(element, &[inner])? {
            xml.inside(child, &[])?;
            let class = self.class_index(child, xml.attribute(child, "customerclass")?)?;
            if found.insert(class, (child, child.text().unwrap_or_default())).is_some() {
                let cause =
                    format!("class `{}` is there twice; keep one", self.classes[class].name);
                return Err(xml.error(child, cause));
            }
        }
        Ok(found)
    }

    /// `S(1);S(2);...` as S(1), with the rate curve a(n) = S(1) / S(n) that all classes share.
    fn load_dependent(
        &self,
        (element, text): (Element<'a>, &'a str),
        curve: &mut Option<Vec<f64>>,
    ) -> Result<f64, ReadError> {
        let xml = self.xml;
        let parts = text.trim().trim_end_matches(';').split(';');
        let times = parts.map(|part| xml.number(element, part)).collect::<Result<Vec<_>, _>>()?;
        let first = times[0];
        if times.iter().all(|time| *time == 0.0) {
            return Ok(0.0);
        }
        if let Some(at) = times.iter().position(|time| *time == 0.0) {
            let cause = format!("S({}) is 0, but not the others; give them all a time", at + 1);
            return Err(xml.error(element, cause));
        }
        let mut rates: Vec<f64> = times.iter().map(|time| first / time).collect();
        while rates.len() > 1 && rates[rates.len() - 1] == rates[rates.len() - 2] {
            rates.pop();
        }
        let Some(known) = curve else {
            *curve = Some(rates);
            return Ok(first);
        };
        let at = |rates: &[f64], n: usize| rates[n.min(rates.len() - 1)];
        let longest = known.len().max(rates.len());
        if (0..longest).all(|n| (at(known, n) / at(&rates, n) - 1.0).abs() <= SAME) {
            return Ok(first);
        }
        let cause = "its service times depend on the load in another way than those of the class \
                     before, so that the station has no product form; give both one curve";
        Err(xml.error(element, cause))
    }

    /// Makes visits relative to the reference station, and its time there, where it is a delay, the
    /// think time of the class.
    fn thinks(&mut self, stations: &mut [Station]) -> Result<Vec<f64>, ReadError> {
        let mut thinks = vec![0.0; self.classes.len()];
        let mut without = Vec::new();
        for (at, class) in self.classes.iter().enumerate() {
            let Load::Closed { .. } = class.load else { continue };
            let Some((name, line)) = &class.reference else {
                without.push(format!("`{}`", class.name));
                continue;
            };
            let Some(reference) = stations.iter().position(|station| station.name == *name) else {
                let way_out = suggest(name, stations.iter().map(|station| &*station.name));
                let cause = format!(
                    "class `{}` has the reference station `{name}`, which there is not; {way_out}",
                    class.name
                );
                return Err(ReadError::at(self.xml.file, *line, cause));
            };
            let per_cycle = stations[reference].asks[at].0;
            if per_cycle == 0.0 {
                let cause = format!(
                    "class `{}` never visits its reference station `{name}`; choose another one",
                    class.name
                );
                return Err(ReadError::at(self.xml.file, *line, cause));
            }
            if per_cycle != 1.0 {
                stations.iter_mut().for_each(|station| station.asks[at].0 /= per_cycle);
                self.notes.push(format!(
                    "a cycle of class `{}` is one visit of `{name}`: its visits are divided by \
                     {per_cycle}",
                    class.name
                ));
            }
            if stations[reference].kind == StationKind::Delay {
                thinks[at] = std::mem::take(&mut stations[reference].asks[at]).1;
                self.notes.push(format!(
                    "class `{}` thinks at `{name}`: that time is not counted as response",
                    class.name
                ));
            }
        }
        if !without.is_empty() {
            self.notes.push(format!(
                "no reference station of {} is named: all time in a cycle counts as response",
                without.join(", ")
            ));
        }
        Ok(thinks)
    }

    /// Every station is visited, but for delays at which some class thinks.
    fn check_visited(&self, stations: &[Station]) -> Result<(), ReadError> {
        let is_reference = |name: &str| {
            let mut references = self.classes.iter().filter_map(|class| class.reference.as_ref());
            references.any(|(of, _)| of == name)
        };
        for station in stations {
            let is_visited = station.asks.iter().any(|(visits, _)| *visits > 0.0);
            if !is_visited && !is_reference(&station.name) {
                let cause = format!(
                    "no class visits station `{}`, so that it cannot be reached; give it visits or \
                     remove it",
                    station.name
                );
                return Err(ReadError::at(self.xml.file, station.line, cause));
            }
        }
        for (at, class) in self.classes.iter().enumerate() {
            if stations.iter().all(|station| station.asks[at].0 == 0.0) {
                let cause = format!("class `{}` visits no station; give it visits", class.name);
                return Err(ReadError::at(self.xml.file, class.line, cause));
            }
        }
        Ok(())
    }

    fn built(&self, stations: &[Station], thinks: &[f64]) -> Result<Network, SolveError> {
        let mut network = Network::new();
        for (class, think) in self.classes.iter().zip(thinks) {
            match class.load {
                Load::Closed { customers, .. } => {
                    network.add_closed(&class.name, customers, *think)?
                }
                Load::Open { rate } => network.add_open(&class.name, rate)?,
            };
        }
        for station in stations {
            if station.asks.iter().all(|(visits, _)| *visits == 0.0) {
                continue;
            }
            let index = network.add_station(&station.name, station.kind.clone())?;
            for (class, &(visits, service)) in station.asks.iter().enumerate() {
                if visits > 0.0 {
                    network.set_visits(index, class, visits, service)?;
                }
            }
        }
        Ok(network)
    }
}

/// Writes a network, with its solution where there is one.
///
/// Thinking becomes a delay station, at which every closed class has its reference.
///
/// # Errors
/// If the format cannot say it: FIFO with service times that differ by class, or priorities.
pub fn write(
    name: &str,
    network: &Network,
    answer: Option<&NetworkAnswer>,
) -> Result<String, String> {
    for station in 0..network.stations() {
        check_writable(network, station)?;
    }
    let closed = |class: &usize| matches!(network.load(*class), Load::Closed { .. });
    let closed: Vec<usize> = (0..network.classes()).filter(closed).collect();
    let thinking = (!closed.is_empty()).then(|| thinking_name(network));
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"no\"?>\n");
    text += "<model xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
             xsi:noNamespaceSchemaLocation=\"JMTmodel.xsd\">\n";
    // Writing to a string does not fail.
    writeln!(text, "  <description>{}</description>\n  <parameters>", escaped(name)).ok();
    writeln!(text, "    <classes number=\"{}\">", network.classes()).ok();
    for class in 0..network.classes() {
        let name = escaped(network.class_name(class));
        match network.load(class) {
            Load::Closed { customers, .. } => {
                writeln!(
                    text,
                    "      <closedclass name=\"{name}\" population=\"{customers}\" priority=\"0\"/>"
                )
            }
            Load::Open { rate } => {
                writeln!(text, "      <openclass name=\"{name}\" priority=\"0\" rate=\"{rate}\"/>")
            }
        }
        .ok();
    }
    let stations = network.stations() + usize::from(thinking.is_some());
    writeln!(text, "    </classes>\n    <stations number=\"{stations}\">").ok();
    if let Some(thinking) = &thinking {
        let ask = |class: usize| match network.load(class) {
            Load::Closed { think, .. } => (1.0, think.to_string()),
            Load::Open { .. } => (0.0, "0".into()),
        };
        station_text(&mut text, network, ("delaystation", None), thinking, "servicetime", ask);
    }
    for station in 0..network.stations() {
        write_station(&mut text, network, station);
    }
    text += "    </stations>\n";
    if let Some(thinking) = &thinking {
        writeln!(text, "    <ReferenceStation number=\"{}\">", closed.len()).ok();
        for &class in &closed {
            let (class, station) = (escaped(network.class_name(class)), escaped(thinking));
            writeln!(text, "      <Class name=\"{class}\" refStation=\"{station}\"/>").ok();
        }
        text += "    </ReferenceStation>\n";
    }
    text += "  </parameters>\n";
    if let Some(answer) = answer {
        write_solutions(&mut text, network, answer, thinking.as_deref());
    }
    text += "</model>\n";
    Ok(text)
}

/// A name that no station has.
fn thinking_name(network: &Network) -> String {
    let is_free = |name: &String| {
        (0..network.stations()).all(|station| network.station_name(station) != name)
    };
    let names = (1..).map(|n| if n == 1 { "Think".to_owned() } else { format!("Think {n}") });
    names.into_iter().find(is_free).expect("there are more numbers than stations")
}

fn check_writable(network: &Network, station: usize) -> Result<(), String> {
    let name = network.station_name(station);
    let services = || {
        let all = (0..network.classes()).map(|class| network.visits(station, class));
        all.filter(|(visits, service)| visits * service > 0.0).map(|(_, service)| service)
    };
    let differs = services().zip(services().skip(1)).any(|(one, next)| one != next);
    match network.kind(station) {
        StationKind::Fifo { .. } if differs => Err(format!(
            "station `{name}` is first in first out with service times that differ by class, which \
             JMVA would solve as sharing; make it a sharing station"
        )),
        StationKind::Priority { .. } => {
            Err(format!("station `{name}` serves by priority, which JMVA files cannot say here"))
        }
        _ => Ok(()),
    }
}

fn write_station(text: &mut String, network: &Network, station: usize) {
    let name = network.station_name(station);
    let ask = |class: usize| network.visits(station, class);
    match network.kind(station) {
        StationKind::Delay => {
            let ask = |class| (ask(class).0, ask(class).1.to_string());
            station_text(text, network, ("delaystation", None), name, "servicetime", ask);
        }
        StationKind::Curve { rates } => {
            // As many entries as there are customers: other readers want no fewer.
            let customers = (0..network.classes()).map(|class| match network.load(class) {
                Load::Closed { customers, .. } => customers as usize,
                Load::Open { .. } => 0,
            });
            let entries = customers.sum::<usize>().clamp(rates.len(), rates.len().max(10_000));
            let rates: Vec<f64> = (0..entries).map(|n| rates[n.min(rates.len() - 1)]).collect();
            let ask = |class: usize| {
                let (visits, service) = ask(class);
                let times = rates.iter().map(|rate| inverse(service, *rate).to_string());
                (visits, times.collect::<Vec<_>>().join(";"))
            };
            station_text(text, network, ("ldstation", Some(1)), name, "servicetimes", ask);
        }
        StationKind::Fifo { servers } | StationKind::Sharing { servers } => {
            let ask = |class| (ask(class).0, ask(class).1.to_string());
            station_text(text, network, ("listation", Some(*servers)), name, "servicetime", ask);
        }
        StationKind::Priority { .. } => unreachable!("refused before anything was written"),
    }
}

/// S(n) of which S(1) / S(n) is the rate again, digit by digit, where there is such a number.
fn inverse(service: f64, rate: f64) -> f64 {
    let time = service / rate;
    let near = [time, time.next_up(), time.next_down()];
    near.into_iter().find(|near| service / near == rate).unwrap_or(time)
}

fn station_text(
    text: &mut String,
    network: &Network,
    (kind, servers): (&str, Option<u32>),
    name: &str,
    inner: &str,
    ask: impl Fn(usize) -> (f64, String),
) {
    let servers = servers.map(|n| format!(" servers=\"{n}\"")).unwrap_or_default();
    let classes = || (0..network.classes()).map(|at| (at, escaped(network.class_name(at))));
    // Writing to a string does not fail.
    writeln!(text, "      <{kind} name=\"{}\"{servers}>", escaped(name)).ok();
    text.push_str("        <servicetimes>\n");
    for (at, class) in classes() {
        let time = ask(at).1;
        writeln!(text, "          <{inner} customerclass=\"{class}\">{time}</{inner}>").ok();
    }
    text.push_str("        </servicetimes>\n        <visits>\n");
    for (at, class) in classes() {
        let visits = ask(at).0;
        writeln!(text, "          <visit customerclass=\"{class}\">{visits}</visit>").ok();
    }
    writeln!(text, "        </visits>\n      </{kind}>").ok();
}

fn write_solutions(
    text: &mut String,
    network: &Network,
    answer: &NetworkAnswer,
    thinking: Option<&str>,
) {
    text.push_str(
        "  <solutions algCount=\"1\" iteration=\"0\" iterationValue=\"0.0\" ok=\"true\" \
         solutionMethod=\"analytical\">\n",
    );
    // Writing to a string does not fail.
    let algorithm = answer.algorithm.to_string();
    let algorithm = if algorithm == "exact" { "MVA".into() } else { escaped(&algorithm) };
    writeln!(text, "    <algorithm iterations=\"0\" name=\"{algorithm}\">").ok();
    let mut station = |name: &str, of: &dyn Fn(usize) -> [f64; 4]| {
        writeln!(text, "      <stationresults station=\"{}\">", escaped(name)).ok();
        for class in 0..network.classes() {
            let name = escaped(network.class_name(class));
            writeln!(text, "        <classresults customerclass=\"{name}\">").ok();
            let kinds = ["Number of Customers", "Throughput", "Residence time", "Utilization"];
            for (kind, value) in kinds.iter().zip(of(class)) {
                writeln!(
                    text,
                    "          <measure meanValue=\"{value}\" measureType=\"{kind}\" \
                     successful=\"true\"/>"
                )
                .ok();
            }
            text.push_str("        </classresults>\n");
        }
        text.push_str("      </stationresults>\n");
    };
    if let Some(thinking) = thinking {
        station(thinking, &|class| match network.load(class) {
            Load::Closed { think, .. } => {
                let x = answer.classes[class].throughput;
                [x * think, x, think, x * think]
            }
            Load::Open { .. } => [0.0; 4],
        });
    }
    for at in 0..network.stations() {
        station(network.station_name(at), &|class| {
            let visit = answer.at(at, class);
            // Of a delay the format gives the number of jobs.
            let busy = visit.utilisation.unwrap_or(visit.jobs);
            [visit.jobs, visit.throughput, visit.residence, busy]
        });
    }
    text.push_str("    </algorithm>\n  </solutions>\n");
}
