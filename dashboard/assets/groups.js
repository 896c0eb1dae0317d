// The page of a cluster of several groups: what each node has, and where each group of keys is and is to be.
import { $, make, set, fill, count, exact, plural } from "./page.js";

export const name = "groups";
export const title = "Groups";

let built = false;

function build() {
  built = true;
  $("groups").replaceChildren(
    make("section", { class: "card", tabindex: "0", "aria-labelledby": "placed-title" }, make("h2", { id: "placed-title" }, "Nodes"), make("table", { id: "placed", class: "plain", "aria-labelledby": "placed-title" })),
    make("section", { class: "card", tabindex: "0", "aria-labelledby": "groups-title" }, make("h2", { id: "groups-title" }, "Groups"), make("table", { id: "groups-table", class: "plain", "aria-labelledby": "groups-title" }),
      make("p", { class: "hint note" }, "Lag is how many entries of the leader's log the slowest replica lacks. RAFT PLAN says what would move, and RAFT DRAIN has everything leave a node.")));
}

export function open() { if (!built) build(); }

// row returns a row of a table; figures are numbers, right under one another.
const row = (cell, heads, cells) => make("tr", {}, cells.map((c, i) => make(i && cell === "td" ? "td" : "th", { scope: cell === "th" ? "col" : i ? undefined : "row", class: heads[i].startsWith("#") ? "n" : "" }, c)));

function table(id, heads, rows) {
  fill($(id), make("thead", {}, row("th", heads, heads.map((h) => h.replace("#", "")))), make("tbody", {}, rows.map((cells) => row("td", heads, cells))));
}

const pill = (good, text) => make("span", { class: "pill " + good }, text);

export function show(s) {
  const { placed, groups } = s.cluster;
  if (!built) return;
  const zones = placed.some((n) => n.zone);
  table("placed", ["Node", "State", "Address", ...(zones ? ["Zone"] : []), "#Weight", "#Replicas", "#Leads"], placed.map((n) => [
    n.id,
    n.answers ? n.draining ? pill("", n.replicas ? "is drained" : "drained") : pill("good", "answers") : pill("bad", "silent"),
    n.client, ...(zones ? [n.zone || "–"] : []), exact(n.weight), exact(n.replicas), exact(n.leads),
  ]));
  const without = groups.filter((g) => !g.leader).length;
  set("groups-title", plural(groups.length, "group") + (without ? `, ${exact(without)} without a leader` : ""));
  table("groups-table", ["Group", "Slots", "Leader", "Replicas", "State", "#Lag", "#Keys", "#Decisions/s"], groups.map((g) => [
    exact(g.number), `${g.first} to ${g.last}`,
    g.leader ? g.leader + (g.wanted && g.wanted !== g.leader ? ` (${g.wanted} is to lead)` : "") : pill("bad", "nobody leads"),
    g.replicas.join(", "),
    g.to.length ? pill("", "on its way to " + g.to.join(", ")) : g.settled ? "at rest" : pill("", "is moved"),
    exact(g.lag), count(g.keys), count(g.rate),
  ]));
}
