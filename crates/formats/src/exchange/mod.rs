//! Models in our own format and in those of other tools: reading, writing, and the table of numbers
//! that all of them know.
//!
//! | file | what it is | becomes |
//! | --- | --- | --- |
//! | `.jmva` | JMT's product-form networks | [`solve::Network`]; a scenario, to be simulated |
//! | `.lqn`, `.lqnx` | layered queueing networks, text and XML | [`solve::layered::Layered`]; a scenario where its gates can say the same |
//! | anything else | a scenario | [`Scenario`] |
//!
//! What a file asks for and this program cannot do is refused with its line: a model with a part
//! left out is another model. What is left out and changes no number is a note.

mod file;
mod jmva;
mod layers;
mod lqn;
mod lqnx;
mod simulated;
mod table;
mod xml;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use advise::{
    Bounds, CacheAnswer, ClassAnswer, FormulaAnswer, NoFormula, NodeAnswer, ProductBounds,
    QueueAnswer, Scenario, Trust, product_form,
};
use measure::figures::{rate, time};
use solve::{Algorithm, Exactness, Network, NetworkAnswer};

pub use file::suggest;
pub use jmva::write as write_jmva;
pub use layers::Layers;
pub use table::{COLUMNS, cells, csv};

use file::Lines;

use crate::ReadError;
use crate::bounded;
use crate::scenario_file::{beside, parse, parse_json};

/// A model that was read, and what its file says beside it.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its content.
    pub shape: Shape,
    /// Parts of the file that were left out without a change of any number, in sentences.
    pub notes: Vec<String>,
    lines: Lines,
}

/// Content of a file.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Our own format.
    Scenario(Box<Scenario>),
    /// A network of product form.
    Network(Network),
    /// Tasks that call tasks.
    Layers(Layers),
}

/// A solved model.
#[derive(Clone, Debug)]
pub struct Solved {
    /// Formula or algorithm, and where it comes from.
    pub algorithm: String,
    /// Trust in its means.
    pub trust: Trust,
    /// Throughput and response by class; of a layered model, by reference task.
    pub classes: Vec<ClassAnswer>,
    /// Gates and stations, or tasks and processors.
    pub rows: Vec<NodeAnswer>,
    /// The one queue of the model, where there is one with nothing but delays beside it.
    pub queue: Option<QueueAnswer>,
    /// The closer bounds and the knee of a closed network of one class.
    pub product_bounds: Option<ProductBounds>,
    /// The hits of its caches.
    pub caches: Vec<CacheAnswer>,
    /// Parts that were left aside, in sentences.
    pub notes: Vec<String>,
    /// The answer as a network's, where the model was solved as one.
    pub network: Option<(Network, NetworkAnswer)>,
}

/// Reads a model from the text of a file; the name's extension says which format.
///
/// # Errors
/// If the text is not of that format, or asks for what is not supported: the place and the way out.
pub fn read(name: &str, text: &str) -> Result<Model, ReadError> {
    match extension(name).as_deref() {
        Some("jmva") => jmva::read(name, text),
        Some("lqn") => lqn::read(name, text),
        Some("lqnx") => lqnx::read(name, text),
        _ => {
            let traces = beside(Path::new(name));
            let scenario = parse(name, text, traces).map_err(ReadError::whole)?;
            let lines = Lines::new(name);
            Ok(Model { shape: Shape::Scenario(Box::new(scenario)), notes: Vec::new(), lines })
        }
    }
}

/// No model needs to be larger.
const MODEL_MIB: u64 = 64;

/// True if a file begins as a gate's recording does; what cannot be read, or not twice, does not.
pub fn is_recording(path: &Path) -> bool {
    begins(path, b"{\"sekisho-recording\"")
}

/// True if a file begins as the record of a search for a knee does; what cannot be read, or not twice, does not.
pub fn is_knee(path: &Path) -> bool {
    begins(path, b"{\"sekisho-knee\"")
}

fn begins<const N: usize>(path: &Path, beginning: &[u8; N]) -> bool {
    let mut first = [0; N];
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let mut read = || File::open(path).and_then(|mut file| file.read_exact(&mut first));
    is_file && read().is_ok() && first == *beginning
}

