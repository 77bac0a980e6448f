//! Users: nobody gets at a tree that is not his, by whatever address.

use std::io::{BufRead, BufReader};

use jungle_server::{Access, AccessError, Server, StartError, Users, access_token_hash};
use serde_json::{Value, json};

use crate::client::{Answer, Folder, Site, settings};

/// Ann reads `wiki` and writes `shop/...`; root does everything.
fn users() -> Users {
    users_with("read = [\"wiki\"]\nwrite = [\"shop/\"]\nin_flight = 2")
}

fn users_with(of_ann: &str) -> Users {
    let user = |name: &str, rules: &str| {
        let hash = access_token_hash(&format!("{name}-token"));
        format!("[[user]]\nname = \"{name}\"\naccess_token_sha256 = \"{hash}\"\n{rules}\n")
    };
    let ann = user("ann", of_ann);
    Users::parse(&format!("{ann}{}", user("root", "admin = true"))).unwrap()
}

struct Shop {
    _folder: Folder,
    site: Site,
}

impl Shop {
    /// Trees `wiki`, `shop/a` and `secret`; commit 4 is of `secret` alone, commit 5 of `secret` and `wiki`.
    fn open() -> Self {
        let folder = Folder::new();
        let access = Access { users: Some(users()), tls: None };
        let site = Site::for_users(&folder.join("data"), settings(), access);
        let shop = Self { _folder: folder, site };
        for tree in ["wiki", "shop%2Fa", "secret"] {
            shop.root("PUT", &format!("/trees/{tree}"), None).is(201);
        }
        let put = |tree: &str, text: &str| json!({"op": "put", "tree": tree, "node": "root", "attributes": {"text": text}});
        let alone = json!({"message": "hush", "operations": [put("secret", "s1")]});
        shop.root("POST", "/transactions", Some(&alone)).is(200);
        let both =
            json!({"message": "hush hush", "operations": [put("secret", "s2"), put("wiki", "w")]});
        shop.root("POST", "/transactions", Some(&both)).is(200);
        shop
    }

    fn by(&self, user: &str, method: &str, place: &str, body: Option<&Value>) -> Answer {
        let said = format!("Bearer {user}-token");
        self.site.ask_with(method, place, body, &[("authorization", &said)])
    }

    fn root(&self, method: &str, place: &str, body: Option<&Value>) -> Answer {
        self.by("root", method, place, body)
    }

    fn ann(&self, method: &str, place: &str, body: Option<&Value>) -> Answer {
        self.by("ann", method, place, body)
    }
}

#[test]
fn whoever_has_no_access_token_sees_nothing_but_that_the_server_lives() {
    let shop = Shop::open();
    for place in
        ["/trees", "/trees/wiki", "/metrics", "/stats", "/watch", "/commits", "/backup", "/no"]
    {
        let answer = shop.site.get(place);
        answer.is_problem(401, &["Bearer ACCESS-TOKEN"]);
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        shop.by("eve", "GET", place, None).is_problem(401, &["no user has this access token"]);
    }
    let other = [("authorization", "Basic YW5uOmFubg==")];
    shop.site.ask_with("GET", "/trees", None, &other).is_problem(401, &["another scheme"]);
    for place in ["/healthz", "/readyz", "/"] {
        assert_eq!(shop.site.get(place).status, 200, "{place}");
    }
}

#[test]
fn a_tree_of_others_is_neither_read_nor_written_by_any_address() {
    let shop = Shop::open();
    let node = json!({"attributes": {"a": "b"}});
    // The answer is the same for a tree that there is and for one that there is not.
    for tree in ["secret", "nowhere"] {
        for place in [
            "",
            "/nodes/root",
            "/nodes/root/log",
            "/nodes/root/blame",
            "/find?attribute=text",
            "/diff?from=1",
        ] {
            shop.ann("GET", &format!("/trees/{tree}{place}"), None)
                .is_problem(403, &["`ann` may not read"]);
        }
        for (method, place, body) in [
            ("PUT", "", None),
            ("DELETE", "", None),
            ("PATCH", "/nodes/root", Some(&node)),
            ("DELETE", "/nodes/root", None),
            ("POST", "/nodes/root/children", Some(&node)),
            ("PUT", "/indexes/text", None),
        ] {
            let answer = shop.ann(method, &format!("/trees/{tree}{place}"), body);
            answer.is_problem(403, &["`ann` may not write", tree]);
        }
    }
    for (place, body) in [
        ("/trees/wiki/nodes/root/children", node.clone()),
        ("/trees/shop%2Fa/rename", json!({"name": "mine"})),
        ("/trees/wiki/branch", json!({"name": "mine"})),
        ("/trees/secret/branch", json!({"name": "shop/b"})),
        ("/trees/shop%2Fa/merge", json!({"from": "secret"})),
        ("/commits/4/revert", json!({})),
        ("/commits/5/revert", json!({})),
        ("/commits/4/pick", json!({"from": "secret", "into": "shop/a"})),
        ("/trees/secret/nodes/root/restore", json!({"at": 4})),
        ("/snapshot", json!({})),
    ] {
        shop.ann("POST", place, Some(&body)).is_problem(403, &["`ann` may not"]);
    }
    for place in [
        "/metrics",
        "/stats",
        "/backup",
        "/commits/4",
        "/commits/5",
        "/trees/wiki/diff?from_tree=secret",
    ] {
        shop.ann("GET", place, None).is_problem(403, &["`ann` may not"]);
    }
    shop.ann("PUT", "/holds/x", Some(&json!({"seq": 1}))).is_problem(403, &["admin"]);
    shop.ann("DELETE", "/holds/x", None).is_problem(403, &["admin"]);
    let newest = shop.root("GET", "/stats", None).is(200);
    assert_eq!(newest["seq"], 5, "nothing was committed");
}

