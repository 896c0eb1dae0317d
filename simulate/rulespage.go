package simulate

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"

	"limitdb/internal/chart"
)

// WriteHTML writes the result as a single page that loads nothing and has no scripts. Its tables are sorted by the browser's style
// rules: a row has its place in each order, and the chosen order says which place counts.
func (r *RuleResult) WriteHTML(w io.Writer, p Page) error {
	t, err := template.New("page").Parse(rulesTemplate)
	if err != nil {
		return err
	}
	tables := []sortTable{r.rulesTable(), r.callersTable()}
	if r.holds() {
		tables = slices.Insert(tables, 1, r.heldTable())
	}
	return t.Execute(w, rulesView{
		About: printable(p.About), Command: printable(p.Command), Summary: []string{r.summary()}, Advice: r.hint(),
		Style:  template.CSS(chart.CSS() + pageCSS + sortCSS()),
		Tables: tables,
	})
}

// rulesView is the data of rulesTemplate.
type rulesView struct {
	About, Command string
	Summary        []string
	Advice         string
	Style          template.CSS
	Tables         []sortTable
}

// sortTable is a table whose rows the reader can sort by each column.
type sortTable struct {
	Title, ID string
	None      string // what to say without rows
	First     string // the name of the first order, in which rows are at first
	Head      []string
	Orders    []sortOrder
	Rows      []sortRow
}

// sortOrder is an order that the reader can choose.
type sortOrder struct {
	ID, Class, Name string
	Chosen          bool
}

// sortRow is a row, or the head of a group, which is shown in the first order only.
type sortRow struct {
	Group  string
	Cells  []string
	Places template.CSS

	figures []int64 // of the last cells
}

// maxOrders is the most orders of a table.
const maxOrders = 8

// sortCSS returns the style that puts rows in order: order i goes by the variable --oi.
func sortCSS() string {
	var b strings.Builder
	b.WriteString(sortedCSS)
	for i := range maxOrders {
		fmt.Fprintf(&b, ".by%d:checked~.scroll tbody tr{order:var(--o%d)}\n", i, i)
	}
	return b.String()
}

// place gives each row its place in each order: the order in which it was added, then by each column, texts from A to Z and
// figures from the largest.
func (t *sortTable) place() {
	t.Orders = []sortOrder{{t.ID + "0", "by0", t.First, true}}
	places := make([]strings.Builder, len(t.Rows))
	note := func(order int, at []int) {
		for place, row := range at {
			fmt.Fprintf(&places[row], "--o%d:%d;", order, place+1)
		}
	}
	at := make([]int, len(t.Rows))
	for i := range at {
		at[i] = i
	}
	note(0, at)
	for c, name := range t.Head {
		t.Orders = append(t.Orders, sortOrder{t.ID + strconv.Itoa(c+1), "by" + strconv.Itoa(c+1), name, false})
		sorted := slices.Clone(at)
		slices.SortStableFunc(sorted, func(i, j int) int { return t.Rows[i].compare(&t.Rows[j], c) })
		note(c+1, sorted)
	}
	for i := range t.Rows {
		t.Rows[i].Places = template.CSS(places[i].String())
	}
}

// compare compares two rows by a column. Heads of groups come last.
func (r *sortRow) compare(o *sortRow, column int) int {
	if r.Group != "" || o.Group != "" {
		return cmp.Compare(len(r.Group), len(o.Group))
	}
	texts := len(r.Cells) - len(r.figures)
	if column < texts {
		return cmp.Compare(r.Cells[column], o.Cells[column])
	}
	return cmp.Compare(o.figures[column-texts], r.figures[column-texts])
}

// newRow returns a row of texts and figures.
func newRow(figures []int64, texts ...string) sortRow {
	row := sortRow{figures: figures}
	for _, text := range texts {
		row.Cells = append(row.Cells, printable(text))
	}
	for _, n := range figures {
		row.Cells = append(row.Cells, strconv.FormatInt(n, 10))
	}
	return row
}

func (r *RuleResult) rulesTable() sortTable {
	t := sortTable{Title: "What each rule would have done", ID: "rules", First: "order of the file", Head: ruleHead(), None: "The namespace has no rules."}
	for _, o := range r.Rules {
		t.Rows = append(t.Rows, newRow(o.figures(), o.Name, o.Mode))
	}
	t.place()
	return t
}

func (r *RuleResult) callersTable() sortTable {
	t := sortTable{Title: "Who is denied most", ID: "callers", First: "grouped by rule", Head: append([]string{"caller", "rule"}, ruleHead()[2:]...), None: "No caller was above a limit."}
	for _, o := range r.Rules {
		if len(o.Top) > 0 {
			t.Rows = append(t.Rows, sortRow{Group: printable(o.Name) + ", " + o.Mode})
		}
		for _, c := range o.Top {
			t.Rows = append(t.Rows, newRow(c.figures(), c.Caller, o.Name))
		}
	}
	t.place()
	return t
}

// sortedCSS is the style of tables that are sorted, except for the orders.
const sortedCSS = `.sort{margin:.8rem 0}.sort label{margin:0 .8rem 0 .2rem}.sort input:checked+label{font-weight:600}
.sort table{display:grid;grid-template-columns:minmax(8rem,max-content) repeat(5,max-content)}
.sort thead,.sort tbody{display:contents}.sort tr{display:grid;grid-column:1/-1;grid-template-columns:subgrid}
.sort td.group{grid-column:1/-1;font-weight:600;padding-top:.8rem}.sort tr.group{display:none}.by0:checked~.scroll tr.group{display:grid}
.sort td:nth-child(2):not(:last-child),.sort th:nth-child(2){text-align:left}
`

// rulesTemplate is the page of RuleResult.WriteHTML. html/template escapes what is inserted.
const rulesTemplate = pageTop + `{{if .Advice}}<p>{{.Advice}}</p>
{{end}}
{{range .Tables}}<h2>{{.Title}}</h2>
{{if .Rows}}{{$id := .ID}}<div class="sort" role="group" aria-label="{{.Title}}"><span class="soft">sorted by</span>
{{range .Orders}}<input type="radio" name="{{$id}}" id="{{.ID}}" class="{{.Class}}"{{if .Chosen}} checked{{end}}><label for="{{.ID}}">{{.Name}}</label>
{{end}}<div class="scroll"><table role="table">
<thead role="rowgroup"><tr role="row">{{range .Head}}<th role="columnheader">{{.}}</th>{{end}}</tr></thead>
<tbody role="rowgroup">
{{range .Rows}}<tr role="row" style="{{.Places}}"{{if .Group}} class="group"><td role="cell" class="group">{{.Group}}</td>{{else}}>{{range .Cells}}<td role="cell">{{.}}</td>{{end}}{{end}}</tr>
{{end}}</tbody>
</table></div></div>
{{else}}<p class="soft">{{.None}}</p>
{{end}}{{end}}<footer>
<p>A rule in <b>shadow mode</b> denies nothing: the column has what it would have denied, as the column <b>candidate</b> has it for the limit that is tried
beside the rule's. Of each rule, the ten callers that were most often above a limit are listed.</p>
<p>The trace is replayed as it is: the denied do not come back later than they did.</p>
</footer>
</body>
</html>
`
