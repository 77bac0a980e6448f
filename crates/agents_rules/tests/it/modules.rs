//! Messages with a module: what it sets, what is refused of it, and whole batches in one call.

use std::sync::{Arc, Mutex};

use agents::{Agent, Context, Effect, Key};
use agents_rules::{AskedAgent, Message, ModuleFile, Modules, Program, RuleAgent, Rules};
use agents_store::Content;
use gate::Time;
use serde_json::{Map, Value as Json, json};

/// Modules that all are one program, which adds the price to `sum` and notes whom it was asked for.
#[derive(Debug, Default)]
struct Adding {
    asked: Mutex<Vec<Vec<String>>>,
    files: Mutex<Vec<ModuleFile>>,
}

#[derive(Debug)]
struct Added(Arc<Adding>);

impl Program for Added {
    fn handle(
        &self,
        message: &str,
        fields: &Map<String, Json>,
        agents: &[AskedAgent],
    ) -> Vec<Result<Map<String, Json>, String>> {
        assert_eq!(message, "tick");
        let names = agents.iter().map(|it| it.agent.clone()).collect();
        self.0.asked.lock().unwrap().push(names);
        let price = fields["price"].as_f64().unwrap();
        let each = agents.iter().map(|it| match (price, it.state["sum"].as_f64().unwrap()) {
            (-1.0, _) => Err("no such price".to_owned()),
            (-2.0, _) => Ok(one("som", json!(1))),
            (-3.0, _) => Ok(one("sum", json!("1"))),
            (-4.0, _) => Ok(one("symbol", json!("B"))),
            (-5.0, _) => Ok(one("sum", json!(null))),
            (0.0, _) => Ok(Map::new()),
            (price, sum) => Ok(one("sum", json!(price + sum))),
        });
        each.collect()
    }
}

fn one(name: &str, value: Json) -> Map<String, Json> {
    Map::from_iter([(name.to_owned(), value)])
}

#[derive(Debug)]
struct All(Arc<Adding>);

impl Modules for All {
    fn module(&self, file: &ModuleFile) -> Result<Arc<dyn Program>, String> {
        self.0.files.lock().unwrap().push(file.clone());
        match file.path.to_str() {
            Some("none.wasm") => Err("there is no such module".to_owned()),
            _ => Ok(Arc::new(Added(self.0.clone()))),
        }
    }
}

const TEXT: &str = r#"[agent]
state = { symbol = "text", high = "number", sum = 0 }

[modules.adding]
file = "adding.wasm"

[messages.tick]
fields = { symbol = "text", price = "number" }
module = "adding"

[rules.much]
on = "tick"
when = "sum > high"
"#;

fn rules() -> (Arc<Rules>, Arc<Adding>) {
    let adding = Arc::new(Adding::default());
    let modules: Arc<dyn Modules> = Arc::new(All(adding.clone()));
    (Rules::read_with("r.toml", TEXT, None, &modules).unwrap(), adding)
}

fn agent(rules: &Arc<Rules>, name: &str, symbol: &str) -> RuleAgent {
    let fields = json!({ "symbol": symbol, "high": 10 });
    let declared = rules.declaration(name, &fields).unwrap();
    let mut agent = RuleAgent::create(rules.key(name).unwrap(), &declared).unwrap();
    agent.on(&declared, &mut Context::new(Time::ZERO, Key(0), 0)).unwrap();
    agent
}

fn tick(rules: &Arc<Rules>, price: f64) -> Message {
    rules.event("tick", &json!({ "symbol": "A", "price": price })).unwrap()
}

/// The effect, and the number of notifications.
fn give(agent: &mut RuleAgent, message: &Message) -> (Effect, u64) {
    let mut cx = Context::new(Time::ZERO, Key(0), 0);
    (agent.on(message, &mut cx).unwrap(), cx.fired())
}

