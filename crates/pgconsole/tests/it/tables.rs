//! The tables: PgBouncer's columns, and the values in them.

use pgconsole::{Access, Setting, Snapshot, Table};
use pgwire::frame::Backend;

use super::sample::{empty, filled};
use super::{query, session, table, tags};

/// The columns of release 1.25.2 with its letters for types: s and T are text, i is int4, q is int8,
/// N is numeric.
const RELEASE_1_25: [(&str, &str, &str); 20] = [
    (
        "POOLS",
        "ssiiiiiiiiiiiiiss",
        "database user cl_active cl_waiting cl_active_cancel_req cl_waiting_cancel_req sv_active \
         sv_active_cancel sv_being_canceled sv_idle sv_used sv_tested sv_login maxwait maxwait_us \
         pool_mode load_balance_hosts",
    ),
    (
        "STATS",
        "sNNNNNNNNNNNNNNNNNNNNNN",
        "database total_server_assignment_count total_xact_count total_query_count total_received \
         total_sent total_xact_time total_query_time total_wait_time total_client_parse_count \
         total_server_parse_count total_bind_count avg_server_assignment_count avg_xact_count \
         avg_query_count avg_recv avg_sent avg_xact_time avg_query_time avg_wait_time \
         avg_client_parse_count avg_server_parse_count avg_bind_count",
    ),
    (
        "STATS_TOTALS",
        "sNNNNNNNNNNN",
        "database server_assignment_count xact_count query_count bytes_received bytes_sent \
         xact_time query_time wait_time client_parse_count server_parse_count bind_count",
    ),
    (
        "STATS_AVERAGES",
        "sNNNNNNNNNNN",
        "database server_assignment_count xact_count query_count bytes_received bytes_sent \
         xact_time query_time wait_time avg_client_parse_count avg_server_parse_count \
         avg_bind_count",
    ),
    ("TOTALS", "sN", "name value"),
    ("CLIENTS", "ssssssisiTTiiississii", SOCKETS.split_at(184).0),
    ("SERVERS", "ssssssisiTTiiississii", SOCKETS.split_at(184).0),
    ("SOCKETS", "ssssssisiTTiiississiiiiiiiii", SOCKETS),
    ("ACTIVE_SOCKETS", "ssssssisiTTiiississiiiiiiiii", SOCKETS),
    ("CONFIG", "ssss", "key value default changeable"),
    (
        "DATABASES",
        "ssissiiiissiiiiii",
        "name host port database force_user pool_size min_pool_size reserve_pool_size \
         server_lifetime pool_mode load_balance_hosts max_connections current_connections \
         max_client_connections current_client_connections paused disabled",
    ),
    (
        "USERS",
        "ssssiiii",
        "name pool_size reserve_pool_size pool_mode max_user_connections current_connections \
         max_user_client_connections current_client_connections",
    ),
    ("LISTS", "si", "list items"),
    ("MEM", "siiii", "name size used free memtotal"),
    ("STATE", "ss", "key value"),
    ("VERSION", "s", "version"),
    ("PEERS", "isii", "peer_id host port pool_size"),
    (
        "PEER_POOLS",
        "iiiii",
        "peer_id cl_active_cancel_req cl_waiting_cancel_req sv_active_cancel sv_login",
    ),
    ("DNS_HOSTS", "sqs", "hostname ttl addrs"),
    ("DNS_ZONES", "sqi", "zonename serial count"),
];

const SOCKETS: &str = "type user database replication state addr port local_addr local_port \
    connect_time request_time wait wait_us close_needed ptr link remote_pid tls application_name \
    prepared_statements id recv_pos pkt_pos pkt_remain send_pos send_remain pkt_avail send_avail";

