//! JSONPath: the examples of RFC 9535, a witness that shares no code, texts that are none, and documents of a tree.

use jungle_server::JsonPath;
use serde_json::{Value, json};

use crate::chance::{Chance, seeds};
use crate::client::{Folder, Site};

fn found(document: &Value, query: &str) -> Vec<(String, Value)> {
    let query: JsonPath = query.parse().unwrap_or_else(|error| panic!("{error}"));
    let found = query.find(document, 1_000_000).unwrap();
    found.iter().map(|one| (one.path(), one.value.clone())).collect()
}

fn paths(document: &Value, query: &str) -> Vec<String> {
    found(document, query).into_iter().map(|(path, _)| path).collect()
}

/// RFC 9535, figure 1.
fn store() -> Value {
    json!({"store": {
        "book": [
            {"category": "reference", "author": "Nigel Rees", "title": "Sayings of the Century", "price": 8.95},
            {"category": "fiction", "author": "Evelyn Waugh", "title": "Sword of Honour", "price": 12.99},
            {"category": "fiction", "author": "Herman Melville", "title": "Moby Dick", "isbn": "0-553-21311-3", "price": 8.99},
            {"category": "fiction", "author": "J. R. R. Tolkien", "title": "The Lord of the Rings", "isbn": "0-395-19395-8", "price": 22.99}
        ],
        "bicycle": {"color": "red", "price": 399}
    }})
}

/// RFC 9535, tables 2 and 12 and section 2.3.5.3.
#[test]
fn the_examples_of_the_rfc() {
    let book = |numbers: &[usize]| {
        numbers.iter().map(|number| format!("$['store']['book'][{number}]")).collect::<Vec<_>>()
    };
    for (query, numbers) in [
        ("$..book[2]", &[2][..]),
        ("$..book[-1]", &[3]),
        ("$..book[0,1]", &[0, 1]),
        ("$..book[:2]", &[0, 1]),
        ("$..book[?@.isbn]", &[2, 3]),
        ("$..book[?@.price<10]", &[0, 2]),
        ("$..book[?@.price < 10 && !@.isbn]", &[0]),
        ("$..book[?@.category == 'fiction' || @.price == 8.95]", &[0, 1, 2, 3]),
        ("$..book[?match(@.author, 'J.*')]", &[3]),
        ("$..book[?search(@.author, 'el')]", &[0, 1, 2]),
        ("$..book[?length(@.title) == 9]", &[2]),
        ("$.store.book[?@.price == $.store.book[1].price]", &[1]),
        ("$..book[?count(@.*) > 4]", &[2, 3]),
        ("$..book[?value(@..price) == 22.99]", &[3]),
        ("$..book[3:0:-2]", &[3, 1]),
        ("$..book[::0]", &[]),
    ] {
        assert_eq!(paths(&store(), query), book(numbers), "{query}");
    }
    assert_eq!(paths(&store(), "$.store.*").len(), 2);
    assert_eq!(paths(&store(), "$..author").len(), 4);
    assert_eq!(paths(&store(), "$..*").len(), 27);
    // Comparisons, table 11.
    let document = json!({"obj": {"x": "y"}, "arr": [2, 3]});
    for (test, holds) in [
        ("$.absent1 == $.absent2", true),
        ("$.absent1 <= $.absent2", true),
        ("$.absent == 'g'", false),
        ("$.absent1 != $.absent2", false),
        ("$.absent != 'g'", true),
        ("1 <= 2", true),
        ("1 > 2", false),
        ("13 == '13'", false),
        ("'a' <= 'b'", true),
        ("'a' > 'b'", false),
        ("$.obj == $.arr", false),
        ("$.obj != $.arr", true),
        ("$.obj == $.obj", true),
        ("$.arr == $.arr", true),
        ("$.obj == 17", false),
        ("$.obj <= $.arr", false),
        ("$.obj <= $.obj", true),
        ("1 <= $.arr", false),
        ("true <= true", true),
        ("true > true", false),
        ("1 == 1.0e0", true),
        ("$.arr[-1] == 3", true),
        ("@[-2] == 2", true),
        ("length($.absent) >= $.absent", true),
        ("value($..absent) == length(1)", true),
    ] {
        let is_so = !paths(&document, &format!("$[?{test}]")).is_empty();
        assert_eq!(is_so, holds, "{test}");
    }
    let odd = json!({"a'b\\\n\u{1}": 1, "\u{263a}": 2});
    assert_eq!(
        paths(&odd, "$['a\\'b\\\\\\n\\u0001', \"\\u263A\", '\\uD83D\\uDE00']"),
        ["$['a\\'b\\\\\\n\\u0001']", "$['\u{263a}']"]
    );
}

