//! Errors of a file: each names line, column, cause and the nearest right spelling.

use agents_rules::{Delivered, MailSecurity, Rules, Way};

const GOOD: &str = r#"[agent]
state = { symbol = "text", low = "number", high = "number", until = "number", seen = 0 }

[messages.tick]
fields = { symbol = "text", price = "number" }

[rules.limits]
on = "tick"
when = "price > high || price < low"
rearm = { band = 0.5 }
quiet = "22:00-07:00"
at-most = "3/day"
zone = "Europe/Berlin"
cooldown = "1h"
expires = "until"
notify = ["hook"]

[destinations.hook]
webhook = "http://127.0.0.1:9000/hook"
"#;

fn error(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "`{from}` stands in the file");
    let error = Rules::read("r.toml", &GOOD.replacen(from, to, 1)).expect_err(to);
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

const TIMED: &str = r#"[agent]
state = { due = "number", count = 0 }

[messages.order]
timers = { remind = { after = "10m" }, look = { every = "1h" } }

[messages.paid]
cancel = ["remind"]

[timers.remind]
set = { count = "count + 1" }

[rules.late]
on = "timer remind"
when = "count > 3"
"#;

#[test]
fn what_is_wrong_with_a_timer_is_told_with_its_place() {
    Rules::read("r.toml", TIMED).expect("nothing is wrong");
    let mut other = Vec::new();
    for (from, to, told) in [
        ("after =", "aftr =", "r.toml:5:23: unknown key `aftr`; did you mean `after`?"),
        ("\"10m\"", "\"soon\"", "r.toml:5:31: `soon` is no span above 0"),
        ("\"1h\"", "\"100ms\"", "r.toml:5:57: a timer fires at most once a second"),
        (
            "after = \"10m\"",
            "after = \"10m\", every = \"1h\"",
            "r.toml:5:21: a timer has one of `after`, `at` and `every`, such as { after = \"10m\" }",
        ),
        ("{ after = \"10m\" }", "{}", "r.toml:5:21: a timer has one of `after`, `at` and `every`"),
        ("after = \"10m\"", "at = \"deu\"", "r.toml:5:29: unknown name `deu`; did you mean `due`?"),
        (
            "after = \"10m\"",
            "at = \"due > 1\"",
            "r.toml:5:29: it gives true or false, and a number is wanted",
        ),
        (
            "cancel = [\"remind\"]",
            "cancel = [\"remnid\"]",
            "r.toml:8:11: unknown timer `remnid`; did you mean `remind`?",
        ),
        (
            "cancel = [\"remind\"]",
            "cancel = [\"look\"]\ntimers = { look = { every = \"1h\" } }",
            "r.toml:8:11: `look` is set here, too: leave one out",
        ),
        (
            "[timers.remind]",
            "[timers.remnid]",
            "r.toml:10:1: no message sets `remnid`; did you mean `remind`?",
        ),
        (
            "on = \"timer remind\"",
            "on = \"timer remnid\"",
            "r.toml:14:6: unknown message `timer remnid`; did you mean `timer remind`?",
        ),
        (
            "[messages.paid]",
            "[messages.\"timer x\"]",
            "r.toml:7:1: `timer x` is the name of a timer",
        ),
        ("[timers.remind]\nset", "[timers.remind]\nfields", "r.toml:11:1: unknown key `fields`"),
    ] {
        assert!(TIMED.contains(from), "`{from}` stands in the file");
        let error = Rules::read("r.toml", &TIMED.replacen(from, to, 1)).expect_err(to).to_string();
        let first = error.lines().next().unwrap_or_default();
        if !first.starts_with(told) {
            other.push(format!("{to}: {first}"));
        }
    }
    assert!(other.is_empty(), "{other:#?}");
}

