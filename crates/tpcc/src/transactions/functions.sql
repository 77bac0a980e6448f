-- The five profiles as functions of the server: one call is one transaction. What they return has the
-- shape of what the statements of the other mode return. Locks are taken in the same order.

create or replace function tpcc_new_order(
  in_w int4, in_d int4, in_c int4, in_items int4[], in_supply int4[], in_quantities int4[])
returns table (
  out_o int4, out_entered timestamptz, out_last text, out_credit text, out_discount int4,
  out_w_tax int4, out_d_tax int4, out_names text[], out_prices int8[], out_stocks int4[],
  out_brands bool[])
language plpgsql as $body$
#variable_conflict use_column
declare
  lines constant int4 := cardinality(in_items);
  found_lines int4 := 0;
  line record;
  stock_now int4;
  w_last int4;
  i_last int4;
  dists text[] := array_fill(null::text, array[lines]);
  -- Of each stock, once, however many lines ask for it.
  at_w int4[] := '{}';
  at_i int4[] := '{}';
  new_quantity int4[] := '{}';
  wanted int4[] := '{}';
  times int4[] := '{}';
  remote int4[] := '{}';
  place int4 := 0;
begin
  out_names := array_fill(null::text, array[lines]);
  out_prices := array_fill(null::int8, array[lines]);
  out_stocks := array_fill(null::int4, array[lines]);
  out_brands := array_fill(null::bool, array[lines]);
  out_entered := now();
  select (w_tax * 10000)::int4 into strict out_w_tax from warehouse where w_id = in_w;
  update district set d_next_o_id = d_next_o_id + 1 where d_w_id = in_w and d_id = in_d
    returning d_next_o_id - 1, (d_tax * 10000)::int4 into strict out_o, out_d_tax;
  select c_last, c_credit, (c_discount * 10000)::int4 into strict out_last, out_credit, out_discount
    from customer where c_w_id = in_w and c_d_id = in_d and c_id = in_c;
  insert into orders
      (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)
    values (out_o, in_d, in_w, in_c, out_entered, null, lines,
      case when in_w = all (in_supply) then 1 else 0 end);
  insert into new_order (no_o_id, no_d_id, no_w_id) values (out_o, in_d, in_w);
  for line in
    select n::int4 as n, w, i, q, i_name, (i_price * 100)::int8 as cents, s_quantity,
      i_data like '%ORIGINAL%' and s_data like '%ORIGINAL%' as branded,
      case in_d when 1 then s_dist_01 when 2 then s_dist_02 when 3 then s_dist_03
        when 4 then s_dist_04 when 5 then s_dist_05 when 6 then s_dist_06 when 7 then s_dist_07
        when 8 then s_dist_08 when 9 then s_dist_09 when 10 then s_dist_10 end as dist
    from unnest(in_supply, in_items, in_quantities) with ordinality as asked(w, i, q, n)
    join item on i_id = i
    join stock on s_w_id = w and s_i_id = i
    order by w, i, n for no key update of stock
  loop
    found_lines := found_lines + 1;
    if line.w is distinct from w_last or line.i is distinct from i_last then
      place := place + 1;
      w_last := line.w;
      i_last := line.i;
      at_w[place] := line.w;
      at_i[place] := line.i;
      wanted[place] := 0;
      times[place] := 0;
      remote[place] := 0;
      stock_now := line.s_quantity;
    end if;
    stock_now := stock_now - line.q + case when stock_now >= line.q + 10 then 0 else 91 end;
    new_quantity[place] := stock_now;
    wanted[place] := wanted[place] + line.q;
    times[place] := times[place] + 1;
    remote[place] := remote[place] + case when line.w = in_w then 0 else 1 end;
    out_names[line.n] := line.i_name;
    out_prices[line.n] := line.cents;
    out_stocks[line.n] := stock_now;
    out_brands[line.n] := line.branded;
    dists[line.n] := line.dist;
  end loop;
  update stock set s_quantity = q, s_ytd = s_ytd + y, s_order_cnt = s_order_cnt + t,
      s_remote_cnt = s_remote_cnt + r
    from unnest(at_w, at_i, new_quantity, wanted, times, remote) as supplied(w, i, q, y, t, r)
    where s_w_id = w and s_i_id = i;
  insert into order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id,
      ol_delivery_d, ol_quantity, ol_amount, ol_dist_info)
    select out_o, in_d, in_w, n, i, w, null, q, q * cents / 100.0, dist
    from unnest(in_items, in_supply, in_quantities, out_prices, dists) with ordinality
      as entered(i, w, q, cents, dist, n)
    where cents is not null;
  if found_lines < lines then
    if exists (select from unnest(in_items) as asked(i) where not exists (
        select from item where i_id = i)) then
      raise exception 'Item number is not valid' using errcode = 'TPC01',
        detail = concat_ws(' ', out_o, out_credit, out_last);
    end if;
    raise exception 'an item without a row of stock' using errcode = 'no_data_found';
  end if;
  return next;
end
$body$;

create or replace function tpcc_payment(
  in_w int4, in_d int4, in_c_w int4, in_c_d int4, in_c int4, in_last text, in_cents int8)
returns table (
  out_1 text, out_2 text, out_3 text, out_4 text, out_5 text,
  out_6 text, out_7 text, out_8 text, out_9 text, out_10 text,
  out_c int4, out_first text, out_middle text, out_last text, out_street_1 text, out_street_2 text,
  out_city text, out_state text, out_zip text, out_phone text, out_since timestamptz,
  out_credit text, out_limit int8, out_discount int4, out_balance int8, out_text text)
