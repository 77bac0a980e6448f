//! Accesses by the server's statistics, and the estimates of what these leave open. Pure: from two
//! [`Snapshot`]s to access rates.
//!
//! **Measured**: blocks read, by relation (`pg_statio_user_tables`, `pg_statio_user_indexes`; misses of
//! the server's own buffers, of which the system's cache may answer some); pages by which a relation
//! grew; rows changed, by table; blocks written, of all relations together (`pg_stat_bgwriter` up to
//! release 15, `pg_stat_io` since); bytes and writes of the log (`pg_stat_wal`, since release 18
//! `pg_stat_io`). **Estimated**: which relation the written blocks belong to. No release counts that.
//! Pages that must have been changed are counted from rows and growth, and scaled to the blocks that
//! were written in all. Changes count as if they fell anywhere, so a table whose rows are changed in
//! runs, as Delivery does with the lines of an order, comes out too high.

use super::assign::{Kind, LOG, Pattern, Rated};

/// The server's counters at a moment; all but pages and rows only grow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The server's release, as in 150003.
    pub release: i32,
    /// The size of a block \[byte\].
    pub block: f64,
    /// Tables and indexes.
    pub relations: Vec<Relation>,
    /// The log \[byte\].
    pub log_bytes: f64,
    /// The number of writes of the log's buffers.
    pub log_writes: f64,
    /// Blocks of relations that were written or added, by whomever.
    pub written: f64,
}

/// The server's counters of a table or an index.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Relation {
    /// Its name.
    pub name: String,
    /// True if it is an index.
    pub is_index: bool,
    /// The tablespace that it lies in; empty for the database's own.
    pub tablespace: String,
    /// Its size \[block\].
    pub pages: f64,
    /// Rows, or entries, a page.
    pub rows_per_page: f64,
    /// Blocks read.
    pub read: f64,
    /// Rows of its table that were inserted, updated, updated without a new entry in any index,
    /// and deleted.
    pub inserted: f64,
    /// See there.
    pub updated: f64,
    /// See there.
    pub updated_hot: f64,
    /// See there.
    pub deleted: f64,
}

/// Rates of access to a relation, or to the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// Its name; [`LOG`] for the log.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Its size \[block\]; 0 for the log.
    pub pages: f64,
    /// The tablespace that it lies in; empty for the database's own.
    pub tablespace: String,
    /// Blocks read \[1/s\], measured.
    pub read: f64,
    /// Blocks written \[1/s\]: estimated for a relation, measured for the log.
    pub written: f64,
    /// The share of all accesses that only append.
    pub appended: f64,
}

/// Rates of access to everything.
#[derive(Clone, Debug, PartialEq)]
pub struct Accesses {
    /// The log first, then relations.
    pub all: Vec<Access>,
    /// Blocks of relations written in all \[1/s\], measured. Where that is 0, written blocks are
    /// those that must have been changed.
    pub written: f64,
    /// Written blocks over pages that must have been changed.
    pub scale: f64,
    /// The size of a block \[byte\].
    pub block: f64,
}

impl Access {
    /// The pattern of access: sequential where most of its accesses only append.
    pub fn pattern(&self) -> Pattern {
        if self.kind == Kind::Log || self.appended > 0.5 {
            Pattern::Sequential
        } else {
            Pattern::Random
        }
    }

    /// Blocks read and written \[1/s\].
    pub fn rate(&self) -> f64 {
        self.read + self.written
    }
}

