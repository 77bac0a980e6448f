//! Host-based authentication, as in PostgreSQL's `pg_hba.conf`: the users that may come in from an
//! address, and their methods of proof.
//!
//! The first line that matches decides, whether the client then gets in or not. What a gate cannot
//! know, such as the members of a group or the names of hosts, is refused when the text is read.

use std::net::IpAddr;

use thiserror::Error;

use crate::auth::Method;
use crate::startup::Replication;

/// The rules, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hba {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    line: usize,
    way: Way,
    databases: Vec<Database>,
    users: Vec<User>,
    /// The admission of this line, or `None` if it rejects.
    admission: Option<Admission>,
}

/// The way on which a client comes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Way {
    Local,
    Host { transport: Option<Transport>, network: Network },
}

/// Addresses: those that are equal to `address` in the bits of `mask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    All,
    V4 { address: u32, mask: u32 },
    V6 { address: u128, mask: u128 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Database {
    All,
    SameUser,
    Replication,
    Named(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum User {
    All,
    Named(String),
}

/// Encryption of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// It is not.
    Clear,
    /// By TLS.
    Tls,
}

/// Origin of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This machine, by a Unix socket.
    Local,
    /// A network.
    Network {
        /// Its address there.
        address: IpAddr,
        /// Encryption of the connection.
        transport: Transport,
    },
}

/// Facts known of a client when it has sent its start-up packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts<'a> {
    /// The origin of the client.
    pub origin: Origin,
    /// The user that it claims to be.
    pub user: &'a [u8],
    /// The database that it wants.
    pub database: &'a [u8],
    /// The kind of replication, if any.
    pub replication: Replication,
}

/// Demand on a client's certificate in the TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// Nothing.
    Unneeded,
    /// A certificate of a trusted authority.
    Verified,
    /// The same, with the user's name as its common name.
    OfUser,
}

/// Demand on the identity of a client as the system knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// It need not.
    Unneeded,
    /// It connects as the user, or as one whom the map lets come in so.
    OfUser,
}

/// Terms on which a client may come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The method of proof; [`Method::Trust`] where the certificate does that.
    pub method: Method,
    /// The certificate that it must have shown already.
    pub certificate: Certificate,
    /// The demand on its identity as the system knows it; on this machine alone.
    pub peer: Peer,
    /// By which map names of certificates, or of the system, are users; `None` if they are the same.
    pub map: Option<String>,
    /// The line that says so, from 1.
    pub line: usize,
}

/// Why a client may not come in.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// A line says so.
    #[error("pg_hba.conf rejects connection for {whom}")]
    Rejected {
        /// The client, in words.
        whom: String,
        /// The line, from 1; not for the client's eyes.
        line: usize,
    },
    /// No line says anything of it.
    #[error("no pg_hba.conf entry for {whom}")]
    NoEntry {
        /// The client, in words.
        whom: String,
    },
}

impl Refusal {
    /// The code to answer with.
    pub fn sqlstate(&self) -> crate::SqlState {
        crate::SqlState::INVALID_AUTHORIZATION
    }
}

/// Why the rules cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {cause}")]
pub struct HbaError {
    /// The line, from 1.
    pub line: usize,
    /// The cause, and what to do.
    pub cause: HbaCause,
}

/// Fault in a line of the rules.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HbaCause {
    /// It ends before it says all.
    #[error("the {what} is missing: a line is TYPE DATABASE USER [ADDRESS] METHOD [OPTIONS]")]
    Missing {
        /// The missing part.
        what: &'static str,
    },
    /// There is a list where one word must be.
    #[error("there are several values for the {what}: write one line for each")]
    List {
        /// The field that has several.
        what: &'static str,
    },
    /// A quotation mark without its partner.
    #[error("a quotation mark does not end on its line")]
    Quote,
    /// No such type of connection.
    #[error("unknown connection type \"{word}\": local, host, hostssl and hostnossl are known")]
    Type {
        /// The word that stands there.
        word: String,
    },
    /// Something that the gate cannot know.
    #[error("{what} \"{word}\" cannot be decided here: {way_out}")]
    Undecidable {
        /// The thing that cannot be decided.
        what: &'static str,
        /// The word that stands there.
        word: String,
        /// The word to write instead.
        way_out: &'static str,
    },
    /// No address.
    #[error(
        "invalid address \"{word}\": it is all, or as 10.0.0.0/8, ::1/128, or with a mask behind it"
    )]
    Address {
        /// The word that stands there.
        word: String,
    },
    /// No mask for this address.
    #[error("invalid mask \"{word}\": it is an address of the same family as the one before it")]
    Mask {
        /// The word that stands there.
        word: String,
    },
    /// No such method.
    #[error(
        "unsupported method \"{word}\": trust, reject, password, md5, scram-sha-256, cert and peer are \
         known"
    )]
    Method {
        /// The word that stands there.
        word: String,
    },
    /// A method or an option where there can be no certificate.
    #[error("{word} needs a client certificate, and only hostssl lines can have one")]
    NotTls {
        /// The word that stands there.
        word: String,
    },
    /// A method of this machine where somebody may come from elsewhere.
    #[error("{word} is of this machine, and only local lines can have it")]
    NotLocal {
        /// The word that stands there.
        word: String,
    },
    /// An option that is not known, or not with this value.
    #[error(
        "unsupported option \"{word}\": clientcert=verify-ca, clientcert=verify-full, clientname=CN \
         and, with cert and peer, map=NAME are known"
    )]
    Option {
        /// The word that stands there.
        word: String,
    },
}

