//! Tests of scripts: what is read, what is refused and where, and what the programs do.

use workload::stream;

use super::*;

fn read(text: &str, protocol: Protocol) -> Result<Scripts, String> {
    let source = Source { name: "shop.sql".into(), text: text.into(), weight: 1 };
    Scripts::read(&[source], &[("given".into(), "12".into())], protocol)
        .map_err(|error| error.to_string())
}

/// Statements that a client sends in one transaction, with the values that it has by then.
fn sent(text: &str) -> Vec<String> {
    let scripts = read(text, Protocol::Simple).unwrap();
    let mut variables = scripts.variables(3, 42);
    let mut chance = stream(1, 0);
    let (mut at, mut all) = (0, Vec::new());
    let commands = &scripts.all()[0].commands;
    while let Some(command) = commands.get(at) {
        at += 1;
        match command {
            Command::Sql(statement) => {
                let mut out = String::new();
                scripts.write(statement, &variables, &mut out).unwrap();
                all.push(out);
            }
            Command::Set(assignment) => {
                scripts.assign(assignment, &mut variables, &mut chance).unwrap();
            }
            Command::Sleep(pause) => {
                all.push(format!("{:?}", scripts.pause(pause, &variables).unwrap()));
            }
            Command::Unless(condition, to) => {
                if !scripts.holds(condition, &variables, &mut chance).unwrap() {
                    at = *to;
                }
            }
            Command::Jump(to) => at = *to,
            _ => all.push("pipeline".into()),
        }
    }
    all
}

#[test]
fn variables_and_branches_do_what_pgbench_does() {
    for (text, wanted) in [
        ("\\set a 2 * 3\nselect :a, :given, :client_id;", vec!["select 6, 12, 3"]),
        ("\\set a \\\n 1 + \\\n 1\nselect :a", vec!["select 2"]),
        ("\\set a 1.0 / 4\nselect ':a', '{\"k\":true}'", vec!["select '0.25', '{\"k\":true}'"]),
        ("\\set a null\nselect :a::int", vec!["select NULL::int"]),
        ("select 1 \\set a 7\nselect :a", vec!["select 1", "select 7"]),
        ("\\if 1 = 1\na;\n\\else\nb;\n\\endif\nc;", vec!["a", "c"]),
        ("\\if 0\na;\n\\elif :given > 11\nb;\n\\else\nc;\n\\endif", vec!["b"]),
        ("\\if null\na;\n\\elif false\nb;\n\\else\nc;\n\\endif", vec!["c"]),
        (
            "\\if true\n\\if false\na;\n\\else\nb;\n\\endif\n\\elif true\nc;\n\\endif\nd;",
            vec!["b", "d"],
        ),
        ("\\sleep 5 ms\n\\sleep 2us\n\\sleep 1\n\\sleep :given MS\na;", {
            vec!["5ms", "2µs", "1s", "12ms", "a"]
        }),
        ("\\set n -3\n\\sleep :n s\na;", vec!["0ns", "a"]),
        ("begin;\nupdate t set x = :given;\nend;", vec!["begin", "update t set x = 12", "end"]),
        ("select 1 \\; select 2;", vec!["select 1 ; select 2"]),
    ] {
        assert_eq!(sent(text), wanted, "{text}");
    }
}

#[test]
fn parameters_are_numbered_in_their_order() {
    let text = "\\set a 1\nselect :a::int + :given, ':nobody', :a;\nselect now();";
    let scripts = read(text, Protocol::Prepared).unwrap();
    let statements: Vec<&Statement> = scripts.all()[0]
        .commands
        .iter()
        .filter_map(|command| if let Command::Sql(one) = command { Some(one) } else { None })
        .collect();
    assert_eq!(statements[0].sql, "select $1::int + $2, ':nobody', $3");
    let names: Vec<&str> = statements[0].parameters.iter().map(|one| scripts.name(*one)).collect();
    assert_eq!(names, ["a", "given", "a"]);
    assert_eq!((statements[1].number, scripts.statements()), (1, 2));
    let mut out = String::new();
    let variables = scripts.variables(0, 1);
    let parameter = scripts.parameter(statements[0].parameters[1], &variables, &mut out);
    assert_eq!((parameter, &*out), (Ok(true), "12"));
    assert!(scripts.parameter(statements[0].parameters[0], &variables, &mut out).is_err());
}

