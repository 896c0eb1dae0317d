"use strict";
// The page asks for the state every second and draws it. Texts from the server are only ever set as text.
(() => {
  const $ = (id) => document.getElementById(id);
  const keep = 300; // seconds
  let samples = [];
  let charts = null;
  let timer = 0;
  let last = null;

  // call asks the server. It throws an Error with the server's words and the status.
  async function call(path, body) {
    const options = { headers: { "X-Limitdb": "dashboard" }, credentials: "same-origin", cache: "no-store" };
    if (body !== undefined) {
      options.method = "POST";
      options.headers["Content-Type"] = "application/json";
      options.body = JSON.stringify(body);
    }
    const answer = await fetch("api/" + path, options);
    const data = await answer.json().catch(() => ({}));
    if (!answer.ok) {
      const problem = new Error(data.error || "status " + answer.status);
      problem.status = answer.status;
      throw problem;
    }
    return data;
  }

  const whole = new Intl.NumberFormat("en");
  const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
  const count = (n) => (n < 10000 ? whole.format(Math.round(n)) : compact.format(n));
  const rate = (n) => (n > 0 && n < 10 ? n.toFixed(1) : count(n));
  const plural = (n, noun) => count(n) + " " + noun + (n === 1 ? "" : "s");
  function micros(us) {
    if (!us) return "–";
    if (us < 1000) return us.toPrecision(us < 10 ? 2 : 3).replace(/\.0+$/, "") + " µs";
    if (us < 1e6) return (us / 1000).toFixed(1) + " ms";
    return (us / 1e6).toFixed(1) + " s";
  }
  function bytes(n) {
    const units = ["B", "kB", "MB", "GB", "TB"];
    let i = 0;
    while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
    return (i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)) + " " + units[i];
  }
  function span(ms) {
    const s = Math.floor(ms / 1000);
    if (ms < 1000) return ms + " ms";
    if (s < 60) return s + " s";
    if (s < 3600) return Math.floor(s / 60) + " min " + (s % 60) + " s";
    if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min";
    return Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
  }
  const ago = (ms) => (ms > 0 ? span(Math.max(0, Date.now() - ms)) + " ago" : "never");
  const set = (id, text) => { const e = $(id); if (e.textContent !== text) e.textContent = text; };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // make returns an element with attributes and children. Children are elements or texts.
  function make(tag, attributes, ...children) {
    const e = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name === "onclick" || name === "onchange") e[name] = value;
      else if (value === true) e.setAttribute(name, "");
      else if (value !== false && value !== undefined) e.setAttribute(name, value);
    }
    e.append(...children);
    return e;
  }

  function list(id, rows) {
    $(id).replaceChildren(...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  }

  // --- charts -------------------------------------------------------------------------------------------

  // chart returns a chart with a legend of its own, which shows the figures under the pointer, or else the last.
  function chart(element, series, value, scale) {
    const axis = { stroke: () => colour("--soft"), grid: { stroke: () => colour("--grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const shown = series.map((s) => ({
      stroke: () => colour(s.colour),
      fill: s.area ? () => colour(s.colour) + "44" : undefined,
      width: 1.5,
      points: { show: false },
    }));
    const values = series.map(() => make("b", {}, "–"));
    const when = make("span", {}, "");
    const legend = make("ul", { class: "legend" }, ...series.map((s, i) => make("li", {}, swatch(s.colour), s.label, values[i])), make("li", {}, when));
    const u = new uPlot({
      width: Math.max(200, element.clientWidth),
      height: 200,
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false } },
      scales: { y: scale },
      axes: [
        { ...axis, size: 30, space: 76, values: (_, ticks) => ticks.map(clock) },
        { ...axis, size: 62, space: 36, values: (_, ticks) => ticks.map((v) => (v === null ? "" : v ? value(v) : "0")) },
      ],
      series: [{}, ...shown],
      hooks: { setCursor: [(u) => tell(u)] },
    }, [[], ...series.map(() => [])], element);
    element.append(legend);
    u.tell = (i) => {
      series.forEach((_, c) => { const v = u.own[c + 1][i]; const text = v === null || v === undefined ? "–" : value(v); if (values[c].textContent !== text) values[c].textContent = text; });
      when.textContent = u.cursor.idx === null || u.cursor.idx === undefined ? "" : "at " + clock(u.own[0][i]);
    };
    return u;
  }

  const clock = (t) => new Date(t * 1000).toTimeString().slice(0, 8);

  function tell(u) {
    if (!u.own || !u.own[0].length) return;
    u.tell(u.cursor.idx === null || u.cursor.idx === undefined ? u.own[0].length - 1 : u.cursor.idx);
  }

  function swatch(name) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const box = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    svg.setAttribute("aria-hidden", "true");
    box.setAttribute("width", "12");
    box.setAttribute("height", "12");
    box.setAttribute("class", name.slice(2));
    svg.append(box);
    return svg;
  }

  // draw gives a chart its figures. If stacked is true, the first series stands on the second.
  function draw(u, times, columns, stacked) {
    u.own = [times, ...columns];
    const first = stacked ? columns[0].map((v, i) => v + columns[1][i]) : columns[0];
    u.setData([times, first, ...columns.slice(1)]);
    tell(u);
  }

  function drawAll() {
    if (!charts) {
      charts = {
        decisions: chart($("decisions"), [
          { label: "allowed", colour: "--allowed", area: true }, { label: "limited", colour: "--limited", area: true }, { label: "shadow", colour: "--shadow" },
        ], rate, { range: (_, low, high) => [0, Math.max(high * 1.1, 8)] }),
        latency: chart($("latency"), [
          { label: "99.9 %", colour: "--p999" }, { label: "99 %", colour: "--p99" }, { label: "median", colour: "--p50" },
        ], micros, { distr: 3, range: (_, low, high) => [1, Math.max(10 ** Math.ceil(Math.log10(high || 1)), 1000)] }),
      };
      new ResizeObserver(() => {
        for (const [name, u] of Object.entries(charts)) u.setSize({ width: Math.max(200, $(name).clientWidth), height: 200 });
      }).observe($("main"));
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { for (const u of Object.values(charts)) u.redraw(false, true); });
    }
    const times = samples.map((s) => s.at / 1000);
    const column = (name) => samples.map((s) => s[name]);
    const time = (name) => samples.map((s) => s[name] || null);
    draw(charts.decisions, times, [column("allowed"), column("limited"), column("shadow")], true);
    draw(charts.latency, times, [time("p999"), time("p99"), time("p50")], false);
    const now = samples[samples.length - 1];
    if (now) {
      $("decisions").setAttribute("aria-label", `The last five minutes. Now ${rate(now.allowed)} allowed and ${rate(now.limited)} limited a second.`);
      $("latency").setAttribute("aria-label", `The last five minutes. Now half within ${micros(now.p50)}, 99 of 100 within ${micros(now.p99)}.`);
    }
  }

  // --- the parts of the page ----------------------------------------------------------------------------

  function tiles(s) {
    const now = samples[samples.length - 1];
    if (!now) return;
    const all = now.allowed + now.limited;
    set("rate", rate(all));
    set("rate-more", count(s.decisions) + " so far");
    set("share", all ? (100 * now.limited / all).toFixed(1) + " %" : "–");
    set("share-more", rate(now.limited) + " a second");
    set("p99", micros(now.p99));
    set("p99-more", "half within " + micros(now.p50));
    set("keys", count(now.keys));
    set("keys-more", s.evicted ? count(s.evicted) + " evicted" : count(s.expired) + " expired");
    set("memory", bytes(now.bytes));
    $("memory-meter").hidden = !s.bytes_max;
    if (s.bytes_max) { $("memory-meter").value = now.bytes / s.bytes_max; $("memory-meter").setAttribute("aria-label", "of maxmemory"); }
    set("memory-more", s.bytes_max ? "of " + bytes(s.bytes_max) : "no maxmemory");
    set("clients", count(now.clients));
    set("clients-more", now.waiting ? plural(now.waiting, "request") + " waiting" : "of " + count(s.clients_max));
  }

  function top(s) {
    $("top-none").hidden = s.top.length > 0;
    const held = document.activeElement && document.activeElement.closest("#top li");
    const focus = held ? [held.dataset.id, document.activeElement.className] : null;
    $("top").replaceChildren(...s.top.map((k) => {
      const row = make("li", { "data-id": k.id },
        make("progress", { max: s.top[0].count, value: k.count, "aria-hidden": "true" }),
        make("button", { type: "button", class: "key", title: k.text, onclick: () => look("id=" + k.id) }, k.text),
        make("span", { class: "count" }, count(k.count)));
      if (s.may_write) row.append(resetButton(k));
      return row;
    }));
    if (focus) {
      const row = [...$("top").children].find((e) => e.dataset.id === focus[0]);
      const e = row && [...row.children].find((c) => c.className === focus[1]);
      if (e) e.focus();
    }
  }

  function resetButton(k) {
    return make("button", { type: "button", class: "small danger", "aria-label": "Reset " + k.text, onclick: () => reset(k) }, "Reset");
  }

  function log(s) {
    const l = s.log;
    if (s.cluster.on) { list("log", [["State", "in the log of the cluster"]]); return; }
    if (l.loading) { list("log", [["State", "is being loaded"]]); return; }
    if (!l.kept) { list("log", [["State", "in memory only"]]); return; }
    list("log", [
      ["State", l.refusing ? "cannot be written: changes are refused" : l.on ? "log and snapshots" : "snapshots"],
      ["Log", bytes(l.bytes) + (l.unsynced_ms > 0 ? ", oldest unsynced byte " + span(l.unsynced_ms) : "")],
      ["Last sync", ago(l.last_sync)],
      ["Snapshot", (l.last_snapshot ? bytes(l.snapshot_bytes) + ", " : "") + (l.snapshotting ? "another is being made" : ago(l.last_snapshot)) + (l.snapshot_failed ? ", the last one failed" : "")],
    ]);
  }

  function cluster(s) {
    const c = s.cluster;
    if (!c.on) { list("cluster", [["Nodes", "this server stands alone"]]); return; }
    list("cluster", [
      ["This node", (c.id || "–") + (c.leads ? ", leads" : "")],
      ["Leader", c.leader || (c.leads ? "this node" : "not known")],
      ["Last heard from leader", c.leads ? "–" : c.contact_ms < 0 ? "never" : span(c.contact_ms) + " ago"],
      ["Still to apply", plural(c.behind, "entry").replace("entrys", "entries")],
      ["Term", whole.format(c.term)],
    ]);
  }

  function rules(s) {
    const all = s.rules || [];
    $("rules-card").hidden = all.length === 0;
    set("rules-title", s.more_rules ? `Rules that limit most, of ${count(all.length + s.more_rules)}` : "Rules");
    if (document.activeElement && document.activeElement.closest("#rules select") || $("sure").open) return; // somebody is choosing
    const heads = [...$("rules").tHead.rows[0].cells].map((c) => c.textContent);
    const namespaces = new Map();
    for (const r of all) namespaces.set(r.namespace, [...(namespaces.get(r.namespace) || []), r]);
    $("rules").replaceChildren($("rules").tHead, ...[...namespaces].map(([name, members]) => make("tbody", { role: "rowgroup" },
      make("tr", { class: "namespace", role: "row" }, make("th", { role: "rowheader", scope: "rowgroup", colspan: heads.length }, name, make("small", {}, checks(s, name)))),
      ...members.map((r) => {
        const mode = s.may_write
          ? make("select", { "aria-label": "Mode of " + r.name, onchange: (e) => changeMode(r, e.target) }, ...["enforce", "shadow", "off"].map((m) => make("option", { selected: m === r.mode }, m)))
          : make("span", { class: "mode " + r.mode }, r.mode);
        const figures = [r.allowed, r.limited, r.shadow, r.near].map((v, i) => make("td", { class: "n", role: "cell", "data-head": heads[i + 2] }, count(v)));
        return make("tr", { role: "row" }, make("th", { role: "rowheader", scope: "row" }, r.name), make("td", { class: "of", role: "cell" }, mode), ...figures);
      }))));
  }

  // checks says how long the checks in a namespace took.
  function checks(s, namespace) {
    const c = s.checks.find((c) => c.namespace === namespace);
    if (!c || !c.count) return "";
    return `${plural(c.count, "check")} in the last minutes: half within ${micros(c.p50)}, 99 of 100 within ${micros(c.p99)}`;
  }

  function account(s) {
    const b = $("account");
    b.hidden = !s.password;
    set("account", "Sign out");
  }

  // --- what people do -----------------------------------------------------------------------------------

  // What these algorithms keep is a time, not a count.
  const timed = new Set(["gcra", "token", "leaky", "queue", "warmup"]);

  async function look(query) {
    const found = $("found");
    try {
      const k = await call("key?" + query);
      if (!k.found) { found.replaceChildren(make("p", { class: "hint" }, "There is no key " + k.text + ". It may have expired: a key is forgotten when its limit is full again.")); return; }
      const rows = [["Key", k.text], ["Algorithm", k.algorithm], ...(timed.has(k.algorithm) ? [] : [["In use", whole.format(k.level)]]), ["Full again in", span(k.resets_in)], ["Memory", bytes(k.memory)]];
      const e = make("dl", {}, ...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, String(value))]));
      found.replaceChildren(e);
      if (last && last.may_write) found.append(resetButton(k));
    } catch (problem) {
      found.replaceChildren(make("p", { class: "wrong" }, problem.message));
    }
  }

  // sure asks whether to go on.
  function sure(title, text, word) {
    set("sure-title", title);
    set("sure-text", text);
    set("sure-yes", word);
    $("sure").returnValue = "no";
    $("sure").showModal();
    return new Promise((done) => { $("sure").onclose = () => done($("sure").returnValue === "yes"); });
  }

  async function reset(k) {
    if (!(await sure("Reset " + k.text + "?", "The server forgets what this key has used. Its caller starts with a full limit.", "Reset"))) return;
    try {
      await call("reset", { id: k.id });
      await look("id=" + k.id);
      refresh();
    } catch (problem) { trouble(problem.message); }
  }

  async function changeMode(r, select) {
    const mode = select.value;
    select.blur();
    if (await sure(`Set ${r.namespace} ${r.name} to ${mode}?`, mode === "enforce" ? "Callers over the limit are denied from now on." : "Nobody is denied by this rule from now on.", "Change")) {
      try { await call("mode", { namespace: r.namespace, rule: r.name, mode }); } catch (problem) { trouble(problem.message); }
    }
    refresh();
  }

  function trouble(text) {
    $("trouble").hidden = !text;
    set("trouble", text || "");
  }

  function showSignIn(on) {
    $("signin").hidden = !on;
    $("figures").hidden = on;
    if (on) { $("account").hidden = true; set("status", "signed out"); $("status").className = "pill"; set("uptime", ""); }
  }

  $("signin").addEventListener("submit", async (e) => {
    e.preventDefault();
    set("signin-error", "");
    try {
      await call("signin", { password: $("password").value });
      $("password").value = "";
      samples = [];
      await refresh();
      $("main").focus();
    } catch (problem) { set("signin-error", problem.message); $("password").select(); }
  });
  $("account").addEventListener("click", async () => {
    try { await call("signout", {}); } catch (problem) { trouble(problem.message); }
    samples = [];
    refresh();
  });
  $("look").addEventListener("submit", (e) => { e.preventDefault(); look("key=" + encodeURIComponent($("key").value)); });
  $("copy").addEventListener("click", async () => {
    try { await navigator.clipboard.writeText($("command").textContent); set("copy", "Copied"); } catch { getSelection().selectAllChildren($("command")); set("copy", "Press Ctrl+C"); }
    setTimeout(() => set("copy", "Copy"), 2000);
  });

  // --- every second -------------------------------------------------------------------------------------

  function show(s) {
    last = s;
    samples = samples.concat(s.samples).slice(-keep);
    showSignIn(false);
    set("version", s.version);
    set("status", s.not_ready || (s.cluster.on && !s.cluster.leads ? "following" : "ready"));
    $("status").className = "pill " + (s.not_ready ? "bad" : "good");
    set("uptime", "up " + span(s.uptime_s * 1000));
    set("command", `redis-cli -p ${s.port} RL.TAKE user:42 GCRA 10/m`);
    $("empty").hidden = s.decisions > 0;
    account(s); tiles(s); top(s); rules(s); log(s); cluster(s); drawAll();
  }

  async function refresh() {
    clearTimeout(timer);
    try {
      const since = samples.length ? samples[samples.length - 1].at : 0;
      show(await call("state?since=" + since));
      trouble("");
    } catch (problem) {
      if (problem.status === 401) { showSignIn(true); trouble(""); } else {
        set("status", "no answer");
        $("status").className = "pill bad";
        trouble("The server does not answer: " + problem.message);
      }
    }
    clearTimeout(timer);
    if ($("signin").hidden) timer = setTimeout(refresh, document.hidden ? 5000 : 1000);
  }
  document.addEventListener("visibilitychange", () => { if (!document.hidden && $("signin").hidden) refresh(); });
  refresh();
})();
