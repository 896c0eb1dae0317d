package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// object reads a JSON object strictly: a field that is unknown, given twice or of another type is an error,
// and so is anything behind the object. Errors name the line and the column.
type object struct {
	dec  *json.Decoder
	body []byte
	at   int // where the token begins that was read last
}

// field reads the value of one field of an object.
type field func(o *object, name string) error

// readObject reads the object in body, whose fields are these.
func readObject(body []byte, fields map[string]field) error {
	o := &object{dec: json.NewDecoder(bytes.NewReader(body)), body: body}
	o.dec.UseNumber()
	err := o.fields(func(name string) field { return fields[name] })
	if err != nil {
		return err
	}
	if _, err := o.next(); !errors.Is(err, io.EOF) {
		return o.wrong("there is more after the object")
	}
	return nil
}

// text, integer and boolean read a field into a variable.
func text(to *string) field {
	return func(o *object, name string) (err error) { *to, err = o.text(name); return err }
}

func integer(to *int64) field {
	return func(o *object, name string) (err error) { *to, err = o.integer(name); return err }
}

func boolean(to *bool) field {
	return func(o *object, name string) (err error) { *to, err = o.boolean(name); return err }
}

// fields reads an object. of returns what reads a field of that name, or nil if there is no such field.
func (o *object) fields(of func(name string) field) error {
	t, err := o.token()
	if err != nil {
		return err
	}
	if t != json.Delim('{') {
		return o.wrong("an object is expected")
	}
	seen := map[string]bool{}
	for o.dec.More() {
		name, err := o.text("a name")
		if err != nil {
			return err
		}
		if seen[name] {
			return o.wrong("%s is given twice", clip(name))
		}
		seen[name] = true
		read := of(name)
		if read == nil {
			return o.wrong("there is no field %s", clip(name))
		}
		if err := read(o, name); err != nil {
			return err
		}
	}
	_, err = o.token()
	return err
}

// text reads a string. It refuses strings with characters that are not Unicode, and the replacement
// character: different strings would become the same.
func (o *object) text(what string) (string, error) {
	t, err := o.token()
	if err != nil {
		return "", err
	}
	s, ok := t.(string)
	switch {
	case !ok:
		return "", o.wrong("%s must be a string", what)
	case strings.ContainsRune(s, '\uFFFD'):
		return "", o.wrong("%s is not Unicode", what)
	}
	return s, nil
}

// integer reads a whole number of 0 or more.
func (o *object) integer(what string) (int64, error) {
	t, err := o.token()
	if err != nil {
		return 0, err
	}
	n, isNumber := t.(json.Number)
	i, err := strconv.ParseInt(string(n), 10, 64)
	if !isNumber || err != nil || i < 0 {
		return 0, o.wrong("%s must be a whole number from 0 to %d", what, math.MaxInt64)
	}
	return i, nil
}

// boolean reads true or false.
func (o *object) boolean(what string) (bool, error) {
	t, err := o.token()
	if err != nil {
		return false, err
	}
	b, ok := t.(bool)
	if !ok {
		return false, o.wrong("%s must be true or false", what)
	}
	return b, nil
}

// texts reads an object whose fields are strings, in the order in which they come.
func (o *object) texts(what string) (pairs []string, err error) {
	pair := func(o *object, name string) error {
		value, err := o.text(what + " " + clip(name))
		pairs = append(pairs, name, value)
		return err
	}
	err = o.fields(func(string) field { return pair })
	return pairs, err
}

// next reads a token, and notes where it begins.
func (o *object) next() (json.Token, error) {
	o.at = len(o.body) - len(bytes.TrimLeft(o.body[o.dec.InputOffset():], " \t\r\n,:"))
	return o.dec.Token()
}

// token reads a token. Its error names the place.
func (o *object) token() (json.Token, error) {
	t, err := o.next()
	if err != nil {
		syntax := new(json.SyntaxError)
		switch {
		case errors.As(err, &syntax):
			return nil, o.wrong("%s", strings.TrimPrefix(syntax.Error(), "json: "))
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, o.wrong("the JSON ends too early")
		}
		return nil, o.wrong("%s", err)
	}
	return t, nil
}

// wrong returns an error with the place of the token that was read last.
func (o *object) wrong(format string, args ...any) error {
	before := o.body[:o.at]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return invalid("line %d, column %d: %s", line, column, fmt.Sprintf(format, args...))
}