/// A word of a line; in quotation marks it is never a keyword.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    quoted: bool,
}

impl Word {
    /// The keyword that it is, or nothing.
    pub(super) fn keyword(&self) -> &str {
        if self.quoted { "" } else { &self.text }
    }
}

impl Hba {
    /// Reads rules in the format of `pg_hba.conf`. `#` begins a comment, and a line that ends with a
    /// backslash goes on in the next. `hostnossl` are connections without TLS, `hostnogssenc` are all
    /// of the network, since the gate does not speak GSSAPI.
    ///
    /// # Errors
    /// If a line is none, or cannot be decided by the gate.
    pub fn parse(text: &str) -> Result<Hba, HbaError> {
        let mut rules = Vec::new();
        let mut lines = text.lines().enumerate();
        while let Some((index, first)) = lines.next() {
            let line = index + 1;
            let mut whole = first.to_owned();
            while let Some(begun) = whole.strip_suffix('\\') {
                whole = begun.to_owned();
                whole.push_str(lines.next().map_or("", |(_, next)| next));
            }
            let failed = |cause| HbaError { line, cause };
            let fields = fields(&whole).map_err(failed)?;
            if !fields.is_empty() {
                rules.push(rule(line, fields).map_err(failed)?);
            }
        }
        Ok(Hba { rules })
    }

    /// The terms on which a client may come in, by the first line that matches.
    ///
    /// # Errors
    /// If that line rejects it, or none matches.
    pub fn decide(&self, facts: &Facts<'_>) -> Result<Admission, Refusal> {
        match self.rules.iter().find(|rule| rule.matches(facts)) {
            Some(Rule { admission: Some(admission), .. }) => Ok(admission.clone()),
            Some(Rule { line, .. }) => Err(Refusal::Rejected { whom: whom(facts), line: *line }),
            None => Err(Refusal::NoEntry { whom: whom(facts) }),
        }
    }
}

impl Hba {
    /// The maps that lines name, each with its line.
    pub fn maps(&self) -> impl Iterator<Item = (usize, &str)> {
        let admissions = self.rules.iter().filter_map(|rule| rule.admission.as_ref());
        admissions.filter_map(|admission| Some((admission.line, admission.map.as_deref()?)))
    }
}

impl Rule {
    fn matches(&self, facts: &Facts<'_>) -> bool {
        let way = match (&self.way, facts.origin) {
            (Way::Local, Origin::Local) => true,
            (Way::Host { transport, network }, Origin::Network { address, transport: used }) => {
                transport.is_none_or(|wanted| wanted == used) && network.has(address)
            }
            _ => false,
        };
        let physical = facts.replication == Replication::Physical;
        let database = |one: &Database| match one {
            Database::Replication => physical,
            _ if physical => false,
            Database::All => true,
            Database::SameUser => facts.database == facts.user,
            Database::Named(name) => name.as_bytes() == facts.database,
        };
        let user = |one: &User| match one {
            User::All => true,
            User::Named(name) => name.as_bytes() == facts.user,
        };
        way && self.databases.iter().any(database) && self.users.iter().any(user)
    }
}

impl Network {
    fn has(self, address: IpAddr) -> bool {
        // A socket for both families shows addresses of IPv4 as ones of IPv6.
        match (self, address.to_canonical()) {
            (Network::All, _) => true,
            (Network::V4 { address, mask }, IpAddr::V4(of)) => (of.to_bits() ^ address) & mask == 0,
            (Network::V6 { address, mask }, IpAddr::V6(of)) => (of.to_bits() ^ address) & mask == 0,
            _ => false,
        }
    }
}