/// The columns of release 1.18.0, as that program itself, asked by psql, has said them. Later ones
/// have put columns between, and renamed one, `reserve_pool` of DATABASES, which is left out here.
const RELEASE_1_18: [(&str, &str); 14] = [
    (
        "POOLS",
        "database user cl_active cl_waiting cl_active_cancel_req cl_waiting_cancel_req sv_active \
         sv_active_cancel sv_being_canceled sv_idle sv_used sv_tested sv_login maxwait maxwait_us \
         pool_mode",
    ),
    (
        "STATS",
        "database total_xact_count total_query_count total_received total_sent total_xact_time \
         total_query_time total_wait_time avg_xact_count avg_query_count avg_recv avg_sent \
         avg_xact_time avg_query_time avg_wait_time",
    ),
    (
        "STATS_TOTALS",
        "database xact_count query_count bytes_received bytes_sent xact_time query_time wait_time",
    ),
    (
        "STATS_AVERAGES",
        "database xact_count query_count bytes_received bytes_sent xact_time query_time wait_time",
    ),
    ("TOTALS", "name value"),
    (
        "CLIENTS",
        "type user database state addr port local_addr local_port connect_time request_time wait \
         wait_us close_needed ptr link remote_pid tls application_name",
    ),
    (
        "SOCKETS",
        "type user database state addr port local_addr local_port connect_time request_time wait \
         wait_us close_needed ptr link remote_pid tls application_name recv_pos pkt_pos \
         pkt_remain send_pos send_remain pkt_avail send_avail",
    ),
    ("CONFIG", "key value default changeable"),
    (
        "DATABASES",
        "name host port database force_user pool_size min_pool_size pool_mode max_connections \
         current_connections paused disabled",
    ),
    ("USERS", "name pool_mode"),
    ("LISTS", "list items"),
    ("MEM", "name size used free memtotal"),
    ("DNS_HOSTS", "hostname ttl addrs"),
    ("DNS_ZONES", "zonename serial count"),
];

fn show(name: &str, snapshot: &Snapshot) -> Vec<Vec<Option<String>>> {
    let bytes = query(&mut session(Access::Show), &format!("SHOW {name}"), snapshot);
    let (columns, rows) = table(&bytes);
    assert!(rows.iter().all(|row| row.len() == columns.len()), "{name}");
    rows
}

/// The values of a row by the names of their columns.
fn named(name: &str, row: usize) -> impl Fn(&str) -> Option<String> {
    let bytes = query(&mut session(Access::Show), &format!("SHOW {name}"), &filled());
    let (columns, rows) = table(&bytes);
    let values = rows[row].clone();
    move |column| {
        let at = columns.iter().position(|(name, ..)| name == column);
        values[at.unwrap_or_else(|| panic!("no {column}"))].clone()
    }
}

#[test]
fn columns_have_the_names_the_order_and_the_types_of_release_1_25() {
    for (name, letters, columns) in RELEASE_1_25 {
        let bytes = query(&mut session(Access::Show), &format!("SHOW {name}"), &filled());
        let wanted: Vec<_> = columns
            .split_whitespace()
            .zip(letters.chars())
            .map(|(column, letter)| {
                let (oid, size) = match letter {
                    's' | 'T' => (25, -1),
                    'i' => (23, 4),
                    'q' => (20, 8),
                    _ => (1700, -1),
                };
                (column.to_owned(), oid, size, 0)
            })
            .collect();
        assert_eq!(wanted.len(), letters.len(), "{name}");
        assert_eq!(table(&bytes).0, wanted, "{name}");
        let tags = tags(&bytes);
        assert_eq!(tags.first(), Some(&Backend::RowDescription), "{name}");
        assert!(tags.ends_with(&[Backend::CommandComplete, Backend::ReadyForQuery]), "{name}");
    }
    assert_eq!(
        Table::ALL.len(),
        RELEASE_1_25.len() + ["GATE", "SLOTS", "QUEUE", "PINS", "MODEL"].len()
    );
}

#[test]
fn what_release_1_18_itself_showed_is_there_in_its_order() {
    for (name, columns) in RELEASE_1_18 {
        let table = Table::ALL.iter().find(|table| table.name() == name).unwrap();
        let mut ours = table.columns().iter();
        for column in columns.split_whitespace() {
            assert!(ours.any(|one| one.name == column), "{name}: {column} in its place");
        }
    }
}

#[test]
fn a_snapshot_of_nothing_is_shown_without_rows_or_with_zeros() {
    for &table in Table::ALL {
        let rows = show(table.name(), &empty());
        match table.name() {
            "LISTS" => assert_eq!(rows.len(), 14),
            "TOTALS" => {
                assert!(rows.len() == 22 && rows.iter().all(|r| r[1].as_deref() == Some("0")))
            }
            "STATE" => assert_eq!(rows.len(), 3),
            "VERSION" => {
                let told = "PgBouncer 1.25.0 console of Sekisho 0.1.0";
                assert_eq!(rows, [[Some(told.to_owned())]]);
            }
            _ => assert!(rows.is_empty(), "{}: {rows:?}", table.name()),
        }
    }
}

