// One caller, or key: its limits, what is left of them, and its last denials.
import { $, make, set, fill, call, exact, count, plural, bytes, span, ago, link, tryLink, page, sure, trouble, terms } from "./page.js";
import { Chart } from "./charts.js";
import { event } from "./overview.js";
import { answers } from "./try.js";

export const name = "caller";
export let title = "Caller";

let id = "", now = null, left = null, denied = null, asked = 0, seen = [];
const minutes = 5 * 60 * 1000, step = 5000;

// What these algorithms keep is a time, not a count.
const timed = new Set(["gcra", "token", "leaky", "queue", "warmup"]);

export async function open(params) {
  close();
  id = params.id || "";
  title = "Caller";
  await load();
}

export function close() {
  for (const c of [left, denied]) if (c) c.end();
  left = denied = now = null;
  seen = [];
  $("caller").replaceChildren();
}

async function load() {
  asked = performance.now();
  const mine = id;
  let found;
  try { found = await call("key", { id }); } catch (problem) {
    if (mine === id) { close(); $("caller").append(make("p", { class: "card" }, problem.message)); }
    return;
  }
  if (mine !== id) return;
  if (!now) build(found);
  now = found;
  note();
  draw();
}

// own returns the answer of the limit that the key counts for, if it is known.
function own(k) {
  if (!k.rule) return k.answer;
  const all = k.rules ? k.rules.rules.flatMap((r) => r.limits) : [];
  const limit = all.find((l) => l.id === k.id);
  return limit ? limit.numbers : null;
}

// note keeps what is left now, for the chart.
function note() {
  const numbers = own(now);
  seen.push({ at: Date.now() + page.ahead, value: numbers ? numbers.left : null });
  seen = seen.filter((s) => s.at > Date.now() + page.ahead - minutes);
}

function build(k) {
  title = k.text.slice(0, 60);
  document.title = title + " – limitdb";
  $("caller").replaceChildren(
    make("p", { class: "back" }, make("a", { href: link("overview") }, "← Overview")),
    make("div", { class: "between" }, make("h2", { class: "big key", id: "caller-title", title: k.text }, k.text), make("span", { id: "caller-reset" })),
    make("p", { id: "caller-said", class: "said" }),
    make("section", { class: "card", "aria-labelledby": "caller-limits-title" }, make("h2", { id: "caller-limits-title" }, "Limits ", make("small", {}, "now, of a request that costs 1")), make("div", { id: "caller-limits" })),
    make("div", { class: "columns" },
      make("div", {},
        make("section", { class: "card", "aria-label": "Left" }, make("h2", {}, "Left ", make("small", {}, "since this page was opened, at most 5 minutes")), make("div", { id: "caller-left", class: "chart low", role: "img", "aria-label": "What is left" })),
        make("section", { class: "card", "aria-label": "Denied" }, make("h2", {}, "Denied ", make("small", {}, "last 5 minutes, each 5 s, of the denials that the server remembers")), make("div", { id: "caller-denied", class: "chart low", role: "img", "aria-label": "Denied requests" }))),
      make("div", {},
        make("section", { class: "card", "aria-labelledby": "caller-denials-title" }, make("h2", { id: "caller-denials-title" }, "Last denials ", make("small", {}, "the newest first")), make("ol", { class: "events", id: "caller-denials" }), make("p", { class: "hint", id: "caller-denials-none" })),
        make("section", { class: "card", id: "caller-holds", "aria-labelledby": "caller-holds-title", hidden: true }, make("h2", { id: "caller-holds-title" }, "Holds ", make("small", { id: "caller-held" })), make("ol", { class: "events", id: "caller-held-ids" }), make("p", { class: "hint", id: "caller-held-more" })),
        make("section", { class: "card", "aria-label": "What is kept" }, make("h2", {}, "What is kept"), make("div", { id: "caller-kept" })))));
  left = new Chart($("caller-left"), [{ label: "left", colour: "--allowed", area: true, steps: true }], count, { range: (_, low, high) => [0, Math.max((high || 0) * 1.1, 4)] }, 120);
  denied = new Chart($("caller-denied"), [{ label: "denied", colour: "--limited", area: true, steps: true }], count, { range: (_, low, high) => [0, Math.max((high || 0) * 1.1, 4)] }, 120);
}