/// Reads a model of any format that is known.
///
/// # Errors
/// If the file cannot be read, or is not of its format: the place and the way out.
pub fn read_model(path: &Path) -> Result<Model, ReadError> {
    let name = path.display().to_string();
    if is_foreign(&name) {
        return read(&name, &text_of(path, "model")?);
    }
    Ok(Model::of_scenario(&name, read_scenario(path)?))
}

/// Reads a scenario that can be run; a model of another format becomes one.
///
/// # Errors
/// If the file cannot be read, is not of its format, or is no scenario that can be run.
pub fn read_scenario(path: &Path) -> Result<Scenario, ReadError> {
    if is_foreign(&path.display().to_string()) {
        return read_model(path)?.scenario().map_err(ReadError::whole);
    }
    let text = text_of(path, "scenario")?;
    let name = path.display().to_string();
    parse(&name, &text, beside(path)).map_err(ReadError::whole)
}

fn text_of(path: &Path, what: &str) -> Result<String, ReadError> {
    bounded::text(path, MODEL_MIB).map_err(|error| {
        ReadError::whole(format!("cannot read the {what} {}: {error}", path.display()))
    })
}

/// Reads a scenario from JSON, key by key as in a scenario file.
///
/// # Errors
/// If it is none, or cannot be run.
pub fn from_json(name: &str, text: &str) -> Result<Model, ReadError> {
    let scenario = parse_json(name, text).map_err(ReadError::whole)?;
    Ok(Model::of_scenario(name, scenario))
}

/// True if a file of this name is of another format than scenarios.
pub fn is_foreign(name: &str) -> bool {
    matches!(extension(name).as_deref(), Some("jmva" | "lqn" | "lqnx"))
}

fn extension(name: &str) -> Option<String> {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    extension.map(str::to_ascii_lowercase)
}

/// The algorithm of this name.
///
/// # Errors
/// If there is none: the known names.
pub fn method(name: &str) -> Result<Algorithm, String> {
    match name {
        "exact" => Ok(Algorithm::Exact),
        "linearizer" => Ok(Algorithm::Linearizer),
        "aql" => Ok(Algorithm::Aql),
        "bard-schweitzer" => Ok(Algorithm::BardSchweitzer),
        _ => Err(format!(
            "there is no method `{name}`; use exact, linearizer, aql or bard-schweitzer, or none"
        )),
    }
}

impl Model {
    /// The model of a scenario that was made in memory.
    pub fn of_scenario(name: &str, scenario: Scenario) -> Model {
        Model {
            shape: Shape::Scenario(Box::new(scenario)),
            notes: Vec::new(),
            lines: Lines::new(name),
        }
    }

    /// The same model as a scenario, which can be simulated.
    ///
    /// # Errors
    /// If scenarios do not know some part of it, which is named.
    pub fn scenario(&self) -> Result<Scenario, String> {
        let told = |cause: String| self.lines.tell(&cause);
        match &self.shape {
            Shape::Scenario(scenario) => Ok((**scenario).clone()),
            Shape::Network(network) => simulated::network(self.lines.file(), network).map_err(told),
            Shape::Layers(layers) => simulated::layers(self.lines.file(), layers).map_err(told),
        }
    }

    /// The same model as a network of product form.
    ///
    /// # Errors
    /// If it is none.
    pub fn network(&self) -> Result<Network, String> {
        match &self.shape {
            Shape::Network(network) => Ok(network.clone()),
            Shape::Scenario(scenario) => product_form(scenario).map_err(|none| {
                self.lines.tell(&format!("no network of product form: {}", cause(&none)))
            }),
            Shape::Layers(_) => Err(self.lines.tell(
                "a layered model is no network of product form: its tasks are held while they call",
            )),
        }
    }

