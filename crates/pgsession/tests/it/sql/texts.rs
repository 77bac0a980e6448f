//! Single texts by tables: their session effects, the decisions on them, their classes and keys.

use std::collections::BTreeMap;

use pgsession::sql::tokens::{Encoding, LexerMode, Strings};
use pgsession::sql::{
    Access, Choice, Choices, Class, CodeChoice, Decision, EffectKind, Fingerprint, Followed,
    Format, KeyError, KeyRule, KeyRules, KeyType, Mapping, Pattern, Reason, Rule, Rules, SetChoice,
    Source, Subject, Test, Value, Where, access, decide, effects,
};

fn what(text: &str) -> String {
    let found = effects(text.as_bytes(), LexerMode::default());
    if let Some(unclear) = found.unclear {
        return format!("{unclear:?}");
    }
    let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let told = found.effects.iter().map(|effect| {
        let told = match &effect.what {
            EffectKind::Set { name, value: None } => format!("{}=?", show(name)),
            EffectKind::Set { name, value: Some(Value::Whole(whole)) } => {
                format!("{}:={}", show(name), show(whole))
            }
            EffectKind::Set { name, value: Some(Value::Items(items)) } => {
                let items: Vec<_> = items.iter().map(|item| show(item)).collect();
                format!("{}={}", show(name), items.join("|"))
            }
            EffectKind::SetLocal { name, value } => {
                let name = name.as_ref().map_or("?".to_owned(), |name| show(name));
                format!("local {name}{}", if value.is_some() { "" } else { "?" })
            }
            EffectKind::Reset { name } => format!("reset {}", show(name)),
            EffectKind::Savepoint(name) => format!("savepoint {}", show(name)),
            EffectKind::Release(name) => format!("release {}", show(name)),
            EffectKind::RollbackTo(name) => format!("to {}", show(name)),
            other => format!("{other:?}"),
        };
        format!(
            "{}{told}",
            if effect.command > 0 { format!("{}: ", effect.command) } else { String::new() }
        )
    });
    told.collect::<Vec<_>>().join(", ")
}