function draw() {
  const k = now;
  const of = k.rule;
  set("caller-said", !of ? (k.found ? "A key that clients name themselves: its limit comes with each request." : "There is no such key now. A key is forgotten when its limit is full again, so this caller has its whole limit.")
    : (of.candidate ? "Counted by the candidate of " : "A caller of the rule "));
  if (of) $("caller-said").append(make("a", { href: link("rule", { ns: of.namespace, name: of.name }), "data-focus": "rule" }, of.namespace + "/" + of.name), of.unknown ? `: ${of.unknown}.` : ". ", of.unknown ? "" : make("a", { href: tryLink(of.namespace, k.fields || of.fields), "data-focus": "try" }, "Try a request"));
  limitsOf(k);
  charts(k);
  $("caller-denials-none").hidden = k.denials.length > 0;
  set("caller-denials-none", k.no_denials || "None that the server remembers.");
  fill($("caller-denials"), k.denials.slice(0, 20).map((d) => event(d, false)));
  holds(k);
  fill($("caller-kept"), terms(k.found ? [
    ["Key", k.text], ["Algorithm", k.algorithm], timed.has(k.algorithm) ? null : ["In use", exact(k.level)], ["Full again in", span(k.resets_in_ms)], ["Memory", bytes(k.memory)],
  ] : [["Key", k.text], ["State", "none: the whole limit is there"]]));
  fill($("caller-reset"), page.last && page.last.may_write && k.found && !(of && of.unknown) ? make("button", { type: "button", class: "danger", "data-focus": "reset", onclick: reset }, "Reset") : null);
}

// holds tells of the estimates that nobody has settled yet.
function holds(k) {
  const ids = (k.held_ids || []).slice(0, 20);
  $("caller-holds").hidden = !k.holds;
  set("caller-held", `${exact(k.held)} in ${plural(k.holds, "hold")}`);
  fill($("caller-held-ids"), ids.map((h) => make("li", {}, make("b", {}, h.text.slice(0, 60)), ` holds ${exact(h.amount)} for ${span(h.left_ms)} more`)));
  set("caller-held-more", k.holds > ids.length ? `and ${exact(k.holds - ids.length)} more` : "");
}

function limitsOf(k) {
  const box = $("caller-limits");
  if (k.rule) {
    if (!k.rules) { fill(box, make("p", { class: "hint" }, "They are not known here: " + k.no_rules + ".")); return; }
    const guessed = (k.fields || []).slice(k.rule.fields.length);
    fill(box, answers(k.rules, k.rule.namespace, true), make("p", { class: "hint note" }, "For a request with " + (k.fields || []).map(([f, v]) => f + " = " + (v.length > 60 ? v.slice(0, 60) + "…" : v)).join(", ") + (guessed.length ? `: ${guessed.map(([f]) => f).join(", ")} as the rule matches.` : ".")));
    return;
  }
  if (!k.answer) { fill(box, make("p", { class: "hint" }, k.found ? "Clients send the limit with each request, and the server does not keep it. It is known here once a request has been denied." : "None.")); return; }
  fill(box, answers({ rules: [{ name: "", matches: true, from: "of the last denial, " + ago(k.denials[0].time), limits: [{ role: "enforce", limit: k.limit, cost: 1, numbers: k.answer }] }] }, "", true));
}

function charts(k) {
  const end = Math.floor((Date.now() + page.ahead) / step) * step + step, times = [], denials = [];
  for (let t = end - minutes; t < end; t += step) { times.push(t); denials.push(0); }
  for (const d of k.denials) {
    // Several denials of one entry are spread over its time.
    const from = Math.max(d.since || d.time, end - minutes), n = Math.max(1, Math.min(60, Math.ceil((d.time - from) / step)));
    for (let i = 0; i < n; i++) {
      const at = Math.floor((d.time - i * step - (end - minutes)) / step);
      if (at >= 0 && at < denials.length) denials[at] += d.times / n;
    }
  }
  left.draw([end - minutes, ...seen.map((s) => s.at)], [[null, ...seen.map((s) => s.value)]], false, seen.some((s) => s.value !== null) ? "" : "Not known without the limit.");
  denied.draw(times, [denials], false, k.no_denials || "Not denied.");
}

async function reset() {
  if (!(await sure("Reset " + now.text.slice(0, 200) + "?", "The server forgets what this caller has used. It starts with a full limit.", "Reset"))) return;
  try { await call("reset", { id: now.id }); } catch (problem) { trouble(problem.message); }
  await load();
}

export function show() {
  if (performance.now() - asked > 1900) load();
}
