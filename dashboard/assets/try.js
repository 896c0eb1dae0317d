// Try a request: which rules match it, what each would answer, and why others do not match. Nothing is taken.
import { $, make, set, fill, call, exact, span, link, tryLink } from "./page.js";

export const name = "try";
export const title = "Try a request";

let built = false, namespaces = [];

export async function open(params) {
  if (!built) build();
  try {
    const { rules } = await call("rules");
    namespaces = [...new Set(rules.map((r) => r.namespace))];
  } catch { namespaces = []; }
  const { ns, cost } = params;
  const given = Object.entries(params).filter(([p]) => p.startsWith("f.")).map(([p, v]) => [p.slice(2), v]);
  const chosen = ns || namespaces[0] || "";
  fill($("try-ns"), [...new Set([...namespaces, chosen])].filter(Boolean).map((n) => make("option", { selected: n === chosen }, n)));
  $("try-none").hidden = namespaces.length > 0;
  $("try-form").hidden = namespaces.length === 0 && !ns;
  $("try-cost").value = cost || "1";
  $("try-fields").replaceChildren();
  for (const [f, v] of given) line(f, v);
  if (!given.length) line("", "");
  $("try-said").replaceChildren();
  if (given.some(([, v]) => v)) ask();
}

function build() {
  built = true;
  $("try").replaceChildren(
    make("section", { class: "card", "aria-labelledby": "try-title" },
      make("h2", { id: "try-title" }, "Try a request ", make("small", {}, "nothing is taken")),
      make("p", { class: "hint", id: "try-none", hidden: true }, "There are no rules to try: limits come with the requests."),
      make("form", { id: "try-form", onsubmit: (e) => { e.preventDefault(); window.history.replaceState(null, "", address()); ask(); } },
        make("div", { class: "row" },
          make("label", {}, "Namespace ", make("select", { id: "try-ns" })),
          make("label", {}, "Cost ", make("input", { id: "try-cost", type: "number", min: "0", value: "1", class: "tiny" }))),
        make("div", { id: "try-fields", role: "group", "aria-label": "Fields of the request" }),
        make("p", { class: "line" }, make("button", { type: "button", onclick: () => line("", "").querySelector("input").focus() }, "Add a field"), make("button", { class: "primary" }, "Try")))),
    make("section", { id: "try-said", "aria-live": "polite" }));
}

function line(f, v) {
  const row = make("div", { class: "field" },
    make("input", { placeholder: "field", "aria-label": "Field", class: "short", value: f, autocomplete: "off", spellcheck: "false", autocapitalize: "off" }), make("span", { "aria-hidden": "true" }, "="),
    make("input", { placeholder: "value", "aria-label": "Value", value: v, autocomplete: "off", spellcheck: "false", autocapitalize: "off" }),
    make("button", { type: "button", class: "small", "aria-label": "Remove the field " + f, onclick: () => row.remove() }, "×"));
  $("try-fields").append(row);
  return row;
}

const fields = () => [...$("try-fields").children].map((row) => [...row.querySelectorAll("input")].map((i) => i.value)).filter(([f]) => f);
const address = () => tryLink($("try-ns").value, fields(), $("try-cost").value);

async function ask() {
  const namespace = $("try-ns").value;
  try {
    const answer = await call("try", { namespace, fields: fields(), cost: Number($("try-cost").value) || 0 });
    $("try-said").replaceChildren(verdict(answer), make("div", { class: "card" }, make("h2", {}, "Rules of " + namespace), answers(answer, namespace, false)));
  } catch (problem) { $("try-said").replaceChildren(make("p", { class: "card wrong" }, problem.message)); }
}

function verdict(a) {
  const limited = a.answer && a.answer.limited;
  const text = !a.answer || !a.rule ? "It would be allowed: no rule limits it." : limited ? `It would be denied by ${a.rule}` + (a.answer.wait_ms >= 0 ? `, for ${span(a.answer.wait_ms)} more.` : ", for ever.") : `It would be allowed. The least is left of ${a.rule}: ${exact(a.answer.left)} of ${exact(a.answer.limit)}.`;
  return make("div", { class: "verdict " + (limited ? "bad" : "good") }, make("p", {}, text));
}

const roles = { enforce: "", shadow: "in shadow mode: counted, never enforced", candidate: "a candidate: counted, never enforced" };

// card is what one limit of a rule makes of a request.
function card(r, l, namespace) {
  const n = l && l.numbers;
  return make("li", { class: n && n.limited ? (l.role === "enforce" ? "denies" : "would") : "" },
    make("div", { class: "between" }, r.name ? make("a", { href: link("rule", { ns: namespace, name: r.name }) }, r.name) : make("b", {}, "Its limit"), make("code", {}, l ? l.limit : "unlimited")),
    n ? make("meter", { min: "0", max: String(Math.max(1, n.limit)), value: String(Math.max(0, n.left)), "aria-label": "left" }) : null,
    make("p", {}, n ? [make("b", {}, n.limited ? (l.role === "enforce" ? "denies" : "would deny") : "allows"), `: ${exact(n.left)} of ${exact(n.limit)} left`, n.limited && n.wait_ms >= 0 ? `, again in ${span(n.wait_ms)}` : n.limited ? ", never at this cost" : "", n.reset_ms > 0 ? `, full again in ${span(n.reset_ms)}` : "", l.held ? `, ${exact(l.held)} held` : ""] : "limits nobody"),
    make("small", {}, [l ? roles[l.role] : "", r.from, l && l.cost !== 1 ? "cost " + exact(l.cost) : ""].filter(Boolean).join(" · ")));
}

// answers returns what each rule makes of a request: first those that match. If short is true, others are left out.
export function answers(a, namespace, short) {
  const matching = a.rules.filter((r) => r.matches), others = a.rules.filter((r) => !r.matches);
  const list = matching.length ? make("ul", { class: "answers" }, matching.flatMap((r) => (r.limits.length ? r.limits.map((l) => card(r, l, namespace)) : [card(r, null, namespace)])))
    : make("p", { class: "hint" }, "No rule matches.");
  if (short) return [list];
  return [list,
    a.ignored.length ? make("p", { class: "hint note" }, "No rule looks at " + a.ignored.join(", ") + ".") : null,
    others.length ? make("h2", { class: "gap" }, "Rules that do not match") : null,
    make("ul", { class: "others" }, others.map((r) => make("li", {}, make("a", { href: link("rule", { ns: namespace, name: r.name }) }, r.name), " ", make("small", {}, r.why)))),
    a.more ? make("p", { class: "hint" }, exact(a.more) + " more rules are not shown.") : null];
}