/// Texts, and what they leave.
const EFFECTS: [(&str, &str); 156] = [
    ("select 1", ""),
    ("", ""),
    ("set a to 1", "a=1"),
    ("SET SESSION A = 'x''y'", "a=x'y"),
    ("set a.B to \"C\", d, -5, +007, 'e'", "a.b=C|d|-5|7|e"),
    ("set a to on;; set b = default", "a=on, 1: reset b"),
    ("set \"time\" to 1", "time=1"),
    ("set a to E'x\\ty'", "a=x\ty"),
    ("set a to U&'x'", "a=?"),
    ("set a to $1", "a=?"),
    ("set a to 'x' 'y'", "a=?"),
    ("set a to 'x'\n'y'", "a=xy"),
    ("set a to $$x$$", "a=x"),
    ("set local a to 1", ""),
    ("set transaction read only", ""),
    ("set session transaction read only", ""),
    ("set constraints all deferred", ""),
    ("set transaction_read_only to on", ""),
    ("set time zone 'UTC'", "timezone=UTC"),
    ("set time zone local", "reset timezone"),
    ("set session time zone default", "reset timezone"),
    ("set time zone interval '1' hour", "timezone=?"),
    ("set names 'LATIN1'", "client_encoding=LATIN1"),
    ("set names", "reset client_encoding"),
    ("set schema 'A'", "search_path=A"),
    ("set search_path to pg_temp, a", "search_path=pg_temp|a, TemporaryPath"),
    ("set search_path = \"$user\", a, pg_temp", "search_path=$user|a|pg_temp, TemporaryPath"),
    ("set search_path to pg_catalog, pg_temp", "search_path=pg_catalog|pg_temp"),
    ("set search_path to 'a, pg_temp', b", "search_path=a, pg_temp|b"),
    ("set schema 'pg_temp'", "search_path=pg_temp, TemporaryPath"),
    (
        "select set_config('search_path', '\"a,pg_catalog,b\",pg_temp', false)",
        "search_path:=\"a,pg_catalog,b\",pg_temp, TemporaryPath",
    ),
    ("set local search_path = a, 'pg_temp_3'", "local search_path, TemporaryPath"),
    ("set local schema 'pg_temp'", "local search_path, TemporaryPath"),
    ("set local search_path to a, public", "local search_path"),
    ("set local search_path to default", "local search_path?"),
    ("set local schema.a to pg_temp", ""),
    (
        "select set_config('search_path', ' \"a\" , PG_Temp', false)",
        "search_path:= \"a\" , PG_Temp, TemporaryPath",
    ),
    (
        "select set_config('search_path', 'pg_catalog, pg_temp', false)",
        "search_path:=pg_catalog, pg_temp",
    ),
    ("select set_config('search_path', '\"pg_temp\"', true)", "local search_path, TemporaryPath"),
    ("select 1, set_config('search_path', 'a,pg_temp', true)", "local search_path?, TemporaryPath"),
    ("select 1, set_config('search_path', 'pg_temp', false)", "search_path=?, TemporaryPath"),
    (
        "select set_config('search_path', $1, true), set_config('role', $2, true)",
        "local search_path?, local role?",
    ),
    ("set local.tenant = '7'", "local.tenant=7"),
    ("set local.tenant to 7; set local local.tenant to 8", "local.tenant=7"),
    (
        "set session.tenant = 7; set session session.tenant to 8",
        "session.tenant=7, 1: session.tenant=8",
    ),
    ("set session characteristics.a to 1", "characteristics.a=1"),
    (
        "reset session.a; reset time.a; reset transaction.a",
        "reset session.a, 1: reset time.a, 2: reset transaction.a",
    ),
    ("set xml option document", "xmloption=document"),
    ("set role a", "role=a"),
    ("set session role 'A b'", "role=A b"),
    ("set role none", "role=none"),
    ("set local role a", "local role"),
    ("set local time zone 'UTC'; set local schema 'a'", "local timezone, 1: local search_path"),
    ("set local DateStyle to default", "local datestyle?"),
    ("set local search_path to pg_temp", "local search_path, TemporaryPath"),
    ("set local local local a to 1", "local ??"),
    ("set session authorization a", "SessionAuthorization"),
    ("set session session authorization 'a'", "SessionAuthorization"),
    ("set local session authorization a", "local role?"),
    ("set session authorization default", "ResetAuthorization"),
    ("reset session authorization", "ResetAuthorization"),
    ("set session_authorization to a", "SessionAuthorization"),
    ("reset role", "reset role"),
    ("reset all", "ResetAll"),
    ("reset A.b", "reset a.b"),
    ("reset time zone", "reset timezone"),
    ("reset transaction isolation level", ""),
    (
        "set session characteristics as transaction isolation level read committed, read only",
        "default_transaction_isolation=read committed, default_transaction_read_only=on",
    ),
    (
        "set session characteristics as transaction not deferrable",
        "default_transaction_deferrable=off",
    ),
    ("select set_config('A', 'x', false)", "a:=x"),
    ("select pg_catalog.set_config('a', '', 'f') as b;", "a:="),
    ("select \"set_config\"('a', null, false)", "reset a"),
    ("select set_config('a', 'x', true)", ""),
    ("select set_config('a', $1, true), set_config($2, $3 || f(1, 2), true)", "local ??"),
    ("select set_config('Role', 'x', true)", "local role"),
    ("select set_config('role', null, true)", "local role?"),
    ("select set_config('role', $1, true), set_config('a', 'x', true)", "local role?"),
    ("select set_config('a', $1, false)", "a=?"),
    ("select set_config('a', 'x', false), 1", "a=?"),
    ("select set_config('a', 'x', false) from t", "a=?"),
    ("with x as (select set_config('a', 'x', false)) select 1", "a=?"),
    ("select set_config('a', 'x', b)", "SetUnknown"),
    ("select set_config(a, 'x', false)", "SetUnknown"),
    ("select set_config", "SetUnknown"),
    ("select set_config('a', pg_advisory_lock(1)::text, true)", "AdvisoryLock"),
    ("select currval('s'), PG_CATALOG.LastVal ()", "Sequence, Sequence"),
    ("select \"currval\"/* */('s')", "Sequence"),
    ("select U&\"currv\\0061l\"('s')", "Code"),
    ("select currval, \"Currval\"('s'), 'currval(1)' from lastval -- lastval()", ""),
    ("insert into t values (currval('s'))", "Sequence"),
    ("create table t (a int default lastval())", "Sequence"),
    ("do $$ begin perform CURRVAL('s'); end $$", "Code, Sequence"),
    ("create function f() returns bigint return currval('s')", "Sequence"),
    (
        "create or replace function f() returns bigint language sql as 'select lastval()'",
        "Sequence",
    ),
    ("discard sequences", "DiscardSequences"),
    ("update t set a = 1", ""),
    ("alter role x set a to 1", ""),
    ("listen a", "Listen"),
    ("unlisten a", ""),
    ("unlisten *", "UnlistenAll"),
    ("notify a", ""),
    ("select 1 where pg_try_advisory_lock ( 1 )", "AdvisoryLock"),
    ("select \"pg_advisory_lock\"(1), PG_ADVISORY_LOCK_SHARED(2)", "AdvisoryLock, AdvisoryLock"),
    ("select pg_advisory_xact_lock(1), pg_try_advisory_xact_lock_shared(2)", ""),
    ("select pg_advisory_unlock(1)", "AdvisoryUnlock"),
    ("select pg_advisory_unlock_all()", "AdvisoryUnlockAll"),
    ("select pg_advisory_unlock_all() where false", "AdvisoryUnlock"),
    ("select 'pg_advisory_lock(1)', \"a pg_advisory_lock\" -- pg_advisory_lock(1)", ""),
    ("select U&\"pg\\005fadvisory_lock\"(1)", "Code"),
    ("select U&\"pg_advisory_lock\"(1)", "AdvisoryLock"),
    ("select u&\"set_config\"('a', 'x', false)", "a:=x"),
    ("select 1, u&\"set_config\"('a', 'x', false)", "a=?"),
    ("select U&\"pg!005fadvisory_lock\" /**/ UESCAPE '!' (1)", "Code"),
    (
        "set u&\"a!0062\" uescape '!' to 1; reset u&\"a!0062\" uescape '!'",
        "SetUnknown, Code, 1: SetUnknown, 1: Code",
    ),
    ("create table u&\"pg_temp\".a (b int)", "Temporary"),
    ("create table u&\"pg\\005ftemp\".a (b int)", "Code"),
    ("explain analyze select pg_advisory_lock(1)", "AdvisoryLock"),
    ("create temp table a (b int)", "Temporary"),
    ("create local temporary view a as select 1", "Temporary"),
    ("create or replace temp view a as select 1", "Temporary"),
    ("create global temporary sequence a", "Temporary"),
    ("create table if not exists pg_temp.a (b int)", "Temporary"),
    ("create function \"pg_temp\".f() returns int as 'x' language sql", "Temporary"),
    ("create table a (temp int)", ""),
    ("create table a as select temp from b", ""),
    ("create index on pg_temp.a (b)", ""),
    ("create unlogged table a (b int)", ""),
    ("explain (analyze, costs off) create temp table a as select 1", "Temporary"),
    ("select 1 into temp a", "Temporary"),
    ("with x as (select 1) select * into local temporary table a from x", "Temporary"),
    ("select 1 into pg_temp.a", "Temporary"),
    ("select 1 into a", ""),
    ("insert into pg_temp.a values (1)", ""),
    ("insert into temp values (1)", ""),
    ("declare a cursor with hold for select 1", "WithHold"),
    ("declare a binary no scroll cursor without hold for select 1", ""),
    ("close all", "CloseAll"),
    ("close a", ""),
    ("prepare a as select 1", "Prepare"),
    ("prepare transaction 'a'", ""),
    ("execute a(1); explain execute a", "Execute, 1: MayExecute"),
    ("create table a as execute b", "MayExecute"),
    ("create trigger a after insert on b execute function c()", ""),
    (
        "load 'a'; discard all; discard temp; discard plans",
        "Load, 1: DiscardAll, 2: DiscardTemporary",
    ),
    ("deallocate a; deallocate prepare all", "1: DeallocateAll"),
    ("do $$ begin set a to 1; end $$; call f()", "Code, 1: Code"),
    (
        "begin; savepoint A; release savepoint \"A\"; rollback work to a; rollback",
        "1: savepoint a, 2: release A, 3: to a",
    ),
    (
        "create function f() returns int begin atomic select case when true then 1 end; select 2; end; set a to 1",
        "1: a=1",
    ),
    (
        "create function f() returns setof int begin atomic select r.end from r; end; \
         set search_path to app",
        "1: search_path=app",
    ),
    (
        "create or replace procedure f(begin int) begin atomic ; select 1 end; select 2 as case; \
         select case when true then 3 end; (select 4); end; listen a",
        "1: Listen",
    ),
    (
        "create function f(begin atomic) returns int as 'x'; listen a; end; listen b",
        "1: Listen, 3: Listen",
    ),
    ("create function f() returns begin[] begin atomic select 1; end; listen a", "1: Listen"),
    ("create function f() returns int begin atomic select 1; listen a", "Code"),
    ("create rule r as on insert to t do (select 1; listen a)", ""),
    ("set a to 1; select 'x", "Unterminated"),
    ("set", "SetUnknown"),
];

