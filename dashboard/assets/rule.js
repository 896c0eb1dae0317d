// One rule: its limit and figures, its callers, and its text, which can be changed.
import { $, make, set, fill, call, count, exact, percent, plural, link, tryLink, page, sure, trouble, terms } from "./page.js";
import { Chart } from "./charts.js";
import { bar } from "./overview.js";
import { mode, limitOf, matchOf, weightsOf, exampleOf } from "./rules.js";
import { differences } from "./diff.js";

export const name = "rule";
export const menu = "rules";
export let title = "Rule";

let now = null, chart = null, asked = 0, which = {}, editing = false;

export async function open(params) {
  which = { ns: params.ns || "", name: params.name || "" };
  title = which.ns + "/" + which.name;
  document.title = title + " – limitdb";
  close();
  await load();
}

export function close() {
  if (chart) chart.end();
  chart = now = null;
  editing = false;
  $("rule").replaceChildren();
}

async function load() {
  asked = performance.now();
  const mine = which;
  let found;
  try { found = await call("rule?" + new URLSearchParams(which)); } catch (problem) {
    if (mine === which) { close(); $("rule").append(make("p", { class: "card" }, `${which.ns}/${which.name}: ${problem.message}. `, make("a", { href: link("rules") }, "All rules"))); }
    return;
  }
  if (mine !== which) return;
  if (!now) build(found);
  now = found;
  draw();
}

function build(r) {
  $("rule").replaceChildren(
    make("p", { class: "back" }, make("a", { href: link("rules") }, "← All rules")),
    make("h2", { class: "big", id: "rule-title" }, r.namespace + "/" + r.name),
    make("div", { id: "rule-candidate" }),
    make("section", { class: "tiles five", "aria-label": "Figures" },
      [["allowed", "Allowed"], ["limited", "Denied"], ["share", "Share denied"], ["near", "Near the limit"], ["shadow", "Shadow or candidate"]].map(([id, text]) =>
        make("div", { class: "tile" }, make("h2", {}, text), make("p", { id: "rule-" + id }, "–"), make("small", { id: `rule-${id}-more` })))),
    make("div", { class: "columns" },
      make("section", { class: "card", "aria-label": "Decisions of the last hour" }, make("h2", {}, "Decisions of the rule ", make("small", {}, "each minute of the last hour")), make("div", { id: "rule-chart", class: "chart", role: "img", "aria-label": "Decisions of the rule" })),
      make("section", { class: "card", "aria-labelledby": "rule-callers-title" },
        make("h2", { id: "rule-callers-title" }, "Callers denied most often ", make("small", {}, "now: what is older than a minute counts half, and so on")), make("ol", { class: "bars", id: "rule-callers" }), make("p", { class: "hint", id: "rule-callers-none" }, "Nobody is being denied by it."))),
    make("section", { class: "card", "aria-label": "The rule" },
      make("h2", {}, "The rule"), make("div", { id: "rule-facts" }),
      make("div", { id: "rule-text" })));
  chart = new Chart($("rule-chart"), [{ label: "allowed", colour: "--allowed", area: true, steps: true }, { label: "denied", colour: "--limited", area: true, steps: true }, { label: "shadow or candidate", colour: "--shadow", steps: true }], count, { range: (_, low, high) => [0, Math.max(high * 1.1, 4)] }, 230);
}

function draw() {
  const r = now;
  if (!r || !chart) return;
  for (const what of ["allowed", "limited", "near", "shadow"]) { set("rule-" + what, count(r[what])); $("rule-" + what).title = exact(r[what]); }
  set("rule-share", percent(r.limited, r.limited + r.allowed));
  set("rule-share-more", `${exact(r.limited)} of ${exact(r.limited + r.allowed)}`);
  set("rule-allowed-more", r.since ? "since " + new Date(r.since * 1000).toLocaleString([], { dateStyle: "short", timeStyle: "short" }) : "");
  set("rule-limited-more", r.blocks || r.blocked ? `${exact(r.blocked)} while blocked, in ${plural(r.blocks, "block")}` : "");
  set("rule-near-more", "a fifth or less was left");
  set("rule-shadow-more", "would have been denied");
  chart.draw(r.minutes.map((m) => m.at), ["allowed", "limited", "shadow"].map((what) => r.minutes.map((m) => m[what])), true, r.minutes.length ? "No decision in the last hour." : "The first 1000 rules have a chart.");
  $("rule-callers-none").hidden = r.callers.length > 0;
  fill($("rule-callers"), r.callers.slice(0, 9).map((k) => bar(link("caller", { id: k.id }), k.text, k.count, r.callers[0].count)));
  if (!document.activeElement || !document.activeElement.closest("#rule-facts select")) {
    fill($("rule-facts"), terms([
      ["Limit", make("code", {}, limitOf(r))], r.overrides ? ["Overrides", exact(r.overrides)] : null,
      ["Matches", matchOf(r)], ["One limit for", r.key.length ? "each " + r.key.join(", ") : "all callers together"], r.cost ? ["Cost", "in the field " + r.cost] : null, r.weights.length ? ["Weights", weightsOf(r)] : null, r.shard_by ? ["One slot for", "each " + r.shard_by] : null, ["Mode", mode(page.last, r)],
      ["Kept", r.source === "file" ? "in the rules file: change it there" : r.source === "command" ? "with the data, by commands" : ""],
    ]), make("p", { class: "line" }, make("a", { class: "button", href: tryLink(r.namespace, [...r.key.map((k) => [k, ""]), ...r.match.filter((_, i) => i % 2 === 0).map((f, i) => [f, exampleOf(r.match[2 * i + 1])])]) }, "Try a request")));
  }
  candidate(r);
  if (!editing) text(r);
}

