//! The grid on which the errors that formulas state are measured: scenarios drawn at random, each from
//! a seed. The table of references is made by `examples/formula_references.rs` and read by the tests.

use std::fmt::Write;

/// Kinds of scenarios: the name, how many there are, and whether the load is open.
pub(crate) const FAMILIES: [(&str, u32, bool); 17] = [
    ("shared-open", 48, true),
    ("shared-closed", 48, false),
    ("router-open", 48, true),
    ("router-closed", 48, false),
    ("held-open", 48, true),
    ("held-closed", 48, false),
    ("nested-open", 48, true),
    ("nested-closed", 48, false),
    ("cached-open", 24, true),
    ("cached-closed", 24, false),
    ("sharing-many", 84, false),
    ("held-many", 84, false),
    ("line-open", 48, true),
    ("line-many", 60, false),
    ("inner-open", 36, true),
    ("inner-many", 72, false),
    ("router-many", 60, false),
];

/// Loads of open cases, as a share of what can be served.
pub(crate) const LOADS: [f64; 6] = [0.3, 0.5, 0.7, 0.85, 0.95, 0.98];

/// Loads that many clients would ask for if nobody ever waited, as a share of what can be served.
const SHARES: [f64; 6] = [0.4, 0.6, 0.8, 0.9, 1.0, 1.3];

/// Squared coefficients of variation of demands.
const SCVS: [f64; 5] = [0.5, 1.0, 2.0, 4.0, 8.0];

/// The same where many clients think for long, or stations are a line; 0 is a constant.
const SCVS_MANY: [f64; 6] = [0.0, 0.0, 0.5, 2.0, 4.0, 8.0];

/// A case: what a scenario is, but for its load.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) family: &'static str,
    pub(crate) seed: u32,
    /// The share of what can be served that an open load asks for, or many clients.
    pub(crate) share: f64,
    /// Everything behind the class's load.
    rest: String,
    /// The slots of the gate that is passed first: so many jobs without pause fill it.
    slots: u32,
    /// The most that they serve [1/s], where that needs no simulation.
    pub(crate) most: Option<f64>,
    /// Clients and their mean pause in milliseconds, where the load is closed.
    clients: (u32, u32),
    /// The distribution of the pause of many clients.
    think: &'static str,
}

/// A linear congruential generator (Knuth's MMIX constants), so that a seed is a case for ever.
struct Lcg(u64);

impl Lcg {
    fn unit(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From low to high, both included.
    fn count(&mut self, low: u32, high: u32) -> u32 {
        low + (self.unit() * f64::from(high - low + 1)) as u32
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.count(0, all.len() as u32 - 1) as usize]
    }

    /// A demand, and its mean \[s\].
    fn demand(&mut self, scv: f64) -> (String, f64) {
        // Two digits are written, and meant.
        let mean = ((2.0 + 18.0 * self.unit()) * 100.0).round() / 100.0;
        let shape = match (scv, self.count(0, 1)) {
            (0.0, _) => return (format!("\"{mean:.2}ms\""), mean / 1e3),
            (1.0, _) => "dist = \"exponential\"".to_owned(),
            (scv, 0) if scv > 1.0 => format!("dist = \"lognormal\", scv = {scv}"),
            (scv, _) => format!("scv = {scv}"),
        };
        (format!("{{ mean = \"{mean:.2}ms\", {shape} }}"), mean / 1e3)
    }
}

impl Case {
    /// All cases of the grid.
    pub(crate) fn all() -> Vec<Case> {
        let of = |(family, count, _): &(&'static str, u32, bool)| {
            let family = *family;
            (0..*count).map(move |seed| Case::new(family, seed)).collect::<Vec<_>>()
        };
        FAMILIES.iter().flat_map(of).collect()
    }

