// The list of rules, with what each allows and denies.
import { $, make, set, fill, call, count, exact, percent, plural, micros, link, page, sure, trouble, windows, again } from "./page.js";
import { spark } from "./charts.js";

export const name = "rules";
export const title = "Rules";

let list = [], more = 0, asked = 0, filter = "", built = false;

const id = (r) => r.namespace + "\n" + r.name;

function build() {
  built = true;
  $("rules").replaceChildren(make("section", { class: "card", "aria-labelledby": "rules-title" },
    make("div", { class: "between" },
      make("h2", { id: "rules-title" }, "Rules"),
      make("div", { class: "row" },
        make("label", {}, "Counted over ", make("select", { id: "rules-over", onchange: (e) => { page.over = e.target.value; keep(); again(); } }, Object.entries(windows).map(([w, text]) => make("option", { value: w }, text)))),
        make("label", { class: "hidden", for: "rules-filter" }, "Show only rules with this in their name"),
        make("input", { id: "rules-filter", type: "search", placeholder: "Filter", class: "short", autocomplete: "off", oninput: (e) => { filter = e.target.value; keep(); draw(); } }))),
    make("table", { id: "rules-table", role: "table", "aria-labelledby": "rules-title" }),
    make("p", { id: "rules-none", class: "hint", hidden: true }),
    make("p", { id: "rules-more", class: "hint", hidden: true }),
    make("p", { class: "hint note" }, "Share is what was denied of all that was asked. The small charts show denials, each minute of the last hour.")));
}

// keep keeps what is chosen in the address.
const keep = () => window.history.replaceState(null, "", link("rules", { ...(filter ? { filter } : {}), ...(page.over !== "1h" ? { over: page.over } : {}) }));

export async function open(params) {
  if (!built) build();
  filter = params.filter || "";
  $("rules-filter").value = filter;
  if (params.over !== undefined && Object.hasOwn(windows, params.over)) page.over = params.over;
  $("rules-over").value = page.over;
  await load();
}

async function load() {
  asked = performance.now();
  try { ({ rules: list, more } = await call("rules")); } catch (problem) { trouble(problem.message); }
  draw();
}

export function show() {
  if (performance.now() - asked > 5000) load(); else draw();
}

const heads = ["Rule", "Limit", "Matches", "Mode", "Allowed", "Denied", "Share", "Near limit", "Shadow", ""];

function draw() {
  const s = page.last;
  if (!s || !built) return;
  if (document.activeElement && document.activeElement.closest("#rules-table select") || $("sure").open) return; // somebody is choosing
  const counters = new Map(page.rules.map((r) => [id(r), r]));
  const shown = list.filter((r) => (r.namespace + "/" + r.name).includes(filter));
  $("rules-none").hidden = shown.length > 0;
  set("rules-none", list.length ? "No rule has that in its name." : "There are no rules: limits come with the requests. RL.RULES LOAD, or the directive rules-file, makes some.");
  $("rules-more").hidden = !more;
  set("rules-more", `${plural(more, "rule")} more: find them by the field above, at the head of the page.`);
  set("rules-title", list.length ? plural(list.length + more, "rule") : "Rules");
  const namespaces = new Map();
  for (const r of shown) namespaces.set(r.namespace, [...(namespaces.get(r.namespace) || []), r]);
  fill($("rules-table"),
    make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, heads.map((h, i) => make("th", { role: "columnheader", scope: "col", class: i >= 4 ? "n" : "" }, h || make("span", { class: "hidden" }, "Chart"))))),
    [...namespaces].map(([ns, members]) => make("tbody", { role: "rowgroup" },
      make("tr", { class: "namespace", role: "row" }, make("th", { role: "rowheader", scope: "rowgroup", colspan: heads.length }, ns, make("small", {}, checks(s, ns)))),
      members.map((r) => row(s, r, counters.get(id(r)))))));
}

// pairs returns the pairs of a list.
const pairs = (list, between) => list.filter((_, i) => i % 2 === 0).map((name, i) => name + between + list[2 * i + 1]).join(", ");