#[test]
fn texts_leave_what_they_say_and_nothing_else() {
    for (text, expected) in EFFECTS {
        assert_eq!(what(text), expected, "{text}");
    }
    let places = effects(b"/* x */ select 1; set  role a ;", LexerMode::default());
    assert_eq!(places.effects[0].at, 18..29);
    let many = effects("listen a;".repeat(1000).as_bytes(), LexerMode::default());
    assert_eq!(many.effects.len(), 257);
    assert_eq!(many.effects[256].what, EffectKind::Many);
    let all = effects("listen a;".repeat(256).as_bytes(), LexerMode::default());
    assert_eq!((all.effects.len(), &all.effects[255].what), (256, &EffectKind::Listen));
}

#[test]
fn strings_are_read_as_the_session_has_them() {
    let text = br"select '\'; listen a; select '\'";
    let off = LexerMode { strings: Strings::Backslash, ..LexerMode::default() };
    assert_eq!(effects(text, LexerMode::default()).effects.len(), 1);
    assert_eq!(effects(text, off).unclear, Some(pgsession::sql::tokens::Unclear::Unterminated));
    let text = br"select '\'; listen a; select '";
    let found = effects(text, off);
    assert_eq!((found.effects.len(), found.commands, found.unclear), (0, Some(1), None));
    let sjis = LexerMode { encoding: Encoding::of(b"SJIS"), ..LexerMode::default() };
    let found = effects(b"select '\x95\x5c'", sjis);
    let decision = decide(&found, &Choices::default());
    assert_eq!(decision, Decision::Pin { reason: Reason::Unreadable, at: 0..0 });
}