    fn new(family: &'static str, seed: u32) -> Case {
        let kind = kind(family) as u64;
        let mut lcg = Lcg((u64::from(seed) + 1000 * kind).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        lcg.unit();
        let (kind, load) = family.split_once('-').expect("a family is a kind and a load");
        let many = load == "many";
        let shares = if many { &SHARES } else { &LOADS };
        let share = shares[seed as usize % shares.len()];
        let scvs: &[f64] = if many || kind == "line" { &SCVS_MANY } else { &SCVS };
        // A third of the cases is exponential: where least is approximated.
        let scv = if seed.is_multiple_of(3) && kind != "sharing" { 1.0 } else { lcg.one_of(scvs) };
        let (rest, slots, most) = match Some(kind) {
            Some("sharing") => sharing(&mut lcg, scv),
            Some("line") => line(&mut lcg, scv),
            Some("inner") => inner(&mut lcg, scv),
            Some("router") if many => turns(&mut lcg, scv),
            Some("shared") => several(&mut lcg, scv, "queues = \"shared\""),
            Some("router") => {
                let router = lcg.one_of(&["round-robin", "round-robin", "random"]);
                let text = format!("queues = \"per-server\", router = \"{router}\"");
                several(&mut lcg, scv, &text)
            }
            Some("held") => held(&mut lcg, scv),
            Some("cached") => cached(&mut lcg),
            _ => nested(&mut lcg, scv),
        };
        // From far fewer clients than slots to some times as many.
        let mut clients =
            ((f64::from(slots) * (0.5 + 3.0 * lcg.unit())).ceil() as u32, lcg.count(5, 60));
        if many {
            clients.0 = slots + lcg.one_of(&[1, 5, 20, 50, 100, 200]);
        }
        let think = if many && lcg.count(0, 4) == 0 { "constant" } else { "exponential" };
        Case { family, seed, share, rest, slots, most, clients, think }
    }

    /// Index of its family, from 0.
    pub(crate) fn kind(&self) -> usize {
        kind(self.family)
    }

    pub(crate) fn is_open(&self) -> bool {
        FAMILIES.iter().any(|(name, _, open)| *name == self.family && *open)
    }

    /// True if it is known less well, to 1 %.
    pub(crate) fn is_rough(&self) -> bool {
        self.kind() >= 10
    }

    /// The scenario under this open load [1/s].
    pub(crate) fn open(&self, rate: f64) -> String {
        self.under(&format!("rate = \"{rate}/s\""))
    }

    /// The scenario under its closed load.
    pub(crate) fn closed(&self) -> String {
        let (clients, pause) = self.clients;
        self.under(&format!(
            "population = {clients}, think = {{ mean = \"{pause}ms\", dist = \"exponential\" }}"
        ))
    }

    /// True if the load is closed and its pause such that it asks for a share of what can be
    /// served.
    pub(crate) fn is_many(&self) -> bool {
        self.family.ends_with("many")
    }

    /// The scenario whose clients ask for this much if nobody ever waits [1/s].
    pub(crate) fn many(&self, rate: f64) -> String {
        let Case { clients: (clients, _), think, .. } = self;
        let pause = f64::from(*clients) / rate;
        let think = match *think {
            "constant" => format!("\"{pause:.6}s\""),
            _ => format!("{{ mean = \"{pause:.6}s\", dist = \"exponential\" }}"),
        };
        self.under(&format!("population = {clients}, think = {think}"))
    }

    /// The scenario with so many jobs that never pause that every slot of its one queue is always held:
    /// what it then serves is what it can serve.
    pub(crate) fn saturated(&self) -> String {
        self.under(&format!("population = {}", 3 * self.slots))
    }

    fn under(&self, load: &str) -> String {
        let Case { family, seed, rest, .. } = self;
        let route = match family.starts_with("cached") {
            true => "{ lookup = \"pages\", hit = [\"near\"], miss = [\"disk\", \"near\"] }",
            false => "\"first\"",
        };
        format!(
            "sekisho = 1\nname = \"{family} {seed}\"\nclass = [{{ name = \"c\", {load}, route = \
             [{route}] }}]\n{rest}"
        )
    }

    /// The line of the table: what of it is the scenario.
    pub(crate) fn key(&self) -> String {
        let mut key = String::new();
        write!(key, "{},{}", self.family, self.seed).expect("a text takes everything");
        key
    }
}

fn kind(family: &str) -> usize {
    let at = FAMILIES.iter().position(|(name, ..)| *name == family);
    at.expect("it is one of the families")
}

/// A gate before several servers that are alike, each slot with a processor of its own.
fn several(lcg: &mut Lcg, scv: f64, how: &str) -> (String, u32, Option<f64>) {
    let servers = lcg.one_of(&[2, 4, 8, 16, 64]);
    servers_of(lcg, scv, how, servers)
}

fn servers_of(lcg: &mut Lcg, scv: f64, how: &str, servers: u32) -> (String, u32, Option<f64>) {
    let slots = lcg.one_of(&[1, 1, 2, 4]);
    let (demand, mean) = lcg.demand(scv);
    let server = |i: u32| format!("{{ slots = {slots}, station = \"s{i}\" }}");
    let station = |i: u32| format!("{{ name = \"s{i}\", kind = \"queue\", servers = {slots} }}");
    let list: Vec<String> = (0..servers).map(server).collect();
    let stations: Vec<String> = (0..servers).map(station).collect();
    let text = format!(
        "gate = [{{ name = \"first\", {how}, servers = [{}], inside = [{{ visit = \"server\", demand = \
         {demand} }}] }}]\nstation = [{}]\n",
        list.join(", "),
        stations.join(", ")
    );
    let all = servers * slots;
    (text, all, Some(f64::from(all) / mean))
}

/// Slots held through two or three stations.
fn held(lcg: &mut Lcg, scv: f64) -> (String, u32, Option<f64>) {
    let slots = lcg.one_of(&[1, 2, 4, 8, 16]);
    let kind = lcg.one_of(&["queue", "sharing"]);
    let servers = lcg.count(1, 2);
    let (a, b) = (lcg.demand(scv).0, lcg.demand(scv).0);
    let (third, also) = match lcg.count(0, 1) {
        0 => ("", String::new()),
        _ => (", \"far\"", ", { name = \"far\", kind = \"delay\", demand = \"10ms\" }".to_owned()),
    };
    let text = format!(
        "gate = [{{ name = \"first\", slots = {slots}, inside = [\"cpu\", \"disk\"{third}] }}]\n\
         station = [{{ name = \"cpu\", kind = \"{kind}\", servers = {servers}, demand = {a} }}, \
         {{ name = \"disk\", kind = \"queue\", demand = {b} }}{also}]\n"
    );
    (text, slots, None)
}

/// Workers held through a CPU and connections, which are held through a database's CPU and disk.
fn nested(lcg: &mut Lcg, scv: f64) -> (String, u32, Option<f64>) {
    let workers = lcg.count(1, 12);
    let connections = lcg.count(1, workers);
    nested_of(lcg, scv, workers, connections)
}

fn nested_of(
    lcg: &mut Lcg,
    scv: f64,
    workers: u32,
    connections: u32,
) -> (String, u32, Option<f64>) {
    let kind = lcg.one_of(&["queue", "sharing"]);
    let [a, b, c] = [(); 3].map(|()| lcg.demand(scv).0);
    let text = format!(
        "gate = [{{ name = \"first\", slots = {workers}, inside = [\"cpu\", \"connections\"] }}, \
         {{ name = \"connections\", slots = {connections}, inside = [\"base\", \"disk\"] }}]\n\
         station = [{{ name = \"cpu\", kind = \"{kind}\", demand = {a} }}, \
         {{ name = \"base\", kind = \"sharing\", demand = {b} }}, \
         {{ name = \"disk\", kind = \"queue\", demand = {c} }}]\n"
    );
    (text, workers, None)
}

/// A gate before one or two processors that the holders of its slots share.
fn sharing(lcg: &mut Lcg, scv: f64) -> (String, u32, Option<f64>) {
    let processors = lcg.one_of(&[1, 1, 1, 2]);
    let slots = processors + lcg.one_of(&[0, 1, 1, 2, 3, 7, 15, 31]);
    // A few vary a lot.
    let scv = if lcg.count(0, 7) == 0 { 20.0 } else { scv };
    let (demand, mean) = lcg.demand(scv);
    let text = format!(
        "gate = [{{ name = \"first\", slots = {slots}, inside = [\"cpu\"] }}]\nstation = [{{ name = \
         \"cpu\", kind = \"sharing\", servers = {processors}, demand = {demand} }}]\n"
    );
    (text, slots, Some(f64::from(processors) / mean))
}

/// Slots held through a line of queues, which are often alike.
fn line(lcg: &mut Lcg, scv: f64) -> (String, u32, Option<f64>) {
    let slots = lcg.count(1, 6);
    let alike = lcg.count(0, 2) > 0;
    let first = lcg.demand(scv).0;
    let (mut names, mut stations) = (Vec::new(), Vec::new());
    for i in 0..lcg.count(2, 5) {
        let demand = if alike { first.clone() } else { lcg.demand(scv).0 };
        names.push(format!("\"s{i}\""));
        stations.push(format!("{{ name = \"s{i}\", kind = \"queue\", demand = {demand} }}"));
    }
    let text = format!(
        "gate = [{{ name = \"first\", slots = {slots}, inside = [{}] }}]\nstation = [{}]\n",
        names.join(", "),
        stations.join(", ")
    );
    (text, slots, None)
}

/// Workers, many perhaps, before few connections.
fn inner(lcg: &mut Lcg, scv: f64) -> (String, u32, Option<f64>) {
    let workers = lcg.one_of(&[2, 4, 8, 12, 30, 100]);
    let connections = lcg.count(1, 4).min(workers);
    nested_of(lcg, scv, workers, connections)
}

/// Servers with a queue each, dealt to in turn or by chance.
fn turns(lcg: &mut Lcg, scv: f64) -> (String, u32, Option<f64>) {
    let router = lcg.one_of(&["round-robin", "round-robin", "round-robin", "random"]);
    let servers = lcg.one_of(&[2, 4, 8, 16]);
    servers_of(lcg, scv, &format!("queues = \"per-server\", router = \"{router}\""), servers)
}

/// A cache before a disk, and a processor for all; few keys and many, few of them remembered and nearly all.
fn cached(lcg: &mut Lcg) -> (String, u32, Option<f64>) {
    let keys = lcg.one_of(&[2, 10, 100, 1000, 5000]);
    let capacity = (f64::from(keys) * lcg.one_of(&[0.02, 0.1, 0.4, 0.8])).ceil() as u32;
    let policy = lcg.one_of(&["lru", "lru", "fifo", "random"]);
    let exponent = lcg.one_of(&[0.4, 0.8, 1.2]);
    let kind = lcg.one_of(&["queue", "sharing"]);
    let servers = lcg.count(1, 2);
    let (near, disk) = (lcg.demand(1.0).0, lcg.demand(1.0).0);
    let text = format!(
        "cache = [{{ name = \"pages\", capacity = {capacity}, keys = {keys}, order = \"zipf\", exponent \
         = {exponent}, policy = \"{policy}\" }}]\nstation = [{{ name = \"near\", kind = \"sharing\", \
         demand = {near} }}, {{ name = \"disk\", kind = \"{kind}\", servers = {servers}, demand = {disk} \
         }}]\n"
    );
    (text, 12, None)
}