#[test]
fn a_transaction_is_allowed_as_a_whole_or_not_at_all() {
    let shop = Shop::open();
    let insert = |tree: &str| json!({"op": "insert", "tree": tree, "parent": "root"});
    let both = json!({"operations": [insert("shop/a"), insert("secret")]});
    shop.ann("POST", "/transactions", Some(&both)).is_problem(403, &["`secret`"]);
    let create = json!({"operations": [insert("shop/a"), {"op": "create_tree", "tree": "mine"}]});
    shop.ann("POST", "/transactions", Some(&create)).is_problem(403, &["write tree `mine`"]);
    // Neither a node's absence nor a version tells of a tree that may not be read.
    // A path is looked for before anything is decided: one that leads nowhere would tell.
    for node in ["9.9", "root", "<-1,7>"] {
        let condition = json!({"tree": "secret", "node": node, "since": 1});
        let asked = json!({"operations": [insert("shop/a")], "preconditions": [condition]});
        shop.ann("POST", "/transactions", Some(&asked)).is_problem(403, &["read tree `secret`"]);
    }
    let own = json!({"operations": [insert("shop/a"), {"op": "create_tree", "tree": "shop/b"}]});
    let seq = shop.ann("POST", "/transactions", Some(&own)).is(200)["seq"].clone();
    let commit = shop.ann("GET", &format!("/commits/{seq}"), None).is(200);
    assert_eq!(commit["author"], "ann");
    let bob = json!({"author": "bob", "operations": [insert("shop/a")]});
    shop.ann("POST", "/transactions", Some(&bob)).is_problem(403, &["in the name of `bob`"]);
    assert_eq!(shop.root("POST", "/transactions", Some(&bob)).status, 200);
}

/// The story: a key was looked up before anybody asked for the rights of its sender.
#[test]
fn a_request_that_is_sent_again_needs_the_same_rights() {
    let Shop { _folder: folder, site } = Shop::open();
    let insert = json!({"op": "insert", "tree": "shop/a", "parent": "root"});
    let node = json!({"attributes": {"a": "b"}});
    let transaction = json!({"operations": [insert]});
    let (branch, pick) = (json!({"name": "shop/b"}), json!({"from": "shop/a", "into": "shop/b"}));
    let requests = [
        ("POST", "/trees/shop%2Fa/branch", Some(&branch), 201),
        ("POST", "/trees/shop%2Fa/nodes/root/children", Some(&node), 201),
        ("POST", "/transactions", Some(&transaction), 200),
        ("POST", "/commits/8/pick", Some(&pick), 200),
        ("POST", "/commits/8/revert", None, 200),
        ("PUT", "/trees/shop%2Fc", None, 201),
    ];
    let ask = |site: &Site, (method, place, body, _): (&str, &str, Option<&Value>, u16)| {
        let headers = [("authorization", "Bearer ann-token"), ("idempotency-key", place)];
        site.ask_with(method, place, body, &headers)
    };
    let first = requests.map(|request| ask(&site, request).is(request.3));
    let again = |site: Site, rules: &str| {
        site.server.stop().unwrap();
        let access = Access { users: Some(users_with(rules)), tls: None };
        Site::for_users(&folder.join("data"), settings(), access)
    };
    let site = again(site, "read = [\"wiki\"]\nwrite = [\"shop/\"]");
    for (request, answer) in requests.iter().zip(&first) {
        assert_eq!(ask(&site, *request).is(request.3)["seq"], answer["seq"], "{request:?}");
    }
    let site = again(site, "read = [\"wiki\", \"shop/\"]");
    for request in requests {
        ask(&site, request).is_problem(403, &["`ann` may not write"]);
    }
    // Nor is it told to whom the tree is unknown whether the key is of another request.
    let other = ("POST", "/trees/secret/nodes/root/children", Some(&node), 201);
    ask(&site, other).is_problem(403, &["`ann` may not write"]);
}

