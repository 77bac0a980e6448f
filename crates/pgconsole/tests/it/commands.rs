//! Commands of the console, read from their text.

use live::WhatIf;
use pgconsole::{Command, CommandError, Control, Shutdown, TEXT_MAX, Table};
use pgwire::SqlState;

fn one(text: &str) -> Command {
    let mut commands = Command::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(commands.len(), 1, "{text}");
    commands.remove(0)
}

fn control(text: &str) -> Control {
    match one(text) {
        Command::Control(control) => control,
        other => panic!("{text}: {other:?}"),
    }
}

fn wrong(text: &str) -> String {
    Command::parse(text).expect_err(text).to_string()
}

#[test]
fn every_table_is_shown_by_its_name_in_any_case() {
    assert_eq!(Table::ALL.len(), 25);
    for &table in Table::ALL {
        for text in [
            format!("SHOW {}", table.name()),
            format!(" show\n{} ; ", table.name().to_lowercase()),
            format!("/* by hand */ sHoW \"{}\" -- now", table.name()),
        ] {
            assert_eq!(one(&text), Command::Show(table), "{text}");
        }
    }
    assert_eq!(one("show help"), Command::Help);
    assert_eq!(one("SHOW DateStyle"), Command::Session("datestyle", "ISO"));
}

#[test]
fn controls_take_names_as_they_stand_or_in_quotes() {
    let name = |name: &str| Some(name.to_owned());
    assert_eq!(control("PAUSE"), Control::Pause(None));
    assert_eq!(control("pause Shop"), Control::Pause(name("Shop")));
    assert_eq!(control("resume \"a \"\"b\"\"; c\";"), Control::Resume(name("a \"b\"; c")));
    assert_eq!(control("RECONNECT shop-1"), Control::Reconnect(name("shop-1")));
    assert_eq!(control("KILL"), Control::Kill(None));
    assert_eq!(control("KILL_CLIENT 42"), Control::KillClient(42));
    assert_eq!(control("disable shop"), Control::Disable("shop".to_owned()));
    assert_eq!(control("enable \"pause\""), Control::Enable("pause".to_owned()));
    assert_eq!(control("wait_close"), Control::WaitClose(None));
    assert_eq!(control("reload"), Control::Reload);
    assert_eq!(control("shutdown"), Control::Shutdown(Shutdown::Now));
    assert_eq!(control("shutdown wait_for_CLIENTS"), Control::Shutdown(Shutdown::WaitForClients));
    assert_eq!(control("shutdown wait_for_servers"), Control::Shutdown(Shutdown::WaitForServers));
}

#[test]
fn set_takes_a_word_or_a_text_and_lets_drivers_have_their_settings() {
    let set =
        |key: &str, value: &str| Control::Set { key: key.to_owned(), value: value.to_owned() };
    assert_eq!(control("SET Pool_Mode = session"), set("pool_mode", "session"));
    assert_eq!(control("set a=1;"), set("a", "1"));
    assert_eq!(control("set q to 'it''s; -- 2'"), set("q", "it's; -- 2"));
    assert_eq!(control("set p = ''"), set("p", ""));
    assert_eq!(set("a", "1").tag(), "SET a=1");
    assert_eq!(one("SET extra_float_digits = 3"), Command::Ignored);
    assert_eq!(one("SET DateStyle TO 'ISO'"), Command::Ignored);
}