#[test]
fn texts_that_are_no_queries_are_refused_at_their_place() {
    let deep = format!("$[?{}@{}]", "(".repeat(70), ")".repeat(70));
    let doubled = format!("$[?{}@.a{}", "length(".repeat(60), ")".repeat(60));
    for (text, at, words) in [
        ("", 0, "`$` is wanted"),
        ("$.", 2, "a name"),
        ("$ ", 1, "a segment"),
        (" $", 0, "`$`"),
        ("$[01]", 2, "leading 0"),
        ("$[-0]", 2, "-0"),
        ("$[9007199254740992]", 2, "2^53"),
        ("$['a]", 5, "no end"),
        ("$['\\x']", 4, "an escape"),
        ("$['\\uD800']", 9, "alone"),
        ("$[?1]", 4, "value alone"),
        ("$[?@.a == ]", 10, "is wanted"),
        ("$[?@.* == 1]", 3, "one value"),
        ("$[?length(@.*) > 1]", 10, "one value"),
        ("$[?count(1) > 1]", 9, "a query"),
        ("$[?match(@.a, 'a') == true]", 3, "one value"),
        ("$[?nothing(@)]", 3, "no such function"),
        ("$[?@.a == 1 == 2]", 12, "`,` or `]`"),
        ("$[1, ]", 5, "a selector"),
        ("$..", 3, "a name"),
        ("$.a b", 3, "a segment"),
        ("$.1", 2, "a name"),
        (&deep, 67, "64 levels"),
        (&doubled, 486, "value alone"),
    ] {
        let error = text.parse::<JsonPath>().expect_err(text);
        assert_eq!((error.at, error.wanted.contains(words)), (at, true), "{text}: {error}");
    }
    let large = "$[?match(@, '[a-z]{9999}')]".parse::<JsonPath>().unwrap_err();
    assert!(large.at == 12 && large.wanted.contains("64 KiB"), "{large}");
    let long = format!("$.{}", "a".repeat(5_000));
    assert!(long.parse::<JsonPath>().is_err());
}

#[test]
fn a_query_that_would_take_too_long_is_broken_off() {
    let document: Value = (0..2_000).collect();
    for query in [
        "$[?$[?$[?@ == 3]]]",
        "$[?value($..*) == 3 || $[?@ > 5000]]",
        "$[?search('aaa', @) || $[?@ == 'a']]",
    ] {
        let query: JsonPath = query.parse().unwrap_or_else(|error| panic!("{error}"));
        assert!(query.find(&document, 100_000).is_err());
    }
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!([deep, 1]);
    }
    let query: JsonPath = "$..*..*..*..*..*..*".parse().unwrap();
    assert_eq!(query.find(&deep, 1_000_000).unwrap_err().0, 1_000_000);
}

/// The story: steps were counted for lists, and not for the scalars in them, for the length of texts, for the expressions
/// that were compiled, and for what was found: a query of a line held a processor for minutes, or all of the memory.
#[test]
fn whatever_takes_time_or_memory_is_counted() {
    let texts = |bytes: usize| json!({"s": "a".repeat(bytes), "a": (0..1_000).map(|at| json!({"n": at})).collect::<Value>()});
    let scalars = json!({"a": (0..1_000).collect::<Value>(), "b": (0..10_000).collect::<Value>()});
    let compiled =
        |pattern: &str| (0..1_000).map(|_| json!({"t": "word", "p": pattern})).collect::<Value>();
    let numbers: Value = (0..200_000).collect();
    for (document, query) in [
        (&scalars, "$.a[?$.b..x]"),
        (&scalars, "$.a[?$..[?@ == -1]]"),
        (&texts(1 << 20), "$.a[?$.s == $.s]"),
        (&texts(1 << 20), "$.a[?$.s <= $.s]"),
        (&texts(1 << 20), "$.a[?length($.s) > 0]"),
        (&texts(1 << 16), "$.a[?search($.s, 'a{0,90}b')]"),
        (&compiled("\\w{200}"), "$[?match(@.t, @.p)]"),
        (&texts(1 << 14), "$.a[?search($.s, '(a|b)*a((a|b){9}){9}c')]"),
        (&compiled("w.*"), "$[?match(@.t, @.p)]"),
        (&numbers, "$[*,*,*,*,*,*,*,*,*]"),
    ] {
        let parsed: JsonPath = query.parse().unwrap_or_else(|error| panic!("{error}"));
        let found = parsed.find(document, 10_000_000);
        assert_eq!(
            found.map(|found| found.len()).err().map(|error| error.0),
            Some(10_000_000),
            "{query}"
        );
    }
    // What is in reach of a query goes on.
    let few: Value = (0..100).map(|_| json!({"t": "word", "p": "w.*"})).collect();
    assert_eq!(paths(&few, "$[?match(@.t, 'w.*')]").len(), 100);
    let query: JsonPath = "$[?match(@.t, @.p)]".parse().unwrap();
    assert_eq!(query.find(&few, 10_000_000).map(|found| found.len()), Ok(100));
}