impl Accesses {
    /// The accesses between two snapshots that lie so many seconds apart. `None` if the second is
    /// not a later one of the same server: its statistics were reset, or relations came and went.
    pub fn between(before: &Snapshot, after: &Snapshot, seconds: f64) -> Option<Accesses> {
        let grew = |one: f64, other: f64| (other >= one).then_some(other - one);
        let mut changed = Vec::with_capacity(after.relations.len());
        for (one, other) in before.relations.iter().zip(&after.relations) {
            if one.name != other.name {
                return None;
            }
            changed.push(Changed::between(one, other)?);
        }
        if before.relations.len() != after.relations.len() || seconds <= 0.0 {
            return None;
        }
        let written = grew(before.written, after.written)?;
        let estimated: f64 = changed.iter().map(Changed::pages).sum();
        let scale = if written > 0.0 && estimated > 0.0 { written / estimated } else { 1.0 };
        // A buffer of the log that is written again and again is the same block each time.
        let log = (grew(before.log_bytes, after.log_bytes)? / after.block)
            .max(grew(before.log_writes, after.log_writes)?);
        let log = Access {
            name: LOG.to_owned(),
            kind: Kind::Log,
            pages: 0.0,
            tablespace: String::new(),
            read: 0.0,
            written: log / seconds,
            appended: 1.0,
        };
        let relations = after.relations.iter().zip(&changed).map(|(relation, changed)| {
            let all = changed.read + changed.pages() * scale;
            Access {
                name: relation.name.clone(),
                kind: if relation.is_index { Kind::Index } else { Kind::Table },
                pages: relation.pages,
                tablespace: relation.tablespace.clone(),
                read: changed.read / seconds,
                written: changed.pages() * scale / seconds,
                appended: match all {
                    _ if changed.only_appends => 1.0,
                    0.0 => 0.0,
                    all => changed.appended * scale / all,
                },
            }
        });
        Some(Accesses {
            all: std::iter::once(log).chain(relations).collect(),
            written: written / seconds,
            scale,
            block: after.block,
        })
    }

    /// The things to be placed.
    pub fn rated(&self) -> Vec<Rated> {
        let rated = |access: &Access| Rated {
            name: access.name.clone(),
            kind: access.kind,
            pattern: access.pattern(),
            rate: access.rate(),
        };
        self.all.iter().map(rated).collect()
    }
}

/// Accesses that the pages of a relation must have had.
struct Changed {
    read: f64,
    /// Pages at the end that were filled.
    appended: f64,
    /// Pages anywhere that were changed.
    scattered: f64,
    /// Rows were inserted and nothing else, and less than a block was read for each: the block to
    /// append to, where other work has pushed it out.
    only_appends: bool,
}

impl Changed {
    fn between(before: &Relation, after: &Relation) -> Option<Changed> {
        let grew =
            |of: fn(&Relation) -> f64| (of(after) >= of(before)).then_some(of(after) - of(before));
        let read = grew(|relation| relation.read)?;
        let inserted = grew(|relation| relation.inserted)?;
        let updated = grew(|relation| relation.updated)?;
        let hot = grew(|relation| relation.updated_hot)?;
        let deleted = grew(|relation| relation.deleted)?;
        let growth = (after.pages - before.pages).max(0.0);
        let fills =
            |rows: f64| if before.rows_per_page > 0.0 { rows / before.rows_per_page } else { 0.0 };
        if !after.is_index {
            let appended = growth.max(fills(inserted));
            let only_appends = inserted > 0.0 && updated + deleted == 0.0 && read < inserted;
            let scattered = distinct(before, updated + deleted);
            return Some(Changed { read, appended, scattered, only_appends });
        }
        // An index that is filled at its ends grows by what is put into it; one that is filled
        // anywhere has room for some time, then splits, and grows by less. Deletes leave it alone.
        let entries = inserted + (updated - hot).max(0.0);
        let (appended, scattered) = if growth > 0.0 && growth >= 0.5 * fills(entries) {
            (growth, 0.0)
        } else {
            (0.0, distinct(before, entries).max(growth))
        };
        Some(Changed { read, appended, scattered, only_appends: false })
    }

    fn pages(&self) -> f64 {
        self.appended + self.scattered
    }
}

