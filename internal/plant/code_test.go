package plant

import (
	"strings"
	"testing"
)

const sound = `package p

import "fmt"

// none has no bug.
func none() { fmt.Println("none") }

// Sum has two.
func (t *tally) Sum(first int, _, c string, rest ...int) (n int, err error) {
	return first + len(rest), nil
}

func done() {
	close(over)
}
`

func TestPlantAll(t *testing.T) {
	planted, name, err := plantAll([]byte(sound), []Bug{
		{Name: "less", From: "first + len(rest)", To: "first - len(rest)"},
		{Name: "never", From: "	close(over)\n", To: ""},
		{Name: "named", From: "(t *tally) Sum(first int, _, c", To: "(*tally) Sum(first int, b, c"},
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = `package p

import "fmt"

// none has no bug.
func none() { fmt.Println("none") }

// Sum has two.
func (plantReceiver *tally) Sum(plant0 int, plant1 string, plant2 string, plant3 ...int) (n int, err error) {
	switch plantChosen {
	case "less":
		return plantReceiver.Sum__1(plant0, plant1, plant2, plant3...)
	case "named":
		return plantReceiver.Sum__2(plant0, plant1, plant2, plant3...)
	default:
		return plantReceiver.Sum__0(plant0, plant1, plant2, plant3...)
	}
}

func (t *tally) Sum__0(first int, _, c string, rest ...int) (n int, err error) {
	return first + len(rest), nil
}

func (t *tally) Sum__1(first int, _, c string, rest ...int) (n int, err error) {
	return first - len(rest), nil
}

func (*tally) Sum__2(first int, b, c string, rest ...int) (n int, err error) {
	return first + len(rest), nil
}


func done() {
	switch plantChosen {
	case "never":
		done__1()
	default:
		done__0()
	}
}

func done__0() {
	close(over)
}

func done__1() {
}

`
	if string(planted) != want || name != "p" {
		t.Errorf("package %s:\n%s", name, planted)
	}
}

func TestBugsThatCannotBePlanted(t *testing.T) {
	for _, c := range []struct {
		from, to, want string
	}{
		{"nowhere", "", "the file has the place 0 times"},
		{"fmt", "", "the file has the place 2 times"},
		{"first + len", "first +) len", "expected"},
		{"func done() {\n	close(over)\n}\n", "", "a declaration is added or removed"},
		{"import \"fmt\"", "import \"fmt2\"", "it is not in a function"},
		{"none()", "none[T any]()", "it is not in a function without type parameters"},
		{"has no bug", "has a bug", "nothing changes"},
	} {
		_, _, err := plantAll([]byte(sound), []Bug{{Name: "b", From: c.from, To: c.to}})
		if err == nil || !strings.Contains(err.Error(), "b: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.from, err, c.want)
		}
	}
}
