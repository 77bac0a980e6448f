//! The codes by which programs tell errors apart, as far as the gate says or looks at them.

use std::fmt;

/// A SQLSTATE: five digits or capital letters.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState([u8; 5]);

impl SqlState {
    /// 00000: all is well; of notices.
    pub const SUCCESSFUL_COMPLETION: SqlState = SqlState(*b"00000");
    /// 08006: a connection is gone.
    pub const CONNECTION_FAILURE: SqlState = SqlState(*b"08006");
    /// 08P01: what came is not the protocol.
    pub const PROTOCOL_VIOLATION: SqlState = SqlState(*b"08P01");
    /// 0A000: it is the protocol, but a part that is not there.
    pub const FEATURE_NOT_SUPPORTED: SqlState = SqlState(*b"0A000");
    /// 22023: a parameter has a value that it cannot have.
    pub const INVALID_PARAMETER_VALUE: SqlState = SqlState(*b"22023");
    /// 25P03: a transaction has been idle for too long.
    pub const IDLE_TRANSACTION: SqlState = SqlState(*b"25P03");
    /// 25P04: a transaction has taken too long.
    pub const TRANSACTION_TIMEOUT: SqlState = SqlState(*b"25P04");
    /// 26000: there is no statement of this name.
    pub const UNDEFINED_STATEMENT: SqlState = SqlState(*b"26000");
    /// 28000: this user may not come in this way.
    pub const INVALID_AUTHORIZATION: SqlState = SqlState(*b"28000");
    /// 28P01: the password is wrong.
    pub const INVALID_PASSWORD: SqlState = SqlState(*b"28P01");
    /// 34000: there is no portal of this name.
    pub const UNDEFINED_CURSOR: SqlState = SqlState(*b"34000");
    /// 3D000: there is no database of this name.
    pub const UNDEFINED_DATABASE: SqlState = SqlState(*b"3D000");
    /// 42501: this user may not do this.
    pub const INSUFFICIENT_PRIVILEGE: SqlState = SqlState(*b"42501");
    /// 42601: a text does not follow its grammar.
    pub const SYNTAX_ERROR: SqlState = SqlState(*b"42601");
    /// 42P03: there is a portal of this name.
    pub const DUPLICATE_CURSOR: SqlState = SqlState(*b"42P03");
    /// 42P05: there is a prepared statement of this name.
    pub const DUPLICATE_STATEMENT: SqlState = SqlState(*b"42P05");
    /// 53300: there are more than can be served.
    pub const TOO_MANY_CONNECTIONS: SqlState = SqlState(*b"53300");
    /// 53400: there is more of something than the configuration lets be.
    pub const CONFIGURATION_LIMIT_EXCEEDED: SqlState = SqlState(*b"53400");
    /// 54000: it is more than fits.
    pub const PROGRAM_LIMIT_EXCEEDED: SqlState = SqlState(*b"54000");
    /// 55000: it is not in a state for this.
    pub const NOT_IN_PREREQUISITE_STATE: SqlState = SqlState(*b"55000");
    /// 57014: a query was cancelled, or took too long.
    pub const QUERY_CANCELED: SqlState = SqlState(*b"57014");
    /// 57P01: somebody ends the session.
    pub const ADMIN_SHUTDOWN: SqlState = SqlState(*b"57P01");
    /// 57P03: nobody gets in just now.
    pub const CANNOT_CONNECT_NOW: SqlState = SqlState(*b"57P03");
    /// 57P05: a session has been idle for too long.
    pub const IDLE_SESSION: SqlState = SqlState(*b"57P05");
    /// F0000: a configuration cannot be used.
    pub const CONFIG_FILE_ERROR: SqlState = SqlState(*b"F0000");
    /// XX000: something is not as it must be.
    pub const INTERNAL_ERROR: SqlState = SqlState(*b"XX000");

    /// True if work that fails so was in vain, and more slots make more of it: a conflict of
    /// transactions (40), too few resources (53), a lock (55P03), a time-out or another end from
    /// outside (57), the system's failure (58, XX).
    pub fn is_waste(self) -> bool {
        matches!(&self.0[..2], b"40" | b"53" | b"57" | b"58" | b"XX") || &self.0 == b"55P03"
    }

    /// The code that `bytes` are, if they are one.
    pub fn from_bytes(bytes: &[u8]) -> Option<SqlState> {
        let code: [u8; 5] = bytes.try_into().ok()?;
        let valid = code.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
        valid.then_some(SqlState(code))
    }

    /// The five characters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("digits and capital letters are ASCII")
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SqlState({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_five_digits_or_capital_letters() {
        assert_eq!(SqlState::from_bytes(b"08P01"), Some(SqlState::PROTOCOL_VIOLATION));
        assert_eq!(SqlState::PROTOCOL_VIOLATION.to_string(), "08P01");
        for bytes in [&b""[..], b"08P0", b"08P011", b"08p01", b"08 01", b"08P\xff1"] {
            assert_eq!(SqlState::from_bytes(bytes), None);
        }
    }
}