#[test]
fn each_kind_is_decided_by_its_choice() {
    let decided = |text: &str, choices: &Choices| {
        decide(&effects(text.as_bytes(), LexerMode::default()), choices)
    };
    let pins = |text: &str| match decided(text, &Choices::default()) {
        Decision::Pin { reason, .. } => Some(reason),
        _ => None,
    };
    let default = |text: &str| decided(text, &Choices::default());
    for text in ["select 1", "begin", "savepoint a", "unlisten *", "select 'x", "set local a to 1"]
    {
        assert_eq!(default(text), Decision::Pass, "{text}");
    }
    for text in ["set a to 1", "set role a", "reset all", "set time zone interval '1' hour"] {
        assert_eq!(default(text), Decision::Track, "{text}");
    }
    assert_eq!(default("set a to 1; do ''"), Decision::Clean);
    for (text, reason) in [
        ("set a to $1", Reason::Set),
        ("select set_config(a, b, false)", Reason::Set),
        ("set session authorization a", Reason::Authorization),
        ("do ''; set b to 1; listen a", Reason::Listen),
        ("select pg_advisory_lock(1)", Reason::AdvisoryLock),
        ("create temp table a (b int)", Reason::Temporary),
        ("declare a cursor with hold for select 1", Reason::WithHold),
        ("execute a", Reason::Prepare),
        ("load 'a'", Reason::Load),
    ] {
        assert_eq!(pins(text), Some(reason), "{text}");
    }
    let tracked = vec![b"work_mem".to_vec()];
    let strict = Choices { role: SetChoice::Pin, tracked, ..Choices::strict() };
    for (text, message) in [
        ("set a to 1", "SET is not allowed in transaction mode"),
        ("listen a", "LISTEN is not allowed in transaction mode"),
        (
            "select pg_advisory_lock(1)",
            "advisory locks of the session are not allowed in transaction mode",
        ),
        ("call a()", "DO and CALL are not allowed in transaction mode"),
        ("set role b; load 'a'", "LOAD is not allowed in transaction mode"),
    ] {
        let Decision::Refuse(refusal) = decided(text, &strict) else { panic!("{text} passes") };
        assert_eq!(refusal.message(), message);
        assert_eq!(refusal.sqlstate().to_string(), "0A000");
        assert!(refusal.hint().ends_with("session mode."), "{}", refusal.hint());
    }
    let Decision::Refuse(refusal) = decided("select '\u{e4}'; listen a", &strict) else { panic!() };
    assert_eq!(refusal.position("select '\u{e4}'; listen a".as_bytes()), Some(13));
    assert_eq!(decided("reset a", &strict), Decision::Pass);
    for tracked in ["set work_mem to 1", "set application_name to a", "set names 'utf8'"] {
        assert_eq!(decided(tracked, &strict), Decision::Track, "{tracked}");
    }
}