/// The client as PostgreSQL's errors have it.
fn whom(facts: &Facts<'_>) -> String {
    let [user, database] =
        [facts.user, facts.database].map(|name| String::from_utf8_lossy(name).into_owned());
    let (host, transport) = match facts.origin {
        Origin::Local => ("[local]".to_owned(), Transport::Clear),
        Origin::Network { address, transport } => (address.to_canonical().to_string(), transport),
    };
    let way = match transport {
        Transport::Clear => "no encryption",
        Transport::Tls => "SSL encryption",
    };
    match facts.replication {
        Replication::Physical => {
            format!("replication connection from host \"{host}\", user \"{user}\", {way}")
        }
        Replication::No | Replication::Logical => {
            format!("host \"{host}\", user \"{user}\", database \"{database}\", {way}")
        }
    }
}

/// The fields of a line, each a list of words.
pub(super) fn fields(line: &str) -> Result<Vec<Vec<Word>>, HbaCause> {
    let mut fields: Vec<Vec<Word>> = Vec::new();
    let mut rest = line;
    let mut goes_on = false;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace());
        if rest.is_empty() || rest.starts_with('#') {
            return Ok(fields);
        }
        if let Some(after) = rest.strip_prefix(',') {
            // A list goes on after its comma, blanks or not.
            rest = after;
            goes_on = true;
            continue;
        }
        let (word, after) = word(rest)?;
        match fields.last_mut().filter(|_| goes_on) {
            Some(list) => list.push(word),
            None => fields.push(vec![word]),
        }
        goes_on = false;
        rest = after;
    }
}

/// The word at the front of `text`, and what follows it.
fn word(text: &str) -> Result<(Word, &str), HbaCause> {
    let mut word = Word { text: String::new(), quoted: text.starts_with('"') };
    let mut inside = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' => inside = !inside,
            _ if inside => word.text.push(c),
            ',' | '#' => return Ok((word, &text[at..])),
            _ if c.is_ascii_whitespace() => return Ok((word, &text[at..])),
            _ => word.text.push(c),
        }
    }
    if inside { Err(HbaCause::Quote) } else { Ok((word, "")) }
}

fn rule(line: usize, fields: Vec<Vec<Word>>) -> Result<Rule, HbaCause> {
    let mut fields = fields.into_iter();
    let mut list = |what| fields.next().ok_or(HbaCause::Missing { what });
    let kind = one(list("type")?, "type")?;
    let transport = match kind.text.as_str() {
        "local" | "host" | "hostnogssenc" => None,
        "hostssl" => Some(Transport::Tls),
        "hostnossl" => Some(Transport::Clear),
        "include" | "include_if_exists" | "include_dir" => {
            return Err(undecidable("directive", kind, "write the lines of that file here"));
        }
        _ => return Err(HbaCause::Type { word: kind.text }),
    };
    let databases = list("database")?.into_iter().map(database).collect::<Result<_, _>>()?;
    let users = list("user")?.into_iter().map(user).collect::<Result<_, _>>()?;
    let way = if kind.text == "local" {
        Way::Local
    } else {
        let address = one(list("address")?, "address")?;
        let network = match network(&address)? {
            Ok(network) => network,
            Err(address) => masked(address, &one(list("mask")?, "mask")?)?,
        };
        Way::Host { transport, network }
    };
    let method = one(list("method")?, "method")?;
    let with_tls = transport == Some(Transport::Tls);
    let is_peer = method.text == "peer";
    if is_peer && way != Way::Local {
        return Err(HbaCause::NotLocal { word: method.text });
    }
    let mut map = None;
    let (method, mut certificate) = match method.text.as_str() {
        "reject" => (None, Certificate::Unneeded),
        "peer" => (Some(Method::Trust), Certificate::Unneeded),
        "trust" => (Some(Method::Trust), Certificate::Unneeded),
        "password" => (Some(Method::Password), Certificate::Unneeded),
        "md5" => (Some(Method::Md5), Certificate::Unneeded),
        "scram-sha-256" => (Some(Method::ScramSha256), Certificate::Unneeded),
        "cert" if with_tls => (Some(Method::Trust), Certificate::OfUser),
        "cert" => return Err(HbaCause::NotTls { word: method.text }),
        _ => return Err(HbaCause::Method { word: method.text }),
    };
    for words in fields {
        let word = one(words, "option")?;
        if let Some(name) = word.text.strip_prefix("map=")
            && (is_peer || certificate == Certificate::OfUser)
        {
            map = Some(name.to_owned());
            continue;
        }
        let wanted = match word.text.as_str() {
            "clientname=CN" => continue,
            "clientcert=verify-ca" if certificate != Certificate::OfUser => Certificate::Verified,
            "clientcert=verify-full" => Certificate::OfUser,
            _ => return Err(HbaCause::Option { word: word.text }),
        };
        if !with_tls {
            return Err(HbaCause::NotTls { word: word.text });
        }
        certificate = wanted;
    }
    let peer = if is_peer { Peer::OfUser } else { Peer::Unneeded };
    let admission = method.map(|method| Admission { method, certificate, peer, map, line });
    Ok(Rule { line, way, databases, users, admission })
}