#[test]
fn a_module_sets_fields_that_rules_judge() {
    let (rules, adding) = rules();
    let mut alice = agent(&rules, "alice", "A");
    assert_eq!(give(&mut alice, &tick(&rules, 6.0)), (Effect::Dirty, 0));
    assert_eq!(alice.fields()["sum"], json!(6.0));
    assert_eq!(give(&mut alice, &tick(&rules, 5.0)), (Effect::Dirty, 1), "11 is more than 10");
    assert_eq!(give(&mut alice, &tick(&rules, 5.0)).1, 0, "it has crossed already");
    let decided = &alice.decisions()[0];
    assert_eq!(decided.before.as_ref().unwrap()["sum"], json!(6.0));
    assert_eq!(decided.changed["sum"], json!(11.0));
    // A message for others is no question.
    let asked = adding.asked.lock().unwrap().len();
    let mut bob = agent(&rules, "bob", "B");
    assert_eq!(give(&mut bob, &tick(&rules, 6.0)), (Effect::Clean, 0));
    assert_eq!(adding.asked.lock().unwrap().len(), asked);
    assert_eq!(give(&mut alice, &tick(&rules, 0.0)), (Effect::Clean, 0), "it sets nothing");
}

#[test]
fn a_batch_is_asked_for_once_and_only_as_long_as_it_holds() {
    let (rules, adding) = rules();
    let names = ["a", "b", "c", "d"];
    let mut all: Vec<RuleAgent> =
        names.map(|name| agent(&rules, name, if name == "c" { "C" } else { "A" })).into();
    let message = tick(&rules, 4.0);
    let precompute = |all: &[RuleAgent], message: &Message| {
        assert!(RuleAgent::precomputes(message));
        let batch: Vec<(&RuleAgent, &Message)> = all.iter().map(|it| (it, message)).collect();
        RuleAgent::precompute(&batch);
    };
    precompute(&all, &message);
    all.iter_mut().for_each(|it| _ = give(it, &message));
    let sums = |all: &[RuleAgent]| -> Vec<Json> {
        all.iter().map(|it| it.fields()["sum"].clone()).collect()
    };
    let expected: Vec<Json> = [4.0, 4.0, 0.0, 4.0].map(|sum| json!(sum)).into();
    assert_eq!(expected, sums(&all));
    assert_eq!(std::mem::take(&mut *adding.asked.lock().unwrap()), [["a", "b", "d"]]);
    // Another message came between: the answer is of another state, and is not taken.
    precompute(&all, &message);
    give(&mut all[0], &tick(&rules, 1.0));
    all.iter_mut().for_each(|it| _ = give(it, &message));
    let expected: Vec<Json> = [9.0, 8.0, 0.0, 8.0].map(|sum| json!(sum)).into();
    assert_eq!(expected, sums(&all));
    let asked: Vec<Vec<String>> = std::mem::take(&mut *adding.asked.lock().unwrap());
    assert_eq!(asked, [vec!["a", "b", "d"], vec!["a"], vec!["a"]]);
    // The same fields for another message of the same state.
    precompute(&all, &message);
    assert_eq!(give(&mut all[1], &tick(&rules, 1.0)).0, Effect::Dirty);
    assert_eq!(all[1].fields()["sum"], json!(9.0));
}

#[test]
fn an_answer_that_does_not_fit_is_a_failure_of_the_message() {
    let (rules, _) = rules();
    let table = [
        (-1.0, "the module `adding`: no such price"),
        (-2.0, "the module `adding`: it sets `som`, which the state does not have"),
        (-3.0, "the module `adding`: `sum` is a number, and it sets \"1\""),
        (-4.0, "the module `adding`: it sets `symbol`, which says for which agents the message is"),
        (-5.0, "the module `adding`: `sum` is a number, and it sets null"),
    ];
    for (price, cause) in table {
        let mut alice = agent(&rules, "alice", "A");
        let mut cx = Context::new(Time::ZERO, Key(0), 0);
        let failed = alice.on(&tick(&rules, price), &mut cx).unwrap_err();
        assert_eq!(failed.0, cause);
        assert_eq!(alice.fields()["sum"], json!(0.0));
    }
}

