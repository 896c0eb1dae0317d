package simulate

// pageCSS is the style of the page, except for its charts.
const pageCSS = `:root{color-scheme:light dark;--ink:#1f2328;--soft:#59636e;--grid:#d8dee4;--bar:#cf222e33;--paper:#fff}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9198a1;--grid:#30363d;--bar:#f8514955;--paper:#0d1117}}
body{max-width:1200px;margin:2rem auto;padding:0 1rem;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","DejaVu Sans",sans-serif}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2.2rem 0 .5rem}p{margin:.3rem 0}
.soft,footer{color:var(--soft)}footer{margin:3rem 0;border-top:1px solid var(--grid);padding-top:1rem;font-size:.9em}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;white-space:nowrap}
th{font-weight:600;text-align:right;vertical-align:bottom}td{text-align:right}
th,td{padding:.25rem .5rem;border-bottom:1px solid var(--grid)}
th:first-child,td:first-child{text-align:left;padding-left:0}
td.bar{background:linear-gradient(var(--bar),var(--bar)) no-repeat left/var(--w) 100%}
td.key{max-width:34rem;overflow:hidden;text-overflow:ellipsis;font-family:ui-monospace,monospace;font-size:.9em}
svg.chart{display:block;width:100%;height:auto;margin:.8rem 0}.narrow{display:none}
@media(max-width:700px){.wide{display:none}.narrow{display:block}body{margin:1rem auto}th,td{padding:.25rem .4rem}}
pre{white-space:pre-wrap;overflow-wrap:anywhere;font-family:ui-monospace,monospace;font-size:.9em;margin:.3rem 0}
h1,p,li,summary{overflow-wrap:anywhere}ul{margin:.3rem 0;padding-left:1.2rem}
details{border-bottom:1px solid var(--grid);padding:.4rem 0}summary{cursor:pointer;font-weight:600}
`

// pageTop begins each page: its head, what was replayed, and by which command.
const pageTop = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>limitdb simulate: {{.About}}</title>
<style>{{.Style}}</style>
</head>
<body>
<h1>limitdb simulate: {{.About}}</h1>
{{range .Summary}}<p class="soft">{{.}}</p>
{{end}}{{if .Command}}<pre class="soft">$ {{.Command}}</pre>
{{end}}`

// pageTemplate is the page of Result.WriteHTML. Charts are inserted as they are; html/template escapes everything
// else.
const pageTemplate = pageTop + `<ul>
{{range .Verdicts}}<li>{{.}}</li>
{{end}}</ul>
{{if .Advice}}<p>{{.Advice}}</p>
{{end}}
<h2>What each limit would have done</h2>
<div class="scroll"><table>
<thead><tr>{{range .Head}}<th colspan="{{.Span}}">{{.Text}}</th>{{end}}</tr></thead>
<tbody>
{{range .Rows}}{{$bar := .Bar}}<tr><td>{{.Name}}</td>{{range $i, $c := .Cells}}<td{{if eq $i 1}} class="bar" style="--w:{{$bar}}%"{{end}}>{{$c}}</td>{{end}}</tr>
{{if .Errors}}<tr><td colspan="9" class="soft">{{.Errors}} could not be decided: {{.Error}}</td></tr>{{end}}{{end}}</tbody>
</table></div>
{{if .Sweeps}}<h2>By the limit</h2>
{{range .Sweeps}}{{.}}{{end}}{{end}}
<h2>Over time</h2>
{{.Strips}}
{{if .Wait}}<h2>How long the denied are told to wait</h2>
{{.Wait}}{{end}}
{{if .Panels}}<h2>Who is denied most</h2>
{{end}}{{range .Panels}}<details{{if .Open}} open{{end}}><summary>{{.Name}}</summary>
<p class="soft">{{.Peak}}</p>
<div class="scroll"><table>
<thead><tr><th>caller</th><th>requests</th><th>denied</th><th>share</th></tr></thead>
<tbody>
{{range .Top}}<tr><td class="key">{{.Caller}}</td><td>{{.Requests}}</td><td>{{.Denied}}</td><td class="bar" style="--w:{{.Bar}}%">{{.Share}}</td></tr>
{{end}}</tbody>
</table></div>
</details>
{{end}}{{if .Left}}<p class="soft">The last {{.Left}} limits are in the first table only.</p>{{end}}
<footer>
<p><b>Denied</b> requests are told how long to <b>wait</b>; with no other traffic the same request is then let through.
The trace is replayed as it is: the denied do not come back later than they did.</p>
<p><b>Affected</b> are callers who were denied at least once. The <b>peak</b> is the most that one caller was admitted in any
window of the given length, wherever it begins. Medians are to three digits.</p>
{{if .Holds}}<p>A request takes its estimate, which is <b>held</b> until its cost is known: what was too much is <b>returned</b>, as far as it still counts, and what was too
little is charged, also <b>over</b> the limit. <b>Expired</b> are requests whose cost was not known in time. The peak is of estimates.</p>
{{end}}</footer>
</body>
</html>
`