/// A class of RFC 9485 has no operations: `&&`, `~~` and `--` in it are characters.
#[test]
fn a_class_of_a_regular_expression_is_a_list_of_characters() {
    let document = json!(["a", "&", "b", "~", "-", "+", ",", ".", "ab", "^"]);
    let found = |pattern: &str| {
        let texts = found(&document, &format!("$[?match(@, '{pattern}')]"));
        texts.iter().map(|(_, text)| text.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found("[a&&b]"), ["a", "&", "b"]);
    assert_eq!(found("[a~~b]"), ["a", "b", "~"]);
    assert_eq!(found("[--]"), ["-"]);
    assert_eq!(found("[-a-]"), ["a", "-"]);
    assert_eq!(found("[a--b]"), ["a", "b", "-"]);
    assert_eq!(found("[a-b]"), ["a", "b"]);
    assert_eq!(found("[+-.]"), ["-", "+", ",", "."]);
    assert_eq!(found("[^a&&b]"), ["~", "-", "+", ",", ".", "^"]);
    assert_eq!(found("[\\\\-.]"), ["-", "."]);
    assert_eq!(found("[^^]").len(), 8, "all of one character but ^");
    assert_eq!(found("[\\\\p{L}&]"), ["a", "&", "b"]);
    // What RFC 9485 has not: a class within a class, one that begins with its end, flags, and blanks in a count, behind
    // which the time of a match was not counted.
    let none =
        ["[a[b]]", "[].]", "[^].]", "[]a]", "(?i)A", "(?x)a", "(?:a)", "a{ 1 }", "a{1, 2}", "a{b}"];
    for pattern in none {
        assert!(found(pattern).is_empty(), "{pattern}");
    }
    assert_eq!(found("a{1,2}"), ["a"]);
}

impl Chance {
    fn one(&mut self, texts: &[&str]) -> String {
        texts[self.below(texts.len())].to_owned()
    }

    fn document(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 5 } else { 9 }) {
            0 => json!(self.below(4) as i64 - 1),
            1 => json!(self.below(8) as f64 / 4.0),
            2 => json!(self.one(&["", "a", "b", "ab", "\u{e4}\u{1f600}"])),
            3 => json!(self.below(2) == 0),
            4 => Value::Null,
            5 | 6 => (0..self.below(5)).map(|_| self.document(depth - 1)).collect(),
            _ => {
                let members = (0..self.below(5)).map(|_| {
                    (self.one(&["a", "b", "c", "d e", "\u{e4}"]), self.document(depth - 1))
                });
                Value::Object(members.collect())
            }
        }
    }

    /// Without negative indexes: within a filter the witness (0.7.2) finds nothing by them.
    fn singular(&mut self) -> String {
        let mut text = self.one(&["@", "@", "$"]);
        for _ in 0..self.below(3) {
            text += &self.one(&[".a", "['b']", "[0]", "[1]", ".c"]);
        }
        text
    }

    fn literal(&mut self) -> String {
        self.one(&["1", "0", "-1", "0.25", "1e0", "'a'", "\"ab\""])
    }

    fn operand(&mut self) -> String {
        match self.below(5) {
            0 => format!("length({})", self.singular()),
            1 => format!("count({})", self.query(1, "@")),
            2 => format!("value({})", self.query(1, "@")),
            _ => self.singular(),
        }
    }

    /// Neither of two values there, they are at most each other (table 11 of the RFC), and true is not more than false:
    /// not so to the witness. So the order is asked only with numbers and texts.
    fn comparison(&mut self) -> String {
        let left = self.operand();
        let order = self.one(&["==", "!=", "<", "<=", ">", ">="]);
        match self.below(4) {
            0 => format!("{left} {} {}", self.one(&["==", "!="]), self.operand()),
            1 => format!("{left} {} {}", self.one(&["==", "!="]), self.one(&["true", "null"])),
            2 => format!("{left} {order} {}", self.literal()),
            _ => format!("{} {order} {left}", self.literal()),
        }
    }

    fn test(&mut self, depth: usize) -> String {
        match self.below(if depth == 0 { 4 } else { 8 }) {
            0 | 1 => self.comparison(),
            2 => self.query(depth.min(1), "@"),
            3 => {
                let function = self.one(&["match", "search"]);
                format!(
                    "{function}({}, {})",
                    self.singular(),
                    self.one(&["'a.?'", "'[ab]'", "'b$'"])
                )
            }
            4 => format!("{} && {}", self.test(depth - 1), self.test(depth - 1)),
            5 => format!("{} || {}", self.test(depth - 1), self.test(depth - 1)),
            6 => format!("!({})", self.test(depth - 1)),
            _ => format!("({})", self.test(depth - 1)),
        }
    }

    fn selector(&mut self, depth: usize) -> String {
        match self.below(if depth == 0 { 4 } else { 6 }) {
            0 => self.one(&["'a'", "\"b\"", "'d e'", "'\u{e4}'"]),
            1 => "*".to_owned(),
            2 => self.one(&["0", "1", "-1", "-7"]),
            3 => self.one(&["1:", ":-1", "::2", "::-1", "3:0:-2", "-2:", "0:9:1", "::0"]),
            _ => format!("?{}", self.test(depth - 1)),
        }
    }

    fn query(&mut self, depth: usize, begin: &str) -> String {
        let mut text = begin.to_owned();
        for _ in 0..self.below(4) {
            text += &match self.below(5) {
                0 => self.one(&[".a", ".b", ".*", ".\u{e4}"]),
                1 => self.one(&["..a", "..*"]),
                2 => format!("..[{}]", self.selector(depth)),
                3 => format!("[{}, {}]", self.selector(depth), self.selector(depth)),
                _ => format!("[{}]", self.selector(depth)),
            };
        }
        text
    }
}

