// The differences between two texts, line by line.
import { make } from "./page.js";

// differences returns a list of lines: those that go, those that come, and those that stay.
export function differences(before, after) {
  const a = before.replace(/\n$/, "").split("\n"), b = after.replace(/\n$/, "").split("\n");
  const rows = [];
  if (a.length * b.length > 1e6) rows.push(["gone", before], ["new", after]);
  else {
    // long[i][j] is the length of the longest common part of what follows line i of a and line j of b.
    const long = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
    for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) long[i][j] = a[i] === b[j] ? long[i + 1][j + 1] + 1 : Math.max(long[i + 1][j], long[i][j + 1]);
    for (let i = 0, j = 0; i < a.length || j < b.length;) {
      if (i < a.length && j < b.length && a[i] === b[j]) { rows.push(["same", a[i]]); i++; j++; } else if (j >= b.length || (i < a.length && long[i + 1][j] >= long[i][j + 1])) rows.push(["gone", a[i++]]);
      else rows.push(["new", b[j++]]);
    }
  }
  const said = { gone: "goes: ", new: "comes: ", same: "" };
  return make("pre", { class: "source diff", tabindex: "0", "aria-label": "Differences" }, rows.map(([kind, line]) =>
    make("span", { class: kind }, make("span", { class: "hidden" }, said[kind]), { gone: "− ", new: "+ ", same: "  " }[kind] + line + "\n")));
}