#[test]
fn what_is_listed_and_told_leaves_out_what_others_have() {
    let shop = Shop::open();
    let names = |answer: Value| -> Vec<String> {
        let trees = answer["trees"].as_array().unwrap().clone();
        trees.iter().map(|tree| tree["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(shop.ann("GET", "/trees", None).is(200)), ["shop/a", "wiki"]);
    assert_eq!(names(shop.root("GET", "/trees", None).is(200)), ["secret", "shop/a", "wiki"]);
    let seqs = |answer: Value| -> Vec<u64> {
        answer.as_array().unwrap().iter().map(|one| one["seq"].as_u64().unwrap()).collect()
    };
    assert_eq!(seqs(shop.ann("GET", "/commits", None).is(200)), [2, 1]);
    assert_eq!(seqs(shop.root("GET", "/commits", None).is(200)), [5, 4, 3, 2, 1]);
    // The commit changed a node that ann may read: that shows, and nothing else of it.
    let log = shop.ann("GET", "/trees/wiki/nodes/root/log", None).is(200);
    let newest = &log["entries"][0];
    assert_eq!(
        (&newest["seq"], &newest["withheld"], &newest["message"]),
        (&json!(5), &json!(true), &json!(""))
    );
    let blame = shop.ann("GET", "/trees/wiki/nodes/root/blame", None).is(200);
    assert_eq!(blame["attributes"]["text"]["withheld"], true);
    for text in [log.to_string(), blame.to_string()] {
        assert!(!text.contains("hush") && !text.contains("secret"), "{text}");
    }
    let branch = json!({"name": "shop/copy"});
    shop.root("POST", "/trees/secret/branch", Some(&branch)).is(201);
    let copy = shop.ann("GET", "/trees/shop%2Fcopy", None).is(200);
    assert_eq!(copy["branch_of"], Value::Null, "{copy}");
}

#[test]
fn a_watch_tells_of_own_trees_and_counts_among_what_is_in_flight() {
    let shop = Shop::open();
    let watch = |after: u64| {
        let request = ureq::http::Request::builder()
            .uri(format!("{}/watch?after={after}", shop.site.url))
            .header("authorization", "Bearer ann-token");
        shop.site.agent.run(request.body(()).unwrap()).unwrap()
    };
    let first = watch(0);
    let events = BufReader::new(first.into_body().into_reader()).lines();
    let node = json!({"attributes": {"a": "b"}});
    shop.ann("POST", "/trees/shop%2Fa/nodes/root/children", Some(&node)).is(201);
    let mut told = Vec::new();
    for line in events.map(Result::unwrap) {
        assert!(!line.contains("hush") && !line.contains("secret"), "{line}");
        if let Some(body) =
            line.strip_prefix("data: {\"seq\":").filter(|_| line.contains("\"author\""))
        {
            told.push(body.split(',').next().unwrap().parse::<u64>().unwrap());
        }
        if told.last() == Some(&6) {
            break;
        }
    }
    assert_eq!(told, [1, 2, 6]);
    let (_second, _third) = (watch(6), watch(6));
    // The first has ended with its reader; two are as many as ann may have.
    let refused = shop.ann("GET", "/trees", None);
    refused.is_problem(429, &["in flight"]);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(shop.root("GET", "/trees", None).status, 200, "others are not held up");
}

#[test]
fn others_reach_a_server_with_users_and_tls_alone() {
    let folder = Folder::new();
    let mut settings = settings();
    settings.listen = "0.0.0.0:0".parse().unwrap();
    let place = folder.join("data");
    let none = Server::start(&place, settings, Access::default()).unwrap_err();
    assert!(
        matches!(none, StartError::Access(AccessError::Public(_)))
            && none.to_string().contains("--users"),
        "{none}"
    );
    let clear =
        Server::start(&place, settings, Access { users: Some(users()), tls: None }).unwrap_err();
    assert!(
        matches!(clear, StartError::Access(AccessError::InClear(_)))
            && clear.to_string().contains("--tls-cert"),
        "{clear}"
    );
    assert!(!place.exists());
}
