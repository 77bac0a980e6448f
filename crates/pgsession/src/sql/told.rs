//! The value that a server tells of a setting that a start-up packet has set: a client is told it at its
//! login, before any server has the setting.
//!
//! Only settings that every server reports, by the rules of PostgreSQL 14 to 18 (`guc.c`, `variable.c`,
//! `encnames.c`, `pgtz.c`). What is not known here is told as it was said, and as the server has it when
//! one has been asked.

/// The names of time zones (IANA, 2025), as PostgreSQL spells them; it finds them in any case.
const ZONES: &str = include_str!("zones.txt");

/// Encodings that a client may have.
#[rustfmt::skip]
const ENCODINGS: [&str; 42] = [
    "SQL_ASCII", "EUC_JP", "EUC_CN", "EUC_KR", "EUC_TW", "EUC_JIS_2004", "UTF8", "MULE_INTERNAL",
    "LATIN1", "LATIN2", "LATIN3", "LATIN4", "LATIN5", "LATIN6", "LATIN7", "LATIN8", "LATIN9", "LATIN10",
    "WIN1256", "WIN1258", "WIN866", "WIN874", "KOI8R", "WIN1251", "WIN1252", "ISO_8859_5", "ISO_8859_6",
    "ISO_8859_7", "ISO_8859_8", "WIN1250", "WIN1253", "WIN1254", "WIN1255", "WIN1257", "KOI8U", "SJIS",
    "BIG5", "GBK", "UHC", "GB18030", "JOHAB", "SHIFT_JIS_2004",
];

/// Other names of these, without what is no letter or digit.
#[rustfmt::skip]
const ALIASES: [(&str, &str); 37] = [
    ("unicode", "UTF8"), ("iso88591", "LATIN1"), ("iso88592", "LATIN2"), ("iso88593", "LATIN3"),
    ("iso88594", "LATIN4"), ("iso88599", "LATIN5"), ("iso885910", "LATIN6"), ("iso885913", "LATIN7"),
    ("iso885914", "LATIN8"), ("iso885915", "LATIN9"), ("iso885916", "LATIN10"), ("abc", "WIN1258"),
    ("alt", "WIN866"), ("koi8", "KOI8R"), ("mskanji", "SJIS"), ("shiftjis", "SJIS"), ("tcvn", "WIN1258"),
    ("tcvn5712", "WIN1258"), ("vscii", "WIN1258"), ("win", "WIN1251"), ("win932", "SJIS"),
    ("win936", "GBK"), ("win949", "UHC"), ("win950", "BIG5"), ("windows1250", "WIN1250"),
    ("windows1251", "WIN1251"), ("windows1252", "WIN1252"), ("windows1253", "WIN1253"),
    ("windows1254", "WIN1254"), ("windows1255", "WIN1255"), ("windows1256", "WIN1256"),
    ("windows1257", "WIN1257"), ("windows1258", "WIN1258"), ("windows866", "WIN866"),
    ("windows874", "WIN874"), ("windows936", "GBK"), ("windows949", "UHC"),
];

/// The value that a server tells of this setting, in lower case, where a session has begun with `value`
/// and the server's own is `own`. None if that is not known.
pub(super) fn as_told(name: &[u8], value: &[u8], own: &[u8]) -> Option<Vec<u8>> {
    let (value, own) = (std::str::from_utf8(value).ok()?, std::str::from_utf8(own).ok()?);
    let told = match name {
        b"application_name" => {
            // Other bytes are told as question marks or as escapes, by the version of the server.
            let is_plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
            is_plain.then(|| value.to_owned())
        }
        b"client_encoding" => encoding(value),
        b"datestyle" => date_style(value, own),
        b"intervalstyle" => interval_style(value),
        b"standard_conforming_strings" => truth(value).map(str::to_owned),
        b"timezone" => zone(value),
        _ => None,
    };
    told.map(String::into_bytes)
}

fn encoding(value: &str) -> Option<String> {
    let plain = |name: &str| -> String {
        let kept = name.chars().filter(char::is_ascii_alphanumeric);
        kept.map(|one| one.to_ascii_lowercase()).collect()
    };
    let wanted = plain(value);
    let named = ENCODINGS.into_iter().find(|name| plain(name) == wanted);
    let alias = || ALIASES.into_iter().find(|(name, _)| *name == wanted).map(|(_, name)| name);
    named.or_else(alias).map(str::to_owned)
}