#[test]
fn pools_say_who_waits_and_for_how_long() {
    let pool = named("POOLS", 0);
    for (column, value) in [
        ("database", "shop"),
        ("user", "alice"),
        ("cl_active", "5"),
        ("cl_waiting", "2"),
        ("cl_active_cancel_req", "1"),
        ("sv_active", "4"),
        ("sv_idle", "1"),
        ("sv_login", "1"),
        ("maxwait", "2"),
        ("maxwait_us", "500123"),
        ("pool_mode", "transaction"),
    ] {
        assert_eq!(pool(column).as_deref(), Some(value), "{column}");
    }
    assert_eq!(pool("load_balance_hosts"), None);
    assert_eq!(show("POOLS", &filled()).len(), 3);
}

#[test]
fn statistics_add_pools_up_and_take_averages_of_the_last_period() {
    let rows = show("STATS", &filled());
    assert_eq!(rows.len(), 2);
    // Two pools of 10,007 bytes, 90 transactions of 20 ms and 100 waits of 4 ms in 60 s; a rate is
    // rounded down, as is a mean.
    for (column, value) in [
        ("database", "shop"),
        ("total_xact_count", "1996"),
        ("total_received", "246912"),
        ("total_xact_time", "40000000"),
        ("total_wait_time", "8000000"),
        ("avg_xact_count", "3"),
        ("avg_query_count", "10"),
        ("avg_recv", "333"),
        ("avg_sent", "0"),
        ("avg_xact_time", "20000"),
        ("avg_query_time", "4003"),
        ("avg_wait_time", "4000"),
        ("avg_bind_count", "0"),
    ] {
        assert_eq!(named("STATS", 0)(column).as_deref(), Some(value), "{column}");
    }
    let (stats, totals) = (named("STATS", 1), named("STATS_TOTALS", 1));
    let averages = named("STATS_AVERAGES", 1);
    assert_eq!(
        (stats("database"), stats("total_sent")),
        (totals("database"), totals("bytes_sent"))
    );
    assert_eq!(stats("avg_recv"), averages("bytes_received"));
    assert_eq!(stats("avg_query_time"), averages("query_time"));
    let all = show("TOTALS", &filled());
    let value = |name: &str| {
        let row = all.iter().find(|row| row[0].as_deref() == Some(name));
        row.unwrap_or_else(|| panic!("no {name}"))[1].clone().unwrap()
    };
    assert_eq!(value("total_xact_count"), "2994");
    assert_eq!(value("total_client_bytes"), "370368");
    assert_eq!(value("avg_xact_count"), "4");
    assert_eq!(value("avg_wait_time"), "4000");
    assert_eq!(value("avg_ps_bind_count"), "0");
}

#[test]
fn connections_say_who_is_joined_to_whom() {
    let client = named("CLIENTS", 0);
    for (column, value) in [
        ("type", "C"),
        ("replication", "none"),
        ("state", "active"),
        ("addr", "127.0.0.1"),
        ("port", "40001"),
        ("connect_time", "2026-11-22 09:59:00 UTC"),
        ("request_time", "2026-11-22 09:59:57 UTC"),
        ("wait", "0"),
        ("wait_us", "700000"),
        ("close_needed", "0"),
        ("ptr", "0x1"),
        ("link", "0x65"),
        ("remote_pid", "0"),
        ("application_name", "till"),
        ("prepared_statements", "3"),
        ("id", "1"),
    ] {
        assert_eq!(client(column).as_deref(), Some(value), "{column}");
    }
    let server = named("SERVERS", 0);
    for (column, value) in [
        ("type", "S"),
        ("addr", "::1"),
        ("close_needed", "1"),
        ("ptr", "0x65"),
        ("link", "0x1"),
        ("remote_pid", "4711"),
        ("tls", "TLSv1.3/TLS_AES_256_GCM_SHA384"),
    ] {
        assert_eq!(server(column).as_deref(), Some(value), "{column}");
    }
    // The one that logs in belongs to no pool yet.
    assert_eq!(show("CLIENTS", &filled()).len(), 28);
    assert_eq!(named("CLIENTS", 3)("addr").as_deref(), Some("unix"));
    assert_eq!(named("SERVERS", 2)("state").as_deref(), Some("being_canceled"));
    let active = named("ACTIVE_SOCKETS", 0);
    for (column, value) in
        [("id", "4"), ("state", "cl_active"), ("pkt_avail", "17"), ("pkt_remain", "9")]
    {
        assert_eq!(active(column).as_deref(), Some(value), "{column}");
    }
    assert_eq!(show("ACTIVE_SOCKETS", &filled()).len(), 1);
    assert_eq!(named("SOCKETS", 4)("state").as_deref(), Some("cl_login"));
}

