//! The tables, keys and indexes (1.3, 1.4), and those in which a load remembers how far it is.
//!
//! Integers for what counts and names, `numeric` for money and rates, fixed and variable text as
//! the specification has them, `timestamptz` for dates. Columns stand in an order that wastes no
//! space on alignment. Names are compared as bytes (`COLLATE "C"`), so that the middle customer of
//! a last name is the same on every server. Beyond the specification there are two indexes: the
//! customers of a last name, and the orders of a customer, newest first.

/// A table of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Its columns, as `CREATE TABLE` wants them.
    pub columns: &'static str,
    /// Its primary key's columns; HISTORY has none.
    pub key: Option<&'static str>,
    /// Further indexes: name, columns.
    pub indexes: &'static [(&'static str, &'static str)],
    /// References: columns, table.
    pub references: &'static [(&'static str, &'static str)],
}

/// The nine tables, the largest first: that is the order in which work on them is begun.
pub const TABLES: [Table; 9] = [
    Table {
        name: "order_line",
        columns: "ol_w_id integer not null, ol_o_id integer not null, ol_d_id smallint not null, \
            ol_number smallint not null, ol_i_id integer not null, ol_delivery_d timestamptz, \
            ol_supply_w_id integer not null, ol_quantity smallint not null, \
            ol_amount numeric(6,2) not null, ol_dist_info char(24) not null",
        key: Some("ol_w_id, ol_d_id, ol_o_id, ol_number"),
        indexes: &[],
        references: &[
            ("ol_w_id, ol_d_id, ol_o_id", "orders"),
            ("ol_supply_w_id, ol_i_id", "stock"),
        ],
    },
    Table {
        name: "stock",
        columns: "s_w_id integer not null, s_i_id integer not null, s_ytd integer not null, \
            s_order_cnt integer not null, s_remote_cnt integer not null, \
            s_quantity smallint not null, s_dist_01 char(24) not null, \
            s_dist_02 char(24) not null, s_dist_03 char(24) not null, \
            s_dist_04 char(24) not null, s_dist_05 char(24) not null, \
            s_dist_06 char(24) not null, s_dist_07 char(24) not null, \
            s_dist_08 char(24) not null, s_dist_09 char(24) not null, \
            s_dist_10 char(24) not null, s_data varchar(50) not null",
        key: Some("s_w_id, s_i_id"),
        indexes: &[],
        references: &[("s_w_id", "warehouse"), ("s_i_id", "item")],
    },
    Table {
        name: "customer",
        columns: "c_since timestamptz not null, c_w_id integer not null, c_id integer not null, \
            c_payment_cnt integer not null, c_delivery_cnt integer not null, \
            c_d_id smallint not null, c_first varchar(16) collate \"C\" not null, \
            c_middle char(2) not null, c_last varchar(16) collate \"C\" not null, \
            c_street_1 varchar(20) not null, c_street_2 varchar(20) not null, \
            c_city varchar(20) not null, c_state char(2) not null, c_zip char(9) not null, \
            c_phone char(16) not null, c_credit char(2) not null, \
            c_credit_lim numeric(12,2) not null, c_discount numeric(4,4) not null, \
            c_balance numeric(12,2) not null, c_ytd_payment numeric(12,2) not null, \
            c_data varchar(500) not null",
        key: Some("c_w_id, c_d_id, c_id"),
        indexes: &[("customer_by_name", "c_w_id, c_d_id, c_last, c_first")],
        references: &[("c_w_id, c_d_id", "district")],
    },
    Table {
        name: "orders",
        columns: "o_entry_d timestamptz not null, o_w_id integer not null, \
            o_id integer not null, o_c_id integer not null, o_d_id smallint not null, \
            o_carrier_id smallint, o_ol_cnt smallint not null, o_all_local smallint not null",
        key: Some("o_w_id, o_d_id, o_id"),
        indexes: &[("orders_by_customer", "o_w_id, o_d_id, o_c_id, o_id desc")],
        references: &[("o_w_id, o_d_id, o_c_id", "customer")],
    },
    Table {
        name: "history",
        columns: "h_date timestamptz not null, h_c_w_id integer not null, \
            h_c_id integer not null, h_w_id integer not null, h_c_d_id smallint not null, \
            h_d_id smallint not null, h_amount numeric(6,2) not null, \
            h_data varchar(24) not null",
        key: None,
        indexes: &[],
        references: &[("h_c_w_id, h_c_d_id, h_c_id", "customer"), ("h_w_id, h_d_id", "district")],
    },
    Table {
        name: "item",
        columns: "i_id integer not null, i_im_id integer not null, \
            i_name varchar(24) not null, i_price numeric(5,2) not null, \
            i_data varchar(50) not null",
        key: Some("i_id"),
        indexes: &[],
        references: &[],
    },
    Table {
        name: "new_order",
        columns: "no_w_id integer not null, no_o_id integer not null, no_d_id smallint not null",
        key: Some("no_w_id, no_d_id, no_o_id"),
        indexes: &[],
        references: &[("no_w_id, no_d_id, no_o_id", "orders")],
    },
    Table {
        name: "district",
        columns: "d_w_id integer not null, d_next_o_id integer not null, \
            d_id smallint not null, d_name varchar(10) not null, \
            d_street_1 varchar(20) not null, d_street_2 varchar(20) not null, \
            d_city varchar(20) not null, d_state char(2) not null, d_zip char(9) not null, \
            d_tax numeric(4,4) not null, d_ytd numeric(12,2) not null",
        key: Some("d_w_id, d_id"),
        indexes: &[],
        references: &[("d_w_id", "warehouse")],
    },
    Table {
        name: "warehouse",
        columns: "w_id integer not null, w_name varchar(10) not null, \
            w_street_1 varchar(20) not null, w_street_2 varchar(20) not null, \
            w_city varchar(20) not null, w_state char(2) not null, w_zip char(9) not null, \
            w_tax numeric(4,4) not null, w_ytd numeric(12,2) not null",
        key: Some("w_id"),
        indexes: &[],
        references: &[],
    },
];