/// A change of the rules is kept as a text: what is read again has its modules.
#[test]
fn a_kept_change_has_its_modules() {
    let (rules, _) = rules();
    let mut bytes = Vec::new();
    rules.changed(None).encode(&mut bytes);
    let mut kept = Message::decode(&bytes).unwrap();
    let adding = Arc::new(Adding::default());
    let modules: Arc<dyn Modules> = Arc::new(All(adding));
    let other = TEXT.replace("high = \"number\"", "high = 3");
    kept.by(&Rules::read_with("r.toml", &other, None, &modules).unwrap());
    assert!(kept.is_change(), "{}", kept.told(200));
}

#[test]
fn somebody_else_names_modules_that_run_here_alone() {
    let (rules, _) = rules();
    let other = TEXT.replace("sum > high", "sum > 2 * high");
    rules.try_text("rules", &other).unwrap();
    let error = rules.try_text("rules", &TEXT.replace("adding.wasm", "/etc/passwd")).unwrap_err();
    assert!(error.to_string().contains("the server does not run this module"), "{error}");
}

#[test]
fn a_wrong_module_is_told_with_its_place() {
    let hash = "0123456789abcdef".repeat(4);
    let table = [
        (
            "module = \"adding\"",
            "module = \"ading\"",
            "r.toml:9:10: unknown module `ading`; did you mean `adding`?",
        ),
        (
            "module = \"adding\"",
            "module = \"adding\"\nset = { sum = \"price\" }",
            "r.toml:10:15: a message has `set` or `module`: leave one of them out",
        ),
        ("adding.wasm\"", "none.wasm\"", "r.toml:5:8: there is no such module"),
        ("\"adding.wasm\"", "\"\"", "r.toml:5:8: a module is a file, such as \"portfolio.wasm\""),
        (
            "adding.wasm\"",
            "adding.wasm\"\nsha256 = \"0A\"",
            "r.toml:6:10: a SHA-256 is 64 digits, 0 to 9 and a to f: as `sha256sum` prints it",
        ),
        (
            "adding.wasm\"",
            "adding.wasm\"\nmemory = \"2GiB\"",
            "r.toml:6:10: a size such as \"16MiB\" is wanted, 1 to 1024 MiB",
        ),
        (
            "adding.wasm\"",
            "adding.wasm\"\ninstructions = 0",
            "r.toml:6:16: a module needs at least 1 instruction",
        ),
        ("file =", "fil =", "r.toml:5:1: unknown key `fil`; did you mean `file`?"),
    ];
    let adding = Arc::new(Adding::default());
    let modules: Arc<dyn Modules> = Arc::new(All(adding.clone()));
    for (from, to, told) in table {
        assert!(TEXT.contains(from), "{from}");
        let text = TEXT.replacen(from, to, 1);
        let error = Rules::read_with("r.toml", &text, None, &modules).expect_err(to).to_string();
        assert!(error.starts_with(told), "{told}: {error}");
    }
    adding.files.lock().unwrap().clear();
    let keys = format!("adding.wasm\"\nsha256 = \"{hash}\"\nmemory = \"2MiB\"\ninstructions = 9");
    Rules::read_with("r.toml", &TEXT.replace("adding.wasm\"", &keys), None, &modules).unwrap();
    let file = ModuleFile {
        path: "adding.wasm".into(),
        sha256: Some(hash),
        memory: 2 << 20,
        instructions: 9,
    };
    assert_eq!(*adding.files.lock().unwrap(), [file]);
}

#[test]
fn without_webassembly_a_module_is_refused_with_the_way_out() {
    let error = Rules::read("r.toml", TEXT).unwrap_err().to_string();
    assert!(error.starts_with("r.toml:5:8: this program was built without WebAssembly"), "{error}");
    assert!(error.contains("`cargo build --release -p sekisho --features wasm`"), "{error}");
}