fn one(words: Vec<Word>, what: &'static str) -> Result<Word, HbaCause> {
    <[Word; 1]>::try_from(words).map(|[word]| word).map_err(|_| HbaCause::List { what })
}

fn database(word: Word) -> Result<Database, HbaCause> {
    match word.keyword() {
        "all" => Ok(Database::All),
        "sameuser" => Ok(Database::SameUser),
        "replication" => Ok(Database::Replication),
        "samerole" | "samegroup" => Err(undecidable(
            "database",
            word,
            "the gate does not know the members of roles; name the databases",
        )),
        _ => name("database", word).map(Database::Named),
    }
}

fn user(word: Word) -> Result<User, HbaCause> {
    match word.keyword() {
        "all" => Ok(User::All),
        text if text.starts_with('+') => Err(undecidable(
            "user",
            word,
            "the gate does not know the members of roles; name the users, separated by commas",
        )),
        _ => name("user", word).map(User::Named),
    }
}

/// A name that stands for itself.
fn name(what: &'static str, word: Word) -> Result<String, HbaCause> {
    if word.keyword().starts_with('@') {
        return Err(undecidable(what, word, "write the names of that file here"));
    }
    // Quotation marks do not keep it from being one: they are there for its commas.
    if word.text.starts_with('/') {
        return Err(undecidable(what, word, "regular expressions are not read; name each"));
    }
    Ok(word.text)
}

fn undecidable(what: &'static str, word: Word, way_out: &'static str) -> HbaCause {
    HbaCause::Undecidable { what, word: word.text, way_out }
}

/// The network that a word is, or the address to which a mask follows.
fn network(word: &Word) -> Result<Result<Network, IpAddr>, HbaCause> {
    match word.keyword() {
        "all" => return Ok(Ok(Network::All)),
        "samehost" | "samenet" => {
            let way_out = "write the addresses of this machine or of its networks";
            return Err(undecidable("address", word.clone(), way_out));
        }
        _ => {}
    }
    let invalid = || HbaCause::Address { word: word.text.clone() };
    let Some((address, bits)) = word.text.split_once('/') else {
        let is_name =
            word.text.contains(|c: char| c.is_ascii_alphabetic()) && !word.text.contains(':');
        return match word.text.parse() {
            Ok(address) => Ok(Err(address)),
            Err(_) if is_name => {
                let way_out = "host names are not looked up; write the address";
                Err(undecidable("address", word.clone(), way_out))
            }
            Err(_) => Err(invalid()),
        };
    };
    let plain = bits.bytes().all(|byte| byte.is_ascii_digit());
    let bits: u32 = bits.parse().ok().filter(|_| plain).ok_or_else(invalid)?;
    match address.parse().map_err(|_| invalid())? {
        IpAddr::V4(address) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            Ok(Ok(Network::V4 { address: address.to_bits(), mask }))
        }
        IpAddr::V6(address) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            Ok(Ok(Network::V6 { address: address.to_bits(), mask }))
        }
        _ => Err(invalid()),
    }
}

fn masked(address: IpAddr, mask: &Word) -> Result<Network, HbaCause> {
    match (address, mask.text.parse()) {
        (IpAddr::V4(address), Ok(IpAddr::V4(mask))) => {
            Ok(Network::V4 { address: address.to_bits(), mask: mask.to_bits() })
        }
        (IpAddr::V6(address), Ok(IpAddr::V6(mask))) => {
            Ok(Network::V6 { address: address.to_bits(), mask: mask.to_bits() })
        }
        _ => Err(HbaCause::Mask { word: mask.text.clone() }),
    }
}
