//! Our server against our client: every method, every kind of stored secret, every wrong answer.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use pgwire::SqlState;
use pgwire::auth::{
    Binding, Check, CheckError, Checked, Cleartext, Credential, ITERATIONS, Login, LoginError,
    LoginStep, Method, ScramError, Terms, Verifier,
};
use pgwire::frame::{Backend, Frontend};
use pgwire::message::{Authentication, read, write};
use pgwire::secrets::{Kind, MockKey, Secret, Users};

use super::{CLIENT_NONCE, Failed, KEY, SERVER_NONCE, meet, meet_through, messages, secret};

const METHODS: [Method; 3] = [Method::Password, Method::Md5, Method::ScramSha256];

fn password(text: &str) -> Credential {
    Credential::Password(text.as_bytes().to_vec())
}

/// Terms that let a password go in clear.
fn open() -> Terms {
    Terms { cleartext: Cleartext::Allowed, ..Terms::default() }
}

fn bound(hash: &[u8]) -> Terms {
    Terms { binding: Binding::EndPoint(hash.to_vec()), ..open() }
}

/// The stored secrets of `text` for alice, in each form.
fn stored(text: &str) -> [String; 3] {
    let scram = Verifier::derive(text.as_bytes(), b"some salt of 16!", ITERATIONS).to_text();
    [text.to_owned(), md5_of(text), scram]
}