#[test]
fn what_is_followed_of_a_text_is_what_its_choices_say() {
    let strict = Choices { listen: Choice::Refuse, code: CodeChoice::Refuse, ..Choices::default() };
    let of = |text: &str, choices: &Choices| {
        Followed::of(text.as_bytes(), LexerMode::default(), choices)
    };
    assert_eq!(of("select 1", &strict), Ok(None));
    let two = of("do ''; set b to $1; listen a", &Choices::default()).unwrap().unwrap();
    assert_eq!(two.pins().iter().collect::<Vec<_>>(), [Reason::Set, Reason::Listen]);
    assert!(of("listen a", &strict).is_err());
    let trusts = Choices { code: CodeChoice::Trust, ..Choices::default() };
    assert_eq!(of("do ''", &trusts), Ok(None));
    assert_eq!((Followed::code(&trusts), Followed::code(&strict).is_some()), (None, true));
}

fn fingerprint(text: &str) -> Fingerprint {
    Fingerprint::of(text.as_bytes(), LexerMode::default()).unwrap()
}

#[test]
fn fingerprints_are_alike_for_alike_statements_only() {
    for (one, other) in [
        ("select 1", "SELECT /* x */\n 'abc' -- y"),
        ("select a from t where b = $1;", "select A from T where B=-5"),
        ("select a from t where b in (1)", "select a from t where b in ($1, 'x', -3)"),
        ("select array[1, 2]", "select array['x']"),
        (";select 1; ; select 2;", "select 'a';select $7"),
        ("select $$a$$", "select E'x\\'y'"),
        ("select a - 1", "select a-$1"),
        ("limit -1", "limit 1"),
    ] {
        assert_eq!(fingerprint(one), fingerprint(other), "{one} | {other}");
    }
    let unlike = [
        "select 1",
        "select a",
        "select \"a\"",
        "select \"A\"",
        "select 1, 2",
        "select a in (1)",
        "select a in (1, b)",
        "select a in (1, b, 2)",
        "select a in (b, 1)",
        "select f(1)",
        "select f(1, 2)",
        "select a - 1",
        "select a + 1",
        "select a-b",
        "select (1)",
        "select 1; select 1",
        "select a.b",
        "select ab",
        "select a b",
        "select 1 - - 1",
        "select a in (1), (2)",
        "select -a",
        "select - 'x'",
        "select a @-1",
        "",
    ];
    for (at, one) in unlike.iter().enumerate() {
        for other in &unlike[..at] {
            assert_ne!(fingerprint(one), fingerprint(other), "{one} | {other}");
        }
    }
    // It may stand in a file, so it must stay.
    assert_eq!(fingerprint("select a from t where b = $1").to_string(), STABLE);
    assert_eq!(STABLE.parse(), Ok(fingerprint("select a from t where b = 2")));
    for wrong in ["", "1", "x000000000000000", "+000000000000000", "00000000000000000"] {
        let error = wrong.parse::<Fingerprint>().unwrap_err().to_string();
        assert!(error.ends_with("is not a fingerprint: it has 16 hexadecimal digits"), "{error}");
    }
}

const STABLE: &str = "93d2319b91707176";

