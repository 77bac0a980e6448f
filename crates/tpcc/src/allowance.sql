select
  current_setting('max_connections')::int4,
  case when role.rolsuper then 0
    else current_setting('superuser_reserved_connections')::int4
      + case when coalesce(
            (select pg_has_role(role.oid, reserve.oid, 'member')
              from pg_roles reserve where reserve.rolname = 'pg_use_reserved_connections'), false)
          then 0
          else coalesce(nullif(current_setting('reserved_connections', true), '')::int4, 0) end end,
  case when role.rolsuper then -1 else role.rolconnlimit end,
  case when role.rolsuper then -1 else base.datconnlimit end
from pg_roles role, pg_database base
where role.rolname = current_user and base.datname = current_database()