/// As PostgreSQL stores it for MD5.
fn md5_of(text: &str) -> String {
    use md5::{Digest, Md5};
    let hash = Md5::digest(format!("{text}alice"));
    format!("md5{}", hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

fn wrong() -> Failed {
    Failed::Check(CheckError::WrongPassword { user: "alice".to_owned() })
}

#[test]
fn trust_asks_for_nothing_and_proves_nothing() {
    let met = meet(
        Method::Trust,
        &secret("alice", "x"),
        Binding::Absent,
        Credential::Nothing,
        Terms::default(),
    )
    .unwrap();
    assert_eq!((met.passed, &met.said[..]), (Credential::Nothing, &b"R\0\0\0\x08\0\0\0\0"[..]));
}

#[test]
fn every_method_takes_the_right_password_and_no_other() {
    for method in METHODS {
        for (kind, stored) in stored("s\u{e9}cret").iter().enumerate() {
            let secret = secret("alice", stored);
            let meets = |credential| meet(method, &secret, Binding::Absent, credential, open());
            // An MD5 hash says nothing of the keys of SCRAM: that cannot work, with any password.
            if method == Method::ScramSha256 && secret.kind() == Kind::Md5 {
                assert_eq!(meets(password("s\u{e9}cret")).unwrap_err(), wrong());
                continue;
            }
            let met = meets(password("s\u{e9}cret")).unwrap();
            match (method, secret.kind()) {
                (Method::Password, _) => assert_eq!(met.passed, password("s\u{e9}cret")),
                (Method::ScramSha256, _) | (Method::Md5, Kind::Scram) => {
                    assert!(matches!(met.passed, Credential::Keys(_)), "{method:?} {kind}");
                }
                _ => assert_eq!(met.passed, Credential::Nothing),
            }
            for wrong_one in ["secret", "s\u{e9}cret ", "s\u{e9}cre", "S\u{e9}cret", "x"] {
                assert_eq!(meets(password(wrong_one)).unwrap_err(), wrong(), "{method:?} {kind}");
            }
            let empty = meets(password("")).unwrap_err();
            let refused = Failed::Check(CheckError::EmptyPassword);
            assert!(empty == wrong() || method == Method::Password && empty == refused);
        }
    }
}

#[test]
fn an_unknown_user_hears_what_a_known_one_hears_with_a_wrong_password() {
    for text in ["hunter2", &md5_of("hunter2"), &stored("hunter2")[2]] {
        let users = format!("\"bob\" \"{text}\"\n\"carol\" \"{text}\"");
        let users = Users::parse(&users, MockKey::new(KEY)).unwrap();
        for method in METHODS {
            let hears = |user: &str| {
                let mut out = Vec::new();
                let secret = users.secret(user.as_bytes());
                let checked = Check::begin(
                    method,
                    b"alice",
                    &secret,
                    Binding::Absent,
                    SERVER_NONCE,
                    &mut out,
                );
                assert!(matches!(checked, Checked::Asks(_)));
                let wrong = password("wrong");
                let error = meet(method, &secret, Binding::Absent, wrong, open()).unwrap_err();
                (out, error)
            };
            let (known, unknown) = (hears("bob"), hears("mallory"));
            assert_eq!(known, unknown, "{method:?}");
            assert_eq!(unknown.1, wrong());
        }
    }
    // The salt of a user who is not known stays the same, and is another for another.
    let users = Users::parse("", MockKey::new(KEY)).unwrap();
    let challenge = |user: &str| {
        let mut out = Vec::new();
        let secret = users.secret(user.as_bytes());
        let checked =
            Check::begin(Method::Md5, b"a", &secret, Binding::Absent, SERVER_NONCE, &mut out);
        let Checked::Asks(check) = checked else { panic!() };
        let said = sasl("SCRAM-SHA-256", "n,,n=,r=client");
        out.clear();
        drop(check.answer(Frontend::Password, &said, &mut out).unwrap());
        out
    };
    assert_eq!(challenge("mallory"), challenge("mallory"));
    assert_ne!(challenge("mallory"), challenge("trudy"));
}

#[test]
fn the_keys_that_scram_leaves_open_a_server_with_the_same_secret_and_no_other() {
    let same = secret("alice", &stored("secret")[2]);
    let scram = |secret: &Secret, credential| {
        meet(Method::ScramSha256, secret, Binding::Absent, credential, Terms::default())
    };
    let keys = scram(&same, password("secret")).unwrap().passed;
    assert_eq!(scram(&same, keys.clone()).unwrap().passed, keys);
    // The same password under another salt is another secret.
    let other = Verifier::derive(b"secret", b"another salt!!!!", ITERATIONS).to_text();
    assert_eq!(scram(&secret("alice", &other), keys.clone()).unwrap_err(), wrong());
    // Keys are no password and no hash.
    for (method, text) in [(Method::Password, "x".to_owned()), (Method::Md5, md5_of("secret"))] {
        let error = meet(method, &secret("alice", &text), Binding::Absent, keys.clone(), open());
        let Failed::Login(error) = error.unwrap_err() else { panic!("the server refused") };
        assert!(error.to_string().contains("only SCRAM keys"), "{error}");
    }
    assert_eq!(format!("{keys:?}"), "Keys(***)");
}

#[test]
fn a_stored_hash_opens_what_asks_for_md5() {
    let secret = secret("alice", &md5_of("secret"));
    let met = meet(Method::Md5, &secret, Binding::Absent, secret.credential(), Terms::default());
    assert!(met.is_ok());
    let text = &stored("secret")[2];
    let error = meet(
        Method::ScramSha256,
        &super::secret("alice", text),
        Binding::Absent,
        secret.credential(),
        Terms::default(),
    );
    let Err(Failed::Login(error @ LoginError::Credential { .. })) = error else { panic!() };
    assert_eq!(error.sqlstate(), SqlState::INVALID_AUTHORIZATION);
}

#[test]
fn scram_is_bound_to_the_connection_where_both_sides_can() {
    let secret = secret("alice", "secret");
    let meets = |offered: Binding, terms| {
        meet(Method::ScramSha256, &secret, offered, password("secret"), terms)
    };
    let hash = Binding::EndPoint(b"the hash of a certificate".to_vec());
    let has = |said: &[u8], text: &[u8]| said.windows(text.len()).any(|part| part == text);

    let met = meets(hash.clone(), bound(b"the hash of a certificate")).unwrap();
    assert!(has(&met.said, b"SCRAM-SHA-256-PLUS\0\0\0\0") && has(&met.said, b"p=tls-server-end"));
    assert!(matches!(met.passed, Credential::Keys(_)));
    // Somebody in between has a certificate of his own.
    let error = meets(hash.clone(), bound(b"the hash of another one")).unwrap_err();
    assert_eq!(error, Failed::Check(ScramError::Binding.into()));
    // A server without TLS, or a client that cannot.
    let met = meets(Binding::Absent, bound(b"the hash of a certificate")).unwrap();
    assert!(has(&met.said, b"y,,n=,r="));
    let met = meets(hash.clone(), open()).unwrap();
    assert!(has(&met.said, b"n,,n=,r="));
    // Somebody in between hides the offer, so that nothing is bound.
    let hide = |bytes: &mut Vec<u8>| {
        let found = messages::<Backend>(bytes);
        let [(Backend::Authentication, body)] = found[..] else { return };
        if let Authentication::Sasl(offered) = read::authentication(body).unwrap() {
            assert!(offered.has("SCRAM-SHA-256-PLUS"));
            bytes.clear();
            write::authentication_sasl(bytes, &["SCRAM-SHA-256"]);
        }
    };
    let terms = bound(b"the hash of a certificate");
    let error = meet_through(Method::ScramSha256, &secret, hash, password("secret"), terms, hide);
    let error = error.unwrap_err();
    assert_eq!(error, Failed::Check(ScramError::Downgrade.into()));
}

/// The body of a SASLInitialResponse.
fn sasl(mechanism: &str, response: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write::sasl_initial_response(&mut out, mechanism, response.as_bytes());
    out.split_off(5)
}

fn asked(method: Method, secret: &Secret, binding: Binding) -> Check {
    let mut out = Vec::new();
    match Check::begin(method, b"alice", secret, binding, SERVER_NONCE, &mut out) {
        Checked::Asks(check) => check,
        Checked::Passed(_) => panic!("it asks for nothing"),
    }
}

/// The refusal of an answer: the code and the text of the error. Nothing may be written then.
fn refused(check: Check, tag: Frontend, body: &[u8]) -> String {
    let mut out = Vec::new();
    let error = check.answer(tag, body, &mut out).unwrap_err();
    assert!(out.is_empty());
    format!("{} {error}", error.sqlstate())
}

#[test]
fn an_answer_that_is_none_is_refused() {
    for method in METHODS {
        let secret = secret("alice", "secret");
        let check = || asked(method, &secret, Binding::Absent);
        assert_eq!(
            refused(check(), Frontend::Query, b"select 1\0"),
            "08P01 expected password response, got message type 81"
        );
        for body in [&b""[..], b"secret", b"secret\0\0", b"secret\0trailing"] {
            let error = refused(check(), Frontend::Password, body);
            assert!(error.starts_with("08P01 "), "{method:?}: {error}");
        }
    }
    let check = || asked(Method::Password, &secret("alice", "secret"), Binding::Absent);
    let empty = refused(check(), Frontend::Password, b"\0");
    assert_eq!(empty, "28P01 empty password returned by client");
}

#[test]
fn a_first_message_of_scram_that_is_none_is_refused() {
    let secret = secret("alice", "secret");
    let hash = || Binding::EndPoint(b"hash".to_vec());
    let plain = [
        ("SCRAM-SHA-1", "n,,n=,r=x", "08P01 client selected an invalid SASL"),
        ("SCRAM-SHA-256-PLUS", "p=tls-server-end-point,,n=,r=x", "08P01 client selected an inv"),
        ("SCRAM-SHA-256", "", "08P01 malformed SCRAM message: channel binding flag"),
        ("SCRAM-SHA-256", "n", "08P01 malformed SCRAM message: channel binding flag"),
        ("SCRAM-SHA-256", "n,", "08P01 malformed SCRAM message: authorization identity"),
        ("SCRAM-SHA-256", "x,,n=,r=x", "08P01 malformed SCRAM message: channel binding flag"),
        ("SCRAM-SHA-256", "n,a=bob,n=,r=x", "0A000 client uses authorization identity"),
        ("SCRAM-SHA-256", "n,bob,n=,r=x", "08P01 malformed SCRAM message: identity"),
        ("SCRAM-SHA-256", "n,,m=x,n=,r=x", "0A000 an unsupported SCRAM extension"),
        ("SCRAM-SHA-256", "n,,r=x", "08P01 malformed SCRAM message: user name"),
        ("SCRAM-SHA-256", "n,,n=", "08P01 malformed SCRAM message: nonce"),
        ("SCRAM-SHA-256", "n,,n=,r=", "08P01 malformed SCRAM message: nonce"),
        ("SCRAM-SHA-256", "n,,n=,r=a b", "08P01 malformed SCRAM message: nonce"),
        ("SCRAM-SHA-256", "n,,n=,r=\u{e9}", "08P01 malformed SCRAM message: nonce"),
        ("SCRAM-SHA-256", "n,,n=,r=x,", "08P01 malformed SCRAM message: extension"),
        ("SCRAM-SHA-256", "n,,n=,r=x,y", "08P01 malformed SCRAM message: extension"),
        ("SCRAM-SHA-256", "n,,n=\0,r=x", "08P01 malformed SCRAM message: it holds a NUL"),
        ("SCRAM-SHA-256", "p=tls-server-end-point,,n=,r=x", "08P01 the SCRAM mechanism and"),
    ];
    for (mechanism, message, expected) in plain {
        let check = asked(Method::ScramSha256, &secret, Binding::Absent);
        let error = refused(check, Frontend::Password, &sasl(mechanism, message));
        assert!(error.starts_with(expected), "{message:?}: {error}");
    }
    let plus = [
        ("SCRAM-SHA-256-PLUS", "n,,n=,r=x", "08P01 the SCRAM mechanism and"),
        ("SCRAM-SHA-256-PLUS", "y,,n=,r=x", "08P01 the SCRAM mechanism and"),
        ("SCRAM-SHA-256-PLUS", "p=tls-unique,,n=,r=x", "08P01 unsupported SCRAM channel-binding"),
        ("SCRAM-SHA-256", "p=tls-server-end-point,,n=,r=x", "08P01 the SCRAM mechanism and"),
        ("SCRAM-SHA-256", "y,,n=,r=x", "28000 SCRAM channel binding negotiation error"),
    ];
    for (mechanism, message, expected) in plus {
        let check = asked(Method::ScramSha256, &secret, hash());
        let error = refused(check, Frontend::Password, &sasl(mechanism, message));
        assert!(error.starts_with(expected), "{message:?}: {error}");
    }
    let check = asked(Method::ScramSha256, &secret, Binding::Absent);
    let nothing = b"SCRAM-SHA-256\0\xff\xff\xff\xff";
    let error = refused(check, Frontend::Password, nothing);
    assert_eq!(error, "08P01 malformed SCRAM message: it is missing");
}

#[test]
fn a_last_message_of_scram_that_is_none_is_refused() {
    let secret = secret("alice", "secret");
    // What a right client says to this server, in this exchange.
    let mut out = Vec::new();
    let login = Login::new(b"alice", password("secret"), Terms::default(), CLIENT_NONCE);
    let mut offer = Vec::new();
    write::authentication_sasl(&mut offer, &["SCRAM-SHA-256"]);
    let step = login.answer(&read::authentication(&offer[5..]).unwrap(), &mut out).unwrap();
    let LoginStep::Waits(login) = step else { panic!() };
    let first = out.split_off(5);
    let challenged = || {
        let check = asked(Method::ScramSha256, &secret, Binding::Absent);
        let mut challenge = Vec::new();
        match check.answer(Frontend::Password, &first, &mut challenge).unwrap() {
            Checked::Asks(check) => (check, challenge),
            Checked::Passed(_) => panic!("it passed without a proof"),
        }
    };
    let challenge = challenged().1;
    out.clear();
    drop(login.answer(&read::authentication(&challenge[5..]).unwrap(), &mut out).unwrap());
    let last = String::from_utf8(out.split_off(5)).unwrap();

    let answer = |last: &str| {
        let mut out = Vec::new();
        match challenged().0.answer(Frontend::Password, last.as_bytes(), &mut out) {
            Ok(Checked::Passed(_)) => "passed".to_owned(),
            Ok(Checked::Asks(_)) => panic!("it asks on"),
            Err(error) => {
                assert!(out.is_empty());
                format!("{} {error}", error.sqlstate())
            }
        }
    };
    assert_eq!(answer(&last), "passed");
    let (ahead, proof) = last.split_once(",p=").unwrap();
    let (_, nonce) = ahead.split_once(",r=").unwrap();
    let wrong = "28P01 password authentication failed for user \"alice\"";
    let part = |part: &str| format!("08P01 malformed SCRAM message: {part}");
    let nonce_error = "08P01 invalid SCRAM response: nonce does not match";
    let binding_error = "28000 SCRAM channel binding check failed";
    for (message, expected) in [
        (String::new(), part("proof")),
        (ahead.to_owned(), part("proof")),
        (format!("{ahead},p="), part("proof")),
        (format!("{ahead},p={}", &proof[..20]), part("proof")),
        (format!("{ahead},p={proof}="), part("proof")),
        (format!("{ahead},p={proof},x=y"), part("proof")),
        (format!("c=eSws,r={nonce},p={proof}"), binding_error.to_owned()),
        (format!("c=,r={nonce},p={proof}"), binding_error.to_owned()),
        (format!("r={nonce},p={proof}"), part("channel binding")),
        (format!("c=biws,p={proof}"), part("nonce")),
        (format!("c=biws,r={nonce}x,p={proof}"), nonce_error.to_owned()),
        (format!("c=biws,r={},p={proof}", &nonce[1..]), nonce_error.to_owned()),
        (format!("{ahead},,p={proof}"), part("extension")),
        (format!("{ahead},x=y,p={proof}"), wrong.to_owned()),
    ] {
        assert_eq!(answer(&message), expected, "{message}");
    }
    // Each bit of the proof counts.
    let right = BASE64.decode(proof).unwrap();
    for bit in 0..256 {
        let mut proof = right.clone();
        proof[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(answer(&format!("{ahead},p={}", BASE64.encode(proof))), wrong, "bit {bit}");
    }
}

/// The outcome of a login with a server's messages, in their order: the error of the last one.
fn hostile(credential: Credential, terms: Terms, said: &[Authentication<'_>]) -> String {
    let mut login = Login::new(b"alice", credential, terms, CLIENT_NONCE);
    let (last, ahead) = said.split_last().unwrap();
    let mut out = Vec::new();
    for one in ahead {
        let LoginStep::Waits(waits) = login.answer(one, &mut out).unwrap() else { panic!() };
        login = waits;
    }
    out.clear();
    let error = login.answer(last, &mut out).unwrap_err();
    assert!(out.is_empty());
    format!("{} {error}", error.sqlstate())
}

/// The body of what a server offers.
fn offer(mechanisms: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    write::authentication_sasl(&mut out, mechanisms);
    out.split_off(5)
}

/// A challenge, where `OWN` stands for the client's nonce.
fn challenge(text: &str) -> String {
    text.replace("OWN", &BASE64.encode(CLIENT_NONCE))
}

#[test]
fn a_challenge_that_is_none_or_wants_too_much_gets_no_proof() {
    let offer = offer(&["SCRAM-SHA-256"]);
    let offer = read::authentication(&offer).unwrap();
    let continued = |text: &str| {
        let text = challenge(text);
        let terms = Terms { iterations_max: 5000, ..Terms::default() };
        let said = [offer, Authentication::SaslContinue(text.as_bytes())];
        hostile(password("secret"), terms, &said)
    };
    let ahead = "SCRAM with the server failed: ";
    for (text, code, error) in [
        ("", "08P01", "malformed SCRAM message: nonce"),
        ("r=OWN,s=c2FsdA==,i=4096", "08P01", "invalid SCRAM response: nonce does not match"),
        ("r=server,s=c2FsdA==,i=4096", "08P01", "invalid SCRAM response: nonce does not match"),
        ("r=OWNx y,s=c2FsdA==,i=4096", "08P01", "invalid SCRAM response: nonce does not match"),
        ("r=OWNx,s=,i=4096", "08P01", "malformed SCRAM message: salt"),
        ("r=OWNx,s=%,i=4096", "08P01", "malformed SCRAM message: salt"),
        ("r=OWNx,s=c2FsdA==", "08P01", "malformed SCRAM message: number of iterations"),
        ("r=OWNx,s=c2FsdA==,i=-1", "08P01", "malformed SCRAM message: number of iterations"),
        ("r=OWNx,s=c2FsdA==,i=0", "28000", "the server wants 0 SCRAM iterations"),
        ("r=OWNx,s=c2FsdA==,i=5001", "28000", "the server wants 5001 SCRAM iterations"),
        ("r=OWNx,s=c2FsdA==,i=99999999999999999999", "28000", "the server wants 184467440737"),
        ("m=x,r=OWNx,s=c2FsdA==,i=4096", "0A000", "an unsupported SCRAM extension"),
        ("e=other-error", "08P01", "malformed SCRAM message: nonce"),
    ] {
        let found = continued(text);
        assert!(found.starts_with(&format!("{code} {ahead}{error}")), "{text}: {found}");
    }
}

#[test]
fn a_server_that_proves_nothing_gets_nothing() {
    use Authentication::{
        CleartextPassword, Md5Password, Ok as In, Other, SaslContinue, SaslFinal,
    };
    let offers = [offer(&["SCRAM-SHA-256"]), offer(&["SCRAM-SHA-512", "SCRAM-SHA-256-PLUS"])];
    let [offer, foreign] = [0, 1].map(|index: usize| read::authentication(&offers[index]).unwrap());
    let right = challenge("r=OWNserver,s=c2FsdA==,i=4096");
    let secret = || password("secret");
    let finished = |text: &[u8]| {
        let said = [offer, SaslContinue(right.as_bytes()), SaslFinal(text)];
        hostile(secret(), Terms::default(), &said)
    };
    let forged = format!("v={}", BASE64.encode([0; 32]));
    for text in [forged.as_bytes(), b"v=AAAA", b"v="] {
        assert!(finished(text).contains("did not prove"), "{}", finished(text));
    }
    assert!(finished(b"").contains("malformed"));
    assert!(finished(b"e=invalid-proof").contains("malformed"));

    let steps = [offer, SaslContinue(right.as_bytes()), In];
    for said in [&[offer, In][..], &steps] {
        assert!(hostile(secret(), Terms::default(), said).starts_with("28000 the server ended"));
    }
    for said in [
        &[SaslContinue(b"x")][..],
        &[SaslFinal(b"x")],
        &[offer, offer],
        &[offer, SaslFinal(b"x")],
        &[offer, CleartextPassword],
        &[Md5Password { salt: [0; 4] }, CleartextPassword],
    ] {
        assert!(hostile(secret(), Terms::default(), said).contains("out of order"));
    }
    let cleartext = hostile(secret(), Terms::default(), &[CleartextPassword]);
    assert!(cleartext.starts_with("28000 the server asks for a password in clear"));
    let other = hostile(secret(), Terms::default(), &[Other { code: 7 }]);
    assert!(other.starts_with("0A000 the server asks for authentication of kind 7"));
    let unknown = hostile(secret(), Terms::default(), &[foreign]);
    assert!(unknown.ends_with("but SCRAM-SHA-512, SCRAM-SHA-256-PLUS"), "{unknown}");
    for asks in [CleartextPassword, Md5Password { salt: [0; 4] }, offer] {
        let nothing = hostile(Credential::Nothing, open(), &[asks]);
        assert!(nothing.contains("nothing to prove itself with"), "{nothing}");
    }
}
