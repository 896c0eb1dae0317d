// The overview: whether all is well, the figures of now and of the last minutes, nodes, and who is denied.
import { $, make, set, fill, count, exact, rate, plural, percent, micros, bytes, span, ago, clock, link, page, call, windows, spans, again } from "./page.js";
import { Chart } from "./charts.js";

let charts = null;
let asked = 0; // when the last denials were asked for

export const name = "overview";
export const title = "Overview";
export function open(params) {
  asked = 0;
  if (Object.hasOwn(spans, params.over)) page.charts = params.over;
  $("charts-over").value = page.charts;
  keep();
  if (page.last) show(page.last);
  if (page.charts !== "5m" && !page.minutes.length) again();
}

// keep keeps what is chosen in the address.
const keep = () => window.history.replaceState(null, "", link(name, page.charts !== "5m" ? { over: page.charts } : {}));

$("charts-over").addEventListener("change", (e) => {
  page.charts = e.target.value;
  keep();
  if (page.last) draw(page.last);
  again();
});

export function show(s) {
  verdict(s); tiles(s); draw(s); nodes(s); top(s); busy(s); held(s); disk(s);
  const now = performance.now();
  if (now - asked > 2000) { asked = now; recent(); }
  set("command", `redis-cli -p ${s.port} RL.TAKE user:42 GCRA 10/h`);
  $("empty").hidden = Boolean(s.figures.problem) || s.figures.allowed + s.figures.limited > 0;
}

function verdict(s) {
  const grave = s.concerns.some((c) => c.grave), slight = s.concerns.length > 0, nodes = s.cluster.nodes;
  $("verdict").className = "verdict " + (grave ? "bad" : slight ? "warn" : "good");
  const parts = ["decisions are made"];
  if (nodes.length) parts.push(`all ${nodes.length} nodes answer`);
  if (s.log.kept && !s.cluster.on && s.log.last_sync) parts.push("the log was synced " + ago(s.log.last_sync));
  set("well", grave ? "Something is wrong." : slight ? "Decisions are made, but look at this:" : "All is well: " + parts.join(", ") + ".");
  fill($("concerns"), s.concerns.map((c) => make("li", { class: c.grave ? "grave" : "" }, c.text)));
}

function tiles(s) {
  const f = s.figures, now = page.samples[page.samples.length - 1];
  if (!now || f.problem) { for (const id of ["rate", "share", "p99", "keys", "memory", "clients"]) { set(id, "–"); set(id + "-more", f.problem ? "not known now" : ""); } return; }
  const all = now.allowed + now.limited, per = (n) => n * 1000 / (now.took_ms || 1000);
  set("rate", rate(per(all)));
  set("rate-more", count(f.allowed + f.limited) + " so far");
  $("rate-more").title = exact(f.allowed) + " allowed, " + exact(f.limited) + " denied";
  set("share", percent(now.limited, all));
  set("share-more", rate(per(now.limited)) + " a second");
  set("p99", f.p99 ? micros(f.p99) : "–");
  set("p99-more", f.p50 ? "half within " + micros(f.p50) : "no decision");
  set("keys", count(now.keys));
  set("keys-more", f.evicted ? count(f.evicted) + " evicted" : count(f.expired) + " expired");
  set("memory", bytes(now.bytes));
  $("memory-meter").hidden = !f.bytes_max;
  if (f.bytes_max) { $("memory-meter").value = now.bytes / f.bytes_max; $("memory-meter").setAttribute("aria-label", "of maxmemory"); }
  set("memory-more", f.bytes_max ? "of " + bytes(f.bytes_max) : "no maxmemory");
  set("clients", count(now.clients));
  set("clients-more", now.waiting ? plural(now.waiting, "request") + " waiting" : "of " + count(f.clients_max));
}

// lately returns the figures of the time that charts show, up to now.
const lately = (samples, now) => samples.filter((p) => p.at > (now || Date.now()) - spans[page.charts]);

// minute returns a time without its seconds.
const minute = (ms) => clock(ms).slice(0, 5);

function draw(s) {
  if (!charts) {
    charts = {
      decisions: new Chart($("decisions"), [
        { label: "allowed", colour: "--allowed", area: true }, { label: "denied", colour: "--limited", area: true }, { label: "shadow", colour: "--shadow" },
      ], rate, { range: (_, low, high) => [0, Math.max(high * 1.1, 8)] }),
      latency: new Chart($("latency"), [
        { label: "99.9 %", colour: "--p999" }, { label: "99 %", colour: "--p99" }, { label: "median", colour: "--p50" },
      ], micros, { distr: 3, range: (_, low, high) => [1, Math.max(10 ** Math.ceil(Math.log10(high || 1)), 1000)] }),
    };
  }
  const byMinute = page.charts !== "5m", over = windows[page.charts];
  const samples = byMinute ? lately(page.minutes, s.figures.time) : page.samples;
  const times = samples.map((p) => p.at);
  const per = (what) => samples.map((p) => p[what] * 1000 / (p.took_ms || 1000));
  const time = (what) => samples.map((p) => p[what] || null);
  const problem = s.figures.problem || (byMinute ? page.noMinutes : "");
  const none = problem ? "Not known now: " + problem : byMinute && samples.length < 2 ? "There is a line once two minutes have ended." : `No decision in ${over}.`;
  const label = byMinute ? minute : undefined;
  for (const chart of ["decisions", "latency"]) set(chart + "-over", over);
  charts.decisions.draw(times, [per("allowed"), per("limited"), per("shadow")], true, none, label);
  charts.latency.draw(times, [time("p999"), time("p99"), time("p50")], false, none, label);
  const now = page.samples[page.samples.length - 1];
  if (now) {
    const title = over[0].toUpperCase() + over.slice(1) + (byMinute ? ", by the minute." : ".");
    $("decisions").setAttribute("aria-label", `${title} Now ${rate(now.allowed)} allowed and ${rate(now.limited)} denied a second.`);
    $("latency").setAttribute("aria-label", `${title} In the last ten seconds half within ${micros(s.figures.p50)}, 99 of 100 within ${micros(s.figures.p99)}.`);
  }
}

