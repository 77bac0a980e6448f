-- The tables of a store of agents. Keys and names of timers are unsigned numbers of 64 bits: 2^63 is taken
-- from each, so that their order is PostgreSQL's. All else of type bytea is written and read by sekisho.
create table SCHEMA.format (version int4 not null);
insert into SCHEMA.format values (1);

-- One row a partition: its owner's epoch, its version, its progress. Every transaction changes it first, so
-- that of two owners one writes at most.
create table SCHEMA.partitions (
  partition int8 primary key, epoch int8 not null, version int8 not null, log_end int8 not null,
  forgotten int8 not null, dead_end int8 not null, cursor bytea not null
) with (fillfactor = 10);
create table SCHEMA.received (
  partition int8, source int8, n int8 not null, primary key (partition, source)
) with (fillfactor = 50);
create table SCHEMA.log (
  partition int8, seq int8, entry bytea not null, primary key (partition, seq)
);

-- What changes often is apart from what changes seldom, and has room on its pages, so that a change moves
-- no index entry and writes few bytes of log.
create table SCHEMA.hot (
  partition int8, key int8, header bytea not null, hot bytea, primary key (partition, key)
) with (fillfactor = 50);
create table SCHEMA.cold (
  partition int8, key int8, cold bytea not null, primary key (partition, key)
);

create table SCHEMA.outbox (
  partition int8, n int8, notification bytea not null, primary key (partition, n)
);
create table SCHEMA.sent (
  partition int8, n int8, message bytea not null, primary key (partition, n)
);
create table SCHEMA.timers (
  partition int8, key int8, name int8, timer bytea not null, primary key (partition, key, name)
);
create table SCHEMA.dead (
  partition int8, n int8, reason text not null, letter bytea not null, primary key (partition, n)
);
