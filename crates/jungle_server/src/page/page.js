// Shows a tree of the server that this page is of, at any version; the address of the page holds what is shown.
"use strict";
const by = (id) => document.getElementById(id);
const COMMITS = 20;
const CHILDREN = 50;
const UNKNOWN = "This server has users, and none with this access token; enter yours.";
let asked = 0;

function shown() {
  const of = new URLSearchParams(location.hash.slice(1));
  return { tree: of.get("tree"), node: of.get("node") || "root", at: of.get("at"), diff: of.get("diff") };
}

function place(of) {
  const said = Object.entries(of).filter(([, value]) => value);
  return "#" + new URLSearchParams(said).toString();
}

function make(name, text, put = {}) {
  const made = Object.assign(document.createElement(name), put);
  if (text !== undefined) made.textContent = text;
  return made;
}

function link(text, of) {
  return make("a", text, { href: place(of) });
}

// The access token of a user stays in this tab, and goes with it.
function signed() {
  const token = sessionStorage.getItem("token");
  return token ? { authorization: `Bearer ${token}` } : {};
}

async function ask(path, query = {}) {
  const said = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  const answer = await fetch(path + "?" + new URLSearchParams(said), { headers: signed() });
  by("entry").hidden = answer.status !== 401;
  if (answer.status === 401) throw new Error(UNKNOWN);
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.detail);
  return body;
}

const words = (tree, node, rest = "") =>
  `/trees/${encodeURIComponent(tree)}/nodes/${encodeURIComponent(node)}${rest}`;

const value = (of) => (of === null ? "(none)" : typeof of === "string" ? of : `(base64) ${of.base64}`);

function short(attributes) {
  const text = Object.entries(attributes).map(([name, of]) => `${name}: ${value(of)}`).join(", ");
  return text.length > 160 ? text.slice(0, 159) + "…" : text;
}

function trees(list, current) {
  by("trees").replaceChildren(...list.map((tree) => {
    const row = make("li");
    const a = link(tree.name, { tree: tree.name });
    if (tree.name === current) a.setAttribute("aria-current", "page");
    row.append(a, make("span", ` ${tree.nodes}`, { className: "quiet", title: "nodes" }));
    if (tree.branch_of) row.append(make("div", `branch of ${tree.branch_of}`, { className: "quiet" }));
    return row;
  }));
}

function child(of, at) {
  const row = make("li");
  row.append(link(at.id, { ...of, node: at.id, diff: null }), " ", short(at.attributes));
  if (at.children) row.append(make("span", ` (${at.children} below)`, { className: "quiet" }));
  return row;
}

function children(of, answer) {
  by("children").append(...answer.node.nodes.map((one) => child(of, one)));
  const next = answer.node.next_offset;
  by("more").hidden = next === null;
  by("more").onclick = async () => {
    const more = await ask(words(of.tree, of.node), { at: of.at, offset: next, limit: CHILDREN });
    children(of, more);
  };
}

function node(of, answer) {
  const path = answer.path || of.node;
  by("way").replaceChildren(link(of.tree, { tree: of.tree, at: of.at }), ` ${path} `, make("code", answer.node.id));
  by("version").replaceChildren(of.at ? `as it was at commit ${of.at}: ` : `at commit ${answer.seq}, the newest`);
  if (of.at) by("version").append(link("show the newest", { ...of, at: null, diff: null }));
  const rows = Object.entries(answer.node.attributes).map(([name, at]) => {
    const row = make("tr");
    row.append(make("td", name), make("td", value(at)));
    return row;
  });
  by("attributes").replaceChildren(...rows);
  by("h-children").textContent = `Children: ${answer.node.children}`;
  by("children").replaceChildren();
  children(of, answer);
}