#[test]
fn settings_and_counts_are_shown() {
    assert_eq!(named("DATABASES", 0)("host").as_deref(), Some("127.0.0.1"));
    assert_eq!(named("DATABASES", 0)("force_user"), None);
    assert_eq!(named("DATABASES", 0)("server_lifetime").as_deref(), Some("3600"));
    assert_eq!(named("DATABASES", 0)("disabled").as_deref(), Some("1"));
    assert_eq!(named("USERS", 0)("pool_size").as_deref(), Some(""));
    assert_eq!(named("USERS", 0)("pool_mode").as_deref(), Some("session"));
    assert_eq!(named("CONFIG", 0)("changeable").as_deref(), Some("yes"));
    assert_eq!(named("MEM", 0)("memtotal").as_deref(), Some("16384"));
    let lists = show("LISTS", &filled());
    let items = |list: &str| {
        let row = lists.iter().find(|row| row[0].as_deref() == Some(list)).unwrap();
        row[1].clone().unwrap()
    };
    let found = ["pools", "free_clients", "used_clients", "login_clients", "used_servers", "peers"];
    assert_eq!(found.map(items), ["3", "3", "29", "1", "3", "0"]);
}

#[test]
fn our_own_tables_say_wait_hold_queue_pins_and_model() {
    let gate = named("GATE", 0);
    for (column, value) in [
        ("class", "web"),
        ("discipline", "fifo"),
        ("slots", "4"),
        ("started", "900"),
        ("refused", "5"),
        ("reneged", "1"),
        ("wait_p50", "5ms to 10ms"),
        ("hold_p99", "50ms to 100ms"),
        ("slots_dropped", "3"),
    ] {
        assert_eq!(gate(column).as_deref(), Some(value), "{column}");
    }
    assert_eq!(named("QUEUE", 1)("place").as_deref(), Some("2"));
    assert_eq!(named("QUEUE", 1)("priority").as_deref(), Some("-1"));
    assert_eq!(named("QUEUE", 1)("left_s").as_deref(), Some("117.5"));
    assert_eq!(named("QUEUE", 1)("estimate_s"), None);
    assert_eq!(named("PINS", 0)("reason").as_deref(), Some("LISTEN"));
    assert_eq!(named("PINS", 0)("cost_slots").as_deref(), Some("0.75"));
    assert_eq!(named("MODEL", 0)("low").as_deref(), Some("0.017"));
    assert_eq!(named("MODEL", 0)("happened"), None);
    assert_eq!(named("MODEL", 1)("happened").as_deref(), Some("188.2"));
}

#[test]
fn a_reply_is_bounded_and_says_what_it_leaves_out() {
    let setting = |key: u32| Setting {
        key: key.to_string(),
        value: "v".repeat(1 << 20),
        default: String::new(),
        changeable: false,
    };
    let snapshot = Snapshot { config: (0..20).map(setting).collect(), ..empty() };
    let bytes = query(&mut session(Access::Show), "SHOW CONFIG", &snapshot);
    assert!(bytes.len() < 18 << 20, "{}", bytes.len());
    let rows = table(&bytes).1.len();
    assert_eq!(rows, 16);
    let messages = pgtest::messages::<Backend>(&bytes);
    let notice = messages.iter().find(|(tag, _)| *tag == Backend::NoticeResponse).unwrap().1;
    assert!(String::from_utf8_lossy(notice).contains("4 rows left out"), "{notice:?}");
}
