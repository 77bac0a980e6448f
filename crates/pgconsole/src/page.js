function summary(now) {
  const busy = sum(now.pools, (p) => p.gate.busy), slots = sum(now.pools, (p) => p.gate.slots);
  const waiting = now.totals.waiting;
  const done = sum(now.pools, (p) => p.total.transactions);
  const gone = sum(now.pools, (p) => sum(p.classes, (c) => c.refused + c.reneged));
  put(by("clients"), count(now.totals.clients));
  put(by("slots"), `${count(busy)} / ${count(slots)}`);
  put(by("waiting"), count(waiting));
  put(by("oldest"), time(Math.max(0, ...now.pools.map((p) => p.wait_oldest_s))));
  put(by("refused"), count(gone));
  moment(now, { busy, waiting, done, gone });
}
function tables(now) {
  table("pools",
    [["Database", 3], ["User", 3], ["Mode", 2.5], ["Busy / slots", 2, "number"],
      ["Waiting", 1.6, "number"], ["Servers", 1.6, "number"], ["Discipline", 2.4], ["Router", 2.4]],
    now.pools.map((p) => [p.database, p.user, p.mode, `${count(p.gate.busy)} / ${count(p.gate.slots)}`,
      count(p.gate.waiting), count(sum(Object.values(p.servers), (n) => n)), p.discipline, p.router]),
    "No pool yet: the first client of a database and user makes one.");
  table("times",
    [["Pool, class", 4], ["Time", 1.1], ["Jobs", 1.7, "number"], ["Mean", 1.6, "number"],
      ["Median", 3], ["p99", 3], ["Distribution", 3]],
    now.pools.flatMap((p) => p.classes.flatMap((c) => ["wait", "hold"].map((kind) => [
      `${p.database}/${p.user} ${c.name}`, kind, count(c[kind].count), time(c[kind].mean_s),
      between(c[kind].p50_s), between(c[kind].p99_s), bars(c[kind].counts, kind)]))),
    "No job has started yet.");
  table("queue",
    [["Place", 1.2, "number"], ["Client", 1.4, "number"], ["Database", 2.5], ["User", 2.5],
      ["Class", 2], ["Waits for", 2, "number"], ["Still, estimated", 2.2, "number"], ["At most", 1.8, "number"]],
    now.queue.map((w, at) => [count(at + 1), String(w.client), w.database, w.user, w.class,
      time(w.waited_s), time(w.estimate_s), time(w.left_s)]),
    "Nobody waits.");
  put(by("listed"), `${count(now.clients.length)} of ${count(now.totals.clients)}, those that wait first.`);
  table("list",
    [["Client", 1.4, "number"], ["Database", 2.5], ["User", 2.5], ["Application", 3], ["Address", 3],
      ["State", 2], ["For", 1.6, "number"]],
    now.clients.map((c) => [String(c.id), c.database, c.user, c.application_name, c.address ?? "unix",
      c.state, c.waited_s > 0 ? time(c.waited_s) : "-"]),
    "No client is connected.");
  table("pins",
    [["Client", 1.4, "number"], ["Pool", 3], ["Application", 3], ["Reason", 4], ["Kept", 1.6, "number"],
      ["Cost, slots", 1.6, "number"]],
    now.pins.map((p) => [String(p.client), `${p.database}/${p.user}`, p.application_name, p.reason,
      time(p.held_s), p.cost_slots.toFixed(2)]),
    "Nobody is pinned.");
  model(now.model);
}
function show(now) {
  summary(now);
  tables(now);
}
forever();