language plpgsql as $body$
#variable_conflict use_column
declare
  amount constant numeric(6, 2) := in_cents / 100.0;
  at_warehouse text;
  at_district text;
begin
  update warehouse set w_ytd = w_ytd + amount where w_id = in_w
    returning w_name, w_street_1, w_street_2, w_city, w_state, w_zip
    into strict at_warehouse, out_1, out_2, out_3, out_4, out_5;
  update district set d_ytd = d_ytd + amount where d_w_id = in_w and d_id = in_d
    returning d_name, d_street_1, d_street_2, d_city, d_state, d_zip
    into strict at_district, out_6, out_7, out_8, out_9, out_10;
  if in_c is null then
    select (array_agg(c_id order by c_first, c_id))[(count(*) + 1) / 2] into in_c from customer
    where c_w_id = in_c_w and c_d_id = in_c_d and c_last = in_last;
  end if;
  update customer set c_balance = c_balance - amount, c_ytd_payment = c_ytd_payment + amount,
    c_payment_cnt = c_payment_cnt + 1,
    c_data = case when c_credit = 'BC' then
      left(concat_ws(' ', c_id, c_d_id, c_w_id, in_d, in_w, amount, c_data), 500) else c_data end
  where c_w_id = in_c_w and c_d_id = in_c_d and c_id = in_c
  returning c_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone,
    c_since, c_credit, (c_credit_lim * 100)::int8, (c_discount * 10000)::int4,
    (c_balance * 100)::int8, case when c_credit = 'BC' then left(c_data, 200) end
  into strict out_c, out_first, out_middle, out_last, out_street_1, out_street_2, out_city,
    out_state, out_zip, out_phone, out_since, out_credit, out_limit, out_discount, out_balance,
    out_text;
  insert into history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    values (in_c, in_c_d, in_c_w, in_d, in_w, now(), amount,
      at_warehouse || '    ' || at_district);
  return next;
end
$body$;

create or replace function tpcc_order_status(in_w int4, in_d int4, in_c int4, in_last text)
returns table (
  out_c int4, out_first text, out_middle text, out_last text, out_balance int8,
  out_o int4, out_entered timestamptz, out_carrier int4,
  out_item int4, out_supply int4, out_quantity int4, out_amount int8, out_delivered timestamptz)
language plpgsql stable as $body$
#variable_conflict use_column
begin
  if in_c is null then
    select (array_agg(c_id order by c_first, c_id))[(count(*) + 1) / 2] into in_c from customer
    where c_w_id = in_w and c_d_id = in_d and c_last = in_last;
  end if;
  return query
    select c_id::int4, c_first::text, c_middle::text, c_last::text, (c_balance * 100)::int8,
      o_id::int4, o_entry_d::timestamptz, o_carrier_id::int4,
      ol_i_id::int4, ol_supply_w_id::int4, ol_quantity::int4, (ol_amount * 100)::int8,
      ol_delivery_d::timestamptz
    from customer
    left join lateral (
      select o_id, o_entry_d, o_carrier_id from orders
      where o_w_id = in_w and o_d_id = in_d and o_c_id = c_id order by o_id desc limit 1
    ) as latest on true
    left join order_line on ol_w_id = in_w and ol_d_id = in_d and ol_o_id = o_id
    where c_w_id = in_w and c_d_id = in_d and c_id = in_c
    order by ol_number;
end
$body$;

create or replace function tpcc_delivery(in_w int4, in_carrier int4)
returns table (out_d int4, out_o int4, out_c int4)
language plpgsql as $body$
#variable_conflict use_column
declare
  amount numeric;
begin
  for each_d in 1..10 loop
    out_d := each_d;
    out_c := null;
    select no_o_id into out_o from new_order
      where no_w_id = in_w and no_d_id = out_d order by no_o_id limit 1;
    if found then
      delete from new_order where no_w_id = in_w and no_d_id = out_d and no_o_id = out_o;
      update orders set o_carrier_id = in_carrier
        where o_w_id = in_w and o_d_id = out_d and o_id = out_o returning o_c_id into strict out_c;
      with dated as (
        update order_line set ol_delivery_d = now()
        where ol_w_id = in_w and ol_d_id = out_d and ol_o_id = out_o returning ol_amount)
      select sum(ol_amount) into amount from dated;
      if amount is null then
        raise exception 'an order without lines' using errcode = 'no_data_found';
      end if;
      update customer set c_balance = c_balance + amount, c_delivery_cnt = c_delivery_cnt + 1
        where c_w_id = in_w and c_d_id = out_d and c_id = out_c returning c_id into strict out_c;
    else
      out_o := null;
    end if;
    return next;
  end loop;
end
$body$;

create or replace function tpcc_stock_level(in_w int4, in_d int4, in_threshold int4) returns int4
language plpgsql stable as $body$
declare
  next_o int4;
  low int4;
begin
  select d_next_o_id into strict next_o from district where d_w_id = in_w and d_id = in_d;
  with recent as materialized (
    select distinct ol_i_id as i from order_line
    where ol_w_id = in_w and ol_d_id = in_d and ol_o_id < next_o and ol_o_id >= next_o - 20)
  select count(*) into low from recent
  where (select s_quantity from stock where s_w_id = in_w and s_i_id = recent.i) < in_threshold;
  return low;
end
$body$;