#[test]
fn the_first_rule_that_fits_gives_the_class() {
    let rule =
        |tests: Vec<Test>, class| Rule { tests, class: Class { class, priority: class as u8 } };
    let tag =
        |value: &str| Test::Tag { name: b"class".to_vec(), value: Pattern::new(value.as_bytes()) };
    let user = |name: &str| Test::User(Pattern::new(name.as_bytes()));
    let rules = Rules::new(vec![
        rule(vec![user("admin"), tag("urgent")], 1),
        rule(vec![tag("batch*")], 2),
        rule(vec![Test::Statement(fingerprint("select a from t where b = 1"))], 3),
        rule(vec![Test::ApplicationName(Pattern::new(b"report*"))], 4),
        rule(vec![Test::Database(Pattern::new(b"shop")), user("ann")], 5),
    ]);
    let class = |user: &str, database: &str, program: &str, text: &str| {
        let subject = Subject {
            user: user.as_bytes(),
            database: database.as_bytes(),
            application_name: program.as_bytes(),
            text: text.as_bytes(),
            lexer_mode: LexerMode::default(),
        };
        rules.class(&subject).map(|class| class.class)
    };
    assert_eq!(class("admin", "x", "", "/*class='urgent'*/ select 1"), Some(1));
    assert_eq!(class("joe", "x", "", "/*class='urgent'*/ select 1"), None);
    assert_eq!(class("admin", "x", "", "select 1 /*class='batch%20x'*/"), Some(2));
    assert_eq!(class("joe", "x", "report", "SELECT a FROM t WHERE b = 'y'"), Some(3));
    assert_eq!(class("joe", "x", "reporting", "select 1"), Some(4));
    assert_eq!(class("ann", "shop", "", "select '"), Some(5));
    assert_eq!(class("ann", "shops", "", "select 1"), None);
    assert!(rules.look_at_texts());
    assert!(!Rules::new(vec![rule(vec![user("a")], 1)]).look_at_texts());
    assert_eq!(
        Rules::new(vec![rule(vec![], 7)]).class(&Subject {
            user: b"",
            database: b"",
            application_name: b"",
            text: b"",
            lexer_mode: LexerMode::default(),
        }),
        Some(Class { class: 7, priority: 7 })
    );
}

#[test]
fn keys_are_found_in_comments_parameters_and_literals() {
    let statement = fingerprint("select * from t where a = 1 and id = 2");
    let rule = |at, of, mapping| KeyRule { at, of, mapping };
    let table = BTreeMap::from([(b"east".to_vec(), 3), (b"42".to_vec(), 9)]);
    let rules = KeyRules::new(vec![
        rule(Where::Comment { name: b"key".to_vec() }, KeyType::Integer, Mapping::Number),
        rule(Where::Comment { name: b"zone".to_vec() }, KeyType::Text, Mapping::Table(table)),
        rule(Where::Place { statement, number: 2 }, KeyType::Integer, Mapping::Number),
        rule(
            Where::Parameter { statement: fingerprint("select f($1, $2)"), number: 2 },
            KeyType::Integer,
            Mapping::Hash,
        ),
    ]);
    let source = |text: &str| rules.source(text.as_bytes(), LexerMode::default());
    assert_eq!(source("select 1 /* key: 42 */"), Ok(Source::Known(42)));
    assert_eq!(source("/*key='42'*/ select 1"), Ok(Source::Known(42)));
    assert_eq!(source("select 1 /*zone='east'*/"), Ok(Source::Known(3)));
    assert_eq!(source("select 1"), Ok(Source::None));
    assert_eq!(source("select * from t where a = 'x' and id = 17"), Ok(Source::Known(17)));
    assert_eq!(source("select * from t where a = 'x' and id = '18'"), Ok(Source::Known(18)));
    assert_eq!(
        source("select * from t where a = 'x' and id = -17"),
        Err(KeyError::Negative { value: -17 })
    );
    assert_eq!(source("select 1 /*key='x'*/"), Err(KeyError::Integer));
    assert_eq!(source("select 1 /*zone='w'*/"), Err(KeyError::Unlisted { value: "w".into() }));
    assert_eq!(source("select '"), Err(KeyError::Text));

    let placed = source("SELECT * FROM t WHERE a=$2 AND id=$1").unwrap();
    assert_eq!(placed.number(), Some(1));
    assert_eq!(placed.bound(Format::Text, Some(b"7")), Ok(Some(7)));
    for (binary, expected) in [
        (&[0, 7][..], Ok(Some(7))),
        (&[0, 0, 1, 0], Ok(Some(256))),
        (&[0, 0, 0, 0, 0, 0, 1, 1], Ok(Some(257))),
        (&[255, 255], Err(KeyError::Negative { value: -1 })),
        (&[1, 2, 3], Err(KeyError::Integer)),
    ] {
        assert_eq!(placed.bound(Format::Binary, Some(binary)), expected, "{binary:?}");
    }
    assert_eq!(placed.bound(Format::Text, None), Err(KeyError::Missing));
    let hashed = source("select f($1, $2)").unwrap();
    assert_eq!(hashed.number(), Some(2));
    let text = hashed.bound(Format::Text, Some(b"-5"));
    assert_eq!(text, hashed.bound(Format::Binary, Some(&(-5_i64).to_be_bytes())));
    assert_eq!(text, hashed.bound(Format::Binary, Some(&(-5_i16).to_be_bytes())));
    assert_ne!(text, hashed.bound(Format::Text, Some(b"5")));
    let missing = KeyRules::new(vec![rule(
        Where::Place { statement, number: 3 },
        KeyType::Text,
        Mapping::Hash,
    )]);
    let found = missing.source(b"select * from t where a = 1 and id = 2", LexerMode::default());
    assert_eq!(found, Err(KeyError::Missing));
}