function nodes(s) {
  const c = s.cluster;
  $("cluster-card").hidden = !c.on;
  if (!c.on) return;
  set("cluster-more", "as " + (c.id || "this node") + " sees them · term " + exact(c.term));
  fill($("nodes"), c.nodes.map((n) => {
    const role = n.leads ? "leads" : n.votes ? "follows" : "follows, without a vote";
    const state = !n.answers ? (n.contact_ms < 0 ? "does not answer" : "silent for " + span(n.contact_ms)) : n.behind > 0 ? plural(n.behind, "entry", "entries") + " behind" : n.behind === 0 ? "up to date" : "answers";
    return make("li", { class: n.answers ? (n.leads ? "leads" : "") : "dead" },
      make("b", {}, n.id, n.self ? make("small", {}, " this node") : null),
      make("span", { class: "pill " + (n.answers ? "good" : "bad") }, n.answers ? role : "not reachable"),
      make("p", {}, state),
      make("small", {}, n.client || n.address));
  }));
}

// bar is a row of a list with a bar behind it.
export function bar(href, text, value, most, more) {
  return make("li", {},
    make("progress", { max: most || 1, value, "aria-hidden": "true" }),
    make("a", { class: "key", href, title: text, "data-focus": href }, text),
    more ? make("small", {}, more) : null,
    make("span", { class: "count" }, count(value)));
}

function top(s) {
  $("top-none").hidden = s.top.length > 0;
  set("top-none", s.figures.problem ? "Not known now." : "Nobody is being denied.");
  fill($("top"), s.top.map((k) => bar(link("caller", { id: k.id }), k.text, k.count, s.top[0].count)));
}

function busy(s) {
  const all = page.rules.filter((r) => r.limited > 0).sort((a, b) => b.limited - a.limited).slice(0, 5);
  set("busy-more", windows[page.over]);
  $("busy-none").hidden = all.length > 0;
  const rules = page.rules.length + page.moreRules;
  set("busy-none", s.figures.problem ? "Not known now." : rules ? `None of ${plural(rules, "rule")} has denied anything in this time.` : "There are no rules: limits come with the requests.");
  fill($("busy"), all.map((r) => bar(link("rule", { ns: r.namespace, name: r.name }), r.namespace + "/" + r.name, r.limited, all[0].limited, percent(r.limited, r.limited + r.allowed))));
}

// event is a row of a list of denials.
export function event(d, withKey) {
  const why = { limit: "over the limit", cost: "more than the whole limit", blocked: "blocked", queue: "the queue is full", maxwait: "the wait is too long" }[d.why] || d.why;
  return make("li", {},
    make("time", { datetime: new Date(d.time).toISOString() }, clock(d.time)),
    withKey ? make("a", { class: "key", href: link("caller", { id: d.id }), title: d.text, "data-focus": d.id + d.time }, d.text) : make("span", { class: "key" }, d.limit || "–"),
    make("small", {}, [why, d.times > 1 ? exact(d.times) + " times" : "", d.cost !== 1 ? "cost " + exact(d.cost) : "", d.wait_ms >= 0 ? "wait " + span(d.wait_ms) : "never", d.addr ? "from " + d.addr : ""].filter(Boolean).join(" · ")));
}

async function recent() {
  let denials = [], none = "None that the server remembers.";
  try {
    const answer = await call("denials");
    denials = answer.denials.slice(0, 8);
    none = answer.problem || none;
  } catch (problem) { none = problem.message; }
  $("recent-none").hidden = denials.length > 0;
  set("recent-none", none);
  fill($("recent"), denials.map((d) => event(d, true)));
}

// held tells of holds and blocks, once there were some.
function held(s) {
  const f = s.figures, rows = [];
  if (f.holds) {
    rows.push(["Held", count(f.holds)], ["Settled", count(f.settled) + (f.over ? `, ${count(f.over)} of them for more than was left` : "")]);
    if (f.returned) rows.push(["Gone back", count(f.returned) + " that nobody settled in time"]);
  }
  if (f.blocks) rows.push(["Blocks", count(f.blocks)]);
  $("held-card").hidden = !rows.length;
  fill($("held"), rows.flatMap(([what, value]) => [make("dt", {}, what), make("dd", {}, value)]));
}

function disk(s) {
  const l = s.log;
  const rows = s.cluster.on ? [["State", "in the log of the cluster"], ["This node", s.cluster.behind ? plural(s.cluster.behind, "entry", "entries") + " to apply" : "has applied all entries"]]
    : l.loading ? [["State", "is being loaded"]]
    : !l.kept ? [["State", "in memory only: it ends with the process"]]
    : [
      ["State", l.refusing ? "cannot be written: changes are refused" : l.on ? "log and snapshots" : "snapshots"],
      ["Log", bytes(l.bytes) + (l.unsynced_ms > 0 ? ", oldest unsynced byte " + span(l.unsynced_ms) : "")],
      ["Last sync", ago(l.last_sync)],
      ["Snapshot", (l.last_snapshot ? bytes(l.snapshot_bytes) + ", " : "") + (l.snapshotting ? "another is being made" : l.last_snapshot ? ago(l.last_snapshot) : "none yet: the log has everything") + (l.snapshot_failed ? ", the last one failed" : "")],
    ];
  fill($("log"), rows.flatMap(([what, value]) => [make("dt", {}, what), make("dd", {}, value)]));
}