#[test]
fn a_good_file_is_read() {
    let rules = Rules::read("r.toml", GOOD).expect("nothing is wrong");
    let summary = &rules.summary()[0];
    assert!(summary.is_compiled);
    assert_eq!((summary.way, summary.compares.as_deref()), (Way::Bounds, Some("price")));
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_the_nearest_right_spelling() {
    for (from, to, told) in [
        ("price > high", "prise > high", "r.toml:9:9: unknown name `prise`; did you mean `price`?"),
        ("high ||", "\\u0068igh +||", "r.toml:9:8: it is no expression of CEL: "),
        (
            "price < low",
            "price < symbol",
            "r.toml:9:25: a number is wanted on each side, and here is a text",
        ),
        (
            "price > high || price < low",
            "price + high",
            "r.toml:9:9: it gives a number, and true or false is wanted",
        ),
        ("price > high ||", "frob(price) ||", "r.toml:9:9: it cannot be evaluated: "),
        ("rearm =", "rearms =", "r.toml:10:1: unknown key `rearms`; did you mean `rearm`?"),
        (
            "{ band = 0.5 }",
            "{ bnad = 0.5 }",
            "r.toml:10:11: unknown name `bnad`; did you mean `band`?",
        ),
        (
            "on = \"tick\"",
            "on = \"tik\"",
            "r.toml:8:6: unknown message `tik`; did you mean `tick`?",
        ),
        ("\"hook\"]", "\"hok\"]", "r.toml:16:11: unknown destination `hok`; did you mean `hook`?"),
        (
            "low = \"number\"",
            "low = \"nubmer\"",
            "r.toml:2:34: unknown kind `nubmer`; did you mean `number`?",
        ),
        (
            "Europe/Berlin",
            "Europe/Berlim",
            "r.toml:13:8: unknown zone `Europe/Berlim`; did you mean `Europe/Berlin`?",
        ),
        ("22:00-07:00", "22-7", "r.toml:11:9: a stretch of the day such as"),
        ("3/day", "3/hour", "r.toml:12:11: a limit such as \"3/day\" is wanted"),
        ("\"1h\"", "\"soon\"", "r.toml:14:12: `soon` is no span above 0"),
        ("\"until\"", "\"symbol\"", "r.toml:15:11: `symbol` is a text: it holds a moment"),
        ("zone = \"Europe/Berlin\"\n", "", "r.toml:11:9: days and times of day need a zone"),
        ("http://", "ftp://", "r.toml:19:11: a URL begins with http:// or https://"),
        (
            "[messages.tick]\n",
            "[messages.tick]\nset = { sen = \"1\" }\n",
            "r.toml:5:15: unknown field `sen`; did you mean `seen`?",
        ),
        (
            "symbol = \"text\", price",
            "symbol = \"number\", price",
            "r.toml:5:21: `symbol` is a number here and a text in the state",
        ),
        ("seen = 0", "in = 0", "r.toml:2:84: `in` is a word of CEL"),
    ] {
        let error = error(from, to);
        assert!(error.starts_with(told), "{to}:\n  {error}\n  {told}");
    }
}

#[test]
fn a_destination_that_cannot_be_one_is_told_with_its_place() {
    let good = GOOD.replace(
        "webhook = \"http://127.0.0.1:9000/hook\"\n",
        "email = \"smtp://mail.internal\"\nfrom = \"a@example.org\"\nto = [\"b@example.org\"]\n\
         user = \"sekisho\"\nsecret-env = \"WORD\"\ndigest = { every = \"10m\", count = 20, by = \"symbol\" }\n",
    );
    let rules = Rules::read("r.toml", &good).unwrap_or_else(|error| panic!("{error}"));
    let hook = &rules.destinations()[0];
    let Delivered::Email(email) = &hook.to else { panic!("{hook:?}") };
    assert_eq!((&*email.host, email.port), ("mail.internal", 587));
    assert_eq!(email.security, MailSecurity::StartTls);
    let digest = hook.digest.as_ref().unwrap();
    assert_eq!(
        (digest.every.as_secs(), digest.count, digest.by.as_deref()),
        (600, 20, Some("symbol"))
    );
    for (from, to, told) in [
        ("smtp://", "imap://", "r.toml:19:9: a mail server is `smtps://HOST` (TLS)"),
        ("mail.internal", "ann:word@mail", "r.toml:19:9: after `smtp://` comes HOST or HOST:PORT"),
        ("mail.internal", "mail:70000", "r.toml:19:9: after `smtp://` comes HOST or HOST:PORT"),
        ("mail.internal", "mail/path", "r.toml:19:9: after `smtp://` comes HOST or HOST:PORT"),
        ("from = \"a@example.org\"\n", "", "r.toml:18:1: a mail needs a sender"),
        ("to = [\"b@example.org\"]\n", "", "r.toml:18:1: a mail needs receivers"),
        ("[\"b@example.org\"]", "[]", "r.toml:21:6: a mail has 1 to 100 receivers"),
        ("b@example.org", "b\\r\\nBcc: c@example.org", "r.toml:21:6: `b\r\nBcc"),
        ("b@example.org", "b", "r.toml:21:6: `b` is no address such as"),
        ("secret-env = \"WORD\"\n", "", "r.toml:22:8: a user needs a password"),
        ("user = \"sekisho\"\n", "", "r.toml:18:1: a secret of a mail server is a password"),
        ("secret-env", "secret-file = \"x\"\nsecret-env", "r.toml:23:15: there is one secret"),
        (
            "smtp://mail",
            "smtps://mail\"\ntls = \"none\"\nca-file = \"x",
            "r.toml:20:7: `smtps://` is TLS",
        ),
        ("email =", "webhook = \"http://a/\"\nemail =", "r.toml:18:1: `hook` needs one way"),
        ("email = \"smtp://mail.internal\"", "log = \"x\"", "r.toml:20:8: `from` is for mails"),
        ("\"10m\"", "\"8d\"", "r.toml:24:20: a digest waits for at most 7 days"),
        ("count = 20", "count = 0", "r.toml:24:35: a digest has 1 to 1,000 notifications"),
        (
            "by = \"symbol\"",
            "by = \"symbl\"",
            "r.toml:24:44: unknown field `symbl`; did you mean `symbol`?",
        ),
        ("digest", "digset", "r.toml:24:1: unknown key `digset`; did you mean `digest`?"),
    ] {
        assert!(good.contains(from), "`{from}` stands in the file");
        let error = Rules::read("r.toml", &good.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.starts_with(told), "{to}:\n  {error}\n  {told}");
    }
}

#[test]
fn a_message_that_does_not_fit_is_told_by_its_field() {
    let rules = Rules::read("r.toml", GOOD).unwrap();
    let event = |fields| rules.event("tick", &fields).map(drop).map_err(|it| it.to_string());
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    for (fields, told) in [
        (r#"{"symbol": "A", "prise": 1}"#, "unknown field `prise`; did you mean `price`?"),
        (r#"{"symbol": "A"}"#, "the field `price` is missing"),
        (
            r#"{"symbol": "A", "price": "1"}"#,
            "the field `price` is a number, and \"1\" stands there",
        ),
        ("[]", "the fields are an object, such as {\"price\": 10}; [] stands there"),
    ] {
        assert_eq!(event(json(fields)), Err(told.to_owned()));
    }
    let unknown = rules.event("tik", &json("{}")).unwrap_err();
    assert_eq!(unknown.to_string(), "unknown message `tik`; did you mean `tick`?");
    assert!(rules.key("").is_err() && rules.key(&"x".repeat(201)).is_err());
}