// candidate tells of the limit that is tried beside the one in force, and lets people decide about it.
function candidate(r) {
  const box = $("rule-candidate");
  if (!r.candidate) { fill(box); return; }
  fill(box, make("div", { class: "verdict warn" },
    make("p", {}, "The limit ", make("code", {}, r.candidate), ` is tried beside ${r.limit}. Since the rule began, candidates would have denied ${exact(r.shadow)} of ${exact(r.allowed + r.limited)} requests, and the rule denied ${exact(r.limited)}.`),
    page.last.may_write && r.source === "command" ? make("p", { class: "line" },
      make("button", { type: "button", class: "primary", "data-focus": "adopt", onclick: () => settle("adopt") }, "Put it in force"),
      make("button", { type: "button", "data-focus": "drop", onclick: () => settle("drop") }, "Drop it")) : null));
}

async function settle(how) {
  const said = how === "adopt" ? `Callers are held to ${now.candidate} from now on.` : `${now.limit} stays in force, and ${now.candidate} is not tried any more.`;
  if (!(await sure(how === "adopt" ? "Put the candidate in force?" : "Drop the candidate?", said, how === "adopt" ? "Put in force" : "Drop"))) return;
  try { await call("rule/set", { namespace: now.namespace, name: now.name, text: "", how }); } catch (problem) { trouble(problem.message); }
  await load();
}

function text(r) {
  const shown = $("rule-text").querySelector("pre.source");
  if (shown && shown.textContent === r.text) return; // somebody may be selecting it
  fill($("rule-text"), make("pre", { class: "source", tabindex: "0", "aria-label": "The rule as it is written" }, r.text),
    page.last.may_write && r.source === "command" ? make("button", { type: "button", "data-focus": "edit", onclick: edit }, "Change the rule") : null);
}

// edit makes the text a field. What is typed is checked, and the differences are shown, before anything changes.
function edit() {
  editing = true;
  const before = now.text;
  const area = make("textarea", { id: "rule-edit", rows: String(Math.min(24, before.split("\n").length + 3)), spellcheck: "false", "aria-describedby": "rule-said" });
  area.value = before;
  const said = make("div", { id: "rule-said", role: "status" });
  let checked = null;
  const buttons = make("p", { class: "line" });
  const button = (label, kind, act, disabled) => make("button", { type: "button", class: kind, onclick: act, disabled }, label);
  const offer = () => buttons.replaceChildren(
    button("Check", checked ? "" : "primary", check),
    button("Try it first, as a candidate", checked && checked.try ? "primary" : "", () => put("try"), !(checked && checked.try)),
    button("Put it in force", checked && !checked.try ? "primary" : "", () => put("set"), !checked),
    button("Cancel", "", () => { editing = false; fill($("rule-text")); text(now); }));
  area.addEventListener("input", () => { if (checked) { checked = null; offer(); } });
  async function check() {
    const typed = area.value;
    checked = null;
    try {
      const answer = await call("rule/check", { namespace: now.namespace, name: now.name, text: typed, how: "set" });
      const same = !answer.changed.length && !answer.added.length;
      let beside = null;
      if (!same) beside = await call("rule/check", { namespace: now.namespace, name: now.name, text: typed, how: "try" }).catch(() => null);
      checked = { text: typed, try: Boolean(beside) };
      fill(said, make("p", { class: "fine" }, same ? "The rule would mean the same." : "No mistake. This would change:"), differences(before, typed), answer.restarted.length ? make("p", { class: "hint" }, "Its callers begin with a full limit: their keys change.") : null,
        make("p", { class: "hint" }, beside ? "Only the limit differs, so it can be tried beside the one in force: what it would deny is counted, and nobody is denied by it." : same ? "" : "More than the limit differs, so this cannot be tried as a candidate."));
    } catch (problem) { said.replaceChildren(make("p", { class: "wrong" }, problem.message)); }
    offer();
  }
  async function put(how) {
    if (!checked || checked.text !== area.value) return;
    if (how === "set" && !(await sure(`Change ${now.namespace}/${now.name}?`, "Callers are held to the new rule from now on. What they have used stays used while the key stays the same.", "Put in force"))) return;
    try {
      await call("rule/set", { namespace: now.namespace, name: now.name, text: checked.text, how });
      editing = false;
      fill($("rule-text"));
      await load();
    } catch (problem) { said.replaceChildren(make("p", { class: "wrong" }, problem.message)); }
  }
  offer();
  $("rule-text").replaceChildren(make("label", { for: "rule-edit" }, "The rule, as YAML or JSON"), area, said, buttons);
  area.focus();
}

export function show() {
  if (performance.now() - asked > 2000) load();
}