#[test]
fn only_what_says_so_reads_only() {
    use Access::{ReadOnly, ReadWrite, Unsaid};
    for (text, expected) in [
        ("begin read only", ReadOnly),
        ("BEGIN TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY", ReadOnly),
        ("start transaction read only, deferrable; select 1; commit", ReadOnly),
        ("begin; set transaction read only; select 1", ReadOnly),
        ("begin; set local transaction_read_only = 'ON'", ReadOnly),
        ("set transaction isolation level repeatable read read only", ReadOnly),
        ("begin read only; set transaction read write", ReadWrite),
        ("begin read only, read write", ReadWrite),
        ("begin isolation level read uncommitted", Unsaid),
        ("begin read only; commit; insert into t values (1)", Unsaid),
        ("begin read only; rollback to a; select 1", ReadOnly),
        ("begin read only; prepare a as select 1", ReadOnly),
        ("insert into t values (1); begin read only; select 1", Unsaid),
        ("begin; select f(); set transaction read only", Unsaid),
        ("begin read only; prepare transaction 'a'; select 1", Unsaid),
        ("begin", Unsaid),
        ("select 1", Unsaid),
        ("select 'begin read only'", Unsaid),
        ("set session characteristics as transaction read only", Unsaid),
        ("set transaction_read_only to $1", Unsaid),
        ("set a to read", Unsaid),
    ] {
        assert_eq!(access(text.as_bytes(), LexerMode::default()), Ok(expected), "{text}");
    }
    assert!(access(b"begin read only; '", LexerMode::default()).is_err());
}

/// The mark of a text with more effects than are told was one of them, and went as one: a table that its
/// transaction drops took it away, with the LISTEN in whose place it stood, and the next client heard the
/// channel.
#[test]
fn what_a_text_leaves_beyond_the_limit_is_never_forgotten() {
    let told = |behind: &str, settings: usize| {
        let text = format!("{}{behind}", "set a to 1;".repeat(settings));
        let found = effects(text.as_bytes(), LexerMode::default());
        let has = |what: &EffectKind| found.effects.iter().any(|effect| effect.what == *what);
        (has(&EffectKind::Listen), has(&EffectKind::Temporary), has(&EffectKind::Many))
    };
    let drops = "create temp table t (a int) on commit drop";
    assert_eq!(told(&format!("listen x; {drops}"), 254), (true, false, false));
    for settings in 255..258 {
        let (listen, temporary, many) = told(&format!("listen x; {drops}"), settings);
        assert!(many && !temporary, "{settings}");
        assert_eq!(listen, settings == 255, "{settings}");
        let (listen, _, many) = told(&format!("{drops}; listen x"), settings);
        assert!(listen || many, "{settings}");
    }
    // SET LOCAL is read as a SET, and what that leaves is weighed again.
    for settings in 254..258 {
        let text = format!("{}set local search_path to pg_temp", "set a to 1;".repeat(settings));
        let found = effects(text.as_bytes(), LexerMode::default());
        let last = &found.effects.last().unwrap().what;
        let expected = if settings > 254 { EffectKind::Many } else { EffectKind::TemporaryPath };
        assert_eq!(*last, expected, "{settings}");
    }
}
