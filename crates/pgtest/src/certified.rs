//! A private server with a certificate: `localhost`, of the authority that the tests have.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;

use postgres::Private;

/// A certificate, key or authority of the tests.
pub fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tls/tests/certificates").join(name)
}

/// Gives a server a certificate, and the authority of those that clients have. It takes them, and these rules of
/// admission (`pg_hba.conf`), when it is started again, which this does.
pub fn certify(server: &mut Private, rules: &str) {
    let data = server.data();
    for name in ["database.pem", "leaf.key", "authority.pem"] {
        let place = data.join(name);
        fs::copy(fixture(name), &place).unwrap();
        // PostgreSQL refuses a key that others may read.
        fs::set_permissions(&place, fs::Permissions::from_mode(0o600)).unwrap();
        if let Some((user, group)) = server.user() {
            chown(&place, Some(user), Some(group)).unwrap();
        }
    }
    let settings = "ssl = on\nssl_cert_file = 'database.pem'\nssl_key_file = 'leaf.key'\n\
                    ssl_ca_file = 'authority.pem'\n";
    let mut file = OpenOptions::new().append(true).open(data.join("postgresql.conf")).unwrap();
    file.write_all(settings.as_bytes()).unwrap();
    fs::write(data.join("pg_hba.conf"), rules).unwrap();
    server.restart().unwrap();
}