/// The table of one row that says what the database was loaded with.
pub const LOAD: &str = "tpcc_load";
/// The table of the parts of a load that are done.
pub const CHUNKS: &str = "tpcc_load_chunk";
/// The table in which the parts of a run meet; it is there once there was such a run.
pub const PARTS: &str = "tpcc_part";

pub(super) const CREATE_LOAD: &str = "create table tpcc_load (
    seed numeric(20) not null check (seed between 0 and 18446744073709551615), warehouses integer not null, c_load smallint not null,
    chunk_warehouses integer not null, foreign_keys boolean not null,
    loaded_at timestamptz not null default now(), finished_at timestamptz);
create table tpcc_load_chunk (
    part text not null, warehouse integer not null, rows bigint not null,
    primary key (part, warehouse));";

/// True if a table's name is one of the eleven of a load, or that of the parts of a run.
pub fn is_ours(name: &str) -> bool {
    name == LOAD || name == CHUNKS || name == PARTS || TABLES.iter().any(|table| table.name == name)
}

impl Table {
    /// `CREATE TABLE`, without keys: these are built once the rows are there.
    pub(super) fn create(&self) -> String {
        format!("create table {} ({});", self.name, self.columns)
    }

    /// The builders of the primary key and the indexes: names in the catalogue, statements.
    pub(super) fn build(&self) -> Vec<(String, String)> {
        let name = self.name;
        let key = self.key.map(|columns| {
            let key = format!("{name}_pkey");
            let sql = format!("alter table {name} add constraint {key} primary key ({columns})");
            (key, sql)
        });
        let indexes = self.indexes.iter().map(|(index, columns)| {
            (index.to_string(), format!("create index {index} on {name} ({columns})"))
        });
        key.into_iter().chain(indexes).collect()
    }

    /// The builders of the references to other tables: names in the catalogue, statements.
    pub(super) fn refer(&self) -> Vec<(String, String)> {
        let name = self.name;
        self.references
            .iter()
            .map(|(columns, to)| {
                let key = format!("{name}_{to}_fkey");
                let sql = format!(
                    "alter table {name} add constraint {key} foreign key ({columns}) \
                     references {to}"
                );
                (key, sql)
            })
            .collect()
    }
}