#[test]
fn columns_may_bring_variables_and_then_a_name_in_quotes_may_be_one() {
    let text = "select 1 as one \\gset\nselect ':one', ':two', :one;";
    let scripts = read(text, Protocol::Simple).unwrap();
    let Command::Sql(first) = &scripts.all()[0].commands[0] else { panic!("it is SQL") };
    assert_eq!(first.fetch, Fetch::Row(String::new()));
    let mut variables = scripts.variables(0, 1);
    variables[scripts.variable("one").unwrap()] = Some(Value::Text("x".into()));
    let Command::Sql(second) = &scripts.all()[0].commands[1] else { panic!("it is SQL") };
    let mut out = String::new();
    scripts.write(second, &variables, &mut out).unwrap();
    assert_eq!(out, "select 'x', ':two', x");
    let prefixed = read("select 1 as one \\aset p_\nselect :p_one, :p_two;", Protocol::Extended);
    assert!(prefixed.is_ok());
}

#[test]
fn each_fault_has_its_place_and_a_way_out() {
    for (text, words) in [
        ("\nselect :b;", "shop.sql, line 2, column 8: b is set nowhere: add `\\set b ...`"),
        ("\\set a :b + 1\nselect 1;", "line 1, column 8: b is set nowhere"),
        ("\\sleep :b\nselect 1;", "line 1, column 8: b is set nowhere"),
        ("select 1 as c \\gset p_\nselect :c;", "line 2, column 8: c is set nowhere"),
        ("select ':given';", "column 9: :given stands in quotes, where no parameter can"),
        ("select 1 \\; select 2;", "column 10: \\; joins statements"),
        ("\\set\nselect 1;", "column 5: the name of a variable is wanted"),
        ("\\set 1a 1\nselect 1;", "column 6: the name of a variable is wanted"),
        ("\\set a\nselect 1;", "column 7: a value is wanted"),
        ("\\set a 1 +* 2\nselect 1;", "column 11: a value is wanted"),
        ("\\setrandom a 1 10\nselect 1;", "write `\\set a random(1, 10)`"),
        ("\\setrandom a 1 :n gaussian 3\nselect 1;", "`\\set a random_gaussian(1, :n, 3)`"),
        ("\\shell true\nselect 1;", "would measure a shell"),
        ("\\slep 1\nselect 1;", "did you mean \\sleep?"),
        ("\\copy t\nselect 1;", "\\copy is no meta-command"),
        ("\\sleep x\nselect 1;", "`x` is no unit"),
        ("\\sleep 1 h\nselect 1;", "column 10: `h` is no unit"),
        ("\\sleep\nselect 1;", "takes a whole number"),
        ("\\sleep 1 ms x\nselect 1;", "`x` is too much"),
        ("\\if 1\nselect 1;", "line 1, column 1: this \\if is never closed"),
        ("select 1;\n\\endif", "line 2, column 1: \\endif without an \\if"),
        ("\\if 1\n\\else\n\\elif 1\n\\endif\nselect 1;", "line 3, column 1: \\elif cannot follow"),
        ("\\if 1\nselect 1;\n\\endif x", "`x` is too much"),
        ("\\gset\nselect 1;", "\\gset must follow a statement"),
        ("select 1 \\gset\n\\gset\nselect 1;", "line 2, column 1: \\gset must follow a statement"),
        ("select 1 \\gset a b\n", "column 18: `b` is too much"),
        ("\\startpipeline\nselect 1;", "this pipeline is never closed"),
        ("select 1;\n\\endpipeline", "no pipeline is open"),
        ("\\startpipeline\nselect 1 \\gset\n\\endpipeline", "cannot stand within a pipeline"),
        ("\\set a 1\n", "no statement stands here"),
        ("select 'x;", "column 8: the quoted text is never closed"),
        ("\\ set a 1\n", "a backslash begins a meta-command"),
    ] {
        let error = read(text, Protocol::Prepared).unwrap_err();
        assert!(error.contains(words), "{text}: {error}");
    }
    let simple = read("\\startpipeline\nselect 1;\n\\endpipeline", Protocol::Simple).unwrap_err();
    assert!(simple.contains("needs `--protocol extended`"), "{simple}");
    let wrong = Scripts::read(&[], &[("1x".into(), "1".into())], Protocol::Simple).unwrap_err();
    assert!(wrong.to_string().contains("`1x` is no name"), "{wrong}");
}