#[test]
fn what_if_takes_what_is_named_and_at_least_something() {
    let asked = |text: &str| match one(text) {
        Command::WhatIf(asked) => asked,
        other => panic!("{text}: {other:?}"),
    };
    let nothing = WhatIf::default();
    assert_eq!(asked("SHOW WHATIF slots 20"), WhatIf { slots: Some(20), ..nothing.clone() });
    let faster = WhatIf { arrivals: Some(1.5), ..nothing.clone() };
    assert_eq!(asked("show whatif ARRIVALS x1.5"), faster);
    assert_eq!(asked("show whatif arrivals 1.5"), faster);
    let shared = WhatIf { servers: Some(3), policy: Some("shared".to_owned()), ..nothing };
    assert_eq!(asked("show whatif servers 3 policy Shared"), shared);
    for text in [
        "show whatif",
        "show whatif slots",
        "show whatif slots x",
        "show whatif slots 0",
        "show whatif arrivals x0",
        "show whatif arrivals -1",
        "show whatif arrivals nan",
        "show whatif slots 1 slots 2",
    ] {
        assert!(wrong(text).starts_with("SHOW WHATIF "), "{text}: {}", wrong(text));
    }
    assert!(wrong("show whatif slot 3").ends_with("did you mean SLOTS?"));
}

#[test]
fn several_statements_are_read_whole_or_not_at_all() {
    let commands = Command::parse("show pools; ; pause;show version;").unwrap();
    let version = Command::Show(Table::Version);
    let pause = Command::Control(Control::Pause(None));
    assert_eq!(commands, [Command::Show(Table::Pools), pause, version]);
    assert_eq!(Command::parse(" ;; -- nothing").unwrap(), []);
    assert!(Command::parse("pause; shw pools").is_err());
}

#[test]
fn what_is_unknown_is_named_with_what_is_nearest() {
    for (text, said) in [
        ("shwo pools", "the console knows no command \"shwo\"; did you mean SHOW?"),
        ("show clinets", "the console knows no table \"clinets\"; did you mean CLIENTS?"),
        ("show xyzzy", "the console knows no table \"xyzzy\""),
        ("select 1", "the console knows no table \"1\""),
        ("begin", "the console knows no command \"begin\""),
        ("show", "SHOW wants a table, as in SHOW POOLS; SHOW HELP lists them"),
        ("show pools now", "SHOW ends before \"now\""),
        ("reload shop", "RELOAD ends before \"shop\""),
        ("disable", "DISABLE wants a database"),
        ("kill_client x", "KILL_CLIENT wants the id of a client (SHOW CLIENTS)"),
        ("set a", "SET wants = and a value"),
        ("set a b c", "SET wants = behind the key"),
        ("set a =", "SET wants a value"),
        ("pause \"shop", "a name in double quotes does not end"),
        ("set a = 'b", "a value in single quotes does not end"),
        ("show /* pools", "a comment does not end"),
        ("show pools !", "no command has the character '!'"),
    ] {
        assert_eq!(wrong(text), said);
        assert_eq!(Command::parse(text).unwrap_err().sqlstate(), SqlState::SYNTAX_ERROR);
    }
    for text in ["suspend", "show fds"] {
        let error = Command::parse(text).unwrap_err();
        assert!(matches!(error, CommandError::Absent { .. }), "{error}");
        assert_eq!(error.sqlstate(), SqlState::FEATURE_NOT_SUPPORTED);
    }
    let long = "x".repeat(TEXT_MAX + 1);
    let error = Command::parse(&long).unwrap_err();
    assert_eq!(error.sqlstate(), SqlState::PROGRAM_LIMIT_EXCEEDED);
}

#[test]
fn any_text_is_read_or_refused() {
    const PARTS: [&str; 22] = [
        "show", "pools", "pause", "set", "whatif", "slots", "arrivals", "x1.5", "'", "\"", "=",
        ";", "--", "/*", "*/", " ", "\n", "7", "\u{e9}", "\u{2003}", "\u{130}", "shutdown",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let (mut read, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..state % 9 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            text.push_str(PARTS[(state >> 33) as usize % PARTS.len()]);
            if state >> 63 == 0 {
                text.push(' ');
            }
        }
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1442);
        match Command::parse(&text) {
            Ok(_) => read += 1,
            Err(error) => {
                assert!(!error.to_string().is_empty(), "{text}");
                refused += 1;
            }
        }
    }
    assert!(read > 100 && refused > 100, "{read} read, {refused} refused");
}
