//! The SQL of the profiles as the client runs them itself: few statements, each prepared once, each
//! with its rules beside it. The client decides what depends on several answers; whatever one
//! statement can decide is decided by the server.
//!
//! Parameters are of declared types and results are cast, so that a schema may choose its integer
//! types; money crosses the border as whole cents and rates as ten-thousandths.

/// All that a New-Order reads: takes the next order number, then locks the stocks in the order in
/// which they are given, by warehouse, then item, so that two orders never wait for each other. The
/// locks wait for the number: a statement's parts would else be run as they are asked for. A row a
/// stock, each with warehouse, district and customer; none if one of those three is not there. The
/// columns of an item or a stock that does not exist are null. `w, d, c, warehouses, items`.
pub(super) const ORDER_READ: &str = "\
with taken as (
  update district set d_next_o_id = d_next_o_id + 1 where d_w_id = $1 and d_id = $2
  returning d_next_o_id - 1 as o_id, d_tax),
locked as (
  select n, s_quantity, s_data like '%ORIGINAL%' as branded
  from taken, unnest($4, $5) with ordinality as place(w, i, n)
  join stock on s_w_id = w and s_i_id = i
  order by n for no key update of stock)
select o_id::int4, now(), c_last::text, c_credit::text, (c_discount * 10000)::int4,
       (w_tax * 10000)::int4, (d_tax * 10000)::int4, place.n::int4, i_name::text,
       (i_price * 100)::int8, i_data like '%ORIGINAL%', s_quantity::int4, branded
from taken, warehouse, customer, unnest($5) with ordinality as place(i, n)
left join item on i_id = i left join locked on locked.n = place.n
where w_id = $1 and c_w_id = $1 and c_d_id = $2 and c_id = $3";

/// Reads items alone, for who wants their prices once more. `items`.
pub(super) const ITEMS: &str = "\
select n::int4, (i_price * 100)::int8
from unnest($1) with ordinality as line(i, n) join item on i_id = i";

/// Writes the order, its mark as new, its stocks and its lines. `w, d, o, c, lines, all_local`;
/// of each stock `w, i, quantity, wanted, orders, remote orders`; of each line `number, i, w,
/// quantity, cents`.
pub(super) const ORDER_FILL: &str = "\
with entered as (
  insert into orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)
  values ($3, $2, $1, $4, now(), null, $5, $6)),
marked as (insert into new_order (no_o_id, no_d_id, no_w_id) values ($3, $2, $1)),
supplied as (
  update stock set s_quantity = new_quantity, s_ytd = s_ytd + wanted,
    s_order_cnt = s_order_cnt + times, s_remote_cnt = s_remote_cnt + remote
  from unnest($7, $8, $9, $10, $11, $12) as place(w, i, new_quantity, wanted, times, remote)
  where s_w_id = w and s_i_id = i
  returning s_w_id as w, s_i_id as i,
    case $2 when 1 then s_dist_01 when 2 then s_dist_02 when 3 then s_dist_03 when 4 then s_dist_04
      when 5 then s_dist_05 when 6 then s_dist_06 when 7 then s_dist_07 when 8 then s_dist_08
      when 9 then s_dist_09 when 10 then s_dist_10 end as dist)
insert into order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id,
  ol_delivery_d, ol_quantity, ol_amount, ol_dist_info)
select $3, $2, $1, number, line.i, line.w, null, quantity, cents / 100.0, dist
from unnest($13, $14, $15, $16, $17) as line(number, i, w, quantity, cents)
join supplied on supplied.w = line.w and supplied.i = line.i";

/// A Payment: books it at the warehouse, the district and the customer, in that order, each waiting
/// for the one before, and in the history. Their addresses and the customer in one row; no row, and
/// nothing booked, if one of the three is not there. `customer's w, customer's d, who, cents, w, d`;
/// WHO stands for the C_ID of `$3`.
const PAY: &str = "\
with found as materialized (
  select c_id as who from customer, district, warehouse
  where c_w_id = $1 and c_d_id = $2 and c_id = WHO
    and d_w_id = $5 and d_id = $6 and w_id = $5),
at_warehouse as (
  update warehouse set w_ytd = w_ytd + $4 / 100.0 from found where w_id = $5
  returning who, w_name, w_street_1, w_street_2, w_city, w_state, w_zip),
at_district as (
  update district set d_ytd = d_ytd + $4 / 100.0 from at_warehouse where d_w_id = $5 and d_id = $6
  returning at_warehouse.*, d_name, d_street_1, d_street_2, d_city, d_state, d_zip),