function log(of, answer) {
  by("log").append(...answer.entries.map((entry) => {
    const row = make("li");
    const what = entry.made ? "made" : entry.changes.map((one) => [one.kind, one.attribute].filter(Boolean).join(" ")).join(", ") || "below";
    row.append(link(`commit ${entry.seq}`, { ...of, at: entry.seq, diff: null }), " ");
    // Before the commit that made its root there was no tree to compare with.
    if (!entry.made || of.node !== "root") {
      row.append(link("what it changed", { ...of, at: entry.seq, diff: entry.seq - 1 }));
    }
    row.append(
      make("div", `${entry.time.slice(0, 19).replace("T", " ")} ${entry.author} ${entry.message}`),
      make("div", what, { className: "quiet" }));
    return row;
  }));
  const before = answer.next_before;
  by("older").hidden = before === null;
  by("older").onclick = async () => {
    log(of, await ask(words(of.tree, of.node, "/log"), { at: of.at, before, limit: COMMITS }));
  };
  by("forgotten").hidden = answer.forgotten === null;
  by("forgotten").textContent = `Commit ${answer.forgotten} and others before it are forgotten.`;
}

function differences(of, answer) {
  by("h-diff").textContent = `Differences of ${of.tree} from commit ${answer.from} to ${answer.to}`;
  const told = {
    added: (one) => ["added ", one.node, ` below ${one.parent}, position ${one.position}`],
    removed: (one) => ["removed ", one.node, ""],
    moved: (one) => ["moved ", one.node, ` to ${one.parent}, position ${one.position}`],
    attribute: (one) => ["changed ", one.node, ` ${one.name}: ${value(one.before)} → ${value(one.after)}`],
  };
  by("diff").replaceChildren(...answer.differences.map((one) => {
    const row = make("li");
    const [before, id, after] = told[one.kind](one);
    row.append(before, one.kind === "removed" ? id : link(id, { ...of, node: id, diff: null }), after);
    return row;
  }));
  if (answer.more) by("diff").append(make("li", "and more", { className: "quiet" }));
}

async function show() {
  const turn = ++asked;
  try {
    const of = shown();
    const list = await ask("/trees", { at: of.at });
    if (turn !== asked) return;
    if (!of.tree && list.trees.length) of.tree = list.trees[0].name;
    trees(list.trees, of.tree);
    if (!of.tree) {
      by("state").textContent = "There are no trees yet: sekisho jungle put board";
      return;
    }
    const [answer, past, diff] = await Promise.all([
      ask(words(of.tree, of.node), { at: of.at, limit: CHILDREN }),
      ask(words(of.tree, of.node, "/log"), { at: of.at, limit: COMMITS }),
      of.diff ? ask(`/trees/${encodeURIComponent(of.tree)}/diff`, { from: of.diff, to: of.at }) : null,
    ]);
    if (turn !== asked) return;
    node(of, answer);
    by("log").replaceChildren();
    log(of, past);
    by("differences").hidden = !diff;
    if (diff) differences(of, diff);
    const count = list.trees.length;
    by("state").textContent = `${count} tree${count === 1 ? "" : "s"}, commit ${answer.seq}`;
  } catch (error) {
    if (turn === asked) by("state").textContent = error.message;
  }
}

let wanted = 0;
let watch = null;

// Read as a stream, for an EventSource sends no access token.
async function read(stop) {
  const answer = await fetch("/watch", { headers: signed(), signal: stop });
  by("entry").hidden = answer.status !== 401;
  if (answer.status === 401) throw new Error(UNKNOWN);
  if (!answer.ok) throw new Error((await answer.json()).detail);
  show();
  const text = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let part = await text.read(); !part.done; part = await text.read()) {
    if (!part.value.includes("event: commit")) continue;
    // Once in half a second, however many there are; a version of the past does not change.
    clearTimeout(wanted);
    wanted = setTimeout(() => { if (!shown().at) show(); }, 500);
  }
}

async function follow() {
  const mine = new AbortController();
  watch?.abort();
  watch = mine;
  while (!mine.signal.aborted) {
    try {
      await read(mine.signal);
      by("state").textContent = "The server is away; trying again";
    } catch (error) {
      if (mine.signal.aborted) return;
      const away = error instanceof TypeError ? "The server is away; trying again" : error.message;
      by("state").textContent = away;
      // Without an access token that is known there is nothing to try again.
      if (!by("entry").hidden) return;
    }
    await new Promise((after) => setTimeout(after, 2000));
  }
}

by("entry").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", by("token").value.trim());
  by("token").value = "";
  follow();
});
addEventListener("hashchange", show);
follow();