/// Random queries of random documents find what the crate serde_json_path finds, in the same order. `SEKISHO_SEED`
/// replays one.
#[test]
fn a_witness_finds_the_same() {
    let mut some = 0;
    seeds("a_witness_finds", 20_000, |seed, chance| {
        let document = chance.document(4);
        let query = chance.query(3, "$");
        let witness = serde_json_path::JsonPath::parse(&query)
            .unwrap_or_else(|error| panic!("seed {seed}: {query}: {error}"));
        let theirs = witness.query_located(&document);
        let theirs: Vec<(String, Value)> =
            theirs.iter().map(|one| (one.location().to_string(), one.node().clone())).collect();
        let ours = found(&document, &query);
        assert_eq!(ours, theirs, "seed {seed}: {query} of {document}");
        some += usize::from(!ours.is_empty());
    });
    let is_one = std::env::var_os("SEKISHO_SEED").is_some();
    assert!(is_one || some > 4_000, "only {some} queries found anything");
}

#[test]
fn a_document_is_asked_in_pages_of_one_version() {
    let folder = Folder::new();
    let site = Site::start(&folder.join("data"));
    site.put("/trees/shop", None).is(201);
    let body = json!({"json": store()});
    let made = site.post("/trees/shop/nodes/root/children", &body).is(201);
    let id = made["made"][0].as_str().unwrap().to_owned();
    let place = format!("/trees/shop/nodes/{id}/query");
    let all = site.get(&format!("{place}?path=$..price&order=$&descending=true")).is(200);
    let prices = |answer: &Value| {
        let matches = answer["matches"].as_array().unwrap();
        matches.iter().map(|one| one["value"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(prices(&all), [399.0, 22.99, 12.99, 8.99, 8.95]);
    assert_eq!((&all["count"], &all["next_after"]), (&json!(5), &Value::Null));
    assert_eq!(all["matches"][0]["attribute"], "price");
    assert_eq!(all["matches"][0]["path"], "$['store']['bicycle']['price']");
    let books = "path=$..book[*]&order=$.price&limit=3";
    let first = site.get(&format!("{place}?{books}")).is(200);
    let title = |answer: &Value, at: usize| answer["matches"][at]["value"]["title"].clone();
    assert_eq!(title(&first, 0), "Sayings of the Century");
    // The node that it names is the value's own, and others may change it before the next page is asked for.
    let node = first["matches"][0]["node"].as_str().unwrap().to_owned();
    let own = site.get(&format!("/trees/shop/nodes/{node}?as=json")).is(200);
    assert_eq!(own, first["matches"][0]["value"]);
    site.ask("DELETE", &format!("/trees/shop/nodes/{node}"), None).is(200);
    let after = first["next_after"].as_str().unwrap();
    let second = site.get(&format!("{place}?{books}&after={after}")).is(200);
    assert_eq!(
        (title(&second, 0), &second["next_after"]),
        (json!("The Lord of the Rings"), &Value::Null)
    );
    assert_eq!(site.get(&format!("{place}?{books}")).is(200)["count"], 3);
    let filter = "%24..book%5B%3F%40.price%20%3C%2010%5D.title";
    assert_eq!(site.get(&format!("{place}?path={filter}")).is(200)["count"], 1);
    site.get(&place).is_problem(400, &["path", "JSONPath"]);
    site.get(&format!("{place}?path=a")).is_problem(400, &["`a`", "byte 0", "`$`"]);
    site.get(&format!("{place}?path=$&order=$[")).is_problem(400, &["order", "byte 2"]);
    site.get(&format!("{place}?path=$&descending=1")).is_problem(400, &["descending"]);
    site.get(&format!("{place}?path=$&after=9")).is_problem(400, &["next_after"]);
    site.get(&format!("{place}?path=$&after=9.1.1")).is_problem(410, &["generation"]);
    for wrong in ["limit=0", "at=1&after=1.1.1", "descending=true"] {
        let word = wrong.split('=').next().unwrap();
        site.get(&format!("{place}?path=$&{wrong}")).is_problem(400, &[word]);
    }
    site.get("/trees/shop/nodes/root/query?path=$").is_problem(422, &["no JSON"]);
}

/// The story: numbers were compared as floating-point ones or exactly, by the kinds of the two, which is no order; a sort
/// that sees that panics. And whatever was refused was called an edit.
#[test]
fn numbers_beyond_2_53_are_ordered_and_a_query_that_takes_too_long_is_no_edit() {
    let folder = Folder::new();
    let site = Site::start(&folder.join("data"));
    site.put("/trees/board", None).is(201);
    let number = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let three = ["9007199254740993", "9007199254740992.0", "9007199254740992"].map(number);
    let list: Value = (0..100).map(|at| three[at * 7 % 3].clone()).collect();
    let made = site.post("/trees/board/nodes/root/children", &json!({"json": list})).is(201);
    let place = format!("/trees/board/nodes/{}/query", made["made"][0].as_str().unwrap());
    let answer = site.get(&format!("{place}?path=$[*]&order=$")).is(200);
    let last = |at: usize| answer["matches"][at]["value"].clone();
    assert_eq!((&answer["count"], last(99)), (&json!(100), three[0].clone()));
    assert_ne!(last(0), three[0]);
    let long = "?path=$[?$[?$[?$[?@ == 1]]]]";
    let refused = site.get(&format!("{place}{}", long.replace(' ', "%20")));
    refused.is_problem(422, &["10000000 steps"]);
    assert_eq!(refused.json()["title"], "The query takes too long");
    assert_eq!(refused.json()["type"], "/problems/too-long");
}

/// Members with names that a pointer escapes, in objects of many: each is named by its own node.
#[test]
fn a_page_names_the_node_of_each_value() {
    let folder = Folder::new();
    let site = Site::start(&folder.join("data"));
    site.put("/trees/board", None).is(201);
    let member = |at: usize| (format!("m~{at}/$"), json!({"n": at, "list": [{"n": at}]}));
    let whole = Value::Object((0..300).map(member).collect());
    let made = site.post("/trees/board/nodes/root/children", &json!({"json": whole})).is(201);
    let place = format!("/trees/board/nodes/{}/query", made["made"][0].as_str().unwrap());
    let answer = site.get(&format!("{place}?path=$..%5B%3F@.n%3E=0%5D&limit=1000"));
    let answer = answer.is(200);
    let matches = answer["matches"].as_array().unwrap();
    assert_eq!(matches.len(), 600);
    for one in matches.iter().step_by(37) {
        let node = one["node"].as_str().unwrap();
        let own = site.get(&format!("/trees/board/nodes/{node}?as=json")).is(200);
        assert_eq!(own, one["value"], "{one}");
    }
}