/// A style and an order of day, month and year, either of which may be left as it was.
fn date_style(value: &str, own: &str) -> Option<String> {
    let (mut style, mut order) = own.split_once(", ")?;
    let (mut has_style, mut has_order) = (false, false);
    for word in value.split(',') {
        let word = word.trim_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']).to_ascii_lowercase();
        let starts = |with: &str| word.starts_with(with);
        let (styles, orders) = match &*word {
            "iso" => (Some("ISO"), None),
            "sql" => (Some("SQL"), None),
            _ if starts("postgres") => (Some("Postgres"), None),
            "german" => (Some("German"), None),
            "ymd" => (None, Some("YMD")),
            "dmy" => (None, Some("DMY")),
            _ if starts("euro") => (None, Some("DMY")),
            "mdy" | "us" => (None, Some("MDY")),
            _ if starts("noneuro") => (None, Some("MDY")),
            _ => return None,
        };
        if styles.is_some_and(|one| has_style && one != style)
            || orders.is_some_and(|one| has_order && one != order)
        {
            return None;
        }
        if let Some(one) = styles {
            (style, has_style) = (one, true);
            if one == "German" && !has_order {
                order = "DMY";
            }
        }
        if let Some(one) = orders {
            (order, has_order) = (one, true);
        }
    }
    Some(format!("{style}, {order}"))
}

fn interval_style(value: &str) -> Option<String> {
    let value = value.to_ascii_lowercase();
    let all = ["postgres", "postgres_verbose", "sql_standard", "iso_8601"];
    all.contains(&&*value).then_some(value)
}

/// A Boolean: the front of a word, as much of it as tells which.
fn truth(value: &str) -> Option<&'static str> {
    let value = value.to_ascii_lowercase();
    let fronts = |word: &str| !value.is_empty() && word.starts_with(&*value);
    match &*value {
        // It is the front of `on` and of `off`.
        "o" => None,
        "1" | "on" => Some("on"),
        "0" => Some("off"),
        _ if fronts("true") || fronts("yes") => Some("on"),
        _ if fronts("false") || fronts("no") || fronts("off") => Some("off"),
        _ => None,
    }
}

fn zone(value: &str) -> Option<String> {
    ZONES.lines().find(|name| name.eq_ignore_ascii_case(value)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_as_servers_tell_them() {
        let told = |name: &str, value: &str, own: &str| {
            as_told(name.as_bytes(), value.as_bytes(), own.as_bytes())
                .map(|told| String::from_utf8(told).unwrap())
        };
        for (name, value, own, expected) in [
            ("datestyle", "ISO", "ISO, MDY", "ISO, MDY"),
            ("datestyle", "German", "ISO, MDY", "German, DMY"),
            ("datestyle", "mdy , german", "ISO, DMY", "German, MDY"),
            ("datestyle", "sql", "ISO, YMD", "SQL, YMD"),
            ("datestyle", "European", "ISO, MDY", "ISO, DMY"),
            ("timezone", "utc", "GMT", "UTC"),
            ("timezone", "europe/berlin", "GMT", "Europe/Berlin"),
            ("client_encoding", "utf-8", "SQL_ASCII", "UTF8"),
            ("client_encoding", "latin1", "UTF8", "LATIN1"),
            ("client_encoding", "Windows-1252", "UTF8", "WIN1252"),
            ("intervalstyle", "ISO_8601", "postgres", "iso_8601"),
            ("standard_conforming_strings", "OF", "on", "off"),
            ("standard_conforming_strings", "T", "on", "on"),
            ("application_name", "a b", "", "a b"),
        ] {
            assert_eq!(told(name, value, own).as_deref(), Some(expected), "{name} {value}");
        }
        for (name, value) in [
            ("datestyle", "ISO, SQL"),
            ("datestyle", "nonsense"),
            ("timezone", "5"),
            ("client_encoding", "nonsense"),
            ("standard_conforming_strings", "o"),
            ("application_name", "\u{e9}"),
            ("work_mem", "1MB"),
        ] {
            assert_eq!(told(name, value, "ISO, MDY"), None, "{name} {value}");
        }
    }
}