paid as (
  update customer set c_balance = c_balance - $4 / 100.0,
    c_ytd_payment = c_ytd_payment + $4 / 100.0, c_payment_cnt = c_payment_cnt + 1,
    c_data = case when c_credit = 'BC' then left(concat_ws(' ', c_id, c_d_id, c_w_id, $6, $5,
      ($4 / 100.0)::numeric(6, 2), c_data), 500) else c_data end
  from at_district
  where c_w_id = $1 and c_d_id = $2 and c_id = who
  returning *),
noted as (
  insert into history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
  select c_id, c_d_id, c_w_id, $6, $5, now(), $4 / 100.0, w_name || '    ' || d_name from paid)
select w_street_1::text, w_street_2::text, w_city::text, w_state::text, w_zip::text,
  d_street_1::text, d_street_2::text, d_city::text, d_state::text, d_zip::text,
  c_id::int4, c_first::text, c_middle::text, c_last::text, c_street_1::text, c_street_2::text,
  c_city::text, c_state::text, c_zip::text, c_phone::text, c_since::timestamptz, c_credit::text,
  (c_credit_lim * 100)::int8, (c_discount * 10000)::int4, (c_balance * 100)::int8,
  case when c_credit = 'BC' then left(c_data, 200) end
from paid";

/// A customer's last order with its lines; a customer without an order has one row of nulls.
/// `w, d, who`; WHO stands for the C_ID of `$3`.
const STATUS: &str = "\
select c_id::int4, c_first::text, c_middle::text, c_last::text, (c_balance * 100)::int8,
  o_id::int4, o_entry_d::timestamptz, o_carrier_id::int4,
  ol_i_id::int4, ol_supply_w_id::int4, ol_quantity::int4, (ol_amount * 100)::int8,
  ol_delivery_d::timestamptz
from customer
left join lateral (
  select o_id, o_entry_d, o_carrier_id from orders
  where o_w_id = $1 and o_d_id = $2 and o_c_id = c_id order by o_id desc limit 1) as latest on true
left join order_line on ol_w_id = $1 and ol_d_id = $2 and ol_o_id = o_id
where c_w_id = $1 and c_d_id = $2 and c_id = WHO
order by ol_number";

/// The customer in the middle, rounded up, of those of that name by first name (2.5.2.2, 2.6.2.2).
const NAMED: &str = "(
  select (array_agg(c_id order by c_first, c_id))[(count(*) + 1) / 2] from customer
  where c_w_id = $1 and c_d_id = $2 and c_last = $3)";

/// [`PAY`] by C_ID.
pub(super) fn pay_by_id() -> String {
    PAY.replace("WHO", "$3")
}

/// [`PAY`] by C_LAST.
pub(super) fn pay_by_name() -> String {
    PAY.replace("WHO", NAMED)
}

/// [`STATUS`] by C_ID.
pub(super) fn status_by_id() -> String {
    STATUS.replace("WHO", "$3")
}

/// [`STATUS`] by C_LAST.
pub(super) fn status_by_name() -> String {
    STATUS.replace("WHO", NAMED)
}

/// Delivers the oldest new order of each district, all ten in one transaction: a row a district,
/// its order null where there is none, its customer null where the order is not whole. `w,
/// carrier`.
pub(super) const DELIVER: &str = "\
with oldest as materialized (
  select d, (select no_o_id from new_order where no_w_id = $1 and no_d_id = d
             order by no_o_id limit 1) as o
  from generate_series(1, 10) as d),
gone as (
  delete from new_order using oldest where no_w_id = $1 and no_d_id = d and no_o_id = o
  returning no_d_id as d, no_o_id as o),
carried as (
  update orders set o_carrier_id = $2 from gone where o_w_id = $1 and o_d_id = d and o_id = o
  returning d, o_c_id as c),
dated as (
  update order_line set ol_delivery_d = now() from gone
  where ol_w_id = $1 and ol_d_id = d and ol_o_id = o returning d, ol_amount),
summed as (select d, sum(ol_amount) as amount from dated group by d),
charged as (
  update customer set c_balance = c_balance + amount, c_delivery_cnt = c_delivery_cnt + 1
  from carried join summed using (d) where c_w_id = $1 and c_d_id = d and c_id = c
  returning d, c_id)
select oldest.d::int4, o::int4, c_id::int4 from oldest left join charged on charged.d = oldest.d
order by oldest.d";

/// Counts the items of the last 20 orders of a district of which there is less than the threshold.
/// `w, d, threshold`. The stocks are looked up one by one whatever the planner thinks of ranges.
pub(super) const LEVEL: &str = "\
with recent as materialized (
  select distinct ol_i_id as i
  from order_line, (select d_next_o_id as next from district where d_w_id = $1 and d_id = $2) as d
  where ol_w_id = $1 and ol_d_id = $2 and ol_o_id < next and ol_o_id >= next - 20)
select count(*)::int4 from recent
where (select s_quantity from stock where s_w_id = $1 and s_i_id = recent.i) < $3";