/// Number of different pages that so many changes fall on, if they fall anywhere: P (1 - e^(-k/P)).
fn distinct(relation: &Relation, changes: f64) -> f64 {
    if relation.pages <= 0.0 {
        return changes;
    }
    relation.pages * -(-changes / relation.pages).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relation(name: &str, is_index: bool, pages: f64, rows_per_page: f64) -> Relation {
        Relation { name: name.into(), is_index, pages, rows_per_page, ..Relation::default() }
    }

    fn before() -> Snapshot {
        Snapshot {
            release: 150_000,
            block: 8192.0,
            relations: vec![
                relation("history", false, 1000.0, 100.0),
                relation("stock", false, 4000.0, 25.0),
                relation("warehouse", false, 1.0, 50.0),
                relation("orders_pkey", true, 100.0, 300.0),
            ],
            log_bytes: 1e6,
            log_writes: 10.0,
            written: 500.0,
        }
    }

    /// Ten seconds of work.
    fn after() -> Snapshot {
        let mut after = before();
        after.log_bytes += 8192.0 * 1000.0;
        after.log_writes += 400.0;
        after.written += 2222.0;
        let [history, stock, warehouse, key] = &mut after.relations[..] else { unreachable!() };
        (history.inserted, history.pages) = (2000.0, 1020.0);
        (stock.updated, stock.updated_hot, stock.read) = (4000.0, 4000.0, 300.0);
        (warehouse.updated, warehouse.updated_hot) = (2000.0, 2000.0);
        (key.inserted, key.pages) = (3000.0, 110.0);
        after
    }

    #[test]
    fn what_is_measured_is_taken_and_what_is_estimated_adds_up_to_what_was_written() {
        let all = Accesses::between(&before(), &after(), 10.0).unwrap();
        let names: Vec<&str> = all.all.iter().map(|access| access.name.as_str()).collect();
        assert_eq!(names, [LOG, "history", "stock", "warehouse", "orders_pkey"]);
        let [log, history, stock, warehouse, key] = &all.all[..] else { unreachable!() };
        assert_eq!((log.written, log.read), (100.0, 0.0));
        assert_eq!(stock.read, 30.0);
        let written: f64 = all.all[1..].iter().map(|access| access.written).sum();
        assert!((written - 222.2).abs() < 1e-9, "{written}");
        // 4000 changes on 4000 pages fall on 1 - 1/e of them, 2000 on one page on that one.
        let pages = 4000.0 * (1.0 - (-1.0_f64).exp());
        let scale = 2222.0 / (20.0 + pages + 1.0 + 10.0);
        assert!((all.scale - scale).abs() < 1e-9);
        assert!((stock.written - pages * scale / 10.0).abs() < 1e-9);
        assert!((warehouse.written - scale / 10.0).abs() < 1e-9);
        let patterns = [log, history, stock, warehouse, key].map(Access::pattern);
        let (s, r) = (Pattern::Sequential, Pattern::Random);
        assert_eq!(patterns, [s, s, r, r, s]);
    }

    #[test]
    fn many_small_writes_of_the_log_count_as_such() {
        let mut after = after();
        after.log_writes = 10.0 + 5000.0;
        let all = Accesses::between(&before(), &after, 10.0).unwrap();
        assert_eq!(all.all[0].written, 500.0);
    }

    #[test]
    fn an_index_that_is_filled_anywhere_does_not_append() {
        let mut after = after();
        after.relations[3].pages = 102.0;
        let all = Accesses::between(&before(), &after, 10.0).unwrap();
        assert_eq!((all.all[4].pattern(), all.all[4].appended), (Pattern::Random, 0.0));
    }

    #[test]
    fn what_is_read_for_more_than_to_append_is_no_log() {
        let pattern = |read: f64, updated: f64| {
            let mut after = after();
            (after.relations[0].read, after.relations[0].updated) = (read, updated);
            Accesses::between(&before(), &after, 10.0).unwrap().all[1].pattern()
        };
        assert_eq!(pattern(500.0, 0.0), Pattern::Sequential);
        assert_eq!(pattern(5000.0, 0.0), Pattern::Random);
        assert_eq!(pattern(500.0, 1.0), Pattern::Random);
    }

    #[test]
    fn where_nothing_was_written_yet_the_changed_pages_stand() {
        let mut after = after();
        after.written = before().written;
        let all = Accesses::between(&before(), &after, 10.0).unwrap();
        assert_eq!((all.written, all.scale), (0.0, 1.0));
        assert_eq!(all.all[1].written, 2.0);
    }

    #[test]
    fn statistics_that_were_reset_tell_nothing() {
        let (before, after) = (before(), after());
        assert_eq!(Accesses::between(&after, &before, 10.0), None);
        assert_eq!(Accesses::between(&before, &after, 0.0), None);
        let mut other = after.clone();
        other.relations.pop();
        assert_eq!(Accesses::between(&before, &other, 10.0), None);
        other = after.clone();
        other.relations[1].read = -1.0;
        assert_eq!(Accesses::between(&before, &other, 10.0), None);
        other = after;
        other.relations[2].name = "other".into();
        assert_eq!(Accesses::between(&before, &other, 10.0), None);
    }
}
