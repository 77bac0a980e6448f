const turns = [];
// Hits among all turns of agents since some seconds ago.
function ratio(now) {
  const hits = sum(now.partitions, (p) => p.hits), loads = sum(now.partitions, (p) => p.loads);
  const last = turns[turns.length - 1];
  if (last && (now.at_unix_s < last.at || hits < last.hits || loads < last.loads)) turns.length = 0;
  turns.push({ at: now.at_unix_s, hits, loads });
  while (turns.length > 2 && now.at_unix_s - turns[1].at >= RATE_S - 0.2) turns.shift();
  const first = turns[0];
  const all = hits - first.hits + loads - first.loads;
  return all > 0 ? (hits - first.hits) / all : null;
}
function share(value) {
  return value === null ? "-" : (100 * value).toFixed(1) + " %";
}
function bytes(value) {
  if (value == null) return "-";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${at === 0 ? value : value.toPrecision(3)} ${units[at]}`;
}
function summary(now) {
  const of = (key) => sum(now.partitions, (p) => p[key]);
  put(by("agents"), count(of("agents")));
  put(by("cached"), count(of("cached")));
  put(by("hits"), share(ratio(now)));
  put(by("waiting"), count(of("waiting")));
  put(by("outbox"), count(of("outbox")));
  const kept = sum(now.destinations, (d) => d.waiting + d.gathered);
  moment(now, {
    busy: of("waiting"), waiting: of("outbox") + kept, done: of("handled"),
    gone: sum(now.destinations, (d) => d.delivered),
  });
}
function condition(d) {
  if (d.failures > 0) return `down, ${count(d.failures)} in a row`;
  return d.delivered > 0 ? "well" : "nothing sent yet";
}
function tables(now) {
  table("partitions",
    [["Partition", 1.9, "number"], ["Agents", 1.9, "number"], ["Waiting", 1.8, "number"],
      ["In the pass", 2.1, "number"], ["Agents left", 2.2, "number"], ["Running", 1.8, "number"],
      ["Loading", 1.8, "number"], ["Commit", 2], ["Lane", 1.3, "number"], ["Outbox", 1.6, "number"],
      ["Timers", 1.6, "number"]],
    now.partitions.map((p) => [count(p.id), count(p.agents), count(p.waiting), count(p.pass_messages),
      count(p.pass_agents), count(p.running), count(p.loading), p.is_committing ? "on its way" : "-",
      count(p.lane), count(p.outbox), count(p.timers)]),
    "No partition.");
  table("cache",
    [["Partition", 1.9, "number"], ["Owner", 1.6, "number"], ["Cached", 1.7, "number"], ["Hits", 1.8, "number"],
      ["Loads", 1.8, "number"], ["Hit ratio", 1.9, "number"], ["Handled", 1.9, "number"], ["Passes", 1.7, "number"],
      ["By lane", 1.8, "number"], ["Commits", 2, "number"], ["Undone", 1.8, "number"],
      ["Errors", 1.6, "number"]],
    now.partitions.map((p) => [count(p.id), count(p.epoch), count(p.cached), count(p.hits), count(p.loads),
      share(p.hits + p.loads > 0 ? p.hits / (p.hits + p.loads) : null), count(p.handled), count(p.passes),
      count(p.lane_total), count(p.commits), count(p.taken_back), count(p.store_errors)]),
    "No partition.");
  table("destinations",
    [["Destination", 2.2], ["Way", 1.7], ["State", 3], ["Slots", 1.5, "number"],
      ["Delivered", 2, "number"], ["Failed", 1.6, "number"], ["Again", 1.5, "number"],
      ["Digests", 1.7, "number"], ["Dead", 1.3, "number"], ["Last failure", 4.4]],
    now.destinations.map((d) => [d.name, d.means, condition(d), `${count(d.in_flight)} / ${count(d.slots)}`,
      count(d.delivered), count(d.failed), count(d.waiting), count(d.gathered), count(d.dead),
      d.last_error ?? "-"]),
    "The file has no destination.");
  const { memory, requests, sources } = now;
  table("memory",
    [["What", 3], ["Value", 2, "number"], ["Note", 6, "long"]],
    [["States", bytes(memory.states), "of agents that are cached"],
      ["Messages", bytes(memory.messages), "that have not taken effect"],
      ["Bound", bytes(memory.bound), "of states, messages and what is around them; then messages wait"],
      ["Process", bytes(memory.resident), "as the system sees it"],
      ["Requests under way", count(requests.open), "that change something"],
      ["Messages accepted", count(requests.accepted), "and durable, since the start"],
      ["Requests refused", count(requests.refused), "since the start"],
      ["Lines of sources refused", count(sources.refused), sources.last ?? "-"]],
    "-");
  table("faults", [["Fault", 1, "long"]], now.faults.map((fault) => [fault]), "None.");
}
function show(now) {
  by("login").hidden = true;
  summary(now);
  tables(now);
}
function locked(status) {
  by("login").hidden = false;
  if (status === 403) return "This user may not read: say the access token of one who may";
  return asking.Authorization ? "No user has this access token" : "Say the access token of a user who may read";
}
by("login").addEventListener("submit", (event) => {
  event.preventDefault();
  asking.Authorization = "Bearer " + by("token").value.trim();
  by("token").value = "";
  update();
});
forever();