// limitOf and matchOf say in words what a rule's limit is, and what requests it is about.
export const limitOf = (r) => (r.plans.length ? pairs(r.plans, ": ") : r.limit || "unlimited") + (r.limit_from ? `, or that in ${r.limit_from}, at most ${r.at_most}` : "") + (r.in_flight ? `, ${r.in_flight}` : "");
export const matchOf = (r) => (r.match.length ? pairs(r.match, " = ") : "all requests") + (r.except.length ? ", but not " + pairs(r.except, " = ") : "");

// weightsOf says what a unit of the cost counts, the first of many.
export const weightsOf = (r) => {
  const all = r.weights.map((w, i) => (i % 3 === 2 ? `${w} for ${r.weights[i - 2]} = ${r.weights[i - 1]}` : "")).filter(Boolean);
  return all.slice(0, 8).join(", ") + (all.length > 8 ? ` and ${all.length - 8} more` : "");
};

// exampleOf returns a value that a pattern accepts, or the first address of networks.
export const exampleOf = (pattern) => (/^\[[0-9a-f.:]+[/,\]]/i.test(pattern) ? pattern.slice(1).split(/[/,\]]/)[0] : pattern.replaceAll("*", ""));

function row(s, r, c) {
  const href = link("rule", { ns: r.namespace, name: r.name });
  const figure = (i, text, title) => make("td", { class: "n", role: "cell", "data-head": heads[i], title }, text);
  const denied = r.minutes.map((m) => m.limited);
  return make("tr", { role: "row", class: r.mode === "off" ? "idle" : "" },
    make("th", { role: "rowheader", scope: "row" }, make("a", { href, "data-focus": href }, r.name)),
    make("td", { role: "cell", class: "words", "data-head": heads[1] }, make("code", {}, limitOf(r)), r.candidate ? make("small", {}, "candidate " + r.candidate) : null, r.overrides ? make("small", {}, plural(r.overrides, "override")) : null),
    make("td", { role: "cell", class: "words", "data-head": heads[2] }, matchOf(r), make("small", {}, r.key.length ? "one limit for each " + r.key.join(", ") : "one limit for all")),
    make("td", { class: "of", role: "cell" }, mode(s, r)),
    c ? [
      figure(4, count(c.allowed), exact(c.allowed)), figure(5, c.blocks || c.blocked ? [count(c.limited), make("small", {}, plural(c.blocks, "block"))] : count(c.limited), exact(c.limited) + (c.blocked ? `, ${exact(c.blocked)} of them while blocked` : "")), figure(6, percent(c.limited, c.allowed + c.limited)),
      figure(7, count(c.near), exact(c.near)), figure(8, count(c.shadow), exact(c.shadow)),
      make("td", { role: "cell", class: "picture" }, denied.length ? spark(denied, "limited", `Denied in the last hour: ${exact(denied.reduce((a, b) => a + b, 0))}`) : null),
    ] : [4, 5, 6, 7, 8].map((i) => figure(i, "–")), c ? null : make("td", { role: "cell", class: "picture" }));
}

// mode shows the mode of a rule, for those who may change it as a choice.
export function mode(s, r) {
  if (!s.may_write) return make("span", { class: "mode " + r.mode }, r.mode);
  return make("select", { "aria-label": "Mode of " + r.name, onchange: (e) => change(r, e.target) }, ["enforce", "shadow", "off"].map((m) => make("option", { selected: m === r.mode }, m)));
}

async function change(r, select) {
  const wanted = select.value;
  select.blur();
  if (await sure(`Set ${r.namespace}/${r.name} to ${wanted}?`, wanted === "enforce" ? "Callers over the limit are denied from now on." : "Nobody is denied by this rule from now on.", "Change")) {
    try { await call("mode", { namespace: r.namespace, rule: r.name, mode: wanted }); } catch (problem) { trouble(problem.message); return; }
  }
  asked = 0;
  again();
}

// checks says how long the checks in a namespace took.
function checks(s, namespace) {
  const c = s.figures.checks.find((c) => c.namespace === namespace);
  if (!c || !c.count) return "";
  return `${plural(c.count, "check")} in the last minutes: half within ${micros(c.p50)}, 99 of 100 within ${micros(c.p99)}`;
}