    /// Solves it by formula: as told, or else as fits best.
    ///
    /// # Errors
    /// If no formula answers it, or not that one: the reason.
    pub fn solve(&self, method: Option<Algorithm>) -> Result<Solved, String> {
        let mut solved = match (&self.shape, method) {
            (Shape::Scenario(scenario), None) => self.solved_scenario(scenario)?,
            (Shape::Layers(_), Some(method)) => {
                return Err(self.lines.tell(&format!(
                    "{method} solves networks, and this is a layered model; leave out the method"
                )));
            }
            (Shape::Layers(layers), None) => {
                let scenario = self.scenario().ok();
                layers.solve(scenario.as_ref()).map_err(|error| self.lines.tell(&error))?
            }
            (Shape::Network(_) | Shape::Scenario(_), _) => {
                let network = self.network()?;
                let answer = match method {
                    Some(method) => network.solve_with(method),
                    None => network.solve(),
                };
                of_network(network, answer.map_err(|error| self.lines.tell(&error.to_string()))?)
            }
        };
        solved.notes.extend(self.notes.iter().cloned());
        Ok(solved)
    }

    fn solved_scenario(&self, scenario: &Scenario) -> Result<Solved, String> {
        let answer = formula(self.lines.file(), scenario)?;
        Ok(Solved {
            algorithm: format!("{} ({})", answer.name, answer.source),
            trust: answer.trust,
            classes: answer.classes,
            rows: answer.nodes,
            queue: answer.queue,
            product_bounds: answer.product_bounds,
            caches: answer.caches,
            notes: answer.remarks,
            network: None,
        })
    }
}

/// The formula's answer to the scenario in a file; else why there is none, and what holds all the same.
///
/// # Errors
/// If no formula answers it: the reason, and the bounds that hold without one.
pub fn formula(file: &str, scenario: &Scenario) -> Result<FormulaAnswer, String> {
    advise::formula(scenario).map_err(|none| match none {
        NoFormula::Shape { reason, bounds } => {
            let rest = bounds.map_or(String::new(), |bounds| {
                let steady = match bounds.throughput_min < bounds.throughput_max {
                    true => "",
                    false => ", in a steady state if there is one",
                };
                format!("\nwhatever the rest{steady}: {}", bounds_text(&bounds))
            });
            format!("{file}: no formula: {reason}; use `sekisho sim {file}`{rest}")
        }
        NoFormula::Scenario(_) | NoFormula::Solve(_) => format!("{file}: {none}"),
    })
}

fn bounds_text(bounds: &Bounds) -> String {
    let most = |at_most: Option<f64>| {
        at_most.map_or(String::new(), |at_most| format!(" and at most {}", time(at_most)))
    };
    format!(
        "throughput is at least {} and at most {}, the mean response at least {}{}",
        rate(bounds.throughput_min),
        rate(bounds.throughput_max),
        time(bounds.response_min),
        most(bounds.response_max)
    )
}

/// Why there is no product form, without a way out that fits formulas only.
fn cause(none: &NoFormula) -> String {
    match none {
        NoFormula::Shape { reason, .. } => reason.clone(),
        none => none.to_string(),
    }
}

fn trust(exactness: Exactness) -> Trust {
    let error = match exactness {
        Exactness::Exact => None,
        Exactness::Approximate { error, .. } => Some(error),
    };
    Trust { exact: exactness.is_exact(), error, text: exactness.to_string() }
}

fn of_network(network: Network, answer: NetworkAnswer) -> Solved {
    let mut rows = Vec::new();
    for station in 0..network.stations() {
        for class in (0..network.classes()).filter(|&class| network.visits(station, class).0 > 0.0)
        {
            let names = (network.station_name(station), network.class_name(class));
            rows.push(NodeAnswer::of_visit(names.0, names.1, answer.at(station, class)));
        }
    }
    let classes = answer.classes.iter().enumerate().map(|(class, answer)| ClassAnswer {
        name: network.class_name(class).to_owned(),
        throughput: answer.throughput,
        response: answer.response,
    });
    Solved {
        algorithm: match answer.algorithm {
            Algorithm::Exact => "network of product form, mean values or convolution".into(),
            approximate => format!("network of queues, {approximate}"),
        },
        trust: trust(answer.exactness()),
        classes: classes.collect(),
        rows,
        queue: None,
        product_bounds: None,
        caches: Vec::new(),
        notes: Vec::new(),
        network: Some((network, answer)),
    }
}
