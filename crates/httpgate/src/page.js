function summary(now) {
  const gone = sum(now.classes, (c) => c.refused + c.reneged);
  put(by("clients"), count(now.connections));
  put(by("slots"), `${count(now.gate.busy)} / ${count(now.gate.slots)}`);
  put(by("waiting"), count(now.gate.waiting));
  put(by("oldest"), time(now.wait_oldest_s));
  put(by("refused"), count(gone));
  const done = sum(now.classes, (c) => c.hold.count);
  moment(now, { busy: now.gate.busy, waiting: now.gate.waiting, done, gone });
}
function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  return `${at === 0 ? value : value.toPrecision(3)} ${units[at]}`;
}
function tables(now) {
  put(by("policy"), `Next: ${now.gate.discipline}. Where to: ${now.gate.router}.`);
  table("servers",
    [["Server", 4], ["State", 1.4], ["Busy / slots", 2, "number"], ["Started", 2, "number"],
      ["Mean hold", 1.8, "number"], ["Connections", 2.2, "number"], ["Errors", 1.6, "number"]],
    now.servers.map((s) => [s.address, s.up ? "up" : "down", `${count(s.busy)} / ${count(s.slots)}`,
      count(s.started), time(s.hold_mean_s), count(s.connections_opened), count(s.errors)]),
    "No server.");
  table("classes",
    [["Class", 3], ["Busy", 1.4, "number"], ["Waiting", 1.9, "number"], ["Refused", 1.9, "number"],
      ["Left", 1.4, "number"], ["2xx", 1.6, "number"], ["3xx", 1.4, "number"], ["4xx", 1.4, "number"],
      ["5xx", 1.4, "number"], ["Received", 1.8, "number"], ["Sent", 1.8, "number"]],
    now.classes.map((c) => [c.name, count(c.busy), count(c.waiting), count(c.refused), count(c.reneged),
      ...c.statuses.map(count), bytes(c.received_bytes), bytes(c.sent_bytes)]),
    "No class.");
  table("times",
    [["Class", 4], ["Time", 1.1], ["Jobs", 1.7, "number"], ["Mean", 1.6, "number"],
      ["Median", 3], ["p99", 3], ["Distribution", 3]],
    now.classes.flatMap((c) => ["wait", "hold"].map((kind) => [
      c.name, kind, count(c[kind].count), time(c[kind].mean_s),
      between(c[kind].p50_s), between(c[kind].p99_s), bars(c[kind].counts, kind)])),
    "No request has come yet.");
  model(now.model);
}
function show(now) {
  summary(now);
  tables(now);
}
forever();
